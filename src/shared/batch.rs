//! Many commands, one outcome, on a connection that threads share.

use std::fmt;

use super::{Shared, SharedMultiBulk, SharedQueued};
use crate::args::{Arguments, Command, ToArgs};
use crate::connection::{Deadline, Entered, IN_USE, Share, Stored, Want};
use crate::error::{Error, Result};
use crate::execute::Execute;
use crate::transaction::Queue;
use crate::values::FromReply;

/// A scoped batch of pipelined commands on a [`Shared`], made by [`Shared::batch`].
///
/// Commands are encoded into the batch's own buffer, and [`finish`](SharedBatch::finish) enters them all at once: they run one
/// behind the other, and no command of another thread on this connection gets in between. (Other clients' may: what must not be
/// seen half done is a [`transaction`](Shared::transaction).) Before that, the other threads do not notice it.
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(feature = "testing")] {
/// # let server = redefer::testing::Server::start()?;
/// # let shared = redefer::Shared::open(server.url())?;
/// use redefer::prelude::*;
///
/// let batch = shared.batch();
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
/// Unlike a [`Batch`](crate::Batch), which has its connection for itself and sends as it goes, this one is in memory until it is
/// finished, and its handles give [`Error::NotCommitted`] before. There may be any number of them at a time. It can be sent to
/// another thread.
///
/// # Drop
///
/// Like [`finish`](SharedBatch::finish), except that its error goes to the account, and that it does not wait where the drop of a
/// [`SharedReply`](crate::SharedReply) would not. While the thread is panicking nothing is sent, and its handles give
/// [`Error::NotCommitted`]. A batch that is forgotten is not sent.
#[must_use = "`finish` sends the batch and tells whether it failed; drop does so in silence"]
pub struct SharedBatch<'c> {
    queue: Queue<&'c Shared>,
    /// While it is waited for.
    entered: Option<(u32, Entered)>,
}

impl Shared {
    /// Begins a batch of pipelined commands. Never waits for the server; nothing is sent before its
    /// [`finish`](SharedBatch::finish).
    pub fn batch(&self) -> SharedBatch<'_> {
        SharedBatch { queue: Queue::open(self), entered: None }
    }
}

impl SharedBatch<'_> {
    /// Sends the batch, waits until every reply of it has been read, by whatever thread, and returns the first error of a
    /// command whose handle was dropped: [`Error::Batch`] with its position and how many failed. Replies whose handles live are
    /// kept for them, and so are their errors.
    ///
    /// Blocks for at most [`Config::timeout`](crate::Config::timeout). Waits for room, as any command does; a batch that is larger
    /// than half of [`Config::max_outstanding`](crate::Config::max_outstanding) waits until no more than the other half is
    /// outstanding.
    ///
    /// # Errors
    ///
    /// [`Error::Batch`]; [`Error::Timeout`], after which its commands may yet run, and errors that come late go to the account;
    /// [`Error::ConnectionLost`]. If there was no room in time, nothing was sent, and its handles have the same error.
    pub fn finish(mut self) -> Result<()> {
        self.send(true)
    }

    /// What the commands have come to. Only if `patient` it waits.
    fn send(&mut self, patient: bool) -> Result<()> {
        let shared = self.queue.on();
        let places = self.queue.len() as u64;
        let mut visit = shared.table.visit();
        let mut deadline = Deadline::new(visit.wire().allowance());
        let room = if self.queue.misses_any() {
            Err(Error::Refused(IN_USE))
        } else if places == 0 || visit.wire().has_room(places) {
            Ok(())
        } else if patient {
            visit.wait(Want::Room(places), &mut deadline).map(drop)
        } else {
            Err(Error::Timeout)
        };
        // Not before, or a panic in the wait would leave the group behind.
        let Some(group) = self.queue.close() else { return Err(Error::Refused(IN_USE)) };
        let (bytes, _) = self.queue.commands();
        let wire = visit.wire();
        let entered = room.map_err(|error| wire.without_room(error)).and_then(|()| wire.enter_batch(group, bytes));
        let end = match entered {
            Ok(entered) => self.entered.insert((group, entered)).1.end,
            Err(error) => {
                wire.fail_batch(group, error.clone());
                return Err(error);
            }
        };
        let read =
            if patient && places > 0 { visit.wait(Want::Settled(end), &mut deadline) } else { Ok(Ok(Stored::new())) };
        drop(visit);
        self.close(read.and_then(|read| read.map(drop)))
    }

    /// It is not waited for any more.
    fn close(&mut self, read: Result<()>) -> Result<()> {
        let Some((group, entered)) = self.entered.take() else { return read };
        self.queue.on().table.visit().wire().close_batch(group, entered, read)
    }
}

impl<'c> Execute for &SharedBatch<'c> {
    type Reply<T: FromReply> = SharedQueued<'c, T>;
    type MultiBulk<T: FromReply> = SharedMultiBulk<'c, T>;

    fn command<T: FromReply>(self, name: &str, arguments: impl ToArgs) -> SharedQueued<'c, T> {
        SharedQueued::new(self.queue.on(), self.queue.queue(Share::named(name, arguments)))
    }

    fn execute<T: FromReply, A: Arguments>(self, command: Command<A>) -> SharedQueued<'c, T> {
        SharedQueued::new(self.queue.on(), self.queue.queue_command(&command))
    }

    fn execute_multi<T: FromReply, A: Arguments>(self, command: Command<A>) -> SharedMultiBulk<'c, T> {
        SharedMultiBulk::new(self.queue.on(), self.queue.queue_command(&command))
    }
}

impl Drop for SharedBatch<'_> {
    fn drop(&mut self) {
        let shared = self.queue.on();
        let outcome = if self.entered.is_some() {
            // The wait for it panicked.
            self.close(Ok(()))
        } else if self.queue.is_open() && !std::thread::panicking() {
            let patient = shared.table.visit().wire().may_wait_in_drop();
            self.send(patient)
        } else {
            return;
        };
        if let Err(error) = outcome {
            shared.table.visit().wire().unseen(error);
        }
    }
}

impl fmt::Debug for SharedBatch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedBatch").finish_non_exhaustive()
    }
}
