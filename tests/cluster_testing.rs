//! The private cluster of the module `testing`, on its own: that it does what the tests of the client rely on.
#![cfg(all(unix, feature = "testing"))]

mod support;

use redefer::Result;
use redefer::prelude::*;
use redefer::testing::Cluster;

fn open(cluster: &Cluster, index: usize) -> Connection {
    Connection::open(support::config(cluster.node(index))).unwrap()
}

fn as_io(error: Error) -> std::io::Error {
    std::io::Error::other(error)
}

#[test]
fn a_cluster_has_primaries_with_their_slots_and_replicas() -> std::io::Result<()> {
    let cluster = Cluster::start()?;
    assert_eq!((cluster.len(), cluster.urls().len()), (6, 6));
    for index in 0..6 {
        assert_eq!(cluster.is_primary(index)?, index < 3, "{index}");
        assert!(cluster.is_up(index));
        assert_eq!(cluster.index_of(cluster.node(index).port()), Some(index));
    }
    assert_eq!([0, 5460, 5461, 10_921, 10_922, 16_383].map(|slot| cluster.owner(slot).unwrap()), [0, 0, 1, 1, 2, 2]);
    for index in 0..3 {
        assert_eq!(cluster.replicas_of(index)?, [index + 3]);
    }
    Ok(())
}

#[test]
fn replicas_take_over_by_themselves_only_when_the_cluster_is_there_and_not_if_the_test_says_so() -> std::io::Result<()>
{
    for (settings, is) in [(None, "no"), (Some("yes"), "yes")] {
        let builder = settings
            .into_iter()
            .fold(Cluster::builder(), |builder, value| builder.config("cluster-replica-no-failover", value));
        let cluster = builder.start()?;
        for index in 0..6 {
            let found = open(&cluster, index).config_get("cluster-replica-no-failover").wait::<Vec<(String, String)>>();
            assert_eq!(found.map_err(as_io)?, [("cluster-replica-no-failover".to_owned(), is.to_owned())]);
        }
    }
    Ok(())
}

#[test]
fn a_slot_is_moved_with_its_keys() -> std::io::Result<()> {
    let cluster = Cluster::builder().replicas(0).start()?;
    let slot = 12_182;
    let from = cluster.owner(slot)?;
    assert_eq!(from, 2);
    let keys: Vec<String> = (0..20).map(|n| format!("{{foo}}{n}")).collect();
    let conn = open(&cluster, from);
    keys.iter().for_each(|key| conn.set(key, key).detach());
    conn.sync().map_err(as_io)?;
    cluster.move_slot(slot, 0)?;
    assert_eq!(cluster.owner(slot)?, 0);
    let values: Vec<String> = open(&cluster, 0).mget(&keys).wait().map_err(as_io)?;
    assert_eq!(values, keys);
    assert_eq!(conn.get::<String>("foo").wait().unwrap_err().code(), Some("MOVED"));

    // Half of them on their way.
    cluster.begin_move(slot, 0, 1)?;
    assert_eq!(cluster.move_keys(slot, 0, 1, 8)?, 8);
    let conn = open(&cluster, 0);
    let codes = keys.iter().map(|key| conn.get::<String>(key).wait()).collect::<Vec<Result<String>>>();
    assert_eq!(codes.iter().filter(|reply| reply.is_ok()).count(), 12);
    assert!(codes.iter().filter_map(|reply| reply.as_ref().err()).all(|error| error.code() == Some("ASK")));
    Ok(())
}

#[test]
fn nodes_fail_over_come_back_come_and_go() -> std::io::Result<()> {
    let mut cluster = Cluster::builder().node_timeout(std::time::Duration::from_secs(1)).start()?;
    cluster.fail_over(3)?;
    assert_eq!((cluster.owner(0)?, cluster.is_primary(0)?), (3, false));

    cluster.kill(1);
    cluster.wait_until_agreed()?;
    assert_eq!((cluster.owner(6000)?, cluster.is_up(1)), (4, false));
    cluster.restart(1)?;
    cluster.wait_until_agreed()?;
    assert!(!cluster.is_primary(1)?);

    let new = cluster.add_node()?;
    assert_eq!(new, 6);
    cluster.move_slot(0, new)?;
    assert_eq!(cluster.owner(0)?, new);
    cluster.move_slot(0, 3)?;
    cluster.remove_node(new)?;
    assert_eq!(cluster.urls().len(), 6);
    Ok(())
}

#[test]
fn slots_are_migrated_by_the_server_where_it_can() -> std::io::Result<()> {
    let cluster = Cluster::builder().replicas(0).start()?;
    let server = cluster.node(0);
    if server.name() == "valkey" && server.version() >= (9, 0, 0) {
        cluster.migrate_slot(12_182, 0)?;
        assert_eq!(cluster.owner(12_182)?, 0);
    } else {
        cluster.migrate_slot(12_182, 0).unwrap_err();
    }
    Ok(())
}
