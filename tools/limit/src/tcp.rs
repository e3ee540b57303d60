//! Bare system calls on a stream socket of the loopback interface: what TCP between two polling threads
//! takes.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};

use std::time::Instant;

use crate::latency::Rounds;
use crate::pair::run_pair;
use crate::{Bandwidth, CorePair, Effort, Latency, LimitError};

/// The longest message.
pub const TCP_MESSAGE_BYTES_MAX: usize = 16 << 20;

/// What the end of a stream asks for at a time: iperf3 does, too.
const READ_BYTES: usize = 128 << 10;

/// Measures the round trip of a request and a response of these lengths. Neither side sleeps.
pub fn tcp_ping_pong(
    cores: CorePair,
    request_bytes: usize,
    response_bytes: usize,
    effort: Effort,
) -> Result<Latency, LimitError> {
    for bytes in [request_bytes, response_bytes] {
        LimitError::check_size("a message", bytes, 1..=TCP_MESSAGE_BYTES_MAX)?;
    }
    let (here, there) = pair().map_err(failed("connect"))?;
    let initiate = || {
        let found = rounds(&here, request_bytes, response_bytes, effort);
        // The responder sees the end of the stream, whatever happened here.
        let _ = here.shutdown(Shutdown::Both);
        found
    };
    let serve = || respond(&there, request_bytes, response_bytes);
    let (latency, served) = run_pair(cores, initiate, serve)?;
    let latency = latency.map_err(failed("move a message"))?;
    served.map_err(failed("answer"))?;
    Ok(latency)
}

/// Measures how much messages of `bytes` carry one way, written one after the other and read in pieces of any
/// length. Neither side sleeps.
pub fn tcp_stream(cores: CorePair, bytes: usize, effort: Effort) -> Result<Bandwidth, LimitError> {
    LimitError::check_size("a streamed message", bytes, 1..=TCP_MESSAGE_BYTES_MAX)?;
    let (here, there) = pair().map_err(failed("connect"))?;
    let produce = || {
        let message = vec![1; bytes];
        let run = |lasting| -> std::io::Result<Bandwidth> {
            let (begin, mut messages) = (Instant::now(), 0);
            while messages == 0 || begin.elapsed() < lasting {
                send(&here, &message)?;
                messages += 1;
            }
            let carried = (messages * bytes as u64) as f64;
            Ok(Bandwidth { messages, bytes_per_second: carried / begin.elapsed().as_secs_f64() })
        };
        let found = run(effort.warmup).and_then(|_| run(effort.measure));
        // The consumer sees the end of the stream, whatever happened here.
        let _ = here.shutdown(Shutdown::Both);
        found
    };
    let consume = || {
        let mut memory = vec![0; READ_BYTES];
        while receive_some(&there, &mut memory)? > 0 {}
        Ok(())
    };
    let (found, consumed) = run_pair(cores, produce, consume)?;
    let found = found.map_err(failed("move a message"))?;
    consumed.map_err(failed("read"))?;
    Ok(found)
}

fn failed(what: &'static str) -> impl Fn(std::io::Error) -> LimitError {
    move |error| LimitError::Socket { what, reason: error.to_string() }
}

fn pair() -> std::io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let here = TcpStream::connect(listener.local_addr()?)?;
    let (there, _) = listener.accept()?;
    for stream in [&here, &there] {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
    }
    Ok((here, there))
}

fn rounds(
    stream: &TcpStream,
    request_bytes: usize,
    response_bytes: usize,
    effort: Effort,
) -> std::io::Result<Latency> {
    let (request, mut response) = (vec![1; request_bytes], vec![0; response_bytes]);
    let mut rounds = Rounds::new(effort);
    loop {
        send(stream, &request)?;
        if !receive(stream, &mut response)? {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        if rounds.finished() {
            return Ok(rounds.into_latency());
        }
    }
}

fn respond(stream: &TcpStream, request_bytes: usize, response_bytes: usize) -> std::io::Result<()> {
    let (mut request, response) = (vec![0; request_bytes], vec![1; response_bytes]);
    while receive(stream, &mut request)? {
        send(stream, &response)?;
    }
    Ok(())
}

fn send(mut stream: &TcpStream, message: &[u8]) -> std::io::Result<()> {
    let mut sent = 0;
    while sent < message.len() {
        match stream.write(&message[sent..]) {
            Ok(bytes) => sent += bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => core::hint::spin_loop(),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Takes a whole message in; `false` when the stream has ended before it.
fn receive(stream: &TcpStream, message: &mut [u8]) -> std::io::Result<bool> {
    let mut received = 0;
    while received < message.len() {
        match receive_some(stream, &mut message[received..])? {
            0 => return Ok(false),
            bytes => received += bytes,
        }
    }
    Ok(true)
}

/// Waits for some bytes; none at the end of the stream.
fn receive_some(mut stream: &TcpStream, memory: &mut [u8]) -> std::io::Result<usize> {
    loop {
        match stream.read(memory) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => core::hint::spin_loop(),
            found => return found,
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    #[test]
    fn messages_of_any_length_come_back() {
        let cores = CorePair::first_allowed().expect("the tests have two cores");
        let effort = Effort { warmup: Duration::ZERO, measure: Duration::from_millis(2) };
        for (there, back) in [(1, 1), (30, 100), (1 << 20, 1 << 20)] {
            let latency =
                tcp_ping_pong(cores, there, back, effort).unwrap_or_else(|error| panic!("{there}: {error}"));
            assert!(latency.samples >= 1 && latency.min_nanos > 0);
        }
        assert!(matches!(
            tcp_ping_pong(cores, 1, 0, effort),
            Err(LimitError::Size { what: "a message", .. })
        ));
    }

    #[test]
    fn messages_of_any_length_stream() {
        let cores = CorePair::first_allowed().expect("the tests have two cores");
        let effort = Effort { warmup: Duration::ZERO, measure: Duration::from_millis(2) };
        for bytes in [1, 64 << 10, 1 << 20] {
            let stream = tcp_stream(cores, bytes, effort).unwrap_or_else(|error| panic!("{bytes}: {error}"));
            assert!(stream.messages >= 1 && stream.bytes_per_second > 0.0);
        }
    }
}
