//! Transactions of one slot, which go to its node in one piece, and to another one if it has moved.

use std::cell::{Cell, RefCell};
use std::fmt;

use super::bulk::ClusterMultiBulk;
use super::core::{Core, NO_SLOT, NOWHERE};
use super::kinds::{Kind, kind};
use super::reply::{ClusterQueued, ClusterReply};
use super::spread::{cross_slot, pieces};
use super::ticket::{BUSY, COMMIT, member};
use super::wait::Time;
use super::{Cluster, Issued};
use crate::args::{Arguments, Command, ToArgs};
use crate::connection::{Effect, Encoded, Stored};
use crate::error::{Error, Result, ServerError, UnexpectedReply, WaitError};
use crate::execute::Execute;
use crate::resp::{self, Frame, encode};
use crate::values::FromReply;

/// A transaction of a [`Cluster`], made by [`Cluster::transaction`]: all its keys must be of one slot.
///
/// Nothing is sent before [`commit`](ClusterTransaction::commit), which sends MULTI, the commands and EXEC in one piece to the
/// node that has the slot. If that answers that the slot has moved or is moving, or that it serves nobody now, nothing has
/// run, and the whole goes to the other node, or there again after a pause, like a single command. If the connection breaks when
/// it has been sent, it is lost, and may have run.
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(all(unix, feature = "testing"))] {
/// # let nodes = redefer::testing::Cluster::builder().replicas(0).start()?;
/// use redefer::prelude::*;
/// use redefer::cluster::Cluster;
///
/// let cluster = Cluster::open(nodes.urls())?;
/// let tx = cluster.transaction();
/// let one = tx.incr("{user:1}:visits");
/// let two = tx.get::<Option<String>>("{user:1}:name");
/// tx.commit().wait()?;
/// assert_eq!((one.wait()?, two.wait()?), (1, None));
///
/// let tx = cluster.transaction();
/// tx.incr("user:1");
/// tx.incr("user:2");
/// assert_eq!(tx.commit().wait().unwrap_err().code(), Some("CROSSSLOT")); // nothing was sent
/// # }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// As those of a [`Transaction`](crate::Transaction#errors). A key of another slot than the first one is an error of the code
/// CROSSSLOT before anything is sent.
///
/// # Drop
///
/// Nothing is sent, and its handles give [`Error::NotCommitted`].
#[must_use = "a transaction that is not committed sends nothing"]
pub struct ClusterTransaction<'c> {
    cluster: &'c Cluster,
    group: Option<u32>,
    bytes: RefCell<Vec<u8>>,
    /// The slot of the first key.
    slot: Cell<Option<u16>>,
    /// A command was issued while the cluster was in use, which not even its error can be noted for.
    missing: Cell<bool>,
}

/// A transaction that a handle or its guard still points to.
pub(super) struct Group {
    state: State,
    size: u32,
    live: u32,
    /// Commands whose handles were given up.
    detached: Vec<u32>,
    /// Commands that could not be sent, or that the server refused to queue.
    refused: Vec<(u32, Error)>,
}

enum State {
    Open,
    Discarded,
    /// Committed: the ticket of its EXEC.
    Committed(u64),
    /// Its elements, those that have not been taken.
    Ready(Vec<Option<Stored>>),
    Failed(Error),
}

impl Cluster {
    /// Begins a transaction. Never blocks; nothing is sent before its [`commit`](ClusterTransaction::commit).
    pub fn transaction(&self) -> ClusterTransaction<'_> {
        let group = self.with(Core::open_group).ok();
        ClusterTransaction {
            cluster: self,
            group,
            bytes: RefCell::default(),
            slot: Cell::default(),
            missing: Cell::default(),
        }
    }
}

impl<'c> ClusterTransaction<'c> {
    /// Sends the transaction. The handle that is returned resolves with EXEC's reply.
    ///
    /// Does not wait for replies; but it may wait for a connection to the node.
    ///
    /// # Errors
    ///
    /// Told by the handle: see [the type](ClusterTransaction#errors).
    pub fn commit(mut self) -> ClusterReply<'c, ()> {
        let Some(id) = self.group.take() else { return ClusterReply::new(self.cluster, BUSY) };
        let bytes = self.bytes.take();
        let (slot, missing) = (self.slot.get(), self.missing.get());
        let ticket = self.cluster.with(|core| core.commit(id, slot, bytes, missing));
        ClusterReply::new(self.cluster, ticket.unwrap_or(BUSY))
    }

    /// Gives the transaction up: nothing is sent. The same as dropping it.
    pub fn discard(self) {}

    /// How many commands have been queued; those that could not be do not count.
    pub fn len(&self) -> usize {
        let queued = self.group.map(|id| self.cluster.with(|core| core.group_len(id)));
        queued.and_then(Result::ok).unwrap_or(0)
    }

    /// Whether no command has been queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn queue(&self, encoded: Result<Issued>) -> u64 {
        let queued = encoded.and_then(|issued| admit(&issued, &self.slot).map(|()| issued));
        let Some(group) = self.group else { return BUSY };
        let added = match queued {
            Ok(issued) => {
                let added = self.cluster.with(|core| core.add_to_group(group, None));
                if added.is_ok() {
                    self.bytes.borrow_mut().extend_from_slice(&issued.bytes);
                }
                added
            }
            Err(error) => self.cluster.with(|core| core.add_to_group(group, Some(error))),
        };
        added.unwrap_or_else(|_| {
            self.missing.set(true);
            BUSY
        })
    }
}

/// Whether a command can be part of a transaction whose keys are of this slot, if there have been any.
pub(super) fn admit(issued: &Issued, of: &Cell<Option<u16>>) -> Result<()> {
    for key in &issued.keys {
        let slot = super::slot_of(issued.bytes.get(key.clone()).unwrap_or_default());
        match of.get() {
            None => of.set(Some(slot)),
            Some(first) if first != slot => return Err(cross_slot()),
            Some(_) => {}
        }
    }
    if issued.keys.is_empty() {
        let mut words = encode::arguments(&issued.bytes).map(<[u8]>::to_ascii_uppercase);
        let name = words.next().unwrap_or_default();
        match kind(&name, words.next().as_deref()) {
            Some(Kind::Refused(why)) => return Err(Error::Refused(why)),
            Some(Kind::Primaries(_) | Kind::Members(_)) => {
                return Err(Error::Refused(
                    "it is for several nodes, and a transaction is of one: issue it on the cluster",
                ));
            }
            Some(Kind::Any) | None => {}
        }
    }
    Ok(())
}

/// The same for one that was issued by its name.
pub(super) fn admit_named(issued: Issued) -> Result<Issued> {
    match Encoded::effect_of(&issued.bytes) {
        Effect::Ordinary | Effect::Blocking(_) => Ok(issued),
        Effect::Refused(why) => Err(Error::Refused(why)),
        _ => Err(Error::Refused("what changes one connection has no place in a cluster: set it in the Config")),
    }
}

impl<'c> Execute for &ClusterTransaction<'c> {
    type Reply<T: FromReply> = ClusterQueued<'c, T>;
    type MultiBulk<T: FromReply> = ClusterMultiBulk<'c, T>;

    fn command<T: FromReply>(self, name: &str, arguments: impl ToArgs) -> ClusterQueued<'c, T> {
        let encoded = self.cluster.encode_named(name, arguments).and_then(admit_named);
        ClusterQueued::new(self.cluster, self.queue(encoded))
    }

    fn execute<T: FromReply, A: Arguments>(self, command: Command<A>) -> ClusterQueued<'c, T> {
        ClusterQueued::new(self.cluster, self.queue(Issued::of(&command)))
    }

    fn execute_multi<T: FromReply, A: Arguments>(self, command: Command<A>) -> ClusterMultiBulk<'c, T> {
        ClusterMultiBulk::new(self.cluster, self.queue(Issued::of(&command)))
    }
}

impl Drop for ClusterTransaction<'_> {
    fn drop(&mut self) {
        if let Some(group) = self.group.take() {
            let _ = self.cluster.with(|core| core.discard_group(group));
        }
    }
}

impl fmt::Debug for ClusterTransaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterTransaction").field("slot", &self.slot.get()).finish_non_exhaustive()
    }
}

impl Core {
    pub(super) fn open_group(&mut self) -> u32 {
        let group = Group { state: State::Open, size: 0, live: 1, detached: Vec::new(), refused: Vec::new() };
        self.groups.insert(group)
    }

    fn group(&mut self, id: u32) -> Option<&mut Group> {
        self.groups.get_mut(id)
    }

    fn group_len(&mut self, id: u32) -> usize {
        self.group(id).map_or(0, |group| group.size as usize - group.refused.len())
    }

    /// One more command, with the error of one that cannot be sent: its ticket.
    pub(super) fn add_to_group(&mut self, id: u32, error: Option<Error>) -> u64 {
        let Some(group) = self.group(id) else { return BUSY };
        let index = group.size;
        group.size += 1;
        group.live += 1;
        if let Some(error) = error {
            group.refused.push((index, error));
        }
        member(id, index)
    }

    pub(super) fn discard_group(&mut self, id: u32) {
        if let Some(group) = self.group(id) {
            group.state = match group.refused.first() {
                Some((_, error)) => State::Failed(error.clone()),
                None => State::Discarded,
            };
        }
        self.release(id);
    }

    /// Issues a transaction: the ticket of its commit, whose handle takes the place of the guard.
    pub(super) fn commit(&mut self, id: u32, slot: Option<u16>, bytes: Vec<u8>, missing: bool) -> u64 {
        let commit = member(id, COMMIT);
        let Some(group) = self.group(id) else { return BUSY };
        let size = group.size;
        if let Some((_, error)) = group.refused.first() {
            group.state = State::Failed(error.clone());
        } else if missing {
            group.state = State::Failed(Error::Refused(crate::connection::IN_USE));
        } else {
            // Without a key it may be any slot; one that is served.
            let served = || self.slots.iter().take(usize::from(NO_SLOT)).position(|n| *n != NOWHERE);
            let slot = slot.unwrap_or_else(|| served().unwrap_or(0) as u16);
            let ticket = self.issue_block(slot, bytes, size);
            if let Some(group) = self.group(id) {
                group.state = State::Committed(ticket);
            }
        }
        commit
    }

    /// A transaction is not sent: the ticket of its commit.
    pub(super) fn fail_group(&mut self, id: u32, error: Error) -> u64 {
        if let Some(group) = self.group(id) {
            group.state = State::Failed(error);
        }
        member(id, COMMIT)
    }

    /// The ticket of EXEC, if it is to be waited for.
    pub(super) fn commit_of(&mut self, id: u32) -> Option<u64> {
        match self.group(id)?.state {
            State::Committed(ticket) => Some(ticket),
            _ => None,
        }
    }

    /// Commands of a transaction that the server refused to queue: kept until its EXEC is looked at, if it will be.
    pub(super) fn note_refused(&mut self, ticket: u64, refused: Vec<(u32, ServerError)>) {
        if !refused.is_empty() && self.moved.get(&ticket).is_some_and(|moved| moved.live) {
            self.refused.insert(ticket, refused);
        }
    }

    /// Waits for the outcome of a transaction, and takes that of one of its commands.
    pub(super) fn wait_member(&mut self, id: u32, index: u32, time: &mut Time) -> Result<Stored, WaitError<()>> {
        if let Some(ticket) = self.commit_of(id) {
            self.arrive(ticket, time)?;
        }
        Ok(self.take_member(id, index)?)
    }

    /// Takes the outcome of a command of a transaction, whose EXEC has been answered if it was sent.
    pub(super) fn take_member(&mut self, id: u32, index: u32) -> Result<Stored> {
        if let Some(ticket) = self.commit_of(id) {
            self.resolve(id, ticket);
        }
        let outcome = self.outcome(id, index);
        self.release(id);
        outcome
    }

    fn outcome(&mut self, id: u32, index: u32) -> Result<Stored> {
        let Some(group) = self.group(id) else { return Err(Error::NotCommitted) };
        if let Some((_, error)) = group.refused.iter().find(|refused| refused.0 == index) {
            return Err(error.clone());
        }
        match &mut group.state {
            State::Ready(_) if index == COMMIT => Ok(Stored::from_slice(b"+OK\r\n")),
            State::Ready(elements) => {
                elements.get_mut(index as usize).and_then(Option::take).ok_or(Error::NotCommitted)
            }
            State::Failed(error) => Err(error.clone()),
            State::Open => {
                group.detached.push(index);
                Err(Error::NotCommitted)
            }
            State::Discarded | State::Committed(_) => Err(Error::NotCommitted),
        }
    }

    /// The reply to EXEC is here.
    fn resolve(&mut self, id: u32, ticket: u64) {
        let reply = self.take(ticket);
        let refused = self.refused.remove(&ticket).unwrap_or_default();
        let Some(group) = self.group(id) else { return };
        group.refused.extend(refused.into_iter().map(|(index, error)| (index, error.into())));
        let detached = std::mem::take(&mut group.detached);
        group.state = match reply {
            Ok(frame) => match resp::frame(&frame) {
                Some(Frame::Array(elements)) if elements.len() == group.size as usize => {
                    State::Ready(pieces(&elements).map(|piece| Some(Stored::from_slice(piece))).collect())
                }
                Some(Frame::Error(message)) => State::Failed(ServerError::new(message).into()),
                Some(Frame::Null) => State::Failed(Error::Aborted),
                _ => State::Failed(UnexpectedReply::new("one reply for each command", "another number").into()),
            },
            Err(error) => State::Failed(error),
        };
        for index in detached {
            self.outcome_unseen(id, index);
        }
    }

    /// Accounts for what a command has met with whose handle was given up. The commit tells what all have met with.
    fn outcome_unseen(&mut self, id: u32, index: u32) {
        let Some(group) = self.group(id) else { return };
        let refused = group.refused.iter().find(|refused| refused.0 == index).map(|(_, error)| error.clone());
        match (&mut group.state, refused) {
            (State::Ready(elements), _) => {
                if let Some(frame) = elements.get_mut(index as usize).and_then(Option::take) {
                    self.check(&frame);
                }
            }
            (State::Failed(error), None) if index == COMMIT => {
                let error = error.clone();
                self.unseen(error);
            }
            _ => {}
        }
    }

    pub(super) fn detach_member(&mut self, id: u32, index: u32) {
        let Some(group) = self.group(id) else { return };
        match group.state {
            State::Open | State::Committed(_) => group.detached.push(index),
            State::Ready(_) | State::Failed(_) => self.outcome_unseen(id, index),
            State::Discarded => {}
        }
        self.release(id);
    }

    /// A handle or the guard no longer points to a transaction.
    fn release(&mut self, id: u32) {
        let Some(group) = self.group(id) else { return };
        group.live -= 1;
        if group.live > 0 {
            return;
        }
        let group = self.groups.take(id);
        if let Some(Group { state: State::Committed(ticket), .. }) = group {
            self.refused.remove(&ticket);
            // Whatever comes of it is accounted for when it comes.
            self.detach(ticket);
        }
    }
}
