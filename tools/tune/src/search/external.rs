//! A program outside that says what is screened.
//!
//! It speaks JSON lines, as docs/tuning.md describes them. Its proposals are assignments; the valid row
//! closest to one is what runs, so that nobody can propose what is not allowed.

use core::time::Duration;
use std::collections::VecDeque;
use std::io::Write;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Instant;

use serde_json::{Map, Value as Json, json};

use super::proposer::nearest_row;
use super::{Knowledge, Problem, Proposer, SearchError};
use crate::answers::{Answers, Silence};
use crate::evidence::{Sample, TrialOutcome};
use crate::metric::Metric;
use crate::space::{Parameter, Value};

/// The most proposals that are asked for at once: a model learns from each batch.
const BATCH: usize = 8;

/// How long a program may think about a batch.
const PATIENCE: Duration = Duration::from_secs(120);

/// A program that proposes.
pub struct ExternalProposer {
    name: String,
    child: Child,
    input: ChildStdin,
    output: Answers,
    told: usize,
    /// What it proposed in a run that is being resumed.
    recorded: VecDeque<Vec<usize>>,
    introduced: bool,
    seed: u64,
}

impl ExternalProposer {
    /// Starts the program. `recorded` are the blocks that it proposed before, when a run is resumed: it is
    /// told about them and not asked again.
    pub fn start(command: &[String], seed: u64, recorded: VecDeque<Vec<usize>>) -> Result<Self, SearchError> {
        let name = command.first().cloned().unwrap_or_default();
        let failed = |what: String| SearchError::Proposer { program: name.clone(), what };
        let mut start = Command::new(&name);
        start.args(command.iter().skip(1)).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = start.spawn().map_err(|error| failed(format!("cannot be started: {error}")))?;
        let pipes = (child.stdin.take(), child.stdout.take());
        let (Some(input), Some(output)) = pipes else { return Err(failed("has no pipes".to_owned())) };
        let output = Answers::new(output);
        Ok(Self { name, child, input, output, told: 0, recorded, introduced: false, seed })
    }

    fn failed(&self, what: impl Into<String>) -> SearchError {
        SearchError::Proposer { program: self.name.clone(), what: what.into() }
    }

    fn say(&mut self, message: &Json) -> Result<(), SearchError> {
        let sent = writeln!(self.input, "{message}").and_then(|()| self.input.flush());
        sent.map_err(|error| self.failed(format!("does not listen: {error}")))
    }

    fn hear(&mut self) -> Result<Json, SearchError> {
        let heard = self.output.line(Instant::now() + PATIENCE, || false);
        let line = heard.map_err(|silence| self.failed(sentence(&silence)))?;
        serde_json::from_str(&line).map_err(|_| self.failed(format!("answered `{line}`, which is not JSON")))
    }

    fn introduce(&mut self, problem: &Problem) -> Result<(), SearchError> {
        if self.introduced {
            return Ok(());
        }
        self.introduced = true;
        let parameter = |parameter: &Parameter| {
            let levels: Vec<Json> = parameter.levels.iter().map(|level| json_of(&level.value)).collect();
            let ordered = parameter.kind.is_ordered();
            json!({ "name": parameter.name, "values": levels, "default": parameter.default, "ordered": ordered })
        };
        let parameters: Vec<Json> = problem.space.parameters.iter().map(parameter).collect();
        let metrics: Vec<Json> =
            problem.metrics.iter().map(|one| json!({ "name": one.name, "goal": one.goal })).collect();
        let seed = self.seed;
        self.say(&json!({ "begin": { "parameters": parameters, "metrics": metrics, "seed": seed } }))
    }

    /// Reports the samples since the last time, relative to the reference of the same block where there is
    /// one.
    fn tell(&mut self, known: &Knowledge) -> Result<(), SearchError> {
        let samples = known.evidence.samples();
        let told: Vec<Json> = samples[self.told..].iter().map(|sample| told(known, sample)).collect();
        self.told = samples.len();
        if told.is_empty() { Ok(()) } else { self.say(&json!({ "tell": told })) }
    }
}

impl Proposer for ExternalProposer {
    fn propose(&mut self, known: &Knowledge, count: usize) -> Result<Vec<usize>, SearchError> {
        self.introduce(known.problem)?;
        self.tell(known)?;
        if let Some(block) = self.recorded.pop_front() {
            return Ok(block);
        }
        self.say(&json!({ "ask": count.min(BATCH) }))?;
        let answer = self.hear()?;
        let Some(proposed) = answer.get("propose").and_then(Json::as_array) else {
            return Err(self.failed(format!("answered `{answer}`, which has no list `propose`")));
        };
        let mut environments = Vec::new();
        for proposal in proposed {
            let Some(assignment) = proposal.as_object() else {
                return Err(self.failed(format!("proposed `{proposal}`, which is no object of values")));
            };
            let row = nearest_row(known.problem, &levels_of(known.problem, assignment));
            let environment = known.problem.environments.of_row(row);
            if !environments.contains(&environment) {
                environments.push(environment);
            }
        }
        Ok(environments)
    }
}

impl Drop for ExternalProposer {
    fn drop(&mut self) {
        // A program that does not end when nobody talks to it any more has to be ended; it has nothing to
        // lose.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn sentence(silence: &Silence) -> String {
    match silence {
        Silence::Late | Silence::Interrupted => format!("did not answer within {PATIENCE:?}"),
        Silence::Ended => "ended before it proposed anything; see what it wrote above".to_owned(),
        Silence::Endless => "answered with a line that has no end".to_owned(),
        Silence::Broken(reason) => format!("cannot be heard: {reason}"),
    }
}

fn told(known: &Knowledge, sample: &Sample) -> Json {
    let Knowledge { problem, evidence, .. } = known;
    let row = problem.row(sample.environment);
    let assignment: Map<String, Json> = (0..row.len())
        .filter_map(|index| {
            Some((problem.space.parameters[index].name.clone(), json_of(problem.space.value(row, index)?)))
        })
        .collect();
    let TrialOutcome::Measured(values) = &sample.outcome else {
        return json!({ "values": assignment, "failed": true });
    };
    let reference = evidence.samples().iter().rev().find_map(|other| {
        let same = other.block == sample.block
            && other.regime == sample.regime
            && other.environment == problem.reference;
        match &other.outcome {
            TrialOutcome::Measured(values) if same => Some(values),
            _ => None,
        }
    });
    let metric = |(index, one): (usize, &Metric)| {
        let relative = reference.map(|reference| values[index] / reference[index]);
        (one.name.clone(), json!({ "value": values[index], "relative": relative }))
    };
    let metrics: Map<String, Json> = problem.metrics.iter().enumerate().map(metric).collect();
    json!({ "values": assignment, "metrics": metrics })
}

fn json_of(value: &Value) -> Json {
    match value {
        Value::Number(number) if number.fract() == 0.0 => json!(*number as i64),
        Value::Number(number) => json!(number),
        Value::Word(word) => json!(word),
        Value::Flag(flag) => json!(flag),
    }
}

/// The wanted level of each parameter, where the assignment names one: the value closest to a number, the
/// same word.
fn levels_of(problem: &Problem, assignment: &Map<String, Json>) -> Vec<Option<u16>> {
    let level = |parameter: &Parameter| {
        let wanted = assignment.get(&parameter.name)?;
        let same = parameter.levels.iter().position(|level| json_of(&level.value) == *wanted);
        let distance = |value: &Value| match (value, wanted.as_f64()) {
            (Value::Number(number), Some(wanted)) => Some((number - wanted).abs()),
            _ => None,
        };
        let numbers = parameter
            .levels
            .iter()
            .enumerate()
            .filter_map(|(index, level)| Some((index, distance(&level.value)?)));
        let closest = numbers.min_by(|one, other| one.1.total_cmp(&other.1)).map(|(index, _)| index);
        same.or(closest).map(|level| level as u16)
    };
    problem.space.parameters.iter().map(level).collect()
}
