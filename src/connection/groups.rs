//! The transactions whose handles are bound late.
//!
//! A transaction of n commands takes 2n + 2 places on the wire: one for MULTI, one for each QUEUED, one for the header of
//! EXEC's reply, and one for each element behind it. So once the header has come, the elements are ordinary replies, and
//! everything that is true of those (order, streaming, errors) is true of them.

use std::collections::VecDeque;

use crate::error::Error;

/// Where a transaction is on its way.
#[derive(Clone, Debug)]
pub(super) enum State {
    /// Commands are being queued on our side.
    Open,
    /// Given up before it was sent.
    Discarded,
    /// Sent, or waiting to be: the reply to MULTI has this place.
    Committed { multi: u64 },
    /// EXEC's header has come: the first element has this place.
    Ready { first: u64 },
    /// A batch that was taken in: its commands have ordinary places, the first this one, but for those that could not be
    /// encoded.
    Entered { first: u64 },
    /// Nothing has run, or it is not known what has.
    Failed(Error),
}

/// One transaction, or one batch of threads that share a connection.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) state: State,
    /// How many commands it has.
    pub(super) size: u32,
    /// How many handles, and guards, still point here.
    pub(super) live: u32,
    /// Commands whose handle was given up before the commit.
    pub(super) detached: Vec<u32>,
    /// The commit's handle was given up.
    pub(super) commit_detached: bool,
    /// The reply to MULTI was an error.
    pub(super) multi_error: Option<Error>,
    /// How many commands the server has queued.
    pub(super) queued: u32,
    /// The commands that it refused, in order; before the commit, those that could not even be encoded.
    pub(super) refused: Vec<(u32, Error)>,
    /// Keys are watched for it, and so it belongs to one connection.
    pub(super) watched: bool,
}

impl Group {
    /// One more command, with a handle: its index.
    #[inline]
    pub(super) fn add(&mut self) -> u32 {
        let index = self.size;
        self.size += 1;
        self.live += 1;
        index
    }

    /// Fails a transaction that has a command which could not be encoded, and says whether it has one. The first such error
    /// is for the commit and every handle, its own included. Returned are those that nobody would be told otherwise.
    pub(super) fn fail_for_refused(&mut self) -> Option<Vec<Error>> {
        if self.refused.is_empty() {
            return None;
        }
        let (_, first) = self.refused.remove(0);
        self.state = State::Failed(first);
        self.detached.sort_unstable();
        let dropped = self.refused.iter().filter(|refused| self.detached.binary_search(&refused.0).is_ok());
        Some(dropped.map(|refused| refused.1.clone()).collect())
    }

    /// The place of EXEC's header, for a transaction whose MULTI has this place.
    pub(super) fn exec(&self, multi: u64) -> u64 {
        multi + 1 + u64::from(self.size)
    }

    /// The place of EXEC's header, while it has not been read.
    pub(super) fn exec_place(&self) -> Option<u64> {
        match self.state {
            State::Committed { multi } => Some(self.exec(multi)),
            _ => None,
        }
    }

    /// The place of an element of EXEC's reply, once it is known that there is one.
    pub(super) fn element(&self, index: u32) -> Option<u64> {
        match self.state {
            State::Ready { first } if index < self.size && self.refused.is_empty() => Some(first + u64::from(index)),
            _ => None,
        }
    }

    /// The place of a command of a batch whose first one has this place.
    pub(super) fn entered(&self, first: u64, index: u32) -> u64 {
        let before = self.refused.partition_point(|refused| refused.0 < index);
        first + u64::from(index) - before as u64
    }

    /// The error of a command that has been refused.
    #[inline]
    pub(super) fn refusal(&self, index: u32) -> Option<&Error> {
        if self.refused.is_empty() {
            return None;
        }
        let at = self.refused.binary_search_by_key(&index, |refused| refused.0).ok()?;
        Some(&self.refused[at].1)
    }
}

/// All transactions that a handle still points to.
#[derive(Debug, Default)]
pub(super) struct Groups {
    slots: Vec<Option<Group>>,
    free: Vec<u32>,
    /// Those that were committed and whose EXEC has not been read, in the order of the wire.
    on_wire: VecDeque<u32>,
    /// Those with errors are not dropped, but put here.
    pub(super) keeps: bool,
    pub(super) gone: Vec<Group>,
}

impl Groups {
    /// A new open transaction, to which its guard points.
    pub(super) fn open(&mut self) -> u32 {
        let group = Group {
            state: State::Open,
            size: 0,
            live: 1,
            detached: Vec::new(),
            commit_detached: false,
            multi_error: None,
            queued: 0,
            refused: Vec::new(),
            watched: false,
        };
        match self.free.pop() {
            Some(id) => {
                self.slots[id as usize] = Some(group);
                id
            }
            None => {
                self.slots.push(Some(group));
                (self.slots.len() - 1) as u32
            }
        }
    }

    pub(super) fn get(&mut self, id: u32) -> Option<&mut Group> {
        self.slots.get_mut(id as usize)?.as_mut()
    }

    /// The transaction whose replies come next.
    pub(super) fn current(&mut self) -> Option<&mut Group> {
        let id = *self.on_wire.front()?;
        self.get(id)
    }

    pub(super) fn committed(&mut self, id: u32) {
        self.on_wire.push_back(id);
    }

    /// The reply to the current transaction's EXEC has been read.
    pub(super) fn resolved(&mut self) {
        if let Some(id) = self.on_wire.pop_front() {
            self.tidy(id);
        }
    }

    /// A handle or guard no longer points to this transaction.
    pub(super) fn release(&mut self, id: u32) {
        if let Some(group) = self.get(id) {
            group.live -= 1;
            if group.live == 0 && !self.on_wire.contains(&id) {
                self.tidy(id);
            }
        }
    }

    /// What `look` finds in the transactions on the wire, given the places of MULTI and EXEC, and whether keys are watched
    /// for it.
    pub(super) fn on_wire<T>(&mut self, look: impl Fn(u64, u64, bool) -> Option<T>) -> Vec<T> {
        let groups = self.on_wire.iter().filter_map(|id| self.slots.get(*id as usize)?.as_ref());
        let committed = groups.filter_map(|group| match group.state {
            State::Committed { multi } => look(multi, group.exec(multi), group.watched),
            _ => None,
        });
        committed.collect()
    }

    /// Fails those transactions on the wire for which `lost`, given the places of MULTI and EXEC, has an error. Returns the
    /// errors of those whose commit nobody waits for.
    pub(super) fn lose(&mut self, lost: impl Fn(u64, u64) -> Option<Error>) -> Vec<Error> {
        let mut unseen = Vec::new();
        for id in std::mem::take(&mut self.on_wire) {
            let Some(group) = self.get(id) else { continue };
            let State::Committed { multi } = group.state else { continue };
            match lost(multi, group.exec(multi)) {
                None => self.on_wire.push_back(id),
                Some(error) => {
                    if group.commit_detached {
                        unseen.push(error.clone());
                    }
                    group.state = State::Failed(error);
                    self.tidy(id);
                }
            }
        }
        unseen
    }

    fn tidy(&mut self, id: u32) {
        let Some(slot) = self.slots.get_mut(id as usize) else { return };
        if let Some(group) = slot.take_if(|group| group.live == 0) {
            self.free.push(id);
            if self.keeps && (!group.refused.is_empty() || matches!(group.state, State::Failed(_))) {
                self.gone.push(group);
            }
        }
    }
}
