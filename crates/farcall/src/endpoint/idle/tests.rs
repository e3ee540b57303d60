use super::*;

const SPIN: Duration = Duration::from_micros(20);
const SPIN_MAX: Duration = Duration::from_micros(200);

/// An endpoint that may block, at a time that passes as the test says.
struct Thread {
    idler: Idler,
    now: Instant,
}

impl Thread {
    fn new() -> Self {
        Self { idler: Idler::new(Idle::Block, SPIN, SPIN_MAX), now: Instant::from_nanos(1) }
    }

    /// Waits until something comes after `time`, and polls once a microsecond if it does not sleep; says how
    /// long it was awake and whether it slept.
    fn wait(&mut self, time: Duration) -> (Duration, bool) {
        let begun = self.now;
        let ends = begun + time;
        let mut slept_at = None;
        while self.now < ends {
            match self.idler.idle(self.now) {
                Step::Sleep => {
                    slept_at.get_or_insert(self.now);
                    self.now = ends;
                }
                Step::Yield => {
                    self.now += Duration::from_nanos(1000);
                    self.idler.yielded(self.now, self.now);
                }
                Step::Poll => self.now += Duration::from_nanos(1000),
            }
        }
        self.idler.found(self.now);
        (slept_at.unwrap_or(self.now) - begun, slept_at.is_some())
    }

    fn short_waits(mut self, waits: u32) -> Self {
        for _ in 0..waits {
            self.wait(SPIN * 2);
        }
        self
    }
}

fn step_after(policy: Idle, nanos: u64) -> Step {
    let mut idler = Idler::new(policy, Duration::from_nanos(100), SPIN_MAX);
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
    let mut idler = Idler::new(Idle::Block, Duration::from_nanos(100), SPIN_MAX);
    idler.idle(Instant::ZERO);
    idler.restart();
    assert_eq!(idler.idle(Instant::from_nanos(500)), Step::Poll);
    assert_eq!(idler.idle(Instant::from_nanos(600)), Step::Sleep);
}

#[test]
fn after_enough_short_waits_it_stays_awake_up_to_the_most() {
    let mut early = Thread::new().short_waits(SHORT_WAITS - 1);
    assert_eq!(early.wait(SPIN_MAX / 2), (SPIN, true));
    let mut in_time = Thread::new().short_waits(SHORT_WAITS);
    assert_eq!(in_time.wait(SPIN_MAX / 2), (SPIN_MAX / 2, false));
    assert_eq!(in_time.wait(SPIN_MAX * 2), (SPIN_MAX, true));
}

#[test]
fn a_long_wait_among_the_short_ones_means_to_begin_again() {
    let mut thread = Thread::new().short_waits(SHORT_WAITS - 1);
    thread.wait(SPIN_MAX);
    let mut thread = thread.short_waits(SHORT_WAITS - 1);
    assert_eq!(thread.wait(SPIN_MAX / 2), (SPIN, true));
    assert_eq!(thread.wait(SPIN_MAX / 2), (SPIN_MAX / 2, false));
}

#[test]
fn who_begins_to_wait_has_not_waited() {
    let mut thread = Thread::new().short_waits(SHORT_WAITS);
    thread.idler.idle(thread.now);
    thread.now += SPIN_MAX * 2;
    thread.idler.restart();
    assert_eq!(thread.wait(SPIN_MAX / 2), (SPIN_MAX / 2, false), "nothing was lost");
}

#[test]
fn a_lost_bet_is_followed_by_a_pause() {
    let mut thread = Thread::new().short_waits(SHORT_WAITS);
    let before = thread.now;
    thread.wait(SPIN_MAX * 3);
    let pause_ends = before + SPIN_MAX * (1 + PAUSE_PER_LOSS);
    let mut thread = thread.short_waits(SHORT_WAITS);
    thread.now = before + SPIN_MAX * PAUSE_PER_LOSS;
    assert_eq!(thread.wait(SPIN_MAX / 2), (SPIN, true), "it begins before the pause is over");
    thread.now = pause_ends;
    assert_eq!(thread.wait(SPIN * 2), (SPIN * 2, false));
}

#[test]
fn the_pause_after_the_longest_bet_that_can_be_set_is_as_many_times_longer() {
    let most = Duration::from_secs(1);
    let mut thread = Thread::new();
    thread.idler = Idler::new(Idle::Block, SPIN, most);
    let mut thread = thread.short_waits(SHORT_WAITS);
    let begun = thread.now;
    assert_eq!(thread.wait(most * 2), (most, true));
    let mut thread = thread.short_waits(SHORT_WAITS);
    thread.now = begun + most * PAUSE_PER_LOSS;
    assert_eq!(thread.wait(SPIN * 2), (SPIN, true));
    thread.now = begun + most * (1 + PAUSE_PER_LOSS);
    assert_eq!(thread.wait(SPIN * 2), (SPIN * 2, false));
}

#[test]
fn no_rhythm_of_waits_makes_it_lose_more_than_its_part() {
    for short_waits in [SHORT_WAITS, SHORT_WAITS + 1, 100] {
        for long in [SPIN_MAX, SPIN_MAX * 2, SPIN_MAX * 40] {
            let mut thread = Thread::new();
            let mut lost = Duration::ZERO;
            for _ in 0..1000 {
                (0..short_waits).for_each(|_| _ = thread.wait(Duration::from_nanos(1000)));
                lost += thread.wait(long).0;
            }
            let of_spin_time = SPIN * 1000;
            let most = (thread.now - Instant::ZERO) / PAUSE_PER_LOSS + of_spin_time + SPIN_MAX;
            assert!(lost <= most, "{short_waits} short ones, then {long:?}: {lost:?} of {:?}", thread.now);
        }
    }
}

#[test]
fn a_thread_that_hears_something_now_and_then_does_not_stay_awake() {
    let mut thread = Thread::new();
    for _ in 0..100 {
        assert_eq!(thread.wait(Duration::from_millis(10)), (SPIN, true));
    }
}

#[test]
fn on_a_core_of_its_own_it_yields_now_and_then() {
    let mut thread = Thread::new().short_waits(SHORT_WAITS);
    let begun = thread.now;
    assert_eq!(thread.idler.idle(begun), Step::Poll);
    assert_eq!(thread.idler.idle(begun + ALONE / 2), Step::Poll);
    assert_eq!(thread.idler.idle(begun + ALONE), Step::Yield);
    thread.idler.yielded(begun + ALONE, begun + ALONE + QUICK_YIELD / 2);
    assert_eq!(thread.idler.idle(begun + ALONE + QUICK_YIELD), Step::Poll);
    assert_eq!(
        thread.idler.idle(begun + SPIN),
        Step::Yield,
        "beyond the spin time it always lets others run"
    );
}

#[test]
fn who_waits_for_a_thread_of_its_core_lets_it_run_from_the_beginning() {
    let mut thread = Thread::new().short_waits(SHORT_WAITS);
    let begun = thread.now;
    thread.idler.idle(begun);
    thread.idler.yielded(begun, begun + QUICK_YIELD);
    let now = begun + QUICK_YIELD;
    thread.idler.found(now);
    assert_eq!(thread.idler.idle(now), Step::Yield, "what came was of the thread that ran");
    thread.idler.yielded(now, now + QUICK_YIELD / 2);
    thread.idler.found(now + QUICK_YIELD);
    assert_eq!(thread.idler.idle(now + QUICK_YIELD), Step::Poll, "what came was of another core");
}

#[test]
fn who_waits_for_a_thread_of_its_core_and_makes_no_bet_sleeps_at_once() {
    let mut thread = Thread::new();
    thread.idler.idle(thread.now);
    thread.idler.yielded(thread.now, thread.now + QUICK_YIELD);
    thread.idler.found(thread.now + QUICK_YIELD);
    assert_eq!(thread.idler.idle(thread.now + QUICK_YIELD), Step::Sleep);
}

#[test]
fn what_another_thread_brings_begins_a_wait_and_no_spin_time() {
    let mut without = Thread::new();
    without.idler.idle(without.now);
    without.idler.brought(without.now + SPIN / 2);
    assert_eq!(without.idler.idle(without.now + SPIN / 2), Step::Poll);
    assert_eq!(without.idler.idle(without.now + SPIN), Step::Sleep);
    let mut with = Thread::new().short_waits(SHORT_WAITS);
    with.idler.idle(with.now);
    with.idler.brought(with.now + SPIN);
    assert_eq!(with.idler.idle(with.now + SPIN), Step::Poll);
}

#[test]
fn others_that_do_not_give_the_core_back_cost_no_more_than_their_part() {
    let mut thread = Thread::new().short_waits(SHORT_WAITS);
    let (begun, slice) = (thread.now, Duration::from_millis(3));
    thread.idler.idle(begun);
    thread.idler.yielded(begun, begun + slice);
    thread.now = begun + slice;
    thread.idler.found(thread.now);
    assert_eq!(thread.idler.idle(thread.now), Step::Poll, "it did not wait for them");
    let mut thread = thread.short_waits(SHORT_WAITS);
    assert_eq!(thread.wait(SPIN_MAX / 2), (SPIN, true), "it is paid for");
    thread.now = begun + slice * (1 + PAUSE_PER_LOSS);
    assert_eq!(thread.wait(SPIN_MAX / 2), (SPIN_MAX / 2, false));
}

#[test]
fn a_most_that_is_no_more_than_the_spin_time_switches_bets_off() {
    let mut thread = Thread::new();
    thread.idler = Idler::new(Idle::Block, SPIN, SPIN);
    for _ in 0..=SHORT_WAITS {
        thread.wait(SPIN / 2);
    }
    assert_eq!(thread.idler.idle(thread.now + ALONE), Step::Poll);
    assert_eq!(thread.idler.idle(thread.now + ALONE * 2), Step::Poll, "it does not look for others");
    assert_eq!(thread.wait(SPIN * 2), (SPIN + ALONE, true));
}

#[test]
fn other_policies_make_no_bets() {
    for (policy, step) in [(Idle::Yield, Step::Yield), (Idle::Spin, Step::Poll)] {
        let mut thread = Thread::new();
        thread.idler = Idler::new(policy, SPIN, SPIN_MAX);
        let mut thread = thread.short_waits(SHORT_WAITS);
        let begun = thread.now;
        assert_eq!(thread.idler.idle(begun), Step::Poll);
        assert_eq!(thread.idler.idle(begun + ALONE), Step::Poll);
        assert_eq!(thread.idler.idle(begun + SPIN_MAX * 2), step);
        assert!(thread.idler.of_callers().is_none());
    }
}
