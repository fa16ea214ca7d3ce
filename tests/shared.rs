//! One connection for many threads, on real servers.

#![cfg(all(unix, feature = "testing"))]

mod support;

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use redefer::commands::{BitmapCommands, ScanOptions};
use redefer::resp::Frame;
use redefer::testing::Server;
use redefer::{
    Error, FromReply, Reconnect, Result, SendWhen, Sent, Shared, SharedReply, SharedTransaction, WaitError, prelude::*,
};
use support::shared::{in_the_end, threads};

const LIMIT: Duration = Duration::from_secs(60);

fn shared(server: &Server) -> Result<Shared> {
    Shared::open(support::config(server))
}

fn is_send_and_sync<T: Send + Sync>(_: &T) {}
fn is_send<T: Send>(_: &T) {}

#[test]
fn handles_and_guards_can_be_sent_to_other_threads() -> Result<()> {
    let server = support::server();
    let shared = shared(&server)?;
    is_send_and_sync(&shared);
    let reply = shared.get::<Option<String>>("a");
    is_send_and_sync(&reply);
    let list = shared.lrange::<String>("list", 0, -1);
    is_send(&list);
    let tx = shared.transaction();
    is_send(&tx);
    let (value, items) = thread::scope(|scope| {
        let value = scope.spawn(|| reply.wait()).join().expect("no panic");
        let items = scope.spawn(|| list.wait::<Vec<String>>()).join().expect("no panic");
        (value, items)
    });
    assert_eq!((value?, items?), (None, vec![]));
    thread::scope(|scope| scope.spawn(|| tx.commit().wait()).join().expect("no panic"))
}

#[test]
fn every_thread_gets_its_own_replies() -> Result<()> {
    let server = support::server();
    for config in [support::config(&server), support::unix_config(&server)] {
        for when in [SendWhen::Adaptive, SendWhen::Eager, SendWhen::Gathering] {
            let shared = Shared::open(config.clone().send_when(when))?;
            threads(64, |n| {
                for round in 0..50 {
                    let value = format!("{n}:{round}");
                    assert_eq!(shared.echo::<String>(&value).wait()?, value);
                    let key = format!("key:{n}");
                    let (set, get) = (shared.set(&key, &value), shared.get::<String>(&key));
                    // In either order.
                    assert_eq!(get.wait()?, value);
                    set.wait()?;
                }
                Ok(())
            })?;
            assert_eq!(shared.outstanding(), 0);
            assert_eq!((shared.stats().commands, shared.stats().stored), (64 * 50 * 3, 0));
            shared.sync()?;
        }
    }
    Ok(())
}

#[test]
fn one_thread_pays_one_write_and_one_read_for_a_call() -> Result<()> {
    let server = support::server();
    let shared = shared(&server)?;
    for n in 0..100 {
        assert_eq!(shared.incr("n").wait()?, n + 1);
    }
    let stats = shared.stats();
    assert_eq!((stats.writes, stats.reads, stats.round_trips), (100, 100, 100));
    Ok(())
}

#[test]
fn the_commands_of_one_thread_run_in_their_order() -> Result<()> {
    let server = support::server();
    let shared = shared(&server)?;
    threads(16, |n| {
        let key = format!("list:{n}");
        for value in 0..200 {
            shared.rpush(&key, value).detach();
        }
        let values: Vec<u32> = shared.lrange(&key, 0, -1).wait()?;
        assert_eq!(values, (0..200).collect::<Vec<_>>());
        Ok(())
    })?;
    shared.sync()
}

#[test]
fn a_transaction_is_sent_in_one_piece_whatever_others_do() -> Result<()> {
    let server = support::server();
    let shared = shared(&server)?;
    threads(16, |n| {
        for _ in 0..50 {
            if n % 2 == 0 {
                shared.incr("beside").wait()?;
                continue;
            }
            let tx = shared.transaction();
            let before = tx.incr("x");
            let middle = tx.get::<i64>("x");
            let after = tx.incr("x");
            tx.set("last", n);
            assert_eq!(tx.len(), 4);
            tx.commit().wait()?;
            let x = before.wait()?;
            assert_eq!((middle.wait()?, after.wait()?), (x, x + 1));
        }
        Ok(())
    })?;
    assert_eq!(shared.get::<i64>("x").wait()?, 8 * 50 * 2);
    assert_eq!(shared.get::<i64>("beside").wait()?, 8 * 50);
    shared.sync()
}

#[test]
fn a_transaction_fails_as_on_a_connection() -> Result<()> {
    let server = support::server();
    let shared = shared(&server)?;
    shared.set("text", "no number").wait()?;

    // A command that fails while it runs fails alone.
    let tx = shared.transaction();
    let (bad, good) = (tx.incr("text"), tx.incr("n"));
    tx.commit().wait()?;
    assert_eq!(bad.wait().unwrap_err().code(), Some("ERR"));
    assert_eq!(good.wait()?, 1);

    // One that is refused fails all.
    let tx = shared.transaction();
    let (bad, good) = (tx.command::<()>("NOSUCHCOMMAND", ()), tx.incr("n"));
    assert_eq!(tx.commit().wait().unwrap_err().code(), Some("EXECABORT"));
    assert_eq!(bad.wait().unwrap_err().code(), Some("ERR"));
    assert_eq!(good.wait().unwrap_err().code(), Some("EXECABORT"));

    // One that cannot be sent fails all before anything is.
    let tx = shared.transaction();
    let good = tx.incr("n");
    tx.rpush("list", Vec::<String>::new());
    assert!(matches!(tx.commit().wait(), Err(Error::Argument(_))));
    assert!(matches!(good.wait(), Err(Error::Argument(_))));

    // What is not committed is not sent.
    let tx = shared.transaction();
    let handle = tx.incr("n");
    assert!(matches!(handle.wait(), Err(Error::NotCommitted)));
    tx.discard();
    let tx = shared.transaction();
    let late = tx.incr("n");
    drop(tx);
    assert!(matches!(late.wait(), Err(Error::NotCommitted)));
    assert_eq!(shared.get::<i64>("n").wait()?, 1);

    // The error of a handle that nobody kept.
    let tx = shared.transaction();
    tx.incr("text");
    tx.commit().wait()?;
    assert_eq!(shared.sync().unwrap_err().code(), Some("ERR"));
    shared.sync()
}

#[test]
fn a_transaction_that_is_larger_than_the_queue_waits_for_an_empty_one() -> Result<()> {
    let server = support::server();
    let shared = Shared::open(support::config(&server).max_outstanding(10))?;
    threads(4, |_| {
        for _ in 0..10 {
            let tx = shared.transaction();
            let handles: Vec<_> = (0..40).map(|_| tx.incr("n")).collect();
            tx.commit().wait()?;
            let values: Vec<i64> = handles.into_iter().map(|handle| handle.wait()).collect::<Result<_>>()?;
            assert!(values.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{values:?}");
        }
        Ok(())
    })?;
    assert_eq!(shared.get::<i64>("n").wait()?, 4 * 10 * 40);
    Ok(())
}

#[test]
fn what_others_would_feel_is_refused_by_name() -> Result<()> {
    let server = support::server();
    let shared = shared(&server)?;
    let refused = |name: &str, arguments: &[&str]| {
        let error = shared.command::<Value>(name, arguments).wait();
        assert!(matches!(error, Err(Error::Refused(_))), "{name}: {error:?}");
        if ["BLPOP", "WAIT", "XREAD", "ASKING", "CLIENT CACHING"].contains(&name) {
            // Inside MULTI nothing blocks.
            return;
        }
        let tx = shared.transaction();
        tx.command::<Value>(name, arguments);
        let error = tx.commit().wait();
        assert!(matches!(error, Err(Error::Refused(_))), "{name} in a transaction: {error:?}");
    };
    refused("SELECT", &["1"]);
    refused("AUTH", &["secret"]);
    refused("client setname", &["me"]);
    refused("CLIENT NO-EVICT", &["ON"]);
    refused("CLIENT TRACKING", &["ON"]);
    refused("CLIENT CACHING", &["YES"]);
    refused("CLIENT REPLY", &["OFF"]);
    refused("READONLY", &[]);
    refused("ASKING", &[]);
    refused("BLPOP", &["list", "0"]);
    refused("WAIT", &["0", "0"]);
    refused("XREAD", &["BLOCK", "0", "STREAMS", "s", "$"]);
    refused("WATCH", &["a"]);
    refused("MULTI", &[]);
    refused("EXEC", &[]);
    refused("SUBSCRIBE", &["channel"]);
    refused("MONITOR", &[]);
    refused("HELLO", &["3"]);
    refused("RESET", &[]);
    refused("QUIT", &[]);
    // Nothing of it was sent.
    assert_eq!(shared.stats().bytes_written, 0);
    shared.ping().wait()
}

/// Decodes nothing: panics.
#[derive(Debug)]
struct Bomb;

impl FromReply for Bomb {
    fn from_reply(_: Frame<'_>) -> Result<Self> {
        panic!("a bomb");
    }
}

#[test]
fn a_thread_that_panics_while_it_decodes_harms_no_other() -> Result<()> {
    let server = support::server();
    let shared = shared(&server)?;
    threads(16, |n| {
        for round in 0..50 {
            if n % 4 == 0 {
                let kept = shared.incr("kept");
                let bang = catch_unwind(AssertUnwindSafe(|| shared.echo::<Bomb>("bang").wait()));
                assert!(bang.is_err());
                let bang = catch_unwind(AssertUnwindSafe(|| shared.mget::<Bomb>(["a", "b"]).wait::<Vec<_>>()));
                assert!(bang.is_err());
                kept.wait()?;
            } else {
                let value = format!("{n}:{round}");
                assert_eq!(shared.echo::<String>(&value).wait()?, value);
            }
        }
        Ok(())
    })?;
    // A thread that dies of it, with handles that are still outstanding.
    let theirs = shared.clone();
    let died = thread::spawn(move || {
        let _outstanding: Vec<_> = (0..10).map(|_| theirs.incr("outstanding")).collect();
        let _ = theirs.echo::<Bomb>("bang").wait();
    });
    assert!(died.join().is_err());
    assert_eq!(shared.get::<i64>("kept").wait()?, 4 * 50);
    assert_eq!(shared.get::<i64>("outstanding").wait()?, 10);
    assert_eq!(shared.outstanding(), 0);
    shared.sync()
}

thread_local! {
    static WITHIN: std::cell::RefCell<Option<Shared>> = const { std::cell::RefCell::new(None) };
}

/// Asks the same connection for more while it is decoded.
#[derive(Debug)]
struct Nested(String);

impl FromReply for Nested {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let key = String::from_reply(frame)?;
        let shared = WITHIN.with_borrow(Clone::clone).ok_or_else(|| Error::custom("no connection"))?;
        Ok(Nested(shared.get(key).wait()?))
    }
}

#[test]
fn a_type_may_use_the_same_connection_while_it_is_decoded() -> Result<()> {
    let server = support::server();
    let shared = shared(&server)?;
    shared.set("pointer", "key").wait()?;
    shared.set("key", "value").wait()?;
    threads(8, |_| {
        WITHIN.set(Some(shared.clone()));
        for _ in 0..50 {
            assert_eq!(shared.get::<Nested>("pointer").wait()?.0, "value");
            let both: Vec<Nested> = shared.mget(["pointer", "pointer"]).wait()?;
            assert_eq!(both.len(), 2);
        }
        // It goes with the thread, when its thread-locals are being taken apart.
        Ok(())
    })
}

#[test]
fn forgotten_and_detached_handles_shift_nothing() -> Result<()> {
    let server = support::server();
    let shared = shared(&server)?;
    threads(16, |n| {
        for round in 0..100 {
            let value = format!("{n}:{round}");
            match (n + round) % 4 {
                0 => std::mem::forget(shared.echo::<String>(&value)),
                1 => shared.incr(format!("n:{n}")).detach(),
                2 => drop(shared.lrange::<String>("list", 0, -1)),
                _ => drop(shared.echo::<String>(&value)),
            }
            assert_eq!(shared.echo::<String>(&value).wait()?, value);
        }
        Ok(())
    })?;
    assert_eq!(shared.stats().stored, 16 * 25, "one reply for each handle that was forgotten");
    shared.sync()
}

#[test]
fn an_error_that_nobody_saw_is_told_once_by_sync() -> Result<()> {
    let server = support::server();
    let shared = shared(&server)?;
    shared.set("text", "no number").wait()?;
    threads(8, |n| {
        match n % 3 {
            0 => drop(shared.incr("text")),
            1 => shared.incr("text").detach(),
            _ => assert_eq!(shared.incr("text").wait().unwrap_err().code(), Some("ERR")),
        }
        shared.flush()
    })?;
    shared.ping().wait()?;
    assert_eq!(shared.stats().unseen_errors, 6);
    assert_eq!(shared.sync().unwrap_err().code(), Some("ERR"));
    shared.sync()
}

#[test]
fn lists_maps_and_nil_are_read_as_on_a_connection() -> Result<()> {
    let server = support::server();
    let shared = shared(&server)?;
    shared.rpush("list", ["1", "two", "3"]).wait()?;
    shared.hset("hash", [("a", 1), ("b", 2)]).wait()?;
    shared.zadd("zset", [(1.5, "one"), (2.5, "two")]).wait()?;
    shared.set("a", 1).wait()?;

    let mut list = shared.lrange::<Result<i64>>("list", 0, -1);
    assert_eq!(list.len()?, Some(3));
    assert_eq!(list.next().transpose()?.and_then(Result::ok), Some(1));
    // Others go on in the middle of it.
    assert_eq!(shared.get::<i64>("a").wait()?, 1);
    assert_eq!(list.len()?, Some(2));
    assert_eq!(list.wait_as::<Vec<String>>()?, ["two", "3"]);

    // Done after its first error.
    let mut list = shared.lrange::<i64>("list", 0, -1);
    assert_eq!(list.next().transpose()?, Some(1));
    assert!(matches!(list.next(), Some(Err(Error::UnexpectedReply(_)))));
    assert!(list.next().is_none());
    assert_eq!(list.len()?, Some(0));
    assert!(shared.lrange::<i64>("list", 0, -1).wait::<Vec<_>>().is_err());

    let hash: BTreeMap<String, i64> = shared.hgetall("hash").wait()?;
    assert_eq!(hash, BTreeMap::from([("a".into(), 1), ("b".into(), 2)]));
    assert_eq!(shared.hgetall::<String, i64>("hash").len()?, Some(2));
    let all: HashMap<String, String> = shared.hgetall_as("hash").wait()?;
    assert_eq!(all["b"], "2");
    let scores: Vec<(String, f64)> = shared.zrange_withscores("zset", 0, -1).wait()?;
    assert_eq!(scores, [("one".into(), 1.5), ("two".into(), 2.5)]);
    assert_eq!(shared.mget::<Option<i64>>(["a", "b"]).wait::<Vec<_>>()?, [Some(1), None]);

    // An error.
    assert_eq!(shared.lrange::<String>("a", 0, -1).wait::<Vec<_>>().unwrap_err().code(), Some("WRONGTYPE"));
    assert_eq!(shared.lrange::<String>("a", 0, -1).len().unwrap_err().code(), Some("WRONGTYPE"));

    // In a transaction.
    let tx = shared.transaction();
    let (list, hash) = (tx.lrange::<String>("list", 0, -1), tx.hgetall::<String, i64>("hash"));
    tx.commit().wait()?;
    assert_eq!(hash.wait::<Vec<_>>()?.len(), 2);
    assert_eq!(list.wait::<Vec<_>>()?, ["1", "two", "3"]);

    let keys: Vec<String> = shared.scan_with(ScanOptions::new().count(1)).collect::<Result<_>>()?;
    assert_eq!(keys.len(), 4);
    assert!(shared.setbit("bits", 7, true).wait().is_ok());
    Ok(())
}

#[test]
fn a_timeout_gives_the_handle_back_and_harms_no_other() -> Result<()> {
    let server = support::server();
    let shared = shared(&server)?;
    let asleep = AtomicBool::new(true);
    thread::scope(|scope| {
        let (shared, asleep) = (&shared, &asleep);
        // The server is held up for longer than the others want to wait.
        let sleeper = scope.spawn(move || -> Result<()> {
            shared.command::<()>("DEBUG", ("SLEEP", "0.3")).wait()?;
            asleep.store(false, Ordering::Release);
            Ok(())
        });
        let waiting: Vec<_> = (0..8)
            .map(|n| {
                scope.spawn(move || -> Result<()> {
                    let value = format!("value {n}");
                    let mut handle = shared.echo::<String>(&value);
                    loop {
                        match handle.wait_timeout(Duration::from_millis(1 + n)) {
                            Ok(text) => break assert_eq!(text, value),
                            Err(WaitError::Timeout(same)) => handle = same,
                            Err(WaitError::Failed(error)) => return Err(error),
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        waiting.into_iter().chain([sleeper]).try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    assert!(!asleep.into_inner());
    assert_eq!(shared.outstanding(), 0);
    Ok(())
}

#[test]
fn a_wait_that_timed_out_is_given_up_and_its_late_reply_is_skipped() -> Result<()> {
    let server = support::server();
    let short = Shared::open(support::config(&server).timeout(Duration::from_millis(50)))?;
    let asleep = short.command::<()>("DEBUG", ("SLEEP", "0.3"));
    let late: Vec<_> = (0..4).map(|n| short.echo::<String>(format!("late {n}"))).collect();
    let outcomes: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = late.into_iter().map(|late| scope.spawn(|| late.wait())).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Err(Error::Timeout))), "{outcomes:?}");
    in_the_end(asleep)?;
    assert_eq!(short.echo::<String>("next").wait()?, "next");
    assert_eq!((short.outstanding(), short.stats().stored), (0, 0));
    Ok(())
}

#[test]
fn a_handle_can_be_asked_whether_a_wait_would_block() -> Result<()> {
    let server = support::server();
    let shared = shared(&server)?;
    let (a, b) = (shared.incr("n"), shared.incr("n"));
    support::until("the reply has come", || b.is_ready())?;
    assert!(a.is_ready()?);
    assert_eq!((b.wait()?, a.wait()?), (2, 1));
    let tx = shared.transaction();
    let queued = tx.incr("n");
    let commit = tx.commit();
    support::until("the commit has come", || commit.is_ready())?;
    support::until("so has its element", || queued.is_ready())?;
    assert_eq!(queued.wait()?, 3);
    commit.wait()
}

#[test]
fn a_handle_is_ready_while_another_thread_reads() -> Result<()> {
    let server = support::server();
    let shared = shared(&server)?;
    threads(4, |n| {
        for round in 0..200 {
            let handle = shared.echo::<usize>(round);
            if n % 2 == 0 {
                support::until("the reply has come", || handle.is_ready())?;
            }
            assert_eq!(handle.wait()?, round);
        }
        Ok(())
    })
}

#[test]
fn few_replies_and_few_bytes_may_be_outstanding() -> Result<()> {
    let server = support::server();
    for (config, most) in [
        (support::config(&server).max_outstanding(1), 1),
        (support::config(&server).max_outstanding(3).write_batch(1), 3),
        (support::config(&server).max_outstanding_bytes(1), 1),
        (support::config(&server).max_outstanding_bytes(1000).send_when(SendWhen::Eager), 100),
    ] {
        let shared = Shared::open(config)?;
        threads(8, |n| {
            let handles: Vec<_> = (0..100).map(|round| shared.echo::<String>(format!("{n}:{round}"))).collect();
            for (round, handle) in handles.into_iter().enumerate() {
                assert_eq!(handle.wait()?, format!("{n}:{round}"));
            }
            Ok(())
        })?;
        assert!(shared.stats().largest_queue <= most);
        assert_eq!(shared.outstanding(), 0);
    }
    Ok(())
}

#[test]
fn large_values_go_both_ways_through_small_buffers() -> Result<()> {
    let server = support::server();
    let config = support::config(&server).send_buffer_size(4096).recv_buffer_size(4096);
    support::within(LIMIT, move || {
        let shared = Shared::open(config)?;
        threads(8, |n| {
            let value = vec![n as u8; 1 << 20];
            for _ in 0..4 {
                let key = format!("large:{n}");
                let sets: Vec<_> = (0..2).map(|_| shared.set(&key, &value)).collect();
                let gets: Vec<_> = (0..2).map(|_| shared.get::<Vec<u8>>(&key)).collect();
                for get in gets {
                    assert!(get.wait()? == value);
                }
                sets.into_iter().try_for_each(|set| set.wait())?;
            }
            Ok(())
        })?;
        shared.sync()
    })
}

#[test]
fn what_was_issued_runs_although_the_last_clone_is_dropped() -> Result<()> {
    let server = support::server();
    let mine = shared(&server)?;
    let theirs = mine.clone();
    threads(4, |_| {
        (0..1000).for_each(|_| mine.incr("n").detach());
        Ok(())
    })?;
    drop(mine);
    (0..1000).for_each(|_| theirs.incr("n").detach());
    std::mem::forget(theirs.incr("n"));
    drop(theirs);
    assert_eq!(support::open(&server).get::<i64>("n").wait()?, 5001);
    Ok(())
}

#[test]
fn a_connection_is_turned_into_one_that_threads_share() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set("text", "no number").wait()?;
    conn.incr("text").detach();
    conn.incr("n").detach();
    let shared: Shared = conn.try_into()?;
    assert_eq!(shared.incr("n").wait()?, 2);
    assert_eq!(shared.sync().unwrap_err().code(), Some("ERR"), "the account came along");

    // What cannot be read to its end.
    let conn = support::open(&server);
    std::mem::forget(conn.batch());
    assert!(matches!(conn.into_shared(), Err(Error::Refused(_))));
    let conn = support::open(&server);
    std::mem::forget(conn.watch("key")?);
    assert!(matches!(conn.into_shared(), Err(Error::Refused(_))));
    let conn = support::open(&server);
    conn.command::<Value>("BLPOP", ("nothing", 0)).detach();
    assert!(matches!(conn.into_shared(), Err(Error::Refused(_))));
    Ok(())
}

/// Ends every connection to the server but the one that asks.
fn kill_all(conn: &Connection) -> Result<()> {
    conn.command::<Value>("CLIENT", ("KILL", "TYPE", "normal", "SKIPME", "yes")).wait().map(drop)
}

#[test]
fn a_connection_that_broke_is_made_again_for_all() -> Result<()> {
    let server = support::server();
    let witness = support::open(&server);
    let config = support::config(&server).reconnect(Reconnect::backoff()).client_name("shared");
    let shared = Shared::open(config)?;
    let over = AtomicBool::new(false);
    let (mut told, mut lost) = (0, 0);
    thread::scope(|scope| {
        let (shared, over) = (&shared, &over);
        let workers: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(move || {
                    let (mut told, mut lost) = (0, 0);
                    while !over.load(Ordering::Relaxed) {
                        match shared.incr("n").wait() {
                            Ok(_) => told += 1,
                            Err(error @ Error::ConnectionLost(_)) => lost += u64::from(error.may_have_run()),
                            Err(error) => panic!("{error}"),
                        }
                    }
                    (told, lost)
                })
            })
            .collect();
        for _ in 0..10 {
            let before = shared.stats();
            kill_all(&witness)?;
            support::until("it goes on", || {
                let now = shared.stats();
                Ok(now.reconnects > before.reconnects && now.commands > before.commands + 100)
            })?;
        }
        over.store(true, Ordering::Relaxed);
        for worker in workers {
            let (t, l) = worker.join().expect("no panic");
            (told, lost) = (told + t, lost + l);
        }
        Ok::<_, Error>(())
    })?;
    let n: u64 = witness.get("n").wait()?;
    assert!((told..=told + lost).contains(&n), "{n} ran, {told} were told, {lost} were lost");
    assert!(shared.client_list().wait()?.iter().any(|client| client.name == "shared"), "the name is back");
    Ok(())
}

#[test]
fn a_server_that_is_gone_is_told_to_all_when_the_attempts_are_used_up() -> Result<()> {
    let mut server = Some(support::server());
    let policy =
        Reconnect::backoff().attempts(3).first_delay(Duration::from_millis(5)).max_delay(Duration::from_millis(20));
    let config = server.as_ref().map(|server| support::config(server).reconnect(policy)).expect("a server");
    let shared = Shared::open(config)?;
    shared.ping().wait()?;
    drop(server.take());
    threads(16, |_| {
        for _ in 0..3 {
            let outcome = shared.get::<Option<String>>("k").wait();
            assert!(matches!(outcome, Err(Error::ConnectionLost(_))), "{outcome:?}");
        }
        Ok(())
    })?;
    assert!(shared.is_broken());
    Ok(())
}

#[test]
fn credentials_that_panic_harm_no_other() -> Result<()> {
    let server = support::server();
    let witness = support::open(&server);
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let asked = std::sync::Arc::new(asked);
    let counter = asked.clone();
    let config = support::config(&server).reconnect(Reconnect::backoff()).credentials(move || {
        match counter.fetch_add(1, Ordering::Relaxed) {
            1 => panic!("a bomb"),
            // A user without a password is let in with any.
            _ => Ok(redefer::Credentials::new("default", "any")),
        }
    });
    let shared = Shared::open(config)?;
    shared.ping().wait()?;
    kill_all(&witness)?;
    let bangs: usize = thread::scope(|scope| {
        let shared = &shared;
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(move || {
                    let call = || while shared.incr("n").wait().is_err() {};
                    usize::from(catch_unwind(AssertUnwindSafe(call)).is_err())
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    assert_eq!(bangs, 1, "only the thread whose turn it was");
    assert!(asked.load(Ordering::Relaxed) >= 3);
    shared.ping().wait()
}

#[test]
fn credentials_are_refused_to_wait_for_the_connection_that_they_are_for() -> Result<()> {
    let server = support::server();
    let witness = support::open(&server);
    let own = std::sync::Arc::new(std::sync::OnceLock::<Shared>::new());
    let theirs = own.clone();
    let (tell, told) = std::sync::mpsc::channel();
    // Far longer than the test may take.
    let time = Duration::from_secs(600);
    let config = support::config(&server).timeout(time).reconnect(Reconnect::backoff()).credentials(move || {
        if let Some(shared) = theirs.get() {
            let (tx, batch) = (shared.transaction(), shared.batch());
            tx.incr("ran").detach();
            batch.incr("ran").detach();
            let kept = batch.incr("ran");
            let refused = [
                shared.incr("ran").wait().map(drop),
                tx.commit().wait(),
                batch.finish().map_err(|error| match error {
                    Error::Batch(batch) => batch.first().clone(),
                    other => other,
                }),
                kept.wait().map(drop),
                shared.sync(),
                shared.flush(),
            ];
            let _ = tell.send(refused);
        }
        // A user without a password is let in with any.
        Ok(redefer::Credentials::new("default", "any"))
    });
    let shared = own.get_or_init(|| Shared::open(config).expect("a server")).clone();
    kill_all(&witness)?;
    let asks = shared.clone();
    support::within(Duration::from_secs(20), move || while asks.ping().wait().is_err() {});
    let heard = told.recv().expect("it was asked again");
    let [incr, commit, finish, kept, sync, flush] = &heard;
    for refused in [incr, commit, sync, flush] {
        assert!(matches!(refused, Err(Error::Refused(_))), "{heard:?}");
    }
    // A batch tells what became of each.
    for unsent in [finish, kept] {
        let Err(Error::ConnectionLost(lost)) = unsent else { panic!("{heard:?}") };
        assert_eq!(lost.sent(), Sent::Unsent);
    }
    assert_eq!(shared.get::<Option<i64>>("ran").wait()?, None, "what was refused has not been sent");
    shared.ping().wait()
}

#[test]
fn credentials_that_are_kept_where_they_are_needed_are_refused_to_wait() -> Result<()> {
    let server = support::server();
    let witness = support::open(&server);
    let both = std::sync::Arc::new(std::sync::OnceLock::<[Shared; 2]>::new());
    let (tell, told) = std::sync::mpsc::channel();
    let open = |other: usize| {
        let (both, tell) = (both.clone(), tell.clone());
        // Far longer than the test may take.
        let config = support::config(&server).timeout(Duration::from_secs(600)).reconnect(Reconnect::backoff());
        Shared::open(config.credentials(move || {
            if let Some(both) = both.get() {
                let _ = tell.send((other, both[other].get::<Option<String>>("password").wait()));
            }
            // A user without a password is let in with any.
            Ok(redefer::Credentials::new("default", "any"))
        }))
    };
    let [one, other] = both.get_or_init(|| [1, 0].map(|other| open(other).expect("a server"))).clone();
    kill_all(&witness)?;
    support::until("they are broken", || Ok(one.is_broken() && other.is_broken()))?;
    support::within(Duration::from_secs(20), move || one.ping().wait())?;
    let heard: Vec<_> = told.try_iter().collect();
    assert!(matches!(heard[..], [(0, Err(Error::Refused(_))), (1, Ok(None))]), "{heard:?}");
    Ok(())
}

#[test]
fn a_generic_program_runs_on_it() -> Result<()> {
    fn visit<C: StringCommands>(on: C) -> C::Reply<i64> {
        on.incr("visits")
    }
    let server = support::server();
    let shared = shared(&server)?;
    let first: SharedReply<'_, i64> = visit(&shared);
    assert_eq!(first.wait()?, 1);
    let tx: SharedTransaction<'_> = shared.transaction();
    let second = visit(&tx);
    tx.commit().wait()?;
    assert_eq!(second.wait()?, 2);
    assert!(format!("{shared:?} {tx:?}", tx = shared.transaction()).contains("Shared"));
    Ok(())
}

#[cfg(feature = "tls")]
#[test]
fn threads_share_a_connection_over_tls() -> Result<()> {
    let authority = support::tls::Authority::new("the tests");
    let identity = authority.issue(&["127.0.0.1"]);
    for server in support::tls::TlsServer::all(&identity, None) {
        let tls = redefer::TlsConfig::new().root_certificates(&authority.pem);
        let config = support::config_for(&format!("redis://127.0.0.1:{}", server.tls_port)).tls(tls);
        let config = config.send_buffer_size(4096).recv_buffer_size(4096).reconnect(Reconnect::backoff());
        support::within(LIMIT, move || {
            let shared = Shared::open(config)?;
            threads(16, |n| {
                for round in 0..20 {
                    let value = format!("{n}:{round}:{}", "x".repeat(if round == 7 { 200_000 } else { n }));
                    let key = format!("key:{n}");
                    let (set, get) = (shared.set(&key, &value), shared.get::<String>(&key));
                    let tx = shared.transaction();
                    let (one, two) = (tx.incr("n"), tx.incr("n"));
                    let commit = tx.commit();
                    let mut echo = shared.echo::<String>(&value);
                    let echo = loop {
                        match echo.wait_timeout(Duration::from_micros(100)) {
                            Err(WaitError::Timeout(same)) => echo = same,
                            other => break other,
                        }
                    };
                    assert!(echo.is_ok_and(|echo| echo == value));
                    assert!(get.is_ready()?);
                    assert_eq!(get.wait()?, value);
                    set.wait()?;
                    commit.wait()?;
                    assert_eq!(one.wait()? + 1, two.wait()?);
                }
                Ok(())
            })?;
            assert_eq!(shared.get::<i64>("n").wait()?, 16 * 20 * 2);
            shared.sync()
        })?;
    }
    Ok(())
}
