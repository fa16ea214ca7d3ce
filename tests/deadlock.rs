//! Whatever was issued before the first wait gets through, to real servers and to one that takes nothing in before its
//! replies are taken; and neither side stores without end.

#![cfg(feature = "testing")]

mod support;

use std::time::Duration;

use redefer::{Error, Result, SendWhen, WaitError, prelude::*};
use support::scripted::{Scripted, bulk, gate};

/// More than any of these tests needs, however busy the machine is.
const LIMIT: Duration = Duration::from_secs(120);

const MIB: u64 = 1 << 20;

#[test]
fn a_great_many_large_replies_may_be_outstanding_on_a_real_server() -> Result<()> {
    let count = if cfg!(debug_assertions) { 50_000 } else { 200_000 };
    let value = "v".repeat(10_000);
    for unix in [false, true] {
        let server = support::server();
        let config = if unix { support::unix_config(&server) } else { support::config(&server) };
        let before = server.memory()?.peak;
        let wanted = value.clone();
        support::within(LIMIT, move || -> Result<()> {
            let conn = Connection::open(config)?;
            conn.set("key", &wanted).wait()?;
            let handles: Vec<Reply<'_, String>> = (0..count).map(|_| conn.get("key")).collect();
            assert_eq!(handles.len(), count);
            for handle in handles {
                assert_eq!(handle.wait()?, wanted);
            }
            Ok(())
        })?;
        let grown = server.memory()?.peak - before;
        println!("{count} replies of 10 kB, unix: {unix}: the server's peak grew by {} MiB", grown / MIB);
        assert!(grown < 1024 * MIB, "the server grew by {} MiB", grown / MIB);
    }
    Ok(())
}

/// A server that handles one command at a time: it reads no further before the reply is written, and its buffers are
/// small. It answers GET with a value of this size and everything else with OK.
fn one_by_one(unix: bool, buffer: usize, size: usize) -> Scripted {
    let builder = Scripted::builder().buffers(buffer).limit(LIMIT);
    let reply = bulk(vec![b'v'; size]);
    (if unix { builder.unix() } else { builder }).start(move |peer| {
        peer.handshake()?;
        loop {
            match peer.read_command() {
                Ok(command) if command[0] == b"GET" => peer.send(&reply)?,
                Ok(_) => peer.send("+OK\r\n")?,
                Err(_) => return Ok(()),
            }
        }
    })
}

#[test]
fn a_server_that_takes_nothing_before_its_replies_are_taken_is_no_trap() -> Result<()> {
    let count = if cfg!(debug_assertions) { 20_000 } else { 200_000 };
    for unix in [false, true] {
        let server = one_by_one(unix, 16 << 10, 10_000);
        // No limit on what is outstanding: the writes alone must get through.
        let config = Config::from_url(&server.url())?.max_outstanding(usize::MAX).timeout(LIMIT);
        support::within(LIMIT, move || -> Result<()> {
            for when in [SendWhen::Adaptive, SendWhen::Gathering] {
                let config = config.clone().send_when(when).send_buffer_size(16 << 10).recv_buffer_size(16 << 10);
                // The second connection is served when the first has gone.
                let conn = Connection::open(config)?;
                let handles: Vec<Reply<'_, Vec<u8>>> = (0..count / 2).map(|_| conn.get("key")).collect();
                assert_eq!(conn.stats().forced_drains, 0);
                for handle in handles {
                    assert_eq!(handle.wait()?.len(), 10_000);
                }
                assert_eq!(conn.stats().stored, 0);
            }
            Ok(())
        })?;
        server.finish();
    }
    Ok(())
}

/// SETs and GETs of a large value in turn, all issued before the first wait.
fn interleaved(config: Config, pairs: usize, size: usize) -> Result<()> {
    support::within(LIMIT, move || -> Result<()> {
        let conn = Connection::open(config.timeout(LIMIT))?;
        let mut value = vec![b'x'; size];
        let mut handles = Vec::new();
        for n in 0..pairs {
            value[0] = n as u8;
            value[size - 1] = n as u8;
            handles.push((conn.set("key", &value), conn.get::<Vec<u8>>("key")));
        }
        for (n, (set, get)) in handles.into_iter().enumerate() {
            let got = get.wait()?;
            assert_eq!((got.len(), got[0], got[size - 1]), (size, n as u8, n as u8), "pair {n}");
            set.wait()?;
        }
        Ok(())
    })
}

#[test]
fn large_sets_and_gets_in_turn_get_through_over_a_unix_socket() -> Result<()> {
    let server = support::server();
    interleaved(support::unix_config(&server), if cfg!(debug_assertions) { 16 } else { 50 }, 8 << 20)
}

#[test]
fn large_sets_and_gets_in_turn_get_through_small_buffers_of_tcp() -> Result<()> {
    let server = support::server();
    let config = support::config(&server).send_buffer_size(4096).recv_buffer_size(4096);
    interleaved(config, if cfg!(debug_assertions) { 1 } else { 2 }, 8 << 20)
}

#[test]
fn large_sets_and_gets_in_turn_get_through_to_a_server_that_handles_one_at_a_time() -> Result<()> {
    for unix in [false, true] {
        let size = 1 << 20;
        let server = one_by_one(unix, 64 << 10, size);
        let config =
            Config::from_url(&server.url())?.timeout(LIMIT).send_buffer_size(64 << 10).recv_buffer_size(64 << 10);
        support::within(LIMIT, move || -> Result<()> {
            let conn = Connection::open(config)?;
            let value = vec![b'x'; size];
            let handles: Vec<_> = (0..16).map(|_| (conn.set("key", &value), conn.get::<Vec<u8>>("key"))).collect();
            for (set, get) in handles.into_iter().rev() {
                assert_eq!(get.wait()?.len(), size);
                set.wait()?;
            }
            Ok(())
        })?;
        server.finish();
    }
    Ok(())
}

/// How the third command is answered for when two replies have come in one read.
#[test]
fn two_replies_in_one_read_with_one_handle_held_and_then_a_giant_write() -> Result<()> {
    // The script reads on only when a third reply, larger than all buffers, has been taken; or at once.
    for third in [false, true] {
        for unix in [false, true] {
            let builder = Scripted::builder().buffers(64 << 10).limit(LIMIT);
            let size: usize = if cfg!(debug_assertions) { 16 << 20 } else { 64 << 20 };
            let server = (if unix { builder.unix() } else { builder }).start(move |peer| {
                peer.handshake()?;
                peer.read_commands(2)?;
                // In one write, and so in one read.
                peer.send("$3\r\none\r\n$3\r\ntwo\r\n")?;
                if third {
                    peer.expect(["GET", "third"])?;
                    peer.send(bulk(vec![b'3'; 4 << 20]))?;
                }
                let command = peer.read_command()?;
                assert_eq!((command.len(), command[2].len()), (3, size));
                peer.send("+OK\r\n")?;
                peer.expect_end()
            });
            let config = Config::from_url(&server.url())?.timeout(LIMIT);
            support::within(LIMIT, move || -> Result<()> {
                let conn = Connection::open(config)?;
                let (one, two) = (conn.get::<String>("one"), conn.get::<String>("two"));
                assert_eq!(one.wait()?, "one");
                let three = third.then(|| conn.get::<String>("third"));
                conn.set("giant", vec![b'x'; size]).wait()?;
                assert_eq!(two.wait()?, "two");
                if let Some(three) = three {
                    assert_eq!(three.wait()?.len(), 4 << 20);
                }
                Ok(())
            })?;
            server.finish();
        }
    }
    Ok(())
}

#[test]
fn a_multi_bulk_that_is_half_read_and_then_a_giant_write() -> Result<()> {
    // The rest of the list is larger than all buffers, and the script reads on only when it has been taken.
    for how in 0..3 {
        let size: usize = if cfg!(debug_assertions) { 16 << 20 } else { 64 << 20 };
        let server = Scripted::builder().buffers(64 << 10).limit(LIMIT).start(move |peer| {
            peer.handshake()?;
            peer.read_commands(2)?;
            peer.send("*100001\r\n$3\r\none\r\n")?;
            for _ in 0..100 {
                peer.send(format!("${}\r\n{}\r\n", 90, "e".repeat(90)).repeat(1_000))?;
            }
            peer.send("$3\r\ntwo\r\n")?;
            let command = peer.read_command()?;
            assert_eq!((command.len(), command[2].len()), (3, size));
            peer.send("+OK\r\n")?;
            peer.expect_end()
        });
        let config = Config::from_url(&server.url())?.timeout(LIMIT);
        support::within(LIMIT, move || -> Result<()> {
            let conn = Connection::open(config)?;
            let mut list = conn.lrange::<String>("list", 0, -1);
            let two = conn.get::<String>("two");
            assert_eq!(list.next().transpose()?.as_deref(), Some("one"));
            let list = match how {
                // Held, abandoned, or read behind the write.
                0 => Some(list),
                1 => {
                    drop(list);
                    None
                }
                _ => {
                    std::mem::forget(list);
                    None
                }
            };
            conn.set("giant", vec![b'x'; size]).wait()?;
            assert_eq!(two.wait()?, "two");
            if let Some(list) = list {
                assert_eq!(list.wait::<Vec<_>>()?.len(), 100_000);
            }
            Ok(())
        })?;
        server.finish();
    }
    Ok(())
}

#[test]
fn a_transaction_larger_than_all_buffers_gets_through() -> Result<()> {
    let server = support::server();
    let config = support::config(&server).send_buffer_size(4096).recv_buffer_size(4096).max_outstanding(100);
    support::within(LIMIT, move || -> Result<()> {
        let conn = Connection::open(config)?;
        let before: Vec<Reply<'_, i64>> = (0..90).map(|n| conn.echo(n)).collect();
        let tx = conn.transaction();
        let value = "v".repeat(1_000);
        let handles: Vec<Queued<'_, String>> = (0..1_000).map(|_| tx.echo(&value)).collect();
        let commit = tx.commit();
        let behind = conn.echo::<i64>(7);
        assert_eq!(behind.wait()?, 7);
        commit.wait()?;
        for handle in handles.into_iter().rev() {
            assert_eq!(handle.wait()?, value);
        }
        for (n, handle) in before.into_iter().enumerate() {
            assert_eq!(handle.wait()?, n as i64);
        }
        Ok(())
    })
}

#[test]
fn several_timeouts_in_the_middle_of_a_write_keep_every_byte() -> Result<()> {
    let (opener, opened) = gate();
    let size: usize = 8 << 20;
    let server = Scripted::builder().buffers(4096).start(move |peer| {
        peer.handshake()?;
        for n in 0..4 {
            opened.wait();
            let command = peer.read_command()?;
            assert_eq!(command[2].len(), size, "command {n}");
            assert!(command[2].iter().all(|byte| *byte == n), "command {n}");
            peer.send("+OK\r\n")?;
        }
        peer.expect_end()
    });
    let config =
        Config::from_url(&server.url())?.timeout(Duration::from_millis(20)).send_buffer_size(4096).linger(LIMIT);
    let conn = Connection::open(config.send_when(SendWhen::Gathering).write_batch(1 << 30))?;
    let mut handles: Vec<Reply<'_, ()>> = (0..4_u8).map(|n| conn.set("key", vec![n; size])).collect();
    for _ in 0..3 {
        assert!(matches!(conn.flush(), Err(Error::Timeout)));
    }
    handles.reverse();
    while let Some(mut handle) = handles.pop() {
        opener.open();
        loop {
            match handle.wait_timeout(Duration::from_millis(5)) {
                Ok(()) => break,
                Err(WaitError::Timeout(again)) => handle = again,
                Err(WaitError::Failed(error)) => return Err(error),
            }
        }
    }
    drop(handles);
    drop(conn);
    server.finish();
    Ok(())
}
