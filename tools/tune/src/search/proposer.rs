//! The chooser of environments to screen: chance, a model, or a program outside.

use farcall_base::Random;

use super::{Knowledge, Problem, SearchError};
use crate::space::NOT_IN_PLAY;

/// Says what to screen.
pub trait Proposer {
    /// About `count` environments, each once; none when there is nothing left to propose.
    fn propose(&mut self, known: &Knowledge, count: usize) -> Result<Vec<usize>, SearchError>;
}

/// Every environment once, in an order that is random and meets all levels of all parameters about equally
/// often.
pub struct RandomProposer {
    waiting: Vec<usize>,
    /// How often each level of each parameter was proposed.
    met: Vec<Vec<usize>>,
    random: Random,
}

/// Among how many random environments the one with the rarest levels is chosen.
const CANDIDATES: usize = 8;

impl RandomProposer {
    /// The order that `seed` decides.
    pub fn new(problem: &Problem, seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x7363_7265);
        let mut waiting: Vec<usize> = (0..problem.environments.len()).collect();
        random.shuffle(&mut waiting);
        let met = problem.space.parameters.iter().map(|parameter| vec![0; parameter.levels.len()]).collect();
        Self { waiting, met, random }
    }

    fn next(&mut self, problem: &Problem) -> Option<usize> {
        // Each level counts for as much as its parameter has levels, so that all parameters weigh the same.
        let commonness = |place: &usize| {
            let levels = problem.row(self.waiting[*place]).iter().zip(&self.met);
            levels.filter_map(|(level, met)| Some(met.get(usize::from(*level))? * met.len())).sum::<usize>()
        };
        let count = self.waiting.len().min(CANDIDATES);
        let first = self.random.index(self.waiting.len().max(1));
        let places = (0..count).map(|step| (first + step) % self.waiting.len());
        let place = places.min_by_key(commonness)?;
        let chosen = self.waiting.swap_remove(place);
        for (level, met) in problem.row(chosen).iter().zip(&mut self.met) {
            if let Some(met) = met.get_mut(usize::from(*level)) {
                *met += 1;
            }
        }
        Some(chosen)
    }
}

impl Proposer for RandomProposer {
    fn propose(&mut self, known: &Knowledge, count: usize) -> Result<Vec<usize>, SearchError> {
        Ok((0..count).filter_map(|_| self.next(known.problem)).collect())
    }
}

/// The row that agrees with the most wanted levels.
pub(super) fn nearest_row(problem: &Problem, wanted: &[Option<u16>]) -> usize {
    let agreement = |row: &[u16]| {
        let agree = |(level, wanted): (&u16, &Option<u16>)| match wanted {
            Some(wanted) if level == wanted => 2,
            // A parameter that is not in play cannot disagree.
            Some(_) if *level == NOT_IN_PLAY => 1,
            _ => 0,
        };
        row.iter().zip(wanted).map(agree).sum::<usize>()
    };
    let rows = problem.rows.iter().enumerate();
    rows.max_by_key(|(id, row)| (agreement(row), usize::MAX - id)).map_or(0, |(id, _)| id)
}
