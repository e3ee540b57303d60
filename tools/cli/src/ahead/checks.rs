//! What can be known to fail before it is tried.

use std::path::Path;
use std::process::Command;

use farcall::{Presence, TransportKind};
use farcall_lab::explain::recorded::RunFolder;
use farcall_lab::files::on_search_path;
use rustix::fs::{Access, access};

use crate::arguments::{Output, Recording};
use crate::failure::Failure;
use crate::output::Destination;

/// Bytes of a simulated host with its endpoint: what shuffles of 100 and of 400 nodes took.
const HOST_BYTES: u64 = 160 << 10;

/// Bytes of one end of a simulated session, found in the same way.
const SESSION_BYTES: u64 = 4300;

/// Bytes of one end of a lane with its ring.
const LANE_BYTES: u64 = 80 << 10;

/// Memory that a simulation of so many hosts takes, each of which has sessions to so many others.
pub fn simulation_bytes(transport: TransportKind, hosts: u64, peers: u64) -> u64 {
    let of_session = if transport == TransportKind::RING_SIM { LANE_BYTES } else { SESSION_BYTES };
    hosts * (HOST_BYTES + peers * of_session)
}

/// Refuses folders and files that results cannot be written to.
pub fn destinations(recording: &Recording, output: &Output) -> Result<(), Failure> {
    let mut wrong = Vec::new();
    if let Some(folder) = &recording.record {
        let checked = RunFolder::check(folder).map_err(Failure::run);
        wrong.extend(checked.and_then(|()| writable(folder, true)).err());
    }
    if let Some(Destination::File(file)) = &output.json {
        wrong.extend(writable(file, false).err());
    }
    Failure::all(wrong)
}

/// Refuses a path that cannot be made or written: what is there already of it decides. Folders above it are
/// made for some.
fn writable(path: &Path, makes_folders: bool) -> Result<(), Failure> {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let Some((above, there)) = absolute.ancestors().enumerate().find(|(_, path)| path.exists()) else {
        return Ok(());
    };
    let name = there.display();
    let why = match access(there, Access::WRITE_OK) {
        _ if above > 0 && !there.is_dir() => format!("{name} is no folder"),
        _ if above > 1 && !makes_folders => format!("there is no such folder in {name}"),
        Ok(()) => return Ok(()),
        Err(error) => format!("{name}: {error}"),
    };
    Err(Failure::Run(format!("cannot write to {}: {why}", path.display())))
}

/// Refuses transports of which something is not on this machine.
pub fn presence(transports: &[TransportKind]) -> Result<(), Failure> {
    let absent = transports.iter().filter_map(|transport| match transport.presence()? {
        Presence::Here { .. } => None,
        Presence::Absent { why } => {
            Some(Failure::Run(format!("--transport: {transport} is not here: {why}")))
        }
    });
    Failure::all(absent.collect())
}

/// The launcher of the processes of MPI.
const MPIRUN: &str = "mpirun";

/// What lets the launcher of Open MPI run as root; both are needed.
const AS_ROOT: [&str; 2] = ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"];

/// Refuses the transport `mpi` where its launcher is not there or would refuse to start anything.
pub fn launcher_of_mpi(transports: &[TransportKind]) -> Result<(), Failure> {
    if !transports.contains(&TransportKind::MPI) {
        return Ok(());
    }
    let Some(mpirun) = on_search_path(MPIRUN) else {
        return Err(Failure::Run(
            "--transport: mpirun, which starts the processes of mpi, is not installed (Debian: openmpi-bin)"
                .to_owned(),
        ));
    };
    let may = AS_ROOT.iter().all(|variable| std::env::var_os(variable).is_some());
    if rustix::process::geteuid().is_root() && !may && is_open_mpi(&mpirun) {
        let set = AS_ROOT.map(|variable| format!("{variable}=1")).join(" ");
        return Err(Failure::Run(format!(
            "--transport: mpirun of Open MPI starts nothing as root; run this as another user, or set {set}"
        )));
    }
    Ok(())
}

fn is_open_mpi(mpirun: &Path) -> bool {
    let version = Command::new(mpirun).arg("--version").output();
    version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("Open MPI"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_below_a_file_is_refused_and_one_that_can_be_made_is_not() {
        let folder = std::env::temp_dir().join(format!("farcall-ahead-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        std::fs::write(folder.join("file"), "").expect("a temporary file");
        let said = |path: &str, makes_folders| {
            let refused = writable(&folder.join(path), makes_folders).err();
            refused.map_or_else(String::new, |failure| failure.sentences().join(""))
        };
        let (folders, below) = (said("a/b/c", true), said("file/run", true));
        let (file, missing) = (said("file", false), said("a/results", false));
        std::fs::remove_dir_all(&folder).expect("it was just made");
        assert_eq!((&*folders, &*file), ("", ""));
        assert!(below.ends_with("/file is no folder"), "{below}");
        assert!(missing.contains("there is no such folder in "), "{missing}");
    }
}
