//! What messages of one packet do to calls. Most packets are such, so that nothing is built for them in
//! memory but what the caller of the protocol is told.

use crate::wire::{CallKey, Flags, WHOLE_HEADER_BYTES};

use super::caller::{CallerState, Relation};
use super::channel::Channel;
use super::event::{Counters, Delivery, Received};
use super::policy::Policy;
use super::ready::{Ready, Side};
use super::receive::Work;
use super::server::ServerState;

/// A message of one packet: which call it is of, and its service or status.
pub(super) struct Whole {
    pub(super) key: CallKey,
    pub(super) flags: Flags,
    pub(super) tag: u16,
    /// Of its payload, in bytes.
    pub(super) length: usize,
}

impl Whole {
    fn payload(&self) -> Received {
        Received::InPlace(WHOLE_HEADER_BYTES..WHOLE_HEADER_BYTES + self.length)
    }
}

impl<B: AsRef<[u8]>, P: Policy> Channel<B, P> {
    #[inline(always)]
    pub(super) fn handle_whole(
        &mut self,
        whole: &Whole,
        ready: &mut Ready,
        policy: &mut P,
        counters: &mut Counters,
    ) -> Option<Delivery> {
        if whole.flags.has(Flags::FROM_CALLER) {
            self.heard_about(whole.key, Side::Server, ready);
            self.whole_request(whole, ready, policy, counters)
        } else {
            self.heard_about(whole.key, Side::Caller, ready);
            self.whole_response(whole, ready, policy, counters)
        }
    }

    #[inline(always)]
    fn whole_request(
        &mut self,
        whole: &Whole,
        ready: &mut Ready,
        policy: &mut P,
        counters: &mut Counters,
    ) -> Option<Delivery> {
        self.admit_request(whole.key, true, policy, counters)?;
        let server = &self.servers[usize::from(whole.key.slot())];
        if !matches!(server.state, ServerState::Expected) {
            return self.work(whole, ready, policy, counters).request_again();
        }
        if !self.has_room_for(0) {
            return self.refuse_request(counters);
        }
        let server = &mut self.servers[usize::from(whole.key.slot())];
        let pieces = server.run();
        debug_assert!(pieces.is_none(), "only an expected request gets here");
        if whole.flags.has(Flags::RETRANSMISSION) {
            self.work(whole, ready, policy, counters).question_brought_request();
        }
        self.message_began(whole.length as u32, whole.flags.argument(), ready, policy);
        let (session, request) = (self.id, whole.key);
        Some(Delivery::Request { session, request, service: whole.tag, payload: whole.payload() })
    }

    #[inline(always)]
    fn whole_response(
        &mut self,
        whole: &Whole,
        ready: &mut Ready,
        policy: &mut P,
        counters: &mut Counters,
    ) -> Option<Delivery> {
        let Some(caller) = self.callers.get_mut(usize::from(whole.key.slot())) else {
            return self.work(whole, ready, policy, counters).malformed();
        };
        match caller.relation(whole.key) {
            Relation::Present if !matches!(caller.state, CallerState::Receiving(_)) => {}
            Relation::Over => return self.work(whole, ready, policy, counters).call_is_over(true),
            Relation::Former => return self.work(whole, ready, policy, counters).stale(),
            // A message is of one packet or in pieces.
            Relation::Present | Relation::Never => {
                return self.work(whole, ready, policy, counters).malformed();
            }
        }
        let call = caller.call;
        let pieces = caller.finish();
        debug_assert!(pieces.is_none(), "one that came in pieces was refused above");
        self.message_began(whole.length as u32, whole.flags.argument(), ready, policy);
        self.release(whole.key.slot(), ready);
        Some(Delivery::Response { session: self.id, call, status: whole.tag, payload: whole.payload() })
    }

    /// The peer makes us hold too much already: the request has to come again when there is room.
    fn refuse_request(&mut self, counters: &mut Counters) -> Option<Delivery> {
        counters.requests_refused += 1;
        None
    }

    /// For what happens seldom.
    fn work<'w>(
        &'w mut self,
        whole: &Whole,
        ready: &'w mut Ready,
        policy: &'w mut P,
        counters: &'w mut Counters,
    ) -> Work<'w, B, P> {
        Work { channel: self, ready, policy, counters, key: whole.key, flags: whole.flags }
    }
}
