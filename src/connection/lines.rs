//! A connection whose server answers one command with lines without end, as MONITOR does.
//!
//! Nothing else is issued on it. Lines are looked for in the read buffer by themselves, not by the scanner: one that is
//! longer than a status may be is passed over and told, where the scanner would give the whole connection up.

use std::sync::Arc;
use std::time::Duration;

use super::engine::Engine;
use super::traffic::READS;
use super::wake::Stop;
use super::{Connection, Deadline, Reconnect};
use crate::error::{ConnectionLost, Error, Result, Sent, ServerError, UnexpectedReply};
use crate::resp::{self, MAX_LINE, ProtocolError};

pub(crate) struct Lines {
    conn: Connection,
    /// How many bytes at the front of the read buffer are known to have no end of a line in them.
    seen: usize,
    /// The line at the front is too long, and what has come of it is gone.
    cut: bool,
    /// What the connection has been opened with. None applies to the lines: those of a break would be lost in silence.
    policy: Reconnect,
    stop: Arc<Stop>,
}

impl Lines {
    /// Reads everything that is outstanding, then sends the command and waits until the server has agreed.
    pub(crate) fn begin(conn: Connection, command: &str) -> Result<Lines> {
        let stop = Arc::new(Stop::new()?);
        let (policy, place) = conn.with_guards(|engine| {
            engine.quiet()?;
            let policy = std::mem::take(&mut engine.config.reconnect);
            let mut bytes = Vec::new();
            resp::encode_command(&mut bytes, &[command]);
            Ok::<_, Error>((policy, engine.issue_encoded(&bytes, None)))
        })??;
        conn.wait::<()>(place)?;
        Ok(Lines { conn, seen: 0, cut: false, policy, stop })
    }

    /// The connection, to look at.
    pub(crate) fn connection(&self) -> &Connection {
        &self.conn
    }

    /// What ends a wait for the next line.
    pub(crate) fn stop(&self) -> &Arc<Stop> {
        &self.stop
    }

    /// The next line without its type byte and its end. Waits for at most this long, without a time for ever, and with no
    /// time at all takes what is there. [`Error::Timeout`] at once when a stop is wanted.
    ///
    /// Whether there may be another one after an error is to be seen from the connection.
    pub(crate) fn next(&mut self, time: Option<Duration>) -> Result<Vec<u8>> {
        let mut deadline = Deadline::new(time);
        let mut reads = 0;
        loop {
            if self.stop.is_wanted() {
                return Err(Error::Timeout);
            }
            if let Some(line) = self.take_line()? {
                return Ok(line);
            }
            let engine = self.conn.engine.get_mut();
            engine.check().map_err(after_sending)?;
            engine.input.make_room(usize::MAX);
            // What breaks the connection may come behind whole lines, so the error is told when these have been.
            match engine.read_now() {
                Ok(false) => {}
                // A line without end must not outlast the time there is.
                Ok(true) if time == Some(Duration::ZERO) && reads < READS => {
                    reads += 1;
                    continue;
                }
                Ok(true) if time != Some(Duration::ZERO) => {
                    deadline.left()?;
                    continue;
                }
                Ok(true) => return Err(Error::Timeout),
                Err(_) => continue,
            }
            if time == Some(Duration::ZERO) {
                return Err(Error::Timeout);
            }
            if let Err(error) = engine.stream.wait(&self.stop.waker, false, deadline.left()?) {
                engine.break_with_io(error);
            }
        }
    }

    /// The line at the front, if it is whole. Pushes in front of it are lifted out.
    fn take_line(&mut self) -> Result<Option<Vec<u8>>> {
        let engine = self.conn.engine.get_mut();
        let first = match self.cut {
            // In the middle of a line no byte is a type.
            true => engine.input.bytes().first().copied(),
            false => engine.front().map_err(after_sending)?,
        };
        let is_error = match first {
            None => return Ok(None),
            Some(_) if self.cut => false,
            Some(b'+') => false,
            Some(b'-') => true,
            Some(_) => {
                engine.input.start = engine.input.end;
                return Err(after_sending(engine.break_with(ProtocolError::UnaskedReply.into())));
            }
        };
        let bytes = engine.input.bytes();
        let Some(end) = memchr::memmem::find(&bytes[self.seen..], b"\r\n").map(|at| self.seen + at) else {
            // The last byte may be the first half of an end.
            self.seen = bytes.len() - 1;
            if self.cut || bytes.len() > MAX_LINE {
                engine.input.consume(self.seen);
                (self.seen, self.cut) = (0, true);
            }
            return Ok(None);
        };
        let too_long = std::mem::take(&mut self.cut) || end > MAX_LINE;
        let line = if too_long { Vec::new() } else { bytes[1..end].to_vec() };
        engine.input.consume(end + 2);
        engine.input.give_back();
        self.seen = 0;
        if too_long {
            return Err(UnexpectedReply::new("a line of at most 64 MiB", "a longer one").into());
        }
        if is_error { Err(ServerError::new(line).into()) } else { Ok(Some(line)) }
    }

    /// Closes the connection and makes it anew, as a reconnect would.
    pub(crate) fn end(mut self) -> Result<Connection> {
        self.conn.engine.get_mut().dial_anew(self.policy)?;
        Ok(self.conn)
    }
}

/// The error of a connection that broke while it had lines to bring: the command had been sent.
fn after_sending(error: Error) -> Error {
    match error {
        Error::ConnectionLost(lost) => {
            Error::ConnectionLost(Arc::new(ConnectionLost::new(Sent::Fully, lost.cause().clone())))
        }
        error => error,
    }
}

impl Engine {
    /// Goes on with a new connection, on which nothing has happened yet.
    fn dial_anew(&mut self, policy: Reconnect) -> Result<()> {
        // To the end of file: a server that has no room left must have noticed before the new connection comes.
        self.close();
        self.config.reconnect = policy;
        let changed: Vec<_> = self.changed.values().cloned().collect();
        let fresh = Engine::connect(self.redial_config(), self.config.connect_timeout, &changed)?;
        self.watch_generation += 1;
        self.adopt(fresh);
        self.check()
    }
}
