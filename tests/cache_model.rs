//! A random client with a cache beside one without, on a real server: whatever is pipelined, given up, lent out or broken, no
//! answer is older than what the server had told before the call.
//!
//! `REDEFER_SEED=n` runs one seed alone, `REDEFER_MODEL_SECONDS=n` goes on for longer than the usual three.

#![cfg(all(unix, feature = "testing", feature = "cache"))]

mod support;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use redefer::cache::{CacheConfig, Cached};
use redefer::testing::Server;
use redefer::{Config, Error, MultiBulk, Protocol, Reconnect, Reply, Result, SendWhen, Value, WaitError, prelude::*};

/// What the keys hold: strings, and hashes.
#[derive(Clone, Debug, Default)]
struct Shadow {
    strings: BTreeMap<String, String>,
    hashes: BTreeMap<String, BTreeMap<String, String>>,
}

impl Shadow {
    fn clear(&mut self) {
        *self = Shadow::default();
    }

    fn get(&self, key: &str) -> Value {
        text(self.strings.get(key))
    }
}

fn text(value: Option<&String>) -> Value {
    value.map_or(Value::Nil, |value| Value::Bulk(value.clone().into_bytes()))
}

fn key(rng: &mut fastrand::Rng) -> String {
    format!("k{}", rng.u32(..6))
}

fn hash(rng: &mut fastrand::Rng) -> String {
    format!("h{}", rng.u32(..3))
}

fn field(rng: &mut fastrand::Rng) -> String {
    format!("f{}", rng.u32(..4))
}

/// Long ones now and then, so that replies come in pieces.
fn value(rng: &mut fastrand::Rng) -> String {
    let n = rng.u32(..);
    if rng.u32(..40) == 0 { n.to_string().repeat(30_000) } else { n.to_string() }
}

/// Whatever commands that write are issued on.
trait Writes: Copy + StringCommands + KeyCommands + HashCommands + ScriptingCommands + ServerCommands {}
impl<E: Copy + StringCommands + KeyCommands + HashCommands + ScriptingCommands + ServerCommands> Writes for E {}

/// Issues one random command that writes, and does the same to the shadow. What comes back is of no interest.
fn write<E: Writes>(on: E, rng: &mut fastrand::Rng, shadow: &mut Shadow) {
    let (one, other) = (key(rng), key(rng));
    match rng.u32(..14) {
        0..=2 => {
            let value = value(rng);
            on.set(&one, &value).detach();
            shadow.strings.insert(one, value);
        }
        3 => {
            on.del([&one, &other]).detach();
            shadow.strings.remove(&one);
            shadow.strings.remove(&other);
        }
        4 => {
            let (first, second) = (value(rng), value(rng));
            on.mset([(&one, &first), (&other, &second)]).detach();
            shadow.strings.insert(one, first);
            shadow.strings.insert(other, second);
        }
        5 => {
            on.append(&one, "x").detach();
            shadow.strings.entry(one).or_default().push('x');
        }
        6 => {
            on.rename(&one, &other).detach();
            if let Some(value) = shadow.strings.remove(&one) {
                shadow.strings.insert(other, value);
            }
        }
        7 => {
            on.copy_with(&one, &other, redefer::commands::CopyOptions::new().replace()).detach();
            if one != other
                && let Some(value) = shadow.strings.get(&one).cloned()
            {
                shadow.strings.insert(other, value);
            }
        }
        8 => {
            on.getdel::<Value>(&one).detach();
            shadow.strings.remove(&one);
        }
        9 | 10 => {
            let (hash, field, value) = (hash(rng), field(rng), value(rng));
            on.hset(&hash, [(&field, &value)]).detach();
            shadow.hashes.entry(hash).or_default().insert(field, value);
        }
        11 => {
            let (hash, field) = (hash(rng), field(rng));
            on.hdel(&hash, &field).detach();
            if let Some(fields) = shadow.hashes.get_mut(&hash) {
                fields.remove(&field);
            }
        }
        12 => {
            let value = value(rng);
            on.eval::<Value>("return redis.call('SET', ARGV[1], ARGV[2])", [""; 0], [&one, &value]).detach();
            shadow.strings.insert(one, value);
        }
        _ => match rng.u32(..4) {
            0 => {
                on.flushall().detach();
                shadow.clear();
            }
            1 => {
                let value = value(rng);
                on.command::<Value>("set", (&one, &value)).detach();
                shadow.strings.insert(one, value);
            }
            _ => {
                on.unlink(&one).detach();
                shadow.strings.remove(&one);
            }
        },
    }
}

/// A reply that is to come, and what it must be; nothing is known of one that another client has overtaken.
struct Pending<'c> {
    what: String,
    handle: Handle<'c>,
    wanted: Option<Value>,
}

enum Handle<'c> {
    One(Reply<'c, Value>),
    Number(Reply<'c, i64>),
    Many(MultiBulk<'c, Value>),
}

fn read<'c>(on: impl Issues<'c>, rng: &mut fastrand::Rng, shadow: &Shadow) -> Pending<'c> {
    let (one, other) = (key(rng), key(rng));
    let list = |values: Vec<Value>| Value::Array(values);
    let (what, handle, wanted) = match rng.u32(..8) {
        0..=2 => (format!("get {one}"), on.one("GET", &one), shadow.get(&one)),
        3 => (format!("mget {one} {other}"), on.many(&one, &other), list(vec![shadow.get(&one), shadow.get(&other)])),
        4 => {
            let len = shadow.strings.get(&one).map_or(0, String::len);
            (format!("strlen {one}"), on.number("STRLEN", &one), Value::Integer(len as i64))
        }
        5 => {
            let is = shadow.strings.contains_key(&one);
            (format!("exists {one}"), on.number("EXISTS", &one), Value::Integer(is.into()))
        }
        6 => {
            let (hash, field) = (hash(rng), field(rng));
            let value = text(shadow.hashes.get(&hash).and_then(|fields| fields.get(&field)));
            (format!("hget {hash} {field}"), on.field(&hash, &field), value)
        }
        _ => {
            let hash = hash(rng);
            let len = shadow.hashes.get(&hash).map_or(0, BTreeMap::len);
            (format!("hlen {hash}"), on.number("HLEN", &hash), Value::Integer(len as i64))
        }
    };
    Pending { what, handle, wanted: Some(wanted) }
}

/// The commands that read, on a cached connection in both of its forms.
trait Issues<'c>: Copy {
    fn one(self, name: &str, key: &str) -> Handle<'c>;
    fn number(self, name: &str, key: &str) -> Handle<'c>;
    fn many(self, one: &str, other: &str) -> Handle<'c>;
    fn field(self, hash: &str, field: &str) -> Handle<'c>;
}

macro_rules! issues {
    ($($on:ty),*) => {$(
        impl<'c> Issues<'c> for $on {
            fn one(self, _: &str, key: &str) -> Handle<'c> {
                Handle::One(self.get(key))
            }
            fn number(self, name: &str, key: &str) -> Handle<'c> {
                match name {
                    "STRLEN" => Handle::Number(self.strlen(key)),
                    "EXISTS" => Handle::Number(self.exists(key)),
                    _ => Handle::Number(self.hlen(key)),
                }
            }
            fn many(self, one: &str, other: &str) -> Handle<'c> {
                Handle::Many(self.mget([one, other]))
            }
            fn field(self, hash: &str, field: &str) -> Handle<'c> {
                Handle::One(self.hget(hash, field))
            }
        }
    )*};
}

issues!(&'c Cached, redefer::cache::OptedIn<'c>);

impl Pending<'_> {
    /// Whether the outcome of the wait is as it should be. `shaky`: the connection may have broken meanwhile.
    fn check(self, rng: &mut fastrand::Rng, shaky: bool) {
        let what = self.what;
        let got = match self.handle {
            Handle::One(reply) if rng.u32(..4) == 0 => match reply.wait_timeout(Duration::from_micros(1)) {
                Ok(value) => Ok(value),
                Err(WaitError::Timeout(handle)) if rng.bool() => handle.wait(),
                Err(WaitError::Timeout(handle)) => return handle.detach(),
                Err(WaitError::Failed(error)) => Err(error),
            },
            Handle::One(reply) if rng.u32(..8) == 0 => {
                let mut bytes = Vec::new();
                match reply.copy_to(&mut bytes) {
                    Ok(_) => Ok(Value::Bulk(bytes)),
                    Err(Error::Nil) => Ok(Value::Nil),
                    Err(error) => Err(error),
                }
            }
            Handle::One(reply) => reply.wait(),
            Handle::Number(reply) => reply.wait().map(Value::Integer),
            Handle::Many(many) => many.wait().map(Value::Array),
        };
        match (got, self.wanted) {
            (Err(Error::ConnectionLost(_)), _) if shaky => {}
            (Err(error), _) => panic!("{what}: {error}"),
            (Ok(got), Some(wanted)) if got != wanted => panic!("{what}: {} instead of {}", short(&got), short(&wanted)),
            _ => {}
        }
    }

    /// What else may become of a handle.
    fn end(mut self, rng: &mut fastrand::Rng, shaky: bool) {
        match rng.u32(..12) {
            0 => match self.handle {
                Handle::One(reply) => reply.detach(),
                Handle::Number(reply) => reply.detach(),
                Handle::Many(many) => many.detach(),
            },
            1 => drop(self.handle),
            2 => std::mem::forget(self.handle),
            3 => {
                if let Handle::Many(many) = &mut self.handle {
                    let _ = many.next();
                }
            }
            4 => {
                if let Handle::One(reply) = &self.handle {
                    let _ = reply.is_ready();
                }
                self.check(rng, shaky);
            }
            _ => self.check(rng, shaky),
        }
    }
}

fn short(value: &Value) -> String {
    let mut text = format!("{value:?}");
    text.truncate(200);
    text
}

/// Lends the connection out, for something that may go wrong.
fn lend(cached: &Cached, rng: &mut fastrand::Rng, shadow: &mut Shadow, depth: u32) {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        cached.uncached(|conn| {
            for _ in 0..rng.u32(1..4) {
                match rng.u32(..10) {
                    0..=1 => write(conn, rng, shadow),
                    2 => {
                        let value = value(rng);
                        let tx = conn.transaction();
                        let (one, other) = (key(rng), key(rng));
                        tx.set(&one, &value).detach();
                        tx.del(&other).detach();
                        let commit = tx.commit();
                        if rng.bool() {
                            commit.detach()
                        } else {
                            commit.wait()?
                        }
                        shadow.strings.insert(one, value);
                        shadow.strings.remove(&other);
                    }
                    3 => {
                        let tx = conn.transaction();
                        tx.set(key(rng), "never").detach();
                        std::mem::forget(tx);
                        if rng.u32(..10) == 0 {
                            std::mem::forget(conn.batch());
                        }
                    }
                    4 => {
                        let batch = conn.batch();
                        let mut after = shadow.clone();
                        write(&batch, rng, &mut after);
                        write(&batch, rng, &mut after);
                        // A second batch is refused as a whole.
                        if batch.finish().is_ok() || !matches!(conn.batch().finish(), Err(Error::Refused(_))) {
                            *shadow = after;
                        }
                    }
                    5 => {
                        let _watch = conn.watch([key(rng)])?;
                        write(conn, rng, shadow);
                    }
                    6 if depth < 3 => lend(cached, rng, shadow, depth + 1),
                    7 => read(cached, rng, shadow).end(rng, false),
                    8 => read(cached.opted_in(), rng, shadow).end(rng, false),
                    _ if depth == 0 && rng.u32(..4) == 0 => panic!("on purpose"),
                    _ => {
                        let value = value(rng);
                        conn.set_from("k0", value.as_bytes(), value.len() as u64).detach();
                        shadow.strings.insert("k0".to_owned(), value);
                    }
                }
            }
            Ok(())
        })
    }));
    match outcome {
        Err(panic) if panic.downcast_ref::<&str>() == Some(&"on purpose") => {}
        Err(panic) => std::panic::resume_unwind(panic),
        Ok(outcome) => outcome.expect("what was lent out"),
    }
}

fn run(server: &Server, reach: &Config, seed: u64) -> Result<()> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let rng = &mut rng;
    let other = support::open(server);
    other.flushall().wait()?;
    let mut cache = match rng.u32(..4) {
        0 => CacheConfig::new().broadcast([""; 0]),
        1 => CacheConfig::new().broadcast(["k", "h1"]),
        2 => CacheConfig::new().opt_in(),
        _ => CacheConfig::new(),
    };
    if rng.bool() {
        cache = cache.no_loop();
    }
    if rng.u32(..3) == 0 {
        cache = cache.entries(rng.usize(..5)).bytes(rng.usize(..5000));
    }
    let again = rng.bool();
    let mut config = reach
        .clone()
        .protocol(Protocol::Resp3)
        .max_outstanding([1, 2, 5, 65_536][rng.usize(..4)])
        .write_batch([1, 64, 8192][rng.usize(..3)])
        .send_when([SendWhen::Adaptive, SendWhen::Eager, SendWhen::Gathering][rng.usize(..3)]);
    if again {
        config = config.reconnect(Reconnect::backoff().first_delay(Duration::from_millis(1)));
    }
    let mut cached = Cached::open(config, cache)?;
    let mut shadow = Shadow::default();
    for _ in 0..rng.u32(1..4) {
        session(&cached, &other, rng, &mut shadow, again)?;
        let conn = cached.into_connection()?;
        write(&conn, rng, &mut shadow);
        cached = conn.into_cached(CacheConfig::new().no_loop())?;
    }
    Ok(())
}

fn session(
    cached: &Cached,
    other: &Connection,
    rng: &mut fastrand::Rng,
    shadow: &mut Shadow,
    again: bool,
) -> Result<()> {
    let mut pending: Vec<Pending<'_>> = Vec::new();
    // Whether commands of the cached connection that write may not have been answered.
    let mut writing = false;
    // Whether the connection may have broken since the oldest that is pending was issued.
    let mut shaky = false;
    for _ in 0..rng.u32(20..200) {
        match rng.u32(..20) {
            0..=8 => {
                let read = if rng.bool() { read(cached, rng, shadow) } else { read(cached.opted_in(), rng, shadow) };
                if rng.bool() { pending.push(read) } else { read.end(rng, shaky) }
            }
            9..=11 if !shaky => {
                write(cached, rng, shadow);
                writing = true;
            }
            12..=13 if !pending.is_empty() => pending.swap_remove(rng.usize(..pending.len())).end(rng, shaky),
            14 => cached.flush().or_else(|error| if shaky { Ok(()) } else { Err(error) })?,
            15 if !shaky => {
                lend(cached, rng, shadow, 0);
                writing = true;
            }
            16 if again && !shaky => {
                cached.ping().wait()?;
                let id = cached.client_id().wait()?;
                other.command::<i64>("CLIENT KILL", ("ID", id)).wait()?;
                support::until("it is killed", || {
                    Ok(other.client_list().wait()?.iter().all(|client| client.id != id))
                })?;
                (writing, shaky) = (false, true);
            }
            17 if shaky => {
                while cached.ping().wait().is_err() {}
                pending.drain(..).for_each(|read| read.end(rng, true));
                shaky = false;
            }
            18 => cached.clear(),
            _ => {
                if writing {
                    cached.ping().wait()?;
                    writing = false;
                }
                pending.iter_mut().for_each(|pending| pending.wanted = None);
                if rng.bool() && !shaky {
                    let _ = cached.flush();
                }
                for _ in 0..rng.u32(1..4) {
                    write(other, rng, shadow);
                }
                other.ping().wait()?;
                if rng.bool() {
                    // The server has sent whatever it had to say before it looks at this.
                    other.ping().wait()?;
                    continue;
                }
                while let Err(error) = cached.ping().wait() {
                    assert!(shaky, "{error}");
                }
            }
        }
    }
    while let Err(error) = cached.ping().wait() {
        assert!(shaky, "{error}");
    }
    pending.into_iter().for_each(|read| read.end(rng, shaky));
    Ok(())
}

#[test]
fn no_answer_is_older_than_what_was_told() -> Result<()> {
    let server = support::server();
    seeds(&server, &support::config(&server))
}

#[cfg(feature = "tls")]
#[test]
fn no_answer_is_older_over_tls() -> Result<()> {
    let authority = support::tls::Authority::new("an authority");
    let identity = authority.issue(&["localhost", "127.0.0.1"]);
    for server in support::tls::TlsServer::all(&identity, None).iter().filter(|server| server.is_native()) {
        let tls = redefer::TlsConfig::new().root_certificates(&authority.pem);
        seeds(server, &Config::tcp("127.0.0.1", server.tls_port).tls(tls))?;
    }
    Ok(())
}

fn seeds(server: &Server, reach: &Config) -> Result<()> {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if info.payload().downcast_ref::<&str>() != Some(&"on purpose") {
            hook(info);
        }
    }));
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("REDEFER_SEED") {
        return run(server, reach, seed);
    }
    let time = Duration::from_secs(number("REDEFER_MODEL_SECONDS").unwrap_or(3));
    let (start, mut seed) = (Instant::now(), fastrand::u64(..1 << 40));
    while start.elapsed() < time {
        seed += 1;
        let outcome = catch_unwind(AssertUnwindSafe(|| run(server, reach, seed)));
        match outcome {
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
