//! What is wrong with a space, before anything runs.
//!
//! OTPO's own example searched 37,730 combinations of eight parameters, one of which never reached the
//! program; only 16,170 different ones ran. Nobody noticed, because nothing looked.

use core::fmt;

use super::{Coverage, Environments, NOT_IN_PLAY, Rows, Space};

/// Something that its author will hardly have meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpaceFinding {
    /// No emission mentions the parameter.
    Dead {
        /// Which.
        parameter: String,
    },
    /// The parameter has one level.
    Constant {
        /// Which.
        parameter: String,
        /// Its level.
        level: String,
    },
    /// No valid row has the level.
    Unreachable {
        /// Of which parameter.
        parameter: String,
        /// Which.
        level: String,
    },
    /// The parameter is in play in all rows although it has a condition, or in none.
    IdleCondition {
        /// Which.
        parameter: String,
        /// Its condition.
        condition: String,
        /// Whether it always holds.
        holds: bool,
    },
    /// The range stops before its end.
    EndNotReached {
        /// Of which parameter.
        parameter: String,
        /// The last level.
        last: String,
        /// The end that was asked for.
        end: String,
    },
    /// The requirement rejects nothing that those before it leave.
    IdleRequirement {
        /// Which.
        requirement: String,
    },
    /// Rows that are the same to the program.
    Clones {
        /// How many rows there are.
        rows: usize,
        /// How many different ones.
        environments: usize,
    },
    /// The defaults break a requirement.
    InvalidDefaults {
        /// Which.
        requirement: String,
    },
}

/// Looks for everything that can be seen without running anything.
pub fn lint(space: &Space, rows: &Rows, environments: &Environments) -> Vec<SpaceFinding> {
    let mut findings = Vec::new();
    lint_parameters(space, &mut findings);
    lint_requirements(space, rows, &mut findings);
    if matches!(rows.coverage(), Coverage::Whole { .. }) {
        lint_levels(space, rows, &mut findings);
    }
    if environments.len() < rows.len() {
        findings.push(SpaceFinding::Clones { rows: rows.len(), environments: environments.len() });
    }
    findings
}

fn lint_parameters(space: &Space, findings: &mut Vec<SpaceFinding>) {
    for (index, parameter) in space.parameters.iter().enumerate() {
        let name = || parameter.name.clone();
        if !space.emissions.iter().any(|emission| emission.template.parameters().any(|one| one == index)) {
            findings.push(SpaceFinding::Dead { parameter: name() });
        }
        if parameter.levels.len() == 1 {
            findings.push(SpaceFinding::Constant { parameter: name(), level: parameter.show(0) });
        }
        if let Some(end) = parameter.missed_end {
            let last = parameter.show(parameter.levels.len() - 1);
            let end = parameter.kind.show(&super::Value::Number(end));
            findings.push(SpaceFinding::EndNotReached { parameter: name(), last, end });
        }
    }
}

fn lint_requirements(space: &Space, rows: &Rows, findings: &mut Vec<SpaceFinding>) {
    let texts = space.requirements.iter().map(|requirement| requirement.text.clone());
    if let Coverage::Whole { rejected, .. } = rows.coverage() {
        let idle = texts.zip(rejected).filter(|(_, count)| **count == 0);
        findings.extend(idle.map(|(requirement, _)| SpaceFinding::IdleRequirement { requirement }));
    }
    let defaults = space.default_row();
    let broken = space.requirements.iter().filter(|one| !space.satisfies(&defaults, one));
    findings.extend(broken.map(|one| SpaceFinding::InvalidDefaults { requirement: one.text.clone() }));
}

/// Levels that occur nowhere, and conditions that make no difference.
fn lint_levels(space: &Space, rows: &Rows, findings: &mut Vec<SpaceFinding>) {
    for (index, parameter) in space.parameters.iter().enumerate() {
        let mut met = vec![false; parameter.levels.len()];
        let mut out_of_play = false;
        for row in rows.iter() {
            match row[index] {
                NOT_IN_PLAY => out_of_play = true,
                level => met[usize::from(level)] = true,
            }
        }
        let in_play = met.contains(&true);
        if let Some(condition) = parameter.when.as_ref().filter(|_| !in_play || !out_of_play) {
            findings.push(SpaceFinding::IdleCondition {
                parameter: parameter.name.clone(),
                condition: condition.text.clone(),
                holds: in_play,
            });
        }
        let missing = met.iter().enumerate().filter(|(_, met)| in_play && !**met);
        findings.extend(missing.map(|(level, _)| SpaceFinding::Unreachable {
            parameter: parameter.name.clone(),
            level: parameter.show(level),
        }));
    }
}

impl fmt::Display for SpaceFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dead { parameter } => {
                write!(
                    f,
                    "parameter `{parameter}` never reaches the program: nothing that is emitted mentions it"
                )
            }
            Self::Constant { parameter, level } => {
                write!(f, "parameter `{parameter}` has only one value, {level}")
            }
            Self::Unreachable { parameter, level } => {
                write!(f, "no valid row has `{parameter}` = {level}")
            }
            Self::IdleCondition { parameter, condition, holds } => {
                let when = if *holds { "always" } else { "never" };
                write!(f, "the condition `{condition}` of parameter `{parameter}` {when} holds")
            }
            Self::EndNotReached { parameter, last, end } => {
                write!(f, "the range of parameter `{parameter}` stops at {last} and never reaches {end}")
            }
            Self::IdleRequirement { requirement } => {
                write!(f, "the requirement `{requirement}` rejects nothing that those before it leave")
            }
            Self::Clones { rows, environments } => write!(
                f,
                "{rows} rows are only {environments} different ones to the program; each of these is measured once"
            ),
            Self::InvalidDefaults { requirement } => write!(
                f,
                "the defaults break the requirement `{requirement}`; the valid row closest to them is the reference"
            ),
        }
    }
}
