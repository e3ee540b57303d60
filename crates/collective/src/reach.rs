//! Sessions to members: opened when they are first used, without holding up a poll until the directory knows
//! where a member is.

use core::future::poll_fn;
use core::task::Poll;
use core::time::Duration;

use farcall::bootstrap::ResolveError;
use farcall::{ConnectError, Peer};

use crate::error::CollectiveError;
use crate::group::Group;

/// The longest that a poll waits for the directory to say where a member is: time for an answer, and short
/// beside any deadline.
const LOOK_WITHIN: Duration = Duration::from_millis(10);

impl Group<'_> {
    /// The session to a member, once it is known where that is. The endpoint is polled meanwhile, so that an
    /// abort or the deadline of the operation ends the wait.
    pub(crate) async fn peer(&self, member: u32) -> Result<Peer, CollectiveError> {
        if let Some(peer) = self.peers.borrow()[member as usize] {
            return Ok(peer);
        }
        self.awaited.borrow_mut().push(member);
        let peer = poll_fn(|task| match self.look_for(member) {
            Ok(Some(peer)) => Poll::Ready(Ok(peer)),
            Ok(None) => {
                // Nothing tells when it is published.
                task.waker().wake_by_ref();
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(error)),
        })
        .await;
        self.is_not_awaited(member);
        peer
    }

    /// The session to a member; `None` when it is not known yet where that is: look again in a later poll.
    /// The endpoint's time for that ends the looks.
    pub(crate) fn look_for(&self, member: u32) -> Result<Option<Peer>, CollectiveError> {
        if let Some(peer) = self.peers.borrow()[member as usize] {
            return Ok(Some(peer));
        }
        let (now, within) = (self.endpoint.clock().now(), self.endpoint.resolve_timeout());
        let since = *self.looked_since.borrow_mut().entry(member).or_insert(now);
        let found = self.endpoint.peer_within(self.rank_of(member), within.min(LOOK_WITHIN));
        let over = since + within;
        if found.as_ref().is_err_and(is_not_known_yet) && self.endpoint.clock().now() < over {
            return Ok(None);
        }
        self.looked_since.borrow_mut().remove(&member);
        let peer =
            found.map_err(|error| CollectiveError::Unreachable { member, error: waited(error, within) })?;
        self.peers.borrow_mut()[member as usize] = Some(peer);
        Ok(Some(peer))
    }
}

/// Whether another look may find a member.
fn is_not_known_yet(error: &ConnectError) -> bool {
    matches!(error, ConnectError::Unknown(ResolveError::TimedOut { .. } | ResolveError::Unreachable { .. }))
}

/// The error of the last look, as that of all of them.
fn waited(error: ConnectError, within: Duration) -> ConnectError {
    match error {
        ConnectError::Unknown(ResolveError::TimedOut { rank, key, .. }) => {
            ResolveError::TimedOut { rank, key, within }.into()
        }
        ConnectError::Unknown(ResolveError::Unreachable { rank, key, .. }) => {
            ResolveError::Unreachable { rank, key, within }.into()
        }
        error => error,
    }
}
