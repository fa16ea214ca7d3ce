//! A reply of many elements on a connection that threads share: taken out of it whole, then read.

use std::marker::PhantomData;
use std::mem;

use super::Shared;
use crate::connection::{Stored, decode_whole};
use crate::error::{Error, Result, UnexpectedReply};
use crate::execute::elements_by_methods;
use crate::resp::{self, Frame};
use crate::values::{FromReply, Layout};

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
    state: State,
    value: PhantomData<fn() -> T>,
}

enum State {
    /// Still with the connection.
    Unread(u64),
    /// Nil, and nobody has been told by an error yet.
    Nil,
    Begun {
        frame: Stored,
        /// Where the next element begins.
        at: usize,
        /// Elements left; a pair of flat elements counts twice.
        left: u64,
        map: bool,
        layout: Layout,
    },
    /// Nothing is left, or an error was told.
    Done,
}

impl<'c, T: FromReply> SharedMultiBulk<'c, T> {
    pub(super) fn new(shared: &'c Shared, place: u64) -> Self {
        SharedMultiBulk { shared, state: State::Unread(place), value: PhantomData }
    }

    /// Waits for the reply, and collects all elements that are left.
    ///
    /// # Errors
    ///
    /// The first error of an element, [`Error::Nil`] if the reply is nil, and those of
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
        match mem::replace(&mut self.state, State::Done) {
            State::Unread(place) => decode_whole(&self.shared.fetch(place)?),
            State::Nil => V::from_reply(Frame::Null),
            State::Done => V::from_reply(Frame::Array(resp::Elements::new(&[], 0))),
            State::Begun { frame, at, left, map, .. } => {
                let elements = resp::Elements::new(frame.get(at..).unwrap_or_default(), left);
                V::from_reply(if map { Frame::Map(elements) } else { Frame::Array(elements) })
            }
        }
    }

    /// Waits for the reply, and says how many items are left, pairs counted once; `None` if it is nil.
    ///
    /// Asked after the end or an error, it is `Some(0)`.
    ///
    /// # Errors
    ///
    /// Those of [`SharedReply::wait`](crate::SharedReply::wait).
    pub fn len(&mut self) -> Result<Option<usize>> {
        self.begin()?;
        Ok(match &self.state {
            State::Nil => None,
            State::Begun { left, layout, .. } => Some(layout.items(*left as usize)),
            State::Unread(_) | State::Done => Some(0),
        })
    }

    /// Gives the handle up, as dropping it does.
    pub fn detach(self) {}

    /// Takes the reply out of the connection, if that has not been done.
    fn begin(&mut self) -> Result<()> {
        let State::Unread(place) = self.state else { return Ok(()) };
        self.state = State::Done;
        let frame = self.shared.fetch(place)?;
        let (map, elements) = match resp::frame(&frame) {
            Some(Frame::Null) => {
                self.state = State::Nil;
                return Ok(());
            }
            Some(Frame::Array(elements) | Frame::Set(elements)) => (false, elements),
            Some(Frame::Map(elements)) => (true, elements),
            _ => {
                // An error, or what is no list.
                decode_whole::<Vec<crate::Value>>(&frame)?;
                return Err(UnexpectedReply::new("an array, a set or a map", "something else").into());
            }
        };
        let first_is_aggregate = || elements.peek().is_some_and(|first| first.is_aggregate());
        let layout = Layout::of::<T>(map, elements.len(), first_is_aggregate)?;
        let (at, left) = (frame.len() - elements.rest().len(), elements.len() as u64);
        self.state = State::Begun { frame, at, left, map, layout };
        Ok(())
    }

    /// The next item, if there is one.
    fn item(&mut self) -> Result<Option<T>> {
        self.begin()?;
        match &mut self.state {
            State::Nil => Err(Error::Nil),
            State::Unread(_) | State::Done | State::Begun { left: 0, .. } => Ok(None),
            State::Begun { frame, at, left, layout, .. } => {
                let mut elements = resp::Elements::new(frame.get(*at..).unwrap_or_default(), *left);
                let first = elements.next().ok_or_else(missing)?;
                let second = match layout {
                    Layout::Single => None,
                    Layout::Flat => Some(elements.next().ok_or_else(missing)?),
                };
                // All that user code can see is moved on before it runs.
                (*at, *left) = (frame.len() - elements.rest().len(), elements.len() as u64);
                match second {
                    None => T::from_element(first),
                    Some(second) => T::from_pair(first, second),
                }
                .map(Some)
            }
        }
    }
}

fn missing() -> Error {
    UnexpectedReply::new("an element", "something else").into()
}

impl<T: FromReply> Iterator for SharedMultiBulk<'_, T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        let item = self.item();
        if !matches!(item, Ok(Some(_))) {
            self.state = State::Done;
        }
        item.transpose()
    }
}

elements_by_methods!(SharedMultiBulk);

impl<T> Drop for SharedMultiBulk<'_, T> {
    fn drop(&mut self) {
        if let State::Unread(place) = self.state {
            self.shared.detach(place);
        }
    }
}
