//! Commands on clusters, against nodes of the test's own.
#![cfg(feature = "testing")]

mod support;

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use redefer::Result;
use redefer::commands::{
    ClusterFailover, ClusterReset, ClusterScanOptions, FlushMode, Role, ShutdownOptions, SlotMetric, SlotMigration,
    SlotOrder, SlotState,
};
use redefer::prelude::*;
use redefer::testing::Server;
use support::Private;

fn node() -> Private {
    support::server_with([
        ("cluster-enabled", "yes"),
        ("cluster-node-timeout", "2000"),
        ("repl-diskless-sync-delay", "0"),
    ])
}

fn knows(conn: &Connection, command: &str) -> Result<bool> {
    Ok(conn.command_info(command).wait::<Vec<_>>()?.iter().any(Option::is_some))
}

fn is_valkey(server: &Server, least: (u32, u32, u32)) -> bool {
    server.name() == "valkey" && server.version() >= least
}

fn code<T: std::fmt::Debug>(result: Result<T>) -> String {
    result.unwrap_err().code().unwrap_or("none").to_owned()
}

fn is_recent(time: Option<SystemTime>) -> bool {
    let age = time.and_then(|time| time.duration_since(SystemTime::now() - Duration::from_secs(60)).ok());
    age.is_some_and(|age| age < Duration::from_secs(120))
}

/// A node that has all slots.
fn one() -> Result<(Private, Connection)> {
    let server = node();
    let conn = support::open(&server);
    conn.cluster_addslotsrange([0..=16_383]).wait()?;
    support::until("the cluster is up", || Ok(conn.cluster_info().wait()?.is_ok()))?;
    Ok((server, conn))
}

#[test]
fn a_node_has_slots_or_not() -> Result<()> {
    let server = node();
    let conn = support::open(&server);
    let slots = || -> Result<_> { Ok(conn.cluster_nodes().wait()?[0].slots.clone()) };
    assert!(!conn.cluster_info().wait()?.is_ok());
    conn.cluster_addslots([1, 2, 3, 7]).wait()?;
    assert_eq!(slots()?, [1..=3, 7..=7]);
    conn.cluster_addslotsrange([10..=20, 30..=30]).wait()?;
    assert_eq!(slots()?, [1..=3, 7..=7, 10..=20, 30..=30]);
    assert_eq!(code(conn.cluster_addslots(7).wait()), "ERR");
    conn.cluster_delslots([2]).wait()?;
    conn.cluster_delslotsrange([10..=15, 17..=30]).wait().unwrap_err();
    conn.cluster_delslotsrange([10..=15, 30..=30]).wait()?;
    assert_eq!(slots()?, [1..=1, 3..=3, 7..=7, 16..=20]);
    let info = conn.cluster_info().wait()?;
    assert_eq!((info.slots_assigned(), info.known_nodes()), (Some(8), Some(1)));
    assert_eq!((info.get("cluster_state"), info.number::<u64>("cluster_known_nodes")), (Some("fail"), Some(1)));
    assert!(info.text.starts_with("cluster_state:"));
    conn.cluster_flushslots().wait()?;
    assert_eq!(slots()?, []);
    assert!(matches!(conn.cluster_addslotsrange([]).wait(), Err(Error::Argument(_))));
    Ok(())
}

#[test]
fn a_node_has_an_epoch_and_an_id() -> Result<()> {
    let server = node();
    let conn = support::open(&server);
    conn.cluster_set_config_epoch(5).wait()?;
    assert_eq!(code(conn.cluster_set_config_epoch(6).wait()), "ERR", "it has one");
    let bumped = conn.cluster_bumpepoch().wait()?;
    assert_eq!((bumped.bumped, bumped.epoch), (false, 5), "it is the highest");
    let id = conn.cluster_myid().wait()?;
    assert_eq!(id.len(), 40);
    if knows(&conn, "cluster|myshardid")? {
        assert_eq!(conn.cluster_myshardid().wait()?.len(), 40);
    }
    let nodes = conn.cluster_nodes().wait()?;
    let me = &nodes[0];
    assert!(me.is_myself() && !me.is_replica() && me.connected && me.has_flag("master"), "{me:?}");
    assert_eq!((nodes.len(), me.id.as_str(), me.port, me.config_epoch), (1, id.as_str(), server.port(), 5));
    assert_eq!((me.bus_port, me.primary.as_deref(), me.ping_sent), (server.port() + 10_000, None, None));
    conn.cluster_saveconfig().wait()?;
    conn.cluster_reset().wait()?;
    assert_eq!(conn.cluster_myid().wait()?, id);
    conn.cluster_reset_with(ClusterReset::Soft).wait()?;
    assert_eq!(conn.cluster_myid().wait()?, id);
    conn.cluster_reset_with(ClusterReset::Hard).wait()?;
    assert_ne!(conn.cluster_myid().wait()?, id);
    assert_eq!(conn.cluster_bumpepoch().wait()?.epoch, 1);
    Ok(())
}

#[test]
fn slots_have_keys() -> Result<()> {
    let (server, conn) = one()?;
    let slot = conn.cluster_keyslot("{user:1}:name").wait()?;
    assert_eq!(slot, conn.cluster_keyslot("user:1").wait()?);
    assert_eq!(conn.cluster_keyslot("foo").wait()?, 12_182);
    conn.mset([("{user:1}:name", "n"), ("{user:1}:mail", "m")]).wait()?;
    assert_eq!(conn.cluster_countkeysinslot(slot).wait()?, 2);
    let mut keys: Vec<String> = conn.cluster_getkeysinslot(slot, 10).wait()?;
    keys.sort();
    assert_eq!(keys, ["{user:1}:mail", "{user:1}:name"]);
    assert_eq!(conn.cluster_getkeysinslot::<String>(slot, 1).wait::<Vec<_>>()?.len(), 1);
    assert_eq!(conn.cluster_getkeysinslot::<String>(0, 1).wait::<Vec<_>>()?, [""; 0]);

    if knows(&conn, "cluster|slot-stats")? {
        conn.config_set(("cluster-slot-stats-enabled", "yes")).wait()?;
        conn.get::<String>("{user:1}:name").wait()?;
        let stats: Vec<_> = conn.cluster_slot_stats(slot..=slot).wait()?;
        assert_eq!((stats.len(), stats[0].0, stats[0].1.key_count), (1, slot, 2));
        assert!(stats[0].1.cpu.is_some() && stats[0].1.network_bytes_in > Some(0), "{stats:?}");
        assert!(stats[0].1.network_bytes_out > Some(0) && stats[0].1.other.is_empty(), "{stats:?}");
        for metric in
            [SlotMetric::KeyCount, SlotMetric::CpuUsec, SlotMetric::NetworkBytesIn, SlotMetric::NetworkBytesOut]
        {
            let most: Vec<_> = conn.cluster_slot_stats_by(SlotOrder::by(metric).limit(1).desc()).wait()?;
            assert_eq!(most[0].0, slot, "{metric:?}");
            let least: Vec<_> = conn.cluster_slot_stats_by(SlotOrder::by(metric).limit(2).asc()).wait()?;
            assert_eq!((least.len(), least[0].1.key_count), (2, 0), "{metric:?}");
        }
        assert_eq!(conn.cluster_slot_stats_by(SlotOrder::by(SlotMetric::KeyCount)).wait::<Vec<_>>()?.len(), 16_384);
        let by_memory = conn.cluster_slot_stats_by(SlotOrder::by(SlotMetric::MemoryBytes).limit(1).desc());
        match by_memory.wait::<Vec<_>>() {
            Ok(most) => assert_eq!(most[0].0, slot),
            // Only Redis 8.4 has it.
            Err(error) => assert_eq!(error.code(), Some("ERR")),
        }
    }
    if knows(&conn, "cluster|flushslot")? {
        conn.cluster_flushslot(slot).wait()?;
        assert_eq!(conn.cluster_countkeysinslot(slot).wait()?, 0);
        conn.set("{user:1}", 1).wait()?;
        conn.cluster_flushslot_with(slot, FlushMode::Sync).wait()?;
        conn.cluster_flushslot_with(slot, FlushMode::Async).wait()?;
        assert_eq!(conn.dbsize().wait()?, 0);
    }
    drop(server);
    Ok(())
}

#[test]
fn a_cluster_is_scanned() -> Result<()> {
    let (_server, conn) = one()?;
    if !knows(&conn, "clusterscan")? {
        return Ok(());
    }
    conn.mset((0..100).map(|n| (format!("{{tag}}:{n}"), n)).collect::<Vec<_>>()).wait()?;
    conn.rpush("{tag}:list", 1).wait()?;
    let slot = conn.cluster_keyslot("tag").wait()?;
    let scan = |options: &ClusterScanOptions| -> Result<Vec<String>> {
        let (mut all, mut cursor) = (Vec::new(), "0".to_owned());
        loop {
            let page = conn.clusterscan_with(&cursor, options).wait()?;
            all.extend(page.elements.iter().cloned());
            if page.is_last() {
                all.sort();
                return Ok(all);
            }
            cursor = page.cursor;
        }
    };
    assert_eq!(scan(&ClusterScanOptions::new().slot(slot).count(10))?.len(), 101);
    let list = ClusterScanOptions::new().slot(slot).type_("list").count(1000);
    assert_eq!(scan(&list)?, ["{tag}:list"]);
    let some = ClusterScanOptions::new().pattern("*:9?").slot(slot).count(1000);
    assert_eq!(scan(&some)?, (90..100).map(|n| format!("{{tag}}:{n}")).collect::<Vec<_>>());
    let page = conn.clusterscan::<String>("0").wait()?;
    assert!(!page.is_last() && page.cursor.contains('{'), "{page:?}");
    Ok(())
}

#[test]
fn a_connection_asks_and_reads() -> Result<()> {
    let (_server, conn) = one()?;
    conn.asking().wait()?;
    conn.readonly().wait()?;
    assert!(conn.client_info().wait()?.has_flag('r'));
    conn.readwrite().wait()?;
    assert!(!conn.client_info().wait()?.has_flag('r'));
    let plain = support::server();
    let conn = support::open(&plain);
    if plain.name() == "redis" {
        assert_eq!(code(conn.readonly().wait()), "ERR", "no cluster");
    }
    Ok(())
}

/// Two nodes that know each other: the first has all slots.
fn two() -> Result<[(Private, Connection, String); 2]> {
    let nodes = [node(), node()].map(|server| {
        let conn = support::open(&server);
        let id = conn.cluster_myid().wait();
        (server, conn, id)
    });
    let [a, b] = nodes.map(|(server, conn, id)| id.map(|id| (server, conn, id)));
    let [a, b] = [a?, b?];
    a.1.cluster_addslotsrange([0..=16_383]).wait()?;
    a.1.cluster_meet("127.0.0.1", b.0.port()).wait()?;
    b.1.cluster_meet_with("127.0.0.1", a.0.port(), a.0.port() + 10_000).wait()?;
    for conn in [&a.1, &b.1] {
        support::until("they know each other", || {
            let nodes = conn.cluster_nodes().wait()?;
            let known = nodes.len() == 2 && nodes.iter().all(|node| node.connected && !node.has_flag("handshake"));
            Ok(known && conn.cluster_info().wait()?.is_ok())
        })?;
    }
    Ok([a, b])
}

#[test]
fn nodes_know_each_other() -> Result<()> {
    let [(server, conn, id), (other_server, other, other_id)] = two()?;
    let nodes = conn.cluster_nodes().wait()?;
    let node = nodes.iter().find(|node| !node.is_myself()).expect("the other one");
    assert_eq!((node.id.as_str(), node.ip.as_str(), node.port), (other_id.as_str(), "127.0.0.1", other_server.port()));
    assert!(is_recent(node.pong_received) && node.text.starts_with(&other_id), "{node:?}");
    assert_eq!(nodes.into_iter().find(|node| node.is_myself()).map(|node| node.id), Some(id.clone()));

    support::until("they are linked both ways", || Ok(conn.cluster_links().wait::<Vec<_>>()?.len() == 2))?;
    let links: Vec<_> = conn.cluster_links().wait()?;
    assert!(links.iter().all(|link| link.node == other_id && is_recent(link.created) && link.other.is_empty()));
    let mut directions: Vec<&str> = links.iter().map(|link| link.direction.as_str()).collect();
    directions.sort();
    assert_eq!(directions, ["from", "to"]);
    assert!(links[0].events.contains('r') && links[0].send_buffer_allocated >= links[0].send_buffer_used);

    assert_eq!(conn.cluster_count_failure_reports(&other_id).wait()?, 0);
    for (state, migrating) in [(SlotState::migrating(&other_id), true), (SlotState::importing(&other_id), false)] {
        let on = if migrating { &conn } else { &other };
        let state = if migrating { state } else { SlotState::importing(&id) };
        on.cluster_setslot(5, state).wait()?;
        let me = on.cluster_nodes().wait()?.into_iter().find(|node| node.is_myself()).expect("itself");
        let want = vec![(5, if migrating { other_id.clone() } else { id.clone() })];
        let want = if migrating { (want, vec![]) } else { (vec![], want) };
        assert_eq!((me.migrating, me.importing), want);
        if is_valkey(&server, (8, 0, 0)) {
            on.cluster_setslot_timeout(5, SlotState::stable(), Duration::from_millis(100)).wait()?;
        } else {
            on.cluster_setslot(5, SlotState::stable()).wait()?;
        }
    }
    for on in [&other, &conn] {
        on.cluster_setslot(6, SlotState::node(&other_id)).wait()?;
    }
    let shards: Vec<_> = conn.cluster_shards().wait()?;
    let mine = shards.iter().find(|shard| shard.nodes.iter().any(|node| node.id == id)).expect("my shard");
    assert_eq!((shards.len(), mine.slots.as_slice()), (2, &[0..=5, 7..=16_383][..]));
    let me = &mine.nodes[0];
    assert_eq!((me.port, me.ip.as_str(), me.role.as_str()), (Some(server.port()), "127.0.0.1", "master"));
    assert_eq!((me.health.as_str(), me.endpoint.as_deref(), me.tls_port), ("online", Some("127.0.0.1"), None));
    assert_eq!(mine.id.is_some(), is_valkey(&server, (9, 1, 0)));
    assert!(mine.other.is_empty() && me.other.is_empty(), "{mine:?}");

    let slots: Vec<_> = conn.cluster_slots().wait()?;
    let found: Vec<_> = slots.iter().map(|range| (range.slots.clone(), range.primary.id.clone())).collect();
    assert_eq!(found, [(0..=5, id.clone()), (6..=6, other_id.clone()), (7..=16_383, id)]);
    assert_eq!((slots[1].primary.host.as_deref(), slots[1].primary.port), (Some("127.0.0.1"), other_server.port()));
    assert!(slots[1].replicas.is_empty() && slots[1].primary.metadata.is_empty());
    conn.config_set(("cluster-preferred-endpoint-type", "unknown-endpoint")).wait()?;
    let slots: Vec<_> = conn.cluster_slots().wait()?;
    assert_eq!(slots[0].primary.host, None);
    assert_eq!(slots[0].primary.metadata, HashMap::from([("ip".into(), "127.0.0.1".into())]));
    let shards: Vec<_> = conn.cluster_shards().wait()?;
    assert_eq!(shards[0].nodes[0].endpoint, None);

    conn.cluster_forget(&other_id).wait()?;
    assert_eq!(conn.cluster_nodes().wait()?.len(), 1);
    assert!(conn.cluster_forget("f".repeat(40)).wait().is_err());
    Ok(())
}

#[test]
fn a_replica_takes_the_place_of_its_primary() -> Result<()> {
    let [(server, conn, id), (replica_server, replica, replica_id)] = two()?;
    assert_eq!(code(conn.cluster_failover().wait()), "ERR", "it is no replica");
    assert_eq!(conn.cluster_replicas(&id).wait::<Vec<_>>()?, []);
    replica.cluster_replicate(&id).wait()?;
    let follows = |on: &Connection| -> Result<bool> {
        Ok(matches!(on.role().wait()?, Role::Replica { state, .. } if state == "connected"))
    };
    support::until("it follows", || follows(&replica))?;
    support::until("it is known", || Ok(conn.cluster_replicas(&id).wait::<Vec<_>>()?.len() == 1))?;
    let replicas: Vec<_> = conn.cluster_replicas(&id).wait()?;
    assert!(replicas[0].is_replica() && replicas[0].id == replica_id);
    assert_eq!((replicas[0].primary.as_deref(), replicas[0].port), (Some(id.as_str()), replica_server.port()));
    assert_eq!(conn.cluster_slaves(&id).wait::<Vec<_>>()?[0].id, replica_id);
    support::until("it is in the slots", || Ok(conn.cluster_slots().wait::<Vec<_>>()?[0].replicas.len() == 1))?;
    assert_eq!(conn.cluster_slots().wait::<Vec<_>>()?[0].replicas[0].id, replica_id);
    let shards: Vec<_> = conn.cluster_shards().wait()?;
    assert_eq!((shards.len(), shards[0].nodes.len()), (1, 2));

    // Reading from a replica.
    conn.set("k", "v").wait()?;
    assert_eq!(conn.wait(1, Duration::from_secs(30)).wait()?, 1);
    assert_eq!(replica.dbsize().wait()?, 1);
    assert_eq!(code(replica.get::<String>("k").wait()), "MOVED");
    replica.readonly().wait()?;
    assert_eq!(replica.get::<String>("k").wait()?, "v");
    replica.readwrite().wait()?;
    assert_eq!(code(replica.get::<String>("k").wait()), "MOVED");

    replica.cluster_failover().wait()?;
    support::until("they have changed places", || follows(&conn))?;
    // The new primary only votes for those that it knows as its replicas.
    support::until("and know it", || {
        Ok(replica.cluster_replicas(&replica_id).wait::<Vec<_>>().is_ok_and(|all| all.len() == 1))
    })?;
    conn.cluster_failover_with(ClusterFailover::Force).wait()?;
    support::until("and back", || follows(&replica))?;
    support::until("and know that", || {
        Ok(conn.cluster_replicas(&id).wait::<Vec<_>>().is_ok_and(|all| all.len() == 1))
    })?;
    replica.cluster_failover_with(ClusterFailover::Takeover).wait()?;
    support::until("and again", || follows(&conn))?;

    if is_valkey(&server, (9, 0, 0)) {
        conn.cluster_replicate_no_one().wait()?;
        assert!(matches!(conn.role().wait()?, Role::Master { .. }));
        assert_eq!(conn.dbsize().wait()?, 0);
        replica.shutdown_with(ShutdownOptions::new().save(false).now().failover())?;
    }
    Ok(())
}

#[test]
fn slots_migrate_with_their_keys() -> Result<()> {
    let [(_server, conn, id), (_other_server, other, other_id)] = two()?;
    if !knows(&conn, "cluster|migrateslots")? {
        return Ok(());
    }
    assert_eq!(conn.cluster_getslotmigrations().wait::<Vec<_>>()?, []);
    assert_eq!(code(conn.cluster_cancelslotmigrations().wait()), "ERR", "there are none");
    let slot = conn.cluster_keyslot("k").wait()?;
    conn.set("k", "v").wait()?;
    conn.cluster_migrateslots([SlotMigration::new([slot..=slot, 0..=1], &other_id)]).wait()?;
    support::until("they are there", || {
        Ok(conn.cluster_getslotmigrations().wait::<Vec<_>>()?.iter().all(|migration| migration.state == "success"))
    })?;
    let done = &conn.cluster_getslotmigrations().wait::<Vec<_>>()?[0];
    assert_eq!(
        (done.operation.as_str(), done.target_node.as_str(), done.source_node.as_str()),
        ("EXPORT", other_id.as_str(), id.as_str())
    );
    assert!(done.slot_ranges.contains("0-1") && done.name.len() == 40 && done.message.is_empty(), "{done:?}");
    assert!(is_recent(done.created) && is_recent(done.last_updated) && is_recent(done.last_acknowledged), "{done:?}");
    assert!(done.other.is_empty(), "{done:?}");
    assert_eq!(other.get::<String>("k").wait()?, "v");
    assert_eq!(code(conn.get::<String>("k").wait()), "MOVED");
    Ok(())
}

#[test]
fn cluster_commands_work_on_every_executor() -> Result<()> {
    fn ask<C: ClusterCommands>(on: C) -> C::Reply<u16> {
        on.cluster_keyslot("foo")
    }
    let (_server, conn) = one()?;
    assert_eq!(ask(&conn).wait()?, 12_182);
    let batch = conn.batch();
    let slot = ask(&batch);
    batch.finish()?;
    assert_eq!(slot.wait()?, 12_182);
    let tx = conn.transaction();
    let slot = ask(&tx);
    tx.commit().wait()?;
    assert_eq!(slot.wait()?, 12_182);
    Ok(())
}
