//! Running a trial: a command, an exchange of farcall's, or a synthetic landscape.

mod command;
mod exchange;
mod last_will;
mod reader;
mod rehearsal;
mod resident;
mod watched;

use farcall_lab::run::regime::Regime;

pub use command::{CommandObjective, CommandPlan};
pub use exchange::{ExchangeObjective, ExchangePlan};
pub use reader::Reader;
pub use rehearsal::Rehearsal;
pub use resident::ResidentObjective;
pub use watched::Watched;

use crate::evidence::{Censored, TrialOutcome};
use crate::search::Problem;
use crate::session::Trial;

/// What runs, checked.
#[derive(Clone, Debug)]
pub enum ObjectivePlan {
    /// A command.
    Command(CommandPlan),
    /// Calls between processes of farcall, one exchange for each metric.
    Exchange(Vec<ExchangePlan>),
}

impl ObjectivePlan {
    /// Whether what runs is there.
    pub fn check(&self) -> Result<(), ObjectiveError> {
        match self {
            Self::Command(command) => command.check(),
            Self::Exchange(_) => Ok(()),
        }
    }
}

/// What a trial came to, and when.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialFinding {
    /// Where the cores were all the time, if that was watched.
    pub regime: Option<Regime>,
    /// What came of it.
    pub outcome: TrialOutcome,
    /// When it began, in milliseconds since 1970; none in a rehearsal.
    pub begun_ms: Option<u64>,
    /// How long it took; none in a rehearsal.
    pub seconds: Option<f64>,
}

/// Why a trial could not even be tried.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectiveError {
    /// Somebody wants the tuning to stop.
    #[error("interrupted")]
    Interrupted,
    /// The command does not exist.
    #[error("the command `{command}` was not found; install it or give its path")]
    NotFound {
        /// The command.
        command: String,
    },
    /// The machine refuses.
    #[error("cannot {what}: {reason}")]
    System {
        /// What was attempted.
        what: String,
        /// What the system says.
        reason: String,
    },
}

/// Runs trials.
pub trait Objective {
    /// Runs one.
    fn measure(&mut self, problem: &Problem, trial: &Trial) -> Result<TrialFinding, ObjectiveError>;
}

/// A trial without figures.
fn censored(why: impl Into<String>, log: Option<String>) -> TrialOutcome {
    TrialOutcome::Censored(Censored { why: why.into(), log })
}

/// Figures that can be compared, which are positive numbers.
fn measured(problem: &Problem, values: Vec<f64>) -> TrialOutcome {
    let odd = values.iter().zip(&problem.metrics).find(|(value, _)| !(value.is_finite() && **value > 0.0));
    match odd {
        Some((value, metric)) => {
            censored(format!("`{}` is {value}, and only positive figures can be compared", metric.name), None)
        }
        None => TrialOutcome::Measured(values),
    }
}
