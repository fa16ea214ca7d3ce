//! Commands on hashes.

mod options;

use std::time::{Duration, SystemTime};

use super::Execute;
use super::keys::{ExpireCondition, ExpireTime, PexpireTime, Pttl, Ttl};
use super::parts::{Pairs, millis, seconds, unix_millis, unix_seconds};
use super::string::{GetExpiry, SetExpiry};
use crate::args::{ToArg, ToArgs, ToPairs, cmd};
use crate::values::FromReply;

pub use options::{FieldExpiry, FieldPersist, HsetexOptions};

/// Commands on hashes: fields and their values under one key.
///
/// A command on a key that holds something else is answered with the error `WRONGTYPE`. A hash that loses its last field
/// is gone.
pub trait HashCommands: Execute {
    /// Deletes fields. The reply is how many of them existed.
    ///
    /// [HDEL](https://redis.io/docs/latest/commands/hdel/)
    #[inline]
    fn hdel(self, key: impl ToArg, fields: impl ToArgs) -> Self::Reply<i64> {
        self.execute(cmd("HDEL").key(key).args(fields))
    }

    /// Whether there is such a field.
    ///
    /// [HEXISTS](https://redis.io/docs/latest/commands/hexists/)
    #[inline]
    fn hexists(self, key: impl ToArg, field: impl ToArg) -> Self::Reply<bool> {
        self.execute(cmd("HEXISTS").key(key).arg(field))
    }

    /// Makes fields expire after `time`, in seconds, rounded up; zero deletes them. The reply has one element for each
    /// field.
    ///
    /// Since Redis 7.4 and Valkey 9.0. [`hpexpire`](Self::hpexpire) takes milliseconds.
    ///
    /// [HEXPIRE](https://redis.io/docs/latest/commands/hexpire/)
    fn hexpire(self, key: impl ToArg, time: Duration, fields: impl ToArgs) -> Self::MultiBulk<FieldExpiry> {
        self.execute_multi(cmd("HEXPIRE").key(key).arg(seconds(time)).arg("FIELDS").counted_args(fields))
    }

    /// Like [`hexpire`](Self::hexpire), under a condition.
    ///
    /// [HEXPIRE](https://redis.io/docs/latest/commands/hexpire/)
    fn hexpire_with(
        self,
        key: impl ToArg,
        time: Duration,
        fields: impl ToArgs,
        condition: ExpireCondition,
    ) -> Self::MultiBulk<FieldExpiry> {
        self.execute_multi(cmd("HEXPIRE").key(key).arg(seconds(time)).arg(condition).arg("FIELDS").counted_args(fields))
    }

    /// Makes fields expire at `time`, in seconds, rounded up; a time that has passed deletes them. The reply has one
    /// element for each field.
    ///
    /// Since Redis 7.4 and Valkey 9.0. [`hpexpireat`](Self::hpexpireat) takes milliseconds.
    ///
    /// [HEXPIREAT](https://redis.io/docs/latest/commands/hexpireat/)
    fn hexpireat(self, key: impl ToArg, time: SystemTime, fields: impl ToArgs) -> Self::MultiBulk<FieldExpiry> {
        self.execute_multi(cmd("HEXPIREAT").key(key).arg(unix_seconds(time)).arg("FIELDS").counted_args(fields))
    }

    /// Like [`hexpireat`](Self::hexpireat), under a condition.
    ///
    /// [HEXPIREAT](https://redis.io/docs/latest/commands/hexpireat/)
    fn hexpireat_with(
        self,
        key: impl ToArg,
        time: SystemTime,
        fields: impl ToArgs,
        condition: ExpireCondition,
    ) -> Self::MultiBulk<FieldExpiry> {
        let command = cmd("HEXPIREAT").key(key).arg(unix_seconds(time)).arg(condition);
        self.execute_multi(command.arg("FIELDS").counted_args(fields))
    }

    /// When fields expire, in seconds. The reply has one element for each field.
    ///
    /// Since Redis 7.4 and Valkey 9.0.
    ///
    /// [HEXPIRETIME](https://redis.io/docs/latest/commands/hexpiretime/)
    fn hexpiretime(self, key: impl ToArg, fields: impl ToArgs) -> Self::MultiBulk<ExpireTime> {
        self.execute_multi(cmd("HEXPIRETIME").key(key).arg("FIELDS").counted_args(fields))
    }

    /// The value of a field; nil if there is no such field, or no such key.
    ///
    /// [HGET](https://redis.io/docs/latest/commands/hget/)
    #[inline(always)]
    fn hget<T: FromReply>(self, key: impl ToArg, field: impl ToArg) -> Self::Reply<T> {
        self.execute(cmd("HGET").key(key).arg(field))
    }

    /// All fields and their values, in no order; nothing if there is no such key.
    ///
    /// [HGETALL](https://redis.io/docs/latest/commands/hgetall/)
    #[inline]
    fn hgetall<K: FromReply, V: FromReply>(self, key: impl ToArg) -> Self::MultiBulk<(K, V)> {
        self.execute_multi(cmd("HGETALL").key(key))
    }

    /// Like [`hgetall`](Self::hgetall), as one value and not as an iterator over pairs: for a struct
    /// (`serde::Fields`, or a [`FromReply`] of one's own), or a map. A key that does not exist has no fields, which is `None`
    /// for an `Option` of `serde::Fields`, and an empty map.
    ///
    /// [HGETALL](https://redis.io/docs/latest/commands/hgetall/)
    #[inline]
    fn hgetall_as<T: FromReply>(self, key: impl ToArg) -> Self::Reply<T> {
        self.execute(cmd("HGETALL").key(key))
    }

    /// Deletes fields. The reply has the value of each, in their order; nil for those that did not exist.
    ///
    /// Since Redis 8.0 and Valkey 9.1.
    ///
    /// [HGETDEL](https://redis.io/docs/latest/commands/hgetdel/)
    fn hgetdel<T: FromReply>(self, key: impl ToArg, fields: impl ToArgs) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("HGETDEL").key(key).arg("FIELDS").counted_args(fields))
    }

    /// The values of fields, whose expiry is changed: pass a `Duration`, a `SystemTime`, or [`GetExpiry::Persist`]. The
    /// reply has the value of each, in their order; nil for those that do not exist.
    ///
    /// Since Redis 8.0 and Valkey 9.0.
    ///
    /// [HGETEX](https://redis.io/docs/latest/commands/hgetex/)
    fn hgetex<T: FromReply>(
        self,
        key: impl ToArg,
        expiry: impl Into<GetExpiry>,
        fields: impl ToArgs,
    ) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("HGETEX").key(key).options(expiry.into()).arg("FIELDS").counted_args(fields))
    }

    /// Adds `increment` to a field; a missing field counts from 0. The reply is the new value.
    ///
    /// [HINCRBY](https://redis.io/docs/latest/commands/hincrby/)
    #[inline]
    fn hincrby(self, key: impl ToArg, field: impl ToArg, increment: i64) -> Self::Reply<i64> {
        self.execute(cmd("HINCRBY").key(key).arg(field).arg(increment))
    }

    /// Adds `increment` to a number kept as text in a field; a missing field counts from 0. The reply is the new value.
    ///
    /// [HINCRBYFLOAT](https://redis.io/docs/latest/commands/hincrbyfloat/)
    #[inline]
    fn hincrbyfloat(self, key: impl ToArg, field: impl ToArg, increment: f64) -> Self::Reply<f64> {
        self.execute(cmd("HINCRBYFLOAT").key(key).arg(field).arg(increment))
    }

    /// All fields, in no order; nothing if there is no such key.
    ///
    /// [HKEYS](https://redis.io/docs/latest/commands/hkeys/)
    #[inline]
    fn hkeys<T: FromReply>(self, key: impl ToArg) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("HKEYS").key(key))
    }

    /// How many fields there are; 0 if there is no such key.
    ///
    /// [HLEN](https://redis.io/docs/latest/commands/hlen/)
    #[inline]
    fn hlen(self, key: impl ToArg) -> Self::Reply<i64> {
        self.execute(cmd("HLEN").key(key))
    }

    /// The values of fields, in their order; nil for each that does not exist.
    ///
    /// [HMGET](https://redis.io/docs/latest/commands/hmget/)
    #[inline]
    fn hmget<T: FromReply>(self, key: impl ToArg, fields: impl ToArgs) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("HMGET").key(key).args(fields))
    }

    /// Sets fields to values.
    ///
    /// Deprecated since 4.0: use [`hset`](Self::hset), which takes any number of pairs too.
    ///
    /// [HMSET](https://redis.io/docs/latest/commands/hmset/)
    fn hmset(self, key: impl ToArg, pairs: impl ToPairs) -> Self::Reply<()> {
        self.execute(cmd("HMSET").key(key).args(pairs))
    }

    /// Makes fields no longer expire. The reply has one element for each field.
    ///
    /// Since Redis 7.4 and Valkey 9.0.
    ///
    /// [HPERSIST](https://redis.io/docs/latest/commands/hpersist/)
    fn hpersist(self, key: impl ToArg, fields: impl ToArgs) -> Self::MultiBulk<FieldPersist> {
        self.execute_multi(cmd("HPERSIST").key(key).arg("FIELDS").counted_args(fields))
    }

    /// Makes fields expire after `time`, in milliseconds, rounded up; zero deletes them. The reply has one element for
    /// each field.
    ///
    /// Since Redis 7.4 and Valkey 9.0.
    ///
    /// [HPEXPIRE](https://redis.io/docs/latest/commands/hpexpire/)
    fn hpexpire(self, key: impl ToArg, time: Duration, fields: impl ToArgs) -> Self::MultiBulk<FieldExpiry> {
        self.execute_multi(cmd("HPEXPIRE").key(key).arg(millis(time)).arg("FIELDS").counted_args(fields))
    }

    /// Like [`hpexpire`](Self::hpexpire), under a condition.
    ///
    /// [HPEXPIRE](https://redis.io/docs/latest/commands/hpexpire/)
    fn hpexpire_with(
        self,
        key: impl ToArg,
        time: Duration,
        fields: impl ToArgs,
        condition: ExpireCondition,
    ) -> Self::MultiBulk<FieldExpiry> {
        self.execute_multi(cmd("HPEXPIRE").key(key).arg(millis(time)).arg(condition).arg("FIELDS").counted_args(fields))
    }

    /// Makes fields expire at `time`, in milliseconds, rounded up; a time that has passed deletes them. The reply has
    /// one element for each field.
    ///
    /// Since Redis 7.4 and Valkey 9.0.
    ///
    /// [HPEXPIREAT](https://redis.io/docs/latest/commands/hpexpireat/)
    fn hpexpireat(self, key: impl ToArg, time: SystemTime, fields: impl ToArgs) -> Self::MultiBulk<FieldExpiry> {
        self.execute_multi(cmd("HPEXPIREAT").key(key).arg(unix_millis(time)).arg("FIELDS").counted_args(fields))
    }

    /// Like [`hpexpireat`](Self::hpexpireat), under a condition.
    ///
    /// [HPEXPIREAT](https://redis.io/docs/latest/commands/hpexpireat/)
    fn hpexpireat_with(
        self,
        key: impl ToArg,
        time: SystemTime,
        fields: impl ToArgs,
        condition: ExpireCondition,
    ) -> Self::MultiBulk<FieldExpiry> {
        let command = cmd("HPEXPIREAT").key(key).arg(unix_millis(time)).arg(condition);
        self.execute_multi(command.arg("FIELDS").counted_args(fields))
    }

    /// When fields expire, in milliseconds. The reply has one element for each field.
    ///
    /// Since Redis 7.4 and Valkey 9.0.
    ///
    /// [HPEXPIRETIME](https://redis.io/docs/latest/commands/hpexpiretime/)
    fn hpexpiretime(self, key: impl ToArg, fields: impl ToArgs) -> Self::MultiBulk<PexpireTime> {
        self.execute_multi(cmd("HPEXPIRETIME").key(key).arg("FIELDS").counted_args(fields))
    }

    /// How long fields have to live, in milliseconds. The reply has one element for each field.
    ///
    /// Since Redis 7.4 and Valkey 9.0.
    ///
    /// [HPTTL](https://redis.io/docs/latest/commands/hpttl/)
    fn hpttl(self, key: impl ToArg, fields: impl ToArgs) -> Self::MultiBulk<Pttl> {
        self.execute_multi(cmd("HPTTL").key(key).arg("FIELDS").counted_args(fields))
    }

    /// One field at random; nil if there is no such key.
    ///
    /// Since 6.2.
    ///
    /// [HRANDFIELD](https://redis.io/docs/latest/commands/hrandfield/)
    fn hrandfield<T: FromReply>(self, key: impl ToArg) -> Self::Reply<T> {
        self.execute(cmd("HRANDFIELD").key(key))
    }

    /// `count` different fields at random, or all there are; with a negative count exactly so many, which may repeat.
    /// Nothing if there is no such key.
    ///
    /// Since 6.2.
    ///
    /// [HRANDFIELD](https://redis.io/docs/latest/commands/hrandfield/)
    fn hrandfield_count<T: FromReply>(self, key: impl ToArg, count: i64) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("HRANDFIELD").key(key).arg(count))
    }

    /// Like [`hrandfield_count`](Self::hrandfield_count), with the values of the fields.
    ///
    /// [HRANDFIELD](https://redis.io/docs/latest/commands/hrandfield/)
    fn hrandfield_withvalues<K: FromReply, V: FromReply>(self, key: impl ToArg, count: i64) -> Self::MultiBulk<(K, V)> {
        self.execute_multi(cmd("HRANDFIELD").key(key).arg(count).arg("WITHVALUES"))
    }

    /// Sets fields to values: one pair, or any list of pairs. The reply is how many fields are new.
    ///
    /// Several pairs since 4.0.
    ///
    /// [HSET](https://redis.io/docs/latest/commands/hset/)
    #[doc(alias = "hset_multiple")]
    #[inline(always)]
    fn hset(self, key: impl ToArg, pairs: impl ToPairs) -> Self::Reply<i64> {
        self.execute(cmd("HSET").key(key).args(pairs))
    }

    /// Sets fields to values that expire together: pass a `Duration`, a `SystemTime`, or [`SetExpiry::KeepTtl`]. The
    /// reply is true: only a condition of [`hsetex_with`](Self::hsetex_with) makes it false.
    ///
    /// Since Redis 8.0 and Valkey 9.0.
    ///
    /// [HSETEX](https://redis.io/docs/latest/commands/hsetex/)
    fn hsetex(self, key: impl ToArg, expiry: impl Into<SetExpiry>, pairs: impl ToPairs) -> Self::Reply<bool> {
        self.hsetex_with(key, pairs, HsetexOptions::new().expiry(expiry))
    }

    /// Like [`hsetex`](Self::hsetex), with options. The reply is whether the fields were set: all of them or none.
    ///
    /// [HSETEX](https://redis.io/docs/latest/commands/hsetex/)
    fn hsetex_with(self, key: impl ToArg, pairs: impl ToPairs, options: HsetexOptions) -> Self::Reply<bool> {
        let pairs = Pairs::new(pairs);
        self.execute(cmd("HSETEX").key(key).options(options).arg("FIELDS").arg(pairs.len()).args(pairs))
    }

    /// Sets a field if there is none. The reply is whether it was set.
    ///
    /// [HSETNX](https://redis.io/docs/latest/commands/hsetnx/)
    fn hsetnx(self, key: impl ToArg, field: impl ToArg, value: impl ToArg) -> Self::Reply<bool> {
        self.execute(cmd("HSETNX").key(key).arg(field).arg(value))
    }

    /// The length of a field's value in bytes; 0 if there is no such field.
    ///
    /// Since 3.2.
    ///
    /// [HSTRLEN](https://redis.io/docs/latest/commands/hstrlen/)
    fn hstrlen(self, key: impl ToArg, field: impl ToArg) -> Self::Reply<i64> {
        self.execute(cmd("HSTRLEN").key(key).arg(field))
    }

    /// How long fields have to live, in seconds. The reply has one element for each field.
    ///
    /// Since Redis 7.4 and Valkey 9.0. [`hpttl`](Self::hpttl) gives milliseconds.
    ///
    /// [HTTL](https://redis.io/docs/latest/commands/httl/)
    fn httl(self, key: impl ToArg, fields: impl ToArgs) -> Self::MultiBulk<Ttl> {
        self.execute_multi(cmd("HTTL").key(key).arg("FIELDS").counted_args(fields))
    }

    /// All values, in no order; nothing if there is no such key.
    ///
    /// [HVALS](https://redis.io/docs/latest/commands/hvals/)
    #[inline]
    fn hvals<T: FromReply>(self, key: impl ToArg) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("HVALS").key(key))
    }
}

#[cfg(test)]
mod tests {
    use super::super::recorder::{Recorder, sent};
    use super::*;
    use crate::args::each;

    impl HashCommands for &Recorder {}

    const LONG: Duration = Duration::from_millis(1500);

    fn at(millis: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(millis)
    }

    #[test]
    fn the_key_comes_first() {
        for (words, want) in [
            (sent(|on| on.hdel("h", ["a", "b"])), "HDEL [h] a b"),
            (sent(|on| on.hexists("h", "a")), "HEXISTS [h] a"),
            (sent(|on| on.hget::<String>("h", "a")), "HGET [h] a"),
            (sent(|on| on.hgetall::<String, String>("h")), "HGETALL [h]"),
            (sent(|on| on.hincrby("h", "a", 2)), "HINCRBY [h] a 2"),
            (sent(|on| on.hincrbyfloat("h", "a", 0.5)), "HINCRBYFLOAT [h] a 0.5"),
            (sent(|on| on.hkeys::<String>("h")), "HKEYS [h]"),
            (sent(|on| on.hlen("h")), "HLEN [h]"),
            (sent(|on| on.hmget::<String>("h", ["a", "b"])), "HMGET [h] a b"),
            (sent(|on| on.hsetnx("h", "a", 1)), "HSETNX [h] a 1"),
            (sent(|on| on.hstrlen("h", "a")), "HSTRLEN [h] a"),
            (sent(|on| on.hvals::<String>("h")), "HVALS [h]"),
        ] {
            assert_eq!(words, want);
        }
    }

    #[test]
    fn fields_are_counted() {
        let lt = ExpireCondition::Lt;
        for (words, want) in [
            (sent(|on| on.hexpire("h", LONG, ["a", "b"])), "HEXPIRE [h] 2 FIELDS 2 a b"),
            (sent(|on| on.hexpire_with("h", LONG, "a", lt)), "HEXPIRE [h] 2 LT FIELDS 1 a"),
            (sent(|on| on.hexpireat("h", at(1501), "a")), "HEXPIREAT [h] 2 FIELDS 1 a"),
            (sent(|on| on.hexpireat_with("h", at(1501), "a", lt)), "HEXPIREAT [h] 2 LT FIELDS 1 a"),
            (sent(|on| on.hpexpire("h", LONG, each(["a", "b"]))), "HPEXPIRE [h] 1500 FIELDS 2 a b"),
            (sent(|on| on.hpexpire_with("h", LONG, "a", lt)), "HPEXPIRE [h] 1500 LT FIELDS 1 a"),
            (sent(|on| on.hpexpireat("h", at(1501), "a")), "HPEXPIREAT [h] 1501 FIELDS 1 a"),
            (sent(|on| on.hpexpireat_with("h", at(1501), "a", lt)), "HPEXPIREAT [h] 1501 LT FIELDS 1 a"),
            (sent(|on| on.hexpiretime("h", "a")), "HEXPIRETIME [h] FIELDS 1 a"),
            (sent(|on| on.hpexpiretime("h", "a")), "HPEXPIRETIME [h] FIELDS 1 a"),
            (sent(|on| on.httl("h", "a")), "HTTL [h] FIELDS 1 a"),
            (sent(|on| on.hpttl("h", "a")), "HPTTL [h] FIELDS 1 a"),
            (sent(|on| on.hpersist("h", "a")), "HPERSIST [h] FIELDS 1 a"),
            (sent(|on| on.hgetdel::<String>("h", "a")), "HGETDEL [h] FIELDS 1 a"),
            (sent(|on| on.hgetex::<String>("h", LONG, ["a", "b"])), "HGETEX [h] PX 1500 FIELDS 2 a b"),
            (sent(|on| on.hgetex::<String>("h", GetExpiry::Persist, "a")), "HGETEX [h] PERSIST FIELDS 1 a"),
            (sent(|on| on.httl("h", Vec::<String>::new())), "refused"),
        ] {
            assert_eq!(words, want);
        }
    }

    #[test]
    fn pairs_are_counted_where_the_server_wants_it() {
        let none = HsetexOptions::new();
        for (words, want) in [
            (sent(|on| on.hset("h", ("a", 1))), "HSET [h] a 1"),
            (sent(|on| on.hset("h", [("a", 1), ("b", 2)])), "HSET [h] a 1 b 2"),
            (sent(|on| on.hmset("h", each([("a", 1), ("b", 2)]))), "HMSET [h] a 1 b 2"),
            (sent(|on| on.hset("h", Vec::<(String, String)>::new())), "refused"),
            (sent(|on| on.hsetex("h", LONG, ("a", 1))), "HSETEX [h] PX 1500 FIELDS 1 a 1"),
            (sent(|on| on.hsetex_with("h", [("a", 1), ("b", 2)], none)), "HSETEX [h] FIELDS 2 a 1 b 2"),
            (sent(|on| on.hsetex_with("h", each([("a", 1)]), none.nx().fxx())), "HSETEX [h] NX FXX FIELDS 1 a 1"),
            (
                sent(|on| on.hsetex_with("h", ("a", 1), none.xx().fnx().expiry(SetExpiry::KeepTtl))),
                "HSETEX [h] XX FNX KEEPTTL FIELDS 1 a 1",
            ),
            (sent(|on| on.hsetex("h", LONG, each(Vec::<(String, String)>::new()))), "refused"),
            (sent(|on| on.hrandfield_withvalues::<String, i64>("h", -3)), "HRANDFIELD [h] -3 WITHVALUES"),
        ] {
            assert_eq!(words, want);
        }
    }
}
