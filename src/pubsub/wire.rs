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
    pub(super) const ALL: [Kind; 3] = [Kind::Channel, Kind::Pattern, Kind::Shard];

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
    pub(super) pattern: Option<Range<usize>>,
    pub(super) channel: Range<usize>,
    pub(super) payload: Range<usize>,
    pub(super) shard: bool,
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

/// What the one whole frame says that `bytes` are.
pub(super) fn read(bytes: &[u8], resp2: bool) -> Said<'_> {
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
