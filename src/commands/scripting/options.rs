//! Options and results of the commands on functions.

use std::collections::HashMap;
use std::time::Duration;

use crate::args::{ToArg, ToArgs};
use crate::commands::fields::{fields, optional_text, text};
use crate::commands::parts::{Flag, Named, owned, parts_to_args, word_to_arg};
use crate::error::Result;
use crate::resp::Frame;
use crate::values::{FromReply, Value};

/// Options of FUNCTION LIST: see [`function_list_with`](super::ScriptingCommands::function_list_with).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct FunctionListOptions {
    library: Option<Vec<u8>>,
    withcode: bool,
}

impl FunctionListOptions {
    /// All libraries, without their source.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only libraries whose names match a pattern: `*`, `?`, `[a-z]` (LIBRARYNAME).
    pub fn library(mut self, pattern: impl ToArg) -> Self {
        self.library = Some(owned(pattern));
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

/// A library of functions: see [`function_list`](super::ScriptingCommands::function_list).
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct FunctionLibrary {
    /// Its name.
    pub name: String,
    /// What runs it: `LUA`.
    pub engine: String,
    /// Its functions.
    pub functions: Vec<FunctionInfo>,
    /// Its source, with [`withcode`](FunctionListOptions::withcode).
    pub code: Option<Vec<u8>>,
    /// What else the server told.
    pub other: HashMap<String, Value>,
}

impl FromReply for FunctionLibrary {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let mut library = FunctionLibrary::default();
        library.other = fields(frame, "the fields of a library", |name, value| {
            match name {
                b"library_name" => library.name = text(value)?,
                b"engine" => library.engine = text(value)?,
                b"functions" => library.functions = FromReply::from_element(value)?,
                b"library_code" => library.code = FromReply::from_element(value)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(library)
    }
}

/// One function of a [`FunctionLibrary`].
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct FunctionInfo {
    /// Its name.
    pub name: String,
    /// What its author says about it.
    pub description: Option<String>,
    /// What is promised of it: `no-writes`, `allow-oom`, …
    pub flags: Vec<String>,
    /// What else the server told.
    pub other: HashMap<String, Value>,
}

impl FromReply for FunctionInfo {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let mut function = FunctionInfo::default();
        function.other = fields(frame, "the fields of a function", |name, value| {
            match name {
                b"name" => function.name = text(value)?,
                b"description" => function.description = optional_text(value)?,
                b"flags" => function.flags = FromReply::from_element(value)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(function)
    }
}

/// What runs, and what there is: see [`function_stats`](super::ScriptingCommands::function_stats).
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct FunctionStats {
    /// The function that is running.
    pub running: Option<RunningFunction>,
    /// What can run functions, by name.
    pub engines: HashMap<String, FunctionEngine>,
    /// What else the server told.
    pub other: HashMap<String, Value>,
}

impl FromReply for FunctionStats {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let mut stats = FunctionStats::default();
        stats.other = fields(frame, "the fields of FUNCTION STATS", |name, value| {
            match name {
                b"running_script" => stats.running = FromReply::from_element(value)?,
                b"engines" => {
                    fields(value, "engines by name", |name, engine| {
                        let name = String::from_utf8_lossy(name).into_owned();
                        stats.engines.insert(name, FromReply::from_element(engine)?);
                        Ok(true)
                    })?;
                }
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(stats)
    }
}

/// A function that is running.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RunningFunction {
    /// Its name.
    pub name: String,
    /// The command that called it, with its arguments.
    pub command: Vec<Vec<u8>>,
    /// For how long it has been running, in milliseconds.
    pub duration: Duration,
    /// What else the server told.
    pub other: HashMap<String, Value>,
}

impl FromReply for RunningFunction {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let mut running = RunningFunction::default();
        running.other = fields(frame, "the fields of a running function", |name, value| {
            match name {
                b"name" => running.name = text(value)?,
                b"command" => running.command = FromReply::from_element(value)?,
                b"duration_ms" => running.duration = Duration::from_millis(u64::from_element(value)?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(running)
    }
}

/// What can run functions.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct FunctionEngine {
    /// How many libraries there are for it.
    pub libraries: u64,
    /// How many functions these have.
    pub functions: u64,
    /// What else the server told.
    pub other: HashMap<String, Value>,
}

impl FromReply for FunctionEngine {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let mut engine = FunctionEngine::default();
        engine.other = fields(frame, "the fields of an engine", |name, value| {
            match name {
                b"libraries_count" => engine.libraries = FromReply::from_element(value)?,
                b"functions_count" => engine.functions = FromReply::from_element(value)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(engine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::Decoder;

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
