//! A whole connection whose peer greets it properly and then sends any bytes, in pieces, and closes: every handle gets the
//! frame that is its own by the decoder's word or an error, and nothing panics or hangs.

#![no_main]

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, mpsc};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use redefer::resp::{Decoder, Frame};
use redefer::{Config, Error, FromReply, Result, ServerError, Value, WaitError, prelude::*};

/// What the peer is to send on its next connection, and in pieces of what size.
struct Script {
    bytes: Vec<u8>,
    piece: usize,
    /// The handshake is left to the bytes as well.
    rude: bool,
}

/// A peer that lives as long as the process.
struct Peer {
    path: PathBuf,
    scripts: Mutex<mpsc::Sender<Script>>,
}

fn peer() -> &'static Peer {
    static PEER: OnceLock<Peer> = OnceLock::new();
    PEER.get_or_init(|| {
        let path = std::env::temp_dir().join(format!("redefer-fuzz-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).expect("a socket");
        let (sender, scripts) = mpsc::channel::<Script>();
        std::thread::spawn(move || {
            for script in scripts {
                let (socket, _) = listener.accept().expect("a client");
                // A client that has gone is none of the peer's business.
                let _ = serve(socket, &script);
            }
        });
        Peer { path, scripts: Mutex::new(sender) }
    })
}

fn serve(mut socket: UnixStream, script: &Script) -> std::io::Result<()> {
    let mut chunk = [0; 4096];
    let mut seen: Vec<u8> = Vec::new();
    while !seen.windows(7).any(|word| word == b"LIB-VER") {
        match socket.read(&mut chunk)? {
            0 => return Ok(()),
            n => seen.extend(&chunk[..n]),
        }
    }
    let mut rest = &script.bytes[..];
    if script.rude {
        // The four answers that are waited for, and as many again if there is no HELLO; not more before there is something
        // to be answered.
        for _ in 0..if rest.first() == Some(&b'-') { 2 } else { 1 } {
            let answers = leading(rest, 4);
            rest = &rest[answers.len()..];
            answers.chunks(script.piece).try_for_each(|piece| socket.write_all(piece))?;
            if rest.is_empty() || socket.read(&mut chunk)? == 0 {
                return Ok(());
            }
        }
    } else {
        socket.write_all(b"%1\r\n$5\r\nproto\r\n:3\r\n+OK\r\n+OK\r\n")?;
        if socket.read(&mut chunk)? == 0 {
            return Ok(());
        }
    }
    rest.chunks(script.piece).try_for_each(|piece| socket.write_all(piece))?;
    socket.shutdown(Shutdown::Write)?;
    while socket.read(&mut chunk)? > 0 {}
    Ok(())
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

fn open(bytes: &[u8], piece: usize, rude: bool) -> Result<Connection> {
    let peer = peer();
    // At most a hundred pieces.
    let piece = piece.max(1 + bytes.len() / 100);
    let scripts = peer.scripts.lock().expect("one thread");
    scripts.send(Script { bytes: bytes.to_vec(), piece, rude }).expect("the peer lives");
    let config = Config::unix(&peer.path).timeout(Duration::from_secs(2)).linger(Duration::ZERO);
    if !rude {
        return Connection::open(config);
    }
    Connection::open(config.password("secret").database(1))
}

/// Decodes the type that it is about to panic for.
#[derive(Debug)]
struct Shown(String);

fn show<T: std::fmt::Debug>(result: Result<T>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(Error::ConnectionLost(_) | Error::Protocol(_)) => "lost".into(),
        Err(error) => format!("{error:?}"),
    }
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
    Many(MultiBulk<'c, Value>),
}

/// Commands of every kind, waited for in the order that `order` says; each result is compared.
fn plain(bytes: &[u8], piece: usize, order: u8) {
    let frames = replies(bytes);
    let conn = open(bytes, piece, false).expect("a connection");
    let mut held: Vec<(usize, Held<'_>)> = (0..12)
        .map(|at| {
            let handle = match at % 6 {
                0 => Held::Text(conn.get("a")),
                1 => Held::Many(conn.lrange("a", 0, -1)),
                2 => Held::Number(conn.incr("a")),
                3 => Held::Status(conn.set("a", "b")),
                4 => Held::Value(conn.command("A", ())),
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
                    let got = match $reply.wait_timeout(Duration::from_secs(2)) {
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

// The first byte says how the pieces are cut, or that not even the handshake is answered properly; the second in what order things are done.
fuzz_target!(|data: &[u8]| {
    let [piece, order, bytes @ ..] = data else { return };
    let size = match piece {
        0..128 => usize::from(*piece).max(1),
        _ => bytes.len().max(1),
    };
    if order & 128 == 0 {
        plain(bytes, size, *order);
    } else if let Ok(conn) = open(bytes, size, *piece == 255) {
        mixed(&conn, *order);
    }
});
