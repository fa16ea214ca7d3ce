//! Issuing commands: by method, by name, as a transaction.

use std::ops::Range;

use super::Connection;
use super::batches::BatchRecord;
use super::engine::{BUSY, EMPTY, Engine, SECOND_BATCH};
use super::groups::{Group, State};
use super::place;
use super::queue::Mark;
use super::table::{Change, Effect, effect};
use crate::args::{ArgWriter, Arguments, Block, Command, Gathered, ToArgs, Unwritten, gather, gather_noting};
use crate::error::{Error, Result};
use crate::resp::{self, Frame};

/// A command that is encoded, away from any connection.
#[derive(Debug, Default)]
pub(crate) struct Encoded {
    pub(crate) bytes: Vec<u8>,
    pub(crate) block: Option<Block>,
}

impl Encoded {
    /// Encodes a command of a method.
    pub(crate) fn of<A: Arguments>(command: &Command<A>) -> Result<Encoded> {
        let mut written = Ok(());
        let arguments = gather(|out| written = command.arguments().write(out))?;
        written.map_err(unwritten)?;
        Ok(Encoded { bytes: framed(command.name(), &arguments), block: command.block() })
    }

    /// Encodes a command of a method, and says where in its bytes each key stands.
    pub(crate) fn with_keys<A: Arguments>(command: &Command<A>) -> Result<(Encoded, Vec<Range<usize>>)> {
        let (mut written, mut keys) = (Ok(()), Vec::new());
        let arguments = gather_noting(Some(&mut keys), |out| written = command.arguments().write(out))?;
        written.map_err(unwritten)?;
        let bytes = framed(command.name(), &arguments);
        let head = bytes.len() - arguments.bytes.len();
        for key in &mut keys {
            *key = key.start + head..key.end + head;
        }
        Ok((Encoded { bytes, block: command.block() }, keys))
    }

    /// Encodes a command by its name, of one word or several.
    pub(crate) fn named(name: &str, arguments: impl ToArgs) -> Result<Encoded> {
        let mut words = name.split_ascii_whitespace();
        let first = words.next().ok_or(Error::Argument("a command without a name"))?;
        let arguments = gather(|out| {
            words.for_each(|word| out.arg(word));
            arguments.write_args(out);
        })?;
        Ok(Encoded { bytes: framed(first, &arguments), block: None })
    }

    /// Whether the command is about tracking, which a cache on the connection relies on.
    fn is_tracking(&self) -> bool {
        let mut words = resp::encode::arguments(&self.bytes);
        let mut is = |name: &str| words.next().is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()));
        is("CLIENT") && {
            let subcommand = words.next().unwrap_or_default();
            subcommand.eq_ignore_ascii_case(b"TRACKING") || subcommand.eq_ignore_ascii_case(b"CACHING")
        }
    }

    /// Whether the command is about the one behind it, whosever that may be.
    pub(crate) fn is_for_the_next(&self) -> bool {
        let mut words = resp::encode::arguments(&self.bytes);
        let is = |word: Option<&[u8]>, name: &str| word.is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()));
        let first = words.next();
        is(first, "ASKING") || (is(first, "CLIENT") && is(words.next(), "CACHING"))
    }

    /// What the command does to the queue of replies.
    pub(crate) fn effect(&self) -> Effect {
        Encoded::effect_of(&self.bytes)
    }

    /// What the command does of which these are the bytes.
    pub(crate) fn effect_of(bytes: &[u8]) -> Effect {
        effect(resp::encode::arguments(bytes))
    }
}

/// The error of a command whose arguments could not be written.
pub(crate) fn unwritten(why: Unwritten) -> Error {
    match why {
        Unwritten::Empty => Error::Argument(EMPTY),
    }
}

fn framed(name: &str, arguments: &Gathered) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut out = ArgWriter::new(&mut bytes, 0);
    out.command(1 + arguments.count, name);
    out.raw(&arguments.bytes);
    let end = out.end().unwrap_or(0);
    bytes.truncate(end);
    bytes
}

impl Connection {
    /// Issues a command and returns its place.
    ///
    /// Inlined into each command's method, so that its name and the number of its arguments are constants there.
    #[inline(always)]
    pub(crate) fn issue<A: Arguments>(&self, command: &Command<A>) -> u64 {
        if A::DIRECT {
            match self.engine.try_borrow_mut() {
                Ok(mut engine) => engine.issue(command),
                Err(_) => place::BUSY,
            }
        } else {
            // What the arguments do is their author's: it is done before the connection is touched.
            self.issue_encoded(Encoded::of(command))
        }
    }

    fn issue_encoded(&self, encoded: Result<Encoded>) -> u64 {
        let issued = self.with(|engine| match encoded {
            Ok(encoded) => engine.issue_encoded(&encoded.bytes, encoded.block),
            Err(error) => engine.born_failed(error),
        });
        issued.unwrap_or(place::BUSY)
    }

    /// Issues a command that is encoded already.
    pub(crate) fn issue_ready(&self, encoded: &Encoded) -> u64 {
        self.with(|engine| engine.issue_encoded(&encoded.bytes, encoded.block)).unwrap_or(place::BUSY)
    }

    /// A command that is not sent, for its handle.
    #[cold]
    pub(crate) fn fail(&self, error: Error) -> u64 {
        self.with(|engine| engine.born_failed(error)).unwrap_or(place::BUSY)
    }

    /// Issues a command by its name, unless the queue of replies cannot bear it. `idempotent`: it may be sent more than once.
    pub(crate) fn issue_named(&self, name: &str, arguments: impl ToArgs, idempotent: bool) -> u64 {
        let encoded = Encoded::named(name, arguments);
        self.with(|engine| {
            let mut encoded = match encoded {
                Ok(encoded) => encoded,
                Err(error) => return engine.born_failed(error),
            };
            if engine.caching.is_on() && encoded.is_tracking() {
                return engine.born_failed(CACHES);
            }
            match encoded.effect() {
                Effect::Ordinary => {}
                Effect::Refused(why) => return engine.born_failed(Error::Refused(why)),
                Effect::Barrier => return engine.issue_alone(&encoded.bytes),
                Effect::Changes(change) => return engine.issue_change(&encoded.bytes, change),
                Effect::Tracks if !engine.config.reconnect.is_never() => {
                    return engine.born_failed(Error::Refused(TRACKS));
                }
                Effect::Tracks => return engine.issue_change(&encoded.bytes, Change::Tracking),
                Effect::Blocking(block) => encoded.block = Some(block),
            }
            if idempotent {
                return engine.issue_idempotent(encoded);
            }
            engine.issue_encoded(&encoded.bytes, encoded.block)
        })
        .unwrap_or(place::BUSY)
    }

    /// Issues a command that may be sent more than once.
    pub(crate) fn issue_idempotent<A: Arguments>(&self, command: &Command<A>) -> u64 {
        let encoded = Encoded::of(command);
        self.with(|engine| match encoded {
            Ok(encoded) => engine.issue_idempotent(encoded),
            Err(error) => engine.born_failed(error),
        })
        .unwrap_or(place::BUSY)
    }

    // Batches.

    /// Opens a batch, and returns its number; there is one at a time.
    pub(crate) fn open_batch(&self) -> Result<u64> {
        self.with_guards(|engine| {
            if engine.batch.is_some() {
                return Err(Error::Refused(SECOND_BATCH));
            }
            engine.batches += 1;
            engine.batch = Some(BatchRecord::new(engine.batches));
            Ok(engine.batches)
        })?
    }

    /// Issues a command of the open batch.
    #[inline(always)]
    pub(crate) fn issue_in_batch<A: Arguments>(&self, command: &Command<A>) -> u64 {
        if A::DIRECT
            && let Ok(mut engine) = self.engine.try_borrow_mut()
        {
            let place = engine.issue(command);
            engine.add_to_batch(place);
            return place;
        }
        let place = self.issue(command);
        self.add_to_batch(place);
        place
    }

    /// Says that a command belongs to the open batch.
    pub(crate) fn add_to_batch(&self, place: u64) {
        let _ = self.with(|engine| engine.add_to_batch(place));
    }

    /// Sends the batch, reads all of it, closes it, and returns its outcome.
    pub(crate) fn finish_batch(&self, id: u64) -> Result<()> {
        self.with(|engine| {
            let read = match engine.batch_end(id)? {
                Some(end) => {
                    let mut deadline = super::Deadline::new(engine.allowance(end - 1));
                    let read = engine.flush(&mut deadline).and_then(|()| engine.settle_until(end, &mut deadline));
                    read.map_err(|error| engine.of_place(engine.batch_start(), error))
                }
                None => Ok(()),
            };
            let outcome = engine.batch.take().map_or(Ok(()), BatchRecord::outcome);
            // What went wrong first is more to the point than that the connection broke later.
            outcome.and(read)
        })?
    }

    /// Accounts for the error of a batch that was refused and is dropped.
    pub(crate) fn unseen(&self, error: Error) {
        let _ = self.with(|engine| engine.unseen_anywhere(error));
    }

    /// Does the same for a batch that is dropped, unless that could take long, and accounts for its outcome. What has not
    /// been read by then is accounted for one by one.
    pub(crate) fn drop_batch(&self, id: u64) {
        if self.with(|engine| engine.drop_batch(id)).is_err() {
            self.ended.set(super::Ended { batch: Some(id), ..self.ended.get() });
        }
    }

    // Transactions.

    /// What keeps a command out of a transaction on this connection in particular.
    pub(crate) fn admit(&self, encoded: &Encoded) -> Result<()> {
        if self.with(|engine| engine.caching.is_on())? && encoded.is_tracking() { Err(CACHES) } else { Ok(()) }
    }

    /// Opens a transaction, and returns its number. On a connection that is in use, there is none.
    pub(crate) fn open_group(&self) -> Option<u32> {
        self.with(|engine| engine.groups.open()).ok()
    }

    /// A handle of one more command of an open transaction: its index.
    pub(crate) fn add_to_group(&self, id: u32) -> Option<u32> {
        self.with(|engine| engine.groups.get(id).map(Group::add)).ok()?
    }

    /// A handle of a command that could not be encoded, for which the transaction fails when it is committed: its index.
    #[cold]
    pub(crate) fn refuse_in_group(&self, id: u32, error: Error) -> Option<u32> {
        self.with(|engine| {
            let group = engine.groups.get(id)?;
            let index = group.add();
            group.refused.push((index, error));
            Some(index)
        })
        .ok()?
    }

    /// Fails an open transaction: the place of its commit.
    pub(crate) fn fail_group(&self, id: u32, error: Error) -> u64 {
        let _ = self.with(|engine| {
            if let Some(group) = engine.groups.get(id) {
                group.state = State::Failed(error);
            }
        });
        place::member(id, place::COMMIT)
    }

    /// How many commands an open transaction has.
    pub(crate) fn group_len(&self, id: u32) -> Option<usize> {
        self.with(|engine| engine.groups.get(id).map(|group| group.size as usize - group.refused.len())).ok()?
    }

    /// Gives an open transaction up.
    pub(crate) fn discard_group(&self, id: u32) {
        let _ = self.with(|engine| {
            if let Some(group) = engine.groups.get(id) {
                group.state = State::Discarded;
            }
            engine.groups.release(id);
        });
    }

    /// Issues a transaction: MULTI, the commands in `bytes`, EXEC; or nothing, if a command is `missing` from `bytes`.
    /// Returns the place of the commit, and whether the server has forgotten, or will, what was watched for it.
    pub(crate) fn commit_group(&self, id: u32, bytes: &[u8], missing: bool, watch: Option<u64>) -> (u64, bool) {
        self.with_guards(|engine| {
            if engine.refuse_commit(id, missing) {
                return (place::member(id, place::COMMIT), false);
            }
            engine.commit(id, bytes, watch)
        })
        .unwrap_or((place::BUSY, false))
    }

    // WATCH.

    /// Watches keys and returns the generation of the watch.
    pub(crate) fn begin_watch(&self, keys: &Gathered) -> Result<u64> {
        let bytes = framed("WATCH", keys);
        let place = self.with_guards(|engine| {
            if engine.watching {
                return Err(Error::Refused("another watch is held on this connection"));
            }
            Ok(engine.issue_encoded(&bytes, None))
        })??;
        if let Err(error) = self.wait::<()>(place) {
            if let Error::Timeout = error {
                // The server may yet take the WATCH: nothing must stay watched that nobody guards.
                self.end_watch(false);
            }
            return Err(error);
        }
        self.with(|engine| {
            engine.watching = true;
            engine.watch_generation
        })
    }

    /// The guard of a watch is gone. `sent`: with a transaction, which has unwatched everything.
    pub(crate) fn end_watch(&self, sent: bool) {
        if self.with(|engine| engine.end_watch(sent)).is_err() {
            self.ended.set(super::Ended { watch: true, ..self.ended.get() });
        }
    }
}

const UNWATCH: &[u8] = b"*1\r\n$7\r\nUNWATCH\r\n";
const CACHES: Error = Error::Refused("tracking belongs to the cache of this connection");
const TRACKS: &str = "a connection that is made again after a break would miss what changed meanwhile: use CLIENT TRACKING \
    without Config::reconnect";
const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";

impl Engine {
    #[inline(always)]
    fn add_to_batch(&mut self, place: u64) {
        if let Some(batch) = &mut self.batch {
            batch.add(place);
        }
    }

    /// The place behind the last command of the open batch, if it has any.
    fn batch_end(&self, id: u64) -> Result<Option<u64>> {
        match &self.batch {
            Some(batch) if batch.id == id => Ok(batch.end()),
            _ => Err(Error::Refused("the batch is not open on this connection")),
        }
    }

    /// The place of the first command of the open batch that was issued.
    fn batch_start(&self) -> u64 {
        self.batch.as_ref().and_then(BatchRecord::start).unwrap_or(place::NONE)
    }

    pub(super) fn drop_batch(&mut self, id: u64) {
        let Ok(end) = self.batch_end(id) else { return };
        if let Some(end) = end
            && !std::thread::panicking()
        {
            let _ = self.try_flush();
            if self.may_wait_in_drop(end - 1) {
                let mut deadline = super::Deadline::new(self.config.timeout);
                let _ = self.settle_until(end, &mut deadline);
            }
        }
        if let Some(Err(error)) = self.batch.take().map(BatchRecord::outcome) {
            self.unseen_anywhere(error);
        }
    }

    pub(super) fn end_watch(&mut self, sent: bool) {
        self.watching = false;
        // A WATCH may be among what is kept for the next connection.
        if !sent && (self.is_up() || !self.output.is_empty()) {
            self.unwatch();
        }
    }

    /// Issues UNWATCH. It is taken in whatever the state of the queue: keys must not stay watched that nobody guards.
    fn unwatch(&mut self) {
        self.watch_generation += 1;
        self.output.append(UNWATCH);
        let place = self.issued;
        self.issued += 1;
        self.ring.detach(place, self.next, self.issued);
        // While panicking nothing is sent.
        if !std::thread::panicking() {
            self.after_issue(place);
        }
    }

    /// A command that may have nothing before or behind it, such as AUTH: one server gives no reply to a failing AUTH
    /// behind unread replies. Everything earlier is read, it is sent alone and waited for; its reply is kept for its
    /// handle, without the text of an error, which might repeat a secret.
    fn issue_alone(&mut self, bytes: &[u8]) -> u64 {
        let mut deadline = super::Deadline::new(self.allowance(self.issued));
        if let Err(error) = self.sync(self.issued, &mut deadline) {
            return self.born_failed(error);
        }
        let place = self.issue_encoded(bytes, None);
        if !matches!(place::Place::of(place), place::Place::Ordinary(_)) {
            return place;
        }
        match self.settle_until(place + 1, &mut deadline) {
            Ok(()) => {}
            Err(error) => {
                self.secrets.push(place);
                self.detach(place);
                // The server may yet take it.
                if self.is_to_come(place) {
                    self.changes.push_back((place, Change::Login, bytes.to_vec()));
                    self.refresh_head();
                }
                let error = self.of_place(place, error);
                return self.born_failed(error);
            }
        }
        let Some(frame) = self.store.take(place) else { return self.born_failed(self.lost_error(place)) };
        match resp::frame(&frame) {
            Some(Frame::Error(message)) => {
                let error = crate::error::ServerError::new(message).without_text();
                self.born_failed(error.into())
            }
            _ => {
                self.follow_login(bytes);
                self.store.put(place, &frame);
                place
            }
        }
    }

    /// Takes in two commands of which neither is to be sent without the other, and returns the place of the first. What is to
    /// be known of them is to be noted before `after_issue`, since their replies may come there.
    pub(super) fn append_two(&mut self, first: &[u8], second: &[u8]) -> Result<u64> {
        self.make_room(2)?;
        self.output.append(first);
        self.output.append(second);
        let place = self.issued;
        self.issued += 2;
        Ok(place)
    }

    pub(super) fn issue_idempotent(&mut self, encoded: Encoded) -> u64 {
        let place = self.issue_encoded(&encoded.bytes, encoded.block);
        if !self.config.reconnect.is_never()
            && let place::Place::Ordinary(place) = place::Place::of(place)
            && self.is_to_come(place)
        {
            self.note_idempotent(place, encoded.bytes);
        }
        place
    }

    /// A command such as SELECT: when it is acknowledged, the connection's own idea of itself follows.
    pub(super) fn issue_change(&mut self, bytes: &[u8], change: Change) -> u64 {
        let place = self.issue_encoded(bytes, None);
        if let place::Place::Ordinary(place) = place::Place::of(place)
            && self.is_to_come(place)
        {
            self.changes.push_back((place, change, bytes.to_vec()));
            self.refresh_head();
        }
        place
    }

    fn commit(&mut self, id: u32, bytes: &[u8], watch: Option<u64>) -> (u64, bool) {
        let commit = place::member(id, place::COMMIT);
        let prepared = self.prepare_commit(id, watch);
        let issued = self.issued;
        let Some(group) = self.groups.get(id) else { return (place::BUSY, false) };
        if let Err(error) = prepared {
            let forgotten = matches!(error, Error::Aborted);
            group.state = State::Failed(error);
            return (commit, forgotten);
        }
        let size = u64::from(group.size);
        group.state = State::Committed { multi: issued };
        group.watched = watch.is_some();
        let detached = std::mem::take(&mut group.detached);
        self.groups.committed(id);
        self.output.append(MULTI);
        self.output.append(bytes);
        self.output.append(EXEC);
        self.issued += 2 * size + 2;
        let exec = issued + 1 + size;
        let mut mark = |place, mark| self.ring.set(place, mark, self.next, self.issued);
        mark(issued, Mark::Multi);
        for place in issued + 1..exec {
            mark(place, Mark::Queued);
        }
        mark(exec, Mark::Exec);
        for index in detached {
            mark(exec + 1 + u64::from(index), Mark::Detached);
        }
        self.caching.forget_all(self.issued);
        // Whatever comes of it, this EXEC ends every watch.
        self.watch_generation += 1;
        self.execs.push_back((exec, size));
        self.elements += size;
        self.after_issue(issued);
        (commit, true)
    }

    /// Fails a transaction from which a command is missing. Without it, the others must not run.
    fn refuse_commit(&mut self, id: u32, missing: bool) -> bool {
        let Some(group) = self.groups.get(id) else { return false };
        match group.fail_for_refused() {
            Some(errors) => errors.into_iter().for_each(|error| self.unseen_anywhere(error)),
            None if missing => group.state = State::Failed(Error::Refused(BUSY)),
            None => return false,
        }
        true
    }

    fn prepare_commit(&mut self, id: u32, watch: Option<u64>) -> Result<()> {
        if self.is_broken() {
            return self.check();
        }
        match watch {
            Some(generation) if generation != self.watch_generation => return Err(Error::Aborted),
            None if self.watching => {
                return Err(Error::Refused("a watch is held on this connection, and this transaction would end it"));
            }
            _ => {}
        }
        let size = self.groups.get(id).map_or(0, |group| u64::from(group.size));
        self.make_room(2 * size + 2)?;
        match watch {
            // The connection broke meanwhile, and nothing is watched on the next one.
            Some(generation) if generation != self.watch_generation => Err(Error::Aborted),
            _ => Ok(()),
        }
    }
}
