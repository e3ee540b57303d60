//! The order in which watches are told their news.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::LinkId;

/// The watches of which there is more to tell. They take turns, so that one with much to be told holds no
/// other up.
#[derive(Default)]
pub(super) struct News {
    behind: BTreeSet<(LinkId, String)>,
    /// After it come those of others.
    told_last: (LinkId, String),
    /// Those whose connections have no room.
    blocked: BTreeMap<LinkId, BTreeSet<String>>,
}

impl News {
    /// There is more to tell this watch.
    pub(super) fn add(&mut self, link: LinkId, name: String) {
        self.behind.insert((link, name));
    }

    /// The watch whose turn it is.
    pub(super) fn next(&mut self) -> Option<(LinkId, String)> {
        let after = (Bound::Excluded(&self.told_last), Bound::Unbounded);
        let next = self.behind.range(after).next().or_else(|| self.behind.first())?.clone();
        self.behind.remove(&next);
        self.told_last.clone_from(&next);
        Some(next)
    }

    /// The connection of this watch has no room; [`News::has_room`] brings the watch back.
    pub(super) fn block(&mut self, link: LinkId, name: String) {
        self.blocked.entry(link).or_default().insert(name);
    }

    /// The connection takes news again.
    pub(super) fn has_room(&mut self, link: LinkId) {
        let names = self.blocked.remove(&link).unwrap_or_default();
        self.behind.extend(names.into_iter().map(|name| (link, name)));
    }

    /// The watch is over.
    pub(super) fn forget(&mut self, link: LinkId, name: &str) {
        self.behind.remove(&(link, name.to_owned()));
        let Some(names) = self.blocked.get_mut(&link) else { return };
        names.remove(name);
        if names.is_empty() {
            self.blocked.remove(&link);
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.behind.is_empty() && self.blocked.is_empty()
    }
}
