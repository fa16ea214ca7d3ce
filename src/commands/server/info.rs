//! The text of INFO, taken apart.

use std::collections::HashMap;
use std::str::FromStr;
use std::time::Duration;

use crate::commands::record::whole_text;
use crate::error::Result;
use crate::resp::Frame;
use crate::values::FromReply;

/// What the server says about itself: the reply of [`info`](super::ServerCommands::info).
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(feature = "testing")] {
/// # let server = redefer::testing::Server::start()?;
/// # let conn = redefer::Connection::open(server.url())?;
/// use redefer::prelude::*;
///
/// let info = conn.info().wait()?;
/// assert_eq!(info.get("role"), Some("master"));
/// assert!(info.number::<u64>("used_memory").is_some_and(|bytes| bytes > 100_000));
/// assert!(info.sections["clients"].contains_key("connected_clients"));
/// # }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Info {
    /// The text as it came: lines `name:value` under headings `# Section`.
    pub text: String,
    /// The sections by their names in lower case, as [`info_sections`](super::ServerCommands::info_sections) takes
    /// them: their fields and values. Of fields with the same name, as in `modules`, the last one counts; the text has
    /// them all.
    pub sections: HashMap<String, HashMap<String, String>>,
}

impl Info {
    fn new(text: String) -> Self {
        let mut sections: HashMap<String, HashMap<String, String>> = HashMap::new();
        let mut section = String::new();
        for line in text.lines() {
            if let Some(heading) = line.strip_prefix('#') {
                section = heading.trim().to_ascii_lowercase();
                sections.entry(section.clone()).or_default();
            } else if let Some((name, value)) = line.split_once(':') {
                sections.entry(section.clone()).or_default().insert(name.to_owned(), value.to_owned());
            }
        }
        Info { text, sections }
    }

    /// The value of a field, in whichever section it is.
    #[must_use]
    pub fn get(&self, field: &str) -> Option<&str> {
        self.sections.values().find_map(|fields| fields.get(field)).map(String::as_str)
    }

    /// The value of a field as a number; nothing if it is none.
    #[must_use]
    pub fn number<T: FromStr>(&self, field: &str) -> Option<T> {
        self.get(field)?.parse().ok()
    }

    /// The value of a field that is 0 or 1.
    #[must_use]
    pub fn flag(&self, field: &str) -> Option<bool> {
        match self.get(field)? {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        }
    }

    /// The version of the server, Valkey's own where it is one.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.get("valkey_version").or_else(|| self.get("redis_version"))
    }

    /// How long the server has been running, in whole seconds.
    #[must_use]
    pub fn uptime(&self) -> Option<Duration> {
        self.number("uptime_in_seconds").map(Duration::from_secs)
    }

    /// How much memory the server has allocated, in bytes.
    #[must_use]
    pub fn used_memory(&self) -> Option<u64> {
        self.number("used_memory")
    }

    /// How many clients are connected.
    #[must_use]
    pub fn connected_clients(&self) -> Option<u64> {
        self.number("connected_clients")
    }

    /// The databases that have keys, by number: the section `keyspace`.
    #[must_use]
    pub fn keyspace(&self) -> HashMap<u32, KeyspaceStats> {
        let databases = self.with_prefix("keyspace", "db");
        databases.filter_map(|(number, value)| Some((number.parse().ok()?, KeyspaceStats::new(value)))).collect()
    }

    /// How often commands were called and how long they took, by name: the section `commandstats`.
    #[must_use]
    pub fn command_stats(&self) -> HashMap<&str, CommandStats> {
        self.with_prefix("commandstats", "cmdstat_").map(|(name, value)| (name, CommandStats::new(value))).collect()
    }

    /// How often each error was answered, by its code word: the section `errorstats`. Since 6.2.
    #[must_use]
    pub fn error_stats(&self) -> HashMap<&str, u64> {
        let errors = self.with_prefix("errorstats", "errorstat_");
        errors.filter_map(|(code, value)| Some((code, parts(value).get("count")?.parse().ok()?))).collect()
    }

    fn with_prefix<'a>(&'a self, section: &str, prefix: &'static str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let fields = self.sections.get(section).into_iter().flatten();
        fields.filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, value.as_str())))
    }
}

impl FromReply for Info {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        whole_text(&frame, "the text of INFO").map(Info::new)
    }
}

/// `a=1,b=2`.
fn parts(value: &str) -> HashMap<&str, &str> {
    value.split(',').filter_map(|part| part.split_once('=')).collect()
}

/// What is taken from the parts of a value, and what is left.
struct Parts<'a>(HashMap<&'a str, &'a str>);

impl Parts<'_> {
    fn take<T: FromStr + Default>(&mut self, name: &str) -> T {
        self.0.remove(name).and_then(|value| value.parse().ok()).unwrap_or_default()
    }

    fn rest(self) -> HashMap<String, String> {
        self.0.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }
}

/// What INFO says about a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyspaceStats {
    /// How many keys it has.
    pub keys: u64,
    /// How many of them expire.
    pub expires: u64,
    /// How long those have left on average, by a sample.
    pub avg_ttl: Duration,
    /// What else is said.
    pub other: HashMap<String, String>,
}

impl KeyspaceStats {
    fn new(value: &str) -> Self {
        let mut parts = Parts(parts(value));
        KeyspaceStats {
            keys: parts.take("keys"),
            expires: parts.take("expires"),
            avg_ttl: Duration::from_millis(parts.take("avg_ttl")),
            other: parts.rest(),
        }
    }
}

/// What INFO says about a command.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct CommandStats {
    /// How often it was called.
    pub calls: u64,
    /// How long all calls took together.
    pub time: Duration,
    /// How many calls were refused before they ran. Since 6.2.
    pub rejected_calls: u64,
    /// How many calls failed while they ran. Since 6.2.
    pub failed_calls: u64,
    /// What else is said.
    pub other: HashMap<String, String>,
}

impl CommandStats {
    fn new(value: &str) -> Self {
        let mut parts = Parts(parts(value));
        CommandStats {
            calls: parts.take("calls"),
            time: Duration::from_micros(parts.take("usec")),
            rejected_calls: parts.take("rejected_calls"),
            failed_calls: parts.take("failed_calls"),
            other: parts.rest(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_taken_apart() {
        let text = "# Server\r\nredis_version:7.2.4\r\nvalkey_version:9.1.2\r\nuptime_in_seconds:7\r\n\r\n# Keyspace\r\n\
            db0:keys=2,expires=1,avg_ttl=1500,new=x\r\ndbx:keys=1\r\n\r\n# Commandstats\r\n\
            cmdstat_latency|reset:calls=1,usec=2,usec_per_call=2.00,rejected_calls=3,failed_calls=4\r\n\
            # Errorstats\r\nerrorstat_ERR:count=6\r\n# Replication\r\nslave0:ip=::1,port=1\r\nx:1\r\ny:2\r\n# Empty\r\n";
        let info = Info::new(text.to_owned());
        assert_eq!(info.version(), Some("9.1.2"));
        assert_eq!(info.uptime(), Some(Duration::from_secs(7)));
        assert_eq!(info.get("slave0"), Some("ip=::1,port=1"));
        assert_eq!((info.flag("x"), info.flag("y"), info.flag("z")), (Some(true), None, None));
        assert!(info.sections["empty"].is_empty());
        let other = HashMap::from([("new".into(), "x".into())]);
        let db0 = KeyspaceStats { keys: 2, expires: 1, avg_ttl: Duration::from_millis(1500), other };
        assert_eq!(info.keyspace(), HashMap::from([(0, db0)]));
        let stats = &info.command_stats()["latency|reset"];
        assert_eq!((stats.calls, stats.time), (1, Duration::from_micros(2)));
        assert_eq!((stats.rejected_calls, stats.failed_calls, stats.other["usec_per_call"].as_str()), (3, 4, "2.00"));
        assert_eq!(info.error_stats(), HashMap::from([("ERR", 6)]));
        assert_eq!(info.text, text);
    }
}
