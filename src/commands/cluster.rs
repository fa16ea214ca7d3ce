//! Clusters: nodes and the slots that they have.

mod nodes;
mod options;

pub use nodes::*;
pub use options::*;

use std::ops::RangeInclusive;
use std::time::Duration;

use self::options::{Millis, Ranges};
use super::FlushMode;
use crate::args::{ToArg, ToArgs, cmd};
use crate::execute::Execute;
use crate::values::FromReply;

/// Commands on the cluster that a node belongs to. They are about the one node that the connection is to; nodes are
/// given by their IDs, and slots are from 0 to 16,383.
///
/// ASKING, READONLY and READWRITE change the connection, and are in [`SessionCommands`](super::SessionCommands).
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(feature = "testing")] {
/// # let server = redefer::testing::Server::builder().config("cluster-enabled", "yes").start()?;
/// # let conn = redefer::Connection::open(server.url())?;
/// use redefer::prelude::*;
///
/// conn.cluster_addslotsrange([0..=16_383]).wait()?;
/// let nodes = conn.cluster_nodes().wait()?;
/// assert_eq!(nodes[0].slots, [0..=16_383]);
/// assert_eq!(conn.cluster_keyslot("{user:1}:name").wait()?, conn.cluster_keyslot("user:1").wait()?);
/// # }
/// # Ok(())
/// # }
/// ```
pub trait ClusterCommands: Execute {
    /// Gives slots to this node that belong to none. Since 3.0.
    ///
    /// [CLUSTER ADDSLOTS](https://redis.io/docs/latest/commands/cluster-addslots/)
    fn cluster_addslots(self, slots: impl ToArgs) -> Self::Reply<()> {
        self.execute(cmd("CLUSTER").arg("ADDSLOTS").args(slots))
    }

    /// Gives ranges of slots to this node that belong to none: `[0..=5460]`. Since 7.0.
    ///
    /// [CLUSTER ADDSLOTSRANGE](https://redis.io/docs/latest/commands/cluster-addslotsrange/)
    fn cluster_addslotsrange(self, ranges: impl IntoIterator<Item = RangeInclusive<u16>>) -> Self::Reply<()> {
        self.execute(cmd("CLUSTER").arg("ADDSLOTSRANGE").args(ranges.into_iter().collect::<Ranges>()))
    }

    /// Raises the epoch of this node above all that it knows. Since 3.0.
    ///
    /// [CLUSTER BUMPEPOCH](https://redis.io/docs/latest/commands/cluster-bumpepoch/)
    fn cluster_bumpepoch(self) -> Self::Reply<BumpedEpoch> {
        self.execute(cmd("CLUSTER").arg("BUMPEPOCH"))
    }

    /// Ends all migrations of slots from this node. An error if there are none. Since Valkey 9.0.
    ///
    /// [CLUSTER CANCELSLOTMIGRATIONS](https://valkey.io/commands/cluster-cancelslotmigrations/)
    fn cluster_cancelslotmigrations(self) -> Self::Reply<()> {
        self.execute(cmd("CLUSTER").arg("CANCELSLOTMIGRATIONS"))
    }

    /// How many nodes lately said that a node is down. Since 3.0.
    ///
    /// [CLUSTER COUNT-FAILURE-REPORTS](https://redis.io/docs/latest/commands/cluster-count-failure-reports/)
    fn cluster_count_failure_reports(self, node: impl ToArg) -> Self::Reply<i64> {
        self.execute(cmd("CLUSTER").arg("COUNT-FAILURE-REPORTS").arg(node))
    }

    /// How many keys of a slot this node has. Since 3.0.
    ///
    /// [CLUSTER COUNTKEYSINSLOT](https://redis.io/docs/latest/commands/cluster-countkeysinslot/)
    fn cluster_countkeysinslot(self, slot: u16) -> Self::Reply<i64> {
        self.execute(cmd("CLUSTER").arg("COUNTKEYSINSLOT").arg(slot))
    }

    /// Makes this node forget to whom slots belong. Since 3.0.
    ///
    /// [CLUSTER DELSLOTS](https://redis.io/docs/latest/commands/cluster-delslots/)
    fn cluster_delslots(self, slots: impl ToArgs) -> Self::Reply<()> {
        self.execute(cmd("CLUSTER").arg("DELSLOTS").args(slots))
    }

    /// Makes this node forget to whom ranges of slots belong. Since 7.0.
    ///
    /// [CLUSTER DELSLOTSRANGE](https://redis.io/docs/latest/commands/cluster-delslotsrange/)
    fn cluster_delslotsrange(self, ranges: impl IntoIterator<Item = RangeInclusive<u16>>) -> Self::Reply<()> {
        self.execute(cmd("CLUSTER").arg("DELSLOTSRANGE").args(ranges.into_iter().collect::<Ranges>()))
    }

    /// Begins to put this replica in the place of its primary, which takes part in it. The reply comes at once;
    /// [`cluster_nodes`](ClusterCommands::cluster_nodes) says how it went. Since 3.0.
    ///
    /// [CLUSTER FAILOVER](https://redis.io/docs/latest/commands/cluster-failover/)
    fn cluster_failover(self) -> Self::Reply<()> {
        self.execute(cmd("CLUSTER").arg("FAILOVER"))
    }

    /// Like [`cluster_failover`](ClusterCommands::cluster_failover), without the primary.
    ///
    /// [CLUSTER FAILOVER](https://redis.io/docs/latest/commands/cluster-failover/)
    fn cluster_failover_with(self, how: ClusterFailover) -> Self::Reply<()> {
        self.execute(cmd("CLUSTER").arg("FAILOVER").arg(how))
    }

    /// Deletes all keys of a slot. Since Valkey 9.0.
    ///
    /// [CLUSTER FLUSHSLOT](https://valkey.io/commands/cluster-flushslot/)
    fn cluster_flushslot(self, slot: u16) -> Self::Reply<()> {
        self.execute(cmd("CLUSTER").arg("FLUSHSLOT").arg(slot))
    }

    /// Like [`cluster_flushslot`](ClusterCommands::cluster_flushslot), and says whether the reply waits until the
    /// memory is free.
    ///
    /// [CLUSTER FLUSHSLOT](https://valkey.io/commands/cluster-flushslot/)
    fn cluster_flushslot_with(self, slot: u16, mode: FlushMode) -> Self::Reply<()> {
        self.execute(cmd("CLUSTER").arg("FLUSHSLOT").arg(slot).arg(mode))
    }

    /// Takes all slots from this node, which must have no keys. Since 3.0.
    ///
    /// [CLUSTER FLUSHSLOTS](https://redis.io/docs/latest/commands/cluster-flushslots/)
    fn cluster_flushslots(self) -> Self::Reply<()> {
        self.execute(cmd("CLUSTER").arg("FLUSHSLOTS"))
    }

    /// Makes this node forget another one, and not get to know it again for a minute. Since 3.0.
    ///
    /// [CLUSTER FORGET](https://redis.io/docs/latest/commands/cluster-forget/)
    fn cluster_forget(self, node: impl ToArg) -> Self::Reply<()> {
        self.execute(cmd("CLUSTER").arg("FORGET").arg(node))
    }

    /// Up to `count` keys of a slot that this node has. Never nil. Since 3.0.
    ///
    /// [CLUSTER GETKEYSINSLOT](https://redis.io/docs/latest/commands/cluster-getkeysinslot/)
    fn cluster_getkeysinslot<T: FromReply>(self, slot: u16, count: u64) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("CLUSTER").arg("GETKEYSINSLOT").arg(slot).arg(count))
    }

    /// The migrations of slots that this node has or had part in, the latest first. Never nil. Since Valkey 9.0.
    ///
    /// [CLUSTER GETSLOTMIGRATIONS](https://valkey.io/commands/cluster-getslotmigrations/)
    fn cluster_getslotmigrations(self) -> Self::MultiBulk<SlotMigrationStatus> {
        self.execute_multi(cmd("CLUSTER").arg("GETSLOTMIGRATIONS"))
    }

    /// The state of the cluster, as this node sees it. Since 3.0.
    ///
    /// [CLUSTER INFO](https://redis.io/docs/latest/commands/cluster-info/)
    fn cluster_info(self) -> Self::Reply<ClusterInfo> {
        self.execute(cmd("CLUSTER").arg("INFO"))
    }

    /// The slot of a key. Since 3.0.
    ///
    /// [CLUSTER KEYSLOT](https://redis.io/docs/latest/commands/cluster-keyslot/)
    fn cluster_keyslot(self, key: impl ToArg) -> Self::Reply<u16> {
        self.execute(cmd("CLUSTER").arg("KEYSLOT").arg(key))
    }

    /// The connections of this node on the bus of the cluster. Never nil. Since 7.0.
    ///
    /// [CLUSTER LINKS](https://redis.io/docs/latest/commands/cluster-links/)
    fn cluster_links(self) -> Self::MultiBulk<ClusterLink> {
        self.execute_multi(cmd("CLUSTER").arg("LINKS"))
    }

    /// Makes this node get to know another one, by its IP address, and all that it knows. The reply comes before that.
    /// Since 3.0.
    ///
    /// [CLUSTER MEET](https://redis.io/docs/latest/commands/cluster-meet/)
    fn cluster_meet(self, ip: impl ToArg, port: u16) -> Self::Reply<()> {
        self.execute(cmd("CLUSTER").arg("MEET").arg(ip).arg(port))
    }

    /// Like [`cluster_meet`](ClusterCommands::cluster_meet), for a node whose port for the bus is not the one 10,000
    /// above its port. Since 4.0.
    ///
    /// [CLUSTER MEET](https://redis.io/docs/latest/commands/cluster-meet/)
    fn cluster_meet_with(self, ip: impl ToArg, port: u16, bus_port: u16) -> Self::Reply<()> {
        self.execute(cmd("CLUSTER").arg("MEET").arg(ip).arg(port).arg(bus_port))
    }

    /// Begins to give slots of this node to others, with all their keys. The reply comes at once;
    /// [`cluster_getslotmigrations`](ClusterCommands::cluster_getslotmigrations) says how it goes. Since Valkey 9.0.
    ///
    /// [CLUSTER MIGRATESLOTS](https://valkey.io/commands/cluster-migrateslots/)
    fn cluster_migrateslots(self, migrations: impl IntoIterator<Item = SlotMigration>) -> Self::Reply<()> {
        self.execute(cmd("CLUSTER").arg("MIGRATESLOTS").args(migrations.into_iter().collect::<Vec<_>>()))
    }

    /// The ID of this node. Since 3.0.
    ///
    /// [CLUSTER MYID](https://redis.io/docs/latest/commands/cluster-myid/)
    fn cluster_myid(self) -> Self::Reply<String> {
        self.execute(cmd("CLUSTER").arg("MYID"))
    }

    /// The ID of the shard of this node. Since 7.2.
    ///
    /// [CLUSTER MYSHARDID](https://redis.io/docs/latest/commands/cluster-myshardid/)
    fn cluster_myshardid(self) -> Self::Reply<String> {
        self.execute(cmd("CLUSTER").arg("MYSHARDID"))
    }

    /// The nodes of the cluster, as this one sees them. Since 3.0.
    ///
    /// [CLUSTER NODES](https://redis.io/docs/latest/commands/cluster-nodes/)
    fn cluster_nodes(self) -> Self::Reply<ClusterNodes> {
        self.execute(cmd("CLUSTER").arg("NODES"))
    }

    /// The replicas of a node. An error if it is no primary. Never nil. Since 5.0.
    ///
    /// [CLUSTER REPLICAS](https://redis.io/docs/latest/commands/cluster-replicas/)
    fn cluster_replicas(self, node: impl ToArg) -> Self::MultiBulk<ClusterNode> {
        self.execute_multi(cmd("CLUSTER").arg("REPLICAS").arg(node))
    }

    /// Makes this node a replica of another one. Since 3.0.
    ///
    /// [CLUSTER REPLICATE](https://redis.io/docs/latest/commands/cluster-replicate/)
    fn cluster_replicate(self, node: impl ToArg) -> Self::Reply<()> {
        self.execute(cmd("CLUSTER").arg("REPLICATE").arg(node))
    }

    /// Makes this replica an empty primary. Since Valkey 9.0.
    ///
    /// [CLUSTER REPLICATE](https://valkey.io/commands/cluster-replicate/)
    fn cluster_replicate_no_one(self) -> Self::Reply<()> {
        self.execute(cmd("CLUSTER").arg("REPLICATE").arg("NO").arg("ONE"))
    }

    /// Makes this node forget the others and its slots; a primary must have no keys, and a replica loses its own. Since
    /// 3.0.
    ///
    /// [CLUSTER RESET](https://redis.io/docs/latest/commands/cluster-reset/)
    fn cluster_reset(self) -> Self::Reply<()> {
        self.execute(cmd("CLUSTER").arg("RESET"))
    }

    /// Like [`cluster_reset`](ClusterCommands::cluster_reset), and says whether the node keeps its ID.
    ///
    /// [CLUSTER RESET](https://redis.io/docs/latest/commands/cluster-reset/)
    fn cluster_reset_with(self, how: ClusterReset) -> Self::Reply<()> {
        self.execute(cmd("CLUSTER").arg("RESET").arg(how))
    }

    /// Writes what this node knows of the cluster to its file, as it does by itself whenever that changes. Since 3.0.
    ///
    /// [CLUSTER SAVECONFIG](https://redis.io/docs/latest/commands/cluster-saveconfig/)
    fn cluster_saveconfig(self) -> Self::Reply<()> {
        self.execute(cmd("CLUSTER").arg("SAVECONFIG"))
    }

    /// Sets the epoch of a node that knows no others and has none. Since 3.0.
    ///
    /// [CLUSTER SET-CONFIG-EPOCH](https://redis.io/docs/latest/commands/cluster-set-config-epoch/)
    fn cluster_set_config_epoch(self, epoch: u64) -> Self::Reply<()> {
        self.execute(cmd("CLUSTER").arg("SET-CONFIG-EPOCH").arg(epoch))
    }

    /// Says what a slot is to be, as steps of moving it from node to node. Since 3.0.
    ///
    /// [CLUSTER SETSLOT](https://redis.io/docs/latest/commands/cluster-setslot/)
    fn cluster_setslot(self, slot: u16, state: SlotState) -> Self::Reply<()> {
        self.execute(cmd("CLUSTER").arg("SETSLOT").arg(slot).options(state))
    }

    /// Like [`cluster_setslot`](ClusterCommands::cluster_setslot), and says how long to wait for the replicas to agree,
    /// in milliseconds, rounded up and at least one; 2 seconds, if not given. Since Valkey 8.0.
    ///
    /// [CLUSTER SETSLOT](https://valkey.io/commands/cluster-setslot/)
    fn cluster_setslot_timeout(self, slot: u16, state: SlotState, timeout: Duration) -> Self::Reply<()> {
        self.execute(cmd("CLUSTER").arg("SETSLOT").arg(slot).options(state).arg("TIMEOUT").arg(Millis(timeout)))
    }

    /// The shards of the cluster: their slots and nodes. Never nil. Since 7.0.
    ///
    /// [CLUSTER SHARDS](https://redis.io/docs/latest/commands/cluster-shards/)
    fn cluster_shards(self) -> Self::MultiBulk<ClusterShard> {
        self.execute_multi(cmd("CLUSTER").arg("SHARDS"))
    }

    /// The replicas of a node. Deprecated since 5.0: [`cluster_replicas`](ClusterCommands::cluster_replicas) does the
    /// same. Since 3.0.
    ///
    /// [CLUSTER SLAVES](https://redis.io/docs/latest/commands/cluster-slaves/)
    fn cluster_slaves(self, node: impl ToArg) -> Self::MultiBulk<ClusterNode> {
        self.execute_multi(cmd("CLUSTER").arg("SLAVES").arg(node))
    }

    /// What the slots of a range are used for, those of other nodes left out. Never nil. Since Redis 8.2 and Valkey
    /// 8.0.
    ///
    /// [CLUSTER SLOT-STATS](https://redis.io/docs/latest/commands/cluster-slot-stats/)
    fn cluster_slot_stats(self, range: RangeInclusive<u16>) -> Self::MultiBulk<(u16, SlotStats)> {
        self.execute_multi(cmd("CLUSTER").arg("SLOT-STATS").arg("SLOTSRANGE").arg(*range.start()).arg(*range.end()))
    }

    /// What the slots of this node are used for, in the order of some number. Never nil. Since Redis 8.2 and Valkey
    /// 8.0.
    ///
    /// [CLUSTER SLOT-STATS](https://redis.io/docs/latest/commands/cluster-slot-stats/)
    fn cluster_slot_stats_by(self, order: SlotOrder) -> Self::MultiBulk<(u16, SlotStats)> {
        self.execute_multi(cmd("CLUSTER").arg("SLOT-STATS").options(order))
    }

    /// Which nodes have which slots. Never nil. Since 3.0; deprecated since 7.0 by Redis, which has
    /// [`cluster_shards`](ClusterCommands::cluster_shards) for it.
    ///
    /// [CLUSTER SLOTS](https://redis.io/docs/latest/commands/cluster-slots/)
    fn cluster_slots(self) -> Self::MultiBulk<ClusterSlots> {
        self.execute_multi(cmd("CLUSTER").arg("SLOTS"))
    }

    /// A page of the keys of the cluster, from a cursor on: `"0"` to begin with, then the one of the page before. Each
    /// call goes to the node that has the slot named in the cursor; others answer `MOVED`. Since Valkey 9.1.
    ///
    /// [CLUSTERSCAN](https://valkey.io/commands/clusterscan/)
    fn clusterscan<T: FromReply>(self, cursor: impl ToArg) -> Self::Reply<ClusterPage<T>> {
        self.execute(cmd("CLUSTERSCAN").arg(cursor))
    }

    /// Like [`clusterscan`](ClusterCommands::clusterscan), with options, which are to be the same for each page.
    ///
    /// [CLUSTERSCAN](https://valkey.io/commands/clusterscan/)
    fn clusterscan_with<T: FromReply>(
        self,
        cursor: impl ToArg,
        options: &ClusterScanOptions,
    ) -> Self::Reply<ClusterPage<T>> {
        self.execute(cmd("CLUSTERSCAN").arg(cursor).options(options))
    }
}

#[cfg(test)]
mod tests {
    use super::super::recorder::{Recorder, sent};
    use super::*;

    impl ClusterCommands for &Recorder {}

    #[test]
    fn cluster_commands_are_encoded() {
        assert_eq!(sent(|on| on.cluster_addslots([1, 2])), "CLUSTER ADDSLOTS 1 2");
        assert_eq!(sent(|on| on.cluster_addslots(())), "refused");
        assert_eq!(sent(|on| on.cluster_addslotsrange([0..=5, 7..=7])), "CLUSTER ADDSLOTSRANGE 0 5 7 7");
        assert_eq!(sent(|on| on.cluster_addslotsrange([])), "refused");
        assert_eq!(sent(|on| on.cluster_bumpepoch()), "CLUSTER BUMPEPOCH");
        assert_eq!(sent(|on| on.cluster_cancelslotmigrations()), "CLUSTER CANCELSLOTMIGRATIONS");
        assert_eq!(sent(|on| on.cluster_count_failure_reports("id")), "CLUSTER COUNT-FAILURE-REPORTS id");
        assert_eq!(sent(|on| on.cluster_countkeysinslot(5)), "CLUSTER COUNTKEYSINSLOT 5");
        assert_eq!(sent(|on| on.cluster_delslots(5)), "CLUSTER DELSLOTS 5");
        assert_eq!(sent(|on| on.cluster_delslotsrange([0..=5])), "CLUSTER DELSLOTSRANGE 0 5");
        assert_eq!(sent(|on| on.cluster_failover()), "CLUSTER FAILOVER");
        assert_eq!(sent(|on| on.cluster_failover_with(ClusterFailover::Force)), "CLUSTER FAILOVER FORCE");
        assert_eq!(sent(|on| on.cluster_failover_with(ClusterFailover::Takeover)), "CLUSTER FAILOVER TAKEOVER");
        assert_eq!(sent(|on| on.cluster_flushslot(5)), "CLUSTER FLUSHSLOT 5");
        assert_eq!(sent(|on| on.cluster_flushslot_with(5, FlushMode::Async)), "CLUSTER FLUSHSLOT 5 ASYNC");
        assert_eq!(sent(|on| on.cluster_flushslots()), "CLUSTER FLUSHSLOTS");
        assert_eq!(sent(|on| on.cluster_forget("id")), "CLUSTER FORGET id");
        assert_eq!(sent(|on| on.cluster_getkeysinslot::<String>(5, 10)), "CLUSTER GETKEYSINSLOT 5 10");
        assert_eq!(sent(|on| on.cluster_getslotmigrations()), "CLUSTER GETSLOTMIGRATIONS");
        assert_eq!(sent(|on| on.cluster_info()), "CLUSTER INFO");
        assert_eq!(sent(|on| on.cluster_keyslot("k")), "CLUSTER KEYSLOT k");
        assert_eq!(sent(|on| on.cluster_links()), "CLUSTER LINKS");
        assert_eq!(sent(|on| on.cluster_meet("::1", 7000)), "CLUSTER MEET ::1 7000");
        assert_eq!(sent(|on| on.cluster_meet_with("::1", 7000, 7001)), "CLUSTER MEET ::1 7000 7001");
        let to = |node| SlotMigration::new([0..=1, 5..=5], node);
        assert_eq!(
            sent(|on| on.cluster_migrateslots([to("a"), to("b")])),
            "CLUSTER MIGRATESLOTS SLOTSRANGE 0 1 5 5 NODE a SLOTSRANGE 0 1 5 5 NODE b"
        );
        assert_eq!(sent(|on| on.cluster_migrateslots([])), "refused");
        assert_eq!(sent(|on| on.cluster_myid()), "CLUSTER MYID");
        assert_eq!(sent(|on| on.cluster_myshardid()), "CLUSTER MYSHARDID");
        assert_eq!(sent(|on| on.cluster_nodes()), "CLUSTER NODES");
        assert_eq!(sent(|on| on.cluster_replicas("id")), "CLUSTER REPLICAS id");
        assert_eq!(sent(|on| on.cluster_replicate("id")), "CLUSTER REPLICATE id");
        assert_eq!(sent(|on| on.cluster_replicate_no_one()), "CLUSTER REPLICATE NO ONE");
        assert_eq!(sent(|on| on.cluster_reset()), "CLUSTER RESET");
        assert_eq!(sent(|on| on.cluster_reset_with(ClusterReset::Hard)), "CLUSTER RESET HARD");
        assert_eq!(sent(|on| on.cluster_reset_with(ClusterReset::Soft)), "CLUSTER RESET SOFT");
        assert_eq!(sent(|on| on.cluster_saveconfig()), "CLUSTER SAVECONFIG");
        assert_eq!(sent(|on| on.cluster_set_config_epoch(3)), "CLUSTER SET-CONFIG-EPOCH 3");
        for (state, words) in [
            (SlotState::importing("a"), "IMPORTING a"),
            (SlotState::migrating("a"), "MIGRATING a"),
            (SlotState::node("a"), "NODE a"),
            (SlotState::stable(), "STABLE"),
        ] {
            assert_eq!(sent(|on| on.cluster_setslot(5, state.clone())), format!("CLUSTER SETSLOT 5 {words}"));
            assert_eq!(
                sent(|on| on.cluster_setslot_timeout(5, state, Duration::from_micros(1_500))),
                format!("CLUSTER SETSLOT 5 {words} TIMEOUT 2")
            );
        }
        assert_eq!(sent(|on| on.cluster_shards()), "CLUSTER SHARDS");
        assert_eq!(sent(|on| on.cluster_slaves("id")), "CLUSTER SLAVES id");
        assert_eq!(sent(|on| on.cluster_slot_stats(0..=5)), "CLUSTER SLOT-STATS SLOTSRANGE 0 5");
        for (metric, word) in [
            (SlotMetric::KeyCount, "KEY-COUNT"),
            (SlotMetric::CpuUsec, "CPU-USEC"),
            (SlotMetric::NetworkBytesIn, "NETWORK-BYTES-IN"),
            (SlotMetric::NetworkBytesOut, "NETWORK-BYTES-OUT"),
            (SlotMetric::MemoryBytes, "MEMORY-BYTES"),
        ] {
            let plain = sent(|on| on.cluster_slot_stats_by(SlotOrder::by(metric)));
            assert_eq!(plain, format!("CLUSTER SLOT-STATS ORDERBY {word}"));
        }
        let order = SlotOrder::by(SlotMetric::KeyCount).limit(3);
        assert_eq!(
            sent(|on| on.cluster_slot_stats_by(order.clone().asc())),
            "CLUSTER SLOT-STATS ORDERBY KEY-COUNT LIMIT 3 ASC"
        );
        assert_eq!(
            sent(|on| on.cluster_slot_stats_by(order.desc())),
            "CLUSTER SLOT-STATS ORDERBY KEY-COUNT LIMIT 3 DESC"
        );
        assert_eq!(sent(|on| on.cluster_slots()), "CLUSTER SLOTS");
        assert_eq!(sent(|on| on.clusterscan::<String>("0")), "CLUSTERSCAN 0");
        let options = ClusterScanOptions::new().pattern("a*").count(10).type_("hash").slot(7);
        assert_eq!(
            sent(|on| on.clusterscan_with::<String>("0-{06S}-0", &options)),
            "CLUSTERSCAN 0-{06S}-0 MATCH a* COUNT 10 TYPE hash SLOT 7"
        );
    }
}
