//! How much memory the endpoints of a scenario may hold: a formula, so that what grows without bound breaks a
//! rule.
//!
//! An endpoint takes a fixed amount, and so much for each session: at most two for each other endpoint, where
//! both sides have connected. Beside that it holds what is in flight, and no message more often than at its
//! sender, in pieces at its receiver, and once more while the program has it.

use crate::scenario::Scenario;

/// An endpoint without sessions: the deadlines of its slab (512 KiB), its counters, the buffers of its
/// driver.
const ENDPOINT_BYTES: usize = 768 << 10;

/// A session that carries nothing.
const SESSION_BYTES: usize = 20 << 10;

/// A call, message or errand in flight, beside its payload, at both ends.
const OPERATION_BYTES: usize = 4 << 10;

/// How often the bytes of a message are held at a time.
const COPIES_MAX: usize = 4;

/// A part of the harness itself, for each operation: its plan, and what is noted of it.
const LEDGER_BYTES: usize = 1 << 10;

impl Scenario {
    /// The most bytes of memory that its endpoints and what watches them may hold at a time. The fabric's are
    /// not among them.
    pub fn memory_bytes_max(&self) -> usize {
        let hosts = self.hosts as usize;
        let endpoints = hosts * if self.errands.is_empty() { 1 } else { 2 };
        let sessions = 2 * endpoints * (hosts - 1);
        let calls = self.operations.iter().map(|call| call.request_bytes + call.answer_bytes);
        let messages = self.mail.sends.iter().map(|send| send.bytes);
        let rounds = self.errands.rounds.iter().map(|round| round.bytes * hosts * hosts);
        let payload: usize = calls.chain(messages).chain(rounds).sum();
        let errands = self.errands.rounds.len() * hosts + self.errands.visits.len();
        let operations = self.operations.len() + self.mail.sends.len() + self.mail.receives.len() + errands;
        endpoints * ENDPOINT_BYTES
            + sessions * SESSION_BYTES
            + operations * (OPERATION_BYTES + LEDGER_BYTES)
            + payload * COPIES_MAX
            + endpoints * self.fabric.block_bytes
    }
}
