//! Keys spread over several real servers.

#![cfg(feature = "testing")]

mod support;

use redefer::{Error, Result, Ring, prelude::*};

#[test]
fn each_key_is_on_one_server_and_found_there() -> Result<()> {
    let servers = [support::server(), support::server(), support::server()];
    let named = || ["a", "b", "c"].into_iter().zip(servers.iter().map(|server| support::config(server)));
    let ring = Ring::open(named())?;
    let replies: Vec<_> = (0..3000).map(|n| ring.set(format!("key:{n}"), n)).collect();
    for reply in replies {
        reply.wait()?;
    }
    let counts: Vec<i64> = ring.connections().map(|conn| conn.dbsize().wait()).collect::<Result<_>>()?;
    assert_eq!(counts.iter().sum::<i64>(), 3000);
    assert!(counts.iter().all(|count| (600..1500).contains(count)), "{counts:?}");
    // In any order, over all of them.
    let mut replies: Vec<_> = (0..3000).map(|n| (n, ring.get::<i64>(format!("key:{n}")))).collect();
    while let Some((n, reply)) = replies.pop() {
        assert_eq!(reply.wait()?, n);
    }
    // The order in which the servers are given does not matter, and neither does how a key is given.
    let other = Ring::open(named().collect::<Vec<_>>().into_iter().rev())?;
    for n in 0..100 {
        other.rpush(n, ["x", "y"]).wait()?;
        assert_eq!(ring.at(n).llen(n).wait()?, 2);
        assert_eq!(ring.lrange::<String>(n.to_string(), 0, -1).wait::<Vec<_>>()?, ["x", "y"]);
    }
    Ok(())
}

#[test]
fn what_has_no_one_place_is_refused_and_nothing_is_sent() -> Result<()> {
    let servers = [support::server(), support::server()];
    let ring = Ring::open([("a", support::config(&servers[0])), ("b", support::config(&servers[1]))])?;
    let keys: Vec<String> = (0..100).map(|n| format!("key:{n}")).collect();
    assert!(matches!(ring.mget::<Option<i64>>(&keys).wait::<Vec<_>>(), Err(Error::Refused(_))));
    assert!(matches!(ring.dbsize().wait(), Err(Error::Refused(_))));
    assert!(matches!(ring.command::<()>("GET", "k").wait(), Err(Error::Refused(_))));
    assert!(matches!(ring.del([""; 0]).wait(), Err(Error::Argument(_))));
    assert!(ring.connections().all(|conn| conn.stats().commands == 0));
    // Keys that share what is in braces are together.
    let together: Vec<String> = (0..100).map(|n| format!("{{user}}:{n}")).collect();
    ring.mset(together.iter().map(|key| (key, 1)).collect::<Vec<_>>()).wait()?;
    assert_eq!(ring.exists(&together).wait()?, 100);

    assert!(matches!(Ring::open([("a", "redis://h"), ("a", "redis://h")]), Err(Error::Config(_))));
    assert!(matches!(Ring::open([("a", ""); 0]), Err(Error::Config(_))));
    Ok(())
}
