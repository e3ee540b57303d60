//! Asking for what is missing.
//!
//! Every slot finds out by itself that it has waited long enough. Where a policy wants few unanswered
//! questions a peer, a slot then waits for its turn. There is one more turn for each answer, and one less for
//! each question that has none for longer than a round trip. A peer that is overloaded, or gone, is thus not
//! asked for everything at once, and where packets are only lost now and then, a lost question holds up no
//! others.

use std::collections::VecDeque;

use crate::wire::CallKey;

use super::caller::CallerState;
use super::channel::Channel;
use super::policy::Policy;
use super::ready::{Ready, Side, SlotRef, continue_sending};
use super::server::ServerState;
use super::upkeep::{Control, Upkeep};

/// The least time, in ticks, that a question blocks the next one. Two, because the first tick can come right
/// after it.
const PATIENCE_MIN_TICKS: u8 = 2;

/// The most questions to one peer that are unanswered at a time.
const UNANSWERED_MAX: u8 = 16;

/// The questions to one peer. Their number is bounded by the slots.
#[derive(Debug)]
pub(super) struct Questions {
    /// From the first question on: most peers are never asked anything.
    lists: Option<Box<Lists>>,
    /// How many may be unanswered now, from 1 to [`UNANSWERED_MAX`].
    turns: u8,
    patience_ticks: u8,
}

#[derive(Debug, Default)]
struct Lists {
    waiting: VecDeque<SlotRef>,
    /// Those that are unanswered.
    asked: Vec<Asked>,
}

/// An unanswered question: about which call, and how much longer it takes a turn.
#[derive(Debug)]
struct Asked {
    key: CallKey,
    side: Side,
    ticks_left: u8,
}

impl Default for Questions {
    fn default() -> Self {
        Self { lists: None, turns: 1, patience_ticks: PATIENCE_MIN_TICKS }
    }
}

impl Questions {
    fn add(&mut self, slot: SlotRef, upkeep: &mut Upkeep) {
        upkeep.question_wanted = true;
        if !upkeep.question_queued {
            upkeep.question_queued = true;
            self.lists.get_or_insert_default().waiting.push_back(slot);
        }
    }

    /// Lets a tick pass; a round trip takes `base_ticks`.
    fn tick(&mut self, base_ticks: u8) {
        self.patience_ticks = base_ticks.max(PATIENCE_MIN_TICKS);
        let Some(Lists { asked, .. }) = self.lists.as_deref_mut() else { return };
        let unanswered = asked.len();
        asked.retain_mut(|asked| {
            asked.ticks_left = asked.ticks_left.saturating_sub(1);
            asked.ticks_left > 0
        });
        let expired = unanswered - asked.len();
        self.turns = self.turns.saturating_sub(expired as u8).max(1);
    }

    /// The next slot that waits, if it has its turn.
    fn next(&mut self) -> Option<SlotRef> {
        let lists = self.lists.as_deref_mut()?;
        if lists.asked.len() < usize::from(self.turns) { lists.waiting.pop_front() } else { None }
    }

    /// The question was asked.
    fn note(&mut self, key: CallKey, side: Side) {
        let asked = Asked { key, side, ticks_left: self.patience_ticks };
        self.lists.get_or_insert_default().asked.push(asked);
    }

    /// Whether a packet about a call, of which we are `side`, answers a question.
    #[inline]
    fn is_answered_by(&mut self, key: CallKey, side: Side) -> bool {
        match &self.lists {
            Some(lists) if !lists.asked.is_empty() => self.take_answered(key, side),
            _ => false,
        }
    }

    #[cold]
    fn take_answered(&mut self, key: CallKey, side: Side) -> bool {
        let Some(Lists { asked, .. }) = self.lists.as_deref_mut() else { return false };
        let Some(place) = asked.iter().position(|asked| asked.key == key && asked.side == side) else {
            return false;
        };
        asked.swap_remove(place);
        self.turns = (self.turns + 1).min(UNANSWERED_MAX);
        true
    }
}

impl<B: AsRef<[u8]>, P: Policy> Channel<B, P> {
    /// A slot has waited long enough: asks, now or in its turn.
    pub(super) fn wants_to_ask(&mut self, slot: SlotRef, ready: &mut Ready, policy: &mut P) {
        if !P::QUESTIONS_TAKE_TURNS {
            self.ask(slot, ready);
        } else if let Some((_, upkeep, _)) = Self::sending(&mut self.callers, &mut self.servers, slot) {
            self.questions.add(slot, upkeep);
            self.ask_next(ready);
        }
        policy.silent(slot);
    }

    /// Lets a tick pass for the question that was asked.
    pub(super) fn tick_questions(&mut self, base_ticks: u8, ready: &mut Ready) {
        if P::QUESTIONS_TAKE_TURNS {
            self.questions.tick(base_ticks);
            self.ask_next(ready);
        }
    }

    /// A packet about a call arrived, of which we are `side`.
    pub(super) fn heard_about(&mut self, key: CallKey, side: Side, ready: &mut Ready) {
        if P::QUESTIONS_TAKE_TURNS && self.questions.is_answered_by(key, side) {
            self.ask_next(ready);
        }
    }

    /// Asks the next questions that still are some, as many as there are turns for.
    fn ask_next(&mut self, ready: &mut Ready) {
        while let Some(slot) = self.questions.next() {
            let Some((_, upkeep, key)) = Self::sending(&mut self.callers, &mut self.servers, slot) else {
                continue;
            };
            upkeep.question_queued = false;
            if core::mem::take(&mut upkeep.question_wanted) && self.ask(slot, ready) {
                self.questions.note(key, slot.side);
            }
        }
    }

    /// Asks for what a slot misses. False when it misses nothing any more.
    fn ask(&mut self, slot: SlotRef, ready: &mut Ready) -> bool {
        let place = usize::from(slot.slot);
        match slot.side {
            Side::Caller => {
                let (caller, cut) = (&mut self.callers[place], &self.route.cut);
                match &mut caller.state {
                    CallerState::Requesting if caller.request.length() <= cut.whole_bytes_max => {
                        // As cheap as a question, and it saves a round trip.
                        let (request, upkeep) = (&mut caller.request, &mut caller.upkeep);
                        continue_sending::<B, P>(slot, request, upkeep, cut, ready);
                    }
                    CallerState::Requesting => ready.add_control(slot, &mut caller.upkeep, Control::RESEND),
                    CallerState::Receiving(response) if !response.is_withheld() => {
                        response.ask(&mut self.window);
                        ready.add_control(slot, &mut caller.upkeep, Control::RESEND);
                    }
                    _ => return false,
                }
            }
            Side::Server => {
                let server = &mut self.servers[place];
                match &mut server.state {
                    ServerState::Receiving(request) if !request.is_withheld() => {
                        request.ask(&mut self.window);
                        ready.add_control(slot, &mut server.upkeep, Control::RESEND);
                    }
                    _ => return false,
                }
            }
        }
        true
    }
}
