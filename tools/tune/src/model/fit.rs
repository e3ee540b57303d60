//! Fitting, and asking the fit.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::accidents::{Accidents, accidents};
use super::design::Design;
use super::interactions::strongest_pair;
use super::matrix::Symmetric;
use super::{Observation, Variances, variance};
use crate::space::{Environments, Rows, Space};

/// Steps of the EM algorithm for each design. The first ones do nearly all; what is left errs towards larger
/// variances, and so towards wider intervals.
const STEPS: usize = 12;

/// The most pairs of parameters whose joint effects are fitted.
const PAIRS_MAX: usize = 6;

/// Residuals beyond this many standard deviations weigh less (Huber 1964): a launch that was disturbed is not
/// news about its row.
const HUBER: f64 = 2.5;

/// A fit of all samples of one metric.
#[derive(Clone, Debug)]
pub struct Fit {
    design: Design,
    variances: Variances,
    /// The effects of the columns, and their covariances.
    effects: Vec<f64>,
    covariance: Symmetric,
    measured: BTreeMap<usize, Measured>,
    /// The columns of each environment.
    columns: Columns,
    /// How many samples were left out as accidents.
    accidents: usize,
}

/// The columns of each environment, shared by the steps of a fit.
type Columns = Rc<Vec<Vec<(usize, f64)>>>;

/// What is known of a measured environment beside its levels.
#[derive(Clone, Debug)]
struct Measured {
    samples: usize,
    /// Its own effect, given those of the columns.
    own: f64,
    /// The variance of that.
    own_variance: f64,
    /// How its own effect moves when those of the columns move.
    leverage: Vec<(usize, f64)>,
}

/// A value with its standard error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The value.
    pub mean: f64,
    /// Its standard error.
    pub error: f64,
}

/// How much a parameter or a pair of parameters moves the metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// One parameter, or two that act together.
    pub parameters: Vec<usize>,
    /// Their share of the variance over the space, of all variance that is not noise.
    pub share: f64,
    /// The standard deviation of their effect over the space, in units of the logarithm.
    pub spread: f64,
}

impl Fit {
    /// Fits the observations; there is at least one.
    pub fn new(
        space: &Space,
        rows: &Rows,
        environments: &Environments,
        observations: &[Observation],
    ) -> Self {
        let blocks = observations.iter().map(|one| one.block + 1).max().unwrap_or(0);
        let of_environment = |environment| rows.row(environments.representative(environment));
        let columns = |design: &Design| -> Columns {
            Rc::new((0..environments.len()).map(|one| design.of_row(of_environment(one))).collect())
        };
        let mut design = Design::of(space, blocks);
        let level = |row: &[u16], factor: usize| design.cell(row, (factor, None));
        let levels = |environment: usize| {
            (0..design.factors.len()).map(|factor| level(of_environment(environment), factor)).collect()
        };
        let accidents = accidents(observations, levels);
        let (kept, apart) = parted(observations, &accidents);
        let observations = &kept;
        let total = variance(observations.iter().map(|one| one.value));
        let mut variances = Variances::first(total, design.groups.len());
        let mut fit = Self::with(&design, columns(&design), observations, &mut variances, total);
        for _ in 0..PAIRS_MAX {
            let residuals = fit.row_residuals();
            let Some(pair) = strongest_pair(&fit.design, &residuals, of_environment) else { break };
            design = design.with_pair(pair);
            variances.groups.push(variances.rows);
            fit = Self::with(&design, columns(&design), observations, &mut variances, total);
        }
        fit.accidents = accidents.samples.iter().filter(|accident| **accident).count();
        fit.set_apart(&apart);
        fit
    }

    /// Takes in environments that are known by their own samples only.
    fn set_apart(&mut self, apart: &BTreeMap<usize, Vec<Observation>>) {
        for (&environment, samples) in apart {
            let mut own: Vec<f64> = samples
                .iter()
                .map(|one| one.value - self.effects[self.design.block_column(one.block)])
                .collect();
            own.sort_unstable_by(f64::total_cmp);
            // Nothing of it depends on the effects of levels.
            let leverage =
                self.columns[environment].iter().map(|&(column, value)| (column, -value)).collect();
            let own_variance = self.variances.noise / samples.len() as f64;
            let own = own[own.len() / 2] - self.value(environment);
            self.measured
                .insert(environment, Measured { samples: samples.len(), own, own_variance, leverage });
        }
    }

    fn with(
        design: &Design,
        columns: Columns,
        observations: &[Observation],
        variances: &mut Variances,
        total: f64,
    ) -> Self {
        let mut weights = vec![1.0; observations.len()];
        let mut fit = Self::step(design, &columns, observations, &weights, variances.clone());
        for _ in 0..STEPS {
            *variances = fit.update(observations, &mut weights).bounded(total);
            fit = Self::step(design, &columns, observations, &weights, variances.clone());
        }
        fit
    }

    /// The effects, for given variances and weights.
    fn step(
        design: &Design,
        columns: &Columns,
        observations: &[Observation],
        weights: &[f64],
        variances: Variances,
    ) -> Self {
        let mut sums: BTreeMap<usize, Sums> = BTreeMap::new();
        let size = design.columns();
        let mut precision = Symmetric::zero(size);
        let mut right = vec![0.0; size];
        for (one, weight) in observations.iter().zip(weights) {
            let weight = weight / variances.noise;
            let block = design.block_column(one.block);
            let mut vector = columns[one.environment].clone();
            vector.push((block, 1.0));
            precision.add_outer(&vector, weight);
            vector.iter().for_each(|&(column, value)| right[column] += weight * value * one.value);
            let sums = sums.entry(one.environment).or_default();
            sums.samples += 1;
            sums.weight += weight;
            sums.value += weight * one.value;
            *sums.blocks.entry(block).or_default() += weight;
        }
        let mut measured = BTreeMap::new();
        for (environment, sums) in sums {
            let own_variance = 1.0 / (sums.weight + 1.0 / variances.rows);
            let levels = columns[environment].iter().map(|&(column, value)| (column, value * sums.weight));
            let vector: Vec<_> =
                levels.chain(sums.blocks.iter().map(|(&block, &weight)| (block, weight))).collect();
            precision.add_outer(&vector, -own_variance);
            vector.iter().for_each(|&(column, value)| right[column] -= own_variance * value * sums.value);
            let leverage = vector.iter().map(|&(column, value)| (column, -own_variance * value)).collect();
            let own = own_variance * sums.value;
            measured.insert(environment, Measured { samples: sums.samples, own, own_variance, leverage });
        }
        for (group, variance) in design.groups.iter().zip(&variances.groups) {
            (group.first..group.first + group.width)
                .for_each(|column| precision.add(column, column, 1.0 / variance));
        }
        (design.row_columns()..size).for_each(|column| precision.add(column, column, 1.0 / variances.blocks));
        let covariance = precision.inverse();
        let right: Vec<_> = right.into_iter().enumerate().collect();
        let effects = covariance.times(&right);
        for one in measured.values_mut() {
            one.own += one.leverage.iter().map(|&(column, value)| value * effects[column]).sum::<f64>();
        }
        let (design, columns) = (design.clone(), Rc::clone(columns));
        Self { design, variances, effects, covariance, measured, columns, accidents: 0 }
    }

    /// The variances that make what was found most likely, given what is believed now; and new weights.
    fn update(&self, observations: &[Observation], weights: &mut [f64]) -> Variances {
        let group = |group: &super::design::Group| {
            let columns = group.first..group.first + group.width;
            let square = |column: usize| self.effects[column].powi(2) + self.covariance.at(column, column);
            columns.map(square).sum::<f64>() / group.width as f64
        };
        let groups = self.design.groups.iter().map(group).collect();
        let row =
            |one: &Measured| one.own.powi(2) + one.own_variance + self.covariance.quadratic(&one.leverage);
        let rows = self.measured.values().map(row).sum::<f64>() / self.measured.len().max(1) as f64;
        let mut noise = 0.0;
        for (one, weight) in observations.iter().zip(weights.iter_mut()) {
            let mut vector = self.vector(one.environment);
            let block = self.design.block_column(one.block);
            match vector.iter_mut().find(|(column, _)| *column == block) {
                Some((_, value)) => *value += 1.0,
                None => vector.push((block, 1.0)),
            }
            let measured = &self.measured[&one.environment];
            let residual = one.value - self.value(one.environment) - self.effects[block];
            let error = measured.own_variance + self.covariance.quadratic(&vector);
            noise += *weight * (residual * residual + error);
            let deviation = residual.abs() / self.variances.noise.sqrt();
            *weight = (HUBER / deviation.max(HUBER)).max(1e-3);
        }
        Variances { noise: noise / observations.len() as f64, rows, groups, blocks: self.variances.blocks }
    }

    /// How an environment's value depends on the effects of the columns.
    fn vector(&self, environment: usize) -> Vec<(usize, f64)> {
        let mut vector = self.columns[environment].clone();
        let Some(measured) = self.measured.get(&environment) else { return vector };
        // The first entries of the leverage are the same columns.
        for (entry, own) in vector.iter_mut().zip(&measured.leverage) {
            entry.1 += own.1;
        }
        vector.extend_from_slice(&measured.leverage[vector.len()..]);
        vector
    }

    /// The value of an environment, in the logarithm, up to a constant.
    pub fn value(&self, environment: usize) -> f64 {
        let levels = self.columns[environment].iter().map(|&(column, value)| self.effects[column] * value);
        levels.sum::<f64>() + self.measured.get(&environment).map_or(0.0, |one| one.own)
    }

    /// How many samples an environment has.
    pub fn samples(&self, environment: usize) -> usize {
        self.measured.get(&environment).map_or(0, |one| one.samples)
    }

    /// How many samples were left out because they are far from everything else that is known of their row.
    pub fn accidents(&self) -> usize {
        self.accidents
    }

    /// The standard deviation of one sample around its row and block.
    pub fn noise(&self) -> f64 {
        self.variances.noise.sqrt()
    }

    /// How much each environment is above `base`, with the error of the difference.
    pub fn differences(&self, base: usize) -> Vec<Estimate> {
        let base = Base::new(self, base);
        (0..self.columns.len()).map(|environment| base.difference(self, environment)).collect()
    }

    /// How much an environment is above `base`, with the error of the difference.
    pub fn difference(&self, environment: usize, base: usize) -> Estimate {
        Base::new(self, base).difference(self, environment)
    }

    fn own_variance(&self, environment: usize) -> f64 {
        self.measured.get(&environment).map_or(self.variances.rows, |one| one.own_variance)
    }

    /// What moves the metric over the space, the strongest first: what is left for single rows comes in none
    /// of them.
    pub fn effects(&self) -> Vec<Effect> {
        let count = self.columns.len() as f64;
        let spread = |group: &super::design::Group| {
            let mut counts = vec![0.0; group.width];
            for columns in self.columns.iter() {
                let inside = columns
                    .iter()
                    .filter(|(column, _)| (group.first..group.first + group.width).contains(column));
                inside.for_each(|(column, _)| counts[column - group.first] += 1.0 / count);
            }
            let effect = |place: usize| self.effects[group.first + place];
            let mean: f64 = counts.iter().enumerate().map(|(place, share)| share * effect(place)).sum();
            counts
                .iter()
                .enumerate()
                .map(|(place, share)| share * (effect(place) - mean).powi(2))
                .sum::<f64>()
        };
        let spreads: Vec<f64> = self.design.groups.iter().map(spread).collect();
        let total = spreads.iter().sum::<f64>() + self.variances.rows;
        let effect = |(group, spread): (&super::design::Group, &f64)| {
            let factors = [Some(group.factors.0), group.factors.1];
            let parameters =
                factors.into_iter().flatten().map(|factor| self.design.factors[factor]).collect();
            Effect { parameters, share: spread / total, spread: spread.sqrt() }
        };
        let mut effects: Vec<Effect> = self.design.groups.iter().zip(&spreads).map(effect).collect();
        effects.sort_by(|one, other| other.share.total_cmp(&one.share));
        effects
    }

    /// What the levels leave unexplained of each measured environment: mean and weight.
    fn row_residuals(&self) -> Vec<(usize, f64, f64)> {
        let residual = |(&environment, one): (&usize, &Measured)| {
            // The own effect is the residual shrunk by this much.
            let data = 1.0 / one.own_variance - 1.0 / self.variances.rows;
            let residual = one.own / (one.own_variance * data);
            (environment, residual, 1.0 / (self.variances.rows + 1.0 / data))
        };
        self.measured.iter().map(residual).collect()
    }
}

/// The observations that are fitted, and those of environments apart.
fn parted(
    observations: &[Observation],
    accidents: &Accidents,
) -> (Vec<Observation>, BTreeMap<usize, Vec<Observation>>) {
    let (mut kept, mut apart) = (Vec::new(), BTreeMap::<usize, Vec<Observation>>::new());
    let good = observations.iter().zip(&accidents.samples).filter(|(_, accident)| !**accident);
    for (one, _) in good {
        match accidents.apart.contains(&one.environment) {
            true => apart.entry(one.environment).or_default().push(*one),
            false => kept.push(*one),
        }
    }
    (kept, apart)
}

/// What others are compared with.
struct Base {
    environment: usize,
    /// Its covariances with the effects of the columns.
    product: Vec<f64>,
    variance: f64,
    value: f64,
}

impl Base {
    fn new(fit: &Fit, environment: usize) -> Self {
        let vector = fit.vector(environment);
        let variance = fit.covariance.quadratic(&vector) + fit.own_variance(environment);
        Self { environment, product: fit.covariance.times(&vector), variance, value: fit.value(environment) }
    }

    fn difference(&self, fit: &Fit, environment: usize) -> Estimate {
        if environment == self.environment {
            return Estimate { mean: 0.0, error: 0.0 };
        }
        let vector = fit.vector(environment);
        let shared: f64 = vector.iter().map(|&(column, value)| value * self.product[column]).sum();
        let own = fit.covariance.quadratic(&vector) + fit.own_variance(environment);
        let variance = (own + self.variance - 2.0 * shared).max(0.0);
        Estimate { mean: fit.value(environment) - self.value, error: variance.sqrt() }
    }
}

#[derive(Default)]
struct Sums {
    samples: usize,
    weight: f64,
    value: f64,
    blocks: BTreeMap<usize, f64>,
}
