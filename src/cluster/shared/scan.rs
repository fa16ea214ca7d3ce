//! All keys of a cluster that threads share, node by node.

use std::fmt;
use std::iter::FusedIterator;

use super::super::core::Core;
use super::super::scan::{Walk, Whom};
use super::books::Books;
use super::{SharedCluster, deadline, settle};
use crate::args::{Arguments, Command};
use crate::commands::{Origin, ScanOptions};
use crate::connection::{Stored, decode_whole};
use crate::error::{Error, Result};
use crate::shared::turn::Visit;
use crate::values::FromReply;

/// An iterator over the keys of all primaries, made by [`SharedCluster::scan`].
///
/// What it finds, and what becomes of it when slots move and primaries are lost, is the same as with a
/// [`ClusterScan`](crate::cluster::ClusterScan). Nothing is on its way between two calls of `next`, and other threads are not
/// kept by it. It can be sent to another thread.
///
/// It ends after its first error.
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(all(unix, feature = "testing"))] {
/// # let nodes = redefer::testing::Cluster::builder().replicas(0).start()?;
/// # let cluster = redefer::cluster::SharedCluster::open(nodes.urls())?;
/// use redefer::commands::ScanOptions;
/// use redefer::prelude::*;
///
/// cluster.mset([("user:1", 1), ("user:2", 2), ("other", 3)]).wait()?;
/// let mut users = Vec::new();
/// for key in cluster.scan_with::<String>(ScanOptions::new().match_("user:*")) {
///     users.push(key?);
/// }
/// users.sort();
/// assert_eq!(users, ["user:1", "user:2"]);
/// # }
/// # Ok(())
/// # }
/// ```
#[must_use = "a scan asks for nothing until it is iterated over"]
pub struct SharedClusterScan<'c, T> {
    cluster: &'c SharedCluster,
    walk: Walk<T>,
}

impl SharedCluster {
    /// All keys, each as a `T`. Never blocks before the first one is asked for, unless the topology has to be looked at anew.
    pub fn scan<T: FromReply>(&self) -> SharedClusterScan<'_, T> {
        self.scan_with(ScanOptions::new())
    }

    /// All keys that the options let through.
    pub fn scan_with<T: FromReply>(&self, options: ScanOptions) -> SharedClusterScan<'_, T> {
        self.look_before_all();
        let slots = self.with(Core::slots_of_primaries);
        SharedClusterScan { cluster: self, walk: Walk::new(options, slots) }
    }

    /// Asks for a page: who has answered, and what.
    fn page(&self, whom: Whom, bytes: &[u8]) -> Result<(Origin, Stored)> {
        let nodes = |core: &mut Core| match whom {
            Whom::Owner(slot) => vec![core.slots[usize::from(slot)]],
            Whom::Node(origin) => vec![origin.node],
        };
        let mut visit = self.with_room(nodes)?;
        let ticket = visit.wire().issue(|core| core.issue_page(whom, bytes));
        bring_page(visit, ticket)
    }

    /// The same with the page of a key.
    pub(crate) fn page_of_key<T: FromReply, A: Arguments>(&self, command: &Command<A>) -> Result<(Origin, T)> {
        let ticket = self.issue(command, 0, None);
        let (origin, frame) = bring_page(self.table.visit(), ticket)?;
        Ok((origin, decode_whole(&frame)?))
    }
}

/// Waits for a page, and says who has sent it.
fn bring_page(mut visit: Visit<'_, Books>, ticket: u64) -> Result<(Origin, Stored)> {
    let mut deadline = deadline(&mut visit);
    match settle(&mut visit, &mut deadline, |books| books.core().awaited(ticket)) {
        Ok(()) => visit.wire().core().take_page(ticket),
        Err(Error::Timeout) => Err(visit.wire().core().expire(ticket)),
        Err(refused) => {
            visit.wire().core().detach(ticket);
            Err(refused)
        }
    }
}

impl<T: FromReply> Iterator for SharedClusterScan<'_, T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        let cluster = self.cluster;
        self.walk.next(|whom, bytes| cluster.page(whom, bytes))
    }
}

impl<T: FromReply> FusedIterator for SharedClusterScan<'_, T> {}

impl<T> fmt::Debug for SharedClusterScan<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedClusterScan").finish_non_exhaustive()
    }
}
