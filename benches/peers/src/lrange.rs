//! LRANGE of a million elements of 26 bytes, each client in a process of its own: time and memory.

use std::hint::black_box;
use std::io::{Read, Write};
use std::net::TcpStream;

use redefer::prelude::*;
use redefer::testing::Server;

use crate::measure::{in_a_child, median, memory, time};
use crate::{Outcome, clients, hiredis};

pub const LIST: &str = "million";
pub const ELEMENT: &str = "abcdefghijklmnopqrstuvwxyz";
pub const ELEMENTS: usize = 1_000_000;

/// Name, what the child is asked for, and how many times the raw replay it may take.
const CLIENTS: [(&str, &str, Option<f64>); 6] = [
    ("raw replay, bytes only counted", "raw", None),
    ("redefer, for_each_bytes", "bytes", Some(1.2)),
    ("redefer, iterated as String", "strings", Some(1.5)),
    ("redefer, collected: Vec<String>", "collected", None),
    ("hiredis", "hiredis", None),
    ("redis, Vec<String>", "redis", None),
];

/// Puts the list there, unless it is.
pub fn fill(server: &Server) -> Outcome {
    let conn = Connection::open(server.url())?;
    if conn.llen(LIST).wait()? == 0 {
        let batch = conn.batch();
        for _ in 0..ELEMENTS / 1000 {
            batch.rpush(LIST, vec![ELEMENT; 1000]);
        }
        batch.finish()?;
    }
    Ok(())
}

pub fn run(server: &Server, rounds: usize) -> Outcome {
    fill(server)?;
    let mut numbers = vec![Vec::new(); CLIENTS.len()];
    for _ in 0..rounds {
        for ((_, task, _), numbers) in CLIENTS.iter().zip(&mut numbers) {
            numbers.push(in_a_child(&format!("lrange:{task}"), &server.url())?);
        }
    }
    let column = |client: usize, at: usize| median(numbers[client].iter().map(|numbers| numbers[at]));
    let raw = column(0, 0);
    println!("\nLRANGE of 1,000,000 x 26 bytes");
    println!("  {:<34} {:>8} {:>8} {:>8} {:>10} {:>10}", "", "seconds", "x raw", "CPU s", "peak MiB", "more MiB");
    for (index, (name, _, limit)) in CLIENTS.iter().enumerate() {
        let seconds = column(index, 0);
        let verdict = match limit {
            Some(limit) if seconds / raw <= *limit => format!("  <= {limit}"),
            Some(limit) => format!("  <= {limit} no"),
            None => String::new(),
        };
        println!(
            "  {name:<34} {seconds:>8.3} {:>8.2} {:>8.3} {:>10.1} {:>10.1}{verdict}",
            seconds / raw,
            column(index, 1),
            column(index, 2) / 1024.0,
            column(index, 3) / 1024.0,
        );
    }
    println!(
        "  more: than connected and idle; redefer's for_each_bytes and iteration: <= 3 MiB at the peak, <= 1 MiB more"
    );
    Ok(())
}

/// Prints seconds, CPU seconds, peak memory and how much more that is than before, in KiB.
pub fn child(client: &str, url: &str) -> Outcome {
    let mut idle = f64::NAN;
    let mut connected = || idle = memory("VmHWM");
    let seconds = match client {
        "raw" => {
            let mut socket = TcpStream::connect(url.trim_start_matches("redis://"))?;
            let mut buf = vec![0; 64 * 1024];
            buf.fill(1);
            connected();
            time(|| {
                socket.write_all(&clients::encoded(&["LRANGE", LIST, "0", "-1"]))?;
                let mut due = format!("*{ELEMENTS}\r\n").len() + ELEMENTS * (ELEMENT.len() + 7);
                while due > 0 {
                    due -= socket.read(&mut buf)?;
                }
                Ok(())
            })
        }
        "hiredis" => {
            let mut context = hiredis::Context::connect(url)?;
            connected();
            time(|| {
                context.append(["LRANGE", LIST, "0", "-1"])?;
                context.reply()
            })
        }
        "redis" => {
            let mut conn = clients::redis_connection(url)?;
            connected();
            time(|| {
                let all: Vec<String> = redis::Commands::lrange(&mut conn, LIST, 0, -1)?;
                black_box(all);
                Ok(())
            })
        }
        _ => {
            let conn = Connection::open(url)?;
            conn.ping().wait()?;
            connected();
            time(|| {
                let list = conn.lrange::<String>(LIST, 0, -1);
                match client {
                    "bytes" => list.for_each_bytes(|bytes| {
                        black_box(bytes);
                    })?,
                    "strings" => {
                        for element in list {
                            black_box(element?);
                        }
                    }
                    _ => drop(black_box(list.wait::<Vec<String>>()?)),
                }
                Ok(())
            })
        }
    }?;
    let peak = memory("VmHWM");
    println!("{} {} {peak} {}", seconds.wall, seconds.cpu, peak - idle);
    Ok(())
}
