//! Which groups of commands each executor has: one list, so that a group cannot be forgotten on one of them.

use crate::args::{Arguments, Command};
use crate::batch::Batch;
use crate::cluster::{
    Cluster, ClusterBatch, ClusterTransaction, SharedCluster, SharedClusterBatch, SharedClusterTransaction,
};
use crate::commands::*;
use crate::connection::Connection;
use crate::error::Result;
use crate::idempotent::Idempotent;
use crate::ring::Ring;
use crate::shared::{Shared, SharedBatch, SharedTransaction};
use crate::transaction::Transaction;
use crate::values::FromReply;

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

// What goes on where it was: each says by which connection a page has come.
macro_rules! scans_by_one {
    ($($executor:ty),*) => {$(
        impl ScanCommands for $executor {
            fn page<T: FromReply, A: Arguments>(self, command: Command<A>) -> Result<(Origin, Page<T>)> {
                let before = self.stats().reconnects;
                let page = self.execute(command).wait()?;
                Ok((Origin::of_reconnects(before, self.stats().reconnects), page))
            }
        }
    )*};
}

macro_rules! scans_by_many {
    ($($executor:ty),*) => {$(
        impl ScanCommands for $executor {
            fn page<T: FromReply, A: Arguments>(self, command: Command<A>) -> Result<(Origin, Page<T>)> {
                self.page_of_key(&command)
            }
        }
    )*};
}

scans_by_one!(&Connection, &Shared);
scans_by_many!(&Cluster, &SharedCluster);

// What needs the connection for itself, or changes it.
impl SessionCommands for &Connection {}
impl BlockingListCommands for &Connection {}
impl BlockingSortedSetCommands for &Connection {}
impl BlockingStreamCommands for &Connection {}
impl BlockingKeyCommands for &Connection {}

impl BlockingListCommands for &Cluster {}
impl BlockingSortedSetCommands for &Cluster {}
impl BlockingStreamCommands for &Cluster {}
impl BlockingKeyCommands for &Cluster {}
