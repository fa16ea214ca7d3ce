//! Who has which slots: asked of any node that answers, whenever what is known has proved wrong.
//!
//! CLUSTER SLOTS says of each slot who is its primary. It leaves out replicas to which nothing has been written yet, so these
//! are taken from CLUSTER SHARDS where that is known; that alone would not do, since for a while after a failover a shard
//! may have two primaries in it.

use std::io;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::config::Way;
use super::core::{Core, LEAST, NOWHERE};
use super::events;
use super::redirect::Address;
use super::slot::SLOTS;
use crate::commands::{ClusterEndpoint, ClusterShard, ClusterSlots};
use crate::connection::{Connection, Endpoint};
use crate::error::{Error, Result, WaitError};
use crate::reply::Reply;
use crate::values::FromReply;

/// The shortest time between two looks.
const INTERVAL: Duration = Duration::from_millis(50);
/// The longest, when nobody answers.
const LONGEST_INTERVAL: Duration = Duration::from_secs(1);
/// How long one node may take to answer.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long a look may take over all nodes.
const BUDGET: Duration = Duration::from_secs(2);

impl Core {
    /// Looks at the topology if it has proved wrong, and not too soon after the last time. Takes no longer than what is `left` to
    /// whoever waits, or [`LEAST`]; `None` is for ever.
    ///
    /// Where threads share the cluster, one of them will, without the books.
    pub(super) fn refresh_if_due(&mut self, left: Option<Duration>) {
        if !self.shared && self.look_due().is_some_and(|at| at <= Instant::now()) {
            let look = self.usual_look(left);
            // Whatever is the matter, commands tell it that meet with it.
            let _ = self.looked(look.go());
        }
    }

    /// When the topology is to be looked at, if it has proved wrong.
    pub(super) fn look_due(&self) -> Option<Instant> {
        let interval = INTERVAL.saturating_mul(1 << self.refresh_failures.min(6)).min(LONGEST_INTERVAL);
        let due = || self.refreshed.map_or_else(Instant::now, |last| last + interval);
        (self.stale && self.looking.strong_count() == 0).then(due)
    }

    /// How to look at it, for whoever has so much time `left`.
    pub(super) fn usual_look(&mut self, left: Option<Duration>) -> Look {
        let left = left.unwrap_or(BUDGET).max(LEAST);
        self.look(PATIENCE.min(self.config.base.connect_timeout).min(left), BUDGET.min(left))
    }

    /// Asks one node after the other, until one of them gives a usable answer.
    pub(super) fn refresh(&mut self, patience: Duration, budget: Duration) -> Result<()> {
        let look = self.look(patience, budget);
        self.looked(look.go())
    }

    pub(super) fn look(&mut self, patience: Duration, budget: Duration) -> Look {
        self.refreshes += 1;
        // What proves wrong meanwhile is looked at again.
        self.stale = false;
        let claim = Arc::new(());
        self.looking = Arc::downgrade(&claim);
        let (control, candidates) = (self.control.take(), self.candidates());
        Look { control, candidates, patience, budget, usual: self.config.base.connect_timeout, claim }
    }

    /// Takes over what a look has brought.
    pub(super) fn looked(&mut self, looked: Looked) -> Result<()> {
        self.looking = Weak::new();
        self.refreshed = Some(Instant::now());
        match looked.found {
            Ok((control, topology)) => {
                let asked = control.0.clone();
                self.refresh_failures = 0;
                self.control = Some(control);
                self.apply(topology);
                let replicas = self.replicas.values().map(Vec::len).sum();
                let primaries = self.primaries().len();
                self.tell(move || events::refreshed(&asked, primaries, replicas));
                Ok(())
            }
            Err(error) => {
                self.stale = true;
                self.refresh_failures = self.refresh_failures.saturating_add(1);
                let (cause, failures) = (error.clone(), self.refresh_failures);
                self.tell(move || events::not_refreshed(&cause, failures));
                Err(error)
            }
        }
    }

    /// Those to be asked, those first that are likely to answer.
    fn candidates(&mut self) -> Vec<(Address, Way)> {
        let mut members = self.members();
        fastrand::shuffle(&mut members);
        members.sort_by_key(|n| {
            let node = &self.nodes[usize::from(*n)];
            (node.silent, node.not_before.is_some(), node.conn.is_none())
        });
        let mut seeds: Vec<(Address, Way)> = self
            .config
            .seeds
            .iter()
            .map(|seed| {
                let mut config = self.config.base.clone();
                config.endpoint = seed.endpoint.clone();
                (Address::of_endpoint(&config.endpoint), Way::known(config))
            })
            .collect();
        if !members.is_empty() {
            fastrand::shuffle(&mut seeds);
        }
        // In turn: all members may have moved, and there is no time for all of them.
        let (mut members, mut seeds) = (members.into_iter(), seeds.into_iter());
        let mut all = Vec::new();
        loop {
            let member = members.next().map(|n| {
                let address = &self.nodes[usize::from(n)].address;
                (address.clone(), self.way_to(address))
            });
            let before = all.len();
            all.extend(member.into_iter().chain(seeds.next()));
            if all.len() == before {
                return all;
            }
        }
    }

    fn apply(&mut self, topology: Vec<Range>) {
        self.replicas.clear();
        for Range { first, last, primary, replicas } in topology {
            let Some(n) = self.node_at(&primary) else { continue };
            let replicas: Vec<u16> = replicas.iter().filter_map(|replica| self.node_at(replica)).collect();
            self.replicas.insert(n, replicas);
            for slot in first..=last {
                self.give_slot(slot, n);
            }
        }
        self.close_idle();
    }

    /// Notes who has a slot. What is outstanding for it with another node comes first.
    fn give_slot(&mut self, slot: u16, n: u16) {
        let old = self.set_owner(slot, n);
        if old != n && old != NOWHERE && self.outstanding[usize::from(slot)] > 0 {
            self.troubles.entry(slot).or_default();
        }
    }

    /// Closes connections to nodes that are no members any more, as far as nothing is outstanding there.
    fn close_idle(&mut self) {
        let members = self.members();
        for (n, node) in self.nodes.iter_mut().enumerate() {
            if node.entries.is_empty()
                && !members.contains(&(n as u16))
                && let Some(mut conn) = node.conn.take()
            {
                // It may not answer, and nothing is to be had from it.
                conn.break_off(Error::Refused("the node is no member of the cluster any more"));
                self.aside.extend(conn.take_aside());
            }
        }
    }
}

/// A look at the topology.
pub(super) struct Look {
    /// The connection that was of use the last time.
    control: Option<(Address, Connection)>,
    candidates: Vec<(Address, Way)>,
    /// How long one node may take to answer, and all of them.
    patience: Duration,
    budget: Duration,
    usual: Duration,
    claim: Arc<()>,
}

/// What it has brought.
pub(super) struct Looked {
    found: Result<((Address, Connection), Vec<Range>)>,
    _claim: Arc<()>,
}

/// Who has some slots.
pub(super) struct Range {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) primary: Address,
    pub(super) replicas: Vec<Address>,
}

impl Look {
    /// Asks one node after the other, until one of them gives a usable answer. Blocks.
    pub(super) fn go(mut self) -> Looked {
        let found = self.ask_around();
        Looked { found, _claim: self.claim }
    }

    fn ask_around(&mut self) -> Result<((Address, Connection), Vec<Range>)> {
        let until = Instant::now() + self.budget;
        let mut first_error = None;
        if let Some((address, conn)) = self.control.take() {
            match learn_from(address, conn, Instant::now() + self.patience) {
                Ok(found) => return Ok(found),
                Err(error) => first_error = Some(error),
            }
        }
        for (address, way) in self.candidates.drain(..) {
            let now = Instant::now();
            let patience = self.patience.min(until.saturating_duration_since(now));
            if patience.is_zero() {
                break;
            }
            // What is known by name is asked on the same connection later.
            let config = way.config();
            let config =
                config.connect_timeout(patience).timeout(self.usual).reconnect(crate::connection::Reconnect::never());
            match Connection::open(config).and_then(|conn| learn_from(address, conn, now + patience)) {
                Ok(found) => return Ok(found),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        Err(first_error.unwrap_or_else(|| Error::Config("no node to ask".to_owned())))
    }
}

/// Asks a node, and keeps the connection to it if its answer is of use.
pub(super) fn learn_from(
    address: Address,
    mut conn: Connection,
    until: Instant,
) -> Result<((Address, Connection), Vec<Range>)> {
    match ask(&conn, until).and_then(|answer| answer.read(&address)) {
        Ok(topology) => Ok(((address, conn), topology)),
        Err(error) => {
            // Or its end would be waited for.
            conn.break_off(error.clone());
            Err(error)
        }
    }
}

/// What a node says.
struct Answer {
    slots: Vec<ClusterSlots>,
    /// Nothing, if it does not know the command.
    shards: Vec<ClusterShard>,
}

impl Answer {
    /// Who has which slots, if that is what it says: a bad answer never replaces what is known.
    fn read(&self, asked: &Address) -> Result<Vec<Range>> {
        let mut ranges = Vec::new();
        for range in &self.slots {
            let (first, last) = (*range.slots.start(), *range.slots.end());
            if first > last || usize::from(last) >= SLOTS {
                return Err(io::Error::other("an answer to CLUSTER SLOTS has slots that do not exist").into());
            }
            let Some(primary) = address(&range.primary, asked) else { continue };
            let mut replicas: Vec<Address> = range.replicas.iter().filter_map(|node| address(node, asked)).collect();
            let more = replicas_in(&self.shards, &range.primary);
            replicas.extend(more.into_iter().map(|replica| replica.or_host_of(asked)));
            replicas.sort();
            replicas.dedup();
            replicas.retain(|replica| *replica != primary);
            ranges.push(Range { first, last, primary, replicas });
        }
        if ranges.is_empty() {
            return Err(
                io::Error::other("a node says that no slot belongs to any node: is it part of a cluster?").into()
            );
        }
        Ok(ranges)
    }
}

fn ask(conn: &Connection, until: Instant) -> Result<Answer> {
    // Not by their methods, whose multi-bulks have no limit of their own.
    let (slots, shards) = (conn.command("CLUSTER SLOTS", ()), conn.command("CLUSTER SHARDS", ()));
    let slots = match within(slots, until) {
        Ok(slots) => slots,
        Err(error) => {
            // Nobody waits for it.
            shards.detach();
            return Err(error);
        }
    };
    match within(shards, until) {
        Ok(shards) => Ok(Answer { slots, shards }),
        Err(Error::Server(_)) => Ok(Answer { slots, shards: Vec::new() }),
        Err(error) => Err(error),
    }
}

/// Waits for a reply until then, and gives it up.
fn within<T: FromReply>(reply: Reply<'_, T>, until: Instant) -> Result<T> {
    match reply.wait_timeout(until.saturating_duration_since(Instant::now())) {
        Ok(value) => Ok(value),
        Err(WaitError::Timeout(reply)) => {
            reply.detach();
            Err(Error::Timeout)
        }
        Err(WaitError::Failed(error)) => Err(error),
    }
}

/// The replicas of a primary that are up, as the shards have it.
fn replicas_in(shards: &[ClusterShard], primary: &ClusterEndpoint) -> Vec<Address> {
    let shard = shards.iter().find(|shard| shard.nodes.iter().any(|node| node.id == primary.id));
    let nodes = shard.map(|shard| &shard.nodes[..]).unwrap_or_default();
    // The port is that for TLS if that of the primary is.
    let tls = nodes.iter().any(|node| node.id == primary.id && node.tls_port == Some(primary.port));
    // One to which nothing has been written yet is said to be loading.
    let replicas = nodes.iter().filter(|node| node.role != "master" && !node.health.starts_with("fail"));
    let address = |node: &crate::commands::ShardNode| {
        let port = if tls { node.tls_port } else { node.port };
        Address::new(node.endpoint.as_deref().unwrap_or_default(), port?)
    };
    replicas.filter_map(address).collect()
}

fn address(endpoint: &ClusterEndpoint, asked: &Address) -> Option<Address> {
    let host = match endpoint.host.as_deref() {
        // It is to be known by its name and has none; then its address is told as well.
        Some("?") => endpoint.metadata.get("ip").map_or("?", String::as_str),
        host => host.unwrap_or_default(),
    };
    Some(Address::new(host, endpoint.port)?.or_host_of(asked))
}

impl Address {
    pub(super) fn of_endpoint(endpoint: &Endpoint) -> Address {
        match endpoint {
            Endpoint::Tcp { host, port } => Address { host: host.clone(), port: *port },
            // A node that is reached by a socket is on this machine. One that is looked for has an address when it was found, which
            // nodes mostly tell themselves.
            Endpoint::Unix(_) | Endpoint::Found(_) => Address { host: "127.0.0.1".to_owned(), port: 0 },
        }
    }
}
