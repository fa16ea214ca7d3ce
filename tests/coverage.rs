//! Whether every command that the servers have is a method, or is left out for a reason.
//!
//! There is no list of methods to keep up: the documentation of each names its command, as the text of the link to the
//! command's page, and that is what is read here. Reasons are rows of the tables in `src/commands/mod.rs`.

#![cfg(feature = "testing")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use redefer::{Result, prelude::*};

/// The commands and subcommands of Redis 8.2 and Valkey 9.1.
const COMMANDS: &str = include_str!("data/commands.tsv");

fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// The commands that the documentation of methods links to, and the methods that do.
fn methods() -> BTreeMap<String, Vec<String>> {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/commands"), &mut files);
    let mut methods: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files {
        let mut links = Vec::new();
        for line in fs::read_to_string(file).unwrap().lines().map(str::trim) {
            if let Some(link) = line.strip_prefix("/// [").filter(|link| link.contains("](https://")) {
                links.extend(link.split(']').next().map(str::to_owned));
            } else if let Some(rest) = line.strip_prefix("fn ") {
                let method = rest.split(['<', '(']).next().unwrap_or_default();
                for command in links.drain(..) {
                    methods.entry(command).or_default().push(method.to_owned());
                }
            } else if !line.starts_with("///") && !line.starts_with("#[") {
                links.clear();
            }
        }
    }
    methods
}

/// The commands that are left out, from the tables of `src/commands/mod.rs`: rows whose first cell is one or more names in
/// capitals.
fn reasons() -> BTreeSet<String> {
    let text = include_str!("../src/commands/mod.rs");
    let rows = text.lines().filter_map(|line| line.strip_prefix("//! | "));
    let cells = rows.filter_map(|row| row.split(" | ").next()).filter(|cell| !cell.contains('`'));
    cells.flat_map(|cell| cell.split(", ")).map(str::to_owned).collect()
}

#[test]
fn every_command_is_a_method_or_left_out_for_a_reason() {
    let (methods, reasons) = (methods(), reasons());
    let known = |command: &str| methods.contains_key(command) || reasons.contains(command);
    let commands = COMMANDS.lines().skip(1).filter_map(|line| line.split('\t').next());
    let missing: Vec<&str> = commands.filter(|command| !known(command)).collect();
    assert!(missing.is_empty(), "{} commands have neither a method nor a reason: {missing:?}", missing.len());
}

/// What the tests have run: for each server and protocol, the commands. Written by `tests/support` into the folder that
/// `REDEFER_COVERAGE` names.
fn runs(folder: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut runs = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let commands = fs::read_to_string(entry.path()).unwrap().lines().map(str::to_owned).collect();
        runs.insert(entry.file_name().into_string().unwrap(), commands);
    }
    runs
}

/// With `REDEFER_COVERAGE_REPORT`, the folder where all runs have left their notes: every command that has a method was run
/// on a server and in both protocols. The table of which, `docs/commands.md`, is made here.
#[test]
fn every_command_with_a_method_was_run() {
    let Some(folder) = std::env::var_os("REDEFER_COVERAGE_REPORT") else { return };
    let (methods, runs) = (methods(), runs(Path::new(&folder)));
    let mut table = String::from(
        "# Which command was run where\n\nMade by `tests/coverage.rs` from what the servers were asked while the tests ran (`bash .ci/run`). \
         A blank means that\nthe server does not have the command, or that its tests cannot run there.\n\n| command | method |",
    );
    runs.keys().for_each(|run| table += &format!(" {run} |"));
    table += "\n| --- | --- |";
    runs.keys().for_each(|_| table += " :-: |");
    table.push('\n');
    let mut never = Vec::new();
    for (command, names) in &methods {
        let ran = |commands: &BTreeSet<String>| commands.contains(command);
        table += &format!("| {command} | `{}` |", names.join("`, `"));
        runs.values().for_each(|commands| table += if ran(commands) { " x |" } else { "  |" });
        table.push('\n');
        for protocol in ["RESP2", "RESP3"] {
            if !runs.iter().any(|(run, commands)| run.ends_with(protocol) && ran(commands)) {
                never.push(format!("{command} ({protocol})"));
            }
        }
    }
    fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/commands.md"), table).unwrap();
    for line in COMMANDS.lines().skip(1) {
        let fields: Vec<&str> = line.split('\t').collect();
        let (command, served) = (fields[0], fields[5]);
        for (run, commands) in &runs {
            let here = served.split('+').any(|server| run.replacen(' ', "", 1).starts_with(server));
            if here && methods.contains_key(command) && !commands.contains(command) {
                never.push(format!("{command} ({run})"));
            }
        }
    }
    never.retain(|command| !NOT_RUN.iter().any(|(name, _)| command.starts_with(name)));
    assert!(never.is_empty(), "never run: {never:?}");
}

/// Commands with a method that no test runs, and why.
const NOT_RUN: &[(&str, &str)] =
    &[("DELEX", "Redis 8.4, which the tests do not have"), ("DIGEST", "Redis 8.4, which the tests do not have")];

#[test]
fn methods_have_the_name_of_their_command() {
    for (command, methods) in methods() {
        let mut name = command.to_lowercase().replace([' ', '-'], "_");
        if matches!(&*name, "type" | "move") {
            name.push('_');
        }
        // Or, where one command is several, that name and more.
        let several = methods.iter().all(|method| method.starts_with(&format!("{name}_")));
        assert!(several || methods.contains(&name), "{command}: {methods:?}");
        for method in methods {
            assert!(method.starts_with(name.trim_end_matches('_')), "{command}: {method}");
        }
    }
}

#[test]
fn the_server_has_no_command_that_is_not_known_here() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let (methods, reasons) = (methods(), reasons());
    let listed: BTreeSet<&str> = COMMANDS.lines().filter_map(|line| line.split('\t').next()).collect();
    let mut unknown = Vec::new();
    let mut commands: Vec<String> = conn.command_list().wait()?;
    for docs in conn.command_docs(()) {
        let (name, docs) = docs?;
        assert!(!docs.summary.is_empty() || docs.group == "module", "{name}");
        commands.push(name);
        commands.extend(docs.subcommands.into_keys());
    }
    assert!(commands.len() > 500, "COMMAND LIST and COMMAND DOCS name each of some hundreds of commands");
    for command in commands {
        let command = command.to_uppercase().replace('|', " ");
        let known = methods.contains_key(&command) || reasons.contains(&command) || listed.contains(&*command);
        // A command with subcommands is nothing by itself.
        let parent = listed.iter().any(|name| name.starts_with(&format!("{command} ")));
        if !known && !parent {
            unknown.push(command);
        }
    }
    assert!(unknown.is_empty(), "{unknown:?}");
    Ok(())
}
