//! Long work: how far it has come, as a bar on a terminal and nothing elsewhere, and noticing that it is to
//! end, so that what was found is shown and what was made is removed.

use std::io::{IsTerminal, stderr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use farcall_base::printable;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::failure::Failure;

/// A progress bar that is drawn only when standard error is a terminal, and only when the work moves on: a
/// thread that redraws it would disturb what is measured.
pub struct Progress(ProgressBar);

impl Progress {
    /// For work of this many steps.
    pub fn new(steps: usize, quiet: bool) -> Self {
        let visible = !quiet && stderr().is_terminal();
        let target = if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(steps as u64), target);
        bar.set_style(
            ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}").expect("the template is a constant"),
        );
        Self(bar)
    }

    /// The work turned out to be of this many steps in all.
    pub fn resize(&self, steps: usize) {
        self.0.set_length(steps as u64);
    }

    /// Whether anybody sees it.
    pub fn is_visible(&self) -> bool {
        !self.0.is_hidden()
    }

    /// Says what the next step is.
    pub fn begin(&self, what: impl std::fmt::Display) {
        self.0.set_message(printable(&what.to_string()).into_owned());
    }

    /// A step is done.
    pub fn step(&self) {
        self.0.inc(1);
    }

    /// Runs `print` with the bar out of the way.
    pub fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        self.0.suspend(print)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

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
