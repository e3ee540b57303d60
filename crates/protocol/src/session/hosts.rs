//! How many sessions each host has.
//!
//! A host has one number however many addresses and ports it can send from, as far as the driver knows. Of an
//! address that the driver does not know the host of, the address counts as one. Only sessions that the peer
//! opened count: how many this side opens is its own choice.

use std::collections::BTreeMap;

use super::PeerAddress;

/// The number of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Host {
    /// As the driver numbers it.
    Known(u64),
    /// The driver does not say.
    OfAddress(PeerAddress),
}

impl Host {
    pub(super) fn new(address: PeerAddress, number: Option<u64>) -> Self {
        number.map_or(Self::OfAddress(address), Self::Known)
    }
}

/// What a host has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) half_open: u16,
    pub(super) up: u16,
}

/// The hosts that have any session, each once.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    counts: BTreeMap<Host, Count>,
    half_open: usize,
}

impl Hosts {
    /// What a host has.
    pub(super) fn of(&self, host: Host) -> Count {
        self.counts.get(&host).copied().unwrap_or_default()
    }

    /// The half-open sessions of all hosts.
    pub(super) fn half_open(&self) -> usize {
        self.half_open
    }

    /// A session is half open.
    pub(super) fn opens(&mut self, host: Host) {
        self.half_open += 1;
        self.counts.entry(host).or_default().half_open += 1;
    }

    /// It is not any more: over, or up.
    pub(super) fn half_open_ended(&mut self, host: Host) {
        self.half_open -= 1;
        self.change(host, |count| count.half_open -= 1);
    }

    /// A session that was half open is up.
    pub(super) fn came_up(&mut self, host: Host) {
        self.counts.entry(host).or_default().up += 1;
    }

    /// A session that was up is over.
    pub(super) fn went_down(&mut self, host: Host) {
        self.change(host, |count| count.up -= 1);
    }

    fn change(&mut self, host: Host, change: impl FnOnce(&mut Count)) {
        if let Some(count) = self.counts.get_mut(&host) {
            change(count);
            if *count == Count::default() {
                self.counts.remove(&host);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.counts.len()
    }
}
