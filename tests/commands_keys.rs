//! The commands on keys, and the scans, each on a real server.

#![cfg(feature = "testing")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use redefer::Result;
use redefer::commands::{
    CopyOptions, ExpireCondition, ExpireTime, MigrateOptions, Migrated, PexpireTime, Pttl, RestoreOptions, ScanOptions,
    SortOptions, Ttl,
};
use redefer::prelude::*;

const MINUTE: Duration = Duration::from_secs(60);

/// Whether the server knows a command.
fn has(conn: &Connection, command: &str) -> Result<bool> {
    let info: Vec<Value> = conn.command("COMMAND", ("INFO", command)).wait()?;
    Ok(info.first().is_some_and(|entry| !entry.is_nil()))
}

/// Whether the key expires within a minute, and not at once. A time of day is rounded up to a millisecond.
fn expires(conn: &Connection, key: &str) -> Result<bool> {
    Ok(
        matches!(conn.pttl(key).wait()?, Pttl::In(time) if time > MINUTE / 2 && time <= MINUTE + Duration::from_millis(1)),
    )
}

#[test]
fn keys_are_counted_renamed_and_deleted() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    assert_eq!(conn.randomkey::<Option<String>>().wait()?, None);
    conn.set("a", 1).wait()?;
    assert_eq!(conn.randomkey::<String>().wait()?, "a");
    assert_eq!(conn.exists(["a", "none", "a"]).wait()?, 2);
    assert_eq!(conn.touch(("a", "none")).wait()?, 1);
    conn.rename("a", "b").wait()?;
    assert!(conn.rename("a", "b").wait().unwrap_err().as_server_error().is_some());
    assert!(conn.renamenx("b", "a").wait()?);
    assert!(conn.copy("a", "b").wait()?);
    assert!(!conn.copy("a", "b").wait()? && !conn.renamenx("a", "b").wait()?);
    assert!(conn.copy_with("a", "b", CopyOptions::new().replace()).wait()?);
    assert!(conn.copy_with("a", "c", CopyOptions::new().database(3)).wait()?);
    assert_eq!(conn.keys("[ab]").wait::<BTreeSet<String>>()?.len(), 2);
    assert_eq!(conn.keys::<String>("c").count(), 0);
    assert!(conn.move_("b", 3).wait()? && !conn.move_("none", 3).wait()?);
    assert_eq!(conn.type_("a").wait()?, "string");
    assert_eq!(conn.type_("none").wait()?, "none");
    assert_eq!(conn.del("a").wait()?, 1);
    assert_eq!(conn.unlink(args::each(["a", "b"])).wait()?, 0);
    assert!(matches!(conn.del(Vec::<String>::new()).wait(), Err(Error::Argument(_))));
    Ok(())
}

#[test]
fn keys_expire() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set("k", 1).wait()?;
    assert_eq!((conn.ttl("k").wait()?, conn.ttl("none").wait()?), (Ttl::NoExpiry, Ttl::Missing));
    assert_eq!((conn.pttl("k").wait()?, conn.pttl("none").wait()?), (Pttl::NoExpiry, Pttl::Missing));
    assert!(conn.expire("k", MINUTE).wait()? && !conn.expire("none", MINUTE).wait()?);
    assert!(expires(&conn, "k")?);
    let left = conn.ttl("k").wait()?;
    assert!(matches!(left, Ttl::In(time) if time <= MINUTE && time > MINUTE / 2), "{left:?}");
    assert!(left.remaining().is_some_and(|time| left == Ttl::In(time)));
    assert!(conn.persist("k").wait()? && !conn.persist("k").wait()?);
    assert!(conn.pexpire("k", MINUTE).wait()?);
    assert!(expires(&conn, "k")?);

    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(4_000_000_000);
    let later = at + Duration::from_millis(1);
    assert!(conn.expireat("k", at).wait()?);
    if server.version() >= (7, 0, 0) {
        assert_eq!(conn.expiretime("k").wait()?, ExpireTime::At(at));
        assert!(conn.pexpireat("k", later).wait()?);
        assert_eq!(conn.pexpiretime("k").wait()?, PexpireTime::At(later));
        assert_eq!(conn.expiretime("none").wait()?, ExpireTime::Missing);
        assert!(!conn.expire_with("k", MINUTE, ExpireCondition::Nx).wait()?);
        assert!(!conn.pexpire_with("k", MINUTE, ExpireCondition::Gt).wait()?);
        assert!(!conn.pexpireat_with("k", later, ExpireCondition::Lt).wait()?);
        assert!(conn.expireat_with("k", at, ExpireCondition::Xx).wait()?);
        conn.persist("k").wait()?;
        assert_eq!(conn.pexpiretime("k").wait()?, PexpireTime::NoExpiry);
        assert_eq!(conn.expiretime("k").wait()?, ExpireTime::NoExpiry);
    }
    assert!(conn.pexpireat("k", SystemTime::UNIX_EPOCH).wait()?);
    assert_eq!(conn.exists("k").wait()?, 0);
    conn.set("k", 1).wait()?;
    assert!(conn.expire("k", Duration::ZERO).wait()?);
    assert_eq!(conn.exists("k").wait()?, 0);
    Ok(())
}

#[test]
fn objects_are_looked_at() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set("k", "v").wait()?;
    assert_eq!(conn.object_encoding("k").wait()?.as_deref(), Some("embstr"));
    assert_eq!(conn.object_encoding("none").wait()?, None);
    assert_eq!(conn.object_refcount("k").wait()?, Some(1));
    assert_eq!(conn.object_refcount("none").wait()?, None);
    assert!(conn.object_idletime("k").wait()?.is_some_and(|idle| idle.0 <= MINUTE));
    assert_eq!(conn.object_idletime("none").wait()?, None);
    assert!(conn.object_freq("k").wait().unwrap_err().as_server_error().is_some());
    assert!(conn.object_help().wait()?.iter().any(|line| line.contains("ENCODING")));

    let server = support::server_with([("maxmemory-policy", "allkeys-lfu")]);
    let conn = support::open(&server);
    conn.set("k", "v").wait()?;
    assert!(conn.object_freq("k").wait()?.is_some_and(|frequency| (1..=255).contains(&frequency)));
    assert_eq!(conn.object_freq("none").wait()?, None);
    Ok(())
}

#[test]
fn a_dump_is_restored() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set("k", "v").wait()?;
    let dump = conn.dump("k").wait()?.expect("there is such a key");
    assert_eq!(conn.dump("none").wait()?, None);
    conn.restore("a", None, &dump).wait()?;
    assert_eq!((conn.get::<String>("a").wait()?, conn.pttl("a").wait()?), ("v".into(), Pttl::NoExpiry));
    conn.restore("b", MINUTE, &dump).wait()?;
    assert!(expires(&conn, "b")?);
    assert_eq!(conn.restore("b", None, &dump).wait().unwrap_err().code(), Some("BUSYKEY"));
    let options = RestoreOptions::new().replace();
    conn.restore_with("b", &dump, options.idle_time(MINUTE)).wait()?;
    assert!(conn.object_idletime("b").wait()?.is_some_and(|idle| idle.0 >= MINUTE));
    conn.restore_with("b", &dump, options.expire_in(MINUTE).freq(10)).wait()?;
    assert!(expires(&conn, "b")?);
    conn.restore_with("b", &dump, options.expire_at(SystemTime::now() + MINUTE)).wait()?;
    assert!(expires(&conn, "b")?);
    assert!(conn.restore("c", None, "nonsense").wait().unwrap_err().as_server_error().is_some());
    Ok(())
}

#[test]
fn keys_move_to_another_server() -> Result<()> {
    let here = support::server();
    let there = support::server_with([("requirepass", "secret")]);
    let (conn, port) = (support::open(&here), there.port());
    let second = Duration::from_secs(1);
    conn.mset([("a", 1), ("b", 2)]).wait()?;
    assert_eq!(conn.migrate("127.0.0.1", port, "none", 0, second).wait()?, Migrated::NoKey);
    assert!(conn.migrate("127.0.0.1", port, "a", 0, second).wait().unwrap_err().as_server_error().is_some());
    let options = MigrateOptions::new().password("secret");
    let moved = conn.migrate_with("127.0.0.1", port, ["a", "b"], 0, second, options.clone().copy()).wait()?;
    assert_eq!((moved, conn.exists(["a", "b"]).wait()?), (Migrated::Done, 2));
    let again = conn.migrate_with("127.0.0.1", port, "a", 0, second, options.clone()).wait();
    assert!(again.is_err(), "the key exists there");
    let options = options.user("default", "secret").replace();
    let moved = conn.migrate_with("127.0.0.1", port, ["a", "b"], 0, second, options).wait()?;
    assert_eq!((moved, conn.exists(["a", "b"]).wait()?), (Migrated::Done, 0));
    let third = support::server();
    conn.set("c", 3).wait()?;
    assert_eq!(conn.migrate("127.0.0.1", third.port(), "c", 2, second).wait()?, Migrated::Done);
    Ok(())
}

#[test]
fn elements_are_sorted() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.command::<i64>("RPUSH", ("l", [3, 1, 2])).wait()?;
    conn.mset([("w_1", "y"), ("w_2", "x"), ("o_1", "one")]).wait()?;
    assert_eq!(conn.sort("l").wait::<Vec<i64>>()?, [1, 2, 3]);
    assert_eq!(conn.sort::<i64>("none").count(), 0);
    let sorted = |options| conn.sort_with("l", options).wait::<Vec<i64>>();
    assert_eq!(sorted(SortOptions::new().desc().limit(0, 2))?, [3, 2]);
    assert_eq!(sorted(SortOptions::new().by("nosort"))?, [3, 1, 2]);
    assert_eq!(sorted(SortOptions::new().by("w_*").alpha().limit(1, -1))?, [2, 1]);
    let gets = SortOptions::new().get("#").get("o_*");
    let pairs: Vec<(i64, Option<String>)> = conn.sort_with("l", gets.clone()).wait()?;
    assert_eq!(pairs, [(1, Some("one".into())), (2, None), (3, None)]);
    assert_eq!(conn.sort_store("l", "m", SortOptions::new()).wait()?, 3);
    if has(&conn, "SORT_RO")? {
        assert_eq!(conn.sort_ro("m").wait::<Vec<i64>>()?, [1, 2, 3]);
        assert_eq!(conn.sort_ro_with::<(i64, Option<String>)>("m", gets).count(), 3);
    }
    Ok(())
}

#[test]
fn waiting_for_nobody_ends_at_once() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set("k", 1).wait()?;
    assert_eq!(conn.wait(0, None).wait()?, 0);
    assert_eq!(conn.wait(1, Duration::ZERO).wait()?, 0, "zero is not for ever");
    assert_eq!(conn.wait(1, Duration::from_millis(20)).wait()?, 0);
    if has(&conn, "WAITAOF")? {
        assert_eq!(conn.waitaof(0, 0, None).wait()?, (0, 0));
        assert_eq!(conn.waitaof(0, 1, Duration::from_millis(20)).wait()?, (0, 0));
    }
    Ok(())
}

#[test]
fn all_keys_are_scanned() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    assert_eq!(conn.scan::<String>().count(), 0);
    conn.mset(args::each((0..1000).map(|n| (format!("k{n}"), n)))).wait()?;
    conn.command::<i64>("RPUSH", ("list", 1)).wait()?;
    assert_eq!(conn.scan().collect::<Result<BTreeSet<String>>>()?.len(), 1001);
    let scan = |options| conn.scan_with(options).collect::<Result<BTreeSet<String>>>();
    assert_eq!(scan(ScanOptions::new().match_("k99*").count(20))?.len(), 11);
    assert_eq!(scan(ScanOptions::new().type_("list").count(5000))?, ["list".to_owned()].into());
    for key in conn.scan::<String>() {
        conn.del(key?).wait()?;
    }
    assert_eq!(conn.scan::<String>().count(), 0, "the connection can be used in the loop");

    conn.set("k", "v").wait()?;
    let page = conn.scan_page::<String>(0, &ScanOptions::new().count(10_000)).wait()?;
    assert_eq!((page.cursor, page.items), (0, vec!["k".to_owned()]));
    let mut scan = conn.sscan::<String>("k");
    assert_eq!(
        scan.next().and_then(Result::err).and_then(|error| error.code().map(str::to_owned)),
        Some("WRONGTYPE".into())
    );
    assert!(scan.next().is_none());
    Ok(())
}

#[test]
fn hashes_and_sets_are_scanned() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let options = ScanOptions::new().match_("m*").count(10);
    let fields: BTreeMap<String, i64> = (0..1000).map(|n| (format!("m{n}"), n)).collect();
    conn.hset("h", &fields).wait()?;
    assert_eq!(conn.hscan("h").collect::<Result<BTreeMap<String, i64>>>()?, fields);
    assert_eq!(conn.hscan_with("h", options.clone()).collect::<Result<BTreeMap<String, i64>>>()?, fields);
    assert_eq!(conn.hscan::<String, i64>("none").count(), 0);
    let small: Vec<(String, i64)> = {
        conn.hset("small", ("a", 1)).wait()?;
        conn.hscan_page("small", 0, &ScanOptions::new()).wait()?.items
    };
    assert_eq!(small, [("a".to_owned(), 1)]);
    if server.version() >= (7, 4, 0) {
        assert_eq!(conn.hscan_novalues("h").collect::<Result<BTreeSet<String>>>()?.len(), 1000);
        assert_eq!(conn.hscan_novalues_with::<String>("small", options.clone()).count(), 0);
        assert_eq!(conn.hscan_novalues_page::<String>("small", 0, &ScanOptions::new()).wait()?.items, ["a"]);
    }

    conn.command::<i64>("SADD", ("s", fields.keys().collect::<Vec<_>>())).wait()?;
    assert_eq!(conn.sscan("s").collect::<Result<BTreeSet<String>>>()?.len(), 1000);
    assert_eq!(conn.sscan_with("s", options.clone()).collect::<Result<BTreeSet<String>>>()?.len(), 1000);
    assert!(conn.sscan_page::<String>("s", 0, &options).wait()?.cursor != 0);

    conn.command::<i64>("ZADD", ("z", [("0.5", "a"), ("-inf", "m")])).wait()?;
    let scores: BTreeMap<String, String> = conn
        .zscan::<String>("z")
        .map(|item| item.map(|(member, score)| (member, score.to_string())))
        .collect::<Result<_>>()?;
    assert_eq!(scores, [("a".to_owned(), "0.5".to_owned()), ("m".to_owned(), "-inf".to_owned())].into());
    assert_eq!(conn.zscan_with::<String>("z", options.clone()).count(), 1);
    assert_eq!(conn.zscan_page::<String>("z", 0, &options).wait()?.items, [("m".to_owned(), f64::NEG_INFINITY)]);
    if server.name() == "valkey" && server.version() >= (8, 0, 0) {
        assert_eq!(conn.zscan_noscores("z").collect::<Result<BTreeSet<String>>>()?.len(), 2);
        assert_eq!(conn.zscan_noscores_with::<String>("z", options.clone()).count(), 1);
        assert_eq!(conn.zscan_noscores_page::<String>("z", 0, &options).wait()?.items, ["m"]);
    }
    Ok(())
}
