//! The homa protocol: receivers decide what comes next, and prefer what will be finished soonest.
//!
//! The first [`HomaRules::rtt_bytes`] of a message are sent unasked, at a priority that its length gives it;
//! the receiver learns from its traffic which lengths should have which, and tells its peers. All further
//! bytes wait for grants. A receiver grants to the messages with the fewest bytes to go, to one of each
//! sender and to [`HomaRules::overcommit`] at a time, so that a sender which does not use its grants leaves
//! no gap; a grant names the priority. A sender sends the message with the fewest bytes to go first, and
//! gives its network card little more than it can send at once. The oldest message gets a small share of
//! everything, so that none starves.
//!
//! The rules are those of Montazeri, Li, Alizadeh and Ousterhout, "Homa: a receiver-driven low-latency
//! transport protocol using network priorities" (SIGCOMM 2018), with what HomaModule added (Ousterhout,
//! USENIX ATC 2021): a limit to all bytes granted, few questions at a time to a peer, explicit
//! acknowledgement, the pacer, and the share of the oldest. Calls, slots, running at most once and assembly
//! are [`crate::calls`].

mod arriving;
mod grants;
mod pacer;
mod policy;
mod rules;
mod share;
#[cfg(test)]
mod tests;
mod traffic;

use core::time::Duration;

use crate::calls::Calls;
use crate::session::{ConfigError, SessionConfig};
use farcall_base::{Entropy, Identity};

pub use policy::{HomaPeer, HomaPolicy};
pub use rules::{HomaRules, OVERCOMMIT_MAX, RulesError};

/// The calls of one endpoint by the homa protocol.
pub type Homa<B> = Calls<B, HomaPolicy>;

/// Limits, times and rules of one endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomaConfig {
    /// Limits to propose, and how long silence is borne. Its unscheduled bytes follow from the rules.
    pub session: SessionConfig,
    /// How often waiting calls are looked at. One that heard nothing for two such intervals, or for two round
    /// trips if that is longer, asks again.
    pub resend_interval: Duration,
    /// Whom to prefer, and how.
    pub rules: HomaRules,
}

/// Why an endpoint cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HomaConfigError {
    /// Limits or times.
    #[error(transparent)]
    Session(#[from] ConfigError),
    /// Rules.
    #[error(transparent)]
    Rules(#[from] RulesError),
}

impl Default for HomaConfig {
    fn default() -> Self {
        Self {
            session: SessionConfig::default(),
            resend_interval: Duration::from_millis(2),
            rules: HomaRules::default(),
        }
    }
}

impl<B: AsRef<[u8]>> Calls<B, HomaPolicy> {
    /// An endpoint without sessions. What peers must not foretell comes from `entropy`.
    pub fn new(
        mut config: HomaConfig,
        identity: Identity,
        entropy: Entropy,
    ) -> Result<Self, HomaConfigError> {
        config.session.offer.unscheduled_bytes = config.rules.rtt_bytes;
        let policy = HomaPolicy::new(config.rules)?;
        Ok(Self::with_policy(policy, config.session, config.resend_interval, identity, entropy)?)
    }
}

/// Reads `bytes` as packets of any kind within the abused session.
#[doc(hidden)]
pub fn fuzz_homa(bytes: &[u8]) {
    // Few bytes, so that grants are withheld, and a place beside that of the abused session.
    let rules = HomaRules { rtt_bytes: 4000, grant_bytes: 1000, overcommit: 2, ..HomaRules::default() };
    crate::calls::fuzz_messages(bytes, || HomaPolicy::new(rules.clone()).expect("the rules are valid"));
}
