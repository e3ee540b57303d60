//! `ucx_perftest`: tag matching ping-pong of UCX. It prints half round trips in microseconds, median and means.

use super::launch::{Server, bounded_on, free_port, last_words, output_of};
use super::{Ask, PeerError, PeerFigure};

const PROGRAM: &str = "ucx_perftest";

/// Round trips that do not count.
const WARMUP: &str = "500";

/// Over POSIX shared memory; the kernel copies what is long.
pub fn posix(ask: Ask) -> Result<PeerFigure, PeerError> {
    run(ask, "posix,cma,self", 500.0)
}

/// Over System V shared memory; nothing is copied by the kernel.
pub fn sysv(ask: Ask) -> Result<PeerFigure, PeerError> {
    run(ask, "sysv,self", 500.0)
}

/// Over TCP.
pub fn tcp(ask: Ask) -> Result<PeerFigure, PeerError> {
    run(ask, "tcp,self", 20_000.0)
}

fn run(ask: Ask, transports: &str, nanos: f64) -> Result<PeerFigure, PeerError> {
    let port = free_port()?;
    let program = |core| {
        let mut command = bounded_on(core, PROGRAM);
        command.env("UCX_TLS", transports).env("UCX_NET_DEVICES", "lo").env("UCX_WARN_UNUSED_ENV_VARS", "n");
        command
    };
    let mut server = program(ask.cores.responder);
    server.args(["-p", &port.to_string()]);
    let _server = Server::start(server)?.listening(PROGRAM, port)?;
    let (bytes, count) = (ask.bytes.to_string(), ask.round_trips(nanos).to_string());
    let mut client = program(ask.cores.initiator);
    client.args(["127.0.0.1", "-p", &port.to_string(), "-t", "tag_lat", "-s", &bytes, "-n", &count]);
    read(&output_of(client.args(["-w", WARMUP, "-v"]))?)
}

/// Reads the table that `-v` prints: iterations, median, mean of the last second, mean of all, and rates.
pub(super) fn read(text: &str) -> Result<PeerFigure, PeerError> {
    const STEP_MICROS: f64 = 0.001;
    let median = |line: &str| {
        let mut fields = line.split(',').map(|field| field.trim().parse::<f64>());
        let (_, median) = (fields.next()?.ok()?, fields.next()?.ok()?);
        (median > 0.0 && fields.next()?.is_ok()).then_some(median)
    };
    let micros = text.lines().rev().find_map(median);
    let micros =
        micros.ok_or_else(|| PeerError::Unreadable { program: PROGRAM, printed: last_words(text) })?;
    Ok(PeerFigure { value: 2e3 * micros, step: 2e3 * STEP_MICROS })
}
