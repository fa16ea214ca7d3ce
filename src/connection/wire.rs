//! What the frames of a subscribed connection say, in both protocols: a push in RESP3, an array in RESP2.

use std::ops::Range;

use crate::resp::{self, Frame};

/// What is subscribed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Channel,
    Pattern,
    Shard,
}

impl Kind {
    pub(crate) const ALL: [Kind; 3] = [Kind::Channel, Kind::Pattern, Kind::Shard];

    /// The command that does it.
    pub(crate) fn command(self, subscribe: bool) -> &'static str {
        match (self, subscribe) {
            (Kind::Channel, true) => "SUBSCRIBE",
            (Kind::Channel, false) => "UNSUBSCRIBE",
            (Kind::Pattern, true) => "PSUBSCRIBE",
            (Kind::Pattern, false) => "PUNSUBSCRIBE",
            (Kind::Shard, true) => "SSUBSCRIBE",
            (Kind::Shard, false) => "SUNSUBSCRIBE",
        }
    }
}

/// Where the parts of a message stand in its frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Spans {
    pub(crate) pattern: Option<Range<usize>>,
    pub(crate) channel: Range<usize>,
    pub(crate) payload: Range<usize>,
    pub(crate) shard: bool,
}

/// What a frame is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Said<'a> {
    Message(Spans),
    /// A channel was subscribed to, or no longer is. There is no name when there was nothing to unsubscribe from.
    Acknowledged {
        kind: Kind,
        subscribed: bool,
        name: Option<&'a [u8]>,
        count: u64,
    },
    /// The reply to PING.
    Pong(&'a [u8]),
    Error(&'a [u8]),
    /// A push of another kind.
    Push,
    /// What nothing has asked for.
    Reply,
}

/// Where a part of `bytes` stands in them.
fn range(bytes: &[u8], part: &[u8]) -> Range<usize> {
    let start = part.as_ptr().addr() - bytes.as_ptr().addr();
    start..start + part.len()
}

/// What a push says, which is one whole frame.
pub(crate) fn read_push(bytes: &[u8]) -> Said<'_> {
    read(bytes, false)
}

/// A message at the front of `bytes`, and how long its frame is, if all of it is there and nothing about it is unusual: what
/// nearly all frames are. Everything else is for the scanner.
#[inline]
pub(crate) fn message(bytes: &[u8], resp2: bool) -> Option<(usize, Spans)> {
    let (first, rest) = bytes.split_first()?;
    if *first != if resp2 { b'*' } else { b'>' } {
        return None;
    }
    let (at, has_pattern, shard) = if rest.starts_with(b"3\r\n$7\r\nmessage\r\n") {
        (17, false, false)
    } else if rest.starts_with(b"4\r\n$8\r\npmessage\r\n") {
        (18, true, false)
    } else if rest.starts_with(b"3\r\n$8\r\nsmessage\r\n") {
        (18, false, true)
    } else {
        return None;
    };
    let (pattern, at) = if has_pattern {
        let pattern = short_bulk(bytes, at)?;
        let end = pattern.end + 2;
        (Some(pattern), end)
    } else {
        (None, at)
    };
    let channel = short_bulk(bytes, at)?;
    let payload = short_bulk(bytes, channel.end + 2)?;
    Some((payload.end + 2, Spans { pattern, channel, payload, shard }))
}

/// Where the text stands of the bulk string at this place, if it is there and its length has at most five digits.
#[inline]
fn short_bulk(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let header = bytes.get(at..)?.strip_prefix(b"$")?;
    let (mut len, mut digits) = (0, 0);
    for byte in header.iter().take(5) {
        match byte.wrapping_sub(b'0') {
            digit @ 0..=9 => len = len * 10 + usize::from(digit),
            _ => break,
        }
        digits += 1;
    }
    // One with a zero in front is not usual.
    if digits == 0 || (digits > 1 && header.first() == Some(&b'0')) || !header.get(digits..)?.starts_with(b"\r\n") {
        return None;
    }
    let start = at + digits + 3;
    let end = start + len;
    bytes.get(end..)?.starts_with(b"\r\n").then_some(start..end)
}

/// What the one whole frame says that `bytes` are.
pub(crate) fn read(bytes: &[u8], resp2: bool) -> Said<'_> {
    let elements = match resp::frame(bytes) {
        Some(Frame::Push(elements)) => elements,
        Some(Frame::Array(elements)) if resp2 => elements,
        Some(Frame::Bulk(token)) => return Said::Pong(token),
        Some(Frame::Error(message)) => return Said::Error(message),
        _ => return Said::Reply,
    };
    let len = elements.len();
    let mut elements = elements;
    let Some(Frame::Bulk(word) | Frame::SimpleString(word)) = elements.next() else { return Said::Push };
    let mut text = || match elements.next() {
        Some(Frame::Bulk(text)) => Some(Some(text)),
        Some(Frame::Null) => Some(None),
        _ => None,
    };
    let message = |pattern: Option<&[u8]>, channel: &[u8], payload: &[u8], shard| {
        Said::Message(Spans {
            pattern: pattern.map(|pattern| range(bytes, pattern)),
            channel: range(bytes, channel),
            payload: range(bytes, payload),
            shard,
        })
    };
    let acknowledged = match (word, len) {
        (b"message" | b"smessage", 3) => {
            // The payload may be something else than text: the invalidations of RESP2's tracking.
            return match (text(), text()) {
                (Some(Some(channel)), Some(Some(payload))) => message(None, channel, payload, word[0] == b's'),
                _ => Said::Push,
            };
        }
        (b"pmessage", 4) => {
            return match (text(), text(), text()) {
                (Some(Some(pattern)), Some(Some(channel)), Some(Some(payload))) => {
                    message(Some(pattern), channel, payload, false)
                }
                _ => Said::Push,
            };
        }
        (b"pong", 2) if resp2 => {
            return match text() {
                Some(Some(token)) => Said::Pong(token),
                _ => Said::Push,
            };
        }
        (b"subscribe", 3) => (Kind::Channel, true),
        (b"unsubscribe", 3) => (Kind::Channel, false),
        (b"psubscribe", 3) => (Kind::Pattern, true),
        (b"punsubscribe", 3) => (Kind::Pattern, false),
        (b"ssubscribe", 3) => (Kind::Shard, true),
        (b"sunsubscribe", 3) => (Kind::Shard, false),
        _ => return Said::Push,
    };
    let (kind, subscribed) = acknowledged;
    match (text(), elements.next()) {
        (Some(name), Some(Frame::Integer(count))) => {
            Said::Acknowledged { kind, subscribed, name, count: u64::try_from(count).unwrap_or(0) }
        }
        _ => Said::Push,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pattern, channel and payload.
    fn parts(bytes: &[u8], resp2: bool) -> Vec<&[u8]> {
        let Said::Message(spans) = read(bytes, resp2) else { panic!("no message") };
        let parts = spans.pattern.into_iter().chain([spans.channel, spans.payload]);
        parts.map(|range| &bytes[range]).collect()
    }

    #[test]
    fn usual_messages_are_found_as_the_scanner_finds_them() {
        let word = |text: &str| format!("${}\r\n{text}\r\n", text.len());
        let long = "x".repeat(12_345);
        for (resp2, first) in [(true, '*'), (false, '>')] {
            for payload in ["", "1", "0123456789", "\r\n$1\r\n", &long] {
                for head in [
                    format!("3\r\n{}{}", word("message"), word("c")),
                    format!("3\r\n{}{}", word("smessage"), word("")),
                    format!("4\r\n{}{}{}", word("pmessage"), word("c*"), word("cc")),
                ] {
                    let frame = format!("{first}{head}{}", word(payload));
                    let Said::Message(spans) = read(frame.as_bytes(), resp2) else { panic!("no message") };
                    let found = Some((frame.len(), spans));
                    assert_eq!(message(frame.as_bytes(), resp2), found);
                    assert_eq!(message(format!("{frame}{frame}").as_bytes(), resp2), found);
                    assert_eq!(message(frame.as_bytes(), !resp2), None);
                    for len in 0..frame.len().min(60) {
                        assert_eq!(message(&frame.as_bytes()[..len], resp2), None);
                    }
                    assert_eq!(message(&frame.as_bytes()[..frame.len() - 1], resp2), None);
                }
            }
        }
    }

    #[test]
    fn what_is_unusual_is_left_to_the_scanner() {
        let usual = ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nmm\r\n";
        assert!(message(usual.as_bytes(), false).is_some());
        for (from, to) in [
            ("$2\r\nmm", "$02\r\nmm"),
            ("$2\r\nmm", "$-1\r\nmm"),
            ("$2\r\nmm", "$\r\nmm"),
            ("$2\r\nmm", "$3\r\nmm"),
            ("$2\r\nmm", "$1\r\nmm"),
            ("$2\r\nmm", "$2\rXmm"),
            ("$2\r\nmm", "$000002\r\nmm"),
            ("$2\r\nmm", "$100000\r\nmm"),
            ("$2\r\nmm", ":2\r\nmm"),
            ("$2\r\nmm", "_\r\n"),
            ("$1\r\nc", "$1\r\ncc"),
            ("message", "massage"),
            (">3", ">4"),
            (">3", "*3"),
            (">3", "|1\r\n+a\r\n+b\r\n>3"),
        ] {
            assert_eq!(message(usual.replacen(from, to, 1).as_bytes(), false), None, "{to:?}");
        }
    }

    #[test]
    fn messages_are_read_in_both_protocols() {
        for (resp2, first) in [(true, "*"), (false, ">")] {
            let frame = format!("{first}3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$0\r\n\r\n");
            assert_eq!(parts(frame.as_bytes(), resp2), [&b"c"[..], b""]);
            let frame = format!("{first}3\r\n$8\r\nsmessage\r\n$1\r\nc\r\n$1\r\nm\r\n");
            assert_eq!(parts(frame.as_bytes(), resp2), [b"c", b"m"]);
            let frame = format!("{first}4\r\n$8\r\npmessage\r\n$2\r\nc*\r\n$2\r\ncc\r\n$1\r\nm\r\n");
            assert_eq!(parts(frame.as_bytes(), resp2), [&b"c*"[..], b"cc", b"m"]);
        }
    }

    #[test]
    fn acknowledgements_are_told_from_messages_and_from_replies() {
        let nothing = Said::Acknowledged { kind: Kind::Channel, subscribed: false, name: None, count: 1 };
        assert_eq!(read(b">3\r\n$11\r\nunsubscribe\r\n_\r\n:1\r\n", false), nothing);
        assert_eq!(read(b"*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:1\r\n", true), nothing);
        let shard = Said::Acknowledged { kind: Kind::Shard, subscribed: true, name: Some(b"c"), count: 7 };
        assert_eq!(read(b">3\r\n$10\r\nssubscribe\r\n$1\r\nc\r\n:7\r\n", false), shard);
        assert_eq!(read(b"*2\r\n$4\r\npong\r\n$1\r\n8\r\n", true), Said::Pong(b"8"));
        assert_eq!(read(b"$1\r\n8\r\n", true), Said::Pong(b"8"));
        assert_eq!(read(b"-NOPERM no\r\n", false), Said::Error(b"NOPERM no"));
        // In RESP3 an array is a reply.
        assert_eq!(read(b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n", false), Said::Reply);
        assert_eq!(read(b":1\r\n", true), Said::Reply);
    }

    #[test]
    fn what_is_not_known_is_a_push() {
        assert_eq!(read(b">2\r\n$10\r\ninvalidate\r\n_\r\n", false), Said::Push);
        assert_eq!(read(b">0\r\n", false), Said::Push);
        assert_eq!(read(b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n*1\r\n$1\r\nk\r\n", false), Said::Push);
        assert_eq!(read(b">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n$1\r\nk\r\n", false), Said::Push);
        assert_eq!(read(b">4\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n$1\r\nm\r\n", false), Said::Push);
    }
}
