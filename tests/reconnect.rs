//! A connection that is made again: what is kept, what is lost, what is restored, and what is never sent twice.

#![cfg(feature = "testing")]

mod support;

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redefer::commands::AclRules;
use redefer::{Config, Credentials, Error, Reconnect, Result, SendWhen, Sent, WaitError, prelude::*};
use support::scripted::{Opener, Peer, Scripted, gate};
use support::within;

/// Dials again at once, and often.
fn again() -> Reconnect {
    Reconnect::backoff().first_delay(Duration::from_millis(1)).max_delay(Duration::from_millis(2))
}

/// How to reach a scripted server with a connection that is made again. Nothing is sent before it is waited for.
fn gathering(server: &Scripted) -> Config {
    let config = Config::from_url(&server.url()).unwrap();
    config.reconnect(again()).send_when(SendWhen::Gathering).write_batch(64 << 20)
}

fn connect(server: &Scripted) -> Connection {
    Connection::open(gathering(server)).unwrap()
}

/// Closes the connection and says so: from then on the client's system knows.
fn close(peer: &mut Peer, closed: &Opener) -> io::Result<()> {
    peer.close_known()?;
    closed.open();
    Ok(())
}

fn config() -> (support::Private, Config) {
    let server = support::server();
    let config = support::config(&server).reconnect(again());
    (server, config)
}

/// Ends all connections to the server but that of `by`, and returns when they are gone.
fn kill_others(by: &Connection) {
    let own = by.command::<i64>("CLIENT ID", ()).wait().unwrap();
    by.command::<i64>("CLIENT KILL", ("TYPE", "normal", "SKIPME", "yes")).wait().unwrap();
    let alone = || by.client_list().wait().unwrap().iter().all(|client| client.id == own);
    while !alone() {}
}

#[track_caller]
fn lost<T: std::fmt::Debug>(outcome: Result<T>) -> Sent {
    match outcome {
        Err(Error::ConnectionLost(lost)) => lost.sent(),
        other => panic!("not ConnectionLost: {other:?}"),
    }
}

/// A handshake, and then the exchanges: what is expected, and what is answered.
fn serve(peer: &mut Peer, exchanges: &[(&[&str], &str)]) -> io::Result<()> {
    peer.handshake()?;
    for (command, answer) in exchanges {
        peer.expect(command.iter())?;
        peer.send(answer)?;
    }
    Ok(())
}

#[test]
fn a_connection_that_was_closed_while_idle_is_made_again_without_an_error() -> Result<()> {
    let (server, config) = config();
    let conn = Connection::open(config.idle_check(Duration::ZERO))?;
    let other = Connection::open(server.url())?;
    for round in 1..=5 {
        conn.set("key", round).wait()?;
        kill_others(&other);
        assert_eq!(conn.get::<u64>("key").wait()?, round);
        assert_eq!(conn.stats().reconnects, round);
    }
    Ok(())
}

#[test]
fn without_a_policy_an_idle_close_is_found_before_the_command_is_written() -> Result<()> {
    let server = support::server();
    let conn = Connection::open(support::config(&server).idle_check(Duration::ZERO))?;
    let other = Connection::open(server.url())?;
    kill_others(&other);
    let written = conn.stats().bytes_written;
    assert_eq!(lost(conn.set("key", "value").wait()), Sent::Unsent);
    assert_eq!(conn.stats().bytes_written, written);
    assert!(conn.is_broken());
    Ok(())
}

#[test]
fn an_idle_connection_is_not_asked_before_its_time() -> Result<()> {
    let server = support::server();
    let conn = Connection::open(support::config(&server).idle_check(Duration::MAX))?;
    let other = Connection::open(server.url())?;
    kill_others(&other);
    assert_ne!(lost(conn.set("key", "value").wait()), Sent::Unsent);
    Ok(())
}

#[test]
fn what_was_acknowledged_is_restored() -> Result<()> {
    let (server, config) = config();
    let other = Connection::open(server.url())?;
    other.acl_setuser("ada", AclRules::new().on().password("first").all_keys().all_commands()).wait()?;
    let conn = Connection::open(config.idle_check(Duration::ZERO).client_name("before").database(1))?;
    conn.auth("ada", "first").wait()?;
    conn.select(3).wait()?;
    conn.client_setname("after").wait()?;
    conn.client_no_evict(true).wait()?;
    assert!(matches!(conn.select(99_999).wait(), Err(Error::Server(_))));
    kill_others(&other);
    let client = conn.client_info().wait()?;
    assert_eq!((client.user.as_deref(), client.db, client.name.as_str()), (Some("ada"), 3, "after"));
    assert!(client.has_flag('e'), "{client:?}");
    assert_eq!((conn.database(), conn.stats().reconnects), (3, 1));
    Ok(())
}

#[test]
fn unsent_commands_are_kept_and_sent_ones_are_lost() -> Result<()> {
    for order in 0..3 {
        let (opener, closed) = gate();
        let server = Scripted::start(move |peer| match peer.number() {
            0 => serve(peer, &[(&["INCR", "a"], "")]).and_then(|()| close(peer, &opener)),
            _ => {
                serve(peer, &[(&["INCR", "b"], ":2\r\n"), (&["GET", "c"], "$1\r\nC\r\n")])?;
                peer.expect_end()
            }
        });
        let conn = connect(&server);
        let a = conn.incr("a");
        conn.flush()?;
        closed.wait();
        let (b, c) = (conn.incr("b"), conn.get::<String>("c"));
        match order {
            0 => {
                assert_eq!(lost(a.wait()), Sent::Fully);
                assert_eq!((b.wait()?, c.wait()?), (2, "C".to_owned()));
            }
            1 => {
                assert_eq!((c.wait()?, b.wait()?), ("C".to_owned(), 2));
                assert_eq!(lost(a.wait()), Sent::Fully);
            }
            _ => {
                assert_eq!(b.wait()?, 2);
                drop(a);
                assert_eq!(c.wait()?, "C");
                assert_eq!(lost(conn.sync()), Sent::Fully);
            }
        }
        assert_eq!((conn.stats().reconnects, conn.outstanding()), (1, 0));
        drop(conn);
        server.finish();
    }
    Ok(())
}

#[test]
fn replies_that_came_before_the_break_reach_their_handles() -> Result<()> {
    let server = Scripted::start(|peer| match peer.number() {
        0 => {
            peer.handshake()?;
            peer.read_commands(3)?;
            // One whole reply, and a part of the next.
            peer.send("$1\r\nA\r\n$10\r\nhalf")
        }
        _ => serve(peer, &[(&["PING"], "+PONG\r\n")]).and_then(|()| peer.expect_end()),
    });
    let conn = connect(&server);
    let (a, b, c) = (conn.get::<String>("a"), conn.get::<String>("b"), conn.get::<String>("c"));
    assert_eq!(lost(b.wait()), Sent::Fully);
    assert_eq!(a.wait()?, "A");
    assert_eq!(lost(c.wait()), Sent::Fully);
    conn.command::<()>("PING", ()).wait()?;
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn a_command_that_was_cut_is_not_sent_again_and_those_behind_it_are_kept() -> Result<()> {
    let (opener, closed) = gate();
    let server = Scripted::builder().buffers(4096).start(move |peer| match peer.number() {
        0 => {
            peer.handshake()?;
            closed.wait();
            peer.reset()
        }
        _ => serve(peer, &[(&["INCR", "n"], ":1\r\n")]).and_then(|()| peer.expect_end()),
    });
    let conn = connect(&server);
    let value = vec![b'x'; 8 << 20];
    let big = conn.set("big", &value);
    let n = conn.incr("n");
    // Some of it is written, and nobody reads it.
    let Err(WaitError::Timeout(big)) = big.wait_timeout(Duration::from_millis(50)) else { panic!("no timeout") };
    assert!(conn.stats().bytes_written > 0);
    opener.open();
    assert_eq!(lost(big.wait()), Sent::Partly);
    assert_eq!(n.wait()?, 1);
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn idempotent_commands_are_sent_again_in_their_places() -> Result<()> {
    for order in 0..2 {
        let (opener, closed) = gate();
        let server = Scripted::start(move |peer| match peer.number() {
            0 => {
                peer.handshake()?;
                peer.read_commands(4)?;
                close(peer, &opener)
            }
            _ => serve(
                peer,
                &[(&["GET", "b"], "$1\r\nB\r\n"), (&["MGET", "d"], "*1\r\n$1\r\nD\r\n"), (&["INCR", "e"], ":5\r\n")],
            )
            .and_then(|()| peer.expect_end()),
        });
        let conn = connect(&server);
        let safe = conn.idempotent();
        let (a, b, c) = (conn.incr("a"), safe.get::<String>("b"), conn.incr("c"));
        let d = safe.mget::<String>(["d"]);
        conn.flush()?;
        closed.wait();
        let e = conn.incr("e");
        if order == 0 {
            assert_eq!(lost(a.wait()), Sent::Fully);
            assert_eq!(b.wait()?, "B");
            assert_eq!(lost(c.wait()), Sent::Fully);
            assert_eq!(d.wait::<Vec<_>>()?, ["D"]);
            assert_eq!(e.wait()?, 5);
        } else {
            assert_eq!(e.wait()?, 5);
            assert_eq!(d.wait::<Vec<_>>()?, ["D"]);
            // Nobody asked for this one, and so it is accounted for.
            c.detach();
            assert_eq!(b.wait()?, "B");
            assert_eq!(lost(conn.sync()), Sent::Fully);
            assert_eq!(lost(a.wait()), Sent::Fully);
        }
        assert_eq!(conn.stats().resent, 2);
        drop(conn);
        server.finish();
    }
    Ok(())
}

#[test]
fn a_lost_command_behind_one_that_is_sent_again_is_not_waited_for() -> Result<()> {
    for many in [false, true] {
        let server = Scripted::start(move |peer| match peer.number() {
            0 => {
                peer.handshake()?;
                peer.read_commands(2).map(drop)
            }
            _ => serve(peer, &[(&["GET", "b"], "$1\r\nB\r\n")]).and_then(|()| peer.expect_end()),
        });
        let conn = connect(&server);
        let b = conn.idempotent().get::<String>("b");
        // The break is met in the middle of this wait.
        if many {
            let c = conn.lrange::<String>("c", 0, -1);
            assert_eq!(lost(c.wait::<Vec<_>>()), Sent::Fully);
        } else {
            assert_eq!(lost(conn.incr("c").wait()), Sent::Fully);
        }
        assert_eq!(b.wait()?, "B");
        drop(conn);
        server.finish();
    }
    Ok(())
}

#[test]
fn a_lost_command_is_told_by_the_break_that_lost_it_and_not_by_a_later_one() -> Result<()> {
    let server = Scripted::start(move |peer| match peer.number() {
        0 => {
            peer.handshake()?;
            peer.read_commands(2).map(drop)
        }
        1 => {
            peer.handshake()?;
            // What is sent again is cut.
            peer.expect_bytes("*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$33554432\r\nx")?;
            peer.reset()
        }
        _ => {
            peer.handshake()?;
            peer.read_commands(1)?;
            peer.send("+OK\r\n")?;
            peer.expect_end()
        }
    });
    let conn = connect(&server);
    let b = conn.idempotent().set("b", vec![b'x'; 32 << 20]);
    // Sent whole on the first connection: it may have run.
    let c = conn.incr("c");
    b.wait()?;
    assert_eq!(lost(c.wait()), Sent::Fully);
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn an_idempotent_command_is_not_sent_for_ever() -> Result<()> {
    let tries = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&tries);
    let server = Scripted::start(move |peer| {
        peer.handshake()?;
        let command = peer.read_command()?;
        if command[0] == b"GET" {
            seen.fetch_add(1, Ordering::SeqCst);
            // Half a reply, so that this counts as a connection that works.
            return peer.send("$100\r\n");
        }
        peer.send("+PONG\r\n")
    });
    let conn = connect(&server);
    assert_eq!(lost(conn.idempotent().get::<String>("poison").wait()), Sent::Fully);
    assert_eq!(tries.load(Ordering::SeqCst), 4, "once, and three times again");
    conn.command::<()>("PING", ()).wait()?;
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn a_transaction_is_kept_whole_or_lost_whole() -> Result<()> {
    let (opener, closed) = gate();
    let server = Scripted::start(move |peer| match peer.number() {
        0 => {
            peer.handshake()?;
            peer.read_commands(4)?;
            close(peer, &opener)
        }
        _ => {
            peer.handshake()?;
            peer.expect(["MULTI"])?;
            peer.expect(["INCR", "y"])?;
            peer.expect(["EXEC"])?;
            peer.expect(["INCR", "z"])?;
            peer.send("+OK\r\n+QUEUED\r\n*1\r\n:7\r\n:8\r\n")?;
            peer.expect_end()
        }
    });
    let conn = connect(&server);
    let first = conn.transaction();
    let (a, b) = (first.incr("x"), first.incr("x"));
    let first = first.commit();
    conn.flush()?;
    closed.wait();
    let second = conn.transaction();
    let y = second.incr("y");
    let second = second.commit();
    let z = conn.incr("z");
    assert_eq!(y.wait()?, 7);
    second.wait()?;
    assert_eq!(z.wait()?, 8);
    for outcome in [a.wait(), b.wait()] {
        assert_eq!(lost(outcome), Sent::Fully);
    }
    assert_eq!(lost(first.wait()), Sent::Fully);
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn no_part_of_a_cut_transaction_runs_on_the_next_connection() -> Result<()> {
    let (opener, closed) = gate();
    let server = Scripted::builder().buffers(4096).start(move |peer| match peer.number() {
        0 => {
            peer.handshake()?;
            closed.wait();
            peer.reset()
        }
        _ => serve(peer, &[(&["INCR", "n"], ":1\r\n")]).and_then(|()| peer.expect_end()),
    });
    let conn = connect(&server);
    let tx = conn.transaction();
    let one = tx.incr("x");
    let big = tx.set("big", vec![b'x'; 8 << 20]);
    let two = tx.incr("x");
    let commit = tx.commit();
    let n = conn.incr("n");
    let Err(WaitError::Timeout(n)) = n.wait_timeout(Duration::from_millis(50)) else { panic!("no timeout") };
    opener.open();
    assert_eq!(n.wait()?, 1);
    // EXEC was not written, and so nothing has run.
    assert_eq!(lost(commit.wait()), Sent::Unsent);
    assert_eq!(lost(one.wait()), Sent::Unsent);
    assert_eq!(lost(big.wait()), Sent::Unsent);
    assert_eq!(lost(two.wait()), Sent::Unsent);
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn a_watch_does_not_outlast_its_connection() -> Result<()> {
    let (server, config) = config();
    let conn = Connection::open(config.idle_check(Duration::ZERO).send_when(SendWhen::Gathering))?;
    let other = Connection::open(server.url())?;

    let watch = conn.watch(["key"])?;
    kill_others(&other);
    other.set("key", "changed").wait()?;
    assert_eq!(conn.get::<String>("key").wait()?, "changed");
    let tx = watch.transaction();
    let set = tx.set("key", "overwritten");
    assert!(matches!(tx.commit().wait(), Err(Error::Aborted)));
    assert!(matches!(set.wait(), Err(Error::Aborted)));

    // Committed, and the connection breaks before it is written.
    let watch = conn.watch(["key"])?;
    kill_others(&other);
    other.set("key", "changed again").wait()?;
    let tx = watch.transaction();
    let set = tx.set("key", "overwritten");
    let commit = tx.commit();
    let behind = conn.get::<String>("key");
    assert_eq!(behind.wait()?, "changed again");
    assert_eq!(lost(commit.wait()), Sent::Unsent);
    assert_eq!(lost(set.wait()), Sent::Unsent);

    // `transact` goes on by itself when it was aborted.
    let mut runs = 0;
    conn.transact(["key"], |conn, tx| {
        runs += 1;
        if runs == 1 {
            kill_others(&other);
            let _ = conn.get::<String>("key").wait();
        }
        Ok(tx.set("key", "at last"))
    })?;
    assert_eq!(runs, 2);
    assert_eq!(other.get::<String>("key").wait()?, "at last");
    Ok(())
}

#[test]
fn nothing_runs_in_a_database_that_nobody_is_sure_of() -> Result<()> {
    let (opener, closed) = gate();
    let server = Scripted::start(move |peer| match peer.number() {
        0 => serve(peer, &[(&["SELECT", "5"], "")]).and_then(|()| close(peer, &opener)),
        _ => serve(peer, &[(&["PING"], "+PONG\r\n")]).and_then(|()| peer.expect_end()),
    });
    let conn = connect(&server);
    let select = conn.select(5);
    conn.flush()?;
    closed.wait();
    let set = conn.set("key", "value");
    assert_eq!(lost(set.wait()), Sent::Unsent);
    assert_eq!(lost(select.wait()), Sent::Fully);
    assert_eq!(conn.database(), 0);
    conn.command::<()>("PING", ()).wait()?;
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn an_unsent_select_is_kept_with_what_is_behind_it() -> Result<()> {
    let (server, config) = config();
    let conn = Connection::open(config.idle_check(Duration::ZERO).send_when(SendWhen::Gathering))?;
    let other = Connection::open(server.url())?;
    kill_others(&other);
    let (zero, select, five) = (conn.set("in", 0), conn.select(5), conn.set("in", 5));
    five.wait()?;
    select.wait()?;
    zero.wait()?;
    assert_eq!(conn.database(), 5);
    assert_eq!(other.get::<i64>("in").wait()?, 0);
    assert_eq!(conn.get::<i64>("in").wait()?, 5);
    Ok(())
}

#[test]
fn a_multi_bulk_that_was_cut_gives_what_has_come_and_then_the_loss() -> Result<()> {
    let (opener, closed) = gate();
    let server = Scripted::start(move |peer| match peer.number() {
        0 => serve(peer, &[(&["LRANGE", "l", "0", "-1"], "*3\r\n$1\r\na\r\n$1\r\nb\r\n$5\r\nc")])
            .and_then(|()| close(peer, &opener)),
        _ => serve(peer, &[(&["PING"], "+PONG\r\n")]).and_then(|()| peer.expect_end()),
    });
    let config = Config::from_url(&server.url())?.reconnect(again()).idle_check(Duration::ZERO);
    let conn = Connection::open(config)?;
    let mut list = conn.lrange::<String>("l", 0, -1);
    assert_eq!(list.next().unwrap()?, "a");
    closed.wait();
    let ping = conn.command::<()>("PING", ());
    ping.wait()?;
    assert_eq!(list.next().unwrap()?, "b");
    assert_eq!(lost(list.next().unwrap()), Sent::Fully);
    assert!(list.next().is_none());
    drop(list);
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn a_server_that_is_gone_costs_one_round_of_attempts_and_comes_back() -> Result<()> {
    let server = support::server();
    let policy = Reconnect::backoff().attempts(3).first_delay(Duration::from_millis(1));
    let config = support::config(&server).reconnect(policy.max_delay(Duration::from_secs(3600)));
    let conn = Connection::open(config.send_when(SendWhen::Gathering))?;
    conn.set("key", "value").wait()?;
    drop(server);
    let sent = conn.set("key", "value");
    conn.flush()?;
    let kept = conn.set("key", "value");
    assert!(matches!(lost(sent.wait()), Sent::Partly | Sent::Fully));
    assert_eq!(lost(kept.wait()), Sent::Unsent);
    // From here on nothing is tried for an hour, and so nothing waits.
    for _ in 0..1000 {
        assert_eq!(lost(conn.set("key", "value").wait()), Sent::Unsent);
    }
    assert_eq!((conn.outstanding(), conn.stats().reconnects), (0, 0));
    assert!(conn.is_broken());
    Ok(())
}

#[test]
fn when_the_rest_is_over_one_attempt_is_made() -> Result<()> {
    let refusals = Arc::new(AtomicUsize::new(0));
    let refused = Arc::clone(&refusals);
    let server = Scripted::start(move |peer| match peer.number() {
        0 => serve(peer, &[(&["PING"], "+PONG\r\n")]),
        1..=5 => {
            refused.fetch_add(1, Ordering::SeqCst);
            peer.read_command()?;
            peer.send("-LOADING Redis is loading the dataset in memory\r\n")
        }
        _ => serve(peer, &[(&["PING"], "+PONG\r\n")]).and_then(|()| peer.expect_end()),
    });
    let config = Config::from_url(&server.url())?;
    let policy = Reconnect::backoff().attempts(3).first_delay(Duration::ZERO).max_delay(Duration::ZERO);
    let conn = Connection::open(config.reconnect(policy).idle_check(Duration::ZERO))?;
    conn.command::<()>("PING", ()).wait()?;
    // The end of the first connection may be seen only by the write of a PING, which is lost then.
    let mut pings = 0;
    while conn.command::<()>("PING", ()).wait().is_err() {
        pings += 1;
        assert!(pings < 100);
    }
    assert_eq!(refusals.load(Ordering::SeqCst), 5);
    // Three attempts for the first of them, one for each of the next two, and perhaps one that found the end by writing.
    assert!((3..=4).contains(&pings), "{pings}");
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn credentials_are_asked_for_each_time() -> Result<()> {
    let (server, config) = config();
    let other = Connection::open(server.url())?;
    let rules = |password: &str| AclRules::new().on().reset_passwords().password(password).all_keys().all_commands();
    other.acl_setuser("ada", rules("hunter-1")).wait()?;
    let (password, asked) = (Arc::new(Mutex::new("hunter-1")), Arc::new(AtomicUsize::new(0)));
    let (current, count) = (Arc::clone(&password), Arc::clone(&asked));
    let config = config.idle_check(Duration::ZERO).credentials(move || {
        count.fetch_add(1, Ordering::SeqCst);
        Ok(Credentials::new("ada", *current.lock().unwrap()))
    });
    assert!(!format!("{config:?}").contains("hunter-1"));
    let conn = Connection::open(config.clone())?;
    assert_eq!(conn.command::<String>("ACL WHOAMI", ()).wait()?, "ada");
    other.acl_setuser("ada", rules("hunter-2")).wait()?;
    *password.lock().unwrap() = "hunter-2";
    kill_others(&other);
    assert_eq!(conn.command::<String>("ACL WHOAMI", ()).wait()?, "ada");
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    // From an AUTH on, its user and password count.
    other.acl_setuser("bob", rules("three")).wait()?;
    conn.auth("bob", "three").wait()?;
    kill_others(&other);
    assert_eq!(conn.command::<String>("ACL WHOAMI", ()).wait()?, "bob");
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    // An error of the function is that of the attempt.
    let failing = config.credentials(|| Err(Error::custom("the vault is locked")));
    let error = Connection::open(failing).expect_err("there are no credentials");
    assert!(error.to_string().contains("the vault is locked"), "{error}");
    Ok(())
}

#[test]
fn a_wrong_password_is_not_tried_again() -> Result<()> {
    let (opener, closed) = gate();
    let server = Scripted::start(move |peer| match peer.number() {
        0 => serve(peer, &[(&["PING"], "")]).and_then(|()| close(peer, &opener)),
        _ => {
            peer.read_command()?;
            peer.send("-WRONGPASS invalid username-password pair or user is disabled.\r\n")
        }
    });
    let config = Config::from_url(&server.url())?.password("secret").send_when(SendWhen::Gathering);
    let policy = Reconnect::backoff().attempts(20).max_delay(Duration::from_secs(3600));
    let conn = Connection::open(config.reconnect(policy))?;
    conn.command::<()>("PING", ()).detach();
    conn.flush()?;
    closed.wait();
    let kept = conn.set("key", "value");
    let error = kept.wait().expect_err("nobody lets it in");
    let Error::ConnectionLost(loss) = &error else { panic!("{error}") };
    assert_eq!(loss.sent(), Sent::Unsent);
    assert!(matches!(loss.cause(), Error::Server(error) if error.code() == Some("WRONGPASS")), "{error}");
    assert_eq!(server.accepted(), 2);
    assert!(!format!("{error:?}").contains("secret"));
    Ok(())
}

#[test]
fn the_deadline_of_a_wait_covers_the_dialing() -> Result<()> {
    let (opener, closed) = gate();
    let (ended, end) = gate();
    let server = Scripted::start(move |peer| match peer.number() {
        0 => serve(peer, &[(&["PING"], "")]).and_then(|()| close(peer, &ended)),
        // Accepts, and does not answer.
        1 => {
            closed.wait();
            Ok(())
        }
        _ => serve(peer, &[(&["INCR", "n"], ":1\r\n")]).and_then(|()| peer.expect_end()),
    });
    let conn = connect(&server);
    conn.command::<()>("PING", ()).detach();
    conn.flush()?;
    end.wait();
    let n = conn.incr("n");
    let Err(WaitError::Timeout(n)) = n.wait_timeout(Duration::from_millis(50)) else { panic!("no timeout") };
    opener.open();
    assert_eq!(n.wait()?, 1);
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn is_ready_makes_progress_over_a_break() -> Result<()> {
    let (opener, closed) = gate();
    let server = Scripted::start(move |peer| match peer.number() {
        0 => serve(peer, &[(&["INCR", "a"], "")]).and_then(|()| close(peer, &opener)),
        _ => serve(peer, &[(&["INCR", "b"], ":2\r\n")]).and_then(|()| peer.expect_end()),
    });
    let conn = connect(&server);
    let a = conn.incr("a");
    conn.flush()?;
    closed.wait();
    let b = conn.incr("b");
    while !b.is_ready()? {}
    assert!(a.is_ready()?);
    assert_eq!(b.wait()?, 2);
    assert_eq!(lost(a.wait()), Sent::Fully);
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn a_batch_goes_on_over_a_break_and_says_what_was_lost() -> Result<()> {
    let (opener, closed) = gate();
    let server = Scripted::start(move |peer| match peer.number() {
        0 => serve(peer, &[(&["INCR", "a"], "")]).and_then(|()| close(peer, &opener)),
        _ => serve(peer, &[(&["INCR", "b"], ":2\r\n")]).and_then(|()| peer.expect_end()),
    });
    let conn = connect(&server);
    let batch = conn.batch();
    batch.incr("a");
    conn.flush()?;
    closed.wait();
    let b = batch.incr("b");
    let Err(Error::Batch(error)) = batch.finish() else { panic!("something was lost") };
    assert_eq!((error.position(), error.failed()), (0, 1));
    assert_eq!(lost::<()>(Err(error.first().clone())), Sent::Fully);
    assert_eq!(b.wait()?, 2);
    conn.sync()?;
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn many_breaks_lose_no_more_than_was_on_the_way() -> Result<()> {
    let server = Scripted::start(|peer| {
        peer.handshake()?;
        // Answers one, and takes another one with it.
        let command = peer.read_command()?;
        peer.send(support::scripted::bulk(&command[1]))?;
        let _ = peer.read_command();
        Ok(())
    });
    let conn = connect(&server);
    let mut held = Vec::new();
    for n in 0..300 {
        let (kept, taken) = (conn.get::<u64>(2 * n), conn.get::<u64>(2 * n + 1));
        assert_eq!(kept.wait()?, 2 * n);
        held.push(taken);
        // The break is found here.
        conn.flush()?;
        let _ = held.last().map(|taken| taken.is_ready());
        while !held.last().expect("one was pushed").is_ready()? {}
    }
    for taken in held {
        assert_eq!(lost(taken.wait()), Sent::Fully);
    }
    assert!(conn.stats().reconnects >= 299);
    Ok(())
}

#[test]
fn tracking_is_refused_where_a_gap_would_go_unnoticed() -> Result<()> {
    let (_server, config) = config();
    let conn = Connection::open(config.clone())?;
    assert!(matches!(conn.client_tracking(true).wait(), Err(Error::Refused(_))));
    assert!(matches!(conn.command::<()>("client", ("tracking", "on")).wait(), Err(Error::Refused(_))));
    conn.client_tracking(false).wait()?;
    let tx = conn.transaction();
    let name = tx.client_setname("me");
    assert!(matches!(name.wait(), Err(Error::Refused(_))));
    drop(tx);
    let plain = Connection::open(config.reconnect(Reconnect::never()))?;
    if plain.protocol() == redefer::Protocol::Resp3 {
        plain.client_tracking(true).wait()?;
    }
    Ok(())
}

#[test]
fn dropping_the_connection_sends_what_was_kept() -> Result<()> {
    let (opener, closed) = gate();
    let server = Scripted::start(move |peer| match peer.number() {
        0 => serve(peer, &[(&["INCR", "a"], "")]).and_then(|()| close(peer, &opener)),
        _ => serve(peer, &[(&["SET", "b", "1"], "+OK\r\n")]).and_then(|()| peer.expect_end()),
    });
    let conn = connect(&server);
    let a = conn.incr("a");
    conn.flush()?;
    closed.wait();
    conn.set("b", 1).detach();
    assert_eq!(lost(a.wait()), Sent::Fully);
    drop(conn);
    assert_eq!(server.accepted(), 2);
    server.finish();
    Ok(())
}

#[test]
fn a_lost_command_between_kept_ones_does_not_take_the_reply_behind_it() -> Result<()> {
    let server = Scripted::start(move |peer| match peer.number() {
        0 => {
            peer.handshake()?;
            peer.read_commands(3)?;
            Ok(())
        }
        _ => serve(peer, &[(&["GET", "a"], "$1\r\nA\r\n"), (&["GET", "c"], "$1\r\nC\r\n")])
            .and_then(|()| peer.expect_end()),
    });
    let conn = connect(&server);
    let safe = conn.idempotent();
    let a = safe.get::<String>("a");
    let b = conn.getdel::<String>("b");
    let c = safe.get::<String>("c");
    assert_eq!(lost(b.wait()), Sent::Fully);
    assert_eq!(a.wait()?, "A");
    assert_eq!(c.wait()?, "C");
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn a_lost_value_between_kept_ones_is_not_copied_from_the_reply_behind_it() -> Result<()> {
    let server = Scripted::start(move |peer| match peer.number() {
        0 => {
            peer.handshake()?;
            peer.read_commands(3)?;
            Ok(())
        }
        _ => serve(peer, &[(&["GET", "a"], "$1\r\nA\r\n"), (&["GET", "c"], "$1\r\nC\r\n")])
            .and_then(|()| peer.expect_end()),
    });
    let conn = connect(&server);
    let safe = conn.idempotent();
    let a = safe.get::<String>("a");
    let b = conn.getdel::<String>("b");
    let c = safe.get::<String>("c");
    let mut to = Vec::new();
    assert_eq!(lost(b.copy_to(&mut to)), Sent::Fully);
    assert_eq!(a.wait()?, "A");
    assert_eq!(c.wait()?, "C");
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn a_lost_multi_bulk_between_kept_ones_does_not_take_the_reply_behind_it() -> Result<()> {
    let server = Scripted::start(move |peer| match peer.number() {
        0 => {
            peer.handshake()?;
            peer.read_commands(3)?;
            Ok(())
        }
        _ => serve(peer, &[(&["GET", "a"], "$1\r\nA\r\n"), (&["MGET", "c"], "*1\r\n$1\r\nC\r\n")])
            .and_then(|()| peer.expect_end()),
    });
    let conn = connect(&server);
    let safe = conn.idempotent();
    let a = safe.get::<String>("a");
    let b = conn.spop_count::<String>("b", 3);
    let c = safe.mget::<String>(["c"]);
    assert_eq!(lost(b.wait::<Vec<_>>()), Sent::Fully);
    assert_eq!(a.wait()?, "A");
    assert_eq!(c.wait::<Vec<_>>()?, ["C"]);
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn an_idempotent_command_that_was_lost_while_it_was_issued_is_not_sent_later() -> Result<()> {
    let (opener, closed) = gate();
    let server = Scripted::start(move |peer| match peer.number() {
        0 => {
            peer.handshake()?;
            peer.expect(["GET", "a"])?;
            peer.expect(["SELECT", "1"])?;
            close(peer, &opener)
        }
        1 => {
            peer.handshake()?;
            peer.expect(["GET", "a"])?;
            // Counts as a connection that works.
            peer.send("$1")?;
            Ok(())
        }
        _ => serve(peer, &[(&["GET", "a"], "$1\r\nA\r\n"), (&["GET", "d"], "$1\r\nD\r\n")])
            .and_then(|()| peer.expect_end()),
    });
    let conn = Connection::open(gathering(&server).send_when(SendWhen::Eager))?;
    let safe = conn.idempotent();
    let a = safe.get::<String>("a");
    let b = conn.select(1);
    closed.wait();
    let c = safe.get::<String>("c");
    assert_eq!(a.wait()?, "A");
    assert_eq!(conn.get::<String>("d").wait()?, "D");
    assert_eq!(lost(b.wait()), Sent::Fully);
    let _ = lost(c.wait());
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn a_change_that_was_lost_while_it_was_issued_does_not_hide_those_behind_it() -> Result<()> {
    let (opener, closed) = gate();
    let (second, again) = gate();
    let server = Scripted::start(move |peer| match peer.number() {
        0 => {
            peer.handshake()?;
            peer.expect(["SELECT", "1"])?;
            close(peer, &opener)
        }
        1 => {
            serve(peer, &[(&["SELECT", "3"], "+OK\r\n")])?;
            close(peer, &second)
        }
        _ => {
            let shaken = peer.handshake()?;
            assert!(shaken.iter().any(|c| c[0] == b"SELECT" && c[1] == b"3"), "no SELECT 3 in the handshake");
            peer.expect(["PING"])?;
            peer.send("+PONG\r\n")?;
            peer.expect_end()
        }
    });
    let conn = Connection::open(gathering(&server).send_when(SendWhen::Eager))?;
    let one = conn.select(1);
    closed.wait();
    let two = conn.select(2);
    assert_eq!(lost(one.wait()), Sent::Fully);
    assert_eq!(lost(two.wait()), Sent::Unsent);
    conn.select(3).wait()?;
    assert_eq!(conn.database(), 3);
    again.wait();
    let _ = conn.ping().wait();
    let _ = conn.ping().wait();
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn a_watched_commit_that_meets_the_break_while_it_makes_room_is_not_sent() -> Result<()> {
    let server = Scripted::start(move |peer| match peer.number() {
        0 => {
            serve(peer, &[(&["WATCH", "x"], "+OK\r\n")])?;
            peer.read_commands(3)?;
            Ok(())
        }
        _ => serve(peer, &[(&["PING"], "+PONG\r\n")]).and_then(|()| peer.expect_end()),
    });
    let conn = Connection::open(gathering(&server).max_outstanding(4))?;
    let watch = conn.watch(["x"])?;
    for _ in 0..3 {
        conn.get::<String>("y").detach();
    }
    let tx = watch.transaction();
    tx.incr("x").detach();
    let commit = tx.commit();
    conn.ping().wait()?;
    assert!(matches!(commit.wait(), Err(Error::Aborted)));
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn a_later_break_does_not_make_a_lost_command_unsent() -> Result<()> {
    let server = Scripted::start(move |peer| match peer.number() {
        0 => {
            peer.handshake()?;
            peer.read_commands(2)?;
            Ok(())
        }
        _ => Ok(()),
    });
    let conn = connect(&server);
    let a = conn.idempotent().get::<String>("a");
    let b = conn.incr("b");
    let _ = lost(a.wait());
    assert_eq!(lost(b.wait()), Sent::Fully, "the server has read it");
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn a_server_that_closes_at_once_is_dialled_as_often_as_the_policy_says() {
    let server = Scripted::unix(move |_| Ok(()));
    let config = gathering(&server).reconnect(again().attempts(3)).connect_timeout(Duration::from_millis(500));
    for _ in 0..20 {
        assert!(Connection::open(config.clone()).is_err());
    }
    assert!(server.accepted() <= 20, "{} connections for 20 calls of open", server.accepted());
}

#[test]
fn the_reason_of_a_server_that_is_full_is_told_even_if_nothing_can_be_written() {
    let server = Scripted::unix(move |peer| peer.send("-ERR max number of clients reached\r\n"));
    for _ in 0..20 {
        match Connection::open(gathering(&server).connect_timeout(Duration::from_secs(2))) {
            Err(Error::Server(error)) => assert!(error.to_string().contains("max number"), "{error}"),
            other => panic!("{:?}", other.map(drop)),
        }
    }
}

#[test]
fn a_server_that_closes_behind_the_handshake_is_given_up_without_delays_too() {
    let server = Scripted::unix(move |peer| peer.handshake().map(drop));
    let policy = Reconnect::backoff().attempts(5).first_delay(Duration::ZERO).max_delay(Duration::ZERO);
    let config = gathering(&server).reconnect(policy).timeout(None);
    within(Duration::from_secs(5), move || {
        let conn = Connection::open(config).unwrap();
        for _ in 0..100 {
            let outcome = conn.incr("n").wait();
            lost(outcome);
        }
        assert!(server.accepted() < 1000, "{}", server.accepted());
    });
}

#[test]
fn a_connection_that_was_never_used_is_made_again_at_once() -> Result<()> {
    let (opener, closed) = gate();
    let server = Scripted::start(move |peer| match peer.number() {
        0 => {
            peer.handshake()?;
            close(peer, &opener)
        }
        _ => serve(peer, &[(&["INCR", "n"], ":1\r\n")]).and_then(|()| peer.expect_end()),
    });
    let policy = Reconnect::backoff().attempts(1);
    let conn = Connection::open(gathering(&server).reconnect(policy).idle_check(Duration::ZERO))?;
    closed.wait();
    assert_eq!(conn.incr("n").wait()?, 1);
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn what_comes_unasked_behind_the_handshake_is_not_the_reply_of_a_kept_command() -> Result<()> {
    let (opener, closed) = gate();
    let server = Scripted::start(move |peer| match peer.number() {
        0 => {
            peer.handshake()?;
            close(peer, &opener)
        }
        1 => {
            // All of it in one write, and one reply too many.
            for _ in 0..3 {
                peer.read_command()?;
            }
            peer.send(format!("{}+OK\r\n+OK\r\n:99\r\n", support::scripted::HELLO_REPLY))
        }
        _ => serve(peer, &[(&["INCR", "n"], ":1\r\n")]).and_then(|()| peer.expect_end()),
    });
    let conn = Connection::open(gathering(&server).idle_check(Duration::ZERO))?;
    closed.wait();
    let n = conn.incr("n");
    assert_eq!(n.wait()?, 1);
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn a_multi_bulk_with_a_malformed_element_was_sent() -> Result<()> {
    for policy in [Reconnect::never(), again()] {
        let server = Scripted::start(move |peer| {
            peer.handshake()?;
            peer.expect(["SPOP", "s", "3"])?;
            peer.send("*3\r\n$1\r\na\r\n?\r\n")?;
            peer.read_to_end().map(drop)
        });
        let conn = Connection::open(gathering(&server).reconnect(policy))?;
        let mut items = conn.spop_count::<String>("s", 3);
        assert_eq!(items.next().unwrap()?, "a");
        assert_eq!(lost(items.next().unwrap()), Sent::Fully);
        drop(items);
        drop(conn);
    }
    Ok(())
}

#[test]
fn a_value_that_is_copied_and_malformed_was_sent() -> Result<()> {
    let server = Scripted::start(move |peer| {
        peer.handshake()?;
        peer.expect(["GETDEL", "s"])?;
        peer.send("$3\r\nabcdef\r\n")?;
        peer.read_to_end().map(drop)
    });
    let conn = Connection::open(gathering(&server).reconnect(Reconnect::never()))?;
    let mut to = Vec::new();
    assert_eq!(lost(conn.getdel::<String>("s").copy_to(&mut to)), Sent::Fully);
    drop(conn);
    Ok(())
}

#[test]
fn an_auth_that_was_sent_and_lost_is_not_unsent() -> Result<()> {
    for policy in [Reconnect::never(), again()] {
        let server = Scripted::start(move |peer| {
            peer.handshake()?;
            peer.expect(["AUTH", "secret"])?;
            Ok(())
        });
        let conn = Connection::open(gathering(&server).reconnect(policy))?;
        assert_eq!(lost(conn.command::<()>("AUTH", "secret").wait()), Sent::Fully);
        drop(conn);
    }
    Ok(())
}

#[test]
fn a_batch_that_was_sent_and_lost_is_not_unsent() -> Result<()> {
    for policy in [Reconnect::never(), again()] {
        let server = Scripted::start(move |peer| {
            peer.handshake()?;
            peer.expect(["INCR", "n"])?;
            Ok(())
        });
        let conn = Connection::open(gathering(&server).reconnect(policy))?;
        let batch = conn.batch();
        let n = batch.incr("n");
        match batch.finish() {
            Ok(()) => {}
            Err(Error::ConnectionLost(lost)) => assert_ne!(lost.sent(), Sent::Unsent),
            Err(other) => panic!("{other:?}"),
        }
        assert_eq!(lost(n.wait()), Sent::Fully);
        drop(conn);
    }
    Ok(())
}

#[test]
fn an_auth_that_is_acknowledged_late_is_followed() -> Result<()> {
    let (opener, gate_) = gate();
    let server = Scripted::start(move |peer| match peer.number() {
        0 => {
            peer.handshake()?;
            peer.expect(["AUTH", "ada", "secret"])?;
            gate_.wait();
            peer.send("+OK\r\n")?;
            peer.expect(["PING"])?;
            peer.send("+PONG\r\n")?;
            Ok(())
        }
        _ => {
            let shaken = peer.handshake()?;
            assert!(shaken[0].contains(&b"ada".to_vec()), "restored as somebody else");
            peer.expect(["PING"])?;
            peer.send("+PONG\r\n")
        }
    });
    let conn = Connection::open(gathering(&server).timeout(Duration::from_millis(50)))?;
    assert!(matches!(conn.auth("ada", "secret").wait(), Err(Error::Timeout)));
    opener.open();
    conn.ping().wait()?;
    let _ = conn.ping().wait();
    let _ = conn.ping().wait();
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn a_watch_given_up_while_down_is_unwatched() -> Result<()> {
    let (opener, closed) = gate();
    let (opener2, let_in) = gate();
    let server = Scripted::start(move |peer| match peer.number() {
        0 => {
            peer.handshake()?;
            close(peer, &opener)
        }
        1 => {
            let_in.wait();
            Ok(())
        }
        _ => {
            peer.handshake()?;
            let first = peer.read_command()?;
            if first[0] == b"WATCH" {
                peer.expect(["UNWATCH"])?;
                peer.expect(["PING"])?;
                peer.send("+OK\r\n+OK\r\n+PONG\r\n")
            } else {
                peer.send("+PONG\r\n")
            }
        }
    });
    let conn = Connection::open(gathering(&server).idle_check(Duration::ZERO).timeout(Duration::from_millis(100)))?;
    closed.wait();
    assert!(conn.watch(["x"]).is_err());
    opener2.open();
    let mut outcome = conn.ping().wait();
    for _ in 0..5 {
        if outcome.is_ok() {
            break;
        }
        outcome = conn.ping().wait();
    }
    outcome?;
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn a_kept_command_is_not_ready() -> Result<()> {
    let (opener, closed) = gate();
    let (opener2, go) = gate();
    let server = Scripted::start(move |peer| match peer.number() {
        0 => {
            peer.handshake()?;
            peer.read_commands(3)?;
            close(peer, &opener)
        }
        _ => {
            peer.handshake()?;
            peer.read_commands(2)?;
            go.wait();
            peer.send("$1\r\nA\r\n$1\r\nC\r\n")?;
            peer.expect_end()
        }
    });
    let conn = connect(&server);
    let safe = conn.idempotent();
    let (a, b, c) = (safe.get::<String>("a"), conn.incr("b"), safe.get::<String>("c"));
    conn.flush()?;
    closed.wait();
    for _ in 0..3 {
        assert!(!a.is_ready()?);
        assert!(!c.is_ready()?);
    }
    opener2.open();
    assert_eq!(lost(b.wait()), Sent::Fully);
    assert_eq!((a.wait()?, c.wait()?), ("A".into(), "C".into()));
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn commands_gather_while_there_is_no_connection_and_the_wait_dials() -> Result<()> {
    let server = support::server();
    let config = support::config(&server).reconnect(again().attempts(2)).idle_check(Duration::ZERO);
    let conn = Connection::open(config)?;
    conn.set("key", "value").wait()?;
    server.kill();
    // The break is found, and the two attempts fail; then nothing is tried before somebody waits.
    assert!(conn.set("key", "value").wait().is_err());
    server.restart()?;
    let before = conn.stats();
    let kept: Vec<_> = (0..100).map(|_| conn.incr("n")).collect();
    conn.set("detached", 1).detach();
    let batch = conn.batch();
    batch.set("batch", 1);
    assert_eq!((conn.stats().reconnects, conn.stats().bytes_written), (before.reconnects, before.bytes_written));
    batch.finish()?;
    for (n, reply) in kept.into_iter().enumerate() {
        assert_eq!(reply.wait()?, n as i64 + 1);
    }
    assert_eq!(conn.stats().reconnects, before.reconnects + 1);
    assert_eq!(conn.exists(["detached", "batch"]).wait()?, 2);
    Ok(())
}

#[test]
fn a_wait_whose_time_is_over_while_dialing_says_that_nothing_was_sent() -> Result<()> {
    let (opener, closed) = gate();
    let (ended, end) = gate();
    let server = Scripted::start(move |peer| match peer.number() {
        0 => serve(peer, &[(&["PING"], "+PONG\r\n")]).and_then(|()| close(peer, &ended)),
        // Accepts, and does not answer until it is let go.
        1 => {
            closed.wait();
            Ok(())
        }
        _ => serve(peer, &[(&["PING"], "+PONG\r\n")]).and_then(|()| peer.expect_end()),
    });
    let config = Config::from_url(&server.url())?.reconnect(again()).timeout(Duration::from_millis(50));
    let conn = Connection::open(config.idle_check(Duration::ZERO))?;
    conn.command::<()>("PING", ()).wait()?;
    end.wait();
    let (first, second) = (conn.incr("n"), conn.incr("n"));
    let error = first.wait().expect_err("nobody answers");
    assert!(error.is_connection_lost() && !error.may_have_run(), "{error}");
    // It has gone with the first.
    assert_eq!(lost(second.wait()), Sent::Unsent);
    assert_eq!(conn.outstanding(), 0);
    opener.open();
    // The other one gives its handle back.
    let ping = conn.command::<()>("PING", ());
    ping.wait_timeout(Duration::from_secs(20)).map_err(|_| Error::Timeout)?;
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn a_password_that_is_asked_for_may_be_right_the_next_time() -> Result<()> {
    let server = Scripted::start(|peer| match peer.number() {
        0 => serve(peer, &[(&["PING"], "+PONG\r\n")]),
        1 => {
            peer.read_command()?;
            peer.send("-WRONGPASS invalid username-password pair or user is disabled.\r\n")
        }
        _ => serve(peer, &[(&["PING"], "+PONG\r\n")]).and_then(|()| peer.expect_end()),
    });
    let config = Config::from_url(&server.url())?.reconnect(again()).idle_check(Duration::ZERO);
    let conn = Connection::open(config.credentials(|| Ok(Credentials::password("secret"))))?;
    conn.command::<()>("PING", ()).wait()?;
    while conn.idempotent().command::<()>("PING", ()).wait().is_err() {}
    assert_eq!(server.accepted(), 3);
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn a_watched_commit_on_a_connection_that_is_broken_for_good_says_so() -> Result<()> {
    let server = support::server();
    let conn = Connection::open(support::config(&server))?;
    let watch = conn.watch(["key"])?;
    server.kill();
    assert!(conn.get::<Option<String>>("key").wait().is_err());
    let tx = watch.transaction();
    let n = tx.incr("key");
    assert_eq!(lost(tx.commit().wait()), Sent::Unsent);
    assert_eq!(lost(n.wait()), Sent::Unsent);
    Ok(())
}

#[test]
fn transact_begins_again_when_the_connection_was_lost_before_it_ran() -> Result<()> {
    let (server, config) = config();
    let conn = Connection::open(config)?;
    conn.set("x", 20).wait()?;
    let mut runs = 0;
    server.restart()?;
    conn.transact(["x"], |conn, tx| {
        runs += 1;
        if runs == 1 {
            server.restart()?;
        }
        let x: Option<i64> = conn.idempotent().get("x").wait()?;
        assert_eq!(x, None, "this server keeps nothing");
        Ok(tx.set("x", 1))
    })?;
    assert_eq!((runs, conn.get::<i64>("x").wait()?), (2, 1));
    Ok(())
}

#[test]
fn a_command_that_makes_room_over_the_loss_of_a_select_is_lost_with_it() -> Result<()> {
    let server = Scripted::start(|peer| match peer.number() {
        0 => serve(peer, &[(&["SELECT", "11"], "")]),
        _ => serve(peer, &[(&["PING"], "+PONG\r\n")]).and_then(|()| peer.expect_end()),
    });
    let config = Config::from_url(&server.url())?.reconnect(again()).max_outstanding(1);
    let conn = Connection::open(config)?;
    let select = conn.select(11);
    // Must be read before there is room, and that is when the break is met.
    let set = conn.set("key", "value");
    assert_eq!(lost(set.wait()), Sent::Unsent);
    assert_eq!(lost(select.wait()), Sent::Fully);
    conn.command::<()>("PING", ()).wait()?;
    drop(conn);
    server.finish();
    Ok(())
}
