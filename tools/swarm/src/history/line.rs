//! Histories as text: a title, and a line of words for each operation.

use core::fmt;
use core::str::SplitAsciiWhitespace;

use super::{Asked, Operation, Told};

/// The first line of a history.
pub const TITLE: &str = "farcall-history 1";

/// The longest line.
const LINE_BYTES_MAX: usize = 4096;

/// Why a text is no history.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HistoryError {
    /// It is something else, or of another version.
    #[error("the first line is not `{TITLE}`: this is no history, or one of another version")]
    NoTitle,
    /// See docs/protocol/history.md.
    #[error("line {line} is no operation: {reason}")]
    Malformed {
        /// From 1.
        line: usize,
        /// What is wrong with it.
        reason: &'static str,
    },
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, key, began, told, asked } = self;
        write!(f, "{client} {key} {began} ")?;
        match told {
            Some((ended, _)) => write!(f, "{ended} ")?,
            None => f.write_str("- ")?,
        }
        match asked {
            Asked::Get => f.write_str("get")?,
            Asked::Put(value) => write!(f, "put {value}")?,
            Asked::Delete => f.write_str("delete")?,
            Asked::Add(amount) => write!(f, "add {amount}")?,
        }
        match told {
            None => f.write_str(" unknown"),
            Some((_, Told::Found(value))) => write!(f, " found {value}"),
            Some((_, Told::Nothing)) => f.write_str(" nothing"),
            Some((_, Told::Done)) => f.write_str(" done"),
            Some((_, Told::Sum(sum))) => write!(f, " sum {sum}"),
        }
    }
}

/// The text of a history.
pub fn write(operations: &[Operation]) -> String {
    let lines = operations.iter().map(|operation| format!("{operation}\n"));
    core::iter::once(format!("{TITLE}\n")).chain(lines).collect()
}

/// Reads the text of a history. Empty lines, and what begins with `#`, say nothing.
pub fn parse(text: &str) -> Result<Vec<Operation>, HistoryError> {
    let mut lines = text.lines().enumerate();
    if lines.next().map(|(_, line)| line) != Some(TITLE) {
        return Err(HistoryError::NoTitle);
    }
    let operations = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let operation =
        |(at, line)| operation(line).map_err(|reason| HistoryError::Malformed { line: at + 1, reason });
    operations.map(operation).collect()
}

fn operation(line: &str) -> Result<Operation, &'static str> {
    if line.len() > LINE_BYTES_MAX {
        return Err("it is too long");
    }
    let mut words = line.split_ascii_whitespace();
    let client = number(&mut words, "the client is no number")?;
    let key = words.next().ok_or("there is no key")?.to_owned();
    let began: u64 = number(&mut words, "the beginning is no number")?;
    let ended = match words.next().ok_or("there is no end")? {
        "-" => None,
        word => Some(word.parse::<u64>().map_err(|_| "the end is neither a number nor -")?),
    };
    if ended.is_some_and(|ended| ended < began) {
        return Err("it ends before it begins");
    }
    let asked = asked(&mut words)?;
    let outcome = outcome(&mut words)?;
    let told = match (ended, outcome) {
        (None, None) => None,
        (Some(ended), Some(told)) if fits(&asked, &told) => Some((ended, told)),
        (Some(_), Some(_)) => return Err("that is no outcome of such an operation"),
        _ => return Err("what is unknown has - for its end, and nothing else has"),
    };
    if words.next().is_some() {
        return Err("there is something behind it");
    }
    Ok(Operation { client, key, began, told, asked })
}

fn number<T: core::str::FromStr>(
    words: &mut SplitAsciiWhitespace<'_>,
    reason: &'static str,
) -> Result<T, &'static str> {
    words.next().and_then(|word| word.parse().ok()).ok_or(reason)
}

fn asked(words: &mut SplitAsciiWhitespace<'_>) -> Result<Asked, &'static str> {
    match words.next() {
        Some("get") => Ok(Asked::Get),
        Some("put") => Ok(Asked::Put(words.next().ok_or("there is no value")?.to_owned())),
        Some("delete") => Ok(Asked::Delete),
        Some("add") => Ok(Asked::Add(number(words, "the amount is no number")?)),
        _ => Err("it asks for none of get, put, delete and add"),
    }
}

fn outcome(words: &mut SplitAsciiWhitespace<'_>) -> Result<Option<Told>, &'static str> {
    match words.next() {
        Some("unknown") => Ok(None),
        Some("found") => Ok(Some(Told::Found(words.next().ok_or("there is no value")?.to_owned()))),
        Some("nothing") => Ok(Some(Told::Nothing)),
        Some("done") => Ok(Some(Told::Done)),
        Some("sum") => Ok(Some(Told::Sum(number(words, "the sum is no number")?))),
        _ => Err("its outcome is none of found, nothing, done, sum and unknown"),
    }
}

fn fits(asked: &Asked, told: &Told) -> bool {
    matches!(
        (asked, told),
        (Asked::Get, Told::Found(_) | Told::Nothing)
            | (Asked::Put(_), Told::Done)
            | (Asked::Delete, Told::Done | Told::Nothing)
            | (Asked::Add(_), Told::Sum(_))
    )
}
