//! What a cluster that threads share does with many commands and many keys: batches, scans, and connections of its nodes.
#![cfg(all(unix, feature = "testing"))]

mod support;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use redefer::cluster::{ClusterConfig, ReadFrom, SharedCluster, SharedClusterBatch, SharedClusterScan};
use redefer::commands::ScanOptions;
use redefer::prelude::*;
use redefer::pubsub::Event;
use redefer::resp::Frame;
use redefer::{Arg, Reconnect, Result, ToArg, testing};
use support::nodes::{Node, Say, bulk, config as scripted, nodes, owners, say, text_of};
use support::shared::threads;
use support::within;

static NODES: LazyLock<testing::Cluster> =
    LazyLock::new(|| testing::Cluster::builder().node_timeout(Duration::from_secs(30)).start().unwrap());

const LIMIT: Duration = Duration::from_secs(60);

fn config() -> ClusterConfig {
    ClusterConfig::new(support::config_for(&NODES.urls()[0])).unwrap()
}

fn open() -> SharedCluster {
    SharedCluster::open(config()).unwrap()
}

/// The position of the first error of a batch, how many there were, and that error.
fn failed(outcome: Result<()>) -> (u64, u64, Error) {
    match outcome {
        Err(Error::Batch(error)) => (error.position(), error.failed(), error.first().clone()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_batches_of_many_threads_go_to_all_nodes_and_have_an_outcome_each() -> Result<()> {
    let cluster = open();
    threads(8, |thread| {
        let key = |n: usize| format!("batch:{thread}:{n}");
        let batch = cluster.batch();
        for n in 0..2000 {
            batch.set(key(n), n);
        }
        let kept: Vec<_> = (0..100).map(|n| batch.get::<usize>(key(n))).collect();
        let members = batch.lrange::<String>(key(0) + "none", 0, -1);
        let (three, size) = (batch.mget::<u64>([key(1), key(2), key(3)]), batch.dbsize());
        // Also before it is finished, and in any order.
        let early = batch.incr(key(0) + "early");
        assert_eq!(early.wait()?, 1);
        batch.finish()?;
        for (n, reply) in kept.into_iter().enumerate().rev() {
            assert!(reply.is_ready()?);
            assert_eq!(reply.wait()?, n);
        }
        assert_eq!(members.wait::<Vec<_>>()?, [""; 0]);
        assert_eq!(three.wait::<Vec<_>>()?, [1, 2, 3]);
        // Of whatever had run by then.
        size.wait()?;
        assert!(cluster.dbsize().wait()? >= 2000);
        // Commands of one slot run in their order.
        let batch = cluster.batch();
        (0..500).for_each(|n| batch.rpush(key(1) + "list", n).detach());
        batch.finish()?;
        let list: Vec<u32> = cluster.lrange(key(1) + "list", 0, -1).wait()?;
        assert!(list.into_iter().eq(0..500));
        Ok(())
    })?;
    assert_eq!((cluster.outstanding(), cluster.stats().unseen_errors, cluster.stats().connections), (0, 0, 3));
    // What was taken already is not waited for again, whoever has its place by then.
    let batch = cluster.batch();
    batch.dbsize().wait()?;
    let parted = cluster.dbsize();
    batch.finish()?;
    assert!(cluster.outstanding() >= 3, "those of another command");
    parted.wait()?;
    // Two at a time by one thread.
    let (a, b) = (cluster.batch(), cluster.batch());
    let (x, y, z) = (a.incr("batch:x"), b.incr("batch:y"), cluster.incr("batch:z"));
    a.finish()?;
    assert_eq!((z.wait()?, y.wait()?, x.wait()?), (1, 1, 1));
    b.finish()?;
    // And one of nothing.
    cluster.batch().finish()
}

#[test]
fn a_batch_tells_of_the_first_command_that_failed_whose_handle_was_dropped() -> Result<()> {
    let cluster = open();
    cluster.set("failing:text", "x").wait()?;
    let batch = cluster.batch();
    batch.set("failing:a", 1);
    let kept = batch.incr("failing:text");
    batch.incr("failing:text");
    batch.rename("failing:a", "failing:b"); // of two slots
    batch.lrange::<String>("failing:text", 0, -1).detach();
    batch.mset([("failing:c", 1), ("failing:d", 2)]);
    batch.config_set(("maxmemory-policy", "nonsense")).detach(); // by all nodes
    batch.command::<Value>("BLPOP", ("failing:list", 0)).detach();
    let (position, count, first) = failed(batch.finish());
    assert_eq!((position, count, first.code()), (2, 5, Some("ERR")));
    // What is kept is told by its handle, and nothing twice.
    assert_eq!(kept.wait().unwrap_err().code(), Some("ERR"));
    cluster.sync()?;
    // A handle that is dropped later.
    let batch = cluster.batch();
    let late = batch.incr("failing:text");
    batch.finish()?;
    drop(late);
    assert_eq!(cluster.sync().unwrap_err().code(), Some("ERR"));
    // A batch that is dropped.
    let batch = cluster.batch();
    batch.incr("failing:text");
    batch.incr("failing:text");
    drop(batch);
    let (position, count, _) = failed(cluster.sync());
    assert_eq!((position, count), (0, 2));
    assert_eq!((cluster.outstanding(), cluster.stats().unseen_errors), (0, 0));
    Ok(())
}

#[test]
fn long_batches_do_not_keep_replies_that_nobody_waits_for() -> Result<()> {
    let cluster = SharedCluster::open(ClusterConfig::new(support::config_for(&NODES.urls()[0]).max_outstanding(100))?)?;
    threads(4, |thread| {
        let batch = cluster.batch();
        let mut kept = Vec::new();
        for n in 0..5000 {
            let reply = batch.command::<String>("ECHO", format!("{thread}-{n}"));
            if n % 1000 == 0 {
                kept.push((n, reply));
            }
            assert!(cluster.outstanding() <= 3 * 100 + 4, "{}", cluster.outstanding());
        }
        batch.finish()?;
        for (n, reply) in kept {
            assert_eq!(reply.wait()?, format!("{thread}-{n}"));
        }
        Ok(())
    })
}

/// An argument that asks the cluster before it is written.
struct Asks<'c>(&'c SharedCluster);

impl ToArg for Asks<'_> {
    fn to_arg(&self) -> Arg<'_> {
        Arg::from(self.0.incr("reentrant:count").wait().unwrap().to_string())
    }
}

thread_local! {
    static THEIRS: std::cell::RefCell<Option<SharedCluster>> = const { std::cell::RefCell::new(None) };
}

/// A value that needs the cluster, and a batch on it, to be decoded.
#[derive(Debug, PartialEq)]
struct Counts(i64);

impl FromReply for Counts {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let cluster = THEIRS.with_borrow(|theirs| theirs.clone().unwrap());
        let batch = cluster.batch();
        let more = batch.incrby("reentrant:count", 10);
        batch.finish()?;
        Ok(Counts(i64::from_reply(frame)? + more.wait()?))
    }
}

#[test]
fn arguments_and_values_may_use_the_cluster_that_they_are_for() -> Result<()> {
    let cluster = open();
    THEIRS.set(Some(cluster.clone()));
    cluster.del("reentrant:count").wait()?;
    let batch = cluster.batch();
    for n in 1..=20 {
        batch.rpush("reentrant:list", Asks(&cluster));
        assert_eq!(batch.get::<Counts>("reentrant:count").wait()?, Counts(11 * n + 11 * n - 10));
    }
    batch.finish()?;
    let list: Vec<i64> = cluster.lrange("reentrant:list", 0, -1).wait()?;
    assert!(list.into_iter().eq((0..20).map(|n| 11 * n + 1)));
    THEIRS.set(None);
    Ok(())
}

#[test]
fn batches_that_go_to_other_threads_panic_or_are_forgotten_harm_no_other() -> Result<()> {
    fn is_send<T: Send>(_: &T) {}

    let cluster = open();
    let batch: SharedClusterBatch<'_> = cluster.batch();
    is_send(&batch);
    let (kept, list) = (batch.incr("sent:count"), batch.lrange::<String>("sent:list", 0, -1));
    batch.rpush("sent:list", 1);
    assert!(format!("{batch:?}").contains("SharedClusterBatch"));
    thread::scope(|scope| {
        let finished = scope.spawn(move || batch.finish()).join().unwrap();
        // Each handle by a thread of its own.
        let count = scope.spawn(move || kept.wait());
        let list = scope.spawn(move || list.wait::<Vec<_>>());
        assert_eq!((count.join().unwrap()?, list.join().unwrap()?), (1, vec![]));
        finished
    })?;
    threads(8, |thread| {
        for round in 0..50 {
            let key = format!("harm:{thread}");
            let batch = cluster.batch();
            batch.incr(&key);
            let kept = batch.incr(&key);
            match (thread + round) % 3 {
                0 => batch.finish()?,
                1 => std::mem::forget(batch),
                _ => {
                    let panics = catch_unwind(AssertUnwindSafe(move || {
                        let _batch = batch;
                        std::panic::resume_unwind(Box::new("a bomb"));
                    }));
                    assert!(panics.is_err());
                }
            }
            // Its handles are as good as ever, and all of it runs.
            assert_eq!(kept.wait()?, 2 * round as i64 + 2);
        }
        Ok(())
    })?;
    cluster.sync()?;
    assert_eq!((cluster.outstanding(), cluster.stats().unseen_errors), (0, 0));
    Ok(())
}

/// Two nodes, each with half of the slots: `bar` is the first one's, `foo` the second one's.
fn two() -> [Node; 2] {
    let [a, b] = nodes();
    let both = owners(&[&a, &b]);
    [&a, &b].iter().for_each(|node| *node.slots.lock().unwrap() = both.clone());
    [a, b]
}

fn shared(config: redefer::Config) -> SharedCluster {
    SharedCluster::open(config).unwrap()
}

#[test]
fn a_batch_follows_redirects_and_tells_what_was_lost() -> Result<()> {
    for asked in [false, true] {
        let [a, b] = nodes();
        let redirect = text_of(if asked { b.ask("k") } else { b.moved("k") });
        a.does(move |words| match &*words[1] {
            "k" => Say::Bytes(redirect.clone()),
            "end" => Say::Close,
            other => bulk(other),
        });
        b.does(|words| if words[0] == "ASKING" { say("+OK") } else { bulk(&words[1]) });
        let cluster = shared(scripted(&a));
        let batch = cluster.batch();
        let (one, two) = (batch.get::<String>("a"), batch.get::<String>("k"));
        batch.get::<String>("k").detach();
        assert_eq!((two.wait()?, one.wait()?), ("k".into(), "a".into()), "before it is finished");
        batch.get::<String>("end");
        let (position, count, first) = failed(batch.finish());
        assert_eq!((position, count, first.is_connection_lost()), (3, 1, true));
        let gets = b.log().iter().filter(|line| *line == "GET k").count();
        assert_eq!(gets, 2);
        // All of one slot, which is redirected behind some of them: in their order.
        let [a, b] = nodes();
        let (mut count, redirect) = (0, text_of(if asked { b.ask("k") } else { b.moved("k") }));
        a.does(move |words| {
            count += 1;
            if count > 10 { Say::Bytes(redirect.clone()) } else { bulk(&words[2]) }
        });
        b.does(|words| if words[0] == "ASKING" { say("+OK") } else { bulk(&words[2]) });
        let cluster = shared(scripted(&a));
        let batch = cluster.batch();
        (0..100).for_each(|n| batch.set("k", n).detach());
        // The replies are not what SET gives; nobody has asked for them.
        batch.finish()?;
        let value = |line: &String| line.split(' ').nth(2).and_then(|word| word.parse::<u32>().ok());
        let ran: Vec<u32> = a.log().iter().take(10).chain(&b.log()).filter_map(value).collect();
        assert!(ran.iter().copied().eq(0..100), "{ran:?}");
    }
    Ok(())
}

#[test]
fn a_silent_node_costs_a_batch_one_timeout_and_other_threads_nothing() {
    let [a, b] = two();
    a.does(|_| Say::Hang);
    b.does(|_| say("+OK"));
    within(LIMIT, move || {
        let cluster = shared(scripted(&a).timeout(Duration::from_millis(300)));
        thread::scope(|scope| {
            let waits = scope.spawn(|| {
                let batch = cluster.batch();
                let (hangs, answers, both) = (batch.set("bar", 1), batch.set("foo", 1), batch.touch(["foo", "bar"]));
                (0..1000).for_each(|_| batch.set("bar", 2).detach());
                assert!(matches!(batch.finish(), Err(Error::Timeout)));
                answers.wait().unwrap();
                assert!(!hangs.is_ready().unwrap() && !both.is_ready().unwrap());
                assert!(matches!(both.wait(), Err(Error::Timeout)));
                hangs
            });
            for _ in 0..200 {
                cluster.set("foo", 1).wait().unwrap();
            }
            assert!(matches!(waits.join().unwrap().wait(), Err(Error::Timeout)));
        });
        // The drop of a batch does not wait for it again, or this would never end.
        for _ in 0..1000 {
            let batch = cluster.batch();
            batch.set("bar", 3);
            batch.set("foo", 3);
        }
        std::mem::forget(cluster);
    });
}

#[test]
fn an_error_of_a_batch_is_told_although_another_command_is_late() {
    let [a, b] = two();
    a.does(|_| Say::Hang);
    b.does(|_| say("-ERR bad"));
    within(LIMIT, move || {
        let cluster = shared(scripted(&a).timeout(Duration::from_millis(300)));
        let batch = cluster.batch();
        batch.set("bar", 1).detach();
        batch.set("foo", 1).detach();
        let (position, count, first) = failed(batch.finish());
        assert_eq!((position, count, first.code()), (1, 1, Some("ERR")));
        std::mem::forget(cluster);
    });
}

#[test]
fn replies_that_are_kept_behind_a_slow_one_are_bounded() -> Result<()> {
    let [a, b] = two();
    a.does(|_| Say::Hang);
    b.does(|words| if words[2] == "bad" { say("-ERR bad") } else { say("+OK") });
    let cluster = shared(scripted(&a).timeout(Duration::from_millis(300)).max_outstanding(10));
    let batch = cluster.batch();
    batch.set("bar", 1);
    for n in 0..100 {
        batch.set("foo", if n == 70 { "bad" } else { "good" });
    }
    // It was given up long before, or the batch as a whole would have timed out.
    let (position, count, first) = failed(batch.finish());
    assert_eq!((position, count), (0, 2));
    assert!(matches!(first, Error::Timeout), "{first}");
    assert_eq!(b.log().len(), 100);
    std::mem::forget(cluster);
    Ok(())
}

#[test]
fn all_keys_are_found_by_each_of_many_threads() -> Result<()> {
    let nodes = testing::Cluster::builder().replicas(0).start().unwrap();
    let cluster = SharedCluster::open(support::config_for(&nodes.urls()[0]))?;
    let expected: BTreeSet<String> = (0..1000).map(|n| format!("key:{n}")).collect();
    let batch = cluster.batch();
    expected.iter().for_each(|key| batch.set(key, 1).detach());
    batch.hset("other", ("field", 1)).detach();
    batch.finish()?;
    threads(8, |thread| {
        let options = ScanOptions::new().match_("key:*").count(5 + thread as u64);
        let mut scan: SharedClusterScan<'_, String> = cluster.scan_with(options);
        assert!(format!("{scan:?}").contains("SharedClusterScan"));
        let mut found = BTreeSet::new();
        for key in scan.by_ref() {
            // Anything may be done between two pages.
            let key = key?;
            assert_eq!(cluster.get::<i64>(&key).wait()?, 1);
            found.insert(key);
        }
        assert!(scan.next().is_none());
        assert_eq!(found, expected);
        Ok(())
    })?;
    // By a thread that it was not made by.
    let scan = cluster.scan::<String>();
    let all = thread::scope(|scope| scope.spawn(move || scan.collect::<Result<BTreeSet<_>>>()).join().unwrap())?;
    assert_eq!(all.len(), 1001);
    // What cannot be decoded is an error, and the end.
    let mut scan = cluster.scan::<i64>();
    assert!(scan.next().unwrap().is_err());
    assert!(scan.next().is_none());
    // All keys are for the cluster's own method; generic code is told so.
    fn first<C: ScanCommands + Copy>(on: C) -> Option<Result<String>> {
        on.scan().next()
    }
    assert!(matches!(first(&cluster), Some(Err(Error::Refused(_)))));
    assert!(matches!(cluster.scan_page::<String>(0, &ScanOptions::new()).wait(), Err(Error::Refused(_))));
    Ok(())
}

#[test]
fn the_elements_of_one_key_are_scanned_also_where_replicas_are_read_from() -> Result<()> {
    let writing = open();
    let batch = writing.batch();
    for n in 0..1000 {
        batch.hset("scanned:hash", (format!("field:{n}"), n));
        batch.sadd("scanned:set", format!("member:{n}"));
        batch.zadd("scanned:zset", (f64::from(n), format!("member:{n}")));
    }
    batch.finish()?;
    for from in [ReadFrom::Primary, ReadFrom::Replica] {
        let cluster = SharedCluster::open(config().read_from(from))?;
        threads(4, |_| {
            let fields = cluster.hscan::<String, u64>("scanned:hash").collect::<Result<BTreeSet<_>>>()?;
            let expected: BTreeSet<_> = (0..1000).map(|n| (format!("field:{n}"), n)).collect();
            assert_eq!(fields, expected, "{from:?}");
            let members = cluster.sscan::<String>("scanned:set").collect::<Result<BTreeSet<_>>>()?;
            assert_eq!(members.len(), 1000);
            let options = ScanOptions::new().match_("member:1*").count(50);
            let scores = cluster.zscan_with::<String>("scanned:zset", options).collect::<Result<Vec<_>>>()?;
            assert!(scores.iter().all(|(member, score)| *member == format!("member:{score}")));
            assert_eq!(scores.into_iter().map(|score| score.0).collect::<BTreeSet<_>>().len(), 111);
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn a_scan_of_a_silent_node_ends_with_that_and_keeps_nobody() {
    let [a, b] = two();
    a.does(|_| Say::Hang);
    b.does(|words| bulk(&words[1]));
    within(LIMIT, move || {
        let cluster = shared(scripted(&a).timeout(Duration::from_millis(300)));
        thread::scope(|scope| {
            let scans = scope.spawn(|| {
                let mut scan = cluster.scan::<String>();
                assert!(matches!(scan.next(), Some(Err(Error::Timeout))));
                assert!(scan.next().is_none());
            });
            for _ in 0..200 {
                assert_eq!(cluster.get::<String>("foo").wait().unwrap(), "foo");
            }
            scans.join().unwrap();
        });
        std::mem::forget(cluster);
    });
}

#[test]
fn a_scan_goes_on_at_whoever_has_taken_over_between_two_pages() {
    let [a, b] = two();
    let page = |cursor: u32, key: &str| format!("*2\r\n$1\r\n{cursor}\r\n*1\r\n${}\r\n{key}\r\n", key.len());
    a.does(move |words| Say::Bytes(if words[1] == "0" { page(7, "first") } else { page(0, "never") }));
    b.does(move |words| Say::Bytes(if words[1] == "0" { page(9, "second") } else { page(0, "last") }));
    within(LIMIT, move || {
        let cluster = shared(scripted(&a));
        let mut scan = cluster.scan::<String>();
        assert_eq!(scan.next().unwrap().unwrap(), "first");
        a.gone.store(true, Ordering::SeqCst);
        [&a, &b].iter().for_each(|node| *node.slots.lock().unwrap() = owners(&[&b]));
        a.end_connections();
        assert_eq!(scan.collect::<Result<Vec<_>>>().unwrap(), ["second", "last"]);
        assert_eq!(cluster.outstanding(), 0);
    });
}

#[test]
fn connections_and_subscribers_of_ones_own_are_opened_beside_it() -> Result<()> {
    let cluster = open();
    let batch = cluster.batch();
    (0..300).for_each(|n| batch.set(format!("beside:{n}"), n).detach());
    batch.finish()?;
    let primaries = cluster.connections()?;
    assert_eq!(primaries.len(), 3);
    let sizes: i64 = primaries.iter().map(|conn| conn.dbsize().wait()).sum::<Result<i64>>()?;
    assert!(sizes >= 300);
    for policy in [Reconnect::never(), Reconnect::backoff()] {
        let sharded = cluster.shard_subscriber("beside:news", policy.clone())?;
        sharded.ssubscribe("beside:news").wait()?;
        let ordinary = cluster.subscriber(policy)?;
        ordinary.subscribe("beside:all").wait()?;
        thread::scope(|scope| {
            scope.spawn(|| assert_eq!(cluster.spublish("beside:news", "to its slot").wait().unwrap(), 1));
            scope.spawn(|| assert!(cluster.publish("beside:all", "to all").wait().is_ok()));
        });
        for (subscriber, payload) in [(sharded, "to its slot"), (ordinary, "to all")] {
            match subscriber.next_timeout(Duration::from_secs(30))? {
                Some(Event::Message(message)) => assert_eq!(message.payload_as::<String>()?, payload),
                other => panic!("{other:?}"),
            }
        }
    }
    Ok(())
}
