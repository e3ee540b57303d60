//! `farcall benchkv --vary`.

use farcall::parameters::Settings;
use farcall_lab::run::bench::Bench;
use farcall_lab::run::benchkv::{BenchKv, ClassResult, run as run_bench};

use super::plan;
use crate::arguments::benchkv::BenchKvArguments;
use crate::arguments::load_settings;
use crate::commands::vary::{self, Metric, VariedTest, rate, time};
use crate::failure::Failure;
use crate::output::Report;

/// What is known of the store.
const METRICS: [Metric; 5] =
    [rate("rps"), time("local.p50"), time("remote.p50"), time("local.mean"), time("remote.mean")];

/// Refuses two plans at once.
pub fn check(arguments: &BenchKvArguments) -> Result<(), Failure> {
    if arguments.sweep.is_some() && !arguments.varying.vary.is_empty() {
        return Err(Failure::Usage("--vary and --sweep are two plans; choose one".to_owned()));
    }
    Ok(())
}

/// Refuses parameters that cannot be varied.
pub fn check_parameters(arguments: &BenchKvArguments, bench: &Bench) -> Result<(), Failure> {
    match arguments.varying.vary.is_empty() {
        true => Ok(()),
        false => vary::check(&arguments.varying, arguments.tuning.seed, &VariedStore { arguments, bench }),
    }
}

/// Runs the benchmark.
pub fn run(arguments: &BenchKvArguments, bench: &Bench, mut report: Report) -> Result<(), Failure> {
    let varied = VariedStore { arguments, bench };
    let (seed, quiet) = (arguments.tuning.seed, arguments.output.quiet);
    vary::run(&arguments.varying, seed, &varied, &mut report, quiet)?;
    report.end()
}

/// A store under load.
struct VariedStore<'a> {
    arguments: &'a BenchKvArguments,
    bench: &'a Bench,
}

impl VariedTest for VariedStore<'_> {
    type Prepared = BenchKv;

    fn names(&self) -> (&'static str, String, String) {
        ("benchkv", "benchkv".to_owned(), self.arguments.transport().name().to_owned())
    }

    fn rows(&self) -> Vec<String> {
        vec!["benchkv".to_owned()]
    }

    fn metrics(&self) -> &'static [Metric] {
        &METRICS
    }

    fn settings(&self) -> Result<Settings, Failure> {
        load_settings(&plan(self.arguments)?.settings)
    }

    fn prepare(&self, assignments: &[String]) -> Result<Self::Prepared, Failure> {
        let mut arguments = self.arguments.clone();
        arguments.tuning.replace(assignments);
        let whole = plan(&arguments)?;
        Ok(BenchKv { lasting: whole.lasting / arguments.varying.blocks() as u32, runs: 1, ..whole })
    }

    fn bench(&self) -> Option<&Bench> {
        Some(self.bench)
    }

    fn measure(
        &self,
        _row: usize,
        prepared: &Self::Prepared,
        seed: u64,
    ) -> Result<Vec<Option<f64>>, Failure> {
        let bench = BenchKv { seed, ..prepared.clone() };
        let results = run_bench(&bench, self.bench).map_err(Failure::run)?;
        let Some(result) = results.first() else { return Ok(vec![None; METRICS.len()]) };
        let p50 = |class: &ClassResult| class.latencies.summary()?.p50_nanos.map(|nanos| nanos as f64);
        let mean = |class: &ClassResult| Some(class.latencies.summary()?.mean_nanos);
        Ok(vec![
            Some(result.per_second),
            p50(&result.local),
            p50(&result.remote),
            mean(&result.local),
            mean(&result.remote),
        ])
    }
}
