//! A subscriber and a server that says what the test dictates.

mod support;

use std::io;
use std::time::Duration;

use redefer::prelude::*;
use redefer::pubsub::{Event, Subscriber};
use redefer::{Config, Error, Protocol, Reconnect, Result};
use support::scripted::{Peer, Scripted};

const LONG: Duration = Duration::from_secs(600);

/// A command and the PING behind it.
fn asked(peer: &mut Peer, command: &[&str], token: u64) -> io::Result<()> {
    peer.expect(command.iter())?;
    peer.expect(["PING", &token.to_string()])
}

/// The first connection of each of these tests: `a` is subscribed to.
fn subscribed_to_a(peer: &mut Peer) -> io::Result<()> {
    asked(peer, &["SUBSCRIBE", "a"], 0)?;
    peer.send(acknowledged("subscribe", "a", 1) + &pong(0))
}

fn acknowledged(word: &str, name: &str, count: u64) -> String {
    format!(">3\r\n${}\r\n{word}\r\n${}\r\n{name}\r\n:{count}\r\n", word.len(), name.len())
}

fn published(channel: &str, payload: &str) -> String {
    format!(">3\r\n$7\r\nmessage\r\n${}\r\n{channel}\r\n${}\r\n{payload}\r\n", channel.len(), payload.len())
}

fn pong(token: u64) -> String {
    format!("${}\r\n{token}\r\n", token.to_string().len())
}

fn config(server: &Scripted) -> Config {
    Config::from_url(&server.url()).unwrap()
}

fn again(server: &Scripted) -> Config {
    let policy = Reconnect::backoff().attempts(3).first_delay(Duration::from_millis(1));
    config(server).reconnect(policy)
}

#[track_caller]
fn payload(event: Result<Option<Event>>) -> String {
    match event {
        Ok(Some(Event::Message(message))) => message.payload_as().unwrap(),
        other => panic!("not a message: {other:?}"),
    }
}

#[test]
fn every_split_of_the_bytes_gives_the_same_events() {
    let bytes = [
        published("early", "before"),
        acknowledged("subscribe", "a", 1),
        published("a", "1"),
        acknowledged("subscribe", "b", 2),
        published("a", "2"),
        pong(0),
        ">2\r\n$10\r\ninvalidate\r\n_\r\n".to_owned(),
        ">4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$1\r\na\r\n$1\r\n3\r\n".to_owned(),
        published("a", ""),
    ]
    .concat();
    for resp2 in [false, true] {
        let bytes = if resp2 {
            bytes.replace('>', "*").replace("_\r\n", "$-1\r\n").replace(&pong(0), "*2\r\n$4\r\npong\r\n$1\r\n0\r\n")
        } else {
            bytes.clone()
        };
        for at in 0..=bytes.len() {
            let sent = bytes.clone();
            let server = Scripted::start(move |peer| {
                if resp2 {
                    peer.handshake_resp2()?
                } else {
                    peer.handshake()?
                };
                asked(peer, &["SUBSCRIBE", "a", "b"], 0)?;
                peer.send_split(&sent, at)?;
                peer.read_to_end().map(drop)
            });
            let config = config(&server).client_setinfo(!resp2);
            let config = if resp2 { config.protocol(Protocol::Resp2) } else { config };
            let subscriber = Subscriber::open(config).unwrap();
            assert_eq!(subscriber.subscribe(["a", "b"]).wait().unwrap(), 2, "{at}");
            for expected in ["before", "1", "2", "3", ""] {
                assert_eq!(payload(subscriber.next()), expected, "{at}");
            }
            assert!(subscriber.next_push().is_some());
            assert!(subscriber.next_push().is_none());
            assert!(subscriber.try_next().unwrap().is_none());
        }
    }
}

#[test]
fn a_shard_channel_that_moves_away_is_an_event_and_is_not_subscribed_to_again() -> Result<()> {
    let server = Scripted::start(|peer| {
        peer.handshake()?;
        if peer.number() == 0 {
            asked(peer, &["SSUBSCRIBE", "a", "b"], 0)?;
            peer.send(acknowledged("ssubscribe", "a", 1) + &acknowledged("ssubscribe", "b", 2) + &pong(0))?;
            // Unasked, while another command is on its way.
            asked(peer, &["SUNSUBSCRIBE", "never"], 1)?;
            peer.send(acknowledged("sunsubscribe", "a", 1) + &acknowledged("sunsubscribe", "never", 1) + &pong(1))?;
            peer.close();
            return Ok(());
        }
        asked(peer, &["SSUBSCRIBE", "b"], 2)?;
        peer.send(acknowledged("ssubscribe", "b", 1) + &pong(2))?;
        peer.read_to_end().map(drop)
    });
    let subscriber = Subscriber::open(again(&server))?;
    assert_eq!(subscriber.ssubscribe(["a", "b"]).wait()?, 2);
    assert_eq!(subscriber.sunsubscribe("never").wait()?, 1);
    assert!(matches!(subscriber.next()?, Some(Event::ShardUnsubscribed(channel)) if channel == b"a"));
    let Some(Event::Reconnected(gap)) = subscriber.next()? else { panic!("no gap") };
    assert_eq!(gap.restored(), 1);
    Ok(())
}

#[test]
fn unsubscribing_from_a_shard_channel_that_is_just_moving_keeps_the_step() -> Result<()> {
    let server = Scripted::start(|peer| {
        peer.handshake()?;
        asked(peer, &["SSUBSCRIBE", "a"], 0)?;
        peer.send(acknowledged("ssubscribe", "a", 1) + &pong(0))?;
        asked(peer, &["SUNSUBSCRIBE", "a"], 1)?;
        asked(peer, &["SUBSCRIBE", "c"], 2)?;
        peer.send(acknowledged("sunsubscribe", "a", 0) + "-MOVED 1 127.0.0.1:1\r\n" + &pong(1))?;
        peer.send(acknowledged("subscribe", "c", 1) + &pong(2))?;
        peer.read_to_end().map(drop)
    });
    let subscriber = Subscriber::open(config(&server))?;
    assert_eq!(subscriber.ssubscribe("a").wait()?, 1);
    let (gone, other) = (subscriber.sunsubscribe("a"), subscriber.subscribe("c"));
    assert_eq!(other.wait()?, 1);
    assert_eq!(gone.wait()?, 0);
    Ok(())
}

#[test]
fn a_command_that_was_not_acknowledged_is_sent_again_behind_what_was() -> Result<()> {
    let server = Scripted::start(|peer| {
        peer.handshake()?;
        if peer.number() == 0 {
            asked(peer, &["SUBSCRIBE", "a", "b"], 0)?;
            peer.send(acknowledged("subscribe", "a", 1) + &acknowledged("subscribe", "b", 2) + &pong(0))?;
            asked(peer, &["PSUBSCRIBE", "p"], 1)?;
            // Half a message is no message.
            peer.send(published("a", "1") + ">3\r\n$7\r\nmess")?;
            peer.close();
            return Ok(());
        }
        asked(peer, &["SUBSCRIBE", "a", "b"], 2)?;
        asked(peer, &["PSUBSCRIBE", "p"], 3)?;
        peer.send(acknowledged("subscribe", "a", 1) + &published("a", "2") + &acknowledged("subscribe", "b", 2))?;
        peer.send(pong(2) + &acknowledged("psubscribe", "p", 3) + &pong(3))?;
        peer.read_to_end().map(drop)
    });
    let subscriber = Subscriber::open(again(&server))?;
    assert_eq!(subscriber.subscribe(["a", "b"]).wait()?, 2);
    assert_eq!(subscriber.psubscribe("p").wait()?, 3);
    assert_eq!(payload(subscriber.next()), "1");
    assert!(matches!(subscriber.next()?, Some(Event::Reconnected(_))));
    assert_eq!(payload(subscriber.next()), "2");
    assert!(subscriber.try_next()?.is_none());
    Ok(())
}

#[test]
fn what_is_refused_after_a_reconnect_is_an_error_of_the_reader() -> Result<()> {
    let server = Scripted::start(|peer| {
        peer.handshake()?;
        if peer.number() == 0 {
            asked(peer, &["SUBSCRIBE", "a"], 0)?;
            peer.send(acknowledged("subscribe", "a", 1) + &pong(0))?;
            peer.close();
            return Ok(());
        }
        asked(peer, &["SUBSCRIBE", "a"], 1)?;
        peer.send("-NOPERM not any more\r\n".to_owned() + &pong(1))?;
        peer.read_to_end().map(drop)
    });
    let subscriber = Subscriber::open(again(&server))?;
    subscriber.subscribe("a").wait()?;
    assert!(matches!(subscriber.next()?, Some(Event::Reconnected(_))));
    assert_eq!(subscriber.next().unwrap_err().code(), Some("NOPERM"));
    assert_eq!(subscriber.subscriptions(), 0);
    assert!(!subscriber.is_broken());
    Ok(())
}

#[test]
fn connections_that_are_of_no_use_are_given_up() -> Result<()> {
    let server = Scripted::start(|peer| {
        peer.handshake()?;
        if peer.number() == 0 {
            asked(peer, &["SUBSCRIBE", "a"], 0)?;
            peer.send(acknowledged("subscribe", "a", 1) + &pong(0))?;
        }
        peer.close();
        Ok(())
    });
    let subscriber = Subscriber::open(again(&server))?;
    subscriber.subscribe("a").wait()?;
    let outcomes: Vec<_> = subscriber.iter().collect();
    assert!(matches!(outcomes.last(), Some(Err(Error::ConnectionLost(_)))), "{outcomes:?}");
    assert_eq!(outcomes.len(), 4, "three gaps, and the end");
    Ok(())
}

#[test]
fn what_nothing_has_asked_for_breaks_the_connection() -> Result<()> {
    for bytes in ["+OK\r\n", ":1\r\n", "$1\r\n7\r\n", "*0\r\n", "-ERR max number of clients reached\r\n", "?\r\n"] {
        let server = Scripted::start(move |peer| {
            peer.handshake()?;
            asked(peer, &["SUBSCRIBE", "a"], 0)?;
            peer.send(acknowledged("subscribe", "a", 1) + &pong(0) + &published("a", "1") + bytes)?;
            peer.read_to_end().map(drop)
        });
        let subscriber = Subscriber::open(config(&server))?;
        subscriber.subscribe("a").wait()?;
        assert_eq!(payload(subscriber.next()), "1");
        assert!(matches!(subscriber.next(), Err(Error::ConnectionLost(_))), "{bytes:?}");
        assert!(subscriber.is_broken());
    }
    Ok(())
}

#[test]
fn a_wait_that_times_out_leaves_the_command_in_its_place() -> Result<()> {
    let (opener, gate) = support::scripted::gate();
    let server = Scripted::start(move |peer| {
        peer.handshake()?;
        asked(peer, &["SUBSCRIBE", "a"], 0)?;
        gate.wait();
        peer.send(acknowledged("subscribe", "a", 1) + &pong(0))?;
        asked(peer, &["SUBSCRIBE", "b"], 1)?;
        peer.send(acknowledged("subscribe", "b", 2) + &pong(1))?;
        peer.read_to_end().map(drop)
    });
    let subscriber = Subscriber::open(config(&server))?;
    assert!(matches!(subscriber.subscribe("a").wait_timeout(Duration::from_millis(1)), Err(Error::Timeout)));
    opener.open();
    assert_eq!(subscriber.subscribe("b").wait()?, 2);
    assert_eq!(subscriber.subscriptions(), 2);
    Ok(())
}

#[test]
fn what_is_refused_for_the_moment_is_asked_for_again_on_the_next_connection() -> Result<()> {
    for code in ["BUSY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN"] {
        let server = Scripted::start(move |peer| {
            peer.handshake()?;
            match peer.number() {
                0 => {
                    subscribed_to_a(peer)?;
                    peer.close();
                    return Ok(());
                }
                1 => {
                    asked(peer, &["SUBSCRIBE", "a"], 1)?;
                    peer.send(format!("-{code} not now\r\n-{code} not now\r\n"))?;
                }
                _ => {
                    asked(peer, &["SUBSCRIBE", "a"], 2)?;
                    peer.send(acknowledged("subscribe", "a", 1) + &pong(2) + &published("a", "1"))?;
                }
            }
            peer.read_to_end().map(drop)
        });
        let subscriber = Subscriber::open(again(&server))?;
        subscriber.subscribe("a").wait()?;
        assert!(matches!(subscriber.next()?, Some(Event::Reconnected(_))));
        let Some(Event::Reconnected(gap)) = subscriber.next()? else { panic!("{code}: no gap") };
        assert_eq!(gap.cause().code(), Some(code));
        assert_eq!(payload(subscriber.next()), "1");
        assert_eq!(subscriber.subscriptions(), 1);
    }
    Ok(())
}

#[test]
fn a_connection_that_ends_before_all_is_acknowledged_again_was_of_no_use() -> Result<()> {
    let server = Scripted::start(|peer| {
        peer.handshake()?;
        match peer.number() {
            0 => {
                asked(peer, &["SUBSCRIBE", "a"], 0)?;
                asked(peer, &["PSUBSCRIBE", "p"], 1)?;
                peer.send(
                    acknowledged("subscribe", "a", 1) + &pong(0) + &acknowledged("psubscribe", "p", 2) + &pong(1),
                )?;
            }
            number => {
                let token = number as u64 * 2;
                asked(peer, &["SUBSCRIBE", "a"], token)?;
                asked(peer, &["PSUBSCRIBE", "p"], token + 1)?;
                peer.send(acknowledged("subscribe", "a", 1) + &pong(token) + &published("a", "1"))?;
            }
        }
        peer.close();
        Ok(())
    });
    let subscriber = Subscriber::open(again(&server))?;
    let asked = subscriber.subscribe("a");
    subscriber.psubscribe("p").wait()?;
    asked.wait()?;
    let outcomes: Vec<_> = subscriber.iter().take(20).collect();
    assert!(matches!(outcomes.last(), Some(Err(Error::ConnectionLost(_)))), "{outcomes:?}");
    assert_eq!(outcomes.len(), 7, "three gaps, three messages, and the end: {outcomes:?}");
    Ok(())
}

#[test]
fn a_request_that_ends_each_connection_is_given_up_and_the_others_are_not() -> Result<()> {
    let server = Scripted::start(|peer| {
        peer.handshake()?;
        let number = peer.number() as u64;
        asked(peer, &["SUBSCRIBE", "a"], number * 2)?;
        peer.send(acknowledged("subscribe", "a", 1) + &pong(number * 2))?;
        if number < 4 {
            asked(peer, &["SUBSCRIBE", "poison"], number * 2 + 1)?;
            peer.close();
            return Ok(());
        }
        peer.send(published("a", "still here"))?;
        peer.read_to_end().map(drop)
    });
    let subscriber = Subscriber::open(again(&server))?;
    subscriber.subscribe("a").wait()?;
    let poison = subscriber.subscribe("poison");
    assert!(matches!(poison.wait(), Err(Error::ConnectionLost(_))));
    // Nobody has read of the ones before: they are one.
    assert!(matches!(subscriber.next()?, Some(Event::Reconnected(_))));
    assert!(matches!(subscriber.next()?, Some(Event::Reconnected(_))));
    assert_eq!(payload(subscriber.next()), "still here");
    assert_eq!((server.accepted(), subscriber.subscriptions()), (5, 1));
    Ok(())
}

#[test]
fn what_a_server_says_before_it_closes_is_the_outcome_of_the_command() -> Result<()> {
    let server = Scripted::start(|peer| {
        peer.handshake()?;
        if peer.number() == 0 {
            subscribed_to_a(peer)?;
            asked(peer, &["SUBSCRIBE", "poison"], 1)?;
            asked(peer, &["SUBSCRIBE", "b"], 2)?;
            peer.send("-ERR Protocol error\r\n")?;
            peer.close();
            return Ok(());
        }
        asked(peer, &["SUBSCRIBE", "a"], 3)?;
        asked(peer, &["SUBSCRIBE", "b"], 4)?;
        peer.send(acknowledged("subscribe", "a", 1) + &pong(3) + &acknowledged("subscribe", "b", 2) + &pong(4))?;
        peer.read_to_end().map(drop)
    });
    let subscriber = Subscriber::open(again(&server))?;
    subscriber.subscribe("a").wait()?;
    let (poison, other) = (subscriber.subscribe("poison"), subscriber.subscribe("b"));
    assert_eq!(poison.wait().unwrap_err().code(), Some("ERR"));
    assert_eq!(other.wait()?, 2);
    Ok(())
}

#[test]
fn connections_without_subscriptions_that_end_after_a_while_are_of_use() -> Result<()> {
    let server = Scripted::start(|peer| {
        peer.handshake()?;
        let number = peer.number() as u64;
        if number > 0 {
            peer.expect(["PING", &(number - 1).to_string()])?;
            peer.send(pong(number - 1))?;
        }
        if number < 10 {
            peer.close();
            return Ok(());
        }
        subscribed_again(peer, number)?;
        peer.read_to_end().map(drop)
    });
    fn subscribed_again(peer: &mut Peer, token: u64) -> io::Result<()> {
        asked(peer, &["SUBSCRIBE", "a"], token)?;
        peer.send(acknowledged("subscribe", "a", 1) + &pong(token))
    }
    let subscriber = Subscriber::open(again(&server))?;
    for round in 0..10 {
        assert!(matches!(subscriber.next()?, Some(Event::Reconnected(_))), "{round}");
    }
    assert_eq!(subscriber.subscribe("a").wait()?, 1);
    Ok(())
}

#[test]
fn reads_with_less_time_than_connecting_takes_come_back_in_the_end() -> Result<()> {
    let server = Scripted::start(|peer| {
        if peer.number() > 0 {
            // A link that is this slow.
            std::thread::sleep(Duration::from_millis(30));
        }
        // From a client that has hung up meanwhile.
        let Ok(_) = peer.handshake() else { return Ok(()) };
        if peer.number() == 0 {
            subscribed_to_a(peer)?;
            peer.close();
            return Ok(());
        }
        let _ = peer.read_to_end();
        Ok(())
    });
    support::within(Duration::from_secs(60), move || {
        let subscriber = Subscriber::open(again(&server))?;
        subscriber.subscribe("a").wait()?;
        loop {
            match subscriber.next_timeout(Duration::from_millis(1))? {
                None => {}
                Some(Event::Reconnected(_)) => return Ok(()),
                Some(other) => panic!("{other:?}"),
            }
        }
    })
}

#[test]
fn a_shard_channel_that_is_just_moving_keeps_the_step_for_a_user_who_may_not_ping() -> Result<()> {
    let denied = "-NOPERM no ping\r\n";
    let server = Scripted::start(move |peer| {
        peer.handshake()?;
        asked(peer, &["SSUBSCRIBE", "a"], 0)?;
        peer.send(acknowledged("ssubscribe", "a", 1) + denied)?;
        asked(peer, &["SUNSUBSCRIBE", "a"], 1)?;
        asked(peer, &["SUBSCRIBE", "c"], 2)?;
        peer.send(acknowledged("sunsubscribe", "a", 0) + "-MOVED 1 127.0.0.1:1\r\n" + denied)?;
        peer.send(acknowledged("subscribe", "c", 1) + denied + &published("c", "1"))?;
        peer.read_to_end().map(drop)
    });
    let subscriber = Subscriber::open(config(&server))?;
    assert_eq!(subscriber.ssubscribe("a").wait()?, 1);
    let (gone, other) = (subscriber.sunsubscribe("a"), subscriber.subscribe("c"));
    assert_eq!(other.wait()?, 1);
    assert_eq!(gone.wait()?, 0);
    assert_eq!(payload(subscriber.next()), "1");
    Ok(())
}

#[test]
fn what_nobody_has_subscribed_to_is_not_subscribed_to_again() -> Result<()> {
    let server = Scripted::start(|peer| {
        peer.handshake()?;
        if peer.number() == 0 {
            asked(peer, &["SUBSCRIBE", "a"], 0)?;
            // More than was asked for, before and behind it.
            peer.send(acknowledged("psubscribe", "p", 1) + &acknowledged("subscribe", "a", 1))?;
            peer.send(acknowledged("subscribe", "b", 2) + &pong(0) + &acknowledged("subscribe", "c", 3))?;
            peer.send(acknowledged("unsubscribe", "a", 2))?;
            peer.close();
            return Ok(());
        }
        asked(peer, &["SUBSCRIBE", "a"], 1)?;
        peer.send(acknowledged("subscribe", "a", 1) + &pong(1) + &published("a", "1"))?;
        peer.read_to_end().map(drop)
    });
    let subscriber = Subscriber::open(again(&server))?;
    assert_eq!(subscriber.subscribe("a").wait()?, 1);
    let Some(Event::Reconnected(gap)) = subscriber.next()? else { panic!("no gap") };
    assert_eq!(gap.restored(), 1);
    assert_eq!(payload(subscriber.next()), "1");
    for _ in 0..4 {
        assert!(subscriber.next_push().is_some());
    }
    Ok(())
}

#[test]
fn a_connection_that_breaks_on_its_way_back_goes_there_by_the_next_one() -> Result<()> {
    let server = Scripted::start(|peer| {
        peer.handshake()?;
        if peer.number() == 0 {
            peer.close();
            return Ok(());
        }
        // There was nothing to unsubscribe from, and nothing of the subscriber's is left behind.
        peer.expect(["PING", "0"])?;
        peer.send(pong(0))?;
        peer.expect(["PING"])?;
        peer.send("+PONG\r\n")?;
        peer.read_to_end().map(drop)
    });
    let subscriber = Subscriber::open(again(&server))?;
    support::until("the end of the connection is there", || Ok(subscriber.next()?.is_some()))?;
    subscriber.into_connection()?.ping().wait()
}

#[test]
fn a_server_that_reads_late_gets_every_request_whole() -> Result<()> {
    const REQUESTS: u64 = 300;
    let name = |n: u64| format!("{n}").repeat(20_000);
    let (opener, gate) = support::scripted::gate();
    let server = Scripted::builder().buffers(64 << 10).start(move |peer| {
        peer.handshake()?;
        gate.wait();
        for n in 0..REQUESTS {
            asked(peer, &["SUBSCRIBE", &name(n)], n)?;
            peer.send(acknowledged("subscribe", &name(n), n + 1) + &pong(n))?;
        }
        peer.read_to_end().map(drop)
    });
    support::within(Duration::from_secs(60), move || {
        let subscriber = Subscriber::open(config(&server).send_buffer_size(64 << 10))?;
        // Far more than the sockets take.
        let mut asked: Vec<_> = (0..REQUESTS).map(|n| subscriber.subscribe(name(n))).collect();
        opener.open();
        assert_eq!(asked.pop().map(|last| last.wait()).transpose()?, Some(REQUESTS));
        asked.into_iter().zip(1..).try_for_each(|(asked, count)| {
            assert_eq!(asked.wait()?, count);
            Ok(())
        })
    })
}

#[test]
fn connections_that_do_not_last_are_not_made_at_full_speed() -> Result<()> {
    // Acknowledges everything, brings a message, and closes, each time.
    let server = Scripted::start(|peer| {
        peer.handshake()?;
        let token = if peer.number() == 0 { 0 } else { 1 };
        asked(peer, &["SUBSCRIBE", "a"], token)?;
        peer.send([acknowledged("subscribe", "a", 1), pong(token), published("a", "m")].concat())
    });
    let policy = Reconnect::backoff().first_delay(LONG).max_delay(LONG);
    let subscriber = Subscriber::open(config(&server).reconnect(policy))?;
    subscriber.subscribe("a").wait()?;
    assert_eq!(payload(subscriber.next()), "m");
    assert!(matches!(subscriber.next()?, Some(Event::Reconnected(_))));
    assert_eq!(payload(subscriber.next()), "m");
    // From here on it waits.
    assert!(subscriber.next_timeout(Duration::from_millis(20))?.is_none());
    assert_eq!(server.accepted(), 2);
    assert!(!subscriber.is_broken());
    Ok(())
}
