//! clusterperf's echo test: a 30-byte request, a response of each size, and the limit beside it.

use core::time::Duration;

use farcall::parameters::Settings;
use farcall::simulated::Cluster;
use farcall::{Clock, TransportKind};
use farcall_limit::Effort;

use crate::run::bench::{Bench, BenchError, RoundTripLimit};
use crate::run::blocks::Blocks;
use crate::run::closed_loop::{BLOCKS, ClosedLoop, Outcome, Ran, in_blocks};
use crate::run::exchange::{Buffers, Exchange, ExchangeResult, ExchangeWork, Instruments, simulate_with};
use crate::run::published::{Configuration, Published, clusterperf};
use crate::run::simulation::{SimulatedFabric, SimulationError};
use crate::statistics::bootstrap::{Ratio, ratio_of_medians};
use crate::units::Size;

/// Length of the request, as in clusterperf.
pub const REQUEST_BYTES: usize = 30;

/// How long the limit runs in each block.
const LIMIT_EFFORT: Effort = Effort { warmup: Duration::from_millis(3), measure: Duration::from_millis(30) };

/// What is the same for all sizes and transports.
#[derive(Clone, Debug, PartialEq)]
pub struct EchoTest {
    /// Its calls.
    pub closed_loop: ClosedLoop,
    /// Its parameters, checked.
    pub settings: Settings,
    /// How payloads are made and looked at.
    pub buffers: Buffers,
}

/// The limit beside an echo.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EchoLimit {
    /// The bare loop's own median: that of its blocks' medians, in nanoseconds.
    pub p50_nanos: f64,
    /// The echo's median over it.
    pub ratio: Ratio,
    /// What it is.
    pub words: &'static str,
}

/// What one arm found in one block.
enum Found {
    Echo(Box<ExchangeResult>),
    Limit(f64),
}

const ECHO_ARM: usize = 0;
const LIMIT_ARM: usize = 1;

impl EchoTest {
    /// Measures one transport and size, interleaved with the limit when one call is in flight: with more
    /// there is no bare loop to compare with.
    pub fn run(
        &self,
        bench: &Bench,
        transport: TransportKind,
        size: Size,
    ) -> Result<(Outcome, Option<EchoLimit>), BenchError> {
        let exchange = self.exchange(transport, size, BLOCKS as u32);
        let ClosedLoop { in_flight, clients, seed, instruments, .. } = self.closed_loop;
        let limit = (in_flight * clients == 1 && bench.world().is_none())
            .then(|| RoundTripLimit::beside(transport, &self.settings, bench, REQUEST_BYTES, size.0))
            .transpose()?;
        let arms = if limit.is_some() { 2 } else { 1 };
        let blocks = in_blocks(bench, arms, seed ^ size.0 as u64, |arm, block| match (arm, &limit) {
            (LIMIT_ARM, Some(limit)) => Ok(Found::Limit(limit.measure(bench, LIMIT_EFFORT)?.median_nanos)),
            _ => {
                let result = bench.exchange_with(&exchange.in_block(block), instruments);
                result.map(|result| Found::Echo(Box::new(result)))
            }
        })?;
        let what = format!("echo{size} over {transport}");
        let outcome = Outcome::of_blocks(transport, &exchange, &blocks, what, Found::echo)?;
        let limit = limit.and_then(|limit| limit_of(&blocks, limit, seed));
        Ok((outcome, limit))
    }

    /// Measures one transport and size once, by itself, and traces nothing.
    pub fn once(
        &self,
        bench: &Bench,
        transport: TransportKind,
        size: Size,
    ) -> Result<ExchangeResult, BenchError> {
        let instruments = Instruments { trace: false, ..self.closed_loop.instruments };
        bench.exchange_with(&self.exchange(transport, size, 1), instruments)
    }

    /// Measures one transport and size on a simulated fabric.
    pub fn simulate(
        &self,
        fabric: &SimulatedFabric,
        transport: TransportKind,
        size: Size,
    ) -> Result<Outcome, SimulationError> {
        self.simulate_with(fabric, transport, size, |_| ())
    }

    /// As [`EchoTest::simulate`]; `prepare` can do something to the fabric before it begins.
    pub fn simulate_with(
        &self,
        fabric: &SimulatedFabric,
        transport: TransportKind,
        size: Size,
        prepare: impl FnOnce(&Cluster),
    ) -> Result<Outcome, SimulationError> {
        let exchange = self.exchange(transport, size, 1);
        let (result, run) =
            simulate_with(&exchange, self.closed_loop.instruments, &self.settings, fabric, prepare)?;
        Ok(Outcome::simulated(transport, &exchange, result, run))
    }

    /// What others published for the row of that name on the fabric that the test ran on, if it was
    /// simulated.
    pub fn published(&self, outcome: &Outcome, row: &str) -> Option<Published> {
        let Ran::OnFabric(run) = &outcome.ran else { return None };
        let ClosedLoop { in_flight, clients, servers, .. } = self.closed_loop;
        let configuration = Configuration { in_flight, clients, servers };
        clusterperf(&run.profile, outcome.transport.name(), configuration, row)
    }

    /// One of `parts` equal parts of the test.
    fn exchange(&self, transport: TransportKind, size: Size, parts: u32) -> Exchange {
        Exchange {
            request_bytes: REQUEST_BYTES,
            buffers: self.buffers,
            ..self.closed_loop.exchange(transport, ExchangeWork::Echo, size, parts)
        }
    }
}

fn limit_of(blocks: &Blocks<Found>, limit: RoundTripLimit, seed: u64) -> Option<EchoLimit> {
    let regime = blocks.main_regime()?;
    let pairs = blocks.pairs(regime, ECHO_ARM, LIMIT_ARM, Found::median_nanos);
    let ratio = ratio_of_medians(&pairs, seed)?;
    let limits: Vec<f64> = pairs.iter().map(|pair| pair.1).collect();
    Some(EchoLimit { p50_nanos: crate::statistics::bootstrap::median(&limits)?, ratio, words: limit.words() })
}

impl Found {
    fn echo(&self) -> Option<&ExchangeResult> {
        match self {
            Self::Echo(result) => Some(result),
            Self::Limit(_) => None,
        }
    }

    fn median_nanos(&self) -> Option<f64> {
        match self {
            Self::Echo(result) => result.latencies.median_nanos(&Clock::new()),
            Self::Limit(nanos) => Some(*nanos),
        }
    }
}
