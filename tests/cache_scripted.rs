//! A cache and a server that says what the test dictates: orders that real servers seldom or never send.

#![cfg(all(unix, feature = "cache"))]

mod support;

use std::io;

use redefer::cache::{CacheConfig, Cached};
use redefer::{Config, Error, Reconnect, Result, prelude::*};
use support::scripted::{Gate, Opener, Peer, Scripted, bulk, gate};

const OK: &str = "+OK\r\n";

fn invalidate(keys: &[&str]) -> Vec<u8> {
    let mut bytes = format!(">2\r\n$10\r\ninvalidate\r\n*{}\r\n", keys.len()).into_bytes();
    keys.iter().for_each(|key| bytes.extend(bulk(key)));
    bytes
}

/// A server that agrees to tracking and goes on with a script. Over a unix socket what was sent is there at once.
fn tracking(script: impl Fn(&mut Peer) -> io::Result<()> + Send + 'static) -> Scripted {
    Scripted::unix(move |peer| {
        peer.handshake()?;
        peer.expect(["CLIENT", "TRACKING", "ON"])?;
        peer.send(OK)?;
        script(peer)
    })
}

fn open(server: &Scripted) -> Cached {
    Cached::open(Config::from_url(&server.url()).unwrap(), CacheConfig::new()).unwrap()
}

fn gates<const N: usize>() -> ([Opener; N], [Gate; N]) {
    let (mut openers, mut waiting) = (Vec::new(), Vec::new());
    for _ in 0..N {
        let (opener, gate) = gate();
        openers.push(opener);
        waiting.push(gate);
    }
    let all = (openers.try_into(), waiting.try_into());
    match all {
        (Ok(openers), Ok(waiting)) => (openers, waiting),
        _ => unreachable!("as many as were made"),
    }
}

#[test]
fn the_socket_is_looked_at_before_an_answer_from_memory() -> Result<()> {
    let ([begin, told], [begun, heard]) = gates();
    let server = tracking(move |peer| {
        peer.expect(["GET", "k"])?;
        peer.send(bulk("1"))?;
        begun.wait();
        peer.send(invalidate(&["k"]))?;
        told.open();
        peer.expect(["GET", "k"])?;
        peer.send(bulk("2"))
    });
    let cached = open(&server);
    assert_eq!(cached.get::<i64>("k").wait()?, 1);
    assert_eq!(cached.get::<i64>("k").wait()?, 1);
    begin.open();
    heard.wait();
    assert_eq!(cached.get::<i64>("k").wait()?, 2);
    assert_eq!((cached.cache_stats().hits, cached.cache_stats().misses), (1, 2));
    Ok(())
}

#[test]
fn an_invalidation_behind_unread_replies_is_seen_too() -> Result<()> {
    let ([begin, told], [begun, heard]) = gates();
    let server = tracking(move |peer| {
        peer.expect(["GET", "k"])?;
        peer.send(bulk("1"))?;
        peer.expect(["GET", "a"])?;
        peer.expect(["LRANGE", "l", "0", "-1"])?;
        begun.wait();
        peer.send([bulk("a"), b"*2\r\n:1\r\n:2\r\n".to_vec(), invalidate(&["k"])].concat())?;
        told.open();
        peer.expect(["GET", "k"])?;
        peer.send(bulk("2"))
    });
    let cached = open(&server);
    assert_eq!(cached.get::<i64>("k").wait()?, 1);
    let a = cached.get::<String>("a");
    let list = cached.lrange::<i64>("l", 0, -1);
    cached.flush()?;
    begin.open();
    heard.wait();
    assert_eq!(cached.get::<i64>("k").wait()?, 2);
    assert_eq!(a.wait()?, "a");
    assert_eq!(list.wait::<Vec<_>>()?, [1, 2]);
    Ok(())
}

#[test]
fn replies_and_invalidations_count_in_the_order_of_the_wire() -> Result<()> {
    // In one piece, and byte by byte.
    for bytewise in [false, true] {
        let server = tracking(move |peer| {
            peer.expect(["GET", "before"])?;
            peer.expect(["GET", "behind"])?;
            peer.expect(["MGET", "inside", "other"])?;
            let bytes = [
                // The reply is newer.
                invalidate(&["before"]),
                bulk("1"),
                // The reply is older.
                bulk("2"),
                invalidate(&["behind", "unknown"]),
                // In the middle of a reply it is about: nobody knows.
                b"*2\r\n".to_vec(),
                bulk("3"),
                invalidate(&["inside"]),
                bulk("4"),
            ]
            .concat();
            if bytewise {
                peer.send_bytewise(bytes)?
            } else {
                peer.send(bytes)?
            };
            peer.expect(["GET", "behind"])?;
            peer.expect(["MGET", "inside", "other"])?;
            peer.send([bulk("5"), b"*2\r\n:6\r\n:7\r\n".to_vec()].concat())
        });
        let cached = open(&server);
        let (before, behind) = (cached.get::<i64>("before"), cached.get::<i64>("behind"));
        let inside = cached.mget::<i64>(["inside", "other"]);
        assert_eq!(inside.wait::<Vec<_>>()?, [3, 4]);
        assert_eq!((before.wait()?, behind.wait()?), (1, 2));
        assert_eq!(cached.get::<i64>("before").wait()?, 1);
        let behind = cached.get::<i64>("behind");
        assert_eq!(cached.mget::<i64>(["inside", "other"]).wait::<Vec<_>>()?, [6, 7]);
        assert_eq!(behind.wait()?, 5);
        let stats = cached.cache_stats();
        assert_eq!((stats.invalidations, stats.hits, stats.entries), (4, 1, 3));
    }
    Ok(())
}

#[test]
fn an_invalidation_inside_a_reply_that_nobody_waits_for_counts() -> Result<()> {
    let server = tracking(move |peer| {
        peer.expect(["MGET", "inside", "other"])?;
        peer.send([b"*2\r\n".to_vec(), bulk("1"), invalidate(&["inside"]), bulk("2")].concat())?;
        peer.expect(["GET", "k"])?;
        peer.send(bulk("3"))?;
        peer.expect(["MGET", "inside", "other"])?;
        peer.send([b"*2\r\n".to_vec(), bulk("4"), bulk("5")].concat())
    });
    let cached = open(&server);
    cached.mget::<i64>(["inside", "other"]).detach();
    assert_eq!(cached.get::<i64>("k").wait()?, 3);
    assert_eq!(cached.mget::<i64>(["inside", "other"]).wait::<Vec<_>>()?, [4, 5]);
    Ok(())
}

#[test]
fn a_server_that_has_no_pushes_any_more_is_always_asked() -> Result<()> {
    let server = Scripted::unix(|peer| {
        if peer.number() == 0 {
            peer.handshake()?;
        } else {
            peer.handshake_resp2()?;
        }
        peer.expect(["CLIENT", "TRACKING", "ON"])?;
        peer.send(OK)?;
        for value in if peer.number() == 0 { 1..2 } else { 2..5 } {
            peer.expect(["GET", "k"])?;
            peer.send(bulk(value.to_string()))?;
        }
        // The first one closes in place of an answer.
        peer.read_command().map(drop)
    });
    let policy = Reconnect::backoff();
    let cached = Cached::open(Config::from_url(&server.url())?.reconnect(policy), CacheConfig::new())?;
    assert_eq!(cached.get::<i64>("k").wait()?, 1);
    assert!(matches!(cached.ping().wait(), Err(Error::ConnectionLost(_))));
    for value in 2..5 {
        assert_eq!(cached.get::<i64>("k").wait()?, value);
    }
    cached.ping().detach();
    Ok(())
}

#[test]
fn what_is_not_permitted_is_not_kept() -> Result<()> {
    let server = Scripted::unix(|peer| {
        peer.handshake()?;
        peer.expect(["CLIENT", "TRACKING", "ON", "OPTIN"])?;
        peer.send(OK)?;
        for (permit, value) in [("-ERR no\r\n", "1"), (OK, "2")] {
            peer.expect(["CLIENT", "CACHING", "YES"])?;
            peer.expect(["GET", "k"])?;
            peer.send(permit)?;
            peer.send(bulk(value))?;
        }
        peer.read_to_end().map(drop)
    });
    let cached = Cached::open(Config::from_url(&server.url())?, CacheConfig::new().opt_in())?;
    for value in [1, 2, 2] {
        assert_eq!(cached.opted_in().get::<i64>("k").wait()?, value);
    }
    assert!(matches!(cached.sync(), Err(Error::Server(_))), "nobody has seen the error of the permit");
    Ok(())
}

#[test]
fn pushes_that_are_no_invalidations_are_left_to_the_user() -> Result<()> {
    let server = tracking(|peer| {
        peer.expect(["GET", "k"])?;
        let others = [">1\r\n$10\r\ninvalidate\r\n", ">2\r\n$3\r\nnew\r\n:1\r\n", ">0\r\n", ">2\r\n:1\r\n*0\r\n"];
        peer.send([others.concat().into_bytes(), bulk("1")].concat())
    });
    let cached = open(&server);
    assert_eq!(cached.get::<i64>("k").wait()?, 1);
    assert!(cached.next_push().is_some_and(|push| format!("{push:?}").contains("new")));
    assert!(cached.next_push().is_some());
    assert!(cached.next_push().is_some());
    assert_eq!(cached.next_push(), None, "one without keys is about all of them");
    Ok(())
}
