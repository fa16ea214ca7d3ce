//! A reply of many elements, read as they are asked for.

use std::marker::PhantomData;

use crate::connection::{Begun, Connection, Deadline, Rest};
use crate::error::{Error, Result, UnexpectedReply};
use crate::execute::elements_by_methods;
use crate::resp::{self, Frame};
use crate::values::{FromReply, Layout};

/// The handle of a reply of many elements: lazy, fallible, and [done after its first error](#errors).
///
/// As an iterator it reads and decodes one element at a time from the connection, so that a list of millions passes
/// through a small buffer; [`wait`](MultiBulk::wait) collects instead:
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(feature = "testing")] {
/// # let server = redefer::testing::Server::start()?;
/// # let conn = redefer::Connection::open(server.url())?;
/// use std::collections::HashMap;
/// use redefer::prelude::*;
///
/// conn.rpush("list", ["a", "b", "c"]).wait()?;
/// for letter in conn.lrange::<String>("list", 0, -1) {
///     println!("{}", letter?);
/// }
/// let all: Vec<String> = conn.lrange("list", 0, -1).wait()?;
/// assert_eq!(all, ["a", "b", "c"]);
///
/// conn.hset("point", [("x", 1), ("y", 2)]).wait()?;
/// let point: HashMap<String, i64> = conn.hgetall("point").wait()?;
/// assert_eq!(point["y"], 2);
/// # }
/// # Ok(())
/// # }
/// ```
///
/// The connection can be used in the middle of an iteration. When a reply behind this one has to be read, the elements
/// that are left are moved into memory first, and the iteration goes on from there.
///
/// # What to say for the type
///
/// The type that is said at the command is that of one element, and `wait` collects elements into any collection:
///
/// | command | said at the command | said for all |
/// | --- | --- | --- |
/// | `lrange`, `smembers`, `mget`, `keys`, … | the element: `conn.lrange::<String>("l", 0, -1)` | `let all: Vec<String> = conn.lrange("l", 0, -1).wait()?` |
/// | `hgetall`, … | key and value: `conn.hgetall::<String, i64>("h")` | `let all: HashMap<String, i64> = conn.hgetall("h").wait()?` |
/// | the same as one value of another type | nothing that matters: `conn.lrange::<()>("l", 0, -1).wait_as::<Ours>()` | `let ours: Ours = conn.hgetall_as("h").wait()?` |
/// | a [`Reply`](crate::Reply), such as that of `get` | the whole: `conn.get::<String>("k")` | `let text: String = conn.get("k").wait()?` |
///
/// If neither is said, the compiler speaks of a type `!` or `_` that cannot be built.
///
/// # Errors
///
/// **It ends after its first error, and what is left is skipped.** That holds as well for an element of another shape than
/// was asked for, such as text for an `i64`, or nil for a `String`: `Err(error) => continue` in a loop does not go on with the
/// next element. Where elements may be missing, ask for `Option`s. Where they may be anything, ask for
/// [`Result`](crate::Result)s: then the error of an element is its value, and the outer one is that of the reply or of the
/// connection.
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(feature = "testing")] {
/// # let server = redefer::testing::Server::start()?;
/// # let conn = redefer::Connection::open(server.url())?;
/// use redefer::prelude::*;
///
/// conn.rpush("numbers", ["1", "two", "3"]).wait()?;
/// let mut sum = 0;
/// for number in conn.lrange::<redefer::Result<i64>>("numbers", 0, -1) {
///     match number? {
///         Ok(number) => sum += number,
///         Err(error) => println!("left out: {error}"), // … got text that is not one: "two"
///     }
/// }
/// assert_eq!(sum, 4);
///
/// conn.set("a", 1).wait()?;
/// let some: Vec<Option<i64>> = conn.mget(["a", "b"]).wait()?;
/// assert_eq!(some, [Some(1), None]);
/// # }
/// # Ok(())
/// # }
/// ```
///
/// Pairs come as tuples, whatever the protocol: see [`FromReply`] for the rule. Iterating over nil gives one
/// [`Error::Nil`]; `len` tells it beforehand. Each element is waited for on its own for at most
/// [`Config::timeout`](crate::Config::timeout); `wait` is one wait for all.
///
/// # Drop
///
/// Never reads: what is left is skipped, in constant memory, when the connection gets there. If the reply is an error
/// that nobody has looked at, it goes to the connection's account, or to the batch it belongs to.
#[must_use = "a multi-bulk is lazy: iterate over it, `wait` for it, or `detach` it"]
pub struct MultiBulk<'c, T> {
    conn: &'c Connection,
    place: u64,
    state: State,
    value: PhantomData<fn() -> T>,
}

/// How far the reading has come.
enum State {
    /// Not even the header.
    Unread,
    /// Nil, and nobody has been told by an error yet.
    Nil,
    /// In the middle.
    Begun {
        /// Elements left; a pair of flat elements counts twice.
        left: u64,
        map: bool,
        /// How elements make items, once that is known.
        layout: Option<Layout>,
        /// Elements that were moved aside, and how many of their bytes have been taken.
        aside: Rest,
        taken: usize,
    },
    /// Nothing is left, or an error was told.
    Done,
}

impl<'c, T: FromReply> MultiBulk<'c, T> {
    pub(crate) fn new(conn: &'c Connection, place: u64) -> Self {
        MultiBulk { conn, place, state: State::Unread, value: PhantomData }
    }

    /// Waits for all elements that are left, as one wait, and collects them.
    ///
    /// # Errors
    ///
    /// The first error of an element, [`Error::Nil`] if the reply is nil, and those of [`Reply::wait`]. What is left
    /// after an error is skipped.
    ///
    /// [`Reply::wait`]: crate::Reply::wait
    pub fn wait<C: FromIterator<T>>(mut self) -> Result<C> {
        let mut collecting = Collecting { items: &mut self, deadline: None, error: None };
        let collection = collecting.by_ref().collect();
        collecting.error.map_or(Ok(collection), Err)
    }

    /// Waits for all that is left, as one wait, and decodes it as one value: for a type of one's own that is made from many
    /// elements.
    ///
    /// ```
    /// # fn main() -> redefer::Result<()> {
    /// # #[cfg(feature = "testing")] {
    /// # let server = redefer::testing::Server::start()?;
    /// # let conn = redefer::Connection::open(server.url())?;
    /// use std::collections::HashMap;
    /// use redefer::{Result, prelude::*, resp::Frame};
    ///
    /// struct User {
    ///     name: String,
    /// }
    ///
    /// impl FromReply for User {
    ///     fn from_reply(frame: Frame<'_>) -> Result<Self> {
    ///         let mut fields = HashMap::<String, String>::from_reply(frame)?;
    ///         let name = fields.remove("name").ok_or_else(|| Error::custom("a user has a name"))?;
    ///         Ok(User { name })
    ///     }
    /// }
    ///
    /// conn.hset("user:1", ("name", "Ada")).wait()?;
    /// // What the elements would be does not matter here.
    /// let user: User = conn.hgetall::<(), ()>("user:1").wait_as()?;
    /// assert_eq!(user.name, "Ada");
    /// // Shorter, for a hash.
    /// let user: User = conn.hgetall_as("user:1").wait()?;
    ///
    /// // A hash that does not exist has no fields.
    /// let mut fields = conn.hgetall::<String, String>("user:2");
    /// let user: Option<User> = if fields.len()? == Some(0) { None } else { Some(fields.wait_as()?) };
    /// assert!(user.is_none());
    /// # }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Reply::wait`](crate::Reply::wait).
    pub fn wait_as<V: FromReply>(mut self) -> Result<V> {
        match std::mem::replace(&mut self.state, State::Done) {
            State::Unread => self.conn.wait(self.place),
            State::Nil => V::from_reply(Frame::Null),
            State::Done => V::from_reply(Frame::Array(resp::Elements::new(&[], 0))),
            State::Begun { left, map, mut aside, taken, .. } => {
                aside.bytes.drain(..taken);
                if aside.elements < left {
                    let behind = self.conn.take_rest(self.place)?;
                    aside.bytes.extend_from_slice(&behind.bytes);
                }
                let elements = resp::Elements::new(&aside.bytes, left);
                // Behind a key that was taken alone there is no map any more.
                let map = map && left.is_multiple_of(2);
                V::from_reply(if map { Frame::Map(elements) } else { Frame::Array(elements) })
            }
        }
    }

    /// How many items are left, pairs counted once; `None` if the reply is nil. Waits for the header, and for pairs that
    /// may be flat or nested for the first byte behind it.
    ///
    /// Asked after the end or an error, it is `Some(0)`.
    ///
    /// # Errors
    ///
    /// Those of [`Reply::wait`](crate::Reply::wait).
    pub fn len(&mut self) -> Result<Option<usize>> {
        let mut deadline = None;
        match self.begin(&mut deadline) {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(error) => return Err(error),
        }
        let layout = self.layout(&mut deadline)?;
        match &self.state {
            State::Begun { left, .. } => Ok(Some(layout.map_or(*left as usize, |layout| layout.items(*left as usize)))),
            _ => Ok(Some(0)),
        }
    }

    /// Runs `take` on the bytes of every element that is left, without a copy of any: for payloads that need not be kept.
    /// Elements of pairs come one by one. The connection cannot be used meanwhile. The type of the elements does not
    /// matter here: `conn.lrange::<()>(…)` will do.
    ///
    /// # Errors
    ///
    /// [`Error::UnexpectedReply`] for an element that is no text or bytes, [`Error::Nil`] for one that is nil or if the
    /// reply is, [`Error::Server`] for one that is an error, and those of [`Reply::wait`](crate::Reply::wait).
    pub fn for_each_bytes(mut self, mut take: impl FnMut(&[u8])) -> Result<()> {
        let mut deadline = None;
        if !self.begin(&mut deadline)? {
            return Err(Error::Nil);
        }
        let mut take = |frame: Frame<'_>| match frame.as_bytes() {
            Some(bytes) => {
                take(bytes);
                Ok(())
            }
            None => Err(Error::unexpected("text or bytes", &frame)),
        };
        while let State::Begun { left: left @ 1.., aside, .. } = &mut self.state {
            if aside.elements == 0 {
                self.conn.each_scalar(self.place, left, &mut take)?;
            }
            // What is not whole, no scalar, the last, or was moved aside.
            self.element(&mut deadline, false, |frame, _| take(frame))?;
        }
        Ok(())
    }

    /// Gives the handle up, as dropping it does.
    pub fn detach(self) {}

    /// Reads the header if that has not been done. `false`: the reply is nil.
    fn begin(&mut self, deadline: &mut Option<Deadline>) -> Result<bool> {
        if !matches!(self.state, State::Unread) {
            return Ok(!matches!(self.state, State::Nil));
        }
        self.state = State::Done;
        let (place, begun) = self.conn.begin_elements(self.place, deadline)?;
        self.place = place;
        match begun {
            Begun::Nil => {
                self.state = State::Nil;
                Ok(false)
            }
            Begun::Elements { map, elements, stored } => {
                let aside = stored.unwrap_or_default();
                self.state = State::Begun { left: elements, map, layout: None, aside, taken: 0 };
                Ok(true)
            }
        }
    }

    /// How elements make items, which for pairs can depend on the first element.
    fn layout(&mut self, deadline: &mut Option<Deadline>) -> Result<Option<Layout>> {
        let State::Begun { left, map, layout, .. } = &self.state else { return Ok(None) };
        if layout.is_some() || *left == 0 {
            return Ok(*layout);
        }
        let (left, map) = (*left, *map);
        let nested = T::PAIR && !map && self.first_is_aggregate(deadline)?;
        let found = Layout::of::<T>(map, left as usize, || nested);
        let found = self.note(found)?;
        if let State::Begun { layout, .. } = &mut self.state {
            *layout = Some(found);
        }
        Ok(Some(found))
    }

    fn first_is_aggregate(&mut self, deadline: &mut Option<Deadline>) -> Result<bool> {
        if let State::Begun { aside, taken, .. } = &self.state
            && aside.elements > 0
        {
            let first = resp::Elements::new(&aside.bytes[*taken..], aside.elements).peek();
            return Ok(first.is_some_and(|first| first.is_aggregate()));
        }
        let peeked = self.conn.peek_element(self.place, deadline);
        match self.note(peeked)? {
            Ok(aggregate) => Ok(aggregate),
            Err(rest) => {
                self.keep(rest);
                self.first_is_aggregate(deadline)
            }
        }
    }

    fn keep(&mut self, rest: Rest) {
        if let State::Begun { aside, taken, .. } = &mut self.state {
            *aside = rest;
            *taken = 0;
        }
    }

    /// An error ends the iteration.
    fn note<R>(&mut self, result: Result<R>) -> Result<R> {
        if result.is_err() {
            self.give_up();
        }
        result
    }

    /// Lets what is left be skipped.
    fn give_up(&mut self) {
        if let State::Begun { .. } = std::mem::replace(&mut self.state, State::Done) {
            self.conn.leave_elements(self.place);
        }
    }

    /// Runs `take` on the next element, or on the next two.
    fn element<R>(
        &mut self,
        deadline: &mut Option<Deadline>,
        pair: bool,
        take: impl FnOnce(Frame<'_>, Option<Frame<'_>>) -> Result<R>,
    ) -> Result<R> {
        let needed = if pair { 2 } else { 1 };
        loop {
            let State::Begun { left, aside, taken, .. } = &mut self.state else { return Err(Error::Nil) };
            if aside.elements >= needed {
                let elements = resp::Elements::new(&aside.bytes[*taken..], aside.elements);
                let mut ahead = elements;
                let (one, two) = (ahead.next(), if pair { ahead.next() } else { None });
                *taken += elements.rest().len() - ahead.rest().len();
                aside.elements -= needed;
                *left -= needed;
                let value = present(one).and_then(|one| take(one, two));
                return self.note(value);
            }
            if aside.elements > 0 {
                // Half of a pair: the other half is on the wire, or has been moved aside since.
                let half = Rest { bytes: aside.bytes.split_off(*taken), elements: aside.elements, ..Rest::default() };
                aside.elements = 0;
                self.conn.put_back(self.place, half)?;
            }
            let next = self.conn.next_elements(self.place, pair, deadline);
            match self.note(next)? {
                Ok(elements) => {
                    if let State::Begun { left, .. } = &mut self.state {
                        *left -= needed;
                    }
                    let (one, two) = elements.frames();
                    let value = present(one).and_then(|one| take(one, two));
                    drop(elements);
                    return self.note(value);
                }
                Err(rest) => self.keep(rest),
            }
        }
    }

    #[inline]
    fn next_before(&mut self, deadline: &mut Option<Deadline>) -> Option<Result<T>> {
        // What has arrived and is not nested.
        if let State::Begun { left, layout: Some(layout), aside, .. } = &mut self.state
            && aside.elements == 0
        {
            let pair = T::PAIR && *layout == Layout::Flat;
            match self.conn.next_item(self.place, pair, left) {
                Some(Ok(item)) => return Some(Ok(item)),
                Some(error) => {
                    self.give_up();
                    return Some(error);
                }
                None => {}
            }
        }
        self.next_anywhere(deadline)
    }

    fn next_anywhere(&mut self, deadline: &mut Option<Deadline>) -> Option<Result<T>> {
        match &self.state {
            State::Begun { left: 0, .. } | State::Done => {
                self.state = State::Done;
                return None;
            }
            State::Nil => {
                self.state = State::Done;
                return Some(Err(Error::Nil));
            }
            State::Begun { .. } => {}
            State::Unread => match self.begin(deadline) {
                Ok(_) => return self.next_before(deadline),
                Err(error) => return Some(Err(error)),
            },
        }
        let layout = match self.layout(deadline) {
            Ok(layout) => layout,
            Err(error) => return Some(Err(error)),
        };
        Some(match layout {
            Some(Layout::Flat) => self.element(deadline, true, |first, second| match second {
                Some(second) => T::from_pair(first, second),
                None => Err(UnexpectedReply::new("a pair", "half of one").into()),
            }),
            _ => self.element(deadline, false, |frame, _| T::from_element(frame)),
        })
    }
}

/// The items of a multi-bulk up to its end or its first error, for a collection to be made of.
struct Collecting<'a, 'c, T> {
    items: &'a mut MultiBulk<'c, T>,
    deadline: Option<Deadline>,
    error: Option<Error>,
}

/// How many items a collection makes room for beforehand: what is announced need not come.
const RESERVE: u64 = 1024;

impl<T: FromReply> Iterator for Collecting<'_, '_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        match self.items.next_before(&mut self.deadline)? {
            Ok(item) => Some(item),
            Err(error) => {
                self.error = Some(error);
                None
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let mut items = 0;
        if let State::Begun { left, layout: Some(layout), .. } = &self.items.state {
            items = layout.items((*left).min(RESERVE) as usize);
        }
        (items, None)
    }
}

fn present(frame: Option<Frame<'_>>) -> Result<Frame<'_>> {
    frame.ok_or_else(|| UnexpectedReply::new("an element", "something else").into())
}

impl<T: FromReply> Iterator for MultiBulk<'_, T> {
    type Item = Result<T>;

    #[inline]
    fn next(&mut self) -> Option<Result<T>> {
        self.next_before(&mut None)
    }
}

elements_by_methods!(MultiBulk);

impl<T> Drop for MultiBulk<'_, T> {
    fn drop(&mut self) {
        match self.state {
            State::Unread => self.conn.detach(self.place),
            State::Begun { .. } => self.conn.leave_elements(self.place),
            State::Nil | State::Done => {}
        }
    }
}
