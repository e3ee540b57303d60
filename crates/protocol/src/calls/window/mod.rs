//! How much may be in flight towards this side in one session: as much as its path carries in a round trip.
//!
//! A receiver permits what its peer sends, so it can also measure what became of it. A *round* begins when a
//! grant leaves and ends with the first piece that only this grant permitted. Its time is a round trip; what
//! came meanwhile, by its time, is the rate at which the path delivers. The window is [`GAIN`] times the
//! highest rate of late rounds times the shortest round trip of late (Cardwell et al., "BBR: congestion-based
//! congestion control", ACM Queue 2016). While the window is what limits, it doubles with each round; where
//! the path does, it stays at twice what the path holds. Lost pieces lower the window only when they are too
//! many for chance.
//!
//! A window is never less than what a message may send unasked. `basic` takes off the part of it that is lost
//! of late where that is too much for chance: a queue that does not hold so much would lose the same again.
//! Grants beyond that are paced, so that a sender does not give a whole window to the path at once.

mod losses;
mod pace;
mod rounds;

use farcall_base::Instant;

use super::assembly::Assembly;
use super::ready::SlotRef;
use losses::Losses;
use pace::Pace;
use rounds::Rounds;

/// The window holds this many times what the path holds: another flow's queue may make the round trip longer
/// than the shortest one by as much, and the rate can double in a round.
const GAIN: u64 = 2;

/// Ticks without any piece after which what is on its way is lost; the first can come right after one.
const QUIET_TICKS: u8 = 2;

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// What the sums of a session have of one message, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    outstanding: u32,
    missing: u32,
}

/// The window of one session, as its receiver keeps it.
#[derive(Debug)]
pub struct Window {
    bytes_max: u32,
    /// What was last known of the time; no later than the packet that is being handled.
    now: Instant,
    /// How long the handshake took; 0 where that is not known.
    handshake_nanos: u64,
    /// From the first long message on: most sessions have none.
    path: Option<Box<Path>>,
}

/// What long messages show of the path that they come by.
#[derive(Debug)]
struct Path {
    rounds: Rounds,
    losses: Losses,
    pace: Pace,
    /// What was permitted of them and is not here.
    outstanding: u64,
    /// All that is not here of them, permitted or not.
    missing: u64,
    /// Long messages that arrive.
    messages: u32,
    /// Ticks since the last piece came.
    quiet_ticks: u8,
    /// Messages that wait for the pace.
    paced: Vec<SlotRef>,
}

impl Path {
    fn new(handshake_nanos: u64) -> Self {
        Self {
            rounds: Rounds::new(handshake_nanos),
            losses: Losses::default(),
            pace: Pace::default(),
            outstanding: 0,
            missing: 0,
            messages: 0,
            quiet_ticks: 0,
            paced: Vec::new(),
        }
    }

    fn bytes(&self, bytes_max: u32) -> u32 {
        let held = self.rounds.bytes_held().saturating_mul(GAIN);
        let window = u32::try_from(held).unwrap_or(u32::MAX).min(bytes_max);
        window.min(self.losses.bytes_max())
    }

    /// Takes a message out of the sums.
    fn forget(&mut self, message: &Assembly) {
        self.outstanding -= u64::from(message.counted.outstanding);
        self.missing -= u64::from(message.counted.missing);
    }

    /// See [`Window::turn_nanos`].
    fn turn_nanos(&self, message: &Assembly) -> u64 {
        let rate = self.rounds.rate();
        if rate == 0 || self.quiet_ticks >= QUIET_TICKS {
            return 0;
        }
        let others = u64::from(self.messages.saturating_sub(1));
        let before = (others * u64::from(message.total() - message.received())).min(self.missing);
        u64::try_from(u128::from(before) * NANOS_PER_SECOND / u128::from(rate)).unwrap_or(u64::MAX)
    }
}

impl Window {
    /// Of a session whose handshake took `handshake_nanos`, or 0 where that is not known. With `bytes_max` of
    /// 0 nothing is measured, and no piece is asked for before its time.
    pub(super) fn new(bytes_max: u32, handshake_nanos: u64) -> Self {
        Self { bytes_max, now: Instant::ZERO, handshake_nanos, path: None }
    }

    fn path(&mut self) -> &mut Path {
        self.path.get_or_insert_with(|| Box::new(Path::new(self.handshake_nanos)))
    }

    /// How much may be in flight in the session, in bytes; 0 before anything is known.
    pub fn bytes(&self) -> u32 {
        self.path.as_ref().map_or(0, |path| path.bytes(self.bytes_max))
    }

    /// The part of it that is due to each of the messages that arrive.
    pub fn share_bytes(&self) -> u32 {
        self.path.as_ref().map_or(0, |path| path.bytes(self.bytes_max) / path.messages.max(1))
    }

    /// How much of a message may be in flight whatever was measured: the `unasked` bytes that it begins with,
    /// less what is lost of late where that is more than chance loses.
    pub fn least_bytes(&self, unasked: u32) -> u32 {
        self.path.as_ref().map_or(unasked, |path| path.losses.left_of(unasked))
    }

    /// How much of it is not in use.
    pub fn room_bytes(&self) -> u32 {
        let outstanding = self.path.as_ref().map_or(0, |path| path.outstanding);
        u32::try_from(u64::from(self.bytes()).saturating_sub(outstanding)).unwrap_or(u32::MAX)
    }

    /// Brings the sums of what is on its way, and of what is missing, up to date with one message.
    pub(super) fn count(&mut self, message: &mut Assembly) {
        let now = Counted {
            outstanding: message.granted() - message.received(),
            missing: message.total() - message.received(),
        };
        let path = self.path();
        path.forget(message);
        path.outstanding += u64::from(now.outstanding);
        path.missing += u64::from(now.missing);
        message.counted = now;
    }

    /// How long a message may have to wait until its sender comes to it, which prefers those with fewer bytes
    /// to go: none of these has more to go than this one, and all together no more than is missing. While
    /// nothing comes at all it waits for nobody.
    pub(super) fn turn_nanos(&self, message: &Assembly) -> u64 {
        self.path.as_ref().map_or(0, |path| path.turn_nanos(message))
    }

    /// The shortest round trip; 0 before a round in which nothing was lost.
    pub(super) fn round_trip_nanos(&self) -> u64 {
        self.path.as_ref().map_or(0, |path| path.rounds.clean_nanos())
    }

    /// How long pieces may take from their grant to here, with whatever they wait for on the way; 0 before
    /// the first round.
    pub(super) fn longest_round_nanos(&self) -> u64 {
        self.path.as_ref().map_or(0, |path| path.rounds.longest_nanos())
    }

    /// A message is asked for because nothing of it comes, of which this many bytes are on their way.
    pub(super) fn silent(&mut self, in_flight: u32) {
        let bytes_max = self.bytes_max;
        let path = self.path();
        path.rounds.spoil();
        let window = path.bytes(bytes_max);
        if window > 0 && in_flight > window / 2 && path.quiet_ticks >= QUIET_TICKS {
            path.losses.collapse();
        }
    }

    /// A tick passes.
    pub(super) fn tick(&mut self) {
        if let Some(path) = &mut self.path {
            path.quiet_ticks = path.quiet_ticks.saturating_add(1);
        }
    }

    /// The time is `now`.
    #[inline]
    pub(super) fn at(&mut self, now: Instant) {
        self.now = now;
    }

    /// A long message begins to arrive.
    pub(super) fn began(&mut self) {
        self.path().messages += 1;
    }

    /// A long message is complete, or is not waited for any more.
    pub(super) fn ended(&mut self, slot: SlotRef, message: &Assembly) {
        let path = self.path();
        path.forget(message);
        path.messages -= 1;
        path.rounds.drop_of(slot);
        path.paced.retain(|paced| *paced != slot);
    }

    /// A grant leaves that permits what lies behind `told`, all that was permitted before.
    pub(super) fn granted(&mut self, slot: SlotRef, told: u32) {
        let now = self.now;
        self.path().rounds.begin(slot, told, now);
    }

    /// A new piece came. Whether it was sent before says `repeated`.
    pub(super) fn came(&mut self, slot: SlotRef, offset: u32, bytes: u32, repeated: bool) {
        let now = self.now;
        let path = self.path();
        path.quiet_ticks = 0;
        path.losses.came(repeated);
        path.rounds.came(bytes);
        if repeated {
            path.rounds.spoil();
        }
        if path.rounds.is_ended_by(slot, offset, repeated, now) {
            path.pace.follow(path.rounds.rate(), path.rounds.is_growing());
            let window = u32::try_from(path.rounds.bytes_held().saturating_mul(GAIN)).unwrap_or(u32::MAX);
            path.losses.judge(window);
        }
    }

    /// Pieces did not come that were sent before some that did.
    pub(super) fn spoil(&mut self) {
        self.path().rounds.spoil();
    }

    /// Whether the path is measured, and no more is lost than by chance.
    pub(super) fn loses_by_chance(&self) -> bool {
        self.bytes_max > 0 && self.path.as_ref().is_none_or(|path| path.losses.are_by_chance())
    }

    /// How many of `wanted` bytes may be granted now. The message in `slot` waits for the others until
    /// [`Window::paced_until`].
    pub fn take(&mut self, slot: SlotRef, wanted: u32) -> u32 {
        let now = self.now;
        let path = self.path();
        let taken = path.pace.take(wanted, now);
        if taken < wanted && !path.paced.contains(&slot) {
            path.paced.push(slot);
        }
        taken
    }

    /// Until when messages wait for the pace.
    pub(super) fn paced_until(&self) -> Option<Instant> {
        let path = self.path.as_ref().filter(|path| !path.paced.is_empty());
        path.map(|path| path.pace.ready_at())
    }

    /// The messages that waited for the pace.
    pub(super) fn take_paced(&mut self) -> Vec<SlotRef> {
        self.path.as_mut().map(|path| core::mem::take(&mut path.paced)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::calls::ready::Side;
    use crate::calls::sending::Cut;
    use crate::calls::spares::Spares;

    const CUT: Cut = Cut { whole_bytes_max: 1000, fragment_bytes: 1000, unscheduled_bytes: 1000 };
    const SLOT: SlotRef = SlotRef { session: 0, slot: 0, side: Side::Server };

    /// A window over a path of 1 MB a second, and messages of these lengths that begin to arrive.
    fn arriving<const COUNT: usize>(lengths: [u32; COUNT]) -> (Window, [Box<Assembly>; COUNT]) {
        let mut window = Window::new(u32::MAX, 0);
        window.granted(SLOT, 0);
        window.at(Instant::ZERO + Duration::from_millis(10));
        window.came(SLOT, 0, 10_000, false);
        let messages = lengths.map(|length| {
            let mut message =
                Assembly::new(0, length, &CUT, &mut Spares::default()).expect("there is memory");
            window.began();
            window.count(&mut message);
            message
        });
        (window, messages)
    }

    #[test]
    fn a_message_waits_for_those_that_its_sender_prefers() {
        let (window, [shortest, short, _, longest]) = arriving([1000, 10_000, 10_000, 500_000]);
        let millis = |message| window.turn_nanos(message) / 1_000_000;
        assert_eq!(millis(&shortest), 3, "others may be as short");
        assert_eq!(millis(&short), 30);
        assert_eq!(millis(&longest), 521, "no more than all that is missing");
    }

    #[test]
    fn a_message_waits_for_no_other_where_nothing_comes() {
        let (mut window, [message, other]) = arriving([10_000, 10_000]);
        assert!(window.turn_nanos(&message) > 0);
        (0..QUIET_TICKS).for_each(|_| window.tick());
        assert_eq!(window.turn_nanos(&message), 0);
        window.came(SLOT, 0, 1000, false);
        assert!(window.turn_nanos(&message) > 0);
        window.ended(SLOT, &other);
        assert_eq!(window.turn_nanos(&message), 0, "it is the only one");
    }
}
