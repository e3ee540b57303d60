//! `fi_pingpong`: the ping-pong of libfabric. It prints the mean of half the round trip in microseconds with
//! two decimals, and the rate in 10^6 bytes per second with two as well, which are the finer ones of long
//! messages.

use super::launch::{Server, bounded_on, free_port, last_words, output_of};
use super::{Ask, PeerError, PeerFigure};

const PROGRAM: &str = "fi_pingpong";

/// The columns of the table.
const COLUMNS: usize = 8;

/// Over shared memory.
pub fn shm(ask: Ask) -> Result<PeerFigure, PeerError> {
    run(ask, "shm", "rdm", 2_000.0)
}

/// Over TCP.
pub fn tcp(ask: Ask) -> Result<PeerFigure, PeerError> {
    run(ask, "tcp", "msg", 30_000.0)
}

fn run(ask: Ask, provider: &str, endpoint: &str, nanos: f64) -> Result<PeerFigure, PeerError> {
    let port = free_port()?.to_string();
    let (bytes, count) = (ask.bytes.to_string(), ask.round_trips(nanos).to_string());
    let program = |core| {
        let mut command = bounded_on(core, PROGRAM);
        command.args(["-p", provider, "-e", endpoint, "-I", &count, "-S", &bytes]).env("FI_TCP_IFACE", "lo");
        command
    };
    let mut server = program(ask.cores.responder);
    server.args(["-B", &port]);
    let port_number = port.parse().expect("it was a number");
    let _server = Server::start(server)?.listening(PROGRAM, port_number)?;
    let mut client = program(ask.cores.initiator);
    read(&output_of(client.args(["-P", &port, "127.0.0.1"]))?, ask.bytes)
}

/// Reads the last line of the table: size, sent, acknowledged, total, time, MB/s, usec/xfer, Mxfers/s.
pub(super) fn read(text: &str, bytes: usize) -> Result<PeerFigure, PeerError> {
    const STEP: f64 = 0.01;
    let figures = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (rate, micros) = (fields.get(5)?.parse::<f64>().ok()?, fields.get(6)?.parse::<f64>().ok()?);
        (fields.len() == COLUMNS && rate > 0.0 && micros > 0.0).then_some((rate, micros))
    };
    let found = text.lines().rev().find_map(figures);
    let (rate, micros) =
        found.ok_or_else(|| PeerError::Unreadable { program: PROGRAM, printed: last_words(text) })?;
    let by_time = PeerFigure { value: 2e3 * micros, step: 2e3 * STEP };
    let value = 2e3 * bytes as f64 / rate;
    let by_rate = PeerFigure { value, step: value * STEP / rate };
    Ok(if by_rate.step < by_time.step { by_rate } else { by_time })
}
