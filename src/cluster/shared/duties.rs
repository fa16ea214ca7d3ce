//! What is to be done besides waiting for the sockets: connections that are to be made, and looks at the topology.

use std::time::{Duration, Instant};

use super::super::core::{NO_SLOT, Where};
use super::super::node::Node;
use super::super::topology::Looked;
use super::super::wait::DOUBT;
use super::books::Books;
use crate::error::Result;

/// How long a connection is wanted before a thread makes it that has no use for it.
pub(super) const STRANGERS: Duration = Duration::from_millis(10);

impl Books {
    /// Takes over what a look at the topology has brought.
    pub(super) fn looked(&mut self, looked: Looked) -> Result<()> {
        let outcome = self.core.looked(looked);
        if outcome.is_ok() {
            self.give_up_the_doubted();
        }
        self.core.due = Some(Instant::now());
        self.event();
        outcome
    }

    fn is_wanted(node: &Node) -> bool {
        node.wanted.is_some() && node.dial.strong_count() == 0
    }

    /// The node that the commands of a slot wait for, if nobody connects to it.
    pub(super) fn dial_for(&self, slot: u16) -> Option<u16> {
        let n = self.core.troubles.get(&slot)?.dial?;
        let nodes = &self.core.nodes;
        if slot == NO_SLOT {
            // They are for several.
            return nodes.iter().position(Self::is_wanted).map(|n| n as u16);
        }
        nodes.get(usize::from(n)).is_some_and(Self::is_wanted).then_some(n)
    }

    pub(super) fn dial_at(&self, at: u64) -> Option<u16> {
        match self.locate(at) {
            Where::Parked(slot) => self.dial_for(slot),
            _ => self.core.nodes.iter().position(Self::is_wanted).map(|n| n as u16),
        }
    }

    /// A node that a connection has been wanted to for a while.
    pub(super) fn dial_of_nobody(&self) -> Option<u16> {
        let long = |node: &Node| Self::is_wanted(node) && node.wanted.is_some_and(|since| since.elapsed() >= STRANGERS);
        self.core.nodes.iter().position(long).map(|n| n as u16)
    }

    pub(super) fn look_is_due(&self) -> bool {
        self.core.look_due().is_some_and(|due| due <= Instant::now())
    }

    /// Whether the topology is being looked at, or will be at once.
    pub(super) fn awaits_topology(&self) -> bool {
        self.core.looking.strong_count() > 0 || self.look_is_due()
    }

    /// When there will be something to do, if nothing comes.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let of_node = |node: &Node| {
            let dial = node.wanted.filter(|_| Self::is_wanted(node)).map(|since| since + STRANGERS);
            let doubt = node.quiet_since.filter(|_| !node.entries.is_empty()).map(|since| since + DOUBT);
            [dial, doubt].into_iter().flatten().min()
        };
        let of_nodes = self.core.nodes.iter().filter_map(of_node);
        of_nodes.chain(self.core.due).chain(self.core.look_due()).min()
    }

    /// Notes since when nodes have not answered, and asks others about those for which that is long.
    pub(super) fn note_quiet(&mut self, now: Instant) {
        for node in &mut self.core.nodes {
            if node.entries.is_empty() {
                (node.quiet_since, node.doubted) = (None, false);
            } else if now.saturating_duration_since(*node.quiet_since.get_or_insert(now)) >= DOUBT {
                (node.quiet_since, node.doubted) = (Some(now), true);
                self.core.stale = true;
            }
        }
    }

    fn give_up_the_doubted(&mut self) {
        for n in 0..self.core.nodes.len() {
            if std::mem::take(&mut self.core.nodes[n].doubted) {
                self.core.give_up_if_of_no_use(n as u16);
            }
        }
    }
}
