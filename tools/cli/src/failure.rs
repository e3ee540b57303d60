//! How a command fails: one sentence for each thing that is wrong, and an exit status that says whose fault
//! it was.

use core::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use farcall_base::printable;

/// Why a command did not do what it was asked to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The command line makes no sense: correct it.
    Usage(String),
    /// It did, but something went wrong.
    Run(String),
    /// It did, and scripts may want to tell why.
    Outcome(Outcome, String),
    /// Several things are wrong, each of which would end the command.
    Several(Vec<Failure>),
    /// The reader of the result has gone.
    ReaderGone,
}

/// Failures that have exit statuses of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There is no such object or table.
    NotFound,
    /// The object is not what the condition asks for.
    ConditionFailed,
    /// No store answers; what it was asked for may have happened.
    Unreachable,
    /// Copies were damaged, and are whole again.
    Repaired,
    /// Copies are damaged.
    Damaged,
    /// The store answers, and too few replicas have what is asked for, or it may not say.
    LevelNotReached,
}

impl Outcome {
    /// The exit status.
    const fn status(self) -> u8 {
        match self {
            Self::NotFound => 3,
            Self::ConditionFailed => 4,
            Self::Unreachable => 5,
            Self::Repaired => 6,
            Self::Damaged => 7,
            Self::LevelNotReached => 8,
        }
    }
}

impl Failure {
    /// The result cannot be written where it should go.
    pub fn output(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::ReaderGone,
            _ => Self::Run(format!("cannot write the result: {error}")),
        }
    }

    /// Nothing is wrong, one thing is, or several are.
    pub fn all(mut failures: Vec<Self>) -> Result<(), Self> {
        match failures.len() {
            0 => Ok(()),
            1 => Err(failures.remove(0)),
            _ => Err(Self::Several(failures)),
        }
    }

    /// The things that are wrong, one by one.
    pub fn each(self) -> Vec<Self> {
        match self {
            Self::Several(failures) => failures.into_iter().flat_map(Self::each).collect(),
            one => vec![one],
        }
    }

    /// The same, with more to say behind it.
    #[must_use]
    pub fn with(self, more: &str) -> Self {
        match self {
            Self::Usage(sentence) => Self::Usage(format!("{sentence}; {more}")),
            Self::Run(sentence) => Self::Run(format!("{sentence}; {more}")),
            Self::Outcome(outcome, sentence) => Self::Outcome(outcome, format!("{sentence}; {more}")),
            several @ (Self::Several(_) | Self::ReaderGone) => several,
        }
    }

    /// Something went wrong.
    pub fn run(error: impl fmt::Display) -> Self {
        Self::Run(error.to_string())
    }

    /// 2 for usage, the outcome's own, 1 for everything else; of several things 2 if one is usage.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.status())
    }

    fn status(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Outcome(outcome, _) => outcome.status(),
            Self::Several(failures) if failures.iter().any(|one| one.status() == 2) => 2,
            Self::Several(_) | Self::Run(_) | Self::ReaderGone => 1,
        }
    }

    /// What to print, a line for each thing that is wrong: it shows itself and does nothing else, whatever
    /// the cause had to say.
    pub fn sentences(&self) -> Vec<String> {
        match self {
            Self::Usage(sentence) | Self::Run(sentence) | Self::Outcome(_, sentence) => {
                let words = sentence.split_whitespace().collect::<Vec<_>>().join(" ");
                vec![printable(&words).into_owned()]
            }
            Self::Several(failures) => failures.iter().flat_map(Self::sentences).collect(),
            Self::ReaderGone => Vec::new(),
        }
    }

    /// Says them on standard error.
    pub fn tell(&self) {
        for sentence in self.sentences() {
            // Its reader may have gone.
            let _ = writeln!(io::stderr(), "farcall: {sentence}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_things_are_a_line_each_and_usage_decides_the_status() {
        let (wrong, failed) = (Failure::Usage("one\nline".to_owned()), Failure::Run("two".to_owned()));
        let nested = Failure::all(vec![failed.clone(), failed.clone()]).expect_err("two failed");
        assert_eq!((nested.status(), Failure::all(Vec::new())), (1, Ok(())));
        let all = Failure::all(vec![nested, wrong]).expect_err("three are wrong");
        assert_eq!(
            (all.sentences(), all.status()),
            (["two", "two", "one line"].map(str::to_owned).into(), 2)
        );
        assert_eq!(all.each().len(), 3);
        assert_eq!(Failure::all(vec![failed.clone()]), Err(failed));
    }
}
