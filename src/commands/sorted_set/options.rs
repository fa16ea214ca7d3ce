//! Ranges and options of the commands on sorted sets.

use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use crate::args::{Arg, ArgWriter, ToArg, ToArgs};

/// Forwards [`ToArgs`] to a tuple that `arguments` builds.
macro_rules! options_to_args {
    ($($type:ty),*) => {$(
        impl ToArgs for $type {
            fn write_args(&self, out: &mut ArgWriter<'_>) {
                self.arguments().write_args(out);
            }
            const DIRECT: bool = true;
            fn count(&self) -> usize {
                self.arguments().count()
            }
        }
    )*};
}

options_to_args!(ZaddOptions, ZrangeQuery, CombineOptions);

/// One end of a range of scores: see [`ScoreRange`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScoreBound {
    /// No bound below.
    Min,
    /// No bound above.
    Max,
    /// This score and on.
    Included(f64),
    /// From this score on, but without it.
    Excluded(f64),
}

impl ToArg for ScoreBound {
    fn to_arg(&self) -> Arg<'_> {
        match self {
            ScoreBound::Min => Arg::from("-inf"),
            ScoreBound::Max => Arg::from("+inf"),
            ScoreBound::Included(score) => Arg::Double(*score),
            ScoreBound::Excluded(score) => Arg::from(format!("({score:?}")),
        }
    }
    const DIRECT: bool = true;
}

macro_rules! number_to_bound {
    ($($number:ty),*) => {$(
        /// This score, included.
        impl From<$number> for ScoreBound {
            fn from(score: $number) -> Self {
                ScoreBound::Included(score as f64)
            }
        }
    )*};
}

number_to_bound!(f64, f32, i32, u32, i64, u64);

/// A range of scores, from the lower bound to the upper one, also where a command answers in reverse.
///
/// Made from a Rust range of numbers (the end of `1.0..5.0` is excluded), or from two [`ScoreBound`]s where the lower
/// one is to be excluded:
///
/// ```
/// use redefer::commands::{ScoreBound, ScoreRange};
///
/// let _: ScoreRange = (1.5..=5.0).into();
/// let _: ScoreRange = (10..).into();
/// let _: ScoreRange = (..).into();
/// let _: ScoreRange = (ScoreBound::Excluded(1.0), ScoreBound::Max).into();
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreRange {
    pub(super) min: ScoreBound,
    pub(super) max: ScoreBound,
}

/// A member's place in the order of bytes, as one end of a range: see [`LexRange`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LexBound {
    /// No bound below.
    Min,
    /// No bound above.
    Max,
    /// This member and on.
    Included(Vec<u8>),
    /// From this member on, but without it.
    Excluded(Vec<u8>),
}

impl LexBound {
    /// This member and on.
    pub fn included(member: impl AsRef<[u8]>) -> Self {
        LexBound::Included(member.as_ref().to_vec())
    }

    /// From this member on, but without it.
    pub fn excluded(member: impl AsRef<[u8]>) -> Self {
        LexBound::Excluded(member.as_ref().to_vec())
    }
}

impl ToArg for LexBound {
    fn to_arg(&self) -> Arg<'_> {
        match self {
            LexBound::Min => Arg::from("-"),
            LexBound::Max => Arg::from("+"),
            LexBound::Included(member) => Arg::from([b"[", &member[..]].concat()),
            LexBound::Excluded(member) => Arg::from([b"(", &member[..]].concat()),
        }
    }
    const DIRECT: bool = true;
}

macro_rules! bytes_to_bound {
    ($([$($generics:tt)*] $bytes:ty),*) => {$(
        /// This member, included.
        impl<$($generics)*> From<$bytes> for LexBound {
            fn from(member: $bytes) -> Self {
                LexBound::included(member)
            }
        }
    )*};
}

bytes_to_bound!([] &str, [] String, [] &String, [] &[u8], [] Vec<u8>, [const N: usize] &[u8; N]);

/// A range of members in the order of their bytes, for sorted sets in which all scores are the same; from the lower
/// bound to the upper one, also where a command answers in reverse.
///
/// Made from a Rust range of text or bytes (the end of `"a".."c"` is excluded), or from two [`LexBound`]s where the
/// lower one is to be excluded:
///
/// ```
/// use redefer::commands::{LexBound, LexRange};
///
/// let _: LexRange = ("a".."b").into();
/// let _: LexRange = (..).into();
/// let _: LexRange = (LexBound::excluded("a"), LexBound::Max).into();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LexRange {
    pub(super) min: LexBound,
    pub(super) max: LexBound,
}

macro_rules! range_of_bounds {
    ($range:ident, $bound:ident) => {
        impl $range {
            /// From one bound to the other.
            pub fn new(min: impl Into<$bound>, max: impl Into<$bound>) -> Self {
                $range { min: min.into(), max: max.into() }
            }
        }

        impl $bound {
            /// The same place, excluded.
            fn exclude(self) -> Self {
                match self {
                    $bound::Included(place) => $bound::Excluded(place),
                    other => other,
                }
            }
        }

        impl<A: Into<$bound>, B: Into<$bound>> From<(A, B)> for $range {
            fn from((min, max): (A, B)) -> Self {
                $range::new(min, max)
            }
        }

        impl<A: Into<$bound>> From<RangeInclusive<A>> for $range {
            fn from(range: RangeInclusive<A>) -> Self {
                let (min, max) = range.into_inner();
                $range::new(min, max)
            }
        }

        impl<A: Into<$bound>> From<Range<A>> for $range {
            fn from(range: Range<A>) -> Self {
                $range::new(range.start, range.end.into().exclude())
            }
        }

        impl<A: Into<$bound>> From<RangeFrom<A>> for $range {
            fn from(range: RangeFrom<A>) -> Self {
                $range::new(range.start, $bound::Max)
            }
        }

        impl<A: Into<$bound>> From<RangeToInclusive<A>> for $range {
            fn from(range: RangeToInclusive<A>) -> Self {
                $range::new($bound::Min, range.end)
            }
        }

        impl<A: Into<$bound>> From<RangeTo<A>> for $range {
            fn from(range: RangeTo<A>) -> Self {
                $range::new($bound::Min, range.end.into().exclude())
            }
        }

        impl From<RangeFull> for $range {
            fn from(_: RangeFull) -> Self {
                $range::new($bound::Min, $bound::Max)
            }
        }
    };
}

range_of_bounds!(ScoreRange, ScoreBound);
range_of_bounds!(LexRange, LexBound);

/// What ZRANGE and ZRANGESTORE can take: see [`zrange_with`](super::SortedSetCommands::zrange_with).
///
/// ```
/// use redefer::commands::ZrangeQuery;
///
/// let _best = ZrangeQuery::by_index(0, 9).rev();
/// let _page = ZrangeQuery::by_score(1.0..5.0).limit(20, 10);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ZrangeQuery {
    range: QueryRange,
    rev: bool,
    limit: Option<(u64, i64)>,
}

#[derive(Clone, Debug, PartialEq)]
enum QueryRange {
    Index(i64, i64),
    Score(ScoreRange),
    Lex(LexRange),
}

impl ZrangeQuery {
    fn new(range: QueryRange) -> Self {
        ZrangeQuery { range, rev: false, limit: None }
    }

    /// The members from one position to another, both included; negative positions are counted from the end.
    pub fn by_index(start: i64, stop: i64) -> Self {
        Self::new(QueryRange::Index(start, stop))
    }

    /// The members whose score is in this range (BYSCORE).
    pub fn by_score(range: impl Into<ScoreRange>) -> Self {
        Self::new(QueryRange::Score(range.into()))
    }

    /// The members in this range of the order of bytes, where all scores are the same (BYLEX).
    pub fn by_lex(range: impl Into<LexRange>) -> Self {
        Self::new(QueryRange::Lex(range.into()))
    }

    /// From the highest to the lowest. Positions are then counted from the highest; a range of scores or members is
    /// still given from its lower bound to its upper one.
    pub fn rev(mut self) -> Self {
        self.rev = true;
        self
    }

    /// Leaves the first `offset` out and takes up to `count`, all if it is negative. Not with positions.
    pub fn limit(mut self, offset: u64, count: i64) -> Self {
        self.limit = Some((offset, count));
        self
    }

    fn arguments(&self) -> impl ToArgs {
        let (index, score, lex) = match &self.range {
            QueryRange::Index(start, stop) => (Some((*start, *stop)), None, None),
            QueryRange::Score(range) => (None, Some((range.min, range.max)), None),
            QueryRange::Lex(range) => (None, None, Some((&range.min, &range.max))),
        };
        let by = if score.is_some() { Some("BYSCORE") } else { lex.map(|_| "BYLEX") };
        (
            (index.map(|ends| ends.0), index.map(|ends| ends.1)),
            ends(score, self.rev),
            ends(lex, self.rev),
            by,
            self.rev.then_some("REV"),
            (self.limit.map(|_| "LIMIT"), self.limit.map(|limit| limit.0), self.limit.map(|limit| limit.1)),
        )
    }
}

/// Both ends, in the order in which the server wants them.
fn ends<B: ToArg + Copy>(ends: Option<(B, B)>, rev: bool) -> (Option<B>, Option<B>) {
    let (min, max) = (ends.map(|ends| ends.0), ends.map(|ends| ends.1));
    if rev { (max, min) } else { (min, max) }
}

/// Options of ZADD: see [`zadd_with`](super::SortedSetCommands::zadd_with).
///
/// ```
/// use redefer::commands::ZaddOptions;
///
/// let _only_upwards = ZaddOptions::new().gt().ch();
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZaddOptions {
    condition: Option<&'static str>,
    comparison: Option<&'static str>,
    ch: bool,
}

impl ZaddOptions {
    /// No options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only adds members, and leaves those that are there alone. In place of [`xx`](ZaddOptions::xx), and not together
    /// with [`gt`](ZaddOptions::gt) or [`lt`](ZaddOptions::lt).
    pub fn nx(mut self) -> Self {
        self.condition = Some("NX");
        self
    }

    /// Only changes members that are there, and adds none. In place of [`nx`](ZaddOptions::nx).
    pub fn xx(mut self) -> Self {
        self.condition = Some("XX");
        self
    }

    /// Changes a score only to a greater one; members that are not there are added all the same. In place of
    /// [`lt`](ZaddOptions::lt). Since 6.2.
    pub fn gt(mut self) -> Self {
        self.comparison = Some("GT");
        self
    }

    /// Changes a score only to a lesser one; members that are not there are added all the same. In place of
    /// [`gt`](ZaddOptions::gt). Since 6.2.
    pub fn lt(mut self) -> Self {
        self.comparison = Some("LT");
        self
    }

    /// Answers how many members were added or changed, not only how many were added.
    pub fn ch(mut self) -> Self {
        self.ch = true;
        self
    }

    fn arguments(&self) -> impl ToArgs {
        (self.condition, self.comparison, self.ch.then_some("CH"))
    }
}

/// How ZUNION and ZINTER make one score of several: see [`zunion_with`](super::SortedSetCommands::zunion_with).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CombineOptions {
    weights: Vec<f64>,
    aggregate: Option<Aggregate>,
}

impl CombineOptions {
    /// No options: the sum of the scores.
    pub fn new() -> Self {
        Self::default()
    }

    /// What to multiply the scores of each key with, in the order of the keys and as many as those. Unless given, 1.
    pub fn weights(mut self, weights: impl Into<Vec<f64>>) -> Self {
        self.weights = weights.into();
        self
    }

    /// What to make of the scores. Unless given, their sum.
    pub fn aggregate(mut self, aggregate: Aggregate) -> Self {
        self.aggregate = Some(aggregate);
        self
    }

    fn arguments(&self) -> impl ToArgs {
        let weights = (!self.weights.is_empty()).then_some("WEIGHTS");
        (weights, &self.weights, self.aggregate.map(|_| "AGGREGATE"), self.aggregate)
    }
}

/// How the scores of a member of several sorted sets are made into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Aggregate {
    /// Their sum.
    Sum,
    /// The least of them.
    Min,
    /// The greatest of them.
    Max,
}

impl ToArg for Aggregate {
    fn to_arg(&self) -> Arg<'_> {
        Arg::from(match self {
            Aggregate::Sum => "SUM",
            Aggregate::Min => "MIN",
            Aggregate::Max => "MAX",
        })
    }
    const DIRECT: bool = true;
}

/// An end of a sorted set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extreme {
    /// The members with the lowest scores.
    Min,
    /// The members with the highest scores.
    Max,
}

impl ToArg for Extreme {
    fn to_arg(&self) -> Arg<'_> {
        Arg::from(match self {
            Extreme::Min => "MIN",
            Extreme::Max => "MAX",
        })
    }
    const DIRECT: bool = true;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(arguments: impl ToArgs) -> String {
        let mut buf = Vec::new();
        let mut out = ArgWriter::new(&mut buf, 0);
        arguments.write_args(&mut out);
        assert_eq!(out.count(), arguments.count());
        let end = out.end().unwrap();
        let words = crate::resp::encode::bulk_ranges(&buf[..end], 0);
        let words: Vec<_> = words.map(|range| String::from_utf8_lossy(&buf[range]).into_owned()).collect();
        words.join(" ")
    }

    fn score(range: impl Into<ScoreRange>) -> String {
        let range = range.into();
        written((range.min, range.max))
    }

    fn lex(range: impl Into<LexRange>) -> String {
        let range = range.into();
        written((range.min, range.max))
    }

    #[test]
    fn every_rust_range_is_a_range_of_scores() {
        assert_eq!(score(..), "-inf +inf");
        assert_eq!(score(1.5..=5.0), "1.5 5");
        assert_eq!(score(1.5..5.25), "1.5 (5.25");
        assert_eq!(score(10..), "10 +inf");
        assert_eq!(score(..=-3), "-inf -3");
        assert_eq!(score(..7u64), "-inf (7.0");
        assert_eq!(score(1_700_000_000_000i64..), "1700000000000 +inf");
        assert_eq!(score((1, 2.5)), "1 2.5");
        assert_eq!(score((ScoreBound::Excluded(1e300), ScoreBound::Max)), "(1e300 +inf");
        assert_eq!(score(f64::NEG_INFINITY..f64::INFINITY), "-inf (inf");
        assert_eq!(score(ScoreRange::new(ScoreBound::Min, 3)), "-inf 3");
    }

    #[test]
    fn every_rust_range_is_a_range_of_members() {
        assert_eq!(lex(..), "- +");
        assert_eq!(lex("a"..="b"), "[a [b");
        assert_eq!(lex("a".."b"), "[a (b");
        assert_eq!(lex(String::from("a")..), "[a +");
        assert_eq!(lex(..=b"z"), "- [z");
        assert_eq!(lex(..vec![b'z']), "- (z");
        assert_eq!(lex((LexBound::excluded("a"), LexBound::Max)), "(a +");
        assert_eq!(lex((LexBound::Min, LexBound::included([b'b']))), "- [b");
        assert_eq!(lex(("+", "-")), "[+ [-");
    }

    #[test]
    fn queries_are_written_in_the_order_of_the_server() {
        assert_eq!(written(ZrangeQuery::by_index(0, -1)), "0 -1");
        assert_eq!(written(ZrangeQuery::by_index(0, 9).rev()), "0 9 REV");
        assert_eq!(written(ZrangeQuery::by_score(1..=5)), "1 5 BYSCORE");
        assert_eq!(written(ZrangeQuery::by_score(1..5).rev().limit(2, -1)), "(5.0 1 BYSCORE REV LIMIT 2 -1");
        assert_eq!(written(ZrangeQuery::by_lex("a"..)), "[a + BYLEX");
        assert_eq!(written(ZrangeQuery::by_lex(.."c").limit(0, 10).rev()), "(c - BYLEX REV LIMIT 0 10");
    }

    #[test]
    fn options_are_written_if_given() {
        assert_eq!(written(ZaddOptions::new()), "");
        assert_eq!(written(ZaddOptions::new().nx().xx()), "XX");
        assert_eq!(written(ZaddOptions::new().nx()), "NX");
        assert_eq!(written(ZaddOptions::new().ch().gt().xx()), "XX GT CH");
        assert_eq!(written(ZaddOptions::new().lt()), "LT");
        assert_eq!(written(CombineOptions::new()), "");
        assert_eq!(written(CombineOptions::new().weights([1.0, 0.5])), "WEIGHTS 1 0.5");
        let all = CombineOptions::new().aggregate(Aggregate::Max).weights(vec![2.0]);
        assert_eq!(written(all), "WEIGHTS 2 AGGREGATE MAX");
        assert_eq!(written((Aggregate::Sum, Aggregate::Min)), "SUM MIN");
    }
}
