//! The tests of `farcall perf` that read and write a key-value store.

use farcall::TransportKind;
use farcall_kv::VALUE_BYTES_MAX;
use farcall_kv::durable::Level;
use farcall_lab::record::{Figure, Record, Statistic, Unit};
use farcall_lab::run::Heard;
use farcall_lab::run::closed_loop::{BLOCKS, ClosedLoop, Outcome};
use farcall_lab::run::exchange::StoreAccess;
use farcall_lab::run::simulation::SimulatedFabric;
use farcall_lab::run::store::StoreTest;
use farcall_lab::table::{Row, latency_rows, row_name};
use farcall_lab::units::{Size, in_readable_unit};

use super::echo::{CALLS, SIZES, closed_loop, error_words};
use super::options::Family;
use super::workload::{Findings, Measurement, Plan, Site, Workload, counted, record_of};
use super::{check_sizes, sizes};
use crate::arguments::Perf;
use crate::commands::tracing;
use crate::failure::Failure;

/// The length of objects in all tests but `basic`.
const SIZE: [Size; 1] = [Size(100)];

/// How many objects a call of `multiRead` reads.
const MULTI_READS: [usize; 7] = [1, 2, 5, 10, 20, 50, 100];

/// A test of a store.
#[derive(Debug)]
pub struct StoreWorkload {
    name: &'static str,
    about: &'static str,
    sizes: &'static [Size],
    /// What is measured for each transport and size, with at most this many clients.
    accesses: fn(usize) -> Vec<Access>,
    /// What is reported of a measurement.
    show: fn(&Found<'_>, &mut Findings),
}

/// One measurement: how objects are accessed, and by how many clients.
#[derive(Clone, Copy, Debug)]
struct Access {
    access: StoreAccess,
    clients: usize,
}

pub const BASIC: StoreWorkload = StoreWorkload {
    name: "basic",
    about: "Reads and overwrites of random objects of a key-value store, one size after the other",
    sizes: &SIZES,
    accesses: |clients| {
        [StoreAccess::Read, StoreAccess::Write].map(|access| Access { access, clients }).into()
    },
    show: |found, findings| found.show_latency(findings),
};

pub const READ_DIST: StoreWorkload = StoreWorkload {
    name: "readDist",
    about: "The distribution of the latencies of reads",
    sizes: &SIZE,
    accesses: |clients| vec![Access { access: StoreAccess::Read, clients }],
    show: |found, findings| found.show_distribution(findings),
};

pub const WRITE_DIST: StoreWorkload = StoreWorkload {
    name: "writeDist",
    about: "The distribution of the latencies of overwrites",
    sizes: &SIZE,
    accesses: |clients| vec![Access { access: StoreAccess::Write, clients }],
    show: |found, findings| found.show_distribution(findings),
};

pub const READ_THROUGHPUT: StoreWorkload = StoreWorkload {
    name: "readThroughput",
    about: "Reads per second of 1, 2, 4 … clients, up to --clients",
    sizes: &SIZE,
    accesses: |clients| by_more_and_more(StoreAccess::Read, clients),
    show: |found, findings| found.show_throughput(findings),
};

pub const WRITE_THROUGHPUT: StoreWorkload = StoreWorkload {
    name: "writeThroughput",
    about: "Overwrites per second of 1, 2, 4 … clients, up to --clients",
    sizes: &SIZE,
    accesses: |clients| by_more_and_more(StoreAccess::Write, clients),
    show: |found, findings| found.show_throughput(findings),
};

pub const MULTI_READ: StoreWorkload = StoreWorkload {
    name: "multiRead",
    about: "Reads of 1, 2, 5 … 100 objects by one call",
    sizes: &SIZE,
    accesses: |clients| {
        MULTI_READS.map(|objects| Access { access: StoreAccess::MultiRead(objects), clients }).into()
    },
    show: |found, findings| found.show_multi_read(findings),
};

fn by_more_and_more(access: StoreAccess, clients: usize) -> Vec<Access> {
    let fewer = (0..).map(|doublings| 1 << doublings).take_while(|&fewer| fewer < clients);
    fewer.chain([clients]).map(|clients| Access { access, clients }).collect()
}

impl Workload for StoreWorkload {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn family(&self) -> Family {
        Family::Store
    }

    fn sizes(&self) -> &'static [Size] {
        self.sizes
    }

    /// Refuses objects that a store does not hold, and stores where there are none.
    fn check(&self, perf: &Perf, transports: &[TransportKind]) -> Result<(), Failure> {
        if let Some(size) = sizes(perf, self).iter().find(|size| size.0 > VALUE_BYTES_MAX) {
            let most = Size(VALUE_BYTES_MAX);
            return Err(Failure::Usage(format!(
                "--sizes: {size} is longer than the {most} that a store holds"
            )));
        }
        if let Some(transport) = transports.iter().find(|transport| transport.is_simulated()) {
            return Err(Failure::Usage(format!(
                "--transport: {transport} is simulated; stores are measured between processes of this machine"
            )));
        }
        check_sizes(perf, self, transports)
    }

    fn plan(
        &self,
        perf: &Perf,
        transport: TransportKind,
        _fabric: Option<&SimulatedFabric>,
    ) -> Result<Plan, Failure> {
        let test = test(perf)?;
        let mut measurements = Vec::new();
        for &size in sizes(perf, self) {
            for Access { access, clients } in (self.accesses)(test.closed_loop.clients) {
                let about = format!("{access:?} of {size} by {}", counted(clients, "client"));
                let (name, show) = (self.name, self.show);
                let mut test = test.clone();
                test.closed_loop.clients = clients;
                let lasts = Measurement::in_blocks(test.closed_loop.lasting);
                let run = move |site: Site<'_>, _: &Heard<'_>| {
                    let what = What { name, test: &test, access };
                    what.measure(transport, size, site, show)
                };
                measurements.push(Measurement {
                    about,
                    blocks: BLOCKS,
                    lasts,
                    memory: None,
                    run: Box::new(run),
                });
            }
        }
        Ok(Plan { heading: vec![self.header(&test, transport)], measurements })
    }
}

impl StoreWorkload {
    fn header(&self, test: &StoreTest, transport: TransportKind) -> String {
        let is_by_more_and_more = (self.accesses)(2).iter().any(|access| access.clients == 1);
        let ClosedLoop { in_flight, clients, servers, .. } = test.closed_loop;
        let clients = counted(clients, "client");
        let clients = if is_by_more_and_more { format!("1 to {clients}") } else { clients };
        let (name, servers) = (self.name, counted(servers, "server"));
        let level = if test.is_flushed { ", flushed" } else { "" };
        format!("\n# {transport}: {name}{level}, {in_flight} in flight for each client, {clients}, {servers}")
    }
}

/// What the command line asks for.
fn test(perf: &Perf) -> Result<StoreTest, Failure> {
    let (assignments, _) = perf.tuning.load()?;
    Ok(StoreTest {
        closed_loop: closed_loop(perf, assignments, CALLS),
        objects: perf.objects,
        is_flushed: perf.durability == Level::Flushed,
    })
}

/// What is measured.
#[derive(Clone, Copy)]
struct What<'a> {
    name: &'static str,
    test: &'a StoreTest,
    access: StoreAccess,
}

impl What<'_> {
    fn measure(
        self,
        transport: TransportKind,
        size: Size,
        site: Site<'_>,
        show: fn(&Found<'_>, &mut Findings),
    ) -> Result<Findings, Failure> {
        let Site::Machine(bench) = site else { unreachable!("stores are not simulated, which was checked") };
        let mut findings = Findings::default();
        if !self.access.fits(size.0) {
            let access = self.access;
            findings.text(format!("# {access:?} of {size}: not measured, one answer does not hold so much"));
            return Ok(findings);
        }
        let outcome = self.test.run(bench, transport, size, self.access).map_err(Failure::run)?;
        show(&Found { what: self, outcome: &outcome }, &mut findings);
        for warning in outcome.rest_line().into_iter().chain(outcome.warnings()) {
            findings.text(format_args!("# {} {size}: {warning}", self.name));
        }
        findings.distances = outcome.distances().to_vec();
        findings.traced = self.test.closed_loop.instruments.trace.then_some(outcome.traced);
        Ok(findings)
    }
}

/// What was found for a measurement.
struct Found<'a> {
    what: What<'a>,
    outcome: &'a Outcome,
}

impl Found<'_> {
    fn verb(&self) -> &'static str {
        if self.what.access == StoreAccess::Write { "write" } else { "read" }
    }

    fn show_latency(&self, findings: &mut Findings) {
        let (outcome, verb) = (self.outcome, self.verb());
        let size = outcome.size;
        let losses = outcome.losses().words();
        let what = format!("{verb} one of {} objects of {size}, 30 B key", self.objects());
        for row in latency_rows(&outcome.latency) {
            let name = row_name(&format!("basic.{verb}"), size, row.suffix);
            let record = self.record(name.clone(), row.nanos, Unit::Nanoseconds, row.statistic);
            findings.row(Row::latency(name, row.nanos, format!("{what}, {}{losses}", row.words)), record);
        }
        let name = row_name(&format!("basic.{verb}Bw"), size, "");
        let bandwidth = outcome.bytes_per_second();
        let (in_flight, error) = (outcome.in_flight, error_words(outcome));
        let what = format!("bytes of objects over wall-clock time, {in_flight} in flight{error}{losses}");
        let record = self.record(name.clone(), bandwidth, Unit::BytesPerSecond, Statistic::OverWallClock);
        findings.row(Row::bandwidth(name, bandwidth, what), record);
    }

    /// Two columns as in clusterperf: a time, and the share of operations that took no longer.
    fn show_distribution(&self, findings: &mut Findings) {
        let size = self.outcome.size;
        findings.text(format_args!(
            "# time to {} one of {} objects of {size}, in us; cumulative fraction{}",
            self.verb(),
            self.objects(),
            self.outcome.losses().words()
        ));
        let mut trace = tracing::parts(&self.outcome.traced);
        for (nanos, share) in self.outcome.latencies.distribution() {
            findings.text(format_args!("{:>10.3} {share:>8.4}", nanos as f64 / 1e3));
            let name = format!("{}{size}.{share}", self.what.name);
            let record = self.record(name, nanos as f64, Unit::Nanoseconds, Statistic::Quantile);
            // The first that at least half of the operations did not exceed stands for the median.
            let trace = trace.take_if(|_| share >= 0.5);
            findings.figure(record.with([("share", share.into())]).with(trace));
        }
    }

    fn show_throughput(&self, findings: &mut Findings) {
        let outcome = self.outcome;
        let name = format!("{}{}.{}", self.what.name, outcome.size, outcome.clients);
        let (mean, unit) = in_readable_unit(outcome.latency.mean_nanos);
        let what = format!(
            "{} {}s of {} B, {} in flight, mean {mean:.3} {unit}{}{}",
            counted(outcome.clients, "client"),
            self.verb(),
            outcome.size,
            outcome.in_flight,
            error_words(outcome),
            outcome.losses().words()
        );
        let statistic = Statistic::OverWallClock;
        let record = self.record(name.clone(), outcome.calls_per_second, Unit::PerSecond, statistic);
        let record = record.with(tracing::parts(&outcome.traced));
        findings.row(Row::rate(name, outcome.calls_per_second, what), record);
    }

    fn show_multi_read(&self, findings: &mut Findings) {
        let StoreAccess::MultiRead(objects) = self.what.access else { return };
        let Some(nanos) = self.outcome.latency.p50_nanos else { return };
        let name = format!("multiRead{}.{objects}", self.outcome.size);
        let each = nanos as f64 / objects as f64 / 1e3;
        let what = format!("{} by one call, median; {each:.3} us each", counted(objects, "object"));
        let what = what + &self.outcome.losses().words();
        let record = self.record(name.clone(), nanos as f64, Unit::Nanoseconds, Statistic::P50);
        let record = record.with([("objects_per_call", objects.into())]);
        findings.row(Row::latency(name, nanos as f64, what), record);
    }

    fn objects(&self) -> u64 {
        self.what.test.objects_of(self.outcome.size)
    }

    fn record(&self, name: String, value: f64, unit: Unit, statistic: Statistic) -> Record {
        let level = if self.what.test.is_flushed { Level::Flushed } else { Level::Memory };
        let more = [("objects", self.objects().into()), ("durability", level.to_string().into())];
        record_of(Figure { name, value, unit, statistic }, self.what.name, self.outcome, more)
    }
}
