//! Everything that can be done with handles of a cluster, in any order, on nodes that redirect and break at random: each reply is
//! its own caller's, and nothing runs twice.

mod support;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use redefer::cluster::{Cluster, ClusterMultiBulk, ClusterQueued, ClusterReply};
use redefer::prelude::*;
use redefer::{Result, WaitError};
use support::nodes::*;
use support::unruly::*;
use support::within;

type Runs = Arc<Mutex<HashMap<String, u32>>>;

/// Runs a command that names its key twice: the reply is the key.
fn run(words: &Words, runs: &Runs) -> String {
    let run = |key: &String| {
        *runs.lock().unwrap().entry(key.clone()).or_default() += 1;
        format!("${}\r\n{key}\r\n", key.len())
    };
    match &*words[0] {
        "MGET" => [format!("*{}\r\n", words.len() - 1), words[1..].iter().map(run).collect()].concat(),
        "LRANGE" => format!("*2\r\n{0}${1}\r\n{2}\r\n", run(&words[1]), words[1].len(), words[1]),
        _ => run(&words[1]),
    }
}

/// What is waited for, and what it must be.
enum Held<'c> {
    Get(ClusterReply<'c, String>, String),
    Moody(ClusterReply<'c, Moody>, String),
    Queued(ClusterQueued<'c, String>, String),
    Commit(ClusterReply<'c, ()>),
    Many(ClusterMultiBulk<'c, String>, Vec<String>),
    Size(ClusterReply<'c, i64>),
}

struct Model {
    runs: Runs,
    done: u32,
    failed: u32,
}

impl Model {
    fn check(&mut self, got: Result<String>, key: &str) {
        match got {
            Ok(text) => {
                assert_eq!(text, key);
                assert_eq!(self.runs.lock().unwrap().get(key), Some(&1), "{key}");
                self.done += 1;
            }
            Err(error) => {
                let may_have_run = error.may_have_run() || matches!(error, Error::Timeout | Error::Custom(_));
                assert!(may_have_run || !self.runs.lock().unwrap().contains_key(key), "{key}: {error:?}");
                self.failed += 1;
            }
        }
    }

    fn settle<'c>(&mut self, held: Held<'c>, how: u64) -> Option<Held<'c>> {
        let moment = Duration::from_micros(how * 50);
        match (held, how % 8) {
            (Held::Get(reply, _), 0) => std::mem::forget(reply),
            (Held::Get(reply, _), 1) => reply.detach(),
            (Held::Get(reply, _), 2) => drop(reply),
            (Held::Get(reply, key), 3) => match reply.wait_timeout(moment) {
                Ok(text) => self.check(Ok(text), &key),
                Err(WaitError::Failed(error)) => self.check(Err(error), &key),
                Err(WaitError::Timeout(reply)) => return Some(Held::Get(reply, key)),
            },
            (Held::Get(reply, key), 4) => {
                let ready = reply.is_ready().unwrap();
                if !ready {
                    return Some(Held::Get(reply, key));
                }
                self.check(reply.wait(), &key);
            }
            (Held::Get(reply, key), _) => self.check(reply.wait(), &key),
            (Held::Moody(reply, key), _) => match catch_unwind(AssertUnwindSafe(|| reply.wait())) {
                Ok(got) => self.check(got.map(|moody| moody.0), &key),
                Err(panic) => assert_eq!(panic.downcast_ref::<&str>(), Some(&"moody"), "{key}"),
            },
            (Held::Queued(queued, _), 0) => std::mem::forget(queued),
            (Held::Queued(queued, _), 1) => drop(queued),
            (Held::Queued(queued, key), _) => self.check(queued.wait(), &key),
            (Held::Commit(commit), 0) => std::mem::forget(commit),
            (Held::Commit(commit), 1) => drop(commit),
            (Held::Commit(commit), 2) => commit.detach(),
            (Held::Commit(commit), _) => drop(commit.wait()),
            (Held::Many(many, _), 0) => drop(many),
            (Held::Many(mut many, keys), 1) => {
                if let Some(Ok(first)) = many.next() {
                    assert_eq!(first, keys[0]);
                }
            }
            (Held::Many(many, keys), _) => match many.wait::<Vec<String>>() {
                Ok(got) => assert_eq!(got, keys),
                Err(_) => self.failed += 1,
            },
            (Held::Size(size), 0) => drop(size),
            (Held::Size(size), 1) => size.detach(),
            (Held::Size(size), _) => match size.wait() {
                Ok(size) => assert!(size == 1 || size == 2, "{size}"),
                Err(_) => self.failed += 1,
            },
        }
        None
    }
}

fn round(seed: u64, breaks: u64) -> (u32, u32) {
    let [a, b] = nodes();
    let runs: Runs = Arc::default();
    for node in [&a, &b] {
        let nature = Nature { breaks, troubles: 8 };
        let runs = runs.clone();
        unruly(node, &[a.port, b.port], seed ^ u64::from(node.port), nature, move |words| run(words, &runs));
    }
    let mut rng = Rng::with_seed(seed);
    let cluster = Cluster::open(config(&a).max_outstanding(20 + rng.usize(..200))).unwrap();
    let mut model = Model { runs: runs.clone(), done: 0, failed: 0 };
    let mut held = Vec::new();
    let mut next = 0;
    for _ in 0..600 {
        let mut key = |rng: &mut Rng| {
            next += 1;
            format!("{{{}}}:{next}", rng.u64(..12))
        };
        match rng.u64(..16) {
            0..6 => {
                let key = key(&mut rng);
                held.push(Held::Get(cluster.get(&key), key));
            }
            6 => {
                let key = key(&mut rng);
                held.push(Held::Moody(cluster.get(&key), key));
            }
            7 => {
                let tx = cluster.transaction();
                let tag = rng.u64(..12);
                for _ in 0..1 + rng.u64(..4) {
                    next += 1;
                    let key = format!("{{{tag}}}:{next}");
                    held.push(Held::Queued(tx.get(&key), key));
                }
                if rng.u64(..5) > 0 {
                    held.push(Held::Commit(tx.commit()));
                }
            }
            8 => {
                let keys: Vec<String> = (0..1 + rng.u64(..5)).map(|_| key(&mut rng)).collect();
                held.push(Held::Many(cluster.mget(&keys), keys));
            }
            9 => {
                let key = key(&mut rng);
                held.push(Held::Many(cluster.lrange(&key, 0, -1), vec![key.clone(), key]));
            }
            10 => held.push(Held::Size(cluster.dbsize())),
            _ if !held.is_empty() => {
                let one = held.swap_remove(rng.usize(..held.len()));
                held.extend(model.settle(one, rng.u64(..40)));
            }
            _ => {}
        }
    }
    while let Some(one) = held.pop() {
        let how = rng.u64(..40);
        held.extend(model.settle(one, how));
    }
    let _ = cluster.sync();
    cluster.sync().unwrap();
    assert_eq!(cluster.outstanding(), 0);
    let runs = runs.lock().unwrap();
    let twice: Vec<_> = runs.iter().filter(|(_, runs)| **runs > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    (model.done, model.failed)
}

#[test]
fn each_handle_gets_its_own_reply_whatever_is_done_on_whatever_nodes() {
    let seeds = std::env::var("REDEFER_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(4);
    let first = std::env::var("REDEFER_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    for seed in first..first + seeds {
        let (done, failed) = within(Duration::from_secs(60), move || round(seed, if seed % 2 == 0 { 60 } else { 0 }));
        assert!(done > 20, "of seed {seed} only {done} commands have run, and {failed} have failed");
    }
}
