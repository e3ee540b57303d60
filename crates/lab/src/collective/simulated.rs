//! Operations on hosts of a simulated fabric.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use farcall::parameters::Settings;
use farcall::simulated::{Cluster, Outcome, Profile, ProfileError, Program, Totals};
use farcall::{EndpointError, Instant, TransportKind};

use super::{Member, OperationTime, Plan, Root, Schedule};

/// Bytes of each packet that are carried: all headers. Chunks are zeros, and what is not carried reads as zeros.
const CARRIED_BYTES: usize = 256;

/// Simulated time after which a run has gone wrong.
const SIMULATED_MAX: Instant = Instant::from_nanos(1_000_000_000_000);

/// What came of a run.
#[derive(Clone, Debug)]
pub struct SimulatedRun {
    /// The operations that count.
    pub times: Vec<OperationTime>,
    /// Operations that were done again, because a rank learnt of them too late.
    pub repeated: u32,
    /// What happened on the fabric.
    pub totals: Totals,
    /// The fingerprint of all that happened there.
    pub trace_hash: u64,
    /// Simulated time that passed.
    pub simulated: Duration,
    /// Real time that it took.
    pub lasted: Duration,
}

/// Why there is no run.
#[derive(Debug, thiserror::Error)]
pub enum SimulatedError {
    /// The fabric has no place for the ranks.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A host has no such endpoint.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// A rank could not do its part.
    #[error("{0}")]
    Failed(String),
    /// Nothing can happen any more, although operations are under way.
    #[error("the simulation stands still: no packet is on its way and no rank has a deadline")]
    Quiet,
    /// The operations take too long.
    #[error("the operations are not done after {} simulated seconds", SIMULATED_MAX.as_nanos() / 1_000_000_000)]
    TooLong,
}

/// Runs a plan on a fabric of this kind.
pub fn run(
    plan: &Plan,
    profile: Profile,
    transport: TransportKind,
    settings: Settings,
) -> Result<SimulatedRun, SimulatedError> {
    let begun = std::time::Instant::now();
    let mut cluster = Cluster::new(profile, plan.ranks, plan.seed, settings)?;
    cluster.fabric().carry_at_most(CARRIED_BYTES);
    let root = start(&mut cluster, plan, transport)?;
    let outcome = cluster.run_while_until(|| !root.borrow().is_done(), SIMULATED_MAX);
    let root = root.borrow();
    let times = root.outcome().map_err(SimulatedError::Failed)?.to_vec();
    match outcome {
        Outcome::Done => {}
        Outcome::Quiet => return Err(SimulatedError::Quiet),
        Outcome::TimeReached => return Err(SimulatedError::TooLong),
    }
    let fabric = cluster.fabric();
    Ok(SimulatedRun {
        times,
        repeated: root.repeated(),
        totals: fabric.totals(),
        trace_hash: fabric.trace_hash(),
        simulated: Duration::from_nanos(fabric.now().as_nanos()),
        lasted: begun.elapsed(),
    })
}

/// Gives each host its part; the root's is returned too.
fn start(
    cluster: &mut Cluster,
    plan: &Plan,
    transport: TransportKind,
) -> Result<Rc<RefCell<Root>>, SimulatedError> {
    let schedule = Arc::new(Schedule::new(plan.collective, plan.ranks, plan.message_bytes));
    let root = Rc::new(RefCell::new(None));
    let failure = Rc::new(RefCell::new(None));
    for rank in 0..plan.ranks {
        let (plan, schedule) = (plan.clone(), Arc::clone(&schedule));
        let (root, failure) = (Rc::clone(&root), Rc::clone(&failure));
        cluster.start(rank, move |node| {
            let endpoint = match node.endpoint(transport.name()) {
                Ok(endpoint) => endpoint,
                Err(error) => {
                    *failure.borrow_mut() = Some(error);
                    return Box::new(Nothing);
                }
            };
            let member = Member::new(rank, endpoint, Arc::clone(&schedule), plan.limits, false, plan.seed);
            if rank > 0 {
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

struct MemberProgram(Member);

impl Program for MemberProgram {
    fn turn(&mut self) -> usize {
        self.0.turn()
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.0.next_deadline()
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
