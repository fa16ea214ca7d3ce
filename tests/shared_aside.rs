//! What is not this crate's own runs without the lock of a `Shared`: it may use the same connection.

#![cfg(all(unix, feature = "testing"))]

mod support;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redefer::args::Arg;
use redefer::testing::Server;
use redefer::{Error, Result, Shared, ToArg, prelude::*};

/// Runs a test that would wait for a lock that it holds itself.
fn on_a_shared(test: fn(Shared) -> Result<()>) -> Result<()> {
    let server = support::server();
    let shared = open(&server)?;
    support::within(Duration::from_secs(20), move || test(shared))
}

fn open(server: &Server) -> Result<Shared> {
    Shared::open(support::config(server))
}

/// Uses the connection, and says what came of it.
fn uses(shared: &Shared) -> i64 {
    let used = shared.incr("used").wait();
    used.expect("the connection can be used")
}

#[test]
fn what_it_is_shown_to_may_use_it() -> Result<()> {
    struct Sink<'c>(&'c Shared, String);
    impl fmt::Write for Sink<'_> {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            uses(self.0);
            self.1.push_str(text);
            Ok(())
        }
    }
    on_a_shared(|shared| {
        let mut sink = Sink(&shared, String::new());
        fmt::write(&mut sink, format_args!("{shared:?} {shared:#?} {:?}", shared.transaction())).expect("it is shown");
        assert!(sink.1.starts_with("Shared") && sink.1.contains("outstanding: 0"), "{}", sink.1);
        assert!(shared.get::<i64>("used").wait()? > 2);
        Ok(())
    })
}

/// An argument that uses the connection when it is asked for its bytes, and when it is dropped.
struct Asks(Shared);

impl ToArg for Asks {
    fn to_arg(&self) -> Arg<'_> {
        Arg::Integer(uses(&self.0))
    }
}

impl Drop for Asks {
    fn drop(&mut self) {
        uses(&self.0);
    }
}

#[test]
fn arguments_may_use_it() -> Result<()> {
    on_a_shared(|shared| {
        let asks = || Asks(shared.clone());
        assert_eq!(shared.echo::<i64>(asks()).wait()?, 1);
        assert_eq!(shared.command::<i64>("ECHO", (asks(),)).wait()?, 3);
        assert_eq!(shared.idempotent().echo::<i64>(asks()).wait()?, 5);
        assert_eq!(shared.sadd("set", redefer::args::each([asks(), asks()])).wait()?, 2);
        let tx = shared.transaction();
        let echo = tx.echo::<i64>(asks());
        let pushed = tx.command::<i64>("RPUSH", ("list", asks()));
        tx.commit().wait()?;
        assert!(echo.wait()? > 6);
        assert_eq!(pushed.wait()?, 1);
        Ok(())
    })
}

/// An error that uses the connection when nobody wants to hear of it.
#[derive(Debug)]
struct Last(Shared);

impl fmt::Display for Last {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it cannot be sent")
    }
}

impl std::error::Error for Last {}

impl Drop for Last {
    fn drop(&mut self) {
        uses(&self.0);
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Fails with it.
struct Fails(Shared);

impl ToArg for Fails {
    fn to_arg(&self) -> Arg<'_> {
        Arg::Failed(Error::custom(Last(self.0.clone())))
    }
}

#[test]
fn errors_that_nobody_is_told_may_use_it() -> Result<()> {
    on_a_shared(|shared| {
        let fails = || Fails(shared.clone());
        // The first one is for the account, the others are counted.
        for _ in 0..3 {
            drop(shared.echo::<String>(fails()));
            shared.echo::<String>(fails()).detach();
        }
        assert_eq!((shared.stats().unseen_errors, DROPPED.load(Ordering::Relaxed)), (6, 5));
        assert!(matches!(shared.sync(), Err(Error::Custom(_))));
        assert_eq!(DROPPED.load(Ordering::Relaxed), 6);
        // In a transaction.
        let tx = shared.transaction();
        drop(tx.echo::<String>(fails()));
        let second = tx.echo::<String>(fails());
        let commit = tx.commit();
        drop(second);
        assert!(matches!(commit.wait(), Err(Error::Custom(_))));
        let tx = shared.transaction();
        drop(tx.echo::<String>(fails()));
        drop(tx);
        let tx = shared.transaction();
        let late = tx.echo::<String>(fails());
        drop(tx);
        drop(late);
        let _ = shared.sync();
        assert_eq!(DROPPED.load(Ordering::Relaxed), 10);
        uses(&shared);
        Ok(())
    })
}
