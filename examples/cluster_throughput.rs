//! How many commands a second: one server, and clusters of one, two and three primaries, side by side.
//!
//! ```text
//! cargo run --release --features testing --example cluster_throughput
//! ```
//!
//! One client thread keeps 4,096 handles, waits for the oldest and issues the next. On a machine with few processors the nodes
//! share them with the client, which is then what limits them all: look at the client's own time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use redefer::prelude::*;
use redefer::testing::{self, Server};
use redefer::{Cluster, Result};

const COMMANDS: usize = 1_000_000;
const WINDOW: usize = 4096;

/// Issues all commands on any executor, with a window of them outstanding.
fn run<'c, C: StringCommands + Copy + 'c>(on: C, keys: &[String]) -> Result<Duration> {
    let start = Instant::now();
    let mut window = VecDeque::with_capacity(WINDOW);
    for n in 0..COMMANDS {
        if window.len() == WINDOW
            && let Some(oldest) = window.pop_front()
        {
            let () = redefer::commands::Handle::wait(oldest)?;
        }
        window.push_back(on.set(&keys[n % keys.len()], "somemediumvalue"));
    }
    window.into_iter().try_for_each(redefer::commands::Handle::wait)?;
    Ok(start.elapsed())
}

/// The processor time of this process so far, where it can be told.
fn processor_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let mut fields = stat.rsplit(')').next()?.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some(Duration::from_millis((ticks()? + ticks()?) * 10))
}

fn measure(name: &str, mut run: impl FnMut() -> Result<Duration>) -> Result<()> {
    run()?;
    let mut best = (Duration::MAX, None);
    for _ in 0..3 {
        let before = processor_time();
        let time = run()?;
        let used = processor_time().zip(before).map(|(after, before)| after.saturating_sub(before));
        if time < best.0 {
            best = (time, used);
        }
    }
    let used = best.1.map_or("?".to_owned(), |used| format!("{:.2}", used.as_secs_f64()));
    let rate = COMMANDS as f64 / best.0.as_secs_f64();
    println!("{name:<24} {rate:>10.0} commands/s   {used} s of the client's processor time for {COMMANDS}");
    Ok(())
}

fn main() -> Result<()> {
    let keys: Vec<String> = (0..10_000).map(|n| format!("somemediumkey{n}")).collect();
    let server = Server::start()?;
    let conn = Connection::open(server.url())?;
    measure("one server, plain", || run(&conn, &keys))?;
    for primaries in 1..=3 {
        let nodes = testing::Cluster::builder().primaries(primaries).replicas(0).start()?;
        let cluster = Cluster::open(nodes.urls())?;
        measure(&format!("cluster, {primaries} primaries"), || run(&cluster, &keys))?;
    }
    Ok(())
}
