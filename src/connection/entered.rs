//! Batches on a connection that threads share: taken in at once, and many at a time.

use super::batches::BatchRecord;
use super::engine::{Engine, GONE};
use super::groups::State;
use super::place;
use super::share::Share;
use crate::error::{Error, Result};

/// A batch that was taken in.
pub(crate) struct Entered {
    number: u64,
    first: u64,
    /// The place behind its last command.
    pub(crate) end: u64,
}

impl Engine {
    /// Gives the commands of a batch places, without anything in between.
    fn enter_batch(&mut self, id: u32, bytes: &[u8]) -> Result<Entered> {
        let count = self.groups.get(id).map_or(0, |group| u64::from(group.size) - group.refused.len() as u64);
        if count > 0 {
            self.make_room(count)?;
        }
        let first = self.issued;
        let Some(group) = self.groups.get(id) else { return Err(Error::Refused(GONE)) };
        group.state = State::Entered { first };
        self.batches += 1;
        let (number, end) = (self.batches, first + count);
        let mut batch = BatchRecord::new(number);
        for index in 0..group.size {
            // One that could not be encoded has a position, and no place.
            let refused = group.refusal(index).is_some();
            batch.add(if refused { place::member(id, index) } else { group.entered(first, index) });
        }
        let mut detached = Vec::new();
        for index in std::mem::take(&mut group.detached) {
            match group.refusal(index) {
                Some(error) => batch.note(u64::from(index), error.clone()),
                None => detached.push(group.entered(first, index)),
            }
        }
        self.entered.push(batch);
        self.output.append(bytes);
        self.issued = end;
        for place in detached {
            self.ring.detach(place, self.next, end);
        }
        if count > 0 {
            self.after_issue(first);
        }
        Ok(Entered { number, first, end })
    }
}

impl Share {
    /// Takes a batch in, of which these are the commands. There is room for it.
    pub(crate) fn enter_batch(&mut self, id: u32, bytes: &[u8]) -> Result<Entered> {
        self.engine().enter_batch(id, bytes)
    }

    /// A batch that cannot be taken in.
    pub(crate) fn fail_batch(&mut self, id: u32, error: Error) {
        let commit = self.connection().fail_group(id, error);
        self.engine().release(commit);
    }

    /// Nobody waits for a batch any more, which has come to this: its outcome. If there was no time left and there is no
    /// connection, those of its commands that nobody holds a handle of are not sent any more; if it was refused to wait, none is.
    pub(crate) fn close_batch(&mut self, id: u32, batch: Entered, read: Result<()>) -> Result<()> {
        let engine = self.engine();
        if let (Err(error @ (Error::Timeout | Error::Refused(_))), Some(last)) = (&read, batch.end.checked_sub(1)) {
            engine.withdraw_batch(batch.first, last, !matches!(error, Error::Timeout));
        }
        engine.release(place::member(id, place::COMMIT));
        let at = engine.entered.iter().position(|entered| entered.id == batch.number);
        let outcome = at.map_or(Ok(()), |at| engine.entered.swap_remove(at).outcome());
        // What went wrong first is more to the point than that the connection broke later; and that is of no interest at all
        // if it has cost the batch nothing.
        outcome.and(match read {
            Err(Error::ConnectionLost(_)) if !engine.has_lost(batch.first..batch.end) => Ok(()),
            read => read.map_err(|error| engine.of_place(batch.first, error)),
        })
    }
}
