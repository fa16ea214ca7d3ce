//! Subscriptions on a connection that goes on with commands: RESP3 only.
//!
//! SUBSCRIBE has no reply of its own there: it is answered by a push for each channel, or by one error. So HELLO goes out
//! behind it, which only says what was agreed on and which no user can be forbidden: an error in front of its map is that of
//! SUBSCRIBE. (A [`Subscriber`](crate::pubsub::Subscriber) has PING for this, which a user may be forbidden, and counts.)

use std::time::Duration;

use super::deadline::Deadline;
use super::engine::Engine;
use super::issue::Encoded;
use super::place;
use super::queue::Mark;
use super::traffic::READS;
use super::wire::{Kind, Said, read_push};
use super::{Connection, Protocol};
use crate::args::ToArgs;
use crate::error::{Error, Result};
use crate::resp::{self, Frame, ProtocolError};
use crate::values::{FromReply, Value};

const HELLO: &[u8] = b"*1\r\n$5\r\nHELLO\r\n";

const RESP2: Error = Error::Refused("in RESP2 a subscribed connection takes no commands: use a pubsub::Subscriber");
const MADE_AGAIN: Error = Error::Refused(
    "a connection that is made again after a break would miss messages in silence: use a pubsub::Subscriber, which tells",
);

/// A SUBSCRIBE or its like whose HELLO has not been answered.
#[derive(Debug)]
pub(super) struct Subscribing {
    /// HELLO has the place behind it.
    place: u64,
    kind: Kind,
    subscribe: bool,
    /// How many acknowledgements have come, and the number of subscriptions in the last one.
    acknowledged: u64,
    count: u64,
}

impl Connection {
    /// Issues a SUBSCRIBE or its like, and returns its place.
    pub(crate) fn issue_subscription(&self, kind: Kind, subscribe: bool, names: impl ToArgs) -> u64 {
        let encoded = Encoded::named(kind.command(subscribe), names);
        let issued = self.with(|engine| match encoded {
            Ok(encoded) => engine.issue_subscription(&encoded.bytes, kind, subscribe),
            Err(error) => engine.born_failed(error),
        });
        issued.unwrap_or(place::BUSY)
    }

    /// The oldest push that has come and not been taken, or the next one: sends what has been gathered, reads, and waits for at
    /// most this long. `None` when there is none until then. With [`Duration::ZERO`] nothing is waited for: what the socket
    /// holds is read.
    ///
    /// Replies that come meanwhile are kept for their handles.
    ///
    /// # Errors
    ///
    /// When the connection is broken or breaks; what had come before it is given first.
    pub fn next_push_timeout(&self, time: Duration) -> Result<Option<Value>> {
        let push = self.with(|engine| engine.wait_for_push(time))??;
        push.and_then(|push| resp::frame(&push).map(Value::from_reply)).transpose()
    }
}

impl Engine {
    fn issue_subscription(&mut self, command: &[u8], kind: Kind, subscribe: bool) -> u64 {
        let names = resp::encode::arguments(command).count() - 1;
        let refused = match () {
            () if self.config.protocol == Protocol::Resp2 => Some(RESP2),
            () if !self.config.reconnect.is_never() => Some(MADE_AGAIN),
            () if subscribe && names == 0 => Some(Error::Argument(super::engine::EMPTY)),
            () => None,
        };
        let placed = refused.map_or_else(|| self.append_two(command, HELLO), Err);
        let place = match placed {
            Ok(place) => place,
            Err(error) => return self.born_failed(error),
        };
        self.ring.detach(place + 1, self.next, self.issued);
        self.subscribing.push_back(Subscribing { place, kind, subscribe, acknowledged: 0, count: 0 });
        self.refresh_head();
        self.after_issue(place);
        place
    }

    /// Whether the next place is that of a SUBSCRIBE or of its HELLO.
    #[inline]
    pub(super) fn at_subscription(&self) -> bool {
        self.subscribing.front().is_some_and(|front| front.place <= self.next)
    }

    /// Takes a push, if it acknowledges the SUBSCRIBE whose turn it is.
    pub(super) fn acknowledge(&mut self, push: &[u8]) -> bool {
        let Some(front) = self.subscribing.front_mut().filter(|front| front.place == self.next) else { return false };
        let Said::Acknowledged { kind, subscribed, count, .. } = read_push(push) else { return false };
        let own = kind == front.kind && subscribed == front.subscribe;
        if own {
            front.acknowledged += 1;
            front.count = count;
            self.subscriptions[usize::from(kind == Kind::Shard)] = count;
        }
        own
    }

    /// Settles the place of a SUBSCRIBE, or that of its HELLO. `false`: its reply has not arrived whole.
    pub(super) fn settle_subscription(&mut self) -> Result<bool> {
        let Some(n) = self.head_frame()? else { return Ok(false) };
        let Some(front) = self.subscribing.front() else { return Ok(false) };
        let (own, acknowledged, count) = (front.place == self.next, front.acknowledged, front.count);
        let frame = resp::frame(&self.input.bytes()[..n]);
        match frame {
            Some(Frame::Error(_)) if own && acknowledged == 0 => {
                // Its HELLO is still to come.
                if self.ring.get(self.next) == Mark::Live {
                    self.store.put(self.next, &self.input.bytes()[..n]);
                } else {
                    let error = self.input.bytes()[..n].to_vec();
                    self.check_skipped(self.next, &error);
                }
                self.pass(n);
            }
            Some(Frame::Map(_)) if own => {
                if self.ring.get(self.next) == Mark::Live {
                    self.store.put(self.next, format!(":{count}\r\n").as_bytes());
                }
                self.advance();
                // It is the reply to HELLO.
                self.subscribing.pop_front();
                self.pass(n);
            }
            Some(Frame::Map(_)) => {
                self.subscribing.pop_front();
                self.pass(n);
            }
            _ => return Err(self.break_with(ProtocolError::OutOfStep.into())),
        }
        Ok(true)
    }

    /// Whether this place is that of a HELLO of ours.
    pub(super) fn is_hello(&self, place: u64) -> bool {
        let own = place.wrapping_sub(1);
        self.subscribing.binary_search_by_key(&own, |subscribing| subscribing.place).is_ok()
    }

    /// Whether anything is subscribed to, or may be.
    pub(super) fn is_subscribed(&self) -> bool {
        !self.subscribing.is_empty() || self.subscriptions != [0, 0]
    }

    fn wait_for_push(&mut self, time: Duration) -> Result<Option<Vec<u8>>> {
        let (silent, read) = (self.silent, self.stats.bytes_read);
        let mut deadline = Deadline::tentative(time);
        for reads in 0.. {
            let settled = self.settle_whole();
            if self.next == self.issued && self.input.len() > 0 && self.streaming.is_none() {
                self.look_at_surplus();
            }
            if let Some(push) = self.next_push() {
                return Ok(Some(push));
            }
            settled?;
            self.check_unless_made_again()?;
            let came = if time.is_zero() { self.look_once(reads) } else { self.fill(&mut deadline) };
            if let Err(Error::Timeout) = came {
                // That nobody has published anything says nothing about the server.
                self.silent = silent && self.stats.bytes_read == read;
                return Ok(None);
            }
        }
        Ok(None)
    }

    fn check_unless_made_again(&self) -> Result<()> {
        if self.is_broken() { self.check() } else { Ok(()) }
    }

    /// Reads what is there, a number of times at most: [`Error::Timeout`] if there is nothing.
    fn look_once(&mut self, reads: usize) -> Result<()> {
        let mut deadline = Deadline::tentative(Duration::ZERO);
        self.up_at_once(&mut deadline)?;
        self.try_flush()?;
        self.input.make_room(usize::MAX);
        if reads < READS && self.read_now()? { Ok(()) } else { Err(Error::Timeout) }
    }
}
