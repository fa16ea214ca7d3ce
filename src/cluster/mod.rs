//! Redis Cluster and Valkey Cluster: many nodes, used like one connection.
//!
//! [`Cluster`] has the same command traits as a [`Connection`](crate::Connection), and the same lazy handles: commands go to the node that has
//! their slot, pipelined for each node, and handles are waited for in any order. [`SharedCluster`] is the same for threads.
//!
//! ```
//! # fn main() -> redefer::Result<()> {
//! # #[cfg(all(unix, feature = "testing"))] {
//! # let nodes = redefer::testing::Cluster::builder().replicas(0).start()?;
//! # let urls = nodes.urls();
//! use redefer::cluster::Cluster;
//! use redefer::prelude::*;
//!
//! let cluster = Cluster::open(urls)?;                      // one URL, or several
//! let name = cluster.set("name", "Ada");                   // to one node …
//! let visits = cluster.incr("visits");                     // … and to another
//! assert_eq!(visits.wait()?, 1);
//! name.wait()?;
//!
//! // Keys of several slots, where a command can be divided.
//! let both: Vec<Option<String>> = cluster.mget(["name", "nobody"]).wait()?;
//! assert_eq!(both, [Some("Ada".to_owned()), None]);
//! assert_eq!(cluster.dbsize().wait()?, 2);                 // of all primaries together
//! # }
//! # Ok(())
//! # }
//! ```
//!
//! # Where commands go
//!
//! | command | goes |
//! | --- | --- |
//! | with keys of one slot | to the primary that has it, or with [`ReadFrom`] a command that only reads to a replica |
//! | MGET, MSET, MSETEX without NX and XX, DEL, UNLINK, EXISTS, TOUCH with keys of several slots | in parts, one for each slot; the replies are put together in order. **Not one atomic step**: some parts may have run when another one fails, and the first error is told |
//! | others with keys of several slots | nowhere: an error of the code CROSSSLOT, and nothing is sent |
//! | ECHO, TIME, INFO, PUBLISH, FUNCTION STATS, scripts without keys, questions about the cluster | to any primary |
//! | PING, DBSIZE, KEYS, RANDOMKEY, FLUSHALL, FLUSHDB, WAIT, WAITAOF, SCRIPT EXISTS, SCRIPT KILL, FUNCTION LOAD, MEMORY PURGE, CLUSTER SLOT-STATS and the like | to all primaries; the sum, all elements, one element, the least, whether all are so, or the first reply; of the two KILLs the one that has succeeded. The part of a primary that cannot be reached goes to whoever has its slots within the response timeout; WAIT and WAITAOF, which are about one connection's writes, are lost with that |
//! | CONFIG SET, SCRIPT LOAD, SCRIPT FLUSH, ACL SETUSER, SLOWLOG, LATENCY RESET, PUBSUB and the like | to all nodes, replicas included; a replica that cannot be reached is an error |
//! | what is about one connection or one node, such as CLIENT, LATENCY LATEST and MEMORY STATS | nowhere: [`Error::Refused`]; [`Cluster::connection_to`] and [`Cluster::connections`] are for that |
//! | HSCAN, SSCAN and ZSCAN | to the primary that has the key, also with [`ReadFrom`]: a cursor is of use to one server only. If another one has it at the next page, the iterators begin anew, so that elements come again |
//! | by name ([`Cluster::command`]) | as the servers say: COMMAND INFO is asked once for each name that is not known here, and COMMAND GETKEYS each time for the few whose keys cannot be found otherwise |
//!
//! That is what the servers recommend in COMMAND INFO (`request_policy` and `response_policy`), but for those whose answers cannot be
//! made one: of these INFO and FUNCTION STATS tell of one node, and the others are refused.
//!
//! # How nodes are reached
//!
//! Where they say in CLUSTER SLOTS and in redirects, be that an address, an IPv6 address or a name; a node that tells no host is on that of
//! the node that was asked. [`ClusterConfig::resolve_with`] changes that, for clients behind NAT. User, password, TLS and timeouts are
//! those of the first URL or [`Config`](crate::Config) for all nodes. A node that refuses these fails the commands for it at once, with
//! its error; [`Config::credentials`](crate::Config::credentials) is asked again for each connection. Over TLS nodes tell their ports for
//! TLS if they have `tls-cluster yes`.
//!
//! # Redirects
//!
//! MOVED and ASK are followed, up to [16 times](ClusterConfig::redirects) for one command; TRYAGAIN, CLUSTERDOWN, LOADING and
//! READONLY (a primary that has become a replica) are tried again after a pause, as long as the response timeout allows. All
//! of these say that the command did not run; of a script, which may end with such a word of its own, only where they are in the
//! servers' words. What happens when a connection breaks is the same as with a
//! [reconnect policy](crate::Reconnect): a command that was not sent goes elsewhere, one that was sent, even in part, is
//! [`Error::ConnectionLost`] and never sent again, unless it is [idempotent](Cluster::idempotent), or only reads and was sent to a
//! replica. A node that is silent for a second while others say that it is no longer a primary, or that it has failed, is given up
//! in the same way, long before the response timeout.
//!
//! # Order
//!
//! Commands of one slot run in the order of their calls, also when the slot moves meanwhile: a new command for a slot is held
//! back until those that were sent to its old node are answered or on their way to the new one. What cannot be mended is
//! what had been sent already behind a command that was refused for a while: of two commands of one slot that were sent one
//! behind the other, the second may run, and the first be told TRYAGAIN or ASK and run later. Wait for the first if that
//! matters. Commands of different slots have no order among them, and neither have reads from replicas.
//!
//! # What an acknowledged write is worth
//!
//! Replication is asynchronous: a primary that dies may take with it what it has acknowledged and not passed on. WAIT
//! ([`wait`](crate::commands::BlockingKeyCommands::wait)) asks how many replicas have what was written before.

mod batch;
mod bulk;
mod config;
mod core;
mod dedicated;
mod dial;
mod events;
mod execute;
mod home;
mod kinds;
mod node;
mod pump;
mod redirect;
mod reply;
mod scan;
mod settle;
mod shared;
mod slab;
mod slot;
mod spread;
mod streamed;
mod ticket;
mod topology;
mod transaction;
mod wait;

use std::cell::RefCell;
use std::fmt;

use self::core::Core;
use self::dedicated::Dedicated;
use self::wait::Time;
use crate::connection::IN_USE;
use crate::error::{Error, Result, WaitError};
use crate::idempotent::Idempotent;

pub use batch::ClusterBatch;
pub use bulk::ClusterMultiBulk;
pub use config::{ClusterConfig, IntoClusterConfig, ReadFrom};
pub(in crate::cluster) use execute::Issued;
pub use reply::{ClusterQueued, ClusterReply};
pub use scan::ClusterScan;
pub use shared::{
    SharedCluster, SharedClusterBatch, SharedClusterMultiBulk, SharedClusterQueued, SharedClusterReply,
    SharedClusterScan, SharedClusterTransaction,
};
pub(crate) use slot::hash_tag;
pub use slot::slot_of;
pub use transaction::ClusterTransaction;

/// A cluster: connections to its nodes, made when they are needed, and one set of books for all.
///
/// See the [module](self) for where commands go and what happens when slots move and nodes fail.
///
/// A cluster is [`Send`] and not [`Sync`], like a [`Connection`](crate::Connection): it belongs to one thread at a time. Threads
/// that want to share one turn it [into a `SharedCluster`](Cluster::into_shared). Handles borrow it and cannot outlive it.
///
/// # Blocking
///
/// The first command for a node connects to it, which takes up to [`Config::connect_timeout`](crate::Config::connect_timeout). A blocking command such as
/// BLPOP holds the connection to its node, and everything behind it there: give it a cluster or a
/// [connection](Cluster::connection_to) of its own.
///
/// # Drop
///
/// Sends what has been gathered and reads what is outstanding for at most [`Config::linger`](crate::Config::linger), and then
/// drops the connections, each of which may take as long again. While the thread is panicking it does no I/O.
pub struct Cluster {
    core: RefCell<Core>,
    dedicated: Dedicated,
}

/// What a cluster has done so far: see [`Cluster::stats`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClusterStats {
    /// How many connections to nodes there are.
    pub connections: u64,
    /// How many primaries have slots, as far as is known.
    pub primaries: u64,
    /// How many answers sent a command elsewhere, or asked for another try.
    pub redirects: u64,
    /// How many times the topology was asked for.
    pub refreshes: u64,
    /// How many errors nobody has seen since the last [`Cluster::sync`].
    pub unseen_errors: u64,
}

impl Cluster {
    /// Asks a node for the topology, and more nodes if the first does not answer. Connections to nodes are made when commands
    /// go there.
    ///
    /// Takes a URL, a [`Config`](crate::Config), several URLs, or a [`ClusterConfig`]. Blocks for at most [`Config::connect_timeout`](crate::Config::connect_timeout) for
    /// each address given.
    ///
    /// # Errors
    ///
    /// Those of [`Connection::open`](crate::Connection::open), of the first address if none is of use; [`Error::Server`] from a server that is no cluster
    /// node.
    pub fn open(config: impl IntoClusterConfig) -> Result<Cluster> {
        let config = config.into_cluster_config()?;
        let time = config.base.connect_timeout;
        let learns = config.read_from != ReadFrom::Primary;
        let seeds = config.seeds.len() as u32;
        let mut core = Core::new(config);
        core.refresh(time, time.saturating_mul(seeds))?;
        if learns {
            core.learn_reading()?;
        }
        Ok(Cluster { core: RefCell::new(core), dedicated: Dedicated::default() })
    }

    /// Runs on the books, unless they are in use further up the stack.
    #[inline(always)]
    fn with<R>(&self, run: impl FnOnce(&mut Core) -> R) -> Result<R> {
        match self.core.try_borrow_mut() {
            Ok(mut core) => Ok(run(&mut core)),
            Err(_) => Err(Error::Refused(IN_USE)),
        }
    }

    /// The same cluster, for commands that may be sent more than once: they are sent again, up to three times, when a
    /// connection breaks before their reply has come. See [`Connection::idempotent`](crate::Connection::idempotent).
    pub fn idempotent(&self) -> Idempotent<&Cluster> {
        Idempotent::new(self)
    }

    /// Sends everything that has been gathered. Blocks until the operating system has taken it, for at most
    /// [`Config::timeout`](crate::Config::timeout).
    ///
    /// # Errors
    ///
    /// [`Error::Timeout`]. What goes wrong with a node is told to the handles.
    pub fn flush(&self) -> Result<()> {
        self.with(Core::flush)?
    }

    /// Sends everything, reads everything outstanding from all nodes, and returns the first error that nobody has seen: of a
    /// reply whose handle was dropped or detached. Blocks for at most [`Config::timeout`](crate::Config::timeout), longer if blocking commands
    /// are outstanding.
    ///
    /// # Errors
    ///
    /// That error, or [`Error::Timeout`].
    pub fn sync(&self) -> Result<()> {
        self.with(|core| match core.settle_all(&mut Time::usual()) {
            Err(WaitError::Timeout(())) => Err(Error::Timeout),
            Err(WaitError::Failed(error)) => Err(error),
            Ok(()) => core.take_account(),
        })?
    }

    /// How many commands were issued and have not been answered, a transaction counting as one. Never blocks.
    pub fn outstanding(&self) -> usize {
        self.with(|core| core.count_outstanding()).unwrap_or(0)
    }

    /// What the cluster has done so far. Never blocks.
    pub fn stats(&self) -> ClusterStats {
        self.with(Core::stats).unwrap_or_default()
    }
}

impl Core {
    fn stats(&mut self) -> ClusterStats {
        ClusterStats {
            connections: self.nodes.iter().filter(|node| node.conn.is_some()).count() as u64,
            primaries: self.primaries().len() as u64,
            redirects: self.redirected,
            refreshes: self.refreshes,
            unseen_errors: self.unseen,
        }
    }

    /// What Debug shows of a cluster: its nodes, and how many commands are outstanding.
    fn summary(&self) -> (Vec<String>, usize) {
        (self.nodes.iter().map(|node| node.address.to_string()).collect(), self.count_outstanding())
    }

    /// What the drop of a cluster does.
    fn end(&mut self) {
        if !std::thread::panicking() {
            let linger = self.config.base.linger;
            let _ = self.settle_all(&mut Time::at_most(linger));
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.core.get_mut().end();
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Cluster");
        if let Ok(core) = self.core.try_borrow() {
            let (nodes, outstanding) = core.summary();
            out.field("nodes", &nodes).field("outstanding", &outstanding);
        }
        out.finish_non_exhaustive()
    }
}
