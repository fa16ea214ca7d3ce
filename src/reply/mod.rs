//! Handles of replies that have not been read.

mod multi_bulk;
mod whole;

use std::io::{Read, Write};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::time::Duration;

pub use multi_bulk::MultiBulk;
pub(crate) use whole::Whole;

use crate::args::{Arguments, Command, ToArg, ToArgs};
use crate::connection::{Connection, Fed};
use crate::error::{Result, WaitError};
use crate::execute::{Execute, Lasting, handle_by_methods};
use crate::values::FromReply;

/// The handle of one reply of a [`Connection`] that has not been read yet: sixteen bytes.
///
/// [`wait`](Reply::wait) sends what has to be sent, reads every earlier reply (each is kept for its handle), and decodes
/// this one straight from the read buffer. So a loop that issues commands and keeps their handles is a pipeline:
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(feature = "testing")] {
/// # let server = redefer::testing::Server::start()?;
/// # let conn = redefer::Connection::open(server.url())?;
/// use redefer::prelude::*;
///
/// let replies: Vec<Reply<'_, i64>> = (0..100).map(|_| conn.incr("n")).collect();
/// for (reply, n) in replies.into_iter().zip(1..) {
///     assert_eq!(reply.wait()?, n);
/// }
/// # }
/// # Ok(())
/// # }
/// ```
///
/// # Drop
///
/// Dropping a reply that was not waited for sends what has to be sent and reads up to and including it, for at most
/// [`Config::timeout`](crate::Config::timeout). If it is an error, that goes to the connection's account, which
/// [`Connection::sync`] hands out; its value is not decoded. The drop does not wait, and only gives the handle up like
/// [`detach`](Reply::detach), for a blocking command, behind a blocking command without end, while the server is silent
/// after a timeout, and while the thread is panicking.
///
/// A handle that is forgotten ([`std::mem::forget`]) costs its own stored reply for as long as the connection lives, and
/// nothing else.
#[must_use = "dropping a reply waits for it; use `wait` to get it, or `detach` to give it up"]
pub struct Reply<'c, T> {
    conn: &'c Connection,
    place: u64,
    value: PhantomData<fn() -> T>,
}

/// The handle of one reply of a [`Batch`](crate::Batch) or a [`Transaction`](crate::Transaction): like [`Reply`], but
/// dropping it costs nothing and does not wait.
///
/// A handle of a batch can be waited for at once, which sends what has been gathered, and at any time after the batch.
/// A handle of a transaction gives [`Error::NotCommitted`](crate::Error::NotCommitted) without I/O until the transaction is committed, and its
/// element of EXEC's reply after that.
///
/// # Drop
///
/// Gives the handle up. If its reply is an error, a batch reports it when it is finished; that of a transaction goes to
/// the connection's account.
pub struct Queued<'c, T> {
    conn: &'c Connection,
    place: u64,
    value: PhantomData<fn() -> T>,
}

macro_rules! handle {
    ($handle:ident) => {
        impl<'c, T: FromReply> $handle<'c, T> {
            #[inline(always)]
            pub(crate) fn new(conn: &'c Connection, place: u64) -> Self {
                $handle { conn, place, value: PhantomData }
            }

            /// Waits for the reply and takes it.
            ///
            /// Sends what has been gathered, if the reply is not there yet, and reads every earlier one. Blocks for at
            /// most [`Config::timeout`](crate::Config::timeout), longer if blocking commands are in front of it.
            ///
            /// # Errors
            ///
            /// [`Error::Server`](crate::Error::Server) if the reply is an error, [`Error::Nil`](crate::Error::Nil) and [`Error::UnexpectedReply`](crate::Error::UnexpectedReply) if it does not
            /// fit `T`, [`Error::Timeout`](crate::Error::Timeout), [`Error::ConnectionLost`](crate::Error::ConnectionLost), and what kept the command from being sent.
            #[inline]
            pub fn wait(self) -> Result<T> {
                let handle = ManuallyDrop::new(self);
                handle.conn.wait(handle.place)
            }

            /// Waits at most this long, whatever the configuration says, and gives the handle back if that was not
            /// enough.
            pub fn wait_timeout(self, time: Duration) -> Result<T, WaitError<Self>> {
                // Unless there is a timeout the place is used up, even when decoding panics.
                let handle = ManuallyDrop::new(self);
                match handle.conn.wait_at_most(handle.place, time) {
                    Ok(value) => Ok(value),
                    Err(WaitError::Timeout(())) => Err(WaitError::Timeout(ManuallyDrop::into_inner(handle))),
                    Err(WaitError::Failed(error)) => Err(WaitError::Failed(error)),
                }
            }

            /// Whether a wait would not block. Sends what has been gathered as far as the socket takes it, and reads what
            /// has arrived; never blocks, unless a [`Reconnect`](crate::Reconnect) policy wants the connection made again: then one
            /// attempt is made, if its time has come.
            ///
            /// # Errors
            ///
            /// [`Error::Refused`](crate::Error::Refused) inside a [`FromReply`] that runs on the same connection. A broken connection is no
            /// error here: a wait would not block.
            pub fn is_ready(&self) -> Result<bool> {
                self.conn.is_ready(self.place)
            }

            /// Waits for the reply, which is a string, and copies it to a writer as it arrives: in constant memory, however
            /// large it is. Returns how many bytes it has.
            ///
            /// The type that the handle was made with does not matter. Each piece must come within
            /// [`Config::timeout`](crate::Config::timeout); how long the writer takes does not count. The writer may not use the
            /// connection.
            ///
            /// ```
            /// # fn main() -> redefer::Result<()> {
            /// # #[cfg(feature = "testing")] {
            /// # let server = redefer::testing::Server::start()?;
            /// # let conn = redefer::Connection::open(server.url())?;
            /// use redefer::prelude::*;
            ///
            /// conn.set("film", [7; 100_000]).wait()?;
            /// let mut file = Vec::new();                     // or a File
            /// let bytes = conn.get::<Vec<u8>>("film").copy_to(&mut file)?;
            /// assert_eq!((bytes, file), (100_000, vec![7; 100_000]));
            /// # }
            /// # Ok(())
            /// # }
            /// ```
            ///
            /// # Errors
            ///
            /// Those of [`wait`](Self::wait), before anything has been written: nil is [`Error::Nil`](crate::Error::Nil). An error of the writer is
            /// [`Error::Custom`](crate::Error::Custom), and the connection stays usable: what is left of the value is skipped.
            /// [`Error::Timeout`](crate::Error::Timeout) and [`Error::ConnectionLost`](crate::Error::ConnectionLost) may come when a part has been written.
            pub fn copy_to(self, writer: &mut impl Write) -> Result<u64> {
                let handle = ManuallyDrop::new(self);
                handle.conn.copy_to(handle.place, writer)
            }

            /// Gives the handle up without I/O: its reply is skipped when its turn comes, and an error accounted for. Does
            /// not send anything either: see [`Connection::flush`].
            pub fn detach(self) {
                let handle = ManuallyDrop::new(self);
                handle.conn.detach(handle.place);
            }
        }

        handle_by_methods!($handle);
    };
}

handle!(Reply);
handle!(Queued);

impl<T> Drop for Reply<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.conn.drop_reply(self.place);
    }
}

impl<T> Drop for Queued<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.conn.detach(self.place);
    }
}

/// Values that are read from a file or a pipe while they are sent.
impl Connection {
    /// Sets a key to what a reader gives, of which there must be `len` bytes: SET, in constant memory, however large the
    /// value is. See [`command_from`](Connection::command_from).
    ///
    /// ```
    /// # fn main() -> redefer::Result<()> {
    /// # #[cfg(feature = "testing")] {
    /// # let server = redefer::testing::Server::start()?;
    /// # let conn = redefer::Connection::open(server.url())?;
    /// use std::io::Read;
    ///
    /// use redefer::prelude::*;
    ///
    /// let film = std::io::repeat(7).take(100_000);   // or a File
    /// conn.set_from("film", film, 100_000).wait()?;
    /// assert_eq!(conn.strlen("film").wait()?, 100_000);
    /// # }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [SET](https://redis.io/docs/latest/commands/set/)
    pub fn set_from(&self, key: impl ToArg, value: impl Read, len: u64) -> Reply<'_, ()> {
        self.command_from("SET", [key], value, len, ())
    }

    /// Appends what a reader gives, of which there must be `len` bytes, to a string: APPEND. The reply is the new length.
    /// See [`command_from`](Connection::command_from).
    ///
    /// [APPEND](https://redis.io/docs/latest/commands/append/)
    pub fn append_from(&self, key: impl ToArg, value: impl Read, len: u64) -> Reply<'_, u64> {
        self.command_from("APPEND", [key], value, len, ())
    }

    /// Issues any command of which one argument comes from a reader: the arguments `before` it, `len` bytes of the reader,
    /// and the arguments `after` it. At most 512 MiB; memory is needed for 64 KiB of them.
    ///
    /// ```
    /// # fn main() -> redefer::Result<()> {
    /// # #[cfg(feature = "testing")] {
    /// # let server = redefer::testing::Server::start()?;
    /// # let conn = redefer::Connection::open(server.url())?;
    /// # let film = &b"film"[..];
    /// conn.command_from::<()>("SET", ["film"], film, 4, ("EX", 60)).wait()?;
    /// # }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Blocks until everything is with the operating system, and so are all earlier replies: these are read first, so that
    /// they are safe from what the reader does. Each piece must be taken within [`Config::timeout`](crate::Config::timeout); how
    /// long the reader takes does not count. The reader may not use the connection.
    ///
    /// # Errors
    ///
    /// All are in the handle. If the reader fails or ends before anything has been sent (64 KiB, or all if there are fewer),
    /// the command is not sent and has its error as [`Error::Custom`](crate::Error::Custom). After that the server waits for bytes that will
    /// not come: the connection breaks, and the command has [`Error::ConnectionLost`](crate::Error::ConnectionLost) with
    /// [`Sent::Partly`](crate::Sent::Partly), whose cause is that error. It has not run then.
    pub fn command_from<T: FromReply>(
        &self,
        name: &str,
        before: impl ToArgs,
        mut value: impl Read,
        len: u64,
        after: impl ToArgs,
    ) -> Reply<'_, T> {
        Reply::new(self, self.feed(Fed::new(name, before, &mut value, len, after)))
    }
}

impl<'c> Execute for &'c Connection {
    type Reply<T: FromReply> = Reply<'c, T>;
    type MultiBulk<T: FromReply> = MultiBulk<'c, T>;

    fn command<T: FromReply>(self, name: &str, arguments: impl ToArgs) -> Reply<'c, T> {
        Reply::new(self, self.issue_named(name, arguments, false))
    }

    #[inline(always)]
    fn execute<T: FromReply, A: Arguments>(self, command: Command<A>) -> Reply<'c, T> {
        Reply::new(self, self.issue(&command))
    }

    #[inline(always)]
    fn execute_multi<T: FromReply, A: Arguments>(self, command: Command<A>) -> MultiBulk<'c, T> {
        MultiBulk::new(self, self.issue(&command))
    }
}

impl<'c> Lasting for &'c Connection {
    fn command_again<T: FromReply>(self, name: &str, arguments: impl ToArgs) -> Reply<'c, T> {
        Reply::new(self, self.issue_named(name, arguments, true))
    }

    fn execute_again<T: FromReply, A: Arguments>(self, command: Command<A>) -> Reply<'c, T> {
        Reply::new(self, self.issue_idempotent(&command))
    }

    fn execute_multi_again<T: FromReply, A: Arguments>(self, command: Command<A>) -> MultiBulk<'c, T> {
        MultiBulk::new(self, self.issue_idempotent(&command))
    }
}

impl Connection {
    /// Issues a command by its name and arguments: see [`Execute::command`].
    pub fn command<T: FromReply>(&self, name: &str, arguments: impl ToArgs) -> Reply<'_, T> {
        Execute::command(self, name, arguments)
    }
}
