//! What a command does under a launcher: rank 0 goes on with it, the others work for rank 0.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Arc, Weak};
use std::time::Duration;

use farcall_lab::run::world::{Entered, World, enter as enter_world};
use signal_hook::consts::SIGTERM;
use signal_hook::iterator::Signals;

use crate::arguments::ranks::OverRanks;
use crate::failure::Failure;

/// How long ranks have to say that they are there when the launcher ends rank 0: launchers kill a second
/// later.
const LAST_ANSWER_MAX: Duration = Duration::from_millis(600);

/// The variables in which launchers tell a process its rank.
const RANK_VARIABLES: [&str; 5] =
    ["FARCALL_RANK", "PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"];

/// Whether this process is one of several that say the same, and not the one that speaks.
pub fn is_silent_rank() -> bool {
    let rank = RANK_VARIABLES.iter().find_map(|variable| std::env::var(variable).ok());
    rank.is_some_and(|rank| rank.trim().parse::<u32>().is_ok_and(|rank| rank > 0))
}

/// Takes this process's place; whether it is to go on with its command. A member has done its work then.
pub fn enter(over: &mut OverRanks) -> Result<bool, Failure> {
    match enter_world(&over.place).map_err(Failure::run)? {
        Entered::Alone if over.hosts.is_empty() => Ok(true),
        Entered::Alone => Err(start_at(&over.hosts)),
        Entered::Excused => Ok(false),
        Entered::Member(member) => member.work().map(|()| false).map_err(Failure::run),
        Entered::Lead(world) => {
            let world = Arc::from(world);
            name_lost_at_the_end(&world)?;
            over.world = Some(world);
            Ok(true)
        }
    }
}

/// A launcher that loses a rank ends the others, rank 0 too: it says before which one is missing.
fn name_lost_at_the_end(world: &Arc<World>) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::Run(format!("cannot watch for signals: {error}"));
    let (mut signals, world) = (Signals::new([SIGTERM]).map_err(failed)?, Arc::downgrade(world));
    let life = move || {
        if signals.forever().next().is_some() {
            end_with_reason(&world);
        }
    };
    std::thread::Builder::new().name("launcher".to_owned()).spawn(life).map_err(failed)?;
    Ok(())
}

fn end_with_reason(world: &Weak<World>) {
    let missing = world.upgrade().map_or_else(Vec::new, |world| {
        let missing = world.missing(LAST_ANSWER_MAX);
        missing.iter().for_each(|error| world.note(error));
        missing
    });
    missing.iter().for_each(|error| Failure::run(error).tell());
    std::process::exit(if missing.is_empty() { 128 + SIGTERM } else { 1 });
}

/// A way to start one process on each of some hosts.
struct Launcher {
    program: &'static str,
    arguments: fn(&[String]) -> Vec<String>,
}

/// Those that may be installed, the first that is is taken.
const LAUNCHERS: [Launcher; 4] = [
    Launcher { program: "mpirun", arguments: |hosts| [as_open_mpi("--host", hosts), root()].concat() },
    Launcher { program: "prterun", arguments: |hosts| [as_open_mpi("--host", hosts), root()].concat() },
    Launcher { program: "mpirun.mpich", arguments: |hosts| as_open_mpi("-hosts", hosts) },
    Launcher {
        program: "srun",
        arguments: |hosts| {
            let nodes = format!("--nodelist={}", hosts.join(","));
            vec![nodes, format!("--ntasks={}", hosts.len()), "--mpi=pmix".to_owned()]
        },
    },
];

fn as_open_mpi(option: &str, hosts: &[String]) -> Vec<String> {
    ["-n", &hosts.len().to_string(), option, &hosts.join(",")].map(str::to_owned).into()
}

/// Open MPI starts nothing as root unless it is told that this is meant.
fn root() -> Vec<String> {
    let is_root = rustix::process::getuid().is_root();
    if is_root { vec!["--allow-run-as-root".to_owned()] } else { Vec::new() }
}

/// Becomes the launcher; returns only when there is none, or it cannot be run.
fn start_at(hosts: &[String]) -> Failure {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return Failure::Run(format!("--hosts: this program cannot find itself: {error}")),
    };
    for launcher in LAUNCHERS {
        let mut command = Command::new(launcher.program);
        command.args((launcher.arguments)(hosts)).arg(&program).args(without_hosts(std::env::args().skip(1)));
        let error = command.exec();
        if error.kind() != std::io::ErrorKind::NotFound {
            return Failure::Run(format!("--hosts: {} cannot be run: {error}", launcher.program));
        }
    }
    let names = LAUNCHERS.map(|launcher| launcher.program).join(", ");
    Failure::Run(format!(
        "--hosts: none of {names} is installed (Debian: openmpi-bin); farcall has no remote shell"
    ))
}

/// The arguments for the ranks, which are not to start themselves once more.
fn without_hosts(arguments: impl Iterator<Item = String>) -> Vec<String> {
    let mut left = Vec::new();
    let mut arguments = arguments.peekable();
    while let Some(argument) = arguments.next() {
        if argument == "--hosts" {
            arguments.next();
        } else if !argument.starts_with("--hosts=") {
            left.push(argument);
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_not_told_to_start_ranks() {
        let line = ["perf", "--hosts", "a,b", "echo", "--hosts=c", "--sizes", "1K"];
        assert_eq!(without_hosts(line.map(str::to_owned).into_iter()), ["perf", "echo", "--sizes", "1K"]);
    }

    #[test]
    fn every_launcher_gets_its_own_words() {
        let hosts = ["a".to_owned(), "b".to_owned()];
        assert_eq!(as_open_mpi("--host", &hosts), ["-n", "2", "--host", "a,b"]);
        assert_eq!((LAUNCHERS[3].arguments)(&hosts), ["--nodelist=a,b", "--ntasks=2", "--mpi=pmix"]);
    }
}
