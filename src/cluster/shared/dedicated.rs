//! Connections to single nodes, for what needs one to itself.

use super::super::core::Core;
use super::super::slot_of;
use super::SharedCluster;
use crate::args::{ToArg, bytes_of};
use crate::connection::{Connection, Reconnect};
use crate::error::{Error, Result};
use crate::pubsub::Subscriber;

impl SharedCluster {
    /// Opens a connection of its own to the primary that has a key, as far as is known: see
    /// [`Cluster::connection_to`](super::super::Cluster::connection_to). For blocking commands, WATCH, subscriptions, and what is
    /// about one node or one connection.
    ///
    /// # Errors
    ///
    /// Those of [`Connection::open`].
    pub fn connection_to(&self, key: impl ToArg) -> Result<Connection> {
        let slot = slot_of(&bytes_of(&key)?);
        self.freshen();
        let (way, most) = self.with(|core| {
            let address = core.owner(slot)?;
            Ok::<_, Error>((core.way_to(&address), core.config.base.max_outstanding))
        })?;
        Connection::open(way.config().max_outstanding(most))
    }

    /// Opens a connection to every primary, in the order of their slots: see
    /// [`Cluster::connections`](super::super::Cluster::connections).
    ///
    /// # Errors
    ///
    /// Those of [`Connection::open`].
    pub fn connections(&self) -> Result<Vec<Connection>> {
        self.freshen();
        let (ways, most) = self.with(|core| {
            let primaries = core.primaries().to_vec();
            let way = |n: u16| core.way_to(&core.nodes[usize::from(n)].address);
            (primaries.into_iter().map(way).collect::<Vec<_>>(), core.config.base.max_outstanding)
        });
        ways.into_iter().map(|way| Connection::open(way.config().max_outstanding(most))).collect()
    }

    /// Opens a subscriber on the primary that has a shard channel, for the thread that calls this: see
    /// [`Cluster::shard_subscriber`](super::super::Cluster::shard_subscriber). With a policy it follows the slot of that channel.
    ///
    /// # Errors
    ///
    /// Those of [`Connection::open`].
    pub fn shard_subscriber(&self, shard_channel: impl ToArg, policy: Reconnect) -> Result<Subscriber> {
        let slot = slot_of(bytes_of(&shard_channel)?);
        if policy.is_never() {
            return self.connection_to(shard_channel)?.into_subscriber();
        }
        Subscriber::open(self.with(Core::whereabouts).home_of(slot, policy))
    }

    /// Opens a subscriber for ordinary channels and patterns, on any node, for the thread that calls this: see
    /// [`Cluster::subscriber`](super::super::Cluster::subscriber). With a policy it goes to another node when its own fails.
    ///
    /// # Errors
    ///
    /// Those of [`Connection::open`], when no node can be reached.
    pub fn subscriber(&self, policy: Reconnect) -> Result<Subscriber> {
        Subscriber::open(self.with(Core::whereabouts).anywhere(policy))
    }
}
