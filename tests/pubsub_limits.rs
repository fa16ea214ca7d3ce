//! A subscriber at its limits, on real servers: large messages, many of them, many names, many requests.

#![cfg(feature = "testing")]

mod support;

use std::thread;
use std::time::Duration;

use redefer::pubsub::{Event, Message, Subscriber};
use redefer::testing::Server;
use redefer::{Error, Result, prelude::*};
use support::within;

const LONG: Duration = Duration::from_secs(60);

fn open(server: &Server) -> Subscriber {
    Subscriber::open(support::config(server)).unwrap()
}

#[track_caller]
fn message(event: Result<Option<Event>>) -> Message {
    match event {
        Ok(Some(Event::Message(message))) => message,
        other => panic!("not a message: {other:?}"),
    }
}

#[track_caller]
fn text(event: Result<Option<Event>>) -> String {
    message(event).payload_as().unwrap()
}

#[test]
fn messages_of_no_bytes_and_of_64_mib_come_whole() -> Result<()> {
    let server = support::server_with([("client-output-buffer-limit", "pubsub 0 0 0")]);
    let (subscriber, conn) = (open(&server), support::open(&server));
    subscriber.subscribe("c").wait()?;
    let large: Vec<u8> = (0..64 << 20).map(|n: u32| (n / 7) as u8).collect();
    within(LONG, move || {
        let publisher = thread::spawn(move || {
            let replies = [conn.publish("c", ""), conn.publish("c", &large), conn.publish("c", "")];
            replies.into_iter().try_for_each(|reply| reply.wait().map(drop))?;
            Ok::<_, Error>(large)
        });
        assert_eq!(message(subscriber.next()).payload(), b"");
        // While it comes, it is in the way of an acknowledgement.
        subscriber.set_limit(1);
        let handle = subscriber.handle();
        let acknowledged = thread::spawn(move || handle.subscribe("d").wait());
        let received = message(subscriber.next());
        assert_eq!(message(subscriber.next()).payload(), b"");
        let large = publisher.join().unwrap()?;
        assert!(received.into_payload() == large);
        while !acknowledged.is_finished() {
            assert!(subscriber.next_timeout(Duration::from_millis(1))?.is_none());
        }
        assert_eq!(acknowledged.join().unwrap()?, 2);
        Ok(())
    })
}

#[test]
fn a_wait_behind_more_messages_than_are_kept_is_refused_and_loses_none() -> Result<()> {
    let server = support::server();
    let (subscriber, conn) = (open(&server), support::open(&server));
    subscriber.set_limit(1000);
    subscriber.subscribe("c").wait()?;
    for n in 0..100 {
        conn.publish("c", format!("{n:0100}")).wait()?;
    }
    assert!(matches!(subscriber.subscribe("d").wait(), Err(Error::Refused(_))));
    for n in 0..100 {
        assert_eq!(message(subscriber.next()).payload_as::<String>()?, format!("{n:0100}"));
    }
    assert_eq!(subscriber.subscribe("e").wait()?, 3);
    Ok(())
}

#[test]
fn a_slow_reader_that_is_disconnected_reads_what_has_come_and_then_the_error() -> Result<()> {
    let server = support::server_with([("client-output-buffer-limit", "pubsub 1mb 0 0")]);
    let (subscriber, conn) = (open(&server), support::open(&server));
    subscriber.subscribe("c").wait()?;
    let mut sent = 0_u64;
    while conn.publish("c", format!("{sent:050000}")).wait()? == 1 {
        sent += 1;
    }
    let mut seen = 0;
    for event in &subscriber {
        match event {
            Ok(Event::Message(message)) => {
                assert_eq!(message.payload_as::<String>()?, format!("{seen:050000}"));
                seen += 1;
            }
            Ok(other) => panic!("{other:?}"),
            Err(error) => assert!(matches!(error, Error::ConnectionLost(_)), "{error:?}"),
        }
    }
    assert!(seen <= sent + 1);
    assert!(subscriber.is_broken());
    assert!(matches!(subscriber.subscribe("d").wait(), Err(Error::ConnectionLost(_))));
    assert!(matches!(subscriber.try_next(), Err(Error::ConnectionLost(_))));
    assert!(subscriber.into_connection().is_err());
    Ok(())
}

#[test]
fn a_dropped_subscriber_is_gone_from_the_server() -> Result<()> {
    let server = support::server();
    let (subscriber, conn) = (open(&server), support::open(&server));
    subscriber.subscribe("c").wait()?;
    conn.publish("c", vec![b'x'; 1 << 20]).wait()?;
    drop(subscriber);
    support::until("nobody is subscribed", || Ok(conn.publish("c", "x").wait()? == 0))
}

#[test]
fn no_more_requests_are_taken_than_may_be_outstanding() -> Result<()> {
    let server = support::server();
    let subscriber = Subscriber::open(support::config(&server).max_outstanding(3))?;
    let asked: Vec<_> = (0..5).map(|n| subscriber.subscribe(n)).collect();
    let outcomes: Vec<_> = asked.into_iter().map(|asked| asked.wait()).collect();
    assert!(
        matches!(outcomes[..], [Ok(1), Ok(2), Ok(3), Err(Error::Refused(_)), Err(Error::Refused(_))]),
        "{outcomes:?}"
    );

    // Of other threads, while nobody reads.
    let handle = subscriber.handle();
    let taken = [handle.subscribe("a"), handle.subscribe("b"), handle.subscribe("c")];
    assert!(matches!(handle.subscribe("d").wait(), Err(Error::Refused(_))));
    assert_eq!(subscriber.subscribe("e").wait().map_err(|error| matches!(error, Error::Refused(_))), Err(true));
    assert!(subscriber.try_next()?.is_none());
    support::until("all are acknowledged", || {
        assert!(subscriber.try_next()?.is_none());
        Ok(subscriber.subscriptions() == 6)
    })?;
    assert_eq!(taken.map(|asked| asked.wait().unwrap()), [4, 5, 6]);
    // Whoever has dropped the handle is told by a read, and the iteration goes on.
    (0..4).for_each(|n| drop(subscriber.unsubscribe(n)));
    let mut events = subscriber.iter();
    assert!(matches!(events.next(), Some(Err(Error::Refused(_)))));
    support::open(&server).publish("a", "still here").wait()?;
    assert_eq!(text(events.next().transpose()), "still here");
    // Turning back is not counted.
    (0..3).for_each(|n| drop(subscriber.subscribe(n)));
    subscriber.into_connection()?.ping().wait()
}

#[test]
fn a_hundred_thousand_shard_channels_end_in_no_more_than_their_time() -> Result<()> {
    let server = support::server();
    let subscriber = open(&server);
    let names: Vec<u32> = (0..100_000).collect();
    within(LONG, move || {
        assert_eq!(subscriber.ssubscribe(&names).wait()?, 100_000);
        assert_eq!(subscriber.sunsubscribe(&names).wait()?, 0);
        assert_eq!(subscriber.subscriptions(), 0);
        Ok(())
    })
}
