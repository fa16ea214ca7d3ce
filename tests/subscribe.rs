//! Subscriptions and commands on one connection, in RESP3.

#![cfg(feature = "testing")]

mod support;

use std::io;
use std::time::Duration;

use redefer::pubsub::Event;
use redefer::{Config, Error, Protocol, Reconnect, Result, Value, prelude::*};
use support::Private;
use support::scripted::{HELLO_REPLY, Peer, Scripted};

const LONG: Duration = Duration::from_secs(20);

fn config(server: &Private) -> Config {
    support::config(server).protocol(Protocol::Resp3)
}

/// The next message, as channel and payload.
fn message(conn: &Connection) -> Result<(String, String)> {
    loop {
        let Some(push) = conn.next_push_timeout(LONG)? else { return Err(Error::custom("nothing has come")) };
        if let Ok(Event::Message(message)) = Event::try_from(push) {
            return Ok((String::from_utf8_lossy(message.channel()).into(), message.payload_as()?));
        }
    }
}

#[test]
fn commands_go_on_between_the_messages() -> Result<()> {
    let server = support::server();
    let conn = Connection::open(config(&server))?;
    let other = support::open(&server);
    // All in one pipeline, between other commands.
    let before = conn.incr("n");
    let one = conn.subscribe(["a", "b"]);
    let two = conn.psubscribe("p*");
    let between = conn.incr("n");
    let shard = conn.ssubscribe("s");
    let list = conn.lrange::<String>("l", 0, -1);
    assert_eq!(list.wait::<Vec<_>>()?, [""; 0]);
    assert_eq!((before.wait()?, between.wait()?), (1, 2));
    assert_eq!((one.wait()?, two.wait()?, shard.wait()?), (2, 3, 1));
    assert_eq!((conn.next_push(), conn.stats().pushes), (None, 0), "acknowledgements are no messages");

    for n in 0..100 {
        other.publish("a", n).wait()?;
        other.publish("page", n).wait()?;
        other.spublish("s", n).wait()?;
    }
    for n in 0..100 {
        assert_eq!(conn.incr("n").wait()?, n + 3);
        for channel in ["a", "page", "s"] {
            assert_eq!(message(&conn)?, (channel.to_owned(), n.to_string()));
        }
    }
    // The counts are those of the server.
    assert_eq!(conn.unsubscribe("b").wait()?, 2);
    assert_eq!(conn.unsubscribe(()).wait()?, 1);
    assert_eq!(conn.unsubscribe(()).wait()?, 1, "there is none left, and one pattern");
    assert_eq!(conn.punsubscribe("p*").wait()?, 0);
    assert_eq!(conn.sunsubscribe(()).wait()?, 0);
    assert_eq!(other.publish("a", "").wait()?, 0);
    assert_eq!(conn.next_push_timeout(Duration::ZERO)?, None);
    let subscriber = conn.into_subscriber()?;
    subscriber.subscribe("x").wait()?;
    Ok(())
}

#[test]
fn messages_of_a_publisher_at_full_speed_come_in_order_between_replies() -> Result<()> {
    const MESSAGES: u32 = 20_000;
    let server = support::server();
    let conn = Connection::open(config(&server).push_queue(MESSAGES as usize, 64 << 20))?;
    let other = support::open(&server);
    std::thread::scope(|scope| {
        let (ready, begin) = std::sync::mpsc::channel();
        let publisher = scope.spawn(move || {
            let _ = begin.recv();
            for n in 0..MESSAGES {
                other.publish("c", n).detach();
            }
            other.sync()
        });
        conn.subscribe("c").wait()?;
        ready.send(()).map_err(Error::custom)?;
        let (mut next, mut calls) = (0, 0);
        while next < MESSAGES {
            calls += 1;
            // Subscribing and unsubscribing in the middle of it all.
            let more = conn.subscribe(format!("other:{calls}"));
            let count = conn.incr("n");
            let less = conn.unsubscribe(format!("other:{calls}"));
            assert_eq!((more.wait()?, count.wait()?, less.wait()?), (2, calls, 1));
            while let Some(push) = conn.next_push_timeout(Duration::ZERO)? {
                let Ok(Event::Message(message)) = Event::try_from(push) else { panic!("no message") };
                assert_eq!(message.payload_as::<u32>()?, next);
                next += 1;
            }
        }
        assert_eq!((conn.stats().pushes, conn.stats().pushes_dropped), (u64::from(MESSAGES), 0));
        publisher.join().expect("the publisher")
    })
}

#[test]
fn what_is_refused_is_an_error_of_its_own_handle() -> Result<()> {
    let server = support::server();
    let admin = support::open(&server);
    // Who may not even PING.
    admin
        .command::<()>("ACL SETUSER", ("u", "on", "nopass", "+@all", "-ping", "allkeys", "resetchannels", "&a"))
        .wait()?;
    let conn = Connection::open(config(&server).user("u").password("x"))?;
    let (good, bad, get) = (conn.subscribe("a"), conn.subscribe(["a", "b"]), conn.get::<Option<i64>>("k"));
    let again = conn.psubscribe("b*");
    assert_eq!(get.wait()?, None);
    assert_eq!(good.wait()?, 1);
    for refused in [bad, again] {
        assert!(matches!(refused.wait(), Err(Error::Server(error)) if error.code() == Some("NOPERM")));
    }
    // One that nobody looks at.
    conn.subscribe("b").detach();
    drop(conn.subscribe("b"));
    assert!(matches!(conn.sync(), Err(Error::Server(_))));
    assert_eq!(conn.incr("n").wait()?, 1);

    assert!(matches!(conn.subscribe(()).wait(), Err(Error::Argument(_))));
    assert!(matches!(conn.into_subscriber(), Err(Error::Refused(_))), "it is subscribed");
    let resp2 = Connection::open(config(&server).protocol(Protocol::Resp2))?;
    assert!(matches!(resp2.subscribe("a").wait(), Err(Error::Refused(_))));
    let again = Connection::open(config(&server).reconnect(Reconnect::backoff()))?;
    assert!(matches!(again.subscribe("a").wait(), Err(Error::Refused(_))));
    assert!(matches!(again.command::<()>("SUBSCRIBE", "a").wait(), Err(Error::Refused(_))));
    Ok(())
}

#[test]
fn a_connection_that_has_unsubscribed_goes_on_as_another_type() -> Result<()> {
    let server = support::server();
    let admin = support::open(&server);
    admin.command::<()>("ACL SETUSER", ("u", "on", ">p", "+@all", "allkeys", "resetchannels", "&a")).wait()?;
    let open = || Connection::open(config(&server).user("u").password("p"));
    for waits in [true, false] {
        let conn = open()?;
        conn.subscribe("a").wait()?;
        let none = conn.unsubscribe(());
        if waits {
            assert_eq!(none.wait()?, 0)
        } else {
            none.detach()
        }
        conn.into_subscriber()?;
        let conn = open()?;
        let refused = conn.subscribe("b");
        if waits {
            assert!(refused.wait().is_err())
        } else {
            refused.detach()
        }
        conn.into_subscriber()?;
    }
    Ok(())
}

#[test]
fn with_little_room_a_subscription_is_taken_in_as_a_whole() -> Result<()> {
    let server = support::server();
    let other = support::open(&server);
    other.hset("h", [("f", 1)]).wait()?;
    for (most, batch) in [(1, 1), (1, 8192), (2, 1), (3, 100)] {
        let config = config(&server).max_outstanding(most).write_batch(batch).timeout(Duration::from_secs(5));
        let conn = Connection::open(config)?;
        for n in 0..3 {
            let one = conn.subscribe(["a", "b"]);
            let map: Vec<(String, i64)> = conn.hgetall("h").wait()?;
            assert_eq!(map, [("f".to_owned(), 1)], "{most}, {batch}");
            assert_eq!(one.wait()?, 2);
            conn.unsubscribe("a").detach();
            conn.subscribe("c").detach();
            assert_eq!(conn.incr("n").wait()? % 3, (n + 1) % 3);
            assert_eq!(conn.unsubscribe(()).wait()?, 0);
        }
        assert_eq!(conn.next_push(), None);
    }
    Ok(())
}

#[test]
fn what_nobody_takes_is_dropped_and_counted() -> Result<()> {
    let server = support::server();
    let other = support::open(&server);
    let conn = Connection::open(config(&server).push_queue(10, 1 << 20))?;
    conn.subscribe("c").wait()?;
    for n in 0..100 {
        other.publish("c", n).wait()?;
    }
    conn.ping().wait()?;
    assert_eq!((conn.stats().pushes, conn.stats().pushes_dropped), (100, 90));
    assert_eq!(message(&conn)?.1, "90");
    let large = vec![b'x'; 2 << 20];
    other.publish("c", &large).wait()?;
    other.publish("c", "last").wait()?;
    conn.ping().wait()?;
    assert_eq!(message(&conn)?.1, "last", "the large one is over the limit by itself");
    other.publish("c", &large).wait()?;
    assert_eq!(message(&conn)?.1.len(), 2 << 20, "but the latest is always kept");
    Ok(())
}

#[test]
fn a_wait_for_a_push_ends_in_time_and_harms_nothing() -> Result<()> {
    let server = support::server();
    let conn = Connection::open(config(&server))?;
    conn.subscribe("c").wait()?;
    let before = conn.get::<Option<String>>("k");
    assert_eq!(conn.next_push_timeout(Duration::from_millis(5))?, None);
    let behind = conn.set("k", "v");
    assert_eq!(conn.next_push_timeout(Duration::ZERO)?, None);
    assert_eq!(before.wait()?, None);
    // Such a wait says nothing about the server: drops go on waiting for their replies.
    drop(behind);
    assert_eq!(conn.outstanding(), 0);
    // The server goes away.
    support::open(&server).command::<()>("SHUTDOWN", "NOSAVE").detach();
    assert!(matches!(conn.next_push_timeout(LONG), Err(Error::ConnectionLost(_))));
    assert!(matches!(conn.subscribe("d").wait(), Err(Error::ConnectionLost(_))));
    Ok(())
}

fn scripted(script: impl Fn(&mut Peer) -> io::Result<()> + Send + 'static) -> (Scripted, Connection) {
    let server = Scripted::start(move |peer| {
        peer.handshake()?;
        script(peer)?;
        peer.read_to_end().map(drop)
    });
    let conn = Connection::open(server.url()).unwrap();
    (server, conn)
}

#[test]
fn every_split_gives_the_same_replies_and_messages() -> Result<()> {
    let bytes = [
        "+before\r\n",
        ">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\n1\r\n",
        ">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n",
        ">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\n2\r\n",
        ">3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n",
        HELLO_REPLY,
        "-NOPERM no\r\n",
        HELLO_REPLY,
        ">3\r\n$12\r\nsunsubscribe\r\n$1\r\ns\r\n:0\r\n",
        "+behind\r\n",
    ]
    .concat();
    for at in 1..bytes.len() {
        let sent = bytes.clone();
        let (_server, conn) = scripted(move |peer| {
            peer.read_commands(6)?;
            peer.send_split(&sent, at)
        });
        let before = conn.command::<Value>("A", ());
        let good = conn.subscribe(["a", "b"]);
        let bad = conn.ssubscribe("s");
        let behind = conn.command::<Value>("B", ());
        assert_eq!(behind.wait()?, Value::SimpleString(b"behind".to_vec()));
        assert_eq!(before.wait()?, Value::SimpleString(b"before".to_vec()));
        assert_eq!(good.wait()?, 2);
        assert!(matches!(bad.wait(), Err(Error::Server(_))));
        assert_eq!(message(&conn)?.1, "1");
        assert_eq!(message(&conn)?.1, "2");
        let moved = conn.next_push().map(Event::try_from);
        assert!(matches!(moved, Some(Ok(Event::ShardUnsubscribed(channel))) if channel == b"s"));
        assert_eq!(conn.next_push(), None);
    }
    Ok(())
}

#[test]
fn a_server_that_is_out_of_step_breaks_the_connection() {
    for bytes in [
        // Neither a map nor an error.
        "+OK\r\n+OK\r\n+OK\r\n",
        // An error behind an acknowledgement is not that of SUBSCRIBE.
        ">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n-ERR no\r\n+OK\r\n",
        // Two errors.
        "-ERR no\r\n-ERR no\r\n+OK\r\n",
    ] {
        let (_server, conn) = scripted(move |peer| {
            peer.read_commands(3)?;
            peer.send(bytes)
        });
        conn.subscribe("a").detach();
        let behind = conn.command::<Value>("B", ());
        assert!(matches!(behind.wait(), Err(Error::ConnectionLost(_))), "{bytes:?}");
    }
}
