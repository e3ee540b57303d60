//! A process that has joined, what it waits for, and the bytes that each of both costs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use farcall_base::{Address, NO_RANK};

use super::super::super::limits::{STORED_OVERHEAD_BYTES, WATCH_BYTES};
use super::rank::Life;

/// A process that has joined.
pub(in super::super) struct Member {
    pub(super) life: Life,
    pub(super) rank: Option<u32>,
    pub(super) waits: BTreeMap<u64, Wait>,
    /// The names and keys that it registered.
    pub(in super::super) registered: BTreeSet<(String, String)>,
    pub(in super::super) machine: u64,
    pub(in super::super) host: String,
    /// What it makes the registry store.
    pub(super) bytes: usize,
    pub(super) lease: Option<Lease>,
}

/// The time within which a member must be heard of.
#[derive(Clone, Copy)]
pub(super) struct Lease {
    pub(super) length: Duration,
    pub(super) ends: Instant,
}

pub(super) enum Wait {
    Resolve { rank: u32, key: String },
    Barrier { name: String },
    Watch { name: String },
}

impl Member {
    pub(super) fn new(life: Life, rank: Option<u32>, machine: u64, host: String) -> Self {
        let (waits, registered) = (BTreeMap::new(), BTreeSet::new());
        Self { life, rank, waits, registered, machine, host, bytes: 0, lease: None }
    }

    pub(in super::super) fn incarnation(&self) -> u64 {
        self.life.incarnation
    }

    /// Its rank; [`NO_RANK`] without one.
    pub(in super::super) fn rank(&self) -> u32 {
        self.rank.unwrap_or(NO_RANK)
    }
}

impl Wait {
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Resolve { key: text, .. } | Self::Barrier { name: text } => stored_bytes(&[text.len()]),
            Self::Watch { name } => WATCH_BYTES + name.len(),
        }
    }
}

pub(super) fn stored_bytes(lengths: &[usize]) -> usize {
    STORED_OVERHEAD_BYTES + lengths.iter().sum::<usize>()
}

pub(super) fn named_bytes(name: &str, key: &str, address: &Address) -> usize {
    stored_bytes(&[name.len(), key.len(), address.as_bytes().len()])
}
