//! Keys spread over servers that know nothing of each other.

use std::fmt;

use crate::args::{Arguments, Command, ToArg, ToArgs, bytes_of};
use crate::cluster::hash_tag;
use crate::connection::{Config, Connection, Encoded, IntoConfig};
use crate::error::{Error, Result};
use crate::execute::Execute;
use crate::reply::{MultiBulk, Reply};
use crate::values::FromReply;

/// How many points of the circle each server has: with 160, the busiest of ten servers has about a tenth more keys than
/// the average.
const POINTS: u32 = 160;

const SEVERAL: Error = Error::Refused("the keys of this command are on several servers");
const NOWHERE: Error = Error::Refused("a command without keys has no place on a ring: use Ring::connections");
const UNKNOWN: Error = Error::Refused("where the keys of this command are is not known: use Ring::at");

/// Keys spread over independent servers by consistent hashing: a cache that is larger than one server, without a cluster.
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(feature = "testing")] {
/// # let servers = [redefer::testing::Server::start()?, redefer::testing::Server::start()?];
/// # let (a, b) = (servers[0].url(), servers[1].url());
/// use redefer::prelude::*;
/// use redefer::Ring;
///
/// let ring = Ring::open([("a", a), ("b", b)])?;
/// for n in 0..100 {
///     ring.set(format!("key:{n}"), n).detach();           // each goes to its server
/// }
/// assert_eq!(ring.get::<i64>("key:7").wait()?, 7);
///
/// let tx = ring.at("key:7").transaction();                // all else, on the server of a key
/// tx.incr("key:7").detach();
/// tx.commit().wait()?;
///
/// let mut keys = 0;
/// for conn in ring.connections() {                        // or on every server
///     keys += conn.dbsize().wait()?;
/// }
/// assert_eq!(keys, 100);
/// # }
/// # Ok(())
/// # }
/// ```
///
/// There is a connection to each server, and commands are pipelined on each as ever. A server's share depends on its *name*
/// alone, so it can move to another address; when one is added or taken away, only the keys of that one move.
/// Of a key with a part in braces, `user:{42}:name`, only that part counts, as in a cluster: such keys are together.
///
/// Nothing is done about a server that fails: its keys give errors, or with [`Config::reconnect`] wait for it. To
/// send them elsewhere would bring back old values later.
///
/// # Errors
///
/// A command whose keys are on several servers, one without keys, and one by its name
/// ([`command`](crate::commands::Execute::command)) are [`Error::Refused`], and nothing is sent.
pub struct Ring {
    servers: Vec<(String, Connection)>,
    /// The points of the circle, sorted, and whose they are.
    points: Vec<(u64, u32)>,
}

impl Ring {
    /// Connects to servers, each with a name and a URL or [`Config`].
    ///
    /// # Errors
    ///
    /// Those of [`Connection::open`]; [`Error::Config`] when there is no server, or two have the same name.
    pub fn open<N: Into<String>>(servers: impl IntoIterator<Item = (N, impl IntoConfig)>) -> Result<Ring> {
        let mut named: Vec<(String, Config)> = Vec::new();
        for (name, config) in servers {
            let name = name.into();
            if named.iter().any(|own| own.0 == name) {
                return Err(Error::Config(format!("two servers of a ring have the name {name:?}")));
            }
            named.push((name, config.into_config()?));
        }
        if named.is_empty() {
            return Err(Error::Config("a ring without servers".into()));
        }
        let points = points(named.iter().map(|own| own.0.as_str()));
        let open = |(name, config)| Ok((name, Connection::open(config)?));
        Ok(Ring { servers: named.into_iter().map(open).collect::<Result<_>>()?, points })
    }

    /// The connection to the server of a key, for transactions, batches, blocking commands, scripts and all else.
    pub fn at(&self, key: impl ToArg) -> &Connection {
        // A key that cannot be sent is nowhere, and no command with it will be.
        let index = bytes_of(&key).map_or(0, |key| self.index(&key));
        &self.servers[index].1
    }

    /// The connections to all servers, in the order in which they were given.
    pub fn connections(&self) -> impl Iterator<Item = &Connection> {
        self.servers.iter().map(|own| &own.1)
    }

    fn index(&self, key: &[u8]) -> usize {
        let hash = hash(hash_tag(key));
        let at = self.points.partition_point(|point| point.0 < hash);
        // Behind the last point comes the first.
        self.points.get(at).or(self.points.first()).map_or(0, |point| point.1 as usize)
    }

    /// Issues a command on the server of its keys.
    fn issue<A: Arguments>(&self, command: &Command<A>) -> (&Connection, u64) {
        let first = &self.servers[0].1;
        let (encoded, keys) = match Encoded::with_keys(command) {
            Ok(encoded) => encoded,
            Err(error) => return (first, first.fail(error)),
        };
        let mut indices = keys.into_iter().map(|key| self.index(&encoded.bytes[key]));
        let Some(index) = indices.next() else { return (first, first.fail(NOWHERE)) };
        if indices.any(|other| other != index) {
            return (first, first.fail(SEVERAL));
        }
        let conn = &self.servers[index].1;
        (conn, conn.issue_ready(&encoded))
    }
}

/// The points of servers with these names.
fn points<'a>(names: impl Iterator<Item = &'a str>) -> Vec<(u64, u32)> {
    let mut points = Vec::new();
    for (index, name) in (0..).zip(names) {
        points.extend((0..POINTS).map(|n| (hash(format!("{name}-{n}").as_bytes()), index)));
    }
    points.sort_unstable();
    points
}

/// The same for ever and everywhere, since other programs and later versions must find what this one has stored.
fn hash(bytes: &[u8]) -> u64 {
    let digest = sha1_smol::Sha1::from(bytes).digest().bytes();
    digest[..8].iter().fold(0, |hash, byte| hash << 8 | u64::from(*byte))
}

impl<'c> Execute for &'c Ring {
    type Reply<T: FromReply> = Reply<'c, T>;
    type MultiBulk<T: FromReply> = MultiBulk<'c, T>;

    fn command<T: FromReply>(self, _: &str, _: impl ToArgs) -> Reply<'c, T> {
        let first = &self.servers[0].1;
        Reply::new(first, first.fail(UNKNOWN))
    }

    fn execute<T: FromReply, A: Arguments>(self, command: Command<A>) -> Reply<'c, T> {
        let (conn, place) = self.issue(&command);
        Reply::new(conn, place)
    }

    fn execute_multi<T: FromReply, A: Arguments>(self, command: Command<A>) -> MultiBulk<'c, T> {
        let (conn, place) = self.issue(&command);
        MultiBulk::new(conn, place)
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.servers.iter().map(|own| (&own.0, &own.1))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(names: &[&str]) -> Vec<String> {
        let points = points(names.iter().copied());
        let at = |n: u32| {
            let hash = hash(n.to_string().as_bytes());
            let point = points[points.partition_point(|point| point.0 < hash) % points.len()];
            names[point.1 as usize].to_owned()
        };
        (0..10_000).map(at).collect()
    }

    #[test]
    fn servers_have_about_the_same_share_and_only_the_keys_of_a_new_one_move() {
        let (three, four) = (share(&["a", "b", "c"]), share(&["c", "d", "a", "b"]));
        for name in ["a", "b", "c", "d"] {
            let keys = four.iter().filter(|own| *own == name).count();
            assert!((1900..3200).contains(&keys), "{name}: {keys}");
        }
        let moved: Vec<_> = three.iter().zip(&four).filter(|(old, new)| old != new).collect();
        assert!(moved.iter().all(|(_, new)| *new == "d"));
        assert!((1900..3200).contains(&moved.len()), "{}", moved.len());
    }

    #[test]
    fn the_hash_is_that_of_sha_1() {
        // The example of FIPS 180: "abc".
        assert_eq!(hash(b"abc"), 0xa999_3e36_4706_816a);
    }
}
