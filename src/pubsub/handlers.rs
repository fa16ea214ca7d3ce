//! Closures per channel and per pattern.

use std::collections::HashMap;
use std::fmt;
use std::ops::ControlFlow;

use super::Subscriber;
use super::message::{EventRef, Gap, MessageRef};
use crate::error::{Error, Result};
use crate::values::FromReply;

type Handler<'h> = Box<dyn FnMut(MessageRef<'_>) -> Result<()> + 'h>;
type OnReconnect<'h> = Box<dyn FnMut(&Gap) + 'h>;
type Otherwise<'h> = Box<dyn FnMut(EventRef<'_>) + 'h>;
type OnError<'h> = Box<dyn FnMut(MessageRef<'_>, Error) + 'h>;

/// Closures that take messages by their channel or pattern, with the payload as a type of their own.
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(feature = "testing")] {
/// # let server = redefer::testing::Server::start()?;
/// use redefer::prelude::*;
/// use redefer::pubsub::{Handlers, Subscriber};
///
/// let subscriber = Subscriber::open(server.url())?;
/// let handle = subscriber.handle();
/// let conn = Connection::open(server.url())?;
///
/// let mut degrees = Vec::new();
/// let mut handlers = Handlers::new()
///     .on("temperature", |_, value: f64| degrees.push(value))
///     .on_pattern("job.*", |message, id: u64| assert_eq!((message.channel(), id), (&b"job.new"[..], 7)))
///     .on_message("end", |_| handle.stop());
///
/// subscriber.subscribe(handlers.channels()).wait()?;
/// subscriber.psubscribe(handlers.patterns()).wait()?;
/// conn.publish("temperature", 21.5).wait()?;
/// conn.publish("job.new", 7).wait()?;
/// conn.publish("end", "").wait()?;
///
/// subscriber.run(&mut handlers)?;
/// drop(handlers);
/// assert_eq!(degrees, [21.5]);
/// # }
/// # Ok(())
/// # }
/// ```
///
/// A handler may borrow what it uses, a [`Connection`](crate::Connection) for commands, say. Any payload is a `Vec<u8>`; one that is to be ignored
/// is for [`on_message`](Handlers::on_message).
///
/// A message that comes by a pattern goes to the handler of that pattern, and one that comes by the name of its channel to
/// the handler of that channel. What no handler wants goes to [`otherwise`](Handlers::otherwise), and without that it is
/// counted in [`unhandled`](Handlers::unhandled).
#[derive(Default)]
pub struct Handlers<'h> {
    channels: HashMap<Vec<u8>, Handler<'h>>,
    patterns: HashMap<Vec<u8>, Handler<'h>>,
    on_reconnect: Option<OnReconnect<'h>>,
    otherwise: Option<Otherwise<'h>>,
    on_error: Option<OnError<'h>>,
    unhandled: u64,
}

impl<'h> Handlers<'h> {
    /// No handlers.
    #[must_use]
    pub fn new() -> Self {
        Handlers::default()
    }

    /// A handler for the messages of a channel or a shard channel. Takes the place of an earlier one.
    #[must_use]
    pub fn on<T: FromReply>(mut self, channel: impl AsRef<[u8]>, handler: impl FnMut(MessageRef<'_>, T) + 'h) -> Self {
        self.channels.insert(channel.as_ref().to_vec(), typed(handler));
        self
    }

    /// A handler for the messages that come by a pattern. Takes the place of an earlier one.
    #[must_use]
    pub fn on_pattern<T: FromReply>(
        mut self,
        pattern: impl AsRef<[u8]>,
        handler: impl FnMut(MessageRef<'_>, T) + 'h,
    ) -> Self {
        self.patterns.insert(pattern.as_ref().to_vec(), typed(handler));
        self
    }

    /// A handler for the messages of a channel or a shard channel, whatever their payload is. Takes the place of an earlier one.
    #[must_use]
    pub fn on_message(mut self, channel: impl AsRef<[u8]>, mut handler: impl FnMut(MessageRef<'_>) + 'h) -> Self {
        let handler: Handler<'h> = Box::new(move |message| {
            handler(message);
            Ok(())
        });
        self.channels.insert(channel.as_ref().to_vec(), handler);
        self
    }

    /// A handler for the gap that is left by a connection that broke and was made again:
    /// [`Event::Reconnected`](super::Event::Reconnected). Without it that goes where everything else goes.
    #[must_use]
    pub fn on_reconnect(mut self, handler: impl FnMut(&Gap) + 'h) -> Self {
        self.on_reconnect = Some(Box::new(handler));
        self
    }

    /// The channels that have a handler, to subscribe to.
    #[must_use]
    pub fn channels(&self) -> Vec<&[u8]> {
        self.channels.keys().map(Vec::as_slice).collect()
    }

    /// The patterns that have a handler, to subscribe to.
    #[must_use]
    pub fn patterns(&self) -> Vec<&[u8]> {
        self.patterns.keys().map(Vec::as_slice).collect()
    }

    /// A handler for everything else: messages that no other handler wants, and events that are no messages, such as
    /// [`Event::Reconnected`](super::Event::Reconnected).
    #[must_use]
    pub fn otherwise(mut self, handler: impl FnMut(EventRef<'_>) + 'h) -> Self {
        self.otherwise = Some(Box::new(handler));
        self
    }

    /// A handler for messages whose payload is not what their own handler takes. Without it the error is returned by
    /// [`dispatch`](Handlers::dispatch) and by [`Subscriber::run`].
    #[must_use]
    pub fn on_error(mut self, handler: impl FnMut(MessageRef<'_>, Error) + 'h) -> Self {
        self.on_error = Some(Box::new(handler));
        self
    }

    /// How many messages and other events no handler has wanted.
    #[must_use]
    pub fn unhandled(&self) -> u64 {
        self.unhandled
    }

    /// Gives an event to the handler that wants it, and says whether there was one.
    ///
    /// # Errors
    ///
    /// When the payload is not what the handler takes, and there is no [`on_error`](Handlers::on_error).
    pub fn dispatch(&mut self, event: EventRef<'_>) -> Result<bool> {
        if let (EventRef::Reconnected(gap), Some(on_reconnect)) = (event, &mut self.on_reconnect) {
            on_reconnect(gap);
            return Ok(true);
        }
        let handler = match event {
            EventRef::Message(message) => match message.pattern() {
                Some(pattern) => self.patterns.get_mut(pattern),
                None => self.channels.get_mut(message.channel()),
            }
            .map(|handler| (handler, message)),
            _ => None,
        };
        match (handler, &mut self.otherwise) {
            (Some((handler, message)), _) => match (handler(message), &mut self.on_error) {
                (Err(error), Some(on_error)) => on_error(message, error),
                (outcome, _) => outcome?,
            },
            (None, Some(otherwise)) => otherwise(event),
            (None, None) => {
                self.unhandled += 1;
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// A handler that decodes the payload first.
fn typed<'h, T: FromReply>(mut handler: impl FnMut(MessageRef<'_>, T) + 'h) -> Handler<'h> {
    Box::new(move |message| {
        handler(message, message.payload_as()?);
        Ok(())
    })
}

impl Subscriber {
    /// Gives every event to its handler until [`stop`](super::SubscriberHandle::stop) ends it.
    ///
    /// The subscriber is in use meanwhile: a handler that subscribes does so by a
    /// [`SubscriberHandle`](super::SubscriberHandle), and does not wait for it.
    ///
    /// # Errors
    ///
    /// What [`next`](Subscriber::next) gives, and the error of a payload that its handler does not take, if there is no
    /// [`on_error`](Handlers::on_error). That message has been taken; call it again to go on.
    pub fn run(&self, handlers: &mut Handlers<'_>) -> Result<()> {
        let mut outcome = Ok(());
        self.for_each(|event| {
            outcome = handlers.dispatch(event).map(drop);
            if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        outcome
    }
}

impl fmt::Debug for Handlers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handlers")
            .field("channels", &self.channels.len())
            .field("patterns", &self.patterns.len())
            .field("unhandled", &self.unhandled)
            .finish_non_exhaustive()
    }
}
