//! A wait whose own flush reads so much that its reply is put into the store, together with those behind it.

#![cfg(feature = "testing")]

mod support;

use std::time::Duration;

use redefer::{Result, SendWhen, prelude::*};
use support::scripted::{Scripted, bulk, gate};

const SHORT_ONES: usize = 1000;
/// The first reply nearly fills the read buffer as far as that grows for replies nobody has asked for (256 KiB).
const LONG: usize = 250_000;
/// So much of it comes at first.
const FIRST: usize = 230_000;

fn text(n: usize) -> String {
    if n == 0 { "0".repeat(LONG) } else { format!("{n:0>200}") }
}

/// Issues commands; the first reply comes in part; then the rest of it and many more are there when it is waited for,
/// while one command has still to be written.
macro_rules! overtaken {
    ($frame:expr, $issue:expr, $check:expr) => {{
        let frame: fn(usize) -> Vec<u8> = $frame;
        let (open, closed) = gate();
        let (sent, arrived) = gate();
        let server = Scripted::start(move |peer| {
            peer.handshake()?;
            peer.read_commands(1 + SHORT_ONES)?;
            let all: Vec<u8> = (0..=SHORT_ONES).flat_map(frame).collect();
            peer.send_split_at_gate(all, FIRST, &closed)?;
            sent.open();
            while peer.read_command().is_ok() {
                peer.send("+OK\r\n")?;
            }
            Ok(())
        });
        let config = support::config_for(&server.url()).send_when(SendWhen::Gathering).recv_buffer_size(1 << 20);
        let conn = Connection::open(config)?;
        let handles: Vec<_> = (0..=SHORT_ONES).map(|_| $issue(&conn)).collect();
        conn.flush()?;
        while conn.stats().bytes_read < FIRST as u64 {
            conn.set("k", "v").detach();
            conn.flush()?; // takes what has arrived
            std::thread::yield_now();
        }
        open.open();
        arrived.wait(); // now more is in the socket than the rest of the buffer has room for
        let last = conn.set("k", "v"); // gathered: the first wait that reads writes it
        for (n, handle) in handles.into_iter().enumerate() {
            ($check)(n, handle)?;
        }
        last.wait()
    }};
}

fn pair(n: usize) -> Vec<u8> {
    [b"*2\r\n".to_vec(), bulk(text(n)), bulk("end")].concat()
}

#[test]
fn a_reply_that_its_own_wait_has_put_into_the_store_is_found_there() -> Result<()> {
    overtaken!(|n| bulk(text(n)), get, |n, reply: Reply<'_, String>| {
        assert!(reply.wait()? == text(n), "reply {n} is another one");
        Ok::<_, Error>(())
    })
}

#[test]
fn so_it_is_if_the_wait_has_a_time_of_its_own() -> Result<()> {
    overtaken!(|n| bulk(text(n)), get, |n, reply: Reply<'_, String>| {
        assert!(reply.wait_timeout(Duration::from_secs(10))? == text(n), "reply {n} is another one");
        Ok::<_, Error>(())
    })
}

#[test]
fn so_it_is_if_the_reply_is_an_array() -> Result<()> {
    overtaken!(pair, lrange_whole, |n, reply: Reply<'_, (String, String)>| {
        assert!(reply.wait()? == (text(n), "end".to_owned()), "reply {n} is another one");
        Ok::<_, Error>(())
    })
}

#[test]
fn so_it_is_if_the_array_is_read_as_a_multi_bulk() -> Result<()> {
    overtaken!(pair, lrange, |n, reply: MultiBulk<'_, String>| {
        let elements: Vec<String> = reply.wait()?;
        assert!(elements == [text(n), "end".to_owned()], "reply {n} is another one");
        Ok::<_, Error>(())
    })
}

fn get(conn: &Connection) -> Reply<'_, String> {
    conn.get("k")
}

fn lrange_whole(conn: &Connection) -> Reply<'_, (String, String)> {
    conn.command("LRANGE", ("k", 0, -1))
}

fn lrange(conn: &Connection) -> MultiBulk<'_, String> {
    conn.lrange("k", 0, -1)
}
