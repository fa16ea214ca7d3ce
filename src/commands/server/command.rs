//! What the server says about its commands.

use std::collections::HashMap;

use crate::args::{ArgWriter, ToArg, ToArgs};
use crate::commands::parts::Owned;
use crate::commands::record::{Field, each_field, elements, fields, next, plain, record, text};
use crate::error::Result;
use crate::resp::Frame;
use crate::values::FromReply;

/// What a command is: the reply of [`command_info`](super::ServerCommands::command_info).
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct CommandInfo {
    /// Its name in lower case; of a subcommand `container|name`.
    pub name: String,
    /// How many words it has with its name; if that is the least, the number is negative.
    pub arity: i64,
    /// What is peculiar to it: `write`, `readonly`, `blocking` and others.
    pub flags: Vec<String>,
    /// The position of its first key, counted from the name; 0 if it has none, or they can't be told by positions.
    pub first_key: i64,
    /// The position of its last key; counted from the end if it is negative.
    pub last_key: i64,
    /// How far it is from key to key.
    pub key_step: i64,
    /// Its categories for access: `@read` and others. Since 6.0.
    pub categories: Vec<String>,
    /// Hints for proxies and clients of clusters. Since 7.0.
    pub tips: Vec<String>,
    /// How its keys are found. Since 7.0.
    pub key_specs: Vec<KeySpec>,
    /// Its subcommands. Since 7.0.
    pub subcommands: Vec<CommandInfo>,
}

impl FromReply for CommandInfo {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let mut items = elements(&frame, "a command")?;
        Ok(CommandInfo {
            name: next(&mut items)?,
            arity: next(&mut items)?,
            flags: next(&mut items)?,
            first_key: next(&mut items)?,
            last_key: next(&mut items)?,
            key_step: next(&mut items)?,
            categories: next(&mut items)?,
            tips: next(&mut items)?,
            key_specs: next(&mut items)?,
            subcommands: next(&mut items)?,
        })
    }
}

record! {
    /// How some of a command's keys are found: first where to begin, then which words from there on are keys.
    KeySpec: "a key specification" {
        /// What the command does with these keys: `RO`, `RW`, `OW` or `RM`, then `access`, `update` and others.
        "flags" flags: Vec<String>,
        /// Where to begin.
        "begin_search" begin_search: BeginSearch,
        /// Which are keys.
        "find_keys" find_keys: FindKeys,
        /// A remark.
        "notes" notes: Option<String>,
    }
}

/// Where to begin to look for keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BeginSearch {
    /// It can't be told, or in a way that this version of the crate does not know.
    #[default]
    Unknown,
    /// At this position, the name being 0.
    Index(i64),
    /// Behind a keyword.
    Keyword {
        /// The keyword.
        keyword: String,
        /// Where to begin to look for it; from the end backwards if it is negative.
        start_from: i64,
    },
}

impl FromReply for BeginSearch {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let (kind, spec) = kind_and_spec(&frame)?;
        Ok(match kind.as_str() {
            "index" => BeginSearch::Index(spec.number("index")),
            "keyword" => BeginSearch::Keyword {
                keyword: spec.0.get("keyword").cloned().unwrap_or_default(),
                start_from: spec.number("startfrom"),
            },
            _ => BeginSearch::Unknown,
        })
    }
}

/// Which words, from where the search begins, are keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FindKeys {
    /// It can't be told, or in a way that this version of the crate does not know.
    #[default]
    Unknown,
    /// From the beginning to some other word.
    Range {
        /// The position of the last key from the beginning; from the end of the command if it is negative.
        last_key: i64,
        /// How far it is from key to key.
        key_step: i64,
        /// With a `last_key` of -1, which part of what is left are keys: half of it is 2; 0 and 1 are all.
        limit: i64,
    },
    /// A word says how many there are.
    KeyNum {
        /// The position of that word from the beginning.
        key_num_index: i64,
        /// The position of the first key from the beginning.
        first_key: i64,
        /// How far it is from key to key.
        key_step: i64,
    },
}

impl FromReply for FindKeys {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let (kind, spec) = kind_and_spec(&frame)?;
        Ok(match kind.as_str() {
            "range" => FindKeys::Range {
                last_key: spec.number("lastkey"),
                key_step: spec.number("keystep"),
                limit: spec.number("limit"),
            },
            "keynum" => FindKeys::KeyNum {
                key_num_index: spec.number("keynumidx"),
                first_key: spec.number("firstkey"),
                key_step: spec.number("keystep"),
            },
            _ => FindKeys::Unknown,
        })
    }
}

fields!(CommandInfo, BeginSearch, FindKeys);

/// Names and values of a specification; those that are no strings or numbers are left out.
#[derive(Default)]
struct Spec(HashMap<String, String>);

impl Spec {
    fn number(&self, name: &str) -> i64 {
        self.0.get(name).and_then(|value| value.parse().ok()).unwrap_or(0)
    }
}

fn kind_and_spec(frame: &Frame<'_>) -> Result<(String, Spec)> {
    const EXPECTED: &str = "a type and what belongs to it";
    let (mut kind, mut spec) = (String::new(), Spec::default());
    each_field(frame, EXPECTED, |name, value| {
        match name {
            b"type" => kind = Field::field(value)?,
            b"spec" if value.is_aggregate() => each_field(&value, EXPECTED, |name, value| {
                if let Ok(value) = String::from_reply(value) {
                    spec.0.insert(text(name), value);
                }
                Ok(())
            })?,
            _ => {}
        }
        Ok(())
    })?;
    Ok((kind, spec))
}

record! {
    /// The documentation of a command: the reply of [`command_docs`](super::ServerCommands::command_docs).
    CommandDocs: "the documentation of a command" {
        /// What it does, in a sentence.
        "summary" summary: String,
        /// The version that it came with.
        "since" since: Option<String>,
        /// Its group in the documentation.
        "group" group: String,
        /// How long it takes.
        "complexity" complexity: Option<String>,
        /// `deprecated`, `syscmd`.
        "doc_flags" doc_flags: Vec<String>,
        /// The version from which on it should no longer be used.
        "deprecated_since" deprecated_since: Option<String>,
        /// What to use in its place.
        "replaced_by" replaced_by: Option<String>,
        /// Versions that changed it, and how.
        "history" history: Vec<(String, String)> = plain,
        /// Its arguments.
        "arguments" arguments: Vec<ArgumentDocs>,
        /// Its subcommands, by `container|name`.
        "subcommands" subcommands: HashMap<String, CommandDocs>,
        /// The module that has it.
        "module" module: Option<String>,
    }
}

record! {
    /// The documentation of an argument.
    ArgumentDocs: "the documentation of an argument" {
        /// Its name.
        "name" name: String,
        /// What it is: `string`, `integer`, `key`, `pure-token`, `oneof`, `block` and others.
        "type" kind: String,
        /// The word in front of it.
        "token" token: Option<String>,
        /// How it is called in texts for people.
        "display_text" display_text: Option<String>,
        /// Which of the command's key specifications it is.
        "key_spec_index" key_spec_index: Option<i64>,
        /// `optional`, `multiple`, `multiple_token`.
        "flags" flags: Vec<String>,
        /// What it does.
        "summary" summary: Option<String>,
        /// The version that it came with.
        "since" since: Option<String>,
        /// The version from which on it should no longer be used.
        "deprecated_since" deprecated_since: Option<String>,
        /// What a `oneof` or a `block` is made of.
        "arguments" arguments: Vec<ArgumentDocs>,
    }
}

/// Which commands to list: see [`command_list_with`](super::ServerCommands::command_list_with).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub struct CommandFilter {
    by: &'static str,
    what: Owned,
}

impl CommandFilter {
    /// Those of a module.
    pub fn module(name: impl ToArg) -> Self {
        CommandFilter { by: "MODULE", what: Owned::new(name) }
    }

    /// Those of a category for access, without its `@`.
    pub fn category(name: impl ToArg) -> Self {
        CommandFilter { by: "ACLCAT", what: Owned::new(name) }
    }

    /// Those whose names match a pattern.
    pub fn pattern(pattern: impl ToArg) -> Self {
        CommandFilter { by: "PATTERN", what: Owned::new(pattern) }
    }
}

impl ToArgs for CommandFilter {
    fn write_args(&self, out: &mut ArgWriter<'_>) {
        ("FILTERBY", self.by, &self.what).write_args(out);
    }
    const DIRECT: bool = true;
    fn count(&self) -> usize {
        3
    }
}
