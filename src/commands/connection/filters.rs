//! Which clients to list or to disconnect.

use std::time::Duration;

use crate::args::{Arg, ArgWriter, ToArg, ToArgs};
use crate::commands::parts::seconds;
use crate::error::Error;

/// What a client is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClientType {
    /// Ordinary clients, those that monitor included.
    Normal,
    /// A primary, as its replicas see it.
    Master,
    /// Replicas.
    Replica,
    /// Clients with subscriptions.
    PubSub,
}

impl ClientType {
    fn word(self) -> &'static str {
        match self {
            ClientType::Normal => "NORMAL",
            ClientType::Master => "MASTER",
            ClientType::Replica => "REPLICA",
            ClientType::PubSub => "PUBSUB",
        }
    }
}

impl ToArg for ClientType {
    fn to_arg(&self) -> Arg<'_> {
        Arg::from(self.word())
    }
    const DIRECT: bool = true;
}

/// Conditions in the order in which they were first made, each a word and its values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Conditions(Vec<(&'static str, Vec<String>)>);

impl Conditions {
    fn values(&mut self, word: &'static str) -> &mut Vec<String> {
        let at = self.0.iter().position(|(other, _)| *other == word).unwrap_or_else(|| {
            self.0.push((word, Vec::new()));
            self.0.len() - 1
        });
        &mut self.0[at].1
    }

    fn set(&mut self, word: &'static str, value: impl ToString) {
        *self.values(word) = vec![value.to_string()];
    }

    fn add(&mut self, word: &'static str, values: impl IntoIterator<Item = i64>) {
        self.values(word).extend(values.into_iter().map(|id| id.to_string()));
    }

    /// Whether a condition has no values: without it, the others would hit clients that nobody has asked for.
    fn lacks_values(&self) -> bool {
        self.0.iter().any(|(word, values)| values.is_empty() && *word != "NOT-ID")
    }
}

macro_rules! filters {
    ($(
        $(#[$doc:meta])*
        $name:ident { #[doc = $all:literal] new, #[doc = $since:literal] }
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[must_use]
        pub struct $name(Conditions);

        impl $name {
            #[doc = $all]
            pub fn new() -> Self {
                Self::default()
            }

            /// Clients of this type.
            pub fn client_type(mut self, client_type: ClientType) -> Self {
                self.0.set("TYPE", client_type.word());
                self
            }

            /// Clients with these IDs, in addition to those already given. Several since Valkey 8.1 for CLIENT KILL, and
            /// for CLIENT LIST since 6.2.
            pub fn ids(mut self, ids: impl IntoIterator<Item = i64>) -> Self {
                self.0.add("ID", ids);
                self
            }

            /// Clients that are logged in as this user.
            #[doc = $since]
            pub fn user(mut self, user: impl Into<String>) -> Self {
                self.0.set("USER", user.into());
                self
            }

            /// The client with this address, `ip:port` or the path of a unix socket.
            #[doc = $since]
            pub fn address(mut self, address: impl Into<String>) -> Self {
                self.0.set("ADDR", address.into());
                self
            }

            /// Clients that came to this address of the server's, `ip:port`.
            #[doc = $since]
            pub fn local_address(mut self, address: impl Into<String>) -> Self {
                self.0.set("LADDR", address.into());
                self
            }

            /// Whether the connection that asks is left out.
            #[doc = $since]
            pub fn skip_me(mut self, skip: bool) -> Self {
                self.0.set("SKIPME", if skip { "YES" } else { "NO" });
                self
            }

            /// Clients that have been connected for at least this time, rounded up to seconds.
            #[doc = $since]
            pub fn max_age(mut self, age: Duration) -> Self {
                self.0.set("MAXAGE", seconds(age));
                self
            }

            /// Clients that have done nothing for at least this time, rounded up to seconds. Since Valkey 9.0.
            pub fn idle(mut self, time: Duration) -> Self {
                self.0.set("IDLE", seconds(time));
                self
            }

            /// Clients that have all of these [flags](super::ClientInfo::flags). Since Valkey 9.0.
            pub fn flags(mut self, flags: impl Into<String>) -> Self {
                self.0.set("FLAGS", flags.into());
                self
            }

            /// Clients with this name. Since Valkey 9.0.
            pub fn name(mut self, name: impl Into<String>) -> Self {
                self.0.set("NAME", name.into());
                self
            }

            /// Clients with this library. Since Valkey 9.0.
            pub fn lib_name(mut self, name: impl Into<String>) -> Self {
                self.0.set("LIB-NAME", name.into());
                self
            }

            /// Clients with this version of their library. Since Valkey 9.0.
            pub fn lib_ver(mut self, version: impl Into<String>) -> Self {
                self.0.set("LIB-VER", version.into());
                self
            }

            /// Clients that are on this database. Since Valkey 9.0.
            pub fn db(mut self, database: u32) -> Self {
                self.0.set("DB", database);
                self
            }

            /// Clients with all of these [capabilities](super::ClientInfo::capabilities). Since Valkey 9.0.
            pub fn capabilities(mut self, letters: impl Into<String>) -> Self {
                self.0.set("CAPA", letters.into());
                self
            }

            /// Clients with this IP address, from whichever port. Since Valkey 9.0.
            pub fn ip(mut self, ip: impl Into<String>) -> Self {
                self.0.set("IP", ip.into());
                self
            }

            /// Not clients of this type. Since Valkey 9.0.
            pub fn not_type(mut self, client_type: ClientType) -> Self {
                self.0.set("NOT-TYPE", client_type.word());
                self
            }

            /// Not clients with these IDs, in addition to those already given. Since Valkey 9.0.
            pub fn not_ids(mut self, ids: impl IntoIterator<Item = i64>) -> Self {
                self.0.add("NOT-ID", ids);
                self
            }

            /// Not clients that are logged in as this user. Since Valkey 9.0.
            pub fn not_user(mut self, user: impl Into<String>) -> Self {
                self.0.set("NOT-USER", user.into());
                self
            }

            /// Not the client with this address. Since Valkey 9.0.
            pub fn not_address(mut self, address: impl Into<String>) -> Self {
                self.0.set("NOT-ADDR", address.into());
                self
            }

            /// Not clients that came to this address of the server's. Since Valkey 9.0.
            pub fn not_local_address(mut self, address: impl Into<String>) -> Self {
                self.0.set("NOT-LADDR", address.into());
                self
            }

            /// Not clients that have all of these flags. Since Valkey 9.0.
            pub fn not_flags(mut self, flags: impl Into<String>) -> Self {
                self.0.set("NOT-FLAGS", flags.into());
                self
            }

            /// Not clients with this name. Since Valkey 9.0.
            pub fn not_name(mut self, name: impl Into<String>) -> Self {
                self.0.set("NOT-NAME", name.into());
                self
            }

            /// Not clients with this library. Since Valkey 9.0.
            pub fn not_lib_name(mut self, name: impl Into<String>) -> Self {
                self.0.set("NOT-LIB-NAME", name.into());
                self
            }

            /// Not clients with this version of their library. Since Valkey 9.0.
            pub fn not_lib_ver(mut self, version: impl Into<String>) -> Self {
                self.0.set("NOT-LIB-VER", version.into());
                self
            }

            /// Not clients that are on this database. Since Valkey 9.0.
            pub fn not_db(mut self, database: u32) -> Self {
                self.0.set("NOT-DB", database);
                self
            }

            /// Not clients with all of these capabilities. Since Valkey 9.0.
            pub fn not_capabilities(mut self, letters: impl Into<String>) -> Self {
                self.0.set("NOT-CAPA", letters.into());
                self
            }

            /// Not clients with this IP address. Since Valkey 9.0.
            pub fn not_ip(mut self, ip: impl Into<String>) -> Self {
                self.0.set("NOT-IP", ip.into());
                self
            }
        }

        impl ToArgs for $name {
            fn write_args(&self, out: &mut ArgWriter<'_>) {
                if self.0.lacks_values() {
                    return out.fail(Error::Argument("an empty list of client IDs"));
                }
                for (word, values) in self.0.0.iter().filter(|(_, values)| !values.is_empty()) {
                    out.arg(word);
                    values.iter().for_each(|value| out.arg(value));
                }
            }
            // Since it may fail.
            const DIRECT: bool = false;
        }
    )*};
}

filters! {
    /// Which clients to list: those that meet all of these conditions. See
    /// [`client_list_with`](super::ConnectionCommands::client_list_with).
    ClientListOptions {
        /// All of them.
        new,
        /// Since Valkey 8.1.
    }

    /// Which clients to disconnect: those that meet all of these conditions. See
    /// [`client_kill_with`](super::ConnectionCommands::client_kill_with).
    ///
    /// The connection that asks is spared unless [`skip_me`](ClientKillFilter::skip_me) says otherwise.
    ClientKillFilter {
        /// No conditions yet.
        new,
        /// Since 2.8.12; `local_address` since 6.2, `max_age` since Redis 7.4 and Valkey 8.0.
    }
}

impl ClientKillFilter {
    /// The client with this ID, in place of those already given.
    pub fn id(mut self, id: i64) -> Self {
        self.0.set("ID", id);
        self
    }
}
