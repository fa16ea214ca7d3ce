//! A connection that listens: frames as they come, outside of the queue of replies.
//!
//! Nothing has a place here. What is written is gathered apart, and each whole frame goes to the
//! [`Subscriber`](crate::pubsub::Subscriber), which knows what it answers.

use std::io;
use std::time::Duration;

use super::deadline::Deadline;
use super::engine::Engine;
use super::wake::Waker;
use super::{Config, Connection, Link, Protocol, events};
use crate::args::Block;
use crate::error::{Error, Result};
use crate::resp::Scanner;

/// A connection whose queue is empty and stays so.
pub(crate) struct Listener {
    conn: Connection,
    out: Vec<u8>,
    written: usize,
    /// The scanner is in the middle of the frame at the front.
    begun: bool,
    /// Why nothing more can be written. What the server has sent before is read all the same.
    unwritable: Option<io::Error>,
}

impl Connection {
    /// Reads everything outstanding, and turns to listening.
    pub(crate) fn listen(mut self) -> Result<Listener> {
        self.quiet()?;
        Ok(Listener { conn: self, out: Vec::new(), written: 0, begun: false, unwritable: None })
    }
}

impl Connection {
    /// Reads everything outstanding, and forgets what was kept for handles.
    pub(super) fn quiet(&mut self) -> Result<()> {
        self.with_guards(Engine::quiet)??;
        self.engine.get_mut().forget_handles();
        Ok(())
    }
}

impl Engine {
    /// Reads everything outstanding, unless there is something that reading does not end. The caller owns the connection.
    pub(super) fn quiet(&mut self) -> Result<()> {
        let endless = self.blocking.iter().any(|(place, block)| *place >= self.next && *block == Block::Forever);
        const LEFT: Error = Error::Refused(
            "a watch, a batch, a subscription or a blocking command without end is left on the connection",
        );
        if self.watching || self.batch.is_some() || endless {
            return Err(LEFT);
        }
        self.abandon_streaming();
        let (next, issued) = (self.next, self.issued);
        for place in next..issued {
            self.ring.detach(place, next, issued);
        }
        let mut deadline = Deadline::new(self.allowance(issued));
        self.sync(issued, &mut deadline)?;
        // What was issued last may have ended them all.
        if self.is_subscribed() {
            return Err(LEFT);
        }
        self.up(&mut deadline)
    }

    /// Lets go of what was kept for handles: the caller owns the connection, so none is left but forgotten ones. Errors go to
    /// the account.
    fn forget_handles(&mut self) {
        for (place, frame) in std::mem::take(&mut self.store).into_frames() {
            self.check_skipped(place, &frame);
        }
        self.groups = Default::default();
        self.rests.clear();
    }
}

impl Listener {
    fn engine(&mut self) -> &mut Engine {
        self.conn.engine.get_mut()
    }

    pub(crate) fn config(&mut self) -> &Config {
        &self.engine().config
    }

    pub(crate) fn is_resp2(&mut self) -> bool {
        self.engine().config.protocol == Protocol::Resp2
    }

    /// Turns back. Nothing must be left to be written or read.
    pub(crate) fn into_connection(self) -> Connection {
        self.conn
    }

    /// Whether everything has been written.
    pub(crate) fn is_written(&self) -> bool {
        self.out.is_empty() && self.unwritable.is_none()
    }

    /// Takes bytes that are to be written.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Notes an error that nobody has seen.
    pub(crate) fn account_for(&mut self, error: Error) {
        self.engine().unseen_anywhere(error);
    }

    /// The length of the frame at the front, if it is whole.
    pub(crate) fn front(&mut self) -> Result<Option<usize>> {
        let engine = self.conn.engine.get_mut();
        if engine.input.len() == 0 {
            return Ok(None);
        }
        let whole = engine.scanner.scan(engine.input.bytes())?;
        self.begun = whole.is_none();
        Ok(whole)
    }

    /// The bytes from the beginning of the next frame on, unless some of it has been scanned.
    #[inline]
    pub(crate) fn ahead(&mut self) -> &[u8] {
        if self.begun { &[] } else { self.conn.engine.get_mut().input.bytes() }
    }

    /// Moves on behind the frame at the front, which stays where it is until the next [`traffic`](Listener::traffic).
    pub(crate) fn pass(&mut self, n: usize) {
        self.engine().input.consume(n);
    }

    /// The frame that was passed last.
    pub(crate) fn passed(&mut self, n: usize) -> &[u8] {
        let input = &self.engine().input;
        &input.buf[input.start - n..input.start]
    }

    /// Keeps the frame that was passed last for those who ask for pushes.
    pub(crate) fn keep_push(&mut self, n: usize) {
        let push = self.passed(n).to_vec();
        self.engine().keep_push(push);
    }

    pub(crate) fn next_push(&mut self) -> Option<Vec<u8>> {
        self.engine().next_push()
    }

    /// Writes what the socket takes and reads what is there, without waiting. Says whether anything was read.
    pub(crate) fn traffic(&mut self) -> Result<bool> {
        self.write();
        let engine = self.engine();
        engine.input.make_room(usize::MAX);
        match engine.stream.try_read(engine.input.room()) {
            Ok(Some(0)) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection").into()),
            Ok(Some(n)) => {
                engine.arrived(n);
                Ok(true)
            }
            Ok(None) => self.unwritable.take().map_or(Ok(false), |error| Err(error.into())),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes what the socket takes at once.
    pub(crate) fn write(&mut self) {
        while self.written < self.out.len() && self.unwritable.is_none() {
            let engine = self.conn.engine.get_mut();
            match engine.stream.try_write(&self.out[self.written..]) {
                Ok(Some(n)) => {
                    engine.stats.writes += 1;
                    engine.stats.bytes_written += n as u64;
                    self.written += n;
                }
                Ok(None) => {
                    // What has been written is given back: to a server that reads slowly there may always be more.
                    if self.written > self.out.len() / 2 {
                        self.out.drain(..self.written);
                        self.written = 0;
                    }
                    return;
                }
                Err(error) => self.unwritable = Some(error),
            }
        }
        (self.out, self.written) = (Vec::new(), 0);
    }

    /// Waits for at most this long until there is traffic or word from another thread. May return early.
    pub(crate) fn wait(&mut self, waker: &Waker, time: Option<Duration>) -> Result<()> {
        let writing = !self.out.is_empty();
        Ok(self.engine().stream.wait(waker, writing, time)?)
    }

    /// Waits for word from another thread alone.
    pub(crate) fn pause(&self, waker: &Waker, time: Duration) -> Result<()> {
        Ok(waker.wait(None, Some(time))?)
    }

    /// The connection is of no more use.
    pub(crate) fn close(&mut self, cause: &Error) {
        (self.out, self.written, self.unwritable) = (Vec::new(), 0, None);
        self.begun = false;
        let engine = self.engine();
        events::lost(&engine.config.endpoint, cause, 0, 0);
        engine.link = Link::Broken;
        engine.refresh_head();
        engine.stream.close();
        engine.input.start = engine.input.end;
        engine.input.give_back();
        engine.scanner = Scanner::new(false);
    }

    /// There will be no attempt for some time, or ever.
    pub(crate) fn given_up(&mut self, cause: &Error) {
        events::given_up(&self.config().endpoint, cause);
    }

    /// An attempt to connect again has failed, as so many did before.
    pub(crate) fn attempt_failed(&mut self, error: &Error, failed: u32) {
        events::attempt_failed(&self.config().endpoint, error, failed.saturating_add(1));
    }

    /// Connects again, in this time.
    pub(crate) fn dial(&mut self, time: Duration) -> Result<()> {
        let engine = self.engine();
        let changed: Vec<_> = engine.changed.values().cloned().collect();
        let fresh = Engine::connect(engine.redial_config(), time, &changed)?;
        engine.adopt(fresh);
        Ok(())
    }
}
