//! Bytes between the buffers and the socket.

use std::io;

use super::deadline::Deadline;
use super::engine::Engine;
use super::input::BACKLOG;
use crate::error::{Error, Result};

/// How many reads in a row do not wait: a server that sends without end must not keep the caller.
pub(super) const READS: usize = 16;

/// How much is read from a socket that is of no more use. Far more than a socket buffer holds; but the other side may go
/// on writing.
const LAST_WORDS: u64 = 64 << 20;

impl Engine {
    /// Whether something may have arrived: a command was written whose reply has not been read.
    fn replies_due(&self) -> bool {
        self.next < self.flushed || self.output.written > 0
    }

    /// Writes what the socket takes at once, and says whether that was everything, or a thread is away to do it. What has arrived
    /// is taken first, so that the server need not keep it for us.
    pub(super) fn try_flush(&mut self) -> Result<bool> {
        self.check()?;
        if self.output.is_empty() || self.sending {
            return Ok(true);
        }
        self.stats.largest_queue = self.stats.largest_queue.max(self.issued - self.next);
        if self.replies_due() && !self.away && !self.polled {
            self.take_arrived()?;
        }
        loop {
            let written = self.stream.try_write(self.output.pending());
            if let Some(all) = self.after_write(written)? {
                return Ok(all);
            }
        }
    }

    /// Notes what a write has come to, and says whether that was everything, or that the socket takes no more.
    pub(super) fn after_write(&mut self, written: io::Result<Option<usize>>) -> Result<Option<bool>> {
        match written {
            Ok(Some(n)) => {
                self.wrote = true;
                self.stats.writes += 1;
                self.stats.bytes_written += n as u64;
                self.output.written += n;
                if !self.output.is_empty() {
                    return Ok(None);
                }
                self.all_written();
                Ok(Some(true))
            }
            Ok(None) => {
                let count = self.output.compact();
                self.commands_written(count);
                Ok(Some(false))
            }
            Err(error) => Err(self.break_with_io(error)),
        }
    }

    /// Writes everything. While the socket takes nothing, what arrives is read, so that a server that first wants its
    /// replies taken goes on.
    ///
    /// What could not be written because the connection broke is written to the next one, if the policy wants one.
    pub(super) fn flush(&mut self, deadline: &mut Deadline) -> Result<()> {
        loop {
            if self.output.is_empty() && !self.is_broken() {
                return Ok(());
            }
            self.up(deadline)?;
            let step = self.try_flush().and_then(|done| if done { Ok(()) } else { self.wait_for_either(deadline) });
            match step {
                Err(error) if matches!(error, Error::Timeout) || self.is_broken() => return Err(error),
                _ => {}
            }
        }
    }

    /// Waits until the socket takes bytes or has some, and reads these.
    pub(super) fn wait_for_either(&mut self, deadline: &mut Deadline) -> Result<()> {
        let left = self.left(deadline)?;
        match self.stream.ready(left) {
            Ok(true) => self.absorb(),
            Ok(false) => Ok(()),
            Err(error) => Err(self.break_with_io(error)),
        }
    }

    /// Reads what is there. Beyond the room for replies that nobody has asked for yet they are settled, unless the
    /// connection is in the middle of a multi-bulk, which is not moved aside for this.
    pub(super) fn take_arrived(&mut self) -> Result<()> {
        for _ in 0..READS {
            if !self.input.make_room(BACKLOG) {
                if self.is_streaming() {
                    break;
                }
                self.settle_whole()?;
                if !self.input.make_room(BACKLOG) {
                    break;
                }
            }
            // A read that leaves room free has taken everything.
            if !self.read_now()? || !self.input.room().is_empty() {
                break;
            }
        }
        self.skip_detached()
    }

    /// Reads what is there, whatever room it takes.
    fn absorb(&mut self) -> Result<()> {
        if !self.input.make_room(BACKLOG) {
            self.settle_whole()?;
            self.input.make_room(usize::MAX);
        }
        self.read_now().map(drop)
    }

    /// One read that does not wait. Says whether bytes came.
    pub(super) fn read_now(&mut self) -> Result<bool> {
        if self.away || self.doom.is_some() {
            return Ok(false);
        }
        match self.stream.try_read(self.input.room()) {
            Ok(Some(0)) => Err(self.closed_by_server()),
            Ok(Some(n)) => {
                self.arrived(n);
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(error) => Err(self.break_with_io(error)),
        }
    }

    /// Sends everything and waits until bytes arrive. The frame at the front is not whole, so the buffer may grow for it.
    pub(super) fn fill(&mut self, deadline: &mut Deadline) -> Result<()> {
        self.up(deadline)?;
        let before = self.stats.bytes_read;
        loop {
            let written = self.try_flush()?;
            // What has come may be what is waited for, while the server wants something done before it reads on.
            if self.stats.bytes_read != before {
                // But it may also be something else, without end.
                if !written {
                    self.left(deadline)?;
                }
                return Ok(());
            }
            if written {
                break;
            }
            self.wait_for_either(deadline)?;
        }
        self.input.make_room(usize::MAX);
        self.stats.largest_queue = self.stats.largest_queue.max(self.issued - self.next);
        self.stats.round_trips += u64::from(std::mem::take(&mut self.wrote));
        loop {
            let left = self.left(deadline)?;
            match self.stream.read(self.input.room(), left) {
                Ok(Some(0)) => return Err(self.closed_by_server()),
                Ok(Some(n)) => {
                    self.arrived(n);
                    return Ok(());
                }
                // The clock says whether it was the deadline, a signal, or a receive timeout that was nearly right.
                Ok(None) => {}
                Err(error) => return Err(self.break_with_io(error)),
            }
        }
    }

    pub(super) fn arrived(&mut self, n: usize) {
        self.input.end += n;
        self.silent = false;
        self.stats.reads += 1;
        self.stats.bytes_read += n as u64;
    }

    /// What is left of the time; notes that the server is silent when nothing is.
    fn left(&mut self, deadline: &mut Deadline) -> Result<Option<std::time::Duration>> {
        let left = deadline.left();
        if let Err(Error::Timeout) = left {
            self.silent = true;
            if self.found_at.is_some() {
                // The next command asks whether the server is still the one that was looked for.
                self.limit = 0;
            }
        }
        left
    }

    /// Reads what a broken socket still holds, without waiting and whatever else goes wrong.
    pub(super) fn read_the_rest(&mut self) {
        let enough = self.stats.bytes_read + LAST_WORDS;
        while self.stats.bytes_read < enough {
            self.input.make_room(usize::MAX);
            match self.stream.try_read(self.input.room()) {
                Ok(Some(n)) if n > 0 => self.arrived(n),
                _ => return,
            }
        }
    }
}
