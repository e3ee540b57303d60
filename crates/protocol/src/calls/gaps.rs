//! Which pieces of a long message are lost, as the pieces behind them say.
//!
//! A sender sends its pieces in order, and first what it is asked for once more. So a piece that is missing
//! behind [`OVERTAKING_PIECES`] later ones is lost, and is asked for at once: the timer is for what nothing
//! follows. What was asked for is lost again when a piece comes that only a later grant permitted: the sender
//! had the question before that grant. Neither rule needs a clock.

/// Pieces that may overtake one before that counts as lost, as in TCP (RFC 5681, §3.2).
const OVERTAKING_PIECES: u32 = 3;

/// What is known of lost pieces, counted in pieces.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    /// Behind the last piece that came as it was first sent.
    seen: u32,
    /// All that is missing below was asked for.
    asked_to: u32,
    /// What is missing below is none of our business, if anything is.
    whole_to: u32,
    repeated: Option<Repeated>,
    /// What the next question is about.
    wanted: Option<(u32, u32)>,
}

/// Pieces that were asked for.
#[derive(Clone, Copy, Debug)]
struct Repeated {
    /// They come before the pieces from this one on.
    before: u32,
    to: u32,
}

impl Gaps {
    /// A new piece came that was not sent before; `permitted` were until now. How many are found to be lost
    /// by that, to be asked for.
    #[inline]
    pub(super) fn came(&mut self, piece: u32, permitted: u32, is_here: impl Fn(u32) -> bool) -> u32 {
        self.seen = self.seen.max(piece + 1);
        let reach = self.seen.saturating_sub(OVERTAKING_PIECES);
        self.follow_whole(&is_here);
        let again = self.repeated.filter(|repeated| reach > repeated.before);
        let mut lost = 0;
        if let Some(again) = again {
            self.repeated = None;
            lost += self.want(self.whole_to, again.to, &is_here);
        }
        if reach > self.asked_to {
            lost += self.want(self.asked_to, reach, &is_here);
            self.asked_to = reach;
            self.follow_whole(&is_here);
        }
        if self.repeated.is_none() && (lost > 0 || self.whole_to < self.asked_to) {
            self.repeated = Some(Repeated { before: permitted, to: self.asked_to });
        }
        lost
    }

    /// Pieces from `piece` on may overtake those before: what is missing of these is left to the timer.
    pub(super) fn leave_below(&mut self, piece: u32) {
        self.asked_to = self.asked_to.max(piece);
        (self.whole_to, self.repeated) = (self.asked_to, None);
    }

    /// What the next question is about, from a piece to behind another one.
    pub(super) fn wanted(&self) -> Option<(u32, u32)> {
        self.wanted
    }

    /// The question leaves.
    pub(super) fn asked(&mut self) {
        self.wanted = None;
    }

    fn follow_whole(&mut self, is_here: impl Fn(u32) -> bool) {
        while self.whole_to < self.asked_to && is_here(self.whole_to) {
            self.whole_to += 1;
        }
    }

    /// Plans to ask for what is missing in a range; how many pieces that is.
    fn want(&mut self, from: u32, to: u32, is_here: impl Fn(u32) -> bool) -> u32 {
        let missing = (from..to).filter(|piece| !is_here(*piece)).count() as u32;
        if missing > 0 {
            let (first, last) = self.wanted.unwrap_or((from, to));
            self.wanted = Some((first.min(from), last.max(to)));
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A message of which the pieces in `came` came, in that order; all of it is permitted to 100.
    fn lost_by(gaps: &mut Gaps, here: &mut BTreeSet<u32>, came: impl IntoIterator<Item = u32>) -> u32 {
        let mut lost = 0;
        for piece in came {
            here.insert(piece);
            lost += gaps.came(piece, 100, |piece| here.contains(&piece));
        }
        lost
    }

    #[test]
    fn a_piece_is_lost_when_three_later_ones_came() {
        let (mut gaps, mut here) = (Gaps::default(), BTreeSet::new());
        assert_eq!(lost_by(&mut gaps, &mut here, [0, 1, 3, 4]), 0);
        assert_eq!(gaps.wanted(), None);
        assert_eq!(lost_by(&mut gaps, &mut here, [5]), 1);
        assert_eq!(gaps.wanted(), Some((2, 3)));
        gaps.asked();
        assert_eq!(lost_by(&mut gaps, &mut here, 6..50), 0, "it was asked for");
    }

    #[test]
    fn pieces_that_overtake_two_others_are_no_loss() {
        let (mut gaps, mut here) = (Gaps::default(), BTreeSet::new());
        assert_eq!(lost_by(&mut gaps, &mut here, [2, 0, 1, 5, 4, 3, 6, 8, 7, 9]), 0);
    }

    #[test]
    fn what_may_have_been_overtaken_is_left_to_the_timer() {
        let (mut gaps, mut here) = (Gaps::default(), BTreeSet::new());
        assert_eq!(lost_by(&mut gaps, &mut here, [0, 1]), 0);
        gaps.leave_below(10);
        assert_eq!(lost_by(&mut gaps, &mut here, [10, 11, 12, 13, 14, 2, 16, 17, 18]), 1, "15 is lost");
    }

    #[test]
    fn what_was_asked_for_is_lost_again_when_a_later_grant_is_answered() {
        let (mut gaps, mut here) = (Gaps::default(), BTreeSet::new());
        assert_eq!(lost_by(&mut gaps, &mut here, (0..20).filter(|piece| *piece != 7)), 1);
        gaps.asked();
        assert_eq!(lost_by(&mut gaps, &mut here, 20..103), 0);
        assert_eq!(lost_by(&mut gaps, &mut here, [103]), 1);
        assert_eq!(gaps.wanted().map(|(from, _)| from), Some(7));
    }
}
