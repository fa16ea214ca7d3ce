//! Options and results of the commands on functions.

use std::collections::HashMap;
use std::time::Duration;

use crate::args::{ToArg, ToArgs};
use crate::commands::parts::{Flag, Named, Owned, parts_to_args, word_to_arg};
use crate::commands::record::{millis, record};

/// Options of FUNCTION LIST: see [`function_list_with`](super::ScriptingCommands::function_list_with).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct FunctionListOptions {
    library: Option<Owned>,
    withcode: bool,
}

impl FunctionListOptions {
    /// All libraries, without their source.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only libraries whose names match a pattern: `*`, `?`, `[a-z]` (LIBRARYNAME).
    pub fn library(mut self, pattern: impl ToArg) -> Self {
        self.library = Some(Owned::new(pattern));
        self
    }

    /// Each with its source.
    pub fn withcode(mut self) -> Self {
        self.withcode = true;
        self
    }

    fn parts(&self) -> impl ToArgs {
        (Named("LIBRARYNAME", self.library.as_ref()), Flag("WITHCODE", self.withcode))
    }
}

parts_to_args!(FunctionListOptions);

/// What FUNCTION RESTORE does with the libraries that are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FunctionRestorePolicy {
    /// They stay, and a name that is there already is an error.
    #[default]
    Append,
    /// All are deleted first.
    Flush,
    /// They stay, but for those whose names come again.
    Replace,
}

impl FunctionRestorePolicy {
    fn word(&self) -> &'static str {
        match self {
            FunctionRestorePolicy::Append => "APPEND",
            FunctionRestorePolicy::Flush => "FLUSH",
            FunctionRestorePolicy::Replace => "REPLACE",
        }
    }
}

word_to_arg!(FunctionRestorePolicy);

record! {
    /// A library of functions: see [`function_list`](super::ScriptingCommands::function_list).
    FunctionLibrary: "the fields of a library" {
        /// Its name.
        "library_name" name: String,
        /// What runs it: `LUA`.
        "engine" engine: String,
        /// Its functions.
        "functions" functions: Vec<FunctionInfo>,
        /// Its source, with [`withcode`](FunctionListOptions::withcode).
        "library_code" code: Option<Vec<u8>>,
    }
}

record! {
    /// One function of a [`FunctionLibrary`].
    FunctionInfo: "the fields of a function" {
        /// Its name.
        "name" name: String,
        /// What its author says about it.
        "description" description: Option<String>,
        /// What is promised of it: `no-writes`, `allow-oom`, …
        "flags" flags: Vec<String>,
    }
}

record! {
    /// What runs, and what there is: see [`function_stats`](super::ScriptingCommands::function_stats).
    FunctionStats: "the fields of FUNCTION STATS" {
        /// The function that is running.
        "running_script" running: Option<RunningFunction>,
        /// What can run functions, by name.
        "engines" engines: HashMap<String, FunctionEngine>,
    }
}

record! {
    /// A function that is running.
    RunningFunction: "the fields of a running function" {
        /// Its name.
        "name" name: String,
        /// The command that called it, with its arguments.
        "command" command: Vec<Vec<u8>>,
        /// For how long it has been running, in milliseconds.
        "duration_ms" duration: Duration = millis,
    }
}

record! {
    /// What can run functions.
    FunctionEngine: "the fields of an engine" {
        /// How many libraries there are for it.
        "libraries_count" libraries: u64,
        /// How many functions these have.
        "functions_count" functions: u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::Decoder;
    use crate::{FromReply, Result, Value};

    fn decode<T: FromReply>(wire: &str) -> Result<T> {
        let bytes = format!("{wire} ").replace(' ', "\r\n").into_bytes();
        let (frame, _) = Decoder::new().decode(&bytes)?.expect("it is whole");
        T::from_reply(frame)
    }

    #[test]
    fn libraries_are_the_same_in_both_protocols() {
        for wire in [
            "*1 *8 $12 library_name $1 l $6 engine $3 LUA $9 functions *1 *8 $4 name $1 f $11 description $-1 $5 flags *1 \
             +no-writes $3 new :1 $3 new :2",
            "*1 %4 $12 library_name $1 l $6 engine $3 LUA $3 new :2 $9 functions *1 %4 $4 name $1 f $11 description _ $5 \
             flags ~1 +no-writes $3 new :1",
        ] {
            let libraries = decode::<Vec<FunctionLibrary>>(wire).unwrap();
            let library = &libraries[0];
            assert_eq!((library.name.as_str(), library.engine.as_str(), &library.code), ("l", "LUA", &None));
            assert_eq!(library.other["new"], Value::Integer(2));
            let function = &library.functions[0];
            assert_eq!((function.name.as_str(), &function.description), ("f", &None));
            assert_eq!((&*function.flags, &function.other["new"]), (&["no-writes".to_owned()][..], &Value::Integer(1)));
        }
        let part = decode::<FunctionLibrary>("*2 $6 engine $3 LUA").unwrap();
        assert_eq!(part, FunctionLibrary { engine: "LUA".into(), ..FunctionLibrary::default() });
        assert!(decode::<FunctionLibrary>("$3 LUA").is_err());
        assert!(decode::<FunctionLibrary>("*1 $6 engine").is_err());
    }

    #[test]
    fn stats_are_the_same_in_both_protocols() {
        for wire in [
            "*4 $14 running_script *6 $4 name $1 f $7 command *2 $5 FCALL $1 f $11 duration_ms :7 $7 engines *2 $3 LUA *4 \
             $15 libraries_count :1 $15 functions_count :2",
            "%2 $14 running_script %3 $4 name $1 f $7 command *2 $5 FCALL $1 f $11 duration_ms :7 $7 engines %1 $3 LUA %2 \
             $15 libraries_count :1 $15 functions_count :2",
        ] {
            let stats = decode::<FunctionStats>(wire).unwrap();
            let running = stats.running.expect("it runs");
            assert_eq!((running.name.as_str(), running.command.len()), ("f", 2));
            assert_eq!(running.duration, Duration::from_millis(7));
            assert_eq!((stats.engines["LUA"].libraries, stats.engines["LUA"].functions), (1, 2));
        }
        assert_eq!(decode::<FunctionStats>("%1 $14 running_script _").unwrap(), FunctionStats::default());
    }
}
