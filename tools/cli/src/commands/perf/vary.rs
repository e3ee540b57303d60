//! `farcall perf echo --vary`.

use farcall::TransportKind;
use farcall::parameters::Settings;
use farcall_lab::run::bench::Bench;
use farcall_lab::run::echo::EchoTest;
use farcall_lab::run::simulation::SimulatedFabric;
use farcall_lab::statistics::histogram::LatencySummary;
use farcall_lab::table::row_name;

use super::echo::{self, Echo};
use super::simulated::simulation_failure;
use super::workload::{Site, Workload};
use super::{simulated, sizes};
use crate::arguments::Perf;
use crate::commands::vary::{self, Metric, VariedTest, rate, time};
use crate::failure::Failure;
use crate::output::Report;

/// What is known of each size.
const METRICS: [Metric; 5] = [time("p50"), time("trimmed"), time("mean"), time("p99"), rate("rate")];

/// Refuses what cannot be varied over one transport.
pub fn check(perf: &Perf, transport: TransportKind, site: Site<'_>) -> Result<(), Failure> {
    vary::check(&perf.varying, perf.tuning.seed, &VariedEcho { perf, transport, site })
}

/// Runs the test over one transport.
pub fn run(
    perf: &Perf,
    transport: TransportKind,
    site: Site<'_>,
    report: &mut Report,
) -> Result<(), Failure> {
    let echo = VariedEcho { perf, transport, site };
    vary::run(&perf.varying, perf.tuning.seed, &echo, report, perf.output.quiet)
}

/// Echoes over one transport.
struct VariedEcho<'a> {
    perf: &'a Perf,
    transport: TransportKind,
    site: Site<'a>,
}

impl VariedTest for VariedEcho<'_> {
    /// The test, and the fabric if it runs on one.
    type Prepared = (EchoTest, Option<SimulatedFabric>);

    fn names(&self) -> (&'static str, String, String) {
        ("perf", "echo".to_owned(), self.transport.name().to_owned())
    }

    fn rows(&self) -> Vec<String> {
        sizes(self.perf, &Echo).iter().map(|&size| row_name("echo", size, "")).collect()
    }

    fn metrics(&self) -> &'static [Metric] {
        &METRICS
    }

    fn settings(&self) -> Result<Settings, Failure> {
        let fabric = match self.site {
            Site::Machine(_) => None,
            Site::Fabric(fabric) => Some(fabric),
        };
        Ok(echo::test(self.perf, fabric)?.settings)
    }

    fn prepare(&self, assignments: &[String]) -> Result<Self::Prepared, Failure> {
        let mut perf = self.perf.clone();
        perf.tuning.replace(assignments);
        let transports = [self.transport];
        let fabric = match self.site {
            Site::Fabric(_) => simulated::fabric(&perf, &perf.tuning.of_fabric(), &transports)?,
            Site::Machine(_)
                if perf.varying.vary.iter().any(|text| text.starts_with(crate::arguments::FABRIC)) =>
            {
                let sentence = format!("{} has no simulated fabric to vary", self.transport);
                return Err(Failure::Usage(sentence));
            }
            Site::Machine(_) => None,
        };
        Echo.check(&perf, &transports)?;
        let mut test = echo::test(&perf, fabric.as_ref())?;
        let blocks = perf.varying.blocks();
        test.closed_loop.calls = test.closed_loop.calls.div_ceil(blocks);
        test.closed_loop.lasting /= blocks as u32;
        Ok((test, fabric))
    }

    fn bench(&self) -> Option<&Bench> {
        match self.site {
            Site::Machine(bench) => Some(bench),
            Site::Fabric(_) => None,
        }
    }

    fn measure(&self, row: usize, prepared: &Self::Prepared, seed: u64) -> Result<Vec<Option<f64>>, Failure> {
        let (test, fabric) = prepared;
        // Each run of each block draws for itself, faults included.
        let mut test = test.clone();
        test.closed_loop.seed = seed;
        let size = sizes(self.perf, &Echo)[row];
        let found = match (self.site, fabric) {
            (Site::Fabric(_), Some(fabric)) => {
                let fabric = SimulatedFabric { seed, ..fabric.clone() };
                let simulated = test.simulate(&fabric, self.transport, size);
                let echo = simulated.map_err(|error| simulation_failure(&fabric, error))?;
                Some((echo.latency, echo.calls_per_second))
            }
            (Site::Machine(bench), _) => {
                let echo = test.once(bench, self.transport, size).map_err(Failure::run)?;
                echo.latencies.summary().map(|latency| (latency, echo.calls_per_second))
            }
            (Site::Fabric(_), None) => None,
        };
        let nothing = || vec![None; METRICS.len()];
        Ok(found.map_or_else(nothing, |(latency, calls_per_second)| figures(&latency, calls_per_second)))
    }
}

/// In the order of [`METRICS`].
fn figures(latency: &LatencySummary, calls_per_second: f64) -> Vec<Option<f64>> {
    let nanos = |nanos: Option<u64>| nanos.map(|nanos| nanos as f64);
    vec![
        nanos(latency.p50_nanos),
        Some(latency.trimmed_mean_nanos),
        Some(latency.mean_nanos),
        nanos(latency.p99_nanos),
        Some(calls_per_second),
    ]
}
