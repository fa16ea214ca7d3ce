//! Many commands for many nodes, one outcome.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;

use super::Cluster;
use super::bulk::ClusterMultiBulk;
use super::core::{Core, Where};
use super::reply::ClusterQueued;
use super::ticket::{BUSY, Ticket, batched};
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
            let settled = core.settle_batch(id, &mut Time::usual());
            let outcome = core.close_batch(id);
            match settled {
                Ok(()) => outcome,
                Err(WaitError::Failed(error)) => Err(error),
                Err(WaitError::Timeout(())) => Err(Error::Timeout),
            }
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
            ticket => self.cluster.with(|core| core.add_to_batch(id, ticket)).unwrap_or(BUSY),
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

impl Core {
    fn open_batch(&mut self) -> u32 {
        let record =
            Record { tickets: Vec::new(), dropped: VecDeque::new(), failed: 0, first: None, live: 1, open: true };
        self.batches.insert(record)
    }

    fn add_to_batch(&mut self, id: u32, ticket: u64) -> u64 {
        self.look_at_dropped(id, self.config.base.max_outstanding);
        let Some(record) = self.batches.get_mut(id) else { return BUSY };
        let index = record.tickets.len() as u32;
        record.tickets.push(ticket);
        record.live += 1;
        batched(id, index)
    }

    /// The ticket of a command of a batch.
    pub(super) fn ticket_in_batch(&mut self, id: u32, index: u32) -> u64 {
        self.batches.get_mut(id).and_then(|record| record.tickets.get(index as usize).copied()).unwrap_or(BUSY)
    }

    /// Looks at what has come for commands whose handles were dropped, as far as it is at hand; waits only if there are more
    /// of them than this.
    fn look_at_dropped(&mut self, id: u32, most: usize) {
        let mut time = Time::usual();
        loop {
            let Some(record) = self.batches.get_mut(id) else { return };
            let Some(index) = record.dropped.front().copied() else { return };
            let (many, ticket) = (record.dropped.len() > most, record.tickets[index as usize]);
            if !many && (matches!(Ticket::of(ticket), Ticket::Spread(_)) || self.locate(ticket) != Where::Here) {
                return;
            }
            let outcome = match self.wait_frame(ticket, &mut time) {
                Err(WaitError::Timeout(())) => Err(self.expire(ticket)),
                Err(WaitError::Failed(error)) => Err(error),
                Ok(frame) => Ok(frame),
            };
            let Some(record) = self.batches.get_mut(id) else { return };
            record.dropped.pop_front();
            record.taken(index);
            record.note(index, outcome);
        }
    }

    /// Waits until the outcome of all commands is known.
    fn settle_batch(&mut self, id: u32, time: &mut Time) -> Result<(), WaitError<()>> {
        let count = self.batches.get_mut(id).map_or(0, |record| record.tickets.len());
        for index in 0..count {
            let ticket = self.ticket_in_batch(id, index as u32);
            match Ticket::of(ticket) {
                Ticket::Spread(_) => self.parts_of(ticket).into_iter().try_for_each(|part| self.arrive(part, time))?,
                _ => self.arrive(ticket, time)?,
            }
        }
        Ok(())
    }

    fn settle_batch_in_drop(&mut self, id: u32) {
        let count = self.batches.get_mut(id).map_or(0, |record| record.tickets.len());
        let mut time = Time::usual();
        for index in 0..if std::thread::panicking() { 0 } else { count } {
            let ticket = self.ticket_in_batch(id, index as u32);
            for part in self.parts_of(ticket) {
                if !self.may_wait_in_drop(part) || self.arrive(part, &mut time).is_err() {
                    return;
                }
            }
        }
    }

    /// The batch is over: what its commands have met with whose handles were dropped. What has not been answered is given up.
    fn close_batch(&mut self, id: u32) -> Result<()> {
        let Some(record) = self.batches.get_mut(id) else { return Ok(()) };
        record.open = false;
        let dropped = std::mem::take(&mut record.dropped);
        for index in dropped {
            let ticket = self.ticket_in_batch(id, index);
            if self.parts_of(ticket).into_iter().all(|part| self.locate(part) == Where::Here) {
                let outcome = self.wait_frame(ticket, &mut Time::usual()).map_err(|error| match error {
                    WaitError::Failed(error) => error,
                    WaitError::Timeout(()) => Error::Timeout,
                });
                if let Some(record) = self.batches.get_mut(id) {
                    record.note(index, outcome);
                }
            } else {
                self.detach(ticket);
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

    /// Waits for a command of a batch and takes its reply.
    pub(super) fn wait_batched(&mut self, id: u32, index: u32, time: &mut Time) -> Result<Stored, WaitError<()>> {
        let ticket = self.ticket_in_batch(id, index);
        let outcome = self.wait_frame(ticket, time);
        if !matches!(outcome, Err(WaitError::Timeout(()))) {
            self.taken_in_batch(id, index);
        }
        outcome
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

    fn taken_in_batch(&mut self, id: u32, index: u32) {
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
