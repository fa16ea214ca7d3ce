//! The state of a cluster: its nodes, who has which slot, and where each command is.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::batch::Record;
use super::config::{ClusterConfig, ReadFrom};
use super::dial::Reach;
use super::kinds::Known;
use super::node::{Entry, ITSELF, Node, flag};
use super::redirect::Address;
use super::slab::Slab;
use super::slot::SLOTS;
use super::spread::Spread;
use super::ticket::{BUSY, Ticket, other, sent};
use super::transaction::Group;
use crate::args::Block;
use crate::connection::{Aside, Connection, GONE, IN_USE, Stored, is_hopeless};
use crate::error::{ConnectionLost, Error, Result, Sent, ServerError};
use crate::resp::{self, Frame};

/// The slot of a command without keys.
pub(super) const NO_SLOT: u16 = SLOTS as u16;
/// The least time that an attempt to connect or a look at the topology is given, also where less is left to whoever waits: those
/// who always wait for a moment are to have their replies, too.
pub(super) const LEAST: Duration = Duration::from_millis(20);
/// No node.
pub(super) const NOWHERE: u16 = u16::MAX;

/// A command that is not, or is not only, where its ticket says.
pub(super) struct Moved {
    /// How many redirects it has followed.
    pub(super) hops: u8,
    /// How many times it was to be sent again for whatever reason.
    pub(super) tries: u32,
    /// How many times it was sent although it may have run.
    pub(super) resends: u8,
    /// When it was first not where it should have been.
    pub(super) since: Instant,
    /// Somebody holds its handle.
    pub(super) live: bool,
    /// The node that it was sent to last, and the number of the connection.
    pub(super) last: u16,
    pub(super) number: u64,
    pub(super) at: At,
}

/// Where a command is.
pub(super) enum At {
    /// Sent to this node, with this place there.
    Sent(u16, u64),
    /// With others of this slot, which is in trouble.
    Parked(u16),
    Done(Stored),
    Failed(Error),
}

/// Where a ticket's reply is to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    Here,
    Sent(u16, u64),
    Parked(u16),
}

/// A command that waits for being sent.
pub(super) struct Parked {
    pub(super) ticket: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) flags: u8,
    /// How many commands of a transaction it is.
    pub(super) size: u32,
    /// Where it was told to go, and whether with ASKING.
    pub(super) target: Option<(u16, bool)>,
    pub(super) not_before: Option<Instant>,
    /// It was told to come again later, and so may be told again: those behind it wait for its reply.
    pub(super) probes: bool,
    /// Why it is here.
    pub(super) cause: Option<Error>,
}

/// A slot whose commands wait until those that are outstanding for it have been answered, so that they keep their order.
#[derive(Default)]
pub(super) struct Trouble {
    /// Commands that came back, in the order in which they had been sent.
    pub(super) returned: VecDeque<Parked>,
    /// Commands behind those.
    pub(super) waiting: VecDeque<Parked>,
    /// A thread is to connect to this node first.
    pub(super) dial: Option<u16>,
}

/// Room for a command that is being encoded, and where its keys are.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) bytes: Vec<u8>,
    pub(super) keys: Vec<Range<usize>>,
}

pub(super) struct Core {
    pub(super) config: ClusterConfig,
    pub(super) nodes: Vec<Node>,
    by_address: HashMap<Address, u16>,
    /// The primary of each slot; changed by [`set_owner`](Core::set_owner).
    pub(super) slots: Vec<u16>,
    /// Those primaries, as long as none has changed.
    known_primaries: Option<Vec<u16>>,
    /// The replicas of each primary.
    pub(super) replicas: HashMap<u16, Vec<u16>>,
    /// How many commands of each slot have been sent and not been answered.
    pub(super) outstanding: Vec<u32>,
    pub(super) troubles: BTreeMap<u16, Trouble>,
    /// Slots in trouble of which nothing is outstanding any more.
    pub(super) ready: Vec<u16>,
    /// When the first of the slots in trouble that wait for a time is to be looked at.
    pub(super) due: Option<Instant>,
    /// When the wait ends that sends what waits.
    pub(super) until: Option<Instant>,
    pub(super) moved: HashMap<u64, Moved>,
    pub(super) parked: usize,
    pub(super) others: u64,
    pub(super) spreads: Slab<Spread>,
    pub(super) groups: Slab<Group>,
    /// What servers refused to queue of transactions whose EXEC nobody has looked at, by the ticket of that.
    pub(super) refused: HashMap<u64, Vec<(u32, ServerError)>>,
    pub(super) batches: Slab<Record>,
    /// What is known of commands by their names.
    pub(super) known: Known,
    /// The first error nobody saw.
    account: Option<Error>,
    pub(super) unseen: u64,
    pub(super) redirected: u64,
    turn: usize,
    // The topology: see there.
    pub(super) control: Option<(Address, Connection)>,
    pub(super) stale: bool,
    pub(super) refreshed: Option<Instant>,
    pub(super) refreshes: u64,
    pub(super) refresh_failures: u32,
    /// Held by a thread that looks at it.
    pub(super) looking: Weak<()>,
    /// Threads share it: nothing here blocks, and what does is done by one of them without the books.
    pub(super) shared: bool,
    /// What is to be done when no thread holds the lock: telling events, above all.
    pub(super) aside: Vec<Aside>,
    /// How many connections have been made, and how many have been given up.
    pub(super) connected: u64,
    pub(super) breaks: u64,
    /// `None` while a command is being encoded in it.
    pub(super) scratch: Option<Box<Scratch>>,
}

impl Core {
    pub(super) fn new(mut config: ClusterConfig) -> Self {
        config.base.reconnect = crate::connection::Reconnect::never();
        Core {
            config,
            nodes: Vec::new(),
            by_address: HashMap::new(),
            slots: vec![NOWHERE; SLOTS + 1],
            known_primaries: None,
            replicas: HashMap::new(),
            outstanding: vec![0; SLOTS + 1],
            troubles: BTreeMap::new(),
            ready: Vec::new(),
            due: None,
            until: None,
            moved: HashMap::new(),
            parked: 0,
            others: 0,
            spreads: Slab::default(),
            groups: Slab::default(),
            refused: HashMap::new(),
            batches: Slab::default(),
            known: Known::default(),
            account: None,
            unseen: 0,
            redirected: 0,
            turn: 0,
            control: None,
            stale: false,
            refreshed: None,
            refreshes: 0,
            refresh_failures: 0,
            looking: Weak::new(),
            shared: false,
            aside: Vec::new(),
            connected: 0,
            breaks: 0,
            scratch: None,
        }
    }

    /// Tells an event: at once, or if threads share the cluster, when none of them holds the lock.
    pub(super) fn tell(&mut self, event: impl FnOnce() + Send + 'static) {
        if !cfg!(feature = "tracing") {
            return;
        }
        if self.shared { self.aside.push(Box::new(event)) } else { event() }
    }

    pub(super) fn timeout(&self) -> Option<Duration> {
        self.config.base.timeout
    }

    // Nodes.

    /// The number of the node at this address, a new one if there is none; nothing if there are far too many.
    pub(super) fn node_at(&mut self, address: &Address) -> Option<u16> {
        if let Some(index) = self.by_address.get(address) {
            return Some(*index);
        }
        let index = u16::try_from(self.nodes.len()).ok().filter(|index| *index < NOWHERE)?;
        self.nodes.push(Node::new(address.clone()));
        self.by_address.insert(address.clone(), index);
        Some(index)
    }

    /// The node for the next command that any node can run: one with a connection, if there is one.
    pub(super) fn any_node(&mut self) -> u16 {
        let count = self.primaries().len();
        let mut n = NOWHERE;
        for _ in 0..count {
            self.turn = self.turn.wrapping_add(1);
            let turn = self.turn % count;
            n = self.primaries()[turn];
            let node = &self.nodes[usize::from(n)];
            if !node.silent && node.not_before.is_none() {
                break;
            }
        }
        n
    }

    /// The node for a command that only reads.
    pub(super) fn reader_of(&mut self, slot: u16) -> u16 {
        let primary = self.slots[usize::from(slot)];
        let Some(replicas) = self.replicas.get(&primary) else { return primary };
        self.turn = self.turn.wrapping_add(1);
        let with_primary = usize::from(self.config.read_from == ReadFrom::Any);
        for ahead in 0..replicas.len() + with_primary {
            let n = (self.turn + ahead) % (replicas.len() + with_primary);
            let Some(n) = replicas.get(n) else { return primary };
            let node = &self.nodes[usize::from(*n)];
            if !node.silent && node.not_before.is_none_or(|at| at <= Instant::now()) {
                return *n;
            }
        }
        primary
    }

    /// Notes who has a slot, and returns who had it.
    pub(super) fn set_owner(&mut self, slot: u16, n: u16) -> u16 {
        let old = std::mem::replace(&mut self.slots[usize::from(slot)], n);
        if old != n {
            self.known_primaries = None;
        }
        old
    }

    /// The primaries that have slots, in the order of these.
    pub(super) fn primaries(&mut self) -> &[u16] {
        let slots = &self.slots;
        self.known_primaries.get_or_insert_with(|| {
            let mut found: Vec<u16> = Vec::new();
            let mut last = NOWHERE;
            for n in slots.iter().take(SLOTS).copied() {
                if n != last && n != NOWHERE && !found.contains(&n) {
                    found.push(n);
                }
                last = n;
            }
            found
        })
    }

    /// The primaries and the replicas.
    pub(super) fn members(&mut self) -> Vec<u16> {
        let mut found = self.primaries().to_vec();
        for primary in found.clone() {
            let replicas = self.replicas.get(&primary).into_iter().flatten();
            let new: Vec<u16> = replicas.filter(|n| !found.contains(n)).copied().collect();
            found.extend(new);
        }
        found
    }

    // Issuing.

    /// Issues a command of a slot, and returns its ticket.
    pub(super) fn issue(&mut self, slot: u16, bytes: &[u8], flags: u8, block: Option<Block>) -> u64 {
        self.issue_inlined(slot, bytes, flags, block)
    }

    /// The same for where most commands are issued.
    #[inline(always)]
    pub(super) fn issue_inlined(&mut self, slot: u16, bytes: &[u8], flags: u8, block: Option<Block>) -> u64 {
        if self.troubles.is_empty() && flags & flag::READ == 0 {
            let n = self.slots[usize::from(slot)];
            if let Some(node) = self.nodes.get_mut(usize::from(n))
                && node.entries.len() < self.config.base.max_outstanding
                && let Some(conn) = &mut node.conn
                && let Ok(len) = u32::try_from(bytes.len())
                && let Ok(place) = conn.send(bytes, block)
            {
                let entry = Entry { origin: ITSELF, len, slot, flags };
                let place = node.sent(place, entry, bytes);
                self.outstanding[usize::from(slot)] += 1;
                return sent(n, place);
            }
        }
        self.issue_slowly(slot, bytes, flags, block)
    }

    #[cold]
    #[inline(never)]
    fn issue_slowly(&mut self, slot: u16, bytes: &[u8], flags: u8, block: Option<Block>) -> u64 {
        if u32::try_from(bytes.len()).is_err() {
            return self.born_failed(TOO_LONG);
        }
        if let Err(error) = self.make_room() {
            return self.born_failed(error);
        }
        if slot != NO_SLOT && self.troubles.contains_key(&slot) {
            let ticket = self.park(slot, bytes.to_vec(), flags, 0, None, None);
            self.pump(slot);
            return ticket;
        }
        let n = match slot {
            NO_SLOT => self.any_node(),
            _ if flags & flag::READ != 0 => self.reader_of(slot),
            _ => self.slots[usize::from(slot)],
        };
        self.issue_at(n, slot, bytes, flags, block)
    }

    /// Issues a command to a node.
    pub(super) fn issue_at(&mut self, n: u16, slot: u16, bytes: &[u8], flags: u8, block: Option<Block>) -> u64 {
        if n == NOWHERE {
            self.stale = true;
            let ticket = self.park(slot, bytes.to_vec(), flags, 0, None, Some(NO_OWNER));
            if self.shared {
                self.pump(slot);
            }
            return ticket;
        }
        match self.connect(n) {
            Ok(Reach::Up) => {}
            Ok(Reach::Later) => {
                let target = (flags & (flag::FIXED | flag::READ) != 0).then_some((n, false));
                let ticket = self.park(slot, bytes.to_vec(), flags, 0, target, None);
                self.pump(slot);
                return ticket;
            }
            Err(error) => return self.not_sent(n, slot, bytes, flags, error),
        }
        match self.drain(n) {
            Ok(()) => {}
            Err(Error::Timeout) => return self.born_failed(Error::Timeout),
            // The connection broke meanwhile, and there is no other one.
            Err(error) => return self.not_sent(n, slot, bytes, flags, error),
        }
        if slot != NO_SLOT && self.troubles.contains_key(&slot) {
            // Found out while draining.
            return self.park(slot, bytes.to_vec(), flags, 0, None, None);
        }
        let node = &mut self.nodes[usize::from(n)];
        match node.conn.as_mut().map(|conn| conn.send(bytes, block)) {
            Some(Ok(place)) => {
                let entry = Entry { origin: ITSELF, len: bytes.len() as u32, slot, flags };
                let place = node.sent(place, entry, bytes);
                self.outstanding[usize::from(slot)] += 1;
                sent(n, place)
            }
            Some(Err(error)) if !error.is_connection_lost() => self.born_failed(error),
            Some(Err(error)) => {
                self.bury(n);
                self.not_sent(n, slot, bytes, flags, error)
            }
            None => self.not_sent(n, slot, bytes, flags, NO_OWNER),
        }
    }

    /// A command could not be sent because there is no connection: it waits for one, unless it is for that very node or
    /// another attempt would fare no better.
    fn not_sent(&mut self, n: u16, slot: u16, bytes: &[u8], flags: u8, error: Error) -> u64 {
        if flags & flag::FIXED != 0 || (is_hopeless(&error) && self.config.base.credentials.is_none()) {
            return self.born_failed(unsent(error));
        }
        // A replica that cannot be reached need not be.
        let primary = self.slots[usize::from(slot)];
        let target = (flags & flag::READ != 0 && primary != n && primary != NOWHERE).then_some((primary, false));
        let ticket = self.park(slot, bytes.to_vec(), flags, 0, target, Some(error));
        if target.is_some() || self.shared {
            self.pump(slot);
        }
        ticket
    }

    /// Puts a new command behind the others of its slot that wait.
    pub(super) fn park(
        &mut self,
        slot: u16,
        bytes: Vec<u8>,
        flags: u8,
        size: u32,
        target: Option<(u16, bool)>,
        cause: Option<Error>,
    ) -> u64 {
        let ticket = self.other();
        let moved = Moved { at: At::Parked(slot), ..Moved::new(flags & flag::DETACHED == 0) };
        self.moved.insert(ticket, moved);
        self.parked += 1;
        let parked = Parked { ticket, bytes, flags, size, target, not_before: None, probes: false, cause };
        self.troubles.entry(slot).or_default().waiting.push_back(parked);
        ticket
    }

    fn other(&mut self) -> u64 {
        self.others += 1;
        other(self.others)
    }

    /// Keeps the error of a command that is not issued, for its handle.
    #[cold]
    pub(super) fn born_failed(&mut self, error: Error) -> u64 {
        let ticket = self.other();
        self.moved.insert(ticket, Moved { at: At::Failed(error), ..Moved::new(true) });
        ticket
    }

    // Handles.

    /// Where the reply of a ticket is; not of one in parts or of a transaction.
    pub(super) fn locate(&self, ticket: u64) -> Where {
        if !self.moved.is_empty()
            && let Some(moved) = self.moved.get(&ticket)
        {
            return match &moved.at {
                At::Sent(n, place) => Where::Sent(*n, *place),
                At::Parked(slot) => Where::Parked(*slot),
                At::Done(_) | At::Failed(_) => Where::Here,
            };
        }
        match Ticket::of(ticket) {
            Ticket::Sent(n, place) if self.nodes.get(usize::from(n)).is_some_and(|node| node.read <= place) => {
                Where::Sent(n, place)
            }
            _ => Where::Here,
        }
    }

    /// The node that has answered a ticket, or was to: not of one in parts or of a transaction.
    pub(super) fn node_of(&self, ticket: u64) -> u16 {
        match (self.moved.get(&ticket), Ticket::of(ticket)) {
            (Some(Moved { last, .. }), _) if *last != NOWHERE => *last,
            (_, Ticket::Sent(n, _)) => n,
            _ => NOWHERE,
        }
    }

    /// Takes the reply of a ticket that is [here](Where::Here).
    pub(super) fn take(&mut self, ticket: u64) -> Result<Stored> {
        if !self.moved.is_empty()
            && let Some(moved) = self.moved.remove(&ticket)
        {
            return match moved.at {
                At::Done(frame) => Ok(frame),
                At::Failed(error) => Err(error),
                At::Sent(..) | At::Parked(_) => Err(Error::Refused(GONE)),
            };
        }
        match Ticket::of(ticket) {
            Ticket::Sent(n, place) => {
                let stored = self.nodes.get_mut(usize::from(n)).and_then(|node| node.store.take(place));
                stored.ok_or(Error::Refused(GONE))
            }
            _ => Err(Error::Refused(if ticket == BUSY { IN_USE } else { GONE })),
        }
    }

    /// Gives a ticket up: its reply is skipped, and an error accounted for.
    #[inline]
    pub(super) fn detach(&mut self, ticket: u64) {
        if self.moved.is_empty()
            && let Ticket::Sent(n, place) = Ticket::of(ticket)
            && let Some(node) = self.nodes.get_mut(usize::from(n))
            && let Some(entry) = node.entry(place)
        {
            entry.flags |= flag::DETACHED;
            return;
        }
        self.detach_slowly(ticket);
    }

    /// The same of any ticket.
    #[inline(never)]
    fn detach_slowly(&mut self, ticket: u64) {
        match Ticket::of(ticket) {
            Ticket::Spread(id) => return self.detach_spread(id),
            Ticket::Member(id, index) => return self.detach_member(id, index),
            Ticket::Batched(id, index) => return self.detach_batched(id, index),
            _ if ticket == BUSY => return,
            _ => {}
        }
        match self.locate(ticket) {
            Where::Here => match self.take(ticket) {
                Ok(frame) => self.check(&frame),
                Err(Error::Refused(GONE)) => {}
                Err(error) => self.unseen(error),
            },
            Where::Sent(n, place) => {
                if let Some(moved) = self.moved.get_mut(&ticket) {
                    moved.live = false;
                } else if let Some(entry) = self.nodes[usize::from(n)].entry(place) {
                    entry.flags |= flag::DETACHED;
                }
            }
            Where::Parked(_) => {
                if let Some(moved) = self.moved.get_mut(&ticket) {
                    moved.live = false;
                }
            }
        }
    }

    /// Accounts for the error in a reply that nobody asks for.
    pub(super) fn check(&mut self, frame: &[u8]) {
        if let Some(Frame::Error(message)) = resp::frame(frame) {
            self.unseen(ServerError::new(message).into());
        }
    }

    pub(super) fn unseen(&mut self, error: Error) {
        self.unseen += 1;
        self.account.get_or_insert(error);
    }

    pub(super) fn take_account(&mut self) -> Result<()> {
        self.unseen = 0;
        self.account.take().map_or(Ok(()), Err)
    }

    pub(super) fn count_outstanding(&self) -> usize {
        let sent = |node: &Node| node.entries.iter().filter(|entry| entry.flags & flag::PART == 0).count();
        self.nodes.iter().map(sent).sum::<usize>() + self.parked
    }
}

impl Moved {
    pub(super) fn new(live: bool) -> Self {
        let (since, at) = (Instant::now(), At::Parked(NO_SLOT));
        Moved { hops: 0, tries: 0, resends: 0, since, live, last: NOWHERE, number: 0, at }
    }
}

/// The books count the bytes of a command in 32 bits.
pub(super) const TOO_LONG: Error = Error::Argument("a command is longer than 4 GiB");
/// What keeps a command from being sent that is not sent elsewhere, as its error.
pub(super) fn unsent(error: Error) -> Error {
    match error {
        Error::Io(_) | Error::Timeout => Error::ConnectionLost(Arc::new(ConnectionLost::new(Sent::Unsent, error))),
        error => error,
    }
}

/// Why a command waits whose slot belongs to nobody, as far as is known.
pub(super) const NO_OWNER: Error = Error::Refused("no node that can be reached has the slot");
