//! The commands on streams, each on a real server.
#![cfg(feature = "testing")]

mod support;

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant, SystemTime};

use redefer::Result;
use redefer::commands::{
    Entry, GroupRead, GroupStart, NewId, ReadFrom, ReadStreams, StreamBound, StreamDeletion, StreamId, StreamRange,
    StreamReferences, StreamTrim, XaddOptions, XclaimOptions, XgroupCreateOptions, XgroupSetidOptions, XpendingOptions,
    XreadOptions, XreadgroupOptions, XsetidOptions,
};
use redefer::prelude::*;
use redefer::resp::Frame;

type Fields = Vec<(String, String)>;
type Read<T> = Option<ReadStreams<String, T>>;

const MS: Duration = Duration::from_millis(1);

/// Whether the server knows a command.
fn has(conn: &Connection, command: &str) -> Result<bool> {
    let info: Vec<Value> = conn.command("COMMAND", ("INFO", command)).wait()?;
    Ok(info.first().is_some_and(|entry| !entry.is_nil()))
}

fn id(ms: u64, seq: u64) -> StreamId {
    StreamId::new(ms, seq)
}

fn pairs(fields: &[(&str, &str)]) -> Fields {
    fields.iter().map(|(field, value)| (field.to_string(), value.to_string())).collect()
}

fn entry(ms: u64, seq: u64, fields: &[(&str, &str)]) -> Entry<Fields> {
    Entry { id: id(ms, seq), fields: pairs(fields) }
}

/// The stream `x` with entries `1-1`, `2-1` and `3-1`.
fn three(conn: &Connection) -> Result<()> {
    conn.xadd("x", id(1, 1), ("f", "v", "g", "w")).wait()?;
    conn.xadd("x", id(2, 1), ("f", "v2")).wait()?;
    conn.xadd("x", id(3, 1), [("f", "v3")]).wait()?;
    Ok(())
}

fn ids(conn: &Connection) -> Result<Vec<u64>> {
    conn.xrange::<Fields>("x", ..).map(|entry| entry.map(|entry| entry.id.ms)).collect()
}

/// The stream `x` of [`three`], with the group `g` whose consumer `c1` has all of it.
fn delivered(conn: &Connection) -> Result<()> {
    three(conn)?;
    conn.xgroup_create("x", "g", StreamId::MIN).wait()?;
    let read: Read<Fields> = conn.xreadgroup("g", "c1", ("x", GroupRead::Undelivered)).wait()?;
    assert_eq!(read.map(|streams| streams[0].1.len()), Some(3));
    Ok(())
}

#[test]
fn entries_are_added_with_all_kinds_of_ids() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let before = SystemTime::now() - Duration::from_secs(1);
    let first = conn.xadd("x", NewId::Auto, ("a", 1)).wait()?;
    assert!(first.time().is_some_and(|time| time > before && time < before + Duration::from_secs(60)), "{first}");
    let far = first.ms + 1_000_000;
    assert_eq!(conn.xadd("x", id(far, 7), HashMap::from([("a", 2)])).wait()?, id(far, 7));
    assert_eq!(conn.xadd("x", NewId::AutoSeq(far), args::each([("a", 3)])).wait()?, id(far, 8));
    assert_eq!(conn.xadd("exact", NewId::Exact(id(1, 2)), ("a", 1)).wait()?, id(1, 2));
    assert_eq!(conn.xadd("x", NewId::Auto, [("a", 4), ("a", 5)]).wait()?, id(far, 9));
    assert_eq!(conn.xlen("x").wait()?, 4);
    assert_eq!(conn.xlen("none").wait()?, 0);
    assert_eq!(conn.xadd("x", id(1, 1), ("a", 1)).wait().unwrap_err().code(), Some("ERR"));
    assert!(matches!(conn.xadd("x", NewId::Auto, Vec::<(String, String)>::new()).wait(), Err(Error::Argument(_))));
    Ok(())
}

#[test]
fn adding_may_not_make_a_stream_and_may_trim_it() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let add = |key: &str, ms, options| conn.xadd_with(key, id(ms, 1), ("f", "v"), options).wait();
    let new = XaddOptions::new;
    assert_eq!(add("none", 1, new().nomkstream())?, None);
    assert_eq!(conn.xadd_with("none", NewId::Auto, ("a", "b"), new().nomkstream()).wait()?, None);
    assert_eq!(conn.exists("none").wait()?, 0);
    assert_eq!(add("x", 1, new())?, Some(id(1, 1)));
    assert_eq!(add("x", 2, new().nomkstream())?, Some(id(2, 1)));
    assert_eq!(add("x", 3, new().trim(StreamTrim::max_len(2)))?, Some(id(3, 1)));
    assert_eq!(ids(&conn)?, [2, 3]);
    add("x", 4, new().trim(StreamTrim::min_id(id(3, 0))).nomkstream())?;
    assert_eq!(ids(&conn)?, [3, 4]);
    // There is only one node, and of one node nothing is removed.
    add("x", 5, new().trim(StreamTrim::max_len(1).approx()))?;
    add("x", 6, new().trim(StreamTrim::min_id(id(6, 0)).limit(1000)))?;
    assert_eq!(ids(&conn)?, [3, 4, 5, 6]);
    if has(&conn, "XDELEX")? {
        conn.xgroup_create("x", "g", StreamId::MIN).wait()?;
        let trim = StreamTrim::max_len(1);
        add("x", 7, new().trim(trim.references(StreamReferences::Acked)))?;
        assert_eq!(ids(&conn)?, [3, 4, 5, 6, 7], "nothing is acknowledged");
        add("x", 8, new().trim(trim.references(StreamReferences::Delete)))?;
        assert_eq!(ids(&conn)?, [8]);
    }
    Ok(())
}

#[test]
fn streams_are_trimmed() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    three(&conn)?;
    assert_eq!(conn.xtrim("x", StreamTrim::max_len(1).approx()).wait()?, 0);
    assert_eq!(conn.xtrim("x", StreamTrim::max_len(1).limit(10)).wait()?, 0);
    assert_eq!(conn.xtrim("x", StreamTrim::min_id(id(2, 1))).wait()?, 1);
    assert_eq!(ids(&conn)?, [2, 3]);
    assert_eq!(conn.xtrim("x", StreamTrim::max_len(1)).wait()?, 1);
    assert_eq!(ids(&conn)?, [3]);
    assert_eq!(conn.xtrim("none", StreamTrim::max_len(0)).wait()?, 0);

    let batch = conn.batch();
    (0..1000).for_each(|n| batch.xadd("long", NewId::Auto, ("n", n)).detach());
    batch.finish()?;
    // Nodes of 100 entries: one may be removed at a time, and at most down to 150.
    assert_eq!(conn.xtrim("long", StreamTrim::max_len(150).limit(100)).wait()?, 100);
    assert_eq!(conn.xtrim("long", StreamTrim::max_len(150).limit(0)).wait()?, 700);
    assert_eq!(conn.xlen("long").wait()?, 200);

    if has(&conn, "XDELEX")? {
        delivered_again(&conn)?;
        let trim = StreamTrim::max_len(0);
        assert_eq!(conn.xtrim("y", trim.references(StreamReferences::Acked)).wait()?, 0);
        conn.xack("y", "g", id(1, 1)).wait()?;
        assert_eq!(conn.xtrim("y", trim.references(StreamReferences::Acked)).wait()?, 1);
        assert_eq!(conn.xtrim("y", trim.references(StreamReferences::Keep)).wait()?, 1);
        assert_eq!(conn.xpending("y", "g").wait()?.count, 1);
    }
    Ok(())
}

/// The stream `y` with two entries, both delivered.
fn delivered_again(conn: &Connection) -> Result<()> {
    conn.del("y").wait()?;
    conn.xadd("y", id(1, 1), ("f", "v")).wait()?;
    conn.xadd("y", id(2, 1), ("f", "v")).wait()?;
    conn.xgroup_create("y", "g", StreamId::MIN).wait()?;
    let _: Read<Fields> = conn.xreadgroup("g", "c", ("y", GroupRead::Undelivered)).wait()?;
    Ok(())
}

#[test]
fn entries_are_deleted() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    three(&conn)?;
    assert_eq!(conn.xdel("x", id(1, 1)).wait()?, 1);
    assert_eq!(conn.xdel("x", [id(1, 1), id(2, 1), id(3, 1)]).wait()?, 2);
    assert_eq!(conn.xdel("none", id(1, 1)).wait()?, 0);
    assert!(matches!(conn.xdel("x", Vec::<StreamId>::new()).wait(), Err(Error::Argument(_))));
    assert_eq!(conn.exists("x").wait()?, 1, "an empty stream stays");

    if has(&conn, "XDELEX")? {
        use StreamDeletion::{Deleted, Missing, Referenced};
        delivered_again(&conn)?;
        let acked = StreamReferences::Acked;
        let all = [id(1, 1), id(2, 1), id(9, 9)];
        let deleted: Vec<StreamDeletion> = conn.xdelex_with("y", all, acked).wait()?;
        assert_eq!(deleted, [Referenced, Referenced, Referenced], "the group has not come to 9-9");
        let deleted: Vec<StreamDeletion> = conn.xdelex("y", [id(1, 1), id(9, 9)]).wait()?;
        assert_eq!(deleted, [Deleted, Missing]);
        assert_eq!(conn.xpending("y", "g").wait()?.count, 2, "the reference stays");
        let deleted: Vec<StreamDeletion> = conn.xdelex_with("y", [id(2, 1)], StreamReferences::Delete).wait()?;
        assert_eq!(deleted, [Deleted]);
        assert_eq!(conn.xpending("y", "g").wait()?.count, 1);
        let deleted: Vec<StreamDeletion> = conn.xdelex_with("none", id(1, 1), StreamReferences::Keep).wait()?;
        assert_eq!(deleted, [Missing]);
    }
    Ok(())
}

#[test]
fn the_last_id_is_set() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    three(&conn)?;
    conn.xsetid("x", id(9, 9)).wait()?;
    assert_eq!(conn.xadd("x", NewId::AutoSeq(9), ("f", "v")).wait()?, id(9, 10));
    assert_eq!(conn.xsetid("x", id(1, 1)).wait().unwrap_err().code(), Some("ERR"));
    assert_eq!(conn.xsetid("none", id(1, 1)).wait().unwrap_err().code(), Some("ERR"));
    let options = XsetidOptions::new().entries_added(20).max_deleted_id(id(1, 0));
    conn.xsetid_with("x", id(10, 0), options).wait()?;
    let info = conn.xinfo_stream::<Fields>("x").wait()?;
    let told = (info.last_generated_id, info.entries_added, info.max_deleted_entry_id);
    assert_eq!(told, (id(10, 0), 20, id(1, 0)));
    Ok(())
}

#[test]
fn ranges_are_read_forwards_and_backwards() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    three(&conn)?;
    let all = [entry(1, 1, &[("f", "v"), ("g", "w")]), entry(2, 1, &[("f", "v2")]), entry(3, 1, &[("f", "v3")])];
    let forwards: Vec<Entry<Fields>> = conn.xrange("x", ..).wait()?;
    assert_eq!(forwards, all);
    let mut backwards: Vec<Entry<Fields>> = conn.xrevrange("x", ..).wait()?;
    backwards.reverse();
    assert_eq!(backwards, all);
    for (n, read) in conn.xrange::<HashMap<String, String>>("x", ..).enumerate() {
        assert_eq!(read?.fields, all[n].fields.iter().cloned().collect());
    }

    let range = |range: StreamRange| -> Result<Vec<u64>> {
        let there: Vec<u64> = conn.xrange::<Value>("x", range).map(|e| e.map(|e| e.id.ms)).collect::<Result<_>>()?;
        let mut back: Vec<u64> =
            conn.xrevrange::<Value>("x", range).map(|e| e.map(|e| e.id.ms)).collect::<Result<_>>()?;
        back.reverse();
        assert_eq!(there, back);
        Ok(there)
    };
    assert_eq!(range((id(2, 1)..).into())?, [2, 3]);
    assert_eq!(range((id(1, 1)..id(3, 1)).into())?, [1, 2]);
    assert_eq!(range((id(1, 1)..=id(3, 1)).into())?, [1, 2, 3]);
    assert_eq!(range((StreamBound::Excluded(id(1, 1)), StreamBound::Max).into())?, [2, 3]);
    assert_eq!(range(StreamRange::new(StreamBound::Min, StreamBound::Included(id(2, 1))))?, [1, 2]);
    assert_eq!(range((2..).into())?, [2, 3]);
    assert_eq!(range((1..=2).into())?, [1, 2]);
    assert_eq!(range((1..2).into())?, [1]);
    assert_eq!(range((..SystemTime::UNIX_EPOCH + 2 * MS).into())?, [1]);
    assert_eq!(range((9..).into())?, [0; 0]);

    let first: Vec<Entry<Fields>> = conn.xrange_count("x", .., 1).wait()?;
    assert_eq!(first, all[..1]);
    let last: Vec<Entry<Fields>> = conn.xrevrange_count("x", .., 1).wait()?;
    assert_eq!(last, all[2..]);
    assert_eq!(conn.xrange::<Fields>("none", ..).count(), 0);
    assert_eq!(conn.xrange_count::<Fields>("x", .., 0).len()?, None, "COUNT 0 is nil");
    assert_eq!(conn.xrevrange_count::<Fields>("x", .., 0).len()?, None);
    Ok(())
}

/// A type of one's own, from the fields and values in turn.
#[derive(Debug, PartialEq)]
struct Order {
    item: String,
    pounds: u32,
}

impl FromReply for Order {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let mut fields = HashMap::<String, String>::from_reply(frame)?;
        let mut take = |name| fields.remove(name).ok_or_else(|| Error::custom("an order lacks something"));
        Ok(Order { item: take("item")?, pounds: take("pounds")?.parse().map_err(Error::custom)? })
    }
}

#[test]
fn entries_are_read_into_types_of_ones_own() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.xadd("x", id(1, 1), ("item", "tea", "pounds", 3)).wait()?;
    conn.xadd("x", id(2, 1), ("item", "milk")).wait()?;
    conn.xadd("x", id(3, 1), ("item", "soap", "pounds", 2)).wait()?;
    let read: Vec<_> = conn.xrange_all::<Order>("x", ..).page(2).collect();
    let order = |ms, item: &str, pounds| Entry { id: id(ms, 1), fields: Order { item: item.into(), pounds } };
    assert_eq!(*read[0].as_ref().unwrap(), order(1, "tea", 3));
    assert!(matches!(read[1], Err(Error::Custom(_))), "and the others are not lost");
    assert_eq!(*read[2].as_ref().unwrap(), order(3, "soap", 2));
    assert_eq!(read.len(), 3);
    let mut follow = conn.xread_follow::<Order>("x", StreamId::MIN, MS);
    assert!(follow.next().unwrap().is_ok() && follow.next().unwrap().is_err());
    assert_eq!(follow.last_id(), Some(id(2, 1)));
    assert!(follow.next().unwrap().is_ok() && follow.next().is_none());
    Ok(())
}

#[test]
fn several_streams_are_read() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    three(&conn)?;
    conn.xadd("y", id(5, 5), ("h", "z")).wait()?;
    let read: Read<Fields> = conn.xread([("x", id(2, 1)), ("none", StreamId::MIN), ("y", StreamId::MIN)]).wait()?;
    let want =
        vec![("x".to_owned(), vec![entry(3, 1, &[("f", "v3")])]), ("y".to_owned(), vec![entry(5, 5, &[("h", "z")])])];
    assert_eq!(read, Some(want));
    assert_eq!(conn.xread::<String, Fields>(("x", id(3, 1))).wait()?, None, "nothing new");
    assert_eq!(conn.xread::<String, Fields>(("x", ReadFrom::New)).wait()?, None);
    let read: Read<Fields> = conn.xread(("x", ReadFrom::After(id(2, 1)))).wait()?;
    assert_eq!(read, Some(vec![("x".into(), vec![entry(3, 1, &[("f", "v3")])])]));
    let positions = BTreeMap::from([("x", StreamId::MIN), ("y", StreamId::MIN)]);
    let read: Read<Value> = conn.xread_with(&positions, XreadOptions::new().count(2)).wait()?;
    let counts: Vec<usize> = read.unwrap_or_default().iter().map(|(_, entries)| entries.len()).collect();
    assert_eq!(counts, [2, 1]);
    assert!(matches!(conn.xread::<String, Fields>(Vec::<(&str, StreamId)>::new()).wait(), Err(Error::Argument(_))));

    let failing = args::try_each([Ok(("x", StreamId::MIN)), Err(Error::custom("no more"))]);
    assert!(matches!(conn.xread::<String, Fields>(failing).wait(), Err(Error::Custom(_))));

    match conn.xread::<String, Fields>(("x", ReadFrom::Last)).wait() {
        Ok(read) => assert_eq!(read, Some(vec![("x".into(), vec![entry(3, 1, &[("f", "v3")])])])),
        Err(error) => assert!(error.to_string().starts_with("ERR Invalid stream ID"), "before 7.4: {error}"),
    }
    Ok(())
}

#[test]
fn groups_are_made_changed_and_removed() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    assert!(conn.xgroup_create("x", "g", StreamId::MIN).wait().is_err(), "there is no stream");
    let options = XgroupCreateOptions::new().mkstream().entries_read(0);
    conn.xgroup_create_with("x", "g", GroupStart::New, options).wait()?;
    assert_eq!(conn.xgroup_create("x", "g", StreamId::MIN).wait().unwrap_err().code(), Some("BUSYGROUP"));
    three(&conn)?;
    conn.xgroup_create("x", "h", GroupStart::New).wait()?;
    assert!(conn.xgroup_createconsumer("x", "g", "c").wait()?);
    assert!(!conn.xgroup_createconsumer("x", "g", "c").wait()?);
    let read: Read<Fields> = conn.xreadgroup("h", "c", ("x", GroupRead::Undelivered)).wait()?;
    assert_eq!(read, None);
    conn.xgroup_setid("x", "h", GroupStart::After(id(1, 1))).wait()?;
    let read: Read<Fields> = conn.xreadgroup("h", "c", ("x", GroupRead::Undelivered)).wait()?;
    assert_eq!(read.unwrap()[0].1.len(), 2);
    conn.xgroup_setid_with("x", "h", GroupStart::New, XgroupSetidOptions::new().entries_read(3)).wait()?;
    let groups: Vec<_> = conn.xinfo_groups("x").wait()?;
    let told: Vec<_> = groups.iter().map(|g| (g.name.as_str(), g.entries_read, g.lag)).collect();
    assert_eq!(told, [("g", Some(0), Some(3)), ("h", Some(3), Some(0))]);
    assert_eq!(conn.xgroup_delconsumer("x", "h", "c").wait()?, 2);
    assert_eq!(conn.xgroup_delconsumer("x", "h", "c").wait()?, 0);
    assert!(conn.xgroup_destroy("x", "h").wait()?);
    assert!(!conn.xgroup_destroy("x", "h").wait()?);
    let lost: Result<Read<Fields>> = conn.xreadgroup("h", "c", ("x", GroupRead::Undelivered)).wait();
    assert_eq!(lost.unwrap_err().code(), Some("NOGROUP"));
    Ok(())
}

#[test]
fn consumers_share_a_stream() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    three(&conn)?;
    conn.xadd("y", id(1, 1), ("f", "y")).wait()?;
    for key in ["x", "y"] {
        conn.xgroup_create(key, "g", StreamId::MIN).wait()?;
    }
    let streams = [("x", GroupRead::Undelivered), ("y", GroupRead::Undelivered)];
    let one = XreadgroupOptions::new().count(1);
    let read: Read<Fields> = conn.xreadgroup_with("g", "c1", streams, one).wait()?;
    let want = vec![
        ("x".to_owned(), vec![entry(1, 1, &[("f", "v"), ("g", "w")])]),
        ("y".to_owned(), vec![entry(1, 1, &[("f", "y")])]),
    ];
    assert_eq!(read, Some(want));
    let read: Read<Fields> = conn.xreadgroup_with("g", "c2", ("x", GroupRead::Undelivered), one.noack()).wait()?;
    assert_eq!(read, Some(vec![("x".into(), vec![entry(2, 1, &[("f", "v2")])])]));
    let read: Read<Fields> = conn.xreadgroup("g", "c2", ("x", GroupRead::Pending(StreamId::MIN))).wait()?;
    assert_eq!(read, Some(vec![("x".into(), vec![])]), "without acknowledgement nothing is pending");
    assert_eq!(conn.xack("x", "g", [id(1, 1), id(2, 1)]).wait()?, 1);
    assert_eq!(conn.xack("none", "g", id(1, 1)).wait()?, 0);
    let read: Read<Fields> = conn.xreadgroup("g", "c1", ("x", GroupRead::Undelivered)).wait()?;
    assert_eq!(read, Some(vec![("x".into(), vec![entry(3, 1, &[("f", "v3")])])]));
    assert_eq!(conn.xreadgroup::<String, Fields>("g", "c1", ("x", GroupRead::Undelivered)).wait()?, None);

    // One that was deleted is still pending, without fields.
    conn.xdel("x", id(3, 1)).wait()?;
    let pending = || conn.xreadgroup("g", "c1", ("x", GroupRead::Pending(id(1, 1))));
    let read: Read<Option<Fields>> = pending().wait()?;
    assert_eq!(read, Some(vec![("x".into(), vec![Entry { id: id(3, 1), fields: None }])]));
    let read: Reply<'_, Read<Fields>> = conn.xreadgroup("g", "c1", ("x", GroupRead::Pending(id(1, 1))));
    assert!(matches!(read.wait(), Err(Error::Nil)));
    Ok(())
}

#[test]
fn entries_are_acknowledged_and_deleted_at_once() -> Result<()> {
    use StreamDeletion::{Deleted, Missing, Referenced};
    let server = support::server();
    let conn = support::open(&server);
    if !has(&conn, "XACKDEL")? {
        return Ok(());
    }
    delivered(&conn)?;
    conn.xgroup_create("x", "other", StreamId::MIN).wait()?;
    let done: Vec<StreamDeletion> = conn.xackdel("x", "g", [id(1, 1), id(9, 9)]).wait()?;
    assert_eq!(done, [Deleted, Missing]);
    let done: Vec<StreamDeletion> = conn.xackdel_with("x", "g", id(2, 1), StreamReferences::Acked).wait()?;
    assert_eq!(done, [Referenced], "the other group has not read it");
    let done: Vec<StreamDeletion> = conn.xackdel_with("x", "g", [id(3, 1)], StreamReferences::Delete).wait()?;
    assert_eq!(done, [Deleted]);
    assert_eq!(conn.xpending("x", "g").wait()?.count, 0);
    assert_eq!(ids(&conn)?, [2]);
    assert_eq!(conn.xackdel("none", "g", id(1, 1)).wait::<Vec<_>>()?, [Missing]);
    Ok(())
}

#[test]
fn pending_entries_are_listed() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    three(&conn)?;
    conn.xgroup_create("x", "g", StreamId::MIN).wait()?;
    let none = conn.xpending("x", "g").wait()?;
    assert_eq!((none.count, none.min, none.max, none.consumers), (0, None, None, vec![]));
    for (consumer, count) in [("c1", 2), ("c2", 1)] {
        let options = XreadgroupOptions::new().count(count);
        conn.xreadgroup_with::<String, Fields>("g", consumer, ("x", GroupRead::Undelivered), options).wait()?;
    }
    let some = conn.xpending("x", "g").wait()?;
    assert_eq!((some.count, some.min, some.max), (3, Some(id(1, 1)), Some(id(3, 1))));
    assert_eq!(some.consumers, [("c1".to_owned(), 2), ("c2".to_owned(), 1)]);

    let all: Vec<_> = conn.xpending_range("x", "g", .., 10).wait()?;
    let told: Vec<_> = all.iter().map(|e| (e.id.ms, e.consumer.as_str(), e.deliveries)).collect();
    assert_eq!(told, [(1, "c1", 1), (2, "c1", 1), (3, "c2", 1)]);
    assert!(all[0].idle < Duration::from_secs(60));
    let count = |range, options| conn.xpending_range_with("x", "g", range, 10, options).count();
    let range = || StreamRange::from(2..);
    assert_eq!(count(range(), XpendingOptions::new()), 2);
    assert_eq!(count(range(), XpendingOptions::new().consumer("c2")), 1);
    assert_eq!(count(range(), XpendingOptions::new().consumer("nobody")), 0);
    assert_eq!(count(range(), XpendingOptions::new().idle(Duration::from_secs(3600))), 0);
    assert_eq!(count(range(), XpendingOptions::new().idle(Duration::ZERO).consumer("c1")), 1);
    assert_eq!(conn.xpending_range("x", "g", .., 2).count(), 2);
    Ok(())
}

#[test]
fn pending_entries_are_claimed() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    delivered(&conn)?;
    let hour = Duration::from_secs(3600);
    let claimed: Vec<Entry<Fields>> = conn.xclaim("x", "g", "c2", Duration::ZERO, [id(1, 1), id(9, 9)]).wait()?;
    assert_eq!(claimed, [entry(1, 1, &[("f", "v"), ("g", "w")])]);
    assert_eq!(conn.xclaim::<Fields>("x", "g", "c2", hour, id(2, 1)).count(), 0, "it was delivered just now");
    assert_eq!(conn.xclaim_justid("x", "g", "c2", Duration::ZERO, id(2, 1)).wait::<Vec<_>>()?, [id(2, 1)]);
    let deliveries = || -> Result<Vec<(String, u64)>> {
        conn.xpending_range("x", "g", .., 10).map(|e| e.map(|e| (e.consumer, e.deliveries))).collect()
    };
    let of = |consumer: &str, deliveries| (consumer.to_owned(), deliveries);
    assert_eq!(deliveries()?, [of("c2", 2), of("c2", 1), of("c1", 1)]);

    let options = XclaimOptions::new().idle(hour).retry_count(7).last_id(id(3, 1));
    let claimed = conn.xclaim_with::<Fields>("x", "g", "c3", Duration::ZERO, id(3, 1), options);
    assert_eq!(claimed.wait::<Vec<_>>()?, [entry(3, 1, &[("f", "v3")])]);
    assert_eq!(deliveries()?[2], of("c3", 7));
    let idle = XpendingOptions::new().idle(hour);
    assert_eq!(conn.xpending_range_with("x", "g", .., 10, idle.clone()).count(), 1);

    let options = XclaimOptions::new().time(SystemTime::now() - 2 * hour);
    let claimed: Vec<StreamId> = conn.xclaim_justid_with("x", "g", "c3", Duration::ZERO, id(1, 1), options).wait()?;
    assert_eq!(claimed, [id(1, 1)]);
    assert_eq!(conn.xpending_range_with("x", "g", .., 10, idle).count(), 2);

    conn.xack("x", "g", id(1, 1)).wait()?;
    assert_eq!(conn.xclaim::<Fields>("x", "g", "c4", Duration::ZERO, id(1, 1)).count(), 0);
    let force = XclaimOptions::new().force();
    assert_eq!(conn.xclaim_with::<Fields>("x", "g", "c4", Duration::ZERO, id(1, 1), force).count(), 1);
    conn.xdel("x", id(1, 1)).wait()?;
    assert_eq!(conn.xclaim::<Fields>("x", "g", "c4", Duration::ZERO, id(1, 1)).count(), 0, "it is gone");
    Ok(())
}

#[test]
fn pending_entries_are_claimed_by_reading() -> Result<()> {
    let server = support::server();
    if server.name() != "redis" || server.version() < (8, 4, 0) {
        return Ok(());
    }
    let conn = support::open(&server);
    delivered(&conn)?;
    conn.xadd("x", id(4, 1), ("f", "v4")).wait()?;
    let read =
        |options| conn.xreadgroup_with::<String, Fields>("g", "c2", ("x", GroupRead::Undelivered), options).wait();
    let old = XreadgroupOptions::new().claim(Duration::from_secs(3600));
    assert_eq!(read(old)?, Some(vec![("x".into(), vec![entry(4, 1, &[("f", "v4")])])]));
    assert_eq!(read(old.claim(Duration::ZERO))?.map(|streams| streams[0].1.len()), Some(4));
    assert_eq!(conn.xpending("x", "g").wait()?.consumers, [("c2".to_owned(), 4)]);
    Ok(())
}

#[test]
fn pending_entries_are_claimed_in_passing() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    delivered(&conn)?;
    let all = conn.xautoclaim::<Fields>("x", "g", "c2", Duration::ZERO, StreamId::MIN).wait()?;
    assert_eq!((all.next, all.claimed.len(), all.deleted.len()), (StreamId::MIN, 3, 0));
    assert_eq!(all.go_on(), None);
    assert_eq!(all.claimed[0], entry(1, 1, &[("f", "v"), ("g", "w")]));
    let one = conn.xautoclaim_count::<Fields>("x", "g", "c3", Duration::ZERO, StreamBound::Min, 1).wait()?;
    assert_eq!((one.next, one.claimed.len()), (id(2, 1), 1));
    assert_eq!(one.go_on(), Some(id(2, 1)));
    let rest = conn.xautoclaim_justid("x", "g", "c3", Duration::ZERO, one.next).wait()?;
    assert_eq!((rest.next, rest.claimed), (StreamId::MIN, vec![id(2, 1), id(3, 1)]));
    let after = StreamBound::Excluded(id(1, 1));
    let one = conn.xautoclaim_justid_count("x", "g", "c3", Duration::ZERO, after, 1).wait()?;
    assert_eq!((one.next, one.claimed), (id(3, 1), vec![id(2, 1)]));
    let none = conn.xautoclaim::<Fields>("x", "g", "c2", Duration::from_secs(3600), StreamId::MIN).wait()?;
    assert_eq!((none.next, none.claimed), (StreamId::MIN, vec![]));

    conn.xdel("x", id(2, 1)).wait()?;
    let rest = conn.xautoclaim::<Fields>("x", "g", "c2", Duration::ZERO, StreamId::MIN).wait()?;
    let claimed: Vec<u64> = rest.claimed.iter().map(|entry| entry.id.ms).collect();
    assert_eq!((claimed, rest.deleted), (vec![1, 3], vec![id(2, 1)]));
    Ok(())
}

#[test]
fn streams_groups_and_consumers_are_described() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    assert_eq!(conn.xinfo_stream::<Fields>("none").wait().unwrap_err().code(), Some("ERR"));
    delivered(&conn)?;
    conn.xgroup_createconsumer("x", "g", "idle").wait()?;
    conn.xdel("x", id(1, 1)).wait()?;

    let info = conn.xinfo_stream::<Fields>("x").wait()?;
    assert_eq!((info.length, info.groups, info.radix_tree_keys, info.radix_tree_nodes), (2, 1, 1, 2));
    assert_eq!((info.last_generated_id, info.max_deleted_entry_id), (id(3, 1), id(1, 1)));
    assert_eq!((info.entries_added, info.recorded_first_entry_id), (3, id(2, 1)));
    assert_eq!(info.first_entry, Some(entry(2, 1, &[("f", "v2")])));
    assert_eq!(info.last_entry, Some(entry(3, 1, &[("f", "v3")])));
    assert!(info.other.is_empty(), "{:?}", info.other);

    let groups: Vec<_> = conn.xinfo_groups("x").wait()?;
    assert_eq!(groups.len(), 1);
    assert_eq!((groups[0].name.as_str(), groups[0].consumers, groups[0].pending), ("g", 2, 3));
    assert_eq!((groups[0].last_delivered_id, groups[0].entries_read, groups[0].lag), (id(3, 1), Some(3), Some(0)));
    assert!(groups[0].other.is_empty(), "{:?}", groups[0].other);

    // They come in the order of their names.
    let consumers: Vec<_> = conn.xinfo_consumers("x", "g").wait()?;
    let told: Vec<_> = consumers.iter().map(|c| (c.name.as_str(), c.pending)).collect();
    assert_eq!(told, [("c1", 3), ("idle", 0)]);
    assert!(consumers.iter().all(|c| c.idle < Duration::from_secs(60) && c.other.is_empty()), "{consumers:?}");
    assert_eq!(consumers[1].inactive, None, "never, or the server does not say");

    let recently =
        |time: Option<SystemTime>| time.is_some_and(|time| time > SystemTime::now() - Duration::from_secs(60));
    let full = conn.xinfo_stream_full::<Fields>("x").wait()?;
    assert_eq!((full.length, full.radix_tree_keys, full.radix_tree_nodes), (2, 1, 2));
    assert_eq!((full.last_generated_id, full.max_deleted_entry_id), (id(3, 1), id(1, 1)));
    assert_eq!((full.entries_added, full.recorded_first_entry_id), (3, id(2, 1)));
    assert_eq!(full.entries, [entry(2, 1, &[("f", "v2")]), entry(3, 1, &[("f", "v3")])]);
    assert!(full.other.is_empty(), "{:?}", full.other);
    let [group] = &full.groups[..] else { panic!("{full:?}") };
    assert_eq!((group.name.as_str(), group.last_delivered_id, group.pel_count), ("g", id(3, 1), 3));
    assert_eq!((group.entries_read, group.lag, group.pending.len()), (Some(3), Some(0), 3));
    let first = &group.pending[0];
    assert_eq!((first.id, first.consumer.as_str(), first.deliveries), (id(1, 1), "c1", 1));
    assert!(recently(first.time) && group.other.is_empty(), "{group:?}");
    let [c1, idle] = &group.consumers[..] else { panic!("{full:?}") };
    assert_eq!((c1.name.as_str(), c1.pel_count, c1.pending.len()), ("c1", 3, 3));
    assert_eq!((c1.pending[2].id, c1.pending[2].deliveries), (id(3, 1), 1));
    assert!(recently(c1.seen_time) && recently(c1.pending[2].time) && c1.other.is_empty(), "{c1:?}");
    assert_eq!((idle.active_time, idle.pel_count, &idle.pending[..]), (None, 0, &[][..]));

    let full = conn.xinfo_stream_full_count::<Fields>("x", 1).wait()?;
    assert_eq!((full.entries.len(), full.groups[0].pending.len(), full.groups[0].pel_count), (1, 1, 3));
    let full = conn.xinfo_stream_full_count::<Value>("x", 0).wait()?;
    assert_eq!((full.entries.len(), full.groups[0].pending.len()), (2, 3));
    conn.xgroup_create_with("empty", "g", GroupStart::New, XgroupCreateOptions::new().mkstream()).wait()?;
    let info = conn.xinfo_stream::<Fields>("empty").wait()?;
    assert_eq!((info.length, info.first_entry, info.last_entry), (0, None, None));
    Ok(())
}

#[test]
fn blocking_reads_answer_at_once_or_when_the_time_is_up() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    three(&conn)?;
    conn.xgroup_create("x", "g", StreamId::MIN).wait()?;
    let (one, one_of_group) = (XreadOptions::new().count(1), XreadgroupOptions::new().count(1));
    let first = Some(vec![("x".to_owned(), vec![entry(1, 1, &[("f", "v"), ("g", "w")])])]);
    let new = ("x", GroupRead::Undelivered);
    assert_eq!(
        conn.xread_block_with("x none".split(' ').map(|key| (key, StreamId::MIN)).collect::<Vec<_>>(), None, one)
            .wait()?,
        first
    );
    assert_eq!(conn.xreadgroup_block_with("g", "c", new, Duration::ZERO, one_of_group).wait()?, first);
    let rest: Read<Fields> = conn.xread_block(("x", id(1, 1)), Duration::from_secs(9)).wait()?;
    assert_eq!(rest.unwrap()[0].1.len(), 2);
    let rest: Read<Fields> = conn.xreadgroup_block("g", "c", new, None).wait()?;
    assert_eq!(rest.unwrap()[0].1.len(), 2);

    let (start, time) = (Instant::now(), Duration::from_millis(50));
    assert_eq!(conn.xread_block::<String, Fields>(("x", ReadFrom::New), time).wait()?, None);
    assert_eq!(conn.xread_block_with::<String, Fields>(("none", StreamId::MIN), Some(time), one).wait()?, None);
    assert_eq!(conn.xreadgroup_block::<String, Fields>("g", "c", new, time).wait()?, None);
    let noack = one_of_group.noack();
    assert_eq!(conn.xreadgroup_block_with::<String, Fields>("g", "c", new, time, noack).wait()?, None);
    assert!(start.elapsed() >= 4 * time, "{:?}", start.elapsed());
    // No time at all is a short time and not for ever.
    assert_eq!(conn.xread_block::<String, Fields>(("x", ReadFrom::New), Duration::ZERO).wait()?, None);
    assert_eq!(conn.xreadgroup_block::<String, Fields>("g", "c", new, Duration::from_nanos(1)).wait()?, None);
    // Pending entries are no reason to wait.
    let pending: Read<Fields> = conn.xreadgroup_block("g", "c", ("x", GroupRead::Pending(id(9, 9))), None).wait()?;
    assert_eq!(pending, Some(vec![("x".into(), vec![])]));
    Ok(())
}

#[test]
fn another_connection_wakes_a_blocked_one() -> Result<()> {
    let server = support::server();
    let (conn, other) = (support::open(&server), support::open(&server));
    let read: Reply<'_, Read<Fields>> = conn.xread_block(("x", ReadFrom::New), None);
    conn.flush()?;
    // Until the other one waits, `$` is wherever the stream ends.
    let blocked = || -> Result<bool> { Ok(other.client_list().wait()?.iter().any(|client| client.cmd == "xread")) };
    let start = Instant::now();
    while !blocked()? {
        assert!(start.elapsed() < Duration::from_secs(10));
    }
    other.xadd("x", id(1, 1), ("f", "v")).wait()?;
    assert_eq!(read.wait()?, Some(vec![("x".into(), vec![entry(1, 1, &[("f", "v")])])]));
    Ok(())
}

#[test]
fn long_streams_are_read_page_by_page() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let batch = conn.batch();
    (1..=1000).for_each(|n| batch.xadd("x", id(n / 10 + 1, n), ("n", n)).detach());
    batch.finish()?;
    let read = |range: StreamRange, page| -> Result<Vec<u64>> {
        let entries = conn.xrange_all::<(String, u64)>("x", range).page(page);
        entries.map(|entry| entry.map(|entry| entry.fields.1)).collect()
    };
    for page in [1, 7, 100, 1000, 5000] {
        assert_eq!(read((..).into(), page)?, (1..=1000).collect::<Vec<_>>());
        assert_eq!(read((id(51, 500)..id(51, 505)).into(), page)?, (500..505).collect::<Vec<_>>());
        assert_eq!(read((StreamBound::Excluded(id(101, 1000)), StreamBound::Max).into(), page)?, [0; 0]);
    }
    // The connection may be used meanwhile, also to make the stream longer.
    for entry in conn.xrange_all::<(String, u64)>("x", ..).page(100) {
        let entry = entry?;
        conn.set("n", entry.fields.1).detach();
        if entry.fields.1 == 1000 {
            conn.xadd("x", StreamId::MAX, ("n", 1001)).wait()?;
        }
    }
    assert_eq!(conn.get::<i64>("n").wait()?, 1001);
    // Behind the last ID there can be is nothing that could be asked for.
    assert_eq!(read((..).into(), 1)?.len(), 1001);
    assert_eq!(conn.xrange_all::<Fields>("none", ..).count(), 0);
    conn.set("string", 1).wait()?;
    let mut failing = conn.xrange_all::<Fields>("string", ..);
    assert_eq!(failing.next().unwrap().unwrap_err().code(), Some("WRONGTYPE"));
    assert!(failing.next().is_none());
    Ok(())
}

#[test]
fn a_stream_is_followed() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let time = Duration::from_millis(5);
    three(&conn)?;
    let mut all = conn.xread_follow::<Fields>("x", StreamId::MIN, time).page(2);
    let mut new = conn.xread_follow::<Fields>("x", ReadFrom::New, time);
    let mut last = conn.xread_follow::<Fields>("x", ReadFrom::Last, time);
    let mut none = conn.xread_follow::<Fields>("none", ReadFrom::New, time);
    assert_eq!(none.last_id(), None);
    assert!(new.next().is_none() && none.next().is_none());
    assert_eq!((new.last_id(), none.last_id()), (Some(id(3, 1)), Some(StreamId::MIN)));
    assert_eq!(all.by_ref().map(|entry| entry.unwrap().id.ms).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(last.by_ref().map(|entry| entry.unwrap().id.ms).collect::<Vec<_>>(), [3]);

    // What comes between two waits is not left out.
    conn.xadd("x", id(4, 1), ("f", "v4")).wait()?;
    conn.xadd("none", id(1, 1), ("f", "v")).wait()?;
    for follower in [&mut all, &mut new, &mut last] {
        assert_eq!(follower.next().unwrap()?, entry(4, 1, &[("f", "v4")]));
        assert!(follower.next().is_none());
        assert_eq!(follower.last_id(), Some(id(4, 1)));
    }
    assert_eq!(none.next().unwrap()?.id, id(1, 1));

    let mut two = conn.xread_follow::<Fields>("x", id(1, 1), None);
    assert_eq!((two.last_id(), two.next().unwrap()?.id), (Some(id(1, 1)), id(2, 1)));
    assert_eq!(two.last_id(), Some(id(2, 1)), "not what was read ahead");
    conn.set("string", 1).wait()?;
    let mut failing = conn.xread_follow::<Fields>("string", ReadFrom::New, time);
    assert_eq!(failing.next().unwrap().unwrap_err().code(), Some("WRONGTYPE"));
    assert!(failing.next().is_none());
    Ok(())
}

#[test]
fn a_follower_waits_for_another_connection() -> Result<()> {
    let server = support::server();
    let url = support::config(&server);
    let conn = support::open(&server);
    let writer = std::thread::spawn(move || -> Result<()> {
        let conn = Connection::open(url)?;
        for n in 1..=100 {
            conn.xadd("x", id(n, 0), ("n", n)).wait()?;
        }
        Ok(())
    });
    let read = conn.xread_follow::<(String, u64)>("x", StreamId::MIN, None).take(100);
    let read: Vec<u64> = read.map(|entry| entry.map(|entry| entry.fields.1)).collect::<Result<_>>()?;
    assert_eq!(read, (1..=100).collect::<Vec<_>>());
    writer.join().expect("no panic")?;
    Ok(())
}

#[test]
fn the_same_text_works_on_every_executor() -> Result<()> {
    fn log<C: StreamCommands>(on: C, what: &str) -> C::Reply<StreamId> {
        on.xadd("log", NewId::Auto, ("what", what))
    }
    let server = support::server();
    let conn = support::open(&server);
    let first = log(&conn, "a").wait()?;
    let batch = conn.batch();
    let second = log(&batch, "b");
    batch.finish()?;
    let second = second.wait()?;
    let tx = conn.transaction();
    let third = log(&tx, "c");
    let all = tx.xrange::<Fields>("log", ..);
    let read = tx.xread::<String, Fields>(("log", StreamId::MIN));
    tx.commit().wait()?;
    let third = third.wait()?;
    let all: Vec<Entry<Fields>> = all.wait()?;
    assert_eq!(all.iter().map(|entry| entry.id).collect::<Vec<_>>(), [first, second, third]);
    assert_eq!(read.wait()?, Some(vec![("log".to_owned(), all)]));
    Ok(())
}
