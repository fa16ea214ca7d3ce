//! A random client with a reconnect policy against a server that breaks off at random, and writes down what it has run:
//! whatever breaks, and whenever, each handle tells what has become of its own command.
//!
//! `REDEFER_SEED=n` runs one seed alone, `REDEFER_MODEL_SECONDS=n` goes on for longer than the usual five.

#![cfg(unix)]

mod support;

use std::collections::{HashMap, HashSet};
use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redefer::resp::{Decoder, Frame};
use redefer::{
    Config, Error, FromReply, Protocol, Queued, Reconnect, Result, SendWhen, Sent, Value, WaitError, prelude::*,
};
use support::scripted::{Peer, Scripted, bulk};

/// How many commands a transaction has at most.
const MOST: usize = 3;
/// How often an idempotent command runs at most: once, and three times more.
const RUNS: usize = 4;

/// What tells a command from every other, rising in the order of the calls, and what the reply is to look like.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Token {
    number: u64,
    shape: &'static str,
}

const SHAPES: [&str; 6] = ["bulk", "integer", "error", "array", "nested", "big"];

fn reply(number: &str, shape: &[u8]) -> Vec<u8> {
    match shape {
        b"integer" => format!(":{number}\r\n").into_bytes(),
        b"error" => format!("-ERR {number}\r\n").into_bytes(),
        b"array" => [&b"*5\r\n"[..], &bulk(number).repeat(5)].concat(),
        b"nested" => format!("*2\r\n*1\r\n:{number}\r\n:{number}\r\n").into_bytes(),
        b"big" => bulk(number.repeat(100_000 / number.len())),
        _ => bulk(number),
    }
}

/// How a run goes.
#[derive(Clone, Copy, Debug)]
struct Plan {
    seed: u64,
    steps: usize,
    /// How many handles are held at most.
    held: usize,
    /// How many commands in a thousand the server does not survive.
    breaks: u32,
    /// The server is well at the end, so that everything must be found in order.
    recovers: bool,
    unix: bool,
    small: bool,
    resp3: bool,
    attempts: u32,
    write_batch: usize,
    max_outstanding: usize,
    send_when: SendWhen,
    idle_check: Duration,
    timeout: Option<Duration>,
}

impl Plan {
    fn of(seed: u64) -> Plan {
        let mut rng = fastrand::Rng::with_seed(seed);
        Plan {
            seed,
            steps: rng.usize(5..200),
            held: rng.usize(1..40),
            breaks: [0, 5, 20, 60, 150][rng.usize(0..5)],
            recovers: rng.u8(0..10) < 7,
            unix: rng.bool(),
            small: rng.u8(0..3) == 0,
            resp3: rng.u8(0..3) > 0,
            attempts: [2, 5, 30, 30][rng.usize(0..4)],
            write_batch: [1, 100, 8192, 1 << 20][rng.usize(0..4)],
            max_outstanding: [1, 3, 8, 64, 65_536][rng.usize(0..5)],
            send_when: [SendWhen::Adaptive, SendWhen::Eager, SendWhen::Gathering][rng.usize(0..3)],
            idle_check: [Duration::ZERO, Duration::from_secs(1)][rng.usize(0..2)],
            timeout: rng.bool().then_some(Duration::from_secs(60)),
        }
    }

    fn start(self, mut server: Server) -> (Scripted, Config) {
        let builder = if self.unix { Scripted::builder().unix() } else { Scripted::builder() };
        let builder = if self.small { builder.buffers(4096) } else { builder };
        let server = builder.start(move |peer| {
            let ended = server.serve(peer);
            // Nothing but whole commands is sent, and the client does not stand still while something is left to do.
            if let Err(error) = ended
                && matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::TimedOut)
            {
                server.log.lock().unwrap().1.push(error.to_string());
            }
            Ok(())
        });
        let policy = Reconnect::backoff().attempts(self.attempts);
        let config = Config::from_url(&server.url()).unwrap();
        let config = config.reconnect(policy.first_delay(Duration::ZERO).max_delay(Duration::from_millis(1)));
        let config = config.protocol(if self.resp3 { Protocol::Resp3 } else { Protocol::Resp2 }).timeout(self.timeout);
        let config = config.send_when(self.send_when).write_batch(self.write_batch).idle_check(self.idle_check);
        let config = config.max_outstanding(self.max_outstanding);
        (server, if self.small { config.send_buffer_size(4096).recv_buffer_size(4096) } else { config })
    }
}

// The server.

/// A command that has run.
#[derive(Clone, Copy, Debug)]
struct Run {
    connection: usize,
    number: u64,
    db: u64,
    /// It was in a transaction if it belongs in one, and what was watched then is what was to be watched.
    in_its_place: bool,
}

struct Server {
    plan: Plan,
    rng: fastrand::Rng,
    /// What has run, and what else was wrong.
    log: Arc<Mutex<(Vec<Run>, Vec<String>)>>,
    /// Nothing breaks any more.
    well: Arc<AtomicBool>,
}

/// What the server knows of one connection.
#[derive(Default)]
struct Session {
    connection: usize,
    knows_hello: bool,
    resp3: bool,
    db: u64,
    watched: Option<Vec<u8>>,
    multi: Option<Vec<Vec<Vec<u8>>>>,
}

impl Server {
    fn serve(&mut self, peer: &mut Peer) -> io::Result<()> {
        let mut session =
            Session { connection: peer.number(), knows_hello: self.rng.u8(0..5) > 0, ..Session::default() };
        let mut output = Vec::new();
        loop {
            if self.breaks(1) {
                return self.end(peer, &output);
            }
            let command = match peer.command_at_hand()? {
                Some(command) => command,
                None => {
                    if self.breaks(10) {
                        output.extend(b"?garbage\r\n");
                    }
                    peer.send_split(&output, self.rng.usize(0..=output.len()))?;
                    output.clear();
                    if self.breaks(2) {
                        return self.end(peer, &output);
                    }
                    peer.read_command()?
                }
            };
            if self.breaks(1) {
                return self.end(peer, &output);
            }
            if session.resp3 && self.rng.u8(0..20) == 0 {
                output.extend(b">2\r\n+push\r\n:1\r\n");
            }
            self.answer(&mut session, command, &mut output);
        }
    }

    fn breaks(&mut self, seldom: u32) -> bool {
        !self.well.load(Ordering::SeqCst) && self.rng.u32(0..1000 * seldom) < self.plan.breaks
    }

    /// Some of the replies, and no more.
    fn end(&mut self, peer: &mut Peer, output: &[u8]) -> io::Result<()> {
        peer.send(&output[..self.rng.usize(0..=output.len())])?;
        if self.rng.bool() {
            return peer.reset();
        }
        peer.close();
        Ok(())
    }

    fn answer(&mut self, session: &mut Session, command: Vec<Vec<u8>>, output: &mut Vec<u8>) {
        match (&*command[0], &mut session.multi) {
            (b"CMD" | b"LRANGE", Some(commands)) => {
                commands.push(command);
                output.extend(b"+QUEUED\r\n");
            }
            (b"CMD" | b"LRANGE", None) => self.run(session, &command, false, output),
            (b"EXEC", _) => {
                let commands = session.multi.take().expect("a MULTI");
                if session.watched.is_some() && self.rng.u8(0..10) == 0 {
                    output.extend(if session.resp3 { &b"_\r\n"[..] } else { b"*-1\r\n" });
                } else {
                    output.extend(format!("*{}\r\n", commands.len()).into_bytes());
                    commands.iter().for_each(|command| self.run(session, command, true, output));
                }
                session.watched = None;
            }
            (b"HELLO", _) if session.knows_hello => {
                session.resp3 = true;
                output.extend(b"%1\r\n$5\r\nproto\r\n:3\r\n");
            }
            (b"HELLO", _) => output.extend(b"-ERR unknown command 'HELLO'\r\n"),
            (name, _) => {
                match name {
                    b"MULTI" => session.multi = Some(Vec::new()),
                    b"WATCH" => session.watched = Some(command[1].clone()),
                    b"UNWATCH" => session.watched = None,
                    b"SELECT" => session.db = number(&command[1]),
                    b"CLIENT" | b"PING" => {}
                    other => unreachable!("{}", other.escape_ascii()),
                }
                output.extend(b"+OK\r\n");
            }
        }
    }

    /// Runs `CMD number shape where` or `LRANGE number 0 -1`.
    fn run(&self, session: &Session, command: &[Vec<u8>], in_exec: bool, output: &mut Vec<u8>) {
        let (shape, place) =
            if command[0] == b"CMD" { (&*command[2], &*command[3]) } else { (&b"array"[..], &b""[..]) };
        let in_its_place = match place {
            b"" => true,
            b"alone" => !in_exec,
            b"multi" => in_exec && session.watched.is_none(),
            key => in_exec && session.watched.as_deref() == Some(key),
        };
        let run = Run { connection: session.connection, number: number(&command[1]), db: session.db, in_its_place };
        self.log.lock().unwrap().0.push(run);
        output.extend(reply(&run.number.to_string(), shape));
    }
}

fn number(text: &[u8]) -> u64 {
    str::from_utf8(text).ok().and_then(|text| text.parse().ok()).expect("a number")
}

// The client.

enum Held<'c> {
    Value(Reply<'c, Value>),
    Late(Queued<'c, Value>),
    /// With the number of elements taken.
    Many(MultiBulk<'c, String>, usize),
    Commit(Reply<'c, ()>, Vec<Token>),
    /// With its position among the others.
    Select(Reply<'c, ()>, usize),
}

/// What the client was told.
#[derive(Default)]
struct Told {
    /// The handle of this command said what came of it, or its error was accounted for.
    own: HashSet<u64>,
    ran: HashSet<u64>,
    not_run: HashSet<u64>,
    /// The handles that were given up: their errors may be accounted for.
    given_up: HashSet<u64>,
    idempotent: HashSet<u64>,
    /// Each SELECT, and whether it was acknowledged; for each command, how many came before it.
    selects: Vec<(u64, bool)>,
    selects_before: HashMap<u64, usize>,
    /// How often the connection had been made again when this command was issued, and when this SELECT was.
    epochs: HashMap<u64, u64>,
    select_epochs: HashMap<usize, u64>,
}

impl Told {
    #[track_caller]
    fn outcome(&mut self, token: Token, got: Result<Value>) {
        let bytes = reply(&token.number.to_string(), token.shape.as_bytes());
        match (got, Decoder::new().decode(&bytes).unwrap().unwrap().0) {
            (Ok(got), Frame::Error(_)) => panic!("{token:?}: a value of another: {got:?}"),
            (Ok(got), frame) => {
                assert!(got == Value::from_reply(frame).unwrap(), "{token:?}: a value of another");
                assert!(self.own.insert(token.number), "{token:?}: told twice");
                self.ran.insert(token.number);
            }
            (Err(error), _) => self.error(&[token], &error),
        }
    }

    #[track_caller]
    fn error(&mut self, tokens: &[Token], error: &Error) {
        match error {
            Error::ConnectionLost(lost) if lost.sent() == Sent::Fully => {}
            // Of a reader, and of a transaction whose keys have changed.
            Error::ConnectionLost(_) | Error::Custom(_) | Error::Aborted => {
                self.not_run.extend(tokens.iter().map(|token| token.number));
            }
            Error::Server(error) => {
                let of_it = |token: &&Token| error.message() == format!("ERR {}", token.number).as_bytes();
                let token = tokens.iter().find(of_it).unwrap_or_else(|| panic!("{tokens:?}: {error:?} of another"));
                assert!(token.shape == "error", "{token:?}: {error:?}");
                assert!(self.own.insert(token.number), "{token:?}: told twice");
                self.ran.insert(token.number);
            }
            other => panic!("{tokens:?}: {other:?}"),
        }
    }

    /// What `sync` and the end of a batch tell is of a command whose handle was given up, or of the break.
    #[track_caller]
    fn account(&mut self, told: Result<()>) {
        match told {
            Ok(()) | Err(Error::ConnectionLost(_) | Error::Custom(_) | Error::Aborted) => {}
            Err(Error::Batch(error)) => self.account(Err(error.first().clone())),
            Err(Error::Server(error)) => {
                let number = number(error.message().strip_prefix(b"ERR ").expect("an error of a command"));
                assert!(self.given_up.contains(&number), "{error:?}: its handle lives, or has told it");
                self.outcome(Token { number, shape: "error" }, Err(error.into()));
            }
            Err(other) => panic!("{other:?}"),
        }
    }

    /// Compares all of it with what has run.
    fn check(&self, runs: &[Run]) {
        let mut times: HashMap<u64, usize> = HashMap::new();
        let (mut last, mut last_of_connection) = (0, (0, 0));
        for run in runs {
            let number = run.number;
            assert!(run.in_its_place, "{run:?}: not in its transaction, or not with its WATCH");
            assert!(!self.not_run.contains(&number), "{run:?}: said not to have run");
            let idempotent = self.idempotent.contains(&number);
            let times = times.entry(number).or_default();
            *times += 1;
            assert!(*times <= if idempotent { RUNS } else { 1 }, "{run:?}: ran {times} times");
            assert!(last_of_connection < (run.connection, number), "{run:?}: ran behind {last_of_connection:?}");
            last_of_connection = (run.connection, number);
            if !idempotent {
                assert!(last < number, "{run:?}: ran behind {last}, which is not idempotent");
                last = number;
            }
            // The database is that of the last SELECT, if both were issued on one connection: then they are sent together
            // or not at all. Else it is that of the last one that was acknowledged, or of one behind it.
            let before = self.selects_before.get(&number).map_or(&[][..], |n| &self.selects[..*n]);
            let epoch = before.len().checked_sub(1).and_then(|last| self.select_epochs.get(&last));
            let together = epoch.is_some() && epoch == self.epochs.get(&number);
            let known = if together { before.len().checked_sub(1) } else { before.iter().rposition(|select| select.1) };
            let mut possible = before[known.unwrap_or(0)..].iter().map(|select| select.0);
            let at_first = known.is_none() && run.db == 0;
            assert!(at_first || possible.any(|db| db == run.db), "{run:?}: ran in a wrong database: {before:?}");
        }
        for number in &self.ran {
            assert!(times.contains_key(number), "{number}: said to have run");
        }
    }
}

struct Client<'c> {
    conn: &'c Connection,
    plan: Plan,
    rng: fastrand::Rng,
    tokens: u64,
    held: Vec<(Token, Held<'c>)>,
    forgotten: u64,
    told: Told,
}

impl<'c> Client<'c> {
    fn token(&mut self, shape: Option<&'static str>) -> Token {
        self.tokens += 1;
        self.told.selects_before.insert(self.tokens, self.told.selects.len());
        Token { number: self.tokens, shape: shape.unwrap_or_else(|| SHAPES[self.rng.usize(0..SHAPES.len())]) }
    }

    fn issue(&mut self) {
        let token = self.token(None);
        let pad = "p".repeat(if self.rng.u8(0..10) == 0 { self.rng.usize(0..300_000) } else { 0 });
        let reply = self.conn.command("CMD", (token.number, token.shape, "alone", pad));
        self.held.push((token, Held::Value(reply)));
    }

    fn issue_late<E>(&mut self, on: E, place: &str) -> Token
    where
        E: ListCommands + Execute<Reply<Value> = Queued<'c, Value>, MultiBulk<String> = MultiBulk<'c, String>>,
    {
        if self.rng.u8(0..5) == 0 {
            let token = self.token(Some("array"));
            self.held.push((token, Held::Many(on.lrange::<String>(token.number.to_string(), 0, -1), 0)));
            return token;
        }
        let token = self.token(None);
        self.held.push((token, Held::Late(on.command::<Value>("CMD", (token.number, token.shape, place)))));
        token
    }

    /// Does something with a handle.
    fn use_one(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let at = [0, self.held.len() - 1, self.rng.usize(0..self.held.len())][self.rng.usize(0..3)];
        let (token, held) = self.held.remove(at);
        let what = self.rng.u8(0..14);
        macro_rules! reply {
            ($reply:ident, $again:expr, $outcome:expr) => {
                match what {
                    0 => $reply.detach(),
                    1 => drop($reply),
                    2 => {
                        std::mem::forget($reply);
                        self.forgotten += 1;
                    }
                    3 | 4 => {
                        $reply.is_ready().expect("never an error");
                        self.held.insert(at, (token, $again($reply)));
                    }
                    5 | 6 => match $reply.wait_timeout(Duration::from_micros(self.rng.u64(0..300))) {
                        Ok(value) => $outcome(&mut self.told, Ok(value)),
                        Err(WaitError::Failed(error)) => $outcome(&mut self.told, Err(error)),
                        Err(WaitError::Timeout($reply)) => self.held.insert(at, (token, $again($reply))),
                    },
                    _ => $outcome(&mut self.told, $reply.wait()),
                }
            };
        }
        if what < 3 {
            self.told.given_up.insert(token.number);
        }
        match held {
            Held::Value(reply) if what > 11 => self.copy(token, reply),
            Held::Value(reply) => reply!(reply, Held::Value, |told: &mut Told, got| told.outcome(token, got)),
            Held::Late(reply) => reply!(reply, Held::Late, |told: &mut Told, got| told.outcome(token, got)),
            Held::Commit(reply, tokens) => {
                let outcome = |told: &mut Told, got: Result<()>| match got {
                    Ok(()) => told.ran.extend(tokens.iter().map(|token| token.number)),
                    Err(error) => told.error(&tokens, &error),
                };
                reply!(reply, |reply| Held::Commit(reply, tokens), outcome);
            }
            Held::Select(reply, at) => match reply.wait() {
                Ok(()) => self.told.selects[at].1 = true,
                Err(error) => self.told.error(&[], &error),
            },
            Held::Many(many, taken) => self.many(token, many, taken, what),
        }
    }

    fn many(&mut self, token: Token, mut many: MultiBulk<'c, String>, taken: usize, what: u8) {
        let wanted = token.number.to_string();
        let got = match what {
            0..=2 => return drop(many),
            3..=7 => match many.next() {
                None => return assert!(taken == 5, "{token:?}: ended after {taken}"),
                Some(Ok(element)) => {
                    assert!(element == wanted && taken < 5, "{token:?}: {element} at {taken}");
                    return self.held.push((token, Held::Many(many, taken + 1)));
                }
                Some(Err(error)) => Err(error),
            },
            8..=10 => many.wait(),
            _ => many.wait_as::<Vec<String>>(),
        };
        match got {
            Ok(got) => {
                assert_eq!(got, vec![wanted; 5 - taken], "{token:?}");
                self.told.ran.insert(token.number);
            }
            Err(error) => self.told.error(&[token], &error),
        }
    }

    /// Copies a reply into something that may be too short for it.
    fn copy(&mut self, token: Token, reply: Reply<'c, Value>) {
        let mut room = vec![0; [60_000, 200_000][self.rng.usize(0..2)]];
        let mut rest = &mut room[..];
        match (reply.copy_to(&mut rest), token.shape) {
            (Ok(n), _) => {
                let len = rest.len();
                room.truncate(room.len() - len);
                assert_eq!(n, room.len() as u64);
                // Numbers are copied as well, as text.
                let integer = token.shape == "integer" && room == token.number.to_string().as_bytes();
                let value = if integer { Value::Integer(token.number as i64) } else { Value::Bulk(room) };
                self.told.outcome(token, Ok(value));
            }
            (Err(Error::Custom(_)), "big") | (Err(Error::UnexpectedReply(_)), "array" | "nested") => {
                self.told.ran.insert(token.number);
            }
            (Err(error), _) => self.told.error(&[token], &error),
        }
    }

    fn step(&mut self) {
        if self.held.len() > self.plan.held {
            self.use_one();
        }
        let (first, selects, epoch) = (self.tokens + 1, self.told.selects.len(), self.conn.stats().reconnects);
        match self.rng.u8(0..24) {
            0..=5 => self.issue(),
            6..=8 => {
                let token = self.token(None);
                self.told.idempotent.insert(token.number);
                let reply = self.conn.idempotent().command("CMD", (token.number, token.shape, "alone"));
                self.held.push((token, Held::Value(reply)));
            }
            9 => {
                let token = self.token(Some("array"));
                self.held.push((token, Held::Many(self.conn.lrange(token.number.to_string(), 0, -1), 0)));
            }
            10 | 11 => self.use_one(),
            12 | 13 => self.transaction(),
            14 => self.watch(),
            15 => self.batch(),
            16 => self.feed(),
            17 => {
                let db = self.rng.u32(0..16);
                self.told.selects.push((db.into(), false));
                let held = Held::Select(self.conn.select(db), self.told.selects.len() - 1);
                let token = self.token(None);
                self.held.push((token, held));
            }
            18 => self.told.account(self.conn.flush()),
            19 if self.rng.u8(0..5) == 0 => self.told.account(self.conn.sync()),
            20 => while self.conn.next_push().is_some() {},
            _ => self.use_one(),
        }
        // A break that is met before a command is taken in leaves it to the next connection, alone.
        if self.conn.stats().reconnects == epoch && !self.conn.is_broken() {
            self.told.epochs.extend((first..=self.tokens).map(|number| (number, epoch)));
            self.told.select_epochs.extend((selects..self.told.selects.len()).map(|at| (at, epoch)));
        }
        // A transaction of `n` commands takes `2n + 2` places, however few there are.
        let most = self.plan.max_outstanding.max(2 * MOST + 2);
        assert!(self.conn.outstanding() <= most, "{} outstanding", self.conn.outstanding());
    }

    fn transaction(&mut self) {
        let tx = self.conn.transaction();
        let tokens: Vec<_> = (0..self.rng.usize(1..=MOST)).map(|_| self.issue_late(&tx, "multi")).collect();
        if self.rng.u8(0..10) == 0 {
            self.held.truncate(self.held.len() - tokens.len());
            tx.discard();
            self.told.not_run.extend(tokens.iter().map(|token| token.number));
        } else {
            self.held.push((tokens[0], Held::Commit(tx.commit(), tokens)));
        }
    }

    fn watch(&mut self) {
        let key = self.token(None).number;
        match self.conn.watch(key) {
            Err(error) => self.told.error(&[], &error),
            Ok(watch) => {
                (0..self.rng.usize(0..6)).for_each(|_| self.issue());
                if self.rng.u8(0..3) > 0 {
                    let (tx, place) = (watch.transaction(), key.to_string());
                    let tokens: Vec<_> = (0..self.rng.usize(1..=MOST)).map(|_| self.issue_late(&tx, &place)).collect();
                    self.held.push((tokens[0], Held::Commit(tx.commit(), tokens)));
                }
            }
        }
    }

    fn batch(&mut self) {
        let batch = self.conn.batch();
        for _ in 0..self.rng.usize(0..10) {
            self.issue_late(&batch, "alone");
            if self.rng.bool() {
                self.use_one();
            }
        }
        if self.rng.bool() {
            self.told.account(batch.finish());
        }
    }

    /// A value from a reader that may end too early, or fail.
    fn feed(&mut self) {
        let token = self.token(Some("fed"));
        let len = [1000, 400_000][self.rng.usize(0..2)];
        let short = if self.rng.u8(0..3) == 0 { self.rng.u64(0..len) } else { len };
        let end: Box<dyn Read> = if self.rng.bool() { Box::new(Failing) } else { Box::new(io::empty()) };
        let reader = io::repeat(b'v').take(short).chain(end);
        let reply = self.conn.command_from("CMD", (token.number, "fed", "alone"), reader, len, ());
        if short < len {
            self.told.not_run.insert(token.number);
        }
        self.held.push((token, Held::Value(reply)));
    }

    /// The server is well again, and so must the connection be.
    fn recover(&mut self) {
        self.told.account(self.conn.sync());
        // A break that was under way is met now.
        support::until("the connection works", || Ok(self.conn.ping().wait().is_ok())).unwrap();
        self.issue();
        self.transaction();
        for (token, held) in self.held.split_off(0) {
            match held {
                Held::Value(reply) => self.told.outcome(token, reply.wait()),
                Held::Late(reply) => self.told.outcome(token, reply.wait()),
                _ => continue,
            }
            assert!(self.told.own.contains(&token.number), "{token:?}: lost");
        }
        self.conn.ping().wait().expect("a connection that works");
        assert_eq!(self.conn.outstanding(), 0);
        let stored = self.conn.stats().stored;
        assert!(stored <= self.forgotten, "{stored} replies are stored, and {} handles forgotten", self.forgotten);
        // What a connection that works has taken in when it is dropped is run.
        let token = self.token(None);
        self.conn.command::<Value>("CMD", (token.number, token.shape, "alone")).detach();
        self.told.ran.insert(token.number);
    }
}

struct Failing;

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("the reader fails"))
    }
}

static STEPS: AtomicU64 = AtomicU64::new(0);
static BREAKS: AtomicU64 = AtomicU64::new(0);

fn drive(conn: &Connection, plan: Plan, well: &AtomicBool) -> Told {
    let rng = fastrand::Rng::with_seed(plan.seed ^ 2);
    let mut client = Client { conn, plan, rng, tokens: 0, held: Vec::new(), forgotten: 0, told: Told::default() };
    (0..plan.steps).for_each(|_| client.step());
    well.store(plan.recovers, Ordering::SeqCst);
    while !client.held.is_empty() {
        client.use_one();
    }
    if plan.recovers {
        client.recover();
    }
    client.told
}

fn run(plan: Plan) {
    let (log, well) = (Arc::default(), Arc::default());
    let rng = fastrand::Rng::with_seed(plan.seed ^ 1);
    let (server, config) = plan.start(Server { plan, rng, log: Arc::clone(&log), well: Arc::clone(&well) });
    let conn = loop {
        if let Ok(conn) = Connection::open(config.clone()) {
            break conn;
        }
    };
    let told = drive(&conn, plan, &well);
    STEPS.fetch_add(plan.steps as u64, Ordering::Relaxed);
    BREAKS.fetch_add(conn.stats().reconnects, Ordering::Relaxed);
    drop(conn);
    well.store(true, Ordering::SeqCst);
    server.finish();
    let log = log.lock().unwrap();
    assert!(log.1.is_empty(), "{:?}", log.1);
    told.check(&log.0);
}

/// Runs one seed in a thread of its own.
fn run_within(seed: u64) {
    let plan = Plan::of(seed);
    let outcome = catch_unwind(AssertUnwindSafe(|| support::within(Duration::from_secs(60), move || run(plan))));
    if let Err(panic) = outcome {
        eprintln!("REDEFER_SEED={seed}: {plan:?}");
        resume_unwind(panic);
    }
}

#[test]
fn each_handle_tells_what_has_become_of_its_command_whatever_breaks() {
    if let Some(seed) = std::env::var("REDEFER_SEED").ok().and_then(|seed| seed.parse().ok()) {
        return run_within(seed);
    }
    let seconds = std::env::var("REDEFER_MODEL_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(5);
    let (start, mut runs) = (Instant::now(), 0);
    // Always the same ones first, and then others every time.
    let base = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(1, |time| time.as_nanos() as u64 & 0xffff_ffff);
    while start.elapsed() < Duration::from_secs(seconds) {
        run_within(if runs < 100 { runs } else { base + runs });
        runs += 1;
    }
    println!("{runs} runs, {} steps, {} reconnects", STEPS.load(Ordering::Relaxed), BREAKS.load(Ordering::Relaxed));
}
