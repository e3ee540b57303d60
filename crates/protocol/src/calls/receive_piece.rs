//! What a new piece of a long message leads to while others are missing: a grant, and questions about what is
//! lost. Messages that wait for the pace of grants come by here again when it is their time.

use farcall_base::Instant;

use super::Calls;
use super::assembly::Assembly;
use super::channel::Channel;
use super::policy::Policy;
use super::ready::{Ready, Side, SlotRef};
use super::sending::Cut;
use super::upkeep::Control;
use super::window::Window;

/// A piece that was new.
pub(super) struct Arrival {
    pub(super) slot: SlotRef,
    pub(super) offset: u32,
    pub(super) bytes: u32,
    /// Whether it was sent before.
    pub(super) repeated: bool,
}

impl Assembly {
    /// Draws the consequences of a piece; what is to be sent for that.
    pub(super) fn follow<P: Policy>(
        &mut self,
        arrival: &Arrival,
        peer: &P::Peer,
        cut: &Cut,
        window: &mut Window,
        policy: &mut P,
    ) -> Control {
        let mut control = Control::default();
        let lost = self.find_lost(arrival.offset, arrival.repeated);
        if lost > 0 {
            window.spoil();
        }
        window.came(arrival.slot, arrival.offset, arrival.bytes, arrival.repeated);
        // Where a queue overflows, what is sent again at once is lost again: the timer asks, by lots.
        let asks = lost > 0 && window.loses_by_chance();
        if !asks {
            self.asked();
        }
        window.count(self);
        if policy.arrived(arrival.slot, peer, self, cut, window) {
            control.add(Control::GRANT);
        }
        window.count(self);
        if self.asks_on(arrival.offset) || asks {
            control.add(Control::RESEND);
        }
        control
    }
}

impl<B: AsRef<[u8]>, P: Policy> Calls<B, P> {
    /// Gives the grants that waited for their pace until now.
    pub(super) fn grant_paced(&mut self, now: Instant) {
        self.ready.paced_at = Instant::NEVER;
        for session in core::mem::take(&mut self.ready.paced) {
            if let Some(channel) = self.channels.get_mut(usize::from(session)).and_then(Option::as_deref_mut)
            {
                channel.window.at(now);
                channel.grant_paced(now, &mut self.ready, &mut self.policy);
            }
        }
    }
}

impl<B: AsRef<[u8]>, P: Policy> Channel<B, P> {
    fn grant_paced(&mut self, now: Instant, ready: &mut Ready, policy: &mut P) {
        if self.window.paced_until().is_some_and(|until| until <= now) {
            for slot in self.window.take_paced() {
                self.grant_again(slot, ready, policy);
            }
        }
        ready.note_pace(self.id.index() as u16, &self.window);
    }

    /// Has the policy look again at a message of which nothing new came.
    fn grant_again(&mut self, slot: SlotRef, ready: &mut Ready, policy: &mut P) {
        let place = usize::from(slot.slot);
        let (message, upkeep) = match slot.side {
            Side::Caller => match self.callers.get_mut(place) {
                Some(caller) => match &mut caller.state {
                    super::caller::CallerState::Receiving(message) => (message, &mut caller.upkeep),
                    _ => return,
                },
                None => return,
            },
            Side::Server => match self.servers.get_mut(place) {
                Some(server) => match &mut server.state {
                    super::server::ServerState::Receiving(message) => (message, &mut server.upkeep),
                    _ => return,
                },
                None => return,
            },
        };
        if policy.arrived(slot, &self.peer, message, &self.route.cut, &mut self.window) {
            self.window.count(message);
            ready.add_control(slot, upkeep, Control::GRANT);
        }
    }
}
