//! Many threads, each looking one missing session up after the other: on one server by a `Shared`, and on a cluster of three
//! primaries by a `SharedCluster`, in turns.
//!
//! ```text
//! cargo run --release --features testing --example cluster_threads
//! ```
//!
//! On a machine with few processors the nodes share them with the threads, and three of them take more than one.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redefer::cluster::SharedCluster;
use redefer::prelude::*;
use redefer::testing::{Cluster, Server};
use redefer::{Result, Shared};

const TURN: Duration = Duration::from_millis(700);
const TURNS: usize = 7;

/// The processor time of this process so far, where it can be told, in microseconds.
fn processor_time() -> f64 {
    let told = || {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        let mut fields = stat.rsplit(')').next()?.split_whitespace().skip(11);
        let mut ticks = || fields.next()?.parse::<f64>().ok();
        Some((ticks()? + ticks()?) * 10_000.0)
    };
    told().unwrap_or(f64::NAN)
}

/// How many sessions a second so many threads look up, on any executor, and how many microseconds of the processor each costs
/// them.
fn run<C>(on: C, threads: usize) -> (f64, f64)
where
    C: StringCommands + Copy + Send + Sync,
{
    let (done, stop, start) = (AtomicU64::new(0), AtomicBool::new(false), Barrier::new(threads + 1));
    let used = processor_time();
    let time = thread::scope(|scope| {
        for n in 0..threads {
            let (done, stop, start) = (&done, &stop, &start);
            scope.spawn(move || {
                start.wait();
                let mut count = 0;
                while !stop.load(Ordering::Relaxed) {
                    let session: Result<Option<String>> = on.get(format!("session:{n}-{count}")).wait();
                    assert!(matches!(session, Ok(None)), "{session:?}");
                    count += 1;
                }
                done.fetch_add(count, Ordering::Relaxed);
            });
        }
        start.wait();
        let begun = Instant::now();
        thread::sleep(TURN);
        stop.store(true, Ordering::Relaxed);
        begun
    })
    .elapsed();
    let done = done.into_inner() as f64;
    (done / time.as_secs_f64(), (processor_time() - used) / done)
}

fn median(mut numbers: Vec<(f64, f64)>) -> (f64, f64) {
    numbers.sort_by(|one, two| one.0.total_cmp(&two.0));
    numbers[numbers.len() / 2]
}

fn main() -> Result<()> {
    let server = Server::start()?;
    let nodes = Cluster::builder().replicas(0).start()?;
    let (shared, cluster) = (Shared::open(server.url())?, SharedCluster::open(nodes.urls())?);
    println!("threads     one server: calls/s, us each     three primaries: calls/s, us each     ratio");
    for threads in [1, 8, 64, 255] {
        let (mut one, mut three) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            one.push(run(&shared, threads));
            three.push(run(&cluster, threads));
        }
        let (one, three) = (median(one), median(three));
        let ratio = three.0 / one.0;
        println!("{threads:>7} {:>22.0} {:>9.2} {:>27.0} {:>9.2} {ratio:>9.2}", one.0, one.1, three.0, three.1);
    }
    Ok(())
}
