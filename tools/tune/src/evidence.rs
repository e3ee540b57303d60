//! What has been measured so far.

use std::collections::BTreeMap;

use farcall_lab::run::regime::Regime;
use serde::{Deserialize, Serialize};

use crate::model::Observation;

/// An environment that ran at least so often for each time that it failed does not count as one that fails:
/// accidents happen, and most of all to the reference, which runs in every block.
const RUNS_PER_FAILURE: usize = 9;

/// What a trial came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialOutcome {
    /// A figure for each metric.
    Measured(Vec<f64>),
    /// No figures: it is known only that this row does not do.
    Censored(Censored),
}

/// Why a trial has no figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Censored {
    /// One sentence.
    pub why: String,
    /// The file with all that the program said, in the tuning's directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
}

/// One trial with its outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// What ran.
    pub environment: usize,
    /// In which block.
    pub block: usize,
    /// How far the cores were apart, where that was watched.
    pub regime: Option<Regime>,
    /// What came of it.
    pub outcome: TrialOutcome,
}

/// All samples, in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    samples: Vec<Sample>,
}

impl Evidence {
    /// Takes a sample in.
    pub fn push(&mut self, sample: Sample) {
        self.samples.push(sample);
    }

    /// All of them.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// The figures of one metric, as a fit takes them. What shares a block but not a regime shares nothing.
    pub fn observations(&self, metric: usize) -> Vec<Observation> {
        self.observations_of(metric, |_| true)
    }

    /// The figures of one metric in some blocks.
    pub fn observations_of(&self, metric: usize, wanted: impl Fn(usize) -> bool) -> Vec<Observation> {
        let mut blocks = Vec::new();
        let mut observations = Vec::new();
        for sample in self.samples.iter().filter(|sample| wanted(sample.block)) {
            let TrialOutcome::Measured(values) = &sample.outcome else { continue };
            let key = (sample.block, sample.regime);
            // Blocks come one after the other, so the one that is looked for is among the last.
            let block = blocks.iter().rposition(|known| *known == key).unwrap_or_else(|| {
                blocks.push(key);
                blocks.len() - 1
            });
            observations.push(Observation {
                environment: sample.environment,
                block,
                value: values[metric].ln(),
            });
        }
        observations
    }

    /// The environments that fail: they are not tried again, and cannot win.
    pub fn failing(&self) -> Vec<usize> {
        let mut counts: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
        for sample in &self.samples {
            let (runs, failures) = counts.entry(sample.environment).or_default();
            match sample.outcome {
                TrialOutcome::Measured(_) => *runs += 1,
                TrialOutcome::Censored(_) => *failures += 1,
            }
        }
        let fails = |(_, (runs, failures)): &(usize, (usize, usize))| *runs < failures * RUNS_PER_FAILURE;
        counts.into_iter().filter(fails).map(|(environment, _)| environment).collect()
    }

    /// The failures, each with its environment and reason.
    pub fn failures(&self) -> Vec<(usize, &Censored)> {
        self.samples
            .iter()
            .filter_map(|sample| match &sample.outcome {
                TrialOutcome::Censored(censored) => Some((sample.environment, censored)),
                TrialOutcome::Measured(_) => None,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_accident_among_many_runs_is_forgiven() {
        let mut evidence = Evidence::default();
        let mut push = |environment, outcome| {
            evidence.push(Sample { environment, block: 0, regime: None, outcome });
            evidence.failing()
        };
        let failed = || TrialOutcome::Censored(Censored { why: "it hung".to_owned(), log: None });
        assert_eq!(push(7, failed()), [7]);
        for _ in 0..RUNS_PER_FAILURE {
            push(7, TrialOutcome::Measured(vec![1.0]));
        }
        assert_eq!(push(3, failed()), [3]);
        assert_eq!(push(7, failed()), [3, 7]);
    }
}
