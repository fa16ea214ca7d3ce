//! What a caller sees of a real server that is killed, stands still, comes back, refuses or is full: which error, whether
//! the command has run, and what the connection is worth afterwards. `docs/delivery.md` is the table of it.

#![cfg(all(unix, feature = "testing"))]

mod support;

use std::time::Duration;

use redefer::commands::{ClientKillFilter, PauseMode, UnblockAnswer};
use redefer::{Error, Reconnect, Result, SendWhen, Sent, WaitError, prelude::*};
use support::{Private, config, open, server, server_with, until};

/// More than any of these tests needs.
const LIMIT: Duration = Duration::from_secs(20);
/// For a wait that is to time out.
const SHORT: Duration = Duration::from_millis(30);

/// How much of a command had been sent when its connection was lost.
#[track_caller]
fn lost<T>(outcome: Result<T>) -> Sent {
    // Values may be large: they are not shown.
    match outcome.map(drop) {
        Err(Error::ConnectionLost(lost)) if matches!(lost.cause(), Error::Io(_)) => lost.sent(),
        other => panic!("not lost by an I/O error: {other:?}"),
    }
}

/// The code word of the server's error.
#[track_caller]
fn code<T: std::fmt::Debug>(outcome: Result<T>) -> String {
    match outcome {
        Err(Error::Server(error)) => error.code().expect("a code word").to_owned(),
        other => panic!("not an error of the server: {other:?}"),
    }
}

#[track_caller]
fn timed_out<T: std::fmt::Debug>(outcome: Result<T>) {
    assert!(matches!(outcome, Err(Error::Timeout)), "{outcome:?}");
}

/// Of no more use, and the next connection works.
fn assert_lost_for_good(conn: &Connection, server: &Private) -> Result<()> {
    assert!(conn.is_broken());
    assert_eq!(lost(conn.ping().wait()), Sent::Unsent);
    open(server).ping().wait()
}

/// A server that keeps what it acknowledges.
fn durable() -> Private {
    server_with([("appendonly", "yes"), ("appendfsync", "always")])
}

// The process.

#[test]
fn a_killed_server_loses_what_was_sent_and_keeps_what_it_acknowledged() -> Result<()> {
    let server = durable();
    let conn = Connection::open(config(&server).send_when(SendWhen::Gathering))?;
    assert_eq!(conn.incr("n").wait()?, 1);
    // Sent, and not read by the server any more.
    server.pause()?;
    let sent: Vec<Reply<'_, i64>> = (0..100).map(|_| conn.incr("n")).collect();
    conn.flush()?;
    let unsent = conn.incr("n");
    server.kill();
    for reply in sent {
        assert_eq!(lost(reply.wait()), Sent::Fully);
    }
    assert_eq!(lost(unsent.wait()), Sent::Unsent);
    assert!(conn.is_broken());
    let Err(Error::Io(error)) = Connection::open(config(&server)) else { panic!("nobody is there") };
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);

    server.restart()?;
    assert_eq!(open(&server).get::<i64>("n").wait()?, 1);
    assert_lost_for_good(&conn, &server)
}

#[test]
fn a_server_killed_at_any_time_runs_each_command_at_most_once() -> Result<()> {
    let server = durable();
    let (mut acknowledged, mut perhaps) = (0, 0);
    for round in 0..10 {
        let conn = open(&server);
        let replies: Vec<Reply<'_, i64>> = (0..2_000).map(|_| conn.incr("n")).collect();
        let kill = std::thread::scope(|scope| {
            let server = &server;
            let kill = scope.spawn(move || server.kill());
            for reply in replies {
                match reply.wait() {
                    Ok(_) => acknowledged += 1,
                    outcome => perhaps += i64::from(lost(outcome) == Sent::Fully),
                }
            }
            kill.join()
        });
        assert!(kill.is_ok(), "round {round}");
        server.restart()?;
        let value = open(&server).get::<Option<i64>>("n").wait()?.unwrap_or(0);
        let range = acknowledged..=acknowledged + perhaps;
        assert!(range.contains(&value), "round {round}: {value} is not in {range:?}");
        // From here on it is known.
        (acknowledged, perhaps) = (value, 0);
    }
    Ok(())
}

#[test]
fn a_restarted_server_is_another_connection() -> Result<()> {
    let server = durable();
    let conn = open(&server);
    conn.set("key", "kept").wait()?;
    let watch = conn.watch("key")?;
    server.restart()?;
    let tx = watch.transaction();
    let queued = tx.set("key", "overwritten");
    // The close is noticed when something is read or written: MULTI and EXEC may have been given to the system by then.
    assert_ne!(lost(tx.commit().wait()), Sent::Partly);
    assert_ne!(lost(queued.wait()), Sent::Partly);
    assert_lost_for_good(&conn, &server)?;
    assert_eq!(open(&server).get::<String>("key").wait()?, "kept");
    Ok(())
}

#[test]
fn a_wait_finds_a_server_that_is_back_however_long_the_delay_of_the_policy() -> Result<()> {
    let hour = Duration::from_secs(3600);
    for shares in [false, true] {
        let server = server();
        // What is tried meanwhile is not the second of its attempts.
        let policy = Reconnect::backoff().attempts(2).first_delay(hour).max_delay(hour);
        let conn = Connection::open(config(&server).reconnect(policy).timeout(Duration::from_secs(2)))?;
        server.kill();
        if shares {
            let shared = conn.into_shared()?;
            assert!(shared.ping().wait().is_err());
            // Dials in vain.
            assert_eq!(lost(shared.ping().wait()), Sent::Unsent);
            server.restart()?;
            assert_eq!(shared.get::<Option<String>>("k").wait()?, None);
        } else {
            assert!(conn.ping().wait().is_err());
            assert_eq!(lost(conn.ping().wait()), Sent::Unsent);
            server.restart()?;
            assert_eq!(conn.get::<Option<String>>("k").wait()?, None);
        }
    }
    Ok(())
}

#[test]
fn a_server_that_is_shut_down_ends_what_is_blocked_on_it() -> Result<()> {
    let server = server();
    let (conn, other) = (open(&server), open(&server));
    let pop = conn.blpop::<String, String>("queue", None);
    let behind = conn.incr("n");
    conn.flush()?;
    assert!(other.command::<()>("SHUTDOWN", "NOSAVE").wait().is_err());
    assert_eq!(lost(pop.wait()), Sent::Fully);
    assert_eq!(lost(behind.wait()), Sent::Fully);
    assert!(conn.is_broken() && other.is_broken());
    Ok(())
}

#[test]
fn a_server_that_stands_still_costs_timeouts_and_no_reply() -> Result<()> {
    let server = server();
    let conn = Connection::open(config(&server).timeout(SHORT))?;
    server.pause()?;
    timed_out(conn.incr("n").wait());
    let held = conn.incr("n");
    let Err(WaitError::Timeout(held)) = held.wait_timeout(SHORT) else { panic!("nobody answers") };
    conn.incr("n").detach();
    timed_out(conn.flush().and_then(|()| conn.sync()));
    timed_out(conn.watch("key").map(drop));
    let batch = conn.batch();
    batch.incr("n");
    timed_out(batch.finish());
    let tx = conn.transaction();
    let queued = tx.incr("n");
    timed_out(tx.commit().wait());
    assert!(!conn.is_broken());
    server.resume()?;
    // Everything was sent, and has run once and in order; the replies that nobody waits for any more are skipped.
    let Ok(value) = queued.wait_timeout(LIMIT) else { panic!("it answers again") };
    assert_eq!(value, 5);
    assert_eq!(held.wait()?, 2);
    let Ok(value) = conn.incr("n").wait_timeout(LIMIT) else { panic!("it answers again") };
    assert_eq!(value, 6);
    assert!(!conn.is_broken());
    Ok(())
}

#[test]
fn a_server_that_stands_still_is_not_connected_to() -> Result<()> {
    let server = server();
    server.pause()?;
    for config in [config(&server), support::unix_config(&server)] {
        timed_out(Connection::open(config.connect_timeout(SHORT)));
    }
    server.resume()?;
    open(&server).ping().wait()
}

#[test]
fn a_server_that_stands_still_while_it_is_written_to_gets_every_byte_later() -> Result<()> {
    let server = server();
    let conn = Connection::open(config(&server).timeout(SHORT).write_batch(1000))?;
    server.pause()?;
    let value = vec![b'x'; 32 << 20];
    let large = conn.set("large", &value);
    let Err(WaitError::Timeout(large)) = large.wait_timeout(SHORT) else { panic!("nobody takes 32 MiB") };
    // Taken in is only what the socket takes: this one is not, and will never run.
    let refused = conn.incr("n");
    timed_out(refused.wait());
    assert!(!conn.is_broken());
    server.resume()?;
    assert!(large.wait_timeout(LIMIT).is_ok());
    let Ok(length) = conn.strlen("large").wait_timeout(LIMIT) else { panic!("it answers again") };
    assert_eq!(length, 32 << 20);
    let Ok(value) = conn.incr("n").wait_timeout(LIMIT) else { panic!("it answers again") };
    assert_eq!(value, 1);
    Ok(())
}

#[test]
fn a_stopped_server_that_is_killed_has_run_nothing() -> Result<()> {
    let server = durable();
    let conn = Connection::open(config(&server).timeout(SHORT))?;
    conn.set("n", 10).wait()?;
    server.pause()?;
    // Told as a timeout, and lost later: nobody is told twice, and the account tells that it is lost.
    timed_out(conn.incr("n").wait());
    server.kill();
    assert_eq!(lost(conn.sync()), Sent::Fully);
    server.restart()?;
    assert_eq!(open(&server).get::<i64>("n").wait()?, 10);
    assert_lost_for_good(&conn, &server)
}

// What a server refuses: it has not run, and the connection is as good as before.

/// A write on its own, in a batch and in a transaction is refused with this word; a read and the connection go on.
fn assert_writes_are_refused(conn: &Connection, word: &str) -> Result<()> {
    assert_eq!(code(conn.incr("n").wait()), word);
    drop(conn.incr("n"));
    assert_eq!(code(conn.sync()), word);
    let batch = conn.batch();
    batch.incr("n");
    let read = batch.get::<String>("key");
    let Err(Error::Batch(error)) = batch.finish() else { panic!("the batch has not failed") };
    assert_eq!((error.first().code(), error.position(), error.failed()), (Some(word), 0, 1));
    assert_eq!(read.wait()?, "value");
    let tx = conn.transaction();
    let (read, write) = (tx.get::<String>("key"), tx.incr("n"));
    assert_eq!(code(tx.commit().wait()), "EXECABORT");
    // Redis 7.0 without memory queues nothing at all.
    assert!(["EXECABORT", "OOM"].contains(&code(read.wait()).as_str()));
    assert_eq!(code(write.wait()), word);
    assert_eq!(conn.get::<String>("key").wait()?, "value");
    assert_eq!(conn.get::<Option<i64>>("n").wait()?, None);
    assert!(!conn.is_broken());
    Ok(())
}

/// It runs once when nothing is in its way any more.
fn assert_works_again(conn: &Connection) -> Result<()> {
    assert_eq!(conn.incr("n").wait()?, 1);
    conn.sync()
}

#[test]
fn a_read_only_replica_refuses_writes_and_answers_reads() -> Result<()> {
    let server = server();
    let conn = open(&server);
    conn.set("key", "value").wait()?;
    conn.replicaof("127.0.0.1", redefer::testing::free_port()?).wait()?;
    assert_writes_are_refused(&conn, "READONLY")?;
    conn.config_set(("replica-serve-stale-data", "no")).wait()?;
    assert_eq!(code(conn.get::<String>("key").wait()), "MASTERDOWN");
    conn.replicaof_no_one().wait()?;
    assert_eq!(conn.get::<String>("key").wait()?, "value");
    assert_works_again(&conn)
}

#[test]
fn a_server_without_memory_refuses_writes_and_answers_reads() -> Result<()> {
    let server = server();
    let conn = open(&server);
    conn.set("key", "value").wait()?;
    conn.config_set([("maxmemory-policy", "noeviction"), ("maxmemory", "1")]).wait()?;
    assert_writes_are_refused(&conn, "OOM")?;
    conn.config_set(("maxmemory", 0)).wait()?;
    assert_works_again(&conn)
}

#[test]
fn a_server_without_its_replicas_refuses_writes_and_answers_reads() -> Result<()> {
    let server = server();
    let conn = open(&server);
    conn.set("key", "value").wait()?;
    conn.config_set(("min-replicas-to-write", 1)).wait()?;
    assert_writes_are_refused(&conn, "NOREPLICAS")?;
    conn.config_set(("min-replicas-to-write", 0)).wait()?;
    assert_works_again(&conn)
}

#[test]
fn a_server_that_cannot_save_refuses_writes_and_answers_reads() -> Result<()> {
    let server = server();
    let conn = open(&server);
    conn.set("key", "value").wait()?;
    // A snapshot cannot replace a directory.
    let file = server.dir().join("dump.rdb");
    std::fs::create_dir(&file)?;
    conn.config_set(("save", "3600 1000000")).wait()?;
    conn.command::<Value>("BGSAVE", ()).wait()?;
    until("saving has failed", || Ok(conn.info().wait()?.get("rdb_last_bgsave_status") == Some("err")))?;
    assert_writes_are_refused(&conn, "MISCONF")?;
    conn.config_set(("stop-writes-on-bgsave-error", "no")).wait()?;
    assert_works_again(&conn)
}

#[test]
fn a_loading_server_is_connected_to_and_refuses_everything_until_it_has_loaded() -> Result<()> {
    let server = server_with([("key-load-delay", "200"), ("loading-process-events-interval-bytes", "1024")]);
    let (conn, loader) = (open(&server), open(&server));
    let batch = conn.batch();
    for key in 0..5_000 {
        batch.set(key, "value");
    }
    batch.finish()?;
    let reload = loader.command::<()>("DEBUG", "RELOAD");
    loader.flush()?;
    // Answered before it begins, then refused.
    let mut refused = None;
    while refused.is_none() && !reload.is_ready()? {
        match conn.get::<String>("1").wait() {
            Ok(value) => assert_eq!(value, "value"),
            outcome => refused = Some(code(outcome)),
        }
    }
    assert_eq!(refused.as_deref(), Some("LOADING"));
    // One that is opened meanwhile is refused as well, or has come too late.
    match open(&server).incr("n").wait() {
        Ok(1) => {}
        outcome => assert_eq!(code(outcome), "LOADING"),
    }
    reload.wait()?;
    assert_eq!(conn.get::<String>("1").wait()?, "value");
    assert!(!conn.is_broken());
    conn.sync()
}

#[test]
fn a_server_busy_with_a_script_refuses_others_until_it_is_killed() -> Result<()> {
    let server = server_with([("lua-time-limit", "1")]);
    let (conn, other) = (open(&server), open(&server));
    let script = conn.command::<Value>("EVAL", ("while true do end", 0));
    let behind = conn.incr("n");
    conn.flush()?;
    let refused = loop {
        if let outcome @ Err(_) = other.incr("other").wait() {
            break code(outcome);
        }
    };
    assert_eq!(refused, "BUSY");
    other.command::<()>("SCRIPT", "KILL").wait()?;
    let error = script.wait().unwrap_err();
    assert!(error.to_string().contains("killed by user"), "{error}");
    assert_eq!(behind.wait()?, 1);
    assert!(!conn.is_broken());
    other.ping().wait()
}

// Limits on clients.

#[test]
fn a_full_server_lets_nobody_else_in_and_goes_on_with_the_others() -> Result<()> {
    let server = server_with([("maxclients", "2")]);
    let (one, two) = (open(&server), open(&server));
    for config in [config(&server), support::unix_config(&server)] {
        match Connection::open(config) {
            Err(Error::Server(error)) => assert_eq!(error.message(), b"ERR max number of clients reached"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(one.incr("n").wait()? + two.incr("n").wait()?, 3);
    drop(one);
    until("the other has gone", || Ok(two.client_list().wait()?.len() == 1))?;
    open(&server).ping().wait()
}

#[test]
fn a_reply_over_the_output_buffer_limit_costs_the_connection() -> Result<()> {
    let server = server();
    let conn = open(&server);
    conn.config_set(("client-output-buffer-limit", "normal 1mb 0 0")).wait()?;
    let before = conn.incr("n");
    // Made by a script: what is sent right from the key space does not count on every server.
    let large = conn.command::<Vec<u8>>("EVAL", ("return string.rep('x', 32 * 1024 * 1024)", 0));
    let behind = conn.incr("n");
    conn.flush()?;
    assert_eq!(lost(large.wait()), Sent::Fully);
    assert_eq!(lost(behind.wait()), Sent::Fully);
    // Its reply may have been thrown away with the large one.
    match before.wait() {
        Ok(value) => assert_eq!(value, 1),
        outcome => assert_eq!(lost(outcome), Sent::Fully),
    }
    assert_lost_for_good(&conn, &server)
}

#[test]
fn a_command_over_the_query_buffer_limit_costs_the_connection_and_does_not_run() -> Result<()> {
    let server = server();
    let other = open(&server);
    other.config_set(("client-query-buffer-limit", "1mb")).wait()?;
    let conn = Connection::open(config(&server).send_when(SendWhen::Gathering).write_batch(1 << 30))?;
    let large = conn.set("large", vec![b'x'; 64 << 20]);
    let behind = conn.incr("n");
    assert_eq!(lost(large.wait()), Sent::Partly);
    assert_eq!(lost(behind.wait()), Sent::Unsent);
    assert_eq!(other.exists(["large", "n"]).wait()?, 0);
    assert_lost_for_good(&conn, &server)
}

#[test]
fn a_value_longer_than_the_server_takes_is_told_in_its_words_and_costs_the_connection() -> Result<()> {
    let server = server();
    let other = open(&server);
    other.config_set(("proto-max-bulk-len", "1mb")).wait()?;
    let conn = Connection::open(config(&server).send_when(SendWhen::Gathering).write_batch(1 << 30))?;
    let before = conn.incr("n");
    let large = conn.set("large", vec![b'x'; 64 << 20]);
    let behind = conn.incr("n");
    // The server says why and closes; with the rest unread that is a reset, which may overtake its words.
    match large.wait() {
        Err(Error::Server(error)) => assert_eq!(error.message(), b"ERR Protocol error: invalid bulk length"),
        outcome => assert_eq!(lost(outcome), Sent::Partly),
    }
    assert_eq!(lost(behind.wait()), Sent::Unsent);
    match before.wait() {
        Ok(value) => assert_eq!(value, 1),
        outcome => assert_eq!(lost(outcome), Sent::Fully),
    }
    assert_eq!(other.exists("large").wait()?, 0);
    assert_eq!(other.get::<i64>("n").wait()?, 1);
    assert_lost_for_good(&conn, &server)
}

// What another client does.

#[test]
fn a_client_that_is_killed_in_a_transaction_has_run_all_of_it_or_nothing() -> Result<()> {
    let server = server();
    let other = open(&server);
    for round in 1..=20 {
        let conn = open(&server);
        let id = conn.client_id().wait()?;
        let tx = conn.transaction();
        let queued: Vec<Queued<'_, i64>> = (0..100).map(|_| tx.incr("n")).collect();
        let commit = tx.commit();
        if round % 2 == 0 {
            conn.flush()?;
        }
        assert_eq!(other.client_kill_with(ClientKillFilter::new().id(id)).wait()?, 1);
        let before = other.get::<Option<i64>>("n").wait()?.unwrap_or(0);
        assert_eq!(before % 100, 0, "round {round}");
        match commit.wait() {
            Ok(()) => {}
            outcome => assert_ne!(lost(outcome), Sent::Partly),
        }
        for reply in queued {
            match reply.wait() {
                Ok(value) => assert!(value <= before),
                outcome => assert_ne!(lost(outcome), Sent::Partly),
            }
        }
        assert!(conn.ping().wait().is_err());
        assert_lost_for_good(&conn, &server)?;
    }
    Ok(())
}

#[test]
fn paused_writes_time_out_and_run_once_when_they_are_let_go() -> Result<()> {
    let server = server();
    let (conn, other) = (Connection::open(config(&server).timeout(SHORT))?, open(&server));
    other.client_pause_with(Duration::from_secs(3600), PauseMode::Write).wait()?;
    assert_eq!(conn.get::<Option<i64>>("n").wait()?, None);
    timed_out(conn.incr("n").wait());
    // Everything behind it waits as well.
    let read = conn.get::<i64>("n");
    let Err(WaitError::Timeout(read)) = read.wait_timeout(SHORT) else { panic!("the write is paused") };
    other.client_unpause().wait()?;
    let Ok(value) = read.wait_timeout(LIMIT) else { panic!("nothing is paused") };
    assert_eq!(value, 1);
    assert!(!conn.is_broken());
    Ok(())
}

#[test]
fn a_blocked_command_that_another_client_unblocks_answers_nil_or_says_so() -> Result<()> {
    let server = server();
    let (conn, other) = (open(&server), open(&server));
    let id = conn.client_id().wait()?;
    for answer in [UnblockAnswer::Timeout, UnblockAnswer::Error] {
        let pop = conn.blpop::<String, String>("queue", None);
        let behind = conn.echo::<i64>(7);
        conn.flush()?;
        until("it is blocked", || other.client_unblock_with(id, answer).wait())?;
        match answer {
            UnblockAnswer::Timeout => assert_eq!(pop.wait()?, None),
            _ => assert_eq!(code(pop.wait()), "UNBLOCKED"),
        }
        assert_eq!(behind.wait()?, 7);
    }
    assert!(!conn.is_broken());
    conn.sync()
}

#[test]
fn a_blocked_command_on_a_server_that_becomes_a_replica_says_so_and_costs_the_connection() -> Result<()> {
    let server = server();
    let (conn, other) = (open(&server), open(&server));
    let pop = conn.blpop::<String, String>("queue", None);
    let behind = conn.echo::<i64>(7);
    conn.flush()?;
    until("it is blocked", || Ok(other.info().wait()?.get("blocked_clients") == Some("1")))?;
    other.replicaof("127.0.0.1", redefer::testing::free_port()?).wait()?;
    assert_eq!(code(pop.wait()), "UNBLOCKED");
    assert_eq!(lost(behind.wait()), Sent::Fully);
    assert_lost_for_good(&conn, &server)
}

#[test]
fn a_user_that_is_deleted_loses_its_connections() -> Result<()> {
    let server = server_with([("user", "alice on >secret ~* +@all")]);
    let other = open(&server);
    let conn = Connection::open(config(&server).user("alice").password("secret"))?;
    conn.set("key", "value").wait()?;
    assert_eq!(other.command::<i64>("ACL", ("DELUSER", "alice")).wait()?, 1);
    assert_ne!(lost(conn.incr("n").wait()), Sent::Partly);
    assert_eq!(other.exists("n").wait()?, 0);
    assert_lost_for_good(&conn, &server)
}
