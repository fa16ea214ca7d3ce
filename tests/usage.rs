//! What somebody who has read only the documentation tries first, and must not be surprised by.

#![cfg(feature = "testing")]

mod support;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use redefer::commands::{Autoclaimed, Elements, Entry, GroupRead, Handle, NewId, ReadStreams, StreamId};
use redefer::{Error, Protocol, Result, prelude::*};
use support::scripted::{Scripted, array};

/// Ways to queue a command that cannot be sent, each with what its error says.
fn unsendable(tx: &Transaction<'_>, way: usize) -> Option<&'static str> {
    let none = Vec::<String>::new();
    let failing = || args::try_each([Ok("a"), Err(Error::custom("read failed"))]);
    match way {
        0 => drop(tx.rpush("done", &none)),
        1 => drop(tx.rpush("done", failing())),
        2 => drop(tx.command::<Value>("SUBSCRIBE", "x")),
        3 => drop(tx.command::<Value>("AUTH", "x")),
        4 => drop(tx.command::<Value>("RPUSH", ("done", failing()))),
        5 => drop(tx.lrange::<String>(redefer::Arg::Failed(Error::custom("read failed")), 0, -1)),
        6 => drop(tx.rpush("done", [Some(failing())])),
        7 => drop(tx.rpush("done", &(failing(),))),
        _ => return None,
    }
    Some(
        ["empty list", "read failed", "refused", "refused", "read failed", "read failed", "read failed", "read failed"]
            [way],
    )
}

#[test]
fn a_transaction_is_not_sent_without_a_command_that_could_not_be_encoded() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set("pending", 1).wait()?;
    for way in 0.. {
        let before = conn.stats();
        let tx = conn.transaction();
        let count = tx.incr("n");
        let Some(says) = unsendable(&tx, way) else { break };
        tx.del("pending");
        assert_eq!(tx.len(), 2, "what could not be queued does not count");
        let commit = tx.commit();
        assert!(commit.is_ready()? && count.is_ready()?);
        let error = commit.wait().unwrap_err();
        assert!(error.to_string().contains(says), "{way}: {error}");
        assert_eq!(count.wait().unwrap_err().to_string(), error.to_string());
        assert_eq!(conn.stats().commands, before.commands, "nothing was sent");
        assert_eq!(conn.stats().bytes_written, before.bytes_written);
        conn.sync()?; // the commit has told it
    }
    assert_eq!(conn.exists(["pending", "n", "done"]).wait()?, 1);
    Ok(())
}

#[test]
fn each_command_that_could_not_be_encoded_has_its_own_error() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let none = Vec::<String>::new();

    // Waited for before and after the commit.
    let tx = conn.transaction();
    let (first, second) = (tx.sadd("s", &none), tx.command::<i64>("SUBSCRIBE", "x"));
    let late = tx.lrange::<String>("l", 0, -1);
    assert!(matches!(first.wait(), Err(Error::Argument(_))));
    let commit = tx.commit();
    assert!(matches!(commit.wait(), Err(Error::Argument(_))));
    assert!(matches!(second.wait(), Err(Error::Refused(_))));
    assert!(matches!(late.wait::<Vec<_>>(), Err(Error::Argument(_))));
    conn.sync()?;

    // The errors that nobody is told otherwise are in the account, and the one of the commit is told once.
    let tx = conn.transaction();
    drop((tx.sadd("s", &none), tx.command::<i64>("SUBSCRIBE", "x")));
    let later = tx.command::<i64>("MONITOR", ());
    tx.commit().wait().unwrap_err();
    assert_eq!(conn.stats().unseen_errors, 1);
    drop(later);
    assert_eq!(conn.stats().unseen_errors, 2);
    assert!(matches!(conn.sync(), Err(Error::Refused(_))));

    // A commit that nobody waits for tells the account.
    let tx = conn.transaction();
    tx.sadd("s", &none);
    tx.commit().detach();
    assert!(matches!(conn.sync(), Err(Error::Argument(_))));

    // One that is given up has no errors: nobody wanted it to run.
    let tx = conn.transaction();
    let kept = tx.sadd("s", &none);
    drop(tx.sadd("s", &none));
    tx.discard();
    assert!(matches!(kept.wait(), Err(Error::Argument(_))));
    conn.sync()?;
    assert_eq!(conn.stats().commands, 0);
    Ok(())
}

#[test]
fn transact_does_not_run_without_a_command_and_ends_its_watch() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let other = support::open(&server);
    let attempts = Cell::new(0);
    let outcome = conn.transact(["n"], |_, tx| {
        attempts.set(attempts.get() + 1);
        tx.sadd("s", Vec::<String>::new());
        // Not even if a watched key has changed.
        other.incr("other").wait()?;
        Ok(tx.incr("n"))
    });
    assert!(matches!(outcome, Err(Error::Argument(_))), "{outcome:?}");
    assert_eq!((attempts.get(), conn.exists("n").wait()?), (1, 0));

    // Nothing is watched any more.
    let watch = conn.watch("n")?;
    let tx = watch.transaction();
    tx.sadd("s", Vec::<String>::new());
    tx.commit().wait().unwrap_err();
    other.set("n", 5).wait()?;
    let tx = conn.transaction();
    let n = tx.incr("n");
    tx.commit().wait()?;
    assert_eq!(n.wait()?, 6);

    // Nothing to do, in some cases.
    let taken: Option<i64> = conn.transact(["n"], |conn, tx| {
        let n: i64 = conn.get("n").wait()?;
        Ok((n > 100).then(|| tx.decr("n")))
    })?;
    assert_eq!(taken, None);
    conn.sync()
}

#[test]
fn a_command_issued_while_the_connection_is_in_use_is_missed_by_the_commit() -> Result<()> {
    thread_local! {
        static TX: RefCell<Option<Transaction<'static>>> = const { RefCell::new(None) };
    }
    struct Meddler;
    impl FromReply for Meddler {
        fn from_reply(_: redefer::resp::Frame<'_>) -> Result<Self> {
            TX.with_borrow(|tx| drop(tx.as_ref().map(|tx| tx.incr("inside"))));
            Ok(Meddler)
        }
    }
    let server = support::server();
    // Leaked, so that a transaction on it can be reached from a `FromReply`.
    let conn: &'static Connection = Box::leak(Box::new(support::open(&server)));
    let tx = conn.transaction();
    tx.incr("outside");
    TX.set(Some(tx));
    conn.echo::<Meddler>("x").wait()?;
    let tx = TX.take().expect("it was put there");
    assert!(matches!(tx.commit().wait(), Err(Error::Refused(_))));
    assert_eq!(conn.exists("outside").wait()?, 0);
    conn.sync()
}

#[test]
fn a_transaction_that_has_run_leaves_the_errors_of_dropped_handles_to_the_account() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set("text", "x").wait()?;
    let tx = conn.transaction();
    tx.incr("text");
    tx.lpush("text", 1);
    tx.set("set", 1);
    tx.commit().wait()?;
    conn.ping().wait()?;
    assert_eq!((conn.exists("set").wait()?, conn.stats().unseen_errors), (1, 2));
    assert_eq!(conn.sync().unwrap_err().code(), Some("ERR"), "the first one");
    assert_eq!(conn.stats().unseen_errors, 0);
    conn.sync()
}

#[test]
fn an_element_of_another_shape_need_not_hide_those_behind_it() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.rpush("list", ["1", "two", "3"]).wait()?;
    // Without a `Result` the first error is the last element.
    assert_eq!(conn.lrange::<i64>("list", 0, -1).count(), 2);
    let mut good = Vec::new();
    for element in conn.lrange::<Result<i64>>("list", 0, -1) {
        match element? {
            Ok(n) => good.push(n),
            Err(error) => assert!(error.to_string().ends_with("\"two\""), "{error}"),
        }
    }
    assert_eq!(good, [1, 3]);
    let all: Vec<Result<i64>> = conn.lrange("list", 0, -1).wait()?;
    assert_eq!(all.iter().filter(|n| n.is_ok()).count(), 2);

    conn.set("a", 1).wait()?;
    let some: Vec<Result<i64>> = conn.mget(["a", "none", "a"]).wait()?;
    assert!(matches!(some[..], [Ok(1), Err(Error::Nil), Ok(1)]));

    conn.hset("h", ("a", 1, "b", "two")).wait()?;
    let fields: HashMap<String, Result<i64>> = conn.hgetall("h").wait()?;
    assert!(fields["a"].is_ok() && fields["b"].is_err());
    let script = "return {1, {err = 'ERR mine'}, 'x'}";
    let parts: Vec<Result<i64>> = conn.eval(script, (), ()).wait()?;
    assert!(matches!(&parts[..], [Ok(1), Err(Error::Server(_)), Err(Error::UnexpectedReply(_))]));

    // A reply that is an error, and a broken connection, are the error of the wait.
    assert_eq!(conn.lrange::<Result<i64>>("a", 0, -1).next().unwrap().unwrap_err().code(), Some("WRONGTYPE"));
    assert_eq!(conn.command::<Result<i64>>("NOSUCH", ()).wait().unwrap_err().code(), Some("ERR"));
    server.kill();
    assert!(conn.lrange::<Result<i64>>("list", 0, -1).next().unwrap().unwrap_err().is_connection_lost());
    Ok(())
}

#[test]
fn a_poison_entry_of_a_stream_keeps_its_id_and_the_others() -> Result<()> {
    type Order = HashMap<String, i64>;
    let server = support::server();
    let conn = support::open(&server);
    conn.xgroup_create_with("orders", "g", StreamId::MIN, redefer::commands::XgroupCreateOptions::new().mkstream())
        .wait()?;
    for pounds in ["1", "many", "3"] {
        conn.xadd("orders", NewId::Auto, ("pounds", pounds)).wait()?;
    }
    let read: Option<ReadStreams<String, Result<Order>>> =
        conn.xreadgroup("g", "c", ("orders", GroupRead::Undelivered)).wait()?;
    let entries = read.expect("there are some").remove(0).1;
    let (mut sum, mut poison) = (0, Vec::new());
    for Entry { id, fields, .. } in entries {
        match fields {
            Ok(order) => sum += order["pounds"],
            Err(_) => poison.push(id),
        }
        conn.xack("orders", "g", id).wait()?;
    }
    assert_eq!((sum, poison.len(), conn.xpending("orders", "g").wait()?.count), (4, 1, 0));

    // Claimed again, from the beginning to the end.
    for n in 0..3 {
        conn.xadd("orders", NewId::Auto, ("pounds", n)).wait()?;
    }
    conn.xreadgroup::<String, Result<Order>>("g", "gone", ("orders", GroupRead::Undelivered)).wait()?;
    let (mut start, mut claimed, mut rounds) = (StreamId::MIN, 0, 0);
    loop {
        let some: Autoclaimed<Entry<Order>> =
            conn.xautoclaim_count("orders", "g", "c", std::time::Duration::ZERO, start, 2).wait()?;
        claimed += some.claimed.len();
        rounds += 1;
        match some.go_on() {
            Some(next) => start = next,
            None => break,
        }
    }
    assert_eq!((claimed, rounds), (3, 2));
    Ok(())
}

#[test]
fn the_server_is_not_told_about_this_crate_if_it_must_not_be() -> Result<()> {
    let server = support::server();
    let config = support::config(&server).client_setinfo(false);
    let url = format!("{}?client_setinfo=false&protocol=resp3", server.url());
    for config in [config.clone(), config.protocol(Protocol::Resp2), Config::from_url(&url)?] {
        let conn = Connection::open(config)?;
        assert!(!conn.client_info().wait()?.text.contains("lib-name=redefer"));
    }
    if server.version() >= (7, 2, 0) {
        let rules = [("user", "reader on >s3cret ~* +@read +client|info")];
        let server = support::server_with(rules);
        let config = support::config(&server).user("reader").password("s3cret");
        let admin = support::open(&server);
        Connection::open(&config)?;
        assert!(!admin.acl_log().wait::<Vec<_>>()?.is_empty());
        admin.acl_log_reset().wait()?;
        Connection::open(config.client_setinfo(false))?;
        assert_eq!(admin.acl_log().wait::<Vec<_>>()?.len(), 0);
    }
    Ok(())
}

#[test]
fn nothing_but_hello_is_sent_without_setinfo() -> Result<()> {
    let server = Scripted::start(|peer| {
        peer.expect_bytes(array(["HELLO", "3"]))?;
        peer.send("%1\r\n$5\r\nproto\r\n:3\r\n")?;
        peer.expect(["PING"])?;
        peer.send("+PONG\r\n")?;
        peer.expect_end()
    });
    let conn = Connection::open(Config::from_url(&server.url())?.protocol(Protocol::Resp3).client_setinfo(false))?;
    conn.ping().wait()?;
    drop(conn);
    server.finish();
    Ok(())
}

/// What generic code can do with a hash.
fn load<T: FromReply, C: HashCommands>(on: C, key: &str) -> C::Reply<T> {
    on.hgetall_as(key)
}

#[test]
fn a_hash_is_one_value_on_every_executor() -> Result<()> {
    type Numbers = HashMap<String, i64>;
    fn all<C: HashCommands>(on: C) -> C::MultiBulk<((), ())> {
        on.hgetall("h")
    }
    fn take(elements: impl Elements<((), ())>, value: impl Handle<Numbers>) -> Result<[Numbers; 2]> {
        Ok([elements.wait_as()?, value.wait()?])
    }
    let server = support::server();
    let conn = support::open(&server);
    conn.hset("h", ("a", 1, "b", 2)).wait()?;
    let want = HashMap::from([("a".to_owned(), 1), ("b".to_owned(), 2)]);
    assert_eq!(take(all(&conn), load(&conn, "h"))?, [want.clone(), want.clone()]);
    let batch = conn.batch();
    let (elements, value) = (all(&batch), load(&batch, "h"));
    batch.finish()?;
    assert_eq!(take(elements, value)?, [want.clone(), want.clone()]);
    let tx = conn.transaction();
    let (elements, value) = (all(&tx), load(&tx, "h"));
    tx.commit().wait()?;
    assert_eq!(take(elements, value)?, [want.clone(), want]);
    Ok(())
}

#[test]
fn an_option_of_anything_is_a_list_of_arguments() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.rpush("l", ["a", "b", "a"]).wait()?;
    for (rank, at) in [(None, 0), (Some(2), 2)] {
        let position = conn.command::<i64>("LPOS", ("l", "a", rank.map(|rank| ("RANK", rank))));
        assert_eq!(position.wait()?, at);
    }
    let more = Some(vec!["x", "y"]);
    assert_eq!(conn.rpush("l", ("c", &more)).wait()?, 6);
    assert!(matches!(conn.rpush("l", None::<[i64; 2]>).wait(), Err(Error::Argument(_))));
    let shared: std::sync::Arc<[String]> = ["a".to_owned(), "b".to_owned()].into();
    assert_eq!(conn.sadd("s", &shared).wait()?, 2);
    assert_eq!(conn.hset("h", Some(("a", u128::MAX))).wait()?, 1);
    assert_eq!(conn.hget::<u128>("h", "a").wait()?, u128::MAX);
    assert!(conn.info_sections(()).wait()?.get("redis_version").is_some());
    Ok(())
}

#[test]
fn a_map_of_any_shape_has_pairs() -> Result<()> {
    let server = support::server();
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let conn = Connection::open(support::config(&server).protocol(protocol))?;
        conn.hset("h", ("a", 1, "b", 2)).wait()?;
        let value: Value = conn.command("HGETALL", "h").wait()?;
        assert_eq!(value.pairs().count(), 2);
        assert_eq!(value.get("b").and_then(Value::as_i64), Some(2));
        conn.zadd("z", (1.5, "m")).wait()?;
        let value: Value = conn.command("ZRANGE", ("z", 0, -1, "WITHSCORES")).wait()?;
        assert_eq!(value.get("m").and_then(Value::as_f64), Some(1.5));
    }
    Ok(())
}

#[cfg(feature = "serde")]
#[test]
fn a_value_that_cannot_be_serialised_fails_its_own_command() -> Result<()> {
    use redefer::serde::{Fields, Json};
    let server = support::server();
    let conn = support::open(&server);
    let odd = HashMap::from([((1, 2), 3)]);
    let before = conn.stats().commands;
    let says = |error: Error, what: &str| {
        assert!(matches!(error, Error::Custom(_)), "{error:?}");
        assert!(error.to_string().contains(what), "{error}");
    };
    let (json, fields) = ("cannot be JSON", "cannot be the fields of a hash");
    says(conn.set("k", Json(&odd)).wait().unwrap_err(), json);
    says(conn.set("k", Some(1).map(|_| Box::new(Json(&odd))).unwrap()).wait().unwrap_err(), json);
    says(conn.hset("h", Fields(5)).wait().unwrap_err(), fields);
    says(conn.hset("h", ("a", 1, "b", Json(&odd), "c", 2)).wait().unwrap_err(), json);
    says(conn.rpush("l", args::each([Json(&odd), Json(&odd)])).wait().unwrap_err(), json);
    says(conn.rpush("l", vec![Json(&odd)]).wait().unwrap_err(), json);
    says(conn.command::<()>("SET", ("k", Json(&odd))).wait().unwrap_err(), json);
    says(conn.eval::<Value>("return 1", "k", Json(&odd)).wait().unwrap_err(), json);
    says(Script::new("return 1").run::<Value, _>(&conn, "k", Json(&odd)).wait().unwrap_err(), json);
    says(conn.hsetex("h", std::time::Duration::from_secs(1), Fields(5)).wait().unwrap_err(), fields);
    let batch = conn.batch();
    batch.set("k", Json(&odd));
    match batch.finish() {
        Err(Error::Batch(error)) => says(error.first().clone(), json),
        other => panic!("{other:?}"),
    }
    assert_eq!(conn.stats().commands, before, "nothing was sent");
    let tx = conn.transaction();
    tx.set("a", 1);
    tx.set("k", Json(&odd));
    says(tx.commit().wait().unwrap_err(), json);
    says(conn.watch(Json(&odd)).unwrap_err(), json);
    assert_eq!((conn.stats().commands, conn.dbsize().wait()?), (before, 0));
    conn.sync()
}

#[test]
fn an_option_that_cannot_be_sent_fails_its_command_and_no_other() -> Result<()> {
    use redefer::commands::{
        GeoFrom, GeoShape, GeoUnit, ScanOptions, SetOptions, SimilarTo, SortOptions, ValueCondition,
    };

    let server = support::server();
    let conn = support::open(&server);
    let failing = || redefer::Arg::Failed(Error::custom("no bytes"));
    let within = GeoShape::Radius(1.0, GeoUnit::Kilometers);
    let before = conn.stats();
    let errors = [
        conn.set_with("k", "v", SetOptions::new().if_value(ValueCondition::equals(failing()))).wait().unwrap_err(),
        conn.sort_with::<String>("k", SortOptions::new().by(failing())).wait::<Vec<_>>().unwrap_err(),
        conn.geosearch::<String>("k", &GeoFrom::member(failing()), &within).wait::<Vec<_>>().unwrap_err(),
        conn.vsim::<String>("k", SimilarTo::element(failing())).wait::<Vec<_>>().unwrap_err(),
        conn.scan_with::<String>(ScanOptions::new().match_(failing())).next().unwrap().unwrap_err(),
        conn.hscan::<String, String>(failing()).next().unwrap().unwrap_err(),
        conn.xrange_all::<Value>(failing(), ..).next().unwrap().unwrap_err(),
        conn.transaction().sort_with::<String>("k", SortOptions::new().get(failing())).wait::<Vec<_>>().unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, Error::Argument(why) if why.contains("cannot be sent")), "{error:?}");
    }
    assert_eq!(conn.stats().bytes_written, before.bytes_written);
    assert!(format!("{:?}", ValueCondition::equals(failing())).contains("cannot be sent"));
    conn.set("k", "v").wait()
}
