//! What the threads that share a cluster do with its books when it is their turn, and what one of them does without the lock
//! for all.
//!
//! One thread waits for the sockets of all nodes at once. It reads nothing: whoever holds the lock takes in what has come,
//! which does not block. So another thread may do so as well, and a reply is never half with one thread and half with another.
//!
//! Connecting to a node, and looking at the topology, are done by a thread whose command waits for it, while another one waits
//! for the sockets. If there is none, since the handles were given up, whoever is about to wait for the sockets does it, after
//! a moment.

use std::sync;
use std::time::{Duration, Instant};

use super::super::core::Where;
use super::super::dial::Dial;
use super::super::topology::{Look, Looked};
use super::books::{ANYTHING, Books, Brought, FRESH, Outcome, Watch};
use super::duties::STRANGERS;
use crate::connection::{Aside, Connection, Deadline, Stored, Waker, Want, Watched};
use crate::error::Result;
use crate::shared::sync::Arc;
use crate::shared::turn::{self, Errand, Seat, Turn, Wire};

/// How long a thread tries to connect that has no use for it, at most.
const KINDNESS: Duration = Duration::from_secs(1);

/// The shortest wait for the sockets, whatever is due: what could be done has been done before.
const SHORTEST: Duration = Duration::from_millis(1);

/// What one thread does without the lock.
pub(super) enum Outing {
    /// Nothing: there is something to be looked at.
    None,
    /// Waits for all sockets.
    Watch {
        sockets: Vec<Watched>,
        waker: sync::Arc<Waker>,
        time: Option<Duration>,
    },
    /// Waits for room to write.
    Room {
        socket: Watched,
        time: Option<Duration>,
    },
    Dial(Box<Dial>),
    Look(Box<Look>),
}

/// What it comes back with.
pub(super) enum Back {
    None,
    Watched(Vec<Watched>),
    Room(Watched),
    Dialled(Box<Dial>, Box<Result<Connection>>),
    Looked(Box<Looked>),
}

thread_local! {
    /// A thread waits for one thing at a time.
    static SEAT: Arc<Seat<Outcome>> = Seat::new();
}

impl Wire for Books {
    const IN_ORDER: bool = false;

    type Reply = Outcome;
    type Outing = Outing;
    type Back = Back;

    fn seat() -> Arc<Seat<Outcome>> {
        // A thread that is being taken apart has none of its own any more.
        SEAT.try_with(Arc::clone).unwrap_or_else(|_| Seat::new())
    }

    fn look(&mut self, want: Want) -> turn::Look<Outcome> {
        let at = match want {
            Want::Reply(ticket) => match self.look_for_reply(ticket) {
                Ok(outcome) => return turn::Look::Here(outcome),
                Err(at) => Some(at),
            },
            Want::Settled(FRESH) => self.awaits_topology().then_some(FRESH),
            Want::Settled(ticket) => (self.core.locate(ticket) != Where::Here).then_some(ticket),
            Want::Written(ticket) => self.lacks_writing(ticket),
            Want::Room(n) => self.lacks_room(n as u16),
        };
        match at {
            Some(at) => turn::Look::NotYet(at),
            None => turn::Look::Here(Ok(Brought::Reply(Stored::new()))),
        }
    }

    fn take(&mut self, ticket: u64) -> Outcome {
        self.core.take(ticket).map(Brought::Reply)
    }

    fn turn(&mut self, at: u64) -> Turn {
        match at {
            ANYTHING => Turn::Rise,
            FRESH if self.look_is_due() => Turn::Rise,
            FRESH if self.awaits_topology() => Turn::Sit,
            FRESH => Turn::Settled,
            ticket => match self.core.locate(ticket) {
                Where::Here => Turn::Settled,
                Where::Parked(slot) if self.dial_for(slot).is_some() || self.look_is_due() => Turn::Rise,
                Where::Parked(_) | Where::Sent(..) => Turn::Sit,
            },
        }
    }

    fn stirred(&mut self) -> bool {
        std::mem::replace(&mut self.served, self.events) != self.events
    }

    fn breaks(&mut self) -> u64 {
        self.events
    }

    fn is_unwritten(&mut self, at: u64) -> bool {
        match self.locate(at) {
            Where::Sent(n, place) => self.core.nodes.get_mut(usize::from(n)).is_some_and(|node| {
                let place = node.on_conn(place);
                node.conn.as_mut().is_some_and(|conn| conn.is_unwritten(place))
            }),
            Where::Here | Where::Parked(_) => false,
        }
    }

    fn unwritten(&mut self) -> u64 {
        let conns = self.core.nodes.iter_mut().filter_map(|node| node.conn.as_mut());
        conns.map(Connection::unwritten).sum()
    }

    fn flush(&mut self, at: u64) -> bool {
        self.push_out();
        !self.is_unwritten(at)
    }

    fn leave(&mut self, deadline: &mut Deadline) -> Result<Outing> {
        let now = Instant::now();
        let events = self.events;
        self.write();
        self.take_in_unseen();
        self.settle_books();
        if self.events != events {
            // It may be what is waited for.
            return Ok(Outing::None);
        }
        let left = deadline.left()?;
        self.note_quiet(now);
        let own = left.and_then(|left| now.checked_add(left));
        let until = [own, self.next_due()].into_iter().flatten().min();
        let time = until.map(|until| until.saturating_duration_since(now).max(SHORTEST));
        let (mut sockets, mut writing) = (Vec::with_capacity(self.core.nodes.len()), Vec::new());
        for (n, node) in (0_u16..).zip(&mut self.core.nodes) {
            if let Some(conn) = &mut node.conn {
                let socket = conn.watched(n);
                writing.extend(socket.writing.then_some(n));
                sockets.push(socket);
            }
        }
        self.watch = Some(Watch { until, connected: self.core.connected, writing });
        // Word that was left before is known.
        self.waker.heard();
        Ok(Outing::Watch { sockets, waker: self.waker.clone(), time })
    }

    fn leave_to_write(&mut self, at: u64, deadline: &mut Deadline) -> Result<Outing> {
        let time = deadline.left()?;
        let Where::Sent(n, _) = self.locate(at) else { return Ok(Outing::None) };
        let conn = self.core.nodes.get_mut(usize::from(n)).and_then(|node| node.conn.as_mut());
        Ok(conn.map_or(Outing::None, |conn| Outing::Room { socket: conn.watched(n), time }))
    }

    fn leave_aside(&mut self, at: u64, reads: bool, deadline: &mut Deadline) -> Result<Option<Outing>> {
        let waits = match at {
            FRESH => false,
            ANYTHING => true,
            ticket => matches!(self.core.locate(ticket), Where::Parked(_)),
        };
        if waits && let Some(n) = self.dial_at(at) {
            // Also whoever has but a moment, again and again, is to have a connection at last.
            let known = self.core.nodes[usize::from(n)].cut_short * 2;
            let left = deadline.left()?.map(|left| left.max(known));
            return Ok(Some(Outing::Dial(Box::new(self.core.dial(n, left)))));
        }
        if reads && let Some(n) = self.dial_of_nobody() {
            let left = deadline.left()?.unwrap_or(KINDNESS);
            let known = self.core.nodes[usize::from(n)].cut_short * 2;
            let left = left.min(known.clamp(STRANGERS * 5, KINDNESS));
            return Ok(Some(Outing::Dial(Box::new(self.core.dial(n, Some(left))))));
        }
        if (waits || reads || at == FRESH) && self.look_is_due() {
            // What is waited for may be on its way, whatever becomes of the look.
            let left = deadline.left()?.map(|left| if at == FRESH { left } else { left / 2 });
            let left = if waits || at == FRESH { left } else { Some(left.unwrap_or(KINDNESS).min(KINDNESS)) };
            return Ok(Some(Outing::Look(Box::new(self.core.usual_look(left)))));
        }
        Ok(None)
    }

    fn go(outing: Outing) -> Back {
        match outing {
            Outing::None => Back::None,
            Outing::Watch { sockets, waker, time } => {
                if waker.wait_for(&sockets, time).is_err() {
                    // The system is short of something. Whoever reads finds out about its socket.
                    std::thread::sleep(SHORTEST);
                    sockets.iter().for_each(|socket| socket.ready.set(true));
                }
                Back::Watched(sockets)
            }
            Outing::Room { socket, time } => {
                if socket.wait(time).is_err() {
                    std::thread::sleep(SHORTEST);
                }
                Back::Room(socket)
            }
            Outing::Dial(dial) => {
                let opened = dial.make();
                Back::Dialled(dial, Box::new(opened))
            }
            Outing::Look(look) => Back::Looked(Box::new(look.go())),
        }
    }

    fn back(&mut self, back: Back, _: &mut Deadline) -> Result<()> {
        if let Back::Watched(_) = back {
            self.watch = None;
        }
        self.event();
        let mut room = false;
        match back {
            Back::None => {}
            Back::Watched(sockets) => {
                for socket in sockets.into_iter().filter(|socket| socket.ready.get()) {
                    self.take_in(socket.of);
                    room |= socket.writing;
                }
            }
            Back::Room(socket) => {
                self.take_in(socket.of);
                room = true;
            }
            Back::Dialled(dial, opened) => {
                // Those whose commands wait for it meet with what it has met with.
                let _ = self.core.dialled(&dial, *opened);
                self.core.due = Some(Instant::now());
            }
            Back::Looked(looked) => {
                // Whatever is the matter, commands tell it that meet with it.
                let _ = self.looked(*looked);
            }
        }
        // What others have gathered they write themselves.
        if self.settle_books() || room {
            self.push_out();
        }
        Ok(())
    }

    fn missing(&mut self, errand: Errand) {
        // What it was to do is for another one; after a while, if it was a look that may never come back.
        if errand == Errand::Aside && self.core.looking.strong_count() == 0 {
            (self.core.stale, self.core.refreshed) = (true, Some(Instant::now()));
        }
        self.event();
        self.settle_books();
    }

    fn has_aside(&mut self) -> bool {
        !self.core.aside.is_empty()
    }

    fn aside(&mut self) -> Vec<Aside> {
        std::mem::take(&mut self.core.aside)
    }
}
