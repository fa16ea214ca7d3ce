//! Whose turn it is to read, and to write, for all.
//!
//! Threads that wait for something take turns: one *reads*, which it does without the lock, and the others *sit*, each on a
//! seat of its own, until their reply is brought to them or they are called to look for themselves. Whoever leaves, with
//! whatever outcome, sees to it that one of those who sit reads on. Whoever waits for something that has not been written
//! *sends* it, and what has piled up with it, without the lock as well; what is issued meanwhile waits for the next one who sends.
//!
//! The rules, which the module `model` checks under loom:
//!
//! - While somebody sits and nobody reads, one of those who sit has been called, or somebody who runs will see to it.
//! - Who sits until a place is called, or given its reply, as soon as that place has been read, and when places were lost.
//! - Who reads has nothing of its own unwritten, unless it waits for room to write as well.
//! - While somebody sits for what is not written, somebody sends, has been called, or runs and will see to it.

use std::collections::VecDeque;

use super::pace::Pace;
use super::sync::{Arc, Mutex, MutexGuard, Sleeper, give_way, is_on_errand, lock, on_errand};
use crate::connection::{Aside, Deadline, Want};
use crate::error::{Error, Result};

/// How often a thread yields at most: once before it writes, then for its reply.
const YIELDS: u32 = 2;

const ITSELF: &str =
    "the connection is being made by what called this: a function that is asked for credentials may not wait for it";

/// What is known of something that is wanted.
pub(crate) enum Look<R> {
    Here(R),
    /// Not before this place has been read.
    NotYet(u64),
}

/// What one who sits is to do.
pub(crate) enum Turn {
    Sit,
    /// What it sits for is settled.
    Settled,
    /// Something has come up that it is to see to itself.
    Rise,
}

/// What the threads share. Nothing here blocks but [`go`](Wire::go), which is done without the lock.
pub(crate) trait Wire: Sized {
    /// Places are settled in their order.
    const IN_ORDER: bool;

    /// What a thread gets, on its seat or when it looks.
    type Reply;
    /// What one thread does for all without the lock, and what it comes back with.
    type Outing;
    type Back;

    /// A seat for the thread that asks.
    fn seat() -> Arc<Seat<Self::Reply>>;
    fn look(&mut self, want: Want) -> Look<Self::Reply>;
    /// The reply of an ordinary place that has been read.
    fn take(&mut self, place: u64) -> Self::Reply;
    /// What one who sits for this place is to do.
    fn turn(&mut self, at: u64) -> Turn;
    /// Whether something may have come about for those who sit since this was asked last.
    #[inline]
    fn stirred(&mut self) -> bool {
        true
    }
    /// How often places have been lost, or for a wire that is not [in order](Wire::IN_ORDER), how often anything has come about.
    fn breaks(&mut self) -> u64;
    /// Whether this place has yet to be written, and can be.
    fn is_unwritten(&mut self, at: u64) -> bool;
    /// How many commands have yet to be written.
    fn unwritten(&mut self) -> u64;
    /// Writes what can be at once. `false`: there is more, and this place is part of it.
    fn flush(&mut self, at: u64) -> bool;
    /// A thread is away to send.
    fn is_sending(&mut self) -> bool {
        false
    }
    /// Nothing is to be read any more: whoever sends will break the connection when it is back.
    fn is_doomed(&mut self) -> bool {
        false
    }
    /// How to send what there is, which does not block. Nothing if that is to be left to [`flush`](Wire::flush).
    fn leave_to_send(&mut self) -> Option<Self::Outing> {
        None
    }
    fn leave(&mut self, deadline: &mut Deadline) -> Result<Self::Outing>;
    fn leave_to_write(&mut self, at: u64, deadline: &mut Deadline) -> Result<Self::Outing>;
    /// What is to be done besides reading, by whoever waits for this place, or `reads` next. Another one reads meanwhile.
    #[inline]
    fn leave_aside(&mut self, at: u64, reads: bool, deadline: &mut Deadline) -> Result<Option<Self::Outing>> {
        let _ = (at, reads, deadline);
        Ok(None)
    }
    fn go(outing: Self::Outing) -> Self::Back;
    fn back(&mut self, back: Self::Back, deadline: &mut Deadline) -> Result<()>;
    /// A thread that went for this panicked.
    fn missing(&mut self, errand: Errand);
    /// Whether there is something to be done without the lock, and what.
    fn has_aside(&mut self) -> bool {
        false
    }
    fn aside(&mut self) -> Vec<Aside> {
        Vec::new()
    }
}

/// Where a thread sits.
pub(crate) struct Seat<R> {
    sleeper: Sleeper,
    word: Mutex<Word<R>>,
}

/// What a thread that sits is woken for.
enum Word<R> {
    None,
    /// It is to look for itself.
    Called,
    /// What it waits for has come.
    Reply(R),
}

impl<R> Seat<R> {
    /// Of the thread that asks.
    pub(crate) fn new() -> Arc<Seat<R>> {
        Arc::new(Seat { sleeper: Sleeper::new(), word: Mutex::new(Word::None) })
    }

    /// Leaves word. What was brought is not taken away again, and whoever is called is called once.
    fn tell(&self, word: Word<R>) -> bool {
        let mut there = lock(&self.word);
        let tells = !matches!((&*there, &word), (Word::Reply(_), _) | (Word::Called, Word::Called));
        if tells {
            *there = word;
        }
        tells
    }

    /// Takes the word that was left.
    fn heard(&self) -> Word<R> {
        std::mem::replace(&mut *lock(&self.word), Word::None)
    }
}

/// A thread that sits.
struct Sitting<R> {
    /// Until this place has been read.
    at: u64,
    /// The reply of that place is all that it wants.
    plain: bool,
    /// It may be content when that place has been written.
    written: bool,
    seat: Arc<Seat<R>>,
}

/// What is under the lock.
pub(crate) struct State<W: Wire> {
    pub(crate) wire: W,
    /// A thread reads.
    reading: bool,
    /// How many threads do something besides reading.
    aside: usize,
    /// How many threads wait for something.
    waiting: usize,
    pace: Pace,
    /// Sorted by place, if these are settled in order.
    sitting: VecDeque<Sitting<W::Reply>>,
    /// How often places had been lost when those who sit were called the last time.
    breaks: u64,
}

pub(crate) struct Table<W: Wire> {
    state: Mutex<State<W>>,
}

impl<W: Wire> State<W> {
    /// Brings those who sit what has been read, and calls those who are to look for themselves.
    fn serve(&mut self, wakes: &mut Wakes<W::Reply>) {
        let State { wire, sitting: all, waiting, .. } = self;
        if !wire.stirred() {
            return;
        }
        // Says whether it has been served.
        let mut serve = |sitting: &Sitting<W::Reply>, wire: &mut W| {
            let word = match wire.turn(sitting.at) {
                Turn::Sit => return false,
                Turn::Settled if sitting.plain => {
                    // It need not come for the lock again.
                    *waiting -= 1;
                    Word::Reply(wire.take(sitting.at))
                }
                Turn::Settled | Turn::Rise => Word::Called,
            };
            sitting.seat.tell(word);
            true
        };
        if W::IN_ORDER {
            while let Some(sitting) = all.pop_front() {
                if !serve(&sitting, wire) {
                    all.push_front(sitting);
                    break;
                }
                wakes.push(sitting.seat);
            }
        } else {
            all.retain(|sitting| {
                let served = serve(sitting, wire);
                if served {
                    wakes.push(sitting.seat.clone());
                }
                !served
            });
            return;
        }
        let breaks = self.wire.breaks();
        if breaks != self.breaks {
            self.breaks = breaks;
            let called = self.sitting.iter().filter(|sitting| sitting.seat.tell(Word::Called));
            wakes.extend(called.map(|sitting| sitting.seat.clone()));
        }
    }

    /// Calls those who wait for what has been written.
    fn call_written(&mut self, wakes: &mut Wakes<W::Reply>) {
        for sitting in self.sitting.iter().filter(|sitting| sitting.written) {
            if !self.wire.is_unwritten(sitting.at) && sitting.seat.tell(Word::Called) {
                wakes.push(sitting.seat.clone());
            }
        }
    }

    /// Sees to it that somebody reads on, and that somebody sends what those who sit wait for.
    fn hand_over(&mut self, wakes: &mut Wakes<W::Reply>) {
        let unsent = self.sits_unsent();
        let reader = if self.reading { None } else { self.sitting.front() };
        let sender = if unsent { self.sitting.back() } else { None };
        let heirs = reader.into_iter().chain(sender).filter(|heir| heir.seat.tell(Word::Called));
        wakes.extend(heirs.map(|heir| heir.seat.clone()));
    }

    /// Whether somebody sits for what is not written, and nobody sends.
    fn sits_unsent(&mut self) -> bool {
        W::IN_ORDER
            && !self.wire.is_sending()
            && self.sitting.back().is_some_and(|last| self.wire.is_unwritten(last.at))
    }

    fn sit(&mut self, want: Want, at: u64, seat: &Arc<Seat<W::Reply>>) {
        // Whatever it was called for before, it has looked since.
        seat.heard();
        let index = match self.sitting.back() {
            Some(last) if W::IN_ORDER && last.at > at => self.sitting.partition_point(|sitting| sitting.at <= at),
            _ => self.sitting.len(),
        };
        let plain = matches!(want, Want::Reply(place) if place == at);
        let written = matches!(want, Want::Written(_) | Want::Room(_));
        self.sitting.insert(index, Sitting { at, plain, written, seat: seat.clone() });
    }

    /// Gives a seat up, if it has not been taken away.
    fn rise(&mut self, at: u64, seat: &Arc<Seat<W::Reply>>) {
        let from = if W::IN_ORDER { self.sitting.partition_point(|sitting| sitting.at < at) } else { 0 };
        let index = self.sitting.iter().skip(from).take_while(|sitting| !W::IN_ORDER || sitting.at == at);
        if let Some(index) = index.enumerate().find(|(_, sitting)| Arc::ptr_eq(&sitting.seat, seat)).map(|(n, _)| n) {
            self.sitting.remove(from + index);
        }
    }
}

/// Threads to be woken once the lock is free.
type Wakes<R> = Vec<Arc<Seat<R>>>;

/// A thread at the table, which holds the lock or will again.
pub(crate) struct Visit<'t, W: Wire> {
    table: &'t Table<W>,
    state: Option<MutexGuard<'t, State<W>>>,
    wakes: Wakes<W::Reply>,
    /// What it does for all, without the lock.
    away: Option<Errand>,
    /// It is counted among those who wait.
    waits: bool,
}

/// What a thread does without the lock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Errand {
    /// For all.
    Read,
    /// For all; does not block.
    Send,
    /// Waits for room to write, while another reads.
    Write,
    /// Something else, while another reads.
    Aside,
}

impl<W: Wire> Table<W> {
    pub(crate) fn new(mut wire: W) -> Self {
        let breaks = wire.breaks();
        let (sitting, pace) = (VecDeque::new(), Pace::new());
        Table { state: Mutex::new(State { wire, reading: false, aside: 0, waiting: 0, pace, sitting, breaks }) }
    }

    /// Comes to the table. What the visit has changed is told to those who sit when it ends.
    #[inline]
    pub(crate) fn visit(&self) -> Visit<'_, W> {
        Visit { table: self, state: Some(lock(&self.state)), wakes: Vec::new(), away: None, waits: false }
    }

    /// Does something that takes time without having waited for anything. Whoever comes back to the table from inside of it may
    /// not wait for what it is about to bring.
    pub(crate) fn apart<R>(&self, run: impl FnOnce() -> R) -> R {
        let mut visit = self.visit();
        visit.state().aside += 1;
        visit.away = Some(Errand::Aside);
        visit.unlock();
        let done = on_errand(visit.number(), run);
        visit.returned();
        done
    }
}

impl<W: Wire> Visit<'_, W> {
    /// The lock, taken again if it was given away.
    #[inline]
    fn state(&mut self) -> &mut State<W> {
        self.state.get_or_insert_with(|| lock(&self.table.state))
    }

    #[inline]
    pub(crate) fn wire(&mut self) -> &mut W {
        &mut self.state().wire
    }

    /// Whether nobody sits, waits, or is away.
    #[cfg(all(loom, test))]
    pub(crate) fn is_empty(&mut self) -> bool {
        let state = self.state();
        state.sitting.is_empty() && state.waiting == 0 && !state.reading && state.aside == 0
    }

    /// Gives the lock away, and wakes whom there is to wake.
    fn unlock(&mut self) {
        self.state = None;
        for seat in self.wakes.drain(..) {
            seat.sleeper.unpark();
        }
    }

    /// Gives the lock away as at the end of the visit, and does what is to be done without it: that may come to the table
    /// itself, or wait for a thread that sits there.
    fn step_aside(&mut self) {
        let mut aside = Vec::new();
        if let Some(state) = &mut self.state {
            if !state.sitting.is_empty() {
                state.serve(&mut self.wakes);
                state.hand_over(&mut self.wakes);
            }
            if state.wire.has_aside() {
                aside = state.wire.aside();
            }
        }
        self.unlock();
        aside.into_iter().for_each(|run| run());
    }

    /// By which a thread knows the table again.
    fn number(&self) -> usize {
        std::ptr::from_ref(self.table).addr()
    }

    /// Waits for something. [`Error::Timeout`]: for longer than the deadline. [`Error::Refused`]: for what this very thread was
    /// about to bring, further up the stack.
    pub(crate) fn wait(&mut self, want: Want, deadline: &mut Deadline) -> Result<W::Reply> {
        let state = self.state();
        if let Look::Here(reply) = state.wire.look(want) {
            return Ok(reply);
        }
        state.waiting += 1;
        self.waits = true;
        let waited = self.wait_on(want, deadline);
        self.no_longer_waits();
        waited
    }

    /// Unless whoever brought the reply has counted it.
    fn no_longer_waits(&mut self) {
        if std::mem::take(&mut self.waits) {
            self.state().waiting -= 1;
        }
    }

    fn wait_on(&mut self, want: Want, deadline: &mut Deadline) -> Result<W::Reply> {
        let state = self.state();
        let waiting = state.waiting;
        let crowded = state.pace.yields(waiting);
        let mut yields = if crowded { YIELDS } else { 0 };
        loop {
            if self.state().wire.has_aside() {
                self.step_aside();
            }
            let state = self.state();
            let at = match state.wire.look(want) {
                Look::Here(reply) => return Ok(reply),
                Look::NotYet(at) => at,
            };
            if (state.reading || state.aside > 0) && is_on_errand(self.number()) {
                return Err(Error::Refused(ITSELF));
            }
            let state = self.state();
            let unwritten = state.wire.is_unwritten(at);
            if state.wire.is_sending() && (unwritten || state.wire.is_doomed()) {
                // Whoever sends sees to it.
                if yields > 0 {
                    yields -= 1;
                    self.give_way();
                } else if let Some(reply) = self.sit(want, at, deadline)? {
                    return Ok(reply);
                }
                continue;
            }
            if unwritten || state.sits_unsent() {
                // Once before it is written, unless all who wait have issued what they wait for; the rest is for its reply.
                if unwritten && yields == YIELDS && state.wire.unwritten() < state.waiting as u64 {
                    yields -= 1;
                    self.give_way();
                    continue;
                }
                // In a crowd one write is for so many that to come for the lock twice costs more than it keeps others from.
                if !crowded && let Some(outing) = state.wire.leave_to_send() {
                    self.run(Errand::Send, outing, deadline)?;
                    continue;
                }
                let breaks = state.wire.breaks();
                let all = state.wire.flush(at);
                if state.wire.breaks() != breaks {
                    self.serve();
                    continue;
                }
                if !all && state.reading {
                    self.go(Errand::Write, at, deadline)?;
                    continue;
                }
            }
            let state = self.state();
            let reads = !state.reading;
            if let Some(outing) = state.wire.leave_aside(at, reads, deadline)? {
                self.run(Errand::Aside, outing, deadline)?;
            } else if reads {
                self.go(Errand::Read, at, deadline)?;
            } else if yields > 0 {
                yields -= 1;
                self.give_way();
            } else if let Some(reply) = self.sit(want, at, deadline)? {
                return Ok(reply);
            }
        }
    }

    /// Lets other threads run: what they issue goes out in one write, and what one of them reads need not be waited for.
    fn give_way(&mut self) {
        let timed = self.state().pace.timed();
        self.unlock();
        let took = give_way(timed.is_some());
        let state = self.state();
        if let (Some(timed), Some(took)) = (timed, took) {
            state.pace.yielded(timed, took, state.waiting);
        }
    }

    /// Brings those who sit what there is for them.
    pub(crate) fn serve(&mut self) {
        self.with_wakes(State::serve);
    }

    /// Runs what wakes threads, once the lock is free.
    fn with_wakes(&mut self, run: impl FnOnce(&mut State<W>, &mut Wakes<W::Reply>)) {
        let mut wakes = std::mem::take(&mut self.wakes);
        run(self.state(), &mut wakes);
        self.wakes = wakes;
    }

    /// Does for all what takes time, without the lock.
    fn go(&mut self, errand: Errand, at: u64, deadline: &mut Deadline) -> Result<()> {
        let state = self.state();
        let outing = match errand {
            Errand::Write => state.wire.leave_to_write(at, deadline),
            Errand::Read | Errand::Send | Errand::Aside => state.wire.leave(deadline),
        };
        match outing {
            Ok(outing) => self.run(errand, outing, deadline),
            Err(Error::Timeout) => Err(Error::Timeout),
            // Whoever looks sees it.
            Err(_) => {
                self.serve();
                Ok(())
            }
        }
    }

    fn run(&mut self, errand: Errand, outing: W::Outing, deadline: &mut Deadline) -> Result<()> {
        match errand {
            Errand::Read => self.state().reading = true,
            Errand::Aside => {
                self.state().aside += 1;
                // It may have been the one that was to read.
                self.with_wakes(State::hand_over);
            }
            Errand::Send | Errand::Write => {}
        }
        self.away = Some(errand);
        self.unlock();
        let back = on_errand(self.number(), || W::go(outing));
        self.returned();
        let outcome = self.state().wire.back(back, deadline);
        self.serve();
        if errand == Errand::Send {
            self.with_wakes(State::call_written);
        }
        outcome
    }

    /// Takes the lock again, and is no longer away.
    fn returned(&mut self) -> Option<Errand> {
        let away = self.away.take();
        let state = self.state();
        match away {
            Some(Errand::Read) => state.reading = false,
            Some(Errand::Aside) => state.aside -= 1,
            Some(Errand::Send | Errand::Write) | None => {}
        }
        away
    }

    /// Sits until the reply is brought, or until there is a reason to look.
    fn sit(&mut self, want: Want, at: u64, deadline: &mut Deadline) -> Result<Option<W::Reply>> {
        let seat = W::seat();
        self.state().sit(want, at, &seat);
        self.unlock();
        let outcome = loop {
            match seat.heard() {
                Word::Reply(reply) => {
                    self.waits = false;
                    return Ok(Some(reply));
                }
                Word::Called => break Ok(()),
                Word::None => {}
            }
            match deadline.left() {
                Ok(left) => seat.sleeper.park(left),
                Err(timeout) => break Err(timeout),
            }
        };
        self.state().rise(at, &seat);
        if let Word::Reply(reply) = seat.heard() {
            // It was brought before the lock was taken.
            self.waits = false;
            return Ok(Some(reply));
        }
        outcome.map(|()| None)
    }
}

impl<W: Wire> Drop for Visit<'_, W> {
    #[inline]
    fn drop(&mut self) {
        if self.away.is_some() {
            // What was done without the lock panicked.
            if let Some(errand) = self.returned() {
                self.wire().missing(errand);
            }
            self.serve();
        }
        self.no_longer_waits();
        self.step_aside();
    }
}
