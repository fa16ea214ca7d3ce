//! Faults of the cache that were found by looking for them.

#![cfg(all(unix, feature = "testing", feature = "cache"))]

mod support;

use std::time::Duration;

use redefer::cache::{CacheConfig, Cached};
use redefer::{Config, Protocol, Result, prelude::*};
use support::Private;

fn config(server: &Private) -> Config {
    support::config(server).protocol(Protocol::Resp3)
}

#[test]
fn a_reply_behind_a_large_one_that_is_skipped_is_kept_whole() -> Result<()> {
    let server = support::server();
    let other = support::open(&server);
    let cached = Cached::open(config(&server), CacheConfig::new())?;
    other.rpush("large", (0..200_000).collect::<Vec<i64>>()).wait()?;
    other.rpush("small", [1, 2, 3]).wait()?;
    other.set("text", "abc").wait()?;
    for _ in 0..2 {
        cached.lrange::<i64>("large", 0, -1).detach();
        let small: Vec<i64> = cached.lrange("small", 0, -1).wait()?;
        assert_eq!(small, [1, 2, 3]);
        cached.lrange::<i64>("large", 0, -2).detach();
        let mut text = Vec::new();
        cached.get::<Vec<u8>>("text").copy_to(&mut text)?;
        assert_eq!(text, b"abc");
    }
    Ok(())
}

#[test]
fn what_is_too_large_to_be_kept_is_read_piece_by_piece() -> Result<()> {
    let server = support::server();
    let other = support::open(&server);
    let cached = Cached::open(config(&server), CacheConfig::new().bytes(100_000))?;
    other.rpush("large", (0..200_000).collect::<Vec<i64>>()).wait()?;
    other.set("text", vec![7; 3_000_000]).wait()?;
    for _ in 0..2 {
        let large: Vec<i64> = cached.lrange("large", 0, -1).wait()?;
        assert!(large.into_iter().eq(0..200_000));
        let mut text = Vec::new();
        assert_eq!(cached.get::<Vec<u8>>("text").copy_to(&mut text)?, 3_000_000);
        assert_eq!(text, vec![7; 3_000_000]);
        assert_eq!(cached.get::<Vec<u8>>("text").wait()?.len(), 3_000_000);
        assert_eq!(cached.incr("n").wait()? % 2, cached.get::<i64>("n").wait()? % 2);
    }
    assert_eq!(cached.cache_stats().entries, 1);
    Ok(())
}

#[test]
fn nothing_is_answered_from_memory_behind_a_nested_loan() -> Result<()> {
    let server = support::server();
    let cached = Cached::open(config(&server), CacheConfig::new().no_loop())?;
    cached.uncached(|conn| {
        cached.uncached(|_| Ok(()))?;
        conn.set("k", 1).wait()?;
        assert_eq!(cached.get::<i64>("k").wait()?, 1);
        conn.set("k", 2).wait()?;
        assert_eq!(cached.get::<i64>("k").wait()?, 2);
        Ok(())
    })?;
    assert_eq!(cached.get::<i64>("k").wait()?, 2);
    Ok(())
}

#[test]
fn what_counts_a_hyperloglog_may_change_it() -> Result<()> {
    let server = support::server();
    let cached = Cached::open(config(&server), CacheConfig::new().no_loop())?;
    cached.pfadd("h", ["a", "b"]).wait()?;
    let before: Vec<u8> = cached.get("h").wait()?;
    // The server notes the count in the value.
    assert_eq!(cached.pfcount("h").wait()?, 2);
    let behind: Vec<u8> = cached.get("h").wait()?;
    assert_ne!(before, behind);
    Ok(())
}

#[test]
fn a_permit_that_is_refused_before_its_command_is_sent_counts() -> Result<()> {
    let server = support::server();
    let admin = support::open(&server);
    admin.command::<()>("ACL SETUSER", ("u", "on", ">p", "+@all", "-client|caching", "allkeys")).wait()?;
    let other = support::open(&server);
    for most in [1, 2, 100] {
        other.set("k", 1).wait()?;
        let config = config(&server).user("u").password("p").max_outstanding(most);
        let cached = Cached::open(config, CacheConfig::new().opt_in())?;
        assert_eq!(cached.opted_in().get::<i64>("k").wait()?, 1);
        other.set("k", 2).wait()?;
        cached.ping().wait()?;
        assert_eq!(cached.opted_in().get::<i64>("k").wait()?, 2, "{most}");
    }
    Ok(())
}

#[test]
fn replies_that_share_keys_are_found_and_let_go_one_by_one() -> Result<()> {
    const FIELDS: u64 = 20_000;
    let server = support::server();
    let other = support::open(&server);
    let cached = Cached::open(config(&server), CacheConfig::new().entries(FIELDS as usize).bytes(1 << 30))?;
    // With a list of the replies of one key, or of two, this takes minutes.
    for n in 0..3 * FIELDS {
        cached.hget::<Option<i64>>("h", n).detach();
    }
    cached.ping().wait()?;
    assert_eq!(cached.cache_stats().entries, FIELDS);
    other.hset("h", [(3 * FIELDS - 1, 1)]).wait()?;
    cached.ping().wait()?;
    assert_eq!(cached.cache_stats().entries, 0);
    for n in 0..FIELDS {
        cached.mget::<Option<i64>>(["a".to_owned(), "b".to_owned(), n.to_string()]).detach();
    }
    cached.ping().wait()?;
    assert_eq!(cached.cache_stats().entries, FIELDS);
    // One read that is on its way behind all of these.
    let read = cached.get::<Option<i64>>("c");
    for n in 0..2 * FIELDS {
        cached.set(n, n).detach();
    }
    assert!(cached.cache_stats().entries <= 1, "each of these has a key that was written");
    assert_eq!(read.wait()?, None);
    Ok(())
}

/// Keys that are past their time, and that the server has not looked for.
#[test]
fn a_key_that_expires_when_it_is_asked_for_is_forgotten() -> Result<()> {
    let server = support::server_with([("enable-debug-command", "yes")]);
    let other = support::open(&server);
    other.command::<()>("DEBUG SET-ACTIVE-EXPIRE", 0).wait()?;
    type Probe = fn(&Cached) -> Result<()>;
    let probes: [(&str, Probe); 9] = [
        ("get", |on| on.opted_in().get::<Value>("e").wait().map(drop)),
        ("get, not kept", |on| on.get::<Value>("e").wait().map(drop)),
        ("mget", |on| on.opted_in().mget::<Value>(["a", "e"]).wait::<Vec<_>>().map(drop)),
        ("type", |on| on.opted_in().type_("e").wait().map(drop)),
        ("ttl", |on| on.ttl("e").wait().map(drop)),
        ("touch", |on| on.touch(["a", "e"]).wait().map(drop)),
        ("getrange", |on| on.opted_in().getrange::<Value>("e", 0, -1).wait().map(drop)),
        ("lrange", |on| on.opted_in().lrange::<Value>("e", 0, -1).wait::<Vec<_>>().map(drop)),
        ("script", |on| on.eval_ro::<Value>("return redis.call('GET', 'e')", [""; 0], [""; 0]).wait().map(drop)),
    ];
    let modes = [
        CacheConfig::new(),
        CacheConfig::new().no_loop(),
        CacheConfig::new().opt_in().no_loop(),
        CacheConfig::new().broadcast([""; 0]).no_loop(),
    ];
    for mode in modes {
        let cached = Cached::open(config(&server), mode.clone())?;
        cached.set("a", 1).wait()?;
        for (what, probe) in probes {
            cached.psetex("e", Duration::from_millis(5), 1).wait()?;
            let _ = cached.opted_in().exists("e").wait()?;
            // Whoever asks for the key makes it go.
            let set = other.time().wait()?;
            let over = set + Duration::from_millis(10);
            support::until("its time is over", || Ok(other.time().wait()? > over))?;
            probe(&cached)?;
            cached.ping().wait()?;
            assert_eq!(cached.opted_in().exists("e").wait()?, 0, "{what}, {mode:?}");
        }
    }
    Ok(())
}
