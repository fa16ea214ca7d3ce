//! Every type that a reply is decoded into, for the tests and for the fuzz target `typed`.

use std::collections::HashMap;

use redefer::commands::*;
use redefer::resp::Frame;
use redefer::{FromReply, Result, ServerError};

pub type Decode = fn(Frame<'_>) -> Result<()>;

pub fn of<T: FromReply + std::fmt::Debug>(frame: Frame<'_>) -> Result<()> {
    let whole = T::from_reply(frame).map(|value| drop(format!("{value:?}")));
    // As an element, as one of several, and where it may be missing.
    drop(Option::<T>::from_reply(frame).map(|value| format!("{value:?}").len()));
    drop(Vec::<T>::from_reply(frame).map(|value| value.len()));
    drop(<(T, T)>::from_reply(frame).map(drop));
    drop(HashMap::<String, T>::from_reply(frame).map(|value| value.len()));
    drop(std::result::Result::<T, ServerError>::from_reply(frame).map(drop));
    whole
}

/// INFO, CLIENT LIST and their kin are taken apart once more by their methods.
pub fn asked(frame: Frame<'_>) -> Result<()> {
    if let Ok(info) = Info::from_reply(frame) {
        let _ = (info.version(), info.uptime(), info.used_memory(), info.connected_clients(), info.flag("a"));
        let _ = (info.keyspace(), info.command_stats(), info.error_stats());
    }
    if let Ok(info) = ClusterInfo::from_reply(frame) {
        let _ = (info.is_ok(), info.known_nodes(), info.slots_assigned());
    }
    for node in ClusterNodes::from_reply(frame).iter().flat_map(|nodes| nodes.iter()) {
        let _ = (node.is_myself(), node.is_replica(), node.has_flag(""));
    }
    if let Ok(entry) = CommandlogEntry::from_reply(frame) {
        let _ = entry.duration();
    }
    if let Ok(entry) = SlowlogEntry::from_reply(frame) {
        let _ = entry.socket_address();
    }
    if let Ok(stats) = MemoryStats::from_reply(frame) {
        let _ = stats.databases();
    }
    if let Ok(id) = StreamId::from_reply(frame) {
        let _ = (id.time(), id.to_string());
    }
    Ok(())
}

pub type Fields = Vec<(String, String)>;

macro_rules! types {
    ($($type:ty),* $(,)?) => {
        [$((stringify!($type), $crate::typed::of::<$type> as $crate::typed::Decode)),*]
    };
}

/// Calls a macro with all of them. Whoever does must have their names in scope: those of `redefer::commands`, and a few.
macro_rules! all_types {
    ($with:ident) => {
        $with![
            (), bool, i8, i64, i128, u16, u64, u128, usize, f32, f64, char, String, Vec<u8>, [u8; 4], Value,
            SystemTime, [i64; 3], (String, i64, f64), BTreeMap<String, i64>,
            MemoryStats,
            StreamInfo<Fields>, StreamInfoFull<Fields>, GroupInfo, GroupInfoFull, ConsumerInfo, ConsumerInfoFull,
            PendingSummary, PendingEntry, PendingDelivery, ConsumerDelivery, Autoclaimed<StreamId>,
            Autoclaimed<Entry<Fields>>,
            Page<String>, LcsMatches, LcsMatch, FieldExpiry, FieldPersist, Ttl, Pttl, ExpireTime, PexpireTime,
            IdleTime, Migrated,
            StreamId, Entry<Fields>, Entry<Option<HashMap<String, Value>>>, Vec<(String, Vec<Entry<Fields>>)>,
            GeoPlace<String>, FunctionLibrary, FunctionInfo, FunctionStats, RunningFunction, FunctionEngine,
            RawVector, VectorSetInfo, VectorMatches<String, String>, VectorMatches<Vec<u8>, Value>,
            CommandInfo, BeginSearch, FindKeys, KeySpec, CommandDocs, ArgumentDocs,
            Role, RoleReplica, Info, LatencyEvent, LatencySample, LatencyHistogram, SlowlogEntry, CommandlogEntry,
            AclUser, AclSelector, AclLogEntry, AclDryRun, ModuleInfo,
            ClientInfo, ClientList, TrackingInfo,
            ClusterInfo, ClusterNode, ClusterNodes, ClusterSlots, ClusterEndpoint, ClusterLink, ClusterShard,
            ShardNode, SlotStats, SlotMigrationStatus, BumpedEpoch, ClusterPage<String>, StreamDeletion,
        ]
    };
}

pub(crate) use {all_types, types};
