//! Every type of reply, cut at every byte by the end of a read: the value and its neighbours are what they are uncut.
//!
//! The cut is a real one: the second part is sent when the client's own count of bytes says that it has read the first.

#![cfg(feature = "testing")]

mod support;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Debug;
use std::time::Duration;

use redefer::{Error, Protocol, Result, ServerError, WaitError, prelude::*};
use support::scripted::{Opener, Peer, Scripted, gate};

const BEFORE: &str = "$3\r\nbef\r\n";
const BEHIND: &str = ":77\r\n";

/// How the reply in the middle is dealt with.
#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    /// Waited for in its turn.
    Wait,
    /// Kept while the one behind it is waited for.
    Overtaken,
    /// Given up.
    Detached,
    /// Asked for without blocking until it is there.
    Polled,
    /// Waited for in vain before the rest comes, then again.
    TwoWaits,
    /// Waited for in vain before the rest comes, then given up.
    WaitThenDrop,
}

const WAYS: [How; 6] = [How::Wait, How::Overtaken, How::Detached, How::Polled, How::TwoWaits, How::WaitThenDrop];

fn greet(peer: &mut Peer, protocol: Protocol) -> std::io::Result<()> {
    match protocol {
        Protocol::Resp2 => peer.handshake_resp2().map(drop),
        _ => peer.handshake().map(drop),
    }
}

/// A connection on which each round reads `commands` commands, and answers with `wire` cut at 0, 1, 2 and so on, the
/// whole of it `rounds` times.
fn cutting(wire: String, commands: usize, rounds: usize, protocol: Protocol) -> Result<(Connection, Opener, Scripted)> {
    let (opener, opened) = gate();
    let server = Scripted::start(move |peer| {
        greet(peer, protocol)?;
        for at in (0..=wire.len()).flat_map(|at| std::iter::repeat_n(at, rounds)) {
            peer.read_commands(commands)?;
            peer.send_split_at_gate(&wire, at, &opened)?;
        }
        peer.expect_end()
    });
    let conn = Connection::open(Config::from_url(&server.url())?.protocol(protocol))?;
    Ok((conn, opener, server))
}

/// Leaves the processor to the script between two looks.
fn pause() {
    std::thread::yield_now();
}

/// Reads until `at` bytes of this round have come, by asking for the first reply.
fn read_first_part<T: FromReply>(conn: &Connection, first: &Reply<'_, T>, start: u64, at: usize) -> Result<()> {
    conn.flush()?;
    while conn.stats().bytes_read < start + at as u64 {
        first.is_ready()?;
        pause();
    }
    assert_eq!(conn.stats().bytes_read, start + at as u64, "the rest came too early");
    Ok(())
}

/// Cuts `wire` between its neighbours at every byte and decodes it in each way.
fn whole<T: FromReply + PartialEq + Debug>(wire: &str, want: T, protocols: &[Protocol]) -> Result<()> {
    for &protocol in protocols {
        let stream = format!("{BEFORE}{wire}{BEHIND}");
        let (conn, opener, server) = cutting(stream.clone(), 3, WAYS.len(), protocol)?;
        for at in 0..=stream.len() {
            for mut how in WAYS {
                // A wait in vain takes some milliseconds, so each cut has one of the two, and one protocol has them.
                let skipped = if at % 2 == 0 { How::TwoWaits } else { How::WaitThenDrop };
                if how == skipped || (protocol == Protocol::Resp2 && matches!(how, How::TwoWaits | How::WaitThenDrop)) {
                    how = How::Wait;
                }
                let what = format!("{wire:?} cut at {at}, {how:?}, {protocol:?}");
                let start = conn.stats().bytes_read;
                let first = conn.get::<String>("before");
                let reply = conn.command::<T>("IT", ());
                let last = conn.incr("behind");
                read_first_part(&conn, &first, start, at)?;
                match how {
                    How::Wait => {
                        opener.open();
                        assert_eq!(first.wait()?, "bef", "{what}");
                        assert_eq!(reply.wait()?, want, "{what}");
                        assert_eq!(last.wait()?, 77, "{what}");
                    }
                    How::Overtaken => {
                        opener.open();
                        assert_eq!(last.wait()?, 77, "{what}");
                        assert_eq!(reply.wait()?, want, "{what}");
                        assert_eq!(first.wait()?, "bef", "{what}");
                    }
                    How::Detached => {
                        reply.detach();
                        opener.open();
                        assert_eq!(first.wait()?, "bef", "{what}");
                        assert_eq!(last.wait()?, 77, "{what}");
                    }
                    How::Polled => {
                        reply.is_ready()?;
                        opener.open();
                        while !reply.is_ready()? {
                            pause();
                        }
                        assert_eq!(reply.wait()?, want, "{what}");
                        while !last.is_ready()? {
                            pause();
                        }
                        assert_eq!(last.wait()?, 77, "{what}");
                        assert_eq!(first.wait()?, "bef", "{what}");
                    }
                    How::TwoWaits | How::WaitThenDrop => {
                        let reply = match reply.wait_timeout(Duration::from_nanos(1)) {
                            Ok(value) => {
                                assert_eq!(value, want, "{what}");
                                None
                            }
                            Err(WaitError::Timeout(reply)) => Some(reply),
                            Err(WaitError::Failed(error)) => panic!("{what}: {error}"),
                        };
                        opener.open();
                        match (reply, how) {
                            (Some(reply), How::TwoWaits) => assert_eq!(reply.wait()?, want, "{what}"),
                            (reply, _) => drop(reply),
                        }
                        assert_eq!(last.wait()?, 77, "{what}");
                        assert_eq!(first.wait()?, "bef", "{what}");
                    }
                }
                assert_eq!((conn.outstanding(), conn.stats().stored), (0, 0), "{what}");
            }
        }
        conn.sync()?;
        drop(conn);
        server.finish();
    }
    Ok(())
}

const BOTH: &[Protocol] = &[Protocol::Resp2, Protocol::Resp3];
const NEW: &[Protocol] = &[Protocol::Resp3];

#[test]
fn strings_and_numbers_may_be_cut_anywhere() -> Result<()> {
    whole("+OK\r\n", (), BOTH)?;
    whole("+some text\r\n", "some text".to_owned(), BOTH)?;
    whole(":0\r\n", 0, BOTH)?;
    whole(":-9223372036854775808\r\n", i64::MIN, BOTH)?;
    whole("$0\r\n\r\n", String::new(), BOTH)?;
    whole("$12\r\n\r\n$5\r\nlike\r\n\r\n", "\r\n$5\r\nlike\r\n".to_owned(), BOTH)?;
    whole("$9\r\n\u{e4}\u{20ac}\u{1f600}\r\n", "\u{e4}\u{20ac}\u{1f600}".to_owned(), BOTH)?;
    whole("$-1\r\n", None::<String>, BOTH)?;
    whole("*-1\r\n", None::<Vec<String>>, BOTH)
}

#[test]
fn errors_may_be_cut_anywhere() -> Result<()> {
    let error = ServerError::new("WRONGTYPE Operation against a key");
    whole("*1\r\n-WRONGTYPE Operation against a key\r\n", vec![Err::<i64, _>(error.clone())], BOTH)?;
    for (wire, protocols) in
        [("-WRONGTYPE Operation against a key\r\n", BOTH), ("!33\r\nWRONGTYPE Operation against a key\r\n", NEW)]
    {
        for &protocol in protocols {
            let stream = format!("{BEFORE}{wire}{BEHIND}");
            let (conn, opener, server) = cutting(stream.clone(), 3, 4, protocol)?;
            for at in 0..=stream.len() {
                for how in 0..4 {
                    let what = format!("{wire:?} cut at {at}, way {how}, {protocol:?}");
                    let start = conn.stats().bytes_read;
                    let first = conn.get::<String>("before");
                    let reply = conn.command::<Value>("IT", ());
                    let last = conn.incr("behind");
                    read_first_part(&conn, &first, start, at)?;
                    opener.open();
                    let outcome = match how {
                        0 => reply.wait().map(drop),
                        1 => {
                            reply.detach();
                            conn.sync()
                        }
                        2 => {
                            drop(reply);
                            conn.sync()
                        }
                        _ => {
                            assert_eq!(first.wait_timeout(Duration::from_secs(20))?, "bef");
                            assert_eq!(last.wait()?, 77, "{what}");
                            assert_eq!(reply.wait().unwrap_err().as_server_error(), Some(&error), "{what}");
                            conn.sync()?;
                            continue;
                        }
                    };
                    assert_eq!(outcome.unwrap_err().as_server_error(), Some(&error), "{what}");
                    assert_eq!(last.wait()?, 77, "{what}");
                    assert_eq!(first.wait()?, "bef", "{what}");
                    conn.sync()?;
                }
            }
            drop(conn);
            server.finish();
        }
    }
    Ok(())
}

#[test]
fn the_scalars_of_resp3_may_be_cut_anywhere() -> Result<()> {
    whole("_\r\n", None::<i64>, NEW)?;
    whole("#t\r\n", true, NEW)?;
    whole("#f\r\n", false, NEW)?;
    whole(",-1.5e300\r\n", -1.5e300, NEW)?;
    whole(",inf\r\n", f64::INFINITY, NEW)?;
    whole(
        "(-3492890328409238509324850943850943825024385\r\n",
        "-3492890328409238509324850943850943825024385".to_owned(),
        NEW,
    )?;
    whole("=15\r\ntxt:Some string\r\n", "Some string".to_owned(), NEW)
}

#[test]
fn aggregates_may_be_cut_anywhere() -> Result<()> {
    whole("*0\r\n", Vec::<String>::new(), BOTH)?;
    whole("*3\r\n$1\r\na\r\n$0\r\n\r\n$2\r\nbc\r\n", vec!["a".to_owned(), String::new(), "bc".to_owned()], BOTH)?;
    whole(
        "*3\r\n:1\r\n*2\r\n*1\r\n$-1\r\n*0\r\n+x\r\n",
        (1, (vec![None::<String>], Vec::<i64>::new()), "x".to_owned()),
        BOTH,
    )?;
    whole(
        "*4\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n:2\r\n",
        BTreeMap::from([("a".to_owned(), 1), ("b".to_owned(), 2)]),
        BOTH,
    )?;
    whole(
        "*2\r\n*2\r\n$1\r\na\r\n:1\r\n*2\r\n$1\r\nb\r\n:2\r\n",
        vec![("a".to_owned(), 1), ("b".to_owned(), 2)],
        BOTH,
    )?;
    whole(
        "%2\r\n+a\r\n:1\r\n+b\r\n%1\r\n:2\r\n~1\r\n_\r\n",
        Value::Map(vec![
            (Value::SimpleString(b"a".to_vec()), Value::Integer(1)),
            (Value::SimpleString(b"b".to_vec()), Value::Map(vec![(Value::Integer(2), Value::Set(vec![Value::Nil]))])),
        ]),
        NEW,
    )?;
    whole("%1\r\n$1\r\na\r\n,2.5\r\n", HashMap::from([("a".to_owned(), "2.5".to_owned())]), NEW)?;
    whole("~2\r\n$1\r\na\r\n$1\r\nb\r\n", HashSet::from(["a".to_owned(), "b".to_owned()]), NEW)
}

#[test]
fn attributes_and_pushes_may_be_cut_anywhere() -> Result<()> {
    const ATTRIBUTE: &str = "|1\r\n+ttl\r\n*2\r\n:1\r\n_\r\n";
    const PUSH: &str = ">2\r\n+message\r\n*1\r\n+x\r\n";
    whole(&format!("{ATTRIBUTE}$3\r\nabc\r\n"), "abc".to_owned(), NEW)?;
    whole(&format!("{ATTRIBUTE}{PUSH}*2\r\n{ATTRIBUTE}:1\r\n{ATTRIBUTE}:2\r\n"), vec![1, 2], NEW)?;
    whole(&format!("{PUSH}:5\r\n"), 5, NEW)?;
    whole(&format!("{PUSH}*2\r\n{PUSH}:1\r\n*1\r\n{PUSH}:2\r\n"), (1, vec![2]), NEW)
}

#[test]
fn pushes_are_kept_whole_wherever_they_are_cut() -> Result<()> {
    let push = ">2\r\n+message\r\n*1\r\n+x\r\n";
    let list = format!("{push}*2\r\n{push}:1\r\n{push}:2\r\n{push}");
    let stream = format!("{BEFORE}{list}{BEHIND}");
    let want = Value::Push(vec![
        Value::SimpleString(b"message".to_vec()),
        Value::Array(vec![Value::SimpleString(b"x".to_vec())]),
    ]);
    let (conn, opener, server) = cutting(stream.clone(), 3, 6, Protocol::Resp3)?;
    for at in 0..=stream.len() {
        for how in 0..6 {
            let what = format!("cut at {at}, way {how}");
            let start = conn.stats().bytes_read;
            let first = conn.get::<String>("before");
            let mut list = conn.lrange::<i64>("list", 0, -1);
            let last = conn.incr("behind");
            read_first_part(&conn, &first, start, at)?;
            opener.open();
            match how {
                0 => assert_eq!(list.wait::<Vec<_>>()?, [1, 2], "{what}"),
                1 => list.detach(),
                2 => {
                    assert_eq!(list.next().transpose()?, Some(1), "{what}");
                    drop(list);
                }
                3 => {
                    assert_eq!(last.wait()?, 77, "{what}");
                    assert_eq!(list.wait::<Vec<_>>()?, [1, 2], "{what}");
                    let second = conn.stats().pushes;
                    assert_eq!(second, 4 * (1 + (at * 6 + how) as u64), "{what}");
                    (0..4).for_each(|_| assert_eq!(conn.next_push().as_ref(), Some(&want), "{what}"));
                    continue;
                }
                4 => {
                    let mut list = list;
                    assert_eq!(list.len()?, Some(2), "{what}");
                    assert_eq!(list.by_ref().count(), 2, "{what}");
                }
                _ => {
                    assert_eq!(list.next().transpose()?, Some(1), "{what}");
                    assert!(last.wait_timeout(Duration::from_secs(20)).is_ok_and(|n| n == 77), "{what}");
                    assert_eq!(list.next().transpose()?, Some(2), "{what}");
                    (0..4).for_each(|_| assert_eq!(conn.next_push().as_ref(), Some(&want), "{what}"));
                    continue;
                }
            }
            assert_eq!(last.wait()?, 77, "{what}");
            (0..4).for_each(|_| assert_eq!(conn.next_push().as_ref(), Some(&want), "{what}"));
            assert_eq!(conn.next_push(), None, "{what}");
        }
    }
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn multi_bulks_may_be_cut_anywhere() -> Result<()> {
    let bulk = |text: &str| Value::Bulk(text.into());
    let cases = [
        ("*0\r\n", vec![], BOTH),
        ("*1\r\n:5\r\n", vec![Value::Integer(5)], BOTH),
        ("*3\r\n$1\r\na\r\n$-1\r\n$2\r\n\r\n\r\n", vec![bulk("a"), Value::Nil, bulk("\r\n")], BOTH),
        (
            "*3\r\n*2\r\n:1\r\n*1\r\n$1\r\nx\r\n*0\r\n:2\r\n",
            vec![
                Value::Array(vec![Value::Integer(1), Value::Array(vec![bulk("x")])]),
                Value::Array(vec![]),
                Value::Integer(2),
            ],
            BOTH,
        ),
        ("~2\r\n#t\r\n|1\r\n+a\r\n:1\r\n_\r\n", vec![Value::Boolean(true), Value::Nil], NEW),
        (
            "|1\r\n+a\r\n:1\r\n*2\r\n,1.5\r\n%1\r\n:1\r\n:2\r\n",
            vec![Value::Double(1.5), Value::Map(vec![(Value::Integer(1), Value::Integer(2))])],
            NEW,
        ),
    ];
    const ROUNDS: usize = 7;
    for (wire, want, protocols) in cases {
        for &protocol in protocols {
            let stream = format!("{BEFORE}{wire}{BEHIND}");
            let (conn, opener, server) = cutting(stream.clone(), 3, ROUNDS, protocol)?;
            for at in 0..=stream.len() {
                for how in 0..ROUNDS {
                    let what = format!("{wire:?} cut at {at}, way {how}, {protocol:?}");
                    let start = conn.stats().bytes_read;
                    let first = conn.get::<String>("before");
                    let mut list = conn.lrange::<Value>("list", 0, -1);
                    let last = conn.incr("behind");
                    read_first_part(&conn, &first, start, at)?;
                    opener.open();
                    let collect = |list: MultiBulk<'_, Value>| list.collect::<Result<Vec<_>>>();
                    match how {
                        // In its turn; with its length; as one wait.
                        0 => assert_eq!(collect(list)?, want, "{what}"),
                        1 => {
                            assert_eq!(list.len()?, Some(want.len()), "{what}");
                            assert_eq!(list.wait::<Vec<_>>()?, want, "{what}");
                        }
                        // Overtaken as a whole, and in the middle.
                        2 => {
                            assert_eq!(last.wait()?, 77, "{what}");
                            assert_eq!(collect(list)?, want, "{what}");
                            continue;
                        }
                        3 | 4 => {
                            for element in want.iter().take(how - 2) {
                                assert_eq!(list.next().transpose()?.as_ref(), Some(element), "{what}");
                            }
                            assert_eq!(last.wait()?, 77, "{what}");
                            assert_eq!(collect(list)?, want[want.len().min(how - 2)..], "{what}");
                            continue;
                        }
                        // Given up unread, and in the middle.
                        5 => drop(list),
                        _ => {
                            assert_eq!(list.next().transpose()?.as_ref(), want.first(), "{what}");
                            drop(list);
                        }
                    }
                    assert_eq!(last.wait()?, 77, "{what}");
                    assert_eq!(first.wait()?, "bef", "{what}");
                    assert_eq!((conn.outstanding(), conn.stats().stored), (0, 0), "{what}");
                }
            }
            conn.sync()?;
            drop(conn);
            server.finish();
        }
    }
    Ok(())
}

#[test]
fn pairs_may_be_cut_anywhere() -> Result<()> {
    let want: Vec<(String, i64)> = vec![("a".into(), 1), ("bc".into(), 2), ("d".into(), 3)];
    let cases = [
        ("*6\r\n$1\r\na\r\n:1\r\n$2\r\nbc\r\n:2\r\n$1\r\nd\r\n:3\r\n", BOTH),
        ("*3\r\n*2\r\n$1\r\na\r\n:1\r\n*2\r\n$2\r\nbc\r\n:2\r\n*2\r\n$1\r\nd\r\n:3\r\n", BOTH),
        ("%3\r\n$1\r\na\r\n:1\r\n$2\r\nbc\r\n:2\r\n$1\r\nd\r\n:3\r\n", NEW),
        (
            ">1\r\n+p\r\n*6\r\n$1\r\na\r\n>1\r\n+p\r\n:1\r\n$2\r\nbc\r\n:2\r\n>1\r\n+p\r\n$1\r\nd\r\n|1\r\n+a\r\n:1\r\n:3\r\n",
            NEW,
        ),
    ];
    const ROUNDS: usize = 7;
    for (wire, protocols) in cases {
        for &protocol in protocols {
            let stream = format!("{BEFORE}{wire}{BEHIND}");
            let (conn, opener, server) = cutting(stream.clone(), 3, ROUNDS, protocol)?;
            for at in 0..=stream.len() {
                for how in 0..ROUNDS {
                    let what = format!("{wire:?} cut at {at}, way {how}, {protocol:?}");
                    let start = conn.stats().bytes_read;
                    let first = conn.get::<String>("before");
                    let mut pairs = conn.hgetall::<String, i64>("hash");
                    let last = conn.incr("behind");
                    read_first_part(&conn, &first, start, at)?;
                    opener.open();
                    match how {
                        0 => assert_eq!(pairs.wait::<Vec<_>>()?, want, "{what}"),
                        1 => {
                            assert_eq!(pairs.len()?, Some(3), "{what}");
                            assert_eq!(pairs.collect::<Result<Vec<_>>>()?, want, "{what}");
                        }
                        2..=4 => {
                            let taken = how - 2;
                            for pair in &want[..taken] {
                                assert_eq!(pairs.next().transpose()?.as_ref(), Some(pair), "{what}");
                            }
                            assert_eq!(last.wait()?, 77, "{what}");
                            assert_eq!(pairs.len()?, Some(3 - taken), "{what}");
                            assert_eq!(pairs.wait::<Vec<_>>()?, want[taken..], "{what}");
                            continue;
                        }
                        5 => {
                            assert_eq!(pairs.next().transpose()?.as_ref(), want.first(), "{what}");
                            drop(pairs);
                        }
                        _ => {
                            let mut flat = 0;
                            // Elements of nested pairs are arrays, which are no bytes.
                            let outcome = pairs.for_each_bytes(|_| flat += 1);
                            assert!(outcome.is_err() && flat <= 1, "{what}: integers and arrays are no bytes");
                        }
                    }
                    assert_eq!(last.wait()?, 77, "{what}");
                    assert_eq!(first.wait()?, "bef", "{what}");
                }
            }
            conn.sync()?;
            drop(conn);
            server.finish();
        }
    }
    Ok(())
}

#[test]
fn transactions_may_be_cut_anywhere() -> Result<()> {
    // The commit, an integer, a list, an error, and what each is without EXEC's array.
    let ran = "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n:1\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n-ERR alone\r\n";
    let aborted = "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*-1\r\n";
    let refused = "+OK\r\n+QUEUED\r\n-ERR wrong number\r\n+QUEUED\r\n-EXECABORT discarded\r\n";
    for wire in [ran, aborted, refused] {
        for &protocol in BOTH {
            const ROUNDS: usize = 4;
            let stream = format!("{BEFORE}{wire}{BEHIND}");
            let (conn, opener, server) = cutting(stream.clone(), 7, ROUNDS, protocol)?;
            for at in 0..=stream.len() {
                for how in 0..ROUNDS {
                    let what = format!("{wire:?} cut at {at}, way {how}, {protocol:?}");
                    let start = conn.stats().bytes_read;
                    let first = conn.get::<String>("before");
                    let tx = conn.transaction();
                    let (one, list, fails) = (tx.incr("n"), tx.lrange::<String>("list", 0, -1), tx.incr("text"));
                    let commit = tx.commit();
                    let last = conn.incr("behind");
                    read_first_part(&conn, &first, start, at)?;
                    opener.open();
                    let (commit, one, list, fails) = match how {
                        0 => {
                            let commit = commit.wait();
                            (commit, one.wait(), list.wait::<Vec<_>>(), fails.wait())
                        }
                        1 => {
                            let fails = fails.wait();
                            let list = list.wait::<Vec<_>>();
                            (commit.wait(), one.wait(), list, fails)
                        }
                        2 => {
                            assert_eq!(last.wait()?, 77, "{what}");
                            (commit.wait(), one.wait(), list.wait::<Vec<_>>(), fails.wait())
                        }
                        _ => {
                            drop((one, list, fails, commit));
                            assert_eq!(last.wait()?, 77, "{what}");
                            assert_eq!(first.wait()?, "bef", "{what}");
                            assert!(conn.sync().is_err(), "{what}: the error of a dropped handle");
                            continue;
                        }
                    };
                    if wire == ran {
                        commit?;
                        assert_eq!((one?, list?), (1, vec!["a".to_owned(), "b".to_owned()]), "{what}");
                        assert_eq!(fails.unwrap_err().to_string(), "ERR alone", "{what}");
                    } else if wire == aborted {
                        assert!(matches!((commit, one), (Err(Error::Aborted), Err(Error::Aborted))), "{what}");
                        assert!(matches!((list, fails), (Err(Error::Aborted), Err(Error::Aborted))), "{what}");
                    } else {
                        assert_eq!(commit.unwrap_err().code(), Some("EXECABORT"), "{what}");
                        assert_eq!(one.unwrap_err().code(), Some("EXECABORT"), "{what}");
                        assert_eq!(list.unwrap_err().to_string(), "ERR wrong number", "{what}");
                        assert_eq!(fails.unwrap_err().code(), Some("EXECABORT"), "{what}");
                    }
                    assert_eq!((conn.outstanding() <= 1, conn.stats().stored <= 1), (true, true), "{what}");
                }
            }
            drop(conn);
            server.finish();
        }
    }
    Ok(())
}

#[test]
fn an_exchange_that_comes_byte_by_byte_is_the_same() -> Result<()> {
    let server = Scripted::start(|peer| {
        peer.handshake()?;
        for _ in 0..5 {
            peer.read_commands(4)?;
            peer.send_bytewise("$5\r\nvalue\r\n*3\r\n$1\r\na\r\n:2\r\n$-1\r\n-ERR no\r\n%1\r\n+k\r\n*1\r\n#t\r\n")?;
        }
        peer.expect_end()
    });
    let conn = Connection::open(server.url())?;
    for _ in 0..5 {
        let (text, list) = (conn.get::<String>("a"), conn.lrange::<Option<String>>("b", 0, -1));
        let (fails, map) = (conn.incr("c"), conn.command::<HashMap<String, Vec<bool>>>("D", ()));
        assert_eq!(text.wait()?, "value");
        assert_eq!(list.wait::<Vec<_>>()?, [Some("a".to_owned()), Some("2".to_owned()), None]);
        assert_eq!(fails.wait().unwrap_err().to_string(), "ERR no");
        assert_eq!(map.wait()?, HashMap::from([("k".to_owned(), vec![true])]));
    }
    drop(conn);
    server.finish();
    Ok(())
}
