//! The handle of a request of the subscriber's own thread.

use std::fmt;
use std::time::Duration;

use super::Subscriber;
use super::patience::Patience;
use super::ticket::Hold;
use crate::error::Result;

/// An (un)subscribe that may not be acknowledged yet: see [`Subscriber::subscribe`].
///
/// # Drop
///
/// Does not wait. If the server refuses the command, the error is given by a later read.
#[must_use = "if it is refused, the error is given by a later read"]
pub struct Subscribed<'s> {
    subscriber: &'s Subscriber,
    hold: Hold,
}

impl<'s> Subscribed<'s> {
    pub(super) fn new(subscriber: &'s Subscriber, hold: Hold) -> Self {
        Subscribed { subscriber, hold }
    }

    /// Waits until the server has acknowledged the command, and says how many subscriptions there are after it: channels and
    /// patterns together for these, and shard channels for those. Messages that come before are kept for the next read.
    ///
    /// # Errors
    ///
    /// [`Error::Server`](crate::Error::Server) when the server refuses it; everything else goes on.
    /// [`Error::Argument`](crate::Error::Argument) for an empty list. [`Error::Timeout`](crate::Error::Timeout) after
    /// [`Config::timeout`](crate::Config::timeout), and [`Error::Refused`](crate::Error::Refused) when too many messages
    /// come first (see [`set_limit`](Subscriber::set_limit)): it may yet be acknowledged, and is noted then.
    /// [`Error::Refused`](crate::Error::Refused) too when more requests than [`Config::max_outstanding`](crate::Config::max_outstanding)
    /// are not acknowledged yet; that one was not sent.
    pub fn wait(self) -> Result<u64> {
        let mut core = self.subscriber.core()?;
        let patience = Patience::of(core.timeout());
        core.settle(&self.subscriber.keeper.0, &self.hold.ticket, patience)
    }

    /// The same, for at most this long.
    pub fn wait_timeout(self, time: Duration) -> Result<u64> {
        let mut core = self.subscriber.core()?;
        core.settle(&self.subscriber.keeper.0, &self.hold.ticket, Patience::of(Some(time)))
    }
}

impl fmt::Debug for Subscribed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscribed").field("is_acknowledged", &self.hold.ticket.is_fulfilled()).finish_non_exhaustive()
    }
}
