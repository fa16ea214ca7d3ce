//! Every handle sees its own reply: whatever is waited for first, forgotten, given up, panicked over or mistaken.
//!
//! Scripts here speak RESP3 unless they are about both protocols, so `REDEFER_PROTOCOL` changes only the tests with a
//! real server.

#![cfg(feature = "testing")]

mod support;

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use redefer::resp::Frame;
use redefer::{Arg, Error, Protocol, Result, Sent, ServerError, args, prelude::*};
use support::scripted::{Scripted, bulk, gate};

/// A type whose decoding panics.
#[derive(Debug)]
struct Bomb;

impl FromReply for Bomb {
    fn from_reply(_: Frame<'_>) -> Result<Self> {
        panic!("a FromReply that panics");
    }
}

/// A type that takes nothing.
#[derive(Debug)]
struct Picky;

impl FromReply for Picky {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        Err(Error::custom(format!("not {}", frame.kind())))
    }
}

/// An argument whose encoding panics.
struct BadArgument;

impl ToArg for BadArgument {
    fn to_arg(&self) -> Arg<'_> {
        panic!("a ToArg that panics");
    }
}

#[track_caller]
fn panics<R>(run: impl FnOnce() -> R) {
    if catch_unwind(AssertUnwindSafe(run)).is_ok() {
        panic!("no panic came out");
    }
}

#[test]
fn replies_waited_for_in_order_in_reverse_and_at_random_are_each_their_own() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let count = 2_000;
    for round in 0..4 {
        let mut handles: Vec<(i64, Reply<'_, i64>)> = (0..count).map(|n| (n, conn.echo(n))).collect();
        match round {
            0 => {}
            1 => handles.reverse(),
            2 => fastrand::Rng::with_seed(7).shuffle(&mut handles),
            // From both ends in turn.
            _ => {
                let mut other = handles.split_off(handles.len() / 2);
                other.reverse();
                handles = handles.into_iter().zip(other).flat_map(|(a, b)| [a, b]).collect();
            }
        }
        assert_eq!(handles.len(), count as usize);
        for (n, handle) in handles {
            assert_eq!(handle.wait()?, n, "round {round}");
        }
        assert_eq!(conn.stats().stored, 0);
        assert_eq!(conn.outstanding(), 0);
    }
    Ok(())
}

enum Held<'c> {
    Echo(Reply<'c, i64>, i64),
    Queued(Queued<'c, i64>, i64),
    Fails(Reply<'c, i64>),
    Text(Reply<'c, String>, String),
    /// The next element and the one behind the last.
    List(MultiBulk<'c, i64>, i64, i64),
    Commit(Reply<'c, ()>),
    Refused(Queued<'c, i64>),
}

/// Commands of all kinds, whose handles are used, given up and forgotten in random order.
fn random_walk(conn: &Connection, seed: u64, steps: usize) -> Result<()> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut held: Vec<Held<'_>> = Vec::new();
    let mut number = 0;
    let mut unseen = 0;
    for step in 0..steps {
        number += 1;
        match rng.u32(0..18) {
            0..=3 => held.push(Held::Echo(conn.echo(number), number)),
            4 => held.push(Held::Fails(conn.incr("text"))),
            5 => {
                let text = "long ".repeat(rng.usize(0..2_000)) + &number.to_string();
                held.push(Held::Text(conn.echo(&text), text));
            }
            6 | 7 => {
                let (from, to) = (rng.i64(0..50), rng.i64(50..100));
                held.push(Held::List(conn.lrange("numbers", from, to - 1), from, to));
            }
            8 => {
                let tx = conn.transaction();
                let one = tx.echo(number);
                let fails = tx.incr("text");
                let two = tx.echo(number + 1);
                held.push(Held::Commit(tx.commit()));
                held.push(Held::Queued(two, number + 1));
                held.push(Held::Refused(fails));
                held.push(Held::Queued(one, number));
                number += 1;
            }
            9 => conn.echo::<i64>(number).detach(),
            10 => {
                let batch = conn.batch();
                let one = batch.echo(number);
                batch.echo::<i64>(-number);
                if rng.bool() {
                    batch.finish()?;
                }
                held.push(Held::Queued(one, number));
            }
            11 => conn.flush()?,
            _ => {}
        }
        if held.is_empty() || rng.u32(0..4) == 0 {
            continue;
        }
        let one = held.swap_remove(rng.usize(0..held.len()));
        let what = format!("seed {seed}, step {step}");
        match (one, rng.u32(0..8)) {
            (Held::Echo(reply, _), 0) => drop(reply),
            (Held::Echo(reply, _), 1) => reply.detach(),
            (Held::Echo(reply, _), 2) => std::mem::forget(reply),
            (Held::Echo(reply, n), 3) => {
                reply.is_ready()?;
                held.push(Held::Echo(reply, n));
            }
            (Held::Echo(reply, n), _) => assert_eq!(reply.wait()?, n, "{what}"),
            (Held::Queued(reply, _), 0) => drop(reply),
            (Held::Queued(reply, _), 1) => std::mem::forget(reply),
            (Held::Queued(reply, n), 2) => {
                reply.is_ready()?;
                held.push(Held::Queued(reply, n));
            }
            (Held::Queued(reply, n), _) => assert_eq!(reply.wait()?, n, "{what}"),
            (Held::Fails(reply), 0) => {
                drop(reply);
                unseen += 1;
            }
            (Held::Fails(reply), 1) => std::mem::forget(reply),
            (Held::Fails(reply), _) => assert_eq!(reply.wait().unwrap_err().code(), Some("ERR"), "{what}"),
            (Held::Refused(reply), _) => assert_eq!(reply.wait().unwrap_err().code(), Some("ERR"), "{what}"),
            (Held::Text(reply, _), 0) => drop(reply),
            (Held::Text(reply, text), _) => assert_eq!(reply.wait()?, text, "{what}"),
            (Held::List(list, ..), 0) => drop(list),
            (Held::List(list, ..), 1) => std::mem::forget(list),
            (Held::List(list, from, to), 2) => {
                assert_eq!(list.wait::<Vec<_>>()?, (from..to).collect::<Vec<_>>(), "{what}");
            }
            (Held::List(mut list, from, to), 3) => {
                assert_eq!(list.len()?, Some((to - from) as usize), "{what}");
                held.push(Held::List(list, from, to));
            }
            (Held::List(mut list, from, to), _) => {
                let more = rng.i64(0..=to - from);
                for n in from..from + more {
                    assert_eq!(list.next().transpose()?, Some(n), "{what}");
                }
                if from + more < to {
                    held.push(Held::List(list, from + more, to));
                } else {
                    assert!(list.next().is_none(), "{what}");
                }
            }
            (Held::Commit(reply), _) => reply.wait()?,
        }
    }
    unseen += held.iter().filter(|one| matches!(one, Held::Fails(_) | Held::Refused(_))).count();
    held.clear();
    match conn.sync() {
        Err(error) => assert_eq!((error.code(), unseen > 0), (Some("ERR"), true), "seed {seed}"),
        Ok(()) => assert_eq!(unseen, 0, "seed {seed}"),
    }
    assert_eq!(conn.echo::<String>("last").wait()?, "last", "seed {seed}");
    assert_eq!(conn.outstanding(), 0);
    assert!(!conn.is_broken());
    Ok(())
}

#[test]
fn any_mixture_of_commands_and_ways_to_use_a_handle_keeps_the_step() -> Result<()> {
    let server = support::server();
    let setup = support::open(&server);
    setup.set("text", "text").wait()?;
    setup.rpush("numbers", (0..100).collect::<Vec<i64>>()).wait()?;
    let (seeds, steps) = if cfg!(debug_assertions) { (24, 1_000) } else { (200, 2_000) };
    for seed in 0..seeds {
        let config = if seed % 2 == 0 { support::config(&server) } else { support::unix_config(&server) };
        let config = match seed % 6 {
            0 => config.max_outstanding(7),
            1 => config.write_batch(100),
            2 => config.send_when(redefer::SendWhen::Eager),
            3 => config.send_when(redefer::SendWhen::Gathering).max_outstanding(50),
            _ => config,
        };
        let conn = Connection::open(config)?;
        random_walk(&conn, seed, steps)?;
    }
    Ok(())
}

#[test]
fn forgotten_handles_change_nothing_for_the_others() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.rpush("list", [1, 2, 3]).wait()?;
    let mut kept = Vec::new();
    for n in 0..300 {
        std::mem::forget(conn.echo::<i64>(-n));
        let mut half = conn.lrange::<i64>("list", 0, -1);
        if n % 10 == 0 {
            assert_eq!(half.next().transpose()?, Some(1));
        }
        std::mem::forget(half);
        kept.push((n, conn.echo::<i64>(n)));
    }
    for (n, handle) in kept {
        assert_eq!(handle.wait()?, n);
    }
    let tx = conn.transaction();
    std::mem::forget(tx.incr("x"));
    let two = tx.incr("x");
    std::mem::forget(tx.commit());
    assert_eq!(two.wait()?, 2);
    let tx = conn.transaction();
    std::mem::forget(tx.incr("x"));
    std::mem::forget(tx);
    let batch = conn.batch();
    std::mem::forget(batch.incr("x"));
    batch.finish()?;
    assert_eq!(conn.get::<i64>("x").wait()?, 3);
    Ok(())
}

#[test]
fn a_panic_while_decoding_leaves_the_other_replies_right() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.rpush("list", [1, 2, 3, 4]).wait()?;

    // At the front of the buffer: short, and an aggregate.
    let (first, bad, last) = (conn.echo::<i64>(1), conn.echo::<Bomb>(2), conn.echo::<i64>(3));
    assert_eq!(first.wait()?, 1);
    panics(|| bad.wait());
    assert_eq!(last.wait()?, 3);
    let (bad, last) = (conn.command::<Bomb>("LRANGE", ("list", 0, -1)), conn.echo::<i64>(3));
    panics(|| bad.wait());
    assert_eq!(last.wait()?, 3);

    // Kept for its handle.
    let (bad, last) = (conn.echo::<Bomb>(2), conn.echo::<i64>(3));
    assert_eq!(last.wait()?, 3);
    panics(|| bad.wait());
    panics(|| conn.echo::<Bomb>(2).wait_timeout(std::time::Duration::from_secs(20)));

    // In the middle of a multi-bulk, read from the connection and from the side.
    let (mut list, last) = (conn.lrange::<Bomb>("list", 0, -1), conn.echo::<i64>(4));
    panics(|| list.next());
    panics(|| list.next());
    assert_eq!(last.wait()?, 4);
    panics(|| list.next());
    assert_eq!(list.len()?, Some(1));
    let after = conn.echo::<i64>(5);
    panics(|| list.wait::<Vec<_>>());
    assert_eq!(after.wait()?, 5);

    // A stranger's code in for_each_bytes.
    let (list, last) = (conn.lrange::<String>("list", 0, -1), conn.echo::<i64>(6));
    panics(|| list.for_each_bytes(|_| panic!("a closure that panics")));
    assert_eq!(last.wait()?, 6);

    // In a transaction.
    let tx = conn.transaction();
    let (one, bad, three) = (tx.echo::<i64>(1), tx.echo::<Bomb>(2), tx.echo::<i64>(3));
    tx.commit().wait()?;
    panics(|| bad.wait());
    assert_eq!((one.wait()?, three.wait()?), (1, 3));
    assert_eq!(conn.outstanding(), 0);
    conn.sync()
}

#[test]
fn a_panic_while_decoding_a_timed_wait_leaves_other_transactions_alone() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let tx = conn.transaction();
    let (bad, mine) = (tx.echo::<Bomb>(1), tx.echo::<i64>(2));
    tx.commit().wait()?;
    panics(|| bad.wait_timeout(std::time::Duration::from_secs(20)));
    // Takes the room of the first one, if that has been given up too early.
    let tx = conn.transaction();
    let (three, four) = (tx.echo::<i64>(3), tx.echo::<i64>(4));
    tx.commit().wait()?;
    assert_eq!((mine.wait()?, three.wait()?, four.wait()?), (2, 3, 4));
    Ok(())
}

#[test]
fn a_panic_while_encoding_sends_nothing_of_the_command() -> Result<()> {
    let server = Scripted::start(|peer| {
        peer.handshake()?;
        peer.expect(["GET", "before"])?;
        peer.expect(["GET", "between"])?;
        peer.expect(["MULTI"])?;
        peer.expect(["INCR", "x"])?;
        peer.expect(["EXEC"])?;
        peer.expect(["SET", "in", "batch"])?;
        peer.expect(["GET", "after"])?;
        peer.send("$1\r\na\r\n$1\r\nb\r\n+OK\r\n+QUEUED\r\n*1\r\n:1\r\n+OK\r\n$1\r\nc\r\n")?;
        peer.expect_end()
    });
    let conn = Connection::open(server.url())?;
    let before = conn.get::<String>("before");
    panics(|| conn.set("key", BadArgument));
    panics(|| conn.set(BadArgument, "value"));
    panics(|| conn.rpush("list", args::each(["a", "b"].into_iter().chain(std::iter::from_fn(|| panic!("in each"))))));
    panics(|| conn.command::<Value>("SOME", ("thing", BadArgument)));
    panics(|| conn.watch([BadArgument]));
    let between = conn.get::<String>("between");
    let tx = conn.transaction();
    panics(|| tx.set("key", BadArgument));
    let x = tx.incr("x");
    panics(|| tx.rpush("list", [BadArgument]));
    tx.commit().detach();
    let batch = conn.batch();
    panics(|| batch.set("key", BadArgument));
    let set = batch.set("in", "batch");
    let after = conn.get::<String>("after");
    assert_eq!(after.wait()?, "c");
    batch.finish()?;
    set.wait()?;
    assert_eq!(x.wait()?, 1);
    assert_eq!((between.wait()?, before.wait()?), ("b".to_owned(), "a".to_owned()));
    conn.sync()?;
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn a_failed_conversion_takes_its_own_reply_and_no_other() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.rpush("list", ["a", "b", "c"]).wait()?;
    let (bad, good) = (conn.echo::<i64>("text"), conn.echo::<i64>(1));
    assert!(matches!(bad.wait(), Err(Error::UnexpectedReply(_))));
    assert_eq!(good.wait()?, 1);
    let (bad, good) = (conn.echo::<Picky>("text"), conn.echo::<i64>(2));
    assert_eq!(good.wait()?, 2);
    assert_eq!(bad.wait().unwrap_err().to_string(), "not a bulk string");
    let (bad, good) = (conn.echo::<String>(&b"\xff\xfe"[..]), conn.echo::<i64>(3));
    assert!(matches!(bad.wait(), Err(Error::UnexpectedReply(_))));
    assert_eq!(good.wait()?, 3);
    let (bad, good) = (conn.get::<String>("nothing"), conn.echo::<i64>(4));
    assert!(matches!(bad.wait(), Err(Error::Nil)));
    assert_eq!(good.wait()?, 4);
    // The iteration ends at the element that does not fit, and what is left of it is skipped.
    let (mut list, good) = (conn.lrange::<i64>("list", 0, -1), conn.echo::<i64>(5));
    assert!(matches!(list.next(), Some(Err(Error::UnexpectedReply(_)))));
    assert!(list.next().is_none());
    assert!(list.next().is_none());
    assert_eq!(good.wait()?, 5);
    let (list, good) = (conn.lrange::<i64>("list", 0, -1), conn.echo::<i64>(6));
    assert!(list.wait::<Vec<_>>().is_err());
    assert_eq!(good.wait()?, 6);
    // An odd number of elements where pairs are expected.
    let (list, good) = (conn.lrange::<(String, String)>("list", 0, -1), conn.echo::<i64>(7));
    assert!(matches!(list.wait::<Vec<_>>(), Err(Error::UnexpectedReply(_))));
    assert_eq!(good.wait()?, 7);
    conn.sync()
}

#[test]
fn an_error_element_is_the_value_of_that_element_alone() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let script = "return {1, redis.error_reply('MINE of this element'), {2, redis.error_reply('MINE too')}, 3}";
    type Elements = (i64, Result<i64, ServerError>, (i64, Result<i64, ServerError>), i64);
    let (all, after) = (conn.eval::<Elements>(script, (), ()), conn.echo::<i64>(9));
    let (one, two, (three, four), five) = all.wait()?;
    assert_eq!((one, three, five), (1, 2, 3));
    assert_eq!(two.unwrap_err().code(), Some("MINE"));
    assert_eq!(four.unwrap_err().code(), Some("MINE"));
    assert_eq!(after.wait()?, 9);
    // Into a type without room for it, the error is the outcome, and the rest is consumed.
    let (all, after) = (conn.eval::<Vec<Value>>(script, (), ()), conn.eval::<Vec<i64>>(script, (), ()));
    let last = conn.echo::<i64>(10);
    assert_eq!(last.wait()?, 10);
    assert_eq!(after.wait().unwrap_err().code(), Some("MINE"));
    let all = all.wait()?;
    assert_eq!(all.len(), 4);
    assert_eq!(all[0], Value::Integer(1));
    assert!(matches!(&all[1], Value::Error(error) if error.code() == Some("MINE")));
    assert_eq!(all[3], Value::Integer(3));
    // Nobody is told of an error inside a reply that was dropped: it is not the reply.
    drop(conn.eval::<Value>(script, (), ()));
    conn.sync()
}

#[test]
fn an_error_element_in_a_multi_bulk_ends_it_or_is_taken_as_a_value() -> Result<()> {
    let server = Scripted::start(|peer| {
        peer.handshake()?;
        peer.read_commands(6)?;
        let list = "*4\r\n:1\r\n-ERR an element\r\n*2\r\n:8\r\n-ERR inner\r\n:3\r\n";
        peer.send(format!("{list}:7\r\n{list}:8\r\n{list}:9\r\n"))?;
        peer.expect_end()
    });
    let conn = Connection::open(server.url())?;
    let (mut first, seven) = (conn.lrange::<Value>("list", 0, -1), conn.incr("n"));
    let (second, eight) = (conn.lrange::<Result<Value, ServerError>>("list", 0, -1), conn.incr("n"));
    let (third, nine) = (conn.lrange::<i64>("list", 0, -1), conn.incr("n"));
    assert_eq!(first.next().transpose()?, Some(Value::Integer(1)));
    assert_eq!(first.next().transpose()?, Some(Value::Error(ServerError::new("ERR an element"))));
    assert_eq!(seven.wait()?, 7);
    assert_eq!(first.len()?, Some(2));
    let second: Vec<_> = second.wait()?;
    assert_eq!(second.len(), 4);
    assert_eq!(second[1], Err(ServerError::new("ERR an element")));
    assert_eq!(second[3], Ok(Value::Integer(3)));
    assert_eq!(eight.wait()?, 8);
    let third: Vec<_> = third.collect();
    assert_eq!(third.len(), 2, "it ends after its first error");
    assert!(matches!(&third[..], [Ok(1), Err(Error::Server(_))]));
    assert_eq!(nine.wait()?, 9);
    assert_eq!(first.nth(1).transpose()?, Some(Value::Integer(3)));
    drop(first);
    conn.sync()?;
    drop(conn);
    server.finish();
    Ok(())
}

/// A reply of every kind.
const KINDS: [(&str, &str); 17] = [
    ("+OK\r\n", "a simple string"),
    ("+\r\n", "a simple string"),
    (":-42\r\n", "an integer"),
    ("$5\r\na\r\nbc\r\n", "a bulk string"),
    ("$0\r\n\r\n", "a bulk string"),
    ("$-1\r\n", "nil"),
    ("*-1\r\n", "nil"),
    ("_\r\n", "nil"),
    ("#t\r\n", "a boolean"),
    (",3.25\r\n", "a double"),
    ("(123456789012345678901234567890\r\n", "a big number"),
    ("=8\r\ntxt:some\r\n", "a verbatim string"),
    ("*2\r\n:1\r\n*1\r\n$1\r\nx\r\n", "an array"),
    ("*0\r\n", "an array"),
    ("~2\r\n+a\r\n+b\r\n", "a set"),
    ("%1\r\n+a\r\n%1\r\n+b\r\n:1\r\n", "a map"),
    ("|1\r\n+ttl\r\n:9\r\n~1\r\n:1\r\n", "a set"),
];

/// What kind of frame arrived.
#[derive(Debug)]
struct Kind(&'static str);

impl FromReply for Kind {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        Ok(Kind(frame.kind()))
    }
}

/// Answers each ECHO of a number with the reply of that number.
fn kinds() -> Scripted {
    Scripted::start(|peer| {
        peer.handshake()?;
        loop {
            let Ok(command) = peer.read_command() else { return Ok(()) };
            match str::from_utf8(&command[1]).ok().and_then(|text| text.parse::<usize>().ok()) {
                Some(n) => peer.send(KINDS[n].0)?,
                None => peer.send(bulk(&command[1]))?,
            }
        }
    })
}

#[test]
fn a_type_of_ones_own_sees_every_kind_of_reply() -> Result<()> {
    let server = kinds();
    let conn = Connection::open(server.url())?;
    for overtaken in [false, true] {
        for (n, (wire, kind)) in KINDS.iter().enumerate() {
            let (reply, next) = (conn.echo::<Kind>(n), conn.echo::<String>("next"));
            if overtaken {
                assert_eq!(next.wait()?, "next", "{wire:?}");
                assert_eq!(reply.wait()?.0, *kind, "{wire:?}");
            } else {
                assert_eq!(reply.wait()?.0, *kind, "{wire:?}");
                assert_eq!(next.wait()?, "next", "{wire:?}");
            }
        }
    }
    Ok(())
}

#[test]
fn a_reply_of_the_wrong_kind_is_consumed_whole_whoever_asked() -> Result<()> {
    let server = kinds();
    let conn = Connection::open(server.url())?;
    for (n, (wire, kind)) in KINDS.iter().enumerate() {
        let refused = |error: Error| match error {
            Error::Nil => assert_eq!(*kind, "nil", "{wire:?}"),
            Error::UnexpectedReply(_) | Error::Custom(_) => {}
            other => panic!("{wire:?}: {other}"),
        };
        let replies = (
            conn.echo::<Picky>(n),
            conn.echo::<i64>(n),
            conn.echo::<()>(n),
            conn.echo::<(i64, String, f64)>(n),
            conn.echo::<std::collections::HashMap<i64, i64>>(n),
            conn.echo::<Vec<(i64, i64)>>(n),
            conn.echo::<String>("next"),
        );
        refused(replies.0.wait().expect_err("it takes nothing"));
        let _ = replies.1.wait().map_err(refused);
        let _ = replies.2.wait().map_err(refused);
        let _ = replies.3.wait().map_err(refused);
        let _ = replies.4.wait().map_err(refused);
        let _ = replies.5.wait().map_err(refused);
        assert_eq!(replies.6.wait()?, "next", "{wire:?}");
    }
    Ok(())
}

#[test]
fn a_scalar_where_elements_are_asked_for_is_consumed_whole() -> Result<()> {
    let server = Scripted::start(|peer| {
        peer.handshake()?;
        for (wire, _) in KINDS {
            peer.read_commands(4)?;
            peer.send([wire, wire, wire, ":7\r\n"].concat())?;
        }
        peer.expect_end()
    });
    let conn = Connection::open(server.url())?;
    for (wire, kind) in KINDS {
        let mut lists = [conn.lrange::<Value>("a", 0, -1), conn.lrange("a", 0, -1), conn.lrange("a", 0, -1)];
        let seven = conn.incr("n");
        for (n, list) in lists.iter_mut().enumerate() {
            let what = format!("{wire:?}, list {n}");
            match (kind, list.next()) {
                ("an array" | "a set" | "a map", Some(Ok(_))) => {}
                ("an array", None) => assert_eq!(wire, "*0\r\n", "{what}"),
                ("nil", Some(Err(Error::Nil))) => {}
                ("an array" | "a set" | "a map" | "nil", other) => panic!("{what}: {other:?}"),
                (_, Some(Err(Error::UnexpectedReply(_)))) => assert!(list.next().is_none(), "{what}"),
                (_, other) => panic!("{what}: {other:?}"),
            }
        }
        assert_eq!(seven.wait()?, 7, "{wire:?}");
    }
    drop(conn);
    server.finish();
    Ok(())
}

thread_local! {
    static SHARED: RefCell<Option<Rc<Connection>>> = const { RefCell::new(None) };
}

/// A type that uses the connection it is being read from.
#[derive(Debug)]
struct Meddler(bool);

impl FromReply for Meddler {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        SHARED.with(|shared| {
            let shared = shared.borrow();
            let conn = shared.as_ref().ok_or_else(|| Error::custom("no connection"))?;
            let refused = |result: Result<i64>| matches!(result, Err(Error::Refused(_)));
            let mut all = refused(conn.incr("meddled").wait());
            all &= conn.flush().is_err() && conn.sync().is_err();
            conn.incr("meddled").detach();
            drop(conn.incr("meddled"));
            drop(conn.lrange::<i64>("list", 0, -1));
            all &= conn.lrange::<i64>("list", 0, -1).wait::<Vec<_>>().is_err();
            let tx = conn.transaction();
            let queued = tx.incr("meddled");
            all &= tx.commit().wait().is_err() && refused(queued.wait());
            let batch = conn.batch();
            batch.incr("meddled");
            all &= batch.finish().is_err();
            all &= conn.watch("meddled").is_err();
            let _ = (conn.stats(), conn.is_broken(), conn.outstanding(), format!("{conn:?}"), conn.next_push());
            Ok(Meddler(all && frame.as_bytes() == Some(b"payload")))
        })
    }
}

#[test]
fn a_from_reply_that_uses_its_own_connection_is_refused_and_harms_nobody() -> Result<()> {
    let server = support::server();
    let conn = Rc::new(support::open(&server));
    SHARED.set(Some(Rc::clone(&conn)));
    conn.rpush("list", ["payload", "payload"]).wait()?;
    // At the front of the buffer, by the short way and the long one.
    assert!(conn.echo::<Meddler>("payload").wait()?.0);
    let handle = conn.echo::<Meddler>("payload");
    assert!(handle.wait_timeout(std::time::Duration::from_secs(20))?.0);
    // Kept for its handle.
    let (early, late) = (conn.echo::<Meddler>("payload"), conn.echo::<i64>(1));
    assert_eq!(late.wait()?, 1);
    assert!(early.wait()?.0);
    // An element.
    let mut list = conn.lrange::<Meddler>("list", 0, -1);
    assert!(list.next().transpose()?.is_some_and(|meddler| meddler.0));
    drop(list);
    assert_eq!(conn.exists("meddled").wait()?, 0, "nothing was sent");
    SHARED.set(None);
    conn.sync()
}

/// An argument that is read from a connection when it is encoded.
struct Fetched<'c>(&'c Connection, &'static str);

impl ToArg for Fetched<'_> {
    fn to_arg(&self) -> Arg<'_> {
        match self.0.get::<String>(self.1).wait() {
            Ok(text) => Arg::from(text),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_to_arg_may_use_its_own_connection() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set("source", "from elsewhere").wait()?;
    let before = conn.echo::<i64>(1);
    conn.set("copy", Fetched(&conn, "source")).wait()?;
    assert_eq!(before.wait()?, 1);
    assert_eq!(conn.get::<String>("copy").wait()?, "from elsewhere");
    conn.mset([("a", Fetched(&conn, "source")), ("b", Fetched(&conn, "copy"))]).wait()?;
    assert_eq!(conn.command::<String>("GET", "b").wait()?, "from elsewhere");
    assert_eq!(conn.command::<String>("ECHO", Fetched(&conn, "a")).wait()?, "from elsewhere");
    let tx = conn.transaction();
    let queued = tx.echo::<String>(Fetched(&conn, "source"));
    tx.commit().wait()?;
    assert_eq!(queued.wait()?, "from elsewhere");
    let batch = conn.batch();
    let queued = batch.echo::<String>(Fetched(&conn, "source"));
    batch.finish()?;
    assert_eq!(queued.wait()?, "from elsewhere");
    Ok(())
}

#[test]
fn arguments_may_be_read_from_a_multi_bulk_of_the_same_connection() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let words: Vec<String> = (0..5_000).map(|n| format!("word {n}")).collect();
    conn.rpush("list", &words).wait()?;
    let earlier = conn.echo::<i64>(1);
    let source = conn.lrange::<String>("list", 0, -1);
    assert_eq!(conn.rpush("copy", args::each(source.flatten())).wait()?, 5_000);
    assert_eq!(conn.lrange::<String>("copy", 0, -1).wait::<Vec<_>>()?, words);
    assert_eq!(earlier.wait()?, 1);
    let tx = conn.transaction();
    let pushed = tx.rpush("copy", args::each(conn.lrange::<String>("list", 0, 9).flatten()));
    tx.commit().wait()?;
    assert_eq!(pushed.wait()?, 5_010);
    Ok(())
}

const PUSH: &str = ">2\r\n+message\r\n:5\r\n";

fn push_taken(conn: &Connection) -> bool {
    conn.next_push() == Some(Value::Push(vec![Value::SimpleString(b"message".to_vec()), Value::Integer(5)]))
}

#[test]
fn pushes_between_replies_and_inside_arrays_are_never_counted_as_replies() -> Result<()> {
    // One push at every boundary of elements: before, inside at every level, and behind.
    let array = |push: &str| format!("{push}*3\r\n{push}:1\r\n{push}*2\r\n{push}:2\r\n{push}:3\r\n{push}:4\r\n{push}");
    let sent = [array(PUSH), array(PUSH), array(PUSH), array(PUSH), format!("{PUSH}:9\r\n")].concat();
    let server = Scripted::start(move |peer| {
        peer.handshake()?;
        for _ in 0..2 {
            peer.read_commands(5)?;
            peer.send(&sent)?;
        }
        peer.expect_end()
    });
    let conn = Connection::open(server.url())?;
    let want = || vec![Value::Integer(1), Value::Array(vec![Value::Integer(2), Value::Integer(3)]), Value::Integer(4)];
    for reverse in [false, true] {
        let whole = conn.command::<Vec<Value>>("LRANGE", ("a", 0, -1));
        let streamed = conn.lrange::<Value>("a", 0, -1);
        let mut abandoned = conn.lrange::<Value>("a", 0, -1);
        conn.command::<Value>("LRANGE", ("a", 0, -1)).detach();
        let nine = conn.incr("n");
        if reverse {
            assert_eq!(nine.wait()?, 9);
            assert_eq!(streamed.wait::<Vec<_>>()?, want());
            assert_eq!(whole.wait()?, want());
        } else {
            assert_eq!(whole.wait()?, want());
            assert_eq!(streamed.wait::<Vec<_>>()?, want());
            assert_eq!(abandoned.next().transpose()?, Some(Value::Integer(1)));
            drop(abandoned);
            assert_eq!(nine.wait()?, 9);
        }
        // The one behind the nine is not there yet or not looked at.
        let count = 4 * 7 + 1;
        for n in 0..count {
            assert!(push_taken(&conn), "push {n} of {count}, reverse: {reverse}");
        }
        assert_eq!(conn.next_push(), None);
    }
    assert_eq!(conn.stats().pushes, 2 * (4 * 7 + 1));
    conn.sync()?;
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn a_push_cut_by_the_end_of_a_read_is_completed_by_the_next() -> Result<()> {
    for at in 1..PUSH.len() {
        let (opener, opened) = gate();
        let server = Scripted::start(move |peer| {
            peer.handshake()?;
            peer.expect(["GET", "a"])?;
            peer.send(bulk("one").into_iter().chain(PUSH[..at].bytes()).collect::<Vec<u8>>())?;
            opened.wait();
            peer.send(&PUSH[at..])?;
            peer.expect(["GET", "b"])?;
            peer.send(bulk("two"))?;
            peer.expect_end()
        });
        let conn = Connection::open(server.url())?;
        assert_eq!(conn.get::<String>("a").wait()?, "one");
        opener.open();
        assert_eq!(conn.get::<String>("b").wait()?, "two", "cut at {at}");
        assert!(push_taken(&conn), "cut at {at}");
        drop(conn);
        server.finish();
    }
    Ok(())
}

#[test]
fn invalidations_of_a_real_server_are_pushes_and_not_replies() -> Result<()> {
    let server = support::server();
    let conn = Connection::open(support::config(&server).protocol(Protocol::Resp3))?;
    let other = support::open(&server);
    conn.command::<()>("CLIENT TRACKING", "ON").wait()?;
    for n in 0..50 {
        assert_eq!(conn.get::<Option<i64>>("tracked").wait()?, if n == 0 { None } else { Some(n - 1) });
        other.set("tracked", n).wait()?;
        let replies: Vec<Reply<'_, i64>> = (0..5).map(|n| conn.echo(n)).collect();
        for (n, reply) in replies.into_iter().enumerate() {
            assert_eq!(reply.wait()?, n as i64);
        }
    }
    let want =
        Value::Push(vec![Value::Bulk(b"invalidate".to_vec()), Value::Array(vec![Value::Bulk(b"tracked".to_vec())])]);
    assert_eq!(conn.next_push(), Some(want));
    assert_eq!(conn.stats().pushes, 50);
    Ok(())
}

#[test]
fn attributes_before_a_value_are_no_value() -> Result<()> {
    const ATTRIBUTE: &str = "|2\r\n+ttl\r\n:3600\r\n+more\r\n*2\r\n:1\r\n%1\r\n+a\r\n_\r\n";
    let array = format!("{ATTRIBUTE}*2\r\n{ATTRIBUTE}:1\r\n{ATTRIBUTE}*1\r\n{ATTRIBUTE}:2\r\n");
    let replies = [
        format!("{ATTRIBUTE}$5\r\nvalue\r\n"),
        array.clone(),
        array.clone(),
        array.clone(),
        format!("{ATTRIBUTE}-ERR no\r\n"),
        format!("{ATTRIBUTE}{PUSH}{ATTRIBUTE}:7\r\n"),
    ]
    .concat();
    let server = Scripted::start(move |peer| {
        peer.handshake()?;
        for _ in 0..2 {
            peer.read_commands(6)?;
            peer.send(&replies)?;
        }
        peer.expect_end()
    });
    let conn = Connection::open(server.url())?;
    let want = vec![Value::Integer(1), Value::Array(vec![Value::Integer(2)])];
    for reverse in [false, true] {
        let text = conn.get::<String>("a");
        let whole = conn.command::<Vec<Value>>("LRANGE", ("a", 0, -1));
        let streamed = conn.lrange::<Value>("a", 0, -1);
        conn.lrange::<Value>("a", 0, -1).detach();
        let fails = conn.incr("text");
        let seven = conn.incr("n");
        if reverse {
            assert_eq!(seven.wait()?, 7);
            assert_eq!(fails.wait().unwrap_err().code(), Some("ERR"));
            assert_eq!(streamed.wait::<Vec<_>>()?, want);
            assert_eq!(whole.wait()?, want);
            assert_eq!(text.wait()?, "value");
        } else {
            assert_eq!(text.wait()?, "value");
            assert_eq!(whole.wait()?, want);
            assert_eq!(streamed.wait::<Vec<_>>()?, want);
            assert_eq!(fails.wait().unwrap_err().code(), Some("ERR"));
            assert_eq!(seven.wait()?, 7);
        }
    }
    drop(conn);
    server.finish();
    Ok(())
}

/// Sends `surplus` right behind a reply, and `rest` when the next command has come.
fn surplus(surplus: &'static str, rest: &'static str) -> Result<Result<String>> {
    let server = Scripted::start(move |peer| {
        peer.handshake()?;
        peer.expect(["GET", "a"])?;
        peer.send(format!("$3\r\none\r\n{surplus}"))?;
        // The client may go away without another command.
        if peer.read_command().is_ok() {
            let _ = peer.send(rest);
        }
        peer.read_to_end().map(drop)
    });
    let conn = Connection::open(Config::from_url(&server.url())?.linger(std::time::Duration::ZERO))?;
    assert_eq!(conn.get::<String>("a").wait()?, "one");
    let two = conn.get::<String>("b").wait();
    if two.is_err() {
        assert!(conn.is_broken());
        assert!(
            matches!(conn.get::<String>("c").wait(), Err(Error::ConnectionLost(lost)) if lost.sent() == Sent::Unsent)
        );
    }
    Ok(two)
}

#[test]
fn a_reply_that_nobody_asked_for_breaks_the_connection_instead_of_shifting() -> Result<()> {
    for wire in ["$5\r\nextra\r\n", "+OK\r\n", "*1\r\n:1\r\n", "-ERR extra\r\n", "_\r\n"] {
        match surplus(wire, "$3\r\ntwo\r\n")? {
            Err(Error::ConnectionLost(lost)) => assert!(matches!(lost.cause(), Error::Protocol(_)), "{wire:?}: {lost}"),
            other => panic!("{wire:?}: {other:?}"),
        }
    }
    Ok(())
}

#[test]
fn half_a_reply_that_nobody_asked_for_breaks_the_connection_as_well() -> Result<()> {
    for (wire, rest) in [
        ("$5\r\nex", "tra\r\n$3\r\ntwo\r\n"),
        ("$", "5\r\nextra\r\n$3\r\ntwo\r\n"),
        ("+extr", "a\r\n$3\r\ntwo\r\n"),
        ("*1\r\n", "+extra\r\n$3\r\ntwo\r\n"),
    ] {
        match surplus(wire, rest)? {
            Err(Error::ConnectionLost(lost)) => assert!(matches!(lost.cause(), Error::Protocol(_)), "{wire:?}: {lost}"),
            other => panic!("{wire:?}: {other:?}"),
        }
    }
    Ok(())
}

#[test]
fn a_push_behind_a_reply_is_no_surplus() -> Result<()> {
    assert_eq!(surplus(PUSH, "$3\r\ntwo\r\n")??, "two");
    assert_eq!(surplus(">2\r\n+mess", "age\r\n:5\r\n$3\r\ntwo\r\n")??, "two");
    assert_eq!(surplus("|1\r\n+a\r\n:1\r\n>1\r\n+a\r\n", "$3\r\ntwo\r\n")??, "two");
    Ok(())
}

#[test]
fn a_reply_outstanding_from_before_a_transaction_is_still_its_own() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.rpush("list", [1, 2, 3]).wait()?;
    let before = conn.echo::<i64>(1);
    let mut half = conn.lrange::<i64>("list", 0, -1);
    assert_eq!(half.next().transpose()?, Some(1));
    let tx = conn.transaction();
    let (x, list) = (tx.incr("x"), tx.lrange::<i64>("list", 0, -1));
    let between = conn.echo::<i64>(2);
    let commit = tx.commit();
    let after = conn.echo::<i64>(3);
    assert_eq!(after.wait()?, 3);
    assert_eq!(list.wait::<Vec<_>>()?, [1, 2, 3]);
    commit.wait()?;
    assert_eq!((x.wait()?, between.wait()?, before.wait()?), (1, 2, 1));
    assert_eq!(half.wait::<Vec<_>>()?, [2, 3]);
    Ok(())
}

#[test]
fn an_iterator_that_fails_fails_its_command_and_nothing_is_sent() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.rpush("words", ["1", "two", "3"]).wait()?;
    let numbers = || conn.lrange::<i64>("words", 0, -1);
    let before = conn.stats().commands;
    let failed = conn.rpush("copy", args::try_each(numbers()));
    assert_eq!(conn.stats().commands, before + 1, "only the LRANGE");
    assert!(matches!(failed.wait(), Err(Error::UnexpectedReply(_))));
    let tx = conn.transaction();
    assert!(matches!(tx.rpush("copy", args::try_each(numbers())).wait(), Err(Error::UnexpectedReply(_))));
    assert!(tx.is_empty());
    assert!(matches!(
        conn.command::<i64>("RPUSH", ("copy", args::try_each(numbers()))).wait(),
        Err(Error::UnexpectedReply(_))
    ));
    assert_eq!(conn.exists("copy").wait()?, 0);
    assert_eq!(conn.rpush("copy", args::try_each(numbers().take(1))).wait()?, 1);
    conn.sync()
}
