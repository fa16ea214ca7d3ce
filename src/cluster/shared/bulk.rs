//! A reply of many elements of a cluster that threads share.

use super::SharedCluster;
use crate::error::Result;
use crate::execute::elements_by_methods;
use crate::reply::Whole;
use crate::values::FromReply;

/// The handle of a reply of many elements of a [`SharedCluster`]: lazy, fallible, and done after its first error.
///
/// When it is first used, the whole reply is taken; then it is read element by element, without a lock and without holding up
/// other threads. So it is in memory as a whole.
///
/// Iterating over nil gives one [`Error::Nil`](crate::Error::Nil).
///
/// # Drop
///
/// Never waits: a reply that has not come yet is skipped when its turn comes, and an error in its place accounted for.
#[must_use = "a multi-bulk is lazy: iterate over it, `wait` for it, or `detach` it"]
pub struct SharedClusterMultiBulk<'c, T> {
    cluster: &'c SharedCluster,
    ticket: u64,
    whole: Whole<T>,
}

impl<'c, T: FromReply> SharedClusterMultiBulk<'c, T> {
    pub(super) fn new(cluster: &'c SharedCluster, ticket: u64) -> Self {
        SharedClusterMultiBulk { cluster, ticket, whole: Whole::unread() }
    }

    /// Waits for the reply, and collects all elements that are left.
    ///
    /// # Errors
    ///
    /// The first error of an element, [`Error::Nil`](crate::Error::Nil) if the reply is nil, and those of
    /// [`SharedClusterReply::wait`](super::SharedClusterReply::wait).
    pub fn wait<C: FromIterator<T>>(self) -> Result<C> {
        self.collect()
    }

    /// Waits for the reply, and decodes all that is left as one value.
    ///
    /// # Errors
    ///
    /// Those of [`SharedClusterReply::wait`](super::SharedClusterReply::wait).
    pub fn wait_as<V: FromReply>(mut self) -> Result<V> {
        self.whole.wait_as(|| self.cluster.fetch(self.ticket))
    }

    /// Waits for the reply, and says how many items are left, pairs counted once; `None` if it is nil. Asked after the end or an
    /// error, it is `Some(0)`.
    ///
    /// # Errors
    ///
    /// Those of [`SharedClusterReply::wait`](super::SharedClusterReply::wait).
    pub fn len(&mut self) -> Result<Option<usize>> {
        self.whole.len(|| self.cluster.fetch(self.ticket))
    }

    /// Gives the handle up, as dropping it does.
    pub fn detach(self) {}
}

impl<T: FromReply> Iterator for SharedClusterMultiBulk<'_, T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        self.whole.next(|| self.cluster.fetch(self.ticket))
    }
}

elements_by_methods!(SharedClusterMultiBulk);

impl<T> Drop for SharedClusterMultiBulk<'_, T> {
    fn drop(&mut self) {
        if self.whole.is_unread() {
            self.cluster.detach(self.ticket);
        }
    }
}
