//! What hosts do beside calls and messages: collective operations, and operations of a store.
//!
//! They have an endpoint of their own on each host, over another transport than the rest: so every host has
//! two endpoints, which share its processor, its network card and its crashes, and nothing else.

mod book;
mod rounds;
mod runner;
mod visits;

pub use book::ErrandBook;
pub use runner::Runner;

use core::time::Duration;

use farcall::TransportKind;

use crate::draw::Draw;

/// Groups of more members take long to fail: each pair of them has a session.
const HOSTS_MAX: u32 = 8;

/// The most collective operations of a scenario.
const ROUNDS_MAX: usize = 6;

/// The most operations of its store.
const VISITS_MAX: usize = 60;

/// The longest part that a member contributes to a collective operation, in bytes.
const PART_BYTES_MAX: usize = 6000;

/// The longest value of an object, in bytes.
const VALUE_BYTES_MAX: usize = 9000;

/// A collective operation of all hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    pub at: Duration,
    pub kind: RoundKind,
    /// What each member contributes.
    pub bytes: usize,
    pub root: u32,
    pub within: Duration,
    pub left_out: bool,
}

/// Which operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoundKind {
    Barrier,
    Broadcast,
    AllGather,
    AllReduce,
    AllToAll,
}

/// An operation of one host on one object of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    pub host: u32,
    pub at: Duration,
    pub kind: VisitKind,
    pub within: Duration,
    pub left_out: bool,
}

/// Which operation. Each host has an object that nobody else uses; all add to one counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VisitKind {
    Put { bytes: usize },
    Get,
    Delete,
    Add(u8),
}

/// All errands of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Errands {
    pub rounds: Vec<Round>,
    pub visits: Vec<Visit>,
    /// The hosts from 0 on that have a shard each.
    pub shards: u32,
}

impl Errands {
    /// The errands of `hosts` hosts up to `over_at`; in most scenarios none.
    pub fn draw(seed: u64, hosts: u32, over_at: Duration) -> Self {
        let mut draw = Draw::new(seed, "errands");
        if hosts > HOSTS_MAX || draw.percent(60) {
            return Self::default();
        }
        let kind = draw.between(0, 2);
        let rounds = if kind == 1 { 0 } else { draw.between(1, ROUNDS_MAX) };
        let visits = if kind == 0 { 0 } else { draw.between(1, VISITS_MAX) };
        let rounds = (0..rounds).map(|_| Round::draw(&mut draw, hosts, over_at)).collect();
        let mut visits: Vec<_> = (0..visits).map(|_| Visit::draw(&mut draw, hosts, over_at)).collect();
        visits.sort_by_key(|visit| visit.at);
        Self { rounds, visits, shards: draw.pick(&[1, 1, 2]) }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rounds.is_empty() && self.visits.is_empty()
    }

    /// The transport of their endpoints, where the others are of `main`: a host has one network card, and
    /// with it one endpoint of packets and one of lanes.
    pub fn transport(seed: u64, main: TransportKind) -> TransportKind {
        match main {
            TransportKind::RING_SIM if seed.is_multiple_of(2) => TransportKind::BASIC_SIM,
            TransportKind::RING_SIM => TransportKind::HOMA_SIM,
            _ => TransportKind::RING_SIM,
        }
    }

    /// The longest deadline.
    pub fn longest(&self) -> Duration {
        let rounds = self.rounds.iter().map(|round| round.within);
        rounds.chain(self.visits.iter().map(|visit| visit.within)).max().unwrap_or_default()
    }
}

impl Round {
    fn draw(draw: &mut Draw, hosts: u32, over_at: Duration) -> Self {
        let kinds = [
            RoundKind::Barrier,
            RoundKind::Broadcast,
            RoundKind::AllGather,
            RoundKind::AllReduce,
            RoundKind::AllToAll,
        ];
        Self {
            at: draw.time(Duration::ZERO, over_at),
            kind: draw.pick(&kinds),
            bytes: 8 * draw.between(0, PART_BYTES_MAX / 8),
            root: draw.between(0, hosts as usize - 1) as u32,
            within: draw.time(Duration::from_millis(10), Duration::from_millis(60)),
            left_out: false,
        }
    }
}

impl Visit {
    fn draw(draw: &mut Draw, hosts: u32, over_at: Duration) -> Self {
        let kind = match draw.between(0, 9) {
            0..=3 => VisitKind::Put { bytes: draw.between(visits::NUMBER_BYTES, VALUE_BYTES_MAX) },
            4..=6 => VisitKind::Get,
            7 => VisitKind::Delete,
            _ => VisitKind::Add(draw.between(1, 200) as u8),
        };
        Self {
            host: draw.between(0, hosts as usize - 1) as u32,
            at: draw.time(Duration::ZERO, over_at),
            kind,
            within: draw.time(Duration::from_millis(1), Duration::from_millis(15)),
            left_out: false,
        }
    }
}
