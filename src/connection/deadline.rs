//! One deadline for a whole wait.

use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// A time that begins when it is first asked for: a wait that finds its reply in the buffer never looks at the clock.
#[derive(Debug)]
pub(crate) struct Deadline {
    time: Option<Duration>,
    since: Option<Instant>,
    /// Whoever waits will go on with the handle when the time is over.
    tentative: bool,
}

impl Deadline {
    /// `None` is for ever.
    pub(crate) fn new(time: Option<Duration>) -> Self {
        Deadline { time, since: None, tentative: false }
    }

    /// The end of this time is not the end of the matter: the handle is given back.
    pub(crate) fn tentative(time: Duration) -> Self {
        Deadline { tentative: true, ..Deadline::new(Some(time)) }
    }

    pub(crate) fn is_tentative(&self) -> bool {
        self.tentative
    }

    /// What is left of the time, or [`Error::Timeout`].
    pub(crate) fn left(&mut self) -> Result<Option<Duration>> {
        let Some(time) = self.time else { return Ok(None) };
        match self.since {
            None => {
                self.since = Some(Instant::now());
                Ok(Some(time))
            }
            Some(since) => match time.checked_sub(since.elapsed()) {
                Some(left) if !left.is_zero() => Ok(Some(left)),
                _ => Err(Error::Timeout),
            },
        }
    }
}
