//! Waiting for a reply and decoding it.

use std::cell::RefMut;
use std::time::Duration;

use super::deadline::Deadline;
use super::elements::{Begun, Next, Rest};
use super::engine::{BUSY, Engine};
use super::input::BACKLOG;
use super::settle::{Arrived, Waited};
use super::{Connection, place};
use crate::error::{Error, Result, ServerError, UnexpectedReply, WaitError};
use crate::resp::{self, Frame, Peek};
use crate::values::FromReply;

/// Decodes a whole reply. An error reply is an error, whatever the type.
#[inline(always)]
fn decode<T: FromReply>(frame: Frame<'_>) -> Result<T> {
    match frame {
        Frame::Error(message) => Err(server_error(message)),
        frame => T::from_reply(frame),
    }
}

/// Decodes the reply that is the one frame in these bytes.
pub(crate) fn decode_whole<T: FromReply>(bytes: &[u8]) -> Result<T> {
    match whole(bytes) {
        Some(frame) => decode(frame),
        None => Err(UnexpectedReply::new("a reply", "something else").into()),
    }
}

#[cold]
fn server_error(message: &[u8]) -> Error {
    ServerError::new(message).into()
}

impl Connection {
    /// Waits for the reply of this place and takes it. The place is used up, whatever comes: after a timeout it is
    /// detached.
    #[inline]
    pub(crate) fn wait<T: FromReply>(&self, place: u64) -> Result<T> {
        // Only the commonest replies, each with a frame that is known where it is decoded; and no call, so that nothing is
        // saved and restored for one.
        if let Ok(mut engine) = self.engine.try_borrow_mut()
            && place == engine.head
        {
            let Engine { input, head, next, .. } = &mut *engine;
            let bytes = input.buf.get(input.start..input.end).unwrap_or_default();
            // All that user code can see is moved on before it runs.
            if let Some((text, n)) = resp::short_bulk(bytes) {
                input.start += n;
                *next += 1;
                *head += 1;
                return decode(Frame::Bulk(text));
            }
            if let Some((text, n)) = resp::usual_status(bytes) {
                input.start += n;
                *next += 1;
                *head += 1;
                return decode(Frame::SimpleString(text));
            }
            if let Some((value, n)) = resp::short_integer(bytes) {
                input.start += n;
                *next += 1;
                *head += 1;
                return decode(Frame::Integer(value));
            }
        }
        self.wait_longer(place)
    }

    #[inline(never)]
    fn wait_longer<T: FromReply>(&self, place: u64) -> Result<T> {
        let Ok(mut engine) = self.engine.try_borrow_mut() else { return Err(Error::Refused(BUSY)) };
        let mut deadline = None;
        let (at, group) = engine.element_of(place);
        while at == engine.head {
            let Engine { input, head, next, scanner, groups, must_write, .. } = &mut *engine;
            match resp::peek(&input.buf[input.start..input.end]) {
                // On the way that looks at it.
                Ok(Peek::Scalar(Frame::Error(_), _)) if *must_write => break,
                Ok(Peek::Scalar(frame, n)) if n <= BACKLOG => {
                    input.start += n;
                    *next += 1;
                    *head += 1;
                    if let Some(group) = group {
                        groups.release(group);
                    }
                    return decode(frame);
                }
                Ok(Peek::Incomplete) if scanner.is_idle() => {
                    let deadline = engine.deadline(at, &mut deadline);
                    if engine.fill(deadline).is_err() {
                        break;
                    }
                }
                _ => break,
            }
        }
        engine.wait_slowly(place, deadline).map_err(|error| match error {
            WaitError::Failed(error) => error,
            WaitError::Timeout(()) => {
                engine.detach(place);
                Error::Timeout
            }
        })
    }

    /// Waits at most this long. When that was not enough, the place is as good as before.
    pub(crate) fn wait_at_most<T: FromReply>(&self, place: u64, time: Duration) -> Waited<T> {
        let waited = self.with(|engine| engine.wait_slowly(place, Some(Deadline::tentative(time))));
        waited.unwrap_or_else(|busy| Err(busy.into()))
    }

    pub(crate) fn is_ready(&self, place: u64) -> Result<bool> {
        self.with(|engine| engine.is_ready(place))
    }

    /// Gives a place up, without I/O.
    #[inline]
    pub(crate) fn detach(&self, place: u64) {
        // If the connection is in use further up the stack, the place stays as it is, like that of a forgotten handle.
        let Ok(mut engine) = self.engine.try_borrow_mut() else { return };
        if engine.is_outstanding(place) {
            let (next, issued) = (engine.next, engine.issued);
            engine.ring.detach(place, next, issued);
        } else {
            engine.detach(place);
        }
    }

    /// What the drop of a reply does.
    #[inline]
    pub(crate) fn drop_reply(&self, place: u64) {
        let Ok(mut engine) = self.engine.try_borrow_mut() else { return };
        if place == engine.head && engine.input.bytes().starts_with(b"+OK\r\n") {
            engine.input.consume(5);
            engine.next += 1;
            engine.head += 1;
        } else {
            engine.drop_handle(place);
        }
    }

    /// Enters a multi-bulk. What is returned first is the place by which its elements are to be asked for.
    pub(crate) fn begin_elements(&self, place: u64, deadline: &mut Option<Deadline>) -> Result<(u64, Begun)> {
        self.with(|engine| {
            let begun = engine.begin_elements(place, deadline);
            match &begun {
                Err(WaitError::Timeout(())) => engine.detach(place),
                _ => engine.release(place),
            }
            begun.map_err(Error::from)
        })?
    }

    /// Waits for the next element of a multi-bulk, or the next two, and takes them from the connection. They may have been
    /// moved aside: then that is handed over.
    #[inline]
    pub(crate) fn next_elements(
        &self,
        place: u64,
        pair: bool,
        deadline: &mut Option<Deadline>,
    ) -> Result<Result<Taken<'_>, Rest>> {
        let Ok(mut engine) = self.engine.try_borrow_mut() else { return Err(Error::Refused(BUSY)) };
        match engine.next_elements(place, pair, deadline)? {
            Next::Here(first, second) => {
                let start = engine.input.start;
                engine.took(first + second, if pair { 2 } else { 1 });
                Ok(Ok(Taken { engine, start, first, second }))
            }
            Next::Aside(rest) => Ok(Err(rest)),
        }
    }

    /// Takes the next item of a multi-bulk, one element or for pairs two, if it is made of scalars that are whole in the read
    /// buffer: the fast path of `next_elements`, which the last item is left to. `left` counts the elements down.
    #[inline(always)]
    pub(crate) fn next_item<T: FromReply>(&self, place: u64, pair: bool, left: &mut u64) -> Option<Result<T>> {
        let mut engine = self.engine.try_borrow_mut().ok()?;
        let Engine { input, streaming, .. } = &mut *engine;
        let streaming = streaming.as_mut().filter(|streaming| streaming.at_hand(place))?;
        let width = if pair { 2 } else { 1 };
        if streaming.left <= width {
            return None;
        }
        let bytes = input.buf.get(input.start..input.end)?;
        // All that user code can see is moved on before it runs.
        if !pair && let Some((text, n)) = resp::short_bulk(bytes) {
            input.start += n;
            streaming.left -= 1;
            *left -= 1;
            return Some(T::from_element(Frame::Bulk(text)));
        }
        let Ok(Peek::Scalar(first, mut n)) = resp::peek(bytes) else { return None };
        let mut second = None;
        if pair {
            let Ok(Peek::Scalar(frame, more)) = resp::peek(&bytes[n..]) else { return None };
            second = Some(frame);
            n += more;
        }
        input.start += n;
        streaming.left -= width;
        *left -= width;
        Some(match second {
            Some(second) => T::from_pair(first, second),
            None => T::from_element(first),
        })
    }

    /// Runs `take` on elements of a multi-bulk as long as they are scalars that are whole in the read buffer, but for the
    /// last. `left` counts the elements down.
    pub(crate) fn each_scalar(
        &self,
        place: u64,
        left: &mut u64,
        mut take: impl FnMut(Frame<'_>) -> Result<()>,
    ) -> Result<()> {
        let Ok(mut engine) = self.engine.try_borrow_mut() else { return Err(Error::Refused(BUSY)) };
        let Engine { input, streaming, .. } = &mut *engine;
        let Some(streaming) = streaming.as_mut().filter(|streaming| streaming.at_hand(place)) else { return Ok(()) };
        while streaming.left > 1 {
            let Ok(Peek::Scalar(frame, n)) = resp::peek(&input.buf[input.start..input.end]) else { break };
            input.start += n;
            streaming.left -= 1;
            *left -= 1;
            take(frame)?;
        }
        Ok(())
    }

    /// Waits for all elements of a multi-bulk that are left with the connection.
    pub(crate) fn take_rest(&self, place: u64) -> Result<Rest> {
        self.with(|engine| {
            engine.take_rest(place).inspect_err(|error| {
                if let Error::Timeout = error {
                    engine.detach(place);
                }
            })
        })?
    }

    /// Waits for the first byte of the next element and says whether it begins an aggregate.
    pub(crate) fn peek_element(&self, place: u64, deadline: &mut Option<Deadline>) -> Result<Result<bool, Rest>> {
        self.with(|engine| engine.peek_element(place, deadline))?
    }

    /// Gives up a multi-bulk that has been entered, without I/O.
    pub(crate) fn leave_elements(&self, place: u64) {
        let _ = self.with(|engine| engine.leave_elements(place));
    }

    /// Gives elements back that are too few.
    pub(crate) fn put_back(&self, place: u64, rest: Rest) -> Result<()> {
        self.with(|engine| engine.put_back(place, rest))
    }
}

/// Elements in the read buffer that no longer belong to the connection.
pub(crate) struct Taken<'c> {
    engine: RefMut<'c, Engine>,
    start: usize,
    first: usize,
    second: usize,
}

impl Taken<'_> {
    /// The first, and the second if it was asked for.
    #[inline]
    pub(crate) fn frames(&self) -> (Option<Frame<'_>>, Option<Frame<'_>>) {
        let (first, second) =
            self.engine.input.buf[self.start..self.start + self.first + self.second].split_at(self.first);
        (whole(first), if second.is_empty() { None } else { whole(second) })
    }
}

impl Drop for Taken<'_> {
    #[inline]
    fn drop(&mut self) {
        self.engine.input.give_back();
    }
}

/// The frame that these bytes are, scalars first.
#[inline]
fn whole(bytes: &[u8]) -> Option<Frame<'_>> {
    match resp::peek(bytes) {
        Ok(Peek::Scalar(frame, _)) => Some(frame),
        _ => resp::frame(bytes),
    }
}

impl Engine {
    /// Waits for a reply and decodes it from where it is.
    #[inline(never)]
    fn wait_slowly<T: FromReply>(&mut self, place: u64, mut deadline: Option<Deadline>) -> Waited<T> {
        let arrived = self.arrive(place, &mut deadline);
        if !matches!(arrived, Err(WaitError::Timeout(()))) {
            self.release(place);
        }
        let value = match arrived? {
            Arrived::Head(n) => {
                let start = self.input.start;
                self.pass(n);
                let value = decode_whole(&self.input.buf[start..start + n]);
                self.input.give_back();
                value
            }
            Arrived::Stored(frame) => decode_whole(&frame),
            Arrived::Answered(frame) => decode_whole(&frame),
        };
        Ok(value?)
    }

    /// The ordinary place of a handle, as far as it is known without I/O, and the transaction that it belongs to.
    fn element_of(&mut self, place: u64) -> (u64, Option<u32>) {
        if let place::Place::Member { group: id, index } = place::Place::of(place)
            && let Some(group) = self.groups.get(id)
            && let Some(element) = group.element(index)
        {
            return (element, Some(id));
        }
        (place, None)
    }

    /// A handle no longer needs its transaction.
    pub(super) fn release(&mut self, place: u64) {
        if let place::Place::Member { group, .. } = place::Place::of(place) {
            self.groups.release(group);
        }
    }
}
