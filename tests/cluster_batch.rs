//! Batches on a cluster, and scans of one key.
#![cfg(all(unix, feature = "testing"))]

mod support;

use std::sync::LazyLock;
use std::time::Duration;

use redefer::cluster::{Cluster, ClusterConfig, ReadFrom};
use redefer::commands::ScanOptions;
use redefer::prelude::*;
use redefer::{Result, testing};
use support::nodes::{Say, bulk, config as scripted, nodes, open as open_scripted, owners, say};

static NODES: LazyLock<testing::Cluster> =
    LazyLock::new(|| testing::Cluster::builder().node_timeout(Duration::from_secs(30)).start().unwrap());

fn config() -> ClusterConfig {
    ClusterConfig::new(support::config_for(&NODES.urls()[0])).unwrap()
}

#[test]
fn a_batch_goes_to_all_nodes_and_has_one_outcome() -> Result<()> {
    let cluster = Cluster::open(config())?;
    let batch = cluster.batch();
    for n in 0..5000 {
        batch.set(format!("batch:{n}"), n);
    }
    let kept: Vec<_> = (0..100).map(|n| batch.get::<u64>(format!("batch:{n}"))).collect();
    let members = batch.lrange::<String>("batch:list", 0, -1);
    let (one, whole) = (batch.mget::<u64>(["batch:1", "batch:2", "batch:3"]), batch.dbsize());
    batch.finish()?;
    assert_eq!(cluster.outstanding(), 0);
    for (n, reply) in (0..).zip(kept) {
        assert_eq!(reply.wait()?, n);
    }
    assert_eq!(members.wait::<Vec<_>>()?, [""; 0]);
    assert_eq!(one.wait::<Vec<_>>()?, [1, 2, 3]);
    assert!(whole.wait()? >= 5000);
    assert_eq!(cluster.stats().connections, 3);
    // What was taken already is not waited for again, whoever has its place by then.
    let batch = cluster.batch();
    assert!(batch.dbsize().wait()? >= 5000);
    let parted = cluster.dbsize();
    batch.finish()?;
    assert!(cluster.outstanding() >= 3, "those of another command");
    parted.wait()?;
    // Two at a time, and the cluster beside them.
    let (a, b) = (cluster.batch(), cluster.batch());
    let (x, y, z) = (a.incr("batch:x"), b.incr("batch:y"), cluster.incr("batch:z"));
    a.finish()?;
    assert_eq!((z.wait()?, y.wait()?, x.wait()?), (1, 1, 1));
    b.finish()
}

#[test]
fn a_batch_tells_of_the_first_command_that_failed_whose_handle_was_dropped() -> Result<()> {
    let cluster = Cluster::open(config())?;
    cluster.set("failing:text", "x").wait()?;
    let batch = cluster.batch();
    batch.set("failing:a", 1);
    let kept = batch.incr("failing:text");
    batch.incr("failing:text");
    batch.rename("failing:a", "failing:b"); // of two slots
    batch.lrange::<String>("failing:text", 0, -1).detach();
    batch.mset([("failing:c", 1), ("failing:d", 2)]);
    batch.config_set(("maxmemory-policy", "nonsense")).detach(); // by all nodes
    match batch.finish() {
        Err(Error::Batch(error)) => {
            assert_eq!((error.position(), error.failed()), (2, 4));
            assert_eq!(error.first().code(), Some("ERR"), "{error}");
        }
        other => panic!("{other:?}"),
    }
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
    match cluster.sync() {
        Err(Error::Batch(error)) => assert_eq!((error.position(), error.failed()), (0, 2)),
        other => panic!("{other:?}"),
    }
    assert_eq!((cluster.outstanding(), cluster.stats().unseen_errors), (0, 0));
    Ok(())
}

#[test]
fn a_long_batch_does_not_keep_replies_that_nobody_waits_for() -> Result<()> {
    let cluster = Cluster::open(ClusterConfig::new(support::config_for(&NODES.urls()[0]).max_outstanding(100))?)?;
    let batch = cluster.batch();
    let mut kept = Vec::new();
    for n in 0..20_000 {
        let reply = batch.command::<String>("ECHO", n);
        if n % 1000 == 0 {
            kept.push((n, reply));
        }
        assert!(cluster.outstanding() <= 400, "{}", cluster.outstanding());
    }
    batch.finish()?;
    for (n, reply) in kept {
        assert_eq!(reply.wait()?, n.to_string());
    }
    Ok(())
}

#[test]
fn a_batch_follows_redirects_and_tells_what_was_lost() -> Result<()> {
    let [a, b] = nodes();
    let moved = support::nodes::text_of(b.moved("k"));
    a.does(move |words| match &*words[1] {
        "k" => Say::Bytes(moved.clone()),
        "end" => Say::Close,
        other => bulk(other),
    });
    b.does(|words| bulk(&words[1]));
    let cluster = open_scripted(&a);
    let batch = cluster.batch();
    let (one, two) = (batch.get::<String>("a"), batch.get::<String>("k"));
    batch.get::<String>("k").detach();
    assert_eq!((two.wait()?, one.wait()?), ("k".into(), "a".into()), "before it is finished");
    batch.get::<String>("end");
    match batch.finish() {
        Err(Error::Batch(error)) => {
            assert_eq!((error.position(), error.failed()), (3, 1));
            assert!(error.first().is_connection_lost());
        }
        other => panic!("{other:?}"),
    }
    // A node that says nothing.
    let [a, b] = nodes();
    let both = owners(&[&a, &b]);
    [&a, &b].iter().for_each(|node| *node.slots.lock().unwrap() = both.clone());
    a.does(|_| Say::Hang);
    b.does(|_| say("+OK"));
    let cluster = Cluster::open(scripted(&a).timeout(Duration::from_millis(200)))?;
    let batch = cluster.batch();
    // One of them to each.
    let (hangs, answers) = (batch.set("b", 1), batch.set("a", 1));
    batch.set("b", 2);
    assert!(matches!(batch.finish(), Err(Error::Timeout)));
    answers.wait()?;
    assert!(matches!(hangs.wait(), Err(Error::Timeout)));
    // That another command has failed is told nowhere else.
    b.does(|_| say("-ERR bad"));
    let batch = cluster.batch();
    batch.set("b", 1);
    batch.set("a", 1);
    match batch.finish() {
        Err(Error::Batch(error)) => assert_eq!((error.position(), error.first().code()), (1, Some("ERR"))),
        other => panic!("{other:?}"),
    }
    Ok(())
}

#[test]
fn the_elements_of_one_key_are_scanned_also_where_replicas_are_read_from() -> Result<()> {
    let writing = Cluster::open(config())?;
    let batch = writing.batch();
    for n in 0..3000 {
        batch.hset("scanned:hash", (format!("field:{n}"), n));
        batch.sadd("scanned:set", format!("member:{n}"));
        batch.zadd("scanned:zset", (f64::from(n), format!("member:{n}")));
    }
    batch.finish()?;
    assert_eq!(writing.wait(1, None).wait()?, 1);
    for from in [ReadFrom::Primary, ReadFrom::Replica, ReadFrom::Any] {
        let cluster = Cluster::open(config().read_from(from))?;
        let mut fields = cluster.hscan::<String, u64>("scanned:hash").collect::<Result<Vec<_>>>()?;
        fields.sort_unstable_by_key(|field| field.1);
        fields.dedup();
        let expected: Vec<_> = (0..3000).map(|n| (format!("field:{n}"), n)).collect();
        assert_eq!(fields, expected, "{from:?}");
        let mut members = cluster.sscan::<String>("scanned:set").collect::<Result<Vec<_>>>()?;
        members.sort_unstable();
        members.dedup();
        assert_eq!(members.len(), 3000);
        let options = ScanOptions::new().match_("member:1*").count(50);
        let mut scores = cluster.zscan_with::<String>("scanned:zset", options).collect::<Result<Vec<_>>>()?;
        scores.sort_unstable_by(|one, two| one.0.cmp(&two.0));
        scores.dedup();
        assert_eq!(scores.len(), 1111);
        assert!(scores.iter().all(|(member, score)| *member == format!("member:{score}")));
    }
    // All keys are for the cluster's own method; generic code is told so.
    fn first<C: ScanCommands + Copy>(on: C) -> Option<Result<String>> {
        on.scan().next()
    }
    assert!(matches!(first(&writing), Some(Err(Error::Refused(_)))));
    Ok(())
}

#[test]
fn values_are_fed_from_readers_and_copied_to_writers() -> Result<()> {
    let cluster = Cluster::open(config())?;
    let value: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
    let before = cluster.set("fed:before", 1);
    let fed: Vec<_> = (0..5).map(|n| cluster.set_from(format!("fed:{n}"), &value[..], 300_000)).collect();
    before.wait()?;
    fed.into_iter().try_for_each(|set| set.wait())?;
    assert_eq!(cluster.append_from("fed:0", &b"more"[..], 4).wait()?, 300_004);
    // In any order, also when others of the node are behind and in front of them.
    let copies: Vec<_> =
        (1..5).map(|n| (n, cluster.get::<Vec<u8>>(format!("fed:{n}")), cluster.incr(format!("fed:n{n}")))).collect();
    for (n, copy, count) in copies.into_iter().rev() {
        let mut got = Vec::new();
        assert_eq!(copy.copy_to(&mut got)?, 300_000, "{n}");
        assert!(got == value);
        assert_eq!(count.wait()?, 1);
    }
    // A writer and a reader that fail, and errors.
    let (copy, behind) = (cluster.get::<Vec<u8>>("fed:1"), cluster.strlen("fed:1"));
    let mut small = [0; 1000];
    assert!(matches!(copy.copy_to(&mut &mut small[..]), Err(Error::Custom(_))));
    assert_eq!((small.as_slice(), behind.wait()?), (&value[..1000], 300_000));
    assert!(matches!(cluster.set_from("fed:1", &b"short"[..], 10).wait(), Err(Error::Custom(_))));
    match cluster.set_from("fed:1", &value[..100_000], 200_000).wait() {
        Err(Error::ConnectionLost(lost)) => assert_eq!(lost.sent(), redefer::Sent::Partly),
        other => panic!("{other:?}"),
    }
    assert_eq!(cluster.strlen("fed:1").wait()?, 300_000);
    assert!(matches!(cluster.get::<String>("fed:none").copy_to(&mut Vec::new()), Err(Error::Nil)));
    assert_eq!(
        cluster.command::<String>("HGET", ("fed:1", "f")).copy_to(&mut Vec::new()).unwrap_err().code(),
        Some("WRONGTYPE")
    );
    assert!(matches!(cluster.lrange::<String>("fed:list", 0, -1).wait::<Vec<_>>(), Ok(all) if all.is_empty()));
    // A writer that panics costs its own reply.
    let (copy, behind) = (cluster.get::<Vec<u8>>("fed:2"), cluster.strlen("fed:2"));
    let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| copy.copy_to(&mut Panics)));
    assert!(panics.is_err());
    assert_eq!(behind.wait()?, 300_000);
    cluster.sync()
}

struct Panics;

impl std::io::Write for Panics {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        panic!("the writer panics");
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_fed_value_follows_no_redirect_and_a_copied_one_does() -> Result<()> {
    for word in ["MOVED", "ASK"] {
        let [a, b] = nodes();
        let redirect = format!("-{word} {} 127.0.0.1:{}", redefer::cluster::slot_of(b"k"), b.port);
        a.does(move |words| if words[0] == "EXISTS" { say(":1") } else { say(&redirect) });
        b.does(|words| match &*words[0] {
            "GET" => bulk("there"),
            "EXISTS" => say(":1"),
            _ => say("+OK"),
        });
        let cluster = open_scripted(&a);
        assert_eq!(cluster.set_from("k", &b"value"[..], 5).wait().unwrap_err().code(), Some(word));
        cluster.set_from("k", &b"value"[..], 5).detach();
        assert_eq!(cluster.sync().unwrap_err().code(), Some(word));
        assert_eq!(cluster.outstanding(), 0);
        assert_eq!(a.log(), ["EXISTS k", "SET k value", "EXISTS k", "SET k value"]);
        if word == "MOVED" {
            let moved = support::nodes::one_owner("127.0.0.1", b.port);
            [&a, &b].iter().for_each(|node| *node.slots.lock().unwrap() = moved.clone());
        }
        let mut copy = Vec::new();
        assert_eq!(cluster.get::<String>("k").copy_to(&mut copy)?, 5);
        assert_eq!(copy, b"there");
        // When it is known before, it goes to the right one.
        if word == "MOVED" {
            cluster.set_from("k", &b"value"[..], 5).wait()?;
            assert!(b.log().contains(&"SET k value".to_owned()));
        }
    }
    Ok(())
}

#[test]
fn scripts_are_run_by_their_digest_on_the_node_of_their_keys() -> Result<()> {
    let cluster = Cluster::open(config())?;
    // Nobody knows it yet; each node is told once, by the run that needs it.
    let script = Script::new("redis.call('INCRBY', KEYS[1], ARGV[1]) return KEYS[1]");
    for _ in 0..2 {
        let handles: Vec<_> =
            (0..30).map(|n| (n, script.run::<String, _>(&cluster, format!("script:{n}"), 2))).collect();
        for (n, handle) in handles.into_iter().rev() {
            assert_eq!(handle.wait()?, format!("script:{n}"));
        }
    }
    for n in 0..30 {
        assert_eq!(cluster.get::<i64>(format!("script:{n}")).wait()?, 4);
    }
    assert_eq!(cluster.script_exists([script.digest()]).wait::<Vec<bool>>()?, [true], "all primaries know it");
    let several = script.run::<String, _>(&cluster, ["script:1", "script:2"], 2).wait();
    assert_eq!(several.unwrap_err().code(), Some("CROSSSLOT"));
    assert_eq!(Script::new("return 7").run::<i64, _>(&cluster, (), ()).wait()?, 7);
    assert_eq!(Script::new("return 8").run_ro::<i64, _>(&cluster, "script:1", ()).wait()?, 8);
    // In a batch nothing can be repeated.
    let batch = cluster.batch();
    script.load(&batch);
    let run = script.evalsha::<String, _>(&batch, "script:0", 1);
    batch.finish()?;
    assert_eq!(run.wait()?, "script:0");
    // It follows redirects, as every command.
    let [a, b] = nodes();
    let moved = support::nodes::text_of(b.moved("k"));
    a.does(move |_| Say::Bytes(moved.clone()));
    b.does(|words| if words[0] == "EVALSHA" { say("-NOSCRIPT No matching script.") } else { bulk("ran") });
    assert_eq!(script.run::<String, _>(&open_scripted(&a), "k", 1).wait()?, "ran");
    let names: Vec<String> = b.log().iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(names, ["EVALSHA", "EVAL"]);
    Ok(())
}
