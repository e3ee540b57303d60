//! What is wrong with a command line, in one sentence.

use core::num::ParseIntError;

use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use std::error::Error as _;

/// The sentence for an error of the argument parser.
pub fn sentence(error: &Error) -> String {
    let context = |kind| error.get(kind).and_then(first);
    let argument = plain(&context(ContextKind::InvalidArg).unwrap_or_default());
    match error.kind() {
        // The value's own parser has said it best.
        ErrorKind::ValueValidation => match error.source() {
            Some(cause) if cause.is::<ParseIntError>() => {
                let value = context(ContextKind::InvalidValue).unwrap_or_default();
                format!("{argument}: `{value}` is not a whole number, such as 7")
            }
            Some(cause) => format!("{argument}: {cause}"),
            None => format!("{argument} does not take that value"),
        },
        ErrorKind::InvalidValue => invalid_value(error, &argument),
        ErrorKind::UnknownArgument => match context(ContextKind::SuggestedArg) {
            Some(nearest) => format!("there is no option `{argument}`; did you mean `{nearest}`?"),
            None if argument.starts_with('-') => {
                format!("there is no option `{argument}`; see `{}`", help(error))
            }
            None => format!("`{argument}` is one argument too many; see `{}`", help(error)),
        },
        ErrorKind::InvalidSubcommand => {
            let command = context(ContextKind::InvalidSubcommand).unwrap_or_default();
            match context(ContextKind::SuggestedSubcommand) {
                Some(nearest) => format!("there is no command `{command}`; did you mean `{nearest}`?"),
                None => format!("there is no command `{command}`; see `{}`", help(error)),
            }
        }
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            missing_command(&error.to_string())
        }
        ErrorKind::MissingRequiredArgument => match context(ContextKind::Usage) {
            Some(usage) => format!("{argument} is missing; the command is `{}`", command(&usage)),
            None => format!("{argument} is missing; see `farcall --help`"),
        },
        ErrorKind::ArgumentConflict => match context(ContextKind::PriorArg) {
            Some(other) if plain(&other) != argument => {
                format!("{argument} and {} cannot be given together", plain(&other))
            }
            _ => format!("{argument} may be given only once"),
        },
        _ => first_line(error),
    }
}

/// The sentence for a command that has others, of which none is given: its help names them.
fn missing_command(help: &str) -> String {
    let mut lines = help.lines();
    let usage = lines.find(|line| line.trim_start().starts_with("Usage:")).unwrap_or_default();
    let is_word = |word: &&str| word.starts_with(|c: char| c.is_ascii_alphanumeric());
    let group: Vec<&str> = command(usage).split_whitespace().take_while(is_word).collect();
    let first = lines.skip_while(|line| !line.starts_with("Commands:")).nth(1);
    let first = first.and_then(|line| line.split_whitespace().next());
    match (group.join(" "), first) {
        (group, Some(first)) if group.contains(' ') => {
            format!("name a command, such as `{group} {first}`; see `{group} --help`")
        }
        _ => "name a command, such as `farcall perf`; see `farcall --help`".to_owned(),
    }
}

fn invalid_value(error: &Error, argument: &str) -> String {
    let value = error.get(ContextKind::InvalidValue).and_then(first).unwrap_or_default();
    let valid = match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(valid)) if !valid.is_empty() => valid.join(", "),
        _ => return format!("{argument} needs a value"),
    };
    if value.is_empty() {
        return format!("{argument} needs a value, one of {valid}");
    }
    format!("`{value}` is no value of {argument}; choose from {valid}")
}

/// An argument as one writes it: `--sizes <SIZES>` is `--sizes`, and `[TEST]...` is `TEST`. Of a group any
/// will do.
fn plain(argument: &str) -> String {
    if let Some(group) = argument.strip_prefix("<-").and_then(|_| argument.strip_prefix('<')) {
        // A placeholder of a value may have a bar, too.
        let members = group.split_whitespace().flat_map(|word| word.split('|'));
        let options: Vec<_> = members.filter(|word| word.starts_with("--")).collect();
        return options.join(" or ");
    }
    let word = argument.split_whitespace().next().unwrap_or_default();
    word.trim_matches(['<', '>', '[', ']', '.']).to_owned()
}

/// The command of a usage, such as `farcall audit <FILE>...`.
fn command(usage: &str) -> &str {
    let line = usage.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    line.trim_start_matches("Usage:").trim()
}

/// The command whose help says more: the words in front of the options and values of its usage.
fn help(error: &Error) -> String {
    let usage = error.get(ContextKind::Usage).and_then(first).unwrap_or_default();
    let is_word = |word: &&str| word.starts_with(|c: char| c.is_ascii_alphanumeric());
    let words: Vec<&str> = command(&usage).split_whitespace().take_while(is_word).collect();
    let words = if words.is_empty() { "farcall".to_owned() } else { words.join(" ") };
    format!("{words} --help")
}

fn first(value: &ContextValue) -> Option<String> {
    match value {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) => texts.first().cloned(),
        ContextValue::StyledStr(text) => Some(text.to_string()),
        _ => None,
    }
}

fn first_line(error: &Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    format!("{}; see `farcall --help`", line.strip_prefix("error: ").unwrap_or(line))
}
