//! Breaking, and coming back: a connection that broke is made again, and what was subscribed to is subscribed to again.

use std::collections::HashSet;
use std::io::Write as _;
use std::time::Instant;

use super::core::{Core, Next};
use super::message::{Event, Gap};
use super::patience::Patience;
use super::pending::{Pending, is_transient};
use super::ticket::Shared;
use crate::args::Gathered;
use crate::connection::Down;
use crate::connection::wire::Kind;
use crate::error::{ConnectionLost, Error, Result, Sent};

/// How many names one command has at most when everything is subscribed to again.
const NAMES: usize = 10_000;

/// How often a command is sent again that was on its way when a connection of use broke: it may be what breaks them.
const RESENDS: u8 = 3;

/// Whether there is a server at the other end.
pub(super) enum Link {
    Up,
    /// It will be dialled again.
    Down(Down),
    Broken(Error),
}

impl Core {
    /// The connection has broken. Everything that came whole has been taken.
    pub(super) fn broke(&mut self, cause: Error) {
        // A server that closes for what it was asked says so first.
        if self.pending.front().is_some_and(|front| front.error.is_some())
            && let Ok(Next::Failed(error)) = self.end_place()
        {
            self.keep(Err(error));
        }
        self.line.close(&cause);
        self.broken_by.get_or_insert_with(|| cause.clone());
        let policy = self.line.config().reconnect.clone();
        if policy.is_never() {
            let error = self.let_go(&cause);
            self.subscribed = Default::default();
            self.link = Link::Broken(error);
            return;
        }
        let failed = match self.fruitful {
            // A connection that has brought nothing is an attempt that failed.
            false => self.failed.saturating_add(1),
            // One that did not last is none, but the next one is not made at once: it may not last either.
            true if self.since.is_some_and(|since| !policy.has_lasted(since.elapsed())) => 1.min(policy.most() - 1),
            true => 0,
        };
        if self.fruitful {
            self.note_losses(&cause);
        }
        let down = Down::new(cause.clone(), failed, &policy);
        if down.is_resting(&policy) {
            let error = self.let_go(&cause);
            self.keep(Err(error));
        }
        self.link = Link::Down(down);
    }

    /// Counts how often commands were on their way when a connection broke, and fails those that were so too often.
    fn note_losses(&mut self, cause: &Error) {
        let (mut kept, all) = (Vec::new(), std::mem::take(&mut self.pending));
        for mut pending in all {
            pending.losses += 1;
            match pending.promise.take_if(|_| pending.losses > RESENDS) {
                // Whoever reads is told of the break in any case.
                Some(promise) => drop(promise.fulfil(Err(lost(Sent::Fully, cause)))),
                None => kept.push(pending),
            }
        }
        self.pending = kept.into();
    }

    /// There is no server, and none is looked for now: what was asked for fails. The error is that of the reader.
    fn let_go(&mut self, cause: &Error) -> Error {
        self.line.given_up(cause);
        for pending in self.pending.drain(..) {
            if let Some(promise) = pending.promise {
                let sent = if pending.sent { Sent::Fully } else { Sent::Unsent };
                promise.fulfil(Err(lost(sent, cause)));
            }
        }
        self.restoring = 0;
        lost(Sent::Fully, cause)
    }

    /// One attempt to connect again, or a pause before it. `false`: there is no time for it.
    pub(super) fn dial(&mut self, shared: &Shared, patience: Patience) -> Result<bool> {
        let Link::Down(down) = &mut self.link else { return Ok(true) };
        let config = self.line.config();
        let (resting, whole) = (down.is_resting(&config.reconnect), config.connect_timeout);
        let pause = down.pause();
        if !pause.is_zero() && resting && !self.reading {
            // What is asked for is not worth so long a wait; a message is.
            let cause = down.cause().clone();
            return Err(self.let_go(&cause));
        }
        let left = match patience.left() {
            Some(left) => left,
            // An attempt that is not made would never be.
            None if matches!(patience, Patience::None) && pause.is_zero() => None,
            None => return Ok(false),
        };
        let failure = if pause.is_zero() {
            let time = left.map_or(whole, |left| down.time(left, whole));
            match self.line.dial(time) {
                Ok(()) => {
                    let cause = down.cause().clone();
                    self.failed = down.failed();
                    self.come_back(cause);
                    return Ok(true);
                }
                // Cut short by the caller's own time, it says nothing about the server.
                Err(error) if error.is_timeout() && time < whole => {
                    down.cut_short(error, time);
                    return Ok(false);
                }
                Err(error) => error,
            }
        } else {
            match self.line.pause(&shared.stop.waker, left.map_or(pause, |left| left.min(pause))) {
                Ok(()) => return Ok(true),
                Err(error) => error,
            }
        };
        self.line.attempt_failed(&failure, down.failed());
        down.fail(failure, self.line.config());
        if down.is_resting(&self.line.config().reconnect) {
            let cause = down.cause().clone();
            return Err(self.let_go(&cause));
        }
        Ok(true)
    }

    /// Subscribes to everything again, and sends what has not been acknowledged behind it: that it may have run before does no
    /// harm.
    fn come_back(&mut self, cause: Error) {
        // Later attempts may have met with something else.
        let cause = self.broken_by.take().unwrap_or(cause);
        self.link = Link::Up;
        self.since = Some(Instant::now());
        self.fruitful = false;
        self.restoring = 0;
        self.resp2 = self.line.is_resp2();
        let asked = std::mem::take(&mut self.pending);
        for kind in Kind::ALL {
            let names: Vec<Vec<u8>> = self.subscribed[kind as usize].iter().cloned().collect();
            self.restore(kind, &names, NAMES);
        }
        for pending in asked {
            if pending.promise.is_some() {
                self.send(pending);
            }
        }
        if self.pending.is_empty() {
            // Else nothing would ever come that shows that the connection is of use.
            self.send(Pending::ping());
        }
        let gap = Event::Reconnected(Gap { cause, restored: self.subscriptions() });
        match self.kept.back_mut() {
            // Nobody has read of the last one, and nothing has come since.
            Some(Ok(last @ Event::Reconnected(_))) => *last = gap,
            _ => self.keep(Ok(gap)),
        }
        self.line.write();
    }

    /// Subscribes again, with at most so many names in a command.
    fn restore(&mut self, kind: Kind, names: &[Vec<u8>], most: usize) {
        // Shard channels are of different slots, which one command may not mix.
        let most = if kind == Kind::Shard { 1 } else { most };
        for names in names.chunks(most) {
            let mut bytes = Vec::new();
            for name in names {
                // Writing to a vector does not fail.
                let _ = write!(bytes, "${}\r\n", name.len());
                bytes.extend_from_slice(name);
                bytes.extend_from_slice(b"\r\n");
            }
            self.send(Pending::new(kind, true, &Gathered { bytes, count: names.len() }, None));
        }
    }

    /// What has come of a command that subscribes again. The error for the reader, if there is one; an error of the whole
    /// connection as the other kind.
    pub(super) fn restored(&mut self, pending: Pending) -> Result<Option<Error>> {
        let Err(error) = pending.outcome() else { return Ok(None) };
        if is_transient(&error) || self.has_moved(&error) {
            // The names are kept for the next attempt.
            return Err(error);
        }
        let names: Vec<Vec<u8>> = pending.arguments().map(<[u8]>::to_vec).collect();
        if let [name] = &names[..] {
            // What is refused now is not asked for again.
            self.subscribed[pending.kind as usize].remove(name);
            return Ok(Some(error));
        }
        // One name is enough for all of them to be refused.
        let names = self.still_wanted(pending.kind, names);
        self.restore(pending.kind, &names, names.len().div_ceil(2).max(1));
        Ok(None)
    }

    /// Those of the names that no command which is on its way unsubscribes from.
    fn still_wanted(&self, kind: Kind, mut names: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        let mut ended = HashSet::new();
        for pending in self.pending.iter().filter(|pending| pending.kind == kind && !pending.subscribe) {
            if pending.names == 0 {
                return Vec::new();
            }
            ended.extend(pending.arguments());
        }
        names.retain(|name| !ended.contains(&name[..]));
        names
    }
}

fn lost(sent: Sent, cause: &Error) -> Error {
    Error::ConnectionLost(ConnectionLost::new(sent, cause.clone()).into())
}
