//! What a frame is once it is whole: a view of its bytes.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::fmt;
use std::iter::FusedIterator;

use super::MAX_ELEMENTS;
use super::decode::{Aggregate, Peek, aggregate, header, peek, skip, unusual};

/// The fewest bytes a frame can have: `_␍␊`.
const SHORTEST: usize = 3;

/// One frame, borrowed from the bytes it was decoded from.
///
/// Two frames are equal when their bytes are; in doubles `nan` is unequal to itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Frame<'a> {
    /// A short text without line ends, mostly a status such as `OK`.
    SimpleString(&'a [u8]),
    /// An error, simple or bulk: a code word, then a message.
    Error(&'a [u8]),
    /// A signed integer.
    Integer(i64),
    /// A string of any bytes.
    Bulk(&'a [u8]),
    /// A string for humans.
    Verbatim {
        /// What the text is written in: `txt` or `mkd`.
        format: [u8; 3],
        /// The text, without its format.
        text: &'a [u8],
    },
    /// A floating point number.
    Double(f64),
    /// An integer of any size, as an optional `-` and digits.
    BigNumber(&'a [u8]),
    /// True or false.
    Boolean(bool),
    /// Nil: the null of RESP3, the nil string or the nil array of RESP2.
    Null,
    /// An ordered list.
    Array(Elements<'a>),
    /// A list without order or repetition, as the server promises; nothing here checks it.
    Set(Elements<'a>),
    /// Pairs: each key is followed by its value, so that there are twice as many elements as pairs.
    Map(Elements<'a>),
    /// A message that answers no command. Its first element is its kind.
    Push(Elements<'a>),
}

impl<'a> Frame<'a> {
    /// The name of the frame's type with its article, for messages: "a bulk string", "an array", "nil".
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Frame::SimpleString(_) => "a simple string",
            Frame::Error(_) => "an error",
            Frame::Integer(_) => "an integer",
            Frame::Bulk(_) => "a bulk string",
            Frame::Verbatim { .. } => "a verbatim string",
            Frame::Double(_) => "a double",
            Frame::BigNumber(_) => "a big number",
            Frame::Boolean(_) => "a boolean",
            Frame::Null => "nil",
            Frame::Array(_) => "an array",
            Frame::Set(_) => "a set",
            Frame::Map(_) => "a map",
            Frame::Push(_) => "a push",
        }
    }

    /// The bytes of a frame that is text: a simple string, a bulk string, a verbatim string without its format, or the
    /// digits of a big number.
    #[inline]
    #[must_use]
    pub fn as_bytes(&self) -> Option<&'a [u8]> {
        match *self {
            Frame::SimpleString(text) | Frame::Bulk(text) | Frame::BigNumber(text) | Frame::Verbatim { text, .. } => {
                Some(text)
            }
            _ => None,
        }
    }

    /// The elements of an aggregate.
    #[inline]
    #[must_use]
    pub fn as_elements(&self) -> Option<Elements<'a>> {
        match *self {
            Frame::Array(elements) | Frame::Set(elements) | Frame::Map(elements) | Frame::Push(elements) => {
                Some(elements)
            }
            _ => None,
        }
    }

    /// Whether this is an array, a set, a map or a push. Nil is none of them.
    #[inline]
    #[must_use]
    pub fn is_aggregate(&self) -> bool {
        self.as_elements().is_some()
    }

    /// Whether this is nil, in any of its three spellings.
    #[inline]
    #[must_use]
    pub fn is_nil(&self) -> bool {
        matches!(self, Frame::Null)
    }
}

/// The elements of an aggregate, decoded one by one as the iterator advances.
///
/// Copying it is cheap and gives an iterator of its own. Attributes in front of elements are skipped, and so are pushes
/// between them: [`Decoder::pushes`](super::Decoder::pushes) has those.
#[derive(Clone, Copy, PartialEq)]
pub struct Elements<'a> {
    bytes: &'a [u8],
    remaining: usize,
}

impl<'a> Elements<'a> {
    /// `bytes` are exactly those of `remaining` elements. If they are not, the iterator ends early.
    #[inline]
    #[must_use]
    pub(crate) fn new(bytes: &'a [u8], remaining: u64) -> Self {
        // The limit has fewer than 32 bits.
        Elements { bytes, remaining: remaining.min(MAX_ELEMENTS) as usize }
    }

    /// How many elements are left, twice the pairs in a map.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.remaining
    }

    /// Whether no element is left.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.remaining == 0
    }

    /// The next element, which stays the next.
    #[inline]
    #[must_use]
    pub fn peek(&self) -> Option<Frame<'a>> {
        let mut copy = *self;
        copy.next()
    }

    /// The bytes of the elements that are left.
    #[inline]
    #[must_use]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// The next element when it is an aggregate, or has an attribute or a push in front.
    #[inline(never)]
    fn next_unusual(&mut self) -> Option<Frame<'a>> {
        let next = self.decode_unusual();
        match next {
            Some((_, bytes)) => self.bytes = bytes,
            // Bytes that are no frame: the end, also for those who ask again.
            None => *self = Elements { bytes: &[], remaining: 0 },
        }
        next.map(|(frame, _)| frame)
    }

    fn decode_unusual(&self) -> Option<(Frame<'a>, &'a [u8])> {
        let mut bytes = self.bytes;
        loop {
            match unusual(bytes).ok()? {
                Peek::Scalar(frame, len) => return Some((frame, bytes.get(len..)?)),
                Peek::Incomplete => return None,
                Peek::Aggregate => {
                    let header = header(bytes).ok()??;
                    let body = bytes.get(header.len..)?;
                    let (body, rest) = body.split_at_checked(skip(body, header.elements)?)?;
                    if !matches!(header.kind, Aggregate::Attribute | Aggregate::Push) {
                        return Some((aggregate(header.kind, Elements::new(body, header.elements))?, rest));
                    }
                    bytes = rest;
                }
            }
        }
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Frame<'a>;

    #[inline]
    fn next(&mut self) -> Option<Frame<'a>> {
        self.remaining = self.remaining.checked_sub(1)?;
        if let Ok(Peek::Scalar(frame, len)) = peek(self.bytes)
            && let Some(rest) = self.bytes.get(len..)
        {
            self.bytes = rest;
            return Some(frame);
        }
        self.next_unusual()
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        // The second bound changes nothing for whole frames. It keeps `collect` from reserving room for a number that
        // was announced and not sent.
        let most = self.remaining.min(self.bytes.len() / SHORTEST);
        (most, Some(most))
    }
}

impl ExactSizeIterator for Elements<'_> {
    #[inline]
    fn len(&self) -> usize {
        self.remaining
    }
}

impl FusedIterator for Elements<'_> {}

impl fmt::Debug for Elements<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(*self).finish()
    }
}
