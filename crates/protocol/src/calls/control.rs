//! Control packets of slots: grants, requests for missing bytes, acknowledgements.

use crate::wire::{CallKey, Flags, Head, Opcode, put_bare, put_grant, put_resend};

use super::caller::CallerState;
use super::channel::Channel;
use super::event::Counters;
use super::policy::Policy;
use super::ready::{Side, SlotRef};
use super::server::ServerState;
use super::upkeep::Control;

impl<B: AsRef<[u8]>, P: Policy> Channel<B, P> {
    /// Writes one of the control packets of a slot. False when it has none any more. The slot's mark
    /// of being queued stays when there is more to write.
    pub(super) fn put_control(
        &mut self,
        slot: SlotRef,
        head: &mut Head,
        policy: &P,
        counters: &mut Counters,
    ) -> bool {
        let Some((_, upkeep, key)) = self.sending_mut(slot) else { return false };
        let mut control = core::mem::take(&mut upkeep.control);
        let mut written = false;
        while !written && let Some(one) = control.take_first() {
            written = self.put_packet(one, slot, key, head, (policy, counters));
        }
        if let Some(upkeep) = self.upkeep(slot) {
            upkeep.control = control;
            upkeep.control_queued = written && !control.is_empty();
        }
        written
    }

    /// Writes a control packet of the given kind, unless the call has moved on and does not need it any more.
    fn put_packet(
        &mut self,
        one: Control,
        slot: SlotRef,
        key: CallKey,
        head: &mut Head,
        (policy, counters): (&P, &mut Counters),
    ) -> bool {
        let (flags, remote) = (self.route.flags(slot.side), self.route.remote);
        let asking = flags.with_argument(policy.resend_priority());
        match one {
            Control::GRANT => {
                let Some((message, window)) = self.arriving_mut(slot) else { return false };
                counters.grants_sent += 1;
                put_grant(head, flags.with_argument(message.priority()), remote, key, message.granted());
                window.granted(slot, message.tell());
            }
            Control::RESEND => {
                let misses = self.put_missing(slot, key, asking, head);
                counters.resends_sent += u64::from(misses);
                if let Some((message, _)) = self.arriving_mut(slot) {
                    message.asked();
                }
                return misses;
            }
            Control::RESTART => {
                counters.restarts_sent += 1;
                let everything = [(0, self.route.cut.unscheduled_bytes)];
                put_resend(head, asking.with(Flags::RESTART), remote, key, everything);
            }
            Control::NEED_ACKNOWLEDGE => {
                let kept = self.servers.get(usize::from(slot.slot));
                if !kept.is_some_and(|server| matches!(server.state, ServerState::Answered)) {
                    return false;
                }
                counters.acknowledges_asked += 1;
                put_bare(head, Opcode::NeedAcknowledge, flags, remote, key);
            }
            _ => {
                counters.busy_sent += 1;
                put_bare(head, Opcode::Busy, flags, remote, key);
            }
        }
        true
    }

    /// Asks for what is missing of the message that a slot receives; of one that has not begun, for its
    /// start.
    fn put_missing(&self, slot: SlotRef, key: CallKey, flags: Flags, head: &mut Head) -> bool {
        let remote = self.route.remote;
        let place = usize::from(slot.slot);
        match slot.side {
            Side::Caller => match &self.callers[place].state {
                CallerState::Receiving(response) if response.missing().next().is_none() => return false,
                CallerState::Receiving(response) => put_resend(head, flags, remote, key, response.missing()),
                CallerState::Requesting => {
                    put_resend(head, flags, remote, key, [(0, self.route.cut.unscheduled_bytes)]);
                }
                CallerState::Idle | CallerState::Waiting | CallerState::Done => return false,
            },
            Side::Server => match &self.servers[place].state {
                ServerState::Receiving(request) if request.missing().next().is_some() => {
                    put_resend(head, flags, remote, key, request.missing());
                }
                _ => return false,
            },
        }
        true
    }
}
