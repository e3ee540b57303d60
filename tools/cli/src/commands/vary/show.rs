//! The tables of `--vary`.

use comfy_table::{Table, presets::NOTHING};
use farcall_lab::explain::vary::{Analysis, Effect, INDIFFERENCE, Subject, Verdict};

use super::{Row, Varied, VariedTest, metric_of};
use crate::failure::Failure;
use crate::output::Report;

impl<S: VariedTest> Varied<'_, S> {
    /// What is the same for all rows.
    pub(super) fn header(&self, report: &mut Report) -> Result<(), Failure> {
        let (command, test, transport) = self.subject.names();
        let design = if self.design.is_full() {
            format!("all {} combinations", self.design.runs().len())
        } else {
            format!("{} of {} combinations", self.design.runs().len(), 1_u64 << self.factors.len())
        };
        report.line(format_args!(
            "\n# {command} {test} over {transport}: {design} in each of {} blocks, in random order, seed {}",
            self.varying.blocks(),
            self.seed
        ))?;
        report.line(format_args!(
            "# effects multiply; [95 %] from the blocks; inert: within {:.0} % either way; added in: alone; left out: from all",
            INDIFFERENCE * 100.0
        ))
    }

    /// The effects on a row, and its guards.
    pub(super) fn show(&self, row: &Row<'_>, report: &mut Report) -> Result<(), Failure> {
        self.record_row(row, report)?;
        let metric = self.subject.metrics()[self.shown];
        let Some(analysis) = &row.analyses[self.shown] else {
            return report.line(format_args!(
                "\n# {}: {} needs more samples than a block has; use fewer blocks or a higher count",
                row.name, metric.name
            ));
        };
        let regime = row.blocks.main_regime().filter(|_| self.subject.bench().is_some()).map_or_else(
            String::new,
            |regime| {
                let left_out = row.blocks.kept.len() - analysis.blocks + row.blocks.discarded;
                format!(", cores {regime}, {left_out} left out because cores moved")
            },
        );
        report.line(format_args!("\n# {}, {}; {} blocks{regime}", row.name, metric.name, analysis.blocks))?;
        report.line(self.table(analysis).trim_fmt())?;
        self.guards(row, report)
    }

    fn table(&self, analysis: &Analysis) -> Table {
        let mut table = Table::new();
        table.load_style(NOTHING);
        table.set_header(["factor", "effect", "95 %", "verdict", "added in", "left out"]);
        for effect in &analysis.effects {
            let (beside, name) = match &effect.subject {
                Subject::Factor(factor) => {
                    let beside = [Subject::AddedIn(*factor), Subject::LeftOut(*factor)]
                        .map(|of| with_interval(analysis.effect(&of)));
                    (beside, self.factors[*factor].change())
                }
                // With a single factor there is nothing else that could be at its second level.
                Subject::All if self.factors.len() > 1 => {
                    (Default::default(), "all of them together".to_owned())
                }
                Subject::Pairs(pairs) => (Default::default(), self.pair_names(pairs)),
                _ => continue,
            };
            let [added, left] = beside;
            let interval = effect.interval.map_or_else(|| "-".to_owned(), interval_words);
            let separable = !matches!(&effect.subject, Subject::Pairs(pairs) if pairs.len() > 1);
            let verdict = match effect.verdict {
                Verdict::Inert => "inert".to_owned(),
                verdict if separable => verdict.to_string(),
                verdict => format!("{verdict}, not separable"),
            };
            table.add_row([name, percent(effect.ratio), interval, verdict, added, left]);
        }
        table
    }

    /// Pairs that cannot be told apart stand on both sides of an equals sign.
    pub(super) fn pair_names(&self, pairs: &[(usize, usize)]) -> String {
        let name = |(one, other): &(usize, usize)| {
            format!("{} x {}", self.factors[*one].name, self.factors[*other].name)
        };
        pairs.iter().map(name).collect::<Vec<_>>().join(" = ")
    }

    /// What each factor does to the figures that must not get worse.
    fn guards(&self, row: &Row<'_>, report: &mut Report) -> Result<(), Failure> {
        for guard in self.varying.guard.iter().filter(|guard| guard.row == row.name) {
            let metric = metric_of(self.subject, &guard.metric).map_err(Failure::Usage)?;
            let Some(analysis) = &row.analyses[metric] else {
                report.line(format_args!("# guard {guard}: the blocks have too few samples to tell"))?;
                continue;
            };
            for effect in &analysis.effects {
                let what = match &effect.subject {
                    Subject::Factor(factor) => self.factors[*factor].change(),
                    Subject::All if self.factors.len() > 1 => "all of them together".to_owned(),
                    _ => continue,
                };
                let verdict = guard.judge(effect, self.subject.metrics()[metric].better);
                report.line(format_args!(
                    "# guard {guard}: {verdict} by {what}, {}",
                    with_interval(Some(effect))
                ))?;
            }
        }
        Ok(())
    }
}

fn percent(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

fn interval_words((low, high): (f64, f64)) -> String {
    format!("[{:+.1}, {:+.1}]", (low - 1.0) * 100.0, (high - 1.0) * 100.0)
}

fn with_interval(effect: Option<&Effect>) -> String {
    effect.map_or_else(String::new, |effect| {
        let interval =
            effect.interval.map_or_else(String::new, |interval| format!(" {}", interval_words(interval)));
        format!("{}{interval}", percent(effect.ratio))
    })
}
