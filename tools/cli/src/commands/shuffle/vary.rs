//! `farcall shuffle --vary`.

use farcall::TransportKind;
use farcall::parameters::Settings;
use farcall_lab::run::bench::Bench;
use farcall_lab::run::collective::launches::{self, Means, Place};
use farcall_lab::run::collective::{CollectivePlan, Summary};
use farcall_lab::run::simulation::UNCHECKED;
use farcall_lab::units::Size;

use super::{for_nodes, launch_failure, place, plan, profile};
use crate::arguments::Shuffle;
use crate::commands::vary::{self, Metric, VariedTest, time};
use crate::failure::Failure;
use crate::output::Report;

/// What is known of each number of nodes and size.
const METRICS: [Metric; 2] = [time("p50"), time("mean")];

/// Refuses what cannot be varied.
pub fn check(shuffle: &Shuffle, cells: &[(u32, Size)]) -> Result<(), Failure> {
    if shuffle.varying.vary.is_empty() {
        return Ok(());
    }
    if shuffle.push.len() > 1 {
        return Err(Failure::Usage("--vary: choose one way to --push; it is no parameter".to_owned()));
    }
    for &transport in &shuffle.transport {
        let varied = VariedShuffle { shuffle, transport, cells, bench: None };
        vary::check(&shuffle.varying, shuffle.tuning.seed, &varied)?;
        if !transport.is_simulated() {
            shuffle.over.bench().map_err(Failure::run)?;
        }
    }
    Ok(())
}

/// Runs the shuffle over every transport.
pub fn run(shuffle: &Shuffle, cells: &[(u32, Size)], mut report: Report) -> Result<(), Failure> {
    for &transport in &shuffle.transport {
        let bench = match transport.is_simulated() {
            true => None,
            false => Some(shuffle.over.bench().map_err(Failure::run)?),
        };
        let varied = VariedShuffle { shuffle, transport, cells, bench };
        let (seed, quiet) = (shuffle.tuning.seed, shuffle.output.quiet);
        vary::run(&shuffle.varying, seed, &varied, &mut report, quiet)?;
    }
    report.end()
}

/// Operations over one transport.
struct VariedShuffle<'a> {
    shuffle: &'a Shuffle,
    transport: TransportKind,
    cells: &'a [(u32, Size)],
    /// Where real ones run.
    bench: Option<Bench>,
}

impl VariedTest for VariedShuffle<'_> {
    type Prepared = (Place, Means);

    fn names(&self) -> (&'static str, String, String) {
        ("shuffle", self.shuffle.collective.name().to_owned(), self.transport.name().to_owned())
    }

    fn rows(&self) -> Vec<String> {
        let row = |&(ranks, size): &(u32, Size)| format!("{}.{ranks}x{}", self.shuffle.collective, size.0);
        self.cells.iter().map(row).collect()
    }

    fn metrics(&self) -> &'static [Metric] {
        &METRICS
    }

    fn settings(&self) -> Result<Settings, Failure> {
        Ok(self.shuffle.tuning.load_with(&UNCHECKED)?.1)
    }

    fn prepare(&self, assignments: &[String]) -> Result<Self::Prepared, Failure> {
        let mut shuffle = self.shuffle.clone();
        shuffle.tuning.replace(assignments);
        shuffle.transport = vec![self.transport];
        let profile = profile(&shuffle)?;
        let (assignments, settings) = shuffle.tuning.load_with(&UNCHECKED)?;
        let schedule = shuffle.faults.schedule.clone();
        let means = Means { transport: self.transport, settings, assignments, schedule, counts: false };
        Ok((place(&shuffle, self.transport, profile.as_ref()), means))
    }

    fn bench(&self) -> Option<&Bench> {
        self.bench.as_ref()
    }

    fn measure(&self, row: usize, prepared: &Self::Prepared, seed: u64) -> Result<Vec<Option<f64>>, Failure> {
        let (ranks, size) = self.cells[row];
        let (place, means) = (for_nodes(self.shuffle, &prepared.0, ranks)?, &prepared.1);
        let whole = plan(self.shuffle, ranks, size, self.shuffle.push[0]);
        let operations = self.shuffle.ops.div_ceil(self.shuffle.varying.blocks()) as u32;
        let plan = CollectivePlan { operations, seed, ..whole };
        let launches = launches::run(&[plan], 1, &place, means, &|_| ());
        let launches = launches.map_err(|error| launch_failure(means, error))?;
        let times: Vec<_> = launches.into_iter().flatten().flat_map(|launch| launch.times).collect();
        let summary = Summary::of(&times);
        Ok(vec![summary.map(|summary| summary.p50 as f64), summary.map(|summary| summary.mean)])
    }
}
