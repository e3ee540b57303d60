//! One parameter with its levels, and what rows must satisfy.

use super::value::{Kind, Value};
use crate::expression::{Expression, Types};

/// A parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Its name, unique in the space.
    pub name: String,
    /// What kind of values it has.
    pub kind: Kind,
    /// The values that are tried, at least one; of ordered kinds in their order as declared.
    pub levels: Vec<Level>,
    /// The level that the program has when nothing is tuned.
    pub default: usize,
    /// Whether it exists only to be put into templates.
    pub is_virtual: bool,
    /// When it is in play; always, without one.
    pub when: Option<Condition>,
    /// The end of its range that no step reaches.
    pub missed_end: Option<f64>,
}

/// One value that is tried.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// The value.
    pub value: Value,
    /// What is written into the program's world.
    pub text: String,
}

/// When a parameter is in play.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// As written.
    pub text: String,
    /// As understood.
    pub expression: Expression,
}

/// What rows must satisfy.
#[derive(Clone, Debug, PartialEq)]
pub struct Requirement {
    /// As written.
    pub text: String,
    /// As understood.
    pub expression: Expression,
}

impl Parameter {
    /// What its values can be.
    pub fn types(&self) -> Types {
        Types::of(self.levels.iter().map(|level| &level.value))
    }

    /// A level as people read it.
    pub fn show(&self, level: usize) -> String {
        self.kind.show(&self.levels[level].value)
    }
}
