//! A synthetic program: a landscape over the rows of a space whose truth is known, measured with noise and
//! drift.
//!
//! It is what a plan is rehearsed on before the machine is given to it for hours, and what shows that a
//! search finds what there is to find, and nothing where there is nothing.

pub mod rough;

use core::f64::consts::TAU;

use farcall_base::Random;

use crate::model::normal::draw;
use crate::space::{Environments, NOT_IN_PLAY, Rows, Space};

/// What the landscape is made of. Figures are nanoseconds around [`Shape::base`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// The middle of all figures.
    pub base: f64,
    /// How many parameters matter by themselves; two more act together.
    pub active: usize,
    /// How much the worst level of an active parameter costs.
    pub effect: f64,
    /// The standard deviation of the joint effects.
    pub joint: f64,
    /// The standard deviation of what each environment has for itself.
    pub own: f64,
    /// The standard deviation of a sample; its distribution has a long tail above.
    pub noise: f64,
    /// How far the machine drifts to either side.
    pub drift: f64,
    /// In how many samples it drifts there and back.
    pub drift_samples: f64,
}

impl Shape {
    /// Like the latencies of a small message that OTPO measured: launches of 0.62 s that vary by 7 ns, drift
    /// of 10 ns in an hour and a half, three parameters that matter by 10 ns each.
    pub const PEAKED: Self = Self {
        base: 3_900.0,
        active: 3,
        effect: 10.0,
        joint: 3.0,
        own: 0.7,
        noise: 7.0,
        drift: 10.0,
        drift_samples: 8_710.0,
    };

    /// The same, when nothing matters.
    pub const FLAT: Self = Self { active: 0, effect: 0.0, joint: 0.0, own: 0.0, ..Self::PEAKED };
}

/// A landscape.
#[derive(Clone, Debug)]
pub struct Landscape {
    shape: Shape,
    seed: u64,
    phase: f64,
    truth: Vec<f64>,
}

/// The shape of the noise: that of the logarithm of a normal variable.
const SKEW: f64 = 0.5;

impl Landscape {
    /// The landscape that `seed` decides.
    pub fn new(space: &Space, rows: &Rows, environments: &Environments, shape: Shape, seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x6c61_6e64);
        let phase = random.unit();
        let reaches = |index: &usize| {
            space.emissions.iter().any(|emission| emission.template.parameters().any(|one| one == *index))
        };
        let mut factors: Vec<usize> = (0..space.parameters.len()).filter(reaches).collect();
        random.shuffle(&mut factors);
        let levels = |factor: usize| space.parameters[factor].levels.len();
        let active: Vec<(usize, usize)> =
            factors.iter().take(shape.active).map(|&f| (f, random.index(levels(f)))).collect();
        let pair = if factors.len() > 1 && shape.joint > 0.0 { Some((factors[0], factors[1])) } else { None };
        let cells = pair.map_or(0, |(one, other)| (levels(one) + 1) * (levels(other) + 1));
        let joint: Vec<f64> = (0..cells).map(|_| shape.joint * draw(&mut random)).collect();
        let level = |row: &[u16], factor: usize| match row[factor] {
            NOT_IN_PLAY => levels(factor),
            level => usize::from(level),
        };
        let mut truth = |environment: usize| {
            let row = rows.row(environments.representative(environment));
            // Each level away from the best one costs as much.
            let cost = |&(factor, best): &(usize, usize)| {
                let away = level(row, factor).abs_diff(best) as f64;
                shape.effect * away / levels(factor).max(2) as f64
            };
            let alone: f64 = active.iter().map(cost).sum();
            let together = pair
                .map_or(0.0, |(one, other)| joint[level(row, one) * (levels(other) + 1) + level(row, other)]);
            shape.base + alone + together + shape.own * draw(&mut random)
        };
        let truth = (0..environments.len()).map(&mut truth).collect();
        Self { shape, seed, phase, truth }
    }

    /// What an environment takes in truth.
    pub fn truth(&self, environment: usize) -> f64 {
        self.truth[environment]
    }

    /// The environment that takes the least in truth.
    pub fn best(&self) -> usize {
        (0..self.truth.len())
            .min_by(|&one, &other| self.truth[one].total_cmp(&self.truth[other]))
            .unwrap_or(0)
    }

    /// What sample number `number` of the experiment finds.
    pub fn measure(&self, environment: usize, number: usize) -> f64 {
        let mut random = Random::new(self.seed.wrapping_mul(0x9e37_79b9).wrapping_add(number as u64));
        let drift = self.shape.drift * (TAU * (self.phase + number as f64 / self.shape.drift_samples)).sin();
        let skewed = (SKEW * draw(&mut random)).exp();
        let mean = (SKEW * SKEW / 2.0).exp();
        let deviation = mean * ((SKEW * SKEW).exp() - 1.0).sqrt();
        self.truth[environment] + drift + self.shape.noise * (skewed - mean) / deviation
    }
}
