//! Names: the endpoints that listen under each, and the members that watch it.

use std::collections::{BTreeMap, BTreeSet};

use farcall_base::Address;

use super::super::messages::{Answer, Listed};
use super::registry::{LinkId, Member, Outgoing};

/// All names that are registered or watched.
#[derive(Default)]
pub(super) struct Names {
    names: BTreeMap<String, Name>,
    numbers_used: u64,
}

#[derive(Default)]
struct Name {
    /// By the member's connection and the endpoint's key.
    listed: BTreeMap<(LinkId, String), Listed>,
    watchers: BTreeSet<(LinkId, u64)>,
}

impl Names {
    /// The address of an endpoint that is registered.
    pub(super) fn address_of(&self, link: LinkId, name: &str, key: &str) -> Option<&Address> {
        Some(&self.names.get(name)?.listed.get(&(link, key.to_owned()))?.address)
    }

    /// Registers an endpoint, or its new address, and tells the watchers.
    pub(super) fn register(
        &mut self,
        link: LinkId,
        member: &Member,
        name: String,
        key: String,
        address: Address,
    ) -> Outgoing {
        let mut outgoing = self.withdraw(link, &name, &key);
        self.numbers_used += 1;
        let listed = Listed {
            number: self.numbers_used,
            incarnation: member.incarnation(),
            rank: member.rank(),
            machine: member.machine,
            key: key.clone(),
            address,
            host: member.host.clone(),
        };
        let name = self.names.entry(name).or_default();
        let news = |(watcher, request): &(LinkId, u64)| {
            (*watcher, Answer::Listed { request: *request, listed: listed.clone() })
        };
        outgoing.extend(name.watchers.iter().map(news));
        name.listed.insert((link, key), listed);
        outgoing
    }

    /// Withdraws an endpoint and tells the watchers.
    pub(super) fn withdraw(&mut self, link: LinkId, name: &str, key: &str) -> Outgoing {
        let Some(entry) = self.names.get_mut(name) else { return Outgoing::new() };
        let Some(listed) = entry.listed.remove(&(link, key.to_owned())) else { return Outgoing::new() };
        let number = listed.number;
        let news =
            |(watcher, request): &(LinkId, u64)| (*watcher, Answer::Gone { request: *request, number });
        let outgoing = entry.watchers.iter().map(news).collect();
        self.drop_if_unused(name);
        outgoing
    }

    /// Begins a watch: all who listen now.
    pub(super) fn watch(&mut self, link: LinkId, request: u64, name: String) -> Outgoing {
        let entry = self.names.entry(name).or_default();
        entry.watchers.insert((link, request));
        let listed = entry.listed.values().map(|listed| Answer::Listed { request, listed: listed.clone() });
        listed.chain([Answer::Current { request }]).map(|answer| (link, answer)).collect()
    }

    /// Ends a watch.
    pub(super) fn forget(&mut self, link: LinkId, request: u64, name: &str) {
        if let Some(entry) = self.names.get_mut(name) {
            entry.watchers.remove(&(link, request));
            self.drop_if_unused(name);
        }
    }

    fn drop_if_unused(&mut self, name: &str) {
        if self.names.get(name).is_some_and(|entry| entry.listed.is_empty() && entry.watchers.is_empty()) {
            self.names.remove(name);
        }
    }
}
