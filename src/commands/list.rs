//! Lists: sequences of strings, fast at both ends.

use std::time::Duration;

use super::time::{Seconds, block_time};
use crate::args::{Arg, ArgWriter, ToArg, ToArgs, cmd};
use crate::execute::Execute;
use crate::values::FromReply;

/// Commands on lists.
///
/// Positions are counted from zero; negative ones from the end, -1 being the last element. A key that does not exist is
/// an empty list, and a list that becomes empty is gone. On a key of another type each command fails with `WRONGTYPE`.
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(feature = "testing")] {
/// # let server = redefer::testing::Server::start()?;
/// # let conn = redefer::Connection::open(server.url())?;
/// use redefer::prelude::*;
///
/// conn.rpush("letters", ["a", "b", "c"]).wait()?;
/// let first: Option<String> = conn.lpop("letters").wait()?;
/// assert_eq!(first.as_deref(), Some("a"));
/// let rest: Vec<String> = conn.lrange("letters", 0, -1).wait()?;
/// assert_eq!(rest, ["b", "c"]);
/// # }
/// # Ok(())
/// # }
/// ```
pub trait ListCommands: Execute {
    /// The element at a position; nil if there is none.
    ///
    /// [LINDEX](https://redis.io/docs/latest/commands/lindex/)
    #[inline]
    fn lindex<T: FromReply>(self, key: impl ToArg, index: i64) -> Self::Reply<T> {
        self.execute(cmd("LINDEX").key(key).arg(index))
    }

    /// Inserts an element before or after the first one that equals `pivot`. The reply is the new length; -1 if no
    /// element equals the pivot, 0 if the key does not exist.
    ///
    /// [LINSERT](https://redis.io/docs/latest/commands/linsert/)
    fn linsert(self, key: impl ToArg, place: Insert, pivot: impl ToArg, element: impl ToArg) -> Self::Reply<i64> {
        self.execute(cmd("LINSERT").key(key).arg(place).arg(pivot).arg(element))
    }

    /// How many elements there are.
    ///
    /// [LLEN](https://redis.io/docs/latest/commands/llen/)
    #[inline]
    fn llen(self, key: impl ToArg) -> Self::Reply<i64> {
        self.execute(cmd("LLEN").key(key))
    }

    /// Takes the element at one end of `source` and adds it at one end of `destination`; they may be the same list. The
    /// reply is the element; nil if the source is empty, and then nothing is done. Since 6.2.
    ///
    /// [LMOVE](https://redis.io/docs/latest/commands/lmove/)
    fn lmove<T: FromReply>(
        self,
        source: impl ToArg,
        destination: impl ToArg,
        from: Direction,
        to: Direction,
    ) -> Self::Reply<T> {
        self.execute(cmd("LMOVE").key(source).key(destination).arg(from).arg(to))
    }

    /// Takes an element from one end of the first of these lists that is not empty. The reply is the list's key and the
    /// element; nil if all are empty. Since 7.0.
    ///
    /// [LMPOP](https://redis.io/docs/latest/commands/lmpop/)
    fn lmpop<K: FromReply, T: FromReply>(self, keys: impl ToArgs, from: Direction) -> Self::Reply<Option<(K, Vec<T>)>> {
        self.execute(cmd("LMPOP").counted_keys(keys).arg(from))
    }

    /// Like [`lmpop`](ListCommands::lmpop), but takes up to `count` elements.
    ///
    /// [LMPOP](https://redis.io/docs/latest/commands/lmpop/)
    fn lmpop_count<K: FromReply, T: FromReply>(
        self,
        keys: impl ToArgs,
        from: Direction,
        count: u64,
    ) -> Self::Reply<Option<(K, Vec<T>)>> {
        self.execute(cmd("LMPOP").counted_keys(keys).arg(from).arg("COUNT").arg(count))
    }

    /// Takes the first element; nil if the list is empty.
    ///
    /// [LPOP](https://redis.io/docs/latest/commands/lpop/)
    #[inline]
    fn lpop<T: FromReply>(self, key: impl ToArg) -> Self::Reply<T> {
        self.execute(cmd("LPOP").key(key))
    }

    /// Takes up to `count` elements from the beginning; nil if the key does not exist. Since 6.2.
    ///
    /// [LPOP](https://redis.io/docs/latest/commands/lpop/)
    fn lpop_count<T: FromReply>(self, key: impl ToArg, count: u64) -> Self::Reply<Option<Vec<T>>> {
        self.execute(cmd("LPOP").key(key).arg(count))
    }

    /// The position of the first element that equals `element`; nil if none does. Since 6.0.6.
    ///
    /// [LPOS](https://redis.io/docs/latest/commands/lpos/)
    fn lpos(self, key: impl ToArg, element: impl ToArg) -> Self::Reply<Option<i64>> {
        self.execute(cmd("LPOS").key(key).arg(element))
    }

    /// Like [`lpos`](ListCommands::lpos), with options that say which match counts and how far to look.
    ///
    /// [LPOS](https://redis.io/docs/latest/commands/lpos/)
    fn lpos_with(self, key: impl ToArg, element: impl ToArg, options: LposOptions) -> Self::Reply<Option<i64>> {
        self.execute(cmd("LPOS").key(key).arg(element).options(options))
    }

    /// The positions of up to `count` elements that equal `element`, all if `count` is 0; never nil. Since 6.0.6.
    ///
    /// [LPOS](https://redis.io/docs/latest/commands/lpos/)
    fn lpos_count(self, key: impl ToArg, element: impl ToArg, count: u64) -> Self::MultiBulk<i64> {
        self.execute_multi(cmd("LPOS").key(key).arg(element).arg("COUNT").arg(count))
    }

    /// Like [`lpos_count`](ListCommands::lpos_count), with options that say with which match to begin and how far to
    /// look.
    ///
    /// [LPOS](https://redis.io/docs/latest/commands/lpos/)
    fn lpos_count_with(
        self,
        key: impl ToArg,
        element: impl ToArg,
        count: u64,
        options: LposOptions,
    ) -> Self::MultiBulk<i64> {
        self.execute_multi(cmd("LPOS").key(key).arg(element).arg("COUNT").arg(count).options(options))
    }

    /// Adds elements at the beginning, one after the other, so that the last one given comes first. The reply is the
    /// new length.
    ///
    /// [LPUSH](https://redis.io/docs/latest/commands/lpush/)
    #[inline]
    fn lpush(self, key: impl ToArg, elements: impl ToArgs) -> Self::Reply<i64> {
        self.execute(cmd("LPUSH").key(key).args(elements))
    }

    /// Like [`lpush`](ListCommands::lpush), but only if the list exists: the reply is 0 if it does not.
    ///
    /// [LPUSHX](https://redis.io/docs/latest/commands/lpushx/)
    fn lpushx(self, key: impl ToArg, elements: impl ToArgs) -> Self::Reply<i64> {
        self.execute(cmd("LPUSHX").key(key).args(elements))
    }

    /// The elements from one position to another, both included: `0, -1` is all of them. Never nil.
    ///
    /// [LRANGE](https://redis.io/docs/latest/commands/lrange/)
    #[inline]
    fn lrange<T: FromReply>(self, key: impl ToArg, start: i64, stop: i64) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("LRANGE").key(key).arg(start).arg(stop))
    }

    /// Removes elements that equal `element`: the first `count`, the last `-count` if it is negative, all if it is 0.
    /// The reply is how many were removed.
    ///
    /// [LREM](https://redis.io/docs/latest/commands/lrem/)
    fn lrem(self, key: impl ToArg, count: i64, element: impl ToArg) -> Self::Reply<i64> {
        self.execute(cmd("LREM").key(key).arg(count).arg(element))
    }

    /// Replaces the element at a position, which there must be.
    ///
    /// [LSET](https://redis.io/docs/latest/commands/lset/)
    fn lset(self, key: impl ToArg, index: i64, element: impl ToArg) -> Self::Reply<()> {
        self.execute(cmd("LSET").key(key).arg(index).arg(element))
    }

    /// Keeps only the elements from one position to another, both included.
    ///
    /// [LTRIM](https://redis.io/docs/latest/commands/ltrim/)
    fn ltrim(self, key: impl ToArg, start: i64, stop: i64) -> Self::Reply<()> {
        self.execute(cmd("LTRIM").key(key).arg(start).arg(stop))
    }

    /// Takes the last element; nil if the list is empty.
    ///
    /// [RPOP](https://redis.io/docs/latest/commands/rpop/)
    #[inline]
    fn rpop<T: FromReply>(self, key: impl ToArg) -> Self::Reply<T> {
        self.execute(cmd("RPOP").key(key))
    }

    /// Takes up to `count` elements from the end, the last one first; nil if the key does not exist. Since 6.2.
    ///
    /// [RPOP](https://redis.io/docs/latest/commands/rpop/)
    fn rpop_count<T: FromReply>(self, key: impl ToArg, count: u64) -> Self::Reply<Option<Vec<T>>> {
        self.execute(cmd("RPOP").key(key).arg(count))
    }

    /// Takes the last element of `source` and adds it at the beginning of `destination`. The reply is the element; nil
    /// if the source is empty. Deprecated since 6.2: [`lmove`](ListCommands::lmove) does the same.
    ///
    /// [RPOPLPUSH](https://redis.io/docs/latest/commands/rpoplpush/)
    fn rpoplpush<T: FromReply>(self, source: impl ToArg, destination: impl ToArg) -> Self::Reply<T> {
        self.execute(cmd("RPOPLPUSH").key(source).key(destination))
    }

    /// Adds elements at the end. The reply is the new length.
    ///
    /// [RPUSH](https://redis.io/docs/latest/commands/rpush/)
    #[inline]
    fn rpush(self, key: impl ToArg, elements: impl ToArgs) -> Self::Reply<i64> {
        self.execute(cmd("RPUSH").key(key).args(elements))
    }

    /// Like [`rpush`](ListCommands::rpush), but only if the list exists: the reply is 0 if it does not.
    ///
    /// [RPUSHX](https://redis.io/docs/latest/commands/rpushx/)
    fn rpushx(self, key: impl ToArg, elements: impl ToArgs) -> Self::Reply<i64> {
        self.execute(cmd("RPUSHX").key(key).args(elements))
    }
}

/// Commands on lists that wait until there is an element.
///
/// They hold up the whole connection, and so they are only to be had where the caller owns it. The timeout is a
/// `Duration`, or `None` to wait for ever; it is sent in milliseconds, rounded up to at least 2 ms, so that
/// `Duration::ZERO` is a short wait and never one without end. A wait for the reply is allowed the command's own time on
/// top of the connection's timeout.
///
/// # A connection waits for itself
///
/// Whatever is issued behind a blocking command runs when it has ended. This program waits for ever, since the LPUSH
/// that is to wake BLPOP up stands behind it on the same connection:
///
/// ```no_run
/// # use redefer::prelude::*;
/// # fn main() -> redefer::Result<()> {
/// # let conn = Connection::open("redis://127.0.0.1")?;
/// let job = conn.blpop::<String, String>("jobs", None);
/// conn.lpush("jobs", "a job").detach();
/// let (_, job) = job.wait()?.expect("no timeout, no nil"); // never gets here
/// # Ok(())
/// # }
/// ```
///
/// # Drop
///
/// The handle of a blocking command is detached when it is dropped, not waited for. The command goes on: what it takes
/// from a list later is lost, because nobody reads that reply.
pub trait BlockingListCommands: Execute {
    /// Like [`lmove`](ListCommands::lmove), but waits until the source has an element; nil after the timeout. Since
    /// 6.2. Mind [the deadlock with oneself](BlockingListCommands#a-connection-waits-for-itself): the command holds its
    /// own connection, and a handle that is dropped is detached, with the loss of a reply that comes later.
    ///
    /// [BLMOVE](https://redis.io/docs/latest/commands/blmove/)
    fn blmove<T: FromReply>(
        self,
        source: impl ToArg,
        destination: impl ToArg,
        from: Direction,
        to: Direction,
        timeout: impl Into<Option<Duration>>,
    ) -> Self::Reply<T> {
        let time = block_time(timeout);
        let command = cmd("BLMOVE").key(source).key(destination).arg(from).arg(to);
        self.execute(command.arg(Seconds(time)).blocking(time))
    }

    /// Like [`lmpop`](ListCommands::lmpop), but waits until one of the lists has an element; nil after the timeout.
    /// Since 7.0. Mind [the deadlock with oneself](BlockingListCommands#a-connection-waits-for-itself): the command
    /// holds its own connection, and a handle that is dropped is detached, with the loss of a reply that comes later.
    ///
    /// [BLMPOP](https://redis.io/docs/latest/commands/blmpop/)
    fn blmpop<K: FromReply, T: FromReply>(
        self,
        timeout: impl Into<Option<Duration>>,
        keys: impl ToArgs,
        from: Direction,
    ) -> Self::Reply<Option<(K, Vec<T>)>> {
        let time = block_time(timeout);
        self.execute(cmd("BLMPOP").arg(Seconds(time)).counted_keys(keys).arg(from).blocking(time))
    }

    /// Like [`blmpop`](BlockingListCommands::blmpop), but takes up to `count` elements.
    ///
    /// [BLMPOP](https://redis.io/docs/latest/commands/blmpop/)
    fn blmpop_count<K: FromReply, T: FromReply>(
        self,
        timeout: impl Into<Option<Duration>>,
        keys: impl ToArgs,
        from: Direction,
        count: u64,
    ) -> Self::Reply<Option<(K, Vec<T>)>> {
        let time = block_time(timeout);
        let command = cmd("BLMPOP").arg(Seconds(time)).counted_keys(keys).arg(from);
        self.execute(command.arg("COUNT").arg(count).blocking(time))
    }

    /// Takes the first element of the first of these lists that has one, and waits until one has. The reply is the
    /// list's key and the element; nil after the timeout. Mind [the deadlock with
    /// oneself](BlockingListCommands#a-connection-waits-for-itself): the command holds its own connection, and a handle
    /// that is dropped is detached, with the loss of a reply that comes later.
    ///
    /// [BLPOP](https://redis.io/docs/latest/commands/blpop/)
    fn blpop<K: FromReply, T: FromReply>(
        self,
        keys: impl ToArgs,
        timeout: impl Into<Option<Duration>>,
    ) -> Self::Reply<Option<(K, T)>> {
        let time = block_time(timeout);
        self.execute(cmd("BLPOP").keys(keys).arg(Seconds(time)).blocking(time))
    }

    /// Like [`blpop`](BlockingListCommands::blpop), but takes the last element. Mind [the deadlock with
    /// oneself](BlockingListCommands#a-connection-waits-for-itself): the command holds its own connection, and a handle
    /// that is dropped is detached, with the loss of a reply that comes later.
    ///
    /// [BRPOP](https://redis.io/docs/latest/commands/brpop/)
    fn brpop<K: FromReply, T: FromReply>(
        self,
        keys: impl ToArgs,
        timeout: impl Into<Option<Duration>>,
    ) -> Self::Reply<Option<(K, T)>> {
        let time = block_time(timeout);
        self.execute(cmd("BRPOP").keys(keys).arg(Seconds(time)).blocking(time))
    }

    /// Like [`rpoplpush`](ListCommands::rpoplpush), but waits until the source has an element; nil after the timeout.
    /// Deprecated since 6.2: [`blmove`](BlockingListCommands::blmove) does the same. Mind [the deadlock with
    /// oneself](BlockingListCommands#a-connection-waits-for-itself): the command holds its own connection, and a handle
    /// that is dropped is detached, with the loss of a reply that comes later.
    ///
    /// [BRPOPLPUSH](https://redis.io/docs/latest/commands/brpoplpush/)
    fn brpoplpush<T: FromReply>(
        self,
        source: impl ToArg,
        destination: impl ToArg,
        timeout: impl Into<Option<Duration>>,
    ) -> Self::Reply<T> {
        let time = block_time(timeout);
        self.execute(cmd("BRPOPLPUSH").key(source).key(destination).arg(Seconds(time)).blocking(time))
    }
}

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The beginning.
    Left,
    /// The end.
    Right,
}

impl ToArg for Direction {
    fn to_arg(&self) -> Arg<'_> {
        Arg::from(match self {
            Direction::Left => "LEFT",
            Direction::Right => "RIGHT",
        })
    }
    const DIRECT: bool = true;
}

/// On which side of its pivot [`linsert`](ListCommands::linsert) puts an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Insert {
    /// Nearer to the beginning.
    Before,
    /// Nearer to the end.
    After,
}

impl ToArg for Insert {
    fn to_arg(&self) -> Arg<'_> {
        Arg::from(match self {
            Insert::Before => "BEFORE",
            Insert::After => "AFTER",
        })
    }
    const DIRECT: bool = true;
}

/// Options of LPOS: see [`lpos_with`](ListCommands::lpos_with).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LposOptions {
    rank: Option<i64>,
    maxlen: Option<u64>,
}

impl LposOptions {
    /// No options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins with this match: 2 is the second one; negative ones look from the end, -1 being the last match. Not 0.
    pub fn rank(mut self, rank: i64) -> Self {
        self.rank = Some(rank);
        self
    }

    /// Compares at most so many elements; 0 is all of them.
    pub fn maxlen(mut self, elements: u64) -> Self {
        self.maxlen = Some(elements);
        self
    }

    fn arguments(&self) -> impl ToArgs {
        (self.rank.map(|_| "RANK"), self.rank, self.maxlen.map(|_| "MAXLEN"), self.maxlen)
    }
}

impl ToArgs for LposOptions {
    fn write_args(&self, out: &mut ArgWriter<'_>) {
        self.arguments().write_args(out);
    }
    const DIRECT: bool = true;
    fn count(&self) -> usize {
        self.arguments().count()
    }
}

#[cfg(test)]
mod tests {
    use super::super::recorder::{Recorder, sent};
    use super::*;

    impl ListCommands for &Recorder {}
    impl BlockingListCommands for &Recorder {}

    #[test]
    fn list_commands_are_encoded_with_their_keys() {
        assert_eq!(sent(|on| on.lindex::<String>("k", -1)), "LINDEX [k] -1");
        assert_eq!(sent(|on| on.linsert("k", Insert::Before, "p", 1)), "LINSERT [k] BEFORE p 1");
        assert_eq!(sent(|on| on.linsert("k", Insert::After, "p", 1)), "LINSERT [k] AFTER p 1");
        assert_eq!(sent(|on| on.llen("k")), "LLEN [k]");
        assert_eq!(
            sent(|on| on.lmove::<String>("a", "b", Direction::Left, Direction::Right)),
            "LMOVE [a] [b] LEFT RIGHT"
        );
        assert_eq!(sent(|on| on.lmpop::<String, String>(["a", "b"], Direction::Left)), "LMPOP 2 [a] [b] LEFT");
        assert_eq!(sent(|on| on.lmpop_count::<String, String>("a", Direction::Right, 3)), "LMPOP 1 [a] RIGHT COUNT 3");
        assert_eq!(sent(|on| on.lmpop::<String, String>((), Direction::Left)), "refused");
        assert_eq!(sent(|on| on.lpop::<String>("k")), "LPOP [k]");
        assert_eq!(sent(|on| on.lpop_count::<String>("k", 0)), "LPOP [k] 0");
        assert_eq!(sent(|on| on.lpos("k", "e")), "LPOS [k] e");
        assert_eq!(sent(|on| on.lpos_with("k", "e", LposOptions::new())), "LPOS [k] e");
        assert_eq!(sent(|on| on.lpos_with("k", "e", LposOptions::new().rank(-1))), "LPOS [k] e RANK -1");
        assert_eq!(sent(|on| on.lpos_count("k", "e", 0)), "LPOS [k] e COUNT 0");
        assert_eq!(
            sent(|on| on.lpos_count_with("k", "e", 2, LposOptions::new().maxlen(9).rank(2))),
            "LPOS [k] e COUNT 2 RANK 2 MAXLEN 9"
        );
        assert_eq!(sent(|on| on.lpush("k", ("a", 1, 2.5))), "LPUSH [k] a 1 2.5");
        assert_eq!(sent(|on| on.lpush("k", Vec::<String>::new())), "refused");
        assert_eq!(sent(|on| on.lpushx("k", ["a"])), "LPUSHX [k] a");
        assert_eq!(sent(|on| on.lrange::<String>("k", 0, -1)), "LRANGE [k] 0 -1");
        assert_eq!(sent(|on| on.lrem("k", -2, "a")), "LREM [k] -2 a");
        assert_eq!(sent(|on| on.lset("k", 0, "a")), "LSET [k] 0 a");
        assert_eq!(sent(|on| on.ltrim("k", 1, -1)), "LTRIM [k] 1 -1");
        assert_eq!(sent(|on| on.rpop::<String>("k")), "RPOP [k]");
        assert_eq!(sent(|on| on.rpop_count::<String>("k", 2)), "RPOP [k] 2");
        assert_eq!(sent(|on| on.rpoplpush::<String>("a", "b")), "RPOPLPUSH [a] [b]");
        assert_eq!(sent(|on| on.rpush("k", crate::args::each(["a", "b"]))), "RPUSH [k] a b");
        assert_eq!(sent(|on| on.rpushx("k", "a")), "RPUSHX [k] a");
    }

    #[test]
    fn blocking_commands_say_for_how_long() {
        let (left, right) = (Direction::Left, Direction::Right);
        let time = Duration::from_millis(50);

        assert_eq!(sent(|on| on.blpop::<String, String>(["a", "b"], time)), "BLPOP [a] [b] 0.05 ~50ms");
        assert_eq!(sent(|on| on.blpop::<String, String>("a", None)), "BLPOP [a] 0 ~");
        assert_eq!(sent(|on| on.blpop::<String, String>("a", Duration::ZERO)), "BLPOP [a] 0.002 ~2ms");
        assert_eq!(sent(|on| on.brpop::<String, String>("a", Some(Duration::from_secs(1)))), "BRPOP [a] 1 ~1s");
        assert_eq!(sent(|on| on.blmove::<String>("a", "b", left, right, time)), "BLMOVE [a] [b] LEFT RIGHT 0.05 ~50ms");
        assert_eq!(sent(|on| on.blmpop::<String, String>(time, ["a", "b"], left)), "BLMPOP 0.05 2 [a] [b] LEFT ~50ms");
        assert_eq!(sent(|on| on.blmpop_count::<String, String>(None, "a", right, 4)), "BLMPOP 0 1 [a] RIGHT COUNT 4 ~");
        assert_eq!(sent(|on| on.brpoplpush::<String>("a", "b", time)), "BRPOPLPUSH [a] [b] 0.05 ~50ms");
    }
}
