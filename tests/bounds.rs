//! Memory stays within bounds, whatever is outstanding, streamed, abandoned or held.
//!
//! What a process takes is measured in a process of its own: each such test starts this program again with its own name.

#![cfg(feature = "testing")]

mod support;

use std::time::Duration;

use redefer::{Result, SendWhen, prelude::*};
use support::memory::{KIB, MIB, NOISE, alone, growth, resident};
use support::scripted::Scripted;

/// Commands of every sort, so that what is needed once has been taken.
fn warm_up(conn: &Connection) -> Result<()> {
    for n in 0..2_000 {
        conn.set("warm", n).detach();
        conn.echo::<String>("up").detach();
    }
    conn.sync()?;
    conn.del("warm").wait()?;
    Ok(())
}

/// Puts `count` elements of 26 bytes into a list.
fn fill_list(conn: &Connection, key: &str, count: u64) -> Result<()> {
    let script =
        "for n = 1, ARGV[1] do redis.call('RPUSH', KEYS[1], string.format('element %018d', n)) end return 'OK'";
    for _ in 0..count / 100_000 {
        conn.eval::<Value>(script, key, 100_000).wait()?;
    }
    assert_eq!(conn.llen(key).wait()?, count as i64);
    Ok(())
}

/// Fewer in debug builds, where all takes longer; still far more than would fit into what is allowed.
fn scaled(release: u64) -> u64 {
    if cfg!(debug_assertions) { release / 10 } else { release }
}

#[test]
fn detached_commands_hold_nothing() -> Result<()> {
    alone(|| {
        let server = support::server();
        let conn = support::open(&server);
        warm_up(&conn)?;
        let grown = growth("detached SETs", || {
            for _ in 0..scaled(10_000_000) {
                conn.set("somemediumkey2", "somemediumvalue").detach();
            }
            conn.sync()
        })?;
        assert!(grown < NOISE, "{} KiB", grown / KIB);
        assert_eq!(conn.stats().stored, 0);
        Ok(())
    })
}

#[test]
fn detached_commands_hold_nothing_while_an_old_handle_is_held() -> Result<()> {
    alone(|| {
        let server = support::server();
        let conn = support::open(&server);
        warm_up(&conn)?;
        conn.rpush("list", [1, 2, 3]).wait()?;
        let old = conn.echo::<String>("old");
        let mut list = conn.lrange::<i64>("list", 0, -1);
        assert_eq!(list.next().transpose()?, Some(1));
        let grown = growth("detached SETs behind an old handle", || {
            for n in 0..scaled(10_000_000) {
                conn.set("somemediumkey2", "somemediumvalue").detach();
                // Replies of other kinds as well, among them large ones, and some errors.
                match n % 100_000 {
                    0 => conn.echo::<String>("x".repeat(10_000)).detach(),
                    50_000 => conn.lrange::<i64>("list", 0, -1).detach(),
                    _ => {}
                }
            }
            conn.sync()
        })?;
        assert!(grown < NOISE, "{} KiB", grown / KIB);
        assert_eq!(conn.stats().stored, 1);
        assert_eq!(old.wait()?, "old");
        assert_eq!(list.wait::<Vec<_>>()?, [2, 3]);
        Ok(())
    })
}

#[test]
fn a_batch_of_any_length_runs_in_constant_memory() -> Result<()> {
    alone(|| {
        let server = support::server();
        let conn = support::open(&server);
        warm_up(&conn)?;
        let grown = growth("SETs of a batch", || {
            let batch = conn.batch();
            for _ in 0..scaled(5_000_000) {
                batch.set("somemediumkey2", "somemediumvalue");
            }
            batch.finish()
        })?;
        assert!(grown < NOISE, "{} KiB", grown / KIB);
        Ok(())
    })
}

#[test]
fn a_ring_of_handles_runs_in_constant_memory() -> Result<()> {
    alone(|| {
        let server = support::server();
        let conn = support::open(&server);
        conn.set("key", "somemediumvalue").wait()?;
        warm_up(&conn)?;
        let forgotten = conn.echo::<String>("forgotten");
        conn.echo::<i64>(1).wait()?;
        std::mem::forget(forgotten);
        let mut ring: std::collections::VecDeque<_> = (0..256).map(|_| conn.get::<String>("key")).collect();
        let grown = growth("GETs in a ring", || {
            for _ in 0..scaled(3_000_000) {
                ring.push_back(conn.get("key"));
                if let Some(oldest) = ring.pop_front() {
                    assert_eq!(oldest.wait()?.len(), 15);
                }
            }
            Ok(())
        })?;
        assert!(grown < NOISE, "{} KiB", grown / KIB);
        assert_eq!(conn.stats().stored, 1, "the forgotten one");
        Ok(())
    })
}

#[test]
fn a_long_list_is_streamed_in_constant_memory() -> Result<()> {
    alone(|| {
        let server = support::server();
        let count = if cfg!(debug_assertions) { 300_000 } else { 1_000_000 };
        for config in [support::config(&server), support::unix_config(&server)] {
            let conn = Connection::open(config)?;
            if conn.llen("list").wait()? == 0 {
                fill_list(&conn, "list", count)?;
            }
            warm_up(&conn)?;
            let grown = growth("LRANGE by elements", || {
                let mut seen = 0;
                for element in conn.lrange::<String>("list", 0, -1) {
                    assert_eq!(element?.len(), 26);
                    seen += 1;
                }
                assert_eq!(seen, count);
                Ok(())
            })?;
            assert!(grown < NOISE, "{} KiB", grown / KIB);
            let grown = growth("LRANGE by bytes", || {
                let mut bytes = 0;
                conn.lrange::<String>("list", 0, -1).for_each_bytes(|element| bytes += element.len() as u64)?;
                assert_eq!(bytes, 26 * count);
                Ok(())
            })?;
            assert!(grown < NOISE, "{} KiB", grown / KIB);
        }
        Ok(())
    })
}

#[test]
fn what_is_left_of_an_abandoned_list_is_skipped_in_constant_memory() -> Result<()> {
    alone(|| {
        let server = support::server();
        let conn = support::open(&server);
        fill_list(&conn, "list", if cfg!(debug_assertions) { 300_000 } else { 1_000_000 })?;
        warm_up(&conn)?;
        let grown = growth("abandoned lists", || {
            // Abandoned after three, unread, and given up as whole replies.
            let mut list = conn.lrange::<String>("list", 0, -1);
            assert_eq!(list.by_ref().take(3).filter(Result::is_ok).count(), 3);
            drop(list);
            assert_eq!(conn.echo::<i64>(1).wait()?, 1);
            drop(conn.lrange::<String>("list", 0, -1));
            assert_eq!(conn.echo::<i64>(2).wait()?, 2);
            conn.command::<Value>("LRANGE", ("list", 0, -1)).detach();
            assert_eq!(conn.echo::<i64>(3).wait()?, 3);
            drop(conn.command::<Value>("LRANGE", ("list", 0, -1)));
            Ok(())
        })?;
        assert!(grown < NOISE, "{} KiB", grown / KIB);
        Ok(())
    })
}

#[test]
fn a_large_reply_that_nobody_wants_is_skipped_in_constant_memory() -> Result<()> {
    alone(|| {
        let server = support::server();
        let conn = support::open(&server);
        conn.command::<Value>("SETRANGE", ("large", 40_000_000, "x")).wait()?;
        warm_up(&conn)?;
        let grown = growth("a detached GET of 40 MB", || {
            conn.get::<String>("large").detach();
            assert_eq!(conn.echo::<i64>(1).wait()?, 1);
            drop(conn.get::<String>("large"));
            Ok(())
        })?;
        assert!(grown < NOISE, "{} KiB", grown / KIB);
        Ok(())
    })
}

#[test]
fn the_buffers_of_giant_replies_and_commands_are_given_back() -> Result<()> {
    alone(|| {
        let server = support::server();
        let conn = support::open(&server);
        conn.command::<Value>("SETRANGE", ("large", 40_000_000, "x")).wait()?;
        warm_up(&conn)?;
        let before = resident();
        let given_back = |what: &str| {
            let grown = resident().saturating_sub(before);
            println!("{what}: {} KiB are still held", grown / KIB);
            assert!(grown < 8 * MIB, "{what}: {} KiB", grown / KIB);
        };
        assert_eq!(conn.get::<Vec<u8>>("large").wait()?.len(), 40_000_001);
        given_back("a giant reply");
        // With others before and behind it, kept for its handle.
        let (first, large, last) = (conn.echo::<i64>(1), conn.get::<Vec<u8>>("large"), conn.echo::<i64>(2));
        assert_eq!(last.wait()?, 2);
        assert_eq!(large.wait()?.len(), 40_000_001);
        assert_eq!(first.wait()?, 1);
        given_back("a giant reply that was overtaken");
        let (first, large, last) = (conn.echo::<i64>(1), conn.get::<Vec<u8>>("large"), conn.echo::<i64>(2));
        assert_eq!((first.wait()?, large.wait()?.len(), last.wait()?), (1, 40_000_001, 2));
        given_back("a giant reply among others");
        conn.rpush("list", ["a", "b"]).wait()?;
        conn.rpush("list", vec![b'x'; 40_000_000]).wait()?;
        given_back("a giant command");
        let lengths: Result<Vec<usize>> = conn.lrange::<Vec<u8>>("list", 0, -1).map(|item| Ok(item?.len())).collect();
        assert_eq!(lengths?, [1, 1, 40_000_000]);
        given_back("a giant element");
        let tx = conn.transaction();
        let queued = tx.strlen("large");
        tx.set("large", vec![b'x'; 40_000_000]);
        tx.commit().wait()?;
        assert_eq!(queued.wait()?, 40_000_001);
        given_back("a giant transaction");
        Ok(())
    })
}

#[test]
fn a_giant_reply_is_given_back_although_the_connection_is_never_idle() -> Result<()> {
    alone(|| {
        let size = 40_000_000;
        let server = Scripted::start(move |peer| {
            peer.handshake()?;
            peer.read_commands(2)?;
            peer.send(format!("${size}\r\n"))?;
            for _ in 0..size / 100_000 {
                peer.send([b'x'; 100_000])?;
            }
            // Each answer comes with the beginning of the next one, so that the buffer is never empty.
            peer.send("\r\n:")?;
            for _ in 0..1_000 {
                peer.read_command()?;
                peer.send("7\r\n:")?;
            }
            peer.send("7\r\n")?;
            peer.expect_end()
        });
        let conn = Connection::open(server.url())?;
        let before = resident();
        let large = conn.get::<Vec<u8>>("large");
        let mut held = conn.incr("n");
        assert_eq!(large.wait()?.len(), size);
        for _ in 0..1_000 {
            let next = conn.incr("n");
            assert_eq!(std::mem::replace(&mut held, next).wait()?, 7);
        }
        let grown = resident().saturating_sub(before);
        assert!(grown < 8 * MIB, "{} KiB are still held", grown / KIB);
        assert_eq!(held.wait()?, 7);
        drop(conn);
        server.finish();
        Ok(())
    })
}

#[test]
fn handles_that_are_held_by_the_million_cost_a_small_number_of_bytes_each() -> Result<()> {
    alone(|| {
        let server = support::server();
        let count = scaled(1_000_000);
        let conn = Connection::open(support::config(&server).max_outstanding(usize::MAX >> 2))?;
        warm_up(&conn)?;
        let mut handles = Vec::with_capacity(count as usize);
        let issued = growth("handles of SETs", || {
            handles.extend((0..count).map(|_| conn.set("somemediumkey2", "somemediumvalue")));
            Ok(())
        })?;
        let read = growth("and all of them read", || {
            assert_eq!(conn.echo::<i64>(1).wait()?, 1);
            Ok(())
        })?;
        assert_eq!(conn.stats().stored, count);
        let each = (issued + read) / count;
        println!("{each} bytes for each handle and its stored reply");
        // Sixteen for the handle; a place and a short frame inline, in a queue that doubles, old and new at once while it
        // does; one for the ring.
        assert!(issued + read < 160 * count + NOISE, "{each} bytes each");
        for handle in handles {
            handle.wait()?;
        }
        assert_eq!(conn.stats().stored, 0);
        Ok(())
    })
}

#[test]
fn a_reply_is_sixteen_bytes() {
    assert_eq!(size_of::<Reply<'_, i64>>(), 16);
    assert_eq!(size_of::<Reply<'_, String>>(), 16);
    assert_eq!(size_of::<Queued<'_, Value>>(), 16);
}

#[test]
fn at_max_outstanding_half_of_the_replies_are_read() -> Result<()> {
    let server = support::server();
    for when in [SendWhen::Adaptive, SendWhen::Eager, SendWhen::Gathering] {
        let conn = Connection::open(support::config(&server).max_outstanding(100).send_when(when))?;
        let mut handles: Vec<Reply<'_, i64>> = (0..100).map(|n| conn.echo(n)).collect();
        assert_eq!((conn.outstanding(), conn.stats().forced_drains, conn.stats().stored), (100, 0, 0), "{when:?}");
        handles.push(conn.echo(100));
        assert_eq!((conn.outstanding(), conn.stats().forced_drains, conn.stats().stored), (51, 1, 50), "{when:?}");
        handles.extend((101..1_000).map(|n| conn.echo(n)));
        assert!(conn.outstanding() <= 100, "{when:?}");
        assert_eq!(conn.stats().forced_drains, 18, "{when:?}");
        assert!(conn.stats().largest_queue <= 100, "{when:?}");
        for (n, handle) in (0..).zip(handles) {
            assert_eq!(handle.wait()?, n, "{when:?}");
        }
        assert_eq!(conn.stats().stored, 0, "{when:?}");
    }
    Ok(())
}

#[test]
fn at_max_outstanding_of_one_each_command_is_read_before_the_next_is_taken_in() -> Result<()> {
    let server = support::server();
    let conn = Connection::open(support::config(&server).max_outstanding(1))?;
    conn.rpush("list", [1, 2, 3]).wait()?;
    let first = conn.echo::<i64>(1);
    let list = conn.lrange::<i64>("list", 0, -1);
    let tx = conn.transaction();
    let queued: Vec<Queued<'_, i64>> = (0..5).map(|_| tx.incr("n")).collect();
    let commit = tx.commit();
    let batch = conn.batch();
    let batched: Vec<Queued<'_, i64>> = (0..5).map(|_| batch.incr("n")).collect();
    batch.finish()?;
    conn.incr("n").detach();
    let last = conn.echo::<i64>(2);
    assert_eq!(conn.outstanding(), 1);
    assert_eq!((last.wait()?, first.wait()?), (2, 1));
    assert_eq!(list.wait::<Vec<_>>()?, [1, 2, 3]);
    commit.wait()?;
    let numbers: Result<Vec<i64>> = queued.into_iter().chain(batched).map(Queued::wait).collect();
    assert_eq!(numbers?, (1..=10).collect::<Vec<_>>());
    conn.sync()
}

#[test]
fn a_forced_read_takes_detached_replies_without_storing_them() -> Result<()> {
    let server = support::server();
    let conn = Connection::open(support::config(&server).max_outstanding(1_000))?;
    for n in 0..10_000 {
        conn.set("key", n).detach();
    }
    assert_eq!(conn.stats().stored, 0);
    assert!(conn.stats().largest_queue <= 1_000);
    assert!(conn.outstanding() <= 1_000);
    conn.sync()
}

#[test]
fn a_forgotten_handle_costs_its_own_reply_and_no_other() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    for n in 0..100 {
        std::mem::forget(conn.echo::<i64>(n));
        for _ in 0..100 {
            conn.echo::<i64>(n).wait_timeout(Duration::from_secs(20))?;
        }
        assert_eq!(conn.stats().stored, n as u64 + 1);
    }
    Ok(())
}
