//! What a handle holds: one number that says where its reply is to be found.

/// A ticket says where a command was issued: the node above, the place on it below; or what the two bits at the top say.
const PLACE_BITS: u32 = 46;
const KIND: u64 = 3 << 62;
const OTHER: u64 = 1 << 62;
const SPREAD: u64 = 2 << 62;
const MEMBER: u64 = 3 << 62;
/// The handle of a command issued while the cluster was in use further up the stack.
pub(super) const BUSY: u64 = OTHER | (OTHER - 1);
/// In the number of a transaction: it is that of a batch.
const BATCH: u32 = 1 << 29;
/// The index that stands for a transaction as a whole.
pub(super) const COMMIT: u32 = u32::MAX;

/// A ticket, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ticket {
    /// Sent to this node at once, with this place there.
    Sent(u16, u64),
    /// Parked or failed when it was issued.
    Other,
    /// In several parts.
    Spread(u32),
    /// A command of a transaction.
    Member(u32, u32),
    /// A command of a batch.
    Batched(u32, u32),
}

impl Ticket {
    #[inline(always)]
    pub(super) fn of(ticket: u64) -> Ticket {
        match ticket & KIND {
            0 => Ticket::Sent((ticket >> PLACE_BITS) as u16, ticket & ((1 << PLACE_BITS) - 1)),
            OTHER => Ticket::Other,
            SPREAD => Ticket::Spread(ticket as u32),
            _ => match ((ticket >> 32) as u32 & (u32::MAX >> 2), ticket as u32) {
                (id, index) if id & BATCH != 0 => Ticket::Batched(id & !BATCH, index),
                (id, index) => Ticket::Member(id, index),
            },
        }
    }
}

#[inline(always)]
pub(super) fn sent(node: u16, place: u64) -> u64 {
    u64::from(node) << PLACE_BITS | place
}

/// Of a command that is not sent at once.
pub(super) fn other(number: u64) -> u64 {
    OTHER | number
}

pub(super) fn spread(id: u32) -> u64 {
    SPREAD | u64::from(id)
}

pub(super) fn member(group: u32, index: u32) -> u64 {
    MEMBER | u64::from(group) << 32 | u64::from(index)
}

pub(super) fn batched(id: u32, index: u32) -> u64 {
    member(id | BATCH, index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kinds_of_tickets_are_told_apart() {
        assert_eq!(Ticket::of(sent(0, 0)), Ticket::Sent(0, 0));
        assert_eq!(Ticket::of(sent(u16::MAX - 1, 12_345)), Ticket::Sent(u16::MAX - 1, 12_345));
        assert_eq!(Ticket::of(BUSY), Ticket::Other);
        assert_eq!(Ticket::of(spread(7)), Ticket::Spread(7));
        assert_eq!(Ticket::of(member(3, COMMIT)), Ticket::Member(3, COMMIT));
        assert_eq!(Ticket::of(batched(3, 4)), Ticket::Batched(3, 4));
    }
}
