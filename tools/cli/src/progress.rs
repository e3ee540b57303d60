//! Long work: how far it has come, as a bar on a terminal and nothing elsewhere, and noticing that it is to
//! end, so that what was found is shown and what was made is removed.

use std::fmt;
use std::io::{IsTerminal, stderr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use farcall_base::printable;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

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
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len}{left} {msg}");
        let style = style.expect("the template is a constant").with_key("left", write_time_left);
        bar.set_style(style);
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

/// The time left, as the steps so far let expect; nothing before there is one.
fn write_time_left(state: &ProgressState, out: &mut dyn fmt::Write) {
    if state.pos() > 0 {
        // A bar that cannot be drawn whole is drawn without it.
        let _ = write!(out, ", {:#} left;", HumanDuration(state.eta()));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Whether signals end this process although it is the first one of a container; there only.
static ENDED_AS_FIRST: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// The signals that ask a program to end.
const ENDING: [i32; 4] = [
    signal_hook::consts::SIGINT,
    signal_hook::consts::SIGTERM,
    signal_hook::consts::SIGHUP,
    signal_hook::consts::SIGQUIT,
];

/// The first process of a container has no default action for signals: what would end any other one does
/// nothing to it. This one ends by them all the same, with the status that a shell gives for it, until
/// somebody watches for them.
pub fn end_by_signals_as_first_process() {
    const FIRST: u32 = 1;
    /// What a shell adds to the number of a signal.
    const STATUS_OF_SIGNALS: i32 = 128;
    if std::process::id() != FIRST {
        return;
    }
    let ended = ENDED_AS_FIRST.get_or_init(|| Arc::new(AtomicBool::new(true)));
    for signal in ENDING {
        let status = STATUS_OF_SIGNALS + signal;
        // It fails for signals that nobody may handle; these are none.
        let _ = signal_hook::flag::register_conditional_shutdown(signal, status, Arc::clone(ended));
    }
}

/// Whether whoever started this program wants it to ignore a signal, as `nohup` does.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Whether somebody wants to stop.
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Watches for the signals that ask a program to end.
    pub fn watch() -> Result<Self, Failure> {
        let flag = Arc::new(AtomicBool::new(false));
        if let Some(ended) = ENDED_AS_FIRST.get() {
            ended.store(false, Ordering::Relaxed);
        }
        let kept_out = |signal| signal == signal_hook::consts::SIGHUP && is_ignored(signal);
        for signal in ENDING.into_iter().filter(|signal| !kept_out(*signal)) {
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
