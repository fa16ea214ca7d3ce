//! Values that are copied out of a reply, or fed into a command, piece by piece.

#![cfg(feature = "testing")]

mod support;

use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use redefer::{Config, Error, Reconnect, Result, Sent, prelude::*};
use support::scripted::{Scripted, gate};

/// The byte at a position of a long value.
fn byte(at: u64) -> u8 {
    (at.wrapping_mul(31) >> 3) as u8
}

/// A reader of a long value, which fails, ends or panics at a position.
struct Source {
    at: u64,
    end: u64,
    then: Then,
}

#[derive(Clone, Copy)]
enum Then {
    End,
    Fail,
    Panic,
}

fn source(end: u64, then: Then) -> Source {
    Source { at: 0, end, then }
}

impl Read for Source {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = buf.len().min((self.end - self.at) as usize);
        if n == 0 && !buf.is_empty() {
            match self.then {
                Then::End => {}
                Then::Fail => return Err(io::Error::other("the disk is gone")),
                Then::Panic => panic!("the reader panics"),
            }
        }
        for slot in &mut buf[..n] {
            *slot = byte(self.at);
            self.at += 1;
        }
        Ok(n)
    }
}

/// A writer that compares, and fails or panics at a position.
struct Sink {
    at: u64,
    end: u64,
    then: Then,
}

fn sink(end: u64, then: Then) -> Sink {
    Sink { at: 0, end, then }
}

impl Write for Sink {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        if self.at >= self.end {
            match self.then {
                Then::End => {}
                Then::Fail => return Err(io::Error::other("the disk is full")),
                Then::Panic => panic!("the writer panics"),
            }
        }
        for got in buf {
            assert_eq!(*got, byte(self.at), "at {}", self.at);
            self.at += 1;
        }
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[track_caller]
fn lost<T: std::fmt::Debug>(outcome: Result<T>) -> Sent {
    match outcome {
        Err(Error::ConnectionLost(lost)) => lost.sent(),
        other => panic!("not ConnectionLost: {other:?}"),
    }
}

#[test]
fn values_of_every_size_around_the_pieces_and_buffers() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    for len in [0, 1, 2, 63, 64, 65_535, 65_536, 65_537, 131_072, 262_143, 262_144, 300_001] {
        conn.set_from("k", source(len, Then::End), len).wait()?;
        let before = conn.set("a", len);
        let value = conn.get::<String>("k");
        let behind = conn.get::<u64>("a");
        let mut out = sink(0, Then::End);
        assert_eq!(value.copy_to(&mut out)?, len);
        assert_eq!((out.at, behind.wait()?), (len, len));
        before.wait()?;
        // Overtaken, and so in memory.
        let value = conn.get::<String>("k");
        conn.get::<u64>("a").wait()?;
        let mut out = sink(0, Then::End);
        assert_eq!(value.copy_to(&mut out)?, len);
        assert_eq!(out.at, len);
    }
    Ok(())
}

#[test]
fn what_is_no_string_is_written_as_text_or_is_an_error() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let mut out = Vec::new();
    assert!(matches!(conn.get::<Vec<u8>>("nothing").copy_to(&mut out), Err(Error::Nil)));
    conn.rpush("list", ["a"]).wait()?;
    assert!(matches!(conn.get::<Vec<u8>>("list").copy_to(&mut out), Err(Error::Server(_))));
    assert!(matches!(
        conn.command::<Value>("LRANGE", ("list", 0, -1)).copy_to(&mut out),
        Err(Error::UnexpectedReply(_))
    ));
    assert_eq!(out, b"");
    conn.incr("n").copy_to(&mut out)?;
    assert_eq!(out, b"1");
    conn.sync()
}

#[test]
fn values_of_transactions_and_batches_are_copied_as_well() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set_from("k", source(200_000, Then::End), 200_000).wait()?;
    let tx = conn.transaction();
    let (one, value, two) = (tx.incr("n"), tx.get::<String>("k"), tx.incr("n"));
    tx.commit().wait()?;
    let mut out = sink(0, Then::End);
    assert_eq!(value.copy_to(&mut out)?, 200_000);
    assert_eq!((one.wait()?, two.wait()?), (1, 2));
    let batch = conn.batch();
    let value = batch.get::<String>("k");
    let mut out = sink(0, Then::End);
    assert_eq!(value.copy_to(&mut out)?, 200_000);
    batch.finish()?;
    let tx = conn.transaction();
    let value = tx.get::<String>("k");
    assert!(matches!(value.copy_to(&mut out), Err(Error::NotCommitted)));
    Ok(())
}

#[test]
fn a_writer_that_fails_or_panics_leaves_the_connection_in_step() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set_from("k", source(3 << 20, Then::End), 3 << 20).wait()?;
    for end in [0, 1, 100_000, 2 << 20] {
        let value = conn.get::<Vec<u8>>("k");
        let behind = conn.incr("n");
        match value.copy_to(&mut sink(end, Then::Fail)) {
            Err(Error::Custom(error)) => assert_eq!(error.to_string(), "the disk is full"),
            other => panic!("{other:?}"),
        }
        assert_eq!(behind.wait()?, conn.get::<i64>("n").wait()?);
        let value = conn.get::<Vec<u8>>("k");
        let behind = conn.incr("n");
        let copied = catch_unwind(AssertUnwindSafe(|| value.copy_to(&mut sink(end, Then::Panic))));
        assert!(copied.is_err());
        assert_eq!(behind.wait()?, conn.get::<i64>("n").wait()?);
    }
    assert_eq!(conn.outstanding(), 0);
    conn.sync()
}

#[test]
fn a_reader_that_fails_at_once_costs_nothing_and_later_the_connection() -> Result<()> {
    for then in [Then::End, Then::Fail] {
        let server = support::server();
        let conn = Connection::open(support::config(&server).reconnect(Reconnect::backoff()))?;
        let before = conn.incr("n");
        // Nothing was sent.
        assert!(matches!(conn.set_from("k", source(10, then), 1000).wait(), Err(Error::Custom(_))));
        assert_eq!(conn.incr("n").wait()?, 2);
        // A part was.
        let cut = conn.set_from("k", source(1 << 20, then), 2 << 20);
        assert_eq!(before.wait()?, 1);
        let Err(Error::ConnectionLost(loss)) = cut.wait() else { panic!("the server waits for the rest") };
        assert_eq!(loss.sent(), Sent::Partly);
        assert!(matches!(loss.cause(), Error::Custom(_)));
        assert_eq!(conn.incr("n").wait()?, 3);
        assert_eq!(conn.exists("k").wait()?, 0);
    }
    Ok(())
}

#[test]
fn a_reader_that_panics_breaks_the_connection() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let fed = catch_unwind(AssertUnwindSafe(|| conn.set_from("k", source(1 << 20, Then::Panic), 2 << 20).detach()));
    assert!(fed.is_err());
    assert!(conn.is_broken());
    assert_eq!(lost(conn.incr("n").wait()), Sent::Unsent);
    let other = support::open(&server);
    assert_eq!(other.exists("k").wait()?, 0);
    Ok(())
}

#[test]
fn reader_and_writer_may_not_use_the_connection() -> Result<()> {
    struct Uses<'a>(&'a Connection, bool);
    impl Read for Uses<'_> {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            self.1 |= matches!(self.0.incr("n").wait(), Err(Error::Refused(_)));
            buf.fill(b'x');
            Ok(buf.len())
        }
    }
    impl Write for Uses<'_> {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            self.1 |= matches!(self.0.incr("n").wait(), Err(Error::Refused(_)));
            Ok(buf.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let server = support::server();
    let conn = support::open(&server);
    let mut uses = Uses(&conn, false);
    conn.set_from("k", &mut uses, 10).wait()?;
    assert!(uses.1);
    let mut uses = Uses(&conn, false);
    conn.get::<String>("k").copy_to(&mut uses)?;
    assert!(uses.1);
    Ok(())
}

#[test]
fn options_may_stand_behind_a_fed_value_and_odd_commands_are_refused() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let value = source(100_000, Then::End);
    conn.command_from::<()>("SET", ["k"], value, 100_000, ("EX", 100)).wait()?;
    assert!(matches!(conn.ttl("k").wait()?, redefer::commands::Ttl::In(_)));
    assert_eq!(conn.append_from("k", &b"tail"[..], 4).wait()?, 100_004);
    assert_eq!(conn.getrange::<String>("k", 100_000, -1).wait()?, "tail");
    assert!(matches!(conn.command_from::<()>("MULTI", (), &b""[..], 0, ()).wait(), Err(Error::Refused(_))));
    assert!(matches!(conn.command_from::<()>("AUTH", (), &b"x"[..], 1, ()).wait(), Err(Error::Refused(_))));
    assert!(matches!(conn.set_from("k", &b""[..], (512 << 20) + 1).wait(), Err(Error::Argument(_))));
    // An error of the server is the value of the handle.
    conn.rpush("list", ["a"]).wait()?;
    assert!(matches!(conn.append_from("list", source(1 << 20, Then::End), 1 << 20).wait(), Err(Error::Server(_))));
    conn.sync()
}

#[test]
fn a_cut_in_the_middle_of_a_copied_value_is_a_loss() -> Result<()> {
    let (opener, written) = gate();
    let server = Scripted::start(move |peer| {
        peer.handshake()?;
        peer.expect(["GET", "k"])?;
        peer.send("$1000\r\n")?;
        peer.send((0..10).map(byte).collect::<Vec<_>>())?;
        written.wait();
        Ok(())
    });
    let conn = Connection::open(Config::from_url(&server.url())?)?;
    let mut out = sink(5, Then::End);
    struct Tells<W>(W, support::scripted::Opener);
    impl<W: Write> Write for Tells<W> {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            self.1.open();
            self.0.write(buf)
        }
        fn flush(&mut self) -> io::Result<()> {
            self.0.flush()
        }
    }
    let copied = conn.get::<String>("k").copy_to(&mut Tells(&mut out, opener));
    assert_eq!((lost(copied), out.at), (Sent::Fully, 10));
    assert!(conn.sync().is_err());
    Ok(())
}

#[test]
fn a_length_whose_line_does_not_end_as_it_must_is_no_value() -> Result<()> {
    for reply in ["$1\n\na\r\n", "$1]\na\r\n", "$12\n34567890ab\r\n"] {
        let server = Scripted::start(move |peer| {
            peer.handshake()?;
            peer.expect(["GET", "k"])?;
            peer.send(reply)?;
            peer.expect_end()
        });
        let conn = Connection::open(Config::from_url(&server.url())?)?;
        let mut out = Vec::new();
        let copied = conn.get::<String>("k").copy_to(&mut out);
        assert!(matches!(copied, Err(Error::ConnectionLost(_) | Error::Protocol(_))), "{reply:?}: {copied:?}");
        assert_eq!(out, b"");
        drop(conn);
        server.finish();
    }
    Ok(())
}

#[test]
fn a_server_that_stalls_in_the_middle_is_a_timeout_and_what_is_left_is_skipped() -> Result<()> {
    let (opener, go_on) = gate();
    let server = Scripted::start(move |peer| {
        peer.handshake()?;
        peer.expect(["GET", "k"])?;
        peer.send("$20\r\n")?;
        peer.send((0..10).map(byte).collect::<Vec<_>>())?;
        go_on.wait();
        peer.send("more bytes\r\n")?;
        peer.expect(["PING"])?;
        peer.send("+PONG\r\n")?;
        peer.expect_end()
    });
    let conn = Connection::open(Config::from_url(&server.url())?.timeout(Duration::from_millis(50)))?;
    let copied = conn.get::<String>("k").copy_to(&mut sink(20, Then::End));
    assert!(matches!(copied, Err(Error::Timeout)), "{copied:?}");
    opener.open();
    conn.command::<()>("PING", ()).wait_timeout(Duration::from_secs(20)).map_err(|_| Error::Timeout)?;
    conn.sync()?;
    drop(conn);
    server.finish();
    Ok(())
}
