//! Rates that are compared: those of one transport, length and number in flight, farcall's ways and the
//! library's plain loops.
//!
//! They are measured in blocks, in each of which every one runs once. Where the cores are far from each other
//! a message with none beside it takes three times as long, and the host moves them every few minutes, so
//! that figures of different blocks say little about each other.

use super::{MessageRate, MessageRateError, MessageRateResult, run_on};
use crate::run::bench::{Bench, BenchError};
use crate::run::blocks::{BlockPlan, Blocks, Distance};
use crate::run::regime::Regime;
use crate::statistics::bootstrap::{Ratio, median, ratio_of_medians};

/// How many blocks are tried for each one that is to be kept, while the cores move or others come and go.
const TRIES_PER_BLOCK: usize = 3;

/// A cell under measurement: call [`RateCell::block`] until it is complete.
pub struct RateCell {
    rates: Vec<MessageRate>,
    orders: std::vec::IntoIter<Vec<usize>>,
    blocks: Blocks<Option<MessageRateResult>>,
    /// What each rate was last, for cells whose every block was discarded.
    last: Vec<Option<MessageRateResult>>,
    /// Why plain loops failed. They are not tried again: some take minutes for what farcall does in
    /// milliseconds.
    failed: Vec<Option<String>>,
    wanted: usize,
    seed: u64,
}

/// What was found for a rate while the cores were in one regime.
#[derive(Clone, Debug, PartialEq)]
pub struct RateLine {
    /// Which of the cell's rates.
    pub rate: MessageRate,
    /// Where the cores were; `None` when they never stood still.
    pub regime: Option<Regime>,
    /// The run with the median time; the last one when the cores never stood still. Or why a plain loop
    /// failed.
    pub result: Result<MessageRateResult, String>,
    /// Its time over that of the rate that all are held against; `None` for that one.
    pub ratio: Option<Ratio>,
    /// Runs during which the cores moved, or others came to them or went.
    pub discarded: usize,
}

impl RateCell {
    /// A cell of these rates, of which this many runs are wanted. The seed decides orders and resampling.
    pub fn new(rates: Vec<MessageRate>, runs: usize, seed: u64) -> Self {
        let plan = BlockPlan { arms: rates.len(), blocks: runs * TRIES_PER_BLOCK, seed };
        let (last, failed) = (vec![None; rates.len()], vec![None; rates.len()]);
        let orders = plan.orders().into_iter();
        Self { rates, orders, blocks: Blocks::new(), last, failed, wanted: runs, seed }
    }

    /// Its rates.
    pub fn rates(&self) -> &[MessageRate] {
        &self.rates
    }

    /// Whether there are enough runs, or so many were discarded that no more are tried.
    pub fn is_complete(&self) -> bool {
        self.blocks.kept.len() >= self.wanted || self.orders.len() == 0
    }

    /// Runs each rate once more, after telling which; nothing when the cell is complete.
    pub fn block(&mut self, bench: &Bench, mut begin: impl FnMut(&MessageRate)) -> Result<(), BenchError> {
        if self.is_complete() {
            return Ok(());
        }
        let Some(order) = self.orders.next() else { return Ok(()) };
        // Every block has draws of its own.
        let number = self.orders.len() as u64;
        let Self { rates, blocks, last, failed, .. } = self;
        let measure = |place: usize| {
            if failed[place].is_some() {
                return Ok(None);
            }
            begin(&rates[place]);
            match run_on(bench, &rates[place].of_block(number)) {
                Err(MessageRateError::Failed { why, .. }) if rates[place].raw.is_some() => {
                    failed[place] = Some(why);
                    Ok(None)
                }
                result => {
                    last[place] = Some(result?);
                    Ok(last[place].clone())
                }
            }
        };
        blocks.run(&order, || bench.standing(), measure)
    }

    /// How the cores stood around every block.
    pub fn distances(&self) -> &[Distance] {
        &self.blocks.distances
    }

    /// What was found, in each regime that the cores were in.
    pub fn lines(&self) -> Vec<RateLine> {
        let regimes = self.blocks.regimes();
        if regimes.is_empty() {
            return (0..self.rates.len()).filter_map(|place| self.line(place, None, None)).collect();
        }
        regimes.into_iter().flat_map(|regime| self.lines_in(regime)).collect()
    }

    fn lines_in(&self, regime: Regime) -> Vec<RateLine> {
        let held_against = self.held_against(regime);
        let line = |place| {
            let ratio = (place != held_against).then(|| self.ratio(regime, place, held_against)).flatten();
            self.line(place, Some(regime), ratio)
        };
        (0..self.rates.len()).filter_map(line).collect()
    }

    fn line(&self, place: usize, regime: Option<Regime>, ratio: Option<Ratio>) -> Option<RateLine> {
        let result = match (&self.failed[place], regime) {
            (Some(why), _) => Err(why.clone()),
            (None, Some(regime)) => Ok(self.middle(regime, place)?),
            (None, None) => Ok(self.last[place].clone()?),
        };
        let (rate, discarded) = (self.rates[place].clone(), self.blocks.discarded);
        Some(RateLine { rate, regime, result, ratio, discarded })
    }

    /// The rate that all are held against: of the plain loops the one with the least median, without any the
    /// first of all.
    fn held_against(&self, regime: Regime) -> usize {
        let time = |place: usize| {
            let times: Vec<f64> = self.blocks.of_arm(regime, place).filter_map(nanos).collect();
            median(&times).unwrap_or(f64::INFINITY)
        };
        let plain = (0..self.rates.len()).filter(|&place| self.rates[place].raw.is_some());
        plain.min_by(|&one, &other| time(one).total_cmp(&time(other))).unwrap_or(0)
    }

    fn ratio(&self, regime: Regime, one: usize, other: usize) -> Option<Ratio> {
        ratio_of_medians(&self.blocks.pairs(regime, one, other, nanos), self.seed)
    }

    /// The run with the median time, the longer one of two.
    fn middle(&self, regime: Regime, place: usize) -> Option<MessageRateResult> {
        let mut results: Vec<_> = self.blocks.of_arm(regime, place).flatten().collect();
        results.sort_by_key(|result| result.elapsed);
        results.get(results.len() / 2).copied().cloned()
    }
}

fn nanos(result: &Option<MessageRateResult>) -> Option<f64> {
    Some(result.as_ref()?.elapsed.as_nanos() as f64)
}
