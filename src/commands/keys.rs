//! Commands on keys of any type.

mod options;

use std::time::{Duration, SystemTime};

use super::Execute;
use super::parts::{millis, seconds, timeout_millis, unix_millis, unix_seconds};
use crate::args::{ToArg, ToArgs, cmd};
use crate::values::FromReply;

pub use options::{
    CopyOptions, ExpireCondition, ExpireTime, IdleTime, MigrateOptions, Migrated, PexpireTime, Pttl, RestoreOptions,
    SortOptions, Ttl,
};

/// Commands on keys, whatever they hold.
///
/// The iterators over keys are in [`ScanCommands`](crate::commands::ScanCommands), and the commands that block the
/// connection in [`BlockingKeyCommands`].
pub trait KeyCommands: Execute {
    /// Copies a key. The reply is whether it was copied: not if there is no such key, or if the destination exists.
    ///
    /// Since 6.2.
    ///
    /// [COPY](https://redis.io/docs/latest/commands/copy/)
    fn copy(self, source: impl ToArg, destination: impl ToArg) -> Self::Reply<bool> {
        self.execute(cmd("COPY").key(source).key(destination))
    }

    /// Like [`copy`](Self::copy), to another database or over a key that exists.
    ///
    /// [COPY](https://redis.io/docs/latest/commands/copy/)
    fn copy_with(self, source: impl ToArg, destination: impl ToArg, options: CopyOptions) -> Self::Reply<bool> {
        self.execute(cmd("COPY").key(source).key(destination).options(options))
    }

    /// Deletes keys. The reply is how many of them existed.
    ///
    /// [DEL](https://redis.io/docs/latest/commands/del/)
    #[inline]
    fn del(self, keys: impl ToArgs) -> Self::Reply<i64> {
        self.execute(cmd("DEL").keys(keys))
    }

    /// The value of a key in a form for [`restore`](Self::restore); `None` if there is no such key.
    ///
    /// [DUMP](https://redis.io/docs/latest/commands/dump/)
    fn dump(self, key: impl ToArg) -> Self::Reply<Option<Vec<u8>>> {
        self.execute(cmd("DUMP").key(key))
    }

    /// How many of the keys exist. One that is named twice is counted twice.
    ///
    /// [EXISTS](https://redis.io/docs/latest/commands/exists/)
    #[inline]
    fn exists(self, keys: impl ToArgs) -> Self::Reply<i64> {
        self.execute(cmd("EXISTS").keys(keys))
    }

    /// Makes a key expire after `time`, in seconds, rounded up; zero deletes it. The reply is whether there is such a
    /// key. [`pexpire`](Self::pexpire) takes milliseconds.
    ///
    /// [EXPIRE](https://redis.io/docs/latest/commands/expire/)
    #[inline]
    fn expire(self, key: impl ToArg, time: Duration) -> Self::Reply<bool> {
        self.execute(cmd("EXPIRE").key(key).arg(seconds(time)))
    }

    /// Like [`expire`](Self::expire), under a condition. The reply is whether the expiry was set.
    ///
    /// [EXPIRE](https://redis.io/docs/latest/commands/expire/)
    fn expire_with(self, key: impl ToArg, time: Duration, condition: ExpireCondition) -> Self::Reply<bool> {
        self.execute(cmd("EXPIRE").key(key).arg(seconds(time)).arg(condition))
    }

    /// Makes a key expire at `time`, in seconds, rounded up; a time that has passed deletes it. The reply is whether
    /// there is such a key. [`pexpireat`](Self::pexpireat) takes milliseconds.
    ///
    /// [EXPIREAT](https://redis.io/docs/latest/commands/expireat/)
    fn expireat(self, key: impl ToArg, time: SystemTime) -> Self::Reply<bool> {
        self.execute(cmd("EXPIREAT").key(key).arg(unix_seconds(time)))
    }

    /// Like [`expireat`](Self::expireat), under a condition. The reply is whether the expiry was set.
    ///
    /// [EXPIREAT](https://redis.io/docs/latest/commands/expireat/)
    fn expireat_with(self, key: impl ToArg, time: SystemTime, condition: ExpireCondition) -> Self::Reply<bool> {
        self.execute(cmd("EXPIREAT").key(key).arg(unix_seconds(time)).arg(condition))
    }

    /// When a key expires, in seconds.
    ///
    /// Since 7.0. [`pexpiretime`](Self::pexpiretime) gives milliseconds.
    ///
    /// [EXPIRETIME](https://redis.io/docs/latest/commands/expiretime/)
    fn expiretime(self, key: impl ToArg) -> Self::Reply<ExpireTime> {
        self.execute(cmd("EXPIRETIME").key(key))
    }

    /// All keys that match a pattern: `*`, `?`, `[a-z]`. The server does nothing else meanwhile: with many keys, use
    /// [`scan`](crate::commands::ScanCommands::scan).
    ///
    /// [KEYS](https://redis.io/docs/latest/commands/keys/)
    fn keys<T: FromReply>(self, pattern: impl ToArg) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("KEYS").arg(pattern))
    }

    /// Moves a key to another server, which must be reachable from this one. The server does nothing else meanwhile,
    /// and gives up when the other one lets it wait for longer than `timeout`, in milliseconds, rounded up, at least 1.
    ///
    /// [MIGRATE](https://redis.io/docs/latest/commands/migrate/)
    fn migrate(
        self,
        host: &str,
        port: u16,
        key: impl ToArg,
        database: u32,
        timeout: Duration,
    ) -> Self::Reply<Migrated> {
        let command = cmd("MIGRATE").arg(host).arg(port).key(key).arg(database);
        self.execute(command.arg(timeout_millis(Some(timeout))).blocking(Some(timeout)))
    }

    /// Like [`migrate`](Self::migrate), for one key or more (KEYS, since 3.0.6) and with options.
    ///
    /// [MIGRATE](https://redis.io/docs/latest/commands/migrate/)
    fn migrate_with(
        self,
        host: &str,
        port: u16,
        keys: impl ToArgs,
        database: u32,
        timeout: Duration,
        options: MigrateOptions,
    ) -> Self::Reply<Migrated> {
        let command = cmd("MIGRATE").arg(host).arg(port).arg("").arg(database).arg(timeout_millis(Some(timeout)));
        self.execute(command.options(options).arg("KEYS").keys(keys).blocking(Some(timeout)))
    }

    /// Moves a key to another database. The reply is whether it was moved: not if there is no such key, or if it exists
    /// there.
    ///
    /// [MOVE](https://redis.io/docs/latest/commands/move/)
    fn move_(self, key: impl ToArg, database: u32) -> Self::Reply<bool> {
        self.execute(cmd("MOVE").key(key).arg(database))
    }

    /// How a value is kept in memory, such as `listpack`; `None` if there is no such key.
    ///
    /// [OBJECT ENCODING](https://redis.io/docs/latest/commands/object-encoding/)
    fn object_encoding(self, key: impl ToArg) -> Self::Reply<Option<String>> {
        self.execute(cmd("OBJECT").arg("ENCODING").key(key))
    }

    /// How often a key is used, on a logarithmic scale up to 255; `None` if there is no such key. An error unless the
    /// server's `maxmemory-policy` is one of the LFU ones.
    ///
    /// Since 4.0.
    ///
    /// [OBJECT FREQ](https://redis.io/docs/latest/commands/object-freq/)
    fn object_freq(self, key: impl ToArg) -> Self::Reply<Option<i64>> {
        self.execute(cmd("OBJECT").arg("FREQ").key(key))
    }

    /// The server's help text for OBJECT, line by line.
    ///
    /// Since 6.2.
    ///
    /// [OBJECT HELP](https://redis.io/docs/latest/commands/object-help/)
    fn object_help(self) -> Self::Reply<Vec<String>> {
        self.execute(cmd("OBJECT").arg("HELP"))
    }

    /// For how long a key has not been used, in seconds; `None` if there is no such key. An error if the server's
    /// `maxmemory-policy` is one of the LFU ones.
    ///
    /// [OBJECT IDLETIME](https://redis.io/docs/latest/commands/object-idletime/)
    fn object_idletime(self, key: impl ToArg) -> Self::Reply<Option<IdleTime>> {
        self.execute(cmd("OBJECT").arg("IDLETIME").key(key))
    }

    /// How many references a value has in the server; `None` if there is no such key.
    ///
    /// [OBJECT REFCOUNT](https://redis.io/docs/latest/commands/object-refcount/)
    fn object_refcount(self, key: impl ToArg) -> Self::Reply<Option<i64>> {
        self.execute(cmd("OBJECT").arg("REFCOUNT").key(key))
    }

    /// Makes a key no longer expire. The reply is whether it had an expiry.
    ///
    /// [PERSIST](https://redis.io/docs/latest/commands/persist/)
    fn persist(self, key: impl ToArg) -> Self::Reply<bool> {
        self.execute(cmd("PERSIST").key(key))
    }

    /// Makes a key expire after `time`, in milliseconds, rounded up; zero deletes it. The reply is whether there is such
    /// a key.
    ///
    /// [PEXPIRE](https://redis.io/docs/latest/commands/pexpire/)
    #[inline]
    fn pexpire(self, key: impl ToArg, time: Duration) -> Self::Reply<bool> {
        self.execute(cmd("PEXPIRE").key(key).arg(millis(time)))
    }

    /// Like [`pexpire`](Self::pexpire), under a condition. The reply is whether the expiry was set.
    ///
    /// [PEXPIRE](https://redis.io/docs/latest/commands/pexpire/)
    fn pexpire_with(self, key: impl ToArg, time: Duration, condition: ExpireCondition) -> Self::Reply<bool> {
        self.execute(cmd("PEXPIRE").key(key).arg(millis(time)).arg(condition))
    }

    /// Makes a key expire at `time`, in milliseconds, rounded up; a time that has passed deletes it. The reply is
    /// whether there is such a key.
    ///
    /// [PEXPIREAT](https://redis.io/docs/latest/commands/pexpireat/)
    fn pexpireat(self, key: impl ToArg, time: SystemTime) -> Self::Reply<bool> {
        self.execute(cmd("PEXPIREAT").key(key).arg(unix_millis(time)))
    }

    /// Like [`pexpireat`](Self::pexpireat), under a condition. The reply is whether the expiry was set.
    ///
    /// [PEXPIREAT](https://redis.io/docs/latest/commands/pexpireat/)
    fn pexpireat_with(self, key: impl ToArg, time: SystemTime, condition: ExpireCondition) -> Self::Reply<bool> {
        self.execute(cmd("PEXPIREAT").key(key).arg(unix_millis(time)).arg(condition))
    }

    /// When a key expires, in milliseconds.
    ///
    /// Since 7.0.
    ///
    /// [PEXPIRETIME](https://redis.io/docs/latest/commands/pexpiretime/)
    fn pexpiretime(self, key: impl ToArg) -> Self::Reply<PexpireTime> {
        self.execute(cmd("PEXPIRETIME").key(key))
    }

    /// How long a key has to live, in milliseconds.
    ///
    /// [PTTL](https://redis.io/docs/latest/commands/pttl/)
    fn pttl(self, key: impl ToArg) -> Self::Reply<Pttl> {
        self.execute(cmd("PTTL").key(key))
    }

    /// A key at random; nil if the database is empty.
    ///
    /// [RANDOMKEY](https://redis.io/docs/latest/commands/randomkey/)
    fn randomkey<T: FromReply>(self) -> Self::Reply<T> {
        self.execute(cmd("RANDOMKEY"))
    }

    /// Renames a key, and overwrites what has the new name. A missing key is an error.
    ///
    /// [RENAME](https://redis.io/docs/latest/commands/rename/)
    fn rename(self, key: impl ToArg, new_key: impl ToArg) -> Self::Reply<()> {
        self.execute(cmd("RENAME").key(key).key(new_key))
    }

    /// Renames a key unless the new name is taken. The reply is whether it was renamed. A missing key is an error.
    ///
    /// [RENAMENX](https://redis.io/docs/latest/commands/renamenx/)
    fn renamenx(self, key: impl ToArg, new_key: impl ToArg) -> Self::Reply<bool> {
        self.execute(cmd("RENAMENX").key(key).key(new_key))
    }

    /// Makes a key from what [`dump`](Self::dump) gave. It expires after `time`, in milliseconds, rounded up, and at
    /// least 1; `None` is never. A key that exists is an error (`BUSYKEY`).
    ///
    /// [RESTORE](https://redis.io/docs/latest/commands/restore/)
    fn restore(self, key: impl ToArg, time: impl Into<Option<Duration>>, dump: impl ToArg) -> Self::Reply<()> {
        self.execute(cmd("RESTORE").key(key).arg(timeout_millis(time.into())).arg(dump))
    }

    /// Like [`restore`](Self::restore), with options, the expiry among them.
    ///
    /// [RESTORE](https://redis.io/docs/latest/commands/restore/)
    fn restore_with(self, key: impl ToArg, dump: impl ToArg, options: RestoreOptions) -> Self::Reply<()> {
        self.execute(cmd("RESTORE").key(key).arg(options.ttl()).arg(dump).options(options))
    }

    /// The elements of a list, set or sorted set, sorted as numbers; nothing if there is no such key.
    ///
    /// [SORT](https://redis.io/docs/latest/commands/sort/)
    fn sort<T: FromReply>(self, key: impl ToArg) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("SORT").key(key))
    }

    /// Like [`sort`](Self::sort), with options.
    ///
    /// [SORT](https://redis.io/docs/latest/commands/sort/)
    fn sort_with<T: FromReply>(self, key: impl ToArg, options: SortOptions) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("SORT").key(key).options(options))
    }

    /// Like [`sort_with`](Self::sort_with), into a list at `destination`, which is overwritten. The reply is the length
    /// of that list.
    ///
    /// [SORT](https://redis.io/docs/latest/commands/sort/)
    fn sort_store(self, key: impl ToArg, destination: impl ToArg, options: SortOptions) -> Self::Reply<i64> {
        self.execute(cmd("SORT").key(key).options(options).arg("STORE").key(destination))
    }

    /// Like [`sort`](Self::sort), by a command that replicas take too.
    ///
    /// Since 7.0.
    ///
    /// [SORT_RO](https://redis.io/docs/latest/commands/sort_ro/)
    fn sort_ro<T: FromReply>(self, key: impl ToArg) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("SORT_RO").key(key))
    }

    /// Like [`sort_ro`](Self::sort_ro), with options.
    ///
    /// [SORT_RO](https://redis.io/docs/latest/commands/sort_ro/)
    fn sort_ro_with<T: FromReply>(self, key: impl ToArg, options: SortOptions) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("SORT_RO").key(key).options(options))
    }

    /// Counts keys as used just now. The reply is how many of them exist.
    ///
    /// [TOUCH](https://redis.io/docs/latest/commands/touch/)
    fn touch(self, keys: impl ToArgs) -> Self::Reply<i64> {
        self.execute(cmd("TOUCH").keys(keys))
    }

    /// How long a key has to live, in seconds. [`pttl`](Self::pttl) gives milliseconds.
    ///
    /// [TTL](https://redis.io/docs/latest/commands/ttl/)
    fn ttl(self, key: impl ToArg) -> Self::Reply<Ttl> {
        self.execute(cmd("TTL").key(key))
    }

    /// What a key holds: `string`, `list`, `set`, `zset`, `hash`, `stream`, or the name of a module's type; `none` if
    /// there is no such key.
    ///
    /// [TYPE](https://redis.io/docs/latest/commands/type/)
    #[doc(alias = "key_type")]
    fn type_(self, key: impl ToArg) -> Self::Reply<String> {
        self.execute(cmd("TYPE").key(key))
    }

    /// Deletes keys, and frees their memory later. The reply is how many of them existed.
    ///
    /// Since 4.0.
    ///
    /// [UNLINK](https://redis.io/docs/latest/commands/unlink/)
    #[inline]
    fn unlink(self, keys: impl ToArgs) -> Self::Reply<i64> {
        self.execute(cmd("UNLINK").keys(keys))
    }
}

/// Commands that keep the connection waiting until other servers or a disk have what was written on it.
///
/// Only where the caller owns the connection. In the replies to commands that follow, the server's own waiting is
/// included.
pub trait BlockingKeyCommands: Execute {
    /// Waits until this many replicas have everything that was written on this connection, for at most `timeout`, in
    /// milliseconds, rounded up, at least 1; `None` is for ever. The reply is how many replicas have it, which may be
    /// fewer or more.
    ///
    /// [WAIT](https://redis.io/docs/latest/commands/wait/)
    fn wait(self, replicas: u32, timeout: impl Into<Option<Duration>>) -> Self::Reply<i64> {
        let timeout = timeout.into();
        self.execute(cmd("WAIT").arg(replicas).arg(timeout_millis(timeout)).blocking(timeout))
    }

    /// Waits until everything that was written on this connection is in the append-only files of this server (`local`
    /// is 0 or 1) and of this many replicas, for at most `timeout`, in milliseconds, rounded up, at least 1; `None` is
    /// for ever. The reply is on how many of each it is: this server, and replicas.
    ///
    /// Since 7.2.
    ///
    /// [WAITAOF](https://redis.io/docs/latest/commands/waitaof/)
    fn waitaof(self, local: u32, replicas: u32, timeout: impl Into<Option<Duration>>) -> Self::Reply<(i64, i64)> {
        let timeout = timeout.into();
        self.execute(cmd("WAITAOF").arg(local).arg(replicas).arg(timeout_millis(timeout)).blocking(timeout))
    }
}

#[cfg(test)]
mod tests {
    use super::super::recorder::{Recorder, sent};
    use super::*;
    use crate::args::each;

    impl KeyCommands for &Recorder {}
    impl BlockingKeyCommands for &Recorder {}

    const LONG: Duration = Duration::from_millis(1500);

    fn at(millis: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(millis)
    }

    #[test]
    fn options_are_sent_as_the_server_reads_them() {
        let copy = CopyOptions::new();
        assert_eq!(sent(|on| on.copy_with("a", "b", copy)), "COPY [a] [b]");
        assert_eq!(sent(|on| on.copy_with("a", "b", copy.database(3).replace())), "COPY [a] [b] DB 3 REPLACE");

        let restore = RestoreOptions::new();
        assert_eq!(sent(|on| on.restore_with("k", "x", restore)), "RESTORE [k] 0 x");
        assert_eq!(
            sent(|on| on.restore_with("k", "x", restore.replace().expire_at(at(1501)).idle_time(LONG))),
            "RESTORE [k] 1501 x REPLACE ABSTTL IDLETIME 2"
        );
        assert_eq!(sent(|on| on.restore_with("k", "x", restore.expire_in(LONG).freq(7))), "RESTORE [k] 1500 x FREQ 7");

        let sort = SortOptions::new();
        assert_eq!(sent(|on| on.sort_with::<i64>("k", sort.clone())), "SORT [k]");
        let sort = sort.by("w_*").limit(1, -1).get("#").get("o_*").desc().alpha();
        let words = "[k] BY w_* LIMIT 1 -1 GET # GET o_* DESC ALPHA";
        assert_eq!(sent(|on| on.sort_with::<i64>("k", sort.clone())), format!("SORT {words}"));
        assert_eq!(sent(|on| on.sort_ro_with::<i64>("k", sort.clone())), format!("SORT_RO {words}"));
        assert_eq!(sent(|on| on.sort_store("k", "d", sort)), format!("SORT {words} STORE [d]"));
    }

    #[test]
    fn times_are_sent_in_the_unit_of_the_command() {
        let gt = ExpireCondition::Gt;
        assert_eq!(sent(|on| on.expire("k", LONG)), "EXPIRE [k] 2");
        assert_eq!(sent(|on| on.expire_with("k", LONG, gt)), "EXPIRE [k] 2 GT");
        assert_eq!(sent(|on| on.pexpire("k", LONG)), "PEXPIRE [k] 1500");
        assert_eq!(sent(|on| on.pexpire_with("k", Duration::from_nanos(1), gt)), "PEXPIRE [k] 1 GT");
        assert_eq!(sent(|on| on.pexpire("k", Duration::ZERO)), "PEXPIRE [k] 0");
        assert_eq!(sent(|on| on.expireat("k", at(1501))), "EXPIREAT [k] 2");
        assert_eq!(sent(|on| on.expireat_with("k", at(1501), ExpireCondition::Nx)), "EXPIREAT [k] 2 NX");
        assert_eq!(sent(|on| on.pexpireat("k", at(1501))), "PEXPIREAT [k] 1501");
        assert_eq!(sent(|on| on.pexpireat_with("k", at(1501), ExpireCondition::Lt)), "PEXPIREAT [k] 1501 LT");
        assert_eq!(sent(|on| on.restore("k", None, "x")), "RESTORE [k] 0 x");
        assert_eq!(sent(|on| on.restore("k", LONG, "x")), "RESTORE [k] 1500 x");
        assert_eq!(sent(|on| on.restore("k", Duration::ZERO, "x")), "RESTORE [k] 1 x", "zero would be never");
    }

    #[test]
    fn keys_are_marked_wherever_they_stand() {
        assert_eq!(sent(|on| on.del(["a", "b"])), "DEL [a] [b]");
        assert_eq!(sent(|on| on.exists(each(1..3))), "EXISTS [1] [2]");
        assert_eq!(sent(|on| on.touch("a")), "TOUCH [a]");
        assert_eq!(sent(|on| on.unlink(("a", 1))), "UNLINK [a] [1]");
        assert_eq!(sent(|on| on.del(Vec::<String>::new())), "refused");
        assert_eq!(sent(|on| on.keys::<String>("*")), "KEYS *");
        assert_eq!(sent(|on| on.rename("a", "b")), "RENAME [a] [b]");
        assert_eq!(sent(|on| on.renamenx("a", "b")), "RENAMENX [a] [b]");
        for (words, want) in [
            (sent(|on| on.dump("a")), "DUMP [a]"),
            (sent(|on| on.expiretime("a")), "EXPIRETIME [a]"),
            (sent(|on| on.object_encoding("a")), "OBJECT ENCODING [a]"),
            (sent(|on| on.object_freq("a")), "OBJECT FREQ [a]"),
            (sent(|on| on.object_idletime("a")), "OBJECT IDLETIME [a]"),
            (sent(|on| on.object_refcount("a")), "OBJECT REFCOUNT [a]"),
            (sent(|on| on.persist("a")), "PERSIST [a]"),
            (sent(|on| on.pexpiretime("a")), "PEXPIRETIME [a]"),
            (sent(|on| on.pttl("a")), "PTTL [a]"),
            (sent(|on| on.ttl("a")), "TTL [a]"),
            (sent(|on| on.type_("a")), "TYPE [a]"),
        ] {
            assert_eq!(words, want);
        }
        assert_eq!(sent(|on| on.object_help()), "OBJECT HELP");
        assert_eq!(sent(|on| on.move_("a", 2)), "MOVE [a] 2");

        assert_eq!(sent(|on| on.migrate("h", 6379, "k", 0, LONG)), "MIGRATE h 6379 [k] 0 1500 ~1.5s");
        let options = MigrateOptions::new().copy().replace();
        assert_eq!(
            sent(|on| on.migrate_with("h", 1, ["a", "b"], 2, LONG, options.clone().password("secret"))),
            "MIGRATE h 1  2 1500 COPY REPLACE AUTH secret KEYS [a] [b] ~1.5s"
        );
        assert_eq!(
            sent(|on| on.migrate_with("h", 1, "a", 2, LONG, options.user("me", "secret"))),
            "MIGRATE h 1  2 1500 COPY REPLACE AUTH2 me secret KEYS [a] ~1.5s"
        );
    }

    #[test]
    fn only_none_is_for_ever() {
        assert_eq!(sent(|on| on.wait(2, None)), "WAIT 2 0 ~");
        assert_eq!(sent(|on| on.wait(2, Duration::ZERO)), "WAIT 2 1 ~0ns");
        assert_eq!(sent(|on| on.wait(2, LONG)), "WAIT 2 1500 ~1.5s");
        assert_eq!(sent(|on| on.waitaof(1, 0, None)), "WAITAOF 1 0 0 ~");
        assert_eq!(sent(|on| on.waitaof(1, 0, Some(LONG))), "WAITAOF 1 0 1500 ~1.5s");
    }

    #[test]
    fn a_password_is_not_shown() {
        let shown = format!("{:?}", MigrateOptions::new().user("me", "secret"));
        assert!(shown.contains("me") && !shown.contains("secret"), "{shown}");
    }
}
