//! A reply of many elements on a connection that threads share: taken out of it whole, then read.

use super::Shared;
use crate::error::Result;
use crate::execute::elements_by_methods;
use crate::reply::Whole;
use crate::values::FromReply;

/// The handle of a reply of many elements of a [`Shared`]: lazy, fallible, and done after its first error, as
/// [`MultiBulk`](crate::MultiBulk).
///
/// When it is first used, the whole reply is taken out of the connection; then it is read element by element, without a
/// lock and without holding up other threads. So it is in memory as a whole: for lists of millions take a
/// [`Connection`](crate::Connection), whose [`MultiBulk`](crate::MultiBulk) reads them through a small buffer.
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(feature = "testing")] {
/// # let server = redefer::testing::Server::start()?;
/// # let shared = redefer::Shared::open(server.url())?;
/// use std::collections::HashMap;
///
/// use redefer::prelude::*;
///
/// shared.rpush("list", ["a", "b", "c"]).wait()?;
/// for letter in shared.lrange::<String>("list", 0, -1) {
///     println!("{}", letter?);
/// }
/// shared.hset("point", [("x", 1), ("y", 2)]).wait()?;
/// let point: HashMap<String, i64> = shared.hgetall("point").wait()?;
/// assert_eq!(point["y"], 2);
/// # }
/// # Ok(())
/// # }
/// ```
///
/// # Drop
///
/// Never waits: a reply that has not come yet is skipped when its turn comes, and an error in its place accounted for.
#[must_use = "a multi-bulk is lazy: iterate over it, `wait` for it, or `detach` it"]
pub struct SharedMultiBulk<'c, T> {
    shared: &'c Shared,
    place: u64,
    whole: Whole<T>,
}

impl<'c, T: FromReply> SharedMultiBulk<'c, T> {
    pub(super) fn new(shared: &'c Shared, place: u64) -> Self {
        SharedMultiBulk { shared, place, whole: Whole::unread() }
    }

    /// Waits for the reply, and collects all elements that are left.
    ///
    /// # Errors
    ///
    /// The first error of an element, [`Error::Nil`](crate::Error::Nil) if the reply is nil, and those of
    /// [`SharedReply::wait`](crate::SharedReply::wait).
    pub fn wait<C: FromIterator<T>>(self) -> Result<C> {
        self.collect()
    }

    /// Waits for the reply, and decodes all that is left as one value: for a type of one's own that is made from many
    /// elements, as [`MultiBulk::wait_as`](crate::MultiBulk::wait_as).
    ///
    /// # Errors
    ///
    /// Those of [`SharedReply::wait`](crate::SharedReply::wait).
    pub fn wait_as<V: FromReply>(mut self) -> Result<V> {
        self.whole.wait_as(|| self.shared.fetch(self.place))
    }

    /// Waits for the reply, and says how many items are left, pairs counted once; `None` if it is nil.
    ///
    /// Asked after the end or an error, it is `Some(0)`.
    ///
    /// # Errors
    ///
    /// Those of [`SharedReply::wait`](crate::SharedReply::wait).
    pub fn len(&mut self) -> Result<Option<usize>> {
        self.whole.len(|| self.shared.fetch(self.place))
    }

    /// Gives the handle up, as dropping it does.
    pub fn detach(self) {}
}

impl<T: FromReply> Iterator for SharedMultiBulk<'_, T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        self.whole.next(|| self.shared.fetch(self.place))
    }
}

elements_by_methods!(SharedMultiBulk);

impl<T> Drop for SharedMultiBulk<'_, T> {
    fn drop(&mut self) {
        if self.whole.is_unread() {
            self.shared.detach(self.place);
        }
    }
}
