//! Whose turn it is on a connection that threads share, where a turn that is missed is a thread that waits for ever.

#![cfg(unix)]

mod support;

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use redefer::{Config, Error, Reconnect, Result, SendWhen, Shared, prelude::*};
use support::scripted::{Scripted, bulk, gate};
use support::shared::LONG;

fn config(peer: &Scripted) -> Result<Config> {
    Ok(support::shared::config(peer)?.timeout(LONG).connect_timeout(LONG))
}

/// A reply that was taken in by a write, since the socket had it, is there: nothing else has to come first.
#[test]
fn a_reply_that_a_write_has_taken_in_is_not_waited_for() -> Result<()> {
    for asks in [false, true] {
        let (opener, gate) = gate();
        let (tell, told) = mpsc::channel();
        let peer = Scripted::unix(move |peer| {
            peer.handshake()?;
            let first = peer.read_command()?;
            peer.send(bulk(&first[1]))?;
            // Nobody listens when the test has failed.
            let _ = tell.send(());
            let second = peer.read_command()?;
            gate.wait();
            peer.send(bulk(&second[1]))
        });
        let shared = Shared::open(config(&peer)?.send_when(SendWhen::Eager))?;
        let first = shared.echo::<String>("first");
        told.recv().expect("the peer has answered");
        let second = shared.echo::<String>("second");
        if asks {
            assert!(first.is_ready()?);
            assert!(!second.is_ready()?);
        }
        assert_eq!(first.wait()?, "first");
        opener.open();
        assert_eq!(second.wait()?, "second");
        drop(shared);
        peer.finish();
    }
    Ok(())
}

/// Whoever waits for room to write reads when the thread that read has gone: a peer may want its replies taken first.
#[test]
fn whoever_waits_for_room_reads_when_nobody_else_does() -> Result<()> {
    const SIZE: usize = 4 << 20;
    let (opener, gate) = gate();
    let peer = Scripted::builder().buffers(4096).start(move |peer| {
        peer.handshake()?;
        let first = peer.read_command()?;
        peer.read_command()?;
        gate.wait();
        peer.send(bulk(&first[1]))?;
        gate.wait();
        // It does not read on before this is taken.
        peer.send(bulk(vec![b'v'; SIZE]))?;
        let large = peer.read_command()?;
        peer.send(bulk(large[1].len().to_string()))
    });
    let shared = Shared::open(
        config(&peer)?
            .send_buffer_size(4096)
            .recv_buffer_size(4096)
            .send_when(SendWhen::Gathering)
            .write_batch(1 << 30),
    )?;
    let first = shared.echo::<String>("first");
    shared.echo::<String>("second").detach();
    let value = vec![b'v'; SIZE];
    thread::scope(|scope| -> Result<()> {
        let reads = scope.spawn(|| first.wait());
        support::until("the first one waits", || Ok(shared.stats().round_trips > 0))?;
        let before = shared.stats().bytes_written;
        let writes = scope.spawn(|| shared.echo::<String>(&value).wait());
        support::until("the other one writes", || Ok(shared.stats().bytes_written > before))?;
        // Until the sockets are full, and it waits.
        let (mut written, mut since) = (0, Instant::now());
        support::until("the other one waits for room", || {
            if shared.stats().bytes_written != written {
                (written, since) = (shared.stats().bytes_written, Instant::now());
            }
            Ok(since.elapsed() > Duration::from_millis(300))
        })?;
        opener.open();
        assert_eq!(reads.join().expect("no panic")?, "first");
        opener.open();
        assert_eq!(writes.join().expect("no panic")?, SIZE.to_string());
        Ok(())
    })?;
    drop(shared);
    peer.finish();
    Ok(())
}

/// A transaction that is larger than the queue is taken in when nothing is outstanding, connection or not: whoever waits
/// dials, without the lock.
#[test]
fn a_large_transaction_does_not_dial_under_the_lock() -> Result<()> {
    let (opener, gate) = gate();
    let peer = Scripted::start(move |peer| {
        if peer.number() == 0 {
            return peer.handshake().map(drop);
        }
        gate.wait();
        peer.handshake()?;
        peer.read_commands(6)?;
        peer.send(format!("+OK\r\n{}*4\r\n:1\r\n:2\r\n:3\r\n:4\r\n", "+QUEUED\r\n".repeat(4)))
    });
    let shared = Shared::open(config(&peer)?.max_outstanding(4).reconnect(Reconnect::backoff()))?;
    assert!(matches!(shared.echo::<String>("").wait(), Err(Error::ConnectionLost(_))));
    thread::scope(|scope| -> Result<()> {
        let commits = scope.spawn(|| {
            let tx = shared.transaction();
            let counts: Vec<_> = (0..4).map(|_| tx.incr("n")).collect();
            tx.commit().wait()?;
            counts.into_iter().map(|count| count.wait()).collect::<Result<Vec<_>>>()
        });
        support::until("it dials", || Ok(peer.accepted() == 2))?;
        let theirs = shared.clone();
        assert_eq!(support::within(Duration::from_secs(10), move || theirs.outstanding()), 6 + 4);
        opener.open();
        assert_eq!(commits.join().expect("no panic")?, [1, 2, 3, 4]);
        Ok(())
    })?;
    drop(shared);
    peer.finish();
    Ok(())
}

/// What has been answered does not count against the bytes that may be outstanding, whoever has written it.
#[test]
fn bytes_that_are_answered_make_room() -> Result<()> {
    const ROUNDS: usize = 100;
    for when in [SendWhen::Eager, SendWhen::Adaptive, SendWhen::Gathering] {
        let peer = Scripted::start(move |peer| {
            peer.handshake()?;
            for _ in 0..ROUNDS {
                let command = peer.read_command()?;
                peer.send(bulk(&command[1]))?;
            }
            // The second one does not wait for the reply of the first.
            for command in peer.read_commands(2)? {
                peer.send(bulk(&command[1]))?;
            }
            Ok(())
        });
        let shared = Shared::open(config(&peer)?.max_outstanding_bytes(1000).send_when(when))?;
        for round in 0..ROUNDS {
            assert_eq!(shared.echo::<usize>(round).wait()?, round);
        }
        let first = shared.echo::<String>("first");
        let second = shared.echo::<String>("second");
        assert_eq!((first.wait()?, second.wait()?), ("first".to_owned(), "second".to_owned()));
        drop(shared);
        peer.finish();
    }
    Ok(())
}
