//! MONITOR: every command that the server runs, as it runs them.

use std::fmt;
use std::iter::FusedIterator;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::connection::{Connection, IntoConfig, Lines, Stop};
use crate::error::{Error, Result, UnexpectedReply};

/// A connection on which the server tells every command that it runs, of all clients: MONITOR.
///
/// An iterator that waits for the next command, without end; [`next_timeout`](Monitor::next_timeout) waits for so long.
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(feature = "testing")] {
/// # let server = redefer::testing::Server::start()?;
/// # let url = server.url();
/// use redefer::Monitor;
/// use redefer::prelude::*;
///
/// let conn = Connection::open(&*url)?;
/// let mut monitor = Monitor::open(&*url)?;
/// conn.set("hello", "wörld\n").wait()?;
///
/// for entry in &mut monitor {
///     let entry = entry?;
///     println!("{entry}"); // 1764514800.123456 [0 127.0.0.1:41524] "SET" "hello" "w\xc3\xb6rld\n"
///     if entry.args[0] == b"SET" {
///         assert_eq!(entry.args[2], "wörld\n".as_bytes());
///         break;
///     }
/// }
/// let conn = monitor.into_connection()?; // no monitor any more
/// conn.ping().wait()?;
/// # }
/// # Ok(())
/// # }
/// ```
///
/// Since 1.0. The user needs the permission to run MONITOR. It is for looking at a server, not for every day: each command
/// is sent to each monitor as well, so even one of them costs a busy server much of its speed.
///
/// # What is told and what is not
///
/// Commands are told when they run, those inside a transaction or a script too. Not told are those of administration, such
/// as CONFIG, and what the server refuses before it runs it: an unknown command, a wrong number of arguments. The
/// passwords of AUTH and HELLO are told as `(redacted)`.
///
/// # A reader that is too slow
///
/// The server keeps what has not been read. To it a monitor is an ordinary client, for which its setting
/// `client-output-buffer-limit` has no limit by default: one that is not read makes the server's memory grow.
///
/// # The end
///
/// A line that cannot be read is an error of its own ([`Error::UnexpectedReply`]), and the next one comes after it. When
/// the connection breaks, what had arrived whole is still told, then [`Error::ConnectionLost`], then nothing more: no
/// [`Reconnect`](crate::Reconnect) policy applies here, since nobody would notice the gap.
/// [`into_connection`](Monitor::into_connection) goes on from there, and dropping the monitor ends it. Another thread ends an
/// iteration with a [`MonitorHandle`].
pub struct Monitor {
    lines: Lines,
    /// The end of the connection has been told.
    ended: bool,
}

impl Monitor {
    /// Connects and becomes a monitor: [`Connection::open`], then [`Connection::into_monitor`].
    ///
    /// # Errors
    ///
    /// Those of the two.
    pub fn open(config: impl IntoConfig) -> Result<Monitor> {
        Connection::open(config)?.into_monitor()
    }

    /// What other threads end the iteration with.
    pub fn handle(&self) -> MonitorHandle {
        MonitorHandle { stop: Arc::clone(self.lines.stop()) }
    }

    /// Waits at most this long for the next command: `None` when the time has passed, or a [`MonitorHandle`] has
    /// [stopped](MonitorHandle::stop) the monitor. With [`Duration::ZERO`] it does not wait.
    ///
    /// # Errors
    ///
    /// As for the iterator; but once the connection has broken, every call says so.
    pub fn next_timeout(&mut self, time: Duration) -> Result<Option<MonitorEntry>> {
        match self.next_within(Some(time)) {
            Err(Error::Timeout) => Ok(None),
            other => other.map(Some),
        }
    }

    fn next_within(&mut self, time: Option<Duration>) -> Result<MonitorEntry> {
        let line = self.lines.next(time).inspect_err(|_| self.ended = self.lines.connection().is_broken())?;
        MonitorEntry::read(line)
    }

    /// Ends the monitor, and gives an ordinary connection to the same server. This works for a monitor whose connection
    /// has broken as well.
    ///
    /// The connection is closed and another one made in its place, with what [`Reconnect`](crate::Reconnect) says is
    /// restored, in one attempt of at most [`Config::connect_timeout`](crate::Config::connect_timeout). RESET would end a
    /// monitor on the same connection, since 6.2, but takes user, database, name and protocol away with it, so that it
    /// would save no more than the connecting itself; and everything that the server has to tell would have to be read
    /// first.
    ///
    /// # Errors
    ///
    /// Those of [`Connection::open`]. The connection is gone then.
    pub fn into_connection(self) -> Result<Connection> {
        self.lines.end()
    }
}

impl Connection {
    /// Turns the connection into a [`Monitor`].
    ///
    /// Everything outstanding is read first, as by [`sync`](Connection::sync); errors that nobody has seen stay in the
    /// account, for the `sync` of the connection that [`Monitor::into_connection`] gives.
    ///
    /// # Errors
    ///
    /// [`Error::Server`] when the user may not do this, [`Error::Timeout`] and [`Error::ConnectionLost`]. [`Error::Refused`]
    /// when a watch, a batch, a subscription or a blocking command without end is left on the connection, whose guard or
    /// handle was forgotten or detached. The connection is closed then.
    pub fn into_monitor(self) -> Result<Monitor> {
        Ok(Monitor { lines: Lines::begin(self, "MONITOR")?, ended: false })
    }
}

impl Iterator for Monitor {
    type Item = Result<MonitorEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        match self.next_within(None) {
            // Without a time this is a stop.
            Err(Error::Timeout) => None,
            next => Some(next),
        }
    }
}

impl FusedIterator for Monitor {}

impl fmt::Debug for Monitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Monitor").field(self.lines.connection()).finish()
    }
}

/// A [`Monitor`] as other threads see it: they end an iteration that is blocked. It can be cloned, and sent anywhere.
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(feature = "testing")] {
/// # let server = redefer::testing::Server::start()?;
/// use redefer::Monitor;
///
/// let mut monitor = Monitor::open(server.url())?;
/// let handle = monitor.handle();
/// std::thread::scope(|scope| {
///     scope.spawn(move || handle.stop());
///     assert!(monitor.next().is_none()); // blocks until it is stopped: nobody does anything
/// });
/// let conn = monitor.into_connection()?;
/// # conn.sync()?;
/// # }
/// # Ok(())
/// # }
/// ```
///
/// Dropping it does nothing. When the monitor is gone, there is nothing left to stop.
#[derive(Clone, Debug)]
pub struct MonitorHandle {
    stop: Arc<Stop>,
}

impl MonitorHandle {
    /// Ends the iteration at once, for good: the iterator gives `None` from now on, and so does
    /// [`next_timeout`](Monitor::next_timeout), whatever has come meanwhile. Never blocks.
    pub fn stop(&self) {
        self.stop.stop();
    }
}

/// A command that a server has run, as a [`Monitor`] tells it.
///
/// `Display` and `Debug` show the line as it came, where that is UTF-8.
#[derive(Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct MonitorEntry {
    /// When it ran, by the clock of the server, to the microsecond.
    pub time: SystemTime,
    /// The database that was selected.
    pub database: u32,
    /// Who has issued it.
    pub client: MonitorClient,
    /// The name of the command and its arguments, byte by byte. Never empty.
    pub args: Vec<Vec<u8>>,
    /// The line from which all this was read.
    pub line: Vec<u8>,
}

/// Who has issued a command: see [`MonitorEntry::client`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MonitorClient {
    /// A client that is connected over TCP: its address and port, such as `127.0.0.1:41524` or `[::1]:41524`.
    Tcp(String),
    /// A client of the unix socket with this path, which is the server's, and so the same for all of them.
    Unix(String),
    /// A script or a function, in any language.
    Lua,
}

impl MonitorEntry {
    /// Reads a line as MONITOR sends it, without type byte and end of line; as `redis-cli monitor` writes it, too.
    ///
    /// ```
    /// use redefer::{MonitorClient, MonitorEntry};
    ///
    /// let entry = MonitorEntry::parse(br#"1796050578.574130 [3 lua] "SET" "key \x00" "two\nlines""#)?;
    /// assert_eq!((entry.database, &entry.client), (3, &MonitorClient::Lua));
    /// assert_eq!(entry.args, [&b"SET"[..], b"key \0", b"two\nlines"]);
    /// # Ok::<(), redefer::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::UnexpectedReply`], with the beginning of the line.
    pub fn parse(line: &[u8]) -> Result<MonitorEntry> {
        MonitorEntry::read(line.to_vec())
    }

    fn read(line: Vec<u8>) -> Result<MonitorEntry> {
        match parts(&line) {
            Some((time, database, client, args)) => Ok(MonitorEntry { time, database, client, args, line }),
            None => Err(UnexpectedReply::new("a line of MONITOR", "something else").with_text(&line).into()),
        }
    }
}

impl fmt::Display for MonitorEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.line))
    }
}

impl fmt::Debug for MonitorEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MonitorEntry({self})")
    }
}

type Parts = (SystemTime, u32, MonitorClient, Vec<Vec<u8>>);

/// `seconds.micros [database client] "argument" "argument" …`
fn parts(line: &[u8]) -> Option<Parts> {
    let (time, rest) = split(line, b" [")?;
    // An address may have brackets itself, but no quotes.
    let (source, _) = split(rest, b"] \"")?;
    let mut rest = &rest[source.len() + 2..];
    let (seconds, micros) = split(time, b".")?;
    if micros.len() != 6 {
        return None;
    }
    let since = Duration::from_secs(digits(seconds)?) + Duration::from_micros(digits(micros)?);
    let (database, client) = split(source, b" ")?;
    let mut args = Vec::new();
    loop {
        let (arg, behind) = quoted(rest)?;
        args.push(arg);
        match behind {
            [] => break,
            [b' ', more @ ..] => rest = more,
            _ => return None,
        }
    }
    let time = SystemTime::UNIX_EPOCH.checked_add(since)?;
    Some((time, u32::try_from(digits(database)?).ok()?, MonitorClient::of(client), args))
}

impl MonitorClient {
    fn of(text: &[u8]) -> Self {
        let name = |text| String::from_utf8_lossy(text).into_owned();
        match text {
            b"lua" => MonitorClient::Lua,
            [b'u', b'n', b'i', b'x', b':', path @ ..] => MonitorClient::Unix(name(path)),
            address => MonitorClient::Tcp(name(address)),
        }
    }
}

/// What is before and behind the first `mark`.
fn split<'a>(text: &'a [u8], mark: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = memchr::memmem::find(text, mark)?;
    Some((&text[..at], &text[at + mark.len()..]))
}

fn digits(text: &[u8]) -> Option<u64> {
    // `parse` alone would take a sign.
    let text = str::from_utf8(text).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()))?;
    text.parse().ok()
}

/// The string in quotes at the front without its escapes, and what is behind it.
fn quoted(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut text = text.strip_prefix(b"\"")?;
    let mut out = Vec::new();
    loop {
        let (plain, marked) = text.split_at(memchr::memchr2(b'"', b'\\', text)?);
        out.extend_from_slice(plain);
        let (byte, rest) = match marked {
            [b'"', rest @ ..] => return Some((out, rest)),
            [_, b'x', high, low, rest @ ..] => (hex(*high)? << 4 | hex(*low)?, rest),
            [_, escaped, rest @ ..] => (unescaped(*escaped)?, rest),
            _ => return None,
        };
        out.push(byte);
        text = rest;
    }
}

fn unescaped(byte: u8) -> Option<u8> {
    Some(match byte {
        b'\\' | b'"' => byte,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'a' => 7,
        b'b' => 8,
        _ => return None,
    })
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> MonitorEntry {
        MonitorEntry::parse(line.as_bytes()).unwrap()
    }

    #[test]
    fn lines_of_servers_are_read() {
        // As they came from Redis 7.0, Redis 8.2 and Valkey 9.1.
        let entry = parse(r#"1796050578.000130 [0 127.0.0.1:34598] "SET" "k\x00\n\r\t\a\b\"\\\x7f\xff' x" """#);
        assert_eq!(entry.time, SystemTime::UNIX_EPOCH + Duration::from_micros(1_796_050_578_000_130));
        assert_eq!(entry.database, 0);
        assert_eq!(entry.client, MonitorClient::Tcp("127.0.0.1:34598".into()));
        assert_eq!(entry.args, [&b"SET"[..], b"k\0\n\r\t\x07\x08\"\\\x7f\xff' x", b""]);
        let entry = parse(r#"1796050578.574190 [15 lua] "SET" "a" "b] \"\n""#);
        assert_eq!((entry.database, entry.client), (15, MonitorClient::Lua));
        assert_eq!(entry.args, [&b"SET"[..], b"a", b"b] \"\n"]);
        let entry = parse(r#"1796050578.992828 [0 unix:/run/my redis/s] "PING""#);
        assert_eq!((entry.client, entry.args), (MonitorClient::Unix("/run/my redis/s".into()), vec![b"PING".to_vec()]));
        assert_eq!(parse(r#"1.000000 [0 [::1]:52000] "PING""#).client, MonitorClient::Tcp("[::1]:52000".into()));
    }

    #[test]
    fn what_is_no_line_is_an_error_and_no_panic() {
        let good = r#"1796050578.574130 [0 127.0.0.1:34598] "SET" "\x00\n""#;
        parse(good);
        for len in 0..good.len() {
            // Cut behind an argument it is a line with fewer of them.
            let read = MonitorEntry::parse(&good.as_bytes()[..len]);
            assert!(read.is_err() || good[..len].ends_with("\"SET\""), "{len}");
        }
        for bad in [
            "OK",
            r#"1796050578.57413 [0 lua] "PING""#,
            r#"+1796050578.574130 [0 lua] "PING""#,
            r#"18446744073709551615.999999 [0 lua] "PING""#,
            r#"1.000000 [-1 lua] "PING""#,
            r#"1.000000 [4294967296 lua] "PING""#,
            r#"1.000000 [0] "PING""#,
            r#"1.000000 [0 lua] PING"#,
            r#"1.000000 [0 lua] "PING"x"#,
            r#"1.000000 [0 lua] "PING" "#,
            r#"1.000000 [0 lua] "PING"  "a""#,
            r#"1.000000 [0 lua] "\q""#,
            r#"1.000000 [0 lua] "\xg0""#,
            r#"1.000000 [0 lua] "\x0""#,
        ] {
            let error = MonitorEntry::parse(bad.as_bytes()).unwrap_err();
            assert!(matches!(error, Error::UnexpectedReply(_)), "{bad}: {error}");
        }
    }

    /// How servers write an argument, by the words of their `sdscatrepr`.
    fn repr(bytes: &[u8]) -> String {
        let mut out = String::from("\"");
        for byte in bytes {
            match byte {
                b'\\' | b'"' => out.extend(['\\', char::from(*byte)]),
                b'\n' => out += "\\n",
                b'\r' => out += "\\r",
                b'\t' => out += "\\t",
                7 => out += "\\a",
                8 => out += "\\b",
                b' '..=b'~' => out.push(char::from(*byte)),
                _ => out += &format!("\\x{byte:02x}"),
            }
        }
        out + "\""
    }

    proptest::proptest! {
        #[test]
        fn every_argument_comes_back(args in proptest::collection::vec(proptest::collection::vec(0u8.., 0..20), 1..5)) {
            let text: Vec<String> = args.iter().map(|arg| repr(arg)).collect();
            proptest::prop_assert_eq!(parse(&format!("1.000000 [0 lua] {}", text.join(" "))).args, args);
        }

        #[test]
        fn no_bytes_panic(line in proptest::collection::vec(0u8.., 0..60)) {
            let _ = MonitorEntry::parse(&line);
        }
    }
}
