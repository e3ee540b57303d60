//! Receives, where messages may come over several ways.
//!
//! Each transport matches by itself. As long as one way has had sessions, its transport has all receives, and
//! nothing is done here but to note them. From then on a receive that could get its message over several ways
//! is posted to each of them, and taken back from the others when one has matched it.

use std::collections::BTreeMap;

use farcall_protocol::matching::{Source, Tag};

use super::WAYS_MAX;
use crate::{MessageId, Origin, SessionId};

/// A receive that was posted, and may have ended since.
#[derive(Clone, Copy)]
pub struct Noted {
    pub receive: MessageId,
    pub from: Option<Origin>,
    pub tag: Option<Tag>,
    /// Its place among those that were posted.
    pub order: u64,
    /// Whether it waits here, because its session has no way at the moment.
    pub is_parked: bool,
}

/// The receives, and which ways messages may come over.
#[derive(Default)]
pub struct Receives {
    /// By the low half of their names, which tells those apart that have not ended.
    noted: Vec<Option<Noted>>,
    posted: u64,
    /// The ways that have had a session, in the order in which their messages are older: one that a session
    /// was moved away from comes first, because what it holds was sent before.
    active: Vec<usize>,
    /// The way that has all receives, as long as no more than one is active.
    only: usize,
    /// The sessions of peers with ranks, by way.
    sources: BTreeMap<Source, [Option<SessionId>; WAYS_MAX]>,
}

impl Receives {
    /// Whether messages may come over more than one way.
    #[inline]
    pub fn is_mixed(&self) -> bool {
        self.active.len() > 1
    }

    /// The way that has all receives, as long as they are not mixed.
    #[inline]
    pub fn only(&self) -> usize {
        self.only
    }

    /// The ways that messages may come over.
    pub fn active(&self) -> &[usize] {
        &self.active
    }

    /// A receive is posted.
    #[inline]
    pub fn note(&mut self, receive: MessageId, from: Option<Origin>, tag: Option<Tag>) {
        let place = (receive.0 & 0xffff) as usize;
        if place >= self.noted.len() {
            self.noted.resize(place + 1, None);
        }
        self.posted += 1;
        self.noted[place] = Some(Noted { receive, from, tag, order: self.posted, is_parked: false });
    }

    /// A receive that was noted is posted nowhere, and waits until its session has a way again.
    pub fn park(&mut self, receive: MessageId) {
        if let Some(noted) = self.noted_mut(receive) {
            noted.is_parked = true;
        }
    }

    /// Takes a receive back that is parked; says whether it was.
    pub fn unpark(&mut self, receive: MessageId) -> bool {
        self.noted_mut(receive).is_some_and(|noted| core::mem::take(&mut noted.is_parked))
    }

    fn noted_mut(&mut self, receive: MessageId) -> Option<&mut Noted> {
        let noted = self.noted.get_mut((receive.0 & 0xffff) as usize)?.as_mut()?;
        (noted.receive == receive).then_some(noted)
    }

    /// All that were noted and may be waiting, oldest first.
    pub fn all(&mut self) -> Vec<Noted> {
        let mut all: Vec<_> = self.noted.drain(..).flatten().collect();
        all.sort_unstable_by_key(|noted| noted.order);
        all
    }

    /// A session is up over a way; says whether receives that wait may get messages where they are not
    /// posted.
    pub fn session_up(&mut self, way: usize, source: Source, is_ranked: bool, session: SessionId) -> bool {
        let mut is_elsewhere = false;
        if !self.active.contains(&way) {
            is_elsewhere = !self.active.is_empty() || self.only != way;
            self.active.push(way);
            self.only = self.active[0];
        }
        if is_ranked {
            let sessions = self.sources.entry(source).or_default();
            is_elsewhere |= self.active.len() > 1 && sessions[way] != Some(session);
            sessions[way] = Some(session);
        }
        is_elsewhere
    }

    /// A session over a way has ended.
    pub fn session_down(&mut self, way: usize, session: SessionId) {
        self.sources.retain(|_, sessions| {
            sessions[way].take_if(|known| *known == session);
            sessions.iter().any(Option::is_some)
        });
    }

    /// A session was moved away from a way: what came over it is older than what will come over others.
    pub fn moved_from(&mut self, way: usize) {
        if let Some(place) = self.active.iter().position(|&active| active == way) {
            let way = self.active.remove(place);
            self.active.insert(0, way);
        }
    }

    /// The session of a source over a way.
    pub fn session_of(&self, source: Source, way: usize) -> Option<SessionId> {
        self.sources.get(&source)?[way]
    }
}
