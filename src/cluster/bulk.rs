//! A reply of many elements.

use std::marker::PhantomData;

use super::Cluster;
use super::reply::decode;
use super::wait::Time;
use crate::connection::{IN_USE, Stored};
use crate::error::{Error, Result, ServerError, UnexpectedReply, WaitError};
use crate::execute::elements_by_methods;
use crate::resp::{self, Frame};
use crate::values::{FromReply, Layout};

/// The handle of a reply of many elements of a [`Cluster`]: an iterator, or all at once by [`wait`](ClusterMultiBulk::wait).
///
/// Like [`MultiBulk`](crate::MultiBulk), with one difference: **the reply is read whole before its first element is
/// given out**, since what has gone to another node could not be told apart otherwise; so it takes memory of its own size.
///
/// Iterating over nil gives one [`Error::Nil`]; the iteration ends after its first error.
///
/// # Drop
///
/// Never reads. If the reply is an error that nobody has looked at, it goes to the cluster's account.
#[must_use = "a multi-bulk is lazy: iterate over it, `wait` for it, or `detach` it"]
pub struct ClusterMultiBulk<'c, T> {
    cluster: &'c Cluster,
    ticket: u64,
    state: State,
    value: PhantomData<fn() -> T>,
}

enum State {
    Unread,
    Nil,
    Begun {
        frame: Stored,
        /// Where in the frame the next element begins, and how many elements are left.
        at: usize,
        left: usize,
        map: bool,
        layout: Layout,
    },
    Done,
}

impl<'c, T: FromReply> ClusterMultiBulk<'c, T> {
    pub(super) fn new(cluster: &'c Cluster, ticket: u64) -> Self {
        ClusterMultiBulk { cluster, ticket, state: State::Unread, value: PhantomData }
    }

    fn frame(&self) -> Result<Stored> {
        let Ok(mut core) = self.cluster.core.try_borrow_mut() else { return Err(Error::Refused(IN_USE)) };
        core.wait_frame(self.ticket, &mut Time::usual()).map_err(|error| match error {
            WaitError::Failed(error) => error,
            WaitError::Timeout(()) => core.expire(self.ticket),
        })
    }

    fn begin(&mut self) -> Result<()> {
        if !matches!(self.state, State::Unread) {
            return Ok(());
        }
        self.state = State::Done;
        let frame = self.frame()?;
        let (elements, map) = match resp::frame(&frame) {
            Some(Frame::Null) => {
                self.state = State::Nil;
                return Ok(());
            }
            Some(Frame::Error(message)) => return Err(ServerError::new(message).into()),
            Some(Frame::Map(elements)) => (elements, true),
            Some(Frame::Array(elements) | Frame::Set(elements)) => (elements, false),
            Some(other) => return Err(Error::unexpected("many elements", &other)),
            None => return Err(UnexpectedReply::new("a reply", "something else").into()),
        };
        let nested = || elements.peek().is_some_and(|first| first.is_aggregate());
        let layout = Layout::of::<T>(map, elements.len(), nested)?;
        let (at, left) = (frame.len() - elements.rest().len(), elements.len());
        self.state = State::Begun { frame, at, left, map, layout };
        Ok(())
    }

    /// Waits for all elements that are left, and collects them.
    ///
    /// # Errors
    ///
    /// The first error of an element, [`Error::Nil`] if the reply is nil, and those of
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
        match std::mem::replace(&mut self.state, State::Done) {
            State::Unread => decode(&self.frame()?),
            State::Nil => V::from_reply(Frame::Null),
            State::Done => V::from_reply(Frame::Array(resp::Elements::new(&[], 0))),
            State::Begun { frame, at, left, map, .. } => {
                let elements = resp::Elements::new(&frame[at..], left as u64);
                V::from_reply(if map && left.is_multiple_of(2) { Frame::Map(elements) } else { Frame::Array(elements) })
            }
        }
    }

    /// How many items are left, pairs counted once; `None` if the reply is nil. Waits for the reply.
    ///
    /// # Errors
    ///
    /// Those of [`ClusterReply::wait`](super::ClusterReply::wait).
    pub fn len(&mut self) -> Result<Option<usize>> {
        self.begin()?;
        Ok(match &self.state {
            State::Nil => None,
            State::Begun { left, layout, .. } => Some(layout.items(*left)),
            State::Unread | State::Done => Some(0),
        })
    }

    /// Gives the handle up, as dropping it does.
    pub fn detach(self) {}
}

impl<T: FromReply> Iterator for ClusterMultiBulk<'_, T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        if let Err(error) = self.begin() {
            return Some(Err(error));
        }
        let item = match &mut self.state {
            State::Nil => Err(Error::Nil),
            State::Begun { left: left @ 1.., frame, at, layout, .. } => {
                let elements = resp::Elements::new(&frame[*at..], *left as u64);
                let mut ahead = elements;
                let first = ahead.next();
                let second = if *layout == Layout::Flat { ahead.next() } else { None };
                // All that user code can see is moved on before it runs.
                *at += elements.rest().len() - ahead.rest().len();
                *left = ahead.len();
                match (first, second, layout) {
                    (Some(first), _, Layout::Single) => T::from_element(first),
                    (Some(first), Some(second), Layout::Flat) => T::from_pair(first, second),
                    _ => Err(UnexpectedReply::new("an element", "something else").into()),
                }
            }
            State::Unread | State::Begun { .. } | State::Done => {
                self.state = State::Done;
                return None;
            }
        };
        if item.is_err() {
            self.state = State::Done;
        }
        Some(item)
    }
}

elements_by_methods!(ClusterMultiBulk);

impl<T> Drop for ClusterMultiBulk<'_, T> {
    fn drop(&mut self) {
        if let State::Unread = self.state {
            let _ = self.cluster.with(|core| core.detach(self.ticket));
        }
    }
}
