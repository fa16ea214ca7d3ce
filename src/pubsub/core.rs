//! The reading side: frames become events, and acknowledgements find the commands they belong to.
//!
//! Each command that subscribes or unsubscribes is followed by a PING with a number. In RESP3 there is no other reply to
//! it than pushes, as many as it has names, unless it is refused: then there is one error. The PING ends its place whatever
//! has come, so that nothing has to be counted.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::time::{Duration, Instant};

use super::again::Link;
use super::message::{Event, MessageRef};
use super::patience::Patience;
use super::pending::Pending;
use super::ticket::{CROWDED, Promise, Shared, Ticket, Wish};
use crate::args::Gathered;
use crate::cluster::slot_of;
use crate::connection::wire::{self, Kind, Said, Spans};
use crate::connection::{Config, Connection, Endpoint, Listener};
use crate::error::{Error, Result, ServerError};
use crate::resp::{self, ProtocolError};

/// How much is kept while an acknowledgement is waited for, unless the user says otherwise.
pub(super) const LIMIT: usize = 64 << 20;

const FULL: Error = Error::Refused(
    "too many messages have come before the acknowledgement: read them first, and it will be noted on the way",
);

/// How often is read before the clock is looked at.
const READS: u32 = 16;

/// What comes next.
pub(super) enum Next {
    Event(Event),
    /// A message, in the frame of this length that was passed last.
    Message(usize, Spans),
    /// An error that no handle is left for.
    Failed(Error),
    /// A command has been answered.
    Settled,
    /// Nothing in the time there was.
    Nothing,
    /// The iteration is to end.
    Stopped,
}

pub(super) struct Core {
    pub(super) line: Listener,
    pub(super) resp2: bool,
    pub(super) link: Link,
    /// All that was subscribed to before has been acknowledged on this connection, and it has brought something since.
    pub(super) fruitful: bool,
    /// What has broken the connection that there was last.
    pub(super) broken_by: Option<Error>,
    /// When the connection was made, if it is not the first one.
    pub(super) since: Option<Instant>,
    /// How many commands that subscribe again are not acknowledged.
    pub(super) restoring: usize,
    /// What is waited for is the next event, and not an acknowledgement.
    pub(super) reading: bool,
    /// How often has been read for what is asked for now.
    reads: u32,
    /// How many connections before this one, in a row, were of no use.
    pub(super) failed: u32,
    /// What the server has acknowledged, by kind.
    pub(super) subscribed: [BTreeSet<Vec<u8>>; 3],
    pub(super) pending: VecDeque<Pending>,
    /// How many there are at most of those that somebody asks for.
    most: usize,
    tokens: u64,
    /// What is to be read before anything from the socket.
    pub(super) kept: VecDeque<Result<Event>>,
    kept_bytes: usize,
    limit: usize,
    /// What comes is not kept any more.
    discard: bool,
}

impl Core {
    pub(super) fn new(mut line: Listener) -> Core {
        Core {
            resp2: line.is_resp2(),
            most: line.config().max_outstanding,
            line,
            link: Link::Up,
            // The first connection may not have been used yet.
            fruitful: true,
            broken_by: None,
            since: None,
            restoring: 0,
            reading: false,
            reads: 0,
            failed: 0,
            subscribed: Default::default(),
            pending: VecDeque::new(),
            tokens: 0,
            kept: VecDeque::new(),
            kept_bytes: 0,
            limit: LIMIT,
            discard: false,
        }
    }

    pub(super) fn set_limit(&mut self, bytes: usize) {
        self.limit = bytes;
    }

    pub(super) fn timeout(&mut self) -> Option<Duration> {
        self.line.config().timeout
    }

    pub(super) fn next_push(&mut self) -> Option<Vec<u8>> {
        self.line.next_push()
    }

    pub(super) fn is_broken(&self) -> bool {
        matches!(self.link, Link::Broken(_))
    }

    /// The slot of a cluster whose channels are subscribed to again where it is, when it moves.
    pub(super) fn follows(&mut self) -> Option<u16> {
        match self.line.config() {
            Config { endpoint: Endpoint::Found(found), reconnect, .. } if !reconnect.is_never() => found.0.slot(),
            _ => None,
        }
    }

    /// Whether an error says that this slot is elsewhere by now.
    pub(super) fn has_moved(&mut self, error: &Error) -> bool {
        let Some(slot) = self.follows() else { return false };
        let says = error.as_server_error().map_or(&b""[..], |error| error.message());
        let mut words = says.split(|byte| *byte == b' ');
        words.next() == Some(b"MOVED") && words.next().and_then(resp::number::parse_u64) == Some(u64::from(slot))
    }

    fn is_up(&self) -> bool {
        matches!(self.link, Link::Up)
    }

    /// How many channels, patterns and shard channels the server has acknowledged and not ended.
    pub(super) fn subscriptions(&self) -> usize {
        self.subscribed.iter().map(BTreeSet::len).sum()
    }

    // Asking.

    /// Sends what a wish needs, as far as the socket takes it.
    pub(super) fn grant(&mut self, wish: Wish) {
        match wish {
            Wish::These { kind, subscribe, names, promise } => self.ask(kind, subscribe, &names, promise),
            Wish::None(promises) => {
                for (kind, promise) in Kind::ALL.into_iter().zip(promises) {
                    // A kind that is not used may be one that the server does not know, or the user may not end.
                    let asked = |pending: &Pending| pending.kind == kind && pending.subscribe && pending.names > 0;
                    if !self.subscribed[kind as usize].is_empty() || self.pending.iter().any(asked) {
                        self.ask(kind, false, &Gathered::default(), promise);
                    } else {
                        self.settle_promise(promise, Ok(0));
                    }
                }
            }
        }
        self.line.write();
    }

    fn ask(&mut self, kind: Kind, subscribe: bool, names: &Gathered, promise: Promise) {
        if let Link::Broken(error) = &self.link {
            // Whoever reads is told of the break in any case.
            promise.fulfil(Err(error.clone()));
        } else if self.pending.len() - self.restoring >= self.most {
            self.settle_promise(promise, Err(CROWDED));
        } else {
            self.send(Pending::new(kind, subscribe, names, Some(promise)));
        }
    }

    fn settle_promise(&mut self, promise: Promise, outcome: Result<u64>) {
        if let Some(error) = promise.fulfil(outcome) {
            self.keep(Err(error));
        }
    }

    /// Sends a command and its PING, if there is a server; else they go out when there is one.
    pub(super) fn send(&mut self, mut pending: Pending) {
        (pending.token, pending.acknowledged, pending.error) = (self.tokens, 0, None);
        self.tokens += 1;
        if let Link::Up = self.link {
            pending.sent = true;
            self.line.push(&pending.command);
            let mut ping = Vec::new();
            resp::encode_command(&mut ping, &["PING", itoa::Buffer::new().format(pending.token)]);
            self.line.push(&ping);
        }
        self.restoring += usize::from(pending.promise.is_none());
        self.pending.push_back(pending);
    }

    // Reading.

    /// What comes next, in as much time.
    pub(super) fn next(&mut self, shared: &Shared, patience: Patience) -> Result<Next> {
        (self.reads, self.reading) = (0, true);
        loop {
            // In this order: a stop behind the hearing wakes the wait below, and one before it is found here.
            self.hear(shared);
            if shared.stop.take() {
                return Ok(Next::Stopped);
            }
            if let Some(kept) = self.kept.pop_front() {
                self.kept_bytes = self.kept_bytes.saturating_sub(size(&kept));
                return Ok(Next::Event(kept?));
            }
            match self.take() {
                Ok(Some(Next::Settled)) => continue,
                Ok(Some(Next::Failed(error))) => return Err(error),
                Ok(Some(next)) => return Ok(next),
                Ok(None) => {}
                Err(error) => {
                    self.broke(error);
                    continue;
                }
            }
            if !self.more(shared, patience)? {
                return Ok(Next::Nothing);
            }
        }
    }

    /// Waits for what a ticket has come to. Messages that come before are kept.
    pub(super) fn settle(&mut self, shared: &Shared, ticket: &Ticket, patience: Patience) -> Result<u64> {
        self.until(shared, patience, |_| ticket.outcome())?
    }

    /// Reads until it is so. Messages that come before are kept.
    fn until<T>(
        &mut self,
        shared: &Shared,
        patience: Patience,
        mut outcome: impl FnMut(&Core) -> Option<T>,
    ) -> Result<T> {
        (self.reads, self.reading) = (0, false);
        loop {
            self.hear(shared);
            if let Some(outcome) = outcome(self) {
                return Ok(outcome);
            }
            if self.kept_bytes > self.limit {
                return Err(FULL);
            }
            match self.take() {
                Ok(Some(next)) => {
                    let kept = match next {
                        Next::Event(event) => Ok(event),
                        Next::Message(n, spans) => Ok(Event::Message(self.message(n, &spans).to_owned())),
                        Next::Failed(error) => Err(error),
                        Next::Settled | Next::Nothing | Next::Stopped => continue,
                    };
                    self.keep(kept);
                    continue;
                }
                Ok(None) => {}
                Err(error) => {
                    self.broke(error);
                    continue;
                }
            }
            match self.more(shared, patience) {
                Ok(true) => {}
                Ok(false) => return Err(Error::Timeout),
                // What it means for the one who waits may be known better.
                Err(error) => return outcome(self).ok_or(error),
            }
        }
    }

    /// Keeps what is to be read before anything that is still to come.
    pub(super) fn keep(&mut self, kept: Result<Event>) {
        if !(self.discard && kept.is_ok()) {
            self.kept_bytes += size(&kept);
            self.kept.push_back(kept);
        }
    }

    /// The message in the frame that was passed last.
    pub(super) fn message(&mut self, n: usize, spans: &Spans) -> MessageRef<'_> {
        MessageRef::at(self.line.passed(n), spans)
    }

    /// Does what other threads have asked for.
    pub(super) fn hear(&mut self, shared: &Shared) {
        if shared.stop.waker.heard() {
            let (wishes, unseen) = shared.take();
            unseen.into_iter().for_each(|error| self.keep(Err(error)));
            wishes.into_iter().for_each(|wish| self.grant(wish));
        }
    }

    /// Waits for bytes, or for a server to read them from. `false`: there was no time left.
    fn more(&mut self, shared: &Shared, patience: Patience) -> Result<bool> {
        match &self.link {
            Link::Broken(error) => return Err(error.clone()),
            Link::Down(_) => return self.dial(shared, patience),
            Link::Up => {}
        }
        let waited = match self.line.traffic() {
            Ok(true) => {
                // What comes without end must not outlast the time there is.
                self.reads += 1;
                let endless = matches!(patience, Patience::Endless);
                return Ok(endless || self.reads < READS || patience.left().is_some());
            }
            Ok(false) => match patience.left() {
                None => return Ok(false),
                Some(left) => self.line.wait(&shared.stop.waker, left),
            },
            Err(error) => Err(error),
        };
        if let Err(error) = waited {
            self.broke(error);
        }
        Ok(true)
    }

    /// Takes whole frames from the read buffer up to one that is an event. `None`: more bytes are needed.
    fn take(&mut self) -> Result<Option<Next>> {
        loop {
            if let Some((n, spans)) = wire::message(self.line.ahead(), self.resp2) {
                self.line.pass(n);
                return Ok(Some(self.message_passed(n, spans)));
            }
            let Some(n) = self.line.front()? else { return Ok(None) };
            self.line.pass(n);
            match wire::read(self.line.passed(n), self.resp2) {
                Said::Message(spans) => return Ok(Some(self.message_passed(n, spans))),
                Said::Acknowledged { kind, subscribed, name, count } => {
                    let set = &mut self.subscribed[kind as usize];
                    match self.pending.front_mut() {
                        Some(front) if front.takes(kind, subscribed, name) => {
                            front.acknowledged += 1;
                            front.count = count;
                            match name {
                                Some(name) if subscribed => drop(set.insert(name.to_vec())),
                                Some(name) => drop(set.remove(name)),
                                None => {}
                            }
                        }
                        _ if kind == Kind::Shard && !subscribed => {
                            if let Some(name) = name.map(<[u8]>::to_vec) {
                                if self.follows().is_some_and(|slot| slot_of(&name) == slot) {
                                    // It is subscribed to again where its slot is.
                                    return Err(io::Error::other("the slot of a shard channel has moved").into());
                                }
                                self.subscribed[kind as usize].remove(&name);
                                return Ok(Some(Next::Event(Event::ShardUnsubscribed(name))));
                            }
                        }
                        _ => self.line.keep_push(n),
                    }
                }
                Said::Pong(token) => {
                    let token = resp::number::parse_u64(token);
                    // One that is older belongs to a place that an error has ended.
                    if self.pending.front().is_some_and(|front| Some(front.token) == token) {
                        return self.end_place().map(Some);
                    } else if token.is_none_or(|token| token >= self.tokens) {
                        return Err(ProtocolError::UnaskedReply.into());
                    }
                }
                Said::Error(message) => {
                    let error = ServerError::new(message);
                    match self.pending.front_mut() {
                        Some(front) if front.takes_error(&error) => front.error = Some(error),
                        // A user who may not PING.
                        Some(_) => return self.end_place().map(Some),
                        None => return Err(error.into()),
                    }
                }
                Said::Push => self.line.keep_push(n),
                Said::Reply => return Err(ProtocolError::UnaskedReply.into()),
            }
        }
    }

    #[inline]
    fn message_passed(&mut self, n: usize, spans: Spans) -> Next {
        self.fruitful |= self.restoring == 0;
        Next::Message(n, spans)
    }

    /// The first command is answered. An error is one of the connection.
    pub(super) fn end_place(&mut self) -> Result<Next> {
        let Some(mut pending) = self.pending.pop_front() else { return Ok(Next::Settled) };
        if pending.promise.is_some()
            && let Err(error) = pending.outcome()
            && self.has_moved(&error)
        {
            // It is asked for again behind what was subscribed to before.
            self.pending.push_front(pending);
            return Err(error);
        }
        let unseen = match pending.promise.take() {
            Some(promise) => promise.fulfil(pending.outcome()),
            None => {
                self.restoring -= 1;
                self.restored(pending)?
            }
        };
        self.fruitful |= self.restoring == 0;
        Ok(unseen.map_or(Next::Settled, Next::Failed))
    }

    // Turning back.

    /// Unsubscribes from everything and turns back into a connection, with what was not read if it is wanted. Nobody can ask
    /// for anything any more.
    pub(super) fn into_connection(mut self, shared: &Shared, discard: bool) -> Result<(Connection, Vec<Event>)> {
        if let Link::Broken(error) = self.link {
            return Err(error);
        }
        self.discard = discard;
        (self.limit, self.most) = (usize::MAX, usize::MAX);
        let (ticket, promises) = Ticket::new(Kind::ALL.len());
        self.grant(Wish::None(promises));
        let patience = Patience::of(self.timeout());
        self.settle(shared, &ticket, patience)?;
        // There may have been nothing to unsubscribe from.
        self.until(shared, patience, |core| (core.is_up() && core.pending.is_empty()).then_some(()))?;
        if !self.line.is_written() {
            // Whatever its reply is, it must not be that of a command of the connection.
            return Err(Error::Refused("a subscription is on its way: the connection is closed"));
        }
        let mut rest = Vec::new();
        let left = shared.end().into_iter().map(Err);
        for kept in self.kept.into_iter().chain(left) {
            match kept {
                Ok(event) => rest.push(event),
                Err(error) => self.line.account_for(error),
            }
        }
        Ok((self.line.into_connection(), rest))
    }
}

/// How much memory it takes to keep this.
fn size(kept: &Result<Event>) -> usize {
    kept.as_ref().map_or(size_of::<Result<Event>>(), Event::size)
}
