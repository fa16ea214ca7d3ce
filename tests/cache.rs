//! Client-side caching on a real server.

#![cfg(all(feature = "testing", feature = "cache"))]

mod support;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use redefer::cache::{CacheConfig, Cached};
use redefer::{Config, Error, Protocol, Reconnect, Result, prelude::*};
use support::Private;

/// Invalidations come by pushes, which RESP2 has none of.
fn config(server: &Private) -> Config {
    support::config(server).protocol(Protocol::Resp3)
}

fn cached(server: &Private, cache: CacheConfig) -> Cached {
    Cached::open(config(server), cache).unwrap()
}

fn modes() -> [(&'static str, CacheConfig); 5] {
    [
        ("default", CacheConfig::new()),
        ("no loop", CacheConfig::new().no_loop()),
        ("broadcast", CacheConfig::new().broadcast([""; 0])),
        ("broadcast with prefixes and no loop", CacheConfig::new().broadcast(["k", "l"]).no_loop()),
        ("opt in", CacheConfig::new().opt_in()),
    ]
}

/// Whatever the server has sent before this, has been sent.
fn barrier(cached: &Cached) -> Result<()> {
    cached.ping().wait()
}

#[test]
fn what_was_read_is_not_asked_for_again_until_it_changes() -> Result<()> {
    let server = support::server();
    let other = support::open(&server);
    for (mode, cache) in modes() {
        other.flushall().wait()?;
        let cached = cached(&server, cache);
        other.set("k", 1).wait()?;
        barrier(&cached)?;
        assert_eq!(cached.opted_in().get::<i64>("k").wait()?, 1, "{mode}");
        let commands = cached.stats().commands;
        for _ in 0..3 {
            assert_eq!(cached.get::<i64>("k").wait()?, 1, "{mode}");
        }
        assert_eq!(cached.stats().commands, commands, "{mode}: nothing was sent");
        let stats = cached.cache_stats();
        assert_eq!((stats.hits, stats.misses, stats.entries), (3, 1, 1), "{mode}");
        assert_eq!(stats.hit_rate(), 0.75, "{mode}");

        other.set("k", 2).wait()?;
        barrier(&cached)?;
        assert_eq!(cached.opted_in().get::<i64>("k").wait()?, 2, "{mode}");
        other.del("k").wait()?;
        barrier(&cached)?;
        assert_eq!(cached.opted_in().get::<Option<i64>>("k").wait()?, None, "{mode}");
        let commands = cached.stats().commands;
        assert_eq!(cached.get::<Option<i64>>("k").wait()?, None, "{mode}: nil is kept as well");
        assert_eq!(cached.stats().commands, commands, "{mode}");
        assert_eq!(cached.next_push(), None, "{mode}: the cache takes its own pushes");
    }
    Ok(())
}

#[test]
fn what_is_written_here_is_seen_at_once() -> Result<()> {
    let server = support::server();
    for (mode, cache) in modes() {
        let cached = cached(&server, cache);
        for n in 0..50 {
            // All in one pipeline: a read that is old by the time its reply comes, the write, and a read behind it.
            let before = cached.opted_in().get::<Option<i64>>("k");
            let set = cached.set("k", n);
            let after = cached.opted_in().get::<i64>("k");
            assert_eq!(after.wait()?, n, "{mode}");
            assert_eq!(before.wait()?, (n > 0).then_some(n - 1), "{mode}");
            set.wait()?;
            assert_eq!(cached.opted_in().get::<i64>("k").wait()?, n, "{mode}");
            cached.incr("k").wait()?;
            assert_eq!(cached.opted_in().get::<i64>("k").wait()?, n + 1, "{mode}");
            cached.set("k", n).detach();
        }
        cached.flushall().wait()?;
    }
    Ok(())
}

#[test]
fn an_entry_is_made_when_its_reply_comes_and_not_when_its_handle_is_waited_for() -> Result<()> {
    let server = support::server();
    let other = support::open(&server);
    let cached = cached(&server, CacheConfig::new());
    other.set("k", "old").wait()?;
    let old = cached.get::<String>("k");
    let kept = cached.get::<Option<String>>("l");
    cached.flush()?;
    // The server has read the old value, and told of the new one behind it.
    support::until("the server has read both", || Ok(other.client_list().wait()?.iter().any(|c| c.cmd == "get")))?;
    other.set("k", "new").wait()?;
    assert_eq!(cached.get::<String>("k").wait()?, "new");
    assert_eq!(old.wait()?, "old");
    assert_eq!(cached.get::<String>("k").wait()?, "new");
    // Kept, although its handle is still waiting.
    let commands = cached.stats().commands;
    assert_eq!(cached.get::<Option<String>>("l").wait()?, None);
    assert_eq!(cached.stats().commands, commands);
    assert_eq!(kept.wait()?, None);
    // A handle that is detached leaves its reply all the same.
    cached.get::<Option<String>>("m").detach();
    barrier(&cached)?;
    let commands = cached.stats().commands;
    assert_eq!(cached.get::<Option<String>>("m").wait()?, None);
    assert_eq!(cached.stats().commands, commands);
    Ok(())
}

#[test]
fn replies_of_many_elements_are_kept_whole() -> Result<()> {
    let server = support::server();
    let other = support::open(&server);
    let cached = cached(&server, CacheConfig::new());
    let long: Vec<i64> = (0..10_000).collect();
    other.rpush("list", &long).wait()?;
    other.hset("hash", [("a", 1), ("b", 2)]).wait()?;
    other.set("text", vec![7; 300_000]).wait()?;
    for round in 0..2 {
        let before = cached.stats().commands;
        let all: Vec<i64> = cached.lrange("list", 0, -1).wait()?;
        assert_eq!(all, long);
        // One that is given up in the middle.
        assert_eq!(cached.lrange::<i64>("list", 0, -1).nth(3).transpose()?, Some(3));
        let some: Vec<i64> = cached.lrange("list", 5, 7).collect::<Result<_>>()?;
        assert_eq!(some, [5, 6, 7]);
        assert_eq!(cached.lrange::<i64>("list", 0, -1).len()?, Some(10_000));
        let map: HashMap<String, i64> = cached.hgetall("hash").wait()?;
        assert_eq!((map["a"], map["b"]), (1, 2));
        let map: HashMap<String, i64> = cached.hgetall_as("hash").wait()?;
        assert_eq!(map.len(), 2);
        let pairs: Vec<Option<i64>> = cached.hmget("hash", ["a", "c"]).wait()?;
        assert_eq!(pairs, [Some(1), None]);
        let mut text = Vec::new();
        assert_eq!(cached.get::<Vec<u8>>("text").copy_to(&mut text)?, 300_000);
        assert_eq!(text, vec![7; 300_000]);
        assert_eq!(cached.strlen("text").wait()?, 300_000);
        assert!(cached.exists(["list", "hash"]).wait()? == 2);
        let sent = cached.stats().commands - before;
        assert!(if round == 0 { sent > 0 } else { sent == 0 }, "round {round}: {sent} sent");
    }
    other.rpush("list", 10_000).wait()?;
    other.hdel("hash", "a").wait()?;
    barrier(&cached)?;
    assert_eq!(cached.lrange::<i64>("list", 0, -1).len()?, Some(10_001));
    assert_eq!(cached.hmget::<Option<i64>>("hash", ["a", "c"]).wait::<Vec<_>>()?, [None, None]);
    assert_eq!(cached.exists(["list", "hash"]).wait()?, 2);
    Ok(())
}

#[test]
fn a_reply_of_several_keys_ends_with_any_of_them() -> Result<()> {
    let server = support::server();
    let other = support::open(&server);
    let cached = cached(&server, CacheConfig::new());
    let all = ["a", "b", "c"];
    for (n, key) in all.into_iter().enumerate() {
        let _: Vec<Option<usize>> = cached.mget(all).wait()?;
        other.set(key, n).wait()?;
        barrier(&cached)?;
        let now: Vec<Option<usize>> = cached.mget(all).wait()?;
        assert_eq!(now[n], Some(n));
        assert_eq!(cached.cache_stats().entries, 1);
    }
    Ok(())
}

#[test]
fn errors_and_what_changes_by_itself_are_not_kept() -> Result<()> {
    let server = support::server();
    let cached = cached(&server, CacheConfig::new());
    cached.rpush("list", 1).wait()?;
    cached.setex("k", Duration::from_secs(100), 1).wait()?;
    for _ in 0..2 {
        let before = cached.stats().commands;
        assert!(
            matches!(cached.get::<String>("list").wait(), Err(Error::Server(error)) if error.code() == Some("WRONGTYPE"))
        );
        cached.ttl("k").wait()?;
        cached.randomkey::<String>().wait()?;
        cached.command::<i64>("GET", "k").wait()?;
        assert_eq!(cached.stats().commands - before, 4);
    }
    assert_eq!(cached.cache_stats().entries, 0);
    Ok(())
}

#[test]
fn commands_that_may_change_anything_empty_the_cache() -> Result<()> {
    let server = support::server();
    let cached = cached(&server, CacheConfig::new().no_loop());
    let script = "return redis.call('INCR', 'hid' .. 'den')";
    for n in 0..3 {
        let before: Option<i64> = cached.get("hidden").wait()?;
        assert_eq!(before, (n > 0).then_some(n));
        cached.eval::<i64>(script, [""; 0], [""; 0]).wait()?;
        assert_eq!(cached.get::<i64>("hidden").wait()?, n + 1);
    }
    cached.command::<()>("SET", ("hidden", 10)).wait()?;
    assert_eq!(cached.get::<i64>("hidden").wait()?, 10);
    cached.uncached(|conn| {
        let tx = conn.transaction();
        tx.incr("hidden").detach();
        tx.commit().wait()
    })?;
    assert_eq!(cached.get::<i64>("hidden").wait()?, 11);
    cached.uncached(|conn| {
        let batch = conn.batch();
        batch.incr("hidden");
        // Nothing is looked up or kept meanwhile.
        assert_eq!(cached.get::<i64>("hidden").wait()?, 12);
        batch.incr("hidden");
        batch.finish()
    })?;
    assert_eq!(cached.get::<i64>("hidden").wait()?, 13);
    cached.uncached(|conn| {
        conn.select(1).detach();
        Ok(())
    })?;
    assert_eq!(cached.get::<Option<i64>>("hidden").wait()?, None);
    cached.flushdb().detach();
    cached.uncached(|conn| conn.select(0).wait())?;
    assert_eq!(cached.get::<i64>("hidden").wait()?, 13);
    cached.flushall().wait()?;
    assert_eq!(cached.get::<Option<i64>>("hidden").wait()?, None);
    Ok(())
}

#[test]
fn tracking_cannot_be_turned_off_behind_the_cache() -> Result<()> {
    let server = support::server();
    let cached = cached(&server, CacheConfig::new());
    for command in ["CLIENT TRACKING", "client caching"] {
        assert!(matches!(cached.command::<()>(command, "OFF").wait(), Err(Error::Refused(_))));
        cached.uncached(|conn| {
            assert!(matches!(conn.command::<()>(command, "OFF").wait(), Err(Error::Refused(_))));
            assert!(matches!(conn.command::<()>("CLIENT", (&command[7..], "OFF")).wait(), Err(Error::Refused(_))));
            let tx = conn.transaction();
            let off = tx.command::<()>(command, "OFF");
            assert!(tx.commit().wait().is_err());
            assert!(matches!(off.wait(), Err(Error::Refused(_))));
            Ok(())
        })?;
    }
    assert!(cached.client_trackinginfo().wait()?.flags.iter().any(|flag| flag == "on"));

    let conn = cached.into_connection()?;
    assert!(conn.client_trackinginfo().wait()?.flags.iter().any(|flag| flag == "off"));
    conn.command::<()>("CLIENT TRACKING", "ON").wait()?;
    Ok(())
}

#[test]
fn all_keys_at_once_are_forgotten() -> Result<()> {
    let server = support::server();
    let other = support::open(&server);
    for (mode, cache) in modes() {
        let cached = cached(&server, cache);
        for flush in ["FLUSHALL", "FLUSHDB"] {
            other.set("k", 1).wait()?;
            barrier(&cached)?;
            assert_eq!(cached.opted_in().get::<Option<i64>>("k").wait()?, Some(1), "{mode}");
            other.command::<()>(flush, ()).wait()?;
            barrier(&cached)?;
            assert_eq!(cached.opted_in().get::<Option<i64>>("k").wait()?, None, "{mode}, {flush}");
        }
    }
    Ok(())
}

#[test]
fn a_key_that_expires_is_forgotten() -> Result<()> {
    let server = support::server();
    let other = support::open(&server);
    let cached = cached(&server, CacheConfig::new());
    other.psetex("k", Duration::from_millis(30), 1).wait()?;
    let _: Option<i64> = cached.get("k").wait()?;
    support::until("it has expired", || Ok(other.exists("k").wait()? == 0))?;
    barrier(&cached)?;
    assert_eq!(cached.get::<Option<i64>>("k").wait()?, None);
    Ok(())
}

#[test]
fn only_so_many_replies_and_bytes_are_kept() -> Result<()> {
    let server = support::server();
    let few = cached(&server, CacheConfig::new().entries(3));
    for key in ["a", "b", "c", "a", "d"] {
        let _: Option<i64> = few.get(key).wait()?;
    }
    let stats = few.cache_stats();
    assert_eq!((stats.entries, stats.evictions, stats.hits), (3, 1, 1));
    for (key, hits) in [("a", 2), ("c", 3), ("d", 4), ("b", 4)] {
        let _: Option<i64> = few.get(key).wait()?;
        assert_eq!(few.cache_stats().hits, hits, "{key}: b was used least recently");
    }

    let small = cached(&server, CacheConfig::new().bytes(10_000));
    small.set("large", vec![1; 20_000]).wait()?;
    small.set("fits", vec![1; 5_000]).wait()?;
    let _: Vec<u8> = small.get("large").wait()?;
    assert_eq!(small.cache_stats().entries, 0);
    let _: Vec<u8> = small.get("fits").wait()?;
    for n in 0..1000 {
        let _: Option<i64> = small.get(n).wait()?;
        assert!(small.cache_stats().bytes <= 10_000);
    }
    assert!(small.cache_stats().entries > 5);
    small.clear();
    assert_eq!((small.cache_stats().entries, small.cache_stats().bytes), (0, 0));

    let none = cached(&server, CacheConfig::new().entries(0));
    let _: Option<i64> = none.get("a").wait()?;
    assert_eq!(none.cache_stats().entries, 0);
    Ok(())
}

#[test]
fn the_modes_keep_what_the_server_tells_about() -> Result<()> {
    let server = support::server();
    let users = cached(&server, CacheConfig::new().broadcast(["user:", "group:"]));
    for key in ["user:1", "group:1", "page:1"] {
        let _: Option<i64> = users.get(key).wait()?;
    }
    let _: Vec<Option<i64>> = users.mget(["user:1", "page:1"]).wait()?;
    assert_eq!(users.cache_stats().entries, 2);

    let seldom = cached(&server, CacheConfig::new().opt_in());
    let _: Option<i64> = seldom.get("a").wait()?;
    assert_eq!(seldom.cache_stats().entries, 0);
    let _: Vec<Option<i64>> = seldom.opted_in().mget(["a", "b"]).wait()?;
    let one = seldom.opted_in().get::<Option<i64>>("c");
    let two = seldom.get::<Option<i64>>("d");
    let three = seldom.opted_in().get::<Option<i64>>("e");
    one.wait()?;
    two.wait()?;
    three.wait()?;
    assert_eq!(seldom.cache_stats().entries, 3);

    let overlapping = CacheConfig::new().broadcast(["a", "ab"]);
    assert!(matches!(Cached::open(config(&server), overlapping), Err(Error::Server(_))));
    let resp2 = Cached::open(config(&server).protocol(Protocol::Resp2), CacheConfig::new());
    assert!(matches!(resp2, Err(Error::Refused(_))));
    Ok(())
}

#[test]
fn a_connection_that_is_made_again_tracks_again() -> Result<()> {
    let server = redefer::testing::Server::start()?;
    let policy = Reconnect::backoff().first_delay(Duration::from_millis(1));
    let reach = support::config(&server).protocol(Protocol::Resp3);
    for (mode, cache) in modes() {
        let cached = Cached::open(reach.clone().reconnect(policy.clone()), cache)?;
        let _: Option<i64> = cached.opted_in().get("k").wait()?;
        assert_eq!(cached.cache_stats().entries, 1, "{mode}");
        server.restart()?;
        let other = Connection::open(reach.clone())?;
        other.set("k", 5).wait()?;
        // It notices when it looks for invalidations, and asks the server.
        assert_eq!(cached.opted_in().get::<Option<i64>>("k").wait()?, Some(5), "{mode}");
        assert_eq!(cached.cache_stats().flushes, 1, "{mode}");
        other.set("k", 6).wait()?;
        barrier(&cached)?;
        assert_eq!(cached.opted_in().get::<Option<i64>>("k").wait()?, Some(6), "{mode}");
        let commands = cached.stats().commands;
        assert_eq!(cached.get::<Option<i64>>("k").wait()?, Some(6), "{mode}");
        assert_eq!(cached.stats().commands, commands, "{mode}");
        other.flushall().wait()?;
    }

    // What only reads is sent again, also when it was written to a connection that the server had closed.
    for cache in [CacheConfig::new(), CacheConfig::new().opt_in()] {
        let cached = Cached::open(reach.clone().reconnect(policy.clone()), cache)?;
        server.restart()?;
        let other = Connection::open(reach.clone())?;
        assert_eq!(cached.opted_in().get::<Option<i64>>("k").wait()?, None);
        // Not kept from before: the server must have been asked on the connection that there is now.
        other.set("k", 7).wait()?;
        barrier(&cached)?;
        assert_eq!(cached.opted_in().get::<Option<i64>>("k").wait()?, Some(7));
    }

    let cached = Cached::open(reach, CacheConfig::new())?;
    let _: Option<i64> = cached.get("k").wait()?;
    server.restart()?;
    assert!(matches!(cached.get::<Option<i64>>("k").wait(), Err(Error::ConnectionLost(_))));
    Ok(())
}

#[test]
fn nothing_is_older_than_the_server_has_told_while_another_writes_at_full_speed() -> Result<()> {
    let server = support::server();
    for (mode, cache) in modes() {
        let cached = cached(&server, cache);
        let other = support::open(&server);
        other.set("k", 0).wait()?;
        let (written, done) = (AtomicI64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let (written, done) = (&written, &done);
            let writer = scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let now = other.incr("k").wait()?;
                    written.store(now, Ordering::Release);
                }
                other.flushall().wait()
            });
            let read = (|| {
                let mut last = 0;
                for n in 0..2000 {
                    let least = written.load(Ordering::Acquire);
                    // What was written before has been told before this is answered.
                    if n % 2 == 0 {
                        barrier(&cached)?;
                    }
                    let now = cached.opted_in().get::<i64>("k").wait()?;
                    assert!(now >= last, "{mode}: {now} after {last}");
                    assert!(n % 2 != 0 || now >= least, "{mode}: {now} although {least} had been told");
                    last = now;
                }
                Ok::<_, Error>(())
            })();
            done.store(true, Ordering::Relaxed);
            writer.join().expect("the writer")?;
            read
        })?;
    }
    Ok(())
}
