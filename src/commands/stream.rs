//! Streams: logs of entries, which consumers read in turn or share in groups.

mod entry;
mod info;
mod options;
mod reader;

pub use entry::{Entry, ParseStreamIdError, StreamBound, StreamId, StreamPlace, StreamRange};
pub use info::*;
pub use options::{
    GroupRead, GroupStart, NewId, ReadFrom, StreamDeletion, StreamReferences, StreamTrim, XaddOptions, XclaimOptions,
    XgroupCreateOptions, XgroupSetidOptions, XpendingOptions, XreadOptions, XreadgroupOptions, XsetidOptions,
};
pub use reader::{StreamFollower, StreamReader};

use std::time::Duration;

use super::parts::{Owned, millis, timeout_millis};
use crate::args::{ToArg, ToArgs, ToPairs, cmd};
use crate::execute::Execute;
use crate::values::FromReply;
use options::Streams;

/// What XREAD and XREADGROUP answer: the keys of streams, and the entries of each.
pub type ReadStreams<K, T> = Vec<(K, Vec<Entry<T>>)>;

/// Commands on streams.
///
/// A stream is a log of entries, each with a [`StreamId`] and with fields and values. A key that does not exist is an
/// empty stream for those that read; unlike other keys, a stream that becomes empty stays. On a key of another type each
/// command fails with `WRONGTYPE`. [`BlockingStreamCommands`] has the reads that wait, and iterators.
///
/// In an [`Entry<T>`], `T` is what fields and values are read into: `Vec<(String, String)>`, `HashMap<String, String>`
/// or a type of one's own, and an `Option` of it where entries may have been deleted. An entry whose fields `T` does not take
/// fails the whole reply; with a [`Result`](crate::Result) of it, `Entry<redefer::Result<T>>`, it keeps its ID, and the others
/// can be had: see [`xreadgroup`](StreamCommands::xreadgroup). Names of groups and consumers are
/// any bytes when they are sent, and text in replies.
///
/// Left out are XGROUP HELP and XINFO HELP: they are texts for people at a prompt.
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(feature = "testing")] {
/// # let server = redefer::testing::Server::start()?;
/// # let conn = redefer::Connection::open(server.url())?;
/// use redefer::commands::{GroupRead, NewId, ReadStreams, StreamId};
/// use redefer::prelude::*;
///
/// let first = conn.xadd("orders", NewId::Auto, ("item", "tea", "pounds", 3)).wait()?;
/// conn.xadd("orders", NewId::Auto, [("item", "milk")]).wait()?;
/// for entry in conn.xrange::<Vec<(String, String)>>("orders", ..) {
///     let entry = entry?;
///     println!("{}: {:?}", entry.id, entry.fields);
/// }
///
/// conn.xgroup_create("orders", "packers", StreamId::MIN).wait()?;
/// let read = conn.xreadgroup("packers", "ann", ("orders", GroupRead::Undelivered)).wait()?;
/// let read: ReadStreams<String, Vec<(String, String)>> = read.unwrap_or_default();
/// assert_eq!(read[0].1[0].id, first);
/// assert_eq!(conn.xack("orders", "packers", first).wait()?, 1);
/// # }
/// # Ok(())
/// # }
/// ```
pub trait StreamCommands: Execute {
    /// Acknowledges entries: they are pending no longer. The reply is how many were.
    ///
    /// [XACK](https://redis.io/docs/latest/commands/xack/)
    fn xack(self, key: impl ToArg, group: impl ToArg, ids: impl ToArgs) -> Self::Reply<i64> {
        self.execute(cmd("XACK").key(key).arg(group).args(ids))
    }

    /// Acknowledges entries and deletes them; references of other groups to them stay. The reply is what became of each
    /// entry, in order; never nil. Since Redis 8.2.
    ///
    /// [XACKDEL](https://redis.io/docs/latest/commands/xackdel/)
    fn xackdel(self, key: impl ToArg, group: impl ToArg, ids: impl ToArgs) -> Self::MultiBulk<StreamDeletion> {
        self.execute_multi(cmd("XACKDEL").key(key).arg(group).arg("IDS").counted_args(ids))
    }

    /// Like [`xackdel`](StreamCommands::xackdel), and says what becomes of references of other groups.
    ///
    /// [XACKDEL](https://redis.io/docs/latest/commands/xackdel/)
    fn xackdel_with(
        self,
        key: impl ToArg,
        group: impl ToArg,
        ids: impl ToArgs,
        references: StreamReferences,
    ) -> Self::MultiBulk<StreamDeletion> {
        self.execute_multi(cmd("XACKDEL").key(key).arg(group).arg(references).arg("IDS").counted_args(ids))
    }

    /// Adds an entry at the end, with at least one field and its value. The reply is its ID.
    ///
    /// [XADD](https://redis.io/docs/latest/commands/xadd/)
    #[inline]
    fn xadd(self, key: impl ToArg, id: impl Into<NewId>, fields: impl ToPairs) -> Self::Reply<StreamId> {
        self.execute(cmd("XADD").key(key).arg(id.into()).args(fields))
    }

    /// Like [`xadd`](StreamCommands::xadd), with options that say whether a stream is made, and which old entries go. The
    /// reply is nil if there is no stream and none is to be made.
    ///
    /// [XADD](https://redis.io/docs/latest/commands/xadd/)
    fn xadd_with(
        self,
        key: impl ToArg,
        id: impl Into<NewId>,
        fields: impl ToPairs,
        options: XaddOptions,
    ) -> Self::Reply<Option<StreamId>> {
        self.execute(cmd("XADD").key(key).options(options).arg(id.into()).args(fields))
    }

    /// Gives a consumer pending entries of the group that were delivered at least `min_idle` ago, in milliseconds
    /// rounded up, whoever has them: up to 100, from `start` on. The reply is these entries, and where to go on. Since
    /// 6.2.
    ///
    /// [XAUTOCLAIM](https://redis.io/docs/latest/commands/xautoclaim/)
    fn xautoclaim<T: FromReply>(
        self,
        key: impl ToArg,
        group: impl ToArg,
        consumer: impl ToArg,
        min_idle: Duration,
        start: impl Into<StreamBound>,
    ) -> Self::Reply<Autoclaimed<Entry<T>>> {
        self.execute(cmd("XAUTOCLAIM").key(key).arg(group).arg(consumer).arg(millis(min_idle)).arg(start.into()))
    }

    /// Like [`xautoclaim`](StreamCommands::xautoclaim), but up to `count` entries, at least 1.
    ///
    /// [XAUTOCLAIM](https://redis.io/docs/latest/commands/xautoclaim/)
    fn xautoclaim_count<T: FromReply>(
        self,
        key: impl ToArg,
        group: impl ToArg,
        consumer: impl ToArg,
        min_idle: Duration,
        start: impl Into<StreamBound>,
        count: u64,
    ) -> Self::Reply<Autoclaimed<Entry<T>>> {
        let command = cmd("XAUTOCLAIM").key(key).arg(group).arg(consumer).arg(millis(min_idle)).arg(start.into());
        self.execute(command.arg("COUNT").arg(count))
    }

    /// Like [`xautoclaim`](StreamCommands::xautoclaim), but the reply has only the entries' IDs (JUSTID), and the number
    /// of their deliveries stays.
    ///
    /// [XAUTOCLAIM](https://redis.io/docs/latest/commands/xautoclaim/)
    fn xautoclaim_justid(
        self,
        key: impl ToArg,
        group: impl ToArg,
        consumer: impl ToArg,
        min_idle: Duration,
        start: impl Into<StreamBound>,
    ) -> Self::Reply<Autoclaimed<StreamId>> {
        let command = cmd("XAUTOCLAIM").key(key).arg(group).arg(consumer).arg(millis(min_idle)).arg(start.into());
        self.execute(command.arg("JUSTID"))
    }

    /// Like [`xautoclaim_justid`](StreamCommands::xautoclaim_justid), but up to `count` entries, at least 1.
    ///
    /// [XAUTOCLAIM](https://redis.io/docs/latest/commands/xautoclaim/)
    fn xautoclaim_justid_count(
        self,
        key: impl ToArg,
        group: impl ToArg,
        consumer: impl ToArg,
        min_idle: Duration,
        start: impl Into<StreamBound>,
        count: u64,
    ) -> Self::Reply<Autoclaimed<StreamId>> {
        let command = cmd("XAUTOCLAIM").key(key).arg(group).arg(consumer).arg(millis(min_idle)).arg(start.into());
        self.execute(command.arg("COUNT").arg(count).arg("JUSTID"))
    }

    /// Gives a consumer these entries, if they are pending in the group and were delivered at least `min_idle` ago, in
    /// milliseconds rounded up. The reply is the entries that it got; never nil. (Before 7.0, one that was deleted is a
    /// nil among them.)
    ///
    /// [XCLAIM](https://redis.io/docs/latest/commands/xclaim/)
    fn xclaim<T: FromReply>(
        self,
        key: impl ToArg,
        group: impl ToArg,
        consumer: impl ToArg,
        min_idle: Duration,
        ids: impl ToArgs,
    ) -> Self::MultiBulk<Entry<T>> {
        self.execute_multi(cmd("XCLAIM").key(key).arg(group).arg(consumer).arg(millis(min_idle)).args(ids))
    }

    /// Like [`xclaim`](StreamCommands::xclaim), with options that say what the server notes about the entries.
    ///
    /// [XCLAIM](https://redis.io/docs/latest/commands/xclaim/)
    fn xclaim_with<T: FromReply>(
        self,
        key: impl ToArg,
        group: impl ToArg,
        consumer: impl ToArg,
        min_idle: Duration,
        ids: impl ToArgs,
        options: XclaimOptions,
    ) -> Self::MultiBulk<Entry<T>> {
        let command = cmd("XCLAIM").key(key).arg(group).arg(consumer).arg(millis(min_idle)).args(ids);
        self.execute_multi(command.options(options))
    }

    /// Like [`xclaim`](StreamCommands::xclaim), but the reply has only the entries' IDs (JUSTID), and the number of
    /// their deliveries stays.
    ///
    /// [XCLAIM](https://redis.io/docs/latest/commands/xclaim/)
    fn xclaim_justid(
        self,
        key: impl ToArg,
        group: impl ToArg,
        consumer: impl ToArg,
        min_idle: Duration,
        ids: impl ToArgs,
    ) -> Self::MultiBulk<StreamId> {
        let command = cmd("XCLAIM").key(key).arg(group).arg(consumer).arg(millis(min_idle)).args(ids);
        self.execute_multi(command.arg("JUSTID"))
    }

    /// Like [`xclaim_justid`](StreamCommands::xclaim_justid), with options that say what the server notes about the
    /// entries.
    ///
    /// [XCLAIM](https://redis.io/docs/latest/commands/xclaim/)
    fn xclaim_justid_with(
        self,
        key: impl ToArg,
        group: impl ToArg,
        consumer: impl ToArg,
        min_idle: Duration,
        ids: impl ToArgs,
        options: XclaimOptions,
    ) -> Self::MultiBulk<StreamId> {
        let command = cmd("XCLAIM").key(key).arg(group).arg(consumer).arg(millis(min_idle)).args(ids);
        self.execute_multi(command.options(options).arg("JUSTID"))
    }

    /// Deletes entries; references of groups to them stay. The reply is how many there were.
    ///
    /// [XDEL](https://redis.io/docs/latest/commands/xdel/)
    fn xdel(self, key: impl ToArg, ids: impl ToArgs) -> Self::Reply<i64> {
        self.execute(cmd("XDEL").key(key).args(ids))
    }

    /// Deletes entries; references of groups to them stay. The reply is what became of each entry, in order; never nil.
    /// Since Redis 8.2.
    ///
    /// [XDELEX](https://redis.io/docs/latest/commands/xdelex/)
    fn xdelex(self, key: impl ToArg, ids: impl ToArgs) -> Self::MultiBulk<StreamDeletion> {
        self.execute_multi(cmd("XDELEX").key(key).arg("IDS").counted_args(ids))
    }

    /// Like [`xdelex`](StreamCommands::xdelex), and says what becomes of references of groups.
    ///
    /// [XDELEX](https://redis.io/docs/latest/commands/xdelex/)
    fn xdelex_with(
        self,
        key: impl ToArg,
        ids: impl ToArgs,
        references: StreamReferences,
    ) -> Self::MultiBulk<StreamDeletion> {
        self.execute_multi(cmd("XDELEX").key(key).arg(references).arg("IDS").counted_args(ids))
    }

    /// Makes a consumer group, to which entries after an ID are delivered; the stream must exist. Fails with `BUSYGROUP`
    /// if there is a group of that name.
    ///
    /// [XGROUP CREATE](https://redis.io/docs/latest/commands/xgroup-create/)
    fn xgroup_create(self, key: impl ToArg, group: impl ToArg, start: impl Into<GroupStart>) -> Self::Reply<()> {
        self.execute(cmd("XGROUP").arg("CREATE").key(key).arg(group).arg(start.into()))
    }

    /// Like [`xgroup_create`](StreamCommands::xgroup_create), with options: whether the stream is made, and how many
    /// entries the group has read.
    ///
    /// [XGROUP CREATE](https://redis.io/docs/latest/commands/xgroup-create/)
    fn xgroup_create_with(
        self,
        key: impl ToArg,
        group: impl ToArg,
        start: impl Into<GroupStart>,
        options: XgroupCreateOptions,
    ) -> Self::Reply<()> {
        self.execute(cmd("XGROUP").arg("CREATE").key(key).arg(group).arg(start.into()).options(options))
    }

    /// Makes a consumer, which otherwise is made when it is first named. The reply is whether there was none. Since 6.2.
    ///
    /// [XGROUP CREATECONSUMER](https://redis.io/docs/latest/commands/xgroup-createconsumer/)
    fn xgroup_createconsumer(self, key: impl ToArg, group: impl ToArg, consumer: impl ToArg) -> Self::Reply<bool> {
        self.execute(cmd("XGROUP").arg("CREATECONSUMER").key(key).arg(group).arg(consumer))
    }

    /// Removes a consumer. The reply is how many pending entries it had: nobody has them now, and nobody can claim them.
    ///
    /// [XGROUP DELCONSUMER](https://redis.io/docs/latest/commands/xgroup-delconsumer/)
    fn xgroup_delconsumer(self, key: impl ToArg, group: impl ToArg, consumer: impl ToArg) -> Self::Reply<i64> {
        self.execute(cmd("XGROUP").arg("DELCONSUMER").key(key).arg(group).arg(consumer))
    }

    /// Removes a consumer group with its consumers and pending entries. The reply is whether there was one.
    ///
    /// [XGROUP DESTROY](https://redis.io/docs/latest/commands/xgroup-destroy/)
    fn xgroup_destroy(self, key: impl ToArg, group: impl ToArg) -> Self::Reply<bool> {
        self.execute(cmd("XGROUP").arg("DESTROY").key(key).arg(group))
    }

    /// Sets from where on a consumer group delivers.
    ///
    /// [XGROUP SETID](https://redis.io/docs/latest/commands/xgroup-setid/)
    fn xgroup_setid(self, key: impl ToArg, group: impl ToArg, start: impl Into<GroupStart>) -> Self::Reply<()> {
        self.execute(cmd("XGROUP").arg("SETID").key(key).arg(group).arg(start.into()))
    }

    /// Like [`xgroup_setid`](StreamCommands::xgroup_setid), with options: how many entries the group has read.
    ///
    /// [XGROUP SETID](https://redis.io/docs/latest/commands/xgroup-setid/)
    fn xgroup_setid_with(
        self,
        key: impl ToArg,
        group: impl ToArg,
        start: impl Into<GroupStart>,
        options: XgroupSetidOptions,
    ) -> Self::Reply<()> {
        self.execute(cmd("XGROUP").arg("SETID").key(key).arg(group).arg(start.into()).options(options))
    }

    /// The consumers of a group; never nil.
    ///
    /// [XINFO CONSUMERS](https://redis.io/docs/latest/commands/xinfo-consumers/)
    fn xinfo_consumers(self, key: impl ToArg, group: impl ToArg) -> Self::MultiBulk<ConsumerInfo> {
        self.execute_multi(cmd("XINFO").arg("CONSUMERS").key(key).arg(group))
    }

    /// The consumer groups of a stream; never nil. Fails if there is no such key.
    ///
    /// [XINFO GROUPS](https://redis.io/docs/latest/commands/xinfo-groups/)
    fn xinfo_groups(self, key: impl ToArg) -> Self::MultiBulk<GroupInfo> {
        self.execute_multi(cmd("XINFO").arg("GROUPS").key(key))
    }

    /// What the server knows about a stream, with its first and last entry. Fails if there is no such key.
    ///
    /// [XINFO STREAM](https://redis.io/docs/latest/commands/xinfo-stream/)
    fn xinfo_stream<T: FromReply>(self, key: impl ToArg) -> Self::Reply<StreamInfo<T>> {
        self.execute(cmd("XINFO").arg("STREAM").key(key))
    }

    /// What the server knows about a stream, its groups and their consumers (FULL), with the first 10 entries and pending
    /// entries of each. Fails if there is no such key. Since 6.0.
    ///
    /// [XINFO STREAM](https://redis.io/docs/latest/commands/xinfo-stream/)
    fn xinfo_stream_full<T: FromReply>(self, key: impl ToArg) -> Self::Reply<StreamInfoFull<T>> {
        self.execute(cmd("XINFO").arg("STREAM").key(key).arg("FULL"))
    }

    /// Like [`xinfo_stream_full`](StreamCommands::xinfo_stream_full), with up to `count` entries and pending entries of
    /// each; 0 is all.
    ///
    /// [XINFO STREAM](https://redis.io/docs/latest/commands/xinfo-stream/)
    fn xinfo_stream_full_count<T: FromReply>(self, key: impl ToArg, count: u64) -> Self::Reply<StreamInfoFull<T>> {
        self.execute(cmd("XINFO").arg("STREAM").key(key).arg("FULL").arg("COUNT").arg(count))
    }

    /// How many entries there are.
    ///
    /// [XLEN](https://redis.io/docs/latest/commands/xlen/)
    #[inline]
    fn xlen(self, key: impl ToArg) -> Self::Reply<i64> {
        self.execute(cmd("XLEN").key(key))
    }

    /// How many entries a group has delivered that are not acknowledged, and to which consumers.
    ///
    /// [XPENDING](https://redis.io/docs/latest/commands/xpending/)
    fn xpending(self, key: impl ToArg, group: impl ToArg) -> Self::Reply<PendingSummary> {
        self.execute(cmd("XPENDING").key(key).arg(group))
    }

    /// Up to `count` entries in a range of IDs that a group has delivered and that are not acknowledged; never nil.
    ///
    /// [XPENDING](https://redis.io/docs/latest/commands/xpending/)
    fn xpending_range(
        self,
        key: impl ToArg,
        group: impl ToArg,
        range: impl Into<StreamRange>,
        count: u64,
    ) -> Self::MultiBulk<PendingEntry> {
        let range = range.into();
        self.execute_multi(cmd("XPENDING").key(key).arg(group).arg(range.min).arg(range.max).arg(count))
    }

    /// Like [`xpending_range`](StreamCommands::xpending_range), with options: only those of one consumer, or delivered
    /// some time ago.
    ///
    /// [XPENDING](https://redis.io/docs/latest/commands/xpending/)
    fn xpending_range_with(
        self,
        key: impl ToArg,
        group: impl ToArg,
        range: impl Into<StreamRange>,
        count: u64,
        options: XpendingOptions,
    ) -> Self::MultiBulk<PendingEntry> {
        let range = range.into();
        let (before, behind) = options.parts();
        let command = cmd("XPENDING").key(key).arg(group).options(before).arg(range.min).arg(range.max).arg(count);
        self.execute_multi(command.options(behind))
    }

    /// The entries in a range of IDs; never nil.
    ///
    /// [XRANGE](https://redis.io/docs/latest/commands/xrange/)
    fn xrange<T: FromReply>(self, key: impl ToArg, range: impl Into<StreamRange>) -> Self::MultiBulk<Entry<T>> {
        let range = range.into();
        self.execute_multi(cmd("XRANGE").key(key).arg(range.min).arg(range.max))
    }

    /// The first `count` entries in a range of IDs; never nil, except for a `count` of 0.
    ///
    /// [XRANGE](https://redis.io/docs/latest/commands/xrange/)
    fn xrange_count<T: FromReply>(
        self,
        key: impl ToArg,
        range: impl Into<StreamRange>,
        count: u64,
    ) -> Self::MultiBulk<Entry<T>> {
        let range = range.into();
        self.execute_multi(cmd("XRANGE").key(key).arg(range.min).arg(range.max).arg("COUNT").arg(count))
    }

    /// The entries of streams after an ID each, given as pairs of a key and a [`ReadFrom`] or [`StreamId`]. The reply is
    /// the streams that have any, with their entries; nil if none has.
    ///
    /// [XREAD](https://redis.io/docs/latest/commands/xread/)
    fn xread<K: FromReply, T: FromReply>(self, streams: impl ToPairs) -> Self::Reply<Option<ReadStreams<K, T>>> {
        let streams = Streams::new(streams);
        self.execute(cmd("XREAD").arg("STREAMS").keys(streams.keys()).args(streams.places()))
    }

    /// Like [`xread`](StreamCommands::xread), with options: up to so many entries of each stream.
    ///
    /// [XREAD](https://redis.io/docs/latest/commands/xread/)
    fn xread_with<K: FromReply, T: FromReply>(
        self,
        streams: impl ToPairs,
        options: XreadOptions,
    ) -> Self::Reply<Option<ReadStreams<K, T>>> {
        let streams = Streams::new(streams);
        let command = cmd("XREAD").options(options).arg("STREAMS");
        self.execute(command.keys(streams.keys()).args(streams.places()))
    }

    /// Reads streams as a consumer of a group, which there must be on each: entries that were delivered to nobody, or
    /// entries that this consumer has not acknowledged. The streams are given as pairs of a key and a [`GroupRead`]. The
    /// reply is the streams that have any, with their entries; nil if none has. A stream whose pending entries are asked
    /// for is always there, perhaps with none; the fields of those that were deleted are nil.
    ///
    /// What is read is pending for this consumer, also if it cannot be decoded, and then nobody would know its ID. So take
    /// the fields as a [`Result`](crate::Result) where they may be of another shape:
    ///
    /// ```
    /// # fn main() -> redefer::Result<()> {
    /// # #[cfg(feature = "testing")] {
    /// # let server = redefer::testing::Server::start()?;
    /// # let conn = redefer::Connection::open(server.url())?;
    /// # use redefer::{prelude::*, commands::{NewId, StreamId}};
    /// use std::collections::HashMap;
    /// use redefer::commands::{GroupRead, ReadStreams};
    ///
    /// # conn.xadd("orders", NewId::Auto, ("pounds", 3)).wait()?;
    /// # conn.xadd("orders", NewId::Auto, ("pounds", "many")).wait()?;
    /// # conn.xgroup_create("orders", "packers", StreamId::MIN).wait()?;
    /// type Order = HashMap<String, i64>;
    /// let read = conn.xreadgroup("packers", "ann", ("orders", GroupRead::Undelivered)).wait()?;
    /// let read: ReadStreams<String, redefer::Result<Order>> = read.unwrap_or_default();
    /// for entry in read.into_iter().flat_map(|(_key, entries)| entries) {
    ///     match entry.fields {
    ///         Ok(order) => println!("{} pounds", order["pounds"]),
    ///         Err(error) => println!("{} is no order: {error}", entry.id),
    ///     }
    ///     conn.xack("orders", "packers", entry.id).detach();
    /// }
    /// # conn.sync()?;
    /// # assert_eq!(conn.xpending("orders", "packers").wait()?.count, 0);
    /// # }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The [cookbook](crate::cookbook#consumer-groups) has a loop that waits.
    ///
    /// [XREADGROUP](https://redis.io/docs/latest/commands/xreadgroup/)
    fn xreadgroup<K: FromReply, T: FromReply>(
        self,
        group: impl ToArg,
        consumer: impl ToArg,
        streams: impl ToPairs,
    ) -> Self::Reply<Option<ReadStreams<K, T>>> {
        let streams = Streams::new(streams);
        let command = cmd("XREADGROUP").arg("GROUP").arg(group).arg(consumer).arg("STREAMS");
        self.execute(command.keys(streams.keys()).args(streams.places()))
    }

    /// Like [`xreadgroup`](StreamCommands::xreadgroup), with options: up to so many entries of each stream, or without
    /// acknowledgement, or with what other consumers have left.
    ///
    /// [XREADGROUP](https://redis.io/docs/latest/commands/xreadgroup/)
    fn xreadgroup_with<K: FromReply, T: FromReply>(
        self,
        group: impl ToArg,
        consumer: impl ToArg,
        streams: impl ToPairs,
        options: XreadgroupOptions,
    ) -> Self::Reply<Option<ReadStreams<K, T>>> {
        let streams = Streams::new(streams);
        let command = cmd("XREADGROUP").arg("GROUP").arg(group).arg(consumer).options(options).arg("STREAMS");
        self.execute(command.keys(streams.keys()).args(streams.places()))
    }

    /// The entries in a range of IDs, the last one first; never nil. The range is still given from its lower bound to
    /// its upper one.
    ///
    /// [XREVRANGE](https://redis.io/docs/latest/commands/xrevrange/)
    fn xrevrange<T: FromReply>(self, key: impl ToArg, range: impl Into<StreamRange>) -> Self::MultiBulk<Entry<T>> {
        let range = range.into();
        self.execute_multi(cmd("XREVRANGE").key(key).arg(range.max).arg(range.min))
    }

    /// Like [`xrevrange`](StreamCommands::xrevrange), but only the last `count` entries; nil for a `count` of 0.
    ///
    /// [XREVRANGE](https://redis.io/docs/latest/commands/xrevrange/)
    fn xrevrange_count<T: FromReply>(
        self,
        key: impl ToArg,
        range: impl Into<StreamRange>,
        count: u64,
    ) -> Self::MultiBulk<Entry<T>> {
        let range = range.into();
        self.execute_multi(cmd("XREVRANGE").key(key).arg(range.max).arg(range.min).arg("COUNT").arg(count))
    }

    /// Sets the ID after which the next one comes; not below that of the last entry. Fails if there is no such key.
    ///
    /// [XSETID](https://redis.io/docs/latest/commands/xsetid/)
    fn xsetid(self, key: impl ToArg, last_id: StreamId) -> Self::Reply<()> {
        self.execute(cmd("XSETID").key(key).arg(last_id))
    }

    /// Like [`xsetid`](StreamCommands::xsetid), with options: what else the server knows of entries that are gone.
    ///
    /// [XSETID](https://redis.io/docs/latest/commands/xsetid/)
    fn xsetid_with(self, key: impl ToArg, last_id: StreamId, options: XsetidOptions) -> Self::Reply<()> {
        self.execute(cmd("XSETID").key(key).arg(last_id).options(options))
    }

    /// Removes old entries. The reply is how many.
    ///
    /// [XTRIM](https://redis.io/docs/latest/commands/xtrim/)
    fn xtrim(self, key: impl ToArg, trim: StreamTrim) -> Self::Reply<i64> {
        self.execute(cmd("XTRIM").key(key).options(trim))
    }
}

/// Reads of streams that wait until there is an entry, and iterators over the entries of a stream.
///
/// What [`BlockingListCommands`](super::BlockingListCommands) says of a connection that waits for itself and of handles
/// that are dropped is true of the reads as well: each holds up the whole connection,
/// `let read = conn.xread_block(…); conn.xadd(…).detach(); read.wait()` never ends, and the handle is detached when it is
/// dropped; entries that a consumer group delivers by a reply that nobody reads stay pending.
///
/// The timeout is a `Duration`, or `None` to wait for ever; it is sent in milliseconds, rounded up to at least 1 ms, so
/// that `Duration::ZERO` is a short wait and never one without end.
pub trait BlockingStreamCommands: StreamCommands + Copy {
    /// Like [`xread`](StreamCommands::xread), but waits until one of the streams has an entry; nil after the timeout. Mind
    /// [the deadlock with oneself](super::BlockingListCommands#a-connection-waits-for-itself): the command holds its own
    /// connection.
    ///
    /// With [`ReadFrom::New`] only what is added during this wait is found; to go on, pass the ID of the last entry, as
    /// [`xread_follow`](BlockingStreamCommands::xread_follow) does.
    ///
    /// [XREAD](https://redis.io/docs/latest/commands/xread/)
    fn xread_block<K: FromReply, T: FromReply>(
        self,
        streams: impl ToPairs,
        timeout: impl Into<Option<Duration>>,
    ) -> Self::Reply<Option<ReadStreams<K, T>>> {
        self.xread_block_with(streams, timeout, XreadOptions::new())
    }

    /// Like [`xread_block`](BlockingStreamCommands::xread_block), with options: up to so many entries of each stream.
    ///
    /// [XREAD](https://redis.io/docs/latest/commands/xread/)
    fn xread_block_with<K: FromReply, T: FromReply>(
        self,
        streams: impl ToPairs,
        timeout: impl Into<Option<Duration>>,
        options: XreadOptions,
    ) -> Self::Reply<Option<ReadStreams<K, T>>> {
        let (millis, time) = block(timeout);
        let streams = Streams::new(streams);
        let command = cmd("XREAD").options(options).arg("BLOCK").arg(millis).arg("STREAMS");
        self.execute(command.keys(streams.keys()).args(streams.places()).blocking(time))
    }

    /// Like [`xreadgroup`](StreamCommands::xreadgroup), but waits until one of the streams has an entry for the consumer;
    /// nil after the timeout. Does not wait where pending entries are asked for. Mind [the deadlock with
    /// oneself](super::BlockingListCommands#a-connection-waits-for-itself): the command holds its own connection.
    ///
    /// [XREADGROUP](https://redis.io/docs/latest/commands/xreadgroup/)
    fn xreadgroup_block<K: FromReply, T: FromReply>(
        self,
        group: impl ToArg,
        consumer: impl ToArg,
        streams: impl ToPairs,
        timeout: impl Into<Option<Duration>>,
    ) -> Self::Reply<Option<ReadStreams<K, T>>> {
        self.xreadgroup_block_with(group, consumer, streams, timeout, XreadgroupOptions::new())
    }

    /// Like [`xreadgroup_block`](BlockingStreamCommands::xreadgroup_block), with options: up to so many entries of each
    /// stream, or without acknowledgement, or with what other consumers have left.
    ///
    /// [XREADGROUP](https://redis.io/docs/latest/commands/xreadgroup/)
    fn xreadgroup_block_with<K: FromReply, T: FromReply>(
        self,
        group: impl ToArg,
        consumer: impl ToArg,
        streams: impl ToPairs,
        timeout: impl Into<Option<Duration>>,
        options: XreadgroupOptions,
    ) -> Self::Reply<Option<ReadStreams<K, T>>> {
        let (millis, time) = block(timeout);
        let streams = Streams::new(streams);
        let command = cmd("XREADGROUP").arg("GROUP").arg(group).arg(consumer).options(options);
        let command = command.arg("BLOCK").arg(millis).arg("STREAMS");
        self.execute(command.keys(streams.keys()).args(streams.places()).blocking(time))
    }

    /// An iterator over the entries in a range of IDs, however many there are: see [`StreamReader`].
    ///
    /// ```no_run
    /// # use redefer::{prelude::*, commands::StreamId};
    /// # fn main() -> redefer::Result<()> {
    /// # let conn = Connection::open("redis://127.0.0.1:6379")?;
    /// # let id = StreamId::MIN;
    /// for entry in conn.xrange_all::<Vec<(String, String)>>("orders", id..).page(1000) {
    ///     println!("{:?}", entry?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [XRANGE](https://redis.io/docs/latest/commands/xrange/)
    fn xrange_all<T: FromReply>(self, key: impl ToArg, range: impl Into<StreamRange>) -> StreamReader<Self, T> {
        StreamReader::new(self, Owned::new(key), range.into())
    }

    /// An iterator that waits for entries after an ID, and goes on for as long as they come: see [`StreamFollower`].
    ///
    /// With [`ReadFrom::New`] it begins behind the last entry that is there at the first `next`, and with
    /// [`ReadFrom::Last`] at that entry.
    ///
    /// ```no_run
    /// # use redefer::{prelude::*, commands::ReadFrom};
    /// # fn main() -> redefer::Result<()> {
    /// # let conn = Connection::open("redis://127.0.0.1:6379")?;
    /// for entry in conn.xread_follow::<Vec<(String, String)>>("orders", ReadFrom::New, None) {
    ///     println!("{:?}", entry?); // and so on for ever
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [XREAD](https://redis.io/docs/latest/commands/xread/)
    fn xread_follow<T: FromReply>(
        self,
        key: impl ToArg,
        from: impl Into<ReadFrom>,
        timeout: impl Into<Option<Duration>>,
    ) -> StreamFollower<Self, T> {
        StreamFollower::new(self, Owned::new(key), from.into(), timeout.into())
    }
}

/// A timeout as BLOCK takes it, in milliseconds, 0 being for ever; and for how long the server will wait.
fn block(timeout: impl Into<Option<Duration>>) -> (i64, Option<Duration>) {
    let time = timeout.into();
    let millis = timeout_millis(time);
    (millis, time.map(|_| Duration::from_millis(millis.unsigned_abs())))
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::super::recorder::{Recorder, sent};
    use super::*;
    use crate::error::Result;
    use crate::resp::Decoder;

    impl StreamCommands for &Recorder {}
    impl BlockingStreamCommands for &Recorder {}

    /// What `T` makes of `wire`, with spaces in place of CRLF.
    pub(super) fn decode<T: FromReply>(wire: &str) -> Result<T> {
        let bytes = format!("{wire} ").replace(' ', "\r\n").into_bytes();
        let (frame, len) = Decoder::new().decode(&bytes)?.expect("a whole reply");
        assert_eq!(len, bytes.len(), "{wire}: one frame and nothing more");
        T::from_reply(frame)
    }

    const ID: StreamId = StreamId::new(1, 2);
    const MS: Duration = Duration::from_millis(1);

    type Fields = Vec<(String, String)>;

    #[test]
    fn entries_are_added_and_deleted() {
        assert_eq!(sent(|on| on.xadd("k", NewId::Auto, ("f", "v"))), "XADD [k] * f v");
        assert_eq!(sent(|on| on.xadd("k", NewId::AutoSeq(7), [("f", 1), ("g", 2)])), "XADD [k] 7-* f 1 g 2");
        assert_eq!(sent(|on| on.xadd("k", ID, crate::args::each([("f", 1)]))), "XADD [k] 1-2 f 1");
        assert_eq!(sent(|on| on.xadd("k", ID, Vec::<(String, String)>::new())), "refused");
        let with = |options| sent(|on| on.xadd_with("k", NewId::Auto, ("f", "v"), options));
        let new = XaddOptions::new;
        assert_eq!(with(new()), "XADD [k] * f v");
        assert_eq!(with(new().nomkstream()), "XADD [k] NOMKSTREAM * f v");
        assert_eq!(with(new().trim(StreamTrim::max_len(9))), "XADD [k] MAXLEN = 9 * f v");
        let trim = StreamTrim::min_id(ID).limit(5).references(StreamReferences::Acked);
        assert_eq!(with(new().trim(trim).nomkstream()), "XADD [k] NOMKSTREAM MINID ~ 1-2 LIMIT 5 ACKED * f v");

        assert_eq!(sent(|on| on.xtrim("k", StreamTrim::max_len(9).approx())), "XTRIM [k] MAXLEN ~ 9");
        assert_eq!(sent(|on| on.xtrim("k", StreamTrim::min_id(ID))), "XTRIM [k] MINID = 1-2");
        let trim = StreamTrim::max_len(0).limit(0).references(StreamReferences::Delete);
        assert_eq!(sent(|on| on.xtrim("k", trim)), "XTRIM [k] MAXLEN ~ 0 LIMIT 0 DELREF");

        assert_eq!(sent(|on| on.xdel("k", [ID, StreamId::MAX])), format!("XDEL [k] 1-2 {}", StreamId::MAX));
        assert_eq!(sent(|on| on.xdel("k", &[ID][..0])), "refused");
        assert_eq!(sent(|on| on.xdelex("k", ID)), "XDELEX [k] IDS 1 1-2");
        let keep = StreamReferences::Keep;
        assert_eq!(sent(|on| on.xdelex_with("k", [ID, ID], keep)), "XDELEX [k] KEEPREF IDS 2 1-2 1-2");
        assert_eq!(sent(|on| on.xdelex("k", ())), "refused");
        assert_eq!(sent(|on| on.xlen("k")), "XLEN [k]");
        assert_eq!(sent(|on| on.xsetid("k", ID)), "XSETID [k] 1-2");
        let options = XsetidOptions::new().max_deleted_id(StreamId::MIN).entries_added(7);
        assert_eq!(sent(|on| on.xsetid_with("k", ID, options)), "XSETID [k] 1-2 ENTRIESADDED 7 MAXDELETEDID 0-0");
    }

    #[test]
    fn entries_are_read() {
        assert_eq!(sent(|on| on.xrange::<Fields>("k", ..)), "XRANGE [k] - +");
        assert_eq!(sent(|on| on.xrange_count::<Fields>("k", ID.., 3)), "XRANGE [k] 1-2 + COUNT 3");
        assert_eq!(sent(|on| on.xrevrange::<Fields>("k", ID..)), "XREVRANGE [k] + 1-2");
        let range = (StreamBound::Excluded(ID), StreamId::new(9, 9));
        assert_eq!(sent(|on| on.xrevrange_count::<Fields>("k", range, 3)), "XREVRANGE [k] 9-9 (1-2 COUNT 3");

        assert_eq!(sent(|on| on.xread::<String, Fields>(("k", ID))), "XREAD STREAMS [k] 1-2");
        let streams = [("a", ReadFrom::New), ("b", ReadFrom::Last), ("c", ID.into())];
        assert_eq!(sent(|on| on.xread::<String, Fields>(streams)), "XREAD STREAMS [a] [b] [c] $ + 1-2");
        let streams = ("a", ReadFrom::New, "b", ID);
        let options = XreadOptions::new().count(5);
        let got = sent(|on| on.xread_with::<String, Fields>(streams, options));
        assert_eq!(got, "XREAD COUNT 5 STREAMS [a] [b] $ 1-2");
        let map = std::collections::BTreeMap::from([("a", ID), ("b", StreamId::MIN)]);
        assert_eq!(sent(|on| on.xread::<String, Fields>(&map)), "XREAD STREAMS [a] [b] 1-2 0-0");
        let each = crate::args::each([("a", ID), ("b", ID)]);
        assert_eq!(sent(|on| on.xread::<String, Fields>(each)), "XREAD STREAMS [a] [b] 1-2 1-2");
        assert_eq!(sent(|on| on.xread::<String, Fields>(&map.into_iter().collect::<Vec<_>>()[..0])), "refused");
    }

    #[test]
    fn groups_are_made_and_read() {
        assert_eq!(sent(|on| on.xgroup_create("k", "g", GroupStart::New)), "XGROUP CREATE [k] g $");
        let options = XgroupCreateOptions::new().mkstream().entries_read(0);
        assert_eq!(
            sent(|on| on.xgroup_create_with("k", "g", ID, options)),
            "XGROUP CREATE [k] g 1-2 MKSTREAM ENTRIESREAD 0"
        );
        assert_eq!(sent(|on| on.xgroup_createconsumer("k", "g", "c")), "XGROUP CREATECONSUMER [k] g c");
        assert_eq!(sent(|on| on.xgroup_delconsumer("k", "g", "c")), "XGROUP DELCONSUMER [k] g c");
        assert_eq!(sent(|on| on.xgroup_destroy("k", "g")), "XGROUP DESTROY [k] g");
        assert_eq!(sent(|on| on.xgroup_setid("k", "g", ID)), "XGROUP SETID [k] g 1-2");
        let options = XgroupSetidOptions::new().entries_read(7);
        assert_eq!(
            sent(|on| on.xgroup_setid_with("k", "g", GroupStart::New, options)),
            "XGROUP SETID [k] g $ ENTRIESREAD 7"
        );
        assert_eq!(sent(|on| on.xinfo_consumers("k", "g")), "XINFO CONSUMERS [k] g");
        assert_eq!(sent(|on| on.xinfo_groups("k")), "XINFO GROUPS [k]");
        assert_eq!(sent(|on| on.xinfo_stream::<Fields>("k")), "XINFO STREAM [k]");
        assert_eq!(sent(|on| on.xinfo_stream_full::<Fields>("k")), "XINFO STREAM [k] FULL");
        assert_eq!(sent(|on| on.xinfo_stream_full_count::<Fields>("k", 0)), "XINFO STREAM [k] FULL COUNT 0");

        let streams = [("a", GroupRead::Undelivered), ("b", GroupRead::Pending(ID))];
        assert_eq!(
            sent(|on| on.xreadgroup::<String, Fields>("g", "c", streams)),
            "XREADGROUP GROUP g c STREAMS [a] [b] > 1-2"
        );
        let options = XreadgroupOptions::new().noack().count(5);
        assert_eq!(
            sent(|on| on.xreadgroup_with::<String, Fields>("g", "c", streams, options)),
            "XREADGROUP GROUP g c COUNT 5 NOACK STREAMS [a] [b] > 1-2"
        );
        let options = XreadgroupOptions::new().claim(MS / 2).noack().count(5);
        assert_eq!(
            sent(|on| on.xreadgroup_with::<String, Fields>("g", "c", streams, options)),
            "XREADGROUP GROUP g c COUNT 5 CLAIM 1 NOACK STREAMS [a] [b] > 1-2"
        );
    }

    #[test]
    fn pending_entries_are_shown_claimed_and_acknowledged() {
        assert_eq!(sent(|on| on.xack("k", "g", (ID, "3-4"))), "XACK [k] g 1-2 3-4");
        assert_eq!(sent(|on| on.xack("k", "g", ())), "refused");
        assert_eq!(sent(|on| on.xackdel("k", "g", ID)), "XACKDEL [k] g IDS 1 1-2");
        let acked = StreamReferences::Acked;
        assert_eq!(sent(|on| on.xackdel_with("k", "g", [ID, ID], acked)), "XACKDEL [k] g ACKED IDS 2 1-2 1-2");

        assert_eq!(sent(|on| on.xpending("k", "g")), "XPENDING [k] g");
        assert_eq!(sent(|on| on.xpending_range("k", "g", .., 10)), "XPENDING [k] g - + 10");
        let options = XpendingOptions::new().consumer("c").idle(MS / 2);
        assert_eq!(sent(|on| on.xpending_range_with("k", "g", ID.., 10, options)), "XPENDING [k] g IDLE 1 1-2 + 10 c");

        assert_eq!(sent(|on| on.xclaim::<Fields>("k", "g", "c", MS, [ID, ID])), "XCLAIM [k] g c 1 1-2 1-2");
        assert_eq!(sent(|on| on.xclaim::<Fields>("k", "g", "c", MS, ())), "refused");
        assert_eq!(sent(|on| on.xclaim_justid("k", "g", "c", MS, ID)), "XCLAIM [k] g c 1 1-2 JUSTID");
        let options = XclaimOptions::new().idle(7 * MS).retry_count(3).force().last_id(ID);
        assert_eq!(
            sent(|on| on.xclaim_with::<Fields>("k", "g", "c", MS, ID, options)),
            "XCLAIM [k] g c 1 1-2 IDLE 7 RETRYCOUNT 3 FORCE LASTID 1-2"
        );
        let options = XclaimOptions::new().idle(MS).time(SystemTime::UNIX_EPOCH + 1500 * MS);
        assert_eq!(
            sent(|on| on.xclaim_justid_with("k", "g", "c", MS, ID, options)),
            "XCLAIM [k] g c 1 1-2 TIME 1500 JUSTID"
        );

        let min = StreamBound::Min;
        assert_eq!(sent(|on| on.xautoclaim::<Fields>("k", "g", "c", MS, ID)), "XAUTOCLAIM [k] g c 1 1-2");
        assert_eq!(
            sent(|on| on.xautoclaim_count::<Fields>("k", "g", "c", MS, StreamBound::Excluded(ID), 5)),
            "XAUTOCLAIM [k] g c 1 (1-2 COUNT 5"
        );
        assert_eq!(sent(|on| on.xautoclaim_justid("k", "g", "c", MS, min)), "XAUTOCLAIM [k] g c 1 - JUSTID");
        assert_eq!(
            sent(|on| on.xautoclaim_justid_count("k", "g", "c", MS, min, 5)),
            "XAUTOCLAIM [k] g c 1 - COUNT 5 JUSTID"
        );
    }

    #[test]
    fn blocking_reads_say_for_how_long() {
        type Read = Fields;
        let streams = [("a", ReadFrom::New), ("b", ReadFrom::After(ID))];
        let read = |timeout: Option<Duration>| sent(|on| on.xread_block::<String, Read>(streams, timeout));
        assert_eq!(read(Some(50 * MS)), "XREAD BLOCK 50 STREAMS [a] [b] $ 1-2 ~50ms");
        assert_eq!(read(Some(Duration::ZERO)), "XREAD BLOCK 1 STREAMS [a] [b] $ 1-2 ~1ms");
        assert_eq!(read(Some(Duration::from_micros(1001))), "XREAD BLOCK 2 STREAMS [a] [b] $ 1-2 ~2ms");
        assert_eq!(read(None), "XREAD BLOCK 0 STREAMS [a] [b] $ 1-2 ~");
        let got = sent(|on| on.xread_block_with::<String, Read>(streams, MS, XreadOptions::new().count(2)));
        assert_eq!(got, "XREAD COUNT 2 BLOCK 1 STREAMS [a] [b] $ 1-2 ~1ms");
        let streams = ("a", GroupRead::Undelivered);
        assert_eq!(
            sent(|on| on.xreadgroup_block::<String, Read>("g", "c", streams, None)),
            "XREADGROUP GROUP g c BLOCK 0 STREAMS [a] > ~"
        );
        let options = XreadgroupOptions::new().count(2).noack();
        assert_eq!(
            sent(|on| on.xreadgroup_block_with::<String, Read>("g", "c", streams, MS, options)),
            "XREADGROUP GROUP g c COUNT 2 NOACK BLOCK 1 STREAMS [a] > ~1ms"
        );
        let options = XreadgroupOptions::new().claim(Duration::from_secs(3));
        assert_eq!(
            sent(|on| on.xreadgroup_block_with::<String, Read>("g", "c", streams, None, options)),
            "XREADGROUP GROUP g c CLAIM 3000 BLOCK 0 STREAMS [a] > ~"
        );
    }

    #[test]
    fn iterators_ask_for_pages() {
        assert_eq!(sent(|on| drop(on.xrange_all::<Fields>("k", ..))), "");
        assert_eq!(sent(|on| on.xrange_all::<Fields>("k", ID..).next()), "XRANGE [k] 1-2 + COUNT 100");
        assert_eq!(sent(|on| on.xrange_all::<Fields>("k", ..).page(0).next()), "XRANGE [k] - + COUNT 1");
        let follow = |from: ReadFrom| sent(|on| on.xread_follow::<Fields>("k", from, None).page(7).next());
        assert_eq!(follow(ID.into()), "XREAD COUNT 7 BLOCK 0 STREAMS [k] 1-2 ~");
        assert_eq!(follow(ReadFrom::New), "XREVRANGE [k] + - COUNT 1");
        assert_eq!(follow(ReadFrom::Last), "XREVRANGE [k] + - COUNT 1");
    }

    #[test]
    fn what_was_read_is_the_same_in_both_protocols() {
        type Read = Option<ReadStreams<String, Fields>>;
        let body = "*1 *2 $3 1-2 *4 $1 f $1 v $1 g $1 w";
        let fields = vec![("f".into(), "v".into()), ("g".into(), "w".into())];
        for wire in [format!("*1 *2 $1 x {body}"), format!("%1 $1 x {body}")] {
            let read = decode::<Read>(&wire).unwrap();
            assert_eq!(read, Some(vec![("x".into(), vec![Entry { id: ID, fields: fields.clone() }])]));
        }
        for wire in ["*1 *2 $1 x *0", "%1 $1 x *0"] {
            assert_eq!(decode::<Read>(wire).unwrap(), Some(vec![("x".into(), vec![])]));
        }
        for wire in ["*-1", "_"] {
            assert_eq!(decode::<Read>(wire).unwrap(), None);
        }
        let deletions = decode::<Vec<StreamDeletion>>("*3 :1 :-1 :2").unwrap();
        assert_eq!(deletions, [StreamDeletion::Deleted, StreamDeletion::Missing, StreamDeletion::Referenced]);
        assert!(decode::<StreamDeletion>(":0").is_err());
    }
}
