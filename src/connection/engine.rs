//! The state of a connection, and how a command gets its place and its bytes into it.
//!
//! The other parts of the engine are in the files beside this one: `traffic` moves bytes between the buffers and the
//! socket, `settle` puts each reply where it belongs, `elements` reads an aggregate piece by piece, and `groups` knows
//! the transactions.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use super::Link;
use super::aside::Aside;
use super::batches::BatchRecord;
use super::caching::Caching;
use super::config::{Config, Endpoint, Protocol, SendWhen};
use super::deadline::Deadline;
use super::elements::{Rest, Streaming};
use super::groups::{Groups, State};
use super::input::Input;
use super::lost::{Idempotent, Loss};
use super::output::Output;
use super::place::{self, Place};
use super::queue::{Ring, Store};
use super::stats::Stats;
use super::stream::Stream;
use super::subscribe::Subscribing;
use super::table::Change;
use crate::args::{ArgWriter, Arguments, Block, Command, Fault, Unwritten};
use crate::error::{Error, Result};
use crate::resp::Scanner;

/// Servers answer a blocking command a little after its time.
const SLACK: Duration = Duration::from_millis(250);

/// How long a gathered command may wait for company.
const GATHER: Duration = Duration::from_millis(1);

pub(crate) struct Engine {
    /// The next place on the wire, while a waiting handle may take its reply at once; else [`place::NONE`]. This one
    /// comparison is the whole fast path: whatever is out of the ordinary makes it fail.
    pub(super) head: u64,
    /// The place of the reply that comes next on the wire.
    pub(super) next: u64,
    /// The place of the next command.
    pub(super) issued: u64,
    /// How often places have been lost.
    pub(super) breaks: u64,
    /// From this place on, issuing a command needs a look at the state of things.
    pub(super) limit: u64,
    pub(super) input: Input,
    pub(super) output: Output,
    pub(super) ring: Ring,
    pub(super) store: Store,
    pub(super) config: Config,
    pub(super) stream: Stream,
    pub(super) scanner: Scanner,
    /// The front of the read buffer is inside a frame that is being skipped.
    pub(super) skipping: bool,
    /// The multi-bulk whose elements are next on the wire.
    pub(super) streaming: Option<Streaming>,
    /// What was left of multi-bulks that something behind them overtook.
    pub(super) rests: Vec<(u64, Rest)>,
    pub(super) groups: Groups,
    pub(super) batch: Option<BatchRecord>,
    pub(super) batches: u64,
    /// Those of threads that share the connection, which wait for them.
    pub(super) entered: Vec<BatchRecord>,
    /// The place of each EXEC that is not before `flushed`, and how many elements stand behind it: these have places, and no
    /// command of their own.
    pub(super) execs: VecDeque<(u64, u64)>,
    /// Blocking commands whose reply has not come.
    pub(super) blocking: VecDeque<(u64, Block)>,
    /// Commands that change the connection, and whose reply has not come.
    pub(super) changes: VecDeque<(u64, Change, Vec<u8>)>,
    /// The last command of each kind that has changed the connection, but for AUTH and SELECT.
    pub(super) changed: BTreeMap<Change, Vec<u8>>,
    /// How many of the former were lost with a connection, so that nobody knows whether they came about.
    pub(super) lost_changes: u64,
    /// When the first command of the last busy period was issued.
    used: Instant,
    /// Commands that carry a secret, and whose late reply may repeat it.
    pub(super) secrets: Vec<u64>,
    /// Push messages, oldest first.
    pub(super) pushes: VecDeque<Vec<u8>>,
    pub(super) push_bytes: usize,
    pub(super) caching: Caching,
    /// What was subscribed to or unsubscribed from, and has not been acknowledged.
    pub(super) subscribing: VecDeque<Subscribing>,
    /// How many channels and patterns, and how many shard channels, the server counts.
    pub(super) subscriptions: [u64; 2],
    /// Commands that could not be issued.
    failures: BTreeMap<u64, Error>,
    failure_count: u64,
    /// The first error nobody saw.
    pub(super) account: Option<Error>,
    /// How many of the places issued so far belong to elements of EXEC's reply, and so to no command of their own.
    pub(super) elements: u64,
    /// Every command before this place is in the hands of the operating system.
    pub(super) flushed: u64,
    /// The place of the first command since nothing was outstanding.
    period: u64,
    /// Until when the oldest command in the write buffer may stay there.
    pub(super) gathered: Option<Instant>,
    /// At which place the clock is read next.
    clock_at: u64,
    /// A command is being written from a reader.
    pub(super) feeding: bool,
    /// A thread reads from the socket without holding the engine, and has the read buffer with it: nobody else reads, or
    /// settles what it will bring.
    pub(super) away: bool,
    /// A thread writes a copy of what is in the write buffer without holding the engine: nobody else writes.
    pub(super) sending: bool,
    /// What has broken the connection while one of those threads was away; it is told when they are back. Nothing more is
    /// read until then.
    pub(super) doom: Option<Error>,
    /// Something was written since the connection last stood waiting.
    pub(super) wrote: bool,
    /// A wait has timed out, and nothing has come since.
    pub(super) silent: bool,
    /// Raised by whatever clears the WATCHes of a connection.
    pub(super) watch_generation: u64,
    /// A WATCH guard lives.
    pub(super) watching: bool,
    pub(super) link: Link,
    /// The losses of the breaks so far, oldest first.
    pub(super) losses: VecDeque<Loss>,
    /// The place behind the last one whose reply will never come although its turn has not come either; from there on the
    /// queue is as it always was.
    pub(super) holes: u64,
    /// Commands that may be sent more than once, as long as they have not been answered.
    pub(super) idempotent: VecDeque<Idempotent>,
    /// How many connections before this one, in a row, did not bring a single reply.
    pub(super) fruitless: u32,
    /// Which place was the next one when this connection was made.
    pub(super) next_before: u64,
    /// The protocol that was asked for; that of `config` is the one that was agreed on.
    pub(super) wanted: Protocol,
    /// The server was looked for as one that takes writes.
    pub(super) must_write: bool,
    /// It has said that it does not.
    pub(super) demoted: bool,
    /// Threads share the connection.
    pub(super) shared: bool,
    /// What they do when none of them holds the lock.
    pub(super) aside: Vec<Aside>,
    /// Threads share it together with connections to other nodes: one of them waits for the sockets of all, so that what has
    /// come is read by whoever settles it at once, and never by a write.
    pub(super) polled: bool,
    /// Where the server was found, if it was looked for.
    pub(super) found_at: Option<Endpoint>,
    pub(super) stats: Stats,
}

impl Engine {
    pub(super) fn new(config: Config, stream: Stream) -> Self {
        Engine {
            head: 0,
            next: 0,
            issued: 0,
            breaks: 0,
            limit: 0,
            input: Input::new(),
            output: Output::new(),
            ring: Ring::default(),
            store: Store::default(),
            stream,
            scanner: Scanner::new(false),
            skipping: false,
            streaming: None,
            rests: Vec::new(),
            groups: Groups::default(),
            batch: None,
            batches: 0,
            entered: Vec::new(),
            execs: VecDeque::new(),
            blocking: VecDeque::new(),
            changes: VecDeque::new(),
            changed: BTreeMap::new(),
            lost_changes: 0,
            used: Instant::now(),
            secrets: Vec::new(),
            pushes: VecDeque::new(),
            push_bytes: 0,
            caching: Caching::default(),
            subscribing: VecDeque::new(),
            subscriptions: [0, 0],
            failures: BTreeMap::new(),
            failure_count: 0,
            account: None,
            elements: 0,
            flushed: 0,
            period: 0,
            gathered: None,
            clock_at: 0,
            feeding: false,
            away: false,
            sending: false,
            doom: None,
            wrote: false,
            silent: false,
            watch_generation: 0,
            watching: false,
            link: Link::Up,
            losses: VecDeque::new(),
            holes: 0,
            idempotent: VecDeque::new(),
            fruitless: 0,
            next_before: 0,
            wanted: config.protocol,
            must_write: false,
            demoted: false,
            shared: false,
            aside: Vec::new(),
            polled: false,
            found_at: None,
            stats: Stats::default(),
            config,
        }
    }

    // Issuing.

    /// Encodes a command of this crate's own types and gives it the next place.
    #[inline(always)]
    pub(super) fn issue<A: Arguments>(&mut self, command: &Command<A>) -> u64 {
        if self.issued >= self.limit
            && let Err(error) = self.make_room(1)
        {
            return self.born_failed(error);
        }
        let mut out = ArgWriter::new(&mut self.output.buf, self.output.len);
        out.command(1 + command.arguments().count(), command.name());
        let written = command.arguments().write(&mut out);
        match (written, out.end()) {
            (Ok(()), Some(end)) => self.output.len = end,
            (written, _) => {
                let fault = out.fault();
                return self.unwritable(written.err(), fault);
            }
        }
        let place = self.issued;
        self.issued += 1;
        if let Some(block) = command.block() {
            self.note_blocking(place, block);
        }
        if place == self.next || self.output.len >= self.config.write_batch || place >= self.clock_at {
            self.after_issue(place);
        }
        place
    }

    /// Gives the next place to a command that is encoded already.
    pub(super) fn issue_encoded(&mut self, bytes: &[u8], block: Option<Block>) -> u64 {
        if self.issued >= self.limit
            && let Err(error) = self.make_room(1)
        {
            return self.born_failed(error);
        }
        self.output.append(bytes);
        let place = self.issued;
        self.issued += 1;
        if let Some(block) = block {
            self.note_blocking(place, block);
        }
        self.after_issue(place);
        place
    }

    fn note_blocking(&mut self, place: u64, block: Block) {
        self.forget_unblocked();
        self.blocking.push_back((place, block));
    }

    /// Lets go of blocking commands whose reply has come.
    fn forget_unblocked(&mut self) {
        while self.blocking.front().is_some_and(|blocking| blocking.0 < self.next) {
            self.blocking.pop_front();
        }
    }

    /// Whether the command of this place has yet to be written, and can be.
    #[inline]
    pub(super) fn is_unwritten(&self, place: u64) -> bool {
        !self.output.is_empty() && place >= self.flushed && self.is_up() && self.doom.is_none()
    }

    /// How many commands have yet to be written.
    #[inline]
    pub(super) fn unwritten(&self) -> u64 {
        self.issued.saturating_sub(self.flushed)
    }

    #[cold]
    fn unwritable(&mut self, why: Option<Unwritten>, fault: Fault) -> u64 {
        self.born_failed(why.map_or_else(|| fault.error(), super::issue::unwritten))
    }

    /// Makes sure that `places` more commands can be taken in: the connection works, what was gathered is being taken by
    /// the socket, and the queue is not too long.
    #[cold]
    #[inline(never)]
    pub(super) fn make_room(&mut self, places: u64) -> Result<()> {
        // Threads that share the connection do not wait here.
        if self.demoted && !self.shared {
            self.leave_demoted();
        } else if self.silent && self.found_at.is_some() && !self.shared {
            self.look_whether_moved();
        }
        let lost_changes = self.lost_changes;
        let cap = self.config.max_outstanding as u64;
        let full = self.issued - self.next + places > cap && !self.shared;
        if !self.is_up() {
            let much = self.output.pending().len() >= self.config.write_batch;
            // What is larger than the queue is taken in whole when nothing else is there.
            let full = full && self.issued > self.next;
            if matches!(self.link, Link::Down(_)) && !full && !much {
                // Whoever waits will dial; until then commands gather.
                return Ok(());
            }
            let mut deadline = Deadline::new(self.config.timeout);
            self.up(&mut deadline)?;
        }
        // Down to half, so that this is not paid for at every command.
        let keep = (cap / 2).min(cap.saturating_sub(places)).min(self.issued - self.next);
        let goal = if full { self.issued - keep } else { self.next };
        let mut deadline = Deadline::new(self.allowance(goal.saturating_sub(1)));
        if self.output.pending().len() >= self.config.write_batch {
            self.flush(&mut deadline)?;
        }
        if full {
            self.stats.forced_drains += 1;
            self.settle_until(goal, &mut deadline)?;
        }
        if self.lost_changes != lost_changes {
            // The command was meant to run behind a change that was lost on the way: it is lost with it.
            return Err(self.lost_error(place::NONE));
        }
        self.limit = self.next.saturating_add(cap);
        Ok(())
    }

    /// Decides whether what has been gathered goes out.
    ///
    /// Nothing here waits. What the socket does not take stays for the next command, which then waits before it is taken
    /// in (`make_room`), or for whoever waits for a reply.
    #[inline(never)]
    pub(super) fn after_issue(&mut self, place: u64) {
        let first = place == self.next;
        if first {
            self.look_before(place);
        }
        let send = self.output.pending().len() >= self.config.write_batch
            || match self.config.send_when {
                SendWhen::Eager => self.batch.is_none(),
                SendWhen::Gathering => false,
                SendWhen::Adaptive if self.batch.is_some() => false,
                SendWhen::Adaptive => {
                    // Whether the busy period before this one had but one command.
                    let alone = first && place - self.period <= 1;
                    alone || self.gathered_long()
                }
            };
        if first {
            self.period = place;
        }
        self.clock_at = match self.config.send_when {
            SendWhen::Eager => place + 1,
            // Ever more seldom, since those who issue many do so fast.
            SendWhen::Adaptive => place + (self.issued - self.flushed).max(1),
            SendWhen::Gathering => u64::MAX,
        };
        if send && self.is_up() {
            // An error breaks the connection, and every handle will say so.
            let _ = self.try_flush();
        }
        if !self.is_up() || self.output.pending().len() >= self.config.write_batch {
            self.limit = 0;
        }
    }

    /// What is to be looked at before the first command since nothing was outstanding is sent: whether there is a reply
    /// that nobody asked for, and after some idle time, whether the server has closed the connection.
    pub(super) fn look_before(&mut self, place: u64) {
        self.forget_answered();
        let now = Instant::now();
        let idle = now.saturating_duration_since(std::mem::replace(&mut self.used, now));
        let unwritten = self.flushed == place && self.output.written == 0;
        if idle >= self.config.idle_check && unwritten && self.is_up() {
            self.input.make_room(usize::MAX);
            // What it finds out it tells the handles.
            let _ = self.read_now();
        }
        if self.input.len() > 0 && self.streaming.is_none() && self.is_up() {
            self.look_at_surplus();
        }
    }

    /// From which place on `after_issue` has something to do.
    #[inline(always)]
    pub(super) fn looks_again_at(&self) -> u64 {
        self.clock_at
    }

    /// Whether the oldest command in the write buffer has been there for long; begins to count if there was none.
    fn gathered_long(&mut self) -> bool {
        match self.gathered {
            Some(until) => Instant::now() >= until,
            None => {
                self.gathered = Some(Instant::now() + GATHER);
                false
            }
        }
    }

    /// The write buffer is empty.
    pub(super) fn all_written(&mut self) {
        self.output.clear();
        self.flushed = self.issued;
        self.execs.clear();
        self.gathered = None;
    }

    /// So many more commands are wholly written, and no longer in the write buffer.
    pub(super) fn commands_written(&mut self, count: u64) {
        self.flushed = self.after_commands(self.flushed, count);
        while self.execs.front().is_some_and(|exec| exec.0 < self.flushed) {
            self.execs.pop_front();
        }
    }

    /// Keeps the error of a command that gets no place, for its handle.
    #[cold]
    pub(super) fn born_failed(&mut self, error: Error) -> u64 {
        let number = self.failure_count;
        self.failure_count += 1;
        self.failures.insert(number, error);
        place::failed(number)
    }

    /// Nobody holds the handle of a failed command any more.
    #[cfg(feature = "r2d2")]
    pub(super) fn forget_failures(&mut self) {
        self.failures.clear();
    }

    pub(super) fn take_failure(&mut self, number: u64) -> Error {
        self.failures.remove(&number).unwrap_or(Error::Refused(GONE))
    }

    // The whole connection.

    /// The handshake is over: from here on places and bytes are counted.
    pub(super) fn opened(&mut self) {
        self.stats = Stats::default();
        self.wrote = false;
    }

    pub(super) fn outstanding(&self) -> usize {
        if self.is_broken() { 0 } else { (self.issued - self.next).saturating_sub(self.ring.voids()) as usize }
    }

    pub(super) fn stats_now(&self) -> Stats {
        Stats { commands: self.issued - self.elements, stored: self.store.len() as u64, ..self.stats }
    }

    /// Sends everything and reads everything before this place, and the rest of a multi-bulk that is being read.
    pub(super) fn sync(&mut self, place: u64, deadline: &mut Deadline) -> Result<()> {
        self.flush(deadline)?;
        self.settle_until(place, deadline)?;
        while self.is_up() && !self.clear_streaming()? {
            self.fill(deadline)?;
        }
        Ok(())
    }

    /// Ends the connection so that nothing that was sent is lost: a socket that is closed with unread replies in it
    /// resets the connection, and the server then drops the commands that it has not read.
    pub(super) fn close(&mut self) {
        if self.is_broken() {
            return;
        }
        let mut deadline = Deadline::new(Some(self.config.linger));
        let endless = self.blocking.iter().find(|blocking| blocking.0 >= self.next && blocking.1 == Block::Forever);
        let last = endless.map_or(self.issued, |blocking| blocking.0);
        if last < self.issued {
            let _ = self.flush(&mut deadline);
            let _ = self.settle_until(last, &mut deadline);
        } else {
            let _ = self.sync(last, &mut deadline);
        }
        if !self.is_up() || self.stream.shutdown_write().is_err() {
            return;
        }
        if last < self.issued {
            // The server is in no hurry to answer what it is blocked on.
            return;
        }
        let mut deadline = Deadline::new(Some(self.config.linger));
        while let Ok(left) = deadline.left() {
            self.input.start = self.input.end;
            self.input.make_room(usize::MAX);
            match self.stream.read(self.input.room(), left) {
                Ok(Some(n)) if n > 0 => self.input.end += n,
                Ok(None) => {}
                _ => return,
            }
        }
    }

    // The time a wait may take.

    /// How long a wait for this place may take: the response timeout, and the time of each blocking command up to it.
    pub(super) fn allowance(&mut self, place: u64) -> Option<Duration> {
        let mut time = self.config.timeout?;
        self.forget_unblocked();
        for (_, block) in self.blocking.iter().take_while(|blocking| blocking.0 <= place) {
            match block {
                Block::For(more) => time = time.saturating_add(*more).saturating_add(SLACK),
                Block::Forever => return None,
            }
        }
        Some(time)
    }

    /// Whether a wait for this place may never end, or is for a blocking command.
    pub(super) fn may_block(&mut self, place: u64) -> bool {
        self.forget_unblocked();
        self.blocking.binary_search_by_key(&place, |blocking| blocking.0).is_ok()
            || self
                .blocking
                .iter()
                .take_while(|blocking| blocking.0 <= place)
                .any(|blocking| blocking.1 == Block::Forever)
    }

    // Errors.

    /// Accounts for an error that no handle will tell.
    pub(super) fn unseen(&mut self, place: u64, mut error: Error) {
        if let Some(index) = self.secrets.iter().position(|secret| *secret == place) {
            self.secrets.swap_remove(index);
            if let Error::Server(server) = &error {
                error = server.without_text().into();
            }
        }
        for batch in self.batch.iter_mut().chain(&mut self.entered) {
            if let Some(position) = batch.position(place) {
                batch.note(position, error);
                return;
            }
        }
        self.stats.unseen_errors += 1;
        match &self.account {
            None => self.account = Some(error),
            Some(_) => self.discard(error),
        }
    }

    pub(super) fn unseen_anywhere(&mut self, error: Error) {
        self.unseen(place::NONE, error);
    }

    /// Hands out the account.
    pub(super) fn take_account(&mut self) -> Result<()> {
        self.stats.unseen_errors = 0;
        self.account.take().map_or(Ok(()), Err)
    }

    /// The place of the command that comes `count` commands after the one at `place`.
    pub(super) fn after_commands(&self, mut place: u64, mut count: u64) -> u64 {
        for (exec, elements) in self.execs.iter().copied() {
            if exec < place {
                continue;
            }
            let up_to = exec - place + 1;
            if count < up_to {
                break;
            }
            count -= up_to;
            place = exec + 1 + elements;
        }
        place + count
    }

    // Handles.

    /// Whether this is a place whose reply is still to come. Members of transactions and failed commands have numbers
    /// beyond every place that was issued.
    #[inline(always)]
    pub(super) fn is_outstanding(&self, place: u64) -> bool {
        place >= self.next.max(self.holes) && place < self.issued && !self.is_broken()
    }

    /// Gives a place up: its reply will be skipped, and an error accounted for.
    pub(super) fn detach(&mut self, place: u64) {
        match Place::of(place) {
            Place::Ordinary(place) => self.detach_ordinary(place),
            Place::Busy | Place::SecondBatch => {}
            Place::Answered(number) => drop(self.caching.take_answer(number)),
            Place::Failed(number) => {
                let error = self.take_failure(number);
                self.unseen(place, error);
            }
            Place::Member { group: id, index } => {
                if let Some(element) = self.detach_member(id, index) {
                    self.detach_ordinary(element);
                }
                self.groups.release(id);
            }
        }
    }

    /// Gives a member of a transaction up, and returns the place of its element if it has one by now.
    fn detach_member(&mut self, id: u32, index: u32) -> Option<u64> {
        let group = self.groups.get(id)?;
        match &group.state {
            State::Open => {
                group.detached.push(index);
                None
            }
            State::Discarded => None,
            State::Committed { .. } if index == place::COMMIT => {
                group.commit_detached = true;
                None
            }
            State::Committed { multi } => Some(group.exec(*multi) + 1 + u64::from(index)),
            State::Failed(error) if index == place::COMMIT => {
                let error = error.clone();
                self.unseen_anywhere(error);
                None
            }
            State::Ready { .. } | State::Entered { .. } | State::Failed(_) if group.refusal(index).is_some() => {
                let error = group.refusal(index).cloned()?;
                self.unseen(place::member(id, index), error);
                None
            }
            State::Ready { .. } | State::Entered { .. } if index == place::COMMIT => None,
            State::Ready { first } => Some(first + u64::from(index)),
            State::Entered { first } => Some(group.entered(*first, index)),
            // The commit tells it.
            State::Failed(_) => None,
        }
    }

    fn detach_ordinary(&mut self, place: u64) {
        if place < self.next {
            if let Some(frame) = self.store.take(place) {
                self.check_skipped(place, &frame);
            } else if let Some(error) = self.loss_of(place) {
                self.unseen(place, error);
            }
        } else if self.is_lost(place) {
            self.unseen(place, self.lost_error(place));
        } else {
            self.ring.detach(place, self.next, self.issued);
        }
    }

    /// Whether the drop of something may wait for the reply of this place.
    pub(super) fn may_wait_in_drop(&mut self, place: u64) -> bool {
        place >= self.next && self.is_up() && !self.silent && !self.may_block(place) && !std::thread::panicking()
    }

    /// What the drop of a live handle does: reads up to and including its reply, unless that could take long.
    #[inline(never)]
    pub(super) fn drop_handle(&mut self, place: u64) {
        let last = match Place::of(place) {
            Place::Ordinary(place) => Some(place),
            Place::Member { group, .. } => self.groups.get(group).and_then(|group| group.exec_place()),
            Place::Failed(_) | Place::Answered(_) | Place::Busy | Place::SecondBatch => None,
        };
        // From here on an error is accounted for when it comes, now or later.
        self.detach(place);
        if let Some(last) = last
            && self.may_wait_in_drop(last)
        {
            let mut deadline = Deadline::new(self.config.timeout);
            let _ = self.settle_until(last + 1, &mut deadline);
        }
    }
}

pub(crate) const BUSY: &str = "the connection is in use by what called this: a FromReply or a ToArg may not use it";
pub(crate) const SECOND_BATCH: &str = "another batch is open on this connection";
pub(crate) const GONE: &str = "the reply has been taken or given up";
pub(crate) const EMPTY: &str = "an empty list where the server needs at least one element";
pub(crate) const TOO_LONG: &str = "an argument is longer than 512 MiB";
