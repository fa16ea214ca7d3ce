//! What commands do to a cache, by name.

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Its reply depends on its keys and arguments alone.
    Read,
    /// It changes nothing that is kept.
    Harmless,
    /// It looks at its keys, and one that is past its time is gone when it has been looked at.
    Looks,
    /// It may look at any key.
    LooksAnywhere,
    /// It may change its keys.
    Writes,
    /// It may change any key.
    WritesAnything,
}

/// What a command of a method does, in capitals, with or without keys.
///
/// Whatever is not known and has keys is taken for one that changes them.
pub(super) fn kind(name: &str, has_keys: bool) -> Kind {
    match name {
        "GET"
        | "MGET"
        | "STRLEN"
        | "GETRANGE"
        | "SUBSTR"
        | "LCS"
        | "GETBIT"
        | "BITCOUNT"
        | "BITPOS"
        | "BITFIELD_RO"
        | "HGET"
        | "HMGET"
        | "HGETALL"
        | "HLEN"
        | "HEXISTS"
        | "HKEYS"
        | "HVALS"
        | "HSTRLEN"
        | "LRANGE"
        | "LINDEX"
        | "LLEN"
        | "LPOS"
        | "SMEMBERS"
        | "SISMEMBER"
        | "SMISMEMBER"
        | "SCARD"
        | "SINTER"
        | "SUNION"
        | "SDIFF"
        | "SINTERCARD"
        | "ZRANGE"
        | "ZREVRANGE"
        | "ZRANGEBYSCORE"
        | "ZREVRANGEBYSCORE"
        | "ZRANGEBYLEX"
        | "ZREVRANGEBYLEX"
        | "ZSCORE"
        | "ZMSCORE"
        | "ZRANK"
        | "ZREVRANK"
        | "ZCARD"
        | "ZCOUNT"
        | "ZLEXCOUNT"
        | "ZINTER"
        | "ZUNION"
        | "ZDIFF"
        | "ZINTERCARD"
        | "GEODIST"
        | "GEOHASH"
        | "GEOPOS"
        | "GEOSEARCH"
        | "GEORADIUS_RO"
        | "GEORADIUSBYMEMBER_RO"
        | "XRANGE"
        | "XREVRANGE"
        | "XLEN"
        | "EXISTS"
        | "TYPE" => Kind::Read,

        // What these say depends on the time, on chance, or on more than the keys they name.
        "TTL" | "PTTL" | "EXPIRETIME" | "PEXPIRETIME" | "HTTL" | "HPTTL" | "HEXPIRETIME" | "HPEXPIRETIME"
        | "OBJECT" | "DUMP" | "TOUCH" | "MEMORY" | "SRANDMEMBER" | "HRANDFIELD" | "ZRANDMEMBER" | "HSCAN" | "SSCAN"
        | "ZSCAN" | "XINFO" | "XPENDING" | "XREAD" => Kind::Looks,
        "SCAN" | "KEYS" | "RANDOMKEY" | "SORT_RO" | "EVAL_RO" | "EVALSHA_RO" | "FCALL_RO" => Kind::LooksAnywhere,

        "SPUBLISH" => Kind::Harmless,

        // A script may write what it has not named.
        "EVAL" | "EVALSHA" | "FCALL" | "FLUSHALL" | "FLUSHDB" | "SWAPDB" | "REPLICAOF" | "SLAVEOF" => {
            Kind::WritesAnything
        }

        // PFCOUNT among them: it notes what it has counted in the value.
        _ if has_keys => Kind::Writes,
        _ => Kind::Harmless,
    }
}

#[cfg(all(test, unix, feature = "testing"))]
mod tests {
    use super::*;
    use crate::commands::{CommandInfo, ServerCommands as _};
    use crate::testing::Server;
    use crate::{Connection, Result};

    #[test]
    fn servers_agree_on_what_reads_and_what_writes() -> Result<()> {
        for program in Server::programs() {
            let server = Server::builder().program(program).start()?;
            let conn = Connection::open(server.url())?;
            let commands: Vec<Option<CommandInfo>> = conn.command_info(()).wait()?;
            for info in commands.into_iter().flatten() {
                let name = info.name.to_uppercase();
                let is = |flag: &str| info.flags.iter().any(|own| own == flag);
                let (reads, writes) = (is("readonly"), is("write"));
                let keys = info.first_key != 0 || is("movablekeys");
                match kind(&name, keys) {
                    // A server tracks the keys of these, and of no others.
                    Kind::Read => assert!(reads && !writes, "{name}"),
                    Kind::Looks | Kind::LooksAnywhere => assert!(!writes, "{name}"),
                    // Functions are no keys.
                    Kind::Harmless => assert!(!writes || name == "FUNCTION", "{name}"),
                    Kind::Writes | Kind::WritesAnything => {}
                }
            }
        }
        Ok(())
    }
}
