//! How much is asked for again at a time.
//!
//! The answer to a question is a burst of packets. Where a port on the way has room for a few of them, the
//! others are lost again, and the next question waits for its ticks: a long message would crawl, a few
//! packets in two ticks. So a question that was not answered in whole is followed by one for no more than
//! came since, and one that was by the next at once, which may ask for a little more. Messages that lose a
//! packet now and then never get there: their first question is answered.
//!
//! Counted in pieces. The invariant: while a round lasts, something below `asked_to` is missing.

use crate::wire::RANGES_PER_RESEND_MAX;

/// A lot grows by an eighth with each answer, and by a piece after this many, whichever is more.
const ANSWERS_PER_PIECE: u32 = 8;

/// What the questions about one message may ask for.
#[derive(Debug)]
pub(super) struct Lots {
    lot: u32,
    /// Answers since the lot last grew by a piece or was cut.
    answers: u32,
    round: Option<Round>,
}

/// From a question of the timer until everything is here that was permitted by then, or was sent before the
/// last piece that is here.
#[derive(Clone, Copy, Debug)]
struct Round {
    until: u32,
    /// The last question was about what is missing below.
    asked_to: u32,
    asked: u32,
    came: u32,
    /// Nothing is missing below.
    whole_to: u32,
}

impl Default for Lots {
    fn default() -> Self {
        Self { lot: u32::MAX, answers: 0, round: None }
    }
}

impl Lots {
    /// Whether a round lasts.
    pub(super) fn are_asked(&self) -> bool {
        self.round.is_some()
    }

    /// Where the next question ends; `permitted` without a round.
    pub(super) fn asked_to(&self, permitted: u32) -> u32 {
        self.round.map_or(permitted, |round| round.asked_to)
    }

    /// The timer asks: if it has asked before, what it asked for was lost but for what came.
    pub(super) fn ask(&mut self, permitted: u32, is_here: impl Fn(u32) -> bool) {
        if let Some(round) = self.round {
            let came = if round.came == 0 { round.asked / 2 } else { round.came };
            (self.lot, self.answers) = (self.lot.min(came).max(1), 0);
        }
        let whole_to = self.round.map_or(0, |round| round.whole_to);
        self.begin(Round { until: permitted, asked_to: 0, asked: 0, came: 0, whole_to }, is_here);
    }

    /// A piece came that was missing. True when it was the last that the question was about, and there is
    /// more to ask for: what is missing in front of the `last` piece that is here was sent before that, and
    /// is lost.
    #[inline]
    pub(super) fn came(&mut self, piece: u32, last: u32, is_here: impl Fn(u32) -> bool) -> bool {
        match self.round {
            Some(round) if piece < round.asked_to => self.came_in(round, last, is_here),
            _ => false,
        }
    }

    fn came_in(&mut self, mut round: Round, last: u32, is_here: impl Fn(u32) -> bool) -> bool {
        round.came += 1;
        while round.whole_to < round.asked_to && is_here(round.whole_to) {
            round.whole_to += 1;
        }
        self.round = Some(round);
        if round.whole_to < round.asked_to {
            return false;
        }
        self.answers += 1;
        let by_answers = u32::from(self.answers >= ANSWERS_PER_PIECE);
        self.answers *= 1 - by_answers;
        self.lot = self.lot.saturating_add(by_answers.max(self.lot / 8));
        round.until = round.until.max(last);
        self.begin(round, is_here);
        self.round.is_some()
    }

    /// Plans a question about the first gaps, as many as it has room for, or ends the round when there are
    /// none.
    fn begin(&mut self, mut round: Round, is_here: impl Fn(u32) -> bool) {
        (round.came, round.asked, round.asked_to) = (0, 0, round.whole_to);
        let (mut gaps, mut was_here) = (0, true);
        while round.asked_to < round.until && round.asked < self.lot {
            let is_here = is_here(round.asked_to);
            gaps += usize::from(was_here && !is_here);
            if gaps > RANGES_PER_RESEND_MAX {
                break;
            }
            round.asked += u32::from(!is_here);
            (was_here, round.asked_to) = (is_here, round.asked_to + 1);
        }
        self.round = (round.asked > 0).then_some(round);
    }
}
