//! Handles of replies that have not been read.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::time::Duration;

use super::Cluster;
use super::wait::Time;
use crate::connection::{IN_USE, Stored, decode_whole};
use crate::error::{Error, Result, WaitError};
use crate::execute::handle_by_methods;
use crate::values::FromReply;

/// The handle of one reply of a [`Cluster`] that has not been read yet: sixteen bytes.
///
/// Handles can be waited for in any order, whichever node their commands went to. What sends a command elsewhere, MOVED, ASK
/// and the like, is followed while any handle is waited for: see the [module](super#redirects).
///
/// # Drop
///
/// Dropping a reply that was not waited for waits for it, for at most [`Config::timeout`](crate::Config::timeout); an error
/// goes to the cluster's account, which [`Cluster::sync`] hands out. It does not wait, and only gives the handle up like
/// [`detach`](ClusterReply::detach), for a blocking command, while the node is silent after a timeout, and while the thread is
/// panicking.
#[must_use = "dropping a reply waits for it; use `wait` to get it, or `detach` to give it up"]
pub struct ClusterReply<'c, T> {
    pub(super) cluster: &'c Cluster,
    pub(super) ticket: u64,
    value: PhantomData<fn() -> T>,
}

/// The handle of one reply of a [`ClusterTransaction`](super::ClusterTransaction) or a [`ClusterBatch`](super::ClusterBatch):
/// like [`ClusterReply`], but dropping it costs nothing and does not wait, and before the commit of a transaction it is
/// [`Error::NotCommitted`] without I/O.
pub struct ClusterQueued<'c, T> {
    cluster: &'c Cluster,
    ticket: u64,
    value: PhantomData<fn() -> T>,
}

impl Cluster {
    #[inline]
    pub(super) fn wait<T: FromReply>(&self, ticket: u64) -> Result<T> {
        let Ok(mut core) = self.core.try_borrow_mut() else { return Err(Error::Refused(IN_USE)) };
        if let Some(reply) = core.take_at_hand(ticket) {
            return reply;
        }
        drop(core);
        decode_whole(&self.frame(ticket)?)
    }

    /// Waits for a reply as long as the configuration allows, and takes it. The ticket is used up, whatever comes.
    pub(super) fn frame(&self, ticket: u64) -> Result<Stored> {
        let Ok(mut core) = self.core.try_borrow_mut() else { return Err(Error::Refused(IN_USE)) };
        core.wait_frame(ticket, &mut Time::usual()).map_err(|error| match error {
            WaitError::Failed(error) => error,
            WaitError::Timeout(()) => core.expire(ticket),
        })
    }

    fn wait_at_most<T: FromReply>(&self, ticket: u64, time: Duration) -> Result<T, WaitError<()>> {
        let Ok(mut core) = self.core.try_borrow_mut() else { return Err(Error::Refused(IN_USE).into()) };
        let frame = core.wait_frame(ticket, &mut Time::at_most(time))?;
        drop(core);
        Ok(decode_whole(&frame)?)
    }
}

macro_rules! handle {
    ($handle:ident) => {
        impl<'c, T: FromReply> $handle<'c, T> {
            #[inline(always)]
            pub(super) fn new(cluster: &'c Cluster, ticket: u64) -> Self {
                $handle { cluster, ticket, value: PhantomData }
            }

            /// Waits for the reply and takes it.
            ///
            /// Sends what has been gathered for any node, reads from the node that the command went to, and follows
            /// redirects. Blocks for at most [`Config::timeout`](crate::Config::timeout), longer if blocking commands are in
            /// front of it on its node, and for connecting to a node at most
            /// [`Config::connect_timeout`](crate::Config::connect_timeout) more.
            ///
            /// # Errors
            ///
            /// Those of [`Reply::wait`](crate::Reply::wait). A command that could not be sent anywhere within the time, and so
            /// has not run, has the error that kept it from that: a redirect that was not followed any more,
            /// [`Error::ConnectionLost`], or what connecting has met with.
            #[inline]
            pub fn wait(self) -> Result<T> {
                let handle = ManuallyDrop::new(self);
                handle.cluster.wait(handle.ticket)
            }

            /// Waits at most this long, whatever the configuration says, and gives the handle back if that was not
            /// enough.
            pub fn wait_timeout(self, time: Duration) -> Result<T, WaitError<Self>> {
                let handle = ManuallyDrop::new(self);
                match handle.cluster.wait_at_most(handle.ticket, time) {
                    Ok(value) => Ok(value),
                    Err(WaitError::Timeout(())) => Err(WaitError::Timeout(ManuallyDrop::into_inner(handle))),
                    Err(WaitError::Failed(error)) => Err(WaitError::Failed(error)),
                }
            }

            /// Whether a wait would not block. Sends what has been gathered as far as sockets take it, and reads what has
            /// arrived; does not block, unless a redirect names a node that must be connected to first.
            ///
            /// # Errors
            ///
            /// [`Error::Refused`] inside a [`FromReply`] that runs on the same cluster.
            pub fn is_ready(&self) -> Result<bool> {
                self.cluster.with(|core| core.is_ready(self.ticket))
            }

            /// Gives the handle up without I/O: its reply is skipped when its turn comes, and an error accounted for. The
            /// command still follows redirects.
            pub fn detach(self) {
                let handle = ManuallyDrop::new(self);
                let _ = handle.cluster.with(|core| core.detach(handle.ticket));
            }
        }

        handle_by_methods!($handle);
    };
}

handle!(ClusterReply);
handle!(ClusterQueued);

impl<T> Drop for ClusterReply<'_, T> {
    fn drop(&mut self) {
        let _ = self.cluster.with(|core| core.drop_handle(self.ticket));
    }
}

impl<T> Drop for ClusterQueued<'_, T> {
    fn drop(&mut self) {
        let _ = self.cluster.with(|core| core.detach(self.ticket));
    }
}
