//! Which settings there are, and what they become in the world.
//!
//! A space is parameters with a finite list of levels each, requirements that rows must satisfy, and
//! emissions: the environment variables, arguments and lines of files through which a row reaches the
//! program. A parameter can have a condition; where it does not hold the parameter is not in play, and the
//! row has no level for it.

mod emission;
mod entries;
mod environments;
mod error;
mod grid;
mod lint;
mod parameter;
mod rows;
mod sample;
mod template;
mod value;

pub use emission::{Emission, Rendered, Target};
pub(crate) use entries::nearest_value;
pub use entries::{EmitEntry, ParameterEntry, RequireEntry, Scope};
pub use environments::Environments;
pub use error::SpaceError;
pub use grid::{Grid, GridError, GridFailure, LEVELS_MAX, Step};
pub use lint::{SpaceFinding, lint};
pub use parameter::{Condition, Level, Parameter, Requirement};
pub use rows::{Coverage, NOT_IN_PLAY, ROWS_MAX, Row, RowId, Rows};
pub use template::{DIRECTORY_FIELD, Template, TemplateError};
pub use value::{Kind, NUMBER_MAX, Value, ValueError};

use std::collections::BTreeMap;

use crate::expression::Expression;

/// Parameters, requirements and emissions that fit together.
#[derive(Clone, Debug)]
pub struct Space {
    /// The parameters, as they were declared.
    pub parameters: Vec<Parameter>,
    /// What every row satisfies.
    pub requirements: Vec<Requirement>,
    /// How rows reach the program.
    pub emissions: Vec<Emission>,
    /// The order in which parameters get their levels: each after those that its condition mentions.
    order: Vec<usize>,
    /// What must hold once each parameter, in this order, has its level.
    clauses: Vec<Vec<Clause>>,
}

/// A part of a requirement: all its parts must hold.
#[derive(Clone, Debug)]
struct Clause {
    requirement: usize,
    expression: Expression,
}

impl Space {
    /// Puts a space together, and finds an order for its parameters.
    pub fn new(
        parameters: Vec<Parameter>,
        requirements: Vec<Requirement>,
        emissions: Vec<Emission>,
    ) -> Result<Self, SpaceError> {
        if parameters.is_empty() {
            return Err(SpaceError::NoParameters);
        }
        let order = order_of(&parameters)?;
        let mut clauses = vec![Vec::new(); order.len()];
        for (requirement, Requirement { expression, .. }) in requirements.iter().enumerate() {
            for expression in expression.clauses() {
                let place = |parameter: &usize| order.iter().position(|other| other == parameter);
                let depth = expression.parameters().iter().filter_map(place).max().unwrap_or(0);
                clauses[depth].push(Clause { requirement, expression: expression.clone() });
            }
        }
        Ok(Self { parameters, requirements, emissions, order, clauses })
    }

    /// The parameters' names, in their order.
    pub fn names(&self) -> Vec<&str> {
        self.parameters.iter().map(|parameter| parameter.name.as_str()).collect()
    }

    /// The value of a parameter in a row; `None` when it is not in play.
    pub fn value(&self, row: &[u16], parameter: usize) -> Option<&Value> {
        Some(&self.level(row, parameter)?.value)
    }

    /// The level of a parameter in a row; `None` when it is not in play.
    pub fn level(&self, row: &[u16], parameter: usize) -> Option<&Level> {
        self.parameters[parameter].levels.get(usize::from(row[parameter]))
    }

    /// The levels of a row, as `name=value` for the parameters in play.
    pub fn describe(&self, row: &[u16]) -> Vec<(String, String)> {
        let shown = |(index, parameter): (usize, &Parameter)| {
            self.value(row, index).map(|value| (parameter.name.clone(), parameter.kind.show(value)))
        };
        self.parameters.iter().enumerate().filter_map(shown).collect()
    }

    /// The row that [`Space::describe`] says this of; `None` when a name or a value is not of this space.
    pub fn row_of(&self, described: &BTreeMap<String, String>) -> Option<Row> {
        let level = |parameter: &Parameter| match described.get(&parameter.name) {
            None => Some(NOT_IN_PLAY),
            Some(text) => {
                let level = (0..parameter.levels.len()).find(|level| parameter.show(*level) == *text);
                level.map(|level| level as u16)
            }
        };
        let known = |name: &String| self.parameters.iter().any(|parameter| parameter.name == *name);
        if !described.keys().all(known) {
            return None;
        }
        self.parameters.iter().map(level).collect()
    }

    /// The row in which every parameter in play has its default; it may break requirements.
    pub fn default_row(&self) -> Row {
        let mut row = vec![NOT_IN_PLAY; self.parameters.len()];
        for &index in &self.order {
            if self.in_play(&row, index) {
                row[index] = self.parameters[index].default as u16;
            }
        }
        row
    }

    /// In how many parameters a row differs from the defaults.
    pub fn changes(&self, row: &[u16]) -> usize {
        let changed = |(level, parameter): (&u16, &Parameter)| {
            *level != NOT_IN_PLAY && usize::from(*level) != parameter.default
        };
        row.iter().zip(&self.parameters).filter(|pair| changed((pair.0, pair.1))).count()
    }

    /// Gives a row another level of one parameter, and those whose conditions change with it their place: a
    /// parameter that comes into play gets its default. `None` when the parameter itself is not in play or
    /// the result breaks a requirement.
    pub fn with_level(&self, row: &[u16], parameter: usize, level: usize) -> Option<Row> {
        let mut changed = row.to_vec();
        for &index in &self.order {
            let in_play = self.in_play(&changed, index);
            changed[index] = match (in_play, changed[index]) {
                (false, _) if index == parameter => return None,
                (false, _) => NOT_IN_PLAY,
                (true, _) if index == parameter => level as u16,
                (true, NOT_IN_PLAY) => self.parameters[index].default as u16,
                (true, same) => same,
            };
        }
        self.is_valid(&changed).then_some(changed)
    }

    /// Whether a row satisfies all requirements.
    pub fn is_valid(&self, row: &[u16]) -> bool {
        self.requirements.iter().all(|requirement| self.satisfies(row, requirement))
    }

    /// Whether a row satisfies a requirement; one that is unknown is satisfied.
    fn satisfies(&self, row: &[u16], requirement: &Requirement) -> bool {
        self.holds(row, &requirement.expression) != Some(false)
    }

    fn holds(&self, row: &[u16], expression: &Expression) -> Option<bool> {
        expression.holds(&|index| self.value(row, index))
    }

    /// The requirement that a row breaks when it has its levels up to the parameter at `depth`, if it does.
    fn broken_at(&self, row: &[u16], depth: usize) -> Option<usize> {
        let broken = |clause: &&Clause| self.holds(row, &clause.expression) == Some(false);
        self.clauses[depth].iter().find(broken).map(|clause| clause.requirement)
    }

    /// Whether a parameter is in play in a row that has the levels of all before it.
    fn in_play(&self, row: &[u16], parameter: usize) -> bool {
        match &self.parameters[parameter].when {
            None => true,
            Some(condition) => self.holds(row, &condition.expression) == Some(true),
        }
    }
}

/// Each parameter after those that its condition mentions, otherwise as declared.
fn order_of(parameters: &[Parameter]) -> Result<Vec<usize>, SpaceError> {
    let mut order: Vec<usize> = Vec::with_capacity(parameters.len());
    while order.len() < parameters.len() {
        let ready = (0..parameters.len()).find(|index| {
            let needs =
                parameters[*index].when.iter().flat_map(|condition| condition.expression.parameters());
            !order.contains(index) && needs.into_iter().all(|needed| order.contains(&needed))
        });
        match ready {
            Some(index) => order.push(index),
            None => {
                let stuck = (0..parameters.len()).filter(|index| !order.contains(index));
                let names = stuck.map(|index| parameters[index].name.clone()).collect();
                return Err(SpaceError::CyclicConditions { names });
            }
        }
    }
    Ok(order)
}

#[cfg(test)]
mod tests;
