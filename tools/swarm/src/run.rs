//! Running a scenario, and looking at what is left when all is quiet.

use core::time::Duration;
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use farcall::parameters::{Settings, SettingsError};
use farcall::simulated::{Cluster, Host, Outcome, ProfileError, Program, ScheduleError, Totals};
use farcall::{Endpoint, EndpointError, Holdings, Instant, TransportKind};

use crate::errands::{Errands, Runner};
use crate::ledger::SharedLedger;
use crate::node::Node;
use crate::scenario::Scenario;
use crate::serve::Desk;

/// What came of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// The rules that were broken, with the simulated time; none if all is well.
    pub violations: Vec<String>,
    /// The fingerprint of the run.
    pub trace_hash: u64,
    /// Calls that were planned.
    pub calls: usize,
    /// Calls that were answered.
    pub answered: usize,
    /// Calls that failed, as they may.
    pub failed: usize,
    /// Calls that were not accepted, as they may not be.
    pub refused: usize,
    /// Calls whose callers crashed, or were down when it was time.
    pub lost: usize,
    /// Reports of lost peers, all of them with a cause.
    pub peers_lost: usize,
    /// The kinds of faults of the scenario, as places in [`FAULT_KINDS`](crate::FAULT_KINDS).
    pub fault_kinds: Vec<usize>,
    /// Tagged messages that were sent, or should have been.
    pub messages: usize,
    /// Tagged messages that were received.
    pub received: usize,
    /// Collective operations that ended well, counted at each member.
    pub collectives: usize,
    /// Operations of the store that were answered.
    pub stored: usize,
    /// What happened on the fabric.
    pub totals: Totals,
}

/// Why a scenario cannot be run: it is drawn wrongly.
#[derive(Debug, thiserror::Error)]
pub enum UnusableError {
    /// There is no such fabric.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// There are no such settings.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// There is no such schedule of faults.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// A host cannot have such an endpoint.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
}

/// Endpoints of the lives that last, by rank.
type Endpoints = Rc<RefCell<Vec<Vec<(TransportKind, Weak<Endpoint>)>>>>;

/// Runs a scenario to its end.
pub fn run(scenario: &Scenario) -> Result<Findings, UnusableError> {
    run_and(scenario, || ())
}

/// Runs a scenario to its end, and then `at_end`, before its endpoints are dropped.
pub fn run_and(scenario: &Scenario, at_end: impl FnOnce()) -> Result<Findings, UnusableError> {
    let scenario = Arc::new(scenario.clone());
    let mut cluster =
        Cluster::new(scenario.profile()?, scenario.hosts, scenario.seed, scenario.settings(0)?)?;
    cluster.fabric().set_schedule(scenario.faults.schedule())?;
    cluster.fabric().record_overflows();
    let ledger = SharedLedger::new(Arc::clone(&scenario), cluster.fabric().clone());
    let endpoints = start(&mut cluster, &scenario, &ledger)?;
    let mut trial = Trial { scenario, cluster, ledger, endpoints };
    trial.finish_calls();
    trial.become_idle();
    at_end();
    Ok(trial.findings())
}

/// Gives each host its program.
fn start(
    cluster: &mut Cluster,
    scenario: &Arc<Scenario>,
    ledger: &SharedLedger,
) -> Result<Endpoints, UnusableError> {
    let none_yet = (0..scenario.hosts).map(|_| Vec::new()).collect();
    let endpoints: Endpoints = Rc::new(RefCell::new(none_yet));
    let failure = Rc::new(RefCell::new(None));
    let fabric = cluster.fabric().clone();
    for rank in 0..scenario.hosts {
        let life = Life {
            rank,
            scenario: Arc::clone(scenario),
            settings: scenario.settings(rank)?,
            ledger: ledger.clone(),
            endpoints: Rc::clone(&endpoints),
            host: fabric.host(rank as usize),
        };
        let failure = Rc::clone(&failure);
        cluster.start(rank, move |node| match life.begin(&node) {
            Ok(program) => Box::new(program) as Box<dyn Program>,
            Err(error) => {
                *failure.borrow_mut() = Some(error);
                Box::new(Nothing)
            }
        });
    }
    match failure.take() {
        Some(error) => Err(error.into()),
        None => Ok(endpoints),
    }
}

/// What each life of a host begins with.
struct Life {
    rank: u32,
    scenario: Arc<Scenario>,
    settings: Settings,
    ledger: SharedLedger,
    endpoints: Endpoints,
    host: Host,
}

impl Life {
    fn begin(&self, node: &farcall::Node) -> Result<Node, EndpointError> {
        let (scenario, rank) = (&self.scenario, self.rank);
        self.endpoints.borrow_mut()[rank as usize].clear();
        let endpoint = self.endpoint(node, scenario.transport, &self.settings)?;
        let desk = Desk::new(Arc::clone(scenario), self.ledger.clone(), rank, endpoint.clock());
        let errands = if scenario.errands.is_empty() {
            None
        } else {
            let transport = Errands::transport(scenario.seed, scenario.transport);
            // The key of a scenario is for packets: nothing seals lanes, and with a key they are refused.
            let mut settings = self.settings.clone();
            settings.security.key_file = None;
            settings.security.identity_file = None;
            settings.security.peers_file = None;
            Some(Runner::new(rank, transport, self.endpoint(node, transport, &settings)?, desk.clone()))
        };
        Ok(Node::new(rank, endpoint, desk, self.host.clone(), errands))
    }

    fn endpoint(
        &self,
        node: &farcall::Node,
        kind: TransportKind,
        settings: &Settings,
    ) -> Result<Rc<Endpoint>, EndpointError> {
        let endpoint = Rc::new(node.endpoint_with(kind, settings)?);
        self.endpoints.borrow_mut()[self.rank as usize].push((kind, Rc::downgrade(&endpoint)));
        Ok(endpoint)
    }
}

/// A scenario in flight.
struct Trial {
    scenario: Arc<Scenario>,
    cluster: Cluster,
    ledger: SharedLedger,
    endpoints: Endpoints,
}

impl Trial {
    fn now(&self) -> Instant {
        self.cluster.fabric().now().instant()
    }

    /// Lets all calls complete, the probes too.
    fn finish_calls(&mut self) {
        let (probes_at, ledger) = (Instant::ZERO + self.scenario.probes_at(), self.ledger.clone());
        self.cluster.run_until(Instant::from_nanos(probes_at.as_nanos() - 1));
        let now = self.now();
        self.ledger.lock().check_none_open(probes_at, now);
        let longest = Duration::from_millis(100);
        // The probes begin in the first turns after this time.
        self.cluster.run_until(probes_at + Duration::from_micros(100));
        let outcome = self.cluster.run_while_until(|| ledger.lock().open() > 0, probes_at + longest);
        let now = self.now();
        if outcome == Outcome::Quiet {
            self.ledger
                .lock()
                .violation(now, "nothing can happen any more, although calls are in flight".into());
        }
        self.ledger.lock().check_none_open(Instant::NEVER, now);
        self.ledger.lock().check_probes(now);
        self.ledger.lock().check_all_received(now);
        self.ledger.lock().check_counter(now);
    }

    /// Waits until nobody holds anything, as long as that may take.
    fn become_idle(&mut self) {
        let span = self.scenario.tuning.resend_interval * 300 + Duration::from_millis(5);
        let step = self.scenario.tuning.resend_interval * 4;
        let give_up_at = self.now() + span;
        while self.now() < give_up_at && self.holders().next().is_some() {
            let until = self.now() + step;
            self.cluster.run_until(until);
        }
        let now = self.now();
        let held: Vec<_> = self.holders().collect();
        for (rank, holdings, calls) in held {
            let what = format!("host {rank} still holds {holdings:?} and {calls} calls when all is over");
            self.ledger.lock().violation(now, what);
        }
        // The last returns of blocks may still be on their way.
        self.cluster.run_until(now + Duration::from_millis(1));
        self.check_loans();
    }

    /// The endpoints that are there now, with their hosts.
    fn living(&self) -> Vec<(usize, TransportKind, Rc<Endpoint>)> {
        let endpoints = self.endpoints.borrow();
        let all = endpoints
            .iter()
            .enumerate()
            .flat_map(|(rank, of_host)| of_host.iter().map(move |of_it| (rank, of_it)));
        all.filter_map(|(rank, (kind, endpoint))| Some((rank, *kind, endpoint.upgrade()?))).collect()
    }

    /// All memory for loans was returned, so it can be lent as a whole.
    fn check_loans(&self) {
        let bytes = self.scenario.fabric.block_bytes;
        for (rank, kind, endpoint) in self.living() {
            if kind != TransportKind::RING_SIM {
                continue;
            }
            if let Err(error) = endpoint.loan(bytes) {
                let what = format!("host {rank} has not all of its block memory back: {error}");
                self.ledger.lock().violation(self.now(), what);
            }
        }
    }

    /// The hosts that hold anything, and how many calls they believe to be in flight.
    fn holders(&self) -> impl Iterator<Item = (usize, Holdings, usize)> + use<> {
        let held = self.living().into_iter();
        let held = held.map(|(rank, _, endpoint)| (rank, endpoint.holdings(), endpoint.calls_in_flight()));
        held.filter(|(_, holdings, calls)| *holdings != Holdings::default() || *calls > 0)
    }

    fn findings(&self) -> Findings {
        let ledger = self.ledger.lock();
        Findings {
            violations: ledger.violations().to_vec(),
            trace_hash: self.cluster.fabric().trace_hash(),
            calls: self.scenario.operations.len(),
            answered: ledger.answered(),
            failed: ledger.failed(),
            refused: ledger.refusals(),
            lost: ledger.lost(),
            peers_lost: ledger.downs(),
            fault_kinds: self.scenario.fault_kinds(),
            messages: self.scenario.mail.sends.len(),
            received: ledger.mail.received(),
            collectives: ledger.errands.right(),
            stored: ledger.errands.answered(),
            totals: self.cluster.fabric().totals(),
        }
    }
}

/// The program of a host that has no endpoint.
struct Nothing;

impl Program for Nothing {
    fn turn(&mut self) -> usize {
        0
    }

    fn next_deadline(&self) -> Option<Instant> {
        None
    }
}
