//! The end of a connection: which commands are lost, and which are kept for the next one.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;

use super::Link;
use super::engine::Engine;
use super::groups::State;
use super::output::Output;
use super::place::{self, Place};
use super::queue::Mark;
use super::reconnect::Down;
use crate::error::{ConnectionLost, Error, Result, Sent};
use crate::resp::{Scanner, encode};

/// How many breaks are told apart; what was lost by older ones is taken for one loss.
const LOSSES: usize = 64;

/// How often a command that may be is sent again.
const RESENDS: u8 = 3;

/// What is known of places whose replies will never come.
#[derive(Clone, Debug)]
pub(super) struct Loss {
    pub(super) from: u64,
    /// The place behind the last one. Those in between that were kept are not lost.
    pub(super) until: u64,
    /// The command of this place, and all after it, had not been written whole.
    pub(super) unsent: u64,
    /// A part of that command had been.
    pub(super) partly: bool,
    pub(super) cause: Error,
}

/// A command that its caller allows to be sent more than once.
#[derive(Debug)]
pub(super) struct Idempotent {
    place: u64,
    bytes: Vec<u8>,
    /// How often it may yet be sent again.
    resends: u8,
}

/// A command that is kept when a connection breaks.
struct Kept {
    place: u64,
    /// The place of the command behind it.
    next: u64,
    bytes: Vec<u8>,
}

impl Engine {
    #[inline(always)]
    pub(super) fn is_up(&self) -> bool {
        matches!(self.link, Link::Up)
    }

    /// Whether there never will be a connection again.
    pub(super) fn is_broken(&self) -> bool {
        matches!(self.link, Link::Broken)
    }

    /// Whether the reply of a place that was just issued may still come: a break that the command met with while it was
    /// issued may have lost it.
    pub(super) fn is_to_come(&mut self, place: u64) -> bool {
        place >= self.next && !self.is_lost(place)
    }

    /// The error of what cannot be sent, unless the connection works.
    pub(super) fn check(&self) -> Result<()> {
        if self.is_up() { Ok(()) } else { Err(self.lost_error(place::NONE)) }
    }

    /// Whether this place was issued and its reply will never come, although its turn has not come either.
    pub(super) fn is_lost(&mut self, place: u64) -> bool {
        if place < self.next || place >= self.issued {
            return false;
        }
        if self.is_broken() {
            return true;
        }
        if place >= self.holes {
            return false;
        }
        self.ring.cover(self.next, self.issued);
        self.ring.get(place) == Mark::Void
    }

    /// The error of a place whose reply will never come.
    pub(super) fn lost_error(&self, place: u64) -> Error {
        let last = || self.losses.back().map(|loss| loss.error(place));
        self.loss_of(place).or_else(last).unwrap_or(Error::Refused(super::engine::GONE))
    }

    /// The error of a place before the next one whose reply never came.
    pub(super) fn loss_of(&self, place: u64) -> Option<Error> {
        self.loss_by(place, None)
    }

    /// The same for one that the `last` loss has taken, if there is one that is not among the others.
    fn loss_by(&self, place: u64, last: Option<&Loss>) -> Option<Error> {
        // Several may cover it: it was kept by those before the one that lost it, or others before it were kept then. The
        // one by which most of it was sent is never wrong.
        let covering = self.losses.iter().filter(|loss| loss.from <= place && place < loss.until).chain(last);
        Some(covering.max_by_key(|loss| loss.sent(place) as u8)?.error(place))
    }

    /// Whether a break has taken any of these places.
    pub(super) fn has_lost(&self, places: Range<u64>) -> bool {
        self.losses.iter().any(|loss| loss.from < places.end && places.start < loss.until)
    }

    /// What an error that has just come up means for this place: that of a break says how much of its command was sent.
    pub(super) fn of_place(&self, place: u64, error: Error) -> Error {
        if matches!(error, Error::ConnectionLost(_)) { self.lost_error(place) } else { error }
    }

    pub(super) fn break_with_io(&mut self, error: io::Error) -> Error {
        self.break_with(error.into())
    }

    pub(super) fn closed_by_server(&mut self) -> Error {
        self.break_with_io(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection"))
    }

    /// Ends the connection: for good, or until something is wanted of it again.
    ///
    /// What has arrived whole still reaches its handles, and so does what the socket still holds: a server that closes
    /// often says why just before, while our own write fails first.
    ///
    /// Returns the error for whoever found out.
    #[cold]
    pub(super) fn break_with(&mut self, cause: Error) -> Error {
        if !self.is_up() {
            return self.lost_error(place::NONE);
        }
        if self.away || self.sending {
            // What the thread that reads brings came before this, and the one that sends knows what has been sent.
            self.stream.stop_reading();
            self.doom.get_or_insert(cause);
            return self.lost_error(place::NONE);
        }
        // Whatever is found on the way out must not begin this again.
        self.link = Link::Breaking;
        self.head = place::NONE;
        self.limit = 0;
        if matches!(cause, Error::Io(_)) {
            self.read_the_rest();
        }
        while let Ok(true) = self.settle_one() {}
        let (unsent, partly) = self.sent_before();
        // A connection that has not brought one reply counts as an attempt that failed, but for the first one, which its
        // user may not have used yet.
        let fruitful = self.next > self.next_before || self.stats.reconnects == 0;
        let failed = if fruitful { 0 } else { self.fruitless + 1 };
        let streaming = self.streaming.as_ref().map(|streaming| streaming.place);
        let loss = Loss {
            from: streaming.unwrap_or(self.next).min(self.next),
            until: self.issued,
            unsent,
            partly,
            cause: cause.clone(),
        };
        let policy = &self.config.reconnect;
        // What is kept is of no use if the last attempt was this connection.
        let keep = failed < policy.most();
        self.link = if policy.is_never() { Link::Broken } else { Link::Down(Down::new(cause, failed, policy)) };
        self.lose(loss, keep);
        // Else the server would keep a client that will never say anything again.
        self.stream.close();
        self.lost_error(place::NONE)
    }

    /// The place before which every command has been written whole, and whether a part of its own has been.
    pub(super) fn sent_before(&self) -> (u64, bool) {
        if self.feeding {
            // Its bytes do not pass through the write buffer.
            return (self.flushed, true);
        }
        let (whole, partly) = self.output.sent();
        (self.after_commands(self.flushed, whole), partly)
    }

    /// Takes the places of a loss out of the queue, all but those that can be kept.
    pub(super) fn lose(&mut self, loss: Loss, keep: bool) {
        let kept = if keep { self.keep() } else { Vec::new() };
        self.breaks += 1;
        self.note_loss(loss.clone());
        let replies = self.leave_only(&kept, &loss);
        if !self.is_broken() {
            // What is left of the old connection is no reply of the next one.
            self.input.start = self.input.end;
            self.input.give_back();
            self.scanner = Scanner::new(false);
            self.skipping = false;
        }
        // What was watched is watched no longer, and nothing is tracked.
        self.caching.lost(self.issued);
        self.subscribing.clear();
        self.subscriptions = [0, 0];
        self.watch_generation += 1;
        if let Some(streaming) = self.streaming.take() {
            self.keep_cut(streaming);
        }
        self.advance_over_lost();
        self.head = place::NONE;
        // Last, since whoever listens may panic.
        let (cause, kept) = (loss.cause, kept.len());
        self.tell(move |server| super::events::lost(server, &cause, replies, kept));
    }

    /// Takes back what is kept while there is no connection: the command of a handle whose time is over, or the transaction
    /// that it is part of. Returned is what the handle is told; nothing if there was nothing to take back.
    pub(super) fn withdraw(&mut self, handle: u64) -> Option<Error> {
        let (first, last) = match Place::of(handle) {
            Place::Ordinary(place) => (place, place),
            Place::Member { group: id, index } => {
                let group = self.groups.get(id)?;
                match group.state {
                    State::Committed { multi } => (multi, group.exec(multi)),
                    State::Entered { first } if index != place::COMMIT => {
                        let place = group.entered(first, index);
                        (place, place)
                    }
                    _ => return None,
                }
            }
            Place::Failed(_) | Place::Answered(_) | Place::Busy | Place::SecondBatch => return None,
        };
        self.take_back(first, last, |_| true)
    }

    /// The same for the commands of a batch, from the `first` to the `last`: `all`, or those that have no handle.
    pub(super) fn withdraw_batch(&mut self, first: u64, last: u64, all: bool) {
        self.ring.cover(self.next, self.issued);
        self.take_back(first, last, |mark| all || mark == Mark::Detached);
    }

    fn take_back(&mut self, first: u64, last: u64, which: impl Fn(Mark) -> bool) -> Option<Error> {
        let Link::Down(down) = &self.link else { return None };
        let cause = down.cause().clone();
        let mut kept = self.keep();
        let all = kept.len();
        kept.retain(|command| !(first..=last).contains(&command.place) || !which(self.ring.get(command.place)));
        if kept.len() == all {
            return None;
        }
        if last > first {
            // Others may wait for what these were to bring.
            self.breaks += 1;
        }
        let loss = Loss { from: first, until: last + 1, unsent: first, partly: false, cause };
        self.leave_only(&kept, &loss);
        self.advance_over_lost();
        self.loss_by(first, Some(&loss))
    }

    /// The error of what is not taken in while there is no connection.
    pub(super) fn not_taken_in(&self) -> Option<Error> {
        let Link::Down(down) = &self.link else { return None };
        Some(Error::ConnectionLost(std::sync::Arc::new(ConnectionLost::new(Sent::Unsent, down.cause().clone()))))
    }

    /// Takes all places that are outstanding out of the queue but these, and says how many replies will not come for that.
    fn leave_only(&mut self, kept: &[Kept], loss: &Loss) -> usize {
        self.ring.cover(self.next, self.issued);
        let (mut unseen, mut replies) = (Vec::new(), 0);
        let mut place = self.next;
        for command in kept.iter().map(Some).chain([None]) {
            let end = command.map_or(self.issued, |command| command.place);
            for lost in place..end {
                match self.ring.get(lost) {
                    Mark::Void => {}
                    mark => {
                        replies += 1;
                        if mark == Mark::Detached && !self.is_hello(lost) {
                            unseen.push(lost);
                        }
                    }
                }
                self.ring.set(lost, Mark::Void, self.next, self.issued);
                self.holes = self.holes.max(lost + 1);
            }
            place = command.map_or(self.issued, |command| command.next);
        }
        let is_kept = |place| kept.binary_search_by_key(&place, |command: &Kept| command.place).is_ok();
        let unseen_commits = self.groups.lose(|multi, exec| (!is_kept(multi)).then(|| loss.error(exec)));
        self.blocking.retain(|(place, _)| is_kept(*place));
        let changes = self.changes.len();
        self.changes.retain(|(place, ..)| is_kept(*place));
        self.lost_changes += (changes - self.changes.len()) as u64;
        self.secrets.retain(|place| is_kept(*place));
        self.idempotent.retain(|command| is_kept(command.place));
        for place in unseen {
            let error = self.loss_by(place, Some(loss)).unwrap_or_else(|| loss.error(place));
            self.unseen(place, error);
        }
        unseen_commits.into_iter().for_each(|error| self.unseen_anywhere(error));

        self.output = Output::new();
        self.execs = VecDeque::new();
        self.flushed = kept.first().map_or(self.issued, |command| command.place);
        for (index, command) in kept.iter().enumerate() {
            self.output.append(&command.bytes);
            let next = kept.get(index + 1).map_or(self.issued, |next| next.place);
            if next > command.place + 1 {
                self.execs.push_back((command.place, next - command.place - 1));
            }
        }
        self.gathered = None;
        self.limit = 0;
        replies
    }

    fn advance_over_lost(&mut self) {
        while self.next < self.issued && self.ring.get(self.next) == Mark::Void {
            self.advance();
        }
    }

    /// Remembers a loss for those handles that have not asked yet.
    fn note_loss(&mut self, loss: Loss) {
        self.losses.push_back(loss);
        if self.losses.len() > LOSSES
            && let Some(oldest) = self.losses.pop_front()
            && let Some(next) = self.losses.front_mut()
        {
            next.from = next.from.min(oldest.from);
            // To say that a command may have run is never wrong.
            next.unsent = next.unsent.max(oldest.until);
        }
    }

    /// Which commands go to the next connection: those that were not sent, and those that may be sent again, in their
    /// order.
    fn keep(&mut self) -> Vec<Kept> {
        let mut unsent = Vec::new();
        let (whole, written) = encode::commands_before(&self.output.buf[..self.output.len], self.output.written);
        let partly = written < self.output.written;
        let (mut place, mut pos) = (self.after_commands(self.flushed, whole), written);
        let first_unsent = place;
        if self.next > first_unsent + u64::from(partly) {
            // A server that has answered what was not sent: nobody knows what its replies were to.
            return Vec::new();
        }
        while pos < self.output.len
            && let Some(end) = encode::command_end(&self.output.buf, pos)
        {
            let gap = self.execs.binary_search_by_key(&place, |exec| exec.0);
            let next = place + 1 + gap.map_or(0, |at| self.execs[at].1);
            if place > first_unsent || !partly {
                unsent.push(Kept { place, next, bytes: self.output.buf[pos..end].to_vec() });
            }
            (place, pos) = (next, end);
        }
        let is_sent = |place| place < first_unsent || (partly && place == first_unsent);
        let again = self
            .idempotent
            .iter()
            .filter(|command| command.place >= self.next && is_sent(command.place) && command.resends > 0);
        let again =
            again.map(|command| Kept { place: command.place, next: command.place + 1, bytes: command.bytes.clone() });
        let mut kept: Vec<Kept> = again.collect();
        kept.append(&mut unsent);
        // Behind a change of state of which nobody knows whether it came about, nothing runs as it was meant to.
        let cut = self.changes.iter().map(|change| change.0).find(|place| *place >= self.next && is_sent(*place));
        let split = self.groups.on_wire(|multi, exec, watched| {
            // A transaction that was begun on the old connection, or watches keys there.
            (is_sent(multi) || watched).then_some((multi, exec))
        });
        kept.retain(|command| {
            cut.is_none_or(|cut| command.place < cut)
                && split[..split.partition_point(|(multi, _)| *multi <= command.place)]
                    .last()
                    .is_none_or(|(_, exec)| command.place > *exec)
        });
        for command in &mut self.idempotent {
            if is_sent(command.place) && kept.binary_search_by_key(&command.place, |kept| kept.place).is_ok() {
                command.resends -= 1;
                self.stats.resent += 1;
            }
        }
        kept
    }

    /// Notes that the command just issued, of which these are the bytes, may be sent again.
    pub(super) fn note_idempotent(&mut self, place: u64, bytes: Vec<u8>) {
        self.forget_answered();
        self.idempotent.push_back(Idempotent { place, bytes, resends: RESENDS });
    }

    /// Lets go of idempotent commands that have been answered.
    pub(super) fn forget_answered(&mut self) {
        while self.idempotent.front().is_some_and(|command| command.place < self.next) {
            self.idempotent.pop_front();
        }
    }
}

impl Loss {
    pub(super) fn sent(&self, place: u64) -> Sent {
        match place {
            _ if place < self.unsent => Sent::Fully,
            _ if place == self.unsent && self.partly => Sent::Partly,
            _ => Sent::Unsent,
        }
    }

    pub(super) fn error(&self, place: u64) -> Error {
        Error::ConnectionLost(std::sync::Arc::new(ConnectionLost::new(self.sent(place), self.cause.clone())))
    }
}
