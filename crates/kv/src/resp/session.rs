//! What is remembered of a client between its commands.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use farcall::policy::Principal;

use super::command::{Blocked, Copying, Incoming, Long, LongValue, Transaction};
use super::reply::{Protocol, Reply};
use crate::TableId;

/// Which of its commands a client wants replies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Replies {
    /// All of them.
    #[default]
    On,
    /// None.
    Off,
    /// All but that of this command and of the next one.
    SkipNext,
}

/// A client's state.
#[derive(Debug)]
pub struct Session {
    /// Its number; no other client of this process ever has it.
    pub id: u64,
    /// Where it connects from.
    pub address: String,
    /// Who it is, as far as that is proven.
    pub principal: Principal,
    /// The database that it uses.
    pub database: usize,
    /// The version of the protocol that it speaks.
    pub protocol: Protocol,
    /// The name that it gave itself.
    pub name: Vec<u8>,
    /// The library that it uses, as it says, and its version.
    pub library: [Vec<u8>; 2],
    /// Whether it has said the password, or need not.
    pub is_known: bool,
    /// Which replies it wants.
    pub replies: Replies,
    /// What it has queued since `MULTI`.
    pub transaction: Option<Box<Transaction>>,
    /// The keys that it watches, with the versions that their objects had; 0 for none.
    pub watched: HashMap<(TableId, Vec<u8>), u64>,
    /// Memory that these take, about.
    pub watched_bytes: usize,
    /// It asked not to be sent away for others.
    pub is_spared: bool,
    /// The channels and the patterns that it subscribes to.
    pub channels: HashSet<Vec<u8>>,
    pub patterns: HashSet<Vec<u8>>,
    /// Memory that these take, about.
    pub subscribed_bytes: usize,
    /// The command with which it waits.
    pub blocked: Option<Box<Blocked>>,
    /// The rest of the command that runs.
    pub long: Option<Box<Long>>,
    /// The long argument of its next command whose bytes come, and those that have come.
    pub incoming: Option<Incoming>,
    pub longs: Vec<LongValue>,
    /// The copy that its command needs before it runs.
    pub copying: Option<Box<Copying>>,
    /// When the last bytes of one came, in milliseconds of the front's clock.
    pub long_ms: u64,
    /// The connection ends after the reply.
    pub ends: bool,
    /// The group of the log that has its last write; 0 if it wrote nothing to durable tables.
    pub last_group: u64,
    /// It wrote to tables that are in memory only.
    pub wrote_in_memory: bool,
    /// When it connected, and when its last command came, in milliseconds of the front's clock.
    pub since_ms: u64,
    pub last_ms: u64,
    /// The command that it sent last.
    pub last_command: &'static str,
}

impl Session {
    /// A client that has just connected.
    pub fn new(id: u64, address: String, principal: Principal, is_known: bool, now_ms: u64) -> Self {
        Self {
            id,
            address,
            principal,
            database: 0,
            protocol: Protocol::default(),
            name: Vec::new(),
            library: [Vec::new(), Vec::new()],
            is_known,
            replies: Replies::default(),
            transaction: None,
            watched: HashMap::new(),
            watched_bytes: 0,
            is_spared: false,
            channels: HashSet::new(),
            patterns: HashSet::new(),
            subscribed_bytes: 0,
            blocked: None,
            long: None,
            incoming: None,
            longs: Vec::new(),
            copying: None,
            long_ms: 0,
            ends: false,
            last_group: 0,
            wrote_in_memory: false,
            since_ms: now_ms,
            last_ms: now_ms,
            last_command: "NULL",
        }
    }

    /// Whether it has subscriptions.
    pub fn is_subscribed_to_any(&self) -> bool {
        !self.channels.is_empty() || !self.patterns.is_empty()
    }

    /// Whether it may only send what is about subscriptions: with RESP2 it could not tell replies from
    /// messages.
    #[inline]
    pub fn is_subscribed(&self) -> bool {
        self.protocol == Protocol::Resp2 && self.is_subscribed_to_any()
    }

    /// Whether long values of it are no objects yet: of a request that is not whole, or of a transaction.
    pub fn has_long_values(&self) -> bool {
        let queued = self.transaction.as_ref().map_or(0, |transaction| transaction.long_bytes());
        self.incoming.is_some() || !self.longs.is_empty() || queued > 0
    }

    /// Memory that it takes, about: what it is called, what it queued, and what it watches, subscribes to and
    /// waits for.
    pub fn memory_bytes(&self) -> usize {
        let called = self.address.capacity() + self.name.capacity();
        let library: usize = self.library.iter().map(Vec::capacity).sum();
        let queued = self.transaction.as_ref().map_or(0, |transaction| transaction.bytes());
        let blocked = self.blocked.as_ref().map_or(0, |blocked| blocked.memory_bytes());
        let noted = self.watched_bytes + self.subscribed_bytes;
        size_of::<Self>() + called + library + queued + blocked + noted
    }

    /// Watches a key, whose object has this version, unless it does.
    pub fn watch(&mut self, table: TableId, key: &[u8], version: u64) {
        if let Entry::Vacant(vacant) = self.watched.entry((table, key.to_vec())) {
            vacant.insert(version);
            self.watched_bytes += size_of::<(TableId, Vec<u8>, u64)>() + key.len();
        }
    }

    /// Watches nothing any more; gives what it watched.
    pub fn unwatch(&mut self) -> HashMap<(TableId, Vec<u8>), u64> {
        self.watched_bytes = 0;
        core::mem::take(&mut self.watched)
    }

    /// Removes the reply to a command, from `start` on, that is not wanted, after that command ran; `before`
    /// it replies were wanted so.
    pub fn silence(&mut self, before: Replies, reply: &mut Reply, start: usize) {
        match (before, self.replies) {
            // The command that asked for it says so itself.
            (_, Replies::On) => return,
            (Replies::SkipNext, _) => self.replies = Replies::On,
            _ => {}
        }
        reply.truncate(start);
        // The rest of it would only be more of the reply.
        self.long = None;
    }
}
