//! A random client on a real server, over a proxy that delays, cuts, stalls, closes and resets its connections at random
//! bytes: no reply at the wrong caller, nothing acknowledged lost, nothing run twice, nothing run that was told unsent,
//! no hang, and bounded memory.
//!
//! Every value carries its key and the number of the call that wrote it, so that a reply at the wrong caller is seen at
//! once. A model says what each reply must be; what became of calls without a reply is checked on the server at the end,
//! by another connection.
//!
//! `REDEFER_SEED=n` runs one seed alone in each mode (time decides what a fault hits, so a run is repeated only as far as
//! that goes), `REDEFER_EXCHANGES=n` makes about so many calls in each mode instead of 8,000.

#![cfg(all(unix, feature = "testing"))]

mod support;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use redefer::commands::Handle;
use redefer::resp::Frame;
use redefer::{
    Batch, Config, Error, FromReply, Idempotent, Reconnect, Result, SendWhen, Sent, Transaction, WaitError, prelude::*,
};
use support::proxy::{Mix, Proxy, Struck, random_faults};

/// How many calls a mode makes, at least.
const EXCHANGES: usize = 8_000;
/// A run that makes no step for so long hangs.
const HANGS: Duration = Duration::from_secs(60);
/// More than any reply takes that is not held up for good.
const PLENTY: Duration = Duration::from_secs(20);
/// How much the process may have grown between the first quarter of a mode and its end.
const GROWTH: u64 = 64 << 20;

const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";

/// What the same run can be made with.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Mode {
    name: &'static str,
    transport: Transport,
    policy: Policy,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Transport {
    Tcp,
    Unix,
    /// TCP with socket buffers of 4 KiB on all sides.
    Small,
    /// TLS over TCP: the proxy spoils ciphertext.
    #[cfg(feature = "tls")]
    Tls,
}

/// What the proxy leads to.
struct Front {
    port: u16,
    #[cfg(feature = "tls")]
    tls: Option<(support::tls::Proxy, redefer::TlsConfig)>,
}

impl Front {
    fn of(mode: Mode, server: &redefer::testing::Server) -> Front {
        #[cfg(feature = "tls")]
        if mode.transport == Transport::Tls {
            let authority = support::tls::Authority::new("the tests");
            let identity = authority.issue(&["127.0.0.1"]);
            let proxy = support::tls::Proxy::start(support::tls::server_config(&identity, None), server.port());
            let trusting = redefer::TlsConfig::new().root_certificates(&authority.pem);
            return Front { port: proxy.port, tls: Some((proxy, trusting)) };
        }
        let _ = mode;
        Front {
            port: server.port(),
            #[cfg(feature = "tls")]
            tls: None,
        }
    }
}

/// What happens after a connection broke.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Policy {
    /// The client opens another. So whatever has a reply ran in the order of the calls, and the model is exact.
    ByHand,
    /// The connection dials again by itself. So a command that was lost may run behind one that was issued later.
    Reconnect,
}

impl Mode {
    fn proxy(self, server: u16, seed: u64, #[allow(unused_mut, reason = "for TLS")] mut mix: Mix) -> Proxy {
        #[cfg(feature = "tls")]
        if self.transport == Transport::Tls {
            // Some connections must get through the handshake, which is longer here.
            mix.within = mix.within.max(16 << 10);
        }
        let builder = match self.transport {
            Transport::Tcp => Proxy::builder(),
            #[cfg(feature = "tls")]
            Transport::Tls => Proxy::builder(),
            Transport::Unix => Proxy::builder().unix(),
            Transport::Small => Proxy::builder().buffers(4096),
        };
        builder.start(server, move |number| random_faults(seed, number, mix))
    }

    fn config(self, front: &Front, proxy: &Proxy, plan: &Plan) -> Config {
        let config = support::config_for(&proxy.url());
        let config = match self.transport {
            Transport::Tcp | Transport::Unix => config,
            Transport::Small => config.send_buffer_size(4096).recv_buffer_size(4096),
            #[cfg(feature = "tls")]
            Transport::Tls => match &front.tls {
                Some((_, tls)) => config.tls(tls.clone()),
                None => config,
            },
        };
        let _ = front;
        let config = match self.policy {
            Policy::ByHand => config,
            Policy::Reconnect => {
                let (first, longest) = (Duration::from_millis(1), Duration::from_millis(4));
                config.reconnect(Reconnect::backoff().attempts(4).first_delay(first).max_delay(longest))
            }
        };
        let (timeout, connect) =
            if plan.hasty { (Duration::from_millis(15), Duration::from_millis(60)) } else { (PLENTY, PLENTY) };
        config
            .timeout(timeout)
            .connect_timeout(connect)
            .linger(Duration::from_millis(20))
            .write_batch(plan.write_batch)
            .max_outstanding(plan.max_outstanding)
            .send_when(plan.send_when)
    }

    /// Whether a reply tells that every earlier call ran, in order.
    fn exact(self) -> bool {
        self.policy == Policy::ByHand
    }
}

/// How one run goes.
#[derive(Clone, Debug)]
struct Plan {
    calls: usize,
    mix: Mix,
    /// The response timeout is short.
    hasty: bool,
    write_batch: usize,
    max_outstanding: usize,
    send_when: SendWhen,
}

impl Plan {
    fn of(seed: u64) -> Plan {
        let mut rng = fastrand::Rng::with_seed(seed);
        let hasty = rng.u8(0..3) == 0;
        let mix = Mix { delays: rng.bool(), stalls: hasty, ends: rng.u8(0..8) > 0, within: 1 << rng.u32(9..17) };
        Plan {
            calls: rng.usize(100..1500),
            mix,
            hasty,
            write_batch: [1, 50, 1000, 8192][rng.usize(0..4)],
            max_outstanding: [1, 2, 7, 60, 65_536][rng.usize(0..5)],
            send_when: [SendWhen::Adaptive, SendWhen::Adaptive, SendWhen::Eager, SendWhen::Gathering][rng.usize(0..4)],
        }
    }
}

// Calls, and what must come of them.

/// What a call does, with the name of its key.
#[derive(Clone, Debug, PartialEq)]
enum Op {
    Set(String),
    Get(String),
    Incr(String),
    Append(String),
    GetAll(String),
    Push(String),
    Range(String),
    /// GET of each.
    Many(Vec<String>),
    Echo,
    /// INCR of a text.
    Fails,
    /// GET into a type that panics while it decodes.
    Bomb(String),
    /// BLPOP of a key that gets one element from elsewhere, or none.
    Pop(String, bool),
    /// EXEC.
    Commit,
}

impl Op {
    /// Whether it does no harm when it runs twice.
    fn is_idempotent(&self) -> bool {
        !matches!(self, Op::Incr(_) | Op::Append(_) | Op::Push(_) | Op::Pop(..) | Op::Commit)
    }

    /// The key that it changes.
    fn writes(&self) -> Option<&str> {
        match self {
            Op::Set(key) | Op::Incr(key) | Op::Append(key) | Op::Push(key) => Some(key),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Got {
    Done,
    Integer(i64),
    Text(Option<String>),
    Many(Vec<Option<String>>),
    /// An error reply.
    Failed(&'static str),
    /// EXEC gave nil.
    Aborted,
    /// A panic while decoding.
    Bang,
}

/// Whether a call has run, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Unknown,
    Ran,
    NotRun,
    Maybe,
}

#[derive(Clone, Debug)]
struct Call {
    op: Op,
    /// Its place in the order of its connection, if it was taken in at all.
    place: Option<u64>,
    /// What the reply must be.
    expect: Option<Got>,
    fate: Fate,
    /// When it was issued, and when it was known that it ran, by the count of calls.
    issued: usize,
    ran: Option<usize>,
    group: Option<usize>,
}

/// What is written by a call: names its key and the call, and has a length that is checked with it.
fn value(key: &str, id: usize) -> String {
    let long = match (key.contains('r'), id % 97) {
        (true, 0) => 70_000,
        (true, 1..4) => 5_000,
        (false, 0) => 1_500,
        _ => id % 31,
    };
    format!("{key}#{id}{};", "x".repeat(long))
}

/// The calls that wrote these values, one behind the other.
fn writers(key: &str, text: &str) -> Vec<usize> {
    let ids = text.split_terminator(';').map(|part| {
        let id = part.strip_prefix(key).and_then(|part| part.strip_prefix('#'));
        let id = id.and_then(|id| id.trim_end_matches('x').parse().ok());
        id.filter(|id| value(key, *id).strip_suffix(';') == Some(part))
    });
    let ids: Option<Vec<usize>> = ids.collect();
    ids.filter(|_| text.ends_with(';') || text.is_empty()).unwrap_or_else(|| panic!("{text:?} is not a value of {key}"))
}

/// What the keys hold when every call so far has run.
#[derive(Default)]
struct Keys {
    registers: HashMap<String, usize>,
    counters: HashMap<String, i64>,
    logs: HashMap<String, Vec<usize>>,
}

impl Keys {
    fn text(&self, key: &str) -> Option<String> {
        if let Some(id) = self.registers.get(key) {
            return Some(value(key, *id));
        }
        Some(self.logs.get(key)?.iter().map(|id| value(key, *id)).collect())
    }

    /// Runs a call, and says what its reply is.
    fn run(&mut self, id: usize, op: &Op) -> Got {
        match op {
            Op::Set(key) => {
                self.registers.insert(key.clone(), id);
                Got::Done
            }
            Op::Get(key) | Op::GetAll(key) => Got::Text(self.text(key)),
            Op::Incr(key) => {
                let counter = self.counters.entry(key.clone()).or_default();
                *counter += 1;
                Got::Integer(*counter)
            }
            Op::Append(key) => {
                let log = self.logs.entry(key.clone()).or_default();
                log.push(id);
                Got::Integer(log.iter().map(|id| value(key, *id).len() as i64).sum())
            }
            Op::Push(key) => {
                let log = self.logs.entry(key.clone()).or_default();
                log.push(id);
                Got::Integer(log.len() as i64)
            }
            Op::Range(key) => {
                let log = self.logs.get(key).map(Vec::as_slice).unwrap_or_default();
                Got::Many(log.iter().map(|id| Some(value(key, *id))).collect())
            }
            Op::Many(keys) => Got::Many(keys.iter().map(|key| self.text(key)).collect()),
            Op::Echo => Got::Text(Some(value("echo", id))),
            Op::Fails => Got::Failed(NOT_AN_INTEGER),
            Op::Bomb(_) => Got::Bang,
            Op::Pop(key, fed) => Got::Text(fed.then(|| value(key, id))),
            Op::Commit => Got::Done,
        }
    }
}

/// The calls of a run, over all its connections.
#[derive(Default)]
struct Calls {
    calls: Vec<Call>,
    /// The calls of each transaction.
    groups: Vec<Vec<usize>>,
}

impl Calls {
    fn add(&mut self, op: Op, group: Option<usize>) -> usize {
        let issued = self.calls.len();
        self.calls.push(Call { op, place: None, expect: None, fate: Fate::Unknown, issued, ran: None, group });
        if let Some(group) = group {
            self.groups[group].push(issued);
        }
        issued
    }

    fn ran(&mut self, id: usize) {
        let now = self.calls.len();
        let call = &mut self.calls[id];
        assert_ne!(call.fate, Fate::NotRun, "{call:?} ran after all");
        call.fate = Fate::Ran;
        call.ran.get_or_insert(now);
    }

    /// Whoever wrote what a key holds had been issued, and has not been told that it did not run.
    fn check_writers(&self, key: &str, ids: &[usize]) {
        let mut seen = HashSet::new();
        for id in ids {
            let call = self.calls.get(*id).unwrap_or_else(|| panic!("{key} was written by {id}, which is to come"));
            assert_eq!(call.op.writes(), Some(key), "call {id}: {call:?}");
            assert!(call.place.is_some() && call.fate != Fate::NotRun, "{id} has run: {call:?}");
            assert!(seen.insert(id), "{id} has run twice: {call:?}");
        }
    }

    fn of<'a>(&'a self, key: &'a str) -> impl Iterator<Item = (usize, &'a Call)> {
        self.calls.iter().enumerate().filter(move |(_, call)| call.op.writes() == Some(key))
    }

    /// A log as it was when call number `at` was issued, or later.
    fn check_log(&self, key: &str, ids: &[usize], at: usize) {
        self.check_writers(key, ids);
        let present: HashSet<usize> = ids.iter().copied().collect();
        for (id, call) in self.of(key) {
            let due = call.ran.is_some_and(|ran| ran <= at);
            assert!(!due || present.contains(&id), "{id} is lost from {key}: {call:?}");
        }
    }

    /// A register as it was when call number `at` was issued, or later.
    fn check_register(&self, key: &str, text: Option<&str>, at: usize) {
        let ids = text.map(|text| writers(key, text)).unwrap_or_default();
        assert!(ids.len() <= 1, "{key} holds the values of {ids:?}");
        self.check_writers(key, &ids);
        let order = |id: usize| (self.calls[id].place, id);
        let holder = ids.first().copied();
        // Of one that has no reply it is not known when it ran.
        let late = holder.is_some_and(|id| self.calls[id].fate != Fate::Ran);
        for (id, call) in self.of(key) {
            let due = call.ran.is_some_and(|ran| ran <= at);
            let right = !due || late || Some(order(id)) <= holder.map(order);
            assert!(right, "{key} has the value of {holder:?}, not of {id}: {call:?}");
        }
    }

    /// A reply, as far as it can be checked without knowing in which order calls have run.
    fn check_loosely(&self, id: usize, got: &Got) {
        let at = self.calls[id].issued;
        match (&self.calls[id].op, got) {
            (Op::Get(key), Got::Text(text)) => self.check_register(key, text.as_deref(), at),
            (Op::GetAll(key), Got::Text(text)) => {
                self.check_log(key, &text.as_deref().map(|text| writers(key, text)).unwrap_or_default(), at);
            }
            (Op::Range(key), Got::Many(items)) => {
                let ids = items.iter().map(|item| match writers(key, item.as_deref().unwrap_or_default())[..] {
                    [id] => id,
                    _ => panic!("an element of {key} is {item:?}"),
                });
                self.check_log(key, &ids.collect::<Vec<_>>(), at);
            }
            (Op::Many(keys), Got::Many(items)) => {
                assert_eq!(keys.len(), items.len());
                for (key, item) in keys.iter().zip(items) {
                    let ids = item.as_deref().map(|text| writers(key, text)).unwrap_or_default();
                    self.check_writers(key, &ids);
                }
            }
            (Op::Echo, Got::Text(text)) => assert_eq!(text.as_deref(), Some(&value("echo", id)[..])),
            (Op::Pop(key, _), Got::Text(Some(text))) => assert_eq!(*text, value(key, id)),
            _ => {}
        }
    }

    /// What the server holds at the end, when nothing more can run.
    fn check_at_the_end(&self, direct: &Connection) -> Result<()> {
        let end = self.calls.len();
        for group in &self.groups {
            let fates: Vec<Fate> = group.iter().map(|id| self.calls[*id].fate).collect();
            let (ran, not) = (fates.contains(&Fate::Ran), fates.contains(&Fate::NotRun));
            assert!(!ran || !not, "a transaction ran in part: {group:?} {fates:?}");
        }
        let mut keys: BTreeMap<&str, &Op> = BTreeMap::new();
        for call in &self.calls {
            keys.extend(call.op.writes().map(|key| (key, &call.op)));
        }
        let mut found: HashSet<usize> = HashSet::new();
        for (key, op) in keys {
            match op {
                Op::Set(_) => self.check_register(key, direct.get::<Option<String>>(key).wait()?.as_deref(), end),
                Op::Append(_) => {
                    let ids = writers(key, &direct.get::<Option<String>>(key).wait()?.unwrap_or_default());
                    self.check_log(key, &ids, end);
                    found.extend(ids);
                }
                Op::Push(_) => {
                    let items: Vec<String> = direct.lrange(key, 0, -1).wait()?;
                    let ids = writers(key, &items.concat());
                    assert_eq!(ids.len(), items.len());
                    self.check_log(key, &ids, end);
                    found.extend(ids);
                }
                _ => {
                    let count = |fate| self.of(key).filter(|(_, call)| call.fate == fate).count() as i64;
                    let (ran, maybe) = (count(Fate::Ran), count(Fate::Maybe));
                    let value = direct.get::<Option<i64>>(key).wait()?.unwrap_or(0);
                    assert!((ran..=ran + maybe).contains(&value), "{key} is {value}, {ran} ran and {maybe} may have");
                }
            }
        }
        // All of a transaction or nothing.
        for group in &self.groups {
            let of_logs = |id: &usize| matches!(self.calls[*id].op, Op::Append(_) | Op::Push(_));
            let (there, gone): (Vec<usize>, Vec<usize>) =
                group.iter().copied().filter(of_logs).partition(|id| found.contains(id));
            assert!(there.is_empty() || gone.is_empty(), "of a transaction {there:?} ran and {gone:?} did not");
        }
        for (id, call) in self.calls.iter().enumerate() {
            if let Op::Pop(key, true) = &call.op {
                let left = direct.lrange::<String>(key, 0, -1).wait::<Vec<String>>()?;
                let wanted = [value(key, id)];
                let (taken, kept) = (left.is_empty(), left == wanted);
                let right = match call.fate {
                    Fate::Ran => taken,
                    Fate::NotRun => kept,
                    _ => taken || kept,
                };
                assert!(right, "{key} holds {left:?}: {call:?}");
            }
        }
        Ok(())
    }
}

// The client.

/// Panics in the middle of decoding.
struct Bomb;

struct Bang;

impl FromReply for Bomb {
    fn from_reply(_: Frame<'_>) -> Result<Self> {
        // Without the message of a panic.
        resume_unwind(Box::new(Bang))
    }
}

/// The handle of one reply, of whatever type and executor.
trait One<'c> {
    fn wait(self: Box<Self>) -> Result<Got>;
    fn wait_timeout(self: Box<Self>, time: Duration) -> Result<Result<Got>, Box<dyn One<'c> + 'c>>;
    fn is_ready(&self) -> Result<bool>;
    fn detach(self: Box<Self>);
}

struct Typed<H, T> {
    handle: H,
    got: fn(T) -> Got,
}

impl<'c, T: 'c, H: Handle<T> + 'c> One<'c> for Typed<H, T> {
    fn wait(self: Box<Self>) -> Result<Got> {
        self.handle.wait().map(self.got)
    }
    fn wait_timeout(self: Box<Self>, time: Duration) -> Result<Result<Got>, Box<dyn One<'c> + 'c>> {
        let got = self.got;
        match self.handle.wait_timeout(time) {
            Ok(value) => Ok(Ok(got(value))),
            Err(WaitError::Failed(error)) => Ok(Err(error)),
            Err(WaitError::Timeout(handle)) => Err(Box::new(Typed { handle, got })),
        }
    }
    fn is_ready(&self) -> Result<bool> {
        self.handle.is_ready()
    }
    fn detach(self: Box<Self>) {
        self.handle.detach();
    }
}

fn one<'c, T: 'c, H: Handle<T> + 'c>(handle: H, got: fn(T) -> Got) -> Held<'c> {
    Held::One(Box::new(Typed { handle, got }))
}

enum Held<'c> {
    One(Box<dyn One<'c> + 'c>),
    /// With what has been taken from it.
    Many(MultiBulk<'c, Option<String>>, Vec<Option<String>>),
}

/// What can be issued on everything.
trait Issue<'c> {
    fn issue(self, id: usize, op: &Op) -> Held<'c>;
}

macro_rules! issue {
    ($($executor:ty),*) => {$(
        impl<'c> Issue<'c> for $executor {
            fn issue(self, id: usize, op: &Op) -> Held<'c> {
                match op {
                    Op::Set(key) => one(self.set(key, value(key, id)), |()| Got::Done),
                    Op::Get(key) | Op::GetAll(key) => one(self.get::<Option<String>>(key), Got::Text),
                    Op::Incr(key) => one(self.incr(key), Got::Integer),
                    Op::Append(key) => one(self.append(key, value(key, id)), Got::Integer),
                    Op::Push(key) => one(self.rpush(key, value(key, id)), Got::Integer),
                    Op::Range(key) => Held::Many(self.lrange(key, 0, -1), Vec::new()),
                    Op::Many(keys) => Held::Many(self.mget(keys), Vec::new()),
                    Op::Echo => one(self.echo::<Option<String>>(value("echo", id)), Got::Text),
                    Op::Fails => one(self.incr("text"), Got::Integer),
                    Op::Bomb(key) => one(self.get::<Bomb>(key), |_| Got::Done),
                    Op::Pop(..) | Op::Commit => unreachable!("not on every executor"),
                }
            }
        }
    )*};
}

issue!(&'c Connection, Idempotent<&'c Connection>, &Batch<'c>, &Transaction<'c>);

/// A run: what outlives its connections.
struct Run<'r> {
    plan: Plan,
    mode: Mode,
    proxy: &'r Proxy,
    /// A connection without a proxy.
    direct: &'r Connection,
    calls: Calls,
    rng: fastrand::Rng,
    /// How many connections were asked for, and how many there were.
    dialled: usize,
    connections: usize,
    watchdog: &'r Watchdog,
}

/// One connection of a run.
struct Client<'c, 'r> {
    run: &'c mut Run<'r>,
    conn: &'c Connection,
    /// The number of the connection, which is part of its keys.
    number: usize,
    /// The first call on it.
    first: usize,
    keys: Keys,
    pool: Vec<(usize, Held<'c>)>,
    batch: Option<Batch<'c>>,
    open: Vec<(Transaction<'c>, usize)>,
    /// The place of the last call, and of the last one whose reply has come.
    places: u64,
    proven: u64,
    forgotten: u64,
    timeouts: u64,
}

impl<'c> Client<'c, '_> {
    fn key(&mut self, kind: char) -> String {
        let which = self.run.rng.u8(0..3);
        // Logs do not grow without end.
        let age = if matches!(kind, 'a' | 'l') { (self.run.calls.calls.len() - self.first) / 300 } else { 0 };
        format!("{}{kind}{which}.{age}", self.number)
    }

    fn op(&mut self) -> Op {
        match self.run.rng.u8(0..40) {
            0..6 => Op::Set(self.key('r')),
            6..12 => Op::Get(self.key('r')),
            12..18 => Op::Incr(self.key('n')),
            18..21 => Op::Append(self.key('a')),
            21..23 => Op::GetAll(self.key('a')),
            23..28 => Op::Push(self.key('l')),
            28..31 => Op::Range(self.key('l')),
            31..34 => {
                let kinds = (0..self.run.rng.usize(1..6)).map(|at| if at % 2 == 0 { 'r' } else { 'a' });
                Op::Many(kinds.collect::<Vec<_>>().into_iter().map(|kind| self.key(kind)).collect())
            }
            34..37 => Op::Echo,
            37 => Op::Fails,
            _ => Op::Bomb(self.key('r')),
        }
    }

    /// How many commands the connection has taken in.
    fn taken_in(&self) -> u64 {
        self.conn.stats().commands
    }

    /// A call has just been made: if it was taken in, it has a place, and the model runs it.
    fn issued(&mut self, id: usize, before: u64) {
        if self.taken_in() > before {
            self.places += 1;
            self.take_place(id);
        } else {
            self.run.calls.calls[id].fate = Fate::NotRun;
        }
    }

    fn take_place(&mut self, id: usize) {
        let call = &mut self.run.calls.calls[id];
        call.place = Some(self.places);
        call.expect = Some(self.keys.run(id, &call.op));
    }

    fn issue(&mut self) {
        let op = self.op();
        match self.run.rng.u8(0..10) {
            0..6 => {
                let id = self.run.calls.add(op, None);
                let before = self.taken_in();
                let op = &self.run.calls.calls[id].op;
                let held = if op.is_idempotent() && self.run.rng.bool() {
                    self.conn.idempotent().issue(id, op)
                } else {
                    self.conn.issue(id, op)
                };
                self.issued(id, before);
                self.pool.push((id, held));
            }
            6 | 7 if self.batch.is_some() => {
                let id = self.run.calls.add(op, None);
                let before = self.taken_in();
                if let Some(batch) = &self.batch {
                    let held = batch.issue(id, &self.run.calls.calls[id].op);
                    self.issued(id, before);
                    self.pool.push((id, held));
                }
            }
            _ if !self.open.is_empty() => {
                let at = self.run.rng.usize(0..self.open.len());
                let (tx, group) = &self.open[at];
                let id = self.run.calls.add(op, Some(*group));
                self.pool.push((id, tx.issue(id, &self.run.calls.calls[id].op)));
            }
            _ => {}
        }
    }

    /// Whether an error that is nobody's own may come.
    #[track_caller]
    fn allow(&mut self, error: &Error) {
        let plan = &self.run.plan;
        let allowed = match error {
            Error::Timeout => {
                self.timeouts += 1;
                plan.hasty
            }
            Error::ConnectionLost(lost) => match lost.cause() {
                // Of the dialing.
                error if error.is_timeout() => plan.hasty && self.run.mode.policy == Policy::Reconnect,
                Error::Io(_) => plan.mix.ends,
                _ => false,
            },
            Error::Server(error) => error.message() == NOT_AN_INTEGER.as_bytes(),
            Error::Batch(batch) => return self.allow(&batch.first().clone()),
            // Of a commit whose handle was given up.
            Error::Aborted => true,
            _ => false,
        };
        assert!(allowed, "{error:?}");
    }

    /// Everything up to this place has run.
    fn prove(&mut self, place: u64) {
        if self.run.mode.exact() {
            self.proven = self.proven.max(place);
        }
    }

    /// A reply has come for this call.
    fn reply(&mut self, id: usize, got: Got) {
        let call = &self.run.calls.calls[id];
        let place = call.place.unwrap_or_else(|| panic!("{got:?} for a call that was not issued: {call:?}"));
        self.run.calls.check_loosely(id, &got);
        if self.run.mode.exact() {
            assert_eq!(Some(&got), call.expect.as_ref(), "{call:?}");
        }
        self.prove(place);
        if got != Got::Aborted {
            self.run.calls.ran(id);
        }
    }

    /// A handle has given its outcome.
    #[track_caller]
    fn outcome(&mut self, id: usize, got: Result<Got>) {
        let call = &self.run.calls.calls[id];
        let what = format!("{call:?}: {got:?}");
        let error = match got {
            Ok(got) => return self.reply(id, got),
            Err(error) => error,
        };
        let fate = match &error {
            Error::Server(_) if call.op == Op::Fails => return self.reply(id, Got::Failed(NOT_AN_INTEGER)),
            Error::Aborted if call.expect == Some(Got::Aborted) => return self.reply(id, Got::Aborted),
            // A watch that ended with its connection, also in a loop of attempts.
            Error::Aborted if !self.run.mode.exact() && (call.place.is_none() || call.group.is_none()) => Fate::NotRun,
            Error::NotCommitted => {
                assert!(call.group.is_some() && call.place.is_none(), "{what}");
                return;
            }
            Error::Timeout if call.place.is_some() => Fate::Maybe,
            Error::Timeout => Fate::NotRun,
            Error::ConnectionLost(lost) => match lost.sent() {
                Sent::Unsent | Sent::Partly => Fate::NotRun,
                Sent::Fully => {
                    assert!(call.place.is_some(), "sent, and not taken in: {what}");
                    // Replies of one transaction have one place, and may come in part.
                    let behind =
                        call.place > Some(self.proven) || (call.group.is_some() && call.place == Some(self.proven));
                    assert!(behind, "lost, and the reply to {} came: {what}", self.proven);
                    Fate::Maybe
                }
            },
            _ => panic!("{what}"),
        };
        self.allow(&error);
        let call = &mut self.run.calls.calls[id];
        // What is known for certain stays.
        if call.fate != Fate::NotRun {
            call.fate = fate;
        }
    }

    /// Does something with a handle.
    fn use_one(&mut self) {
        if self.pool.is_empty() {
            return;
        }
        let at = match self.run.rng.u8(0..4) {
            0 | 1 => 0,
            2 => self.pool.len() - 1,
            _ => self.run.rng.usize(0..self.pool.len()),
        };
        let (id, held) = self.pool.remove(at);
        let what = self.run.rng.u8(0..24);
        match (held, what) {
            (held, 0) => drop(held),
            (held, 1) => {
                std::mem::forget(held);
                self.forgotten += 1;
            }
            (held, 2) => self.panic(held),
            (Held::One(handle), 3 | 4) => handle.detach(),
            (Held::One(handle), 5..8) => match handle.is_ready() {
                Ok(true) if self.run.rng.bool() => self.wait(id, handle),
                Ok(_) => self.pool.insert(at, (id, Held::One(handle))),
                Err(error) => panic!("{error:?}"),
            },
            (Held::One(handle), 8..12) => {
                let time = [Duration::ZERO, Duration::from_micros(300), PLENTY][self.run.rng.usize(0..3)];
                let time = if self.run.plan.hasty { time.min(Duration::from_millis(15)) } else { time };
                match catch_unwind(AssertUnwindSafe(|| handle.wait_timeout(time))) {
                    Ok(Ok(got)) => self.outcome(id, got),
                    Ok(Err(handle)) => {
                        assert!(time < PLENTY, "nothing came within {time:?}");
                        self.pool.insert(at, (id, Held::One(handle)));
                    }
                    Err(panic) => self.banged(id, panic),
                }
            }
            (Held::One(handle), _) => self.wait(id, handle),
            (Held::Many(many, taken), 3 | 4) => {
                many.detach();
                self.so_far(id, &taken);
            }
            (Held::Many(many, taken), 5..16) => self.iterate(id, many, taken, what),
            (Held::Many(many, mut taken), _) => match many.wait::<Vec<Option<String>>>() {
                Ok(rest) => {
                    taken.extend(rest);
                    self.outcome(id, Ok(Got::Many(taken)));
                }
                Err(error) => {
                    self.so_far(id, &taken);
                    self.outcome(id, Err(error));
                }
            },
        }
    }

    fn wait(&mut self, id: usize, handle: Box<dyn One<'c> + 'c>) {
        match catch_unwind(AssertUnwindSafe(|| handle.wait())) {
            Ok(got) => self.outcome(id, got),
            Err(panic) => self.banged(id, panic),
        }
    }

    fn banged(&mut self, id: usize, panic: Box<dyn std::any::Any + Send>) {
        if !panic.is::<Bang>() {
            resume_unwind(panic);
        }
        self.outcome(id, Ok(Got::Bang));
    }

    /// Drops what is held, and some more, while the thread is panicking.
    fn panic(&mut self, held: Held<'c>) {
        let more = self.pool.split_off(self.pool.len().saturating_sub(self.run.rng.usize(0..4)));
        let outcome = catch_unwind(AssertUnwindSafe(move || {
            let _dropped = (held, more);
            resume_unwind(Box::new(Bang))
        }));
        assert!(outcome.is_err_and(|panic| panic.is::<Bang>()));
    }

    /// These elements have come, and perhaps there are more.
    fn so_far(&mut self, id: usize, taken: &[Option<String>]) {
        let call = &self.run.calls.calls[id];
        match &call.expect {
            Some(Got::Many(wanted)) if self.run.mode.exact() => {
                assert_eq!(wanted.get(..taken.len()), Some(taken), "{call:?}");
            }
            _ => {
                let keys = match &call.op {
                    Op::Many(keys) => keys.iter().collect(),
                    Op::Range(key) => vec![key; taken.len()],
                    other => panic!("{other:?} has no elements"),
                };
                for (key, item) in keys.into_iter().zip(taken) {
                    let ids = item.as_deref().map(|text| writers(key, text)).unwrap_or_default();
                    self.run.calls.check_writers(key, &ids);
                }
            }
        }
    }

    fn iterate(
        &mut self,
        id: usize,
        mut many: MultiBulk<'c, Option<String>>,
        mut taken: Vec<Option<String>>,
        what: u8,
    ) {
        if what < 8 {
            match many.len() {
                Ok(left) => {
                    let left = left.expect("never nil");
                    if let (Some(Got::Many(wanted)), true) = (&self.run.calls.calls[id].expect, self.run.mode.exact()) {
                        assert_eq!(left, wanted.len() - taken.len());
                    }
                }
                Err(error) => return self.outcome(id, Err(error)),
            }
        }
        for _ in 0..self.run.rng.usize(0..6) {
            match many.next() {
                Some(Ok(item)) => taken.push(item),
                Some(Err(error)) => {
                    assert!(many.next().is_none(), "something behind {error:?}");
                    self.so_far(id, &taken);
                    return self.outcome(id, Err(error));
                }
                None => return self.outcome(id, Ok(Got::Many(taken))),
            }
        }
        self.so_far(id, &taken);
        self.pool.insert(0, (id, Held::Many(many, taken)));
    }

    fn batches(&mut self) {
        let Some(batch) = self.batch.take() else {
            self.batch = Some(self.conn.batch());
            return;
        };
        match self.run.rng.u8(0..8) {
            0 | 1 => drop(batch),
            2 => {
                let outcome = catch_unwind(AssertUnwindSafe(move || {
                    let _batch = batch;
                    resume_unwind(Box::new(Bang))
                }));
                assert!(outcome.is_err_and(|panic| panic.is::<Bang>()));
            }
            _ => match batch.finish() {
                Ok(()) => {}
                Err(error) => self.allow(&error),
            },
        }
    }

    fn begin(&mut self) -> usize {
        self.run.calls.groups.push(Vec::new());
        self.run.calls.groups.len() - 1
    }

    fn transactions(&mut self) {
        if self.open.is_empty() || (self.open.len() < 3 && self.run.rng.bool()) {
            let group = self.begin();
            self.open.push((self.conn.transaction(), group));
            return;
        }
        let (tx, group) = self.open.swap_remove(self.run.rng.usize(0..self.open.len()));
        assert_eq!(tx.len(), self.run.calls.groups[group].len());
        match self.run.rng.u8(0..8) {
            0 => drop(tx),
            1 => tx.discard(),
            _ => return self.commit(tx, group, false),
        }
        self.given_up(group);
    }

    fn given_up(&mut self, group: usize) {
        for id in &self.run.calls.groups[group] {
            self.run.calls.calls[*id].fate = Fate::NotRun;
        }
    }

    /// Commits. `aborts`: a watched key has changed.
    fn commit(&mut self, tx: Transaction<'c>, group: usize, aborts: bool) {
        let id = self.run.calls.add(Op::Commit, Some(group));
        let before = self.taken_in();
        let (size, commit) = (tx.len() as u64, tx.commit());
        // A watched one that is not taken in may leave an UNWATCH.
        if self.taken_in() < before + size + 2 {
            self.given_up(group);
        } else {
            self.places += 1;
            for id in self.run.calls.groups[group].clone() {
                if aborts {
                    let call = &mut self.run.calls.calls[id];
                    (call.place, call.expect, call.fate) = (Some(self.places), Some(Got::Aborted), Fate::NotRun);
                } else {
                    self.take_place(id);
                }
            }
        }
        self.pool.push((id, one(commit, |()| Got::Done)));
    }

    fn watch(&mut self) {
        // One of its own each time: what is done about a watch that failed must not touch a commit that is still on its way.
        let key = format!("{}x{}", self.number, self.run.calls.calls.len());
        let watch = match self.conn.watch(&key) {
            Ok(watch) => watch,
            Err(error) => {
                self.allow(&error);
                // If the server has taken it all the same, the next transaction must not be aborted for that.
                self.run.direct.incr(&key).wait().expect("nothing is between us and the server");
                return;
            }
        };
        self.prove(self.places);
        if self.run.rng.u8(0..4) == 0 {
            return drop(watch);
        }
        let changed = self.run.rng.bool();
        if changed {
            self.run.direct.incr(&key).wait().expect("nothing is between us and the server");
        }
        let (tx, group) = (watch.transaction(), self.begin());
        for _ in 0..self.run.rng.usize(0..4) {
            let op = self.op();
            let id = self.run.calls.add(op, Some(group));
            self.pool.push((id, tx.issue(id, &self.run.calls.calls[id].op)));
        }
        self.commit(tx, group, changed);
    }

    /// A transaction in a loop, in which nobody interferes.
    fn transact(&mut self) {
        let (watched, key) = (self.key('w'), self.key('n'));
        let id = self.run.calls.add(Op::Incr(key.clone()), None);
        let before = self.taken_in();
        let got = self.conn.transact(&watched, |_, tx| Ok(tx.incr(&key)));
        // WATCH, MULTI, INCR and EXEC.
        if self.taken_in() - before >= 4 {
            self.places += 1;
            self.take_place(id);
            self.outcome(id, got.map(Got::Integer));
        } else {
            self.allow(&got.expect_err("nothing was sent"));
            self.run.calls.calls[id].fate = Fate::NotRun;
        }
    }

    /// A blocking pop, of an element that another connection pushes meanwhile, or of none.
    fn pop(&mut self) {
        let (fed, id) = (self.run.rng.bool(), self.run.calls.calls.len());
        let key = format!("{}p{id}", self.number);
        self.run.calls.add(Op::Pop(key.clone(), fed), None);
        let time = if fed && !self.run.plan.hasty { PLENTY } else { Duration::from_millis(5) };
        // A short one may be over before the element comes.
        let early = time < PLENTY || self.run.rng.bool();
        if fed && early {
            self.feed(&key, id);
        }
        let before = self.taken_in();
        let pop = self.conn.blpop::<String, String>(&key, time);
        self.issued(id, before);
        if let Err(error) = self.conn.flush() {
            self.allow(&error);
        }
        if fed && !early {
            self.feed(&key, id);
        }
        self.pool.push((id, one(pop, |popped| Got::Text(popped.map(|(_, text)| text)))));
    }

    fn feed(&mut self, key: &str, id: usize) {
        self.run.direct.rpush(key, value(key, id)).wait().expect("nothing is between us and the server");
    }

    fn sync(&mut self) {
        match self.conn.sync() {
            Ok(()) => self.prove(self.places),
            Err(error) => self.allow(&error),
        }
    }

    /// One step. `false`: this connection has been used enough.
    fn step(&mut self) -> bool {
        let what = self.run.rng.u16(0..400);
        self.run.watchdog.note(what, self.run.calls.calls.len());
        match what {
            0..200 => self.issue(),
            200..320 => self.use_one(),
            320..330 => self.conn.flush().unwrap_or_else(|error| self.allow(&error)),
            330..336 => self.sync(),
            336..356 => self.batches(),
            356..386 => self.transactions(),
            386..392 => self.watch(),
            392..395 => self.transact(),
            395 | 396 => self.pop(),
            397 if self.run.plan.mix.ends && self.run.rng.u8(0..4) == 0 => self.run.proxy.reset_all(),
            398 if self.run.plan.mix.ends && self.run.rng.u8(0..4) == 0 => self.run.proxy.close_all(),
            399 => return self.run.rng.bool(),
            _ => {}
        }
        self.check_sizes();
        if self.timeouts > 0 {
            self.timeouts = 0;
            match self.run.rng.u8(0..8) {
                0..4 => self.run.proxy.release(),
                4 => return false,
                _ => {}
            }
        }
        // A broken connection is used on for a while.
        !self.conn.is_broken() || self.run.rng.u8(0..8) > 0
    }

    fn check_sizes(&self) {
        let stats = self.conn.stats();
        let held = self.pool.len() as u64 + self.forgotten;
        assert!(stats.stored <= held, "{} replies are stored for {held} handles", stats.stored);
        let most = self.run.plan.max_outstanding.max(64) + 64;
        assert!(self.conn.outstanding() <= most, "{} outstanding", self.conn.outstanding());
    }

    /// Uses what is left, and settles what has become of the calls.
    fn finish(mut self) {
        self.batch = None;
        for (tx, group) in std::mem::take(&mut self.open) {
            drop(tx);
            self.given_up(group);
        }
        self.run.proxy.release();
        self.run.rng.shuffle(&mut self.pool);
        while !self.pool.is_empty() {
            self.run.watchdog.note(1000, self.run.calls.calls.len());
            self.use_one();
        }
        if self.run.rng.bool() {
            self.sync();
        }
        // Now only what was forgotten may be stored.
        self.check_sizes();
        let (first, proven) = (self.first, self.proven);
        let calls = &mut self.run.calls;
        // One reply of a transaction tells that all of it ran.
        for group in calls.groups.clone() {
            if group.iter().any(|id| calls.calls[*id].fate == Fate::Ran) {
                group.iter().for_each(|id| calls.ran(*id));
            } else if group.iter().any(|id| calls.calls[*id].fate == Fate::NotRun) {
                group.iter().for_each(|id| calls.calls[*id].fate = Fate::NotRun);
            }
        }
        for id in first..calls.calls.len() {
            let call = &mut calls.calls[id];
            match (call.fate, call.place) {
                (Fate::Unknown | Fate::Maybe, Some(place)) if place <= proven => calls.ran(id),
                (Fate::Unknown, Some(_)) => call.fate = Fate::Maybe,
                (Fate::Unknown, None) => call.fate = Fate::NotRun,
                _ => {}
            }
        }
    }
}

/// Runs one seed. Returns how many calls were made, what the proxy did, and how often a connection dialled again.
fn run(
    mode: Mode,
    seed: u64,
    server: &redefer::testing::Server,
    front: &Front,
    watchdog: &Watchdog,
) -> (usize, Struck, usize) {
    let plan = Plan::of(seed);
    let direct = support::open(server);
    direct.flushall().wait().expect("a server");
    direct.set("text", "not a number").wait().expect("a server");
    let proxy = mode.proxy(front.port, seed, plan.mix);
    let config = mode.config(front, &proxy, &plan);
    let mut run = Run {
        mode,
        proxy: &proxy,
        direct: &direct,
        calls: Calls::default(),
        rng: fastrand::Rng::with_seed(seed ^ 3),
        dialled: 0,
        connections: 0,
        watchdog,
        plan,
    };
    while run.calls.calls.len() < run.plan.calls {
        watchdog.note(2000, run.calls.calls.len());
        run.dialled += 1;
        let conn = match Connection::open(&config) {
            Ok(conn) => conn,
            Err(error) => {
                let allowed = match &error {
                    error if error.is_timeout() => run.plan.hasty,
                    Error::Io(_) => run.plan.mix.ends,
                    _ => false,
                };
                assert!(allowed, "not opened: {error:?}");
                continue;
            }
        };
        let (number, first) = (run.connections, run.calls.calls.len());
        run.connections += 1;
        let mut client = Client {
            run: &mut run,
            conn: &conn,
            number,
            first,
            keys: Keys::default(),
            pool: Vec::new(),
            batch: None,
            open: Vec::new(),
            places: 0,
            proven: 0,
            forgotten: 0,
            timeouts: 0,
        };
        while client.run.calls.calls.len() < client.run.plan.calls && client.step() {}
        client.finish();
        if run.rng.u8(0..8) == 0 {
            let outcome = catch_unwind(AssertUnwindSafe(move || {
                let _conn = conn;
                resume_unwind(Box::new(Bang))
            }));
            assert!(outcome.is_err_and(|panic| panic.is::<Bang>()));
        }
    }
    let (struck, calls) = (proxy.struck(), std::mem::take(&mut run.calls));
    let again = proxy.accepted() - run.dialled;
    drop(run);
    drop(proxy);
    // What the proxy has passed on may still run: until the server has done with every other client.
    watchdog.note(3000, calls.calls.len());
    while direct.client_list().wait().expect("a server").len() > 1 {
        thread::yield_now();
    }
    calls.check_at_the_end(&direct).expect("nothing is between us and the server");
    (calls.calls.len(), struck, again)
}

/// Aborts the process, with what it did last, when a run makes no step for long.
struct Watchdog {
    state: Arc<(Mutex<State>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

struct State {
    steps: u64,
    what: String,
    action: u16,
    calls: usize,
    over: bool,
}

impl Watchdog {
    fn start() -> Watchdog {
        let state = State { steps: 0, what: String::new(), action: 0, calls: 0, over: false };
        let state = Arc::new((Mutex::new(state), Condvar::new()));
        let shared = Arc::clone(&state);
        let thread = thread::spawn(move || {
            let (state, changed) = &*shared;
            let mut state = lock(state);
            while !state.over {
                let seen = state.steps;
                let (after, waited) = changed
                    .wait_timeout_while(state, HANGS, |state| !state.over)
                    .unwrap_or_else(PoisonError::into_inner);
                state = after;
                if waited.timed_out() && state.steps == seen {
                    eprintln!("{} hangs in action {} after {} calls", state.what, state.action, state.calls);
                    std::process::abort();
                }
            }
        });
        Watchdog { state, thread: Some(thread) }
    }

    fn begin(&self, what: &str) {
        lock(&self.state.0).what = what.to_owned();
    }

    /// What is done next: the number of the choice in [`Client::step`], or of a stage of [`run`].
    fn note(&self, action: u16, calls: usize) {
        let mut state = lock(&self.state.0);
        state.steps += 1;
        (state.action, state.calls) = (action, calls);
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        lock(&self.state.0).over = true;
        self.state.1.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How much memory this process has, where that can be known.
fn memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Runs seeds until there were enough calls: always the same ones first, and then others every time.
fn exchanges(mode: Mode) {
    let server = support::server();
    let front = Front::of(mode, &server);
    let watchdog = Watchdog::start();
    let most = number("REDEFER_EXCHANGES").map_or(EXCHANGES, |most| most as usize);
    let base = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(1, |time| time.as_nanos() as u64 & 0xffff_ffff);
    let (mut calls, mut total, mut again, mut early) = (0, Struck::default(), 0, None);
    for at in 0.. {
        let only = number("REDEFER_SEED");
        let seed = only.unwrap_or(if at < 10 { at } else { base + at });
        let shown = format!("REDEFER_SEED={seed} in mode {}: {:?}", mode.name, Plan::of(seed));
        watchdog.begin(&shown);
        match catch_unwind(AssertUnwindSafe(|| run(mode, seed, &server, &front, &watchdog))) {
            Ok((made, struck, redialled)) => {
                calls += made;
                again += redialled;
                total.add(struck);
            }
            Err(panic) => {
                eprintln!("{shown}");
                resume_unwind(panic);
            }
        }
        if only.is_some() {
            return;
        }
        if calls >= most / 4 {
            early = early.or_else(memory);
        }
        if calls >= most {
            break;
        }
    }
    println!("{}: {calls} calls, {total:?}, dialled again {again} times", mode.name);
    let Struck { delays, splits, stalls, closes, resets } = total;
    assert_eq!(again > 0, mode.policy == Policy::Reconnect);
    assert!([delays, splits, stalls, closes, resets].iter().all(|count| *count > 0), "{total:?}");
    if let (Some(early), Some(late)) = (early, memory()) {
        assert!(late < early + GROWTH, "{early} bytes have become {late}");
    }
}

#[test]
fn over_tcp_with_connections_reopened_by_hand() {
    exchanges(Mode { name: "tcp", transport: Transport::Tcp, policy: Policy::ByHand });
}

#[test]
fn over_a_unix_socket_with_connections_reopened_by_hand() {
    exchanges(Mode { name: "unix", transport: Transport::Unix, policy: Policy::ByHand });
}

#[test]
fn over_small_socket_buffers_with_connections_reopened_by_hand() {
    exchanges(Mode { name: "small buffers", transport: Transport::Small, policy: Policy::ByHand });
}

#[test]
fn over_tcp_with_connections_that_dial_again() {
    exchanges(Mode { name: "tcp, reconnect", transport: Transport::Tcp, policy: Policy::Reconnect });
}

#[test]
fn over_a_unix_socket_with_connections_that_dial_again() {
    exchanges(Mode { name: "unix, reconnect", transport: Transport::Unix, policy: Policy::Reconnect });
}

#[test]
fn over_small_socket_buffers_with_connections_that_dial_again() {
    exchanges(Mode { name: "small buffers, reconnect", transport: Transport::Small, policy: Policy::Reconnect });
}

#[cfg(feature = "tls")]
#[test]
fn over_tls_with_connections_reopened_by_hand() {
    exchanges(Mode { name: "TLS", transport: Transport::Tls, policy: Policy::ByHand });
}

#[cfg(feature = "tls")]
#[test]
fn over_tls_with_connections_that_dial_again() {
    exchanges(Mode { name: "TLS, reconnect", transport: Transport::Tls, policy: Policy::Reconnect });
}
