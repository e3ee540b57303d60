//! How a command fails: one sentence, and an exit status that says whose fault it was.

use core::fmt;
use std::io;
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
}

impl Outcome {
    /// The exit status.
    const fn status(self) -> u8 {
        match self {
            Self::NotFound => 3,
            Self::ConditionFailed => 4,
            Self::Unreachable => 5,
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

    /// Something went wrong.
    pub fn run(error: impl fmt::Display) -> Self {
        Self::Run(error.to_string())
    }

    /// 2 for usage, the outcome's own, 1 for everything else.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Outcome(outcome, _) => ExitCode::from(outcome.status()),
            Self::Run(_) | Self::ReaderGone => ExitCode::FAILURE,
        }
    }

    /// What to print: one line that shows itself and does nothing else, whatever the cause had to say.
    pub fn sentence(&self) -> Option<String> {
        match self {
            Self::Usage(sentence) | Self::Run(sentence) | Self::Outcome(_, sentence) => {
                let words = sentence.split_whitespace().collect::<Vec<_>>().join(" ");
                Some(printable(&words).into_owned())
            }
            Self::ReaderGone => None,
        }
    }
}
