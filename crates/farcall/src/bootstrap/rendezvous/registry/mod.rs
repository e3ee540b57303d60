//! The state of the registry: its members, the holder of each rank, what was published, and the requests that
//! wait.
//!
//! A pure state machine: messages come in with the connection they came over, answers go out with the
//! connection they go to, and time is an argument. What a member published or registered is withdrawn when
//! its connection is gone, so that no peer is sent to a process that has died; a member that merely lost its
//! connection publishes again when it is back. Its rank is held for it until then, or for [`RANK_HELD`].
//!
//! News of watched names do not go out with what caused them: whoever sends asks for them, watch by watch, as
//! its connections have room ([`Registry::next_news`]).
//!
//! All that a member makes the registry store is counted in bytes, for it and in total. To leave costs a
//! member as much as what it left behind, whatever the others wait for.

mod member;
mod news;
mod rank;

use std::collections::{BTreeMap, TryReserveError};
use std::time::{Duration, Instant};

use farcall_base::Address;

use super::super::fields::Malformed;
use super::super::limits::{
    BARRIER_WAITS_MAX, BYTES_MAX, BYTES_PER_MEMBER_MAX, KEYS_PER_RANK_MAX, MEMBERS_MAX, RANK_HELD, WAITS_MAX,
};
use super::super::messages::{Answer, Join, MISSING_NAMED_MAX, Place};
use super::super::refusal::Refusal;
use super::names::Names;
use super::values::Values;
pub(super) use member::Member;
use member::{Lease, Wait, named_bytes, stored_bytes};
use news::News;
use rank::{Life, Rank};

/// Names a connection. Numbers are not used again.
pub(super) type LinkId = u64;

/// Answers, and the connection that each goes to.
pub(super) type Outgoing = Vec<(LinkId, Answer)>;

/// Why a member's message was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// No correct member sends it: its connection ends.
    Malformed(Malformed),
    /// The registry stores as much as it may, for the member or for all. The member is told so; nothing else
    /// of it is lost.
    Full,
}

/// The state of one registry.
pub(super) struct Registry {
    hosts_fingerprint: u64,
    /// Empty without a world.
    ranks: Vec<Rank>,
    members: BTreeMap<LinkId, Member>,
    /// The connections of members without a rank, by incarnation.
    open: BTreeMap<u64, LinkId>,
    /// By name: the members that have arrived, and the request to answer.
    barriers: BTreeMap<String, BTreeMap<u32, (LinkId, u64)>>,
    names: Names,
    values: Values,
    news: News,
    /// Of all members together.
    bytes: usize,
}

impl Registry {
    /// For a world of `size` ranks, or of none; `hosts_fingerprint` is that of the host list, or 0 without
    /// one. Fails where there is no memory for so many.
    pub(super) fn new(size: u32, hosts_fingerprint: u64) -> Result<Self, TryReserveError> {
        let mut ranks = Vec::new();
        ranks.try_reserve_exact(size as usize)?;
        ranks.extend((0..size).map(|_| Rank::default()));
        Ok(Self {
            hosts_fingerprint,
            ranks,
            members: BTreeMap::new(),
            open: BTreeMap::new(),
            barriers: BTreeMap::new(),
            names: Names::default(),
            values: Values::default(),
            news: News::default(),
            bytes: 0,
        })
    }

    /// The connection that holds the place that a process asks for.
    pub(super) fn holder_of(&self, join: &Join) -> Option<LinkId> {
        match join.place {
            Place::Rank { rank, .. } => self.holder(rank),
            Place::Open => self.open.get(&join.incarnation).copied(),
        }
    }

    /// The connection that holds `rank`.
    pub(super) fn holder(&self, rank: u32) -> Option<LinkId> {
        self.ranks.get(rank as usize)?.holder
    }

    /// The bytes stored for all members.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Lets a process in. The connection that it had before, if any, is no member any more; which it was.
    pub(super) fn join(&mut self, link: LinkId, join: Join, now: Instant) -> Result<Option<LinkId>, Refusal> {
        let life = Life { incarnation: join.incarnation, secret: join.secret };
        let former = self.holder_of(&join);
        match join.place {
            Place::Rank { rank, size, hosts_fingerprint } => {
                self.judge_rank(rank, size, hosts_fingerprint, life, now)?;
            }
            Place::Open => {
                let holder = former.and_then(|former| self.members.get(&former));
                if holder.is_some_and(|holder| holder.life != life) {
                    return Err(Refusal::Impostor);
                }
            }
        }
        if former.is_none() && self.members.len() >= MEMBERS_MAX {
            return Err(Refusal::Full);
        }
        if let Some(former) = former {
            self.leave(former, now, Leaving::Broken);
        }
        let rank = match join.place {
            Place::Rank { rank, .. } => {
                self.ranks[rank as usize].hold(link, life, &join);
                Some(rank)
            }
            Place::Open => {
                self.open.insert(join.incarnation, link);
                None
            }
        };
        let Join { machine, host, .. } = join;
        self.members.insert(link, Member::new(life, rank, machine, host));
        Ok(former)
    }

    fn judge_rank(
        &self,
        number: u32,
        asked: u32,
        hosts_fingerprint: u64,
        life: Life,
        now: Instant,
    ) -> Result<(), Refusal> {
        let size = self.ranks.len() as u32;
        if size == 0 {
            return Err(Refusal::NoWorld);
        }
        if asked != size {
            return Err(Refusal::Size { asked, size });
        }
        if hosts_fingerprint != self.hosts_fingerprint {
            return Err(Refusal::Hosts);
        }
        let rank = &self.ranks[number as usize];
        if rank.identity == Some(life) {
            return Ok(());
        }
        if rank.holder.is_some() {
            return Err(Refusal::RankTaken { rank: number, process: rank.process, host: rank.host.clone() });
        }
        if rank.held_until.is_some_and(|until| now < until) {
            return Err(Refusal::RankHeld { rank: number });
        }
        Ok(())
    }

    /// A connection is gone.
    pub(super) fn leave(&mut self, link: LinkId, now: Instant, leaving: Leaving) {
        let Some(member) = self.members.remove(&link) else { return };
        self.bytes -= member.bytes;
        for (request, wait) in &member.waits {
            self.forget(link, member.rank, *request, wait);
        }
        match member.rank {
            Some(rank) => {
                let rank = &mut self.ranks[rank as usize];
                rank.holder = None;
                rank.published.clear();
                match leaving {
                    Leaving::Orderly => (rank.held_until, rank.identity) = (None, None),
                    Leaving::Broken => rank.held_until = Some(now + RANK_HELD),
                }
            }
            None => drop(self.open.remove(&member.life.incarnation)),
        }
        for (name, key) in &member.registered {
            self.names.withdraw(link, name, key);
        }
    }

    /// A member was heard of.
    pub(super) fn heard(&mut self, link: LinkId, now: Instant) {
        if let Some(lease) = self.members.get_mut(&link).and_then(|member| member.lease.as_mut()) {
            lease.ends = now + lease.length;
        }
    }

    /// A member promises to be heard of within each such time.
    pub(super) fn renew(&mut self, link: LinkId, length: Duration, now: Instant) -> Result<(), Fault> {
        self.member(link)?.lease = Some(Lease { length, ends: now + length });
        Ok(())
    }

    /// The members that were not heard of within their lease.
    pub(super) fn overdue(&self, now: Instant) -> Vec<LinkId> {
        let is_overdue = |member: &Member| member.lease.is_some_and(|lease| lease.ends <= now);
        self.members.iter().filter(|(_, member)| is_overdue(member)).map(|(link, _)| *link).collect()
    }

    /// A member publishes an address; the members that wait for it get it.
    pub(super) fn publish(&mut self, link: LinkId, key: String, address: Address) -> Result<Outgoing, Fault> {
        let Some(number) = self.member(link)?.rank else { return Err(malformed("no rank to publish for")) };
        let rank = &self.ranks[number as usize];
        let former =
            rank.published.get(&key).map_or(0, |former| stored_bytes(&[key.len(), former.as_bytes().len()]));
        if rank.published.len() >= KEYS_PER_RANK_MAX && former == 0 {
            return Err(malformed("too many keys"));
        }
        self.count(link, stored_bytes(&[key.len(), address.as_bytes().len()]), former)?;
        let rank = &mut self.ranks[number as usize];
        let incarnation = rank.incarnation();
        let served = rank.resolvers.remove(&key).unwrap_or_default();
        rank.published.insert(key, address.clone());
        let mut outgoing = Outgoing::new();
        for (waiting, request) in served {
            self.end_wait(waiting, request);
            outgoing.push((waiting, Answer::Resolved { request, incarnation, address: address.clone() }));
        }
        Ok(outgoing)
    }

    /// A member wants an address: answered at once when it is there.
    pub(super) fn resolve(
        &mut self,
        link: LinkId,
        request: u64,
        wanted: u32,
        key: String,
    ) -> Result<Outgoing, Fault> {
        self.member(link)?;
        let rank = self.ranks.get(wanted as usize).ok_or_else(|| malformed("no such rank"))?;
        if let Some(address) = rank.published.get(&key) {
            let (incarnation, address) = (rank.incarnation(), address.clone());
            return Ok(vec![(link, Answer::Resolved { request, incarnation, address })]);
        }
        self.wait(link, request, Wait::Resolve { rank: wanted, key: key.clone() })?;
        self.ranks[wanted as usize].resolvers.entry(key).or_default().insert((link, request));
        Ok(Outgoing::new())
    }

    /// A member has reached a barrier; the last one releases all.
    pub(super) fn barrier(&mut self, link: LinkId, request: u64, name: String) -> Result<Outgoing, Fault> {
        let member = self.member(link)?;
        let Some(number) = member.rank else { return Err(malformed("a barrier without a rank")) };
        let barriers = member.waits.values().filter(|wait| matches!(wait, Wait::Barrier { .. })).count();
        // A member that lost its connection asks again, perhaps for what has happened already.
        if self.ranks[number as usize].released.contains(&request) {
            return Ok(vec![(link, Answer::Released { request })]);
        }
        let arrived = self.barriers.get(&name).is_some_and(|arrivals| arrivals.contains_key(&number));
        if arrived || barriers >= BARRIER_WAITS_MAX {
            return Err(malformed("at the barrier already, or at too many"));
        }
        self.wait(link, request, Wait::Barrier { name: name.clone() })?;
        let arrivals = self.barriers.entry(name.clone()).or_default();
        arrivals.insert(number, (link, request));
        if arrivals.len() < self.ranks.len() {
            return Ok(Outgoing::new());
        }
        let arrivals = self.barriers.remove(&name).unwrap_or_default();
        Ok(arrivals
            .into_iter()
            .map(|(number, (link, request))| self.release(number, link, request))
            .collect())
    }

    /// Which ranks are not at a barrier, by the knowledge of a member that waits there.
    pub(super) fn missing(&mut self, link: LinkId, request: u64, name: &str) -> Result<Outgoing, Fault> {
        self.member(link)?;
        let arrivals = self.barriers.get(name);
        let is_missing = |rank: &u32| !arrivals.is_some_and(|arrivals| arrivals.contains_key(rank));
        let missing = || (0..self.ranks.len() as u32).filter(is_missing);
        let (count, ranks) = (missing().count() as u32, missing().take(MISSING_NAMED_MAX).collect());
        Ok(vec![(link, Answer::Missing { request, count, ranks })])
    }

    /// A member waits no more.
    pub(super) fn cancel(&mut self, link: LinkId, request: u64) -> Result<(), Fault> {
        let rank = self.member(link)?.rank;
        if let Some(wait) = self.end_wait(link, request) {
            self.forget(link, rank, request, &wait);
        }
        Ok(())
    }

    /// An endpoint of a member listens under a name.
    pub(super) fn register(
        &mut self,
        link: LinkId,
        name: String,
        key: String,
        address: Address,
    ) -> Result<(), Fault> {
        let place = (name, key);
        let registered = &self.member(link)?.registered;
        if !registered.contains(&place) && registered.len() >= KEYS_PER_RANK_MAX {
            return Err(malformed("too many names"));
        }
        let former = self.bytes_of_name(link, &place);
        if let Err(full) = self.count(link, named_bytes(&place.0, &place.1, &address), former) {
            // The endpoint is not where it was any more.
            self.withdraw(link, place.0, place.1)?;
            return Err(full);
        }
        let member = self.members.get_mut(&link).expect("it was there a moment ago");
        member.registered.insert(place.clone());
        let (name, key) = place;
        self.names.register(link, member, name, key, address);
        Ok(())
    }

    /// An endpoint of a member listens under a name no more.
    pub(super) fn withdraw(&mut self, link: LinkId, name: String, key: String) -> Result<(), Fault> {
        let place = (name, key);
        if !self.member(link)?.registered.remove(&place) {
            return Ok(());
        }
        let former = self.bytes_of_name(link, &place);
        self.count(link, 0, former)?;
        self.names.withdraw(link, &place.0, &place.1);
        Ok(())
    }

    /// What a registered name of a member costs; 0 when it has not registered it.
    fn bytes_of_name(&self, link: LinkId, (name, key): &(String, String)) -> usize {
        let address = self.names.address_of(link, name, key);
        address.map_or(0, |address| named_bytes(name, key, address))
    }

    /// A member wants to know who listens under a name: all who do now, and every change from now on.
    pub(super) fn watch(&mut self, link: LinkId, request: u64, name: String) -> Result<(), Fault> {
        self.wait(link, request, Wait::Watch { name: name.clone() })?;
        if !self.names.watch(link, request, name.clone()) {
            self.end_wait(link, request);
            return Err(malformed("watches the same name twice"));
        }
        self.news.add(link, name);
        Ok(())
    }

    /// What one watch is to be told next, if any is. `room` says how many bytes a connection takes now; one
    /// that takes none is told when it does ([`Registry::has_room`]).
    pub(super) fn next_news(&mut self, room: impl Fn(LinkId) -> usize) -> Option<(LinkId, Vec<Answer>)> {
        let (link, name) = self.news.next().or_else(|| self.names.next_to_tell())?;
        let bytes_max = room(link);
        if bytes_max == 0 {
            self.news.block(link, name);
            return Some((link, Vec::new()));
        }
        let page = self.names.news(link, &name, bytes_max);
        if !page.is_last {
            self.news.add(link, name);
        }
        Some((link, page.answers))
    }

    /// The connection takes news again.
    pub(super) fn has_room(&mut self, link: LinkId) {
        self.news.has_room(link);
    }

    /// A member wants to set a register.
    pub(super) fn compare_and_set(
        &mut self,
        link: LinkId,
        request: u64,
        key: String,
        expected: u64,
        value: Vec<u8>,
    ) -> Result<Outgoing, Fault> {
        self.member(link)?;
        let answer = self.values.compare_and_set(request, key, expected, value)?;
        Ok(vec![(link, answer)])
    }

    fn member(&mut self, link: LinkId) -> Result<&mut Member, Fault> {
        self.members.get_mut(&link).ok_or_else(|| malformed("the first message must be a join"))
    }

    /// Counts what a member makes the registry store: `more` bytes in the place of `less`.
    fn count(&mut self, link: LinkId, more: usize, less: usize) -> Result<(), Fault> {
        let total = self.bytes;
        let member = self.member(link)?;
        let (own, all) = (member.bytes + more - less, total + more - less);
        if more > less && (own > BYTES_PER_MEMBER_MAX || all > BYTES_MAX) {
            return Err(Fault::Full);
        }
        member.bytes = own;
        self.bytes = all;
        Ok(())
    }

    fn wait(&mut self, link: LinkId, request: u64, wait: Wait) -> Result<(), Fault> {
        let member = self.member(link)?;
        if member.waits.len() >= WAITS_MAX || member.waits.contains_key(&request) {
            return Err(malformed("waits for too much, or for the same twice"));
        }
        self.count(link, wait.bytes(), 0)?;
        self.member(link)?.waits.insert(request, wait);
        Ok(())
    }

    fn end_wait(&mut self, link: LinkId, request: u64) -> Option<Wait> {
        let member = self.members.get_mut(&link)?;
        let wait = member.waits.remove(&request)?;
        member.bytes -= wait.bytes();
        self.bytes -= wait.bytes();
        Some(wait)
    }

    fn release(&mut self, number: u32, link: LinkId, request: u64) -> (LinkId, Answer) {
        self.end_wait(link, request);
        let released = &mut self.ranks[number as usize].released;
        released.push_back(request);
        if released.len() > BARRIER_WAITS_MAX {
            released.pop_front();
        }
        (link, Answer::Released { request })
    }

    /// Undoes what a wait left outside its member.
    fn forget(&mut self, link: LinkId, rank: Option<u32>, request: u64, wait: &Wait) {
        match wait {
            Wait::Resolve { rank, key } => {
                let resolvers = &mut self.ranks[*rank as usize].resolvers;
                let Some(waiting) = resolvers.get_mut(key) else { return };
                waiting.remove(&(link, request));
                if waiting.is_empty() {
                    resolvers.remove(key);
                }
            }
            Wait::Barrier { name } => {
                let Some((arrivals, rank)) = self.barriers.get_mut(name).zip(rank) else { return };
                arrivals.remove(&rank);
                if arrivals.is_empty() {
                    self.barriers.remove(name);
                }
            }
            Wait::Watch { name } => {
                self.names.forget(link, name);
                self.news.forget(link, name);
            }
        }
    }
}

/// How a member goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaving {
    /// It said so: its rank is free.
    Orderly,
    /// Its connection ended, for whatever reason: its rank is held for a while.
    Broken,
}

fn malformed(what: &'static str) -> Fault {
    Fault::Malformed(Malformed(what))
}

#[cfg(test)]
mod tests;
