//! Handles of replies of a cluster that threads share.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::time::Duration;

use super::SharedCluster;
use crate::connection::decode_whole;
use crate::error::{Result, WaitError};
use crate::execute::handle_by_methods;
use crate::values::FromReply;

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
    cluster: &'c SharedCluster,
    ticket: u64,
    /// A wait for it has ended without it.
    late: bool,
    value: PhantomData<fn() -> T>,
}

/// The handle of one reply of a [`SharedClusterTransaction`](super::SharedClusterTransaction): like [`SharedClusterReply`], but
/// dropping it costs nothing and does not wait, and before the commit it is [`Error::NotCommitted`](crate::Error::NotCommitted)
/// without I/O.
///
/// # Drop
///
/// Gives the handle up. If its reply is an error, that goes to the account.
pub struct SharedClusterQueued<'c, T> {
    cluster: &'c SharedCluster,
    ticket: u64,
    late: bool,
    value: PhantomData<fn() -> T>,
}

macro_rules! handle {
    ($handle:ident) => {
        impl<'c, T: FromReply> $handle<'c, T> {
            pub(super) fn new(cluster: &'c SharedCluster, ticket: u64) -> Self {
                $handle { cluster, ticket, late: false, value: PhantomData }
            }

            /// Waits for the reply and takes it, for at most [`Config::timeout`](crate::Config::timeout). Sends what has been
            /// gathered, by whatever thread, and follows redirects; may connect to a node, for at most
            /// [`Config::connect_timeout`](crate::Config::connect_timeout) more.
            ///
            /// The value is decoded without any lock.
            ///
            /// # Errors
            ///
            /// Those of [`ClusterReply::wait`](crate::cluster::ClusterReply::wait).
            pub fn wait(self) -> Result<T> {
                let handle = ManuallyDrop::new(self);
                decode_whole(&handle.cluster.fetch(handle.ticket)?)
            }

            /// Waits at most this long, whatever the configuration says, and gives the handle back if that was not
            /// enough.
            ///
            /// # Errors
            ///
            /// [`WaitError::Timeout`] with the handle, or [`WaitError::Failed`] with an error of [`wait`](Self::wait).
            pub fn wait_timeout(self, time: Duration) -> Result<T, WaitError<Self>> {
                // Unless there is a timeout the ticket is used up, even when decoding panics.
                let handle = ManuallyDrop::new(self);
                match handle.cluster.fetch_within(handle.ticket, time) {
                    Ok(frame) => decode_whole(&frame).map_err(WaitError::Failed),
                    Err(WaitError::Timeout(())) => {
                        let mut handle = ManuallyDrop::into_inner(handle);
                        handle.late = true;
                        Err(WaitError::Timeout(handle))
                    }
                    Err(WaitError::Failed(error)) => Err(WaitError::Failed(error)),
                }
            }

            /// Whether a wait would not block. Sends what has been gathered as far as sockets take it, and reads what has
            /// arrived; never blocks, and never connects to a node.
            ///
            /// # Errors
            ///
            /// None today.
            pub fn is_ready(&self) -> Result<bool> {
                Ok(self.cluster.is_ready(self.ticket))
            }

            /// Gives the handle up without I/O: its reply is skipped when its turn comes, and an error accounted for. The
            /// command still follows redirects. Does not send anything either: see [`SharedCluster::flush`].
            pub fn detach(self) {
                let handle = ManuallyDrop::new(self);
                handle.cluster.detach(handle.ticket);
            }
        }

        handle_by_methods!($handle);
    };
}

handle!(SharedClusterReply);
handle!(SharedClusterQueued);

impl<T> Drop for SharedClusterReply<'_, T> {
    fn drop(&mut self) {
        if self.late {
            // Whoever had so little time then has no more of it now.
            self.cluster.detach(self.ticket);
        } else {
            self.cluster.drop_reply(self.ticket);
        }
    }
}

impl<T> Drop for SharedClusterQueued<'_, T> {
    fn drop(&mut self) {
        self.cluster.detach(self.ticket);
    }
}
