//! Starting the programs of others: on one core each, for a bounded time, and never left behind.

use core::ops::Range;
use core::time::Duration;
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use farcall_limit::{Core, CorePair};

use super::PeerError;
use crate::files::on_search_path;

/// No program takes longer than this for one figure.
const WITHIN_SECONDS: &str = "20";

/// A server listens within this time.
const LISTENING_WITHIN: Duration = Duration::from_secs(5);

/// The time between two looks whether it does.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(2);

/// Where servers of others listen: below the ports that the kernel gives to connections, which could take one
/// before its server has it.
const PORTS: Range<u16> = 20_000..32_000;

/// What puts a rank on its core: rank 0 takes the time.
const ON_ITS_CORE: &str = "case \"${OMPI_COMM_WORLD_RANK:-$PMI_RANK}\" in 0) core=$1;; *) core=$2;; esac; \
                           shift 2; exec taskset --cpu-list \"$core\" \"$@\"";

/// Whether a program of that name is on the search path.
pub fn is_here(program: &str) -> bool {
    on_search_path(program).is_some()
}

/// A program in the folder `bin` of a Python package, as `python3` finds it.
pub fn of_wheel(package: &str, program: &str) -> Option<PathBuf> {
    let code =
        format!("import importlib.util as u; print(u.find_spec('{package}').submodule_search_locations[0])");
    let output = Command::new("python3").args(["-c", &code]).stderr(Stdio::null()).output().ok()?;
    let folder = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim_end());
    Some(folder.join("bin").join(program)).filter(|path| output.status.success() && path.is_file())
}

/// A command that is ended when it takes too long, with all that it has started.
pub fn bounded(program: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=2", WITHIN_SECONDS, program]);
    command.stdin(Stdio::null());
    command
}

/// The same on one core.
pub fn bounded_on(core: Core, program: &str) -> Command {
    let mut command = bounded("taskset");
    command.args(["--cpu-list", &core.to_string(), program]);
    command
}

/// A command on some cores that goes on until it is interrupted as by a user, which it takes well.
pub fn interrupted_after(seconds: u64, cores: &str, program: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--preserve-status", "--signal=INT", "--kill-after=2", &seconds.to_string()]);
    command.args(["taskset", "--cpu-list", cores, program]);
    command.stdin(Stdio::null());
    command
}

/// A server on one core, which ends with this value.
pub struct Server(Child);

impl Server {
    /// Starts a command that was made by [`bounded_on`].
    pub fn start(mut command: Command) -> Result<Self, PeerError> {
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map(Self).map_err(|error| not_started(&command, &error))
    }

    /// Waits until something listens on the port.
    pub fn listening(self, program: &'static str, port: u16) -> Result<Self, PeerError> {
        self.once(program, || is_listening(port))
    }

    /// Waits until the file is there, such as a Unix socket.
    pub fn with_file(self, program: &'static str, file: &Path) -> Result<Self, PeerError> {
        self.once(program, || file.exists())
    }

    /// Asks again and again whether it listens, because programs of others tell nobody when they do.
    fn once(mut self, program: &str, listens: impl Fn() -> bool) -> Result<Self, PeerError> {
        let failed = |why: &str| PeerError::Failed { program: program.to_owned(), why: why.to_owned() };
        let until = Instant::now() + LISTENING_WITHIN;
        while !listens() {
            if matches!(self.0.try_wait(), Ok(Some(_))) {
                return Err(failed("its server ended at once"));
            }
            if Instant::now() > until {
                return Err(failed("its server does not listen"));
            }
            std::thread::sleep(ASK_AGAIN_AFTER);
        }
        Ok(self)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // `timeout` passes SIGTERM on to what it runs, which SIGKILL could not be; many servers have ended
        // already.
        let _ = Command::new("kill").arg(self.0.id().to_string()).stderr(Stdio::null()).status();
        let _ = self.0.wait();
    }
}

/// A port on which nothing listens now, another one each time.
pub fn free_port() -> Result<u16, PeerError> {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    let count = u32::from(PORTS.end - PORTS.start);
    // Processes that run side by side begin elsewhere.
    let begun = std::process::id().wrapping_mul(37) % count;
    let mut ports = (0..count).map(|_| {
        let next = TAKEN.fetch_add(1, Ordering::Relaxed) % count;
        PORTS.start + ((begun + next * 331) % count) as u16
    });
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    ports.find(is_free).ok_or_else(|| PeerError::Start {
        program: "a listener".to_owned(),
        why: format!("no port from {} to {} is free", PORTS.start, PORTS.end),
    })
}

/// Whether something listens there, without a connection that the server would take for its client.
fn is_listening(port: u16) -> bool {
    const LISTEN: &str = "0A";
    let place = format!(":{port:04X}");
    let listens = |line: &str| {
        let mut fields = line.split_whitespace().skip(1);
        fields.next().is_some_and(|local| local.ends_with(&place)) && fields.nth(1) == Some(LISTEN)
    };
    ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .any(|table| std::fs::read_to_string(table).is_ok_and(|text| text.lines().any(listens)))
}

/// Runs a command to its end and returns what it printed.
pub fn output_of(command: &mut Command) -> Result<String, PeerError> {
    let output = command.output();
    printed(command, output)
}

/// The same of one that asks something at its end.
pub fn output_answering(command: &mut Command, answer: &str) -> Result<String, PeerError> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| not_started(command, &error))?;
    if let Some(mut input) = child.stdin.take() {
        // One that has ended already does not ask, and says why below.
        let _ = input.write_all(answer.as_bytes());
    }
    printed(command, child.wait_with_output())
}

fn printed(command: &Command, output: io::Result<Output>) -> Result<String, PeerError> {
    let Output { status, stdout, stderr } = output.map_err(|error| not_started(command, &error))?;
    let text = String::from_utf8_lossy(&stdout).into_owned();
    if status.success() {
        return Ok(text);
    }
    // 124 is what `timeout` says of a command that it ended.
    let why = match status.code() {
        Some(124) => format!("it took longer than {WITHIN_SECONDS} s"),
        _ => last_words(&format!("{text}\n{}", String::from_utf8_lossy(&stderr))),
    };
    Err(PeerError::Failed { program: name_of(command), why })
}

/// The last line that says something.
pub fn last_words(text: &str) -> String {
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing").trim().to_owned()
}

fn not_started(command: &Command, error: &io::Error) -> PeerError {
    PeerError::Start { program: name_of(command), why: error.to_string() }
}

/// The program behind `timeout` and `taskset`, which have options and one argument each.
fn name_of(command: &Command) -> String {
    let arguments = command.get_args().map(|argument| argument.to_string_lossy().into_owned());
    let mut words = arguments.skip_while(|word| word.starts_with("--")).skip(1);
    match words.next() {
        Some(first) if first == "taskset" => words.nth(2),
        first => first,
    }
    .unwrap_or_default()
}

// Two ranks of an MPI program, as two libraries start them. NetPIPE and the benchmarks of oomph are started
// alike, so that what differs between their figures is their own.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_seen_without_being_connected_to() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        assert!(is_listening(port));
        drop(listener);
        // A child that another test starts just now has a copy until it runs its program.
        let begun = std::time::Instant::now();
        while is_listening(port) {
            assert!(begun.elapsed() < std::time::Duration::from_secs(30), "nobody listens any more");
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_a_program_says_last_is_kept_when_it_fails() {
        let error = output_of(bounded("sh").args(["-c", "echo bad luck >&2; exit 3"])).expect_err("status 3");
        assert_eq!(error.to_string(), "sh failed: bad luck");
        assert!(is_here("sh") && !is_here("no-such-program"));
    }

    #[test]
    fn a_program_is_named_behind_what_bounds_it() {
        assert_eq!(name_of(&bounded("sh")), "sh");
        assert_eq!(name_of(&bounded_on(Core(1), "server")), "server");
        assert_eq!(name_of(&interrupted_after(3, "0,1", "endless")), "endless");
    }

    #[test]
    fn one_that_asks_gets_its_answer() {
        let text = output_answering(bounded("sh").args(["-c", "read answer; echo got $answer"]), "n\n");
        assert_eq!(text.expect("status 0"), "got n\n");
    }

    #[test]
    fn one_that_never_ends_is_interrupted_and_keeps_its_words() {
        let program = "trap 'echo interrupted; exit 0' INT; while :; do sleep 0.05; done";
        let text = output_of(interrupted_after(3, "0", "sh").args(["-c", program]));
        assert_eq!(text.expect("status 0"), "interrupted\n");
    }
}
