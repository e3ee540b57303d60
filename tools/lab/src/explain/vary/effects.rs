//! What the blocks say of every effect: how large, how sure, and whether it is one.

use core::fmt;

use super::design::Design;
use crate::explain::analysis::normal::{student_95, student_tail};

/// Effects within this part either way are none for practical purposes.
pub const INDIFFERENCE: f64 = 0.01;

/// The chance to call any of a figure's effects real when none is.
const FALSE_ALARM: f64 = 0.05;

/// Which way a figure gets better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Times.
    Less,
    /// Rates.
    More,
}

/// What an effect is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The second level of a factor against the first, over all levels of the others.
    Factor(usize),
    /// By how much the second level of one changes what the second level of the other does; of several pairs
    /// when the runs cannot tell them apart.
    Pairs(Vec<(usize, usize)>),
    /// A factor at its second level, all others at the first, against all at the first.
    AddedIn(usize),
    /// A factor at its first level, all others at the second, against all at the second.
    LeftOut(usize),
    /// All factors at the second level against all at the first.
    All,
}

/// What is to be said of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The figure gets better, beyond doubt.
    Better,
    /// The figure gets worse, beyond doubt.
    Worse,
    /// The whole interval lies within [`INDIFFERENCE`].
    Inert,
    /// Neither: more blocks may tell.
    Undecided,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Inert => "inert",
            Self::Undecided => "undecided",
        })
    }
}

/// An effect on one figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// What it is of.
    pub subject: Subject,
    /// What the figure is multiplied by.
    pub ratio: f64,
    /// The 95 % interval of that; there is none of one block.
    pub interval: Option<(f64, f64)>,
    /// What is to be said of it.
    pub verdict: Verdict,
    /// The chance of such an effect or a larger one where there is none.
    chance: f64,
}

/// All effects on one figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Analysis {
    /// Single factors, pairs, factors added in, factors left out, and all together, in this order.
    pub effects: Vec<Effect>,
    /// How many blocks they rest on.
    pub blocks: usize,
}

impl Analysis {
    /// Estimates the effects from blocks of figures, each with the figure of every run of the design; `None`
    /// when a figure is not a positive number, or there is no block.
    pub fn of(design: &Design, blocks: &[Vec<f64>], better: Better) -> Option<Self> {
        let positive = |figure: &f64| figure.is_finite() && *figure > 0.0;
        if blocks.is_empty() || !blocks.iter().flatten().all(positive) {
            return None;
        }
        let logs: Vec<Vec<f64>> =
            blocks.iter().map(|block| block.iter().map(|figure| figure.ln()).collect()).collect();
        let effect = |(subject, weights): (Subject, Vec<f64>)| {
            let estimates: Vec<f64> = logs
                .iter()
                .map(|block| block.iter().zip(&weights).map(|(log, weight)| log * weight).sum())
                .collect();
            estimate(subject, &estimates)
        };
        let mut effects: Vec<Effect> = subjects(design).into_iter().map(effect).collect();
        judge(&mut effects, better);
        Some(Self { effects, blocks: blocks.len() })
    }

    /// The effect of that subject.
    pub fn effect(&self, subject: &Subject) -> Option<&Effect> {
        self.effects.iter().find(|effect| effect.subject == *subject)
    }
}

/// Everything that is estimated, with the weights of the runs.
fn subjects(design: &Design) -> Vec<(Subject, Vec<f64>)> {
    let factors = design.factors();
    let (none, all) = (vec![false; factors], vec![true; factors]);
    let with = |mut run: Vec<bool>, factor: usize, level| {
        run[factor] = level;
        run
    };
    let single = (0..factors).map(|factor| (Subject::Factor(factor), design.weights(&[factor])));
    let pairs = design.pairs().into_iter().map(|group| {
        let weights = design.weights(&[group[0].0, group[0].1]);
        (Subject::Pairs(group), weights)
    });
    let added = (0..factors).map(|factor| {
        (Subject::AddedIn(factor), design.difference(&with(none.clone(), factor, true), &none))
    });
    let left = (0..factors)
        .map(|factor| (Subject::LeftOut(factor), design.difference(&with(all.clone(), factor, false), &all)));
    let together = [(Subject::All, design.difference(&all, &none))];
    single.chain(pairs).chain(added).chain(left).chain(together).collect()
}

/// The mean of the blocks' estimates, which are independent of each other.
fn estimate(subject: Subject, estimates: &[f64]) -> Effect {
    let count = estimates.len() as f64;
    let mean = estimates.iter().sum::<f64>() / count;
    let degrees = estimates.len() - 1;
    let squares: f64 = estimates.iter().map(|estimate| (estimate - mean).powi(2)).sum();
    let error = (squares / (degrees.max(1) as f64 * count)).sqrt();
    let interval = student_95(degrees).map(|reach| {
        let half = reach * error;
        ((mean - half).exp(), (mean + half).exp())
    });
    let chance = match error > 0.0 {
        _ if degrees == 0 => 1.0,
        true => student_tail(mean / error, degrees),
        false => f64::from(mean == 0.0),
    };
    Effect { subject, ratio: mean.exp(), interval, verdict: Verdict::Undecided, chance }
}

/// Judges single factors and pairs together by Holm's procedure (1979), so that the chance of any false alarm
/// among them is bounded; the others each by its own interval, as they say the same of fewer runs.
fn judge(effects: &mut [Effect], better: Better) {
    let told = |effect: &Effect| matches!(effect.subject, Subject::Factor(_) | Subject::Pairs(_));
    let mut chances: Vec<f64> =
        effects.iter().filter(|effect| told(effect)).map(|effect| effect.chance).collect();
    chances.sort_unstable_by(f64::total_cmp);
    let hypotheses = chances.len();
    let rejected =
        (0..hypotheses).take_while(|&rank| chances[rank] <= FALSE_ALARM / (hypotheses - rank) as f64);
    let limit = rejected.last().map_or(-1.0, |rank| chances[rank]);
    for effect in effects {
        let Some((low, high)) = effect.interval else { continue };
        let real = if told(effect) { effect.chance <= limit } else { effect.chance <= FALSE_ALARM };
        effect.verdict = match effect.ratio > 1.0 {
            _ if high <= 1.0 + INDIFFERENCE && low >= 1.0 / (1.0 + INDIFFERENCE) => Verdict::Inert,
            _ if !real => Verdict::Undecided,
            more if more == (better == Better::More) => Verdict::Better,
            _ => Verdict::Worse,
        };
    }
}
