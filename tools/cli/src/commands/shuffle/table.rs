//! What `farcall shuffle` prints and records.

use std::num::NonZero;
use std::time::Duration;

use farcall::TransportKind;
use farcall_lab::explain::trace::Traced;
use farcall_lab::record::{Figure, Origin, Record, Statistic, Unit};
use farcall_lab::run::collective::launches::{Launch, Place};
use farcall_lab::run::collective::{CollectivePlan, OperationTime, Series, Summary, throughput_gbps};
use farcall_lab::run::losses::Losses;
use farcall_lab::statistics::bootstrap::{Ratio, median, ratio_of_medians};
use serde_json::{Value, json};

use super::launch_bytes;
use crate::ahead::memory::memory_words;
use crate::arguments::Shuffle;
use crate::commands::tracing;
use crate::failure::Failure;
use crate::output::Report;

/// The table of one transport.
pub struct Table<'a> {
    pub shuffle: &'a Shuffle,
    pub transport: TransportKind,
    pub place: &'a Place,
    pub series: Option<Series>,
}

/// One number of nodes and size: a plan for each way to push, and the launches of each.
pub struct Cell<'a> {
    pub plans: &'a [CollectivePlan],
    pub launches: &'a [Vec<Launch>],
    /// What all that took.
    pub lasted: Duration,
}

impl Cell<'_> {
    /// What the simulation did, if it was one.
    fn simulation(&self, report: &mut Report) -> Result<(), Failure> {
        let runs: Vec<_> = self.launches.iter().flatten().flat_map(|launch| &launch.simulated).collect();
        if runs.is_empty() {
            return Ok(());
        }
        let seconds = self.lasted.as_secs_f64();
        let events: u64 = runs.iter().map(|run| run.totals.packet_events).sum();
        let drops: u64 = runs.iter().map(|run| run.totals.drops()).sum();
        let memory_bytes = runs.iter().map(|run| run.totals.memory_bytes).max().unwrap_or(0);
        let traces: Vec<_> = runs.iter().map(|run| format!("{:016x}", run.trace_hash)).collect();
        report.line(format_args!(
            "#   simulated in {seconds:.1} s: {:.2} M packet events/s, {drops} packets dropped, at most {} for packets and events, traces {}",
            events as f64 / seconds / 1e6,
            memory_words(memory_bytes as u64),
            traces.join(" "),
        ))
    }

    /// How the time of a plan compares with the first plan's, launch by launch.
    fn ratio_to_first(&self, number: usize) -> Option<Ratio> {
        let pairs: Vec<_> = self.launches[number].iter().zip(&self.launches[0]).map(both_medians).collect();
        ratio_of_medians(&pairs, self.plans[0].seed)
    }
}

fn both_medians((launch, first): (&Launch, &Launch)) -> (f64, f64) {
    (median_nanos(launch), median_nanos(first))
}

fn median_nanos(launch: &Launch) -> f64 {
    let nanos: Vec<f64> = launch.times.iter().map(|time| time.nanos as f64).collect();
    median(&nanos).unwrap_or(f64::NAN)
}

/// All operations of a plan, and the 95 % interval of their median as launches tell it.
struct Line<'a> {
    plan: &'a CollectivePlan,
    launches: &'a [Launch],
    summary: Summary,
    interval_nanos: Option<(f64, f64)>,
}

impl<'a> Line<'a> {
    fn new(plan: &'a CollectivePlan, launches: &'a [Launch]) -> Self {
        let times: Vec<OperationTime> = launches.iter().flat_map(|launch| launch.times.clone()).collect();
        let summary = Summary::of(&times).expect("there is at least one operation");
        let of_launches: Vec<_> = launches.iter().map(|launch| (median_nanos(launch), 1.0)).collect();
        let interval_nanos = ratio_of_medians(&of_launches, plan.seed).and_then(|ratio| ratio.interval);
        Self { plan, launches, summary, interval_nanos }
    }

    fn repeated(&self) -> u32 {
        self.launches.iter().map(|launch| launch.repeated).sum()
    }

    /// The chunks of all launches, when they were traced.
    fn traced(&self) -> Traced {
        let traces = self.launches.iter().map(|launch| &*launch.traces);
        match self.launches.iter().any(|launch| launch.simulated.is_some()) {
            true => Traced::simulated(traces),
            false => Traced::on_machine(traces),
        }
    }

    /// What fell in all launches.
    fn losses(&self) -> Losses {
        self.launches.iter().map(|launch| launch.losses).fold(Losses::default(), Losses::and)
    }

    /// The fingerprints of all simulated launches.
    fn traces(&self) -> Vec<String> {
        let runs = self.launches.iter().flat_map(|launch| &launch.simulated);
        runs.map(|run| format!("{:016x}", run.trace_hash)).collect()
    }
}

impl Table<'_> {
    /// What holds for all rows, and the names of the columns.
    pub fn header(&self, report: &mut Report) -> Result<(), Failure> {
        let Self { shuffle, transport, .. } = self;
        let pushes: Vec<&str> = shuffle.push.iter().map(|push| push.name()).collect();
        report.line(format_args!(
            "# {} over {transport} {}; push {}, {} pending, {} chunks outstanding, chunks of {} B",
            shuffle.collective,
            self.where_ranks_are(),
            pushes.join(" against "),
            shuffle.max_pending,
            shuffle.max_outstanding_chunks,
            shuffle.chunk.0
        ))?;
        report.line(format_args!(
            "# {} launches share the operations; times in us, of the slowest node; [95 % of p50, from 5 launches on]",
            shuffle.launches.min(shuffle.ops)
        ))?;
        report.line(
            "# Throughput: bytes of a node per p50, for a shuffle nodes x msg x 8 / p50, in 10^9 bits/s",
        )?;
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let nodes = self.shuffle.nodes.iter().copied().max().unwrap_or(0) as usize;
        if !matches!(self.place, Place::Simulated(_)) && nodes > cores {
            report.line(format_args!(
                "# {nodes} nodes share {cores} cores: most of the time is waiting for one"
            ))?;
        }
        self.fabric(report)?;
        let push = if self.compares() { format!(" {:<14}", "push") } else { String::new() };
        let beside = self.series.map_or(String::new(), |series| format!("  {}  error", series.name()));
        let ratio = if self.compares() { "  time to first" } else { "" };
        report.line(format_args!(
            "# nodes   msg(B){push}    ops        min        avg        p50                     [95%]        p90        p99  Throughput(Gbps)  by avg{beside}{ratio}",
        ))
    }

    fn compares(&self) -> bool {
        self.shuffle.push.len() > 1
    }

    fn where_ranks_are(&self) -> String {
        match self.place {
            Place::Simulated(profile) => {
                let servers = profile.topology.servers_per_machine();
                let (name, placement) = (&profile.name, &profile.placement);
                format!("on simulated {name}, up to {servers} nodes a machine, placement {placement:?}")
            }
            Place::Threads => "in threads of this machine".to_owned(),
            Place::Processes(None) => "in processes of this machine".to_owned(),
            Place::Processes(Some(world)) => {
                let (ranks, hosts) = (world.places(), world.hosts());
                format!("at {ranks} ranks on {}", hosts.join(", "))
            }
        }
    }

    /// What the fabric is for the largest number of nodes, and what simulating it takes.
    fn fabric(&self, report: &mut Report) -> Result<(), Failure> {
        let Place::Simulated(profile) = self.place else { return Ok(()) };
        let nodes = self.shuffle.nodes.iter().copied().max().unwrap_or(0);
        let topology = self.shuffle.scaling.fitted(profile, nodes as usize, "--nodes")?.topology;
        let scaled = if topology == profile.topology {
            String::new()
        } else {
            format!(" instead of {} (--scale-topology)", profile.topology)
        };
        let bytes = launch_bytes(self.shuffle, self.transport, nodes);
        report.line(format_args!(
            "# {topology}{scaled}; a launch of {nodes} nodes takes about {} of memory",
            memory_words(bytes)
        ))
    }

    /// The rows of a cell.
    pub fn cell(&self, cell: &Cell<'_>, report: &mut Report) -> Result<(), Failure> {
        for (number, plan) in cell.plans.iter().enumerate() {
            let line = Line::new(plan, &cell.launches[number]);
            let ratio = if number > 0 { cell.ratio_to_first(number) } else { None };
            self.row(&line, ratio, report)?;
            repeats(&line, report)?;
            let traced = line.traced();
            self.records(&line, ratio, &traced, report)?;
            if plan.trace {
                let about = format!("chunks of {}x{}", plan.ranks, plan.message_bytes);
                tracing::show(&about, &traced, self.shuffle.tracing.file(), report)?;
            }
        }
        cell.simulation(report)
    }

    fn row(&self, line: &Line<'_>, ratio: Option<Ratio>, report: &mut Report) -> Result<(), Failure> {
        let Summary { operations, min, mean, p50, p90, p99 } = line.summary;
        let plan = line.plan;
        let optional = |nanos: Option<u64>| nanos.map_or("-".to_owned(), |nanos| micros(nanos as f64));
        let push =
            if self.compares() { format!(" {:<14}", plan.limits.policy.name()) } else { String::new() };
        let interval = match line.interval_nanos {
            Some((low, high)) => format!("[{}, {}]", micros(low), micros(high)),
            None => "-".to_owned(),
        };
        let gbps = throughput_gbps(plan, p50 as f64);
        let published = self.series.and_then(|series| series.gbps(plan.ranks, plan.message_bytes));
        let beside = match (published, self.series) {
            (Some(other), _) => format!("{other:>9.2} {:>+5.0}%", (gbps / other - 1.0) * 100.0),
            (None, Some(_)) => format!("{:>9} {:>6}", "-", "-"),
            (None, None) => String::new(),
        };
        let row = format!(
            "{:>7} {:>8}{push} {operations:>6} {:>10} {:>10} {:>10} {interval:>25} {:>10} {:>10} {gbps:>17.2} {:>7.2}{beside}{}",
            plan.ranks,
            plan.message_bytes,
            micros(min as f64),
            micros(mean),
            micros(p50 as f64),
            optional(p90),
            optional(p99),
            throughput_gbps(plan, mean),
            ratio.map_or(String::new(), ratio_words),
        ) + &line.losses().words();
        report.line(row)?;
        if let Some(few) = line.losses().too_few(operations as u64) {
            report.line(format_args!("#   {few}"))?;
        }
        Ok(())
    }

    fn records(
        &self,
        line: &Line<'_>,
        ratio: Option<Ratio>,
        traced: &Traced,
        report: &mut Report,
    ) -> Result<(), Failure> {
        let Summary { min, mean, p50, p90, p99, .. } = line.summary;
        let bytes_per_second = |nanos: f64| throughput_gbps(line.plan, nanos) * 1e9 / 8.0;
        let figures = [
            ("min", Some(min as f64), Unit::Nanoseconds, Statistic::Min),
            ("avg", Some(mean), Unit::Nanoseconds, Statistic::Mean),
            ("p50", Some(p50 as f64), Unit::Nanoseconds, Statistic::P50),
            ("p90", p90.map(|nanos| nanos as f64), Unit::Nanoseconds, Statistic::P90),
            ("p99", p99.map(|nanos| nanos as f64), Unit::Nanoseconds, Statistic::P99),
            ("throughput", Some(bytes_per_second(p50 as f64)), Unit::BytesPerSecond, Statistic::P50),
            ("throughputAvg", Some(bytes_per_second(mean)), Unit::BytesPerSecond, Statistic::Mean),
            ("timeToFirst", ratio.map(|ratio| ratio.ratio), Unit::Ratio, Statistic::MedianOfBlocks),
        ];
        for (name, value, unit, statistic) in figures {
            if let Some(value) = value {
                let record = self.record(line, name, value, unit, statistic);
                let trace = tracing::field(statistic, traced).filter(|_| name == "p50");
                report.record(&record.with(trace))?;
            }
        }
        Ok(())
    }

    fn record(&self, line: &Line<'_>, name: &str, value: f64, unit: Unit, statistic: Statistic) -> Record {
        let Line { plan, launches, .. } = line;
        let mut more: Vec<(&str, Value)> = vec![
            ("nodes", plan.ranks.into()),
            ("message_bytes", plan.message_bytes.into()),
            ("push", plan.limits.policy.name().into()),
            ("max_pending", plan.limits.pending_max.into()),
            ("chunk_bytes", plan.limits.chunk_bytes.into()),
            ("placement", self.where_ranks_are().into()),
            ("launches", launches.len().into()),
            ("seed", plan.seed.into()),
            ("operations_repeated", line.repeated().into()),
            ("losses", json!(line.losses())),
        ];
        if let Some((low, high)) = line.interval_nanos {
            more.push(("p50_interval_ns", json!([low, high])));
        }
        if matches!(self.place, Place::Simulated(_)) {
            more.push(("packets_dropped", line.losses().dropped.into()));
            more.push(("trace_hashes", json!(line.traces())));
            let faults = &self.shuffle.faults.schedule;
            more.push(("schedule", json!(faults.as_ref().map(|faults| &faults.written))));
            let first = launches.iter().find_map(|launch| launch.simulated.as_ref());
            if let Some(run) = first.filter(|_| statistic == Statistic::P50 && name == "p50") {
                more.push(("uses", json!(run.uses)));
                if !run.counters.is_empty() {
                    more.push(("counters", json!(run.counters)));
                }
                more.push(("window_operations", json!(launches[0].times.len())));
            }
        }
        let origin = Origin {
            command: "shuffle",
            test: plan.collective.name(),
            transport: self.transport.name(),
            samples: line.summary.operations as u64,
            in_flight: plan.limits.outstanding_max as u64,
        };
        let name = format!("{}.{}x{}.{name}", plan.collective, plan.ranks, plan.message_bytes);
        Figure::new(name, value, unit, statistic).record(origin, more)
    }
}

/// How often a row's operations were not in time.
fn repeats(line: &Line<'_>, report: &mut Report) -> Result<(), Failure> {
    if line.repeated() > 0 {
        let repeated = line.repeated();
        report.line(format_args!("#   {repeated} operations done again: a node learnt of them too late"))?;
    }
    Ok(())
}

fn micros(nanos: f64) -> String {
    format!("{:.2}", nanos / 1e3)
}

fn ratio_words(ratio: Ratio) -> String {
    match ratio.interval {
        Some((low, high)) => format!("  {:.3} [{low:.3}, {high:.3}]", ratio.ratio),
        None => format!("  {:.3}", ratio.ratio),
    }
}
