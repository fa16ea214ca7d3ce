//! What other threads hold of a subscriber.

use std::sync::Arc;
use std::time::Duration;

use super::ticket::{Hold, Shared};
use super::wish;
use crate::args::ToArgs;
use crate::connection::wire::Kind;
use crate::error::{Error, Result};

/// A [`Subscriber`](super::Subscriber) as other threads see it: they subscribe and unsubscribe with it, and end an iteration
/// that is blocked. It can be cloned, and sent anywhere.
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(feature = "testing")] {
/// # let server = redefer::testing::Server::start()?;
/// use redefer::pubsub::Subscriber;
///
/// let subscriber = Subscriber::open(server.url())?;
/// let handle = subscriber.handle();
/// std::thread::scope(|scope| {
///     scope.spawn(move || {
///         let count = handle.subscribe(["a", "b"]).wait(); // acknowledged while the other thread reads
///         handle.stop();
///         assert_eq!(count.unwrap(), 2);
///     });
///     assert!(subscriber.next()?.is_none()); // blocks until it is stopped: nothing is published
///     Ok(())
/// })
/// # }
/// # #[cfg(not(feature = "testing"))] Ok(())
/// # }
/// ```
///
/// The commands are sent by the thread that reads, which is woken for it; if no thread reads, they wait for the next read.
#[derive(Clone, Debug)]
pub struct SubscriberHandle {
    shared: Arc<Shared>,
}

impl SubscriberHandle {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        SubscriberHandle { shared }
    }

    /// Ends the iteration that is blocked, or else the next one, at once: [`next`](super::Subscriber::next) gives `None`,
    /// whatever has come meanwhile, which stays for the next read. Several before the iteration ends are as good as one.
    ///
    /// A thread that is just dialling again, under a [`Reconnect`](crate::Reconnect) policy, does not notice before that
    /// attempt has ended, which takes at most [`Config::connect_timeout`](crate::Config::connect_timeout); a pause between
    /// attempts ends at once.
    pub fn stop(&self) {
        self.shared.stop.stop();
    }

    /// Like [`Subscriber::subscribe`](super::Subscriber::subscribe).
    pub fn subscribe(&self, channels: impl ToArgs) -> Requested {
        self.ask(Kind::Channel, true, channels)
    }

    /// Like [`Subscriber::psubscribe`](super::Subscriber::psubscribe).
    pub fn psubscribe(&self, patterns: impl ToArgs) -> Requested {
        self.ask(Kind::Pattern, true, patterns)
    }

    /// Like [`Subscriber::ssubscribe`](super::Subscriber::ssubscribe).
    pub fn ssubscribe(&self, channels: impl ToArgs) -> Requested {
        self.ask(Kind::Shard, true, channels)
    }

    /// Like [`Subscriber::unsubscribe`](super::Subscriber::unsubscribe).
    pub fn unsubscribe(&self, channels: impl ToArgs) -> Requested {
        self.ask(Kind::Channel, false, channels)
    }

    /// Like [`Subscriber::punsubscribe`](super::Subscriber::punsubscribe).
    pub fn punsubscribe(&self, patterns: impl ToArgs) -> Requested {
        self.ask(Kind::Pattern, false, patterns)
    }

    /// Like [`Subscriber::sunsubscribe`](super::Subscriber::sunsubscribe).
    pub fn sunsubscribe(&self, channels: impl ToArgs) -> Requested {
        self.ask(Kind::Shard, false, channels)
    }

    /// Like [`Subscriber::unsubscribe_all`](super::Subscriber::unsubscribe_all).
    pub fn unsubscribe_all(&self) -> Requested {
        let (ticket, wish) = wish::none();
        self.shared.ask(wish);
        Requested(Hold { ticket, shared: Arc::clone(&self.shared) })
    }

    fn ask(&self, kind: Kind, subscribe: bool, names: impl ToArgs) -> Requested {
        let (ticket, wish) = wish::these(kind, subscribe, names);
        if let Some(wish) = wish {
            self.shared.ask(wish);
        }
        Requested(Hold { ticket, shared: Arc::clone(&self.shared) })
    }
}

/// A subscription that was asked for by a [`SubscriberHandle`], and may not be acknowledged yet.
///
/// # Drop
///
/// Does not wait. If the server refuses the command, the error is given to the thread that reads.
#[must_use = "if it is refused, the error is given to the thread that reads"]
#[derive(Debug)]
pub struct Requested(Hold);

impl Requested {
    /// Waits until the server has acknowledged it, without end: like [`Subscribed::wait`](super::Subscribed::wait).
    ///
    /// The thread that reads notes it, so it comes as long as that reads. In that thread itself, a handler for example, this
    /// would wait for ever.
    ///
    /// # Errors
    ///
    /// As [`Subscribed::wait`](super::Subscribed::wait), and [`Error::Refused`] when the subscriber is dropped before.
    pub fn wait(self) -> Result<u64> {
        self.0.ticket.wait(None).unwrap_or(Err(Error::Timeout))
    }

    /// The same, for at most this long.
    ///
    /// # Errors
    ///
    /// [`Error::Timeout`] too, and then it may yet be acknowledged.
    pub fn wait_timeout(self, time: Duration) -> Result<u64> {
        self.0.ticket.wait(Some(time)).unwrap_or(Err(Error::Timeout))
    }
}
