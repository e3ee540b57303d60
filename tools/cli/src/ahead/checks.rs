//! What can be known to fail before it is tried.

use std::path::Path;
use std::process::Command;

use farcall::parameters::Value;
use farcall::{Presence, TransportKind};
use farcall_lab::explain::recorded::RunFolder;
use farcall_lab::files::on_search_path;
use rustix::fs::{Access, access, statfs};

use crate::arguments::measuring::Tracing;
use crate::arguments::ranks::OverRanks;
use crate::arguments::{Output, Recording, Tuning};
use crate::failure::Failure;
use crate::output::Destination;

/// Bytes of a simulated host with its endpoint: what shuffles of 100 and of 400 nodes took.
const HOST_BYTES: u64 = 160 << 10;

/// Bytes of one end of a simulated session: what is allocated at the peak of an exchange, which a test of the
/// collective operations counts, and a tenth for the allocator.
const SESSION_BYTES: u64 = 1500;

/// Bytes of one end of a lane with its ring.
const LANE_BYTES: u64 = 80 << 10;

/// Memory that a simulation of so many hosts takes, each of which has sessions to so many others.
pub fn simulation_bytes(transport: TransportKind, hosts: u64, peers: u64) -> u64 {
    let of_session = if transport == TransportKind::RING_SIM { LANE_BYTES } else { SESSION_BYTES };
    hosts * (HOST_BYTES + peers * of_session)
}

/// Refuses folders and files that results and traces cannot be written to.
pub fn destinations(
    recording: &Recording,
    tracing: Option<&Tracing>,
    output: &Output,
) -> Result<(), Failure> {
    let mut wrong = Vec::new();
    if let Some(file) = tracing.and_then(Tracing::file) {
        wrong.extend(writable_beside(file).err());
    }
    if let Some(folder) = &recording.record {
        let checked = RunFolder::check(folder).map_err(Failure::run);
        wrong.extend(checked.and_then(|()| writable(folder, true)).err());
    }
    if let Some(Destination::File(file)) = &output.json {
        wrong.extend(writable(file, false).err());
        if tracing.and_then(Tracing::file).is_some_and(|trace| is_same(trace, file)) {
            let file = file.display();
            wrong.push(Failure::Usage(format!("--json and --trace would both write {file}; name two files")));
        }
    }
    Failure::all(wrong)
}

/// Parameters that name files which endpoints read when they are opened, and of which transports: of those
/// whose name ends so.
const FILES_READ: [(&str, &str); 6] = [
    ("security.key_file", ""),
    ("security.policy_file", ""),
    ("tls.cluster_key", "tls"),
    ("tls.cert", "tls"),
    ("tls.key", "tls"),
    ("tls.ca", "tls"),
];

/// Refuses files of parameters that cannot be read, where the endpoints are on this machine. Settings that
/// are wrong are for others to refuse.
pub fn files_read(tuning: &Tuning, over: &OverRanks, transports: &[TransportKind]) -> Result<(), Failure> {
    let Some((_, settings)) = tuning.load().ok().filter(|_| over.world.is_none()) else { return Ok(()) };
    let is_read = |name: &str| {
        let of = FILES_READ.iter().find(|(file, _)| *file == name);
        of.is_some_and(|(_, part)| transports.iter().any(|transport| transport.name().ends_with(part)))
    };
    let named = settings.iter().filter(|(parameter, _)| is_read(parameter.name));
    let unreadable = named.filter_map(|(parameter, value)| {
        let Value::Text(file) = value else { return None };
        let error = std::fs::File::open(file.to_string()).err()?;
        Some(Failure::Run(format!("{}: cannot read {file}: {error}", parameter.name)))
    });
    Failure::all(unreadable.collect())
}

fn is_same(one: &Path, other: &Path) -> bool {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    absolute(one) == absolute(other)
}

/// Refuses the folder for temporary files where it takes none.
pub fn temporary_files() -> Result<(), Failure> {
    writable(&std::env::temp_dir().join("farcall"), false)
}

/// Whether a folder lies in the memory of this machine: a flush does nothing there. One that cannot be looked
/// at is said to be of no use by what opens a file there.
pub fn lies_in_memory(folder: &Path) -> bool {
    /// How Linux numbers tmpfs and ramfs.
    const MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];
    statfs(folder).is_ok_and(|system| MEMORY.contains(&system.f_type))
}

/// What is said of measurements of a disk whose folder for temporary files is on none.
pub fn no_disk() -> Option<String> {
    let folder = std::env::temp_dir();
    lies_in_memory(&folder).then(|| {
        format!(
            "{} lies in the memory of this machine (tmpfs), where a flush does nothing: name a folder on a disk with TMPDIR",
            folder.display()
        )
    })
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

/// Refuses a file that cannot be put in its place: it is written beside that, so its folder decides.
fn writable_beside(file: &Path) -> Result<(), Failure> {
    let wrong = |why: String| Failure::Run(format!("cannot write to {}: {why}", file.display()));
    match file.symlink_metadata() {
        Ok(there) if there.is_dir() => return Err(wrong("it is a folder".to_owned())),
        // A device or a pipe is written to where it is.
        Ok(there) if !there.is_file() && !there.is_symlink() => {
            return access(file, Access::WRITE_OK).map_err(|error| wrong(error.to_string()));
        }
        _ => {}
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let why = match access(folder, Access::WRITE_OK | Access::EXEC_OK) {
        _ if folder.exists() && !folder.is_dir() => "no folder".to_owned(),
        Ok(()) => return Ok(()),
        Err(error) => error.to_string(),
    };
    Err(wrong(format!("{}: {why}", folder.display())))
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
