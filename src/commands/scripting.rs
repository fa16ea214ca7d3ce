//! Scripts and functions that run in the server.

mod options;

use super::{Execute, FlushMode};
use crate::args::{ToArg, ToArgs, cmd};
use crate::values::FromReply;

pub use options::{
    FunctionEngine, FunctionInfo, FunctionLibrary, FunctionListOptions, FunctionRestorePolicy, FunctionStats,
    RunningFunction,
};

/// Commands that run scripts and functions, and that manage them.
///
/// The keys that a script uses are given apart from its other arguments, so that a cluster can tell where to run it. Both
/// may be empty: `()`.
///
/// A script that runs long holds the whole server up, and the timeout of a wait goes on meanwhile.
///
/// [`Script`](crate::Script) keeps a source with its digest, and sends the source only where the server does not know it.
///
/// Left out: SCRIPT DEBUG, after which EVAL no longer answers once.
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(feature = "testing")] {
/// # let server = redefer::testing::Server::start()?;
/// # let conn = redefer::Connection::open(server.url())?;
/// use redefer::prelude::*;
///
/// let sum: i64 = conn.eval("return ARGV[1] + ARGV[2]", (), (2, 3)).wait()?;
/// assert_eq!(sum, 5);
/// # }
/// # Ok(())
/// # }
/// ```
pub trait ScriptingCommands: Execute {
    /// Runs a script. The reply is what it returns: a Lua number comes as an integer, without its fraction; `false` and
    /// `nil` are nil.
    ///
    /// [EVAL](https://redis.io/docs/latest/commands/eval/)
    fn eval<T: FromReply>(self, script: impl ToArg, keys: impl ToArgs, arguments: impl ToArgs) -> Self::Reply<T> {
        self.execute(cmd("EVAL").arg(script).any_counted_keys(keys).options(arguments))
    }

    /// Like [`eval`](ScriptingCommands::eval), but the script may not write. Since 7.0.
    ///
    /// [EVAL_RO](https://redis.io/docs/latest/commands/eval_ro/)
    fn eval_ro<T: FromReply>(self, script: impl ToArg, keys: impl ToArgs, arguments: impl ToArgs) -> Self::Reply<T> {
        self.execute(cmd("EVAL_RO").arg(script).any_counted_keys(keys).options(arguments))
    }

    /// Like [`eval`](ScriptingCommands::eval), for a script that the server knows, by its SHA-1 digest in hexadecimal.
    /// The error is `NOSCRIPT` if the server does not know it.
    ///
    /// [EVALSHA](https://redis.io/docs/latest/commands/evalsha/)
    fn evalsha<T: FromReply>(self, digest: impl ToArg, keys: impl ToArgs, arguments: impl ToArgs) -> Self::Reply<T> {
        self.execute(cmd("EVALSHA").arg(digest).any_counted_keys(keys).options(arguments))
    }

    /// Like [`evalsha`](ScriptingCommands::evalsha), but the script may not write. Since 7.0.
    ///
    /// [EVALSHA_RO](https://redis.io/docs/latest/commands/evalsha_ro/)
    fn evalsha_ro<T: FromReply>(self, digest: impl ToArg, keys: impl ToArgs, arguments: impl ToArgs) -> Self::Reply<T> {
        self.execute(cmd("EVALSHA_RO").arg(digest).any_counted_keys(keys).options(arguments))
    }

    /// Calls a function of a library that the server has loaded. Since 7.0.
    ///
    /// [FCALL](https://redis.io/docs/latest/commands/fcall/)
    fn fcall<T: FromReply>(self, function: impl ToArg, keys: impl ToArgs, arguments: impl ToArgs) -> Self::Reply<T> {
        self.execute(cmd("FCALL").arg(function).any_counted_keys(keys).options(arguments))
    }

    /// Like [`fcall`](ScriptingCommands::fcall), for a function that is declared not to write. Since 7.0.
    ///
    /// [FCALL_RO](https://redis.io/docs/latest/commands/fcall_ro/)
    fn fcall_ro<T: FromReply>(self, function: impl ToArg, keys: impl ToArgs, arguments: impl ToArgs) -> Self::Reply<T> {
        self.execute(cmd("FCALL_RO").arg(function).any_counted_keys(keys).options(arguments))
    }

    /// Deletes a library with its functions. Since 7.0.
    ///
    /// [FUNCTION DELETE](https://redis.io/docs/latest/commands/function-delete/)
    fn function_delete(self, library: impl ToArg) -> Self::Reply<()> {
        self.execute(cmd("FUNCTION").arg("DELETE").arg(library))
    }

    /// All libraries in a form for [`function_restore`](ScriptingCommands::function_restore). Since 7.0.
    ///
    /// [FUNCTION DUMP](https://redis.io/docs/latest/commands/function-dump/)
    fn function_dump(self) -> Self::Reply<Vec<u8>> {
        self.execute(cmd("FUNCTION").arg("DUMP"))
    }

    /// Deletes all libraries. Since 7.0.
    ///
    /// [FUNCTION FLUSH](https://redis.io/docs/latest/commands/function-flush/)
    fn function_flush(self) -> Self::Reply<()> {
        self.execute(cmd("FUNCTION").arg("FLUSH"))
    }

    /// Like [`function_flush`](ScriptingCommands::function_flush), and says whether the reply waits for it.
    ///
    /// [FUNCTION FLUSH](https://redis.io/docs/latest/commands/function-flush/)
    fn function_flush_with(self, mode: FlushMode) -> Self::Reply<()> {
        self.execute(cmd("FUNCTION").arg("FLUSH").arg(mode))
    }

    /// What the subcommands of FUNCTION are, as lines of text. Since 7.0.
    ///
    /// [FUNCTION HELP](https://redis.io/docs/latest/commands/function-help/)
    fn function_help(self) -> Self::MultiBulk<String> {
        self.execute_multi(cmd("FUNCTION").arg("HELP"))
    }

    /// Ends the function that is running, if it has not written yet. The error is `NOTBUSY` if none is. Since 7.0.
    ///
    /// [FUNCTION KILL](https://redis.io/docs/latest/commands/function-kill/)
    fn function_kill(self) -> Self::Reply<()> {
        self.execute(cmd("FUNCTION").arg("KILL"))
    }

    /// The libraries with their functions, in no order. Since 7.0.
    ///
    /// [FUNCTION LIST](https://redis.io/docs/latest/commands/function-list/)
    fn function_list(self) -> Self::MultiBulk<FunctionLibrary> {
        self.execute_multi(cmd("FUNCTION").arg("LIST"))
    }

    /// Like [`function_list`](ScriptingCommands::function_list), with options that say which, and whether with their
    /// source.
    ///
    /// [FUNCTION LIST](https://redis.io/docs/latest/commands/function-list/)
    fn function_list_with(self, options: &FunctionListOptions) -> Self::MultiBulk<FunctionLibrary> {
        self.execute_multi(cmd("FUNCTION").arg("LIST").options(options))
    }

    /// Loads a library from its source. The reply is its name; an error if there is one of that name. Since 7.0.
    ///
    /// [FUNCTION LOAD](https://redis.io/docs/latest/commands/function-load/)
    fn function_load(self, code: impl ToArg) -> Self::Reply<String> {
        self.execute(cmd("FUNCTION").arg("LOAD").arg(code))
    }

    /// Like [`function_load`](ScriptingCommands::function_load), in place of a library of that name.
    ///
    /// [FUNCTION LOAD](https://redis.io/docs/latest/commands/function-load/)
    fn function_load_replace(self, code: impl ToArg) -> Self::Reply<String> {
        self.execute(cmd("FUNCTION").arg("LOAD").arg("REPLACE").arg(code))
    }

    /// Adds the libraries of a [`function_dump`](ScriptingCommands::function_dump) to those that are there; an error, and
    /// nothing done, if a name is there already. Since 7.0.
    ///
    /// [FUNCTION RESTORE](https://redis.io/docs/latest/commands/function-restore/)
    fn function_restore(self, dump: impl ToArg) -> Self::Reply<()> {
        self.execute(cmd("FUNCTION").arg("RESTORE").arg(dump))
    }

    /// Like [`function_restore`](ScriptingCommands::function_restore), and says what becomes of those that are there.
    ///
    /// [FUNCTION RESTORE](https://redis.io/docs/latest/commands/function-restore/)
    fn function_restore_with(self, dump: impl ToArg, policy: FunctionRestorePolicy) -> Self::Reply<()> {
        self.execute(cmd("FUNCTION").arg("RESTORE").arg(dump).arg(policy))
    }

    /// What is running, and how many libraries and functions there are. Answers also while a function runs that holds the
    /// server up. Since 7.0.
    ///
    /// [FUNCTION STATS](https://redis.io/docs/latest/commands/function-stats/)
    fn function_stats(self) -> Self::Reply<FunctionStats> {
        self.execute(cmd("FUNCTION").arg("STATS"))
    }

    /// Whether the server knows each of these scripts, by their digests, in the order asked.
    ///
    /// [SCRIPT EXISTS](https://redis.io/docs/latest/commands/script-exists/)
    fn script_exists(self, digests: impl ToArgs) -> Self::MultiBulk<bool> {
        self.execute_multi(cmd("SCRIPT").arg("EXISTS").args(digests))
    }

    /// Makes the server forget all scripts.
    ///
    /// [SCRIPT FLUSH](https://redis.io/docs/latest/commands/script-flush/)
    fn script_flush(self) -> Self::Reply<()> {
        self.execute(cmd("SCRIPT").arg("FLUSH"))
    }

    /// Like [`script_flush`](ScriptingCommands::script_flush), and says whether the reply waits for it. Since 6.2.
    ///
    /// [SCRIPT FLUSH](https://redis.io/docs/latest/commands/script-flush/)
    fn script_flush_with(self, mode: FlushMode) -> Self::Reply<()> {
        self.execute(cmd("SCRIPT").arg("FLUSH").arg(mode))
    }

    /// What the subcommands of SCRIPT are, as lines of text.
    ///
    /// [SCRIPT HELP](https://redis.io/docs/latest/commands/script-help/)
    fn script_help(self) -> Self::MultiBulk<String> {
        self.execute_multi(cmd("SCRIPT").arg("HELP"))
    }

    /// Ends the script that is running, if it has not written yet. The error is `NOTBUSY` if none is.
    ///
    /// [SCRIPT KILL](https://redis.io/docs/latest/commands/script-kill/)
    fn script_kill(self) -> Self::Reply<()> {
        self.execute(cmd("SCRIPT").arg("KILL"))
    }

    /// Lets the server know a script without running it. The reply is its SHA-1 digest in hexadecimal.
    ///
    /// [SCRIPT LOAD](https://redis.io/docs/latest/commands/script-load/)
    fn script_load(self, script: impl ToArg) -> Self::Reply<String> {
        self.execute(cmd("SCRIPT").arg("LOAD").arg(script))
    }

    /// The source of a script that the server knows, by its digest. The error is `NOSCRIPT` if it does not know it. Only
    /// Valkey, since 8.0.
    ///
    /// [SCRIPT SHOW](https://valkey.io/commands/script-show/)
    fn script_show<T: FromReply>(self, digest: impl ToArg) -> Self::Reply<T> {
        self.execute(cmd("SCRIPT").arg("SHOW").arg(digest))
    }
}

#[cfg(test)]
mod tests {
    use super::super::recorder::{Recorder, sent};
    use super::*;
    use crate::args::each;

    impl ScriptingCommands for &Recorder {}

    #[test]
    fn scripting_commands_are_encoded_with_their_keys() {
        assert_eq!(sent(|on| on.eval::<i64>("return 1", (), ())), "EVAL return 1 0");
        assert_eq!(sent(|on| on.eval::<i64>("s", ["a", "b"], (1, "x"))), "EVAL s 2 [a] [b] 1 x");
        assert_eq!(sent(|on| on.eval::<i64>("s", each(["a", "b"]), each([1]))), "EVAL s 2 [a] [b] 1");
        assert_eq!(sent(|on| on.eval::<i64>("s", each(Vec::<String>::new()), ())), "EVAL s 0");
        assert_eq!(sent(|on| on.eval_ro::<i64>("s", "a", ())), "EVAL_RO s 1 [a]");
        assert_eq!(sent(|on| on.evalsha::<i64>("d", "a", "x")), "EVALSHA d 1 [a] x");
        assert_eq!(sent(|on| on.evalsha_ro::<i64>("d", (), "x")), "EVALSHA_RO d 0 x");
        assert_eq!(sent(|on| on.fcall::<i64>("f", "a", ())), "FCALL f 1 [a]");
        assert_eq!(sent(|on| on.fcall_ro::<i64>("f", (), ())), "FCALL_RO f 0");
        assert_eq!(sent(|on| on.function_delete("l")), "FUNCTION DELETE l");
        assert_eq!(sent(|on| on.function_dump()), "FUNCTION DUMP");
        assert_eq!(sent(|on| on.function_flush()), "FUNCTION FLUSH");
        assert_eq!(sent(|on| on.function_flush_with(FlushMode::Sync)), "FUNCTION FLUSH SYNC");
        assert_eq!(sent(|on| on.function_kill()), "FUNCTION KILL");
        assert_eq!(sent(|on| on.function_help()), "FUNCTION HELP");
        assert_eq!(sent(|on| on.function_list()), "FUNCTION LIST");
        let options = FunctionListOptions::new().library("l*").withcode();
        assert_eq!(sent(|on| on.function_list_with(&options)), "FUNCTION LIST LIBRARYNAME l* WITHCODE");
        assert_eq!(sent(|on| on.function_load("c")), "FUNCTION LOAD c");
        assert_eq!(sent(|on| on.function_load_replace("c")), "FUNCTION LOAD REPLACE c");
        assert_eq!(sent(|on| on.function_restore("d")), "FUNCTION RESTORE d");
        let policies = [FunctionRestorePolicy::Append, FunctionRestorePolicy::Flush, FunctionRestorePolicy::Replace];
        for (policy, word) in policies.into_iter().zip(["APPEND", "FLUSH", "REPLACE"]) {
            assert_eq!(sent(|on| on.function_restore_with("d", policy)), format!("FUNCTION RESTORE d {word}"));
        }
        assert_eq!(sent(|on| on.function_stats()), "FUNCTION STATS");
        assert_eq!(sent(|on| on.script_exists(["a", "b"])), "SCRIPT EXISTS a b");
        assert_eq!(sent(|on| on.script_exists(())), "refused");
        assert_eq!(sent(|on| on.script_flush()), "SCRIPT FLUSH");
        assert_eq!(sent(|on| on.script_flush_with(FlushMode::Async)), "SCRIPT FLUSH ASYNC");
        assert_eq!(sent(|on| on.script_kill()), "SCRIPT KILL");
        assert_eq!(sent(|on| on.script_help()), "SCRIPT HELP");
        assert_eq!(sent(|on| on.script_load("return 1")), "SCRIPT LOAD return 1");
        assert_eq!(sent(|on| on.script_show::<String>("d")), "SCRIPT SHOW d");
    }
}
