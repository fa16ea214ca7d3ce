//! A cluster that stands still: where commands go, and what comes back.
#![cfg(all(unix, feature = "testing"))]

mod support;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::LazyLock;
use std::time::Duration;

use redefer::cluster::{Cluster, ClusterConfig, ReadFrom, slot_of};
use redefer::commands::{MsetexOptions, PubSubCommands, ScanOptions};
use redefer::prelude::*;
use redefer::pubsub::Event;
use redefer::{Reconnect, Result, WaitError, testing};

static NODES: LazyLock<testing::Cluster> = LazyLock::new(|| testing::Cluster::start().unwrap());

fn config() -> ClusterConfig {
    let mut urls = NODES.urls().into_iter();
    let first = ClusterConfig::new(support::config_for(&urls.next().unwrap())).unwrap();
    urls.fold(first, |config, url| config.seed(&*url).unwrap())
}

fn open() -> Cluster {
    Cluster::open(config()).unwrap()
}

/// Keys that are this test's own, spread over the slots.
fn keys(test: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{test}:{n}")).collect()
}

#[test]
fn commands_go_to_the_node_of_their_slot_and_handles_are_waited_for_in_any_order() -> Result<()> {
    let cluster = open();
    let keys = keys("any-order", 300);
    let sets: Vec<_> = keys.iter().map(|key| cluster.set(key, key)).collect();
    for set in sets.into_iter().rev() {
        set.wait()?;
    }
    let mut gets: Vec<_> = keys.iter().map(|key| Some(cluster.get::<String>(key))).collect();
    for step in [7, 3, 1] {
        for (n, key) in keys.iter().enumerate().filter(|(n, _)| n % step == 0) {
            if let Some(get) = gets[n].take() {
                assert_eq!(get.wait()?, *key);
            }
        }
    }
    assert_eq!((cluster.outstanding(), cluster.stats().redirects), (0, 0));
    assert_eq!(cluster.stats().primaries, 3);
    // Each node has its own.
    for conn in cluster.connections()? {
        let info = conn.cluster_nodes().wait()?;
        let slots = &info.iter().find(|node| node.is_myself()).unwrap().slots;
        for key in conn.keys::<String>("any-order:*") {
            let slot = slot_of(key?.as_bytes());
            assert!(slots.iter().any(|range| range.contains(&slot)));
        }
    }
    Ok(())
}

#[test]
fn handles_that_are_dropped_detached_or_forgotten_shift_nothing() -> Result<()> {
    let cluster = open();
    let keys = keys("given-up", 200);
    for round in 0..20 {
        let replies: Vec<_> = keys.iter().map(|key| cluster.incr(key)).collect();
        for (n, reply) in replies.into_iter().enumerate() {
            match (n + round) % 5 {
                0 => drop(reply),
                1 => reply.detach(),
                2 => std::mem::forget(reply),
                3 => match reply.wait_timeout(Duration::ZERO) {
                    Err(WaitError::Timeout(reply)) => assert_eq!(reply.wait()?, round as i64 + 1),
                    other => assert_eq!(other.ok(), Some(round as i64 + 1)),
                },
                _ => assert_eq!(reply.wait()?, round as i64 + 1),
            }
        }
    }
    cluster.sync()?;
    assert_eq!(cluster.outstanding(), 0);
    let values: Vec<i64> = cluster.mget(&keys).wait()?;
    assert_eq!(values, vec![20; 200]);
    Ok(())
}

#[test]
fn errors_that_nobody_sees_are_counted_and_told_once() -> Result<()> {
    let cluster = open();
    cluster.set("unseen", "text").wait()?;
    cluster.incr("unseen").detach();
    drop(cluster.incr("unseen"));
    drop(cluster.lrange::<String>("unseen", 0, -1));
    assert_eq!(cluster.incr("unseen").wait().unwrap_err().code(), Some("ERR"));
    assert_eq!(cluster.stats().unseen_errors, 3);
    assert_eq!(cluster.sync().unwrap_err().code(), Some("ERR"));
    assert_eq!(cluster.stats().unseen_errors, 0);
    cluster.sync()
}

#[test]
fn a_panic_while_decoding_leaves_the_other_replies_right() -> Result<()> {
    struct Bad;
    impl FromReply for Bad {
        fn from_reply(_: redefer::resp::Frame<'_>) -> Result<Bad> {
            panic!("on purpose")
        }
    }
    let cluster = open();
    cluster.set("{panic}a", "1").wait()?;
    let before = cluster.get::<i64>("{panic}a");
    let bad = cluster.get::<Bad>("{panic}a");
    let after = cluster.incr("{panic}a");
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| bad.wait())).is_err());
    assert_eq!((after.wait()?, before.wait()?), (2, 1));
    let bad = cluster.get::<Bad>("{panic}a");
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| bad.wait())).is_err());
    assert_eq!(cluster.get::<i64>("{panic}a").wait()?, 2);
    Ok(())
}

#[test]
fn commands_that_can_be_divided_are_and_replies_come_in_order() -> Result<()> {
    let cluster = open();
    let keys = keys("divided", 100);
    assert!(keys.iter().map(|key| slot_of(key.as_bytes())).collect::<HashSet<_>>().len() > 90);
    cluster.mset(args::each(keys.iter().map(|key| (key, key)))).wait()?;
    let mut asked = keys.clone();
    asked.insert(50, "divided:nobody".to_owned());
    asked.push(keys[3].clone());
    let values: Vec<Option<String>> = cluster.mget(&asked).wait()?;
    for (key, value) in asked.iter().zip(&values) {
        assert_eq!(value.as_deref(), (key != "divided:nobody").then_some(&**key));
    }
    let mut iterated = cluster.mget::<Option<String>>(&asked);
    assert_eq!(iterated.len()?, Some(102));
    assert_eq!(iterated.collect::<Result<Vec<_>>>()?, values);
    assert_eq!(cluster.exists(&asked).wait()?, 101);
    assert_eq!(cluster.touch(&keys).wait()?, 100);
    assert_eq!(cluster.unlink(&keys[..40]).wait()?, 40);
    assert_eq!(cluster.command::<i64>("del", &keys).wait()?, 60);
    // One after the other, and given up.
    cluster.del(&keys).detach();
    drop(cluster.del(&keys));
    cluster.sync()?;
    // An error of one part is that of the whole.
    cluster.rpush("divided:list", "a").wait()?;
    let error = cluster.command::<i64>("UNLINK", ()).wait().unwrap_err();
    assert_eq!(error.code(), Some("ERR"));
    cluster.del("divided:list").wait()?;
    assert_eq!(cluster.outstanding(), 0);
    Ok(())
}

#[test]
fn commands_of_several_slots_are_refused_before_they_are_sent() -> Result<()> {
    let cluster = open();
    let code = |error: Error| error.code().unwrap_or("none").to_owned();
    assert_eq!(code(cluster.rename("cross:a", "cross:b").wait().unwrap_err()), "CROSSSLOT");
    assert_eq!(code(cluster.msetnx([("cross:a", 1), ("cross:b", 2)]).wait().unwrap_err()), "CROSSSLOT");
    let inter = cluster.sinter::<String>(["cross:a", "cross:b"]).wait::<Vec<_>>();
    assert_eq!(code(inter.unwrap_err()), "CROSSSLOT");
    assert_eq!(code(cluster.command::<Value>("SUNION", ["cross:a", "cross:b"]).wait().unwrap_err()), "CROSSSLOT");
    assert_eq!(code(cluster.eval::<i64>("return 1", ["cross:a", "cross:b"], ()).wait().unwrap_err()), "CROSSSLOT");
    assert_eq!(cluster.stats().connections, 0, "nothing was sent");
    cluster.msetnx([("{cross}a", 1), ("{cross}b", 2)]).wait()?;
    Ok(())
}

#[test]
fn commands_by_name_go_where_the_servers_say() -> Result<()> {
    let cluster = open();
    cluster.command::<()>("SET", ("by-name:1", "v")).wait()?;
    assert_eq!(cluster.command::<String>("get", "by-name:1").wait()?, "v");
    assert_eq!(cluster.command::<String>("OBJECT ENCODING", "by-name:1").wait()?, "embstr");
    assert!(cluster.command::<u64>("MEMORY USAGE", "by-name:1").wait()? > 0);
    assert_eq!(cluster.command::<i64>("EVAL", ("return #KEYS", 1, "by-name:2")).wait()?, 1);
    cluster.command::<()>("XGROUP CREATE", (("by-name:s", "g"), ("$", "MKSTREAM"))).wait()?;
    cluster.command::<i64>("SORT", ("{by-name}a", "STORE", "{by-name}b")).wait()?;
    assert_eq!(cluster.command::<i64>("ZADD", (("by-name:z", 1), "m")).wait()?, 1);
    assert_eq!(cluster.command::<Value>("NOSUCHCOMMAND", "a").wait().unwrap_err().code(), Some("ERR"));
    assert!(matches!(cluster.command::<Value>("MULTI", ()).wait(), Err(Error::Refused(_))));
    assert!(matches!(cluster.command::<Value>("SELECT", 1).wait(), Err(Error::Refused(_))));
    assert!(matches!(cluster.client_id().wait(), Err(Error::Refused(_))));
    assert_eq!(cluster.stats().redirects, 0);
    Ok(())
}

#[test]
fn commands_without_keys_go_where_their_kind_says() -> Result<()> {
    // Of its own, since it looks at everything.
    let nodes = testing::Cluster::start().unwrap();
    let cluster = Cluster::open(support::config(nodes.node(0)))?;
    let keys = keys("kinds", 60);
    for key in &keys {
        cluster.set(key, 1).detach();
    }
    cluster.sync()?;
    assert_eq!(cluster.dbsize().wait()?, 60);
    let found: BTreeSet<String> = cluster.keys("kinds:*").wait()?;
    assert_eq!(found, keys.iter().cloned().collect());
    cluster.ping().wait()?;
    assert!(keys.contains(&cluster.randomkey::<Option<String>>().wait()?.unwrap()));

    let sha = cluster.script_load("return ARGV[1]").wait()?;
    assert_eq!(cluster.script_exists([&*sha, "0000"]).wait::<Vec<bool>>()?, [true, false]);
    for key in &keys[..10] {
        assert_eq!(cluster.evalsha::<String>(&sha, key, "x").wait()?, "x");
    }
    cluster.function_load("#!lua name=lib\nredis.register_function('f', function() return 7 end)").wait()?;
    for key in &keys[..10] {
        assert_eq!(cluster.fcall::<i64>("f", key, ()).wait()?, 7);
    }
    // Each replica has what its primary was sent.
    assert_eq!(cluster.command::<i64>("WAIT", (1, 5000)).wait()?, 1);
    assert!(cluster.wait(1, Some(Duration::from_secs(5))).wait()? >= 1);

    cluster.config_set(("slowlog-max-len", 77)).wait()?;
    for index in 0..6 {
        let conn = Connection::open(nodes.node(index).url())?;
        let value: HashMap<String, String> = conn.config_get("slowlog-max-len").wait()?;
        assert_eq!(value["slowlog-max-len"], "77");
    }
    assert!(matches!(cluster.scan_page::<String>(0, &ScanOptions::new()).wait(), Err(Error::Refused(_))));
    let scanned: BTreeSet<String> = cluster.scan_with::<String>(ScanOptions::new().count(7)).collect::<Result<_>>()?;
    assert_eq!(scanned, found);
    cluster.flushall().wait()?;
    assert_eq!((cluster.dbsize().wait()?, cluster.scan::<String>().count()), (0, 0));
    assert_eq!(cluster.randomkey::<Option<String>>().wait()?, None);
    Ok(())
}

#[test]
fn what_is_for_all_nodes_has_one_answer() -> Result<()> {
    let nodes = testing::Cluster::builder().replicas(0).config("slowlog-log-slower-than", 0).start().unwrap();
    let base = support::config_for(&nodes.urls()[0]).timeout(Duration::from_secs(60));
    let cluster = Cluster::open(ClusterConfig::new(base)?)?;
    cluster.ping().wait()?;
    // Of nodes most of which have nothing, the key of the one that has.
    assert_eq!(cluster.randomkey::<Option<String>>().wait()?, None);
    cluster.set("random", 1).wait()?;
    for _ in 0..10 {
        assert_eq!(cluster.randomkey::<String>().wait()?, "random");
    }
    let asked = |name: &str| {
        let logs = cluster.slowlog_get_count(1000).wait::<Vec<_>>()?;
        Ok::<_, Error>(
            logs.iter().filter(|entry| entry.command.first().is_some_and(|word| word == name.as_bytes())).count(),
        )
    };
    assert_eq!(asked("RANDOMKEY")?, 33, "eleven of each node");
    cluster.slowlog_reset().wait()?;
    assert_eq!(asked("RANDOMKEY")?, 0);
    cluster.memory_purge().wait()?;
    assert_eq!(cluster.script_kill().wait().unwrap_err().code(), Some("NOTBUSY"));
    assert_eq!(cluster.function_kill().wait().unwrap_err().code(), Some("NOTBUSY"));
    // One node is busy.
    let busy = Connection::open(support::config(nodes.node(1)).timeout(Duration::from_secs(60)))?;
    let endless = busy.command::<()>("EVAL", ("while true do end", 0));
    busy.flush()?;
    support::until("the script is killed", || match cluster.script_kill().wait() {
        Ok(()) => Ok(true),
        Err(error) => {
            assert_eq!(error.code(), Some("NOTBUSY"), "{error}");
            Ok(false)
        }
    })?;
    assert_eq!(endless.wait().unwrap_err().code(), Some("ERR"));
    if nodes.node(0).version() >= (7, 2, 0) {
        // Nothing is written to disk.
        assert_eq!(cluster.waitaof(0, 0, Some(Duration::from_millis(1))).wait()?, (0, 0));
    }
    if nodes.node(0).name() == "valkey" {
        cluster.msetex([("{a}ex", 1), ("{b}ex", 2), ("{c}ex", 3)], Duration::from_secs(1000)).wait()?;
        assert_eq!(cluster.mget::<i64>(["{a}ex", "{b}ex", "{c}ex"]).wait::<Vec<_>>()?, [1, 2, 3]);
        assert!(cluster.command::<i64>("EXPIRETIME", "{b}ex").wait()? > 0);
        let all = cluster.msetex_with([("{a}ex", 1), ("{b}ex", 2)], MsetexOptions::new().nx());
        assert_eq!(all.wait().unwrap_err().code(), Some("CROSSSLOT"));
    }
    if nodes.node(0).version() >= (8, 2, 0) {
        let stats: Vec<(u16, _)> = cluster.cluster_slot_stats(0..=16_383).wait()?;
        let mut slots: Vec<u16> = stats.iter().map(|(slot, _)| *slot).collect();
        slots.sort_unstable();
        assert_eq!(slots, (0..16_384).collect::<Vec<u16>>());
    }
    cluster.sync()
}

#[test]
fn transactions_of_one_slot_run_as_one() -> Result<()> {
    let cluster = open();
    let tx = cluster.transaction();
    let one = tx.incr("{tx}n");
    let two = tx.get::<Option<String>>("{tx}nobody");
    let list = {
        tx.rpush("{tx}list", ["a", "b"]).detach();
        tx.lrange::<String>("{tx}list", 0, -1)
    };
    assert!(matches!(tx.get::<i64>("{tx}n").wait(), Err(Error::NotCommitted)));
    let before = cluster.incr("{tx}n");
    assert_eq!((tx.len(), tx.is_empty()), (5, false));
    tx.commit().wait()?;
    assert_eq!((one.wait()?, two.wait()?, before.wait()?), (2, None, 1));
    assert_eq!(list.wait::<Vec<_>>()?, ["a", "b"]);

    // Many at once, in the order of the calls.
    let commits: Vec<_> = (0..50)
        .map(|n| {
            let plain = cluster.incr("{tx}m");
            let tx = cluster.transaction();
            let (first, second) = (tx.incr("{tx}m"), tx.incr("{tx}m"));
            (n, plain, tx.commit(), first, second)
        })
        .collect();
    for (n, plain, commit, first, second) in commits.into_iter().rev() {
        assert_eq!((second.wait()?, first.wait()?, plain.wait()?), (3 * n + 3, 3 * n + 2, 3 * n + 1));
        commit.wait()?;
    }

    // Errors.
    let tx = cluster.transaction();
    let good = tx.set("{tx}n", "text");
    let bad = tx.incr("{tx}n");
    tx.commit().wait()?;
    good.wait()?;
    assert_eq!(bad.wait().unwrap_err().code(), Some("ERR"));
    let tx = cluster.transaction();
    let unknown = tx.command::<Value>("NOSUCHCOMMAND", "{tx}n");
    let other = tx.del("{tx}n");
    assert_eq!(tx.commit().wait().unwrap_err().code(), Some("EXECABORT"));
    assert_eq!(
        (unknown.wait().unwrap_err().code(), other.wait().unwrap_err().code()),
        (Some("ERR"), Some("EXECABORT"))
    );

    let tx = cluster.transaction();
    let here = tx.del("{tx}n");
    let there = tx.del("elsewhere");
    assert_eq!(tx.len(), 1);
    assert_eq!(tx.commit().wait().unwrap_err().code(), Some("CROSSSLOT"));
    assert_eq!(
        (here.wait().unwrap_err().code(), there.wait().unwrap_err().code()),
        (Some("CROSSSLOT"), Some("CROSSSLOT"))
    );
    let tx = cluster.transaction();
    let handle = tx.del("{tx}n");
    drop(tx);
    assert!(matches!(handle.wait(), Err(Error::NotCommitted)));
    let tx = cluster.transaction();
    tx.flushall();
    assert!(matches!(tx.commit().wait(), Err(Error::Refused(_))));
    assert_eq!(cluster.get::<String>("{tx}n").wait()?, "text");

    // Nothing but a commit, and not even that.
    assert!(cluster.transaction().is_empty());
    cluster.transaction().commit().wait()?;
    let tx = cluster.transaction();
    tx.incr("{tx}n");
    tx.commit().detach();
    assert_eq!(cluster.sync().unwrap_err().code(), Some("ERR"));
    assert_eq!(cluster.outstanding(), 0);
    cluster.sync()
}

#[test]
fn watched_transactions_are_aborted_when_a_key_has_changed() -> Result<()> {
    let (cluster, other) = (open(), open());
    other.set("watched", 1).wait()?;
    let watch = cluster.watch("watched")?;
    let tx = watch.transaction();
    tx.set("watched", 3);
    other.set("watched", 2).wait()?;
    assert!(matches!(tx.commit().wait(), Err(Error::Aborted)));
    assert_eq!(cluster.watch(["watched", "elsewhere"]).unwrap_err().code(), Some("CROSSSLOT"));

    let mut rounds = 0;
    let doubled: i64 = cluster.transact("watched", |cluster, tx| {
        rounds += 1;
        let value: i64 = cluster.get("watched").wait()?;
        if rounds < 3 {
            other.incr("watched").wait()?;
        }
        Ok(tx.incrby("watched", value))
    })?;
    assert_eq!((doubled, rounds), (8, 3));
    Ok(())
}

#[test]
fn keys_that_have_gone_ahead_of_their_slot_are_watched_where_they_are() -> Result<()> {
    let nodes = testing::Cluster::builder().replicas(0).start().unwrap();
    let open = || Cluster::open(ClusterConfig::new(support::config_for(&nodes.urls()[0])).unwrap()).unwrap();
    let (cluster, other) = (open(), open());
    let slot = redefer::cluster::slot_of("{k}");
    let (from, to) = (nodes.owner(slot).unwrap(), (nodes.owner(slot).unwrap() + 1) % 3);
    cluster.set("{k}ahead", 1).wait()?;
    nodes.begin_move(slot, from, to).unwrap();
    while nodes.move_keys(slot, from, to, 1).unwrap() > 0 {}
    let mut rounds = 0;
    let mut double = |key: &str| {
        cluster.transact(key, |cluster, tx| {
            let value = cluster.get::<Option<i64>>(key).wait()?.unwrap_or(5);
            rounds += 1;
            if rounds == 1 {
                // Somebody else is faster.
                other.set(key, 10).wait()?;
            }
            tx.set(key, 2 * value).detach();
            Ok(tx.get::<i64>(key))
        })
    };
    assert_eq!(double("{k}ahead")?, 20);
    assert_eq!(double("{k}missing")?, 10);
    assert_eq!(rounds, 3);
    // By hand, and aborted.
    let tx = cluster.watch(["{k}ahead", "{k}missing"])?.transaction();
    tx.del("{k}missing").detach();
    other.set("{k}ahead", 21).wait()?;
    assert!(matches!(tx.commit().wait(), Err(Error::Aborted)));
    nodes.finish_move(slot, from, to).unwrap();
    assert_eq!(cluster.mget::<i64>(["{k}ahead", "{k}missing"]).wait::<Vec<_>>()?, [21, 10]);
    assert_eq!(cluster.transact("{k}ahead", |_, tx| Ok(tx.incr("{k}ahead")))?, 22);
    Ok(())
}

#[test]
fn blocking_commands_hold_their_node_and_nobody_else() -> Result<()> {
    let (cluster, other) = (open(), open());
    let popped = cluster.blpop::<String, String>("blocking", None);
    let elsewhere = (0..20).map(|n| format!("blocking:{n}")).find(|key| {
        let owner = |key: &str| NODES.owner(slot_of(key.as_bytes())).unwrap();
        owner(key) != owner("blocking")
    });
    cluster.set(elsewhere.unwrap(), 1).wait()?;
    assert!(!popped.is_ready()?);
    other.rpush("blocking", "x").wait()?;
    assert_eq!(popped.wait()?, Some(("blocking".to_owned(), "x".to_owned())));
    let nil: Option<(String, String)> = cluster.blpop("blocking", Some(Duration::from_millis(20))).wait()?;
    assert_eq!(nil, None);
    Ok(())
}

#[test]
fn reads_go_to_replicas_when_they_may() -> Result<()> {
    for from in [ReadFrom::Replica, ReadFrom::Any] {
        let nodes = testing::Cluster::start().unwrap();
        let writer = Cluster::open(support::config(nodes.node(0)))?;
        let keys = keys("replicas", 90);
        for key in &keys {
            writer.set(key, key).detach();
        }
        writer.sync()?;
        assert_eq!(writer.command::<i64>("WAIT", (1, 5000)).wait()?, 1);
        let config = ClusterConfig::new(support::config(nodes.node(0)))?.read_from(from);
        let cluster = Cluster::open(config)?;
        let gets: Vec<_> = keys.iter().map(|key| cluster.get::<String>(key)).collect();
        for (key, get) in keys.iter().zip(gets) {
            assert_eq!(get.wait()?, *key);
        }
        cluster.set("replicas:0", "new").wait()?;
        let calls = |index: usize| -> Result<u64> {
            let info = Connection::open(nodes.node(index).url())?.info_sections("commandstats").wait()?;
            let text = info.text;
            let line = text.lines().find_map(|line| line.strip_prefix("cmdstat_get:calls="));
            Ok(line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0))
        };
        let [primaries, replicas] = [0..3, 3..6].map(|range| range.map(|index| calls(index).unwrap()).sum::<u64>());
        assert_eq!(primaries + replicas, 90);
        assert_eq!(primaries == 0, from == ReadFrom::Replica, "{primaries} {replicas}");
        assert!(replicas >= 30, "{replicas}");
        assert_eq!(cluster.stats().redirects, 0);
    }
    Ok(())
}

#[test]
fn shard_channels_are_heard_on_their_node() -> Result<()> {
    let cluster = open();
    for channel in ["shard:1", "shard:2", "shard:3"] {
        let subscriber = cluster.shard_subscriber(channel, Reconnect::never())?;
        subscriber.ssubscribe(channel).wait()?;
        assert_eq!(cluster.spublish(channel, "hello").wait()?, 1);
        let heard = subscriber.iter().find_map(|event| match event {
            Ok(Event::Message(message)) => Some(message.payload_as::<String>()),
            _ => None,
        });
        assert_eq!(heard.unwrap()?, "hello");
    }
    Ok(())
}

#[test]
fn a_server_that_is_no_node_is_no_cluster() {
    let server = support::server();
    assert_eq!(Cluster::open(support::config(&server)).unwrap_err().code(), Some("ERR"));
    let seeds: [&str; 0] = [];
    assert!(matches!(Cluster::open(seeds), Err(Error::Config(_))));
    assert!(matches!(Cluster::open("redis://127.0.0.1:1"), Err(Error::Io(_))));
}

#[test]
fn seeds_that_are_down_are_passed_over() -> Result<()> {
    let urls = ["redis://127.0.0.1:1".to_owned(), NODES.node(4).url()];
    let cluster = Cluster::open(urls)?;
    cluster.set("seeds", 1).wait()?;
    Ok(())
}

#[test]
fn ten_thousand_handles_and_a_small_queue_run_in_step() -> Result<()> {
    let config = support::config(NODES.node(0)).max_outstanding(64);
    let cluster = Cluster::open(config)?;
    let keys = keys("queue", 50);
    let replies: Vec<_> = (0..10_000).map(|n| (n, cluster.incr(&keys[n % 50]))).collect();
    for (n, reply) in replies {
        assert_eq!(reply.wait()?, (n / 50) as i64 + 1);
    }
    for n in 0..10_000 {
        cluster.incr(&keys[n % 50]).detach();
    }
    cluster.sync()?;
    assert_eq!(cluster.mget::<i64>(&keys).wait::<Vec<_>>()?, vec![400; 50]);
    Ok(())
}

#[test]
fn every_node_is_logged_in_to_with_the_credentials_of_the_first() -> Result<()> {
    for index in 0..NODES.len() {
        let conn = Connection::open(NODES.node(index).url())?;
        conn.command::<()>("ACL SETUSER", ("app", "on", ">secret", "~app:*", "+@all")).wait()?;
    }
    let config = support::config(NODES.node(0)).user("app").password("secret");
    let cluster = Cluster::open(ClusterConfig::new(config)?.read_from(ReadFrom::Any))?;
    let keys = keys("app", 50);
    for key in &keys {
        cluster.set(key, 1).detach();
    }
    cluster.sync()?;
    assert_eq!(cluster.exists(&keys).wait()?, 50);
    assert_eq!(cluster.set("other", 1).wait().unwrap_err().code(), Some("NOPERM"));
    let wrong = support::config(NODES.node(0)).user("app").password("wrong");
    let error = Cluster::open(wrong).unwrap_err();
    assert_eq!(error.code(), Some("WRONGPASS"));
    assert!(!format!("{cluster:?} {error:?}").contains("secret"));
    Ok(())
}
