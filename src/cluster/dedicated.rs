//! Connections to single nodes, for what needs one to itself: optimistic locking, blocking commands, subscriptions.

use std::cell::OnceCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::config::ClusterConfig;
use super::core::{Core, NO_OWNER};
use super::home::Home;
use super::redirect::{Address, Redirect};
use super::settle::pause;
use super::spread::cross_slot;
use super::{Cluster, slot_of};
use crate::args::{ToArg, ToArgs, bytes_of, gather};
use crate::connection::{Config, Connection, Endpoint, Find, Found, Reconnect};
use crate::error::{Error, Result};
use crate::pubsub::Subscriber;
use crate::resp::encode;
use crate::transaction::{Handles, Transaction, Watch};

/// Connections for WATCH, one for each node that has been asked for one, which are lent out for as long as the cluster lives. One
/// that breaks is made again where it is.
#[derive(Default)]
pub(super) struct Dedicated(OnceCell<Box<Link>>);

struct Link {
    address: Address,
    conn: Connection,
    next: Dedicated,
}

/// The nodes of a cluster, any of which will do.
#[derive(Debug)]
struct Members(Vec<Endpoint>);

impl Find for Members {
    fn find(&self, _: Instant) -> Result<Vec<Endpoint>> {
        let mut places = self.0.clone();
        fastrand::shuffle(&mut places);
        Ok(places)
    }

    fn roles(&self) -> &'static [&'static str] {
        &[]
    }

    fn what(&self) -> String {
        "a node of the cluster".to_owned()
    }
}

/// How often [`Cluster::transact`] begins again.
const RETRIES: u32 = 15;

impl Dedicated {
    /// The connection to this node, which is made if there is none.
    fn to(&self, address: &Address, open: impl FnOnce() -> Result<Connection>) -> Result<&Connection> {
        let mut at = self;
        while let Some(link) = at.0.get() {
            if link.address == *address {
                return Ok(&link.conn);
            }
            at = &link.next;
        }
        let link = Link { address: address.clone(), conn: open()?, next: Dedicated::default() };
        Ok(&at.0.get_or_init(|| Box::new(link)).conn)
    }
}

impl Core {
    /// The address of the primary of a slot.
    pub(super) fn owner(&mut self, slot: u16) -> Result<Address> {
        let time = self.config.base.connect_timeout;
        self.refresh_if_due(Some(time));
        let n = self.slots.get(usize::from(slot)).copied();
        let node = n.and_then(|n| self.nodes.get(usize::from(n)));
        node.map(|node| node.address.clone()).ok_or(NO_OWNER)
    }

    /// Where the nodes are, as far as is known, and how they are reached. That is found out without the books, since whoever is
    /// asked for it may use the cluster.
    pub(super) fn whereabouts(&mut self) -> Whereabouts {
        let known = self.members().into_iter().map(|n| self.nodes[usize::from(n)].address.clone()).collect();
        Whereabouts { config: self.config.clone(), known }
    }
}

/// Where nodes are, and how they are reached.
pub(super) struct Whereabouts {
    config: ClusterConfig,
    known: Vec<Address>,
}

impl Whereabouts {
    /// How to subscribe where a slot is, wherever it goes.
    pub(super) fn home_of(self, slot: u16, policy: Reconnect) -> Config {
        let base = self.config.base.clone().reconnect(policy);
        let home = Home::new(slot, self.config, self.known);
        Config { endpoint: Endpoint::Found(Found(Arc::new(home))), ..base }
    }

    /// How to subscribe at any node.
    pub(super) fn anywhere(self, policy: Reconnect) -> Config {
        let mut places: Vec<Endpoint> = self.known.iter().map(|address| self.config.endpoint(address)).collect();
        for seed in self.config.seeds {
            if !places.contains(&seed.endpoint) {
                places.push(seed.endpoint);
            }
        }
        Config { endpoint: Endpoint::Found(Found(Arc::new(Members(places)))), ..self.config.base.reconnect(policy) }
    }
}

impl Cluster {
    /// Opens a connection of its own to the primary that has a key, or a shard channel, as far as is known; with the cluster's user,
    /// timeouts and TLS. For blocking commands, and for what is about one node or one connection.
    ///
    /// It is an ordinary connection, which follows no redirects.
    ///
    /// # Errors
    ///
    /// Those of [`Connection::open`].
    pub fn connection_to(&self, key: impl ToArg) -> Result<Connection> {
        let slot = slot_of(&bytes_of(&key)?);
        let config = self.with(|core| {
            let address = core.owner(slot)?;
            Ok::<_, Error>(core.node_config(&address).max_outstanding(core.config.base.max_outstanding))
        })??;
        Connection::open(config)
    }

    /// Opens a connection to every primary, in the order of their slots: see [`connection_to`](Cluster::connection_to).
    ///
    /// # Errors
    ///
    /// Those of [`Connection::open`].
    pub fn connections(&self) -> Result<Vec<Connection>> {
        let configs = self.with(|core| {
            core.refresh_if_due(Some(core.config.base.connect_timeout));
            let primaries = core.primaries().to_vec();
            let most = core.config.base.max_outstanding;
            let config = |n: u16| core.node_config(&core.nodes[usize::from(n)].address).max_outstanding(most);
            primaries.into_iter().map(config).collect::<Vec<_>>()
        })?;
        configs.into_iter().map(Connection::open).collect()
    }

    /// Opens a subscriber on the primary that has a shard channel, which hears what [`spublish`](crate::commands::PubSubCommands::spublish) sends to it. Nothing is subscribed to
    /// yet.
    ///
    /// With a policy it follows the slot of that channel: when that moves to another node, or its primary fails, the nodes are asked
    /// who has it, and all channels are subscribed to there; [`Event::Reconnected`](crate::pubsub::Event::Reconnected) tells of the
    /// gap. So all channels should be of that slot; those of others end with an error of the next read when it moves. Without a
    /// policy the server ends the subscription, and says so by
    /// [`Event::ShardUnsubscribed`](crate::pubsub::Event::ShardUnsubscribed).
    ///
    /// # Errors
    ///
    /// Those of [`Connection::open`].
    pub fn shard_subscriber(&self, shard_channel: impl ToArg, policy: Reconnect) -> Result<Subscriber> {
        let slot = slot_of(bytes_of(&shard_channel)?);
        if policy.is_never() {
            return self.connection_to(shard_channel)?.into_subscriber();
        }
        Subscriber::open(self.with(Core::whereabouts)?.home_of(slot, policy))
    }

    /// Opens a subscriber for ordinary channels and patterns, on any node: what [`publish`](crate::commands::PubSubCommands::publish)
    /// sends reaches all of them. Nothing is subscribed to yet. With a policy it goes to another node when its own fails, of those
    /// that are known now, and tells of the gap.
    ///
    /// # Errors
    ///
    /// Those of [`Connection::open`], when no node can be reached.
    pub fn subscriber(&self, policy: Reconnect) -> Result<Subscriber> {
        Subscriber::open(self.with(Core::whereabouts)?.anywhere(policy))
    }

    /// Watches keys, all of one slot, and waits for the server's word. The transaction of the [`Watch`] goes to the node where
    /// it watches, and nowhere else: if the slot has moved meanwhile, it is an error, and nothing has run.
    ///
    /// The watch is on a connection of its own to that node; there can be one at a time for each node. A key that has gone ahead of its
    /// slot is watched where it is. What is read on the cluster after this returns is read under the watch.
    ///
    /// # Errors
    ///
    /// Those of [`Connection::watch`]; the code CROSSSLOT, before anything is sent, for keys of several slots.
    pub fn watch(&self, keys: impl ToArgs) -> Result<Watch<'_>> {
        self.watch_slot(&one_slot(keys)?)
    }

    fn watch_slot(&self, keys: &[Vec<u8>]) -> Result<Watch<'_>> {
        let slot = slot_of(keys.first().map(Vec::as_slice).unwrap_or_default());
        let (start, limit) = (Instant::now(), self.with(|core| core.timeout())?);
        let mut tries = 0;
        // The node that imports the slot, if the keys have gone there ahead of it.
        let mut asked: Option<Address> = None;
        loop {
            let (owner, asking) = (self.with(|core| core.owner(slot))??, asked.is_some());
            let address = asked.take().unwrap_or_else(|| owner.clone());
            let config = self.with(|core| {
                // A commit is never sent again, and the next attempt to watch is made here.
                let policy = Reconnect::backoff().attempts(1).max_delay(Duration::ZERO);
                core.node_config(&address).max_outstanding(core.config.base.max_outstanding).reconnect(policy)
            })?;
            let conn = self.dedicated.to(&address, || Connection::open(config));
            let watch = conn.and_then(|conn| if asking { conn.watch_asking(keys) } else { conn.watch(keys) });
            // WATCH does nothing that could not be done again.
            let redirect = match &watch {
                Err(Error::Server(error)) => Redirect::of_error(error, Some(slot)),
                Err(error) if error.is_connection_lost() || matches!(error, Error::Io(_)) => Some(Redirect::Later),
                _ => None,
            };
            let Some(redirect) = redirect.filter(|_| limit.is_none_or(|limit| start.elapsed() < limit)) else {
                return watch;
            };
            drop(watch);
            tries += 1;
            match redirect {
                Redirect::Ask(to) if !asking => asked = Some(to.or_host_of(&address)),
                _ => {
                    self.with(|core| core.stale = true)?;
                    std::thread::sleep(pause(tries));
                }
            }
        }
    }

    /// Watches keys, all of one slot, lets `body` read what it needs and queue commands, commits, and begins again if a key has
    /// changed meanwhile, or the slot has moved: at most sixteen times. See [`Connection::transact`].
    ///
    /// While a slot is being moved, keys that are not at its old node, because they have gone ahead or do not exist, are watched at
    /// the new one. If some of them are here and some there, this waits for the end of the move, for at most the response timeout,
    /// and then is an error of the code TRYAGAIN.
    ///
    /// ```
    /// # fn main() -> redefer::Result<()> {
    /// # #[cfg(all(unix, feature = "testing"))] {
    /// # let nodes = redefer::testing::Cluster::builder().replicas(0).start()?;
    /// # let cluster = redefer::cluster::Cluster::open(nodes.urls())?;
    /// use redefer::prelude::*;
    ///
    /// cluster.set("x", 20).wait()?;
    /// let doubled: i64 = cluster.transact(["x"], |cluster, tx| {
    ///     let x: i64 = cluster.get("x").wait()?;
    ///     Ok(tx.incrby("x", x))
    /// })?;
    /// assert_eq!(doubled, 40);
    /// # }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Connection::transact`], and the code CROSSSLOT, before anything is sent, for keys of several slots.
    pub fn transact<'c, H: Handles>(
        &'c self,
        keys: impl ToArgs,
        mut body: impl FnMut(&'c Cluster, &Transaction<'c>) -> Result<H>,
    ) -> Result<H::Output> {
        let keys = one_slot(keys)?;
        let mut attempt = 0;
        loop {
            let tx = self.watch_slot(&keys)?.transaction();
            let handles = body(self, &tx)?;
            match tx.commit().wait() {
                Ok(()) => return handles.wait_all(),
                Err(error) if attempt < RETRIES && self.begins_again(&error)? => {
                    attempt += 1;
                    let longest = 250 << attempt.min(7);
                    std::thread::sleep(Duration::from_micros(fastrand::u64(0..longest)));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether a commit that failed in this way may be tried again: nothing of it has run.
    fn begins_again(&self, error: &Error) -> Result<bool> {
        let again = match error {
            Error::Aborted => return Ok(true),
            Error::ConnectionLost(_) => !error.may_have_run(),
            Error::Server(server) => Redirect::of_error(server, None).is_some() || server.code() == Some("EXECABORT"),
            _ => false,
        };
        if again {
            self.with(|core| core.stale = true)?;
        }
        Ok(again)
    }
}

/// Keys, all of one slot.
fn one_slot(keys: impl ToArgs) -> Result<Vec<Vec<u8>>> {
    let gathered = gather(|out| keys.write_args(out))?;
    let keys: Vec<Vec<u8>> =
        encode::bulk_ranges(&gathered.bytes, 0).map(|range| gathered.bytes[range].to_vec()).collect();
    let mut slots = keys.iter().map(slot_of);
    match slots.next() {
        Some(first) if slots.all(|slot| slot == first) => Ok(keys),
        Some(_) => Err(cross_slot()),
        None => Err(Error::Argument("WATCH needs at least one key")),
    }
}

#[cfg(all(test, unix, feature = "testing"))]
mod tests {
    use super::*;
    use crate::commands::StringCommands;
    use crate::testing;

    #[test]
    fn a_watch_whose_connection_was_lost_leaves_nothing_behind() -> Result<()> {
        let nodes = testing::Cluster::builder().replicas(0).start().map_err(Error::custom)?;
        let cluster = Cluster::open(nodes.urls())?;
        for n in 1..=20 {
            let count: i64 = cluster.transact("k", |_, tx| Ok(tx.incr("k")))?;
            assert_eq!(count, n);
            for index in 0..nodes.len() {
                let admin = Connection::open(nodes.node(index).url())?;
                admin.command::<i64>("CLIENT KILL", ("TYPE", "normal")).wait()?;
            }
        }
        let (mut links, mut at) = (0, &cluster.dedicated);
        while let Some(link) = at.0.get() {
            (links, at) = (links + 1, &link.next);
        }
        assert_eq!(links, 1);
        // Nor does one that is lost under the watch: its transaction is not sent.
        let watch = cluster.watch("k")?;
        let owner = nodes.owner(slot_of("k")).map_err(Error::custom)?;
        Connection::open(nodes.node(owner).url())?.command::<i64>("CLIENT KILL", ("TYPE", "normal")).wait()?;
        let tx = watch.transaction();
        tx.incr("k").detach();
        assert!(matches!(tx.commit().wait(), Err(Error::Aborted | Error::ConnectionLost(_))));
        assert_eq!(cluster.transact("k", |_, tx| Ok(tx.incr("k")))?, 21);
        Ok(())
    }
}
