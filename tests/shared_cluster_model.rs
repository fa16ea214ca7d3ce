//! Everything that threads can do with a cluster that they share, in any order, on nodes that redirect, break and change
//! places at random: each reply is its own caller's, nothing runs twice, and nobody waits for ever.

mod support;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use redefer::cluster::{SharedCluster, SharedClusterMultiBulk, SharedClusterQueued, SharedClusterReply, slot_of};
use redefer::prelude::*;
use redefer::resp::Frame;
use redefer::{Result, WaitError};
use support::nodes::*;
use support::within;

const LIMIT: Duration = Duration::from_secs(120);
const THREADS: usize = 6;
/// Keys of each thread, some of which share a slot.
const KEYS: u64 = 5;

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// A value whose decoding fails or panics, as the text says.
#[derive(Debug)]
struct Moody(String);

impl FromReply for Moody {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let text = String::from_reply(frame)?;
        match text.bytes().last() {
            Some(b'7') => std::panic::resume_unwind(Box::new("moody")),
            Some(b'3') => Err(Error::custom("moody")),
            _ => Ok(Moody(text)),
        }
    }
}

/// What has run, by key, in order.
type Runs = Arc<Mutex<HashMap<String, Vec<u64>>>>;

/// Runs a command that names a key and then a number: the reply is both.
fn run(words: &Words, runs: &Runs) -> String {
    let text = format!("{}={}", words[1], words[2]);
    runs.lock().unwrap().entry(words[1].clone()).or_default().push(words[2].parse().unwrap());
    format!("${}\r\n{text}\r\n", text.len())
}

/// How often a node, of so many commands, does so.
#[derive(Clone, Copy, Debug)]
struct Nature {
    breaks: u64,
}

fn one_in(dice: &mut Dice, many: u64) -> bool {
    many > 0 && dice.roll(many) == 0
}

fn unruly(node: &Node, ports: [u16; 3], seed: u64, nature: Nature, runs: &Runs) {
    let (runs, mut dice) = (runs.clone(), Dice(seed));
    let mut queued: Option<(Vec<Words>, bool)> = None;
    node.does(move |words| {
        if one_in(&mut dice, nature.breaks) {
            queued = None;
            return Say::Close;
        }
        let slot = words.get(1).map_or(0, |key| slot_of(key.as_bytes()));
        let mut trouble = |slot: u16| {
            let port = ports[dice.roll(3) as usize];
            match dice.roll(12) {
                0 | 1 => Some(format!("-MOVED {slot} 127.0.0.1:{port}\r\n")),
                2 => Some(format!("-ASK {slot} 127.0.0.1:{port}\r\n")),
                3 => Some("-TRYAGAIN\r\n".to_owned()),
                _ => None,
            }
        };
        match &*words[0] {
            "ASKING" => return say("+OK"),
            "DBSIZE" => return say(":1"),
            "SCAN" => {
                let next = i32::from(words[1] == "0");
                return Say::Bytes(format!("*2\r\n$1\r\n{next}\r\n*1\r\n$3\r\nkey\r\n"));
            }
            "MULTI" => {
                queued = Some((Vec::new(), false));
                return say("+OK");
            }
            "EXEC" => {
                let Some((commands, refused)) = queued.take() else { return say("-ERR EXEC without MULTI") };
                if refused {
                    return say("-EXECABORT");
                }
                if let Some(key) = commands.first().map(|words| words[1].clone())
                    && let Some(error) = trouble(slot_of(key.as_bytes()))
                {
                    return Say::Bytes(error);
                }
                let replies: String = commands.iter().map(|words| run(words, &runs)).collect();
                return Say::Bytes(format!("*{}\r\n{replies}", commands.len()));
            }
            _ => {}
        }
        if let Some((commands, refused)) = &mut queued {
            // Seldom, or hardly any transaction gets through.
            if slot % 3 == 0
                && let Some(error) = trouble(slot)
            {
                *refused = true;
                return Say::Bytes(error);
            }
            commands.push(words.clone());
            return say("+QUEUED");
        }
        if let Some(error) = trouble(slot) {
            return Say::Bytes(error);
        }
        match &*words[0] {
            "MGET" => {
                let values = words[1..].iter().map(|key| format!("${}\r\n{key}\r\n", key.len()));
                Say::Bytes([format!("*{}\r\n", words.len() - 1), values.collect()].concat())
            }
            "LRANGE" => Say::Bytes(format!("*2\r\n{0}{0}", format_args!("${}\r\n{}\r\n", words[1].len(), words[1]))),
            _ => Say::Bytes(run(words, &runs)),
        }
    });
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
fn use_up<'c>(held: Held<'c>, dice: &mut Dice) -> Option<Held<'c>> {
    let how = dice.roll(12);
    let time = Duration::from_micros([0, 20, 500, 5000][dice.roll(4) as usize]);
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
    let mut dice = Dice(seed);
    let mut next = 0_u64;
    let mut held: Vec<Held<'c>> = Vec::new();
    for _ in 0..steps {
        // Keys of a thread are of two slots.
        let key = |n: u64| format!("{{t{thread}:{}}}:{n}", n % 2);
        let own = key(dice.roll(KEYS));
        let mut number = || {
            next += 1;
            next
        };
        match dice.roll(18) {
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
                for _ in 0..dice.roll(4) {
                    let n = number();
                    held.push(Held::Queued(tx.getset(&own, n), format!("{own}={n}")));
                }
                match dice.roll(8) {
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
            10 => match dice.roll(24) {
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
                for _ in 0..dice.roll(6) {
                    let n = number();
                    let reply = batch.getset(&own, n);
                    if dice.roll(2) == 0 {
                        held.push(Held::Queued(reply, format!("{own}={n}")));
                    }
                }
                match dice.roll(6) {
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
                let given = held.swap_remove(dice.roll(held.len() as u64) as usize);
                pool.lock().unwrap().push(given);
            }
            _ if !held.is_empty() => {
                let one = held.swap_remove(dice.roll(held.len() as u64) as usize);
                held.extend(use_up(one, &mut dice));
            }
            _ => {}
        }
        if held.len() > 40 {
            held.drain(..20).for_each(|held| drop(use_up(held, &mut dice)));
        }
    }
}

fn play(seed: u64) {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let nature = Nature { breaks: [0, 0, 300, 60][dice.roll(4) as usize] };
    let runs = Runs::default();
    let [a, b, c] = [Node::start(), Node::start(), Node::start()];
    let all = [&a, &b, &c];
    let ports = all.map(|node| node.port);
    for (n, node) in all.into_iter().enumerate() {
        *node.slots.lock().unwrap() = owners(&all);
        node.chops.store(dice.roll(8) == 0, Ordering::SeqCst);
        unruly(node, ports, seed * 3 + n as u64, nature, &runs);
    }
    let timeout = 20_000;
    let mut config =
        config(&a).timeout(Duration::from_millis(timeout)).max_outstanding([3, 20, 10_000][dice.roll(3) as usize]);
    if dice.roll(2) == 0 {
        config = config.write_batch(100);
    }
    let rearranges = dice.roll(2) == 0;
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
                    let first = dice.roll(3) as usize;
                    order.rotate_left(first);
                    if dice.roll(3) == 0 {
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
