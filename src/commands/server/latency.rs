//! What took long: events that were measured, and slow or large commands.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use crate::args::{Arg, ToArg};
use crate::commands::record::{elements, next, record};
use crate::error::Result;
use crate::resp::{Elements, Frame};
use crate::values::FromReply;

fn next_millis(items: &mut Elements<'_>) -> Result<Duration> {
    next(items).map(Duration::from_millis)
}

fn next_time(items: &mut Elements<'_>) -> Result<SystemTime> {
    items.next().map_or(Ok(SystemTime::UNIX_EPOCH), SystemTime::from_reply)
}

/// What has been measured of an event: the reply of [`latency_latest`](super::ServerCommands::latency_latest).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct LatencyEvent {
    /// The name of the event: `command`, `fork` and others.
    pub event: String,
    /// When it last took long, in whole seconds.
    pub time: SystemTime,
    /// How long it took then.
    pub latest: Duration,
    /// The longest that it took.
    pub worst: Duration,
    /// How long all of them took together. Since Valkey 8.1.
    pub sum: Option<Duration>,
    /// How many there were. Since Valkey 8.1.
    pub count: Option<u64>,
}

impl FromReply for LatencyEvent {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let mut items = elements(&frame, "an event and its times")?;
        Ok(LatencyEvent {
            event: next(&mut items)?,
            time: next_time(&mut items)?,
            latest: next_millis(&mut items)?,
            worst: next_millis(&mut items)?,
            sum: next::<Option<u64>>(&mut items)?.map(Duration::from_millis),
            count: next(&mut items)?,
        })
    }
}

/// One time that an event took long: the reply of [`latency_history`](super::ServerCommands::latency_history).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct LatencySample {
    /// When it was, in whole seconds.
    pub time: SystemTime,
    /// How long it took.
    pub latency: Duration,
}

impl FromReply for LatencySample {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let mut items = elements(&frame, "a time and how long it took")?;
        Ok(LatencySample { time: next_time(&mut items)?, latency: next_millis(&mut items)? })
    }
}

record! {
    /// How long calls of a command took: the reply of [`latency_histogram`](super::ServerCommands::latency_histogram).
    LatencyHistogram: "a histogram" {
        /// How many calls there were.
        "calls" calls: u64,
        /// For times that double from one to the next, how many calls took at most that long.
        "histogram_usec" buckets: Vec<(Duration, u64)> = time_buckets,
    }
}

fn time_buckets(frame: Frame<'_>) -> Result<Vec<(Duration, u64)>> {
    let pairs = Vec::<(u64, u64)>::from_reply(frame)?;
    Ok(pairs.into_iter().map(|(micros, calls)| (Duration::from_micros(micros), calls)).collect())
}

/// A command that took long: the reply of [`slowlog_get`](super::ServerCommands::slowlog_get).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct SlowlogEntry {
    /// Its number since the server started.
    pub id: u64,
    /// When it ran, in whole seconds.
    pub time: SystemTime,
    /// How long it took to run, waiting not counted.
    pub duration: Duration,
    /// Its words; the server cuts off long ones and leaves out many.
    pub command: Vec<Vec<u8>>,
    /// The address of the client.
    pub client_address: String,
    /// The name of the client; empty if it had none.
    pub client_name: String,
}

impl SlowlogEntry {
    /// The address of the client, if it is one of the network.
    #[must_use]
    pub fn socket_address(&self) -> Option<SocketAddr> {
        self.client_address.parse().ok()
    }
}

impl FromReply for SlowlogEntry {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        CommandlogEntry::from_reply(frame).map(|entry| SlowlogEntry {
            id: entry.id,
            time: entry.time,
            duration: entry.duration(),
            command: entry.command,
            client_address: entry.client_address,
            client_name: entry.client_name,
        })
    }
}

/// A command that was slow or large: the reply of [`commandlog_get`](super::ServerCommands::commandlog_get).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct CommandlogEntry {
    /// Its number since the server started.
    pub id: u64,
    /// When it ran, in whole seconds.
    pub time: SystemTime,
    /// Microseconds in the log of slow commands, bytes in those of large ones.
    pub amount: u64,
    /// Its words; the server cuts off long ones and leaves out many.
    pub command: Vec<Vec<u8>>,
    /// The address of the client.
    pub client_address: String,
    /// The name of the client; empty if it had none.
    pub client_name: String,
}

impl CommandlogEntry {
    /// The amount as a time: for entries of [`CommandlogKind::Slow`].
    #[must_use]
    pub fn duration(&self) -> Duration {
        Duration::from_micros(self.amount)
    }
}

impl FromReply for CommandlogEntry {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let mut items = elements(&frame, "an entry of the log")?;
        Ok(CommandlogEntry {
            id: next(&mut items)?,
            time: next_time(&mut items)?,
            amount: next(&mut items)?,
            command: next(&mut items)?,
            client_address: next(&mut items)?,
            client_name: next(&mut items)?,
        })
    }
}

/// Which log of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CommandlogKind {
    /// Those that took long: the same as SLOWLOG.
    Slow,
    /// Those that were large themselves.
    LargeRequest,
    /// Those with large replies.
    LargeReply,
}

impl ToArg for CommandlogKind {
    fn to_arg(&self) -> Arg<'_> {
        Arg::from(match self {
            CommandlogKind::Slow => "SLOW",
            CommandlogKind::LargeRequest => "LARGE-REQUEST",
            CommandlogKind::LargeReply => "LARGE-REPLY",
        })
    }
    const DIRECT: bool = true;
}
