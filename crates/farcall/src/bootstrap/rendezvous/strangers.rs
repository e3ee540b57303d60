//! Connections that have not joined yet: how many there may be, and which makes room.
//!
//! A process joins with its first bytes, so a connection that is silent is most likely of no use. When there
//! are too many, of one address or in total, the oldest goes: a process that was just about to speak comes
//! again, and a crowd of silent ones displaces itself.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::registry::LinkId;

/// The most connections that have not joined.
const STRANGERS_MAX: usize = 1024;

/// The most of one address.
const STRANGERS_PER_ADDRESS_MAX: usize = 256;

/// The connections that have not joined.
#[derive(Default)]
pub(super) struct Strangers {
    /// Numbers of connections rise, so the first is the oldest.
    all: BTreeSet<LinkId>,
    by_address: BTreeMap<IpAddr, BTreeSet<LinkId>>,
}

impl Strangers {
    /// A connection was accepted. The one that must make room, if one must.
    pub(super) fn came(&mut self, link: LinkId, from: IpAddr) -> Option<LinkId> {
        self.all.insert(link);
        let of_address = self.by_address.entry(from).or_default();
        of_address.insert(link);
        if of_address.len() > STRANGERS_PER_ADDRESS_MAX {
            return of_address.first().copied();
        }
        if self.all.len() > STRANGERS_MAX { self.oldest_of_largest() } else { None }
    }

    /// A connection has joined, or is over.
    pub(super) fn went(&mut self, link: LinkId, from: IpAddr) {
        self.all.remove(&link);
        if let Some(of_address) = self.by_address.get_mut(&from) {
            of_address.remove(&link);
            if of_address.is_empty() {
                self.by_address.remove(&from);
            }
        }
    }

    /// The oldest of all: it goes where the system has no descriptor left.
    pub(super) fn oldest(&self) -> Option<LinkId> {
        self.all.first().copied()
    }

    /// The address with the most of them pays.
    fn oldest_of_largest(&self) -> Option<LinkId> {
        let largest = self.by_address.values().max_by_key(|links| links.len())?;
        largest.first().copied()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn address(number: u32) -> IpAddr {
        Ipv4Addr::from_bits(0x7f00_0000 + number).into()
    }

    #[test]
    fn a_crowd_of_one_address_displaces_itself() {
        let mut strangers = Strangers::default();
        assert_eq!(strangers.came(1, address(1)), None);
        for link in 2..2 + STRANGERS_PER_ADDRESS_MAX as u64 {
            assert_eq!(strangers.came(link, address(2)), None);
        }
        assert_eq!(strangers.came(1000, address(2)), Some(2));
        strangers.went(2, address(2));
        assert_eq!(strangers.came(1001, address(3)), None);
        assert_eq!(strangers.oldest(), Some(1));
    }

    #[test]
    fn among_many_addresses_the_one_with_the_most_makes_room() {
        let mut strangers = Strangers::default();
        let crowd = STRANGERS_PER_ADDRESS_MAX as u64;
        (0..crowd).for_each(|link| assert_eq!(strangers.came(link, address(1)), None));
        (crowd..STRANGERS_MAX as u64)
            .for_each(|link| assert_eq!(strangers.came(link, address(link as u32)), None));
        assert_eq!(strangers.came(5000, address(5000)), Some(0));
    }
}
