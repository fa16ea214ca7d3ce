//! One cluster that many threads share, whose slots move and whose nodes fail: every thread checks every reply.
#![cfg(all(unix, feature = "testing"))]

mod support;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redefer::cluster::{ClusterConfig, SharedCluster, slot_of};
use redefer::commands::ScriptingCommands;
use redefer::prelude::*;
use redefer::{Result, WaitError, testing};
use support::nodes::may_have_run;

const THREADS: usize = 32;

fn open(nodes: &testing::Cluster) -> SharedCluster {
    let mut urls = nodes.urls().into_iter();
    let first = ClusterConfig::new(support::config_for(&urls.next().unwrap())).unwrap();
    SharedCluster::open(urls.fold(first, |config, url| config.seed(&*url).unwrap())).unwrap()
}

/// What must hold when the load is over.
#[derive(Clone, Copy, PartialEq)]
enum Must {
    /// Every command has run once, and every reply has come.
    LoseNothing,
    /// What was acknowledged has run once, and nothing has run twice.
    KeepAcknowledged,
    /// Nothing has run twice; what was acknowledged may be lost, since replication is asynchronous.
    RunNothingTwice,
}

/// What a thread knows of its own key.
#[derive(Debug, Default)]
struct Known {
    issued: u64,
    acknowledged: u64,
    /// Commands of which nobody knows whether they have run.
    unknown: u64,
    last: u64,
    failed: u64,
}

struct Load<'a> {
    cluster: &'a SharedCluster,
    key: String,
    strict: bool,
    known: Known,
    progress: &'a AtomicU64,
}

impl Load<'_> {
    fn good(&self) {
        self.progress.fetch_add(1, Ordering::SeqCst);
    }

    fn bad(&mut self, error: &Error) -> bool {
        assert!(!self.strict, "nothing may fail here: {error}");
        self.known.failed += 1;
        may_have_run(error, "a thread")
    }

    fn counted(&mut self, reply: Result<u64>) {
        match reply {
            Ok(value) => {
                self.known.acknowledged += 1;
                assert!(value <= self.known.issued, "{} counted {value} of {:?}", self.key, self.known);
                if self.strict {
                    assert_eq!(value, self.known.issued, "nobody else counts {}", self.key);
                }
                self.known.last = value;
                self.good();
            }
            Err(error) => self.known.unknown += u64::from(self.bad(&error)),
        }
    }

    fn step(&mut self, thread: usize, round: u64) {
        let (cluster, key) = (self.cluster, self.key.clone());
        match round % 9 {
            0 => {
                let text = format!("{thread}:{round}");
                let set = cluster.set(format!("{key}:text"), &text);
                let got = cluster.get::<String>(format!("{key}:text")).wait();
                match (set.wait(), got) {
                    (Ok(()), Ok(got)) => {
                        assert_eq!(got, text);
                        self.good();
                    }
                    (_, Ok(got)) => assert!(got.starts_with(&format!("{thread}:")), "{got} of {key}"),
                    (_, Err(Error::Nil)) => assert!(!self.strict),
                    (_, Err(error)) => drop(self.bad(&error)),
                }
            }
            1 => match cluster.eval::<String>("return ARGV[1]", &key, round).wait() {
                Ok(echo) => assert_eq!(echo, round.to_string()),
                Err(error) => drop(self.bad(&error)),
            },
            2 => {
                let tx = cluster.transaction();
                let count = tx.command::<u64>("INCR", &key);
                tx.set(format!("{key}:tx"), round).detach();
                self.known.issued += 1;
                let outcome = tx.commit().wait().and_then(|()| count.wait());
                self.counted(outcome);
            }
            3 => {
                // Over several slots.
                let keys: Vec<String> = (0..6).map(|n| format!("none:{thread}:{n}")).collect();
                match cluster.mget(&keys).wait::<Vec<Option<String>>>() {
                    Ok(values) => assert_eq!(values, vec![None; 6]),
                    Err(error) => drop(self.bad(&error)),
                }
            }
            4 => {
                self.known.issued += 1;
                let mut reply = cluster.command::<u64>("INCR", &key);
                let outcome = loop {
                    match reply.wait_timeout(Duration::from_micros(200)) {
                        Ok(value) => break Ok(value),
                        Err(WaitError::Failed(error)) => break Err(error),
                        Err(WaitError::Timeout(back)) => reply = back,
                    }
                };
                self.counted(outcome);
            }
            5 => std::mem::forget(cluster.get::<Option<String>>(&key)),
            6 => cluster.get::<Option<String>>(format!("{key}:tx")).detach(),
            7 => {
                let batch = cluster.batch();
                let counts: Vec<_> = (0..3).map(|_| batch.command::<u64>("INCR", &key)).collect();
                batch.get::<Option<String>>(format!("none:{thread}"));
                let finished = batch.finish();
                assert!(finished.is_ok() || !self.strict, "nothing may fail here: {finished:?}");
                let mut outcomes: Vec<Result<u64>> = counts.into_iter().map(|count| count.wait()).collect();
                // Of those that were on their way together, one that was told ASK has run behind the others.
                outcomes.sort_by_key(|outcome| outcome.as_ref().ok().copied());
                for outcome in outcomes {
                    self.known.issued += 1;
                    self.counted(outcome);
                }
            }
            _ => {
                self.known.issued += 1;
                self.counted(cluster.command("INCR", &key).wait());
            }
        }
    }
}

/// Ends the load also when the disturbance fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Until the load has had so many good replies more.
fn wait_for(progress: &AtomicU64, more: u64) {
    let goal = progress.load(Ordering::SeqCst) + more;
    let start = Instant::now();
    while progress.load(Ordering::SeqCst) < goal {
        assert!(start.elapsed() < Duration::from_secs(60), "the load stands still");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Keys with tags, so that each has company in its slot.
fn key(thread: usize) -> String {
    format!("{{tag{thread}}}count")
}

fn under_load(must: Must, nodes: &testing::Cluster, disturb: impl FnOnce(&AtomicU64)) -> Vec<Known> {
    let strict = must == Must::LoseNothing;
    let (stop, progress) = (AtomicBool::new(false), AtomicU64::new(0));
    let cluster = open(nodes);
    let known: Vec<Known> = thread::scope(|scope| {
        let (cluster, stop, progress) = (&cluster, &stop, &progress);
        let threads: Vec<_> = (0..THREADS)
            .map(|n| {
                scope.spawn(move || {
                    let mut load = Load { cluster, key: key(n), strict, known: Known::default(), progress };
                    let mut round = n as u64;
                    while !stop.load(Ordering::SeqCst) {
                        load.step(n, round);
                        round += 1;
                    }
                    load.known
                })
            })
            .collect();
        let stop = Stop(stop);
        wait_for(progress, 3000);
        disturb(progress);
        wait_for(progress, 3000);
        drop(stop);
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let synced = cluster.sync();
    assert!(synced.is_ok() || !strict, "{synced:?}");
    assert_eq!(cluster.outstanding(), 0);
    nodes.wait_until_agreed().unwrap();
    let fresh = open(nodes);
    for (n, known) in known.iter().enumerate() {
        let value = fresh.get::<Option<u64>>(key(n)).wait().unwrap().unwrap_or(0);
        assert!(value <= known.acknowledged + known.unknown, "{n} ran twice: {value}, {known:?}");
        if must != Must::RunNothingTwice {
            assert!(value >= known.acknowledged, "{n} lost what was acknowledged: {value}, {known:?}");
        }
        if strict {
            assert_eq!((value, known.last), (known.issued, known.issued), "{n}: {known:?}");
        }
    }
    println!("{} failed; {:?}", known.iter().map(|known| known.failed).sum::<u64>(), cluster.stats());
    known
}

#[test]
fn slots_that_are_moved_key_by_key_lose_nothing_and_run_nothing_twice() {
    let nodes = testing::Cluster::start().unwrap();
    under_load(Must::LoseNothing, &nodes, |_| {
        for round in 1..=3 {
            for n in 0..THREADS {
                let slot = slot_of(key(n).as_bytes());
                nodes.move_slot(slot, (nodes.owner(slot).unwrap() + round) % 3).unwrap();
            }
        }
    });
}

#[test]
fn a_failover_that_is_asked_for_loses_nothing_and_runs_nothing_twice() {
    let nodes = testing::Cluster::start().unwrap();
    under_load(Must::LoseNothing, &nodes, |progress| {
        for replica in [3, 0, 4] {
            nodes.fail_over(replica).unwrap();
            wait_for(progress, 3000);
        }
    });
}

#[test]
fn connections_that_are_killed_cost_what_was_sent_and_nothing_else() {
    let nodes = testing::Cluster::builder().replicas(0).start().unwrap();
    let known = under_load(Must::KeepAcknowledged, &nodes, |progress| {
        for round in 0..60 {
            let conn = Connection::open(nodes.node(round % 3).url()).unwrap();
            // All but the one that says so.
            conn.command::<i64>("CLIENT KILL", ("TYPE", "normal")).wait().unwrap();
            wait_for(progress, 300);
            if round % 6 == 0 {
                let slot = slot_of(key(round % THREADS).as_bytes());
                nodes.move_slot(slot, (nodes.owner(slot).unwrap() + 1) % 3).unwrap();
            }
        }
    });
    assert!(known.iter().any(|known| known.unknown > 0));
}

#[test]
fn a_primary_that_is_killed_is_replaced() {
    let nodes = testing::Cluster::builder().node_timeout(Duration::from_secs(1)).start().unwrap();
    let known = under_load(Must::RunNothingTwice, &nodes, |progress| {
        nodes.kill(0);
        nodes.wait_until_agreed().unwrap();
        wait_for(progress, 10_000);
        nodes.restart(0).unwrap();
        nodes.wait_until_agreed().unwrap();
        wait_for(progress, 3000);
        nodes.kill(1);
        nodes.wait_until_agreed().unwrap();
    });
    assert!(known.iter().map(|known| known.unknown).sum::<u64>() < 400);
}

#[test]
fn a_primary_that_stands_still_is_replaced() {
    let nodes = testing::Cluster::builder().node_timeout(Duration::from_secs(1)).start().unwrap();
    let known = under_load(Must::RunNothingTwice, &nodes, |progress| {
        nodes.pause(2).unwrap();
        nodes.wait_until_agreed().unwrap();
        wait_for(progress, 10_000);
        nodes.resume(2).unwrap();
        nodes.wait_until_agreed().unwrap();
        wait_for(progress, 3000);
    });
    assert!(known.iter().map(|known| known.unknown).sum::<u64>() < 400);
}
