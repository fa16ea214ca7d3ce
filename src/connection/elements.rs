//! An aggregate, read piece by piece.
//!
//! A multi-bulk whose turn has come is read from the buffer element by element: the connection is then in the middle of
//! its frame. Whoever wants to read behind it first moves what is left to the side ([`Rest`]), or skips it if nobody
//! holds the handle any more.

use super::deadline::Deadline;
use super::engine::Engine;
use super::settle::{Arrived, Resolved, Skipped, Waited};
use crate::error::{Error, Result, ServerError, UnexpectedReply, WaitError};
use crate::resp::{self, Aggregate, Frame, Peek};

/// The multi-bulk in whose middle the connection is.
#[derive(Debug)]
pub(super) struct Streaming {
    pub(super) place: u64,
    /// Elements that are still on the wire.
    pub(super) left: u64,
    /// Elements that were moved to the side.
    rest: Rest,
    /// Nobody holds the handle: what is left is skipped.
    abandoned: bool,
    /// The length of the first of a pair of elements, once it is whole.
    first: Option<usize>,
    /// It is no multi-bulk but a string that is being copied: how many of its bytes are on the wire, its CRLF included.
    pub(super) bytes: u64,
}

impl Streaming {
    /// A string of which this many bytes are on the wire.
    pub(super) fn of_bytes(place: u64, bytes: u64) -> Self {
        Streaming { place, left: 0, rest: Rest::default(), abandoned: false, first: None, bytes }
    }

    /// Whether the next element of the multi-bulk at this place is at the front of the read buffer.
    #[inline(always)]
    pub(super) fn at_hand(&self, place: u64) -> bool {
        self.place == place && self.rest.elements == 0 && self.first.is_none()
    }
}

/// Whole elements, away from the read buffer.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    pub(crate) bytes: Vec<u8>,
    pub(crate) elements: u64,
    /// The connection broke before the last one came.
    pub(crate) cut: bool,
}

/// How a multi-bulk begins.
pub(crate) enum Begun {
    Nil,
    Elements {
        /// Whether it came as a map.
        map: bool,
        elements: u64,
        /// The elements, if they had been stored.
        stored: Option<Rest>,
    },
}

/// One or two elements at the front of the read buffer, by length.
pub(crate) enum Next {
    Here(usize, usize),
    /// They are to be had from here.
    Aside(Rest),
}

impl Engine {
    /// Waits for the header of a multi-bulk and enters it.
    pub(super) fn begin_elements(&mut self, place: u64, deadline: &mut Option<Deadline>) -> Waited<(u64, Begun)> {
        let place = match self.resolve(place, deadline)? {
            Resolved::Place(place) => place,
            Resolved::Committed => return Err(unexpected("a status").into()),
            Resolved::Answered(reply) => return Ok((place, begun(&reply)?)),
        };
        while place >= self.next && !self.is_lost(place) {
            let deadline = self.deadline(place, deadline);
            match self.enter(place, deadline) {
                Ok(Some(begun)) => return Ok((place, begun)),
                Err(Error::Timeout) => return Err(WaitError::Timeout(())),
                // A scalar.
                Ok(None) => break,
                // A broken connection, behind which the command may yet be sent on another one.
                Err(_) => {}
            }
        }
        match self.arrive(place, deadline)? {
            Arrived::Head(n) => {
                let start = self.input.start;
                self.pass(n);
                let begun = begun(&self.input.buf[start..start + n]);
                Ok((place, begun?))
            }
            Arrived::Stored(frame) => Ok((place, begun(&frame)?)),
            Arrived::Answered(frame) => Ok((place, begun(&frame)?)),
        }
    }

    /// Waits for the header and enters the aggregate. `None`: it is none, or it is in the store.
    fn enter(&mut self, place: u64, deadline: &mut Deadline) -> Result<Option<Begun>> {
        loop {
            self.settle_until(place, deadline)?;
            if self.next > place || self.is_lost(place) {
                // It was settled whole on the way, or lost.
                return Ok(None);
            }
            if self.clear_streaming()? {
                match self.front()? {
                    Some(b'*' | b'~' | b'%')
                        if self.input.bytes().get(1) != Some(&b'-')
                            && !self.caching.wants_whole(place, self.input.len()) =>
                    {
                        // If a wait that was given up has looked at it as a whole, that does not matter any more.
                        self.scanner.reset();
                        match resp::header(self.input.bytes()) {
                            Ok(Some(header)) => return Ok(Some(self.entered(place, &header))),
                            Ok(None) => {}
                            Err(error) => return Err(self.break_with(error.into())),
                        }
                    }
                    // Nil or a scalar; or what is taken as a whole: behind an attribute, or to be kept.
                    Some(_) if self.head_frame()?.is_some() => return Ok(None),
                    _ => {}
                }
            }
            self.fill(deadline)?;
        }
    }

    fn entered(&mut self, place: u64, header: &resp::Header) -> Begun {
        self.pass(header.len);
        if header.elements > 0 {
            self.streaming = Some(Streaming {
                place,
                left: header.elements,
                rest: Rest::default(),
                abandoned: false,
                first: None,
                bytes: 0,
            });
            self.refresh_head();
        }
        Begun::Elements { map: header.kind == Aggregate::Map, elements: header.elements, stored: None }
    }

    /// Waits for the next element, or the next two, of a multi-bulk that has been entered.
    pub(super) fn next_elements(&mut self, place: u64, pair: bool, deadline: &mut Option<Deadline>) -> Result<Next> {
        self.look_for_elements(place, pair, deadline).map_err(|error| self.of_place(place, error))
    }

    fn look_for_elements(&mut self, place: u64, pair: bool, deadline: &mut Option<Deadline>) -> Result<Next> {
        loop {
            if let Some(rest) = self.take_aside(place, pair)? {
                return Ok(Next::Aside(rest));
            }
            if !self.is_up() {
                return Err(self.lost_error(place));
            }
            if let Some(first) = self.element(0)? {
                if self.has_aside() {
                    // The second of a pair whose first was moved aside goes there too.
                    self.move_aside(first);
                    continue;
                }
                if !pair {
                    return Ok(Next::Here(first, 0));
                }
                if let Some(second) = self.element(first)? {
                    return Ok(Next::Here(first, second));
                }
            }
            self.fill_elements(deadline)?;
        }
    }

    /// Waits for the first byte of the next element, and says whether it begins an aggregate.
    pub(super) fn peek_element(&mut self, place: u64, deadline: &mut Option<Deadline>) -> Result<Result<bool, Rest>> {
        self.look_at_element(place, deadline).map_err(|error| self.of_place(place, error))
    }

    fn look_at_element(&mut self, place: u64, deadline: &mut Option<Deadline>) -> Result<Result<bool, Rest>> {
        loop {
            if let Some(rest) = self.take_aside(place, false)? {
                return Ok(Err(rest));
            }
            if !self.is_up() {
                return Err(self.lost_error(place));
            }
            match self.front()? {
                // The one aggregate byte that may begin a nil, and an attribute, need a further look.
                Some(b'*') if self.input.len() > 1 => return Ok(Ok(self.input.bytes()[1] != b'-')),
                Some(b'|') => {
                    if let Some(n) = self.element(0)? {
                        let frame = resp::frame(&self.input.bytes()[..n]);
                        return Ok(Ok(frame.is_some_and(|frame| frame.is_aggregate())));
                    }
                }
                Some(b'*') | None => {}
                Some(byte) => return Ok(Ok(matches!(byte, b'%' | b'~'))),
            }
            self.fill_elements(deadline)?;
        }
    }

    /// Waits for all that is left of a multi-bulk, moves it aside and hands it over.
    pub(super) fn take_rest(&mut self, place: u64) -> Result<Rest> {
        let mut deadline = None;
        while self.streaming.as_ref().is_some_and(|streaming| streaming.place == place) {
            match self.clear_streaming() {
                Ok(true) => {}
                Ok(false) => self.fill_elements(&mut deadline)?,
                Err(error) => return Err(self.of_place(place, error)),
            }
        }
        match self.rests.iter().position(|rest| rest.0 == place && !rest.1.cut) {
            Some(index) => Ok(self.rests.swap_remove(index).1),
            None => Err(self.lost_error(place)),
        }
    }

    fn fill_elements(&mut self, deadline: &mut Option<Deadline>) -> Result<()> {
        let deadline = deadline.get_or_insert_with(|| Deadline::new(self.config.timeout));
        match self.fill(deadline) {
            Err(Error::Timeout) => Err(Error::Timeout),
            // If the connection broke, what had arrived whole has been moved aside and comes first.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// What was moved aside of a multi-bulk, or an error if there is nothing of it left anywhere. For pairs, only if it
    /// is more than half of one.
    fn take_aside(&mut self, place: u64, pair: bool) -> Result<Option<Rest>> {
        match &mut self.streaming {
            Some(streaming) if streaming.place == place => {
                let enough = streaming.rest.elements >= if pair { 2 } else { 1 };
                Ok(enough.then(|| std::mem::take(&mut streaming.rest)))
            }
            _ => match self.rests.iter().position(|rest| rest.0 == place) {
                Some(index) => Ok(Some(self.rests.swap_remove(index).1)),
                None => Err(self.lost_error(place)),
            },
        }
    }

    /// Takes back what was handed over by `take_aside`.
    pub(super) fn put_back(&mut self, place: u64, mut given: Rest) {
        let rest = match &mut self.streaming {
            Some(streaming) if streaming.place == place => &mut streaming.rest,
            _ => match self.rests.iter_mut().find(|rest| rest.0 == place) {
                Some((_, rest)) => rest,
                None => return,
            },
        };
        given.bytes.append(&mut rest.bytes);
        given.elements += rest.elements;
        *rest = given;
    }

    fn has_aside(&self) -> bool {
        self.streaming.as_ref().is_some_and(|streaming| streaming.rest.elements > 0)
    }

    /// Moves the element of this length at the front to those that are aside.
    fn move_aside(&mut self, n: usize) {
        let start = self.input.start;
        if let Some(streaming) = &mut self.streaming {
            streaming.rest.bytes.extend_from_slice(&self.input.buf[start..start + n]);
            streaming.rest.elements += 1;
            if streaming.left == 1 {
                let rest = std::mem::take(&mut streaming.rest);
                self.rests.push((streaming.place, rest));
            }
        }
        self.took(n, 1);
    }

    /// The length of the element at this offset, if it is whole: zero, or behind the first of a pair.
    #[inline]
    fn element(&mut self, offset: usize) -> Result<Option<usize>> {
        if offset == 0
            && let Some(first) = self.streaming.as_ref().and_then(|streaming| streaming.first)
        {
            return Ok(Some(first));
        }
        let whole = loop {
            if self.scanner.is_idle() {
                match resp::peek(&self.input.bytes()[offset..]) {
                    Ok(Peek::Scalar(_, n)) => break Some(n),
                    Ok(Peek::Incomplete) => break None,
                    Ok(Peek::Aggregate) => {}
                    Err(error) => return Err(self.break_with(error.into())),
                }
            }
            match self.scanner.scan(&self.input.bytes()[offset..]) {
                Ok(None) => break None,
                Ok(Some(n)) => {
                    let inner: Vec<_> = self.scanner.take_pushes().collect();
                    for range in inner {
                        let push = self.input.bytes()[offset..][range].to_vec();
                        self.keep_push(push);
                    }
                    if !self.lift_push(offset, n) {
                        break Some(n);
                    }
                }
                Err(error) => return Err(self.break_with(error.into())),
            }
        };
        if let Some(streaming) = &mut self.streaming {
            // Only remembered while the second is awaited: an element that is taken clears it.
            streaming.first = if offset == 0 { whole } else { streaming.first };
        }
        Ok(whole)
    }

    /// Takes the frame at this offset out if it is a push.
    fn lift_push(&mut self, offset: usize, n: usize) -> bool {
        let bytes = &self.input.bytes()[offset..offset + n];
        if !matches!(resp::frame(bytes), Some(Frame::Push(_))) {
            return false;
        }
        let push = self.input.cut_out(offset, n);
        self.keep_push(push);
        true
    }

    /// Says that elements of this length in all were taken from the front of the buffer.
    #[inline(always)]
    pub(super) fn took(&mut self, n: usize, elements: u64) {
        self.input.consume(n);
        if let Some(streaming) = &mut self.streaming {
            streaming.first = None;
            streaming.left -= elements;
            if streaming.left == 0 {
                self.streaming = None;
                self.refresh_head();
            }
        }
    }

    /// Whether the connection is in the middle of a multi-bulk whose handle lives.
    pub(super) fn is_streaming(&self) -> bool {
        self.streaming.as_ref().is_some_and(|streaming| !streaming.abandoned)
    }

    /// Nobody holds the handle of the multi-bulk in whose middle the connection is.
    pub(super) fn abandon_streaming(&mut self) {
        if let Some(streaming) = &mut self.streaming {
            streaming.abandoned = true;
            streaming.rest = Rest::default();
        }
    }

    /// The connection broke in the middle of a multi-bulk: what has come of it is kept.
    pub(super) fn keep_cut(&mut self, streaming: Streaming) {
        if !streaming.abandoned && streaming.bytes == 0 {
            self.rests.push((streaming.place, Rest { cut: true, ..streaming.rest }));
        }
    }

    /// Nobody holds the handle of a multi-bulk any more that has been entered.
    pub(super) fn leave_elements(&mut self, place: u64) {
        if self.streaming.as_ref().is_some_and(|streaming| streaming.place == place) {
            self.abandon_streaming();
        } else if let Some(index) = self.rests.iter().position(|rest| rest.0 == place) {
            self.rests.swap_remove(index);
        }
    }

    /// Gets what has arrived of the multi-bulk in whose middle the connection is out of the way. `true`: all of it.
    pub(super) fn clear_streaming(&mut self) -> Result<bool> {
        loop {
            let Some(streaming) = &self.streaming else {
                self.input.give_back();
                return Ok(true);
            };
            if streaming.bytes > 0 {
                // Nobody but its writer takes the bytes of a string, while there is one.
                if !streaming.abandoned || self.take_bytes()?.is_none() {
                    return Ok(false);
                }
                continue;
            }
            if streaming.first.is_some() {
                // The scanner may be at the second of a pair; from here on elements are taken one by one.
                self.scanner.reset();
            }
            if streaming.abandoned {
                if let Some(n) = streaming.first {
                    self.took(n, 1);
                } else if !self.skip_element()? {
                    return Ok(false);
                }
            } else {
                let Some(n) = self.element(0)? else { return Ok(false) };
                self.move_aside(n);
            }
        }
    }

    /// Skips one element of an abandoned multi-bulk in constant memory.
    fn skip_element(&mut self) -> Result<bool> {
        if self.scanner.is_idle() && !self.skipping {
            match resp::peek(self.input.bytes()) {
                Ok(Peek::Scalar(_, n)) => {
                    self.took(n, 1);
                    return Ok(true);
                }
                Ok(Peek::Incomplete) if self.input.len() < 1024 => return Ok(false),
                Ok(_) => {}
                Err(error) => return Err(self.break_with(error.into())),
            }
        }
        match self.skip_frame(None)? {
            Skipped::Nothing => Ok(false),
            // A push between the elements is none.
            Skipped::Push => Ok(true),
            Skipped::Frame => {
                self.took(0, 1);
                Ok(true)
            }
        }
    }
}

/// What a whole frame is as a multi-bulk.
fn begun(frame: &[u8]) -> Result<Begun> {
    match resp::frame(frame) {
        Some(Frame::Null) => Ok(Begun::Nil),
        Some(Frame::Error(message)) => Err(ServerError::new(message).into()),
        Some(Frame::Array(elements) | Frame::Set(elements)) => Ok(stored(false, elements)),
        Some(Frame::Map(elements)) => Ok(stored(true, elements)),
        Some(other) => Err(unexpected(other.kind())),
        None => Err(unexpected("something else")),
    }
}

fn stored(map: bool, elements: resp::Elements<'_>) -> Begun {
    let count = elements.len() as u64;
    let rest = Rest { bytes: elements.rest().to_vec(), elements: count, cut: false };
    Begun::Elements { map, elements: count, stored: Some(rest) }
}

fn unexpected(got: &'static str) -> Error {
    UnexpectedReply::new("an array, a set or a map", got).into()
}
