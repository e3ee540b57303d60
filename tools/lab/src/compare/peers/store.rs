//! Key-value stores of others behind sockets, read by a client of our own that polls: the client that comes
//! with a store would be a part of the figure.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use farcall::Clock;
use farcall_limit::pin_to;

use super::launch::{Server, bounded_on, free_port};
use super::{Ask, PeerError, PeerFigure};
use crate::files::ScratchFolder;
use crate::run::beside;
use crate::statistics::histogram::LatencyHistogram;
use farcall_base::Random;

/// Objects that are written at a time.
const WRITTEN_AT_ONCE: usize = 100;

/// More than memcached needs for an item beside its value.
const MEMCACHED_ITEM_BYTES: usize = 1024;

/// What a store is spoken to with.
struct Dialect {
    set: fn(&str, &[u8]) -> Vec<u8>,
    stored: &'static [u8],
    get: fn(&str) -> Vec<u8>,
    /// The answer where there is no such object.
    missing: &'static [u8],
    /// What surrounds a value of this many bytes under a key of this many.
    answer_bytes: fn(usize, usize) -> usize,
}

const REDIS: Dialect = Dialect {
    set: |key, value| {
        let head = format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${}\r\n", key.len(), value.len());
        [head.as_bytes(), value, b"\r\n"].concat()
    },
    stored: b"+OK\r\n",
    get: |key| format!("*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len()).into_bytes(),
    missing: b"$-1\r\n",
    answer_bytes: |_, value| format!("${value}\r\n").len() + value + 2,
};

const MEMCACHED: Dialect = Dialect {
    set: |key, value| [format!("set {key} 0 0 {}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat(),
    stored: b"STORED\r\n",
    get: |key| format!("get {key}\r\n").into_bytes(),
    missing: b"END\r\n",
    answer_bytes: |key, value| {
        "VALUE  0 ".len() + key + value.to_string().len() + 2 + value + 2 + "END\r\n".len()
    },
};

/// Redis behind a Unix socket.
pub fn redis_unix(ask: Ask) -> Result<PeerFigure, PeerError> {
    let folder = ScratchFolder::new().map_err(|error| PeerError::Start {
        program: "redis-server".to_owned(),
        why: format!("no folder for its socket: {error}"),
    })?;
    let socket = folder.file("socket");
    let mut server = redis(ask);
    server.args(["--port", "0", "--unixsocket"]).arg(&socket);
    let _server = Server::start(server)?.with_file("redis-server", &socket)?;
    let stream = UnixStream::connect(&socket).and_then(|stream| {
        stream.set_nonblocking(true)?;
        Ok(stream)
    });
    measure(ask, stream, &REDIS, "redis-server")
}

/// Redis behind TCP.
pub fn redis_tcp(ask: Ask) -> Result<PeerFigure, PeerError> {
    let port = free_port()?;
    let mut server = redis(ask);
    server.args(["--bind", "127.0.0.1", "--port", &port.to_string()]);
    let _server = Server::start(server)?.listening("redis-server", port)?;
    measure(ask, connected(port), &REDIS, "redis-server")
}

/// Memcached behind TCP.
pub fn memcached_tcp(ask: Ask) -> Result<PeerFigure, PeerError> {
    let port = free_port()?;
    let mut server = bounded_on(ask.cores.responder, "memcached");
    server.args(["-u", "nobody", "-t", "1", "-l", "127.0.0.1", "-U", "0", "-p", &port.to_string()]);
    // By itself it has room for 64 MB, and evicts what was written first; an object may be as long as a
    // megabyte with its key.
    let room = 2 * ask.objects() * (ask.bytes + MEMCACHED_ITEM_BYTES);
    server.args(["-m", &room.div_ceil(1 << 20).max(64).to_string()]);
    // The longest item must be a multiple of its chunks, of half a megabyte.
    server.args(["-I", &format!("{}m", (ask.bytes + MEMCACHED_ITEM_BYTES).div_ceil(1 << 20))]);
    let _server = Server::start(server)?.listening("memcached", port)?;
    measure(ask, connected(port), &MEMCACHED, "memcached")
}

fn redis(ask: Ask) -> std::process::Command {
    let mut server = bounded_on(ask.cores.responder, "redis-server");
    server.args(["--save", "", "--appendonly", "no"]);
    server
}

fn connected(port: u16) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// Fills the store and reads from it, on a thread of its own on the initiator's core.
fn measure<S: Read + Write + Send>(
    ask: Ask,
    stream: std::io::Result<S>,
    dialect: &Dialect,
    program: &str,
) -> Result<PeerFigure, PeerError> {
    let failed = |why: String| PeerError::Failed { program: program.to_owned(), why };
    let stream = stream.map_err(|error| failed(error.to_string()))?;
    let client = || {
        pin_to(ask.cores.initiator).map_err(|error| failed(error.to_string()))?;
        read_objects(ask, stream, dialect).map_err(|error| failed(error.to_string()))
    };
    std::thread::scope(|scope| {
        let client = beside::spawn_scoped(scope, client).map_err(failed)?;
        client.join().expect("the client does not panic")
    })
}

/// With one request in flight the median round trip, with more the requests per second.
fn read_objects<S: Read + Write>(ask: Ask, mut stream: S, dialect: &Dialect) -> std::io::Result<PeerFigure> {
    let keys: Vec<String> = (0..ask.objects()).map(|number| format!("{number:030}")).collect();
    let value = vec![b'x'; ask.bytes];
    let mut answer = Vec::new();
    for some in keys.chunks(WRITTEN_AT_ONCE) {
        let requests: Vec<u8> = some.iter().flat_map(|key| (dialect.set)(key, &value)).collect();
        exchange(&mut stream, &requests, &mut answer, dialect.stored.len() * some.len(), dialect)?;
        if answer != dialect.stored.repeat(some.len()) {
            return Err(std::io::Error::other("it does not take objects"));
        }
    }
    let mut random = Random::new(ask.bytes as u64);
    let each = (dialect.answer_bytes)(keys[0].len(), ask.bytes);
    let mut latencies = LatencyHistogram::new();
    let (begun, mut requests) = (Instant::now(), 0_u64);
    while begun.elapsed() < ask.lasting {
        let batch = (0..ask.in_flight).flat_map(|_| (dialect.get)(&keys[random.index(keys.len())]));
        let batch: Vec<u8> = batch.collect();
        let asked = Instant::now();
        exchange(&mut stream, &batch, &mut answer, each * ask.in_flight, dialect)?;
        latencies.record(asked.elapsed().as_nanos() as u64);
        requests += ask.in_flight as u64;
    }
    let per_second = requests as f64 / begun.elapsed().as_secs_f64();
    let median = latencies.median_nanos(&Clock::new());
    match (ask.in_flight, median) {
        (1, Some(nanos)) => Ok(PeerFigure { value: nanos, step: 0.0 }),
        (1, None) => Err(std::io::Error::other("too few answers for a median")),
        _ => Ok(PeerFigure { value: per_second, step: 0.0 }),
    }
}

/// Sends all of `requests` and takes in `expected` bytes, without sleeping. The answer that an object is
/// missing is shorter, and nothing more would come.
fn exchange<S: Read + Write>(
    stream: &mut S,
    requests: &[u8],
    answer: &mut Vec<u8>,
    expected: usize,
    dialect: &Dialect,
) -> std::io::Result<()> {
    answer.resize(expected, 0);
    let (mut sent, mut received) = (0, 0);
    while received < expected {
        if sent < requests.len() {
            sent += unless_blocked(stream.write(&requests[sent..]))?.unwrap_or(0);
        }
        match unless_blocked(stream.read(&mut answer[received..]))? {
            Some(0) => return Err(std::io::Error::other("it closed the connection")),
            some => received += some.unwrap_or(0),
        }
        if received >= dialect.missing.len() && answer.starts_with(dialect.missing) {
            return Err(std::io::Error::other("it has lost an object that was written"));
        }
    }
    Ok(())
}

fn unless_blocked(outcome: std::io::Result<usize>) -> std::io::Result<Option<usize>> {
    match outcome {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a client finds whose server gives these answers to everything.
    fn asked(dialect: &Dialect, answers: &[u8], expected: usize) -> std::io::Result<()> {
        let (mut client, mut server) = UnixStream::pair()?;
        client.set_nonblocking(true)?;
        server.write_all(answers)?;
        drop(server);
        exchange(&mut client, b"", &mut Vec::new(), expected, dialect)
    }

    #[test]
    fn a_lost_object_is_noticed_and_not_waited_for() {
        for dialect in [&REDIS, &MEMCACHED] {
            let error = asked(dialect, dialect.missing, 1000).expect_err("there is no object");
            assert_eq!(error.to_string(), "it has lost an object that was written");
        }
    }

    #[test]
    fn an_answer_is_as_long_as_expected_or_an_error() {
        let answer = b"$3\r\nabc\r\n";
        let expected = (REDIS.answer_bytes)(30, 3);
        assert_eq!(answer.len(), expected);
        asked(&REDIS, answer, expected).expect("a whole answer");
        let error = asked(&REDIS, &answer[1..], expected).expect_err("a part of an answer");
        assert_eq!(error.to_string(), "it closed the connection");
    }
}
