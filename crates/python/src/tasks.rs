//! Futures of Rust whose outcome a future of Python gets: calls to names, operations of a store.

use core::cell::RefCell;
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker};
use std::sync::Arc;
use std::task::Wake;

use pyo3::prelude::*;

use crate::waiting::{fail, settle};

/// What a task says, made into an object with the lock of the interpreter.
pub type Output = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>>>;

struct Task {
    /// Holds no object of Python: it runs, and is dropped, without the lock.
    future: Pin<Box<dyn Future<Output = Output>>>,
    to: Py<PyAny>,
    woken: Arc<Woken>,
    waker: Waker,
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

/// The tasks of an endpoint.
#[derive(Default)]
pub struct Tasks {
    running: RefCell<Vec<Task>>,
    ended: RefCell<Vec<(Py<PyAny>, Output)>>,
}

impl Tasks {
    /// Adds a task, which starts in the next round.
    pub fn spawn(&self, future: impl Future<Output = Output> + 'static, to: Py<PyAny>) {
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        let waker = Waker::from(Arc::clone(&woken));
        self.running.borrow_mut().push(Task { future: Box::pin(future), to, woken, waker });
    }

    /// Drops all tasks, and ends their futures with an exception.
    pub fn fail_all(&self, error: &Bound<'_, PyAny>) -> PyResult<()> {
        let tasks = self.running.take();
        tasks.iter().try_for_each(|task| fail(&task.to, error))
    }

    /// Whether one has not ended.
    pub fn any(&self) -> bool {
        !self.running.borrow().is_empty()
    }

    /// Runs each task that was woken once; says whether there was one.
    pub fn round(&self) -> bool {
        let (mut running, mut progress) = (self.running.borrow_mut(), false);
        let mut place = 0;
        while let Some(task) = running.get_mut(place) {
            if !task.woken.0.swap(false, Ordering::Acquire) {
                place += 1;
                continue;
            }
            progress = true;
            match task.future.as_mut().poll(&mut Context::from_waker(&task.waker)) {
                Poll::Pending => place += 1,
                Poll::Ready(output) => {
                    let Task { to, .. } = running.swap_remove(place);
                    self.ended.borrow_mut().push((to, output));
                }
            }
        }
        progress
    }

    /// How many have ended since [`Tasks::settle`].
    pub fn ended(&self) -> usize {
        self.ended.borrow().len()
    }

    /// Gives outcomes to the futures of Python.
    pub fn settle(&self, py: Python<'_>) -> PyResult<()> {
        for (to, output) in self.ended.take() {
            settle(py, &to, output(py))?;
        }
        Ok(())
    }
}
