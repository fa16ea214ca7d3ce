//! Commands that wait for being sent are sent when their time has come, in the order of their slot.

use std::time::{Duration, Instant};

use super::core::{At, Core, NO_OWNER, NO_SLOT, NOWHERE, Parked, TOO_LONG, unsent};
use super::dial::Reach;
use super::node::{Entry, flag};
use crate::connection::{Effect, Encoded, is_hopeless};
use crate::error::{Error, Result};

const ASKING: &[u8] = b"*1\r\n$6\r\nASKING\r\n";
const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";

/// How long a slot waits of which nobody knows who has it.
const NOBODY: Duration = Duration::from_millis(20);

/// How often all slots in trouble are looked at, at most.
const SWEEP: Duration = Duration::from_millis(5);

/// What a slot in trouble waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Nothing: all has been sent, or failed.
    Nothing,
    /// Replies that are outstanding for it.
    Replies,
    /// This time.
    Until(Instant),
    /// A connection that a thread is to make.
    Dial,
}

/// What has become of an attempt to send a command that waits.
enum Attempt {
    Sent(u16),
    Failed,
    NotYet(Parked, Instant),
    /// When a thread has connected to this node.
    Later(Parked, u16),
}

impl Core {
    /// Sends what waits for the slots of which nothing is outstanding any more, and what has waited for its time.
    pub(super) fn service(&mut self) {
        while let Some(slot) = self.ready.pop() {
            self.pump(slot);
        }
        if let Some(due) = self.due
            && let now = Instant::now()
            && now >= due
        {
            self.due = None;
            let slots: Vec<u16> = self.troubles.keys().copied().collect();
            slots.into_iter().for_each(|slot| {
                self.pump(slot);
            });
            // There may be many, and most of them not due yet.
            self.due = self.due.map(|due| due.max(now + SWEEP));
        }
    }

    /// Sends what waits in a slot, as far as it may be.
    pub(super) fn pump(&mut self, slot: u16) -> Wait {
        let wait = if slot == NO_SLOT { self.pump_keyless() } else { self.pump_slot(slot) };
        if let Wait::Until(at) = wait {
            self.due = Some(self.due.map_or(at, |due| due.min(at)));
        }
        wait
    }

    fn pump_slot(&mut self, slot: u16) -> Wait {
        if self.outstanding[usize::from(slot)] > 0 {
            return Wait::Replies;
        }
        let Some(mut trouble) = self.troubles.remove(&slot) else { return Wait::Nothing };
        let mut queue = trouble.returned;
        queue.append(&mut trouble.waiting);
        let mut run = None;
        let mut probed = false;
        let mut wait = Wait::Nothing;
        let mut dial = None;
        while let Some(parked) = queue.pop_front() {
            let target = self.target_of(slot, &parked);
            if probed || run.is_some_and(|run| run != target.0) {
                // Behind the others of its slot, which are with another node or may yet be refused.
                queue.push_front(parked);
                wait = Wait::Replies;
                break;
            }
            let probes = parked.probes;
            match self.attempt(slot, parked, target) {
                Attempt::Sent(n) => {
                    run = Some(n);
                    probed = probes;
                }
                Attempt::Failed => {}
                Attempt::NotYet(parked, at) => {
                    queue.push_front(parked);
                    wait = if self.outstanding[usize::from(slot)] > 0 { Wait::Replies } else { Wait::Until(at) };
                    break;
                }
                Attempt::Later(parked, n) => {
                    queue.push_front(parked);
                    dial = Some(n);
                    wait = if self.outstanding[usize::from(slot)] > 0 { Wait::Replies } else { Wait::Dial };
                    break;
                }
            }
        }
        // Meanwhile the connection may have broken again.
        let elsewhere = run.is_some_and(|run| run != self.slots[usize::from(slot)]);
        if !queue.is_empty() || elsewhere || probed {
            let trouble = self.troubles.entry(slot).or_default();
            queue.append(&mut trouble.waiting);
            trouble.waiting = queue;
            trouble.dial = dial;
        }
        wait
    }

    /// Commands without keys have no order among them.
    fn pump_keyless(&mut self) -> Wait {
        let Some(trouble) = self.troubles.remove(&NO_SLOT) else { return Wait::Nothing };
        let (mut soonest, mut dial): (Option<Instant>, _) = (None, None);
        for parked in trouble.returned.into_iter().chain(trouble.waiting) {
            let target = self.target_of(NO_SLOT, &parked);
            let parked = match self.attempt(NO_SLOT, parked, target) {
                Attempt::NotYet(parked, at) => {
                    soonest = Some(soonest.map_or(at, |soonest| soonest.min(at)));
                    parked
                }
                Attempt::Later(parked, n) => {
                    dial = Some(n);
                    parked
                }
                Attempt::Sent(_) | Attempt::Failed => continue,
            };
            self.troubles.entry(NO_SLOT).or_default().waiting.push_back(parked);
        }
        if let Some(trouble) = self.troubles.get_mut(&NO_SLOT) {
            trouble.dial = dial;
        }
        let wait = if dial.is_some() { Wait::Dial } else { Wait::Nothing };
        soonest.map_or(wait, Wait::Until)
    }

    fn target_of(&mut self, slot: u16, parked: &Parked) -> (u16, bool) {
        match parked.target {
            Some(target) => target,
            None if slot == NO_SLOT => (self.any_node(), false),
            None => (self.slots[usize::from(slot)], false),
        }
    }

    /// Sends a command that waits, if it is time.
    fn attempt(&mut self, slot: u16, mut parked: Parked, (n, asking): (u16, bool)) -> Attempt {
        let now = Instant::now();
        let since = self.moved.get(&parked.ticket).map_or(now, |moved| moved.since);
        if self.timeout().is_some_and(|limit| now.saturating_duration_since(since) >= limit) {
            let cause = parked.cause.map_or(Error::Timeout, unsent);
            return self.give_up(parked.ticket, cause);
        }
        if let Some(at) = parked.not_before
            && at > now
        {
            return Attempt::NotYet(parked, at);
        }
        if n == NOWHERE {
            self.stale = true;
            parked.cause.get_or_insert(NO_OWNER);
            return Attempt::NotYet(parked, now + NOBODY);
        }
        let reach = self.connect(n);
        if let Ok(Reach::Later) = reach {
            return Attempt::Later(parked, n);
        }
        if let Err(error) = reach {
            if parked.flags & flag::FIXED != 0 || (is_hopeless(&error) && self.config.base.credentials.is_none()) {
                return self.give_up(parked.ticket, unsent(error));
            }
            parked.cause = Some(error);
            // Who told of this node may be told better.
            parked.target = None;
            let at = self.nodes[usize::from(n)].not_before.unwrap_or(now).max(now + NOBODY / 4);
            return Attempt::NotYet(parked, at);
        }
        match self.send(n, slot, &parked, asking) {
            Ok(place) => {
                self.parked -= 1;
                if let Some(moved) = self.moved.get_mut(&parked.ticket) {
                    moved.at = At::Sent(n, place);
                    (moved.last, moved.number) = (n, self.nodes[usize::from(n)].number);
                }
                Attempt::Sent(n)
            }
            Err(error) if error.is_connection_lost() => {
                self.bury(n);
                if parked.flags & flag::FIXED != 0 {
                    return self.give_up(parked.ticket, error);
                }
                parked.cause = Some(error);
                parked.target = None;
                Attempt::NotYet(parked, now)
            }
            Err(error) => self.give_up(parked.ticket, error),
        }
    }

    fn give_up(&mut self, ticket: u64, error: Error) -> Attempt {
        self.parked -= 1;
        self.finish(ticket, Err(error));
        Attempt::Failed
    }

    /// Takes a command out of those that wait, if it is among them: it has not run, and why is returned.
    pub(super) fn withdraw(&mut self, ticket: u64, slot: u16) -> Option<Error> {
        let trouble = self.troubles.get_mut(&slot)?;
        // What it stands behind is in its way as well.
        let first = trouble.returned.front().or(trouble.waiting.front()).and_then(|parked| parked.cause.clone());
        let cause = [&mut trouble.returned, &mut trouble.waiting].into_iter().find_map(|queue| {
            let at = queue.iter().position(|parked| parked.ticket == ticket)?;
            Some(queue.remove(at)?.cause)
        })?;
        self.parked -= 1;
        self.moved.remove(&ticket);
        Some(cause.or(first).unwrap_or(Error::Timeout))
    }

    /// Sends a command that waits, and returns its place over all connections to the node.
    fn send(&mut self, n: u16, slot: u16, parked: &Parked, asking: bool) -> Result<u64> {
        let node = &mut self.nodes[usize::from(n)];
        let Some(conn) = &mut node.conn else { return Err(NO_OWNER) };
        let part = |flags| Entry { origin: parked.ticket, len: 0, slot, flags: flag::PART | flags };
        if asking {
            let place = conn.send(ASKING, None)?;
            node.sent(place, part(flag::ASKING), &[]);
        }
        let entry = Entry { origin: parked.ticket, len: parked.bytes.len() as u32, slot, flags: parked.flags };
        let Some(conn) = &mut node.conn else { return Err(NO_OWNER) };
        let place = if parked.flags & flag::BLOCK == 0 {
            let block = match Encoded::effect_of(&parked.bytes) {
                Effect::Blocking(block) => Some(block),
                _ => None,
            };
            let place = conn.send(&parked.bytes, block)?;
            node.sent(place, entry, &parked.bytes)
        } else {
            let whole = [MULTI, &parked.bytes, EXEC].concat();
            let first = conn.send_all(&whole, u64::from(parked.size) + 2)?;
            node.sent(first, part(flag::MULTI), &[]);
            for index in 1..=u64::from(parked.size) {
                node.sent(first + index, part(0), &[]);
            }
            node.sent(first + 1 + u64::from(parked.size), entry, &parked.bytes)
        };
        self.outstanding[usize::from(slot)] += 1;
        Ok(place)
    }

    /// Issues a transaction.
    pub(super) fn issue_block(&mut self, slot: u16, bytes: Vec<u8>, size: u32) -> u64 {
        if let Err(error) = self.make_room() {
            return self.born_failed(error);
        }
        if u32::try_from(bytes.len()).is_err() {
            return self.born_failed(TOO_LONG);
        }
        let n = self.slots[usize::from(slot)];
        if n != NOWHERE && !self.troubles.contains_key(&slot) {
            // Whatever else it is, the transaction meets with it when it is sent.
            if let Err(Error::Timeout) = self.drain(n) {
                return self.born_failed(Error::Timeout);
            }
        }
        // Also when nothing is in its way: so there is one way to send it.
        let alone = !self.troubles.contains_key(&slot);
        let ticket = self.park(slot, bytes, flag::BLOCK, size, None, None);
        if alone {
            self.pump_new(slot);
        } else {
            self.pump(slot);
        }
        ticket
    }

    /// Sends the command that was just parked alone in its slot: it may go behind what is outstanding, which is with the
    /// same node.
    fn pump_new(&mut self, slot: u16) {
        let Some(mut trouble) = self.troubles.remove(&slot) else { return };
        if let Some(parked) = trouble.waiting.pop_front() {
            let target = self.target_of(slot, &parked);
            if let Attempt::NotYet(parked, _) | Attempt::Later(parked, _) = self.attempt(slot, parked, target) {
                self.troubles.entry(slot).or_default().waiting.push_front(parked);
                if self.shared {
                    // For what it waits is to be known.
                    self.pump(slot);
                }
            }
        }
    }
}
