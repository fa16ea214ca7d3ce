//! What the end of a handle, a guard or a connection does, and what it must not do.

#![cfg(feature = "testing")]

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use redefer::resp::Frame;
use redefer::{Error, Result, SendWhen, prelude::*};
use support::scripted::{Scripted, gate};

/// More than any of these tests needs, and less than what would be waited for if one of them failed.
const LIMIT: Duration = Duration::from_secs(20);

/// A type whose decoding panics: it is not to be tried.
#[derive(Debug)]
struct Bomb;

impl FromReply for Bomb {
    fn from_reply(_: Frame<'_>) -> Result<Self> {
        panic!("a reply that nobody wants was decoded");
    }
}

fn gathering(server: &redefer::testing::Server) -> Result<Connection> {
    Connection::open(support::config(server).send_when(SendWhen::Gathering))
}

#[test]
fn a_dropped_reply_is_sent_and_waited_for() -> Result<()> {
    let server = support::server();
    let (conn, other) = (gathering(&server)?, support::open(&server));
    for n in 0..20 {
        let earlier = conn.incr("n");
        drop(conn.set("key", n));
        assert_eq!(conn.outstanding(), 0);
        assert_eq!(other.get::<i64>("key").wait()?, n);
        assert_eq!(earlier.wait()?, n + 1);
    }
    let stats = conn.stats();
    assert_eq!((stats.writes, stats.round_trips, stats.unseen_errors), (20, 20, 0));
    Ok(())
}

#[test]
fn a_dropped_reply_is_not_decoded() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    drop(conn.echo::<Bomb>("x"));
    let kept = conn.echo::<Bomb>("y");
    assert_eq!(conn.echo::<i64>(1).wait()?, 1);
    drop(kept);
    conn.echo::<Bomb>("z").detach();
    drop(conn.get::<i64>("nothing"));
    drop(conn.echo::<i64>("no number"));
    conn.sync()
}

#[test]
fn errors_of_dropped_replies_go_to_the_account_and_the_first_is_handed_out_once() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set("text", "text").wait()?;
    assert_eq!(conn.stats().unseen_errors, 0);
    drop(conn.lpush("text", "x"));
    assert_eq!(conn.stats().unseen_errors, 1);
    drop(conn.incr("text"));
    conn.command::<()>("NOSUCHCOMMAND", ()).detach();
    drop(conn.lrange::<i64>("text", 0, -1));
    // Overtaken and kept, then dropped.
    let kept = conn.incr("text");
    let seen = conn.incr("text");
    assert!(seen.wait().is_err());
    assert_eq!(conn.stats().unseen_errors, 4, "errors that a handle has told are not unseen");
    drop(kept);
    assert_eq!(conn.stats().unseen_errors, 5);
    // Refused before it was sent.
    drop(conn.command::<()>("MULTI", ()));
    assert_eq!(conn.stats().unseen_errors, 6);
    // Nobody else gets any of these.
    assert_eq!(conn.get::<String>("text").wait()?, "text");
    assert_eq!(conn.sync().unwrap_err().code(), Some("WRONGTYPE"));
    assert_eq!(conn.stats().unseen_errors, 0);
    conn.sync()
}

#[test]
fn an_error_of_a_born_failed_command_that_is_dropped_is_unseen() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    drop(conn.del([""; 0]));
    assert!(matches!(conn.sync(), Err(Error::Argument(_))));
    conn.command::<()>("MONITOR", ()).detach();
    assert!(matches!(conn.sync(), Err(Error::Refused(_))));
    assert_eq!(conn.stats().commands, 0);
    conn.sync()
}

#[test]
fn a_dropped_multi_bulk_neither_writes_nor_reads() -> Result<()> {
    let server = support::server();
    let conn = gathering(&server)?;
    conn.rpush("list", (0..1_000).collect::<Vec<i64>>()).wait()?;
    let before = conn.stats();
    drop(conn.lrange::<i64>("list", 0, -1));
    conn.lrange::<i64>("list", 0, -1).detach();
    assert_eq!((conn.stats().writes, conn.stats().reads), (before.writes, before.reads));
    let mut half = conn.lrange::<i64>("list", 0, -1);
    assert_eq!(half.next().transpose()?, Some(0));
    let before = conn.stats();
    drop(half);
    assert_eq!((conn.stats().writes, conn.stats().reads), (before.writes, before.reads));
    assert_eq!(conn.echo::<i64>(1).wait()?, 1);
    // One that something else has overtaken.
    let mut half = conn.lrange::<i64>("list", 0, -1);
    assert_eq!(half.next().transpose()?, Some(0));
    assert_eq!(conn.echo::<i64>(2).wait()?, 2);
    assert_eq!(half.next().transpose()?, Some(1));
    drop(half);
    let whole = conn.lrange::<i64>("list", 0, -1);
    assert_eq!(conn.echo::<i64>(3).wait()?, 3);
    drop(whole);
    assert_eq!(conn.stats().stored, 0);
    conn.sync()
}

#[test]
fn a_detached_handle_does_no_io_and_its_error_is_accounted_for() -> Result<()> {
    let server = support::server();
    let conn = gathering(&server)?;
    conn.set("text", "text").wait()?;
    let before = conn.stats();
    for n in 0..10 {
        conn.set(n, n).detach();
        conn.incr("text").detach();
    }
    assert_eq!((conn.stats().writes, conn.stats().reads), (before.writes, before.reads));
    assert_eq!(conn.outstanding(), 20);
    conn.flush()?;
    assert_eq!(conn.sync().unwrap_err().code(), Some("ERR"));
    assert_eq!(conn.get::<i64>(9).wait()?, 9);
    conn.sync()
}

/// Panics with everything alive that a connection can give out.
fn panic_with_guards(conn: &Connection) {
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let _reply = conn.incr("panicked");
        let _list = conn.lrange::<i64>("list", 0, -1);
        let batch = conn.batch();
        let _queued = batch.incr("panicked");
        let tx = conn.transaction();
        let _late = tx.incr("never");
        let _handles: Vec<Reply<'_, i64>> = (0..10).map(|_| conn.incr("panicked")).collect();
        panic!("with handles and guards alive");
    }));
    assert!(caught.is_err());
}

#[test]
fn handles_and_guards_dropped_by_a_panic_do_no_io() -> Result<()> {
    let server = support::server();
    let conn = gathering(&server)?;
    conn.rpush("list", [1, 2]).wait()?;
    let watch = conn.watch("list")?;
    let before = conn.stats();
    panic_with_guards(&conn);
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let _watch = watch;
        panic!("with a watch held");
    }));
    assert!(caught.is_err());
    let after = conn.stats();
    assert_eq!((after.writes, after.reads), (before.writes, before.reads));
    // The connection is in step, and what was issued is sent with the rest.
    assert_eq!(conn.echo::<i64>(1).wait()?, 1);
    assert_eq!(conn.get::<i64>("panicked").wait()?, 12);
    assert_eq!(conn.exists("never").wait()?, 0);
    // No batch and no watch is left open.
    conn.batch().finish()?;
    drop(conn.watch("list")?);
    let tx = conn.transaction();
    let one = tx.incr("never");
    tx.commit().wait()?;
    assert_eq!(one.wait()?, 1);
    conn.sync()
}

#[test]
fn a_half_read_multi_bulk_dropped_by_a_panic_does_no_io() -> Result<()> {
    let server = support::server();
    let conn = gathering(&server)?;
    conn.rpush("list", (0..100_000).collect::<Vec<i64>>()).wait()?;
    let mut reads = 0;
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let mut list = conn.lrange::<i64>("list", 0, -1);
        assert_eq!(list.next().transpose().ok().flatten(), Some(0));
        let _behind = conn.echo::<i64>(1);
        reads = conn.stats().reads;
        panic!("in the middle of a list");
    }));
    assert!(caught.is_err());
    assert_eq!(conn.stats().reads, reads);
    assert_eq!(conn.echo::<i64>(2).wait()?, 2);
    conn.sync()
}

#[test]
fn a_connection_dropped_by_a_panic_sends_nothing_more() -> Result<()> {
    let server = Scripted::start(|peer| {
        peer.handshake()?;
        peer.expect(["GET", "sent"])?;
        peer.send("$1\r\na\r\n")?;
        peer.expect_end()
    });
    let config = Config::from_url(&server.url())?.send_when(SendWhen::Gathering).timeout(None).linger(LIMIT * 4);
    support::within(LIMIT, move || {
        let caught = catch_unwind(AssertUnwindSafe(|| -> Result<()> {
            let conn = Connection::open(config)?;
            assert_eq!(conn.get::<String>("sent").wait()?, "a");
            conn.set("never", "sent").detach();
            let _reply = conn.set("neither", "sent");
            panic!("with a connection open");
        }));
        assert!(caught.is_err());
    });
    server.finish();
    Ok(())
}

#[test]
fn a_thousand_handles_dropped_on_a_dead_server_cost_one_timeout() -> Result<()> {
    let (opener, opened) = gate();
    let server = Scripted::start(move |peer| {
        peer.handshake()?;
        opened.wait();
        Ok(())
    });
    let timeout = Duration::from_millis(300);
    let config = Config::from_url(&server.url())?.timeout(timeout).linger(Duration::ZERO);
    // A timeout for each would take five minutes.
    support::within(LIMIT, move || -> Result<()> {
        let conn = Connection::open(config)?;
        let replies: Vec<Reply<'_, ()>> = (0..1_000).map(|n| conn.set(n, n)).collect();
        drop(replies);
        for n in 0..1_000 {
            drop(conn.set(n, n));
        }
        assert_eq!(conn.outstanding(), 2_000);
        assert!(!conn.is_broken());
        Ok(())
    })?;
    opener.open();
    server.finish();
    Ok(())
}

#[test]
fn when_a_server_that_was_silent_answers_drops_wait_again() -> Result<()> {
    let (opener, opened) = gate();
    let server = Scripted::start(move |peer| {
        peer.handshake()?;
        opened.wait();
        // Whatever is asked.
        while peer.read_command().is_ok() {
            peer.send("+OK\r\n")?;
        }
        Ok(())
    });
    let conn = Connection::open(Config::from_url(&server.url())?.timeout(Duration::from_millis(50)))?;
    drop(conn.set("a", 1));
    drop(conn.set("b", 1));
    assert_eq!(conn.outstanding(), 2);
    opener.open();
    let reply = conn.set("c", 1);
    reply.wait_timeout(LIMIT)?;
    assert_eq!(conn.outstanding(), 0);
    // With the configured 50 ms a drop may give up again on a busy machine; not ten times in a row.
    let waited = (0..10).any(|n| {
        drop(conn.set("d", n));
        conn.outstanding() == 0
    });
    assert!(waited);
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn a_dropped_handle_of_a_blocking_command_does_not_wait_and_neither_does_one_behind_it() -> Result<()> {
    let server = support::server();
    let config = support::config(&server).timeout(None).linger(LIMIT * 4);
    // Each wait would be for ever: nobody pushes.
    support::within(LIMIT, move || -> Result<()> {
        let conn = Connection::open(config.clone())?;
        let earlier = conn.set("earlier", 1);
        let pop = conn.blpop::<String, String>("queue", None);
        let behind = conn.set("behind", 1);
        drop(earlier);
        assert_eq!(conn.outstanding(), 2, "what is before it is waited for");
        drop(behind);
        drop(pop);
        drop(conn.brpop::<String, String>("queue", None));
        drop(conn.command::<Value>("BLPOP", ("queue", 0)));
        drop(conn.set("behind", 2));
        drop(conn.lrange::<i64>("queue", 0, -1));
        assert_eq!(conn.outstanding(), 6);
        Ok(())
    })?;
    Ok(())
}

#[test]
fn a_batch_dropped_behind_a_blocking_command_without_end_does_not_wait_for_ever() -> Result<()> {
    let server = support::server();
    let config = support::config(&server).timeout(Duration::from_millis(50)).linger(Duration::ZERO);
    support::within(LIMIT, move || -> Result<()> {
        let conn = Connection::open(config)?;
        let pop = conn.blpop::<String, String>("queue", None);
        let batch = conn.batch();
        batch.set("behind", 3);
        drop(batch);
        pop.detach();
        assert_eq!(conn.outstanding(), 2);
        Ok(())
    })?;
    Ok(())
}

#[test]
fn a_dropped_handle_of_a_command_that_blocks_for_a_while_does_not_wait_either() -> Result<()> {
    let server = support::server();
    let config = support::config(&server).timeout(None).linger(Duration::ZERO);
    support::within(LIMIT, move || -> Result<()> {
        let conn = Connection::open(config)?;
        let pop = conn.blpop::<String, String>("queue", LIMIT * 10);
        drop(pop);
        assert_eq!(conn.outstanding(), 1);
        Ok(())
    })?;
    Ok(())
}

#[test]
fn a_connection_that_is_dropped_loses_nothing_that_was_issued() -> Result<()> {
    let server = support::server();
    let count = 100_000;
    for config in [support::config(&server), support::unix_config(&server)] {
        let other = support::open(&server);
        other.del("n").wait()?;
        for when in [SendWhen::Adaptive, SendWhen::Gathering] {
            // Longer than the machine needs, however busy it is.
            let conn = Connection::open(config.clone().send_when(when).linger(LIMIT))?;
            for _ in 0..count {
                conn.incr("n").detach();
            }
            drop(conn);
        }
        assert_eq!(other.get::<i64>("n").wait()?, 2 * count);
    }
    Ok(())
}

#[test]
fn handles_that_are_dropped_with_their_connection_lose_nothing() -> Result<()> {
    let server = support::server();
    let conn = Connection::open(support::config(&server).linger(LIMIT))?;
    let handles: Vec<Reply<'_, i64>> = (0..10_000).map(|_| conn.incr("n")).collect();
    drop(handles);
    for _ in 0..10_000 {
        std::mem::forget(conn.incr("n"));
    }
    conn.rpush("list", [1, 2, 3]).detach();
    let mut half = conn.lrange::<i64>("list", 0, -1);
    assert_eq!(half.next().transpose()?, Some(1));
    std::mem::forget(half);
    conn.incr("n").detach();
    drop(conn);
    assert_eq!(support::open(&server).get::<i64>("n").wait()?, 20_001);
    Ok(())
}

#[test]
fn the_drop_of_a_connection_to_a_silent_server_ends() -> Result<()> {
    for linger in [Duration::ZERO, Duration::from_millis(50)] {
        let (opener, opened) = gate();
        let server = Scripted::start(move |peer| {
            peer.handshake()?;
            opened.wait();
            let sent = peer.read_to_end()?;
            assert!(sent.starts_with(b"*3\r\n$3\r\nSET\r\n"), "{:?}", String::from_utf8_lossy(&sent));
            Ok(())
        });
        let config = Config::from_url(&server.url())?.timeout(None).linger(linger);
        support::within(LIMIT, move || -> Result<()> {
            let conn = Connection::open(config)?;
            conn.set("key", "value").detach();
            drop(conn);
            Ok(())
        })?;
        opener.open();
        server.finish();
    }
    Ok(())
}

#[test]
fn the_drop_of_a_connection_to_a_server_that_takes_nothing_ends() -> Result<()> {
    let (opener, opened) = gate();
    let server = Scripted::builder().buffers(4096).start(move |peer| {
        peer.handshake()?;
        opened.wait();
        peer.read_to_end().map(drop)
    });
    let config =
        Config::from_url(&server.url())?.timeout(None).linger(Duration::from_millis(50)).send_buffer_size(4096);
    support::within(LIMIT, move || -> Result<()> {
        let conn = Connection::open(config)?;
        conn.set("key", vec![b'x'; 16 << 20]).detach();
        drop(conn);
        Ok(())
    })?;
    opener.open();
    server.finish();
    Ok(())
}

#[test]
fn the_drop_of_a_connection_to_a_server_that_never_stops_talking_ends() -> Result<()> {
    let server = Scripted::start(move |peer| {
        peer.handshake()?;
        peer.expect(["GET", "endless"])?;
        peer.send("$500000000\r\n")?;
        while peer.send([b'x'; 100]).is_ok() {}
        Ok(())
    });
    let config = Config::from_url(&server.url())?.timeout(None).linger(Duration::from_millis(50));
    support::within(LIMIT, move || -> Result<()> {
        let conn = Connection::open(config)?;
        conn.get::<Value>("endless").detach();
        drop(conn);
        Ok(())
    })?;
    server.finish();
    Ok(())
}

#[test]
fn dropping_anything_of_a_broken_connection_is_quiet() -> Result<()> {
    let server = Scripted::start(|peer| {
        peer.handshake()?;
        peer.read_commands(3)?;
        peer.send("*3\r\n:1\r\n:2\r\n")
    });
    let conn = Connection::open(server.url())?;
    let mut half = conn.lrange::<i64>("list", 0, -1);
    let whole = conn.lrange::<i64>("list", 0, -1);
    let reply = conn.incr("n");
    assert_eq!(half.next().transpose()?, Some(1));
    let tx = conn.transaction();
    let queued = tx.incr("n");
    let batch = conn.batch();
    assert_eq!(half.next().transpose()?, Some(2));
    assert!(matches!(half.next(), Some(Err(Error::ConnectionLost(_)))));
    assert!(half.next().is_none());
    let late = batch.incr("n");
    drop(batch);
    drop((half, whole, reply));
    let commit = tx.commit();
    drop((queued, late, commit));
    drop(conn.watch("key"));
    conn.incr("n").detach();
    assert!(conn.is_broken());
    assert!(conn.sync().is_err());
    Ok(())
}

#[test]
fn a_batch_that_is_dropped_is_read_and_its_errors_go_to_the_account() -> Result<()> {
    let server = support::server();
    let conn = gathering(&server)?;
    conn.set("text", "text").wait()?;
    let batch = conn.batch();
    batch.set("a", 1);
    batch.incr("text");
    let kept = batch.incr("text");
    drop(batch);
    assert_eq!(conn.outstanding(), 0);
    assert!(kept.wait().is_err());
    match conn.sync() {
        Err(Error::Batch(error)) => assert_eq!((error.position(), error.failed()), (1, 1)),
        other => panic!("{other:?}"),
    }
    // What a finished batch has told is not told again.
    let batch = conn.batch();
    batch.incr("text");
    assert!(matches!(batch.finish(), Err(Error::Batch(_))));
    assert_eq!(conn.stats().unseen_errors, 0);
    conn.sync()
}
