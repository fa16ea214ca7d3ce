//! One token at a time, without state: a scalar whole, an aggregate's header.
//!
//! Every function here reads from the front to the back and decides on an error by what it has read so far. So an error
//! does not depend on where the bytes were cut, and no byte beyond the end of a frame is looked at.
//!
//! [`peek`] is the hottest function of the crate after the encoder. The replies that make up most of the traffic are
//! told apart by hand in it; all others take a call to [`unusual`].

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use memchr::memchr_iter;

use super::frame::{Elements, Frame};
use super::{MAX_BULK, MAX_ELEMENTS, MAX_LINE, ProtocolError, number};

/// What is at the front of the bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Peek<'a> {
    /// A whole scalar, nil included, and its length with the last CRLF.
    Scalar(Frame<'a>, usize),
    /// The whole header of an aggregate or of an attribute: see [`header`].
    Aggregate,
    /// Neither, yet.
    Incomplete,
}

/// What a [`Header`] begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aggregate {
    Array,
    Set,
    Map,
    Push,
    /// Not a frame of its own: pairs that say something of the frame behind them.
    Attribute,
}

/// The header of an aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Aggregate,
    /// How many frames follow: in a map and in an attribute twice the pairs.
    pub(crate) elements: u64,
    /// The bytes of the header, with CRLF.
    pub(crate) len: usize,
}

/// Looks at the front of `bytes`. A scalar comes back decoded.
///
/// Inlined wherever it is called, so that the frame never goes through memory.
#[inline(always)]
pub(crate) fn peek(bytes: &[u8]) -> Result<Peek<'_>, ProtocolError> {
    // Six bytes hold the longest of the short headers, and no whole bulk string is shorter.
    if let Some(&[b'$', a, b, c, d, e]) = bytes.first_chunk() {
        let (first, second, third) = (digit(a), digit(b), digit(c));
        let (start, len, well_formed) = if c == b'\r' {
            let len = first.wrapping_mul(10).wrapping_add(second);
            (5, len, d == b'\n' && second < 10 && first.wrapping_sub(1) < 9)
        } else if b == b'\r' {
            (4, first, c == b'\n' && first < 10)
        } else {
            let len = first.wrapping_mul(100).wrapping_add(second.wrapping_mul(10)).wrapping_add(third);
            let digits = third < 10 && second < 10 && first.wrapping_sub(1) < 9;
            (6, len, d == b'\r' && e == b'\n' && digits)
        };
        if !well_formed {
            return unusual(bytes);
        }
        return match body(bytes, start, len as usize)? {
            Some((text, len)) => Ok(Peek::Scalar(Frame::Bulk(text), len)),
            None => Ok(Peek::Incomplete),
        };
    }
    if let Some((text, len)) = usual_status(bytes) {
        return Ok(Peek::Scalar(Frame::SimpleString(text), len));
    }
    match bytes.first() {
        Some(b'+') => {
            if let Some((_, at)) = short_line(bytes)
                && let Some(text) = bytes.get(1..at)
            {
                return Ok(Peek::Scalar(Frame::SimpleString(text), at.wrapping_add(2)));
            }
        }
        Some(b':') => {
            if let Some((value, len)) = short_integer(bytes) {
                return Ok(Peek::Scalar(Frame::Integer(value), len));
            }
        }
        Some(b'*') => {
            if let Some(&[_, only, b'\r', b'\n']) = bytes.first_chunk()
                && digit(only) < 10
            {
                return Ok(Peek::Aggregate);
            }
        }
        Some(_) => {}
        None => return Ok(Peek::Incomplete),
    }
    unusual(bytes)
}

/// The two commonest statuses, and the length of their frames. They are constants, so that comparing them with another
/// costs nothing where this is inlined.
#[inline(always)]
pub(crate) fn usual_status(bytes: &[u8]) -> Option<(&'static [u8], usize)> {
    // Compared as words: the compiler would go byte by byte.
    match *bytes.first_chunk()? {
        [a, b, c, d, b'\n'] if u32::from_ne_bytes([a, b, c, d]) == u32::from_ne_bytes(*b"+OK\r") => Some((b"OK", 5)),
        [a, b, c, d, b'G']
            if u32::from_ne_bytes([a, b, c, d]) == u32::from_ne_bytes(*b"+PON") && bytes.get(5..7) == Some(b"\r\n") =>
        {
            Some((b"PONG", 7))
        }
        _ => None,
    }
}

/// A short integer at the front that is not negative, and the length of its frame. What is not one is not looked at.
#[inline(always)]
pub(crate) fn short_integer(bytes: &[u8]) -> Option<(i64, usize)> {
    if bytes.first() != Some(&b':') {
        return None;
    }
    if let Some(&[_, only, b'\r', b'\n']) = bytes.first_chunk()
        && digit(only) < 10
    {
        return Some((i64::from(digit(only)), 4));
    }
    let (line, at) = short_line(bytes)?;
    let value = short_number(line, at.wrapping_sub(1))?;
    Some((i64::from(value), at.wrapping_add(2)))
}

/// A whole bulk string of ten to 99 bytes at the front, and the length of its frame. What is not one is not looked at.
#[inline(always)]
pub(crate) fn short_bulk(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let &[b'$', a, b, b'\r', b'\n'] = bytes.first_chunk()? else { return None };
    let (first, second) = (digit(a), digit(b));
    if first.wrapping_sub(1) >= 9 || second >= 10 {
        return None;
    }
    body(bytes, 5, first.wrapping_mul(10).wrapping_add(second) as usize).ok()?
}

#[inline(always)]
fn digit(byte: u8) -> u32 {
    u32::from(byte.wrapping_sub(b'0'))
}

/// The eight bytes behind the type byte, the first of them lowest, and where the line ends, in front of its CRLF; if it
/// ends within those eight and nine are there. A line with a `\r` of its own is none of these.
#[inline(always)]
fn short_line(bytes: &[u8]) -> Option<(u64, usize)> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let &[_, line @ .., _] = bytes.first_chunk::<10>()?;
    let line = u64::from_le_bytes(line);
    // The lowest byte that is `\r` becomes the lowest byte that is zero, and that the one whose highest bit is left.
    let zero = line ^ ONES.wrapping_mul(0x0d);
    let found = zero.wrapping_sub(ONES) & !zero & ONES.wrapping_mul(0x80);
    let at = (found.trailing_zeros() / 8).wrapping_add(1) as usize;
    // Without a `\r` this is the tenth byte, and never a line end by itself.
    (found != 0 && bytes.get(at.wrapping_add(1)) == Some(&b'\n')).then_some((line, at))
}

/// The number that the first `digits` bytes are, the lowest being the first. `None` if there are none, if they are
/// something else, or if they begin with a zero.
#[inline(always)]
fn short_number(line: u64, digits: usize) -> Option<u32> {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const EVERY_FOURTH: u64 = 0x0000_00ff_0000_00ff;
    let first = digit(line.to_le_bytes()[0]);
    if digits == 0 || first == 0 {
        return None;
    }
    // Digits as values, moved up so that zeros stand in front of them.
    let unused = (digits as u32).wrapping_mul(8);
    let values = (line ^ EACH.wrapping_mul(0x30)).wrapping_shl(64u32.wrapping_sub(unused));
    if (values.wrapping_add(EACH.wrapping_mul(0x76)) | values) & EACH.wrapping_mul(0x80) != 0 {
        return None;
    }
    // Pairs of digits, then all four pairs at once: each product leaves its part of the sum in the upper half.
    let pairs = values.wrapping_mul(10).wrapping_add(values >> 8);
    let upper = (pairs & EVERY_FOURTH).wrapping_mul(100 + (1_000_000 << 32));
    let lower = ((pairs >> 16) & EVERY_FOURTH).wrapping_mul(1 + (10_000 << 32));
    u32::try_from(upper.wrapping_add(lower) >> 32).ok()
}

/// The `len` bytes from `start` on, if they and the CRLF behind them are there, and the length of the frame.
#[inline(always)]
fn body(bytes: &[u8], start: usize, len: usize) -> Result<Option<(&[u8], usize)>, ProtocolError> {
    let Some((text, tail)) = bytes.get(start..).and_then(|rest| rest.split_at_checked(len)) else { return Ok(None) };
    match tail.first_chunk() {
        // No overflow: these bytes are in memory.
        Some(&end) if u16::from_ne_bytes(end) == u16::from_ne_bytes(*b"\r\n") => {
            Ok(Some((text, start.wrapping_add(len).wrapping_add(2))))
        }
        Some(_) => Err(ProtocolError::MissingCrlf),
        None => Ok(None),
    }
}

/// Like [`peek`], for everything.
#[inline(never)]
pub(super) fn unusual(bytes: &[u8]) -> Result<Peek<'_>, ProtocolError> {
    match bytes.first_chunk() {
        // The GET of a key that is not there, the TTL of one that stays or is not there.
        Some(b"$-1\r\n") => return Ok(Peek::Scalar(Frame::Null, 5)),
        Some(&[b':', b'-', only @ b'1'..=b'9', b'\r', b'\n']) => {
            return Ok(Peek::Scalar(Frame::Integer(0i64.wrapping_sub(i64::from(digit(only)))), 5));
        }
        _ => {}
    }
    let Some(&byte) = bytes.first() else { return Ok(Peek::Incomplete) };
    let scalar = match byte {
        b'+' => line(bytes)?.map(|(text, len)| (Frame::SimpleString(text), len)),
        b'-' => line(bytes)?.map(|(text, len)| (Frame::Error(text), len)),
        b':' => integer(bytes)?,
        b'$' | b'!' | b'=' => bulk(byte, bytes)?,
        b'_' => constant(bytes, b"_\r\n", ProtocolError::BadNull)?.map(|len| (Frame::Null, len)),
        b'#' => boolean(bytes)?,
        b',' => match line(bytes)? {
            Some((text, len)) => Some((Frame::Double(number::parse_f64(text).ok_or(ProtocolError::BadDouble)?), len)),
            None => None,
        },
        b'(' => match line(bytes)? {
            Some((text, _)) if !number::is_big_number(text) => return Err(ProtocolError::BadBigNumber),
            whole => whole.map(|(text, len)| (Frame::BigNumber(text), len)),
        },
        b'*' => match count(bytes, true)? {
            Count::Incomplete => None,
            Count::Nil(len) => Some((Frame::Null, len)),
            Count::Is(..) => return header(bytes).map(|_| Peek::Aggregate),
        },
        b'%' | b'~' | b'>' | b'|' => return Ok(header(bytes)?.map_or(Peek::Incomplete, |_| Peek::Aggregate)),
        b';' | b'.' => return Err(ProtocolError::Streamed),
        _ => return Err(ProtocolError::UnknownType(byte)),
    };
    Ok(scalar.map_or(Peek::Incomplete, |(frame, len)| Peek::Scalar(frame, len)))
}

/// The header of an aggregate at the front of `bytes`; `None` when it needs more bytes.
#[inline]
pub(crate) fn header(bytes: &[u8]) -> Result<Option<Header>, ProtocolError> {
    // What fits into one digit is most of all nested aggregates.
    if let Some(&[b'*', count, b'\r', b'\n']) = bytes.first_chunk()
        && digit(count) < 10
    {
        return Ok(Some(Header { kind: Aggregate::Array, elements: u64::from(digit(count)), len: 4 }));
    }
    unusual_header(bytes)
}

#[inline(never)]
fn unusual_header(bytes: &[u8]) -> Result<Option<Header>, ProtocolError> {
    let (kind, frames_each) = match bytes.first() {
        Some(b'*') => (Aggregate::Array, 1),
        Some(b'~') => (Aggregate::Set, 1),
        Some(b'%') => (Aggregate::Map, 2),
        Some(b'>') => (Aggregate::Push, 1),
        Some(b'|') => (Aggregate::Attribute, 2),
        Some(&byte) => return Err(ProtocolError::UnknownType(byte)),
        None => return Ok(None),
    };
    match count(bytes, false)? {
        Count::Is(count, len) => {
            let elements = count.checked_mul(frames_each).filter(|&elements| elements <= MAX_ELEMENTS);
            Ok(Some(Header { kind, elements: elements.ok_or(ProtocolError::TooManyElements)?, len }))
        }
        Count::Incomplete | Count::Nil(_) => Ok(None),
    }
}

/// The number in a header.
enum Count {
    Incomplete,
    /// `-1`, and the length of the line.
    Nil(usize),
    /// The number, and the length of the line.
    Is(u64, usize),
}

/// Reads the number behind the type byte. What does not fit into 64 bits comes back as the largest number.
fn count(bytes: &[u8], nullable: bool) -> Result<Count, ProtocolError> {
    /// As many as 64 bits may take.
    const DIGITS: usize = 20;
    let mut value = 0u64;
    for (at, &byte) in bytes.iter().enumerate().skip(1) {
        match byte {
            b'0'..=b'9' if at <= DIGITS && (value != 0 || at == 1) => {
                value = value.saturating_mul(10).saturating_add(u64::from(digit(byte)));
            }
            b'\r' if at > 1 => {
                return match bytes.get(at.wrapping_add(1)) {
                    Some(b'\n') => Ok(Count::Is(value, at.wrapping_add(2))),
                    Some(_) => Err(ProtocolError::BadLength),
                    None => Ok(Count::Incomplete),
                };
            }
            b'-' if at == 1 && nullable => {
                let rest = bytes.get(1..).unwrap_or_default();
                let len = constant(rest, b"-1\r\n", ProtocolError::BadLength)?;
                return Ok(len.map_or(Count::Incomplete, |len| Count::Nil(len.wrapping_add(1))));
            }
            b'?' if at == 1 => return Err(ProtocolError::Streamed),
            _ => return Err(ProtocolError::BadLength),
        }
    }
    Ok(Count::Incomplete)
}

/// The length of `expected` if `bytes` begin with it, `None` if they are too few to tell.
fn constant(bytes: &[u8], expected: &[u8], otherwise: ProtocolError) -> Result<Option<usize>, ProtocolError> {
    if bytes.starts_with(expected) {
        Ok(Some(expected.len()))
    } else if expected.starts_with(bytes) {
        Ok(None)
    } else {
        Err(otherwise)
    }
}

type Scalar<'a> = Option<(Frame<'a>, usize)>;

fn boolean(bytes: &[u8]) -> Result<Scalar<'_>, ProtocolError> {
    let value = bytes.get(1) == Some(&b't');
    let expected = if value { b"#t\r\n" } else { b"#f\r\n" };
    Ok(constant(bytes, expected, ProtocolError::BadBoolean)?.map(|len| (Frame::Boolean(value), len)))
}

fn integer(bytes: &[u8]) -> Result<Scalar<'_>, ProtocolError> {
    /// Type byte, sign, the nineteen digits of the least integer, and `\r`.
    const LONGEST: usize = 22;
    let line = bytes.get(..LONGEST).unwrap_or(bytes);
    match line.iter().position(|&byte| byte == b'\r') {
        Some(end) => {
            let text = bytes.get(1..end).unwrap_or_default();
            let value = number::parse_i64(text).ok_or(ProtocolError::BadInteger)?;
            match bytes.get(end.wrapping_add(1)) {
                Some(b'\n') => Ok(Some((Frame::Integer(value), end.wrapping_add(2)))),
                Some(_) => Err(ProtocolError::BadInteger),
                None => Ok(None),
            }
        }
        None if bytes.len() >= LONGEST => Err(ProtocolError::BadInteger),
        None => Ok(None),
    }
}

/// A bulk string, a bulk error or a verbatim string.
fn bulk(kind: u8, bytes: &[u8]) -> Result<Scalar<'_>, ProtocolError> {
    let (start, len) = match count(bytes, kind == b'$')? {
        Count::Incomplete => return Ok(None),
        Count::Nil(len) => return Ok(Some((Frame::Null, len))),
        Count::Is(len, start) => (start, bulk_len(len, start)?),
    };
    if kind == b'=' && !has_format(bytes, start, len)? {
        return Ok(None);
    }
    let Some((text, end)) = body(bytes, start, len)? else { return Ok(None) };
    let frame = match (kind, text) {
        (b'=', &[a, b, c, _, ref text @ ..]) => Frame::Verbatim { format: [a, b, c], text },
        (b'!', text) => Frame::Error(text),
        (_, text) => Frame::Bulk(text),
    };
    Ok(Some((frame, end)))
}

/// The announced length of a bulk string, if it is within the limit and the whole frame within what can be addressed.
fn bulk_len(len: u64, start: usize) -> Result<usize, ProtocolError> {
    if len > MAX_BULK {
        return Err(ProtocolError::TooLong);
    }
    let len = usize::try_from(len).map_err(|_| ProtocolError::TooLong)?;
    match len.checked_add(start).and_then(|end| end.checked_add(2)) {
        Some(end) if isize::try_from(end).is_ok() => Ok(len),
        _ => Err(ProtocolError::TooLong),
    }
}

/// Whether the format of a verbatim string is there. It is an error if it can't come or is something else.
fn has_format(bytes: &[u8], start: usize, len: usize) -> Result<bool, ProtocolError> {
    match bytes.get(start.wrapping_add(3)) {
        _ if len < 4 => Err(ProtocolError::BadVerbatim),
        Some(b':') => Ok(true),
        Some(_) => Err(ProtocolError::BadVerbatim),
        None => Ok(false),
    }
}

/// The text between the type byte and the first CRLF, and the length of the whole line.
fn line(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, ProtocolError> {
    let text = |end: usize| bytes.get(1..end.wrapping_sub(2)).map(|text| (text, end));
    // Most lines are shorter than a call to memchr is worth.
    let mut last = 0;
    for (at, &byte) in bytes.get(..BY_HAND).unwrap_or(bytes).iter().enumerate() {
        if byte == b'\n' && last == b'\r' {
            return Ok(text(at.wrapping_add(1)));
        }
        last = byte;
    }
    Ok(line_end(bytes, BY_HAND, 1)?.and_then(text))
}

const BY_HAND: usize = 16;

/// Where the line ends, behind its CRLF, if that is at `from` or later; the text of the line begins at `start`, which
/// may lie before the bytes by so much that it wraps.
pub(super) fn line_end(bytes: &[u8], from: usize, start: usize) -> Result<Option<usize>, ProtocolError> {
    let window = start.wrapping_add(MAX_LINE).wrapping_add(2);
    let unseen = bytes.get(from..bytes.len().min(window)).unwrap_or_default();
    for offset in memchr_iter(b'\n', unseen) {
        let at = from.wrapping_add(offset);
        if bytes.get(at.wrapping_sub(1)) == Some(&b'\r') {
            return Ok(Some(at.wrapping_add(1)));
        }
    }
    if bytes.len() >= window { Err(ProtocolError::TooLong) } else { Ok(None) }
}

/// What a scalar that is cut waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// A few bytes: it is cheapest to look at it again from its first byte.
    Little,
    /// The bytes up to this length, of which the last two are CRLF.
    Bytes(usize),
    /// CRLF, after text of any kind.
    TextEnd,
    /// CRLF, after which the line must be looked at from its first byte.
    NumberEnd,
}

/// What the token at the front of `bytes` waits for, after [`peek`] has found that it is cut.
#[cold]
pub(super) fn missing(bytes: &[u8]) -> Result<Missing, ProtocolError> {
    Ok(match bytes.first() {
        Some(b'+' | b'-') => Missing::TextEnd,
        Some(b',' | b'(') => Missing::NumberEnd,
        Some(&kind @ (b'$' | b'!' | b'=')) => match count(bytes, kind == b'$')? {
            Count::Is(len, start) => {
                let len = bulk_len(len, start)?;
                if kind == b'=' && !has_format(bytes, start, len)? {
                    Missing::Little
                } else {
                    Missing::Bytes(start.wrapping_add(len).wrapping_add(2))
                }
            }
            _ => Missing::Little,
        },
        _ => Missing::Little,
    })
}

/// The length of as many frames at the front of `bytes`, with the attributes and pushes in front of each. `None` if not
/// all of them are there.
///
/// Aggregates only add to the number of frames to come, so that neither a stack nor recursion is needed.
pub(super) fn skip(bytes: &[u8], frames: u64) -> Option<usize> {
    let mut at = 0usize;
    let mut pending = frames;
    while pending > 0 {
        let rest = bytes.get(at..)?;
        match peek(rest).ok()? {
            Peek::Scalar(_, len) => {
                at = at.wrapping_add(len);
                pending = pending.wrapping_sub(1);
            }
            Peek::Aggregate => {
                let header = header(rest).ok()??;
                at = at.wrapping_add(header.len);
                let counted = u64::from(!matches!(header.kind, Aggregate::Push | Aggregate::Attribute));
                pending = pending.wrapping_sub(counted).checked_add(header.elements)?;
            }
            Peek::Incomplete => return None,
        }
    }
    Some(at)
}

/// The frame that `bytes` are: exactly those that a scanner accepted, leading attributes included. `None` for bytes
/// that are none.
pub(crate) fn frame(bytes: &[u8]) -> Option<Frame<'_>> {
    let mut bytes = bytes;
    loop {
        match unusual(bytes).ok()? {
            Peek::Scalar(frame, _) => return Some(frame),
            Peek::Incomplete => return None,
            Peek::Aggregate => {
                let header = header(bytes).ok()??;
                let body = bytes.get(header.len..)?;
                if let Some(frame) = aggregate(header.kind, Elements::new(body, header.elements)) {
                    return Some(frame);
                }
                bytes = body.get(skip(body, header.elements)?..)?;
            }
        }
    }
}

/// The frame of these elements; `None` for an attribute.
#[inline]
pub(super) fn aggregate(kind: Aggregate, elements: Elements<'_>) -> Option<Frame<'_>> {
    match kind {
        Aggregate::Array => Some(Frame::Array(elements)),
        Aggregate::Set => Some(Frame::Set(elements)),
        Aggregate::Map => Some(Frame::Map(elements)),
        Aggregate::Push => Some(Frame::Push(elements)),
        Aggregate::Attribute => None,
    }
}
