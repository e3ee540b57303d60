//! From files and arguments to a problem, a plan and something that runs trials.

use std::path::Path;
use std::sync::Arc;

use farcall_lab::run::bench::Bench;
use farcall_tune::experiment::{Experiment, ExperimentFile, StrategyName};
use farcall_tune::import::otpo;
use farcall_tune::journal::Begin;
use farcall_tune::landscape::Shape;
use farcall_tune::metric::{Goal, Metric, Role};
use farcall_tune::objective::{
    CommandObjective, ExchangeObjective, Objective, ObjectivePlan, Rehearsal, ResidentObjective, Watched,
};
use farcall_tune::plan::Plan;
use farcall_tune::search::Problem;
use farcall_tune::space::Rows;
use farcall_tune::tuning::Tuning;

use super::directory::Directory;
use crate::arguments::{LandscapeArgument, MEASURED, Tune};
use crate::failure::Failure;
use crate::progress::Interrupt;

/// A description that makes sense.
pub struct Loaded {
    /// As it was written.
    pub file: ExperimentFile,
    /// What is searched.
    pub problem: Problem,
    objective: Option<ObjectivePlan>,
    search: farcall_tune::experiment::SearchEntry,
    rehearsal: Shape,
}

impl Loaded {
    /// Reads a file: OTPO's, unless its name ends as those in TOML do.
    pub fn read(path: &Path, tune: &Tune) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::Run(format!("cannot read {}: {error}", path.display())))?;
        let failed = |error: &dyn core::fmt::Display| Failure::Run(format!("{}: {error}", path.display()));
        let file = match path.extension().is_some_and(|extension| extension == "toml") {
            true => ExperimentFile::read(&text).map_err(|error| failed(&error))?,
            false => otpo::read(&text).map_err(|error| failed(&error))?,
        };
        let shape = if tune.rehearse == Some(LandscapeArgument::Flat) { Shape::FLAT } else { Shape::PEAKED };
        Self::of(file, tune.seed, shape).map_err(|error| failed(&error))
    }

    /// What a directory was begun with.
    pub fn resume(directory: &Directory, begin: &Begin) -> Result<Self, Failure> {
        let file = directory.experiment()?;
        let shape = if begin.plan.flat { Shape::FLAT } else { Shape::PEAKED };
        Self::of(file, begin.plan.seed, shape).map_err(Failure::run)
    }

    fn of(
        file: ExperimentFile,
        seed: u64,
        rehearsal: Shape,
    ) -> Result<Self, farcall_tune::experiment::ExperimentError> {
        let Experiment { space, mut metrics, objective, search } = file.experiment()?;
        let rows = Rows::of(&space, seed)?;
        if metrics.is_empty() {
            // A rehearsal needs something to measure.
            let role = Role::Objective { indifference: 0.0 };
            metrics.push(Metric { name: "cost".to_owned(), unit: "ns".to_owned(), goal: Goal::Min, role });
        }
        let problem = Problem::new(space, rows, metrics);
        Ok(Self { file, problem, objective, search, rehearsal })
    }

    /// The plan, with what the command line says about it.
    pub fn plan(&self, tune: &Tune) -> Plan {
        let mut entry = self.search.clone();
        entry.strategy = tune.strategy.or(entry.strategy);
        entry.budget = tune.budget.map(|budget| budget as usize).or(entry.budget);
        entry.confirm = tune.confirm.map(|blocks| blocks as usize).or(entry.confirm);
        let plan = Plan::new(&self.problem, &entry, tune.seed);
        let flat = tune.rehearse == Some(LandscapeArgument::Flat);
        Plan { rehearsal: tune.rehearse.is_some(), flat, ..plan }
    }

    /// What would keep a search from running, as far as it can be seen from here.
    pub fn missing(&self, plan: &Plan) -> Vec<String> {
        let has_proposer = plan.strategy != StrategyName::Proposer || plan.proposer.is_some();
        let proposer = (!has_proposer).then(|| "the file names no proposer for that strategy".to_owned());
        // A rehearsal runs no command.
        let objective = self.objective.as_ref().filter(|_| !plan.rehearsal);
        let objective = objective.and_then(|objective| Some(objective.check().err()?.to_string()));
        proposer.into_iter().chain(objective).collect()
    }

    /// About how many trials a plan has, with its confirmation. Nothing is started for it: another program
    /// that proposes is asked for as many rows as are drawn at random instead.
    pub fn trials(&self, plan: &Plan) -> Result<usize, Failure> {
        let strategy = match plan.strategy {
            StrategyName::Proposer => StrategyName::Halving,
            strategy => strategy,
        };
        let plan = Plan { strategy, ..plan.clone() };
        let tuning = Tuning::begin(&self.problem, &plan, None).map_err(Failure::run)?;
        Ok(tuning.session().remaining())
    }

    /// Refuses a budget that somebody gave and that no search of this strategy keeps.
    pub fn check_budget(&self, tune: &Tune, plan: &Plan) -> Result<(), Failure> {
        let Some(budget) = tune.budget.map(|budget| budget as usize).or(self.search.budget) else {
            return Ok(());
        };
        let least = self.trials(&Plan { budget: 1, confirm: 0, ..plan.clone() })?;
        // A budget is about what is made: of rows the reference runs beside them.
        if least * 4 <= budget * 5 {
            return Ok(());
        }
        let strategy = plan.strategy.name();
        Err(Failure::Usage(format!(
            "a budget of {budget} is less than the {least} trials that the least {strategy} search of this space \
             takes; give --budget {least} or more"
        )))
    }

    /// The command of the reference and the proposer, as far as there are any: what others wrote into a
    /// directory is run.
    pub fn commands(&self, directory: &Directory) -> Vec<String> {
        let path = directory.path().display().to_string();
        let space = &self.problem.space;
        let reference = space.render(self.problem.row(self.problem.reference), &path);
        let variables = reference.environment().map(|(name, value)| format!("{name}={value}"));
        let arguments = reference.arguments();
        let trial = variables.chain(arguments.iter().map(|&argument| argument.to_owned()));
        let trial = (!arguments.is_empty()).then(|| words(trial));
        let proposer = self.search.proposer.as_ref().map(|command| words(command.iter().cloned()));
        trial.into_iter().chain(proposer).collect()
    }

    /// What runs the trials.
    pub fn objective(
        &self,
        plan: &Plan,
        directory: Option<&Directory>,
        interrupt: &Interrupt,
    ) -> Result<Box<dyn Objective>, Failure> {
        if plan.rehearsal {
            return Ok(Box::new(Rehearsal::new(&self.problem, self.rehearsal, plan.seed)));
        }
        let nothing =
            || Failure::Run("the file says nothing to run; add an [objective], or use --rehearse".to_owned());
        let directory = directory.ok_or_else(nothing)?.path();
        match self.objective.clone().ok_or_else(nothing)? {
            ObjectivePlan::Command(command) if command.resident => {
                let resident = ResidentObjective::new(command, directory, interrupt.flag());
                watched_if(plan.watch_cores, resident.map_err(Failure::run)?)
            }
            ObjectivePlan::Command(command) => {
                let command = CommandObjective::new(command, directory, interrupt.flag());
                watched_if(plan.watch_cores, command.map_err(Failure::run)?)
            }
            ObjectivePlan::Exchange(exchanges) => {
                let bench = Arc::new(Bench::new().map_err(Failure::run)?);
                // The space comes after them.
                let settings = MEASURED.map(str::to_owned).to_vec();
                let exchange =
                    ExchangeObjective::new(exchanges, Arc::clone(&bench), settings, interrupt.flag());
                Ok(Box::new(Watched::new(exchange, bench)))
            }
        }
    }
}

/// Words as one line; those that would not look like one word are quoted.
fn words(words: impl Iterator<Item = String>) -> String {
    let shown = |word: String| match word.is_empty() || word.contains(|c: char| c.is_whitespace() || c == '"')
    {
        true => format!("{word:?}"),
        false => word,
    };
    words.map(shown).collect::<Vec<_>>().join(" ")
}

/// Watches the cores beside it, if that is wanted.
fn watched_if(watch_cores: bool, objective: impl Objective + 'static) -> Result<Box<dyn Objective>, Failure> {
    if !watch_cores {
        return Ok(Box::new(objective));
    }
    Ok(Box::new(Watched::new(objective, Arc::new(Bench::new().map_err(Failure::run)?))))
}
