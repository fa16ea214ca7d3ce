//! The same pipelines by each client. None does more for a reply than it must: hiredis builds its reply object, `redis`
//! its value, redefer a `()` for SET and a `String` for GET.

use std::collections::VecDeque;
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use redefer::prelude::*;

use crate::{KEY, Outcome, VALUE, hiredis};

#[derive(Clone, Copy, PartialEq)]
pub enum Op {
    Set,
    Get,
}

/// Runs so many commands, so many of them outstanding at a time.
pub type Run = Box<dyn FnMut(usize, usize) -> Outcome>;

pub const RAW_DUPLEX: &str = "raw replay, duplex";
pub const REDEFER_RING: &str = "redefer, ring of handles";

pub fn all(op: Op, url: &str) -> Outcome<Vec<(&'static str, Run)>> {
    Ok(vec![
        ("raw replay, windows", raw_windows(op, url)?),
        (RAW_DUPLEX, raw_duplex(op, url)?),
        ("hiredis, windows", hiredis_windows(op, url)?),
        ("hiredis, sliding", hiredis_sliding(op, url)?),
        ("redis, pipe()", redis_pipe(op, url)?),
        ("redis, packed windows", redis_packed(op, url)?),
        ("redefer, windows", redefer_windows(op, url)?),
        (REDEFER_RING, redefer_ring(op, url)?),
        ("redefer, batch", redefer_batch(op, url)?),
    ])
}

// Raw bytes.

trait Socket: Read + Write {}
impl<S: Read + Write> Socket for S {}

pub fn path(url: &str) -> &str {
    url.split_once("://").map_or(url, |(_, path)| path)
}

fn socket(url: &str) -> Outcome<Box<dyn Socket>> {
    Ok(match url.strip_prefix("redis://") {
        Some(address) => {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            Box::new(stream)
        }
        None => Box::new(UnixStream::connect(path(url))?),
    })
}

pub fn encoded(arguments: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    redefer::resp::encode_command(&mut bytes, arguments);
    bytes
}

/// A command and the length of its reply.
fn bytes(op: Op) -> (Vec<u8>, usize) {
    match op {
        Op::Set => (encoded(&["SET", KEY, VALUE]), 5),
        Op::Get => (encoded(&["GET", KEY]), VALUE.len() + 7),
    }
}

/// Writes a window, reads its replies, and so on.
fn raw_windows(op: Op, url: &str) -> Outcome<Run> {
    let (mut socket, (command, reply)) = (socket(url)?, bytes(op));
    let mut buf = vec![0; 64 * 1024];
    Ok(Box::new(move |commands, window| {
        let bytes = command.repeat(window);
        let mut left = commands;
        while left > 0 {
            let now = left.min(window);
            // No more than the server takes unread, but for large windows in pieces as others write them.
            for piece in bytes[..now * command.len()].chunks(64 * 1024) {
                socket.write_all(piece)?;
            }
            let mut due = now * reply;
            while due > 0 {
                due -= socket.read(&mut buf)?;
            }
            left -= now;
        }
        Ok(())
    }))
}

/// For so many replies as have come writes so many commands.
fn raw_duplex(op: Op, url: &str) -> Outcome<Run> {
    let (mut socket, (command, reply)) = (socket(url)?, bytes(op));
    let mut buf = vec![0; 64 * 1024];
    Ok(Box::new(move |commands, window| {
        let bytes = command.repeat(window);
        let (mut to_write, mut to_read, mut partial) = (commands, commands * reply, 0);
        let mut may = window;
        loop {
            // In pieces, so that the server begins before all is written.
            let now = may.min(to_write);
            for piece in bytes[..now * command.len()].chunks(8 * 1024) {
                socket.write_all(piece)?;
            }
            to_write -= now;
            if to_read == 0 {
                return Ok(());
            }
            let n = socket.read(&mut buf)?;
            to_read -= n;
            partial += n;
            may = partial / reply;
            partial %= reply;
        }
    }))
}

// hiredis.

fn hiredis_append(context: &mut hiredis::Context, op: Op) -> Outcome {
    match op {
        Op::Set => context.append(["SET", black_box(KEY), black_box(VALUE)]),
        Op::Get => context.append(["GET", black_box(KEY)]),
    }
}

fn hiredis_windows(op: Op, url: &str) -> Outcome<Run> {
    let mut context = hiredis::Context::connect(url)?;
    Ok(Box::new(move |commands, window| {
        let mut left = commands;
        while left > 0 {
            let now = left.min(window);
            (0..now).try_for_each(|_| hiredis_append(&mut context, op))?;
            (0..now).try_for_each(|_| context.reply())?;
            left -= now;
        }
        Ok(())
    }))
}

fn hiredis_sliding(op: Op, url: &str) -> Outcome<Run> {
    let mut context = hiredis::Context::connect(url)?;
    Ok(Box::new(move |commands, window| {
        for n in 0..commands {
            if n >= window {
                context.reply()?;
            }
            hiredis_append(&mut context, op)?;
        }
        (0..commands.min(window)).try_for_each(|_| context.reply())
    }))
}

// The `redis` crate.

fn redis_url(url: &str) -> String {
    url.replace("redis+unix://", "unix://")
}

pub fn redis_connection(url: &str) -> Outcome<redis::Connection> {
    Ok(redis::Client::open(redis_url(url))?.get_connection()?)
}

fn redis_pipe(op: Op, url: &str) -> Outcome<Run> {
    let mut conn = redis_connection(url)?;
    Ok(Box::new(move |commands, window| {
        let mut left = commands;
        while left > 0 {
            let now = left.min(window);
            let mut pipe = redis::Pipeline::with_capacity(now);
            match op {
                Op::Set => {
                    for _ in 0..now {
                        pipe.set(black_box(KEY), black_box(VALUE)).ignore();
                    }
                    pipe.query::<()>(&mut conn)?;
                }
                Op::Get => {
                    for _ in 0..now {
                        pipe.get(black_box(KEY));
                    }
                    black_box(pipe.query::<Vec<String>>(&mut conn)?);
                }
            }
            left -= now;
        }
        Ok(())
    }))
}

fn redis_packed(op: Op, url: &str) -> Outcome<Run> {
    let mut conn = redis_connection(url)?;
    let mut packed = Vec::new();
    Ok(Box::new(move |commands, window| {
        let mut left = commands;
        while left > 0 {
            let now = left.min(window);
            packed.clear();
            for _ in 0..now {
                match op {
                    Op::Set => {
                        redis::cmd("SET").arg(black_box(KEY)).arg(black_box(VALUE)).write_packed_command(&mut packed)
                    }
                    Op::Get => redis::cmd("GET").arg(black_box(KEY)).write_packed_command(&mut packed),
                }
            }
            conn.send_packed_command(&packed)?;
            for _ in 0..now {
                let value = conn.recv_response()?;
                match op {
                    Op::Set => redis::from_redis_value::<()>(value)?,
                    Op::Get => drop(black_box(redis::from_redis_value::<String>(value)?)),
                }
            }
            left -= now;
        }
        Ok(())
    }))
}

// redefer.

fn redefer_windows(op: Op, url: &str) -> Outcome<Run> {
    let conn = Connection::open(url)?;
    fn windows<'c, T: redefer::FromReply>(
        conn: &'c Connection,
        (commands, window): (usize, usize),
        issue: impl Fn(&'c Connection) -> Reply<'c, T>,
    ) -> Outcome {
        let mut handles = Vec::with_capacity(window);
        let mut left = commands;
        while left > 0 {
            let now = left.min(window);
            handles.extend((0..now).map(|_| issue(conn)));
            for handle in handles.drain(..) {
                black_box(handle.wait()?);
            }
            left -= now;
        }
        Ok(())
    }
    Ok(Box::new(move |commands, window| match op {
        Op::Set => windows(&conn, (commands, window), |conn| conn.set(black_box(KEY), black_box(VALUE))),
        Op::Get => windows::<String>(&conn, (commands, window), |conn| conn.get(black_box(KEY))),
    }))
}

fn redefer_ring(op: Op, url: &str) -> Outcome<Run> {
    let conn = Connection::open(url)?;
    fn ring<'c, T: redefer::FromReply>(
        conn: &'c Connection,
        (commands, window): (usize, usize),
        issue: impl Fn(&'c Connection) -> Reply<'c, T>,
    ) -> Outcome {
        let mut handles = VecDeque::with_capacity(window);
        for _ in 0..commands {
            if handles.len() == window
                && let Some(oldest) = handles.pop_front()
            {
                black_box(Reply::wait(oldest)?);
            }
            handles.push_back(issue(conn));
        }
        for handle in handles {
            black_box(handle.wait()?);
        }
        Ok(())
    }
    Ok(Box::new(move |commands, window| match op {
        Op::Set => ring(&conn, (commands, window), |conn| conn.set(black_box(KEY), black_box(VALUE))),
        Op::Get => ring::<String>(&conn, (commands, window), |conn| conn.get(black_box(KEY))),
    }))
}

/// A batch of each window; its handles are dropped.
fn redefer_batch(op: Op, url: &str) -> Outcome<Run> {
    let conn = Connection::open(url)?;
    Ok(Box::new(move |commands, window| {
        let mut left = commands;
        while left > 0 {
            let now = left.min(window);
            let batch = conn.batch();
            for _ in 0..now {
                match op {
                    Op::Set => drop(batch.set(black_box(KEY), black_box(VALUE))),
                    Op::Get => drop(batch.get::<String>(black_box(KEY))),
                }
            }
            batch.finish()?;
            left -= now;
        }
        Ok(())
    }))
}
