//! Batches of threads that share a connection.

#![cfg(all(unix, feature = "testing"))]

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use redefer::{BatchError, Config, Error, Reconnect, Result, SendWhen, Sent, Shared, SharedBatch, Value, prelude::*};
use support::scripted::{Scripted, gate};

#[track_caller]
fn failed(outcome: Result<()>) -> std::sync::Arc<BatchError> {
    match outcome {
        Err(Error::Batch(batch)) => batch,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_commands_of_a_batch_run_one_behind_the_other_whatever_others_do() -> Result<()> {
    const SIZE: usize = 30;
    let server = support::server();
    for when in [SendWhen::Adaptive, SendWhen::Eager, SendWhen::Gathering] {
        let shared = Shared::open(support::config(&server).send_when(when).max_outstanding(50))?;
        thread::scope(|scope| {
            let shared = &shared;
            let threads: Vec<_> = (0..12)
                .map(|n| {
                    scope.spawn(move || -> Result<()> {
                        for round in 0..20 {
                            let name = format!("{n}:{round}");
                            if n % 3 == 0 {
                                shared.rpush("log", &name).wait()?;
                                continue;
                            }
                            let batch = shared.batch();
                            for _ in 1..SIZE {
                                batch.rpush("log", &name);
                            }
                            let last = batch.rpush("log", &name);
                            batch.finish()?;
                            assert!(last.wait()? >= SIZE as i64);
                        }
                        Ok(())
                    })
                })
                .collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
        })?;
        let log: Vec<String> = shared.lrange("log", 0, -1).wait()?;
        let runs: Vec<_> = log.chunk_by(|a, b| a == b).collect();
        assert_eq!(runs.len(), 12 * 20, "none was torn apart");
        assert!(runs.iter().all(|run| run.len() == 1 || run.len() == SIZE));
        shared.del("log").wait()?;
        assert_eq!(shared.outstanding(), 0);
        assert_eq!(shared.stats().stored, 0);
        shared.sync()?;
    }
    Ok(())
}

#[test]
fn a_batch_is_one_write_and_sends_nothing_before() -> Result<()> {
    let server = support::server();
    let shared = Shared::open(support::config(&server).send_when(SendWhen::Eager).write_batch(64))?;
    let batch = shared.batch();
    for n in 0..1000 {
        batch.set(n, "value");
    }
    let early = batch.incr("n");
    assert!(matches!(early.wait(), Err(Error::NotCommitted)));
    let late = batch.dbsize();
    assert_eq!((shared.stats().writes, shared.outstanding()), (0, 0));
    batch.finish()?;
    assert_eq!(shared.stats().writes, 1);
    // What was asked for too early ran all the same.
    assert_eq!(late.wait()?, 1001);
    shared.batch().finish()?;
    assert_eq!(shared.stats().writes, 1);
    assert!(format!("{:?}", shared.batch()).contains("SharedBatch"));
    shared.sync()
}

#[test]
fn a_batch_tells_the_first_error_of_those_that_nobody_kept() -> Result<()> {
    let server = support::server();
    let shared = support::open(&server).into_shared()?;
    shared.set("text", "no number").wait()?;
    let batch = shared.batch();
    batch.set("a", 1);
    batch.rpush("list", Vec::<String>::new()); // 1: cannot be encoded
    let unsendable = batch.rpush("list", Vec::<String>::new()); // 2: the same, and kept
    let kept = batch.incr("text"); // 3: kept
    batch.incr("text"); // 4
    let n = batch.incr("n");
    let list = batch.mget::<Option<i64>>(["a", "none"]);
    batch.command::<()>("NOSUCHCOMMAND", ()); // 7
    batch.command::<()>("BLPOP", ("list", 0)); // 8: refused
    let error = failed(batch.finish());
    assert!(matches!(error.first(), Error::Argument(_)), "{error:?}");
    assert_eq!((error.position(), error.failed()), (1, 4));
    assert!(matches!(unsendable.wait(), Err(Error::Argument(_))));
    assert_eq!(kept.wait().unwrap_err().code(), Some("ERR"));
    assert_eq!(n.wait()?, 1);
    assert_eq!(list.wait::<Vec<_>>()?, [Some(1), None]);
    assert_eq!(shared.stats().unseen_errors, 0, "the batch has told them");

    // Those of another batch, and what is issued beside it, are not its own.
    let (one, two) = (shared.batch(), shared.batch());
    one.incr("text");
    two.incr("n");
    shared.incr("text").detach();
    let kept = two.incr("text");
    two.finish()?;
    drop(kept);
    assert_eq!(shared.sync().unwrap_err().code(), Some("ERR"));
    let error = failed(one.finish());
    assert_eq!((error.position(), error.failed(), error.first().code()), (0, 1, Some("ERR")));

    // One that has nothing which could be sent.
    let batch = shared.batch();
    batch.rpush("list", Vec::<String>::new());
    assert_eq!(failed(batch.finish()).failed(), 1);
    for name in ["SELECT", "AUTH", "MULTI", "ASKING", "SUBSCRIBE"] {
        let batch = shared.batch();
        let refused = batch.command::<Value>(name, "1");
        batch.finish()?;
        assert!(matches!(refused.wait(), Err(Error::Refused(_))), "{name}");
    }
    shared.sync()
}

#[test]
fn a_batch_that_is_dropped_forgotten_or_panicked_over_harms_no_other() -> Result<()> {
    let server = support::server();
    let shared = support::open(&server).into_shared()?;
    shared.set("text", "no number").wait()?;
    let batch = shared.batch();
    batch.incr("n");
    batch.incr("text");
    drop(batch);
    assert_eq!(shared.outstanding(), 0);
    assert!(matches!(shared.sync(), Err(Error::Batch(_))));

    let batch = shared.batch();
    let handle = batch.incr("n");
    let bang = catch_unwind(AssertUnwindSafe(|| {
        let _batch = batch;
        panic!("a bomb");
    }));
    assert!(bang.is_err());
    assert!(matches!(handle.wait(), Err(Error::NotCommitted)));

    let batch = shared.batch();
    let handle = batch.incr("n");
    std::mem::forget(batch);
    assert!(matches!(handle.wait(), Err(Error::NotCommitted)));

    let batch = shared.batch();
    std::mem::forget(batch.incr("n"));
    batch.finish()?;
    assert_eq!(shared.get::<i64>("n").wait()?, 2);
    shared.sync()
}

#[test]
fn a_batch_and_its_handles_go_to_other_threads() -> Result<()> {
    let server = support::server();
    let shared = support::open(&server).into_shared()?;
    let batch: SharedBatch<'_> = shared.batch();
    let handles: Vec<_> = (0..8).map(|_| batch.incr("n")).collect();
    thread::scope(|scope| -> Result<()> {
        let waits = scope.spawn(|| batch.finish());
        waits.join().expect("no panic")?;
        let threads: Vec<_> = handles.into_iter().map(|handle| scope.spawn(|| handle.wait())).collect();
        for (thread, n) in threads.into_iter().zip(1..) {
            assert_eq!(thread.join().expect("no panic")?, n);
        }
        Ok(())
    })?;
    // Asked for while another thread finishes it.
    let batch = shared.batch();
    let handle = batch.incr("n");
    thread::scope(|scope| -> Result<()> {
        let finishes = scope.spawn(|| batch.finish());
        support::until("it is there", || handle.is_ready())?;
        // Which it may have been since nothing was to come.
        finishes.join().expect("no panic")
    })?;
    assert_eq!(handle.wait()?, 9);
    Ok(())
}

#[test]
fn a_batch_whose_server_is_lost_says_how_far_it_came() -> Result<()> {
    let peer = Scripted::start(|peer| {
        peer.handshake()?;
        if peer.number() == 0 {
            peer.read_commands(4)?;
            return peer.send(":1\r\n:2\r\n");
        }
        peer.expect(["PING"])?;
        peer.send("+PONG\r\n")?;
        peer.read_to_end().map(drop)
    });
    let shared = Shared::open(Config::from_url(&peer.url())?.reconnect(Reconnect::backoff()))?;
    let batch = shared.batch();
    let first = batch.incr("n");
    batch.incr("n");
    batch.incr("n");
    let last = batch.incr("n");
    let error = failed(batch.finish());
    let Error::ConnectionLost(lost) = error.first() else { panic!("{error:?}") };
    assert_eq!((error.position(), error.failed(), lost.sent()), (2, 1, Sent::Fully));
    assert_eq!(first.wait()?, 1);
    assert!(matches!(last.wait(), Err(Error::ConnectionLost(_))));
    shared.ping().wait()?;
    assert_eq!(shared.stats().unseen_errors, 0);
    Ok(())
}

#[test]
fn a_batch_that_was_answered_before_its_server_was_lost_is_finished() -> Result<()> {
    let peer = Scripted::start(|peer| {
        peer.handshake()?;
        peer.read_commands(3)?;
        // In one piece, so that whoever reads finds it all at once.
        peer.send(":1\r\n:2\r\n?nonsense\r\n")?;
        peer.read_to_end().map(drop)
    });
    let shared = Shared::open(Config::from_url(&peer.url())?)?;
    let batch = shared.batch();
    batch.incr("n");
    let kept = batch.incr("n");
    thread::scope(|scope| -> Result<()> {
        let finishes = scope.spawn(|| batch.finish());
        support::until("it is on its way", || Ok(shared.outstanding() == 2))?;
        assert!(matches!(shared.incr("n").wait(), Err(Error::ConnectionLost(_))));
        finishes.join().expect("no panic")
    })?;
    assert_eq!(kept.wait()?, 2);
    assert!(shared.is_broken());
    Ok(())
}

#[test]
fn a_batch_that_is_being_finished_hears_of_what_could_not_be_sent() -> Result<()> {
    let peer = Scripted::start(|peer| {
        peer.handshake()?;
        peer.expect(["INCR", "n"])?;
        peer.expect(["PING"])?;
        peer.send(":1\r\n+PONG\r\n")?;
        peer.read_to_end().map(drop)
    });
    let shared = Shared::open(Config::from_url(&peer.url())?)?;
    let batch = shared.batch();
    batch.incr("n");
    let unsendable = batch.rpush("list", Vec::<String>::new());
    thread::scope(|scope| -> Result<()> {
        let finishes = scope.spawn(|| batch.finish());
        support::until("it is on its way", || Ok(shared.outstanding() == 1))?;
        drop(unsendable);
        shared.ping().wait()?;
        let error = failed(finishes.join().expect("no panic"));
        assert!(matches!(error.first(), Error::Argument(_)), "{error:?}");
        assert_eq!((error.position(), error.failed()), (1, 1));
        Ok(())
    })?;
    assert_eq!(shared.stats().unseen_errors, 0, "the batch has told it");
    Ok(())
}

#[test]
fn what_needs_much_room_is_let_in_although_others_never_leave_so_much() -> Result<()> {
    // Answers each command when the next one has come, so that nobody ever sees the queue empty, until it is asked for an echo.
    let peer = Scripted::start(|peer| {
        peer.handshake()?;
        let mut owed = String::new();
        loop {
            let command = peer.read_command()?;
            peer.send(std::mem::take(&mut owed))?;
            owed = match &*command[0] {
                b"INCR" => ":1\r\n",
                b"ECHO" => break,
                _ => "+PONG\r\n",
            }
            .to_owned();
        }
        peer.send("$3\r\nbye\r\n")?;
        while peer.read_command().is_ok() {
            peer.send("+PONG\r\n")?;
        }
        Ok(())
    });
    let config = Config::from_url(&peer.url())?.timeout(support::shared::LONG).max_outstanding(8);
    support::within(Duration::from_secs(20), move || {
        let shared = Shared::open(config)?;
        let stop = AtomicBool::new(false);
        let calls = || -> Result<()> {
            let mut before = shared.ping();
            while !stop.load(Ordering::Relaxed) {
                let next = shared.ping();
                std::mem::replace(&mut before, next).wait()?;
            }
            before.wait()
        };
        thread::scope(|scope| -> Result<()> {
            let callers = [scope.spawn(calls), scope.spawn(calls)];
            support::until("they are at it", || Ok(shared.stats().commands > 100))?;
            for size in [8, 20] {
                let batch = shared.batch();
                (0..size).for_each(|_| batch.incr("n").detach());
                batch.finish()?;
            }
            stop.store(true, Ordering::Relaxed);
            assert_eq!(shared.echo::<String>("bye").wait()?, "bye");
            callers.into_iter().try_for_each(|caller| caller.join().expect("no panic"))
        })
    })
}

#[test]
fn a_batch_whose_time_is_over_goes_on_without_whoever_waited() -> Result<()> {
    let (opener, gate) = gate();
    let peer = Scripted::start(move |peer| {
        peer.handshake()?;
        peer.read_commands(3)?;
        gate.wait();
        peer.send(":1\r\n-ERR late\r\n:3\r\n")?;
        peer.expect(["PING"])?;
        peer.send("+PONG\r\n")?;
        peer.read_to_end().map(drop)
    });
    let shared = Shared::open(Config::from_url(&peer.url())?.timeout(Duration::from_millis(50)))?;
    let batch = shared.batch();
    batch.incr("n");
    batch.incr("text");
    let kept = batch.incr("n");
    assert!(matches!(batch.finish(), Err(Error::Timeout)));
    opener.open();
    assert_eq!(kept.wait_timeout(Duration::from_secs(20)).map_err(Error::from)?, 3);
    shared.ping().wait_timeout(Duration::from_secs(20)).map_err(Error::from)?;
    assert_eq!(shared.sync().unwrap_err().code(), Some("ERR"), "what came late is for the account");
    Ok(())
}
