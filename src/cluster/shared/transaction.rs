//! Transactions of one slot on a cluster that threads share.

use std::cell::{Cell, RefCell};
use std::fmt;

use super::super::core::Core;
use super::super::transaction::{admit, admit_named};
use super::super::{Issued, SharedClusterMultiBulk, SharedClusterQueued, SharedClusterReply};
use super::SharedCluster;
use crate::args::{Arguments, Command, ToArgs};
use crate::error::Result;
use crate::execute::Execute;
use crate::values::FromReply;

/// A transaction of a [`SharedCluster`], made by [`SharedCluster::transaction`]: all its keys must be of one slot.
///
/// Commands are encoded into the transaction's own buffer, and [`commit`](SharedClusterTransaction::commit) sends MULTI, the
/// commands and EXEC in one piece: no command of another thread gets in between. Everything else is as on a
/// [`ClusterTransaction`](crate::cluster::ClusterTransaction), errors included.
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(all(unix, feature = "testing"))] {
/// # let nodes = redefer::testing::Cluster::builder().replicas(0).start()?;
/// use redefer::cluster::SharedCluster;
/// use redefer::prelude::*;
///
/// let cluster = SharedCluster::open(nodes.urls())?;
/// let tx = cluster.transaction();
/// let one = tx.incr("{user:1}:visits");
/// let two = tx.get::<Option<String>>("{user:1}:name");
/// tx.commit().wait()?;
/// assert_eq!((one.wait()?, two.wait()?), (1, None));
/// # }
/// # Ok(())
/// # }
/// ```
///
/// # Drop
///
/// Nothing is sent, and its handles give [`Error::NotCommitted`](crate::Error::NotCommitted).
#[must_use = "a transaction that is not committed sends nothing"]
pub struct SharedClusterTransaction<'c> {
    cluster: &'c SharedCluster,
    group: Option<u32>,
    bytes: RefCell<Vec<u8>>,
    /// The slot of the first key.
    slot: Cell<Option<u16>>,
}

impl SharedCluster {
    /// Begins a transaction. Nothing is sent before its [`commit`](SharedClusterTransaction::commit), and the other threads do
    /// not notice it.
    pub fn transaction(&self) -> SharedClusterTransaction<'_> {
        let group = self.table.visit().wire().core().open_group();
        SharedClusterTransaction { cluster: self, group: Some(group), bytes: RefCell::default(), slot: Cell::default() }
    }
}

impl<'c> SharedClusterTransaction<'c> {
    /// Sends the transaction, as one piece. The handle that is returned resolves with EXEC's reply.
    ///
    /// Waits for room, as any command does.
    ///
    /// # Errors
    ///
    /// Told by the handle: see [`ClusterTransaction::commit`](crate::cluster::ClusterTransaction::commit).
    pub fn commit(mut self) -> SharedClusterReply<'c, ()> {
        let (bytes, slot) = (self.bytes.take(), self.slot.get());
        let nodes = |core: &mut Core| slot.map(|slot| core.slots[usize::from(slot)]).into_iter().collect();
        let room = self.cluster.with_room(nodes);
        let id = self.group.take();
        let ticket = match (room, id) {
            (Ok(mut visit), Some(id)) => visit.wire().issue(|core| core.commit(id, slot, bytes, false)),
            (Err(error), Some(id)) => self.cluster.table.visit().wire().core().fail_group(id, error),
            (_, None) => super::super::ticket::BUSY,
        };
        SharedClusterReply::new(self.cluster, ticket)
    }

    /// Gives the transaction up: nothing is sent. The same as dropping it.
    pub fn discard(self) {}

    fn queue(&self, encoded: Result<Issued>) -> u64 {
        let queued = encoded.and_then(|issued| admit(&issued, &self.slot).map(|()| issued));
        let Some(group) = self.group else { return super::super::ticket::BUSY };
        let error = match queued {
            Ok(issued) => {
                self.bytes.borrow_mut().extend_from_slice(&issued.bytes);
                None
            }
            Err(error) => Some(error),
        };
        self.cluster.table.visit().wire().core().add_to_group(group, error)
    }
}

impl<'c> Execute for &SharedClusterTransaction<'c> {
    type Reply<T: FromReply> = SharedClusterQueued<'c, T>;
    type MultiBulk<T: FromReply> = SharedClusterMultiBulk<'c, T>;

    fn command<T: FromReply>(self, name: &str, arguments: impl ToArgs) -> SharedClusterQueued<'c, T> {
        let encoded = self.cluster.encode_named(name, arguments).and_then(admit_named);
        SharedClusterQueued::new(self.cluster, self.queue(encoded))
    }

    fn execute<T: FromReply, A: Arguments>(self, command: Command<A>) -> SharedClusterQueued<'c, T> {
        SharedClusterQueued::new(self.cluster, self.queue(Issued::of(&command)))
    }

    fn execute_multi<T: FromReply, A: Arguments>(self, command: Command<A>) -> SharedClusterMultiBulk<'c, T> {
        SharedClusterMultiBulk::new(self.cluster, self.queue(Issued::of(&command)))
    }
}

impl Drop for SharedClusterTransaction<'_> {
    fn drop(&mut self) {
        if let Some(group) = self.group.take() {
            self.cluster.table.visit().wire().core().discard_group(group);
        }
    }
}

impl fmt::Debug for SharedClusterTransaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedClusterTransaction").field("slot", &self.slot.get()).finish_non_exhaustive()
    }
}
