//! The file that describes a tuning: the space, what is run, what is read from it, and how the search is
//! done.

mod entries;
mod error;

use core::time::Duration;

use farcall::parameters::quantity::parse_duration;

pub use entries::{
    Argument, ExchangeEntry, ExperimentFile, FileEntry, MetricEntry, ObjectiveEntry, SearchEntry, Share,
    StrategyName, SuccessEntry, Take,
};
pub use error::ExperimentError;

use crate::metric::{Goal, Metric, Role};
use crate::objective::{CommandPlan, ExchangePlan, ObjectivePlan, Reader};
use crate::space::{Emission, Space, SpaceError, Target, Template};

/// The longest that a trial takes unless the file says otherwise.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The width of indifference unless the file says otherwise.
const INDIFFERENCE: f64 = 0.01;

/// A tuning as it was described, checked.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// What is searched.
    pub space: Space,
    /// What is measured.
    pub metrics: Vec<Metric>,
    /// How; nothing can be run without.
    pub objective: Option<ObjectivePlan>,
    /// How the search is done, as far as the file says.
    pub search: SearchEntry,
}

impl ExperimentFile {
    /// Reads a file in TOML.
    pub fn read(text: &str) -> Result<Self, ExperimentError> {
        toml::from_str(text).map_err(|error: toml::de::Error| {
            let line = error.span().map_or(1, |span| text[..span.start].lines().count().max(1));
            ExperimentError::Malformed { line, reason: error.message().to_owned() }
        })
    }

    /// Writes it in TOML.
    pub fn write(&self) -> String {
        toml::to_string(self).expect("entries are plain tables")
    }

    /// Its space alone.
    pub fn space(&self) -> Result<Space, SpaceError> {
        Space::from_entries(&self.parameter, &self.require, &self.emit, |names| self.emissions(names))
    }

    /// All of it, checked.
    pub fn experiment(&self) -> Result<Experiment, ExperimentError> {
        let space = self.space()?;
        self.check_resident(&space)?;
        let metrics = self.metric.iter().map(metric).collect::<Result<Vec<_>, _>>()?;
        let objective = self.objective.as_ref().map(|entry| self.plan(entry)).transpose()?;
        if objective.is_some() && !metrics.iter().any(Metric::is_objective) {
            return Err(ExperimentError::NoMetric);
        }
        let names: Vec<&String> = metrics.iter().map(|metric| &metric.name).collect();
        if let Some(twice) = names.iter().enumerate().find(|(index, name)| names[..*index].contains(name)) {
            return Err(ExperimentError::MetricTwice { name: (*twice.1).clone() });
        }
        // The first metric decides where only one can.
        if metrics.first().is_some_and(|first| !first.is_objective()) {
            return Err(ExperimentError::GuardFirst { name: metrics[0].name.clone() });
        }
        Ok(Experiment { space, metrics, objective, search: self.search.clone() })
    }

    /// A program that runs on is told something, and only such a one is.
    fn check_resident(&self, space: &Space) -> Result<(), ExperimentError> {
        let Some(objective) = &self.objective else { return Ok(()) };
        let told = space.emissions.iter().find_map(|emission| match &emission.target {
            Target::Told { name, .. } => Some(name.clone()),
            _ => None,
        });
        match told {
            Some(parameter) if !objective.resident => Err(ExperimentError::NotResident { parameter }),
            None if objective.resident => Err(ExperimentError::NothingToTell),
            Some(_) if objective.command.is_none() => Err(ExperimentError::NothingToTell),
            _ => Ok(()),
        }
    }

    /// What the objective makes of rows.
    fn emissions(&self, names: &[&str]) -> Result<Vec<Emission>, SpaceError> {
        let Some(objective) = &self.objective else { return Ok(Vec::new()) };
        let mut emissions = Vec::new();
        let mut push = |target, text: &str| {
            let template = Template::parse(text, names)?;
            emissions.push(Emission { target, template });
            Ok::<_, SpaceError>(())
        };
        for (name, text) in &objective.environment {
            push(Target::Environment(name.clone()), text)?;
        }
        for (group, argument) in objective.command.iter().flatten().enumerate() {
            for text in argument.texts() {
                push(Target::Argument { group }, text)?;
            }
        }
        for FileEntry { name, content } in &objective.file {
            for line in content.lines() {
                push(Target::Line { file: name.clone() }, line)?;
            }
        }
        Ok(emissions)
    }

    fn plan(&self, entry: &ObjectiveEntry) -> Result<ObjectivePlan, ExperimentError> {
        match (&entry.command, entry.workload.as_deref()) {
            (Some(command), None) if command.is_empty() => Err(ExperimentError::NoObjective),
            (Some(_), None) => Ok(ObjectivePlan::Command(self.command_plan(entry)?)),
            (None, Some("exchange")) => {
                let exchange = |metric: &MetricEntry| {
                    let entry = metric.exchange.clone();
                    let entry = entry.ok_or(ExperimentError::NoExchange { metric: metric.name.clone() })?;
                    ExchangePlan::new(&metric.name, &entry)
                };
                Ok(ObjectivePlan::Exchange(self.metric.iter().map(exchange).collect::<Result<_, _>>()?))
            }
            (None, Some(other)) => Err(ExperimentError::Workload { name: other.to_owned() }),
            _ => Err(ExperimentError::NoObjective),
        }
    }

    fn command_plan(&self, entry: &ObjectiveEntry) -> Result<CommandPlan, ExperimentError> {
        let timeout = match &entry.timeout {
            None => TIMEOUT,
            Some(text) => parse_duration(text)
                .ok()
                .filter(|timeout| !timeout.is_zero())
                .ok_or(ExperimentError::Timeout { text: text.clone() })?,
        };
        let success = entry.success.clone().unwrap_or_default();
        let pattern = success.pattern.as_deref().map(|text| Reader::regex("success", text)).transpose()?;
        let readers = self.metric.iter().map(Reader::new).collect::<Result<_, _>>()?;
        let first = entry.command.iter().flatten().flat_map(Argument::texts).next();
        let same = |text: &&String| !text.contains('{') && !entry.environment.contains_key("PATH");
        let program = first.filter(same).cloned();
        Ok(CommandPlan {
            program,
            resident: entry.resident,
            timeout,
            exit: success.exit,
            success: pattern,
            readers,
        })
    }
}

fn metric(entry: &MetricEntry) -> Result<Metric, ExperimentError> {
    let share = |share: &Share| share.get().ok_or(ExperimentError::Share { metric: entry.name.clone() });
    let role = match (&entry.guard, &entry.indifference) {
        (Some(_), Some(_)) => return Err(ExperimentError::TwoRoles { metric: entry.name.clone() }),
        (Some(guard), None) => Role::Guard { worsening: share(guard)? },
        (None, Some(width)) => Role::Objective { indifference: share(width)? },
        (None, None) => Role::Objective { indifference: INDIFFERENCE },
    };
    let goal = entry.goal.unwrap_or(Goal::Min);
    Ok(Metric { name: entry.name.clone(), unit: entry.unit.clone().unwrap_or_default(), goal, role })
}
