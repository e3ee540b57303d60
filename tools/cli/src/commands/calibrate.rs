//! `farcall calibrate`: a fabric profile fitted to a machine or a pair of hosts, and how well it predicts
//! measurements that it has not seen.

use std::path::Path;

use core::time::Duration;

use farcall::TransportKind;
use farcall::parameters::Settings;
use farcall::simulated::Profile;
use farcall_lab::explain::recorded::RecordedRun;
use farcall_lab::files::write_beside;
use farcall_lab::run::closed_loop::ClosedLoop;
use farcall_lab::run::echo::EchoTest;
use farcall_lab::run::exchange::{Buffers, Instruments};
use farcall_lab::run::simulation::{SimulatedFabric, UNCHECKED};
use farcall_lab::statistics::bootstrap::median;
use farcall_lab::statistics::search::descend;
use farcall_lab::units::Size;
use serde_json::{Value, json};

use super::explain::rerun::Words;
use super::perf::simulated::simulation_failure;
use crate::arguments::runs::Calibrate;
use crate::failure::Failure;
use crate::output::Report;

/// The version of the objects that `--json` writes.
const SCHEMA: &str = "farcall.calibration.v1";

/// What every fit begins with.
const BASE: &str = "ideal";

/// What is measured where no runs are given.
const SIZES: [&str; 4] = ["100", "1K", "4K", "16K"];
const IN_FLIGHT: [u64; 3] = [1, 4, 16];

/// With fewer measurements there are as many numbers to fit as to fit them to.
const CELLS_MIN: usize = 6;

/// One of so many measurements is kept from the fit, to be predicted.
const KEPT_ONE_IN: usize = 3;

/// Calls of a simulation: each differs little from the next.
const CALLS: u64 = 300;

/// What is fitted: the fields that get each number, and where the search begins.
const FITTED: [(&[&str], f64); 3] = [
    (&["host.send_packet_ns", "host.receive_packet_ns"], 200.0),
    (&["host.send_byte_ns", "host.receive_byte_ns"], 0.1),
    (&["link.propagation_ns"], 1_000.0),
];

/// A measurement of echoes.
#[derive(Clone, Copy, Debug)]
struct Cell {
    size: Size,
    in_flight: u64,
    per_second: f64,
}

/// Measures or reads, fits, predicts and writes the profile.
pub fn run(calibrate: &Calibrate) -> Result<(), Failure> {
    let transport = calibrate.transport;
    let simulated = simulated_as(transport)?;
    let mut cells = cells(calibrate)?;
    cells.sort_by_key(|cell| (cell.size.0, cell.in_flight));
    cells.dedup_by_key(|cell| (cell.size.0, cell.in_flight));
    if cells.len() < CELLS_MIN {
        return Err(Failure::Run(format!(
            "a fit needs {CELLS_MIN} measurements of echoes over {transport}, of several sizes and numbers in \
             flight, and there are {}",
            cells.len()
        )));
    }
    let values = fit(&cells, simulated)?;
    let mut report = Report::open(calibrate.json.as_ref())?;
    compare(&cells, &values, simulated, &mut report)?;
    write(&calibrate.to, &values, transport)?;
    report.line(format_args!(
        "# the profile is in {}; use it with --transport {simulated} --fabric {}",
        calibrate.to.display(),
        calibrate.to.display()
    ))
}

/// Whether the measurement at this place is kept from the fit: another one of each row of the grid, so that
/// no number in flight is left out of the fit.
fn is_kept(place: usize) -> bool {
    (place + place / KEPT_ONE_IN) % KEPT_ONE_IN == KEPT_ONE_IN - 1
}

/// The values of [`FITTED`] that predict the measurements best which are not kept.
fn fit(cells: &[Cell], simulated: TransportKind) -> Result<Vec<f64>, Failure> {
    let seen: Vec<_> =
        cells.iter().enumerate().filter(|(place, _)| !is_kept(*place)).map(|(_, cell)| *cell).collect();
    let mut failure = None;
    let error = |values: &[f64]| match squares(values, &seen, simulated) {
        Ok(error) => error,
        Err(why) => {
            failure.get_or_insert(why);
            f64::INFINITY
        }
    };
    let values = descend(&FITTED.map(|(_, begin)| begin), error);
    failure.map_or(Ok(values), Err)
}

/// What is predicted beside what was measured, and how far off that is where the fit did not see it.
fn compare(
    cells: &[Cell],
    values: &[f64],
    simulated: TransportKind,
    report: &mut Report,
) -> Result<(), Failure> {
    report.line(format_args!(
        "# {:>8} {:>9} {:>12} {:>12} {:>8}  fitted to",
        "bytes", "in flight", "measured/s", "predicted/s", "off"
    ))?;
    let mut unseen = Vec::new();
    for (place, cell) in cells.iter().enumerate() {
        let predicted = rate(values, *cell, simulated)?;
        let off = predicted / cell.per_second - 1.0;
        let kept = is_kept(place);
        if kept {
            unseen.push(off.abs());
        }
        report.line(format_args!(
            "{:>10} {:>9} {:>12.0} {predicted:>12.0} {:>+7.1}%  {}",
            cell.size.0,
            cell.in_flight,
            cell.per_second,
            off * 100.0,
            if kept { "no" } else { "yes" }
        ))?;
        report.object(&json!({
            "schema": SCHEMA, "size_bytes": cell.size.0, "in_flight": cell.in_flight,
            "measured": cell.per_second, "predicted": predicted, "fitted": !kept,
        }))?;
    }
    let worst = unseen.iter().copied().fold(0.0, f64::max);
    report.line(format_args!(
        "# of {} measurements that it did not see it is off by {:.1} % in the median, {:.1} % at most",
        unseen.len(),
        median(&unseen).unwrap_or(0.0) * 100.0,
        worst * 100.0
    ))
}

/// The transport that simulates another one: its protocol over the simulated fabric.
fn simulated_as(transport: TransportKind) -> Result<TransportKind, Failure> {
    let name = transport.name();
    let protocol = name.split('+').next().unwrap_or_default();
    let simulated = format!("{protocol}+sim").parse().ok().filter(|_| !transport.is_simulated());
    simulated.ok_or_else(|| {
        Failure::Usage(format!(
            "--transport: {name} has no simulated counterpart; choose one of ring, basic or homa"
        ))
    })
}

/// Those of recorded runs, or of runs that are made now.
fn cells(calibrate: &Calibrate) -> Result<Vec<Cell>, Failure> {
    let runs = if calibrate.runs.is_empty() {
        let run = |in_flight: u64| {
            let (sizes, in_flight) = (SIZES.join(","), in_flight.to_string());
            let words = [
                "perf",
                "echo",
                "--transport",
                calibrate.transport.name(),
                "--sizes",
                &sizes,
                "--in-flight",
                &in_flight,
            ];
            Words::of(&words).run(1)
        };
        IN_FLIGHT.into_iter().map(run).collect::<Result<Vec<_>, _>>()?
    } else {
        let read = |path: &std::path::PathBuf| RecordedRun::read(path).map_err(Failure::run);
        calibrate.runs.iter().map(read).collect::<Result<Vec<_>, _>>()?
    };
    let figures = runs.iter().flat_map(|run| &run.figures).filter(|figure| {
        let alone = |field: &str| figure.more.get(field).and_then(Value::as_u64) == Some(1);
        figure.test == "echo"
            && figure.statistic == "p50"
            && figure.unit == "ns"
            && alone("clients")
            && alone("servers")
    });
    let of_transport = figures.filter(|figure| figure.transport == calibrate.transport.name());
    let cell = |figure: &farcall_lab::explain::recorded::RecordedFigure| {
        Some(Cell {
            size: Size(figure.more.get("size_bytes")?.as_u64()? as usize),
            in_flight: figure.in_flight,
            per_second: figure.more.get("calls_per_second")?.as_f64().filter(|rate| *rate > 0.0)?,
        })
    };
    Ok(of_transport.filter_map(cell).collect())
}

/// The fields of the profile with these values.
fn overrides(values: &[f64]) -> Vec<String> {
    let fields = FITTED.iter().zip(values);
    fields
        .flat_map(|((names, _), value)| names.iter().map(move |name| format!("{name}={value:.4}")))
        .collect()
}

fn profile(values: &[f64]) -> Result<Profile, Failure> {
    let overrides = overrides(values);
    let overrides: Vec<_> = overrides.iter().map(String::as_str).collect();
    Profile::load_with(BASE, &overrides).map_err(Failure::run)
}

/// What the profile predicts for a measurement.
fn rate(values: &[f64], cell: Cell, transport: TransportKind) -> Result<f64, Failure> {
    let assignments: Vec<String> = UNCHECKED.iter().map(|&text| text.to_owned()).collect();
    let test = EchoTest {
        settings: Settings::load(assignments.clone()).map_err(Failure::run)?,
        buffers: Buffers::Copied,
        closed_loop: ClosedLoop {
            assignments,
            calls: CALLS,
            lasting: Duration::from_secs(10),
            warmup_calls: 0,
            in_flight: cell.in_flight as usize,
            clients: 1,
            servers: 1,
            seed: 1,
            instruments: Instruments::default(),
        },
    };
    let fabric = SimulatedFabric::new(profile(values)?, 1);
    let simulated = test.simulate(&fabric, transport, cell.size);
    let outcome = simulated.map_err(|error| simulation_failure(&fabric, error))?;
    Ok(outcome.calls_per_second)
}

/// The mean square of how far the predictions are off, as logarithms.
fn squares(values: &[f64], cells: &[Cell], transport: TransportKind) -> Result<f64, Failure> {
    let off = |cell: &Cell| Ok((rate(values, *cell, transport)? / cell.per_second).ln().powi(2));
    let squares = cells.iter().map(off).collect::<Result<Vec<f64>, Failure>>()?;
    Ok(squares.iter().sum::<f64>() / squares.len() as f64)
}

/// Writes the profile: the base's text with other values.
fn write(path: &Path, values: &[f64], transport: TransportKind) -> Result<(), Failure> {
    let base = farcall::simulated::profile::EMBEDDED.iter().find(|(name, _)| *name == BASE);
    let text = base.map_or("", |(_, text)| text);
    let overrides = overrides(values);
    let mut section = String::new();
    let mut lines =
        vec![format!("# Fitted to measurements of echoes over {transport} by farcall calibrate.")];
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').to_owned();
        }
        let field = line.split('=').next().unwrap_or_default().trim();
        let name = format!("{section}.{field}=");
        let fitted = overrides.iter().find_map(|text| text.strip_prefix(&name));
        lines.push(match fitted {
            Some(value) => format!("{field} = {value}"),
            None if field == "description" => format!("description = \"fitted to {transport}\""),
            None => line.to_owned(),
        });
    }
    let text = lines.join("\n") + "\n";
    write_beside(path, text.as_bytes())
        .map_err(|error| Failure::Run(format!("cannot write to {}: {error}", path.display())))
}
