//! Futures of a host's program, each with a time at which it is given up.

use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Waker};
use std::sync::Arc;
use std::task::Wake;

use farcall::Instant;

/// Futures that run when they were woken.
#[derive(Default)]
pub struct Tasks(Vec<Task>);

struct Task {
    future: Pin<Box<dyn Future<Output = ()>>>,
    cancel_at: Instant,
    on_cancel: Box<dyn FnOnce(Instant)>,
    signal: Arc<Signal>,
    waker: Waker,
}

/// Set when a future was woken.
struct Signal(AtomicBool);

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Tasks {
    /// Adds a future, which is dropped at `cancel_at` if it is not over by then; `on_cancel` is told.
    pub fn spawn(
        &mut self,
        future: impl Future<Output = ()> + 'static,
        cancel_at: Instant,
        on_cancel: impl FnOnce(Instant) + 'static,
    ) {
        let signal = Arc::new(Signal(AtomicBool::new(true)));
        let (waker, on_cancel) = (Waker::from(Arc::clone(&signal)), Box::new(on_cancel));
        self.0.push(Task { future: Box::pin(future), cancel_at, on_cancel, signal, waker });
    }

    /// Runs the futures that were woken, and drops those whose time is over; returns how many ran.
    pub fn round(&mut self, now: Instant) -> usize {
        let mut woken = 0;
        for mut task in core::mem::take(&mut self.0) {
            // One that was woken may have its message already, which would be gone with it.
            if task.signal.0.swap(false, Ordering::Relaxed) {
                woken += 1;
                if task.future.as_mut().poll(&mut Context::from_waker(&task.waker)).is_ready() {
                    continue;
                }
            }
            if task.cancel_at <= now {
                drop(task.future);
                (task.on_cancel)(now);
            } else {
                self.0.push(task);
            }
        }
        woken
    }

    /// Whether no future is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// When [`Tasks::round`] has something to do.
    pub fn next_deadline(&self) -> Option<Instant> {
        let at = |task: &Task| match task.signal.0.load(Ordering::Relaxed) {
            true => Instant::ZERO,
            false => task.cancel_at,
        };
        self.0.iter().map(at).filter(|at| *at < Instant::NEVER).min()
    }
}
