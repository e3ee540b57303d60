//! The calls of one session, both ways.

use std::collections::TryReserveError;

use crate::session::{Link, PeerAddress, SessionId};
use crate::wire::{
    CallKey, FRAGMENT_HEADER_BYTES, Flags, Offer, SEQUENCE_MAX, WHOLE_HEADER_BYTES, WireSession,
};

use super::assembly::Assembly;
use super::caller::{CallerSlot, CallerState, FreeSlots};
use super::event::{CallError, Payload, ReplyTooLong};
use super::policy::Policy;
use super::questions::Questions;
use super::ready::{Ready, Side, SlotRef, start_sending};
use super::sending::Cut;
use super::server::{ServerSlot, ServerState};
use super::upkeep::Control;
use super::window::Window;
use farcall_base::Instant;

/// What the packets of a session need; our own limits until both sides have agreed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route {
    pub(super) to: PeerAddress,
    pub(super) remote: WireSession,
    pub(super) checksum: bool,
    pub(super) cut: Cut,
    pub(super) calls_max: u16,
    pub(super) message_bytes_max: u32,
}

impl Route {
    fn new(to: PeerAddress, remote: WireSession, agreed: &Offer) -> Self {
        let cut = Cut {
            whole_bytes_max: agreed.mtu_bytes - WHOLE_HEADER_BYTES as u32,
            fragment_bytes: agreed.mtu_bytes - FRAGMENT_HEADER_BYTES as u32,
            unscheduled_bytes: agreed.unscheduled_bytes,
        };
        Self {
            to,
            remote,
            checksum: agreed.checksum,
            cut,
            calls_max: agreed.calls_max,
            message_bytes_max: agreed.message_bytes_max,
        }
    }

    /// The flags of every packet by one of the two sides of a call.
    #[inline]
    pub(super) fn flags(&self, side: Side) -> Flags {
        Flags::CHECKSUM.when(self.checksum).with(Flags::FROM_CALLER.when(side == Side::Caller))
    }
}

/// Makes room for more slots: twice as many as there are, and one at first. Most sessions have one call at a
/// time, and a server has thousands of them.
pub(super) fn grow<T>(slots: &mut Vec<T>, more: usize) -> Result<(), TryReserveError> {
    if slots.capacity() - slots.len() >= more {
        return Ok(());
    }
    slots.try_reserve_exact(more.max(slots.len()))
}

/// The calls of one session.
#[derive(Debug)]
pub struct Channel<B, P: Policy> {
    pub(super) id: SessionId,
    /// What the policy keeps for the session.
    pub(super) peer: P::Peer,
    pub(super) questions: Questions,
    pub(super) route: Route,
    /// How much may be in flight towards this side.
    pub(super) window: Window,
    pub(super) is_up: bool,
    /// Slots that wait for ticks, each once.
    pub(super) ticking: Vec<SlotRef>,
    /// Whether the session is among those of which slots do.
    pub(super) awake: bool,
    /// When the peer was last reminded of a result.
    pub(super) reminded_at: Instant,
    /// What the peer makes us hold.
    pub(super) held_bytes: usize,
    /// How much of it is in the sum of all sessions.
    pub(super) counted_bytes: usize,
    /// How much it may be, as of the packet that is being handled.
    pub(super) room_bytes: usize,
    /// Whether slots may have memory for their next results.
    pub(super) has_spares: bool,
    pub(super) callers: Vec<CallerSlot<B>>,
    pub(super) servers: Vec<ServerSlot<B>>,
    /// Slots of `callers` for the next calls.
    free: FreeSlots,
    /// From this slot on calls may wait in slots that the peer does not accept; they move to others as those
    /// become free.
    displaced_from: u16,
    /// Calls that an ACKNOWLEDGE is due for, at most one per slot.
    pub(super) acknowledged: Vec<CallKey>,
    /// Whether the session is in the queue of those to be sent cutoffs.
    pub(super) cutoffs_queued: bool,
}

impl<B: AsRef<[u8]>, P: Policy> Channel<B, P> {
    /// The calls of a session that is being opened with `offer`.
    pub(super) fn opening(id: SessionId, offer: Offer) -> Self {
        Self {
            id,
            peer: P::Peer::default(),
            questions: Questions::default(),
            route: Route::new(PeerAddress(0), WireSession::NONE, &offer),
            window: Window::new(0, 0),
            is_up: false,
            ticking: Vec::new(),
            awake: false,
            reminded_at: Instant::ZERO,
            held_bytes: 0,
            counted_bytes: 0,
            room_bytes: 0,
            has_spares: false,
            callers: Vec::new(),
            servers: Vec::new(),
            free: FreeSlots::none(),
            displaced_from: u16::MAX,
            acknowledged: Vec::new(),
            cutoffs_queued: false,
        }
    }

    /// Both sides agreed. Nothing is sent before [`Channel::launch_waiting`].
    pub(super) fn up(&mut self, link: &Link, peer: P::Peer, window: Window) {
        (self.peer, self.window) = (peer, window);
        self.route = Route::new(link.to, link.remote, &link.agreed);
        self.is_up = true;
    }

    /// The longest call that waits for the session, in bytes.
    pub(super) fn longest_waiting(&self) -> usize {
        let waiting = self.callers.iter().filter(|slot| matches!(slot.state, CallerState::Waiting));
        waiting.map(|slot| slot.request.length() as usize).max().unwrap_or(0)
    }

    /// Sends the calls that waited for the session, as far as the peer has slots for them.
    pub(super) fn launch_waiting(&mut self, ready: &mut Ready) {
        let calls_max = self.route.calls_max;
        self.free.keep_below(calls_max, &mut self.callers);
        for slot in 0..(self.callers.len() as u16).min(calls_max) {
            if matches!(self.callers[usize::from(slot)].state, CallerState::Waiting) {
                self.launch(slot, ready);
            }
        }
        self.displaced_from = calls_max;
        // Slots may be free although calls are displaced: of calls that were cancelled meanwhile.
        while self.may_have_displaced()
            && let Some(slot) = self.free.pop(&self.callers)
        {
            self.settle_displaced(slot, ready);
        }
    }

    /// Makes a call, or says why not.
    #[inline(always)]
    pub(super) fn call(
        &mut self,
        call: u32,
        service: u16,
        payload: Payload<'_, B>,
        ready: &mut Ready,
    ) -> Result<(), CallError> {
        let (bytes, bytes_max) = (payload.as_bytes().len(), self.route.message_bytes_max as usize);
        if bytes > bytes_max {
            return Err(CallError::TooLong { bytes, bytes_max });
        }
        let slot = self.free_slot()?;
        self.callers[usize::from(slot)].begin(call, service, payload);
        if self.is_up {
            self.launch(slot, ready);
        }
        Ok(())
    }

    /// Answers a request, unless the peer has moved on.
    #[inline(always)]
    pub(super) fn reply(
        &mut self,
        key: CallKey,
        status: u16,
        payload: Payload<'_, B>,
        ready: &mut Ready,
    ) -> Result<(), ReplyTooLong> {
        let (bytes, bytes_max) = (payload.as_bytes().len(), self.route.message_bytes_max as usize);
        if bytes > bytes_max {
            return Err(ReplyTooLong { bytes, bytes_max });
        }
        let reference = self.reference(key.slot(), Side::Server);
        if let Some(slot) = self.servers.get_mut(usize::from(key.slot()))
            && slot.sequence == key.sequence()
            && matches!(slot.state, ServerState::Running)
        {
            let before = slot.held_bytes();
            slot.answer(status, payload);
            self.held_bytes = self.held_bytes - before + slot.held_bytes();
            start_sending::<B, P>(reference, &mut slot.response, &mut slot.upkeep, &self.route.cut, ready);
            self.wake(reference, ready);
        }
        Ok(())
    }

    /// Forgets a call. The server learns of it by the slot's next request or by an ACKNOWLEDGE; of one that
    /// was never launched it has nothing to forget, nor of one before it in the slot.
    pub(super) fn cancel(&mut self, call: u32, ready: &mut Ready, policy: &mut P) {
        let wanted = |slot: &CallerSlot<B>| slot.is_occupied() && slot.call == call;
        let Some(slot) = self.callers.iter().position(wanted) else { return };
        let was_launched = !matches!(self.callers[slot].state, CallerState::Waiting);
        if let Some(response) = self.callers[slot].finish() {
            self.held_bytes -= response.total() as usize;
            self.message_over(self.reference(slot as u16, Side::Caller), &response, policy);
        }
        if !was_launched {
            self.callers[slot].settle();
        }
        self.release(slot as u16, ready);
    }

    /// Under which name a call that is not over travels.
    pub(super) fn key_of(&self, call: u32) -> Option<CallKey> {
        let place = self.callers.iter().position(|slot| slot.is_occupied() && slot.call == call)?;
        Some(CallKey::new(place as u16, self.callers[place].sequence))
    }

    /// Whether all bytes of a call's request were sent once, or the call is over.
    pub(super) fn is_transmitted(&self, call: u32) -> bool {
        let mut occupied = self.callers.iter().filter(|slot| slot.is_occupied());
        occupied.find(|slot| slot.call == call).is_none_or(CallerSlot::is_request_sent)
    }

    /// Frees the slot of a call that is over.
    #[inline]
    pub(super) fn release(&mut self, slot: u16, ready: &mut Ready) {
        if slot >= self.route.calls_max {
            // A displaced call was cancelled: its slot is of no use any more.
            return self.callers[usize::from(slot)].settle();
        }
        if self.may_have_displaced() {
            self.settle_displaced(slot, ready);
        } else {
            self.free.push(slot, &mut self.callers);
        }
    }

    #[inline]
    fn may_have_displaced(&self) -> bool {
        usize::from(self.displaced_from) < self.callers.len()
    }

    /// How many calls to the peer, and how many of its requests, are held.
    pub(super) fn held(&self) -> (usize, usize) {
        let calls = self.callers.iter().filter(|slot| !matches!(slot.state, CallerState::Idle));
        let requests = self.servers.iter().filter(|slot| slot.holds_anything());
        (calls.count(), requests.count())
    }

    /// What the slots hold for the peer; walks all of them, for tests. The rest of `held_bytes` is a
    /// transport's.
    pub(super) fn held_in_slots(&self) -> usize {
        let response = |caller: &CallerSlot<B>| match &caller.state {
            CallerState::Receiving(response) => response.total() as usize,
            _ => 0,
        };
        let responses: usize = self.callers.iter().map(response).sum();
        let requests: usize = self.servers.iter().map(ServerSlot::held_bytes).sum();
        responses + requests + self.servers.len() * size_of::<ServerSlot<B>>()
    }

    /// Changes the state of a call to us, and keeps count of what is held for it.
    #[inline]
    pub(super) fn change_server<T>(&mut self, slot: u16, change: impl FnOnce(&mut ServerSlot<B>) -> T) -> T {
        let server = &mut self.servers[usize::from(slot)];
        let before = server.held_bytes();
        let result = change(server);
        self.held_bytes = self.held_bytes - before + server.held_bytes();
        result
    }

    /// As [`Channel::change_server`] where a result, if there is one, goes. Its memory is stored for the next
    /// one unless the peer makes us hold much already.
    #[inline]
    pub(super) fn release_server<T>(&mut self, slot: u16, change: impl FnOnce(&mut ServerSlot<B>) -> T) -> T {
        let stores_spares = self.held_bytes <= self.room_bytes / 2;
        self.has_spares |= stores_spares;
        self.change_server(slot, |server| {
            let result = change(server);
            if !stores_spares {
                server.drop_spare();
            }
            result
        })
    }

    #[inline]
    pub(super) fn reference(&self, slot: u16, side: Side) -> SlotRef {
        SlotRef { session: self.id.index() as u16, slot, side }
    }

    /// The message that a slot receives.
    pub(super) fn arriving(&self, slot: SlotRef) -> Option<&Assembly> {
        let place = usize::from(slot.slot);
        match slot.side {
            Side::Caller => match &self.callers.get(place)?.state {
                CallerState::Receiving(response) => Some(response),
                _ => None,
            },
            Side::Server => match &self.servers.get(place)?.state {
                ServerState::Receiving(request) => Some(request),
                _ => None,
            },
        }
    }

    /// A message that a slot received is complete, or is not waited for any more.
    pub(super) fn message_over(&mut self, slot: SlotRef, message: &Assembly, policy: &mut P) {
        self.window.ended(slot, message);
        policy.over(slot, message);
    }

    /// The same to be changed, with the window of the session.
    pub(super) fn arriving_mut(&mut self, slot: SlotRef) -> Option<(&mut Assembly, &mut Window)> {
        let place = usize::from(slot.slot);
        let message = match slot.side {
            Side::Caller => self.callers.get_mut(place)?.response_mut(),
            Side::Server => self.servers.get_mut(place)?.request_mut(),
        };
        message.map(|message| (message, &mut self.window))
    }

    /// Plans to say what the message that a slot receives was granted.
    pub(super) fn queue_grant(&mut self, slot: SlotRef, ready: &mut Ready) {
        let place = usize::from(slot.slot);
        let upkeep = match slot.side {
            Side::Caller => self.callers.get_mut(place).map(|caller| &mut caller.upkeep),
            Side::Server => self.servers.get_mut(place).map(|server| &mut server.upkeep),
        };
        if let Some(upkeep) = upkeep {
            ready.add_control(slot, upkeep, Control::GRANT);
        }
    }

    #[inline(always)]
    fn launch(&mut self, slot: u16, ready: &mut Ready) {
        let reference = self.reference(slot, Side::Caller);
        let caller = &mut self.callers[usize::from(slot)];
        caller.launch();
        start_sending::<B, P>(reference, &mut caller.request, &mut caller.upkeep, &self.route.cut, ready);
        self.wake(reference, ready);
    }

    /// Whether another call is taken, most likely: numbers of a slot may be used up.
    pub(super) fn has_free_slot(&self) -> bool {
        !self.free.is_empty() || self.callers.len() < usize::from(self.route.calls_max)
    }

    /// A slot for the next call. One whose numbers are used up is not used again.
    #[inline]
    fn free_slot(&mut self) -> Result<u16, CallError> {
        while let Some(slot) = self.free.pop(&self.callers) {
            if self.callers[usize::from(slot)].sequence < SEQUENCE_MAX {
                return Ok(slot);
            }
        }
        let calls_max = usize::from(self.route.calls_max);
        if self.callers.len() >= calls_max {
            return Err(CallError::TooMany { calls_max });
        }
        if grow(&mut self.callers, 1).is_err() {
            return Err(CallError::TooMany { calls_max: self.callers.len() });
        }
        self.callers.push(CallerSlot::default());
        Ok((self.callers.len() - 1) as u16)
    }

    /// Moves the displaced call that waits longest to the free `slot`, which keeps its own numbering.
    #[cold]
    fn settle_displaced(&mut self, slot: u16, ready: &mut Ready) {
        while self.may_have_displaced() {
            let from = self.displaced_from;
            self.displaced_from += 1;
            if !matches!(self.callers[usize::from(from)].state, CallerState::Waiting) {
                continue;
            }
            let mut moved = core::mem::take(&mut self.callers[usize::from(from)]);
            let place = &mut self.callers[usize::from(slot)];
            moved.sequence = place.sequence + 1;
            moved.upkeep.take_place_of(&place.upkeep);
            *place = moved;
            return self.launch(slot, ready);
        }
        self.free.push(slot, &mut self.callers);
    }
}
