//! Commands on strings.

mod options;

use std::time::Duration;

use super::Execute;
use super::parts::{Pairs, millis, seconds};
use crate::args::{ToArg, ToArgs, ToPairs, cmd};
use crate::values::FromReply;

pub use options::{GetExpiry, LcsMatch, LcsMatches, LcsOptions, MsetexOptions, SetExpiry, SetOptions, ValueCondition};

/// Commands on strings: values of any bytes up to 512 MB, and counters.
///
/// A command on a key that holds something else is answered with the error `WRONGTYPE`.
pub trait StringCommands: Execute {
    /// Appends `value` to the value of a key, which is made if there is none. The reply is the new length in bytes.
    ///
    /// [APPEND](https://redis.io/docs/latest/commands/append/)
    #[inline]
    fn append(self, key: impl ToArg, value: impl ToArg) -> Self::Reply<i64> {
        self.execute(cmd("APPEND").key(key).arg(value))
    }

    /// Takes one from a counter; a missing key counts from 0. The reply is the new value.
    ///
    /// [DECR](https://redis.io/docs/latest/commands/decr/)
    #[inline(always)]
    fn decr(self, key: impl ToArg) -> Self::Reply<i64> {
        self.execute(cmd("DECR").key(key))
    }

    /// Takes `decrement` from a counter; a missing key counts from 0. The reply is the new value.
    ///
    /// [DECRBY](https://redis.io/docs/latest/commands/decrby/)
    #[inline]
    fn decrby(self, key: impl ToArg, decrement: i64) -> Self::Reply<i64> {
        self.execute(cmd("DECRBY").key(key).arg(decrement))
    }

    /// Deletes a key. The reply is whether it existed.
    ///
    /// Only Redis 8.4 and later; use [`del`](super::KeyCommands::del) without a condition.
    ///
    /// [DELEX](https://redis.io/docs/latest/commands/delex/)
    fn delex(self, key: impl ToArg) -> Self::Reply<bool> {
        self.execute(cmd("DELEX").key(key))
    }

    /// Deletes a key if its value is such. The reply is whether it was deleted.
    ///
    /// Only Redis 8.4 and later; Valkey has [`delifeq`](Self::delifeq).
    ///
    /// [DELEX](https://redis.io/docs/latest/commands/delex/)
    fn delex_with(self, key: impl ToArg, condition: ValueCondition) -> Self::Reply<bool> {
        self.execute(cmd("DELEX").key(key).options(condition))
    }

    /// Deletes a key if its value equals `value`. The reply is whether it was deleted.
    ///
    /// Only Valkey 9.0 and later; Redis has [`delex_with`](Self::delex_with).
    ///
    /// [DELIFEQ](https://valkey.io/commands/delifeq/)
    fn delifeq(self, key: impl ToArg, value: impl ToArg) -> Self::Reply<bool> {
        self.execute(cmd("DELIFEQ").key(key).arg(value))
    }

    /// The digest of a value, 16 hexadecimal digits; `None` if there is no such key.
    ///
    /// Only Redis 8.4 and later. See [`ValueCondition::digest_equals`].
    ///
    /// [DIGEST](https://redis.io/docs/latest/commands/digest/)
    fn digest(self, key: impl ToArg) -> Self::Reply<Option<String>> {
        self.execute(cmd("DIGEST").key(key))
    }

    /// The value of a key; nil if there is no such key.
    ///
    /// [GET](https://redis.io/docs/latest/commands/get/)
    #[inline(always)]
    fn get<T: FromReply>(self, key: impl ToArg) -> Self::Reply<T> {
        self.execute(cmd("GET").key(key))
    }

    /// Deletes a key. The reply is the value it had; nil if there was no such key.
    ///
    /// Since 6.2.
    ///
    /// [GETDEL](https://redis.io/docs/latest/commands/getdel/)
    #[inline]
    fn getdel<T: FromReply>(self, key: impl ToArg) -> Self::Reply<T> {
        self.execute(cmd("GETDEL").key(key))
    }

    /// The value of a key, whose expiry is changed: pass a `Duration`, a `SystemTime`, or [`GetExpiry::Persist`]. The
    /// reply is nil if there is no such key.
    ///
    /// Since 6.2.
    ///
    /// [GETEX](https://redis.io/docs/latest/commands/getex/)
    #[inline]
    fn getex<T: FromReply>(self, key: impl ToArg, expiry: impl Into<GetExpiry>) -> Self::Reply<T> {
        self.execute(cmd("GETEX").key(key).options(expiry.into()))
    }

    /// The bytes of a value from `start` to `end`, both included; negative ones count from the end. A missing key
    /// is an empty string.
    ///
    /// [GETRANGE](https://redis.io/docs/latest/commands/getrange/)
    #[inline]
    fn getrange<T: FromReply>(self, key: impl ToArg, start: i64, end: i64) -> Self::Reply<T> {
        self.execute(cmd("GETRANGE").key(key).arg(start).arg(end))
    }

    /// Sets a key. The reply is the value it had; nil if there was no such key.
    ///
    /// Deprecated since 6.2: use [`set_get`](Self::set_get).
    ///
    /// [GETSET](https://redis.io/docs/latest/commands/getset/)
    #[inline]
    fn getset<T: FromReply>(self, key: impl ToArg, value: impl ToArg) -> Self::Reply<T> {
        self.execute(cmd("GETSET").key(key).arg(value))
    }

    /// Adds one to a counter; a missing key counts from 0. The reply is the new value.
    ///
    /// [INCR](https://redis.io/docs/latest/commands/incr/)
    #[inline(always)]
    fn incr(self, key: impl ToArg) -> Self::Reply<i64> {
        self.execute(cmd("INCR").key(key))
    }

    /// Adds `increment` to a counter; a missing key counts from 0. The reply is the new value.
    ///
    /// [INCRBY](https://redis.io/docs/latest/commands/incrby/)
    #[inline]
    fn incrby(self, key: impl ToArg, increment: i64) -> Self::Reply<i64> {
        self.execute(cmd("INCRBY").key(key).arg(increment))
    }

    /// Adds `increment` to a number kept as text; a missing key counts from 0. The reply is the new value.
    ///
    /// [INCRBYFLOAT](https://redis.io/docs/latest/commands/incrbyfloat/)
    #[inline]
    fn incrbyfloat(self, key: impl ToArg, increment: f64) -> Self::Reply<f64> {
        self.execute(cmd("INCRBYFLOAT").key(key).arg(increment))
    }

    /// A longest common subsequence of two values. A missing key is an empty string.
    ///
    /// Since 7.0.
    ///
    /// [LCS](https://redis.io/docs/latest/commands/lcs/)
    fn lcs<T: FromReply>(self, key1: impl ToArg, key2: impl ToArg) -> Self::Reply<T> {
        self.execute(cmd("LCS").key(key1).key(key2))
    }

    /// The length in bytes of a longest common subsequence of two values.
    ///
    /// Since 7.0.
    ///
    /// [LCS](https://redis.io/docs/latest/commands/lcs/)
    fn lcs_len(self, key1: impl ToArg, key2: impl ToArg) -> Self::Reply<i64> {
        self.execute(cmd("LCS").key(key1).key(key2).arg("LEN"))
    }

    /// Where a longest common subsequence of two values is found in them.
    ///
    /// Since 7.0.
    ///
    /// [LCS](https://redis.io/docs/latest/commands/lcs/)
    fn lcs_idx(self, key1: impl ToArg, key2: impl ToArg) -> Self::Reply<LcsMatches> {
        self.execute(cmd("LCS").key(key1).key(key2).arg("IDX"))
    }

    /// Like [`lcs_idx`](Self::lcs_idx), with options.
    ///
    /// [LCS](https://redis.io/docs/latest/commands/lcs/)
    fn lcs_idx_with(self, key1: impl ToArg, key2: impl ToArg, options: LcsOptions) -> Self::Reply<LcsMatches> {
        self.execute(cmd("LCS").key(key1).key(key2).arg("IDX").options(options))
    }

    /// The values of keys, in their order; nil for each key that is missing or holds no string.
    ///
    /// [MGET](https://redis.io/docs/latest/commands/mget/)
    #[inline]
    fn mget<T: FromReply>(self, keys: impl ToArgs) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("MGET").keys(keys))
    }

    /// Sets keys to values, all at once.
    ///
    /// [MSET](https://redis.io/docs/latest/commands/mset/)
    #[inline]
    fn mset(self, pairs: impl ToPairs) -> Self::Reply<()> {
        self.execute(cmd("MSET").key_values(pairs))
    }

    /// Sets keys to values, all at once, which expire together: pass a `Duration`, a `SystemTime`, or
    /// [`SetExpiry::KeepTtl`]. The reply is true.
    ///
    /// Only Valkey 9.1 and Redis 8.4 and later.
    ///
    /// [MSETEX](https://redis.io/docs/latest/commands/msetex/)
    fn msetex(self, pairs: impl ToPairs, expiry: impl Into<SetExpiry>) -> Self::Reply<bool> {
        self.msetex_with(pairs, MsetexOptions::new().expiry(expiry))
    }

    /// Like [`msetex`](Self::msetex), with options. The reply is whether the keys were set: all of them or none.
    ///
    /// [MSETEX](https://redis.io/docs/latest/commands/msetex/)
    fn msetex_with(self, pairs: impl ToPairs, options: MsetexOptions) -> Self::Reply<bool> {
        let pairs = Pairs::new(pairs);
        self.execute(cmd("MSETEX").arg(pairs.len()).key_values(pairs).options(options))
    }

    /// Sets keys to values if none of the keys exists. The reply is whether they were set: all of them or none.
    ///
    /// [MSETNX](https://redis.io/docs/latest/commands/msetnx/)
    fn msetnx(self, pairs: impl ToPairs) -> Self::Reply<bool> {
        self.execute(cmd("MSETNX").key_values(pairs))
    }

    /// Sets a key that expires after `time`, in milliseconds, rounded up. Zero is refused by the server.
    ///
    /// Deprecated since 2.6.12: use [`set_with`](Self::set_with).
    ///
    /// [PSETEX](https://redis.io/docs/latest/commands/psetex/)
    fn psetex(self, key: impl ToArg, time: Duration, value: impl ToArg) -> Self::Reply<()> {
        self.execute(cmd("PSETEX").key(key).arg(millis(time)).arg(value))
    }

    /// Sets a key, whatever it held, and takes its expiry away.
    ///
    /// [SET](https://redis.io/docs/latest/commands/set/)
    #[inline(always)]
    fn set(self, key: impl ToArg, value: impl ToArg) -> Self::Reply<()> {
        self.execute(cmd("SET").key(key).arg(value))
    }

    /// Like [`set`](Self::set), with an expiry or under a condition. The reply is `Some(())` if the key was set, and
    /// `None` if the condition did not hold.
    ///
    /// ```no_run
    /// # use redefer::{prelude::*, commands::SetOptions};
    /// # use std::time::Duration;
    /// # fn main() -> redefer::Result<()> {
    /// # let conn = Connection::open("redis://127.0.0.1:6379")?;
    /// let lock = SetOptions::new().nx().expiry(Duration::from_secs(10));
    /// let taken = conn.set_with("lock", "me", lock).wait()?.is_some();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [SET](https://redis.io/docs/latest/commands/set/)
    #[doc(alias = "set_options")]
    #[inline]
    fn set_with(self, key: impl ToArg, value: impl ToArg, options: SetOptions) -> Self::Reply<Option<()>> {
        self.execute(cmd("SET").key(key).arg(value).options(options))
    }

    /// Sets a key. The reply is the value it had; nil if there was no such key.
    ///
    /// GET since 6.2.
    ///
    /// [SET](https://redis.io/docs/latest/commands/set/)
    #[inline]
    fn set_get<T: FromReply>(self, key: impl ToArg, value: impl ToArg) -> Self::Reply<T> {
        self.execute(cmd("SET").key(key).arg(value).arg("GET"))
    }

    /// Like [`set_get`](Self::set_get), with an expiry or under a condition. The reply is the value the key had before,
    /// whether it was set or not; nil if there was no such key.
    ///
    /// Under [`SetOptions::nx`] nil so means that the key was set, and under [`SetOptions::xx`] that it was not.
    ///
    /// [SET](https://redis.io/docs/latest/commands/set/)
    fn set_get_with<T: FromReply>(self, key: impl ToArg, value: impl ToArg, options: SetOptions) -> Self::Reply<T> {
        self.execute(cmd("SET").key(key).arg(value).options(options).arg("GET"))
    }

    /// Sets a key that expires after `time`, in seconds, rounded up. Zero is refused by the server.
    ///
    /// Deprecated since 2.6.12: use [`set_with`](Self::set_with), which takes milliseconds.
    ///
    /// [SETEX](https://redis.io/docs/latest/commands/setex/)
    fn setex(self, key: impl ToArg, time: Duration, value: impl ToArg) -> Self::Reply<()> {
        self.execute(cmd("SETEX").key(key).arg(seconds(time)).arg(value))
    }

    /// Sets a key if there is none. The reply is whether it was set.
    ///
    /// Deprecated since 2.6.12: use [`set_with`](Self::set_with) and [`SetOptions::nx`].
    ///
    /// [SETNX](https://redis.io/docs/latest/commands/setnx/)
    fn setnx(self, key: impl ToArg, value: impl ToArg) -> Self::Reply<bool> {
        self.execute(cmd("SETNX").key(key).arg(value))
    }

    /// Overwrites a part of a value, beginning at byte `offset`; a shorter value is filled up with zero bytes. The reply
    /// is the new length in bytes.
    ///
    /// [SETRANGE](https://redis.io/docs/latest/commands/setrange/)
    fn setrange(self, key: impl ToArg, offset: u64, value: impl ToArg) -> Self::Reply<i64> {
        self.execute(cmd("SETRANGE").key(key).arg(offset).arg(value))
    }

    /// The length of a value in bytes; 0 if there is no such key.
    ///
    /// [STRLEN](https://redis.io/docs/latest/commands/strlen/)
    #[inline]
    fn strlen(self, key: impl ToArg) -> Self::Reply<i64> {
        self.execute(cmd("STRLEN").key(key))
    }

    /// The bytes of a value from `start` to `end`, both included.
    ///
    /// Deprecated since 2.0: use [`getrange`](Self::getrange).
    ///
    /// [SUBSTR](https://redis.io/docs/latest/commands/substr/)
    fn substr<T: FromReply>(self, key: impl ToArg, start: i64, end: i64) -> Self::Reply<T> {
        self.execute(cmd("SUBSTR").key(key).arg(start).arg(end))
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::super::recorder::{Recorder, sent};
    use super::*;
    use crate::args::each;

    impl StringCommands for &Recorder {}

    const LONG: Duration = Duration::from_millis(1500);

    fn at(millis: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(millis)
    }

    fn set_with(options: SetOptions) -> String {
        sent(|on| on.set_with("k", "v", options))
    }

    #[test]
    fn the_key_comes_first() {
        for (words, want) in [
            (sent(|on| on.append("k", "v")), "APPEND [k] v"),
            (sent(|on| on.decr("k")), "DECR [k]"),
            (sent(|on| on.decrby("k", 2)), "DECRBY [k] 2"),
            (sent(|on| on.delex("k")), "DELEX [k]"),
            (sent(|on| on.delifeq("k", "v")), "DELIFEQ [k] v"),
            (sent(|on| on.digest("k")), "DIGEST [k]"),
            (sent(|on| on.get::<String>("k")), "GET [k]"),
            (sent(|on| on.getdel::<String>("k")), "GETDEL [k]"),
            (sent(|on| on.getrange::<String>("k", 0, -1)), "GETRANGE [k] 0 -1"),
            (sent(|on| on.getset::<String>("k", "v")), "GETSET [k] v"),
            (sent(|on| on.incr("k")), "INCR [k]"),
            (sent(|on| on.incrby("k", 2)), "INCRBY [k] 2"),
            (sent(|on| on.incrbyfloat("k", 0.5)), "INCRBYFLOAT [k] 0.5"),
            (sent(|on| on.set("k", "v")), "SET [k] v"),
            (sent(|on| on.setnx("k", "v")), "SETNX [k] v"),
            (sent(|on| on.setrange("k", 1, "v")), "SETRANGE [k] 1 v"),
            (sent(|on| on.strlen("k")), "STRLEN [k]"),
            (sent(|on| on.substr::<String>("k", 0, -1)), "SUBSTR [k] 0 -1"),
        ] {
            assert_eq!(words, want);
        }
    }

    #[test]
    fn options_are_sent_as_the_server_reads_them() {
        let set = SetOptions::new();
        assert_eq!(set_with(set.clone()), "SET [k] v");
        assert_eq!(set_with(set.clone().nx().expiry(LONG)), "SET [k] v NX PX 1500");
        assert_eq!(set_with(set.clone().nx().xx().expiry(at(1501))), "SET [k] v XX PXAT 1501", "the last one counts");
        assert_eq!(set_with(set.clone().expiry(LONG).expiry(SetExpiry::KeepTtl)), "SET [k] v KEEPTTL");
        for (condition, words) in [
            (ValueCondition::equals("w"), "IFEQ w"),
            (ValueCondition::differs(1), "IFNE 1"),
            (ValueCondition::digest_equals("00ff"), "IFDEQ 00ff"),
            (ValueCondition::digest_differs("00ff"), "IFDNE 00ff"),
        ] {
            assert_eq!(set_with(set.clone().if_value(condition.clone())), format!("SET [k] v {words}"));
            assert_eq!(sent(|on| on.delex_with("k", condition)), format!("DELEX [k] {words}"));
        }
        assert_eq!(sent(|on| on.set_get::<String>("k", "v")), "SET [k] v GET");
        assert_eq!(sent(|on| on.set_get_with::<String>("k", "v", set.nx())), "SET [k] v NX GET");

        assert_eq!(sent(|on| on.getex::<String>("k", LONG)), "GETEX [k] PX 1500");
        assert_eq!(sent(|on| on.getex::<String>("k", at(1))), "GETEX [k] PXAT 1");
        assert_eq!(sent(|on| on.getex::<String>("k", GetExpiry::Persist)), "GETEX [k] PERSIST");

        let options = LcsOptions::new().min_match_len(4).with_match_len();
        assert_eq!(sent(|on| on.lcs_idx_with("a", "b", options)), "LCS [a] [b] IDX MINMATCHLEN 4 WITHMATCHLEN");
        assert_eq!(sent(|on| on.lcs_len("a", "b")), "LCS [a] [b] LEN");
    }

    #[test]
    fn times_are_sent_in_the_unit_of_the_command() {
        assert_eq!(sent(|on| on.setex("k", LONG, "v")), "SETEX [k] 2 v");
        assert_eq!(sent(|on| on.psetex("k", LONG, "v")), "PSETEX [k] 1500 v");
        assert_eq!(set_with(SetOptions::new().expiry(Duration::from_nanos(1))), "SET [k] v PX 1");
        assert_eq!(set_with(SetOptions::new().expiry(Duration::MAX)), format!("SET [k] v PX {}", i64::MAX));
    }

    #[test]
    fn pairs_are_counted_and_their_keys_marked() {
        assert_eq!(sent(|on| on.mset([("a", 1), ("b", 2)])), "MSET [a] 1 [b] 2");
        assert_eq!(sent(|on| on.msetnx(("a", 1))), "MSETNX [a] 1");
        assert_eq!(sent(|on| on.mget::<String>(["a", "b"])), "MGET [a] [b]");
        assert_eq!(sent(|on| on.msetex([("a", 1), ("b", 2)], LONG)), "MSETEX 2 [a] 1 [b] 2 PX 1500");
        let options = MsetexOptions::new().xx().expiry(SetExpiry::KeepTtl);
        let pairs = each([("a", 1), ("b", 2), ("c", 3)]);
        assert_eq!(sent(|on| on.msetex_with(pairs, options)), "MSETEX 3 [a] 1 [b] 2 [c] 3 XX KEEPTTL");
        assert_eq!(sent(|on| on.msetex_with(("a", 1), MsetexOptions::new().nx())), "MSETEX 1 [a] 1 NX");
        assert_eq!(sent(|on| on.msetex(Vec::<(String, String)>::new(), LONG)), "refused");
        assert_eq!(sent(|on| on.mset(each(Vec::<(String, String)>::new()))), "refused");
    }
}
