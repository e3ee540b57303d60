//! The pages of the reference that come from the grammar and from the table of parameters.
//!
//! `FARCALL_TIDY_LOWER=1` writes them.

use core::fmt::Write;
use std::collections::BTreeMap;

use clap::{Arg, ArgAction, Command, CommandFactory};
use farcall::parameters::PARAMETERS;

use super::Arguments;

const HOW: &str =
    "<!-- FARCALL_TIDY_LOWER=1 cargo test -p farcall-cli --bin farcall reference writes this page. -->";

fn is_page(name: &str, page: &str) {
    let path = format!("{}/../../docs/reference/{name}.md", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("FARCALL_TIDY_LOWER").is_some() {
        std::fs::write(path, page).expect("the page can be written");
    } else {
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert!(found == page, "FARCALL_TIDY_LOWER=1 writes docs/reference/{name}.md");
    }
}

#[test]
fn the_reference_of_commands_is_that_of_the_grammar() {
    let about = "What `farcall COMMAND --help` prints, in one page. Exit status 0: done; 1: it failed, with one \
                 sentence; 2: the command line makes no sense. `farcall kv` has [more](../kv.md). A command \
                 that measures takes the same [options](../options.md) as the others.";
    let mut page = format!("# Commands\n\n{HOW}\n\n{}", wrapped(about));
    let mut grammar = Arguments::command();
    grammar.build();
    for command in grammar.get_subcommands().filter(|command| !command.is_hide_set()) {
        write_command(&mut page, "farcall", command);
    }
    is_page("commands", &page);
}

fn write_command(page: &mut String, before: &str, command: &Command) {
    let name = format!("{before} {}", command.get_name());
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    write!(page, "\n## {name}\n\n{}", wrapped(&cell(&about))).expect("a string takes everything");
    let arguments: Vec<_> = command.get_arguments().filter(|argument| argument.get_id() != "help").collect();
    if !command.has_subcommands() || !arguments.is_empty() {
        write_arguments(page, &arguments);
    }
    for command in command.get_subcommands() {
        write_command(page, &name, command);
    }
}

fn write_arguments(page: &mut String, arguments: &[&Arg]) {
    page.push_str("\n| | value | default | |\n|---|---|---|---|\n");
    for argument in arguments {
        let about = argument.get_help().map(ToString::to_string).unwrap_or_default();
        let defaults: Vec<_> =
            argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        let (name, value) = named(argument);
        let default = if takes_value(argument) { defaults.join(",") } else { String::new() };
        writeln!(page, "| `{name}` | {} | {} | {} |", code(&value), code(&default), cell(&about))
            .expect("a string takes everything");
    }
}

fn takes_value(argument: &Arg) -> bool {
    matches!(argument.get_action(), ArgAction::Set | ArgAction::Append)
}

/// An option, or the place of a word; and what follows it.
fn named(argument: &Arg) -> (String, String) {
    let names = argument.get_value_names().unwrap_or_default().join(" ");
    match argument.get_long() {
        Some(long) if takes_value(argument) => (format!("--{long}"), choices(argument).unwrap_or(names)),
        Some(long) => (format!("--{long}"), String::new()),
        None => (names, choices(argument).unwrap_or_default()),
    }
}

fn choices(argument: &Arg) -> Option<String> {
    let values = argument.get_possible_values();
    let names: Vec<_> = values.iter().map(|value| value.get_name()).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

#[test]
fn the_reference_of_parameters_is_the_table() {
    let about = "Each is set by `--set NAME=VALUE`, by its variable (`ring.ring_bytes` is \
                 `FARCALL_RING_RING_BYTES`), or in the file that `FARCALL_CONFIG` names. `farcall info \
                 --parameters` prints them with their values here. [Tuning](../tuning.md) says which are \
                 worth a try.";
    let mut page = format!("# Parameters\n\n{HOW}\n\n{}", wrapped(about));
    let mut groups: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for parameter in PARAMETERS {
        let (group, _) = parameter.name.split_once('.').expect("a group and a name");
        groups.entry(group).or_default().push(parameter);
    }
    for (group, parameters) in groups {
        write!(page, "\n## {group}\n\n| parameter | values | default | per | |\n|---|---|---|---|---|\n")
            .expect("a string takes everything");
        for parameter in parameters {
            let (name, scope, doc) = (parameter.name, parameter.scope.word(), cell(parameter.doc));
            let values = cell(&parameter.domain.to_string());
            writeln!(page, "| `{name}` | {values} | {} | {scope} | {doc} |", code(parameter.default))
                .expect("a string takes everything");
        }
    }
    is_page("parameters", &page);
}

/// Text in lines of at most 110 columns.
fn wrapped(text: &str) -> String {
    let mut wrapped = String::new();
    let mut columns = 0;
    for word in text.split_whitespace() {
        if columns > 0 && columns + 1 + word.chars().count() > 110 {
            wrapped.push('\n');
            columns = 0;
        } else if columns > 0 {
            wrapped.push(' ');
            columns += 1;
        }
        wrapped.push_str(word);
        columns += word.chars().count();
    }
    wrapped + "\n"
}

/// Text in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('\n', " ")
}

fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{}`", text.replace('|', "\\|")) }
}
