//! HyperLogLogs: how many different elements were added, within one percent, in at most 12 kB.

use crate::args::{ToArg, ToArgs, cmd};
use crate::execute::Execute;

/// Commands on HyperLogLogs.
///
/// They are kept in strings. A key that does not exist counts nothing. On a key of another type, or a string that is none,
/// each command fails with `WRONGTYPE`.
///
/// Left out: PFDEBUG SIMD, which has no key and chooses how the server computes.
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(feature = "testing")] {
/// # let server = redefer::testing::Server::start()?;
/// # let conn = redefer::Connection::open(server.url())?;
/// use redefer::prelude::*;
///
/// conn.pfadd("visitors", ["ann", "bob", "ann"]).wait()?;
/// assert_eq!(conn.pfcount("visitors").wait()?, 2);
/// # }
/// # Ok(())
/// # }
/// ```
pub trait HyperLogLogCommands: Execute {
    /// Adds elements; with none (`()`), only makes sure that the key exists. The reply is whether that changed something.
    ///
    /// [PFADD](https://redis.io/docs/latest/commands/pfadd/)
    fn pfadd(self, key: impl ToArg, elements: impl ToArgs) -> Self::Reply<bool> {
        self.execute(cmd("PFADD").key(key).options(elements))
    }

    /// About how many different elements were added to one of these, in all.
    ///
    /// [PFCOUNT](https://redis.io/docs/latest/commands/pfcount/)
    fn pfcount(self, keys: impl ToArgs) -> Self::Reply<i64> {
        self.execute(cmd("PFCOUNT").keys(keys))
    }

    /// Adds what was added to any of the sources to `destination`.
    ///
    /// [PFMERGE](https://redis.io/docs/latest/commands/pfmerge/)
    fn pfmerge(self, destination: impl ToArg, sources: impl ToArgs) -> Self::Reply<()> {
        self.execute(cmd("PFMERGE").key(destination).keys(sources))
    }

    /// The 16,384 registers; an error if there is no such key. Makes the representation dense. For the developers of
    /// servers.
    ///
    /// [PFDEBUG](https://redis.io/docs/latest/commands/pfdebug/)
    fn pfdebug_getreg(self, key: impl ToArg) -> Self::MultiBulk<i64> {
        self.execute_multi(cmd("PFDEBUG").arg("GETREG").key(key))
    }

    /// The sparse representation as text; an error if it is dense. For the developers of servers.
    ///
    /// [PFDEBUG](https://redis.io/docs/latest/commands/pfdebug/)
    fn pfdebug_decode(self, key: impl ToArg) -> Self::Reply<String> {
        self.execute(cmd("PFDEBUG").arg("DECODE").key(key))
    }

    /// The representation: `sparse` or `dense`. For the developers of servers.
    ///
    /// [PFDEBUG](https://redis.io/docs/latest/commands/pfdebug/)
    fn pfdebug_encoding(self, key: impl ToArg) -> Self::Reply<String> {
        self.execute(cmd("PFDEBUG").arg("ENCODING").key(key))
    }

    /// Makes the representation dense. The reply is whether it was sparse. For the developers of servers.
    ///
    /// [PFDEBUG](https://redis.io/docs/latest/commands/pfdebug/)
    fn pfdebug_todense(self, key: impl ToArg) -> Self::Reply<bool> {
        self.execute(cmd("PFDEBUG").arg("TODENSE").key(key))
    }

    /// Lets the server test its own implementation, which takes seconds and holds it up meanwhile. For the developers of
    /// servers.
    ///
    /// [PFSELFTEST](https://redis.io/docs/latest/commands/pfselftest/)
    fn pfselftest(self) -> Self::Reply<()> {
        self.execute(cmd("PFSELFTEST"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::recorder::{Recorder, sent};
    use super::*;

    impl HyperLogLogCommands for &Recorder {}

    #[test]
    fn hyperloglog_commands_are_encoded_with_their_keys() {
        assert_eq!(sent(|on| on.pfadd("k", ["a", "b"])), "PFADD [k] a b");
        assert_eq!(sent(|on| on.pfadd("k", ())), "PFADD [k]");
        assert_eq!(sent(|on| on.pfcount(["a", "b"])), "PFCOUNT [a] [b]");
        assert_eq!(sent(|on| on.pfcount(())), "refused");
        assert_eq!(sent(|on| on.pfmerge("d", ["a", "b"])), "PFMERGE [d] [a] [b]");
        assert_eq!(sent(|on| on.pfmerge("d", Vec::<String>::new())), "refused");
        assert_eq!(sent(|on| on.pfdebug_getreg("k")), "PFDEBUG GETREG [k]");
        assert_eq!(sent(|on| on.pfdebug_decode("k")), "PFDEBUG DECODE [k]");
        assert_eq!(sent(|on| on.pfdebug_encoding("k")), "PFDEBUG ENCODING [k]");
        assert_eq!(sent(|on| on.pfdebug_todense("k")), "PFDEBUG TODENSE [k]");
        assert_eq!(sent(|on| on.pfselftest()), "PFSELFTEST");
    }
}
