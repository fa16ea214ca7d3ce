//! Scripts and functions, against a real server.
#![cfg(feature = "testing")]

mod support;

use std::time::Duration;

use redefer::commands::{FlushMode, FunctionListOptions, FunctionRestorePolicy};
use redefer::prelude::*;
use redefer::{Result, Script, WaitError};

const UNKNOWN: &str = "ffffffffffffffffffffffffffffffffffffffff";

const LIBRARY: &str = "#!lua name=mylib
redis.register_function{function_name='f', callback=function(keys, args) return {keys[1], args[1]} end,
  flags={'no-writes'}, description='says it again'}
redis.register_function('g', function() return 1 end)";

const SPIN: &str = "#!lua name=spin
redis.register_function{function_name='spin', callback=function() while true do end end, flags={'no-writes'}}";

fn has(conn: &Connection, command: &str) -> Result<bool> {
    let info: Vec<Value> = conn.command("COMMAND", ("INFO", command)).wait()?;
    Ok(info.first().is_some_and(|entry| !entry.is_nil()))
}

#[test]
fn scripts_are_run() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    assert_eq!(conn.eval::<i64>("return 3.99", (), ()).wait()?, 3);
    assert_eq!(conn.eval::<Option<i64>>("return false", (), ()).wait()?, None);
    let both: (String, i64) = conn.eval("return {KEYS[2], ARGV[1]}", ["a", "b"], 7).wait()?;
    assert_eq!(both, ("b".into(), 7));
    assert_eq!(conn.eval::<()>("return {err='MYERR bad'}", (), ()).wait().unwrap_err().code(), Some("MYERR"));
    let digest = conn.script_load("return redis.call('GET', KEYS[1])").wait()?;
    conn.set("k", "v").wait()?;
    assert_eq!(conn.evalsha::<String>(&digest, "k", ()).wait()?, "v");
    assert_eq!(conn.evalsha::<String>(UNKNOWN, (), ()).wait().unwrap_err().code(), Some("NOSCRIPT"));
    assert_eq!(conn.eval_ro::<String>("return redis.call('GET', KEYS[1])", "k", ()).wait()?, "v");
    assert_eq!(conn.evalsha_ro::<String>(&digest, "k", ()).wait()?, "v");
    let writes = conn.eval_ro::<()>("return redis.call('SET', KEYS[1], 1)", "k", ()).wait();
    assert!(writes.unwrap_err().as_server_error().is_some());
    Ok(())
}

#[test]
fn the_server_keeps_scripts() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let digest = conn.script_load("return 1").wait()?;
    assert_eq!(digest, "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
    assert_eq!(conn.script_exists([UNKNOWN, &digest]).wait::<Vec<bool>>()?, [false, true]);
    if has(&conn, "SCRIPT|SHOW")? {
        assert_eq!(conn.script_show::<String>(&digest).wait()?, "return 1");
        assert_eq!(conn.script_show::<String>(UNKNOWN).wait().unwrap_err().code(), Some("NOSCRIPT"));
    }
    conn.script_flush().wait()?;
    assert_eq!(conn.script_exists(&digest).wait::<Vec<bool>>()?, [false]);
    conn.script_flush_with(FlushMode::Sync).wait()?;
    conn.script_flush_with(FlushMode::Async).wait()?;
    assert_eq!(conn.script_kill().wait().unwrap_err().code(), Some("NOTBUSY"));
    assert!(conn.script_help().wait::<Vec<String>>()?.iter().any(|line| line.starts_with("EXISTS")));
    let debug = conn.command::<()>("SCRIPT", ("DEBUG", "YES")).wait();
    assert!(matches!(debug, Err(Error::Refused(_))), "{debug:?}");
    Ok(())
}

#[test]
fn functions_are_loaded_called_and_listed() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    assert_eq!(conn.function_load(LIBRARY).wait()?, "mylib");
    assert!(conn.function_load(LIBRARY).wait().unwrap_err().as_server_error().is_some());
    assert_eq!(conn.function_load_replace(LIBRARY).wait()?, "mylib");
    assert_eq!(conn.fcall::<(String, i64)>("f", "k", 7).wait()?, ("k".into(), 7));
    assert_eq!(conn.fcall_ro::<(String, i64)>("f", "k", 7).wait()?, ("k".into(), 7));
    assert_eq!(conn.fcall::<i64>("g", (), ()).wait()?, 1);
    assert!(conn.fcall_ro::<i64>("g", (), ()).wait().is_err(), "it may write");
    assert!(conn.fcall::<()>("none", (), ()).wait().is_err());

    let mut libraries: Vec<_> = conn.function_list().wait()?;
    let mut library = libraries.pop().unwrap();
    assert!(libraries.is_empty() && library.other.is_empty(), "{:?}", library.other);
    assert_eq!((library.name.as_str(), library.engine.as_str(), library.code), ("mylib", "LUA", None));
    library.functions.sort_by(|a, b| a.name.cmp(&b.name));
    let [f, g] = &library.functions[..] else { panic!("{:?}", library.functions) };
    assert_eq!((f.name.as_str(), f.description.as_deref()), ("f", Some("says it again")));
    assert_eq!((&f.flags[..], f.other.len()), (&["no-writes".to_owned()][..], 0));
    assert_eq!((g.name.as_str(), g.description.as_deref(), g.flags.len()), ("g", None, 0));

    let options = FunctionListOptions::new();
    let libraries: Vec<_> = conn.function_list_with(&options.clone().withcode()).wait()?;
    assert_eq!(libraries[0].code.as_deref(), Some(LIBRARY.as_bytes()));
    assert_eq!(conn.function_list_with(&options.clone().library("my*")).count(), 1);
    assert_eq!(conn.function_list_with(&options.library("none")).count(), 0);

    let stats = conn.function_stats().wait()?;
    assert_eq!((stats.running, stats.other.len()), (None, 0));
    assert_eq!((stats.engines["LUA"].libraries, stats.engines["LUA"].functions), (1, 2));
    assert!(conn.function_help().wait::<Vec<String>>()?.iter().any(|line| line.starts_with("DUMP")));
    assert_eq!(conn.function_kill().wait().unwrap_err().code(), Some("NOTBUSY"));
    Ok(())
}

#[test]
fn functions_are_dumped_restored_and_deleted() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.function_load(LIBRARY).wait()?;
    let dump = conn.function_dump().wait()?;
    assert!(conn.function_restore(&dump).wait().is_err(), "it is there");
    assert!(conn.function_restore_with(&dump, FunctionRestorePolicy::Append).wait().is_err());
    conn.function_restore_with(&dump, FunctionRestorePolicy::Replace).wait()?;
    conn.function_delete("mylib").wait()?;
    assert!(conn.function_delete("mylib").wait().is_err());
    conn.function_restore(&dump).wait()?;
    conn.function_load(SPIN).wait()?;
    assert_eq!(conn.function_list().count(), 2);
    conn.function_restore_with(&dump, FunctionRestorePolicy::Flush).wait()?;
    assert_eq!(conn.function_list().count(), 1);
    for mode in [None, Some(FlushMode::Sync), Some(FlushMode::Async)] {
        match mode {
            None => conn.function_flush().wait()?,
            Some(mode) => conn.function_flush_with(mode).wait()?,
        }
        assert_eq!(conn.function_list().count(), 0);
        conn.function_restore(&dump).wait()?;
    }
    Ok(())
}

#[test]
fn what_runs_too_long_is_shown_and_killed() -> Result<()> {
    let server = support::server_with([("busy-reply-threshold", "20")]);
    let (conn, other) = (support::open(&server), support::open(&server));
    conn.function_load(SPIN).wait()?;
    let running = conn.fcall::<()>("spin", "k", "x");
    conn.flush()?;
    let mut found = None;
    support::until("it runs", || {
        found = other.function_stats().wait()?.running;
        Ok(found.is_some())
    })?;
    let found = found.unwrap();
    assert_eq!((found.name.as_str(), found.other.len()), ("spin", 0));
    assert_eq!(found.command, [&b"FCALL"[..], b"spin", b"1", b"k", b"x"]);
    assert!(found.duration > Duration::ZERO);
    // Commands of others are refused meanwhile, and so is the command that is for scripts.
    assert_eq!(other.get::<String>("k").wait().unwrap_err().code(), Some("BUSY"));
    assert!(other.script_kill().wait().is_err());
    other.function_kill().wait()?;
    assert!(running.wait().unwrap_err().as_server_error().is_some());

    let running = conn.eval::<()>("while true do end", (), ());
    conn.flush()?;
    support::until("killed", || Ok(other.script_kill().wait().is_ok()))?;
    assert!(running.wait().unwrap_err().as_server_error().is_some());
    Ok(())
}

#[test]
fn a_script_is_sent_where_it_is_not_known() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let script = Script::new("return {KEYS[1], ARGV[1], ARGV[2]}");
    let run = || script.run::<(String, i64, String), _>(&conn, "k", (7, args::each(["x"]))).wait();
    let right = ("k".to_owned(), 7, "x".to_owned());
    assert_eq!(conn.script_exists(script.digest()).wait::<Vec<bool>>()?, [false]);
    let before = conn.stats();
    assert_eq!(run()?, right, "not known");
    assert_eq!(conn.script_exists(script.digest()).wait::<Vec<bool>>()?, [true]);
    assert_eq!(run()?, right, "known");
    assert_eq!(conn.stats().unseen_errors, before.unseen_errors, "and nobody hears of the error");
    conn.script_flush().wait()?;
    assert_eq!(script.run_ro::<(String, i64, String), _>(&conn, "k", (7, "x")).wait()?, right);
    assert_eq!(script.run_ro::<(String, i64, String), _>(&conn, "k", (7, "x")).wait()?, right);

    // An iterator that fails keeps the script from being sent.
    let failing = || args::try_each([Ok("k"), Err(Error::custom("mine"))]);
    assert_eq!(script.run::<(), _>(&conn, failing(), ()).wait().unwrap_err().to_string(), "mine");
    assert_eq!(script.run::<(), _>(&conn, (), failing()).wait().unwrap_err().to_string(), "mine");

    // Errors of the script itself are not taken for that, and nothing is run twice.
    let script = Script::new("redis.call('INCR', KEYS[1]) return {err='NOSCRIPT mine'}");
    script.load(&conn).wait()?;
    let error = script.run::<(), _>(&conn, "n", ()).wait().unwrap_err();
    assert_eq!(error.as_server_error().unwrap().message(), b"NOSCRIPT mine");
    assert_eq!(conn.get::<i64>("n").wait()?, 1);
    conn.sync()
}

#[test]
fn a_script_that_is_not_known_runs_when_it_is_waited_for() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let script = Script::new("return redis.call('GET', KEYS[1])");
    let in_order = |right: [&str; 2]| -> Result<()> {
        conn.set("k", "old").wait()?;
        let first = script.run::<String, _>(&conn, "k", ());
        let second = conn.set("k", "new");
        let third = script.run::<String, _>(&conn, "k", ());
        assert_eq!((first.wait()?, third.wait()?), (right[0].into(), right[1].into()));
        second.wait()
    };
    in_order(["new", "new"])?;
    in_order(["old", "new"])?;
    conn.script_flush().wait()?;
    // A load in front is enough, and is not waited for.
    script.load(&conn).detach();
    in_order(["old", "new"])?;

    // Many that are not known, waited for in reverse.
    conn.script_flush().wait()?;
    let echo = Script::new("return ARGV[1]");
    let handles: Vec<_> = (0..50).map(|n| echo.run::<i64, _>(&conn, (), n)).collect();
    for (n, handle) in handles.into_iter().enumerate().rev() {
        assert_eq!(handle.wait()?, n as i64);
    }
    conn.sync()
}

#[test]
fn the_handle_of_a_script_is_polled_dropped_and_given_back() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let script = Script::new("return ARGV[1]");
    let handle = script.run::<i64, _>(&conn, (), 7);
    support::until("answered", || handle.is_ready())?;
    assert!(handle.is_ready()?);
    assert_eq!(handle.wait()?, 7);
    let handle = script.run::<i64, _>(&conn, (), 8);
    support::until("answered", || handle.is_ready())?;
    assert_eq!(handle.wait_timeout(Duration::ZERO).map_err(Error::from)?, 8);

    // In both of its states a handle comes back when the time was not enough.
    let slow = Script::new("local n = 0 repeat n = n + 1 until n == 3e7 return n");
    let mut handle = slow.run::<i64, _>(&conn, (), ());
    let mut given_back = 0;
    let n = loop {
        match handle.wait_timeout(Duration::from_millis(1)) {
            Ok(n) => break n,
            Err(WaitError::Timeout(again)) => {
                given_back += 1;
                handle = again;
            }
            Err(WaitError::Failed(error)) => return Err(error),
        }
    };
    assert!(n == 30_000_000 && given_back > 0, "{n}, {given_back}");
    let handle = slow.run::<i64, _>(&conn, (), ());
    let Err(WaitError::Timeout(handle)) = handle.wait_timeout(Duration::from_millis(1)) else { panic!("it is slow") };
    assert_eq!(handle.wait()?, 30_000_000);

    // Dropped or detached, a script that is not known does not run, and that is told.
    for detach in [false, true] {
        conn.script_flush().wait()?;
        let counts = Script::new("return redis.call('INCR', KEYS[1])");
        let handle = counts.run::<i64, _>(&conn, "n", ());
        if detach {
            handle.detach()
        } else {
            drop(handle)
        }
        assert_eq!(conn.sync().unwrap_err().code(), Some("NOSCRIPT"));
        assert_eq!(conn.exists("n").wait()?, 0);
    }
    Ok(())
}

#[test]
fn scripts_and_functions_work_in_batches_and_transactions() -> Result<()> {
    fn double<C: ScriptingCommands + Copy>(on: C, script: &Script) -> (C::Reply<i64>, C::Reply<i64>) {
        script.load(on).detach();
        (script.evalsha(on, (), 2), script.eval(on, (), 4))
    }
    let server = support::server();
    let conn = support::open(&server);
    let script = Script::new("return 2 * ARGV[1]");
    let batch = conn.batch();
    let (a, b) = double(&batch, &script);
    batch.finish()?;
    assert_eq!((a.wait()?, b.wait()?), (4, 8));
    conn.script_flush().wait()?;
    let tx = conn.transaction();
    let (a, b) = double(&tx, &script);
    tx.commit().wait()?;
    assert_eq!((a.wait()?, b.wait()?), (4, 8));
    let (a, b) = double(&conn, &script);
    assert_eq!((a.wait()?, b.wait()?), (4, 8));
    conn.sync()
}
