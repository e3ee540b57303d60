//! Settings of the connections between members and the rendezvous.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use rustix::net::sockopt;

/// Silence after which the kernel asks whether the other machine is still there.
const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(5);
/// Time between two such questions.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// Unanswered questions after which the connection is gone.
const KEEP_ALIVE_PROBES: u32 = 5;
/// How long sent bytes may stay unacknowledged.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(10);

/// Has the kernel end the connection when the other machine is gone without a word. A process that dies needs
/// no such help: its kernel closes its connections.
pub(super) fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEP_ALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(stream, KEEP_ALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, KEEP_ALIVE_PROBES)?;
    sockopt::set_tcp_user_timeout(stream, UNACKNOWLEDGED_MAX.as_millis() as u32)?;
    Ok(())
}
