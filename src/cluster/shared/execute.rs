//! Issuing commands on a cluster that threads share.

use std::ops::Range;

use super::super::Issued;
use super::super::core::{Core, NO_OWNER};
use super::super::execute::stand_in;
use super::super::kinds::{Answer, Keys, Kind, Question, kind};
use super::super::node::flag;
use super::super::redirect::Address;
use super::super::slot::slot_of;
use super::super::spread::{Route, route};
use super::super::topology::Look;
use super::{SharedCluster, SharedClusterMultiBulk, SharedClusterReply};
use crate::args::{Arguments, Command, ToArgs};
use crate::connection::{Connection, Effect, Encoded};
use crate::error::{Error, Result};
use crate::execute::{Execute, Lasting};
use crate::idempotent::Idempotent;
use crate::resp::encode;
use crate::values::FromReply;

const BLOCKS: &str =
    "a blocking command would hold a connection for every thread: use a Cluster or a Connection of its own";

impl Core {
    /// The nodes that a command may go to.
    fn nodes_for(&mut self, issued: &Issued, flags: u8) -> Vec<u16> {
        let words = encode::arguments(&issued.bytes).next().unwrap_or_default();
        let keys = || issued.keys.iter().map(|key| issued.bytes.get(key.clone()).unwrap_or_default());
        let reads = flags & flag::READ != 0 || self.only_reads(&issued.bytes);
        let owner = |core: &Core, slot: u16| core.slots[usize::from(slot)];
        match route(words, keys()) {
            Ok(Route::Slot(slot)) => {
                let primary = owner(self, slot);
                let replicas = self.replicas.get(&primary).filter(|_| reads).into_iter().flatten();
                replicas.copied().chain([primary]).collect()
            }
            Ok(Route::Divided(_)) => {
                let mut nodes: Vec<u16> = keys().map(|key| owner(self, slot_of(key))).collect();
                nodes.sort_unstable();
                nodes.dedup();
                nodes
            }
            Ok(Route::Keyless) => match stand_in(&issued.bytes) {
                Some(word) => vec![owner(self, slot_of(&issued.bytes[word]))],
                None => self.members(),
            },
            // It is not sent.
            Err(_) => Vec::new(),
        }
    }

    /// How to ask a server something without the books: by the connection that was of use the last time, or by looking for one.
    fn asker(&mut self) -> Look {
        let time = self.config.base.connect_timeout;
        self.look(time, time)
    }
}

/// Whether a command goes to several nodes.
fn is_for_all(issued: &Issued) -> bool {
    if !issued.keys.is_empty() {
        return false;
    }
    let mut words = encode::arguments(&issued.bytes).map(<[u8]>::to_ascii_uppercase);
    let name = words.next().unwrap_or_default();
    matches!(kind(&name, words.next().as_deref()), Some(Kind::Primaries(_) | Kind::Members(_)))
}

impl SharedCluster {
    /// Issues a command by its name and arguments: see [`Execute::command`]. Where it goes is asked of the servers the first
    /// time, if it is not known here, which takes a round trip.
    pub fn command<T: FromReply>(&self, name: &str, arguments: impl ToArgs) -> SharedClusterReply<'_, T> {
        Execute::command(self, name, arguments)
    }

    /// The same cluster, for commands that may be sent more than once: see [`Cluster::idempotent`](super::super::Cluster::idempotent).
    pub fn idempotent(&self) -> Idempotent<&SharedCluster> {
        Idempotent::new(self)
    }

    /// Issues a command, and if it is one of a batch, makes it that while nobody else has the lock.
    #[inline]
    pub(super) fn issue<A: Arguments>(&self, command: &Command<A>, flags: u8, batch: Option<u32>) -> u64 {
        if A::DIRECT {
            let mut visit = self.table.visit();
            let books = visit.wire();
            if books.is_at_ease() && books.core().has_room_in(batch) {
                return books.issue(|core| {
                    let ticket = core.issue_command(command, flags);
                    core.put_into(batch, ticket)
                });
            }
        }
        // What the arguments do is their author's: it is done without the lock.
        self.issue_ready(Issued::of(command), flags, batch)
    }

    fn issue_ready(&self, issued: Result<Issued>, flags: u8, batch: Option<u32>) -> u64 {
        let issued = issued.and_then(|issued| match issued.block {
            Some(_) => Err(Error::Refused(BLOCKS)),
            None => Ok(issued),
        });
        let issued = match issued {
            Ok(issued) => issued,
            Err(error) => return self.born_failed(error, batch),
        };
        if let Some(Err(error)) = batch.map(|id| self.wait_for_dropped(id)) {
            return self.born_failed(error, batch);
        }
        if is_for_all(&issued) {
            self.look_before_all();
        }
        match self.with_room(|core| core.nodes_for(&issued, flags)) {
            Ok(mut visit) => visit.wire().issue(|core| {
                let ticket = core.issue_ready(Ok(issued), flags);
                core.put_into(batch, ticket)
            }),
            Err(error) => self.born_failed(error, batch),
        }
    }

    pub(super) fn issue_named(&self, name: &str, arguments: impl ToArgs, flags: u8, batch: Option<u32>) -> u64 {
        self.issue_ready(self.encode_named(name, arguments), flags, batch)
    }

    /// The ticket of a command that is not issued.
    fn born_failed(&self, error: Error, batch: Option<u32>) -> u64 {
        let mut visit = self.table.visit();
        let core = visit.wire().core();
        let ticket = core.born_failed(error);
        core.put_into(batch, ticket)
    }

    /// Encodes a command by its name, and finds its keys.
    pub(super) fn encode_named(&self, name: &str, arguments: impl ToArgs) -> Result<Issued> {
        let Encoded { bytes, .. } = Encoded::named(name, arguments)?;
        match Encoded::effect_of(&bytes) {
            Effect::Refused(why) => return Err(Error::Refused(why)),
            Effect::Blocking(_) => return Err(Error::Refused(BLOCKS)),
            // Those that change the connection are refused by their kind.
            _ => {}
        }
        let keys = self.find_keys(&bytes)?;
        Ok(Issued { bytes, keys, block: None })
    }

    /// Where the keys of a command are. What is not known is asked of a server, without the lock.
    fn find_keys(&self, bytes: &[u8]) -> Result<Vec<Range<usize>>> {
        loop {
            let question = match self.table.visit().wire().core().keys_of(bytes) {
                Keys::Here(keys) => return Ok(keys),
                Keys::Ask(question) => question,
            };
            let answer = self.ask(&question)?;
            if let Some(keys) = self.table.visit().wire().core().learn(&question, answer, bytes) {
                return Ok(keys);
            }
        }
    }

    fn ask(&self, question: &Question) -> Result<Answer> {
        // Of two threads at a time the second opens a connection of its own.
        let control = self.table.visit().wire().core().control.take();
        if let Some(control) = control
            && let answer @ (Ok(_) | Err(Error::Server(_))) = self.ask_by(control, question)
        {
            return answer;
        }
        let look = self.table.visit().wire().core().asker();
        let looked = self.table.apart(|| look.go());
        let control = {
            let mut visit = self.table.visit();
            visit.wire().looked(looked)?;
            visit.wire().core().control.take()
        };
        self.ask_by(control.ok_or(NO_OWNER)?, question)
    }

    /// Asks by a connection, and keeps it if it works.
    fn ask_by(&self, control: (Address, Connection), question: &Question) -> Result<Answer> {
        let (address, mut conn) = control;
        let answer = question.ask(&conn);
        match &answer {
            Ok(_) | Err(Error::Server(_)) => self.with(|core| core.control = Some((address, conn))),
            // Or its end would be waited for.
            Err(error) => conn.break_off(error.clone()),
        }
        answer
    }
}

impl<'c> Execute for &'c SharedCluster {
    type Reply<T: FromReply> = SharedClusterReply<'c, T>;
    type MultiBulk<T: FromReply> = SharedClusterMultiBulk<'c, T>;

    fn command<T: FromReply>(self, name: &str, arguments: impl ToArgs) -> SharedClusterReply<'c, T> {
        SharedClusterReply::new(self, self.issue_named(name, arguments, 0, None))
    }

    #[inline]
    fn execute<T: FromReply, A: Arguments>(self, command: Command<A>) -> SharedClusterReply<'c, T> {
        SharedClusterReply::new(self, self.issue(&command, 0, None))
    }

    #[inline]
    fn execute_multi<T: FromReply, A: Arguments>(self, command: Command<A>) -> SharedClusterMultiBulk<'c, T> {
        SharedClusterMultiBulk::new(self, self.issue(&command, 0, None))
    }
}

impl<'c> Lasting for &'c SharedCluster {
    fn command_again<T: FromReply>(self, name: &str, arguments: impl ToArgs) -> SharedClusterReply<'c, T> {
        SharedClusterReply::new(self, self.issue_named(name, arguments, flag::IDEMPOTENT, None))
    }

    fn execute_again<T: FromReply, A: Arguments>(self, command: Command<A>) -> SharedClusterReply<'c, T> {
        SharedClusterReply::new(self, self.issue(&command, flag::IDEMPOTENT, None))
    }

    fn execute_multi_again<T: FromReply, A: Arguments>(self, command: Command<A>) -> SharedClusterMultiBulk<'c, T> {
        SharedClusterMultiBulk::new(self, self.issue(&command, flag::IDEMPOTENT, None))
    }
}
