//! Why a description is not a space.

use super::{GridError, TemplateError, ValueError};
use crate::expression::{ExpressionError, TypeError};

/// Why a description is not a space. Every sentence says what to correct.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SpaceError {
    /// There is nothing to tune.
    #[error("the space has no parameters; add a [[parameter]]")]
    NoParameters,
    /// Two parameters have one name.
    #[error("the name `{name}` is given to two parameters; rename one")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// A name that conditions and templates could not mention.
    #[error("`{name}` is no name for a parameter; use letters, digits, `_` and `.`, a letter first")]
    Name {
        /// What was written.
        name: String,
    },
    /// Neither values nor a range, or both.
    #[error("parameter `{parameter}` needs either `values` or `range`")]
    ValuesOrRange {
        /// Which parameter.
        parameter: String,
    },
    /// No value at all.
    #[error("parameter `{parameter}` has no values; list at least one")]
    NoValues {
        /// Which parameter.
        parameter: String,
    },
    /// One value twice.
    #[error("parameter `{parameter}` has the value {value} twice; remove one")]
    RepeatedValue {
        /// Which parameter.
        parameter: String,
        /// The value.
        value: String,
    },
    /// A value of another kind.
    #[error("parameter `{parameter}`: {error}")]
    Value {
        /// Which parameter.
        parameter: String,
        /// What is wrong.
        error: ValueError,
    },
    /// A range that is none.
    #[error("parameter `{parameter}`: {error}")]
    Grid {
        /// Which parameter.
        parameter: String,
        /// What is wrong.
        error: GridError,
    },
    /// A kind that has no ranges, or whose numbers have no such unit.
    #[error("parameter `{parameter}`: {what}")]
    Kind {
        /// Which parameter.
        parameter: String,
        /// What does not go together.
        what: String,
    },
    /// The default is not one of the values.
    #[error(
        "the default {default} of parameter `{parameter}` is not one of its values; the nearest is {nearest}"
    )]
    Default {
        /// Which parameter.
        parameter: String,
        /// The default.
        default: String,
        /// A value that is close to it.
        nearest: String,
    },
    /// A condition or requirement that cannot be read.
    #[error("the {what} `{text}` cannot be read: {error}")]
    Expression {
        /// Whose it is.
        what: String,
        /// The condition.
        text: String,
        /// What is wrong.
        error: ExpressionError,
    },
    /// A condition or requirement that can never be meant.
    #[error("the {what} `{text}` makes no sense: {error}")]
    Type {
        /// Whose it is.
        what: String,
        /// The condition.
        text: String,
        /// What is wrong.
        error: TypeError,
    },
    /// Conditions that wait for each other.
    #[error("the conditions of {} depend on each other in a circle; remove one of them", names.join(", "))]
    CyclicConditions {
        /// The parameters.
        names: Vec<String>,
    },
    /// A template that cannot be filled.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// Two things go to one place.
    #[error("the environment variable `{name}` is set twice; remove one")]
    SetTwice {
        /// The variable or parameter.
        name: String,
    },
    /// A name that a shell would not take for that of a variable.
    #[error("`{name}` is no name for an environment variable; use letters, digits and `_`, no digit first")]
    Variable {
        /// What was written.
        name: String,
    },
    /// A name that no parameter of farcall has.
    #[error("`{name}` is no name of a parameter; use letters, digits, `_` and `.`")]
    Setting {
        /// What was written.
        name: String,
    },
    /// A file that would not be in the directory of the trial.
    #[error("`{name}` is no name for a file of a trial; leave out folders")]
    File {
        /// What was written.
        name: String,
    },
    /// A value that takes effect while the program runs, and goes to where only a launch brings it.
    #[error(
        "parameter `{parameter}` is told to the running program; leave it out of `environment`, `set` and templates, or give it the scope `launch`"
    )]
    ToldAndSet {
        /// Which parameter.
        parameter: String,
    },
    /// No row is left.
    #[error("no combination of values satisfies the requirements{}", blame(.worst))]
    NoRows {
        /// The requirement that rejects the most.
        worst: Option<String>,
    },
}

fn blame(worst: &Option<String>) -> String {
    worst.as_ref().map_or(String::new(), |text| format!("; `{text}` rejects the most"))
}
