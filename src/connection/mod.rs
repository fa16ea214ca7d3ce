//! The connection: what it is opened with, and what can be done with it besides issuing commands.

mod aside;
mod batches;
mod bulk;
#[cfg(feature = "cache")]
mod cache_config;
#[cfg(feature = "cache")]
mod cached;
mod caching;
mod config;
mod deadline;
mod elements;
mod engine;
mod entered;
#[cfg(feature = "cache")]
mod entries;
mod events;
mod exec;
mod found;
mod groups;
mod handshake;
mod input;
mod issue;
mod lines;
mod listen;
mod lost;
mod output;
pub(crate) mod place;
mod queue;
#[cfg(feature = "r2d2")]
mod reclaim;
mod reconnect;
mod routed;
mod settle;
mod share;
mod stats;
mod stream;
mod subscribe;
mod table;
#[cfg(feature = "tls")]
mod tls;
#[cfg(feature = "tls")]
mod tls_config;
mod traffic;
mod url;
mod wait;
mod wake;
pub(crate) mod wire;

use std::cell::{Cell, RefCell};
use std::fmt;

pub(crate) use aside::Aside;
pub(crate) use bulk::{Fed, copy_whole};
#[cfg(feature = "cache")]
pub use cache_config::{CacheConfig, CacheStats};
#[cfg(feature = "cache")]
pub(crate) use cached::Use;
pub(crate) use config::Endpoint;
#[cfg(feature = "r2d2")]
pub(crate) use config::LONGEST;
pub use config::{Config, Credentials, IntoConfig, Protocol, SendWhen};
pub(crate) use deadline::Deadline;
pub(crate) use elements::{Begun, Rest};
pub(crate) use engine::{BUSY as IN_USE, EMPTY, GONE, TOO_LONG};
use engine::{BUSY, Engine};
pub(crate) use entered::Entered;
#[cfg(feature = "cache")]
pub(crate) use entries::Keys;
pub(crate) use found::{Find, Found};
pub(crate) use issue::{Encoded, unwritten};
pub(crate) use lines::Lines;
pub(crate) use listen::Listener;
pub(crate) use queue::{Store, Stored};
pub(crate) use reconnect::Down;
pub use reconnect::Reconnect;
pub(crate) use reconnect::is_hopeless;
pub(crate) use routed::Arrival;
pub(crate) use share::{Back, CHANGES, Look, Outcome, Outing, Share, Want};
pub use stats::Stats;
pub(crate) use table::{Change, Effect};
#[cfg(feature = "tls")]
pub use tls_config::TlsConfig;
pub(crate) use wait::decode_whole;
pub(crate) use wake::{Stop, Waker, Watched};

use crate::error::{Error, Result};
use crate::idempotent::Idempotent;
use crate::values::{FromReply, Value};

/// A blocking connection to a server.
///
/// Commands are methods of the command traits in the [prelude](crate::prelude); each returns at once, with a handle of a
/// reply that has not been read yet:
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(feature = "testing")] {
/// # let server = redefer::testing::Server::start()?;
/// # let url = server.url();
/// use redefer::prelude::*;
///
/// let conn = Connection::open(url)?;
/// conn.set("hello", "world").wait()?;                      // a plain blocking call
///
/// let name = conn.get::<String>("hello");                  // not read yet
/// let visits = conn.incr("visits");                        // on the wire behind it
/// assert_eq!(visits.wait()?, 1);                           // reads both, in order
/// assert_eq!(name.wait()?, "world");                       // was kept for its handle
/// # }
/// # Ok(())
/// # }
/// ```
///
/// A connection is [`Send`] and not [`Sync`]: it belongs to one thread at a time. Threads that want to share one turn it
/// [into a `Shared`](Connection::into_shared). Handles borrow the connection and cannot outlive it.
///
/// # Errors that nobody sees
///
/// The error of a reply whose handle was dropped or detached goes to the connection's *account*: the first one, and how
/// many there were ([`Stats::unseen_errors`]). [`sync`](Connection::sync) hands it out.
///
/// # Events
///
/// With the feature `tracing`, events of the target `redefer` say when a server is dialled (debug), a connection is made or not
/// (debug), lost (warn, with its cause, how many replies went with it and how many commands are kept), could not be made
/// again yet (warn), is there again (info), and is given up (error). None has a key, a value or a password in it.
///
/// # Order
///
/// Replies come in the order of the commands, and the connection, not the handles, keeps the books: a handle that is
/// dropped, forgotten, timed out or panicked over never makes another one see its reply.
///
/// # When commands are sent
///
/// [`SendWhen`] decides, by default by what the calls so far suggest. Whoever waits for a reply causes everything before
/// it to be sent; [`flush`](Connection::flush) does so without waiting.
///
/// # Drop
///
/// Writes what has been gathered and reads what is outstanding, for at most [`Config::linger`]; then shuts the writing
/// side, reads to the end of file for at most as long again, and closes. So commands whose handles were detached reach the
/// server, and their errors are lost: call [`sync`](Connection::sync) first to see them. While the thread is panicking,
/// drop does no I/O; blocking commands without end are not waited for.
#[doc(alias = "Client")]
pub struct Connection {
    engine: RefCell<Engine>,
    /// Guards that were dropped while the engine was in use further up the stack.
    ended: Cell<Ended>,
}

/// Whether there is a server at the other end.
#[derive(Debug)]
enum Link {
    Up,
    /// The connection is being taken apart.
    Breaking,
    /// It will be made again when something is wanted of it.
    Down(Down),
    /// It will never be made again.
    Broken,
}

/// What is still to be done for guards that are gone: see [`Connection::with_guards`].
#[derive(Clone, Copy, Default)]
struct Ended {
    watch: bool,
    /// The number of a batch.
    batch: Option<u64>,
}

impl Connection {
    /// Connects and agrees with the server on protocol, user, database and name.
    ///
    /// Takes a URL (see [`Config::from_url`]) or a [`Config`]. Blocks for at most [`Config::connect_timeout`], over all
    /// addresses of a name, TLS and the handshake; only the resolution of the name itself is the operating system's.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for a URL that cannot be used, [`Error::Io`] when no address can be connected to, when
    /// the server's certificate is not accepted, TLS is not agreed upon in time, or in that time a
    /// [sentinel](crate::Sentinel) is silent, or what it has named,
    /// [`Error::Server`] when the server refuses the user, the password, the database, the name or the connection, and
    /// [`Error::Timeout`].
    pub fn open(config: impl IntoConfig) -> Result<Connection> {
        let config = config.into_config()?;
        let time = config.connect_timeout;
        let engine = Engine::connect(config, time, &[])?;
        Ok(Connection { engine: RefCell::new(engine), ended: Cell::default() })
    }

    /// Runs on the engine, unless it is in use further up the stack.
    #[inline(always)]
    pub(crate) fn with<R>(&self, run: impl FnOnce(&mut Engine) -> R) -> Result<R> {
        match self.engine.try_borrow_mut() {
            Ok(mut engine) => Ok(run(&mut engine)),
            Err(_) => Err(Error::Refused(BUSY)),
        }
    }

    /// Runs on the engine what depends on whether there is a watch or a batch, after the end of those whose guard was
    /// dropped while the engine was in use.
    pub(crate) fn with_guards<R>(&self, run: impl FnOnce(&mut Engine) -> R) -> Result<R> {
        self.with(|engine| {
            let ended = self.ended.take();
            if ended.watch {
                engine.end_watch(false);
            }
            if let Some(id) = ended.batch {
                engine.drop_batch(id);
            }
            run(engine)
        })
    }

    /// The same connection, for commands that may be sent more than once: with a [`Reconnect`] policy they are sent again
    /// when the connection breaks before their reply has come, up to three times.
    ///
    /// Use it for what does no harm when it runs twice: reading, SET of a value, DEL. Not for INCR or LPUSH: their first
    /// run may have gone through. Without such a policy it makes no difference. Batches, transactions, blocking commands and
    /// values from a reader are never sent again.
    ///
    /// The bytes of such a command are kept until it has been answered.
    ///
    /// ```
    /// # fn main() -> redefer::Result<()> {
    /// # #[cfg(feature = "testing")] {
    /// # let server = redefer::testing::Server::start()?;
    /// # let config = redefer::Config::from_url(&server.url())?;
    /// use redefer::prelude::*;
    ///
    /// let conn = Connection::open(config.reconnect(redefer::Reconnect::backoff()))?;
    /// let name: Option<String> = conn.idempotent().get("name").wait()?;
    /// # assert_eq!(name, None);
    /// # }
    /// # Ok(())
    /// # }
    /// ```
    pub fn idempotent(&self) -> Idempotent<&Connection> {
        Idempotent::new(self)
    }

    /// Sends everything that has been gathered. Blocks until the operating system has taken it, for at most
    /// [`Config::timeout`]; replies that arrive meanwhile are kept.
    pub fn flush(&self) -> Result<()> {
        self.with(|engine| {
            let mut deadline = Deadline::new(engine.config.timeout);
            engine.flush(&mut deadline)
        })?
    }

    /// Sends everything, reads everything outstanding, and returns the first error that nobody has seen: of a reply
    /// whose handle was dropped or [detached](crate::Reply::detach). The account is empty afterwards.
    ///
    /// **Only the first error is told**, however many there were; the others are counted in [`Stats::unseen_errors`] until
    /// this hands out the first one, and gone then. To know how many there were, wait for a [`ping`] first, so that everything
    /// is read, look at the count, and call this. A [`Batch`](crate::Batch) tells the first one with its position and the
    /// count, and a handle that is kept tells its own.
    ///
    /// Replies whose handles live are kept for them, and so are their errors. Blocks for at most [`Config::timeout`], longer if blocking commands are outstanding.
    ///
    /// [`ping`]: crate::commands::ConnectionCommands::ping
    pub fn sync(&self) -> Result<()> {
        self.with(|engine| {
            let last = engine.issued;
            let time = engine.allowance(last);
            let mut deadline = Deadline::new(time);
            let read = engine.sync(last, &mut deadline);
            if let Err(Error::Timeout) = read {
                return read;
            }
            engine.take_account()?;
            read
        })?
    }

    /// How many replies are outstanding: of commands that were issued, sent or not, and whose reply has not been read
    /// from the connection. Never blocks.
    pub fn outstanding(&self) -> usize {
        self.with(|engine| engine.outstanding()).unwrap_or(0)
    }

    /// Whether the connection is of no more use: every command gives an error from now on, or with a [`Reconnect`] policy
    /// the next one dials again. Never blocks, and does not ask the operating system: a connection that the server has closed is noticed when something is written or read.
    pub fn is_broken(&self) -> bool {
        self.with(|engine| !engine.is_up()).unwrap_or(false)
    }

    /// Whether it is made again after a break.
    pub(crate) fn is_made_again(&self) -> bool {
        self.with(|engine| !engine.config.reconnect.is_never()).unwrap_or(false)
    }

    /// Whether the server has closed the connection, found out without waiting.
    #[cfg(feature = "r2d2")]
    pub(crate) fn look_for_close(&mut self) -> Result<()> {
        self.engine.get_mut().look_for_close()
    }

    /// Makes the connection as it was when it was opened as `home` says, or says that it cannot be.
    #[cfg(feature = "r2d2")]
    pub(crate) fn reclaim(&mut self, home: &Config) -> Result<()> {
        let ended = self.ended.take();
        self.engine.get_mut().reclaim(home, ended.watch)
    }

    /// What the connection has done so far.
    pub fn stats(&self) -> Stats {
        self.with(|engine| engine.stats_now()).unwrap_or_default()
    }

    /// The database that is selected.
    pub fn database(&self) -> u32 {
        self.with(|engine| engine.config.database).unwrap_or(0)
    }

    /// The protocol agreed on with the server.
    pub fn protocol(&self) -> Protocol {
        self.with(|engine| engine.config.protocol).unwrap_or_default()
    }

    /// The oldest push message (RESP3) that has come and not been taken, or nothing. Never blocks, and reads nothing from
    /// the socket: messages are found while replies are read. [`next_push_timeout`](Connection::next_push_timeout) reads. As many
    /// are kept as [`Config::push_queue`] says.
    pub fn next_push(&self) -> Option<Value> {
        let push = self.with(|engine| engine.next_push()).ok()??;
        Value::from_reply(crate::resp::frame(&push)?).ok()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.engine.get_mut().close();
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Connection");
        if let Ok(engine) = self.engine.try_borrow() {
            out.field("config", &engine.config).field("outstanding", &engine.outstanding());
        }
        out.finish_non_exhaustive()
    }
}
