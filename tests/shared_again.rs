//! What is sent more than once on a connection that threads share: idempotent commands, and scripts that are not known.

#![cfg(all(unix, feature = "testing"))]

mod support;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use redefer::{Config, Error, Reconnect, Result, Script, SendWhen, Sent, Shared, Value, WaitError, prelude::*};
use support::scripted::{Scripted, bulk};

#[test]
fn idempotent_commands_are_sent_again_in_their_places_and_others_are_not() -> Result<()> {
    let peer = Scripted::start(|peer| {
        peer.handshake()?;
        if peer.number() == 0 {
            for command in [["GET", "a"], ["INCR", "n"], ["GET", "b"], ["MGET", "c"]] {
                peer.expect(command)?;
            }
            return Ok(());
        }
        for key in ["a", "b"] {
            peer.expect(["GET", key])?;
            peer.send(bulk(key))?;
        }
        peer.expect(["MGET", "c"])?;
        peer.send("*1\r\n+c\r\n")?;
        peer.read_to_end().map(drop)
    });
    let config = Config::from_url(&peer.url())?.reconnect(Reconnect::backoff());
    let shared = Shared::open(config.send_when(SendWhen::Gathering))?;
    let safe = shared.idempotent();
    let a = safe.get::<String>("a");
    let n = shared.incr("n");
    let b = safe.command::<String>("GET", "b");
    let c = safe.mget::<String>("c");
    let outcomes = thread::scope(|scope| {
        let (a, n, b, c) = (
            scope.spawn(|| a.wait()),
            scope.spawn(|| n.wait()),
            scope.spawn(|| b.wait()),
            scope.spawn(|| c.wait::<Vec<_>>()),
        );
        (a.join(), n.join(), b.join(), c.join())
    });
    let (Ok(a), Ok(n), Ok(b), Ok(c)) = outcomes else { panic!("no thread panics") };
    assert_eq!((a?, b?, c?), ("a".to_owned(), "b".to_owned(), vec!["c".to_owned()]));
    let Err(Error::ConnectionLost(lost)) = n else { panic!("{n:?}") };
    assert_eq!(lost.sent(), Sent::Fully);
    assert_eq!(shared.stats().resent, 3);
    Ok(())
}

#[test]
fn threads_whose_commands_are_idempotent_do_not_notice_that_the_connection_breaks() -> Result<()> {
    let server = support::server();
    let witness = support::open(&server);
    let shared = Shared::open(support::config(&server).reconnect(Reconnect::backoff()))?;
    let (over, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let (shared, over, rounds) = (&shared, &over, &rounds);
        let workers: Vec<_> = (0..8)
            .map(|n| {
                scope.spawn(move || -> Result<()> {
                    let (safe, key) = (shared.idempotent(), format!("key:{n}"));
                    for round in 0.. {
                        if over.load(Ordering::Relaxed) {
                            break;
                        }
                        let (set, get) = (safe.set(&key, round), safe.get::<u64>(&key));
                        assert_eq!(get.wait()?, round);
                        set.wait()?;
                        rounds.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(())
                })
            })
            .collect();
        for _ in 0..10 {
            let (before, done) = (shared.stats().reconnects, rounds.load(Ordering::Relaxed));
            witness.command::<Value>("CLIENT", ("KILL", "TYPE", "normal", "SKIPME", "yes")).wait()?;
            support::until("it goes on", || {
                Ok(shared.stats().reconnects > before && rounds.load(Ordering::Relaxed) > done + 100)
            })?;
        }
        over.store(true, Ordering::Relaxed);
        workers.into_iter().try_for_each(|worker| worker.join().expect("no panic"))
    })?;
    assert_eq!(shared.stats().reconnects, 10);
    shared.sync()
}

#[test]
fn threads_run_a_script_that_the_server_does_not_know_or_forgets() -> Result<()> {
    let server = support::server();
    let shared = support::open(&server).into_shared()?;
    let script = Script::new("return {KEYS[1], ARGV[1]}");
    thread::scope(|scope| {
        let (shared, script) = (&shared, &script);
        let workers: Vec<_> = (0..16)
            .map(|n| {
                scope.spawn(move || -> Result<()> {
                    for round in 0..50 {
                        let key = format!("key:{n}");
                        let handle = script.run::<(String, i64), _>(shared, &key, round);
                        if round % 10 == 0 {
                            shared.script_flush().wait()?;
                        }
                        assert_eq!(handle.wait()?, (key, round));
                    }
                    Ok(())
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no panic"))
    })?;
    // Nobody hears of what was not known.
    assert_eq!(shared.stats().unseen_errors, 0);

    shared.script_flush().wait()?;
    let safe = script.run_ro::<(String, i64), _>(shared.idempotent(), "key", 7);
    support::until("answered", || safe.is_ready())?;
    assert_eq!(safe.wait()?, ("key".to_owned(), 7));
    let slow = Script::new("local n = 0 repeat n = n + 1 until n == 3e7 return n");
    let handle = slow.run::<i64, _>(&shared, (), ());
    let Err(WaitError::Timeout(handle)) = handle.wait_timeout(Duration::from_millis(1)) else { panic!("it is slow") };
    // On another thread, which has to send it.
    let outcome = thread::scope(|scope| scope.spawn(|| handle.wait()).join().expect("no panic"));
    assert_eq!(outcome?, 30_000_000);

    // Dropped, it does not run, and that is told.
    let counts = Script::new("return redis.call('INCR', KEYS[1])");
    drop(counts.run::<i64, _>(&shared, "n", ()));
    assert_eq!(shared.sync().unwrap_err().code(), Some("NOSCRIPT"));
    assert_eq!(shared.exists("n").wait()?, 0);
    Ok(())
}
