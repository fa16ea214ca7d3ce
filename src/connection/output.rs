//! What has been encoded and has not been written.

use super::input::INITIAL;
use crate::resp::encode;

/// The write buffer: `buf[written..len]` waits to be written. All of `buf` is initialised.
///
/// Bytes stay until their whole command is written, so that after a break it is known which commands were unsent, which
/// one was cut, and which may have run.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) buf: Vec<u8>,
    pub(super) len: usize,
    pub(super) written: usize,
}

impl Output {
    pub(super) fn new() -> Self {
        Output { buf: Vec::new(), len: 0, written: 0 }
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.written == self.len
    }

    pub(super) fn pending(&self) -> &[u8] {
        &self.buf[self.written..self.len]
    }

    /// Forgets everything, and gives memory back that a giant command has needed.
    pub(super) fn clear(&mut self) {
        self.len = 0;
        self.written = 0;
        if self.buf.len() > INITIAL {
            self.buf = Vec::new();
        }
    }

    /// How many whole commands have been written, and whether a part of the next one has.
    pub(super) fn sent(&self) -> (u64, bool) {
        let (count, end) = encode::commands_before(&self.buf[..self.len], self.written);
        (count, end < self.written)
    }

    /// Forgets the whole commands that have been written, if they take up most of a large buffer, and says how many.
    pub(super) fn compact(&mut self) -> u64 {
        if self.written < INITIAL || self.written < self.len / 2 {
            return 0;
        }
        let (count, end) = encode::commands_before(&self.buf[..self.len], self.written);
        self.buf.copy_within(end..self.len, 0);
        self.len -= end;
        self.written -= end;
        count
    }

    pub(super) fn append(&mut self, bytes: &[u8]) {
        self.len = encode::raw(&mut self.buf, self.len, bytes);
    }
}
