//! NetPIPE over two MPI libraries. Its file has a size, the rate in 2^20 bits per second, and half the round
//! trip, or one way the time of a message, in seconds, which has few digits: everything is computed from the
//! rate. Each is of the best of its series.

use std::process::Command;

use super::launch::{last_words, output_of};
use super::launch::{mpich_launcher, on_their_cores, open_mpi_launcher};
use super::{Ask, PeerError, PeerFigure};
use crate::files::ScratchFolder;

const PROGRAM: &str = "NetPIPE";

const OPEN_MPI: &str = "NPopenmpi";
const MPICH: &str = "NPmpich2";

/// Bits in NetPIPE's megabit.
const MEGABIT: f64 = 1_048_576.0;

/// The step in which the rate is printed.
const STEP_MEGABITS: f64 = 1e-6;

/// No series is shorter, in round trips or messages.
const FEWEST: u64 = 30;

/// Over the shared memory of Open MPI's own transport.
pub fn open_mpi(ask: Ask) -> Result<PeerFigure, PeerError> {
    ping_pong(ask, open_mpi_launcher(), OPEN_MPI)
}

/// Over the shared memory of MPICH.
pub fn mpich(ask: Ask) -> Result<PeerFigure, PeerError> {
    ping_pong(ask, mpich_launcher(), MPICH)
}

/// One way, as [`open_mpi`].
pub fn open_mpi_stream(ask: Ask) -> Result<PeerFigure, PeerError> {
    stream(ask, open_mpi_launcher(), OPEN_MPI)
}

/// One way, as [`mpich`].
pub fn mpich_stream(ask: Ask) -> Result<PeerFigure, PeerError> {
    stream(ask, mpich_launcher(), MPICH)
}

fn ping_pong(ask: Ask, launcher: Command, program: &str) -> Result<PeerFigure, PeerError> {
    // NetPIPE repeats a series of this many round trips a few times.
    let count = (ask.round_trips(1500.0) / 3).max(FEWEST);
    read(&run(ask, launcher, program, count, &[])?, ask.bytes)
}

fn stream(ask: Ask, launcher: Command, program: &str) -> Result<PeerFigure, PeerError> {
    let count = (ask.stream_messages() / 3).max(FEWEST);
    read_stream(&run(ask, launcher, program, count, &["-s"])?, ask.bytes)
}

/// What NetPIPE writes about one size without perturbations.
fn run(
    ask: Ask,
    mut launcher: Command,
    program: &str,
    count: u64,
    more: &[&str],
) -> Result<String, PeerError> {
    let folder = ScratchFolder::new().map_err(|error| PeerError::Failed {
        program: program.to_owned(),
        why: format!("no folder for its output: {error}"),
    })?;
    let file = folder.file("results");
    on_their_cores(&mut launcher, ask.cores, program);
    let (bytes, count) = (ask.bytes.to_string(), count.to_string());
    launcher.args(more).args(["-l", &bytes, "-u", &bytes, "-p", "0", "-n", &count, "-o"]).arg(&file);
    let printed = output_of(&mut launcher);
    let text = std::fs::read_to_string(&file);
    let printed = printed?;
    Ok(text.unwrap_or(printed))
}

/// Reads the round trip of a size.
pub(super) fn read(text: &str, bytes: usize) -> Result<PeerFigure, PeerError> {
    let megabits = megabits(text, bytes)?;
    let nanos = 2e9 * 8.0 * bytes as f64 / (megabits * MEGABIT);
    Ok(PeerFigure { value: nanos, step: nanos * STEP_MEGABITS / megabits })
}

/// Reads the messages a second of a size, sent one way.
pub(super) fn read_stream(text: &str, bytes: usize) -> Result<PeerFigure, PeerError> {
    let megabits = megabits(text, bytes)?;
    let messages_of = |megabits: f64| megabits * MEGABIT / (8.0 * bytes as f64);
    Ok(PeerFigure { value: messages_of(megabits), step: messages_of(STEP_MEGABITS) })
}

/// The rate in the line of a size.
fn megabits(text: &str, bytes: usize) -> Result<f64, PeerError> {
    let rate = |line: &str| {
        let mut fields = line.split_whitespace();
        let size: usize = fields.next()?.parse().ok()?;
        let rate: f64 = fields.next()?.parse().ok()?;
        (size == bytes && rate > 0.0 && fields.next()?.parse::<f64>().is_ok()).then_some(rate)
    };
    let found = text.lines().rev().find_map(rate);
    found.ok_or_else(|| PeerError::Unreadable { program: PROGRAM, printed: last_words(text) })
}
