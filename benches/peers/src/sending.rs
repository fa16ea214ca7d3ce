//! When bytes go out: groups of commands, and issue, work, wait, each way of sending.

use std::time::{Duration, Instant};

use redefer::prelude::*;
use redefer::testing::Server;
use redefer::{SendWhen, Stats};

use crate::measure::median;
use crate::{KEY, Outcome, VALUE};

const GROUPS: usize = 2_000;
const WORK: Duration = Duration::from_micros(100);
const MODES: [(&str, SendWhen); 3] =
    [("adaptive", SendWhen::Adaptive), ("eager", SendWhen::Eager), ("gathering", SendWhen::Gathering)];

pub fn run(server: &Server, rounds: usize) -> Outcome {
    println!("\n{:<30} {:>33} {:>33} {:>33}", "", MODES[0].0, MODES[1].0, MODES[2].0);
    println!(
        "{:<30}{}",
        "per group, over TCP",
        format!(" {:>9} {:>11} {:>11}", "writes", "round trips", "us").repeat(3)
    );
    for size in [1, 2, 4, 16] {
        line(server, rounds, &format!("{size} SET, wait for each"), |conn| {
            let handles: Vec<_> = (0..size).map(|_| conn.set(KEY, VALUE)).collect();
            handles.into_iter().try_for_each(Reply::wait)
        })?;
    }
    for size in [1, 4] {
        line(server, rounds, &format!("{size} SET, {} us of work, wait", WORK.as_micros()), |conn| {
            let handles: Vec<_> = (0..size).map(|_| conn.set(KEY, VALUE)).collect();
            let until = Instant::now() + WORK;
            while Instant::now() < until {
                std::hint::spin_loop();
            }
            handles.into_iter().try_for_each(Reply::wait)
        })?;
    }
    Ok(())
}

fn line(server: &Server, rounds: usize, name: &str, group: impl Fn(&Connection) -> redefer::Result<()>) -> Outcome {
    let mut seconds = [const { Vec::new() }; MODES.len()];
    let mut counts = [Stats::default(); MODES.len()];
    let mut conns = Vec::new();
    for (_, when) in MODES {
        conns.push(Connection::open(Config::from_url(&server.url())?.send_when(when))?);
    }
    for _ in 0..rounds {
        for (mode, conn) in conns.iter().enumerate() {
            let start = Instant::now();
            for _ in 0..GROUPS {
                group(conn)?;
            }
            seconds[mode].push(start.elapsed().as_secs_f64());
            counts[mode] = conn.stats();
        }
    }
    let groups = (GROUPS * rounds) as f64;
    print!("{name:<30}");
    for (stats, seconds) in counts.iter().zip(seconds) {
        let micros = median(seconds) * 1e6 / GROUPS as f64;
        print!(" {:>9.2} {:>11.2} {micros:>11.1}", stats.writes as f64 / groups, stats.round_trips as f64 / groups);
    }
    println!();
    Ok(())
}
