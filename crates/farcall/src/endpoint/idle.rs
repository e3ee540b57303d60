//! What a thread does while there is nothing to do.

use core::time::Duration;

use farcall_base::Instant;

use crate::parameters::Idle;

/// The longest uninterrupted sleep: a caller that waits for a condition of its own looks at it again after
/// that.
pub const SLEEP_MAX: Duration = Duration::from_millis(100);

/// Decides what to do after a fruitless poll.
#[derive(Clone, Copy, Debug)]
pub struct Idler {
    /// `None` where to wait is a mistake.
    policy: Option<Idle>,
    /// How long to spin before anything else.
    spin_time: Duration,
    /// When the present run of fruitless polls began.
    idle_since: Option<Instant>,
}

/// What to do after a fruitless poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Poll again at once.
    Poll,
    /// Let other threads of this core run, then poll again.
    Yield,
    /// Block until something arrives.
    Sleep,
}

impl Idler {
    /// An idler that spins for `spin_time` before it does what the policy says.
    pub fn new(policy: Idle, spin_time: Duration) -> Self {
        Self { policy: Some(policy), spin_time, idle_since: None }
    }

    /// The idler of a simulated host: its turns are run by the simulation, which a host that waited would
    /// hold up for ever.
    pub fn forbidden() -> Self {
        Self { policy: None, spin_time: Duration::ZERO, idle_since: None }
    }

    /// A poll has found something, or somebody begins to wait: the spin time begins again.
    #[inline]
    pub fn restart(&mut self) {
        self.idle_since = None;
    }

    /// A poll has found nothing.
    ///
    /// # Panics
    /// On a simulated host.
    #[inline]
    pub fn idle(&mut self, now: Instant) -> Step {
        let policy = self.policy.expect("a simulated host cannot wait; use callbacks, events or `Tasks`");
        let since = *self.idle_since.get_or_insert(now);
        if policy == Idle::Spin || now - since < self.spin_time {
            return Step::Poll;
        }
        match policy {
            Idle::Block => Step::Sleep,
            _ => Step::Yield,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step_after(policy: Idle, nanos: u64) -> Step {
        let mut idler = Idler::new(policy, Duration::from_nanos(100));
        idler.idle(Instant::ZERO);
        idler.idle(Instant::from_nanos(nanos))
    }

    #[test]
    fn a_policy_takes_effect_after_the_spin_time() {
        assert_eq!(step_after(Idle::Block, 99), Step::Poll);
        assert_eq!(step_after(Idle::Block, 100), Step::Sleep);
        assert_eq!(step_after(Idle::Yield, 100), Step::Yield);
        assert_eq!(step_after(Idle::Spin, 1_000_000), Step::Poll);
    }

    #[test]
    fn the_spin_time_begins_again() {
        let mut idler = Idler::new(Idle::Block, Duration::from_nanos(100));
        idler.idle(Instant::ZERO);
        idler.restart();
        assert_eq!(idler.idle(Instant::from_nanos(500)), Step::Poll);
        assert_eq!(idler.idle(Instant::from_nanos(600)), Step::Sleep);
    }
}
