//! Issuing commands on a cluster.

use std::ops::Range;

use super::bulk::ClusterMultiBulk;
use super::core::{Core, Scratch};
use super::node::flag;
use super::reply::ClusterReply;
use super::spread::{Route, route};
use super::ticket::BUSY;
use super::{Cluster, slot_of};
use crate::args::{ArgWriter, Arguments, Block, Command, ToArgs};
use crate::connection::{Effect, Encoded, unwritten};
use crate::error::{Error, Result};
use crate::execute::{Execute, Lasting};
use crate::resp::encode;
use crate::values::FromReply;

/// A command that is encoded, and where its keys are.
pub(in crate::cluster) struct Issued {
    pub(in crate::cluster) bytes: Vec<u8>,
    pub(in crate::cluster) keys: Vec<Range<usize>>,
    pub(in crate::cluster) block: Option<Block>,
}

/// Room for commands that is not given back.
const ROOM: usize = 64 * 1024;

impl Issued {
    /// Encodes a command of a method, whose arguments may be anybody's.
    pub(in crate::cluster) fn of<A: Arguments>(command: &Command<A>) -> Result<Issued> {
        let (Encoded { bytes, block }, mut keys) = Encoded::with_keys(command)?;
        if keys.is_empty() {
            keys.extend(stand_in(&bytes));
        }
        Ok(Issued { bytes, keys, block })
    }
}

/// What says where a command goes that has no keys, and is no key itself.
pub(in crate::cluster) fn stand_in(bytes: &[u8]) -> Option<Range<usize>> {
    let header = memchr::memchr(b'\n', bytes)? + 1;
    let mut words = encode::bulk_ranges(bytes, header);
    let name = bytes.get(words.next()?)?;
    let routed = name.eq_ignore_ascii_case(b"SPUBLISH") || name.eq_ignore_ascii_case(b"CLUSTERSCAN");
    if routed { words.next() } else { None }
}

impl Core {
    /// Issues a command of this crate's own types.
    #[inline(always)]
    pub(in crate::cluster) fn issue_command<A: Arguments>(&mut self, command: &Command<A>, flags: u8) -> u64 {
        let mut scratch = self.scratch.take().unwrap_or_default();
        let Scratch { bytes, keys } = &mut *scratch;
        keys.clear();
        let mut out = ArgWriter::noting_keys(bytes, 0, keys);
        out.command(1 + command.arguments().count(), command.name());
        let ticket = match (command.arguments().write(&mut out), out.end()) {
            (Ok(()), Some(end)) => self.dispatch(command.name(), &bytes[..end], keys, flags, command.block()),
            (Err(why), _) => self.born_failed(unwritten(why)),
            (Ok(()), None) => {
                let fault = out.fault();
                self.born_failed(fault.error())
            }
        };
        if scratch.bytes.len() > ROOM {
            scratch.bytes = Vec::new();
        }
        self.scratch = Some(scratch);
        ticket
    }

    pub(in crate::cluster) fn issue_ready(&mut self, issued: Result<Issued>, flags: u8) -> u64 {
        match issued {
            Ok(Issued { bytes, keys, block }) => {
                let name = encode::arguments(&bytes).next().map(String::from_utf8_lossy).unwrap_or_default();
                self.dispatch(&name, &bytes, &keys, flags, block)
            }
            Err(error) => self.born_failed(error),
        }
    }

    /// Sends an encoded command where its keys say.
    #[inline(never)]
    fn dispatch(
        &mut self,
        name: &str,
        bytes: &[u8],
        keys: &[Range<usize>],
        mut flags: u8,
        block: Option<Block>,
    ) -> u64 {
        if !self.known.reading.is_empty() && self.only_reads(bytes) {
            flags |= flag::READ;
        }
        if let [key] = keys
            && let Some(key) = bytes.get(key.clone())
        {
            return self.issue_inlined(slot_of(key), bytes, flags, block);
        }
        // Those of a command that was just encoded are within it.
        let words = keys.iter().map(|key| bytes.get(key.clone()).unwrap_or_default());
        match route(name.as_bytes(), words) {
            Ok(Route::Slot(slot)) => self.issue(slot, bytes, flags, block),
            Ok(Route::Keyless) => match stand_in(bytes) {
                Some(word) => self.issue(slot_of(&bytes[word]), bytes, flags & !flag::READ, block),
                None => self.issue_keyless(bytes, flags, block),
            },
            Ok(Route::Divided(divided)) => self.issue_divided(bytes, divided, flags),
            Err(error) => self.born_failed(error),
        }
    }
}

impl Cluster {
    #[inline(always)]
    pub(super) fn issue<A: Arguments>(&self, command: &Command<A>, flags: u8) -> u64 {
        if !A::DIRECT {
            // What the arguments do is their author's: it is done before the cluster is touched.
            let issued = Issued::of(command);
            return self.with(|core| core.issue_ready(issued, flags)).unwrap_or(BUSY);
        }
        match self.core.try_borrow_mut() {
            Ok(mut core) => core.issue_command(command, flags),
            Err(_) => BUSY,
        }
    }

    /// Encodes a command by its name, and finds its keys.
    pub(in crate::cluster) fn encode_named(&self, name: &str, arguments: impl ToArgs) -> Result<Issued> {
        let Encoded { bytes, .. } = Encoded::named(name, arguments)?;
        let keys = self.with(|core| core.find_keys(&bytes))??;
        Ok(Issued { bytes, keys, block: None })
    }

    pub(super) fn issue_named(&self, name: &str, arguments: impl ToArgs, flags: u8) -> u64 {
        let encoded = Encoded::named(name, arguments);
        let issued = self.with(|core| {
            let bytes = match encoded {
                Ok(encoded) => encoded.bytes,
                Err(error) => return core.born_failed(error),
            };
            let block = match Encoded::effect_of(&bytes) {
                Effect::Refused(why) => return core.born_failed(Error::Refused(why)),
                Effect::Blocking(block) => Some(block),
                // Those that change the connection are refused by their kind.
                _ => None,
            };
            match core.find_keys(&bytes) {
                Ok(keys) => core.issue_ready(Ok(Issued { bytes, keys, block }), flags),
                Err(error) => core.born_failed(error),
            }
        });
        issued.unwrap_or(BUSY)
    }

    /// Issues a command by its name and arguments: see [`Execute::command`]. Where it goes is asked of the servers the first
    /// time, if it is not known here, which takes a round trip.
    pub fn command<T: FromReply>(&self, name: &str, arguments: impl ToArgs) -> ClusterReply<'_, T> {
        Execute::command(self, name, arguments)
    }
}

impl<'c> Execute for &'c Cluster {
    type Reply<T: FromReply> = ClusterReply<'c, T>;
    type MultiBulk<T: FromReply> = ClusterMultiBulk<'c, T>;

    fn command<T: FromReply>(self, name: &str, arguments: impl ToArgs) -> ClusterReply<'c, T> {
        ClusterReply::new(self, self.issue_named(name, arguments, 0))
    }

    #[inline(always)]
    fn execute<T: FromReply, A: Arguments>(self, command: Command<A>) -> ClusterReply<'c, T> {
        ClusterReply::new(self, self.issue(&command, 0))
    }

    #[inline(always)]
    fn execute_multi<T: FromReply, A: Arguments>(self, command: Command<A>) -> ClusterMultiBulk<'c, T> {
        ClusterMultiBulk::new(self, self.issue(&command, 0))
    }
}

impl<'c> Lasting for &'c Cluster {
    fn command_again<T: FromReply>(self, name: &str, arguments: impl ToArgs) -> ClusterReply<'c, T> {
        ClusterReply::new(self, self.issue_named(name, arguments, flag::IDEMPOTENT))
    }

    fn execute_again<T: FromReply, A: Arguments>(self, command: Command<A>) -> ClusterReply<'c, T> {
        ClusterReply::new(self, self.issue(&command, flag::IDEMPOTENT))
    }

    fn execute_multi_again<T: FromReply, A: Arguments>(self, command: Command<A>) -> ClusterMultiBulk<'c, T> {
        ClusterMultiBulk::new(self, self.issue(&command, flag::IDEMPOTENT))
    }
}
