//! All keys of a cluster, node by node.

use std::fmt;
use std::iter::FusedIterator;
use std::vec;

use super::core::NO_SLOT;
use super::node::flag;
use super::{Cluster, Issued};
use crate::args::cmd;
use crate::commands::{Page, ScanOptions};
use crate::error::{Error, Result};
use crate::values::FromReply;

/// An iterator over the keys of all primaries, made by [`Cluster::scan`].
///
/// It asks one primary after the other, page by page, those that had slots when it was made. A key that is there from the
/// beginning to the end is found at least once, **unless its slot moves meanwhile**: then it may be missed, or come again.
/// Valkey 9.1 has [`clusterscan`](crate::commands::ClusterCommands::clusterscan), which knows of slots.
///
/// It ends after its first error.
pub struct ClusterScan<'c, T> {
    cluster: &'c Cluster,
    options: ScanOptions,
    nodes: vec::IntoIter<u16>,
    /// The node that is being asked, and the cursor of its next page.
    current: Option<(u16, u64)>,
    items: vec::IntoIter<T>,
}

impl Cluster {
    /// All keys, each as a `T`. Never blocks before the first one is asked for, unless the topology has to be looked at anew.
    pub fn scan<T: FromReply>(&self) -> ClusterScan<'_, T> {
        self.scan_with(ScanOptions::new())
    }

    /// All keys that the options let through.
    pub fn scan_with<T: FromReply>(&self, options: ScanOptions) -> ClusterScan<'_, T> {
        let nodes = self.with(|core| {
            // Those that are known to be gone are not asked again.
            let timeout = core.timeout();
            core.refresh_if_due(timeout);
            core.primaries().to_vec()
        });
        let nodes = nodes.unwrap_or_default();
        ClusterScan { cluster: self, options, nodes: nodes.into_iter(), current: None, items: Vec::new().into_iter() }
    }
}

impl<T: FromReply> ClusterScan<'_, T> {
    fn page(&mut self, n: u16, cursor: u64) -> Result<Page<T>> {
        let Issued { bytes, .. } = Issued::of(&cmd("SCAN").arg(cursor).options(&self.options))?;
        let flags = flag::FIXED | flag::IDEMPOTENT;
        let ticket = self.cluster.with(|core| core.issue_at(n, NO_SLOT, &bytes, flags, None))?;
        self.cluster.wait(ticket)
    }
}

impl<T: FromReply> Iterator for ClusterScan<'_, T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        loop {
            if let Some(item) = self.items.next() {
                return Some(Ok(item));
            }
            let (n, cursor) = match self.current.take() {
                Some(current) => current,
                None => (self.nodes.next()?, 0),
            };
            match self.page(n, cursor) {
                Ok(page) => {
                    self.items = page.items.into_iter();
                    self.current = (page.cursor != 0).then_some((n, page.cursor));
                }
                Err(error) => {
                    self.nodes = Vec::new().into_iter();
                    return Some(Err::<T, Error>(error));
                }
            }
        }
    }
}

impl<T: FromReply> FusedIterator for ClusterScan<'_, T> {}

impl<T> fmt::Debug for ClusterScan<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterScan").finish_non_exhaustive()
    }
}
