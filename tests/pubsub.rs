//! A subscriber on real servers.

#![cfg(feature = "testing")]

mod support;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use redefer::pubsub::{Event, EventRef, Handlers, Message, Subscriber};
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
fn acknowledgements_say_how_many_subscriptions_there_are() -> Result<()> {
    let server = support::server();
    let subscriber = open(&server);
    assert_eq!(subscriber.subscribe(["a", "b", "a"]).wait()?, 2);
    assert_eq!(subscriber.psubscribe("a*").wait()?, 3);
    assert_eq!(subscriber.ssubscribe("shard").wait()?, 1);
    assert_eq!(subscriber.subscriptions(), 4);
    assert_eq!(subscriber.unsubscribe("a").wait()?, 2);
    assert_eq!(subscriber.unsubscribe("never").wait()?, 2);
    assert_eq!(subscriber.punsubscribe("a*").wait()?, 1);
    assert_eq!(subscriber.sunsubscribe("shard").wait()?, 0);
    let (one, two) = (subscriber.subscribe("c"), subscriber.subscribe("d"));
    assert_eq!(two.wait()?, 3);
    assert_eq!(one.wait()?, 2);
    assert_eq!(subscriber.unsubscribe_all().wait()?, 0);
    assert_eq!(subscriber.unsubscribe_all().wait()?, 0);
    assert_eq!(subscriber.subscriptions(), 0);
    Ok(())
}

#[test]
fn messages_come_with_channel_and_pattern_in_order() -> Result<()> {
    let server = support::server();
    let (subscriber, conn) = (open(&server), support::open(&server));
    subscriber.subscribe("news").wait()?;
    subscriber.psubscribe("n*").wait()?;
    subscriber.ssubscribe("shard").wait()?;
    assert_eq!(conn.publish("news", 7).wait()?, 2);
    assert_eq!(conn.spublish("shard", [0_u8, 255]).wait()?, 1);
    let first = message(subscriber.next());
    assert_eq!((first.channel(), first.pattern(), first.payload_as::<i64>()?), (&b"news"[..], None, 7));
    let second = message(subscriber.next());
    assert_eq!((second.channel(), second.pattern(), second.payload()), (&b"news"[..], Some(&b"n*"[..]), &b"7"[..]));
    assert!(!second.is_shard());
    let third = message(subscriber.next());
    assert!(third.is_shard());
    assert_eq!((third.channel(), third.clone().into_payload()), (&b"shard"[..], vec![0, 255]));
    assert!(third.payload_as::<String>().is_err());
    assert!(subscriber.try_next()?.is_none());
    assert!(subscriber.next_timeout(Duration::from_millis(1))?.is_none());
    Ok(())
}

#[test]
fn nothing_is_lost_around_acknowledgements_while_another_connection_publishes_at_full_speed() -> Result<()> {
    const COUNT: u64 = 30_000;
    let server = support::server();
    let (subscriber, conn) = (open(&server), support::open(&server));
    subscriber.subscribe("numbers").wait()?;
    let publisher = thread::spawn(move || {
        (0..COUNT).for_each(|n| conn.publish("numbers", n).detach());
        conn.sync()
    });
    let mut expected = 0;
    let mut round = 0_u64;
    while expected < COUNT {
        let others = [format!("a{round}"), format!("b{round}")];
        assert_eq!(subscriber.subscribe(&others).wait()?, 3);
        let pattern = subscriber.psubscribe("other.*");
        let left = subscriber.unsubscribe(&others);
        assert_eq!(subscriber.punsubscribe("other.*").wait()?, 1);
        assert_eq!((pattern.wait()?, left.wait()?), (4, 2));
        for _ in 0..1 + round % 100 {
            let Some(event) = subscriber.try_next()? else { break };
            assert_eq!(message(Ok(Some(event))).payload_as::<u64>()?, expected);
            expected += 1;
        }
        round += 1;
    }
    publisher.join().unwrap()?;
    assert!(subscriber.try_next()?.is_none());
    Ok(())
}

#[test]
fn a_connection_is_drained_listens_and_is_a_connection_again() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set("list", "no list").detach();
    conn.rpush("list", "one").detach();
    let subscriber = conn.into_subscriber()?;
    let other = support::open(&server);
    assert_eq!(other.get::<String>("list").wait()?, "no list");
    subscriber.subscribe(["a", "b"]).wait()?;
    subscriber.psubscribe("*").wait()?;
    subscriber.ssubscribe("s").wait()?;
    for n in 0..10 {
        other.publish("a", n).wait()?;
    }
    let (conn, rest) = subscriber.into_connection_and_rest()?;
    let numbers: Vec<u64> =
        rest.into_iter().filter_map(Event::into_message).map(|message| message.payload_as().unwrap()).collect();
    assert_eq!(numbers, (0..20).map(|n| n / 2).collect::<Vec<_>>());
    // The error of the RPUSH was nobody's yet.
    assert_eq!(conn.sync().unwrap_err().code(), Some("WRONGTYPE"));
    assert_eq!(other.publish("a", "nobody").wait()?, 0);
    assert_eq!(conn.get::<String>("list").wait()?, "no list");

    let subscriber = conn.into_subscriber()?;
    subscriber.subscribe("a").wait()?;
    other.publish("a", "dropped").wait()?;
    let conn = subscriber.into_connection()?;
    conn.set("key", "value").wait()?;
    assert!(conn.into_subscriber()?.into_connection()?.get::<String>("key").wait()? == "value");
    Ok(())
}

#[test]
fn turning_back_is_possible_while_messages_keep_coming() -> Result<()> {
    let server = support::server();
    let (conn, stop) = (support::open(&server), AtomicBool::new(false));
    let stop = &stop;
    thread::scope(|scope| {
        let publisher = scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                conn.publish("c", "message").detach();
            }
            conn.sync()
        });
        let mut own = support::open(&server);
        for _ in 0..50 {
            let subscriber = own.into_subscriber()?;
            subscriber.subscribe(["c", "d"]).wait()?;
            message(subscriber.next());
            own = subscriber.into_connection()?;
            own.ping().wait()?;
        }
        stop.store(true, Ordering::Relaxed);
        publisher.join().unwrap()
    })
}

#[test]
fn a_forgotten_watch_is_refused() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    std::mem::forget(conn.watch("key")?);
    assert!(matches!(conn.into_subscriber(), Err(Error::Refused(_))));
    Ok(())
}

#[test]
fn an_empty_list_is_nothing_to_subscribe_to_and_all_to_unsubscribe_from() -> Result<()> {
    let server = support::server();
    let subscriber = open(&server);
    let none: [&str; 0] = [];
    assert!(matches!(subscriber.subscribe(none).wait(), Err(Error::Argument(_))));
    assert!(matches!(subscriber.handle().subscribe(none).wait(), Err(Error::Argument(_))));
    assert_eq!(subscriber.subscribe(["a", "b"]).wait()?, 2);
    // No name means all of the kind, as it does for the server.
    assert_eq!(subscriber.psubscribe("p*").wait()?, 3);
    assert_eq!(subscriber.unsubscribe(none).wait()?, 1);
    assert_eq!(subscriber.punsubscribe(none).wait()?, 0);
    assert_eq!(subscriber.subscriptions(), 0);
    Ok(())
}

#[test]
fn a_refused_subscription_is_the_error_of_its_handle_and_of_nothing_else() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    for ping in ["+ping", "-ping"] {
        let rules = ["reset", "on", ">secret", "+@all", "allkeys", "resetchannels", "&open", "&open.*", ping];
        conn.command::<()>("ACL", ("SETUSER", "reader", &rules[..])).wait()?;
        let subscriber = Subscriber::open(support::config(&server).user("reader").password("secret"))?;
        let good = subscriber.subscribe("open");
        let bad = subscriber.subscribe(["open.a", "closed"]);
        let other = subscriber.psubscribe("open.*");
        let worse = subscriber.ssubscribe("closed");
        assert_eq!(other.wait()?, 2, "{ping}");
        assert_eq!(bad.wait().unwrap_err().code(), Some("NOPERM"));
        assert_eq!(worse.wait().unwrap_err().code(), Some("NOPERM"));
        assert_eq!(good.wait()?, 1);
        // Nobody asks: whoever reads is told.
        drop(subscriber.subscribe("closed"));
        let answered = subscriber.subscribe("open.b");
        conn.publish("open", "hello").wait()?;
        let error = subscriber.next().unwrap_err();
        assert_eq!(error.code(), Some("NOPERM"));
        assert_eq!(text(subscriber.next()), "hello");
        assert_eq!(answered.wait()?, 3);
        subscriber.into_connection()?.set("key", "value").wait()?;
    }
    Ok(())
}

#[test]
fn another_thread_stops_a_blocked_iteration() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    within(LONG, move || {
        for config in [support::config(&server), support::unix_config(&server)] {
            let subscriber = Subscriber::open(config)?;
            subscriber.subscribe("c").wait()?;
            for round in 0..100 {
                let handle = subscriber.handle();
                let stopper = thread::spawn(move || handle.stop());
                assert!(subscriber.iter().next().is_none(), "{round}");
                stopper.join().unwrap();
            }
            // The subscriber is as good as before.
            conn.publish("c", "still here").wait()?;
            assert_eq!(text(subscriber.next()), "still here");
        }
        Ok(())
    })
}

#[test]
fn a_stop_comes_before_messages_and_loses_none() -> Result<()> {
    let server = support::server();
    let (subscriber, conn) = (open(&server), support::open(&server));
    subscriber.subscribe("c").wait()?;
    conn.publish("c", "one").wait()?;
    subscriber.handle().stop();
    subscriber.handle().stop();
    assert!(subscriber.next()?.is_none());
    assert_eq!(text(subscriber.next()), "one");
    Ok(())
}

#[test]
fn other_threads_subscribe_and_unsubscribe_while_one_reads() -> Result<()> {
    const THREADS: usize = 4;
    let server = support::server();
    let subscriber = open(&server);
    let config = support::config(&server);
    within(LONG, move || {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (handle, config) = (subscriber.handle(), config.clone());
                thread::spawn(move || {
                    let conn = Connection::open(config)?;
                    for round in 0..50 {
                        let channel = format!("{thread}.{round}");
                        assert!(handle.subscribe(&channel).wait()? >= 1);
                        assert_eq!(conn.publish(&channel, "message").wait()?, 1);
                        handle.unsubscribe(&channel).wait_timeout(LONG)?;
                    }
                    Ok::<_, Error>(())
                })
            })
            .collect();
        let handle = subscriber.handle();
        let watcher = thread::spawn(move || {
            let outcome = threads.into_iter().try_for_each(|thread| thread.join().unwrap());
            handle.stop();
            outcome
        });
        let mut count = 0;
        for event in &subscriber {
            assert_eq!(message(event.map(Some)).payload(), b"message");
            count += 1;
        }
        watcher.join().unwrap()?;
        assert_eq!((count, subscriber.subscriptions()), (THREADS * 50, 0));
        Ok(())
    })
}

#[test]
fn requests_end_with_the_subscriber() -> Result<()> {
    let server = support::server();
    let subscriber = open(&server);
    let handle = subscriber.handle();
    let before = handle.subscribe("a");
    drop(subscriber);
    assert!(matches!(before.wait(), Err(Error::Refused(_))));
    assert!(matches!(handle.psubscribe("a").wait(), Err(Error::Refused(_))));
    assert!(matches!(handle.unsubscribe_all().wait(), Err(Error::Refused(_))));
    handle.stop();
    Ok(())
}

#[test]
fn events_are_lent_and_what_the_closure_subscribes_to_is_done_on_the_way() -> Result<()> {
    let server = support::server();
    let (subscriber, conn) = (open(&server), support::open(&server));
    subscriber.subscribe("rooms").wait()?;
    conn.publish("rooms", "kitchen").wait()?;
    let mut seen = Vec::new();
    within(LONG, move || {
        subscriber.for_each(|event| {
            let EventRef::Message(message) = event else { panic!("{event:?}") };
            seen.push(message.payload_as::<String>().unwrap());
            if message.channel() == b"kitchen" {
                return ControlFlow::Break(());
            }
            assert!(matches!(subscriber.subscribe(message.payload()).wait(), Err(Error::Refused(_))));
            assert!(matches!(subscriber.try_next(), Err(Error::Refused(_))));
            let handle = subscriber.handle();
            let conn = Connection::open(support::config(&server)).unwrap();
            thread::spawn(move || {
                handle.subscribe("kitchen").wait().unwrap();
                conn.publish("kitchen", "hello").wait().unwrap();
            });
            ControlFlow::Continue(())
        })?;
        assert_eq!(seen, ["kitchen", "hello"]);
        Ok(())
    })
}

#[test]
fn handlers_take_what_is_theirs() -> Result<()> {
    let server = support::server();
    let (subscriber, conn) = (open(&server), support::open(&server));
    subscriber.subscribe(["number", "other", "end"]).wait()?;
    subscriber.psubscribe("text.*").wait()?;
    for (channel, payload) in
        [("number", "7"), ("text.a", "hello"), ("number", "seven"), ("other", "x"), ("number", "8"), ("end", "")]
    {
        conn.publish(channel, payload).wait()?;
    }
    let (mut numbers, mut texts, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
    let handle = subscriber.handle();
    let mut handlers = Handlers::new()
        .on("number", |_, n: u64| numbers.push(n))
        .on_pattern("text.*", |message, text: String| texts.push((message.channel().to_vec(), text)))
        .on_error(|message, error| wrong.push((message.payload().to_vec(), error)))
        .on("end", |_, _: String| handle.stop());
    subscriber.run(&mut handlers)?;
    assert_eq!(handlers.unhandled(), 1);
    drop(handlers);
    assert_eq!(numbers, [7, 8]);
    assert_eq!(texts, [(b"text.a".to_vec(), "hello".to_owned())]);
    assert_eq!(wrong.len(), 1);
    assert!(matches!(&wrong[0], (payload, Error::UnexpectedReply(_)) if payload == b"seven"));

    // Without a handler for errors they end the run, and nothing is lost by that.
    conn.publish("number", "nine").wait()?;
    conn.publish("other", "y").wait()?;
    conn.publish("end", "").wait()?;
    let (mut others, handle) = (0, subscriber.handle());
    let mut handlers =
        Handlers::new().on("number", |_, _: u64| {}).on("end", |_, _: String| handle.stop()).otherwise(|_| others += 1);
    assert!(subscriber.run(&mut handlers).is_err());
    subscriber.run(&mut handlers)?;
    drop(handlers);
    assert_eq!(others, 1);
    Ok(())
}

#[test]
fn a_slot_that_leaves_its_node_takes_its_shard_channels_with_it() -> Result<()> {
    let server = support::server_with([("cluster-enabled", "yes"), ("cluster-require-full-coverage", "no")]);
    let conn = support::open(&server);
    conn.command::<()>("CLUSTER", ("ADDSLOTSRANGE", 0, 16383)).wait()?;
    support::until("the node is a cluster", || Ok(conn.spublish("{a}", "nobody").wait().is_ok()))?;
    let subscriber = open(&server);
    assert_eq!(subscriber.ssubscribe(["{a}1", "{a}2"]).wait()?, 2);
    // Another slot.
    assert_eq!(subscriber.ssubscribe(["{a}1", "{b}1"]).wait().unwrap_err().code(), Some("CROSSSLOT"));
    assert_eq!(subscriber.ssubscribe("{b}1").wait()?, 3);
    let slot: i64 = conn.command("CLUSTER", ("KEYSLOT", "{a}")).wait()?;
    conn.command::<()>("CLUSTER", ("DELSLOTS", slot)).wait()?;
    let mut gone = Vec::new();
    within(LONG, move || {
        while gone.len() < 2 {
            match subscriber.next()? {
                Some(Event::ShardUnsubscribed(channel)) => gone.push(channel),
                other => panic!("{other:?}"),
            }
        }
        gone.sort();
        assert_eq!(gone, [b"{a}1", b"{a}2"]);
        assert_eq!(subscriber.subscriptions(), 1);
        // In step all the same.
        assert!(subscriber.ssubscribe("{a}1").wait().is_err());
        assert_eq!(subscriber.subscribe("c").wait()?, 1);
        assert_eq!(conn.spublish("{b}1", "still here").wait()?, 1);
        assert_eq!(text(subscriber.next()), "still here");
        subscriber.into_connection()?.ping().wait()
    })
}

#[test]
fn an_error_that_nobody_has_seen_goes_back_with_the_connection() -> Result<()> {
    let server = support::server();
    let rules = ["on", ">secret", "+@all", "allkeys", "resetchannels", "&open"];
    support::open(&server).command::<()>("ACL", ("SETUSER", "reader", &rules[..])).wait()?;
    let subscriber = Subscriber::open(support::config(&server).user("reader").password("secret"))?;
    drop(subscriber.subscribe("closed"));
    let asked = subscriber.handle().subscribe("open");
    let conn = subscriber.into_connection()?;
    assert!(matches!(asked.wait(), Err(Error::Refused(_))));
    assert_eq!(conn.sync().unwrap_err().code(), Some("NOPERM"));
    conn.set("key", "value").wait()
}

#[cfg(feature = "tls")]
#[test]
fn with_tls_too_only_the_reader_touches_the_socket() -> Result<()> {
    use redefer::TlsConfig;
    use support::tls::{Authority, TlsServer};

    let authority = Authority::new("an authority");
    let identity = authority.issue(&["127.0.0.1"]);
    for server in TlsServer::all(&identity, None) {
        let config = support::config_for(&format!("redis://127.0.0.1:{}", server.tls_port));
        let config = config.tls(TlsConfig::new().root_certificates(&authority.pem));
        let subscriber = Subscriber::open(config)?;
        let conn = support::open(&server);
        within(LONG, move || {
            let handle = subscriber.handle();
            let talker = thread::spawn(move || {
                handle.subscribe("c").wait()?;
                for n in 0..1000 {
                    conn.publish("c", format!("{n:01000}")).detach();
                }
                conn.sync()?;
                assert_eq!(handle.psubscribe("p*").wait()?, 2);
                conn.publish("c", "end").wait()?;
                Ok::<_, Error>(server)
            });
            for n in 0..1000 {
                assert_eq!(text(subscriber.next()), format!("{n:01000}"));
            }
            assert_eq!(text(subscriber.next()), "end");
            let _server = talker.join().unwrap()?;
            subscriber.into_connection()?.ping().wait()
        })?;
    }
    Ok(())
}

#[test]
fn requests_of_one_thread_are_sent_in_their_order() -> Result<()> {
    let server = support::server();
    let subscriber = Subscriber::open(support::config(&server))?;
    let handle = subscriber.handle();
    drop(handle.subscribe("x"));
    subscriber.unsubscribe("x").wait()?;
    drop(handle.subscribe(["y", "z"]));
    subscriber.unsubscribe_all().wait()?;
    assert_eq!(subscriber.subscriptions(), 0);
    Ok(())
}

#[test]
fn a_connection_that_has_turned_back_takes_no_requests_any_more() -> Result<()> {
    let server = support::server();
    let subscriber = Subscriber::open(support::config(&server))?;
    let handle = subscriber.handle();
    // Nobody has read since, and so nobody has heard of it.
    drop(handle.subscribe("x"));
    let conn = subscriber.into_connection()?;
    assert!(matches!(handle.subscribe("y").wait(), Err(Error::Refused(_))));
    conn.set("key", "value").wait()?;
    assert_eq!(conn.get::<String>("key").wait()?, "value");
    let channels: Vec<String> = conn.command("PUBSUB", "CHANNELS").wait()?;
    assert_eq!((channels, conn.outstanding()), (vec![], 0));
    Ok(())
}

#[test]
fn a_user_who_may_not_end_patterns_turns_back_when_there_are_none() -> Result<()> {
    let server = support::server();
    let rules = [
        "on",
        ">secret",
        "allkeys",
        "allchannels",
        "-@all",
        "+hello",
        "+client",
        "+ping",
        "+subscribe",
        "+unsubscribe",
    ];
    support::open(&server).command::<()>("ACL", ("SETUSER", "reader", &rules[..])).wait()?;
    let subscriber = Subscriber::open(support::config(&server).user("reader").password("secret"))?;
    assert_eq!(subscriber.unsubscribe_all().wait()?, 0);
    subscriber.subscribe("a").wait()?;
    assert_eq!(subscriber.unsubscribe_all().wait()?, 0);
    let asked = subscriber.subscribe(["a", "b"]);
    assert_eq!(subscriber.unsubscribe_all().wait()?, 0);
    assert_eq!(asked.wait()?, 2);
    subscriber.subscribe("c").wait()?;
    let subscriber = subscriber.into_connection()?.into_subscriber()?;
    subscriber.into_connection()?.ping().wait()
}

#[test]
fn errors_that_nobody_has_seen_are_in_the_account_of_the_connection() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set("text", "no list").wait()?;
    std::mem::forget(conn.rpush("text", "one"));
    // Read behind it, which keeps its reply for the handle.
    conn.ping().wait()?;
    let conn = conn.into_subscriber()?.into_connection()?;
    assert_eq!(conn.sync().unwrap_err().code(), Some("WRONGTYPE"));

    // What was asked for and not sent.
    let subscriber = conn.into_subscriber()?;
    drop(subscriber.handle().subscribe("a"));
    drop(subscriber.handle().unsubscribe_all());
    let conn = subscriber.into_connection()?;
    assert_eq!(conn.stats().unseen_errors, 2);
    assert!(matches!(conn.sync(), Err(Error::Refused(_))));
    conn.sync()
}
