//! A run of the benchmark: throughput, latencies of both classes, checks, and the daemons.

use farcall_lab::record::{Figure, Origin, Record, Statistic, Unit};
use farcall_lab::run::benchkv::{BenchKv, BenchKvResult, ClassResult};
use farcall_lab::statistics::little::LittleCheck;
use farcall_lab::table::{Row, latency_rows};
use serde_json::json;

use super::rank::{rank_object, show_rank};
use crate::commands::tracing;
use crate::failure::Failure;
use crate::output::Report;

/// A run, to be shown.
pub struct ShownRun<'a> {
    pub bench: &'a BenchKv,
    /// Its number, from 0.
    pub run: usize,
    pub result: &'a BenchKvResult,
}

impl ShownRun<'_> {
    /// Prints and records it.
    pub fn show(&self, report: &mut Report) -> Result<(), Failure> {
        let result = self.result;
        let seconds = result.window.as_secs_f64();
        let losses = result.losses().words();
        let words = format!("{} requests in a window of {seconds:.3} s{losses}", result.requests);
        report.line(format_args!("\n# run {}", self.run + 1))?;
        report.line(Row::rate("rps".to_owned(), result.per_second, words))?;
        for (rank, found) in result.ranks.iter().enumerate() {
            report.line(Row::rate(
                format!("rps.{rank}"),
                found.per_second,
                format!("of rank {rank}'s clients"),
            ))?;
        }
        for (name, class) in self.classes() {
            self.show_class(name, class, report)?;
        }
        let (in_flight, implied) = (result.little.in_flight, result.little.implied);
        let words = format!("requests in flight by throughput and latency; {in_flight} were kept in flight");
        report.line(Row { name: "implied".to_owned(), value: implied, unit: "", description: words })?;
        if !result.little.holds() {
            report
                .line("# throughput and latency do not agree: they were not measured over the same window")?;
        }
        if !result.warm {
            report.line("# latencies of a client never became steady")?;
        }
        for (rank, found) in result.ranks.iter().enumerate() {
            show_rank(rank, found, report)?;
        }
        self.record_figures(report)
    }

    /// Requests of both classes.
    pub fn classes(&self) -> [(&'static str, &ClassResult); 2] {
        [("local", &self.result.local), ("remote", &self.result.remote)]
    }

    fn show_class(&self, name: &str, class: &ClassResult, report: &mut Report) -> Result<(), Failure> {
        let Some(summary) = class.latencies.summary() else { return Ok(()) };
        let (per_second, little) = (class.per_second / 1e6, class.little);
        for row in latency_rows(&summary) {
            let words = if row.suffix.is_empty() {
                let losses = self.result.losses().words();
                format!("{}; {per_second:.3} M/s, {:.2} in flight{losses}", row.words, little.in_flight)
            } else {
                row.words.to_owned()
            };
            report.line(Row::latency(format!("{name}{}", row.suffix), row.nanos, words))?;
        }
        if !little.holds() {
            let LittleCheck { in_flight, implied } = little;
            report.line(format_args!(
                "# {name} requests: {in_flight:.2} were in flight, throughput and latency imply {implied:.2}"
            ))?;
        }
        let share = 100.0 * little.in_flight / self.result.little.in_flight;
        report.line(format_args!("{name:<20} {share:>8.2} %     of the slots' time"))
    }

    /// Records its figures.
    pub fn record_figures(&self, report: &mut Report) -> Result<(), Failure> {
        let result = self.result;
        report.record(&self.record(
            "rps",
            result.per_second,
            Unit::PerSecond,
            Statistic::OverWallClock,
            result.requests,
        ))?;
        for (name, class) in self.classes() {
            let Some(summary) = class.latencies.summary() else { continue };
            for row in latency_rows(&summary) {
                let class_name = name;
                let name = format!("{name}{}", row.suffix);
                let (unit, samples) = (Unit::Nanoseconds, class.requests);
                let record = self.record(&name, row.nanos, unit, row.statistic, samples);
                let trace = tracing::field(row.statistic, &result.traced);
                report.record(&record.with(trace.filter(|_| class_name == "remote")))?;
            }
        }
        Ok(())
    }

    fn record(&self, name: &str, value: f64, unit: Unit, statistic: Statistic, samples: u64) -> Record {
        let Self { bench, run, result } = self;
        let ranks = result.ranks.iter().map(rank_object).collect::<Vec<_>>();
        let more = [
            ("run", (*run).into()),
            ("ranks", bench.ranks.into()),
            ("clients", bench.clients.into()),
            ("queue_depth", bench.queue_depth.into()),
            ("keys", bench.keys.into()),
            ("read_ratio", bench.read_ratio.into()),
            ("distribution", bench.distribution.to_string().into()),
            ("window_seconds", result.window.as_secs_f64().into()),
            ("local_requests", result.local.requests.into()),
            ("remote_requests", result.remote.requests.into()),
            ("implied_in_flight", result.little.implied.into()),
            ("local_in_flight", result.local.little.in_flight.into()),
            ("remote_in_flight", result.remote.little.in_flight.into()),
            ("slot_nanos", json!(result.slot_nanos)),
            ("slot_window_nanos", result.slot_window_nanos.into()),
            ("warm", result.warm.into()),
            ("losses", json!(result.losses())),
            ("daemons", ranks.into()),
        ];
        let origin = Origin {
            command: "benchkv",
            test: "benchkv",
            transport: &bench.transport,
            samples,
            in_flight: result.little.in_flight as u64,
        };
        Figure::new(name, value, unit, statistic).record(origin, more)
    }
}
