//! What the basic protocol is configured with.

use core::time::Duration;

use crate::session::SessionConfig;

/// Limits and times of one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BasicConfig {
    /// Limits to propose, and how long silence is borne.
    pub session: SessionConfig,
    /// How often waiting calls are looked at. One that heard nothing for two such intervals, or for two round
    /// trips if that is longer, asks again.
    pub resend_interval: Duration,
}

impl Default for BasicConfig {
    fn default() -> Self {
        Self { session: SessionConfig::default(), resend_interval: Duration::from_millis(2) }
    }
}
