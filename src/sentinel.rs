//! Sentinel: a primary and its replicas by name, followed through failovers.
//!
//! [Sentinels](https://redis.io/docs/latest/operate/oss_and_stack/management/sentinel/) watch a primary and its replicas and
//! make a replica the primary when that fails. [`Sentinel`] asks them where the primary is, each time that it is dialled:
//!
//! ```no_run
//! use redefer::prelude::*;
//! use redefer::{Reconnect, Sentinel};
//!
//! # fn main() -> redefer::Result<()> {
//! let sentinel = Sentinel::new(["redis://10.0.0.1:26379", "redis://10.0.0.2:26379"], "mymaster")?;
//! let config = sentinel.primary().user("app").password("secret").reconnect(Reconnect::backoff());
//!
//! let conn = Connection::open(config)?;              // or a Pool, a Subscriber, …
//! conn.set("k", "v").wait()?;
//! # Ok(())
//! # }
//! ```
//!
//! # What a failover looks like
//!
//! The configuration is an ordinary one, so what [`Reconnect`] promises holds: when the connection to a primary is
//! lost, or it says READONLY, the next call asks the sentinels, connects, makes sure by ROLE that it is the primary,
//! and sends what was not sent yet. Until a new primary is elected the attempts fail and are repeated as the policy says,
//! so **give it attempts for longer than a failover takes**: `down-after-milliseconds` and some seconds. Without a
//! policy the connection stays broken, and opening another one finds the new primary.
//!
//! A primary that hangs (its machine is gone, and no word of it) gives [`Error::Timeout`]: the first command after that asks the
//! sentinels whether it still is the primary, and leaves it if not. A [`Subscriber`] asks for nothing, and so notices only by
//! [`Config::keepalive`] or [`Config::tcp_user_timeout`], as does a [`Shared`](crate::Shared), whose threads must not wait for that; it also
//! leaves a primary that says READONLY at once, so that commands outstanding there are lost with the connection.
//!
//! A command that a demoted primary has refused with READONLY did not run. Its handle has that error, and the next command
//! goes to the new primary. Writes that the old primary has acknowledged and not passed on before it failed are lost: replication
//! is asynchronous; WAIT ([`BlockingKeyCommands`](crate::commands::BlockingKeyCommands)) and the server's `min-replicas-to-write` make that rarer.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::connection::{Config, Connection, Endpoint, Find, Found, IntoConfig, Reconnect};
use crate::error::{Error, Result};
use crate::pubsub::{Event, Subscriber, SubscriberHandle};

/// How many sentinels are remembered.
const MOST: usize = 64;

/// The sentinels of a primary: see the [module](self).
///
/// Cloned, it is the same: what one learns the others know. May be used by any number of threads.
#[derive(Clone)]
pub struct Sentinel {
    watch: Arc<Watch>,
}

/// Who watches, and what.
struct Watch {
    /// The one that answered last first.
    sentinels: Mutex<Vec<Config>>,
    name: String,
}

impl Sentinel {
    /// Sentinels, one or more, by URL or [`Config`], each with the user, the password and the TLS settings of its own; and the name
    /// under which they watch. Never blocks; they are asked when something is dialled.
    ///
    /// Others that these know of are learned when one answers, and asked with the settings of that one.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] when there is none, or one of them cannot be used.
    pub fn new(sentinels: impl IntoIterator<Item: IntoConfig>, name: impl Into<String>) -> Result<Sentinel> {
        let sentinels: Vec<Config> =
            sentinels.into_iter().map(|sentinel| sentinel.into_config()).collect::<Result<_>>()?;
        if sentinels.is_empty() {
            return Err(Error::Config("there is no sentinel to ask".into()));
        }
        Ok(Sentinel { watch: Arc::new(Watch { sentinels: Mutex::new(sentinels), name: name.into() }) })
    }

    /// How to reach the primary, wherever it is when it is dialled. Credentials, TLS, a policy and all else that concerns the
    /// servers are set on what is returned.
    pub fn primary(&self) -> Config {
        self.config(Role::Primary)
    }

    /// How to reach a replica that is up and linked to the primary, another one at random each time that it is dialled. It takes
    /// no writes, and may be behind.
    pub fn replica(&self) -> Config {
        self.config(Role::Replica)
    }

    /// How to reach a replica, or the primary while there is none that is up.
    pub fn replica_or_primary(&self) -> Config {
        self.config(Role::Either)
    }

    fn config(&self, role: Role) -> Config {
        let search = Search { watch: Arc::clone(&self.watch), role };
        Config::new(Endpoint::Found(Found(Arc::new(search))))
    }

    /// Where the primary is at present: host and port. Asks the sentinels in turn, and blocks for at most 5 s.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]: of the kind [`NotFound`](io::ErrorKind::NotFound) when none that answers knows the name, and else with what
    /// the last one has met with that does not answer.
    pub fn primary_address(&self) -> Result<(String, u16)> {
        self.watch.primary(Instant::now() + TIME)
    }

    /// Where the replicas are that are up and linked to the primary. Otherwise as [`primary_address`](Sentinel::primary_address).
    ///
    /// # Errors
    ///
    /// [`Error::Io`]: of the kind [`NotFound`](io::ErrorKind::NotFound) when none that answers knows the name, and else with what
    /// the last one has met with that does not answer.
    pub fn replica_addresses(&self) -> Result<Vec<(String, u16)>> {
        self.watch.replicas(Instant::now() + TIME)
    }

    /// What the sentinels report, from now on: failovers above all. Connects to one of them, and to another one when that
    /// fails.
    ///
    /// # Errors
    ///
    /// When none can be connected to.
    pub fn events(&self) -> Result<SentinelEvents> {
        // The credentials and all else of a sentinel; another one is found when it has to be.
        let search = Search { watch: Arc::clone(&self.watch), role: Role::Sentinel };
        let own = lock(&self.watch.sentinels).first().cloned();
        let config = own.unwrap_or_else(|| self.primary());
        let config = Config { endpoint: Endpoint::Found(Found(Arc::new(search))), ..config };
        let subscriber = Subscriber::open(config.reconnect(Reconnect::backoff()))?;
        subscriber.psubscribe("*").wait()?;
        Ok(SentinelEvents { subscriber })
    }
}

/// How long the sentinels may take together, where nobody has said.
const TIME: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Primary,
    Replica,
    Either,
    /// Whoever watches.
    Sentinel,
}

/// Looks for a server by its role.
#[derive(Debug)]
struct Search {
    watch: Arc<Watch>,
    role: Role,
}

impl Find for Search {
    fn find(&self, until: Instant) -> Result<Vec<Endpoint>> {
        let found = match self.role {
            Role::Primary => vec![self.watch.primary(until)?],
            Role::Replica => self.watch.replicas(until)?,
            Role::Either => {
                let mut replicas = self.watch.replicas(until)?;
                replicas.extend(self.watch.primary(until));
                replicas
            }
            Role::Sentinel => return Ok(self.watch.known().into_iter().map(|config| config.endpoint).collect()),
        };
        Ok(found.into_iter().map(|(host, port)| Endpoint::Tcp { host, port }).collect())
    }

    fn roles(&self) -> &'static [&'static str] {
        match self.role {
            Role::Primary => &["master"],
            Role::Replica => &["slave"],
            Role::Either => &["slave", "master"],
            Role::Sentinel => &["sentinel"],
        }
    }

    fn what(&self) -> String {
        let what = match self.role {
            Role::Primary => "the primary",
            Role::Replica => "a replica",
            Role::Either => "a server",
            Role::Sentinel => "a sentinel",
        };
        format!("{what} of {:?}", self.watch.name)
    }
}

impl Watch {
    fn known(&self) -> Vec<Config> {
        lock(&self.sentinels).clone()
    }

    /// Asks one sentinel after the other until one has an answer.
    fn ask<T>(&self, until: Instant, question: impl Fn(&Connection, &str) -> Result<Option<T>>) -> Result<T> {
        let unknown =
            || io::Error::new(io::ErrorKind::NotFound, format!("no sentinel that answers knows {:?}", self.name));
        let mut failure = None;
        let known = self.known();
        for (index, config) in known.iter().enumerate() {
            // One that does not answer must not use up the time of those behind it.
            let share = until.saturating_duration_since(Instant::now()) / (known.len() - index) as u32;
            let share = share.max(Duration::from_millis(1));
            let time = share.min(config.connect_timeout);
            let answer = Connection::open(config.clone().connect_timeout(time).timeout(share).linger(Duration::ZERO))
                .and_then(|conn| {
                    let answer = question(&conn, &self.name)?;
                    if answer.is_some() {
                        self.learn(config, &conn);
                    }
                    Ok(answer)
                });
            match answer {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => failure = failure.or_else(|| Some(unknown())),
                Err(error) => {
                    let text = format!("the sentinel {}: {error}", config.endpoint);
                    failure = Some(io::Error::new(kind_of(&error), text));
                }
            }
        }
        Err(failure.unwrap_or_else(unknown).into())
    }

    /// This sentinel has answered: it is asked first from now on, and those that it knows last.
    fn learn(&self, config: &Config, conn: &Connection) {
        // It has given the answer that was wanted; this one is not needed.
        let others = conn.command::<Vec<HashMap<String, String>>>("SENTINEL SENTINELS", &self.name).wait();
        let others: Vec<Endpoint> = others.unwrap_or_default().iter().filter_map(address).map(endpoint).collect();
        let mut known = lock(&self.sentinels);
        if let Some(index) = known.iter().position(|own| own.endpoint == config.endpoint) {
            known[..=index].rotate_right(1);
        }
        for endpoint in others {
            if known.len() < MOST && known.iter().all(|own| own.endpoint != endpoint) {
                known.push(Config { endpoint, ..config.clone() });
            }
        }
    }

    fn primary(&self, until: Instant) -> Result<(String, u16)> {
        self.ask(until, |sentinel, name| sentinel.command("SENTINEL GET-MASTER-ADDR-BY-NAME", name).wait())
    }

    /// Those that are up, in random order.
    fn replicas(&self, until: Instant) -> Result<Vec<(String, u16)>> {
        let all: Vec<HashMap<String, String>> = self.ask(until, |sentinel, name| {
            match sentinel.command("SENTINEL REPLICAS", name).wait() {
                // There is no such primary.
                Err(Error::Server(error)) if error.message().starts_with(b"ERR No such master") => Ok(None),
                other => other.map(Some),
            }
        })?;
        let up = |fields: &&HashMap<String, String>| {
            let flags = fields.get("flags").map_or("", String::as_str);
            let down = flags.split(',').any(|flag| matches!(flag, "s_down" | "o_down" | "disconnected"));
            !down && fields.get("master-link-status").is_none_or(|status| status == "ok")
        };
        let mut up: Vec<(String, u16)> = all.iter().filter(up).filter_map(address).collect();
        fastrand::shuffle(&mut up);
        Ok(up)
    }
}

/// What kept a sentinel from answering.
fn kind_of(error: &Error) -> io::ErrorKind {
    match error {
        // Of which there would be no second attempt; but another sentinel may answer that one.
        Error::Io(error) if error.kind() != io::ErrorKind::InvalidData => error.kind(),
        Error::Timeout => io::ErrorKind::TimedOut,
        Error::Server(error) if matches!(error.code(), Some("NOAUTH" | "WRONGPASS" | "NOPERM")) => {
            io::ErrorKind::PermissionDenied
        }
        _ => io::ErrorKind::Other,
    }
}

/// Host and port among the fields of a server.
fn address(fields: &HashMap<String, String>) -> Option<(String, u16)> {
    Some((fields.get("ip")?.clone(), fields.get("port")?.parse().ok()?))
}

fn endpoint((host, port): (String, u16)) -> Endpoint {
    Endpoint::Tcp { host, port }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What sentinels report, as a blocking iterator: [`Sentinel::events`].
///
/// Never ends by itself; [`handle`](SentinelEvents::handle) has what another thread stops it with.
///
/// # Drop
///
/// As that of a [`Subscriber`].
#[derive(Debug)]
pub struct SentinelEvents {
    subscriber: Subscriber,
}

impl SentinelEvents {
    /// The next report within this time; `None` also when there is none.
    ///
    /// # Errors
    ///
    /// When no sentinel could be connected to; the next call tries again.
    pub fn next_timeout(&self, time: Duration) -> Result<Option<SentinelEvent>> {
        self.report(|subscriber| subscriber.next_timeout(time))
    }

    fn report(&self, next: impl Fn(&Subscriber) -> Result<Option<Event>>) -> Result<Option<SentinelEvent>> {
        let event = next(&self.subscriber)?;
        Ok(event.and_then(|event| match event {
            Event::Message(message) => {
                let text = String::from_utf8_lossy(message.payload());
                Some(SentinelEvent::read(&String::from_utf8_lossy(message.channel()), &text))
            }
            Event::Reconnected(_) => Some(SentinelEvent::Gap),
            _ => None,
        }))
    }

    /// What another thread stops it with: [`SubscriberHandle::stop`].
    pub fn handle(&self) -> SubscriberHandle {
        self.subscriber.handle()
    }
}

/// Waits without end; ends when it was [stopped](SubscriberHandle::stop). An error when no sentinel could be connected to; the next
/// call tries again.
impl Iterator for SentinelEvents {
    type Item = Result<SentinelEvent>;

    fn next(&mut self) -> Option<Self::Item> {
        self.report(Subscriber::next).transpose()
    }
}

/// A report of a sentinel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SentinelEvent {
    /// Another server is the primary from now on: `+switch-master`.
    Switched {
        /// The name under which the primary is watched.
        name: String,
        /// Host and port of the old one.
        from: (String, u16),
        /// Host and port of the new one.
        to: (String, u16),
    },
    /// The sentinel that was listened to is gone, and another one is listened to. Something may have been missed.
    Gap,
    /// Anything else, such as `+sdown` or `+slave`, with its text.
    Other {
        /// What has happened.
        event: String,
        /// To whom: mostly `master NAME HOST PORT`, or `slave`, or `sentinel`, and `@` with the primary.
        text: String,
    },
}

impl SentinelEvent {
    fn read(event: &str, text: &str) -> SentinelEvent {
        let words: Vec<&str> = text.split(' ').collect();
        if let ("+switch-master", [name, host, port, new_host, new_port]) = (event, &words[..])
            && let (Ok(port), Ok(new_port)) = (port.parse(), new_port.parse())
        {
            let (from, to) = (((*host).into(), port), ((*new_host).into(), new_port));
            return SentinelEvent::Switched { name: (*name).into(), from, to };
        }
        SentinelEvent::Other { event: event.into(), text: text.into() }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sentinels: Vec<String> = self.known().iter().map(|config| config.endpoint.to_string()).collect();
        f.debug_struct("Sentinel").field("name", &self.name).field("sentinels", &sentinels).finish()
    }
}

impl fmt::Debug for Sentinel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.watch.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read() {
        let switched = SentinelEvent::read("+switch-master", "mymaster 10.0.0.1 6379 10.0.0.2 6380");
        let (from, to) = (("10.0.0.1".into(), 6379), ("10.0.0.2".into(), 6380));
        assert_eq!(switched, SentinelEvent::Switched { name: "mymaster".into(), from, to });
        for (event, text) in
            [("+sdown", "master mymaster 10.0.0.1 6379"), ("+switch-master", "a b c"), ("+switch-master", "a b c d e")]
        {
            assert!(matches!(SentinelEvent::read(event, text), SentinelEvent::Other { .. }), "{event} {text}");
        }
    }

    #[test]
    fn there_must_be_a_sentinel() {
        assert!(matches!(Sentinel::new([""; 0], "mymaster"), Err(Error::Config(_))));
        assert!(matches!(Sentinel::new(["http://a"], "mymaster"), Err(Error::Config(_))));
    }
}
