//! What XINFO, XPENDING and XAUTOCLAIM answer.

use std::time::{Duration, SystemTime};

use super::entry::{Entry, Parts, StreamId};
use crate::commands::record::{Field, millis, plain, record, since_epoch};
use crate::error::Result;
use crate::resp::Frame;
use crate::values::FromReply;

/// Milliseconds, or -1 for never.
fn time_if_ever(frame: Frame<'_>) -> Result<Option<Duration>> {
    i64::from_reply(frame).map(|ms| u64::try_from(ms).ok().map(Duration::from_millis))
}

/// Milliseconds since 1970, or -1 for never.
fn date_if_ever(frame: Frame<'_>) -> Result<Option<SystemTime>> {
    Ok(time_if_ever(frame)?.and_then(since_epoch))
}

record! {
    /// A stream: see [`xinfo_stream`](super::StreamCommands::xinfo_stream).
    ///
    /// `T` is what the fields of entries are read into, as in [`Entry`].
    StreamInfo<T>: "a stream" {
        /// How many entries there are.
        "length" length: u64,
        /// How many keys the tree has that the entries are in.
        "radix-tree-keys" radix_tree_keys: u64,
        /// How many nodes that tree has.
        "radix-tree-nodes" radix_tree_nodes: u64,
        /// The greatest ID that was ever added.
        "last-generated-id" last_generated_id: StreamId = plain,
        /// The greatest ID that was ever deleted; `0-0` is none. Since 7.0.
        "max-deleted-entry-id" max_deleted_entry_id: StreamId = plain,
        /// How many entries were ever added. Since 7.0.
        "entries-added" entries_added: u64,
        /// The ID of the first entry as the server has noted it; `0-0` is none. Since 7.0.
        "recorded-first-entry-id" recorded_first_entry_id: StreamId = plain,
        /// How many consumer groups there are.
        "groups" groups: u64,
        /// The first entry; `None` if there are none.
        "first-entry" first_entry: Option<Entry<T>> = plain,
        /// The last entry; `None` if there are none.
        "last-entry" last_entry: Option<Entry<T>> = plain,
    }
}

record! {
    /// A stream with its entries, groups and consumers: see
    /// [`xinfo_stream_full`](super::StreamCommands::xinfo_stream_full).
    ///
    /// `T` is what the fields of entries are read into, as in [`Entry`].
    StreamInfoFull<T>: "a stream" {
        /// How many entries there are.
        "length" length: u64,
        /// How many keys the tree has that the entries are in.
        "radix-tree-keys" radix_tree_keys: u64,
        /// How many nodes that tree has.
        "radix-tree-nodes" radix_tree_nodes: u64,
        /// The greatest ID that was ever added.
        "last-generated-id" last_generated_id: StreamId = plain,
        /// The greatest ID that was ever deleted; `0-0` is none. Since 7.0.
        "max-deleted-entry-id" max_deleted_entry_id: StreamId = plain,
        /// How many entries were ever added. Since 7.0.
        "entries-added" entries_added: u64,
        /// The ID of the first entry as the server has noted it; `0-0` is none. Since 7.0.
        "recorded-first-entry-id" recorded_first_entry_id: StreamId = plain,
        /// The first entries.
        "entries" entries: Vec<Entry<T>> = plain,
        /// The consumer groups.
        "groups" groups: Vec<GroupInfoFull>,
    }
}

record! {
    /// A consumer group with its consumers, in a [`StreamInfoFull`].
    GroupInfoFull: "a consumer group" {
        /// The group's name.
        "name" name: String,
        /// The ID of the last entry that was delivered to a consumer.
        "last-delivered-id" last_delivered_id: StreamId = plain,
        /// How many entries the group has read, if the server knows. Since 7.0.
        "entries-read" entries_read: Option<u64>,
        /// How many entries there are still to be delivered, if the server knows. Since 7.0.
        "lag" lag: Option<u64>,
        /// How many entries were delivered and not acknowledged.
        "pel-count" pel_count: u64,
        /// The first of these entries.
        "pending" pending: Vec<PendingDelivery> = plain,
        /// The group's consumers.
        "consumers" consumers: Vec<ConsumerInfoFull>,
    }
}

record! {
    /// A consumer with its pending entries, in a [`GroupInfoFull`].
    ConsumerInfoFull: "a consumer" {
        /// The consumer's name.
        "name" name: String,
        /// When it last tried to read, claim or acknowledge something.
        "seen-time" seen_time: Option<SystemTime> = date_if_ever,
        /// When it last got something by that; `None` is never. Since 7.2.
        "active-time" active_time: Option<SystemTime> = date_if_ever,
        /// How many entries were delivered to it and not acknowledged.
        "pel-count" pel_count: u64,
        /// The first of these entries.
        "pending" pending: Vec<ConsumerDelivery> = plain,
    }
}

record! {
    /// A consumer group: see [`xinfo_groups`](super::StreamCommands::xinfo_groups).
    GroupInfo: "a consumer group" {
        /// The group's name.
        "name" name: String,
        /// How many consumers it has.
        "consumers" consumers: u64,
        /// How many entries were delivered and not acknowledged.
        "pending" pending: u64,
        /// The ID of the last entry that was delivered to a consumer.
        "last-delivered-id" last_delivered_id: StreamId = plain,
        /// How many entries the group has read, if the server knows. Since 7.0.
        "entries-read" entries_read: Option<u64>,
        /// How many entries there are still to be delivered, if the server knows. Since 7.0.
        "lag" lag: Option<u64>,
    }
}

record! {
    /// A consumer of a group: see [`xinfo_consumers`](super::StreamCommands::xinfo_consumers).
    ConsumerInfo: "a consumer" {
        /// The consumer's name.
        "name" name: String,
        /// How many entries were delivered to it and not acknowledged.
        "pending" pending: u64,
        /// How long ago it tried to read, claim or acknowledge something.
        "idle" idle: Duration = millis,
        /// How long ago it got something by that; `None` is never. Since 7.2.
        "inactive" inactive: Option<Duration> = time_if_ever,
    }
}

/// An entry that was delivered and not acknowledged, in a [`GroupInfoFull`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct PendingDelivery {
    /// The entry.
    pub id: StreamId,
    /// The consumer that has it.
    pub consumer: String,
    /// When it was last delivered.
    pub time: Option<SystemTime>,
    /// How many times it was delivered.
    pub deliveries: u64,
}

impl FromReply for PendingDelivery {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let mut parts = Parts::new(frame, "a pending entry")?;
        let (id, consumer) = (parts.next()?, parts.next::<Name>()?.0);
        Ok(PendingDelivery { id, consumer, time: parts.next::<Date>()?.0, deliveries: parts.next()? })
    }
}

/// An entry that was delivered to a consumer and not acknowledged, in a [`ConsumerInfoFull`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ConsumerDelivery {
    /// The entry.
    pub id: StreamId,
    /// When it was last delivered.
    pub time: Option<SystemTime>,
    /// How many times it was delivered.
    pub deliveries: u64,
}

impl FromReply for ConsumerDelivery {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let mut parts = Parts::new(frame, "a pending entry of a consumer")?;
        Ok(ConsumerDelivery { id: parts.next()?, time: parts.next::<Date>()?.0, deliveries: parts.next()? })
    }
}

/// The name of a group or a consumer, which may be any bytes.
struct Name(String);

impl FromReply for Name {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        Field::field(frame).map(Name)
    }
}

/// Milliseconds since 1970.
struct Date(Option<SystemTime>);

impl FromReply for Date {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        date_if_ever(frame).map(Date)
    }
}

/// What a group has delivered and not seen acknowledged: see [`xpending`](super::StreamCommands::xpending).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct PendingSummary {
    /// How many entries there are.
    pub count: u64,
    /// The smallest ID among them; `None` if there are none.
    pub min: Option<StreamId>,
    /// The greatest ID among them; `None` if there are none.
    pub max: Option<StreamId>,
    /// The consumers that have any, and how many.
    pub consumers: Vec<(String, u64)>,
}

impl FromReply for PendingSummary {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let mut parts = Parts::new(frame, "a summary of pending entries")?;
        let (count, min, max) = (parts.next()?, parts.next()?, parts.next()?);
        let consumers: Option<Vec<(Name, u64)>> = parts.next()?;
        let consumers = consumers.unwrap_or_default().into_iter().map(|(name, count)| (name.0, count)).collect();
        Ok(PendingSummary { count, min, max, consumers })
    }
}

/// An entry that was delivered and not acknowledged: see [`xpending_range`](super::StreamCommands::xpending_range).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct PendingEntry {
    /// The entry.
    pub id: StreamId,
    /// The consumer that has it.
    pub consumer: String,
    /// How long ago it was last delivered.
    pub idle: Duration,
    /// How many times it was delivered.
    pub deliveries: u64,
}

impl FromReply for PendingEntry {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let mut parts = Parts::new(frame, "a pending entry")?;
        let (id, consumer) = (parts.next()?, parts.next::<Name>()?.0);
        Ok(PendingEntry { id, consumer, idle: Duration::from_millis(parts.next()?), deliveries: parts.next()? })
    }
}

/// What XAUTOCLAIM has claimed: see [`xautoclaim`](super::StreamCommands::xautoclaim).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Autoclaimed<T> {
    /// Where to go on; [`StreamId::MIN`] when all were looked at, and then to begin again: see
    /// [`go_on`](Autoclaimed::go_on).
    pub next: StreamId,
    /// The entries, or their IDs, that belong to the consumer now.
    pub claimed: Vec<T>,
    /// Entries that were pending but are in the stream no longer; they are pending no longer either. Since 7.0.
    pub deleted: Vec<StreamId>,
}

impl<T> Autoclaimed<T> {
    /// The ID to go on at, or `None` if every pending entry was looked at.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use redefer::{commands::StreamId, prelude::*};
    /// # fn main() -> redefer::Result<()> {
    /// # let conn = Connection::open("redis://127.0.0.1:6379")?;
    /// let mut start = Some(StreamId::MIN);
    /// while let Some(from) = start {
    ///     let some = conn.xautoclaim::<Vec<(String, String)>>("orders", "packers", "ann", Duration::from_secs(60), from);
    ///     let some = some.wait()?;
    ///     start = some.go_on();
    ///     for entry in some.claimed {
    ///         println!("{}: {:?}", entry.id, entry.fields);
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn go_on(&self) -> Option<StreamId> {
        (self.next != StreamId::MIN).then_some(self.next)
    }
}

impl<T: FromReply> FromReply for Autoclaimed<T> {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let mut parts = Parts::new(frame, "what was claimed")?;
        let next = parts.next()?;
        // Nil stands for a deleted entry in 6.2.
        let claimed: Vec<Option<T>> = parts.next()?;
        Ok(Autoclaimed { next, claimed: claimed.into_iter().flatten().collect(), deleted: parts.next_or_default()? })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::Value;
    use crate::commands::stream::tests::decode;

    #[test]
    fn names_without_a_field_are_kept_and_missing_ones_are_no_error() {
        for wire in ["*6 $4 name $1 g $3 new *1 :7 $3 lag $-1", "%3 $4 name $1 g +new *1 :7 $3 lag _"] {
            let group = decode::<GroupInfo>(wire).unwrap();
            assert_eq!((group.name.as_str(), group.consumers, group.lag), ("g", 0, None));
            assert_eq!(group.other, HashMap::from([("new".to_owned(), Value::Array(vec![Value::Integer(7)]))]));
        }
        assert!(decode::<GroupInfo>("*1 $4 name").is_err());
        assert!(decode::<GroupInfo>(":1").is_err());
        assert!(matches!(decode::<Option<GroupInfo>>("_"), Ok(None)));
        let info = decode::<StreamInfo<Vec<String>>>("*4 $6 length :0 $11 first-entry _").unwrap();
        assert_eq!((info.first_entry, info.last_entry, info.max_deleted_entry_id), (None, None, StreamId::MIN));
    }

    #[test]
    fn never_is_no_time() {
        let consumer = decode::<ConsumerInfo>("%3 $4 name $1 c $4 idle :5 $8 inactive :-1").unwrap();
        assert_eq!((consumer.idle, consumer.inactive), (Duration::from_millis(5), None));
        let consumer = decode::<ConsumerInfoFull>("%2 $9 seen-time :1500 $11 active-time :-1").unwrap();
        let seen = SystemTime::UNIX_EPOCH + Duration::from_millis(1500);
        assert_eq!((consumer.seen_time, consumer.active_time), (Some(seen), None));
    }

    #[test]
    fn pending_entries_are_summed_up_or_not() {
        let nothing = decode::<PendingSummary>("*4 :0 $-1 $-1 *-1").unwrap();
        assert_eq!((nothing.count, nothing.min, nothing.consumers), (0, None, vec![]));
        let one = decode::<PendingSummary>("*4 :1 $3 1-1 $3 1-1 *1 *2 $2 c1 $1 1").unwrap();
        assert_eq!((one.max, one.consumers), (Some(StreamId::new(1, 1)), vec![("c1".into(), 1)]));
        let entry = decode::<PendingEntry>("*4 $3 1-1 $2 c1 :7 :2").unwrap();
        let idle = Duration::from_millis(7);
        assert_eq!(entry, PendingEntry { id: StreamId::new(1, 1), consumer: "c1".into(), idle, deliveries: 2 });
    }

    #[test]
    fn what_was_claimed_comes_with_two_parts_or_three() {
        type Claimed = Autoclaimed<Entry<Vec<(String, String)>>>;
        let id = StreamId::new(1, 1);
        let claimed = decode::<Claimed>("*3 $3 0-0 *1 *2 $3 1-1 *2 $1 f $1 v *0").unwrap();
        assert_eq!(claimed.claimed, [Entry { id, fields: vec![("f".into(), "v".into())] }]);
        let claimed = decode::<Claimed>("*3 $3 0-0 *0 *1 $3 1-1").unwrap();
        assert_eq!((claimed.claimed, claimed.deleted), (vec![], vec![id]));
        let claimed = decode::<Claimed>("*2 $3 2-0 *1 $-1").unwrap();
        assert_eq!(claimed, Autoclaimed { next: StreamId::new(2, 0), ..Autoclaimed::default() }, "Redis 6.2");
        let claimed = decode::<Autoclaimed<StreamId>>("*3 $3 0-0 *1 $3 1-1 *0").unwrap();
        assert_eq!(claimed.claimed, [id]);
    }
}
