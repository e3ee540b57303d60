//! `ucx_perftest`: tag matching of UCX. Of ping-pongs it prints half round trips in microseconds, median and
//! means; of streams one way the messages a second, over the whole run.
//!
//! Debian's is on the search path; a newer one comes with the Python wheel `libucx`, whose libraries it
//! needs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use farcall_limit::Core;

use super::launch::{Server, bounded_on, free_port, last_words, of_wheel, output_of};
use super::{Ask, PeerError, PeerFigure};

const PROGRAM: &str = "ucx_perftest";

/// Round trips that do not count.
const WARMUP: &str = "500";

/// The program of the wheel, where there is one. It is looked for once.
pub fn wheel() -> Option<&'static Path> {
    static WHEEL: OnceLock<Option<PathBuf>> = OnceLock::new();
    WHEEL.get_or_init(|| of_wheel("libucx", PROGRAM)).as_deref()
}

/// Over POSIX shared memory; the kernel copies what is long.
pub fn posix(ask: Ask) -> Result<PeerFigure, PeerError> {
    ping_pong(Build::Debian, ask, POSIX, 500.0)
}

/// Over System V shared memory; nothing is copied by the kernel.
pub fn sysv(ask: Ask) -> Result<PeerFigure, PeerError> {
    ping_pong(Build::Debian, ask, SYSV, 500.0)
}

/// Over TCP.
pub fn tcp(ask: Ask) -> Result<PeerFigure, PeerError> {
    ping_pong(Build::Debian, ask, "tcp,self", 20_000.0)
}

/// As [`posix`], by the wheel.
pub fn wheel_posix(ask: Ask) -> Result<PeerFigure, PeerError> {
    ping_pong(Build::Wheel, ask, POSIX, 500.0)
}

/// As [`sysv`], by the wheel.
pub fn wheel_sysv(ask: Ask) -> Result<PeerFigure, PeerError> {
    ping_pong(Build::Wheel, ask, SYSV, 500.0)
}

/// A stream one way over POSIX shared memory.
pub fn posix_stream(ask: Ask) -> Result<PeerFigure, PeerError> {
    stream(Build::Debian, ask, POSIX)
}

/// A stream one way over System V shared memory.
pub fn sysv_stream(ask: Ask) -> Result<PeerFigure, PeerError> {
    stream(Build::Debian, ask, SYSV)
}

/// As [`posix_stream`], by the wheel.
pub fn wheel_posix_stream(ask: Ask) -> Result<PeerFigure, PeerError> {
    stream(Build::Wheel, ask, POSIX)
}

/// As [`sysv_stream`], by the wheel.
pub fn wheel_sysv_stream(ask: Ask) -> Result<PeerFigure, PeerError> {
    stream(Build::Wheel, ask, SYSV)
}

const POSIX: &str = "posix,cma,self";

/// System V shared memory alone, for the benchmarks of oomph too.
pub(super) const SYSV: &str = "sysv,self";

/// Which of the two it is.
#[derive(Clone, Copy)]
enum Build {
    Debian,
    Wheel,
}

impl Build {
    fn on(self, core: Core) -> Result<Command, PeerError> {
        let Self::Wheel = self else { return Ok(bounded_on(core, PROGRAM)) };
        let absent = || PeerError::Start { program: PROGRAM.to_owned(), why: "the wheel is gone".to_owned() };
        let program = wheel().ok_or_else(absent)?;
        let mut command = bounded_on(core, &program.to_string_lossy());
        let libraries = program.parent().and_then(Path::parent).map(|folder| folder.join("lib"));
        command.env("LD_LIBRARY_PATH", libraries.unwrap_or_default());
        Ok(command)
    }
}

fn ping_pong(build: Build, ask: Ask, transports: &str, nanos: f64) -> Result<PeerFigure, PeerError> {
    read(&run(build, ask, transports, &["-t", "tag_lat"], ask.round_trips(nanos))?)
}

fn stream(build: Build, ask: Ask, transports: &str) -> Result<PeerFigure, PeerError> {
    let window = ask.in_flight.to_string();
    read_stream(&run(build, ask, transports, &["-t", "tag_bw", "-O", &window], ask.stream_messages())?)
}

fn run(build: Build, ask: Ask, transports: &str, test: &[&str], count: u64) -> Result<String, PeerError> {
    let port = free_port()?;
    let program = |core| {
        let mut command = build.on(core)?;
        command.env("UCX_TLS", transports).env("UCX_NET_DEVICES", "lo").env("UCX_WARN_UNUSED_ENV_VARS", "n");
        Ok::<_, PeerError>(command)
    };
    let mut server = program(ask.cores.responder)?;
    server.args(["-p", &port.to_string()]);
    let _server = Server::start(server)?.listening(PROGRAM, port)?;
    let (bytes, count) = (ask.bytes.to_string(), count.to_string());
    let mut client = program(ask.cores.initiator)?;
    client.args(["127.0.0.1", "-p", &port.to_string()]).args(test).args(["-s", &bytes, "-n", &count]);
    output_of(client.args(["-w", WARMUP, "-v"]))
}

/// The last line of the table that `-v` prints: iterations, median, mean of the last second, mean of all,
/// bandwidth of both (in 2^20 bytes a second) and messages a second of both.
fn fields(text: &str) -> Option<Vec<f64>> {
    const FIELDS: usize = 8;
    let numbers =
        |line: &str| line.split(',').map(|field| field.trim().parse().ok()).collect::<Option<Vec<f64>>>();
    text.lines().rev().find_map(numbers).filter(|fields| fields.len() == FIELDS)
}

/// Reads the messages a second of a stream, which are printed to the message.
pub(super) fn read_stream(text: &str) -> Result<PeerFigure, PeerError> {
    let rate = fields(text).map(|fields| fields[7]).filter(|rate| *rate > 0.0);
    let rate = rate.ok_or_else(|| PeerError::Unreadable { program: PROGRAM, printed: last_words(text) })?;
    Ok(PeerFigure { value: rate, step: 1.0 })
}

/// Reads the median of half round trips.
pub(super) fn read(text: &str) -> Result<PeerFigure, PeerError> {
    const STEP_MICROS: f64 = 0.001;
    let micros = fields(text).map(|fields| fields[1]).filter(|micros| *micros > 0.0);
    let micros =
        micros.ok_or_else(|| PeerError::Unreadable { program: PROGRAM, printed: last_words(text) })?;
    Ok(PeerFigure { value: 2e3 * micros, step: 2e3 * STEP_MICROS })
}
