//! Transactions: every way out of one, and every reply that a server has for MULTI, its commands and EXEC.

#![cfg(feature = "testing")]

mod support;

use std::collections::HashMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use redefer::{Error, Protocol, Result, SendWhen, WaitError, prelude::*};
use support::scripted::{Peer, Scripted, array};

/// A scripted server that has answered the handshake, and a connection to it in the protocol under test.
fn scripted(mut script: impl FnMut(&mut Peer) -> io::Result<()> + Send + 'static) -> Result<(Scripted, Connection)> {
    let server = Scripted::start(move |peer| {
        peer.handshake()?;
        script(peer)
    });
    let conn = Connection::open(support::config_for(&server.url()))?;
    Ok((server, conn))
}

/// The same in RESP3, for what RESP2 has not.
fn scripted_resp3(
    mut script: impl FnMut(&mut Peer) -> io::Result<()> + Send + 'static,
) -> Result<(Scripted, Connection)> {
    let server = Scripted::start(move |peer| {
        peer.handshake()?;
        script(peer)
    });
    let conn = Connection::open(Config::from_url(&server.url())?.protocol(Protocol::Resp3))?;
    Ok((server, conn))
}

/// The bytes of a transaction of these commands.
fn transaction(commands: &[&[&str]]) -> Vec<u8> {
    let mut bytes = array(["MULTI"]);
    for command in commands {
        bytes.extend(array(*command));
    }
    bytes.extend(array(["EXEC"]));
    bytes
}

/// Reads until this many bytes have come in all, by asking a handle that is not ready before.
fn read_up_to<T: FromReply>(conn: &Connection, handle: &Reply<'_, T>, bytes: usize) -> Result<()> {
    while conn.stats().bytes_read < bytes as u64 {
        handle.is_ready()?;
        thread::yield_now();
    }
    Ok(())
}

#[track_caller]
fn code<T: std::fmt::Debug>(result: Result<T>) -> String {
    match result {
        Err(error) => error.code().map_or_else(|| panic!("no error of the server: {error:?}"), str::to_owned),
        Ok(value) => panic!("no error but {value:?}"),
    }
}

// Ways out.

#[test]
fn commit_runs_everything_and_gives_each_handle_its_own_reply() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let tx = conn.transaction();
    assert!(tx.is_empty());
    let number = tx.incrby("n", 5);
    let status = tx.set("k", "v");
    let text = tx.get::<String>("k");
    let nothing: Queued<'_, Option<String>> = tx.get("nothing");
    assert_eq!((tx.len(), tx.is_empty()), (4, false));
    tx.commit().wait()?;
    assert_eq!((number.wait()?, status.wait()?, text.wait()?, nothing.wait()?), (5, (), "v".to_owned(), None));
    assert_eq!(conn.outstanding(), 0);
    assert_eq!(conn.stats().commands, 6);
    assert_eq!(conn.stats().round_trips, 1);
    Ok(())
}

#[test]
fn the_bytes_of_a_transaction_are_contiguous_and_go_out_at_commit() -> Result<()> {
    let (server, conn) = scripted(|peer| {
        peer.expect(["PING"])?;
        peer.send("+PONG\r\n")?;
        peer.expect(["GET", "meanwhile"])?;
        peer.send("$1\r\nm\r\n")?;
        peer.expect_bytes(transaction(&[&["INCR", "n"], &["GET", "k"]]))?;
        peer.send("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:1\r\n$1\r\nv\r\n")?;
        peer.expect_end()
    })?;
    let tx = conn.transaction();
    let number = tx.incr("n");
    conn.ping().wait()?;
    let text: Queued<'_, String> = tx.get("k");
    assert_eq!(conn.get::<String>("meanwhile").wait()?, "m");
    tx.commit().wait()?;
    assert_eq!((number.wait()?, text.wait()?), (1, "v".to_owned()));
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn discard_sends_nothing_and_its_handles_say_so() -> Result<()> {
    let (server, conn) = scripted(|peer| peer.expect_end())?;
    let tx = conn.transaction();
    let number = tx.incr("n");
    tx.set("k", "v");
    tx.discard();
    assert!(matches!(number.wait(), Err(Error::NotCommitted)));
    assert_eq!((conn.stats().commands, conn.stats().bytes_written, conn.outstanding()), (0, 0, 0));
    conn.sync()?;
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn drop_sends_nothing_and_its_handles_say_so() -> Result<()> {
    let (server, conn) = scripted(|peer| peer.expect_end())?;
    let number = {
        let tx = conn.transaction();
        tx.set("k", "v");
        tx.incr("n")
    };
    let list = conn.transaction().lrange::<String>("list", 0, -1);
    assert!(matches!(number.wait(), Err(Error::NotCommitted)));
    assert!(matches!(list.wait::<Vec<_>>(), Err(Error::NotCommitted)));
    assert_eq!((conn.stats().commands, conn.stats().bytes_written, conn.outstanding()), (0, 0, 0));
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn a_transaction_left_by_an_error_sends_nothing() -> Result<()> {
    fn leave<'c>(conn: &'c Connection, kept: &mut Option<Queued<'c, i64>>) -> Result<()> {
        let tx = conn.transaction();
        *kept = Some(tx.incr("n"));
        conn.get::<String>("nothing").wait()?;
        tx.commit().wait()
    }
    let server = support::server();
    let conn = support::open(&server);
    let mut kept = None;
    assert!(matches!(leave(&conn, &mut kept), Err(Error::Nil)));
    assert!(matches!(kept.map(Queued::wait), Some(Err(Error::NotCommitted))));
    assert_eq!(conn.exists("n").wait()?, 0);
    assert_eq!(conn.stats().commands, 2, "GET and EXISTS");
    Ok(())
}

#[test]
fn a_transaction_left_by_a_panic_sends_nothing_and_the_connection_goes_on() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let mut kept = None;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let tx = conn.transaction();
        kept = Some(tx.incr("n"));
        let _dropped_on_the_way = tx.set("k", "v");
        let _list = tx.lrange::<String>("list", 0, -1);
        panic!("on purpose");
    }));
    assert!(panicked.is_err());
    assert!(matches!(kept.map(Queued::wait), Some(Err(Error::NotCommitted))));
    assert_eq!(conn.stats().bytes_written, 0);
    assert_eq!(conn.exists(["n", "k"]).wait()?, 0);
    Ok(())
}

#[test]
fn a_commit_left_by_a_panic_keeps_the_connection_in_step() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let mut kept = None;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let tx = conn.transaction();
        let _dropped_on_the_way = tx.incr("n");
        kept = Some(tx.incr("n"));
        let _commit = tx.commit();
        let _behind = conn.incr("other");
        panic!("on purpose");
    }));
    assert!(panicked.is_err());
    assert_eq!(kept.map(Queued::wait).transpose()?, Some(2));
    assert_eq!(conn.get::<i64>("other").wait()?, 1);
    Ok(())
}

#[test]
fn a_handle_used_before_its_commit_is_an_error_without_io() -> Result<()> {
    let (server, conn) = scripted(|peer| {
        peer.expect_bytes(transaction(&[&["INCR", "a"], &["INCR", "b"], &["INCR", "c"], &["LRANGE", "l", "0", "1"]]))?;
        peer.send("+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*4\r\n:1\r\n:2\r\n:3\r\n*0\r\n")?;
        peer.expect_end()
    })?;
    let tx = conn.transaction();
    let (a, b, c) = (tx.incr("a"), tx.incr("b"), tx.incr("c"));
    let mut list = tx.lrange::<String>("l", 0, 1);
    assert!(matches!(a.wait(), Err(Error::NotCommitted)));
    assert!(matches!(b.wait_timeout(Duration::from_secs(5)), Err(WaitError::Failed(Error::NotCommitted))));
    assert!(c.is_ready()?, "a wait would not block");
    assert!(matches!(list.next(), Some(Err(Error::NotCommitted))));
    assert!(list.next().is_none());
    assert_eq!((conn.stats().bytes_written, conn.stats().reads), (0, 0));
    tx.commit().wait()?;
    assert_eq!(c.wait()?, 3);
    drop(list);
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn handles_dropped_before_the_commit_cost_nobody_else_a_reply() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set("text", "v").wait()?;
    let tx = conn.transaction();
    drop(tx.incr("n"));
    let second = tx.incr("n");
    drop(tx.lrange::<String>("list", 0, -1));
    drop(tx.lpush("text", "x"));
    tx.incr("n").detach();
    let last = tx.incr("n");
    tx.commit().wait()?;
    assert_eq!((second.wait()?, last.wait()?), (2, 4));
    assert_eq!(conn.stats().unseen_errors, 1);
    assert_eq!(code(conn.sync()), "WRONGTYPE", "of the handle that was dropped");
    conn.sync()
}

#[test]
fn handles_dropped_after_the_commit_are_accounted_for() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set("text", "v").wait()?;
    let tx = conn.transaction();
    let (bad, good, worse) = (tx.lpush("text", "x"), tx.incr("n"), tx.sadd("text", "x"));
    let commit = tx.commit();
    drop(bad);
    commit.wait()?;
    drop(worse);
    assert_eq!(good.wait()?, 1);
    assert_eq!(code(conn.sync()), "WRONGTYPE");
    assert_eq!(conn.ping_message::<String>("still in step").wait()?, "still in step");
    Ok(())
}

#[test]
fn a_dropped_commit_has_been_sent_and_answered() -> Result<()> {
    let server = support::server();
    let conn = Connection::open(support::config(&server).send_when(SendWhen::Gathering))?;
    let other = support::open(&server);
    let tx = conn.transaction();
    let number = tx.incr("n");
    drop(tx.commit());
    assert_eq!(other.get::<Option<i64>>("n").wait()?, Some(1));
    assert_eq!(number.wait()?, 1);
    conn.sync()
}

#[test]
fn the_error_of_a_commit_that_is_dropped_or_detached_goes_to_the_account() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    for detached in [true, false] {
        let tx = conn.transaction();
        let handle = tx.incr("n");
        let refused: Queued<'_, Value> = tx.command("NOSUCHCMD", ());
        if detached {
            tx.commit().detach();
        } else {
            drop(tx.commit());
        }
        assert_eq!(code(handle.wait()), "EXECABORT");
        assert_eq!(code(refused.wait()), "ERR");
        assert_eq!(code(conn.sync()), "EXECABORT");
        conn.sync()?;
    }
    Ok(())
}

#[test]
fn a_detached_commit_runs_at_the_latest_when_the_connection_is_dropped() -> Result<()> {
    let server = support::server();
    let conn = Connection::open(support::config(&server).send_when(SendWhen::Gathering))?;
    let tx = conn.transaction();
    tx.incr("n");
    tx.commit().detach();
    assert_eq!(conn.stats().writes, 0);
    drop(conn);
    assert_eq!(support::open(&server).get::<i64>("n").wait()?, 1);
    Ok(())
}

#[test]
fn handles_outlive_the_guard_and_the_function_that_made_them() -> Result<()> {
    fn issue(conn: &Connection) -> (Queued<'_, i64>, MultiBulk<'_, String>, Reply<'_, ()>) {
        let tx = conn.transaction();
        let list = tx.lrange("list", 0, -1);
        (tx.incr("n"), list, tx.commit())
    }
    let server = support::server();
    let conn = support::open(&server);
    conn.rpush("list", ["a", "b"]).wait()?;
    let (number, list, commit) = issue(&conn);
    assert_eq!(number.wait()?, 1);
    assert_eq!(list.wait::<Vec<_>>()?, ["a", "b"]);
    commit.wait()
}

#[test]
fn forgotten_handles_of_a_transaction_shift_nothing() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    for round in 0..3 {
        let tx = conn.transaction();
        std::mem::forget(tx.incr("n"));
        let kept = tx.incr("n");
        std::mem::forget(tx.lrange::<String>("list", 0, -1));
        let commit = tx.commit();
        if round == 1 {
            std::mem::forget(commit);
        } else {
            commit.wait()?;
        }
        assert_eq!(kept.wait()?, 2 * round + 2);
        assert_eq!(conn.ping_message::<i64>(round).wait()?, round);
    }
    let tx = conn.transaction();
    tx.incr("n");
    std::mem::forget(tx);
    let tx = conn.transaction();
    let last = tx.incr("n");
    tx.commit().wait()?;
    assert_eq!(last.wait()?, 7, "the forgotten transaction was never sent");
    Ok(())
}

// Refusals.

#[test]
fn a_command_that_the_server_does_not_queue_has_its_own_error_and_all_others_execabort() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let tx = conn.transaction();
    let before = tx.set("k", "v");
    let unknown: Queued<'_, Value> = tx.command("NOSUCHCMD", ());
    let list = tx.lrange::<String>("k", 0, -1);
    let arity: Queued<'_, Value> = tx.command("GET", ("a", "b", "c"));
    let behind = tx.incr("n");
    let commit = tx.commit();
    match unknown.wait() {
        Err(Error::Server(error)) => assert!(error.to_string().contains("unknown command"), "{error}"),
        other => panic!("{other:?}"),
    }
    match arity.wait() {
        Err(Error::Server(error)) => assert!(error.to_string().contains("number of arguments"), "{error}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(code(before.wait()), "EXECABORT");
    assert_eq!(code(list.wait::<Vec<_>>()), "EXECABORT");
    assert_eq!(code(behind.wait()), "EXECABORT");
    assert_eq!(code(commit.wait()), "EXECABORT");
    assert_eq!(conn.exists(["k", "n"]).wait()?, 0, "nothing ran");
    conn.sync()
}

#[test]
fn the_own_error_of_a_refused_command_reaches_the_account_if_its_handle_is_gone() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let tx = conn.transaction();
    drop(tx.command::<Value>("NOSUCHCMD", ()));
    assert_eq!(code(tx.commit().wait()), "EXECABORT");
    match conn.sync() {
        Err(Error::Server(error)) => assert!(error.to_string().contains("unknown command"), "{error}"),
        other => panic!("nobody was told which command it was: {other:?}"),
    }
    conn.sync()
}

#[test]
fn when_multi_is_refused_every_handle_says_so_and_the_connection_is_in_step() -> Result<()> {
    let server = support::server_with([("user", "nomulti on >secret ~* &* +@all -multi")]);
    let conn = Connection::open(support::config(&server).user("nomulti").password("secret"))?;
    conn.set("k", "v").wait()?;
    let earlier = conn.get::<String>("k");
    let tx = conn.transaction();
    let number = tx.incr("n");
    let failing = tx.lpush("k", "x");
    let list = tx.lrange::<String>("list", 0, -1);
    drop(tx.incr("n"));
    let commit = tx.commit();
    let later = conn.ping_message::<String>("later");
    assert_eq!(code(number.wait()), "NOPERM");
    assert_eq!(code(failing.wait()), "NOPERM");
    assert_eq!(code(list.wait::<Vec<_>>()), "NOPERM");
    assert_eq!(code(commit.wait()), "NOPERM");
    assert_eq!((earlier.wait()?, later.wait()?), ("v".to_owned(), "later".to_owned()));
    assert_eq!(conn.get::<i64>("n").wait()?, 2, "the commands ran one by one");
    assert!(!conn.is_broken());
    Ok(())
}

#[test]
fn an_element_that_fails_fails_alone() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let tx = conn.transaction();
    let set = tx.set("k", "v");
    let push = tx.lpush("k", "x");
    let list = tx.lrange::<String>("k", 0, -1);
    let get = tx.get::<String>("k");
    let wrong_type = tx.get::<i64>("k");
    let members = tx.smembers::<String>("k");
    let last = tx.incr("n");
    tx.commit().wait()?;
    set.wait()?;
    assert_eq!(code(push.wait()), "WRONGTYPE");
    assert_eq!(code(list.wait::<Vec<_>>()), "WRONGTYPE");
    assert_eq!(get.wait()?, "v");
    assert!(matches!(wrong_type.wait(), Err(Error::UnexpectedReply(_))));
    drop(members);
    assert_eq!(last.wait()?, 1);
    assert_eq!(code(conn.sync()), "WRONGTYPE", "of SMEMBERS");
    Ok(())
}

#[test]
fn a_script_error_and_a_nil_inside_exec_shift_nothing() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set("text", "v").wait()?;
    let tx = conn.transaction();
    let status = tx.eval::<Value>("return {ok='FINE'}", (), ());
    let error = tx.eval::<Value>("return {err='MINE and more'}", (), ());
    let nested = tx.eval::<Value>("return {1, {2, {3, {}}}, false, {err='ERR inner'}}", (), ());
    let nil: Queued<'_, Option<String>> = tx.get("nothing");
    let bits =
        tx.command::<Vec<Option<i64>>>("BITFIELD", ("b", "OVERFLOW", "FAIL", "INCRBY", "u2", 0, 9, "GET", "u2", 0));
    let last = tx.incr("n");
    tx.commit().wait()?;
    assert_eq!(status.wait()?, Value::SimpleString(b"FINE".into()));
    assert_eq!(code(error.wait()), "MINE");
    let nested = nested.wait()?;
    assert_eq!(nested.elements()[0], Value::Integer(1));
    assert_eq!(nested.elements()[2], Value::Nil);
    assert!(nested.elements()[3].as_error().is_some());
    assert_eq!(nil.wait()?, None);
    assert_eq!(bits.wait()?, [None, Some(0)]);
    assert_eq!(last.wait()?, 1);
    conn.sync()
}

#[test]
fn a_blocking_command_in_a_transaction_does_not_block() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let tx = conn.transaction();
    let popped: Queued<'_, Option<(String, String)>> = tx.command("BLPOP", ("nothing", 0));
    let number = tx.incr("n");
    tx.commit().wait()?;
    assert_eq!((popped.wait()?, number.wait()?), (None, 1));
    Ok(())
}

#[test]
fn a_command_that_cannot_be_encoded_keeps_the_transaction_from_being_sent() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let tx = conn.transaction();
    let first = tx.incr("n");
    let empty = tx.rpush("list", Vec::<String>::new());
    let second = tx.incr("n");
    assert_eq!(tx.len(), 2);
    assert!(matches!(tx.commit().wait(), Err(Error::Argument(_))));
    for handle in [first, empty, second] {
        assert!(matches!(handle.wait(), Err(Error::Argument(_))));
    }
    assert_eq!((conn.exists("n").wait()?, conn.stats().commands), (0, 1));
    Ok(())
}

// Order.

#[test]
fn unread_replies_from_before_and_behind_stay_with_their_handles() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.rpush("list", ["a", "b", "c"]).wait()?;
    let before: Vec<_> = (0..5).map(|n| conn.ping_message::<i64>(n)).collect();
    let list_before = conn.lrange::<String>("list", 0, -1);
    let tx = conn.transaction();
    let inside = tx.incr("n");
    let list_inside = tx.lrange::<String>("list", 1, -1);
    let commit = tx.commit();
    let list_behind = conn.lrange::<String>("list", 2, -1);
    let behind: Vec<_> = (5..10).map(|n| conn.ping_message::<i64>(n)).collect();
    assert_eq!(inside.wait()?, 1);
    for (n, reply) in behind.into_iter().enumerate().rev() {
        assert_eq!(reply.wait()?, n as i64 + 5);
    }
    commit.wait()?;
    assert_eq!(list_behind.wait::<Vec<_>>()?, ["c"]);
    for (n, reply) in before.into_iter().enumerate() {
        assert_eq!(reply.wait()?, n as i64);
    }
    assert_eq!(list_inside.wait::<Vec<_>>()?, ["b", "c"]);
    assert_eq!(list_before.wait::<Vec<_>>()?, ["a", "b", "c"]);
    Ok(())
}

#[test]
fn a_half_read_multi_bulk_in_front_goes_on_after_the_transaction() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.rpush("list", ["a", "b", "c"]).wait()?;
    let mut list = conn.lrange::<String>("list", 0, -1);
    assert_eq!(list.next().transpose()?.as_deref(), Some("a"));
    let tx = conn.transaction();
    let number = tx.incr("n");
    tx.commit().wait()?;
    assert_eq!(number.wait()?, 1);
    assert_eq!(list.wait::<Vec<_>>()?, ["b", "c"]);
    Ok(())
}

#[test]
fn handles_may_be_waited_for_in_reverse_and_before_the_commit_handle() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let tx = conn.transaction();
    let handles: Vec<_> = (0..100).map(|_| tx.incr("n")).collect();
    let commit = tx.commit();
    for (n, handle) in handles.into_iter().enumerate().rev() {
        assert_eq!(handle.wait()?, n as i64 + 1);
    }
    commit.wait()
}

#[test]
fn transactions_back_to_back_are_answered_in_order() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let issue = |add: i64| {
        let tx = conn.transaction();
        let number = tx.incrby("n", add);
        let refused = (add == 3).then(|| tx.command::<Value>("NOSUCHCMD", ()));
        let text = tx.append("text", add);
        (number, refused, text, tx.commit())
    };
    let (one, two, three, four) = (issue(1), issue(2), issue(3), issue(4));
    four.3.wait()?;
    assert_eq!((four.0.wait()?, four.2.wait()?), (7, 3));
    assert_eq!((two.2.wait()?, two.0.wait()?), (2, 3));
    assert_eq!(code(three.0.wait()), "EXECABORT");
    assert_eq!(three.1.map(|refused| code(refused.wait())).as_deref(), Some("ERR"));
    assert_eq!(code(three.3.wait()), "EXECABORT");
    one.3.wait()?;
    assert_eq!((one.0.wait()?, one.2.wait()?), (1, 1));
    drop(three.2);
    conn.sync()
}

#[test]
fn two_open_transactions_do_not_mix() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let (first, second) = (conn.transaction(), conn.transaction());
    let a = first.append("text", "a");
    let b = second.append("text", "b");
    let c = first.append("text", "c");
    let committed_first = second.commit();
    first.commit().wait()?;
    committed_first.wait()?;
    assert_eq!((b.wait()?, a.wait()?, c.wait()?), (1, 2, 3));
    assert_eq!(conn.get::<String>("text").wait()?, "bac");
    Ok(())
}

#[test]
fn commands_on_the_connection_run_at_once_outside_an_open_transaction() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let tx = conn.transaction();
    let inside = tx.incr("n");
    assert_eq!(conn.incrby("n", 10).wait()?, 10);
    assert_eq!(conn.get::<i64>("n").wait()?, 10);
    tx.commit().wait()?;
    assert_eq!(inside.wait()?, 11);
    Ok(())
}

// Sizes.

#[test]
fn an_empty_transaction_is_committed() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let behind = {
        let commit = conn.transaction().commit();
        let behind = conn.ping_message::<String>("behind");
        commit.wait()?;
        behind
    };
    assert_eq!(behind.wait()?, "behind");
    Ok(())
}

#[test]
fn a_transaction_of_ten_thousand_commands() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let tx = conn.transaction();
    let handles: Vec<_> = (0..10_000).map(|_| tx.incr("n")).collect();
    assert_eq!(tx.len(), 10_000);
    tx.commit().wait()?;
    for (n, handle) in handles.into_iter().enumerate() {
        assert_eq!(handle.wait()?, n as i64 + 1);
    }
    assert_eq!(conn.stats().stored, 0, "in order nothing has to be kept");
    Ok(())
}

#[test]
fn a_transaction_may_be_larger_than_the_queue() -> Result<()> {
    let server = support::server();
    let conn = Connection::open(support::config(&server).max_outstanding(8).write_batch(64))?;
    let before: Vec<_> = (0..8).map(|n| conn.ping_message::<i64>(n)).collect();
    let tx = conn.transaction();
    let mut handles: Vec<_> = (0..500).map(|_| tx.incr("n")).collect();
    let commit = tx.commit();
    let behind: Vec<_> = (0..20).map(|n| conn.ping_message::<i64>(n)).collect();
    for (n, reply) in behind.into_iter().enumerate() {
        assert_eq!(reply.wait()?, n as i64);
    }
    while let Some(handle) = handles.pop() {
        assert_eq!(handle.wait()?, handles.len() as i64 + 1);
    }
    commit.wait()?;
    for (n, reply) in before.into_iter().enumerate() {
        assert_eq!(reply.wait()?, n as i64);
    }
    Ok(())
}

#[test]
fn a_transaction_of_large_values_passes_through() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let value = "x".repeat(3_000_000);
    let tx = conn.transaction();
    let sets: Vec<_> = (0..3).map(|n| tx.set(n, &value)).collect();
    let gets: Vec<_> = (0..3).map(|n| tx.get::<String>(n)).collect();
    tx.commit().wait()?;
    for get in gets.into_iter().rev() {
        assert_eq!(get.wait()?, value);
    }
    sets.into_iter().try_for_each(Queued::wait)
}

// Replies of many elements.

#[test]
fn a_multi_bulk_is_streamed_out_of_a_transaction() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.rpush("list", args::each(0..20_000)).wait()?;
    let tx = conn.transaction();
    let before = tx.incr("n");
    let mut list = tx.lrange::<i64>("list", 0, -1);
    let behind = tx.incr("n");
    let commit = tx.commit();
    assert_eq!(list.len()?, Some(20_000));
    for n in 0..10_000 {
        assert_eq!(list.next().transpose()?, Some(n));
    }
    assert_eq!(conn.stats().stored, 1, "only what stands in front of the list");
    assert_eq!(behind.wait()?, 2);
    commit.wait()?;
    for n in 10_000..20_000 {
        assert_eq!(list.next().transpose()?, Some(n));
    }
    assert!(list.next().is_none());
    assert_eq!(before.wait()?, 1);
    Ok(())
}

#[test]
fn pairs_come_out_of_a_transaction_in_both_protocols() -> Result<()> {
    let server = support::server();
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let conn = Connection::open(support::config(&server).protocol(protocol))?;
        let tx = conn.transaction();
        tx.hset("hash", [("a", 1), ("b", 2)]);
        tx.zadd("zset", [(0.5, "x"), (1.5, "y")]);
        let hash = tx.hgetall::<String, i64>("hash");
        let scores = tx.zrange_withscores::<String>("zset", 0, -1);
        let none = tx.hgetall::<String, i64>("nothing");
        let mut half = tx.zrange_withscores::<String>("zset", 0, -1);
        let last = tx.dbsize();
        tx.commit().wait()?;
        assert_eq!(half.next().transpose()?, Some(("x".to_owned(), 0.5)));
        assert_eq!(last.wait()?, 2);
        assert_eq!(half.wait::<Vec<_>>()?, [("y".to_owned(), 1.5)]);
        assert_eq!(hash.wait::<HashMap<_, _>>()?, HashMap::from([("a".to_owned(), 1), ("b".to_owned(), 2)]));
        assert_eq!(scores.wait::<Vec<_>>()?, [("x".to_owned(), 0.5), ("y".to_owned(), 1.5)]);
        assert_eq!(none.wait::<Vec<_>>()?, []);
    }
    Ok(())
}

#[test]
fn nested_elements_of_a_transaction_are_streamed_and_skipped_in_step() -> Result<()> {
    let (server, conn) = scripted(|peer| {
        peer.read_commands(5)?;
        peer.send("+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n")?;
        peer.send("*2\r\n*2\r\n:1\r\n:2\r\n*1\r\n:3\r\n")?;
        peer.send("*2\r\n*2\r\n:4\r\n*1\r\n*0\r\n*2\r\n:5\r\n-ERR in here\r\n:9\r\n")?;
        peer.expect_end()
    })?;
    let tx = conn.transaction();
    let mut lists = tx.lrange::<Vec<i64>>("a", 0, -1);
    let skipped = tx.lrange::<Value>("b", 0, -1);
    let last = tx.incr("n");
    tx.commit().wait()?;
    assert_eq!(lists.next().transpose()?, Some(vec![1, 2]));
    drop(skipped);
    assert_eq!(last.wait()?, 9);
    assert_eq!(lists.next().transpose()?, Some(vec![3]));
    assert!(lists.next().is_none());
    conn.sync()?;
    drop(lists);
    drop(conn);
    server.finish();
    Ok(())
}

// What EXEC may answer.

#[test]
fn any_error_to_exec_means_that_nothing_ran() -> Result<()> {
    const ERRORS: [&str; 6] = [
        "-MOVED 3999 127.0.0.1:6381",
        "-TRYAGAIN Multiple keys request during rehashing of slot",
        "-READONLY You can't write against a read only replica.",
        "-EXECABORT Transaction discarded because of previous errors.",
        "-CLUSTERDOWN Hash slot not served",
        "-LOADING Redis is loading the dataset in memory",
    ];
    let (server, conn) = scripted(|peer| {
        for error in ERRORS {
            peer.read_commands(5)?;
            peer.send(format!("+OK\r\n+QUEUED\r\n+QUEUED\r\n{error}\r\n+{error}\r\n"))?;
        }
        peer.expect_end()
    })?;
    for error in ERRORS {
        let tx = conn.transaction();
        let number = tx.incr("n");
        let list = tx.lrange::<String>("l", 0, -1);
        let commit = tx.commit();
        let behind = conn.echo::<String>("behind");
        let wanted = &error[1..];
        assert_eq!(behind.wait()?, error);
        for got in [commit.wait(), number.wait().map(drop), list.wait::<Vec<_>>().map(drop)] {
            assert!(matches!(got, Err(Error::Server(got)) if got.to_string() == wanted), "{wanted}");
        }
    }
    conn.sync()?;
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn nil_to_exec_aborts_all_in_both_spellings() -> Result<()> {
    const NILS: [&str; 3] = ["*-1\r\n", "_\r\n", "$-1\r\n"];
    let (server, conn) = scripted(|peer| {
        for nil in NILS {
            peer.read_commands(5)?;
            peer.send(format!("+OK\r\n+QUEUED\r\n+QUEUED\r\n{nil}:1\r\n"))?;
        }
        peer.expect_end()
    })?;
    for nil in NILS {
        let tx = conn.transaction();
        let number = tx.incr("n");
        let list = tx.lrange::<String>("l", 0, -1);
        let commit = tx.commit();
        let behind = conn.incr("behind");
        assert!(matches!(number.wait(), Err(Error::Aborted)), "{nil:?}");
        assert!(matches!(list.wait::<Vec<_>>(), Err(Error::Aborted)), "{nil:?}");
        assert!(matches!(commit.wait(), Err(Error::Aborted)), "{nil:?}");
        assert_eq!(behind.wait()?, 1);
    }
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn an_error_to_multi_and_to_its_commands_and_exec_is_told_by_the_first() -> Result<()> {
    let (server, conn) = scripted(|peer| {
        peer.read_commands(5)?;
        peer.send("-NOPERM multi\r\n:5\r\n*2\r\n+a\r\n+b\r\n-ERR EXEC without MULTI\r\n+behind\r\n")?;
        peer.expect_end()
    })?;
    let tx = conn.transaction();
    let number = tx.incr("n");
    let list = tx.lrange::<String>("l", 0, -1);
    let commit = tx.commit();
    let behind = conn.echo::<String>("x");
    assert_eq!(behind.wait()?, "behind");
    assert_eq!(code(number.wait()), "NOPERM");
    assert_eq!(code(list.wait::<Vec<_>>()), "NOPERM");
    assert_eq!(code(commit.wait()), "NOPERM");
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn a_reply_that_cannot_be_breaks_the_connection_and_reaches_nobody() -> Result<()> {
    const REPLIES: [&str; 8] = [
        "+OK\r\n+QUEUED\r\n+QUEUED\r\n*1\r\n:1\r\n:2\r\n:3\r\n",
        "+OK\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n:1\r\n:2\r\n:3\r\n",
        "+OK\r\n+QUEUED\r\n+QUEUED\r\n*0\r\n:3\r\n",
        "+OK\r\n+QUEUED\r\n+QUEUED\r\n+OK\r\n:3\r\n",
        "+OK\r\n+QUEUED\r\n+QUEUED\r\n:2\r\n:3\r\n",
        "+OK\r\n+QUEUED\r\n:1\r\n*2\r\n:1\r\n:2\r\n:3\r\n",
        "+OK\r\n+QUEUED\r\n-ERR refused\r\n*2\r\n:1\r\n:2\r\n:3\r\n",
        "-NOPERM multi\r\n:1\r\n:2\r\n*2\r\n:1\r\n:2\r\n:3\r\n",
    ];
    let server = Scripted::start(|peer| {
        peer.handshake()?;
        peer.read_commands(5)?;
        peer.send(REPLIES[peer.number()])?;
        peer.read_to_end().map(drop)
    });
    for reply in REPLIES {
        let conn = Connection::open(support::config_for(&server.url()))?;
        let tx = conn.transaction();
        let (one, two) = (tx.incr("n"), tx.incr("n"));
        let commit = tx.commit();
        let behind = conn.incr("behind");
        match behind.wait() {
            Err(error) => assert!(error.is_connection_lost(), "{reply:?}: {error}"),
            Ok(value) => panic!("{reply:?}: {value}"),
        }
        for got in [one.wait(), two.wait(), commit.wait().map(|()| 0)] {
            match got {
                // A command that was refused has been told why.
                Err(Error::Server(error)) => assert_eq!(error.to_string(), "ERR refused", "{reply:?}"),
                Err(error) => assert!(error.is_connection_lost(), "{reply:?}: {error}"),
                Ok(value) => panic!("{reply:?}: {value}"),
            }
        }
        assert!(conn.is_broken(), "{reply:?}");
    }
    server.finish();
    Ok(())
}

#[test]
fn a_command_refused_though_exec_succeeds_has_its_error_and_shifts_nothing() -> Result<()> {
    let (server, conn) = scripted(|peer| {
        peer.read_commands(6)?;
        peer.send("+OK\r\n+QUEUED\r\n-ERR not here\r\n+QUEUED\r\n*2\r\n:1\r\n:3\r\n:9\r\n")?;
        peer.expect_end()
    })?;
    let tx = conn.transaction();
    let (one, two, three) = (tx.incr("n"), tx.incr("n"), tx.incr("n"));
    let commit = tx.commit();
    let behind = conn.incr("n");
    assert_eq!(behind.wait()?, 9);
    assert_eq!(code(two.wait()), "ERR");
    assert_eq!((one.wait()?, three.wait()?), (1, 3));
    commit.wait()?;
    drop(conn);
    server.finish();
    Ok(())
}

// Pushes and attributes.

const MESSAGE: &str = ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n";

#[test]
fn a_message_inside_the_reply_to_exec_is_lifted_out_wherever_it_is() -> Result<()> {
    let pieces = [
        "+OK\r\n",
        "+QUEUED\r\n",
        "+QUEUED\r\n",
        "+QUEUED\r\n",
        "*3\r\n",
        ":1\r\n",
        "*2\r\n",
        "+a\r\n",
        "+b\r\n",
        ":3\r\n",
        ":4\r\n",
    ];
    let (server, conn) = scripted_resp3(move |peer| {
        for at in 0..pieces.len() {
            peer.read_commands(6)?;
            peer.send(pieces[..at].concat() + MESSAGE + MESSAGE + &pieces[at..].concat())?;
        }
        peer.expect_end()
    })?;
    for at in 0..pieces.len() {
        let tx = conn.transaction();
        let (one, list, three) = (tx.publish("c", "hi"), tx.lrange::<String>("l", 0, -1), tx.incr("n"));
        let commit = tx.commit();
        let behind = conn.incr("behind");
        if at % 2 == 0 {
            assert_eq!(behind.wait()?, 4, "{at}");
            commit.wait()?;
            assert_eq!(one.wait()?, 1, "{at}");
            assert_eq!(list.wait::<Vec<_>>()?, ["a", "b"], "{at}");
            assert_eq!(three.wait()?, 3, "{at}");
        } else {
            commit.wait()?;
            assert_eq!(one.wait()?, 1, "{at}");
            assert_eq!(list.wait::<Vec<_>>()?, ["a", "b"], "{at}");
            assert_eq!(three.wait()?, 3, "{at}");
            assert_eq!(behind.wait()?, 4, "{at}");
        }
        for _ in 0..2 {
            let push = conn.next_push().unwrap_or_else(|| panic!("no message at {at}"));
            assert_eq!(push.elements()[2], Value::Bulk(b"hi".into()));
        }
        assert_eq!(conn.next_push(), None, "{at}");
    }
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn attributes_in_front_of_the_reply_to_exec_are_passed_over() -> Result<()> {
    const ATTRIBUTE: &str = "|1\r\n+ttl\r\n*2\r\n:1\r\n:2\r\n";
    let (server, conn) = scripted_resp3(|peer| {
        for message in ["", MESSAGE] {
            peer.read_commands(4)?;
            peer.send(format!("+OK\r\n+QUEUED\r\n+QUEUED\r\n{ATTRIBUTE}*2\r\n:1\r\n{message}{ATTRIBUTE}:2\r\n"))?;
        }
        peer.read_commands(4)?;
        peer.send(format!("+OK\r\n{ATTRIBUTE}+QUEUED\r\n+QUEUED\r\n{ATTRIBUTE}_\r\n"))?;
        peer.expect_end()
    })?;
    for messages in 0..2 {
        let tx = conn.transaction();
        let (one, two) = (tx.incr("n"), tx.incr("n"));
        tx.commit().wait()?;
        assert_eq!((one.wait()?, two.wait()?), (1, 2));
        assert_eq!(conn.stats().pushes, messages, "each message once");
    }
    let tx = conn.transaction();
    tx.incr("n");
    tx.incr("n");
    assert!(matches!(tx.commit().wait(), Err(Error::Aborted)));
    drop(conn);
    server.finish();
    Ok(())
}

// Cuts.

const REPLY: &str =
    ":8\r\n+OK\r\n+QUEUED\r\n-ERR no\r\n+QUEUED\r\n*2\r\n:7\r\n*2\r\n$2\r\nab\r\n$1\r\nc\r\n$6\r\nbehind\r\n";

#[test]
fn every_split_of_the_replies_gives_the_same_values() -> Result<()> {
    let (opener, gate) = support::scripted::gate();
    let (server, conn) = scripted(move |peer| {
        for cut in 0..=REPLY.len() {
            peer.read_commands(7)?;
            peer.send_split_at_gate(REPLY, cut, &gate)?;
        }
        peer.expect_end()
    })?;
    for cut in 0..=REPLY.len() {
        let read = conn.stats().bytes_read as usize;
        let earlier = conn.incr("first");
        let tx = conn.transaction();
        let number = tx.incr("n");
        let refused: Queued<'_, Value> = tx.command("NOSUCHCMD", ());
        let list = tx.lrange::<String>("list", 0, -1);
        let commit = tx.commit();
        let behind = conn.echo::<String>("behind");
        conn.flush()?;
        read_up_to(&conn, &behind, read + cut)?;
        opener.open();
        if cut % 2 == 0 {
            assert_eq!(behind.wait()?, "behind", "at {cut}");
            commit.wait()?;
        } else {
            commit.wait()?;
            assert_eq!(behind.wait()?, "behind", "at {cut}");
        }
        assert_eq!(list.wait::<Vec<_>>()?, ["ab", "c"], "at {cut}");
        assert_eq!((earlier.wait()?, number.wait()?), (8, 7), "at {cut}");
        assert_eq!(code(refused.wait()), "ERR", "at {cut}");
    }
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn a_connection_lost_at_any_byte_gives_right_values_or_errors() -> Result<()> {
    let server = Scripted::start(|peer| {
        peer.handshake()?;
        peer.read_commands(7)?;
        peer.send(&REPLY[..peer.number()])?;
        peer.close();
        Ok(())
    });
    // Behind which byte each reply is whole.
    let end = |text: &str| REPLY.find(text).map_or(0, |at| at + text.len());
    let (earlier, refused) = (end(":8\r\n"), end("no\r\n"));
    let (header, number, list, last) = (end("*2\r\n"), end(":7\r\n"), end("c\r\n"), REPLY.len());
    for cut in 0..=REPLY.len() {
        let conn = Connection::open(support::config_for(&server.url()).timeout(Duration::from_secs(20)))?;
        #[track_caller]
        fn check<T: PartialEq + std::fmt::Debug>(cut: usize, whole: bool, got: Result<T>, wanted: T) {
            match got {
                Ok(got) => assert!(whole && got == wanted, "{got:?} at {cut}"),
                Err(error) => assert!(!whole && error.is_connection_lost(), "{error} at {cut}"),
            }
        }
        let first = conn.incr("first");
        let tx = conn.transaction();
        let seven = tx.incr("n");
        let none: Queued<'_, Value> = tx.command("NOSUCHCMD", ());
        let elements = tx.lrange::<String>("list", 0, -1);
        let commit = tx.commit();
        let behind = conn.echo::<String>("behind");
        // In a different order each time.
        if cut % 2 == 0 {
            check(cut, cut >= last, behind.wait(), "behind".to_owned());
            check(cut, cut >= header, commit.wait(), ());
        } else {
            check(cut, cut >= header, commit.wait(), ());
            check(cut, cut >= last, behind.wait(), "behind".to_owned());
        }
        check(cut, cut >= list, elements.wait::<Vec<_>>(), vec!["ab".to_owned(), "c".to_owned()]);
        check(cut, cut >= number, seven.wait(), 7);
        check(cut, cut >= earlier, first.wait(), 8);
        match none.wait() {
            Err(Error::Server(error)) => assert!(cut >= refused, "{error} at {cut}"),
            other => assert!(cut < refused && other.is_err_and(|error| error.is_connection_lost()), "at {cut}"),
        }
    }
    server.finish();
    Ok(())
}

#[test]
fn a_timeout_in_the_middle_leaves_the_connection_in_step() -> Result<()> {
    let (opener, gate) = support::scripted::gate();
    let (server, conn) = scripted(move |peer| {
        peer.expect_bytes(transaction(&[&["INCR", "n"], &["INCR", "n"]]))?;
        peer.send("+OK\r\n+QUEUED\r\n")?;
        gate.wait();
        peer.send("+QUEUED\r\n*2\r\n:1\r\n")?;
        gate.wait();
        peer.send(":2\r\n")?;
        peer.expect(["PING"])?;
        peer.send("+PONG\r\n")?;
        peer.expect_end()
    })?;
    let tx = conn.transaction();
    let (one, two) = (tx.incr("n"), tx.incr("n"));
    let commit = tx.commit();
    let short = Duration::from_millis(5);
    let Err(WaitError::Timeout(commit)) = commit.wait_timeout(short) else { panic!("no timeout") };
    let Err(WaitError::Timeout(one)) = one.wait_timeout(short) else { panic!("no timeout") };
    opener.open();
    commit.wait()?;
    assert_eq!(one.wait()?, 1);
    let Err(WaitError::Timeout(two)) = two.wait_timeout(short) else { panic!("no timeout") };
    opener.open();
    assert_eq!(two.wait()?, 2);
    conn.ping().wait()?;
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn a_commit_on_a_broken_connection_fails_and_so_do_its_handles() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let tx = conn.transaction();
    let number = tx.incr("n");
    server.kill();
    assert!(conn.ping().wait().is_err_and(|error| error.is_connection_lost()));
    let commit = tx.commit();
    assert!(number.wait().is_err_and(|error| error.is_connection_lost()));
    assert!(commit.wait().is_err_and(|error| error.is_connection_lost()));
    Ok(())
}

// Everything at once.

/// What a handle is, and the number that its reply must carry.
enum Held<'c> {
    Text(Reply<'c, String>, u64),
    Queued(Queued<'c, String>, u64, Fate),
    List(MultiBulk<'c, String>, u64, u64, Fate),
    Pairs(MultiBulk<'c, (String, u64)>, u64, u64, Fate),
    Commit(Reply<'c, ()>, Fate),
}

/// What becomes of a transaction.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Runs,
    Aborted,
    Refused,
    Discarded,
}

impl Fate {
    /// Whether a failing handle fails for the right reason.
    fn explains(self, error: &Error) -> bool {
        match self {
            Fate::Runs => false,
            Fate::Aborted => matches!(error, Error::Aborted),
            Fate::Refused => error.code() == Some("EXECABORT"),
            Fate::Discarded => matches!(error, Error::NotCommitted),
        }
    }

    #[track_caller]
    fn check<T: PartialEq + std::fmt::Debug>(self, got: Result<T>, wanted: T, seed: u64) {
        match got {
            Ok(got) => assert!(self == Fate::Runs && got == wanted, "{got:?} is not {wanted:?}, seed {seed}, {self:?}"),
            Err(error) => assert!(self.explains(&error), "{error:?} in place of {wanted:?}, seed {seed}, {self:?}"),
        }
    }
}

/// How many elements the list, and how many pairs the hash of this number has.
fn length(number: u64) -> u64 {
    number % 5
}

fn text_of(number: u64) -> Result<String> {
    if number % 7 == 3 {
        Err(redefer::ServerError::new(format!("ERR {number}")).into())
    } else {
        Ok(number.to_string())
    }
}

/// The reply to one command, which says whose it is.
fn reply_to(command: &[Vec<u8>]) -> String {
    let word = |at: usize| String::from_utf8_lossy(&command[at]).into_owned();
    let number = || word(1).parse::<u64>().unwrap_or(0);
    match word(0).as_str() {
        "ECHO" => match text_of(number()) {
            Ok(text) => format!("${}\r\n{text}\r\n", text.len()),
            Err(error) => format!("-{error}\r\n"),
        },
        "LRANGE" => {
            let (number, length) = (number(), length(number()));
            let elements = (0..length).map(|n| format!("+{number}.{n}\r\n"));
            format!("*{length}\r\n{}", elements.collect::<String>())
        }
        "HGETALL" => {
            let (number, length) = (number(), length(number()));
            let nested = if number % 3 == 0 { "*2\r\n" } else { "" };
            let pairs: String = (0..length).map(|n| format!("{nested}+{number}\r\n:{n}\r\n")).collect();
            match number % 3 {
                0 => format!("*{length}\r\n{pairs}"),
                1 => format!("*{}\r\n{pairs}", 2 * length),
                _ => format!("%{length}\r\n{pairs}"),
            }
        }
        other => panic!("{other}"),
    }
}

/// A server of transactions, which cuts what it says at random and puts pushes in between if they are allowed.
fn serve(peer: &mut Peer, seed: u64) -> io::Result<()> {
    let mut random = fastrand::Rng::with_seed(seed);
    let resp3 = peer.handshake()?[0][0] == b"HELLO";
    let mut queue: Option<Vec<Vec<Vec<u8>>>> = None;
    let mut refused = false;
    loop {
        let command = match peer.read_command() {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            command => command?,
        };
        let mut pieces = Vec::new();
        match (&command[0][..], &mut queue) {
            (b"MULTI", _) => {
                queue = Some(Vec::new());
                pieces.push("+OK\r\n".to_owned());
            }
            (b"EXEC", commands) => {
                let commands = commands.take().unwrap_or_default();
                if std::mem::take(&mut refused) {
                    pieces.push("-EXECABORT Transaction discarded because of previous errors.\r\n".to_owned());
                } else if commands.iter().any(|command| command[0] == b"ABORT") {
                    pieces.push("*-1\r\n".to_owned());
                } else {
                    pieces.push(format!("*{}\r\n", commands.len()));
                    pieces.extend(commands.iter().map(|command| reply_to(command)));
                }
                queue = None;
            }
            (b"REFUSE", Some(_)) => {
                refused = true;
                pieces.push("-ERR refused\r\n".to_owned());
            }
            (_, Some(commands)) => {
                commands.push(command);
                pieces.push("+QUEUED\r\n".to_owned());
            }
            (_, None) => pieces.push(reply_to(&command)),
        }
        for piece in pieces {
            if resp3 && random.u8(..) < 30 {
                peer.send(MESSAGE)?;
            }
            peer.send_split(&piece, random.usize(..piece.len()))?;
        }
    }
}

/// Issues, waits, iterates, drops, detaches and forgets in a random order, in which each handle must get its own.
fn mix(seed: u64) -> Result<()> {
    let mut random = fastrand::Rng::with_seed(seed);
    let random = &mut random;
    let server = Scripted::start(move |peer| serve(peer, seed ^ 0x5eed));
    let config = support::config_for(&server.url())
        .max_outstanding([2, 5, 20, 1000][random.usize(..4)])
        .write_batch([1, 50, 300, 8192][random.usize(..4)])
        .send_when([SendWhen::Adaptive, SendWhen::Eager, SendWhen::Gathering][random.usize(..3)]);
    let conn = Connection::open(config)?;
    let mut held: Vec<Held<'_>> = Vec::new();
    let mut number = 0;
    for _ in 0..150 {
        number += 1;
        match random.u8(..100) {
            0..20 => held.push(Held::Text(conn.echo(number), number)),
            20..30 => held.push(Held::List(conn.lrange(number, 0, -1), number, 0, Fate::Runs)),
            30..40 => held.push(Held::Pairs(conn.hgetall(number), number, 0, Fate::Runs)),
            40..52 => {
                let fate = [Fate::Runs, Fate::Runs, Fate::Aborted, Fate::Refused, Fate::Discarded][random.usize(..5)];
                let tx = conn.transaction();
                let from = held.len();
                for _ in 0..random.u8(..6) {
                    number += 1;
                    held.push(match random.u8(..3) {
                        0 => Held::Queued(tx.echo(number), number, fate),
                        1 => Held::List(tx.lrange(number, 0, -1), number, 0, fate),
                        _ => Held::Pairs(tx.hgetall(number), number, 0, fate),
                    });
                }
                match fate {
                    Fate::Aborted => tx.command::<Value>("ABORT", ()).detach(),
                    Fate::Refused => tx.command::<Value>("REFUSE", ()).detach(),
                    Fate::Runs | Fate::Discarded => {}
                }
                if held.len() > from && random.bool() {
                    give_up(held.swap_remove(random.usize(from..held.len())), random);
                }
                if fate != Fate::Discarded {
                    held.push(Held::Commit(tx.commit(), fate));
                }
            }
            52..56 => {
                let batch = conn.batch();
                for _ in 0..random.u8(..6) {
                    number += 1;
                    let queued = batch.echo(number);
                    if random.bool() {
                        held.push(Held::Queued(queued, number, Fate::Runs));
                    }
                }
                drop(batch);
            }
            56..66 if !held.is_empty() => wait(held.swap_remove(random.usize(..held.len())), seed),
            66..76 if !held.is_empty() => give_up(held.swap_remove(random.usize(..held.len())), random),
            76..92 if !held.is_empty() => {
                let at = random.usize(..held.len());
                step(&mut held[at], seed)?;
            }
            92..95 => conn.flush()?,
            95..97 => drop(conn.sync()),
            _ => assert!(!conn.is_broken(), "seed {seed}"),
        }
    }
    random.shuffle(&mut held);
    held.into_iter().for_each(|held| wait(held, seed));
    // Errors of handles that were given up are in the account, and nothing else is.
    match conn.sync() {
        Ok(()) | Err(Error::Server(_) | Error::Aborted | Error::Batch(_)) => {}
        Err(error) => panic!("{error:?}, seed {seed}"),
    }
    assert_eq!(conn.outstanding(), 0, "seed {seed}");
    drop(conn);
    server.finish();
    Ok(())
}

fn wait(held: Held<'_>, seed: u64) {
    match held {
        Held::Text(reply, number) => same_text(reply.wait(), number, Fate::Runs, seed),
        Held::Queued(reply, number, fate) => same_text(reply.wait(), number, fate, seed),
        Held::List(list, number, read, fate) => {
            let wanted: Vec<String> = (read..length(number)).map(|n| format!("{number}.{n}")).collect();
            fate.check(list.wait(), wanted, seed);
        }
        Held::Pairs(pairs, number, read, fate) => {
            let wanted: Vec<(String, u64)> = (read..length(number)).map(|n| (number.to_string(), n)).collect();
            fate.check(pairs.wait(), wanted, seed);
        }
        Held::Commit(commit, fate) => fate.check(commit.wait(), (), seed),
    }
}

#[track_caller]
fn same_text(got: Result<String>, number: u64, fate: Fate, seed: u64) {
    match (got, text_of(number)) {
        (Err(Error::Server(got)), Err(wanted)) if fate == Fate::Runs => {
            assert_eq!(got.to_string(), wanted.to_string(), "seed {seed}");
        }
        (got, Ok(wanted)) => fate.check(got, wanted, seed),
        (Err(error), Err(_)) => assert!(fate.explains(&error), "{error:?} for {number}, seed {seed}"),
        (Ok(got), Err(_)) => panic!("{got:?} for {number}, seed {seed}"),
    }
}

fn give_up(held: Held<'_>, random: &mut fastrand::Rng) {
    match (random.u8(..8), held) {
        (0, held) => std::mem::forget(held),
        (1..4, Held::Text(reply, _)) => reply.detach(),
        (1..4, Held::Queued(reply, ..)) => reply.detach(),
        (1..4, Held::List(list, ..)) => list.detach(),
        (1..4, Held::Commit(reply, _)) => reply.detach(),
        (_, held) => drop(held),
    }
}

/// Reads an element or asks whether there is something to be read.
fn step(held: &mut Held<'_>, seed: u64) -> Result<()> {
    match held {
        Held::Text(reply, _) => drop(reply.is_ready()?),
        Held::Queued(reply, ..) => drop(reply.is_ready()?),
        Held::Commit(reply, _) => drop(reply.is_ready()?),
        Held::List(list, number, read, Fate::Runs) => {
            assert_eq!(list.len()?, Some((length(*number) - *read) as usize), "seed {seed}");
            let wanted = (*read < length(*number)).then(|| format!("{number}.{read}"));
            *read += u64::from(wanted.is_some());
            assert_eq!(list.next().transpose()?, wanted, "seed {seed}");
        }
        Held::Pairs(pairs, number, read, Fate::Runs) => {
            let wanted = (*read < length(*number)).then(|| (number.to_string(), *read));
            *read += u64::from(wanted.is_some());
            assert_eq!(pairs.next().transpose()?, wanted, "seed {seed}");
        }
        Held::List(..) | Held::Pairs(..) => {}
    }
    Ok(())
}

#[test]
fn whatever_is_issued_and_in_whatever_order_it_is_used_each_handle_gets_its_own_reply() -> Result<()> {
    (0..200).try_for_each(mix)
}
