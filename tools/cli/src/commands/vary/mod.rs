//! `--vary`: a test repeated with parameters at two levels, and what each of them does to every row.

mod records;
mod show;

use farcall::parameters::Settings;
use farcall_lab::explain::vary::{Analysis, Better, Design, Experiment, FACTORS_MAX, Factor};
use farcall_lab::record::Unit;
use farcall_lab::run::bench::Bench;
use farcall_lab::run::blocks::Blocks;

use crate::arguments::measuring::Varying;
use crate::commands::record_distances;
use crate::failure::Failure;
use crate::output::Report;
use crate::progress::Progress;

/// A figure that a test has of each of its rows.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name, such as `p50`.
    pub name: &'static str,
    pub better: Better,
}

impl Metric {
    /// Times are in nanoseconds, rates per second.
    fn unit(&self) -> Unit {
        match self.better {
            Better::Less => Unit::Nanoseconds,
            Better::More => Unit::PerSecond,
        }
    }
}

/// A time, of which less is better.
pub const fn time(name: &'static str) -> Metric {
    Metric { name, better: Better::Less }
}

/// A rate, of which more is better.
pub const fn rate(name: &'static str) -> Metric {
    Metric { name, better: Better::More }
}

/// A test that can be repeated with other parameters.
pub trait VariedTest {
    /// What is made of the parameters of a run before anything is measured.
    type Prepared;

    /// Command, test and transport, as records have them.
    fn names(&self) -> (&'static str, String, String);

    /// The names of its rows.
    fn rows(&self) -> Vec<String>;

    /// The figures that each row has, the most telling first.
    fn metrics(&self) -> &'static [Metric];

    /// The parameters without those that are varied.
    fn settings(&self) -> Result<Settings, Failure>;

    /// Reads and checks the parameters of a run, which come after those of the command line.
    fn prepare(&self, assignments: &[String]) -> Result<Self::Prepared, Failure>;

    /// Where it runs; `None` on a simulated fabric.
    fn bench(&self) -> Option<&Bench>;

    /// Measures a row once; in the order of the metrics, `None` for those that the samples do not support.
    fn measure(&self, row: usize, prepared: &Self::Prepared, seed: u64) -> Result<Vec<Option<f64>>, Failure>;
}

/// The figures of a run.
type Figures = Vec<Option<f64>>;

/// What was found for a row.
struct Row<'a> {
    name: &'a str,
    blocks: Blocks<Figures>,
    /// For each metric, its effects; `None` for those that could not be measured in every run.
    analyses: Vec<Option<Analysis>>,
}

/// Everything that is the same for all rows.
struct Varied<'a, S> {
    varying: &'a Varying,
    subject: &'a S,
    factors: Vec<Factor>,
    design: Design,
    /// Which metric the table shows.
    shown: usize,
    seed: u64,
}

/// Refuses what [`run`] would refuse before it measures.
pub fn check<S: VariedTest>(varying: &Varying, seed: u64, subject: &S) -> Result<(), Failure> {
    Varied::new(varying, seed, subject)?.prepare().map(drop)
}

/// Runs the test of every row in blocks, and says what the factors do to it.
pub fn run<S: VariedTest>(
    varying: &Varying,
    seed: u64,
    subject: &S,
    report: &mut Report,
    quiet: bool,
) -> Result<(), Failure> {
    let varied = Varied::new(varying, seed, subject)?;
    let prepared = varied.prepare()?;
    let rows = subject.rows();
    let progress = Progress::new(rows.len() * varying.blocks() as usize * prepared.len(), quiet);
    varied.header(report)?;
    for (number, name) in rows.iter().enumerate() {
        progress.begin(name);
        let experiment = Experiment { blocks: varying.blocks() as usize, seed: seed ^ number as u64 };
        let measure = |run: usize, seed| {
            let found = subject.measure(number, &prepared[run], seed).map_err(|why| varied.of_run(run, why));
            progress.step();
            found
        };
        let blocks = experiment.run(&varied.design, || varied.distance_nanos(), measure)?;
        let row = varied.analyse(name, blocks)?;
        progress.suspend(|| varied.show(&row, report))?;
        if subject.bench().is_some() {
            let (command, _, transport) = subject.names();
            record_distances(command, &format!("{transport} {name}"), &row.blocks.distances, report)?;
        }
    }
    Ok(())
}

impl<'a, S: VariedTest> Varied<'a, S> {
    fn new(varying: &'a Varying, seed: u64, subject: &'a S) -> Result<Self, Failure> {
        let usage = |sentence: String| Failure::Usage(format!("--vary: {sentence}"));
        let settings = subject.settings()?;
        let factors =
            Factor::parse_all(&varying.vary, &settings).map_err(|error| usage(error.to_string()))?;
        if factors.len() > FACTORS_MAX {
            return Err(usage(format!("{} factors are more than {FACTORS_MAX}", factors.len())));
        }
        let twice = |(index, factor): (usize, &Factor)| {
            factors[..index].iter().any(|other| other.name == factor.name).then(|| factor.name.clone())
        };
        if let Some(name) = factors.iter().enumerate().find_map(twice) {
            return Err(usage(format!("`{name}` is there twice; a factor has two levels")));
        }
        let shown = match &varying.figure {
            None => 0,
            Some(name) => {
                metric_of(subject, name).map_err(|why| Failure::Usage(format!("--figure: {why}")))?
            }
        };
        for guard in &varying.guard {
            let refused = |why: String| Failure::Usage(format!("--guard: {why}"));
            metric_of(subject, &guard.metric).map_err(refused)?;
            if !subject.rows().contains(&guard.row) {
                let rows = subject.rows().join(", ");
                return Err(refused(format!("`{}` is not measured; the rows are {rows}", guard.row)));
            }
        }
        let design = Design::new(factors.len());
        Ok(Self { varying, subject, factors, design, shown, seed })
    }

    /// How far the cores are apart; the same always where there are none.
    fn distance_nanos(&self) -> Result<f64, Failure> {
        self.subject.bench().map_or(Ok(0.0), |bench| bench.distance_nanos().map_err(Failure::run))
    }

    /// Prepares every run, so that what cannot be run is refused before anything is.
    fn prepare(&self) -> Result<Vec<S::Prepared>, Failure> {
        let runs = 0..self.design.runs().len();
        runs.map(|run| self.subject.prepare(&self.assignments(run)).map_err(|why| self.of_run(run, why)))
            .collect()
    }

    /// What sets the levels of a run.
    fn assignments(&self, run: usize) -> Vec<String> {
        let levels =
            self.factors.iter().zip(&self.design.runs()[run]).map(|(factor, &second)| factor.level(second));
        levels.filter_map(|level| level.assignment.clone()).collect()
    }

    /// A failure with the run's levels.
    fn of_run(&self, run: usize, why: Failure) -> Failure {
        let with = self.assignments(run).join(" ");
        match why {
            Failure::Usage(sentence) => Failure::Usage(format!("--vary: with {with}: {sentence}")),
            Failure::Run(sentence) => Failure::Run(format!("with {with}: {sentence}")),
            other @ (Failure::Outcome(..) | Failure::Several(_) | Failure::ReaderGone) => other,
        }
    }

    fn analyse<'r>(&self, name: &'r str, blocks: Blocks<Figures>) -> Result<Row<'r>, Failure> {
        let metrics = self.subject.metrics();
        let analyses: Vec<_> = (0..metrics.len())
            .map(|metric| {
                let figures = figures(&blocks, metric)?;
                Analysis::of(&self.design, &figures, metrics[metric].better)
            })
            .collect();
        match blocks.main_regime() {
            Some(_) => Ok(Row { name, blocks, analyses }),
            None => Err(Failure::Run(format!(
                "the cores moved during every one of {} blocks of {name}; run it again, with fewer factors or less --seconds",
                blocks.discarded
            ))),
        }
    }
}

/// The figures of a metric in each block of the main regime; `None` when one is missing.
fn figures(blocks: &Blocks<Figures>, metric: usize) -> Option<Vec<Vec<f64>>> {
    let regime = blocks.main_regime()?;
    let kept = blocks.kept.iter().filter(|block| block.regime == regime);
    kept.map(|block| block.found.iter().map(|figures| figures[metric]).collect()).collect()
}

/// The number of the metric of that name.
fn metric_of(subject: &impl VariedTest, name: &str) -> Result<usize, String> {
    let metrics = subject.metrics();
    metrics.iter().position(|metric| metric.name == name).ok_or_else(|| {
        let known: Vec<_> = metrics.iter().map(|metric| metric.name).collect();
        format!("there is no figure `{name}`; choose from {}", known.join(", "))
    })
}
