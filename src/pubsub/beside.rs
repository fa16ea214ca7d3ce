//! Subscribing on a connection that goes on with commands: what `connection/subscribe.rs` does, for users.

use crate::args::ToArgs;
use crate::connection::Connection;
use crate::connection::wire::Kind;
use crate::reply::Reply;

/// Subscriptions beside commands: RESP3 only.
///
/// Messages come as pushes while replies are read, and wait in the queue of [`next_push`](Connection::next_push);
/// [`next_push_timeout`](Connection::next_push_timeout) waits for one. [`pubsub::Event`](crate::pubsub::Event) says what it is:
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(feature = "testing")] {
/// # let server = redefer::testing::Server::start()?;
/// use std::time::Duration;
/// use redefer::prelude::*;
/// use redefer::pubsub::Event;
///
/// let conn = Connection::open(server.url())?;
/// conn.subscribe("news").wait()?;
/// conn.set("k", "v").wait()?;                     // commands go on
/// conn.publish("news", "hello").wait()?;
///
/// let push = conn.next_push_timeout(Duration::from_secs(1))?.ok_or("nothing has come").map_err(Error::custom)?;
/// if let Ok(Event::Message(message)) = Event::try_from(push) {
///     assert_eq!(message.payload(), b"hello");
/// }
/// # }
/// # Ok(())
/// # }
/// ```
///
/// A program that does little else than listen is better off with a [`Subscriber`](crate::pubsub::Subscriber): it works in
/// RESP2 too, never drops a message for want of room, and comes back after a break. Here all of these are refused in RESP2 and
/// under a [`Reconnect`](crate::Reconnect) policy, and such a connection does not go back to a pool or turn into a
/// [`Subscriber`](crate::pubsub::Subscriber) or a [`Monitor`](crate::Monitor) before everything is unsubscribed.
///
/// Each reply is the number of subscriptions that the server counts afterwards: channels and patterns together, shard channels
/// apart.
impl Connection {
    /// Subscribes to channels, one or more.
    ///
    /// [SUBSCRIBE](https://redis.io/docs/latest/commands/subscribe/)
    pub fn subscribe(&self, channels: impl ToArgs) -> Reply<'_, u64> {
        self.ask(Kind::Channel, true, channels)
    }

    /// Subscribes to the channels that match patterns, one or more.
    ///
    /// [PSUBSCRIBE](https://redis.io/docs/latest/commands/psubscribe/)
    pub fn psubscribe(&self, patterns: impl ToArgs) -> Reply<'_, u64> {
        self.ask(Kind::Pattern, true, patterns)
    }

    /// Subscribes to shard channels, one or more. Since 7.0.
    ///
    /// [SSUBSCRIBE](https://redis.io/docs/latest/commands/ssubscribe/)
    pub fn ssubscribe(&self, channels: impl ToArgs) -> Reply<'_, u64> {
        self.ask(Kind::Shard, true, channels)
    }

    /// Unsubscribes from channels; from all of them if there is none in the list, `()`.
    ///
    /// [UNSUBSCRIBE](https://redis.io/docs/latest/commands/unsubscribe/)
    pub fn unsubscribe(&self, channels: impl ToArgs) -> Reply<'_, u64> {
        self.ask(Kind::Channel, false, channels)
    }

    /// Unsubscribes from patterns; from all of them if there is none in the list, `()`.
    ///
    /// [PUNSUBSCRIBE](https://redis.io/docs/latest/commands/punsubscribe/)
    pub fn punsubscribe(&self, patterns: impl ToArgs) -> Reply<'_, u64> {
        self.ask(Kind::Pattern, false, patterns)
    }

    /// Unsubscribes from shard channels; from all of them if there is none in the list, `()`. Since 7.0.
    ///
    /// [SUNSUBSCRIBE](https://redis.io/docs/latest/commands/sunsubscribe/)
    pub fn sunsubscribe(&self, channels: impl ToArgs) -> Reply<'_, u64> {
        self.ask(Kind::Shard, false, channels)
    }

    fn ask(&self, kind: Kind, subscribe: bool, names: impl ToArgs) -> Reply<'_, u64> {
        Reply::new(self, self.issue_subscription(kind, subscribe, names))
    }
}
