//! Many commands, one outcome.

use std::cell::Cell;
use std::fmt;

use crate::args::{Arguments, Command, ToArgs};
use crate::connection::{Connection, place};
use crate::error::{Error, Result};
use crate::execute::Execute;
use crate::reply::{MultiBulk, Queued};
use crate::values::FromReply;

/// A scoped batch of pipelined commands, made by [`Connection::batch`].
///
/// Commands are issued on the batch as on a connection and gather in the connection's own buffer, which is sent whenever
/// it has [`write_batch`](crate::Config::write_batch) bytes: a batch of millions runs in constant memory. Its handles are
/// [`Queued`]: dropped they cost nothing, and kept they can be waited for at once or after [`finish`](Batch::finish).
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(feature = "testing")] {
/// # let server = redefer::testing::Server::start()?;
/// # let conn = redefer::Connection::open(server.url())?;
/// use redefer::prelude::*;
///
/// let batch = conn.batch();
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
/// There is one batch at a time on a connection: commands of a second one fail with [`Error::Refused`], as does its
/// `finish`. The connection itself can be used beside it.
///
/// # Drop
///
/// Like [`finish`](Batch::finish), except that its error goes to the connection's account, and that it does not wait
/// where the drop of a [`Reply`](crate::Reply) would not: behind a blocking command without end, while the server is
/// silent after a timeout, and while the thread is panicking.
///
/// A batch that is forgotten ([`std::mem::forget`]) stays open: the connection takes no other.
#[must_use = "`finish` sends the batch and tells whether it failed; drop does so in silence"]
pub struct Batch<'c> {
    conn: &'c Connection,
    /// The number of the batch, or why there is none.
    id: Result<u64>,
    /// A command was issued on a batch that there is none of, and nobody has been told.
    untold: Cell<bool>,
}

impl Connection {
    /// Begins a batch of pipelined commands. Never blocks; nothing is sent yet.
    #[doc(alias("pipe", "pipeline"))]
    pub fn batch(&self) -> Batch<'_> {
        Batch { conn: self, id: self.open_batch(), untold: Cell::new(false) }
    }
}

impl<'c> Batch<'c> {
    /// Sends what is left of the batch, reads every reply, and returns the first error of a command whose handle was
    /// dropped: [`Error::Batch`] with its position and how many failed. Replies whose handles live are kept for them,
    /// and so are their errors.
    ///
    /// Blocks for at most [`Config::timeout`](crate::Config::timeout).
    ///
    /// # Errors
    ///
    /// [`Error::Batch`], [`Error::Timeout`], [`Error::ConnectionLost`].
    pub fn finish(mut self) -> Result<()> {
        self.untold.set(false);
        match std::mem::replace(&mut self.id, Err(Error::Refused("the batch is finished"))) {
            Ok(id) => self.conn.finish_batch(id),
            Err(error) => Err(error),
        }
    }

    #[cold]
    fn refuse(&self) -> u64 {
        self.untold.set(true);
        place::SECOND_BATCH
    }

    #[inline(always)]
    fn issue<A: Arguments>(&self, command: &Command<A>) -> u64 {
        match &self.id {
            Ok(_) => self.conn.issue_in_batch(command),
            Err(_) => self.refuse(),
        }
    }
}

impl<'c> Execute for &Batch<'c> {
    type Reply<T: FromReply> = Queued<'c, T>;
    type MultiBulk<T: FromReply> = MultiBulk<'c, T>;

    fn command<T: FromReply>(self, name: &str, arguments: impl ToArgs) -> Queued<'c, T> {
        let place = match &self.id {
            Ok(_) => {
                let place = self.conn.issue_named(name, arguments, false);
                self.conn.add_to_batch(place);
                place
            }
            Err(_) => self.refuse(),
        };
        Queued::new(self.conn, place)
    }

    #[inline(always)]
    fn execute<T: FromReply, A: Arguments>(self, command: Command<A>) -> Queued<'c, T> {
        Queued::new(self.conn, self.issue(&command))
    }

    #[inline(always)]
    fn execute_multi<T: FromReply, A: Arguments>(self, command: Command<A>) -> MultiBulk<'c, T> {
        MultiBulk::new(self.conn, self.issue(&command))
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        match &self.id {
            Ok(id) => self.conn.drop_batch(*id),
            Err(error) if self.untold.get() => self.conn.unseen(error.clone()),
            Err(_) => {}
        }
    }
}

impl fmt::Debug for Batch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").finish_non_exhaustive()
    }
}
