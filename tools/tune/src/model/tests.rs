//! What a fit makes of samples whose truth is known.

use farcall_base::Random;

use super::normal::draw;
use super::{Fit, Observation};
use crate::experiment::ExperimentFile;
use crate::space::{Environments, Rows, Space};

struct World {
    space: Space,
    rows: Rows,
    environments: Environments,
}

impl World {
    /// Two parameters of six and four levels, and one of three that does nothing.
    fn new() -> Self {
        let parameter = |name: &str, last: u32| {
            format!(
                "[[parameter]]\nname = \"{name}\"\nkind = \"integer\"\nrange = \"1..{last} +1\"\nenvironment = \"{name}\"\n"
            )
        };
        let text = parameter("a", 6) + &parameter("b", 4) + &parameter("c", 3);
        let space = ExperimentFile::read(&text).expect("it is right").space().expect("it is right");
        let rows = Rows::of(&space, 1).expect("there are rows");
        let environments = Environments::of(&space, &rows);
        Self { space, rows, environments }
    }

    fn levels(&self, environment: usize) -> &[u16] {
        self.rows.row(self.environments.representative(environment))
    }

    /// Samples of random environments in blocks of ten, each block with a level of its own.
    fn samples(
        &self,
        count: usize,
        noise: f64,
        seed: u64,
        truth: impl Fn(&[u16]) -> f64,
    ) -> Vec<Observation> {
        let mut random = Random::new(seed);
        let mut drift = 0.0;
        let mut sample = |number: usize| {
            let environment = random.index(self.environments.len());
            if number.is_multiple_of(10) {
                drift += draw(&mut random);
            }
            let value = truth(self.levels(environment)) + drift + noise * draw(&mut random);
            Observation { environment, block: number / 10, value }
        };
        (0..count).map(&mut sample).collect()
    }

    fn fit(&self, observations: &[Observation]) -> Fit {
        Fit::new(&self.space, &self.rows, &self.environments, observations)
    }
}

/// Only `a` and `b` matter, each by itself.
fn additive(levels: &[u16]) -> f64 {
    0.1 * f64::from(levels[0]) - 0.05 * f64::from(levels[1])
}

#[test]
fn effects_are_found_through_noise_and_drift() {
    let world = World::new();
    let fit = world.fit(&world.samples(400, 0.05, 3, additive));
    let base = world.environments.of_row(0);
    for (environment, estimate) in fit.differences(base).iter().enumerate() {
        let truth = additive(world.levels(environment)) - additive(world.levels(base));
        assert!((estimate.mean - truth).abs() < 0.05, "{environment}: {} for {truth}", estimate.mean);
    }
    assert!((fit.noise() - 0.05).abs() < 0.01, "{}", fit.noise());
    let effects = fit.effects();
    assert_eq!(
        (effects[0].parameters.as_slice(), effects[1].parameters.as_slice()),
        ([0].as_slice(), [1].as_slice())
    );
    let share_of_c: f64 =
        effects.iter().filter(|effect| effect.parameters == [2]).map(|effect| effect.share).sum();
    assert!(share_of_c < 0.01, "{share_of_c}");
}

#[test]
fn parameters_that_act_together_are_found_out() {
    let world = World::new();
    let joint = |levels: &[u16]| if (levels[0] > 2) == (levels[1] > 1) { 0.3 } else { 0.0 };
    let fit = world.fit(&world.samples(400, 0.05, 4, joint));
    assert!(
        fit.effects().iter().any(|effect| effect.parameters == [0, 1] && effect.share > 0.5),
        "{:?}",
        fit.effects()
    );
    let alone = world.fit(&world.samples(400, 0.05, 4, additive));
    assert!(alone.effects().iter().all(|effect| effect.parameters.len() == 1), "{:?}", alone.effects());
}

#[test]
fn where_nothing_matters_everything_shrinks_to_nought() {
    let world = World::new();
    let fit = world.fit(&world.samples(400, 0.05, 5, |_| 0.0));
    let differences = fit.differences(0);
    let square = differences.iter().map(|one| one.mean * one.mean).sum::<f64>() / differences.len() as f64;
    // The plain means of five or six samples each would differ from another by 0.03.
    assert!(square.sqrt() < 0.015, "{}", square.sqrt());
}

#[test]
fn intervals_hold_the_truth_about_as_often_as_they_say() {
    let world = World::new();
    let (mut inside, mut all) = (0, 0);
    for seed in 0..20 {
        // What each row has for itself is drawn once for all samples of it.
        let own: Vec<f64> = {
            let mut random = Random::new(1000 + seed);
            (0..world.environments.len()).map(|_| 0.03 * draw(&mut random)).collect()
        };
        let truth = |levels: &[u16]| {
            let row = world.rows.find(levels).expect("it is a row");
            additive(levels) + own[world.environments.of_row(row)]
        };
        let fit = world.fit(&world.samples(200, 0.05, seed, truth));
        for (environment, estimate) in fit.differences(0).iter().enumerate().skip(1) {
            let difference = truth(world.levels(environment)) - truth(world.levels(0));
            all += 1;
            inside += u32::from((estimate.mean - difference).abs() <= 1.96 * estimate.error);
        }
    }
    let share = f64::from(inside) / f64::from(all);
    assert!((0.90..=0.99).contains(&share), "{share} of the intervals of 95 % hold the truth");
}

#[test]
fn a_disturbed_sample_moves_little() {
    let world = World::new();
    let mut samples = world.samples(300, 0.05, 6, additive);
    let calm = world.fit(&samples).differences(0);
    let disturbed = samples[50].environment;
    samples[50].value += 2.0;
    let after = world.fit(&samples).differences(0);
    let moved = (after[disturbed].mean - calm[disturbed].mean).abs();
    assert!(moved < 0.05, "moved by {moved}");
}

#[test]
fn a_single_sample_can_be_fitted() {
    let world = World::new();
    let fit = world.fit(&[Observation { environment: 3, block: 0, value: 1.0 }]);
    assert!(
        fit.differences(3).iter().all(|estimate| estimate.mean.is_finite() && estimate.error.is_finite())
    );
    assert_eq!((fit.samples(3), fit.samples(4)), (1, 0));
}
