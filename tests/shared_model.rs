//! Everything that threads can do on a `Shared`, in any mixture, over a proxy that spoils the connection: batches, transactions,
//! scripts, commands that may be sent again, and handles that are waited for, given back, given up, forgotten, or sent to
//! another thread.
//!
//! Each command adds a token of its own to a list, so that the server knows in the end what has run, and how often. A token that
//! was acknowledged ran once; one of which it was said that it was not sent never did; of the others nobody knows, but they ran
//! at most once. Only of those that may be sent again there may be more.
//!
//! `REDEFER_SEED=n` runs one seed alone, `REDEFER_SEEDS=n` so many.

#![cfg(all(unix, feature = "testing"))]

mod support;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use redefer::commands::Handle;
use redefer::{
    Config, Connection, Error, Reconnect, Result, Script, SendWhen, Shared, SharedQueued, WaitError, prelude::*,
};
use support::proxy::{Mix, Proxy, Struck, play_all, random_faults};

const THREADS: usize = 24;
const CALLS: usize = 30;
/// A run that takes so long hangs.
const HANGS: Duration = Duration::from_secs(120);
/// As often as a command is sent, that may be sent again, at most.
const SENT: usize = 4;

static PUSH: LazyLock<Script> = LazyLock::new(|| Script::new("redis.call('RPUSH', KEYS[1], ARGV[1]) return ARGV[1]"));

/// What became of a token.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Ran,
    Unsent,
    Unknown,
}

fn fate<T>(outcome: &Result<T>) -> Fate {
    match outcome {
        Ok(_) => Fate::Ran,
        Err(Error::Timeout) => Fate::Unknown,
        Err(Error::NotCommitted) => Fate::Unsent,
        Err(error @ Error::ConnectionLost(_)) if error.may_have_run() => Fate::Unknown,
        Err(Error::ConnectionLost(_)) => Fate::Unsent,
        Err(other) => panic!("unexpected: {other:?}"),
    }
}

struct Told {
    token: String,
    fate: Fate,
    /// How often it may have run.
    most: usize,
}

/// A handle that its thread has no more use for.
type Left<'c> = (String, SharedQueued<'c, i64>);

struct Caller<'a, 'c> {
    n: usize,
    rng: fastrand::Rng,
    shared: &'c Shared,
    told: Vec<Told>,
    left: &'a Mutex<Vec<Left<'c>>>,
    tokens: usize,
    last: i64,
}

impl Caller<'_, '_> {
    fn token(&mut self) -> String {
        self.tokens += 1;
        let size = if self.rng.u8(0..30) == 0 { 9000 } else { self.rng.usize(0..40) };
        format!("{}:{}:{}", self.n, self.tokens, "x".repeat(size))
    }

    fn key(&self) -> String {
        format!("log:{}", self.n)
    }

    fn note(&mut self, token: String, fate: Fate, most: usize) {
        self.told.push(Told { token, fate, most });
    }

    /// Waits in one of several ways. `None`: given up.
    fn wait<T, H: Handle<T>>(&mut self, mut handle: H) -> Option<Result<T>> {
        match self.rng.u8(0..9) {
            0 => handle.detach(),
            1 => drop(handle),
            2 => std::mem::forget(handle),
            3..=5 => {
                for _ in 0..self.rng.usize(1..40) {
                    match handle.wait_timeout(Duration::from_micros(self.rng.u64(0..3000))) {
                        Err(WaitError::Timeout(same)) => handle = same,
                        Err(WaitError::Failed(error)) => return Some(Err(error)),
                        Ok(value) => return Some(Ok(value)),
                    }
                }
                return Some(handle.wait());
            }
            _ => {
                let _ = handle.is_ready();
                return Some(handle.wait());
            }
        }
        None
    }

    fn run(mut self) -> Vec<Told> {
        for _ in 0..CALLS {
            match self.rng.u8(0..10) {
                0 | 1 => self.push(),
                2 => self.push_again(),
                3 => self.script(),
                4 => self.echo(),
                5..=7 => self.batch(),
                8 => self.transaction(),
                _ => self.others(),
            }
        }
        self.told
    }

    fn push(&mut self) {
        let token = self.token();
        let reply = self.shared.rpush(self.key(), &token);
        let outcome = self.wait(reply);
        if let Some(Ok(len)) = outcome {
            assert!(len > self.last, "{len} after {}: a reply at the wrong caller", self.last);
            self.last = len;
        }
        self.note(token, outcome.as_ref().map_or(Fate::Unknown, fate), 1);
    }

    fn push_again(&mut self) {
        let token = self.token();
        let reply = self.shared.idempotent().rpush(self.key(), &token);
        let outcome = self.wait(reply);
        self.note(token, outcome.as_ref().map_or(Fate::Unknown, fate), SENT);
    }

    fn script(&mut self) {
        let token = self.token();
        let outcome = if self.rng.bool() {
            let reply = PUSH.run::<String, _>(self.shared, self.key(), &token);
            self.wait(reply)
        } else {
            let reply = PUSH.run::<String, _>(self.shared.idempotent(), self.key(), &token);
            self.wait(reply)
        };
        if let Some(Ok(echo)) = &outcome {
            assert_eq!(*echo, token, "a reply at the wrong caller");
        }
        // An unsent EVAL behind an EVALSHA that was answered, too, did not run.
        self.note(token, outcome.as_ref().map_or(Fate::Unknown, fate), SENT);
    }

    fn echo(&mut self) {
        let token = self.token();
        let reply = self.shared.echo::<String>(&token);
        if let Some(Ok(echo)) = self.wait(reply) {
            assert_eq!(echo, token, "a reply at the wrong caller");
        }
        let list = self.shared.mget::<Option<String>>(["nothing", "nothing"]);
        match list.wait::<Vec<_>>() {
            Ok(list) => assert_eq!(list, [None, None], "a reply at the wrong caller"),
            other => drop(fate(&other)),
        }
    }

    fn batch(&mut self) {
        let batch = self.shared.batch();
        let size = if self.rng.u8(0..8) == 0 { 130 } else { self.rng.usize(0..9) };
        let (mut kept, mut dropped) = (Vec::new(), Vec::new());
        for _ in 0..size {
            let token = self.token();
            let handle = batch.rpush(self.key(), &token);
            match self.rng.u8(0..8) {
                0 => {
                    // Too early, and it runs all the same.
                    assert!(matches!(handle.wait(), Err(Error::NotCommitted)));
                    dropped.push(token);
                }
                1 => {
                    std::mem::forget(handle);
                    self.note(token, Fate::Unknown, 1);
                }
                2 | 3 => kept.push((token, handle)),
                _ => dropped.push(token),
            }
        }
        let echo = batch.echo::<usize>(self.n);
        let outcome = match self.rng.u8(0..8) {
            0 => {
                drop(batch);
                dropped.drain(..).for_each(|token| self.note(token, Fate::Unknown, 1));
                Ok(())
            }
            1 => {
                let bang = catch_unwind(AssertUnwindSafe(|| {
                    let _batch = batch;
                    std::panic::resume_unwind(Box::new("a bomb"));
                }));
                assert!(bang.is_err());
                dropped.drain(..).for_each(|token| self.note(token, Fate::Unsent, 1));
                Ok(())
            }
            2 => {
                // A batch that is forgotten is not sent.
                std::mem::forget(batch);
                dropped.drain(..).for_each(|token| self.note(token, Fate::Unsent, 1));
                Ok(())
            }
            _ => batch.finish(),
        };
        let whole = match &outcome {
            // It tells of the first one that failed, and how many others did, but not which.
            Err(Error::Batch(batch)) => {
                fate::<()>(&Err(batch.first().clone()));
                Fate::Unknown
            }
            outcome => fate(outcome),
        };
        dropped.into_iter().for_each(|token| self.note(token, whole, 1));
        for (token, handle) in kept {
            if self.rng.u8(0..4) == 0 {
                self.left.lock().unwrap_or_else(PoisonError::into_inner).push((token, handle));
                continue;
            }
            let outcome = self.wait(handle);
            self.note(token, outcome.as_ref().map_or(Fate::Unknown, fate), 1);
        }
        if let Ok(n) = echo.wait() {
            assert_eq!(n, self.n, "a reply at the wrong caller");
        }
    }

    fn transaction(&mut self) {
        let tx = self.shared.transaction();
        let (a, b) = (self.token(), self.token());
        let one = tx.rpush(self.key(), &a);
        drop(tx.rpush(self.key(), &b));
        let commit = tx.commit();
        let of_all = if self.rng.bool() {
            let outcome = self.wait(one);
            drop(commit);
            outcome.as_ref().map_or(Fate::Unknown, fate)
        } else {
            let outcome = self.wait(commit);
            outcome.as_ref().map_or(Fate::Unknown, fate)
        };
        self.note(a, of_all, 1);
        self.note(b, of_all, 1);
    }

    fn others(&mut self) {
        match self.rng.u8(0..6) {
            0 => drop(self.shared.sync()),
            1 => drop(self.shared.flush()),
            2 => drop(self.shared.is_broken()),
            3 => drop((self.shared.outstanding(), self.shared.stats())),
            _ => {
                // Those that others have left, which are not their own thread's any more.
                let left = self.left.lock().unwrap_or_else(PoisonError::into_inner).pop();
                if let Some((token, handle)) = left {
                    let outcome = self.wait(handle);
                    self.note(token, outcome.as_ref().map_or(Fate::Unknown, fate), 1);
                }
            }
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

fn check(conn: &Connection, told: &[Told]) -> Result<usize> {
    let mut ran: HashMap<String, usize> = HashMap::new();
    for n in 0..THREADS {
        for token in conn.lrange::<String>(format!("log:{n}"), 0, -1).wait::<Vec<_>>()? {
            *ran.entry(token).or_default() += 1;
        }
    }
    for Told { token, fate, most } in told {
        let times = ran.remove(token).unwrap_or_default();
        let name = &token[..token.len().min(20)];
        match fate {
            Fate::Ran => assert!((1..=*most).contains(&times), "{name} was acknowledged, and ran {times} times"),
            Fate::Unsent => assert_eq!(times, 0, "{name} was told to be unsent"),
            Fate::Unknown => assert!(times <= *most, "{name} ran {times} times"),
        }
    }
    assert!(ran.is_empty(), "what nobody has sent: {:?}", ran.keys().next());
    Ok(told.iter().filter(|told| told.fate == Fate::Ran).count())
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
    let left = Mutex::default();
    let mut told: Vec<Told> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|n| {
                let rng = fastrand::Rng::with_seed(seed << 8 | n as u64);
                let (shared, left) = (&shared, &left);
                let caller = Caller { n, rng, shared, told: Vec::new(), left, tokens: 0, last: 0 };
                scope.spawn(move || caller.run())
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no thread panics")).collect()
    });
    for (token, handle) in left.into_inner().unwrap_or_else(PoisonError::into_inner) {
        told.push(Told { token, fate: fate(&handle.wait()), most: 1 });
    }
    drop(shared);
    proxy.close_all();
    let struck = proxy.struck();
    drop(proxy);
    // What was still on its way to the server has arrived when the server has closed all others.
    let conn = support::open(&server);
    let settled = support::until("the server has let go of the others", || Ok(conn.client_list().wait()?.len() == 1));
    (settled.and_then(|()| check(&conn, &told)).expect("the server answers") as u64, struck)
}

fn run_all(reconnects: bool) {
    play_all(0..8, HANGS, reconnects, run);
}

#[test]
fn what_threads_were_told_is_what_the_server_has_done() {
    run_all(false);
}

#[test]
fn what_threads_were_told_is_what_the_server_has_done_over_many_connections() {
    run_all(true);
}
