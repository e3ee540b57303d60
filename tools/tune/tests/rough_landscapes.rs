//! Tunings of rough landscapes: samples ten times too long, two optima, a parameter that matters only
//! together with another one, rows that fail, a machine that slows down, and nothing at all.

mod common;

use farcall_base::Random;
use farcall_tune::evidence::{Censored, TrialOutcome};
use farcall_tune::model::normal::draw;
use farcall_tune::result::{EquivalenceSet, Summary, lines};
use farcall_tune::search::{Halving, Problem, RandomProposer};
use farcall_tune::session::Session;

/// The share of seeds for which the best row has to be in the set.
const COVERED_MIN: f64 = 0.95;

/// How often finalists run again.
const CONFIRM: usize = 20;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
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

struct Rough {
    kind: Kind,
    seed: u64,
    factors: usize,
    levels: u16,
}

impl Rough {
    fn new(kind: Kind, seed: u64) -> Self {
        let (factors, levels) = match kind {
            Kind::TwoOptima => (4, 6),
            Kind::Xor => (12, 2),
            _ => (5, 4),
        };
        Self { kind, seed, factors, levels }
    }

    fn problem(&self) -> Problem {
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
        common::experiment(&format!("{space}[[metric]]\nname = \"latency\"\nunit = \"us\"\n")).0
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

    /// What a row takes in truth; `None` where it fails.
    fn truth(&self, row: &[u16]) -> Option<f64> {
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

    /// The relative noise of a sample.
    fn noise(&self) -> f64 {
        match self.kind {
            Kind::Xor => 0.02,
            Kind::Flat | Kind::TwoOptima => 0.01,
            _ => 0.005,
        }
    }

    fn measure(&self, row: &[u16], number: usize, budget: usize) -> TrialOutcome {
        let Some(truth) = self.truth(row) else {
            return TrialOutcome::Censored(Censored { why: "it crashed".to_owned(), log: None });
        };
        let mut random = Random::new(self.seed.wrapping_mul(0x2545_f491).wrapping_add(number as u64));
        let mut figure = truth * (self.noise() * draw(&mut random)).exp();
        match self.kind {
            Kind::Outliers(share) if random.unit() < share => figure *= 10.0,
            Kind::Drift => figure *= 1.0 + 0.2 * number as f64 / budget as f64,
            _ => {}
        }
        TrialOutcome::Measured(vec![figure])
    }
}

/// What a tuning came to.
struct Found {
    covered: bool,
    regret: f64,
    simplest_regret: f64,
    summary: Summary,
}

fn tune(rough: &Rough) -> Found {
    let problem = rough.problem();
    let budget = 40 * problem.levels();
    let proposer = Box::new(RandomProposer::new(&problem, rough.seed));
    let search = Halving::new(budget, problem.environments.len(), proposer, rough.seed);
    let mut session = Session::new(&problem, Box::new(search), CONFIRM, rough.seed);
    while let Some(trial) = session.next_trial().expect("something runs") {
        session.record(None, rough.measure(problem.row(trial.environment), trial.number, budget));
    }
    let truth = |environment: usize| rough.truth(problem.row(environment)).unwrap_or(f64::INFINITY);
    let least = (0..problem.environments.len()).map(truth).fold(f64::INFINITY, f64::min);
    let set = EquivalenceSet::new(&session.knowledge(), 0).expect("there are samples");
    let summary = Summary::new(&session).expect("there are samples");
    let row = problem.space.row_of(&summary.metrics[0].simplest.row).expect("it is described");
    let simplest = problem.environments.of_row(problem.rows.find(&row).expect("it is a row"));
    Found {
        covered: set.members.iter().any(|&one| truth(one) <= least * (1.0 + 1e-9)),
        regret: truth(set.best) / least - 1.0,
        simplest_regret: truth(simplest) / least - 1.0,
        summary,
    }
}

/// Tunes a landscape of each seed, prints a line, and returns what was found.
fn tune_all(kind: Kind, seeds: u64) -> Vec<Found> {
    let found: Vec<_> = (0..seeds).map(|seed| tune(&Rough::new(kind, seed))).collect();
    let covered = found.iter().filter(|one| one.covered).count();
    let mean = |figure: fn(&Found) -> f64| found.iter().map(figure).sum::<f64>() / found.len() as f64;
    println!(
        "{kind:?}: the best in the set in {covered} of {seeds}; regret of best {:.2} %, of simplest {:.2} %; {:.0} of {} in the set",
        mean(|one| one.regret) * 100.0,
        mean(|one| one.simplest_regret) * 100.0,
        mean(|one| one.summary.metrics[0].set_environments as f64),
        found[0].summary.environments,
    );
    assert!(covered as f64 >= COVERED_MIN * seeds as f64, "{kind:?}: {covered} of {seeds}");
    found
}

/// Every landscape with so many seeds, and what each has to show beside the best in the set.
fn check(seeds: u64) {
    for share in [0.01, 0.05, 0.1] {
        let found = tune_all(Kind::Outliers(share), seeds);
        for one in &found {
            let metric = &one.summary.metrics[0];
            assert!(
                metric.set_environments * 2 < one.summary.environments,
                "{} in the set",
                metric.set_environments
            );
            let expected = share * metric.figures as f64;
            let off = (metric.accidents as f64 - expected).abs();
            assert!(
                off <= 5.0 * expected.sqrt(),
                "{} outliers where {expected:.0} are expected",
                metric.accidents
            );
            assert!(!metric.nothing_matters && !metric.default_in_set);
        }
    }
    tune_all(Kind::TwoOptima, seeds);
    for one in tune_all(Kind::Xor, seeds) {
        let metric = &one.summary.metrics[0];
        assert_eq!(metric.simplest.changes, 1, "{:?}", metric.simplest.row);
        assert!(metric.path.iter().filter(|step| step.credited).count() <= 2, "{:#?}", metric.path);
    }
    tune_all(Kind::Cliff, seeds);
    tune_all(Kind::Drift, seeds);
    for one in tune_all(Kind::Flat, seeds) {
        assert!(lines(&one.summary).join("\n").contains("nothing matters"), "{:?}", one.summary.metrics[0]);
    }
}

#[test]
fn outliers_optima_pairs_cliffs_and_drift_are_survived() {
    check(2);
}

#[test]
#[ignore = "takes an hour"]
fn the_same_over_forty_rough_landscapes() {
    check(40);
}
