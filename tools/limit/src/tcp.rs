//! Bare system calls on a stream socket of the loopback interface: what TCP between two polling threads
//! takes.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};

use crate::latency::Rounds;
use crate::pair::run_pair;
use crate::{CorePair, Effort, Latency, LimitError};

/// The longest message.
pub const TCP_MESSAGE_BYTES_MAX: usize = 16 << 20;

/// Measures the round trip of a message of `bytes` each way. Neither side sleeps.
pub fn tcp_ping_pong(cores: CorePair, bytes: usize, effort: Effort) -> Result<Latency, LimitError> {
    LimitError::check_size("a message", bytes, 1..=TCP_MESSAGE_BYTES_MAX)?;
    let (here, there) = pair().map_err(failed("connect"))?;
    let initiate = || {
        let found = rounds(&here, bytes, effort);
        // The responder sees the end of the stream, whatever happened here.
        let _ = here.shutdown(Shutdown::Both);
        found
    };
    let (latency, served) = run_pair(cores, initiate, || respond(&there, bytes))?;
    let latency = latency.map_err(failed("move a message"))?;
    served.map_err(failed("answer"))?;
    Ok(latency)
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

fn rounds(stream: &TcpStream, bytes: usize, effort: Effort) -> std::io::Result<Latency> {
    let mut message = vec![1; bytes];
    let mut rounds = Rounds::new(effort);
    loop {
        send(stream, &message)?;
        if !receive(stream, &mut message)? {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        if rounds.finished() {
            return Ok(rounds.into_latency());
        }
    }
}

fn respond(stream: &TcpStream, bytes: usize) -> std::io::Result<()> {
    let mut message = vec![0; bytes];
    while receive(stream, &mut message)? {
        send(stream, &message)?;
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
fn receive(mut stream: &TcpStream, message: &mut [u8]) -> std::io::Result<bool> {
    let mut received = 0;
    while received < message.len() {
        match stream.read(&mut message[received..]) {
            Ok(0) => return Ok(false),
            Ok(bytes) => received += bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => core::hint::spin_loop(),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    #[test]
    fn messages_of_any_length_come_back() {
        let cores = CorePair::first_allowed().expect("the tests have two cores");
        let effort = Effort { warmup: Duration::ZERO, measure: Duration::from_millis(2) };
        for bytes in [1, 100, 1 << 20] {
            let latency =
                tcp_ping_pong(cores, bytes, effort).unwrap_or_else(|error| panic!("{bytes}: {error}"));
            assert!(latency.samples >= 1 && latency.min_nanos > 0);
        }
        assert!(matches!(tcp_ping_pong(cores, 0, effort), Err(LimitError::Size { what: "a message", .. })));
    }
}
