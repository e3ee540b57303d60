//! Names and addresses of this machine: whether others would reach what is published under them.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::net::{ToSocketAddrs, UdpSocket};

use farcall::bootstrap::{HOSTS_VARIABLE, HostPort, NAMES_VARIABLE, RENDEZVOUS_VARIABLE};
use farcall::parameters::Settings;
use rustix::system::uname;

use super::finding::Finding;
use super::kernel::Kernel;

/// How long a packet takes over loopback at most.
const LOOPBACK_WITHIN: Duration = Duration::from_secs(1);

/// An address for documentation (RFC 5737): the table of routes is asked, and nothing is sent.
const OUTSIDE: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 1), 9);

/// What is to be said of this machine's addresses.
pub fn findings(kernel: &Kernel) -> Vec<Finding> {
    let outward = outward();
    let mut findings = vec![loopback(), route(outward)];
    let name = uname().nodename().to_string_lossy().into_owned();
    let addresses = (name.as_str(), 0).to_socket_addrs().map(|found| found.map(|place| place.ip()).collect());
    findings.push(host_name(&name, addresses.ok(), outward));
    findings.extend(interfaces(kernel));
    findings.extend(settings());
    let places = [NAMES_VARIABLE, RENDEZVOUS_VARIABLE, HOSTS_VARIABLE];
    findings.extend(places.into_iter().filter_map(|variable| {
        let value = std::env::var(variable).ok()?;
        place(variable, &value)
    }));
    findings
}

fn loopback() -> Finding {
    const SUBJECT: &str = "loopback";
    let sent_and_received = || {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.set_read_timeout(Some(LOOPBACK_WITHIN))?;
        socket.send_to(b"farcall", socket.local_addr()?)?;
        socket.recv(&mut [0; 16])
    };
    match sent_and_received() {
        Ok(_) => Finding::good(SUBJECT, "carries packets"),
        Err(error) => {
            Finding::mend(SUBJECT, format!("carries no packets: {error}"), "ip link set lo up, as root")
        }
    }
}

/// The address of packets that leave the machine.
fn outward() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect(OUTSIDE).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

fn route(outward: Option<IpAddr>) -> Finding {
    const SUBJECT: &str = "address to the outside";
    match outward {
        Some(ip) => Finding::good(SUBJECT, ip.to_string()),
        None => Finding::note(SUBJECT, "none: there is no route out of this machine")
            .with("with other machines on one network only, name its interface in net.interface"),
    }
}

/// Debian and others give a machine's name the address 127.0.1.1 where it has no fixed one.
fn host_name(name: &str, addresses: Option<Vec<IpAddr>>, outward: Option<IpAddr>) -> Finding {
    const SUBJECT: &str = "name of this machine";
    let addresses = addresses.unwrap_or_default();
    let list = |all: &[IpAddr]| all.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(", ");
    let Some(first) = addresses.first() else {
        return Finding::note(SUBJECT, format!("{name} has no address here"))
            .with("write addresses, or names that all machines know, into FARCALL_HOSTS and FARCALL_NAMES");
    };
    if !first.is_loopback() {
        return Finding::good(SUBJECT, format!("{name} is {}", list(&addresses)));
    }
    let advice = match outward {
        Some(ip) => format!("name this machine by {ip}, or let /etc/hosts say `{ip} {name}`"),
        None => "name this machine by the address of an interface".to_owned(),
    };
    Finding::warning(
        SUBJECT,
        format!("{name} is {first} here: what listens under this name is not reached by other machines"),
        advice,
    )
}

fn interfaces(kernel: &Kernel) -> Vec<Finding> {
    const FOLDER: &str = "/sys/class/net";
    let interface = |name: String| {
        let mtu = kernel.number(&format!("{FOLDER}/{name}/mtu"))?;
        let state = kernel.text(&format!("{FOLDER}/{name}/operstate"));
        // Loopback and tunnels do not know.
        let is_up = matches!(state.as_deref(), Some("up" | "unknown"));
        let state = format!("{}, packets up to {mtu} bytes", if is_up { "up" } else { "down" });
        Some(Finding::good(format!("interface {name}"), state))
    };
    kernel.names(FOLDER).into_iter().filter_map(interface).collect()
}

/// Settings from the environment: whether they can be used, and whether others reach what they bind to.
fn settings() -> Vec<Finding> {
    const SUBJECT: &str = "parameters of the environment";
    let settings = match Settings::load([]) {
        Ok(settings) => settings,
        Err(error) => {
            return vec![Finding::mend(
                SUBJECT,
                error.to_string(),
                "correct or unset the variable; `farcall info --parameters` lists all",
            )];
        }
    };
    let mut findings = vec![Finding::good(SUBJECT, "can be used")];
    if let Some(ip) = settings.udp.bind_address.filter(IpAddr::is_loopback) {
        findings.push(
            Finding::note("udp.bind_address", format!("{ip}: only this machine reaches endpoints over UDP"))
                .with("unset it, or name an address of an interface"),
        );
    }
    findings
}

/// What a variable says about where others are found; a place that nobody can connect to is one to mend.
fn place(variable: &str, value: &str) -> Option<Finding> {
    let unspecified = |text: &str| {
        let place = HostPort::parse(text.trim())?.to_string();
        let ip = place.parse::<SocketAddr>().ok()?.ip();
        ip.is_unspecified().then_some(ip)
    };
    let Some(ip) = value.split(',').find_map(unspecified) else {
        return Some(Finding::good(variable, value));
    };
    Some(Finding::warning(
        variable,
        format!("{value}: {ip} means every address of the machine that listens, and none to others"),
        "listen there if you like, and give all other processes an address of that machine",
    ))
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity::{Good, Note, Warning};
    use super::super::kernel::tests::Machine;
    use super::*;

    #[test]
    fn a_name_for_loopback_gets_the_address_that_others_reach() {
        let own = Some(IpAddr::from([10, 0, 0, 7]));
        let local = host_name("box", Some(vec![IpAddr::from([127, 0, 1, 1])]), own);
        assert_eq!(local.severity, Warning);
        assert_eq!(
            local.advice.as_deref(),
            Some("name this machine by 10.0.0.7, or let /etc/hosts say `10.0.0.7 box`")
        );
        assert_eq!(host_name("box", own.map(|ip| vec![ip]), own).severity, Good);
        assert_eq!(host_name("box", None, own).severity, Note);
    }

    #[test]
    fn places_that_mean_every_address_are_no_places_for_others() {
        let severity = |value| place("FARCALL_NAMES", value).expect("a finding").severity;
        assert_eq!(severity("0.0.0.0:7117"), Warning);
        assert_eq!(severity("[::]:7117"), Warning);
        assert_eq!(severity("a:1,0.0.0.0:2"), Warning);
        assert_eq!((severity("10.0.0.7:7117"), severity("file:/etc/farcall")), (Good, Good));
    }

    #[test]
    fn interfaces_have_a_state_and_a_longest_packet() {
        let machine = Machine::of(
            "net",
            &[
                ("/sys/class/net/eth0/mtu", "9000\n"),
                ("/sys/class/net/eth0/operstate", "up\n"),
                ("/sys/class/net/eth1/mtu", "1500\n"),
                ("/sys/class/net/eth1/operstate", "down\n"),
            ],
        );
        let states: Vec<_> = interfaces(&machine.kernel).into_iter().map(|finding| finding.state).collect();
        assert_eq!(states, ["up, packets up to 9000 bytes", "down, packets up to 1500 bytes"]);
    }
}
