//! MULTI … EXEC on a connection that threads share.

use std::fmt;

use super::{Shared, SharedMultiBulk, SharedQueued, SharedReply};
use crate::args::{Arguments, Command, ToArgs};
use crate::connection::{CHANGES, Change, Deadline, Encoded, Want, place};
use crate::error::{Error, Result};
use crate::execute::Execute;
use crate::transaction::{Grouping, Queue};
use crate::values::FromReply;

/// A transaction on a [`Shared`] that has not been sent, made by [`Shared::transaction`].
///
/// Commands are encoded into the transaction's own buffer, and [`commit`](SharedTransaction::commit) sends MULTI, the commands and
/// EXEC in one piece: no command of another thread gets in between. Everything else is as on a
/// [`Transaction`](crate::Transaction), errors included; there is no WATCH, which belongs to a connection and not to a thread.
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(feature = "testing")] {
/// # let server = redefer::testing::Server::start()?;
/// # let shared = redefer::Shared::open(server.url())?;
/// use redefer::prelude::*;
///
/// let tx = shared.transaction();
/// let x = tx.incr("x");
/// let y = tx.get::<Option<String>>("y");
/// tx.commit().wait()?;
/// assert_eq!((x.wait()?, y.wait()?), (1, None));
/// # }
/// # Ok(())
/// # }
/// ```
///
/// # Drop
///
/// Nothing is sent.
#[must_use = "a transaction that is not committed sends nothing"]
pub struct SharedTransaction<'c> {
    queue: Queue<&'c Shared>,
}

impl Shared {
    /// Begins a transaction. Nothing is sent before its [`commit`](SharedTransaction::commit), and the other threads do not
    /// notice it.
    pub fn transaction(&self) -> SharedTransaction<'_> {
        SharedTransaction { queue: Queue::open(self) }
    }
}

impl<'c> SharedTransaction<'c> {
    /// Sends the transaction, as one piece. The handle that is returned resolves with EXEC's reply.
    ///
    /// Waits for room, as any command does; a transaction that takes more than half of
    /// [`Config::max_outstanding`](crate::Config::max_outstanding) waits until no more than the other half is outstanding.
    ///
    /// # Errors
    ///
    /// Told by the handle: see [`Transaction::commit`](crate::Transaction::commit).
    pub fn commit(mut self) -> SharedReply<'c, ()> {
        let shared = self.queue.on();
        let places = 2 * self.queue.len() as u64 + 2;
        let mut visit = shared.table.visit();
        let mut deadline = Deadline::new(visit.wire().allowance());
        let room = visit.wait(Want::Room(places), &mut deadline);
        // Not before, or a panic in the wait would leave the group behind.
        let Some(group) = self.queue.close() else { return SharedReply::new(shared, place::BUSY) };
        let (bytes, missing) = self.queue.commands();
        let commit = match room {
            Ok(_) => visit.wire().connection().commit_group(group, bytes, missing, None).0,
            Err(error) => {
                let error = visit.wire().without_room(error);
                visit.wire().connection().fail_group(group, error)
            }
        };
        SharedReply::new(shared, commit)
    }

    /// Gives the transaction up: nothing is sent. The same as dropping it.
    pub fn discard(self) {}

    /// How many commands have been queued; those that could not be do not count.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether no command has been queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Grouping for &Shared {
    fn open_group(self) -> Option<u32> {
        self.table.visit().wire().connection().open_group()
    }
    fn add_to_group(self, id: u32) -> Option<u32> {
        self.table.visit().wire().connection().add_to_group(id)
    }
    fn refuse_in_group(self, id: u32, error: Error) -> Option<u32> {
        self.table.visit().wire().connection().refuse_in_group(id, error)
    }
    fn group_len(self, id: u32) -> Option<usize> {
        self.table.visit().wire().connection().group_len(id)
    }
    fn discard_group(self, id: u32) {
        self.table.visit().wire().connection().discard_group(id);
    }
    fn admit(self, encoded: &Encoded) -> Result<()> {
        self.table.visit().wire().connection().admit(encoded)
    }
    fn refuses_change(self, _: Option<Change>) -> Option<&'static str> {
        Some(CHANGES)
    }
}

impl<'c> Execute for &SharedTransaction<'c> {
    type Reply<T: FromReply> = SharedQueued<'c, T>;
    type MultiBulk<T: FromReply> = SharedMultiBulk<'c, T>;

    fn command<T: FromReply>(self, name: &str, arguments: impl ToArgs) -> SharedQueued<'c, T> {
        SharedQueued::new(self.queue.on(), self.queue.queue_named(name, arguments))
    }

    fn execute<T: FromReply, A: Arguments>(self, command: Command<A>) -> SharedQueued<'c, T> {
        SharedQueued::new(self.queue.on(), self.queue.queue_command(&command))
    }

    fn execute_multi<T: FromReply, A: Arguments>(self, command: Command<A>) -> SharedMultiBulk<'c, T> {
        SharedMultiBulk::new(self.queue.on(), self.queue.queue_command(&command))
    }
}

impl fmt::Debug for SharedTransaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedTransaction").finish_non_exhaustive()
    }
}
