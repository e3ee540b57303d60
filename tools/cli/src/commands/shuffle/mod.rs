//! `farcall shuffle`: collective operations on a simulated fabric, or in processes or threads over real transports.

mod table;
mod vary;

use std::time::Instant;

use farcall::TransportKind;
use farcall::parameters::Settings;
use farcall::simulated::{Placement, Profile};
use farcall_lab::run::Heard;
use farcall_lab::run::blocks::Distance;
use farcall_lab::run::collective::launches::{self, Launch, LaunchError, Means, Place};
use farcall_lab::run::collective::simulated::SimulatedError;
use farcall_lab::run::collective::{Collective, CollectivePlan, PushLimits, PushPolicy, Series};
use farcall_lab::run::simulation::{SimulationError, UNCHECKED};
use farcall_lab::units::Size;

use crate::ahead::memory::Memory;
use crate::ahead::{Ahead, Lasts, Planned, checks};
use crate::arguments::given::Readers;
use crate::arguments::{Growth, Ranks, Shuffle, check_once};
use crate::commands::perf::simulated::{EVENTS_PER_PACKET, EVENTS_PER_SECOND};
use crate::commands::record_distances;
use crate::failure::Failure;
use crate::output::Report;
use crate::progress::Progress;
use table::{Cell, Table};

/// The fabric of which shuffles are published.
const PUBLISHED_FABRIC: &str = "omni-path-100";

/// Measures every number of nodes and size, over every transport and with every way to push.
pub fn run(shuffle: &Shuffle) -> Result<(), Failure> {
    let shuffle = &shuffle.settled();
    let mut ahead = Ahead::of("shuffle");
    check(shuffle, &mut ahead);
    let tuning = ahead.made(shuffle.tuning.load_with(&UNCHECKED));
    let profile = ahead.made(profile(shuffle));
    let cells = ahead.made(cells(shuffle));
    if let (Some((_, settings)), Some(profile), Some(cells)) = (&tuning, &profile, &cells) {
        plan_cells(shuffle, settings, profile.as_ref(), cells, &mut ahead);
    }
    if let Some(cells) = &cells {
        ahead.check(vary::check(shuffle, cells));
    }
    let Some(weights) = ahead.decide(&shuffle.rehearsal, &shuffle.output)? else { return Ok(()) };
    // What could not be made has ended the command.
    let (Some(tuning), Some(profile), Some(cells)) = (tuning, profile, cells) else { return Ok(()) };
    let report = Report::open(shuffle.output.json.as_ref())?;
    let report = report.keep(&shuffle.recording, &shuffle.tuning, &tuning.0)?.of_ranks(&shuffle.over)?;
    if !shuffle.varying.vary.is_empty() {
        return vary::run(shuffle, &cells, report);
    }
    measure(shuffle, tuning, profile.as_ref(), &cells, weights, report)
}

/// What would fail, of what needs no plan.
fn check(shuffle: &Shuffle, ahead: &mut Ahead) {
    ahead.check(check_options(shuffle));
    ahead.check(check_once("--transport", &shuffle.transport));
    ahead.check(check_once("--nodes", &shuffle.nodes));
    ahead.check(check_once("--sizes", &shuffle.sizes));
    ahead.check(check_once("--push", &shuffle.push));
    ahead.check(shuffle.over.check_transports(&shuffle.transport));
    ahead.check(shuffle.tuning.check_needed(&shuffle.transport));
    ahead.check(checks::files_read(&shuffle.tuning, &shuffle.over, &shuffle.transport));
    ahead.check(shuffle.varying.check_needed(&shuffle.tuning, &shuffle.transport));
    ahead.check(shuffle.over.check_roles("shuffle", &[]));
    ahead.check(checks::presence(&shuffle.transport));
    ahead.check(checks::destinations(&shuffle.recording, Some(&shuffle.tracing), &shuffle.output));
    let hosts = shuffle.nodes.iter().map(|&nodes| nodes as usize);
    ahead.check(shuffle.faults.check(&shuffle.transport, hosts));
    let cells = shuffle.nodes.len() * shuffle.sizes.len();
    let measurements = cells * shuffle.transport.len() * shuffle.push.len();
    let how = "give one of --nodes, --sizes, --push and --transport";
    ahead.check(shuffle.tracing.check(&shuffle.varying, "calls", measurements, how));
}

/// The collectives that push messages chunk by chunk.
const PUSHES: &[Collective] = &[Collective::Shuffle, Collective::PointToPoint];

/// The options that not all collectives read, and which do.
const READERS: [Readers<Collective>; 4] = [
    (
        "chunk",
        &[
            Collective::Shuffle,
            Collective::Broadcast,
            Collective::Gather,
            Collective::AllGather,
            Collective::PointToPoint,
        ],
    ),
    ("max-outstanding-chunks", PUSHES),
    ("max-pending", PUSHES),
    ("push", PUSHES),
];

/// Refuses options that neither the collective nor any of the transports reads.
fn check_options(shuffle: &Shuffle) -> Result<(), Failure> {
    if shuffle.given.has("shuffle", "ranks") && shuffle.transport.iter().all(|it| it.is_simulated()) {
        let sentence = "--ranks is for real transports, such as --transport ring+shm: leave it out";
        return Err(Failure::Usage(sentence.to_owned()));
    }
    let words = |all: &[Collective]| all.iter().map(|one| one.name()).collect::<Vec<_>>().join(", ");
    let collective = shuffle.collective;
    shuffle.given.check("shuffle", &READERS, (&[collective], collective.name()), words)
}

/// The cells of the plan: what each simulation takes of time and memory, and whether it has a fabric.
fn plan_cells(
    shuffle: &Shuffle,
    settings: &Settings,
    profile: Option<&Profile>,
    cells: &[(u32, Size)],
    ahead: &mut Ahead,
) {
    let at_once = launches_at_once(shuffle, settings);
    for &transport in &shuffle.transport {
        for &(ranks, size) in cells {
            let simulated = profile.filter(|_| transport.is_simulated());
            let fitted = simulated.map(|profile| ahead.made(fitted(shuffle, profile, ranks)));
            let fabric = fitted.flatten();
            let memory = |_| memory(shuffle, transport, ranks, at_once);
            let cell = Planned {
                name: format!("{transport} {ranks} nodes {size}"),
                repeats: format!("{} operations", shuffle.ops),
                memory: fabric.as_ref().map(memory),
                lasts: fabric
                    .map_or(Lasts::Unknown, |profile| lasts(shuffle, &profile, ranks, size, at_once)),
            };
            ahead.plan([shuffle.varying.planned(cell)]);
        }
    }
}

/// The fabric with places for so many nodes.
fn fitted(shuffle: &Shuffle, profile: &Profile, ranks: u32) -> Result<Profile, Failure> {
    shuffle.scaling.fitted(profile, ranks as usize, "--nodes")
}

/// Memory that so many launches at a time take.
fn memory(shuffle: &Shuffle, transport: TransportKind, ranks: u32, at_once: u64) -> Memory {
    let one = launch_bytes(shuffle, transport, ranks);
    let options = match (shuffle.launches.min(shuffle.ops), shuffle.push.len()) {
        (1, _) => "one way to --push",
        (_, 1) => "--runs 1",
        _ => "--runs 1 and one way to --push",
    };
    Memory { bytes: at_once * one, asked_by: "--nodes", alone: (at_once > 1).then_some((one, options)) }
}

/// Memory that a simulated launch takes.
fn launch_bytes(shuffle: &Shuffle, transport: TransportKind, ranks: u32) -> u64 {
    checks::simulation_bytes(transport, ranks.into(), shuffle.collective.peers(ranks).into())
}

/// How many launches are simulated at a time; with --vary each is one of its own.
fn launches_at_once(shuffle: &Shuffle, settings: &Settings) -> u64 {
    let launches = shuffle.launches.min(shuffle.ops) as usize * shuffle.push.len();
    if shuffle.varying.vary.is_empty() { launches::simulated_at_once(launches, settings) as u64 } else { 1 }
}

/// About how long it takes to simulate the operations of a cell: each message is some packets, and an answer.
fn lasts(shuffle: &Shuffle, profile: &Profile, ranks: u32, size: Size, at_once: u64) -> Lasts {
    let plan = plan(shuffle, ranks, size, shuffle.push[0]);
    let messages = match plan.collective {
        Collective::Shuffle => f64::from(ranks) * f64::from(ranks),
        Collective::AllGather => f64::from(ranks) * f64::from(ranks).log2().max(1.0),
        _ => f64::from(ranks),
    };
    let packets = plan.message_bytes.div_ceil(profile.nic.mtu_bytes).max(1) + 1;
    let operations = (shuffle.ops + u64::from(shuffle.warmup) * shuffle.launches) * shuffle.push.len() as u64;
    let events = operations as f64 * messages * packets as f64 * EVENTS_PER_PACKET;
    Lasts::about_seconds(events / (EVENTS_PER_SECOND * at_once as f64))
}

/// Makes all measurements, and reports each as soon as it is made.
fn measure(
    shuffle: &Shuffle,
    (assignments, settings): (Vec<String>, Settings),
    profile: Option<&Profile>,
    cells: &[(u32, Size)],
    weights: Vec<f64>,
    mut report: Report,
) -> Result<(), Failure> {
    let progress = Progress::weighted(weights, shuffle.output.quiet);
    let hear = progress.hearer();
    // Where there is no second core nothing moves.
    let is_real = |transport: &TransportKind| !transport.is_simulated();
    let bench = shuffle.transport.iter().any(is_real).then(|| shuffle.over.bench()).and_then(Result::ok);
    let started = Instant::now();
    for &transport in &shuffle.transport {
        let place = place(shuffle, transport, profile);
        let series = profile.filter(|_| transport.is_simulated()).and_then(|p| series(shuffle, p));
        let table = Table { shuffle, transport, place: &place, series };
        // Records say what was counted.
        let counts = shuffle.recording.record.is_some() || shuffle.output.json.is_some();
        let (settings, assignments) = (settings.clone(), assignments.clone());
        let schedule = shuffle.faults.schedule.clone();
        let means = Means { transport, settings, assignments, schedule, counts };
        progress.suspend(|| table.header(&mut report))?;
        for &(ranks, size) in cells {
            let plans: Vec<CollectivePlan> =
                shuffle.push.iter().map(|&push| plan(shuffle, ranks, size, push)).collect();
            progress.begin(format_args!("{transport} {ranks} nodes {size}"));
            let begun = Instant::now();
            let place = for_nodes(shuffle, &place, ranks)?;
            let measured = || launched(shuffle, &plans, &place, &means, &hear);
            let (launches, distance) = match &bench {
                Some(bench) if !transport.is_simulated() => {
                    let apart = || bench.distance_nanos().map_err(Failure::run);
                    let (launches, distance) = Distance::around(started, apart, measured)?;
                    (launches, Some(distance))
                }
                _ => (measured()?, None),
            };
            let cell = Cell { plans: &plans, launches: &launches, lasted: begun.elapsed() };
            progress.step();
            progress.suspend(|| {
                table.cell(&cell, &mut report)?;
                let of = format!("{transport} {}.{ranks}x{}", shuffle.collective, size.0);
                record_distances("shuffle", &of, distance.as_slice(), &mut report)
            })?;
        }
    }
    report.end()
}

/// The fabric's profile, if the transports need one.
fn profile(shuffle: &Shuffle) -> Result<Option<Profile>, Failure> {
    let overrides = shuffle.tuning.of_fabric();
    if !shuffle.transport.iter().any(|transport| transport.is_simulated()) {
        let is_asked_for = shuffle.fabric.is_some() || shuffle.scaling.scale_topology;
        if is_asked_for || shuffle.placement.is_some() || !overrides.is_empty() {
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

/// Where the ranks of a transport live.
fn place(shuffle: &Shuffle, transport: TransportKind, profile: Option<&Profile>) -> Place {
    match (profile, shuffle.ranks) {
        (Some(profile), _) if transport.is_simulated() => Place::Simulated(Box::new(profile.clone())),
        (_, Ranks::Processes) => Place::Processes(shuffle.over.world.clone()),
        (_, Ranks::Threads) => Place::Threads,
    }
}

/// The published series that a run stands beside.
fn series(shuffle: &Shuffle, profile: &Profile) -> Option<Series> {
    if profile.name != PUBLISHED_FABRIC
        || shuffle.collective != Collective::Shuffle
        || shuffle.growth != Growth::Fixed
    {
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
fn cells(shuffle: &Shuffle) -> Result<Vec<(u32, Size)>, Failure> {
    let mut cells = Vec::new();
    for &ranks in &shuffle.nodes {
        if ranks < shuffle.collective.ranks_min() {
            let (collective, least) = (shuffle.collective, shuffle.collective.ranks_min());
            return Err(Failure::Usage(format!("--nodes: {collective} needs at least {least}")));
        }
        if shuffle.transport.iter().any(|transport| !transport.is_simulated()) {
            shuffle.over.check(ranks.into(), &format!("--nodes: {ranks} nodes"))?;
        }
        cells.extend(shuffle.sizes.iter().map(|&size| (ranks, size)));
    }
    Ok(cells)
}

fn plan(shuffle: &Shuffle, ranks: u32, Size(size): Size, policy: PushPolicy) -> CollectivePlan {
    let others = (ranks as usize - 1).max(1);
    let message_bytes = match shuffle.growth {
        Growth::Fixed => size,
        Growth::Weak => size / others,
        Growth::Strong => size / (others * ranks as usize),
    };
    let limits = PushLimits {
        policy,
        chunk_bytes: shuffle.chunk.0.max(1),
        pending_max: shuffle.max_pending as usize,
        outstanding_max: shuffle.max_outstanding_chunks as usize,
        seed: shuffle.tuning.seed,
    };
    CollectivePlan {
        collective: shuffle.collective,
        ranks,
        message_bytes,
        warmup: shuffle.warmup,
        operations: shuffle.ops as u32,
        limits,
        seed: shuffle.tuning.seed,
        trace: shuffle.tracing.is_on(),
    }
}

/// A place with room for so many nodes.
fn for_nodes(shuffle: &Shuffle, place: &Place, ranks: u32) -> Result<Place, Failure> {
    Ok(match place {
        Place::Simulated(profile) => Place::Simulated(Box::new(fitted(shuffle, profile, ranks)?)),
        other => other.clone(),
    })
}

/// The launches of each plan.
fn launched(
    shuffle: &Shuffle,
    plans: &[CollectivePlan],
    place: &Place,
    means: &Means,
    heard: &Heard<'_>,
) -> Result<Vec<Vec<Launch>>, Failure> {
    let launches = shuffle.launches.min(shuffle.ops) as u32;
    launches::run(plans, launches, place, means, heard).map_err(|error| launch_failure(means, error))
}

/// Whose fault a launch is that failed.
fn launch_failure(means: &Means, error: LaunchError) -> Failure {
    match (error, &means.schedule) {
        (LaunchError::Simulated(SimulatedError::Fabric(SimulationError::Fabric(error))), _) => {
            Failure::Usage(error.to_string())
        }
        (other, Some(faults)) => Failure::Run(faults.blamed(other)),
        (other, None) => Failure::run(other),
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
