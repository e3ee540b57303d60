//! A small executor: futures of one thread, and the polling of the endpoint that completes them.
//!
//! Futures of farcall work in any executor as long as something polls the endpoint. This one does both: it
//! runs the tasks that were woken, and polls when none was. It needs no thread and no unsafe code.

use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker};
use std::cell::RefCell;
use std::sync::Arc;
use std::task::Wake;

use crate::Endpoint;
use crate::endpoint::Doorbell;

/// Runs tasks and polls an endpoint in turn.
pub struct Executor<'e> {
    endpoint: &'e Endpoint,
    tasks: TaskSet<'e>,
}

/// Tasks that are not complete.
#[derive(Default)]
pub(crate) struct TaskSet<'t> {
    tasks: RefCell<Vec<Task<'t>>>,
    /// Tasks spawned since the last round.
    spawned: RefCell<Vec<Task<'t>>>,
    /// Rung when a task is woken, where other threads wake tasks of a thread that may sleep.
    bell: Option<Arc<Doorbell>>,
}

struct Task<'e> {
    future: Pin<Box<dyn Future<Output = ()> + 'e>>,
    signal: Arc<Signal>,
    waker: Waker,
}

/// Set when a task was woken.
struct Signal {
    woken: AtomicBool,
    bell: Option<Arc<Doorbell>>,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        if let Some(bell) = &self.bell {
            bell.ring();
        }
    }
}

impl Signal {
    /// A signal that is set, and the waker that sets it again.
    fn set(bell: Option<&Arc<Doorbell>>) -> (Arc<Self>, Waker) {
        let signal = Arc::new(Self { woken: AtomicBool::new(true), bell: bell.cloned() });
        (Arc::clone(&signal), Waker::from(signal))
    }

    fn take(&self) -> bool {
        self.woken.load(Ordering::Relaxed) && self.woken.swap(false, Ordering::Acquire)
    }
}

impl<'t> TaskSet<'t> {
    /// None yet; `bell` is rung when one is woken.
    pub(crate) fn woken_by(bell: Arc<Doorbell>) -> Self {
        Self { bell: Some(bell), ..Self::default() }
    }

    /// Adds a task; it starts in the next round.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + 't) {
        let (signal, waker) = Signal::set(self.bell.as_ref());
        self.spawned.borrow_mut().push(Task { future: Box::pin(future), signal, waker });
    }

    /// Runs each task that was woken once; says whether there was one.
    pub(crate) fn round(&self) -> bool {
        let mut tasks = self.tasks.borrow_mut();
        tasks.append(&mut self.spawned.borrow_mut());
        let mut progress = false;
        tasks.retain_mut(|task| {
            if !task.signal.take() {
                return true;
            }
            progress = true;
            task.future.as_mut().poll(&mut Context::from_waker(&task.waker)).is_pending()
        });
        progress
    }

    fn is_empty(&self) -> bool {
        self.tasks.borrow().is_empty() && self.spawned.borrow().is_empty()
    }
}

impl<'e> Executor<'e> {
    /// An executor that polls `endpoint`.
    pub fn new(endpoint: &'e Endpoint) -> Self {
        Self { endpoint, tasks: TaskSet::default() }
    }

    /// Adds a task; it starts when `run` or `block_on` is called, or in their next round.
    pub fn spawn(&self, future: impl Future<Output = ()> + 'e) {
        self.tasks.spawn(future);
    }

    /// Runs until all tasks are complete.
    pub fn run(&self) {
        loop {
            let progress = self.tasks.round();
            if self.tasks.is_empty() {
                return;
            }
            self.poll_endpoint(progress);
        }
    }

    /// Runs until `future` is complete, and gives its output; other tasks progress meanwhile, and those that
    /// are not complete then go on with the next `run` or `block_on`.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let mut future = core::pin::pin!(future);
        let (signal, waker) = Signal::set(None);
        loop {
            let woken = signal.take();
            if woken && let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return output;
            }
            let progress = self.tasks.round();
            self.poll_endpoint(woken || progress);
        }
    }

    /// After progress there may be more to do at once, so the endpoint is polled but must not sleep.
    fn poll_endpoint(&self, progress: bool) {
        if progress {
            self.endpoint.poll_once();
        } else {
            self.endpoint.turn();
        }
    }
}

impl Endpoint {
    /// Runs a future to its end, polling this endpoint meanwhile.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        Executor::new(self).block_on(future)
    }
}
