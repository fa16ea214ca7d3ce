//! Commands to bytes.
//!
//! A command travels as an array of bulk strings: `*2\r\n$3\r\nGET\r\n$1\r\nk\r\n`. The functions here write into a
//! buffer that is initialised up to its length and take and return a position: whoever owns the buffer moves its own
//! mark only when a command is whole, so that a panic half-way leaves nothing behind.

/// Room for the longest header (`$` or `*`, twenty digits, CRLF) and the CRLF behind the bytes.
const OVERHEAD: usize = 32;

/// Up to this length a bulk string is written with stores of fixed size and no call.
pub(crate) const SHORT: usize = 32;

/// Room for a short bulk string: its header, and two stores of sixteen bytes that may overlap.
const WINDOW: usize = 48;

/// The headers of short bulk strings, ready to be stored as eight bytes: the last byte is the header's length.
static HEADERS: [[u8; 8]; SHORT + 1] = short_headers();

const fn short_headers() -> [[u8; 8]; SHORT + 1] {
    let mut table = [[0; 8]; SHORT + 1];
    let mut n = 0;
    while n < table.len() {
        let (tens, ones) = (b'0' + (n / 10) as u8, b'0' + (n % 10) as u8);
        table[n] =
            if n < 10 { [b'$', ones, b'\r', b'\n', 0, 0, 0, 4] } else { [b'$', tens, ones, b'\r', b'\n', 0, 0, 5] };
        n += 1;
    }
    table
}

/// Makes room for `more` bytes behind `pos`; what is new is zeroed.
#[inline(always)]
fn reserve(buf: &mut Vec<u8>, pos: usize, more: usize) {
    if buf.len() - pos < more {
        grow(buf, pos, more);
    }
}

#[cold]
#[inline(never)]
fn grow(buf: &mut Vec<u8>, pos: usize, more: usize) {
    // A command with a huge value is written once and its buffer given back: it gets what it needs, not twice that.
    let size = (pos + more).max((buf.len() * 2).clamp(1024, 1 << 20));
    buf.reserve_exact(size - buf.len());
    buf.resize(size, 0);
}

/// The room behind `pos`, if there is enough for a short bulk string; its size is constant, so that it is checked once.
#[inline(always)]
fn window(buf: &mut [u8], pos: usize) -> Option<&mut [u8; WINDOW]> {
    buf.get_mut(pos..pos + WINDOW)?.first_chunk_mut()
}

/// Writes one bulk string at `pos` and returns the position behind it.
#[inline(always)]
pub(crate) fn bulk(buf: &mut Vec<u8>, pos: usize, bytes: &[u8]) -> usize {
    let n = bytes.len();
    if n > SHORT {
        return long_bulk(buf, pos, bytes);
    }
    let Some(window) = window(buf, pos) else { return long_bulk(buf, pos, bytes) };
    let header = HEADERS[n];
    window[..8].copy_from_slice(&header);
    // Every length below is in bounds by what the branches know of `n`, so that nothing is checked twice.
    let start = usize::from(header[7] & 7);
    if n >= 16 {
        window[start..start + 16].copy_from_slice(&bytes[..16]);
        window[start + n - 16..start + n].copy_from_slice(&bytes[n - 16..]);
    } else if n >= 8 {
        window[start..start + 8].copy_from_slice(&bytes[..8]);
        window[start + n - 8..start + n].copy_from_slice(&bytes[n - 8..]);
    } else if n >= 4 {
        window[start..start + 4].copy_from_slice(&bytes[..4]);
        window[start + n - 4..start + n].copy_from_slice(&bytes[n - 4..]);
    } else if n > 0 {
        window[start] = bytes[0];
        window[start + n / 2] = bytes[n / 2];
        window[start + n - 1] = bytes[n - 1];
    }
    window[start + n] = b'\r';
    window[start + n + 1] = b'\n';
    pos + start + n + 2
}

#[inline(never)]
fn long_bulk(buf: &mut Vec<u8>, pos: usize, bytes: &[u8]) -> usize {
    let n = bytes.len();
    // A window more, so that a short one that follows finds room.
    reserve(buf, pos, n + OVERHEAD + WINDOW);
    let pos = line(buf, pos, b'$', n as u64);
    buf[pos..pos + n].copy_from_slice(bytes);
    buf[pos + n..pos + n + 2].copy_from_slice(b"\r\n");
    pos + n + 2
}

/// Writes a header line, `*3\r\n`, at `pos`, where there is room for it, and returns the position behind it.
fn line(buf: &mut [u8], pos: usize, kind: u8, n: u64) -> usize {
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(n).as_bytes();
    let end = pos + 1 + digits.len();
    buf[pos] = kind;
    buf[pos + 1..end].copy_from_slice(digits);
    buf[end..end + 2].copy_from_slice(b"\r\n");
    end + 2
}

/// Writes the header of a command of `count` arguments, its name included, and the name.
///
/// Inlined with a constant name and count it becomes a few stores of constants.
#[inline(always)]
pub(crate) fn command(buf: &mut Vec<u8>, pos: usize, count: usize, name: &str) -> usize {
    let name = name.as_bytes();
    let n = name.len();
    if count >= 10 || n >= 10 {
        return long_command(buf, pos, count, name);
    }
    let Some(window) = window(buf, pos) else { return long_command(buf, pos, count, name) };
    window[..8].copy_from_slice(&[b'*', b'0' + count as u8, b'\r', b'\n', b'$', b'0' + n as u8, b'\r', b'\n']);
    window[8..8 + n].copy_from_slice(name);
    window[8 + n..10 + n].copy_from_slice(b"\r\n");
    pos + n + 10
}

#[inline(never)]
fn long_command(buf: &mut Vec<u8>, pos: usize, count: usize, name: &[u8]) -> usize {
    let pos = array(buf, pos, count);
    bulk(buf, pos, name)
}

/// Writes the header of an array of `count` elements.
pub(crate) fn array(buf: &mut Vec<u8>, pos: usize, count: usize) -> usize {
    reserve(buf, pos, OVERHEAD);
    line(buf, pos, b'*', count as u64)
}

/// Writes bytes that are encoded already.
pub(crate) fn raw(buf: &mut Vec<u8>, pos: usize, bytes: &[u8]) -> usize {
    reserve(buf, pos, bytes.len());
    buf[pos..pos + bytes.len()].copy_from_slice(bytes);
    pos + bytes.len()
}

/// Appends one command, its name and arguments, to `out`.
///
/// ```
/// let mut bytes = Vec::new();
/// redefer::resp::encode_command(&mut bytes, &["GET", "key"]);
/// assert_eq!(bytes, b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n");
/// ```
pub fn encode_command<A: AsRef<[u8]>>(out: &mut Vec<u8>, arguments: &[A]) {
    let mut pos = out.len();
    let bytes: usize = arguments.iter().map(|argument| argument.as_ref().len() + OVERHEAD).sum();
    out.resize(pos + bytes + OVERHEAD, 0);
    pos = array(out, pos, arguments.len());
    for argument in arguments {
        pos = bulk(out, pos, argument.as_ref());
    }
    out.truncate(pos);
}

/// How many whole commands stand in `bytes` before `end`, and where the first one that is not wholly before it begins.
///
/// `bytes` are our own and so well formed: this is how the connection finds, after a break, which command was cut.
pub(crate) fn commands_before(bytes: &[u8], end: usize) -> (u64, usize) {
    let mut count = 0;
    let mut pos = 0;
    while let Some(next) = command_end(bytes, pos) {
        if next > end {
            break;
        }
        count += 1;
        pos = next;
    }
    (count, pos)
}

/// Where the command that begins at `pos` ends.
pub(crate) fn command_end(bytes: &[u8], pos: usize) -> Option<usize> {
    let (count, mut pos) = number(bytes, pos + 1)?;
    for _ in 0..count {
        let (n, start) = number(bytes, pos + 1)?;
        pos = start + n + 2;
    }
    Some(pos)
}

/// The number at `pos` and the position behind its CRLF.
fn number(bytes: &[u8], mut pos: usize) -> Option<(usize, usize)> {
    let mut n = 0;
    loop {
        let byte = *bytes.get(pos)?;
        pos += 1;
        match byte {
            b'0'..=b'9' => n = n * 10 + usize::from(byte - b'0'),
            _ => return Some((n, pos + 1)),
        }
    }
}

/// Where the bytes of each bulk string from `pos` to the end of `bytes` stand.
pub(crate) fn bulk_ranges(bytes: &[u8], mut pos: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    std::iter::from_fn(move || {
        let (n, start) = number(bytes, pos + 1)?;
        pos = start + n + 2;
        Some(start..start + n)
    })
}

/// The arguments of the one command that `bytes` are, its name first.
pub(crate) fn arguments(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let start = number(bytes, 1).map_or(bytes.len(), |(_, start)| start);
    bulk_ranges(bytes, start).filter_map(|range| bytes.get(range))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_bulk(n: usize) -> Vec<u8> {
        let mut buf = Vec::new();
        let end = bulk(&mut buf, 0, &vec![b'x'; n]);
        buf.truncate(end);
        buf
    }

    #[test]
    fn bulk_strings_of_every_length_have_the_right_header() {
        for n in (0..2000).chain([9_999, 10_000, 65_535, 65_536, 1_000_000]) {
            let mut want = format!("${n}\r\n").into_bytes();
            want.extend(std::iter::repeat_n(b'x', n));
            want.extend(b"\r\n");
            assert_eq!(one_bulk(n), want, "length {n}");
        }
    }

    #[test]
    fn commands_with_few_and_many_arguments() {
        for count in [1, 2, 9, 10, 11, 1000] {
            let mut out = b"before".to_vec();
            let pos = command(&mut out, 6, count, "GET");
            assert_eq!(&out[..pos], format!("before*{count}\r\n$3\r\nGET\r\n").as_bytes());
        }
        let mut out = Vec::new();
        let pos = command(&mut out, 0, 2, "GEORADIUSBYMEMBER");
        assert_eq!(&out[..pos], b"*2\r\n$17\r\nGEORADIUSBYMEMBER\r\n");
    }

    #[test]
    fn commands_are_counted_up_to_any_byte() {
        let mut out = Vec::new();
        encode_command(&mut out, &["GET", "k"]);
        let first = out.len();
        encode_command(&mut out, &["SET", "k", "a\r\nb"]);
        let second = out.len();
        encode_command(&mut out, &["PING"]);
        for end in 0..=out.len() {
            let want = match end {
                _ if end < first => (0, 0),
                _ if end < second => (1, first),
                _ if end < out.len() => (2, second),
                _ => (3, out.len()),
            };
            assert_eq!(commands_before(&out, end), want, "before byte {end}");
        }
        assert_eq!(arguments(&out[first..second]).collect::<Vec<_>>(), [&b"SET"[..], b"k", b"a\r\nb"]);
    }
}
