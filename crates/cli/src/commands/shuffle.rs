//! `farcall shuffle`: collective operations on a simulated fabric or in threads over real transports.

use std::time::Duration;

use farcall::TransportKind;
use farcall::parameters::Settings;
use farcall::simulated::{Placement, Profile};
use farcall_lab::collective::{
    Collective, Plan, PushLimits, Series, Summary, simulated, threads, throughput_gbps,
};
use farcall_lab::record::{Record, SCHEMA, Statistic, Unit};
use farcall_lab::units::Size;
use serde_json::{Map, Value, json};

use crate::arguments::{Growth, Shuffle};
use crate::failure::Failure;
use crate::output::Report;
use crate::progress::Progress;

/// Packets of simulated fabrics and of this machine's memory are not damaged on their way, unless faults are asked for.
const UNCHECKED: [&str; 2] = ["basic.checksum=false", "homa.checksum=false"];

/// The fabric of which shuffles are published.
const PUBLISHED_FABRIC: &str = "omni-path-100";

/// One line of the table.
struct Line {
    summary: Summary,
    repeated: u32,
    simulated: Option<Simulated>,
}

/// What is known of a simulated run besides its times.
struct Simulated {
    packet_events: u64,
    drops: u64,
    memory_bytes: usize,
    trace_hash: u64,
    lasted: Duration,
}

/// Measures every number of nodes and size, over every transport.
pub fn run(shuffle: &Shuffle) -> Result<(), Failure> {
    let (_, settings) = shuffle.tuning.load_with(&UNCHECKED)?;
    let profile = profile(shuffle)?;
    let plans = plans(shuffle)?;
    let series = series(shuffle, profile.as_ref());
    let mut report = Report::open(shuffle.output.json.as_ref())?;
    let progress = Progress::new(plans.len() * shuffle.transport.len(), shuffle.output.quiet);
    for &transport in &shuffle.transport {
        progress.suspend(|| header(shuffle, transport, profile.as_ref(), series, &mut report))?;
        for plan in &plans {
            progress.begin(format_args!("{transport} {} nodes {} B", plan.ranks, plan.message_bytes));
            let line = measure(plan, transport, profile.as_ref(), &settings)?;
            progress.step();
            progress.suspend(|| show(plan, transport, &line, series, &mut report))?;
        }
    }
    Ok(())
}

/// The fabric's profile, if the transports need one.
fn profile(shuffle: &Shuffle) -> Result<Option<Profile>, Failure> {
    let overrides = shuffle.tuning.of_fabric();
    if !shuffle.transport.iter().any(|transport| transport.is_simulated()) {
        if shuffle.fabric.is_some() || shuffle.placement.is_some() || !overrides.is_empty() {
            let sentence = "a fabric is for simulated transports, such as --transport basic+sim";
            return Err(Failure::Usage(sentence.into()));
        }
        return Ok(None);
    }
    let name = shuffle.fabric.as_deref().unwrap_or("ideal");
    let mut profile =
        Profile::load_with(name, &overrides).map_err(|error| Failure::Usage(error.to_string()))?;
    if let Some(placement) = &shuffle.placement {
        profile.placement = placement.0.clone();
    }
    Ok(Some(profile))
}

/// The published series that a run stands beside.
fn series(shuffle: &Shuffle, profile: Option<&Profile>) -> Option<Series> {
    let profile = profile.filter(|profile| profile.name == PUBLISHED_FABRIC)?;
    if shuffle.collective != Collective::Shuffle || shuffle.growth != Growth::Fixed {
        return None;
    }
    match shuffle.tuning.of_fabric()[..] {
        [] => Some(Series::September2019),
        [_] if profile.receive_path.is_some_and(|path| path.slowdown_per_source == 0.0) => {
            Some(Series::October2019)
        }
        _ => None,
    }
}

/// Every number of nodes with every size.
fn plans(shuffle: &Shuffle) -> Result<Vec<Plan>, Failure> {
    let mut plans = Vec::new();
    for &ranks in &shuffle.nodes {
        if ranks < shuffle.collective.ranks_min() {
            let (collective, least) = (shuffle.collective, shuffle.collective.ranks_min());
            return Err(Failure::Usage(format!("--nodes: {collective} needs at least {least}")));
        }
        plans.extend(shuffle.sizes.iter().map(|&size| plan(shuffle, ranks, size)));
    }
    Ok(plans)
}

fn plan(shuffle: &Shuffle, ranks: u32, Size(size): Size) -> Plan {
    let others = (ranks as usize - 1).max(1);
    let message_bytes = match shuffle.growth {
        Growth::Fixed => size,
        Growth::Weak => size / others,
        Growth::Strong => size / (others * ranks as usize),
    };
    let limits = PushLimits {
        push: shuffle.push,
        chunk_bytes: shuffle.chunk.0.max(1),
        pending_max: shuffle.max_pending as usize,
        outstanding_max: shuffle.max_outstanding_chunks as usize,
    };
    Plan {
        collective: shuffle.collective,
        ranks,
        message_bytes,
        warmup: shuffle.warmup,
        operations: shuffle.ops as u32,
        limits,
        seed: shuffle.tuning.seed,
    }
}

fn measure(
    plan: &Plan,
    transport: TransportKind,
    profile: Option<&Profile>,
    settings: &Settings,
) -> Result<Line, Failure> {
    if !transport.is_simulated() {
        let run = threads::run(plan, transport, settings).map_err(Failure::run)?;
        return Ok(Line { summary: summary(&run.times), repeated: run.repeated, simulated: None });
    }
    let profile = profile.expect("simulated transports have a profile").clone();
    let run = simulated::run(plan, profile, transport, settings.clone()).map_err(|error| match error {
        simulated::SimulatedError::Profile(error) => Failure::Usage(error.to_string()),
        other => Failure::run(other),
    })?;
    let simulated = Simulated {
        packet_events: run.totals.packet_events,
        drops: run.totals.drops(),
        memory_bytes: run.totals.memory_bytes,
        trace_hash: run.trace_hash,
        lasted: run.lasted,
    };
    Ok(Line { summary: summary(&run.times), repeated: run.repeated, simulated: Some(simulated) })
}

fn summary(times: &[farcall_lab::collective::OperationTime]) -> Summary {
    Summary::of(times).expect("there is at least one operation")
}

fn header(
    shuffle: &Shuffle,
    transport: TransportKind,
    profile: Option<&Profile>,
    series: Option<Series>,
    report: &mut Report,
) -> Result<(), Failure> {
    let place = match profile.filter(|_| transport.is_simulated()) {
        Some(profile) => {
            let servers = profile.topology.servers_per_machine();
            format!(
                "simulated {}, up to {servers} nodes a machine, placement {:?}",
                profile.name, profile.placement
            )
        }
        None => "threads of this machine".to_owned(),
    };
    report.line(format_args!(
        "# {} over {transport} on {place}; push {}, {} pending, {} chunks outstanding, chunks of {} B",
        shuffle.collective,
        shuffle.push,
        shuffle.max_pending,
        shuffle.max_outstanding_chunks,
        shuffle.chunk.0
    ))?;
    report.line("# times in us, of the slowest node; Gbps = nodes x msg x 8 / p50 for a shuffle, in 10^9 bits/s a node")?;
    let beside = series.map_or(String::new(), |series| format!("  {}   error", series.name()));
    report.line(format_args!(
        "# nodes   msg(B)    ops        min        avg        p50        p90        p99  Throughput(Gbps)  by avg{beside}",
    ))
}

fn show(
    plan: &Plan,
    transport: TransportKind,
    line: &Line,
    series: Option<Series>,
    report: &mut Report,
) -> Result<(), Failure> {
    let Summary { operations, min, mean, p50, p90, p99 } = line.summary;
    let micros = |nanos: f64| format!("{:.2}", nanos / 1e3);
    let optional = |nanos: Option<u64>| nanos.map_or("-".to_owned(), |nanos| micros(nanos as f64));
    let (gbps, by_mean) = (throughput_gbps(plan, p50 as f64), throughput_gbps(plan, mean));
    let published = series.and_then(|series| series.gbps(plan.ranks, plan.message_bytes));
    let beside = published
        .map_or(String::new(), |other| format!("{other:>9.2} {:>+6.0}%", (gbps / other - 1.0) * 100.0));
    report.line(format_args!(
        "{:>7} {:>8} {operations:>6} {:>10} {:>10} {:>10} {:>10} {:>10} {gbps:>17.2} {by_mean:>7.2}{beside}",
        plan.ranks,
        plan.message_bytes,
        micros(min as f64),
        micros(mean),
        micros(p50 as f64),
        optional(p90),
        optional(p99),
    ))?;
    if line.repeated > 0 {
        report.line(format_args!(
            "#   {} operations done again: a node learnt of them too late",
            line.repeated
        ))?;
    }
    if let Some(simulated) = &line.simulated {
        let seconds = simulated.lasted.as_secs_f64();
        report.line(format_args!(
            "#   simulated in {seconds:.1} s: {:.2} M packet events/s, {} packets dropped, {:.1} MB for packets and events, trace {:016x}",
            simulated.packet_events as f64 / seconds / 1e6,
            simulated.drops,
            simulated.memory_bytes as f64 / (1 << 20) as f64,
            simulated.trace_hash,
        ))?;
    }
    let figures = [
        ("min", Some(min as f64), Unit::Nanoseconds, Statistic::Min),
        ("avg", Some(mean), Unit::Nanoseconds, Statistic::Mean),
        ("p50", Some(p50 as f64), Unit::Nanoseconds, Statistic::P50),
        ("p90", p90.map(|nanos| nanos as f64), Unit::Nanoseconds, Statistic::P90),
        ("p99", p99.map(|nanos| nanos as f64), Unit::Nanoseconds, Statistic::P99),
        ("throughput", Some(gbps * 1e9 / 8.0), Unit::BytesPerSecond, Statistic::P50),
        ("throughputAvg", Some(by_mean * 1e9 / 8.0), Unit::BytesPerSecond, Statistic::Mean),
    ];
    for (name, value, unit, statistic) in figures {
        if let Some(value) = value {
            report.record(&record(plan, transport, line, name, value, unit, statistic))?;
        }
    }
    Ok(())
}

fn record(
    plan: &Plan,
    transport: TransportKind,
    line: &Line,
    name: &str,
    value: f64,
    unit: Unit,
    statistic: Statistic,
) -> Record {
    let mut more: Vec<(&str, Value)> = vec![
        ("nodes", plan.ranks.into()),
        ("message_bytes", plan.message_bytes.into()),
        ("push", plan.limits.push.name().into()),
        ("max_pending", plan.limits.pending_max.into()),
        ("chunk_bytes", plan.limits.chunk_bytes.into()),
        ("seed", plan.seed.into()),
        ("operations_repeated", line.repeated.into()),
    ];
    if let Some(simulated) = &line.simulated {
        more.push(("packets_dropped", simulated.drops.into()));
        more.push(("trace_hash", json!(format!("{:016x}", simulated.trace_hash))));
    }
    Record {
        schema: SCHEMA,
        command: "shuffle",
        test: plan.collective.name().to_owned(),
        transport: transport.name().to_owned(),
        name: format!("{}.{}x{}.{name}", plan.collective, plan.ranks, plan.message_bytes),
        value,
        unit,
        statistic,
        samples: line.summary.operations as u64,
        in_flight: plan.limits.outstanding_max as u64,
        more: Map::from_iter(more.into_iter().map(|(name, value)| (name.to_owned(), value))),
    }
}

/// Where the nodes are, as the command line says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementArgument(Placement);

impl core::str::FromStr for PlacementArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let list =
            || text.split(',').map(|machine| machine.trim().parse().ok()).collect::<Option<Vec<usize>>>();
        Ok(Self(match text.split_once(':') {
            None if text == "in-order" => Placement::InOrder,
            None if text == "spread" => Placement::Spread,
            Some(("shuffled", seed)) if seed.parse::<u64>().is_ok() => {
                Placement::Shuffled { seed: seed.parse().unwrap_or_default() }
            }
            _ => Placement::Machines(list().ok_or_else(|| {
                format!("`{text}` is none of in-order, spread, shuffled:SEED and a list of machines such as 0,0,1,1")
            })?),
        }))
    }
}
