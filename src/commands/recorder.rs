//! For tests: an executor that notes what would be sent, and answers nothing.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use crate::args::{ArgWriter, Arguments, Block, Command, ToArgs};
use crate::commands::{Elements, Execute, Handle};
use crate::connection::{Connection, Encoded};
use crate::error::{Error, Result, WaitError};
use crate::resp::encode;
use crate::testing::Server;
use crate::values::FromReply;

/// Notes the command that was issued last.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    sent: RefCell<String>,
}

/// What `issue` sends: its words, with keys in brackets. A command that may block ends in `~` and for how long, and one
/// that cannot be sent is `refused`.
pub(crate) fn sent<R>(issue: impl FnOnce(&Recorder) -> R) -> String {
    let recorder = Recorder::default();
    issue(&recorder);
    recorder.sent.into_inner()
}

impl Recorder {
    fn note<A: Arguments>(&self, command: &Command<A>) {
        let (mut buf, mut keys) = (Vec::new(), Vec::new());
        let mut out = ArgWriter::noting_keys(&mut buf, 0, &mut keys);
        let written = command.arguments().write(&mut out);
        let (count, Some(end), Ok(())) = (out.count(), out.end(), written) else {
            *self.sent.borrow_mut() = String::from("refused");
            return;
        };
        if A::DIRECT {
            assert_eq!(command.arguments().count(), count, "{}: the count is what is written", command.name());
        }
        let mut words = vec![command.name().to_owned()];
        for range in encode::bulk_ranges(&buf[..end], 0) {
            let word = String::from_utf8_lossy(&buf[range.clone()]);
            words.push(if keys.contains(&range) { format!("[{word}]") } else { word.into_owned() });
        }
        assert_eq!(words.len(), count + 1);
        check_keys(command.name(), &buf[..end], &keys);
        match command.block() {
            None => {}
            Some(Block::For(time)) => words.push(format!("~{time:?}")),
            Some(Block::Forever) => words.push("~".to_owned()),
        }
        *self.sent.borrow_mut() = words.join(" ");
    }
}

/// Every server there is.
static SERVERS: LazyLock<Vec<Mutex<(Server, Connection)>>> = LazyLock::new(|| {
    let started = |program| Server::builder().program(program).start().ok();
    let opened = |server: Server| {
        let conn = Connection::open(server.url()).ok()?;
        Some(Mutex::new((server, conn)))
    };
    Server::programs().into_iter().filter_map(started).filter_map(opened).collect()
});

/// With what the lines begin that say which commands were checked, in the output of the tests.
const CHECKED: &str = "keys as the server finds them: ";

/// Asks every server there is which arguments of the command are keys: `COMMAND GETKEYS`. Says nothing where there is none, or
/// none that knows the command.
fn check_keys(name: &str, arguments: &[u8], keys: &[Range<usize>]) {
    let words: Vec<&[u8]> = encode::bulk_ranges(arguments, 0).map(|range| &arguments[range]).collect();
    let ours: Vec<&[u8]> = keys.iter().map(|range| &arguments[range.clone()]).collect();
    // An option of a newer server may be one argument too many for an older one, but not for all.
    let (mut taken, mut too_many) = (words.is_empty(), false);
    for server in SERVERS.iter() {
        let server = server.lock().unwrap_or_else(PoisonError::into_inner);
        match server.1.command::<Vec<Vec<u8>>>("COMMAND GETKEYS", (name, words.as_slice())).wait() {
            Ok(theirs) => {
                assert_eq!(shown(&ours), shown(&theirs), "the keys of {name} {:?}", shown(&words));
                // On a line of its own, whatever stands before.
                println!("\n{CHECKED}{name} {}", shown(&words).join(" "));
                taken = true;
            }
            // A shard channel is no key, and routed like one.
            Err(error) if error.to_string().contains("no key arguments") && name != "SPUBLISH" => {
                assert!(ours.is_empty(), "{name} has no keys for the server, and {:?} here", shown(&ours));
                taken = true;
            }
            Err(error) if error.to_string().contains("number of arguments") => too_many = true,
            // Unknown to this server, or its arguments are.
            Err(_) => {}
        }
    }
    assert!(taken || !too_many, "no server takes so many arguments: {name} {:?}", shown(&words));
}

fn shown<W: AsRef<[u8]>>(words: &[W]) -> Vec<String> {
    words.iter().map(|word| String::from_utf8_lossy(word.as_ref()).into_owned()).collect()
}

impl Execute for &Recorder {
    type Reply<T: FromReply> = Unanswered<T>;
    type MultiBulk<T: FromReply> = Unanswered<T>;

    fn command<T: FromReply>(self, name: &str, arguments: impl ToArgs) -> Unanswered<T> {
        let words = Encoded::named(name, arguments).map(|encoded| {
            let words: Vec<&[u8]> = encode::arguments(&encoded.bytes).collect();
            shown(&words).join(" ")
        });
        *self.sent.borrow_mut() = words.unwrap_or_else(|_| String::from("refused"));
        Unanswered(PhantomData)
    }

    fn execute<T: FromReply, A: Arguments>(self, command: Command<A>) -> Unanswered<T> {
        self.note(&command);
        Unanswered(PhantomData)
    }

    fn execute_multi<T: FromReply, A: Arguments>(self, command: Command<A>) -> Unanswered<T> {
        self.note(&command);
        Unanswered(PhantomData)
    }
}

/// The handle of a reply that never comes.
#[derive(Debug)]
pub(crate) struct Unanswered<T>(PhantomData<T>);

impl<T> Handle<T> for Unanswered<T> {
    fn wait(self) -> Result<T> {
        Err(Error::Timeout)
    }
    fn wait_timeout(self, _: Duration) -> Result<T, WaitError<Self>> {
        Err(WaitError::Timeout(self))
    }
    fn is_ready(&self) -> Result<bool> {
        Ok(false)
    }
    fn detach(self) {}
}

impl<T> Iterator for Unanswered<T> {
    type Item = Result<T>;
    fn next(&mut self) -> Option<Result<T>> {
        Some(Err(Error::Timeout))
    }
}

impl<T> Elements<T> for Unanswered<T> {
    fn wait<C: FromIterator<T>>(self) -> Result<C> {
        Err(Error::Timeout)
    }
    fn wait_as<V: FromReply>(self) -> Result<V> {
        Err(Error::Timeout)
    }
    fn len(&mut self) -> Result<Option<usize>> {
        Err(Error::Timeout)
    }
    fn detach(self) {}
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::commands::ServerCommands;

    /// Commands with keys that no method of a group sends, and why.
    const ELSEWHERE: &[(&str, &str)] = &[
        ("CLUSTERSCAN", "its cursor says to which node it goes, and is no key"),
        ("RESTORE-ASKING", "has no method"),
        ("SPUBLISH", "a channel says to which node it goes, and is no key"),
        ("SSUBSCRIBE", "has no method"),
        ("SUNSUBSCRIBE", "has no method"),
        ("WATCH", "is sent by `Connection::watch`"),
    ];

    /// Tests run in any order, so that none can look at what all have done. They run once more, in a process of their own.
    #[test]
    fn the_keys_of_every_command_are_checked() {
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        let again = again.args(["commands::", "--nocapture", "--skip", "the_keys_of_every_command"]).output().unwrap();
        let output = String::from_utf8_lossy(&again.stdout);
        assert!(again.status.success(), "{output}");
        let checked: Vec<&str> = output.lines().filter_map(|line| line.strip_prefix(CHECKED)).collect();
        let is_checked = |name: &str| {
            let is_it = |line: &&str| line.strip_prefix(name).is_some_and(|words| words.starts_with(' '));
            ELSEWHERE.iter().any(|(elsewhere, _)| *elsewhere == name) || checked.iter().any(is_it)
        };

        let listed = include_str!("../../tests/data/commands.tsv");
        let listed: BTreeSet<&str> = listed.lines().filter_map(|line| line.split('\t').next()).collect();
        let mut never = BTreeSet::new();
        for server in SERVERS.iter() {
            let server = server.lock().unwrap_or_else(PoisonError::into_inner);
            let commands = server.1.command_info(()).flat_map(|info| info.unwrap());
            for info in commands.flat_map(|info| [info.subcommands.clone(), vec![info]].concat()) {
                let name = info.name.to_uppercase().replace('|', " ");
                let has_keys = info.first_key != 0 || info.flags.iter().any(|flag| flag == "movablekeys");
                // Commands of modules are not listed.
                if has_keys && listed.contains(&*name) && !is_checked(&name) {
                    never.insert(name);
                }
            }
        }
        assert!(never.is_empty(), "{} commands have keys that were never checked: {never:?}", never.len());
    }
}
