//! One connection for many threads.

mod batch;
pub(crate) mod handle;
#[cfg(all(loom, test))]
mod model;
mod multi_bulk;
mod pace;
mod reply;
pub(crate) mod sync;
mod transaction;
pub(crate) mod turn;

use std::fmt;
use std::time::Duration;

pub use batch::SharedBatch;
pub use multi_bulk::SharedMultiBulk;
pub use reply::{SharedQueued, SharedReply};
use sync::Arc;
pub use transaction::SharedTransaction;
use turn::{Errand, Seat, Table, Turn, Wire};

use crate::args::{Arguments, Command, ToArgs};
use crate::connection::{
    Aside, Back, Connection, Deadline, Encoded, IntoConfig, Look, Outcome, Outing, Share, Stats, Stored, Want,
};
use crate::error::{Error, Result, WaitError};
use crate::execute::{Execute, Lasting};
use crate::idempotent::Idempotent;
use crate::values::{FromReply, Value};

/// One connection for many threads: their commands are pipelined over it.
///
/// Commands are issued on `&Shared` as on a [`Connection`]; clones are the same connection. Threads that wait at the same time
/// have their commands written together, and whoever waits first reads for all; so many threads that each wait for one
/// reply at a time need few system calls, and more of them need hardly more. There is no thread in the background and no
/// runtime: an idle `Shared` does nothing.
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(feature = "testing")] {
/// # let server = redefer::testing::Server::start()?;
/// # let url = server.url();
/// use std::thread;
///
/// use redefer::prelude::*;
///
/// let shared = Shared::open(url)?;
/// thread::scope(|scope| {
///     for _ in 0..8 {
///         scope.spawn(|| shared.incr("visits").wait().unwrap());
///     }
/// });
/// assert_eq!(shared.get::<i64>("visits").wait()?, 8);
///
/// // A thread that outlives this one takes a clone.
/// let theirs = shared.clone();
/// let thread = thread::spawn(move || theirs.get::<i64>("visits").wait());
/// assert_eq!(thread.join().unwrap()?, 8);
/// # }
/// # Ok(())
/// # }
/// ```
///
/// # What is not there
///
/// What one thread does must not be felt by the others. So there is nothing that changes the connection (SELECT, AUTH, CLIENT
/// SETNAME and the like), nothing that holds it (BLPOP, WAIT, XREAD with BLOCK), no WATCH, and no reading of a reply piece by
/// piece: these do not compile, and by name they are [`Error::Refused`]. [`transaction`](Shared::transaction) and
/// [`batch`](Shared::batch) are there: each is sent in one piece. Large replies and slow commands (KEYS, a long script) hold up what is behind them, as they do on
/// every connection: a second `Shared`, or a [`Connection`], is the way around. For watches and subscriptions, too, take a
/// [`Connection`].
///
/// A value that is too large for one piece of memory cannot be read as it comes either ([`Reply::copy_to`](crate::Reply::copy_to)),
/// nor written from a reader: the others would wait for the writer and the reader of one. Read it by GETRANGE, which holds
/// them up for a piece at a time, write it by APPEND, or take a [`Connection`] for it:
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(feature = "testing")] {
/// # let server = redefer::testing::Server::start()?;
/// # let shared = redefer::Shared::open(server.url())?;
/// # let mut file = Vec::new();
/// use std::io::Write;
///
/// use redefer::{Error, prelude::*};
///
/// # let (sent, piece) = ("x".repeat(3_000_000), 1 << 20);
/// # shared.set("large", &sent).wait()?;
/// for from in (0..).step_by(piece as usize) {
///     let bytes: Vec<u8> = shared.getrange("large", from, from + piece - 1).wait()?;
///     file.write_all(&bytes).map_err(Error::from)?;
///     if bytes.len() < piece as usize {
///         break;
///     }
/// }
/// # assert!(file == sent.as_bytes());
/// # }
/// # Ok(())
/// # }
/// ```
///
/// # Order
///
/// The commands of one thread run in the order in which it issues them; those of several threads in any.
///
/// # Threads that fail
///
/// A thread that panics, also inside a [`FromReply`], times out, forgets its handles or ends harms no other: replies are
/// counted by the connection, and a reply that nobody takes is skipped.
///
/// Nothing that is not this crate's own runs under the lock: a `FromReply`, a `ToArg`, what a `Shared` is shown to by `Debug`, and
/// whoever listens to its [events](Connection#events) may use the same `Shared`. Whoever is asked for
/// [credentials](crate::Config::credentials), or listens to the events of dialling, cannot wait for what it is about to bring:
/// that is [`Error::Refused`].
///
/// # When commands are sent
///
/// As [`SendWhen`](crate::SendWhen) says, and at the latest when a thread waits for one. A handle that was
/// [detached](SharedReply::detach) does not send its command: what is behind it will, or [`flush`](Shared::flush).
///
/// # Limits
///
/// Beyond [`Config::max_outstanding`](crate::Config::max_outstanding) replies, or
/// [`Config::max_outstanding_bytes`](crate::Config::max_outstanding_bytes) bytes of commands without a reply, issuing a command
/// waits, for at most [`Config::timeout`](crate::Config::timeout): then its handle has [`Error::Timeout`], and it is not sent.
///
/// # When the connection breaks
///
/// Every outstanding handle gets [`Error::ConnectionLost`] at once. With a [`Reconnect`](crate::Reconnect) policy whoever waits
/// next dials, without the lock, while the others wait with their own deadlines. A command whose time is over before there is a
/// connection is not sent any more, and its handle says so ([`Sent::Unsent`](crate::Sent::Unsent)); those of others stay.
///
/// # Drop
///
/// The last clone closes the connection as the drop of a [`Connection`] does.
#[doc(alias("MultiplexedConnection", "ConnectionManager"))]
#[derive(Clone)]
pub struct Shared {
    table: Arc<Table<Share>>,
}

thread_local! {
    /// A thread waits for one thing at a time.
    static SEAT: Arc<Seat<Outcome>> = Seat::new();
}

impl Wire for Share {
    const IN_ORDER: bool = true;

    type Reply = Outcome;
    type Outing = Outing;
    type Back = Back;

    #[inline]
    fn seat() -> Arc<Seat<Outcome>> {
        // A thread that is being taken apart has none of its own any more.
        SEAT.try_with(Arc::clone).unwrap_or_else(|_| Seat::new())
    }
    #[inline]
    fn look(&mut self, want: Want) -> turn::Look<Outcome> {
        match Share::look(self, want) {
            Look::Here(outcome) => turn::Look::Here(outcome),
            Look::NotYet(at) => turn::Look::NotYet(at),
        }
    }
    #[inline]
    fn take(&mut self, place: u64) -> Outcome {
        Share::take(self, place)
    }
    #[inline]
    fn turn(&mut self, at: u64) -> Turn {
        if at < Share::settled(self) { Turn::Settled } else { Turn::Sit }
    }
    #[inline]
    fn breaks(&mut self) -> u64 {
        Share::breaks(self)
    }
    #[inline]
    fn is_unwritten(&mut self, at: u64) -> bool {
        Share::is_unwritten(self, at)
    }
    #[inline]
    fn unwritten(&mut self) -> u64 {
        Share::unwritten(self)
    }
    fn flush(&mut self, _: u64) -> bool {
        Share::flush(self)
    }
    #[inline]
    fn is_sending(&mut self) -> bool {
        Share::is_sending(self)
    }
    #[inline]
    fn is_doomed(&mut self) -> bool {
        Share::is_doomed(self)
    }
    fn leave_to_send(&mut self) -> Option<Outing> {
        Share::leave_to_send(self)
    }
    fn leave(&mut self, deadline: &mut Deadline) -> Result<Outing> {
        Share::leave(self, deadline)
    }
    fn leave_to_write(&mut self, _: u64, deadline: &mut Deadline) -> Result<Outing> {
        Share::leave_to_write(self, deadline)
    }
    fn go(outing: Outing) -> Back {
        outing.go()
    }
    fn back(&mut self, back: Back, deadline: &mut Deadline) -> Result<()> {
        Share::back(self, back, deadline)
    }
    fn missing(&mut self, errand: Errand) {
        Share::missing(self, errand == Errand::Read);
    }
    #[inline]
    fn has_aside(&mut self) -> bool {
        Share::has_aside(self)
    }
    fn aside(&mut self) -> Vec<Aside> {
        Share::aside(self)
    }
}

impl Shared {
    /// Connects, as [`Connection::open`] does.
    ///
    /// # Errors
    ///
    /// Those of [`Connection::open`].
    pub fn open(config: impl IntoConfig) -> Result<Shared> {
        Connection::open(config)?.into_shared()
    }

    /// The same connection, for commands that may be sent more than once: with a [`Reconnect`](crate::Reconnect) policy they are
    /// sent again when the connection breaks before their reply has come, up to three times. See [`Connection::idempotent`].
    ///
    /// ```
    /// # fn main() -> redefer::Result<()> {
    /// # #[cfg(feature = "testing")] {
    /// # let server = redefer::testing::Server::start()?;
    /// # let config = redefer::Config::from_url(&server.url())?;
    /// use redefer::prelude::*;
    ///
    /// let shared = Shared::open(config.reconnect(redefer::Reconnect::backoff()))?;
    /// let name: Option<String> = shared.idempotent().get("name").wait()?;
    /// # assert_eq!(name, None);
    /// # }
    /// # Ok(())
    /// # }
    /// ```
    pub fn idempotent(&self) -> Idempotent<&Shared> {
        Idempotent::new(self)
    }

    /// Sends everything that has been gathered. Blocks until the operating system has taken it, for at most
    /// [`Config::timeout`](crate::Config::timeout).
    ///
    /// # Errors
    ///
    /// [`Error::Timeout`] and [`Error::ConnectionLost`].
    pub fn flush(&self) -> Result<()> {
        let mut visit = self.table.visit();
        let mut deadline = Deadline::new(visit.wire().allowance());
        let issued = visit.wire().issued();
        visit.wait(Want::Written(issued), &mut deadline)?.map(drop)
    }

    /// Sends everything, waits until everything has been read that was issued before, by whatever thread, and returns the first
    /// error that nobody has seen: of a reply whose handle was dropped or [detached](SharedReply::detach). The account, which
    /// all threads share, is empty afterwards.
    ///
    /// See [`Connection::sync`] for what it does not tell.
    ///
    /// # Errors
    ///
    /// That error; [`Error::Timeout`] and [`Error::ConnectionLost`].
    pub fn sync(&self) -> Result<()> {
        let mut visit = self.table.visit();
        let mut deadline = Deadline::new(visit.wire().allowance());
        let issued = visit.wire().issued();
        let read = visit.wait(Want::Settled(issued), &mut deadline)?;
        visit.wire().take_account()?;
        read.map(drop)
    }

    /// How many replies are outstanding: of commands that were issued by any thread, sent or not, and whose reply has not been
    /// read from the connection. Never waits for the server.
    pub fn outstanding(&self) -> usize {
        self.table.visit().wire().connection().outstanding()
    }

    /// Whether the connection is of no more use: every command gives an error from now on, or with a
    /// [`Reconnect`](crate::Reconnect) policy the next one dials again. Never waits for the server.
    ///
    /// Unlike [`Connection::is_broken`] it has a look at the socket, for one system call, so that a connection is known to be
    /// closed when the news of that has come. While a thread waits for a reply, that one notices at once.
    pub fn is_broken(&self) -> bool {
        let mut visit = self.table.visit();
        visit.wire().look_around();
        !visit.wire().is_up()
    }

    /// What the connection has done so far, for all threads.
    pub fn stats(&self) -> Stats {
        self.table.visit().wire().stats()
    }

    /// The oldest push message (RESP3) that has come and not been taken: see [`Connection::next_push`].
    pub fn next_push(&self) -> Option<Value> {
        self.table.visit().wire().next_push()
    }

    // For the handles.

    #[inline]
    fn issue<A: Arguments>(&self, command: &Command<A>) -> u64 {
        if A::DIRECT {
            self.with_room(|share| share.issue(command))
        } else {
            // What the arguments do is their author's: it is done without the lock.
            self.issue_encoded(Encoded::of(command), false)
        }
    }

    fn issue_encoded(&self, encoded: Result<Encoded>, again: bool) -> u64 {
        self.with_room(|share| share.issue_encoded(encoded, again))
    }

    /// Runs `issue` when there is room for a command.
    #[inline]
    fn with_room(&self, issue: impl FnOnce(&mut Share) -> u64) -> u64 {
        let mut visit = self.table.visit();
        if !visit.wire().has_room(1) {
            let mut deadline = Deadline::new(visit.wire().allowance());
            if let Err(error) = visit.wait(Want::Room(1), &mut deadline) {
                let error = visit.wire().without_room(error);
                return visit.wire().born_failed(error);
            }
        }
        issue(visit.wire())
    }

    /// Waits for a reply, and takes it. After a timeout the handle's place is as good as before.
    #[inline]
    fn fetch_before(&self, place: u64, deadline: Option<Deadline>) -> Result<Stored, WaitError<()>> {
        let mut visit = self.table.visit();
        let mut deadline = match deadline {
            Some(deadline) => deadline,
            None => Deadline::new(visit.wire().allowance()),
        };
        match visit.wait(Want::Reply(place), &mut deadline) {
            Ok(outcome) => outcome.map_err(WaitError::Failed),
            Err(Error::Timeout) => Err(WaitError::Timeout(())),
            Err(refused) => {
                // What is refused must not be sent after all.
                let lost = visit.wire().give_up(place);
                Err(WaitError::Failed(if lost.may_have_run() { lost } else { refused }))
            }
        }
    }

    /// Waits for a reply for as long as the configuration allows, and takes it. The place is used up, whatever comes.
    #[inline]
    fn fetch(&self, place: u64) -> Result<Stored> {
        self.fetch_before(place, None).map_err(|error| match error {
            WaitError::Failed(error) => error,
            WaitError::Timeout(()) => self.table.visit().wire().give_up(place),
        })
    }

    fn fetch_within(&self, place: u64, time: Duration) -> Result<Stored, WaitError<()>> {
        self.fetch_before(place, Some(Deadline::tentative(time)))
    }

    fn is_ready(&self, place: u64) -> bool {
        let mut visit = self.table.visit();
        let ready = visit.wire().is_ready(place);
        visit.serve();
        ready
    }

    fn detach(&self, place: u64) {
        self.table.visit().wire().detach(place);
    }

    /// What the drop of a reply does.
    fn drop_reply(&self, place: u64) {
        let mut visit = self.table.visit();
        if let Some(until) = visit.wire().drop_reply(place) {
            let mut deadline = Deadline::new(visit.wire().allowance());
            let _ = visit.wait(Want::Settled(until), &mut deadline);
        }
    }
}

impl Connection {
    /// Lets threads share the connection. Reads everything outstanding first.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if it is subscribed, or a guard of a watch or a batch was forgotten on it, or a handle of a blocking
    /// command without end;
    /// [`Error::Timeout`] and [`Error::ConnectionLost`]. The connection is closed then.
    pub fn into_shared(self) -> Result<Shared> {
        Ok(Shared { table: Arc::new(Table::new(Share::new(self)?)) })
    }
}

impl TryFrom<Connection> for Shared {
    type Error = Error;

    /// See [`Connection::into_shared`].
    fn try_from(conn: Connection) -> Result<Shared> {
        conn.into_shared()
    }
}

impl<'c> Execute for &'c Shared {
    type Reply<T: FromReply> = SharedReply<'c, T>;
    type MultiBulk<T: FromReply> = SharedMultiBulk<'c, T>;

    fn command<T: FromReply>(self, name: &str, arguments: impl ToArgs) -> SharedReply<'c, T> {
        SharedReply::new(self, self.issue_encoded(Share::named(name, arguments), false))
    }

    #[inline]
    fn execute<T: FromReply, A: Arguments>(self, command: Command<A>) -> SharedReply<'c, T> {
        SharedReply::new(self, self.issue(&command))
    }

    #[inline]
    fn execute_multi<T: FromReply, A: Arguments>(self, command: Command<A>) -> SharedMultiBulk<'c, T> {
        SharedMultiBulk::new(self, self.issue(&command))
    }
}

impl<'c> Lasting for &'c Shared {
    fn command_again<T: FromReply>(self, name: &str, arguments: impl ToArgs) -> SharedReply<'c, T> {
        SharedReply::new(self, self.issue_encoded(Share::named(name, arguments), true))
    }

    fn execute_again<T: FromReply, A: Arguments>(self, command: Command<A>) -> SharedReply<'c, T> {
        SharedReply::new(self, self.issue_encoded(Encoded::of(&command), true))
    }

    fn execute_multi_again<T: FromReply, A: Arguments>(self, command: Command<A>) -> SharedMultiBulk<'c, T> {
        SharedMultiBulk::new(self, self.issue_encoded(Encoded::of(&command), true))
    }
}

impl Shared {
    /// Issues a command by its name and arguments: see [`Execute::command`].
    pub fn command<T: FromReply>(&self, name: &str, arguments: impl ToArgs) -> SharedReply<'_, T> {
        Execute::command(self, name, arguments)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What it is written to is not this crate's own, and may be waiting for another thread.
        let (config, outstanding) = self.table.visit().wire().summary();
        f.debug_struct("Shared").field("config", &config).field("outstanding", &outstanding).finish_non_exhaustive()
    }
}
