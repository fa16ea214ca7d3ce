//! Waiting for a reply, wherever its command goes meanwhile.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use super::core::{Core, Where};
use super::events;
use super::node::Node;
use super::pump::Wait;
use super::ticket::Ticket;
use crate::connection::{Deadline, GONE, Stored};
use crate::error::{Error, Result, WaitError};
use crate::values::FromReply;

/// For so long a node may send nothing before others are asked whether it still has its slots.
pub(super) const DOUBT: Duration = Duration::from_secs(1);

/// One deadline for a whole wait.
pub(super) struct Time {
    since: Option<Instant>,
    /// The caller's own time, whatever the configuration says.
    own: Option<Duration>,
    /// Everything that was gathered for any node has been sent.
    pushed: bool,
}

impl Time {
    /// As the configuration has it.
    pub(super) fn usual() -> Self {
        Time { since: None, own: None, pushed: false }
    }

    pub(super) fn at_most(time: Duration) -> Self {
        Time { own: Some(time), ..Time::usual() }
    }

    /// When it is over. `None` is never.
    fn until(&mut self, allowance: Option<Duration>) -> Option<Instant> {
        let time = self.own.or(allowance)?;
        self.since.get_or_insert_with(Instant::now).checked_add(time)
    }

    /// What is left of the time, where the configuration allows `allowance`. `None` is for ever.
    fn left(&mut self, allowance: Option<Duration>) -> Result<Option<Duration>, WaitError<()>> {
        let Some(time) = self.own.or(allowance) else { return Ok(None) };
        match self.since {
            None => {
                self.since = Some(Instant::now());
                Ok(Some(time))
            }
            Some(since) => match time.checked_sub(since.elapsed()) {
                Some(left) if !left.is_zero() => Ok(Some(left)),
                _ => Err(WaitError::Timeout(())),
            },
        }
    }
}

impl Core {
    /// Takes the reply of a ticket if it is the next one of its node, at hand, and nothing out of the ordinary.
    #[inline(always)]
    pub(super) fn take_at_hand<T: FromReply>(&mut self, ticket: u64) -> Option<Result<T>> {
        let Ticket::Sent(n, place) = Ticket::of(ticket) else { return None };
        let node = self.nodes.get_mut(usize::from(n))?;
        if node.read != place || node.silent || !self.troubles.is_empty() {
            return None;
        }
        let entry = *node.entries.front()?;
        let outstanding = &mut self.outstanding[usize::from(entry.slot)];
        let on_conn = node.on_conn(place);
        let Node { conn, entries, kept, read, .. } = node;
        let frame = conn.as_mut()?.take_scalar(on_conn)?;
        // All that user code can see is moved on before it runs.
        entries.pop_front();
        kept.drop_front(entry.len as usize);
        *read += 1;
        *outstanding -= 1;
        Some(T::from_reply(frame))
    }

    /// Waits for the reply of a ticket and takes it. When the time is over, the ticket is as good as before.
    pub(super) fn wait_frame(&mut self, ticket: u64, time: &mut Time) -> Result<Stored, WaitError<()>> {
        match Ticket::of(ticket) {
            Ticket::Spread(id) => return self.wait_spread(id, time),
            Ticket::Member(id, index) => return self.wait_member(id, index, time),
            Ticket::Batched(id, index) => return self.wait_batched(id, index, time),
            _ => {}
        }
        self.arrive(ticket, time)?;
        Ok(self.take(ticket)?)
    }

    /// Waits until the outcome of a ticket is known.
    pub(super) fn arrive(&mut self, ticket: u64, time: &mut Time) -> Result<(), WaitError<()>> {
        loop {
            match self.locate(ticket) {
                Where::Here => return Ok(()),
                Where::Sent(n, place) => self.read_from(n, place, time)?,
                Where::Parked(slot) => self.wait_for_slot(slot, time)?,
            }
        }
    }

    /// A wait has ended without a reply: the ticket is given up. Why its command has not run, if that is known.
    pub(super) fn expire(&mut self, ticket: u64) -> Error {
        if let Ticket::Batched(id, index) = Ticket::of(ticket) {
            return self.expire_batched(id, index);
        }
        if !matches!(Ticket::of(ticket), Ticket::Spread(_) | Ticket::Member(..))
            && let Where::Parked(slot) = self.locate(ticket)
            && let Some(cause) = self.withdraw(ticket, slot)
        {
            return cause;
        }
        self.detach(ticket);
        Error::Timeout
    }

    /// Waits for the reply that comes next from a node, on the way to the one of `place`.
    pub(super) fn read_from(&mut self, n: u16, place: u64, time: &mut Time) -> Result<(), WaitError<()>> {
        if self.settle_run(n, place) {
            self.service_within(time);
            return Ok(());
        }
        if !std::mem::replace(&mut time.pushed, true) {
            self.push_out();
        }
        let node = &mut self.nodes[usize::from(n)];
        let place = node.on_conn(place);
        let Some(conn) = &mut node.conn else { return Err(Error::Refused(GONE).into()) };
        let allowance = conn.allowance(place);
        let before = conn.bytes_read();
        let mut left = time.left(allowance)?;
        if self.stale {
            // The reply may be on its way, whatever becomes of the look.
            self.refresh_if_due(left.map(|left| left / 2));
            left = time.left(allowance)?;
        }
        let slice = left.map_or(DOUBT, |left| left.min(DOUBT));
        match self.settle_next(n, &mut Deadline::tentative(slice)) {
            Ok(()) => {
                self.service_within(time);
                Ok(())
            }
            Err(WaitError::Failed(error)) => Err(error.into()),
            Err(WaitError::Timeout(())) => {
                let node = &mut self.nodes[usize::from(n)];
                let Ok(left) = time.left(allowance) else {
                    node.silent |= time.own.is_none();
                    self.stale = true;
                    return Err(WaitError::Timeout(()));
                };
                if node.conn.as_mut().is_some_and(|conn| conn.bytes_read() == before) {
                    self.doubt(n, left);
                }
                Ok(())
            }
        }
    }

    /// A node has been silent for a while. If others say that it has no slots any more, and is no replica that works, nothing is
    /// to be hoped for.
    fn doubt(&mut self, n: u16, left: Option<Duration>) {
        self.stale = true;
        self.refresh_if_due(left);
        self.give_up_if_of_no_use(n);
    }

    /// Gives a node up that does not answer, if others have just said that nothing is to be hoped for.
    pub(super) fn give_up_if_of_no_use(&mut self, n: u16) {
        let is_replica = || self.replicas.values().flatten().any(|replica| *replica == n);
        let reads = self.config.read_from != super::config::ReadFrom::Primary;
        let is_of_use = self.slots.contains(&n) || (reads && is_replica());
        if !self.stale && !is_of_use {
            let node = &mut self.nodes[usize::from(n)];
            let (address, outstanding) = (node.address.clone(), node.entries.len());
            if let Some(conn) = &mut node.conn {
                conn.break_off(io::Error::other("the node does not answer, and another one has its slots").into());
            }
            self.tell(move || events::given_up(&address, outstanding));
            self.bury(n);
            self.service();
        }
    }

    /// Sends what waits, without taking much longer for connections than whoever waits has time for.
    fn service_within(&mut self, time: &mut Time) {
        if !self.troubles.is_empty() {
            self.until = time.until(self.timeout());
        }
        self.service();
        self.until = None;
    }

    /// Waits for what a slot waits for.
    pub(super) fn wait_for_slot(&mut self, slot: u16, time: &mut Time) -> Result<(), WaitError<()>> {
        let allowance = self.timeout();
        if self.stale {
            let left = time.left(allowance)?;
            self.refresh_if_due(left);
        }
        self.until = time.until(allowance);
        let wait = self.pump(slot);
        self.until = None;
        match wait {
            Wait::Nothing | Wait::Dial => Ok(()),
            Wait::Replies => match self.node_with(slot) {
                Some((n, place)) => self.read_from(n, place, time),
                None => Err(Error::Refused(GONE).into()),
            },
            Wait::Until(at) => {
                let left = time.left(allowance)?;
                let pause = at.saturating_duration_since(Instant::now());
                thread::sleep(left.map_or(pause, |left| left.min(pause)));
                Ok(())
            }
        }
    }

    /// A node that has not answered a command of a slot, and the place of that.
    pub(super) fn node_with(&self, slot: u16) -> Option<(u16, u64)> {
        self.nodes.iter().enumerate().find_map(|(n, node)| {
            let ahead = node.entries.iter().position(|entry| entry.slot == slot)?;
            Some((n as u16, node.read + ahead as u64))
        })
    }

    /// Sends what was gathered, as far as sockets take it.
    pub(super) fn push_out(&mut self) {
        for node in &mut self.nodes {
            if let Some(conn) = &mut node.conn {
                conn.push_out();
            }
        }
    }

    /// Sends everything that was gathered.
    pub(super) fn flush(&mut self) -> Result<()> {
        self.service();
        let mut deadline = Deadline::new(self.timeout());
        for n in 0..self.nodes.len() {
            let Some(conn) = &mut self.nodes[n].conn else { continue };
            match conn.flush_within(&mut deadline) {
                Err(Error::Timeout) => return Err(Error::Timeout),
                // What is lost is told to its handles, and what was not sent goes on elsewhere.
                Err(_) => self.bury(n as u16),
                Ok(()) => {}
            }
        }
        self.service();
        Ok(())
    }

    /// Sends everything and reads everything outstanding.
    pub(super) fn settle_all(&mut self, time: &mut Time) -> Result<(), WaitError<()>> {
        loop {
            self.service_within(time);
            if let Some(n) = self.nodes.iter().position(|node| !node.entries.is_empty()) {
                let node = &self.nodes[n];
                let last = node.read + node.entries.len() as u64 - 1;
                self.read_from(n as u16, last, time)?;
            } else if let Some(slot) = self.troubles.keys().next().copied() {
                self.wait_for_slot(slot, time)?;
            } else {
                return Ok(());
            }
        }
    }

    /// Whether a wait for this ticket would not block, found out without blocking, except for connecting.
    pub(super) fn is_ready(&mut self, ticket: u64) -> bool {
        match Ticket::of(ticket) {
            Ticket::Spread(_) => return self.parts_of(ticket).into_iter().all(|part| self.is_ready(part)),
            Ticket::Batched(id, index) => {
                let ticket = self.ticket_in_batch(id, index);
                return self.is_ready(ticket);
            }
            Ticket::Member(id, _) => return self.commit_of(id).is_none_or(|commit| self.is_ready(commit)),
            _ => {}
        }
        self.push_out();
        loop {
            let n = match self.locate(ticket) {
                Where::Here => return true,
                Where::Sent(n, _) => n,
                Where::Parked(slot) => match self.pump(slot) {
                    Wait::Until(_) | Wait::Dial => return false,
                    Wait::Nothing => continue,
                    Wait::Replies => match self.node_with(slot) {
                        Some((n, _)) => n,
                        None => return false,
                    },
                },
            };
            if !self.take_next(n) {
                return false;
            }
            self.service();
        }
    }

    /// Puts the reply that comes next from a node where it belongs, if it is there. Says whether it was.
    fn take_next(&mut self, n: u16) -> bool {
        let node = &mut self.nodes[usize::from(n)];
        let next = node.on_conn(node.read);
        let at_hand = node.conn.as_mut().is_some_and(|conn| conn.poll(next));
        at_hand && self.settle_next(n, &mut Deadline::tentative(DOUBT)).is_ok()
    }

    /// Puts all replies that have come from any node where they belong.
    pub(super) fn take_all(&mut self) {
        for n in 0..self.nodes.len() as u16 {
            while !self.nodes[usize::from(n)].entries.is_empty() && self.take_next(n) {}
        }
        self.service();
    }

    /// What the drop of a live handle does: reads up to and including its reply, unless that could take long.
    pub(super) fn drop_handle(&mut self, ticket: u64) {
        let tickets = match Ticket::of(ticket) {
            _ if thread::panicking() => Vec::new(),
            Ticket::Member(id, super::ticket::COMMIT) => self.commit_of(id).into_iter().collect(),
            Ticket::Member(..) | Ticket::Batched(..) => Vec::new(),
            Ticket::Spread(_) | Ticket::Sent(..) | Ticket::Other => self.parts_of(ticket),
        };
        let mut time = Time::usual();
        for ticket in tickets {
            if self.may_wait_in_drop(ticket) && self.arrive(ticket, &mut time).is_err() {
                break;
            }
        }
        self.detach(ticket);
    }

    pub(super) fn may_wait_in_drop(&mut self, ticket: u64) -> bool {
        let (n, place) = match self.locate(ticket) {
            Where::Here => return true,
            Where::Sent(n, place) => (n, place),
            Where::Parked(slot) => match self.node_with(slot) {
                // Behind what has been sent.
                Some(sent) => sent,
                // A command that has been waiting for its slot's node is not waited for any longer than that.
                None => return true,
            },
        };
        let node = &mut self.nodes[usize::from(n)];
        let place = node.on_conn(place);
        !node.silent && node.conn.as_mut().is_some_and(|conn| !conn.may_block(place))
    }

    /// Makes sure that not too many commands wait for being sent.
    pub(super) fn make_room(&mut self) -> Result<()> {
        self.service();
        let most = self.config.base.max_outstanding;
        if self.shared {
            // There was when somebody looked.
            return Ok(());
        }
        let mut time = Time::usual();
        while self.parked >= most
            && let Some(slot) = self.troubles.keys().next().copied()
        {
            self.wait_for_slot(slot, &mut time)?;
        }
        Ok(())
    }

    /// Reads down to half of what may be outstanding at a node, if it is that much.
    pub(super) fn drain(&mut self, n: u16) -> Result<()> {
        let most = self.config.base.max_outstanding;
        if self.shared || self.nodes[usize::from(n)].entries.len() < most {
            return Ok(());
        }
        let mut time = Time::usual();
        while self.nodes[usize::from(n)].entries.len() > most / 2 {
            let node = &self.nodes[usize::from(n)];
            let goal = node.read + (node.entries.len() - most / 2) as u64 - 1;
            self.read_from(n, goal, &mut time)?;
        }
        self.connect(n).map(drop)
    }
}
