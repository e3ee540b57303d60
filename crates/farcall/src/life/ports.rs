//! The ports at which a process may answer: any that is free, or one of a range that a firewall can name.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener};

/// The ports of one host among which its processes find theirs, from `net.life_port` on.
pub const LIFE_PORTS_MAX: u16 = 64;

/// Listens at the address: at the first free port of those from `first` on, or at any.
///
/// # Errors
/// The system's; [`ErrorKind::AddrInUse`] when all of the range are taken.
pub fn listen(ip: IpAddr, first: Option<u16>) -> io::Result<TcpListener> {
    let Some(first) = first else {
        return TcpListener::bind(SocketAddr::new(ip, 0));
    };
    let last = first.saturating_add(LIFE_PORTS_MAX - 1);
    for port in first..=last {
        match TcpListener::bind(SocketAddr::new(ip, port)) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {}
            bound => return bound,
        }
    }
    let taken = format!("net.life_port: all ports of {ip} from {first} to {last} are taken");
    Err(io::Error::new(ErrorKind::AddrInUse, taken))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    /// An address that no other test of this machine listens at.
    const HOST: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 17, 98));

    fn ports_of(listeners: &[TcpListener]) -> Vec<u16> {
        listeners.iter().map(|listener| listener.local_addr().expect("it is bound").port()).collect()
    }

    #[test]
    fn processes_of_a_host_listen_at_the_ports_from_the_first_on_until_there_is_no_room() {
        let first = 7300;
        let mut listeners: Vec<_> = (0..3).map(|_| listen(HOST, Some(first)).expect("room")).collect();
        assert_eq!(ports_of(&listeners), [first, first + 1, first + 2]);
        drop(listeners.remove(1));
        listeners.insert(1, listen(HOST, Some(first)).expect("the one that became free"));
        listeners.extend((3..LIFE_PORTS_MAX).map(|_| listen(HOST, Some(first)).expect("room")));
        assert_eq!(ports_of(&listeners), (first..first + LIFE_PORTS_MAX).collect::<Vec<_>>());
        let error = listen(HOST, Some(first)).expect_err("all are taken");
        assert_eq!(error.to_string(), "net.life_port: all ports of 127.0.17.98 from 7300 to 7363 are taken");
    }

    #[test]
    fn behind_the_last_port_there_is_none() {
        let _last = listen(HOST, Some(u16::MAX)).expect("room");
        let error = listen(HOST, Some(u16::MAX)).expect_err("it is taken");
        assert_eq!(
            error.to_string(),
            "net.life_port: all ports of 127.0.17.98 from 65535 to 65535 are taken"
        );
    }
}
