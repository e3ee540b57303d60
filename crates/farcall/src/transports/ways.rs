//! Endpoints over several transports: the rule by which `auto` has its ways, and lists of them.
//!
//! The rule is a table, best first; `docs/ways.md` has it for users. What a list names, in its order, is
//! taken as it is.

use core::fmt;
use std::sync::{Mutex, PoisonError};

use farcall_base::{Address, SessionNumbers};
use farcall_driver::{CounterFile, ProcessMark};
use farcall_transport::{NotTaken, Reach, Several, SeveralConfig, WAYS_MAX, WayAddresses, WayConfig};

use super::build::{Builder, Built, Site};
use super::table::TABLE;
use super::{Presence, TransportKind};
use crate::bootstrap::machine_number;

/// A way of `auto`: a transport and what it reaches.
struct Rule {
    kind: TransportKind,
    reach: Reach,
    /// Whether it is polled in every turn although nobody uses it.
    polls_always: bool,
}

/// The ways of a process, best first: memory before RDMA, both before the kernel's network; of that TCP
/// first, which finds the way's MTU by itself, yields to other traffic, passes what lets connections pass,
/// and reports the end of a process at once. UDP is for peers that have no TCP.
const ON_MACHINE: &[Rule] = &[
    Rule { kind: TransportKind::RING_SHM, reach: Reach::Machine, polls_always: true },
    Rule { kind: TransportKind::RING_VERBS, reach: Reach::Network, polls_always: false },
    Rule { kind: TransportKind::TCP, reach: Reach::Network, polls_always: false },
    Rule { kind: TransportKind::BASIC_UDP, reach: Reach::Network, polls_always: false },
];
const _: () = assert!(ON_MACHINE.len() <= WAYS_MAX);

/// Those of a host of a simulated fabric, whose polls cost nothing.
const SIMULATED: &[Rule] = &[
    Rule { kind: TransportKind::RING_SIM, reach: Reach::Network, polls_always: true },
    Rule { kind: TransportKind::BASIC_SIM, reach: Reach::Network, polls_always: true },
];

/// Transports that one endpoint has, best first: two at least and [`WAYS_MAX`] at most.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ways {
    /// Their places in the table.
    places: [u8; WAYS_MAX],
    count: u8,
}

impl Ways {
    /// Reads a list of names with commas or slashes between them.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let names: Vec<&str> = text.split([',', '/']).map(str::trim).collect();
        if names.len() > WAYS_MAX {
            return Err(format!("`{text}` are more than {WAYS_MAX} transports, the most of one endpoint"));
        }
        let (mut places, mut kinds) = ([0; WAYS_MAX], Vec::new());
        for (place, name) in names.iter().enumerate() {
            let kind = name.parse::<TransportKind>().map_err(|error| error.to_string())?;
            if kind.is_several() {
                return Err(format!("`{text}`: `auto` stands for a list, and cannot be in one"));
            }
            if kinds.contains(&kind) {
                return Err(format!("`{text}` has {kind} twice"));
            }
            places[place] = kind.index() as u8;
            kinds.push(kind);
        }
        if kinds.iter().any(|kind| kind.is_simulated() != kinds[0].is_simulated()) {
            return Err(format!(
                "`{text}`: an endpoint is on a simulated fabric or on a machine, not on both"
            ));
        }
        Ok(Self { places, count: kinds.len() as u8 })
    }

    /// The transports.
    pub fn kinds(self) -> impl Iterator<Item = TransportKind> {
        self.places.into_iter().take(self.count.into()).map(|place| TABLE[usize::from(place)].kind)
    }

    /// Their names with slashes between them. Kept for as long as the process lives: there are as many as a
    /// program has lists.
    pub(super) fn name(self) -> &'static str {
        static NAMES: Mutex<Vec<(Ways, &'static str)>> = Mutex::new(Vec::new());
        let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, name)) = names.iter().find(|(ways, _)| *ways == self) {
            return name;
        }
        let name: Vec<_> = self.kinds().map(TransportKind::name).collect();
        let name = &*name.join("/").leak();
        names.push((self, name));
        name
    }
}

impl fmt::Debug for Ways {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where a peer is that has its address over one transport or over several, for an endpoint over one or over
/// several; `None` where they have nothing in common. The number of the peer's machine is 0 if it is not
/// known.
pub(crate) fn address_for(
    own: TransportKind,
    peer: TransportKind,
    address: &Address,
    machine: u64,
) -> Option<Address> {
    match (own.is_several(), peer.is_several()) {
        (true, true) => Some(address.clone()),
        (false, false) => (own == peer).then(|| address.clone()),
        (false, true) => WayAddresses::decode(address)?.of(own.name()).cloned(),
        (true, false) => {
            let ways = vec![(peer.name().to_owned(), address.clone())];
            WayAddresses::new(machine, ProcessMark::default(), ways).encode().ok()
        }
    }
}

/// Those of a kind that stands for several.
fn rules(kind: TransportKind, site: &Site<'_>) -> Vec<(TransportKind, Reach, bool)> {
    let of = |rule: &Rule| (rule.kind, rule.reach, rule.polls_always);
    let known = || ON_MACHINE.iter().chain(SIMULATED);
    match (kind, site) {
        (TransportKind::Listed(ways), _) => {
            let rule = |kind| known().find(|rule| rule.kind == kind);
            let other = |kind| (kind, Reach::Network, false);
            ways.kinds().map(|kind| rule(kind).map_or_else(|| other(kind), of)).collect()
        }
        (_, Site::Machine(_)) => ON_MACHINE.iter().map(of).collect(),
        (_, Site::Simulated(_)) => SIMULATED.iter().map(of).collect(),
    }
}

impl Builder<'_> {
    /// Builds the ways of a kind that stands for several. `auto` has those that can be built; of a list each
    /// must be.
    pub(super) fn several(&self, kind: TransportKind) -> Built {
        let (mut ways, mut absent) = (Vec::new(), Vec::new());
        let rules = rules(kind, &self.site);
        let part_bits = Several::part_bits(rules.len());
        for (way, reach, polls_always) in rules {
            let transport = match way.presence() {
                Some(Presence::Absent { why }) => Err(why.into()),
                None | Some(Presence::Here { .. }) => self.way(way, ways.len(), part_bits),
            };
            match transport {
                Ok(transport) => ways.push(WayConfig { name: way.name(), reach, polls_always, transport }),
                Err(why) if kind == TransportKind::Auto => {
                    absent.push(NotTaken { way: way.name(), why: why.to_string() });
                }
                Err(why) => return Err(format!("{way}: {why}").into()),
            }
        }
        if ways.is_empty() {
            let each = absent.iter().map(|NotTaken { way, why }| format!("{way}: {why}"));
            return Err(each.collect::<Vec<_>>().join("; ").into());
        }
        let (machine, process) = match self.site {
            Site::Machine(_) => (machine_number(), ProcessMark::own()),
            Site::Simulated(_) => (0, ProcessMark::default()),
        };
        let config = SeveralConfig { machine, process, absent, part_bits };
        Ok(Box::new(Several::new(ways, config, CounterFile::process(), self.label)?))
    }

    fn way(&self, kind: TransportKind, place: usize, part_bits: u32) -> Built {
        let mut seed = self.seed;
        seed[0] ^= place as u8;
        let label = format!("{} {kind}", self.label);
        let numbers = SessionNumbers::part(place as u32, part_bits);
        Builder { label: &label, seed, numbers, ..*self }.build(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<TransportKind, String> {
        text.parse::<TransportKind>().map_err(|error| error.to_string())
    }

    #[test]
    fn a_list_is_read_in_its_order_and_has_the_same_name_however_it_is_written() {
        let kind = read("ring+shm,basic+udp").expect("a list");
        let TransportKind::Listed(ways) = kind else { panic!("{kind:?}") };
        let kinds: Vec<_> = ways.kinds().collect();
        assert_eq!(kinds, [TransportKind::RING_SHM, TransportKind::BASIC_UDP]);
        assert_eq!(kind.name(), "ring+shm/basic+udp");
        assert_eq!(read(kind.name()), Ok(kind));
        assert_eq!(read("ring+shm, basic+udp"), Ok(kind));
        assert_ne!(read("basic+udp,ring+shm"), Ok(kind));
    }

    #[test]
    fn a_list_that_cannot_be_says_why() {
        let why = |text: &str| read(text).expect_err("no list");
        assert!(why("ring+shm,pigeon").contains("unknown transport `pigeon`"));
        assert!(why("ring+shm,ring+shm").contains("twice"));
        assert!(why("auto,ring+shm").contains("cannot be in one"));
        assert!(why("ring+shm,basic+sim").contains("not on both"));
        assert!(why("ring+shm,basic+udp,homa+udp,ucx,ofi").contains("more than 4"));
    }

    #[test]
    fn one_transport_and_several_reach_each_other_over_what_both_have() {
        let udp = Address::new(*b"udp").expect("short");
        let shm = Address::new(*b"shm").expect("short");
        let ways = vec![("ring+shm".to_owned(), shm.clone()), ("basic+udp".to_owned(), udp.clone())];
        let both = WayAddresses::new(9, ProcessMark::default(), ways).encode().expect("short");
        let (auto, ring) = (TransportKind::AUTO, TransportKind::RING_SHM);
        assert_eq!(address_for(ring, auto, &both, 7), Some(shm.clone()));
        assert_eq!(address_for(TransportKind::HOMA_UDP, auto, &both, 7), None);
        assert_eq!(address_for(ring, TransportKind::BASIC_UDP, &udp, 7), None);
        let alone = address_for(auto, ring, &shm, 7).expect("a list of one");
        assert_eq!(address_for(ring, auto, &alone, 7), Some(shm));
        assert_eq!(address_for(auto, auto, &both, 7), Some(both.clone()));
    }
}
