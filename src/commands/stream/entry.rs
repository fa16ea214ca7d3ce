//! Stream IDs, ranges of them, and entries.

use std::fmt;
use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use crate::args::{Arg, ToArg};
use crate::commands::parts::unix_millis;
use crate::error::{Error, Result, UnexpectedReply};
use crate::resp::{Elements, Frame, number};
use crate::values::FromReply;

/// The ID of an entry of a stream: a time in milliseconds since 1970, and a number that tells the entries of one
/// millisecond apart. IDs are ordered as their entries are.
///
/// ```
/// use redefer::commands::StreamId;
///
/// let id: StreamId = "1526919030474-55".parse()?;
/// assert_eq!(id, StreamId::new(1526919030474, 55));
/// assert_eq!(id.to_string(), "1526919030474-55");
/// assert!(StreamId::MIN < id && id < StreamId::MAX);
/// # Ok::<(), redefer::commands::ParseStreamIdError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// The milliseconds.
    pub ms: u64,
    /// The number among the entries of the same millisecond.
    pub seq: u64,
}

impl StreamId {
    /// Before every entry: `0-0`. No entry has it.
    pub const MIN: StreamId = StreamId { ms: 0, seq: 0 };

    /// The last ID there can be.
    pub const MAX: StreamId = StreamId { ms: u64::MAX, seq: u64::MAX };

    /// The ID `ms-seq`.
    #[must_use]
    pub const fn new(ms: u64, seq: u64) -> Self {
        StreamId { ms, seq }
    }

    /// When the entry was added by the clock of the server, if the server made its ID; `None` if that is out of the
    /// range of a `SystemTime`.
    #[must_use]
    pub fn time(self) -> Option<SystemTime> {
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(self.ms))
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let dash = text.iter().position(|&byte| byte == b'-');
        let (ms, seq) = dash.map_or((text, &b"0"[..]), |dash| (&text[..dash], &text[dash + 1..]));
        Some(StreamId { ms: number::parse_u64(ms)?, seq: number::parse_u64(seq)? })
    }

    /// Appends the text.
    fn write(self, text: &mut Vec<u8>) {
        text.extend_from_slice(itoa::Buffer::new().format(self.ms).as_bytes());
        text.push(b'-');
        text.extend_from_slice(itoa::Buffer::new().format(self.seq).as_bytes());
    }

    /// The text behind `prefix`.
    fn argument(self, prefix: &[u8]) -> Arg<'static> {
        let mut text = Vec::with_capacity(prefix.len() + 24);
        text.extend_from_slice(prefix);
        self.write(&mut text);
        Arg::Owned(text)
    }
}

/// As the server writes it: `1526919030474-55`.
impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

/// Takes `1526919030474-55`, and `1526919030474` for `1526919030474-0`.
impl FromStr for StreamId {
    type Err = ParseStreamIdError;

    fn from_str(text: &str) -> Result<Self, ParseStreamIdError> {
        StreamId::parse(text.as_bytes()).ok_or(ParseStreamIdError(()))
    }
}

/// A text is no [`StreamId`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a stream ID: that is two integers of 64 bits with a `-` between them")]
pub struct ParseStreamIdError(());

/// The milliseconds and the number.
impl From<(u64, u64)> for StreamId {
    fn from((ms, seq): (u64, u64)) -> Self {
        StreamId { ms, seq }
    }
}

impl ToArg for StreamId {
    fn to_arg(&self) -> Arg<'_> {
        self.argument(b"")
    }
    const DIRECT: bool = true;
}

impl FromReply for StreamId {
    #[inline]
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        const EXPECTED: &str = "a stream ID";
        let text = frame.as_bytes().ok_or_else(|| Error::unexpected(EXPECTED, &frame))?;
        StreamId::parse(text).ok_or_else(|| UnexpectedReply::new(EXPECTED, "text that is none").into())
    }
}

/// One end of a range of IDs: see [`StreamRange`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamBound {
    /// No bound below (`-`).
    Min,
    /// No bound above (`+`).
    Max,
    /// This ID and on.
    Included(StreamId),
    /// From this ID on, but without it (since 6.2).
    Excluded(StreamId),
}

/// This ID, included.
impl From<StreamId> for StreamBound {
    fn from(id: StreamId) -> Self {
        StreamBound::Included(id)
    }
}

impl ToArg for StreamBound {
    fn to_arg(&self) -> Arg<'_> {
        match self {
            StreamBound::Min => Arg::from("-"),
            StreamBound::Max => Arg::from("+"),
            StreamBound::Included(id) => id.argument(b""),
            StreamBound::Excluded(id) => id.argument(b"("),
        }
    }
    const DIRECT: bool = true;
}

/// A range of IDs, from the lower bound to the upper one, also where a command answers in reverse.
///
/// Made from a Rust range of [`StreamId`]s, of milliseconds since 1970 (`u64`), or of times (`SystemTime`, rounded up to
/// a millisecond), where the upper end of `a..b` is excluded; or from two [`StreamBound`]s, where the lower one can be
/// excluded too. A millisecond stands for all of its entries. A range that ends before the first ID there can be, such as
/// `..StreamId::MIN`, is an error of the server's.
///
/// ```
/// use std::time::{Duration, SystemTime};
///
/// use redefer::commands::{StreamBound, StreamId, StreamRange};
///
/// let id = StreamId::new(1526919030474, 55);
/// let _: StreamRange = (..).into();
/// let _: StreamRange = (id..).into();
/// let _: StreamRange = (1526919030000..=1526919030999).into();
/// let _: StreamRange = (SystemTime::now() - Duration::from_secs(60)..).into();
/// let _after: StreamRange = (StreamBound::Excluded(id), StreamBound::Max).into();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamRange {
    pub(super) min: StreamBound,
    pub(super) max: StreamBound,
}

impl StreamRange {
    /// From one bound to the other.
    pub fn new(min: impl Into<StreamBound>, max: impl Into<StreamBound>) -> Self {
        StreamRange { min: min.into(), max: max.into() }
    }
}

/// What the ends of a [`StreamRange`] can be given as.
pub trait StreamPlace {
    /// The first ID there.
    fn first(self) -> StreamId;
    /// The last ID there.
    fn last(self) -> StreamId;
}

impl StreamPlace for StreamId {
    fn first(self) -> StreamId {
        self
    }
    fn last(self) -> StreamId {
        self
    }
}

/// A millisecond since 1970.
impl StreamPlace for u64 {
    fn first(self) -> StreamId {
        StreamId { ms: self, seq: 0 }
    }
    fn last(self) -> StreamId {
        StreamId { ms: self, seq: u64::MAX }
    }
}

/// The millisecond of a time, rounded up; 0 before 1970.
impl StreamPlace for SystemTime {
    fn first(self) -> StreamId {
        u64::try_from(unix_millis(self)).unwrap_or(0).first()
    }
    fn last(self) -> StreamId {
        u64::try_from(unix_millis(self)).unwrap_or(0).last()
    }
}

impl<A: Into<StreamBound>, B: Into<StreamBound>> From<(A, B)> for StreamRange {
    fn from((min, max): (A, B)) -> Self {
        StreamRange::new(min, max)
    }
}

impl<A: StreamPlace> From<Range<A>> for StreamRange {
    fn from(range: Range<A>) -> Self {
        StreamRange::new(range.start.first(), StreamBound::Excluded(range.end.first()))
    }
}

impl<A: StreamPlace> From<RangeInclusive<A>> for StreamRange {
    fn from(range: RangeInclusive<A>) -> Self {
        let (start, end) = range.into_inner();
        StreamRange::new(start.first(), end.last())
    }
}

impl<A: StreamPlace> From<RangeFrom<A>> for StreamRange {
    fn from(range: RangeFrom<A>) -> Self {
        StreamRange::new(range.start.first(), StreamBound::Max)
    }
}

impl<A: StreamPlace> From<RangeTo<A>> for StreamRange {
    fn from(range: RangeTo<A>) -> Self {
        StreamRange::new(StreamBound::Min, StreamBound::Excluded(range.end.first()))
    }
}

impl<A: StreamPlace> From<RangeToInclusive<A>> for StreamRange {
    fn from(range: RangeToInclusive<A>) -> Self {
        StreamRange::new(StreamBound::Min, range.end.last())
    }
}

impl From<RangeFull> for StreamRange {
    fn from(_: RangeFull) -> Self {
        StreamRange::new(StreamBound::Min, StreamBound::Max)
    }
}

/// One entry of a stream.
///
/// `T` is what its fields and values are read into: `Vec<(String, String)>` keeps their order and repetitions,
/// `HashMap<String, String>` does not, and a type of one's own takes them as an array of fields and values in turn, in both
/// protocols. Where an entry may have been deleted since it was handed to a consumer, its fields are nil: ask for an
/// `Option` of any of these.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Entry<T> {
    /// The entry's ID.
    pub id: StreamId,
    /// Its fields and values.
    pub fields: T,
}

impl<T: FromReply> FromReply for Entry<T> {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        // There may be more elements one day.
        let mut parts = Parts::new(frame, "an entry of a stream")?;
        Ok(Entry { id: parts.next()?, fields: parts.next()? })
    }
}

/// An entry whose fields may be of another shape than `T`, with its ID all the same.
#[derive(Debug)]
pub(super) struct Attempt<T> {
    pub(super) id: StreamId,
    pub(super) fields: Result<T>,
}

impl<T> Attempt<T> {
    pub(super) fn entry(self) -> Result<Entry<T>> {
        self.fields.map(|fields| Entry { id: self.id, fields })
    }
}

impl<T: FromReply> FromReply for Attempt<T> {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let mut parts = Parts::new(frame, "an entry of a stream")?;
        Ok(Attempt { id: parts.next()?, fields: parts.next() })
    }
}

/// The elements of an array that has at least so many as are asked for.
pub(super) struct Parts<'a> {
    elements: Elements<'a>,
    expected: &'static str,
}

impl<'a> Parts<'a> {
    pub(super) fn new(frame: Frame<'a>, expected: &'static str) -> Result<Self> {
        let elements = frame.as_elements().ok_or_else(|| Error::unexpected(expected, &frame))?;
        Ok(Parts { elements, expected })
    }

    pub(super) fn next<T: FromReply>(&mut self) -> Result<T> {
        match self.elements.next() {
            Some(element) => T::from_element(element),
            None => Err(UnexpectedReply::new(self.expected, "fewer elements").into()),
        }
    }

    /// The next element, or what there is without one: older servers leave it out.
    pub(super) fn next_or_default<T: FromReply + Default>(&mut self) -> Result<T> {
        self.elements.next().map_or_else(|| Ok(T::default()), T::from_element)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::commands::stream::tests::decode;

    #[test]
    fn ids_are_read_and_written() {
        for (text, id) in [
            ("0-0", Some(StreamId::MIN)),
            ("1-0", Some(StreamId::new(1, 0))),
            ("1526919030474-55", Some(StreamId::new(1_526_919_030_474, 55))),
            ("18446744073709551615-18446744073709551615", Some(StreamId::MAX)),
            ("7", Some(StreamId::new(7, 0))),
            ("", None),
            ("-", None),
            ("+", None),
            ("1-", None),
            ("-1", None),
            ("1-*", None),
            ("1-2-3", None),
            ("+1-2", None),
            ("18446744073709551616-0", None),
        ] {
            assert_eq!(text.parse().ok(), id, "{text:?}");
            if let Some(id) = id.filter(|_| text.contains('-')) {
                assert_eq!(id.to_string(), text);
                assert_eq!(id.to_arg(), Arg::Owned(text.into()));
                assert_eq!(decode::<StreamId>(&format!("+{text}")).unwrap(), id);
            }
        }
        assert_eq!(StreamId::from((1, 2)), StreamId { ms: 1, seq: 2 });
        assert!(matches!(decode::<StreamId>("$1 x"), Err(Error::UnexpectedReply(_))));
        assert!(matches!(decode::<StreamId>("_"), Err(Error::Nil)));
        assert_eq!(decode::<Option<StreamId>>("$-1").unwrap(), None);
    }

    #[test]
    fn ids_are_ordered_by_time_and_number() {
        let mut ids = [(2, 0), (1, 9), (10, 0), (1, 10)].map(StreamId::from);
        ids.sort();
        assert_eq!(ids, [(1, 9), (1, 10), (2, 0), (10, 0)].map(StreamId::from));
    }

    #[test]
    fn ids_have_times() {
        assert_eq!(StreamId::new(1500, 7).time(), Some(SystemTime::UNIX_EPOCH + Duration::from_millis(1500)));
        let _ = StreamId::MAX.time();
    }

    #[test]
    fn rust_ranges_are_ranges_of_ids() {
        fn words(range: impl Into<StreamRange>) -> String {
            let StreamRange { min, max } = range.into();
            let text = |bound: StreamBound| match bound.to_arg() {
                Arg::Bytes(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
                Arg::Owned(bytes) => String::from_utf8(bytes).unwrap(),
                other => panic!("{other:?}"),
            };
            format!("{} {}", text(min), text(max))
        }
        let (a, b) = (StreamId::new(1, 2), StreamId::new(3, 4));
        assert_eq!(words(..), "- +");
        assert_eq!(words(a..), "1-2 +");
        assert_eq!(words(..a), "- (1-2");
        assert_eq!(words(..=a), "- 1-2");
        assert_eq!(words(a..b), "1-2 (3-4");
        assert_eq!(words(a..=b), "1-2 3-4");
        assert_eq!(words((a, b)), "1-2 3-4");
        assert_eq!(words((StreamBound::Excluded(a), StreamBound::Max)), "(1-2 +");
        assert_eq!(words((StreamBound::Min, b)), "- 3-4");
        assert_eq!(words(5..), "5-0 +");
        assert_eq!(words(5..7), "5-0 (7-0");
        assert_eq!(words(5..=7), "5-0 7-18446744073709551615");
        let epoch = SystemTime::UNIX_EPOCH;
        assert_eq!(words(epoch..=epoch + Duration::from_micros(1001)), "0-0 2-18446744073709551615");
        assert_eq!(words(..epoch - Duration::from_secs(1)), "- (0-0");
    }

    #[test]
    fn entries_are_typed_and_may_have_lost_their_fields() {
        let pairs = |entry: &str| decode::<Entry<Vec<(String, String)>>>(entry);
        let entry = pairs("*2 $3 1-1 *4 $1 f $1 v $1 f $1 w").unwrap();
        let fields = vec![("f".into(), "v".into()), ("f".into(), "w".into())];
        assert_eq!(entry, Entry { id: StreamId::new(1, 1), fields });
        let entry = decode::<Entry<HashMap<String, i64>>>("*2 $3 1-1 *2 $1 f $1 7").unwrap();
        assert_eq!(entry.fields["f"], 7);
        for nil in ["*-1", "_", "$-1"] {
            let wire = format!("*2 $3 1-1 {nil}");
            assert_eq!(decode::<Entry<Option<Vec<(String, String)>>>>(&wire).unwrap().fields, None);
            assert!(matches!(pairs(&wire), Err(Error::Nil)));
        }
        let more = decode::<Entry<Vec<String>>>("*4 $3 1-1 *2 $1 f $1 v :7 :1").unwrap();
        assert_eq!(more.fields, ["f", "v"], "XREADGROUP CLAIM of Redis 8.4 adds two elements");
        assert!(pairs("*1 $3 1-1").is_err() && pairs(":1").is_err());
        assert_eq!(decode::<Option<Entry<Vec<String>>>>("_").unwrap(), None);
        let attempt = decode::<Attempt<i64>>("*2 $3 1-1 *2 $1 f $1 v").unwrap();
        assert_eq!(attempt.id, StreamId::new(1, 1));
        assert!(attempt.entry().is_err());
    }
}
