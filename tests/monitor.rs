//! MONITOR as an iterator: what servers tell, what no server should, and the way back.

#![cfg(feature = "testing")]

mod support;

use std::io;
use std::time::{Duration, SystemTime};

use redefer::{Error, Monitor, MonitorClient, MonitorEntry, Reconnect, Result, Sent, prelude::*};
use support::scripted::{Peer, Scripted};

/// For what is sure to come.
const LONG: Duration = Duration::from_secs(20);
const LIMIT: Duration = Duration::from_secs(60);

/// The next command that is told.
#[track_caller]
fn next(monitor: &mut Monitor) -> MonitorEntry {
    monitor.next_timeout(LONG).unwrap().expect("a command in time")
}

/// What the clock of the server says.
fn server_time(conn: &Connection) -> Result<SystemTime> {
    let (seconds, micros) = conn.command::<(u64, u64)>("TIME", ()).wait()?;
    Ok(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_micros(micros))
}

fn words(entry: &MonitorEntry) -> Vec<&[u8]> {
    entry.args.iter().map(Vec::as_slice).collect()
}

#[test]
fn every_command_is_told_with_its_arguments_as_they_were() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let address: String = conn.command("CLIENT INFO", ()).wait()?;
    let address = address.split(' ').find_map(|field| field.strip_prefix("addr=")).expect("an address").to_owned();
    let mut monitor = Monitor::open(support::config(&server))?;

    let before = server_time(&conn)?;
    let every_byte: Vec<u8> = (0..=255).collect();
    conn.set("k", &every_byte).wait()?;
    conn.set("\"] \"\\x41", "").wait()?;
    conn.incrby("n", -7).wait()?;
    conn.select(3).wait()?;
    conn.get::<Option<String>>("nothing").wait()?;
    let tx = conn.transaction();
    tx.incr("x");
    tx.commit().wait()?;
    let after = server_time(&conn)?;

    assert_eq!(words(&next(&mut monitor)), [b"TIME"]);
    let entry = next(&mut monitor);
    assert_eq!(words(&entry), [&b"SET"[..], b"k", &every_byte]);
    assert_eq!((entry.database, &entry.client), (0, &MonitorClient::Tcp(address)));
    assert!(before <= entry.time && entry.time <= after, "{before:?} {entry} {after:?}");
    assert_eq!(MonitorEntry::parse(&entry.line)?, entry);
    assert_eq!(entry.to_string().as_bytes(), entry.line);
    assert_eq!(words(&next(&mut monitor)), [&b"SET"[..], b"\"] \"\\x41", b""]);
    assert_eq!(words(&next(&mut monitor)), [&b"INCRBY"[..], b"n", b"-7"]);
    assert_eq!(words(&next(&mut monitor))[0], b"SELECT");
    let get = next(&mut monitor);
    assert_eq!((get.database, words(&get)), (3, vec![&b"GET"[..], b"nothing"]));
    for command in ["MULTI", "INCR", "EXEC", "TIME"] {
        assert_eq!(words(&next(&mut monitor))[0], command.as_bytes());
    }
    assert_eq!(monitor.next_timeout(Duration::ZERO)?, None);
    Ok(())
}

#[test]
fn scripts_and_unix_sockets_are_told_apart() -> Result<()> {
    let server = support::server();
    let mut monitor = Monitor::open(support::config(&server))?;
    let conn = Connection::open(support::unix_config(&server).client_setinfo(false))?;
    conn.eval::<Value>("return redis.call('SET', KEYS[1], 'b\\n')", "a", ()).wait()?;

    let entries: Vec<MonitorEntry> =
        std::iter::from_fn(|| Some(next(&mut monitor))).skip_while(|entry| entry.args[0] != b"EVAL").take(2).collect();
    let path = server.socket().to_str().expect("a path of the test's own").to_owned();
    assert_eq!(entries[0].client, MonitorClient::Unix(path));
    assert_eq!(entries[1].client, MonitorClient::Lua);
    assert_eq!(words(&entries[1]), [&b"SET"[..], b"a", b"b\n"]);
    Ok(())
}

#[test]
fn passwords_are_not_told() -> Result<()> {
    let server = support::server_with([("requirepass", "swordfish")]);
    let config = support::config(&server).password("swordfish");
    let mut monitor = Monitor::open(config.clone())?;
    let conn = Connection::open(config)?;
    conn.auth("default", "swordfish").wait()?;
    conn.echo::<String>("end").wait()?;
    let mut redacted = 0;
    loop {
        let entry = next(&mut monitor);
        assert!(!entry.to_string().contains("swordfish"), "{entry}");
        redacted += usize::from(entry.args.iter().any(|arg| arg == b"(redacted)"));
        if entry.args[0] == b"ECHO" {
            break;
        }
    }
    assert_eq!(redacted, 2, "the handshake and the AUTH");
    Ok(())
}

#[test]
fn what_is_outstanding_is_read_first_and_its_errors_are_kept() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    for _ in 0..1000 {
        conn.incr("n").detach();
    }
    conn.lpush("n", "x").detach();
    std::mem::forget(conn.lrange::<String>("n", 0, -1));
    let mut monitor = conn.into_monitor()?;
    assert_eq!(monitor.next_timeout(Duration::ZERO)?, None, "all of that came before");

    let conn = monitor.into_connection()?;
    let error = conn.sync().unwrap_err();
    assert_eq!(error.code(), Some("WRONGTYPE"));
    assert_eq!(conn.get::<i64>("n").wait()?, 1000);
    Ok(())
}

#[test]
fn the_way_back_restores_what_the_connection_had() -> Result<()> {
    let server = support::server();
    let config = support::config(&server).database(1).client_name("watcher");
    let conn = Connection::open(config)?;
    let (protocol, id) = (conn.protocol(), conn.client_id().wait()?);
    conn.select(2).wait()?;
    conn.set("in", "two").wait()?;
    let mut monitor = conn.into_monitor()?;
    let other = support::open(&server);
    for n in 0..1000 {
        other.set(n, "not read by the monitor").detach();
    }
    other.sync()?;
    assert_eq!(monitor.next().expect("there is no end")?.client, next(&mut monitor).client);

    let conn = monitor.into_connection()?;
    assert_eq!((conn.database(), conn.protocol()), (2, protocol));
    assert_eq!(conn.get::<String>("in").wait()?, "two");
    assert_eq!(conn.client_getname().wait()?.as_deref(), Some("watcher"));
    assert_ne!(conn.client_id().wait()?, id);
    assert_eq!(conn.stats().reconnects, 1);
    // And again.
    let mut monitor = conn.into_monitor()?;
    other.ping().wait()?;
    assert_eq!(words(&next(&mut monitor)), [b"PING"]);
    Ok(())
}

#[test]
fn a_server_with_no_room_to_spare_takes_the_connection_back() -> Result<()> {
    let server = support::server_with([("maxclients", "1")]);
    let mut monitor = Monitor::open(support::config(&server))?;
    for _ in 0..20 {
        monitor = monitor.into_connection()?.into_monitor()?;
    }
    monitor.into_connection()?.ping().wait()
}

#[test]
fn a_user_who_may_not_is_told() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.command::<()>("ACL SETUSER", ["limited", "on", ">pw", "~*", "+@all", "-monitor"]).wait()?;
    let outcome = Monitor::open(support::config(&server).user("limited").password("pw"));
    assert_eq!(outcome.map(drop).unwrap_err().code(), Some("NOPERM"));
    Ok(())
}

#[test]
fn the_end_of_the_server_is_told_once_whatever_the_policy() -> Result<()> {
    let server = support::server();
    let policy = Reconnect::backoff();
    let mut monitor = Monitor::open(support::config(&server).reconnect(policy))?;
    let conn = Connection::open(support::config(&server).client_setinfo(false))?;
    conn.set("last", "words").wait()?;
    server.kill();
    let mut told = Vec::new();
    let end = loop {
        match monitor.next().expect("an error before the end") {
            Ok(entry) => told.push(entry),
            Err(error) => break error,
        }
    };
    assert_eq!(words(told.last().expect("what had come")), [&b"SET"[..], b"last", b"words"]);
    let Error::ConnectionLost(lost) = &end else { panic!("{end}") };
    assert_eq!(lost.sent(), Sent::Fully);
    assert!(monitor.next().is_none());
    assert!(monitor.next_timeout(LONG).unwrap_err().is_connection_lost());

    server.restart().unwrap();
    let conn = monitor.into_connection()?;
    conn.ping().wait()?;
    // The policy is back.
    server.kill();
    assert!(conn.ping().wait().is_err());
    server.restart().unwrap();
    support::until("connected again", || Ok(conn.ping().wait().is_ok()))
}

#[test]
fn another_thread_stops_a_monitor_that_waits() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    support::within(LIMIT, move || {
        for config in [support::config(&server), support::unix_config(&server)] {
            for round in 0..50 {
                let mut monitor = Monitor::open(config.clone())?;
                let handle = monitor.handle();
                let stopper = std::thread::spawn(move || handle.clone().stop());
                assert!(monitor.next().is_none(), "{round}");
                stopper.join().unwrap();
            }
        }
        // For good, whatever has come.
        let mut monitor = Monitor::open(support::config(&server))?;
        conn.ping().wait()?;
        assert_eq!(words(&next(&mut monitor)), [b"PING"]);
        conn.ping().wait()?;
        monitor.handle().stop();
        assert!(monitor.next().is_none());
        assert_eq!(monitor.next_timeout(LONG)?, None);
        assert_eq!(monitor.next_timeout(Duration::ZERO)?, None);
        assert!(monitor.next().is_none());
        let handle = monitor.handle();
        let mut monitor = monitor.into_connection()?.into_monitor()?;
        handle.stop();
        conn.echo::<String>("another").wait()?;
        assert_eq!(words(&next(&mut monitor)), [&b"ECHO"[..], b"another"]);
        Ok(())
    })
}

#[test]
fn what_reading_does_not_end_is_refused() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.blpop::<String, String>("nothing", None).detach();
    assert!(matches!(conn.into_monitor().map(drop), Err(Error::Refused(_))));
    let conn = support::open(&server);
    std::mem::forget(conn.batch());
    assert!(matches!(conn.into_monitor().map(drop), Err(Error::Refused(_))));
    let conn = support::open(&server);
    std::mem::forget(conn.watch("key")?);
    assert!(matches!(conn.into_monitor().map(drop), Err(Error::Refused(_))));
    Ok(())
}

#[cfg(feature = "tls")]
#[test]
fn with_tls_lines_come_and_a_stop_ends_the_wait_for_them() -> Result<()> {
    use redefer::TlsConfig;
    use support::tls::{Authority, TlsServer};

    let authority = Authority::new("an authority");
    let identity = authority.issue(&["127.0.0.1"]);
    for server in TlsServer::all(&identity, None) {
        let config = support::config_for(&format!("redis://127.0.0.1:{}", server.tls_port));
        let mut monitor = Monitor::open(config.tls(TlsConfig::new().root_certificates(&authority.pem)))?;
        support::within(LIMIT, move || {
            let conn = support::open(&server);
            // Longer than a record, and many in one. (A 7.0 server whose TLS cannot write for a while may end the connection
            // by itself, "bad length", so that this is no more than the sockets hold.)
            let len = |n: usize| if n == 99 { 20_000 } else { n * 10 };
            for n in 0..200 {
                conn.set(n, "x".repeat(len(n))).detach();
            }
            conn.sync()?;
            let sets = monitor.by_ref().filter(|entry| entry.as_ref().map_or(true, |entry| entry.args[0] == b"SET"));
            for (n, entry) in sets.take(200).enumerate() {
                let args = entry?.args;
                assert_eq!((&args[1], args[2].len()), (&n.to_string().into_bytes(), len(n)));
            }
            let handle = monitor.handle();
            let stopper = std::thread::spawn(move || handle.stop());
            assert!(monitor.next().is_none());
            stopper.join().unwrap();
            monitor.into_connection()?.ping().wait()
        })?;
    }
    Ok(())
}

// What no real server sends.

fn scripted(mut script: impl FnMut(&mut Peer) -> io::Result<()> + Send + 'static) -> (Scripted, Config) {
    let server = Scripted::start(move |peer| {
        peer.handshake()?;
        peer.expect(["MONITOR"])?;
        script(peer)
    });
    let config = support::config_for(&server.url());
    (server, config)
}

#[test]
fn a_line_that_cannot_be_read_is_an_error_and_the_next_one_comes() -> Result<()> {
    let (server, config) = scripted(|peer| {
        peer.send("+OK\r\n+1.000000 [0 lua] \"A\"\r\n+nonsense\r\n-ERR odd\r\n+1.000000 [0 lua] \"B\"\r\n")?;
        peer.read_to_end().map(drop)
    });
    let mut monitor = Monitor::open(config)?;
    assert_eq!(next(&mut monitor).args, [b"A"]);
    let error = monitor.next_timeout(LONG).unwrap_err();
    assert!(error.to_string().contains("nonsense"), "{error}");
    assert_eq!(monitor.next_timeout(LONG).unwrap_err().code(), Some("ERR"));
    assert_eq!(next(&mut monitor).args, [b"B"]);
    drop(monitor);
    server.finish();
    Ok(())
}

#[test]
fn every_byte_may_arrive_alone() -> Result<()> {
    let (server, config) = scripted(|peer| {
        peer.send_bytewise("+OK\r\n+1.000000 [0 lua] \"\\r\\n\"\r\n+1.000000 [0 lua] \"B\"\r\n")?;
        peer.read_to_end().map(drop)
    });
    let mut monitor = Monitor::open(config)?;
    assert_eq!(next(&mut monitor).args, [b"\r\n"]);
    assert_eq!(next(&mut monitor).args, [b"B"]);
    drop(monitor);
    server.finish();
    Ok(())
}

#[test]
fn pushes_between_the_lines_are_kept() -> Result<()> {
    if support::is_resp2() {
        return Ok(());
    }
    let server = Scripted::start(|peer| {
        peer.handshake()?;
        if peer.number() == 0 {
            peer.expect(["MONITOR"])?;
            peer.send("+OK\r\n>1\r\n+one\r\n+1.000000 [0 lua] \"A\"\r\n>1\r\n+two\r\n+1.000000 [0 lua] \"B\"\r\n")?;
        }
        peer.read_to_end().map(drop)
    });
    let mut monitor = Monitor::open(support::config_for(&server.url()))?;
    assert_eq!(next(&mut monitor).args, [b"A"]);
    assert_eq!(next(&mut monitor).args, [b"B"]);
    let conn = monitor.into_connection()?;
    for text in ["one", "two"] {
        let push = conn.next_push().expect("a push");
        assert!(format!("{push:?}").contains(text), "{push:?}");
    }
    assert!(conn.next_push().is_none());
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn a_line_beyond_the_limit_is_passed_over() {
    let (server, config) = scripted(|peer| {
        peer.send("+OK\r\n+1.000000 [0 lua] \"")?;
        // What would be the beginning of a push elsewhere.
        let part = vec![b'>'; 1 << 20];
        for _ in 0..80 {
            peer.send(&part)?;
        }
        peer.send("\"\r\n+1.000000 [0 lua] \"B\"\r\n")?;
        peer.read_to_end().map(drop)
    });
    support::within(LIMIT, move || {
        let mut monitor = Monitor::open(config).unwrap();
        let error = monitor.next_timeout(LIMIT).unwrap_err();
        assert!(error.to_string().contains("64 MiB"), "{error}");
        assert_eq!(next(&mut monitor).args, [b"B"]);
    });
    server.finish();
}

#[test]
fn what_is_no_line_ends_the_connection() -> Result<()> {
    let (server, config) = scripted(|peer| {
        peer.send("+OK\r\n+1.000000 [0 lua] \"A\"\r\n:1\r\n+1.000000 [0 lua] \"B\"\r\n")?;
        // A client that closes with bytes unread resets the connection.
        let _ = peer.read_to_end();
        Ok(())
    });
    let mut monitor = Monitor::open(config)?;
    assert_eq!(next(&mut monitor).args, [b"A"]);
    assert!(monitor.next().expect("an error").unwrap_err().is_connection_lost());
    assert!(monitor.next().is_none());
    drop(monitor);
    server.finish();
    Ok(())
}

#[test]
fn a_line_without_end_does_not_keep_a_read_that_does_not_wait() {
    let (server, config) = scripted(|peer| {
        peer.send("+OK\r\n+1.000000 [0 lua] \"A\"\r\n+")?;
        // Until the client has had enough.
        let part = vec![b'x'; 1 << 20];
        while peer.send(&part).is_ok() {}
        Ok(())
    });
    support::within(LIMIT, move || {
        let mut monitor = Monitor::open(config).unwrap();
        assert_eq!(next(&mut monitor).args, [b"A"]);
        for _ in 0..100 {
            assert!(matches!(monitor.next_timeout(Duration::ZERO), Ok(None)));
            assert!(matches!(monitor.next_timeout(Duration::from_millis(1)), Ok(None)));
        }
        let handle = monitor.handle();
        let stopper = std::thread::spawn(move || handle.stop());
        assert!(monitor.next().is_none());
        stopper.join().unwrap();
    });
    server.finish();
}
