//! Faults that clients have really had, on a connection that threads share.

#![cfg(all(unix, feature = "testing"))]

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use redefer::args::{Arg, ArgWriter};
use redefer::{Error, Result, Shared, ToArg, ToArgs, Value, prelude::*};
use support::memory::{KIB, MIB, NOISE, alone, growth, resident};
use support::scripted::Scripted;
use support::shared::{config, threads};

/// Panics when it is asked for its bytes, with others before it.
struct Bomb;

impl ToArgs for Bomb {
    fn write_args(&self, out: &mut ArgWriter<'_>) {
        out.arg("half");
        out.arg(&Fuse);
    }
}

struct Fuse;

impl ToArg for Fuse {
    fn to_arg(&self) -> Arg<'_> {
        panic!("a bomb")
    }
}

#[test]
fn an_argument_that_panics_half_way_leaves_no_half_of_a_command() -> Result<()> {
    let server = support::server();
    let shared = support::open(&server).into_shared()?;
    threads(8, |n| {
        for round in 0..20 {
            let bang = |run: &dyn Fn()| assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
            if n % 2 == 0 {
                bang(&|| drop(shared.rpush("list", Bomb)));
                bang(&|| drop(shared.command::<Value>("RPUSH", ("list", Bomb))));
                bang(&|| drop(shared.idempotent().rpush("list", Bomb)));
                let tx = shared.transaction();
                let x = tx.incr("x");
                bang(&|| drop(tx.rpush("list", Bomb)));
                tx.commit().wait()?;
                x.wait()?;
                let batch = shared.batch();
                let x = batch.incr("x");
                bang(&|| drop(batch.rpush("list", Bomb)));
                batch.finish()?;
                x.wait()?;
            }
            assert_eq!(shared.echo::<String>(format!("{n}:{round}")).wait()?, format!("{n}:{round}"));
        }
        Ok(())
    })?;
    assert_eq!((shared.exists("list").wait()?, shared.get::<i64>("x").wait()?), (0, 4 * 20 * 2));
    shared.sync()
}

#[test]
fn replies_of_the_wrong_type_are_consumed_whole() -> Result<()> {
    let frames: [&[u8]; 8] = [
        b"~2\r\n:1\r\n:2\r\n",
        b"%1\r\n+a\r\n:1\r\n",
        b"#t\r\n",
        b"*1\r\n*1\r\n*0\r\n",
        b"+QUEUED\r\n",
        b",1.5\r\n",
        b"=6\r\ntxt:ab\r\n",
        b"(123\r\n",
    ];
    let peer = Scripted::start(move |peer| {
        peer.handshake()?;
        for frame in frames {
            peer.read_command()?;
            peer.send(frame)?;
            let next = peer.read_command()?;
            peer.send(support::scripted::bulk(&next[1]))?;
        }
        peer.expect_end()
    });
    let shared = Shared::open(config(&peer)?)?;
    for n in 0..frames.len() {
        let (wrong, right) = (shared.command::<()>("ASK", n), shared.echo::<usize>(n));
        let error = wrong.wait().unwrap_err();
        assert!(matches!(&error, Error::UnexpectedReply(_)), "{n}: {error:?}");
        assert_eq!(right.wait()?, n);
    }
    drop(shared);
    peer.finish();
    Ok(())
}

#[test]
fn replies_around_a_transaction_and_inside_of_it_stay_in_step() -> Result<()> {
    let server = support::server();
    let shared = support::open(&server).into_shared()?;
    shared.set("text", "no number").wait()?;
    shared.command::<String>("XADD", ("stream", "*", "field", "value")).wait()?;
    threads(8, |n| {
        for _ in 0..20 {
            let before = shared.echo::<usize>(n);
            let tx = shared.transaction();
            let error = tx.incr("text");
            let nested = tx.eval::<Value>("return {1, {2, {3, 'x'}}, {err = 'ERR mine'}, false, 5}", (), ());
            let nil = tx.get::<Option<String>>("none");
            let stream = tx.command::<Option<Value>>("XREAD", ("COUNT", 1, "STREAMS", "stream", 0));
            let overflow =
                tx.command::<Vec<Option<i64>>>("BITFIELD", ("bits", "OVERFLOW", "FAIL", "INCRBY", "u2", 0, 5));
            let last = tx.echo::<usize>(n + 1);
            let commit = tx.commit();
            let behind = shared.echo::<usize>(n + 2);
            commit.wait()?;
            // In an order of their own.
            assert_eq!((last.wait()?, before.wait()?, behind.wait()?), (n + 1, n, n + 2));
            assert_eq!(nil.wait()?, None);
            assert_eq!(overflow.wait()?, [None]);
            assert!(matches!(nested.wait()?, Value::Array(elements) if elements.len() == 5));
            assert!(stream.wait()?.is_some());
            assert_eq!(error.wait().unwrap_err().code(), Some("ERR"));
        }
        Ok(())
    })?;
    shared.sync()
}

#[test]
fn pushes_between_replies_and_inside_of_them_are_lifted_out() -> Result<()> {
    const PUSH: &str = ">3\r\n+message\r\n+channel\r\n+text\r\n";
    let reply = format!(
        "{PUSH}+OK\r\n{PUSH}+QUEUED\r\n+QUEUED\r\n{PUSH}*2\r\n{PUSH}:1\r\n{PUSH}*2\r\n:2\r\n{PUSH}:3\r\n{PUSH}$4\r\nlast\r\n"
    );
    let peer = Scripted::start(move |peer| {
        peer.handshake()?;
        for whole in [true, false] {
            peer.read_commands(5)?;
            if whole {
                peer.send(&reply)?;
            } else {
                peer.send_bytewise(&reply)?;
            }
        }
        peer.expect_end()
    });
    let shared = Shared::open(config(&peer)?)?;
    for round in 1..=2 {
        let tx = shared.transaction();
        let (n, list) = (tx.incr("n"), tx.lrange::<i64>("list", 0, -1));
        let commit = tx.commit();
        let last = shared.get::<String>("k");
        let outcomes = thread::scope(|scope| {
            let threads = (
                scope.spawn(|| last.wait()),
                scope.spawn(|| list.wait::<Vec<_>>()),
                scope.spawn(|| n.wait()),
                scope.spawn(|| commit.wait()),
            );
            (threads.0.join(), threads.1.join(), threads.2.join(), threads.3.join())
        });
        let (Ok(last), Ok(list), Ok(n), Ok(commit)) = outcomes else { panic!("no thread panics") };
        commit?;
        assert_eq!((last?, list?, n?), ("last".to_owned(), vec![2, 3], 1));
        assert_eq!(shared.stats().pushes, round * 7);
    }
    assert!((0..14).all(|_| shared.next_push().is_some()) && shared.next_push().is_none());
    drop(shared);
    peer.finish();
    Ok(())
}

#[test]
fn a_transaction_that_is_refused_at_any_step_keeps_others_in_step() -> Result<()> {
    let queued = "+OK\r\n+QUEUED\r\n+QUEUED\r\n";
    let cases = [
        // MULTI is refused, and the commands run one by one.
        ("NOPERM", "-NOPERM no\r\n:1\r\n:2\r\n-ERR EXEC without MULTI\r\n".to_owned()),
        ("MOVED", format!("{queued}-MOVED 1 127.0.0.1:7001\r\n")),
        ("TRYAGAIN", format!("{queued}-TRYAGAIN Multiple keys\r\n")),
        ("EXECABORT", format!("{queued}-EXECABORT Transaction discarded\r\n")),
        ("READONLY", format!("{queued}-READONLY You can't write\r\n")),
    ];
    let replies = cases.clone();
    let peer = Scripted::start(move |peer| {
        peer.handshake()?;
        for (_, reply) in &replies {
            peer.read_commands(5)?;
            peer.send(reply)?;
            peer.send("$4\r\nlast\r\n")?;
        }
        peer.expect_end()
    });
    let shared = Shared::open(config(&peer)?)?;
    for (code, _) in cases {
        let tx = shared.transaction();
        let (one, two) = (tx.incr("one"), tx.incr("two"));
        let commit = tx.commit();
        let last = shared.get::<String>("k");
        let outcomes = thread::scope(|scope| {
            let threads = (scope.spawn(|| one.wait()), scope.spawn(|| two.wait()), scope.spawn(|| commit.wait()));
            [threads.0.join().map(|one| one.map(drop)), threads.1.join().map(|two| two.map(drop)), threads.2.join()]
        });
        for outcome in outcomes {
            let error = outcome.expect("no thread panics").unwrap_err();
            assert_eq!(error.code(), Some(code));
        }
        assert_eq!(last.wait()?, "last");
    }
    shared.sync()?;
    drop(shared);
    peer.finish();
    Ok(())
}

/// A server keeps the replies that are not taken, and at its limit ends the connection.
#[test]
fn replies_that_nobody_waits_for_are_taken_all_the_same() -> Result<()> {
    let server = support::server_with([("client-output-buffer-limit", "normal 32mb 32mb 1")]);
    // Ten megabytes of replies at most, of a hundred in all.
    let shared = Shared::open(support::config(&server).max_outstanding(1000))?;
    shared.set("k", "v".repeat(10_000)).wait()?;
    threads(4, |_| {
        for _ in 0..2_500 {
            shared.get::<String>("k").detach();
        }
        Ok(())
    })?;
    shared.sync()?;
    assert!(!shared.is_broken());
    assert_eq!(shared.stats().stored, 0);
    Ok(())
}

#[test]
fn a_giant_reply_and_what_nobody_wants_leave_no_memory_taken() -> Result<()> {
    alone(|| {
        let server = support::server();
        let shared = support::open(&server).into_shared()?;
        shared.command::<Value>("SETRANGE", ("large", 40_000_000, "x")).wait()?;
        for n in 0..2_000 {
            shared.set("warm", n).detach();
            shared.echo::<String>("up").detach();
        }
        shared.sync()?;
        let grown = growth("a detached GET of 40 MB", || {
            shared.get::<String>("large").detach();
            assert_eq!(shared.echo::<i64>(1).wait()?, 1);
            drop(shared.get::<String>("large"));
            Ok(())
        })?;
        assert!(grown < NOISE, "{} KiB", grown / KIB);
        let before = resident();
        let given_back = |what: &str| {
            let grown = resident().saturating_sub(before);
            println!("{what}: {} KiB are still held", grown / KIB);
            assert!(grown < 8 * MIB, "{what}: {} KiB", grown / KIB);
        };
        assert_eq!(shared.get::<Vec<u8>>("large").wait()?.len(), 40_000_001);
        given_back("a giant reply");
        shared.set("large", vec![b'x'; 40_000_000]).wait()?;
        given_back("a giant command");
        let batch = shared.batch();
        for _ in 0..100_000 {
            batch.echo::<String>("a reply of some length that nobody wants");
        }
        batch.finish()?;
        given_back("a large batch");
        Ok(())
    })
}
