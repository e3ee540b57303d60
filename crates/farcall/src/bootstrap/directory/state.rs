//! What a member and the thread that reads its connection share.

use std::collections::BTreeMap;
use std::net::{Shutdown, TcpStream};

use farcall_base::Address;

use super::super::limits::{BARRIER_WAITS_MAX, WAITS_MAX};
use super::super::messages::{Answer, Ask};
use super::super::refusal::Refusal;

/// What is known and wanted. What was published and asked for outlives any one connection.
#[derive(Default)]
pub(super) struct State {
    pub(super) link: Option<TcpStream>,
    /// Set when the rendezvous refused to take this process back; nothing helps then.
    pub(super) refused: Option<Refusal>,
    pub(super) stopping: bool,
    /// Somebody needs the connection now: the pause before the next attempt is skipped.
    pub(super) hurried: bool,
    pub(super) published: BTreeMap<String, Address>,
    /// The last answers, by rank and key, for when the rendezvous is away.
    pub(super) resolved: BTreeMap<(u32, String), (Address, u64)>,
    pub(super) waits: BTreeMap<u64, Wait>,
    requests_used: u64,
}

/// Somebody waits: what was asked, and the answer when it is there.
pub(super) struct Wait {
    pub(super) ask: Ask,
    pub(super) answer: Option<Answer>,
}

/// Why a wait ended without what was waited for.
pub(super) enum WaitError {
    TimedOut { connected: bool },
    TooMany,
    Occupied,
    Refused(Refusal),
}

impl State {
    /// That of a process which has just joined over `link`.
    pub(super) fn connected(link: TcpStream) -> Self {
        Self { link: Some(link), ..Self::default() }
    }

    /// Ends the connection, which also wakes the thread that reads it.
    pub(super) fn unlink(&mut self) {
        if let Some(link) = self.link.take() {
            // It fails only when the connection has ended already.
            let _ = link.shutdown(Shutdown::Both);
        }
    }

    /// Notes that somebody waits, under a new number.
    pub(super) fn begin(&mut self, ask: impl FnOnce(u64) -> Ask) -> Result<u64, WaitError> {
        let ask = ask(self.requests_used + 1);
        if let Ask::Barrier { name, .. } = &ask {
            let barriers = self.waits.values().filter_map(|wait| match &wait.ask {
                Ask::Barrier { name, .. } => Some(name),
                _ => None,
            });
            if barriers.clone().any(|other| other == name) {
                return Err(WaitError::Occupied);
            }
            if barriers.count() >= BARRIER_WAITS_MAX {
                return Err(WaitError::TooMany);
            }
        }
        if self.waits.len() >= WAITS_MAX {
            return Err(WaitError::TooMany);
        }
        self.requests_used += 1;
        self.waits.insert(self.requests_used, Wait { ask, answer: None });
        Ok(self.requests_used)
    }
}
