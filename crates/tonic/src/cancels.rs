//! Cancellations that nobody waits for: the server hears of each in the end, even if one is refused at first.

use core::future::Future as _;
use core::pin::Pin;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Context, Poll, Waker};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use farcall::{CallError, CallRefused, ClientError, ClientPending};

use crate::exchanges::EXCHANGES_MAX;

/// How many are looked at with each ask: more than an exchange adds, and few enough to leave others room.
const LOOKS: usize = 2;

type Kept = VecDeque<(u64, ClientPending)>;

/// Exchanges whose cancellation was asked for, with what has become of that.
#[derive(Debug, Default)]
pub struct Cancels {
    kept: Mutex<Kept>,
    /// How many there are, so that an ask looks for none without the lock.
    count: AtomicUsize,
}

impl Cancels {
    /// Keeps one until its end is known. Of more than a server has exchanges of a caller, the oldest is left
    /// to itself.
    pub fn keep(&self, exchange: u64, asked: ClientPending) {
        let mut kept = self.kept();
        let oldest = if kept.len() < EXCHANGES_MAX { None } else { kept.pop_front() };
        kept.push_back((exchange, asked));
        self.count.store(kept.len(), Ordering::Relaxed);
        drop(kept);
        if let Some((_, asked)) = oldest {
            asked.detach();
        }
    }

    /// Looks at some, and asks again for those that were refused.
    pub fn renew(&self, ask: impl Fn(u64) -> ClientPending) {
        for _ in 0..LOOKS.min(self.count.load(Ordering::Relaxed)) {
            let Some((exchange, mut asked)) = self.take() else { return };
            match Pin::new(&mut asked).poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Pending => self.keep(exchange, asked),
                Poll::Ready(Err(error)) if may_succeed_later(&error) => self.keep(exchange, ask(exchange)),
                // The server has heard of it, or has ended all that it did for this caller.
                Poll::Ready(_) => {}
            }
        }
    }

    fn take(&self) -> Option<(u64, ClientPending)> {
        let mut kept = self.kept();
        let first = kept.pop_front();
        self.count.store(kept.len(), Ordering::Relaxed);
        first
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Cancels {
    /// Those on their way go on: dropped as they are, they would not be sent.
    fn drop(&mut self) {
        let kept = self.kept.get_mut().unwrap_or_else(PoisonError::into_inner);
        kept.drain(..).for_each(|(_, asked)| asked.detach());
    }
}

/// Whether an ask did not leave because too many others were in flight.
pub fn is_for_want_of_room(error: &ClientError) -> bool {
    match error {
        ClientError::Full { .. } | ClientError::Call(CallError::TooManyCalls { .. }) => true,
        ClientError::Call(CallError::NotSent(refused)) => matches!(refused, CallRefused::TooManyCalls { .. }),
        _ => false,
    }
}

/// Whether the server may have the exchange still, and hear of its cancellation another time.
fn may_succeed_later(error: &ClientError) -> bool {
    let is_later = matches!(error, ClientError::Call(CallError::TimedOut | CallError::NotAllowed { .. }));
    is_later || is_for_want_of_room(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_for_now_is_asked_for_again_and_what_is_over_is_not() {
        let not_sent = |why| ClientError::Call(CallError::NotSent(why));
        assert!(may_succeed_later(&ClientError::Full { calls_max: 1 }));
        assert!(may_succeed_later(&not_sent(CallRefused::TooManyCalls { calls_max: 1 })));
        assert!(may_succeed_later(&ClientError::Call(CallError::TooManyCalls { calls_max: 1 })));
        assert!(may_succeed_later(&ClientError::Call(CallError::TimedOut)));
        assert!(!may_succeed_later(&not_sent(CallRefused::Down)));
        assert!(!may_succeed_later(&ClientError::Call(CallError::Leaving)));
        assert!(!may_succeed_later(&ClientError::Stopped));
    }
}
