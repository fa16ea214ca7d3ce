//! All keys of a cluster, node by node.

use std::fmt;
use std::iter::FusedIterator;
use std::vec;

use super::core::NO_SLOT;
use super::node::flag;
use super::wait::Time;
use super::{Cluster, Issued};
use crate::args::cmd;
use crate::commands::{Page, ScanOptions};
use crate::connection::decode_whole;
use crate::error::{Error, Result, WaitError};
use crate::values::FromReply;

/// An iterator over the keys of all primaries, made by [`Cluster::scan`].
///
/// It asks one primary after the other, page by page, those that had slots when it was made. A key that is there from the
/// beginning to the end is found at least once, **unless its slot moves meanwhile**: then it may be missed, or come again.
/// Valkey 9.1 has [`clusterscan`](crate::commands::ClusterCommands::clusterscan), which knows of slots.
///
/// When a primary is lost, the one that takes over its slots is asked from the beginning, since a cursor is of use to one server
/// only: keys of those slots come again. That is waited for as for any command, for at most
/// [`Config::timeout`](crate::Config::timeout).
///
/// It ends after its first error.
pub struct ClusterScan<'c, T> {
    cluster: &'c Cluster,
    options: ScanOptions,
    /// A slot of each primary that has not been asked.
    slots: vec::IntoIter<u16>,
    /// Those that have been asked, or are.
    asked: Vec<u16>,
    current: Option<Current>,
    items: vec::IntoIter<T>,
}

/// The primary that is being asked.
struct Current {
    slot: u16,
    /// Which it is, and the cursor of its next page, when it has answered once.
    at: Option<(u16, u64)>,
    /// How many times it was lost.
    lost: u32,
}

/// How often the keys of one primary are asked for from the beginning.
const RETRIES: u32 = 15;

impl Cluster {
    /// All keys, each as a `T`. Never blocks before the first one is asked for, unless the topology has to be looked at anew.
    pub fn scan<T: FromReply>(&self) -> ClusterScan<'_, T> {
        self.scan_with(ScanOptions::new())
    }

    /// All keys that the options let through.
    pub fn scan_with<T: FromReply>(&self, options: ScanOptions) -> ClusterScan<'_, T> {
        let slots = self.with(|core| {
            core.look_before_all();
            let primaries = core.primaries().to_vec();
            primaries.into_iter().filter_map(|n| core.slot_of_primary(n)).collect()
        });
        ClusterScan {
            cluster: self,
            options,
            slots: slots.unwrap_or_else(|_| Vec::new()).into_iter(),
            asked: Vec::new(),
            current: None,
            items: Vec::new().into_iter(),
        }
    }
}

impl<T: FromReply> ClusterScan<'_, T> {
    /// Asks for the next page: which node has answered, if it is the first one, and what.
    fn page(&self, current: &Current) -> Result<(u16, Page<T>)> {
        let cursor = current.at.map_or(0, |(_, cursor)| cursor);
        let Issued { bytes, .. } = Issued::of(&cmd("SCAN").arg(cursor).options(&self.options))?;
        let (n, frame) = self.cluster.with(|core| {
            let ticket = match current.at {
                // Whoever has the slot by then.
                None => core.issue(current.slot, &bytes, flag::IDEMPOTENT, None),
                Some((n, _)) => core.issue_at(n, NO_SLOT, &bytes, flag::FIXED, None),
            };
            core.arrive(ticket, &mut Time::usual()).map_err(|error| match error {
                WaitError::Failed(error) => error,
                WaitError::Timeout(()) => core.expire(ticket),
            })?;
            Ok::<_, Error>((core.node_of(ticket), core.take(ticket)?))
        })??;
        Ok((n, decode_whole(&frame)?))
    }

    /// The next page that has keys nobody has seen, if there is one.
    fn next_page(&mut self) -> Result<Option<Vec<T>>> {
        let mut current = match self.current.take() {
            Some(current) => current,
            None => match self.slots.next() {
                Some(slot) => Current { slot, at: None, lost: 0 },
                None => return Ok(None),
            },
        };
        let (n, page) = loop {
            match self.page(&current) {
                Err(error) if current.at.is_some() && error.is_connection_lost() && current.lost < RETRIES => {
                    current = Current { at: None, lost: current.lost + 1, ..current };
                    self.asked.pop();
                }
                outcome => break outcome?,
            }
        };
        if current.at.is_none() {
            if self.asked.contains(&n) {
                // It has taken over the slots of another one, and has been asked for all that it has.
                return Ok(Some(Vec::new()));
            }
            self.asked.push(n);
        }
        self.current = (page.cursor != 0).then_some(Current { at: Some((n, page.cursor)), ..current });
        Ok(Some(page.items))
    }
}

impl<T: FromReply> Iterator for ClusterScan<'_, T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        loop {
            if let Some(item) = self.items.next() {
                return Some(Ok(item));
            }
            match self.next_page() {
                Ok(Some(items)) => self.items = items.into_iter(),
                Ok(None) => return None,
                Err(error) => {
                    self.slots = Vec::new().into_iter();
                    return Some(Err(error));
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
