//! A random client that subscribes in the middle of everything, on a real server: each reply goes to its own handle, and each
//! message comes once and in order.
//!
//! `REDEFER_SEED=n` runs one seed alone, `REDEFER_MODEL_SECONDS=n` goes on for longer than the usual three.

#![cfg(all(unix, feature = "testing"))]

mod support;

use std::collections::{BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use redefer::pubsub::Event;
use redefer::{Config, Error, MultiBulk, Protocol, Reply, Result, SendWhen, Value, WaitError, prelude::*};
use support::Private;

/// What the server knows of the connection, and what is on the way to it.
#[derive(Default)]
struct Shadow {
    channels: BTreeSet<String>,
    patterns: BTreeSet<String>,
    shards: BTreeSet<String>,
    messages: VecDeque<String>,
    counter: i64,
    sent: u64,
}

enum Handle<'c> {
    Count(Reply<'c, u64>, Option<u64>),
    Number(Reply<'c, i64>, i64),
    List(MultiBulk<'c, i64>),
    Map(MultiBulk<'c, (String, i64)>),
    Value(Reply<'c, Value>),
}

impl Handle<'_> {
    fn check(self, rng: &mut fastrand::Rng) -> Result<()> {
        match self {
            Handle::Count(reply, None) => {
                let got = reply.wait();
                assert!(matches!(&got, Err(Error::Server(error)) if error.code() == Some("NOPERM")), "{got:?}");
            }
            Handle::Count(reply, Some(count)) => match reply.wait_timeout(Duration::from_micros(rng.u64(1..50))) {
                Ok(got) => assert_eq!(got, count),
                Err(WaitError::Timeout(reply)) if rng.bool() => assert_eq!(reply.wait()?, count),
                Err(WaitError::Timeout(reply)) => reply.detach(),
                Err(WaitError::Failed(error)) => return Err(error),
            },
            Handle::Number(reply, number) => assert_eq!(reply.wait()?, number),
            Handle::List(list) => assert!(list.wait::<Vec<_>>()?.into_iter().eq(0..500)),
            Handle::Map(map) => {
                let mut map = map.wait::<Vec<_>>()?;
                map.sort();
                assert_eq!(map, [("a".to_owned(), 1), ("b".to_owned(), 2)]);
            }
            Handle::Value(reply) => {
                let mut bytes = Vec::new();
                reply.copy_to(&mut bytes)?;
                assert_eq!(bytes.len(), 100_000);
            }
        }
        Ok(())
    }

    fn end(mut self, rng: &mut fastrand::Rng) -> Result<()> {
        match rng.u32(..10) {
            0 => match self {
                Handle::Count(reply, _) => reply.detach(),
                Handle::Number(reply, _) => reply.detach(),
                Handle::List(list) => list.detach(),
                Handle::Map(map) => map.detach(),
                Handle::Value(reply) => reply.detach(),
            },
            1 => drop(self),
            2 => std::mem::forget(self),
            3 => {
                if let Handle::List(list) = &mut self {
                    assert_eq!(list.next().transpose()?, Some(0));
                }
            }
            _ => self.check(rng)?,
        }
        Ok(())
    }
}

fn subscription<'c>(conn: &'c Connection, rng: &mut fastrand::Rng, shadow: &mut Shadow) -> Handle<'c> {
    let names: Vec<String> = (0..rng.u32(1..4)).map(|_| format!("c{}", rng.u32(..4))).collect();
    let patterns: Vec<String> = names.iter().map(|name| format!("{name}*")).collect();
    let both = |shadow: &Shadow| (shadow.channels.len() + shadow.patterns.len()) as u64;
    match rng.u32(..8) {
        0 | 1 => {
            shadow.channels.extend(names.iter().cloned());
            Handle::Count(conn.subscribe(&names), Some(both(shadow)))
        }
        2 => {
            shadow.patterns.extend(patterns.iter().cloned());
            Handle::Count(conn.psubscribe(&patterns), Some(both(shadow)))
        }
        3 => {
            shadow.shards.extend(names.iter().cloned());
            Handle::Count(conn.ssubscribe(&names), Some(shadow.shards.len() as u64))
        }
        4 => {
            shadow.channels.retain(|own| !names.contains(own));
            Handle::Count(conn.unsubscribe(&names), Some(both(shadow)))
        }
        5 => {
            shadow.patterns.retain(|own| !patterns.contains(own));
            Handle::Count(conn.punsubscribe(&patterns), Some(both(shadow)))
        }
        6 => {
            shadow.shards.clear();
            Handle::Count(conn.sunsubscribe(()), Some(0))
        }
        _ => Handle::Count(conn.subscribe(["c1", "forbidden"]), None),
    }
}

fn run(server: &Private, seed: u64) -> Result<()> {
    let rng = &mut fastrand::Rng::with_seed(seed);
    let config: Config = support::config(server)
        .protocol(Protocol::Resp3)
        .user("u")
        .password("p")
        .push_queue(1 << 20, 1 << 30)
        .max_outstanding([1, 2, 3, 10, 65_536][rng.usize(..5)])
        .write_batch([1, 64, 8192][rng.usize(..3)])
        .send_when([SendWhen::Adaptive, SendWhen::Eager, SendWhen::Gathering][rng.usize(..3)]);
    let conn = Connection::open(config)?;
    let mut shadow = Shadow { counter: conn.incr("n").wait()?, ..Shadow::default() };
    {
        let shadow = &mut shadow;
        let mut pending: Vec<Handle<'_>> = Vec::new();
        for _ in 0..rng.u32(20..200) {
            let handle = match rng.u32(..16) {
                0..=3 => subscription(&conn, rng, shadow),
                4 => {
                    shadow.counter += 1;
                    Handle::Number(conn.incr("n"), shadow.counter)
                }
                5 => Handle::List(conn.lrange("l", 0, -1)),
                6 => Handle::Map(conn.hgetall("h")),
                7 => Handle::Value(conn.get("text")),
                8 | 9 => {
                    let channel = format!("c{}", rng.u32(..4));
                    let own = shadow.channels.contains(&channel);
                    let patterns = shadow.patterns.contains(&format!("{channel}*"));
                    let text = shadow.sent.to_string();
                    shadow.sent += 1;
                    for _ in 0..u32::from(own) + u32::from(patterns) {
                        shadow.messages.push_back(text.clone());
                    }
                    Handle::Number(conn.publish(channel, text), i64::from(own) + i64::from(patterns))
                }
                10 => {
                    let tx = conn.transaction();
                    shadow.counter += 2;
                    let (one, two) = (tx.incr("n"), tx.incr("n"));
                    let behind = subscription(&conn, rng, shadow);
                    let commit = tx.commit();
                    pending.push(behind);
                    if rng.bool() {
                        assert_eq!(two.wait()?, shadow.counter);
                        assert_eq!(one.wait()?, shadow.counter - 1);
                        commit.detach();
                    } else {
                        one.detach();
                        two.detach();
                        commit.wait()?;
                    }
                    continue;
                }
                11 => {
                    let batch = conn.batch();
                    shadow.counter += 1;
                    let one = batch.incr("n");
                    let inside = subscription(&conn, rng, shadow);
                    batch.lrange::<i64>("l", 0, -1).detach();
                    batch.finish()?;
                    assert_eq!(one.wait()?, shadow.counter);
                    inside
                }
                12 => {
                    conn.blpop::<Value, Value>("nothing", Duration::from_millis(2)).detach();
                    subscription(&conn, rng, shadow)
                }
                13 => {
                    if let Some(push) = conn.next_push_timeout(Duration::ZERO)? {
                        take(push, shadow);
                    }
                    continue;
                }
                14 => {
                    conn.set_from("text", &vec![b'x'; 100_000][..], 100_000).detach();
                    continue;
                }
                _ if !pending.is_empty() => pending.swap_remove(rng.usize(..pending.len())),
                _ => continue,
            };
            if rng.bool() { pending.push(handle) } else { handle.end(rng)? }
        }
        while !pending.is_empty() {
            pending.swap_remove(rng.usize(..pending.len())).end(rng)?;
        }
    }
    conn.ping().wait()?;
    while let Some(push) = conn.next_push_timeout(Duration::ZERO)? {
        take(push, &mut shadow);
    }
    assert_eq!(shadow.messages, [""; 0]);
    assert_eq!(conn.incr("n").wait()?, shadow.counter + 1);
    conn.sunsubscribe(()).detach();
    conn.punsubscribe(()).detach();
    assert_eq!(conn.unsubscribe(()).wait()?, 0);
    if seed.is_multiple_of(4) {
        let conn = conn.into_subscriber()?.into_connection()?;
        assert_eq!(conn.incr("n").wait()?, shadow.counter + 2);
    }
    Ok(())
}

fn take(push: Value, shadow: &mut Shadow) {
    match Event::try_from(push) {
        Ok(Event::Message(message)) => {
            let wanted = shadow.messages.pop_front();
            assert_eq!(wanted.as_deref().map(str::as_bytes), Some(message.payload()));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_reply_goes_to_its_handle_and_each_message_comes_once() -> Result<()> {
    let server = support::server();
    let admin = support::open(&server);
    admin.rpush("l", (0..500).collect::<Vec<i64>>()).wait()?;
    admin.hset("h", [("a", 1), ("b", 2)]).wait()?;
    admin.set("text", vec![b'x'; 100_000]).wait()?;
    let rules = ["u", "on", ">p", "+@all", "allkeys", "resetchannels", "&c0*", "&c1*", "&c2*", "&c3*"];
    admin.command::<()>("ACL SETUSER", rules).wait()?;
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("REDEFER_SEED") {
        return run(&server, seed);
    }
    let time = Duration::from_secs(number("REDEFER_MODEL_SECONDS").unwrap_or(3));
    let (start, mut seed) = (Instant::now(), fastrand::u64(..1 << 40));
    while start.elapsed() < time {
        seed += 1;
        match catch_unwind(AssertUnwindSafe(|| run(&server, seed))) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => panic!("REDEFER_SEED={seed}: {error}"),
            Err(panic) => {
                eprintln!("REDEFER_SEED={seed}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    Ok(())
}
