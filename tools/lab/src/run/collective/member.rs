//! One rank's part in operations: when it begins, and what it reports of its end.
//!
//! The operations themselves are a task, which the member polls once in each turn: [`Work`] on a group of all
//! ranks.

use core::cell::{Cell, RefCell};
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::rc::Rc;

use farcall::{CallError, Clock, ConnectError, DownReason, Endpoint, Event, Instant, Outcome, Peer};

use super::CollectivePlan;
use super::inbox::{FAILED, SharedInbox};
use super::orders::{Finish, Order, Times};
use super::work::{Work, WorkError};

/// Why a rank could not do its part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemberError {
    /// A peer cannot be reached.
    #[error("rank {rank} cannot reach rank {to}: {error}")]
    Connect {
        /// This rank.
        rank: u32,
        /// The peer.
        to: u32,
        /// Why.
        error: ConnectError,
    },
    /// An order was not delivered.
    #[error("rank 0 could not give an order: {error}")]
    Order {
        /// Why.
        error: CallError,
    },
    /// An operation failed.
    #[error("an operation of rank {rank} failed: {error}")]
    Work {
        /// This rank.
        rank: u32,
        /// Why.
        error: WorkError,
    },
    /// A peer has gone.
    #[error("rank {rank} lost rank {to}: {reason}")]
    PeerLost {
        /// This rank.
        rank: u32,
        /// The peer.
        to: u32,
        /// Why.
        reason: DownReason,
    },
}

/// Where a member stands. Idle → Armed → Running → Reporting → Idle.
enum Stage {
    Idle,
    /// Until the start.
    Armed(Order),
    Running(Order),
    /// Until it may report the end.
    Reporting(Order, Finish),
}

/// What the member and its task say to each other.
#[derive(Default)]
struct Link {
    /// Whether all ranks have met.
    is_ready: Cell<bool>,
    /// The task is to do an operation.
    go: Cell<bool>,
    /// The end of an operation.
    done: RefCell<Option<Result<Instant, WorkError>>>,
}

/// One rank's part in operations: its endpoint, and the task that does them.
pub struct Member {
    rank: u32,
    // Before the endpoint, which it uses.
    task: Pin<Box<dyn Future<Output = ()>>>,
    endpoint: Rc<Endpoint>,
    clock: Clock,
    inbox: SharedInbox,
    link: Rc<Link>,
    stage: Stage,
    late: bool,
    finished: Option<Finish>,
    failure: Option<MemberError>,
    /// How far its clock is ahead of the one that orders are written by.
    clock_offset_nanos: i64,
}

impl Member {
    /// A member that serves on `endpoint`. `copies` says whether chunks are copied where they arrive.
    pub fn new(rank: u32, endpoint: Endpoint, plan: &CollectivePlan, copies: bool) -> Self {
        let (endpoint, link) = (Rc::new(endpoint), Rc::<Link>::default());
        Self {
            rank,
            task: Box::pin(work(Rc::clone(&endpoint), Rc::clone(&link), rank, Rc::new(plan.clone()), copies)),
            clock: endpoint.clock(),
            inbox: SharedInbox::serve(&endpoint),
            endpoint,
            link,
            stage: Stage::Idle,
            late: false,
            finished: None,
            failure: None,
            clock_offset_nanos: 0,
        }
    }

    /// The same on a machine whose clock is so much ahead of the one that all ranks write times by.
    pub fn with_clock_offset(self, nanos: i64) -> Self {
        Self { clock_offset_nanos: nanos, ..self }
    }

    /// How far its clock is ahead of the one that all ranks write times by.
    pub(super) fn clock_offset_nanos(&self) -> i64 {
        self.clock_offset_nanos
    }

    /// The endpoint.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Why it stopped, if it did.
    pub fn failure(&self) -> Option<&MemberError> {
        self.failure.as_ref()
    }

    /// Whether rank 0 wants nothing any more.
    pub fn is_over(&self) -> bool {
        self.inbox.lock().over
    }

    /// One turn: does what may be done now, and polls. Returns how much there was to do.
    pub fn turn(&mut self) -> usize {
        self.turn_with(|_, _| {})
    }

    /// As `turn`; completions of calls that were posted go to `on_completed`.
    pub(super) fn turn_with(&mut self, mut on_completed: impl FnMut(u64, &Outcome<'_>)) -> usize {
        let done = self.advance();
        let (mut lost, idle) = (None, matches!(self.stage, Stage::Idle));
        let polled = self.endpoint.poll(|_, event| match event {
            Event::Completed { token, outcome } => on_completed(token, outcome),
            // At the end ranks leave one after another.
            Event::PeerDown { peer, .. } if idle && peer.rank() > 0 => {}
            Event::PeerDown { peer, reason } => lost = Some((peer.rank(), reason)),
            Event::Sent { .. } | Event::Received { .. } => unreachable!("members post calls only"),
        });
        if let Some((to, reason)) = lost {
            self.fail(MemberError::PeerLost { rank: self.rank, to, reason });
        }
        done + polled
    }

    /// When a turn must come though nothing arrives.
    pub fn next_deadline(&self) -> Option<Instant> {
        let own = match &self.stage {
            Stage::Armed(order) => Some(order.times.start),
            Stage::Reporting(order, _) => Some(order.times.report),
            Stage::Idle | Stage::Running(_) => None,
        };
        [own, self.endpoint.next_deadline()].into_iter().flatten().min()
    }

    /// Gives the member something to do, without a call.
    pub(super) fn order(&mut self, times: Times) {
        self.inbox.lock().order = Some(Order { times, root: None });
    }

    /// The end of an operation that was ordered without a call.
    pub(super) fn take_finish(&mut self) -> Option<Finish> {
        self.finished.take()
    }

    /// A session to a rank.
    pub(super) fn peer(&self, to: u32) -> Result<Peer, MemberError> {
        let rank = self.rank;
        self.endpoint.peer(to).map_err(|error| MemberError::Connect { rank, to, error })
    }

    /// Does what can be done now; returns how many steps that were.
    fn advance(&mut self) -> usize {
        let stage = core::mem::replace(&mut self.stage, Stage::Idle);
        let (stage, done) = self.next_stage(stage);
        self.stage = stage;
        if self.failure.is_some() {
            return done;
        }
        _ = self.task.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        done + self.take_end()
    }

    fn next_stage(&mut self, stage: Stage) -> (Stage, usize) {
        let now = self.clock.now();
        match stage {
            Stage::Idle => {
                let Some(mut order) = self.inbox.lock().order.take() else { return (Stage::Idle, 0) };
                if order.root.is_some() {
                    order.times = order.times.shifted(self.clock_offset_nanos);
                }
                self.late = now > order.times.start;
                (Stage::Armed(order), 1)
            }
            Stage::Armed(order) if now >= order.times.start => {
                self.late |= !self.link.is_ready.get();
                self.link.go.set(true);
                (Stage::Running(order), 1)
            }
            Stage::Reporting(order, finish) if now >= order.times.report => {
                match order.root {
                    Some(root) => {
                        let finish = finish.shifted(self.clock_offset_nanos.saturating_neg());
                        self.endpoint.reply(root, &finish.to_bytes());
                    }
                    None => self.finished = Some(finish),
                }
                (Stage::Idle, 1)
            }
            waiting => (waiting, 0),
        }
    }

    /// Takes note of the end of an operation, if it has come.
    fn take_end(&mut self) -> usize {
        let Some(end) = self.link.done.borrow_mut().take() else { return 0 };
        let rank = self.rank;
        match (core::mem::replace(&mut self.stage, Stage::Idle), end) {
            (Stage::Running(order), Ok(at)) => {
                let at = at.max(order.times.start);
                self.stage = Stage::Reporting(order, Finish { at, late: self.late });
            }
            (stage, Err(error)) => {
                self.stage = stage;
                self.fail(MemberError::Work { rank, error });
            }
            (stage, Ok(_)) => self.stage = stage,
        }
        1
    }

    /// Gives up: the root is told, and the reason kept.
    fn fail(&mut self, failure: MemberError) {
        if self.failure.is_some() {
            return;
        }
        self.failure = Some(failure);
        if let Stage::Running(Order { root: Some(root), .. }) =
            core::mem::replace(&mut self.stage, Stage::Idle)
        {
            self.endpoint.refuse(root, FAILED);
        }
    }
}

/// Does the operations of a rank, each when it is told to.
async fn work(endpoint: Rc<Endpoint>, link: Rc<Link>, rank: u32, plan: Rc<CollectivePlan>, copies: bool) {
    let made = Work::new(&endpoint, rank, &plan, copies);
    let met = match made {
        Ok(mut work) => work.meet().await.map(|()| work),
        Err(error) => Err(error),
    };
    let mut work = match met {
        Ok(work) => work,
        Err(error) => return link.done.borrow_mut().replace(Err(error)).map_or((), drop),
    };
    link.is_ready.set(true);
    loop {
        poll_fn(|_| if link.go.take() { Poll::Ready(()) } else { Poll::Pending }).await;
        let end = work.operate().await;
        link.done.borrow_mut().replace(end);
    }
}
