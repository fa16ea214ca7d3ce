//! Many commands for many nodes, one outcome.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;

use super::Cluster;
use super::bulk::ClusterMultiBulk;
use super::core::Core;
use super::reply::ClusterQueued;
use super::ticket::{BUSY, batched};
use super::wait::Time;
use crate::args::{Arguments, Command, ToArgs};
use crate::connection::{IN_USE, Stored};
use crate::error::{BatchError, Error, Result, ServerError, WaitError};
use crate::execute::Execute;
use crate::resp::{self, Frame};
use crate::values::FromReply;

/// A scoped batch of pipelined commands on a [`Cluster`], made by [`Cluster::batch`].
///
/// Commands go where they would go without it, gathered for each node and sent together. Its handles are [`ClusterQueued`]:
/// dropped they cost nothing, and kept they can be waited for at once or after [`finish`](ClusterBatch::finish). Redirects
/// and lost connections are followed as for every command, so a batch is not atomic, and commands of different slots have no
/// order among them.
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(all(unix, feature = "testing"))] {
/// # let nodes = redefer::testing::Cluster::builder().replicas(0).start()?;
/// # let cluster = redefer::cluster::Cluster::open(nodes.urls())?;
/// use redefer::prelude::*;
///
/// let batch = cluster.batch();
/// for n in 0..1000 {
///     batch.set(n, "value");
/// }
/// let total = batch.dbsize();
/// batch.finish()?;
/// assert_eq!(total.wait()?, 1000);
/// # }
/// # Ok(())
/// # }
/// ```
///
/// There may be several at a time. A batch takes eight bytes for each command until it is finished and its handles are gone, and
/// no more than [`max_outstanding`](crate::Config::max_outstanding) replies that nobody waits for are kept.
///
/// # Drop
///
/// Like [`finish`](ClusterBatch::finish), except that its error goes to the cluster's account, and that it does not wait where
/// the drop of a [`ClusterReply`](super::ClusterReply) would not.
#[must_use = "`finish` sends the batch and tells whether it failed; drop does so in silence"]
pub struct ClusterBatch<'c> {
    cluster: &'c Cluster,
    id: Option<u32>,
    /// A command was issued while the cluster was in use, which not even its error can be noted for.
    missing: Cell<bool>,
}

/// The commands of a batch.
pub(super) struct Record {
    tickets: Vec<u64>,
    /// Commands whose handles were dropped, and whose outcome has not been looked at.
    dropped: VecDeque<u32>,
    failed: u64,
    first: Option<(u64, Error)>,
    /// How many handles there are, and the guard.
    live: u32,
    open: bool,
}

impl Cluster {
    /// Begins a batch of pipelined commands. Never blocks; nothing is sent yet.
    pub fn batch(&self) -> ClusterBatch<'_> {
        ClusterBatch { cluster: self, id: self.with(Core::open_batch).ok(), missing: Cell::new(false) }
    }
}

impl<'c> ClusterBatch<'c> {
    /// Sends what is left of the batch to all nodes, reads every reply, and returns the first error of a command whose handle
    /// was dropped: [`Error::Batch`] with its position and how many failed. Replies whose handles live are kept for them, and
    /// so are their errors.
    ///
    /// Blocks for at most [`Config::timeout`](crate::Config::timeout), and for connecting to nodes.
    ///
    /// # Errors
    ///
    /// [`Error::Batch`], [`Error::Timeout`].
    pub fn finish(mut self) -> Result<()> {
        let Some(id) = self.id.take() else { return Err(Error::Refused(IN_USE)) };
        let outcome = self.cluster.with(|core| {
            let settled = core.settle_batch(id).map_err(|error| match error {
                WaitError::Failed(error) => error,
                WaitError::Timeout(()) => Error::Timeout,
            });
            // What a command has met with is more to the point than that another one is late, and is told nowhere else.
            core.close_batch(id).and(settled)
        })?;
        if self.missing.get() { Err(Error::Refused(IN_USE)) } else { outcome }
    }

    fn add(&self, issue: impl FnOnce() -> u64) -> u64 {
        let Some(id) = self.id else { return BUSY };
        match issue() {
            BUSY => {
                self.missing.set(true);
                BUSY
            }
            ticket => {
                let added = self.cluster.with(|core| {
                    core.wait_for_dropped(id);
                    core.add_to_batch(id, ticket)
                });
                added.unwrap_or(BUSY)
            }
        }
    }
}

impl<'c> Execute for &ClusterBatch<'c> {
    type Reply<T: FromReply> = ClusterQueued<'c, T>;
    type MultiBulk<T: FromReply> = ClusterMultiBulk<'c, T>;

    fn command<T: FromReply>(self, name: &str, arguments: impl ToArgs) -> ClusterQueued<'c, T> {
        ClusterQueued::new(self.cluster, self.add(|| self.cluster.issue_named(name, arguments, 0)))
    }

    fn execute<T: FromReply, A: Arguments>(self, command: Command<A>) -> ClusterQueued<'c, T> {
        ClusterQueued::new(self.cluster, self.add(|| self.cluster.issue(&command, 0)))
    }

    fn execute_multi<T: FromReply, A: Arguments>(self, command: Command<A>) -> ClusterMultiBulk<'c, T> {
        ClusterMultiBulk::new(self.cluster, self.add(|| self.cluster.issue(&command, 0)))
    }
}

impl Drop for ClusterBatch<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let _ = self.cluster.with(|core| {
            core.settle_batch_in_drop(id);
            match core.close_batch(id) {
                Err(error) => core.unseen(error),
                Ok(()) if self.missing.get() => core.unseen(Error::Refused(IN_USE)),
                Ok(()) => {}
            }
        });
    }
}

impl fmt::Debug for ClusterBatch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterBatch").finish_non_exhaustive()
    }
}

impl Record {
    /// The ticket of a command is used up: its number may be that of another one soon.
    fn taken(&mut self, index: u32) {
        if let Some(ticket) = self.tickets.get_mut(index as usize) {
            *ticket = BUSY;
        }
    }

    fn note(&mut self, index: u32, outcome: Result<Stored>) {
        let error = match outcome {
            Ok(frame) => match resp::frame(&frame) {
                Some(Frame::Error(message)) => ServerError::new(message).into(),
                _ => return,
            },
            Err(error) => error,
        };
        self.failed += 1;
        if self.first.as_ref().is_none_or(|first| u64::from(index) < first.0) {
            self.first = Some((u64::from(index), error));
        }
    }
}

/// What is done for a cluster that is one thread's own: it waits.
impl Core {
    /// Waits where too many replies are to come that nobody asks for.
    fn wait_for_dropped(&mut self, id: u32) {
        let mut time = Time::usual();
        while let Some(at) = self.look_at_dropped(id) {
            if self.arrive(at, &mut time).is_err() {
                self.give_up_dropped(id);
            }
        }
    }

    /// Waits until the outcome of all commands is known.
    fn settle_batch(&mut self, id: u32) -> Result<(), WaitError<()>> {
        let (mut from, mut time) = (0, Time::usual());
        while let Some(at) = self.unsettled_in_batch(id, &mut from) {
            // Other nodes than the one that is late may have answered meanwhile.
            self.arrive(at, &mut time).inspect_err(|_| self.take_all())?;
        }
        Ok(())
    }

    fn settle_batch_in_drop(&mut self, id: u32) {
        let (mut from, mut time) = (0, Time::usual());
        while let Some(at) = self.unsettled_in_drop(id, &mut from)
            && self.arrive(at, &mut time).is_ok()
        {}
    }

    /// Waits for a command of a batch and takes its reply.
    pub(super) fn wait_batched(&mut self, id: u32, index: u32, time: &mut Time) -> Result<Stored, WaitError<()>> {
        let ticket = self.ticket_in_batch(id, index);
        let outcome = self.wait_frame(ticket, time);
        if !matches!(outcome, Err(WaitError::Timeout(()))) {
            self.taken_in_batch(id, index);
        }
        outcome
    }
}

/// The books of batches, for whatever waits for them: nothing here blocks.
impl Core {
    pub(super) fn open_batch(&mut self) -> u32 {
        let record =
            Record { tickets: Vec::new(), dropped: VecDeque::new(), failed: 0, first: None, live: 1, open: true };
        self.batches.insert(record)
    }

    pub(super) fn add_to_batch(&mut self, id: u32, ticket: u64) -> u64 {
        let Some(record) = self.batches.get_mut(id) else { return BUSY };
        let index = record.tickets.len() as u32;
        record.tickets.push(ticket);
        record.live += 1;
        batched(id, index)
    }

    /// The ticket of a command of a batch.
    pub(super) fn ticket_in_batch(&self, id: u32, index: u32) -> u64 {
        self.batches.get(id).and_then(|record| record.tickets.get(index as usize).copied()).unwrap_or(BUSY)
    }

    /// Looks at what has come for commands whose handles were dropped. What is to be waited for, if too many of them are left:
    /// the replies behind the first that is to come are kept.
    pub(super) fn look_at_dropped(&mut self, id: u32) -> Option<u64> {
        loop {
            let record = self.batches.get_mut(id)?;
            let (index, many) = (*record.dropped.front()?, record.dropped.len() > self.config.base.max_outstanding);
            if let Some(at) = self.awaited(self.ticket_in_batch(id, index)) {
                return many.then_some(at);
            }
            self.first_dropped(id, Core::take_here);
        }
    }

    /// The first of these has not been answered within the time.
    pub(super) fn give_up_dropped(&mut self, id: u32) {
        self.first_dropped(id, |core, ticket| Err(core.expire(ticket)));
    }

    /// Notes what the first of these has come to.
    fn first_dropped(&mut self, id: u32, outcome: impl FnOnce(&mut Core, u64) -> Result<Stored>) {
        let Some(index) = self.batches.get_mut(id).and_then(|record| record.dropped.pop_front()) else { return };
        let outcome = outcome(self, self.ticket_in_batch(id, index));
        if let Some(record) = self.batches.get_mut(id) {
            record.taken(index);
            record.note(index, outcome);
        }
    }

    /// What is to be waited for, from this command of a batch on, until the outcome of all is known.
    pub(super) fn unsettled_in_batch(&mut self, id: u32, from: &mut u32) -> Option<u64> {
        loop {
            let ticket = self.batches.get(id)?.tickets.get(*from as usize).copied()?;
            if let Some(at) = self.awaited(ticket) {
                return Some(at);
            }
            *from += 1;
        }
    }

    /// The same, as long as the drop of the batch may wait.
    pub(super) fn unsettled_in_drop(&mut self, id: u32, from: &mut u32) -> Option<u64> {
        if std::thread::panicking() {
            return None;
        }
        self.unsettled_in_batch(id, from).filter(|at| self.may_wait_in_drop(*at))
    }

    /// The batch is over: what its commands have met with whose handles were dropped. What has not been answered is given up.
    pub(super) fn close_batch(&mut self, id: u32) -> Result<()> {
        let Some(record) = self.batches.get_mut(id) else { return Ok(()) };
        record.open = false;
        while let Some(index) = self.batches.get(id).and_then(|record| record.dropped.front().copied()) {
            let ticket = self.ticket_in_batch(id, index);
            if self.awaited(ticket).is_none() {
                self.first_dropped(id, Core::take_here);
            } else {
                self.detach(ticket);
                self.batches.get_mut(id).and_then(|record| record.dropped.pop_front());
            }
        }
        let Some(record) = self.batches.get_mut(id) else { return Ok(()) };
        let (first, failed) = (record.first.take(), record.failed);
        self.release_batch(id);
        match first {
            None => Ok(()),
            Some((position, error)) => Err(Error::Batch(std::sync::Arc::new(BatchError::new(error, position, failed)))),
        }
    }

    pub(super) fn expire_batched(&mut self, id: u32, index: u32) -> Error {
        let ticket = self.ticket_in_batch(id, index);
        self.taken_in_batch(id, index);
        self.expire(ticket)
    }

    /// A handle is dropped: the batch looks at its outcome, if it is still open.
    pub(super) fn detach_batched(&mut self, id: u32, index: u32) {
        let Some(record) = self.batches.get_mut(id) else { return };
        if record.open {
            record.dropped.push_back(index);
        } else {
            let ticket = record.tickets[index as usize];
            self.detach(ticket);
        }
        self.release_batch(id);
    }

    /// The reply of a handle was taken.
    pub(super) fn taken_in_batch(&mut self, id: u32, index: u32) {
        if let Some(record) = self.batches.get_mut(id) {
            record.taken(index);
        }
        self.release_batch(id);
    }

    /// A handle or the guard no longer points to a batch.
    fn release_batch(&mut self, id: u32) {
        let Some(record) = self.batches.get_mut(id) else { return };
        record.live -= 1;
        if record.live == 0 {
            self.batches.take(id);
        }
    }
}
