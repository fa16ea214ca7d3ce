//! When bytes go out, by the connection's own counts of writes and round trips.

#![cfg(feature = "testing")]

mod support;

use redefer::testing::Server;
use redefer::{Result, SendWhen, Stats, prelude::*};
use support::scripted::{Scripted, gate};

fn open(server: &Server, when: SendWhen) -> Result<Connection> {
    Connection::open(support::config(server).send_when(when))
}

/// How often the connection wrote, read and stood waiting while `run` ran.
fn counted(conn: &Connection, run: impl FnOnce() -> Result<()>) -> Result<Stats> {
    let before = conn.stats();
    run()?;
    let mut stats = conn.stats();
    stats.commands -= before.commands;
    stats.writes -= before.writes;
    stats.reads -= before.reads;
    stats.round_trips -= before.round_trips;
    stats.bytes_written -= before.bytes_written;
    stats.bytes_read -= before.bytes_read;
    Ok(stats)
}

/// This many groups of commands, each waited for before the next is begun.
fn groups(conn: &Connection, groups: u64, size: u64) -> Result<Stats> {
    counted(conn, || {
        for group in 0..groups {
            let handles: Vec<Reply<'_, u64>> = (0..size).map(|n| conn.echo(group * size + n)).collect();
            for (n, handle) in (0..).zip(handles) {
                assert_eq!(handle.wait()?, group * size + n);
            }
        }
        Ok(())
    })
}

#[test]
fn a_plain_call_is_one_write_and_one_read_however_commands_are_sent() -> Result<()> {
    let server = support::server();
    for when in [SendWhen::Adaptive, SendWhen::Eager, SendWhen::Gathering] {
        for conn in [open(&server, when)?, Connection::open(support::unix_config(&server).send_when(when))?] {
            let stats = groups(&conn, 100, 1)?;
            let counts = (stats.commands, stats.writes, stats.reads, stats.round_trips);
            assert_eq!(counts, (100, 100, 100, 100), "{when:?}");
            let stats = counted(&conn, || {
                conn.set("key", "value").wait()?;
                drop(conn.set("key", "value"));
                assert_eq!(conn.get::<String>("key").wait()?, "value");
                conn.rpush("list", [1, 2, 3]).wait()?;
                assert_eq!(conn.lrange::<i64>("list", 0, -1).wait::<Vec<_>>()?, [1, 2, 3]);
                conn.del("list").wait()?;
                Ok(())
            })?;
            assert_eq!((stats.writes, stats.reads, stats.round_trips), (6, 6, 6), "{when:?}");
        }
    }
    Ok(())
}

#[test]
fn the_bytes_are_those_of_the_commands_and_replies() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    assert_eq!(conn.stats(), Stats::default(), "the handshake is not counted");
    conn.set("key", "value").wait()?;
    let stats = conn.stats();
    assert_eq!(stats.bytes_written, "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n".len() as u64);
    assert_eq!((stats.bytes_read, stats.commands, stats.largest_queue), (5, 1, 1));
    Ok(())
}

#[test]
fn gathering_writes_each_group_once() -> Result<()> {
    let server = support::server();
    for size in [1, 2, 4, 16] {
        let conn = open(&server, SendWhen::Gathering)?;
        let stats = groups(&conn, 100, size)?;
        assert_eq!((stats.commands, stats.writes, stats.round_trips), (100 * size, 100, 100), "groups of {size}");
        assert_eq!(conn.stats().largest_queue, size);
    }
    Ok(())
}

#[test]
fn eager_writes_each_command_and_still_stands_waiting_once_for_a_group() -> Result<()> {
    let server = support::server();
    for size in [1, 2, 4, 16] {
        let conn = open(&server, SendWhen::Eager)?;
        let stats = groups(&conn, 100, size)?;
        assert_eq!((stats.commands, stats.writes), (100 * size, 100 * size), "groups of {size}");
        assert!(stats.round_trips <= 100, "groups of {size}: {} round trips", stats.round_trips);
    }
    Ok(())
}

#[test]
fn adaptive_writes_single_commands_at_once_and_groups_once() -> Result<()> {
    let server = support::server();
    for size in [1, 2, 4, 16] {
        let conn = open(&server, SendWhen::Adaptive)?;
        let stats = groups(&conn, 200, size)?;
        let what = format!("groups of {size}: {} writes, {} round trips", stats.writes, stats.round_trips);
        assert_eq!(stats.commands, 200 * size);
        if size == 1 {
            assert_eq!((stats.writes, stats.round_trips), (200, 200), "{what}");
        } else {
            // One for each group and one for the first command of the first; a machine that stops this thread for a
            // millisecond in the middle of a group adds one.
            assert!((200..=201 + 40).contains(&stats.writes), "{what}");
            assert!((1..=201 + 40).contains(&stats.round_trips), "{what}");
        }
    }
    Ok(())
}

#[test]
fn adaptive_finds_back_to_single_commands() -> Result<()> {
    let server = support::server();
    let conn = open(&server, SendWhen::Adaptive)?;
    groups(&conn, 10, 16)?;
    // The first of these is the first of a busy period behind one of sixteen commands: it gathers. The next are alone.
    groups(&conn, 1, 1)?;
    let before = conn.stats().writes;
    let reply = conn.echo::<i64>(1);
    assert_eq!(conn.stats().writes, before + 1, "written at once");
    assert_eq!(reply.wait()?, 1);
    Ok(())
}

#[test]
fn under_adaptive_and_eager_the_server_works_while_the_caller_does() -> Result<()> {
    for when in [SendWhen::Adaptive, SendWhen::Eager] {
        let (opener, opened) = gate();
        let server = Scripted::start(move |peer| {
            peer.handshake()?;
            for n in 0..10 {
                peer.read_command()?;
                peer.send(format!(":{n}\r\n"))?;
                opener.open();
            }
            peer.expect_end()
        });
        let conn = Connection::open(Config::from_url(&server.url())?.send_when(when))?;
        for n in 0..10 {
            let reply = conn.incr("n");
            // The caller's own work; it ends when the server has done its.
            opened.wait();
            assert_eq!(reply.wait()?, n);
        }
        assert_eq!((conn.stats().writes, conn.stats().reads), (10, 10));
        drop(conn);
        server.finish();
    }
    Ok(())
}

#[test]
fn under_gathering_nothing_is_sent_before_somebody_waits() -> Result<()> {
    let server = support::server();
    let conn = open(&server, SendWhen::Gathering)?;
    let reply = conn.incr("n");
    conn.incr("n").detach();
    assert_eq!(conn.stats().writes, 0);
    // The caller's own work.
    std::hint::black_box((0..10_000).sum::<u64>());
    assert_eq!(reply.wait()?, 1);
    let stats = conn.stats();
    assert_eq!((stats.writes, stats.round_trips), (1, 1));
    Ok(())
}

#[test]
fn commands_that_waited_a_millisecond_for_company_go_with_the_next() -> Result<()> {
    let server = support::server();
    let (conn, other) = (open(&server, SendWhen::Adaptive)?, support::open(&server));
    // Two are outstanding, so the second gathers.
    let (one, two) = (conn.incr("n"), conn.incr("n"));
    assert_eq!(conn.stats().writes, 1);
    // At least that long passes, on the server's clock as on ours.
    assert_eq!(other.blpop::<String, String>("nothing", std::time::Duration::from_millis(10)).wait()?, None);
    let three = conn.incr("n");
    assert_eq!(conn.stats().writes, 2, "the second and the third");
    assert_eq!((three.wait()?, two.wait()?, one.wait()?), (3, 2, 1));
    assert_eq!(conn.stats().writes, 2);
    Ok(())
}

#[test]
fn write_batch_bounds_what_is_gathered() -> Result<()> {
    let server = support::server();
    let length = "*2\r\n$4\r\nECHO\r\n$3\r\n100\r\n".len() as u64;
    for batch in [1, 50, 1_000, 8_192, 1 << 20] {
        let config = support::config(&server).send_when(SendWhen::Gathering).write_batch(batch);
        let conn = Connection::open(config)?;
        let handles: Vec<Reply<'_, i64>> = (0..900).map(|n| conn.echo(100 + n)).collect();
        let in_one = (batch as u64).div_ceil(length);
        assert_eq!(conn.stats().writes, 900 / in_one, "batch of {batch} bytes");
        assert_eq!(conn.stats().bytes_written, 900 / in_one * in_one * length, "batch of {batch} bytes");
        for (n, handle) in (100..).zip(handles) {
            assert_eq!(handle.wait()?, n);
        }
        assert_eq!(conn.stats().writes, 900_u64.div_ceil(in_one), "batch of {batch} bytes");
    }
    Ok(())
}

#[test]
fn flush_sends_and_does_not_wait_for_replies() -> Result<()> {
    let (opener, opened) = gate();
    let server = Scripted::start(move |peer| {
        peer.handshake()?;
        peer.read_commands(3)?;
        opener.open();
        // The replies come when the client is heard again.
        peer.read_command()?;
        peer.send(":1\r\n:2\r\n:3\r\n:4\r\n")?;
        peer.expect_end()
    });
    let conn = Connection::open(Config::from_url(&server.url())?.send_when(SendWhen::Gathering).timeout(None))?;
    let one = conn.incr("n");
    conn.incr("n").detach();
    conn.incr("n").detach();
    conn.flush()?;
    opened.wait();
    conn.flush()?;
    let stats = conn.stats();
    assert_eq!((stats.writes, stats.reads, stats.round_trips, conn.outstanding()), (1, 0, 0, 3));
    assert_eq!(conn.incr("n").wait()?, 4);
    assert_eq!(one.wait()?, 1);
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn detach_does_not_send() -> Result<()> {
    let server = support::server();
    let conn = open(&server, SendWhen::Gathering)?;
    for _ in 0..100 {
        conn.incr("n").detach();
    }
    assert_eq!((conn.stats().writes, conn.outstanding()), (0, 100));
    conn.flush()?;
    assert_eq!(conn.stats().writes, 1);
    conn.sync()?;
    assert_eq!((conn.stats().writes, conn.outstanding()), (1, 0));
    assert_eq!(conn.get::<i64>("n").wait()?, 100);
    Ok(())
}

#[test]
fn a_batch_gathers_from_its_first_command_and_is_bounded_by_write_batch() -> Result<()> {
    let server = support::server();
    for when in [SendWhen::Adaptive, SendWhen::Eager, SendWhen::Gathering] {
        let conn = open(&server, when)?;
        let batch = conn.batch();
        let first = batch.incr("n");
        for _ in 0..99 {
            batch.incr("n");
        }
        assert_eq!(conn.stats().writes, 0, "{when:?}");
        batch.finish()?;
        let stats = conn.stats();
        assert_eq!((stats.writes, stats.round_trips, stats.commands), (1, 1, 100), "{when:?}");
        first.wait()?;
        assert_eq!(conn.stats().reads, stats.reads, "it was read by the batch");

        let length = "*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n".len() as u64;
        let in_one = 8_192_u64.div_ceil(length);
        let before = conn.stats();
        let batch = conn.batch();
        for _ in 0..10 * in_one {
            batch.incr("n");
        }
        assert_eq!(conn.stats().writes, before.writes + 10, "{when:?}");
        batch.incr("n");
        batch.finish()?;
        assert_eq!(conn.stats().writes, before.writes + 11, "{when:?}");
        conn.del("n").wait()?;
    }
    Ok(())
}

#[test]
fn a_handle_of_a_batch_may_be_used_at_once() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let batch = conn.batch();
    let one = batch.incr("n");
    let two = batch.incr("n");
    assert_eq!(one.wait()?, 1);
    let three = batch.incr("n");
    batch.finish()?;
    assert_eq!((three.wait()?, two.wait()?), (3, 2));
    Ok(())
}

#[test]
fn a_transaction_is_one_write_and_one_round_trip() -> Result<()> {
    let server = support::server();
    for when in [SendWhen::Adaptive, SendWhen::Eager, SendWhen::Gathering] {
        let conn = open(&server, when)?;
        let tx = conn.transaction();
        let handles: Vec<Queued<'_, i64>> = (0..10).map(|_| tx.incr("n")).collect();
        assert_eq!((conn.stats().writes, conn.stats().commands), (0, 0), "{when:?}");
        tx.commit().wait()?;
        for handle in handles {
            handle.wait()?;
        }
        let stats = conn.stats();
        assert_eq!((stats.writes, stats.round_trips, stats.commands), (1, 1, 12), "{when:?}");
    }
    Ok(())
}
