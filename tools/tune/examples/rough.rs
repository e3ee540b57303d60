//! Rough landscapes for searches of others: `scripts/tuners` runs this program.
//!
//! `rough tune KIND SEED [PROPOSER…]` tunes a landscape, screened at random, by `tpe`, or by a program, and
//! prints what came of it. `rough serve KIND SEED` measures rows that a search outside asks for, a JSON
//! object a line: `{"measure": [places]}` is answered with `{"value"}` or `{"failed"}`, and `{"regret":
//! [places]}` with by which part that row is worse than the best one.

use std::collections::VecDeque;
use std::error::Error;
use std::io::{BufRead, Write, stdin, stdout};
use std::process::ExitCode;

use farcall_tune::evidence::TrialOutcome;
use farcall_tune::landscape::rough::{Kind, Rough};
use farcall_tune::result::EquivalenceSet;
use farcall_tune::search::{ExternalProposer, Problem, Proposer, RandomProposer, TpeProposer};
use serde_json::{Value, json};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rough: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let [verb, kind, seed, proposer @ ..] = arguments else {
        return Err("say tune or serve, a landscape and a seed".into());
    };
    let seed: u64 = seed.parse().map_err(|_| format!("`{seed}` is no seed"))?;
    let rough = Rough::new(kind.parse::<Kind>()?, seed);
    match verb.as_str() {
        "tune" => tune(rough, seed, proposer),
        "serve" => serve(rough),
        other => Err(format!("`{other}` is neither tune nor serve").into()),
    }
}

/// Tunes the landscape, and prints what came of it.
fn tune(rough: Rough, seed: u64, proposer: &[String]) -> Result<(), Box<dyn Error>> {
    let problem = rough.problem();
    let proposer: Box<dyn Proposer> = match proposer {
        [] => Box::new(RandomProposer::new(&problem, seed)),
        [name] if name == "tpe" => Box::new(TpeProposer::new(&problem, seed)),
        command => Box::new(ExternalProposer::start(command, seed, VecDeque::new())?),
    };
    let session = rough.tune(&problem, proposer)?;
    let set = EquivalenceSet::new(&session.knowledge(), 0).ok_or("nothing was measured")?;
    let regret = |environment: usize| rough.regret(&problem, problem.row(environment));
    let found = json!({
        "measurements": session.evidence().samples().len(),
        "regret": regret(set.best),
        "in_set": set.members.iter().any(|&one| regret(one) == 0.0),
        "set": set.members.len(),
        "rows": problem.environments.len(),
    });
    Ok(writeln!(stdout(), "{found}")?)
}

/// Answers until nobody asks any more.
fn serve(rough: Rough) -> Result<(), Box<dyn Error>> {
    let problem = rough.problem();
    let (factors, levels) = rough.places();
    let mut out = stdout().lock();
    writeln!(out, "{}", json!({ "parameters": factors, "values": levels }))?;
    let mut measured = 0;
    for line in stdin().lock().lines() {
        let line = line?;
        let answer = answer(rough, &problem, &line, &mut measured);
        writeln!(out, "{}", answer.ok_or_else(|| format!("`{line}` asks for no row"))?)?;
        out.flush()?;
    }
    Ok(())
}

fn answer(rough: Rough, problem: &Problem, line: &str, measured: &mut usize) -> Option<Value> {
    let asked: Value = serde_json::from_str(line).ok()?;
    if let Some(row) = row_of(rough, asked.get("regret")) {
        return Some(json!({ "regret": rough.regret(problem, &row) }));
    }
    let row = row_of(rough, asked.get("measure"))?;
    let outcome = rough.measure(&row, *measured);
    *measured += 1;
    Some(match outcome {
        TrialOutcome::Measured(values) => json!({ "value": values[0] }),
        TrialOutcome::Censored(_) => json!({ "failed": true }),
    })
}

/// The places that are asked for, if they are those of a row.
fn row_of(rough: Rough, places: Option<&Value>) -> Option<Vec<u16>> {
    let (factors, levels) = rough.places();
    let place = |place: &Value| u16::try_from(place.as_u64()?).ok().filter(|place| *place < levels);
    let row: Vec<u16> = places?.as_array()?.iter().map(place).collect::<Option<_>>()?;
    (row.len() == factors).then_some(row)
}
