//! Settings of the connections between members and the rendezvous, and the cluster key that seals them.
//!
//! Processes meet before a program has read its parameters, so the file of the key is that of the
//! environment: the variable of the parameter `security.key_file`.

use std::io;
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

use farcall_base::Entropy;
use farcall_driver::{KeyFile, KeyFileError};
use farcall_protocol::keys::Keyring;
use rustix::net::sockopt;

use super::incarnation::random;

/// Names the file of the cluster's keys.
pub const KEY_FILE_VARIABLE: &str = "FARCALL_SECURITY_KEY_FILE";

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

/// The file that the environment names.
pub(super) fn file_of_environment() -> Option<PathBuf> {
    std::env::var_os(KEY_FILE_VARIABLE).filter(|path| !path.is_empty() && path != "auto").map(PathBuf::from)
}

/// The keys of a file.
pub(super) fn ring(file: &KeyFile) -> Keyring {
    Keyring::new(file.keys().to_vec()).expect("a file of keys has one to eight")
}

/// The keys that the environment names, if it does.
pub(super) fn ring_of_environment() -> Result<Option<Keyring>, KeyFileError> {
    file_of_environment().map(|path| KeyFile::open(&path).map(|file| ring(&file))).transpose()
}

/// From which the keys of one connection are drawn.
pub(super) fn entropy() -> Entropy {
    Entropy::from_seed(random())
}
