//! MULTI … EXEC as a guard, WATCH as a guard, and the loop of both.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::time::Duration;

use crate::args::{ArgWriter, Arguments, Command, Gathered, ToArgs, gather};
use crate::connection::{Change, Connection, Effect, Encoded, place, unwritten};
use crate::error::{Error, Result};
use crate::execute::Execute;
use crate::reply::{MultiBulk, Queued, Reply};
use crate::resp::encode;
use crate::values::FromReply;

/// A transaction that has not been sent, made by [`Connection::transaction`] or [`Watch::transaction`].
///
/// Commands are encoded into the transaction's own buffer. [`commit`](Transaction::commit) sends MULTI, the commands and
/// EXEC in one piece, so that nothing half-open can be left on the server, and commands issued on the connection
/// meanwhile run at once, outside it. Handles are [`Queued`]: bound when EXEC's reply comes, and
/// [`Error::NotCommitted`] before.
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(feature = "testing")] {
/// # let server = redefer::testing::Server::start()?;
/// # let conn = redefer::Connection::open(server.url())?;
/// use redefer::prelude::*;
///
/// let tx = conn.transaction();
/// let x = tx.incr("x");
/// let y: Queued<'_, Option<String>> = tx.get("y");
/// tx.commit().wait()?;
/// assert_eq!((x.wait()?, y.wait()?), (1, None));
/// # }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// A command that cannot be sent (an empty list where the server needs an element, an iterator that fails, a name that is
/// refused, a value that is too long) fails the transaction: **nothing is sent**, and `commit` and every handle get the first
/// such error, whether the handle of that command was dropped, waited for, or is still held. Other commands that could not
/// be sent have their own errors.
///
/// If the server refuses to queue a command, or EXEC itself fails, nothing ran either: `commit` and every handle get EXEC's
/// error (`EXECABORT`, `READONLY`, …), except that a command which the server had refused to queue gets its own; if its
/// handle was dropped, that goes to the connection's account.
///
/// A command that fails *while it runs* fails alone: **the others have run, and the commit is `Ok`**. Its error is for its
/// handle. If that was dropped, as is usual in a transaction, the error goes to the account: call [`Connection::sync`] after
/// the commit, or keep the handles that matter.
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(feature = "testing")] {
/// # let server = redefer::testing::Server::start()?;
/// # let conn = redefer::Connection::open(server.url())?;
/// use redefer::prelude::*;
///
/// conn.set("name", "Ada").wait()?;
/// let tx = conn.transaction();
/// tx.set("visits", 1);
/// tx.incr("name"); // text is no number
/// tx.commit().wait()?; // SET has run
/// assert_eq!(conn.sync().unwrap_err().code(), Some("ERR"));
///
/// let tx = conn.transaction();
/// tx.del("visits");
/// tx.rpush("list", Vec::<String>::new()); // RPUSH needs an element
/// assert!(matches!(tx.commit().wait(), Err(Error::Argument(_)))); // DEL was not sent
/// assert_eq!(conn.get::<i64>("visits").wait()?, 1);
/// # }
/// # Ok(())
/// # }
/// ```
///
/// If the server refuses MULTI (a user may not be allowed it), every handle gets that error; the commands were sent
/// behind it and **may have run**, one by one.
///
/// # Drop
///
/// Nothing is sent, and its handles give [`Error::NotCommitted`], or the error of a command that could not have been sent;
/// nothing goes to the account. Likewise [`discard`](Transaction::discard). A
/// transaction under [`Watch`] ends the watch.
#[must_use = "a transaction that is not committed sends nothing"]
pub struct Transaction<'c> {
    queue: Queue<&'c Connection>,
    watch: Option<Watch<'c>>,
}

/// The commands of a transaction, and where their handles are kept.
pub(crate) struct Queue<G: Grouping> {
    on: G,
    /// On a connection that is in use there is no transaction: see [`Connection::open_group`].
    group: Option<u32>,
    commands: RefCell<Buffer>,
    /// A command was issued while the connection was in use, which not even its error can be noted for.
    missing: Cell<bool>,
}

/// What transactions are kept and committed on.
pub(crate) trait Grouping: Copy {
    /// See [`Connection::open_group`].
    fn open_group(self) -> Option<u32>;
    /// See [`Connection::add_to_group`].
    fn add_to_group(self, id: u32) -> Option<u32>;
    /// See [`Connection::refuse_in_group`].
    fn refuse_in_group(self, id: u32, error: Error) -> Option<u32>;
    /// See [`Connection::group_len`].
    fn group_len(self, id: u32) -> Option<usize>;
    /// See [`Connection::discard_group`].
    fn discard_group(self, id: u32);
    /// See [`Connection::admit`].
    fn admit(self, encoded: &Encoded) -> Result<()>;
    /// Why a command that changes the connection in this way cannot be part of a transaction, if it cannot.
    fn refuses_change(self, change: Option<Change>) -> Option<&'static str>;
}

impl Grouping for &Connection {
    #[inline]
    fn open_group(self) -> Option<u32> {
        Connection::open_group(self)
    }
    #[inline]
    fn add_to_group(self, id: u32) -> Option<u32> {
        Connection::add_to_group(self, id)
    }
    fn refuse_in_group(self, id: u32, error: Error) -> Option<u32> {
        Connection::refuse_in_group(self, id, error)
    }
    fn group_len(self, id: u32) -> Option<usize> {
        Connection::group_len(self, id)
    }
    fn discard_group(self, id: u32) {
        Connection::discard_group(self, id);
    }
    fn admit(self, encoded: &Encoded) -> Result<()> {
        Connection::admit(self, encoded)
    }
    fn refuses_change(self, change: Option<Change>) -> Option<&'static str> {
        match change {
            Some(Change::Login | Change::Database) => {
                Some("AUTH and SELECT cannot be part of a transaction: issue them on the connection")
            }
            _ if self.is_made_again() => Some(
                "what a transaction changes of the connection would not be restored by a reconnect: issue it on the connection",
            ),
            _ => None,
        }
    }
}

/// Encoded commands: `bytes[..len]`. What is behind is spare room, zeroed.
#[derive(Default)]
struct Buffer {
    bytes: Vec<u8>,
    len: usize,
}

/// Keys under WATCH, made by [`Connection::watch`]: [`transaction`](Watch::transaction) begins the transaction that runs
/// only if none of them has changed.
///
/// There is one watch at a time on a connection, and while it is held only its own transaction can be committed: any EXEC
/// ends every watch, and a transaction must not lose its guard without anybody noticing.
///
/// # Drop
///
/// Sends UNWATCH, without waiting. While the thread is panicking it does no I/O.
///
/// A watch that is forgotten ([`std::mem::forget`]) is held for as long as the connection lives.
#[must_use = "the keys are watched only as long as this is held"]
pub struct Watch<'c> {
    conn: &'c Connection,
    generation: u64,
    /// A node of a cluster that imports the slot of the keys: it takes commands only behind ASKING.
    asking: bool,
    /// A transaction has taken EXEC's word for it.
    spent: bool,
}

impl Connection {
    /// Begins a transaction. Never blocks; nothing is sent before its [`commit`](Transaction::commit).
    pub fn transaction(&self) -> Transaction<'_> {
        Transaction { queue: Queue::open(self), watch: None }
    }

    /// Watches keys (one, or any list of them) and waits for the server's word.
    ///
    /// ```
    /// # fn main() -> redefer::Result<()> {
    /// # #[cfg(feature = "testing")] {
    /// # let server = redefer::testing::Server::start()?;
    /// # let conn = redefer::Connection::open(server.url())?;
    /// use redefer::{Error, prelude::*};
    ///
    /// let watch = conn.watch(["balance"])?;
    /// let balance: Option<i64> = conn.get("balance").wait()?;
    /// let tx = watch.transaction();
    /// tx.set("balance", balance.unwrap_or(0) + 10);
    /// match tx.commit().wait() {
    ///     Ok(()) => {}
    ///     Err(Error::Aborted) => println!("somebody was faster"),
    ///     Err(error) => return Err(error),
    /// }
    /// # }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] while another watch is held; [`Error::Argument`] without keys; those of a wait.
    pub fn watch(&self, keys: impl ToArgs) -> Result<Watch<'_>> {
        self.watch_gathered(&gather_keys(keys)?)
    }

    fn watch_gathered(&self, keys: &Gathered) -> Result<Watch<'_>> {
        let generation = self.begin_watch(keys)?;
        Ok(Watch { conn: self, generation, asking: false, spent: false })
    }

    /// The same on a node of a cluster that imports the slot of the keys.
    pub(crate) fn watch_asking(&self, keys: impl ToArgs) -> Result<Watch<'_>> {
        self.ask_for_the_next();
        let mut watch = self.watch(keys)?;
        watch.asking = true;
        Ok(watch)
    }

    fn ask_for_the_next(&self) {
        self.command::<()>("ASKING", ()).detach();
    }

    /// Watches keys, lets `body` read what it needs and queue commands, commits, and begins again if a key has changed
    /// meanwhile: at most sixteen times, after a random pause that grows.
    ///
    /// `body` returns the handles whose values are wanted, one, an `Option`, a vector or a tuple of them, or `()`; their
    /// values are returned. It runs once for each attempt, and so **up to sixteen times**: what it does besides reading and
    /// queueing is repeated as well.
    ///
    /// ```
    /// # fn main() -> redefer::Result<()> {
    /// # #[cfg(feature = "testing")] {
    /// # let server = redefer::testing::Server::start()?;
    /// # let conn = redefer::Connection::open(server.url())?;
    /// use redefer::prelude::*;
    ///
    /// conn.set("x", 20).wait()?;
    /// let doubled: i64 = conn.transact(["x"], |conn, tx| {
    ///     let x: i64 = conn.get("x").wait()?;
    ///     Ok(tx.incrby("x", x))
    /// })?;
    /// assert_eq!(doubled, 40);
    /// # }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// With a [`Reconnect`](crate::Reconnect) policy it also begins again when the connection breaks and nothing of the transaction
    /// has run. What `body` reads in it should go through [`idempotent`](Connection::idempotent) then: a reply that is lost is
    /// an error of `body`.
    ///
    /// # Errors
    ///
    /// The first error of `body`, which is not repeated and leaves nothing behind; that of the first command which could
    /// not be sent, and then nothing was; [`Error::Aborted`] after the last attempt; the first error of a wanted value, whose
    /// transaction has then run. Errors of commands whose handles were dropped in `body` go to the connection's account:
    /// see [`Transaction`](Transaction#errors).
    pub fn transact<'c, H: Handles>(
        &'c self,
        keys: impl ToArgs,
        mut body: impl FnMut(&'c Connection, &Transaction<'c>) -> Result<H>,
    ) -> Result<H::Output> {
        let keys = gather_keys(keys)?;
        let mut attempt = 0;
        loop {
            let watch = match self.watch_gathered(&keys) {
                // Nothing has been done yet.
                Err(error) if error.is_connection_lost() && self.is_made_again() && attempt < RETRIES => {
                    attempt += 1;
                    continue;
                }
                watch => watch?,
            };
            let tx = watch.transaction();
            let handles = body(self, &tx)?;
            match tx.commit().wait() {
                Ok(()) => return handles.wait_all(),
                Err(error) if attempt < RETRIES && self.begins_again(&error) => {
                    attempt += 1;
                    let longest = 250 << attempt.min(7);
                    std::thread::sleep(Duration::from_micros(fastrand::u64(0..longest)));
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl Connection {
    /// Whether a commit that failed in this way may be tried again: nothing of it has run.
    fn begins_again(&self, error: &Error) -> bool {
        match error {
            Error::Aborted => true,
            Error::ConnectionLost(_) => self.is_made_again() && !error.may_have_run(),
            _ => false,
        }
    }
}

/// How often [`Connection::transact`] begins again.
const RETRIES: u32 = 15;

fn gather_keys(keys: impl ToArgs) -> Result<Gathered> {
    let keys = gather(|out| keys.write_args(out))?;
    if keys.count == 0 { Err(Error::Argument("WATCH needs at least one key")) } else { Ok(keys) }
}

impl<'c> Transaction<'c> {
    /// Sends the transaction. The handle that is returned resolves with EXEC's reply.
    ///
    /// Does not wait for replies, but like any command it may wait for the socket to take what was gathered before.
    ///
    /// # Errors
    ///
    /// Told by the handle: that of the first command that could not be sent, and then nothing is; [`Error::Aborted`] when a
    /// watched key has changed (nothing is sent when it is known before that the watch was ended), [`Error::Server`] when
    /// EXEC fails, [`Error::Refused`] while a watch is held that is not this transaction's.
    ///
    /// **Not** that of a command that failed while it ran: see [the type](Transaction#errors).
    pub fn commit(mut self) -> Reply<'c, ()> {
        let conn = self.queue.on;
        let Some(group) = self.queue.group.take() else { return Reply::new(conn, place::BUSY) };
        let watch = self.watch.take();
        let generation = watch.as_ref().map(|watch| watch.generation);
        let (bytes, missing) = self.queue.commands();
        if watch.as_ref().is_some_and(|watch| watch.asking) {
            conn.ask_for_the_next();
        }
        let (commit, forgotten) = conn.commit_group(group, bytes, missing, generation);
        if let Some(mut watch) = watch {
            watch.spent = forgotten;
        }
        Reply::new(conn, commit)
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

impl<G: Grouping> Queue<G> {
    pub(crate) fn open(on: G) -> Self {
        Queue { on, group: on.open_group(), commands: RefCell::default(), missing: Cell::default() }
    }

    /// Takes the number of the transaction, to commit it.
    pub(crate) fn close(&mut self) -> Option<u32> {
        self.group.take()
    }

    /// The commands, and whether one is missing from them.
    pub(crate) fn commands(&mut self) -> (&[u8], bool) {
        let missing = self.misses_any();
        let Buffer { bytes, len } = self.commands.get_mut();
        (&bytes[..*len], missing)
    }

    pub(crate) fn misses_any(&self) -> bool {
        self.missing.get()
    }

    /// Whether it has not been taken in or given up.
    pub(crate) fn is_open(&self) -> bool {
        self.group.is_some()
    }

    pub(crate) fn on(&self) -> G {
        self.on
    }

    pub(crate) fn len(&self) -> usize {
        self.group.and_then(|group| self.on.group_len(group)).unwrap_or(0)
    }

    /// Keeps an encoded command and returns the place of its handle.
    pub(crate) fn queue(&self, encoded: Result<Encoded>) -> u64 {
        let encoded = match encoded {
            Ok(encoded) => encoded,
            Err(error) => return self.refuse(error),
        };
        let mut buffer = self.commands.borrow_mut();
        let len = buffer.len;
        let end = encode::raw(&mut buffer.bytes, len, &encoded.bytes);
        self.queued(&mut buffer, end)
    }

    /// A command has been encoded up to `end`: it counts once it has a handle.
    #[inline]
    fn queued(&self, buffer: &mut Buffer, end: usize) -> u64 {
        match self.group.and_then(|group| Some(place::member(group, self.on.add_to_group(group)?))) {
            Some(place) => {
                buffer.len = end;
                place
            }
            None => self.miss(),
        }
    }

    /// The place of the handle of a command that cannot be sent, and without which nothing else will be.
    #[cold]
    fn refuse(&self, error: Error) -> u64 {
        let index = self.group.and_then(|group| Some((group, self.on.refuse_in_group(group, error)?)));
        index.map_or_else(|| self.miss(), |(group, index)| place::member(group, index))
    }

    #[cold]
    fn miss(&self) -> u64 {
        self.missing.set(true);
        place::BUSY
    }

    pub(crate) fn queue_named(&self, name: &str, arguments: impl ToArgs) -> u64 {
        let encoded = Encoded::named(name, arguments);
        self.queue(encoded.and_then(|encoded| {
            self.on.admit(&encoded)?;
            let change = match encoded.effect() {
                // In a transaction nothing blocks.
                Effect::Ordinary | Effect::Blocking(_) => return Ok(encoded),
                Effect::Refused(why) => return Err(Error::Refused(why)),
                Effect::Barrier => Some(Change::Login),
                Effect::Changes(change) => Some(change),
                Effect::Tracks => None,
            };
            self.on.refuses_change(change).map_or(Ok(encoded), |why| Err(Error::Refused(why)))
        }))
    }

    /// Queues a command of a method: of this crate's own types it is encoded right into the buffer.
    #[inline(always)]
    pub(crate) fn queue_command<A: Arguments>(&self, command: &Command<A>) -> u64 {
        if !A::DIRECT {
            return self.queue(Encoded::of(command));
        }
        let mut buffer = self.commands.borrow_mut();
        let Buffer { bytes, len } = &mut *buffer;
        let mut out = ArgWriter::new(bytes, *len);
        out.command(1 + command.arguments().count(), command.name());
        match (command.arguments().write(&mut out), out.end()) {
            (Ok(()), Some(end)) => self.queued(&mut buffer, end),
            (Err(why), _) => self.refuse(unwritten(why)),
            (Ok(()), None) => self.refuse(out.fault().error()),
        }
    }
}

impl<'c> Execute for &Transaction<'c> {
    type Reply<T: FromReply> = Queued<'c, T>;
    type MultiBulk<T: FromReply> = MultiBulk<'c, T>;

    fn command<T: FromReply>(self, name: &str, arguments: impl ToArgs) -> Queued<'c, T> {
        Queued::new(self.queue.on, self.queue.queue_named(name, arguments))
    }

    #[inline(always)]
    fn execute<T: FromReply, A: Arguments>(self, command: Command<A>) -> Queued<'c, T> {
        Queued::new(self.queue.on, self.queue.queue_command(&command))
    }

    #[inline(always)]
    fn execute_multi<T: FromReply, A: Arguments>(self, command: Command<A>) -> MultiBulk<'c, T> {
        MultiBulk::new(self.queue.on, self.queue.queue_command(&command))
    }
}

impl<G: Grouping> Drop for Queue<G> {
    fn drop(&mut self) {
        if let Some(group) = self.group.take() {
            self.on.discard_group(group);
        }
    }
}

impl fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("watched", &self.watch.is_some()).finish_non_exhaustive()
    }
}

impl<'c> Watch<'c> {
    /// Begins the transaction that runs only if no watched key has changed.
    pub fn transaction(self) -> Transaction<'c> {
        let mut tx = self.conn.transaction();
        tx.watch = Some(self);
        tx
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.conn.end_watch(self.spent);
    }
}

impl fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

/// The handles whose values [`Connection::transact`] returns: one, an `Option`, a vector or a tuple of them, or `()`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not what the body of `transact` returns",
    label = "neither a handle that `tx` gave, nor an `Option`, a vector or a tuple of such handles, nor `()`",
    note = "return `Ok(tx.incr(\"x\"))`, the handle of a command, for its value when the transaction has run",
    note = "a value that the body has itself can be kept in a variable outside of it"
)]
pub trait Handles {
    /// Their values.
    type Output;
    /// Waits for all of them, in order. After an error the others are given up.
    fn wait_all(self) -> Result<Self::Output>;
}

impl<T: FromReply> Handles for Queued<'_, T> {
    type Output = T;
    fn wait_all(self) -> Result<T> {
        self.wait()
    }
}

/// All elements.
impl<T: FromReply> Handles for MultiBulk<'_, T> {
    type Output = Vec<T>;
    fn wait_all(self) -> Result<Vec<T>> {
        self.wait()
    }
}

impl<H: Handles> Handles for Vec<H> {
    type Output = Vec<H::Output>;
    fn wait_all(self) -> Result<Self::Output> {
        self.into_iter().map(H::wait_all).collect()
    }
}

/// Nothing, where there is nothing to do.
impl<H: Handles> Handles for Option<H> {
    type Output = Option<H::Output>;
    fn wait_all(self) -> Result<Self::Output> {
        self.map(H::wait_all).transpose()
    }
}

impl Handles for () {
    type Output = ();
    fn wait_all(self) -> Result<()> {
        Ok(())
    }
}

macro_rules! handles {
    ($(($($name:ident $index:tt),+))*) => {$(
        impl<$($name: Handles),+> Handles for ($($name,)+) {
            type Output = ($($name::Output,)+);
            fn wait_all(self) -> Result<Self::Output> {
                Ok(($(self.$index.wait_all()?,)+))
            }
        }
    )*};
}

handles! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
}
