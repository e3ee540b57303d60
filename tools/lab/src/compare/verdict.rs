//! Whether a budget is kept, as far as the measurement can tell.

use core::fmt;

use super::rows::Budget;
use crate::statistics::bootstrap::Ratio;

/// Whether a budget is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetVerdict {
    /// The whole interval lies on the good side.
    Met,
    /// The whole interval lies on the bad side.
    Missed,
    /// The interval lies on both sides, or there are too few blocks for one: more blocks may tell.
    Undecided,
    /// The row has no budget.
    NoBudget,
}

impl BudgetVerdict {
    /// Judges a figure with its interval.
    pub(super) fn of(budget: Budget, figure: Option<Ratio>) -> Self {
        let Some((low, high)) = figure.and_then(|figure| figure.interval) else { return Self::Undecided };
        let (met, missed) = match budget {
            Budget::RatioAtMost(limit) | Budget::ExcessAtMost(limit) => (high <= limit, low > limit),
            Budget::RatioAtLeast(limit) | Budget::FigureAtLeast(limit) => (low >= limit, high < limit),
            Budget::RatioWithin(fraction) => {
                let (least, most) = (1.0 / (1.0 + fraction), 1.0 + fraction);
                (least <= low && high <= most, high < least || most < low)
            }
            Budget::RatioAndFigureAtMost(..) => unreachable!("its two bounds are judged one by one"),
        };
        match (met, missed) {
            (true, _) => Self::Met,
            (_, true) => Self::Missed,
            _ => Self::Undecided,
        }
    }

    /// That both budgets are kept: one that is missed decides.
    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Missed, _) | (_, Self::Missed) => Self::Missed,
            (Self::Met, Self::Met) => Self::Met,
            (Self::NoBudget, verdict) | (verdict, Self::NoBudget) => verdict,
            _ => Self::Undecided,
        }
    }
}

impl fmt::Display for BudgetVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Met => "met",
            Self::Missed => "missed",
            Self::Undecided => "undecided",
            Self::NoBudget => "-",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(budget: Budget, interval: Option<(f64, f64)>) -> BudgetVerdict {
        BudgetVerdict::of(budget, Some(Ratio { ratio: 1.0, interval, blocks: 10 }))
    }

    #[test]
    fn the_whole_interval_decides() {
        let most = Budget::RatioAtMost(1.25);
        assert_eq!(judge(most, Some((1.1, 1.25))), BudgetVerdict::Met);
        assert_eq!(judge(most, Some((1.2, 1.3))), BudgetVerdict::Undecided);
        assert_eq!(judge(most, Some((1.26, 1.3))), BudgetVerdict::Missed);
        let least = Budget::RatioAtLeast(0.9);
        assert_eq!(judge(least, Some((0.9, 1.0))), BudgetVerdict::Met);
        assert_eq!(judge(least, Some((0.8, 1.0))), BudgetVerdict::Undecided);
        assert_eq!(judge(least, Some((0.7, 0.8))), BudgetVerdict::Missed);
        let same = Budget::RatioWithin(0.02);
        assert_eq!(judge(same, Some((0.985, 1.015))), BudgetVerdict::Met);
        assert_eq!(judge(same, Some((0.985, 1.025))), BudgetVerdict::Undecided);
        assert_eq!(judge(same, Some((0.97, 1.0))), BudgetVerdict::Undecided);
        assert_eq!(
            (judge(same, Some((1.03, 1.1))), judge(same, Some((0.9, 0.97)))),
            (BudgetVerdict::Missed, BudgetVerdict::Missed)
        );
        let excess = Budget::ExcessAtMost(60.0);
        assert_eq!(judge(excess, Some((-5.0, 60.0))), BudgetVerdict::Met);
        assert_eq!(judge(excess, Some((50.0, 70.0))), BudgetVerdict::Undecided);
        assert_eq!(judge(excess, Some((61.0, 70.0))), BudgetVerdict::Missed);
    }

    #[test]
    fn of_two_budgets_both_have_to_be_kept() {
        use BudgetVerdict::{Met, Missed, NoBudget, Undecided};
        assert_eq!((Met.and(Met), Met.and(NoBudget)), (Met, Met));
        assert_eq!((Met.and(Missed), Undecided.and(Missed)), (Missed, Missed));
        assert_eq!((Met.and(Undecided), Undecided.and(Undecided)), (Undecided, Undecided));
    }

    #[test]
    fn without_an_interval_nothing_is_decided() {
        assert_eq!(judge(Budget::RatioAtMost(1.25), None), BudgetVerdict::Undecided);
        assert_eq!(BudgetVerdict::of(Budget::FigureAtLeast(1.0), None), BudgetVerdict::Undecided);
    }
}
