//! Each reply goes where it belongs.
//!
//! Replies are taken from the front of the read buffer in the order of their places. What happens to one depends on its
//! mark: kept for a live handle, skipped, or part of a transaction (see `exec`).

use std::sync::Arc;

use super::deadline::Deadline;
use super::engine::Engine;
use super::groups::State;
use super::place::{self, Place};
use super::queue::{Mark, Stored};
use super::table::Change;
use super::traffic::READS;
use crate::error::{Error, Result, ServerError, WaitError};
use crate::resp::{self, Frame, Peek, ProtocolError};

/// Where the reply of a handle is.
pub(super) enum Arrived {
    /// Whole at the front of the read buffer, with this length.
    Head(usize),
    /// In the store, or a stand-in for a reply without bytes.
    Stored(Stored),
    /// It was known before the command was issued.
    Answered(Arc<[u8]>),
}

/// The outcome of a wait: the deadline has passed, and the handle is as good as before, or there is a final word.
pub(super) type Waited<T> = Result<T, WaitError<()>>;

impl Engine {
    /// The frame at the front, if it is whole: its length. Pushes in front of it and inside it are lifted out.
    pub(super) fn head_frame(&mut self) -> Result<Option<usize>> {
        loop {
            if self.scanner.is_idle() {
                match resp::peek(self.input.bytes()) {
                    Ok(Peek::Scalar(_, n)) => return Ok(Some(n)),
                    Ok(Peek::Incomplete) => return Ok(None),
                    Ok(Peek::Aggregate) => {}
                    Err(error) => return Err(self.break_with(error.into())),
                }
            }
            match self.scanner.scan(self.input.bytes()) {
                Ok(None) => return Ok(None),
                // The pushes inside are kept when it is consumed, since it may be looked at more than once.
                Ok(Some(n)) if !self.take_push(n) => return Ok(Some(n)),
                Ok(Some(_)) => {}
                Err(error) => return Err(self.break_with(error.into())),
            }
        }
    }

    /// The first byte of the frame at the front, behind any pushes.
    pub(super) fn front(&mut self) -> Result<Option<u8>> {
        loop {
            match self.input.bytes().first() {
                Some(b'>') => match self.scanner.scan(self.input.bytes()) {
                    Ok(None) => return Ok(None),
                    Ok(Some(n)) => {
                        self.take_push(n);
                    }
                    Err(error) => return Err(self.break_with(error.into())),
                },
                byte => return Ok(byte.copied()),
            }
        }
    }

    /// Takes the whole frame at the front, of this length, if it is a push.
    fn take_push(&mut self, n: usize) -> bool {
        let bytes = &self.input.bytes()[..n];
        if !matches!(bytes.first(), Some(b'>' | b'|')) || !matches!(resp::frame(bytes), Some(Frame::Push(_))) {
            return false;
        }
        let push = bytes.to_vec();
        self.keep_inner_pushes();
        self.keep_push(push);
        self.input.consume(n);
        true
    }

    /// Copies the pushes that stood between the elements of the frame at the front, which has just been scanned.
    pub(super) fn keep_inner_pushes(&mut self) {
        for range in self.scanner.take_pushes() {
            if let Some(push) = self.input.bytes().get(range) {
                let push = push.to_vec();
                self.keep_push(push);
            }
        }
    }

    pub(super) fn keep_push(&mut self, push: Vec<u8>) {
        if self.acknowledge(&push) {
            return;
        }
        self.stats.pushes += 1;
        if self.caching.push(&push, self.issued) {
            return;
        }
        self.push_bytes += push.len();
        self.pushes.push_back(push);
        let (most, bytes) = self.config.push_queue;
        while self.pushes.len() > 1 && (self.pushes.len() > most || self.push_bytes > bytes) {
            self.stats.pushes_dropped += 1;
            self.next_push();
        }
    }

    /// Takes the oldest push message.
    pub(super) fn next_push(&mut self) -> Option<Vec<u8>> {
        let push = self.pushes.pop_front()?;
        self.push_bytes -= push.len();
        Some(push)
    }

    /// Bytes are there although nothing is outstanding: pushes, or a server that cannot count.
    #[cold]
    pub(super) fn look_at_surplus(&mut self) {
        match self.front() {
            // Nothing but pushes, the last of which may not be whole.
            Ok(None) | Err(_) => return,
            // A push may have an attribute.
            Ok(Some(b'|')) if matches!(self.head_frame(), Ok(None)) => return,
            Ok(Some(_)) => {}
        }
        // To take this for the reply of the next command would shift every reply from here on.
        self.input.start = self.input.end;
        self.scanner.reset();
        self.break_with(ProtocolError::UnaskedReply.into());
    }

    /// Consumes the frame at the front, of this length, and the next place with it.
    pub(super) fn pass(&mut self, n: usize) {
        // First, since a push inside may be about it.
        self.caching.arrived(self.next, &self.input.bytes()[..n]);
        self.keep_inner_pushes();
        self.follow_change(n);
        if self.must_write && self.input.bytes().starts_with(b"-READONLY") {
            self.server_is_demoted();
        }
        self.input.consume(n);
        self.advance();
    }

    /// If the frame at the front, of this length, acknowledges a change of the connection, that is known from here on.
    fn follow_change(&mut self, n: usize) {
        if self.changes.front().is_none_or(|change| change.0 != self.next) {
            return;
        }
        if let Some((_, change, bytes)) = self.changes.pop_front()
            && let Some(Frame::SimpleString(_)) = resp::frame(&self.input.bytes()[..n])
        {
            if change == Change::Login {
                self.follow_login(&bytes);
            } else if change != Change::Database {
                self.changed.insert(change, bytes);
            } else if let Some(database) = resp::encode::arguments(&bytes).nth(1).and_then(resp::number::parse_u64) {
                self.config.database = u32::try_from(database).unwrap_or(self.config.database);
            }
        }
    }

    /// AUTH was acknowledged: this is who the connection is from here on.
    pub(super) fn follow_login(&mut self, auth: &[u8]) {
        let mut arguments: Vec<_> = resp::encode::arguments(auth).skip(1).map(<[u8]>::to_vec).collect();
        self.config.password = arguments.pop();
        self.config.user = arguments.pop();
        self.config.credentials = None;
    }

    /// Moves on to the next place.
    pub(super) fn advance(&mut self) {
        self.ring.clear(self.next);
        self.next += 1;
        self.refresh_head();
    }

    /// Lets a waiting handle take the fast path again, or keeps it from it.
    pub(super) fn refresh_head(&mut self) {
        let watched = !self.changes.is_empty() || !self.subscribing.is_empty() || self.caching.is_expecting();
        let ordinary = self.streaming.is_none() && !watched && self.is_up() && self.next >= self.holes;
        self.head = if ordinary { self.next } else { place::NONE };
    }

    /// Puts the next reply where it belongs. `false`: it has not arrived whole, or there is none to come.
    pub(super) fn settle_one(&mut self) -> Result<bool> {
        if self.away || !self.clear_streaming()? || self.next == self.issued {
            return Ok(false);
        }
        if self.at_subscription() {
            return self.settle_subscription();
        }
        match self.ring.get(self.next) {
            Mark::Live => {
                let Some(n) = self.head_frame()? else { return Ok(false) };
                self.store.put(self.next, &self.input.bytes()[..n]);
                self.pass(n);
                Ok(true)
            }
            Mark::Detached => self.skip_run(),
            Mark::Queued if self.queued_run() => Ok(true),
            Mark::Multi | Mark::Queued => self.settle_queued(),
            Mark::Exec => self.settle_exec(),
            Mark::Void => {
                self.advance();
                Ok(true)
            }
        }
    }

    /// Puts every reply that has arrived whole where it belongs.
    pub(super) fn settle_whole(&mut self) -> Result<()> {
        while self.settle_one()? {}
        Ok(())
    }

    /// Settles what a write has taken in, and says whether there is anything to look at: a reply, or the end of the connection.
    pub(super) fn settle_at_hand(&mut self) -> bool {
        let next = self.next;
        if !self.away && self.input.len() > 0 {
            // What it finds out it tells the handles.
            let _ = self.settle_whole();
        }
        self.next != next || !self.is_up()
    }

    /// Reads and settles everything before this place.
    pub(super) fn settle_until(&mut self, place: u64, deadline: &mut Deadline) -> Result<()> {
        while self.next < place {
            let step = self.settle_one().and_then(|settled| if settled { Ok(()) } else { self.fill(deadline) });
            match step {
                // What was lost by a break says so itself, and what was kept goes on.
                Err(error) if matches!(error, Error::Timeout) || self.is_broken() => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Skips the detached replies at the front that have arrived, so that a stream of detached commands does not pile up.
    pub(super) fn skip_detached(&mut self) -> Result<()> {
        while self.ring.marked() > 0
            && self.next < self.issued
            && self.streaming.is_none()
            && self.ring.get(self.next) == Mark::Detached
            && !self.at_subscription()
            && self.skip_run()?
        {}
        Ok(())
    }

    /// Skips a detached reply, or as many `+OK` as there are: a compare and an add for each. `false`: none was whole.
    fn skip_run(&mut self) -> Result<bool> {
        if !self.scanner.is_idle() || self.skipping || !self.changes.is_empty() || self.caching.is_expecting() {
            return self.skip_one();
        }
        let passed = self.pass_run(Mark::Detached, |bytes| bytes.starts_with(b"+OK\r\n"), 5);
        if passed > 0 { Ok(true) } else { self.skip_one() }
    }

    /// Takes as many QUEUED as there are. `false`: something else comes.
    fn queued_run(&mut self) -> bool {
        if !self.scanner.is_idle() || self.groups.current().is_none_or(|group| group.multi_error.is_some()) {
            return false;
        }
        let passed = self.pass_run(Mark::Queued, |bytes| bytes.starts_with(b"+QUEUED\r\n"), 9);
        if let Some(group) = self.groups.current() {
            group.queued += passed;
        }
        passed > 0
    }

    /// Passes replies of this length that look like this, as long as their places have just this mark, and says how many.
    #[inline(always)]
    fn pass_run(&mut self, mark: Mark, looks: impl Fn(&[u8]) -> bool, len: usize) -> u32 {
        let mut passed = 0;
        while self.next < self.issued && self.ring.get(self.next) == mark && looks(self.input.bytes()) {
            self.input.consume(len);
            self.ring.clear(self.next);
            self.next += 1;
            passed += 1;
        }
        self.refresh_head();
        passed
    }

    /// Skips the reply at the front, piece by piece if it is large: whatever its size, no memory grows.
    fn skip_one(&mut self) -> Result<bool> {
        if self.scanner.is_idle() {
            match resp::peek(self.input.bytes()) {
                Ok(Peek::Scalar(frame, n)) => {
                    if let Frame::Error(message) = frame {
                        let error = ServerError::new(message).into();
                        self.unseen(self.next, error);
                    }
                    self.pass(n);
                    return Ok(true);
                }
                Ok(Peek::Incomplete) if self.input.len() < 1024 => return Ok(false),
                Ok(_) => {}
                Err(error) => return Err(self.break_with(error.into())),
            }
        }
        match self.skip_frame(Some(self.next))? {
            Skipped::Nothing => Ok(false),
            Skipped::Push => Ok(true),
            Skipped::Frame => {
                self.advance();
                Ok(true)
            }
        }
    }

    /// Scans on in the frame at the front and consumes what is behind the scanner. An error in it is accounted for if the
    /// frame is the whole reply of this place, and not if it is an element.
    pub(super) fn skip_frame(&mut self, place: Option<u64>) -> Result<Skipped> {
        while self.scanner.is_idle() && !self.skipping && self.input.bytes().first() == Some(&b'|') {
            // An attribute on its own, so that what it stands before can be skipped piece by piece.
            if !self.drop_attribute()? {
                return Ok(Skipped::Nothing);
            }
        }
        let whole = match self.scanner.scan(self.input.bytes()) {
            Ok(whole) => whole,
            Err(error) => return Err(self.break_with(error.into())),
        };
        let Some(n) = whole else {
            // A push and an error are looked at when they are whole, and so is what an attribute stands before.
            if self.skipping || !matches!(self.input.bytes().first(), Some(b'-' | b'!' | b'>' | b'|')) {
                let n = self.scanner.forgettable();
                if n > 0 {
                    self.keep_inner_pushes();
                }
                self.scanner.forget(n);
                self.input.consume(n);
                self.skipping |= n > 0;
            }
            return Ok(Skipped::Nothing);
        };
        if !std::mem::take(&mut self.skipping) {
            if self.take_push(n) {
                return Ok(Skipped::Push);
            }
            if let (Some(place), Some(Frame::Error(message))) = (place, resp::frame(&self.input.bytes()[..n])) {
                let error = ServerError::new(message).into();
                self.unseen(place, error);
            }
            if place.is_some() {
                // First, since a push inside may be about it.
                self.caching.arrived(self.next, &self.input.bytes()[..n]);
                self.follow_change(n);
            }
        } else if place.is_some() {
            self.caching.passed(self.next);
        }
        self.keep_inner_pushes();
        self.input.consume(n);
        self.input.give_back();
        Ok(Skipped::Frame)
    }

    /// Accounts for the error in a reply that was stored and is given up.
    pub(super) fn check_skipped(&mut self, place: u64, frame: &[u8]) {
        if let Some(Frame::Error(message)) = resp::frame(frame) {
            let error = ServerError::new(message).into();
            self.unseen(place, error);
        }
    }

    // Waiting.

    /// Waits until the reply of a handle is there. When the deadline passes, the handle's place is as good as before; after
    /// any other outcome, which may be a timeout that the command itself has met with, it is used up, except that a member
    /// of a transaction must still be released.
    pub(super) fn arrive(&mut self, place: u64, deadline: &mut Option<Deadline>) -> Waited<Arrived> {
        let place = match self.resolve(place, deadline)? {
            Resolved::Place(place) => place,
            Resolved::Committed => return Ok(Arrived::Stored(Stored::from_slice(b"+OK\r\n"))),
            Resolved::Answered(reply) => return Ok(Arrived::Answered(reply)),
        };
        while place >= self.next && !self.is_lost(place) {
            let deadline = self.deadline(place, deadline);
            match self.arrive_at_head(place, deadline) {
                Ok(arrived) => return Ok(arrived),
                Err(Error::Timeout) => return Err(WaitError::Timeout(())),
                // What broke the connection on the way may have come behind this very reply, or the command may yet be sent
                // on another one.
                Err(_) => {}
            }
        }
        match self.store.take(place) {
            Some(frame) => Ok(Arrived::Stored(frame)),
            None => Err(self.lost_error(place).into()),
        }
    }

    fn arrive_at_head(&mut self, place: u64, deadline: &mut Deadline) -> Result<Arrived> {
        loop {
            self.settle_until(place, deadline)?;
            // Whatever reads from the socket may settle more than was asked for, this very reply included; and a break on the
            // way may have lost it, while those before it were sent again.
            if self.next > place || self.is_lost(place) {
                let stored = self.store.take(place).map(Arrived::Stored);
                return stored.ok_or_else(|| self.lost_error(place));
            }
            if self.clear_streaming()?
                && let Some(n) = self.head_frame()?
            {
                if self.at_subscription() {
                    self.settle_subscription()?;
                    continue;
                }
                return Ok(Arrived::Head(n));
            }
            self.fill(deadline)?;
        }
    }

    /// The deadline of a wait for this place: the caller's own, or what the configuration allows.
    pub(super) fn deadline<'d>(&mut self, place: u64, deadline: &'d mut Option<Deadline>) -> &'d mut Deadline {
        deadline.get_or_insert_with(|| Deadline::new(self.allowance(place)))
    }

    /// Finds the ordinary place behind what a handle holds.
    pub(super) fn resolve(&mut self, place: u64, deadline: &mut Option<Deadline>) -> Waited<Resolved> {
        let (id, index) = match Place::of(place) {
            Place::Ordinary(place) => return Ok(Resolved::Place(place)),
            Place::Busy => return Err(Error::Refused(super::engine::BUSY).into()),
            Place::SecondBatch => return Err(Error::Refused(super::engine::SECOND_BATCH).into()),
            Place::Failed(number) => return Err(self.take_failure(number).into()),
            Place::Answered(number) => {
                let reply = self.caching.take_answer(number);
                return reply.map(Resolved::Answered).ok_or_else(|| Error::Refused(super::engine::GONE).into());
            }
            Place::Member { group, index } => (group, index),
        };
        if let Some(exec) = self.groups.get(id).and_then(|group| group.exec_place())
            && !self.is_broken()
        {
            let deadline = self.deadline(exec, deadline);
            // A broken connection is told below.
            if let Err(Error::Timeout) = self.settle_until(exec + 1, deadline) {
                return Err(WaitError::Timeout(()));
            }
        }
        let Some(group) = self.groups.get(id) else { return Err(Error::NotCommitted.into()) };
        if let Some(error) = group.refusal(index) {
            return Err(error.clone().into());
        }
        if let State::Open = group.state {
            // The handle is used up, and so its command is as if it had been dropped.
            group.detached.push(index);
            return Err(Error::NotCommitted.into());
        }
        match &group.state {
            State::Ready { first } if index != place::COMMIT => Ok(Resolved::Place(first + u64::from(index))),
            State::Entered { first } if index != place::COMMIT => Ok(Resolved::Place(group.entered(*first, index))),
            State::Ready { .. } | State::Entered { .. } => Ok(Resolved::Committed),
            State::Open | State::Discarded => Err(Error::NotCommitted.into()),
            State::Failed(error) => Err(error.clone().into()),
            State::Committed { multi } => {
                let exec = group.exec(*multi);
                Err(self.lost_error(exec).into())
            }
        }
    }

    /// Whether a wait would not block, found out without blocking. On a broken connection it would not.
    pub(super) fn is_ready(&mut self, place: u64) -> bool {
        match self.look_for(place) {
            Ok(ready) => ready,
            Err(_) => match self.place_looked_for(place) {
                Some(place) => place < self.next || place >= self.issued || self.is_lost(place),
                None => true,
            },
        }
    }

    /// The place whose reply a handle waits for next, if it waits for any.
    pub(super) fn place_looked_for(&mut self, place: u64) -> Option<u64> {
        let (id, index) = match Place::of(place) {
            Place::Ordinary(place) => return Some(place),
            Place::Busy | Place::SecondBatch | Place::Failed(_) | Place::Answered(_) => return None,
            Place::Member { group, index } => (group, index),
        };
        let group = self.groups.get(id)?;
        match group.state {
            State::Committed { multi } if index == place::COMMIT => Some(group.exec(multi)),
            State::Committed { multi } => Some(group.exec(multi) + 1 + u64::from(index)),
            State::Ready { first } if index != place::COMMIT => Some(first + u64::from(index)),
            State::Entered { first } if index != place::COMMIT && group.refusal(index).is_none() => {
                Some(group.entered(first, index))
            }
            _ => None,
        }
    }

    fn look_for(&mut self, place: u64) -> Result<bool> {
        let Some(place) = self.place_looked_for(place) else { return Ok(true) };
        for _ in 0..READS {
            while self.next < place && self.settle_one()? {}
            if place < self.next || self.is_lost(place) {
                return Ok(true);
            }
            if place == self.next {
                // The header of EXEC's reply is all that its handle waits for.
                let here = match self.ring.get(place) {
                    Mark::Live if !self.at_subscription() => self.clear_streaming()? && self.head_frame()?.is_some(),
                    _ => self.settle_one()?,
                };
                if here {
                    return Ok(true);
                }
            }
            let mut deadline = Deadline::new(self.config.timeout);
            self.up_at_once(&mut deadline)?;
            self.try_flush()?;
            self.input.make_room(usize::MAX);
            if !self.read_now()? {
                return Ok(false);
            }
        }
        Ok(false)
    }
}

/// What skipping has come to.
pub(super) enum Skipped {
    /// More bytes are needed.
    Nothing,
    /// A push, which was kept, and which is no reply.
    Push,
    /// The whole frame.
    Frame,
}

/// What is behind a handle's place.
pub(super) enum Resolved {
    Place(u64),
    /// A commit that went through.
    Committed,
    /// What was known before the command was issued.
    Answered(Arc<[u8]>),
}
