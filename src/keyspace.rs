//! Keyspace notifications: what happens to keys, told on channels.
//!
//! A server that is told to ([`Events::enable`]) publishes what happens to its keys, each event in one of two forms or in
//! both: on the channel of the key with the name of the event as the message, or on the channel of the event with the key
//! as the message. [`KeyEvent::parse`] reads either. Who asks for both forms and listens to both gets each event twice.
//!
//! ```
//! # fn main() -> redefer::Result<()> {
//! # #[cfg(feature = "testing")] {
//! # let server = redefer::testing::Server::start()?;
//! # let conn = redefer::Connection::open(server.url())?;
//! use redefer::keyspace::{Events, KeyEvent};
//!
//! let before = Events::new().keyspace().strings().expired().enable(&conn)?;
//! assert_eq!(before.to_string(), "");
//!
//! // What to subscribe to: the events of database 0 whose keys begin with "user:" …
//! assert_eq!(Events::key_pattern(Some(0), "user:*"), b"__keyspace@0__:user:*");
//! // … and what comes.
//! let event = KeyEvent::parse(b"__keyspace@0__:user:7", b"expired").expect("a notification");
//! assert_eq!((event.database, &*event.key, &*event.event), (0, &b"user:7"[..], "expired"));
//! # }
//! # Ok(())
//! # }
//! ```
//!
//! Notifications are messages like all others: who is not subscribed at that moment misses them. An `expired` event comes
//! when the server removes the key, which may be well after its time has run out. In a cluster each node tells of its
//! own keys only, to those who are subscribed on that node.

use std::fmt;
use std::str::FromStr;

use crate::commands::ServerCommands as _;
use crate::connection::Connection;
use crate::error::{Error, Result, UnexpectedReply};
use crate::resp::number::parse_u64;

/// The setting that says of what a server notifies.
const SETTING: &str = "notify-keyspace-events";

/// Something that has happened to a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct KeyEvent {
    /// The database of the key.
    pub database: u32,
    /// The key.
    pub key: Vec<u8>,
    /// What has happened, mostly the name of the command in lower case: `set`, `del`, `expired`, `rename_to`, …
    pub event: String,
}

impl KeyEvent {
    /// Reads a notification from the channel and the payload of a message. `None`: it is none.
    ///
    /// The key may be any bytes. The name of an event is UTF-8 on every server; a message with another one is not taken for
    /// a notification, nor are those of single fields, `__subkeyspace@…` and its like, that the newest Redis has.
    ///
    /// ```
    /// use redefer::keyspace::KeyEvent;
    ///
    /// let of_key = KeyEvent::parse(b"__keyspace@3__:k", b"del");
    /// let of_event = KeyEvent::parse(b"__keyevent@3__:del", b"k");
    /// assert!(of_key.is_some() && of_key == of_event);
    /// assert_eq!(KeyEvent::parse(b"news", b"del"), None);
    /// ```
    pub fn parse(channel: &[u8], payload: &[u8]) -> Option<KeyEvent> {
        let (by_key, rest) = match channel.strip_prefix(b"__keyspace@") {
            Some(rest) => (true, rest),
            None => (false, channel.strip_prefix(b"__keyevent@")?),
        };
        // The first one: the key may have another.
        let at = memchr::memmem::find(rest, b"__:")?;
        let (database, name) = (&rest[..at], &rest[at + 3..]);
        let (key, event) = if by_key { (name, payload) } else { (payload, name) };
        Some(KeyEvent {
            database: u32::try_from(parse_u64(database)?).ok()?,
            key: key.to_vec(),
            event: str::from_utf8(event).ok()?.to_owned(),
        })
    }
}

/// Of which events a server notifies, and in which form: the setting `notify-keyspace-events`.
///
/// Made of two parts: the form, [`keyspace`](Events::keyspace) or [`keyevent`](Events::keyevent) or both, and the classes of
/// events. Without one of each nothing is told. Each class costs the server time for all of its commands, so ask for
/// what is needed.
///
/// ```
/// use redefer::keyspace::Events;
///
/// let events = Events::new().keyevent().expired().evicted();
/// assert_eq!(events.to_string(), "Exe");
/// assert_eq!("Kg$".parse::<Events>()?, Events::new().keyspace().generic().strings());
/// # Ok::<(), redefer::Error>(())
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Events {
    /// A bit for each ASCII character, so that those of newer servers are kept as well.
    flags: u128,
}

/// The order in which flags are written: that of servers' documentation.
const ORDER: &[u8; 17] = b"KEg$lshzxetdmnocA";

impl Events {
    /// None.
    #[must_use]
    pub fn new() -> Self {
        Events::default()
    }

    #[must_use]
    fn with(self, flag: u8) -> Self {
        Events { flags: self.flags | 1 << flag }
    }

    fn has(self, flag: u8) -> bool {
        self.flags >> flag & 1 == 1
    }

    /// `K`: in the form of keys, `__keyspace@0__:key`.
    #[must_use]
    pub fn keyspace(self) -> Self {
        self.with(b'K')
    }

    /// `E`: in the form of events, `__keyevent@0__:event`.
    #[must_use]
    pub fn keyevent(self) -> Self {
        self.with(b'E')
    }

    /// `g`: commands for keys of all types: DEL, EXPIRE, RENAME, …
    #[must_use]
    pub fn generic(self) -> Self {
        self.with(b'g')
    }

    /// `$`: commands for strings.
    #[must_use]
    pub fn strings(self) -> Self {
        self.with(b'$')
    }

    /// `l`: commands for lists.
    #[must_use]
    pub fn lists(self) -> Self {
        self.with(b'l')
    }

    /// `s`: commands for sets.
    #[must_use]
    pub fn sets(self) -> Self {
        self.with(b's')
    }

    /// `h`: commands for hashes.
    #[must_use]
    pub fn hashes(self) -> Self {
        self.with(b'h')
    }

    /// `z`: commands for sorted sets.
    #[must_use]
    pub fn sorted_sets(self) -> Self {
        self.with(b'z')
    }

    /// `t`: commands for streams. Since 5.0.
    #[must_use]
    pub fn streams(self) -> Self {
        self.with(b't')
    }

    /// `x`: keys removed because their time has run out.
    #[must_use]
    pub fn expired(self) -> Self {
        self.with(b'x')
    }

    /// `e`: keys removed because memory was short.
    #[must_use]
    pub fn evicted(self) -> Self {
        self.with(b'e')
    }

    /// `d`: events of modules. Since 6.0.
    #[must_use]
    pub fn modules(self) -> Self {
        self.with(b'd')
    }

    /// `m`: keys that were read and do not exist. Since 6.0; not among [`all`](Events::all).
    #[must_use]
    pub fn misses(self) -> Self {
        self.with(b'm')
    }

    /// `n`: keys that are new. Since 7.0; not among [`all`](Events::all).
    #[must_use]
    pub fn new_keys(self) -> Self {
        self.with(b'n')
    }

    /// `o`: keys whose value was replaced by another one. Since Redis 8.2, not on Valkey; not among
    /// [`all`](Events::all).
    #[must_use]
    pub fn overwritten(self) -> Self {
        self.with(b'o')
    }

    /// `c`: keys whose type has changed. Since Redis 8.2, not on Valkey; not among [`all`](Events::all).
    #[must_use]
    pub fn type_changed(self) -> Self {
        self.with(b'c')
    }

    /// `A`: all classes but those that say that they are not among these. What the server takes for all may grow with
    /// its version.
    #[must_use]
    pub fn all(self) -> Self {
        self.with(b'A')
    }

    /// These and those.
    #[must_use]
    pub fn union(self, other: Events) -> Self {
        Events { flags: self.flags | other.flags }
    }

    /// Makes the server notify of these as well: what it was set to stays on. Returns what that was, so that it can be put
    /// back: `conn.config_set(("notify-keyspace-events", before.to_string()))`. To turn all off, set it to `""`.
    ///
    /// The setting belongs to the server and not to the connection, and lasts until it is changed or the server starts
    /// again. Reading and setting are two commands: who changes it in between is overruled.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] when these have no form or no class, and so would do nothing. [`Error::Server`] when the server
    /// does not know a class, or the user may not use CONFIG. Those of a connection.
    pub fn enable(self, conn: &Connection) -> Result<Events> {
        let forms = Events::new().keyspace().keyevent().flags;
        if self.flags & forms == 0 || self.flags & !forms == 0 {
            return Err(Error::Argument("events need a form, keyspace or keyevent, and a class"));
        }
        let settings: Vec<(String, String)> = conn.config_get(SETTING).wait()?;
        let Some((_, value)) = settings.first() else {
            return Err(UnexpectedReply::new("the setting notify-keyspace-events", "nothing").into());
        };
        let before: Events = value.parse()?;
        let wanted = before.union(self);
        if wanted != before {
            conn.config_set((SETTING, wanted.to_string())).wait()?;
        }
        Ok(before)
    }

    /// The channel of all events of one key.
    pub fn key_channel(database: u32, key: impl AsRef<[u8]>) -> Vec<u8> {
        [format!("__keyspace@{database}__:").as_bytes(), key.as_ref()].concat()
    }

    /// The channel of one event of all keys: `Events::event_channel(0, "expired")`.
    pub fn event_channel(database: u32, event: &str) -> String {
        format!("__keyevent@{database}__:{event}")
    }

    /// A pattern for the channels of all keys that match a pattern; of one database or of all.
    ///
    /// Of all databases, it matches keys that have `__:` and what is looked for further on, too: look at the key.
    pub fn key_pattern(database: Option<u32>, keys: impl AsRef<[u8]>) -> Vec<u8> {
        [format!("__keyspace@{}__:", number(database)).as_bytes(), keys.as_ref()].concat()
    }

    /// A pattern for the channels of all events that match a pattern, such as `*` or `hash*`; of one database or of all.
    pub fn event_pattern(database: Option<u32>, events: &str) -> String {
        format!("__keyevent@{}__:{events}", number(database))
    }
}

fn number(database: Option<u32>) -> String {
    database.map_or_else(|| "*".to_owned(), |database| database.to_string())
}

/// The flags as the server takes them.
impl fmt::Display for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let others = (0..128).filter(|flag| !ORDER.contains(flag));
        let flags = ORDER.iter().copied().chain(others).filter(|flag| self.has(*flag));
        f.pad(&flags.map(char::from).collect::<String>())
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Events({:?})", self.to_string())
    }
}

/// From flags as a server shows them. Those that are not known are kept.
impl FromStr for Events {
    type Err = Error;

    fn from_str(flags: &str) -> Result<Self> {
        if !flags.is_ascii() {
            return Err(Error::Argument("flags of events are ASCII"));
        }
        Ok(flags.bytes().fold(Events::new(), Events::with))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read() {
        let event =
            |database, key: &[u8], event: &str| Some(KeyEvent { database, key: key.to_vec(), event: event.to_owned() });
        assert_eq!(KeyEvent::parse(b"__keyspace@0__:a__:b", b"set"), event(0, b"a__:b", "set"));
        assert_eq!(KeyEvent::parse(b"__keyspace@15__:", b"del"), event(15, b"", "del"));
        assert_eq!(KeyEvent::parse(b"__keyspace@0__:\xff\0\r\n", b"x"), event(0, b"\xff\0\r\n", "x"));
        assert_eq!(
            KeyEvent::parse(b"__keyevent@4294967295__:rename_to", b"\xff"),
            event(u32::MAX, b"\xff", "rename_to")
        );
        assert_eq!(KeyEvent::parse(b"__keyevent@0__:", b""), event(0, b"", ""));
    }

    #[test]
    fn what_is_no_notification_is_none() {
        for channel in [
            &b""[..],
            b"news",
            b"__keyspace@",
            b"__keyspace@0",
            b"__keyspace@0_:k",
            b"__keyspace@__:k",
            b"__keyspace@-1__:k",
            b"__keyspace@4294967296__:k",
            b"__keyspace@00__:k",
            b"x__keyspace@0__:k",
            b"__subkeyspace@0__:k",
            b"__keyevent@0__:\xff",
        ] {
            assert_eq!(KeyEvent::parse(channel, b"set"), None, "{}", channel.escape_ascii());
        }
        assert_eq!(KeyEvent::parse(b"__keyspace@0__:k", b"\xff"), None);
    }

    #[test]
    fn flags_are_written_and_read() {
        let all = Events::new().keyspace().keyevent().generic().strings().lists().sets().hashes().sorted_sets();
        let all = all.expired().evicted().streams().modules().misses().new_keys().overwritten().type_changed().all();
        assert_eq!(all.to_string(), "KEg$lshzxetdmnocA");
        assert_eq!("AocnmdtexzhslgEK$$".parse::<Events>().unwrap(), all);
        assert_eq!("Sr~KA".parse::<Events>().unwrap().to_string(), "KASr~");
        assert_eq!(format!("{:?}", Events::new().all()), "Events(\"A\")");
        assert!("Kö".parse::<Events>().is_err());
    }

    #[test]
    fn channels_and_patterns() {
        assert_eq!(Events::key_channel(1, b"\xff"), b"__keyspace@1__:\xff");
        assert_eq!(Events::event_channel(1, "del"), "__keyevent@1__:del");
        assert_eq!(Events::key_pattern(None, "a*"), b"__keyspace@*__:a*");
        assert_eq!(Events::event_pattern(Some(2), "*"), "__keyevent@2__:*");
    }
}
