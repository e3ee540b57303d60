//! What happens when nothing happens.
//!
//! Packets do not move timers: a slot counts the ticks since it last heard something. One tick serves all slots of all
//! sessions, and none is due while nobody waits.

use crate::Instant;
use crate::wire::CallKey;

use super::Basic;
use super::caller::CallerState;
use super::channel::{Channel, continue_sending};
use super::ready::{Ready, Side};
use super::server::ServerState;
use super::upkeep::Owed;

/// How long a result that the caller has is left unacknowledged, in the hope of a next request to do it.
const ACKNOWLEDGE_TICKS: u8 = 4;

/// How long a result is kept before the caller is reminded of it by sending it again.
const REMIND_TICKS: u8 = 16;

impl<B: AsRef<[u8]>> Basic<B> {
    #[cold]
    pub(super) fn tick(&mut self, now: Instant) {
        let mut any_awake = false;
        for channel in self.channels.iter_mut().flatten().filter(|channel| channel.awake) {
            let round_trip = u128::from(self.sessions.round_trip_nanos(channel.id));
            let base_ticks = 2 * round_trip / self.resend_interval.as_nanos().max(1) + 1;
            channel.awake = channel.tick(base_ticks.min(u128::from(u8::MAX)) as u8, &mut self.ready);
            any_awake |= channel.awake;
        }
        self.tick_at = if any_awake { now + self.resend_interval } else { Instant::NEVER };
    }
}

impl<B: AsRef<[u8]>> Channel<B> {
    /// Lets a tick pass in every slot. False when none waits for the next.
    fn tick(&mut self, base_ticks: u8, ready: &mut Ready) -> bool {
        let mut waits = false;
        for slot in 0..self.callers.len() as u16 {
            waits |= self.tick_caller(slot, base_ticks, ready);
        }
        for slot in 0..self.servers.len() as u16 {
            waits |= self.tick_server(slot, base_ticks, ready);
        }
        waits
    }

    fn tick_caller(&mut self, slot: u16, base_ticks: u8, ready: &mut Ready) -> bool {
        let reference = self.reference(slot, Side::Caller);
        let caller = &mut self.callers[usize::from(slot)];
        match caller.state {
            CallerState::Idle | CallerState::Waiting => return false,
            // What is still queued here is not the peer's silence.
            CallerState::Requesting | CallerState::Receiving(_) if caller.upkeep.data_queued() => {}
            CallerState::Requesting => {
                if caller.upkeep.ask_after_tick(base_ticks) {
                    let cut = &self.route.cut;
                    if caller.request.length() <= cut.whole_bytes_max {
                        // As cheap as a question, and it saves a round trip.
                        continue_sending(reference, &mut caller.request, &mut caller.upkeep, cut, ready);
                    } else {
                        ready.owe(reference, &mut caller.upkeep, Owed::RESEND);
                    }
                }
            }
            CallerState::Receiving(_) => {
                if caller.upkeep.ask_after_tick(base_ticks) {
                    ready.owe(reference, &mut caller.upkeep, Owed::RESEND);
                }
            }
            CallerState::Done => {
                if caller.upkeep.quiet_for(ACKNOWLEDGE_TICKS) {
                    let key = CallKey::new(slot, caller.sequence);
                    caller.settle();
                    self.owe_acknowledge(key, ready);
                    return false;
                }
            }
        }
        true
    }

    fn tick_server(&mut self, slot: u16, base_ticks: u8, ready: &mut Ready) -> bool {
        let reference = self.reference(slot, Side::Server);
        let server = &mut self.servers[usize::from(slot)];
        match server.state {
            // The caller asks, if anybody.
            ServerState::Forgotten | ServerState::Expected | ServerState::Running => return false,
            ServerState::Receiving(_) => {
                if server.upkeep.ask_after_tick(base_ticks) {
                    ready.owe(reference, &mut server.upkeep, Owed::RESEND);
                }
            }
            ServerState::Answered if server.upkeep.data_queued() => {}
            ServerState::Answered => {
                if server.upkeep.quiet_for(base_ticks.saturating_mul(2).max(REMIND_TICKS)) {
                    let cut = &self.route.cut;
                    server.response.repeat(0, cut.fragment_bytes, cut);
                    continue_sending(reference, &mut server.response, &mut server.upkeep, cut, ready);
                }
            }
        }
        true
    }

    /// Plans to tell the server that a call is over here. What finds no room is planned again when it asks.
    pub(super) fn owe_acknowledge(&mut self, key: CallKey, ready: &mut Ready) {
        if self.acknowledged.len() >= self.callers.len() {
            return;
        }
        if self.acknowledged.is_empty() {
            ready.acknowledging.push_back(self.id.index() as u16);
        }
        self.acknowledged.push(key);
    }
}
