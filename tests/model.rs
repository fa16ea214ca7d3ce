//! A random client against a server whose every reply carries the number of the command that it answers: whatever is
//! issued, waited for, given up, forgotten or panicked over in whatever order, each handle gets its own reply or an error
//! that is its own.
//!
//! `REDEFER_SEED=n` runs one seed alone, `REDEFER_MODEL_SECONDS=n` goes on for longer than the usual ten.

#![cfg(unix)]

mod support;

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use redefer::resp::{Decoder, Frame};
use redefer::{Batch, Config, Error, FromReply, Protocol, Result, SendWhen, Transaction, Value, WaitError, prelude::*};

/// What a command asks for: its number, and what the reply is to look like.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Token {
    number: u64,
    shape: u8,
}

/// Shapes from here on are refused by MULTI.
const REFUSED: u8 = 30;
/// This one makes EXEC answer nil.
const ABORTS: u8 = 40;

impl Token {
    fn key(self) -> String {
        format!("{}:{}", self.number, self.shape)
    }

    fn of(key: &[u8]) -> Option<Token> {
        let (number, shape) = str::from_utf8(key).ok()?.split_once(':')?;
        Some(Token { number: number.parse().ok()?, shape: shape.parse().ok()? })
    }

    /// The reply, without what may stand between its parts.
    fn reply(self) -> Part {
        let n = self.number;
        let text = format!("t{n}");
        let bulk = |text: &str| Part::Whole(format!("${}\r\n{text}\r\n", text.len()).into_bytes());
        let whole = |text: String| Part::Whole(text.into_bytes());
        let count = n % 7;
        let items = |from: u64| (from..from + count).map(|at| bulk(&format!("{text}-{at}"))).collect::<Vec<_>>();
        match self.shape {
            0 => whole("+OK\r\n".into()),
            1 => whole(format!(":{n}\r\n")),
            2 => bulk(&text),
            3 => bulk(&format!("{text}-with-more-than-ten")),
            4 => bulk(&text.repeat(1 + n as usize % 3000)),
            5 => bulk(&text.repeat(1 + n as usize % 80_000)),
            6 => whole("_\r\n".into()),
            7 => whole("*-1\r\n".into()),
            8 => whole(format!("-ERR {text}\r\n")),
            9 => whole(format!("!{}\r\nBAD {text}\r\n", text.len() + 4)),
            10 => whole(format!("+{text}\r\n")),
            11 => whole(format!(",{n}.5\r\n")),
            12 => Part::Many('*', items(0)),
            13 => Part::Many('~', items(0)),
            14 => Part::Many('*', vec![bulk(&text), Part::Many('*', items(5)), whole(format!(":{n}\r\n"))]),
            15 => Part::Many('*', vec![whole(format!("-ERR inner {text}\r\n")), bulk(&text)]),
            16 => Part::Many('*', (0..n % 3000).map(|at| bulk(&format!("{text}-{at}"))).collect()),
            17 => whole(format!("({n}00000000000000000000\r\n")),
            18 => whole(format!("={}\r\ntxt:{text}\r\n", text.len() + 4)),
            19 => whole(format!("#{}\r\n", if n.is_multiple_of(2) { 't' } else { 'f' })),
            20 => bulk(""),
            // Pairs, from here to 24.
            21 => Part::Many('%', items(0).into_iter().flat_map(|key| [key, bulk(&text)]).collect()),
            22 => Part::Many('*', items(0).into_iter().flat_map(|key| [key, bulk(&text)]).collect()),
            23 => Part::Many('*', items(0).into_iter().map(|key| Part::Many('*', vec![key, bulk(&text)])).collect()),
            24 => Part::Many('*', (0..n % 1000 * 2).map(|at| bulk(&format!("{text}-{at}"))).collect()),
            _ => bulk(&text),
        }
    }

    fn clean(self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.reply().write(&mut bytes, None);
        bytes
    }

    /// The error that the whole reply is.
    fn error(self) -> Option<String> {
        outcome::<Value>(&self.clean()).err().map(|error| name(&error))
    }
}

/// A frame, or its parts.
enum Part {
    Whole(Vec<u8>),
    Many(char, Vec<Part>),
}

/// What a RESP3 server puts between frames.
struct Noise {
    rng: fastrand::Rng,
    often: usize,
    pushes: u64,
}

impl Part {
    fn write(&self, out: &mut Vec<u8>, mut noise: Option<&mut Noise>) {
        if let Some(noise) = &mut noise {
            while noise.rng.usize(0..1000) < noise.often {
                noise.pushes += 1;
                let text = "p".repeat(noise.rng.usize(0..20));
                out.extend(format!(">2\r\n+push\r\n*1\r\n${}\r\n{text}\r\n", text.len()).into_bytes());
            }
            if noise.rng.usize(0..1000) < noise.often / 2 {
                out.extend(b"|1\r\n+ttl\r\n*2\r\n:1\r\n$1\r\nx\r\n");
            }
        }
        match self {
            Part::Whole(bytes) => out.extend(bytes),
            Part::Many(kind, parts) => {
                let count = if *kind == '%' { parts.len() / 2 } else { parts.len() };
                out.extend(format!("{kind}{count}\r\n").into_bytes());
                parts.iter().for_each(|part| part.write(out, noise.as_deref_mut()));
            }
        }
    }
}

/// What a handle of this type gets for these bytes.
fn outcome<T: FromReply>(clean: &[u8]) -> Result<T> {
    let decoded = Decoder::new().decode(clean).expect("well formed");
    match decoded.expect("whole").0 {
        Frame::Error(message) => Err(redefer::ServerError::new(message).into()),
        frame => T::from_reply(frame),
    }
}

/// An error in a form that can be compared.
fn name(error: &Error) -> String {
    match error {
        Error::Server(error) => String::from_utf8_lossy(error.message()).into_owned(),
        Error::Timeout => "timeout".into(),
        Error::ConnectionLost(_) | Error::Protocol(_) => "lost".into(),
        Error::Batch(batch) => format!("{} {}", batch.failed(), name(batch.first())),
        other => format!("{other:?}"),
    }
}

const EXECABORT: &str = "EXECABORT Transaction discarded because of previous errors.";

// The server.

/// How a run goes.
#[derive(Clone, Debug)]
struct Plan {
    seed: u64,
    steps: usize,
    resp3: bool,
    noise: usize,
    unix: bool,
    small: bool,
    /// Now and then the server takes longer than the client waits.
    stalls: bool,
    /// After so many bytes of replies the connection ends, with a reset or without.
    ends_after: Option<(usize, bool)>,
    write_batch: usize,
    max_outstanding: usize,
    send_when: SendWhen,
}

impl Plan {
    fn of(seed: u64) -> Plan {
        let mut rng = fastrand::Rng::with_seed(seed);
        let resp3 = rng.u8(0..4) > 0;
        let unix = rng.bool();
        let most = 1 << rng.u32(1..20);
        Plan {
            seed,
            steps: rng.usize(20..600),
            resp3,
            noise: if resp3 && rng.bool() { rng.usize(0..200) } else { 0 },
            unix,
            small: rng.u8(0..3) == 0,
            stalls: rng.u8(0..8) == 0,
            ends_after: (rng.u8(0..4) == 0).then(|| (rng.usize(0..most), !unix && rng.bool())),
            write_batch: [1, 50, 1000, 8192][rng.usize(0..4)],
            max_outstanding: [1, 2, 7, 60, 65_536][rng.usize(0..5)],
            send_when: [SendWhen::Adaptive, SendWhen::Adaptive, SendWhen::Eager, SendWhen::Gathering][rng.usize(0..4)],
        }
    }

    /// Whether every reply must come.
    fn faultless(&self) -> bool {
        !self.stalls && self.ends_after.is_none()
    }
}

/// The peer's end of a connection.
trait Socket: Read + Write + Send {
    /// Whether the next read waits.
    fn wait(&self, wait: bool) -> io::Result<()>;
    fn end(&self, reset: bool);
}

impl Socket for std::net::TcpStream {
    fn wait(&self, wait: bool) -> io::Result<()> {
        self.set_nonblocking(!wait)
    }
    fn end(&self, reset: bool) {
        if reset {
            let _ = socket2::SockRef::from(self).set_linger(Some(Duration::ZERO));
        } else {
            let _ = self.shutdown(Shutdown::Both);
        }
    }
}

#[cfg(unix)]
impl Socket for std::os::unix::net::UnixStream {
    fn wait(&self, wait: bool) -> io::Result<()> {
        self.set_nonblocking(!wait)
    }
    fn end(&self, _: bool) {
        let _ = self.shutdown(Shutdown::Both);
    }
}

/// What the server knows of its client.
struct Server {
    plan: Plan,
    rng: fastrand::Rng,
    noise: Noise,
    pushes: Arc<AtomicU64>,
    /// Commands of an open MULTI, and whether one was refused.
    multi: Option<(Vec<Token>, bool)>,
    rounds: usize,
    hello: bool,
    /// The answers of the handshake are on their way.
    armed: bool,
    sent: usize,
}

impl Server {
    fn serve(mut self, mut socket: impl Socket) -> io::Result<()> {
        let (mut input, mut output): (Vec<u8>, Vec<u8>) = (Vec::new(), Vec::new());
        let mut chunk = vec![0; 1 << 16];
        loop {
            // Whatever is left is sent when the client sends nothing more for a moment.
            if !output.is_empty() {
                std::thread::sleep(Duration::from_micros(50));
            }
            socket.wait(output.is_empty())?;
            let read = socket.read(&mut chunk);
            socket.wait(true)?;
            match read {
                Ok(0) => {
                    let _ = socket.write_all(&output);
                    return Ok(());
                }
                Ok(n) => input.extend(&chunk[..n]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.send(&mut socket, &mut output, true)?;
                    continue;
                }
                Err(error) => return Err(error),
            }
            let mut at = 0;
            while let Some((command, end)) = parse(&input, at) {
                at = end;
                self.answer(&command, &mut output);
            }
            input.drain(..at);
            self.send(&mut socket, &mut output, false)?;
        }
    }

    /// Sends a part of what is there, or all of it, in pieces of any size.
    fn send(&mut self, socket: &mut impl Socket, output: &mut Vec<u8>, all: bool) -> io::Result<()> {
        if self.plan.stalls && self.armed && self.rng.usize(0..40) == 0 {
            std::thread::sleep(Duration::from_millis(30));
        }
        while !output.is_empty() {
            if !all && self.armed && self.rng.u8(0..4) == 0 {
                return Ok(());
            }
            let mut n = match self.rng.u8(0..4) {
                0 => self.rng.usize(1..=output.len().min(10)),
                1 => self.rng.usize(1..=output.len()),
                _ => output.len(),
            };
            if let Some((end, reset)) = self.plan.ends_after.filter(|_| self.armed) {
                n = n.min(end.saturating_sub(self.sent));
                if n == 0 {
                    socket.end(reset);
                    return Err(io::Error::other("the planned end"));
                }
            }
            socket.write_all(&output[..n])?;
            output.drain(..n);
            self.sent += n;
            if self.rng.u8(0..8) == 0 {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
        if self.hello && !self.armed {
            (self.armed, self.sent) = (true, 0);
        }
        Ok(())
    }

    fn answer(&mut self, command: &[&[u8]], output: &mut Vec<u8>) {
        let plain = |text: &str| Part::Whole(text.as_bytes().to_vec());
        let token = command.get(1).and_then(|key| Token::of(key));
        let part = match (command[0], token) {
            (b"HELLO", _) if self.plan.resp3 => plain("%1\r\n$5\r\nproto\r\n:3\r\n"),
            (b"HELLO", _) => plain("-ERR unknown command 'HELLO'\r\n"),
            (b"CLIENT", _) => {
                // The handshake is gone through twice if there is no HELLO.
                self.rounds += usize::from(command.get(2).is_some_and(|what| *what == b"LIB-VER"));
                let last = self.rounds == if self.plan.resp3 { 1 } else { 2 };
                output.extend(b"+OK\r\n");
                // The end of the handshake: from here on everything may happen.
                self.hello |= last;
                return;
            }
            (b"WATCH" | b"UNWATCH", _) => plain("+OK\r\n"),
            (b"MULTI", _) => {
                self.multi = Some((Vec::new(), false));
                plain("+OK\r\n")
            }
            (b"EXEC", _) => {
                let (tokens, refused) = self.multi.take().unwrap_or_default();
                if refused {
                    plain(&format!("-{EXECABORT}\r\n"))
                } else if tokens.iter().any(|token| token.shape == ABORTS) {
                    plain(if self.plan.resp3 { "_\r\n" } else { "*-1\r\n" })
                } else {
                    Part::Many('*', tokens.into_iter().map(Token::reply).collect())
                }
            }
            (_, Some(token)) => match &mut self.multi {
                Some((_, refused)) if (REFUSED..ABORTS).contains(&token.shape) => {
                    *refused = true;
                    plain(&format!("-ERR refused t{}\r\n", token.number))
                }
                Some((tokens, _)) => {
                    tokens.push(token);
                    plain("+QUEUED\r\n")
                }
                None => token.reply(),
            },
            _ => plain("-ERR unknown command\r\n"),
        };
        let noise = (self.hello && self.noise.often > 0).then_some(&mut self.noise);
        part.write(output, noise);
        self.pushes.store(self.noise.pushes, Ordering::SeqCst);
    }
}

/// The command at this position, and where it ends.
fn parse(input: &[u8], at: usize) -> Option<(Vec<&[u8]>, usize)> {
    let number = |at: usize| -> Option<(usize, usize)> {
        let line = input.get(at + 1..)?;
        let end = line.windows(2).position(|pair| pair == b"\r\n")?;
        Some((str::from_utf8(&line[..end]).ok()?.parse().ok()?, at + end + 3))
    };
    let (count, mut at) = number(at)?;
    let mut command = Vec::new();
    for _ in 0..count {
        let (n, start) = number(at)?;
        command.push(input.get(start..start + n)?);
        input.get(start + n..start + n + 2)?;
        at = start + n + 2;
    }
    Some((command, at))
}

fn start(plan: &Plan, pushes: &Arc<AtomicU64>) -> io::Result<(Config, JoinHandle<io::Result<()>>)> {
    let server = Server {
        plan: plan.clone(),
        rng: fastrand::Rng::with_seed(plan.seed ^ 1),
        noise: Noise { rng: fastrand::Rng::with_seed(plan.seed ^ 2), often: plan.noise, pushes: 0 },
        pushes: Arc::clone(pushes),
        multi: None,
        rounds: 0,
        hello: false,
        armed: false,
        sent: 0,
    };
    let small = plan.small;
    let shrink = move |socket: socket2::SockRef<'_>| -> io::Result<()> {
        if small {
            socket.set_send_buffer_size(4096)?;
            socket.set_recv_buffer_size(4096)?;
        }
        Ok(())
    };
    let (config, thread) = if plan.unix && cfg!(unix) {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("redefer-{}-m{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        let listener = std::os::unix::net::UnixListener::bind(&path)?;
        let config = Config::unix(&path);
        let thread = std::thread::spawn(move || {
            let accepted = listener.accept();
            std::fs::remove_file(path)?;
            let (socket, _) = accepted?;
            shrink(socket2::SockRef::from(&socket))?;
            server.serve(socket)
        });
        (config, thread)
    } else {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        shrink(socket2::SockRef::from(&listener))?;
        let config = Config::tcp("127.0.0.1", listener.local_addr()?.port());
        let thread = std::thread::spawn(move || {
            let (socket, _) = listener.accept()?;
            socket.set_nodelay(true)?;
            server.serve(socket)
        });
        (config, thread)
    };
    let config = if small { config.send_buffer_size(4096).recv_buffer_size(4096) } else { config };
    let timeout = if plan.stalls { Duration::from_millis(15) } else { Duration::from_secs(20) };
    let config = config.protocol(Protocol::Resp3).timeout(timeout).write_batch(plan.write_batch);
    let config = config.max_outstanding(plan.max_outstanding).send_when(plan.send_when);
    Ok((config.linger(Duration::from_millis(if plan.faultless() { 5000 } else { 50 })), thread))
}

// The client.

/// Panics in the middle of decoding.
#[derive(Debug, PartialEq)]
struct Bomb;

struct Bang;

impl FromReply for Bomb {
    fn from_reply(_: Frame<'_>) -> Result<Self> {
        // Without the message of a panic.
        resume_unwind(Box::new(Bang))
    }
}

enum Held<'c> {
    Value(Reply<'c, Value>),
    Integer(Reply<'c, i64>),
    Text(Reply<'c, String>),
    Status(Reply<'c, ()>),
    Bomb(Reply<'c, Bomb>),
    LateValue(Queued<'c, Value>),
    LateInteger(Queued<'c, i64>),
    LateText(Queued<'c, String>),
    LateStatus(Queued<'c, ()>),
    LateBomb(Queued<'c, Bomb>),
    Many(MultiBulk<'c, Value>, usize),
    Pairs(MultiBulk<'c, (Value, Value)>, usize),
    Commit(Reply<'c, ()>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Origin {
    Connection,
    /// The number of the batch, and the position in it.
    Batch(u64, u64),
    Transaction(usize),
}

struct Item<'c> {
    token: Token,
    origin: Origin,
    held: Held<'c>,
}

#[derive(Default)]
struct Committing {
    committed: bool,
    given_up: bool,
    tokens: Vec<Token>,
    dropped: Vec<Token>,
    forgotten: Vec<Token>,
}

impl Committing {
    /// Why EXEC fails.
    fn failure(&self) -> Option<String> {
        if self.tokens.iter().any(|token| (REFUSED..ABORTS).contains(&token.shape)) {
            Some(EXECABORT.into())
        } else if self.tokens.iter().any(|token| token.shape == ABORTS) {
            Some(name(&Error::Aborted))
        } else {
            None
        }
    }

    /// Why one of its commands has no reply.
    fn why_not(&self, token: Token) -> Option<String> {
        if !self.committed {
            return Some(name(&Error::NotCommitted));
        }
        let failure = self.failure()?;
        let refused = (REFUSED..ABORTS).contains(&token.shape);
        Some(if refused { format!("ERR refused t{}", token.number) } else { failure })
    }

    /// What is to be accounted for if nobody looks at this command.
    fn unseen(&self, token: Token) -> Option<String> {
        match self.why_not(token) {
            Some(why) => why.starts_with("ERR refused").then_some(why),
            None => token.error(),
        }
    }
}

struct Client<'c> {
    conn: &'c Connection,
    plan: Plan,
    rng: fastrand::Rng,
    tokens: u64,
    pool: Vec<Item<'c>>,
    batch: Option<(Batch<'c>, u64, u64)>,
    batches: u64,
    batch_unseen: HashMap<u64, String>,
    open: Vec<(Transaction<'c>, usize)>,
    transactions: Vec<Committing>,
    unseen: Vec<String>,
    stored: u64,
    /// Multi-bulks that were forgotten.
    loose: u64,
    /// Some command timed out, or the connection is lost: what is accounted for is no longer certain.
    uncertain: bool,
}

impl<'c> Client<'c> {
    fn token(&mut self, shapes: &[u8]) -> Token {
        self.tokens += 1;
        let shape = if self.rng.u8(0..3) == 0 { self.rng.u8(0..25) } else { shapes[self.rng.usize(0..shapes.len())] };
        // The greatest are rare.
        let shape = if matches!(shape, 5 | 16 | 24) && self.rng.u8(0..8) > 0 { 2 } else { shape };
        Token { number: self.tokens, shape }
    }

    /// Issues a command on something, and keeps its handle.
    fn issue(&mut self) {
        match self.rng.u8(0..10) {
            0..=4 => {
                let conn = self.conn;
                let kind = self.rng.u8(0..8);
                let token = self.token_for(kind);
                let held = issue(conn, token, kind);
                self.pool.push(Item { token, origin: Origin::Connection, held });
            }
            5 | 6 if self.batch.is_some() => {
                let kind = self.rng.u8(0..8);
                let token = self.token_for(kind);
                if let Some((batch, id, position)) = &mut self.batch {
                    let held = (&*batch).late(token, kind);
                    let origin = Origin::Batch(*id, *position);
                    *position += 1;
                    self.pool.push(Item { token, origin, held });
                }
            }
            _ if !self.open.is_empty() => {
                let kind = self.rng.u8(0..8);
                let mut token = self.token_for(kind);
                match self.rng.u8(0..60) {
                    0 => token.shape = REFUSED,
                    1 => token.shape = ABORTS,
                    _ => {}
                }
                let (tx, id) = &self.open[self.rng.usize(0..self.open.len())];
                let held = tx.late(token, kind);
                self.transactions[*id].tokens.push(token);
                self.pool.push(Item { token, origin: Origin::Transaction(*id), held });
            }
            _ => {}
        }
    }

    fn token_for(&mut self, kind: u8) -> Token {
        match kind {
            0 => self.token(&[1, 12, 14, 15, 21]),
            1 => self.token(&[1]),
            2 => self.token(&[2, 3, 3]),
            3 => self.token(&[0]),
            4 => self.token(&[0, 1, 2, 12]),
            5 => self.token(&[12, 13, 14, 16]),
            // Pairs are lazy: only what makes pairs, or is no aggregate at all.
            _ => {
                let mut token = self.token(&[21, 22, 23, 24]);
                if matches!(token.shape, 12..=16) {
                    token.shape = 22;
                }
                token
            }
        }
    }

    /// Why this item can have no value of its own.
    fn why_not(&self, item: &Item<'c>) -> Option<String> {
        match item.origin {
            Origin::Transaction(id) if matches!(item.held, Held::Commit(_)) => self.transactions[id].failure(),
            Origin::Transaction(id) => self.transactions[id].why_not(item.token),
            _ => None,
        }
    }

    /// Whether an error other than the item's own is in order.
    #[track_caller]
    fn excuse(&mut self, item: (Token, Origin), error: &Error) {
        let excused = match error {
            Error::Timeout => self.plan.stalls,
            Error::ConnectionLost(_) | Error::Protocol(_) => self.plan.ends_after.is_some(),
            // Of a transaction that timed out before it could be sent.
            Error::Refused(_) => false,
            _ => false,
        };
        assert!(excused, "{item:?}: {error:?}");
        self.uncertain = true;
    }

    #[track_caller]
    fn check<T: FromReply + PartialEq + std::fmt::Debug>(
        &mut self,
        (token, origin): (Token, Origin),
        why_not: Option<String>,
        got: Result<T>,
    ) {
        let wanted = match why_not {
            Some(why) => Err(why),
            None => outcome::<T>(&token.clean()).map_err(|error| name(&error)),
        };
        match (got, wanted) {
            (Ok(got), Ok(wanted)) => assert_eq!(got, wanted, "{token:?} {origin:?}"),
            (Err(got), Err(wanted)) if name(&got) == wanted => self.too_early((token, origin), &got),
            (Err(got), _) => self.excuse((token, origin), &got),
            (Ok(got), Err(wanted)) => panic!("{token:?} {origin:?}: {got:?} instead of {wanted}"),
        }
    }

    /// A handle that is used before the commit is given up: what its command comes to is accounted for.
    fn too_early(&mut self, (token, origin): (Token, Origin), error: &Error) {
        if matches!(error, Error::NotCommitted) {
            self.unseen(token, origin, false);
        }
    }

    /// The handle of this item is gone, and nobody has looked at its reply.
    fn unseen(&mut self, token: Token, origin: Origin, commit: bool) {
        match origin {
            Origin::Connection => self.unseen.extend(token.error()),
            Origin::Batch(id, position) => match (&self.batch, token.error()) {
                (Some((_, open, _)), Some(error)) if *open == id => drop(self.batch_unseen.insert(position, error)),
                (_, error) => self.unseen.extend(error),
            },
            Origin::Transaction(id) if commit => self.unseen.extend(self.transactions[id].failure()),
            Origin::Transaction(id) => {
                let group = &mut self.transactions[id];
                if group.committed {
                    let unseen = group.unseen(token);
                    self.unseen.extend(unseen);
                } else if !group.given_up {
                    group.dropped.push(token);
                }
            }
        }
    }

    fn forgotten(&mut self, token: Token, origin: Origin) {
        match origin {
            Origin::Connection | Origin::Batch(..) => self.stored += 1,
            Origin::Transaction(id) => {
                let group = &mut self.transactions[id];
                if !group.committed {
                    group.forgotten.push(token);
                } else if group.failure().is_none() {
                    self.stored += 1;
                }
            }
        }
    }

    /// Does something with a handle.
    fn use_one(&mut self) {
        if self.pool.is_empty() {
            return;
        }
        let at = match self.rng.u8(0..4) {
            0 | 1 => 0,
            2 => self.pool.len() - 1,
            _ => self.rng.usize(0..self.pool.len()),
        };
        let item = self.pool.remove(at);
        let why_not = self.why_not(&item);
        let it = (item.token, item.origin);
        let what = self.rng.u8(0..20);
        macro_rules! reply {
            ($kind:ident, $reply:ident, $type:ty) => {
                match what {
                    0..=8 => {
                        let got = $reply.wait();
                        self.check::<$type>(it, why_not, got);
                    }
                    9..=12 => {
                        let time = Duration::from_micros([0, 300, 30_000_000][self.rng.usize(0..3)]);
                        match $reply.wait_timeout(time) {
                            Ok(value) => self.check::<$type>(it, why_not, Ok(value)),
                            Err(WaitError::Failed(error)) => self.check::<$type>(it, why_not, Err(error)),
                            Err(WaitError::Timeout($reply)) => {
                                let item = Item { held: Held::$kind($reply), ..item };
                                self.pool.insert(at.min(self.pool.len()), item);
                            }
                        }
                    }
                    13..=15 => {
                        let ready = $reply.is_ready().expect("not in use");
                        if ready && self.rng.bool() {
                            let got = $reply.wait();
                            self.check::<$type>(it, why_not, got);
                        } else {
                            let item = Item { held: Held::$kind($reply), ..item };
                            self.pool.insert(at.min(self.pool.len()), item);
                        }
                    }
                    16 | 17 => {
                        drop($reply);
                        self.unseen(it.0, it.1, matches!(stringify!($kind), "Commit"));
                    }
                    18 => {
                        $reply.detach();
                        self.unseen(it.0, it.1, matches!(stringify!($kind), "Commit"));
                    }
                    _ => {
                        std::mem::forget($reply);
                        if stringify!($kind) != "Commit" {
                            self.forgotten(it.0, it.1);
                        }
                    }
                }
            };
        }
        macro_rules! bomb {
            ($reply:ident) => {{
                match catch_unwind(AssertUnwindSafe(|| $reply.wait())) {
                    // Its own reply or another's: that is seen by the others.
                    Err(panic) => assert!(panic.is::<Bang>() && why_not.is_none(), "{it:?}"),
                    Ok(Ok(Bomb)) => unreachable!(),
                    Ok(Err(error)) => {
                        let wanted = why_not.or_else(|| it.0.error());
                        if wanted != Some(name(&error)) {
                            self.excuse(it, &error);
                        }
                        self.too_early(it, &error);
                    }
                }
            }};
        }
        match item.held {
            Held::Value(reply) => reply!(Value, reply, Value),
            Held::Integer(reply) => reply!(Integer, reply, i64),
            Held::Text(reply) => reply!(Text, reply, String),
            Held::Status(reply) => reply!(Status, reply, ()),
            Held::LateValue(reply) => reply!(LateValue, reply, Value),
            Held::LateInteger(reply) => reply!(LateInteger, reply, i64),
            Held::LateText(reply) => reply!(LateText, reply, String),
            Held::LateStatus(reply) => reply!(LateStatus, reply, ()),
            Held::Commit(reply) => reply!(Commit, reply, ()),
            Held::Bomb(reply) => bomb!(reply),
            Held::LateBomb(reply) => bomb!(reply),
            Held::Many(many, taken) => {
                let wanted = elements(it.0, why_not);
                self.many(it, many, taken, what, &wanted, Held::Many);
            }
            Held::Pairs(pairs, taken) => {
                let wanted = match why_not {
                    Some(why) => vec![Err(why)],
                    None => match outcome::<Vec<(Value, Value)>>(&it.0.clean()) {
                        Ok(pairs) => pairs.into_iter().map(Ok).collect(),
                        Err(error) => vec![Err(name(&error))],
                    },
                };
                self.many(it, pairs, taken, what, &wanted, Held::Pairs);
            }
        }
    }

    fn many<T: FromReply + PartialEq + std::fmt::Debug>(
        &mut self,
        it: (Token, Origin),
        mut many: MultiBulk<'c, T>,
        mut taken: usize,
        what: u8,
        wanted: &[Result<T, String>],
        again: impl FnOnce(MultiBulk<'c, T>, usize) -> Held<'c>,
    ) where
        Vec<T>: FromReply,
    {
        match what {
            0..=4 => {
                let got = if what < 3 { many.wait::<Vec<T>>() } else { many.wait_as::<Vec<T>>() };
                let wanted: Result<Vec<&T>, &String> = wanted.iter().skip(taken).map(|item| item.as_ref()).collect();
                match (got, wanted) {
                    (Ok(got), Ok(wanted)) => assert_eq!(got.iter().collect::<Vec<_>>(), wanted, "{it:?}"),
                    (Err(got), Err(wanted)) if same(&got, wanted) => self.too_early(it, &got),
                    (Err(got), _) => self.excuse(it, &got),
                    (Ok(got), Err(wanted)) => panic!("{it:?}: {got:?} instead of {wanted}"),
                }
            }
            5..=13 => {
                for _ in 0..self.rng.usize(1..6) {
                    match (many.next(), wanted.get(taken)) {
                        (None, None) => return,
                        (Some(Ok(got)), Some(Ok(wanted))) => assert_eq!(&got, wanted, "{it:?} at {taken}"),
                        (Some(Err(got)), Some(Err(wanted))) if same(&got, wanted) => {
                            assert!(many.next().is_none(), "{it:?}");
                            return self.too_early(it, &got);
                        }
                        (Some(Err(got)), _) => {
                            self.excuse(it, &got);
                            assert!(many.next().is_none(), "{it:?}");
                            return;
                        }
                        (got, wanted) => panic!("{it:?} at {taken}: {got:?} instead of {wanted:?}"),
                    }
                    taken += 1;
                }
                let held = again(many, taken);
                self.pool.insert(0, Item { token: it.0, origin: it.1, held });
            }
            14 | 15 => match many.len() {
                Ok(len) => {
                    let nil = matches!(wanted.first(), Some(Err(why)) if *why == name(&Error::Nil));
                    assert_eq!(len, (!nil).then(|| wanted.len() - taken), "{it:?}");
                    let held = again(many, taken);
                    self.pool.insert(0, Item { token: it.0, origin: it.1, held });
                }
                Err(error) => match wanted.first() {
                    Some(Err(wanted)) if same(&error, wanted) => self.too_early(it, &error),
                    _ => self.excuse(it, &error),
                },
            },
            16..=18 => {
                drop(many);
                // Once begun it is no error, and the end of one that is nil has not been told.
                if taken == 0 {
                    self.unseen(it.0, it.1, false);
                }
            }
            _ => {
                // Whether it is in the store depends on whether it was entered.
                std::mem::forget(many);
                self.loose += 1;
            }
        }
    }

    fn step(&mut self) {
        match self.rng.u8(0..40) {
            0..=19 => self.issue(),
            20..=31 => self.use_one(),
            32 => {
                if let Err(error) = self.conn.flush() {
                    self.excuse((Token { number: 0, shape: 0 }, Origin::Connection), &error);
                }
            }
            33 => self.sync(),
            34 | 35 => self.batches(),
            36..=38 => self.transactions(),
            _ => self.watch(),
        }
    }

    fn sync(&mut self) {
        let unseen = std::mem::take(&mut self.unseen);
        match self.conn.sync() {
            Ok(()) => assert!(unseen.is_empty() || self.uncertain, "{unseen:?} not told"),
            Err(error) if unseen.contains(&name(&error)) => {}
            Err(error) => {
                let known = matches!(error, Error::Server(_) | Error::Batch(_) | Error::Aborted);
                assert!(!known || self.uncertain, "{error:?} is none of {unseen:?}");
                if !known {
                    self.excuse((Token { number: 0, shape: 0 }, Origin::Connection), &error);
                }
            }
        }
    }

    fn batches(&mut self) {
        let Some((batch, _, _)) = self.batch.take() else {
            self.batches += 1;
            self.batch = Some((self.conn.batch(), self.batches, 0));
            self.batch_unseen.clear();
            return;
        };
        let unseen = std::mem::take(&mut self.batch_unseen);
        let first = unseen.iter().min_by_key(|(position, _)| **position);
        if self.rng.u8(0..3) == 0 {
            drop(batch);
            if let Some((_, error)) = first {
                self.unseen.push(format!("{} {error}", unseen.len()));
            }
            return;
        }
        match (batch.finish(), first) {
            (Ok(()), None) => {}
            (Ok(()), Some(first)) => assert!(self.uncertain, "{first:?} not told"),
            (Err(Error::Batch(error)), Some((position, wanted)))
                if !self.uncertain && name(error.first()) == *wanted =>
            {
                assert_eq!((error.position(), error.failed()), (*position, unseen.len() as u64));
            }
            (Err(Error::Batch(error)), _) if self.plan.faultless() => panic!("{error:?} instead of {unseen:?}"),
            (Err(Error::Batch(_)), _) => self.uncertain = true,
            (Err(error), _) => self.excuse((Token { number: 0, shape: 0 }, Origin::Connection), &error),
        }
    }

    fn transactions(&mut self) {
        if self.open.is_empty() || (self.open.len() < 3 && self.rng.bool()) {
            self.open.push((self.conn.transaction(), self.transactions.len()));
            self.transactions.push(Committing::default());
            return;
        }
        let (tx, id) = self.open.swap_remove(self.rng.usize(0..self.open.len()));
        assert_eq!(tx.len(), self.transactions[id].tokens.len());
        match self.rng.u8(0..10) {
            0 => drop(tx),
            1 => tx.discard(),
            _ => return self.commit(tx, id),
        }
        self.transactions[id].given_up = true;
    }

    fn commit(&mut self, tx: Transaction<'c>, id: usize) {
        let commit = tx.commit();
        let group = &mut self.transactions[id];
        group.committed = true;
        for token in std::mem::take(&mut group.dropped) {
            self.unseen.extend(group.unseen(token));
        }
        let forgotten = std::mem::take(&mut group.forgotten).len();
        if group.failure().is_none() {
            self.stored += forgotten as u64;
        }
        let token = Token { number: 0, shape: 0 };
        self.pool.push(Item { token, origin: Origin::Transaction(id), held: Held::Commit(commit) });
    }

    fn watch(&mut self) {
        let it = (Token { number: 0, shape: 0 }, Origin::Connection);
        match self.conn.watch("key") {
            Ok(watch) if self.rng.bool() => drop(watch),
            Ok(watch) => {
                let tx = watch.transaction();
                let id = self.transactions.len();
                self.transactions.push(Committing::default());
                for _ in 0..self.rng.usize(0..4) {
                    let kind = self.rng.u8(0..8);
                    let token = self.token_for(kind);
                    let held = tx.late(token, kind);
                    self.transactions[id].tokens.push(token);
                    self.pool.push(Item { token, origin: Origin::Transaction(id), held });
                }
                self.commit(tx, id);
            }
            Err(error) => self.excuse(it, &error),
        }
    }
}

/// Whether the error is the one that was wanted; a reply of the wrong shape is told in other words by a multi-bulk.
fn same(got: &Error, wanted: &str) -> bool {
    name(got) == wanted || (matches!(got, Error::UnexpectedReply(_)) && wanted.starts_with("UnexpectedReply"))
}

/// The elements of a reply, one by one.
fn elements(token: Token, why_not: Option<String>) -> Vec<Result<Value, String>> {
    if let Some(why) = why_not {
        return vec![Err(why)];
    }
    let value = match outcome::<Value>(&token.clean()) {
        Ok(Value::Nil) => return vec![Err(name(&Error::Nil))],
        Ok(value) => value,
        Err(error) => return vec![Err(name(&error))],
    };
    match value.into_vec() {
        Some(values) => values.into_iter().map(Ok).collect(),
        None => vec![Err("UnexpectedReply".into())],
    }
}

fn issue(conn: &Connection, token: Token, kind: u8) -> Held<'_> {
    let key = token.key();
    match kind {
        0 => Held::Value(conn.command("ANY", &key)),
        1 => Held::Integer(conn.incr(&key)),
        2 => Held::Text(conn.get(&key)),
        3 => Held::Status(conn.set(&key, "v")),
        4 => Held::Bomb(conn.get(&key)),
        5 => Held::Many(conn.lrange(&key, 0, -1), 0),
        6 => Held::Pairs(conn.hgetall(&key), 0),
        _ => Held::Value(conn.command("ANY", (&key, "x".repeat(token.number as usize % 5000)))),
    }
}

/// What a batch and a transaction have in common.
trait Late<'c> {
    fn late(self, token: Token, kind: u8) -> Held<'c>;
}

macro_rules! late {
    ($($executor:ty),*) => {$(
        impl<'c> Late<'c> for $executor {
            fn late(self, token: Token, kind: u8) -> Held<'c> {
                let key = token.key();
                match kind {
                    0 => Held::LateValue(Execute::command(self, "ANY", &key)),
                    1 => Held::LateInteger(self.incr(&key)),
                    2 => Held::LateText(self.get(&key)),
                    3 => Held::LateStatus(self.set(&key, "v")),
                    4 => Held::LateBomb(self.get(&key)),
                    5 => Held::Many(self.lrange(&key, 0, -1), 0),
                    6 => Held::Pairs(self.hgetall(&key), 0),
                    _ => Held::LateValue(Execute::command(self, "ANY", (&key, "x".repeat(token.number as usize % 5000)))),
                }
            }
        }
    )*};
}

late!(&Batch<'c>, &Transaction<'c>);

static STEPS: AtomicU64 = AtomicU64::new(0);

fn run(plan: Plan) {
    let pushes = Arc::new(AtomicU64::new(0));
    let (config, thread) = start(&plan, &pushes).expect("a server");
    let conn = Connection::open(config).expect("a connection");
    let mut client = Client {
        conn: &conn,
        rng: fastrand::Rng::with_seed(plan.seed ^ 3),
        tokens: 0,
        pool: Vec::new(),
        batch: None,
        batches: 0,
        batch_unseen: HashMap::new(),
        open: Vec::new(),
        transactions: Vec::new(),
        unseen: Vec::new(),
        stored: 0,
        loose: 0,
        uncertain: !plan.faultless(),
        plan: plan.clone(),
    };
    for _ in 0..plan.steps {
        client.step();
        STEPS.fetch_add(1, Ordering::Relaxed);
    }
    client.batch = None;
    client.open.clear();
    client.rng.shuffle(&mut client.pool);
    while !client.pool.is_empty() {
        client.use_one();
    }
    let stored = client.stored..=client.stored + client.loose;
    drop(client);
    if plan.faultless() {
        let _ = conn.sync();
        assert!(!conn.is_broken());
        assert_eq!(conn.outstanding(), 0);
        let stats = conn.stats();
        assert!(stored.contains(&stats.stored), "{} replies are stored, {stored:?} handles forgotten", stats.stored);
        assert!(stats.pushes <= pushes.load(Ordering::SeqCst), "more pushes than were sent");
        assert_eq!(conn.get::<String>("9:3").wait().expect("in step"), "t9-with-more-than-ten");
    }
    drop(conn);
    let ended = thread.join().expect("the server does not panic");
    if plan.faultless() {
        ended.expect("the server has not failed");
    }
}

/// Runs one seed in a thread of its own.
fn run_within(seed: u64) {
    let plan = Plan::of(seed);
    let shown = format!("REDEFER_SEED={seed}: {plan:?}");
    let outcome = catch_unwind(AssertUnwindSafe(|| support::within(Duration::from_secs(60), move || run(plan))));
    if let Err(panic) = outcome {
        eprintln!("{shown}");
        resume_unwind(panic);
    }
}

#[test]
fn each_handle_gets_its_own_reply_whatever_is_done_in_whatever_order() {
    if let Some(seed) = std::env::var("REDEFER_SEED").ok().and_then(|seed| seed.parse().ok()) {
        return run_within(seed);
    }
    let seconds = std::env::var("REDEFER_MODEL_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    let (start, mut runs) = (Instant::now(), 0);
    // Always the same ones first, and then others every time.
    let base = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(1, |time| time.as_nanos() as u64 & 0xffff_ffff);
    while start.elapsed() < Duration::from_secs(seconds) {
        run_within(if runs < 200 { runs } else { base + runs });
        runs += 1;
    }
    println!("{runs} runs, {} steps", STEPS.load(Ordering::Relaxed));
}
