//! What is measured, and what about it is good.

use serde::{Deserialize, Serialize};

/// Whether less or more is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Goal {
    /// Less is better.
    Min,
    /// More is better.
    Max,
}

/// What a metric is for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Role {
    /// It is to become as good as possible. Differences up to this share do not matter.
    Objective {
        /// The share.
        indifference: f64,
    },
    /// It must not become worse than the reference by more than this share.
    Guard {
        /// The share.
        worsening: f64,
    },
}

/// A metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Its name.
    pub name: String,
    /// Its unit, for the reader.
    pub unit: String,
    /// What is good.
    pub goal: Goal,
    /// What it is for.
    pub role: Role,
}

impl Metric {
    /// The sign that makes a difference of logarithms positive when it is for the worse.
    pub fn sign(&self) -> f64 {
        match self.goal {
            Goal::Min => 1.0,
            Goal::Max => -1.0,
        }
    }

    /// By how much the logarithm may be worse without mattering.
    pub fn width(&self) -> f64 {
        match self.role {
            Role::Objective { indifference: share } | Role::Guard { worsening: share } => share.ln_1p(),
        }
    }

    /// Whether it is to become as good as possible.
    pub fn is_objective(&self) -> bool {
        matches!(self.role, Role::Objective { .. })
    }
}
