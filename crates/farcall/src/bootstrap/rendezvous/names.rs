//! Names: the endpoints that listen under each, and the members that watch it.
//!
//! Who watches is told when there is room for it, not when something changes: a watcher has a place in the
//! order of the entries and one in the list of those that are gone, and what lies behind the two is news to
//! it. So changes that come faster than a watcher reads cost nothing for each, nothing waits for it here, and
//! a name of any size fits through a connection in pages. A watcher that is too far behind begins again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use farcall_base::Address;

use super::super::limits::{GONE_KEPT_MAX, GONE_KEPT_PER_WATCH, LISTED_MAX};
use super::super::messages::{Answer, Listed};
use super::registry::{LinkId, Member};

/// All names that are registered or watched.
#[derive(Default)]
pub(super) struct Names {
    names: BTreeMap<String, Name>,
    numbers_used: u64,
    /// Those whose watchers are still to be looked at.
    changed: BTreeSet<String>,
}

#[derive(Default)]
struct Name {
    /// The number of each entry, by the member's connection and the endpoint's key.
    places: BTreeMap<(LinkId, String), u64>,
    /// By number, which is the order in which they came.
    listed: BTreeMap<u64, Arc<Listed>>,
    /// The numbers of entries that are gone, and how many were before these.
    gone: VecDeque<u64>,
    gone_before: u64,
    watchers: BTreeMap<LinkId, Watcher>,
    /// In a round through the watchers: the one that was looked at last, and whether another round follows.
    looked_at: Option<LinkId>,
    changed_again: bool,
}

/// How far one watcher has been told.
#[derive(Clone, Copy)]
struct Watcher {
    request: u64,
    /// The entries up to this number, of which so many are still there.
    listed_to: u64,
    entries: usize,
    /// So many of those that are gone.
    gone_to: u64,
    /// That it has been told everything once.
    is_current: bool,
}

/// News of one name for one watcher.
pub(super) struct Page {
    pub(super) answers: Vec<Answer>,
    /// Whether that is all that there is.
    pub(super) is_last: bool,
}

impl Names {
    /// The address of an endpoint that is registered.
    pub(super) fn address_of(&self, link: LinkId, name: &str, key: &str) -> Option<&Address> {
        let entry = self.names.get(name)?;
        let number = entry.places.get(&(link, key.to_owned()))?;
        Some(&entry.listed.get(number)?.address)
    }

    /// Registers an endpoint, or its new address.
    pub(super) fn register(
        &mut self,
        link: LinkId,
        member: &Member,
        name: String,
        key: String,
        address: Address,
    ) {
        self.withdraw(link, &name, &key);
        self.numbers_used += 1;
        let number = self.numbers_used;
        let listed = Listed {
            number,
            incarnation: member.incarnation(),
            rank: member.rank(),
            machine: member.machine,
            key: key.clone(),
            address,
            host: member.host.clone(),
        };
        let entry = self.names.entry(name.clone()).or_default();
        entry.places.insert((link, key), number);
        entry.listed.insert(number, Arc::new(listed));
        self.has_changed(name);
    }

    /// Withdraws an endpoint.
    pub(super) fn withdraw(&mut self, link: LinkId, name: &str, key: &str) {
        let Some(entry) = self.names.get_mut(name) else { return };
        let Some(number) = entry.places.remove(&(link, key.to_owned())) else { return };
        entry.listed.remove(&number);
        entry.is_gone(number);
        self.has_changed(name.to_owned());
        self.drop_if_unused(name);
    }

    /// Begins a watch; false when the member watches the name already.
    pub(super) fn watch(&mut self, link: LinkId, request: u64, name: String) -> bool {
        let entry = self.names.entry(name).or_default();
        if entry.watchers.contains_key(&link) {
            return false;
        }
        let gone_to = entry.gone_in_all();
        let watcher = Watcher { request, listed_to: 0, entries: 0, gone_to, is_current: false };
        entry.watchers.insert(link, watcher);
        true
    }

    /// Ends a watch.
    pub(super) fn forget(&mut self, link: LinkId, name: &str) {
        if let Some(entry) = self.names.get_mut(name) {
            entry.watchers.remove(&link);
            entry.forget_gone();
            self.drop_if_unused(name);
        }
    }

    /// Another watcher of a name that has changed, once for each change or for several.
    pub(super) fn next_to_tell(&mut self) -> Option<(LinkId, String)> {
        while let Some(name) = self.changed.first() {
            if let Some(entry) = self.names.get_mut(name) {
                let after = entry.looked_at.map_or(Bound::Unbounded, Bound::Excluded);
                if let Some((&link, _)) = entry.watchers.range((after, Bound::Unbounded)).next() {
                    entry.looked_at = Some(link);
                    return Some((link, name.clone()));
                }
                entry.looked_at = None;
                if core::mem::take(&mut entry.changed_again) {
                    continue;
                }
            }
            self.changed.pop_first();
        }
        None
    }

    /// What a member does not know yet about a name that it watches, up to about `bytes_max` bytes.
    pub(super) fn news(&mut self, link: LinkId, name: &str, bytes_max: usize) -> Page {
        match self.names.get_mut(name) {
            Some(entry) => entry.news(link, bytes_max),
            None => Page { answers: Vec::new(), is_last: true },
        }
    }

    fn has_changed(&mut self, name: String) {
        let Some(entry) = self.names.get_mut(&name) else { return };
        if entry.watchers.is_empty() {
            return;
        }
        if !self.changed.insert(name) {
            entry.changed_again = true;
        }
    }

    fn drop_if_unused(&mut self, name: &str) {
        if self.names.get(name).is_some_and(|entry| entry.listed.is_empty() && entry.watchers.is_empty()) {
            self.names.remove(name);
        }
    }
}

impl Name {
    fn gone_in_all(&self) -> u64 {
        self.gone_before + self.gone.len() as u64
    }

    fn is_gone(&mut self, number: u64) {
        self.gone.push_back(number);
        self.forget_gone();
    }

    /// Keeps as many numbers as the watches have been charged for.
    fn forget_gone(&mut self) {
        let kept_max = GONE_KEPT_MAX.min(self.watchers.len() * GONE_KEPT_PER_WATCH);
        while self.gone.len() > kept_max {
            self.gone.pop_front();
            self.gone_before += 1;
        }
        if self.gone.is_empty() {
            self.gone.shrink_to_fit();
        }
    }

    fn news(&mut self, link: LinkId, bytes_max: usize) -> Page {
        let gone_in_all = self.gone_in_all();
        let Some(watcher) = self.watchers.get_mut(&link) else {
            return Page { answers: Vec::new(), is_last: true };
        };
        let (mut answers, mut bytes) = (Vec::new(), 0);
        let request = watcher.request;
        if watcher.gone_to < self.gone_before {
            if watcher.listed_to > 0 {
                answers.push(Answer::Restarted { request });
            }
            *watcher =
                Watcher { listed_to: 0, entries: 0, gone_to: gone_in_all, is_current: false, ..*watcher };
        }
        while watcher.gone_to < gone_in_all && bytes < bytes_max {
            let number = self.gone[(watcher.gone_to - self.gone_before) as usize];
            watcher.gone_to += 1;
            if number <= watcher.listed_to {
                watcher.entries -= 1;
                bytes += Answer::GONE_BYTES;
                answers.push(Answer::Gone { request, number });
            }
        }
        let mut rest = self.listed.range((Bound::Excluded(watcher.listed_to), Bound::Unbounded)).peekable();
        while bytes < bytes_max
            && watcher.entries < LISTED_MAX
            && let Some((number, listed)) = rest.next()
        {
            (watcher.listed_to, watcher.entries) = (*number, watcher.entries + 1);
            bytes += listed.bytes();
            answers.push(Answer::Listed { request, listed: Arc::clone(listed) });
        }
        let all_listed = watcher.entries == LISTED_MAX || rest.peek().is_none();
        let is_last = watcher.gone_to == gone_in_all && all_listed;
        if is_last && !core::mem::replace(&mut watcher.is_current, true) {
            answers.push(Answer::Current { request });
        }
        Page { answers, is_last }
    }
}

#[cfg(test)]
impl Names {
    /// How many numbers of entries that are gone are kept.
    pub(super) fn gone_kept(&self) -> usize {
        self.names.values().map(|entry| entry.gone.len()).sum()
    }
}
