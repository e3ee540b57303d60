//! Whose an object is: one thread's, of one process.
//!
//! An endpoint belongs to one thread, which Python cannot promise. So each use asks, and answers another
//! thread, or a forked child, with an error.

use core::mem::ManuallyDrop;
use core::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;

use crate::errors::{ForkedError, WrongThreadError};

/// How many forks lie between the first process and this one.
static FORKS: AtomicU64 = AtomicU64::new(0);

static NEXT_THREAD: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Unlike an address of the system's it is never that of another thread.
    static THREAD: u64 = NEXT_THREAD.fetch_add(1, Ordering::Relaxed);
}

/// The package has Python call it in each forked child.
#[pyfunction]
pub fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// A value that only the thread that made it can reach. Dropped elsewhere it is leaked: what it has open may
/// be in use.
pub struct Owned<T> {
    thread: u64,
    forks: u64,
    value: ManuallyDrop<T>,
}

// SAFETY: the value is reached through `get` and by the drop, both of which first ask for its thread.
unsafe impl<T> Send for Owned<T> {}

// SAFETY: as above.
unsafe impl<T> Sync for Owned<T> {}

impl<T> Owned<T> {
    /// A value of this thread.
    pub fn new(value: T) -> Self {
        let forks = FORKS.load(Ordering::Relaxed);
        Self { thread: THREAD.with(|&thread| thread), forks, value: ManuallyDrop::new(value) }
    }

    /// The value, if this is its thread.
    #[inline]
    pub fn get(&self) -> PyResult<&T> {
        if self.is_here() {
            return Ok(&self.value);
        }
        Err(if self.forks == FORKS.load(Ordering::Relaxed) {
            WrongThreadError::new_err(
                "this belongs to the thread that opened it; open an endpoint in each thread",
            )
        } else {
            ForkedError::new_err("this was opened before the fork and belongs to the parent; open it again")
        })
    }

    fn is_here(&self) -> bool {
        self.forks == FORKS.load(Ordering::Relaxed) && THREAD.try_with(|&thread| thread) == Ok(self.thread)
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if self.is_here() {
            // SAFETY: nothing uses it after this.
            unsafe { ManuallyDrop::drop(&mut self.value) }
        }
    }
}

/// Runs `body`, which uses no object of Python, without the lock of the interpreter.
pub fn detached<R: Send>(py: Python<'_>, body: impl FnOnce() -> R) -> R {
    struct Here<F>(F);
    // SAFETY: `detach` runs its closure on the thread that calls it.
    unsafe impl<F> Send for Here<F> {}
    impl<R, F: FnOnce() -> R> Here<F> {
        fn run(self) -> R {
            (self.0)()
        }
    }
    let body = Here(body);
    py.detach(move || body.run())
}
