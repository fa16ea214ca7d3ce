//! A subscriber whose connection breaks, on real servers.

#![cfg(feature = "testing")]

mod support;

use std::thread;
use std::time::Duration;

use redefer::pubsub::{Event, Subscriber};
use redefer::testing::Server;
use redefer::{Config, Error, Reconnect, Result, Sent, prelude::*};
use support::within;

const LONG: Duration = Duration::from_secs(60);

/// Dials again at once, and often.
fn again(server: &Server) -> Config {
    let policy = Reconnect::backoff().first_delay(Duration::from_millis(1)).max_delay(Duration::from_millis(20));
    support::config(server).reconnect(policy.attempts(1000))
}

#[track_caller]
fn text(event: Result<Option<Event>>) -> String {
    match event {
        Ok(Some(Event::Message(message))) => message.payload_as().unwrap(),
        other => panic!("not a message: {other:?}"),
    }
}

#[test]
fn a_server_that_is_killed_and_restarted_leaves_a_gap_that_is_told() -> Result<()> {
    let server = support::server();
    let subscriber = Subscriber::open(again(&server))?;
    subscriber.subscribe(["a", "b"]).wait()?;
    subscriber.psubscribe("p.*").wait()?;
    subscriber.ssubscribe(["s"]).wait()?;
    subscriber.unsubscribe("b").wait()?;
    for _ in 0..3 {
        server.kill();
        server.restart()?;
        let Some(Event::Reconnected(gap)) = subscriber.next()? else { panic!("no gap") };
        assert_eq!(gap.restored(), 3);
        assert!(matches!(gap.cause(), Error::Io(_)), "{gap:?}");
        // Behind everything that is restored.
        assert_eq!(subscriber.subscribe("c").wait()?, 3);
        let conn = support::open(&server);
        assert_eq!(conn.publish("a", "one").wait()?, 1);
        assert_eq!(conn.publish("b", "nobody").wait()?, 0);
        assert_eq!(conn.publish("p.x", "two").wait()?, 1);
        assert_eq!(conn.spublish("s", "three").wait()?, 1);
        assert_eq!(
            [text(subscriber.next()), text(subscriber.next()), text(subscriber.next())],
            ["one", "two", "three"]
        );
        subscriber.unsubscribe("c").wait()?;
    }
    let conn = subscriber.into_connection()?;
    conn.set("key", "value").wait()?;
    Ok(())
}

#[test]
fn a_server_that_stays_away_is_rested_for_and_a_stop_ends_the_wait_for_it() -> Result<()> {
    let server = support::server();
    let patient = Reconnect::backoff().first_delay(LONG * 10).max_delay(LONG * 10);
    let stopped = Subscriber::open(support::config(&server).reconnect(patient))?;
    let few = Reconnect::backoff().attempts(3).first_delay(Duration::from_millis(1)).max_delay(LONG * 10);
    let resting = Subscriber::open(support::config(&server).reconnect(few))?;
    server.kill();
    within(LONG, move || {
        let asked = resting.subscribe("a");
        assert!(matches!(resting.next(), Err(Error::ConnectionLost(_))));
        assert!(!resting.is_broken());
        assert!(matches!(asked.wait(), Err(Error::ConnectionLost(_))));
        // For the longest delay nothing is tried: what is asked for fails, and a read waits as long as it may.
        assert!(resting.next_timeout(Duration::from_millis(5))?.is_none());
        let Err(Error::ConnectionLost(lost)) = resting.subscribe("b").wait() else { panic!("no error") };
        assert_eq!(lost.sent(), Sent::Unsent);
        assert!(matches!(resting.into_connection(), Err(Error::ConnectionLost(_))));

        let handle = stopped.handle();
        let stopper = thread::spawn(move || handle.stop());
        assert!(stopped.next()?.is_none());
        stopper.join().unwrap();
        assert!(!stopped.is_broken());
        Ok(())
    })
}

#[test]
fn a_subscriber_that_has_rested_comes_back_with_all_it_had() -> Result<()> {
    let server = support::server();
    let policy =
        Reconnect::backoff().attempts(2).first_delay(Duration::from_millis(1)).max_delay(Duration::from_millis(1));
    let subscriber = Subscriber::open(support::config(&server).reconnect(policy))?;
    subscriber.subscribe(["a", "b"]).wait()?;
    server.kill();
    for _ in 0..10 {
        assert!(matches!(subscriber.next(), Err(Error::ConnectionLost(_))));
    }
    server.restart()?;
    within(LONG, move || {
        let gap = loop {
            match subscriber.next() {
                Ok(Some(Event::Reconnected(gap))) => break gap,
                Err(Error::ConnectionLost(_)) => {}
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(gap.restored(), 2);
        assert_eq!(subscriber.subscribe("c").wait()?, 3);
        support::open(&server).publish("b", "one").wait()?;
        assert_eq!(text(subscriber.next()), "one");
        Ok(())
    })
}

#[test]
fn a_script_that_takes_its_time_costs_no_subscription() -> Result<()> {
    let server = support::server_with([("lua-time-limit", "1")]);
    let subscriber = Subscriber::open(again(&server))?;
    subscriber.subscribe(["a", "b"]).wait()?;
    subscriber.psubscribe("p*").wait()?;
    let (conn, killer) = (support::open(&server), support::open(&server));
    // In one write: the script runs when the connection has ended.
    conn.command::<i64>("CLIENT", ("KILL", "TYPE", "pubsub")).detach();
    conn.eval::<()>("while true do end", (), ()).detach();
    conn.flush()?;
    within(LONG, move || {
        loop {
            let Some(Event::Reconnected(gap)) = subscriber.next()? else { panic!("no gap") };
            assert_eq!(gap.restored(), 3);
            if gap.cause().code() == Some("BUSY") {
                break;
            }
        }
        killer.command::<()>("SCRIPT", "KILL").wait()?;
        let publisher = thread::spawn(move || {
            // The script may not have ended yet.
            let heard = |channel, text| killer.publish(channel, text).wait().is_ok_and(|count| count == 1);
            support::until("everything is subscribed to again", || Ok(heard("b", "one") && heard("p", "two")))
        });
        let mut messages = Vec::new();
        while messages.last().map(String::as_str) != Some("two") {
            match subscriber.next()? {
                Some(Event::Message(message)) => messages.push(message.payload_as::<String>()?),
                Some(Event::Reconnected(_)) => {}
                other => panic!("{other:?}"),
            }
        }
        publisher.join().unwrap()?;
        assert_eq!(subscriber.subscriptions(), 3);
        Ok(())
    })
}

#[test]
fn a_name_that_is_refused_afterwards_takes_no_other_with_it() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let rules = |channels: &[&str]| {
        let common = ["reset", "on", ">secret", "+@all", "allkeys", "resetchannels"];
        let rules: Vec<&str> = common.iter().chain(channels).copied().collect();
        conn.command::<()>("ACL", ("SETUSER", "reader", &rules)).wait()
    };
    for ping in ["+ping", "-ping"] {
        rules(&["allchannels", ping])?;
        let subscriber = Subscriber::open(again(&server).user("reader").password("secret"))?;
        let names: Vec<String> =
            (0..100).map(|n| format!("{}{n}", if n % 40 == 7 { "closed" } else { "open" })).collect();
        subscriber.subscribe(&names).wait()?;
        // Ends the connections of those who are subscribed to more.
        rules(&["&open*", ping])?;
        let Some(Event::Reconnected(gap)) = subscriber.next_timeout(LONG)? else { panic!("no gap") };
        assert_eq!(gap.restored(), 100);
        // In front of what is asked for again.
        drop(subscriber.unsubscribe("open1"));
        for _ in 0..3 {
            assert_eq!(subscriber.next_timeout(LONG).unwrap_err().code(), Some("NOPERM"), "{ping}");
        }
        assert_eq!(subscriber.subscribe("open0").wait()?, 96);
        assert_eq!(subscriber.subscriptions(), 96);
        assert_eq!(conn.publish("open1", "nobody").wait()?, 0);
        for n in [0, 2, 99] {
            assert_eq!(conn.publish(format!("open{n}"), n).wait()?, 1);
            assert_eq!(text(subscriber.next_timeout(LONG)), n.to_string());
        }
        assert!(subscriber.try_next()?.is_none());
    }
    Ok(())
}
