//! All keys of a cluster, node by node.

use std::fmt;
use std::io;
use std::iter::FusedIterator;
use std::vec;

use super::core::{Core, NO_OWNER, NO_SLOT, NOWHERE, unsent};
use super::node::flag;
use super::ticket::Ticket;
use super::wait::Time;
use super::{Cluster, Issued};
use crate::args::{Arguments, Command, cmd};
use crate::commands::{Origin, Page, RESTARTS, ScanOptions};
use crate::connection::{Stored, decode_whole};
use crate::error::{Error, Result, WaitError};
use crate::values::FromReply;

/// An iterator over the keys of all primaries, made by [`Cluster::scan`].
///
/// It asks one primary after the other, page by page, those that had slots when it was made. A key that is there from the
/// beginning to the end is found at least once, **unless its slot moves meanwhile**: then it may be missed, or come again.
/// Valkey 9.1 has [`clusterscan`](crate::commands::ClusterCommands::clusterscan), which knows of slots.
///
/// When a primary or the connection to it is lost, the one that has its slots by then is asked from the beginning, since a cursor
/// is of use to one process of a server only: keys of those slots come again. That is waited for as for any command, for at most
/// [`Config::timeout`](crate::Config::timeout).
///
/// It ends after its first error.
#[must_use = "a scan asks for nothing until it is iterated over"]
pub struct ClusterScan<'c, T> {
    cluster: &'c Cluster,
    walk: Walk<T>,
}

/// The way through the keys of all primaries, whoever asks them.
pub(super) struct Walk<T> {
    options: ScanOptions,
    /// A slot of each primary that has not been asked.
    slots: vec::IntoIter<u16>,
    /// What has kept it from beginning, until that has been told.
    failed: Option<Error>,
    /// Those that have been asked, or are.
    asked: Vec<u16>,
    current: Option<Current>,
    items: vec::IntoIter<T>,
}

/// The primary that is being asked.
#[derive(Clone, Copy)]
struct Current {
    slot: u16,
    /// Where it is, and the cursor of its next page, when it has answered once.
    at: Option<(Origin, u64)>,
    /// How many times it was lost.
    lost: u32,
}

/// Who is asked for a page.
#[derive(Clone, Copy)]
pub(super) enum Whom {
    /// Whoever has this slot by then.
    Owner(u16),
    /// The node that has given the page before.
    Node(Origin),
}

impl Cluster {
    /// All keys, each as a `T`. Never blocks before the first one is asked for, unless the topology has to be looked at anew.
    pub fn scan<T: FromReply>(&self) -> ClusterScan<'_, T> {
        self.scan_with(ScanOptions::new())
    }

    /// All keys that the options let through.
    pub fn scan_with<T: FromReply>(&self, options: ScanOptions) -> ClusterScan<'_, T> {
        let slots = self.with(|core| {
            core.look_before_all();
            core.slots_of_primaries()
        });
        ClusterScan { cluster: self, walk: Walk::new(options, slots.and_then(|slots| slots)) }
    }

    /// Asks for a page: who has answered, and what.
    fn page(&self, whom: Whom, bytes: &[u8]) -> Result<(Origin, Stored)> {
        self.with(|core| {
            let ticket = core.issue_page(whom, bytes);
            core.bring_page(ticket)
        })?
    }

    /// The same with the page of a key.
    pub(crate) fn page_of_key<T: FromReply, A: Arguments>(&self, command: &Command<A>) -> Result<(Origin, T)> {
        let ticket = self.issue(command, 0);
        let (origin, frame) = self.with(|core| core.bring_page(ticket))??;
        Ok((origin, decode_whole(&frame)?))
    }
}

impl Core {
    /// A slot of each primary.
    pub(super) fn slots_of_primaries(&mut self) -> Result<Vec<u16>> {
        let primaries = self.primaries().to_vec();
        let slots: Vec<u16> = primaries.into_iter().filter_map(|n| self.slot_of_primary(n)).collect();
        if slots.is_empty() { Err(NO_OWNER) } else { Ok(slots) }
    }

    pub(super) fn issue_page(&mut self, whom: Whom, bytes: &[u8]) -> u64 {
        let is_there = |core: &mut Core, from: Origin| {
            core.nodes.get_mut(usize::from(from.node)).is_some_and(|node| node.has(from.number))
        };
        match whom {
            Whom::Owner(slot) => self.issue(slot, bytes, flag::IDEMPOTENT, None),
            Whom::Node(from) if is_there(self, from) => self.issue_at(from.node, NO_SLOT, bytes, flag::FIXED, None),
            Whom::Node(_) => self.born_failed(unsent(io::Error::from(io::ErrorKind::ConnectionReset).into())),
        }
    }

    fn bring_page(&mut self, ticket: u64) -> Result<(Origin, Stored)> {
        self.arrive(ticket, &mut Time::usual()).map_err(|error| match error {
            WaitError::Failed(error) => error,
            WaitError::Timeout(()) => self.expire(ticket),
        })?;
        self.take_page(ticket)
    }

    /// Takes a page that is here, and says who has sent it.
    pub(super) fn take_page(&mut self, ticket: u64) -> Result<(Origin, Stored)> {
        let node = self.node_of(ticket);
        let number = match (self.moved.get(&ticket), Ticket::of(ticket)) {
            (Some(moved), _) if moved.last != NOWHERE => Some(moved.number),
            (_, Ticket::Sent(n, place)) => self.nodes.get(usize::from(n)).and_then(|node| node.number_of(place)),
            _ => None,
        };
        // No connection has the number 0.
        Ok((Origin { node, number: number.unwrap_or(0) }, self.take(ticket)?))
    }
}

impl<T: FromReply> Walk<T> {
    /// Through primaries, each known by one of its slots.
    pub(super) fn new(options: ScanOptions, slots: Result<Vec<u16>>) -> Self {
        let (slots, failed) = match slots {
            Ok(slots) => (slots, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        Walk {
            options,
            slots: slots.into_iter(),
            failed,
            asked: Vec::new(),
            current: None,
            items: Vec::new().into_iter(),
        }
    }

    /// The next key. `ask` issues an encoded command and waits for its reply, which comes with the node that has sent it.
    pub(super) fn next(&mut self, ask: impl Fn(Whom, &[u8]) -> Result<(Origin, Stored)>) -> Option<Result<T>> {
        loop {
            if let Some(item) = self.items.next() {
                return Some(Ok(item));
            }
            if let Some(error) = self.failed.take() {
                return Some(Err(error));
            }
            match self.next_page(&ask) {
                Ok(Some(items)) => self.items = items.into_iter(),
                Ok(None) => return None,
                Err(error) => {
                    (self.slots, self.current) = (Vec::new().into_iter(), None);
                    return Some(Err(error));
                }
            }
        }
    }

    /// The next page of a primary: where it has come from, and what.
    fn page(
        &self,
        current: &Current,
        ask: impl Fn(Whom, &[u8]) -> Result<(Origin, Stored)>,
    ) -> Result<(Origin, Page<T>)> {
        let (whom, cursor) = match current.at {
            None => (Whom::Owner(current.slot), 0),
            Some((origin, cursor)) => (Whom::Node(origin), cursor),
        };
        let Issued { bytes, .. } = Issued::of(&cmd("SCAN").arg(cursor).options(&self.options))?;
        let (origin, frame) = ask(whom, &bytes)?;
        Ok((origin, decode_whole(&frame)?))
    }

    /// The next page that has keys nobody has seen, if there is one.
    fn next_page(&mut self, ask: impl Fn(Whom, &[u8]) -> Result<(Origin, Stored)>) -> Result<Option<Vec<T>>> {
        let mut current = match self.current {
            Some(current) => current,
            None => match self.slots.next() {
                Some(slot) => Current { slot, at: None, lost: 0 },
                None => return Ok(None),
            },
        };
        // Should a panic end this, it is asked again.
        self.current = Some(current);
        let (origin, page) = loop {
            match self.page(&current, &ask) {
                Err(error) if current.at.is_some() && error.is_connection_lost() && current.lost < RESTARTS => {
                    current = Current { at: None, lost: current.lost + 1, ..current };
                    self.asked.pop();
                }
                outcome => break outcome?,
            }
        };
        if current.at.is_none() {
            if self.asked.contains(&origin.node) {
                // It has taken over the slots of another one, and has been asked for all that it has.
                self.current = None;
                return Ok(Some(Vec::new()));
            }
            self.asked.push(origin.node);
        }
        self.current = (page.cursor != 0).then_some(Current { at: Some((origin, page.cursor)), ..current });
        Ok(Some(page.items))
    }
}

impl<T: FromReply> Iterator for ClusterScan<'_, T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        let cluster = self.cluster;
        self.walk.next(|whom, bytes| cluster.page(whom, bytes))
    }
}

impl<T: FromReply> FusedIterator for ClusterScan<'_, T> {}

impl<T> fmt::Debug for ClusterScan<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterScan").finish_non_exhaustive()
    }
}
