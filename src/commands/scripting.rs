//! Scripts and functions that run in the server.

use super::{Execute, FlushMode};
use crate::args::{ToArg, ToArgs, cmd};
use crate::values::FromReply;

/// Commands that run scripts and functions, and that manage them.
///
/// The keys that a script uses are given apart from its other arguments, so that a cluster can tell where to run it. Both
/// may be empty: `()`.
///
/// A script that runs long holds the whole server up, and the timeout of a wait goes on meanwhile.
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

    /// Ends the function that is running, if it has not written yet. The error is `NOTBUSY` if none is. Since 7.0.
    ///
    /// [FUNCTION KILL](https://redis.io/docs/latest/commands/function-kill/)
    fn function_kill(self) -> Self::Reply<()> {
        self.execute(cmd("FUNCTION").arg("KILL"))
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
}

#[cfg(test)]
mod tests {
    use super::super::keys::recorder::{Recorder, sent};
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
        assert_eq!(sent(|on| on.function_flush()), "FUNCTION FLUSH");
        assert_eq!(sent(|on| on.function_flush_with(FlushMode::Sync)), "FUNCTION FLUSH SYNC");
        assert_eq!(sent(|on| on.function_kill()), "FUNCTION KILL");
        assert_eq!(sent(|on| on.function_load("c")), "FUNCTION LOAD c");
        assert_eq!(sent(|on| on.function_load_replace("c")), "FUNCTION LOAD REPLACE c");
        assert_eq!(sent(|on| on.script_exists(["a", "b"])), "SCRIPT EXISTS a b");
        assert_eq!(sent(|on| on.script_exists(())), "refused");
        assert_eq!(sent(|on| on.script_flush()), "SCRIPT FLUSH");
        assert_eq!(sent(|on| on.script_flush_with(FlushMode::Async)), "SCRIPT FLUSH ASYNC");
        assert_eq!(sent(|on| on.script_kill()), "SCRIPT KILL");
        assert_eq!(sent(|on| on.script_load("return 1")), "SCRIPT LOAD return 1");
    }
}
