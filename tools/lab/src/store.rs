//! clusterperf's tests of reads and writes: random objects of a key-value store, of one length at a time.

use core::time::Duration;
use std::collections::BTreeMap;

use farcall::TransportKind;

use crate::bench::{Bench, BenchError};
use crate::blocks::{Blocks, Distance, Plan};
use crate::exchange::{
    Buffers, Exchange, ExchangeResult, Instruments, StoreAccess, StoreWork, Timing, Workload, sum_of,
};
use crate::histogram::{LatencyHistogram, LatencySummary};
use crate::little::LittleCheck;
use crate::regime::Regime;
use crate::trace::Traced;
use crate::units::Size;

/// Memory that clusterperf fills with objects unless told otherwise, in bytes.
const FILLED_BYTES: u64 = 200_000_000;

/// What clusterperf adds to the length of an object when it counts how many fit.
const OBJECT_OVERHEAD_BYTES: u64 = 50;

/// How many blocks the calls are spread over, each with fresh processes.
pub const BLOCKS: usize = 3;

/// How many blocks are tried while cores move.
const BLOCKS_MAX: usize = 9;

/// Objects of one length in the table of clusterperf's `basic`.
pub fn objects_as_in_clusterperf(size: Size) -> u64 {
    (FILLED_BYTES / (size.0 as u64 + OBJECT_OVERHEAD_BYTES)).max(1)
}

/// What is measured, but for transport and size.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreTest {
    /// Parameters, each as `name=value`.
    pub assignments: Vec<String>,
    /// Operations of each client.
    pub calls: u64,
    /// The longest that they may take.
    pub lasting: Duration,
    /// The fewest operations before the measurement.
    pub warmup_calls: u64,
    /// Operations that each client keeps under way.
    pub in_flight: usize,
    /// Processes that call.
    pub clients: usize,
    /// Processes that answer: shards.
    pub servers: usize,
    /// How many objects there are; `None` for as many as clusterperf has.
    pub objects: Option<u64>,
    /// Decides which objects are accessed.
    pub seed: u64,
    /// What is done beside the calls.
    pub instruments: Instruments,
}

/// What was found for one transport, size and access.
#[derive(Clone, Debug)]
pub struct StoreOutcome {
    /// The transport.
    pub transport: TransportKind,
    /// Length of the objects.
    pub size: Size,
    /// How many there were.
    pub objects: u64,
    /// Processes that called.
    pub clients: usize,
    /// Where the cores were.
    pub regime: Regime,
    /// Blocks that the figures rest on.
    pub blocks: usize,
    /// Blocks without use, because the cores moved or were in the rarer regime.
    pub blocks_discarded: usize,
    /// All latencies.
    pub latencies: LatencyHistogram,
    /// The same in short.
    pub latency: LatencySummary,
    /// Operations per second of wall-clock time.
    pub calls_per_second: f64,
    /// Operations completed.
    pub calls: u64,
    /// Operations under way at a time, all clients together.
    pub in_flight: u64,
    /// What the clients' counters counted while the operations were under way.
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
    /// Whether throughput, latency and operations under way agree.
    pub little: LittleCheck,
}

impl StoreTest {
    /// Measures one way of access over one transport.
    pub fn run(
        &self,
        bench: &Bench,
        transport: TransportKind,
        size: Size,
        access: StoreAccess,
    ) -> Result<StoreOutcome, BenchError> {
        let objects = self.objects.unwrap_or_else(|| objects_as_in_clusterperf(size));
        let exchange = self.exchange(transport, size, StoreWork { access, objects, seed: self.seed });
        let mut blocks = Blocks::new();
        for order in (Plan { arms: 1, blocks: BLOCKS_MAX, seed: self.seed }).orders() {
            let measure = |_| bench.exchange_with(&exchange, self.instruments);
            blocks.run(&order, || bench.distance_nanos(), measure)?;
            if blocks.main_regime().is_some_and(|regime| blocks.of_arm(regime, 0).count() == BLOCKS) {
                break;
            }
        }
        sum_up(transport, size, objects, self.clients, &blocks).ok_or_else(|| BenchError::NeverSteady {
            what: format!("{access:?} of {size} over {transport}"),
            blocks: BLOCKS_MAX,
        })
    }

    fn exchange(&self, transport: TransportKind, size: Size, work: StoreWork) -> Exchange {
        Exchange {
            transport: transport.name().to_owned(),
            settings: self.assignments.clone(),
            workload: Workload::Store(work),
            request_bytes: 0,
            response_bytes: size.0,
            buffers: Buffers::Copied,
            timing: Timing::EachCall,
            in_flight: self.in_flight,
            clients: self.clients,
            servers: self.servers,
            warmup_calls: self.warmup_calls,
            calls: self.calls.div_ceil(BLOCKS as u64),
            lasting: self.lasting / BLOCKS as u32,
        }
    }
}

fn sum_up(
    transport: TransportKind,
    size: Size,
    objects: u64,
    clients: usize,
    blocks: &Blocks<ExchangeResult>,
) -> Option<StoreOutcome> {
    let regime = blocks.main_regime()?;
    let results: Vec<&ExchangeResult> = blocks.of_arm(regime, 0).collect();
    let mut latencies = LatencyHistogram::new();
    results.iter().for_each(|result| latencies.merge(&result.latencies));
    let latency = latencies.summary()?;
    let wall: Duration = results.iter().map(|result| result.wall).sum();
    let calls: u64 = results.iter().map(|result| result.calls).sum();
    let (calls_per_second, in_flight) = (calls as f64 / wall.as_secs_f64(), results[0].in_flight);
    let waited = results.iter().filter_map(|result| result.asides.server_waited);
    Some(StoreOutcome {
        transport,
        size,
        objects,
        clients,
        regime,
        blocks: results.len(),
        blocks_discarded: blocks.discarded + blocks.kept.len() - results.len(),
        latencies,
        latency,
        calls_per_second,
        calls,
        in_flight,
        counters: sum_of(results.iter().map(|result| &result.counters)),
        server_counters: sum_of(results.iter().map(|result| &result.asides.server_counters)),
        server_waited: waited.max_by(f64::total_cmp),
        traced: Traced::on_machine(results.iter().map(|result| &*result.asides.traces)),
        distances: blocks.distances.clone(),
        warm: results.iter().all(|result| result.warm),
        little: LittleCheck::new(in_flight as f64, calls_per_second, latency.mean_nanos),
    })
}
