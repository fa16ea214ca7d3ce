//! The commands on hashes, each on a real server.

#![cfg(feature = "testing")]

mod support;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, SystemTime};

use redefer::Result;
use redefer::commands::{
    ExpireCondition, ExpireTime, FieldExpiry, FieldPersist, GetExpiry, HsetexOptions, PexpireTime, Pttl, SetExpiry, Ttl,
};
use redefer::prelude::*;

const MINUTE: Duration = Duration::from_secs(60);

/// Whether the server knows a command.
fn has(conn: &Connection, command: &str) -> Result<bool> {
    let info: Vec<Value> = conn.command("COMMAND", ("INFO", command)).wait()?;
    Ok(info.first().is_some_and(|entry| !entry.is_nil()))
}

/// Whether the field expires within a minute, and not at once. A time of day is rounded up to a millisecond.
fn expires(conn: &Connection, key: &str, field: &str) -> Result<bool> {
    let times: Vec<Pttl> = conn.hpttl(key, field).wait()?;
    Ok(matches!(times[..], [Pttl::In(time)] if time > MINUTE / 2 && time <= MINUTE + Duration::from_millis(1)))
}

#[test]
fn fields_are_set_and_read() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    assert_eq!(conn.hset("h", ("a", 1)).wait()?, 1);
    assert_eq!(conn.hset("h", [("a", 1), ("b", 2)]).wait()?, 1);
    assert_eq!(conn.hset("h", HashMap::from([("c", 3)])).wait()?, 1);
    assert_eq!(conn.hset("h", args::each((4..6).map(|n| (n, n)))).wait()?, 2);
    assert_eq!(conn.hlen("h").wait()?, 5);
    assert_eq!(conn.hdel("h", [4, 5, 6]).wait()?, 2);
    assert_eq!(conn.hget::<i64>("h", "a").wait()?, 1);
    assert_eq!(conn.hget::<Option<i64>>("h", "none").wait()?, None);
    assert_eq!(conn.hmget("h", ["a", "none"]).wait::<Vec<Option<i64>>>()?, [Some(1), None]);
    assert_eq!(conn.hmget("none", "a").wait::<Vec<Option<i64>>>()?, [None]);
    assert!(conn.hexists("h", "a").wait()? && !conn.hexists("h", "none").wait()?);
    assert!(!conn.hsetnx("h", "a", 9).wait()? && conn.hsetnx("h", "d", 4).wait()?);
    assert_eq!(conn.hstrlen("h", "a").wait()?, 1);
    conn.hmset("h", [("a", 10), ("d", 40)]).wait()?;

    let all: BTreeMap<String, i64> = conn.hgetall("h").wait()?;
    assert_eq!(conn.hgetall_as::<BTreeMap<String, i64>>("h").wait()?, all);
    assert_eq!(all, [("a", 10), ("b", 2), ("c", 3), ("d", 40)].map(|(k, v)| (k.to_owned(), v)).into());
    for pair in conn.hgetall::<String, i64>("h") {
        let (field, value) = pair?;
        assert_eq!(all[&field], value);
    }
    assert_eq!(conn.hgetall::<String, i64>("none").count(), 0);
    assert_eq!(conn.hkeys("h").wait::<BTreeSet<String>>()?, all.keys().cloned().collect());
    assert_eq!(conn.hvals("h").wait::<BTreeSet<i64>>()?, all.values().copied().collect());
    Ok(())
}

#[test]
fn fields_count() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    assert_eq!(conn.hincrby("h", "n", 2).wait()?, 2);
    assert_eq!(conn.hincrby("h", "n", -5).wait()?, -3);
    assert_eq!(conn.hincrbyfloat("h", "n", 1.5).wait()?, -1.5);
    assert!(conn.hincrby("h", "n", 1).wait().unwrap_err().as_server_error().is_some());
    Ok(())
}

#[test]
fn fields_are_drawn_at_random() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.hset("h", [("a", 1), ("b", 2)]).wait()?;
    assert!(["a", "b"].contains(&&*conn.hrandfield::<String>("h").wait()?));
    assert_eq!(conn.hrandfield::<Option<String>>("none").wait()?, None);
    assert_eq!(conn.hrandfield_count("h", 9).wait::<BTreeSet<String>>()?.len(), 2);
    assert_eq!(conn.hrandfield_count("h", -9).wait::<Vec<String>>()?.len(), 9);
    assert_eq!(conn.hrandfield_count("none", 2).wait::<Vec<String>>()?.len(), 0);
    let pairs: BTreeMap<String, i64> = conn.hrandfield_withvalues("h", 2).wait()?;
    assert_eq!(pairs, [("a".to_owned(), 1), ("b".to_owned(), 2)].into());
    let pairs: Vec<(String, i64)> = conn.hrandfield_withvalues("h", -3).wait()?;
    assert!(pairs.len() == 3 && pairs.iter().all(|pair| ["a", "b"].contains(&&*pair.0) && [1, 2].contains(&pair.1)));
    assert_eq!(conn.hrandfield_withvalues::<String, i64>("none", 2).count(), 0);
    Ok(())
}

#[test]
fn fields_expire() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    if !has(&conn, "HEXPIRE")? {
        return Ok(());
    }
    conn.hset("h", [("a", 1), ("b", 2), ("c", 3)]).wait()?;
    let set: Vec<FieldExpiry> = conn.hexpire("h", MINUTE, ["a", "none"]).wait()?;
    assert_eq!(set, [FieldExpiry::Set, FieldExpiry::Missing]);
    assert!(expires(&conn, "h", "a")?);
    assert_eq!(conn.hexpire("none", MINUTE, "a").wait::<Vec<_>>()?, [FieldExpiry::Missing]);
    let refused: Vec<FieldExpiry> = conn.hexpire_with("h", MINUTE, "a", ExpireCondition::Nx).wait()?;
    assert_eq!(refused, [FieldExpiry::Unchanged]);
    let set: Vec<FieldExpiry> = conn.hpexpire_with("h", MINUTE / 60, args::each(["a"]), ExpireCondition::Lt).wait()?;
    assert_eq!(set, [FieldExpiry::Set]);
    assert_eq!(conn.hpexpire("h", MINUTE, "a").wait::<Vec<_>>()?, [FieldExpiry::Set]);

    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(4_000_000_000);
    assert_eq!(conn.hexpireat("h", at, "b").wait::<Vec<_>>()?, [FieldExpiry::Set]);
    assert_eq!(conn.hexpiretime("h", "b").wait::<Vec<_>>()?, [ExpireTime::At(at)]);
    let at = at + Duration::from_millis(1);
    assert_eq!(conn.hpexpireat("h", at, "b").wait::<Vec<_>>()?, [FieldExpiry::Set]);
    let times: Vec<PexpireTime> = conn.hpexpiretime("h", ["b", "c", "none"]).wait()?;
    assert_eq!(times, [PexpireTime::At(at), PexpireTime::NoExpiry, PexpireTime::Missing]);
    let refused: Vec<FieldExpiry> = conn.hexpireat_with("h", at, "c", ExpireCondition::Xx).wait()?;
    assert_eq!(refused, [FieldExpiry::Unchanged]);
    let refused: Vec<FieldExpiry> = conn.hpexpireat_with("h", at, "b", ExpireCondition::Gt).wait()?;
    assert_eq!(refused, [FieldExpiry::Unchanged]);

    let times: Vec<Ttl> = conn.httl("h", ["a", "c", "none"]).wait()?;
    assert!(times[0].remaining().is_some_and(|time| time <= MINUTE), "{times:?}");
    assert_eq!(times[1..], [Ttl::NoExpiry, Ttl::Missing]);
    let kept: Vec<FieldPersist> = conn.hpersist("h", ["a", "c", "none"]).wait()?;
    assert_eq!(kept, [FieldPersist::Removed, FieldPersist::NoExpiry, FieldPersist::Missing]);
    assert_eq!(conn.hexpire("h", Duration::ZERO, "a").wait::<Vec<_>>()?, [FieldExpiry::Deleted]);
    assert!(!conn.hexists("h", "a").wait()?);
    assert!(matches!(conn.httl("h", Vec::<String>::new()).next(), Some(Err(Error::Argument(_)))));
    Ok(())
}

#[test]
fn fields_are_read_and_deleted_or_their_expiry_changed() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.hset("h", [("a", 1), ("b", 2)]).wait()?;
    if has(&conn, "HGETEX")? {
        assert_eq!(conn.hgetex("h", MINUTE, ["a", "none"]).wait::<Vec<Option<i64>>>()?, [Some(1), None]);
        assert!(expires(&conn, "h", "a")?);
        assert_eq!(conn.hgetex("h", GetExpiry::Persist, "a").wait::<Vec<i64>>()?, [1]);
        assert!(!expires(&conn, "h", "a")?);
        assert_eq!(conn.hgetex("h", SystemTime::now() + MINUTE, "a").wait::<Vec<i64>>()?, [1]);
        assert!(expires(&conn, "h", "a")?);
        assert_eq!(conn.hgetex("none", MINUTE, "a").wait::<Vec<Option<i64>>>()?, [None]);
    }
    if has(&conn, "HGETDEL")? {
        assert_eq!(conn.hgetdel("h", ["a", "none"]).wait::<Vec<Option<i64>>>()?, [Some(1), None]);
        assert_eq!(conn.hkeys("h").wait::<Vec<String>>()?, ["b"]);
        assert_eq!(conn.hgetdel("none", "a").wait::<Vec<Option<i64>>>()?, [None]);
    }
    Ok(())
}

#[test]
fn fields_are_set_with_an_expiry_or_under_a_condition() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    if !has(&conn, "HSETEX")? {
        return Ok(());
    }
    let options = HsetexOptions::new();
    assert!(conn.hsetex("h", MINUTE, [("a", 1), ("b", 2)]).wait()?);
    assert!(expires(&conn, "h", "a")? && expires(&conn, "h", "b")?);
    assert!(!conn.hsetex_with("h", ("a", 3), options.fnx()).wait()?);
    assert!(!conn.hsetex_with("h", [("a", 3), ("c", 3)], options.fxx()).wait()?);
    assert!(conn.hsetex_with("h", args::each([("a", 4)]), options.fxx().expiry(SetExpiry::KeepTtl)).wait()?);
    assert!(expires(&conn, "h", "a")?);
    assert!(conn.hsetex("h", SystemTime::now() + MINUTE, ("c", 5)).wait()?);
    assert!(expires(&conn, "h", "c")?);
    assert_eq!(conn.hmget("h", ["a", "b", "c"]).wait::<Vec<i64>>()?, [4, 2, 5]);
    if server.name() == "valkey" && server.version() >= (9, 1, 0) {
        assert!(!conn.hsetex_with("h", ("a", 6), options.nx()).wait()?);
        assert!(!conn.hsetex_with("none", ("a", 6), options.xx()).wait()?);
        assert!(conn.hsetex_with("h", ("a", 6), options.xx().fxx()).wait()?);
    }
    Ok(())
}
