//! Subscriptions: a connection that listens.
//!
//! A [`Subscriber`] is a connection of its own, turned by type into one that takes messages and not commands, and
//! [back](Subscriber::into_connection). Publishing is a command like any other, on a [`Connection`]:
//! [`publish`](crate::commands::PubSubCommands::publish).
//!
//! ```
//! # fn main() -> redefer::Result<()> {
//! # #[cfg(feature = "testing")] {
//! # let server = redefer::testing::Server::start()?;
//! # let url = server.url();
//! use redefer::prelude::*;
//! use redefer::pubsub::{Event, Subscriber};
//!
//! let subscriber = Subscriber::open(&*url)?;
//! subscriber.subscribe("news").wait()?;        // acknowledged by the server: nothing published from here on is missed
//!
//! let conn = Connection::open(&*url)?;
//! conn.publish("news", "hello").wait()?;
//! conn.publish("news", "goodbye").wait()?;
//!
//! for event in subscriber.iter() {             // blocks until there is a message
//!     if let Event::Message(message) = event? {
//!         let text: String = message.payload_as()?;
//!         println!("{text}");
//!         if text == "goodbye" {
//!             break;
//!         }
//!     }
//! }
//! # }
//! # Ok(())
//! # }
//! ```

mod again;
mod beside;
mod core;
mod handle;
mod handlers;
mod message;
mod patience;
mod pending;
mod subscribed;
mod ticket;
mod wish;

use std::cell::{RefCell, RefMut};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use self::core::{Core, Next};
pub use handle::{Requested, SubscriberHandle};
pub use handlers::Handlers;
pub use message::{Event, EventRef, Gap, Message, MessageRef};
use patience::Patience;
pub use subscribed::Subscribed;
use ticket::{Hold, Keeper, Shared, Ticket, Wish};

use crate::args::ToArgs;
use crate::connection::wire::Kind;
use crate::connection::{Connection, IntoConfig};
use crate::error::{Error, Result};
use crate::values::{FromReply, Value};

const BUSY: Error = Error::Refused("the subscriber is in use by what called this: use a SubscriberHandle there");

/// A connection that listens to channels, patterns and shard channels.
///
/// All methods take `&self`, so that subscriptions can change in the middle of an iteration:
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(feature = "testing")] {
/// # let server = redefer::testing::Server::start()?;
/// # let conn = redefer::Connection::open(server.url())?;
/// # use redefer::prelude::*;
/// use redefer::pubsub::{Event, Subscriber};
///
/// let subscriber = Subscriber::open(server.url())?;
/// subscriber.subscribe("rooms").wait()?;
/// # conn.publish("rooms", "kitchen").wait()?;
/// for event in &subscriber {
///     let Event::Message(message) = event? else { continue };
///     if message.channel() == b"rooms" {
///         subscriber.subscribe(message.payload()).wait()?; // messages that come meanwhile are kept, in order
/// #       conn.publish("kitchen", "hello").wait()?;
///     } else {
///         break;
///     }
/// }
///
/// let conn = subscriber.into_connection()?; // unsubscribes from everything
/// conn.ping().wait()?;
/// # }
/// # Ok(())
/// # }
/// ```
///
/// It belongs to one thread at a time; others have a [`SubscriberHandle`].
///
/// # Time
///
/// Messages may be a long time in coming, so [`next`](Subscriber::next) waits without end. Whether the server is still there
/// is found out by the operating system, with [`Config::keepalive`](crate::Config::keepalive), which is on by default.
/// Acknowledgements have [`Config::timeout`](crate::Config::timeout).
///
/// # Memory
///
/// What is not read stays with the operating system and the server, which disconnects a client for which it has to keep
/// too much (`client-output-buffer-limit pubsub`). Nothing is read ahead but for what one read of the socket brings, and
/// what comes before an acknowledgement that is waited for: up to [`set_limit`](Subscriber::set_limit). At most
/// [`Config::max_outstanding`](crate::Config::max_outstanding) (un)subscribes may be unacknowledged, and as many of other
/// threads not yet sent; those beyond are [`Error::Refused`].
///
/// # A connection that breaks
///
/// Messages that have come are read first, then the error, and the subscriber is of no more use. With
/// [`Config::reconnect`](crate::Config::reconnect) the next read dials again and subscribes to everything again, those
/// included that have not been acknowledged, and gives [`Event::Reconnected`] before any message of the new connection.
///
/// When all attempts have failed, reads give [`Error::ConnectionLost`], and so do requests that were not acknowledged; what
/// was, is not forgotten. The subscriber then rests, as a [`Connection`] does (see [`Reconnect`](crate::Reconnect)): before the
/// longest delay has passed nothing is tried. The next read waits for that, as far as it has the time, and makes one attempt;
/// what is asked for meanwhile fails at once. With [`Reconnect::forever`](crate::Reconnect::forever) attempts do not end. A connection on which not everything
/// was acknowledged again counts as an attempt that failed, as does one whose server refuses it for the moment (it is loading,
/// or a script takes its time). Any other refusal ends the subscription to that name, and is an error of a later read. An
/// (un)subscribe that was on its way each time when four connections broke is given up.
///
/// A read with little time makes attempts with little time, each twice as long as the one before, until one succeeds; so the
/// last of them may take longer than the read should, but never longer than
/// [`Config::connect_timeout`](crate::Config::connect_timeout).
///
/// # Drop
///
/// Ends the connection, and with it all subscriptions; waits for the server to close it, for at most
/// [`Config::linger`](crate::Config::linger). Messages that were not read are lost. Requests of other threads that are not
/// acknowledged become errors.
pub struct Subscriber {
    core: RefCell<Core>,
    keeper: Keeper,
}

impl Subscriber {
    /// Connects, as [`Connection::open`] does. There are no subscriptions yet.
    ///
    /// # Errors
    ///
    /// Those of [`Connection::open`].
    pub fn open(config: impl IntoConfig) -> Result<Subscriber> {
        Connection::open(config)?.into_subscriber()
    }

    // Subscribing.

    /// Subscribes to channels: one or more, any bytes. Sent at once; the handle says when it is acknowledged.
    ///
    /// [SUBSCRIBE](https://redis.io/docs/latest/commands/subscribe/)
    pub fn subscribe(&self, channels: impl ToArgs) -> Subscribed<'_> {
        self.ask(Kind::Channel, true, channels)
    }

    /// Subscribes to all channels whose names match a pattern: one pattern or more, such as `news.*`.
    ///
    /// [PSUBSCRIBE](https://redis.io/docs/latest/commands/psubscribe/)
    pub fn psubscribe(&self, patterns: impl ToArgs) -> Subscribed<'_> {
        self.ask(Kind::Pattern, true, patterns)
    }

    /// Subscribes to shard channels, which in a cluster must be of one slot and belong to this node. Since 7.0.
    ///
    /// [SSUBSCRIBE](https://redis.io/docs/latest/commands/ssubscribe/)
    pub fn ssubscribe(&self, channels: impl ToArgs) -> Subscribed<'_> {
        self.ask(Kind::Shard, true, channels)
    }

    /// Unsubscribes from channels; from all of them if there is none in the list, `()`. Those that are not subscribed to do no
    /// harm.
    ///
    /// [UNSUBSCRIBE](https://redis.io/docs/latest/commands/unsubscribe/)
    pub fn unsubscribe(&self, channels: impl ToArgs) -> Subscribed<'_> {
        self.ask(Kind::Channel, false, channels)
    }

    /// Unsubscribes from patterns, as they were subscribed to; from all of them if there is none in the list, `()`.
    ///
    /// [PUNSUBSCRIBE](https://redis.io/docs/latest/commands/punsubscribe/)
    pub fn punsubscribe(&self, patterns: impl ToArgs) -> Subscribed<'_> {
        self.ask(Kind::Pattern, false, patterns)
    }

    /// Unsubscribes from shard channels; from all of them if there is none in the list, `()`. Since 7.0.
    ///
    /// [SUNSUBSCRIBE](https://redis.io/docs/latest/commands/sunsubscribe/)
    pub fn sunsubscribe(&self, channels: impl ToArgs) -> Subscribed<'_> {
        self.ask(Kind::Shard, false, channels)
    }

    /// Unsubscribes from all channels, patterns and shard channels.
    pub fn unsubscribe_all(&self) -> Subscribed<'_> {
        let (ticket, wish) = wish::none();
        self.hand(wish);
        Subscribed::new(self, self.hold(ticket))
    }

    fn ask(&self, kind: Kind, subscribe: bool, names: impl ToArgs) -> Subscribed<'_> {
        // Before the subscriber is borrowed: the names may be anybody's.
        let (ticket, wish) = wish::these(kind, subscribe, names);
        if let Some(wish) = wish {
            self.hand(wish);
        }
        Subscribed::new(self, self.hold(ticket))
    }

    fn hold(&self, ticket: Arc<Ticket>) -> Hold {
        Hold { ticket, shared: Arc::clone(&self.keeper.0) }
    }

    fn hand(&self, wish: Wish) {
        match self.core() {
            Ok(mut core) => {
                // What was asked for before comes first.
                core.hear(&self.keeper.0);
                core.grant(wish);
            }
            // In the middle of a `for_each`: done on its way to the next event.
            Err(_) => self.keeper.0.ask(wish),
        }
    }

    /// How many channels, patterns and shard channels the server has acknowledged, as far as has been read.
    pub fn subscriptions(&self) -> usize {
        self.core().map_or(0, |core| core.subscriptions())
    }

    // Reading.

    /// The next event. Blocks without end until there is one; `None` when a [`SubscriberHandle`] has
    /// [stopped](SubscriberHandle::stop) it.
    ///
    /// # Errors
    ///
    /// [`Error::ConnectionLost`] when the connection has broken and cannot be made again; without a
    /// [`Reconnect`](crate::Reconnect) policy at every call from then on. The error of an (un)subscribe that was refused and
    /// whose handle was dropped; then the subscriber is as good as before.
    pub fn next(&self) -> Result<Option<Event>> {
        self.read(Patience::Endless)
    }

    /// Like [`next`](Subscriber::next), for at most this long; `None` also when there is nothing until then. Where a loop must know
    /// which it was, whoever [stops](SubscriberHandle::stop) it sets a flag first.
    pub fn next_timeout(&self, time: Duration) -> Result<Option<Event>> {
        self.read(Patience::of(Some(time)))
    }

    /// Like [`next`](Subscriber::next), without waiting; `None` also when nothing has come. (If the connection has broken and
    /// its time has come to be dialled again, that takes up to [`Config::connect_timeout`](crate::Config::connect_timeout).)
    pub fn try_next(&self) -> Result<Option<Event>> {
        self.read(Patience::None)
    }

    fn read(&self, patience: Patience) -> Result<Option<Event>> {
        let mut core = self.core()?;
        Ok(match core.next(&self.keeper.0, patience)? {
            Next::Event(event) => Some(event),
            Next::Message(n, spans) => Some(Event::Message(core.message(n, &spans).to_owned())),
            Next::Failed(error) => return Err(error),
            Next::Settled | Next::Nothing | Next::Stopped => None,
        })
    }

    /// All events as they come. Ends when it is [stopped](SubscriberHandle::stop), and after the error of a connection that
    /// is lost.
    pub fn iter(&self) -> Events<'_> {
        Events { subscriber: self, ended: false }
    }

    /// Gives every event to a closure, borrowed from the read buffer, without an allocation for each. Ends when the closure
    /// says [`Break`](ControlFlow::Break), or when it is [stopped](SubscriberHandle::stop).
    ///
    /// The subscriber is in use meanwhile. What the closure subscribes to is sent before the next event is looked for, and
    /// cannot be waited for in it.
    ///
    /// ```
    /// # fn main() -> redefer::Result<()> {
    /// # #[cfg(feature = "testing")] {
    /// # let server = redefer::testing::Server::start()?;
    /// # use redefer::prelude::*;
    /// # let conn = Connection::open(server.url())?;
    /// # let subscriber = redefer::pubsub::Subscriber::open(server.url())?;
    /// # subscriber.subscribe("numbers").wait()?;
    /// # conn.publish("numbers", 40).wait()?;
    /// # conn.publish("numbers", 2).wait()?;
    /// use std::ops::ControlFlow;
    /// use redefer::pubsub::EventRef;
    ///
    /// let mut bytes = 0;
    /// subscriber.for_each(|event| {
    ///     if let EventRef::Message(message) = event {
    ///         bytes += message.payload().len();
    ///     }
    ///     if bytes >= 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    /// })?;
    /// # }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`next`](Subscriber::next).
    pub fn for_each(&self, mut visit: impl FnMut(EventRef<'_>) -> ControlFlow<()>) -> Result<()> {
        let mut core = self.core()?;
        loop {
            let flow = match core.next(&self.keeper.0, Patience::Endless)? {
                Next::Event(event) => visit(event.as_ref()),
                Next::Message(n, spans) => visit(EventRef::Message(core.message(n, &spans))),
                Next::Failed(error) => return Err(error),
                Next::Settled | Next::Nothing => continue,
                Next::Stopped => return Ok(()),
            };
            if flow.is_break() {
                return Ok(());
            }
        }
    }

    /// The oldest push that is neither a message nor an acknowledgement, such as an invalidation, or nothing. Never blocks,
    /// and reads nothing. At most 1,024 are kept, and 16 MiB of them; beyond that the oldest are dropped.
    pub fn next_push(&self) -> Option<Value> {
        let push = self.core().ok()?.next_push()?;
        Value::from_reply(crate::resp::frame(&push)?).ok()
    }

    // The whole subscriber.

    /// What other threads subscribe with, and stop this one with.
    pub fn handle(&self) -> SubscriberHandle {
        SubscriberHandle::new(Arc::clone(&self.keeper.0))
    }

    /// How many bytes of messages are kept at most (the last one may exceed it) while an acknowledgement is waited for.
    /// Defaults to 64 MiB.
    ///
    /// The acknowledgement comes behind the messages that the server has sent before it, and none of these may be lost. When
    /// there are more, the wait ends with [`Error::Refused`]: read them, and the acknowledgement will be noted on the way.
    pub fn set_limit(&self, bytes: usize) {
        if let Ok(mut core) = self.core() {
            core.set_limit(bytes);
        }
    }

    /// Whether the connection has broken for good, which it never does with a [`Reconnect`](crate::Reconnect) policy.
    pub fn is_broken(&self) -> bool {
        self.core().is_ok_and(|core| core.is_broken())
    }

    /// Unsubscribes from everything, and turns back into a connection for commands. Messages that were not read are dropped:
    /// [`into_connection_and_rest`](Subscriber::into_connection_and_rest) gives them back. The error of an (un)subscribe that
    /// nobody has seen goes to the [account](Connection::sync) of the connection; requests of other threads that were not sent
    /// become errors.
    ///
    /// # Errors
    ///
    /// When the server does not acknowledge it within [`Config::timeout`](crate::Config::timeout), or the connection breaks;
    /// it is closed then.
    pub fn into_connection(self) -> Result<Connection> {
        let Subscriber { core, keeper } = self;
        keeper.0.close();
        Ok(core.into_inner().into_connection(&keeper.0, true)?.0)
    }

    /// The same, with what was not read, in order. That may be any number of messages, all of them in memory.
    ///
    /// # Errors
    ///
    /// As [`into_connection`](Subscriber::into_connection).
    pub fn into_connection_and_rest(self) -> Result<(Connection, Vec<Event>)> {
        let Subscriber { core, keeper } = self;
        keeper.0.close();
        core.into_inner().into_connection(&keeper.0, false)
    }

    fn core(&self) -> Result<RefMut<'_, Core>> {
        self.core.try_borrow_mut().map_err(|_| BUSY)
    }
}

impl Connection {
    /// Reads everything outstanding, and turns into a [`Subscriber`].
    ///
    /// # Errors
    ///
    /// When reading fails. [`Error::Refused`] when a watch, a batch, a subscription or a blocking command without end is left
    /// on the connection, whose guard or handle was forgotten. The connection is closed then.
    pub fn into_subscriber(self) -> Result<Subscriber> {
        let mut line = self.listen()?;
        let shared = Arc::new(Shared::new(line.config().max_outstanding)?);
        let core = RefCell::new(Core::new(line));
        Ok(Subscriber { core, keeper: Keeper(shared) })
    }
}

impl<'s> IntoIterator for &'s Subscriber {
    type Item = Result<Event>;
    type IntoIter = Events<'s>;
    fn into_iter(self) -> Events<'s> {
        self.iter()
    }
}

impl fmt::Debug for Subscriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscriber").field("subscriptions", &self.subscriptions()).finish_non_exhaustive()
    }
}

/// The events of a [`Subscriber`], blocking and fallible: see [`Subscriber::iter`].
#[derive(Debug)]
#[must_use = "nothing is read until it is iterated"]
pub struct Events<'s> {
    subscriber: &'s Subscriber,
    ended: bool,
}

impl Iterator for Events<'_> {
    type Item = Result<Event>;

    fn next(&mut self) -> Option<Result<Event>> {
        if self.ended {
            return None;
        }
        let next = self.subscriber.next().transpose();
        self.ended = match &next {
            None => true,
            // Every other error is that of one command.
            Some(Err(error)) => error.is_connection_lost() || self.subscriber.core().is_err(),
            Some(Ok(_)) => false,
        };
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscriber_goes_to_one_thread_and_its_handles_to_many() {
        fn is_send<T: Send>() {}
        fn is_shared<T: Send + Sync + Clone>() {}
        is_send::<Subscriber>();
        is_send::<Requested>();
        is_shared::<SubscriberHandle>();
        is_shared::<Message>();
        is_shared::<Event>();
    }

    #[test]
    fn an_outcome_is_told_once_and_an_error_that_nobody_asks_for_comes_back() {
        let (ticket, mut promises) = Ticket::new(2);
        assert!(promises.remove(0).fulfil(Err(Error::Nil)).is_none());
        assert!(ticket.outcome().is_none());
        assert!(promises.remove(0).fulfil(Ok(1)).is_none());
        assert!(matches!(ticket.outcome(), Some(Err(Error::Nil))));
        assert!(ticket.abandon().is_none());

        let (ticket, promises) = Ticket::new(1);
        assert!(ticket.abandon().is_none());
        let unseen: Vec<Error> = promises.into_iter().filter_map(|promise| promise.fulfil(Err(Error::Nil))).collect();
        assert!(matches!(unseen[..], [Error::Nil]));

        let (ticket, promises) = Ticket::new(1);
        drop(promises);
        assert!(matches!(ticket.wait(None), Some(Err(Error::Refused(_)))));
    }
}
