//! What peers make an endpoint hold, in bytes: requests and responses under construction, results, slots,
//! and what a transport stores of their messages.
//!
//! Each session has a limit, and all of them together. Half of what all may hold is for whichever session
//! asks first; of the other half each session that there may be has an equal share. So no session can
//! take what another needs for its next call, and the sum never exceeds the limit. (A result is the
//! exception: it is accepted whatever its length, since its request has run. No further request runs
//! until there is room again.)

use super::channel::Channel;
use super::policy::Policy;
use crate::session::SessionConfig;

/// The limits, and how much is held.
#[derive(Debug)]
pub(super) struct Budget {
    session_bytes_max: usize,
    /// What is for whichever session asks first.
    first_come_bytes: usize,
    /// What each session may hold whatever the others do.
    share_bytes: usize,
    held_bytes: usize,
}

impl Budget {
    /// Nothing is held yet.
    pub(super) fn new(config: &SessionConfig) -> Self {
        let half = config.bytes_max / 2;
        Self {
            session_bytes_max: config.session_bytes_max,
            first_come_bytes: half,
            share_bytes: half / usize::from(config.sessions_max),
            held_bytes: 0,
        }
    }

    /// What all sessions hold.
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Up to how much a session may hold now that holds `held_bytes`.
    #[inline]
    pub(super) fn room(&self, held_bytes: usize) -> usize {
        let first_come = held_bytes + self.first_come_bytes.saturating_sub(self.held_bytes);
        first_come.max(self.share_bytes).min(self.session_bytes_max)
    }

    /// A session is over.
    pub(super) fn session_down<B, P: Policy>(&mut self, channel: &Channel<B, P>) {
        self.held_bytes -= channel.counted_bytes;
    }

    /// Brings the sum up to date with what a session holds.
    #[inline]
    pub(super) fn follow<B, P: Policy>(&mut self, channel: &mut Channel<B, P>) {
        if channel.held_bytes != channel.counted_bytes {
            self.held_bytes = self.held_bytes - channel.counted_bytes + channel.held_bytes;
            channel.counted_bytes = channel.held_bytes;
        }
    }
}

impl<B: AsRef<[u8]>, P: Policy> Channel<B, P> {
    /// Whether the session may make us hold so many more bytes. Memory that is only stored for later goes
    /// first.
    #[inline]
    pub(super) fn has_room_for(&mut self, bytes: usize) -> bool {
        self.held_bytes + bytes.max(1) <= self.room_bytes || (self.has_spares && self.drop_spares(bytes))
    }

    /// Frees the memory that slots have for their next results. It is stored again only when less than half
    /// of the session's room is used, so that this walk over all slots is rare.
    fn drop_spares(&mut self, bytes: usize) -> bool {
        self.has_spares = false;
        for server in &mut self.servers {
            let before = server.held_bytes();
            server.drop_spare();
            self.held_bytes -= before - server.held_bytes();
        }
        self.held_bytes + bytes.max(1) <= self.room_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_goes_to_whoever_asks_first_and_every_session_has_a_share_of_the_rest() {
        let config = SessionConfig {
            session_bytes_max: 1000,
            bytes_max: 4000,
            sessions_max: 4,
            ..SessionConfig::default()
        };
        let mut budget = Budget::new(&config);
        assert_eq!(budget.room(0), 1000, "the limit of a session");
        budget.held_bytes += 1900;
        assert_eq!((budget.room(900), budget.room(0)), (1000, 500), "100 are left, and a share is 500");
        budget.held_bytes += 100;
        assert_eq!((budget.room(900), budget.room(300), budget.room(0)), (900, 500, 500));
        // All of them at their share, beside those that were first.
        budget.held_bytes += 2000;
        assert_eq!(budget.held_bytes(), 4000);
        assert_eq!((budget.room(500), budget.room(900)), (500, 900), "nothing more for anybody");
    }
}
