//! What comes to a subscriber.

use std::fmt;

use crate::connection::wire::Spans;
use crate::error::{Error, Result};
use crate::resp::Frame;
use crate::values::{FromReply, Value};

/// A message, borrowed from the read buffer. Any bytes: neither channel nor payload need be UTF-8.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct MessageRef<'a> {
    pattern: Option<&'a [u8]>,
    channel: &'a [u8],
    payload: &'a [u8],
    shard: bool,
}

impl<'a> MessageRef<'a> {
    pub(super) fn at(bytes: &'a [u8], spans: &Spans) -> Self {
        MessageRef {
            pattern: spans.pattern.clone().map(|range| &bytes[range]),
            channel: &bytes[spans.channel.clone()],
            payload: &bytes[spans.payload.clone()],
            shard: spans.shard,
        }
    }

    /// The channel that it was published to.
    pub fn channel(&self) -> &'a [u8] {
        self.channel
    }

    /// The pattern by which it comes, if it does not come by the name of its channel. Who is subscribed to both gets it twice.
    pub fn pattern(&self) -> Option<&'a [u8]> {
        self.pattern
    }

    /// What was published.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// What was published, as any type that a reply can be.
    ///
    /// # Errors
    ///
    /// When the payload is not what the type takes. Nothing is lost by that: the message is still here.
    pub fn payload_as<T: FromReply>(&self) -> Result<T> {
        T::from_reply(Frame::Bulk(self.payload))
    }

    /// Whether it was published to a shard channel, by SPUBLISH.
    pub fn is_shard(&self) -> bool {
        self.shard
    }

    /// The message with bytes of its own.
    pub fn to_owned(&self) -> Message {
        let pattern = self.pattern.unwrap_or_default();
        let mut bytes = Vec::with_capacity(pattern.len() + self.channel.len() + self.payload.len());
        bytes.extend_from_slice(pattern);
        bytes.extend_from_slice(self.channel);
        let payload = bytes.len();
        bytes.extend_from_slice(self.payload);
        Message { bytes, pattern: self.pattern.map(<[u8]>::len), payload, shard: self.shard }
    }
}

impl fmt::Debug for MessageRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(100)]).into_owned();
        f.debug_struct("Message")
            .field("pattern", &self.pattern.map(text))
            .field("channel", &text(self.channel))
            .field("payload", &text(self.payload))
            .field("len", &self.payload.len())
            .finish_non_exhaustive()
    }
}

/// A message. Any bytes: neither channel nor payload need be UTF-8.
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(feature = "testing")] {
/// # let server = redefer::testing::Server::start()?;
/// use redefer::prelude::*;
/// use redefer::pubsub::{Event, Subscriber};
///
/// let subscriber = Subscriber::open(server.url())?;
/// subscriber.psubscribe("temperature.*").wait()?;
/// Connection::open(server.url())?.publish("temperature.kitchen", 21.5).wait()?;
///
/// let Some(Event::Message(message)) = subscriber.next()? else { panic!("no message") };
/// assert_eq!(message.channel(), b"temperature.kitchen");
/// assert_eq!(message.pattern(), Some(&b"temperature.*"[..]));
/// assert_eq!(message.payload_as::<f64>()?, 21.5);
/// # }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// The pattern, the channel and the payload, so that there is one allocation for all.
    bytes: Vec<u8>,
    pattern: Option<usize>,
    payload: usize,
    shard: bool,
}

impl Message {
    /// The same, borrowed.
    pub fn as_ref(&self) -> MessageRef<'_> {
        MessageRef {
            pattern: self.pattern.map(|len| &self.bytes[..len]),
            channel: &self.bytes[self.pattern.unwrap_or(0)..self.payload],
            payload: &self.bytes[self.payload..],
            shard: self.shard,
        }
    }

    /// The channel that it was published to.
    pub fn channel(&self) -> &[u8] {
        self.as_ref().channel
    }

    /// The pattern by which it comes: see [`MessageRef::pattern`].
    pub fn pattern(&self) -> Option<&[u8]> {
        self.as_ref().pattern
    }

    /// What was published.
    pub fn payload(&self) -> &[u8] {
        self.as_ref().payload
    }

    /// What was published, without the rest, and without a copy where the rest is short.
    pub fn into_payload(mut self) -> Vec<u8> {
        self.bytes.drain(..self.payload);
        self.bytes
    }

    /// What was published, as any type that a reply can be: see [`MessageRef::payload_as`].
    ///
    /// # Errors
    ///
    /// When the payload is not what the type takes.
    pub fn payload_as<T: FromReply>(&self) -> Result<T> {
        self.as_ref().payload_as()
    }

    /// Whether it was published to a shard channel, by SPUBLISH.
    pub fn is_shard(&self) -> bool {
        self.shard
    }

    /// How much memory it holds.
    pub(super) fn size(&self) -> usize {
        self.bytes.len() + size_of::<Message>()
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}

/// What happens to a subscriber.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A message.
    Message(Message),
    /// The connection broke, was made again, and everything is being subscribed to again: **what was published in between is
    /// lost**. Comes before every message of the new connection, and only with a [`Reconnect`](crate::Reconnect) policy. One
    /// may stand for several breaks between which nothing was read.
    Reconnected(Gap),
    /// The server has ended the subscription to this shard channel unasked, because its slot has moved to another node.
    /// Subscribe there. A [shard subscriber of a cluster](crate::cluster::Cluster::shard_subscriber) with a policy does that itself.
    ShardUnsubscribed(Vec<u8>),
}

impl Event {
    /// The same, borrowed.
    pub fn as_ref(&self) -> EventRef<'_> {
        match self {
            Event::Message(message) => EventRef::Message(message.as_ref()),
            Event::Reconnected(gap) => EventRef::Reconnected(gap),
            Event::ShardUnsubscribed(channel) => EventRef::ShardUnsubscribed(channel),
        }
    }

    /// The message, if it is one.
    pub fn into_message(self) -> Option<Message> {
        match self {
            Event::Message(message) => Some(message),
            _ => None,
        }
    }

    /// How much memory it holds.
    pub(super) fn size(&self) -> usize {
        match self {
            Event::Message(message) => message.size(),
            Event::Reconnected(_) => size_of::<Event>(),
            Event::ShardUnsubscribed(channel) => channel.len() + size_of::<Event>(),
        }
    }
}

/// What a push of a [`Connection`](crate::Connection) says, if it is a message or the end of a subscription to a shard channel;
/// any other is given back.
impl TryFrom<Value> for Event {
    type Error = Value;

    fn try_from(push: Value) -> std::result::Result<Event, Value> {
        let Value::Push(elements) = &push else { return Err(push) };
        let mut texts = Vec::new();
        for element in elements {
            match element {
                Value::Bulk(text) | Value::SimpleString(text) => texts.push(&text[..]),
                Value::Integer(_) => {}
                _ => return Err(push),
            }
        }
        let (pattern, channel, payload, shard) = match (&texts[..], elements.len()) {
            ([b"message", channel, payload], 3) => (None, *channel, *payload, false),
            ([b"smessage", channel, payload], 3) => (None, *channel, *payload, true),
            ([b"pmessage", pattern, channel, payload], 4) => (Some(*pattern), *channel, *payload, false),
            ([b"sunsubscribe", channel], 3) => return Ok(Event::ShardUnsubscribed(channel.to_vec())),
            _ => return Err(push),
        };
        Ok(Event::Message(MessageRef { pattern, channel, payload, shard }.to_owned()))
    }
}

/// What happens to a subscriber, borrowed: see [`Event`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum EventRef<'a> {
    /// A message.
    Message(MessageRef<'a>),
    /// The connection was made again: see [`Event::Reconnected`].
    Reconnected(&'a Gap),
    /// A shard channel has moved away: see [`Event::ShardUnsubscribed`].
    ShardUnsubscribed(&'a [u8]),
}

/// Why messages may be missing: see [`Event::Reconnected`].
#[derive(Clone, Debug)]
pub struct Gap {
    pub(super) cause: Error,
    pub(super) restored: usize,
}

impl Gap {
    /// What broke the connection.
    pub fn cause(&self) -> &Error {
        &self.cause
    }

    /// How many channels, patterns and shard channels are subscribed to again. What the server refuses now is an error of
    /// a later read.
    pub fn restored(&self) -> usize {
        self.restored
    }
}
