//! Asking for what is missing.
//!
//! Every slot finds out by itself that it has waited long enough. Where a policy wants one unanswered question a peer at
//! most, a slot then waits for its turn: the next question leaves when the last one was answered, or has been for
//! longer than a round trip. A peer that is overloaded, or gone, is thus not asked for everything at once.

use std::collections::VecDeque;

use crate::wire::CallKey;

use super::caller::CallerState;
use super::channel::Channel;
use super::policy::Policy;
use super::ready::{Ready, Side, SlotRef, continue_sending};
use super::server::ServerState;
use super::upkeep::{Owed, Upkeep};

/// The least time, in ticks, that a question blocks the next one. Two, because the first tick can come right after it.
const PATIENCE_MIN_TICKS: u8 = 2;

/// The questions to one peer. Their number is bounded by the slots.
#[derive(Debug, Default)]
pub(super) struct Questions {
    waiting: VecDeque<SlotRef>,
    asked: Option<Asked>,
    patience_ticks: u8,
}

/// The unanswered question: about which call, and how much longer it blocks others.
#[derive(Debug)]
struct Asked {
    key: CallKey,
    side: Side,
    ticks_left: u8,
}

impl Questions {
    fn add(&mut self, slot: SlotRef, upkeep: &mut Upkeep) {
        upkeep.question_wanted = true;
        if !upkeep.question_queued {
            upkeep.question_queued = true;
            self.waiting.push_back(slot);
        }
    }

    /// Lets a tick pass; a round trip takes `base_ticks`.
    fn tick(&mut self, base_ticks: u8) {
        self.patience_ticks = base_ticks.max(PATIENCE_MIN_TICKS);
        if let Some(asked) = &mut self.asked {
            asked.ticks_left = asked.ticks_left.saturating_sub(1);
        }
        self.asked.take_if(|asked| asked.ticks_left == 0);
    }

    /// Whether a packet about a call, of which we are `side`, answers the question.
    fn is_answered_by(&mut self, key: CallKey, side: Side) -> bool {
        self.asked.take_if(|asked| asked.key == key && asked.side == side).is_some()
    }
}

impl<B: AsRef<[u8]>, P: Policy> Channel<B, P> {
    /// A slot has waited long enough: asks, now or in its turn.
    pub(super) fn wants_to_ask(&mut self, slot: SlotRef, ready: &mut Ready, policy: &mut P) {
        if !P::ONE_QUESTION {
            self.ask(slot, ready);
        } else if let Some((_, upkeep, _)) = Self::sending(&mut self.callers, &mut self.servers, slot) {
            self.questions.add(slot, upkeep);
            self.ask_next(ready);
        }
        policy.silent(slot);
    }

    /// Lets a tick pass for the question that was asked.
    pub(super) fn tick_questions(&mut self, base_ticks: u8, ready: &mut Ready) {
        if P::ONE_QUESTION {
            self.questions.tick(base_ticks);
            self.ask_next(ready);
        }
    }

    /// A packet about a call arrived, of which we are `side`.
    pub(super) fn heard_about(&mut self, key: CallKey, side: Side, ready: &mut Ready) {
        if P::ONE_QUESTION && self.questions.is_answered_by(key, side) {
            self.ask_next(ready);
        }
    }

    /// Asks the next question that is still one, unless one is unanswered.
    fn ask_next(&mut self, ready: &mut Ready) {
        while self.questions.asked.is_none()
            && let Some(slot) = self.questions.waiting.pop_front()
        {
            let Some((_, upkeep, key)) = Self::sending(&mut self.callers, &mut self.servers, slot) else {
                continue;
            };
            upkeep.question_queued = false;
            if core::mem::take(&mut upkeep.question_wanted) && self.ask(slot, ready) {
                let ticks_left = self.questions.patience_ticks;
                self.questions.asked = Some(Asked { key, side: slot.side, ticks_left });
            }
        }
    }

    /// Asks for what a slot misses. False when it misses nothing any more.
    fn ask(&mut self, slot: SlotRef, ready: &mut Ready) -> bool {
        let place = usize::from(slot.slot);
        match slot.side {
            Side::Caller => {
                let (caller, cut) = (&mut self.callers[place], &self.route.cut);
                match &caller.state {
                    CallerState::Requesting if caller.request.length() <= cut.whole_bytes_max => {
                        // As cheap as a question, and it saves a round trip.
                        let (request, upkeep) = (&mut caller.request, &mut caller.upkeep);
                        continue_sending::<B, P>(slot, request, upkeep, cut, ready);
                    }
                    CallerState::Requesting => ready.owe(slot, &mut caller.upkeep, Owed::RESEND),
                    CallerState::Receiving(response) if !response.is_withheld() => {
                        ready.owe(slot, &mut caller.upkeep, Owed::RESEND);
                    }
                    _ => return false,
                }
            }
            Side::Server => {
                let server = &mut self.servers[place];
                match &server.state {
                    ServerState::Receiving(request) if !request.is_withheld() => {
                        ready.owe(slot, &mut server.upkeep, Owed::RESEND);
                    }
                    _ => return false,
                }
            }
        }
        true
    }
}
