//! What a poll reports to a caller that takes events.

use std::collections::VecDeque;

use farcall_transport::DownReason;

use super::call::Outcome;
use super::completion::Ended;
use super::message::{ReceiveOutcome, SendError};
use super::sessions::Peer;

/// Something that happened during a poll.
#[derive(Debug)]
pub enum Event<'a> {
    /// A call that was posted with this token is complete.
    Completed {
        /// The token given to `post`.
        token: u64,
        /// Its end; the answer is read in place, and taken from there if it must outlive the event.
        outcome: &'a Outcome<'a>,
    },
    /// A send that was posted with this token has ended.
    Sent {
        /// The token given to `post`.
        token: u64,
        /// Its end.
        outcome: Result<(), SendError>,
    },
    /// A receive that was posted with this token has ended.
    Received {
        /// The token given to `post`.
        token: u64,
        /// Its end; the message is read in place, and taken from there if it must outlive the event.
        outcome: &'a ReceiveOutcome<'a>,
    },
    /// A session ended. Its calls have been completed with the same reason.
    ///
    /// Of an endpoint that is turned or waited on, and not asked for events, the last 1024 such ends are kept
    /// at most.
    PeerDown {
        /// The peer.
        peer: Peer,
        /// Why.
        reason: DownReason,
    },
}

/// An event that waits for somebody to ask for it.
#[derive(Debug)]
pub enum StoredEvent {
    /// An operation that was posted with this token has ended.
    Ended {
        token: u64,
        ended: Ended,
    },
    PeerDown {
        peer: Peer,
        reason: DownReason,
    },
}

/// With this many events waiting an end of a session displaces an older one: a user that never takes events
/// learns of sessions all the same, unlike of operations, of which only those that were posted become events.
const KEPT_WITH_SESSIONS_MAX: usize = 1024;

/// Events that happened while nobody took them, oldest first.
#[derive(Debug, Default)]
pub struct StoredEvents {
    events: VecDeque<StoredEvent>,
    /// The tokens of sends that ended well when they began: most do, and an event is many times as long.
    pub sent_at_once: VecDeque<u64>,
}

impl StoredEvents {
    pub fn push_back(&mut self, event: StoredEvent) {
        let is_session = |event: &StoredEvent| matches!(event, StoredEvent::PeerDown { .. });
        if self.events.len() >= KEPT_WITH_SESSIONS_MAX
            && is_session(&event)
            && let Some(oldest) = self.events.iter().position(is_session)
        {
            self.events.remove(oldest);
        }
        self.events.push_back(event);
    }

    pub fn pop_front(&mut self) -> Option<StoredEvent> {
        self.events.pop_front()
    }

    /// How many there are beside the sends that ended at once.
    pub fn others(&self) -> usize {
        self.events.len()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty() && self.sent_at_once.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use farcall_transport::SessionId;

    use super::*;

    fn down(session: u32) -> StoredEvent {
        let peer = Peer { session: SessionId(session), rank: 0, endpoint: 0 };
        StoredEvent::PeerDown { peer, reason: DownReason::Closed }
    }

    /// The sessions and tokens of what is kept.
    fn numbers(mut events: StoredEvents) -> Vec<(bool, u64)> {
        let number = |event| match event {
            StoredEvent::PeerDown { peer, .. } => (true, u64::from(peer.session.0)),
            StoredEvent::Ended { token, .. } => (false, token),
        };
        core::iter::from_fn(|| events.pop_front()).map(number).collect()
    }

    #[test]
    fn only_ends_of_sessions_are_displaced_and_only_by_such() {
        let mut events = StoredEvents::default();
        let tokens = KEPT_WITH_SESSIONS_MAX as u64 - 2;
        (1..=2).for_each(|session| events.push_back(down(session)));
        (0..tokens)
            .for_each(|token| events.push_back(StoredEvent::Ended { token, ended: Ended::Send(Ok(())) }));
        (3..=100).for_each(|session| events.push_back(down(session)));
        assert_eq!(events.others(), KEPT_WITH_SESSIONS_MAX);
        events.push_back(StoredEvent::Ended { token: tokens, ended: Ended::Send(Ok(())) });
        let sends = (0..tokens).map(|token| (false, token));
        let expected: Vec<_> = sends.chain([(true, 99), (true, 100), (false, tokens)]).collect();
        assert_eq!(numbers(events), expected);
    }
}
