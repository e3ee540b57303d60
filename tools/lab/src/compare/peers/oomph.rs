//! The benchmarks of oomph, the transport layer of GHEX, over MPI and over UCX. Debian has no package of
//! them: they are built from the sources of github.com/ghex-org/oomph, and the folder that has the programs
//! is put first on the search path.
//!
//! Both ranks send, and both receive as many. The figure is the messages a second of both directions
//! together: either core sends one half of them and receives the other, where in a stream one way one core
//! sends all and the other receives all, which is the same work for each message of the two cores together.
//! Nothing is warmed up, and nobody reads what has arrived.

use std::process::Command;

use super::launch::{last_words, output_of};
use super::launch::{on_their_cores, open_mpi_launcher};
use super::{Ask, PeerError, PeerFigure, ucx};

const PROGRAM: &str = "oomph";

/// Both wait with futures, for whichever is complete. They are those that know threads, of which they get
/// one.
const OVER_MPI: &str = "bench_p2p_bi_ft_avail_mt_mpi";
const OVER_UCX: &str = "bench_p2p_bi_ft_avail_mt_ucx";

/// The buffers of both ranks together are no longer than this, so that the machine does not run out of
/// memory.
const BUFFERS_BYTES: usize = 1 << 30;

/// A rank sends at least this many messages for each that is in flight. Those that are in flight at the end
/// are not counted, and so are at most one in fifty.
const ROUNDS_MIN: u64 = 50;

/// Both ways at once, over the shared memory of Open MPI's own transport.
pub fn mpi_stream(ask: Ask) -> Result<PeerFigure, PeerError> {
    stream(ask, open_mpi_launcher(), OVER_MPI)
}

/// The same by UCX over System V shared memory. Open MPI only starts the ranks.
pub fn ucx_stream(ask: Ask) -> Result<PeerFigure, PeerError> {
    let mut launcher = open_mpi_launcher();
    launcher.env("UCX_TLS", ucx::SYSV);
    stream(ask, launcher, OVER_UCX)
}

fn stream(ask: Ask, mut launcher: Command, program: &str) -> Result<PeerFigure, PeerError> {
    check_buffers(ask)?;
    // Each rank sends one half of the messages.
    let count = (ask.stream_messages() / 2).max(ROUNDS_MIN * ask.in_flight as u64);
    launcher.env("OMP_NUM_THREADS", "1");
    on_their_cores(&mut launcher, ask.cores, program);
    launcher.args([count.to_string(), ask.bytes.to_string(), ask.in_flight.to_string()]);
    read(&output_of(&mut launcher)?, ask.bytes)
}

/// Either rank has a buffer for each message in flight each way: all of them must fit into [`BUFFERS_BYTES`].
pub(super) fn check_buffers(ask: Ask) -> Result<(), PeerError> {
    const FOR_EACH_IN_FLIGHT: usize = 4;
    let bytes = ask.bytes.saturating_mul(ask.in_flight).saturating_mul(FOR_EACH_IN_FLIGHT);
    if bytes <= BUFFERS_BYTES {
        return Ok(());
    }
    let why = format!("its buffers would take {} MiB, and may take {}", bytes >> 20, BUFFERS_BYTES >> 20);
    Err(PeerError::Failed { program: PROGRAM.to_owned(), why })
}

/// Reads the messages a second of both directions together from the line of names and values that rank 0
/// prints at its end.
pub(super) fn read(text: &str, bytes: usize) -> Result<PeerFigure, PeerError> {
    /// The rate has six digits, the last of which is worth this part of it at most.
    const DIGIT: f64 = 1e-5;
    let unreadable = || PeerError::Unreadable { program: PROGRAM, printed: last_words(text) };
    let (count, rate) = count_and_rate(text, bytes).ok_or_else(unreadable)?;
    // Bytes of both ways over 10^6 in a second are those of a microsecond, and time is taken in whole ones.
    let micros = 2.0 * count * bytes as f64 / rate;
    let value = 1e6 * rate / bytes as f64;
    Ok(PeerFigure { value, step: value * DIGIT.max(1.0 / micros) })
}

/// The messages of each way and the rate of both, of messages of a size.
fn count_and_rate(text: &str, bytes: usize) -> Option<(f64, f64)> {
    let line = text.lines().rev().find_map(|line| line.strip_prefix("CSVData, "))?;
    let words: Vec<&str> = line.split(", ").collect();
    let value = |name: &str| {
        let pair = words.chunks_exact(2).find(|pair| pair[0] == name)?;
        pair[1].parse::<f64>().ok()
    };
    let (size, count, rate) = (value("buff_size")?, value("niter")?, value("BW MB/s")?);
    (size == bytes as f64 && count > 0.0 && rate > 0.0).then_some((count, rate))
}
