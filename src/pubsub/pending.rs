//! A command whose PING has not been answered, and what belongs to it of all that comes.

use std::collections::HashSet;
use std::io::Write as _;

use super::ticket::Promise;
use crate::args::Gathered;
use crate::connection::wire::Kind;
use crate::error::{Error, Result, ServerError, UnexpectedReply};
use crate::resp::encode;

/// With more names than this they are not looked for one by one.
const FEW: usize = 64;

#[derive(Debug)]
pub(super) struct Pending {
    /// What its PING says.
    pub(super) token: u64,
    pub(super) kind: Kind,
    pub(super) subscribe: bool,
    /// The command alone. Empty when there is but the PING.
    pub(super) command: Vec<u8>,
    /// How many names it has. None: all.
    pub(super) names: usize,
    pub(super) acknowledged: usize,
    pub(super) count: u64,
    pub(super) error: Option<ServerError>,
    /// There is none for what is subscribed to again.
    pub(super) promise: Option<Promise>,
    /// It has been on its way to a server.
    pub(super) sent: bool,
    /// How many connections that were of use have been lost with it on its way.
    pub(super) losses: u8,
    /// The names, where they may be asked for often.
    many: Option<HashSet<Vec<u8>>>,
}

impl Pending {
    pub(super) fn new(kind: Kind, subscribe: bool, names: &Gathered, promise: Option<Promise>) -> Self {
        let word = kind.command(subscribe);
        let mut command = Vec::with_capacity(names.bytes.len() + 40);
        // Writing to a vector does not fail.
        let _ = write!(command, "*{}\r\n${}\r\n{word}\r\n", names.count + 1, word.len());
        command.extend_from_slice(&names.bytes);
        let mut pending = Pending { kind, subscribe, command, names: names.count, promise, ..Pending::ping() };
        if kind == Kind::Shard && !subscribe && names.count > FEW {
            pending.many = Some(pending.arguments().map(<[u8]>::to_vec).collect());
        }
        pending
    }

    /// No command at all, only its PING: what a connection with no subscriptions shows its use by.
    pub(super) fn ping() -> Self {
        Pending {
            token: 0,
            kind: Kind::Channel,
            subscribe: true,
            command: Vec::new(),
            names: 0,
            acknowledged: 0,
            count: 0,
            error: None,
            promise: None,
            sent: false,
            losses: 0,
            many: None,
        }
    }

    fn is_ping(&self) -> bool {
        self.command.is_empty()
    }

    pub(super) fn arguments(&self) -> impl Iterator<Item = &[u8]> {
        encode::arguments(&self.command).skip(1)
    }

    /// Whether an acknowledgement is for this command.
    pub(super) fn takes(&self, kind: Kind, subscribed: bool, name: Option<&[u8]>) -> bool {
        if self.kind != kind || self.subscribe != subscribed {
            return false;
        }
        if subscribed {
            return self.acknowledged < self.names;
        }
        // Only these come unasked as well.
        kind != Kind::Shard || self.names == 0 || name.is_none_or(|name| self.has(name))
    }

    fn has(&self, name: &[u8]) -> bool {
        match &self.many {
            Some(many) => many.contains(name),
            None => self.arguments().any(|own| own == name),
        }
    }

    /// Whether an error is that of the command. Its own outcome, acknowledgements or one error, comes before that of its PING.
    pub(super) fn takes_error(&self, error: &ServerError) -> bool {
        if self.error.is_some() || self.is_ping() {
            return false;
        }
        // The acknowledgements may have been those that come unasked when a slot moves.
        let moved = self.kind == Kind::Shard
            && !self.subscribe
            && (self.acknowledged < self.names || is_of_a_slot(error.code()));
        self.acknowledged == 0 || moved
    }

    /// What has come of it.
    pub(super) fn outcome(&self) -> Result<u64> {
        match &self.error {
            // All of it has ended before the command came to it.
            Some(error) if self.acknowledged > 0 && self.acknowledged >= self.names && is_of_a_slot(error.code()) => {
                Ok(self.count)
            }
            Some(error) => Err(error.clone().into()),
            None if self.acknowledged == 0 && !self.is_ping() => {
                Err(UnexpectedReply::new("an acknowledgement", "nothing").into())
            }
            None => Ok(self.count),
        }
    }
}

/// Whether an error is one that only a command about shard channels meets with, and never a PING.
fn is_of_a_slot(code: Option<&str>) -> bool {
    matches!(code, Some("MOVED" | "CLUSTERDOWN" | "TRYAGAIN" | "CROSSSLOT"))
}

/// Whether the same command may be granted in a moment.
pub(super) fn is_transient(error: &Error) -> bool {
    matches!(error.code(), Some("BUSY" | "LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN"))
}
