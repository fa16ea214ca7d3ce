//! Client-side caching: GETs a second from memory, beside uncached ones and beside the least that an answer from memory
//! can cost, which is a look-up and one read of the socket that does not wait.

use std::collections::HashMap;
use std::hint::black_box;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use redefer::cache::{CacheConfig, Cached};
use redefer::prelude::*;
use redefer::testing::Server;

use crate::Outcome;
use crate::measure::{Seconds, median, time};

/// As many as are read in turn.
const KEYS: usize = 1000;

type Turn<'t> = (&'static str, Box<dyn FnMut(usize) -> Outcome + 't>);

pub fn run(server: &Server, rounds: usize, commands: usize) -> Outcome {
    let url = server.url();
    let plain = Connection::open(&url)?;
    let cached = Cached::open(&url, CacheConfig::new())?;
    let keys: Vec<String> = (0..KEYS).map(|n| format!("key:{n:06}")).collect();
    for key in &keys {
        plain.set(key, crate::VALUE).detach();
    }
    plain.sync()?;
    let in_turn = |n: usize| keys.iter().cycle().take(n);
    let mut turns: Vec<Turn<'_>> = vec![
        ("look-up and one read", Box::new(least(&url, &keys)?)),
        (
            "cached",
            Box::new(|n| {
                for key in in_turn(n) {
                    black_box(cached.get::<String>(key).wait()?);
                }
                Ok(())
            }),
        ),
        (
            "uncached, one at a time",
            Box::new(|n| {
                for key in in_turn(n / 10) {
                    black_box(plain.get::<String>(key).wait()?);
                }
                Ok(())
            }),
        ),
        (
            "uncached, 256 at a time",
            Box::new(|n| {
                let mut replies = Vec::with_capacity(256);
                for key in in_turn(n) {
                    replies.push(plain.get::<String>(key));
                    if replies.len() == 256 {
                        for reply in replies.drain(..) {
                            black_box(reply.wait()?);
                        }
                    }
                }
                Ok(())
            }),
        ),
    ];
    let mut seconds: Vec<Vec<Seconds>> = vec![Vec::new(); turns.len()];
    for (_, turn) in &mut turns {
        turn(KEYS * 10)?;
    }
    for _ in 0..rounds {
        for ((name, turn), seconds) in turns.iter_mut().zip(&mut seconds) {
            let share = if name.ends_with("one at a time") { 10.0 } else { 1.0 };
            let once = time(|| turn(commands))?;
            seconds.push(Seconds { wall: once.wall * share, cpu: once.cpu * share });
        }
    }
    println!("\nGET of {KEYS} keys in turn           a second   CPU s/million   of the least");
    for ((name, _), own) in turns.iter().zip(&seconds) {
        let of_least = median(own.iter().zip(&seconds[0]).map(|(own, least)| least.wall / own.wall));
        let wall = median(own.iter().map(|seconds| seconds.wall));
        let cpu = median(own.iter().map(|seconds| seconds.cpu));
        println!("{name:<30} {:>12.0} {:>15.2} {of_least:>14.3}", commands as f64 / wall, cpu * 1e6 / commands as f64);
    }
    drop(turns);
    under_a_writer(server, &keys, commands)
}

/// A map, and a connection on which nothing comes.
fn least<'t>(url: &str, keys: &'t [String]) -> Outcome<impl FnMut(usize) -> Outcome + use<'t>> {
    let address = url.trim_start_matches("redis://").trim_end_matches('/');
    let socket = TcpStream::connect(address)?;
    let replies: HashMap<&str, String> = keys.iter().map(|key| (key.as_str(), crate::VALUE.to_owned())).collect();
    Ok(move |n| {
        let mut room = [0_u8; 4096];
        for key in keys.iter().cycle().take(n) {
            // SAFETY: the room is as large as is said, and nothing else uses it.
            let read =
                unsafe { libc::recv(socket.as_raw_fd(), room.as_mut_ptr().cast(), room.len(), libc::MSG_DONTWAIT) };
            if read >= 0 {
                return Err("something came on an idle connection".into());
            }
            black_box(replies.get(black_box(key.as_str())).cloned());
        }
        Ok(())
    })
}

/// The hit rate while somebody else writes the same keys as fast as possible, in a pipeline.
fn under_a_writer(server: &Server, keys: &[String], commands: usize) -> Outcome {
    let cached = Cached::open(server.url(), CacheConfig::new())?;
    let other = Connection::open(server.url())?;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let done = &done;
        let writer = scope.spawn(move || {
            let mut writes = 0_u64;
            while !done.load(Ordering::Relaxed) {
                for key in keys {
                    other.set(key, crate::VALUE).detach();
                }
                other.sync()?;
                writes += keys.len() as u64;
            }
            Ok::<_, redefer::Error>(writes)
        });
        let read = time(|| {
            for key in keys.iter().cycle().take(commands) {
                black_box(cached.get::<String>(key).wait()?);
            }
            Ok(())
        });
        done.store(true, Ordering::Relaxed);
        let writes = writer.join().map_err(|_| "the writer panicked")??;
        let (read, stats) = (read?, cached.cache_stats());
        println!(
            "\nwhile {:.0} SETs a second change the same keys: {:.0} GETs a second, hit rate {:.2}, {} invalidations",
            writes as f64 / read.wall,
            commands as f64 / read.wall,
            stats.hit_rate(),
            stats.invalidations
        );
        Ok(())
    })
}
