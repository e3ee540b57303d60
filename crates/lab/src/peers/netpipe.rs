//! NetPIPE over two MPI libraries. Its file has a size, the rate in 2^20 bits per second, and half the round trip in
//! seconds, which has few digits: the time is computed from the rate. Each is of the best of its series.

use std::process::Command;

use super::launch::{bounded, last_words, output_of};
use super::{Ask, PeerError, PeerFigure};

const PROGRAM: &str = "NetPIPE";

/// Bits in NetPIPE's megabit.
const MEGABIT: f64 = 1_048_576.0;

/// What puts a rank on its core: rank 0 takes the time.
const ON_ITS_CORE: &str = "case \"${OMPI_COMM_WORLD_RANK:-$PMI_RANK}\" in 0) core=$1;; *) core=$2;; esac; \
                           shift 2; exec taskset --cpu-list \"$core\" \"$@\"";

/// Over the shared memory of Open MPI's own transport.
pub fn open_mpi(ask: Ask) -> Result<PeerFigure, PeerError> {
    let mut launcher = bounded("mpirun.openmpi");
    launcher.args(["--bind-to", "none", "-np", "2", "--mca", "pml", "ob1", "--mca", "btl", "self,vader"]);
    // Without these Open MPI refuses to be started by root, as in a container.
    launcher.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    run(ask, launcher, "NPopenmpi")
}

/// Over the shared memory of MPICH.
pub fn mpich(ask: Ask) -> Result<PeerFigure, PeerError> {
    let mut launcher = bounded("mpirun.mpich");
    launcher.args(["-launcher", "fork", "-bind-to", "none", "-np", "2"]);
    run(ask, launcher, "NPmpich2")
}

fn run(ask: Ask, mut launcher: Command, program: &str) -> Result<PeerFigure, PeerError> {
    let file = std::env::temp_dir().join(format!("farcall-netpipe-{}-{program}", std::process::id()));
    let (initiator, responder) = (ask.cores.initiator.to_string(), ask.cores.responder.to_string());
    launcher.args(["sh", "-c", ON_ITS_CORE, "rank", &initiator, &responder, program]);
    // One size without perturbations; NetPIPE repeats a series of so many round trips a few times.
    let (bytes, count) = (ask.bytes.to_string(), (ask.round_trips(1500.0) / 3).max(30).to_string());
    launcher.args(["-l", &bytes, "-u", &bytes, "-p", "0", "-n", &count, "-o"]).arg(&file);
    let printed = output_of(&mut launcher);
    let text = std::fs::read_to_string(&file);
    // A file that is not there needs no removal.
    let _ = std::fs::remove_file(&file);
    let printed = printed?;
    read(&text.unwrap_or(printed), ask.bytes)
}

/// Reads the line of a size.
pub(super) fn read(text: &str, bytes: usize) -> Result<PeerFigure, PeerError> {
    let rate = |line: &str| {
        let mut fields = line.split_whitespace();
        let size: usize = fields.next()?.parse().ok()?;
        let rate: f64 = fields.next()?.parse().ok()?;
        (size == bytes && rate > 0.0 && fields.next()?.parse::<f64>().is_ok()).then_some(rate)
    };
    let megabits = text.lines().rev().find_map(rate);
    let megabits =
        megabits.ok_or_else(|| PeerError::Unreadable { program: PROGRAM, printed: last_words(text) })?;
    let nanos = 2e9 * 8.0 * bytes as f64 / (megabits * MEGABIT);
    // The rate is printed to a millionth.
    Ok(PeerFigure { value: nanos, step: nanos * 1e-6 / megabits })
}
