//! What a cluster costs at most, in time and in memory, and what is kept from the servers.

mod support;

use std::sync::atomic::Ordering;
use std::time::Duration;

use redefer::cluster::Cluster;
use redefer::prelude::*;
use redefer::{Result, WaitError};
use support::nodes::*;
use support::{until, within};

/// For what would never end, or only after very many response timeouts.
const LIMIT: Duration = Duration::from_secs(60);

/// Two nodes, each with half of the slots: `bar` is the first one's, `foo` the second one's.
fn two() -> [Node; 2] {
    let nodes = [Node::start(), Node::start()];
    let half = |first: u16, last: u16, port: u16| {
        format!("*3\r\n:{first}\r\n:{last}\r\n*3\r\n$9\r\n127.0.0.1\r\n:{port}\r\n$2\r\nid\r\n")
    };
    let all = ["*2\r\n", &half(0, 8191, nodes[0].port), &half(8192, 16_383, nodes[1].port)].concat();
    nodes.iter().for_each(|node| *node.slots.lock().unwrap() = all.clone());
    nodes
}

fn in_a_hurry(node: &Node) -> Cluster {
    Cluster::open(config(node).timeout(Duration::from_secs(1))).unwrap()
}

#[test]
fn a_wait_does_not_wait_for_nodes_that_do_not_tell_the_topology() {
    let [a, b] = two();
    // Neither the time to connect nor that of a connection's end is added to each wait.
    let linger = Duration::from_secs(1800);
    let connect_timeout = Duration::from_secs(1800);
    let config = config(&a).timeout(Duration::from_secs(1)).linger(linger).connect_timeout(connect_timeout);
    within(LIMIT, move || {
        let cluster = Cluster::open(config).unwrap();
        for node in [&a, &b] {
            node.does(|_| Say::Hang);
            node.slots.lock().unwrap().clear();
        }
        for _ in 0..3 {
            assert!(matches!(cluster.get::<String>("bar").wait(), Err(Error::Timeout)));
            let waited = cluster.get::<String>("foo").wait_timeout(Duration::from_millis(10));
            let Err(WaitError::Timeout(reply)) = waited else { panic!("{waited:?}") };
            reply.detach();
        }
        // The end of the connections is another matter.
        std::mem::forget(cluster);
    });
}

#[test]
fn handles_that_are_dropped_do_not_wait_for_what_never_ends() {
    let [a, b] = two();
    within(LIMIT, move || {
        let cluster = in_a_hurry(&a);
        for node in [&a, &b] {
            node.does(|_| Say::Hang);
        }
        // Of several nodes, and without end.
        drop(BlockingKeyCommands::wait(&cluster, 1, None));
        assert_eq!(cluster.outstanding(), 2);
    });
}

#[test]
fn handles_in_parts_dropped_on_dead_nodes_cost_one_timeout_for_each_node() {
    let [a, b] = two();
    within(LIMIT, move || {
        let cluster = in_a_hurry(&a);
        for node in [&a, &b] {
            node.does(|_| Say::Hang);
        }
        let sizes: Vec<_> = (0..1000).map(|_| cluster.dbsize()).collect();
        let deleted: Vec<_> = (0..1000).map(|_| cluster.del(["foo", "bar"])).collect();
        drop((sizes, deleted));
        assert_eq!(cluster.outstanding(), 4000);
    });
}

#[test]
fn handles_dropped_behind_a_slot_that_moves_cost_one_timeout() {
    let [a, b] = two();
    within(LIMIT, move || {
        let cluster = in_a_hurry(&a);
        let mut moved = Some(b.moved("bar"));
        a.does(move |_| moved.take().unwrap_or(Say::Hang));
        let (moved, silent) = (cluster.get::<String>("bar"), cluster.get::<String>("bar"));
        let is_told = || moved.is_ready().map(|_| cluster.stats().redirects == 1);
        until("the first is told that the slot has moved", is_told).unwrap();
        let behind: Vec<_> = (0..1000).map(|_| cluster.get::<String>("bar")).collect();
        drop(behind);
        drop((moved, silent));
    });
}

#[test]
fn transactions_are_bounded_like_other_commands() -> Result<()> {
    let [a, _b] = two();
    a.does(|words| match &*words[0] {
        "MULTI" => say("+OK"),
        "EXEC" => say("*1\r\n:1"),
        _ => say("+QUEUED"),
    });
    let cluster = Cluster::open(config(&a).max_outstanding(30))?;
    for _ in 0..1000 {
        let tx = cluster.transaction();
        tx.incr("bar").detach();
        tx.commit().detach();
        // Each takes three places.
        assert!(cluster.outstanding() <= 10, "{}", cluster.outstanding());
    }
    cluster.sync()
}

#[test]
fn a_key_or_a_pattern_called_help_is_no_subcommand() -> Result<()> {
    let [a, b] = two();
    let info = |name: &str, first, last, step| {
        format!("*1\r\n*6\r\n${}\r\n{name}\r\n:3\r\n*0\r\n:{first}\r\n:{last}\r\n:{step}\r\n", name.len())
    };
    for node in [&a, &b] {
        node.does(move |words| match &*words[0] {
            "COMMAND" => Say::Bytes(info("set", 1, 1, 1)),
            "KEYS" => say("*1\r\n+help"),
            _ => say("+OK"),
        });
    }
    let cluster = Cluster::open(config(&a))?;
    assert_eq!(cluster.keys::<String>("help").wait::<Vec<_>>()?, ["help", "help"]);
    // It goes to the node of its slot, and nowhere else.
    for n in 0..4 {
        cluster.command::<()>("set", ("help", n)).wait()?;
        cluster.command::<()>("SET", ("help", n)).wait()?;
    }
    let sets = |node: &Node| node.log().iter().filter(|line| line.to_ascii_uppercase().starts_with("SET")).count();
    assert_eq!(sets(&a).min(sets(&b)), 0);
    assert_eq!(sets(&a).max(sets(&b)), 8);
    for name in ["AUTH", "SELECT", "SWAPDB"] {
        assert!(matches!(cluster.command::<()>(name, "help").wait(), Err(Error::Refused(_))), "{name}");
    }
    cluster.command::<()>("CONFIG HELP", ()).wait()
}

#[test]
fn a_divided_command_that_a_server_would_refuse_is_not_sent_in_parts() -> Result<()> {
    let [a, b] = two();
    for node in [&a, &b] {
        node.does(|words| match &*words[0] {
            "COMMAND" => Say::Bytes("*1\r\n*6\r\n$4\r\nmset\r\n:-3\r\n*0\r\n:1\r\n:-1\r\n:2\r\n".to_owned()),
            _ => say("+OK"),
        });
    }
    let cluster = Cluster::open(config(&a))?;
    let odd = cluster.command::<()>("MSET", ("foo", "1", "bar", "2", "foo")).wait();
    assert!(matches!(odd, Err(Error::Argument(_))), "{odd:?}");
    cluster.sync()?;
    let sent = |node: &Node| node.log().iter().filter(|line| line.starts_with("MSET")).count();
    assert_eq!((sent(&a), sent(&b)), (0, 0));
    cluster.command::<()>("MSET", ("foo", "1", "bar", "2")).wait()?;
    assert_eq!((sent(&a), sent(&b)), (1, 1));
    Ok(())
}

#[test]
fn sums_that_are_too_large_are_errors() -> Result<()> {
    let [a, b] = two();
    let most = i64::MAX;
    for node in [&a, &b] {
        node.does(move |words| match &*words[0] {
            "PUBSUB" => Say::Bytes(format!("*2\r\n+c\r\n:{most}\r\n")),
            _ => say(&format!(":{most}")),
        });
    }
    let cluster = Cluster::open(config(&a))?;
    assert!(matches!(cluster.dbsize().wait(), Err(Error::UnexpectedReply(_))));
    assert!(matches!(cluster.command::<Value>("PUBSUB NUMSUB", "c").wait(), Err(Error::UnexpectedReply(_))));
    Ok(())
}

#[test]
fn when_all_nodes_have_other_addresses_the_first_ones_are_asked() -> Result<()> {
    let gone: Vec<Node> = (0..8).map(|_| Node::start()).collect();
    let seed = Node::start();
    let mut slots = "*8\r\n".to_owned();
    for (first, node) in (0..8).map(|n| n * 2048).zip(&gone) {
        let last = first + 2047;
        slots += &format!("*3\r\n:{first}\r\n:{last}\r\n*3\r\n$9\r\n127.0.0.1\r\n:{}\r\n$2\r\nid\r\n", node.port);
    }
    *seed.slots.lock().unwrap() = slots;
    let cluster = Cluster::open(config(&seed).connect_timeout(Duration::from_secs(1)))?;
    // They take connections and say nothing, so that there is not time for all of them.
    gone.iter().for_each(|node| node.mute.store(true, Ordering::SeqCst));
    *seed.slots.lock().unwrap() = one_owner("127.0.0.1", seed.port);
    seed.end_connections();
    cluster.set("bar", 1).wait()
}

#[test]
fn a_wait_does_not_wait_for_connections_to_other_nodes() {
    let [a, b] = two();
    let config = config(&a).timeout(Duration::from_secs(1800)).connect_timeout(Duration::from_secs(1800));
    within(LIMIT, move || {
        let cluster = Cluster::open(config).unwrap();
        b.mute.store(true, Ordering::SeqCst);
        a.does(once(b.moved("bar")));
        let moved = cluster.get::<String>("bar");
        let Err(WaitError::Timeout(moved)) = moved.wait_timeout(Duration::from_millis(10)) else { panic!() };
        let Err(WaitError::Timeout(moved)) = moved.wait_timeout(Duration::from_millis(10)) else { panic!() };
        moved.detach();
        std::mem::forget(cluster);
    });
}
