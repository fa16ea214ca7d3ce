//! Pipelines of SET and GET: commands per second and CPU seconds of the client.

use redefer::prelude::*;
use redefer::testing::Server;

use crate::Outcome;
use crate::clients::{self, Op, RAW_DUPLEX, REDEFER_RING};
use crate::measure::{Seconds, median, time};

const WINDOWS: [usize; 2] = [256, 4096];

/// What DESIGN.md sets: the ring beside the raw replay and beside the others, and CPU seconds per million commands.
const OF_RAW: f64 = 0.9;
const OF_PEERS: f64 = 2.0;
const CPU: f64 = 0.16;

struct Line {
    name: &'static str,
    /// Of each round.
    seconds: Vec<Seconds>,
}

pub fn run(server: &Server, rounds: usize, commands: usize) -> Outcome {
    let mut summary = Vec::new();
    for (transport, url) in [("TCP", server.url()), ("unix socket", server.unix_url())] {
        for (name, op) in [("SET", Op::Set), ("GET", Op::Get)] {
            for window in WINDOWS {
                let title = format!("{name}, {window} outstanding, {transport}");
                let lines = measure(op, window, &url, rounds, commands)?;
                summary.push(print(&title, window, commands, &lines));
            }
        }
    }
    println!(
        "\nring of handles: of duplex raw >= {OF_RAW}, of hiredis and redis >= {OF_PEERS}; CPU s/million <= {CPU} at 4096"
    );
    summary.iter().for_each(|line| println!("{line}"));
    Ok(())
}

fn measure(op: Op, window: usize, url: &str, rounds: usize, commands: usize) -> Outcome<Vec<Line>> {
    let mut clients = clients::all(op, url)?;
    let mut seconds: Vec<Vec<Seconds>> = vec![Vec::new(); clients.len()];
    // The first turn is a warm-up, and asks the server whether it has done what the client is credited with.
    let witness = Connection::open(url)?;
    for (name, run) in &mut clients {
        let before = calls(&witness, op)?;
        run(commands / 10, window)?;
        let done = calls(&witness, op)? - before;
        if done != (commands / 10) as u64 {
            return Err(format!("{name}: the server has run {done} commands and not {}", commands / 10).into());
        }
    }
    for _ in 0..rounds {
        for ((_, run), seconds) in clients.iter_mut().zip(&mut seconds) {
            seconds.push(time(|| run(commands, window))?);
        }
    }
    Ok(clients.iter().zip(seconds).map(|((name, _), seconds)| Line { name, seconds }).collect())
}

/// How many of these commands the server has run, by its own count.
fn calls(witness: &Connection, op: Op) -> Outcome<u64> {
    let stats: String = witness.command("INFO", "commandstats").wait()?;
    let name = if op == Op::Set { "cmdstat_set:calls=" } else { "cmdstat_get:calls=" };
    let count = stats.lines().find_map(|line| line.strip_prefix(name)?.split(',').next()?.parse().ok());
    Ok(count.unwrap_or(0))
}

/// How many times as fast as the fastest of these a client is. Each pair is the median of the ratios within a round, so
/// that what else the machine does bears on both sides; and the fastest is found by these medians and not anew in each
/// round, where it would be whoever was luckiest.
fn ratio(line: &Line, lines: &[Line], than: impl Fn(&str) -> bool) -> f64 {
    let others = lines.iter().filter(|other| than(other.name));
    let ratios = others.map(|other| median(other.seconds.iter().zip(&line.seconds).map(|(a, b)| a.wall / b.wall)));
    ratios.fold(f64::INFINITY, f64::min)
}

/// Prints the table, and returns the line of the summary.
fn print(title: &str, window: usize, commands: usize, lines: &[Line]) -> String {
    let millions = commands as f64 / 1e6;
    let (raw, hiredis, redis) = (
        |name: &str| name == RAW_DUPLEX,
        |name: &str| name.starts_with("hiredis,"),
        |name: &str| name.starts_with("redis,"),
    );
    println!("\n{title:<36} {:>10} {:>8} {:>9} {:>10}", "million/s", "of raw", "of peers", "CPU s/mill");
    let mut summary = format!("  {title:<36}");
    for line in lines {
        let of_raw = ratio(line, lines, raw);
        let of_peers = ratio(line, lines, |name| hiredis(name) || redis(name));
        let rate = millions / median(line.seconds.iter().map(|seconds| seconds.wall));
        let cpu = median(line.seconds.iter().map(|seconds| seconds.cpu)) / millions;
        println!("  {:<34} {rate:>10.3} {of_raw:>8.2} {of_peers:>9.2} {cpu:>10.3}", line.name);
        let mut tell = |name: &str, value: f64, ok: bool| {
            summary += &format!("  {name} {value:.2}{}", if ok { "   " } else { " no" });
        };
        if line.name == REDEFER_RING {
            tell("raw", of_raw, of_raw >= OF_RAW);
            let (of_hiredis, of_redis) = (ratio(line, lines, hiredis), ratio(line, lines, redis));
            tell("hiredis", of_hiredis, of_hiredis >= OF_PEERS);
            tell("redis", of_redis, of_redis >= OF_PEERS);
            // What no client of this server on this machine can exceed by much.
            let raw_line = lines.iter().find(|line| raw(line.name));
            let ceiling = raw_line.map_or(f64::NAN, |line| ratio(line, lines, |name| hiredis(name) || redis(name)));
            summary += &format!("  (raw itself: {ceiling:.2} of the best peer)");
            if window == 4096 {
                let mut tell = |name: &str, value: f64, ok: bool| {
                    summary += &format!("  {name} {value:.2}{}", if ok { "   " } else { " no" });
                };
                tell("CPU", cpu, cpu <= CPU);
            }
        }
    }
    summary
}
