//! When losses lower the window.
//!
//! A path that loses a few of a hundred packets at random is not helped by sending less. A queue that
//! overflows is: there a window that is too large loses far more. So losses count only when they are more
//! than [`LOST_PERCENT_MAX`] of pieces, among enough of them (as in BBR's second version, which tolerates 2;
//! this one is made for paths that lose 5).

/// Losses up to this part of pieces are taken for chance.
const LOST_PERCENT_MAX: u32 = 10;

/// The same for the pieces that came last, of which each counts a 64th: chance may lose more of these.
const LATE_LOST_MILLIONTHS_MAX: u32 = 150_000;
const LATE_PIECES: u32 = 64;

const MILLION: u32 = 1_000_000;

/// Among fewer pieces chance alone may lose more.
const JUDGED_PIECES: u32 = 64;

/// What the losses permit.
#[derive(Debug)]
pub(super) struct Losses {
    came: u32,
    lost: u32,
    /// The part of pieces that was lost of late.
    late_millionths: u32,
    bytes_max: u32,
}

impl Default for Losses {
    fn default() -> Self {
        Self { came: 0, lost: 0, late_millionths: 0, bytes_max: u32::MAX }
    }
}

impl Losses {
    /// How large the window may be.
    pub(super) fn bytes_max(&self) -> u32 {
        self.bytes_max
    }

    /// A piece came. One that had to be sent again was lost before.
    pub(super) fn came(&mut self, repeated: bool) {
        if repeated {
            self.lost += 1;
            self.late_millionths += (MILLION - self.late_millionths) / LATE_PIECES;
        } else {
            self.came += 1;
            self.late_millionths -= self.late_millionths / LATE_PIECES;
        }
    }

    /// Whether late losses are no more than chance may lose.
    pub(super) fn are_by_chance(&self) -> bool {
        self.late_millionths <= LATE_LOST_MILLIONTHS_MAX
    }

    /// What comes of `bytes` where late losses are too many for chance; all of them elsewhere.
    pub(super) fn left_of(&self, bytes: u32) -> u32 {
        let lost = if self.are_by_chance() { 0 } else { self.late_millionths };
        (u64::from(bytes) * u64::from(MILLION - lost) / u64::from(MILLION)) as u32
    }

    /// Nothing came any more although most of the window was on its way.
    pub(super) fn collapse(&mut self) {
        (self.came, self.lost, self.bytes_max) = (0, 0, 0);
    }

    /// A round ended, in which the path would permit a window of `bytes`: too many losses take three tenths
    /// of the window, or the part that was lost, and each judgement without gives an eighth back.
    pub(super) fn judge(&mut self, bytes: u32) {
        let sent = self.came + self.lost;
        if sent < JUDGED_PIECES {
            return;
        }
        let are_too_many = u64::from(self.lost) * 100 > u64::from(sent) * u64::from(LOST_PERCENT_MAX);
        let lost = self.lost;
        (self.came, self.lost) = (0, 0);
        if are_too_many {
            let came = u64::from(self.bytes_max.min(bytes)) * u64::from(sent - lost) / u64::from(sent);
            self.bytes_max = (self.bytes_max.min(bytes) / 10 * 7).min(came as u32);
        } else if self.bytes_max != u32::MAX {
            self.bytes_max = self.bytes_max.saturating_add((bytes / 8).max(1));
            if self.bytes_max >= bytes {
                self.bytes_max = u32::MAX;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u32 = 1 << 20;

    /// A hundred pieces, of which the first `lost` were sent again, and the judgement at the end of a round.
    fn round(losses: &mut Losses, lost: u32) {
        for piece in 0..100 {
            losses.came(piece < lost);
        }
        losses.judge(WINDOW);
    }

    #[test]
    fn chance_lowers_no_window() {
        let mut losses = Losses::default();
        for _ in 0..20 {
            round(&mut losses, LOST_PERCENT_MAX);
        }
        assert_eq!(losses.bytes_max(), u32::MAX);
        assert!(losses.are_by_chance());
    }

    #[test]
    fn too_many_losses_lower_the_window_and_rounds_without_give_it_back() {
        let mut losses = Losses::default();
        round(&mut losses, 20);
        let once = losses.bytes_max();
        assert!(once < WINDOW, "{once}");
        round(&mut losses, 20);
        assert!(losses.bytes_max() < once);
        for _ in 0..10 {
            round(&mut losses, 0);
        }
        assert_eq!(losses.bytes_max(), u32::MAX);
    }

    #[test]
    fn a_path_that_brings_nothing_closes_the_window() {
        let mut losses = Losses::default();
        losses.collapse();
        assert_eq!(losses.bytes_max(), 0);
        round(&mut losses, 0);
        assert_eq!(losses.bytes_max(), WINDOW / 8);
    }

    #[test]
    fn many_late_losses_are_no_chance() {
        let mut losses = Losses::default();
        round(&mut losses, 10);
        assert_eq!(losses.left_of(WINDOW), WINDOW, "chance takes nothing off");
        round(&mut losses, 100);
        assert!(!losses.are_by_chance());
        assert!(losses.left_of(WINDOW) < WINDOW / 4, "most were lost: {}", losses.left_of(WINDOW));
        round(&mut losses, 0);
        round(&mut losses, 0);
        assert!(losses.are_by_chance(), "it is over");
        assert_eq!(losses.left_of(WINDOW), WINDOW);
    }
}
