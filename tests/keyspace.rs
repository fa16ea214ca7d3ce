//! Keyspace notifications: what servers are set to, and what they send, read from a plain socket.

#![cfg(feature = "testing")]

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use redefer::keyspace::{Events, KeyEvent};
use redefer::resp::{Decoder, Frame, encode_command};
use redefer::{Error, Result, prelude::*};
use support::Private;

/// A subscribed connection, in the protocol under test.
struct Listener {
    socket: TcpStream,
    decoder: Decoder,
    received: Vec<u8>,
}

impl Listener {
    fn subscribe(server: &Private, command: &str, channels: &[&[u8]]) -> Listener {
        let socket = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut listener = Listener { socket, decoder: Decoder::new(), received: Vec::new() };
        if !support::is_resp2() {
            listener.send(&[b"HELLO", b"3"]);
            listener.next_frame();
        }
        listener.send(&[&[command.as_bytes()], channels].concat());
        for _ in channels {
            listener.next_frame();
        }
        listener
    }

    fn send(&mut self, words: &[&[u8]]) {
        let mut bytes = Vec::new();
        encode_command(&mut bytes, words);
        self.socket.write_all(&bytes).unwrap();
    }

    /// The texts among the elements of the next frame.
    fn next_frame(&mut self) -> Vec<Vec<u8>> {
        loop {
            if let Some((frame, len)) = self.decoder.decode(&self.received).unwrap() {
                let elements = frame.as_elements().expect("an aggregate");
                let texts = elements.filter_map(|element| match element {
                    Frame::Bulk(text) | Frame::SimpleString(text) => Some(text.to_vec()),
                    _ => None,
                });
                let texts = texts.collect();
                self.received.drain(..len);
                return texts;
            }
            let mut part = [0; 4096];
            let n = self.socket.read(&mut part).unwrap();
            assert!(n > 0, "the server closed the connection");
            self.received.extend_from_slice(&part[..n]);
        }
    }

    /// The next message, which must be a notification: channel, key, event.
    fn next_event(&mut self) -> (String, u32, Vec<u8>, String) {
        let message = self.next_frame();
        let [.., channel, payload] = &message[..] else { panic!("{message:?}") };
        let event = KeyEvent::parse(channel, payload).expect("a notification");
        (String::from_utf8_lossy(channel).into_owned(), event.database, event.key, event.event)
    }
}

fn setting(conn: &Connection) -> Result<String> {
    let settings: Vec<(String, String)> = conn.config_get("notify-keyspace-events").wait()?;
    Ok(settings[0].1.clone())
}

#[test]
fn events_come_in_both_forms() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    Events::new().keyspace().keyevent().all().enable(&conn)?;
    let patterns = [Events::key_pattern(None, "*"), Events::event_pattern(None, "*").into_bytes()];
    let mut listener = Listener::subscribe(&server, "PSUBSCRIBE", &[&patterns[0], &patterns[1]]);

    let key: &[u8] = b"k\0__:\xff\r\n";
    conn.set(key, "v").wait()?;
    conn.select(5).wait()?;
    conn.rpush("list", "x").wait()?;
    conn.rename("list", "other").wait()?;

    let expected = [
        ("keyspace", 0, key, "set"),
        ("keyevent", 0, key, "set"),
        ("keyspace", 5, b"list", "rpush"),
        ("keyevent", 5, b"list", "rpush"),
        ("keyspace", 5, b"list", "rename_from"),
        ("keyevent", 5, b"list", "rename_from"),
        ("keyspace", 5, b"other", "rename_to"),
        ("keyevent", 5, b"other", "rename_to"),
    ];
    for (form, database, key, event) in expected {
        let (channel, got_database, got_key, got_event) = listener.next_event();
        assert!(channel.starts_with(&format!("__{form}@{database}__:")), "{channel}");
        assert_eq!((got_database, &got_key[..], &*got_event), (database, key, event));
    }
    Ok(())
}

#[test]
fn one_channel_tells_of_one_key_or_one_event() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    Events::new().keyspace().keyevent().strings().generic().expired().enable(&conn)?;
    let channels = [Events::key_channel(0, "a"), Events::event_channel(0, "expired").into_bytes()];
    let mut listener = Listener::subscribe(&server, "SUBSCRIBE", &[&channels[0], &channels[1]]);
    conn.set("b", "not told").wait()?;
    conn.set("a", "told").wait()?;
    conn.command::<()>("SET", ("c", "expires", "PX", 1)).wait()?;
    support::until("expired", || Ok(conn.exists("c").wait()? == 0))?;

    let (_, database, key, event) = listener.next_event();
    assert_eq!((database, &*key, &*event), (0, &b"a"[..], "set"));
    let (_, database, key, event) = listener.next_event();
    assert_eq!((database, &*key, &*event), (0, &b"c"[..], "expired"));
    Ok(())
}

#[test]
fn enable_adds_to_what_there_is_and_tells_it() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    assert_eq!(Events::new().keyspace().lists().enable(&conn)?, Events::new());
    let lists = setting(&conn)?.parse::<Events>()?;
    assert_eq!(lists, Events::new().keyspace().lists());
    assert_eq!(Events::new().keyevent().misses().new_keys().enable(&conn)?, lists);
    let more = setting(&conn)?.parse::<Events>()?;
    assert_eq!(more, lists.keyevent().misses().new_keys());
    // Nothing to do.
    assert_eq!(lists.enable(&conn)?, more);

    // Servers show all classes as `A`.
    let every = Events::new().keyspace().generic().strings().lists().sets().hashes().sorted_sets();
    every.streams().expired().evicted().modules().enable(&conn)?;
    assert!(setting(&conn)?.contains('A'));

    conn.config_set(("notify-keyspace-events", lists.to_string())).wait()?;
    assert_eq!(setting(&conn)?.parse::<Events>()?, lists);
    Ok(())
}

#[test]
fn what_would_do_nothing_and_what_the_server_does_not_know_is_an_error() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    for nothing in [Events::new(), Events::new().keyspace().keyevent(), Events::new().strings().all()] {
        assert!(matches!(nothing.enable(&conn), Err(Error::Argument(_))), "{nothing}");
    }
    let unknown: Events = "K~".parse()?;
    assert!(matches!(unknown.enable(&conn), Err(Error::Server(_))));
    assert_eq!(setting(&conn)?, "");

    // Flags that are not everywhere.
    let knows = server.name().starts_with("redis") && server.version() >= (8, 2, 0);
    let outcome = Events::new().keyspace().overwritten().type_changed().enable(&conn);
    assert_eq!(outcome.is_ok(), knows, "{outcome:?}");
    Ok(())
}

#[test]
fn the_classes_are_those_of_the_server() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let told_of = |events: Events, work: &dyn Fn() -> Result<()>| -> Result<Vec<String>> {
        conn.config_set(("notify-keyspace-events", "")).wait()?;
        conn.flushall().wait()?;
        events.keyevent().enable(&conn)?;
        let pattern = Events::event_pattern(Some(0), "*");
        // `end` is published by hand, behind all else.
        let mut listener = Listener::subscribe(&server, "PSUBSCRIBE", &[pattern.as_bytes()]);
        work()?;
        conn.publish(Events::event_channel(0, "end"), "").wait()?;
        let events = std::iter::from_fn(|| Some(listener.next_event().3)).take_while(|event| event != "end");
        Ok(events.collect())
    };
    let each = || {
        conn.set("string", "a").wait()?;
        conn.rpush("list", "a").wait()?;
        conn.sadd("set", "a").wait()?;
        conn.hset("hash", ("a", "b")).wait()?;
        conn.command::<i64>("ZADD", ("zset", 1, "a")).wait()?;
        conn.command::<String>("XADD", ("stream", "*", "a", "b")).wait()?;
        conn.get::<Option<String>>("missing").wait()?;
        conn.del("string").wait()?;
        Ok(())
    };
    let on = Events::new();
    for (events, expected) in [
        (on.strings(), &["set"][..]),
        (on.lists(), &["rpush"]),
        (on.sets(), &["sadd"]),
        (on.hashes(), &["hset"]),
        (on.sorted_sets(), &["zadd"]),
        (on.streams(), &["xadd"]),
        (on.misses(), &["keymiss"]),
        (on.generic(), &["del"]),
        (on.new_keys(), &["new"; 6]),
        (on.all(), &["set", "rpush", "sadd", "hset", "zadd", "xadd", "del"]),
    ] {
        assert_eq!(told_of(events, &each)?, expected, "{events}");
    }
    if server.name().starts_with("redis") && server.version() >= (8, 2, 0) {
        let twice = || {
            conn.set("k", "a").wait()?;
            conn.set("k", "b").wait()?;
            conn.del("l").wait()?;
            conn.rpush("l", "a").wait()?;
            conn.set("l", "a").wait()
        };
        assert_eq!(told_of(on.overwritten(), &twice)?, ["overwritten", "overwritten"]);
        assert_eq!(told_of(on.type_changed(), &twice)?, ["type_changed"]);
    }
    Ok(())
}
