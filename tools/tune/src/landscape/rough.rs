//! Rough landscapes: samples ten times too long, two optima, a parameter that matters only together with
//! another one, rows that fail, a machine that slows down, and nothing at all.
//!
//! Their truth is known, so that a search can be scored, ours and those of others on the same ones.

use core::fmt;
use core::str::FromStr;

use farcall_base::Random;

use crate::evidence::{Censored, TrialOutcome};
use crate::experiment::ExperimentFile;
use crate::model::normal::draw;
use crate::search::{Halving, Problem, Proposer};
use crate::session::{Session, SessionError};
use crate::space::Rows;

/// How often finalists run again.
const CONFIRM: usize = 20;

/// Measurements for each value of each parameter.
const BUDGET_OF_LEVEL: usize = 40;

/// What a row may be worse than the best one and still be as good: arithmetic rounds.
const SAME: f64 = 1e-9;

/// What makes a landscape rough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Additive, and this share of the samples is ten times too long.
    Outliers(f64),
    /// Two hollows far from each other.
    TwoOptima,
    /// Two of twelve switches, of which exactly one should be set.
    Xor,
    /// Additive, and rows beyond an edge fail.
    Cliff,
    /// Additive, and the machine becomes a fifth slower.
    Drift,
    /// Nothing matters.
    Flat,
}

impl Kind {
    /// All that searches are scored on.
    pub const ALL: [Self; 8] = [
        Self::Outliers(0.01),
        Self::Outliers(0.05),
        Self::Outliers(0.1),
        Self::TwoOptima,
        Self::Xor,
        Self::Cliff,
        Self::Drift,
        Self::Flat,
    ];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outliers(share) => write!(f, "outliers-{:.0}", share * 100.0),
            Self::TwoOptima => f.write_str("two-optima"),
            Self::Xor => f.write_str("xor"),
            Self::Cliff => f.write_str("cliff"),
            Self::Drift => f.write_str("drift"),
            Self::Flat => f.write_str("flat"),
        }
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(|kind| kind.to_string()).join(", ");
        let found = Self::ALL.into_iter().find(|kind| kind.to_string() == text);
        found.ok_or_else(|| format!("there is no landscape `{text}`; choose from {}", known()))
    }
}

/// A rough landscape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rough {
    kind: Kind,
    seed: u64,
    factors: usize,
    levels: u16,
}

impl Rough {
    /// The landscape of a kind that `seed` decides.
    pub fn new(kind: Kind, seed: u64) -> Self {
        let (factors, levels) = match kind {
            Kind::TwoOptima => (4, 6),
            Kind::Xor => (12, 2),
            _ => (5, 4),
        };
        Self { kind, seed, factors, levels }
    }

    /// How many parameters there are, and how many values each has.
    pub fn places(&self) -> (usize, u16) {
        (self.factors, self.levels)
    }

    /// What is searched on it.
    pub fn problem(&self) -> Problem {
        let values: Vec<_> = (0..self.levels).map(|level| level.to_string()).collect();
        let default = if self.levels > 2 { 1 } else { 0 };
        let parameter = |index: usize| {
            format!(
                "[[parameter]]\nname = \"p{index:02}\"\nkind = \"integer\"\nvalues = [{}]\ndefault = {default}\n\
                 environment = \"P{index}\"\n",
                values.join(",")
            )
        };
        let space: String = (0..self.factors).map(parameter).collect();
        let file = ExperimentFile::read(&format!("{space}[[metric]]\nname = \"latency\"\nunit = \"us\"\n"));
        let experiment = file.and_then(|file| file.experiment()).expect("it is a right description");
        let rows = Rows::of(&experiment.space, 1).expect("there are rows");
        Problem::new(experiment.space, rows, experiment.metrics)
    }

    /// About how many measurements a search of it has.
    pub fn budget(&self) -> usize {
        BUDGET_OF_LEVEL * self.factors * usize::from(self.levels)
    }

    /// The default search of it, to its end, in which `proposer` says what is screened.
    pub fn tune<'a>(
        &self,
        problem: &'a Problem,
        proposer: Box<dyn Proposer>,
    ) -> Result<Session<'a>, SessionError> {
        let search = Halving::new(self.budget(), problem.environments.len(), proposer, self.seed);
        let mut session = Session::new(problem, Box::new(search), CONFIRM, self.seed);
        while let Some(trial) = session.next_trial()? {
            session.record(None, self.measure(problem.row(trial.environment), trial.number));
        }
        Ok(session)
    }

    /// What a row takes in truth; `None` where it fails.
    pub fn truth(&self, row: &[u16]) -> Option<f64> {
        match self.kind {
            Kind::TwoOptima => {
                let place = |factor: usize| (self.draw(factor, 4) * f64::from(self.levels)).floor();
                let square = |centre: &dyn Fn(usize) -> f64| -> f64 {
                    row.iter()
                        .enumerate()
                        .map(|(factor, level)| (f64::from(*level) - centre(factor)).powi(2))
                        .sum()
                };
                let one = square(&place);
                let other = square(&|factor| f64::from(self.levels - 1) - place(factor));
                Some(10.0 * (1.0 - 0.1 * (-one / 4.0).exp() - 0.1 * (-other / 4.0).exp()))
            }
            Kind::Xor => {
                let (one, other) = self.switches();
                Some(if row[one] != row[other] { 9.2 } else { 10.0 })
            }
            Kind::Cliff if row[0] + row[1] >= 4 => None,
            Kind::Flat => Some(10.0),
            _ => Some(self.additive(row)),
        }
    }

    /// The least that any row takes in truth.
    pub fn least(&self, problem: &Problem) -> f64 {
        let truth = |environment: usize| self.truth(problem.row(environment));
        (0..problem.environments.len()).filter_map(truth).fold(f64::INFINITY, f64::min)
    }

    /// By which part a row is worse than the best one, in truth.
    pub fn regret(&self, problem: &Problem, row: &[u16]) -> f64 {
        let regret = self.truth(row).unwrap_or(f64::INFINITY) / self.least(problem) - 1.0;
        if regret <= SAME { 0.0 } else { regret }
    }

    /// What measurement number `number` finds.
    pub fn measure(&self, row: &[u16], number: usize) -> TrialOutcome {
        let Some(truth) = self.truth(row) else {
            return TrialOutcome::Censored(Censored { why: "it crashed".to_owned(), log: None });
        };
        let mut random = Random::new(self.seed.wrapping_mul(0x2545_f491).wrapping_add(number as u64));
        let mut figure = truth * (self.noise() * draw(&mut random)).exp();
        match self.kind {
            Kind::Outliers(share) if random.unit() < share => figure *= 10.0,
            Kind::Drift => figure *= 1.0 + 0.2 * number as f64 / self.budget() as f64,
            _ => {}
        }
        TrialOutcome::Measured(vec![figure])
    }

    fn draw(&self, factor: usize, use_: u64) -> f64 {
        let key = self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (factor as u64) << 8 ^ use_;
        Random::new(key).unit()
    }

    fn additive(&self, row: &[u16]) -> f64 {
        let cost = |(factor, level): (usize, &u16)| {
            let best = match self.kind {
                Kind::Cliff if factor < 2 => 3.0,
                _ => (self.draw(factor, 1) * f64::from(self.levels)).floor(),
            };
            let weight = 0.02 + 0.04 * self.draw(factor, 2);
            1.0 + weight * (f64::from(*level) - best).abs() / f64::from(self.levels - 1)
        };
        10.0 * row.iter().enumerate().map(cost).product::<f64>()
    }

    /// The two switches of which exactly one should be set.
    fn switches(&self) -> (usize, usize) {
        let one = (self.draw(0, 3) * self.factors as f64) as usize;
        let other = (self.draw(1, 3) * (self.factors - 1) as f64) as usize;
        (one, if other >= one { other + 1 } else { other })
    }

    /// The relative noise of a sample.
    fn noise(&self) -> f64 {
        match self.kind {
            Kind::Xor => 0.02,
            Kind::Flat | Kind::TwoOptima => 0.01,
            _ => 0.005,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_names() {
        for kind in Kind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        assert!("smooth".parse::<Kind>().expect_err("it is none").contains("choose from outliers-1, "));
    }

    #[test]
    fn the_best_row_regrets_nothing_and_one_that_fails_everything() {
        let rough = Rough::new(Kind::Cliff, 3);
        let problem = rough.problem();
        let regrets: Vec<f64> = (0..problem.environments.len())
            .map(|environment| rough.regret(&problem, problem.row(environment)))
            .collect();
        assert!(regrets.contains(&0.0) && regrets.contains(&f64::INFINITY), "{regrets:?}");
        assert!(regrets.iter().all(|regret| *regret >= 0.0));
        let flat = Rough::new(Kind::Flat, 3);
        assert_eq!((flat.regret(&problem, problem.row(5)), flat.budget()), (0.0, 800));
    }
}
