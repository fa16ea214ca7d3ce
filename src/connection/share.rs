//! A connection that threads share: what they do with it under their lock, none of which blocks, and what one of them does
//! without the lock for all, which may.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use socket2::Socket;

use super::engine::Engine;
use super::input::{BACKLOG, Input};
use super::place::{self, Place};
use super::queue::Stored;
use super::reconnect::{Attempt, Dial};
use super::settle::Resolved;
use super::table::Effect;
use super::traffic::READS;
use super::{Config, Connection, Deadline, Encoded, Stats, stream};
use crate::args::{Arguments, Command, ToArgs};
use crate::error::{Error, Result, WaitError};
use crate::values::Value;

/// A reply as it came, or what became of it.
pub(crate) type Outcome = Result<Stored>;

/// The place to look at, and what is to be known of it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Want {
    /// The reply of a handle.
    Reply(u64),
    /// That everything before this place has been read.
    Settled(u64),
    /// That everything before this place has been written.
    Written(u64),
    /// Room for so many more places.
    Room(u64),
}

/// What is known of something that is wanted.
pub(crate) enum Look {
    Here(Outcome),
    /// Not before the reply of this place has been read.
    NotYet(u64),
}

/// A connection, and how many bytes of commands it has that are not answered.
pub(crate) struct Share {
    conn: Connection,
    /// A place, and how many bytes the commands before it have.
    writes: VecDeque<(u64, u64)>,
    /// How many bytes belong to commands that have been answered.
    answered: u64,
    /// Room for what is sent without the lock.
    copy: Vec<u8>,
    /// The socket did not take all of the last one.
    full: bool,
}

/// So much is copied at most to be sent without the lock; more is written under it, at once.
const COPIED: usize = 64 * 1024;

/// What one thread does for all without the lock.
pub(crate) struct Outing(Way);

enum Way {
    /// Nothing: there is something to be looked at.
    None,
    Read {
        socket: Arc<Socket>,
        input: Input,
    },
    Send {
        socket: Arc<Socket>,
        bytes: Vec<u8>,
    },
    Await {
        socket: Arc<Socket>,
        reading: bool,
        writing: bool,
        time: Option<Duration>,
    },
    Pause(Duration),
    Dial(Box<Attempt>),
}

/// What it comes back with.
pub(crate) struct Back(Found);

enum Found {
    None,
    Read { input: Input, read: io::Result<Option<usize>> },
    Sent { bytes: Vec<u8>, sent: io::Result<Option<usize>> },
    Awaited { reading: bool, outcome: io::Result<()> },
    Dialled { fresh: Result<Box<Engine>>, attempt: Box<Attempt> },
}

impl Outing {
    /// Blocks.
    pub(crate) fn go(self) -> Back {
        Back(match self.0 {
            Way::None => Found::None,
            Way::Read { socket, mut input } => {
                let read = stream::receive(&socket, input.room());
                Found::Read { input, read }
            }
            Way::Send { socket, bytes } => {
                let sent = stream::send(&socket, &bytes);
                Found::Sent { bytes, sent }
            }
            Way::Await { socket, reading, writing, time } => {
                Found::Awaited { reading, outcome: stream::await_socket(&socket, reading, writing, time) }
            }
            Way::Pause(pause) => {
                std::thread::sleep(pause);
                Found::None
            }
            Way::Dial(attempt) => Found::Dialled { fresh: attempt.make().map(Box::new), attempt },
        })
    }
}

impl Share {
    /// Reads what is outstanding on a connection, and takes it.
    pub(crate) fn new(mut conn: Connection) -> Result<Share> {
        conn.quiet()?;
        let engine = conn.engine.get_mut();
        (engine.shared, engine.groups.keeps) = (true, true);
        let mut share = Share { conn, writes: VecDeque::new(), answered: 0, copy: Vec::new(), full: false };
        share.answered = share.bytes();
        Ok(share)
    }

    pub(super) fn engine(&mut self) -> &mut Engine {
        self.conn.engine.get_mut()
    }

    // Issuing.

    /// Whether so many places can be taken in at once, so that issuing does not wait.
    #[inline]
    pub(crate) fn has_room(&mut self, places: u64) -> bool {
        let light = self.is_light();
        let engine = self.engine();
        if places == 1 && engine.issued < engine.limit {
            return light;
        }
        let (outstanding, most) = (engine.issued - engine.next, engine.config.max_outstanding as u64);
        // Who waited for all of a large room would wait for ever if the others never leave so much.
        let full = outstanding > 0 && (outstanding + places.min(most.div_ceil(2)) > most || !light);
        let much = engine.output.pending().len() >= engine.config.write_batch;
        engine.is_broken() || !(full || much)
    }

    /// Whether there are few enough bytes of commands that have not been answered.
    #[inline]
    fn is_light(&mut self) -> bool {
        let bytes = self.bytes().saturating_sub(self.answered);
        let engine = self.engine();
        bytes < engine.config.max_outstanding_bytes as u64 || engine.issued == engine.next
    }

    /// How many bytes of commands there have been.
    #[inline]
    fn bytes(&mut self) -> u64 {
        let engine = self.engine();
        engine.stats.bytes_written + (engine.output.len - engine.output.written) as u64
    }

    /// Notes how much has been written, by whatever way.
    fn note_written(&mut self) {
        let engine = self.engine();
        // What is in the write buffer begins with the command of this place.
        let (place, bytes) = (engine.flushed, engine.stats.bytes_written.saturating_sub(engine.output.written as u64));
        if self.writes.back().is_none_or(|write| write.0 < place) {
            self.writes.push_back((place, bytes));
        }
    }

    /// Notes what has been answered.
    fn note_answered(&mut self) {
        self.note_written();
        let next = self.engine().next;
        while let Some((_, bytes)) = self.writes.front().copied().filter(|write| write.0 <= next) {
            self.answered = bytes;
            self.writes.pop_front();
        }
    }

    /// Issues a command whose arguments are of this crate's own types. There is room for it.
    #[inline(always)]
    pub(crate) fn issue<A: Arguments>(&mut self, command: &Command<A>) -> u64 {
        self.engine().issue(command)
    }

    /// Issues a command that is encoded, or cannot be. `again`: it may be sent more than once.
    pub(crate) fn issue_encoded(&mut self, encoded: Result<Encoded>, again: bool) -> u64 {
        match encoded {
            Ok(encoded) if again => self.engine().issue_idempotent(encoded),
            Ok(encoded) => self.engine().issue_encoded(&encoded.bytes, None),
            Err(error) => self.engine().born_failed(error),
        }
    }

    /// Encodes a command that is given by its name, unless others would feel it.
    pub(crate) fn named(name: &str, arguments: impl ToArgs) -> Result<Encoded> {
        let encoded = Encoded::named(name, arguments)?;
        match encoded.effect() {
            Effect::Ordinary if encoded.is_for_the_next() => Err(Error::Refused(CHANGES)),
            Effect::Ordinary => Ok(encoded),
            Effect::Refused(why) => Err(Error::Refused(why)),
            Effect::Blocking(_) => Err(Error::Refused(BLOCKS)),
            Effect::Barrier | Effect::Changes(_) | Effect::Tracks => Err(Error::Refused(CHANGES)),
        }
    }

    /// The handle of a command for which there is no room.
    pub(crate) fn born_failed(&mut self, error: Error) -> u64 {
        self.engine().born_failed(error)
    }

    /// The connection, for what never blocks: the bookkeeping of transactions.
    pub(crate) fn connection(&mut self) -> &Connection {
        &self.conn
    }

    // Looking.

    /// What is known of something that is wanted. A reply that is here is used up.
    pub(crate) fn look(&mut self, want: Want) -> Look {
        match want {
            Want::Reply(place) => self.look_for_reply(place),
            Want::Settled(until) => self.look_for(until, |engine| engine.next),
            Want::Written(until) => self.look_for(until, |engine| engine.flushed.max(engine.next)),
            Want::Room(places) => {
                if self.has_room(places) {
                    return Look::Here(Ok(Stored::new()));
                }
                let engine = self.engine();
                let outstanding = engine.issued - engine.next;
                // Down to half, so that this is not paid for at every command; or until what is gathered is written.
                let much = engine.output.pending().len() >= engine.config.write_batch;
                let middle = engine.next + outstanding.div_ceil(2).max(1) - 1;
                Look::NotYet(if much { engine.flushed.max(engine.next) } else { middle })
            }
        }
    }

    fn look_for(&mut self, until: u64, done: impl Fn(&Engine) -> u64) -> Look {
        let engine = self.engine();
        if engine.is_broken() {
            Look::Here(Err(engine.lost_error(place::NONE)))
        } else if done(engine) >= until {
            Look::Here(Ok(Stored::new()))
        } else {
            Look::NotYet(until - 1)
        }
    }

    #[inline]
    fn look_for_reply(&mut self, handle: u64) -> Look {
        let engine = self.engine();
        if let Place::Member { group, .. } = Place::of(handle)
            && let Some(exec) = engine.groups.get(group).and_then(|group| group.exec_place())
            && !engine.is_broken()
        {
            return Look::NotYet(exec);
        }
        let outcome = match engine.resolve(handle, &mut None) {
            Ok(Resolved::Place(place)) => {
                if place >= engine.next && !engine.is_lost(place) {
                    return Look::NotYet(place);
                }
                engine.store.take(place).ok_or_else(|| engine.lost_error(place))
            }
            Ok(Resolved::Committed) => Ok(Stored::from_slice(b"+OK\r\n")),
            Ok(Resolved::Answered(reply)) => Ok(Stored::from_slice(&reply)),
            Err(WaitError::Failed(error)) => Err(error),
            Err(WaitError::Timeout(())) => Err(Error::Timeout),
        };
        engine.release(handle);
        Look::Here(outcome)
    }

    /// Takes the reply of an ordinary place before the next one.
    #[inline]
    pub(crate) fn take(&mut self, place: u64) -> Outcome {
        let engine = self.engine();
        engine.store.take(place).ok_or_else(|| engine.lost_error(place))
    }

    /// The place of the reply that comes next on the wire.
    #[inline]
    pub(crate) fn settled(&mut self) -> u64 {
        self.engine().next
    }

    /// The place of the next command.
    pub(crate) fn issued(&mut self) -> u64 {
        self.engine().issued
    }

    /// How often places have been lost.
    #[inline]
    pub(crate) fn breaks(&mut self) -> u64 {
        self.engine().breaks
    }

    #[inline]
    pub(crate) fn is_up(&mut self) -> bool {
        self.engine().is_up()
    }

    /// Whether the command of this place has yet to be written, and can be.
    #[inline]
    pub(crate) fn is_unwritten(&mut self, at: u64) -> bool {
        self.engine().is_unwritten(at)
    }

    /// How many commands have yet to be written.
    #[inline]
    pub(crate) fn unwritten(&mut self) -> u64 {
        self.engine().unwritten()
    }

    // Moving bytes.

    /// Writes what the socket takes, and says whether that was all, or there is no use in waiting for more.
    pub(crate) fn flush(&mut self) -> bool {
        self.full = false;
        match self.engine().try_flush() {
            Ok(true) => {
                self.note_written();
                true
            }
            Ok(false) => false,
            // The connection broke, or will when the thread that reads is back.
            Err(_) => true,
        }
    }

    pub(crate) fn is_sending(&mut self) -> bool {
        self.engine().sending
    }

    pub(crate) fn is_doomed(&mut self) -> bool {
        self.engine().doom.is_some()
    }

    /// How to send what there is without the lock. Nothing if that is a matter of more than one write.
    pub(crate) fn leave_to_send(&mut self) -> Option<Outing> {
        let Share { conn, copy, full, .. } = self;
        let engine = conn.engine.get_mut();
        let pending = engine.output.pending();
        if *full || engine.sending || pending.is_empty() || pending.len() > COPIED || !engine.stream.is_plain() {
            return None;
        }
        let mut bytes = std::mem::take(copy);
        bytes.extend_from_slice(pending);
        engine.sending = true;
        engine.stats.largest_queue = engine.stats.largest_queue.max(engine.issued - engine.next);
        Some(Outing(Way::Send { socket: engine.stream.socket(), bytes }))
    }

    /// How to wait for what comes next: bytes, or a connection if there is none. No other thread waits for it.
    ///
    /// [`Error::Timeout`] if there is no time left. Any other error is known to whoever looks.
    pub(crate) fn leave(&mut self, deadline: &mut Deadline) -> Result<Outing> {
        let engine = self.engine();
        if !engine.is_up() {
            return engine.next_dial(deadline).map(|dial| {
                Outing(match dial {
                    Dial::Up => Way::None,
                    Dial::Pause(pause) => Way::Pause(pause),
                    Dial::Attempt(attempt) => Way::Dial(attempt),
                })
            });
        }
        if engine.settle_at_hand() {
            return Ok(Outing(Way::None));
        }
        let left = deadline.left().inspect_err(|_| engine.silent = true)?;
        engine.stats.round_trips += u64::from(std::mem::take(&mut engine.wrote));
        engine.stats.largest_queue = engine.stats.largest_queue.max(engine.issued - engine.next);
        let writing = !engine.output.is_empty() && !engine.sending;
        if writing || !engine.stream.is_plain() {
            // What TLS has in its buffers no wait for the socket would tell.
            engine.input.make_room(usize::MAX);
            if !matches!(engine.read_now(), Ok(false)) {
                let _ = engine.settle_whole();
                return Ok(Outing(Way::None));
            }
            engine.away = true;
            let writing = writing || engine.stream.wants_write();
            return Ok(Outing(Way::Await { socket: engine.stream.socket(), reading: true, writing, time: left }));
        }
        if let Err(error) = engine.stream.arm(left) {
            return Err(engine.break_with_io(error));
        }
        engine.input.make_room(usize::MAX);
        engine.away = true;
        let input = std::mem::replace(&mut engine.input, Input::new());
        Ok(Outing(Way::Read { socket: engine.stream.socket(), input }))
    }

    /// How to wait until the socket takes more, while another thread reads. That one may leave, so this ends as well when there
    /// is something to read.
    pub(crate) fn leave_to_write(&mut self, deadline: &mut Deadline) -> Result<Outing> {
        let engine = self.engine();
        let time = deadline.left()?;
        Ok(Outing(Way::Await { socket: engine.stream.socket(), reading: false, writing: true, time }))
    }

    /// Takes in what a thread has come back with, and puts every reply that is whole where it belongs.
    ///
    /// Only [`Error::Timeout`] is for the caller alone.
    pub(crate) fn back(&mut self, back: Back, deadline: &mut Deadline) -> Result<()> {
        let engine = self.engine();
        match back.0 {
            Found::None => {
                self.note_answered();
                return Ok(());
            }
            Found::Read { input, read } => {
                engine.away = false;
                engine.input = input;
                // An error breaks the connection, and every handle will say so.
                let _ = match read {
                    Ok(Some(0)) => Err(engine.closed_by_server()),
                    Ok(Some(n)) => {
                        engine.arrived(n);
                        Ok(())
                    }
                    Ok(None) => Ok(()),
                    Err(error) => Err(engine.break_with_io(error)),
                };
            }
            Found::Sent { mut bytes, sent } => {
                engine.sending = false;
                let whole = matches!(sent, Ok(Some(n)) if n == bytes.len());
                let broken = engine.after_write(sent).is_err();
                self.full = !whole && !broken;
                bytes.clear();
                self.copy = bytes;
                self.note_written();
                if self.engine().away {
                    return Ok(());
                }
            }
            Found::Awaited { reading: false, .. } => {
                self.flush();
                return Ok(());
            }
            Found::Awaited { reading: true, outcome } => {
                engine.away = false;
                if let Err(error) = outcome {
                    engine.break_with_io(error);
                }
                self.read_all();
                if !self.engine().output.is_empty() && self.is_up() {
                    self.flush();
                }
            }
            Found::Dialled { fresh, attempt } => {
                let outcome = engine.dialled(fresh.map(|fresh| *fresh), &attempt, deadline);
                (self.answered, self.writes) = (self.bytes(), VecDeque::new());
                return match outcome {
                    Err(Error::Timeout) => Err(Error::Timeout),
                    _ => Ok(()),
                };
            }
        }
        let engine = self.engine();
        if let Some(cause) = engine.doom.take() {
            // Or it waits for the other thread that is away.
            engine.break_with(cause);
        }
        let _ = engine.settle_whole();
        engine.leave_if_demoted();
        self.note_answered();
        Ok(())
    }

    /// A thread that was to come back, from reading or from sending, never will.
    pub(crate) fn missing(&mut self, reading: bool) {
        let engine = self.engine();
        let away = if reading { &mut engine.away } else { &mut engine.sending };
        if std::mem::take(away) {
            // It had the read buffer with it, and maybe a part of a reply; or nobody knows what it has sent.
            let gone = Error::custom("the thread that read or sent for all panicked");
            let cause = engine.doom.take().unwrap_or(gone);
            engine.break_with(cause);
        }
    }

    /// Reads what is there and settles it, if no other thread is away to do so.
    pub(crate) fn read_all(&mut self) {
        let engine = self.engine();
        if engine.away || engine.doom.is_some() || !engine.is_up() {
            return;
        }
        engine.settle_at_hand();
        for _ in 0..READS {
            engine.input.make_room(usize::MAX);
            if !matches!(engine.read_now(), Ok(true)) || engine.settle_whole().is_err() || engine.input.len() > BACKLOG
            {
                break;
            }
        }
        self.note_answered();
    }

    /// Reads what is there, also what nobody has asked for: pushes, or the end of the connection.
    pub(crate) fn look_around(&mut self) {
        self.read_all();
        let engine = self.engine();
        if !engine.away && engine.is_up() && engine.next == engine.issued && engine.input.len() > 0 {
            engine.look_at_surplus();
        }
    }

    // Handles.

    /// Gives a place up, without I/O.
    pub(crate) fn detach(&mut self, place: u64) {
        self.engine().detach(place);
    }

    /// Accounts for an error that nobody is told.
    pub(crate) fn unseen(&mut self, error: Error) {
        self.engine().unseen_anywhere(error);
    }

    /// Whether the drop of something may wait for what comes next.
    pub(crate) fn may_wait_in_drop(&mut self) -> bool {
        let engine = self.engine();
        engine.may_wait_in_drop(engine.issued)
    }

    /// Gives a place up for which there is no time left, and says what its handle is told: a command that is kept while there
    /// is no connection is taken back.
    pub(crate) fn give_up(&mut self, place: u64) -> Error {
        let engine = self.engine();
        match engine.withdraw(place) {
            Some(error) => {
                engine.release(place);
                error
            }
            None => {
                engine.detach(place);
                Error::Timeout
            }
        }
    }

    /// What a command is told for which there was no room in time.
    pub(crate) fn without_room(&mut self, error: Error) -> Error {
        match error {
            Error::Timeout => self.engine().not_taken_in().unwrap_or(error),
            error => error,
        }
    }

    /// Gives a place up, and says until which place is to be read so that its error has been accounted for, if the drop of
    /// a handle may wait for it.
    pub(crate) fn drop_reply(&mut self, place: u64) -> Option<u64> {
        let engine = self.engine();
        let last = match Place::of(place) {
            Place::Ordinary(place) => Some(place),
            Place::Member { group, .. } => engine.groups.get(group).and_then(|group| group.exec_place()),
            Place::Failed(_) | Place::Answered(_) | Place::Busy | Place::SecondBatch => None,
        };
        engine.detach(place);
        last.filter(|last| engine.may_wait_in_drop(*last)).map(|last| last + 1)
    }

    /// Whether a wait would not block, found out without blocking.
    pub(crate) fn is_ready(&mut self, place: u64) -> bool {
        if self.is_up() {
            self.flush();
            self.read_all();
        }
        let engine = self.engine();
        match engine.place_looked_for(place) {
            Some(place) => place < engine.next || place >= engine.issued || engine.is_lost(place),
            None => true,
        }
    }

    /// Hands out the first error that nobody has seen.
    pub(crate) fn take_account(&mut self) -> Result<()> {
        self.engine().take_account()
    }

    pub(crate) fn allowance(&mut self) -> Option<Duration> {
        self.engine().config.timeout
    }

    /// What it was opened with, and how many replies are outstanding.
    pub(crate) fn summary(&mut self) -> (Config, usize) {
        let engine = self.engine();
        (engine.config.clone(), engine.outstanding())
    }

    pub(crate) fn stats(&mut self) -> Stats {
        self.engine().stats_now()
    }

    pub(crate) fn next_push(&mut self) -> Option<Value> {
        self.conn.next_push()
    }
}

const BLOCKS: &str = "a blocking command would hold the connection for every thread: use a Connection of its own";
pub(crate) const CHANGES: &str =
    "this would change the connection for every thread: use a Connection of its own, or its Config";
