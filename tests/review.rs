//! What a hostile reading of the engine has found: one test for each fault, and each failed before it was mended.

mod support;

use std::time::Duration;

use redefer::{Config, Error, Protocol, Result, SendWhen, Sent, Value, WaitError, prelude::*};
use support::scripted::{Scripted, gate};

const LIMIT: Duration = Duration::from_secs(60);

/// More than the sockets hold whose buffers are made small.
const BIG: usize = 8 << 20;

fn config(server: &Scripted) -> Config {
    support::config_for(&server.url()).protocol(Protocol::Resp3)
}

/// Tries until the handle has its value: for peers that keep the flush from ending.
fn patiently<T: FromReply>(mut handle: Reply<'_, T>) -> Result<T> {
    for _ in 0..100 {
        match handle.wait_timeout(Duration::from_millis(50)) {
            Ok(value) => return Ok(value),
            Err(WaitError::Timeout(same)) => handle = same,
            Err(WaitError::Failed(error)) => return Err(error),
        }
    }
    panic!("the reply does not come")
}

#[track_caller]
fn sent<T: std::fmt::Debug>(result: Result<T>) -> Sent {
    match result {
        Err(Error::ConnectionLost(lost)) => lost.sent(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_was_sent_behind_a_transaction_that_is_read_is_not_called_unsent() -> Result<()> {
    let (opener, gate) = gate();
    let server = Scripted::builder().buffers(4096).start(move |peer| {
        peer.handshake()?;
        peer.read_commands(5)?;
        peer.send("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:1\r\n:2\r\n")?;
        gate.wait();
        peer.reset()
    });
    let config = config(&server).send_buffer_size(4096).send_when(SendWhen::Gathering);
    support::within(LIMIT, move || -> Result<()> {
        let conn = Connection::open(config)?;
        let tx = conn.transaction();
        let (one, two) = (tx.incr("x"), tx.incr("x"));
        let commit = tx.commit();
        let behind = conn.incr("y");
        let big = conn.set("z", vec![b'v'; BIG]);
        patiently(commit)?;
        opener.open();
        let behind = behind.wait();
        assert_eq!((one.wait()?, two.wait()?), (1, 2));
        assert_eq!(sent(behind), Sent::Fully, "it may have run");
        assert_eq!(sent(big.wait()), Sent::Partly);
        Ok(())
    })
}

#[test]
fn elements_of_an_exec_that_has_run_are_not_called_unsent() -> Result<()> {
    let (opener, gate) = gate();
    let server = Scripted::builder().buffers(4096).start(move |peer| {
        peer.handshake()?;
        peer.read_commands(4)?;
        peer.send("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n")?;
        gate.wait();
        peer.reset()
    });
    let config = config(&server).send_buffer_size(4096).send_when(SendWhen::Gathering);
    support::within(LIMIT, move || -> Result<()> {
        let conn = Connection::open(config)?;
        let tx = conn.transaction();
        let (one, two) = (tx.incr("x"), tx.incr("x"));
        let commit = tx.commit();
        let big = conn.set("z", vec![b'v'; BIG]);
        patiently(commit)?;
        opener.open();
        let (one, two) = (one.wait(), two.wait());
        assert_eq!((sent(one), sent(two)), (Sent::Fully, Sent::Fully));
        assert_eq!(sent(big.wait()), Sent::Partly);
        Ok(())
    })
}

#[test]
fn a_reply_that_has_come_does_not_wait_for_a_write_behind_it() -> Result<()> {
    let (opener, gate) = gate();
    let server = Scripted::builder().buffers(4096).start(move |peer| {
        peer.handshake()?;
        peer.read_commands(2)?;
        peer.send("$3\r\none\r\n$3\r\ntwo\r\n")?;
        // Reads on only when the client has got its values.
        gate.wait();
        peer.read_command()?;
        peer.send("+OK\r\n")?;
        peer.expect_end()
    });
    let config = config(&server).send_buffer_size(4096).timeout(None);
    support::within(LIMIT, move || -> Result<()> {
        let conn = Connection::open(config)?;
        let one = conn.get::<String>("a");
        let two = conn.get::<String>("b");
        let big = conn.set("z", vec![b'v'; BIG]);
        assert_eq!(two.wait()?, "two");
        assert_eq!(one.wait()?, "one");
        opener.open();
        big.wait()
    })
}

#[test]
fn a_wait_does_not_throw_away_what_has_come_while_it_was_writing() -> Result<()> {
    let (opener, gate) = gate();
    let server = Scripted::builder().buffers(4096).start(move |peer| {
        peer.handshake()?;
        peer.read_commands(2)?;
        peer.send("$3\r\none\r\n$3\r\ntwo\r\n")?;
        gate.wait();
        peer.read_command()?;
        peer.send("+OK\r\n")?;
        peer.expect_end()
    });
    let config = config(&server).send_buffer_size(4096).timeout(Duration::from_millis(500));
    support::within(LIMIT, move || -> Result<()> {
        let conn = Connection::open(config)?;
        let one = conn.get::<String>("a");
        let two = conn.get::<String>("b");
        let big = conn.set("z", vec![b'v'; BIG]);
        let (two, one) = (two.wait(), one.wait());
        opener.open();
        assert_eq!((two?, one?), ("two".into(), "one".into()));
        big.wait()
    })
}

#[test]
fn a_push_inside_a_reply_is_kept_once_however_often_one_asks_whether_it_is_ready() -> Result<()> {
    let server = Scripted::start(|peer| {
        peer.handshake()?;
        peer.read_command()?;
        peer.send("*2\r\n:1\r\n>1\r\n+moved\r\n:2\r\n")?;
        peer.expect_end()
    });
    let conn = Connection::open(config(&server))?;
    let reply: Reply<'_, Vec<i64>> = conn.command("NUMBERS", ());
    while !reply.is_ready()? {}
    assert!(reply.is_ready()?);
    assert_eq!(reply.wait()?, [1, 2]);
    assert_eq!(conn.stats().pushes, 1);
    assert!(conn.next_push().is_some());
    assert!(conn.next_push().is_none());
    Ok(())
}

#[test]
fn a_push_inside_a_multi_bulk_with_attributes_is_kept_once() -> Result<()> {
    let server = Scripted::start(|peer| {
        peer.handshake()?;
        peer.read_command()?;
        peer.send("|1\r\n+a\r\n+b\r\n*2\r\n:1\r\n>1\r\n+moved\r\n:2\r\n")?;
        peer.expect_end()
    });
    let conn = Connection::open(config(&server))?;
    assert_eq!(conn.lrange::<i64>("l", 0, -1).wait::<Vec<_>>()?, [1, 2]);
    assert_eq!(conn.stats().pushes, 1);
    Ok(())
}

#[test]
fn a_push_inside_an_attribute_of_exec_is_lifted_out() -> Result<()> {
    let server = Scripted::start(|peer| {
        peer.handshake()?;
        peer.read_commands(3)?;
        peer.send("+OK\r\n+QUEUED\r\n|1\r\n+a\r\n>1\r\n+moved\r\n+b\r\n*1\r\n:7\r\n")?;
        peer.expect_end()
    });
    let conn = Connection::open(config(&server))?;
    let tx = conn.transaction();
    let one = tx.incr("x");
    tx.commit().wait()?;
    assert_eq!(one.wait()?, 7);
    assert_eq!(conn.stats().pushes, 1);
    Ok(())
}

#[test]
fn asking_whether_a_reply_is_ready_is_no_error_on_a_connection_that_breaks() -> Result<()> {
    let server = Scripted::start(|peer| {
        peer.handshake()?;
        peer.read_command()?;
        peer.send("?\r\n")?;
        peer.expect_end()
    });
    let conn = Connection::open(config(&server))?;
    let reply = conn.get::<String>("a");
    while !reply.is_ready()? {}
    assert!(reply.wait().is_err_and(|error| error.is_connection_lost()));
    Ok(())
}

/// A peer that answers nothing and sends push messages as fast as they are taken, for ten seconds.
fn flood() -> Scripted {
    Scripted::start(|peer| {
        peer.handshake()?;
        peer.read_command()?;
        let pushes = ">2\r\n+invalidate\r\n$1\r\nk\r\n".repeat(10_000);
        // Until the client has gone.
        while peer.send(&pushes).is_ok() {}
        Ok(())
    })
}

#[test]
fn a_flood_of_push_messages_does_not_hold_up_who_asks_whether_a_reply_is_ready() -> Result<()> {
    let server = flood();
    let config = config(&server).linger(Duration::ZERO);
    support::within(LIMIT, move || -> Result<()> {
        let conn = Connection::open(config)?;
        let reply = conn.get::<String>("a");
        while conn.stats().bytes_read < 1 << 20 {
            assert!(!reply.is_ready()?);
        }
        reply.detach();
        Ok(())
    })
}

#[test]
fn a_whole_pair_is_not_held_back_by_half_of_the_next() -> Result<()> {
    let server = Scripted::start(|peer| {
        peer.handshake()?;
        peer.read_commands(2)?;
        peer.send("*6\r\n+a\r\n:1\r\n+b\r\n:2\r\n+c\r\n")?;
        peer.shutdown_write()?;
        peer.read_to_end()?;
        Ok(())
    });
    let conn = Connection::open(config(&server))?;
    let mut pairs = conn.hgetall::<String, i64>("h");
    let behind = conn.get::<String>("a");
    assert_eq!(pairs.next().transpose()?, Some(("a".into(), 1)));
    assert!(behind.wait().is_err());
    assert_eq!(pairs.next().transpose()?, Some(("b".into(), 2)), "it had arrived");
    assert!(pairs.next().is_some_and(|pair| pair.is_err()));
    assert!(pairs.next().is_none());
    Ok(())
}

#[test]
fn a_great_many_commands_on_a_broken_connection_fail_one_as_fast_as_another() -> Result<()> {
    let server = Scripted::start(|peer| {
        peer.handshake()?;
        Ok(())
    });
    let config = config(&server);
    // The square of their number would take far longer.
    support::within(LIMIT / 2, move || -> Result<()> {
        let conn = Connection::open(config)?;
        assert!(conn.get::<String>("a").wait().is_err());
        let handles: Vec<_> = (0..200_000).map(|_| conn.get::<String>("a")).collect();
        for handle in handles {
            assert!(handle.wait().is_err());
        }
        Ok(())
    })
}

#[test]
fn blocking_commands_whose_handles_are_dropped_cost_no_more_and_more() -> Result<()> {
    let server = Scripted::start(|peer| {
        peer.handshake()?;
        while peer.read_command().is_ok() {
            peer.send("*-1\r\n")?;
        }
        Ok(())
    });
    let config = config(&server);
    support::within(LIMIT / 2, move || -> Result<()> {
        let conn = Connection::open(config)?;
        for _ in 0..40_000 {
            drop(conn.blpop::<String, String>("q", Duration::from_millis(2)));
        }
        conn.sync()
    })
}

#[test]
fn a_watch_that_is_dropped_while_the_connection_is_in_use_is_ended_afterwards() -> Result<()> {
    let server = Scripted::start(|peer| {
        peer.handshake()?;
        peer.expect(["WATCH", "k"])?;
        peer.send("+OK\r\n")?;
        peer.expect(["LRANGE", "l", "0", "-1"])?;
        peer.send("*2\r\n+a\r\n+b\r\n")?;
        peer.expect(["UNWATCH"])?;
        peer.send("+OK\r\n")?;
        peer.expect(["WATCH", "k"])?;
        peer.send("+OK\r\n")?;
        peer.read_to_end().map(drop)
    });
    let conn = Connection::open(config(&server))?;
    let mut watch = Some(conn.watch("k")?);
    conn.lrange::<()>("l", 0, -1).for_each_bytes(|_| drop(watch.take()))?;
    let again = conn.watch("k")?;
    drop(again);
    Ok(())
}

#[test]
fn a_batch_that_is_dropped_while_the_connection_is_in_use_is_closed_afterwards() -> Result<()> {
    let server = Scripted::start(|peer| {
        peer.handshake()?;
        peer.expect(["LRANGE", "l", "0", "-1"])?;
        peer.send("*2\r\n+a\r\n+b\r\n")?;
        peer.expect(["SET", "k", "v"])?;
        peer.send("+OK\r\n")?;
        peer.read_to_end().map(drop)
    });
    let conn = Connection::open(config(&server))?;
    let mut batch = Some(conn.batch());
    conn.lrange::<()>("l", 0, -1).for_each_bytes(|_| drop(batch.take()))?;
    let batch = conn.batch();
    batch.set("k", "v");
    batch.finish()
}

#[test]
fn a_database_is_followed_behind_attributes() -> Result<()> {
    let server = Scripted::start(|peer| {
        peer.handshake()?;
        peer.expect(["SELECT", "3"])?;
        peer.send("|1\r\n+a\r\n+b\r\n+OK\r\n")?;
        peer.expect(["SELECT", "4"])?;
        peer.send("|1\r\n+a\r\n+b\r\n+OK\r\n")?;
        peer.expect(["SELECT", "5"])?;
        peer.send("+OK\r\n")?;
        peer.expect_end()
    });
    let conn = Connection::open(config(&server))?;
    conn.command::<()>("SELECT", 3).wait()?;
    assert_eq!(conn.database(), 3);
    conn.command::<()>("SELECT", 4).detach();
    conn.sync()?;
    assert_eq!(conn.database(), 4);
    conn.command::<()>("SELECT", 5).wait()?;
    assert_eq!(conn.database(), 5);
    Ok(())
}

#[test]
fn a_handle_that_was_used_too_early_leaves_nothing_behind() -> Result<()> {
    let server = Scripted::start(|peer| {
        peer.handshake()?;
        peer.read_commands(5)?;
        peer.send("+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n-ERR one\r\n$3\r\ntwo\r\n*1\r\n:3\r\n")?;
        peer.expect_end()
    });
    let conn = Connection::open(config(&server))?;
    let tx = conn.transaction();
    assert!(matches!(tx.get::<String>("a").wait(), Err(Error::NotCommitted)));
    assert!(matches!(tx.get::<String>("b").wait_timeout(LIMIT), Err(WaitError::Failed(Error::NotCommitted))));
    assert!(matches!(tx.lrange::<i64>("c", 0, -1).next(), Some(Err(Error::NotCommitted))));
    tx.commit().wait()?;
    assert!(matches!(conn.sync(), Err(Error::Server(error)) if error.message() == b"ERR one"));
    assert_eq!((conn.outstanding(), conn.stats().stored), (0, 0));
    Ok(())
}

#[test]
fn a_push_inside_an_answer_of_the_handshake_is_not_looked_for_in_a_later_reply() -> Result<()> {
    let server = Scripted::start(|peer| {
        peer.read_commands(3)?;
        peer.send("%1\r\n$5\r\nproto\r\n>1\r\n+a push of some length\r\n:3\r\n+OK\r\n+OK\r\n")?;
        peer.read_commands(2)?;
        peer.send(":1\r\n:2\r\n")?;
        peer.expect_end()
    });
    let conn = Connection::open(config(&server))?;
    let (one, two) = (conn.incr("a"), conn.incr("a"));
    assert_eq!((two.wait()?, one.wait()?), (2, 1));
    Ok(())
}

#[test]
fn a_wait_that_cannot_write_ends_in_a_flood_of_push_messages() -> Result<()> {
    let server = flood();
    let config = config(&server).linger(Duration::ZERO).timeout(Duration::from_millis(300));
    support::within(LIMIT, move || -> Result<()> {
        let conn = Connection::open(config)?;
        let one = conn.get::<String>("a");
        let big = conn.set("z", vec![b'v'; 4 * BIG]);
        assert!(one.wait().is_err_and(|error| error.is_timeout()));
        big.detach();
        Ok(())
    })
}

#[test]
fn what_is_left_of_a_map_behind_a_key_is_no_map() -> Result<()> {
    let server = Scripted::start(|peer| {
        peer.handshake()?;
        peer.read_command()?;
        peer.send("%2\r\n+a\r\n:1\r\n+b\r\n:2\r\n")?;
        peer.expect_end()
    });
    let conn = Connection::open(config(&server))?;
    let mut elements = conn.lrange::<Value>("l", 0, -1);
    assert_eq!(elements.next().transpose()?, Some(Value::SimpleString(b"a".to_vec())));
    let rest: Value = elements.wait_as()?;
    assert_eq!(rest.into_vec().map_or(0, |rest| rest.len()), 3);
    Ok(())
}
