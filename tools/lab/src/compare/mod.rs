//! farcall against what the machine can do: the rows of the performance budget that rest on a limit. Or one
//! build of farcall against another, in the same rows.
//!
//! Each row has two arms. In every block of a row both run once, in random order, between two looks at how
//! far the cores are apart and whether somebody else uses them; the row's figure is the ratio of the medians
//! of the blocks in one regime, with its interval.

mod arm;
pub mod peers;
mod rows;
mod verdict;

use core::time::Duration;

use farcall::parameters::Settings;

use crate::record::Unit;
use crate::run::bench::{Bench, BenchError};
use crate::run::blocks::{BlockPlan, Blocks, Distance};
use crate::run::program::Program;
use crate::run::regime::{Regime, Standing, regime_between};
use crate::statistics::bootstrap::{Ratio, median, ratio_of_medians};
use arm::Arm;

pub use rows::{Budget, BudgetRow, rows, rows_of_builds};
pub use verdict::BudgetVerdict;

/// How many blocks are tried for each one that is to be kept, while the cores move or others come and go.
const TRIES_PER_BLOCK: usize = 3;

/// How the comparison is done.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparePlan {
    /// Parameters, each as `name=value`.
    pub assignments: Vec<String>,
    /// The same, checked.
    pub settings: Settings,
    /// Another build of this program, to be compared with instead of the limits.
    pub program: Option<Program>,
    /// Blocks of each row.
    pub blocks: usize,
    /// How long each arm runs in a block.
    pub arm_lasting: Duration,
    /// How long to wait before each block, at most, until nobody else uses the cores.
    pub patience: Duration,
    /// Decides orders and resampling.
    pub seed: u64,
}

/// What was found for a row while the cores were in one regime.
#[derive(Clone, Debug, PartialEq)]
pub struct RowOutcome {
    /// Where the cores were.
    pub regime: Regime,
    /// How many blocks the figures rest on.
    pub blocks: usize,
    /// farcall's figure, in the row's unit.
    pub farcall: f64,
    /// What it is compared with, in the same unit; `None` for rows that have nothing beside them.
    pub other: Option<f64>,
    /// farcall's figure over the other.
    pub ratio: Option<Ratio>,
    /// Whether the budget is kept.
    pub verdict: BudgetVerdict,
}

/// A row under measurement: call [`RowRun::block`] as often as there are blocks, best alternately with other
/// rows.
pub struct RowRun {
    row: BudgetRow,
    comparison: ComparePlan,
    arms: ArmsByPlace,
    /// The orders of the blocks that may still be run.
    orders: std::vec::IntoIter<Vec<usize>>,
    blocks: Blocks<f64>,
}

/// The arms of a row, with the bare loop that is the fastest where the cores are: another one near than far.
/// Where the distance makes no difference they are those of near cores.
struct ArmsByPlace {
    count: usize,
    near: Option<Vec<Arm>>,
    far: Option<Vec<Arm>>,
}

impl ArmsByPlace {
    /// Finds those for where the cores are now.
    fn new(row: &BudgetRow, comparison: &ComparePlan, bench: &Bench) -> Result<Self, BenchError> {
        let mut places = Self { count: 0, near: None, far: None };
        places.find(bench.standing()?, row, comparison, bench)?;
        Ok(places)
    }

    /// Those for cores that stand like this; `None` when they moved while these were looked for.
    fn find(
        &mut self,
        standing: Standing,
        row: &BudgetRow,
        comparison: &ComparePlan,
        bench: &Bench,
    ) -> Result<Option<&[Arm]>, BenchError> {
        let depends = row.depends_on_distance();
        let place = match Regime::of(standing) {
            Regime::Far | Regime::FarCrowded | Regime::Ranks if depends => &mut self.far,
            _ => &mut self.near,
        };
        if place.is_none() {
            let arms = row.arms(comparison, bench)?;
            self.count = arms.len();
            let stood = regime_between(standing.distance_nanos, bench.distance_nanos()?).is_some();
            *place = (stood || !depends).then_some(arms);
        }
        Ok(place.as_deref())
    }
}

impl RowRun {
    /// Prepares a row: finds the fastest way to reach its limit, as the cores are now.
    pub fn new(row: BudgetRow, comparison: &ComparePlan, bench: &Bench) -> Result<Self, BenchError> {
        let arms = ArmsByPlace::new(&row, comparison, bench)?;
        let blocks = comparison.blocks * TRIES_PER_BLOCK;
        let orders = BlockPlan { arms: arms.count, blocks, seed: comparison.seed }.orders().into_iter();
        Ok(Self { row, comparison: comparison.clone(), arms, orders, blocks: Blocks::new() })
    }

    /// The row.
    pub fn row(&self) -> &BudgetRow {
        &self.row
    }

    /// The unit of its figures.
    pub fn unit(&self) -> Unit {
        self.row.unit()
    }

    /// Whether there are enough blocks, or so many were discarded that no more are tried.
    pub fn is_complete(&self) -> bool {
        self.blocks.kept.len() >= self.comparison.blocks || self.orders.len() == 0
    }

    /// Runs one more block, unless the row is complete.
    pub fn block(&mut self, bench: &Bench) -> Result<(), BenchError> {
        if self.is_complete() {
            return Ok(());
        }
        let Some(order) = self.orders.next() else { return Ok(()) };
        bench.wait_until_alone(self.comparison.patience)?;
        let before = bench.standing()?;
        let Some(arms) = self.arms.find(before, &self.row, &self.comparison, bench)? else {
            self.blocks.discarded += 1;
            return Ok(());
        };
        // The look before the block is the one that the arms were chosen by.
        let mut before = Some(before);
        let standing = || before.take().map_or_else(|| bench.standing(), Ok);
        let block = self.blocks.distances.len() as u64;
        self.blocks.run(&order, standing, |arm| arms[arm].measure(bench, block))
    }

    /// How the cores stood around every block.
    pub fn distances(&self) -> &[Distance] {
        &self.blocks.distances
    }

    /// Blocks during which the cores moved, or others came to them or went.
    pub fn discarded(&self) -> usize {
        self.blocks.discarded
    }

    /// What was found, for each regime that the cores were in.
    pub fn outcomes(&self) -> Vec<RowOutcome> {
        self.blocks.regimes().into_iter().filter_map(|regime| self.outcome(regime)).collect()
    }

    fn outcome(&self, regime: Regime) -> Option<RowOutcome> {
        let figures = |arm| self.blocks.of_arm(regime, arm).copied().collect::<Vec<f64>>();
        let farcall = median(&figures(0))?;
        let compared = self.arms.count > 1;
        let pairs =
            if compared { self.blocks.pairs(regime, 0, 1, |&figure| Some(figure)) } else { Vec::new() };
        let ratio = ratio_of_medians(&pairs, self.comparison.seed);
        Some(RowOutcome {
            regime,
            blocks: figures(0).len(),
            farcall,
            other: compared.then(|| median(&figures(1))).flatten(),
            ratio,
            verdict: self.row.verdict(&figures(0), &pairs, ratio, self.comparison.seed),
        })
    }
}
