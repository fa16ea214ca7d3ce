//! The books of a cluster that threads share, under their lock: nothing here blocks.

use std::sync;
use std::time::Instant;

use super::super::core::{Core, Trouble, Where};
use super::super::node::Node;
use super::super::spread::Spread;
use super::super::ticket::{Ticket, sent};
use crate::connection::{Connection, Stored, Waker};
use crate::error::{Error, Result};
use crate::shared::turn::Wire as _;

// What is waited for, beyond tickets, which never have these numbers.

/// A look at the topology, if it has proved wrong.
pub(super) const FRESH: u64 = u64::MAX;
/// Whatever happens.
pub(super) const ANYTHING: u64 = u64::MAX - 1;

/// What a thread that waits is brought: a reply, or the parts of one, which it puts together without the lock.
pub(super) enum Brought {
    Reply(Stored),
    Parts(Spread),
}

impl Brought {
    pub(super) fn whole(self) -> Result<Stored> {
        match self {
            Brought::Reply(frame) => Ok(frame),
            Brought::Parts(parts) => parts.put_together(),
        }
    }
}

pub(super) type Outcome = Result<Brought>;

pub(super) struct Books {
    pub(super) core: Core,
    pub(super) waker: sync::Arc<Waker>,
    pub(super) watch: Option<Watch>,
    /// How often something may have come about for those who sit, and what this was when they were served the last time.
    pub(super) events: u64,
    pub(super) served: u64,
}

/// What the thread that waits for the sockets waits for.
pub(super) struct Watch {
    pub(super) until: Option<Instant>,
    /// How many connections there had been.
    pub(super) connected: u64,
    /// For room to write at these nodes as well.
    pub(super) writing: Vec<u16>,
}

impl Books {
    pub(super) fn new(core: Core, waker: Waker) -> Self {
        let mut books = Books { core, waker: sync::Arc::new(waker), watch: None, events: 0, served: 0 };
        books.share(true);
        books
    }

    /// The books, for what does not block.
    pub(super) fn core(&mut self) -> &mut Core {
        &mut self.core
    }

    fn share(&mut self, shared: bool) {
        self.core.shared = shared;
        for conn in self.core.nodes.iter_mut().filter_map(|node| node.conn.as_mut()) {
            conn.share(shared);
        }
    }

    /// Something may have come about for those who sit, or for the thread that waits for the sockets.
    pub(super) fn event(&mut self) {
        self.events += 1;
        if self.watch.is_some() {
            self.waker.wake();
        }
    }

    /// Does what a change of the books asks for, and lets the thread know that waits for the sockets, if it does not wait for the
    /// right ones any more, or for too long. Says whether there was anything to do.
    pub(super) fn settle_books(&mut self) -> bool {
        let any = !self.core.ready.is_empty() || self.core.due.is_some_and(|due| due <= Instant::now());
        if any {
            self.core.service();
            self.event();
        }
        if let Some(watch) = &self.watch
            && (watch.connected != self.core.connected
                || (self.core.stale || !self.core.troubles.is_empty())
                    && self.next_due().is_some_and(|due| watch.until.is_none_or(|until| due < until)))
        {
            self.waker.wake();
        }
        any
    }

    /// Where a command is that is waited for.
    pub(super) fn locate(&self, at: u64) -> Where {
        if at == FRESH || at == ANYTHING { Where::Here } else { self.core.locate(at) }
    }

    /// Issues what there is room for.
    pub(super) fn issue(&mut self, issue: impl FnOnce(&mut Core) -> u64) -> u64 {
        let (in_trouble, breaks) = (!self.core.troubles.is_empty(), self.core.breaks);
        let ticket = issue(&mut self.core);
        if in_trouble || !self.core.troubles.is_empty() || self.core.breaks != breaks {
            self.event();
            self.settle_books();
        }
        ticket
    }

    // Looking.

    /// The outcome of a handle, or for what it waits.
    pub(super) fn look_for_reply(&mut self, ticket: u64) -> Result<Outcome, u64> {
        match Ticket::of(ticket) {
            Ticket::Spread(id) => match self.core.gather(id) {
                Ok(Some(part)) => Err(part),
                Ok(None) => Ok(self.core.gathered(id).map(Brought::Parts)),
                Err(error) => Ok(Err(error)),
            },
            Ticket::Member(id, index) => match self.core.commit_of(id) {
                Some(exec) if self.core.locate(exec) != Where::Here => Err(exec),
                _ => Ok(self.core.take_member(id, index).map(Brought::Reply)),
            },
            Ticket::Batched(id, index) => {
                let outcome = self.look_for_reply(self.core.ticket_in_batch(id, index))?;
                self.core.taken_in_batch(id, index);
                Ok(outcome)
            }
            Ticket::Sent(..) | Ticket::Other if self.core.locate(ticket) != Where::Here => Err(ticket),
            Ticket::Sent(..) | Ticket::Other => Ok(self.core.take(ticket).map(Brought::Reply)),
        }
    }

    /// For what a command waits that is to be written.
    pub(super) fn lacks_writing(&mut self, ticket: u64) -> Option<u64> {
        match self.core.locate(ticket) {
            Where::Here => None,
            Where::Sent(..) => self.is_unwritten(ticket).then_some(ticket),
            // It has not been possible to send it yet, or it is behind another one.
            Where::Parked(slot) => {
                self.core.troubles.get(&slot).is_some_and(|it| it.dial.is_some()).then_some(ANYTHING)
            }
        }
    }

    /// What is to be settled before there is room for one more command at this node.
    pub(super) fn lacks_room(&mut self, n: u16) -> Option<u64> {
        let config = &self.core.config.base;
        if self.core.parked >= config.max_outstanding {
            let oldest =
                |trouble: &Trouble| trouble.returned.front().or(trouble.waiting.front()).map(|parked| parked.ticket);
            return self.core.troubles.values().find_map(oldest);
        }
        let node = self.core.nodes.get_mut(usize::from(n))?;
        let count = node.entries.len();
        if let Some(place) = node.conn.as_mut().and_then(Connection::clogged_at) {
            return Some(sent(n, node.over_all(place).max(node.read)));
        }
        let full = count >= config.max_outstanding || node.kept_bytes() >= config.max_outstanding_bytes;
        // Down to half, so that this is not paid for at every command.
        (full && count > 0).then(|| sent(n, node.read + (count as u64 - 1) / 2))
    }

    /// Whether there is room for a command at every node.
    #[inline]
    pub(super) fn is_roomy(&mut self) -> bool {
        let config = &self.core.config.base;
        self.core.parked < config.max_outstanding
            && self.core.nodes.iter_mut().all(|node| {
                node.entries.len() < config.max_outstanding
                    && node.kept_bytes() < config.max_outstanding_bytes
                    && node.conn.as_mut().is_none_or(|conn| conn.clogged_at().is_none())
            })
    }

    /// The first of these nodes that there is no room at.
    pub(super) fn without_room(&mut self, nodes: impl Fn(&mut Core) -> Vec<u16>) -> Option<u16> {
        nodes(&mut self.core).into_iter().find(|n| self.lacks_room(*n).is_some())
    }

    /// Whether a command can be issued without another thought, also one that goes to all nodes.
    #[inline]
    pub(super) fn is_at_ease(&mut self) -> bool {
        !self.core.stale && self.is_roomy() && !self.core.has_strangers()
    }

    // Handles.

    /// Whether a wait for this ticket would not block.
    pub(super) fn is_here(&mut self, ticket: u64) -> bool {
        self.core.awaited(ticket).is_none()
    }

    /// A wait has ended without a reply, after as long as the configuration allows: the ticket is given up. Why its command has
    /// not run, if that is known.
    pub(super) fn expire(&mut self, ticket: u64) -> Error {
        if let Some(at) = self.core.awaited(ticket) {
            self.note_silent(at);
        }
        self.core.expire(ticket)
    }

    /// The node of a command has not answered within the time.
    pub(super) fn note_silent(&mut self, at: u64) {
        if let Where::Sent(n, _) = self.locate(at) {
            self.core.nodes[usize::from(n)].silent = true;
            self.core.stale = true;
        }
    }

    /// What the drop of a handle may wait for.
    pub(super) fn may_wait_in_drop(&mut self, ticket: u64) -> Option<u64> {
        if std::thread::panicking() {
            return None;
        }
        let at = self.core.awaited(ticket)?;
        self.core.may_wait_in_drop(at).then_some(at)
    }

    /// What has been issued so far.
    pub(super) fn issued(&self) -> Issued {
        let ends = self.core.nodes.iter().map(|node| node.read + node.entries.len() as u64);
        Issued { ends: ends.collect(), others: self.core.others }
    }

    /// The ticket of something that was issued by then and is not settled.
    pub(super) fn unsettled(&self, issued: &Issued) -> Option<u64> {
        let open = |(n, (node, end)): (usize, (&Node, &u64))| {
            let last = (node.read + node.entries.len() as u64).min(*end);
            (node.read < last).then(|| sent(n as u16, last - 1))
        };
        let nodes = self.core.nodes.iter().zip(&issued.ends).enumerate();
        nodes.filter_map(open).next().or_else(|| {
            let is_before = |ticket: u64| match Ticket::of(ticket) {
                Ticket::Sent(n, place) => issued.ends.get(usize::from(n)).is_some_and(|end| place < *end),
                _ => ticket & (u64::MAX >> 2) <= issued.others,
            };
            let open = |ticket: &u64| is_before(*ticket) && self.core.locate(*ticket) != Where::Here;
            // Of those that are left the last, since the others may be settled by then.
            self.core.moved.keys().copied().filter(open).max()
        })
    }

    /// The tickets of everything that has yet to be written, or waits for a connection.
    pub(super) fn all_unwritten(&mut self) -> Vec<u64> {
        let ends = self.issued().ends;
        let last = ends.iter().enumerate().filter(|(_, end)| **end > 0).map(|(n, end)| sent(n as u16, end - 1));
        let parked = self.core.troubles.values().filter(|trouble| trouble.dial.is_some());
        let parked = parked.flat_map(|trouble| trouble.returned.iter().chain(&trouble.waiting)).map(|it| it.ticket);
        last.chain(parked).collect()
    }
}

/// Everything that was issued by some time.
pub(super) struct Issued {
    /// The place behind the last one of each node.
    ends: Vec<u64>,
    others: u64,
}

impl Drop for Books {
    fn drop(&mut self) {
        // There is nobody to share it with any more.
        self.share(false);
        self.core.end();
        std::mem::take(&mut self.core.aside).into_iter().for_each(|run| run());
    }
}
