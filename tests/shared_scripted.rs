//! One connection for many threads, with a peer that does what the test dictates.

#![cfg(unix)]

mod support;

use std::collections::HashMap;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use redefer::{Error, Reconnect, Result, Sent, Shared, Value, WaitError, prelude::*};
use support::scripted::{Scripted, bulk, gate};
use support::shared::{LONG, config, in_the_end, lost};

fn echo(shared: &Shared, text: &str) -> Result<String> {
    shared.echo(text).wait()
}

#[test]
fn all_who_wait_hear_at_once_that_the_connection_is_closed() -> Result<()> {
    let peer = Scripted::start(|peer| {
        peer.handshake()?;
        peer.read_commands(16)?;
        peer.close();
        Ok(())
    });
    let shared = Shared::open(config(&peer)?.timeout(LONG))?;
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..16).map(|_| scope.spawn(|| shared.command::<Value>("GET", "k").wait())).collect();
        for thread in waiting {
            assert_eq!(lost(thread.join().expect("no panic")).sent(), Sent::Fully);
        }
    });
    assert!(shared.is_broken());
    lost(shared.command::<Value>("GET", "k").wait());
    assert!(matches!(shared.sync(), Err(Error::ConnectionLost(_))));
    assert!(matches!(shared.flush(), Err(Error::ConnectionLost(_))));
    assert!(matches!(shared.transaction().commit().wait(), Err(Error::ConnectionLost(_))));
    assert_eq!(shared.outstanding(), 0);
    peer.finish();
    Ok(())
}

#[test]
fn a_thread_that_reads_for_all_and_times_out_hands_over() -> Result<()> {
    let (opener, gate) = gate();
    let peer = Scripted::start(move |peer| {
        peer.handshake()?;
        let mut answers = Vec::new();
        for _ in 0..5 {
            answers.extend(bulk(&peer.read_command()?[1]));
        }
        gate.wait();
        peer.send(answers)
    });
    let shared = Shared::open(config(&peer)?)?;
    // It reads for all, and is the only one that gives up.
    let first = shared.echo::<String>("first");
    let reads = Barrier::new(2);
    thread::scope(|scope| -> Result<()> {
        let hasty = scope.spawn(|| {
            reads.wait();
            first.wait_timeout(Duration::from_millis(200))
        });
        reads.wait();
        let patient: Vec<_> = (0..4)
            .map(|n| {
                let shared = &shared;
                scope.spawn(move || -> Result<()> {
                    let text = format!("patient {n}");
                    assert_eq!(echo(shared, &text)?, text);
                    Ok(())
                })
            })
            .collect();
        let Err(WaitError::Timeout(first)) = hasty.join().expect("no panic") else { panic!("nothing was sent") };
        // Only now is anything sent, and it must be read by one of the others.
        opener.open();
        patient.into_iter().try_for_each(|thread| thread.join().expect("no panic"))?;
        assert_eq!(first.wait()?, "first");
        Ok(())
    })?;
    peer.finish();
    Ok(())
}

#[test]
fn a_thread_that_waits_for_ever_shorter_times_does_not_take_the_replies_of_others() -> Result<()> {
    let peer = Scripted::start(|peer| {
        peer.handshake()?;
        while let Ok(command) = peer.read_command() {
            // Every byte arrives alone, so that whoever reads leaves in the middle of a reply.
            peer.send_bytewise(bulk(&command[1]))?;
        }
        Ok(())
    });
    let shared = Shared::open(config(&peer)?)?;
    thread::scope(|scope| {
        for n in 0..8 {
            let shared = &shared;
            scope.spawn(move || {
                for round in 0..30 {
                    let text = format!("{n}:{round}:{}", "x".repeat(n * 3));
                    let mut handle = shared.echo::<String>(&text);
                    let got = loop {
                        match handle.wait_timeout(Duration::from_micros(10)) {
                            Err(WaitError::Timeout(same)) => handle = same,
                            other => break other,
                        }
                    };
                    assert_eq!(got.expect("a reply"), text);
                }
            });
        }
    });
    drop(shared);
    peer.finish();
    Ok(())
}

#[test]
fn a_peer_that_does_not_read_is_waited_for_by_all_and_then_answers_all() -> Result<()> {
    const SIZE: usize = 4 << 20;
    let (opener, gate) = gate();
    let peer = Scripted::builder().buffers(4096).start(move |peer| {
        peer.handshake()?;
        let first = peer.read_command()?;
        gate.wait();
        peer.send(bulk(&first[1]))?;
        for _ in 0..4 {
            let command = peer.read_command()?;
            peer.send(bulk(command[1].len().to_string()))?;
        }
        Ok(())
    });
    let shared = Shared::open(config(&peer)?.send_buffer_size(4096))?;
    let value = vec![b'v'; SIZE];
    thread::scope(|scope| -> Result<()> {
        let first = scope.spawn(|| echo(&shared, "first"));
        support::until("the first one waits", || Ok(shared.stats().writes > 0))?;
        // None of these can be written while the peer does not read, and whoever writes first gives up waiting for it.
        let hasty = shared.echo::<String>(&value);
        let Err(WaitError::Timeout(hasty)) = hasty.wait_timeout(Duration::from_millis(50)) else {
            panic!("nobody has read it");
        };
        let large: Vec<_> = (0..3).map(|_| scope.spawn(|| shared.echo::<String>(&value).wait())).collect();
        let Err(WaitError::Timeout(hasty)) = hasty.wait_timeout(Duration::from_millis(50)) else {
            panic!("nobody has read it");
        };
        opener.open();
        assert_eq!(first.join().expect("no panic")?, "first");
        assert_eq!(hasty.wait()?, SIZE.to_string());
        for thread in large {
            assert_eq!(thread.join().expect("no panic")?, SIZE.to_string());
        }
        Ok(())
    })?;
    drop(shared);
    peer.finish();
    Ok(())
}

#[test]
fn beyond_the_limits_issuing_waits_and_then_fails_without_sending() -> Result<()> {
    let (opener, gate) = gate();
    let peer = Scripted::start(move |peer| {
        peer.handshake()?;
        peer.read_commands(4)?;
        gate.wait();
        peer.send("+1\r\n+2\r\n+3\r\n+4\r\n")?;
        assert_eq!(peer.read_command()?, [b"ECHO".to_vec(), b"next".to_vec()], "nothing of those that failed was sent");
        peer.send("+next\r\n")
    });
    let config = config(&peer)?.max_outstanding(4).timeout(Duration::from_millis(50));
    let shared = Shared::open(config)?;
    let mut kept: Vec<_> = (0..4).map(|n| shared.echo::<String>(format!("{n}"))).collect();
    shared.flush()?;
    thread::scope(|scope| {
        let late: Vec<_> = (0..4).map(|_| scope.spawn(|| shared.echo::<String>("late").wait())).collect();
        for thread in late {
            assert!(matches!(thread.join().expect("no panic"), Err(Error::Timeout)));
        }
    });
    let tx = shared.transaction();
    let queued = tx.incr("n");
    assert!(matches!(tx.commit().wait(), Err(Error::Timeout)));
    assert!(matches!(queued.wait(), Err(Error::Timeout)));
    opener.open();
    let last = kept.pop().expect("a handle");
    assert_eq!(in_the_end(last)?, "4");
    for (n, handle) in kept.into_iter().enumerate() {
        assert_eq!(handle.wait()?, (n + 1).to_string());
    }
    assert_eq!(in_the_end(shared.echo::<String>("next"))?, "next");
    peer.finish();
    Ok(())
}

#[test]
fn an_error_of_the_protocol_breaks_it_for_all_and_what_came_before_is_kept() -> Result<()> {
    let peer = Scripted::start(|peer| {
        peer.handshake()?;
        peer.read_commands(8)?;
        peer.send("+1\r\n+2\r\n?what\r\n+4\r\n")
    });
    let shared = Shared::open(config(&peer)?)?;
    let handles: Vec<_> = (0..8).map(|_| shared.command::<Value>("GET", "k")).collect();
    let outcomes: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = handles.into_iter().map(|handle| scope.spawn(|| handle.wait())).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let good = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    assert_eq!(good, 2, "{outcomes:?}");
    for outcome in outcomes.into_iter().skip(2) {
        assert!(matches!(lost(outcome).cause(), Error::Protocol(_)));
    }
    assert!(shared.is_broken());
    Ok(())
}

#[test]
fn a_drop_waits_no_longer_than_the_timeout_and_only_once() -> Result<()> {
    let (opener, gate) = gate();
    let peer = Scripted::start(move |peer| {
        peer.handshake()?;
        peer.read_commands(100)?;
        gate.wait();
        peer.send("+OK\r\n".repeat(100))
    });
    let shared = Shared::open(config(&peer)?.timeout(Duration::from_millis(300)))?;
    // A hundred times the timeout would be too long for this test.
    let shared = support::within(Duration::from_secs(20), move || {
        let handles: Vec<_> = (0..100).map(|n| shared.set(n, "v")).collect();
        drop(handles);
        shared
    });
    assert_eq!(shared.outstanding(), 100);
    opener.open();
    shared.sync()?;
    peer.finish();
    Ok(())
}

#[test]
fn whoever_waits_while_another_dials_keeps_its_own_time() -> Result<()> {
    let (opener, gate) = gate();
    let peer = Scripted::start(move |peer| {
        if peer.number() > 0 {
            // The handshake of the second connection takes its time.
            gate.wait();
        }
        peer.handshake()?;
        if peer.number() == 0 {
            return Ok(());
        }
        while let Ok(command) = peer.read_command() {
            peer.send(bulk(&command[1]))?;
        }
        Ok(())
    });
    let shared = Shared::open(config(&peer)?.reconnect(Reconnect::backoff()))?;
    // It is closed: whoever is first finds that out, and dials.
    thread::scope(|scope| -> Result<()> {
        let patient: Vec<_> = (0..4)
            .map(|n| {
                let shared = &shared;
                scope.spawn(move || {
                    loop {
                        match echo(shared, &n.to_string()) {
                            Ok(text) => break assert_eq!(text, n.to_string()),
                            Err(Error::ConnectionLost(_)) => {}
                            Err(other) => panic!("{other}"),
                        }
                    }
                })
            })
            .collect();
        support::until("one of them dials", || Ok(peer.accepted() == 2))?;
        let hasty = shared.echo::<String>("hasty");
        let Err(WaitError::Timeout(hasty)) = hasty.wait_timeout(Duration::from_millis(20)) else {
            panic!("there is no connection yet");
        };
        opener.open();
        assert_eq!(hasty.wait()?, "hasty");
        patient.into_iter().for_each(|thread| thread.join().expect("no panic"));
        Ok(())
    })?;
    assert_eq!(shared.stats().reconnects, 1);
    drop(shared);
    peer.finish();
    Ok(())
}

#[test]
fn elements_of_every_shape_are_taken_out_whole() -> Result<()> {
    let replies: [&[u8]; 8] = [
        b"$-1\r\n",
        b"*-1\r\n",
        b"_\r\n",
        b"*3\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n",
        b"*2\r\n*2\r\n$1\r\na\r\n:1\r\n*2\r\n$1\r\nb\r\n:2\r\n",
        b"%1\r\n$1\r\na\r\n:1\r\n",
        b"*2\r\n:1\r\n-ERR bad\r\n",
        b"+OK\r\n",
    ];
    let peer = Scripted::start(move |peer| {
        peer.handshake()?;
        for reply in replies {
            peer.read_command()?;
            peer.send(reply)?;
        }
        peer.read_command()?;
        peer.send("+next\r\n")
    });
    let shared = Shared::open(config(&peer)?)?;
    let mut first = shared.lrange::<String>("k", 0, -1);
    assert_eq!(first.len()?, None);
    assert!(matches!(first.next(), Some(Err(Error::Nil))));
    assert!(first.next().is_none());
    assert!(matches!(shared.lrange::<String>("k", 0, -1).wait::<Vec<_>>(), Err(Error::Nil)));
    assert_eq!(shared.lrange::<()>("k", 0, -1).wait_as::<Option<Vec<String>>>()?, None);
    let mut odd = shared.hgetall::<String, String>("k");
    assert!(matches!(odd.next(), Some(Err(Error::UnexpectedReply(_)))));
    assert!(odd.next().is_none());
    let nested: HashMap<String, i64> = shared.hgetall("k").wait()?;
    assert_eq!(nested, HashMap::from([("a".into(), 1), ("b".into(), 2)]));
    let mut map = shared.hgetall::<String, i64>("k");
    assert_eq!(map.len()?, Some(1));
    assert_eq!(map.next().transpose()?, Some(("a".into(), 1)));
    assert!(map.next().is_none());
    let mut failing = shared.lrange::<i64>("k", 0, -1);
    assert_eq!(failing.next().transpose()?, Some(1));
    assert_eq!(
        failing.next().and_then(Result::err).and_then(|error| error.code().map(String::from)),
        Some("ERR".into())
    );
    assert!(failing.next().is_none());
    assert!(matches!(shared.lrange::<String>("k", 0, -1).len(), Err(Error::UnexpectedReply(_))));
    assert_eq!(echo(&shared, "next")?, "next");
    peer.finish();
    Ok(())
}

#[test]
fn the_drop_of_a_handle_that_was_waited_for_in_vain_does_not_wait_again() -> Result<()> {
    let ((push, pushed), (told, tell)) = (gate(), gate());
    let (answer, answered) = gate();
    let peer = Scripted::unix(move |peer| {
        peer.handshake()?;
        peer.expect(["GET", "k"])?;
        pushed.wait();
        peer.send(">1\r\n+news\r\n")?;
        told.open();
        answered.wait();
        peer.send(bulk("v"))?;
        peer.read_to_end().map(drop)
    });
    let shared = Shared::open(config(&peer)?.timeout(LONG))?;
    let Err(WaitError::Timeout(handle)) = shared.get::<String>("k").wait_timeout(Duration::from_millis(1)) else {
        panic!("nobody has answered")
    };
    // The server is not silent any more.
    push.open();
    tell.wait();
    assert!(!handle.is_ready()?);
    assert_eq!(shared.stats().pushes, 1);
    drop(handle);
    assert_eq!(shared.outstanding(), 1);
    answer.open();
    shared.sync()
}
