//! What the server says about its clients, taken apart.

use std::collections::HashMap;
use std::ops::Deref;
use std::time::Duration;

use crate::commands::record::{record, whole_text};
use crate::error::Result;
use crate::resp::Frame;
use crate::values::FromReply;

/// Fields `name=value`, apart by spaces. What has no `=` belongs to the value before it: the path of a socket may have
/// spaces.
fn split(line: &str) -> Vec<(&str, String)> {
    let mut fields: Vec<(&str, String)> = Vec::new();
    for word in line.split(' ') {
        match (word.split_once('='), fields.last_mut()) {
            (Some((name, value)), _) => fields.push((name, value.to_owned())),
            (None, Some((_, value))) => {
                value.push(' ');
                value.push_str(word);
            }
            (None, None) => {}
        }
    }
    fields
}

/// How a field is read: what it can't be read as, it is by default.
trait Field: Sized {
    fn read(text: String) -> Self;
}

impl Field for String {
    fn read(text: String) -> Self {
        text
    }
}

impl Field for Option<String> {
    fn read(text: String) -> Self {
        Some(text)
    }
}

/// Whole seconds.
impl Field for Duration {
    fn read(text: String) -> Self {
        Duration::from_secs(Field::read(text))
    }
}

macro_rules! number_fields {
    ($($type:ty),*) => {$(
        impl Field for $type {
            fn read(text: String) -> Self {
                text.parse().unwrap_or_default()
            }
        }
        impl Field for Option<$type> {
            fn read(text: String) -> Self {
                text.parse().ok()
            }
        }
    )*};
}

number_fields!(u32, i64, u64);

macro_rules! client_info {
    ($($(#[$doc:meta])* $wire:literal $field:ident: $type:ty,)*) => {
        /// What the server knows about a connection.
        ///
        /// Fields that came with later versions are nothing where the server does not send them.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct ClientInfo {
            $($(#[$doc])* pub $field: $type,)*
            /// What else the server says, by name: the fields that this version of the crate does not know.
            pub other: HashMap<String, String>,
            /// The line as it came: fields `name=value`, apart by spaces.
            pub text: String,
        }

        impl ClientInfo {
            fn new(line: &str) -> Self {
                let mut client = ClientInfo { text: line.to_owned(), ..ClientInfo::default() };
                for (name, value) in split(line) {
                    match name {
                        $($wire => client.$field = Field::read(value),)*
                        _ => drop(client.other.insert(name.to_owned(), value)),
                    }
                }
                client
            }
        }
    };
}

client_info! {
    /// Its ID, which the server gives to no other.
    "id" id: i64,
    /// Its address, `ip:port` or the path of a unix socket and `:0`.
    "addr" address: String,
    /// The address of the server's that it came to. Since 6.2.
    "laddr" local_address: Option<String>,
    /// Its file descriptor in the server.
    "fd" fd: i64,
    /// Its name; empty if it has none.
    "name" name: String,
    /// How long it has been connected, in whole seconds.
    "age" age: Duration,
    /// How long it has done nothing, in whole seconds.
    "idle" idle: Duration,
    /// A letter for each thing that is true of it: `N` is nothing, `b` blocked, `x` in a transaction, `S` a replica, `M` a
    /// primary, `P` subscribed, `t` tracking, `e` not evicted, `T` does not touch, and others.
    "flags" flags: String,
    /// What it said that it can do, a letter for each. Since Valkey 8.0.
    "capa" capabilities: Option<String>,
    /// The database that it is on.
    "db" db: u32,
    /// How many channels it is subscribed to.
    "sub" sub: u64,
    /// How many patterns it is subscribed to.
    "psub" psub: u64,
    /// How many shard channels it is subscribed to. Since 7.0.3.
    "ssub" ssub: Option<u64>,
    /// How many commands its open transaction has; -1 if there is none.
    "multi" multi: i64,
    /// How many keys it watches. Since Redis 7.4 and Valkey 8.0.
    "watch" watch: Option<u64>,
    /// How many bytes of commands have come and are not read.
    "qbuf" qbuf: u64,
    /// How many bytes there is room for beside them.
    "qbuf-free" qbuf_free: u64,
    /// How many bytes the command takes that is incomplete. Since 6.2.
    "argv-mem" argv_mem: Option<u64>,
    /// How many bytes the commands of the open transaction take. Since 7.0.
    "multi-mem" multi_mem: Option<u64>,
    /// The size of the buffer for replies. Since 7.0.
    "rbs" rbs: Option<u64>,
    /// The most that was lately in that buffer. Since 7.0.
    "rbp" rbp: Option<u64>,
    /// How many bytes of replies are in that buffer.
    "obl" obl: u64,
    /// How many pieces of replies wait for room in it.
    "oll" oll: u64,
    /// How many bytes those take.
    "omem" omem: u64,
    /// How many bytes the connection takes in all. Since 6.2.
    "tot-mem" tot_mem: Option<u64>,
    /// What the server waits for: `r` for commands, `w` for room to write.
    "events" events: String,
    /// The command that ran last, subcommands as `client|list`.
    "cmd" cmd: String,
    /// Its user. Since 6.0.
    "user" user: Option<String>,
    /// The ID of the client that gets its invalidation messages; -1 if there is none. Since 6.2.
    "redir" redir: Option<i64>,
    /// The version of its protocol. Since 7.0.
    "resp" resp: Option<u32>,
    /// The name of its library. Since 7.2.
    "lib-name" lib_name: Option<String>,
    /// The version of its library. Since 7.2.
    "lib-ver" lib_ver: Option<String>,
    /// The number of its thread. Since Redis 8.0.
    "io-thread" io_thread: Option<u64>,
    /// How many bytes have come from it. Since Redis 8.0 and Valkey 8.1.
    "tot-net-in" tot_net_in: Option<u64>,
    /// How many bytes have gone to it. Since Redis 8.0 and Valkey 8.1.
    "tot-net-out" tot_net_out: Option<u64>,
    /// How many commands it has issued. Since Redis 8.0 and Valkey 8.1.
    "tot-cmds" tot_cmds: Option<u64>,
}

impl ClientInfo {
    /// Whether one of the [`flags`](ClientInfo::flags) is there.
    #[must_use]
    pub fn has_flag(&self, flag: char) -> bool {
        self.flags.contains(flag)
    }
}

impl FromReply for ClientInfo {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        whole_text(&frame, "a line about a client").map(|line| ClientInfo::new(line.trim_end()))
    }
}

/// What the server knows about some of its connections: the reply of
/// [`client_list`](super::ConnectionCommands::client_list). It is a slice of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientList(Vec<ClientInfo>);

impl Deref for ClientList {
    type Target = [ClientInfo];
    fn deref(&self) -> &[ClientInfo] {
        &self.0
    }
}

impl IntoIterator for ClientList {
    type Item = ClientInfo;
    type IntoIter = std::vec::IntoIter<ClientInfo>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a ClientList {
    type Item = &'a ClientInfo;
    type IntoIter = std::slice::Iter<'a, ClientInfo>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl FromReply for ClientList {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let text = whole_text(&frame, "lines about clients")?;
        Ok(ClientList(text.lines().filter(|line| !line.is_empty()).map(ClientInfo::new).collect()))
    }
}

record! {
    /// How the server tracks what a connection has read: the reply of
    /// [`client_trackinginfo`](super::ConnectionCommands::client_trackinginfo).
    TrackingInfo: "how a connection is tracked" {
        /// `off` or `on`, `bcast`, `optin`, `caching-yes` and others.
        "flags" flags: Vec<String>,
        /// The ID of the client that gets the invalidation messages; 0 if it is this one, -1 if there is none.
        "redirect" redirect: i64,
        /// The prefixes that are tracked for all clients.
        "prefixes" prefixes: Vec<Vec<u8>>,
    }
}

impl TrackingInfo {
    /// Whether the connection is tracked.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.flags.iter().any(|flag| flag == "on")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_apart() {
        let line =
            "id=3 addr=/tmp/a b.sock:0 laddr=/tmp/a b.sock:0 name= age=5 idle=x flags=xN multi=-1 new=y= lib-name=";
        let client = ClientInfo::new(line);
        assert_eq!((client.id, client.address.as_str(), client.name.as_str()), (3, "/tmp/a b.sock:0", ""));
        assert_eq!(client.local_address.as_deref(), Some("/tmp/a b.sock:0"));
        assert_eq!((client.age, client.idle), (Duration::from_secs(5), Duration::ZERO));
        assert!(client.has_flag('x') && !client.has_flag('b'));
        assert_eq!((client.multi, client.watch, client.lib_ver.clone()), (-1, None, None));
        assert_eq!(client.lib_name.as_deref(), Some(""));
        assert_eq!(client.other, HashMap::from([("new".into(), "y=".into())]));
        assert_eq!(client.text, line);
        assert_eq!(ClientInfo::new("").id, 0);
    }
}
