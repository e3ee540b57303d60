//! Rounds, and what the path is known to hold from them.

use core::time::Duration;

use farcall_base::Instant;

use crate::calls::ready::SlotRef;

/// The highest rate of this many rounds counts: as long as a rate that rises for a while is remembered.
const ROUNDS: usize = 10;

/// The shortest round trip counts for as long as this; then the window is lowered for two rounds, so that the
/// queue that it makes itself is not taken for the path.
const SHORTEST_FOR: Duration = Duration::from_secs(10);

/// Rounds of a lowered window: one in which the queue ends, and one that is measured.
const LOWERED_ROUNDS: u8 = 2;

/// The rate grows while a round delivers this much more than all before, in percent.
const GROWTH_PERCENT: u64 = 125;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// A grant on its way, and what it will bring.
#[derive(Clone, Copy, Debug)]
struct Round {
    slot: SlotRef,
    /// The first byte that the grant permits.
    from: u32,
    began: Instant,
    /// What had come before, in the session.
    received_before: u64,
    /// Whether something was lost meanwhile, so that its time says nothing of the round trip (Karn).
    is_spoilt: bool,
}

/// How long rounds take, queues included, as TCP reckons it (RFC 6298): smoothed, and by how much they
/// differ. Spoilt rounds count, since a piece that waits behind others is what this is about, and questions
/// about it would spoil its round.
#[derive(Debug, Default)]
struct Waits {
    smoothed_nanos: u64,
    deviation_nanos: u64,
}

impl Waits {
    fn learn(&mut self, nanos: u64) {
        if self.smoothed_nanos == 0 {
            (self.smoothed_nanos, self.deviation_nanos) = (nanos, nanos / 2);
            return;
        }
        let differs_nanos = self.smoothed_nanos.abs_diff(nanos);
        self.deviation_nanos = self.deviation_nanos - self.deviation_nanos / 4 + differs_nanos / 4;
        self.smoothed_nanos = self.smoothed_nanos - self.smoothed_nanos / 8 + nanos / 8;
    }

    fn longest_nanos(&self) -> u64 {
        self.smoothed_nanos.saturating_add(self.deviation_nanos.saturating_mul(4))
    }
}

/// What rounds said so far.
#[derive(Debug)]
pub(super) struct Rounds {
    round: Option<Round>,
    /// Bytes of long messages, in the session.
    received: u64,
    /// The last rates, in bytes a second.
    rates: [u64; ROUNDS],
    next_rate: usize,
    is_growing: bool,
    /// In nanoseconds; 0 when none is known.
    shortest_nanos: u64,
    shortest_at: Instant,
    /// The same of rounds in which nothing was lost.
    clean_nanos: u64,
    waits: Waits,
    /// How many rounds of a lowered window are still to come.
    lowered: u8,
}

impl Rounds {
    /// Nothing is known but the time of a handshake, if that is not 0.
    pub(super) fn new(round_trip_nanos: u64) -> Self {
        Self {
            round: None,
            received: 0,
            rates: [0; ROUNDS],
            next_rate: 0,
            is_growing: true,
            shortest_nanos: round_trip_nanos,
            shortest_at: Instant::ZERO,
            clean_nanos: 0,
            waits: Waits::default(),
            lowered: 0,
        }
    }

    /// Begins a round unless one has begun.
    pub(super) fn begin(&mut self, slot: SlotRef, from: u32, now: Instant) {
        if self.round.is_none() {
            self.round =
                Some(Round { slot, from, began: now, received_before: self.received, is_spoilt: false });
        }
    }

    /// Something was lost, or its sender is silent.
    pub(super) fn spoil(&mut self) {
        if let Some(round) = &mut self.round {
            round.is_spoilt = true;
        }
    }

    /// The message in `slot` is over, and a round of it too.
    pub(super) fn drop_of(&mut self, slot: SlotRef) {
        self.round = self.round.filter(|round| round.slot != slot);
    }

    /// Bytes came.
    pub(super) fn came(&mut self, bytes: u32) {
        self.received += u64::from(bytes);
    }

    /// Whether a new piece ends the round, and taught what it can teach. A piece that was sent before says
    /// nothing of when.
    pub(super) fn is_ended_by(&mut self, slot: SlotRef, offset: u32, repeated: bool, now: Instant) -> bool {
        let Some(round) = self.round.filter(|round| round.slot == slot && offset >= round.from) else {
            return false;
        };
        self.round = None;
        let nanos = now.since(round.began).as_nanos() as u64;
        if repeated || nanos == 0 {
            return false;
        }
        if !round.is_spoilt && (self.clean_nanos == 0 || nanos < self.clean_nanos) {
            self.clean_nanos = nanos;
        }
        self.waits.learn(nanos);
        self.learn_round_trip(nanos, now);
        self.learn_rate(self.received - round.received_before, nanos);
        true
    }

    /// What the path holds without a queue, in bytes; 0 when that is not known.
    pub(super) fn bytes_held(&self) -> u64 {
        if self.lowered > 0 {
            return 0;
        }
        let held = u128::from(self.rate()) * u128::from(self.shortest_nanos) / u128::from(NANOS_PER_SECOND);
        u64::try_from(held).unwrap_or(u64::MAX)
    }

    /// The highest rate of late, in bytes a second; 0 when none is known.
    pub(super) fn rate(&self) -> u64 {
        self.rates.iter().copied().max().unwrap_or(0)
    }

    /// Whether the last round was faster than all before.
    pub(super) fn is_growing(&self) -> bool {
        self.is_growing
    }

    /// The shortest of all rounds in which nothing was lost, in nanoseconds; 0 before the first.
    pub(super) fn clean_nanos(&self) -> u64 {
        self.clean_nanos
    }

    /// How long a round may take, with whatever its pieces wait for on the way, in nanoseconds; 0 before the
    /// first.
    pub(super) fn longest_nanos(&self) -> u64 {
        self.waits.longest_nanos()
    }

    fn learn_round_trip(&mut self, nanos: u64, now: Instant) {
        let is_measured = self.lowered == 1;
        self.lowered = self.lowered.saturating_sub(1);
        if self.shortest_nanos == 0 || nanos <= self.shortest_nanos || is_measured {
            (self.shortest_nanos, self.shortest_at) = (nanos, now);
        } else if self.shortest_at == Instant::ZERO {
            self.shortest_at = now;
        } else if self.lowered == 0 && now.since(self.shortest_at) > SHORTEST_FOR {
            self.lowered = LOWERED_ROUNDS;
        }
    }

    fn learn_rate(&mut self, bytes: u64, nanos: u64) {
        // A lowered window says nothing of the path's rate.
        if self.lowered > 0 {
            return;
        }
        let rate = u128::from(bytes) * u128::from(NANOS_PER_SECOND) / u128::from(nanos);
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        self.is_growing = u128::from(rate) * 100 >= u128::from(self.rate()) * u128::from(GROWTH_PERCENT);
        self.rates[self.next_rate] = rate;
        self.next_rate = (self.next_rate + 1) % ROUNDS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::ready::Side;

    const SLOT: SlotRef = SlotRef { session: 0, slot: 3, side: Side::Server };
    const ROUND_TRIP: Duration = Duration::from_millis(10);

    /// A round that takes a time and brings `bytes`.
    fn pass(rounds: &mut Rounds, now: &mut Instant, time: Duration, bytes: u32) -> bool {
        rounds.begin(SLOT, 1000, *now);
        rounds.came(bytes);
        *now += time;
        rounds.is_ended_by(SLOT, 1000, false, *now)
    }

    #[test]
    fn what_the_path_holds_is_its_rate_by_its_round_trip() {
        let (mut rounds, mut now) = (Rounds::new(0), Instant::ZERO);
        assert_eq!((rounds.rate(), rounds.bytes_held()), (0, 0));
        assert!(pass(&mut rounds, &mut now, ROUND_TRIP, 100_000));
        assert_eq!((rounds.rate(), rounds.bytes_held()), (10_000_000, 100_000));
        assert!(rounds.is_growing());
        // A queue makes rounds longer, and brings no more.
        assert!(pass(&mut rounds, &mut now, 2 * ROUND_TRIP, 200_000));
        assert_eq!(rounds.bytes_held(), 100_000);
        assert!(!rounds.is_growing());
    }

    #[test]
    fn a_rate_is_forgotten_after_ten_rounds() {
        let (mut rounds, mut now) = (Rounds::new(0), Instant::ZERO);
        pass(&mut rounds, &mut now, ROUND_TRIP, 100_000);
        for _ in 0..ROUNDS {
            pass(&mut rounds, &mut now, ROUND_TRIP, 10_000);
        }
        assert_eq!(rounds.rate(), 1_000_000);
    }

    #[test]
    fn pieces_of_others_and_repeated_ones_end_no_round() {
        let (mut rounds, now) = (Rounds::new(0), Instant::from_nanos(1));
        let other = SlotRef { slot: 4, ..SLOT };
        rounds.begin(SLOT, 1000, Instant::ZERO);
        assert!(!rounds.is_ended_by(other, 1000, false, now));
        assert!(!rounds.is_ended_by(SLOT, 999, false, now), "an older grant permitted it");
        assert!(!rounds.is_ended_by(SLOT, 1000, true, now));
        assert!(!rounds.is_ended_by(SLOT, 1000, false, now), "it is over");
        assert_eq!(rounds.rate(), 0);
    }

    #[test]
    fn a_spoilt_round_says_nothing_of_the_round_trip_without_losses() {
        let (mut rounds, mut now) = (Rounds::new(0), Instant::ZERO);
        rounds.begin(SLOT, 1000, now);
        rounds.spoil();
        now += ROUND_TRIP;
        assert!(rounds.is_ended_by(SLOT, 1000, false, now));
        assert_eq!(rounds.clean_nanos(), 0);
        pass(&mut rounds, &mut now, ROUND_TRIP, 1);
        assert_eq!(rounds.clean_nanos(), ROUND_TRIP.as_nanos() as u64);
    }

    #[test]
    fn rounds_that_wait_in_queues_may_take_as_long_again() {
        let (mut rounds, mut now) = (Rounds::new(0), Instant::ZERO);
        assert_eq!(rounds.longest_nanos(), 0);
        for round in 0..100 {
            // Every other one stands behind others of its sender, and is asked for meanwhile.
            rounds.begin(SLOT, 1000, now);
            rounds.spoil();
            pass(&mut rounds, &mut now, (1 + 4 * (round % 2)) * ROUND_TRIP, 100_000);
        }
        assert!(rounds.longest_nanos() > 5 * ROUND_TRIP.as_nanos() as u64);
        for _ in 0..100 {
            pass(&mut rounds, &mut now, ROUND_TRIP, 100_000);
        }
        assert!(rounds.longest_nanos() < 2 * ROUND_TRIP.as_nanos() as u64, "the queue is over");
    }

    #[test]
    fn the_window_is_lowered_when_the_shortest_round_trip_is_old() {
        let (mut rounds, mut now) = (Rounds::new(0), Instant::ZERO + ROUND_TRIP);
        pass(&mut rounds, &mut now, ROUND_TRIP, 100_000);
        let begun = now;
        while rounds.bytes_held() > 0 {
            assert!(now.since(begun) < 2 * SHORTEST_FOR, "it is never measured again");
            pass(&mut rounds, &mut now, 2 * ROUND_TRIP, 200_000);
        }
        // The path is longer now than it was.
        for _ in 0..LOWERED_ROUNDS {
            pass(&mut rounds, &mut now, 2 * ROUND_TRIP, 100_000);
        }
        assert_eq!(rounds.bytes_held(), 200_000);
    }
}
