//! A reply of many elements.

use super::Cluster;
use crate::error::Result;
use crate::execute::elements_by_methods;
use crate::reply::Whole;
use crate::values::FromReply;

/// The handle of a reply of many elements of a [`Cluster`]: an iterator, or all at once by [`wait`](ClusterMultiBulk::wait).
///
/// Like [`MultiBulk`](crate::MultiBulk), with one difference: **the reply is read whole before its first element is
/// given out**, since what has gone to another node could not be told apart otherwise; so it takes memory of its own size.
///
/// Iterating over nil gives one [`Error::Nil`](crate::Error::Nil); the iteration ends after its first error.
///
/// # Drop
///
/// Never reads. If the reply is an error that nobody has looked at, it goes to the cluster's account.
#[must_use = "a multi-bulk is lazy: iterate over it, `wait` for it, or `detach` it"]
pub struct ClusterMultiBulk<'c, T> {
    cluster: &'c Cluster,
    ticket: u64,
    whole: Whole<T>,
}

impl<'c, T: FromReply> ClusterMultiBulk<'c, T> {
    pub(super) fn new(cluster: &'c Cluster, ticket: u64) -> Self {
        ClusterMultiBulk { cluster, ticket, whole: Whole::unread() }
    }

    /// Waits for all elements that are left, and collects them.
    ///
    /// # Errors
    ///
    /// The first error of an element, [`Error::Nil`](crate::Error::Nil) if the reply is nil, and those of
    /// [`ClusterReply::wait`](super::ClusterReply::wait).
    pub fn wait<C: FromIterator<T>>(self) -> Result<C> {
        self.collect()
    }

    /// Waits for all that is left, and decodes it as one value.
    ///
    /// # Errors
    ///
    /// Those of [`ClusterReply::wait`](super::ClusterReply::wait).
    pub fn wait_as<V: FromReply>(mut self) -> Result<V> {
        self.whole.wait_as(|| self.cluster.frame(self.ticket))
    }

    /// How many items are left, pairs counted once; `None` if the reply is nil. Waits for the reply.
    ///
    /// # Errors
    ///
    /// Those of [`ClusterReply::wait`](super::ClusterReply::wait).
    pub fn len(&mut self) -> Result<Option<usize>> {
        self.whole.len(|| self.cluster.frame(self.ticket))
    }

    /// Gives the handle up, as dropping it does.
    pub fn detach(self) {}
}

impl<T: FromReply> Iterator for ClusterMultiBulk<'_, T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        self.whole.next(|| self.cluster.frame(self.ticket))
    }
}

elements_by_methods!(ClusterMultiBulk);

impl<T> Drop for ClusterMultiBulk<'_, T> {
    fn drop(&mut self) {
        if self.whole.is_unread() {
            let _ = self.cluster.with(|core| core.detach(self.ticket));
        }
    }
}
