//! The server: what it keeps, how it is configured, how it is.

use std::time::{Duration, SystemTime};

use crate::args::{Arg, ToArg, ToArgs, ToPairs, cmd};
use crate::error::{Error, Result};
use crate::execute::Execute;
use crate::resp::Frame;
use crate::values::{FromReply, Value};

/// Commands on the server as a whole.
///
/// Left out so far, and to be issued with [`command`](Execute::command): ACL, COMMANDLOG, LATENCY, MEMORY, MODULE and
/// SLOWLOG with what belongs to them, most of COMMAND, DEBUG, FAILOVER, LOLWUT, REPLICAOF and SHUTDOWN, which answers
/// with the end of the connection. MONITOR, SYNC, PSYNC and REPLCONF are refused, as the queue of replies cannot bear
/// them.
pub trait ServerCommands: Execute {
    /// Begins to rewrite the append-only file.
    ///
    /// [BGREWRITEAOF](https://redis.io/docs/latest/commands/bgrewriteaof/)
    fn bgrewriteaof(self) -> Self::Reply<()> {
        self.execute(cmd("BGREWRITEAOF"))
    }

    /// Begins to save all databases to disk. An error if that is going on already, or if the append-only file is being
    /// rewritten.
    ///
    /// [BGSAVE](https://redis.io/docs/latest/commands/bgsave/)
    fn bgsave(self) -> Self::Reply<()> {
        self.execute(cmd("BGSAVE"))
    }

    /// Like [`bgsave`](ServerCommands::bgsave), but is put off while the append-only file is being rewritten.
    ///
    /// [BGSAVE](https://redis.io/docs/latest/commands/bgsave/)
    fn bgsave_schedule(self) -> Self::Reply<()> {
        self.execute(cmd("BGSAVE").arg("SCHEDULE"))
    }

    /// How many commands the server knows, subcommands not counted.
    ///
    /// [COMMAND COUNT](https://redis.io/docs/latest/commands/command-count/)
    fn command_count(self) -> Self::Reply<i64> {
        self.execute(cmd("COMMAND").arg("COUNT"))
    }

    /// The settings whose names match one of these patterns, each with its value. Never nil. More than one pattern since
    /// 7.0.
    ///
    /// [CONFIG GET](https://redis.io/docs/latest/commands/config-get/)
    fn config_get(self, patterns: impl ToArgs) -> Self::MultiBulk<(String, String)> {
        self.execute_multi(cmd("CONFIG").arg("GET").args(patterns))
    }

    /// Sets the server's counters back to zero.
    ///
    /// [CONFIG RESETSTAT](https://redis.io/docs/latest/commands/config-resetstat/)
    fn config_resetstat(self) -> Self::Reply<()> {
        self.execute(cmd("CONFIG").arg("RESETSTAT"))
    }

    /// Writes the settings to the file that the server was started with. An error if there was none.
    ///
    /// [CONFIG REWRITE](https://redis.io/docs/latest/commands/config-rewrite/)
    fn config_rewrite(self) -> Self::Reply<()> {
        self.execute(cmd("CONFIG").arg("REWRITE"))
    }

    /// Changes settings: pairs of name and value. Either all are changed or none. More than one pair since 7.0.
    ///
    /// [CONFIG SET](https://redis.io/docs/latest/commands/config-set/)
    fn config_set(self, pairs: impl ToPairs) -> Self::Reply<()> {
        self.execute(cmd("CONFIG").arg("SET").args(pairs))
    }

    /// How many keys the database has.
    ///
    /// [DBSIZE](https://redis.io/docs/latest/commands/dbsize/)
    fn dbsize(self) -> Self::Reply<i64> {
        self.execute(cmd("DBSIZE"))
    }

    /// Deletes all keys of all databases.
    ///
    /// [FLUSHALL](https://redis.io/docs/latest/commands/flushall/)
    fn flushall(self) -> Self::Reply<()> {
        self.execute(cmd("FLUSHALL"))
    }

    /// Like [`flushall`](ServerCommands::flushall), and says whether the reply waits until the memory is free.
    ///
    /// [FLUSHALL](https://redis.io/docs/latest/commands/flushall/)
    fn flushall_with(self, mode: FlushMode) -> Self::Reply<()> {
        self.execute(cmd("FLUSHALL").arg(mode))
    }

    /// Deletes all keys of the database.
    ///
    /// [FLUSHDB](https://redis.io/docs/latest/commands/flushdb/)
    fn flushdb(self) -> Self::Reply<()> {
        self.execute(cmd("FLUSHDB"))
    }

    /// Like [`flushdb`](ServerCommands::flushdb), and says whether the reply waits until the memory is free.
    ///
    /// [FLUSHDB](https://redis.io/docs/latest/commands/flushdb/)
    fn flushdb_with(self, mode: FlushMode) -> Self::Reply<()> {
        self.execute(cmd("FLUSHDB").arg(mode))
    }

    /// What the server says about itself: lines `name:value` under headings `# Section`.
    ///
    /// [INFO](https://redis.io/docs/latest/commands/info/)
    fn info(self) -> Self::Reply<String> {
        self.execute(cmd("INFO"))
    }

    /// Like [`info`](ServerCommands::info), but only some sections. More than one since 7.0.
    ///
    /// [INFO](https://redis.io/docs/latest/commands/info/)
    fn info_sections(self, sections: impl ToArgs) -> Self::Reply<String> {
        self.execute(cmd("INFO").args(sections))
    }

    /// When the databases were last saved to disk, in whole seconds; before the first time, when the server started.
    ///
    /// [LASTSAVE](https://redis.io/docs/latest/commands/lastsave/)
    fn lastsave(self) -> Self::Reply<SystemTime> {
        self.execute(cmd("LASTSAVE"))
    }

    /// What the server is in its replication: an array that begins with `master`, `slave` or `sentinel`.
    ///
    /// [ROLE](https://redis.io/docs/latest/commands/role/)
    fn role(self) -> Self::Reply<Value> {
        self.execute(cmd("ROLE"))
    }

    /// Saves all databases to disk, and holds the whole server up meanwhile.
    ///
    /// [SAVE](https://redis.io/docs/latest/commands/save/)
    fn save(self) -> Self::Reply<()> {
        self.execute(cmd("SAVE"))
    }

    /// Exchanges two databases under the feet of their clients.
    ///
    /// [SWAPDB](https://redis.io/docs/latest/commands/swapdb/)
    fn swapdb(self, first: u32, second: u32) -> Self::Reply<()> {
        self.execute(cmd("SWAPDB").arg(first).arg(second))
    }

    /// What time it is by the server's clock, in microseconds.
    ///
    /// [TIME](https://redis.io/docs/latest/commands/time/)
    fn time(self) -> Self::Reply<SystemTime> {
        self.execute(cmd("TIME"))
    }
}

/// A time as LASTSAVE sends it, in seconds since the beginning of 1970, or as TIME does, an array of seconds and
/// microseconds.
impl FromReply for SystemTime {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let time = if frame.is_aggregate() {
            let (seconds, micros) = <(u64, u64)>::from_reply(frame)?;
            Duration::from_secs(seconds).checked_add(Duration::from_micros(micros))
        } else {
            Some(Duration::from_secs(u64::from_reply(frame)?))
        };
        time.and_then(|time| SystemTime::UNIX_EPOCH.checked_add(time))
            .ok_or_else(|| Error::custom("a time that the system cannot express"))
    }
}

/// Whether a reply waits until the memory of what is deleted is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlushMode {
    /// The reply comes at once, and the memory is freed in the background.
    Async,
    /// The reply comes when all is done.
    Sync,
}

impl ToArg for FlushMode {
    fn to_arg(&self) -> Arg<'_> {
        Arg::from(match self {
            FlushMode::Async => "ASYNC",
            FlushMode::Sync => "SYNC",
        })
    }
    const DIRECT: bool = true;
}

#[cfg(test)]
mod tests {
    use super::super::keys::recorder::{Recorder, sent};
    use super::*;
    use crate::resp::Decoder;

    impl ServerCommands for &Recorder {}

    #[test]
    fn server_commands_are_encoded() {
        assert_eq!(sent(|on| on.bgrewriteaof()), "BGREWRITEAOF");
        assert_eq!(sent(|on| on.bgsave()), "BGSAVE");
        assert_eq!(sent(|on| on.bgsave_schedule()), "BGSAVE SCHEDULE");
        assert_eq!(sent(|on| on.command_count()), "COMMAND COUNT");
        assert_eq!(sent(|on| on.config_get(["maxmemory", "save"])), "CONFIG GET maxmemory save");
        assert_eq!(sent(|on| on.config_get(())), "refused");
        assert_eq!(sent(|on| on.config_resetstat()), "CONFIG RESETSTAT");
        assert_eq!(sent(|on| on.config_rewrite()), "CONFIG REWRITE");
        assert_eq!(sent(|on| on.config_set(("maxmemory", 0))), "CONFIG SET maxmemory 0");
        assert_eq!(sent(|on| on.config_set([("a", "1"), ("b", "2")])), "CONFIG SET a 1 b 2");
        assert_eq!(sent(|on| on.dbsize()), "DBSIZE");
        assert_eq!(sent(|on| on.flushall()), "FLUSHALL");
        assert_eq!(sent(|on| on.flushall_with(FlushMode::Async)), "FLUSHALL ASYNC");
        assert_eq!(sent(|on| on.flushdb()), "FLUSHDB");
        assert_eq!(sent(|on| on.flushdb_with(FlushMode::Sync)), "FLUSHDB SYNC");
        assert_eq!(sent(|on| on.info()), "INFO");
        assert_eq!(sent(|on| on.info_sections(["server", "clients"])), "INFO server clients");
        assert_eq!(sent(|on| on.lastsave()), "LASTSAVE");
        assert_eq!(sent(|on| on.role()), "ROLE");
        assert_eq!(sent(|on| on.save()), "SAVE");
        assert_eq!(sent(|on| on.swapdb(0, 1)), "SWAPDB 0 1");
        assert_eq!(sent(|on| on.time()), "TIME");
    }

    #[test]
    fn times_are_seconds_or_seconds_and_microseconds() {
        let decode = |wire: &[u8]| {
            let (frame, _) = Decoder::new().decode(wire).unwrap().unwrap();
            SystemTime::from_reply(frame)
        };
        let at = |micros| SystemTime::UNIX_EPOCH + Duration::from_micros(micros);
        assert_eq!(decode(b":1796030827\r\n").unwrap(), at(1_796_030_827_000_000));
        assert_eq!(decode(b"*2\r\n$10\r\n1796030830\r\n$5\r\n28241\r\n").unwrap(), at(1_796_030_830_028_241));
        assert!(matches!(decode(b"*0\r\n"), Err(Error::Nil)));
        assert!(matches!(decode(b"_\r\n"), Err(Error::Nil)));
        for wire in [&b":-1\r\n"[..], b"$3\r\nabc\r\n", b"*2\r\n:1\r\n:-1\r\n", b"+18446744073709551615\r\n"] {
            assert!(decode(wire).is_err(), "{}", wire.escape_ascii());
        }
    }
}
