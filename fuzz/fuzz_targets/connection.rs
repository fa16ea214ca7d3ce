//! A whole connection whose peer greets it properly and then sends any bytes, in pieces, and closes: every handle gets the
//! frame that is its own by the decoder's word or an error, and nothing panics, hangs or takes much memory. So it is with
//! one that is made again, to a peer that has other bytes each time.

#![no_main]

#[path = "../common/memory.rs"]
mod memory;

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, mpsc};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use redefer::resp::{Decoder, Frame};
use redefer::{Config, Error, FromReply, Reconnect, Result, ServerError, Value, WaitError, prelude::*};

/// What the peer is to send on its next connections, one after the other, and in pieces of what size. Those behind them it
/// closes at once.
struct Script {
    connections: Vec<Peering>,
    piece: usize,
}

struct Peering {
    bytes: Vec<u8>,
    /// The handshake is left to the bytes as well.
    rude: bool,
    /// Closes with what it has not read, which is an error of the socket and not its end.
    abrupt: bool,
}

/// A peer that lives as long as the process.
struct Peer {
    path: PathBuf,
    scripts: Mutex<mpsc::Sender<Script>>,
}

/// What is sent in place of a handshake where a script is over. Without it the next script might be played to a connection
/// of this one that the peer had not come to yet.
const OVER: &[u8] = b"OVER";

fn peer() -> &'static Peer {
    static PEER: OnceLock<Peer> = OnceLock::new();
    PEER.get_or_init(|| {
        let path = std::env::temp_dir().join(format!("redefer-fuzz-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).expect("a socket");
        let (sender, scripts) = mpsc::channel::<Script>();
        std::thread::spawn(move || {
            for script in scripts {
                let mut connections = script.connections.iter();
                // A client that has been sent nonsense may dial again before it closes, and must not wait for itself.
                let mut served = Vec::new();
                loop {
                    let (mut socket, _) = listener.accept().expect("a client");
                    let seen = handshake(&mut socket).unwrap_or_default();
                    if seen == OVER {
                        break;
                    }
                    if let Some(peering) = connections.next() {
                        // A client that has gone is none of the peer's business.
                        if let Ok(true) = serve(&socket, &seen, peering, script.piece) {
                            served.push(socket);
                        }
                    }
                }
            }
        });
        Peer { path, scripts: Mutex::new(sender) }
    })
}

/// What a client says first.
fn handshake(socket: &mut UnixStream) -> std::io::Result<Vec<u8>> {
    let (mut seen, mut chunk): (Vec<u8>, _) = (Vec::new(), [0; 4096]);
    while seen != OVER && !seen.windows(7).any(|word| word == b"LIB-VER") {
        match socket.read(&mut chunk)? {
            0 => break,
            n => seen.extend(&chunk[..n]),
        }
    }
    Ok(seen)
}

/// Says whether the socket is to be kept until the script is over.
fn serve(mut socket: &UnixStream, seen: &[u8], peering: &Peering, piece: usize) -> std::io::Result<bool> {
    let mut chunk = [0; 4096];
    let mut rest = &peering.bytes[..];
    if peering.rude {
        // As many answers as are waited for, and those to what is asked instead if there is no HELLO; not more before there
        // is something to be answered.
        let mut asked = replies(seen).len();
        for _ in 0..if rest.first() == Some(&b'-') { 2 } else { 1 } {
            let answers = leading(rest, asked);
            rest = &rest[answers.len()..];
            answers.chunks(piece).try_for_each(|piece| socket.write_all(piece))?;
            if rest.is_empty() {
                return Ok(false);
            }
            match socket.read(&mut chunk)? {
                0 => return Ok(false),
                n => asked = replies(&chunk[..n]).len(),
            }
        }
    } else {
        // A connection that is made again selects its database.
        let answers = replies(seen).len().saturating_sub(1);
        socket.write_all(&[b"%1\r\n$5\r\nproto\r\n:3\r\n", &b"+OK\r\n".repeat(answers)[..]].concat())?;
        if socket.read(&mut chunk)? == 0 {
            return Ok(false);
        }
    }
    rest.chunks(piece).try_for_each(|piece| socket.write_all(piece))?;
    if peering.abrupt {
        return Ok(false);
    }
    socket.shutdown(Shutdown::Write)?;
    Ok(true)
}

/// So many frames at the front, pushes not counted, or everything.
fn leading(bytes: &[u8], mut frames: usize) -> &[u8] {
    let (mut decoder, mut at) = (Decoder::new(), 0);
    while frames > 0 {
        let Ok(Some((frame, n))) = decoder.decode(&bytes[at..]) else { return bytes };
        at += n;
        frames -= usize::from(!matches!(frame, Frame::Push(_)));
    }
    &bytes[..at]
}

/// A connection, closed before the peer is told that its script is over.
struct Open {
    conn: Connection,
    _over: Over,
}

struct Over;

impl Drop for Over {
    fn drop(&mut self) {
        let mut socket = UnixStream::connect(&peer().path).expect("the peer lives");
        socket.write_all(OVER).expect("the peer lives");
    }
}

fn open(connections: Vec<Peering>, piece: usize) -> Result<Open> {
    let peer = peer();
    // At most a hundred pieces.
    let longest = connections.iter().map(|peering| peering.bytes.len()).max().unwrap_or(0);
    let piece = piece.max(1 + longest / 100);
    let again = connections.len() > 1;
    let rude = connections.first().is_some_and(|peering| peering.rude);
    let scripts = peer.scripts.lock().expect("one thread");
    scripts.send(Script { connections, piece }).expect("the peer lives");
    let over = Over;
    let mut config = Config::unix(&peer.path).timeout(LIMIT).linger(Duration::ZERO);
    if rude {
        config = config.password("secret").database(1);
    }
    if again {
        config =
            config.reconnect(Reconnect::backoff().attempts(3).first_delay(Duration::ZERO).max_delay(Duration::ZERO));
    }
    Ok(Open { conn: Connection::open(config)?, _over: over })
}

fn one(bytes: &[u8], rude: bool) -> Vec<Peering> {
    vec![Peering { bytes: bytes.to_vec(), rude, abrupt: false }]
}

/// Decodes the type that it is about to panic for.
#[derive(Debug)]
struct Shown(String);

fn show<T: std::fmt::Debug>(result: Result<T>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(Error::ConnectionLost(lost)) => {
            in_time(lost.cause());
            "lost".into()
        }
        Err(Error::Protocol(_)) => "lost".into(),
        Err(error) => format!("{error:?}"),
    }
}

/// The peer always closes in the end, so nothing may take until it times out.
fn in_time(error: &Error) {
    assert!(!matches!(error, Error::Timeout), "it hangs");
}

fn outcome<T: FromReply + std::fmt::Debug>(frame: Option<&Frame<'_>>) -> Shown {
    Shown(match frame {
        None => "lost".into(),
        Some(Frame::Error(message)) => show::<T>(Err(ServerError::new(message).into())),
        Some(frame) => show(T::from_reply(*frame)),
    })
}

/// The replies that these bytes are, pushes left out.
fn replies(bytes: &[u8]) -> Vec<Frame<'_>> {
    let (mut decoder, mut rest, mut frames) = (Decoder::new(), bytes, Vec::new());
    while let Ok(Some((frame, n))) = decoder.decode(rest) {
        rest = &rest[n..];
        if !matches!(frame, Frame::Push(_)) {
            frames.push(frame);
        }
    }
    frames
}

enum Held<'c> {
    Value(Reply<'c, Value>),
    Text(Reply<'c, String>),
    Number(Reply<'c, i64>),
    Status(Reply<'c, ()>),
    Copied(Reply<'c, Vec<u8>>),
    Many(MultiBulk<'c, Value>),
}

/// Commands of every kind, waited for in the order that `order` says; each result is compared.
fn plain(bytes: &[u8], piece: usize, order: u8) {
    let frames = replies(bytes);
    let Open { conn, _over } = open(one(bytes, false), piece).expect("a connection");
    let mut held: Vec<(usize, Held<'_>)> = (0..14)
        .map(|at| {
            let handle = match at % 7 {
                0 => Held::Text(conn.get("a")),
                1 => Held::Many(conn.lrange("a", 0, -1)),
                2 => Held::Number(conn.incr("a")),
                3 => Held::Status(conn.set("a", "b")),
                4 => Held::Value(conn.command("A", ())),
                5 => Held::Copied(conn.get("a")),
                _ => Held::Many(conn.smembers("a")),
            };
            (at, handle)
        })
        .collect();
    let mut state = u32::from(order) + 1;
    let mut begun: Option<(usize, MultiBulk<'_, Value>, Vec<String>)> = None;
    while !held.is_empty() {
        state = state.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
        let (pick, what) = ((state >> 8) as usize, state >> 24);
        let at = match order % 4 {
            0 => 0,
            1 => held.len() - 1,
            _ => pick % held.len(),
        };
        let (at, handle) = held.remove(at);
        let frame = frames.get(at);
        macro_rules! reply {
            ($reply:ident, $type:ty) => {{
                if order >= 64 && what % 8 == 0 {
                    drop($reply);
                } else if order >= 64 && what % 8 == 1 {
                    std::mem::forget($reply);
                } else if what % 4 == 2 {
                    let _ = $reply.is_ready();
                    let got = match $reply.wait_timeout(LIMIT) {
                        Ok(value) => Ok(value),
                        Err(WaitError::Failed(error)) => Err(error),
                        Err(WaitError::Timeout(_)) => panic!("the peer has closed"),
                    };
                    assert_eq!(show(got), outcome::<$type>(frame).0, "reply {at}");
                } else {
                    assert_eq!(show($reply.wait()), outcome::<$type>(frame).0, "reply {at}");
                }
            }};
        }
        match handle {
            Held::Value(reply) => reply!(reply, Value),
            Held::Text(reply) => reply!(reply, String),
            Held::Number(reply) => reply!(reply, i64),
            Held::Status(reply) => reply!(reply, ()),
            Held::Copied(reply) => {
                let mut copied = Vec::new();
                let shown = show(reply.copy_to(&mut copied).map(|len| {
                    assert_eq!(len, copied.len() as u64);
                    copied
                }));
                assert_eq!(shown, outcome::<Vec<u8>>(frame).0, "copy of {at}");
            }
            Held::Many(mut many) => {
                let wanted: Vec<String> = match frame.and_then(Frame::as_elements) {
                    Some(elements) => elements.map(|element| show(Value::from_element(element))).collect(),
                    None => Vec::new(),
                };
                if what % 8 == 0 {
                    drop(many);
                } else if what % 2 == 0 {
                    let mut taken = Vec::new();
                    for item in many.by_ref().take(2) {
                        taken.push(show(item));
                    }
                    check(at, frame, &taken, &wanted, false);
                    if let Some((at, many, taken)) = begun.replace((at, many, taken)) {
                        finish(at, frames.get(at), many, taken);
                    }
                } else {
                    let taken: Vec<String> = many.map(show).collect();
                    check(at, frame, &taken, &wanted, true);
                }
            }
        }
    }
    if let Some((at, many, taken)) = begun {
        finish(at, frames.get(at), many, taken);
    }
    let _ = conn.sync();
    while conn.next_push().is_some() {}
    assert!(conn.is_broken() || conn.outstanding() == 0);
}

fn finish(at: usize, frame: Option<&Frame<'_>>, many: MultiBulk<'_, Value>, mut taken: Vec<String>) {
    let wanted: Vec<String> = match frame.and_then(Frame::as_elements) {
        Some(elements) => elements.map(|element| show(Value::from_element(element))).collect(),
        None => Vec::new(),
    };
    taken.extend(many.map(show));
    check(at, frame, &taken, &wanted, true);
}

/// A multi-bulk whose frame is not whole may have given some elements before it failed.
fn check(at: usize, frame: Option<&Frame<'_>>, taken: &[String], wanted: &[String], all: bool) {
    match frame {
        Some(frame) if frame.is_aggregate() => {
            if all {
                assert_eq!(taken, wanted, "multi-bulk {at}");
            } else {
                assert!(wanted.starts_with(taken), "multi-bulk {at}: {taken:?} {wanted:?}");
            }
        }
        Some(_) => assert!(taken.len() == 1, "multi-bulk {at}: {taken:?}"),
        None => assert!(!all || taken.last().is_some_and(|last| last == "lost"), "multi-bulk {at}: {taken:?}"),
    }
}

/// Everything that there is, without a word on what comes of it.
fn mixed(conn: &Connection, order: u8) {
    let early: Reply<'_, Value> = conn.command("A", ());
    let mut pairs = conn.hgetall::<Value, Value>("a");
    let batch = conn.batch();
    batch.set("a", "b");
    let kept = batch.get::<String>("a");
    let _ = batch.lrange::<i64>("a", 0, -1);
    let tx = conn.transaction();
    let (one, two, mut three) = (tx.incr("a"), tx.get::<Option<String>>("a"), tx.zrange::<Value>("a", 0, -1));
    tx.set("a", "b");
    let commit = tx.commit();
    conn.set("a", "b").detach();
    let empty = conn.transaction().commit();
    if order & 1 != 0 {
        let _ = pairs.next();
        let _ = pairs.len();
    }
    if order & 2 != 0 {
        let _ = three.next();
    }
    if order & 4 != 0 {
        let _ = (one.is_ready(), commit.wait(), two.wait());
    } else {
        let _ = (one.wait_timeout(Duration::from_micros(100)), two.wait());
        commit.detach();
    }
    if order & 8 != 0 {
        let _ = batch.finish();
    } else {
        drop(batch);
    }
    if order & 16 != 0 {
        let _ = pairs.next();
    }
    let _ = conn.command::<()>("SELECT", 3).wait();
    let _ = (early.wait(), kept.wait());
    if order & 32 != 0 {
        let _ = three.for_each_bytes(|_| ());
    } else {
        let _ = three.wait::<Vec<_>>();
    }
    if order & 64 != 0 {
        let _ = pairs.wait::<Vec<_>>();
    }
    drop(empty);
    if let Ok(watch) = conn.watch("a") {
        let tx = watch.transaction();
        tx.del("a");
        let _ = tx.commit().wait();
    }
    let _ = conn.sync();
    assert!(conn.is_broken() || conn.outstanding() == 0);
}

/// Everything that there is, on one connection after the other. What came for a handle was sent on one of them, and behind
/// what came for the handles before it.
fn again(connections: Vec<Peering>, piece: usize, order: u8) {
    let sent: Vec<Vec<u8>> = connections.iter().map(|peering| peering.bytes.clone()).collect();
    let Ok(Open { conn, _over }) = open(connections, piece) else { return };
    let mut values: Vec<Option<Reply<'_, Value>>> = Vec::new();
    let mut came: Vec<Option<String>> = Vec::new();
    let (mut halves, mut queued) = (Vec::new(), Vec::new());
    let mut state = u32::from(order) + 1;
    for _ in 0..24 {
        state = state.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
        let pick = (state >> 8) as usize;
        match (state >> 24) % 16 {
            0..3 => values.push(Some(conn.command("A", ()))),
            3..6 => values.push(Some(conn.idempotent().command("A", ()))),
            6 => {
                let mut many = conn.lrange::<Value>("a", 0, -1);
                settle(many.next().transpose());
                halves.push(many);
            }
            7 => {
                let mut many = conn.idempotent().lrange::<Value>("a", 0, -1);
                settle(many.len());
                halves.push(many);
            }
            8 => {
                let tx = conn.transaction();
                queued.push((tx.incr("a"), tx.commit()));
            }
            9 => {
                if let Ok(watch) = conn.watch("a") {
                    let tx = watch.transaction();
                    tx.del("a").detach();
                    settle(tx.commit().wait());
                }
            }
            10 => {
                let batch = conn.batch();
                batch.set("a", "b");
                batch.incr("a");
                settle(batch.finish());
            }
            11 => drop(settle(conn.get::<()>("a").copy_to(&mut std::io::sink()))),
            12 => conn.command::<()>("SELECT", 3).detach(),
            13 => drop(settle(conn.flush())),
            14 => drop(halves.pop()),
            _ if values.is_empty() => drop(settle(conn.sync())),
            _ => {
                let at = pick % values.len();
                if let Some(reply) = values[at].take() {
                    came.resize(values.len().max(came.len()), None);
                    came[at] = settle(reply.wait()).map(|value| format!("{value:?}"));
                }
            }
        }
        while conn.next_push().is_some() {}
    }
    for many in halves {
        settle(many.wait::<Vec<_>>());
    }
    for (reply, commit) in queued {
        settle(reply.wait());
        settle(commit.wait());
    }
    came.resize(values.len(), None);
    for (at, reply) in values.into_iter().enumerate() {
        if let Some(reply) = reply {
            came[at] = settle(reply.wait()).map(|value| format!("{value:?}"));
        }
    }
    settle(conn.sync());
    assert!(conn.is_broken() || conn.outstanding() == 0);
    let mut sent = sent.iter().flat_map(|bytes| replies(bytes)).filter_map(|frame| Value::from_reply(frame).ok());
    for (at, value) in came.iter().enumerate().filter_map(|(at, value)| Some((at, value.as_ref()?))) {
        assert!(sent.any(|sent| format!("{sent:?}") == *value), "reply {at}: {value} out of order");
    }
}

/// An error is as good as a value, but not one that says that it took too long.
fn settle<T>(result: Result<T>) -> Option<T> {
    match result {
        Ok(value) => return Some(value),
        Err(Error::ConnectionLost(lost)) => in_time(lost.cause()),
        Err(error) => in_time(&error),
    }
    None
}

/// How long anything may take, on a machine that is busy with other things.
const LIMIT: Duration = Duration::from_secs(5);

/// What ends the bytes of one connection and begins those of the next.
const NEXT: u8 = 0xfe;

// The first byte says how the pieces are cut, or that not even the handshake is answered properly, or that there are several
// connections; the second in what order things are done.
fuzz_target!(|data: &[u8]| {
    let [piece, order, bytes @ ..] = data else { return };
    let size = match piece {
        0..128 => usize::from(*piece).max(1),
        _ => bytes.len().max(1),
    };
    // What is announced takes no memory before it is there. Here the bytes are kept several times, and shown as text.
    memory::at_most((4 << 20) + bytes.len() * 512, || {
        if (224..255).contains(piece) {
            let connections = bytes.split(|&byte| byte == NEXT).take(4).enumerate();
            let peering = |(at, bytes): (usize, &[u8])| Peering {
                bytes: bytes.to_vec(),
                rude: order >> at & 1 != 0,
                abrupt: order >> (4 + at) & 1 != 0,
            };
            let mut connections: Vec<_> = connections.map(peering).collect();
            // One is closed with nothing but a greeting.
            connections.push(Peering { bytes: Vec::new(), rude: false, abrupt: false });
            let size = if piece % 2 == 0 { size } else { 7 };
            again(connections, size, order.rotate_left(3) ^ piece);
        } else if order & 128 == 0 {
            plain(bytes, size, *order);
        } else if let Ok(Open { conn, _over }) = open(one(bytes, *piece == 255), size) {
            mixed(&conn, *order);
        }
    });
});
