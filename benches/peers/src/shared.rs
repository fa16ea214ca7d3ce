//! Many callers, each of which waits for one reply at a time: over one connection that they share, and over one each.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redefer::prelude::*;
use redefer::testing::Server;
use redis::{AsyncCommands as _, Commands as _};

use crate::measure::{Seconds, median, time};
use crate::{KEY, Outcome, VALUE};

const CALLERS: [usize; 5] = [1, 2, 8, 64, 255];

/// How long a client has its turn.
const TURN: Duration = Duration::from_millis(700);

/// What each caller does again and again.
#[derive(Clone, Copy, PartialEq)]
enum Work {
    /// GET of a key.
    Get,
    /// GET of a session that does not exist.
    Session,
}

impl Work {
    fn key(self, caller: usize, call: usize) -> String {
        match self {
            Work::Get => KEY.into(),
            Work::Session => format!("session:{caller:04}:{call:012x}"),
        }
    }

    fn check(self, value: Option<String>) {
        match self {
            Work::Get => assert_eq!(value.as_deref(), Some(VALUE)),
            Work::Session => assert_eq!(value, None),
        }
    }
}

/// What one turn came to.
struct Turn {
    seconds: Seconds,
    /// How long each call took, in nanoseconds, sorted.
    calls: Vec<u32>,
    /// How many calls the slowest caller made for one of the fastest.
    fairness: f64,
}

impl Turn {
    fn rate(&self) -> f64 {
        self.calls.len() as f64 / self.seconds.wall
    }

    fn cpu(&self) -> f64 {
        self.seconds.cpu / self.calls.len() as f64 * 1e6
    }

    /// In microseconds.
    fn percentile(&self, part: f64) -> f64 {
        let index = (self.calls.len() as f64 * part) as usize;
        self.calls.get(index.min(self.calls.len().saturating_sub(1))).map_or(f64::NAN, |ns| f64::from(*ns) / 1e3)
    }
}

/// The calls of one caller: how long each took.
type Calls = Vec<u32>;

fn turn(run: impl FnOnce() -> Outcome<Vec<Calls>>) -> Outcome<Turn> {
    let mut callers = Vec::new();
    let seconds = time(|| {
        callers = run()?;
        Ok(())
    })?;
    let counts = callers.iter().map(Vec::len);
    let fairness = counts.clone().min().unwrap_or(0) as f64 / counts.max().unwrap_or(1).max(1) as f64;
    let mut calls = callers.concat();
    calls.sort_unstable();
    Ok(Turn { seconds, calls, fairness })
}

/// Runs a closure in each of so many threads again and again, until the turn is over.
fn in_threads<F: FnMut(usize) + Send>(callers: Vec<F>) -> Outcome<Vec<Calls>> {
    let (over, start) = (AtomicBool::new(false), Barrier::new(callers.len() + 1));
    thread::scope(|scope| {
        let threads: Vec<_> = callers
            .into_iter()
            .map(|mut call| {
                let (over, start) = (&over, &start);
                scope.spawn(move || {
                    let mut calls = Vec::with_capacity(1 << 14);
                    start.wait();
                    while !over.load(Ordering::Relaxed) {
                        let begin = Instant::now();
                        call(calls.len());
                        calls.push(begin.elapsed().as_nanos() as u32);
                    }
                    calls
                })
            })
            .collect();
        start.wait();
        thread::sleep(TURN);
        over.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().map_err(|_| "a caller panicked".into())).collect()
    })
}

fn shared(url: &str, callers: usize, work: Work) -> Outcome<Vec<Calls>> {
    let shared = &Shared::open(url)?;
    in_threads(
        (0..callers)
            .map(|caller| move |call| work.check(shared.get(work.key(caller, call)).wait().expect("a reply")))
            .collect(),
    )
}

fn connections(url: &str, callers: usize, work: Work) -> Outcome<Vec<Calls>> {
    let mut threads = Vec::new();
    for caller in 0..callers {
        let conn = Connection::open(url)?;
        threads.push(move |call| work.check(conn.get(work.key(caller, call)).wait().expect("a reply")));
    }
    in_threads(threads)
}

fn redis_connections(url: &str, callers: usize, work: Work) -> Outcome<Vec<Calls>> {
    let client = redis::Client::open(url)?;
    let mut threads = Vec::new();
    for caller in 0..callers {
        let mut conn = client.get_connection()?;
        threads.push(move |call| work.check(conn.get(work.key(caller, call)).expect("a reply")));
    }
    in_threads(threads)
}

/// A task for each caller, on a runtime with a thread for each processor.
fn redis_multiplexed(url: &str, callers: usize, work: Work) -> Outcome<Vec<Calls>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let client = redis::Client::open(url)?;
    let over = std::sync::Arc::new(AtomicBool::new(false));
    runtime.block_on(async {
        let conn = client.get_multiplexed_async_connection().await?;
        let tasks: Vec<_> = (0..callers)
            .map(|caller| {
                let (mut conn, over) = (conn.clone(), over.clone());
                tokio::spawn(async move {
                    let mut calls = Vec::with_capacity(1 << 14);
                    while !over.load(Ordering::Relaxed) {
                        let begin = Instant::now();
                        work.check(conn.get(work.key(caller, calls.len())).await.expect("a reply"));
                        calls.push(begin.elapsed().as_nanos() as u32);
                    }
                    calls
                })
            })
            .collect();
        tokio::time::sleep(TURN).await;
        over.store(true, Ordering::Relaxed);
        let mut all = Vec::new();
        for task in tasks {
            all.push(task.await?);
        }
        Ok(all)
    })
}

/// A thread for each caller, which blocks until the task of its call is done.
fn redis_multiplexed_threads(url: &str, callers: usize, work: Work) -> Outcome<Vec<Calls>> {
    let runtime = &tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let conn = runtime.block_on(redis::Client::open(url)?.get_multiplexed_async_connection())?;
    in_threads(
        (0..callers)
            .map(|caller| {
                let mut conn = conn.clone();
                move |call| work.check(runtime.block_on(conn.get(work.key(caller, call))).expect("a reply"))
            })
            .collect(),
    )
}

type Client = fn(&str, usize, Work) -> Outcome<Vec<Calls>>;

const CLIENTS: [(&str, Client); 5] = [
    ("Shared", shared),
    ("a Connection each", connections),
    ("redis, a connection each", redis_connections),
    ("redis, multiplexed, tasks", redis_multiplexed),
    ("redis, multiplexed, threads", redis_multiplexed_threads),
];

pub fn run(server: &Server, rounds: usize) -> Outcome {
    let url = server.url();
    Connection::open(&url)?.set(KEY, VALUE).wait()?;
    for callers in CALLERS {
        compare(&format!("GET, {callers} callers"), &url, callers, Work::Get, rounds)?;
    }
    compare("sessions that do not exist, 255 callers", &url, 255, Work::Session, rounds)
}

fn compare(title: &str, url: &str, callers: usize, work: Work, rounds: usize) -> Outcome {
    let mut turns: Vec<Vec<Turn>> = CLIENTS.iter().map(|_| Vec::new()).collect();
    for _ in 0..rounds {
        for ((_, client), turns) in CLIENTS.iter().zip(&mut turns) {
            turns.push(turn(|| client(url, callers, work))?);
        }
    }
    println!(
        "\n{title:<40} {:>9} {:>8} {:>8} {:>8} {:>8} {:>6} {:>10} {:>9}",
        "calls/s", "Shared's", "p50 us", "p99", "p99.9", "/p50", "CPU s/mill", "slow/fast"
    );
    for ((name, _), mine) in CLIENTS.iter().zip(&turns) {
        let of = |value: fn(&Turn) -> f64| median(mine.iter().map(value));
        // The median of the ratios within a round, so that what else the machine does bears on both sides.
        let times = median(turns[0].iter().zip(mine).map(|(shared, other)| shared.rate() / other.rate()));
        let (p50, p999) = (of(|turn| turn.percentile(0.5)), of(|turn| turn.percentile(0.999)));
        println!(
            "  {name:<38} {:>9.0} {times:>8.2} {p50:>8.0} {:>8.0} {p999:>8.0} {:>6.1} {:>10.2} {:>9.2}",
            of(Turn::rate),
            of(|turn| turn.percentile(0.99)),
            p999 / p50,
            of(Turn::cpu),
            of(|turn| turn.fairness),
        );
    }
    Ok(())
}
