//! The default search on landscapes whose truth is known, over the published space of 37,730 rows.

use farcall_tune::evidence::Outcome;
use farcall_tune::import::otpo;
use farcall_tune::landscape::{Landscape, Shape};
use farcall_tune::metric::{Goal, Metric, Role};
use farcall_tune::result::EquivalenceSet;
use farcall_tune::search::{Halving, Problem, RandomProposer};
use farcall_tune::session::Session;
use farcall_tune::space::Rows;

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

fn tune(problem: &Problem, landscape: &Landscape, budget: usize, seed: u64) -> Found {
    let proposer = Box::new(RandomProposer::new(problem, seed));
    let search = Halving::new(budget, problem.environments.len(), proposer, seed);
    let mut session = Session::new(problem, Box::new(search), 20, seed);
    while let Some(trial) = session.next_trial().expect("nothing fails") {
        let value = landscape.measure(trial.environment, trial.number);
        session.record(None, Outcome::Measured(vec![value]));
    }
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

#[test]
#[ignore]
fn explore() {
    let problem = problem();
    let seeds: u64 = std::env::var("SEEDS").map_or(5, |text| text.parse().expect("a number"));
    let budget: usize = std::env::var("BUDGET").map_or(1844, |text| text.parse().expect("a number"));
    let (mut regret, mut brute, mut covered) = (0.0, 0.0, 0);
    for seed in 0..seeds {
        let begun = std::time::Instant::now();
        let landscape =
            Landscape::new(&problem.space, &problem.rows, &problem.environments, Shape::PEAKED, seed);
        let found = tune(&problem, &landscape, budget, seed);
        let forced = brute_force(&problem, &landscape);
        println!(
            "{seed} regret {:.2} brute {forced:.2} samples {} covered {} members {} {:?}",
            found.regret,
            found.samples,
            found.covered,
            found.members,
            begun.elapsed()
        );
        regret += found.regret / seeds as f64;
        brute += forced / seeds as f64;
        covered += u32::from(found.covered);
    }
    println!("mean regret {regret:.2} brute {brute:.2} covered {covered}/{seeds}");
    for seed in 0..seeds.min(3) {
        let landscape =
            Landscape::new(&problem.space, &problem.rows, &problem.environments, Shape::FLAT, seed);
        let found = tune(&problem, &landscape, budget, seed);
        println!("flat {seed}: members {} of {}", found.members, problem.environments.len());
    }
}
