//! `farcall sim swarm`: random clusters under random faults, for as many seeds as one likes.

use std::time::Instant;

use farcall::TransportKind;
use farcall_swarm::{Case, FAULT_KINDS, Findings, LeftOut, Minimal, Scenario, explore, judge, shrink};
use serde_json::{Value, json};

use crate::arguments::Swarm;
use crate::failure::Failure;
use crate::output::Report;
use crate::progress::Progress;

/// The version of the objects that `--json` writes.
const SCHEMA: &str = "farcall.swarm.v1";

/// What all runs came to together.
#[derive(Default)]
struct Sum {
    runs: usize,
    calls: usize,
    answered: usize,
    packets: u64,
    /// The first that broke a rule, and how many did.
    failed: Option<(Case, usize)>,
}

/// Runs every seed over every transport.
pub fn run(swarm: &Swarm) -> Result<(), Failure> {
    let mut cases = cases(swarm)?;
    let mut report = Report::open(swarm.output.json.as_ref())?;
    if let Some(left_out) = &swarm.without {
        return run_reduced(&cases, left_out, &mut report);
    }
    if swarm.seeds == 1 {
        for case in &cases {
            report.line(Scenario::draw(case.seed, case.transport))?;
        }
    }
    let begun = Instant::now();
    // Until so many minutes are over: how many seeds that will be is not known.
    let by_time = swarm.minutes.map(|minutes| (60 * minutes) as f64);
    let progress = Progress::new(if by_time.is_some() { 1 } else { cases.len() }, swarm.output.quiet);
    let hear = progress.hearer();
    let mut sum = Sum::default();
    let mut written = Ok(());
    loop {
        explore(&cases, std::thread::available_parallelism().map_or(1, usize::from), |case, findings| {
            sum.add(case, &findings);
            match by_time {
                Some(seconds) => hear(begun.elapsed().as_secs_f64() / seconds),
                None => progress.step(),
            }
            let told = progress.suspend(|| tell(case, &findings, swarm.seeds == 1, &mut report));
            written = core::mem::replace(&mut written, Ok(())).and(told);
        });
        let is_over = swarm.minutes.is_none_or(|minutes| begun.elapsed().as_secs() >= 60 * minutes);
        if is_over || written.is_err() {
            break;
        }
        cases.iter_mut().for_each(|case| case.seed += swarm.seeds);
        progress
            .suspend(|| report.line(format_args!("{} runs, now from seed {} on", sum.runs, cases[0].seed)))?;
    }
    written?;
    drop(progress);
    if let Some((case, _)) = sum.failed {
        tell_minimal(&shrink(case), &mut report)?;
    }
    sum.show(begun.elapsed().as_secs_f64(), &mut report)
}

/// Runs what is left of each case.
fn run_reduced(cases: &[Case], left_out: &LeftOut, report: &mut Report) -> Result<(), Failure> {
    let mut is_broken = false;
    for case in cases {
        let mut scenario = Scenario::draw(case.seed, case.transport);
        left_out.apply(&mut scenario);
        let findings = judge(&scenario);
        is_broken |= !findings.violations.is_empty();
        tell_minimal(&Minimal { case: *case, left_out: left_out.clone(), findings }, report)?;
    }
    if is_broken { Err(Failure::Run("a rule is broken".into())) } else { Ok(()) }
}

/// Describes a scenario from which much is left out, and what comes of it.
fn tell_minimal(minimal: &Minimal, report: &mut Report) -> Result<(), Failure> {
    let mut scenario = Scenario::draw(minimal.case.seed, minimal.case.transport);
    minimal.left_out.apply(&mut scenario);
    report.line(format_args!("what is left of it:\n{scenario}"))?;
    for violation in &minimal.findings.violations {
        report.line(format_args!("  {violation}"))?;
    }
    report.line(format_args!("  again: {}", minimal.command()))
}

fn cases(swarm: &Swarm) -> Result<Vec<Case>, Failure> {
    let transports = if swarm.transport.is_empty() { TransportKind::SIMULATED } else { &swarm.transport };
    if let Some(real) = transports.iter().find(|transport| !transport.is_simulated()) {
        let sentence =
            format!("--transport: {real} is not simulated; choose from basic+sim, homa+sim and ring+sim");
        return Err(Failure::Usage(sentence));
    }
    let Some(end) = swarm.seed.checked_add(swarm.seeds) else {
        return Err(Failure::Usage("--seed: there are not that many seeds above this one".into()));
    };
    let of_seed = |seed| transports.iter().map(move |&transport| Case { seed, transport });
    Ok((swarm.seed..end).flat_map(of_seed).collect())
}

/// Writes the object of a run, and for people what was wrong with it.
fn tell(case: Case, findings: &Findings, in_full: bool, report: &mut Report) -> Result<(), Failure> {
    report.object(&object(case, findings))?;
    if !findings.violations.is_empty() {
        report.line(format_args!("seed {} over {} breaks rules:", case.seed, case.transport))?;
        for violation in &findings.violations {
            report.line(format_args!("  {violation}"))?;
        }
        report.line(format_args!("  again: {}", case.command()))?;
    }
    if in_full {
        let Findings { calls, answered, failed, refused, lost, peers_lost, totals, trace_hash, .. } =
            findings;
        report.line(format_args!(
            "{}: {calls} calls: {answered} answered, {failed} failed, {refused} refused, {lost} lost with their \
             callers; {peers_lost} peers lost; {} packets; trace {trace_hash:016x}",
            case.transport, totals.packets_sent
        ))?;
    }
    Ok(())
}

fn object(case: Case, findings: &Findings) -> Value {
    json!({
        "schema": SCHEMA,
        "command": "sim swarm",
        "seed": case.seed,
        "transport": case.transport.name(),
        "violations": findings.violations,
        "trace_hash": format!("{:016x}", findings.trace_hash),
        "calls": findings.calls,
        "answered": findings.answered,
        "failed": findings.failed,
        "refused": findings.refused,
        "lost": findings.lost,
        "peers_lost": findings.peers_lost,
        "messages": findings.messages,
        "received": findings.received,
        "collectives": findings.collectives,
        "stored": findings.stored,
        "faults": findings.fault_kinds.iter().map(|place| FAULT_KINDS[*place].name).collect::<Vec<_>>(),
        "packets": findings.totals.packets_sent,
        "again": case.command(),
    })
}

impl Sum {
    fn add(&mut self, case: Case, findings: &Findings) {
        self.runs += 1;
        self.calls += findings.calls;
        self.answered += findings.answered;
        self.packets += findings.totals.packets_sent;
        if !findings.violations.is_empty() {
            let (first, failed) = self.failed.unwrap_or((case, 0));
            let first = if case.seed < first.seed { case } else { first };
            self.failed = Some((first, failed + 1));
        }
    }

    fn show(&self, seconds: f64, report: &mut Report) -> Result<(), Failure> {
        let Self { runs, calls, answered, packets, failed } = self;
        report.line(format_args!(
            "{runs} runs, {} of which break a rule; {calls} calls, {answered} of them answered; {packets} packets; \
             {:.1} runs/s",
            failed.map_or(0, |(_, failed)| failed),
            *runs as f64 / seconds
        ))?;
        match failed {
            None => Ok(()),
            Some((case, failed)) => Err(Failure::Run(format!(
                "{failed} of {runs} runs break a rule; to see the first again: {}",
                case.command()
            ))),
        }
    }
}
