//! How long a read may wait.

use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug)]
pub(super) enum Patience {
    Endless,
    Until(Instant),
    /// Not at all.
    None,
}

impl Patience {
    pub(super) fn of(time: Option<Duration>) -> Patience {
        match time {
            Some(Duration::ZERO) => Patience::None,
            // A time that cannot be computed is too far off to come.
            Some(time) => Instant::now().checked_add(time).map_or(Patience::Endless, Patience::Until),
            None => Patience::Endless,
        }
    }

    /// How long is left: nothing when it is over, and within that nothing when there is no end.
    pub(super) fn left(self) -> Option<Option<Duration>> {
        match self {
            Patience::Endless => Some(None),
            Patience::None => None,
            Patience::Until(until) => {
                let left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
                Some(Some(left))
            }
        }
    }
}
