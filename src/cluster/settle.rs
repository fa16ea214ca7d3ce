//! Each reply goes where it belongs, and a command that did not run goes on its way again.

use std::time::{Duration, Instant};

use super::core::{At, Core, Moved, NO_SLOT, Parked};
use super::events;
use super::node::{Entry, ITSELF, flag};
use super::redirect::Redirect;
use super::ticket::sent;
use crate::connection::{Arrival, Deadline, Stored};
use crate::error::{Error, Result, Sent, ServerError, WaitError};
use crate::resp::{Frame, encode};

/// How often a command that may run more than once is sent again although it may have run.
const RESENDS: u8 = 3;

/// So many redirects are followed without a pause.
const SWIFT_HOPS: u8 = 3;

/// The longest pause before a command is tried again.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// What a reply has come to.
enum Got {
    /// For the handle.
    Reply(Stored),
    /// Nobody asks for it.
    Skipped(Option<ServerError>),
    /// It did not run.
    Redirect(Redirect, ServerError),
    /// To a part of a transaction, or to ASKING.
    Part(Option<ServerError>),
    /// To EXEC, which failed.
    NotExecuted(ServerError),
}

impl Core {
    /// Waits for the reply that comes next from a node, and puts it where it belongs. When the deadline passes, everything is
    /// as good as before.
    pub(super) fn settle_next(&mut self, n: u16, deadline: &mut Deadline) -> Result<(), WaitError<()>> {
        let node = &mut self.nodes[usize::from(n)];
        let Some(entry) = node.entries.front().copied() else { return Ok(()) };
        let place = node.on_conn(node.read);
        let Some(conn) = &mut node.conn else { return Ok(()) };
        match conn.arrival(place, deadline) {
            Ok(arrival) => {
                self.arrived(n, entry, arrival);
                Ok(())
            }
            Err(WaitError::Timeout(())) => Err(WaitError::Timeout(())),
            Err(WaitError::Failed(error)) => {
                self.lost(n, entry, error);
                Ok(())
            }
        }
    }

    /// Puts replies that are at hand and nothing out of the ordinary where they belong, up to this place. Says whether there
    /// were any.
    pub(super) fn settle_run(&mut self, n: u16, last: u64) -> bool {
        let mut any = false;
        let node = &mut self.nodes[usize::from(n)];
        while node.read <= last
            && let Some(entry) = node.entries.front().copied()
            && entry.origin == ITSELF
            && entry.flags & (flag::PART | flag::BLOCK) == 0
        {
            let (place, on_conn) = (node.read, node.on_conn(node.read));
            let (Some(conn), store) = (&mut node.conn, &mut node.store) else { break };
            let live = entry.flags & flag::DETACHED == 0;
            if !conn.take_bytes(on_conn, |bytes| {
                if live {
                    store.put(place, bytes)
                }
            }) {
                break;
            }
            node.advance(entry.len);
            node.silent = false;
            any = true;
            let outstanding = &mut self.outstanding[usize::from(entry.slot)];
            *outstanding -= 1;
            if *outstanding == 0 && !self.troubles.is_empty() {
                self.ready.push(entry.slot);
            }
        }
        any
    }

    /// Puts everything that is at hand of a node where it belongs, without waiting. Says whether there was anything.
    pub(super) fn settle_at_hand(&mut self, n: u16) -> bool {
        let mut any = false;
        loop {
            any |= self.settle_run(n, u64::MAX);
            let node = &mut self.nodes[usize::from(n)];
            let Some(entry) = node.entries.front().copied() else { return any };
            let place = node.on_conn(node.read);
            let Some(conn) = &mut node.conn else { return any };
            match conn.arrival_at_hand(place) {
                None => return any,
                Some(Ok(arrival)) => self.arrived(n, entry, arrival),
                Some(Err(error)) => self.lost(n, entry, error),
            }
            any = true;
        }
    }

    fn arrived(&mut self, n: u16, entry: Entry, arrival: Arrival) {
        let live = match entry.origin {
            ITSELF => entry.flags & flag::DETACHED == 0,
            origin => self.moved.get(&origin).is_some_and(|moved| moved.live),
        };
        let node = &mut self.nodes[usize::from(n)];
        node.silent = false;
        let Some(conn) = &mut node.conn else { return };
        let mut elements = None;
        let got = conn.look(&arrival, |frame, bytes| {
            if let Some(Frame::Array(all)) = &frame {
                elements = Some(all.len());
            }
            got(entry, live, frame.as_ref(), bytes)
        });
        conn.pass(arrival);
        if entry.flags & flag::BLOCK != 0
            && let Some(elements) = elements
            && !node.block.is_answered_by(elements)
        {
            conn.out_of_step();
        }
        let got = match got {
            Got::Redirect(Redirect::Later, error) if !self.has_not_run(n, entry, &error) => match live {
                true => Got::Reply(Stored::from_slice(&[b"-", error.message(), b"\r\n"].concat())),
                false => Got::Skipped(Some(error)),
            },
            got => got,
        };
        match got {
            Got::Part(error) => self.part(n, entry, error),
            Got::Redirect(redirect, error) => {
                let (ticket, bytes) = self.leave(n, entry, live);
                self.go_on(n, entry, ticket, bytes, redirect, error);
            }
            Got::NotExecuted(error) => self.not_executed(n, entry, live, error),
            Got::Reply(frame) => {
                let place = self.pass(n, entry);
                if entry.flags & flag::BLOCK != 0 {
                    let block = std::mem::take(&mut self.nodes[usize::from(n)].block);
                    self.note_refused(entry.origin, block.refused);
                    if let Some(error) = block.multi {
                        // Whatever EXEC says, there was no transaction.
                        return self.finish(entry.origin, Err(error.into()));
                    }
                }
                match entry.origin {
                    ITSELF => self.nodes[usize::from(n)].store.put(place, &frame),
                    origin => self.finish(origin, Ok(frame)),
                }
            }
            Got::Skipped(error) => {
                self.pass(n, entry);
                if entry.origin != ITSELF {
                    self.moved.remove(&entry.origin);
                }
                if let Some(error) = error {
                    self.unseen(error.into());
                }
            }
        }
    }

    /// Whether an error that asks for another try is the server's. A script may end with such a word too, and has run then.
    fn has_not_run(&self, n: u16, entry: Entry, error: &ServerError) -> bool {
        if Redirect::is_servers_own(error) {
            return true;
        }
        let bytes = self.nodes[usize::from(n)].front_bytes(entry.len);
        let name = encode::arguments(&bytes).next().unwrap_or_default().to_ascii_uppercase();
        !matches!(&*name, b"EVAL" | b"EVALSHA" | b"FCALL")
    }

    /// Moves on behind the reply that comes next, which is the last of its command. Returns its place.
    fn pass(&mut self, n: u16, entry: Entry) -> u64 {
        let node = &mut self.nodes[usize::from(n)];
        let place = node.read;
        node.advance(entry.len);
        self.answered(entry.slot);
        place
    }

    /// Moves on behind the reply to a ticket that is taken elsewhere.
    pub(super) fn passed(&mut self, n: u16, entry: Entry, ticket: u64) {
        self.pass(n, entry);
        self.moved.remove(&ticket);
    }

    /// One less is outstanding for a slot.
    #[inline(always)]
    pub(super) fn answered(&mut self, slot: u16) {
        let outstanding = &mut self.outstanding[usize::from(slot)];
        *outstanding -= 1;
        if *outstanding == 0 && !self.troubles.is_empty() {
            self.ready.push(slot);
        }
    }

    /// The same for a command that goes on elsewhere: its ticket, and its bytes.
    fn leave(&mut self, n: u16, entry: Entry, live: bool) -> (u64, Vec<u8>) {
        let bytes = self.nodes[usize::from(n)].front_bytes(entry.len);
        let place = self.pass(n, entry);
        let ticket = match entry.origin {
            ITSELF => sent(n, place),
            origin => origin,
        };
        self.moved.entry(ticket).or_insert_with(|| Moved::new(live));
        (ticket, bytes)
    }

    /// A reply inside a transaction.
    fn part(&mut self, n: u16, entry: Entry, error: Option<ServerError>) {
        let node = &mut self.nodes[usize::from(n)];
        node.advance(entry.len);
        let block = &mut node.block;
        if entry.flags & flag::MULTI != 0 {
            *block = Default::default();
            block.multi = error;
        } else if entry.flags & flag::ASKING == 0 {
            if let Some(error) = error {
                block.refused.push((block.index, error));
            }
            block.index += 1;
        }
    }

    /// EXEC has failed, and so nothing of the transaction has run, unless MULTI was refused.
    fn not_executed(&mut self, n: u16, entry: Entry, live: bool, error: ServerError) {
        let block = std::mem::take(&mut self.nodes[usize::from(n)].block);
        if let Some(error) = block.multi {
            let (ticket, _) = self.leave(n, entry, live);
            return self.finish(ticket, Err(error.into()));
        }
        let causes = block.refused.iter().map(|(_, error)| error).chain([&error]);
        let redirect =
            causes.filter_map(|error| Some((Redirect::of_error(error, Some(entry.slot))?, error.clone()))).next();
        let (ticket, bytes) = self.leave(n, entry, live);
        match redirect {
            Some((redirect, error)) => self.go_on(n, entry, ticket, bytes, redirect, error),
            None => {
                self.note_refused(ticket, block.refused);
                self.finish(ticket, Err(error.into()));
            }
        }
    }

    /// Keeps the outcome of a command that is not where its ticket says.
    pub(super) fn finish(&mut self, ticket: u64, outcome: Result<Stored>) {
        match self.moved.get_mut(&ticket) {
            Some(moved) if moved.live => {
                moved.at = match outcome {
                    Ok(frame) => At::Done(frame),
                    Err(error) => At::Failed(error),
                };
            }
            Some(_) => {
                self.moved.remove(&ticket);
                match outcome {
                    Ok(frame) => self.check(&frame),
                    Err(error) => self.unseen(error),
                }
            }
            None => {}
        }
    }

    /// Follows a redirect: the command is put with those of its slot that came back.
    fn go_on(&mut self, n: u16, entry: Entry, ticket: u64, bytes: Vec<u8>, redirect: Redirect, error: ServerError) {
        self.redirected += 1;
        let most = self.config.redirects;
        let limit = self.timeout();
        let Some(moved) = self.moved.get_mut(&ticket) else { return };
        moved.tries += 1;
        let follows = matches!(redirect, Redirect::Moved(_) | Redirect::Ask(_));
        moved.hops += u8::from(follows);
        let expired = limit.is_some_and(|limit| moved.since.elapsed() >= limit);
        let pause = match moved.hops.checked_sub(SWIFT_HOPS) {
            _ if !follows => pause(moved.tries),
            Some(more @ 1..) => pause(u32::from(more)),
            _ => Duration::ZERO,
        };
        // What was fed from a reader is not there any more.
        if moved.hops > most || expired || bytes.is_empty() {
            self.stale |= follows;
            return self.finish(ticket, Err(error.into()));
        }
        let from = self.nodes[usize::from(n)].address.clone();
        self.tell({
            let (from, redirect) = (from.clone(), redirect.clone());
            move || events::redirected(&from, entry.slot, &redirect)
        });
        let fixed = (entry.flags & flag::FIXED != 0).then_some((n, false));
        let target = match redirect {
            Redirect::Moved(to) => {
                self.stale = true;
                let to = self.node_at(&to.or_host_of(&from));
                if let Some(to) = to
                    && entry.slot != NO_SLOT
                    && entry.flags & flag::READ == 0
                {
                    self.set_owner(entry.slot, to);
                }
                to.map(|to| (to, false))
            }
            Redirect::Ask(to) => self.node_at(&to.or_host_of(&from)).map(|to| (to, true)),
            Redirect::Later | Redirect::Demoted => {
                self.stale = true;
                let primary = self.slots[usize::from(entry.slot)];
                // A replica that cannot answer need not.
                (entry.flags & flag::READ != 0 && primary != n).then_some((primary, false))
            }
        };
        let not_before = (!pause.is_zero()).then(|| Instant::now() + pause);
        let cause = Some(error.into());
        let (flags, target) = (entry.flags, fixed.or(target));
        self.come_back(
            entry.slot,
            Parked { ticket, bytes, flags, size: 0, target, not_before, probes: !follows, cause },
        );
    }

    /// Puts a command with those of its slot that came back.
    fn come_back(&mut self, slot: u16, mut parked: Parked) {
        if let Some(moved) = self.moved.get_mut(&parked.ticket) {
            moved.at = At::Parked(slot);
        }
        if parked.flags & flag::BLOCK != 0 {
            parked.size = commands_in(&parked.bytes);
        }
        self.parked += 1;
        self.troubles.entry(slot).or_default().returned.push_back(parked);
        if self.outstanding[usize::from(slot)] == 0 {
            self.ready.push(slot);
        }
    }

    /// The connection broke before the reply came.
    fn lost(&mut self, n: u16, entry: Entry, error: Error) {
        if entry.flags & flag::PART != 0 {
            self.nodes[usize::from(n)].advance(entry.len);
            return;
        }
        self.stale = true;
        let live = match entry.origin {
            ITSELF => entry.flags & flag::DETACHED == 0,
            origin => self.moved.get(&origin).is_some_and(|moved| moved.live),
        };
        let (ticket, bytes) = self.leave(n, entry, live);
        let unsent = matches!(&error, Error::ConnectionLost(lost) if lost.sent() == Sent::Unsent);
        // What only reads does no harm.
        let again = entry.flags & (flag::IDEMPOTENT | flag::READ) != 0 && entry.flags & flag::BLOCK == 0;
        let Some(moved) = self.moved.get_mut(&ticket) else { return };
        moved.tries += 1;
        // The first time at once: a node that was restarted is there again.
        let not_before = (moved.tries > 1).then(|| Instant::now() + pause(moved.tries));
        if !unsent {
            moved.resends += 1;
        }
        if entry.flags & flag::FIXED != 0 || !(unsent || (again && moved.resends <= RESENDS)) {
            return self.finish(ticket, Err(error));
        }
        let (flags, cause) = (entry.flags, Some(error));
        let parked = Parked { ticket, bytes, flags, size: 0, target: None, not_before, probes: false, cause };
        self.come_back(entry.slot, parked);
    }

    /// Takes leave of a connection that is broken: what has come is settled, and the rest is lost or goes on elsewhere.
    pub(super) fn bury(&mut self, n: u16) {
        let mut deadline = Deadline::new(Some(Duration::ZERO));
        while !self.nodes[usize::from(n)].entries.is_empty() {
            let waited = self.settle_next(n, &mut deadline);
            let Some(conn) = &mut self.nodes[usize::from(n)].conn else { break };
            if waited.is_err() {
                // From here on nothing is waited for.
                conn.break_off(Error::Timeout);
            }
        }
        self.breaks += 1;
        if let Some(mut conn) = self.nodes[usize::from(n)].conn.take() {
            self.aside.extend(conn.take_aside());
        }
    }
}

/// How many commands are encoded here.
fn commands_in(bytes: &[u8]) -> u32 {
    let (mut count, mut pos) = (0, 0);
    while pos < bytes.len()
        && let Some(end) = encode::command_end(bytes, pos)
    {
        (count, pos) = (count + 1, end);
    }
    count
}

/// What a reply is to the command that it answers.
fn got(entry: Entry, live: bool, frame: Option<&Frame<'_>>, bytes: &[u8]) -> Got {
    let error = match frame {
        Some(Frame::Error(message)) => Some(*message),
        _ => None,
    };
    if entry.flags & flag::PART != 0 {
        return Got::Part(error.map(ServerError::new));
    }
    if let Some(message) = error {
        if entry.flags & flag::BLOCK != 0 {
            return Got::NotExecuted(ServerError::new(message));
        }
        let slot = (entry.slot != NO_SLOT).then_some(entry.slot);
        if let Some(redirect) = Redirect::of(message, slot) {
            return Got::Redirect(redirect, ServerError::new(message));
        }
    }
    if live {
        return Got::Reply(Stored::from_slice(bytes));
    }
    // Of a transaction that nobody asks about, the first command that failed.
    let elements = frame.and_then(Frame::as_elements).filter(|_| entry.flags & flag::BLOCK != 0);
    let inside = elements.and_then(|mut elements| {
        elements.find_map(|element| if let Frame::Error(message) = element { Some(message) } else { None })
    });
    Got::Skipped(error.or(inside).map(ServerError::new))
}

/// How long to wait before so many-th try: doubled each time, and shortened at random by up to half.
pub(super) fn pause(tries: u32) -> Duration {
    let longest = Duration::from_millis(1).saturating_mul(1 << tries.min(8)).min(LONGEST_PAUSE);
    longest.mul_f64(fastrand::f64().mul_add(0.5, 0.5))
}
