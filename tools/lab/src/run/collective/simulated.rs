//! Operations on hosts of a simulated fabric.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use farcall::parameters::Settings;
use farcall::simulated::{Cluster, Profile, Program};
use farcall::{EndpointError, Instant, TransportKind};

use super::{CollectivePlan, Member, OperationTime, Root};
use crate::explain::trace::HostTrace;
use crate::run::Heard;
use crate::run::simulation::{SimulatedFabric, SimulatedRun, SimulationError};

/// Simulated time after which a run has gone wrong.
const SIMULATED_MAX: Duration = Duration::from_secs(1_000);

/// What came of a run.
#[derive(Clone, Debug)]
pub struct SimulatedOperations {
    /// The operations that count.
    pub times: Vec<OperationTime>,
    /// Operations that were done again, because a rank learnt of them too late.
    pub repeated: u32,
    /// What happened on the fabric.
    pub run: SimulatedRun,
    /// What the endpoints recorded, when chunks were traced.
    pub traces: Vec<HostTrace>,
}

/// Why there is no run.
#[derive(Debug, thiserror::Error)]
pub enum SimulatedError {
    /// The fabric has no place for the ranks, or they were not done.
    #[error(transparent)]
    Fabric(#[from] SimulationError),
    /// A host has no such endpoint.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// A rank could not do its part.
    #[error("{0}")]
    Failed(String),
}

/// Runs a plan on a fabric of this kind.
pub fn run(
    plan: &CollectivePlan,
    profile: Profile,
    transport: TransportKind,
    settings: &Settings,
) -> Result<SimulatedOperations, SimulatedError> {
    run_heard(plan, SimulatedFabric::new(profile, plan.seed), transport, settings, &|_| ())
}

/// As [`run`]; `heard` is told which part of the operations is done.
pub(super) fn run_heard(
    plan: &CollectivePlan,
    fabric: SimulatedFabric,
    transport: TransportKind,
    settings: &Settings,
    heard: &Heard<'_>,
) -> Result<SimulatedOperations, SimulatedError> {
    let mut cluster = fabric.cluster(plan.ranks as usize, settings)?;
    let members = Rc::new(RefCell::new(Vec::new()));
    let root = start(&mut cluster, plan, transport, &members)?;
    let mut told = 0;
    let run = fabric.run_while(&mut cluster, SIMULATED_MAX, || {
        let root = root.borrow();
        let done = root.operations_done();
        if done != told {
            told = done;
            heard(f64::from(done) / f64::from(plan.warmup + plan.operations));
        }
        !root.is_done()
    });
    let root = root.borrow();
    let times = root.outcome().map_err(SimulatedError::Failed)?.to_vec();
    let own = HostTrace::end(0, root.endpoint());
    let others = members.take().into_iter().zip(1..);
    let others = others.filter_map(|(member, rank)| HostTrace::end(rank, member.borrow().endpoint()));
    let traces = own.into_iter().chain(others).collect();
    Ok(SimulatedOperations { times, repeated: root.repeated(), run: run?, traces })
}

/// The parts of all hosts but the root's, by rank.
type Members = Rc<RefCell<Vec<Rc<RefCell<Member>>>>>;

/// Gives each host its part; the root's is returned too.
fn start(
    cluster: &mut Cluster,
    plan: &CollectivePlan,
    transport: TransportKind,
    members: &Members,
) -> Result<Rc<RefCell<Root>>, SimulatedError> {
    let root = Rc::new(RefCell::new(None));
    let failure = Rc::new(RefCell::new(None));
    for rank in 0..plan.ranks {
        let plan = plan.clone();
        let (root, failure, members) = (Rc::clone(&root), Rc::clone(&failure), Rc::clone(members));
        cluster.start(rank, move |node| {
            let endpoint = match node.endpoint(transport.name()) {
                Ok(endpoint) => endpoint,
                Err(error) => {
                    *failure.borrow_mut() = Some(error);
                    return Box::new(Nothing);
                }
            };
            endpoint.tracer().switch(plan.trace);
            let member = Member::new(rank, endpoint, &plan, false);
            if rank > 0 {
                let member = Rc::new(RefCell::new(member));
                members.borrow_mut().push(Rc::clone(&member));
                return Box::new(MemberProgram(member));
            }
            let of_rank_0 = Rc::new(RefCell::new(Root::new(member, plan.clone())));
            *root.borrow_mut() = Some(Rc::clone(&of_rank_0));
            Box::new(RootProgram(of_rank_0))
        });
    }
    if let Some(error) = failure.take() {
        return Err(error.into());
    }
    Ok(root.take().expect("rank 0 was started"))
}

struct MemberProgram(Rc<RefCell<Member>>);

impl Program for MemberProgram {
    fn turn(&mut self) -> usize {
        self.0.borrow_mut().turn()
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.0.borrow().next_deadline()
    }
}

struct RootProgram(Rc<RefCell<Root>>);

impl Program for RootProgram {
    fn turn(&mut self) -> usize {
        self.0.borrow_mut().turn()
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.0.borrow().next_deadline()
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
