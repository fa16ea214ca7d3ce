//! A reply of many elements that is in memory as a whole, and read element by element.

use std::marker::PhantomData;
use std::mem;

use crate::connection::{Stored, decode_whole};
use crate::error::{Error, Result, UnexpectedReply};
use crate::resp::{self, Elements, Frame};
use crate::values::{FromReply, Layout};

/// The state of a handle of such a reply, which says each time how the reply is to be had: that is asked for once, when the
/// handle is first used.
pub(crate) struct Whole<T> {
    state: State,
    value: PhantomData<fn() -> T>,
}

enum State {
    Unread,
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

impl<T: FromReply> Whole<T> {
    pub(crate) fn wait_as<V: FromReply>(&mut self, fetch: impl FnOnce() -> Result<Stored>) -> Result<V> {
        match mem::replace(&mut self.state, State::Done) {
            State::Unread => decode_whole(&fetch()?),
            State::Nil => V::from_reply(Frame::Null),
            State::Done => V::from_reply(Frame::Array(Elements::new(&[], 0))),
            State::Begun { frame, at, left, map, .. } => {
                let elements = Elements::new(frame.get(at..).unwrap_or_default(), left);
                V::from_reply(if map && left.is_multiple_of(2) { Frame::Map(elements) } else { Frame::Array(elements) })
            }
        }
    }

    pub(crate) fn len(&mut self, fetch: impl FnOnce() -> Result<Stored>) -> Result<Option<usize>> {
        self.begin(fetch)?;
        Ok(match &self.state {
            State::Nil => None,
            State::Begun { left, layout, .. } => Some(layout.items(*left as usize)),
            State::Unread | State::Done => Some(0),
        })
    }

    pub(crate) fn next(&mut self, fetch: impl FnOnce() -> Result<Stored>) -> Option<Result<T>> {
        let item = self.item(fetch);
        if !matches!(item, Ok(Some(_))) {
            self.state = State::Done;
        }
        item.transpose()
    }

    /// Takes the reply, if that has not been done.
    fn begin(&mut self, fetch: impl FnOnce() -> Result<Stored>) -> Result<()> {
        if !self.is_unread() {
            return Ok(());
        }
        self.state = State::Done;
        let frame = fetch()?;
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
        let nested = || elements.peek().is_some_and(|first| first.is_aggregate());
        let layout = Layout::of::<T>(map, elements.len(), nested)?;
        let (at, left) = (frame.len() - elements.rest().len(), elements.len() as u64);
        self.state = State::Begun { frame, at, left, map, layout };
        Ok(())
    }

    /// The next item, if there is one.
    fn item(&mut self, fetch: impl FnOnce() -> Result<Stored>) -> Result<Option<T>> {
        self.begin(fetch)?;
        match &mut self.state {
            State::Nil => Err(Error::Nil),
            State::Unread | State::Done | State::Begun { left: 0, .. } => Ok(None),
            State::Begun { frame, at, left, layout, .. } => {
                let mut elements = Elements::new(frame.get(*at..).unwrap_or_default(), *left);
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

impl<T> Whole<T> {
    pub(crate) fn unread() -> Self {
        Whole { state: State::Unread, value: PhantomData }
    }

    /// Whether the reply has not been asked for.
    pub(crate) fn is_unread(&self) -> bool {
        matches!(self.state, State::Unread)
    }
}

fn missing() -> Error {
    UnexpectedReply::new("an element", "something else").into()
}
