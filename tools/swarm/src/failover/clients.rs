//! What clients ask for, and what they are told: versions, a history, and additions that happen once.

use std::collections::BTreeMap;

use farcall_kv::placement::SlotMap;
use farcall_kv::wire::{Code, hash_slot, identity_after};

use super::book::Book;
use crate::history::{Asked, Operation, Told, check};

/// Objects that are written, and behind them those that are added to.
pub const WRITTEN_KEYS: u64 = 4;
pub const ADDED_KEYS: u64 = 2;

/// A client that adds, and asks again until it is answered.
#[derive(Debug, Default)]
pub struct Adder {
    /// What shards call it.
    pub identities: BTreeMap<u32, Identity>,
    pub sequence: u64,
    pub current: Option<Addition>,
    /// What its last addition was answered with.
    told: Option<i64>,
}

/// What a client is to a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub shard: u32,
    pub client: u64,
    /// The version of the map in which it is that: who takes over the shard later calls it otherwise.
    since: u64,
}

/// An addition without an answer.
#[derive(Clone, Copy, Debug)]
pub struct Addition {
    pub key: u8,
    pub amount: i64,
    /// Who has asked for it: nobody else may.
    pub asked: Option<Identity>,
    /// Its place in the history.
    place: usize,
}

/// All clients.
#[derive(Debug, Default)]
pub struct Clients {
    pub book: Book,
    pub history: Vec<Operation>,
    pub adders: Vec<Adder>,
    /// A clock that all share; it only rises.
    ticks: u64,
}

impl Clients {
    pub fn new(adders: usize) -> Self {
        Self { adders: (0..adders).map(|_| Adder::default()).collect(), ..Self::default() }
    }

    fn tick(&mut self) -> u64 {
        self.ticks += 1;
        self.ticks
    }

    /// An operation begins; gives its place in the history.
    pub fn begin(&mut self, key: u8, asked: Asked) -> usize {
        let (client, began) = (self.history.len() as u64, self.tick());
        self.history.push(Operation { client, key: format!("k{key}"), began, told: None, asked });
        client as usize
    }

    pub fn told(&mut self, place: usize, told: Told) {
        let ended = self.tick();
        self.history[place].told = Some((ended, told));
    }

    /// The operation that began last is refused.
    pub fn refused(&mut self, place: usize, code: Code) {
        let has_changed_nothing = matches!(
            code,
            Code::NotPrimary
                | Code::TooFewReplicas
                | Code::Busy
                | Code::LogFull
                | Code::WrongShard
                | Code::SlotsMoving
        );
        if has_changed_nothing && place + 1 == self.history.len() {
            self.history.pop();
        }
    }

    /// The next addition of a client.
    pub fn next_addition(&mut self, adder: usize, key: u8, amount: i64) {
        let place = self.begin(key, Asked::Add(amount));
        let adder = &mut self.adders[adder];
        adder.sequence += 1;
        adder.current = Some(Addition { key, amount, asked: None, place });
    }

    /// An addition is answered, as it may be more than once.
    pub fn added(&mut self, adder: usize, sequence: u64, sum: i64) {
        let of = &mut self.adders[adder];
        if sequence != of.sequence {
            return;
        }
        match of.current.take() {
            Some(Addition { place, .. }) => {
                of.told = Some(sum);
                self.told(place, Told::Sum(sum));
            }
            None if of.told == Some(sum) => {}
            None => {
                let words = format!("one addition was answered with {:?} and with {sum}", of.told);
                self.book.violations.push(words);
            }
        }
    }

    /// A shard has given a client an identity.
    pub fn identified(&mut self, adder: usize, (shard, client): (u32, u64), map: &SlotMap) {
        let since = map.version();
        self.adders[adder].identities.entry(shard).or_insert(Identity { shard, client, since });
    }

    /// As whom a client asks for its addition, where it is to be asked for by a map; an error is the shard at
    /// which it needs an identity first.
    pub fn route(&mut self, adder: usize, map: &SlotMap) -> Option<Result<Identity, u32>> {
        let Adder { identities, current, .. } = &mut self.adders[adder];
        let addition = current.as_mut()?;
        let owner = map.owner(hash_slot(&[addition.key]));
        let Some(asked) = &mut addition.asked else {
            let Some(identity) = identities.get(&owner) else { return Some(Err(owner)) };
            addition.asked = Some(*identity);
            return Some(Ok(*identity));
        };
        // Others have what the shard knew that was asked, and call the client otherwise.
        if let Some(taken) = map.taken(asked.shard).filter(|taken| taken.number > asked.since)
            && owner != asked.shard
        {
            let client = identity_after(asked.client, taken.number);
            *asked = Identity { shard: owner, client, since: taken.number };
        }
        Some(Ok(*asked))
    }

    /// The shard that was asked has never done the addition, and will not.
    pub fn not_there(&mut self, adder: usize, asked: Identity) {
        if let Some(addition) = &mut self.adders[adder].current {
            addition.asked.take_if(|by| *by == asked);
        }
    }

    /// A shard does not know a client to which it has given its identity, and no other one has taken it over.
    pub fn forgotten(&mut self, adder: usize, asked: Identity, map: &SlotMap) {
        let is_taken = map.taken(asked.shard).is_some_and(|taken| taken.number > asked.since);
        let is_current = self.adders[adder].current.is_some_and(|it| it.asked == Some(asked));
        if is_current && !is_taken {
            self.book.violations.push(format!("client {adder} is forgotten, with what it has done"));
        }
    }

    /// Holds the history against an order.
    pub fn judge(&mut self) {
        for unexplained in check(&self.history).unexplained {
            let operation = &self.history[unexplained.operation];
            let words = format!("no order explains the operations on {}: {operation}", unexplained.key);
            self.book.violations.push(words);
        }
    }
}
