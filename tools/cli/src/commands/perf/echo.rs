//! `farcall perf echo`: round trips, beside the limit of this machine or what was published for a simulated
//! fabric.

use farcall::TransportKind;
use farcall_lab::record::{Figure, Record, Statistic, Unit};
use farcall_lab::run::Heard;
use farcall_lab::run::closed_loop::{BLOCKS, ClosedLoop, Outcome, Ran};
use farcall_lab::run::echo::{EchoLimit, EchoTest, REQUEST_BYTES};
use farcall_lab::run::exchange::Instruments;
use farcall_lab::run::published::clusterperf_settings;
use farcall_lab::run::simulation::{SimulatedFabric, UNCHECKED};
use farcall_lab::table::{Row, latency_rows, row_name};
use farcall_lab::units::Size;
use serde_json::{Value, json};

use super::options::Family;
use super::simulated::{CLIENTS_AND_SERVERS, lasts, memory_of, run_note, simulation_failure};
use super::workload::{Findings, Measurement, Plan, Site, Vary, Workload, counted, record_of};
use super::{check_sizes, defaults, sizes, vary};
use crate::arguments::Perf;
use crate::failure::Failure;

/// Calls of each client unless the command line says otherwise.
pub const CALLS: u64 = 10_000;

/// The same on a simulated fabric, where calls differ little and each takes longer to simulate than it lasts.
const CALLS_SIMULATED: u64 = 1_000;

/// The lengths of clusterperf's `echo` and `basic`.
pub const SIZES: [Size; 5] = [Size(100), Size(1 << 10), Size(10 << 10), Size(100 << 10), Size(1 << 20)];

/// The test.
#[derive(Debug)]
pub struct Echo;

impl Workload for Echo {
    fn name(&self) -> &'static str {
        "echo"
    }

    fn about(&self) -> &'static str {
        "A 30-byte request, a response of each size"
    }

    fn family(&self) -> Family {
        Family::Echo
    }

    fn sizes(&self) -> &'static [Size] {
        &SIZES
    }

    fn check(&self, perf: &Perf, transports: &[TransportKind]) -> Result<(), Failure> {
        check_sizes(perf, self, transports)
    }

    fn plan(
        &self,
        perf: &Perf,
        transport: TransportKind,
        fabric: Option<&SimulatedFabric>,
    ) -> Result<Plan, Failure> {
        let test = test(perf, fabric)?;
        let mut heading = vec![header(&test, transport)];
        heading.extend(fabric.into_iter().flat_map(fabric_lines));
        let ClosedLoop { calls, clients, servers, .. } = test.closed_loop;
        let measurement = |&size: &Size| {
            let lasts = match fabric {
                None => Measurement::in_blocks(perf.seconds),
                Some(fabric) => {
                    let (calls, there) = ((calls * clients as u64) as f64, REQUEST_BYTES as f64);
                    lasts(fabric, calls, there, size.0 as f64)
                }
            };
            let memory =
                |_| memory_of(CLIENTS_AND_SERVERS, transport, clients + servers, clients.max(servers));
            let test = test.clone();
            let run = move |site: Site<'_>, _: &Heard<'_>| measure(&test, transport, size, site);
            let (about, memory) = (format!("echo{size}"), fabric.map(memory));
            let blocks = if fabric.is_some() { 1 } else { BLOCKS };
            Measurement { about, blocks, lasts, memory, run: Box::new(run) }
        };
        Ok(Plan { heading, measurements: sizes(perf, self).iter().map(measurement).collect() })
    }

    fn defaults(&self, fabric: &SimulatedFabric) -> Vec<&'static str> {
        [&UNCHECKED[..], clusterperf_settings(&fabric.profile.name)].concat()
    }

    fn vary(&self) -> Option<Vary> {
        Some(Vary { check: vary::check, run: vary::run })
    }
}

/// What the command line asks for.
pub fn test(perf: &Perf, fabric: Option<&SimulatedFabric>) -> Result<EchoTest, Failure> {
    let calls = if fabric.is_some() { CALLS_SIMULATED } else { CALLS };
    let (assignments, settings) = perf.tuning.load_with(&defaults(&Echo, fabric))?;
    Ok(EchoTest { closed_loop: closed_loop(perf, assignments, calls), settings, buffers: perf.buffers })
}

/// The calls that the command line asks for, `calls` of each client unless it says otherwise.
pub fn closed_loop(perf: &Perf, assignments: Vec<String>, calls: u64) -> ClosedLoop {
    ClosedLoop {
        assignments,
        calls: perf.count.unwrap_or(calls),
        lasting: perf.seconds,
        warmup_calls: perf.warmup,
        in_flight: perf.concurrent_ops as usize,
        clients: perf.clients.unwrap_or(1) as usize,
        servers: perf.servers.unwrap_or(1) as usize,
        seed: perf.tuning.seed,
        instruments: Instruments { trace: perf.tracing.is_on(), handler: perf.handler },
    }
}

fn header(test: &EchoTest, transport: TransportKind) -> String {
    let ClosedLoop { in_flight, clients, servers, .. } = test.closed_loop;
    let in_flight = in_flight * clients;
    let (clients, servers) = (counted(clients, "client"), counted(servers, "server"));
    format!("\n# {transport}: {in_flight} in flight, {clients}, {servers}, payloads {}", test.buffers)
}

fn fabric_lines(fabric: &SimulatedFabric) -> Vec<String> {
    let profile = &fabric.profile;
    let mut lines = vec![format!("# times are simulated, on {}: {}", profile.name, profile.description)];
    match clusterperf_settings(&profile.name) {
        [] => {}
        like => {
            let like = like.join(", ");
            lines.push(format!("# as the published ones unless --set says otherwise: {like}"));
        }
    }
    lines
}

fn measure(
    test: &EchoTest,
    transport: TransportKind,
    size: Size,
    site: Site<'_>,
) -> Result<Findings, Failure> {
    let (outcome, limit) = match site {
        Site::Machine(bench) => test.run(bench, transport, size).map_err(Failure::run)?,
        Site::Fabric(fabric) => {
            let simulated = test.simulate(fabric, transport, size);
            (simulated.map_err(|error| simulation_failure(fabric, error))?, None)
        }
    };
    let mut found = Found { test, outcome: &outcome, findings: Findings::default() };
    found.add_latency();
    found.add_bandwidth();
    if let Some(limit) = &limit {
        found.add_limit(limit);
    }
    found.add_notes();
    let mut findings = found.findings;
    findings.distances = outcome.distances().to_vec();
    findings.traced = test.closed_loop.instruments.trace.then_some(outcome.traced);
    Ok(findings)
}

/// How far a rate may be off, behind it.
pub fn error_words(outcome: &Outcome) -> String {
    outcome.relative_error.map_or_else(String::new, |error| format!(" \u{b1} {:.1} %", error * 100.0))
}

/// What is reported of an outcome.
struct Found<'a> {
    test: &'a EchoTest,
    outcome: &'a Outcome,
    findings: Findings,
}

impl Found<'_> {
    fn add_latency(&mut self) {
        let (size, losses) = (self.outcome.size, self.outcome.losses().words());
        for row in latency_rows(&self.outcome.latency) {
            let name = row_name("echo", size, row.suffix);
            let what = format!("send {REQUEST_BYTES} B, receive {size}, {}", row.words);
            let what = self.beside_published(what, &name, row.nanos, Row::latency) + &losses;
            let record = self.record(name.clone(), row.nanos, Unit::Nanoseconds, row.statistic);
            self.findings.row(Row::latency(name, row.nanos, what), record);
        }
    }

    fn add_bandwidth(&mut self) {
        let outcome = self.outcome;
        let (name, bandwidth) = (row_name("echoBw", outcome.size, ""), outcome.bytes_per_second());
        let time = match outcome.ran {
            Ran::OnProcesses(_) => format!("wall-clock time, {} in flight", outcome.in_flight),
            Ran::OnFabric(_) => "simulated time".to_owned(),
        };
        let (rate, error) = (outcome.calls_per_second / 1e3, error_words(outcome));
        let what = format!("bytes received over {time}, {rate:.1} K calls/s{error}");
        let what = self.beside_published(what, &name, bandwidth, Row::bandwidth) + &outcome.losses().words();
        let record = self.record(name.clone(), bandwidth, Unit::BytesPerSecond, Statistic::OverWallClock);
        self.findings.row(Row::bandwidth(name, bandwidth, what), record);
    }

    /// Adds the published figure, if there is one, as a row shows it, and how far ours is off.
    fn beside_published(
        &self,
        what: String,
        name: &str,
        ours: f64,
        row: fn(String, f64, String) -> Row,
    ) -> String {
        let Some(published) = self.test.published(self.outcome, name) else { return what };
        let Row { value, unit, .. } = row(String::new(), published.value, String::new());
        format!("{what}; published {value:.3} {unit}, {:+.1} %", published.error_of(ours) * 100.0)
    }

    fn add_limit(&mut self, limit: &EchoLimit) {
        let (outcome, nanos, ratio) = (self.outcome, limit.p50_nanos, limit.ratio.ratio);
        let Ran::OnProcesses(found) = &outcome.ran else { return };
        let of_blocks = |mut record: Record| {
            record.samples = found.blocks as u64;
            record
        };
        let name = row_name("echo", outcome.size, ".limit");
        let record = self.record(name.clone(), nanos, Unit::Nanoseconds, Statistic::MedianOfBlocks);
        self.findings.row(Row::latency(name, nanos, format!("{}, median", limit.words)), of_blocks(record));
        let name = row_name("echo", outcome.size, ".ratio");
        let blocks = counted(found.blocks, "block");
        let description = format!("median over limit, cores {}, {blocks}", found.regime);
        let record = self.record(name.clone(), ratio, Unit::Ratio, Statistic::MedianOfBlocks);
        self.findings.row(Row { name, value: ratio, unit: "x", description }, of_blocks(record));
    }

    fn add_notes(&mut self) {
        let size = self.outcome.size;
        for warning in self.outcome.rest_line().into_iter().chain(self.outcome.warnings()) {
            self.findings.text(format_args!("# echo{size}: {warning}"));
        }
        if let Ran::OnFabric(run) = &self.outcome.ran {
            self.findings.text(format_args!("# echo{size}: {}", run_note(run)));
        }
    }

    fn record(&self, name: String, value: f64, unit: Unit, statistic: Statistic) -> Record {
        let mut more: Vec<(&'static str, Value)> =
            vec![("request_bytes", REQUEST_BYTES.into()), ("buffers", json!(self.test.buffers.name()))];
        if let Ran::OnFabric(_) = self.outcome.ran {
            let published = self.test.published(self.outcome, &name);
            more.push(("published", json!(published.map(|published| published.value))));
            more.push(("error", json!(published.map(|published| published.error_of(value)))));
        }
        record_of(Figure { name, value, unit, statistic }, "echo", self.outcome, more)
    }
}
