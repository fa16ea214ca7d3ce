//! Sets: strings without order, each at most once.

use crate::args::{ToArg, ToArgs, cmd};
use crate::execute::Execute;
use crate::values::FromReply;

/// Commands on sets.
///
/// A key that does not exist is an empty set, and a set that becomes empty is gone. On a key of another type each
/// command fails with `WRONGTYPE`.
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(feature = "testing")] {
/// # let server = redefer::testing::Server::start()?;
/// # let conn = redefer::Connection::open(server.url())?;
/// use redefer::prelude::*;
/// use std::collections::HashSet;
///
/// conn.sadd("warm", ["red", "orange"]).wait()?;
/// conn.sadd("flag", ["red", "white"]).wait()?;
/// let both: HashSet<String> = conn.sinter(["warm", "flag"]).wait()?;
/// assert_eq!(both, HashSet::from([String::from("red")]));
/// # }
/// # Ok(())
/// # }
/// ```
pub trait SetCommands: Execute {
    /// Adds members. The reply is how many were not there before.
    ///
    /// [SADD](https://redis.io/docs/latest/commands/sadd/)
    #[inline]
    fn sadd(self, key: impl ToArg, members: impl ToArgs) -> Self::Reply<i64> {
        self.execute(cmd("SADD").key(key).args(members))
    }

    /// How many members there are.
    ///
    /// [SCARD](https://redis.io/docs/latest/commands/scard/)
    #[inline]
    fn scard(self, key: impl ToArg) -> Self::Reply<i64> {
        self.execute(cmd("SCARD").key(key))
    }

    /// The members of the first set that are in none of the others. Never nil.
    ///
    /// [SDIFF](https://redis.io/docs/latest/commands/sdiff/)
    fn sdiff<T: FromReply>(self, keys: impl ToArgs) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("SDIFF").keys(keys))
    }

    /// Like [`sdiff`](SetCommands::sdiff), but makes the result the new value of `destination`, whatever that was. The
    /// reply is its number of members.
    ///
    /// [SDIFFSTORE](https://redis.io/docs/latest/commands/sdiffstore/)
    fn sdiffstore(self, destination: impl ToArg, keys: impl ToArgs) -> Self::Reply<i64> {
        self.execute(cmd("SDIFFSTORE").key(destination).keys(keys))
    }

    /// The members that are in each of these sets. Never nil.
    ///
    /// [SINTER](https://redis.io/docs/latest/commands/sinter/)
    fn sinter<T: FromReply>(self, keys: impl ToArgs) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("SINTER").keys(keys))
    }

    /// How many members are in each of these sets. Since 7.0.
    ///
    /// [SINTERCARD](https://redis.io/docs/latest/commands/sintercard/)
    fn sintercard(self, keys: impl ToArgs) -> Self::Reply<i64> {
        self.execute(cmd("SINTERCARD").counted_keys(keys))
    }

    /// Like [`sintercard`](SetCommands::sintercard), but stops counting at `limit`; 0 is no limit.
    ///
    /// [SINTERCARD](https://redis.io/docs/latest/commands/sintercard/)
    fn sintercard_limit(self, keys: impl ToArgs, limit: u64) -> Self::Reply<i64> {
        self.execute(cmd("SINTERCARD").counted_keys(keys).arg("LIMIT").arg(limit))
    }

    /// Like [`sinter`](SetCommands::sinter), but makes the result the new value of `destination`, whatever that was. The
    /// reply is its number of members.
    ///
    /// [SINTERSTORE](https://redis.io/docs/latest/commands/sinterstore/)
    fn sinterstore(self, destination: impl ToArg, keys: impl ToArgs) -> Self::Reply<i64> {
        self.execute(cmd("SINTERSTORE").key(destination).keys(keys))
    }

    /// Whether this is a member.
    ///
    /// [SISMEMBER](https://redis.io/docs/latest/commands/sismember/)
    #[inline]
    fn sismember(self, key: impl ToArg, member: impl ToArg) -> Self::Reply<bool> {
        self.execute(cmd("SISMEMBER").key(key).arg(member))
    }

    /// All members. Never nil.
    ///
    /// [SMEMBERS](https://redis.io/docs/latest/commands/smembers/)
    #[inline]
    fn smembers<T: FromReply>(self, key: impl ToArg) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("SMEMBERS").key(key))
    }

    /// Whether each of these is a member, in the order asked. Since 6.2.
    ///
    /// [SMISMEMBER](https://redis.io/docs/latest/commands/smismember/)
    fn smismember(self, key: impl ToArg, members: impl ToArgs) -> Self::MultiBulk<bool> {
        self.execute_multi(cmd("SMISMEMBER").key(key).args(members))
    }

    /// Moves a member from one set to another. The reply is whether it was in the first.
    ///
    /// [SMOVE](https://redis.io/docs/latest/commands/smove/)
    fn smove(self, source: impl ToArg, destination: impl ToArg, member: impl ToArg) -> Self::Reply<bool> {
        self.execute(cmd("SMOVE").key(source).key(destination).arg(member))
    }

    /// Takes a member at random; nil if the set is empty.
    ///
    /// [SPOP](https://redis.io/docs/latest/commands/spop/)
    #[inline]
    fn spop<T: FromReply>(self, key: impl ToArg) -> Self::Reply<T> {
        self.execute(cmd("SPOP").key(key))
    }

    /// Takes up to `count` members at random. Never nil.
    ///
    /// [SPOP](https://redis.io/docs/latest/commands/spop/)
    fn spop_count<T: FromReply>(self, key: impl ToArg, count: u64) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("SPOP").key(key).arg(count))
    }

    /// A member at random, which stays; nil if the set is empty.
    ///
    /// [SRANDMEMBER](https://redis.io/docs/latest/commands/srandmember/)
    fn srandmember<T: FromReply>(self, key: impl ToArg) -> Self::Reply<T> {
        self.execute(cmd("SRANDMEMBER").key(key))
    }

    /// Up to `count` different members at random; if it is negative, exactly `-count`, which may repeat. Never nil.
    ///
    /// [SRANDMEMBER](https://redis.io/docs/latest/commands/srandmember/)
    fn srandmember_count<T: FromReply>(self, key: impl ToArg, count: i64) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("SRANDMEMBER").key(key).arg(count))
    }

    /// Removes members. The reply is how many were there.
    ///
    /// [SREM](https://redis.io/docs/latest/commands/srem/)
    #[inline]
    fn srem(self, key: impl ToArg, members: impl ToArgs) -> Self::Reply<i64> {
        self.execute(cmd("SREM").key(key).args(members))
    }

    /// The members that are in any of these sets. Never nil.
    ///
    /// [SUNION](https://redis.io/docs/latest/commands/sunion/)
    fn sunion<T: FromReply>(self, keys: impl ToArgs) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("SUNION").keys(keys))
    }

    /// Like [`sunion`](SetCommands::sunion), but makes the result the new value of `destination`, whatever that was. The
    /// reply is its number of members.
    ///
    /// [SUNIONSTORE](https://redis.io/docs/latest/commands/sunionstore/)
    fn sunionstore(self, destination: impl ToArg, keys: impl ToArgs) -> Self::Reply<i64> {
        self.execute(cmd("SUNIONSTORE").key(destination).keys(keys))
    }
}

#[cfg(test)]
mod tests {
    use super::super::recorder::{Recorder, sent};
    use super::*;

    impl SetCommands for &Recorder {}

    #[test]
    fn set_commands_are_encoded_with_their_keys() {
        assert_eq!(sent(|on| on.sadd("k", ["a", "b"])), "SADD [k] a b");
        assert_eq!(sent(|on| on.sadd("k", ())), "refused");
        assert_eq!(sent(|on| on.scard("k")), "SCARD [k]");
        assert_eq!(sent(|on| on.sdiff::<String>(["a", "b"])), "SDIFF [a] [b]");
        assert_eq!(sent(|on| on.sdiffstore("d", ["a", "b"])), "SDIFFSTORE [d] [a] [b]");
        assert_eq!(sent(|on| on.sinter::<String>("a")), "SINTER [a]");
        assert_eq!(sent(|on| on.sintercard(["a", "b"])), "SINTERCARD 2 [a] [b]");
        assert_eq!(sent(|on| on.sintercard_limit(crate::args::each(["a", "b"]), 5)), "SINTERCARD 2 [a] [b] LIMIT 5");
        assert_eq!(sent(|on| on.sinterstore("d", "a")), "SINTERSTORE [d] [a]");
        assert_eq!(sent(|on| on.sismember("k", 1)), "SISMEMBER [k] 1");
        assert_eq!(sent(|on| on.smembers::<String>("k")), "SMEMBERS [k]");
        assert_eq!(sent(|on| on.smismember("k", (1, "a"))), "SMISMEMBER [k] 1 a");
        assert_eq!(sent(|on| on.smove("a", "b", "m")), "SMOVE [a] [b] m");
        assert_eq!(sent(|on| on.spop::<String>("k")), "SPOP [k]");
        assert_eq!(sent(|on| on.spop_count::<String>("k", 2)), "SPOP [k] 2");
        assert_eq!(sent(|on| on.srandmember::<String>("k")), "SRANDMEMBER [k]");
        assert_eq!(sent(|on| on.srandmember_count::<String>("k", -3)), "SRANDMEMBER [k] -3");
        assert_eq!(sent(|on| on.srem("k", "a")), "SREM [k] a");
        assert_eq!(sent(|on| on.sunion::<String>(["a", "b"])), "SUNION [a] [b]");
        assert_eq!(sent(|on| on.sunion::<String>(())), "refused");
        assert_eq!(sent(|on| on.sunionstore("d", ["a"])), "SUNIONSTORE [d] [a]");
    }
}
