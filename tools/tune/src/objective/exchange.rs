//! Exchanges of farcall's own as trials: one for each metric, with the row's settings.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use farcall::parameters::quantity::parse_duration;
use farcall::{Clock, TransportKind};
use farcall_lab::run::bench::Bench;
use farcall_lab::run::exchange::{Buffers, Exchange, ExchangeResult, ExchangeWork, Timing};
use farcall_lab::units::Size;

use super::command::now_ms;
use super::{Objective, ObjectiveError, TrialFinding, censored, measured};
use crate::experiment::{ExchangeEntry, ExperimentError};
use crate::search::Problem;
use crate::session::Trial;

/// How long an exchange lasts unless the file says otherwise.
const LASTING: Duration = Duration::from_millis(200);

/// How often an exchange is tried before its failure counts: on a busy machine one can find no time at all.
const TRIES: usize = 3;

/// The most calls in flight.
const IN_FLIGHT_MAX: usize = 4096;

/// An exchange and what is taken from it.
#[derive(Clone, Debug)]
pub struct ExchangePlan {
    exchange: Exchange,
    figure: Figure,
}

/// What is taken from an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    MedianNanos,
    P99Nanos,
    CallsPerSecond,
    BytesPerSecond,
}

impl ExchangePlan {
    /// Checks the exchange of a metric.
    pub fn new(metric: &str, entry: &ExchangeEntry) -> Result<Self, ExperimentError> {
        let failed = |what: String| ExperimentError::Exchange { metric: metric.to_owned(), what };
        let size =
            |text: &str| text.parse::<Size>().map(|size| size.0).map_err(|error| failed(error.to_string()));
        let transport: TransportKind = entry.transport.parse().map_err(|error| failed(format!("{error}")))?;
        let lasting = match &entry.lasting {
            None => LASTING,
            Some(text) => parse_duration(text).map_err(|error| failed(format!("`{text}` is {error}")))?,
        };
        let figure = match entry.figure.as_deref().unwrap_or("median") {
            "median" => Figure::MedianNanos,
            "p99" => Figure::P99Nanos,
            "calls" => Figure::CallsPerSecond,
            "bytes" => Figure::BytesPerSecond,
            other => {
                return Err(failed(format!("there is no figure `{other}`; use median, p99, calls or bytes")));
            }
        };
        let in_flight = entry.in_flight.unwrap_or(1);
        if !(1..=IN_FLIGHT_MAX).contains(&in_flight) {
            return Err(failed(format!("in_flight is from 1 to {IN_FLIGHT_MAX}")));
        }
        let timed = matches!(figure, Figure::MedianNanos | Figure::P99Nanos);
        let exchange = Exchange {
            workload: ExchangeWork::Echo,
            transport: transport.name().to_owned(),
            settings: Vec::new(),
            request_bytes: size(&entry.request)?,
            response_bytes: size(&entry.response)?,
            buffers: Buffers::Copied,
            timing: if timed { Timing::EachCall } else { Timing::Window },
            in_flight,
            clients: 1,
            servers: 1,
            warmup_calls: 0,
            calls: u64::MAX,
            lasting,
            seed: 1,
        };
        Ok(Self { exchange, figure })
    }
}

impl Figure {
    fn of(self, exchange: &Exchange, result: &ExchangeResult) -> Option<f64> {
        let summary = || result.latencies.summary();
        match self {
            Self::MedianNanos => result.latencies.median_nanos(&Clock::new()),
            Self::P99Nanos => Some(summary()?.p99_nanos? as f64),
            Self::CallsPerSecond => Some(result.calls_per_second),
            Self::BytesPerSecond => {
                let bytes = exchange.request_bytes.max(exchange.response_bytes);
                Some(result.calls_per_second * bytes as f64)
            }
        }
    }
}

/// Runs exchanges.
pub struct ExchangeObjective {
    plans: Vec<ExchangePlan>,
    bench: Arc<Bench>,
    settings: Vec<String>,
    stop: Arc<AtomicBool>,
}

impl ExchangeObjective {
    /// Exchanges between the cores of a bench, with settings that are the same in all trials; they end early
    /// when `stop` is set.
    pub fn new(
        plans: Vec<ExchangePlan>,
        bench: Arc<Bench>,
        settings: Vec<String>,
        stop: Arc<AtomicBool>,
    ) -> Self {
        Self { plans, bench, settings, stop }
    }
}

impl ExchangeObjective {
    /// The figure of each metric; otherwise a sentence that says why there is none.
    fn exchange_all(&self, settings: &[String]) -> Result<Vec<f64>, String> {
        let figure = |plan: &ExchangePlan| {
            let exchange = Exchange { settings: settings.to_vec(), ..plan.exchange.clone() };
            let result = self.bench.exchange(&exchange).map_err(|error| error.to_string())?;
            let figure = plan.figure.of(&exchange, &result);
            figure.ok_or_else(|| format!("{} calls are too few for its percentile", result.calls))
        };
        self.plans.iter().map(figure).collect()
    }
}

impl Objective for ExchangeObjective {
    fn measure(&mut self, problem: &Problem, trial: &Trial) -> Result<TrialFinding, ObjectiveError> {
        let rendered = problem.space.render(problem.row(trial.environment), "");
        let own = rendered.settings().map(|(name, value)| format!("{name}={value}"));
        let settings: Vec<String> = self.settings.iter().cloned().chain(own).collect();
        let (begun_ms, begun) = (now_ms(), Instant::now());
        let mut found = self.exchange_all(&settings);
        for _ in 1..TRIES {
            if found.is_err() && !self.stop.load(Ordering::Relaxed) {
                found = self.exchange_all(&settings);
            }
        }
        // The signal that a terminal sends reaches the processes of the exchange, too.
        if self.stop.load(Ordering::Relaxed) {
            return Err(ObjectiveError::Interrupted);
        }
        let outcome = found.map_or_else(|why| censored(why, None), |values| measured(problem, values));
        Ok(TrialFinding { regime: None, outcome, begun_ms, seconds: Some(begun.elapsed().as_secs_f64()) })
    }
}
