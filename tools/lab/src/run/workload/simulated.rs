//! The workload on a simulated fabric: once on an idle one for the best times, once under load.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use core::time::Duration;

use farcall::parameters::Settings;
use farcall::simulated::{Cluster, Program};
use farcall::{Endpoint, Instant, Node, Peer, TransportKind};

use super::open_loop::{OpenLoop, Sent};
use super::prober::Prober;
use super::{Plan, Recorded, Reply, Roles, SenderError, WorkloadOutcome, WorkloadTest};
use crate::explain::trace::{HostTrace, Traced};
use crate::run::Heard;
use crate::run::exchange::OwnCounters;
use crate::run::simulation::{SimulatedFabric, SimulatedRun, SimulationError};

/// Messages of each class on the idle fabric: the first one opens the session, and all others are alike.
const PROBES: usize = 2;

/// Turns of hosts between two looks at the time.
const TURNS_PER_LOOK: u64 = 1 << 14;

/// The most simulated time that ranks get beyond the load itself.
const OVERTIME_MAX: Duration = Duration::from_secs(60);

impl WorkloadTest {
    /// Measures one transport on a simulated fabric. `heard` is told which part of the load is over.
    pub fn simulate(
        &self,
        fabric: &SimulatedFabric,
        transport: TransportKind,
        heard: &Heard<'_>,
    ) -> Result<(WorkloadOutcome, SimulatedRun), SimulationError> {
        let plan = Arc::new(self.plan(transport));
        let settings = Settings::load(plan.settings.iter().cloned())
            .map_err(|error| SimulationError::Failed { rank: 0, why: error.to_string() })?;
        let payload: Arc<[u8]> = vec![1; plan.bytes_max()].into();
        let file = self.replay.as_ref().map(|replay| Arc::clone(&replay.file));
        let scene = Scene { plan: Arc::clone(&plan), file, payload, found: Rc::default() };
        let best_nanos = scene.probe(fabric, &settings)?;
        let before = OwnCounters::read().of_all_hosts();
        let (sent, run) = scene.load(fabric, &settings, heard)?;
        let counters = OwnCounters::read().of_all_hosts().since(&before);
        let wire_load = self.wire_load(&sent, fabric.wire_bytes(&run.totals));
        let outcome = WorkloadOutcome::new(self, &plan, &best_nanos, &sent, counters);
        let traces = core::mem::take(&mut scene.found.borrow_mut().endpoints);
        let traces: Vec<_> =
            traces.iter().filter_map(|(rank, endpoint)| HostTrace::end(*rank, endpoint)).collect();
        Ok((WorkloadOutcome { wire_load, traced: Traced::simulated([&*traces]), ..outcome }, run))
    }

    /// The load with all that the protocol adds: it adds the same to every byte, whatever the load is.
    fn wire_load(&self, sent: &[Sent], wire_bytes: f64) -> Option<f64> {
        let bytes: u64 = sent.iter().map(|sent| sent.bytes).sum();
        let times_carried = match (self.roles, self.reply) {
            (Roles::Everyone(_), Reply::Ack) => 1.0,
            (Roles::Everyone(_), Reply::Echo) => 2.0,
            (Roles::Apart { .. }, _) => return None,
        };
        Some(self.load * wire_bytes / (bytes as f64 * times_carried))
    }
}

/// What the ranks of a simulation share.
#[derive(Clone)]
struct Scene {
    plan: Arc<Plan>,
    /// The recorded messages, if those are replayed.
    file: Option<Arc<Recorded>>,
    payload: Arc<[u8]>,
    found: Rc<RefCell<Found>>,
}

/// What the ranks have found so far.
#[derive(Default)]
struct Found {
    best_nanos: Option<Vec<u64>>,
    sent: Vec<Sent>,
    failure: Option<(u32, String)>,
    /// The endpoints of the load, by rank.
    endpoints: Vec<(u32, Rc<Endpoint>)>,
}

impl Scene {
    /// The best time of each class.
    fn probe(&self, fabric: &SimulatedFabric, settings: &Settings) -> Result<Vec<u64>, SimulationError> {
        // What a message takes alone is what it takes when nothing goes wrong.
        let fabric = &SimulatedFabric::new(fabric.profile.clone(), fabric.seed);
        let mut cluster = fabric.cluster(self.plan.roles.ranks(), settings)?;
        let prober = self.plan.roles.first_sender();
        self.start(&mut cluster, move |rank| (rank == prober).then_some(Part::Probe));
        let found = Rc::clone(&self.found);
        self.run(fabric, &mut cluster, || found.borrow().best_nanos.is_none())?;
        Ok(self.found.borrow_mut().best_nanos.take().expect("the run ended with it"))
    }

    /// What the senders found under load.
    fn load(
        &self,
        fabric: &SimulatedFabric,
        settings: &Settings,
        heard: &Heard<'_>,
    ) -> Result<(Vec<Sent>, SimulatedRun), SimulationError> {
        let roles = self.plan.roles;
        self.found.borrow_mut().endpoints.clear();
        let mut cluster = fabric.cluster(roles.ranks(), settings)?;
        self.start(&mut cluster, move |rank| (rank >= roles.first_sender()).then_some(Part::Load));
        let found = Rc::clone(&self.found);
        self.found.borrow().endpoints.iter().for_each(|(_, endpoint)| {
            endpoint.tracer().switch(self.plan.trace);
        });
        let (simulated, load_end, mut looks) = (cluster.fabric().clone(), self.plan.load_end(), 0_u64);
        let run = self.run(fabric, &mut cluster, || {
            looks += 1;
            if looks.is_multiple_of(TURNS_PER_LOOK) {
                heard(simulated.now().as_secs_f64() / load_end.as_secs_f64());
            }
            found.borrow().sent.len() < roles.senders()
        })?;
        Ok((core::mem::take(&mut self.found.borrow_mut().sent), run))
    }

    fn start(&self, cluster: &mut Cluster, part: impl Fn(u32) -> Option<Part> + Copy + 'static) {
        for rank in 0..cluster.size() {
            let scene = self.clone();
            cluster.start(rank, move |node| scene.program(&node, part(rank)));
        }
    }

    fn run(
        &self,
        fabric: &SimulatedFabric,
        cluster: &mut Cluster,
        mut is_in_flight: impl FnMut() -> bool,
    ) -> Result<SimulatedRun, SimulationError> {
        let within = self.plan.load_end() + OVERTIME_MAX;
        let found = Rc::clone(&self.found);
        let run = fabric.run_while(cluster, within, || found.borrow().failure.is_none() && is_in_flight());
        match self.found.borrow_mut().failure.take() {
            Some((rank, why)) => Err(SimulationError::Failed { rank, why }),
            None => run,
        }
    }

    fn program(&self, node: &Node, part: Option<Part>) -> Box<dyn Program> {
        let rank = node.rank();
        let endpoint = node.endpoint(&self.plan.transport);
        if let Err(error) = &endpoint {
            self.found.borrow_mut().failure = Some((rank, error.to_string()));
        }
        let endpoint = endpoint.ok().map(Rc::new);
        if let Some(endpoint) = &endpoint {
            self.plan.serve(endpoint);
            self.found.borrow_mut().endpoints.push((rank, Rc::clone(endpoint)));
        }
        let doing = endpoint.as_ref().and(part).map_or(Doing::Nothing, Doing::Connecting);
        Box::new(Rank { rank, endpoint, scene: self.clone(), doing })
    }
}

/// What a sender is there for.
#[derive(Clone, Copy)]
enum Part {
    Probe,
    Load,
}

/// The program of a rank.
struct Rank {
    rank: u32,
    /// `None` when it could not be made, and the run is about to end.
    endpoint: Option<Rc<Endpoint>>,
    scene: Scene,
    doing: Doing,
}

/// What a rank does at the time. A sender connects, does its part, and then only answers others, as all
/// others do.
enum Doing {
    Connecting(Part),
    Probing(Prober),
    Loading(Box<OpenLoop>),
    Nothing,
}

impl Rank {
    fn step(&mut self) -> Result<usize, String> {
        let Some(endpoint) = &self.endpoint else { return Ok(0) };
        let Scene { plan, file, payload, found } = &self.scene;
        let sentence = |error: SenderError| error.to_string();
        let done = match &mut self.doing {
            Doing::Connecting(part) => {
                let ranks = plan.roles.receivers_of(self.rank).into_iter();
                let peers: Result<Vec<Peer>, _> = ranks.map(|rank| endpoint.peer(rank)).collect();
                let peers = peers.map_err(|error| error.to_string())?;
                let clock = endpoint.clock();
                self.doing = match part {
                    Part::Probe => Doing::Probing(Prober::new(plan, peers[0], payload, clock, PROBES)),
                    Part::Load => {
                        let (file, rank) = (file.as_ref(), self.rank);
                        Doing::Loading(Box::new(OpenLoop::new(plan, file, rank, peers, payload, clock)))
                    }
                };
                return Ok(1);
            }
            Doing::Probing(prober) => prober.turn(endpoint).map_err(sentence)?,
            Doing::Loading(open_loop) => open_loop.turn(endpoint).map_err(sentence)?,
            Doing::Nothing => endpoint.poll(|_, _| {}),
        };
        match core::mem::replace(&mut self.doing, Doing::Nothing) {
            Doing::Probing(prober) if prober.is_over() => {
                found.borrow_mut().best_nanos = Some(prober.into_best_nanos());
            }
            Doing::Loading(open_loop) if open_loop.is_over() => {
                found.borrow_mut().sent.push(open_loop.into_sent());
            }
            going_on => self.doing = going_on,
        }
        Ok(done)
    }
}

impl Program for Rank {
    fn turn(&mut self) -> usize {
        self.step().unwrap_or_else(|why| {
            self.scene.found.borrow_mut().failure.get_or_insert((self.rank, why));
            0
        })
    }

    fn next_deadline(&self) -> Option<Instant> {
        let of_endpoint = self.endpoint.as_ref()?.next_deadline();
        let of_load = match &self.doing {
            Doing::Loading(open_loop) => open_loop.next_due(),
            Doing::Connecting(_) => Some(Instant::ZERO),
            Doing::Probing(_) | Doing::Nothing => None,
        };
        of_load.into_iter().chain(of_endpoint).min()
    }
}
