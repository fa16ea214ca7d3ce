//! Options and results of the commands on strings.

use std::ops::RangeInclusive;
use std::time::{Duration, SystemTime};

use crate::args::{ToArg, ToArgs};
use crate::commands::parts::{Flag, Maybe, Named, Owned, millis, parts_to_args, unix_millis};
use crate::error::{Error, Result};
use crate::resp::{Elements, Frame};
use crate::values::FromReply;

/// When what is set expires.
///
/// Times are sent in milliseconds, rounded up. Zero, and a time before 1970, are refused by the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SetExpiry {
    /// After this time (PX, since 2.6.12).
    In(Duration),
    /// At this time by the server's clock (PXAT, since 6.2).
    At(SystemTime),
    /// When it would have expired anyway (KEEPTTL, since 6.0). Without this, setting takes an expiry away.
    KeepTtl,
}

impl From<Duration> for SetExpiry {
    fn from(time: Duration) -> Self {
        SetExpiry::In(time)
    }
}

impl From<SystemTime> for SetExpiry {
    fn from(time: SystemTime) -> Self {
        SetExpiry::At(time)
    }
}

impl SetExpiry {
    fn parts(&self) -> impl ToArgs {
        match *self {
            SetExpiry::In(time) => (Named("PX", Some(millis(time))), Flag("", false)),
            SetExpiry::At(time) => (Named("PXAT", Some(unix_millis(time))), Flag("", false)),
            SetExpiry::KeepTtl => (Named("", None), Flag("KEEPTTL", true)),
        }
    }
}

/// What becomes of the expiry of that which is read.
///
/// Times are sent in milliseconds, rounded up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GetExpiry {
    /// It expires after this time (PX).
    In(Duration),
    /// It expires at this time by the server's clock (PXAT).
    At(SystemTime),
    /// It no longer expires (PERSIST).
    Persist,
}

impl From<Duration> for GetExpiry {
    fn from(time: Duration) -> Self {
        GetExpiry::In(time)
    }
}

impl From<SystemTime> for GetExpiry {
    fn from(time: SystemTime) -> Self {
        GetExpiry::At(time)
    }
}

impl GetExpiry {
    fn parts(&self) -> impl ToArgs {
        match *self {
            GetExpiry::In(time) => (Named("PX", Some(millis(time))), Flag("", false)),
            GetExpiry::At(time) => (Named("PXAT", Some(unix_millis(time))), Flag("", false)),
            GetExpiry::Persist => (Named("", None), Flag("PERSIST", true)),
        }
    }
}

/// A condition on the value that a key has: compare and set, compare and delete.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ValueCondition {
    word: &'static str,
    with: Owned,
}

impl ValueCondition {
    /// Only if the key exists and its value equals this one (IFEQ: Valkey 8.1, Redis 8.4).
    pub fn equals(value: impl ToArg) -> Self {
        ValueCondition { word: "IFEQ", with: Owned::new(value) }
    }

    /// Only if the value differs from this one; for SET also if there is none (IFNE: Redis 8.4).
    pub fn differs(value: impl ToArg) -> Self {
        ValueCondition { word: "IFNE", with: Owned::new(value) }
    }

    /// Only if the key exists and its value has this digest, as given by
    /// [`digest`](super::StringCommands::digest) (IFDEQ: Redis 8.4).
    pub fn digest_equals(digest: impl ToArg) -> Self {
        ValueCondition { word: "IFDEQ", with: Owned::new(digest) }
    }

    /// Only if the value has another digest than this; for SET also if there is none (IFDNE: Redis 8.4).
    pub fn digest_differs(digest: impl ToArg) -> Self {
        ValueCondition { word: "IFDNE", with: Owned::new(digest) }
    }

    fn parts(&self) -> impl ToArgs {
        (self.word, &self.with)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Condition {
    Nx,
    Xx,
    Value(ValueCondition),
}

impl Condition {
    fn parts(&self) -> impl ToArgs {
        match self {
            Condition::Nx => (Some("NX"), None),
            Condition::Xx => (Some("XX"), None),
            Condition::Value(value) => (Some(value.word), Some(&value.with)),
        }
    }
}

/// Options of SET: a condition and an expiry. Of each the last one given counts.
///
/// ```
/// # use redefer::commands::SetOptions;
/// # use std::time::Duration;
/// let lock = SetOptions::new().nx().expiry(Duration::from_secs(10));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct SetOptions {
    condition: Option<Condition>,
    expiry: Option<SetExpiry>,
}

impl SetOptions {
    /// No condition, and no expiry.
    pub fn new() -> Self {
        SetOptions::default()
    }

    /// Only if there is no such key (since 2.6.12; together with GET since 7.0).
    pub fn nx(mut self) -> Self {
        self.condition = Some(Condition::Nx);
        self
    }

    /// Only if there is such a key (since 2.6.12).
    pub fn xx(mut self) -> Self {
        self.condition = Some(Condition::Xx);
        self
    }

    /// Only if the value the key has is such (since Valkey 8.1 and Redis 8.4).
    pub fn if_value(mut self, condition: ValueCondition) -> Self {
        self.condition = Some(Condition::Value(condition));
        self
    }

    /// When the key expires: a `Duration`, a `SystemTime`, or [`SetExpiry::KeepTtl`].
    #[doc(alias("with_expiration", "ex", "px"))]
    pub fn expiry(mut self, expiry: impl Into<SetExpiry>) -> Self {
        self.expiry = Some(expiry.into());
        self
    }

    fn parts(&self) -> impl ToArgs {
        (Maybe(self.condition.as_ref()), Maybe(self.expiry.as_ref()))
    }
}

/// Options of MSETEX: a condition on all keys, and an expiry for all of them. Of each the last one given counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct MsetexOptions {
    condition: Option<&'static str>,
    expiry: Option<SetExpiry>,
}

impl MsetexOptions {
    /// No condition, and no expiry.
    pub fn new() -> Self {
        MsetexOptions::default()
    }

    /// Only if none of the keys exists.
    pub fn nx(mut self) -> Self {
        self.condition = Some("NX");
        self
    }

    /// Only if all of the keys exist.
    pub fn xx(mut self) -> Self {
        self.condition = Some("XX");
        self
    }

    /// When the keys expire: a `Duration`, a `SystemTime`, or [`SetExpiry::KeepTtl`].
    pub fn expiry(mut self, expiry: impl Into<SetExpiry>) -> Self {
        self.expiry = Some(expiry.into());
        self
    }

    fn parts(&self) -> impl ToArgs {
        (self.condition, Maybe(self.expiry.as_ref()))
    }
}

/// Options of LCS with IDX.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct LcsOptions {
    min_match_len: Option<u64>,
    with_match_len: bool,
}

impl LcsOptions {
    /// Every match, without its length.
    pub fn new() -> Self {
        LcsOptions::default()
    }

    /// Leaves out matches shorter than this many bytes (MINMATCHLEN).
    pub fn min_match_len(mut self, len: u64) -> Self {
        self.min_match_len = Some(len);
        self
    }

    /// Gives the length of each match (WITHMATCHLEN).
    pub fn with_match_len(mut self) -> Self {
        self.with_match_len = true;
        self
    }

    fn parts(&self) -> impl ToArgs {
        (Named("MINMATCHLEN", self.min_match_len), Flag("WITHMATCHLEN", self.with_match_len))
    }
}

parts_to_args!(SetExpiry, GetExpiry, ValueCondition, Condition, SetOptions, MsetexOptions, LcsOptions);

/// Where a longest common subsequence is found in two strings: the reply of LCS with IDX.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct LcsMatches {
    /// The runs of bytes that match, from the end of the strings to their beginning.
    pub matches: Vec<LcsMatch>,
    /// How many bytes the whole subsequence has.
    pub len: u64,
}

/// One run of bytes that are the same in both strings.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct LcsMatch {
    /// Where it stands in the first string.
    pub first: RangeInclusive<u64>,
    /// Where it stands in the second string.
    pub second: RangeInclusive<u64>,
    /// How many bytes it has, if that was asked for.
    pub len: Option<u64>,
}

/// The elements of an array or map, and the error if it is neither.
fn elements<'a>(frame: &Frame<'a>, expected: &'static str) -> Result<Elements<'a>> {
    frame.as_elements().ok_or_else(|| Error::unexpected(expected, frame))
}

impl FromReply for LcsMatches {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let mut fields = elements(&frame, "matches and their length")?;
        let (mut matches, mut len) = (Vec::new(), 0);
        while let (Some(name), Some(value)) = (fields.next(), fields.next()) {
            match name.as_bytes() {
                Some(b"matches") => matches = Vec::from_reply(value)?,
                Some(b"len") => len = u64::from_reply(value)?,
                _ => {}
            }
        }
        Ok(LcsMatches { matches, len })
    }
}

impl FromReply for LcsMatch {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        const EXPECTED: &str = "two ranges and perhaps a length";
        let mut parts = elements(&frame, EXPECTED)?;
        let mut range = || {
            let (start, end) = <(u64, u64)>::from_reply(parts.next().unwrap_or(Frame::Null))?;
            Ok::<_, Error>(start..=end)
        };
        let (first, second) = (range()?, range()?);
        Ok(LcsMatch { first, second, len: parts.next().map(u64::from_reply).transpose()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::Decoder;

    fn decode(wire: &str) -> Result<LcsMatches> {
        let bytes = wire.replace(' ', "\r\n").into_bytes();
        let (frame, _) = Decoder::new().decode(&bytes)?.expect("a whole reply");
        LcsMatches::from_reply(frame)
    }

    #[test]
    fn matches_are_the_same_flat_and_as_a_map() -> Result<()> {
        const MATCHES: &str = "$7 matches *2 *3 *2 :4 :7 *2 :5 :8 :4 *2 *2 :2 :3 *2 :0 :1 $3 len :6 ";
        let match_of = |first, second, len| LcsMatch { first, second, len };
        let want = LcsMatches { matches: vec![match_of(4..=7, 5..=8, Some(4)), match_of(2..=3, 0..=1, None)], len: 6 };
        assert_eq!(decode(&format!("*4 {MATCHES}"))?, want);
        assert_eq!(decode(&format!("%2 {MATCHES}"))?, want);
        assert_eq!(decode(&format!("%3 {MATCHES}+more *0 "))?, want, "what is not known is skipped");
        assert!(decode("%1 $7 matches *1 *1 *2 :4 :7 ").is_err());
        assert!(decode(":1 ").is_err() && decode("-ERR ").is_err());
        Ok(())
    }
}
