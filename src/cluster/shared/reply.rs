//! Handles of replies of a cluster that threads share.

use std::marker::PhantomData;

use super::SharedCluster;
use crate::shared::handle::{drop_detaches, drop_waits, shared_handle};

/// The handle of one reply of a [`SharedCluster`] that has not been read yet. It can be sent to another thread.
///
/// # Drop
///
/// Like that of a [`ClusterReply`](super::super::ClusterReply): waits for the reply, for at most
/// [`Config::timeout`](crate::Config::timeout); an error goes to the account, which [`SharedCluster::sync`] hands out. It does not wait
/// while the node is silent after a timeout, while the thread is panicking, and when a
/// [`wait_timeout`](SharedClusterReply::wait_timeout) for it was in vain before. A handle that is forgotten costs its own stored
/// reply, for as long as the cluster lives, and nothing else.
#[must_use = "dropping a reply waits for it; use `wait` to get it, or `detach` to give it up"]
pub struct SharedClusterReply<'c, T> {
    on: &'c SharedCluster,
    place: u64,
    /// A wait for it has ended without it.
    late: bool,
    value: PhantomData<fn() -> T>,
}

/// The handle of one reply of a [`SharedClusterTransaction`](super::SharedClusterTransaction) or a
/// [`SharedClusterBatch`](super::SharedClusterBatch): like [`SharedClusterReply`], but dropping it costs nothing and does not
/// wait, and before the commit of a transaction it is [`Error::NotCommitted`](crate::Error::NotCommitted) without I/O.
///
/// # Drop
///
/// Gives the handle up. If its reply is an error, that goes to the batch, as long as it is not finished, or else to the account.
pub struct SharedClusterQueued<'c, T> {
    on: &'c SharedCluster,
    place: u64,
    late: bool,
    value: PhantomData<fn() -> T>,
}

macro_rules! handle {
    ($handle:ident) => {
        shared_handle!(
            $handle,
            SharedCluster,
            "Sends what has been gathered, by whatever thread, and follows redirects; may connect to a node, for at most
[`Config::connect_timeout`](crate::Config::connect_timeout) more.

The value is decoded without any lock.

# Errors

Those of [`ClusterReply::wait`](crate::cluster::ClusterReply::wait).",
            "Sends what has been gathered as far as sockets take it, and reads what has arrived; never blocks, and never connects to a node.",
            "The command still follows redirects. Does not send anything either: see [`SharedCluster::flush`]."
        );
    };
}

handle!(SharedClusterReply);
drop_waits!(SharedClusterReply);
handle!(SharedClusterQueued);
drop_detaches!(SharedClusterQueued);
