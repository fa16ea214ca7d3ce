//! The server: what it keeps, how it is configured, how it is.

mod acl;
mod command;
mod info;
mod latency;
mod memory;
mod module;
mod replication;

pub use acl::*;
pub use command::*;
pub use info::*;
pub use latency::*;
pub use memory::*;
pub use module::*;
pub use replication::*;

use std::time::{Duration, SystemTime};

use crate::args::{Arg, ToArg, ToArgs, ToPairs, cmd};
use crate::error::{Error, Result};
use crate::execute::Execute;
use crate::resp::Frame;
use crate::values::FromReply;

/// Commands on the server as a whole.
///
/// SHUTDOWN is in [`SessionCommands`](super::SessionCommands), since it takes the connection with it. DEBUG has no
/// method: what it does is up to the developers of the servers, and can be issued with [`command`](Execute::command).
/// MONITOR is [`Monitor`](crate::Monitor). SYNC, PSYNC and REPLCONF are refused, as the queue of replies cannot bear them.
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(feature = "testing")] {
/// # let server = redefer::testing::Server::start()?;
/// # let conn = redefer::Connection::open(server.url())?;
/// use std::collections::HashMap;
///
/// use redefer::prelude::*;
///
/// conn.config_set([("maxmemory", "100mb"), ("timeout", "0")]).wait()?;
/// let settings: HashMap<String, String> = conn.config_get(["maxmemory*", "timeout"]).wait()?;
/// assert_eq!(settings["maxmemory"], "104857600");
/// # }
/// # Ok(())
/// # }
/// ```
pub trait ServerCommands: Execute {
    /// The categories of commands for access. Never nil. Since 6.0.
    ///
    /// [ACL CAT](https://redis.io/docs/latest/commands/acl-cat/)
    fn acl_cat(self) -> Self::MultiBulk<String> {
        self.execute_multi(cmd("ACL").arg("CAT"))
    }

    /// The commands of a category, without the `@`. Since 6.0.
    ///
    /// [ACL CAT](https://redis.io/docs/latest/commands/acl-cat/)
    fn acl_cat_with(self, category: impl ToArg) -> Self::MultiBulk<String> {
        self.execute_multi(cmd("ACL").arg("CAT").arg(category))
    }

    /// Deletes users, and closes their connections. The reply is how many there were. Since 6.0.
    ///
    /// [ACL DELUSER](https://redis.io/docs/latest/commands/acl-deluser/)
    fn acl_deluser(self, users: impl ToArgs) -> Self::Reply<i64> {
        self.execute(cmd("ACL").arg("DELUSER").args(users))
    }

    /// Whether a user may run a command, given as its words: `("GET", "key")`. Nothing is run. Since 7.0.
    ///
    /// [ACL DRYRUN](https://redis.io/docs/latest/commands/acl-dryrun/)
    fn acl_dryrun(self, user: impl ToArg, command: impl ToArgs) -> Self::Reply<AclDryRun> {
        self.execute(cmd("ACL").arg("DRYRUN").arg(user).args(command))
    }

    /// A password of 256 random bits, in hexadecimal. Since 6.0.
    ///
    /// [ACL GENPASS](https://redis.io/docs/latest/commands/acl-genpass/)
    fn acl_genpass(self) -> Self::Reply<String> {
        self.execute(cmd("ACL").arg("GENPASS"))
    }

    /// A password of so many random bits, rounded up to four, in hexadecimal. Since 6.0.
    ///
    /// [ACL GENPASS](https://redis.io/docs/latest/commands/acl-genpass/)
    fn acl_genpass_bits(self, bits: u32) -> Self::Reply<String> {
        self.execute(cmd("ACL").arg("GENPASS").arg(bits))
    }

    /// What a user is and may do; nil if there is no such user. Since 6.0.
    ///
    /// [ACL GETUSER](https://redis.io/docs/latest/commands/acl-getuser/)
    fn acl_getuser(self, user: impl ToArg) -> Self::Reply<Option<AclUser>> {
        self.execute(cmd("ACL").arg("GETUSER").arg(user))
    }

    /// All users, each as a line of the file that [`acl_save`](ServerCommands::acl_save) writes. Since 6.0.
    ///
    /// [ACL LIST](https://redis.io/docs/latest/commands/acl-list/)
    fn acl_list(self) -> Self::MultiBulk<String> {
        self.execute_multi(cmd("ACL").arg("LIST"))
    }

    /// Reads the users from the file that the server was set up with, all or none. An error if it has no such file.
    /// Since 6.0.
    ///
    /// [ACL LOAD](https://redis.io/docs/latest/commands/acl-load/)
    fn acl_load(self) -> Self::Reply<()> {
        self.execute(cmd("ACL").arg("LOAD"))
    }

    /// The last ten things that were not allowed, the latest first. Never nil. Since 6.0.
    ///
    /// [ACL LOG](https://redis.io/docs/latest/commands/acl-log/)
    fn acl_log(self) -> Self::MultiBulk<AclLogEntry> {
        self.execute_multi(cmd("ACL").arg("LOG"))
    }

    /// Like [`acl_log`](ServerCommands::acl_log), but up to `count` of them.
    ///
    /// [ACL LOG](https://redis.io/docs/latest/commands/acl-log/)
    fn acl_log_count(self, count: u64) -> Self::MultiBulk<AclLogEntry> {
        self.execute_multi(cmd("ACL").arg("LOG").arg(count))
    }

    /// Empties the list of what was not allowed. Since 6.0.
    ///
    /// [ACL LOG](https://redis.io/docs/latest/commands/acl-log/)
    fn acl_log_reset(self) -> Self::Reply<()> {
        self.execute(cmd("ACL").arg("LOG").arg("RESET"))
    }

    /// Writes the users to the file that the server was set up with. An error if it has no such file. Since 6.0.
    ///
    /// [ACL SAVE](https://redis.io/docs/latest/commands/acl-save/)
    fn acl_save(self) -> Self::Reply<()> {
        self.execute(cmd("ACL").arg("SAVE"))
    }

    /// Makes or changes a user: [`AclRules`], or rules as text in any list. All rules are taken or none. Since 6.0. An
    /// error repeats the rule that it is about, which may be a password to be removed.
    ///
    /// [ACL SETUSER](https://redis.io/docs/latest/commands/acl-setuser/)
    fn acl_setuser(self, user: impl ToArg, rules: impl ToArgs) -> Self::Reply<()> {
        self.execute(cmd("ACL").arg("SETUSER").arg(user).options(rules))
    }

    /// The names of all users. Since 6.0.
    ///
    /// [ACL USERS](https://redis.io/docs/latest/commands/acl-users/)
    fn acl_users(self) -> Self::MultiBulk<String> {
        self.execute_multi(cmd("ACL").arg("USERS"))
    }

    /// The name of the user of this connection. Since 6.0.
    ///
    /// [ACL WHOAMI](https://redis.io/docs/latest/commands/acl-whoami/)
    fn acl_whoami(self) -> Self::Reply<String> {
        self.execute(cmd("ACL").arg("WHOAMI"))
    }

    /// Begins to rewrite the append-only file. Since 1.0.
    ///
    /// [BGREWRITEAOF](https://redis.io/docs/latest/commands/bgrewriteaof/)
    fn bgrewriteaof(self) -> Self::Reply<()> {
        self.execute(cmd("BGREWRITEAOF"))
    }

    /// Begins to save all databases to disk. An error if that is going on already, or if the append-only file is being
    /// rewritten. Since 1.0.
    ///
    /// [BGSAVE](https://redis.io/docs/latest/commands/bgsave/)
    fn bgsave(self) -> Self::Reply<()> {
        self.execute(cmd("BGSAVE"))
    }

    /// Ends a [`bgsave`](ServerCommands::bgsave) that is going on or put off. An error if there is none. Since Valkey
    /// 8.1.
    ///
    /// [BGSAVE](https://valkey.io/commands/bgsave/)
    fn bgsave_cancel(self) -> Self::Reply<()> {
        self.execute(cmd("BGSAVE").arg("CANCEL"))
    }

    /// Like [`bgsave`](ServerCommands::bgsave), but is put off while the append-only file is being rewritten. Since
    /// 3.2.2.
    ///
    /// [BGSAVE](https://redis.io/docs/latest/commands/bgsave/)
    fn bgsave_schedule(self) -> Self::Reply<()> {
        self.execute(cmd("BGSAVE").arg("SCHEDULE"))
    }

    /// How many commands the server knows, subcommands not counted. Since 2.8.13.
    ///
    /// [COMMAND COUNT](https://redis.io/docs/latest/commands/command-count/)
    fn command_count(self) -> Self::Reply<i64> {
        self.execute(cmd("COMMAND").arg("COUNT"))
    }

    /// The documentation of commands, each with its name: of all, if the list is empty. Those that the server does not
    /// know are left out. Subcommands are `container|name`. Since 7.0.
    ///
    /// [COMMAND DOCS](https://redis.io/docs/latest/commands/command-docs/)
    fn command_docs(self, names: impl ToArgs) -> Self::MultiBulk<(String, CommandDocs)> {
        self.execute_multi(cmd("COMMAND").arg("DOCS").options(names))
    }

    /// The keys of a command, given as its words: `("MSET", "a", 1, "b", 2)`. An error if it has none. Since 2.8.13.
    ///
    /// [COMMAND GETKEYS](https://redis.io/docs/latest/commands/command-getkeys/)
    fn command_getkeys<T: FromReply>(self, command: impl ToArgs) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("COMMAND").arg("GETKEYS").args(command))
    }

    /// The keys of a command, each with what the command does with it: `RO`, `RW`, `OW` or `RM`, then `access`,
    /// `update` and others. Since 7.0.
    ///
    /// [COMMAND GETKEYSANDFLAGS](https://redis.io/docs/latest/commands/command-getkeysandflags/)
    fn command_getkeysandflags<T: FromReply>(self, command: impl ToArgs) -> Self::MultiBulk<(T, Vec<String>)> {
        self.execute_multi(cmd("COMMAND").arg("GETKEYSANDFLAGS").args(command))
    }

    /// What commands are, in the order of their names here; nil for one that the server does not know. Of all, in any
    /// order, if the list is empty (since 7.0). Subcommands are `container|name`. Since 2.8.13.
    ///
    /// [COMMAND INFO](https://redis.io/docs/latest/commands/command-info/)
    fn command_info(self, names: impl ToArgs) -> Self::MultiBulk<Option<CommandInfo>> {
        self.execute_multi(cmd("COMMAND").arg("INFO").options(names))
    }

    /// The names of all commands, with subcommands as `container|name`. Since 7.0.
    ///
    /// [COMMAND LIST](https://redis.io/docs/latest/commands/command-list/)
    fn command_list(self) -> Self::MultiBulk<String> {
        self.execute_multi(cmd("COMMAND").arg("LIST"))
    }

    /// The names of some commands. Never nil. Since 7.0.
    ///
    /// [COMMAND LIST](https://redis.io/docs/latest/commands/command-list/)
    fn command_list_with(self, filter: CommandFilter) -> Self::MultiBulk<String> {
        self.execute_multi(cmd("COMMAND").arg("LIST").options(filter))
    }

    /// Up to `count` commands that were slow or large, the latest first; all of them without a count. Since Valkey 8.1.
    ///
    /// [COMMANDLOG GET](https://valkey.io/commands/commandlog-get/)
    fn commandlog_get(self, count: impl Into<Option<u32>>, kind: CommandlogKind) -> Self::MultiBulk<CommandlogEntry> {
        self.execute_multi(cmd("COMMANDLOG").arg("GET").arg(count_or_all(count)).arg(kind))
    }

    /// How many commands that were slow or large are kept. Since Valkey 8.1.
    ///
    /// [COMMANDLOG LEN](https://valkey.io/commands/commandlog-len/)
    fn commandlog_len(self, kind: CommandlogKind) -> Self::Reply<i64> {
        self.execute(cmd("COMMANDLOG").arg("LEN").arg(kind))
    }

    /// Forgets the commands that were slow or large. Since Valkey 8.1.
    ///
    /// [COMMANDLOG RESET](https://valkey.io/commands/commandlog-reset/)
    fn commandlog_reset(self, kind: CommandlogKind) -> Self::Reply<()> {
        self.execute(cmd("COMMANDLOG").arg("RESET").arg(kind))
    }

    /// The settings whose names match one of these patterns, each with its value: for a map, among others. Never nil.
    /// A value that is not UTF-8, such as a password of bytes, is an error; take it by name with `command`, as bytes. So are
    /// values of other types: `conn.command::<HashMap<String, u64>>("CONFIG GET", "maxmemory*")`.
    /// Since 2.0; more than one pattern since 7.0.
    ///
    /// [CONFIG GET](https://redis.io/docs/latest/commands/config-get/)
    fn config_get(self, patterns: impl ToArgs) -> Self::MultiBulk<(String, String)> {
        self.execute_multi(cmd("CONFIG").arg("GET").args(patterns))
    }

    /// Sets the server's counters back to zero. Since 2.0.
    ///
    /// [CONFIG RESETSTAT](https://redis.io/docs/latest/commands/config-resetstat/)
    fn config_resetstat(self) -> Self::Reply<()> {
        self.execute(cmd("CONFIG").arg("RESETSTAT"))
    }

    /// Writes the settings to the file that the server was started with. An error if there was none. Since 2.8.
    ///
    /// [CONFIG REWRITE](https://redis.io/docs/latest/commands/config-rewrite/)
    fn config_rewrite(self) -> Self::Reply<()> {
        self.execute(cmd("CONFIG").arg("REWRITE"))
    }

    /// Changes settings: pairs of name and value. Either all are changed or none. Since 2.0; more than one pair since
    /// 7.0.
    ///
    /// [CONFIG SET](https://redis.io/docs/latest/commands/config-set/)
    fn config_set(self, pairs: impl ToPairs) -> Self::Reply<()> {
        self.execute(cmd("CONFIG").arg("SET").args(pairs))
    }

    /// How many keys the database has. Since 1.0.
    ///
    /// [DBSIZE](https://redis.io/docs/latest/commands/dbsize/)
    fn dbsize(self) -> Self::Reply<i64> {
        self.execute(cmd("DBSIZE"))
    }

    /// Begins to give this server's role to any of its replicas that has caught up. The reply comes at once;
    /// [`role`](ServerCommands::role) and the section `replication` of [`info`](ServerCommands::info) say how it goes.
    /// An error if there are no replicas. Since 6.2.
    ///
    /// [FAILOVER](https://redis.io/docs/latest/commands/failover/)
    fn failover(self) -> Self::Reply<()> {
        self.execute(cmd("FAILOVER"))
    }

    /// Ends a [`failover`](ServerCommands::failover) that is going on. An error if there is none. Since 6.2.
    ///
    /// [FAILOVER](https://redis.io/docs/latest/commands/failover/)
    fn failover_abort(self) -> Self::Reply<()> {
        self.execute(cmd("FAILOVER").arg("ABORT"))
    }

    /// Like [`failover`](ServerCommands::failover), to a certain replica or with an end.
    ///
    /// [FAILOVER](https://redis.io/docs/latest/commands/failover/)
    fn failover_with(self, options: FailoverOptions) -> Self::Reply<()> {
        self.execute(cmd("FAILOVER").options(options))
    }

    /// Deletes all keys of all databases. Since 1.0.
    ///
    /// [FLUSHALL](https://redis.io/docs/latest/commands/flushall/)
    fn flushall(self) -> Self::Reply<()> {
        self.execute(cmd("FLUSHALL"))
    }

    /// Like [`flushall`](ServerCommands::flushall), and says whether the reply waits until the memory is free. Since
    /// 4.0, and 6.2 for [`FlushMode::Sync`].
    ///
    /// [FLUSHALL](https://redis.io/docs/latest/commands/flushall/)
    fn flushall_with(self, mode: FlushMode) -> Self::Reply<()> {
        self.execute(cmd("FLUSHALL").arg(mode))
    }

    /// Deletes all keys of the database. Since 1.0.
    ///
    /// [FLUSHDB](https://redis.io/docs/latest/commands/flushdb/)
    fn flushdb(self) -> Self::Reply<()> {
        self.execute(cmd("FLUSHDB"))
    }

    /// Like [`flushdb`](ServerCommands::flushdb), and says whether the reply waits until the memory is free. Since 4.0,
    /// and 6.2 for [`FlushMode::Sync`].
    ///
    /// [FLUSHDB](https://redis.io/docs/latest/commands/flushdb/)
    fn flushdb_with(self, mode: FlushMode) -> Self::Reply<()> {
        self.execute(cmd("FLUSHDB").arg(mode))
    }

    /// What the server says about itself: sections of fields with values. Since 1.0.
    ///
    /// [INFO](https://redis.io/docs/latest/commands/info/)
    fn info(self) -> Self::Reply<Info> {
        self.execute(cmd("INFO"))
    }

    /// Like [`info`](ServerCommands::info), but only some sections; `everything` is all, those included that
    /// [`info`](ServerCommands::info) leaves out. None, `()`, is the same as [`info`](ServerCommands::info). More than one
    /// since 7.0.
    ///
    /// [INFO](https://redis.io/docs/latest/commands/info/)
    fn info_sections(self, sections: impl ToArgs) -> Self::Reply<Info> {
        self.execute(cmd("INFO").options(sections))
    }

    /// When the databases were last saved to disk, in whole seconds; before the first time, when the server started.
    /// Since 1.0.
    ///
    /// [LASTSAVE](https://redis.io/docs/latest/commands/lastsave/)
    fn lastsave(self) -> Self::Reply<SystemTime> {
        self.execute(cmd("LASTSAVE"))
    }

    /// What the server thinks of its latencies, as a text for people. Since 2.8.13.
    ///
    /// [LATENCY DOCTOR](https://redis.io/docs/latest/commands/latency-doctor/)
    fn latency_doctor(self) -> Self::Reply<String> {
        self.execute(cmd("LATENCY").arg("DOCTOR"))
    }

    /// The latencies of an event, as a graph of letters. An error if there are none. Since 2.8.13.
    ///
    /// [LATENCY GRAPH](https://redis.io/docs/latest/commands/latency-graph/)
    fn latency_graph(self, event: impl ToArg) -> Self::Reply<String> {
        self.execute(cmd("LATENCY").arg("GRAPH").arg(event))
    }

    /// How long calls of these commands took, each with its name in lower case: of all, if the list is empty. Those
    /// that were never called are left out. Since 7.0.
    ///
    /// [LATENCY HISTOGRAM](https://redis.io/docs/latest/commands/latency-histogram/)
    fn latency_histogram(self, commands: impl ToArgs) -> Self::MultiBulk<(String, LatencyHistogram)> {
        self.execute_multi(cmd("LATENCY").arg("HISTOGRAM").options(commands))
    }

    /// The last times that an event took long, up to 160, the earliest first. Never nil. Since 2.8.13.
    ///
    /// [LATENCY HISTORY](https://redis.io/docs/latest/commands/latency-history/)
    fn latency_history(self, event: impl ToArg) -> Self::MultiBulk<LatencySample> {
        self.execute_multi(cmd("LATENCY").arg("HISTORY").arg(event))
    }

    /// What has been measured of each event. Nothing is while the setting `latency-monitor-threshold` is 0, as it is at
    /// first. Since 2.8.13.
    ///
    /// [LATENCY LATEST](https://redis.io/docs/latest/commands/latency-latest/)
    fn latency_latest(self) -> Self::MultiBulk<LatencyEvent> {
        self.execute_multi(cmd("LATENCY").arg("LATEST"))
    }

    /// Forgets what has been measured of these events: of all, if the list is empty. The reply is how many events there
    /// were. Since 2.8.13.
    ///
    /// [LATENCY RESET](https://redis.io/docs/latest/commands/latency-reset/)
    fn latency_reset(self, events: impl ToArgs) -> Self::Reply<i64> {
        self.execute(cmd("LATENCY").arg("RESET").options(events))
    }

    /// A work of art and the version of the server. Since 5.0.
    ///
    /// [LOLWUT](https://redis.io/docs/latest/commands/lolwut/)
    fn lolwut(self) -> Self::Reply<String> {
        self.execute(cmd("LOLWUT"))
    }

    /// The work of art of a version, with its arguments: mostly numbers, such as the columns. Since 5.0.
    ///
    /// [LOLWUT](https://redis.io/docs/latest/commands/lolwut/)
    fn lolwut_version(self, version: u32, arguments: impl ToArgs) -> Self::Reply<String> {
        self.execute(cmd("LOLWUT").arg("VERSION").arg(version).options(arguments))
    }

    /// What the server thinks of its memory, as a text for people. Since 4.0.
    ///
    /// [MEMORY DOCTOR](https://redis.io/docs/latest/commands/memory-doctor/)
    fn memory_doctor(self) -> Self::Reply<String> {
        self.execute(cmd("MEMORY").arg("DOCTOR"))
    }

    /// What the allocator says about itself, as a text for people. Since 4.0.
    ///
    /// [MEMORY MALLOC-STATS](https://redis.io/docs/latest/commands/memory-malloc-stats/)
    fn memory_malloc_stats(self) -> Self::Reply<String> {
        self.execute(cmd("MEMORY").arg("MALLOC-STATS"))
    }

    /// Asks the allocator to give memory back that is not in use. Since 4.0.
    ///
    /// [MEMORY PURGE](https://redis.io/docs/latest/commands/memory-purge/)
    fn memory_purge(self) -> Self::Reply<()> {
        self.execute(cmd("MEMORY").arg("PURGE"))
    }

    /// What the memory is used for. Since 4.0.
    ///
    /// [MEMORY STATS](https://redis.io/docs/latest/commands/memory-stats/)
    fn memory_stats(self) -> Self::Reply<MemoryStats> {
        self.execute(cmd("MEMORY").arg("STATS"))
    }

    /// How many bytes a key and its value take, estimated from five of its elements; nil if it does not exist. Since
    /// 4.0.
    ///
    /// [MEMORY USAGE](https://redis.io/docs/latest/commands/memory-usage/)
    fn memory_usage(self, key: impl ToArg) -> Self::Reply<Option<u64>> {
        self.execute(cmd("MEMORY").arg("USAGE").key(key))
    }

    /// Like [`memory_usage`](ServerCommands::memory_usage), estimated from so many elements; from all, if it is 0.
    ///
    /// [MEMORY USAGE](https://redis.io/docs/latest/commands/memory-usage/)
    fn memory_usage_samples(self, key: impl ToArg, samples: u64) -> Self::Reply<Option<u64>> {
        self.execute(cmd("MEMORY").arg("USAGE").key(key).arg("SAMPLES").arg(samples))
    }

    /// The modules that are loaded. Never nil. Since 4.0.
    ///
    /// [MODULE LIST](https://redis.io/docs/latest/commands/module-list/)
    fn module_list(self) -> Self::MultiBulk<ModuleInfo> {
        self.execute_multi(cmd("MODULE").arg("LIST"))
    }

    /// Loads a module from a file on the server, with these arguments. Refused unless the setting
    /// `enable-module-command` allows it. Since 4.0.
    ///
    /// [MODULE LOAD](https://redis.io/docs/latest/commands/module-load/)
    fn module_load(self, path: impl ToArg, arguments: impl ToArgs) -> Self::Reply<()> {
        self.execute(cmd("MODULE").arg("LOAD").arg(path).options(arguments))
    }

    /// Like [`module_load`](ServerCommands::module_load), with settings too. Since 7.0.
    ///
    /// [MODULE LOADEX](https://redis.io/docs/latest/commands/module-loadex/)
    fn module_loadex(self, path: impl ToArg, options: ModuleOptions) -> Self::Reply<()> {
        self.execute(cmd("MODULE").arg("LOADEX").arg(path).options(options))
    }

    /// Removes a module, by the name that it has in [`module_list`](ServerCommands::module_list). An error if it has
    /// types of its own. Since 4.0.
    ///
    /// [MODULE UNLOAD](https://redis.io/docs/latest/commands/module-unload/)
    fn module_unload(self, name: impl ToArg) -> Self::Reply<()> {
        self.execute(cmd("MODULE").arg("UNLOAD").arg(name))
    }

    /// Makes the server a replica of another one. The reply comes before they are connected, and all the server's own
    /// data is lost when they are. Since 5.0.
    ///
    /// [REPLICAOF](https://redis.io/docs/latest/commands/replicaof/)
    fn replicaof(self, host: impl ToArg, port: u16) -> Self::Reply<()> {
        self.execute(cmd("REPLICAOF").arg(host).arg(port))
    }

    /// Makes a replica an independent server, which keeps what it has. Since 5.0.
    ///
    /// [REPLICAOF](https://redis.io/docs/latest/commands/replicaof/)
    fn replicaof_no_one(self) -> Self::Reply<()> {
        self.execute(cmd("REPLICAOF").arg("NO").arg("ONE"))
    }

    /// What the server is in its replication. Since 2.8.12.
    ///
    /// [ROLE](https://redis.io/docs/latest/commands/role/)
    fn role(self) -> Self::Reply<Role> {
        self.execute(cmd("ROLE"))
    }

    /// Saves all databases to disk, and holds the whole server up meanwhile. Since 1.0.
    ///
    /// [SAVE](https://redis.io/docs/latest/commands/save/)
    fn save(self) -> Self::Reply<()> {
        self.execute(cmd("SAVE"))
    }

    /// Ends a shutdown that still waits for replicas. An error if there is none. What shuts down is
    /// [`SessionCommands::shutdown`](super::SessionCommands::shutdown). Since 7.0.
    ///
    /// [SHUTDOWN](https://redis.io/docs/latest/commands/shutdown/)
    fn shutdown_abort(self) -> Self::Reply<()> {
        self.execute(cmd("SHUTDOWN").arg("ABORT"))
    }

    /// Makes the server a replica of another one. Deprecated since 5.0: [`replicaof`](ServerCommands::replicaof) does
    /// the same. Since 1.0.
    ///
    /// [SLAVEOF](https://redis.io/docs/latest/commands/slaveof/)
    fn slaveof(self, host: impl ToArg, port: u16) -> Self::Reply<()> {
        self.execute(cmd("SLAVEOF").arg(host).arg(port))
    }

    /// Makes a replica an independent server. Deprecated since 5.0:
    /// [`replicaof_no_one`](ServerCommands::replicaof_no_one) does the same. Since 1.0.
    ///
    /// [SLAVEOF](https://redis.io/docs/latest/commands/slaveof/)
    fn slaveof_no_one(self) -> Self::Reply<()> {
        self.execute(cmd("SLAVEOF").arg("NO").arg("ONE"))
    }

    /// The last ten commands that took longer than the setting `slowlog-log-slower-than`, the latest first. Never nil.
    /// Since 2.2.12.
    ///
    /// [SLOWLOG GET](https://redis.io/docs/latest/commands/slowlog-get/)
    fn slowlog_get(self) -> Self::MultiBulk<SlowlogEntry> {
        self.execute_multi(cmd("SLOWLOG").arg("GET"))
    }

    /// Like [`slowlog_get`](ServerCommands::slowlog_get), but up to `count` of them, or all of them without a count
    /// (since 7.0).
    ///
    /// [SLOWLOG GET](https://redis.io/docs/latest/commands/slowlog-get/)
    fn slowlog_get_count(self, count: impl Into<Option<u32>>) -> Self::MultiBulk<SlowlogEntry> {
        self.execute_multi(cmd("SLOWLOG").arg("GET").arg(count_or_all(count)))
    }

    /// How many commands that took long are kept. Since 2.2.12.
    ///
    /// [SLOWLOG LEN](https://redis.io/docs/latest/commands/slowlog-len/)
    fn slowlog_len(self) -> Self::Reply<i64> {
        self.execute(cmd("SLOWLOG").arg("LEN"))
    }

    /// Forgets the commands that took long. Since 2.2.12.
    ///
    /// [SLOWLOG RESET](https://redis.io/docs/latest/commands/slowlog-reset/)
    fn slowlog_reset(self) -> Self::Reply<()> {
        self.execute(cmd("SLOWLOG").arg("RESET"))
    }

    /// Exchanges two databases under the feet of their clients. Since 4.0.
    ///
    /// [SWAPDB](https://redis.io/docs/latest/commands/swapdb/)
    fn swapdb(self, first: u32, second: u32) -> Self::Reply<()> {
        self.execute(cmd("SWAPDB").arg(first).arg(second))
    }

    /// What time it is by the server's clock, in microseconds. Since 2.6.
    ///
    /// [TIME](https://redis.io/docs/latest/commands/time/)
    fn time(self) -> Self::Reply<SystemTime> {
        self.execute(cmd("TIME"))
    }
}

/// A number of entries, or -1 for all of them.
fn count_or_all(count: impl Into<Option<u32>>) -> i64 {
    count.into().map_or(-1, i64::from)
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
    use super::super::recorder::{Recorder, sent};
    use super::*;
    use crate::resp::Decoder;

    impl ServerCommands for &Recorder {}

    #[test]
    fn users_are_encoded() {
        assert_eq!(sent(|on| on.acl_cat()), "ACL CAT");
        assert_eq!(sent(|on| on.acl_cat_with("read")), "ACL CAT read");
        assert_eq!(sent(|on| on.acl_deluser(["a", "b"])), "ACL DELUSER a b");
        assert_eq!(sent(|on| on.acl_deluser(())), "refused");
        assert_eq!(sent(|on| on.acl_dryrun("bob", ("GET", "k"))), "ACL DRYRUN bob GET k");
        assert_eq!(sent(|on| on.acl_genpass()), "ACL GENPASS");
        assert_eq!(sent(|on| on.acl_genpass_bits(5)), "ACL GENPASS 5");
        assert_eq!(sent(|on| on.acl_getuser("bob")), "ACL GETUSER bob");
        assert_eq!(sent(|on| on.acl_list()), "ACL LIST");
        assert_eq!(sent(|on| on.acl_load()), "ACL LOAD");
        assert_eq!(sent(|on| on.acl_log()), "ACL LOG");
        assert_eq!(sent(|on| on.acl_log_count(3)), "ACL LOG 3");
        assert_eq!(sent(|on| on.acl_log_reset()), "ACL LOG RESET");
        assert_eq!(sent(|on| on.acl_save()), "ACL SAVE");
        assert_eq!(sent(|on| on.acl_setuser("bob", ())), "ACL SETUSER bob");
        assert_eq!(sent(|on| on.acl_setuser("bob", ["on", "+@all"])), "ACL SETUSER bob on +@all");
        assert_eq!(sent(|on| on.acl_users()), "ACL USERS");
        assert_eq!(sent(|on| on.acl_whoami()), "ACL WHOAMI");
    }

    #[test]
    fn rules_are_encoded() {
        let rules = AclRules::new()
            .reset()
            .on()
            .off()
            .password("p")
            .password_hash("h")
            .remove_password("q")
            .remove_password_hash("g")
            .nopass()
            .reset_passwords();
        assert_eq!(
            sent(|on| on.acl_setuser("bob", &rules)),
            "ACL SETUSER bob reset on off >p #h <q !g nopass resetpass"
        );
        let rules = AclRules::new()
            .reset_keys()
            .keys("a*")
            .read_keys("r*")
            .write_keys("w*")
            .all_keys()
            .reset_channels()
            .channels("c*")
            .all_channels();
        assert_eq!(
            sent(|on| on.acl_setuser("bob", rules)),
            "ACL SETUSER bob resetkeys ~a* %R~r* %W~w* allkeys resetchannels &c* allchannels"
        );
        let rules = AclRules::new()
            .no_commands()
            .all_commands()
            .allow_command("get")
            .deny_command("config|set")
            .allow_category("read")
            .deny_category("admin")
            .reset_databases()
            .databases([0, 3])
            .all_databases();
        assert_eq!(
            sent(|on| on.acl_setuser("bob", rules)),
            "ACL SETUSER bob nocommands allcommands +get -config|set +@read -@admin resetdbs db=0,3 alldbs"
        );
        let rules = AclRules::new()
            .clear_selectors()
            .selector(AclRules::new().keys("x").allow_command("set"))
            .sanitize_payload(true)
            .sanitize_payload(false)
            .rule("new");
        assert_eq!(
            sent(|on| on.acl_setuser("bob", rules)),
            "ACL SETUSER bob clearselectors (~x +set) sanitize-payload skip-sanitize-payload new"
        );
    }

    #[test]
    fn persistence_and_replication_are_encoded() {
        assert_eq!(sent(|on| on.bgrewriteaof()), "BGREWRITEAOF");
        assert_eq!(sent(|on| on.bgsave()), "BGSAVE");
        assert_eq!(sent(|on| on.bgsave_cancel()), "BGSAVE CANCEL");
        assert_eq!(sent(|on| on.bgsave_schedule()), "BGSAVE SCHEDULE");
        assert_eq!(sent(|on| on.lastsave()), "LASTSAVE");
        assert_eq!(sent(|on| on.save()), "SAVE");
        assert_eq!(sent(|on| on.failover()), "FAILOVER");
        assert_eq!(sent(|on| on.failover_abort()), "FAILOVER ABORT");
        assert_eq!(sent(|on| on.failover_with(FailoverOptions::new().timeout(Duration::ZERO))), "FAILOVER TIMEOUT 1");
        assert_eq!(
            sent(|on| on.failover_with(FailoverOptions::new().timeout(Duration::from_secs(1)).to("h", 1).force())),
            "FAILOVER TO h 1 FORCE TIMEOUT 1000"
        );
        assert_eq!(sent(|on| on.replicaof("h", 1)), "REPLICAOF h 1");
        assert_eq!(sent(|on| on.replicaof_no_one()), "REPLICAOF NO ONE");
        assert_eq!(sent(|on| on.slaveof("h", 1)), "SLAVEOF h 1");
        assert_eq!(sent(|on| on.slaveof_no_one()), "SLAVEOF NO ONE");
        assert_eq!(sent(|on| on.role()), "ROLE");
        assert_eq!(sent(|on| on.shutdown_abort()), "SHUTDOWN ABORT");
    }

    #[test]
    fn questions_about_commands_are_encoded() {
        assert_eq!(sent(|on| on.command_count()), "COMMAND COUNT");
        assert_eq!(sent(|on| on.command_docs(())), "COMMAND DOCS");
        assert_eq!(sent(|on| on.command_docs(["get", "config|get"])), "COMMAND DOCS get config|get");
        assert_eq!(sent(|on| on.command_getkeys::<String>(("MSET", "a", 1))), "COMMAND GETKEYS MSET a 1");
        assert_eq!(sent(|on| on.command_getkeys::<String>(())), "refused");
        assert_eq!(sent(|on| on.command_getkeysandflags::<String>(("GET", "a"))), "COMMAND GETKEYSANDFLAGS GET a");
        assert_eq!(sent(|on| on.command_info(())), "COMMAND INFO");
        assert_eq!(sent(|on| on.command_info("get")), "COMMAND INFO get");
        assert_eq!(sent(|on| on.command_list()), "COMMAND LIST");
        assert_eq!(sent(|on| on.command_list_with(CommandFilter::module("m"))), "COMMAND LIST FILTERBY MODULE m");
        assert_eq!(sent(|on| on.command_list_with(CommandFilter::category("c"))), "COMMAND LIST FILTERBY ACLCAT c");
        assert_eq!(sent(|on| on.command_list_with(CommandFilter::pattern("x*"))), "COMMAND LIST FILTERBY PATTERN x*");
    }

    #[test]
    fn settings_and_databases_are_encoded() {
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
        assert_eq!(sent(|on| on.swapdb(0, 1)), "SWAPDB 0 1");
        assert_eq!(sent(|on| on.info()), "INFO");
        assert_eq!(sent(|on| on.info_sections(["server", "clients"])), "INFO server clients");
        assert_eq!(sent(|on| on.lolwut()), "LOLWUT");
        assert_eq!(sent(|on| on.lolwut_version(5, (40, 1))), "LOLWUT VERSION 5 40 1");
        assert_eq!(sent(|on| on.lolwut_version(6, ())), "LOLWUT VERSION 6");
        assert_eq!(sent(|on| on.time()), "TIME");
    }

    #[test]
    fn what_took_long_is_encoded() {
        assert_eq!(sent(|on| on.latency_doctor()), "LATENCY DOCTOR");
        assert_eq!(sent(|on| on.latency_graph("e")), "LATENCY GRAPH e");
        assert_eq!(sent(|on| on.latency_histogram(())), "LATENCY HISTOGRAM");
        assert_eq!(sent(|on| on.latency_histogram(["get", "set"])), "LATENCY HISTOGRAM get set");
        assert_eq!(sent(|on| on.latency_history("e")), "LATENCY HISTORY e");
        assert_eq!(sent(|on| on.latency_latest()), "LATENCY LATEST");
        assert_eq!(sent(|on| on.latency_reset(())), "LATENCY RESET");
        assert_eq!(sent(|on| on.latency_reset("e")), "LATENCY RESET e");
        assert_eq!(sent(|on| on.slowlog_get()), "SLOWLOG GET");
        assert_eq!(sent(|on| on.slowlog_get_count(3)), "SLOWLOG GET 3");
        assert_eq!(sent(|on| on.slowlog_get_count(None)), "SLOWLOG GET -1");
        assert_eq!(sent(|on| on.slowlog_len()), "SLOWLOG LEN");
        assert_eq!(sent(|on| on.slowlog_reset()), "SLOWLOG RESET");
        assert_eq!(sent(|on| on.commandlog_get(3, CommandlogKind::Slow)), "COMMANDLOG GET 3 SLOW");
        assert_eq!(sent(|on| on.commandlog_get(None, CommandlogKind::LargeReply)), "COMMANDLOG GET -1 LARGE-REPLY");
        assert_eq!(sent(|on| on.commandlog_len(CommandlogKind::LargeRequest)), "COMMANDLOG LEN LARGE-REQUEST");
        assert_eq!(sent(|on| on.commandlog_reset(CommandlogKind::Slow)), "COMMANDLOG RESET SLOW");
    }

    #[test]
    fn memory_and_modules_are_encoded() {
        assert_eq!(sent(|on| on.memory_doctor()), "MEMORY DOCTOR");
        assert_eq!(sent(|on| on.memory_malloc_stats()), "MEMORY MALLOC-STATS");
        assert_eq!(sent(|on| on.memory_purge()), "MEMORY PURGE");
        assert_eq!(sent(|on| on.memory_stats()), "MEMORY STATS");
        assert_eq!(sent(|on| on.memory_usage("k")), "MEMORY USAGE [k]");
        assert_eq!(sent(|on| on.memory_usage_samples("k", 0)), "MEMORY USAGE [k] SAMPLES 0");
        assert_eq!(sent(|on| on.module_list()), "MODULE LIST");
        assert_eq!(sent(|on| on.module_load("m.so", ())), "MODULE LOAD m.so");
        assert_eq!(sent(|on| on.module_load("m.so", ["a", "b"])), "MODULE LOAD m.so a b");
        assert_eq!(sent(|on| on.module_loadex("m.so", ModuleOptions::new())), "MODULE LOADEX m.so");
        assert_eq!(
            sent(|on| on.module_loadex("m.so", ModuleOptions::new().arg("x").config("a", 1).config("b", 2).arg("y"))),
            "MODULE LOADEX m.so CONFIG a 1 CONFIG b 2 ARGS x y"
        );
        assert_eq!(sent(|on| on.module_unload("m")), "MODULE UNLOAD m");
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
