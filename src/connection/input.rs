//! What has arrived and has not been taken.

/// The size a buffer has at first and goes back to.
pub(super) const INITIAL: usize = 64 * 1024;

/// Up to this size the buffer grows for replies that nobody has asked for yet; beyond, they are put into the store, and
/// the buffer grows for a single large frame only.
pub(super) const BACKLOG: usize = 256 * 1024;

/// The read buffer: `buf[start..end]` is what has arrived and has not been taken. All of `buf` is initialised.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) buf: Vec<u8>,
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Input {
    pub(super) fn new() -> Self {
        Input { buf: Vec::new(), start: 0, end: 0 }
    }

    #[inline(always)]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buf[self.start..self.end]
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.end - self.start
    }

    #[inline(always)]
    pub(super) fn consume(&mut self, n: usize) {
        self.start += n;
    }

    /// The free room behind what has arrived.
    pub(super) fn room(&mut self) -> &mut [u8] {
        &mut self.buf[self.end..]
    }

    /// Makes room without growing beyond `limit`, and says whether there is some. What is left of a frame moves to the
    /// front only when at least half of the buffer has been taken, so that bytes are not moved again and again.
    pub(super) fn make_room(&mut self, limit: usize) -> bool {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
        self.give_back();
        if self.start > 0 && self.start >= self.buf.len() / 2 {
            self.buf.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.buf.len() {
            let size = (self.buf.len() * 2).max(INITIAL);
            if size <= limit {
                self.buf.resize(size, 0);
            } else if self.start > 0 {
                self.buf.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            }
        }
        self.end < self.buf.len()
    }

    /// Gives memory back that a giant reply has needed, once what is left is little.
    #[inline]
    pub(super) fn give_back(&mut self) {
        if self.buf.len() > BACKLOG && self.len() <= INITIAL / 2 {
            self.shrink();
        }
    }

    #[cold]
    fn shrink(&mut self) {
        let mut buf = vec![0; INITIAL];
        buf[..self.len()].copy_from_slice(self.bytes());
        self.end = self.len();
        self.start = 0;
        self.buf = buf;
    }

    /// Takes the bytes at `from..from + n` (counted from the front) out, by moving those before them up.
    pub(super) fn cut_out(&mut self, from: usize, n: usize) -> Vec<u8> {
        let at = self.start + from;
        let out = self.buf[at..at + n].to_vec();
        self.buf.copy_within(self.start..at, self.start + n);
        self.start += n;
        out
    }
}
