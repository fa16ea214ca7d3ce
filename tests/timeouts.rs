//! A timeout is one deadline for a whole wait, and leaves the connection in step.

#![cfg(feature = "testing")]

mod support;

use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use redefer::{Error, Result, SendWhen, WaitError, prelude::*};
use support::scripted::{Gate, Opener, Scripted, bulk, gate};

/// More than any of these tests needs.
const LIMIT: Duration = Duration::from_secs(20);
/// What no wait in these tests may need that is to succeed.
const SHORT: Duration = Duration::from_millis(50);

/// A connection to a scripted server whose waits take a short time, and whose drop takes none.
fn short(server: &Scripted) -> Result<Connection> {
    Connection::open(Config::from_url(&server.url())?.timeout(SHORT).linger(Duration::ZERO))
}

#[track_caller]
fn given_back<H: std::fmt::Debug, T: std::fmt::Debug>(outcome: Result<T, WaitError<H>>) -> H {
    match outcome {
        Err(WaitError::Timeout(handle)) => handle,
        other => panic!("no timeout: {other:?}"),
    }
}

#[test]
fn an_answer_that_comes_late_goes_to_nobody() -> Result<()> {
    let server = Scripted::start(|peer| {
        peer.handshake()?;
        peer.expect(["GET", "k1"])?;
        // The first answer only when the second question is there.
        peer.expect(["GET", "k2"])?;
        peer.send("$3\r\none\r\n$3\r\ntwo\r\n")?;
        peer.expect(["GET", "k3"])?;
        peer.send("$5\r\nthree\r\n")?;
        peer.expect_end()
    });
    let conn = short(&server)?;
    let first = conn.get::<String>("k1");
    assert!(matches!(first.wait(), Err(Error::Timeout)));
    assert!(!conn.is_broken());
    let second = conn.get::<String>("k2");
    assert_eq!(second.wait_timeout(LIMIT)?, "two");
    assert_eq!(conn.get::<String>("k3").wait_timeout(LIMIT)?, "three");
    assert_eq!(conn.stats().stored, 0);
    conn.sync()?;
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn late_answers_are_skipped_by_count_whatever_they_are() -> Result<()> {
    let late = [
        "$5\r\nvalue\r\n".to_owned(),
        "*2\r\n*2\r\n:1\r\n:2\r\n$-1\r\n".to_owned(),
        "-ERR late\r\n".to_owned(),
        "%1\r\n+a\r\n*1\r\n-ERR inside\r\n".to_owned(),
        format!("$100000\r\n{}\r\n", "x".repeat(100_000)),
        format!("*2000\r\n{}", ":7\r\n".repeat(2_000)),
    ];
    for answer in late {
        let is_error = answer.starts_with('-');
        // Part of it is there when the wait gives up: none, one byte, half, all but one byte.
        for (at, list) in
            [0, 1, answer.len() / 2, answer.len() - 1].into_iter().flat_map(|at| [(at, false), (at, true)])
        {
            let (opener, opened) = gate();
            let wire = answer.clone();
            let server = Scripted::start(move |peer| {
                peer.handshake()?;
                peer.read_command()?;
                peer.send_split_at_gate(&wire, at, &opened)?;
                peer.read_command()?;
                peer.send(":7\r\n")?;
                peer.expect_end()
            });
            let conn = short(&server)?;
            if list {
                assert!(matches!(conn.lrange::<Value>("k", 0, -1).wait::<Vec<_>>(), Err(Error::Timeout)));
            } else {
                assert!(matches!(conn.get::<Value>("k").wait(), Err(Error::Timeout)));
            }
            opener.open();
            assert_eq!(conn.incr("n").wait_timeout(LIMIT)?, 7, "{at} bytes in time, list: {list}");
            assert_eq!(conn.sync().is_err(), is_error, "{at} bytes in time, list: {list}");
            drop(conn);
            server.finish();
        }
    }
    Ok(())
}

#[test]
fn a_handle_that_is_given_back_works_later() -> Result<()> {
    let (opener, opened) = gate();
    let server = Scripted::start(move |peer| {
        peer.handshake()?;
        peer.read_commands(3)?;
        peer.send("$3\r\no")?;
        opened.wait();
        peer.send("ne\r\n*2\r\n:1\r\n:2\r\n:3\r\n")?;
        peer.expect_end()
    });
    let conn = Connection::open(server.url())?;
    let one = conn.get::<String>("k1");
    let two = conn.command::<(i64, i64)>("K2", ());
    let three = conn.incr("k3");
    let three = given_back(three.wait_timeout(SHORT));
    let one = given_back(one.wait_timeout(SHORT));
    let three = given_back(three.wait_timeout(Duration::ZERO));
    let one = given_back(one.wait_timeout(Duration::ZERO));
    let two = given_back(two.wait_timeout(Duration::from_nanos(1)));
    opener.open();
    assert_eq!(three.wait()?, 3);
    assert_eq!(two.wait_timeout(LIMIT)?, (1, 2));
    assert_eq!(one.wait_timeout(Duration::ZERO)?, "one", "it is there, so there is nothing to wait for");
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn handles_of_a_transaction_are_given_back_as_well() -> Result<()> {
    let (opener, opened) = gate();
    let server = Scripted::start(move |peer| {
        peer.handshake()?;
        peer.read_commands(4)?;
        peer.send("+OK\r\n+QUEUED\r\n")?;
        opened.wait();
        peer.send("+QUEUED\r\n*2\r\n:1\r\n:2\r\n")?;
        peer.expect_end()
    });
    let conn = Connection::open(server.url())?;
    let tx = conn.transaction();
    let (one, two) = (tx.incr("x"), tx.incr("x"));
    let commit = tx.commit();
    let two = given_back(two.wait_timeout(SHORT));
    let commit = given_back(commit.wait_timeout(SHORT));
    opener.open();
    assert_eq!(two.wait()?, 2);
    commit.wait()?;
    assert_eq!(one.wait()?, 1);
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn a_transaction_whose_commit_timed_out_stays_in_step() -> Result<()> {
    let (opener, opened) = gate();
    let server = Scripted::start(move |peer| {
        peer.handshake()?;
        peer.read_commands(4)?;
        peer.send("+OK\r\n+QUEUED\r\n+QUE")?;
        opened.wait();
        peer.send("UED\r\n*2\r\n:1\r\n:2\r\n")?;
        peer.read_command()?;
        peer.send(":7\r\n")?;
        peer.expect_end()
    });
    let conn = short(&server)?;
    let tx = conn.transaction();
    let (one, two) = (tx.incr("x"), tx.incr("x"));
    assert!(matches!(tx.commit().wait(), Err(Error::Timeout)));
    assert!(matches!(one.wait(), Err(Error::Timeout)));
    opener.open();
    assert_eq!(conn.incr("n").wait_timeout(LIMIT)?, 7);
    assert_eq!(two.wait()?, 2, "it was not waited for, so it was not given up");
    conn.sync()?;
    drop(conn);
    server.finish();
    Ok(())
}

/// Sends a part of a reply and then drips `byte` until the client has gone.
fn dripping(start: &'static str, byte: &'static str) -> Scripted {
    Scripted::start(move |peer| {
        peer.handshake()?;
        peer.read_command()?;
        peer.send(start)?;
        while peer.send(byte).is_ok() {}
        Ok(())
    })
}

#[test]
fn a_reply_that_drips_for_ever_ends_by_one_deadline() -> Result<()> {
    // A deadline for each read, or each element, would never end these.
    support::within(LIMIT, || -> Result<()> {
        for (start, byte) in
            [("$500000000\r\n", "x"), ("*100000000\r\n", ":1\r\n"), ("*2\r\n$3\r\nabc\r\n$500000000\r\n", "x")]
        {
            let server = dripping(start, byte);
            let conn = short(&server)?;
            let reply = conn.command::<Value>("BIG", ());
            assert!(matches!(reply.wait(), Err(Error::Timeout)), "{start:?}");
            assert!(!conn.is_broken());
            drop(conn.lrange::<i64>("behind", 0, -1));
            assert!(matches!(conn.get::<Value>("behind").wait(), Err(Error::Timeout)), "{start:?}");
            drop(conn);

            let server = dripping(start, byte);
            let conn = short(&server)?;
            let reply = conn.command::<Value>("BIG", ());
            let reply = given_back(reply.wait_timeout(SHORT));
            drop(reply);
            drop(conn);
        }
        let server = dripping("*100000000\r\n", ":1\r\n");
        let conn = short(&server)?;
        assert!(matches!(conn.lrange::<i64>("big", 0, -1).wait::<Vec<_>>(), Err(Error::Timeout)));
        drop(conn);
        let server = dripping("*100000000\r\n", "$1\r\nx\r\n");
        let conn = short(&server)?;
        assert!(matches!(conn.lrange::<String>("big", 0, -1).for_each_bytes(|_| {}), Err(Error::Timeout)));
        drop(conn);
        // Iterated, each element is a wait of its own.
        let server = dripping("*100000000\r\n", ":1\r\n");
        let conn = Connection::open(Config::from_url(&server.url())?.timeout(LIMIT).linger(Duration::ZERO))?;
        assert!(conn.lrange::<i64>("big", 0, -1).take(10_000).all(|element| matches!(element, Ok(1))));
        Ok(())
    })
}

#[test]
fn a_server_that_sends_pushes_for_ever_does_not_hold_a_wait() -> Result<()> {
    support::within(LIMIT, || -> Result<()> {
        let server = dripping("", ">2\r\n+message\r\n+x\r\n");
        let conn = short(&server)?;
        assert!(matches!(conn.get::<Value>("k").wait(), Err(Error::Timeout)));
        assert!(conn.stats().pushes > 0);
        Ok(())
    })
}

#[test]
fn a_sync_and_a_batch_on_a_silent_server_take_one_deadline() -> Result<()> {
    let (opener, opened) = gate();
    let server = Scripted::start(move |peer| {
        peer.handshake()?;
        opened.wait();
        let commands = peer.read_commands(1_001)?;
        assert_eq!(commands.len(), 1_001);
        peer.send("+OK\r\n".repeat(1_001))?;
        peer.expect(["PING"])?;
        peer.send("+PONG\r\n")?;
        peer.expect_end()
    });
    let conn = Connection::open(Config::from_url(&server.url())?.timeout(SHORT * 6).linger(Duration::ZERO))?;
    let conn = support::within(LIMIT, move || {
        let replies: Vec<Reply<'_, ()>> = (0..1_000).map(|n| conn.set(n, n)).collect();
        for reply in replies {
            reply.detach();
        }
        assert!(matches!(conn.sync(), Err(Error::Timeout)));
        let batch = conn.batch();
        batch.set("in", "batch");
        assert!(matches!(batch.finish(), Err(Error::Timeout)));
        conn
    });
    opener.open();
    conn.ping().wait_timeout(LIMIT)?;
    assert_eq!(conn.outstanding(), 0);
    conn.sync()?;
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn a_blocking_command_without_end_outwaits_the_response_timeout() -> Result<()> {
    let server = support::server();
    for brpop in [false, true] {
        let config = support::config(&server);
        // Waits at the server for far longer than the timeout of the other, then pushes.
        let pusher = thread::spawn(move || -> Result<()> {
            let conn = Connection::open(config)?;
            assert_eq!(conn.blpop::<String, String>("nothing", SHORT * 8).wait()?, None);
            conn.rpush("queue", "late").wait()?;
            Ok(())
        });
        let conn = Connection::open(support::config(&server).timeout(SHORT))?;
        let pop = if brpop { conn.brpop("queue", None) } else { conn.blpop("queue", None) };
        let behind = conn.echo::<i64>(1);
        let popped: Option<(String, String)> = pop.wait()?;
        assert_eq!(popped, Some(("queue".to_owned(), "late".to_owned())));
        assert_eq!(behind.wait()?, 1);
        pusher.join().expect("the pusher did not panic")?;
    }
    Ok(())
}

#[test]
fn an_element_is_not_lost_to_a_caller_that_gave_up_for_a_while() -> Result<()> {
    let server = support::server();
    let (conn, other) = (support::open(&server), support::open(&server));
    let pop = conn.blpop::<String, i64>("queue", None);
    let pop = given_back(pop.wait_timeout(SHORT));
    assert!(!pop.is_ready()?);
    let pop = given_back(pop.wait_timeout(Duration::ZERO));
    other.rpush("queue", 5).wait()?;
    assert_eq!(pop.wait()?, Some(("queue".to_owned(), 5)));
    Ok(())
}

#[test]
fn the_time_of_a_blocking_command_is_added_to_every_wait_behind_it() -> Result<()> {
    let server = support::server();
    let conn = Connection::open(support::config(&server).timeout(SHORT))?;
    let time = SHORT * 8;
    // Its own wait, one behind it, a kept one, one behind two of them; by method and by name.
    assert_eq!(conn.blpop::<String, String>("nothing", time).wait()?, None);
    conn.blpop::<String, String>("nothing", time).detach();
    assert_eq!(conn.echo::<i64>(1).wait()?, 1);
    let kept = conn.command::<Option<(String, String)>>("BRPOP", ("nothing", 0.4));
    let second = conn.blmove::<Option<String>>(
        "nothing",
        "other",
        redefer::commands::Direction::Left,
        redefer::commands::Direction::Right,
        time,
    );
    assert_eq!(conn.echo::<i64>(2).wait()?, 2);
    assert_eq!(kept.wait()?, None);
    assert_eq!(second.wait()?, None);
    conn.bzpopmin::<String, String>("nothing", time).detach();
    conn.sync()?;
    conn.blpop::<String, String>("nothing", time).detach();
    let batch = conn.batch();
    batch.set("in", "batch");
    batch.finish()?;
    conn.blpop::<String, String>("nothing", time).detach();
    let tx = conn.transaction();
    let one = tx.incr("n");
    tx.commit().wait()?;
    assert_eq!(one.wait()?, 1);
    Ok(())
}

#[test]
fn no_duration_means_for_ever() -> Result<()> {
    let server = support::server();
    let url = server.url();
    support::within(LIMIT, move || -> Result<()> {
        let conn = Connection::open(support::config_for(&url))?;
        for time in [Duration::ZERO, Duration::from_nanos(1), Duration::from_millis(1)] {
            assert_eq!(conn.blpop::<String, String>("nothing", time).wait()?, None);
        }
        let (opener, opened) = gate();
        let silent = silent(opened);
        let config = Config::from_url(&silent.url())?.timeout(Duration::ZERO).linger(Duration::ZERO);
        let conn = Connection::open(config)?;
        assert!(matches!(conn.get::<Value>("k").wait(), Err(Error::Timeout)));
        assert!(matches!(conn.sync(), Err(Error::Timeout)));
        opener.open();
        Ok(())
    })
}

/// A server that shakes hands and then does nothing until the gate opens.
fn silent(opened: Gate) -> Scripted {
    Scripted::start(move |peer| {
        peer.handshake()?;
        opened.wait();
        peer.read_to_end().map(drop)
    })
}

/// A server that takes nothing in after the handshake until the gate opens, and then counts what it is told.
fn deaf(answers: usize) -> (Opener, Scripted) {
    let (opener, opened) = gate();
    let server = Scripted::builder().buffers(4096).start(move |peer| {
        peer.handshake()?;
        opened.wait();
        for n in 0..answers {
            let command = peer.read_command()?;
            let want = format!("key{n}");
            assert_eq!(command[1], want.as_bytes(), "command {n}");
            peer.send(bulk(&command[1]))?;
        }
        peer.expect_end()
    });
    (opener, server)
}

#[test]
fn a_timeout_while_writing_keeps_the_rest_and_the_step() -> Result<()> {
    let (opener, server) = deaf(3);
    let config = Config::from_url(&server.url())?.timeout(SHORT).send_buffer_size(4096).linger(LIMIT);
    let conn = Connection::open(config)?;
    // More than all buffers between the two can hold.
    let large = vec![b'x'; 8 << 20];
    let first = conn.command::<String>("SET", ("key0", &large));
    // Each of these waits for room in vain, and is not taken in at all.
    for _ in 0..3 {
        assert!(matches!(conn.set("never", "sent").wait(), Err(Error::Timeout)));
    }
    conn.set("never", "sent").detach();
    assert!(matches!(conn.sync(), Err(Error::Timeout)));
    assert!(matches!(conn.flush(), Err(Error::Timeout)));
    let tx = conn.transaction();
    let queued = tx.incr("never");
    assert!(matches!(tx.commit().wait(), Err(Error::Timeout)));
    assert!(matches!(queued.wait(), Err(Error::Timeout)));
    assert!(matches!(first.wait(), Err(Error::Timeout)));
    assert!(!conn.is_broken());
    assert_eq!(conn.outstanding(), 1);
    opener.open();
    let second = loop {
        match conn.get::<String>("key1").wait_timeout(LIMIT) {
            // There was still no room for it.
            Err(WaitError::Failed(Error::Timeout)) => {}
            other => break other?,
        }
    };
    assert_eq!(second, "key1");
    assert_eq!(conn.get::<String>("key2").wait_timeout(LIMIT)?, "key2");
    // What was not taken in and detached is in the account.
    assert!(matches!(conn.sync(), Err(Error::Timeout)));
    assert_eq!(conn.stats().unseen_errors, 0);
    conn.sync()?;
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn a_command_that_could_not_be_taken_in_tells_so_once() -> Result<()> {
    let (opener, server) = deaf(1);
    let config = Config::from_url(&server.url())?.timeout(SHORT).send_buffer_size(4096).linger(LIMIT);
    let conn = Connection::open(config)?;
    conn.command::<String>("SET", ("key0", vec![b'x'; 8 << 20])).detach();
    assert!(matches!(conn.set("never", "sent").wait(), Err(Error::Timeout)));
    assert!(matches!(conn.set("never", "sent").wait_timeout(LIMIT), Err(WaitError::Failed(Error::Timeout))));
    assert!(matches!(conn.lrange::<i64>("never", 0, -1).wait::<Vec<_>>(), Err(Error::Timeout)));
    assert!(matches!(conn.lrange::<i64>("never", 0, -1).next(), Some(Err(Error::Timeout))));
    assert!(matches!(conn.lrange::<i64>("never", 0, -1).len(), Err(Error::Timeout)));
    let tx = conn.transaction();
    let (one, two) = (tx.incr("never"), tx.lrange::<i64>("never", 0, -1));
    let commit = tx.commit();
    assert!(matches!(commit.wait(), Err(Error::Timeout)));
    assert!(matches!(one.wait_timeout(LIMIT), Err(WaitError::Failed(Error::Timeout))));
    assert!(matches!(two.wait::<Vec<_>>(), Err(Error::Timeout)));
    let batch = conn.batch();
    assert!(matches!(batch.set("never", "sent").wait(), Err(Error::Timeout)));
    drop(batch);
    assert_eq!(conn.stats().unseen_errors, 0, "each was told to its handle");
    assert_eq!(conn.outstanding(), 1);
    opener.open();
    // Nothing of all that was sent.
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn two_timeouts_while_writing_send_nothing_twice() -> Result<()> {
    let (opener, server) = deaf(20);
    let config =
        Config::from_url(&server.url())?.timeout(SHORT).send_buffer_size(4096).write_batch(64 << 20).linger(LIMIT);
    let conn = Connection::open(config.send_when(SendWhen::Gathering))?;
    let large = vec![b'x'; 1 << 20];
    let mut handles: Vec<Reply<'_, String>> =
        (0..20).map(|n| conn.command("SET", (format!("key{n}"), &large))).collect();
    for _ in 0..2 {
        let last = given_back(handles.pop().expect("twenty").wait_timeout(SHORT));
        handles.push(last);
        assert!(matches!(conn.flush(), Err(Error::Timeout)));
    }
    opener.open();
    for (n, handle) in handles.into_iter().enumerate().rev() {
        assert_eq!(handle.wait_timeout(LIMIT)?, format!("key{n}"));
    }
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn is_ready_never_blocks_and_tells_the_truth() -> Result<()> {
    let (opener, opened) = gate();
    let server = Scripted::start(move |peer| {
        peer.handshake()?;
        peer.read_commands(3)?;
        peer.send("$3\r\none\r\n*2\r\n:1\r\n")?;
        opened.wait();
        peer.send(":2\r\n:3\r\n")?;
        peer.read_to_end().map(drop)
    });
    let config = Config::from_url(&server.url())?.timeout(None).linger(Duration::ZERO).send_when(SendWhen::Gathering);
    support::within(LIMIT, move || -> Result<()> {
        let conn = Connection::open(config)?;
        let (one, two, three) = (conn.get::<String>("a"), conn.command::<(i64, i64)>("B", ()), conn.incr("c"));
        // It sends what has been gathered: else this would be for ever.
        while !one.is_ready()? {}
        assert!(!two.is_ready()? && !three.is_ready()?);
        assert!(one.is_ready()?, "however often it is asked");
        opener.open();
        while !three.is_ready()? {}
        assert!(one.is_ready()? && two.is_ready()?);
        let stats = conn.stats();
        assert_eq!((one.wait()?, two.wait()?, three.wait()?), ("one".to_owned(), (1, 2), 3));
        assert_eq!((conn.stats().reads, conn.stats().round_trips), (stats.reads, stats.round_trips));
        // What cannot be ready because of an error is ready.
        assert!(conn.command::<()>("MULTI", ()).is_ready()?);
        Ok(())
    })?;
    Ok(())
}

#[test]
fn is_ready_does_not_block_on_a_server_that_takes_nothing() -> Result<()> {
    let (opener, server) = deaf(2);
    let config = Config::from_url(&server.url())?.timeout(None).send_buffer_size(4096).linger(LIMIT);
    let conn = Connection::open(config)?;
    let conn = support::within(LIMIT, move || -> Result<Connection> {
        let large = vec![b'x'; 8 << 20];
        let first = conn.command::<String>("SET", ("key0", &large));
        for _ in 0..100 {
            assert!(!first.is_ready()?);
        }
        std::mem::forget(first);
        Ok(conn)
    })?;
    opener.open();
    assert_eq!(conn.get::<String>("key1").wait()?, "key1");
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn is_ready_on_a_real_server_becomes_true_without_a_wait() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.rpush("list", (0..1_000).collect::<Vec<i64>>()).wait()?;
    let first = conn.echo::<i64>(1);
    let list = conn.lrange::<i64>("list", 0, -1);
    let tx = conn.transaction();
    let queued = tx.incr("n");
    assert!(queued.is_ready()?, "a wait gives NotCommitted at once");
    let commit = tx.commit();
    let last = conn.echo::<i64>(2);
    while !last.is_ready()? {
        thread::yield_now();
    }
    assert!(first.is_ready()? && commit.is_ready()? && queued.is_ready()?);
    let round_trips = conn.stats().round_trips;
    assert_eq!((first.wait()?, queued.wait()?, last.wait()?), (1, 1, 2));
    commit.wait()?;
    assert_eq!(list.count(), 1_000);
    assert_eq!(conn.stats().round_trips, round_trips);
    Ok(())
}

#[test]
fn a_handle_is_ready_when_its_connection_is_lost() -> Result<()> {
    let server = Scripted::start(|peer| {
        peer.handshake()?;
        peer.read_command()?;
        Ok(())
    });
    let conn = Connection::open(server.url())?;
    let reply = conn.get::<String>("k");
    while !reply.is_ready()? {
        thread::yield_now();
    }
    assert!(conn.is_broken());
    assert!(matches!(reply.wait(), Err(Error::ConnectionLost(_))));
    Ok(())
}

/// The value, unless the wait timed out.
#[track_caller]
fn in_time<T>(outcome: Result<T>) -> Option<T> {
    match outcome {
        Ok(value) => Some(value),
        Err(Error::Timeout) => None,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_server_that_stalls_at_random_makes_waits_time_out_and_shifts_nothing() -> Result<()> {
    let server = support::server();
    support::open(&server).rpush("numbers", (0..200).collect::<Vec<i64>>()).wait()?;
    let (seeds, steps) = if cfg!(debug_assertions) { (8, 250) } else { (20, 500) };
    let mut timeouts = 0;
    for seed in 0..seeds {
        let mut rng = fastrand::Rng::with_seed(seed);
        let config = support::config(&server).timeout(Duration::from_millis(1)).linger(Duration::ZERO);
        let conn = Connection::open(config.max_outstanding(40).write_batch(1 << 12))?;
        let mut echoes: Vec<(i64, Reply<'_, i64>)> = Vec::new();
        let mut queued: Vec<(i64, Queued<'_, i64>)> = Vec::new();
        let mut lists: Vec<(i64, MultiBulk<'_, i64>)> = Vec::new();
        for step in 0..steps {
            let what = format!("seed {seed}, step {step}");
            match rng.u32(0..10) {
                0..=3 => echoes.push((step, conn.echo(step))),
                4 => lists.push((0, conn.lrange("numbers", 0, -1))),
                5 => {
                    let tx = conn.transaction();
                    queued.push((step, tx.echo(step)));
                    queued.push((step + 1, tx.echo(step + 1)));
                    match rng.u32(0..3) {
                        0 => timeouts += u32::from(in_time(tx.commit().wait()).is_none()),
                        1 => tx.commit().detach(),
                        _ => drop(tx.commit()),
                    }
                }
                6 if rng.u32(0..4) == 0 => conn.command::<()>("DEBUG SLEEP", 0.008).detach(),
                7 => {
                    let batch = conn.batch();
                    queued.push((step, batch.echo(step)));
                    if rng.bool() {
                        timeouts += u32::from(in_time(batch.finish()).is_none());
                    }
                }
                _ => {}
            }
            if !echoes.is_empty() && rng.u32(0..3) == 0 {
                let (n, handle) = echoes.swap_remove(rng.usize(0..echoes.len()));
                match rng.u32(0..4) {
                    0 => drop(handle),
                    1 => match handle.wait_timeout(Duration::from_millis(1)) {
                        Ok(got) => assert_eq!(got, n, "{what}"),
                        Err(WaitError::Timeout(handle)) => echoes.push((n, handle)),
                        // It was not even taken in.
                        Err(WaitError::Failed(error)) => assert!(in_time::<()>(Err(error)).is_none()),
                    },
                    _ => match in_time(handle.wait()) {
                        Some(got) => assert_eq!(got, n, "{what}"),
                        None => timeouts += 1,
                    },
                }
            }
            if !queued.is_empty() && rng.u32(0..3) == 0 {
                let (n, handle) = queued.swap_remove(rng.usize(0..queued.len()));
                match in_time(handle.wait()) {
                    Some(got) => assert_eq!(got, n, "{what}"),
                    None => timeouts += 1,
                }
            }
            if !lists.is_empty() && rng.u32(0..3) == 0 {
                let (mut next, mut list) = lists.swap_remove(rng.usize(0..lists.len()));
                for _ in 0..rng.u32(0..100) {
                    match list.next().map(in_time) {
                        Some(Some(got)) => assert_eq!(got, next, "{what}"),
                        Some(None) => {
                            timeouts += 1;
                            assert!(list.next().is_none(), "{what}: an iteration ends with its first error");
                            next = 200;
                            break;
                        }
                        None => assert_eq!(next, 200, "{what}"),
                    }
                    next = 200.min(next + 1);
                }
                if next < 200 && rng.bool() {
                    lists.push((next, list));
                }
            }
        }
        drop((echoes, queued, lists));
        while in_time(conn.echo::<String>("last").wait().inspect(|last| assert_eq!(last, "last"))).is_none() {}
        assert!(!conn.is_broken());
        assert_eq!(conn.outstanding(), 0, "seed {seed}");
        assert_eq!(conn.stats().stored, 0, "seed {seed}");
    }
    assert!(timeouts > 0, "no wait timed out: this has shown nothing");
    Ok(())
}

#[test]
fn a_signal_during_a_wait_changes_nothing() -> Result<()> {
    let server = support::server();
    let (conn, other) = (support::open(&server), support::open(&server));
    for round in 0..5 {
        let pop = conn.blpop::<String, i64>("queue", None);
        conn.flush()?;
        // A process that is stopped and continued finds its receives with a timeout, and its polls, interrupted.
        let script = format!("kill -STOP {0}; kill -CONT {0}", std::process::id());
        let stopper = thread::spawn({
            let config = support::config(&server);
            move || -> Result<()> {
                let conn = Connection::open(config)?;
                for _ in 0..3 {
                    let status = Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).status()?;
                    assert!(status.success());
                }
                conn.rpush("queue", round).wait()?;
                Ok(())
            }
        });
        assert_eq!(pop.wait_timeout(LIMIT)?, Some(("queue".to_owned(), round)));
        stopper.join().expect("no panic")?;
    }
    other.ping().wait()?;
    Ok(())
}

#[test]
fn the_user_timeout_is_taken_by_the_system() -> Result<()> {
    let server = support::server();
    for time in [Duration::ZERO, Duration::from_secs(5), Duration::MAX] {
        Connection::open(support::config(&server).tcp_user_timeout(time))?.set("k", "v").wait()?;
    }
    Ok(())
}
