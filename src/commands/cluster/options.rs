//! Options of the commands on clusters.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::args::{Arg, ArgWriter, ToArg, ToArgs};
use crate::commands::parts::{Named, Owned, parts_to_args, timeout_millis, word_to_arg};

/// Ranges of slots, each as its first and its last one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Ranges(Vec<RangeInclusive<u16>>);

impl FromIterator<RangeInclusive<u16>> for Ranges {
    fn from_iter<I: IntoIterator<Item = RangeInclusive<u16>>>(ranges: I) -> Self {
        Ranges(ranges.into_iter().collect())
    }
}

impl ToArgs for Ranges {
    fn write_args(&self, out: &mut ArgWriter<'_>) {
        for range in &self.0 {
            out.arg(range.start());
            out.arg(range.end());
        }
    }
    const DIRECT: bool = true;
    fn count(&self) -> usize {
        2 * self.0.len()
    }
}

/// How a replica takes the place of its primary: see
/// [`cluster_failover_with`](super::ClusterCommands::cluster_failover_with).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClusterFailover {
    /// Without the primary, which may be down.
    Force,
    /// Without the primary and without the votes of the others.
    Takeover,
}

impl ClusterFailover {
    fn word(&self) -> &'static str {
        match self {
            ClusterFailover::Force => "FORCE",
            ClusterFailover::Takeover => "TAKEOVER",
        }
    }
}

/// How far a node forgets the cluster: see [`cluster_reset_with`](super::ClusterCommands::cluster_reset_with).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClusterReset {
    /// It also gets a new ID, and its epochs are 0 again.
    Hard,
    /// It keeps its ID.
    Soft,
}

impl ClusterReset {
    fn word(&self) -> &'static str {
        match self {
            ClusterReset::Hard => "HARD",
            ClusterReset::Soft => "SOFT",
        }
    }
}

word_to_arg!(ClusterFailover, ClusterReset);

/// What a slot is to be: see [`cluster_setslot`](super::ClusterCommands::cluster_setslot). Nodes are given by their IDs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub struct SlotState {
    word: &'static str,
    node: Option<String>,
}

impl SlotState {
    /// On its way from this node to the one asked.
    pub fn importing(from: impl Into<String>) -> Self {
        SlotState { word: "IMPORTING", node: Some(from.into()) }
    }

    /// On its way from the one asked to this node.
    pub fn migrating(to: impl Into<String>) -> Self {
        SlotState { word: "MIGRATING", node: Some(to.into()) }
    }

    /// This node's.
    pub fn node(id: impl Into<String>) -> Self {
        SlotState { word: "NODE", node: Some(id.into()) }
    }

    /// No longer on its way.
    pub fn stable() -> Self {
        SlotState { word: "STABLE", node: None }
    }

    fn parts(&self) -> impl ToArgs {
        (self.word, self.node.as_ref())
    }
}

/// Slots that are to go to a node: see [`cluster_migrateslots`](super::ClusterCommands::cluster_migrateslots).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub struct SlotMigration {
    ranges: Ranges,
    node: String,
}

impl SlotMigration {
    /// These ranges of slots, to the node with this ID.
    pub fn new(ranges: impl IntoIterator<Item = RangeInclusive<u16>>, node: impl Into<String>) -> Self {
        SlotMigration { ranges: ranges.into_iter().collect(), node: node.into() }
    }
}

impl ToArgs for SlotMigration {
    fn write_args(&self, out: &mut ArgWriter<'_>) {
        out.arg("SLOTSRANGE");
        self.ranges.write_args(out);
        out.arg("NODE");
        out.arg(&self.node);
    }
    const DIRECT: bool = true;
    fn count(&self) -> usize {
        3 + self.ranges.count()
    }
}

/// By what slots are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SlotMetric {
    /// How many keys they have.
    KeyCount,
    /// How long their commands took.
    CpuUsec,
    /// How many bytes came for them.
    NetworkBytesIn,
    /// How many bytes went out for them.
    NetworkBytesOut,
    /// How many bytes they take. Since Redis 8.4.
    MemoryBytes,
}

impl SlotMetric {
    fn word(&self) -> &'static str {
        match self {
            SlotMetric::KeyCount => "KEY-COUNT",
            SlotMetric::CpuUsec => "CPU-USEC",
            SlotMetric::NetworkBytesIn => "NETWORK-BYTES-IN",
            SlotMetric::NetworkBytesOut => "NETWORK-BYTES-OUT",
            SlotMetric::MemoryBytes => "MEMORY-BYTES",
        }
    }
}

/// Which slots come first, and how many: see
/// [`cluster_slot_stats_by`](super::ClusterCommands::cluster_slot_stats_by).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub struct SlotOrder {
    by: SlotMetric,
    limit: Option<u16>,
    order: Option<&'static str>,
}

impl SlotOrder {
    /// All slots of the node, those with the most first.
    pub fn by(metric: SlotMetric) -> Self {
        SlotOrder { by: metric, limit: None, order: None }
    }

    /// Only the first so many (LIMIT).
    pub fn limit(mut self, count: u16) -> Self {
        self.limit = Some(count);
        self
    }

    /// Those with the least first (ASC).
    pub fn asc(mut self) -> Self {
        self.order = Some("ASC");
        self
    }

    /// Those with the most first (DESC).
    pub fn desc(mut self) -> Self {
        self.order = Some("DESC");
        self
    }

    fn parts(&self) -> impl ToArgs {
        ("ORDERBY", self.by.word(), Named("LIMIT", self.limit), self.order)
    }
}

/// What a scan of a cluster looks for: see [`clusterscan_with`](super::ClusterCommands::clusterscan_with).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct ClusterScanOptions {
    pattern: Option<Owned>,
    count: Option<u64>,
    type_name: Option<Owned>,
    slot: Option<u16>,
}

impl ClusterScanOptions {
    /// All keys of all slots.
    pub fn new() -> Self {
        ClusterScanOptions::default()
    }

    /// Only keys that match a pattern (MATCH).
    pub fn pattern(mut self, pattern: impl ToArg) -> Self {
        self.pattern = Some(Owned::new(pattern));
        self
    }

    /// About how many keys to look at for a page (COUNT).
    pub fn count(mut self, count: u64) -> Self {
        self.count = Some(count);
        self
    }

    /// Only keys of a type: `string`, `hash`, … (TYPE).
    pub fn type_(mut self, type_name: impl ToArg) -> Self {
        self.type_name = Some(Owned::new(type_name));
        self
    }

    /// Only keys of one slot (SLOT).
    pub fn slot(mut self, slot: u16) -> Self {
        self.slot = Some(slot);
        self
    }

    fn parts(&self) -> impl ToArgs {
        (
            Named("MATCH", self.pattern.as_ref()),
            Named("COUNT", self.count),
            Named("TYPE", self.type_name.as_ref()),
            Named("SLOT", self.slot),
        )
    }
}

parts_to_args!(SlotState, SlotOrder, ClusterScanOptions);

/// How long to wait for the replicas, in milliseconds.
#[derive(Debug)]
pub(super) struct Millis(pub(super) Duration);

impl ToArg for Millis {
    fn to_arg(&self) -> Arg<'_> {
        Arg::Integer(timeout_millis(Some(self.0)))
    }
    const DIRECT: bool = true;
}
