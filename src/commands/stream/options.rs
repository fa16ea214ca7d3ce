//! Options of the commands on streams.

use std::time::{Duration, SystemTime};

use super::entry::StreamId;
use crate::args::{Arg, ArgWriter, Gathered, ToArg, ToArgs, ToPairs, gather};
use crate::commands::parts::{Flag, Maybe, Named, Owned, millis, parts_to_args, unix_millis, word_to_arg};
use crate::error::{Result, UnexpectedReply};
use crate::resp::{Frame, encode};
use crate::values::FromReply;

/// The ID of a new entry: see [`xadd`](super::StreamCommands::xadd).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum NewId {
    /// The server's time and the next number (`*`), or the next ID after the last one if its clock was turned back.
    #[default]
    Auto,
    /// This many milliseconds, and the next number in them (`ms-*`, since 7.0).
    AutoSeq(u64),
    /// This ID, which must be greater than that of every entry before.
    Exact(StreamId),
}

impl From<StreamId> for NewId {
    fn from(id: StreamId) -> Self {
        NewId::Exact(id)
    }
}

impl ToArg for NewId {
    fn to_arg(&self) -> Arg<'_> {
        match self {
            NewId::Auto => Arg::from("*"),
            NewId::AutoSeq(ms) => Arg::from(format!("{ms}-*")),
            NewId::Exact(id) => id.to_arg(),
        }
    }
    const DIRECT: bool = true;
}

/// What becomes of the references that consumer groups have to an entry that is deleted: that it was delivered and is
/// not acknowledged. Since Redis 8.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StreamReferences {
    /// They stay, to an entry without fields (KEEPREF).
    #[default]
    Keep,
    /// They go with it, in all groups (DELREF).
    Delete,
    /// Only entries are deleted that all groups have read and acknowledged (ACKED).
    Acked,
}

impl StreamReferences {
    fn word(self) -> &'static str {
        match self {
            StreamReferences::Keep => "KEEPREF",
            StreamReferences::Delete => "DELREF",
            StreamReferences::Acked => "ACKED",
        }
    }
}

/// Which old entries go: those over a number ([`max_len`](StreamTrim::max_len)), or those below an ID
/// ([`min_id`](StreamTrim::min_id)).
///
/// ```
/// use redefer::commands::{StreamId, StreamTrim};
///
/// let _exactly_100_stay = StreamTrim::max_len(100);
/// let _at_least_100_stay = StreamTrim::max_len(100).approx();
/// let _those_of_the_last_year = StreamTrim::min_id(StreamId::new(1_700_000_000_000, 0)).limit(1000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub struct StreamTrim {
    threshold: Threshold,
    approx: bool,
    limit: Option<u64>,
    references: Option<StreamReferences>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Threshold {
    MaxLen(u64),
    MinId(StreamId),
}

impl StreamTrim {
    fn new(threshold: Threshold) -> Self {
        StreamTrim { threshold, approx: false, limit: None, references: None }
    }

    /// The newest entries stay, so many (MAXLEN).
    pub fn max_len(entries: u64) -> Self {
        StreamTrim::new(Threshold::MaxLen(entries))
    }

    /// The entries with this ID or a greater one stay (MINID, since 6.2).
    pub fn min_id(id: StreamId) -> Self {
        StreamTrim::new(Threshold::MinId(id))
    }

    /// More may stay, if the server has less work then (`~`): it removes only whole nodes of its tree.
    pub fn approx(mut self) -> Self {
        self.approx = true;
        self
    }

    /// Looks at about so many entries at the most (LIMIT, since 6.2); 0 is without limit, and without this option it is
    /// 100 nodes of the tree. The server takes it only with [`approx`](StreamTrim::approx), which is implied.
    pub fn limit(mut self, entries: u64) -> Self {
        self.limit = Some(entries);
        self.approx()
    }

    /// What becomes of references to the entries that go (KEEPREF, DELREF, ACKED: since Redis 8.2).
    pub fn references(mut self, references: StreamReferences) -> Self {
        self.references = Some(references);
        self
    }

    fn parts(&self) -> impl ToArgs {
        let (maxlen, minid) = match self.threshold {
            Threshold::MaxLen(entries) => (Some(entries), None),
            Threshold::MinId(id) => (None, Some(id)),
        };
        let how = if self.approx { "~" } else { "=" };
        let threshold =
            (Named("MAXLEN", maxlen.map(|entries| (how, entries))), Named("MINID", minid.map(|id| (how, id))));
        (threshold, Named("LIMIT", self.limit), self.references)
    }
}

/// Options of XADD: see [`xadd_with`](super::StreamCommands::xadd_with).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct XaddOptions {
    nomkstream: bool,
    trim: Option<StreamTrim>,
}

impl XaddOptions {
    /// No options.
    pub fn new() -> Self {
        XaddOptions::default()
    }

    /// Only if the stream exists (NOMKSTREAM, since 6.2).
    pub fn nomkstream(mut self) -> Self {
        self.nomkstream = true;
        self
    }

    /// Removes old entries, counted with the new one.
    pub fn trim(mut self, trim: StreamTrim) -> Self {
        self.trim = Some(trim);
        self
    }

    fn parts(&self) -> impl ToArgs {
        (Flag("NOMKSTREAM", self.nomkstream), Maybe(self.trim.as_ref()))
    }
}

/// Options of XCLAIM: see [`xclaim_with`](super::StreamCommands::xclaim_with).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct XclaimOptions {
    idle: Option<Idle>,
    retry_count: Option<u64>,
    force: bool,
    last_id: Option<StreamId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Idle {
    For(Duration),
    Since(SystemTime),
}

impl XclaimOptions {
    /// No options.
    pub fn new() -> Self {
        XclaimOptions::default()
    }

    /// The entries were delivered this long ago, instead of now (IDLE); in milliseconds, rounded up. In place of
    /// [`time`](XclaimOptions::time).
    pub fn idle(mut self, time: Duration) -> Self {
        self.idle = Some(Idle::For(time));
        self
    }

    /// The entries were delivered at this time by the server's clock, instead of now (TIME); in milliseconds, rounded
    /// up. In place of [`idle`](XclaimOptions::idle).
    pub fn time(mut self, time: SystemTime) -> Self {
        self.idle = Some(Idle::Since(time));
        self
    }

    /// The entries were delivered so many times (RETRYCOUNT), instead of once more.
    pub fn retry_count(mut self, deliveries: u64) -> Self {
        self.retry_count = Some(deliveries);
        self
    }

    /// Also entries that nobody has (FORCE), if they are in the stream.
    pub fn force(mut self) -> Self {
        self.force = true;
        self
    }

    /// Sets the ID of the group's last delivered entry, if this one is greater (LASTID).
    pub fn last_id(mut self, id: StreamId) -> Self {
        self.last_id = Some(id);
        self
    }

    fn parts(&self) -> impl ToArgs {
        let (idle, time) = match self.idle {
            None => (None, None),
            Some(Idle::For(time)) => (Some(millis(time)), None),
            Some(Idle::Since(time)) => (None, Some(unix_millis(time))),
        };
        (
            Named("IDLE", idle),
            Named("TIME", time),
            Named("RETRYCOUNT", self.retry_count),
            Flag("FORCE", self.force),
            Named("LASTID", self.last_id),
        )
    }
}

/// From where on a consumer group delivers: see [`xgroup_create`](super::StreamCommands::xgroup_create).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GroupStart {
    /// What is added from now on (`$`).
    New,
    /// The entries after this ID; all with [`StreamId::MIN`].
    After(StreamId),
}

impl From<StreamId> for GroupStart {
    fn from(id: StreamId) -> Self {
        GroupStart::After(id)
    }
}

impl ToArg for GroupStart {
    fn to_arg(&self) -> Arg<'_> {
        match self {
            GroupStart::New => Arg::from("$"),
            GroupStart::After(id) => id.to_arg(),
        }
    }
    const DIRECT: bool = true;
}

/// Options of XGROUP CREATE: see [`xgroup_create_with`](super::StreamCommands::xgroup_create_with).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct XgroupCreateOptions {
    mkstream: bool,
    entries_read: Option<u64>,
}

impl XgroupCreateOptions {
    /// No options.
    pub fn new() -> Self {
        XgroupCreateOptions::default()
    }

    /// Makes an empty stream if there is none (MKSTREAM).
    pub fn mkstream(mut self) -> Self {
        self.mkstream = true;
        self
    }

    /// How many entries the group has read (ENTRIESREAD, since 7.0), from which the server reckons its lag.
    pub fn entries_read(mut self, entries: u64) -> Self {
        self.entries_read = Some(entries);
        self
    }

    fn parts(&self) -> impl ToArgs {
        (Flag("MKSTREAM", self.mkstream), Named("ENTRIESREAD", self.entries_read))
    }
}

/// Options of XGROUP SETID: see [`xgroup_setid_with`](super::StreamCommands::xgroup_setid_with).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct XgroupSetidOptions {
    entries_read: Option<u64>,
}

impl XgroupSetidOptions {
    /// No options.
    pub fn new() -> Self {
        XgroupSetidOptions::default()
    }

    /// How many entries the group has read (ENTRIESREAD, since 7.0), from which the server reckons its lag.
    pub fn entries_read(mut self, entries: u64) -> Self {
        self.entries_read = Some(entries);
        self
    }

    fn parts(&self) -> impl ToArgs {
        Named("ENTRIESREAD", self.entries_read)
    }
}

/// Options of XPENDING: see [`xpending_range_with`](super::StreamCommands::xpending_range_with).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct XpendingOptions {
    idle: Option<Duration>,
    consumer: Option<Owned>,
}

impl XpendingOptions {
    /// No options.
    pub fn new() -> Self {
        XpendingOptions::default()
    }

    /// Only entries that were delivered at least this long ago (IDLE, since 6.2); in milliseconds, rounded up.
    pub fn idle(mut self, time: Duration) -> Self {
        self.idle = Some(time);
        self
    }

    /// Only entries of this consumer.
    pub fn consumer(mut self, name: impl ToArg) -> Self {
        self.consumer = Some(Owned::new(name));
        self
    }

    /// What stands before the range, and what behind it.
    pub(super) fn parts(&self) -> (impl ToArgs + use<>, Option<&Owned>) {
        (Named("IDLE", self.idle.map(millis)), self.consumer.as_ref())
    }
}

/// From where on a stream is read: see [`xread`](super::StreamCommands::xread).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReadFrom {
    /// The entries after this ID; all with [`StreamId::MIN`].
    After(StreamId),
    /// What is added from now on (`$`). There is never anything of that yet, so it is for commands that wait.
    New,
    /// The last entry (`+`, since Redis 7.4 and Valkey 8.0).
    Last,
}

impl From<StreamId> for ReadFrom {
    fn from(id: StreamId) -> Self {
        ReadFrom::After(id)
    }
}

impl ToArg for ReadFrom {
    fn to_arg(&self) -> Arg<'_> {
        match self {
            ReadFrom::After(id) => id.to_arg(),
            ReadFrom::New => Arg::from("$"),
            ReadFrom::Last => Arg::from("+"),
        }
    }
    const DIRECT: bool = true;
}

/// What a consumer of a group reads: see [`xreadgroup`](super::StreamCommands::xreadgroup).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GroupRead {
    /// Entries that were delivered to no consumer of the group (`>`).
    Undelivered,
    /// The entries after this ID that were delivered to this consumer and are not acknowledged; all with
    /// [`StreamId::MIN`].
    Pending(StreamId),
}

impl ToArg for GroupRead {
    fn to_arg(&self) -> Arg<'_> {
        match self {
            GroupRead::Undelivered => Arg::from(">"),
            GroupRead::Pending(id) => id.to_arg(),
        }
    }
    const DIRECT: bool = true;
}

/// Options of XREAD: see [`xread_with`](super::StreamCommands::xread_with).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct XreadOptions {
    count: Option<u64>,
}

impl XreadOptions {
    /// No options.
    pub fn new() -> Self {
        XreadOptions::default()
    }

    /// Up to so many entries of each stream (COUNT); 0 is all.
    pub fn count(mut self, entries: u64) -> Self {
        self.count = Some(entries);
        self
    }

    fn parts(&self) -> impl ToArgs {
        Named("COUNT", self.count)
    }
}

/// Options of XREADGROUP: see [`xreadgroup_with`](super::StreamCommands::xreadgroup_with).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct XreadgroupOptions {
    count: Option<u64>,
    claim: Option<Duration>,
    noack: bool,
}

impl XreadgroupOptions {
    /// No options.
    pub fn new() -> Self {
        XreadgroupOptions::default()
    }

    /// Up to so many entries of each stream (COUNT); 0 is all.
    pub fn count(mut self, entries: u64) -> Self {
        self.count = Some(entries);
        self
    }

    /// Before entries that were delivered to nobody, takes over those that were delivered to a consumer of the group at
    /// least this long ago and are not acknowledged, the oldest delivery first (CLAIM, since Redis 8.4); in milliseconds,
    /// rounded up. Without effect where pending entries are asked for.
    ///
    /// The server adds to each entry how long ago it was delivered last, and how many times so far, which is passed over
    /// here; [`xpending_range`](super::StreamCommands::xpending_range) tells the deliveries, this one included.
    pub fn claim(mut self, min_idle: Duration) -> Self {
        self.claim = Some(min_idle);
        self
    }

    /// Takes the entries for acknowledged (NOACK): what the program fails to work on is lost. Entries that are
    /// [claimed](XreadgroupOptions::claim) stay pending.
    pub fn noack(mut self) -> Self {
        self.noack = true;
        self
    }

    fn parts(&self) -> impl ToArgs {
        (Named("COUNT", self.count), Named("CLAIM", self.claim.map(millis)), Flag("NOACK", self.noack))
    }
}

/// Options of XSETID: see [`xsetid_with`](super::StreamCommands::xsetid_with).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct XsetidOptions {
    entries_added: Option<u64>,
    max_deleted_id: Option<StreamId>,
}

impl XsetidOptions {
    /// No options.
    pub fn new() -> Self {
        XsetidOptions::default()
    }

    /// How many entries were ever added (ENTRIESADDED, since 7.0).
    pub fn entries_added(mut self, entries: u64) -> Self {
        self.entries_added = Some(entries);
        self
    }

    /// The greatest ID of an entry that was deleted (MAXDELETEDID, since 7.0).
    pub fn max_deleted_id(mut self, id: StreamId) -> Self {
        self.max_deleted_id = Some(id);
        self
    }

    fn parts(&self) -> impl ToArgs {
        (Named("ENTRIESADDED", self.entries_added), Named("MAXDELETEDID", self.max_deleted_id))
    }
}

parts_to_args!(
    StreamTrim,
    XaddOptions,
    XclaimOptions,
    XgroupCreateOptions,
    XgroupSetidOptions,
    XreadOptions,
    XreadgroupOptions,
    XsetidOptions,
);
word_to_arg!(StreamReferences);

/// What became of one entry under XDELEX and XACKDEL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamDeletion {
    /// There is no such entry, or no such key; under XACKDEL, the group has no such entry to be acknowledged.
    Missing,
    /// It was deleted.
    Deleted,
    /// It stays, since a group has not read it or not acknowledged it ([`StreamReferences::Acked`]). The answer is the
    /// same for an ID that no group has come to yet, whether there is such an entry or not.
    Referenced,
}

impl FromReply for StreamDeletion {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        match i64::from_reply(frame)? {
            -1 => Ok(StreamDeletion::Missing),
            1 => Ok(StreamDeletion::Deleted),
            2 => Ok(StreamDeletion::Referenced),
            _ => Err(UnexpectedReply::new("-1, 1 or 2", "another integer").into()),
        }
    }
}

/// Streams and places in them, given as pairs and sent as all keys and then all places.
#[derive(Debug)]
pub(super) struct Streams {
    pairs: Result<Gathered>,
}

impl Streams {
    pub(super) fn new(pairs: impl ToPairs) -> Self {
        Streams { pairs: gather(|out| pairs.write_args(out)) }
    }

    pub(super) fn keys(&self) -> EverySecond<'_> {
        EverySecond { streams: self, first: 0 }
    }

    pub(super) fn places(&self) -> EverySecond<'_> {
        EverySecond { streams: self, first: 1 }
    }
}

/// The first ones of pairs, or the second ones.
#[derive(Debug)]
pub(super) struct EverySecond<'a> {
    streams: &'a Streams,
    first: usize,
}

impl ToArgs for EverySecond<'_> {
    fn write_args(&self, out: &mut ArgWriter<'_>) {
        let pairs = match &self.streams.pairs {
            Ok(pairs) => &pairs.bytes,
            Err(error) => return out.fail(error.clone()),
        };
        let ranges = encode::bulk_ranges(pairs, 0).skip(self.first).step_by(2);
        ranges.for_each(|range| out.arg(&pairs[range]));
    }
    // Since it may fail.
    const DIRECT: bool = false;
}
