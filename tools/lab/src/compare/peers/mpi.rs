//! Two ranks of an MPI program, each on its core, as two libraries start them. NetPIPE and the benchmarks of
//! oomph are started alike, so that what differs between their figures is their own.

use std::process::Command;

use farcall_limit::CorePair;

use super::launch::bounded;

/// What puts a rank on its core: rank 0 takes the time.
const ON_ITS_CORE: &str = "case \"${OMPI_COMM_WORLD_RANK:-$PMI_RANK}\" in 0) core=$1;; *) core=$2;; esac; \
                           shift 2; exec taskset --cpu-list \"$core\" \"$@\"";

/// Starts two ranks over Open MPI, whose messages take the shared memory of its own transport.
pub fn open_mpi_launcher() -> Command {
    let mut launcher = bounded("mpirun.openmpi");
    launcher.args(["--bind-to", "none", "-np", "2", "--mca", "pml", "ob1", "--mca", "btl", "self,vader"]);
    // Without these Open MPI refuses to be started by root, as in a container.
    launcher.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    launcher
}

/// Starts two ranks over MPICH.
pub fn mpich_launcher() -> Command {
    let mut launcher = bounded("mpirun.mpich");
    launcher.args(["-launcher", "fork", "-bind-to", "none", "-np", "2"]);
    launcher
}

/// Gives a launcher its program, whose arguments come next: rank 0 on the initiator's core, rank 1 on the
/// responder's.
pub fn on_their_cores(launcher: &mut Command, cores: CorePair, program: &str) {
    let (initiator, responder) = (cores.initiator.to_string(), cores.responder.to_string());
    launcher.args(["sh", "-c", ON_ITS_CORE, "rank", &initiator, &responder, program]);
}
