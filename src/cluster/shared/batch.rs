//! Many commands for many nodes, one outcome, on a cluster that threads share.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

use super::super::core::Core;
use super::{SharedCluster, SharedClusterMultiBulk, SharedClusterQueued, deadline, settle};
use crate::args::{Arguments, Command, ToArgs};
use crate::error::{Error, Result};
use crate::execute::Execute;
use crate::values::FromReply;

/// A scoped batch of pipelined commands on a [`SharedCluster`], made by [`SharedCluster::batch`].
///
/// Commands are issued as they come, each where it would go without the batch. They are written when any thread waits for
/// something, or when much has been gathered for a node. Handles are [`SharedClusterQueued`]: dropped they cost nothing, and
/// kept they can be waited for at once or after [`finish`](SharedClusterBatch::finish), by any thread.
///
/// A batch is not atomic: commands of other threads and clients run between its own. Redirects and lost connections are
/// followed as for every command. Its commands for one slot run in their order; those for different slots, and those that go
/// to all nodes, have no order among them.
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(all(unix, feature = "testing"))] {
/// # let nodes = redefer::testing::Cluster::builder().replicas(0).start()?;
/// # let cluster = redefer::cluster::SharedCluster::open(nodes.urls())?;
/// use redefer::prelude::*;
///
/// let batch = cluster.batch();
/// for n in 0..1000 {
///     batch.set(n, "value");
/// }
/// let next = batch.incr("count");
/// batch.finish()?;
/// assert_eq!(next.wait()?, 1);
/// assert_eq!(cluster.dbsize().wait()?, 1001);
/// # }
/// # Ok(())
/// # }
/// ```
///
/// There may be any number of them at a time. One belongs to one thread at a time, and can be sent to another. A batch takes
/// eight bytes for each command until it is finished and its handles are gone.
///
/// # Limits
///
/// Those of the [cluster](SharedCluster#limits): where a node has
/// [`max_outstanding`](crate::Config::max_outstanding) replies to send, or too many bytes of commands are kept for it, issuing
/// waits for room there, for at most [`Config::timeout`](crate::Config::timeout); then the command fails with
/// [`Error::Timeout`] and is not sent. It waits as well, as long, where the replies of more than `max_outstanding` dropped
/// handles have not been looked at, since one of them is slow: then that one is [`Error::Timeout`].
///
/// # Drop
///
/// Like [`finish`](SharedClusterBatch::finish), except that its error goes to the account, and that it does not wait where
/// the drop of a [`SharedClusterReply`](super::SharedClusterReply) would not: while the thread is panicking, above all. Its
/// commands run all the same. A batch that is forgotten costs what it takes, and the replies of its dropped handles, for as
/// long as the cluster lives, and nothing else.
#[must_use = "`finish` waits for the batch and tells whether it failed; drop does so in silence"]
pub struct SharedClusterBatch<'c> {
    cluster: &'c SharedCluster,
    id: u32,
    open: bool,
    /// The position of a command is what the thread that issues them can count.
    one_thread: PhantomData<Cell<()>>,
}

impl SharedCluster {
    /// Begins a batch of pipelined commands. Never blocks.
    pub fn batch(&self) -> SharedClusterBatch<'_> {
        let id = self.with(Core::open_batch);
        SharedClusterBatch { cluster: self, id, open: true, one_thread: PhantomData }
    }

    /// Waits where too many replies of a batch are to come that nobody asks for.
    pub(super) fn wait_for_dropped(&self, id: u32) -> Result<()> {
        let mut visit = self.table.visit();
        let mut deadline = deadline(&mut visit);
        loop {
            match settle(&mut visit, &mut deadline, |books| books.core().look_at_dropped(id)) {
                Err(Error::Timeout) => visit.wire().core().give_up_dropped(id),
                outcome => return outcome,
            }
        }
    }
}

impl Core {
    /// Whether a command can be issued without waiting for what was dropped of its batch, if it is one of a batch.
    #[inline]
    pub(super) fn has_room_in(&mut self, batch: Option<u32>) -> bool {
        batch.is_none_or(|id| self.look_at_dropped(id).is_none())
    }

    /// Makes a command one of a batch, if there is one.
    #[inline]
    pub(super) fn put_into(&mut self, batch: Option<u32>, ticket: u64) -> u64 {
        batch.map_or(ticket, |id| self.add_to_batch(id, ticket))
    }
}

impl SharedClusterBatch<'_> {
    /// Sends what is left of the batch to all nodes, waits until every reply of it has been read, by whatever thread, and
    /// returns the first error of a command whose handle was dropped: [`Error::Batch`] with its position and how many failed.
    /// Replies whose handles live are kept for them, and so are their errors.
    ///
    /// Blocks for at most [`Config::timeout`](crate::Config::timeout), and for connecting to nodes.
    ///
    /// # Errors
    ///
    /// [`Error::Batch`]; or else [`Error::Timeout`], after which its commands may yet run, and errors that come late go to the
    /// account.
    pub fn finish(mut self) -> Result<()> {
        let id = self.id;
        let mut visit = self.cluster.table.visit();
        let (mut from, mut deadline) = (0, deadline(&mut visit));
        let settled = settle(&mut visit, &mut deadline, |books| books.core().unsettled_in_batch(id, &mut from));
        self.open = false;
        // What a command has met with is more to the point than that another one is late, and is told nowhere else.
        visit.wire().core().close_batch(id).and(settled)
    }
}

impl<'c> Execute for &SharedClusterBatch<'c> {
    type Reply<T: FromReply> = SharedClusterQueued<'c, T>;
    type MultiBulk<T: FromReply> = SharedClusterMultiBulk<'c, T>;

    fn command<T: FromReply>(self, name: &str, arguments: impl ToArgs) -> SharedClusterQueued<'c, T> {
        SharedClusterQueued::new(self.cluster, self.cluster.issue_named(name, arguments, 0, Some(self.id)))
    }

    fn execute<T: FromReply, A: Arguments>(self, command: Command<A>) -> SharedClusterQueued<'c, T> {
        SharedClusterQueued::new(self.cluster, self.cluster.issue(&command, 0, Some(self.id)))
    }

    fn execute_multi<T: FromReply, A: Arguments>(self, command: Command<A>) -> SharedClusterMultiBulk<'c, T> {
        SharedClusterMultiBulk::new(self.cluster, self.cluster.issue(&command, 0, Some(self.id)))
    }
}

impl Drop for SharedClusterBatch<'_> {
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        let id = self.id;
        let mut visit = self.cluster.table.visit();
        let (mut from, mut deadline) = (0, deadline(&mut visit));
        // Whatever is the matter, its commands tell it that have met with it.
        let _ = settle(&mut visit, &mut deadline, |books| books.core().unsettled_in_drop(id, &mut from));
        let core = visit.wire().core();
        if let Err(error) = core.close_batch(id) {
            core.unseen(error);
        }
    }
}

impl fmt::Debug for SharedClusterBatch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedClusterBatch").finish_non_exhaustive()
    }
}
