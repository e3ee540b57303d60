//! clusterperf's echo test: a 30-byte request, a response of each size, and the limit beside it.

mod simulated;

use core::time::Duration;
use std::collections::BTreeMap;

use farcall::parameters::Settings;
use farcall::{Clock, TransportKind};
use farcall_limit::Effort;

use crate::bench::{Bench, BenchError, RoundTripLimit};
use crate::blocks::{Blocks, Distance, Plan};
use crate::bootstrap::{Ratio, ratio_of_medians};
use crate::exchange::{Buffers, Exchange, ExchangeResult, Instruments, Timing, Workload, sum_of};
use crate::histogram::{LatencyHistogram, LatencySummary};
use crate::little::LittleCheck;
use crate::regime::Regime;
use crate::trace::Traced;
use crate::units::Size;

pub use simulated::SimulatedEcho;

/// Length of the request, as in clusterperf.
pub const REQUEST_BYTES: usize = 30;

/// How many blocks the calls of one size are spread over.
pub const BLOCKS: usize = 3;

/// How many blocks are tried while cores move.
const BLOCKS_MAX: usize = 9;

/// How long the limit runs in each block.
const LIMIT_EFFORT: Effort = Effort { warmup: Duration::from_millis(3), measure: Duration::from_millis(30) };

/// What is the same for all sizes and transports.
#[derive(Clone, Debug, PartialEq)]
pub struct EchoTest {
    /// Parameters, each as `name=value`.
    pub assignments: Vec<String>,
    /// The same, checked.
    pub settings: Settings,
    /// How payloads are made and looked at.
    pub buffers: Buffers,
    /// Calls of each client.
    pub calls: u64,
    /// The longest that the calls of one size may take.
    pub lasting: Duration,
    /// The fewest calls before the measurement.
    pub warmup_calls: u64,
    /// Calls that each client keeps under way.
    pub in_flight: usize,
    /// Processes that call.
    pub clients: usize,
    /// Processes that answer.
    pub servers: usize,
    /// Decides the order of limit and exchange in each block.
    pub seed: u64,
    /// What is done beside the calls.
    pub instruments: Instruments,
}

/// What was found for one transport and size.
#[derive(Clone, Debug)]
pub struct EchoOutcome {
    /// The transport.
    pub transport: TransportKind,
    /// Length of the response.
    pub size: Size,
    /// Where the cores were.
    pub regime: Regime,
    /// Blocks that the figures rest on.
    pub blocks: usize,
    /// Blocks without use, because the cores moved or were in the rarer regime.
    pub blocks_discarded: usize,
    /// The round trips.
    pub latency: LatencySummary,
    /// Calls per second.
    pub calls_per_second: f64,
    /// Bytes of responses per second of wall-clock time.
    pub received_bytes_per_second: f64,
    /// Calls completed.
    pub calls: u64,
    /// Calls under way at a time, all clients together.
    pub in_flight: u64,
    /// What the clients' counters counted while the calls were made.
    pub counters: BTreeMap<String, u64>,
    /// What the servers' counters counted meanwhile.
    pub server_counters: BTreeMap<String, u64>,
    /// The share of the time in which servers were ready to run and had no core; `None` where the kernel does not tell.
    pub server_waited: Option<f64>,
    /// The calls, when they were traced.
    pub traced: Traced,
    /// How far the cores were apart, around every block.
    pub distances: Vec<Distance>,
    /// Whether the warm-up found a steady state in every block.
    pub warm: bool,
    /// Whether throughput, latency and calls under way agree.
    pub little: LittleCheck,
    /// The limit, when one call is under way at a time: with more there is no bare loop to compare with.
    pub limit: Option<EchoLimit>,
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
    /// Measures one transport and size, interleaved with the limit.
    pub fn run(
        &self,
        bench: &Bench,
        transport: TransportKind,
        size: Size,
    ) -> Result<EchoOutcome, BenchError> {
        let exchange = self.exchange(transport, size, BLOCKS as u32);
        let limit = (self.in_flight * self.clients == 1)
            .then(|| RoundTripLimit::beside(transport, &self.settings, bench, REQUEST_BYTES, size.0))
            .transpose()?;
        let arms = if limit.is_some() { 2 } else { 1 };
        let mut blocks = Blocks::new();
        for order in (Plan { arms, blocks: BLOCKS_MAX, seed: self.seed ^ size.0 as u64 }).orders() {
            blocks.run(
                &order,
                || bench.distance_nanos(),
                |arm| match (arm, &limit) {
                    (LIMIT_ARM, Some(limit)) => {
                        Ok(Found::Limit(limit.measure(bench, LIMIT_EFFORT)?.median_nanos))
                    }
                    _ => bench
                        .exchange_with(&exchange, self.instruments)
                        .map(|result| Found::Echo(Box::new(result))),
                },
            )?;
            if blocks.main_regime().is_some_and(|regime| blocks.of_arm(regime, ECHO_ARM).count() == BLOCKS) {
                break;
            }
        }
        let what = || format!("echo{size} over {transport}");
        sum_up(transport, size, &blocks, limit, self.seed)
            .ok_or_else(|| BenchError::NeverSteady { what: what(), blocks: BLOCKS_MAX })
    }

    /// Measures one transport and size once, by itself, and traces nothing.
    pub fn once(
        &self,
        bench: &Bench,
        transport: TransportKind,
        size: Size,
    ) -> Result<ExchangeResult, BenchError> {
        let instruments = Instruments { trace: false, ..self.instruments };
        bench.exchange_with(&self.exchange(transport, size, 1), instruments)
    }

    /// One of `parts` equal parts of the test.
    fn exchange(&self, transport: TransportKind, size: Size, parts: u32) -> Exchange {
        Exchange {
            transport: transport.name().to_owned(),
            settings: self.assignments.clone(),
            workload: Workload::Echo,
            request_bytes: REQUEST_BYTES,
            response_bytes: size.0,
            buffers: self.buffers,
            timing: Timing::EachCall,
            in_flight: self.in_flight,
            clients: self.clients,
            servers: self.servers,
            warmup_calls: self.warmup_calls,
            calls: self.calls.div_ceil(u64::from(parts)),
            lasting: self.lasting / parts,
        }
    }
}

fn sum_up(
    transport: TransportKind,
    size: Size,
    blocks: &Blocks<Found>,
    limit: Option<RoundTripLimit>,
    seed: u64,
) -> Option<EchoOutcome> {
    let regime = blocks.main_regime()?;
    let results: Vec<&ExchangeResult> = blocks.of_arm(regime, ECHO_ARM).filter_map(Found::echo).collect();
    let mut latencies = LatencyHistogram::new();
    results.iter().for_each(|result| latencies.merge(&result.latencies));
    let latency = latencies.summary()?;
    let wall: Duration = results.iter().map(|result| result.wall).sum();
    let calls: u64 = results.iter().map(|result| result.calls).sum();
    let (calls_per_second, in_flight) = (calls as f64 / wall.as_secs_f64(), results[0].in_flight);
    let waited = results.iter().filter_map(|result| result.asides.server_waited);
    Some(EchoOutcome {
        transport,
        size,
        regime,
        blocks: results.len(),
        blocks_discarded: blocks.discarded + blocks.kept.len() - results.len(),
        latency,
        calls_per_second,
        received_bytes_per_second: calls_per_second * size.0 as f64,
        calls,
        in_flight,
        counters: sum_of(results.iter().map(|result| &result.counters)),
        server_counters: sum_of(results.iter().map(|result| &result.asides.server_counters)),
        server_waited: waited.max_by(f64::total_cmp),
        traced: Traced::on_machine(results.iter().map(|result| &*result.asides.traces)),
        distances: blocks.distances.clone(),
        warm: results.iter().all(|result| result.warm),
        little: LittleCheck::new(in_flight as f64, calls_per_second, latency.mean_nanos),
        limit: limit.and_then(|limit| limit_of(blocks, regime, limit, seed)),
    })
}

fn limit_of(blocks: &Blocks<Found>, regime: Regime, limit: RoundTripLimit, seed: u64) -> Option<EchoLimit> {
    let pairs = blocks.pairs(regime, ECHO_ARM, LIMIT_ARM, Found::median_nanos);
    let ratio = ratio_of_medians(&pairs, seed)?;
    let limits: Vec<f64> = pairs.iter().map(|pair| pair.1).collect();
    Some(EchoLimit { p50_nanos: crate::bootstrap::median(&limits)?, ratio, words: limit.words() })
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
