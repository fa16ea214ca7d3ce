//! A cluster whose slots move and whose nodes fail, under a pipelined load that checks every reply.
#![cfg(all(unix, feature = "testing"))]

mod support;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use redefer::cluster::{Cluster, ClusterConfig, ClusterReply, ReadFrom, slot_of};
use redefer::commands::ScanOptions;
use redefer::prelude::*;
use redefer::pubsub::Event;
use redefer::{Reconnect, Result, Sent, testing};
use support::nodes::may_have_run;

fn config(nodes: &testing::Cluster) -> ClusterConfig {
    let mut urls = nodes.urls().into_iter();
    let first = support::config_for(&urls.next().unwrap());
    urls.fold(ClusterConfig::new(first).unwrap(), |config, url| config.seed(&*url).unwrap())
}

fn open(nodes: &testing::Cluster) -> Cluster {
    Cluster::open(config(nodes)).unwrap()
}

/// What is known of one key.
#[derive(Clone, Default)]
struct Known {
    issued: u64,
    /// Replies that have come.
    acknowledged: u64,
    /// Commands of which nobody knows whether they have run.
    unknown: u64,
    last: u64,
}

/// What a load has met with.
#[derive(Default, Debug)]
struct Outcome {
    replies: u64,
    unknown: u64,
    unsent: u64,
    redirects: u64,
    /// The longest time between two good replies.
    longest_gap: Duration,
}

enum Asked<'c> {
    Incr(ClusterReply<'c, u64>),
    /// What was set must be got by the command behind it.
    SetGet(ClusterReply<'c, ()>, ClusterReply<'c, String>, String),
    /// A script gives back what it was given.
    Echo(ClusterReply<'c, String>, String),
    Transaction(ClusterReply<'c, ()>, redefer::cluster::ClusterQueued<'c, u64>),
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

/// Issues commands on all keys with a window of them outstanding, until told to stop, and checks every reply. `strict`: nothing
/// may fail.
fn load(
    cluster: &Cluster,
    keys: &[String],
    stop: &AtomicBool,
    progress: &AtomicU64,
    strict: bool,
) -> (Outcome, Vec<Known>) {
    let mut known = vec![Known::default(); keys.len()];
    let mut outcome = Outcome::default();
    let mut window: VecDeque<(usize, Asked<'_>)> = VecDeque::new();
    let mut last_good = Instant::now();
    let mut serial = 0_u64;
    let mut rng = Rng::with_seed(7);
    loop {
        let stopping = stop.load(Ordering::SeqCst);
        if stopping && window.is_empty() {
            break;
        }
        if !stopping {
            let n = rng.usize(..keys.len());
            let key = &keys[n];
            serial += 1;
            let asked = match rng.u64(..8) {
                0 => {
                    let (at, text) = (format!("{key}:text"), format!("{n}:{serial}"));
                    let set = cluster.set(&at, &text);
                    Asked::SetGet(set, cluster.get(&at), text)
                }
                1 => {
                    let text = format!("{n}:{serial}");
                    Asked::Echo(cluster.eval("return ARGV[1]", key, &text), text)
                }
                2 => {
                    let tx = cluster.transaction();
                    let value = tx.command::<u64>("INCR", key);
                    tx.set(format!("{key}:tx"), serial).detach();
                    known[n].issued += 1;
                    Asked::Transaction(tx.commit(), value)
                }
                _ => {
                    known[n].issued += 1;
                    Asked::Incr(cluster.command("INCR", key))
                }
            };
            window.push_back((n, asked));
        }
        if stopping || window.len() >= 64 {
            // Not always the oldest.
            let at = if rng.u64(..4) == 0 { rng.usize(..window.len()) } else { 0 };
            let (n, asked) = window.remove(at).unwrap();
            let before = (outcome.unknown, outcome.unsent);
            match asked {
                Asked::Incr(reply) => counted(reply.wait(), &mut known[n], &mut outcome, &keys[n], strict),
                Asked::Transaction(commit, value) => match commit.wait() {
                    Ok(()) => counted(value.wait(), &mut known[n], &mut outcome, &keys[n], strict),
                    Err(error) => counted(Err(error), &mut known[n], &mut outcome, &keys[n], strict),
                },
                Asked::SetGet(set, get, text) => {
                    let (got, set) = (get.wait(), set.wait());
                    match (&set, &got) {
                        (Ok(()), Ok(got)) => assert_eq!(*got, text, "of {}", keys[n]),
                        // It may be an older one, and is this test's key all the same.
                        (_, Ok(got)) => assert!(got.starts_with(&format!("{n}:")), "{got} of {}", keys[n]),
                        (_, Err(Error::Nil)) => {}
                        (_, Err(error)) => {
                            may_have_run(error, &keys[n]);
                        }
                    }
                    let failed = u64::from(set.is_err() || got.is_err());
                    outcome.unsent += failed;
                    outcome.replies += 1 - failed;
                }
                Asked::Echo(reply, text) => match reply.wait() {
                    Ok(echo) => {
                        assert_eq!(echo, text);
                        outcome.replies += 1;
                    }
                    Err(error) => {
                        may_have_run(&error, &keys[n]);
                        outcome.unsent += 1;
                    }
                },
            }
            if before == (outcome.unknown, outcome.unsent) {
                outcome.longest_gap = outcome.longest_gap.max(last_good.elapsed());
                last_good = Instant::now();
                progress.fetch_add(1, Ordering::SeqCst);
            } else {
                assert!(!strict, "nothing may fail here: {outcome:?}");
            }
        }
    }
    cluster.sync().ok();
    assert_eq!(cluster.outstanding(), 0);
    outcome.redirects = cluster.stats().redirects;
    (outcome, known)
}

/// An INCR has come to this.
fn counted(reply: Result<u64>, known: &mut Known, outcome: &mut Outcome, key: &str, strict: bool) {
    match reply {
        Ok(value) => {
            known.acknowledged += 1;
            outcome.replies += 1;
            assert!(value <= known.issued, "{key} counted {value} of {} that were issued", known.issued);
            if strict {
                assert!(value > 0 && known.unknown == 0);
            }
            known.last = known.last.max(value);
        }
        Err(error) => {
            if may_have_run(&error, key) {
                known.unknown += 1;
                outcome.unknown += 1;
            } else {
                outcome.unsent += 1;
            }
        }
    }
}

/// Keys with tags, so that each has company in its slot.
fn keys(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{{tag{n}}}count")).collect()
}

/// Runs the load in a thread of its own while `disturb` does its work, and checks the sums afterwards.
fn under_load(
    nodes: &mut testing::Cluster,
    must: Must,
    disturb: impl FnOnce(&mut testing::Cluster, &[String], &AtomicU64),
) -> Outcome {
    let strict = must == Must::LoseNothing;
    let keys = keys(40);
    let (stop, progress) = (AtomicBool::new(false), AtomicU64::new(0));
    let cluster = open(nodes);
    let (outcome, known) = thread::scope(|scope| {
        let run = scope.spawn(|| load(&cluster_of(cluster), &keys, &stop, &progress, strict));
        let stop = Stop(&stop);
        wait_for(&progress, 1000);
        disturb(nodes, &keys, &progress);
        wait_for(&progress, 1000);
        drop(stop);
        run.join().unwrap()
    });
    nodes.wait_until_agreed().unwrap();
    let fresh = open(nodes);
    for (key, known) in keys.iter().zip(&known) {
        let value = fresh.get::<Option<u64>>(key).wait().unwrap().unwrap_or(0);
        assert!(value <= known.acknowledged + known.unknown, "{key} ran twice: {value}, {outcome:?}");
        if must != Must::RunNothingTwice {
            assert!(value >= known.acknowledged, "{key} lost what was acknowledged: {value}, {outcome:?}");
        }
        if strict {
            assert_eq!((value, known.unknown), (known.issued, 0), "{key}: {outcome:?}");
            assert_eq!(value, known.last);
        }
    }
    outcome
}

/// Ends the load also when the disturbance fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Moves it to the thread that asks.
fn cluster_of(cluster: Cluster) -> Cluster {
    cluster
}

/// Until the load has had so many good replies more.
fn wait_for(progress: &AtomicU64, more: u64) {
    let goal = progress.load(Ordering::SeqCst) + more;
    let start = Instant::now();
    while progress.load(Ordering::SeqCst) < goal {
        assert!(start.elapsed() < Duration::from_secs(60), "the load stands still");
        thread::yield_now();
    }
}

#[test]
fn slots_that_are_moved_key_by_key_lose_nothing_and_run_nothing_twice() {
    let mut nodes = testing::Cluster::start().unwrap();
    let outcome = under_load(&mut nodes, Must::LoseNothing, |nodes, keys, _| {
        for round in 1..=3 {
            for key in keys {
                let slot = slot_of(key.as_bytes());
                let to = (nodes.owner(slot).unwrap() + round) % 3;
                nodes.move_slot(slot, to).unwrap();
            }
        }
    });
    assert!(outcome.redirects > 0, "{outcome:?}");
    println!("moved key by key: {outcome:?}");
}

#[test]
fn slots_that_the_server_migrates_lose_nothing_and_run_nothing_twice() {
    let mut nodes = testing::Cluster::start().unwrap();
    if nodes.node(0).name() != "valkey" || nodes.node(0).version() < (9, 0, 0) {
        return;
    }
    let outcome = under_load(&mut nodes, Must::LoseNothing, |nodes, keys, _| {
        for key in keys.iter().take(15) {
            let slot = slot_of(key.as_bytes());
            let to = (nodes.owner(slot).unwrap() + 1) % 3;
            nodes.migrate_slot(slot, to).unwrap();
        }
    });
    assert!(outcome.redirects > 0, "{outcome:?}");
    println!("migrated by the server: {outcome:?}");
}

#[test]
fn a_failover_that_is_asked_for_loses_nothing_and_runs_nothing_twice() {
    let mut nodes = testing::Cluster::start().unwrap();
    let outcome = under_load(&mut nodes, Must::LoseNothing, |nodes, _, progress| {
        for replica in [3, 0, 4] {
            nodes.fail_over(replica).unwrap();
            wait_for(progress, 1000);
        }
    });
    println!("failed over: {outcome:?}");
}

#[test]
fn connections_that_are_killed_cost_what_was_sent_and_nothing_else() {
    let mut nodes = testing::Cluster::builder().replicas(0).start().unwrap();
    let outcome = under_load(&mut nodes, Must::KeepAcknowledged, |nodes, keys, progress| {
        for round in 0..60 {
            let conn = Connection::open(nodes.node(round % 3).url()).unwrap();
            // All but the one that says so.
            conn.command::<i64>("CLIENT KILL", ("TYPE", "normal")).wait().unwrap();
            wait_for(progress, 100);
            if round % 6 == 0 {
                let slot = slot_of(keys[round % keys.len()].as_bytes());
                nodes.move_slot(slot, (nodes.owner(slot).unwrap() + 1) % 3).unwrap();
            }
        }
    });
    println!("connections killed: {outcome:?}");
    assert!(outcome.unknown > 0, "{outcome:?}");
}

#[test]
fn a_primary_that_is_killed_is_replaced() {
    let mut nodes = testing::Cluster::builder().node_timeout(Duration::from_secs(1)).start().unwrap();
    let outcome = under_load(&mut nodes, Must::RunNothingTwice, |nodes, _, progress| {
        nodes.kill(0);
        nodes.wait_until_agreed().unwrap();
        wait_for(progress, 3000);
        nodes.restart(0).unwrap();
        nodes.wait_until_agreed().unwrap();
        wait_for(progress, 1000);
        nodes.kill(1);
        nodes.wait_until_agreed().unwrap();
    });
    println!("killed: {outcome:?}");
    assert!(outcome.unknown < 400, "{outcome:?}");
}

#[test]
fn what_a_replica_has_acknowledged_outlives_its_primary() {
    let nodes = testing::Cluster::builder().node_timeout(Duration::from_secs(1)).start().unwrap();
    let keys = keys(30);
    let (stop, progress) = (AtomicBool::new(false), AtomicU64::new(0));
    let cluster = open(&nodes);
    let (safe, issued) = thread::scope(|scope| {
        let run = scope.spawn(|| {
            let cluster = cluster_of(cluster);
            let (mut safe, mut issued) = (vec![0_u64; keys.len()], 0);
            while !stop.load(Ordering::SeqCst) {
                let counts: Vec<_> = keys.iter().map(|key| cluster.command::<u64>("INCR", key)).collect();
                issued += 1;
                // Behind them on each connection.
                let replicas = cluster.wait(1, Some(Duration::from_secs(2)));
                let counts: Vec<_> = counts.into_iter().map(|count| count.wait()).collect();
                // A connection that was lost meanwhile makes it an error.
                if let Ok(1..) = replicas.wait() {
                    for (safe, count) in safe.iter_mut().zip(counts) {
                        *safe = count.map_or(*safe, |count| (*safe).max(count));
                    }
                    progress.fetch_add(1, Ordering::SeqCst);
                }
            }
            (safe, issued)
        });
        let stop = Stop(&stop);
        for primary in [1, 2] {
            wait_for(&progress, 100);
            nodes.kill(primary);
            nodes.wait_until_agreed().unwrap();
            // Until there is a replica again, nothing is acknowledged by one.
            nodes.restart(primary).unwrap();
            nodes.wait_until_agreed().unwrap();
            wait_for(&progress, 100);
        }
        drop(stop);
        run.join().unwrap()
    });
    let values: Vec<u64> = open(&nodes).mget(&keys).wait().unwrap();
    for ((key, value), safe) in keys.iter().zip(values).zip(safe) {
        assert!(safe > 100 && value >= safe, "{key} has {value}, and a replica had acknowledged {safe}");
        assert!(value <= issued, "{key} has {value} of {issued} that were issued");
    }
}

#[test]
fn a_primary_that_stands_still_is_replaced() {
    let mut nodes = testing::Cluster::builder().node_timeout(Duration::from_secs(1)).start().unwrap();
    let outcome = under_load(&mut nodes, Must::RunNothingTwice, |nodes, _, progress| {
        nodes.pause(2).unwrap();
        nodes.wait_until_agreed().unwrap();
        wait_for(progress, 3000);
        nodes.resume(2).unwrap();
        nodes.wait_until_agreed().unwrap();
        wait_for(progress, 3000);
    });
    println!("paused: {outcome:?}");
    assert!(outcome.unknown < 400, "{outcome:?}");
}

#[test]
fn a_replica_that_stands_still_or_is_killed_costs_no_read() {
    for kills in [false, true] {
        let nodes = testing::Cluster::builder().node_timeout(Duration::from_secs(1)).start().unwrap();
        let cluster = Cluster::open(config(&nodes).read_from(ReadFrom::Replica)).unwrap();
        let keys = keys(60);
        for key in &keys {
            cluster.set(key, key).wait().unwrap();
        }
        assert_eq!(cluster.command::<i64>("WAIT", (1, 5000)).wait().unwrap(), 1);
        let read = || {
            let gets: Vec<_> = keys.iter().map(|key| cluster.get::<String>(key)).collect();
            for (get, key) in gets.into_iter().zip(&keys) {
                assert_eq!(get.wait().unwrap(), *key);
            }
        };
        read();
        if kills {
            nodes.kill(3);
        } else {
            nodes.pause(3).unwrap();
        }
        read();
        read();
        if !kills {
            nodes.resume(3).unwrap();
        }
    }
}

#[test]
fn nodes_come_and_go() {
    let mut nodes = testing::Cluster::start().unwrap();
    let outcome = under_load(&mut nodes, Must::LoseNothing, |nodes, keys, progress| {
        let new = nodes.add_node().unwrap();
        let slots: Vec<u16> = keys.iter().map(|key| slot_of(key.as_bytes())).collect();
        for slot in &slots {
            nodes.move_slot(*slot, new).unwrap();
        }
        wait_for(progress, 1000);
        for (n, slot) in slots.iter().enumerate() {
            nodes.move_slot(*slot, n % 3).unwrap();
        }
        nodes.remove_node(new).unwrap();
    });
    assert!(outcome.redirects > 0, "{outcome:?}");
    println!("came and went: {outcome:?}");
}

#[test]
fn what_goes_to_all_nodes_waits_for_a_failover() -> Result<()> {
    let nodes = testing::Cluster::builder().node_timeout(Duration::from_secs(1)).start().unwrap();
    // Each of them alone, so that no other command learns for it.
    let [counting, listing, scanning, flushing] = [(); 4].map(|()| open(&nodes));
    let mut keys = keys(60);
    keys.sort();
    // All replicas have them.
    let behind: Vec<_> = keys.iter().map(|key| counting.set(key, 2)).collect();
    behind.into_iter().try_for_each(|set| set.wait())?;
    assert_eq!(counting.wait(1, None).wait()?, 1);
    let mut scan = scanning.scan_with::<String>(ScanOptions::new().count(1));
    let mut found: Vec<String> = scan.by_ref().take(1).collect::<Result<_>>()?;
    assert_eq!(listing.dbsize().wait()?, 60);
    // Gathered while all is well, and not sent.
    let count = counting.dbsize();
    nodes.kill(0);
    assert_eq!(count.wait()?, 60);
    let mut listed: Vec<String> = listing.command("KEYS", "*").wait()?;
    listed.sort();
    assert_eq!(listed, keys);
    found.extend(scan.collect::<Result<Vec<_>>>()?);
    found.sort();
    found.dedup();
    assert_eq!(found, keys);
    // And one that writes: what was not sent before the next primary is gone is sent to the one behind it.
    nodes.restart(0).unwrap();
    nodes.wait_until_agreed().unwrap();
    assert_eq!(flushing.dbsize().wait()?, 60);
    nodes.kill(1);
    match flushing.flushall().wait() {
        Err(Error::ConnectionLost(lost)) => assert_ne!(lost.sent(), Sent::Unsent),
        outcome => {
            outcome?;
            assert_eq!(counting.dbsize().wait()?, 0);
        }
    }
    flushing.flushall().wait()?;
    assert_eq!(counting.dbsize().wait()?, 0);
    counting.sync()
}

#[test]
fn a_subscriber_goes_to_another_node_when_its_own_fails() -> Result<()> {
    let nodes = testing::Cluster::builder().node_timeout(Duration::from_secs(1)).start().unwrap();
    let policy = Reconnect::backoff().first_delay(Duration::from_millis(1)).attempts(1000);
    let listening = support::config_for(&nodes.urls()[0]).client_name("listener");
    let subscriber = Cluster::open(ClusterConfig::new(listening)?)?.subscriber(policy)?;
    subscriber.subscribe("news").wait()?;
    let home = (0..nodes.len()).find(|index| {
        let conn = Connection::open(support::config_for(&nodes.node(*index).url())).unwrap();
        conn.pubsub_numsub::<String>("news").wait::<Vec<_>>().unwrap().iter().any(|(_, count)| *count > 0)
    });
    nodes.kill(home.expect("it is on one of them"));
    nodes.wait_until_agreed().unwrap();
    assert!(matches!(subscriber.next()?, Some(Event::Reconnected(_))));
    subscriber.subscribe("more").wait()?;
    let cluster = open(&nodes);
    cluster.publish("news", "hello").wait()?;
    let Some(Event::Message(message)) = subscriber.next()? else { panic!("no message") };
    assert_eq!(message.payload(), b"hello");
    Ok(())
}

/// Publishes until the subscriber has heard it, and says whether a gap was told of before.
fn heard_behind_a_gap(cluster: &Cluster, subscriber: &redefer::pubsub::Subscriber, channel: &str) -> Result<bool> {
    let mut gap = false;
    let start = Instant::now();
    loop {
        // Nobody may be there for a while, or its node gone.
        let _ = cluster.spublish(channel, "hello").wait();
        match subscriber.next_timeout(Duration::from_millis(20))? {
            Some(Event::Reconnected(_)) => gap = true,
            Some(Event::Message(message)) if gap => {
                assert_eq!((message.channel(), message.payload()), (channel.as_bytes(), &b"hello"[..]));
                return Ok(gap);
            }
            Some(Event::Message(_)) | None => {}
            other => panic!("{other:?}"),
        }
        assert!(start.elapsed() < Duration::from_secs(60), "nothing is heard");
    }
}

#[test]
fn a_sharded_subscription_follows_its_slot() -> Result<()> {
    let nodes = testing::Cluster::builder().node_timeout(Duration::from_secs(1)).start().unwrap();
    let (cluster, stale) = (open(&nodes), open(&nodes));
    let slot = slot_of("news");
    let policy = || Reconnect::forever().first_delay(Duration::from_millis(5)).max_delay(Duration::from_millis(100));
    let subscriber = cluster.shard_subscriber("news", policy())?;
    subscriber.ssubscribe("news").wait()?;
    subscriber.ssubscribe("{news}:sport").wait()?;
    assert_eq!(cluster.spublish("news", "first").wait()?, 1);
    let first = subscriber.next()?.and_then(Event::into_message).unwrap();
    assert_eq!(first.payload(), b"first");
    // To another primary, key by key.
    nodes.move_slot(slot, (nodes.owner(slot).unwrap() + 1) % 3).unwrap();
    assert!(heard_behind_a_gap(&cluster, &subscriber, "news")?);
    assert_eq!(subscriber.subscriptions(), 2);
    // One that knows of nothing yet begins in the right place.
    let late = stale.shard_subscriber("news", policy())?;
    late.ssubscribe("news").wait()?;
    assert_eq!(cluster.spublish("news", "late").wait()?, 2);
    // Its primary is killed.
    let owner = nodes.owner(slot).unwrap();
    nodes.kill(owner);
    assert!(heard_behind_a_gap(&cluster, &subscriber, "{news}:sport")?);
    assert!(heard_behind_a_gap(&cluster, &late, "news")?);
    // And back, by the server where it can.
    nodes.restart(owner).unwrap();
    nodes.wait_until_agreed().unwrap();
    let to = (0..3).find(|index| *index != owner && nodes.is_primary(*index).unwrap()).unwrap();
    if nodes.node(0).name() == "valkey" {
        nodes.migrate_slot(slot, to).unwrap();
    } else {
        nodes.move_slot(slot, to).unwrap();
    }
    assert!(heard_behind_a_gap(&cluster, &subscriber, "news")?);
    // A channel of another slot is refused, as ever.
    let elsewhere = (0..).map(|n| format!("other:{n}")).find(|name| nodes.owner(slot_of(name)).unwrap() != to).unwrap();
    assert_eq!(subscriber.ssubscribe(&elsewhere).wait().unwrap_err().code(), Some("MOVED"));
    // Without a policy the server ends it, and says so.
    let still = cluster.shard_subscriber("news", Reconnect::never())?;
    still.ssubscribe("news").wait()?;
    nodes.move_slot(slot, (0..6).find(|index| *index != to && nodes.is_primary(*index).unwrap()).unwrap()).unwrap();
    assert!(matches!(still.next()?, Some(Event::ShardUnsubscribed(channel)) if channel == b"news"));
    Ok(())
}
