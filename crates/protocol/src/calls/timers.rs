//! What happens when nothing happens.
//!
//! Packets do not move timers: a slot counts the ticks since it last heard something. One tick serves all
//! slots that wait, of all sessions, and none is due while no slot waits: neither idle sessions nor idle
//! slots cost anything.
//!
//! A result waits for its caller's acknowledgement. The caller is reminded of it, but only when anything was
//! heard from it since it was last reminded of any: a silent peer is sent nothing, and a peer that says
//! something no more than it said. Nothing is stored for longer than the caller is silent about it for
//! [`SessionConfig::keep_time`](crate::session::SessionConfig::keep_time).

use core::time::Duration;

use crate::wire::CallKey;
use farcall_base::Instant;
use farcall_base::canary::{self, Rule};
use farcall_base::{Random, seed_of_stream};

use super::Calls;
use super::assembly::Assembly;
use super::caller::CallerState;
use super::channel::Channel;
use super::event::Counters;
use super::policy::Policy;
use super::ready::{Ready, Side, SlotRef};
use super::server::{ServerSlot, ServerState};
use super::upkeep::{Control, PATIENCE_MAX_TICKS};
use super::window::Window;

/// How long a result that the caller has is left unacknowledged, in the hope of a next request to do it.
const ACKNOWLEDGE_TICKS: u8 = 4;

/// How long a result is kept before the caller is reminded of it.
const REMIND_TICKS: u8 = 16;

impl<B: AsRef<[u8]>, P: Policy> Calls<B, P> {
    /// Lets a tick pass for what waits for it, and for nothing else: a session of which no slot waits is not
    /// looked at.
    #[cold]
    pub(super) fn tick(&mut self, now: Instant) {
        self.policy.tick();
        self.counters.ticks += 1;
        core::mem::swap(&mut self.ready.awake, &mut self.ticked);
        // One that came to the place of another is in the list twice.
        let channels = &mut self.channels;
        self.ticked.retain(|index| {
            let channel = channels[usize::from(*index)].as_deref_mut();
            channel.is_some_and(|channel| core::mem::take(&mut channel.awake))
        });
        // Those that wait on are added to the other list.
        for place in 0..self.ticked.len() {
            self.tick_session(self.ticked[place], now);
        }
        self.ticked.clear();
        self.tick_at = if self.ready.awake.is_empty() { Instant::NEVER } else { now + self.resend_interval };
    }

    fn tick_session(&mut self, index: u16, now: Instant) {
        let Some(channel) = self.channels[usize::from(index)].as_deref_mut() else { return };
        let round_trip = self.sessions.round_trip_nanos(channel.id).max(channel.window.round_trip_nanos());
        let base_ticks = base_ticks(round_trip, channel.window.longest_round_nanos(), self.resend_interval);
        let heard_at = self.sessions.heard_at(channel.id);
        let pace = Pace {
            base_ticks,
            keep_ticks: self.keep_ticks,
            tick_nanos: (self.resend_interval.as_nanos() as u64).max(1),
            may_remind: heard_at > channel.reminded_at,
            now,
            seed: seed_of_stream(channel.route.remote.0, self.counters.ticks),
        };
        channel.tick(pace, &mut self.ready, &mut self.policy, &mut self.counters);
        self.budget.follow(channel);
    }
}

/// The silence in which an answer may be on its way, in ticks: two round trips, or as long as pieces may wait
/// behind others, which delays no question by more than some without news do.
fn base_ticks(round_trip_nanos: u64, longest_round_nanos: u64, interval: Duration) -> u8 {
    let interval_nanos = interval.as_nanos().max(1);
    let in_queues = (u128::from(longest_round_nanos) / interval_nanos).min(u128::from(PATIENCE_MAX_TICKS));
    let ticks = (2 * u128::from(round_trip_nanos) / interval_nanos).max(in_queues) + 1;
    ticks.min(u128::from(u8::MAX)) as u8
}

/// What a tick means to the slots of one session.
#[derive(Clone, Copy)]
struct Pace {
    /// What the round trip alone takes.
    base_ticks: u8,
    /// After how many without a word from the peer a result, or a part of a request, is dropped.
    keep_ticks: u32,
    /// The time from tick to tick.
    tick_nanos: u64,
    /// Whether the peer was heard since it was last reminded of a result.
    may_remind: bool,
    now: Instant,
    /// Another one for each session and tick.
    seed: u64,
}

impl Pace {
    /// What the round trip takes, and the turns of messages that the sender of this one prefers.
    fn ticks_of(&self, message: &Assembly, window: &Window) -> u8 {
        let ticks = u8::try_from(window.turn_nanos(message) / self.tick_nanos).unwrap_or(u8::MAX);
        self.base_ticks.saturating_add(ticks)
    }

    /// Another number for each slot.
    fn drawn(&self, slot: SlotRef) -> u64 {
        Random::new(seed_of_stream(self.seed, slot.slot.into())).bits()
    }

    /// A message waited for that many ticks in silence, and is asked for now.
    fn note_silence(&self, ticks: u8, counters: &mut Counters) {
        counters.silences += 1;
        counters.silence_nanos += u64::from(ticks) * self.tick_nanos;
    }
}

impl<B: AsRef<[u8]>, P: Policy> Channel<B, P> {
    /// The slot waits for ticks from now on, until one finds that it does not any more.
    #[inline]
    pub(super) fn wake(&mut self, slot: SlotRef, ready: &mut Ready) {
        let place = usize::from(slot.slot);
        let upkeep = match slot.side {
            Side::Caller => &mut self.callers[place].upkeep,
            Side::Server => &mut self.servers[place].upkeep,
        };
        if !core::mem::replace(&mut upkeep.awake, true) {
            self.wake_session(slot, ready);
        }
    }

    fn wake_session(&mut self, slot: SlotRef, ready: &mut Ready) {
        self.ticking.push(slot);
        if !core::mem::replace(&mut self.awake, true) {
            ready.awake.push(self.id.index() as u16);
        }
    }

    /// Lets a tick pass in every slot that waits for it.
    fn tick(&mut self, mut pace: Pace, ready: &mut Ready, policy: &mut P, counters: &mut Counters) {
        self.window.tick();
        self.tick_questions(pace.base_ticks, ready);
        let mut place = 0;
        while let Some(&slot) = self.ticking.get(place) {
            counters.slots_ticked += 1;
            let waits = match slot.side {
                Side::Caller => self.tick_caller(slot, &pace, ready, policy, counters),
                Side::Server => self.tick_server(slot, &mut pace, ready, policy, counters),
            };
            if waits {
                place += 1;
                continue;
            }
            self.ticking.swap_remove(place);
            if let Some(upkeep) = self.upkeep(slot) {
                upkeep.awake = false;
            }
        }
        if !self.ticking.is_empty() && !core::mem::replace(&mut self.awake, true) {
            ready.awake.push(self.id.index() as u16);
        }
    }

    fn tick_caller(
        &mut self,
        slot: SlotRef,
        pace: &Pace,
        ready: &mut Ready,
        policy: &mut P,
        counters: &mut Counters,
    ) -> bool {
        let caller = &mut self.callers[usize::from(slot.slot)];
        match caller.state {
            CallerState::Idle | CallerState::Waiting => return false,
            // What is still queued here is not the peer's silence.
            CallerState::Requesting | CallerState::Receiving(_) if caller.request.is_due() => {}
            // Nor is what we have not granted.
            CallerState::Receiving(ref response) if response.is_withheld() => {}
            CallerState::Requesting | CallerState::Receiving(_) => {
                let base_ticks = match &caller.state {
                    CallerState::Receiving(response) => pace.ticks_of(response, &self.window),
                    _ => pace.base_ticks,
                };
                if let Some(ticks) = caller.upkeep.ask_after_tick(base_ticks, || pace.drawn(slot)) {
                    pace.note_silence(ticks, counters);
                    self.wants_to_ask(slot, ready, policy);
                }
            }
            CallerState::Done => {
                if caller.upkeep.quiet_for(ACKNOWLEDGE_TICKS) && !canary::leaves_out(Rule::SettledCalls) {
                    caller.upkeep.quiet_again();
                    let key = CallKey::new(slot.slot, caller.sequence);
                    caller.settle();
                    self.queue_acknowledge(key, ready);
                    return false;
                }
            }
        }
        true
    }

    fn tick_server(
        &mut self,
        slot: SlotRef,
        pace: &mut Pace,
        ready: &mut Ready,
        policy: &mut P,
        counters: &mut Counters,
    ) -> bool {
        let server = &mut self.servers[usize::from(slot.slot)];
        match server.state {
            // The caller asks, if anybody.
            ServerState::Forgotten | ServerState::Expected | ServerState::Running => return false,
            ServerState::Receiving(ref request) => {
                let is_withheld = request.is_withheld();
                let base_ticks = pace.ticks_of(request, &self.window);
                if server.upkeep.abandoned_after(pace.keep_ticks) {
                    counters.requests_abandoned += 1;
                    if let Some(request) = self.release_server(slot.slot, ServerSlot::expect_again) {
                        self.message_over(slot, &request, policy);
                    }
                    return false;
                }
                // What we have not granted is not the peer's silence, but it asks for that: see
                // `response_wanted`.
                let drawn = || pace.drawn(slot);
                if !is_withheld && let Some(ticks) = server.upkeep.ask_after_tick(base_ticks, drawn) {
                    pace.note_silence(ticks, counters);
                    self.wants_to_ask(slot, ready, policy);
                }
            }
            ServerState::Answered if server.response.is_due() => {}
            ServerState::Answered => {
                if server.upkeep.abandoned_after(pace.keep_ticks) {
                    counters.results_abandoned += 1;
                    let nothing = self.release_server(slot.slot, ServerSlot::forget);
                    debug_assert!(nothing.is_none(), "an answered request is not under construction");
                    return false;
                }
                let remind_ticks = pace.base_ticks.saturating_mul(2).max(REMIND_TICKS);
                if server.upkeep.quiet_for(remind_ticks) && core::mem::take(&mut pace.may_remind) {
                    server.upkeep.quiet_again();
                    ready.add_control(slot, &mut server.upkeep, Control::NEED_ACKNOWLEDGE);
                    self.reminded_at = pace.now;
                }
            }
        }
        true
    }

    /// Plans to tell the server that a call is over here. What finds no room is planned again when it asks.
    pub(super) fn queue_acknowledge(&mut self, key: CallKey, ready: &mut Ready) {
        if self.acknowledged.len() >= self.callers.len() {
            return;
        }
        if self.acknowledged.is_empty() {
            ready.queue_acknowledging(self.id.index() as u16);
        }
        self.acknowledged.push(key);
    }
}
