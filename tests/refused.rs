//! What the queue of replies cannot bear is refused by name, and what changes the connection is followed.

#![cfg(feature = "testing")]

mod support;

use std::io;
use std::thread;
use std::time::Duration;

use redefer::{Error, Result, SendWhen, prelude::*};
use support::scripted::{Peer, Scripted, array, gate};

const SECRET: &str = "s3cret-p4ss";

/// For waits on a connection whose own timeout is short.
const LONG: Duration = Duration::from_secs(20);

fn scripted(mut script: impl FnMut(&mut Peer) -> io::Result<()> + Send + 'static) -> (Scripted, Config) {
    let server = Scripted::start(move |peer| {
        peer.handshake()?;
        script(peer)
    });
    let config = support::config_for(&server.url());
    (server, config)
}

/// Names and arguments of all that is refused.
const REFUSED: [(&str, &[&str]); 30] = [
    ("CLIENT REPLY", &["OFF"]),
    ("CLIENT REPLY", &["SKIP"]),
    ("CLIENT REPLY", &["ON"]),
    ("CLIENT REPLY OFF", &[]),
    ("CLIENT", &["REPLY", "OFF"]),
    ("CLIENT", &["reply", "Skip"]),
    ("  CLIENT   REPLY\t", &["OFF"]),
    ("MONITOR", &[]),
    ("SYNC", &[]),
    ("PSYNC", &["?", "-1"]),
    ("MULTI", &[]),
    ("EXEC", &[]),
    ("DISCARD", &[]),
    ("WATCH", &["k"]),
    ("WATCH k", &[]),
    ("UNWATCH", &[]),
    ("RESET", &[]),
    ("QUIT", &[]),
    ("HELLO", &[]),
    ("HELLO", &["2"]),
    ("HELLO 3", &["AUTH", "u", "p"]),
    ("SUBSCRIBE", &["c"]),
    ("SUBSCRIBE a", &["b"]),
    ("UNSUBSCRIBE", &[]),
    ("PSUBSCRIBE", &["c*"]),
    ("PUNSUBSCRIBE", &[]),
    ("SSUBSCRIBE", &["c"]),
    ("SUNSUBSCRIBE", &[]),
    ("\tMULTI\n", &[]),
    ("SCRIPT DEBUG", &["YES"]),
];

/// The name in capitals, in small letters, and mixed.
fn cases(name: &str) -> [String; 3] {
    let mixed = |(at, c): (usize, char)| if at % 2 == 0 { c.to_ascii_lowercase() } else { c.to_ascii_uppercase() };
    [name.to_uppercase(), name.to_lowercase(), name.chars().enumerate().map(mixed).collect()]
}

#[test]
fn what_the_queue_cannot_bear_is_refused_on_a_connection_without_io() -> Result<()> {
    let (server, config) = scripted(|peer| {
        peer.expect(["PING"])?;
        peer.send("+PONG\r\n")?;
        peer.expect_end()
    });
    let conn = Connection::open(config)?;
    for (name, arguments) in REFUSED {
        for name in cases(name) {
            let outcome = conn.command::<Value>(&name, arguments).wait();
            assert!(matches!(outcome, Err(Error::Refused(_))), "{name:?}: {outcome:?}");
            drop(conn.command::<Value>(&name, arguments));
            assert!(matches!(conn.sync(), Err(Error::Refused(_))), "{name:?}");
        }
    }
    assert_eq!((conn.stats().commands, conn.stats().bytes_written, conn.outstanding()), (0, 0, 0));
    assert!(!conn.is_broken());
    conn.ping().wait()?;
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn what_the_queue_cannot_bear_is_refused_in_a_batch() -> Result<()> {
    let (server, config) = scripted(|peer| peer.expect_end());
    let conn = Connection::open(config)?;
    let (mut count, batch) = (0, conn.batch());
    for (name, arguments) in REFUSED {
        for name in cases(name) {
            let outcome = batch.command::<Value>(&name, arguments).wait();
            assert!(matches!(outcome, Err(Error::Refused(_))), "{name:?}: {outcome:?}");
            drop(batch.command::<Value>(&name, arguments));
            count += 1;
        }
    }
    match batch.finish() {
        Err(Error::Batch(error)) => {
            assert!(matches!(error.first(), Error::Refused(_)), "{error}");
            assert_eq!((error.position(), error.failed()), (1, count));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!((conn.stats().commands, conn.stats().bytes_written), (0, 0));
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn what_the_queue_cannot_bear_is_refused_in_a_transaction_and_so_are_auth_and_select() -> Result<()> {
    let (server, config) = scripted(|peer| {
        peer.expect_bytes([array(["MULTI"]), array(["INCR", "n"]), array(["EXEC"])].concat())?;
        peer.send("+OK\r\n+QUEUED\r\n*1\r\n:1\r\n")?;
        peer.expect_end()
    });
    let conn = Connection::open(config)?;
    let more: [(&str, &[&str]); 5] =
        [("AUTH", &["p"]), ("AUTH", &["u", "p"]), ("AUTH u", &["p"]), ("SELECT", &["1"]), ("SELECT 1", &[])];
    for (name, arguments) in REFUSED.into_iter().chain(more) {
        for name in cases(name) {
            let tx = conn.transaction();
            tx.incr("n");
            let outcome = tx.command::<Value>(&name, arguments).wait();
            assert!(matches!(outcome, Err(Error::Refused(_))), "{name:?}: {outcome:?}");
            assert_eq!(tx.len(), 1);
            // Without it the others must not run.
            let outcome = tx.commit().wait();
            assert!(matches!(outcome, Err(Error::Refused(_))), "{name:?}: {outcome:?}");
        }
    }
    let tx = conn.transaction();
    let number = tx.incr("n");
    tx.commit().wait()?;
    assert_eq!(number.wait()?, 1);
    assert_eq!(conn.database(), 0);
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn a_command_without_a_name_is_an_error_without_io() -> Result<()> {
    let (server, config) = scripted(|peer| peer.expect_end());
    let conn = Connection::open(config)?;
    for name in ["", " ", "\t\r\n"] {
        assert!(matches!(conn.command::<Value>(name, "argument").wait(), Err(Error::Argument(_))), "{name:?}");
        let tx = conn.transaction();
        assert!(matches!(tx.command::<Value>(name, ()).wait(), Err(Error::Argument(_))), "{name:?}");
    }
    assert_eq!(conn.stats().bytes_written, 0);
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn names_that_only_look_alike_are_sent() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    assert!(conn.command::<i64>("CLIENT ID", ()).wait()? > 0);
    assert!(conn.command::<i64>("client", "id").wait()? > 0);
    conn.command::<()>("SET", ("MULTI", "EXEC")).wait()?;
    assert_eq!(conn.command::<String>("get", "MULTI").wait()?, "EXEC");
    assert_eq!(conn.command::<Vec<Value>>("COMMAND INFO", ("SUBSCRIBE",)).wait()?.len(), 1);
    assert_eq!(conn.command::<Value>("MULTIPLY", ()).wait().unwrap_err().code(), Some("ERR"));
    assert_eq!(conn.command::<Value>("CLIENT REPLYX", "OFF").wait().unwrap_err().code(), Some("ERR"));
    assert_eq!(conn.command::<String>("ECHO", "RESET").wait()?, "RESET");
    Ok(())
}

#[test]
fn a_reply_too_many_is_never_the_reply_of_the_next_command() -> Result<()> {
    let (server, config) = scripted(|peer| {
        peer.expect(["PING"])?;
        peer.send("+PONG\r\n+SURPLUS\r\n")?;
        peer.read_to_end().map(drop)
    });
    let conn = Connection::open(config)?;
    conn.ping().wait()?;
    match conn.echo::<String>("mine").wait() {
        Err(error) => assert!(error.is_connection_lost(), "{error}"),
        Ok(text) => panic!("{text}"),
    }
    assert!(conn.is_broken());
    drop(conn);
    server.finish();
    Ok(())
}

// AUTH

#[test]
fn auth_is_sent_alone_after_every_earlier_reply_was_read() -> Result<()> {
    let (server, config) = scripted(|peer| {
        let before = peer.received();
        let earlier = [array(["GET", "a"]), array(["LRANGE", "l", "0", "-1"]), array(["GET", "b"])].concat();
        peer.expect_bytes(&earlier)?;
        assert_eq!(peer.received() - before, earlier.len(), "AUTH came with the others");
        peer.send("$1\r\na\r\n*2\r\n+x\r\n+y\r\n$1\r\nb\r\n")?;
        let auth = array(["AUTH", "user", SECRET]);
        peer.expect_bytes(&auth)?;
        assert_eq!(peer.received() - before, earlier.len() + auth.len(), "something came with AUTH");
        peer.send("+OK\r\n")?;
        peer.expect(["PING"])?;
        peer.send("+PONG\r\n")?;
        peer.expect_end()
    });
    let conn = Connection::open(config.send_when(SendWhen::Gathering))?;
    let a = conn.get::<String>("a");
    let list = conn.lrange::<String>("l", 0, -1);
    conn.get::<String>("b").detach();
    let auth = conn.auth("user", SECRET);
    let ping = conn.ping();
    assert_eq!(list.wait::<Vec<_>>()?, ["x", "y"]);
    ping.wait()?;
    auth.wait()?;
    assert_eq!(a.wait()?, "a");
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn of_an_error_to_auth_only_the_code_word_is_kept() -> Result<()> {
    const ANSWERS: [(&str, &str); 4] = [
        ("-WRONGPASS invalid username-password pair or user is disabled.", "WRONGPASS"),
        ("-ERR unknown command `AUTH`, with args beginning with: `s3cret-p4ss`, ", "ERR"),
        ("-s3cret-p4ss", "ERR"),
        ("-NOPERM s3cret-p4ss", "NOPERM"),
    ];
    let (server, config) = scripted(|peer| {
        for (answer, _) in ANSWERS {
            for _ in 0..3 {
                peer.read_command()?;
                peer.send(format!("{answer}\r\n"))?;
            }
        }
        peer.expect(["PING"])?;
        peer.send("+PONG\r\n")?;
        peer.expect_end()
    });
    let conn = Connection::open(config)?;
    for (_, code) in ANSWERS {
        let dropped = || {
            drop(conn.auth("u", SECRET));
            conn.sync()
        };
        let outcomes = [conn.auth("u", SECRET).wait(), conn.command::<()>("auth", SECRET).wait(), dropped()];
        for outcome in outcomes {
            let error = outcome.expect_err("it was refused");
            assert_eq!(error.code(), Some(code), "{error}");
            assert_eq!(error.to_string(), code);
            assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
        }
    }
    conn.ping().wait()?;
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn a_failing_auth_among_other_commands_shifts_nothing_on_any_server() -> Result<()> {
    let server = support::server_with([("user", "alice on >s3cret-p4ss ~* &* +@all")]);
    let conn = support::open(&server);
    let whoami = || conn.command::<String>("ACL WHOAMI", ());
    conn.rpush("list", ["a", "b", "c"]).wait()?;
    let before: Vec<_> = (0..3).map(|n| conn.ping_message::<i64>(n)).collect();
    let mut list = conn.lrange::<String>("list", 0, -1);
    assert_eq!(list.next().transpose()?.as_deref(), Some("a"));
    let failing = conn.auth("alice", "s3cret-wrong");
    let behind = conn.ping_message::<String>("behind");
    assert_eq!(behind.wait()?, "behind");
    assert_eq!(failing.wait().unwrap_err().code(), Some("WRONGPASS"));
    assert_eq!(list.wait::<Vec<_>>()?, ["b", "c"]);
    for (n, reply) in before.into_iter().enumerate() {
        assert_eq!(reply.wait()?, n as i64);
    }
    assert_eq!(whoami().wait()?, "default", "the old login is in force");
    conn.auth("alice", SECRET).wait()?;
    assert_eq!(whoami().wait()?, "alice");
    assert!(conn.auth("default", "").wait().is_ok(), "needs no password");
    let batch = conn.batch();
    let first = batch.ping_message::<String>("first");
    batch.command::<()>("AUTH", ("alice", "s3cret-wrong")).detach();
    let second = batch.ping_message::<String>("second");
    match batch.finish() {
        Err(Error::Batch(error)) => {
            assert_eq!((error.first().code(), error.position(), error.failed()), (Some("WRONGPASS"), 1, 1));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!((first.wait()?, second.wait()?), ("first".to_owned(), "second".to_owned()));
    conn.sync()
}

#[test]
fn an_auth_that_times_out_leaves_the_connection_in_step() -> Result<()> {
    let (opener, gate) = gate();
    let (server, config) = scripted(move |peer| {
        peer.expect(["AUTH", "u", SECRET])?;
        gate.wait();
        peer.send("-WRONGPASS late\r\n")?;
        peer.expect(["INCR", "n"])?;
        peer.send(":7\r\n")?;
        peer.expect_end()
    });
    let conn = Connection::open(config.timeout(Duration::from_millis(20)))?;
    assert!(matches!(conn.auth("u", SECRET).wait(), Err(Error::Timeout)));
    opener.open();
    assert_eq!(conn.incr("n").wait_timeout(LONG)?, 7);
    let late = conn.sync().expect_err("the late answer was an error that nobody saw");
    assert!(!late.to_string().contains("s3cret"), "{late}");
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn the_late_answer_to_an_auth_that_timed_out_shows_no_password_either() -> Result<()> {
    let (opener, gate) = gate();
    let (server, config) = scripted(move |peer| {
        peer.expect(["AUTH", "u", SECRET])?;
        gate.wait();
        peer.send(format!("-ERR unknown command 'AUTH', with args beginning with: 'u' '{SECRET}'\r\n"))?;
        peer.expect(["INCR", "n"])?;
        peer.send(":7\r\n")?;
        peer.expect_end()
    });
    let conn = Connection::open(config.timeout(Duration::from_millis(20)))?;
    assert!(matches!(conn.auth("u", SECRET).wait(), Err(Error::Timeout)));
    opener.open();
    assert_eq!(conn.incr("n").wait_timeout(LONG)?, 7);
    let late = conn.sync().expect_err("the late answer was an error that nobody saw");
    assert!(!late.to_string().contains("s3cret") && !format!("{late:?}").contains("s3cret"), "{late:?}");
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn an_auth_on_a_connection_that_is_lost_says_so() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let earlier = conn.ping();
    server.kill();
    let auth = conn.auth("u", SECRET);
    let error = auth.wait().expect_err("nobody is there");
    assert!(error.is_connection_lost() && !format!("{error:?}").contains("s3cret"), "{error:?}");
    drop(earlier);
    assert!(conn.auth("u", SECRET).wait().is_err_and(|error| error.is_connection_lost()));
    Ok(())
}

// SELECT

#[test]
fn a_select_that_succeeds_is_followed_and_one_that_fails_is_not() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    assert_eq!(conn.database(), 0);
    conn.select(3).wait()?;
    assert_eq!(conn.database(), 3);
    assert!(conn.select(99).wait().is_err());
    assert_eq!(conn.database(), 3);
    assert!(conn.command::<()>("SELECT", "no number").wait().is_err());
    assert!(conn.command::<()>("SELECT", ()).wait().is_err());
    assert_eq!(conn.database(), 3);
    conn.command::<()>("select", 4).wait()?;
    assert_eq!(conn.database(), 4);
    conn.command::<()>("Select 5", ()).wait()?;
    assert_eq!(conn.database(), 5);
    assert!(conn.client_info().wait()?.text.contains("db=5"));
    Ok(())
}

#[test]
fn selects_in_a_pipeline_are_followed_in_the_order_of_their_replies() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set("k", "zero").wait()?;
    let one = conn.select(1);
    conn.set("k", "one").detach();
    let bad = conn.select(99);
    let in_one = conn.get::<String>("k");
    conn.select(2).detach();
    let in_two = conn.get::<Option<String>>("k");
    assert_eq!(conn.database(), 0, "nothing has been answered");
    assert_eq!(in_one.wait()?, "one");
    assert_eq!(conn.database(), 1);
    assert_eq!(in_two.wait()?, None);
    assert_eq!(conn.database(), 2);
    assert!(bad.wait().is_err());
    one.wait()?;
    let batch = conn.batch();
    batch.command::<()>("SELECT", 6).detach();
    batch.command::<()>("SELECT", 99).detach();
    batch.set("k", "six");
    assert!(batch.finish().is_err());
    assert_eq!(conn.database(), 6);
    drop(conn.select(0));
    assert_eq!(conn.get::<String>("k").wait()?, "zero");
    assert_eq!(conn.database(), 0);
    conn.sync()
}

#[test]
fn a_select_whose_answer_comes_late_is_followed_when_it_comes() -> Result<()> {
    let (opener, gate) = gate();
    let (server, config) = scripted(move |peer| {
        peer.expect(["SELECT", "3"])?;
        gate.wait();
        peer.send("+OK\r\n")?;
        peer.expect(["PING"])?;
        peer.send("+PONG\r\n")?;
        peer.expect_end()
    });
    let conn = Connection::open(config.timeout(Duration::from_millis(20)))?;
    assert!(matches!(conn.select(3).wait(), Err(Error::Timeout)));
    assert_eq!(conn.database(), 0);
    opener.open();
    conn.ping().wait_timeout(LONG)?;
    assert_eq!(conn.database(), 3);
    drop(conn);
    server.finish();
    Ok(())
}

// Blocking by name

#[test]
fn a_blocking_command_by_name_has_its_own_time_and_so_has_what_is_behind_it() -> Result<()> {
    const BLOCKING: [(&str, &[&str]); 9] = [
        ("BLPOP", &["nothing", "0.8"]),
        ("brpop", &["nothing", "other", "0.8"]),
        ("BRPOPLPUSH", &["nothing", "other", "0.8"]),
        ("BLMOVE", &["nothing", "other", "LEFT", "RIGHT", "0.8"]),
        ("BLMPOP", &["0.8", "1", "nothing", "LEFT"]),
        ("BZPOPMIN", &["nothing", "0.8"]),
        ("BZMPOP", &["0.8", "1", "nothing", "MIN"]),
        ("XREAD", &["COUNT", "1", "BLOCK", "800", "STREAMS", "stream", "$"]),
        ("WAIT", &["1", "800"]),
    ];
    let server = support::server();
    support::open(&server).command::<Value>("XADD", ("stream", "*", "f", "v")).wait()?;
    // Longer than an answer takes, and shorter than the commands block.
    let config = support::config(&server).timeout(Duration::from_millis(500));
    let block = |name: &str, arguments: &[&str], behind_first: bool| -> Result<()> {
        let conn = Connection::open(config.clone())?;
        let nothing = conn.command::<Value>(name, arguments);
        let behind = conn.ping();
        let nothing = if behind_first {
            behind.wait()?;
            nothing.wait()?
        } else {
            let nothing = nothing.wait()?;
            behind.wait()?;
            nothing
        };
        assert!(matches!(nothing, Value::Nil | Value::Integer(0)), "{name}: {nothing:?}");
        Ok(())
    };
    thread::scope(|scope| {
        let waits: Vec<_> = BLOCKING
            .iter()
            .flat_map(|(name, arguments)| [(name, arguments, false), (name, arguments, true)])
            .map(|(name, arguments, behind_first)| scope.spawn(move || block(name, arguments, behind_first)))
            .collect();
        waits.into_iter().try_for_each(|wait| wait.join().expect("no panic"))
    })
}

#[test]
fn a_blocking_command_by_name_without_end_waits_for_longer_than_the_timeout() -> Result<()> {
    let server = support::server();
    let config = support::config(&server);
    let conn = Connection::open(config.clone().timeout(Duration::from_millis(20)))?;
    let popped = conn.command::<(String, String)>("BLPOP", ("list", 0));
    let behind = conn.ping();
    conn.flush()?;
    let pusher = thread::spawn(move || -> Result<i64> {
        let other = Connection::open(config)?;
        // The server lets the time pass.
        other.command::<Value>("BLPOP", ("nothing", 0.2)).wait()?;
        other.rpush("list", "element").wait()
    });
    behind.wait()?;
    assert_eq!(popped.wait()?, ("list".to_owned(), "element".to_owned()));
    assert_eq!(pusher.join().expect("no panic")?, 1);
    Ok(())
}
