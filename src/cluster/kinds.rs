//! Where commands go that have no keys, and how several replies become one; and where the keys of other commands are.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::core::Core;
use crate::commands::{CommandInfo, ServerCommands};
use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::resp::{encode, number};

/// Where a command without keys goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// To one node, whichever.
    Any,
    /// To every primary.
    Primaries(Merge),
    /// To every primary and every replica.
    Members(Merge),
    /// Nowhere, and why.
    Refused(&'static str),
}

/// How several replies become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Merge {
    /// The first one, if none is an error.
    First,
    /// The sum of numbers.
    Sum,
    /// The smallest number.
    Least,
    /// All elements one after the other.
    Concat,
    /// All elements, each once.
    Union,
    /// Position by position, whether all are true.
    And,
    /// Names and numbers in turn: the sums by name.
    SumByName,
    /// Position by position, the smallest number.
    LeastEach,
    /// One that is no error, if there is any.
    One,
    /// One that is not nil, if there is any.
    There,
}

/// Whether a command that goes to several nodes only asks, so that it may be sent more than once.
pub(super) fn only_asks(name: &[u8], word: Option<&[u8]>) -> bool {
    matches!(
        (name, word.unwrap_or_default()),
        (b"DBSIZE" | b"KEYS" | b"PING" | b"PUBSUB" | b"RANDOMKEY", _)
            | (b"SCRIPT", b"EXISTS")
            | (b"SLOWLOG" | b"COMMANDLOG", b"GET" | b"LEN")
            | (b"CLUSTER", b"SLOT-STATS")
    )
}

const OF_CONNECTION: &str = "it is about one connection, and a cluster has several: set it in the Config, or open a \
    connection to a node with Cluster::connection_to";
const OF_NODE: &str = "it is about one node: open a connection to that with Cluster::connection_to";
const SCANS: &str = "a cursor belongs to one node: use Cluster::scan";

/// Where a command goes that has no keys, if that is known: its name and the next word, in capitals.
pub(super) fn kind(name: &[u8], word: Option<&[u8]>) -> Option<Kind> {
    use Merge::{And, Concat, First, Least, LeastEach, One, Sum, SumByName, There, Union};
    let kind = match (name, word.unwrap_or_default()) {
        // Of other commands it may be a key, or a pattern.
        (
            b"ACL" | b"CLIENT" | b"CLUSTER" | b"COMMAND" | b"COMMANDLOG" | b"CONFIG" | b"DEBUG" | b"FUNCTION"
            | b"LATENCY" | b"MEMORY" | b"MODULE" | b"OBJECT" | b"PUBSUB" | b"SCRIPT" | b"SLOWLOG" | b"XGROUP"
            | b"XINFO",
            b"HELP",
        ) => Kind::Any,
        (b"ECHO" | b"TIME" | b"LOLWUT" | b"INFO" | b"COMMAND" | b"PUBLISH" | b"ROLE", _) => Kind::Any,
        (b"EVAL" | b"EVALSHA" | b"EVAL_RO" | b"EVALSHA_RO" | b"FCALL" | b"FCALL_RO" | b"LASTSAVE", _) => Kind::Any,
        (b"DBSIZE", _) => Kind::Primaries(Sum),
        (b"KEYS", _) => Kind::Primaries(Concat),
        (b"RANDOMKEY", _) => Kind::Primaries(There),
        (b"PING" | b"FLUSHALL" | b"FLUSHDB", _) => Kind::Primaries(First),
        (b"WAIT", _) => Kind::Primaries(Least),
        (b"WAITAOF", _) => Kind::Primaries(LeastEach),
        (b"SCAN", _) => Kind::Refused(SCANS),
        (b"SAVE" | b"BGSAVE" | b"BGREWRITEAOF", _) => Kind::Members(First),

        (b"SCRIPT", b"LOAD" | b"FLUSH") => Kind::Members(First),
        (b"SCRIPT", b"EXISTS") => Kind::Primaries(And),
        (b"SCRIPT" | b"FUNCTION", b"KILL") => Kind::Primaries(One),
        (b"SCRIPT", b"SHOW") => Kind::Any,
        (b"FUNCTION", b"LOAD" | b"DELETE" | b"FLUSH" | b"RESTORE") => Kind::Primaries(First),
        (b"FUNCTION", b"LIST" | b"DUMP" | b"STATS") => Kind::Any,

        (b"CONFIG", b"SET" | b"RESETSTAT" | b"REWRITE") => Kind::Members(First),
        (b"CONFIG", b"GET") => Kind::Any,
        (b"ACL", b"SETUSER" | b"DELUSER" | b"LOAD" | b"SAVE") => Kind::Members(First),
        (b"ACL", b"LOG") => Kind::Refused(OF_NODE),
        (b"ACL" | b"MODULE", _) => Kind::Any,
        (b"SLOWLOG" | b"COMMANDLOG", b"GET") => Kind::Members(Concat),
        (b"SLOWLOG" | b"COMMANDLOG", b"LEN") => Kind::Members(Sum),
        (b"SLOWLOG" | b"COMMANDLOG", b"RESET") => Kind::Members(First),
        (b"LATENCY", b"RESET") => Kind::Members(Sum),
        (b"MEMORY", b"PURGE") => Kind::Primaries(First),

        (b"PUBSUB", b"CHANNELS" | b"SHARDCHANNELS") => Kind::Members(Union),
        (b"PUBSUB", b"NUMPAT") => Kind::Members(Sum),
        (b"PUBSUB", b"NUMSUB" | b"SHARDNUMSUB") => Kind::Members(SumByName),

        (
            b"CLUSTER",
            b"INFO" | b"KEYSLOT" | b"NODES" | b"SHARDS" | b"SLOTS" | b"COUNT-FAILURE-REPORTS" | b"REPLICAS" | b"SLAVES",
        ) => Kind::Any,
        (b"CLUSTER", b"SLOT-STATS") => Kind::Primaries(Concat),
        (b"CLIENT", _) | (b"AUTH" | b"SELECT" | b"READONLY" | b"READWRITE" | b"ASKING", _) => {
            Kind::Refused(OF_CONNECTION)
        }
        (
            b"CLUSTER" | b"MEMORY" | b"SLOWLOG" | b"COMMANDLOG" | b"LATENCY" | b"DEBUG" | b"SHUTDOWN" | b"FAILOVER"
            | b"REPLICAOF" | b"SLAVEOF" | b"SWAPDB" | b"SCRIPT" | b"FUNCTION",
            _,
        ) => Kind::Refused(OF_NODE),
        _ => return None,
    };
    Some(kind)
}

/// What servers have told of commands, by name.
#[derive(Default)]
pub(super) struct Known {
    /// Where keys are, of those that were issued by name.
    places: HashMap<Vec<u8>, Places>,
    /// Those that only read, in lower case; asked for when the cluster is opened, if they matter.
    pub(super) reading: HashSet<String>,
}

/// Where the keys of a command are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Places {
    /// It has none, or nobody knows the command.
    None,
    /// From the first to the last, which counts from the end if negative, each so far from the one before.
    Steps(usize, i64, usize),
    /// To be asked for each time.
    Asked,
}

impl Places {
    fn of(info: &CommandInfo) -> Places {
        if info.flags.iter().any(|flag| flag == "movablekeys") {
            return Places::Asked;
        }
        match (usize::try_from(info.first_key), usize::try_from(info.key_step)) {
            (Ok(first @ 1..), Ok(step @ 1..)) => Places::Steps(first, info.last_key, step),
            _ => Places::None,
        }
    }
}

/// Where the keys of a command are, or what is to be asked first.
pub(super) enum Keys {
    Here(Vec<Range<usize>>),
    Ask(Question),
}

/// What only a server knows.
pub(super) enum Question {
    /// Where the keys are of a command of this name, or of this name and the next word.
    Places { name: Vec<u8>, both: Vec<u8> },
    /// Which of these words are keys.
    Keys(Vec<Vec<u8>>),
}

pub(super) enum Answer {
    Places(Vec<Option<CommandInfo>>),
    Keys(Vec<Vec<u8>>),
}

impl Question {
    /// Waits for the server.
    pub(super) fn ask(&self, conn: &Connection) -> Result<Answer> {
        match self {
            Question::Places { name, .. } => {
                let name = String::from_utf8_lossy(name).to_ascii_lowercase();
                conn.command_info(&name).wait().map(Answer::Places)
            }
            Question::Keys(words) => match conn.command("COMMAND GETKEYS", words).wait() {
                Ok(keys) => Ok(Answer::Keys(keys)),
                // Without keys, or of no use: the node that gets it says so.
                Err(Error::Server(_)) => Ok(Answer::Keys(Vec::new())),
                Err(error) => Err(error),
            },
        }
    }
}

impl Core {
    /// Where the keys are of an encoded command that was issued by its name: the servers are asked the first time, and for some
    /// commands each time.
    pub(super) fn find_keys(&mut self, bytes: &[u8]) -> Result<Vec<Range<usize>>> {
        loop {
            let question = match self.keys_of(bytes) {
                Keys::Here(keys) => return Ok(keys),
                Keys::Ask(question) => question,
            };
            let answer = self.asked(|conn| question.ask(conn))?;
            if let Some(keys) = self.learn(&question, answer, bytes) {
                return Ok(keys);
            }
        }
    }

    /// The same, as far as it is known.
    pub(super) fn keys_of(&self, bytes: &[u8]) -> Keys {
        let header = memchr::memchr(b'\n', bytes).map_or(0, |end| end + 1);
        let arguments: Vec<Range<usize>> = encode::bulk_ranges(bytes, header).collect();
        let word =
            |index: usize| arguments.get(index).map(|range: &Range<usize>| bytes[range.clone()].to_ascii_uppercase());
        let name = word(0).unwrap_or_default();
        match &*name {
            // What they have says where they go, and is no key.
            b"SPUBLISH" | b"CLUSTERSCAN" => return Keys::Here(arguments.get(1).cloned().into_iter().collect()),
            b"EVAL" | b"EVALSHA" | b"EVAL_RO" | b"EVALSHA_RO" | b"FCALL" | b"FCALL_RO" => {
                // Behind the script is how many there are. What is no number the server refuses.
                let count = word(2).and_then(|count| number::parse_u64(&count)).unwrap_or(0);
                let count = usize::try_from(count).unwrap_or(0).min(arguments.len());
                return Keys::Here(arguments.iter().skip(3).take(count).cloned().collect());
            }
            // It has questions without keys and one with.
            b"MEMORY" => {}
            _ if kind(&name, word(1).as_deref()).is_some() => return Keys::Here(Vec::new()),
            _ => {}
        }
        let both = [&*name, b"|", &word(1).unwrap_or_default()].concat();
        let known = self.known.places.get(&name).or_else(|| self.known.places.get(&both));
        let keys = match known.copied() {
            None => return Keys::Ask(Question::Places { name, both }),
            Some(Places::None) => Vec::new(),
            Some(Places::Steps(first, last, step)) => {
                let count = arguments.len();
                let last = if last < 0 { count.checked_sub(last.unsigned_abs() as usize) } else { Some(last as usize) };
                let last = last.unwrap_or(0).min(count.saturating_sub(1));
                arguments
                    .get(first..=last.max(first.saturating_sub(1)))
                    .unwrap_or_default()
                    .iter()
                    .step_by(step)
                    .cloned()
                    .collect()
            }
            Some(Places::Asked) => {
                let words = arguments.into_iter().map(|range| bytes[range].to_vec());
                return Keys::Ask(Question::Keys(words.collect()));
            }
        };
        Keys::Here(keys)
    }

    /// Takes an answer over. If it was about one command alone, these are its keys.
    pub(super) fn learn(&mut self, question: &Question, answer: Answer, bytes: &[u8]) -> Option<Vec<Range<usize>>> {
        let infos = match answer {
            Answer::Keys(keys) => {
                let header = memchr::memchr(b'\n', bytes).map_or(0, |end| end + 1);
                let is_key = |range: &Range<usize>| keys.iter().any(|key| **key == bytes[range.clone()]);
                return Some(encode::bulk_ranges(bytes, header).skip(1).filter(is_key).collect());
            }
            Answer::Places(infos) => infos,
        };
        let Question::Places { name, both } = question else { return None };
        let places = &mut self.known.places;
        match infos.into_iter().next() {
            Some(Some(info)) if !info.subcommands.is_empty() => {
                for info in &info.subcommands {
                    places.insert(info.name.to_ascii_uppercase().into_bytes(), Places::of(info));
                }
                places.entry(both.clone()).or_insert(Places::None);
            }
            Some(Some(info)) => drop(places.insert(name.clone(), Places::of(&info))),
            _ => drop(places.insert(name.clone(), Places::None)),
        }
        None
    }

    /// Asks a node something that has nothing to do with keys.
    pub(super) fn asked<T>(&mut self, ask: impl Fn(&Connection) -> Result<T>) -> Result<T> {
        let again = match self.control.as_ref().map(|(_, conn)| ask(conn)) {
            Some(Err(error)) if !matches!(error, Error::Server(_)) => true,
            Some(outcome) => return outcome,
            None => true,
        };
        if again {
            let time = self.config.base.connect_timeout;
            self.refresh(time, time)?;
        }
        match &self.control {
            Some((_, conn)) => ask(conn),
            None => Err(super::core::NO_OWNER),
        }
    }

    /// Asks which commands only read.
    pub(super) fn learn_reading(&mut self) -> Result<()> {
        let infos: Vec<Option<CommandInfo>> = self.asked(|conn| conn.command_info(()).wait())?;
        let reads = |info: &CommandInfo| info.flags.iter().any(|flag| flag == "readonly");
        for info in infos.into_iter().flatten() {
            let subcommands =
                info.subcommands.iter().filter(|info| reads(info)).map(|info| info.name.replace('|', " "));
            let names: Vec<String> = subcommands.chain(reads(&info).then(|| info.name.clone())).collect();
            self.known.reading.extend(names.into_iter().map(|name| name.to_ascii_lowercase()));
        }
        // A cursor is of use to one server only, and replicas take turns.
        self.known.reading.retain(|name| !matches!(&**name, "hscan" | "sscan" | "zscan"));
        Ok(())
    }

    /// Whether a command only reads, as far as that matters here.
    pub(super) fn only_reads(&self, bytes: &[u8]) -> bool {
        if self.known.reading.is_empty() {
            return false;
        }
        let mut words = encode::arguments(bytes).map(|word| String::from_utf8_lossy(word).to_ascii_lowercase());
        let name = words.next().unwrap_or_default();
        self.known.reading.contains(&name)
            || words.next().is_some_and(|word| self.known.reading.contains(&format!("{name} {word}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_without_keys_has_a_kind() {
        let listed = include_str!("../../tests/data/commands.tsv");
        let mut without = Vec::new();
        for line in listed.lines().skip(1) {
            let mut fields = line.split('\t');
            let (name, group) = (fields.next().unwrap(), fields.next().unwrap());
            let mut words = name.split(' ').map(str::as_bytes);
            if matches!(group, "server" | "connection" | "cluster" | "pubsub")
                && kind(words.next().unwrap(), words.next()).is_none()
            {
                without.push(name);
            }
        }
        // Those that have keys, or something like them; and those that are refused on any connection.
        let others = [
            "CLUSTERSCAN",
            "HELLO",
            "QUIT",
            "RESET",
            "PSUBSCRIBE",
            "PUNSUBSCRIBE",
            "SPUBLISH",
            "SSUBSCRIBE",
            "SUBSCRIBE",
            "SUNSUBSCRIBE",
            "UNSUBSCRIBE",
            "MONITOR",
            "PSYNC",
            "REPLCONF",
            "RESTORE-ASKING",
            "SYNC",
        ];
        without.retain(|name| !others.contains(name));
        assert_eq!(without, [""; 0]);
    }

    /// What differs from the servers' own tips, and why.
    #[cfg(all(unix, feature = "testing"))]
    const DELIBERATE: [(&str, &str); 21] = [
        // Of several answers no one can be made; those of one node have their use, and others have Cluster::connections.
        ("info", "one of them says what server it is"),
        ("function|stats", "one of them says what engines there are"),
        ("latency|doctor", "about one node"),
        ("latency|graph", "about one node"),
        ("latency|histogram", "about one node"),
        ("latency|history", "about one node"),
        ("latency|latest", "about one node"),
        ("memory|doctor", "about one node"),
        ("memory|malloc-stats", "about one node"),
        ("memory|stats", "about one node"),
        // What holds for a connection is set in the Config.
        ("client|setinfo", "about one connection"),
        ("client|setname", "about one connection"),
        ("scan", "a cursor belongs to one node: Cluster::scan"),
        // Redis 7.0 has other tips, which later servers have mended.
        ("latency|reset", "its reply is a number"),
        ("msetnx", "all keys or none, which cannot be divided"),
        // No tip, which would be one node.
        ("acl|load", "each node has its file"),
        ("bgrewriteaof", "each node has its file"),
        ("bgsave", "each node has its file"),
        ("save", "each node has its file"),
        ("pubsub", "clients are subscribed to one node or another"),
        ("acl|setuser, acl|deluser, acl|save, config|resetstat, config|rewrite", "Redis 7.0 has no tips for them"),
    ];

    /// How the tips would have it.
    #[cfg(all(unix, feature = "testing"))]
    fn tip_of(kind: Option<Kind>) -> String {
        let (to, merge) = match kind {
            Some(Kind::Primaries(merge)) => ("all_shards", merge),
            Some(Kind::Members(merge)) => ("all_nodes", merge),
            Some(Kind::Any) | None => return String::new(),
            Some(Kind::Refused(_)) => return "refused".to_owned(),
        };
        let response = match merge {
            Merge::First => "all_succeeded",
            Merge::One => "one_succeeded",
            Merge::Sum => "agg_sum",
            Merge::Least | Merge::LeastEach => "agg_min",
            Merge::And => "agg_logical_and",
            // By default lists become one.
            Merge::Concat => "",
            Merge::Union | Merge::SumByName | Merge::There => "special",
        };
        format!("{to} {response}").trim().to_owned()
    }

    #[cfg(all(unix, feature = "testing"))]
    #[test]
    fn commands_go_where_the_servers_tips_say_or_elsewhere_for_a_reason() -> Result<()> {
        use crate::testing::Server;

        for program in Server::programs() {
            let server = Server::builder().program(&program).start().map_err(Error::custom)?;
            let conn = crate::connection::Connection::open(server.url())?;
            let infos: Vec<Option<CommandInfo>> = conn.command_info(()).wait()?;
            let all = infos.into_iter().flatten().flat_map(|mut info| {
                let subcommands = std::mem::take(&mut info.subcommands);
                subcommands.into_iter().chain([info])
            });
            let mut compared = 0;
            for info in all {
                let name = info.name.to_ascii_uppercase();
                let mut words = name.split('|').map(str::as_bytes);
                let (first, word) = (words.next().unwrap_or_default(), words.next());
                let tip = |what: &str| info.tips.iter().find_map(|tip| tip.strip_prefix(what)).unwrap_or_default();
                let (request, response) = (tip("request_policy:"), tip("response_policy:"));
                let theirs = format!("{request} {response}").trim().to_owned();
                let ours = match kind(first, word) {
                    _ if request == "multi_shard" => match super::super::spread::may_be_divided(first) {
                        true => theirs.clone(),
                        false => String::new(),
                    },
                    // It is routed by its cursor.
                    _ if name == "CLUSTERSCAN" => theirs.clone(),
                    Some(Kind::Refused(_)) if theirs.is_empty() => continue,
                    kind => tip_of(kind),
                };
                // Redis 7.0 has none for which reply to take of RANDOMKEY.
                let same = ours == theirs || (name == "RANDOMKEY" && request == "all_shards");
                let listed = |(names, _): &(&str, &str)| {
                    names.split(", ").any(|name| info.name == name || info.name.split('|').next() == Some(name))
                };
                assert!(
                    same || DELIBERATE.iter().any(listed),
                    "{} of {}: the tip is {theirs:?}, and here it is {ours:?}",
                    info.name,
                    program.display()
                );
                compared += usize::from(!theirs.is_empty());
            }
            assert!(compared > 30 || server.version() < (7, 0, 0), "{compared} of {}", program.display());
        }
        Ok(())
    }
}
