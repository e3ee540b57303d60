//! The state of the rendezvous: the holder of each rank, what was published, and the requests that wait.
//!
//! A pure state machine: messages come in with the connection they came over, answers go out with the
//! connection they go to. What a rank published is withdrawn when its connection is gone, so that nobody is
//! sent to a process that has died; a member that merely lost its connection publishes again when it is back.

use std::collections::{BTreeMap, VecDeque};

use farcall_base::Address;

use super::super::fields::Malformed;
use super::super::limits::{BARRIER_WAITS_MAX, KEYS_PER_RANK_MAX, WAITS_MAX};
use super::super::messages::{Answer, Join};
use super::super::refusal::Refusal;

/// Names a connection. Numbers are not used again.
pub(super) type LinkId = u64;

/// Answers and whom they go to.
pub(super) type Outgoing = Vec<(LinkId, Answer)>;

/// The state of one cluster.
pub(super) struct Registry {
    hosts_fingerprint: u64,
    ranks: Vec<Rank>,
    members: BTreeMap<LinkId, Member>,
    /// By name: the members that have arrived, and the request to answer.
    barriers: BTreeMap<String, BTreeMap<u32, (LinkId, u64)>>,
}

/// One rank, whether or not a process holds it.
#[derive(Default)]
struct Rank {
    holder: Option<LinkId>,
    /// Of the present holder, or of the last one.
    incarnation: u64,
    process: u32,
    host: String,
    /// Empty without a holder.
    published: BTreeMap<String, Address>,
    resolvers: Vec<Resolver>,
    /// The last barriers that this incarnation was released from, should the news not have reached it.
    released: VecDeque<u64>,
}

struct Resolver {
    link: LinkId,
    request: u64,
    key: String,
}

/// A connection that holds a rank.
struct Member {
    rank: u32,
    waits: BTreeMap<u64, Wait>,
}

enum Wait {
    Resolve { rank: u32 },
    Barrier { name: String },
}

impl Registry {
    /// A cluster of `size` ranks; `hosts_fingerprint` is that of the host list, or 0 without one.
    pub(super) fn new(size: u32, hosts_fingerprint: u64) -> Self {
        let ranks = (0..size).map(|_| Rank::default()).collect();
        Self { hosts_fingerprint, ranks, members: BTreeMap::new(), barriers: BTreeMap::new() }
    }

    /// The connection that holds `rank`.
    pub(super) fn holder(&self, rank: u32) -> Option<LinkId> {
        self.ranks.get(rank as usize)?.holder
    }

    /// Lets a process in. The connection that it had before, if any, is returned and no member any more.
    pub(super) fn join(&mut self, link: LinkId, join: Join) -> Result<Option<LinkId>, Refusal> {
        let size = self.ranks.len() as u32;
        if join.size != size {
            return Err(Refusal::Size { asked: join.size, size });
        }
        if join.hosts_fingerprint != self.hosts_fingerprint {
            return Err(Refusal::Hosts);
        }
        let rank = &self.ranks[join.rank as usize];
        let former = rank.holder;
        if former.is_some() && rank.incarnation != join.incarnation {
            return Err(Refusal::RankTaken {
                rank: join.rank,
                process: rank.process,
                host: rank.host.clone(),
            });
        }
        if let Some(former) = former {
            self.leave(former);
        }
        self.members.insert(link, Member { rank: join.rank, waits: BTreeMap::new() });
        self.ranks[join.rank as usize].hold(link, join);
        Ok(former)
    }

    /// A connection is gone.
    pub(super) fn leave(&mut self, link: LinkId) {
        let Some(member) = self.members.remove(&link) else { return };
        for (request, wait) in member.waits {
            self.forget(link, member.rank, request, &wait);
        }
        let rank = &mut self.ranks[member.rank as usize];
        rank.holder = None;
        rank.published.clear();
    }

    /// A member publishes an address; the members that wait for it get it.
    pub(super) fn publish(
        &mut self,
        link: LinkId,
        key: String,
        address: Address,
    ) -> Result<Outgoing, Malformed> {
        let member = self.members.get(&link).ok_or(NOT_JOINED)?;
        let rank = &mut self.ranks[member.rank as usize];
        if rank.published.len() >= KEYS_PER_RANK_MAX && !rank.published.contains_key(&key) {
            return Err(Malformed("too many keys"));
        }
        let incarnation = rank.incarnation;
        let (served, waiting) = rank.resolvers.drain(..).partition(|resolver| resolver.key == key);
        rank.resolvers = waiting;
        rank.published.insert(key, address.clone());
        let mut outgoing = Outgoing::new();
        for Resolver { link, request, .. } in served {
            self.members.get_mut(&link).expect("only members wait").waits.remove(&request);
            outgoing.push((link, Answer::Resolved { request, incarnation, address: address.clone() }));
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
    ) -> Result<Outgoing, Malformed> {
        let member = self.members.get_mut(&link).ok_or(NOT_JOINED)?;
        let rank = self.ranks.get_mut(wanted as usize).ok_or(Malformed("no such rank"))?;
        if let Some(address) = rank.published.get(&key) {
            let (incarnation, address) = (rank.incarnation, address.clone());
            return Ok(vec![(link, Answer::Resolved { request, incarnation, address })]);
        }
        member.wait(request, Wait::Resolve { rank: wanted })?;
        rank.resolvers.push(Resolver { link, request, key });
        Ok(Outgoing::new())
    }

    /// A member has reached a barrier; the last one releases all.
    pub(super) fn barrier(
        &mut self,
        link: LinkId,
        request: u64,
        name: String,
    ) -> Result<Outgoing, Malformed> {
        let member = self.members.get_mut(&link).ok_or(NOT_JOINED)?;
        let number = member.rank;
        // A member that lost its connection asks again, perhaps for what has happened already.
        if self.ranks[number as usize].released.contains(&request) {
            return Ok(vec![(link, Answer::Released { request })]);
        }
        let arrived = self.barriers.get(&name).is_some_and(|arrivals| arrivals.contains_key(&number));
        if arrived || member.barrier_waits() >= BARRIER_WAITS_MAX {
            return Err(Malformed("at the barrier already, or at too many"));
        }
        member.wait(request, Wait::Barrier { name: name.clone() })?;
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

    /// A member waits no more.
    pub(super) fn cancel(&mut self, link: LinkId, request: u64) -> Result<(), Malformed> {
        let member = self.members.get_mut(&link).ok_or(NOT_JOINED)?;
        let rank = member.rank;
        if let Some(wait) = member.waits.remove(&request) {
            self.forget(link, rank, request, &wait);
        }
        Ok(())
    }

    fn release(&mut self, number: u32, link: LinkId, request: u64) -> (LinkId, Answer) {
        self.members.get_mut(&link).expect("only members wait").waits.remove(&request);
        let released = &mut self.ranks[number as usize].released;
        released.push_back(request);
        if released.len() > BARRIER_WAITS_MAX {
            released.pop_front();
        }
        (link, Answer::Released { request })
    }

    /// Undoes what a wait left outside its member.
    fn forget(&mut self, link: LinkId, rank: u32, request: u64, wait: &Wait) {
        match wait {
            Wait::Resolve { rank } => {
                let resolvers = &mut self.ranks[*rank as usize].resolvers;
                resolvers.retain(|resolver| (resolver.link, resolver.request) != (link, request));
            }
            Wait::Barrier { name } => {
                let Some(arrivals) = self.barriers.get_mut(name) else { return };
                arrivals.remove(&rank);
                if arrivals.is_empty() {
                    self.barriers.remove(name);
                }
            }
        }
    }
}

const NOT_JOINED: Malformed = Malformed("the first message must be a join");

impl Rank {
    fn hold(&mut self, link: LinkId, join: Join) {
        if self.incarnation != join.incarnation {
            self.released.clear();
        }
        self.holder = Some(link);
        self.incarnation = join.incarnation;
        self.process = join.process;
        self.host = join.host;
    }
}

impl Member {
    fn wait(&mut self, request: u64, wait: Wait) -> Result<(), Malformed> {
        if self.waits.len() >= WAITS_MAX || self.waits.contains_key(&request) {
            return Err(Malformed("waits for too much, or for the same twice"));
        }
        self.waits.insert(request, wait);
        Ok(())
    }

    fn barrier_waits(&self) -> usize {
        self.waits.values().filter(|wait| matches!(wait, Wait::Barrier { .. })).count()
    }
}

#[cfg(test)]
mod tests;
