//! Values that need not fit into memory: copied out of a reply, or fed into a command.

use std::io::{Read, Write};
use std::mem::ManuallyDrop;

use super::core::{Core, NO_OWNER, NOWHERE, Where};
use super::node::{Entry, ITSELF, flag};
use super::ticket::{BUSY, Ticket, sent};
use super::wait::Time;
use super::{Cluster, ClusterReply, slot_of};
use crate::args::{ToArg, bytes_of};
use crate::connection::{Fed, copy_whole};
use crate::error::{Error, Result, WaitError};
use crate::resp::encode;
use crate::values::FromReply;

impl<T: FromReply> ClusterReply<'_, T> {
    /// Waits for the reply, which must be a string, and copies it to a writer, in constant memory, however long it is. Says how
    /// many bytes it had. See [`Reply::copy_to`](crate::Reply::copy_to).
    ///
    /// Redirects are followed before anything is written. The writer may not use the cluster.
    ///
    /// ```
    /// # fn main() -> redefer::Result<()> {
    /// # #[cfg(all(unix, feature = "testing"))] {
    /// # let nodes = redefer::testing::Cluster::builder().replicas(0).start()?;
    /// # let cluster = redefer::cluster::Cluster::open(nodes.urls())?;
    /// use std::io::Read;
    ///
    /// use redefer::prelude::*;
    ///
    /// let film = std::io::repeat(7).take(100_000);   // or a File
    /// cluster.set_from("film", film, 100_000).wait()?;
    /// let mut copy = Vec::new();
    /// assert_eq!(cluster.get::<Vec<u8>>("film").copy_to(&mut copy)?, 100_000);
    /// assert_eq!(copy, vec![7; 100_000]);
    /// # }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`wait`](ClusterReply::wait), before anything has been written. An error of the writer is [`Error::Custom`];
    /// what is left of the value is skipped then. [`Error::Timeout`] and [`Error::ConnectionLost`] may come when a part has been
    /// written: the value is not asked for again.
    pub fn copy_to(self, writer: &mut impl Write) -> Result<u64> {
        let handle = ManuallyDrop::new(self);
        handle.cluster.with(|core| core.copy_to(handle.ticket, writer))?
    }
}

/// Values that are read from a file or a pipe while they are sent.
impl Cluster {
    /// Sets a key to what a reader gives, of which there must be `len` bytes, at most 512 MiB: SET, in constant memory. See
    /// [`Connection::command_from`](crate::Connection::command_from) for when it blocks.
    ///
    /// **What a reader has given cannot be sent again**, so no redirect is followed. The node of the key is asked first whether it
    /// has that (EXISTS). If the slot moves all the same meanwhile, or is being moved and the key is not there, the
    /// handle has the error MOVED, ASK or TRYAGAIN: nothing has run, and whoever can begin the value again may try again. For other
    /// commands with a value from a reader there is [`connection_to`](Cluster::connection_to).
    ///
    /// # Errors
    ///
    /// Told by the handle: those redirects, and those of [`Connection::command_from`](crate::Connection::command_from). What a
    /// reader fails with behind the first 64 KiB breaks the connection to the node; earlier commands have been answered by then.
    ///
    /// [SET](https://redis.io/docs/latest/commands/set/)
    pub fn set_from(&self, key: impl ToArg, value: impl Read, len: u64) -> ClusterReply<'_, ()> {
        self.feed("SET", key, value, len)
    }

    /// Appends what a reader gives, of which there must be `len` bytes, to a string: APPEND. The reply is the new length. See
    /// [`set_from`](Cluster::set_from).
    ///
    /// [APPEND](https://redis.io/docs/latest/commands/append/)
    pub fn append_from(&self, key: impl ToArg, value: impl Read, len: u64) -> ClusterReply<'_, u64> {
        self.feed("APPEND", key, value, len)
    }

    fn feed<T: FromReply>(&self, name: &str, key: impl ToArg, mut value: impl Read, len: u64) -> ClusterReply<'_, T> {
        let ready = bytes_of(&key).and_then(|key| {
            let mut probe = Vec::new();
            encode::encode_command(&mut probe, &[b"EXISTS", &key[..]]);
            Ok((slot_of(&key), probe, Fed::new(name, &key, &mut value, len, ())?))
        });
        let ticket = self.with(|core| match ready.and_then(|(slot, probe, fed)| core.feed(slot, &probe, fed)) {
            Ok(ticket) => ticket,
            Err(error) => core.born_failed(error),
        });
        ClusterReply::new(self, ticket.unwrap_or(BUSY))
    }
}

impl Core {
    fn copy_to(&mut self, ticket: u64, to: &mut dyn Write) -> Result<u64> {
        let mut time = Time::usual();
        let copied = match Ticket::of(ticket) {
            Ticket::Sent(..) | Ticket::Other => self.copy_within(ticket, to, &mut time),
            _ => self.wait_frame(ticket, &mut time).and_then(|frame| Ok(copy_whole(&frame, to)?)),
        };
        copied.map_err(|error| match error {
            WaitError::Failed(error) => error,
            WaitError::Timeout(()) => self.expire(ticket),
        })
    }

    fn copy_within(&mut self, ticket: u64, to: &mut dyn Write, time: &mut Time) -> Result<u64, WaitError<()>> {
        loop {
            let (n, place) = match self.locate(ticket) {
                Where::Here => return Ok(copy_whole(&self.take(ticket)?, to)?),
                Where::Sent(n, place) => (n, place),
                Where::Parked(slot) => {
                    self.wait_for_slot(slot, time)?;
                    continue;
                }
            };
            let node = &mut self.nodes[usize::from(n)];
            if node.read < place {
                self.read_from(n, place - 1, time)?;
                continue;
            }
            let on_conn = node.on_conn(place);
            let (Some(conn), Some(entry)) = (&mut node.conn, node.entries.front().copied()) else {
                return Err(Error::Refused(crate::connection::GONE).into());
            };
            match conn.string_in_front(on_conn) {
                Ok(Some(string)) => {
                    // All that the writer can see is moved on before it runs.
                    self.passed(n, entry, ticket);
                    let node = &mut self.nodes[usize::from(n)];
                    node.silent = false;
                    let copied = node.conn.as_mut().map(|conn| conn.copy_front(on_conn, string, to));
                    return Ok(copied.unwrap_or(Err(NO_OWNER))?);
                }
                // No string, or none yet, or none any more: the way of all replies.
                Ok(None) => self.read_from(n, place, time)?,
                Err(Error::Timeout) => return Err(WaitError::Timeout(())),
                Err(_) => self.bury(n),
            }
        }
    }

    /// Sends a command that cannot be sent again, and returns its ticket.
    fn feed(&mut self, slot: u16, probe: &[u8], fed: Fed<'_>) -> Result<u64> {
        let mut time = Time::usual();
        let probe = self.issue(slot, probe, flag::IDEMPOTENT, None);
        if let Err(error) = self.wait_frame(probe, &mut time) {
            return Err(match error {
                WaitError::Failed(error) => error,
                WaitError::Timeout(()) => self.expire(probe),
            });
        }
        // In the order of its slot, and so that nothing else is lost with the connection if the reader fails.
        let n = loop {
            self.service();
            if self.troubles.contains_key(&slot) {
                self.wait_for_slot(slot, &mut time)?;
                continue;
            }
            let n = self.slots[usize::from(slot)];
            if n == NOWHERE {
                return Err(NO_OWNER);
            }
            self.connect(n).map_err(super::core::unsent)?;
            let node = &self.nodes[usize::from(n)];
            match node.entries.len() as u64 {
                0 => break n,
                left => self.read_from(n, node.read + left - 1, &mut time)?,
            }
        };
        let node = &mut self.nodes[usize::from(n)];
        let Some(conn) = &mut node.conn else { return Err(NO_OWNER) };
        let place = conn.feed_front(fed)?;
        // Without its bytes it is not sent again.
        let place = node.sent(place, Entry { origin: ITSELF, len: 0, slot, flags: flag::FIXED }, &[]);
        self.outstanding[usize::from(slot)] += 1;
        Ok(sent(n, place))
    }
}
