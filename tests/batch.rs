//! Batches: one flush, errors with their position, and everything else that may happen beside them.

#![cfg(feature = "testing")]

mod support;

use std::collections::HashMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use redefer::{BatchError, Error, Result, SendWhen, prelude::*};
use support::scripted::{Peer, Scripted};

fn scripted(mut script: impl FnMut(&mut Peer) -> io::Result<()> + Send + 'static) -> Result<(Scripted, Connection)> {
    let server = Scripted::start(move |peer| {
        peer.handshake()?;
        script(peer)
    });
    let conn = Connection::open(support::config_for(&server.url()))?;
    Ok((server, conn))
}

#[track_caller]
fn failure(outcome: Result<()>) -> BatchError {
    match outcome {
        Err(Error::Batch(error)) => BatchError::clone(&error),
        other => panic!("no failed batch: {other:?}"),
    }
}

/// Code of the first error, its position, how many failed.
#[track_caller]
fn summary(outcome: Result<()>) -> (String, u64, u64) {
    let error = failure(outcome);
    let code = error.first().code().unwrap_or_else(|| panic!("{error}"));
    (code.to_owned(), error.position(), error.failed())
}

#[test]
fn a_batch_is_one_round_trip_and_finish_reads_all_of_it() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let batch = conn.batch();
    for n in 0..50 {
        batch.set(n, n);
    }
    let total = batch.dbsize();
    let list = batch.mget::<i64>([7, 8]);
    assert_eq!(conn.stats().writes, 0, "gathered");
    batch.finish()?;
    assert_eq!((conn.stats().round_trips, conn.stats().writes), (1, 1));
    assert_eq!(conn.outstanding(), 0);
    assert_eq!(total.wait()?, 50);
    assert_eq!(list.wait::<Vec<_>>()?, [7, 8]);
    assert_eq!(conn.stats().round_trips, 1, "they had been read");
    Ok(())
}

#[test]
fn the_first_error_is_told_with_its_position_and_how_many_there_are() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set("text", "v").wait()?;
    let batch = conn.batch();
    batch.incr("n");
    batch.lpush("text", "x");
    batch.incr("n");
    let _: Queued<'_, Value> = batch.command("NOSUCHCMD", ());
    batch.incr("text");
    let error = failure(batch.finish());
    assert_eq!(error.first().code(), Some("WRONGTYPE"));
    assert_eq!((error.position(), error.failed()), (1, 3));
    conn.sync()?;
    assert_eq!(conn.get::<i64>("n").wait()?, 2);
    Ok(())
}

#[test]
fn errors_of_handles_that_live_stay_theirs() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set("text", "v").wait()?;
    let batch = conn.batch();
    let kept = batch.lpush("text", "x");
    drop(batch.sadd("text", "x"));
    let value = batch.incr("n");
    batch.incr("text").detach();
    assert_eq!(summary(batch.finish()), ("WRONGTYPE".to_owned(), 1, 2));
    assert_eq!(kept.wait().unwrap_err().code(), Some("WRONGTYPE"));
    assert_eq!(value.wait()?, 1);
    conn.sync()
}

#[test]
fn handles_may_be_waited_for_before_the_batch_is_finished() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set("text", "v").wait()?;
    let batch = conn.batch();
    batch.lpush("text", "x");
    let first = batch.incr("n");
    assert_eq!(first.wait()?, 1);
    let second = batch.incr("n");
    let failing = batch.incr("text");
    assert!(failing.wait().is_err());
    batch.lpush("text", "y");
    assert_eq!(summary(batch.finish()), ("WRONGTYPE".to_owned(), 0, 2), "read before it was finished or not");
    assert_eq!(second.wait()?, 2);
    conn.sync()
}

#[test]
fn a_handle_dropped_after_the_finish_tells_the_account() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set("text", "v").wait()?;
    let batch = conn.batch();
    let kept = batch.lpush("text", "x");
    batch.finish()?;
    conn.sync()?;
    drop(kept);
    assert_eq!(conn.sync().unwrap_err().code(), Some("WRONGTYPE"));
    conn.sync()
}

#[test]
fn a_dropped_batch_is_sent_and_read_and_its_errors_are_one_in_the_account() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set("text", "v").wait()?;
    {
        let batch = conn.batch();
        batch.incr("n");
        batch.lpush("text", "x");
        batch.lpush("text", "y");
    }
    assert_eq!(conn.outstanding(), 0);
    assert_eq!(support::open(&server).get::<i64>("n").wait()?, 1);
    assert_eq!(conn.stats().unseen_errors, 1);
    assert_eq!(summary(conn.sync()), ("WRONGTYPE".to_owned(), 1, 2));
    conn.sync()
}

#[test]
fn a_batch_left_by_an_error_is_sent_and_read() -> Result<()> {
    fn leave(conn: &Connection) -> Result<()> {
        let batch = conn.batch();
        batch.incr("n");
        batch.get::<String>("nothing").wait()?;
        batch.finish()
    }
    let server = support::server();
    let conn = support::open(&server);
    assert!(matches!(leave(&conn), Err(Error::Nil)));
    assert_eq!(conn.outstanding(), 0);
    assert_eq!(conn.get::<i64>("n").wait()?, 1);
    conn.sync()
}

#[test]
fn a_batch_left_by_a_panic_does_no_io_and_the_connection_goes_on() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set("text", "v").wait()?;
    let written = conn.stats().bytes_written;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let batch = conn.batch();
        batch.incr("n");
        let _handle = batch.lpush("text", "x");
        let _list = batch.lrange::<String>("list", 0, -1);
        panic!("on purpose");
    }));
    assert!(panicked.is_err());
    assert_eq!(conn.stats().bytes_written, written);
    assert_eq!(conn.get::<i64>("n").wait()?, 1);
    assert_eq!(conn.sync().unwrap_err().code(), Some("WRONGTYPE"));
    let batch = conn.batch();
    let number = batch.incr("n");
    batch.finish()?;
    assert_eq!(number.wait()?, 2);
    Ok(())
}

#[test]
fn a_second_batch_is_refused_while_the_first_is_open() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let batch = conn.batch();
    let first = batch.incr("n");
    let second = conn.batch();
    let refused = second.incr("n");
    let list = second.lrange::<String>("list", 0, -1);
    assert!(matches!(refused.wait(), Err(Error::Refused(_))));
    assert!(matches!(list.wait::<Vec<_>>(), Err(Error::Refused(_))));
    assert!(matches!(second.finish(), Err(Error::Refused(_))));
    drop(conn.batch());
    let third = batch.incr("n");
    batch.finish()?;
    assert_eq!((first.wait()?, third.wait()?), (1, 2));
    conn.sync()?;
    let batch = conn.batch();
    let again = batch.incr("n");
    batch.finish()?;
    assert_eq!(again.wait()?, 3);
    Ok(())
}

#[test]
fn commands_beside_the_batch_do_not_count_in_it() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set("text", "v").wait()?;
    let batch = conn.batch();
    batch.incr("n");
    let beside = conn.incr("n");
    conn.lpush("text", "beside").detach();
    batch.incr("n");
    assert_eq!(beside.wait()?, 2);
    let tx = conn.transaction();
    let inside = tx.incr("n");
    tx.lpush("text", "in the transaction");
    let commit = tx.commit();
    batch.lpush("text", "the third");
    commit.wait()?;
    let last = conn.incr("n");
    assert_eq!(summary(batch.finish()), ("WRONGTYPE".to_owned(), 2, 1));
    assert_eq!((inside.wait()?, last.wait()?), (4, 5));
    assert_eq!(conn.stats().unseen_errors, 2);
    assert_eq!(conn.sync().unwrap_err().code(), Some("WRONGTYPE"));
    conn.sync()
}

#[test]
fn an_empty_batch_sends_nothing() -> Result<()> {
    let (server, conn) = scripted(|peer| peer.expect_end())?;
    conn.batch().finish()?;
    drop(conn.batch());
    let _ = conn.batch();
    assert_eq!((conn.stats().commands, conn.stats().bytes_written), (0, 0));
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn a_hundred_thousand_commands_run_in_bounded_memory() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set("text", "v").wait()?;
    let before = conn.stats();
    let batch = conn.batch();
    let mut bytes = 0;
    for n in 0..100_000_u64 {
        if n % 25_000 == 24_999 {
            batch.lpush("text", "x");
        } else {
            batch.set("key", n);
        }
        if n % 10_000 == 0 {
            assert_eq!(conn.stats().stored, 0, "nothing is kept of replies nobody asks for");
            bytes = conn.stats().bytes_written - before.bytes_written;
        }
    }
    assert!(bytes > 2_000_000, "most of it has gone out already: {bytes}");
    assert_eq!(summary(batch.finish()), ("WRONGTYPE".to_owned(), 24_999, 4));
    let after = conn.stats();
    assert_eq!(after.commands - before.commands, 100_000);
    let (written, writes) = (after.bytes_written - before.bytes_written, after.writes - before.writes);
    assert!(writes <= written / 4096 + 100, "{writes} writes for {written} bytes");
    assert!(after.largest_queue <= 65_536, "{}", after.largest_queue);
    conn.sync()
}

#[test]
fn a_command_that_cannot_be_issued_counts_with_its_position() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let batch = conn.batch();
    batch.incr("n");
    batch.rpush("list", Vec::<String>::new());
    batch.incr("n");
    let kept = batch.sadd("set", Vec::<String>::new());
    let _: Queued<'_, Value> = batch.command("MONITOR", ());
    let last = batch.incr("n");
    let error = failure(batch.finish());
    assert!(matches!(error.first(), Error::Argument(_)), "{error}");
    assert_eq!((error.position(), error.failed()), (1, 2));
    assert!(matches!(kept.wait(), Err(Error::Argument(_))));
    assert_eq!(last.wait()?, 3);
    assert_eq!(conn.stats().commands, 3);
    conn.sync()
}

#[test]
fn the_first_error_is_the_one_with_the_lowest_position_whatever_is_known_first() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set("text", "v").wait()?;
    let batch = conn.batch();
    batch.lpush("text", "x");
    // Known at once, while the first is known when its reply is read.
    batch.rpush("list", Vec::<String>::new());
    assert_eq!(summary(batch.finish()), ("WRONGTYPE".to_owned(), 0, 2));
    let batch = conn.batch();
    batch.rpush("list", Vec::<String>::new());
    batch.lpush("text", "x");
    let error = failure(batch.finish());
    assert!(matches!(error.first(), Error::Argument(_)), "{error}");
    assert_eq!((error.position(), error.failed()), (0, 2));
    Ok(())
}

#[test]
fn multi_bulks_of_a_batch_are_read_skipped_and_counted() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set("text", "v").wait()?;
    conn.rpush("list", ["a", "b", "c"]).wait()?;
    conn.hset("hash", [("x", 1), ("y", 2)]).wait()?;
    let batch = conn.batch();
    let list = batch.lrange::<String>("list", 0, -1);
    drop(batch.lrange::<String>("list", 0, -1));
    let hash = batch.hgetall::<String, i64>("hash");
    drop(batch.lrange::<String>("text", 0, -1));
    let mut half = batch.lrange::<String>("list", 0, -1);
    assert_eq!(half.next().transpose()?.as_deref(), Some("a"));
    let number = batch.incr("n");
    let failing = batch.smembers::<String>("text");
    assert_eq!(summary(batch.finish()), ("WRONGTYPE".to_owned(), 3, 1));
    assert_eq!(half.wait::<Vec<_>>()?, ["b", "c"]);
    assert_eq!(hash.wait::<HashMap<_, _>>()?, HashMap::from([("x".to_owned(), 1), ("y".to_owned(), 2)]));
    assert_eq!(list.wait::<Vec<_>>()?, ["a", "b", "c"]);
    assert_eq!(number.wait()?, 1);
    assert_eq!(failing.wait::<Vec<_>>().unwrap_err().code(), Some("WRONGTYPE"));
    conn.sync()
}

#[test]
fn an_error_inside_a_skipped_array_is_no_error_of_the_batch() -> Result<()> {
    let (server, conn) = scripted(|peer| {
        peer.read_commands(2)?;
        peer.send("*3\r\n:1\r\n-ERR inner\r\n:2\r\n-ERR outer\r\n")?;
        peer.expect_end()
    })?;
    let batch = conn.batch();
    batch.command::<Value>("ONE", ()).detach();
    batch.command::<Value>("TWO", ()).detach();
    let error = failure(batch.finish());
    assert_eq!((error.first().to_string().as_str(), error.position(), error.failed()), ("ERR outer", 1, 1));
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn a_batch_whose_server_is_lost_says_so() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let batch = conn.batch();
    let kept = batch.incr("n");
    batch.incr("n");
    server.kill();
    match batch.finish() {
        Err(Error::Batch(error)) => {
            assert!(error.first().is_connection_lost(), "{error}");
            assert_eq!((error.position(), error.failed()), (1, 1));
        }
        other => assert!(other.is_err_and(|error| error.is_connection_lost())),
    }
    assert!(kept.wait().is_err_and(|error| error.is_connection_lost()));
    assert!(conn.is_broken());
    let batch = conn.batch();
    let born_failed = batch.incr("n");
    assert!(born_failed.wait().is_err_and(|error| error.is_connection_lost()));
    batch.incr("n");
    let error = failure(batch.finish());
    assert!(error.first().is_connection_lost(), "{error}");
    assert_eq!((error.position(), error.failed()), (1, 1));
    Ok(())
}

#[test]
fn finish_says_that_the_connection_is_lost_when_all_handles_live() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let batch = conn.batch();
    let (one, two) = (batch.incr("n"), batch.lrange::<String>("list", 0, -1));
    server.kill();
    let error = batch.finish().expect_err("the server is gone");
    assert!(error.is_connection_lost(), "{error:?}");
    assert!(one.wait().is_err_and(|error| error.is_connection_lost()));
    assert!(two.wait::<Vec<_>>().is_err_and(|error| error.is_connection_lost()));
    Ok(())
}

#[test]
fn a_connection_lost_in_a_batch_keeps_the_errors_from_before() -> Result<()> {
    let (server, conn) = scripted(|peer| {
        peer.read_commands(4)?;
        peer.send(":1\r\n-ERR no\r\n:")?;
        peer.close();
        Ok(())
    })?;
    let batch = conn.batch();
    let whole = batch.incr("n");
    batch.incr("n");
    let cut = batch.incr("n");
    batch.incr("n");
    let error = failure(batch.finish());
    assert_eq!((error.first().to_string().as_str(), error.position(), error.failed()), ("ERR no", 1, 2));
    assert_eq!(whole.wait()?, 1);
    assert!(cut.wait().is_err_and(|error| error.is_connection_lost()));
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn a_batch_gathers_even_where_commands_are_sent_at_once() -> Result<()> {
    let server = support::server();
    for when in [SendWhen::Eager, SendWhen::Adaptive, SendWhen::Gathering] {
        let conn = Connection::open(support::config(&server).send_when(when))?;
        let batch = conn.batch();
        for n in 0..20 {
            batch.set(n, n);
        }
        assert_eq!(conn.stats().writes, 0, "{when:?}");
        batch.finish()?;
        assert_eq!(conn.stats().writes, 1, "{when:?}");
        conn.ping().wait()?;
        assert_eq!(conn.stats().writes, 2, "{when:?}");
    }
    Ok(())
}

#[test]
fn earlier_unread_replies_stay_with_their_handles() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set("text", "v").wait()?;
    let before = conn.get::<String>("text");
    conn.lpush("text", "x").detach();
    let batch = conn.batch();
    batch.incr("n");
    batch.finish()?;
    assert_eq!(before.wait()?, "v");
    assert_eq!(conn.sync().unwrap_err().code(), Some("WRONGTYPE"), "of the command before the batch");
    Ok(())
}

#[test]
fn handles_of_a_batch_outlive_it_and_are_waited_for_in_any_order() -> Result<()> {
    fn fill(conn: &Connection) -> Result<Vec<Queued<'_, i64>>> {
        let batch = conn.batch();
        let handles = (0..1000).map(|_| batch.incr("n")).collect();
        batch.finish()?;
        Ok(handles)
    }
    let server = support::server();
    let conn = support::open(&server);
    let mut handles = fill(&conn)?;
    assert_eq!(conn.stats().stored, 1000);
    std::mem::forget(handles.remove(500));
    for (n, handle) in handles.into_iter().enumerate().rev() {
        assert_eq!(handle.wait()?, n as i64 + if n < 500 { 1 } else { 2 });
    }
    assert_eq!(conn.stats().stored, 1, "the forgotten one");
    Ok(())
}

#[test]
fn a_timeout_of_finish_leaves_the_connection_in_step() -> Result<()> {
    let (opener, gate) = support::scripted::gate();
    let server = Scripted::start(move |peer| {
        peer.handshake()?;
        peer.read_commands(2)?;
        peer.send(":1\r\n")?;
        gate.wait();
        peer.send("-ERR late\r\n")?;
        peer.expect(["PING"])?;
        peer.send("+PONG\r\n")?;
        peer.expect_end()
    });
    let config = support::config_for(&server.url()).timeout(std::time::Duration::from_millis(20));
    let conn = Connection::open(config)?;
    let batch = conn.batch();
    let kept = batch.incr("n");
    batch.incr("n");
    assert!(matches!(batch.finish(), Err(Error::Timeout)));
    opener.open();
    assert_eq!(kept.wait_timeout(std::time::Duration::from_secs(20))?, 1);
    let pong = conn.ping();
    while !pong.is_ready()? {
        std::thread::yield_now();
    }
    pong.wait()?;
    assert_eq!(conn.sync().unwrap_err().code(), Some("ERR"), "the batch was gone when it came");
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn the_refusal_of_a_second_batch_is_told_once() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set("text", "x").wait()?;
    let first = conn.batch();
    let second = conn.batch();
    second.set("k", "v");
    let held: Queued<'_, ()> = second.set("k", "v");
    assert!(matches!(held.wait(), Err(Error::Refused(_))));
    assert!(matches!(second.finish(), Err(Error::Refused(_))));
    assert_eq!(conn.stats().unseen_errors, 0);
    first.incr("text");
    let Err(error) = first.finish() else { panic!("INCR of a text has failed") };
    assert_eq!(error.code(), Some("ERR"));

    let first = conn.batch();
    let dropped = conn.batch();
    dropped.set("k", "v");
    drop(dropped);
    first.finish()?;
    assert!(matches!(conn.sync(), Err(Error::Refused(_))));
    conn.sync()
}
