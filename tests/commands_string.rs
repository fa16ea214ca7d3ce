//! The commands on strings, each on a real server.

#![cfg(feature = "testing")]

mod support;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use redefer::Result;
use redefer::commands::{GetExpiry, LcsOptions, MsetexOptions, Pttl, SetExpiry, SetOptions, ValueCondition};
use redefer::prelude::*;

const MINUTE: Duration = Duration::from_secs(60);

/// Whether the server knows a command.
fn has(conn: &Connection, command: &str) -> Result<bool> {
    let info: Vec<Value> = conn.command("COMMAND", ("INFO", command)).wait()?;
    Ok(info.first().is_some_and(|entry| !entry.is_nil()))
}

/// Whether the key expires within a minute, and not at once. A time of day is rounded up to a millisecond.
fn expires(conn: &Connection, key: &str) -> Result<bool> {
    Ok(
        matches!(conn.pttl(key).wait()?, Pttl::In(time) if time > MINUTE / 2 && time <= MINUTE + Duration::from_millis(1)),
    )
}

#[test]
fn a_value_is_set_and_read() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set("k", "v").wait()?;
    assert_eq!(conn.get::<String>("k").wait()?, "v");
    assert_eq!(conn.get::<Option<String>>("none").wait()?, None);
    assert!(matches!(conn.get::<String>("none").wait(), Err(Error::Nil)));
    assert_eq!(conn.append("k", "w").wait()?, 2);
    assert_eq!(conn.strlen("k").wait()?, 2);
    assert_eq!(conn.strlen("none").wait()?, 0);
    assert_eq!(conn.setrange("k", 1, "xyz").wait()?, 4);
    assert_eq!(conn.getrange::<String>("k", 1, -2).wait()?, "xy");
    assert_eq!(conn.getrange::<String>("none", 0, -1).wait()?, "");
    assert_eq!(conn.substr::<String>("k", 0, 0).wait()?, "v");
    assert_eq!(conn.getset::<String>("k", [0, 255, 13, 10]).wait()?, "vxyz");
    assert_eq!(conn.getdel::<Vec<u8>>("k").wait()?, [0, 255, 13, 10]);
    assert_eq!(conn.getdel::<Option<String>>("k").wait()?, None);
    conn.command::<i64>("LPUSH", ("list", "x")).wait()?;
    assert_eq!(conn.get::<String>("list").wait().unwrap_err().code(), Some("WRONGTYPE"));
    Ok(())
}

#[test]
fn counters_count() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    assert_eq!(conn.incr("n").wait()?, 1);
    assert_eq!(conn.incrby("n", 41).wait()?, 42);
    assert_eq!(conn.decr("n").wait()?, 41);
    assert_eq!(conn.decrby("n", 45).wait()?, -4);
    assert_eq!(conn.incrbyfloat("n", 1.5).wait()?, -2.5);
    assert_eq!(conn.incrbyfloat("big", 1e300).wait()?, 1e300);
    assert_eq!(conn.get::<f64>("n").wait()?, -2.5);
    assert!(conn.incr("n").wait().unwrap_err().as_server_error().is_some());
    Ok(())
}

#[test]
fn several_keys_are_set_and_read_at_once() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.mset([("a", 1), ("b", 2)]).wait()?;
    conn.mset(BTreeMap::from([("c", 3)])).wait()?;
    conn.mset(args::each((4..6).map(|n| (n, n)))).wait()?;
    let values: Vec<Option<i64>> = conn.mget(["a", "none", "c", "5"]).wait()?;
    assert_eq!(values, [Some(1), None, Some(3), Some(5)]);
    assert!(!conn.msetnx([("d", 1), ("a", 9)]).wait()?);
    assert!(conn.msetnx(("d", 1)).wait()?);
    assert!(matches!(conn.mset(Vec::<(String, String)>::new()).wait(), Err(Error::Argument(_))));
    Ok(())
}

#[test]
fn a_set_under_a_condition_says_whether_it_happened() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let set = SetOptions::new();
    assert_eq!(conn.set_with("k", 1, set.clone().xx()).wait()?, None);
    assert_eq!(conn.set_with("k", 1, set.clone().nx()).wait()?, Some(()));
    assert_eq!(conn.set_with("k", 2, set.clone().nx()).wait()?, None);
    assert_eq!(conn.set_with("k", 3, set.clone().xx()).wait()?, Some(()));
    assert_eq!(conn.set_with("k", 4, set.clone()).wait()?, Some(()));
    assert!(!conn.setnx("k", 5).wait()?);
    assert!(conn.setnx("new", 5).wait()?);
    assert_eq!(conn.set_get::<Option<i64>>("k", 5).wait()?, Some(4));
    assert_eq!(conn.set_get::<Option<i64>>("none", 1).wait()?, None);
    assert_eq!(conn.set_get_with::<Option<i64>>("missing", 6, set.clone().xx()).wait()?, None);
    if server.version() >= (7, 0, 0) {
        assert_eq!(conn.set_get_with::<Option<i64>>("k", 6, set.nx()).wait()?, Some(5));
        assert_eq!(conn.get::<i64>("k").wait()?, 5, "it was not set");
    }
    Ok(())
}

#[test]
fn a_set_can_depend_on_the_value() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let compares = match server.name() {
        "valkey" => server.version() >= (8, 1, 0),
        _ => server.version() >= (8, 4, 0),
    };
    if !compares {
        return Ok(());
    }
    let if_value = |condition| SetOptions::new().if_value(condition);
    conn.set("k", "v").wait()?;
    assert_eq!(conn.set_with("k", "w", if_value(ValueCondition::equals("x"))).wait()?, None);
    assert_eq!(conn.set_with("k", "w", if_value(ValueCondition::equals("v"))).wait()?, Some(()));
    let before: Option<String> = conn.set_get_with("k", "x", if_value(ValueCondition::equals("zz"))).wait()?;
    assert_eq!(before.as_deref(), Some("w"));
    if has(&conn, "DELIFEQ")? {
        assert!(!conn.delifeq("k", "x").wait()?);
        assert!(conn.delifeq("k", "w").wait()?);
        assert!(!conn.delifeq("none", "x").wait()?);
    }
    if has(&conn, "DELEX")? {
        conn.set("k", "v").wait()?;
        let digest = conn.digest("k").wait()?.expect("there is such a key");
        assert_eq!((digest.len(), conn.digest("none").wait()?), (16, None));
        assert_eq!(conn.set_with("k", "v", if_value(ValueCondition::differs("v"))).wait()?, None);
        assert_eq!(conn.set_with("k", "v", if_value(ValueCondition::digest_differs(&digest))).wait()?, None);
        assert_eq!(conn.set_with("k", "v", if_value(ValueCondition::digest_equals(&digest))).wait()?, Some(()));
        assert!(!conn.delex_with("k", ValueCondition::differs("v")).wait()?);
        assert!(conn.delex_with("k", ValueCondition::digest_equals(&digest)).wait()?);
        assert!(!conn.delex("k").wait()?);
    }
    Ok(())
}

#[test]
fn a_set_can_expire() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let set = SetOptions::new();
    let later = SystemTime::now() + MINUTE;
    for expiry in [SetExpiry::from(MINUTE), SetExpiry::In(MINUTE), SetExpiry::At(later), later.into()] {
        conn.set("k", 0).wait()?;
        conn.set_with("k", 1, set.clone().expiry(expiry)).wait()?;
        assert!(expires(&conn, "k")?, "{expiry:?}");
    }
    conn.set_with("k", 2, set.clone().expiry(SetExpiry::KeepTtl)).wait()?;
    assert!(expires(&conn, "k")?);
    conn.set("k", 3).wait()?;
    assert_eq!(conn.pttl("k").wait()?, Pttl::NoExpiry);
    conn.set_with("k", 4, set.clone().xx().expiry(SystemTime::now() + MINUTE)).wait()?;
    assert!(expires(&conn, "k")?);
    conn.setex("s", MINUTE, 1).wait()?;
    conn.psetex("ms", MINUTE, 1).wait()?;
    assert!(expires(&conn, "s")? && expires(&conn, "ms")?);
    assert!(conn.setex("s", Duration::ZERO, 1).wait().is_err());
    conn.set_with("soon", 1, set.expiry(Duration::from_nanos(1))).wait()?;
    Ok(())
}

#[test]
fn reading_can_change_the_expiry() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set("k", "v").wait()?;
    assert_eq!(conn.getex::<String>("k", MINUTE).wait()?, "v");
    assert!(expires(&conn, "k")?);
    assert_eq!(conn.getex::<String>("k", GetExpiry::Persist).wait()?, "v");
    assert_eq!(conn.pttl("k").wait()?, Pttl::NoExpiry);
    let later = SystemTime::now() + MINUTE;
    for expiry in [GetExpiry::In(MINUTE), GetExpiry::At(later), later.into()] {
        conn.persist("k").wait()?;
        assert_eq!(conn.getex::<String>("k", expiry).wait()?, "v");
        assert!(expires(&conn, "k")?, "{expiry:?}");
    }
    assert_eq!(conn.getex::<Option<String>>("none", MINUTE).wait()?, None);
    Ok(())
}

#[test]
fn several_keys_can_expire_together() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    if !has(&conn, "MSETEX")? {
        return Ok(());
    }
    assert!(conn.msetex([("a", 1), ("b", 2)], MINUTE).wait()?);
    assert!(expires(&conn, "a")? && expires(&conn, "b")?);
    assert!(!conn.msetex_with([("b", 3), ("c", 3)], MsetexOptions::new().nx()).wait()?);
    let keep = MsetexOptions::new().xx().expiry(SetExpiry::KeepTtl);
    assert!(conn.msetex_with(args::each([("a", 4), ("b", 4)]), keep).wait()?);
    assert!(conn.msetex(("c", 5), SystemTime::now() + MINUTE).wait()?);
    assert!(expires(&conn, "a")? && expires(&conn, "c")?);
    assert_eq!(conn.mget::<i64>(["a", "b", "c"]).wait::<Vec<_>>()?, [4, 4, 5]);
    Ok(())
}

#[test]
fn a_common_subsequence_is_found() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    if !has(&conn, "LCS")? {
        return Ok(());
    }
    conn.mset([("a", "ohmytext"), ("b", "mynewtext")]).wait()?;
    assert_eq!(conn.lcs::<String>("a", "b").wait()?, "mytext");
    assert_eq!(conn.lcs::<String>("none", "b").wait()?, "");
    assert_eq!(conn.lcs_len("a", "b").wait()?, 6);

    let found = conn.lcs_idx("a", "b").wait()?;
    assert_eq!((found.len, found.matches.len()), (6, 2));
    assert_eq!((&found.matches[0].first, &found.matches[0].second, found.matches[0].len), (&(4..=7), &(5..=8), None));
    assert_eq!((&found.matches[1].first, &found.matches[1].second), (&(2..=3), &(0..=1)));

    let found = conn.lcs_idx_with("a", "b", LcsOptions::new().min_match_len(4).with_match_len()).wait()?;
    assert_eq!((found.len, found.matches.len(), found.matches[0].len), (6, 1, Some(4)));
    let found = conn.lcs_idx("none", "b").wait()?;
    assert_eq!((found.len, found.matches.len()), (0, 0));
    Ok(())
}

#[test]
fn a_list_of_pairs_that_fails_sends_nothing() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let before = conn.stats();
    let pairs = || args::try_each([Ok(("a", 1)), Err(Error::custom("no more")), Ok(("b", 2))]);
    assert!(matches!(conn.msetex(pairs(), std::time::Duration::from_secs(9)).wait(), Err(Error::Custom(_))));
    assert!(matches!(conn.mset(pairs()).wait(), Err(Error::Custom(_))));
    assert_eq!(conn.stats(), before);
    Ok(())
}
