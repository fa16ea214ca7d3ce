//! What commands do to the queue of replies, by name: the one place that knows.

use std::time::Duration;

use crate::args::Block;

/// What a command does to the queue of replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It answers once, in its turn.
    Ordinary,
    /// The queue cannot bear it; why, and what to use in its place.
    Refused(&'static str),
    /// AUTH: every earlier reply is read first, and it is sent alone and waited for.
    Barrier,
    /// Changes this of the connection, which is to be as it was after a reconnect.
    Changes(Change),
    /// Turns on tracking, which does not outlast a connection.
    Tracks,
    /// It answers once, and may keep the connection waiting until then.
    Blocking(Block),
}

/// What a command changes of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Change {
    /// By an AUTH that nobody waits for any more.
    Login,
    Database,
    Name,
    ReadOnly,
    NoEvict,
    NoTouch,
    ImportSource,
    Capabilities,
    Tracking,
}

const SUBSCRIBES: Effect = Effect::Refused(
    "these do not answer each command once: use a pubsub::Subscriber, or in RESP3 Connection::subscribe and its like",
);
const TRANSACTS: Effect = Effect::Refused("MULTI, EXEC and DISCARD are sent by Connection::transaction");
const WATCHES: Effect =
    Effect::Refused("WATCH and UNWATCH are sent by Connection::watch and Connection::transact, or those of a Cluster");
const REPLICATES: Effect = Effect::Refused("replication is not a dialogue of commands and replies");

/// What the command does whose arguments these are, its name first, subcommand second.
///
/// Names are compared without case, as servers do. A timeout that cannot be read makes the command an ordinary one: the
/// server answers with an error at once.
pub(crate) fn effect<'a>(mut arguments: impl Iterator<Item = &'a [u8]>) -> Effect {
    let Some(name) = arguments.next() else { return Effect::Ordinary };
    let mut upper = [0; LONGEST];
    let Some(name) = uppercase(name, &mut upper) else { return Effect::Ordinary };
    match name {
        b"AUTH" => Effect::Barrier,
        b"SELECT" => Effect::Changes(Change::Database),
        b"READONLY" | b"READWRITE" => Effect::Changes(Change::ReadOnly),

        b"BLPOP" | b"BRPOP" | b"BRPOPLPUSH" | b"BLMOVE" | b"BZPOPMIN" | b"BZPOPMAX" => {
            blocking(arguments.last().and_then(seconds))
        }
        b"BLMPOP" | b"BZMPOP" => blocking(arguments.next().and_then(seconds)),
        b"WAIT" | b"WAITAOF" => blocking(arguments.last().and_then(millis)),
        b"XREAD" | b"XREADGROUP" => blocking(block_option(arguments).and_then(millis)),

        b"CLIENT" => client(arguments),
        b"CLUSTER" if is(arguments.next(), "SYNCSLOTS") => REPLICATES,
        b"SCRIPT" if is(arguments.next(), "DEBUG") => {
            Effect::Refused("after SCRIPT DEBUG a script does not answer once; use redis-cli --ldb")
        }
        b"MONITOR" => Effect::Refused("MONITOR answers without end; use redefer::Monitor"),
        b"SYNC" | b"PSYNC" | b"REPLCONF" => REPLICATES,
        b"MULTI" | b"EXEC" | b"DISCARD" => TRANSACTS,
        b"WATCH" | b"UNWATCH" => WATCHES,
        b"RESET" => Effect::Refused("RESET undoes what the connection was opened with; open another one"),
        b"QUIT" => Effect::Refused("QUIT ends the connection; drop it"),
        b"HELLO" => Effect::Refused("HELLO is sent when the connection is opened; see Config::protocol"),
        b"SUBSCRIBE" | b"UNSUBSCRIBE" | b"PSUBSCRIBE" | b"PUNSUBSCRIBE" | b"SSUBSCRIBE" | b"SUNSUBSCRIBE" => SUBSCRIBES,
        _ => Effect::Ordinary,
    }
}

/// The length of the longest name in the table.
/// What a subcommand of CLIENT does.
fn client<'a>(mut arguments: impl Iterator<Item = &'a [u8]>) -> Effect {
    let subcommand = arguments.next();
    let changes = [
        ("SETNAME", Change::Name),
        ("NO-EVICT", Change::NoEvict),
        ("NO-TOUCH", Change::NoTouch),
        ("IMPORT-SOURCE", Change::ImportSource),
        ("CAPA", Change::Capabilities),
    ];
    if is(subcommand, "REPLY") {
        Effect::Refused("CLIENT REPLY leaves replies out; detach handles to ignore theirs")
    } else if is(subcommand, "TRACKING") && is(arguments.next(), "ON") {
        Effect::Tracks
    } else {
        let change = changes.into_iter().find(|(name, _)| is(subcommand, name));
        change.map_or(Effect::Ordinary, |(_, change)| Effect::Changes(change))
    }
}

const LONGEST: usize = "SUNSUBSCRIBE".len();

/// `name` in capitals, if it is not longer than all names in the table.
fn uppercase<'b>(name: &[u8], room: &'b mut [u8; LONGEST]) -> Option<&'b [u8]> {
    let upper = room.get_mut(..name.len())?;
    upper.copy_from_slice(name);
    upper.make_ascii_uppercase();
    Some(upper)
}

fn is(argument: Option<&[u8]>, word: &str) -> bool {
    argument.is_some_and(|argument| argument.eq_ignore_ascii_case(word.as_bytes()))
}

fn blocking(block: Option<Block>) -> Effect {
    block.map_or(Effect::Ordinary, Effect::Blocking)
}

/// A timeout in seconds with a fraction, where 0 is for ever.
///
/// Older servers also take less than 2 ms for ever. Whoever sends that does not mean it, and gets a wait with an end.
fn seconds(argument: &[u8]) -> Option<Block> {
    let seconds: f64 = str::from_utf8(argument).ok()?.parse().ok()?;
    if seconds == 0.0 {
        return Some(Block::Forever);
    }
    Duration::try_from_secs_f64(seconds).ok().map(Block::For)
}

/// A timeout in milliseconds, where 0 is for ever.
fn millis(argument: &[u8]) -> Option<Block> {
    match str::from_utf8(argument).ok()?.parse::<i64>().ok()? {
        0 => Some(Block::Forever),
        millis => u64::try_from(millis).ok().map(|millis| Block::For(Duration::from_millis(millis))),
    }
}

/// The value of the last BLOCK among the options of XREAD or XREADGROUP, which end at STREAMS. The values of the others
/// may well be called BLOCK or STREAMS themselves.
fn block_option<'a>(mut arguments: impl Iterator<Item = &'a [u8]>) -> Option<&'a [u8]> {
    let mut block = None;
    while let Some(option) = arguments.next() {
        if is(Some(option), "STREAMS") {
            break;
        } else if is(Some(option), "BLOCK") {
            block = arguments.next();
        } else if is(Some(option), "GROUP") {
            arguments.nth(1);
        } else if is(Some(option), "COUNT") || is(Some(option), "CLAIM") {
            arguments.next();
        }
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect_of(command: &str) -> Effect {
        effect(command.split(' ').map(str::as_bytes))
    }

    fn in_every_case(command: &str) -> Effect {
        let upper = effect_of(command);
        let mixed: String =
            (command.chars().enumerate()).map(|(n, c)| if n % 2 == 0 { c.to_ascii_lowercase() } else { c }).collect();
        assert_eq!(effect_of(&command.to_ascii_lowercase()), upper, "{command}");
        assert_eq!(effect_of(&mixed), upper, "{mixed}");
        upper
    }

    const MS: fn(u64) -> Effect = |ms| Effect::Blocking(Block::For(Duration::from_millis(ms)));
    const FOREVER: Effect = Effect::Blocking(Block::Forever);

    #[test]
    fn what_the_queue_cannot_bear_is_refused_in_any_case() {
        for command in [
            "CLIENT REPLY OFF",
            "CLIENT REPLY SKIP",
            "CLIENT REPLY ON",
            "CLIENT REPLY",
            "MONITOR",
            "SYNC",
            "PSYNC ? -1",
            "REPLCONF ACK 0",
            "MULTI",
            "EXEC",
            "DISCARD",
            "WATCH a",
            "UNWATCH",
            "RESET",
            "QUIT",
            "HELLO",
            "HELLO 3",
            "SUBSCRIBE a",
            "UNSUBSCRIBE",
            "PSUBSCRIBE a*",
            "PUNSUBSCRIBE",
            "SSUBSCRIBE a",
            "SUNSUBSCRIBE",
            "SCRIPT DEBUG YES",
            "CLUSTER SYNCSLOTS SYNC",
        ] {
            assert!(matches!(in_every_case(command), Effect::Refused(_)), "{command}");
        }
    }

    #[test]
    fn everything_else_is_ordinary() {
        for command in [
            "GET a",
            "SET BLPOP 0",
            "CLIENT ID",
            "CLIENT",
            "CLIENT REPLYX",
            "CLIENT LIST REPLY",
            "SCRIPT LOAD DEBUG",
            "SCRIPT",
            "SHUTDOWN",
            "FAILOVER",
            "DEBUG SLEEP 0",
            "ACL SETUSER AUTH",
            "PUBLISH SUBSCRIBE a",
            "MULTIX",
            "GEORADIUSBYMEMBER_RO a b 1 m",
            "NOSUCHCOMMANDANYWHERE",
            "LPOP a",
            "XRANGE s - +",
            "",
        ] {
            assert_eq!(in_every_case(command), Effect::Ordinary, "{command}");
        }
        assert_eq!(effect(std::iter::empty()), Effect::Ordinary);
        assert_eq!(effect([&b"\xff\x00"[..]].into_iter()), Effect::Ordinary);
    }

    #[test]
    fn auth_and_select_are_told_apart() {
        assert_eq!(in_every_case("AUTH secret"), Effect::Barrier);
        assert_eq!(in_every_case("AUTH user secret"), Effect::Barrier);
        assert_eq!(in_every_case("SELECT 1"), Effect::Changes(Change::Database));
    }

    #[test]
    fn what_changes_the_connection_is_followed() {
        for (command, change) in [
            ("READONLY", Change::ReadOnly),
            ("READWRITE", Change::ReadOnly),
            ("CLIENT SETNAME a", Change::Name),
            ("CLIENT NO-EVICT ON", Change::NoEvict),
            ("CLIENT NO-TOUCH OFF", Change::NoTouch),
            ("CLIENT IMPORT-SOURCE ON", Change::ImportSource),
            ("CLIENT CAPA redirect", Change::Capabilities),
        ] {
            assert_eq!(in_every_case(command), Effect::Changes(change), "{command}");
        }
        assert_eq!(in_every_case("CLIENT TRACKING ON BCAST"), Effect::Tracks);
        assert_eq!(in_every_case("CLIENT TRACKING OFF"), Effect::Ordinary);
    }

    #[test]
    fn blocking_commands_say_for_how_long() {
        for command in ["BLPOP a b", "BRPOP a", "BRPOPLPUSH a b", "BLMOVE a b LEFT RIGHT", "BZPOPMIN a", "BZPOPMAX a"] {
            assert_eq!(in_every_case(&format!("{command} 1.5")), MS(1500), "{command}");
            assert_eq!(in_every_case(&format!("{command} 0")), FOREVER, "{command}");
        }
        for command in ["BLMPOP", "BZMPOP"] {
            assert_eq!(in_every_case(&format!("{command} 0.05 1 a LEFT")), MS(50), "{command}");
            assert_eq!(in_every_case(&format!("{command} 0 2 1 2 MIN COUNT 5")), FOREVER, "{command}");
        }
        assert_eq!(in_every_case("WAIT 1 100"), MS(100));
        assert_eq!(in_every_case("WAIT 1 0"), FOREVER);
        assert_eq!(in_every_case("WAITAOF 1 0 100"), MS(100));
        assert_eq!(in_every_case("WAITAOF 0 0 0"), FOREVER);
    }

    #[test]
    fn timeouts_are_read_as_servers_read_them() {
        for zero in ["0", "0.0", "-0", "0e5", ".0"] {
            assert_eq!(effect_of(&format!("BLPOP a {zero}")), FOREVER, "{zero}");
        }
        assert_eq!(effect_of("BLPOP a 1e-3"), MS(1));
        assert_eq!(effect_of("BLPOP a 2e0"), MS(2000));
        for bad in ["x", "", "-1", "nan", "1,5", "1e300", "inf", " 1"] {
            assert_eq!(effect([&b"BLPOP"[..], b"a", bad.as_bytes()].into_iter()), Effect::Ordinary, "{bad}");
        }
        for bad in ["x", "", "-1", "1.5", "99999999999999999999"] {
            assert_eq!(effect([&b"WAIT"[..], b"1", bad.as_bytes()].into_iter()), Effect::Ordinary, "{bad}");
        }
        assert_eq!(effect_of("BLPOP"), Effect::Ordinary);
        assert_eq!(effect_of("BLMPOP"), Effect::Ordinary);
        assert_eq!(effect_of("WAIT"), Effect::Ordinary);
    }

    #[test]
    fn streams_block_only_with_block() {
        for (command, effect) in [
            ("XREAD BLOCK 50 STREAMS s $", MS(50)),
            ("XREAD COUNT 2 BLOCK 0 STREAMS s $", FOREVER),
            ("XREAD COUNT 2 STREAMS s $", Effect::Ordinary),
            ("XREAD STREAMS BLOCK 0", Effect::Ordinary),
            ("XREAD STREAMS BLOCK 5 0 0", Effect::Ordinary),
            ("XREAD BLOCK 1 BLOCK 7 STREAMS s $", MS(7)),
            ("XREAD BLOCK x STREAMS s $", Effect::Ordinary),
            ("XREAD BLOCK", Effect::Ordinary),
            ("XREADGROUP GROUP g c BLOCK 50 NOACK STREAMS s >", MS(50)),
            ("XREADGROUP GROUP BLOCK 1 STREAMS s >", Effect::Ordinary),
            ("XREADGROUP GROUP STREAMS STREAMS BLOCK 50 STREAMS s >", MS(50)),
            ("XREADGROUP GROUP g c NOACK COUNT 1 STREAMS s >", Effect::Ordinary),
        ] {
            assert_eq!(effect_of(command), effect, "{command}");
            assert_eq!(in_every_case(command), effect, "{command}");
        }
    }
}
