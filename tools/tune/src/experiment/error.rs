//! Why a file is no description of a tuning.

use crate::space::SpaceError;

/// Why a file is no description of a tuning. Every sentence says what to correct.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ExperimentError {
    /// It is not TOML, or has other tables.
    #[error("line {line}: {reason}")]
    Malformed {
        /// Which line, from 1.
        line: usize,
        /// What the parser says.
        reason: String,
    },
    /// Its space is none.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// Nothing to run, or two things.
    #[error("[objective] needs either a `command` or `workload = \"exchange\"`")]
    NoObjective,
    /// A workload that does not exist.
    #[error("there is no workload `{name}`; the one there is is `exchange`")]
    Workload {
        /// What was written.
        name: String,
    },
    /// A parameter that only a running program could be told.
    #[error(
        "parameter `{parameter}` is for a program that runs on; say `resident = true` in [objective], or give it the scope `launch`"
    )]
    NotResident {
        /// The parameter.
        parameter: String,
    },
    /// A program that runs on without a reason.
    #[error("`resident` is for a command that is told parameters of the scope `session` or `message`")]
    NothingToTell,
    /// Nothing to become better.
    #[error("nothing says what is good; add a [[metric]] that is no guard")]
    NoMetric,
    /// Two metrics of one name.
    #[error("the name `{name}` is given to two metrics; rename one")]
    MetricTwice {
        /// The name.
        name: String,
    },
    /// A guard where the objective belongs.
    #[error("the first metric, `{name}`, is a guard; put an objective first")]
    GuardFirst {
        /// The metric.
        name: String,
    },
    /// Both an objective and a guard.
    #[error(
        "metric `{metric}` has both `indifference` and `guard`; an objective has the one, a guard the other"
    )]
    TwoRoles {
        /// The metric.
        metric: String,
    },
    /// A share that is none.
    #[error("metric `{metric}`: write `indifference` and `guard` as a share from 0% to 100%, such as \"1%\"")]
    Share {
        /// The metric.
        metric: String,
    },
    /// Nothing says where the figure is.
    #[error("metric `{metric}` needs either a `pattern` or a `json` pointer")]
    NoReader {
        /// The metric.
        metric: String,
    },
    /// A pattern that is none.
    #[error("the pattern of `{metric}` is no regular expression: {reason}")]
    Pattern {
        /// The metric.
        metric: String,
        /// What is wrong.
        reason: String,
    },
    /// A pattern without a group.
    #[error("the pattern of `{metric}` has no group; put parentheses around the figure")]
    Group {
        /// The metric.
        metric: String,
    },
    /// A pointer that is none.
    #[error(
        "`{pointer}` of metric `{metric}` is no JSON pointer; it begins with `/`, such as `/results/0/value`"
    )]
    Pointer {
        /// The metric.
        metric: String,
        /// What was written.
        pointer: String,
    },
    /// An exchange that is not described.
    #[error(
        "metric `{metric}` needs an `exchange`, such as {{ transport = \"ring+shm\", request = \"30\", response = \"100\" }}"
    )]
    NoExchange {
        /// The metric.
        metric: String,
    },
    /// An exchange that makes no sense.
    #[error("the exchange of metric `{metric}`: {what}")]
    Exchange {
        /// The metric.
        metric: String,
        /// What is wrong.
        what: String,
    },
    /// A time limit that is none.
    #[error("`{text}` is not a time limit; write a duration such as 20s")]
    Timeout {
        /// What was written.
        text: String,
    },
}
