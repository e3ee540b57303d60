//! The tests of `farcall perf` that read and write a key-value store.

use std::path::Path;

use farcall::TransportKind;
use farcall_lab::bench::Bench;
use farcall_lab::exchange::StoreAccess;
use farcall_lab::record::{Record, SCHEMA, Statistic, Unit};
use farcall_lab::store::{StoreOutcome, StoreTest};
use farcall_lab::table::{Row, latency_rows, row_name};
use farcall_lab::units::{Size, in_readable_unit};
use serde_json::{Map, Value, json};

use super::{Stage, counted, warnings};
use crate::arguments::PerfTest;
use crate::commands::{drift, tracing};
use crate::failure::Failure;
use crate::output::Report;

/// How many objects a call of `multiRead` reads.
const MULTI_READS: [usize; 7] = [1, 2, 5, 10, 20, 50, 100];

/// One measurement of a test: how objects are accessed, and by how many clients.
#[derive(Clone, Copy, Debug)]
pub struct Measurement {
    access: StoreAccess,
    clients: usize,
}

/// The measurements of a test, for each transport and size.
pub fn measurements(test: PerfTest, clients: usize) -> Vec<Measurement> {
    let by_all = |access| Measurement { access, clients };
    let by_more_and_more = |access| {
        let fewer = (0..).map(|doublings| 1 << doublings).take_while(|&fewer| fewer < clients);
        fewer.chain([clients]).map(|clients| Measurement { access, clients }).collect()
    };
    match test {
        PerfTest::Echo | PerfTest::EchoWorkload => Vec::new(),
        PerfTest::Basic => vec![by_all(StoreAccess::Read), by_all(StoreAccess::Write)],
        PerfTest::ReadDist => vec![by_all(StoreAccess::Read)],
        PerfTest::WriteDist => vec![by_all(StoreAccess::Write)],
        PerfTest::ReadThroughput => by_more_and_more(StoreAccess::Read),
        PerfTest::WriteThroughput => by_more_and_more(StoreAccess::Write),
        PerfTest::MultiRead => MULTI_READS.map(|objects| by_all(StoreAccess::MultiRead(objects))).into(),
    }
}

/// Runs a test over one transport, for every size.
pub fn run(
    test: PerfTest,
    plan: &StoreTest,
    transport: TransportKind,
    sizes: &[Size],
    bench: &Bench,
    trace_file: Option<&Path>,
    stage: &mut Stage,
) -> Result<(), Failure> {
    let Stage { report, progress } = stage;
    progress.suspend(|| report.line(header(test, plan, transport)))?;
    for &size in sizes {
        for Measurement { access, clients } in measurements(test, plan.clients) {
            progress.begin(format_args!("{transport} {} {size}", test_name(test)));
            if access.fits(size.0) {
                let plan = StoreTest { clients, ..plan.clone() };
                let outcome = plan.run(bench, transport, size, access).map_err(Failure::run)?;
                let about = format!("{access:?} of {size} by {}", counted(clients, "client"));
                progress.suspend(|| {
                    Shown { test, access, plan: &plan, outcome: &outcome }.show(report)?;
                    if plan.instruments.trace {
                        tracing::show(&about, &outcome.traced, trace_file, report)?;
                    }
                    drift::record("perf", &format!("{transport} {about}"), &outcome.distances, report)
                })?;
            } else {
                let what = format!("# {access:?} of {size}: not measured, one answer does not hold so much");
                progress.suspend(|| report.line(what))?;
            }
            progress.step();
        }
    }
    Ok(())
}

fn header(test: PerfTest, plan: &StoreTest, transport: TransportKind) -> String {
    let clients = match test {
        PerfTest::ReadThroughput | PerfTest::WriteThroughput => {
            format!("1 to {}", counted(plan.clients, "client"))
        }
        _ => counted(plan.clients, "client"),
    };
    let servers = counted(plan.servers, "server");
    let name = test_name(test);
    format!("\n# {transport}: {name}, {} in flight for each client, {clients}, {servers}", plan.in_flight)
}

/// The name as clusterperf writes it.
fn test_name(test: PerfTest) -> &'static str {
    match test {
        PerfTest::Echo => "echo",
        PerfTest::EchoWorkload => "echoWorkload",
        PerfTest::Basic => "basic",
        PerfTest::ReadDist => "readDist",
        PerfTest::WriteDist => "writeDist",
        PerfTest::ReadThroughput => "readThroughput",
        PerfTest::WriteThroughput => "writeThroughput",
        PerfTest::MultiRead => "multiRead",
    }
}

/// A measurement's outcome, to be shown.
struct Shown<'a> {
    test: PerfTest,
    access: StoreAccess,
    plan: &'a StoreTest,
    outcome: &'a StoreOutcome,
}

impl Shown<'_> {
    fn show(&self, report: &mut Report) -> Result<(), Failure> {
        match self.test {
            PerfTest::Echo | PerfTest::EchoWorkload | PerfTest::Basic => self.show_latency(report)?,
            PerfTest::ReadDist | PerfTest::WriteDist => self.show_distribution(report)?,
            PerfTest::ReadThroughput | PerfTest::WriteThroughput => self.show_throughput(report)?,
            PerfTest::MultiRead => self.show_multi_read(report)?,
        }
        let outcome = self.outcome;
        let (little, discarded) = (outcome.little, outcome.blocks_discarded);
        for warning in warnings(outcome.warm, little, outcome.in_flight, discarded) {
            report.line(format_args!("# {} {}: {warning}", test_name(self.test), outcome.size))?;
        }
        Ok(())
    }

    fn verb(&self) -> &'static str {
        if self.access == StoreAccess::Write { "write" } else { "read" }
    }

    fn show_latency(&self, report: &mut Report) -> Result<(), Failure> {
        let (outcome, verb) = (self.outcome, self.verb());
        let size = outcome.size;
        let what = format!("{verb} one of {} objects of {size}, 30 B key", outcome.objects);
        for row in latency_rows(&outcome.latency) {
            let name = row_name(&format!("basic.{verb}"), size, row.suffix);
            report.line(Row::latency(name.clone(), row.nanos, format!("{what}, {}", row.words)))?;
            report.record(&self.record(name, row.nanos, Unit::Nanoseconds, row.statistic))?;
        }
        let name = row_name(&format!("basic.{verb}Bw"), size, "");
        let bandwidth = outcome.calls_per_second * size.0 as f64;
        let what = format!("bytes of objects over wall-clock time, {} in flight", outcome.in_flight);
        report.line(Row::bandwidth(name.clone(), bandwidth, what))?;
        report.record(&self.record(name, bandwidth, Unit::BytesPerSecond, Statistic::OverWallClock))
    }

    /// Two columns as in clusterperf: a time, and the share of operations that took no longer.
    fn show_distribution(&self, report: &mut Report) -> Result<(), Failure> {
        let size = self.outcome.size;
        report.line(format_args!(
            "# time to {} one of {} objects of {size}, in us; cumulative fraction",
            self.verb(),
            self.outcome.objects
        ))?;
        let mut trace = tracing::parts(&self.outcome.traced);
        for (nanos, share) in self.outcome.latencies.distribution() {
            report.line(format_args!("{:>10.3} {share:>8.4}", nanos as f64 / 1e3))?;
            let name = format!("{}{size}.{share}", test_name(self.test));
            let record = self.record(name, nanos as f64, Unit::Nanoseconds, Statistic::Quantile);
            let mut record = with(record, "share", share.into());
            // The first that at least half of the operations did not exceed stands for the median.
            if let Some((name, value)) = trace.take_if(|_| share >= 0.5) {
                record = with(record, name, value);
            }
            report.record(&record)?;
        }
        Ok(())
    }

    fn show_throughput(&self, report: &mut Report) -> Result<(), Failure> {
        let outcome = self.outcome;
        let name = format!("{}{}.{}", test_name(self.test), outcome.size, outcome.clients);
        let (mean, unit) = in_readable_unit(outcome.latency.mean_nanos);
        let what = format!(
            "{} {}s of {} B, {} in flight, mean {mean:.3} {unit}",
            counted(outcome.clients, "client"),
            self.verb(),
            outcome.size,
            outcome.in_flight
        );
        report.line(Row::rate(name.clone(), outcome.calls_per_second, what))?;
        let statistic = Statistic::OverWallClock;
        let record = self.record(name, outcome.calls_per_second, Unit::PerSecond, statistic);
        report.record(&match tracing::parts(&outcome.traced) {
            Some((name, value)) => with(record, name, value),
            None => record,
        })
    }

    fn show_multi_read(&self, report: &mut Report) -> Result<(), Failure> {
        let StoreAccess::MultiRead(objects) = self.access else { return Ok(()) };
        let Some(nanos) = self.outcome.latency.p50_nanos else { return Ok(()) };
        let name = format!("multiRead{}.{objects}", self.outcome.size);
        let each = nanos as f64 / objects as f64 / 1e3;
        let what = format!("{} by one call, median; {each:.3} us each", counted(objects, "object"));
        report.line(Row::latency(name.clone(), nanos as f64, what))?;
        let record = self.record(name, nanos as f64, Unit::Nanoseconds, Statistic::P50);
        report.record(&with(record, "objects_per_call", objects.into()))
    }

    fn record(&self, name: String, value: f64, unit: Unit, statistic: Statistic) -> Record {
        let outcome = self.outcome;
        let mut more: Vec<(&str, Value)> = vec![
            ("size_bytes", outcome.size.0.into()),
            ("objects", outcome.objects.into()),
            ("clients", outcome.clients.into()),
            ("servers", self.plan.servers.into()),
            ("regime", json!(outcome.regime.to_string())),
            ("blocks", outcome.blocks.into()),
            ("blocks_discarded", outcome.blocks_discarded.into()),
            ("calls_per_second", outcome.calls_per_second.into()),
            ("implied_in_flight", outcome.little.implied.into()),
            ("warm", outcome.warm.into()),
            ("counters", json!(outcome.counters)),
            ("server_counters", json!(outcome.server_counters)),
            ("server_waited", json!(outcome.server_waited)),
        ];
        more.extend(tracing::field(statistic, &outcome.traced));
        Record {
            schema: SCHEMA,
            command: "perf",
            test: test_name(self.test).to_owned(),
            transport: outcome.transport.name().to_owned(),
            name,
            value,
            unit,
            statistic,
            samples: outcome.calls,
            in_flight: outcome.in_flight,
            more: Map::from_iter(more.into_iter().map(|(name, value)| (name.to_owned(), value))),
        }
    }
}

/// A record with one more field.
fn with(mut record: Record, field: &str, value: Value) -> Record {
    record.more.insert(field.to_owned(), value);
    record
}
