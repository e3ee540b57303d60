//! What a test of `farcall perf` is: it plans what it measures over a transport, and says what each
//! measurement found as rows for people and records for programs. Running, tracing and reporting is the same
//! for all of them (`mod.rs`).

use core::fmt::Debug;
use core::time::Duration;

use farcall::TransportKind;
use farcall_lab::explain::trace::Traced;
use farcall_lab::record::{Figure, Origin, Record, Statistic};
use farcall_lab::run::Heard;
use farcall_lab::run::bench::Bench;
use farcall_lab::run::blocks::Distance;
use farcall_lab::run::closed_loop::{BLOCKS, Outcome};
use farcall_lab::run::simulation::{SimulatedFabric, UNCHECKED};
use farcall_lab::table::Row;
use farcall_lab::units::Size;
use serde_json::Value;

use super::options::Family;
use crate::ahead::memory::Memory;
use crate::ahead::{Lasts, Planned};
use crate::arguments::Perf;
use crate::arguments::measuring::Varying;
use crate::commands::tracing;
use crate::failure::Failure;
use crate::output::Report;

/// A test of `farcall perf`.
pub trait Workload: Debug + Sync {
    /// Its name, as clusterperf writes it.
    fn name(&self) -> &'static str;

    /// What it measures, in the words of the help.
    fn about(&self) -> &'static str;

    /// Which options it reads.
    fn family(&self) -> Family;

    /// The lengths that it measures unless the command line names others.
    fn sizes(&self) -> &'static [Size];

    /// Refuses what it cannot do over these transports.
    fn check(&self, perf: &Perf, transports: &[TransportKind]) -> Result<(), Failure>;

    /// What it measures over one transport: on processes of this machine, or on a simulated fabric.
    fn plan(
        &self,
        perf: &Perf,
        transport: TransportKind,
        fabric: Option<&SimulatedFabric>,
    ) -> Result<Plan, Failure>;

    /// What the command line's assignments come after on a simulated fabric.
    fn defaults(&self, _fabric: &SimulatedFabric) -> Vec<&'static str> {
        UNCHECKED.to_vec()
    }

    /// How it is repeated with other parameters; `None` if it cannot be.
    fn vary(&self) -> Option<Vary> {
        None
    }
}

/// A test that can be repeated over one transport with other parameters.
#[derive(Clone, Copy)]
pub struct Vary {
    /// Refuses what cannot be.
    pub check: fn(&Perf, TransportKind, Site<'_>) -> Result<(), Failure>,
    /// Repeats it, and reports what the parameters do.
    pub run: fn(&Perf, TransportKind, Site<'_>, &mut Report) -> Result<(), Failure>,
}

/// What a measurement over one transport runs on.
#[derive(Clone, Copy)]
pub enum Site<'a> {
    /// Processes of this machine.
    Machine(&'a Bench),
    /// A simulated fabric.
    Fabric(&'a SimulatedFabric),
}

/// What a test measures over one transport.
pub struct Plan {
    /// Lines above the table.
    pub heading: Vec<String>,
    /// One after the other.
    pub measurements: Vec<Measurement>,
}

/// One measurement.
pub struct Measurement {
    /// What it measures, as traces and references of the run are called.
    pub about: String,
    /// How many blocks share it.
    pub blocks: usize,
    /// How long it lasts.
    pub lasts: Lasts,
    /// Memory that its simulation takes, if it is one.
    pub memory: Option<Memory>,
    /// Makes it.
    pub run: Measure,
}

/// Makes a measurement, and tells which part of it is done.
pub type Measure = Box<dyn Fn(Site<'_>, &Heard<'_>) -> Result<Findings, Failure>>;

/// What the processes of a block take to start and to end.
const START: Duration = Duration::from_millis(300);

impl Measurement {
    /// The longest that it lasts in blocks of processes, besides their start, if calls may take `seconds`.
    pub fn in_blocks(seconds: Duration) -> Lasts {
        Lasts::AtMost(seconds + START * BLOCKS as u32)
    }

    /// It as a cell of a plan.
    pub fn planned(&self, transport: TransportKind, varying: &Varying) -> Planned {
        let blocks = counted(self.blocks, "block");
        let name = format!("{transport} {}", self.about);
        varying.planned(Planned { name, repeats: blocks, lasts: self.lasts, memory: self.memory.clone() })
    }
}

/// What a measurement found.
#[derive(Default)]
pub struct Findings {
    /// In the order in which they are reported.
    pub lines: Vec<ReportLine>,
    /// The calls, if they were traced.
    pub traced: Option<Traced>,
    /// How far the cores were apart around every block.
    pub distances: Vec<Distance>,
}

/// Something to report.
pub enum ReportLine {
    /// A line for people.
    Text(String),
    /// A figure for programs.
    Figure(Record),
}

impl Findings {
    /// Adds a line for people.
    pub fn text(&mut self, line: impl ToString) {
        self.lines.push(ReportLine::Text(line.to_string()));
    }

    /// Adds a figure for programs.
    pub fn figure(&mut self, record: Record) {
        self.lines.push(ReportLine::Figure(record));
    }

    /// Adds a figure as the table shows it and as its record.
    pub fn row(&mut self, row: Row, record: Record) {
        self.text(row);
        self.figure(record);
    }

    /// Reports all lines.
    pub fn report(&self, report: &mut Report) -> Result<(), Failure> {
        self.lines.iter().try_for_each(|line| match line {
            ReportLine::Text(text) => report.line(text),
            ReportLine::Figure(record) => report.record(record),
        })
    }
}

/// The record of a figure of a closed loop: `more` is what its test adds to the fields of all of them.
pub fn record_of(
    figure: Figure,
    test: &str,
    outcome: &Outcome,
    more: impl IntoIterator<Item = (&'static str, Value)>,
) -> Record {
    let origin = Origin {
        command: "perf",
        test,
        transport: outcome.transport.name(),
        samples: outcome.calls,
        in_flight: outcome.in_flight,
    };
    // What a whole measurement did stands once, beside its median.
    let statistic = figure.statistic;
    let is_of_row = |name: &str| statistic == Statistic::P50 || name != "uses";
    let fields = outcome.fields().into_iter().filter(|(name, _)| is_of_row(name)).chain(more);
    let fields = fields.chain(tracing::field(statistic, &outcome.traced));
    figure.record(origin, fields)
}

/// The number of things, in words.
pub fn counted(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}
