//! What rank 0 tells the others by the launcher: where its rendezvous is, by the name of its machine, and by
//! the address on the way out of it for those that do not know the name.
//!
//! Slurm's nodes need no names that a resolver knows, and neither do containers.

use std::net::{IpAddr, SocketAddr};

use rustix::system::uname;

use super::hosts::{HostList, HostPort};

/// The text for a rendezvous that listens at `port` of all interfaces.
pub(super) fn of_this_machine(port: u16) -> String {
    text(&machine(), farcall_udp::outward_address(), port)
}

/// A name first: where a machine has several networks, it leads to the one that names are for.
fn text(name: &str, outward: Option<IpAddr>, port: u16) -> String {
    let by_name = format!("{name}:{port}");
    outward.map_or(by_name.clone(), |ip| format!("{by_name},{}", SocketAddr::new(ip, port)))
}

/// The first of the places told that leads to the machine of rank 0 from here; the first one when none does.
pub(super) fn place(told: &str) -> Option<HostPort> {
    let own_name = machine();
    let leads_there = |place: &HostPort| {
        let Ok(addresses) = place.look_up() else { return false };
        let is_elsewhere = |address: &SocketAddr| !address.ip().is_loopback();
        // Every machine reaches itself under its own name, however that is written down there.
        place.host() == own_name || is_ip(place) || addresses.iter().any(is_elsewhere)
    };
    choose(told, leads_there)
}

fn choose(told: &str, leads_there: impl Fn(&HostPort) -> bool) -> Option<HostPort> {
    let places = HostList::parse(told).ok()?;
    let found = places.places().iter().find(|place| leads_there(place));
    Some(found.unwrap_or_else(|| places.rendezvous()).clone())
}

fn is_ip(place: &HostPort) -> bool {
    place.host().trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
}

fn machine() -> String {
    uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(told: &str, known: &str) -> Option<String> {
        choose(told, |place| place.host() == known).map(|place| place.to_string())
    }

    #[test]
    fn a_name_is_taken_where_it_is_known_and_an_address_where_it_is_not() {
        let told = text("node0", Some([192, 0, 2, 7].into()), 7000);
        assert_eq!(told, "node0:7000,192.0.2.7:7000");
        assert_eq!(chosen(&told, "node0").as_deref(), Some("node0:7000"));
        assert_eq!(chosen(&told, "192.0.2.7").as_deref(), Some("192.0.2.7:7000"));
        assert_eq!(chosen(&told, "").as_deref(), Some("node0:7000"), "the error is about the name");
        assert_eq!(chosen(&text("node0", None, 7000), "").as_deref(), Some("node0:7000"));
        assert_eq!(chosen("no place", ""), None);
    }

    #[test]
    fn a_name_that_nothing_knows_is_passed_over() {
        let told = text("no-machine.invalid", Some([127, 0, 0, 1].into()), 7000);
        assert_eq!(place(&told).map(|place| place.to_string()).as_deref(), Some("127.0.0.1:7000"));
    }
}
