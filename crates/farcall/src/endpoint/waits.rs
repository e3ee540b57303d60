//! What an endpoint waits for when no answer comes, for a reader outside of its process.
//!
//! Nothing is written while answers come. Where none has come for a while, the counters say which process and
//! service the oldest call is for: with the handlers that other processes show, that tells who waits for
//! whom.

use core::time::Duration;

use farcall_base::Instant;

use super::slab::Kind;
use super::state::State;

/// Silence after which a wait is shown, and the time from one look for the oldest call to the next.
const SHOWN_AFTER: Duration = Duration::from_millis(100);

/// What was seen of the answers so far.
#[derive(Debug)]
pub struct Waits {
    answered: u64,
    since: Instant,
    looked_at: Instant,
    is_shown: bool,
}

impl Waits {
    /// Nothing is waited for.
    pub fn none() -> Self {
        Self { answered: 0, since: Instant::ZERO, looked_at: Instant::ZERO, is_shown: false }
    }
}

impl State {
    /// Shows the oldest call if none has been answered for a while. The clock was just read.
    #[inline]
    pub fn follow_waits(&mut self) {
        let answered = self.counters.answered.get();
        if self.operations.in_flight(Kind::Call) == 0 || answered != self.waits.answered {
            (self.waits.answered, self.waits.since, self.waits.looked_at) = (answered, self.now, self.now);
            if core::mem::take(&mut self.waits.is_shown) {
                self.counters.stalled_time.set(0);
            }
        } else if self.now - self.waits.looked_at >= SHOWN_AFTER {
            self.show_wait();
        }
    }

    fn show_wait(&mut self) {
        self.waits.looked_at = self.now;
        let Some((session, service)) = self.operations.pending_call() else { return };
        self.waits.is_shown = true;
        self.counters.stalled_on.set(self.sessions.incarnation_of(session));
        self.counters.stalled_service.set(u64::from(service));
        self.counters.stalled_time.set((self.now - self.waits.since).as_nanos() as u64);
    }
}
