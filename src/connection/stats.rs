//! Counters.

/// What a connection has done since it was opened, without the handshake: the way to see round trips instead of
/// guessing them from a clock.
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(feature = "testing")] {
/// # let server = redefer::testing::Server::start()?;
/// # let conn = redefer::Connection::open(server.url())?;
/// use redefer::prelude::*;
///
/// let before = conn.stats();
/// let replies: Vec<_> = (0..100).map(|n| conn.set(n, "value")).collect();
/// for reply in replies {
///     reply.wait()?;
/// }
/// let after = conn.stats();
/// assert_eq!(after.commands - before.commands, 100);
/// assert!(after.round_trips - before.round_trips <= 2);
/// # }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Commands issued, those of transactions included; MULTI and EXEC count as well.
    pub commands: u64,
    /// How often the connection stood waiting for the server after it had written something.
    pub round_trips: u64,
    /// Writes that the socket took.
    pub writes: u64,
    /// Reads that brought bytes.
    pub reads: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// How often `max_outstanding` was reached, so that replies were read before anybody asked for them.
    pub forced_drains: u64,
    /// The largest number of outstanding replies seen when something was written or read.
    pub largest_queue: u64,
    /// Replies kept in memory for a handle that a later handle overtook, as of now.
    pub stored: u64,
    /// Errors of replies that nobody looked at, of those that have been read so far and since
    /// [`sync`](crate::Connection::sync) last handed one out: the first one, which it will hand out next, and all others.
    pub unseen_errors: u64,
    /// How often the connection was made again: see [`Reconnect`](crate::Reconnect).
    pub reconnects: u64,
    /// Commands that were sent again on a later connection because their caller allows it:
    /// see [`Connection::idempotent`](crate::Connection::idempotent).
    pub resent: u64,
    /// Push messages (RESP3) that came unasked.
    pub pushes: u64,
    /// Those among them that were dropped because nobody took them in time: see [`Config::push_queue`](crate::Config::push_queue).
    pub pushes_dropped: u64,
}
