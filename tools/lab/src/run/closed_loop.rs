//! Calls in a closed loop, and what is found for them: in blocks on processes of this machine, or once on a
//! simulated fabric.

use core::time::Duration;
use std::collections::BTreeMap;

use farcall::TransportKind;
use serde_json::{Value, json};

use crate::explain::trace::Traced;
use crate::run::bench::{Bench, BenchError};
use crate::run::blocks::{BlockPlan, Blocks, Distance};
use crate::run::exchange::{
    Buffers, Exchange, ExchangeResult, ExchangeWork, Instruments, ProcessFound, Rest, Timing, sum_of,
};
use crate::run::losses::Losses;
use crate::run::regime::Regime;
use crate::run::simulation::SimulatedRun;
use crate::statistics::batches::Batches;
use crate::statistics::histogram::{LatencyHistogram, LatencySummary};
use crate::statistics::little::LittleCheck;
use crate::units::{Size, in_readable_unit};

/// How many blocks the calls of one size are spread over, each with fresh processes.
pub const BLOCKS: usize = 3;

/// How many blocks are tried while cores move.
pub(crate) const BLOCKS_MAX: usize = 9;

/// From this share of a measurement on that servers waited for a core its times are said to be those of the
/// wait.
pub const CORE_SHARED_MIN: f64 = 0.1;

/// What tests that call in a closed loop have in common.
#[derive(Clone, Debug, PartialEq)]
pub struct ClosedLoop {
    /// Parameters, each as `name=value`.
    pub assignments: Vec<String>,
    /// Calls of each client.
    pub calls: u64,
    /// The longest that the calls of one size may take.
    pub lasting: Duration,
    /// The fewest calls before the measurement.
    pub warmup_calls: u64,
    /// Calls that each client keeps in flight.
    pub in_flight: usize,
    /// Processes that call.
    pub clients: usize,
    /// Processes that answer.
    pub servers: usize,
    /// Decides the order of what a block compares, and which objects of a store are accessed.
    pub seed: u64,
    /// What is done beside the calls.
    pub instruments: Instruments,
}

impl ClosedLoop {
    /// One of `parts` equal parts of its calls. Requests have no length of their own; payloads are copied.
    pub(crate) fn exchange(
        &self,
        transport: TransportKind,
        workload: ExchangeWork,
        size: Size,
        parts: u32,
    ) -> Exchange {
        Exchange {
            transport: transport.name().to_owned(),
            settings: self.assignments.clone(),
            workload,
            request_bytes: 0,
            response_bytes: size.0,
            buffers: Buffers::Copied,
            timing: Timing::EachCall,
            in_flight: self.in_flight,
            clients: self.clients,
            servers: self.servers,
            warmup_calls: self.warmup_calls,
            calls: self.calls.div_ceil(u64::from(parts)),
            lasting: self.lasting / parts,
            seed: self.seed,
        }
    }
}

/// What was found for one transport and size.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The transport.
    pub transport: TransportKind,
    /// Length of the responses, or of the objects.
    pub size: Size,
    /// Processes that called.
    pub clients: usize,
    /// Processes that answered.
    pub servers: usize,
    /// All latencies.
    pub latencies: LatencyHistogram,
    /// The same in short.
    pub latency: LatencySummary,
    /// Calls per second, of wall-clock or simulated time.
    pub calls_per_second: f64,
    /// How far the mean latency and the calls per second may be off, as a part of them, with 95 %; `None`
    /// with too few calls.
    pub relative_error: Option<f64>,
    /// Calls that began in the window; all of them were completed.
    pub calls: u64,
    /// What was in flight at the end of the windows.
    pub rest: Rest,
    /// Calls in flight, all clients together.
    pub in_flight: u64,
    /// What the clients' counters counted while the calls were made; those of all hosts of a simulated
    /// fabric.
    pub counters: BTreeMap<String, u64>,
    /// The calls, when they were traced.
    pub traced: Traced,
    /// Whether throughput, latency and calls in flight agree.
    pub little: LittleCheck,
    /// On what they ran.
    pub ran: Ran,
}

/// On what the calls ran, and what there is to say of it.
#[derive(Clone, Debug)]
pub enum Ran {
    /// Processes of this machine.
    OnProcesses(InBlocks),
    /// A simulated fabric; times are simulated.
    OnFabric(Box<SimulatedRun>),
}

/// What there is to say of calls in blocks.
#[derive(Clone, Debug)]
pub struct InBlocks {
    /// Where the cores were.
    pub regime: Regime,
    /// Blocks that the figures rest on.
    pub blocks: usize,
    /// Blocks without use, because the cores moved or were in the rarer regime.
    pub blocks_discarded: usize,
    /// What the servers' counters counted while the calls were made.
    pub server_counters: BTreeMap<String, u64>,
    /// The share of the time in which servers were ready to run and had no core; `None` where the kernel does
    /// not tell.
    pub server_waited: Option<f64>,
    /// How far the cores were apart, around every block.
    pub distances: Vec<Distance>,
    /// Whether the warm-up found a steady state in every block.
    pub warm: bool,
    /// What each process found by itself, all blocks together.
    pub processes: Vec<ProcessFound>,
}

/// Runs blocks of all arms until enough of one regime are kept. Arm 0 is the closed loop. `measure` gets the
/// arm and the number of the block.
pub(crate) fn in_blocks<T>(
    bench: &Bench,
    arms: usize,
    seed: u64,
    mut measure: impl FnMut(usize, u64) -> Result<T, BenchError>,
) -> Result<Blocks<T>, BenchError> {
    let mut blocks = Blocks::new();
    for (block, order) in (0..).zip((BlockPlan { arms, blocks: BLOCKS_MAX, seed }).orders()) {
        blocks.run(&order, || bench.distance_nanos(), |arm| measure(arm, block))?;
        let kept = blocks.main_regime().map_or(0, |regime| blocks.of_arm(regime, 0).count());
        bench.has_done(kept as f64 / BLOCKS as f64);
        if kept == BLOCKS {
            break;
        }
    }
    Ok(blocks)
}

/// The findings of each process, all blocks together.
fn processes_of(results: &[&ExchangeResult]) -> Vec<ProcessFound> {
    let mut processes: Vec<ProcessFound> = Vec::new();
    for found in results.iter().flat_map(|result| &result.asides.processes) {
        match processes.iter_mut().find(|process| process.process == found.process) {
            Some(process) => *process = core::mem::take(process).and(found),
            None => processes.push(found.clone()),
        }
    }
    processes
}

impl Outcome {
    /// Puts the blocks of the main regime together; an error when no block of `what` was kept. `result` is
    /// that of arm 0.
    pub(crate) fn of_blocks<T>(
        transport: TransportKind,
        exchange: &Exchange,
        blocks: &Blocks<T>,
        what: String,
        result: impl Fn(&T) -> Option<&ExchangeResult>,
    ) -> Result<Self, BenchError> {
        let unsteady = || BenchError::NeverSteady { what, blocks: BLOCKS_MAX };
        Self::of_main_regime(transport, exchange, blocks, result).ok_or_else(unsteady)
    }

    fn of_main_regime<T>(
        transport: TransportKind,
        exchange: &Exchange,
        blocks: &Blocks<T>,
        result: impl Fn(&T) -> Option<&ExchangeResult>,
    ) -> Option<Self> {
        let regime = blocks.main_regime()?;
        let results: Vec<&ExchangeResult> = blocks.of_arm(regime, 0).filter_map(result).collect();
        let mut latencies = LatencyHistogram::new();
        results.iter().for_each(|result| latencies.merge(&result.latencies));
        let latency = latencies.summary()?;
        let over_blocks = |rate: fn(&ExchangeResult) -> f64| {
            let seconds: f64 = results.iter().map(|result| result.calls as f64 / rate(result)).sum();
            results.iter().map(|result| result.calls).sum::<u64>() as f64 / seconds
        };
        let calls_per_second = over_blocks(|result| result.calls_per_second);
        let completed_per_second = over_blocks(|result| result.completed_per_second);
        let in_flight = results[0].in_flight;
        let batches = results.iter().fold(Batches::default(), |all, result| all.and(&result.batches));
        let waited = results.iter().filter_map(|result| result.asides.server_waited);
        let in_blocks = InBlocks {
            regime,
            blocks: results.len(),
            blocks_discarded: blocks.discarded + blocks.kept.len() - results.len(),
            server_counters: sum_of(results.iter().map(|result| &result.asides.server_counters)),
            server_waited: waited.max_by(f64::total_cmp),
            distances: blocks.distances.clone(),
            warm: results.iter().all(|result| result.warm),
            processes: processes_of(&results),
        };
        Some(Self {
            transport,
            size: Size(exchange.response_bytes),
            clients: exchange.clients,
            servers: exchange.servers,
            latencies,
            latency,
            calls_per_second,
            relative_error: batches.relative_error(),
            calls: results.iter().map(|result| result.calls).sum(),
            rest: results.iter().fold(Rest::default(), |rest, result| rest.and(result.rest)),
            in_flight,
            counters: sum_of(results.iter().map(|result| &result.counters)),
            traced: Traced::on_machine(results.iter().map(|result| &*result.asides.traces)),
            little: LittleCheck::new(in_flight as f64, completed_per_second, latency.mean_nanos),
            ran: Ran::OnProcesses(in_blocks),
        })
    }

    /// The result of a simulation. A client makes at least one call.
    pub(crate) fn simulated(
        transport: TransportKind,
        exchange: &Exchange,
        result: ExchangeResult,
        run: SimulatedRun,
    ) -> Self {
        let latency = result.latencies.summary().expect("a client makes at least one call");
        Self {
            transport,
            size: Size(exchange.response_bytes),
            clients: exchange.clients,
            servers: exchange.servers,
            latency,
            calls_per_second: result.calls_per_second,
            relative_error: result.batches.relative_error(),
            calls: result.calls,
            rest: result.rest,
            in_flight: result.in_flight,
            counters: result.counters,
            traced: Traced::simulated([&*result.asides.traces]),
            little: LittleCheck::new(
                result.in_flight as f64,
                result.completed_per_second,
                latency.mean_nanos,
            ),
            latencies: result.latencies,
            ran: Ran::OnFabric(Box::new(run)),
        }
    }

    /// Bytes of responses or objects per second.
    pub fn bytes_per_second(&self) -> f64 {
        self.calls_per_second * self.size.0 as f64
    }

    /// How far the cores were apart around every block; nothing where there are none.
    pub fn distances(&self) -> &[Distance] {
        match &self.ran {
            Ran::OnProcesses(found) => &found.distances,
            Ran::OnFabric(_) => &[],
        }
    }

    /// The fields that the records of all closed loops have.
    pub fn fields(&self) -> Vec<(&'static str, Value)> {
        let mut fields = vec![
            ("size_bytes", self.size.0.into()),
            ("clients", self.clients.into()),
            ("servers", self.servers.into()),
            ("calls_per_second", self.calls_per_second.into()),
            ("relative_error", json!(self.relative_error)),
            ("in_flight_at_end", self.rest.calls.into()),
            ("waited_for_ns", (self.rest.waited.as_nanos() as u64).into()),
            ("losses", json!(self.losses())),
            ("implied_in_flight", self.little.implied.into()),
            ("counters", json!(self.counters)),
        ];
        match &self.ran {
            Ran::OnProcesses(found) => fields.extend([
                ("regime", json!(found.regime.to_string())),
                ("blocks", found.blocks.into()),
                ("blocks_discarded", found.blocks_discarded.into()),
                ("warm", found.warm.into()),
                ("server_counters", json!(found.server_counters)),
                ("server_waited", json!(found.server_waited)),
                ("processes", found.processes.iter().map(ProcessFound::object).collect()),
            ]),
            Ran::OnFabric(run) => fields.extend(run.fields()),
        }
        fields
    }

    /// What fell while the calls were made, at clients and servers.
    pub fn losses(&self) -> Losses {
        match &self.ran {
            Ran::OnProcesses(found) => Losses::of(&self.counters).and(Losses::of(&found.server_counters)),
            Ran::OnFabric(_) => Losses::of(&self.counters),
        }
    }

    /// See [`InBlocks::server_waited`]; simulated hosts have their cores for themselves.
    fn server_waited(&self) -> Option<f64> {
        match &self.ran {
            Ran::OnProcesses(found) => found.server_waited,
            Ran::OnFabric(_) => None,
        }
    }

    /// What was in flight at the end of the windows; nothing if nothing was.
    pub fn rest_line(&self) -> Option<String> {
        let Rest { calls, waited } = self.rest;
        let (time, unit) = in_readable_unit(waited.as_nanos() as f64);
        let ran = if calls == 1 { "call was" } else { "calls were" };
        (calls > 0).then(|| {
            format!(
                "{calls} {ran} in flight at the end of the window, waited for ({time:.3} {unit}) and counted"
            )
        })
    }

    /// What a reader should know before believing the figures.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        warnings.extend(self.losses().too_few(self.calls));
        let (warm, discarded) = match &self.ran {
            Ran::OnProcesses(found) => (found.warm, found.blocks_discarded),
            Ran::OnFabric(_) => (true, 0),
        };
        if !warm {
            warnings.push("latencies never became steady".to_owned());
        }
        if let Some(waited) = self.server_waited().filter(|waited| *waited >= CORE_SHARED_MIN) {
            warnings.push(format!(
                "by the kernel's account servers waited {:.0} % of the time for a core: others used it, and the figures \
                 are of that",
                waited * 100.0
            ));
        }
        if !self.little.holds() {
            let (implied, in_flight) = (self.little.implied, self.in_flight);
            warnings.push(format!(
                "throughput and latency imply {implied:.2} calls in flight instead of {in_flight}"
            ));
        }
        match discarded {
            0 => {}
            1 => warnings.push("1 block left out because cores moved".to_owned()),
            more => warnings.push(format!("{more} blocks left out because cores moved")),
        }
        warnings
    }
}
