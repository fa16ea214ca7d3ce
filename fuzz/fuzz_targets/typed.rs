//! Frames made of any bytes, decoded into every type that there is: no panic, no more memory than the frame is worth, and
//! an iterator over a connection gives what a `Vec` is made of.

#![no_main]

#[path = "../common/memory.rs"]
mod memory;
#[path = "../../tests/support/typed.rs"]
mod typed;

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, SystemTime};

use libfuzzer_sys::{Corpus, fuzz_target};
use redefer::commands::*;
use redefer::resp::{Decoder, Frame};
use redefer::{Config, Connection, Error, FromReply, Result, Value};

use typed::{Fields, all_types, asked, types};

/// A connection and its other end, which is served by hand: a reply is written before it is waited for.
struct Wire {
    conn: Connection,
    peer: UnixStream,
}

impl Wire {
    fn open() -> Wire {
        let path = std::env::temp_dir().join(format!("redefer-fuzz-typed-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).expect("a socket");
        let peer = std::thread::spawn(move || {
            let (mut peer, _) = listener.accept().expect("a client");
            let (mut seen, mut chunk) = (Vec::<u8>::new(), [0; 4096]);
            while !seen.windows(7).any(|word| word == b"LIB-VER") {
                let n = peer.read(&mut chunk).expect("a handshake");
                seen.extend(&chunk[..n]);
            }
            peer.write_all(b"%1\r\n$5\r\nproto\r\n:3\r\n+OK\r\n+OK\r\n").expect("a client");
            peer
        });
        let config = Config::unix(&path).timeout(Duration::from_secs(5)).linger(Duration::ZERO);
        let conn = Connection::open(config).expect("a connection");
        let peer = peer.join().expect("a peer");
        peer.set_nonblocking(true).expect("a socket");
        let _ = std::fs::remove_file(&path);
        Wire { conn, peer }
    }

    /// Answers so many commands that were issued, all with the same bytes.
    fn answer(&self, reply: &[u8], times: usize) {
        // What does not fit into the socket's buffer would have to be written while somebody reads.
        (&self.peer).write_all(&reply.repeat(times)).expect("room");
    }

    /// Nobody looks at the commands, but they must not fill the socket.
    fn drain(&self) {
        let mut chunk = [0; 4096];
        loop {
            match (&self.peer).read(&mut chunk) {
                Ok(n) => assert_ne!(n, 0, "the connection was closed"),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// A value as text to be compared. What is in a `HashMap` is shown in any order.
fn show(value: &impl Debug) -> Vec<u8> {
    let mut text = format!("{value:?}").into_bytes();
    text.sort_unstable();
    text
}

type Agree = fn(&Wire, Frame<'_>, &[u8]);

/// One by one, all at once, and first the one and then the other: it must always be the same.
fn lists<T: FromReply + Debug>(wire: &Wire, frame: Frame<'_>, reply: &[u8]) {
    // An error is no reply that a `Vec` could be made of, but the connection knows what it is.
    let whole = match frame {
        Frame::Error(_) => None,
        _ => Some(Vec::<T>::from_reply(frame)),
    };
    let (each, all) = (wire.conn.lrange::<T>("a", 0, -1), wire.conn.lrange::<T>("a", 0, -1));
    let (mut half, vec) = (wire.conn.lrange::<T>("a", 0, -1), wire.conn.command::<Vec<T>>("A", ()));
    wire.answer(reply, 4);
    let mut items = Vec::new();
    let mut failed = None;
    for item in each {
        assert!(failed.is_none(), "there is something behind an error");
        match item {
            Ok(item) => items.push(item),
            Err(error) => failed = Some(error),
        }
    }
    let first: Vec<T> = half.by_ref().take(1).filter_map(Result::ok).collect();
    let all: Result<Vec<T>> = all.wait();
    let rest: Result<Vec<T>> = half.wait();
    let vec = vec.wait();
    wire.drain();
    match whole {
        Some(Ok(whole)) => {
            assert!(failed.is_none(), "{failed:?} for {whole:?}");
            let shown = show(&whole);
            assert!(show(&items) == shown, "{items:?} for {whole:?}");
            assert!(matches!(&all, Ok(all) if show(all) == shown), "{all:?} for {whole:?}");
            assert!(matches!(&vec, Ok(vec) if show(vec) == shown), "{vec:?} for {whole:?}");
            let mut halves = first;
            halves.extend(rest.expect("the rest"));
            assert!(show(&halves) == shown, "{halves:?} for {whole:?}");
        }
        failure => {
            for other in [failed, all.err(), vec.err()] {
                assert!(other.is_some(), "not {failure:?}");
                assert!(!matches!(other, Some(Error::Timeout | Error::ConnectionLost(_))), "{other:?} for {failure:?}");
            }
        }
    }
}

macro_rules! agreeing {
    ($($type:ty),* $(,)?) => {
        [$(lists::<$type> as Agree),*]
    };
}

/// Makes frames of any bytes: what a server would send stays as it is, but no string is cut off, and no aggregate is longer
/// than what is there, nor shorter than it says. Else nearly every change would make nothing of everything behind it.
fn mend(bytes: &[u8]) -> Vec<u8> {
    let mut rest = bytes;
    let mut lines = bytes.iter().filter(|&&byte| byte == b'\n').count();
    let mut out = Vec::with_capacity(bytes.len() * 2);
    // How many elements each open aggregate is still owed.
    let mut open: Vec<usize> = Vec::new();
    while !rest.is_empty() {
        let line = until_line(&mut rest);
        lines = lines.saturating_sub(1);
        let (&kind, text) = line.split_first().unwrap_or((&b'+', b""));
        let number = str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok());
        if let (b'>' | b'|', Some(0..)) | (b'*' | b'~' | b'%', _) = (kind, number) {
            // A push and an attribute are no elements of what they are in.
            if matches!(kind, b'*' | b'~' | b'%')
                && let Some(owed) = open.last_mut()
            {
                *owed -= 1;
            }
            let each = if matches!(kind, b'%' | b'|') { 2 } else { 1 };
            let most = lines.saturating_sub(open.iter().sum()) / each + 1;
            match number {
                Some(-1) => out.extend_from_slice(b"*-1\r\n"),
                _ => {
                    let count = usize::try_from(number.unwrap_or(0)).unwrap_or(0).min(most);
                    out.extend_from_slice(format!("{}{count}\r\n", char::from(kind)).as_bytes());
                    open.push(count * each);
                }
            }
        } else {
            if let Some(owed) = open.last_mut() {
                *owed -= 1;
            }
            match kind {
                b'$' if number == Some(-1) => out.extend_from_slice(b"$-1\r\n"),
                b'$' | b'=' | b'!' => {
                    let length = number.and_then(|number| usize::try_from(number).ok());
                    let body = match length.and_then(|length| rest.split_at_checked(length)) {
                        Some((body, behind)) if behind.starts_with(b"\r\n") => {
                            rest = &behind[2..];
                            body
                        }
                        _ => until_line(&mut rest),
                    };
                    lines = lines.saturating_sub(body.iter().filter(|&&byte| byte == b'\n').count() + 1);
                    out.extend_from_slice(format!("{}{}\r\n", char::from(kind), body.len()).as_bytes());
                    out.extend_from_slice(body);
                    out.extend_from_slice(b"\r\n");
                }
                _ => {
                    out.extend_from_slice(line);
                    out.extend_from_slice(b"\r\n");
                }
            }
        }
        while open.last() == Some(&0) {
            open.pop();
        }
    }
    for _ in 0..open.iter().sum() {
        out.extend_from_slice(b"_\r\n");
    }
    out
}

/// Takes the next line, without its end.
fn until_line<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let end = rest.iter().position(|&byte| byte == b'\n');
    let line = &rest[..end.unwrap_or(rest.len())];
    *rest = &rest[end.map_or(rest.len(), |end| end + 1)..];
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// What is longer than this teaches nothing new, and takes long.
const LONGEST: usize = 16 << 10;

/// Only one in so many types is asked for at once: all of them would take that much longer.
const SHARE: usize = 8;

thread_local! {
    static WIRE: Wire = Wire::open();
}

// The first byte says which types are asked for, of the decoder and over the connection.
fuzz_target!(|data: &[u8]| -> Corpus {
    let Some((&first, bytes)) = data.split_first() else { return Corpus::Reject };
    if bytes.len() > LONGEST {
        return Corpus::Reject;
    }
    let (types, agreeing) = (all_types!(types), all_types!(agreeing));
    // Where an element may be missing, an error, or a pair: how that comes does not depend on what is in it.
    let pairs = agreeing![(String, Value), (Value, f64), (String, Entry<Fields>), Option<i64>, Option<Result<Value>>];
    let bytes = mend(bytes);
    let mut decoder = Decoder::new();
    let first = usize::from(first);
    let (mut rest, mut which) = (&bytes[..], first / SHARE);
    while let Ok(Some((frame, len))) = decoder.decode(rest) {
        let reply = &rest[..len];
        // Three bytes can be an element of a list of large structs, which doubles as it grows.
        memory::at_most((256 << 10) + len * 1024, || {
            for (_, decode) in types.iter().skip(first % SHARE).step_by(SHARE) {
                let _ = decode(frame);
            }
            let _ = asked(frame);
        });
        // A push answers nothing.
        if !matches!(frame, Frame::Push(_)) {
            WIRE.with(|wire| {
                agreeing[which % agreeing.len()](wire, frame, reply);
                pairs[which % pairs.len()](wire, frame, reply);
            });
            which += 1;
        }
        rest = &rest[len..];
    }
    WIRE.with(|wire| while wire.conn.next_push().is_some() {});
    Corpus::Keep
});
