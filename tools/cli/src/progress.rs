//! How far long work has come: a bar on a terminal, nothing elsewhere.

use std::io::{IsTerminal, stderr};

use farcall_base::printable;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

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
