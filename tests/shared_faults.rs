//! Sixty-four threads on one connection, over a proxy that delays, cuts, stalls, closes and resets it at random bytes: no reply
//! at the wrong caller, nothing acknowledged lost, nothing run twice, nothing run that was told unsent, and no hang.
//!
//! Every value carries its thread and the number of its call, so that a reply at the wrong caller is seen at once. What became
//! of calls without a reply is checked on the server at the end, by another connection.
//!
//! `REDEFER_SEED=n` runs one seed alone.

#![cfg(all(unix, feature = "testing"))]

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use redefer::resp::Frame;
use redefer::{Config, Error, FromReply, Reconnect, Result, SendWhen, Shared, SharedReply, WaitError, prelude::*};
use support::proxy::{Mix, Proxy, Struck, play_all, random_faults};

const THREADS: usize = 64;
const CALLS: usize = 40;
const SEEDS: std::ops::Range<u64> = 0..12;
/// A run that takes so long hangs.
const HANGS: Duration = Duration::from_secs(120);

/// Decodes nothing: panics.
#[derive(Debug)]
struct Bomb;

impl FromReply for Bomb {
    fn from_reply(_: Frame<'_>) -> Result<Self> {
        std::panic::resume_unwind(Box::new("a bomb"));
    }
}

/// What one thread knows of its keys.
#[derive(Default)]
struct Known {
    /// Of INCR: how often it certainly ran, and how often it may have besides.
    counted: u64,
    maybe: u64,
    last: u64,
    /// The values that its register may have. The first is the one that was acknowledged last.
    register: Vec<Option<String>>,
    /// What APPEND has added, and what it may have.
    appended: Vec<String>,
    maybe_appended: Vec<String>,
    replies: u64,
}

/// One thread of a run.
struct Caller<'a> {
    n: usize,
    rng: fastrand::Rng,
    shared: &'a Shared,
    known: Known,
    /// A command that was lost may run behind one that was issued later.
    reconnects: bool,
}

/// Waits in one of several ways. `None`: given up.
fn wait<T: FromReply>(rng: &mut fastrand::Rng, reply: SharedReply<'_, T>) -> Option<Result<T>> {
    match rng.u8(0..8) {
        0 => {
            reply.detach();
            None
        }
        1 => {
            drop(reply);
            None
        }
        2 => {
            std::mem::forget(reply);
            None
        }
        3 | 4 => {
            let mut reply = reply;
            for _ in 0..rng.usize(1..50) {
                match reply.wait_timeout(Duration::from_micros(rng.u64(0..3000))) {
                    Err(WaitError::Timeout(same)) => reply = same,
                    Err(WaitError::Failed(error)) => return Some(Err(error)),
                    Ok(value) => return Some(Ok(value)),
                }
            }
            Some(reply.wait())
        }
        5 => {
            let _ = reply.is_ready();
            Some(reply.wait())
        }
        _ => Some(reply.wait()),
    }
}

/// Whether a call may have run, or run later, that ended like this.
fn may_have_run(outcome: &Option<Result<impl Sized>>) -> bool {
    match outcome {
        None => true,
        Some(Err(Error::Timeout)) => true,
        Some(Err(error @ Error::ConnectionLost(_))) => error.may_have_run(),
        Some(Err(error)) => panic!("unexpected: {error}"),
        Some(Ok(_)) => false,
    }
}

impl Caller<'_> {
    fn run(mut self) -> Known {
        self.known.register.push(None);
        for call in 0..CALLS {
            let value =
                format!("{}#{call}{};", self.n, "x".repeat(if self.rng.u8(0..20) == 0 { 20_000 } else { call % 50 }));
            match self.rng.u8(0..8) {
                0 => self.count(),
                1 => self.set(value),
                2 => self.get(),
                3 => self.append(value),
                4 => self.transact(),
                5 => {
                    let bang = catch_unwind(AssertUnwindSafe(|| self.shared.echo::<Bomb>(&value).wait()));
                    assert!(!matches!(bang, Ok(Ok(_))), "a bomb goes off");
                }
                6 => {
                    let list = self.shared.mget::<Option<String>>([self.key("nothing"), self.key("nothing")]);
                    match list.wait::<Vec<_>>() {
                        Ok(list) => assert_eq!(list, [None, None]),
                        Err(error) => assert!(matches!(error, Error::Timeout | Error::ConnectionLost(_)), "{error}"),
                    }
                }
                _ => {
                    let reply = self.shared.echo::<String>(&value);
                    if let Some(Ok(echo)) = wait(&mut self.rng, reply) {
                        assert_eq!(echo, value, "a reply at the wrong caller");
                        self.known.replies += 1;
                    }
                }
            }
        }
        self.known
    }

    fn key(&self, what: &str) -> String {
        format!("{what}:{}", self.n)
    }

    fn counted(&mut self, n: u64, by: u64) {
        let known = &mut self.known;
        known.counted += by;
        known.replies += 1;
        assert!(n > known.last, "{n} after {}", known.last);
        known.last = n;
        assert!(
            (known.counted..=known.counted + known.maybe).contains(&n),
            "{n}, {} and {}",
            known.counted,
            known.maybe
        );
    }

    fn count(&mut self) {
        let reply = self.shared.incr(self.key("count"));
        let outcome = wait(&mut self.rng, reply);
        self.known.maybe += u64::from(may_have_run(&outcome));
        if let Some(Ok(n)) = outcome {
            self.counted(n as u64, 1);
        }
    }

    fn transact(&mut self) {
        let tx = self.shared.transaction();
        let (one, two) = (tx.incr(self.key("count")), tx.incr(self.key("count")));
        let echo = tx.echo::<usize>(self.n);
        let outcome = wait(&mut self.rng, tx.commit());
        if may_have_run(&outcome) {
            self.known.maybe += 2;
            return;
        }
        if outcome.is_some_and(|outcome| outcome.is_ok()) {
            match (one.wait(), two.wait()) {
                (Ok(one), Ok(two)) => {
                    assert_eq!(one + 1, two, "a transaction is one piece");
                    self.counted(two as u64, 2);
                }
                // The header of EXEC's reply came, and the rest of it was late or lost.
                _ => self.known.maybe += 2,
            }
            if let Ok(n) = echo.wait() {
                assert_eq!(n, self.n, "a reply at the wrong caller");
            }
        }
    }

    fn set(&mut self, value: String) {
        let reply = self.shared.set(self.key("register"), &value);
        let outcome = wait(&mut self.rng, reply);
        if may_have_run(&outcome) {
            self.known.register.push(Some(value));
        } else if outcome.is_some_and(|outcome| outcome.is_ok()) {
            if !self.reconnects {
                self.known.register.clear();
            }
            self.known.register.push(Some(value));
        }
    }

    fn get(&mut self) {
        let reply = self.shared.get::<Option<String>>(self.key("register"));
        if let Some(Ok(value)) = wait(&mut self.rng, reply) {
            self.known.replies += 1;
            assert!(self.known.register.contains(&value), "{value:?} is none of {:?}", self.known.register);
        }
    }

    fn append(&mut self, value: String) {
        let reply = self.shared.append(self.key("log"), &value);
        let outcome = wait(&mut self.rng, reply);
        if may_have_run(&outcome) {
            self.known.maybe_appended.push(value);
        } else if outcome.is_some_and(|outcome| outcome.is_ok()) {
            self.known.appended.push(value);
        }
    }
}

fn config(url: &str, rng: &mut fastrand::Rng, reconnects: bool, hasty: bool) -> Config {
    let policy =
        Reconnect::backoff().attempts(20).first_delay(Duration::from_millis(1)).max_delay(Duration::from_millis(4));
    // Nothing stalls where nobody is hasty: who waits for what never comes hangs there, and no timeout hides it.
    let time = if hasty { Duration::from_millis(30) } else { Duration::from_secs(600) };
    support::config_for(url)
        .reconnect(if reconnects { policy } else { Reconnect::never() })
        .timeout(time)
        .connect_timeout(time.max(Duration::from_millis(100)))
        .linger(Duration::from_millis(20))
        .write_batch([1, 100, 8192][rng.usize(0..3)])
        .max_outstanding([1, 7, 100, 65_536][rng.usize(0..4)])
        .max_outstanding_bytes([1000, 100_000, 64 << 20][rng.usize(0..3)])
        .send_when([SendWhen::Adaptive, SendWhen::Eager, SendWhen::Gathering][rng.usize(0..3)])
}

/// Checks on the server what the threads know.
fn check(conn: &Connection, known: &[Known]) -> Result<()> {
    for (n, known) in known.iter().enumerate() {
        let count: u64 = conn.get::<Option<u64>>(format!("count:{n}")).wait()?.unwrap_or(0);
        assert!(
            (known.counted..=known.counted + known.maybe).contains(&count),
            "{count} ran of {} that were told and {} that may have",
            known.counted,
            known.maybe
        );
        let register: Option<String> = conn.get(format!("register:{n}")).wait()?;
        assert!(known.register.contains(&register), "{register:?} is none of {:?}", known.register);
        let log: String = conn.get::<Option<String>>(format!("log:{n}")).wait()?.unwrap_or_default();
        let mut parts: Vec<&str> = log.split_inclusive(';').collect();
        let told = parts.iter().filter(|part| known.appended.iter().any(|told| told == *part)).count();
        assert_eq!(told, known.appended.len(), "all that was told is there, once");
        let whole = parts.len();
        parts.sort_unstable();
        parts.dedup();
        assert_eq!(parts.len(), whole, "nothing ran twice");
        for part in parts {
            let known = known.appended.iter().chain(&known.maybe_appended).any(|value| value == part);
            assert!(known, "{part:?} was told to be unsent, and ran");
        }
    }
    Ok(())
}

fn run(seed: u64, reconnects: bool) -> (u64, Struck) {
    let server = support::server();
    let mut rng = fastrand::Rng::with_seed(seed);
    let hasty = rng.bool();
    let mix = Mix { delays: rng.bool(), stalls: hasty, ends: true, within: 1 << rng.u32(12..19) };
    let proxy = Proxy::start(server.port(), move |number| random_faults(seed, number, mix));
    let config = config(&proxy.url(), &mut rng, reconnects, hasty);
    let shared = (0..50).find_map(|_| Shared::open(config.clone()).ok());
    let Some(shared) = shared else { panic!("no connection got through its handshake") };
    let known: Vec<Known> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|n| {
                let rng = fastrand::Rng::with_seed(seed << 8 | n as u64);
                let caller = Caller { n, rng, shared: &shared, known: Known::default(), reconnects };
                scope.spawn(move || caller.run())
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no thread panics")).collect()
    });
    drop(shared);
    proxy.close_all();
    let struck = proxy.struck();
    drop(proxy);
    // What was still on its way to the server has arrived when the server has closed all others.
    let conn = support::open(&server);
    let settled = support::until("the server has let go of the others", || Ok(conn.client_list().wait()?.len() == 1));
    settled.and_then(|()| check(&conn, &known)).expect("the server answers");
    (known.iter().map(|known| known.replies).sum(), struck)
}

fn run_all(reconnects: bool) {
    play_all(SEEDS, HANGS, reconnects, run);
}

#[test]
fn sixty_four_threads_on_a_connection_that_breaks() {
    run_all(false);
}

#[test]
fn sixty_four_threads_on_a_connection_that_is_made_again() {
    run_all(true);
}
