//! What memory a test takes.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Memory is measured, so one test runs at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// No other test that asks for this runs meanwhile.
pub fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Memory of this process that is in use, in bytes.
pub fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = status.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.expect("a number") * 4096
}
