//! What happens when nothing happens.
//!
//! Packets do not move timers: a slot counts the ticks since it last heard something. One tick serves all
//! slots of all sessions, and none is due while nobody waits.

use crate::wire::CallKey;
use farcall_base::Instant;

use super::Calls;
use super::caller::CallerState;
use super::channel::Channel;
use super::policy::Policy;
use super::ready::{Ready, Side, continue_sending};
use super::server::ServerState;
use super::upkeep::Control;

/// How long a result that the caller has is left unacknowledged, in the hope of a next request to do it.
const ACKNOWLEDGE_TICKS: u8 = 4;

/// How long a result is kept before the caller is reminded of it.
const REMIND_TICKS: u8 = 16;

impl<B: AsRef<[u8]>, P: Policy> Calls<B, P> {
    #[cold]
    pub(super) fn tick(&mut self, now: Instant) {
        self.policy.tick();
        let mut any_awake = false;
        for channel in self.channels.iter_mut().flatten().filter(|channel| channel.awake) {
            let round_trip = u128::from(self.sessions.round_trip_nanos(channel.id));
            let base_ticks = 2 * round_trip / self.resend_interval.as_nanos().max(1) + 1;
            let base_ticks = base_ticks.min(u128::from(u8::MAX)) as u8;
            channel.awake = channel.tick(base_ticks, &mut self.ready, &mut self.policy);
            any_awake |= channel.awake;
        }
        self.tick_at = if any_awake { now + self.resend_interval } else { Instant::NEVER };
    }
}

impl<B: AsRef<[u8]>, P: Policy> Channel<B, P> {
    /// Lets a tick pass in every slot. False when none waits for the next.
    fn tick(&mut self, base_ticks: u8, ready: &mut Ready, policy: &mut P) -> bool {
        let mut waits = false;
        self.tick_questions(base_ticks, ready);
        for slot in 0..self.callers.len() as u16 {
            waits |= self.tick_caller(slot, base_ticks, ready, policy);
        }
        for slot in 0..self.servers.len() as u16 {
            waits |= self.tick_server(slot, base_ticks, ready, policy);
        }
        waits
    }

    fn tick_caller(&mut self, slot: u16, base_ticks: u8, ready: &mut Ready, policy: &mut P) -> bool {
        let reference = self.reference(slot, Side::Caller);
        let caller = &mut self.callers[usize::from(slot)];
        match caller.state {
            CallerState::Idle | CallerState::Waiting => return false,
            // What is still queued here is not the peer's silence.
            CallerState::Requesting | CallerState::Receiving(_) if caller.request.is_due() => {}
            // Nor is what we have not granted.
            CallerState::Receiving(ref response) if response.is_withheld() => {}
            CallerState::Requesting | CallerState::Receiving(_) => {
                if caller.upkeep.ask_after_tick(base_ticks) {
                    self.wants_to_ask(reference, ready, policy);
                }
            }
            CallerState::Done => {
                if caller.upkeep.quiet_for(ACKNOWLEDGE_TICKS) {
                    let key = CallKey::new(slot, caller.sequence);
                    caller.settle();
                    self.queue_acknowledge(key, ready);
                    return false;
                }
            }
        }
        true
    }

    fn tick_server(&mut self, slot: u16, base_ticks: u8, ready: &mut Ready, policy: &mut P) -> bool {
        let reference = self.reference(slot, Side::Server);
        let server = &mut self.servers[usize::from(slot)];
        match server.state {
            // The caller asks, if anybody.
            ServerState::Forgotten | ServerState::Expected | ServerState::Running => return false,
            ServerState::Receiving(ref request) if request.is_withheld() => {}
            ServerState::Receiving(_) => {
                if server.upkeep.ask_after_tick(base_ticks) {
                    self.wants_to_ask(reference, ready, policy);
                }
            }
            ServerState::Answered if server.response.is_due() => {}
            ServerState::Answered => {
                if server.upkeep.quiet_for(base_ticks.saturating_mul(2).max(REMIND_TICKS)) {
                    if P::ASKS_FOR_ACKNOWLEDGEMENT {
                        ready.add_control(reference, &mut server.upkeep, Control::NEED_ACKNOWLEDGE);
                        return true;
                    }
                    let (cut, response) = (&self.route.cut, &mut server.response);
                    response.repeat(0, cut.fragment_bytes, policy.resend_priority(), cut);
                    continue_sending::<B, P>(reference, response, &mut server.upkeep, cut, ready);
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
