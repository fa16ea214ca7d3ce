//! What a handle holds: one number that says where its reply is to be found.
//!
//! An ordinary place is the number of the reply, counted from the first one of the connection. Three bits at the top tell
//! the others apart, and make sure that they never equal the place that is to be read next.

/// A member of a transaction: the group in the upper half, the index of the command in the lower.
const GROUP: u64 = 1 << 63;
/// A command that could not be issued: the number of its error.
const FAILED: u64 = 1 << 62;
/// A command whose reply was known: the number of that.
const ANSWERED: u64 = 1 << 61;

/// No place at all: what the next place is compared with while nothing may take the fast path.
pub(crate) const NONE: u64 = u64::MAX;

/// A command issued while the connection was in use further up the stack.
pub(crate) const BUSY: u64 = FAILED | (FAILED - 1);

/// A command issued on a batch that was refused, whose error the batch tells.
pub(crate) const SECOND_BATCH: u64 = FAILED | (FAILED - 2);

/// The index that stands for the transaction as a whole: the handle of its commit.
pub(crate) const COMMIT: u32 = u32::MAX;

/// A place, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Ordinary(u64),
    Member { group: u32, index: u32 },
    Failed(u64),
    Answered(u64),
    Busy,
    SecondBatch,
}

pub(crate) fn member(group: u32, index: u32) -> u64 {
    GROUP | u64::from(group) << 32 | u64::from(index)
}

pub(crate) fn failed(number: u64) -> u64 {
    FAILED | number
}

#[cfg(feature = "cache")]
pub(crate) fn answered(number: u64) -> u64 {
    ANSWERED | number
}

impl Place {
    pub(crate) fn of(place: u64) -> Place {
        if place & GROUP != 0 {
            Place::Member { group: (place >> 32) as u32 & (u32::MAX >> 1), index: place as u32 }
        } else if place == BUSY {
            Place::Busy
        } else if place == SECOND_BATCH {
            Place::SecondBatch
        } else if place & FAILED != 0 {
            Place::Failed(place & (FAILED - 1))
        } else if place & ANSWERED != 0 {
            Place::Answered(place & (ANSWERED - 1))
        } else {
            Place::Ordinary(place)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kinds_of_places_are_told_apart() {
        assert_eq!(Place::of(0), Place::Ordinary(0));
        assert_eq!(Place::of(ANSWERED - 1), Place::Ordinary(ANSWERED - 1));
        assert_eq!(Place::of(failed(7)), Place::Failed(7));
        assert_eq!(Place::of(ANSWERED | 7), Place::Answered(7));
        assert_eq!(Place::of(BUSY), Place::Busy);
        assert_eq!(Place::of(member(3, 4)), Place::Member { group: 3, index: 4 });
        assert_eq!(Place::of(member(0, COMMIT)), Place::Member { group: 0, index: COMMIT });
    }
}
