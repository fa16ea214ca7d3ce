//! Everything that threads can do with a cluster that they share, in any order, on nodes that redirect, break and change
//! places at random: each reply is its own caller's, nothing runs twice, and nobody waits for ever.

mod support;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use redefer::cluster::{SharedCluster, SharedClusterMultiBulk, SharedClusterQueued, SharedClusterReply};
use redefer::prelude::*;
use redefer::{Result, WaitError};
use support::nodes::*;
use support::unruly::*;
use support::within;

const LIMIT: Duration = Duration::from_secs(120);
const THREADS: usize = 6;
/// Keys of each thread, some of which share a slot.
const KEYS: u64 = 5;

/// What has run, by key, in order.
type Runs = Arc<Mutex<HashMap<String, Vec<u64>>>>;

/// Runs a command that names a key and then a number, of which the reply is both; or one that reads.
fn run(words: &Words, runs: &Runs) -> String {
    let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
    match &*words[0] {
        "MGET" => [format!("*{}\r\n", words.len() - 1), words[1..].iter().map(|key| bulk(key)).collect()].concat(),
        "LRANGE" => format!("*2\r\n{0}{0}", bulk(&words[1])),
        _ => {
            runs.lock().unwrap().entry(words[1].clone()).or_default().push(words[2].parse().unwrap());
            bulk(&format!("{}={}", words[1], words[2]))
        }
    }
}

/// What is waited for, and what it must be.
enum Held<'c> {
    Reply(SharedClusterReply<'c, String>, String),
    Moody(SharedClusterReply<'c, Moody>, String),
    Queued(SharedClusterQueued<'c, String>, String),
    Commit(SharedClusterReply<'c, ()>),
    Keys(SharedClusterMultiBulk<'c, String>, Vec<String>),
    Size(SharedClusterReply<'c, i64>),
}

/// What may go wrong with a command: its connection broke, its time is over, or it was redirected without end.
fn is_bearable(error: &Error) -> bool {
    match error {
        Error::ConnectionLost(_) | Error::Timeout | Error::Io(_) | Error::NotCommitted => true,
        Error::Custom(_) => error.to_string().contains("moody"),
        Error::Batch(error) => is_bearable(error.first()),
        Error::Server(_) => matches!(error.code(), Some("MOVED" | "ASK" | "TRYAGAIN" | "EXECABORT")),
        _ => false,
    }
}

fn good<T: PartialEq + std::fmt::Debug>(outcome: Result<T>, is: &T) {
    match outcome {
        Ok(value) => assert_eq!(value, *is, "a reply of another caller"),
        Err(error) => assert!(is_bearable(&error), "{error} for {is:?}"),
    }
}

fn moody(outcome: Result<Moody>, is: &str) {
    good(outcome.map(|moody| moody.0), &is.to_owned());
}

/// Waits for a moment.
macro_rules! briefly {
    ($reply:expr, $time:expr, $good:expr, $back:expr) => {
        match $reply.wait_timeout($time) {
            Ok(value) => $good(Ok(value)),
            Err(WaitError::Failed(error)) => $good(Err(error)),
            Err(WaitError::Timeout(reply)) => return Some($back(reply)),
        }
    };
}

/// Drops something while its thread panics.
fn dropped_in_panic<T>(held: T) {
    let panicked = catch_unwind(AssertUnwindSafe(move || {
        let _held = held;
        std::panic::resume_unwind(Box::new("dropped"));
    }));
    assert!(panicked.is_err());
}

/// Does something with a handle, and gives it back if it is still good.
fn use_up<'c>(held: Held<'c>, rng: &mut Rng) -> Option<Held<'c>> {
    let how = rng.u64(..12);
    let time = Duration::from_micros([0, 20, 500, 5000][rng.usize(..4)]);
    match (how, held) {
        (0, Held::Reply(reply, _)) => reply.detach(),
        (0, Held::Queued(reply, _)) => reply.detach(),
        (0, Held::Keys(reply, _)) => reply.detach(),
        (0, Held::Commit(reply)) => reply.detach(),
        (1, held) => drop(held),
        (2, held) => std::mem::forget(held),
        (3, held) => dropped_in_panic(held),
        (4 | 5, Held::Reply(reply, is)) => {
            briefly!(reply, time, |outcome| good(outcome, &is), |reply| Held::Reply(reply, is.clone()));
        }
        (4 | 5, Held::Queued(reply, is)) => {
            briefly!(reply, time, |outcome| good(outcome, &is), |reply| Held::Queued(reply, is.clone()));
        }
        (4 | 5, Held::Size(reply)) => briefly!(reply, time, |outcome: Result<i64>| drop(outcome), Held::Size),
        (4 | 5, Held::Commit(reply)) => briefly!(reply, time, |outcome| good(outcome, &()), Held::Commit),
        (6, Held::Reply(reply, is)) => {
            reply.is_ready().unwrap();
            return Some(Held::Reply(reply, is));
        }
        (6, Held::Queued(reply, is)) => {
            reply.is_ready().unwrap();
            return Some(Held::Queued(reply, is));
        }
        (_, Held::Reply(reply, is)) => good(reply.wait(), &is),
        (_, Held::Queued(reply, is)) => good(reply.wait(), &is),
        (_, Held::Commit(reply)) => good(reply.wait(), &()),
        (_, Held::Keys(reply, is)) => good(reply.wait(), &is),
        (_, Held::Size(reply)) => match reply.wait() {
            Ok(size) => assert!((1..=3).contains(&size), "{size}"),
            Err(error) => assert!(is_bearable(&error), "{error}"),
        },
        (_, Held::Moody(reply, is)) => {
            let _ = catch_unwind(AssertUnwindSafe(|| moody(reply.wait(), &is)));
        }
    }
    None
}

fn act<'c>(
    cluster: &'c SharedCluster,
    thread: usize,
    steps: usize,
    seed: u64,
    pool: &Mutex<Vec<Held<'c>>>,
    issued: &AtomicUsize,
) {
    let mut rng = Rng::with_seed(seed);
    let mut next = 0_u64;
    let mut held: Vec<Held<'c>> = Vec::new();
    for _ in 0..steps {
        // Keys of a thread are of two slots.
        let key = |n: u64| format!("{{t{thread}:{}}}:{n}", n % 2);
        let own = key(rng.u64(..KEYS));
        let mut number = || {
            next += 1;
            next
        };
        match rng.u64(..18) {
            0..=4 => {
                let n = number();
                issued.fetch_add(1, Ordering::Relaxed);
                held.push(Held::Reply(cluster.getset(&own, n), format!("{own}={n}")));
            }
            5 => {
                let n = number();
                held.push(Held::Moody(cluster.getset(&own, n), format!("{own}={n}")));
            }
            6 => {
                let tx = cluster.transaction();
                for _ in 0..rng.u64(..4) {
                    let n = number();
                    held.push(Held::Queued(tx.getset(&own, n), format!("{own}={n}")));
                }
                match rng.u64(..8) {
                    0 => drop(tx),
                    _ => held.push(Held::Commit(tx.commit())),
                }
            }
            7 => {
                let keys: Vec<String> = (0..KEYS).map(key).collect();
                held.push(Held::Keys(cluster.mget(&keys), keys));
            }
            8 => held.push(Held::Keys(cluster.lrange(&own, 0, -1), vec![own.clone(), own])),
            9 => held.push(Held::Size(cluster.dbsize())),
            10 => match rng.u64(..24) {
                0 => drop(cluster.sync()),
                1 => drop(cluster.flush()),
                2 => drop(cluster.clone()),
                3 => drop(format!("{cluster:?} {:?} {}", cluster.stats(), cluster.outstanding())),
                _ => {
                    // Whatever another thread has left.
                    let found = pool.lock().unwrap().pop();
                    held.extend(found);
                }
            },
            12 => {
                let batch = cluster.batch();
                for _ in 0..rng.u64(..6) {
                    let n = number();
                    let reply = batch.getset(&own, n);
                    if rng.u64(..2) == 0 {
                        held.push(Held::Queued(reply, format!("{own}={n}")));
                    }
                }
                match rng.u64(..6) {
                    0 => drop(batch),
                    1 => std::mem::forget(batch),
                    2 => dropped_in_panic(batch),
                    _ => good(batch.finish(), &()),
                }
            }
            13 => {
                for key in cluster.scan::<String>() {
                    good(key, &"key".to_owned());
                }
            }
            11 if !held.is_empty() => {
                let given = held.swap_remove(rng.usize(..held.len()));
                pool.lock().unwrap().push(given);
            }
            _ if !held.is_empty() => {
                let one = held.swap_remove(rng.usize(..held.len()));
                held.extend(use_up(one, &mut rng));
            }
            _ => {}
        }
        if held.len() > 40 {
            held.drain(..20).for_each(|held| drop(use_up(held, &mut rng)));
        }
    }
}

fn play(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let nature = Nature { breaks: [0, 0, 300, 60][rng.usize(..4)], troubles: 12 };
    let runs = Runs::default();
    let [a, b, c] = [Node::start(), Node::start(), Node::start()];
    let all = [&a, &b, &c];
    let ports = all.map(|node| node.port);
    for (n, node) in all.into_iter().enumerate() {
        *node.slots.lock().unwrap() = owners(&all);
        node.chops.store(rng.u64(..8) == 0, Ordering::SeqCst);
        let runs = runs.clone();
        unruly(node, &ports, seed * 3 + n as u64, nature, move |words| run(words, &runs));
    }
    let mut config = config(&a).timeout(Duration::from_secs(20)).max_outstanding([3, 20, 10_000][rng.usize(..3)]);
    if rng.u64(..2) == 0 {
        config = config.write_batch(100);
    }
    let rearranges = rng.u64(..2) == 0;
    let steps = 250;
    println!("seed {seed}: {nature:?} rearranges {rearranges}");
    within(LIMIT, move || {
        let cluster = SharedCluster::open(config).unwrap();
        let (pool, issued, done) = (Mutex::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            let (cluster, pool, issued, done) = (&cluster, &pool, &issued, &done);
            for n in 0..THREADS {
                scope.spawn(move || {
                    let acted =
                        catch_unwind(AssertUnwindSafe(|| act(cluster, n, steps, seed * 100 + n as u64, pool, issued)));
                    done.fetch_add(1, Ordering::SeqCst);
                    acted.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                });
            }
            // The nodes change places whenever so much has been issued.
            let mut at = 0;
            while done.load(Ordering::SeqCst) < THREADS {
                let now = issued.load(Ordering::Relaxed);
                if rearranges && now >= at + 50 {
                    at = now;
                    let mut order = vec![&a, &b, &c];
                    let first = rng.usize(..3);
                    order.rotate_left(first);
                    if rng.u64(..3) == 0 {
                        order.pop();
                    }
                    for node in [&a, &b, &c] {
                        *node.slots.lock().unwrap() = owners(&order);
                    }
                }
                thread::sleep(Duration::from_micros(200));
            }
        });
        drop(pool.into_inner());
        let mut tries = 0;
        while let Err(error) = cluster.sync() {
            assert!(is_bearable(&error), "{error}");
            tries += 1;
            assert!(tries < 5, "{error}");
        }
        assert_eq!(cluster.outstanding(), 0);
        for (key, run) in runs.lock().unwrap().iter() {
            let mut sorted = run.clone();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), run.len(), "{key} ran something twice: {run:?}");
        }
        drop(cluster);
    });
}

#[test]
fn nothing_that_threads_do_brings_a_reply_to_the_wrong_caller_or_waits_for_ever() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    match seed {
        Some(seed) => play(seed),
        None => (0..12).for_each(play),
    }
}
