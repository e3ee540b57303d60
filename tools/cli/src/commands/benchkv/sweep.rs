//! A sweep over the number of clients: latency and throughput of each class, and where more clients stop to
//! help.

use farcall_lab::record::{Figure, Origin, Statistic, Unit};
use farcall_lab::run::benchkv::{BenchKv, BenchKvResult, ClassResult, knee_of};
use farcall_lab::table::Row;

use super::shown::ShownRun;
use crate::failure::Failure;
use crate::output::Report;

/// The points of a sweep so far.
pub struct Sweep {
    bench: BenchKv,
    /// For all requests, for local and for remote ones: how many were in flight, and how many a second were
    /// answered.
    points: [Vec<(f64, f64)>; 3],
}

/// What the points are of.
const CLASSES: [&str; 3] = ["", "local.", "remote."];

impl Sweep {
    /// A sweep without points.
    pub fn new(bench: BenchKv) -> Self {
        Self { bench, points: Default::default() }
    }

    /// Prints and records the runs of one number of clients; the best of them is a point.
    pub fn show_points(
        &mut self,
        bench: &BenchKv,
        results: &[BenchKvResult],
        report: &mut Report,
    ) -> Result<(), Failure> {
        for (run, result) in results.iter().enumerate() {
            show_point(bench, result, report)?;
            ShownRun { bench, run, result }.record_figures(report)?;
        }
        if let Some(best) = results.iter().max_by(|a, b| a.per_second.total_cmp(&b.per_second)) {
            let of = |class: &ClassResult| (class.little.in_flight, class.per_second);
            let points = [(best.little.in_flight, best.per_second), of(&best.local), of(&best.remote)];
            self.points.iter_mut().zip(points).for_each(|(points, point)| points.push(point));
        }
        Ok(())
    }

    /// Prints and records knees and ceilings.
    pub fn show_knees(&self, report: &mut Report) -> Result<(), Failure> {
        for (class, points) in CLASSES.into_iter().zip(&self.points) {
            match knee_of(points) {
                Some((knee, ceiling)) if points.len() > 1 => self.show_knee(class, knee, ceiling, report)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn show_knee(&self, class: &str, knee: f64, ceiling: f64, report: &mut Report) -> Result<(), Failure> {
        let words = "requests in flight that would reach the ceiling at the least latency".to_owned();
        let row = Row { name: format!("{class}knee"), value: knee, unit: "", description: words };
        report.line(row)?;
        let words = "the most requests of the sweep".to_owned();
        report.line(Row::rate(format!("{class}ceiling"), ceiling, words))?;
        let transport = &*self.bench.transport;
        let origin = Origin { command: "benchkv", test: "sweep", transport, samples: 1, in_flight: 0 };
        let record = |name: &str, value, unit| {
            let figure = Figure::new(format!("{class}{name}"), value, unit, Statistic::Max);
            figure.record::<String>(origin, [])
        };
        report.record(&record("knee", knee, Unit::Counted("requests".to_owned())))?;
        report.record(&record("ceiling", ceiling, Unit::PerSecond))
    }
}

/// A line: throughput, requests in flight, and for each class its mean latency, throughput and requests in
/// flight.
fn show_point(bench: &BenchKv, result: &BenchKvResult, report: &mut Report) -> Result<(), Failure> {
    let class = |name: &str, class: &ClassResult| match class.latencies.summary() {
        None => format!("no {name} ones"),
        Some(summary) => format!(
            "{name} RTT {:.3} us, X {:.3} M/s, {:.2} in flight",
            summary.mean_nanos / 1e3,
            class.per_second / 1e6,
            class.little.in_flight
        ),
    };
    let (local, remote) = (class("local", &result.local), class("remote", &result.remote));
    let words = format!("{} in flight; {local}; {remote}", result.little.in_flight);
    report.line(Row::rate(format!("benchkv.{}", bench.clients), result.per_second, words))
}
