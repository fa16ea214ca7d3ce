//! The iterators of the SCAN family over servers that start anew between two pages: nothing that stays is missed.
#![cfg(all(unix, feature = "testing"))]

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use redefer::cluster::{Cluster, SharedCluster, slot_of};
use redefer::commands::ScanOptions;
use redefer::prelude::*;
use redefer::{Reconnect, Result, testing};

/// So many keys of one slot, and as many fields and members of a key of each kind.
const MANY: usize = 2000;

/// Every write is on disk when it is answered.
const DURABLE: [(&str, &str); 2] = [("appendonly", "yes"), ("appendfsync", "always")];

fn key(n: usize) -> String {
    format!("{{one}}{n}")
}

fn fill<E>(on: E) -> Result<()>
where
    E: StringCommands + HashCommands + SetCommands + SortedSetCommands + Copy,
{
    on.mset((0..MANY).map(|n| (key(n), n)).collect::<Vec<_>>()).wait()?;
    on.hset("{one}hash", (0..MANY).map(|n| (key(n), n)).collect::<Vec<_>>()).wait()?;
    on.sadd("{one}set", (0..MANY).map(key).collect::<Vec<_>>()).wait()?;
    on.zadd("{one}zset", (0..MANY).map(|n| (n as f64, key(n))).collect::<Vec<_>>()).wait()?;
    Ok(())
}

type Names<'s> = Box<dyn Iterator<Item = Result<String>> + 's>;

fn options() -> ScanOptions {
    ScanOptions::new().count(10)
}

/// The scans of what one key has.
fn of_keys<'s, E: ScanCommands + 's>(on: E) -> Vec<Names<'s>> {
    vec![
        Box::new(on.hscan_with::<String, usize>("{one}hash", options()).map(|field| Ok(field?.0))),
        Box::new(on.sscan_with("{one}set", options())),
        Box::new(on.zscan_with::<String>("{one}zset", options()).map(|member| Ok(member?.0))),
    ]
}

/// Half of each scan, then something, and the rest: all that is there.
fn halved(mut scans: Vec<Names<'_>>, between: impl FnOnce() -> Result<()>) -> Result<()> {
    let mut found = Vec::new();
    for scan in &mut scans {
        found.push(scan.take(MANY / 2).collect::<Result<BTreeSet<_>>>()?);
    }
    between()?;
    for (scan, mut found) in scans.into_iter().zip(found) {
        found.append(&mut scan.collect::<Result<_>>()?);
        let missed = (0..MANY).filter(|n| !found.contains(&key(*n))).count();
        assert_eq!(missed, 0, "of {MANY}");
    }
    Ok(())
}

#[test]
fn a_server_that_has_started_anew_is_asked_from_the_beginning() -> Result<()> {
    for shares in [false, true] {
        let server = support::server_with(DURABLE);
        let conn = Connection::open(support::config(&server).reconnect(Reconnect::backoff().attempts(100)))?;
        fill(&conn)?;
        let shared = shares
            .then(|| {
                Connection::open(support::config(&server).reconnect(Reconnect::backoff().attempts(100)))?.into_shared()
            })
            .transpose()?;
        let scans = match &shared {
            Some(shared) => {
                of_keys(shared).into_iter().chain([Box::new(shared.scan_with(options())) as Names<'_>]).collect()
            }
            None => of_keys(&conn).into_iter().chain([Box::new(conn.scan_with(options())) as Names<'_>]).collect(),
        };
        halved(scans, || {
            server.kill();
            server.restart()?;
            // By another command there is a connection again before the next page is asked for.
            support::until("the server is back", || {
                Ok(match &shared {
                    Some(shared) => shared.ping().wait().is_ok() && shared.stats().reconnects > 0,
                    None => conn.ping().wait().is_ok() && conn.stats().reconnects > 0,
                })
            })
        })?;
    }
    Ok(())
}

#[test]
fn a_primary_that_has_started_anew_is_asked_from_the_beginning() -> Result<()> {
    // Nothing of it is given up while it is down for a moment.
    let nodes = testing::Cluster::builder().replicas(0).node_timeout(Duration::from_secs(30));
    let nodes = DURABLE.into_iter().fold(nodes, |nodes, (key, value)| nodes.config(key, value)).start()?;
    let owner = nodes.owner(slot_of("{one}"))?;
    let single = Cluster::open(support::config_for(&nodes.urls()[0]))?;
    let shared = SharedCluster::open(support::config_for(&nodes.urls()[0]))?;
    fill(&single)?;
    let mut scans = of_keys(&single);
    scans.extend(of_keys(&shared));
    scans.push(Box::new(single.scan_with(options())));
    scans.push(Box::new(shared.scan_with(options())));
    halved(scans, || {
        nodes.kill(owner);
        nodes.restart(owner)?;
        support::until("the node is back", || {
            Ok(single.get::<i64>(key(1)).wait().is_ok() && shared.get::<i64>(key(1)).wait().is_ok())
        })
    })
}

#[test]
fn a_node_that_has_a_key_now_is_asked_from_the_beginning() -> Result<()> {
    let nodes = testing::Cluster::builder().replicas(0).start()?;
    let slot = slot_of("{one}");
    let (from, to) = (nodes.owner(slot)?, (nodes.owner(slot)? + 1) % 3);
    let single = Cluster::open(support::config_for(&nodes.urls()[0]))?;
    let shared = SharedCluster::open(support::config_for(&nodes.urls()[0]))?;
    fill(&single)?;
    let mut scans = of_keys(&single);
    scans.extend(of_keys(&shared));
    halved(scans, || {
        // The keys are there, and the slot is on its way: the old node says ASK.
        nodes.begin_move(slot, from, to)?;
        while nodes.move_keys(slot, from, to, 100)? > 0 {}
        Ok(())
    })?;
    let mut scans = of_keys(&single);
    scans.extend(of_keys(&shared));
    halved(scans, || Ok(nodes.finish_move(slot, from, to)?))
}
