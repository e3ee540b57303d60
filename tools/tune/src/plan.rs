//! How a search is done, decided once and kept in the journal.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::experiment::{SearchEntry, StrategyName};
use crate::search::{
    Design, ExternalProposer, Halving, Listed, Problem, Proposer, Race, RandomProposer, Search, SearchError,
    TpeProposer,
};

/// How often finalists are run again unless the file says otherwise.
const CONFIRMATIONS: usize = 20;

/// Samples for each level of a parameter, unless the file says otherwise: enough for its effect to stand out
/// when it is as large as the noise.
const SAMPLES_PER_LEVEL: usize = 40;

/// The fewest and the most samples that are planned unasked.
const BUDGET: core::ops::RangeInclusive<usize> = 120..=3_000;

/// How a search is done.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Plan {
    /// The strategy.
    pub strategy: StrategyName,
    /// About how many trials there are, without the confirmation.
    pub budget: usize,
    /// How often finalists are run again.
    pub confirm: usize,
    /// Decides every random choice.
    pub seed: u64,
    /// The program that proposes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposer: Option<Vec<String>>,
    /// Whether the tuning is rehearsed on a synthetic landscape.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub rehearsal: bool,
    /// Whether that landscape is flat.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub flat: bool,
    /// Whether the cores are watched.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub watch_cores: bool,
}

impl Plan {
    /// The plan for a problem, as far as the file and the command line leave it open.
    pub fn new(problem: &Problem, entry: &SearchEntry, seed: u64) -> Self {
        let default = if entry.proposer.is_some() { StrategyName::Proposer } else { StrategyName::Halving };
        let unasked = (problem.levels() * SAMPLES_PER_LEVEL).clamp(*BUDGET.start(), *BUDGET.end());
        Self {
            strategy: entry.strategy.unwrap_or(default),
            budget: entry.budget.unwrap_or(unasked).max(1),
            confirm: entry.confirm.unwrap_or(CONFIRMATIONS),
            seed,
            proposer: entry.proposer.clone(),
            rehearsal: false,
            flat: false,
            watch_cores: entry.watch_cores.unwrap_or(false),
        }
    }

    /// The search. `recorded` are the blocks that a proposer outside made before the tuning was resumed.
    pub fn search(
        &self,
        problem: &Problem,
        recorded: VecDeque<Vec<usize>>,
    ) -> Result<Box<dyn Search>, SearchError> {
        let (count, seed) = (problem.environments.len(), self.seed);
        let halving = |proposer: Box<dyn Proposer>| -> Box<dyn Search> {
            Box::new(Halving::new(self.budget, count, proposer, seed))
        };
        let listed = |design: Design, expected: usize| -> Box<dyn Search> {
            let repeats = (self.budget / expected.max(1)).max(1);
            Box::new(Listed::new(problem, design, repeats, seed))
        };
        Ok(match self.strategy {
            StrategyName::Halving => halving(Box::new(RandomProposer::new(problem, seed))),
            StrategyName::Tpe => halving(Box::new(TpeProposer::new(problem, seed))),
            StrategyName::Proposer => {
                let command = self.proposer.clone().unwrap_or_default();
                halving(Box::new(ExternalProposer::start(&command, seed, recorded)?))
            }
            StrategyName::Exhaustive => listed(Design::Exhaustive, count),
            StrategyName::Random => {
                // Each row three times: enough to see the noise, few enough to see many rows.
                let rows = (self.budget / 3).clamp(1, count);
                listed(Design::Random(rows), rows)
            }
            StrategyName::OneAtATime => {
                listed(Design::OneAtATime, problem.neighbours(problem.reference).len())
            }
            StrategyName::Factorial => {
                let runs_max = (self.budget / 2).max(2);
                let design = Design::Factorial { runs_max };
                let mut random = farcall_base::Random::new(seed);
                listed(design, design.environments(problem, &mut random).len())
            }
            StrategyName::Race => {
                let mut random = farcall_base::Random::new(seed);
                // A field of which every member can run often enough to be told from the best.
                let field =
                    Design::Random((self.budget / 12).clamp(2, 256)).environments(problem, &mut random);
                Box::new(Race::new(field, self.budget, seed))
            }
        })
    }
}
