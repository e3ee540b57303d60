//! The records of `--vary`: the figure of every run, and every effect on every figure.

use farcall_lab::explain::vary::{Effect, Guard, Subject};
use farcall_lab::record::{Figure, Origin, Record, Statistic, Unit};
use serde_json::{Map, Value, json};

use super::{Metric, Row, Varied, VariedTest, figures};
use crate::failure::Failure;
use crate::output::Report;

impl<S: VariedTest> Varied<'_, S> {
    /// Records everything that was found for a row.
    pub(super) fn record_row(&self, row: &Row<'_>, report: &mut Report) -> Result<(), Failure> {
        for (number, metric) in self.subject.metrics().iter().enumerate() {
            let (Some(analysis), Some(blocks)) = (&row.analyses[number], figures(&row.blocks, number)) else {
                continue;
            };
            for run in 0..self.design.runs().len() {
                let values: Vec<f64> = blocks.iter().map(|block| block[run]).collect();
                report.record(&self.run_record(row, metric, run, &values))?;
            }
            for effect in &analysis.effects {
                report.record(&self.effect_record(row, metric, effect, analysis.blocks))?;
            }
        }
        Ok(())
    }

    fn run_record(&self, row: &Row<'_>, metric: &Metric, run: usize, values: &[f64]) -> Record {
        let levels = self.factors.iter().zip(&self.design.runs()[run]);
        let levels: Map<String, Value> =
            levels.map(|(factor, &second)| (factor.name.clone(), json!(factor.level(second).text))).collect();
        let mean = values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64;
        let more = [("kind", json!("run")), ("levels", json!(levels)), ("of_blocks", json!(values))];
        let more = more.into_iter().chain(self.about(metric));
        let name = format!("{}.{}.run{run}", row.name, metric.name);
        self.record(row, name, mean.exp(), metric.unit(), values.len(), more.collect())
    }

    fn effect_record(&self, row: &Row<'_>, metric: &Metric, effect: &Effect, blocks: usize) -> Record {
        let (kind, what) = self.kind(&effect.subject);
        let factors: Vec<&str> = match &effect.subject {
            Subject::Factor(factor) | Subject::AddedIn(factor) | Subject::LeftOut(factor) => {
                vec![&self.factors[*factor].name]
            }
            Subject::Pairs(pairs) => pairs
                .iter()
                .flat_map(|&(one, other)| [&*self.factors[one].name, &*self.factors[other].name])
                .collect(),
            Subject::All => self.factors.iter().map(|factor| &*factor.name).collect(),
        };
        let guarding = |guard: &&Guard| guard.row == row.name && guard.metric == metric.name;
        let guard = self.varying.guard.iter().find(guarding).map(|guard| {
            json!({ "worse_at_most": guard.part, "verdict": guard.judge(effect, metric.better).to_string() })
        });
        let both = |name: &&str| {
            let factor = self.factors.iter().find(|factor| factor.name == **name)?;
            Some((factor.name.clone(), json!([factor.level(false).text, factor.level(true).text])))
        };
        let levels: Map<String, Value> = factors.iter().filter_map(both).collect();
        let more = [
            ("kind", json!(kind)),
            ("factors", json!(factors)),
            ("levels", json!(levels)),
            ("ratio_low", json!(effect.interval.map(|(low, _)| low))),
            ("ratio_high", json!(effect.interval.map(|(_, high)| high))),
            ("verdict", json!(effect.verdict.to_string())),
            ("separable", json!(!matches!(&effect.subject, Subject::Pairs(pairs) if pairs.len() > 1))),
            ("guard", json!(guard)),
        ];
        let more = more.into_iter().chain(self.about(metric));
        let name = format!("{}.{}.{kind}.{what}", row.name, metric.name);
        self.record(row, name, effect.ratio, Unit::Ratio, blocks, more.collect())
    }

    /// Which figure it is of, and whether the table shows it.
    fn about(&self, metric: &Metric) -> [(&'static str, Value); 2] {
        let shown = self.subject.metrics()[self.shown].name == metric.name;
        [("figure", json!(metric.name)), ("shown", json!(shown))]
    }

    fn kind(&self, subject: &Subject) -> (&'static str, String) {
        let name = |factor: &usize| self.factors[*factor].name.clone();
        match subject {
            Subject::Factor(factor) => ("effect", name(factor)),
            Subject::Pairs(pairs) => ("interaction", self.pair_names(pairs)),
            Subject::AddedIn(factor) => ("added_in", name(factor)),
            Subject::LeftOut(factor) => ("left_out", name(factor)),
            Subject::All => ("effect", "all".to_owned()),
        }
    }

    fn record(
        &self,
        row: &Row<'_>,
        name: String,
        value: f64,
        unit: Unit,
        samples: usize,
        more: Vec<(&str, Value)>,
    ) -> Record {
        let (command, test, transport) = self.subject.names();
        let regime = row
            .blocks
            .main_regime()
            .filter(|_| self.subject.bench().is_some())
            .map(|regime| regime.to_string());
        let common = [
            ("varied", json!(row.name)),
            ("regime", json!(regime)),
            ("blocks_discarded", json!(row.blocks.discarded)),
            ("seed", json!(self.seed)),
        ];
        let samples = samples as u64;
        let origin = Origin { command, test: &test, transport: &transport, samples, in_flight: 0 };
        let figure = Figure::new(name, value, unit, Statistic::GeometricMean);
        figure.record(origin, common.into_iter().chain(more))
    }
}
