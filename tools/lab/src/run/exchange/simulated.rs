//! An exchange between the hosts of a simulated fabric: the same servers and the same closed loop as between
//! processes, with the simulation in the place of their own loops.

use std::cell::RefCell;
use std::rc::Rc;

use farcall::parameters::Settings;
use farcall::simulated::{Cluster, Fabric, Program, Tasks};
use farcall::{Endpoint, Event, Instant, Node, Peer};

use super::client::{ClosedLoop, Run};
use super::counters::OwnCounters;
use super::report::ClientReport;
use super::requests::{Requests, Stream};
use super::server::{serve_echo, serve_ready};
use super::worker::OVERHEAD_MAX;
use super::{Exchange, ExchangeResult, Instruments, READY, Timing};
use crate::explain::trace::HostTrace;
use crate::run::simulation::{SimulatedFabric, SimulatedRun, SimulationError};
use crate::run::uses::Ledger;
use crate::statistics::batches::Batches;
use crate::statistics::histogram::LatencyHistogram;
use crate::statistics::warmup::Warmup;

/// Measures an exchange on a simulated fabric: ranks are servers first, then clients.
///
/// Its counters are those of all hosts.
pub fn simulate(
    exchange: &Exchange,
    settings: &Settings,
    fabric: &SimulatedFabric,
) -> Result<(ExchangeResult, SimulatedRun), SimulationError> {
    simulate_with(exchange, Instruments::default(), settings, fabric, |_| ())
}

/// As [`simulate`], with something beside the exchange; `prepare` can do something to the fabric before it
/// begins.
pub fn simulate_with(
    exchange: &Exchange,
    instruments: Instruments,
    settings: &Settings,
    fabric: &SimulatedFabric,
    prepare: impl FnOnce(&Cluster),
) -> Result<(ExchangeResult, SimulatedRun), SimulationError> {
    let exchange = Rc::new(exchange.clone());
    let findings = Rc::new(RefCell::new(Findings { instruments, ..Findings::default() }));
    let mut cluster = fabric.cluster(exchange.servers + exchange.clients, settings)?;
    for rank in 0..cluster.size() {
        let (exchange, findings) = (Rc::clone(&exchange), Rc::clone(&findings));
        cluster.start(rank, move |node| program(&node, &exchange, &findings));
    }
    prepare(&cluster);
    let within = exchange.lasting + OVERHEAD_MAX;
    let run = fabric.run_while(&mut cluster, within, || !findings.borrow().are_complete(exchange.clients));
    let mut findings = findings.borrow_mut();
    if let Some((rank, why)) = findings.failure.take() {
        return Err(SimulationError::Failed { rank, why });
    }
    let mut result = ExchangeResult::new(&exchange, &findings.reports);
    let before = findings.counters_before.take().unwrap_or_default();
    result.counters = OwnCounters::read().of_all_hosts().since(&before);
    let mut run = run?;
    if let Some(before) = &findings.ledger_before {
        run.uses = Ledger::of(cluster.fabric()).since(before, exchange.servers, &fabric.profile);
    }
    result.asides.traces = core::mem::take(&mut findings.traces);
    let servers = findings.servers.iter();
    result.asides.traces.extend(servers.filter_map(|(rank, server)| HostTrace::end(*rank, server)));
    Ok((result, run))
}

/// What the clients have found so far.
#[derive(Default)]
struct Findings {
    reports: Vec<ClientReport>,
    failure: Option<(u32, String)>,
    counters_before: Option<OwnCounters>,
    ledger_before: Option<Ledger>,
    instruments: Instruments,
    servers: Vec<(u32, Rc<Endpoint>)>,
    traces: Vec<HostTrace>,
}

impl Findings {
    fn are_complete(&self, clients: usize) -> bool {
        self.reports.len() == clients || self.failure.is_some()
    }
}

fn program(node: &Node, exchange: &Rc<Exchange>, findings: &Rc<RefCell<Findings>>) -> Box<dyn Program> {
    let endpoint = match node.endpoint(&exchange.transport) {
        Ok(endpoint) => endpoint,
        Err(error) => {
            findings.borrow_mut().failure = Some((node.rank(), error.to_string()));
            return Box::new(Absent);
        }
    };
    if node.rank() < exchange.servers as u32 {
        // A request that could not be answered fails its caller, which reports it.
        let Instruments { trace, handler } = findings.borrow().instruments;
        let host = node.host().expect("a simulated node has a host").clone();
        let work = move || {
            if !handler.is_zero() {
                host.spend(handler)
            }
        };
        serve_echo(&endpoint, exchange, Default::default(), work);
        serve_ready(&endpoint, exchange.clients, || ());
        endpoint.tracer().switch(trace);
        return Box::new(Tasks::new(endpoint, |endpoint| {
            findings.borrow_mut().servers.push((node.rank(), endpoint));
            async {}
        }));
    }
    Box::new(Client {
        rank: node.rank(),
        endpoint,
        peers: Vec::new(),
        exchange: Rc::clone(exchange),
        findings: Rc::clone(findings),
        fabric: node.host().map(|host| host.fabric().clone()),
        phase: Phase::Connecting,
    })
}

/// The program of a host that has no endpoint.
struct Absent;

impl Program for Absent {
    fn turn(&mut self) -> usize {
        0
    }

    fn next_deadline(&self) -> Option<Instant> {
        None
    }
}

/// A client's program.
struct Client {
    rank: u32,
    endpoint: Endpoint,
    peers: Vec<Peer>,
    exchange: Rc<Exchange>,
    findings: Rc<RefCell<Findings>>,
    fabric: Option<Fabric>,
    phase: Phase,
}

/// What a client is doing. Each phase leads to the next one when it is over.
enum Phase {
    /// It looks for the servers.
    Connecting,
    /// It makes the first calls, which open sessions.
    WarmingUp(Box<ClosedLoop>),
    /// It waits until all clients are warm.
    Waiting,
    /// It makes the calls that count.
    Measuring(Box<Measuring>),
    /// It has reported.
    Over,
}

/// The calls that count, so far.
struct Measuring {
    closed_loop: ClosedLoop,
    latencies: LatencyHistogram,
    batches: Batches,
    begun: Instant,
}

impl Client {
    fn connect(&mut self) -> Result<Phase, String> {
        let ranks = 0..self.exchange.servers as u32;
        self.peers =
            ranks.map(|rank| self.endpoint.peer(rank)).collect::<Result<_, _>>().map_err(sentence)?;
        // Every server is called at least once by every place.
        let at_least = (self.peers.len() * self.exchange.in_flight) as u64;
        let calls = self.exchange.warmup_calls.max(at_least);
        let warming_up = self.started(Timing::EachCall, Stream::warming_up(self.rank), calls)?;
        Ok(Phase::WarmingUp(Box::new(warming_up)))
    }

    fn started(&self, timing: Timing, stream: Stream, calls: u64) -> Result<ClosedLoop, String> {
        let requests = Requests::new(&self.exchange, &self.peers, stream);
        let clock = self.endpoint.clock();
        let mut closed_loop = ClosedLoop::new(&self.exchange, requests, timing, clock).of_at_most(calls);
        closed_loop.start(&self.endpoint).map_err(sentence)?;
        Ok(closed_loop)
    }

    /// One turn in a phase, and the phase after it.
    fn step(&mut self, phase: Phase) -> Result<(usize, Phase), String> {
        match phase {
            Phase::Connecting => Ok((1, self.connect()?)),
            Phase::WarmingUp(closed_loop) => self.warm_up(closed_loop),
            Phase::Waiting => self.wait(),
            Phase::Measuring(state) => self.measure(state),
            Phase::Over => Ok((self.endpoint.poll(|_, _| {}), Phase::Over)),
        }
    }

    fn warm_up(&mut self, mut closed_loop: Box<ClosedLoop>) -> Result<(usize, Phase), String> {
        let done = closed_loop.turn(&self.endpoint, &mut |_, _| false);
        if !ClosedLoop::is_over(&self.endpoint) {
            return Ok((done, Phase::WarmingUp(closed_loop)));
        }
        closed_loop.end().map_err(sentence)?;
        self.endpoint.call(self.peers[0], READY, b"").post(0).map_err(sentence)?;
        Ok((done + 1, Phase::Waiting))
    }

    fn wait(&mut self) -> Result<(usize, Phase), String> {
        let mut answered = None;
        let done = self.endpoint.poll(|_, event| {
            if let Event::Completed { outcome, .. } = event {
                answered = Some(outcome.as_ref().map(|_| ()).map_err(sentence));
            }
        });
        let Some(answer) = answered else { return Ok((done, Phase::Waiting)) };
        answer?;
        self.findings.borrow_mut().counters_before.get_or_insert_with(|| OwnCounters::read().of_all_hosts());
        if let Some(fabric) = self.fabric.as_ref() {
            self.findings.borrow_mut().ledger_before.get_or_insert_with(|| Ledger::of(fabric));
        }
        let begun = self.endpoint.clock().now();
        self.endpoint.tracer().switch(self.findings.borrow().instruments.trace);
        let (timing, calls) = (self.exchange.timing, self.exchange.calls);
        let closed_loop = self.started(timing, Stream::measured(self.rank), calls)?;
        let (latencies, batches) = (LatencyHistogram::new(), Batches::default());
        Ok((done, Phase::Measuring(Box::new(Measuring { closed_loop, latencies, batches, begun }))))
    }

    fn measure(&mut self, mut state: Box<Measuring>) -> Result<(usize, Phase), String> {
        let lasting = self.exchange.lasting;
        let Measuring { closed_loop, latencies, batches, begun } = &mut *state;
        let done = closed_loop.turn(&self.endpoint, &mut |call, now| {
            if let Some(nanos) = call.nanos {
                latencies.record(nanos);
                batches.record(call.ordinal, nanos);
            }
            now - *begun >= lasting
        });
        if !ClosedLoop::is_over(&self.endpoint) {
            return Ok((done, Phase::Measuring(state)));
        }
        let Measuring { closed_loop, latencies, batches, begun } = *state;
        let end = closed_loop.end().map_err(sentence)?;
        let mut findings = self.findings.borrow_mut();
        findings.traces.extend(HostTrace::end(self.rank, &self.endpoint));
        findings.reports.push(ClientReport {
            // Simulated hosts have nothing that warms up but their sessions.
            warmup: Warmup { samples: 0, steady: true },
            ..ClientReport::new(&Run { begun, end, latencies, batches })
        });
        drop(findings);
        Ok((done, Phase::Over))
    }
}

impl Program for Client {
    fn turn(&mut self) -> usize {
        let phase = core::mem::replace(&mut self.phase, Phase::Over);
        match self.step(phase) {
            Ok((done, phase)) => {
                self.phase = phase;
                done
            }
            Err(why) => {
                self.findings.borrow_mut().failure.get_or_insert((self.rank, why));
                0
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.endpoint.next_deadline()
    }
}

fn sentence(error: impl core::fmt::Display) -> String {
    error.to_string()
}
