//! A single value that need not fit into memory: copied out of a reply, or fed into a command, piece by piece.

use std::io::{Read, Write};
use std::ops::Range;

use super::Connection;
use super::deadline::Deadline;
use super::elements::Streaming;
use super::engine::{Engine, TOO_LONG};
use super::issue::Encoded;
use super::place;
use super::settle::{Arrived, Resolved};
use super::table::Effect;
use crate::args::{MAX_ARGUMENT, ToArgs, gather};
use crate::error::{Error, Result, UnexpectedReply, WaitError};
use crate::resp::{self, ProtocolError, number};
use crate::values::FromReply;

/// How much of a value is fed at once.
const PIECE: usize = 64 * 1024;

/// A command of which one argument is fed.
pub(crate) struct Fed<'a> {
    /// The command up to and including the header of that argument.
    head: Vec<u8>,
    value: &'a mut dyn Read,
    len: u64,
    /// The end of that argument, and what is behind it.
    tail: Vec<u8>,
}

impl<'a> Fed<'a> {
    pub(crate) fn new(
        name: &str,
        before: impl ToArgs,
        value: &'a mut dyn Read,
        len: u64,
        after: impl ToArgs,
    ) -> Result<Self> {
        if len > MAX_ARGUMENT as u64 {
            return Err(Error::Argument(TOO_LONG));
        }
        let before = Encoded::named(name, before)?;
        if before.effect() != Effect::Ordinary {
            return Err(Error::Refused("a value can be fed only into a command that does nothing to the connection"));
        }
        let after = gather(|out| after.write_args(out))?;
        let count = resp::encode::arguments(&before.bytes).count() + 1 + after.count;
        let words = memchr::memchr(b'\n', &before.bytes).map_or(0, |end| end + 1);
        let head =
            [format!("*{count}\r\n").as_bytes(), &before.bytes[words..], format!("${len}\r\n").as_bytes()].concat();
        Ok(Fed { head, value, len, tail: [b"\r\n", &after.bytes[..]].concat() })
    }
}

impl Connection {
    /// Copies the value of a reply to a writer. The place is used up, whatever comes.
    pub(crate) fn copy_to(&self, place: u64, to: &mut dyn Write) -> Result<u64> {
        self.with(|engine| engine.copy_to(place, to))?
    }

    /// Issues a command of which one argument is fed, and returns its place.
    pub(crate) fn feed(&self, fed: Result<Fed<'_>>) -> u64 {
        let issued = self.with(|engine| match fed {
            Ok(fed) => engine.feed(fed).unwrap_or_else(|error| engine.born_failed(error)),
            Err(error) => engine.born_failed(error),
        });
        issued.unwrap_or(place::BUSY)
    }
}

impl Connection {
    /// Waits for the reply of this place, which is the next one: the lengths of its header and of itself, if it is a string that
    /// is not in memory yet.
    pub(crate) fn string_in_front(&mut self, place: u64) -> Result<Option<(usize, u64)>> {
        self.engine.get_mut().header_at(place, &mut None)
    }

    /// Copies that string.
    pub(crate) fn copy_front(&mut self, place: u64, (header, len): (usize, u64), to: &mut dyn Write) -> Result<u64> {
        self.engine.get_mut().copy_string(place, header, len, to)
    }

    /// Issues a command of which one argument is fed, when nothing is outstanding, and returns its place.
    pub(crate) fn feed_front(&mut self, fed: Fed<'_>) -> Result<u64> {
        self.engine.get_mut().feed(fed)
    }
}

/// While it lives, the value at the front is being copied; after that, what is left of it is skipped, also when the
/// writer panics.
struct Copying<'a>(&'a mut Engine);

impl Drop for Copying<'_> {
    fn drop(&mut self) {
        self.0.abandon_streaming();
    }
}

/// While it lives, a command is being fed; if that is not finished, as when the reader panics, the server waits for bytes
/// that will never come, and the connection is of no more use.
struct Feeding<'a> {
    engine: &'a mut Engine,
    why: Option<Error>,
}

impl Drop for Feeding<'_> {
    fn drop(&mut self) {
        if self.engine.feeding {
            let why = self.why.take().unwrap_or_else(|| Error::custom("the reader of a value panicked"));
            self.engine.break_with(why);
            self.engine.feeding = false;
        }
    }
}

impl Engine {
    // Out of a reply.

    fn copy_to(&mut self, handle: u64, to: &mut dyn Write) -> Result<u64> {
        let mut deadline = None;
        let place = match self.resolve(handle, &mut deadline) {
            Ok(Resolved::Place(place)) => Ok(place),
            Ok(Resolved::Committed) => Err(UnexpectedReply::new("a string", "a status").into()),
            Ok(Resolved::Answered(reply)) => return copy_whole(&reply, to),
            Err(WaitError::Failed(error)) => Err(error),
            Err(WaitError::Timeout(())) => {
                self.detach(handle);
                return Err(Error::Timeout);
            }
        };
        self.release(handle);
        let place = place?;
        while place >= self.next && !self.is_lost(place) {
            match self.header_at(place, &mut deadline) {
                Ok(Some((header, len))) => {
                    return self.copy_string(place, header, len, to);
                }
                Ok(None) => break,
                Err(Error::Timeout) => {
                    self.detach(place);
                    return Err(Error::Timeout);
                }
                // What the break means for this place is looked at above.
                Err(_) => {}
            }
        }
        // No string, or one that is in memory already.
        match self.arrive(place, &mut deadline) {
            Ok(Arrived::Head(n)) => {
                let start = self.input.start;
                self.pass(n);
                copy_whole(&self.input.buf[start..start + n], to)
            }
            Ok(Arrived::Stored(frame)) => copy_whole(&frame, to),
            Ok(Arrived::Answered(frame)) => copy_whole(&frame, to),
            Err(WaitError::Failed(error)) => Err(error),
            Err(WaitError::Timeout(())) => {
                self.detach(place);
                Err(Error::Timeout)
            }
        }
    }

    /// The length of the header of the string that is the reply of this place, and the length of the string. `None`: it is
    /// something else, or in the store.
    fn header_at(&mut self, place: u64, deadline: &mut Option<Deadline>) -> Result<Option<(usize, u64)>> {
        let deadline = self.deadline(place, deadline);
        loop {
            self.settle_until(place, deadline)?;
            if self.next > place || self.is_lost(place) {
                // It was settled whole on the way, or lost.
                return Ok(None);
            }
            if self.clear_streaming()? {
                match self.front()? {
                    Some(b'$') => {
                        if let Some(end) = memchr::memchr(b'\n', self.input.bytes()) {
                            // A line that ends otherwise is told as an error by whoever decodes it.
                            let digits = self.input.bytes()[1..end].strip_suffix(b"\r").unwrap_or_default();
                            let len = number::parse_u64(digits).filter(|len| *len <= resp::MAX_BULK);
                            if self.caching.wants_whole(place, len.map_or(0, |len| len as usize)) {
                                return Ok(None);
                            }
                            // If a wait that was given up has looked at it as a whole, that does not matter any more.
                            self.scanner.reset();
                            return Ok(len.map(|len| (end + 1, len)));
                        }
                    }
                    Some(_) => return Ok(None),
                    None => {}
                }
            }
            self.fill(deadline)?;
        }
    }

    /// Copies the string that is the reply of this place, whose header is at the front.
    fn copy_string(&mut self, place: u64, header: usize, len: u64, to: &mut dyn Write) -> Result<u64> {
        self.pass(header);
        self.streaming = Some(Streaming::of_bytes(place, len + 2));
        self.refresh_head();
        self.copy_bytes(place, len, to)
    }

    /// Copies the string whose header has just been taken.
    fn copy_bytes(&mut self, place: u64, len: u64, to: &mut dyn Write) -> Result<u64> {
        let copying = Copying(self);
        let engine = &mut *copying.0;
        while engine.streaming.as_ref().is_some_and(|streaming| streaming.place == place) {
            match engine.take_bytes().map_err(|error| engine.of_place(place, error))? {
                Some(piece) if !piece.is_empty() => {
                    to.write_all(&engine.input.buf[piece]).map_err(Error::custom)?;
                }
                Some(_) => return Ok(len),
                None => {
                    // One for each piece: how long it takes to write one is up to the writer.
                    let mut deadline = Deadline::new(engine.config.timeout);
                    if let Err(error) = engine.fill(&mut deadline) {
                        return Err(if matches!(error, Error::Timeout) { error } else { engine.lost_error(place) });
                    }
                }
            }
        }
        Err(engine.lost_error(place))
    }

    /// Takes what has arrived of the bytes in whose middle the connection is. An empty piece: that was all, and their end
    /// has been taken too. `None`: more must arrive first.
    pub(super) fn take_bytes(&mut self) -> Result<Option<Range<usize>>> {
        let available = self.input.len();
        let Some(streaming) = &mut self.streaming else { return Ok(Some(0..0)) };
        let n = streaming.bytes.saturating_sub(2).min(available as u64) as usize;
        if n > 0 {
            streaming.bytes -= n as u64;
            let piece = self.input.start..self.input.start + n;
            self.input.consume(n);
            return Ok(Some(piece));
        }
        if streaming.bytes > 2 || available < 2 {
            return Ok(None);
        }
        if !self.input.bytes().starts_with(b"\r\n") {
            return Err(self.break_with(ProtocolError::MissingCrlf.into()));
        }
        self.input.consume(2);
        self.streaming = None;
        self.refresh_head();
        Ok(Some(0..0))
    }

    // Into a command.

    fn feed(&mut self, fed: Fed<'_>) -> Result<u64> {
        let Fed { head, value, len, tail } = fed;
        // If the reader fails, the connection breaks: it must not take other replies with it.
        let mut deadline = Deadline::new(self.allowance(self.issued));
        self.make_room(1)?;
        self.sync(self.issued, &mut deadline)?;
        self.look_before(self.issued);
        self.up(&mut deadline)?;
        let mut piece = vec![0; len.min(PIECE as u64) as usize];
        // Until something has been sent nothing is lost by giving up.
        value.read_exact(&mut piece).map_err(Error::custom)?;
        let place = self.issued;
        self.issued += 1;
        self.feeding = true;
        let mut feeding = Feeding { engine: self, why: None };
        let engine = &mut *feeding.engine;
        let mut left = len - piece.len() as u64;
        let fed = engine.write_piece(&head).and_then(|()| engine.write_piece(&piece)).and_then(|()| {
            while left > 0 {
                let n = left.min(PIECE as u64) as usize;
                value.read_exact(&mut piece[..n]).map_err(Error::custom)?;
                engine.write_piece(&piece[..n])?;
                left -= n as u64;
            }
            engine.write_piece(&tail)
        });
        match fed {
            Ok(()) => {
                engine.feeding = false;
                engine.all_written();
            }
            Err(error) => feeding.why = Some(error),
        }
        Ok(place)
    }

    /// Writes bytes that are not in the write buffer, while what arrives is taken.
    fn write_piece(&mut self, mut bytes: &[u8]) -> Result<()> {
        let mut deadline = Deadline::new(self.config.timeout);
        while !bytes.is_empty() {
            match self.stream.try_write(bytes) {
                Ok(Some(n)) => {
                    self.wrote = true;
                    self.stats.writes += 1;
                    self.stats.bytes_written += n as u64;
                    bytes = &bytes[n..];
                }
                Ok(None) => self.wait_for_either(&mut deadline)?,
                Err(error) => return Err(self.break_with_io(error)),
            }
        }
        Ok(())
    }
}

/// Copies the string that a whole frame is.
pub(crate) fn copy_whole(frame: &[u8], to: &mut dyn Write) -> Result<u64> {
    let value = resp::frame(frame).map(Vec::<u8>::from_reply);
    let value = value.unwrap_or_else(|| Err(UnexpectedReply::new("a string", "something else").into()))?;
    to.write_all(&value).map_err(Error::custom)?;
    Ok(value.len() as u64)
}
