//! Replies of many elements: lazy, overtaken, given up, cut anywhere, broken in the middle.

#![cfg(feature = "testing")]

mod support;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redefer::resp::Frame;
use redefer::{Error, Protocol, Result, ServerError, prelude::*};
use support::scripted::{Peer, Scripted, gate};

/// A scripted server that has answered the handshake, and how to reach it in the protocol under test.
fn scripted_config(mut script: impl FnMut(&mut Peer) -> io::Result<()> + Send + 'static) -> (Scripted, Config) {
    let server = Scripted::start(move |peer| {
        peer.handshake()?;
        script(peer)
    });
    let config = support::config_for(&server.url());
    (server, config)
}

fn scripted(script: impl FnMut(&mut Peer) -> io::Result<()> + Send + 'static) -> Result<(Scripted, Connection)> {
    let (server, config) = scripted_config(script);
    Ok((server, Connection::open(config)?))
}

/// A server that answers so many commands with this, in one write.
fn answering(commands: usize, answer: impl Into<Vec<u8>>) -> Result<(Scripted, Connection)> {
    let answer = answer.into();
    scripted(move |peer| {
        peer.read_commands(commands)?;
        peer.send(&answer)?;
        peer.expect_end()
    })
}

/// A server that answers each command with the next of these.
fn answering_each<R: Into<Vec<u8>>>(answers: impl IntoIterator<Item = R>) -> Result<(Scripted, Connection)> {
    let answers: Vec<Vec<u8>> = answers.into_iter().map(Into::into).collect();
    scripted(move |peer| {
        for answer in &answers {
            peer.read_command()?;
            peer.send(answer)?;
        }
        peer.expect_end()
    })
}

/// What `in_step` wants to hear.
const IN_STEP: &str = "+in step\r\n";

/// The same in RESP3, where pushes may come.
fn answering_resp3(commands: usize, answer: impl Into<Vec<u8>>) -> Result<(Scripted, Connection)> {
    let answer = answer.into();
    let (server, config) = scripted_config(move |peer| {
        peer.read_commands(commands)?;
        peer.send(&answer)?;
        peer.expect_end()
    });
    Ok((server, Connection::open(config.protocol(Protocol::Resp3))?))
}

/// A real server with a list of `a` to `e`, a hash, a sorted set and a text.
fn filled() -> Result<(support::Private, Connection)> {
    let server = support::server();
    let conn = support::open(&server);
    conn.rpush("list", LETTERS).wait()?;
    conn.hset("hash", [("a", 1), ("b", 2), ("c", 3)]).wait()?;
    conn.zadd("zset", [(0.5, "x"), (1.5, "y"), (2.5, "z")]).wait()?;
    conn.set("text", "v").wait()?;
    Ok((server, conn))
}

const LETTERS: [&str; 5] = ["a", "b", "c", "d", "e"];

#[track_caller]
fn in_step(conn: &Connection) -> Result<()> {
    assert_eq!(conn.ping_message::<String>("in step").wait()?, "in step");
    Ok(())
}

/// An error of the server whose message is this.
#[track_caller]
fn assert_error<T: std::fmt::Debug>(result: Result<T>, message: &str) {
    match result {
        Err(Error::Server(error)) => assert_eq!(error.to_string(), message),
        other => panic!("{other:?} where there should be {message:?}"),
    }
}

#[track_caller]
fn assert_unexpected<T: std::fmt::Debug>(result: Result<T>) {
    assert!(matches!(result, Err(Error::UnexpectedReply(_))), "{result:?}");
}

// Lazy.

#[test]
fn elements_are_read_as_they_are_asked_for() -> Result<()> {
    let (opener, gate) = gate();
    let (server, conn) = scripted(move |peer| {
        peer.expect(["LRANGE", "list", "0", "-1"])?;
        peer.send("*3\r\n")?;
        for element in [":1\r\n", ":2\r\n", ":3\r\n"] {
            gate.wait();
            peer.send(element)?;
        }
        peer.expect_end()
    })?;
    let mut list = conn.lrange::<i64>("list", 0, -1);
    assert_eq!(list.len()?, Some(3), "told before the first element has come");
    for n in 1..=3 {
        opener.open();
        assert_eq!(list.next().transpose()?, Some(n));
    }
    assert!(list.next().is_none());
    assert!(list.next().is_none());
    drop(list);
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn issuing_reads_nothing_and_an_ordinary_iteration_stores_nothing() -> Result<()> {
    let (_server, conn) = filled()?;
    let before = conn.stats();
    let list = conn.lrange::<String>("list", 0, -1);
    assert_eq!((conn.stats().reads, conn.outstanding()), (before.reads, 1));
    assert_eq!(list.collect::<Result<Vec<_>>>()?, LETTERS);
    assert_eq!((conn.stats().stored, conn.outstanding()), (0, 0));
    in_step(&conn)
}

#[test]
fn many_elements_pass_through() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.eval::<Value>(
        "for i = 1, 200 do redis.call('RPUSH', KEYS[1], unpack(ARGV)) end",
        "list",
        (0..1000).collect::<Vec<i64>>(),
    )
    .wait()?;
    let mut sum = 0;
    let mut count = 0;
    for element in conn.lrange::<i64>("list", 0, -1) {
        sum += element?;
        count += 1;
    }
    assert_eq!((count, sum), (200_000, 200 * 499_500));
    let mut abandoned = conn.lrange::<i64>("list", 0, -1);
    assert_eq!(abandoned.next().transpose()?, Some(0));
    drop(abandoned);
    drop(conn.lrange::<i64>("list", 0, -1));
    in_step(&conn)?;
    assert_eq!(conn.stats().stored, 0);
    Ok(())
}

// Overtaken.

#[test]
fn a_later_wait_may_overtake_the_iteration_in_every_position() -> Result<()> {
    let (_server, conn) = filled()?;
    for position in 0..=LETTERS.len() {
        let mut list = conn.lrange::<String>("list", 0, -1);
        for letter in &LETTERS[..position] {
            assert_eq!(list.next().transpose()?.as_deref(), Some(*letter));
        }
        in_step(&conn)?;
        assert_eq!(list.wait::<Vec<_>>()?, LETTERS[position..], "after {position}");
    }
    Ok(())
}

#[test]
fn a_later_wait_may_overtake_before_every_element() -> Result<()> {
    let (_server, conn) = filled()?;
    let mut list = conn.lrange::<String>("list", 0, -1);
    for letter in LETTERS {
        in_step(&conn)?;
        assert_eq!(list.next().transpose()?.as_deref(), Some(letter));
    }
    in_step(&conn)?;
    assert!(list.next().is_none());
    Ok(())
}

#[test]
fn pairs_may_be_overtaken_in_every_position_in_both_protocols() -> Result<()> {
    let (server, _) = filled()?;
    let hash = [("a", 1), ("b", 2), ("c", 3)].map(|(key, value)| (key.to_owned(), value));
    let zset = [("x", 0.5), ("y", 1.5), ("z", 2.5)].map(|(key, value)| (key.to_owned(), value));
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let conn = Connection::open(support::config(&server).protocol(protocol))?;
        for position in 0..=3 {
            let mut fields = conn.hgetall::<String, i64>("hash");
            let mut scores = conn.zrange_withscores::<String>("zset", 0, -1);
            for pair in &hash[..position] {
                assert_eq!(fields.next().transpose()?.as_ref(), Some(pair));
            }
            for pair in &zset[..position] {
                assert_eq!(scores.next().transpose()?.as_ref(), Some(pair));
            }
            in_step(&conn)?;
            assert_eq!(fields.len()?, Some(3 - position));
            assert_eq!(scores.len()?, Some(3 - position));
            assert_eq!(fields.wait::<Vec<_>>()?, hash[position..]);
            assert_eq!(scores.wait::<Vec<_>>()?, zset[position..]);
        }
    }
    Ok(())
}

#[test]
fn half_read_multi_bulks_may_be_interleaved() -> Result<()> {
    let (_server, conn) = filled()?;
    let mut lists: Vec<_> = (0..4).map(|_| conn.lrange::<String>("list", 0, -1)).collect();
    let number = conn.incr("n");
    for letter in LETTERS {
        for list in &mut lists {
            assert_eq!(list.next().transpose()?.as_deref(), Some(letter));
        }
    }
    for list in lists.iter_mut().rev() {
        assert!(list.next().is_none());
    }
    let mut pairs: Vec<_> = (0..3).map(|_| conn.hgetall::<String, i64>("hash")).collect();
    for pair in [("a", 1), ("b", 2), ("c", 3)] {
        for pairs in pairs.iter_mut().rev() {
            assert_eq!(pairs.next().transpose()?, Some((pair.0.to_owned(), pair.1)));
        }
    }
    assert_eq!(number.wait()?, 1);
    Ok(())
}

#[test]
fn the_elements_of_one_list_may_be_pushed_to_another_while_they_are_read() -> Result<()> {
    let (_server, conn) = filled()?;
    for element in conn.lrange::<String>("list", 0, -1) {
        conn.rpush("copy", element?).wait()?;
    }
    assert_eq!(conn.lrange::<String>("copy", 0, -1).wait::<Vec<_>>()?, LETTERS);
    let each = args::each(conn.lrange::<String>("list", 0, -1).map(|item| item.unwrap_or_default()));
    assert_eq!(conn.rpush("again", each).wait()?, 5);
    Ok(())
}

// Given up.

#[test]
fn the_rest_is_skipped_wherever_a_multi_bulk_is_dropped_detached_or_forgotten() -> Result<()> {
    let (_server, conn) = filled()?;
    for way in 0..4 {
        for position in 0..=LETTERS.len() {
            let mut list = conn.lrange::<String>("list", 0, -1);
            let behind = conn.incr("n");
            for letter in &LETTERS[..position] {
                assert_eq!(list.next().transpose()?.as_deref(), Some(*letter));
            }
            match way {
                0 => drop(list),
                1 => list.detach(),
                2 => std::mem::forget(list),
                _ => {
                    // Given up after its rest was moved aside.
                    in_step(&conn)?;
                    drop(list);
                }
            }
            assert_eq!(behind.wait()?, way * 6 + position as i64 + 1);
            in_step(&conn)?;
        }
    }
    conn.sync()
}

#[test]
fn dropping_does_not_read() -> Result<()> {
    let (server, conn) = scripted(|peer| {
        peer.expect(["LRANGE", "list", "0", "-1"])?;
        // The answer comes only when the client has gone on.
        peer.expect(["INCR", "n"])?;
        peer.send("*2\r\n:1\r\n:2\r\n:7\r\n")?;
        peer.expect_end()
    })?;
    drop(conn.lrange::<i64>("list", 0, -1));
    assert_eq!(conn.incr("n").wait()?, 7);
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn what_is_skipped_may_be_nested_and_hold_errors() -> Result<()> {
    const REPLY: &str = "*4\r\n:1\r\n*2\r\n*1\r\n-ERR in here\r\n%1\r\n+k\r\n*-1\r\n-ERR and here\r\n$3\r\na\r\n\r\n";
    for position in 0..=2 {
        let (server, conn) = answering(3, format!(":0\r\n{REPLY}:9\r\n"))?;
        let first = conn.incr("n");
        let mut list = conn.lrange::<Value>("list", 0, -1);
        let behind = conn.incr("n");
        for _ in 0..position {
            list.next().transpose()?;
        }
        drop(list);
        assert_eq!((first.wait()?, behind.wait()?), (0, 9));
        conn.sync()?;
        drop(conn);
        server.finish();
    }
    Ok(())
}

#[test]
fn the_error_of_a_multi_bulk_nobody_looked_at_goes_to_the_account() -> Result<()> {
    let (_server, conn) = filled()?;
    drop(conn.lrange::<String>("text", 0, -1));
    conn.lrange::<String>("text", 0, -1).detach();
    let overtaken = conn.lrange::<String>("text", 0, -1);
    in_step(&conn)?;
    drop(overtaken);
    assert_eq!(conn.stats().unseen_errors, 3);
    assert_eq!(conn.sync().unwrap_err().code(), Some("WRONGTYPE"));
    let mut seen = conn.lrange::<String>("text", 0, -1);
    assert_eq!(seen.next().map(|item| item.unwrap_err().code().map(str::to_owned)), Some(Some("WRONGTYPE".to_owned())));
    drop(seen);
    conn.sync()
}

// len

#[test]
fn len_counts_what_is_left() -> Result<()> {
    let (_server, conn) = filled()?;
    let mut list = conn.lrange::<String>("list", 0, -1);
    for left in (0..=5).rev() {
        assert_eq!(list.len()?, Some(left));
        assert_eq!(list.next().transpose()?.is_some(), left > 0);
    }
    assert_eq!(list.len()?, Some(0), "after the end");
    let mut list = conn.lrange::<String>("list", 0, -1);
    list.next().transpose()?;
    in_step(&conn)?;
    assert_eq!(list.len()?, Some(4), "overtaken");
    let mut list = conn.lrange::<String>("list", 0, -1);
    in_step(&conn)?;
    assert_eq!(list.len()?, Some(5), "overtaken before it began");
    assert_eq!(conn.lrange::<String>("nothing", 0, -1).len()?, Some(0));
    assert_eq!(conn.hgetall::<String, String>("nothing").len()?, Some(0));
    assert_eq!(conn.lrange::<String>("text", 0, -1).len().unwrap_err().code(), Some("WRONGTYPE"));
    in_step(&conn)
}

#[test]
fn len_counts_pairs_once_in_every_form() -> Result<()> {
    for (reply, len) in [
        ("*4\r\n+a\r\n:1\r\n+b\r\n:2\r\n", 2),
        ("*2\r\n*2\r\n+a\r\n:1\r\n*2\r\n+b\r\n:2\r\n", 2),
        ("%2\r\n+a\r\n:1\r\n+b\r\n:2\r\n", 2),
        ("*0\r\n", 0),
        ("%0\r\n", 0),
    ] {
        for overtaken in [false, true] {
            let (server, conn) = answering(2, format!("{reply}+PONG\r\n"))?;
            let mut pairs = conn.hgetall::<String, i64>("hash");
            let pong = conn.ping();
            if overtaken {
                pong.wait()?;
            } else {
                pong.detach();
            }
            for left in (0..=len).rev() {
                assert_eq!(pairs.len()?, Some(left), "{reply:?}");
                assert_eq!(pairs.next().transpose()?.is_some(), left > 0, "{reply:?}");
            }
            drop(pairs);
            drop(conn);
            server.finish();
        }
    }
    Ok(())
}

// Nil.

#[test]
fn nil_is_one_error_and_then_the_end() -> Result<()> {
    for nil in ["*-1\r\n", "$-1\r\n", "_\r\n"] {
        for overtaken in [false, true] {
            let (server, conn) = answering(6, format!("{}+in step\r\n", nil.repeat(5)))?;
            let mut list = conn.lrange::<String>("list", 0, -1);
            let mut told = conn.lrange::<String>("list", 0, -1);
            let whole = conn.lrange::<String>("list", 0, -1);
            let bytes = conn.lrange::<String>("list", 0, -1);
            let pairs = conn.hgetall::<String, String>("list");
            let behind = conn.echo::<String>("in step");
            if overtaken {
                assert_eq!(behind.wait()?, "in step");
            } else {
                behind.detach();
            }
            assert!(matches!(list.next(), Some(Err(Error::Nil))), "{nil:?}");
            assert!(list.next().is_none(), "{nil:?}");
            assert_eq!(told.len()?, None, "{nil:?}");
            assert!(matches!(whole.wait::<Vec<_>>(), Err(Error::Nil)), "{nil:?}");
            assert!(matches!(bytes.for_each_bytes(|_| panic!("there are none")), Err(Error::Nil)), "{nil:?}");
            assert!(matches!(pairs.wait::<HashMap<_, _>>(), Err(Error::Nil)), "{nil:?}");
            drop((list, told));
            drop(conn);
            server.finish();
        }
    }
    Ok(())
}

#[test]
fn asking_for_the_length_of_nil_does_not_make_it_an_empty_list() -> Result<()> {
    let (server, conn) = answering_each(["*-1\r\n", "_\r\n"])?;
    let mut list = conn.lrange::<String>("list", 0, -1);
    assert_eq!(list.len()?, None);
    assert!(matches!(list.wait::<Vec<_>>(), Err(Error::Nil)));
    let mut list = conn.lrange::<String>("list", 0, -1);
    assert_eq!(list.len()?, None);
    assert!(matches!(list.next(), Some(Err(Error::Nil))));
    assert!(list.next().is_none());
    drop(list);
    drop(conn);
    server.finish();
    Ok(())
}

// Collections.

#[test]
fn wait_collects_into_any_collection() -> Result<()> {
    let (server, _) = filled()?;
    let letters = || LETTERS.map(str::to_owned);
    let pairs = || [("a", 1), ("b", 2), ("c", 3)].map(|(key, value)| (key.to_owned(), value));
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let conn = Connection::open(support::config(&server).protocol(protocol))?;
        let list = || conn.lrange::<String>("list", 0, -1);
        assert_eq!(list().wait::<Vec<_>>()?, letters());
        assert_eq!(list().wait::<VecDeque<_>>()?, letters());
        assert_eq!(list().wait::<HashSet<_>>()?, HashSet::from(letters()));
        assert_eq!(list().wait::<BTreeSet<_>>()?, BTreeSet::from(letters()));
        assert_eq!(list().wait::<String>()?, "abcde");
        assert_eq!(&*list().wait::<Box<[String]>>()?, &letters()[..]);
        let hash = || conn.hgetall::<String, i64>("hash");
        assert_eq!(hash().wait::<HashMap<_, _>>()?, HashMap::from(pairs()));
        assert_eq!(hash().wait::<BTreeMap<_, _>>()?, BTreeMap::from(pairs()));
        assert_eq!(hash().wait::<Vec<_>>()?, pairs());
        let zset: BTreeMap<String, f64> = conn.zrange_withscores("zset", 0, -1).wait()?;
        assert_eq!(
            zset,
            BTreeMap::from([("x", 0.5), ("y", 1.5), ("z", 2.5)].map(|(key, value)| (key.to_owned(), value)))
        );
        conn.sadd("set", LETTERS).wait()?;
        assert_eq!(conn.smembers::<String>("set").wait::<BTreeSet<_>>()?, BTreeSet::from(letters()));
        let bytes: Vec<Vec<u8>> = conn.lrange("list", 0, 0).wait()?;
        assert_eq!(bytes, [b"a"]);
        let optional: Vec<Option<String>> = conn.mget(["text", "nothing"]).wait()?;
        assert_eq!(optional, [Some("v".to_owned()), None]);
        let empty: Vec<String> = conn.lrange("nothing", 0, -1).wait()?;
        assert_eq!(empty, [""; 0]);
    }
    Ok(())
}

#[test]
fn wait_gives_the_first_error_and_skips_the_rest() -> Result<()> {
    let (_server, conn) = filled()?;
    conn.rpush("mixed", ["1", "2", "x", "3"]).wait()?;
    assert_unexpected(conn.lrange::<i64>("mixed", 0, -1).wait::<Vec<_>>());
    assert!(matches!(conn.mget::<String>(["text", "nothing", "text"]).wait::<Vec<_>>(), Err(Error::Nil)));
    in_step(&conn)?;
    let mut half = conn.lrange::<i64>("mixed", 0, -1);
    assert_eq!(half.next().transpose()?, Some(1));
    assert_unexpected(half.wait::<Vec<_>>());
    in_step(&conn)
}

#[test]
fn for_each_bytes_lends_every_element_that_is_left() -> Result<()> {
    let (_server, conn) = filled()?;
    for position in 0..=LETTERS.len() {
        for overtaken in [false, true] {
            let mut list = conn.lrange::<String>("list", 0, -1);
            for _ in 0..position {
                list.next().transpose()?;
            }
            if overtaken {
                in_step(&conn)?;
            }
            let mut seen = Vec::new();
            list.for_each_bytes(|bytes| seen.push(bytes.to_vec()))?;
            assert_eq!(seen, LETTERS.map(str::as_bytes)[position..]);
        }
    }
    let mut bytes: Vec<u8> = Vec::new();
    conn.hgetall::<String, String>("hash").for_each_bytes(|one| bytes.extend(one))?;
    assert_eq!(bytes, b"a1b2c3", "keys and values one by one");
    assert_eq!(conn.lrange::<String>("text", 0, -1).for_each_bytes(|_| {}).unwrap_err().code(), Some("WRONGTYPE"));
    in_step(&conn)
}

#[test]
fn for_each_bytes_ends_at_what_is_no_bytes_and_the_rest_is_skipped() -> Result<()> {
    for (element, expected) in
        [(":2\r\n", "unexpected"), ("*1\r\n+x\r\n", "unexpected"), ("$-1\r\n", "nil"), ("-ERR x\r\n", "server")]
    {
        let reply = format!("*3\r\n+a\r\n{element}+b\r\n");
        let (server, conn) = answering_each([&*reply, IN_STEP])?;
        let mut seen = Vec::new();
        let outcome = conn.lrange::<String>("list", 0, -1).for_each_bytes(|bytes| seen.push(bytes.to_vec()));
        match expected {
            "nil" => assert!(matches!(outcome, Err(Error::Nil))),
            "server" => assert_error(outcome, "ERR x"),
            _ => assert_unexpected(outcome),
        }
        assert_eq!(seen, [b"a"]);
        in_step(&conn)?;
        drop(conn);
        server.finish();
    }
    Ok(())
}

#[test]
fn the_connection_cannot_be_used_inside_for_each_bytes_and_works_afterwards() -> Result<()> {
    let (_server, conn) = filled()?;
    let earlier = conn.get::<String>("text");
    let list = conn.lrange::<String>("list", 0, -1);
    let behind = conn.incr("n");
    let mut refused = 0;
    list.for_each_bytes(|_| {
        refused += usize::from(matches!(conn.ping().wait(), Err(Error::Refused(_))));
        drop(conn.incr("n"));
        drop(conn.transaction());
    })?;
    assert_eq!(refused, 5);
    assert_eq!((earlier.wait()?, behind.wait()?), ("v".to_owned(), 1));
    in_step(&conn)?;
    assert_eq!(conn.get::<i64>("n").wait()?, 1);
    Ok(())
}

// Errors.

#[test]
fn an_error_reply_is_one_error_and_then_the_end() -> Result<()> {
    let (_server, conn) = filled()?;
    let mut list = conn.lrange::<String>("text", 0, -1);
    assert_eq!(list.next().map(|item| item.is_err()), Some(true));
    assert!(list.next().is_none());
    assert_eq!(list.len()?, Some(0));
    let mut overtaken = conn.hgetall::<String, String>("text");
    in_step(&conn)?;
    assert_eq!(overtaken.next().map(|item| item.is_err()), Some(true));
    assert!(overtaken.next().is_none());
    drop((list, overtaken));
    conn.sync()
}

#[test]
fn a_reply_of_another_type_is_read_whole_and_is_an_error() -> Result<()> {
    for reply in [":1\r\n", "$3\r\nabc\r\n", "+OK\r\n", ",1.5\r\n", "#t\r\n", "(123\r\n", "=7\r\ntxt:abc\r\n"] {
        for overtaken in [false, true] {
            let (server, conn) = answering(4, format!("{}+in step\r\n", reply.repeat(3)))?;
            let mut list = conn.lrange::<String>("list", 0, -1);
            let mut length = conn.lrange::<String>("list", 0, -1);
            let pairs = conn.hgetall::<String, String>("list");
            let behind = conn.echo::<String>("in step");
            if overtaken {
                assert_eq!(behind.wait()?, "in step");
            } else {
                behind.detach();
            }
            assert_unexpected(list.next().transpose());
            assert!(list.next().is_none());
            assert_unexpected(length.len());
            assert_unexpected(pairs.wait::<Vec<_>>());
            drop((list, length));
            drop(conn);
            server.finish();
        }
    }
    Ok(())
}

#[test]
fn an_error_inside_an_element_ends_the_iteration_and_the_rest_is_skipped() -> Result<()> {
    // As an element, as a value that does not fit, and inside a nested one.
    for bad in ["-ERR x\r\n", "+no number\r\n", "*1\r\n-ERR x\r\n", "_\r\n", "*2\r\n:1\r\n*2\r\n:1\r\n-ERR x\r\n"] {
        for overtaken in [false, true] {
            let (server, conn) = answering(2, format!("*4\r\n:1\r\n{bad}*2\r\n:3\r\n-ERR y\r\n:4\r\n+in step\r\n"))?;
            let mut list = conn.lrange::<i64>("list", 0, -1);
            let behind = conn.echo::<String>("in step");
            let behind = if overtaken {
                assert_eq!(behind.wait()?, "in step");
                None
            } else {
                Some(behind)
            };
            assert_eq!(list.next().transpose()?, Some(1), "{bad:?}");
            assert!(list.next().is_some_and(|item| item.is_err()), "{bad:?}");
            assert!(list.next().is_none(), "{bad:?}");
            let behind = behind.map(Reply::wait).transpose()?;
            assert_eq!(behind.as_deref(), (!overtaken).then_some("in step"), "{bad:?}");
            drop(list);
            conn.sync()?;
            drop(conn);
            server.finish();
        }
    }
    Ok(())
}

#[test]
fn errors_may_be_taken_as_values_and_the_iteration_goes_on() -> Result<()> {
    let reply = "*3\r\n:1\r\n-ERR x\r\n*2\r\n:2\r\n-ERR y\r\n";
    let (server, conn) = answering_each([reply, "*2\r\n:1\r\n-ERR x\r\n", IN_STEP])?;
    let error = |text: &str| Value::Error(ServerError::new(text));
    let values: Vec<Value> = conn.lrange("list", 0, -1).wait()?;
    let nested = Value::Array(vec![Value::Integer(2), error("ERR y")]);
    assert_eq!(values, [Value::Integer(1), error("ERR x"), nested]);
    let results: Vec<Result<i64, ServerError>> = conn.lrange("list", 0, -1).wait()?;
    assert_eq!(results, [Ok(1), Err(ServerError::new("ERR x"))]);
    in_step(&conn)?;
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn a_panic_in_the_conversion_of_an_element_shifts_nothing() -> Result<()> {
    #[derive(Debug)]
    struct Fussy(String);
    impl FromReply for Fussy {
        fn from_reply(frame: Frame<'_>) -> Result<Self> {
            let text = String::from_reply(frame)?;
            assert!(text != "c" && text != "2", "on purpose");
            Ok(Fussy(text))
        }
    }
    let (server, _) = filled()?;
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let conn = Connection::open(support::config(&server).protocol(protocol))?;
        for overtaken in [false, true] {
            let mut list = conn.lrange::<Fussy>("list", 0, -1);
            let mut pairs = conn.hgetall::<String, Fussy>("hash");
            let behind = conn.incr("n");
            if overtaken {
                in_step(&conn)?;
            }
            assert_eq!(list.next().transpose()?.map(|item| item.0).as_deref(), Some("a"));
            assert_eq!(list.next().transpose()?.map(|item| item.0).as_deref(), Some("b"));
            assert!(catch_unwind(AssertUnwindSafe(|| list.next())).is_err());
            // The element over which it panicked is gone; the iteration may go on.
            assert_eq!(list.next().transpose()?.map(|item| item.0).as_deref(), Some("d"));
            assert_eq!(pairs.next().transpose()?.map(|(key, _)| key).as_deref(), Some("a"));
            assert!(catch_unwind(AssertUnwindSafe(|| pairs.next())).is_err());
            assert!(behind.wait()? > 0);
            assert_eq!(pairs.next().transpose()?.map(|(key, _)| key).as_deref(), Some("c"));
            drop(pairs);
            assert_eq!(list.next().transpose()?.map(|item| item.0).as_deref(), Some("e"));
            in_step(&conn)?;
            let whole = catch_unwind(AssertUnwindSafe(|| conn.lrange::<Fussy>("list", 0, -1).wait::<Vec<_>>()));
            assert!(whole.is_err());
            in_step(&conn)?;
        }
    }
    Ok(())
}

// Pairs.

#[test]
fn pairs_come_in_every_form_a_server_has() -> Result<()> {
    let forms = [
        "*4\r\n+a\r\n:1\r\n+b\r\n:2\r\n",
        "*2\r\n*2\r\n+a\r\n:1\r\n*2\r\n+b\r\n:2\r\n",
        "%2\r\n+a\r\n:1\r\n+b\r\n:2\r\n",
        "~2\r\n*2\r\n+a\r\n:1\r\n*2\r\n+b\r\n:2\r\n",
    ];
    let wanted = [("a".to_owned(), 1), ("b".to_owned(), 2)];
    for form in forms {
        let (server, conn) = answering_each([form, form, form, IN_STEP])?;
        let first = conn.hgetall::<String, i64>("hash");
        let mut overtaken = conn.hgetall::<String, i64>("hash");
        let stored = conn.hgetall::<String, i64>("hash");
        assert_eq!(first.collect::<Result<Vec<_>>>()?, wanted, "{form:?}");
        assert_eq!(overtaken.next().transpose()?.as_ref(), Some(&wanted[0]), "{form:?}");
        in_step(&conn)?;
        assert_eq!(overtaken.wait::<Vec<_>>()?, wanted[1..], "{form:?}");
        assert_eq!(stored.wait::<Vec<_>>()?, wanted, "{form:?}");
        drop(conn);
        server.finish();
    }
    Ok(())
}

#[test]
fn an_odd_number_of_elements_is_no_list_of_pairs_and_is_read_whole() -> Result<()> {
    for reply in ["*3\r\n+a\r\n:1\r\n+b\r\n", "*1\r\n+a\r\n", "~1\r\n+a\r\n"] {
        for overtaken in [false, true] {
            let (server, conn) = answering_each([reply, reply, IN_STEP])?;
            let mut pairs = conn.hgetall::<String, i64>("hash");
            let mut length = conn.hgetall::<String, i64>("hash");
            if overtaken {
                in_step(&conn)?;
            }
            assert_unexpected(pairs.next().transpose());
            assert!(pairs.next().is_none());
            assert_unexpected(length.len());
            assert!(length.next().is_none());
            if !overtaken {
                in_step(&conn)?;
            }
            drop((pairs, length));
            drop(conn);
            server.finish();
        }
    }
    Ok(())
}

#[test]
fn a_nested_pair_of_the_wrong_length_is_an_error_and_the_rest_is_skipped() -> Result<()> {
    for bad in ["*3\r\n+b\r\n:2\r\n:3\r\n", "*1\r\n+b\r\n", "*0\r\n", ":1\r\n", "-ERR x\r\n"] {
        let reply = format!("*3\r\n*2\r\n+a\r\n:1\r\n{bad}*2\r\n+c\r\n:3\r\n");
        let (server, conn) = answering_each([&*reply, IN_STEP])?;
        let mut pairs = conn.hgetall::<String, i64>("hash");
        assert_eq!(pairs.next().transpose()?, Some(("a".to_owned(), 1)));
        assert!(pairs.next().is_some_and(|item| item.is_err()), "{bad:?}");
        assert!(pairs.next().is_none());
        in_step(&conn)?;
        drop(pairs);
        drop(conn);
        server.finish();
    }
    Ok(())
}

#[test]
fn an_error_in_either_half_of_a_flat_pair_ends_the_iteration() -> Result<()> {
    for bad in ["-ERR x\r\n:2\r\n", "+b\r\n-ERR x\r\n", "+b\r\n+no number\r\n", "*1\r\n+b\r\n:2\r\n"] {
        for header in ["*6", "%3"] {
            let reply = format!("{header}\r\n+a\r\n:1\r\n{bad}+c\r\n:3\r\n");
            let (server, conn) = answering_each([&*reply, IN_STEP])?;
            let mut pairs = conn.hgetall::<String, i64>("hash");
            assert_eq!(pairs.next().transpose()?, Some(("a".to_owned(), 1)));
            assert!(pairs.next().is_some_and(|item| item.is_err()), "{header} {bad:?}");
            assert!(pairs.next().is_none());
            in_step(&conn)?;
            drop(pairs);
            drop(conn);
            server.finish();
        }
    }
    Ok(())
}

#[test]
fn a_map_asked_for_as_single_elements_gives_keys_and_values_in_turn() -> Result<()> {
    let (server, conn) = answering_each(["%2\r\n+a\r\n+1\r\n+b\r\n+2\r\n", "~2\r\n+x\r\n+y\r\n"])?;
    let mut list = conn.lrange::<String>("list", 0, -1);
    assert_eq!(list.len()?, Some(4));
    assert_eq!(list.wait::<Vec<_>>()?, ["a", "1", "b", "2"]);
    assert_eq!(conn.lrange::<String>("list", 0, -1).wait::<Vec<_>>()?, ["x", "y"]);
    drop(conn);
    server.finish();
    Ok(())
}

// Pushes and attributes.

const PUSH: &str = ">2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n";

/// Runs `check` on replies with a push, then an attribute, at each place where one may stand.
fn at_every_boundary(pieces: &[&str], check: impl Fn(&Connection, &str) -> Result<()>) -> Result<()> {
    for at in 0..=pieces.len() {
        let with = |extra: &str| pieces[..at].concat() + extra + &pieces[at..].concat();
        for (reply, pushes) in [(with(PUSH), 1), (with(&PUSH.repeat(2)), 2)] {
            let (server, conn) = answering_resp3(2, reply.clone() + ":9\r\n")?;
            check(&conn, &reply)?;
            assert_eq!(conn.stats().pushes, pushes, "{reply:?}");
            for _ in 0..pushes {
                let push = conn.next_push().unwrap_or_else(|| panic!("no push in {reply:?}"));
                assert_eq!(push.elements()[0].as_str(), Some("invalidate"));
            }
            drop(conn);
            server.finish();
        }
        // An attribute stands in front of something.
        if at < pieces.len() {
            let reply = with("|1\r\n+ttl\r\n*2\r\n:1\r\n:2\r\n");
            let (server, conn) = answering_resp3(2, reply.clone() + ":9\r\n")?;
            check(&conn, &reply)?;
            assert_eq!(conn.stats().pushes, 0, "{reply:?}");
            drop(conn);
            server.finish();
        }
    }
    Ok(())
}

#[test]
fn pushes_and_attributes_between_elements_are_none() -> Result<()> {
    let pieces = ["*3\r\n", "+a\r\n", "$1\r\nb\r\n", "+c\r\n"];
    at_every_boundary(&pieces, |conn, reply| {
        let list = conn.lrange::<String>("list", 0, -1);
        let behind = conn.incr("n");
        assert_eq!(list.collect::<Result<Vec<_>>>()?, ["a", "b", "c"], "{reply:?}");
        assert_eq!(behind.wait()?, 9);
        Ok(())
    })?;
    at_every_boundary(&pieces, |conn, reply| {
        let mut list = conn.lrange::<String>("list", 0, -1);
        let behind = conn.incr("n");
        assert_eq!(list.len()?, Some(3), "{reply:?}");
        assert_eq!(list.next().transpose()?.as_deref(), Some("a"), "{reply:?}");
        assert_eq!(behind.wait()?, 9);
        assert_eq!(list.wait::<Vec<_>>()?, ["b", "c"], "{reply:?}");
        Ok(())
    })?;
    at_every_boundary(&pieces, |conn, reply| {
        let list = conn.lrange::<String>("list", 0, -1);
        let behind = conn.incr("n");
        assert_eq!(behind.wait()?, 9);
        assert_eq!(list.wait::<Vec<_>>()?, ["a", "b", "c"], "{reply:?}");
        Ok(())
    })?;
    at_every_boundary(&pieces, |conn, reply| {
        let mut list = conn.lrange::<String>("list", 0, -1);
        let behind = conn.incr("n");
        assert_eq!(list.next().transpose()?.as_deref(), Some("a"), "{reply:?}");
        drop(list);
        assert_eq!(behind.wait()?, 9, "{reply:?}");
        Ok(())
    })
}

#[test]
fn pushes_and_attributes_between_the_halves_of_pairs_are_none() -> Result<()> {
    for pieces in [
        vec!["*4\r\n", "+a\r\n", ":1\r\n", "+b\r\n", ":2\r\n"],
        vec!["%2\r\n", "+a\r\n", ":1\r\n", "+b\r\n", ":2\r\n"],
        vec!["*2\r\n", "*2\r\n", "+a\r\n", ":1\r\n", "*2\r\n", "+b\r\n", ":2\r\n"],
    ] {
        let wanted = || vec![("a".to_owned(), 1), ("b".to_owned(), 2)];
        at_every_boundary(&pieces, |conn, reply| {
            let pairs = conn.hgetall::<String, i64>("hash");
            let behind = conn.incr("n");
            assert_eq!(pairs.collect::<Result<Vec<_>>>()?, wanted(), "{reply:?}");
            assert_eq!(behind.wait()?, 9);
            Ok(())
        })?;
        at_every_boundary(&pieces, |conn, reply| {
            let mut pairs = conn.hgetall::<String, i64>("hash");
            let behind = conn.incr("n");
            assert_eq!(pairs.next().transpose()?, Some(("a".to_owned(), 1)), "{reply:?}");
            assert_eq!(behind.wait()?, 9);
            assert_eq!(pairs.wait::<Vec<_>>()?, wanted()[1..], "{reply:?}");
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn pushes_in_stored_pairs_do_not_decide_how_the_pairs_come() -> Result<()> {
    for pieces in [
        vec!["*4\r\n", "+a\r\n", ":1\r\n", "+b\r\n", ":2\r\n"],
        vec!["%2\r\n", "+a\r\n", ":1\r\n", "+b\r\n", ":2\r\n"],
        vec!["*2\r\n", "*2\r\n", "+a\r\n", ":1\r\n", "*2\r\n", "+b\r\n", ":2\r\n"],
    ] {
        at_every_boundary(&pieces, |conn, reply| {
            let pairs = conn.hgetall::<String, i64>("hash");
            let behind = conn.incr("n");
            assert_eq!(behind.wait()?, 9);
            assert_eq!(pairs.wait::<Vec<_>>()?, [("a".to_owned(), 1), ("b".to_owned(), 2)], "{reply:?}");
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn pushes_inside_nested_elements_are_none_of_theirs() -> Result<()> {
    let pieces = ["*2\r\n", "*2\r\n", ":1\r\n", "*1\r\n", ":2\r\n", "*1\r\n", ":3\r\n"];
    let wanted = || {
        let array = |elements: &[Value]| Value::Array(elements.to_vec());
        let inner = array(&[Value::Integer(2)]);
        vec![array(&[Value::Integer(1), inner]), array(&[Value::Integer(3)])]
    };
    for overtaken in [false, true] {
        at_every_boundary(&pieces, |conn, reply| {
            let mut list = conn.lrange::<Value>("list", 0, -1);
            let behind = conn.incr("n");
            let mut all: Vec<Value> = Vec::new();
            all.extend(list.next().transpose()?);
            if overtaken {
                assert_eq!(behind.wait()?, 9, "{reply:?}");
                all.extend(list.wait::<Vec<_>>()?);
            } else {
                all.extend(list.wait::<Vec<_>>()?);
                assert_eq!(behind.wait()?, 9, "{reply:?}");
            }
            assert_eq!(all, wanted(), "{reply:?}");
            Ok(())
        })?;
    }
    Ok(())
}

// Cuts.

/// Runs `check` with this reply cut at every byte: the first part has been read when `check` begins, the second is on
/// its way. In front of the reply stands one to PING, behind it may stand others; so many commands are answered by it.
fn cut_at_every_byte(
    commands: usize,
    reply: &str,
    check: impl Fn(&Connection, Reply<'_, ()>, &dyn Fn()) -> Result<()>,
) -> Result<()> {
    let (opener, gate) = gate();
    let bytes = reply.to_owned();
    let (server, conn) = scripted(move |peer| {
        for cut in 0..=bytes.len() {
            peer.read_commands(1 + commands)?;
            peer.send_split_at_gate(format!("+PONG\r\n{bytes}"), "+PONG\r\n".len() + cut, &gate)?;
        }
        peer.expect_end()
    })?;
    for cut in 0..=reply.len() {
        let read = conn.stats().bytes_read as usize + "+PONG\r\n".len() + cut;
        let go_on = || {
            assert_eq!(conn.stats().bytes_read as usize, read, "the first part has been read at {cut}");
            opener.open();
        };
        let pong = conn.ping();
        check(&conn, pong, &go_on).inspect_err(|_| eprintln!("cut at {cut}"))?;
        assert_eq!(conn.outstanding(), 0, "cut at {cut}");
    }
    drop(conn);
    server.finish();
    Ok(())
}

const ELEMENTS: &str = "*4\r\n$3\r\na\r\n\r\n:-12\r\n$0\r\n\r\n+two words\r\n";

#[test]
fn elements_cut_at_every_byte_are_the_same() -> Result<()> {
    let wanted = ["a\r\n", "-12", "", "two words"];
    cut_at_every_byte(1, ELEMENTS, |conn, pong, go_on| {
        let list = conn.lrange::<String>("list", 0, -1);
        pong.wait()?;
        go_on();
        assert_eq!(list.collect::<Result<Vec<_>>>()?, wanted);
        Ok(())
    })?;
    cut_at_every_byte(1, ELEMENTS, |conn, pong, go_on| {
        let list = conn.lrange::<String>("list", 0, -1);
        pong.wait()?;
        go_on();
        let mut seen = Vec::new();
        // The integer is none.
        assert_unexpected(list.for_each_bytes(|bytes| seen.push(bytes.to_vec())));
        assert_eq!(seen, [b"a\r\n"]);
        conn.sync()
    })?;
    cut_at_every_byte(2, &format!("{ELEMENTS}:7\r\n"), |conn, pong, go_on| {
        let mut list = conn.lrange::<String>("list", 0, -1);
        let behind = conn.incr("n");
        pong.wait()?;
        go_on();
        assert_eq!(list.next().transpose()?.as_deref(), Some(wanted[0]));
        assert_eq!(behind.wait()?, 7);
        assert_eq!(list.wait::<Vec<_>>()?, wanted[1..]);
        Ok(())
    })
}

#[test]
fn what_is_skipped_may_be_cut_at_every_byte() -> Result<()> {
    let reply = format!("{ELEMENTS}*2\r\n*2\r\n-ERR x\r\n$4\r\nabcd\r\n%1\r\n+k\r\n,1.5\r\n:7\r\n");
    cut_at_every_byte(3, &reply, |conn, pong, go_on| {
        let mut half = conn.lrange::<String>("list", 0, -1);
        drop(conn.lrange::<Value>("list", 0, -1));
        let behind = conn.incr("n");
        pong.wait()?;
        go_on();
        assert_eq!(half.next().transpose()?.as_deref(), Some("a\r\n"));
        drop(half);
        assert_eq!(behind.wait()?, 7);
        Ok(())
    })?;
    cut_at_every_byte(3, &reply, |conn, pong, go_on| {
        conn.lrange::<String>("list", 0, -1).detach();
        let mut half = conn.lrange::<Value>("list", 0, -1);
        let behind = conn.incr("n");
        pong.wait()?;
        go_on();
        assert!(half.next().transpose()?.is_some());
        assert_eq!(behind.wait()?, 7);
        assert_eq!(half.count(), 1);
        Ok(())
    })
}

#[test]
fn pairs_cut_at_every_byte_are_the_same() -> Result<()> {
    let wanted = || [("a".to_owned(), 1), ("bb".to_owned(), 2), ("c".to_owned(), 3)];
    for reply in [
        "*6\r\n$1\r\na\r\n:1\r\n$2\r\nbb\r\n$1\r\n2\r\n+c\r\n:3\r\n",
        "%3\r\n$1\r\na\r\n:1\r\n$2\r\nbb\r\n$1\r\n2\r\n+c\r\n:3\r\n",
        "*3\r\n*2\r\n$1\r\na\r\n:1\r\n*2\r\n$2\r\nbb\r\n$1\r\n2\r\n*2\r\n+c\r\n:3\r\n",
    ] {
        cut_at_every_byte(1, reply, |conn, pong, go_on| {
            let pairs = conn.hgetall::<String, i64>("hash");
            pong.wait()?;
            go_on();
            assert_eq!(pairs.collect::<Result<Vec<_>>>()?, wanted(), "{reply:?}");
            Ok(())
        })?;
        cut_at_every_byte(1, reply, |conn, pong, go_on| {
            let mut pairs = conn.hgetall::<String, i64>("hash");
            pong.wait()?;
            go_on();
            assert_eq!(pairs.len()?, Some(3), "{reply:?}");
            assert_eq!(pairs.wait::<Vec<_>>()?, wanted(), "{reply:?}");
            Ok(())
        })?;
        let with_more = format!("{reply}:7\r\n{reply}");
        cut_at_every_byte(3, &with_more, |conn, pong, go_on| {
            let mut pairs = conn.hgetall::<String, i64>("hash");
            let behind = conn.incr("n");
            let more = conn.hgetall::<String, i64>("hash");
            pong.wait()?;
            go_on();
            assert_eq!(pairs.next().transpose()?.as_ref(), Some(&wanted()[0]), "{reply:?}");
            assert_eq!(behind.wait()?, 7);
            assert_eq!(pairs.wait::<Vec<_>>()?, wanted()[1..], "{reply:?}");
            assert_eq!(more.wait::<Vec<_>>()?, wanted(), "{reply:?}");
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn pairs_moved_aside_in_the_middle_of_a_pair_go_on_where_they_were() -> Result<()> {
    // A look at what is behind moves aside what has come; the rest of the pair comes later.
    for reply in [
        "*4\r\n+a\r\n:1\r\n+b\r\n:2\r\n",
        "%2\r\n+a\r\n:1\r\n+b\r\n:2\r\n",
        "*2\r\n*2\r\n+a\r\n:1\r\n*2\r\n+b\r\n:2\r\n",
    ] {
        for begun in [false, true] {
            cut_at_every_byte(2, &format!("{reply}:7\r\n"), |conn, pong, go_on| {
                let mut pairs = conn.hgetall::<String, i64>("hash");
                let behind = conn.incr("n");
                pong.wait()?;
                behind.is_ready()?;
                go_on();
                if begun {
                    assert_eq!(pairs.len()?, Some(2), "{reply:?}");
                }
                assert_eq!(pairs.next().transpose()?, Some(("a".to_owned(), 1)), "{reply:?}");
                assert_eq!(pairs.next().transpose()?, Some(("b".to_owned(), 2)), "{reply:?}");
                assert!(pairs.next().is_none());
                assert_eq!(behind.wait()?, 7);
                Ok(())
            })?;
        }
    }
    Ok(())
}

#[test]
fn pairs_begun_and_then_looked_past_at_every_byte_go_on_where_they_were() -> Result<()> {
    let header = |reply: &str| reply.find("\r\n").map_or(0, |at| at + 2);
    for reply in [
        "*4\r\n+a\r\n:1\r\n+b\r\n:2\r\n",
        "%2\r\n+a\r\n:1\r\n+b\r\n:2\r\n",
        "*2\r\n*2\r\n+a\r\n:1\r\n*2\r\n+b\r\n:2\r\n",
    ] {
        let (opener, gate) = gate();
        let head = header(reply) + "+a".len();
        let (server, conn) = scripted(move |peer| {
            for cut in head..reply.len() {
                peer.read_commands(2)?;
                peer.send(&reply[..head])?;
                gate.wait();
                peer.send(&reply[head..cut])?;
                gate.wait();
                peer.send(&reply[cut..])?;
                peer.send(":7\r\n")?;
            }
            peer.expect_end()
        })?;
        for cut in head..reply.len() {
            let start = conn.stats().bytes_read as usize;
            let mut pairs = conn.hgetall::<String, i64>("hash");
            let behind = conn.incr("n");
            assert_eq!(pairs.len()?, Some(2), "{reply:?}");
            opener.open();
            while (conn.stats().bytes_read as usize) < start + cut {
                // Moves aside what there is, whole elements only.
                assert!(!behind.is_ready()?);
                std::thread::yield_now();
            }
            assert!(!behind.is_ready()?);
            opener.open();
            assert_eq!(pairs.next().transpose()?, Some(("a".to_owned(), 1)), "{reply:?} at {cut}");
            assert_eq!(pairs.len()?, Some(1));
            assert_eq!(pairs.next().transpose()?, Some(("b".to_owned(), 2)), "{reply:?} at {cut}");
            assert!(pairs.next().is_none());
            assert_eq!(behind.wait()?, 7);
        }
        drop(conn);
        server.finish();
    }
    Ok(())
}

// Time.

#[test]
fn a_timeout_in_the_middle_ends_the_iteration_and_the_late_rest_is_skipped() -> Result<()> {
    for first_part in 0..4 {
        let (opener, gate) = gate();
        let (server, config) = scripted_config(move |peer| {
            let pieces = ["*3\r\n", ":1\r\n", ":2\r\n", ":3\r\n"];
            peer.expect(["PING"])?;
            peer.expect(["LRANGE", "list", "0", "-1"])?;
            peer.send("+PONG\r\n".to_owned() + &pieces[..first_part].concat())?;
            gate.wait();
            peer.send(pieces[first_part..].concat())?;
            peer.expect(["INCR", "n"])?;
            peer.send(":7\r\n")?;
            peer.expect_end()
        });
        let conn = Connection::open(config.timeout(Duration::from_millis(20)))?;
        let pong = conn.ping();
        let mut list = conn.lrange::<i64>("list", 0, -1);
        pong.wait_timeout(Duration::from_secs(20))?;
        for n in 1..first_part {
            assert_eq!(list.next().transpose()?, Some(n as i64));
        }
        assert!(matches!(list.next(), Some(Err(Error::Timeout))));
        assert!(list.next().is_none());
        opener.open();
        assert_eq!(conn.incr("n").wait_timeout(Duration::from_secs(20))?, 7);
        drop(list);
        conn.sync()?;
        drop(conn);
        server.finish();
    }
    Ok(())
}

#[test]
fn wait_is_one_wait_for_all_elements() -> Result<()> {
    let shut = Arc::new(AtomicBool::new(true));
    let seen = Arc::clone(&shut);
    let (server, config) = scripted_config(move |peer| {
        peer.expect(["LRANGE", "list", "0", "-1"])?;
        peer.send("*1000000\r\n")?;
        // One element after the other, each in good time, for as long as the client waits.
        let mut sent = 0;
        while seen.load(Ordering::SeqCst) && sent < 1_000_000 {
            peer.send(":1\r\n")?;
            sent += 1;
        }
        peer.send(":1\r\n".repeat(1_000_000 - sent))?;
        peer.expect(["INCR", "n"])?;
        peer.send(":7\r\n")?;
        peer.expect_end()
    });
    let conn = Connection::open(config.timeout(Duration::from_millis(50)))?;
    assert!(matches!(conn.lrange::<i64>("list", 0, -1).wait::<Vec<_>>(), Err(Error::Timeout)));
    shut.store(false, Ordering::SeqCst);
    assert_eq!(conn.incr("n").wait_timeout(Duration::from_secs(20))?, 7);
    drop(conn);
    server.finish();
    Ok(())
}

// Broken.

#[test]
fn a_connection_broken_in_the_middle_gives_the_whole_elements_first() -> Result<()> {
    // Behind which byte each element is whole.
    let mut ends = Vec::new();
    for element in ["*4\r\n", "$3\r\na\r\n\r\n", ":-12\r\n", "$0\r\n\r\n", "+two words\r\n"] {
        ends.push(ends.last().unwrap_or(&0) + element.len());
    }
    let wanted = ["a\r\n", "-12", "", "two words"];
    let server = Scripted::start(|peer| {
        peer.handshake()?;
        peer.read_commands(2)?;
        peer.send(&ELEMENTS[..peer.number() / 2])?;
        peer.close();
        Ok(())
    });
    for cut in 0..=ELEMENTS.len() {
        for overtaken in [false, true] {
            let conn = Connection::open(support::config_for(&server.url()))?;
            let mut list = conn.lrange::<String>("list", 0, -1);
            let behind = conn.incr("n");
            if overtaken {
                if cut > ends[0] {
                    assert_eq!(list.len()?, Some(4));
                }
                assert!(behind.wait().is_err_and(|error| error.is_connection_lost()));
            } else {
                behind.detach();
            }
            let whole = ends[1..].iter().filter(|end| **end <= cut).count();
            // Overtaken before its header was asked for, a reply that is not whole is none.
            for element in &wanted[..whole] {
                assert_eq!(list.next().transpose()?.as_deref(), Some(*element), "{cut} {overtaken}");
            }
            if whole < 4 {
                let error = list.next().transpose().expect_err("the rest never came");
                assert!(error.is_connection_lost(), "{cut} {overtaken}: {error}");
            }
            assert!(list.next().is_none(), "{cut} {overtaken}");
        }
    }
    server.finish();
    Ok(())
}

#[test]
fn pairs_broken_in_the_middle_give_the_whole_pairs_first() -> Result<()> {
    const FLAT: &str = "*4\r\n+a\r\n:1\r\n+b\r\n:2\r\n";
    let server = Scripted::start(|peer| {
        peer.handshake()?;
        peer.expect(["HGETALL", "hash"])?;
        peer.send(&FLAT[..peer.number()])?;
        peer.close();
        Ok(())
    });
    for cut in 0..=FLAT.len() {
        let conn = Connection::open(support::config_for(&server.url()))?;
        let pairs: Vec<Result<(String, i64)>> = conn.hgetall("hash").collect();
        let whole = usize::from(cut >= 12) + usize::from(cut >= 20);
        assert_eq!(pairs.len(), if whole == 2 { 2 } else { whole + 1 }, "{cut}: {pairs:?}");
        for (index, pair) in pairs.into_iter().enumerate() {
            match pair {
                Ok(pair) => assert_eq!(pair, [("a".to_owned(), 1), ("b".to_owned(), 2)][index], "{cut}"),
                Err(error) => assert!(index == whole && error.is_connection_lost(), "{cut}: {error}"),
            }
        }
    }
    server.finish();
    Ok(())
}

#[test]
fn a_malformed_element_breaks_the_connection() -> Result<()> {
    for bad in ["?\r\n", "$-2\r\n", ":x\r\n", "$1\r\nabc", "*99999999999\r\n"] {
        let (server, conn) = answering(2, format!("*3\r\n:1\r\n{bad}:3\r\n:4\r\n"))?;
        let mut list = conn.lrange::<i64>("list", 0, -1);
        let behind = conn.incr("n");
        assert_eq!(list.next().transpose()?, Some(1), "{bad:?}");
        let error = list.next().transpose().expect_err(bad);
        assert!(error.is_connection_lost(), "{bad:?}: {error}");
        assert!(list.next().is_none());
        assert!(conn.is_broken(), "{bad:?}");
        assert!(behind.wait().is_err_and(|error| error.is_connection_lost()), "{bad:?}");
        drop(list);
        drop(conn);
        drop(server);
    }
    Ok(())
}

// Other executors.

#[test]
fn generic_code_gets_multi_bulks_from_every_executor() -> Result<()> {
    fn read<C: ListCommands>(on: C) -> C::MultiBulk<String> {
        on.lrange("list", 1, 2)
    }
    let (_server, conn) = filled()?;
    let batch = conn.batch();
    let from_batch = read(&batch);
    batch.finish()?;
    let tx = conn.transaction();
    let from_transaction = read(&tx);
    tx.commit().wait()?;
    for list in [read(&conn), from_batch, from_transaction] {
        assert_eq!(list.wait::<Vec<_>>()?, ["b", "c"]);
    }
    Ok(())
}

#[test]
fn what_is_left_can_be_taken_as_one_value_at_any_time() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.rpush("l", ["a", "b", "c", "d"]).wait()?;
    conn.hset("h", [("x", 1), ("y", 2)]).wait()?;

    let whole: Vec<String> = conn.lrange::<()>("l", 0, -1).wait_as()?;
    assert_eq!(whole, ["a", "b", "c", "d"]);

    let mut measured = conn.hgetall::<String, i64>("h");
    assert_eq!(measured.len()?, Some(2));
    let map: std::collections::BTreeMap<String, i64> = measured.wait_as()?;
    assert_eq!(map.into_iter().collect::<Vec<_>>(), [("x".to_owned(), 1), ("y".to_owned(), 2)]);

    let mut begun = conn.lrange::<String>("l", 0, -1);
    assert_eq!(begun.next().transpose()?.as_deref(), Some("a"));
    let behind = conn.llen("l");
    assert_eq!(begun.wait_as::<(String, String, String)>()?, ("b".into(), "c".into(), "d".into()));
    assert_eq!(behind.wait()?, 4);

    let mut overtaken = conn.lrange::<String>("l", 0, -1);
    assert_eq!(overtaken.next().transpose()?.as_deref(), Some("a"));
    assert_eq!(conn.llen("l").wait()?, 4);
    assert_eq!(overtaken.next().transpose()?.as_deref(), Some("b"));
    assert_eq!(overtaken.wait_as::<Vec<String>>()?, ["c", "d"]);

    let none = conn.command::<Option<Vec<String>>>("LPOP", ("none", 1)).wait()?;
    assert_eq!(none, None);
    let mut nothing = conn.lrange::<String>("none", 0, -1);
    assert_eq!(nothing.len()?, Some(0));
    assert_eq!(nothing.wait_as::<Vec<String>>()?, Vec::<String>::new());
    Ok(())
}
