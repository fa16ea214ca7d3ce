//! What a cluster does with the connection to one of its nodes: it sends commands that are encoded already, and takes every
//! reply itself, in the order of the wire.

use std::cell::Cell;
use std::time::Duration;

use super::deadline::Deadline;
use super::engine::{BUSY, Engine};
use super::input::BACKLOG;
use super::place::Place;
use super::settle::{Arrived, Waited};
use super::wake::Watched;
use super::{Aside, Config, Connection};
use crate::args::Block;
use crate::error::{Error, Result};
use crate::resp::{self, Frame, Peek, ProtocolError};

/// The reply whose turn it is, whole and not yet taken.
pub(crate) struct Arrival(Arrived);

impl Connection {
    /// Opens a connection to a node, and sends these commands behind the handshake, which must not fail.
    pub(crate) fn open_node(config: Config, first: &[Vec<u8>]) -> Result<Connection> {
        config.validate()?;
        let time = config.connect_timeout;
        let engine = Engine::connect(config, time, first)?;
        Ok(Connection { engine: engine.into(), ended: Default::default() })
    }

    /// Issues a command that is encoded, and returns its place.
    #[inline(always)]
    pub(crate) fn send(&mut self, bytes: &[u8], block: Option<Block>) -> Result<u64> {
        let engine = self.engine.get_mut();
        if engine.issued < engine.limit && block.is_none() {
            engine.output.append(bytes);
            let place = engine.issued;
            engine.issued += 1;
            if place == engine.next || engine.must_look(place) {
                engine.after_issue(place);
            }
            return Ok(place);
        }
        engine.send_slowly(bytes, block)
    }

    /// Issues several commands that are encoded and belong together, and returns the place of the first: they are in one piece
    /// on the wire.
    pub(crate) fn send_all(&mut self, bytes: &[u8], count: u64) -> Result<u64> {
        let engine = self.engine.get_mut();
        if engine.polled {
            return engine.append(bytes, count);
        }
        if engine.issued + count > engine.limit {
            engine.make_room(count)?;
        }
        engine.output.append(bytes);
        let place = engine.issued;
        engine.issued += count;
        engine.after_issue(place);
        Ok(place)
    }

    /// If the reply of this place is at hand, and neither an aggregate nor an error: moves on behind it, and lends it.
    #[inline(always)]
    pub(crate) fn take_scalar(&mut self, place: u64) -> Option<Frame<'_>> {
        let engine = self.engine.get_mut();
        if place != engine.head {
            return None;
        }
        let Engine { input, head, next, .. } = engine;
        let Ok(Peek::Scalar(frame, n)) = resp::peek(input.buf.get(input.start..input.end)?) else { return None };
        if n > BACKLOG || matches!(frame, Frame::Error(_)) {
            return None;
        }
        input.start += n;
        *next += 1;
        *head += 1;
        Some(frame)
    }

    /// The same with the bytes of the reply, which `take` is given.
    #[inline]
    pub(crate) fn take_bytes(&mut self, place: u64, take: impl FnOnce(&[u8])) -> bool {
        let engine = self.engine.get_mut();
        if place != engine.head {
            return false;
        }
        let n = match resp::peek(engine.input.bytes()) {
            Ok(Peek::Scalar(frame, n)) if n <= BACKLOG && !matches!(frame, Frame::Error(_)) => n,
            _ => return false,
        };
        take(&engine.input.bytes()[..n]);
        engine.input.start += n;
        engine.next += 1;
        engine.head += 1;
        true
    }

    /// Sends everything and waits until the reply of this place is whole. When the deadline passes, the place is as good as
    /// before.
    pub(crate) fn arrival(&mut self, place: u64, deadline: &mut Deadline) -> Waited<Arrival> {
        let time = std::mem::replace(deadline, Deadline::new(None));
        let mut time = Some(time);
        let arrived = self.engine.get_mut().arrive(place, &mut time);
        if let Some(time) = time {
            *deadline = time;
        }
        arrived.map(Arrival)
    }

    /// The same, if it is at hand; `None`: it is not. Never waits.
    pub(crate) fn arrival_at_hand(&mut self, place: u64) -> Option<Result<Arrival>> {
        let engine = self.engine.get_mut();
        if place >= engine.next
            && !engine.is_lost(place)
            && let Ok(found) = engine.head_frame()
        {
            return found.map(|n| Ok(Arrival(Arrived::Head(n))));
        }
        // It was put aside, or the connection has just been found to be of no use.
        let stored = engine.store.take(place).map(|frame| Arrival(Arrived::Stored(frame)));
        Some(stored.ok_or_else(|| engine.lost_error(place)))
    }

    /// Looks at a reply.
    pub(crate) fn look<R>(&mut self, arrival: &Arrival, look: impl FnOnce(Option<Frame<'_>>, &[u8]) -> R) -> R {
        let engine = self.engine.get_mut();
        let bytes = match &arrival.0 {
            Arrived::Head(n) => &engine.input.bytes()[..*n],
            Arrived::Stored(frame) => frame,
            Arrived::Answered(frame) => frame,
        };
        look(resp::frame(bytes), bytes)
    }

    /// Moves on behind a reply that has been looked at.
    pub(crate) fn pass(&mut self, arrival: Arrival) {
        if let Arrived::Head(n) = arrival.0 {
            let engine = self.engine.get_mut();
            engine.pass(n);
            engine.input.give_back();
        }
    }

    // For threads that share a cluster.

    /// Says that nothing here may wait any more, or that it may again.
    pub(crate) fn share(&mut self, shared: bool) {
        self.engine.get_mut().polled = shared;
    }

    /// What is to be done when no thread holds the lock.
    pub(crate) fn take_aside(&mut self) -> Vec<Aside> {
        std::mem::take(&mut self.engine.get_mut().aside)
    }

    /// One read of what is there. Says whether bytes came.
    pub(crate) fn read_now(&mut self) -> bool {
        let engine = self.engine.get_mut();
        if !engine.is_up() {
            return false;
        }
        engine.input.make_room(usize::MAX);
        let came = matches!(engine.read_now(), Ok(true));
        if came && engine.next == engine.issued {
            engine.look_at_surplus();
        }
        came
    }

    /// Whether the last read may have left something that a wait for the socket would not tell, or had no room for all.
    pub(crate) fn may_have_more(&mut self) -> bool {
        let engine = self.engine.get_mut();
        !engine.stream.is_plain() || engine.input.room().is_empty()
    }

    /// Whether a wait for the socket tells of everything that has come.
    pub(crate) fn is_plain(&mut self) -> bool {
        self.engine.get_mut().stream.is_plain()
    }

    /// The socket, for a thread that waits for it, and whose it is.
    pub(crate) fn watched(&mut self, of: u16) -> Watched {
        let engine = self.engine.get_mut();
        let writing = !engine.output.is_empty() || engine.stream.wants_write();
        Watched { of, socket: engine.stream.socket(), writing, ready: Cell::new(false) }
    }

    /// Whether the command of this place has yet to be written, and can be.
    pub(crate) fn is_unwritten(&mut self, place: u64) -> bool {
        self.engine.get_mut().is_unwritten(place)
    }

    /// How many commands have yet to be written.
    pub(crate) fn unwritten(&mut self) -> u64 {
        self.engine.get_mut().unwritten()
    }

    /// The first place whose command has yet to be written, if so much is gathered that no more should be.
    pub(crate) fn clogged_at(&mut self) -> Option<u64> {
        let engine = self.engine.get_mut();
        let much = engine.output.pending().len() >= engine.config.write_batch;
        (much && engine.is_up()).then_some(engine.flushed)
    }

    /// Whether the reply of this place can be taken without waiting. Sends what the socket takes, and reads what there is.
    pub(crate) fn poll(&mut self, place: u64) -> bool {
        self.engine.get_mut().is_ready(place)
    }

    /// Sends what the socket takes, and says whether that was all. What goes wrong is told when the replies are asked for.
    pub(crate) fn push_out(&mut self) -> bool {
        let engine = self.engine.get_mut();
        engine.output.is_empty() || !engine.is_up() || engine.try_flush().unwrap_or(true)
    }

    /// Sends everything that was gathered.
    pub(crate) fn flush_within(&mut self, deadline: &mut Deadline) -> Result<()> {
        self.engine.get_mut().flush(deadline)
    }

    /// How long a wait for this place may take.
    pub(crate) fn allowance(&mut self, place: u64) -> Option<Duration> {
        self.engine.get_mut().allowance(place)
    }

    /// Whether a wait for this place may never end, or is for a blocking command.
    pub(crate) fn may_block(&mut self, place: u64) -> bool {
        self.engine.get_mut().may_block(place)
    }

    /// Ends the connection; what is outstanding is lost.
    pub(crate) fn break_off(&mut self, cause: Error) {
        self.engine.get_mut().break_with(cause);
    }

    /// The same, when nobody knows what the replies that have come are to: they reach nobody.
    pub(crate) fn out_of_step(&mut self) {
        let engine = self.engine.get_mut();
        engine.input.start = engine.input.end;
        engine.scanner.reset();
        engine.break_with(ProtocolError::OutOfStep.into());
    }

    /// How many bytes have come so far.
    pub(crate) fn bytes_read(&mut self) -> u64 {
        self.engine.get_mut().stats.bytes_read
    }

    /// Whether nothing can be sent any more.
    pub(crate) fn is_lost(&mut self) -> bool {
        self.engine.get_mut().is_broken()
    }
}

impl Engine {
    /// What [`Connection::send`] does where there may be no room, or for a blocking command.
    #[inline(never)]
    fn send_slowly(&mut self, bytes: &[u8], block: Option<Block>) -> Result<u64> {
        if self.polled {
            return self.append(bytes, 1);
        }
        let place = self.issue_encoded(bytes, block);
        match Place::of(place) {
            Place::Ordinary(place) => Ok(place),
            Place::Failed(number) => Err(self.take_failure(number)),
            _ => Err(Error::Refused(BUSY)),
        }
    }

    /// Gives the next places to commands that are encoded, however much is outstanding or has yet to be written.
    fn append(&mut self, bytes: &[u8], count: u64) -> Result<u64> {
        self.check()?;
        self.output.append(bytes);
        let place = self.issued;
        self.issued += count;
        self.after_issue(place);
        Ok(place)
    }

    /// Whether it is to be decided if what has been gathered goes out.
    #[inline(always)]
    fn must_look(&self, place: u64) -> bool {
        self.output.len >= self.config.write_batch || place >= self.looks_again_at()
    }
}
