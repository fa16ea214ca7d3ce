//! Sorted sets: strings, each with a score, in the order of the scores.

mod options;

use std::time::Duration;

use super::time::{Seconds, block_time};
use crate::args::{ToArg, ToArgs, ToPairs, cmd};
use crate::execute::Execute;
use crate::values::FromReply;

pub use options::{
    Aggregate, CombineOptions, Extreme, LexBound, LexRange, ScoreBound, ScoreRange, ZaddOptions, ZrangeQuery,
};

/// What commands take from the first of several sorted sets that is not empty: its key, and members with their scores.
pub type Zpopped<K, T> = (K, Vec<(T, f64)>);

/// Commands on sorted sets.
///
/// Members with the same score are in the order of their bytes. Positions are counted from zero; negative ones from the
/// end, -1 being the last member. Pairs are sent with the score first, `(1.5, "member")`, and come back with the member
/// first, `("member", 1.5)`, as the servers do. A key that does not exist is an empty sorted set, and one that becomes
/// empty is gone. On a key of another type each command fails with `WRONGTYPE`.
///
/// Ranges of scores and of members are Rust ranges (see [`ScoreRange`] and [`LexRange`]), always from the lower bound to
/// the upper one.
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(feature = "testing")] {
/// # let server = redefer::testing::Server::start()?;
/// # let conn = redefer::Connection::open(server.url())?;
/// use redefer::prelude::*;
///
/// conn.zadd("race", [(9.58, "Usain"), (9.69, "Tyson"), (9.69, "Yohan")]).wait()?;
/// let fast: Vec<String> = conn.zrangebyscore("race", ..9.6).wait()?;
/// assert_eq!(fast, ["Usain"]);
/// for pair in conn.zrange_withscores::<String>("race", 0, -1) {
///     let (name, seconds) = pair?;
///     println!("{name}: {seconds} s");
/// }
/// # }
/// # Ok(())
/// # }
/// ```
pub trait SortedSetCommands: Execute {
    /// Adds members or changes their scores: pairs of score and member, the score first as the server has it. The reply is
    /// how many were added.
    ///
    /// [ZADD](https://redis.io/docs/latest/commands/zadd/)
    #[doc(alias = "zadd_multiple")]
    #[inline]
    fn zadd(self, key: impl ToArg, pairs: impl ToPairs) -> Self::Reply<i64> {
        self.execute(cmd("ZADD").key(key).args(pairs))
    }

    /// Like [`zadd`](SortedSetCommands::zadd), with options that say what may be added or changed, and what is counted.
    ///
    /// [ZADD](https://redis.io/docs/latest/commands/zadd/)
    fn zadd_with(self, key: impl ToArg, pairs: impl ToPairs, options: ZaddOptions) -> Self::Reply<i64> {
        self.execute(cmd("ZADD").key(key).options(options).args(pairs))
    }

    /// Like [`zincrby`](SortedSetCommands::zincrby), with the options of ZADD. The reply is the new score; nil if the
    /// options forbade the change.
    ///
    /// [ZADD](https://redis.io/docs/latest/commands/zadd/)
    fn zadd_incr(
        self,
        key: impl ToArg,
        increment: f64,
        member: impl ToArg,
        options: ZaddOptions,
    ) -> Self::Reply<Option<f64>> {
        self.execute(cmd("ZADD").key(key).options(options).arg("INCR").arg(increment).arg(member))
    }

    /// How many members there are.
    ///
    /// [ZCARD](https://redis.io/docs/latest/commands/zcard/)
    #[inline]
    fn zcard(self, key: impl ToArg) -> Self::Reply<i64> {
        self.execute(cmd("ZCARD").key(key))
    }

    /// How many members have a score in this range.
    ///
    /// [ZCOUNT](https://redis.io/docs/latest/commands/zcount/)
    fn zcount(self, key: impl ToArg, range: impl Into<ScoreRange>) -> Self::Reply<i64> {
        let ScoreRange { min, max } = range.into();
        self.execute(cmd("ZCOUNT").key(key).arg(min).arg(max))
    }

    /// The members of the first sorted set that are in none of the others. Never nil. Since 6.2.
    ///
    /// [ZDIFF](https://redis.io/docs/latest/commands/zdiff/)
    fn zdiff<T: FromReply>(self, keys: impl ToArgs) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("ZDIFF").counted_keys(keys))
    }

    /// Like [`zdiff`](SortedSetCommands::zdiff), each member with its score.
    ///
    /// [ZDIFF](https://redis.io/docs/latest/commands/zdiff/)
    fn zdiff_withscores<T: FromReply>(self, keys: impl ToArgs) -> Self::MultiBulk<(T, f64)> {
        self.execute_multi(cmd("ZDIFF").counted_keys(keys).arg("WITHSCORES"))
    }

    /// Like [`zdiff`](SortedSetCommands::zdiff), but makes the result the new value of `destination`, whatever that was.
    /// The reply is its number of members. Since 6.2.
    ///
    /// [ZDIFFSTORE](https://redis.io/docs/latest/commands/zdiffstore/)
    fn zdiffstore(self, destination: impl ToArg, keys: impl ToArgs) -> Self::Reply<i64> {
        self.execute(cmd("ZDIFFSTORE").key(destination).counted_keys(keys))
    }

    /// Adds to a member's score; one that is not there is added, from 0. The reply is the new score.
    ///
    /// [ZINCRBY](https://redis.io/docs/latest/commands/zincrby/)
    #[inline]
    fn zincrby(self, key: impl ToArg, increment: f64, member: impl ToArg) -> Self::Reply<f64> {
        self.execute(cmd("ZINCRBY").key(key).arg(increment).arg(member))
    }

    /// The members that are in each of these sorted sets or sets, in the order of the sums of their scores (those of
    /// sets are 1). Never nil. Since 6.2.
    ///
    /// [ZINTER](https://redis.io/docs/latest/commands/zinter/)
    fn zinter<T: FromReply>(self, keys: impl ToArgs) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("ZINTER").counted_keys(keys))
    }

    /// Like [`zinter`](SortedSetCommands::zinter), with options that say how the scores are combined.
    ///
    /// [ZINTER](https://redis.io/docs/latest/commands/zinter/)
    fn zinter_with<T: FromReply>(self, keys: impl ToArgs, options: CombineOptions) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("ZINTER").counted_keys(keys).options(options))
    }

    /// Like [`zinter`](SortedSetCommands::zinter), each member with its score.
    ///
    /// [ZINTER](https://redis.io/docs/latest/commands/zinter/)
    fn zinter_withscores<T: FromReply>(self, keys: impl ToArgs) -> Self::MultiBulk<(T, f64)> {
        self.execute_multi(cmd("ZINTER").counted_keys(keys).arg("WITHSCORES"))
    }

    /// Like [`zinter_with`](SortedSetCommands::zinter_with), each member with its score.
    ///
    /// [ZINTER](https://redis.io/docs/latest/commands/zinter/)
    fn zinter_withscores_with<T: FromReply>(
        self,
        keys: impl ToArgs,
        options: CombineOptions,
    ) -> Self::MultiBulk<(T, f64)> {
        self.execute_multi(cmd("ZINTER").counted_keys(keys).options(options).arg("WITHSCORES"))
    }

    /// How many members are in each of these sorted sets. Since 7.0.
    ///
    /// [ZINTERCARD](https://redis.io/docs/latest/commands/zintercard/)
    fn zintercard(self, keys: impl ToArgs) -> Self::Reply<i64> {
        self.execute(cmd("ZINTERCARD").counted_keys(keys))
    }

    /// Like [`zintercard`](SortedSetCommands::zintercard), but stops counting at `limit`; 0 is no limit.
    ///
    /// [ZINTERCARD](https://redis.io/docs/latest/commands/zintercard/)
    fn zintercard_limit(self, keys: impl ToArgs, limit: u64) -> Self::Reply<i64> {
        self.execute(cmd("ZINTERCARD").counted_keys(keys).arg("LIMIT").arg(limit))
    }

    /// Like [`zinter`](SortedSetCommands::zinter), but makes the result the new value of `destination`, whatever that
    /// was. The reply is its number of members.
    ///
    /// [ZINTERSTORE](https://redis.io/docs/latest/commands/zinterstore/)
    fn zinterstore(self, destination: impl ToArg, keys: impl ToArgs) -> Self::Reply<i64> {
        self.execute(cmd("ZINTERSTORE").key(destination).counted_keys(keys))
    }

    /// Like [`zinterstore`](SortedSetCommands::zinterstore), with options that say how the scores are combined.
    ///
    /// [ZINTERSTORE](https://redis.io/docs/latest/commands/zinterstore/)
    fn zinterstore_with(self, destination: impl ToArg, keys: impl ToArgs, options: CombineOptions) -> Self::Reply<i64> {
        self.execute(cmd("ZINTERSTORE").key(destination).counted_keys(keys).options(options))
    }

    /// How many members are in this range of the order of bytes, where all scores are the same.
    ///
    /// [ZLEXCOUNT](https://redis.io/docs/latest/commands/zlexcount/)
    fn zlexcount(self, key: impl ToArg, range: impl Into<LexRange>) -> Self::Reply<i64> {
        let LexRange { min, max } = range.into();
        self.execute(cmd("ZLEXCOUNT").key(key).arg(min).arg(max))
    }

    /// Takes a member from one end of the first of these sorted sets that is not empty. The reply is the key and the
    /// member with its score; nil if all are empty. Since 7.0.
    ///
    /// [ZMPOP](https://redis.io/docs/latest/commands/zmpop/)
    fn zmpop<K: FromReply, T: FromReply>(self, keys: impl ToArgs, from: Extreme) -> Self::Reply<Option<Zpopped<K, T>>> {
        self.execute(cmd("ZMPOP").counted_keys(keys).arg(from))
    }

    /// Like [`zmpop`](SortedSetCommands::zmpop), but takes up to `count` members.
    ///
    /// [ZMPOP](https://redis.io/docs/latest/commands/zmpop/)
    fn zmpop_count<K: FromReply, T: FromReply>(
        self,
        keys: impl ToArgs,
        from: Extreme,
        count: u64,
    ) -> Self::Reply<Option<Zpopped<K, T>>> {
        self.execute(cmd("ZMPOP").counted_keys(keys).arg(from).arg("COUNT").arg(count))
    }

    /// The score of each of these members, in the order asked; nil for those that are not there. Since 6.2.
    ///
    /// [ZMSCORE](https://redis.io/docs/latest/commands/zmscore/)
    fn zmscore(self, key: impl ToArg, members: impl ToArgs) -> Self::MultiBulk<Option<f64>> {
        self.execute_multi(cmd("ZMSCORE").key(key).args(members))
    }

    /// Takes the member with the highest score; nil if the sorted set is empty.
    ///
    /// [ZPOPMAX](https://redis.io/docs/latest/commands/zpopmax/)
    fn zpopmax<T: FromReply>(self, key: impl ToArg) -> Self::Reply<Option<(T, f64)>> {
        self.execute(cmd("ZPOPMAX").key(key))
    }

    /// Takes up to `count` members with the highest scores, the highest first. Never nil.
    ///
    /// [ZPOPMAX](https://redis.io/docs/latest/commands/zpopmax/)
    fn zpopmax_count<T: FromReply>(self, key: impl ToArg, count: u64) -> Self::MultiBulk<(T, f64)> {
        self.execute_multi(cmd("ZPOPMAX").key(key).arg(count))
    }

    /// Takes the member with the lowest score; nil if the sorted set is empty.
    ///
    /// [ZPOPMIN](https://redis.io/docs/latest/commands/zpopmin/)
    fn zpopmin<T: FromReply>(self, key: impl ToArg) -> Self::Reply<Option<(T, f64)>> {
        self.execute(cmd("ZPOPMIN").key(key))
    }

    /// Takes up to `count` members with the lowest scores, the lowest first. Never nil.
    ///
    /// [ZPOPMIN](https://redis.io/docs/latest/commands/zpopmin/)
    fn zpopmin_count<T: FromReply>(self, key: impl ToArg, count: u64) -> Self::MultiBulk<(T, f64)> {
        self.execute_multi(cmd("ZPOPMIN").key(key).arg(count))
    }

    /// A member at random, which stays; nil if the sorted set is empty. Since 6.2.
    ///
    /// [ZRANDMEMBER](https://redis.io/docs/latest/commands/zrandmember/)
    fn zrandmember<T: FromReply>(self, key: impl ToArg) -> Self::Reply<T> {
        self.execute(cmd("ZRANDMEMBER").key(key))
    }

    /// Up to `count` different members at random; if it is negative, exactly `-count`, which may repeat. Never nil.
    /// Since 6.2.
    ///
    /// [ZRANDMEMBER](https://redis.io/docs/latest/commands/zrandmember/)
    fn zrandmember_count<T: FromReply>(self, key: impl ToArg, count: i64) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("ZRANDMEMBER").key(key).arg(count))
    }

    /// Like [`zrandmember_count`](SortedSetCommands::zrandmember_count), each member with its score.
    ///
    /// [ZRANDMEMBER](https://redis.io/docs/latest/commands/zrandmember/)
    fn zrandmember_withscores<T: FromReply>(self, key: impl ToArg, count: i64) -> Self::MultiBulk<(T, f64)> {
        self.execute_multi(cmd("ZRANDMEMBER").key(key).arg(count).arg("WITHSCORES"))
    }

    /// The members from one position to another, both included: `0, -1` is all of them. Never nil.
    ///
    /// [ZRANGE](https://redis.io/docs/latest/commands/zrange/)
    #[inline]
    fn zrange<T: FromReply>(self, key: impl ToArg, start: i64, stop: i64) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("ZRANGE").key(key).arg(start).arg(stop))
    }

    /// The members that a query asks for: by position, score or bytes, in either direction. Never nil. Since 6.2.
    ///
    /// [ZRANGE](https://redis.io/docs/latest/commands/zrange/)
    fn zrange_with<T: FromReply>(self, key: impl ToArg, query: ZrangeQuery) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("ZRANGE").key(key).args(query))
    }

    /// Like [`zrange`](SortedSetCommands::zrange), each member with its score.
    ///
    /// [ZRANGE](https://redis.io/docs/latest/commands/zrange/)
    #[inline]
    fn zrange_withscores<T: FromReply>(self, key: impl ToArg, start: i64, stop: i64) -> Self::MultiBulk<(T, f64)> {
        self.execute_multi(cmd("ZRANGE").key(key).arg(start).arg(stop).arg("WITHSCORES"))
    }

    /// Like [`zrange_with`](SortedSetCommands::zrange_with), each member with its score. Not by bytes: the servers
    /// refuse that.
    ///
    /// [ZRANGE](https://redis.io/docs/latest/commands/zrange/)
    fn zrange_withscores_with<T: FromReply>(self, key: impl ToArg, query: ZrangeQuery) -> Self::MultiBulk<(T, f64)> {
        self.execute_multi(cmd("ZRANGE").key(key).args(query).arg("WITHSCORES"))
    }

    /// The members in this range of the order of bytes, where all scores are the same. Never nil. Deprecated since 6.2:
    /// [`zrange_with`](SortedSetCommands::zrange_with) does the same.
    ///
    /// [ZRANGEBYLEX](https://redis.io/docs/latest/commands/zrangebylex/)
    fn zrangebylex<T: FromReply>(self, key: impl ToArg, range: impl Into<LexRange>) -> Self::MultiBulk<T> {
        let LexRange { min, max } = range.into();
        self.execute_multi(cmd("ZRANGEBYLEX").key(key).arg(min).arg(max))
    }

    /// Like [`zrangebylex`](SortedSetCommands::zrangebylex), but leaves the first `offset` members out and takes up to
    /// `count`, all if it is negative.
    ///
    /// [ZRANGEBYLEX](https://redis.io/docs/latest/commands/zrangebylex/)
    fn zrangebylex_limit<T: FromReply>(
        self,
        key: impl ToArg,
        range: impl Into<LexRange>,
        offset: u64,
        count: i64,
    ) -> Self::MultiBulk<T> {
        let LexRange { min, max } = range.into();
        self.execute_multi(cmd("ZRANGEBYLEX").key(key).arg(min).arg(max).arg("LIMIT").arg(offset).arg(count))
    }

    /// The members with a score in this range, the lowest first. Never nil. Deprecated since 6.2:
    /// [`zrange_with`](SortedSetCommands::zrange_with) does the same.
    ///
    /// [ZRANGEBYSCORE](https://redis.io/docs/latest/commands/zrangebyscore/)
    fn zrangebyscore<T: FromReply>(self, key: impl ToArg, range: impl Into<ScoreRange>) -> Self::MultiBulk<T> {
        let ScoreRange { min, max } = range.into();
        self.execute_multi(cmd("ZRANGEBYSCORE").key(key).arg(min).arg(max))
    }

    /// Like [`zrangebyscore`](SortedSetCommands::zrangebyscore), but leaves the first `offset` members out and takes up
    /// to `count`, all if it is negative.
    ///
    /// [ZRANGEBYSCORE](https://redis.io/docs/latest/commands/zrangebyscore/)
    fn zrangebyscore_limit<T: FromReply>(
        self,
        key: impl ToArg,
        range: impl Into<ScoreRange>,
        offset: u64,
        count: i64,
    ) -> Self::MultiBulk<T> {
        let ScoreRange { min, max } = range.into();
        self.execute_multi(cmd("ZRANGEBYSCORE").key(key).arg(min).arg(max).arg("LIMIT").arg(offset).arg(count))
    }

    /// Like [`zrangebyscore`](SortedSetCommands::zrangebyscore), each member with its score.
    ///
    /// [ZRANGEBYSCORE](https://redis.io/docs/latest/commands/zrangebyscore/)
    fn zrangebyscore_withscores<T: FromReply>(
        self,
        key: impl ToArg,
        range: impl Into<ScoreRange>,
    ) -> Self::MultiBulk<(T, f64)> {
        let ScoreRange { min, max } = range.into();
        self.execute_multi(cmd("ZRANGEBYSCORE").key(key).arg(min).arg(max).arg("WITHSCORES"))
    }

    /// Like [`zrangebyscore_limit`](SortedSetCommands::zrangebyscore_limit), each member with its score.
    ///
    /// [ZRANGEBYSCORE](https://redis.io/docs/latest/commands/zrangebyscore/)
    fn zrangebyscore_withscores_limit<T: FromReply>(
        self,
        key: impl ToArg,
        range: impl Into<ScoreRange>,
        offset: u64,
        count: i64,
    ) -> Self::MultiBulk<(T, f64)> {
        let ScoreRange { min, max } = range.into();
        let command = cmd("ZRANGEBYSCORE").key(key).arg(min).arg(max).arg("WITHSCORES");
        self.execute_multi(command.arg("LIMIT").arg(offset).arg(count))
    }

    /// Like [`zrange`](SortedSetCommands::zrange), but makes the result the new value of `destination`, whatever that
    /// was. The reply is its number of members. Since 6.2.
    ///
    /// [ZRANGESTORE](https://redis.io/docs/latest/commands/zrangestore/)
    fn zrangestore(self, destination: impl ToArg, source: impl ToArg, start: i64, stop: i64) -> Self::Reply<i64> {
        self.execute(cmd("ZRANGESTORE").key(destination).key(source).arg(start).arg(stop))
    }

    /// Like [`zrange_with`](SortedSetCommands::zrange_with), but makes the result the new value of `destination`,
    /// whatever that was. The reply is its number of members. Since 6.2.
    ///
    /// [ZRANGESTORE](https://redis.io/docs/latest/commands/zrangestore/)
    fn zrangestore_with(self, destination: impl ToArg, source: impl ToArg, query: ZrangeQuery) -> Self::Reply<i64> {
        self.execute(cmd("ZRANGESTORE").key(destination).key(source).args(query))
    }

    /// The position of a member, counted from the lowest score; nil if it is not there.
    ///
    /// [ZRANK](https://redis.io/docs/latest/commands/zrank/)
    #[inline]
    fn zrank(self, key: impl ToArg, member: impl ToArg) -> Self::Reply<Option<i64>> {
        self.execute(cmd("ZRANK").key(key).arg(member))
    }

    /// Like [`zrank`](SortedSetCommands::zrank), with the member's score. Since 7.2.
    ///
    /// [ZRANK](https://redis.io/docs/latest/commands/zrank/)
    fn zrank_withscore(self, key: impl ToArg, member: impl ToArg) -> Self::Reply<Option<(i64, f64)>> {
        self.execute(cmd("ZRANK").key(key).arg(member).arg("WITHSCORE"))
    }

    /// Removes members. The reply is how many were there.
    ///
    /// [ZREM](https://redis.io/docs/latest/commands/zrem/)
    #[inline]
    fn zrem(self, key: impl ToArg, members: impl ToArgs) -> Self::Reply<i64> {
        self.execute(cmd("ZREM").key(key).args(members))
    }

    /// Removes the members in this range of the order of bytes, where all scores are the same. The reply is how many
    /// there were.
    ///
    /// [ZREMRANGEBYLEX](https://redis.io/docs/latest/commands/zremrangebylex/)
    fn zremrangebylex(self, key: impl ToArg, range: impl Into<LexRange>) -> Self::Reply<i64> {
        let LexRange { min, max } = range.into();
        self.execute(cmd("ZREMRANGEBYLEX").key(key).arg(min).arg(max))
    }

    /// Removes the members from one position to another, both included. The reply is how many there were.
    ///
    /// [ZREMRANGEBYRANK](https://redis.io/docs/latest/commands/zremrangebyrank/)
    fn zremrangebyrank(self, key: impl ToArg, start: i64, stop: i64) -> Self::Reply<i64> {
        self.execute(cmd("ZREMRANGEBYRANK").key(key).arg(start).arg(stop))
    }

    /// Removes the members with a score in this range. The reply is how many there were.
    ///
    /// [ZREMRANGEBYSCORE](https://redis.io/docs/latest/commands/zremrangebyscore/)
    fn zremrangebyscore(self, key: impl ToArg, range: impl Into<ScoreRange>) -> Self::Reply<i64> {
        let ScoreRange { min, max } = range.into();
        self.execute(cmd("ZREMRANGEBYSCORE").key(key).arg(min).arg(max))
    }

    /// Like [`zrange`](SortedSetCommands::zrange), but from the highest score to the lowest; positions are counted from
    /// the highest. Deprecated since 6.2: [`zrange_with`](SortedSetCommands::zrange_with) does the same.
    ///
    /// [ZREVRANGE](https://redis.io/docs/latest/commands/zrevrange/)
    fn zrevrange<T: FromReply>(self, key: impl ToArg, start: i64, stop: i64) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("ZREVRANGE").key(key).arg(start).arg(stop))
    }

    /// Like [`zrevrange`](SortedSetCommands::zrevrange), each member with its score.
    ///
    /// [ZREVRANGE](https://redis.io/docs/latest/commands/zrevrange/)
    fn zrevrange_withscores<T: FromReply>(self, key: impl ToArg, start: i64, stop: i64) -> Self::MultiBulk<(T, f64)> {
        self.execute_multi(cmd("ZREVRANGE").key(key).arg(start).arg(stop).arg("WITHSCORES"))
    }

    /// Like [`zrangebylex`](SortedSetCommands::zrangebylex), but the last first. The range is still given from its lower
    /// bound to its upper one. Deprecated since 6.2: [`zrange_with`](SortedSetCommands::zrange_with) does the same.
    ///
    /// [ZREVRANGEBYLEX](https://redis.io/docs/latest/commands/zrevrangebylex/)
    fn zrevrangebylex<T: FromReply>(self, key: impl ToArg, range: impl Into<LexRange>) -> Self::MultiBulk<T> {
        let LexRange { min, max } = range.into();
        self.execute_multi(cmd("ZREVRANGEBYLEX").key(key).arg(max).arg(min))
    }

    /// Like [`zrevrangebylex`](SortedSetCommands::zrevrangebylex), but leaves the first `offset` members out and takes
    /// up to `count`, all if it is negative.
    ///
    /// [ZREVRANGEBYLEX](https://redis.io/docs/latest/commands/zrevrangebylex/)
    fn zrevrangebylex_limit<T: FromReply>(
        self,
        key: impl ToArg,
        range: impl Into<LexRange>,
        offset: u64,
        count: i64,
    ) -> Self::MultiBulk<T> {
        let LexRange { min, max } = range.into();
        self.execute_multi(cmd("ZREVRANGEBYLEX").key(key).arg(max).arg(min).arg("LIMIT").arg(offset).arg(count))
    }

    /// Like [`zrangebyscore`](SortedSetCommands::zrangebyscore), but the highest first. The range is still given from
    /// its lower bound to its upper one. Deprecated since 6.2: [`zrange_with`](SortedSetCommands::zrange_with) does the
    /// same.
    ///
    /// [ZREVRANGEBYSCORE](https://redis.io/docs/latest/commands/zrevrangebyscore/)
    fn zrevrangebyscore<T: FromReply>(self, key: impl ToArg, range: impl Into<ScoreRange>) -> Self::MultiBulk<T> {
        let ScoreRange { min, max } = range.into();
        self.execute_multi(cmd("ZREVRANGEBYSCORE").key(key).arg(max).arg(min))
    }

    /// Like [`zrevrangebyscore`](SortedSetCommands::zrevrangebyscore), but leaves the first `offset` members out and
    /// takes up to `count`, all if it is negative.
    ///
    /// [ZREVRANGEBYSCORE](https://redis.io/docs/latest/commands/zrevrangebyscore/)
    fn zrevrangebyscore_limit<T: FromReply>(
        self,
        key: impl ToArg,
        range: impl Into<ScoreRange>,
        offset: u64,
        count: i64,
    ) -> Self::MultiBulk<T> {
        let ScoreRange { min, max } = range.into();
        self.execute_multi(cmd("ZREVRANGEBYSCORE").key(key).arg(max).arg(min).arg("LIMIT").arg(offset).arg(count))
    }

    /// Like [`zrevrangebyscore`](SortedSetCommands::zrevrangebyscore), each member with its score.
    ///
    /// [ZREVRANGEBYSCORE](https://redis.io/docs/latest/commands/zrevrangebyscore/)
    fn zrevrangebyscore_withscores<T: FromReply>(
        self,
        key: impl ToArg,
        range: impl Into<ScoreRange>,
    ) -> Self::MultiBulk<(T, f64)> {
        let ScoreRange { min, max } = range.into();
        self.execute_multi(cmd("ZREVRANGEBYSCORE").key(key).arg(max).arg(min).arg("WITHSCORES"))
    }

    /// Like [`zrevrangebyscore_limit`](SortedSetCommands::zrevrangebyscore_limit), each member with its score.
    ///
    /// [ZREVRANGEBYSCORE](https://redis.io/docs/latest/commands/zrevrangebyscore/)
    fn zrevrangebyscore_withscores_limit<T: FromReply>(
        self,
        key: impl ToArg,
        range: impl Into<ScoreRange>,
        offset: u64,
        count: i64,
    ) -> Self::MultiBulk<(T, f64)> {
        let ScoreRange { min, max } = range.into();
        let command = cmd("ZREVRANGEBYSCORE").key(key).arg(max).arg(min).arg("WITHSCORES");
        self.execute_multi(command.arg("LIMIT").arg(offset).arg(count))
    }

    /// The position of a member, counted from the highest score; nil if it is not there.
    ///
    /// [ZREVRANK](https://redis.io/docs/latest/commands/zrevrank/)
    fn zrevrank(self, key: impl ToArg, member: impl ToArg) -> Self::Reply<Option<i64>> {
        self.execute(cmd("ZREVRANK").key(key).arg(member))
    }

    /// Like [`zrevrank`](SortedSetCommands::zrevrank), with the member's score. Since 7.2.
    ///
    /// [ZREVRANK](https://redis.io/docs/latest/commands/zrevrank/)
    fn zrevrank_withscore(self, key: impl ToArg, member: impl ToArg) -> Self::Reply<Option<(i64, f64)>> {
        self.execute(cmd("ZREVRANK").key(key).arg(member).arg("WITHSCORE"))
    }

    /// The score of a member; nil if it is not there.
    ///
    /// [ZSCORE](https://redis.io/docs/latest/commands/zscore/)
    #[inline]
    fn zscore(self, key: impl ToArg, member: impl ToArg) -> Self::Reply<Option<f64>> {
        self.execute(cmd("ZSCORE").key(key).arg(member))
    }

    /// The members that are in any of these sorted sets or sets, in the order of the sums of their scores (those of sets
    /// are 1). Never nil. Since 6.2.
    ///
    /// [ZUNION](https://redis.io/docs/latest/commands/zunion/)
    fn zunion<T: FromReply>(self, keys: impl ToArgs) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("ZUNION").counted_keys(keys))
    }

    /// Like [`zunion`](SortedSetCommands::zunion), with options that say how the scores are combined.
    ///
    /// [ZUNION](https://redis.io/docs/latest/commands/zunion/)
    fn zunion_with<T: FromReply>(self, keys: impl ToArgs, options: CombineOptions) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("ZUNION").counted_keys(keys).options(options))
    }

    /// Like [`zunion`](SortedSetCommands::zunion), each member with its score.
    ///
    /// [ZUNION](https://redis.io/docs/latest/commands/zunion/)
    fn zunion_withscores<T: FromReply>(self, keys: impl ToArgs) -> Self::MultiBulk<(T, f64)> {
        self.execute_multi(cmd("ZUNION").counted_keys(keys).arg("WITHSCORES"))
    }

    /// Like [`zunion_with`](SortedSetCommands::zunion_with), each member with its score.
    ///
    /// [ZUNION](https://redis.io/docs/latest/commands/zunion/)
    fn zunion_withscores_with<T: FromReply>(
        self,
        keys: impl ToArgs,
        options: CombineOptions,
    ) -> Self::MultiBulk<(T, f64)> {
        self.execute_multi(cmd("ZUNION").counted_keys(keys).options(options).arg("WITHSCORES"))
    }

    /// Like [`zunion`](SortedSetCommands::zunion), but makes the result the new value of `destination`, whatever that
    /// was. The reply is its number of members.
    ///
    /// [ZUNIONSTORE](https://redis.io/docs/latest/commands/zunionstore/)
    fn zunionstore(self, destination: impl ToArg, keys: impl ToArgs) -> Self::Reply<i64> {
        self.execute(cmd("ZUNIONSTORE").key(destination).counted_keys(keys))
    }

    /// Like [`zunionstore`](SortedSetCommands::zunionstore), with options that say how the scores are combined.
    ///
    /// [ZUNIONSTORE](https://redis.io/docs/latest/commands/zunionstore/)
    fn zunionstore_with(self, destination: impl ToArg, keys: impl ToArgs, options: CombineOptions) -> Self::Reply<i64> {
        self.execute(cmd("ZUNIONSTORE").key(destination).counted_keys(keys).options(options))
    }
}

/// Commands on sorted sets that wait until there is a member.
///
/// What [`BlockingListCommands`](super::BlockingListCommands) says of timeouts, of a connection that waits for itself
/// and of handles that are dropped is true of these as well: each holds up the whole connection,
/// `let least = conn.bzpopmin(…); conn.zadd(…).detach(); least.wait()` never ends, and the handle is detached when it is
/// dropped, with the loss of a reply that comes later.
pub trait BlockingSortedSetCommands: Execute {
    /// Like [`zmpop`](SortedSetCommands::zmpop), but waits until one of the sorted sets has a member; nil after the
    /// timeout. Since 7.0. Mind [the deadlock with
    /// oneself](super::BlockingListCommands#a-connection-waits-for-itself): the command holds its own connection, and a
    /// handle that is dropped is detached, with the loss of a reply that comes later.
    ///
    /// [BZMPOP](https://redis.io/docs/latest/commands/bzmpop/)
    fn bzmpop<K: FromReply, T: FromReply>(
        self,
        timeout: impl Into<Option<Duration>>,
        keys: impl ToArgs,
        from: Extreme,
    ) -> Self::Reply<Option<Zpopped<K, T>>> {
        let time = block_time(timeout);
        self.execute(cmd("BZMPOP").arg(Seconds(time)).counted_keys(keys).arg(from).blocking(time))
    }

    /// Like [`bzmpop`](BlockingSortedSetCommands::bzmpop), but takes up to `count` members.
    ///
    /// [BZMPOP](https://redis.io/docs/latest/commands/bzmpop/)
    fn bzmpop_count<K: FromReply, T: FromReply>(
        self,
        timeout: impl Into<Option<Duration>>,
        keys: impl ToArgs,
        from: Extreme,
        count: u64,
    ) -> Self::Reply<Option<Zpopped<K, T>>> {
        let time = block_time(timeout);
        let command = cmd("BZMPOP").arg(Seconds(time)).counted_keys(keys).arg(from);
        self.execute(command.arg("COUNT").arg(count).blocking(time))
    }

    /// Takes the member with the highest score from the first of these sorted sets that has one, and waits until one
    /// has. The reply is the key, the member and its score; nil after the timeout. Mind [the deadlock with
    /// oneself](super::BlockingListCommands#a-connection-waits-for-itself): the command holds its own connection, and a
    /// handle that is dropped is detached, with the loss of a reply that comes later.
    ///
    /// [BZPOPMAX](https://redis.io/docs/latest/commands/bzpopmax/)
    fn bzpopmax<K: FromReply, T: FromReply>(
        self,
        keys: impl ToArgs,
        timeout: impl Into<Option<Duration>>,
    ) -> Self::Reply<Option<(K, T, f64)>> {
        let time = block_time(timeout);
        self.execute(cmd("BZPOPMAX").keys(keys).arg(Seconds(time)).blocking(time))
    }

    /// Like [`bzpopmax`](BlockingSortedSetCommands::bzpopmax), but takes the member with the lowest score. Mind [the
    /// deadlock with oneself](super::BlockingListCommands#a-connection-waits-for-itself): the command holds its own
    /// connection, and a handle that is dropped is detached, with the loss of a reply that comes later.
    ///
    /// [BZPOPMIN](https://redis.io/docs/latest/commands/bzpopmin/)
    fn bzpopmin<K: FromReply, T: FromReply>(
        self,
        keys: impl ToArgs,
        timeout: impl Into<Option<Duration>>,
    ) -> Self::Reply<Option<(K, T, f64)>> {
        let time = block_time(timeout);
        self.execute(cmd("BZPOPMIN").keys(keys).arg(Seconds(time)).blocking(time))
    }
}

#[cfg(test)]
mod tests {
    use super::super::recorder::{Recorder, sent};
    use super::*;
    use crate::args::each;

    impl SortedSetCommands for &Recorder {}
    impl BlockingSortedSetCommands for &Recorder {}

    #[test]
    fn sorted_set_commands_are_encoded_with_their_keys() {
        assert_eq!(sent(|on| on.zadd("k", (1.5, "a"))), "ZADD [k] 1.5 a");
        assert_eq!(sent(|on| on.zadd("k", [(1, "a"), (2, "b")])), "ZADD [k] 1 a 2 b");
        assert_eq!(sent(|on| on.zadd("k", Vec::<(f64, String)>::new())), "refused");
        let scores = each([("a", f64::INFINITY)].map(|(member, score)| (score, member)));
        assert_eq!(sent(|on| on.zadd_with("k", scores, ZaddOptions::new().xx().ch())), "ZADD [k] XX CH inf a");
        assert_eq!(sent(|on| on.zadd_incr("k", 2.0, "a", ZaddOptions::new().nx())), "ZADD [k] NX INCR 2 a");
        assert_eq!(sent(|on| on.zcard("k")), "ZCARD [k]");
        assert_eq!(sent(|on| on.zcount("k", 1..3)), "ZCOUNT [k] 1 (3.0");
        assert_eq!(sent(|on| on.zdiff::<String>(["a", "b"])), "ZDIFF 2 [a] [b]");
        assert_eq!(sent(|on| on.zdiff_withscores::<String>("a")), "ZDIFF 1 [a] WITHSCORES");
        assert_eq!(sent(|on| on.zdiffstore("d", each(["a", "b"]))), "ZDIFFSTORE [d] 2 [a] [b]");
        assert_eq!(sent(|on| on.zincrby("k", -0.5, "m")), "ZINCRBY [k] -0.5 m");
        let max = CombineOptions::new().weights([1.0, 2.0]).aggregate(Aggregate::Max);
        assert_eq!(sent(|on| on.zinter::<String>(["a", "b"])), "ZINTER 2 [a] [b]");
        assert_eq!(
            sent(|on| on.zinter_with::<String>(["a", "b"], max.clone())),
            "ZINTER 2 [a] [b] WEIGHTS 1 2 AGGREGATE MAX"
        );
        assert_eq!(sent(|on| on.zinter_withscores::<String>("a")), "ZINTER 1 [a] WITHSCORES");
        assert_eq!(
            sent(|on| on.zinter_withscores_with::<String>(["a", "b"], max.clone())),
            "ZINTER 2 [a] [b] WEIGHTS 1 2 AGGREGATE MAX WITHSCORES"
        );
        assert_eq!(sent(|on| on.zintercard(["a", "b"])), "ZINTERCARD 2 [a] [b]");
        assert_eq!(sent(|on| on.zintercard_limit(["a", "b"], 1)), "ZINTERCARD 2 [a] [b] LIMIT 1");
        assert_eq!(sent(|on| on.zinterstore("d", ["a", "b"])), "ZINTERSTORE [d] 2 [a] [b]");
        assert_eq!(
            sent(|on| on.zinterstore_with("d", ["a", "b"], max.clone())),
            "ZINTERSTORE [d] 2 [a] [b] WEIGHTS 1 2 AGGREGATE MAX"
        );
        assert_eq!(sent(|on| on.zlexcount("k", "a".."c")), "ZLEXCOUNT [k] [a (c");
        assert_eq!(sent(|on| on.zmpop::<String, String>(["a", "b"], Extreme::Min)), "ZMPOP 2 [a] [b] MIN");
        assert_eq!(sent(|on| on.zmpop_count::<String, String>("a", Extreme::Max, 2)), "ZMPOP 1 [a] MAX COUNT 2");
        assert_eq!(sent(|on| on.zmscore("k", ["a", "b"])), "ZMSCORE [k] a b");
        assert_eq!(sent(|on| on.zpopmax::<String>("k")), "ZPOPMAX [k]");
        assert_eq!(sent(|on| on.zpopmax_count::<String>("k", 2)), "ZPOPMAX [k] 2");
        assert_eq!(sent(|on| on.zpopmin::<String>("k")), "ZPOPMIN [k]");
        assert_eq!(sent(|on| on.zpopmin_count::<String>("k", 2)), "ZPOPMIN [k] 2");
        assert_eq!(sent(|on| on.zrandmember::<String>("k")), "ZRANDMEMBER [k]");
        assert_eq!(sent(|on| on.zrandmember_count::<String>("k", -2)), "ZRANDMEMBER [k] -2");
        assert_eq!(sent(|on| on.zrandmember_withscores::<String>("k", 2)), "ZRANDMEMBER [k] 2 WITHSCORES");
        assert_eq!(sent(|on| on.zrem("k", ["a"])), "ZREM [k] a");
        assert_eq!(sent(|on| on.zremrangebylex("k", ..)), "ZREMRANGEBYLEX [k] - +");
        assert_eq!(sent(|on| on.zremrangebyrank("k", 0, -1)), "ZREMRANGEBYRANK [k] 0 -1");
        assert_eq!(sent(|on| on.zremrangebyscore("k", ..=3)), "ZREMRANGEBYSCORE [k] -inf 3");
        assert_eq!(sent(|on| on.zrank("k", "m")), "ZRANK [k] m");
        assert_eq!(sent(|on| on.zrank_withscore("k", "m")), "ZRANK [k] m WITHSCORE");
        assert_eq!(sent(|on| on.zrevrank("k", "m")), "ZREVRANK [k] m");
        assert_eq!(sent(|on| on.zrevrank_withscore("k", "m")), "ZREVRANK [k] m WITHSCORE");
        assert_eq!(sent(|on| on.zscore("k", "m")), "ZSCORE [k] m");
        assert_eq!(sent(|on| on.zunion::<String>(["a", "b"])), "ZUNION 2 [a] [b]");
        assert_eq!(
            sent(|on| on.zunion_with::<String>(["a", "b"], CombineOptions::new().aggregate(Aggregate::Min))),
            "ZUNION 2 [a] [b] AGGREGATE MIN"
        );
        assert_eq!(sent(|on| on.zunion_withscores::<String>(["a", "b"])), "ZUNION 2 [a] [b] WITHSCORES");
        assert_eq!(
            sent(|on| on.zunion_withscores_with::<String>(["a", "b"], max.clone())),
            "ZUNION 2 [a] [b] WEIGHTS 1 2 AGGREGATE MAX WITHSCORES"
        );
        assert_eq!(sent(|on| on.zunionstore("d", ["a", "b"])), "ZUNIONSTORE [d] 2 [a] [b]");
        assert_eq!(
            sent(|on| on.zunionstore_with("d", ["a", "b"], max)),
            "ZUNIONSTORE [d] 2 [a] [b] WEIGHTS 1 2 AGGREGATE MAX"
        );
    }

    #[test]
    fn ranges_are_given_upwards_and_sent_as_the_server_wants_them() {
        assert_eq!(sent(|on| on.zrange::<String>("k", 0, -1)), "ZRANGE [k] 0 -1");
        assert_eq!(sent(|on| on.zrange_withscores::<String>("k", 0, -1)), "ZRANGE [k] 0 -1 WITHSCORES");
        let query = ZrangeQuery::by_score(1..=2).rev().limit(0, 5);
        assert_eq!(sent(|on| on.zrange_with::<String>("k", query.clone())), "ZRANGE [k] 2 1 BYSCORE REV LIMIT 0 5");
        assert_eq!(
            sent(|on| on.zrange_withscores_with::<String>("k", query.clone())),
            "ZRANGE [k] 2 1 BYSCORE REV LIMIT 0 5 WITHSCORES"
        );
        assert_eq!(sent(|on| on.zrangestore("d", "s", 0, 1)), "ZRANGESTORE [d] [s] 0 1");
        assert_eq!(sent(|on| on.zrangestore_with("d", "s", query)), "ZRANGESTORE [d] [s] 2 1 BYSCORE REV LIMIT 0 5");
        assert_eq!(sent(|on| on.zrangebylex::<String>("k", "a".."b")), "ZRANGEBYLEX [k] [a (b");
        assert_eq!(sent(|on| on.zrangebylex_limit::<String>("k", .., 1, -1)), "ZRANGEBYLEX [k] - + LIMIT 1 -1");
        assert_eq!(sent(|on| on.zrevrangebylex::<String>("k", "a".."b")), "ZREVRANGEBYLEX [k] (b [a");
        assert_eq!(sent(|on| on.zrevrangebylex_limit::<String>("k", .., 1, 2)), "ZREVRANGEBYLEX [k] + - LIMIT 1 2");
        assert_eq!(sent(|on| on.zrangebyscore::<String>("k", 1..2)), "ZRANGEBYSCORE [k] 1 (2.0");
        assert_eq!(sent(|on| on.zrangebyscore_limit::<String>("k", .., 1, 2)), "ZRANGEBYSCORE [k] -inf +inf LIMIT 1 2");
        assert_eq!(
            sent(|on| on.zrangebyscore_withscores::<String>("k", 1.5..)),
            "ZRANGEBYSCORE [k] 1.5 +inf WITHSCORES"
        );
        assert_eq!(
            sent(|on| on.zrangebyscore_withscores_limit::<String>("k", .., 1, 2)),
            "ZRANGEBYSCORE [k] -inf +inf WITHSCORES LIMIT 1 2"
        );
        assert_eq!(sent(|on| on.zrevrange::<String>("k", 0, -1)), "ZREVRANGE [k] 0 -1");
        assert_eq!(sent(|on| on.zrevrange_withscores::<String>("k", 0, -1)), "ZREVRANGE [k] 0 -1 WITHSCORES");
        assert_eq!(sent(|on| on.zrevrangebyscore::<String>("k", 1..2)), "ZREVRANGEBYSCORE [k] (2.0 1");
        assert_eq!(
            sent(|on| on.zrevrangebyscore_limit::<String>("k", .., 1, 2)),
            "ZREVRANGEBYSCORE [k] +inf -inf LIMIT 1 2"
        );
        assert_eq!(
            sent(|on| on.zrevrangebyscore_withscores::<String>("k", ..)),
            "ZREVRANGEBYSCORE [k] +inf -inf WITHSCORES"
        );
        assert_eq!(
            sent(|on| on.zrevrangebyscore_withscores_limit::<String>("k", .., 1, 2)),
            "ZREVRANGEBYSCORE [k] +inf -inf WITHSCORES LIMIT 1 2"
        );
    }

    #[test]
    fn blocking_commands_say_for_how_long() {
        let time = Duration::from_millis(1500);
        assert_eq!(sent(|on| on.bzpopmin::<String, String>(["a", "b"], time)), "BZPOPMIN [a] [b] 1.5 ~1.5s");
        assert_eq!(sent(|on| on.bzpopmax::<String, String>("a", None)), "BZPOPMAX [a] 0 ~");
        assert_eq!(
            sent(|on| on.bzmpop::<String, String>(time, ["a", "b"], Extreme::Max)),
            "BZMPOP 1.5 2 [a] [b] MAX ~1.5s"
        );
        assert_eq!(
            sent(|on| on.bzmpop_count::<String, String>(time, "a", Extreme::Min, 3)),
            "BZMPOP 1.5 1 [a] MIN COUNT 3 ~1.5s"
        );
    }
}
