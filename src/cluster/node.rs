//! A node, and the commands that were sent to it and have not been answered.

use std::collections::VecDeque;
use std::sync::Weak;
use std::time::{Duration, Instant};

use super::redirect::Address;
use crate::connection::{Connection, Store};
use crate::error::{Error, ServerError};

/// The origin of a command that is where it was sent first.
pub(super) const ITSELF: u64 = u64::MAX;

/// What is to be known of a command besides its bytes.
pub(super) mod flag {
    /// Nobody will ask for its reply.
    pub(in crate::cluster) const DETACHED: u8 = 1;
    /// It may be sent more than once.
    pub(in crate::cluster) const IDEMPOTENT: u8 = 2;
    /// It may go to a replica.
    pub(in crate::cluster) const READ: u8 = 4;
    /// It is for this very node.
    pub(in crate::cluster) const FIXED: u8 = 8;
    /// Not a command of its own: ASKING, MULTI, or one inside MULTI.
    pub(in crate::cluster) const PART: u8 = 16;
    /// EXEC, which stands for a whole transaction.
    pub(in crate::cluster) const BLOCK: u8 = 32;
    /// MULTI.
    pub(in crate::cluster) const MULTI: u8 = 64;
    /// ASKING.
    pub(in crate::cluster) const ASKING: u8 = 128;
}

/// A reply that is to come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// The ticket of a command that was sent elsewhere before, or [`ITSELF`].
    pub(super) origin: u64,
    /// How many bytes the command has.
    pub(super) len: u32,
    pub(super) slot: u16,
    pub(super) flags: u8,
}

/// What has been answered of the transaction whose replies are being read.
#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) multi: Option<ServerError>,
    pub(super) refused: Vec<(u32, ServerError)>,
    pub(super) index: u32,
}

impl Block {
    /// Whether EXEC may answer with so many elements: one for each command that was queued.
    pub(super) fn is_answered_by(&self, elements: usize) -> bool {
        self.multi.is_some() || elements == self.index as usize - self.refused.len()
    }
}

pub(super) struct Node {
    pub(super) address: Address,
    pub(super) conn: Option<Connection>,
    /// Which of all connections that is, or was; the first has 1.
    pub(super) number: u64,
    /// Places count on over all connections to the node; this is the one of the connection's first command.
    base: u64,
    /// The place of the reply that comes next.
    pub(super) read: u64,
    pub(super) entries: VecDeque<Entry>,
    pub(super) kept: Kept,
    /// Replies that were read before they were asked for, of commands that were first sent to this node.
    pub(super) store: Store,
    pub(super) block: Block,
    /// A wait has timed out on it, and nothing has come since.
    pub(super) silent: bool,
    /// How many attempts to connect have failed in a row, when the next one may be made, and why the last one failed.
    failed: u32,
    pub(super) not_before: Option<Instant>,
    pub(super) cause: Option<Error>,
    /// How long the last attempt was given, if it was cut short: the next one is given twice that.
    pub(super) cut_short: Duration,
    // Of a node that threads share.
    /// Since when a connection has been wanted that a thread is to make.
    pub(super) wanted: Option<Instant>,
    /// Held by the thread that makes it.
    pub(super) dial: Weak<()>,
    /// Since when nothing has come although something was waited for, and whether that has been for so long that others are
    /// asked about the node.
    pub(super) quiet_since: Option<Instant>,
    pub(super) doubted: bool,
}

/// The longest pause between two attempts to connect to a node.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

impl Node {
    pub(super) fn new(address: Address) -> Self {
        Node {
            address,
            conn: None,
            number: 0,
            base: 0,
            read: 0,
            entries: VecDeque::new(),
            kept: Kept::default(),
            store: Store::default(),
            block: Block::default(),
            silent: false,
            failed: 0,
            not_before: None,
            cause: None,
            cut_short: Duration::ZERO,
            wanted: None,
            dial: Weak::new(),
            quiet_since: None,
            doubted: false,
        }
    }

    /// Takes a new connection and its number, when nothing is outstanding.
    pub(super) fn connected(&mut self, conn: Connection, number: u64) {
        (self.conn, self.number) = (Some(conn), number);
        self.base = self.read;
        self.block = Block::default();
        self.kept = Kept::default();
        self.silent = false;
        self.failed = 0;
        self.not_before = None;
        self.cause = None;
        self.cut_short = Duration::ZERO;
        self.wanted = None;
        self.quiet_since = None;
        self.doubted = false;
    }

    /// An attempt to connect has failed, and how long it was given if that was not all of the time there is.
    pub(super) fn not_connected(&mut self, error: &Error, cut_short: Option<Duration>) {
        let pause = Duration::from_millis(10).saturating_mul(1 << self.failed.min(8)).min(LONGEST_PAUSE);
        match cut_short {
            // Which says nothing about the node.
            Some(time) if error.is_timeout() => self.cut_short = time,
            _ => self.failed += 1,
        }
        self.not_before = Some(Instant::now() + pause);
        self.cause = Some(error.clone());
    }

    /// How many bytes the commands have that have not been answered.
    pub(super) fn kept_bytes(&self) -> usize {
        self.kept.bytes.len() - self.kept.start
    }

    /// Whether the connection of this number is still there.
    pub(super) fn has(&mut self, number: u64) -> bool {
        self.number == number && self.conn.as_mut().is_some_and(|conn| !conn.is_lost())
    }

    /// The number of the connection that a command with this place was sent by, if that is the last one.
    pub(super) fn number_of(&self, place: u64) -> Option<u64> {
        (place >= self.base).then_some(self.number)
    }

    /// The place over all connections of one on this one.
    pub(super) fn over_all(&self, on_conn: u64) -> u64 {
        self.base + on_conn
    }

    /// The place on the connection of one counted over all of them.
    #[inline(always)]
    pub(super) fn on_conn(&self, place: u64) -> u64 {
        place.wrapping_sub(self.base)
    }

    /// Notes a command that got this place on the connection, and returns its place over all of them.
    #[inline(always)]
    pub(super) fn sent(&mut self, on_conn: u64, entry: Entry, bytes: &[u8]) -> u64 {
        self.kept.push(bytes);
        self.entries.push_back(entry);
        self.base + on_conn
    }

    /// Moves on behind the reply that comes next, and forgets the bytes of its command.
    #[inline(always)]
    pub(super) fn advance(&mut self, len: u32) {
        self.entries.pop_front();
        self.kept.drop_front(len as usize);
        self.read += 1;
    }

    /// The bytes of the command whose reply comes next.
    pub(super) fn front_bytes(&self, len: u32) -> Vec<u8> {
        self.kept.front(len as usize).to_vec()
    }

    /// The entry of a place that has not been answered.
    pub(super) fn entry(&mut self, place: u64) -> Option<&mut Entry> {
        self.entries.get_mut(usize::try_from(place.checked_sub(self.read)?).ok()?)
    }
}

/// The bytes of unanswered commands, in the order of the wire.
#[derive(Default)]
pub(super) struct Kept {
    bytes: Vec<u8>,
    start: usize,
}

/// From this many bytes on, memory that is not needed is given back.
const LARGE: usize = 256 * 1024;

impl Kept {
    #[inline(always)]
    fn push(&mut self, bytes: &[u8]) {
        if self.start == self.bytes.len() {
            self.empty();
        }
        self.bytes.extend_from_slice(bytes);
    }

    #[inline(always)]
    pub(super) fn drop_front(&mut self, len: usize) {
        self.start += len;
        if self.start >= LARGE {
            self.tidy();
        }
    }

    fn front(&self, len: usize) -> &[u8] {
        self.bytes.get(self.start..self.start + len).unwrap_or_default()
    }

    fn empty(&mut self) {
        self.bytes.clear();
        self.start = 0;
    }

    #[cold]
    fn tidy(&mut self) {
        if self.start == self.bytes.len() {
            if self.bytes.capacity() > 4 * LARGE {
                self.bytes = Vec::new();
            }
            self.empty();
        } else if self.start >= self.bytes.len() / 2 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_kept_in_order_and_given_back() {
        let mut kept = Kept::default();
        let mut oldest = 0_u32;
        for n in 0..100_000_u32 {
            kept.push(&n.to_be_bytes());
            if n >= 100 {
                assert_eq!(kept.front(4), oldest.to_be_bytes());
                kept.drop_front(4);
                oldest += 1;
            }
            assert!(kept.bytes.len() < 2 * LARGE + 1000);
        }
        kept.push(&vec![1; 8 * LARGE]);
        while oldest < 100_000 {
            kept.drop_front(4);
            oldest += 1;
        }
        kept.drop_front(8 * LARGE);
        assert!(kept.bytes.capacity() <= 4 * LARGE && kept.start == kept.bytes.len());
    }
}
