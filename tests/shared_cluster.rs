//! One cluster that many threads share: every thread checks every reply, on a cluster that stands still.
#![cfg(all(unix, feature = "testing"))]

mod support;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;
use std::thread;
use std::time::Duration;

use redefer::cluster::{Cluster, ClusterConfig, ReadFrom, SharedCluster};
use redefer::commands::ScriptingCommands;
use redefer::prelude::*;
use redefer::resp::Frame;
use redefer::{Result, WaitError, testing};
use support::shared::threads;

static NODES: LazyLock<testing::Cluster> = LazyLock::new(|| testing::Cluster::start().unwrap());

fn config() -> ClusterConfig {
    let mut urls = NODES.urls().into_iter();
    let first = ClusterConfig::new(support::config_for(&urls.next().unwrap())).unwrap();
    urls.fold(first, |config, url| config.seed(&*url).unwrap())
}

fn open() -> SharedCluster {
    SharedCluster::open(config()).unwrap()
}

#[test]
fn handles_and_guards_can_be_sent_to_other_threads() -> Result<()> {
    fn is_send_and_sync<T: Send + Sync>(_: &T) {}
    fn is_send<T: Send>(_: &T) {}

    let cluster = open();
    is_send_and_sync(&cluster);
    let reply = cluster.set("sent", 1);
    is_send(&reply);
    reply.wait()?;
    let list = cluster.lrange::<String>("sent-list", 0, -1);
    is_send(&list);
    let tx = cluster.transaction();
    is_send(&tx);
    let count = tx.incr("sent");
    is_send(&count);
    thread::scope(|scope| scope.spawn(move || tx.commit().wait()).join().unwrap())?;
    assert_eq!(count.wait()?, 2);
    assert_eq!(list.wait::<Vec<_>>()?, [""; 0]);
    Ok(())
}

#[test]
fn every_thread_gets_its_own_replies_whichever_nodes_they_come_from() -> Result<()> {
    let cluster = open();
    threads(64, |thread| {
        let key = |n: usize| format!("own:{thread}:{n}");
        for round in 0..20 {
            // One by one, and several in any order.
            let value = format!("{thread} {round}");
            cluster.set(key(round), &value).wait()?;
            assert_eq!(cluster.get::<String>(key(round)).wait()?, value);
            let many: Vec<_> = (0..10).map(|n| (n, cluster.incrby(key(100 + n), n as i64 + 1))).collect();
            for (n, reply) in many.into_iter().rev() {
                assert_eq!(reply.wait()?, (round as i64 + 1) * (n as i64 + 1));
            }
        }
        Ok(())
    })?;
    assert_eq!((cluster.outstanding(), cluster.stats().unseen_errors, cluster.stats().redirects), (0, 0, 0));
    assert_eq!(cluster.stats().connections, 3);
    Ok(())
}

#[test]
fn commands_in_parts_and_to_all_nodes_are_put_together_for_each_thread() -> Result<()> {
    let cluster = open();
    threads(16, |thread| {
        let keys: Vec<String> = (0..20).map(|n| format!("parts:{thread}:{n}")).collect();
        for round in 0..20 {
            let pairs: Vec<(&String, String)> = keys.iter().map(|key| (key, format!("{key}={round}"))).collect();
            cluster.mset(&pairs).wait()?;
            let values: Vec<String> = cluster.mget(&keys).wait()?;
            assert!(values.iter().zip(&pairs).all(|(value, pair)| *value == pair.1));
            assert_eq!(cluster.exists(&keys).wait()?, 20);
            assert_eq!(cluster.del(&keys[..5]).wait()?, 5);
            assert!(cluster.dbsize().wait()? >= 15);
        }
        Ok(())
    })
}

#[test]
fn commands_of_one_thread_for_one_slot_run_in_their_order() -> Result<()> {
    let cluster = open();
    threads(16, |thread| {
        let key = format!("order:{thread}");
        for n in 0..200 {
            cluster.rpush(&key, n).detach();
        }
        let list: Vec<u32> = cluster.lrange(&key, 0, -1).wait()?;
        assert!(list.iter().copied().eq(0..200));
        Ok(())
    })
}

#[test]
fn transactions_are_sent_in_one_piece_whatever_others_do() -> Result<()> {
    let cluster = open();
    threads(16, |thread| {
        for round in 1..=50 {
            let tx = cluster.transaction();
            let a = tx.incr("{piece}:a");
            let b = tx.incr("{piece}:b");
            tx.commit().wait()?;
            assert_eq!(a.wait()?, b.wait()?);
            let own = cluster.transaction();
            let count = own.incr(format!("piece:{thread}"));
            let text = own.command::<String>("ECHO", round);
            own.commit().wait()?;
            assert_eq!((count.wait()?, text.wait()?), (round, round.to_string()));
        }
        Ok(())
    })?;
    assert_eq!(cluster.get::<u64>("{piece}:a").wait()?, 800);
    // What fails, fails as on a cluster.
    let tx = cluster.transaction();
    let a = tx.incr("piece-one");
    let b = tx.incr("piece-two");
    assert_eq!(tx.commit().wait().unwrap_err().code(), Some("CROSSSLOT"));
    assert!(matches!((a.wait(), b.wait()), (Err(_), Err(error)) if error.code() == Some("CROSSSLOT")));
    let tx = cluster.transaction();
    let queued = tx.incr("piece-three");
    drop(tx);
    assert!(matches!(queued.wait(), Err(Error::NotCommitted)));
    assert_eq!(cluster.exists("piece-three").wait()?, 0);
    Ok(())
}

#[test]
fn what_others_would_feel_is_refused_by_name_and_other_names_are_looked_up() -> Result<()> {
    let cluster = open();
    for name in ["BLPOP", "WAIT", "CLIENT SETNAME", "SELECT", "SUBSCRIBE", "MULTI", "WATCH", "READONLY", "SCAN"] {
        let error = cluster.command::<Value>(name, ("a", 0)).wait().unwrap_err();
        assert!(matches!(error, Error::Refused(_)), "{name}: {error}");
    }
    threads(16, |thread| {
        let key = format!("named:{thread}");
        cluster.command::<()>("SET", (&key, thread)).wait()?;
        assert_eq!(cluster.command::<usize>("GETEX", &key).wait()?, thread);
        // One of two words; without a policy that counts it is an error.
        assert_eq!(cluster.command::<i64>("OBJECT FREQ", &key).wait().unwrap_err().code(), Some("ERR"));
        // Its keys are asked for each time.
        let sort = cluster.command::<i64>("SORT", ("named-none", "STORE", "{named-none}:to")).wait();
        assert_eq!(sort?, 0);
        assert_eq!(cluster.command::<String>("EVAL", ("return KEYS[1]", 1, &key)).wait()?, key);
        assert!(cluster.command::<Value>("NOSUCHCOMMAND", &key).wait().unwrap_err().code().is_some());
        Ok(())
    })?;
    assert_eq!(cluster.outstanding(), 0);
    Ok(())
}

#[derive(Debug)]
struct Bomb;

impl FromReply for Bomb {
    fn from_reply(_: Frame<'_>) -> Result<Self> {
        std::panic::resume_unwind(Box::new("a type that cannot be decoded"))
    }
}

#[test]
fn threads_that_panic_time_out_or_forget_harm_no_other() -> Result<()> {
    let cluster = open();
    let (incr, limit) = ("return redis.call('INCR', KEYS[1])", Duration::from_micros(50));
    threads(32, |thread| {
        let mut issued = 0;
        for round in 0..40 {
            let key = format!("harm:{thread}:{}", round % 7);
            match (thread % 4, round % 4) {
                (0, _) => {
                    cluster.set(&key, "x").wait()?;
                    let caught = catch_unwind(AssertUnwindSafe(|| cluster.get::<Bomb>(&key).wait()));
                    assert!(caught.is_err());
                }
                (1, _) => match cluster.eval::<i64>(incr, format!("harm:{thread}"), ()).wait_timeout(limit) {
                    Ok(n) => {
                        issued += 1;
                        assert_eq!(n, issued);
                    }
                    Err(WaitError::Timeout(reply)) => {
                        issued += 1;
                        match round % 3 {
                            0 => assert_eq!(reply.wait()?, issued),
                            1 => reply.detach(),
                            _ => drop(reply),
                        }
                    }
                    Err(WaitError::Failed(error)) => return Err(error),
                },
                (2, 0) => std::mem::forget(cluster.incr("harm")),
                (2, 1) => drop(cluster.incr("harm")),
                (2, 2) => cluster.incr("harm").detach(),
                _ => {
                    let text = format!("{thread} {round}");
                    cluster.set(&key, &text).wait()?;
                    assert_eq!(cluster.get::<String>(&key).wait()?, text);
                }
            }
        }
        Ok(())
    })?;
    cluster.sync()?;
    assert_eq!((cluster.outstanding(), cluster.stats().unseen_errors), (0, 0));
    for thread in (1..32).step_by(4) {
        assert_eq!(cluster.get::<u64>(format!("harm:{thread}")).wait()?, 40);
    }
    Ok(())
}

/// Decoded by asking the cluster something else.
struct Asking(String);

thread_local! {
    static CLUSTER: std::cell::RefCell<Option<SharedCluster>> = const { std::cell::RefCell::new(None) };
}

impl FromReply for Asking {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let key = String::from_reply(frame)?;
        CLUSTER.with_borrow(|cluster| cluster.as_ref().unwrap().get(key).wait().map(Asking))
    }
}

#[test]
fn a_type_may_use_the_same_cluster_while_it_is_decoded() -> Result<()> {
    let cluster = open();
    cluster.mset([("decoded:one", "decoded:two"), ("decoded:two", "there")]).wait()?;
    CLUSTER.set(Some(cluster.clone()));
    assert_eq!(cluster.get::<Asking>("decoded:one").wait()?.0, "there");
    CLUSTER.set(None);
    Ok(())
}

#[test]
fn an_error_that_nobody_saw_is_told_once_by_sync() -> Result<()> {
    let cluster = open();
    cluster.set("unseen", "text").wait()?;
    drop(cluster.incr("unseen"));
    cluster.incr("unseen").detach();
    cluster.lrange::<String>("unseen", 0, 1).detach();
    assert_eq!(cluster.sync().unwrap_err().code(), Some("ERR"));
    assert_eq!(cluster.stats().unseen_errors, 0);
    cluster.sync()
}

#[test]
fn flush_sends_what_was_given_up_and_dials_for_it() -> Result<()> {
    let (cluster, other) = (open(), open());
    for n in 0..50 {
        cluster.set(format!("flushed:{n}"), n).detach();
    }
    cluster.flush()?;
    support::until("all of them are there", || {
        let keys: Vec<String> = (0..50).map(|n| format!("flushed:{n}")).collect();
        Ok(other.exists(&keys).wait()? == 50)
    })
}

#[test]
fn a_handle_can_be_asked_whether_a_wait_would_block() -> Result<()> {
    let cluster = open();
    cluster.set("ready", "yes").wait()?;
    let one = cluster.get::<String>("ready");
    support::until("the reply is here", || one.is_ready())?;
    assert_eq!(one.wait()?, "yes");
    // Of several parts, and of a transaction.
    cluster.mget(["ready", "ready-2", "ready-3", "ready-4"]).wait::<Vec<Option<String>>>()?;
    let keys = ["ready", "ready-2", "ready-3", "ready-4"];
    let many = cluster.exists(keys);
    support::until("all parts are here", || many.is_ready())?;
    assert_eq!(many.wait()?, 1);
    let tx = cluster.transaction();
    let queued = tx.get::<String>("ready");
    let commit = tx.commit();
    support::until("the transaction is here", || queued.is_ready())?;
    commit.wait()?;
    assert_eq!(queued.wait()?, "yes");
    Ok(())
}

#[test]
fn lists_maps_and_nil_are_read_as_on_a_cluster() -> Result<()> {
    let cluster = open();
    cluster.rpush("lists", [1, 2, 3]).wait()?;
    let mut list = cluster.lrange::<i64>("lists", 0, -1);
    assert_eq!(list.len()?, Some(3));
    assert_eq!(list.next().transpose()?, Some(1));
    assert_eq!(list.wait::<Vec<_>>()?, [2, 3]);
    cluster.hset("lists-map", [("x", 1), ("y", 2)]).wait()?;
    let map: HashMap<String, i64> = cluster.hgetall("lists-map").wait()?;
    assert_eq!((map["x"], map["y"]), (1, 2));
    let map: HashMap<String, i64> = cluster.hgetall::<String, i64>("lists-map").wait_as()?;
    assert_eq!(map.len(), 2);
    assert!(cluster.get::<Option<String>>("lists-none").wait()?.is_none());
    assert!(matches!(cluster.get::<String>("lists-none").wait(), Err(Error::Nil)));
    assert!(cluster.lrange::<String>("lists-map", 0, -1).wait::<Vec<_>>().unwrap_err().code() == Some("WRONGTYPE"));
    Ok(())
}

#[test]
fn ten_thousand_handles_and_a_small_queue_run_in_step() -> Result<()> {
    let mut urls = NODES.urls().into_iter();
    let base = support::config_for(&urls.next().unwrap()).max_outstanding(16);
    let cluster = SharedCluster::open(base)?;
    threads(8, |thread| {
        let key = |n: usize| format!("small:{thread}:{}", n % 5);
        let replies: Vec<_> = (0..1250).map(|n| cluster.incr(key(n))).collect();
        for (n, reply) in replies.into_iter().enumerate() {
            assert_eq!(reply.wait()?, n as i64 / 5 + 1);
            assert!(cluster.outstanding() <= 3 * 16 + 8);
        }
        Ok(())
    })
}

#[test]
fn reads_go_to_replicas_when_they_may() -> Result<()> {
    let cluster = SharedCluster::open(config().read_from(ReadFrom::Replica))?;
    cluster.set("replica", "there").wait()?;
    threads(8, |_| {
        support::until("the replica has it", || Ok(cluster.get::<Option<String>>("replica").wait()?.is_some()))?;
        for _ in 0..50 {
            assert_eq!(cluster.get::<String>("replica").wait()?, "there");
        }
        Ok(())
    })?;
    assert!(cluster.stats().connections > 1);
    Ok(())
}

#[test]
fn a_cluster_is_turned_into_one_that_threads_share() -> Result<()> {
    let cluster = Cluster::open(config())?;
    cluster.set("turned", 1).detach();
    std::mem::forget(cluster.incr("turned"));
    let shared = SharedCluster::try_from(cluster)?;
    assert_eq!(shared.get::<i64>("turned").wait()?, 2);
    let clone = shared.clone();
    drop(shared);
    assert_eq!(clone.incr("turned").wait()?, 3);
    assert!(format!("{clone:?}").starts_with("SharedCluster"));
    Ok(())
}

#[test]
fn what_was_issued_runs_although_the_last_clone_is_dropped() -> Result<()> {
    let cluster = open();
    for n in 0..30 {
        cluster.set(format!("dropped:{n}"), n).detach();
    }
    drop(cluster);
    let keys: Vec<String> = (0..30).map(|n| format!("dropped:{n}")).collect();
    assert_eq!(open().exists(&keys).wait()?, 30);
    Ok(())
}

#[test]
fn a_generic_program_runs_on_it() -> Result<()> {
    fn visit<C: StringCommands>(on: C) -> C::Reply<i64> {
        on.incr("generic")
    }
    let cluster = open();
    assert_eq!(visit(&cluster).wait()?, 1);
    assert_eq!(visit(cluster.idempotent()).wait()?, 2);
    let tx = cluster.transaction();
    let third = visit(&tx);
    tx.commit().wait()?;
    assert_eq!(third.wait()?, 3);
    Ok(())
}
