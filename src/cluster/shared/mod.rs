//! One cluster for many threads.

mod batch;
mod books;
mod bulk;
mod bytes;
mod dedicated;
mod duties;
mod execute;
#[cfg(all(loom, test))]
mod model;
mod reply;
mod scan;
mod transaction;
mod wire;

use std::fmt;
use std::time::Duration;

pub use batch::SharedClusterBatch;
use books::{Books, FRESH};
pub use bulk::SharedClusterMultiBulk;
pub use reply::{SharedClusterQueued, SharedClusterReply};
pub use scan::SharedClusterScan;
pub use transaction::SharedClusterTransaction;

use super::config::IntoClusterConfig;
use super::core::Core;
use super::wait::Time;
use super::{Cluster, ClusterStats};
use crate::connection::{Deadline, Stored, Waker, Want};
use crate::error::{Error, Result, WaitError};
use crate::shared::sync::Arc;
use crate::shared::turn::{Table, Visit};

/// One cluster for many threads: what [`Shared`](crate::Shared) is for one connection, and a [`Cluster`] in everything else.
///
/// Commands are issued on `&SharedCluster` by any thread; clones are the same cluster. There is one connection to each node.
/// Threads that wait at the same time have their commands written together, and one of them waits for the replies of all
/// nodes, for all. There is no thread in the background and no runtime: an idle one does nothing.
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(all(unix, feature = "testing"))] {
/// # let nodes = redefer::testing::Cluster::builder().replicas(0).start()?;
/// # let urls = nodes.urls();
/// use std::thread;
///
/// use redefer::cluster::SharedCluster;
/// use redefer::prelude::*;
///
/// let cluster = SharedCluster::open(urls)?;
/// thread::scope(|scope| {
///     for n in 0..8 {
///         let cluster = &cluster;
///         scope.spawn(move || cluster.set(format!("user:{n}"), n).wait().unwrap());
///     }
/// });
/// let users: Vec<i64> = cluster.mget(["user:3", "user:5"]).wait()?;
/// assert_eq!(users, [3, 5]);
///
/// // A thread that outlives this one takes a clone.
/// let theirs = cluster.clone();
/// let thread = thread::spawn(move || theirs.dbsize().wait());
/// assert_eq!(thread.join().unwrap()?, 8);
/// # }
/// # Ok(())
/// # }
/// ```
///
/// Where commands go, what is followed, and what happens when nodes fail, is the same as with a [`Cluster`]: see the
/// [module](crate::cluster).
///
/// # What is not there
///
/// What one thread does must not be felt by the others: there are no commands that hold a connection (BLPOP, WAIT, XREAD with
/// BLOCK), and no WATCH. These do not compile, and by name they are [`Error::Refused`]. Nor are there values that are fed from
/// readers or copied to writers. For all of them, take a [`Cluster`], or a connection [to a node](SharedCluster::connection_to).
///
/// # Order
///
/// The commands of one thread for one slot run in the order in which it issues them, through redirects and retries, with the
/// [exception](crate::cluster#order) that a cluster has. Those of several threads, and for several slots, in any.
///
/// # Threads that fail
///
/// A thread that panics, also inside a [`FromReply`](crate::FromReply), times out, forgets its handles or ends harms no other.
/// `FromReply` runs without any lock, and may use the same cluster; so may a `ToArg`.
///
/// # Connections and the topology
///
/// A connection to a node is made, and the topology looked at, by a thread whose command waits for that, while others wait
/// for the replies of other nodes with their own deadlines. If all handles of such commands were given up, whichever thread
/// waits for something does it, and is kept by that for a second at most.
///
/// # Limits
///
/// Beyond [`Config::max_outstanding`](crate::Config::max_outstanding) replies of a node, or
/// [`Config::max_outstanding_bytes`](crate::Config::max_outstanding_bytes) bytes of commands without a reply, issuing a command
/// for that node waits, for at most [`Config::timeout`](crate::Config::timeout): then its handle has [`Error::Timeout`], and it
/// is not sent. The same holds for `max_outstanding` commands that wait for being sent at all.
///
/// # Drop
///
/// The last clone closes the connections as the drop of a [`Cluster`] does.
#[derive(Clone)]
pub struct SharedCluster {
    table: Arc<Table<Books>>,
}

impl SharedCluster {
    /// Asks for the topology, as [`Cluster::open`] does.
    ///
    /// # Errors
    ///
    /// Those of [`Cluster::open`], and [`Error::Io`] if the system is short of descriptors.
    pub fn open(config: impl IntoClusterConfig) -> Result<SharedCluster> {
        Cluster::open(config)?.into_shared()
    }

    /// Sends everything that has been gathered, by any thread, and makes connections that this needs. Blocks until the operating
    /// system has taken it, for at most [`Config::timeout`](crate::Config::timeout).
    ///
    /// # Errors
    ///
    /// [`Error::Timeout`]. What goes wrong with a node is told to the handles.
    pub fn flush(&self) -> Result<()> {
        let mut visit = self.table.visit();
        let mut deadline = deadline(&mut visit);
        for ticket in visit.wire().all_unwritten() {
            visit.wait(Want::Written(ticket), &mut deadline)?.map(drop)?;
        }
        Ok(())
    }

    /// Sends everything, waits until everything has been read that was issued before, by whatever thread, and returns the first
    /// error that nobody has seen: of a reply whose handle was dropped or [detached](SharedClusterReply::detach). The account,
    /// which all threads share, is empty afterwards.
    ///
    /// # Errors
    ///
    /// That error, or [`Error::Timeout`].
    pub fn sync(&self) -> Result<()> {
        let mut visit = self.table.visit();
        let mut deadline = deadline(&mut visit);
        let issued = visit.wire().issued();
        while let Some(ticket) = visit.wire().unsettled(&issued) {
            visit.wait(Want::Settled(ticket), &mut deadline)?.map(drop)?;
        }
        visit.wire().core().take_account()
    }

    /// How many commands were issued by any thread and have not been answered, a transaction counting as one. Never blocks.
    pub fn outstanding(&self) -> usize {
        self.with(|core| core.count_outstanding())
    }

    /// What the cluster has done so far, for all threads. Never blocks.
    pub fn stats(&self) -> ClusterStats {
        self.with(Core::stats)
    }

    // For the handles.

    /// Waits for a reply, and takes it. After a timeout the ticket is as good as before.
    fn fetch_before(&self, ticket: u64, own: Option<Deadline>) -> Result<Stored, WaitError<()>> {
        let mut visit = self.table.visit();
        let mut deadline = own.unwrap_or_else(|| deadline(&mut visit));
        let brought = match visit.wait(Want::Reply(ticket), &mut deadline) {
            Ok(outcome) => outcome,
            Err(Error::Timeout) => return Err(WaitError::Timeout(())),
            Err(refused) => {
                visit.wire().core().detach(ticket);
                return Err(refused.into());
            }
        };
        // What is left is done without the lock.
        drop(visit);
        Ok(brought?.whole()?)
    }

    /// The same, for as long as the configuration allows. The ticket is used up, whatever comes.
    fn fetch(&self, ticket: u64) -> Result<Stored> {
        self.fetch_before(ticket, None).map_err(|error| match error {
            WaitError::Failed(error) => error,
            WaitError::Timeout(()) => self.table.visit().wire().expire(ticket),
        })
    }

    fn fetch_within(&self, ticket: u64, time: Duration) -> Result<Stored, WaitError<()>> {
        self.fetch_before(ticket, Some(Deadline::tentative(time)))
    }

    fn is_ready(&self, ticket: u64) -> bool {
        let mut visit = self.table.visit();
        visit.wire().poll();
        visit.wire().is_here(ticket)
    }

    fn detach(&self, ticket: u64) {
        self.with(|core| core.detach(ticket));
    }

    /// What the drop of a live handle does: waits for its reply, unless that could take long.
    fn drop_reply(&self, ticket: u64) {
        let mut visit = self.table.visit();
        let mut deadline = deadline(&mut visit);
        // Whatever is the matter, the account is told what its reply is.
        let _ = settle(&mut visit, &mut deadline, |books| books.may_wait_in_drop(ticket));
        visit.wire().core().detach(ticket);
    }

    /// Runs on the books, under the lock.
    fn with<R>(&self, run: impl FnOnce(&mut Core) -> R) -> R {
        run(self.table.visit().wire().core())
    }

    /// Looks at the topology first, if it has proved wrong.
    fn freshen(&self) {
        let mut visit = self.table.visit();
        let mut deadline = deadline(&mut visit);
        // Whatever is the matter, commands tell it that meet with it.
        let _ = visit.wait(Want::Settled(FRESH), &mut deadline);
    }

    /// The same, before something goes to all nodes.
    fn look_before_all(&self) {
        self.with(Core::doubt_strangers);
        self.freshen();
    }

    /// Comes to the table when there is room for a command at these nodes.
    fn with_room(&self, nodes: impl Fn(&mut Core) -> Vec<u16>) -> Result<Visit<'_, Books>> {
        let mut visit = self.table.visit();
        if !visit.wire().is_roomy() {
            let mut deadline = deadline(&mut visit);
            while let Some(n) = visit.wire().without_room(&nodes) {
                visit.wait(Want::Room(u64::from(n)), &mut deadline)?.map(drop)?;
            }
        }
        Ok(visit)
    }
}

/// Waits for what this names, one after the other, until it names nothing more.
fn settle(
    visit: &mut Visit<'_, Books>,
    deadline: &mut Deadline,
    mut next: impl FnMut(&mut Books) -> Option<u64>,
) -> Result<()> {
    while let Some(at) = next(visit.wire()) {
        if let Err(error) = visit.wait(Want::Settled(at), deadline) {
            if let Error::Timeout = error {
                visit.wire().note_silent(at);
            }
            return Err(error);
        }
    }
    Ok(())
}

/// The usual deadline.
fn deadline(visit: &mut Visit<'_, Books>) -> Deadline {
    Deadline::new(visit.wire().core().timeout())
}

impl Cluster {
    /// Lets threads share the cluster. Reads everything outstanding first, for at most
    /// [`Config::timeout`](crate::Config::timeout).
    ///
    /// # Errors
    ///
    /// [`Error::Timeout`], and [`Error::Io`] if the system is short of descriptors. The connections are closed then.
    pub fn into_shared(mut self) -> Result<SharedCluster> {
        let core = self.core.get_mut();
        core.settle_all(&mut Time::usual()).map_err(|error| match error {
            WaitError::Failed(error) => error,
            WaitError::Timeout(()) => Error::Timeout,
        })?;
        let waker = Waker::new()?;
        let empty = Core::new(core.config.clone());
        let books = Books::new(std::mem::replace(core, empty), waker);
        Ok(SharedCluster { table: Arc::new(Table::new(books)) })
    }
}

impl TryFrom<Cluster> for SharedCluster {
    type Error = Error;

    /// See [`Cluster::into_shared`].
    fn try_from(cluster: Cluster) -> Result<SharedCluster> {
        cluster.into_shared()
    }
}

impl fmt::Debug for SharedCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What it is written to is not this crate's own, and may be waiting for another thread.
        let (nodes, outstanding) = self.with(|core| core.summary());
        f.debug_struct("SharedCluster")
            .field("nodes", &nodes)
            .field("outstanding", &outstanding)
            .finish_non_exhaustive()
    }
}
