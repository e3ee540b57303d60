//! `farcall compare --peers`: farcall beside programs of others, cell by cell.

use core::time::Duration;

use comfy_table::{Table, presets::NOTHING};
use farcall::parameters::Settings;
use farcall_lab::compare::ComparePlan;
use farcall_lab::compare::peers::{CellLine, CellRun, PEERS, Peer, PeerOutcome, PeerPlan, PeerStatistic};
use farcall_lab::record::{Figure, Origin, Record, Statistic, Unit};
use farcall_lab::run::bench::{Bench, BenchError};
use farcall_lab::units::Size;
use serde_json::json;

use super::{install, readable};
use crate::ahead::{Ahead, Lasts, Planned};
use crate::arguments::compare::Compare;
use crate::commands::record_distances;
use crate::failure::Failure;
use crate::output::Report;
use crate::progress::{Interrupt, Progress};

/// Lengths unless the command line says otherwise.
const SIZES: [Size; 5] = [Size(8), Size(1 << 10), Size(10 << 10), Size(100 << 10), Size(1 << 20)];

/// Every peer.
const ALL: &str = "all";

/// The peers that the command line names.
pub fn choose(compare: &Compare) -> Result<Vec<Peer>, Failure> {
    let mut known = vec![ALL];
    for family in PEERS.iter().map(Peer::family) {
        if !known.contains(&family) {
            known.push(family);
        }
    }
    let is_named = |peer: &Peer, name: &str| name == ALL || name == peer.family() || name == peer.name;
    for name in &compare.peers {
        if !PEERS.iter().any(|peer| is_named(peer, name)) {
            let known = known.join(", ");
            return Err(Failure::Usage(format!("--peers: there is no peer `{name}`; choose from {known}")));
        }
    }
    let named =
        |peer: &Peer| compare.peers.is_empty() || compare.peers.iter().any(|name| is_named(peer, name));
    Ok(PEERS.into_iter().filter(named).collect())
}

/// What a program of others takes to start and to end in a block.
const START: Duration = Duration::from_millis(400);

/// Adds the cells to the plan, and says which peers are left out.
pub fn look_ahead(compare: &Compare, chosen: &[Peer], tuning: &(Vec<String>, Settings), ahead: &mut Ahead) {
    if compare.install {
        ahead.check(install::check(chosen));
    } else {
        chosen.iter().for_each(|peer| ahead.warn(absent(peer)));
    }
    let (assignments, settings) = tuning.clone();
    let here = chosen.iter().filter(|peer| compare.install || peer.missing().is_none()).copied().collect();
    let plan = plan(compare, here, assignments, settings);
    let block = |arms: usize| (plan.arm_lasting + START) * arms as u32;
    ahead.plan(plan.outline().into_iter().map(|(name, arms)| Planned {
        name,
        repeats: format!("{} blocks", plan.blocks),
        lasts: Lasts::About(block(arms) * plan.blocks as u32),
        memory: None,
    }));
}

/// That a peer is not here, and what has it.
fn absent(peer: &Peer) -> Option<String> {
    let missing = peer.missing()?;
    Some(format!("{}: absent, there is no {missing}; {}", peer.name, peer.source()))
}

fn plan(compare: &Compare, peers: Vec<Peer>, assignments: Vec<String>, settings: Settings) -> PeerPlan {
    PeerPlan {
        assignments,
        settings,
        peers,
        sizes: if compare.sizes.is_empty() { SIZES.to_vec() } else { compare.sizes.clone() },
        in_flight: compare.inflight.iter().map(|&inflight| inflight as usize).collect(),
        blocks: compare.blocks as usize,
        arm_lasting: compare.seconds_per_block,
        seed: compare.tuning.seed,
    }
}

/// Runs all cells, block by block in turn, and prints their table.
pub fn run(
    compare: &Compare,
    chosen: Vec<Peer>,
    comparison: &ComparePlan,
    bench: &Bench,
    report: &mut Report,
) -> Result<(), Failure> {
    if compare.install {
        install::install(&chosen)?;
    }
    for peer in &chosen {
        match absent(peer) {
            Some(absent) => report.line(format_args!("# {absent}"))?,
            None => report.line(format_args!("# {}: {}", peer.name, peer.description))?,
        }
    }
    let here = chosen.into_iter().filter(|peer| peer.missing().is_none()).collect();
    let (assignments, settings) = (comparison.assignments.clone(), comparison.settings.clone());
    let plan = plan(compare, here, assignments, settings);
    let mut cells = plan.cells(bench).map_err(Failure::run)?;
    let interrupt = Interrupt::watch()?;
    let is_complete = match measure(&mut cells, plan.blocks, bench, compare.output.quiet, &interrupt) {
        Err(BenchError::Interrupted) => false,
        other => other.map(|()| true).map_err(Failure::run)?,
    };
    for cell in &cells {
        record_distances("compare", &cell.name(), cell.distances(), report)?;
    }
    show(&cells, bench, report)?;
    let interrupted = || Failure::Run("interrupted before all blocks were measured".to_owned());
    if is_complete { Ok(()) } else { Err(interrupted()) }
}

/// Goes on until all blocks are measured, or somebody asks for the end: what others' programs have left in
/// memory goes then, too.
fn measure(
    cells: &mut [CellRun],
    blocks: usize,
    bench: &Bench,
    quiet: bool,
    interrupt: &Interrupt,
) -> Result<(), BenchError> {
    let progress = Progress::new(cells.len() * blocks, quiet);
    let interrupted = interrupt.flag();
    while cells.iter().any(|cell| !cell.is_complete()) {
        for cell in cells.iter_mut().filter(|cell| !cell.is_complete()) {
            progress.begin(cell.name());
            cell.block(bench, &interrupted)?;
            progress.step();
        }
    }
    Ok(())
}

fn show(cells: &[CellRun], bench: &Bench, report: &mut Report) -> Result<(), Failure> {
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header([
        "path",
        "size",
        "transport",
        "peer",
        "farcall",
        "peer's",
        "ratio",
        "95 %",
        "cores",
        "of",
    ]);
    for line in cells.iter().flat_map(CellRun::lines) {
        let of = what(&line);
        let first = [
            line.path.words().to_owned(),
            line.size.to_string(),
            line.transport.to_string(),
            line.peer.clone(),
        ];
        let rest = match &line.outcome {
            Ok(outcome) => {
                report.record(&record(&line, outcome))?;
                let figure = |value: f64| readable(value * scale(&line), &unit(&line));
                let interval = outcome.ratio.interval;
                [
                    figure(outcome.farcall),
                    figure(outcome.peer),
                    format!("{:.3}", outcome.ratio.ratio),
                    interval.map_or_else(|| "-".to_owned(), |(low, high)| format!("{low:.3} to {high:.3}")),
                    outcome.regime.to_string(),
                    of,
                ]
            }
            Err(why) => {
                ["-".to_owned(), "-".to_owned(), "-".to_owned(), "-".to_owned(), "-".to_owned(), why.clone()]
            }
        };
        table.add_row(first.into_iter().chain(rest));
    }
    report.line(format_args!(
        "# round trips of a message of the size each way, or reads of an object of the size under a key of 30 bytes; what peers print \
         of half a round trip is doubled"
    ))?;
    let cores = bench.cores().map_err(Failure::run)?;
    report.line(format_args!(
        "# servers on core {}, clients on core {}; sizes are binary; ratio: farcall's figure over the peer's",
        cores.responder, cores.initiator
    ))?;
    report.line(table.trim_fmt())?;
    let discarded: usize = cells.iter().filter_map(|cell| Some(cell.lines().first()?.discarded)).sum();
    report.line(format_args!("# blocks discarded because the cores moved during them: {discarded}"))
}

/// What both figures are.
fn what(line: &CellLine) -> String {
    match (line.in_flight, line.statistic) {
        (many, _) if line.path.is_one_way() => {
            let of_peer = match line.statistic {
                Some(PeerStatistic::BestRate) => ", the peer's of the best of its series",
                Some(PeerStatistic::RateBothWays) => ", the peer's each way and both ways counted together",
                _ => "",
            };
            format!("bytes a second over the whole run, {many} messages in flight{of_peer}")
        }
        (1, None) => "medians".to_owned(),
        (1, Some(PeerStatistic::LeastMean)) => {
            format!(
                "the peer's {}, farcall's mean without the extreme tenths",
                PeerStatistic::LeastMean.words()
            )
        }
        (1, Some(statistic)) => format!("{}s", statistic.words()),
        (many, _) => format!("requests a second, {many} in flight; the peer's in batches of {many}"),
    }
}

fn unit(line: &CellLine) -> Unit {
    match line.in_flight {
        _ if line.path.is_one_way() => Unit::BytesPerSecond,
        1 => Unit::Nanoseconds,
        _ => Unit::PerSecond,
    }
}

/// What turns the line's figures into that unit: those of streams are messages.
fn scale(line: &CellLine) -> f64 {
    if line.path.is_one_way() { line.size.0 as f64 } else { 1.0 }
}

fn record(line: &CellLine, outcome: &PeerOutcome) -> Record {
    let interval = outcome.ratio.interval;
    let more = [
        ("description", json!(what(line))),
        ("path", json!(line.path.words())),
        ("peer", json!(line.peer)),
        ("message_length_bytes", json!(line.size.0)),
        ("other", json!(outcome.peer * scale(line))),
        ("ratio", json!(outcome.ratio.ratio)),
        ("ratio_low", json!(interval.map(|(low, _)| low))),
        ("ratio_high", json!(interval.map(|(_, high)| high))),
        ("regime", json!(outcome.regime.to_string())),
        ("blocks_discarded", json!(line.discarded)),
    ];
    let is_rate = line.in_flight > 1 || line.path.is_one_way();
    let rate = if is_rate { ".rate" } else { "" };
    let origin = Origin {
        command: "compare",
        test: "peers",
        transport: line.transport.name(),
        samples: outcome.ratio.blocks as u64,
        in_flight: line.in_flight as u64,
    };
    let name = format!("{}.{}{rate}", line.peer, line.size);
    let value = outcome.farcall * scale(line);
    Figure::new(name, value, unit(line), Statistic::MedianOfBlocks).record(origin, more)
}
