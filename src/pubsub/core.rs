//! The reading side: frames become events, acknowledgements find the commands they belong to, and a connection that broke is
//! made again.
//!
//! Each command that subscribes or unsubscribes is followed by a PING with a number. In RESP3 there is no other reply to
//! it than pushes, as many as it has names, unless it is refused: then there is one error. The PING ends its place whatever
//! has come, so that nothing has to be counted.

use std::collections::{BTreeSet, VecDeque};
use std::io::Write as _;
use std::time::{Duration, Instant};

use super::message::{Event, Gap, MessageRef};
use super::ticket::{Promise, Shared, Ticket, Wish};
use super::wire::{self, Kind, Said, Spans};
use crate::args::Gathered;
use crate::connection::{Connection, Listener, is_hopeless};
use crate::error::{ConnectionLost, Error, Result, Sent, ServerError, UnexpectedReply};
use crate::resp::{self, ProtocolError, encode};

/// How many names one command has at most when everything is subscribed to again.
const NAMES: usize = 10_000;

/// How much is kept while an acknowledgement is waited for, unless the user says otherwise.
pub(super) const LIMIT: usize = 64 << 20;

const FULL: Error = Error::Refused(
    "too many messages have come before the acknowledgement: read them first, and it will be noted on the way",
);

/// How often is read before the clock is looked at.
const READS: u32 = 16;

/// How long a read may wait.
#[derive(Clone, Copy, Debug)]
pub(super) enum Patience {
    Endless,
    Until(Instant),
    /// Not at all.
    None,
}

impl Patience {
    pub(super) fn of(time: Option<Duration>) -> Patience {
        match time {
            Some(Duration::ZERO) => Patience::None,
            // A time that cannot be computed is too far off to come.
            Some(time) => Instant::now().checked_add(time).map_or(Patience::Endless, Patience::Until),
            None => Patience::Endless,
        }
    }

    /// How long is left: nothing when it is over, and within that nothing when there is no end.
    fn left(self) -> Option<Option<Duration>> {
        match self {
            Patience::Endless => Some(None),
            Patience::None => None,
            Patience::Until(until) => {
                let left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
                Some(Some(left))
            }
        }
    }
}

/// Whether there is a server at the other end.
enum Link {
    Up,
    /// It will be dialled again.
    Down {
        cause: Error,
        failed: u32,
        not_before: Option<Instant>,
    },
    Broken(Error),
}

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

/// A command whose PING has not been answered.
struct Pending {
    token: u64,
    kind: Kind,
    subscribe: bool,
    /// The command alone.
    command: Vec<u8>,
    /// How many names it has. None: all.
    names: usize,
    acknowledged: usize,
    count: u64,
    error: Option<ServerError>,
    /// There is none for what is subscribed to again.
    promise: Option<Promise>,
}

impl Pending {
    /// Whether an acknowledgement is for this command.
    fn takes(&self, kind: Kind, subscribed: bool, name: Option<&[u8]>) -> bool {
        if self.kind != kind || self.subscribe != subscribed {
            return false;
        }
        // Only these come unasked as well.
        kind != Kind::Shard || subscribed || self.names == 0 || name.is_none_or(|name| self.has(name))
    }

    fn has(&self, name: &[u8]) -> bool {
        encode::arguments(&self.command).skip(1).any(|own| own == name)
    }

    /// Whether an error is that of the command. Its own outcome, acknowledgements or one error, comes before that of its PING.
    fn takes_error(&self) -> bool {
        // The acknowledgement may have been the one that comes unasked when a slot moves.
        let moved = self.kind == Kind::Shard && !self.subscribe && self.acknowledged < self.names;
        self.error.is_none() && (self.acknowledged == 0 || moved)
    }
}

pub(super) struct Core {
    line: Listener,
    resp2: bool,
    link: Link,
    /// Something has come on this connection.
    fruitful: bool,
    /// How often has been read for what is asked for now.
    reads: u32,
    /// How many connections before this one, in a row, were of no use.
    failed: u32,
    /// What the server has acknowledged, by kind.
    subscribed: [BTreeSet<Vec<u8>>; 3],
    pending: VecDeque<Pending>,
    tokens: u64,
    /// What is to be read before anything from the socket.
    kept: VecDeque<Result<Event>>,
    kept_bytes: usize,
    limit: usize,
    /// What comes is not kept any more.
    discard: bool,
}

impl Core {
    pub(super) fn new(mut line: Listener) -> Core {
        Core {
            resp2: line.is_resp2(),
            line,
            link: Link::Up,
            // The first connection may not have been used yet.
            fruitful: true,
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

    /// How many channels, patterns and shard channels the server has acknowledged and not ended.
    pub(super) fn subscriptions(&self) -> usize {
        self.subscribed.iter().map(BTreeSet::len).sum()
    }

    // Asking.

    /// Sends what a wish needs, as far as the socket takes it.
    pub(super) fn grant(&mut self, wish: Wish) {
        match wish {
            Wish::These { kind, subscribe, names, promise } => self.ask(kind, subscribe, &names, Some(promise)),
            Wish::None(promises) => {
                for (kind, promise) in Kind::ALL.into_iter().zip(promises) {
                    // Servers before 7.0 know nothing of shard channels.
                    let known = kind != Kind::Shard || self.has_shards();
                    if known {
                        self.ask(kind, false, &Gathered::default(), Some(promise));
                    } else if let Some(error) = promise.fulfil(Ok(0)) {
                        self.kept.push_back(Err(error));
                    }
                }
            }
        }
        self.line.write();
    }

    fn has_shards(&self) -> bool {
        let asked = |pending: &Pending| pending.kind == Kind::Shard;
        !self.subscribed[Kind::Shard as usize].is_empty() || self.pending.iter().any(asked)
    }

    fn ask(&mut self, kind: Kind, subscribe: bool, names: &Gathered, promise: Option<Promise>) {
        if let Link::Broken(error) = &self.link {
            if let Some(promise) = promise {
                promise.fulfil(Err(error.clone()));
            }
            return;
        }
        let word = kind.command(subscribe);
        let mut command = Vec::with_capacity(names.bytes.len() + 40);
        // Writing to a vector does not fail.
        let _ = write!(command, "*{}\r\n${}\r\n{word}\r\n", names.count + 1, word.len());
        command.extend_from_slice(&names.bytes);
        let pending = Pending {
            token: 0,
            kind,
            subscribe,
            command,
            names: names.count,
            acknowledged: 0,
            count: 0,
            error: None,
            promise,
        };
        self.send(pending);
    }

    /// Sends a command and its PING, if there is a server; else they go out when there is one.
    fn send(&mut self, mut pending: Pending) {
        (pending.token, pending.acknowledged, pending.error) = (self.tokens, 0, None);
        self.tokens += 1;
        if let Link::Up = self.link {
            self.line.push(&pending.command);
            let mut ping = Vec::new();
            resp::encode_command(&mut ping, &["PING", itoa::Buffer::new().format(pending.token)]);
            self.line.push(&ping);
        }
        self.pending.push_back(pending);
    }

    // Reading.

    /// What comes next, in as much time.
    pub(super) fn next(&mut self, shared: &Shared, patience: Patience) -> Result<Next> {
        self.reads = 0;
        loop {
            // In this order: a stop behind the hearing wakes the wait below, and one before it is found here.
            self.hear(shared);
            if shared.take_stop() {
                return Ok(Next::Stopped);
            }
            if let Some(kept) = self.kept.pop_front() {
                let event = kept?;
                self.kept_bytes = self.kept_bytes.saturating_sub(event.size());
                return Ok(Next::Event(event));
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
        self.reads = 0;
        loop {
            self.hear(shared);
            if let Some(outcome) = ticket.outcome() {
                return outcome;
            }
            if self.kept_bytes > self.limit {
                return Err(FULL);
            }
            match self.take() {
                Ok(Some(next)) => {
                    self.keep(next);
                    continue;
                }
                Ok(None) => {}
                Err(error) => {
                    self.broke(error);
                    continue;
                }
            }
            if !self.more(shared, patience)? {
                return Err(Error::Timeout);
            }
        }
    }

    fn keep(&mut self, next: Next) {
        let event = match next {
            Next::Event(event) => event,
            Next::Message(n, spans) => Event::Message(self.message(n, &spans).to_owned()),
            Next::Failed(error) => return self.kept.push_back(Err(error)),
            Next::Settled | Next::Nothing | Next::Stopped => return,
        };
        if self.discard {
            return;
        }
        self.kept_bytes += event.size();
        self.kept.push_back(Ok(event));
    }

    /// The message in the frame that was passed last.
    pub(super) fn message(&mut self, n: usize, spans: &Spans) -> MessageRef<'_> {
        MessageRef::at(self.line.passed(n), spans)
    }

    /// Does what other threads have asked for.
    pub(super) fn hear(&mut self, shared: &Shared) {
        if shared.waker.heard() {
            let (wishes, unseen) = shared.take();
            self.kept.extend(unseen.into_iter().map(Err));
            for wish in wishes {
                self.grant(wish);
            }
        }
    }

    /// Waits for bytes, or for a server to read them from. `false`: there was no time left.
    fn more(&mut self, shared: &Shared, patience: Patience) -> Result<bool> {
        match &self.link {
            Link::Broken(error) => return Err(error.clone()),
            Link::Down { .. } => return self.dial(shared, patience),
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
                Some(left) => self.line.wait(&shared.waker, left),
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
            let Some(n) = self.line.front()? else { return Ok(None) };
            self.fruitful = true;
            self.line.pass(n);
            match wire::read(self.line.passed(n), self.resp2) {
                Said::Message(spans) => return Ok(Some(Next::Message(n, spans))),
                Said::Acknowledged { kind, subscribed, name, count } => {
                    let set = &mut self.subscribed[kind as usize];
                    match name {
                        Some(name) if subscribed => drop(set.insert(name.to_vec())),
                        Some(name) => drop(set.remove(name)),
                        None => {}
                    }
                    match self.pending.front_mut() {
                        Some(front) if front.takes(kind, subscribed, name) => {
                            front.acknowledged += 1;
                            front.count = count;
                        }
                        _ if kind == Kind::Shard && !subscribed => {
                            if let Some(name) = name {
                                return Ok(Some(Next::Event(Event::ShardUnsubscribed(name.to_vec()))));
                            }
                        }
                        _ => self.line.keep_push(n),
                    }
                }
                Said::Pong(token) => {
                    let token = resp::number::parse_u64(token);
                    // One that is older belongs to a place that an error has ended.
                    if self.pending.front().is_some_and(|front| Some(front.token) == token) {
                        return Ok(Some(self.end_place()));
                    } else if token.is_none_or(|token| token >= self.tokens) {
                        return Err(ProtocolError::UnaskedReply.into());
                    }
                }
                Said::Error(message) => {
                    let error = ServerError::new(message);
                    match self.pending.front_mut() {
                        Some(front) if front.takes_error() => front.error = Some(error),
                        // A user who may not PING.
                        Some(_) => return Ok(Some(self.end_place())),
                        None => return Err(error.into()),
                    }
                }
                Said::Push => self.line.keep_push(n),
                Said::Reply => return Err(ProtocolError::UnaskedReply.into()),
            }
        }
    }

    /// The first command is answered.
    fn end_place(&mut self) -> Next {
        let Some(pending) = self.pending.pop_front() else { return Next::Settled };
        let outcome = match (pending.error, pending.acknowledged) {
            (Some(error), _) => Err(error.into()),
            (None, 0) => Err(UnexpectedReply::new("an acknowledgement", "nothing").into()),
            (None, _) => Ok(pending.count),
        };
        let unseen = match (pending.promise, outcome) {
            (Some(promise), outcome) => promise.fulfil(outcome),
            (None, Ok(_)) => None,
            (None, Err(error)) => {
                // What is refused now is not asked for again.
                for name in encode::arguments(&pending.command).skip(1) {
                    self.subscribed[pending.kind as usize].remove(name);
                }
                Some(error)
            }
        };
        unseen.map_or(Next::Settled, Next::Failed)
    }

    // Breaking, and coming back.

    /// The connection has broken. Everything that came whole has been taken.
    fn broke(&mut self, cause: Error) {
        self.line.close(&cause);
        let policy = self.line.config().reconnect.clone();
        if policy.is_never() {
            self.give_up(cause);
            return;
        }
        // A connection that has brought nothing is an attempt that failed.
        let failed = if self.fruitful { 0 } else { self.failed.saturating_add(1) };
        let delay = policy.delay(failed);
        let not_before = (!delay.is_zero()).then(|| Instant::now() + delay);
        self.link = Link::Down { cause, failed, not_before };
    }

    /// There will be no connection again.
    fn give_up(&mut self, cause: Error) {
        let error = Error::ConnectionLost(ConnectionLost::new(Sent::Fully, cause).into());
        for pending in self.pending.drain(..) {
            if let Some(promise) = pending.promise {
                // Whoever reads is told of the break in any case.
                promise.fulfil(Err(error.clone()));
            }
        }
        self.subscribed = Default::default();
        self.link = Link::Broken(error);
    }

    /// One attempt to connect again, or a pause before it. `false`: there is no time for it.
    fn dial(&mut self, shared: &Shared, patience: Patience) -> Result<bool> {
        let Link::Down { cause, failed, not_before } = &mut self.link else { return Ok(true) };
        let policy = self.line.config().reconnect.clone();
        if *failed >= policy.most() {
            let cause = cause.clone();
            self.give_up(cause);
            return Ok(true);
        }
        let now = Instant::now();
        if let Some(pause) = not_before.and_then(|at| at.checked_duration_since(now)).filter(|pause| !pause.is_zero()) {
            let Some(left) = patience.left() else { return Ok(false) };
            self.line.pause(&shared.waker, left.map_or(pause, |left| left.min(pause)))?;
            return Ok(true);
        }
        let (whole, asked) = (self.line.config().connect_timeout, self.line.config().credentials.is_some());
        let time = match patience {
            // An attempt that is not made would never be.
            Patience::None => whole,
            _ => match patience.left() {
                None => return Ok(false),
                Some(left) => left.map_or(whole, |left| left.min(whole)),
            },
        };
        match self.line.dial(time) {
            Ok(()) => {
                let cause = cause.clone();
                self.failed = *failed;
                self.come_back(cause);
            }
            // Cut short by the caller's own time, it says nothing about the server.
            Err(Error::Timeout) if time < whole => return Ok(false),
            Err(error) => {
                // Whoever gives a password may give another one next time.
                *failed = if is_hopeless(&error) && !asked { u32::MAX } else { failed.saturating_add(1) };
                *not_before = Some(Instant::now() + policy.delay(*failed));
                *cause = error;
            }
        }
        Ok(true)
    }

    /// Subscribes to everything again, and sends what has not been acknowledged behind it: that it may have run before does no
    /// harm.
    fn come_back(&mut self, cause: Error) {
        self.link = Link::Up;
        self.fruitful = false;
        self.resp2 = self.line.is_resp2();
        let asked = std::mem::take(&mut self.pending);
        for kind in Kind::ALL {
            // Shard channels are of different slots, which one command may not mix.
            let most = if kind == Kind::Shard { 1 } else { NAMES };
            let names: Vec<Vec<u8>> = self.subscribed[kind as usize].iter().cloned().collect();
            for names in names.chunks(most) {
                let mut bytes = Vec::new();
                for name in names {
                    let _ = write!(bytes, "${}\r\n", name.len());
                    bytes.extend_from_slice(name);
                    bytes.extend_from_slice(b"\r\n");
                }
                self.ask(kind, true, &Gathered { bytes, count: names.len() }, None);
            }
        }
        for pending in asked {
            if pending.promise.is_some() {
                self.send(pending);
            }
        }
        let gap = Event::Reconnected(Gap { cause, restored: self.subscriptions() });
        self.kept_bytes += gap.size();
        self.kept.push_back(Ok(gap));
        self.line.write();
    }

    // Turning back.

    /// Unsubscribes from everything and turns back into a connection, with what was not read if it is wanted. Nobody can ask
    /// for anything any more.
    pub(super) fn into_connection(mut self, shared: &Shared, discard: bool) -> Result<(Connection, Vec<Event>)> {
        self.discard = discard;
        self.limit = usize::MAX;
        let (ticket, promises) = Ticket::new(Kind::ALL.len());
        self.grant(Wish::None(promises));
        let patience = Patience::of(self.timeout());
        self.settle(shared, &ticket, patience)?;
        if !self.pending.is_empty() {
            // Whatever its reply is, it must not be that of a command of the connection.
            return Err(Error::Refused("a subscription is on its way: the connection is closed"));
        }
        let mut rest = Vec::new();
        for kept in self.kept {
            match kept {
                Ok(event) => rest.push(event),
                Err(error) => self.line.account_for(error),
            }
        }
        Ok((self.line.into_connection(), rest))
    }
}
