//! Client-side caching: replies that are kept until the server says that they are old. With the feature `cache`.
//!
//! A server from 6.0 on remembers which keys a connection has read, and sends an *invalidation* when one of them changes
//! ([client-side caching](https://redis.io/docs/latest/develop/reference/client-side-caching/)). A [`Cached`] connection keeps
//! the replies to commands that read, and answers the same command from memory as long as there was none:
//!
//! ```
//! # fn main() -> redefer::Result<()> {
//! # #[cfg(feature = "testing")] {
//! # let server = redefer::testing::Server::start()?;
//! # let url = server.url();
//! use redefer::cache::{CacheConfig, Cached};
//! use redefer::prelude::*;
//!
//! let cached = Cached::open(&*url, CacheConfig::new())?;
//! let other = Connection::open(&*url)?;
//!
//! other.set("greeting", "hello").wait()?;
//! let first: String = cached.get("greeting").wait()?;      // from the server
//! let again: String = cached.get("greeting").wait()?;      // from memory
//! assert_eq!((first, again), ("hello".into(), "hello".into()));
//! assert_eq!((cached.cache_stats().misses, cached.cache_stats().hits), (1, 1));
//!
//! other.set("greeting", "goodbye").wait()?;                // the server tells the cached connection
//! # cached.ping().wait()?;
//! assert_eq!(cached.get::<String>("greeting").wait()?, "goodbye");
//! # }
//! # Ok(())
//! # }
//! ```
//!
//! # What it promises
//!
//! A reply from memory is **never older than the invalidations that the server has sent before the call**: each call that
//! would be answered from memory first takes what the socket holds, without waiting. Replies are put in and taken out in the
//! order in which they and the invalidations arrive, not when a handle is waited for. What the server has not sent yet,
//! or the network not brought, nobody can know here; so another client's write is seen a little later than without a cache.
//! What this connection writes itself is seen at once.
//!
//! Two things servers tell late or never. A key past its time goes on here until the server removes it, which is when somebody
//! asks for it, or else when its own search for such keys comes by: mostly some 100 ms later. And of SWAPDB by another client
//! no server says anything: call [`clear`](Cached::clear) where databases are swapped.
//!
//! When the connection breaks, everything is forgotten. With [`Config::reconnect`](crate::Config::reconnect) tracking is turned on
//! again before anything else is sent, and reads whose reply would have been kept are sent again, since they do no harm twice;
//! on a connection that only came about in RESP2, nothing is kept.
//!
//! # What is kept
//!
//! Replies to commands that read and whose reply depends on their keys and arguments alone, by method: `get`, `mget`,
//! `hget`, `hgetall`, `lrange`, `smembers`, `zrange`, `xrange`, `exists` and their like; nil too, and no errors. A reply is found
//! by the whole command, so `hget("h", "a")` and `hget("h", "b")` are two, and a change of the hash ends both. What depends
//! on the time, on chance or on other keys (`ttl`, `srandmember`, `scan`, `sort_ro`) always asks the server. A command
//! by name, [`command`](crate::commands::Execute::command), is not looked up, and since it may do anything, it empties the cache.
//!
//! A reply that may be kept is read as a whole before its handle gets the first element, as far as [`CacheConfig::bytes`]
//! allows; one that turns out to be larger is read piece by piece, as without a cache.

#[cfg(doctest)]
mod compile_fail;
mod table;

use std::fmt;

use table::Kind;

use crate::args::{Arguments, Command, ToArgs};
pub use crate::connection::{CacheConfig, CacheStats};
use crate::connection::{Connection, Encoded, IntoConfig, Keys, Stats, Use};
use crate::error::Result;
use crate::execute::Execute;
use crate::reply::{MultiBulk, Reply};
use crate::values::{FromReply, Value};

/// A connection that keeps replies: see the [module](self).
///
/// Commands are issued on it as on a [`Connection`], with the same handles. It belongs to one thread at a time; each thread has
/// a cache of its own, or they take turns behind a [`Mutex`](std::sync::Mutex).
///
/// Transactions, batches, blocking commands and all else that needs the connection itself are done [`uncached`](Cached::uncached).
pub struct Cached {
    conn: Connection,
}

impl Cached {
    /// Connects, as [`Connection::open`] does, and turns tracking on.
    ///
    /// # Errors
    ///
    /// Those of [`Connection::open`] and of [`Connection::into_cached`].
    pub fn open(config: impl IntoConfig, cache: CacheConfig) -> Result<Cached> {
        Connection::open(config)?.into_cached(cache)
    }

    /// In the mode [`opt_in`](CacheConfig::opt_in): the same connection, for commands whose replies are to be kept. In the other
    /// modes it makes no difference.
    ///
    /// ```
    /// # fn main() -> redefer::Result<()> {
    /// # #[cfg(feature = "testing")] {
    /// # let server = redefer::testing::Server::start()?;
    /// use redefer::cache::{CacheConfig, Cached};
    /// use redefer::prelude::*;
    ///
    /// let cached = Cached::open(server.url(), CacheConfig::new().opt_in())?;
    /// let _: Option<String> = cached.get("seldom").wait()?;
    /// let _: Option<String> = cached.opted_in().get("often").wait()?;
    /// assert_eq!(cached.cache_stats().entries, 1);
    /// # }
    /// # Ok(())
    /// # }
    /// ```
    pub fn opted_in(&self) -> OptedIn<'_> {
        OptedIn { cached: self }
    }

    /// Lends the connection out, for transactions, batches, watches, blocking commands, another database or user. Nothing is
    /// answered from memory meanwhile. Since nobody here can know what such commands change, **the cache is empty
    /// afterwards**.
    ///
    /// ```
    /// # fn main() -> redefer::Result<()> {
    /// # #[cfg(feature = "testing")] {
    /// # let server = redefer::testing::Server::start()?;
    /// # use redefer::cache::{CacheConfig, Cached};
    /// use redefer::prelude::*;
    ///
    /// # let cached = Cached::open(server.url(), CacheConfig::new())?;
    /// let (visits, _) = cached.uncached(|conn| {
    ///     let tx = conn.transaction();
    ///     let (visits, stamp) = (tx.incr("visits"), tx.set("last", "now"));
    ///     tx.commit().wait()?;
    ///     Ok((visits.wait()?, stamp.wait()?))
    /// })?;
    /// assert_eq!(visits, 1);
    /// # }
    /// # Ok(())
    /// # }
    /// ```
    pub fn uncached<R>(&self, run: impl FnOnce(&Connection) -> Result<R>) -> Result<R> {
        let _paused = Paused::begin(&self.conn);
        run(&self.conn)
    }

    /// Forgets all replies.
    pub fn clear(&self) {
        self.conn.with_cache(|entries, issued| entries.forget_all(issued));
    }

    /// What the cache has done, and what it has now.
    pub fn cache_stats(&self) -> CacheStats {
        self.conn.with_cache(|entries, _| entries.stats()).unwrap_or_default()
    }

    /// What the connection has done so far: commands that were answered from memory do not count.
    pub fn stats(&self) -> Stats {
        self.conn.stats()
    }

    /// See [`Connection::flush`].
    ///
    /// # Errors
    ///
    /// Those of [`Connection::flush`].
    pub fn flush(&self) -> Result<()> {
        self.conn.flush()
    }

    /// See [`Connection::sync`].
    ///
    /// # Errors
    ///
    /// Those of [`Connection::sync`].
    pub fn sync(&self) -> Result<()> {
        self.conn.sync()
    }

    /// See [`Connection::outstanding`].
    pub fn outstanding(&self) -> usize {
        self.conn.outstanding()
    }

    /// See [`Connection::is_broken`].
    pub fn is_broken(&self) -> bool {
        self.conn.is_broken()
    }

    /// The oldest push that is no invalidation, or nothing: see [`Connection::next_push`].
    pub fn next_push(&self) -> Option<Value> {
        self.conn.next_push()
    }

    /// Turns tracking off and goes back to a plain connection.
    ///
    /// # Errors
    ///
    /// When the server does not answer. The connection is closed then.
    pub fn into_connection(self) -> Result<Connection> {
        self.conn.end_caching()?;
        Ok(self.conn)
    }

    fn issue<A: Arguments>(&self, command: &Command<A>, opted_in: bool) -> u64 {
        // What the arguments do is their author's: it is done before the connection is touched.
        let encoded = Encoded::with_keys(command).map(|(encoded, keys)| {
            let keys: Keys = keys.into_iter().map(|key| Box::from(&encoded.bytes[key])).collect();
            let what = match table::kind(command.name(), !keys.is_empty()) {
                Kind::Read => Use::Read { keys, opted_in },
                Kind::Writes => Use::Write(keys),
                Kind::WritesAnything => Use::WriteAnything,
                Kind::Looks => Use::Look(keys),
                Kind::LooksAnywhere => Use::LookAnywhere,
                Kind::Harmless => Use::None,
            };
            (encoded, what)
        });
        self.conn.issue_cached(encoded)
    }
}

impl Connection {
    /// Turns on tracking, and becomes a connection that keeps replies. Since 6.0. With the feature `cache`.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`](crate::Error::Refused) when RESP2 was agreed on; what the server says, such as to prefixes that overlap. The
    /// connection is closed then.
    pub fn into_cached(self, cache: CacheConfig) -> Result<Cached> {
        self.begin_caching(cache)?;
        Ok(Cached { conn: self })
    }
}

/// While it lives, the connection is used without its cache.
struct Paused<'c>(&'c Connection);

impl<'c> Paused<'c> {
    fn begin(conn: &'c Connection) -> Self {
        conn.with_cache(|entries, issued| {
            entries.forget_all(issued);
            entries.pause();
        });
        Paused(conn)
    }
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        self.0.with_cache(|entries, issued| {
            entries.forget_all(issued);
            entries.resume();
        });
    }
}

/// A cached connection for commands whose replies are to be kept: see [`Cached::opted_in`].
#[derive(Clone, Copy)]
pub struct OptedIn<'c> {
    cached: &'c Cached,
}

impl<'c> Execute for &'c Cached {
    type Reply<T: FromReply> = Reply<'c, T>;
    type MultiBulk<T: FromReply> = MultiBulk<'c, T>;

    fn command<T: FromReply>(self, name: &str, arguments: impl ToArgs) -> Reply<'c, T> {
        Reply::new(&self.conn, self.conn.issue_named_uncached(name, arguments))
    }

    fn execute<T: FromReply, A: Arguments>(self, command: Command<A>) -> Reply<'c, T> {
        Reply::new(&self.conn, self.issue(&command, false))
    }

    fn execute_multi<T: FromReply, A: Arguments>(self, command: Command<A>) -> MultiBulk<'c, T> {
        MultiBulk::new(&self.conn, self.issue(&command, false))
    }
}

impl<'c> Execute for OptedIn<'c> {
    type Reply<T: FromReply> = Reply<'c, T>;
    type MultiBulk<T: FromReply> = MultiBulk<'c, T>;

    fn command<T: FromReply>(self, name: &str, arguments: impl ToArgs) -> Reply<'c, T> {
        self.cached.command(name, arguments)
    }

    fn execute<T: FromReply, A: Arguments>(self, command: Command<A>) -> Reply<'c, T> {
        Reply::new(&self.cached.conn, self.cached.issue(&command, true))
    }

    fn execute_multi<T: FromReply, A: Arguments>(self, command: Command<A>) -> MultiBulk<'c, T> {
        MultiBulk::new(&self.cached.conn, self.cached.issue(&command, true))
    }
}

impl fmt::Debug for Cached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cached").field("connection", &self.conn).field("cache", &self.cache_stats()).finish()
    }
}

impl fmt::Debug for OptedIn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OptedIn").finish_non_exhaustive()
    }
}
