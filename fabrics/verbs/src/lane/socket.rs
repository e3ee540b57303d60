//! The socket of a connection: how a peer is called and written to, and what it means when that fails.

use std::io::{self, Write};
use std::net::TcpStream;

use farcall_driver::LaneFault;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};

use super::handshake::Message;
use super::place::Place;

/// Starts to call a place, without waiting for it.
pub fn start_to_connect(place: Place) -> Result<TcpStream, LaneFault> {
    let family = if place.socket.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None).map_err(unusable)?;
    // Without it the last bytes of the handshake may wait for an acknowledgement; nothing breaks.
    let _slower = sockopt::set_tcp_nodelay(&socket, true);
    match connect(&socket, &place.socket) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket.into()),
        Err(error) => Err(fault_of_call(&error.into())),
    }
}

/// Why a call of that fails.
pub fn fault_of_call(error: &io::Error) -> LaneFault {
    match error.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => LaneFault::NotThere,
        io::ErrorKind::TimedOut => LaneFault::TimedOut,
        _ => unusable(error),
    }
}

/// Sends a message; see [`send_bytes`].
pub fn send(stream: &mut TcpStream, message: &Message<'_>) {
    send_bytes(stream, &message.encode());
}

/// Sends a message that fits the socket's empty buffer; a peer that does not get it whole is gone, which
/// reading shows.
pub fn send_bytes(stream: &mut TcpStream, bytes: &[u8]) {
    let _peer_gone = stream.write_all(bytes);
}

/// There can be no lane, for this reason.
pub fn unusable(error: impl ToString) -> LaneFault {
    LaneFault::Unacceptable { why: error.to_string() }
}
