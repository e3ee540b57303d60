//! Pauses between attempts to reach the rendezvous: short at first, because it often starts a moment later.

use std::time::Duration;

const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The pauses of one series of attempts.
pub(super) struct Backoff {
    pause: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { pause: PAUSE_MIN }
    }
}

impl Backoff {
    /// The next pause; each is twice the one before, up to a second.
    pub(super) fn next_pause(&mut self) -> Duration {
        let pause = self.pause;
        self.pause = (pause * 2).min(PAUSE_MAX);
        pause
    }
}
