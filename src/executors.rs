//! Which groups of commands each executor has: one list, so that a group cannot be forgotten on one of them.

use crate::batch::Batch;
use crate::cluster::{
    Cluster, ClusterBatch, ClusterTransaction, SharedCluster, SharedClusterBatch, SharedClusterTransaction,
};
use crate::commands::*;
use crate::connection::Connection;
use crate::idempotent::Idempotent;
use crate::ring::Ring;
use crate::shared::{Shared, SharedBatch, SharedTransaction};
use crate::transaction::Transaction;

macro_rules! on_all {
    ($($executor:ty),*) => {$(
        impl StringCommands for $executor {}
        impl HashCommands for $executor {}
        impl ListCommands for $executor {}
        impl SetCommands for $executor {}
        impl SortedSetCommands for $executor {}
        impl StreamCommands for $executor {}
        impl KeyCommands for $executor {}
        impl ScanPageCommands for $executor {}
        impl ScriptingCommands for $executor {}
        impl GeoCommands for $executor {}
        impl BitmapCommands for $executor {}
        impl HyperLogLogCommands for $executor {}
        impl VectorSetCommands for $executor {}
        impl ServerCommands for $executor {}
        impl PubSubCommands for $executor {}
        impl ConnectionCommands for $executor {}
        impl ClusterCommands for $executor {}
    )*};
}

on_all!(&Connection, &Batch<'_>, &Transaction<'_>, Idempotent<&Connection>, &Ring);
on_all!(&Shared, Idempotent<&Shared>, &SharedBatch<'_>, &SharedTransaction<'_>);

#[cfg(feature = "cache")]
on_all!(&crate::cache::Cached, crate::cache::OptedIn<'_>);

on_all!(&Cluster, Idempotent<&Cluster>, &ClusterBatch<'_>, &ClusterTransaction<'_>);
on_all!(&SharedCluster, Idempotent<&SharedCluster>, &SharedClusterBatch<'_>, &SharedClusterTransaction<'_>);

// What is set for the connection, which others must not have set for them.
impl ClientSettingCommands for &Connection {}
impl ClientSettingCommands for &Batch<'_> {}
impl ClientSettingCommands for &Transaction<'_> {}
impl ClientSettingCommands for Idempotent<&Connection> {}

// What needs the connection for itself, or changes it.
impl ScanCommands for &Connection {}
impl ScanCommands for &Shared {}
impl ScanCommands for &Cluster {}
impl ScanCommands for &SharedCluster {}
impl SessionCommands for &Connection {}
impl BlockingListCommands for &Connection {}
impl BlockingSortedSetCommands for &Connection {}
impl BlockingStreamCommands for &Connection {}
impl BlockingKeyCommands for &Connection {}

impl BlockingListCommands for &Cluster {}
impl BlockingSortedSetCommands for &Cluster {}
impl BlockingStreamCommands for &Cluster {}
impl BlockingKeyCommands for &Cluster {}
