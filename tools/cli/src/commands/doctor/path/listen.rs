//! `farcall doctor --listen`: echoes probes.

use std::io;
use std::net::{TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::thread;
use std::time::Duration;

use farcall_base::printable;
use serde_json::json;

use super::super::finding::SCHEMA;
use super::wire::{DATAGRAM_BYTES_MAX, Header, Kind};
use super::without_fragments;
use crate::failure::Failure;
use crate::output::Report;

/// How long accepting rests when the system has no descriptor or memory for a connection.
const ACCEPT_REST: Duration = Duration::from_millis(100);

fn drop_connection(accepted: io::Result<TcpStream>) {
    // Connections that ended before they were taken cost their peers as much as this thread; what the system
    // lacks is still lacking at once.
    if accepted.is_err_and(|error| !matches!(error.kind(), io::ErrorKind::ConnectionAborted)) {
        thread::sleep(ACCEPT_REST);
    }
}

/// Answers at an address until the process is ended.
pub fn run(at: &str, report: &mut Report) -> Result<(), Failure> {
    let failed =
        |error: io::Error| Failure::Run(format!("cannot listen for probes at {}: {error}", printable(at)));
    let place = at.to_socket_addrs().map_err(failed)?.next();
    let place = place.ok_or_else(|| Failure::Usage(format!("--listen: {} has no address", printable(at))))?;
    let streams = TcpListener::bind(place).map_err(failed)?;
    let address = streams.local_addr().map_err(failed)?;
    let datagrams = UdpSocket::bind(address).map_err(failed)?;
    without_fragments(&datagrams).map_err(failed)?;
    // To be connected to is all that a stream is for.
    thread::Builder::new()
        .spawn(move || streams.incoming().for_each(drop_connection))
        .map_err(|error| Failure::Run(format!("no thread for connections: {error}")))?;
    report.line(format_args!("probes are answered at {address}, over UDP and TCP"))?;
    report.object(&json!({ "schema": SCHEMA, "kind": "listening", "address": address.to_string() }))?;
    let mut datagram = vec![0; DATAGRAM_BYTES_MAX];
    loop {
        // Errors of earlier echoes, such as an asker that has ended, arrive here.
        let Ok((bytes, from)) = datagrams.recv_from(&mut datagram) else { continue };
        let Some(probe) = Header::decode(&datagram[..bytes]).filter(|header| header.kind == Kind::Probe)
        else {
            continue;
        };
        let (echo, length) = probe.echo(bytes);
        datagram[..length].fill(0);
        let encoded = echo.encode();
        datagram[..encoded.len()].copy_from_slice(&encoded);
        // An echo that does not fit is lost like one that the path drops.
        let _ = datagrams.send_to(&datagram[..length], from);
    }
}
