//! Primaries and replicas, and the end of a server.

use std::time::Duration;

use crate::args::ToArgs;
use crate::commands::parts::{Flag, Named, parts_to_args, timeout_millis};
use crate::commands::record::{elements, fields, next};
use crate::error::{Error, Result};
use crate::resp::Frame;
use crate::values::FromReply;

/// What a server is in its replication: the reply of [`role`](super::ServerCommands::role).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Role {
    /// It takes writes, and may have replicas.
    Master {
        /// How many bytes it has sent to replicas, or would have.
        offset: i64,
        /// Its replicas.
        replicas: Vec<RoleReplica>,
    },
    /// It follows another server.
    Replica {
        /// The host of the server that it follows.
        host: String,
        /// The port of that server.
        port: u16,
        /// `connect`, `connecting`, `handshake`, `sync` or `connected`.
        state: String,
        /// How many bytes it has got; -1 if none yet.
        offset: i64,
    },
    /// It watches others.
    Sentinel {
        /// The names of those that it watches.
        masters: Vec<String>,
    },
}

impl FromReply for Role {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        const EXPECTED: &str = "a role";
        let mut items = elements(&frame, EXPECTED)?;
        match items.next().and_then(|role| role.as_bytes()) {
            Some(b"master") => Ok(Role::Master { offset: next(&mut items)?, replicas: next(&mut items)? }),
            Some(b"slave" | b"replica") => Ok(Role::Replica {
                host: next(&mut items)?,
                port: next(&mut items)?,
                state: next(&mut items)?,
                offset: next(&mut items)?,
            }),
            Some(b"sentinel") => Ok(Role::Sentinel { masters: next(&mut items)? }),
            _ => Err(Error::unexpected(EXPECTED, &frame)),
        }
    }
}

/// A replica, as the server that it follows sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct RoleReplica {
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How many bytes it has confirmed.
    pub offset: i64,
}

fields!(RoleReplica);

impl FromReply for RoleReplica {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let mut items = elements(&frame, "a replica")?;
        Ok(RoleReplica { host: next(&mut items)?, port: next(&mut items)?, offset: next(&mut items)? })
    }
}

/// How the server gives its role to a replica: see [`failover_with`](super::ServerCommands::failover_with).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct FailoverOptions {
    to: Option<(String, u16)>,
    force: bool,
    timeout: Option<Duration>,
}

impl FailoverOptions {
    /// To any replica, and without end if none catches up.
    pub fn new() -> Self {
        FailoverOptions::default()
    }

    /// Only to this replica (TO).
    pub fn to(mut self, host: impl Into<String>, port: u16) -> Self {
        self.to = Some((host.into(), port));
        self
    }

    /// Whether or not the replica has caught up when the time is up (FORCE); needs [`to`](Self::to) and
    /// [`timeout`](Self::timeout).
    pub fn force(mut self) -> Self {
        self.force = true;
        self
    }

    /// Gives up after this time (TIMEOUT), rounded up to milliseconds and at least one.
    pub fn timeout(mut self, time: Duration) -> Self {
        self.timeout = Some(time);
        self
    }

    fn parts(&self) -> impl ToArgs {
        let timeout = self.timeout.map(|time| timeout_millis(Some(time)));
        let to = self.to.as_ref().map(|(host, port)| (host, *port));
        (Named("TO", to), Flag("FORCE", self.force), Named("TIMEOUT", timeout))
    }
}

/// How the server is to end: see [`shutdown_with`](crate::commands::SessionCommands::shutdown_with).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct ShutdownOptions {
    save: Option<bool>,
    now: bool,
    force: bool,
    safe: bool,
    failover: bool,
}

impl ShutdownOptions {
    /// As its settings say: databases are saved if it saves them at times.
    pub fn new() -> Self {
        ShutdownOptions::default()
    }

    /// Whether the databases are saved first (SAVE, NOSAVE).
    pub fn save(mut self, save: bool) -> Self {
        self.save = Some(save);
        self
    }

    /// Does not wait for replicas that lag behind (NOW). Since 7.0.
    pub fn now(mut self) -> Self {
        self.now = true;
        self
    }

    /// Even if saving fails (FORCE). Since 7.0.
    pub fn force(mut self) -> Self {
        self.force = true;
        self
    }

    /// Not if that loses slots of a cluster (SAFE). Since Valkey 9.0.
    pub fn safe(mut self) -> Self {
        self.safe = true;
        self
    }

    /// Gives the role to a replica first (FAILOVER). Since Valkey 9.0.
    pub fn failover(mut self) -> Self {
        self.failover = true;
        self
    }

    fn parts(&self) -> impl ToArgs {
        (
            self.save.map(|save| if save { "SAVE" } else { "NOSAVE" }),
            Flag("NOW", self.now),
            Flag("FORCE", self.force),
            Flag("SAFE", self.safe),
            Flag("FAILOVER", self.failover),
        )
    }
}

parts_to_args!(FailoverOptions, ShutdownOptions);
