//! What a thread does while there is nothing to do.
//!
//! To sleep costs a wake-up, and the peers of a thread that sleeps wait for it and fall asleep in turn. So an
//! endpoint whose waits have been short waits on awake, for as long as several threads take to wake one
//! another, and lets other threads of its core run meanwhile. That is a bet on a short wait. One that is lost
//! is followed by a pause that is so much longer that lost bets take a small part of the time: in the pause
//! the endpoint does what it would do without bets. One that is won costs the wait itself: an endpoint that
//! hears something at least every two hundred microseconds takes whatever of its core others leave.

use core::time::Duration;

use farcall_base::Instant;

use crate::parameters::Idle;

/// The longest uninterrupted sleep: a caller that waits for a condition of its own looks at it again after
/// that.
pub const SLEEP_MAX: Duration = Duration::from_millis(100);

/// How many waits in a row have to be short before the endpoint bets that the next one is.
const SHORT_WAITS: u32 = 8;

/// How much longer than a lost bet the pause after it is.
const PAUSE_PER_LOSS: u32 = 16;

/// The longest pause, that after the longest bet which can be set: a thread that was stopped for hours has
/// not lost as much.
const PAUSE_MAX: Duration = Duration::from_secs(PAUSE_PER_LOSS as u64);

/// For how long an endpoint that bets polls before it lets other threads of its core run: it may wait for one
/// of them.
const ALONE: Duration = Duration::from_micros(5);

/// A yield that took longer let another thread run: by itself it takes half of that on a virtual machine, and
/// two switches take twice as much.
const QUICK_YIELD: Duration = Duration::from_micros(1);

/// Decides what to do after a fruitless poll.
#[derive(Clone, Copy, Debug)]
pub struct Idler {
    /// `None` where to wait is a mistake.
    policy: Option<Idle>,
    /// How long to spin before anything else.
    spin_time: Duration,
    /// How long to wait awake while waits are shorter than that.
    spin_time_max: Duration,
    /// When the present run of fruitless polls began.
    idle_since: Option<Instant>,
    /// When the spin time is over. What another thread brings does not prolong it.
    spin_ends: Option<Instant>,
    /// How many of the last waits were short, one after the other, at most [`SHORT_WAITS`].
    short_waits: u32,
    /// No bets on waits that begin earlier.
    no_bet_before: Instant,
    /// When to let others run.
    yield_at: Instant,
    /// Another thread has run since the last fruitless poll.
    switched: bool,
    /// What it waited for last came from a thread of its own core: to poll holds that up.
    is_held_up: bool,
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
    /// An idler that spins for `spin_time` before it does what the policy says, and waits awake for
    /// `spin_time_max` before it blocks, if that is more and its last waits were shorter.
    pub fn new(policy: Idle, spin_time: Duration, spin_time_max: Duration) -> Self {
        Self { policy: Some(policy), spin_time, spin_time_max, ..Self::forbidden() }
    }

    /// The idler of a simulated host: its turns are run by the simulation, which a host that waited would
    /// hold up for ever.
    pub fn forbidden() -> Self {
        Self {
            policy: None,
            spin_time: Duration::ZERO,
            spin_time_max: Duration::ZERO,
            idle_since: None,
            spin_ends: None,
            short_waits: 0,
            no_bet_before: Instant::ZERO,
            yield_at: Instant::ZERO,
            switched: false,
            is_held_up: false,
        }
    }

    /// The idler of those that wait for what an endpoint with this one does for them; `None` where they just
    /// wait.
    pub fn of_callers(&self) -> Option<Self> {
        (self.policy == Some(Idle::Block)).then(|| Self::new(Idle::Block, Duration::ZERO, self.spin_time_max))
    }

    /// Somebody begins to wait: the spin time begins again.
    #[inline]
    pub fn restart(&mut self) {
        (self.idle_since, self.spin_ends) = (None, None);
    }

    /// There was something to do: the wait, if there was one, is over.
    #[inline]
    pub fn found(&mut self, now: Instant) {
        if let Some(since) = self.idle_since.take() {
            self.spin_ends = None;
            self.waited(since, now);
        }
    }

    /// Another thread has brought something to do, which ends the wait; what comes of it is waited for next.
    #[inline]
    pub fn brought(&mut self, now: Instant) {
        if let Some(since) = self.idle_since.take() {
            self.waited(since, now);
        }
    }

    fn waited(&mut self, since: Instant, now: Instant) {
        self.is_held_up = core::mem::take(&mut self.switched);
        if now - since < self.spin_time_max {
            self.short_waits = SHORT_WAITS.min(self.short_waits + 1);
        } else {
            self.was_long(since, now);
        }
    }

    fn was_long(&mut self, since: Instant, now: Instant) {
        if self.bets_on(since) {
            self.no_bet_before = now + PAUSE_MAX.min((now - since) * PAUSE_PER_LOSS);
        }
        self.short_waits = 0;
    }

    /// Whether a wait that began then is expected to be short.
    #[inline]
    fn bets_on(&self, since: Instant) -> bool {
        self.short_waits == SHORT_WAITS
            && since >= self.no_bet_before
            && self.policy == Some(Idle::Block)
            && self.spin_time_max > self.spin_time
    }

    /// A poll has found nothing.
    ///
    /// # Panics
    /// On a simulated host.
    #[inline]
    pub fn idle(&mut self, now: Instant) -> Step {
        let policy = self.policy.expect("a simulated host cannot wait; use callbacks, events or `Tasks`");
        self.switched = false;
        let since = match self.idle_since {
            Some(since) => since,
            None => self.begin(now),
        };
        if self.bets_on(since) {
            return self.bet(since, now);
        }
        let spins = self.spin_ends.is_some_and(|end| now < end) && !self.is_held_up;
        match policy {
            Idle::Spin => Step::Poll,
            _ if spins => Step::Poll,
            Idle::Block => Step::Sleep,
            Idle::Yield => Step::Yield,
        }
    }

    fn begin(&mut self, now: Instant) -> Instant {
        self.idle_since = Some(now);
        self.spin_ends.get_or_insert(now + self.spin_time);
        self.yield_at = now + ALONE;
        now
    }

    fn bet(&mut self, since: Instant, now: Instant) -> Step {
        let waited = now - since;
        if waited >= self.spin_time_max {
            self.was_long(since, now);
            return Step::Sleep;
        }
        if self.is_held_up || now >= self.yield_at || waited >= self.spin_time {
            Step::Yield
        } else {
            Step::Poll
        }
    }

    /// Other threads of this core were let run, which took from `begun` to `now`.
    #[inline]
    pub fn yielded(&mut self, begun: Instant, now: Instant) {
        let took = now - begun;
        self.switched = took >= QUICK_YIELD && took < self.spin_time_max;
        self.yield_at = now + ALONE;
    }
}

#[cfg(test)]
mod tests;
