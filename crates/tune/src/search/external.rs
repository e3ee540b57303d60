//! A program outside that says what is screened.
//!
//! It speaks JSON lines, as docs/tuning.md describes them. Its proposals are assignments; the valid row closest to one is
//! what runs, so that nobody can propose what is not allowed.

use core::time::Duration;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Map, Value as Json, json};

use super::proposer::nearest_row;
use super::{Knowledge, Problem, Proposer, SearchError};
use crate::evidence::{Outcome, Sample};
use crate::metric::Metric;
use crate::space::{Parameter, Value};

/// The most proposals that are asked for at once: a model learns from each batch.
const BATCH: usize = 8;

/// How long a program may think about a batch.
const PATIENCE: Duration = Duration::from_secs(120);

/// The longest answer, in bytes: a batch of rows is far below.
const ANSWER_MAX: usize = 1 << 20;

/// A program that proposes.
pub struct ExternalProposer {
    name: String,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    told: usize,
    /// What it proposed in a run that is being resumed.
    recorded: VecDeque<Vec<usize>>,
    introduced: bool,
    seed: u64,
    patience: Duration,
}

impl ExternalProposer {
    /// Starts the program. `recorded` are the blocks that it proposed before, when a run is resumed: it is told of them
    /// and not asked again.
    pub fn start(command: &[String], seed: u64, recorded: VecDeque<Vec<usize>>) -> Result<Self, SearchError> {
        let name = command.first().cloned().unwrap_or_default();
        let failed = |what: String| SearchError::Proposer { program: name.clone(), what };
        let mut start = Command::new(&name);
        start.args(command.iter().skip(1)).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = start.spawn().map_err(|error| failed(format!("cannot be started: {error}")))?;
        let pipes = (child.stdin.take(), child.stdout.take());
        let (Some(input), Some(output)) = pipes else { return Err(failed("has no pipes".to_owned())) };
        let output = BufReader::new(output);
        Ok(Self {
            name,
            child,
            input,
            output,
            told: 0,
            recorded,
            introduced: false,
            seed,
            patience: PATIENCE,
        })
    }

    fn failed(&self, what: impl Into<String>) -> SearchError {
        SearchError::Proposer { program: self.name.clone(), what: what.into() }
    }

    fn say(&mut self, message: &Json) -> Result<(), SearchError> {
        let sent = writeln!(self.input, "{message}").and_then(|()| self.input.flush());
        sent.map_err(|error| self.failed(format!("does not listen: {error}")))
    }

    fn hear(&mut self) -> Result<Json, SearchError> {
        let line = self.line()?;
        serde_json::from_str(&line).map_err(|_| self.failed(format!("answered `{line}`, which is not JSON")))
    }

    /// The next line; a program that hangs is not waited for.
    fn line(&mut self) -> Result<String, SearchError> {
        let deadline = Instant::now() + self.patience;
        let mut line = Vec::new();
        while line.len() < ANSWER_MAX {
            if self.output.buffer().is_empty() && !readable(self.output.get_ref(), deadline) {
                return Err(self.failed(format!("did not answer within {:?}", self.patience)));
            }
            let heard = match self.output.fill_buf() {
                Ok([]) => {
                    return Err(self.failed("ended before it proposed anything; see what it wrote above"));
                }
                Ok(heard) => heard,
                Err(error) => {
                    let what = format!("cannot be heard: {error}");
                    return Err(self.failed(what));
                }
            };
            let end = heard.iter().position(|byte| *byte == b'\n');
            line.extend_from_slice(&heard[..end.unwrap_or(heard.len())]);
            let used = end.map_or(heard.len(), |end| end + 1);
            self.output.consume(used);
            if end.is_some() {
                return Ok(String::from_utf8_lossy(&line).into_owned());
            }
        }
        Err(self.failed(format!("answered more than {ANSWER_MAX} bytes in a line")))
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

    /// Tells of the samples since the last time, relative to the reference of the same block where there is one.
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
        // A program that does not end when nobody talks to it any more has to be ended; it has nothing to lose.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether there is something to read, or the end of it, before the deadline.
fn readable(output: &ChildStdout, deadline: Instant) -> bool {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let span = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        match poll(&mut [PollFd::new(output, PollFlags::IN)], Some(&span)) {
            Ok(ready) => return ready > 0,
            // A signal: whoever sent it is heard once this is over.
            Err(_) if !left.is_zero() => {}
            Err(_) => return false,
        }
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
    let Outcome::Measured(values) = &sample.outcome else {
        return json!({ "values": assignment, "failed": true });
    };
    let reference = evidence.samples().iter().rev().find_map(|other| {
        let same = other.block == sample.block
            && other.regime == sample.regime
            && other.environment == problem.reference;
        match &other.outcome {
            Outcome::Measured(values) if same => Some(values),
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

/// The wanted level of each parameter, where the assignment names one: the value closest to a number, the same word.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(script: &str, patience: Duration) -> Result<String, String> {
        let command = ["sh", "-c", script].map(str::to_owned);
        let mut proposer = ExternalProposer::start(&command, 1, VecDeque::new()).expect("there is a shell");
        proposer.patience = patience;
        proposer.line().map_err(|error| error.to_string())
    }

    #[test]
    fn a_proposer_that_hangs_is_not_waited_for() {
        let hung = heard("printf '{\"half\":'; exec sleep 1000", Duration::from_millis(20));
        assert_eq!(hung, Err("the proposer `sh` did not answer within 20ms".to_owned()));
    }

    #[test]
    fn an_answer_may_come_in_pieces_and_must_end() {
        assert_eq!(heard("printf a; printf 'b\\nc'", PATIENCE), Ok("ab".to_owned()));
        let endless = heard("exec cat /dev/zero", PATIENCE).expect_err("it has no end");
        assert_eq!(endless, "the proposer `sh` answered more than 1048576 bytes in a line");
    }
}
