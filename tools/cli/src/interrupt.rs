//! Noticing that a command is to end, so that what it has found is shown and what it has made is removed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::Failure;

/// Whether somebody wants to stop.
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Watches for the signals that ask a program to end.
    pub fn watch() -> Result<Self, Failure> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            // A second one changes nothing: `timeout` sends two, and what is left to do takes seconds.
            let noticed = signal_hook::flag::register(signal, Arc::clone(&flag));
            noticed.map_err(|error| Failure::Run(format!("cannot watch for signals: {error}")))?;
        }
        Ok(Self(flag))
    }

    /// The flag itself, for those who look often.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    /// Whether one of them has come.
    pub fn has_come(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
