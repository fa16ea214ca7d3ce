//! Commands on sets, against a real server.
#![cfg(feature = "testing")]

mod support;

use std::collections::{BTreeSet, HashSet};

use redefer::Result;
use redefer::prelude::*;

fn set<const N: usize>(members: [&str; N]) -> BTreeSet<String> {
    members.into_iter().map(String::from).collect()
}

#[test]
fn members_are_added_asked_for_and_removed() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    assert_eq!(conn.sadd("s", ["a", "b", "a"]).wait()?, 2);
    assert_eq!(conn.sadd("s", (1, "b")).wait()?, 1);
    assert_eq!(conn.scard("s").wait()?, 3);
    assert_eq!(conn.scard("none").wait()?, 0);
    assert!(conn.sismember("s", "a").wait()?);
    assert!(!conn.sismember("s", "zz").wait()?);
    assert_eq!(conn.smismember("s", ("a", "zz", 1)).wait::<Vec<bool>>()?, [true, false, true]);
    assert_eq!(conn.smismember("none", "a").wait::<Vec<bool>>()?, [false]);
    assert_eq!(conn.smembers("s").wait::<BTreeSet<String>>()?, set(["1", "a", "b"]));
    assert_eq!(conn.smembers("none").wait::<HashSet<String>>()?, HashSet::new());
    assert_eq!(conn.srem("s", ["a", "zz"]).wait()?, 1);
    assert!(conn.smove("s", "t", "b").wait()?);
    assert!(!conn.smove("s", "t", "zz").wait()?);
    assert_eq!(conn.smembers("t").wait::<Vec<String>>()?, ["b"]);
    assert!(matches!(conn.sadd("s", ()).wait(), Err(Error::Argument(_))));
    Ok(())
}

#[test]
fn members_come_at_random() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let members = set(["a", "b", "c", "d", "e"]);
    conn.sadd("s", &members).wait()?;
    assert!(members.contains(&conn.srandmember::<String>("s").wait()?));
    assert_eq!(conn.srandmember::<Option<String>>("none").wait()?, None);
    let some: BTreeSet<String> = conn.srandmember_count("s", 3).wait()?;
    assert!(some.len() == 3 && some.is_subset(&members));
    assert_eq!(conn.srandmember_count::<String>("s", -9).wait::<Vec<_>>()?.len(), 9);
    assert_eq!(conn.srandmember_count::<String>("none", 2).wait::<Vec<_>>()?.len(), 0);

    let one: String = conn.spop("s").wait()?;
    let two: BTreeSet<String> = conn.spop_count("s", 2).wait()?;
    let rest: BTreeSet<String> = conn.spop_count("s", 9).wait()?;
    assert_eq!((two.len(), rest.len()), (2, 2));
    let taken: BTreeSet<String> = two.into_iter().chain(rest).chain([one]).collect();
    assert_eq!(taken, members);
    assert_eq!(conn.spop::<Option<String>>("s").wait()?, None);
    assert_eq!(conn.spop_count::<String>("s", 1).wait::<Vec<_>>()?.len(), 0);
    Ok(())
}

#[test]
fn sets_are_combined() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.sadd("s", ["a", "b", "c"]).wait()?;
    conn.sadd("t", ["b", "c", "d"]).wait()?;
    let keys = ["s", "t"];
    assert_eq!(conn.sdiff(keys).wait::<BTreeSet<String>>()?, set(["a"]));
    assert_eq!(conn.sinter(keys).wait::<BTreeSet<String>>()?, set(["b", "c"]));
    assert_eq!(conn.sunion(keys).wait::<BTreeSet<String>>()?, set(["a", "b", "c", "d"]));
    assert_eq!(conn.sinter(["s", "none"]).wait::<BTreeSet<String>>()?, set([]));
    assert_eq!(conn.sintercard(keys).wait()?, 2);
    assert_eq!(conn.sintercard_limit(keys, 1).wait()?, 1);
    assert_eq!(conn.sdiffstore("d", keys).wait()?, 1);
    assert_eq!(conn.smembers("d").wait::<BTreeSet<String>>()?, set(["a"]));
    assert_eq!(conn.sinterstore("d", keys).wait()?, 2);
    assert_eq!(conn.smembers("d").wait::<BTreeSet<String>>()?, set(["b", "c"]));
    assert_eq!(conn.sunionstore("d", keys).wait()?, 4);
    assert_eq!(conn.smembers("d").wait::<BTreeSet<String>>()?, set(["a", "b", "c", "d"]));
    Ok(())
}
