//! The default search on landscapes whose truth is known, over the published space of 37,730 rows.

use farcall_tune::evidence::TrialOutcome;
use farcall_tune::import::otpo;
use farcall_tune::landscape::{Landscape, Shape};
use farcall_tune::metric::{Goal, Metric, Role};
use farcall_tune::result::{EquivalenceSet, Summary, lines};
use farcall_tune::search::{Halving, Problem, RandomProposer};
use farcall_tune::session::Session;
use farcall_tune::space::Rows;

/// Trials of a tuning, without the confirmation: with it less than a tenth of brute force.
const BUDGET: usize = 3_500;

fn problem() -> Problem {
    let file =
        otpo::read(include_str!("../../../examples/tuning/otpo-openib.params")).expect("the file is right");
    let space = file.space().expect("the space is right");
    let rows = Rows::of(&space, 1).expect("there are rows");
    let role = Role::Objective { indifference: 0.0 };
    let metric = Metric { name: "latency".to_owned(), unit: "ns".to_owned(), goal: Goal::Min, role };
    Problem::new(space, rows, vec![metric])
}

struct Found {
    regret: f64,
    samples: usize,
    covered: bool,
    members: usize,
}

/// A tuning to its end, the confirmation included.
fn tuned<'a>(problem: &'a Problem, landscape: &Landscape, budget: usize, seed: u64) -> Session<'a> {
    let proposer = Box::new(RandomProposer::new(problem, seed));
    let search = Halving::new(budget, problem.environments.len(), proposer, seed);
    let mut session = Session::new(problem, Box::new(search), 20, seed);
    while let Some(trial) = session.next_trial().expect("nothing fails") {
        let value = landscape.measure(trial.environment, trial.number);
        session.record(None, TrialOutcome::Measured(vec![value]));
    }
    session
}

fn tune(problem: &Problem, landscape: &Landscape, budget: usize, seed: u64) -> Found {
    let session = tuned(problem, landscape, budget, seed);
    let known = session.knowledge();
    let set = EquivalenceSet::new(&known, 0).expect("there are samples");
    let best = landscape.best();
    Found {
        regret: landscape.truth(set.best) - landscape.truth(best),
        samples: session.evidence().samples().len(),
        covered: set.members.contains(&best),
        members: set.members.len(),
    }
}

/// Every row once, in random order or that of the file; the least figure wins.
fn brute_force(problem: &Problem, landscape: &Landscape) -> f64 {
    let figure = |row: &usize| landscape.measure(problem.environments.of_row(*row), *row);
    let pick =
        (0..problem.rows.len()).min_by(|one, other| figure(one).total_cmp(&figure(other))).expect("rows");
    landscape.truth(problem.environments.of_row(pick)) - landscape.truth(landscape.best())
}

/// What some seeds come to, beside brute force.
struct Comparison {
    found: Vec<Found>,
    brute_force: Vec<f64>,
}

impl Comparison {
    fn new(seeds: u64) -> Self {
        let problem = problem();
        let (mut found, mut forced) = (Vec::new(), Vec::new());
        for seed in 0..seeds {
            let Problem { space, rows, environments, .. } = &problem;
            let landscape = Landscape::new(space, rows, environments, Shape::PEAKED, seed);
            let one = tune(&problem, &landscape, BUDGET, seed);
            let brute = brute_force(&problem, &landscape);
            println!(
                "seed {seed}: regret {:.2} ns after {} trials, brute force {brute:.2} ns; the set has {} of {}, the best {}",
                one.regret,
                one.samples,
                one.members,
                environments.len(),
                if one.covered { "among them" } else { "not" }
            );
            found.push(one);
            forced.push(brute);
        }
        Self { found, brute_force: forced }
    }

    fn check(&self) {
        let count = self.found.len() as f64;
        let regret = self.found.iter().map(|one| one.regret).sum::<f64>() / count;
        let brute_force = self.brute_force.iter().sum::<f64>() / count;
        let covered = self.found.iter().filter(|one| one.covered).count();
        let members = self.found.iter().map(|one| one.members).sum::<usize>() as f64 / count;
        println!(
            "mean regret {regret:.2} ns, brute force {brute_force:.2} ns; covered {covered} of {count}; the set has {members:.0} on average"
        );
        assert!(regret <= brute_force, "{regret} against {brute_force}");
        assert!(self.found.iter().all(|one| one.samples * 10 <= 37_730), "a tenth of the trials");
        assert!(covered as f64 >= 0.95 * count, "{covered} of {count}");
    }
}

/// On landscapes where nothing matters: the set is (nearly) everything, and the report says so.
fn check_flat(seeds: u64) {
    let problem = problem();
    for seed in 0..seeds {
        let Problem { space, rows, environments, .. } = &problem;
        let landscape = Landscape::new(space, rows, environments, Shape::FLAT, seed);
        let session = tuned(&problem, &landscape, BUDGET, seed);
        let summary = Summary::new(&session).expect("there are samples");
        let found = summary.metrics[0].set_environments;
        println!("flat, seed {seed}: the set has {found} of {}", environments.len());
        assert!(found * 100 >= environments.len() * 99, "{found} of {}", environments.len());
        let text = lines(&summary).join("\n");
        assert!(text.contains("nothing matters: no configuration can be told apart from the best"), "{text}");
    }
}

#[test]
fn a_tenth_of_the_trials_regrets_no_more_than_brute_force_and_the_best_is_in_the_set() {
    Comparison::new(2).check();
}

#[test]
fn on_a_flat_landscape_the_set_is_nearly_everything() {
    check_flat(1);
}

#[test]
#[ignore = "takes minutes; the figures in docs/tuning.md come from it"]
fn the_same_over_forty_landscapes() {
    Comparison::new(40).check();
    check_flat(40);
}
