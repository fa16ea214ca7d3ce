//! Where a frame ends, found in a buffer that grows, without looking at a byte twice.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::mem;
use std::ops::Range;

use smallvec::SmallVec;

use super::decode::{Aggregate, Missing, Peek, frame, header, line_end, missing, peek};
use super::{Frame, MAX_DEPTH, ProtocolError};

/// An aggregate whose elements have not all been seen.
#[derive(Clone, Copy, Debug)]
struct Level {
    kind: Aggregate,
    /// How many of its elements are not whole yet; the limit on elements fits.
    remaining: u32,
}

impl Level {
    /// Below all aggregates: one frame to come.
    const FLOOR: Level = Level { kind: Aggregate::Array, remaining: 1 };
}

/// What the scanner waits for at its position.
#[derive(Clone, Copy, Debug)]
enum Wait {
    /// A token, to be looked at from its first byte.
    Token,
    /// The last byte of a bulk string, in front of this offset.
    Bulk { end: usize },
    /// The end of a line, which is not in front of `searched`. The text begins at `start`, which wraps below zero when
    /// its first bytes have been forgotten.
    Line { searched: usize, start: usize, text: bool },
}

/// Finds where the frame at the front of a growing buffer ends. Attributes in front of a frame belong to it.
///
/// The state is one number per open aggregate, never more than [`MAX_DEPTH`], and whatever a header announces, nothing
/// is reserved for it.
#[derive(Debug)]
pub(crate) struct Scanner {
    pushes: bool,
    /// Whether a frame has been begun.
    begun: bool,
    in_push: bool,
    failed: Option<ProtocolError>,
    wait: Wait,
    /// Up to here everything is scanned.
    at: usize,
    /// How many bytes the last scan was given.
    given: usize,
    current: Level,
    outer: SmallVec<[Level; 8]>,
    /// Where the embedded push that is open began.
    open_push: Option<usize>,
    found: SmallVec<[Range<usize>; 2]>,
}

impl Scanner {
    /// Pushes are an error unless they are allowed, as they are in RESP3.
    pub(crate) fn new(pushes: bool) -> Self {
        Scanner {
            pushes,
            begun: false,
            in_push: false,
            failed: None,
            wait: Wait::Token,
            at: 0,
            given: 0,
            current: Level::FLOOR,
            outer: SmallVec::new(),
            open_push: None,
            found: SmallVec::new(),
        }
    }

    /// The length of the frame at the front of `bytes`, once it is whole; the next call then begins the next frame.
    ///
    /// Until then, `bytes` must begin where they began at the last call, less what was forgotten, and have only grown;
    /// the length is counted from that same place. After an error, every call gives the error again.
    pub(crate) fn scan(&mut self, bytes: &[u8]) -> Result<Option<usize>, ProtocolError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        if !self.begun {
            self.found.clear();
        }
        self.given = bytes.len();
        match self.advance(bytes) {
            Ok(false) => {
                self.begun |= !bytes.is_empty();
                Ok(None)
            }
            Ok(true) => {
                let len = self.at;
                self.restart();
                Ok(Some(len))
            }
            Err(error) => {
                self.failed = Some(error);
                Err(error)
            }
        }
    }

    /// Scans on to the end of the frame, if it is there.
    fn advance(&mut self, bytes: &[u8]) -> Result<bool, ProtocolError> {
        match self.wait {
            Wait::Token => {}
            Wait::Bulk { end } => {
                if bytes.len() < end {
                    return Ok(false);
                }
                if bytes.get(end.wrapping_sub(2)..end) != Some(b"\r\n") {
                    return Err(ProtocolError::MissingCrlf);
                }
                if self.scalar_ends(end) {
                    return Ok(true);
                }
            }
            Wait::Line { searched, start, text } => match line_end(bytes, searched, start)? {
                None => {
                    self.wait = Wait::Line { searched: bytes.len().max(searched), start, text };
                    return Ok(false);
                }
                Some(end) if text => {
                    if self.scalar_ends(end) {
                        return Ok(true);
                    }
                }
                Some(_) => self.wait = Wait::Token,
            },
        }
        loop {
            // Long rows of scalars are what large replies are made of: in registers.
            let mut rest = bytes.get(self.at..).unwrap_or_default();
            let mut remaining = self.current.remaining;
            let stopped = loop {
                match peek(rest)? {
                    Peek::Scalar(_, len) => {
                        rest = rest.get(len..).unwrap_or_default();
                        // Never below zero: a level without remaining elements is closed at once.
                        remaining = remaining.wrapping_sub(1);
                        if remaining == 0 {
                            break None;
                        }
                    }
                    Peek::Aggregate => break Some(true),
                    Peek::Incomplete => break Some(false),
                }
            };
            self.at = bytes.len().wrapping_sub(rest.len());
            self.current.remaining = remaining;
            let whole = match stopped {
                None => self.close(),
                Some(true) => self.open(rest)?,
                Some(false) => {
                    self.wait = self.wait_for(missing(rest)?, bytes.len())?;
                    return Ok(false);
                }
            };
            if whole {
                return Ok(true);
            }
        }
    }

    fn wait_for(&self, missing: Missing, given: usize) -> Result<Wait, ProtocolError> {
        let start = self.at.wrapping_add(1);
        Ok(match missing {
            Missing::Little => Wait::Token,
            // Not beyond what can be addressed, though this frame alone is not.
            Missing::Bytes(len) => Wait::Bulk { end: self.at.checked_add(len).ok_or(ProtocolError::TooLong)? },
            Missing::TextEnd => Wait::Line { searched: given, start, text: true },
            Missing::NumberEnd => Wait::Line { searched: given, start, text: false },
        })
    }

    /// The scalar that was waited for has been seen up to `end`. Whether the frame is whole with it.
    fn scalar_ends(&mut self, end: usize) -> bool {
        self.at = end;
        self.wait = Wait::Token;
        self.current.remaining = self.current.remaining.wrapping_sub(1);
        self.current.remaining == 0 && self.close()
    }

    /// Goes into the aggregate at the position, which is the front of `rest`. Whether the frame is whole with it.
    fn open(&mut self, rest: &[u8]) -> Result<bool, ProtocolError> {
        let Some(header) = header(rest)? else { return Ok(false) };
        if header.kind == Aggregate::Push {
            if !self.pushes {
                return Err(ProtocolError::PushInResp2);
            }
            if self.in_push {
                return Err(ProtocolError::PushInPush);
            }
            self.in_push = true;
            // A push where a frame is expected is that frame.
            self.open_push = (!self.outer.is_empty()).then_some(self.at);
        }
        if self.outer.len() >= MAX_DEPTH {
            return Err(ProtocolError::TooDeep);
        }
        let remaining = u32::try_from(header.elements).map_err(|_| ProtocolError::TooManyElements)?;
        self.outer.push(mem::replace(&mut self.current, Level { kind: header.kind, remaining }));
        self.at = self.at.wrapping_add(header.len);
        Ok(remaining == 0 && self.close())
    }

    /// Leaves the levels that have no element to come. Whether the frame is whole.
    fn close(&mut self) -> bool {
        while self.current.remaining == 0 {
            let Some(parent) = self.outer.pop() else { return true };
            let counted = match mem::replace(&mut self.current, parent).kind {
                Aggregate::Array | Aggregate::Set | Aggregate::Map => true,
                Aggregate::Attribute => false,
                Aggregate::Push => {
                    self.in_push = false;
                    match self.open_push.take() {
                        Some(start) => {
                            self.found.push(start..self.at);
                            false
                        }
                        None => true,
                    }
                }
            };
            self.current.remaining = self.current.remaining.wrapping_sub(u32::from(counted));
        }
        false
    }

    /// How many bytes at the front will not be needed again: those of scalars, headers and parts of strings that have
    /// been scanned. Bytes of embedded pushes are needed until they are whole and taken.
    pub(crate) fn forgettable(&self) -> usize {
        let scanned = match self.wait {
            Wait::Token => self.at,
            // The CRLF at the end is looked at when it is whole.
            Wait::Bulk { end } => end.wrapping_sub(2).min(self.given),
            // The last byte may be the `\r` of the end.
            Wait::Line { searched, text: true, .. } => searched.saturating_sub(1),
            Wait::Line { text: false, .. } => self.at,
        };
        let push = self.found.first().map(|push| push.start).or(self.open_push);
        push.map_or(scanned, |start| scanned.min(start))
    }

    /// The first `n` bytes have been taken away, at most [`forgettable`](Self::forgettable).
    pub(crate) fn forget(&mut self, n: usize) {
        let n = n.min(self.forgettable());
        self.at = self.at.saturating_sub(n);
        self.given = self.given.saturating_sub(n);
        match &mut self.wait {
            Wait::Token => {}
            Wait::Bulk { end } => *end = end.wrapping_sub(n),
            Wait::Line { searched, start, .. } => {
                *searched = searched.wrapping_sub(n);
                *start = start.wrapping_sub(n);
            }
        }
        if let Some(start) = &mut self.open_push {
            *start = start.wrapping_sub(n);
        }
        for push in &mut self.found {
            *push = push.start.wrapping_sub(n)..push.end.wrapping_sub(n);
        }
    }

    /// Where the whole pushes are that were found between elements, counted from the front. Each is handed out once,
    /// and before the scan of the next frame or never.
    pub(crate) fn take_pushes(&mut self) -> impl Iterator<Item = Range<usize>> + use<> {
        mem::take(&mut self.found).into_iter()
    }

    /// Where the pushes are that have not been taken.
    fn found(&self) -> &[Range<usize>] {
        &self.found
    }

    /// Whether the next byte is the first of a frame.
    pub(crate) fn is_idle(&self) -> bool {
        !self.begun && self.failed.is_none()
    }

    /// Begins anew, also after an error.
    pub(crate) fn reset(&mut self) {
        self.restart();
        self.failed = None;
        self.found.clear();
    }

    fn restart(&mut self) {
        self.begun = false;
        self.in_push = false;
        self.wait = Wait::Token;
        self.at = 0;
        self.given = 0;
        self.current = Level::FLOOR;
        self.outer.clear();
        self.open_push = None;
    }
}

/// An incremental decoder: give it the bytes received so far, until they hold a whole frame.
///
/// It holds no bytes, only how far it has come, so that nothing is looked at twice however small the pieces are in
/// which a frame arrives.
///
/// # Examples
///
/// ```
/// use redefer::resp::{Decoder, Frame};
///
/// let mut decoder = Decoder::new();
/// let mut buffer: &[u8] = b"+OK\r\n:1\r\n$3\r\nab";
/// let mut frames = Vec::new();
/// while let Some((frame, len)) = decoder.decode(buffer)? {
///     frames.push(frame);
///     buffer = &buffer[len..];
/// }
/// assert_eq!(frames, [Frame::SimpleString(b"OK"), Frame::Integer(1)]);
/// assert_eq!(buffer, b"$3\r\nab"); // to be given again, with what comes next
/// # Ok::<(), redefer::resp::ProtocolError>(())
/// ```
#[derive(Debug)]
pub struct Decoder {
    scanner: Scanner,
}

impl Decoder {
    /// A decoder of RESP3, and of RESP2, which is a part of it.
    #[must_use]
    pub fn new() -> Self {
        Decoder { scanner: Scanner::new(true) }
    }

    /// A decoder of a connection that speaks RESP2, where a push is an error. The other types of RESP3 are taken, since
    /// they can do no harm.
    #[must_use]
    pub fn resp2() -> Self {
        Decoder { scanner: Scanner::new(false) }
    }

    /// The frame at the front of `bytes` and how many of them it takes up, or `None` while it is not whole.
    ///
    /// Until it is whole, each call must be given the bytes from the first byte of the frame on, with more at the end.
    /// Then begin the next call behind it. A push that stands before a frame is a frame of its own, [`Frame::Push`].
    ///
    /// # Errors
    ///
    /// The bytes are not the protocol. Every later call gives the same error, until [`reset`](Self::reset).
    pub fn decode<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<(Frame<'a>, usize)>, ProtocolError> {
        let Some(len) = self.scanner.scan(bytes)? else { return Ok(None) };
        // The scanner has accepted these bytes, so there is a frame in them.
        Ok(bytes.get(..len).and_then(frame).map(|frame| (frame, len)))
    }

    /// The pushes that stood between the elements of the frame just decoded, which [`Elements`](super::Elements) passes
    /// over. `bytes` are those that were decoded. They are there until the next frame is begun.
    ///
    /// ```
    /// use redefer::resp::{Decoder, Frame};
    ///
    /// let bytes = b"*2\r\n:1\r\n>1\r\n+moved\r\n:2\r\n";
    /// let mut decoder = Decoder::new();
    /// let (frame, _) = decoder.decode(bytes)?.expect("a whole frame");
    /// assert_eq!(frame.as_elements().expect("an array").len(), 2);
    ///
    /// let pushes: Vec<Frame<'_>> = decoder.pushes(bytes).collect();
    /// assert!(matches!(pushes[..], [Frame::Push(push)] if push.peek() == Some(Frame::SimpleString(b"moved"))));
    /// # Ok::<(), redefer::resp::ProtocolError>(())
    /// ```
    pub fn pushes<'a>(&self, bytes: &'a [u8]) -> impl Iterator<Item = Frame<'a>> {
        self.scanner.found().iter().filter_map(|push| bytes.get(push.clone()).and_then(frame))
    }

    /// Begins anew with the first byte of a frame, also after an error.
    pub fn reset(&mut self) {
        self.scanner.reset();
    }
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}
