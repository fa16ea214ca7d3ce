//! Whether the tests of the commands call every method and make every option at least once.
//!
//! There is no list of methods to keep up: the sources of `src/commands` say what is public, and `tests/commands_*.rs`,
//! all of whose tests run on real servers, what is called. Both are formatted by rustfmt, so that looking at lines and
//! brackets is enough. Options are told apart by the type that a chain of calls begins with; methods of commands and of
//! replies by their names alone. A call that no server here is new enough for counts as one: see [`NOT_RUN`].

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// What no server that the tests have can run, and why. Each is called all the same, where a server is new enough.
const NOT_RUN: &[(&str, &str)] = &[
    ("SlotMetric::MemoryBytes", "Redis 8.4, which the tests do not have"),
    ("StringCommands::delex", "Redis 8.4, which the tests do not have"),
    ("StringCommands::delex_with", "Redis 8.4, which the tests do not have"),
    ("StringCommands::digest", "Redis 8.4, which the tests do not have"),
    ("ValueCondition::differs", "Redis 8.4, which the tests do not have"),
    ("ValueCondition::digest_differs", "Redis 8.4, which the tests do not have"),
    ("ValueCondition::digest_equals", "Redis 8.4, which the tests do not have"),
    ("XreadgroupOptions::claim", "Redis 8.4, which the tests do not have"),
];

/// What the tests cannot call, and why.
const NOT_CALLED: &[(&str, &str)] = &[("Role::Sentinel", "a sentinel is another program")];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// `Type::name(…)` or `Type::Name`.
    Start,
    /// `.name(…)` on a value that is made by a start, and is one itself.
    Step,
    /// Any other method, with arguments or without: `.name(…)`.
    Call { arguments: bool },
}

/// The texts of the files of a folder, and of those below it, whose names begin so.
fn texts(folder: &str, prefix: &str) -> Vec<String> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap() {
        let (path, name) = (entry.as_ref().unwrap().path(), entry.unwrap().file_name().into_string().unwrap());
        if path.is_dir() {
            texts.extend(self::texts(&format!("{folder}/{name}"), prefix));
        } else if name.starts_with(prefix) {
            texts.push(fs::read_to_string(path).unwrap());
        }
    }
    texts
}

/// The identifier at the beginning of a text, with the `$` of a macro's.
fn word(text: &str) -> &str {
    &text[..text.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '$').unwrap_or(text.len())]
}

/// How long the brackets are with which a text begins: `(…)`, `<…>` or `::<…>`.
fn bracketed(text: &str) -> usize {
    let (open, close) = if text.starts_with('(') { ('(', ')') } else { ('<', '>') };
    let (mut depth, mut quoted, mut before) = (0, false, ' ');
    for (at, c) in text.char_indices() {
        if c == '"' && before != '\\' {
            quoted = !quoted;
        } else if c == open && !quoted {
            depth += 1;
        // Not that of `->` or `=>`.
        } else if c == close && !quoted && !"-=".contains(before) {
            depth -= 1;
            if depth == 0 {
                return at + 1;
            }
        }
        before = c;
    }
    text.len()
}

/// What is public in a source: the type or trait, the method or variant, and how it is called. Where a macro makes types,
/// each of those it is called for has what the macro has.
fn items(source: &str) -> Vec<(String, String, Kind)> {
    let source = source.split("\n#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let (mut items, mut owner, mut maker) = (Vec::new(), None, "");
    let mut made: Vec<(String, String)> = Vec::new();
    for (at, _) in source.match_indices('\n') {
        let line = source[at + 1..].lines().next().unwrap_or_default();
        let text = line.trim_start();
        let indent = line.len() - text.len();
        let named = |prefix| text.strip_prefix(prefix).map(word);
        if indent == 0 && text.starts_with('}') {
            maker = "";
        }
        if let Some(name) = named("macro_rules! ") {
            maker = name;
        } else if let Some((name, list)) = text.split_once('!').filter(|(name, _)| indent == 0 && word(name) == *name) {
            maker = name;
            made.extend(list.strip_prefix('(').map(|list| (name.to_owned(), word(list).to_owned())));
        } else if let Some(rest) = text.strip_prefix("impl").filter(|rest| !rest.contains(" for ")) {
            let rest = if rest.starts_with('<') { &rest[bracketed(rest)..] } else { rest };
            owner = Some((word(rest.trim_start()), indent));
        } else if let Some(name) = named("pub trait ").or(named("pub enum ")) {
            owner = Some((name, indent));
        } else if let Some((name, _)) = owner.filter(|(_, outer)| indent == outer + 4) {
            let method = ["fn ", "pub fn ", "pub const fn "].into_iter().find_map(named);
            let is_public = text.starts_with("pub") || name.ends_with("Commands");
            let owner = if name.starts_with('$') { maker } else { name };
            if let Some(method) = method.filter(|_| is_public) {
                let signature = source[at..].split(" {\n").next().unwrap_or_default();
                let list = &signature[signature.find('(').unwrap_or(0)..];
                let list = &list[..bracketed(list)];
                let kind = match (list.contains("self"), signature.ends_with("-> Self")) {
                    (false, _) => Kind::Start,
                    (true, true) => Kind::Step,
                    (true, false) => Kind::Call { arguments: list.contains(": ") },
                };
                items.push((owner.to_owned(), method.to_owned(), kind));
            } else if text.starts_with(char::is_uppercase) {
                items.push((owner.to_owned(), word(text).to_owned(), Kind::Start));
            }
        } else if !maker.is_empty() && indent == 4 && text.starts_with(char::is_uppercase) {
            made.push((maker.to_owned(), word(text).to_owned()));
        } else if owner.is_some_and(|(_, outer)| indent <= outer && text.starts_with('}')) {
            owner = None;
        }
    }
    let expanded = items.into_iter().flat_map(|(owner, name, kind)| {
        let its = made.iter().filter(|(maker, _)| *maker == owner).map(|(_, made)| made.clone());
        let its: Vec<String> = its.collect();
        let owners = if its.is_empty() { vec![owner] } else { its };
        owners.into_iter().map(move |owner| (owner, name.clone(), kind))
    });
    expanded.collect()
}

/// The names along a chain of calls, of which `text` begins behind the first word: `a` and `b` of `::a(1).clone().b()`.
fn chain(text: &str) -> Vec<&str> {
    let (mut names, mut rest) = (Vec::new(), text.trim_start());
    loop {
        if rest.starts_with('(') || rest.starts_with("::<") {
            rest = rest[bracketed(rest)..].trim_start();
        } else if let Some(after) = rest.strip_prefix("::").or(rest.strip_prefix('.')) {
            let name = word(after);
            names.push(name);
            rest = after[name.len()..].trim_start();
        } else {
            return names;
        }
    }
}

/// What the tests call.
#[derive(Debug, Default)]
struct Called {
    /// By type: what its values are made with, and the steps of those, also by way of a variable or closure.
    on_types: BTreeSet<(String, String)>,
    /// Every method, and whether with arguments.
    methods: BTreeSet<(String, bool)>,
}

impl Called {
    /// Notes the calls of one function, in which `types` may be made.
    fn note(&mut self, function: &str, types: &BTreeSet<String>) {
        let mut variables: BTreeMap<&str, &str> = BTreeMap::new();
        let mut at = 0;
        while let Some(begin) = function[at..].find(|c: char| c.is_alphabetic() || c == '_') {
            let (before, rest) = function.split_at(at + begin);
            let name = word(rest);
            let behind = &rest[name.len()..];
            at = before.len() + name.len();
            if before.ends_with('.') {
                let call = behind.strip_prefix("::").map_or(behind, |generic| &generic[bracketed(generic)..]);
                if call.starts_with('(') {
                    self.methods.insert((name.to_owned(), !call.starts_with("()")));
                }
            } else if let Some(list) = behind.strip_prefix("::{").filter(|_| types.contains(name)) {
                let list = list.split('}').next().unwrap_or_default();
                self.on_types.extend(list.split(", ").map(|item| (name.to_owned(), item.to_owned())));
            } else if types.contains(name) || variables.contains_key(name) {
                let on = variables.get(name).copied().unwrap_or(name);
                self.on_types.extend(chain(behind).into_iter().map(|item| (on.to_owned(), item.to_owned())));
            } else if name == "let" {
                // A value, or a closure that makes one.
                let (variable, value) = rest.split_once(" = ").unwrap_or_default();
                let variable = variable.trim_start_matches("let ").trim_start_matches("mut ");
                let value =
                    value.strip_prefix('|').and_then(|value| value.split_once('|')).map_or(value, |(_, body)| body);
                let made = word(value.trim_start().trim_start_matches('&'));
                let made = variables.get(made).copied().unwrap_or(made);
                if types.contains(made) {
                    variables.insert(word(variable), made);
                } else {
                    variables.remove(word(variable));
                }
            }
        }
    }
}

#[test]
fn every_method_is_called_and_every_option_made() {
    let items: Vec<_> = texts("src/commands", "").iter().flat_map(|source| items(source)).collect();
    assert!(items.len() > 900, "the sources are not written as this test thinks: {} items", items.len());
    let starts = || items.iter().filter(|(.., kind)| *kind == Kind::Start);
    let types: BTreeSet<String> = starts().map(|(owner, ..)| owner.clone()).collect();
    let mut called = Called::default();
    for text in texts("tests", "commands_") {
        let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let code: Vec<&str> = lines.collect();
        code.join("\n").split("\n}\n").for_each(|function| called.note(function, &types));
    }
    let is_called = |owner: &String, name: &String, kind: Kind| match kind {
        Kind::Call { arguments } => called.methods.contains(&(name.clone(), arguments)),
        // What only replies have is called on their values.
        Kind::Step if !types.contains(owner) => called.methods.iter().any(|(method, _)| method == name),
        Kind::Start | Kind::Step => called.on_types.contains(&(owner.clone(), name.clone())),
    };
    let (mut known, mut never) = (BTreeSet::new(), BTreeSet::new());
    for (owner, name, kind) in &items {
        let item = format!("{owner}::{name}");
        known.insert(item.clone());
        if !is_called(owner, name, *kind) {
            never.insert(item);
        }
    }
    for (item, why) in NOT_RUN {
        assert!(known.contains(*item) && !never.contains(*item), "{item} is called for newer servers: {why}");
    }
    for (item, why) in NOT_CALLED {
        assert!(never.remove(*item), "{item} is there and cannot be called: {why}");
    }
    assert!(never.is_empty(), "{} of {} never called: {never:#?}", never.len(), items.len());
}
