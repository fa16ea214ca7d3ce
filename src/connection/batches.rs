//! What the connection knows of the batch that is open on it.

use super::place::Place;
use crate::error::{BatchError, Error, Result};

/// The places of an open batch, and the errors of those whose handles were dropped.
#[derive(Debug)]
pub(super) struct BatchRecord {
    pub(super) id: u64,
    /// Runs of places: the first, the one behind the last, and the position of the first in the batch. There is a second
    /// run only if the connection was used beside the batch, or a command could not be issued.
    runs: Vec<(u64, u64, u64)>,
    failed: u64,
    first: Option<(u64, Error)>,
}

impl BatchRecord {
    pub(super) fn new(id: u64) -> Self {
        BatchRecord { id, runs: Vec::new(), failed: 0, first: None }
    }

    /// A command of the batch got this place, or the number of an error in the place of one.
    #[inline(always)]
    pub(super) fn add(&mut self, place: u64) {
        match self.runs.last_mut() {
            Some(run) if run.1 == place => run.1 += 1,
            _ => self.begin_run(place),
        }
    }

    #[cold]
    fn begin_run(&mut self, place: u64) {
        let position = self.runs.last().map_or(0, |run| run.2 + (run.1 - run.0));
        self.runs.push((place, place + 1, position));
    }

    /// The place behind the last command that was issued.
    pub(super) fn end(&self) -> Option<u64> {
        let issued = self.runs.iter().rev().find(|run| matches!(Place::of(run.0), Place::Ordinary(_)))?;
        Some(issued.1)
    }

    /// The place of the first command that was issued.
    pub(super) fn start(&self) -> Option<u64> {
        let issued = self.runs.iter().find(|run| matches!(Place::of(run.0), Place::Ordinary(_)))?;
        Some(issued.0)
    }

    /// Which command of the batch has this place, counted from zero.
    pub(super) fn position(&self, place: u64) -> Option<u64> {
        let run = self.runs.iter().rev().find(|run| run.0 <= place && place < run.1)?;
        Some(run.2 + (place - run.0))
    }

    pub(super) fn note(&mut self, position: u64, error: Error) {
        self.failed += 1;
        if self.first.as_ref().is_none_or(|first| position < first.0) {
            self.first = Some((position, error));
        }
    }

    pub(super) fn outcome(self) -> Result<()> {
        match self.first {
            None => Ok(()),
            Some((position, error)) => {
                Err(Error::Batch(std::sync::Arc::new(BatchError::new(error, position, self.failed))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_do_not_count_the_commands_beside_the_batch() {
        let mut batch = BatchRecord::new(0);
        for place in [10, 11, 12, 20, 21, 30] {
            batch.add(place);
        }
        for (position, place) in [10, 11, 12, 20, 21, 30].into_iter().enumerate() {
            assert_eq!(batch.position(place), Some(position as u64));
        }
        for place in [0, 9, 13, 19, 22, 29, 31] {
            assert_eq!(batch.position(place), None);
        }
        assert_eq!(batch.end(), Some(31));
    }
}
