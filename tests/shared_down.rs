//! One connection for many threads, while there is no server at its other end.

#![cfg(unix)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use redefer::{Config, Error, Reconnect, Result, Sent, Shared, prelude::*};
use support::scripted::{Scripted, bulk, gate};
use support::shared::{self, in_the_end, lost};

/// A server that goes away after one command, and lets nobody in before it is told to. Then it answers these commands, and no other.
fn away_until(ready: &Arc<AtomicBool>, answers: &'static [&'static str]) -> Scripted {
    let ready = ready.clone();
    Scripted::start(move |peer| {
        if peer.number() == 0 {
            peer.handshake()?;
            return peer.read_command().map(drop);
        }
        if !ready.load(Ordering::Relaxed) {
            peer.read_command()?;
            return peer.send("-LOADING Redis is loading the dataset in memory\r\n");
        }
        peer.handshake()?;
        for answer in answers {
            peer.expect(["ECHO", answer])?;
            peer.send(bulk(answer))?;
        }
        peer.expect_end()
    })
}

fn config(peer: &Scripted) -> Result<Config> {
    let patient = Reconnect::forever().first_delay(Duration::from_millis(1)).max_delay(Duration::from_millis(5));
    Ok(shared::config(peer)?.reconnect(patient).timeout(Duration::from_millis(100)))
}

/// Does not wait, and so takes no command back.
fn until_broken(shared: &Shared) -> Result<()> {
    shared.flush()?;
    support::until("it is broken", || Ok(shared.is_broken()))
}

#[track_caller]
fn unsent<T>(outcome: Result<T>) {
    assert_eq!(lost(outcome).sent(), Sent::Unsent);
}

#[test]
fn a_wait_whose_time_is_over_while_there_is_no_server_takes_its_own_command_back() -> Result<()> {
    let ready = Arc::new(AtomicBool::new(false));
    let peer = away_until(&ready, &["kept", "kept too", "in a batch", "at last"]);
    let shared = Shared::open(config(&peer)?)?;
    // It may run again, and has been sent once.
    let sent = shared.idempotent().echo::<String>("sent");
    until_broken(&shared)?;
    assert_eq!(lost(sent.wait()).sent(), Sent::Fully);

    let kept = shared.echo::<String>("kept");
    let early = shared.echo::<String>("early");
    let kept_too = shared.echo::<String>("kept too");
    thread::scope(|scope| {
        let late: Vec<_> = (0..8).map(|_| scope.spawn(|| shared.echo::<String>("late").wait())).collect();
        let lists: Vec<_> =
            (0..8).map(|_| scope.spawn(|| shared.lrange::<String>("late", 0, -1).wait::<Vec<_>>())).collect();
        late.into_iter().for_each(|thread| unsent(thread.join().expect("no panic")));
        lists.into_iter().for_each(|thread| unsent(thread.join().expect("no panic")));
    });
    unsent(early.wait());

    // A transaction goes as a whole, whichever of its handles is waited for.
    for first in [true, false] {
        let tx = shared.transaction();
        let (one, two) = (tx.incr("one"), tx.incr("two"));
        tx.set("dropped", "");
        let commit = tx.commit();
        if first {
            unsent(commit.wait());
            unsent(one.wait());
        } else {
            unsent(one.wait());
            unsent(commit.wait());
        }
        unsent(two.wait());
    }
    // Of a batch goes what nobody holds a handle of.
    let batch = shared.batch();
    batch.incr("dropped");
    let in_batch = batch.echo::<String>("in a batch");
    batch.incr("dropped");
    let late = batch.incr("late");
    let Err(Error::Batch(error)) = batch.finish() else { panic!("there is no server") };
    assert_eq!((error.position(), error.failed()), (0, 2));
    unsent::<()>(Err(error.first().clone()));
    unsent(late.wait());

    // These have no command of their own.
    assert!(matches!(shared.flush(), Err(Error::Timeout)));
    ready.store(true, Ordering::Relaxed);
    assert_eq!((in_the_end(kept_too)?, in_the_end(kept)?), ("kept too".to_owned(), "kept".to_owned()));
    assert_eq!(in_batch.wait_timeout(Duration::from_secs(20)).map_err(Error::from)?, "in a batch");
    assert_eq!(in_the_end(shared.echo::<String>("at last"))?, "at last");
    assert_eq!(shared.outstanding(), 0);
    drop(shared);
    peer.finish();
    Ok(())
}

#[test]
fn what_was_taken_back_is_not_outstanding() -> Result<()> {
    let ready = Arc::new(AtomicBool::new(false));
    let peer = away_until(&ready, &["kept", "kept too"]);
    let shared = Shared::open(config(&peer)?)?;
    let sent = shared.echo::<String>("sent");
    until_broken(&shared)?;
    assert_eq!(lost(sent.wait()).sent(), Sent::Fully);
    let kept = shared.echo::<String>("kept");
    unsent(shared.echo::<String>("late").wait());
    let tx = shared.transaction();
    tx.incr("late").detach();
    unsent(tx.commit().wait());
    let kept_too = shared.echo::<String>("kept too");
    let batch = shared.batch();
    batch.incr("late").detach();
    assert!(batch.finish().is_err());
    assert_eq!(shared.outstanding(), 2);
    ready.store(true, Ordering::Relaxed);
    assert_eq!((in_the_end(kept)?, in_the_end(kept_too)?), ("kept".to_owned(), "kept too".to_owned()));
    assert_eq!(shared.outstanding(), 0);
    drop(shared);
    peer.finish();
    Ok(())
}

#[test]
fn what_is_not_taken_in_while_there_is_no_server_says_that_it_was_not_sent() -> Result<()> {
    let ready = Arc::new(AtomicBool::new(false));
    let peer = away_until(&ready, &["0", "1"]);
    let shared = Shared::open(config(&peer)?.max_outstanding(2))?;
    let sent = shared.echo::<String>("sent");
    until_broken(&shared)?;
    assert_eq!(lost(sent.wait()).sent(), Sent::Fully);
    let kept: Vec<_> = (0..2).map(|n| shared.echo::<usize>(n)).collect();
    unsent(shared.echo::<String>("late").wait());
    let tx = shared.transaction();
    let queued = tx.incr("late");
    unsent(tx.commit().wait());
    unsent(queued.wait());
    let batch = shared.batch();
    let queued = batch.incr("late");
    unsent(batch.finish());
    unsent(queued.wait());
    ready.store(true, Ordering::Relaxed);
    for (n, handle) in kept.into_iter().enumerate() {
        assert_eq!(in_the_end(handle)?, n);
    }
    drop(shared);
    peer.finish();
    Ok(())
}

#[test]
fn a_connection_that_is_closed_while_idle_is_known_to_be_without_a_command() -> Result<()> {
    let (opener, gate) = gate();
    let peer = Scripted::start(move |peer| {
        peer.handshake()?;
        if peer.number() == 0 {
            // News, which is none of the end.
            peer.send(">2\r\n+news\r\n+of the day\r\n")?;
            gate.wait();
            return Ok(());
        }
        peer.expect(["ECHO", "next"])?;
        peer.send(bulk("next"))?;
        peer.expect_end()
    });
    let shared = Shared::open(shared::config(&peer)?.reconnect(Reconnect::backoff()))?;
    support::until("the news has come", || {
        assert!(!shared.is_broken());
        Ok(shared.stats().pushes == 1)
    })?;
    assert!(shared.next_push().is_some());
    opener.open();
    support::until("it is closed", || Ok(shared.is_broken()))?;
    assert!(shared.is_broken() && shared.stats().reconnects == 0, "whoever asks does not dial");
    // And so the next command is not lost.
    assert_eq!(shared.echo::<String>("next").wait()?, "next");
    assert!(!shared.is_broken());
    drop(shared);
    peer.finish();
    Ok(())
}

#[test]
fn a_reply_to_nothing_is_known_without_a_command() -> Result<()> {
    let peer = Scripted::start(|peer| {
        peer.handshake()?;
        peer.send("+OK\r\n")?;
        peer.expect_end()
    });
    let shared = Shared::open(shared::config(&peer)?)?;
    support::until("it is broken", || Ok(shared.is_broken()))?;
    let lost = lost(shared.echo::<String>("k").wait());
    assert_eq!(lost.sent(), Sent::Unsent);
    assert!(matches!(lost.cause(), Error::Protocol(_)));
    Ok(())
}
