//! What a handle is told when its connection breaks: its own reply if that came, else that the connection is lost and
//! how much of its command had been sent; never another's reply.

#![cfg(feature = "testing")]

mod support;

use std::time::Duration;

use redefer::{Error, Result, SendWhen, Sent, prelude::*};
use support::scripted::{Peer, Scripted, gate};

/// More than any of these tests needs.
const LIMIT: Duration = Duration::from_secs(20);

#[track_caller]
fn lost<T: std::fmt::Debug>(outcome: Result<T>) -> Sent {
    match outcome {
        Err(Error::ConnectionLost(lost)) => lost.sent(),
        other => panic!("not ConnectionLost: {other:?}"),
    }
}

/// A pipelined exchange: each reply as it is on the wire.
const EXCHANGE: [&str; 13] = [
    "+OK\r\n",                                    // SET
    "$5\r\nvalue\r\n",                            // GET
    "*3\r\n$1\r\na\r\n$0\r\n\r\n$1\r\nc\r\n",     // LRANGE
    "-ERR some error\r\n",                        // INCR
    "+OK\r\n",                                    // MULTI
    "+QUEUED\r\n",                                // INCR
    "+QUEUED\r\n",                                // LRANGE
    "*2\r\n:41\r\n*2\r\n$1\r\nx\r\n$2\r\nyz\r\n", // EXEC
    "*2\r\n*2\r\n:1\r\n$-1\r\n:3\r\n",            // a command of any shape
    "%1\r\n$1\r\nf\r\n$1\r\ng\r\n",               // HGETALL
    "*-1\r\n",                                    // BLPOP
    "+OK\r\n",                                    // detached SET
    ":42\r\n",                                    // INCR
];

/// The place in the bytes behind the reply of this number.
fn end(reply: usize) -> usize {
    EXCHANGE[..=reply].iter().map(|reply| reply.len()).sum()
}

/// Checks one outcome: the value if its reply arrived, else that the connection is lost.
#[track_caller]
fn check<T: std::fmt::Debug + PartialEq>(outcome: Result<T>, want: &T, arrived: Option<bool>, what: &str) {
    match (outcome, arrived) {
        (Ok(value), Some(true) | None) => assert_eq!(&value, want, "{what}"),
        (Err(Error::ConnectionLost(lost)), Some(false) | None) => {
            assert_eq!(lost.sent(), Sent::Fully, "{what}: {lost}")
        }
        (outcome, arrived) => panic!("{what}: {outcome:?}, arrived: {arrived:?}"),
    }
}

/// Runs the exchange on a connection of which `cut` bytes of the replies arrive (unless it was reset: then perhaps none),
/// and waits for the handles in order, in reverse, or the last one first.
fn exchange(conn: &Connection, cut: Option<usize>, order: usize) -> Result<()> {
    let what = format!("cut at {cut:?}, order {order}");
    let arrived = |reply: usize| cut.map(|cut| end(reply) <= cut);
    let set = conn.set("key", "value");
    let get = conn.get::<String>("key");
    let list = conn.lrange::<String>("list", 0, -1);
    let fails = conn.incr("text");
    let tx = conn.transaction();
    let (queued, queued_list) = (tx.incr("n"), tx.lrange::<String>("list", 0, -1));
    let commit = tx.commit();
    let nested = conn.command::<Value>("NESTED", ());
    let map = conn.hgetall::<String, String>("hash");
    let pop = conn.blpop::<String, String>("list", LIMIT);
    conn.set("detached", 1).detach();
    let last = conn.incr("n");

    let list_wanted: Vec<String> = ["a", "", "c"].map(String::from).into();
    let queued_wanted: Vec<String> = ["x", "yz"].map(String::from).into();
    let nested_wanted = Value::Array(vec![Value::Array(vec![Value::Integer(1), Value::Nil]), Value::Integer(3)]);
    let map_wanted = vec![("f".to_owned(), "g".to_owned())];
    // Elements of EXEC's reply are replies of their own: `:41` is there with the bytes up to its end.
    let exec_header = cut.map(|cut| end(6) + 4 <= cut);
    let first_element = cut.map(|cut| end(6) + 4 + 5 <= cut);

    let mut checks: Vec<Box<dyn FnOnce() + '_>> = vec![
        Box::new(|| check(set.wait(), &(), arrived(0), &what)),
        Box::new(|| check(get.wait(), &"value".to_owned(), arrived(1), &what)),
        Box::new(|| check(list.wait(), &list_wanted, arrived(2), &what)),
        Box::new(|| match (fails.wait(), arrived(3)) {
            (Err(Error::Server(error)), Some(true) | None) => assert_eq!(error.message(), b"ERR some error", "{what}"),
            (outcome, arrived) => check(outcome, &0, arrived.filter(|arrived| !arrived), &what),
        }),
        Box::new(|| check(queued.wait(), &41, first_element, &what)),
        Box::new(|| check(queued_list.wait(), &queued_wanted, arrived(7), &what)),
        Box::new(|| check(commit.wait(), &(), exec_header, &what)),
        Box::new(|| check(nested.wait(), &nested_wanted, arrived(8), &what)),
        Box::new(|| check(map.wait(), &map_wanted, arrived(9), &what)),
        Box::new(|| check(pop.wait(), &None, arrived(10), &what)),
        Box::new(|| check(last.wait(), &42, arrived(12), &what)),
    ];
    match order {
        0 => {}
        1 => checks.reverse(),
        _ => {
            let last = checks.pop().expect("not empty");
            checks.insert(0, last);
        }
    }
    for run in checks {
        run();
    }
    Ok(())
}

/// Shakes hands, reads the exchange's commands, and answers with this many bytes.
fn answer(peer: &mut Peer, bytes: usize) -> std::io::Result<()> {
    peer.handshake()?;
    peer.read_commands(EXCHANGE.len())?;
    peer.send(&EXCHANGE.concat().as_bytes()[..bytes])
}

#[test]
fn a_server_that_closes_after_any_byte_costs_no_handle_a_wrong_value() -> Result<()> {
    let length = EXCHANGE.concat().len();
    let server = Scripted::start(move |peer| answer(peer, peer.number() / 3).map(drop));
    for cut in 0..=length {
        for order in 0..3 {
            let conn = Connection::open(Config::from_url(&server.url())?.send_when(SendWhen::Gathering))?;
            exchange(&conn, Some(cut), order)?;
            // Whether or not anything was lost, the connection is of no more use now.
            assert!(conn.echo::<i64>(1).wait().is_err());
            assert!(conn.is_broken());
        }
    }
    server.finish();
    Ok(())
}

#[test]
fn a_server_that_resets_after_any_byte_costs_no_handle_a_wrong_value() -> Result<()> {
    let length = EXCHANGE.concat().len();
    let server = Scripted::start(move |peer| {
        answer(peer, peer.number() / 3)?;
        peer.reset()
    });
    for _ in 0..=length {
        for order in 0..3 {
            let conn = Connection::open(server.url())?;
            exchange(&conn, None, order)?;
        }
    }
    server.finish();
    Ok(())
}

#[test]
fn iterators_cut_at_any_byte_give_what_arrived_and_then_the_error() -> Result<()> {
    let wire = "*4\r\n$2\r\nab\r\n:7\r\n$-1\r\n+d\r\n";
    let ends = [4 + 8, 4 + 8 + 4, 4 + 8 + 4 + 5, wire.len()];
    let server = Scripted::start(move |peer| {
        peer.handshake()?;
        peer.read_commands(2)?;
        peer.send(&wire[..peer.number() / 2])
    });
    let wanted = ["ab", "7", "", "d"];
    for cut in 0..wire.len() {
        for overtaken in [false, true] {
            let conn = Connection::open(server.url())?;
            let mut list = conn.lrange::<Option<String>>("list", 0, -1);
            let last = conn.incr("n");
            // Entered by its first element, then overtaken; or read without that.
            let mut got: Vec<Result<Option<String>>> = Vec::new();
            if overtaken {
                got.extend(list.next());
                lost(last.wait());
                got.extend(list);
            } else {
                got.extend(list);
                lost(last.wait());
            }
            let whole = ends.iter().filter(|end| **end <= cut).count();
            let what = format!("cut at {cut}, overtaken: {overtaken}: {got:?}");
            assert_eq!(got.len(), whole + 1, "{what}");
            for (got, wanted) in got.iter().zip(wanted).take(whole) {
                assert_eq!(got.as_ref().ok().map(|text| text.as_deref().unwrap_or_default()), Some(wanted), "{what}");
            }
            assert!(
                matches!(got.last(), Some(Err(Error::ConnectionLost(lost))) if lost.sent() == Sent::Fully),
                "{what}"
            );
        }
    }
    server.finish();
    Ok(())
}

#[test]
fn unsent_partly_and_fully_sent_commands_are_told_apart() -> Result<()> {
    for unix in [false, true] {
        let builder = Scripted::builder().buffers(4096);
        let server = if unix { builder.unix() } else { builder }.start(|peer| {
            peer.handshake()?;
            peer.expect(["SET", "first", "1"])?;
            peer.expect(["SET", "second", "2"])?;
            peer.send("+OK\r\n")?;
            peer.expect_bytes("*3\r\n$3\r\nSET\r\n$5\r\nthird\r\n$16777216\r\nxxx")?;
            peer.reset()
        });
        let config = Config::from_url(&server.url())?.send_buffer_size(4096).write_batch(1 << 30);
        let conn = Connection::open(config.send_when(SendWhen::Gathering))?;
        let first = conn.set("first", 1);
        let second = conn.set("second", 2);
        let third = conn.set("third", vec![b'x'; 16 << 20]);
        let tx = conn.transaction();
        let queued = tx.set("in", "transaction");
        let commit = tx.commit();
        let fourth = conn.lrange::<String>("fourth", 0, -1);
        let fifth = conn.set("fifth", 5);
        first.wait()?;
        assert_eq!(lost(third.wait()), Sent::Partly);
        assert_eq!(lost(second.wait()), Sent::Fully);
        assert_eq!(lost(queued.wait()), Sent::Unsent);
        assert_eq!(lost(commit.wait()), Sent::Unsent);
        assert_eq!(lost(fourth.wait::<Vec<_>>()), Sent::Unsent);
        assert_eq!(lost(fifth.wait()), Sent::Unsent);
        assert_eq!(lost(conn.set("sixth", 6).wait()), Sent::Unsent);
        server.finish();
    }
    Ok(())
}

#[test]
fn a_transaction_that_was_cut_is_partly_sent_or_fully_by_its_exec() -> Result<()> {
    // Everything up to and including EXEC goes out, and behind it a command is cut.
    let server = Scripted::builder().buffers(4096).start(|peer| {
        peer.handshake()?;
        peer.read_commands(5)?;
        peer.expect_bytes("*3\r\n$3\r\nSET\r\n$5\r\nlarge\r\n$16777216\r\nxxx")?;
        peer.send("+OK\r\n+QUEUED\r\n")?;
        peer.reset()
    });
    let config = Config::from_url(&server.url())?.send_buffer_size(4096).write_batch(1 << 30);
    let conn = Connection::open(config.send_when(SendWhen::Gathering))?;
    let tx = conn.transaction();
    let (one, two) = (tx.incr("x"), tx.incr("x"));
    let commit = tx.commit();
    let between = conn.incr("y");
    let large = conn.set("large", vec![b'x'; 16 << 20]);
    let unsent = conn.incr("z");
    assert_eq!(lost(unsent.wait()), Sent::Unsent);
    assert_eq!(lost(two.wait()), Sent::Fully);
    assert_eq!(lost(commit.wait()), Sent::Fully);
    assert_eq!(lost(between.wait()), Sent::Fully);
    assert_eq!(lost(large.wait()), Sent::Partly);
    assert_eq!(lost(one.wait()), Sent::Fully);
    server.finish();
    Ok(())
}

#[test]
fn a_malformed_frame_breaks_the_connection_for_good() -> Result<()> {
    let bad = [
        "$x\r\n",
        "$-2\r\n",
        "*-2\r\n",
        ":\r\n",
        ":1x\r\n",
        "?1\r\n",
        "\r\n",
        "$3\r\nabcd\r\n",
        "$03\r\nabc\r\n",
        "*1\r\n$x\r\n",
        "*99999999999\r\n",
        "$9223372036854775807\r\n",
        "*?\r\n",
        "%-1\r\n",
        "#x\r\n",
        "_x\r\n",
        "*2\r\n:1\r\n:x\r\n",
        ",x\r\n",
        "=2\r\nab\r\n",
    ];
    let server = Scripted::start(move |peer| {
        peer.handshake()?;
        let frame = bad[peer.number() / 4];
        peer.read_commands(4)?;
        peer.send(format!("$3\r\none\r\n{frame}$5\r\nthree\r\n:4\r\n"))?;
        peer.read_to_end().map(drop)
    });
    for frame in bad {
        for order in 0..4 {
            let conn = Connection::open(server.url())?;
            let (one, two, three) = (conn.get::<String>("a"), conn.get::<Value>("b"), conn.get::<String>("c"));
            let four = conn.incr("d");
            let what = format!("{frame:?}, order {order}");
            match order {
                0 => {}
                1 => assert_eq!(lost(four.wait()), Sent::Fully, "{what}"),
                2 => drop(two),
                _ => conn.flush()?,
            }
            assert_eq!(one.wait()?, "one", "{what}");
            assert!(matches!(three.wait(), Err(Error::ConnectionLost(lost)) if lost.sent() == Sent::Fully), "{what}");
            assert!(conn.is_broken(), "{what}");
            match conn.get::<String>("later").wait() {
                Err(Error::ConnectionLost(lost)) => {
                    assert_eq!(lost.sent(), Sent::Unsent, "{what}");
                    assert!(matches!(lost.cause(), Error::Protocol(_)), "{what}: {lost}");
                }
                other => panic!("{what}: {other:?}"),
            }
        }
    }
    server.finish();
    Ok(())
}

#[test]
fn an_exec_of_another_length_than_was_queued_breaks_the_connection() -> Result<()> {
    for exec in ["*1\r\n:1\r\n", "*3\r\n:1\r\n:2\r\n:3\r\n", "*0\r\n", "+OK\r\n", ":1\r\n", "*2\r\n:1\r\n:2\r\n"] {
        let server = Scripted::start(move |peer| {
            peer.handshake()?;
            peer.read_commands(5)?;
            peer.send(format!("+OK\r\n+QUEUED\r\n+QUEUED\r\n{exec}:9\r\n"))?;
            peer.read_to_end().map(drop)
        });
        let conn = Connection::open(server.url())?;
        let tx = conn.transaction();
        let (one, two) = (tx.incr("x"), tx.incr("x"));
        let commit = tx.commit();
        let nine = conn.incr("y");
        if exec == "*2\r\n:1\r\n:2\r\n" {
            commit.wait()?;
            assert_eq!((nine.wait()?, two.wait()?, one.wait()?), (9, 2, 1));
        } else {
            lost(nine.wait());
            lost(one.wait());
            lost(two.wait());
            lost(commit.wait());
            assert!(conn.is_broken());
        }
        drop(conn);
        server.finish();
    }
    Ok(())
}

#[test]
fn a_server_that_is_full_says_so() -> Result<()> {
    let server = support::server_with([("maxclients", "1")]);
    let conn = support::open(&server);
    conn.ping().wait()?;
    for _ in 0..20 {
        for config in [support::config(&server), support::unix_config(&server)] {
            match Connection::open(config.password("a password")) {
                Err(Error::Server(error)) => assert_eq!(error.message(), b"ERR max number of clients reached"),
                other => panic!("{other:?}"),
            }
        }
    }
    conn.ping().wait()
}

#[test]
fn a_full_server_that_closes_before_anything_was_written_says_so_as_well() -> Result<()> {
    let server = Scripted::start(|peer| {
        peer.send("-ERR max number of clients reached\r\n")?;
        if peer.number() % 2 == 0 {
            peer.close();
        } else {
            peer.shutdown_write()?;
            peer.read_to_end()?;
        }
        Ok(())
    });
    for _ in 0..20 {
        match Connection::open(Config::from_url(&server.url())?.user("somebody").password("a password")) {
            Err(Error::Server(error)) => assert_eq!(error.message(), b"ERR max number of clients reached"),
            other => panic!("{other:?}"),
        }
    }
    server.finish();
    Ok(())
}

#[test]
fn a_last_word_in_the_socket_is_read_before_a_failing_write_is_told() -> Result<()> {
    let (opener, opened) = gate();
    let server = Scripted::start(move |peer| {
        peer.handshake()?;
        peer.read_command()?;
        // Not read: closing turns this into a reset, and the client's next writes fail.
        peer.send("+OK\r\n-ERR going away\r\n")?;
        opener.open();
        Ok(())
    });
    let conn = Connection::open(Config::from_url(&server.url())?.send_when(SendWhen::Eager))?;
    let first = conn.set("a", 1);
    opened.wait();
    let second = conn.set("b", 2);
    // Written until the broken pipe is noticed.
    let mut others = Vec::new();
    while !conn.is_broken() {
        others.push(conn.set("c", vec![b'x'; 1 << 16]));
        let _ = conn.flush();
    }
    first.wait()?;
    assert_eq!(second.wait().unwrap_err().to_string(), "ERR going away");
    for other in others {
        lost(other.wait());
    }
    server.finish();
    Ok(())
}

#[test]
fn a_broken_connection_says_so_to_everybody_and_forever() -> Result<()> {
    let server = Scripted::start(|peer| {
        peer.handshake()?;
        peer.read_commands(2)?;
        peer.send("-ERR first\r\n")
    });
    let conn = Connection::open(server.url())?;
    conn.incr("a").detach();
    conn.incr("b").detach();
    assert!(!conn.is_broken());
    // The error that the server sent comes first, then the loss of the other, which is counted.
    assert_eq!(conn.sync().unwrap_err().to_string(), "ERR first");
    assert!(conn.is_broken());
    assert_eq!(conn.outstanding(), 0);
    for _ in 0..3 {
        lost(conn.sync());
        lost(conn.flush());
        assert_eq!(lost(conn.incr("c").wait()), Sent::Unsent);
        assert_eq!(lost(conn.lrange::<i64>("c", 0, -1).wait::<Vec<_>>()), Sent::Unsent);
        assert_eq!(lost(conn.command::<i64>("INCR", "c").wait()), Sent::Unsent);
        assert_eq!(lost(conn.watch("c").map(drop)), Sent::Unsent);
        let tx = conn.transaction();
        let queued = tx.incr("c");
        assert_eq!(lost(tx.commit().wait()), Sent::Unsent);
        assert_eq!(lost(queued.wait()), Sent::Unsent);
        assert!(lost(conn.transact("c", |_, tx| Ok(tx.incr("c"))).map(drop)) == Sent::Unsent);
        let batch = conn.batch();
        let queued = batch.incr("c");
        batch.incr("c");
        assert!(batch.finish().is_err());
        assert_eq!(lost(queued.wait()), Sent::Unsent);
    }
    server.finish();
    Ok(())
}

#[test]
fn a_value_over_512_mib_is_refused_and_not_sent() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    // Never written to, so it takes no memory.
    let giant = vec![0; 512 * 1024 * 1024 + 1];
    let before = conn.stats();
    let earlier = conn.echo::<i64>(1);
    let refused = |error: Error| assert!(matches!(error, Error::Argument(_)), "{error}");
    refused(conn.set("key", &giant[..]).wait().expect_err("too long"));
    refused(conn.set(&giant[..], "value").wait().expect_err("too long"));
    refused(conn.rpush("list", (&b"a"[..], &giant[..])).wait().expect_err("too long"));
    refused(conn.lrange::<i64>(&giant[..], 0, -1).wait::<Vec<_>>().expect_err("too long"));
    refused(conn.command::<Value>("SET", ("key", &giant[..])).wait().expect_err("too long"));
    refused(conn.watch(&giant[..]).map(drop).expect_err("too long"));
    let tx = conn.transaction();
    let (bad, good) = (tx.set("key", &giant[..]), tx.incr("n"));
    refused(tx.commit().wait().expect_err("too long"));
    refused(bad.wait().expect_err("too long"));
    refused(good.wait().expect_err("not sent without the other"));
    assert_eq!(earlier.wait()?, 1);
    assert!(!conn.is_broken());
    assert!(conn.stats().bytes_written - before.bytes_written < 1_000);
    assert_eq!(conn.exists("key").wait()?, 0);
    conn.sync()
}

#[test]
fn a_connection_that_another_one_kills_is_lost_and_no_value_is_made_up() -> Result<()> {
    let server = support::server();
    let other = support::open(&server);
    other.set("k", "value").wait()?;
    for config in [support::config(&server), support::unix_config(&server)] {
        let conn = Connection::open(config)?;
        let id = conn.client_id().wait()?;
        let handles: Vec<Reply<'_, String>> = (0..100).map(|_| conn.get("k")).collect();
        let pop = conn.blpop::<String, String>("queue", None);
        let behind = conn.get::<String>("k");
        conn.flush()?;
        let killed = other.client_kill_with(redefer::commands::ClientKillFilter::new().id(id)).wait()?;
        assert_eq!(killed, 1);
        assert_eq!(lost(behind.wait()), Sent::Fully);
        for handle in handles {
            match handle.wait() {
                Ok(value) => assert_eq!(value, "value"),
                outcome => assert_eq!(lost(outcome), Sent::Fully),
            }
        }
        lost(pop.wait());
        assert!(conn.is_broken());
    }
    Ok(())
}

#[test]
fn a_server_that_was_killed_is_noticed_by_whoever_waits() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set("k", "value").wait()?;
    let pop = conn.blpop::<String, String>("queue", None);
    conn.flush()?;
    server.kill();
    assert_eq!(lost(pop.wait()), Sent::Fully);
    assert_eq!(lost(conn.get::<String>("k").wait()), Sent::Unsent);
    assert!(matches!(Connection::open(server.url()), Err(Error::Io(_))));
    Ok(())
}

#[test]
fn an_idle_connection_that_the_server_closed_is_lost_at_the_next_command() -> Result<()> {
    let (opener, opened) = gate();
    let server = Scripted::start(move |peer| {
        peer.handshake()?;
        peer.expect(["GET", "a"])?;
        peer.send("$1\r\na\r\n")?;
        peer.close();
        opener.open();
        Ok(())
    });
    let conn = Connection::open(server.url())?;
    assert_eq!(conn.get::<String>("a").wait()?, "a");
    opened.wait();
    lost(conn.get::<String>("b").wait());
    assert!(conn.is_broken());
    server.finish();
    Ok(())
}
