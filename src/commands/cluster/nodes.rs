//! What a node says about the cluster, taken apart.

use std::collections::HashMap;
use std::ops::{Deref, RangeInclusive};
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use crate::commands::record::{
    Field, each_field, elements, next, record, since_epoch, text, unix_millis, unix_seconds, whole_text,
};
use crate::error::{Error, Result};
use crate::resp::Frame;
use crate::values::FromReply;

/// The state of the cluster, as a node sees it: the reply of [`cluster_info`](super::ClusterCommands::cluster_info).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClusterInfo {
    /// The fields and their values: `cluster_state`, `cluster_known_nodes` and others.
    pub fields: HashMap<String, String>,
    /// The text as it came: lines `name:value`.
    pub text: String,
}

impl ClusterInfo {
    /// The value of a field.
    #[must_use]
    pub fn get(&self, field: &str) -> Option<&str> {
        self.fields.get(field).map(String::as_str)
    }

    /// The value of a field as a number; nothing if it is none.
    #[must_use]
    pub fn number<T: FromStr>(&self, field: &str) -> Option<T> {
        self.get(field)?.parse().ok()
    }

    /// Whether the cluster serves commands.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.get("cluster_state") == Some("ok")
    }

    /// How many nodes the node knows.
    #[must_use]
    pub fn known_nodes(&self) -> Option<u64> {
        self.number("cluster_known_nodes")
    }

    /// How many slots belong to a node.
    #[must_use]
    pub fn slots_assigned(&self) -> Option<u64> {
        self.number("cluster_slots_assigned")
    }
}

impl FromReply for ClusterInfo {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let text = whole_text(&frame, "the text of CLUSTER INFO")?;
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Ok(ClusterInfo { fields, text })
    }
}

/// A node of the cluster, as another one or itself sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClusterNode {
    /// Its ID.
    pub id: String,
    /// Its IP address; empty if it is not known.
    pub ip: String,
    /// Its port.
    pub port: u16,
    /// Its port for the bus of the cluster.
    pub bus_port: u16,
    /// Its host name, if it was given one. Since 7.0.
    pub hostname: Option<String>,
    /// What else is said of its address, by name. Since 7.2.
    pub aux: HashMap<String, String>,
    /// `myself`, `master`, `slave`, `fail?`, `fail`, `handshake`, `noaddr`, `nofailover`.
    pub flags: Vec<String>,
    /// The ID of the node that it is a replica of.
    pub primary: Option<String>,
    /// Since when an answer of it has been waited for.
    pub ping_sent: Option<SystemTime>,
    /// When it last answered.
    pub pong_received: Option<SystemTime>,
    /// The epoch of its claim to its slots.
    pub config_epoch: u64,
    /// Whether the link to it is up.
    pub connected: bool,
    /// Its slots.
    pub slots: Vec<RangeInclusive<u16>>,
    /// Slots on their way from it to another node, and the ID of that. Only of the node that was asked.
    pub migrating: Vec<(u16, String)>,
    /// Slots on their way to it, and the ID of the node that they come from. Only of the node that was asked.
    pub importing: Vec<(u16, String)>,
    /// The line as it came. What cannot be read in it is 0 or empty above.
    pub text: String,
}

impl ClusterNode {
    /// Takes a line apart, as far as it is known: one that is not must not hide the others.
    fn new(line: &str) -> Self {
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap_or_default();
        let mut node = ClusterNode { id: word().to_owned(), text: line.to_owned(), ..ClusterNode::default() };
        let mut places = word().split(',');
        let (address, bus_port) = places.next().and_then(|place| place.split_once('@')).unwrap_or_default();
        if let Some((ip, port)) = address.rsplit_once(':') {
            (node.ip, node.port) = (ip.to_owned(), port.parse().unwrap_or(0));
        }
        node.bus_port = bus_port.parse().unwrap_or(0);
        node.hostname = places.next().filter(|name| !name.is_empty()).map(String::from);
        node.aux = places.filter_map(|aux| aux.split_once('=')).map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        node.flags = word().split(',').filter(|flag| !flag.is_empty()).map(String::from).collect();
        node.primary = Some(word()).filter(|id| !matches!(*id, "" | "-")).map(String::from);
        let mut time = || word().parse().ok().filter(|ms| *ms != 0).map(Duration::from_millis).and_then(since_epoch);
        (node.ping_sent, node.pong_received) = (time(), time());
        node.config_epoch = word().parse().unwrap_or(0);
        node.connected = word() == "connected";
        words.for_each(|slots| node.add(slots));
        node
    }

    /// `5`, `0-10`, `[5->-id]` or `[5-<-id]`; what else there may be is only in the text.
    fn add(&mut self, slots: &str) {
        if let Some(moving) = slots.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            let parts = moving.split_once("->-").map(|parts| (parts, &mut self.migrating));
            let parts = parts.or_else(|| moving.split_once("-<-").map(|parts| (parts, &mut self.importing)));
            if let Some(((slot, id), list)) = parts
                && let Ok(slot) = slot.parse()
            {
                list.push((slot, id.to_owned()));
            }
        } else if let (first, last) = slots.split_once('-').unwrap_or((slots, slots))
            && let (Ok(first), Ok(last)) = (first.parse(), last.parse())
        {
            self.slots.push(first..=last);
        }
    }

    /// Whether one of the [`flags`](ClusterNode::flags) is there.
    #[must_use]
    pub fn has_flag(&self, flag: &str) -> bool {
        self.flags.iter().any(|other| other == flag)
    }

    /// Whether it is the node that was asked.
    #[must_use]
    pub fn is_myself(&self) -> bool {
        self.has_flag("myself")
    }

    /// Whether it is a replica.
    #[must_use]
    pub fn is_replica(&self) -> bool {
        self.has_flag("slave") || self.has_flag("replica")
    }
}

impl FromReply for ClusterNode {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        whole_text(&frame, "a line about a node").map(|line| ClusterNode::new(line.trim_end()))
    }
}

/// The nodes of the cluster: the reply of [`cluster_nodes`](super::ClusterCommands::cluster_nodes). It is a slice of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterNodes(Vec<ClusterNode>);

impl Deref for ClusterNodes {
    type Target = [ClusterNode];
    fn deref(&self) -> &[ClusterNode] {
        &self.0
    }
}

impl IntoIterator for ClusterNodes {
    type Item = ClusterNode;
    type IntoIter = std::vec::IntoIter<ClusterNode>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a ClusterNodes {
    type Item = &'a ClusterNode;
    type IntoIter = std::slice::Iter<'a, ClusterNode>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl FromReply for ClusterNodes {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let text = whole_text(&frame, "lines about nodes")?;
        Ok(ClusterNodes(text.lines().filter(|line| !line.is_empty()).map(ClusterNode::new).collect()))
    }
}

record! {
    /// A connection on the bus of the cluster: the reply of [`cluster_links`](super::ClusterCommands::cluster_links).
    ClusterLink: "a link of the cluster" {
        /// `to` or `from` the other node.
        "direction" direction: String,
        /// The ID of the other node.
        "node" node: String,
        /// When it was made.
        "create-time" created: Option<SystemTime> = unix_millis,
        /// What the node waits for: `r` to read, `w` to write.
        "events" events: String,
        /// The size of the buffer for what is to be sent.
        "send-buffer-allocated" send_buffer_allocated: u64,
        /// How much of it is in use.
        "send-buffer-used" send_buffer_used: u64,
    }
}

record! {
    /// A primary, its replicas and their slots: the reply of [`cluster_shards`](super::ClusterCommands::cluster_shards).
    ClusterShard: "a shard of the cluster" {
        /// Its ID. Since Valkey 9.1.
        "id" id: Option<String>,
        /// Its slots.
        "slots" slots: Vec<RangeInclusive<u16>> = slot_ranges,
        /// Its nodes.
        "nodes" nodes: Vec<ShardNode>,
    }
}

fn slot_ranges(frame: Frame<'_>) -> Result<Vec<RangeInclusive<u16>>> {
    Ok(Vec::<(u16, u16)>::from_reply(frame)?.into_iter().map(|(first, last)| first..=last).collect())
}

record! {
    /// A node of a shard.
    ShardNode: "a node of a shard" {
        /// Its ID.
        "id" id: String,
        /// Its port; nothing if it has none without TLS.
        "port" port: Option<u16>,
        /// Its port for TLS.
        "tls-port" tls_port: Option<u16>,
        /// Its IP address.
        "ip" ip: String,
        /// Its address for clients, as the node prefers it; nothing if that is the one by which the cluster was reached.
        "endpoint" endpoint: Option<String> = optional_host,
        /// Its host name, if it was given one.
        "hostname" hostname: Option<String>,
        /// Its availability zone, if it was given one. Since Valkey 9.1.
        "availability-zone" availability_zone: Option<String>,
        /// `master` or `replica`.
        "role" role: String,
        /// How many bytes it has sent to replicas, or got as one.
        "replication-offset" replication_offset: i64,
        /// `online`, `failed` or `fail`, or `loading`.
        "health" health: String,
    }
}

/// A host; nil and no text mean the one that was asked.
fn optional_host(frame: Frame<'_>) -> Result<Option<String>> {
    Ok(Option::<String>::field(frame)?.filter(|host| !host.is_empty()))
}

/// A range of slots and the nodes that have them: the reply of
/// [`cluster_slots`](super::ClusterCommands::cluster_slots).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClusterSlots {
    /// The slots.
    pub slots: RangeInclusive<u16>,
    /// Where commands go that write.
    pub primary: ClusterEndpoint,
    /// Its replicas.
    pub replicas: Vec<ClusterEndpoint>,
}

impl FromReply for ClusterSlots {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        const EXPECTED: &str = "slots and their nodes";
        let mut items = elements(&frame, EXPECTED)?;
        let slots = next(&mut items)?..=next(&mut items)?;
        let primary = items.next().ok_or_else(|| Error::unexpected(EXPECTED, &frame))?;
        let primary = ClusterEndpoint::from_reply(primary)?;
        Ok(ClusterSlots { slots, primary, replicas: items.map(ClusterEndpoint::from_reply).collect::<Result<_>>()? })
    }
}

/// Where a node is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClusterEndpoint {
    /// Its host; nothing if that is the one by which the cluster was reached, and `?` if the node has no name yet.
    pub host: Option<String>,
    /// Its port.
    pub port: u16,
    /// Its ID.
    pub id: String,
    /// Further names and addresses: `ip`, `hostname`, `availability-zone`. Since 7.0.
    pub metadata: HashMap<String, String>,
}

impl FromReply for ClusterEndpoint {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let mut items = elements(&frame, "a node")?;
        let host = items.next().map_or(Ok(None), optional_host)?;
        let (port, id) = (next(&mut items)?, next(&mut items)?);
        // Further elements may be of any kind.
        let mut metadata = HashMap::new();
        if let Some(more) = items.next().filter(Frame::is_aggregate) {
            each_field(&more, "names and values", |name, value| {
                if let Ok(value) = Field::field(value) {
                    metadata.insert(text(name), value);
                }
                Ok(())
            })?;
        }
        Ok(ClusterEndpoint { host, port, id, metadata })
    }
}

record! {
    /// What a slot is used for: the reply of [`cluster_slot_stats`](super::ClusterCommands::cluster_slot_stats).
    SlotStats: "statistics of a slot" {
        /// How many keys it has.
        "key-count" key_count: u64,
        /// How long its commands took, if the setting `cluster-slot-stats-enabled` is on.
        "cpu-usec" cpu: Option<Duration> = micros,
        /// How many bytes came for it, if that setting is on.
        "network-bytes-in" network_bytes_in: Option<u64>,
        /// How many bytes went out for it, if that setting is on.
        "network-bytes-out" network_bytes_out: Option<u64>,
    }
}

fn micros(frame: Frame<'_>) -> Result<Option<Duration>> {
    Ok(Option::<u64>::from_reply(frame)?.map(Duration::from_micros))
}

record! {
    /// A migration of slots: the reply of
    /// [`cluster_getslotmigrations`](super::ClusterCommands::cluster_getslotmigrations).
    SlotMigrationStatus: "a migration of slots" {
        /// Its name.
        "name" name: String,
        /// `EXPORT` or `IMPORT`, for the node that was asked.
        "operation" operation: String,
        /// The slots: `7-8 10-10`.
        "slot_ranges" slot_ranges: String,
        /// The ID of the node that the slots go to.
        "target_node" target_node: String,
        /// The ID of the node that they come from.
        "source_node" source_node: String,
        /// When it began, in whole seconds.
        "create_time" created: Option<SystemTime> = unix_seconds,
        /// When something last happened, in whole seconds.
        "last_update_time" last_updated: Option<SystemTime> = unix_seconds,
        /// When the other node last confirmed something, in whole seconds.
        "last_ack_time" last_acknowledged: Option<SystemTime> = unix_seconds,
        /// How far it is: `success`, `failed`, `cancelled`, or a step in between.
        "state" state: String,
        /// Why it failed.
        "message" message: String,
        /// How many bytes were copied since they were written to meanwhile.
        "cow_size" cow_size: u64,
        /// How many bytes of changes are still to be sent.
        "remaining_repl_size" remaining: u64,
    }
}

/// What became of the node's epoch: the reply of [`cluster_bumpepoch`](super::ClusterCommands::cluster_bumpepoch).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct BumpedEpoch {
    /// Whether it was raised; else it was the highest already.
    pub bumped: bool,
    /// The node's epoch.
    pub epoch: u64,
}

impl FromReply for BumpedEpoch {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        const EXPECTED: &str = "BUMPED or STILL and an epoch";
        let status = frame.as_bytes().map(text).ok_or_else(|| Error::unexpected(EXPECTED, &frame))?;
        let (word, epoch) = status.split_once(' ').unwrap_or_default();
        let epoch = epoch.parse().map_err(|_| Error::unexpected(EXPECTED, &frame))?;
        Ok(BumpedEpoch { bumped: word == "BUMPED", epoch })
    }
}

/// One page of a scan of a cluster: see [`clusterscan`](super::ClusterCommands::clusterscan).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClusterPage<T> {
    /// Where the next page begins; `0` if this is the last one.
    pub cursor: String,
    /// The keys.
    pub elements: Vec<T>,
}

impl<T> ClusterPage<T> {
    /// Whether no page comes after this one.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.cursor == "0"
    }
}

impl<T: FromReply> FromReply for ClusterPage<T> {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let (cursor, elements) = FromReply::from_reply(frame)?;
        Ok(ClusterPage { cursor, elements })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_about_nodes_are_taken_apart() {
        let line = "07c3 ::1:30004@31004,host.example,shard-id=69bc slave,fail? e7d1 1426238316232 1426238317239 4 \
            disconnected 0-10 12 [93-<-292f] [77->-e7d1] new";
        let node = ClusterNode::new(line);
        assert_eq!((node.id.as_str(), node.ip.as_str(), node.port, node.bus_port), ("07c3", "::1", 30004, 31004));
        assert_eq!(node.hostname.as_deref(), Some("host.example"));
        assert_eq!(node.aux, HashMap::from([("shard-id".into(), "69bc".into())]));
        assert!(node.is_replica() && node.has_flag("fail?") && !node.is_myself() && !node.connected);
        assert_eq!(node.primary.as_deref(), Some("e7d1"));
        assert_eq!(node.ping_sent, since_epoch(Duration::from_millis(1_426_238_316_232)));
        assert_eq!((node.slots.clone(), node.config_epoch), (vec![0..=10, 12..=12], 4));
        assert_eq!(node.importing, [(93, "292f".to_owned())]);
        assert_eq!(node.migrating, [(77, "e7d1".to_owned())]);
        let node = ClusterNode::new("a :0@0 myself,master,noaddr - 0 0 0 connected");
        assert_eq!((node.ip.as_str(), node.hostname.clone(), node.primary.clone()), ("", None, None));
        assert_eq!((node.ping_sent, node.pong_received, node.slots), (None, None, vec![]));
        for odd in ["a", "a :0@0", "a b", "a x:y@1 master - 0 0 0 disconnected new"] {
            let node = ClusterNode::new(odd);
            assert_eq!((node.id.as_str(), node.port, node.connected, node.slots.len()), ("a", 0, false, 0), "{odd}");
            assert_eq!(node.text, odd);
        }
    }
}
