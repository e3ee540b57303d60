//! `farcall compare`: the performance budget against the limit of this machine, and farcall beside programs
//! of others.

mod disk;
mod install;
mod peers;

use core::time::Duration;

use comfy_table::{Table, presets::NOTHING};
use farcall_lab::compare::{Budget, BudgetRow, ComparePlan, RowOutcome, RowRun, rows, rows_of_builds};
use farcall_lab::files::remove_scratch_folders;
use farcall_lab::record::{Figure, Origin, Record, Statistic, Unit};
use farcall_lab::run::bench::Bench;
use farcall_lab::run::program::{Program, ProgramError};
use farcall_lab::table::{Row, UNITS_NOTE};
use serde_json::{Value, json};

use crate::ahead::{Ahead, Lasts, Planned, checks};
use crate::arguments::check_once;
use crate::arguments::compare::Compare;
use crate::arguments::given::Readers;
use crate::commands::record_distances;
use crate::failure::Failure;
use crate::output::Report;
use crate::progress::{Progress, before_signals_end};

/// Runs what is asked for: limits, then peers.
pub fn run(compare: &Compare) -> Result<(), Failure> {
    let mut ahead = Ahead::of("compare");
    ahead.check(check_options(compare));
    ahead.check(check_once("--sizes", &compare.sizes));
    ahead.check(check_once("--in-flight", &compare.inflight));
    ahead.check(checks::destinations(&compare.recording, None, &compare.output));
    let tuning = ahead.made(compare.tuning.load());
    let chosen = if compare.has_peers() { ahead.made(peers::choose(compare)) } else { Some(Vec::new()) };
    let rows = if compare.has_limits() { ahead.made(choose_rows(compare)) } else { Some(Vec::new()) };
    let program = compare.program.as_deref().map(Program::other).transpose();
    let program = ahead.made(program.map_err(not_a_program));
    ahead.check(disk::check(rows.as_deref().unwrap_or_default()));
    ahead.plan(rows.iter().flatten().map(|row| planned(compare, row)));
    if let (Some(chosen), Some(tuning)) = (&chosen, &tuning) {
        peers::look_ahead(compare, chosen, tuning, &mut ahead);
    }
    let bench = ahead.made(Bench::new().map_err(Failure::run));
    let goes_on = ahead.decide(&compare.rehearsal, &compare.output)?.is_some();
    let (Some(tuning), Some(chosen), Some(rows), Some(program), Some(bench)) =
        (tuning, chosen, rows, program, bench)
    else {
        return Ok(());
    };
    if !goes_on {
        return Ok(());
    }
    let (assignments, settings) = tuning;
    let comparison = ComparePlan {
        assignments,
        settings,
        program,
        blocks: compare.blocks as usize,
        arm_lasting: compare.seconds_per_block,
        patience: compare.patience.unwrap_or_default(),
        seed: compare.tuning.seed,
    };
    let report = Report::open(compare.output.json.as_ref())?;
    let mut report = report.keep(&compare.recording, &compare.tuning, &comparison.assignments)?;
    // Programs of others watch for signals themselves, and end in their own time.
    if rows.iter().any(BudgetRow::needs_folder) && !compare.has_peers() {
        before_signals_end(remove_scratch_folders)?;
    }
    if compare.has_limits() {
        let runs = measure(rows, &comparison, &bench, compare.output.quiet)?;
        show(&runs, &bench, &mut report)?;
    }
    if compare.has_peers() {
        peers::run(compare, chosen, &comparison, &bench, &mut report)?;
    }
    report.end()
}

/// What farcall is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Other {
    Limits,
    Build,
    Peers,
}

/// The options that not all comparisons read, and which do.
const READERS: [Readers<Other>; 5] = [
    ("in-flight", &[Other::Peers]),
    ("install", &[Other::Peers]),
    ("log-size", &[Other::Limits]),
    ("patience", &[Other::Limits, Other::Build]),
    ("sizes", &[Other::Peers]),
];

/// Refuses options that none of the comparisons reads.
fn check_options(compare: &Compare) -> Result<(), Failure> {
    let rows = if compare.program.is_some() { Other::Build } else { Other::Limits };
    let rows = compare.has_limits().then_some(rows);
    let chosen: Vec<_> = rows.into_iter().chain(compare.has_peers().then_some(Other::Peers)).collect();
    compare.given.check("compare", &READERS, (&chosen, &words_of(&chosen)), words_of)
}

fn words_of(others: &[Other]) -> String {
    let words = others.iter().map(|other| match other {
        Other::Limits => "the limits",
        Other::Build => "another build",
        Other::Peers => "peers",
    });
    format!("the comparison with {}", words.collect::<Vec<_>>().join(" or "))
}

/// What both sides of a row take to start and to end in a block.
const START: Duration = Duration::from_millis(400);

/// A row as a cell of a plan.
fn planned(compare: &Compare, row: &BudgetRow) -> Planned {
    let waits = compare.patience.unwrap_or_default();
    let sides = row.log_bytes().map_or(compare.seconds_per_block * 2, disk::recoveries_last);
    let block = sides + START + waits;
    Planned {
        name: format!("{} {}", row.over(), row.name()),
        repeats: format!("{} blocks", compare.blocks),
        lasts: Lasts::About(block * compare.blocks as u32),
        memory: None,
    }
}

fn not_a_program(error: ProgramError) -> Failure {
    Failure::Usage(format!("--program: {error}"))
}

/// The rows of the names that are asked for, whatever their transport; all when there are none.
fn choose_rows(compare: &Compare) -> Result<Vec<BudgetRow>, Failure> {
    let names = &compare.rows;
    let mut chosen = match compare.program {
        Some(_) => rows_of_builds(compare.within.map(|percent| percent / 100.0)),
        None => rows(compare.log_size.0),
    };
    if let Some(name) = names.iter().find(|&name| chosen.iter().all(|row| row.name() != *name)) {
        let mut known: Vec<String> = chosen.iter().map(BudgetRow::name).collect();
        known.sort();
        known.dedup();
        let known = known.join(", ");
        return Err(Failure::Usage(format!("--rows: there is no row `{name}`; choose from {known}")));
    }
    chosen.retain(|row| names.is_empty() || names.contains(&row.name()));
    Ok(chosen)
}

fn measure(
    rows: Vec<BudgetRow>,
    comparison: &ComparePlan,
    bench: &Bench,
    quiet: bool,
) -> Result<Vec<RowRun>, Failure> {
    let progress = Progress::new(rows.len() * comparison.blocks, quiet);
    progress.begin("rows");
    let prepared = rows.into_iter().map(|row| RowRun::new(row, comparison, bench));
    let mut runs = prepared.collect::<Result<Vec<_>, _>>().map_err(Failure::run)?;
    while runs.iter().any(|run| !run.is_complete()) {
        for run in runs.iter_mut().filter(|run| !run.is_complete()) {
            progress.begin(run.row().name());
            run.block(bench).map_err(Failure::run)?;
            progress.step();
        }
    }
    Ok(runs)
}

fn show(runs: &[RowRun], bench: &Bench, report: &mut Report) -> Result<(), Failure> {
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header([
        "transport",
        "row",
        "farcall",
        "other",
        "ratio",
        "95 % interval",
        "budget",
        "verdict",
        "cores",
        "blocks",
        "what",
    ]);
    for run in runs {
        for outcome in run.outcomes() {
            table.add_row(cells(run, &outcome));
            report.record(&record(run, &outcome))?;
        }
        let of = format!("{} {}", run.row().over(), run.row().name());
        record_distances("compare", &of, run.distances(), report)?;
    }
    report.line(format_args!("# {UNITS_NOTE}"))?;
    let cores = bench.cores().map_err(Failure::run)?;
    report
        .line(format_args!("# servers on core {}, clients on core {}", cores.responder, cores.initiator))?;
    for line in disk::heading(runs.iter().map(RowRun::row)) {
        report.line(line)?;
    }
    report.line(table.trim_fmt())?;
    let discarded: usize = runs.iter().map(RowRun::discarded).sum();
    report.line(format_args!(
        "# blocks discarded because the cores moved, or others came to them or went: {discarded}"
    ))
}

fn cells(run: &RowRun, outcome: &RowOutcome) -> Vec<String> {
    let row = run.row();
    let figure = |value| readable(value, &run.unit());
    let interval = outcome.ratio.and_then(|ratio| ratio.interval);
    let none = || "-".to_owned();
    vec![
        row.over().to_owned(),
        row.name(),
        figure(outcome.farcall),
        outcome.other.map_or_else(none, figure),
        outcome.ratio.map_or_else(none, |ratio| format!("{:.3}", ratio.ratio)),
        interval.map_or_else(none, |(low, high)| format!("{low:.3} to {high:.3}")),
        row.budget().map_or_else(none, |budget| budget_words(budget, &run.unit())),
        outcome.verdict.to_string(),
        outcome.regime.to_string(),
        outcome.blocks.to_string(),
        row.description(),
    ]
}

/// A figure in a unit that suits it.
fn readable(value: f64, unit: &Unit) -> String {
    let row = match unit {
        Unit::BytesPerSecond => Row::bandwidth(String::new(), value, String::new()),
        Unit::PerSecond => Row::rate(String::new(), value, String::new()),
        _ => Row::latency(String::new(), value, String::new()),
    };
    format!("{:.2} {}", row.value, row.unit)
}

fn budget_words(budget: Budget, unit: &Unit) -> String {
    match budget {
        Budget::RatioAtMost(ratio) => format!("<= {ratio}"),
        Budget::RatioAtLeast(ratio) => format!(">= {ratio}"),
        Budget::FigureAtLeast(figure) => format!(">= {}", readable(figure, unit)),
        Budget::RatioWithin(fraction) => format!("within {:.1} %", 100.0 * fraction),
        Budget::ExcessAtMost(excess) => format!("<= other + {}", readable(excess, unit)),
        Budget::RatioAndFigureAtMost(ratio, figure) => format!("<= {ratio}, <= {}", readable(figure, unit)),
    }
}

/// farcall's figure, with everything that it is judged by.
fn record(run: &RowRun, outcome: &RowOutcome) -> Record {
    let row = run.row();
    let interval = outcome.ratio.and_then(|ratio| ratio.interval);
    let budget = match row.budget() {
        Some(Budget::RatioAtMost(ratio)) => json!({ "ratio_at_most": ratio }),
        Some(Budget::RatioAtLeast(ratio)) => json!({ "ratio_at_least": ratio }),
        Some(Budget::FigureAtLeast(figure)) => json!({ "value_at_least": figure }),
        Some(Budget::RatioWithin(fraction)) => json!({ "ratio_within": fraction }),
        Some(Budget::ExcessAtMost(excess)) => json!({ "excess_at_most": excess }),
        Some(Budget::RatioAndFigureAtMost(ratio, figure)) => {
            json!({ "ratio_at_most": ratio, "value_at_most": figure })
        }
        None => Value::Null,
    };
    let more = [
        ("description", json!(row.description())),
        ("other", json!(outcome.other)),
        ("ratio", json!(outcome.ratio.map(|ratio| ratio.ratio))),
        ("ratio_low", json!(interval.map(|(low, _)| low))),
        ("ratio_high", json!(interval.map(|(_, high)| high))),
        ("budget", budget),
        ("verdict", json!(outcome.verdict.to_string())),
        ("regime", json!(outcome.regime.to_string())),
        ("blocks_discarded", json!(run.discarded())),
    ];
    let origin = Origin {
        command: "compare",
        test: row.test(),
        transport: row.over(),
        samples: outcome.blocks as u64,
        in_flight: row.in_flight() as u64,
    };
    Figure::new(row.name(), outcome.farcall, run.unit(), Statistic::MedianOfBlocks).record(origin, more)
}
