//! Readiness, for a service manager that asked to be told: one datagram to the socket that it named.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Where a service manager names its socket, for `Type=notify` of systemd. A name that begins with `@` is
/// abstract.
const VARIABLE: &str = "NOTIFY_SOCKET";

/// Says that this process serves. Without a service manager, or where it cannot be reached, nothing happens:
/// then it sees for itself that it heard nothing.
pub fn ready() {
    if let Some(name) = std::env::var_os(VARIABLE).and_then(|name| name.into_string().ok()) {
        let _ = tell(&name);
    }
}

fn tell(name: &str) -> io::Result<()> {
    let address = match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    UnixDatagram::unbound()?.send_to_addr(b"READY=1", &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_manager_is_told_at_a_path_or_an_abstract_name() {
        let name = format!("farcall-notify-{}", std::process::id());
        let path = std::env::temp_dir().join(&name);
        let at_path = UnixDatagram::bind(&path).expect("a new socket");
        let abstract_name = SocketAddr::from_abstract_name(&name).expect("short");
        let at_name = UnixDatagram::bind_addr(&abstract_name).expect("a new socket");
        tell(path.to_str().expect("it is text")).expect("it is there");
        tell(&format!("@{name}")).expect("it is there");
        std::fs::remove_file(&path).expect("it is ours");
        for socket in [at_path, at_name] {
            let mut said = [0; 16];
            let length = socket.recv(&mut said).expect("it was said");
            assert_eq!(&said[..length], b"READY=1");
        }
        assert!(tell("/nonexistent/socket").is_err());
    }
}
