//! `farcall msgrate`: tagged messages from one process to another.

mod table;
mod vary;

use farcall::TransportKind;
use farcall_lab::run::msgrate::{MessageRate, Mode, RateCell, Raw};
use farcall_lab::run::world::Role;

use crate::ahead::{Ahead, Lasts, Planned, checks};
use crate::arguments::{Msgrate, check_once};
use crate::commands::perf::counted;
use crate::failure::Failure;
use crate::output::Report;
use crate::progress::Progress;

/// Measures every mode, size and number in flight, over every transport.
pub fn run(msgrate: &Msgrate) -> Result<(), Failure> {
    let mut ahead = Ahead::of("msgrate");
    check(msgrate, &mut ahead);
    let tuning = ahead.made(msgrate.tuning.load());
    let assignments = tuning.map_or_else(Vec::new, |(assignments, _)| assignments);
    let rows: Vec<MessageRate> = rows(msgrate, &assignments).collect();
    ahead.check(check_trace(msgrate, rows.len()));
    ahead.check(vary::check(msgrate));
    ahead.plan(rows.iter().map(|rate| planned(msgrate, rate)));
    let bench = ahead.made(msgrate.over.bench().map_err(Failure::run));
    if let Some(bench) = &bench {
        ahead.check(vary::check_parameters(msgrate, bench));
    }
    let (Some(weights), Some(bench)) = (ahead.decide(&msgrate.rehearsal, &msgrate.output)?, bench) else {
        return Ok(());
    };
    let report = Report::open(msgrate.output.json.as_ref())?;
    let mut report =
        report.keep(&msgrate.recording, &msgrate.tuning, &assignments)?.of_ranks(&msgrate.over)?;
    if !msgrate.varying.vary.is_empty() {
        return vary::run(msgrate, &bench, report);
    }
    let runs = msgrate.runs as usize;
    let progress = Progress::weighted(weights.repeat(runs), msgrate.output.quiet);
    progress.suspend(|| table::head(msgrate, &mut report))?;
    for compared in rows.chunk_by(|a, b| table::cell(a) == table::cell(b)) {
        let mut cell = RateCell::new(compared.to_vec(), runs, msgrate.tuning.seed);
        while !cell.is_complete() {
            cell.block(&bench, |rate| progress.begin(table::full_name(rate))).map_err(Failure::run)?;
            compared.iter().for_each(|_| progress.step());
        }
        progress.suspend(|| table::show(&cell, msgrate.tracing.file(), &mut report))?;
    }
    report.end()
}

/// What would fail, of what needs no plan.
fn check(msgrate: &Msgrate, ahead: &mut Ahead) {
    if !msgrate.raw.is_empty() && msgrate.threads > 1 {
        let sentence = "the loops of --raw have one thread: leave --threads out";
        ahead.check(Err(Failure::Usage(sentence.to_owned())));
    }
    if !msgrate.raw.is_empty() && !msgrate.handler.is_zero() {
        let sentence = "the loops of --raw have no handler: leave --handler out";
        ahead.check(Err(Failure::Usage(sentence.to_owned())));
    }
    let transports = msgrate.transports();
    ahead.check(check_raw(msgrate));
    ahead.check(check_once("--transport", &msgrate.transport));
    ahead.check(check_once("--mode", &msgrate.mode));
    ahead.check(check_once("--raw", &msgrate.raw));
    ahead.check(check_once("--sizes", &msgrate.size));
    ahead.check(check_once("--in-flight", &msgrate.inflight));
    ahead.check(msgrate.over.check_transports(&transports));
    ahead.check(checks::presence(&transports));
    ahead.check(checks::launcher_of_mpi(&transports));
    ahead.check(checks::destinations(&msgrate.recording, Some(&msgrate.tracing), &msgrate.output));
    ahead.check(msgrate.tuning.check_needed(&transports));
    ahead.check(checks::files_read(&msgrate.tuning, &msgrate.over, &transports));
    ahead.check(msgrate.varying.check_needed(&msgrate.tuning, &transports));
    ahead.check(msgrate.over.check(2, "a sender and a receiver"));
    ahead.check(msgrate.over.check_roles("msgrate", &[(Role::Sender, 1), (Role::Receiver, 1)]));
}

/// A row as a cell of a plan. How long so many messages take is what is measured; --within says when that has
/// failed.
fn planned(msgrate: &Msgrate, rate: &MessageRate) -> Planned {
    let repeats = counted(msgrate.runs as usize, "run");
    let (name, lasts) = (table::full_name(rate), Lasts::Unknown);
    msgrate.varying.planned(Planned { name, repeats, lasts, memory: None })
}

/// All that is measured; rows of the same transport, size and number in flight follow each other.
fn rows(msgrate: &Msgrate, assignments: &[String]) -> impl Iterator<Item = MessageRate> {
    let cells = msgrate.transports().into_iter().flat_map(move |transport| {
        let sizes = msgrate.size.iter();
        sizes.flat_map(move |&size| msgrate.inflight.iter().map(move |&flight| (transport, size, flight)))
    });
    cells.flat_map(move |(transport, size, in_flight)| {
        let modes = msgrate.mode.iter().map(|&mode| (mode, None));
        let raws = msgrate.raw.iter();
        // A raw loop is that of futures: slots that are complete are used again.
        modes.chain(raws.map(|&raw| (Mode::Futures, Some(raw)))).map(move |(mode, raw)| MessageRate {
            transport: transport.name().to_owned(),
            settings: assignments.to_vec(),
            mode,
            message_bytes: size.0,
            in_flight: in_flight as usize,
            messages: msgrate.messages,
            threads: msgrate.threads as usize,
            raw,
            traced: msgrate.tracing.is_on(),
            handler: msgrate.handler,
            lasting: msgrate.seconds,
            seed: msgrate.tuning.seed,
        })
    })
}

/// Refuses raw loops that the library of a transport does not have.
fn check_raw(msgrate: &Msgrate) -> Result<(), Failure> {
    for transport in msgrate.transports() {
        let has = raws_of(transport);
        let Some(raw) = msgrate.raw.iter().find(|raw| !has.contains(raw)) else { continue };
        let has: Vec<String> = has.iter().map(Raw::to_string).collect();
        let sentence = match &*has {
            [] => format!("--raw: there is no library below {transport}; choose --transport ucx or mpi"),
            has => format!("--raw: {transport} has no loop of `{raw}`; choose from {}", has.join(", ")),
        };
        return Err(Failure::Usage(sentence));
    }
    Ok(())
}

/// Refuses to trace what has no trace points, and to write several measurements to one file.
fn check_trace(msgrate: &Msgrate, rows: usize) -> Result<(), Failure> {
    if msgrate.tracing.is_on() && !msgrate.raw.is_empty() {
        return Err(Failure::Usage(
            "--trace is for messages of farcall, and the loops of --raw are without it; leave one of them out".to_owned(),
        ));
    }
    let how = "give one each of --transport, --mode, --sizes and --in-flight, and --runs 1";
    msgrate.tracing.check(&msgrate.varying, "messages", rows * msgrate.runs as usize, how)
}

/// The ways in which the library of a transport finds completions.
fn raws_of(transport: TransportKind) -> &'static [Raw] {
    match transport {
        TransportKind::MPI => &[Raw::WaitAny, Raw::TestAny, Raw::Test],
        TransportKind::UCX => &[Raw::WaitAny, Raw::Test],
        _ => &[],
    }
}
