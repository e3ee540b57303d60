//! What was found in a cell: each peer and bare loop beside each of farcall's transports.

use farcall::TransportKind;

use super::arm::Arm;
use super::rows::CellRun;
use super::{Path, PeerStatistic};
use crate::run::regime::Regime;
use crate::statistics::bootstrap::{Ratio, median, ratio_of_medians};
use crate::units::Size;

/// A figure that is printed in steps of more than this part of it is no figure.
const STEP_MAX: f64 = 0.02;

/// What an arm found in a block.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Found {
    /// Medians and means of round trips, in nanoseconds, and the rate.
    Farcall { p50: f64, mean: f64, trimmed: f64, per_second: f64 },
    /// One figure and the step in which it was printed.
    Other { value: f64, step: f64 },
    /// Nothing, and why.
    Nothing(String),
}

/// What is found for a peer beside a transport.
#[derive(Clone, Debug, PartialEq)]
pub struct CellLine {
    /// Where both run.
    pub path: Path,
    /// Length of messages or objects.
    pub size: Size,
    /// Requests in flight.
    pub in_flight: usize,
    /// farcall's transport.
    pub transport: TransportKind,
    /// The peer's name.
    pub peer: String,
    /// What both figures are: times in nanoseconds, or with many in flight requests per second.
    pub statistic: Option<PeerStatistic>,
    /// The figures and their ratio, or why there are none.
    pub outcome: Result<PeerOutcome, String>,
    /// Blocks in which the cores moved.
    pub discarded: usize,
}

/// Two figures of the same kind, and how they compare.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PeerOutcome {
    /// Where the cores were.
    pub regime: Regime,
    /// farcall's figure: the median of its blocks.
    pub farcall: f64,
    /// The peer's.
    pub peer: f64,
    /// farcall's over the peer's.
    pub ratio: Ratio,
}

impl CellRun {
    /// What was found: each peer and bare loop beside each transport, in each regime that the cores were in.
    pub fn lines(&self) -> Vec<CellLine> {
        let transports = self.arms.iter().enumerate().filter_map(|(index, arm)| match arm {
            Arm::Farcall(transport, _) => Some((index, *transport)),
            _ => None,
        });
        let others = |(farcall, transport)| {
            let others = (0..self.arms.len()).filter(|&arm| !matches!(self.arms[arm], Arm::Farcall(..)));
            others.flat_map(move |arm| self.lines_of(farcall, transport, arm))
        };
        transports.flat_map(others).collect()
    }

    fn lines_of(&self, farcall: usize, transport: TransportKind, arm: usize) -> Vec<CellLine> {
        let line = |outcome| CellLine {
            path: self.path,
            size: self.size,
            in_flight: self.in_flight,
            transport,
            peer: self.arms[arm].name(),
            statistic: self.arms[arm].statistic(),
            outcome,
            discarded: self.blocks.discarded,
        };
        let regimes = self.blocks.regimes();
        if regimes.is_empty() {
            let moved = self.blocks.discarded > 0;
            let why = if moved { "the cores moved during every block" } else { "no block was measured" };
            return vec![line(Err(why.to_owned()))];
        }
        // A cell without numbers says why once, not for each regime.
        let found = regimes.iter().map(|&regime| self.outcome(farcall, arm, regime));
        match found.collect::<Result<Vec<_>, _>>() {
            Ok(outcomes) => outcomes.into_iter().map(|outcome| line(Ok(outcome))).collect(),
            Err(why) => vec![line(Err(why))],
        }
    }

    fn outcome(&self, farcall: usize, arm: usize, regime: Regime) -> Result<PeerOutcome, String> {
        let both = [farcall, arm].map(|arm| self.blocks.of_arm(regime, arm));
        if let Some(Found::Nothing(why)) =
            both.into_iter().flatten().find(|found| matches!(found, Found::Nothing(_)))
        {
            return Err(why.clone());
        }
        let coarse =
            |found: &&Found| matches!(found, Found::Other { value, step } if *step > STEP_MAX * value);
        if let Some(Found::Other { value, step }) = self.blocks.of_arm(regime, arm).find(coarse) {
            return Err(format!("it prints its figure in steps of {:.0} % of it", step / value * 100.0));
        }
        let statistic = self.arms[arm].statistic();
        let rate = self.in_flight > 1;
        let figure = |found: &Found| match (found, statistic) {
            (Found::Farcall { per_second, .. }, _) if rate => Some(*per_second),
            (Found::Farcall { p50, .. }, None | Some(PeerStatistic::P50)) => Some(*p50),
            (Found::Farcall { trimmed, .. }, Some(PeerStatistic::LeastMean)) => Some(*trimmed),
            (Found::Farcall { mean, .. }, _) => Some(*mean),
            (Found::Other { value, .. }, _) => Some(*value),
            (Found::Nothing(_), _) => None,
        };
        let pairs = self.blocks.pairs(regime, farcall, arm, figure);
        let nothing = || "too few blocks".to_owned();
        let of = |side: fn(&(f64, f64)) -> f64| median(&pairs.iter().map(side).collect::<Vec<_>>());
        Ok(PeerOutcome {
            regime,
            farcall: of(|pair| pair.0).ok_or_else(nothing)?,
            peer: of(|pair| pair.1).ok_or_else(nothing)?,
            ratio: ratio_of_medians(&pairs, self.seed).ok_or_else(nothing)?,
        })
    }
}
