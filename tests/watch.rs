//! WATCH as a guard, and the loop of WATCH, MULTI and EXEC.

#![cfg(feature = "testing")]

mod support;

use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use redefer::{Error, Result, prelude::*};
use support::scripted::{Peer, Scripted, gate};

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

/// What is left watched shows when somebody else changes the key: the next transaction would be aborted.
fn assert_not_watched(conn: &Connection, other: &Connection, key: &str) -> Result<()> {
    // The UNWATCH has gone out and has been answered before the key changes.
    conn.ping().wait()?;
    other.append(key, "changed").wait()?;
    let tx = conn.transaction();
    let number = tx.incr("not watched");
    tx.commit().wait()?;
    number.wait().map(drop)
}

#[test]
fn a_watched_transaction_runs_when_no_key_has_changed() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set("balance", 10).wait()?;
    let watch = conn.watch(["balance", "other"])?;
    let balance: i64 = conn.get("balance").wait()?;
    let tx = watch.transaction();
    let new = tx.incrby("balance", balance);
    tx.commit().wait()?;
    assert_eq!(new.wait()?, 20);
    Ok(())
}

#[test]
fn a_change_by_another_connection_aborts_and_nothing_runs() -> Result<()> {
    let server = support::server();
    let (conn, other) = (support::open(&server), support::open(&server));
    let watch = conn.watch("k")?;
    other.set("k", "theirs").wait()?;
    let tx = watch.transaction();
    let set = tx.set("k", "mine");
    let list = tx.lrange::<String>("list", 0, -1);
    let number = tx.incr("n");
    let commit = tx.commit();
    let behind = conn.get::<String>("k");
    assert!(matches!(number.wait(), Err(Error::Aborted)));
    assert!(matches!(list.wait::<Vec<_>>(), Err(Error::Aborted)));
    assert!(matches!(commit.wait(), Err(Error::Aborted)));
    drop(set);
    assert_eq!(behind.wait()?, "theirs");
    assert_eq!(conn.exists("n").wait()?, 0);
    conn.sync()
}

#[test]
fn a_change_by_the_same_connection_aborts_too() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let watch = conn.watch("k")?;
    conn.set("k", "own").wait()?;
    let tx = watch.transaction();
    tx.incr("n");
    assert!(matches!(tx.commit().wait(), Err(Error::Aborted)));
    Ok(())
}

#[test]
fn an_aborted_transaction_leaves_nothing_watched() -> Result<()> {
    let server = support::server();
    let (conn, other) = (support::open(&server), support::open(&server));
    let watch = conn.watch(["a", "b"])?;
    other.set("a", 1).wait()?;
    let tx = watch.transaction();
    tx.incr("n");
    assert!(matches!(tx.commit().wait(), Err(Error::Aborted)));
    assert_not_watched(&conn, &other, "b")
}

#[test]
fn a_dropped_watch_is_ended_on_the_server() -> Result<()> {
    let server = support::server();
    let (conn, other) = (support::open(&server), support::open(&server));
    drop(conn.watch("k")?);
    assert_not_watched(&conn, &other, "k")?;
    conn.sync()
}

#[test]
fn a_watched_transaction_given_up_ends_the_watch() -> Result<()> {
    let server = support::server();
    let (conn, other) = (support::open(&server), support::open(&server));
    let tx = conn.watch("k")?.transaction();
    let number = tx.incr("n");
    drop(tx);
    assert!(matches!(number.wait(), Err(Error::NotCommitted)));
    assert_not_watched(&conn, &other, "k")?;
    let tx = conn.watch("k")?.transaction();
    tx.incr("n");
    tx.discard();
    assert_not_watched(&conn, &other, "k")?;
    assert_eq!(conn.exists("n").wait()?, 0);
    Ok(())
}

#[test]
fn a_dropped_watch_sends_unwatch_without_waiting() -> Result<()> {
    let (server, config) = scripted(|peer| {
        peer.expect(["WATCH", "a", "b"])?;
        peer.send("+OK\r\n")?;
        // Not answered before the next command is here: the drop has not waited.
        peer.expect(["UNWATCH"])?;
        peer.expect(["PING"])?;
        peer.send("+OK\r\n+PONG\r\n")?;
        peer.expect_end()
    });
    let conn = Connection::open(config)?;
    drop(conn.watch(("a", "b"))?);
    conn.ping().wait()?;
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn a_watch_dropped_by_a_panic_does_no_io_and_does_not_guard_a_later_transaction() -> Result<()> {
    let server = support::server();
    let (conn, other) = (support::open(&server), support::open(&server));
    let written = Cell::new(0);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _watch = conn.watch("k").expect("it is watched");
        written.set(conn.stats().bytes_written);
        panic!("on purpose");
    }));
    assert!(panicked.is_err());
    assert_eq!(conn.stats().bytes_written, written.get());
    assert_not_watched(&conn, &other, "k")?;
    conn.sync()
}

#[test]
fn a_watched_transaction_dropped_by_a_panic_does_no_io_either() -> Result<()> {
    let server = support::server();
    let (conn, other) = (support::open(&server), support::open(&server));
    let written = Cell::new(0);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let tx = conn.watch("k").expect("it is watched").transaction();
        let _number = tx.incr("n");
        written.set(conn.stats().bytes_written);
        panic!("on purpose");
    }));
    assert!(panicked.is_err());
    assert_eq!(conn.stats().bytes_written, written.get());
    assert_not_watched(&conn, &other, "k")
}

#[test]
fn a_second_watch_is_refused_while_the_first_is_held() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let watch = conn.watch("a")?;
    let commands = conn.stats().commands;
    assert!(matches!(conn.watch("b"), Err(Error::Refused(_))));
    assert!(matches!(conn.transact("b", |_, tx| Ok(tx.incr("n"))), Err(Error::Refused(_))));
    assert_eq!(conn.stats().commands, commands, "nothing was sent");
    let tx = watch.transaction();
    assert!(matches!(conn.watch("b"), Err(Error::Refused(_))), "the transaction holds it now");
    let number = tx.incr("n");
    tx.commit().wait()?;
    assert_eq!(number.wait()?, 1);
    drop(conn.watch("b")?);
    Ok(())
}

#[test]
fn an_unwatched_transaction_is_refused_while_a_watch_is_held_and_nothing_runs() -> Result<()> {
    let server = support::server();
    let (conn, other) = (support::open(&server), support::open(&server));
    let unwatched = conn.transaction();
    let refused = unwatched.incr("n");
    let watch = conn.watch("k")?;
    let commands = conn.stats().commands;
    assert!(matches!(unwatched.commit().wait(), Err(Error::Refused(_))));
    assert!(matches!(refused.wait(), Err(Error::Refused(_))));
    let also_refused = conn.transaction();
    also_refused.incr("n");
    drop(also_refused.commit());
    assert!(matches!(conn.sync(), Err(Error::Refused(_))), "of the commit that was dropped");
    assert_eq!(conn.stats().commands, commands, "nothing was sent");
    // The watch still guards.
    other.set("k", "theirs").wait()?;
    let tx = watch.transaction();
    tx.incr("n");
    assert!(matches!(tx.commit().wait(), Err(Error::Aborted)));
    assert_eq!(conn.exists("n").wait()?, 0);
    let tx = conn.transaction();
    let number = tx.incr("n");
    tx.commit().wait()?;
    assert_eq!(number.wait()?, 1);
    Ok(())
}

#[test]
fn watch_without_keys_is_refused_without_io() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    assert!(matches!(conn.watch(Vec::<String>::new()), Err(Error::Argument(_))));
    assert!(matches!(conn.transact((), |_, tx| Ok(tx.incr("n"))), Err(Error::Argument(_))));
    assert_eq!(conn.stats().bytes_written, 0);
    Ok(())
}

#[test]
fn a_watch_that_the_server_refuses_is_an_error_and_guards_nothing() -> Result<()> {
    let server = support::server_with([("user", "nowatch on >secret ~* &* +@all -watch")]);
    let conn = Connection::open(support::config(&server).user("nowatch").password("secret"))?;
    let earlier = conn.ping_message::<String>("earlier");
    for _ in 0..2 {
        assert_eq!(conn.watch("k").map(drop).unwrap_err().code(), Some("NOPERM"));
    }
    assert_eq!(conn.transact("k", |_, tx| Ok(tx.incr("n"))).unwrap_err().code(), Some("NOPERM"));
    assert_eq!(earlier.wait()?, "earlier");
    let tx = conn.transaction();
    let number = tx.incr("n");
    tx.commit().wait()?;
    assert_eq!(number.wait()?, 1, "no watch is held");
    Ok(())
}

#[test]
fn a_watch_that_times_out_is_ended_before_anything_else_is_sent() -> Result<()> {
    let (opener, answer) = gate();
    let (server, config) = scripted(move |peer| {
        peer.expect(["WATCH", "k"])?;
        answer.wait();
        peer.send("+OK\r\n")?;
        peer.expect(["UNWATCH"])?;
        peer.send("+OK\r\n")?;
        peer.expect_bytes(support::scripted::array(["MULTI"]))?;
        peer.expect(["INCR", "n"])?;
        peer.expect(["EXEC"])?;
        peer.send("+OK\r\n+QUEUED\r\n*1\r\n:1\r\n")?;
        peer.expect_end()
    });
    let conn = Connection::open(config.timeout(Duration::from_millis(20)))?;
    assert!(matches!(conn.watch("k"), Err(Error::Timeout)));
    let tx = conn.transaction();
    let number = tx.incr("n");
    let commit = tx.commit();
    opener.open();
    commit.wait_timeout(LONG)?;
    assert_eq!(number.wait_timeout(LONG)?, 1);
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn a_watched_commit_that_could_not_be_sent_ends_the_watch() -> Result<()> {
    let (opener, answer) = gate();
    let (server, config) = scripted(move |peer| {
        peer.expect(["WATCH", "k"])?;
        peer.send("+OK\r\n")?;
        peer.expect(["GET", "slow"])?;
        answer.wait();
        peer.send("$-1\r\n")?;
        // The server does not forget the keys by itself.
        peer.expect(["UNWATCH"])?;
        peer.send("+OK\r\n")?;
        peer.expect(["MULTI"])?;
        peer.expect(["INCR", "n"])?;
        peer.expect(["EXEC"])?;
        peer.send("+OK\r\n+QUEUED\r\n*1\r\n:1\r\n")?;
        peer.expect_end()
    });
    let conn = Connection::open(config.timeout(Duration::from_millis(300)).max_outstanding(6))?;
    let watch = conn.watch("k")?;
    conn.get::<Option<String>>("slow").detach();
    conn.flush()?;
    let tx = watch.transaction();
    for _ in 0..20 {
        tx.incr("n");
    }
    // There is no room for so much before the GET is answered, and that takes too long.
    assert!(matches!(tx.commit().wait(), Err(Error::Timeout)));
    opener.open();
    let tx = conn.transaction();
    let number = tx.incr("n");
    tx.commit().wait_timeout(LONG)?;
    assert_eq!(number.wait_timeout(LONG)?, 1);
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn a_transaction_before_a_watch_does_not_end_it() -> Result<()> {
    let server = support::server();
    let (conn, other) = (support::open(&server), support::open(&server));
    let tx = conn.transaction();
    let first = tx.incr("n");
    let commit = tx.commit();
    let watch = conn.watch("k")?;
    other.set("k", "theirs").wait()?;
    let tx = watch.transaction();
    let second = tx.incr("n");
    assert!(matches!(tx.commit().wait(), Err(Error::Aborted)));
    commit.wait()?;
    assert_eq!(first.wait()?, 1);
    assert!(matches!(second.wait(), Err(Error::Aborted)));
    Ok(())
}

#[test]
fn watches_one_after_the_other_guard_their_own_keys_only() -> Result<()> {
    let server = support::server();
    let (conn, other) = (support::open(&server), support::open(&server));
    drop(conn.watch("first")?);
    let watch = conn.watch("second")?;
    other.set("first", 1).wait()?;
    let tx = watch.transaction();
    let number = tx.incr("n");
    tx.commit().wait()?;
    assert_eq!(number.wait()?, 1);
    Ok(())
}

#[test]
fn commands_that_would_end_a_watch_unseen_are_refused() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let watch = conn.watch("k")?;
    let commands = conn.stats().commands;
    for name in ["UNWATCH", "EXEC", "DISCARD", "RESET", "MULTI"] {
        assert!(matches!(conn.command::<Value>(name, ()).wait(), Err(Error::Refused(_))), "{name}");
    }
    assert!(matches!(conn.command::<Value>("WATCH", "other").wait(), Err(Error::Refused(_))));
    assert_eq!(conn.stats().commands, commands);
    drop(watch);
    Ok(())
}

// transact

#[test]
fn transact_returns_the_values_of_its_handles() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set("y", "text").wait()?;
    conn.rpush("list", ["a", "b"]).wait()?;
    conn.hset("hash", ("f", 1)).wait()?;
    let (x, y): (i64, String) = conn.transact(["x"], |_, tx| Ok((tx.incr("x"), tx.get("y"))))?;
    assert_eq!((x, y), (1, "text".to_owned()));
    let one: i64 = conn.transact("x", |_, tx| Ok(tx.incr("x")))?;
    assert_eq!(one, 2);
    let many: Vec<i64> = conn.transact("x", |_, tx| Ok((0..3).map(|_| tx.incr("x")).collect::<Vec<_>>()))?;
    assert_eq!(many, [3, 4, 5]);
    let list: Vec<String> = conn.transact("x", |_, tx| Ok(tx.lrange("list", 0, -1)))?;
    assert_eq!(list, ["a", "b"]);
    let (pairs, last): (Vec<(String, i64)>, i64) =
        conn.transact("x", |_, tx| Ok((tx.hgetall("hash"), tx.incr("x"))))?;
    assert_eq!((pairs, last), (vec![("f".to_owned(), 1)], 6));
    conn.transact("x", |_, tx| {
        tx.incr("x");
        Ok(())
    })?;
    assert_eq!(conn.get::<i64>("x").wait()?, 7);
    Ok(())
}

#[test]
fn transact_begins_again_after_each_conflict_and_reads_anew() -> Result<()> {
    let server = support::server();
    let (conn, other) = (support::open(&server), support::open(&server));
    for conflicts in 0..5 {
        conn.set("x", 0).wait()?;
        let mut attempts = 0;
        let doubled: i64 = conn.transact("x", |conn, tx| {
            let x: i64 = conn.get("x").wait()?;
            if attempts < conflicts {
                other.incrby("x", 10).wait()?;
            }
            attempts += 1;
            tx.incr("tries");
            Ok(tx.incrby("x", x))
        })?;
        assert_eq!(attempts, conflicts + 1);
        assert_eq!(doubled, 20 * conflicts, "what was read last");
        assert_eq!(conn.get::<i64>("tries").wait()?, conflicts + 1, "aborted ones have not run");
    }
    conn.sync()
}

#[test]
fn transact_gives_up_after_sixteen_attempts() -> Result<()> {
    let server = support::server();
    let (conn, other) = (support::open(&server), support::open(&server));
    let mut attempts = 0;
    let outcome = conn.transact("x", |_, tx| {
        attempts += 1;
        other.incr("x").wait()?;
        Ok(tx.incr("n"))
    });
    assert!(matches!(outcome, Err(Error::Aborted)));
    assert_eq!(attempts, 16);
    assert_eq!(conn.exists("n").wait()?, 0);
    assert_not_watched(&conn, &other, "x")?;
    conn.sync()
}

#[test]
fn an_error_in_the_body_of_transact_ends_it_and_leaves_nothing_watched() -> Result<()> {
    let server = support::server();
    let (conn, other) = (support::open(&server), support::open(&server));
    let mut attempts = 0;
    let outcome = conn.transact("x", |conn, tx| {
        attempts += 1;
        let number = tx.incr("n");
        conn.get::<String>("nothing").wait()?;
        Ok(number)
    });
    assert!(matches!(outcome, Err(Error::Nil)));
    assert_eq!(attempts, 1);
    assert_not_watched(&conn, &other, "x")?;
    assert_eq!(conn.exists("n").wait()?, 0);
    conn.sync()
}

#[test]
fn a_panic_in_the_body_of_transact_leaves_nothing_watched() -> Result<()> {
    let server = support::server();
    let (conn, other) = (support::open(&server), support::open(&server));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        conn.transact("x", |_, tx| -> Result<Queued<'_, i64>> {
            tx.incr("n");
            panic!("on purpose");
        })
    }));
    assert!(panicked.is_err());
    assert_not_watched(&conn, &other, "x")?;
    assert_eq!(conn.exists("n").wait()?, 0);
    conn.sync()
}

#[test]
fn an_element_that_fails_is_the_error_of_transact_and_is_not_repeated() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set("text", "v").wait()?;
    let mut attempts = 0;
    let outcome = conn.transact("x", |_, tx| {
        attempts += 1;
        Ok((tx.incr("n"), tx.lpush("text", "x"), tx.incr("n")))
    });
    assert_eq!(outcome.unwrap_err().code(), Some("WRONGTYPE"));
    assert_eq!(attempts, 1);
    assert_eq!(conn.get::<i64>("n").wait()?, 2, "it has run");
    conn.sync()
}

#[test]
fn an_error_to_exec_ends_transact() -> Result<()> {
    let server = support::server();
    let (conn, other) = (support::open(&server), support::open(&server));
    let outcome = conn.transact("x", |_, tx| {
        tx.command::<Value>("NOSUCHCMD", ()).detach();
        Ok(tx.incr("n"))
    });
    assert!(outcome.unwrap_err().as_server_error().is_some());
    assert_not_watched(&conn, &other, "x")?;
    assert_eq!(conn.exists("n").wait()?, 0);
    Ok(())
}

#[test]
fn transactions_inside_the_body_of_transact_are_refused() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let outcome = conn.transact("x", |conn, tx| {
        let inner = conn.transaction();
        inner.incr("inner");
        inner.commit().wait()?;
        Ok(tx.incr("n"))
    });
    assert!(matches!(outcome, Err(Error::Refused(_))));
    assert_eq!(conn.exists(["inner", "n"]).wait()?, 0);
    let value: i64 = conn.transact("x", |_, tx| Ok(tx.incr("n")))?;
    assert_eq!(value, 1);
    Ok(())
}

#[test]
fn a_connection_lost_between_watch_and_exec_is_told_and_not_repeated() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let mut attempts = 0;
    let outcome = conn.transact("x", |_, tx| {
        attempts += 1;
        server.kill();
        Ok(tx.incr("n"))
    });
    assert!(outcome.is_err_and(|error| error.is_connection_lost()));
    assert_eq!(attempts, 1);
    Ok(())
}

#[test]
fn transact_counts_to_the_same_sum_from_several_threads() -> Result<()> {
    let server = support::server();
    let url = support::config(&server);
    let counted = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..3)
            .map(|_| {
                let url = url.clone();
                scope.spawn(move || -> Result<i64> {
                    let conn = Connection::open(url)?;
                    let mut done = 0;
                    for _ in 0..30 {
                        let outcome = conn.transact("sum", |conn, tx| {
                            let sum: Option<i64> = conn.get("sum").wait()?;
                            Ok(tx.set("sum", sum.unwrap_or(0) + 1))
                        });
                        match outcome {
                            Ok(()) => done += 1,
                            // Sixteen times too late is bad luck, and no increment.
                            Err(Error::Aborted) => {}
                            Err(error) => return Err(error),
                        }
                    }
                    Ok(done)
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("no panic")).sum::<Result<i64>>()
    })?;
    assert!(counted > 0);
    assert_eq!(support::open(&server).get::<i64>("sum").wait()?, counted);
    Ok(())
}
