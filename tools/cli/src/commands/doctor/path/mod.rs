//! The path to another machine, on which `farcall doctor --listen` runs: its ports, its time, and the longest
//! packets each way.

pub mod listen;
mod probe;
mod wire;

use core::time::Duration;
use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Instant;

use farcall::bootstrap::HostPort;
use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover,
};

use super::finding::Finding;
use probe::{Longest, Prober};

/// How long a connection may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);

/// Probes of which the time is taken.
const TIMED_PROBES: usize = 50;

/// Lost probes, in hundredths, from which on a path is a bad one.
const LOSS_PERCENT_MAX: usize = 1;

/// What is to be said of the path to a peer.
pub fn findings(peer: &HostPort) -> Vec<Finding> {
    let places = match peer.look_up() {
        Ok(places) => places,
        Err(error) => {
            return vec![Finding::mend(
                format!("name {peer}"),
                format!("has no address: {error}"),
                "write it into /etc/hosts of this machine, or give its address",
            )];
        }
    };
    let of_one = |place: SocketAddr| {
        let (connected, tcp) = stream(place);
        let mut findings = vec![tcp];
        findings.extend(datagrams(place, connected));
        findings
    };
    places.into_iter().flat_map(of_one).collect()
}

/// Connects over TCP.
fn stream(place: SocketAddr) -> (bool, Finding) {
    let subject = format!("TCP to {place}");
    let begun = Instant::now();
    match TcpStream::connect_timeout(&place, CONNECT_WITHIN) {
        Ok(_) => {
            let state = format!("connects in {:.0} us", begun.elapsed().as_nanos() as f64 / 1e3);
            (true, Finding::good(subject, state))
        }
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => (
            false,
            Finding::mend(
                subject,
                "the machine answers, and nothing listens at the port",
                format!("run `farcall doctor --listen 0.0.0.0:{}` there", place.port()),
            ),
        ),
        Err(error) => (
            false,
            Finding::mend(
                subject,
                format!("no connection: {error}"),
                "see whether the address is right, the machine is up, and a firewall lets the port through",
            ),
        ),
    }
}

/// Sends probes over UDP.
fn datagrams(place: SocketAddr, connected: bool) -> Vec<Finding> {
    let subject = format!("UDP to {place}");
    let mut prober = match Prober::to(place) {
        Ok(prober) => prober,
        Err(error) => {
            let advice = "see whether there is a route to the address: ip route get";
            return vec![Finding::mend(subject, format!("no packet can be sent: {error}"), advice)];
        }
    };
    let mut times: Vec<_> = (0..TIMED_PROBES).map_while(|_| prober.time_of_one()).flatten().collect();
    if times.is_empty() {
        let advice = match (prober.is_refused(), connected) {
            (true, _) => format!("run `farcall doctor --listen 0.0.0.0:{}` there", place.port()),
            (false, true) => {
                "TCP passes: a firewall drops UDP, here, there or between; let it through".to_owned()
            }
            (false, false) => "mend the path for TCP first".to_owned(),
        };
        let state = if prober.is_refused() { "nothing listens at the port" } else { "no probe comes back" };
        return vec![Finding::mend(subject, state, advice)];
    }
    times.sort_unstable();
    let median = times[times.len() / 2].as_nanos() as f64 / 1e3;
    let lost = prober.sent() - times.len();
    let state = format!(
        "{median:.0} us there and back from {}, {lost} of {} probes lost",
        prober.local(),
        prober.sent()
    );
    let time = if lost * 100 > prober.sent() * LOSS_PERCENT_MAX {
        Finding::warning(
            subject,
            state,
            "look for drops with ip -s link and ethtool -S, on both sides and between",
        )
    } else {
        Finding::good(subject, state)
    };
    vec![time, longest(place, prober.longest())]
}

/// What is to be said of the longest packets; lengths are those of IP packets, as MTUs are.
fn longest(place: SocketAddr, longest: Longest) -> Finding {
    let subject = format!("packets to {place}");
    let headers = if place.is_ipv4() { 28 } else { 48 };
    let Longest { sent, there, back } = longest;
    let packet = |payload: usize| payload + headers;
    if there == sent && back == sent {
        return Finding::good(subject, format!("up to {} bytes pass unfragmented, both ways", packet(sent)));
    }
    let payload = there.min(back);
    Finding::warning(
        subject,
        format!(
            "this machine sends up to {} bytes, {} arrive there, {} come back: longer ones vanish",
            packet(sent),
            packet(there),
            packet(back),
        ),
        format!(
            "give the interfaces of both sides the MTU of the path, {}, or set udp.mtu_bytes={payload} in all \
             processes",
            packet(payload)
        ),
    )
}

/// Packets of this socket are sent whole or not at all.
fn without_fragments(socket: &UdpSocket) -> io::Result<()> {
    if socket.local_addr()?.is_ipv4() {
        set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::PROBE)?;
    } else {
        set_ipv6_mtu_discover(socket, Ipv6PathMtuDiscovery::PROBE)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity::{Good, Warning};
    use super::*;

    #[test]
    fn a_path_that_is_narrower_than_its_ends_says_what_to_set() {
        let place = SocketAddr::from(([10, 0, 0, 7], 7119));
        let narrow = longest(place, Longest { sent: 8972, there: 1372, back: 8972 });
        assert_eq!(narrow.severity, Warning);
        assert!(narrow.state.contains("up to 9000 bytes, 1400 arrive there, 9000 come back"), "{narrow:?}");
        assert!(narrow.advice.expect("what to do").contains("udp.mtu_bytes=1372"));
        assert_eq!(longest(place, Longest { sent: 1472, there: 1472, back: 1472 }).severity, Good);
    }
}
