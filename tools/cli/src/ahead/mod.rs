//! The look ahead: what a command is about to measure, and everything that would end it later, found before
//! any time is spent.
//!
//! A command notes its checks one by one and goes on with the next whatever they find, so that all findings
//! are said at once. `--dry-run` prints the plan and ends.

pub mod checks;
pub mod memory;

use core::fmt;
use core::time::Duration;

use serde_json::json;

use crate::arguments::Output;
use crate::arguments::measuring::Rehearsal;
use crate::failure::Failure;
use crate::output::Report;
use crate::progress::duration_words;
use memory::{Memory, memory_words};

/// The version of the objects that `--dry-run --json` writes.
const SCHEMA: &str = "farcall.plan.v1";

/// How long something lasts, as far as that is known before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasts {
    /// No longer than this.
    AtMost(Duration),
    /// About this.
    About(Duration),
    /// As long as it takes.
    Unknown,
}

/// A cell of a plan: what is measured by itself.
#[derive(Clone, Debug)]
pub struct Planned {
    /// What it measures.
    pub name: String,
    /// Its repeats, in words: `3 blocks`.
    pub repeats: String,
    /// All of them together.
    pub lasts: Lasts,
    /// Memory that its simulation takes.
    pub memory: Option<Memory>,
}

/// A plan, and what was found about it.
pub struct Ahead {
    command: &'static str,
    cells: Vec<Planned>,
    refused: Vec<Failure>,
    warnings: Vec<String>,
}

impl Ahead {
    /// Nothing is planned yet.
    pub fn of(command: &'static str) -> Self {
        Self { command, cells: Vec::new(), refused: Vec::new(), warnings: Vec::new() }
    }

    /// Notes what a check found, once.
    pub fn check(&mut self, checked: Result<(), Failure>) {
        self.made(checked);
    }

    /// What was made of the command line, or `None` and the reason noted.
    pub fn made<T>(&mut self, made: Result<T, Failure>) -> Option<T> {
        let failure = match made {
            Ok(made) => return Some(made),
            Err(failure) => failure,
        };
        for one in failure.each() {
            if !self.refused.contains(&one) {
                self.refused.push(one);
            }
        }
        None
    }

    /// Notes what will not end the command, and its user wants to know.
    pub fn warn(&mut self, warning: Option<String>) {
        self.warnings.extend(warning);
    }

    /// Adds cells to the plan.
    pub fn plan(&mut self, cells: impl IntoIterator<Item = Planned>) {
        self.cells.extend(cells);
    }

    /// Ends the look ahead: the weights of the cells if the command is to go on, `None` if it was a
    /// rehearsal; everything that was found if it cannot.
    pub fn decide(mut self, rehearsal: &Rehearsal, output: &Output) -> Result<Option<Vec<f64>>, Failure> {
        let memory = self.cells.iter().filter_map(|cell| cell.memory.as_ref());
        let checked = memory.max_by_key(|memory| memory.bytes).map_or(Ok(()), Memory::check);
        self.check(checked);
        if rehearsal.dry_run {
            // Where the plan cannot be written is one thing that is wrong, and not all of them.
            let shown = Report::open(output.json.as_ref()).and_then(|mut report| self.show(&mut report));
            self.check(shown);
        }
        Failure::all(core::mem::take(&mut self.refused))?;
        Ok((!rehearsal.dry_run).then(|| self.weights()))
    }

    /// For each cell how long it lasts, or the same for all where that is not known of all.
    fn weights(&self) -> Vec<f64> {
        let known: Option<Vec<f64>> =
            self.cells.iter().map(|cell| Some(cell.lasts.known()?.as_secs_f64())).collect();
        known.unwrap_or_else(|| vec![1.0; self.cells.len()])
    }

    fn show(&self, report: &mut Report) -> Result<(), Failure> {
        let width = self.cells.iter().map(|cell| cell.name.chars().count()).max().unwrap_or(0);
        for cell in &self.cells {
            report.line(format_args!(
                "{:<width$}  {:<12}  {}{}",
                cell.name,
                cell.repeats,
                cell.lasts,
                cell.memory()
            ))?;
            report.object(&self.object(cell))?;
        }
        report.line(self.summary())?;
        for warning in &self.warnings {
            report.line(format_args!("# warning: {warning}"))?;
        }
        Ok(())
    }

    fn object(&self, cell: &Planned) -> serde_json::Value {
        json!({
            "schema": SCHEMA,
            "command": self.command,
            "cell": cell.name,
            "repeats": cell.repeats,
            "seconds": cell.lasts.known().map(|time| time.as_secs_f64()),
            "memory_bytes": cell.memory.as_ref().map(|memory| memory.bytes),
        })
    }

    fn summary(&self) -> String {
        let cells = match self.cells.len() {
            1 => "1 cell".to_owned(),
            many => format!("{many} cells"),
        };
        let unknown = self.cells.iter().filter(|cell| cell.lasts == Lasts::Unknown).count();
        let known = self.cells.iter().filter_map(|cell| cell.lasts.known());
        let known = known.fold(Duration::ZERO, Duration::saturating_add);
        let time = match unknown {
            0 if self.cells.iter().all(|cell| matches!(cell.lasts, Lasts::AtMost(_))) => {
                format!("at most {}", duration_words(known))
            }
            0 => format!("about {}", duration_words(known)),
            _ if known.is_zero() => "as long as they take".to_owned(),
            _ => format!("about {} and as long as {unknown} of them take", duration_words(known)),
        };
        format!("# {cells}, {time}; nothing was measured")
    }
}

impl Planned {
    fn memory(&self) -> String {
        let words = |memory: &Memory| format!(", {} of memory", memory_words(memory.bytes));
        self.memory.as_ref().map_or_else(String::new, words)
    }
}

impl Lasts {
    /// About so many seconds, if that is a time at all.
    pub fn about_seconds(seconds: f64) -> Self {
        Duration::try_from_secs_f64(seconds).map_or(Self::Unknown, Self::About)
    }

    /// The same this many times.
    pub fn times(self, number: u32) -> Self {
        match self {
            Self::AtMost(time) => Self::AtMost(time.saturating_mul(number)),
            Self::About(time) => Self::About(time.saturating_mul(number)),
            Self::Unknown => Self::Unknown,
        }
    }

    fn known(self) -> Option<Duration> {
        match self {
            Self::AtMost(time) | Self::About(time) => Some(time),
            Self::Unknown => None,
        }
    }
}

impl fmt::Display for Lasts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(time) => write!(f, "at most {}", duration_words(*time)),
            Self::About(time) => write!(f, "about {}", duration_words(*time)),
            Self::Unknown => f.write_str("as long as it takes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(lasts: Lasts) -> Planned {
        Planned { name: "echo100".to_owned(), repeats: "3 blocks".to_owned(), lasts, memory: None }
    }

    #[test]
    fn everything_that_was_found_is_said_once() {
        let mut ahead = Ahead::of("perf");
        let wrong = |text: &str| Failure::Usage(text.to_owned());
        ahead.check(Err(wrong("one")));
        ahead.check(Ok(()));
        ahead.check(Failure::all(vec![wrong("two"), wrong("one")]));
        let found = ahead.decide(&Rehearsal { dry_run: false }, &Output { json: None, quiet: true });
        assert_eq!(found.expect_err("two things are wrong").sentences(), ["one", "two"]);
    }

    #[test]
    fn cells_weigh_what_they_last_where_that_is_known_of_all() {
        let seconds = |seconds| Lasts::AtMost(Duration::from_secs(seconds));
        let mut ahead = Ahead::of("perf");
        ahead.plan([cell(seconds(1)), cell(seconds(5))]);
        assert_eq!(
            (ahead.weights(), ahead.summary()),
            (vec![1.0, 5.0], "# 2 cells, at most 6 s; nothing was measured".to_owned())
        );
        ahead.plan([cell(Lasts::about_seconds(f64::NAN))]);
        assert_eq!(ahead.weights(), [1.0; 3]);
        assert_eq!(
            ahead.summary(),
            "# 3 cells, about 6 s and as long as 1 of them take; nothing was measured"
        );
    }

    #[test]
    fn no_time_is_too_long_to_be_said() {
        assert_eq!(Lasts::about_seconds(1e300), Lasts::Unknown);
        let longest = Lasts::about_seconds(1e19).times(u32::MAX);
        let mut ahead = Ahead::of("perf");
        ahead.plan([cell(longest), cell(longest)]);
        assert!(ahead.summary().starts_with("# 2 cells, about "), "{}", ahead.summary());
    }
}
