//! Connections that threads take turns with. With the feature `r2d2`.
//!
//! ```
//! # fn main() -> redefer::Result<()> {
//! # #[cfg(feature = "testing")] {
//! # let server = redefer::testing::Server::start()?;
//! # let url = server.url();
//! use std::thread;
//!
//! use redefer::pool::Pool;
//! use redefer::prelude::*;
//!
//! let pool = Pool::builder(url).max_size(8).build()?;
//! thread::scope(|scope| {
//!     for _ in 0..32 {
//!         scope.spawn(|| {
//!             let conn = pool.get()?;
//!             conn.incr("visits").wait()
//!         });
//!     }
//! });
//! assert_eq!(pool.get()?.get::<u32>("visits").wait()?, 32);
//! # }
//! # Ok(())
//! # }
//! ```

use std::fmt;
use std::io;
use std::ops::Deref;
use std::time::Duration;

use crate::connection::{Config, Connection, IntoConfig, LONGEST};
use crate::error::{Error, Result};

/// Opens connections for a pool of the [`r2d2`] crate, and looks after them.
///
/// [`Pool`] is such a pool. Use the manager where a program has r2d2 pools of its own.
#[derive(Debug)]
pub struct Manager {
    config: Config,
}

impl Manager {
    /// A manager of connections to the server of a URL or a [`Config`].
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for a URL that cannot be used.
    pub fn new(config: impl IntoConfig) -> Result<Self> {
        Ok(Manager { config: config.into_config()? })
    }
}

impl r2d2::ManageConnection for Manager {
    type Connection = Connection;
    type Error = Error;

    fn connect(&self) -> Result<Connection> {
        Connection::open(self.config.clone())
    }

    /// Whether the server has closed the connection, found out without a round trip.
    fn is_valid(&self, conn: &mut Connection) -> Result<()> {
        conn.look_for_close()
    }

    /// Called when a connection comes back: makes it as good as new, or says that it cannot be.
    fn has_broken(&self, conn: &mut Connection) -> bool {
        conn.reclaim(&self.config).is_err()
    }
}

/// A pool of connections to one server, which threads share: cheap to clone, and all clones are the same pool.
///
/// [`get`](Pool::get) hands a connection out, for one thread at a time; when it is dropped it comes back. On the way back
/// everything outstanding is read, keys are unwatched, and the connection is put on its own database. One that cannot be
/// brought back to how it was opened is closed: one that broke, whose replies do not come within
/// [`Config::timeout`], that waits for a blocking command without end, that was given another user, name or state (such as
/// CLIENT TRACKING), or that comes back while its thread panics. The pool opens another one when it needs one.
///
/// Errors that nobody saw (see [`Connection::sync`]) are forgotten when a connection comes back: call `sync` before, if
/// they matter.
///
/// With [`Config::reconnect`] a connection that breaks while it is in use is made again in place. Without it, which is
/// enough for a pool, it is closed when it comes back.
#[derive(Clone)]
pub struct Pool(r2d2::Pool<Manager>);

impl Pool {
    /// A pool of at most ten connections, which are opened in the background.
    ///
    /// # Errors
    ///
    /// As [`PoolBuilder::build`].
    pub fn open(config: impl IntoConfig) -> Result<Pool> {
        Pool::builder(config).build()
    }

    /// Begins a pool of another size, or with other times.
    pub fn builder<C: IntoConfig>(config: C) -> PoolBuilder<C> {
        let pool = r2d2::Pool::builder().error_handler(Box::new(r2d2::NopErrorHandler));
        PoolBuilder { config, max_size: 10, min_idle: None, pool }
    }

    /// Takes a connection from the pool; waits for one if all are taken, for at most
    /// [`checkout_timeout`](PoolBuilder::checkout_timeout).
    ///
    /// # Errors
    ///
    /// [`Error::Io`] of the kind `TimedOut` if there was none in that time; its text says why the last attempt to open
    /// one failed, if one did.
    pub fn get(&self) -> Result<PooledConnection> {
        self.0.get().map(PooledConnection).map_err(timed_out)
    }

    /// Takes a connection if one is there, without waiting.
    pub fn try_get(&self) -> Option<PooledConnection> {
        self.0.try_get().map(PooledConnection)
    }

    /// How many connections are open, taken or not.
    pub fn connections(&self) -> u32 {
        self.0.state().connections
    }

    /// How many of them are not taken.
    pub fn idle_connections(&self) -> u32 {
        self.0.state().idle_connections
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.state();
        f.debug_struct("Pool")
            .field("connections", &state.connections)
            .field("idle_connections", &state.idle_connections)
            .finish_non_exhaustive()
    }
}

/// A time that the pool can add to now, and that is not none.
fn bounded(time: Duration) -> Duration {
    time.clamp(Duration::from_millis(1), LONGEST)
}

fn timed_out(error: r2d2::Error) -> Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("no connection of the pool: {error}")).into()
}

/// How a [`Pool`] is made.
#[derive(Debug)]
#[must_use]
pub struct PoolBuilder<C> {
    config: C,
    max_size: u32,
    min_idle: Option<u32>,
    pool: r2d2::Builder<Manager>,
}

impl<C: IntoConfig> PoolBuilder<C> {
    /// How many connections there may be. At least 1; defaults to 10.
    pub fn max_size(mut self, connections: u32) -> Self {
        self.max_size = connections.max(1);
        self
    }

    /// How many connections that are not taken the pool tries to have. Defaults to as many as there may be.
    pub fn min_idle(mut self, connections: u32) -> Self {
        self.min_idle = Some(connections);
        self
    }

    /// How long [`get`](Pool::get) waits for a connection. Defaults to 30 s.
    pub fn checkout_timeout(mut self, time: Duration) -> Self {
        self.pool = self.pool.connection_timeout(bounded(time));
        self
    }

    /// After how long a connection that nobody takes is closed; `None` is never. Defaults to 10 minutes.
    pub fn idle_timeout(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.pool = self.pool.idle_timeout(time.into().map(bounded));
        self
    }

    /// How old a connection may become; `None` is no limit. Defaults to 30 minutes.
    pub fn max_lifetime(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.pool = self.pool.max_lifetime(time.into().map(bounded));
        self
    }

    /// Tries whether the server lets a connection in, and makes the pool. The connections that it begins with
    /// ([`min_idle`](PoolBuilder::min_idle)) are opened by threads of its own.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for a URL that cannot be used, and the error of a first connection that cannot be opened.
    pub fn build(self) -> Result<Pool> {
        let manager = Manager::new(self.config)?;
        // The pool itself goes on trying, and keeps the reason as text.
        drop(Connection::open(manager.config.clone())?);
        // It panics if more are to be idle than there may be.
        let idle = self.min_idle.map(|idle| idle.min(self.max_size));
        Ok(Pool(self.pool.max_size(self.max_size).min_idle(idle).build_unchecked(manager)))
    }
}

/// A connection of a [`Pool`], which it goes back to when it is dropped.
#[derive(Debug)]
pub struct PooledConnection(r2d2::PooledConnection<Manager>);

impl Deref for PooledConnection {
    type Target = Connection;
    fn deref(&self) -> &Connection {
        &self.0
    }
}
