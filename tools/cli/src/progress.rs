//! Long work: how far it has come, and noticing that it is to end, so that what was found is shown and what
//! was made is removed.

use std::fmt;
use std::io::{self, IsTerminal, Write, stderr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use farcall_base::{explained, printable};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use signal_hook::iterator::Signals;

use crate::failure::Failure;

/// How often it is said, at most in a file and at least on a terminal, how far the work is. Whatever shows it
/// takes a core for a moment, perhaps one that is measured.
const EVERY: Duration = Duration::from_secs(10);

/// The bar's steps: thousandths of the work.
const BAR_STEPS: f64 = 1_000.0;

/// How far long work has come and how long it will take, on standard error: a line that is rewritten on a
/// terminal; elsewhere a line every ten seconds, and so none for short work.
pub struct Progress(Arc<Shared>);

/// What the work and the thread that looks at the time share.
struct Shared {
    state: Mutex<State>,
    /// The work has ended.
    ended: Condvar,
    shown: Shown,
}

/// Where it is shown.
enum Shown {
    Nowhere,
    Terminal(ProgressBar),
    Lines,
}

/// Where the work is.
struct State {
    begun: Instant,
    /// When the last line was written.
    told: Instant,
    /// What each step takes, in a unit that all of them share.
    weights: Vec<f64>,
    /// Steps that are done, and their weight.
    done: usize,
    done_weight: f64,
    /// The part of it that was done before this work began.
    weight_before: f64,
    /// The weight of all.
    weight: f64,
    /// The part of the present step that is done.
    part: f64,
    /// The present step, in words.
    what: String,
    is_over: bool,
}

impl Progress {
    /// For work of this many steps, which take about the same time.
    pub fn new(steps: usize, quiet: bool) -> Self {
        Self::weighted(vec![1.0; steps], quiet)
    }

    /// For steps that take different times: each has a weight.
    pub fn weighted(weights: Vec<f64>, quiet: bool) -> Self {
        let shown = match quiet {
            true => Shown::Nowhere,
            false if stderr().is_terminal() => Shown::Terminal(bar()),
            false => Shown::Lines,
        };
        let state = Mutex::new(State::new(weights, Instant::now()));
        let shared = Arc::new(Shared { state, ended: Condvar::new(), shown });
        if shared.is_visible() {
            let looking = Arc::clone(&shared);
            // Without this thread it is said after each step.
            drop(thread::Builder::new().name("progress".to_owned()).spawn(move || looking.look()));
        }
        Self(shared)
    }

    /// The work turned out to be of this many steps in all.
    pub fn resize(&self, steps: usize) {
        self.0.change(|state| state.resize(steps));
    }

    /// Whether it is shown anywhere.
    pub fn is_visible(&self) -> bool {
        self.0.is_visible()
    }

    /// Says what the next step is.
    pub fn begin(&self, what: impl fmt::Display) {
        let what = printable(&what.to_string()).into_owned();
        self.0.change(|state| state.what = what);
    }

    /// A step is done.
    pub fn step(&self) {
        self.0.change(State::step);
    }

    /// This many steps were done before, in another session.
    pub fn resume_after(&self, steps: usize) {
        self.0.change(|state| state.resume_after(steps));
    }

    /// What hears which part of the present step is done, from 0 to 1.
    pub fn hearer(&self) -> impl Fn(f64) + Send + Sync + use<> {
        let shared = Arc::clone(&self.0);
        move |part| shared.change(|state| state.part = part.clamp(0.0, 1.0))
    }

    /// Runs `print` with the bar out of the way.
    pub fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.0.shown {
            Shown::Terminal(bar) => bar.suspend(print),
            Shown::Nowhere | Shown::Lines => print(),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.ended.notify_all();
        if let Shown::Terminal(bar) = &self.0.shown {
            bar.finish_and_clear();
        }
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(BAR_STEPS as u64), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{bar:30} {wide_msg}");
    bar.set_style(style.expect("the template is a constant"));
    bar
}

impl Shared {
    fn is_visible(&self) -> bool {
        !matches!(self.shown, Shown::Nowhere)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        self.show(&mut state);
    }

    fn show(&self, state: &mut State) {
        let now = Instant::now();
        match &self.shown {
            Shown::Terminal(bar) if !state.is_over => {
                bar.set_position((state.part_done() * BAR_STEPS) as u64);
                bar.set_message(state.words(now));
            }
            Shown::Lines => {
                // Nobody has to read it.
                let _ = state.line(now).map(|line| writeln!(stderr(), "{line}"));
            }
            Shown::Nowhere | Shown::Terminal(_) => {}
        }
    }

    /// Shows how far the work is although it has not moved, until its end.
    fn look(&self) {
        let mut state = self.lock();
        while !state.is_over {
            let waited = self.ended.wait_timeout(state, EVERY);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            self.show(&mut state);
        }
    }
}

impl State {
    fn new(weights: Vec<f64>, now: Instant) -> Self {
        Self {
            begun: now,
            told: now,
            weight: weights.iter().sum(),
            weights,
            done: 0,
            done_weight: 0.0,
            weight_before: 0.0,
            part: 0.0,
            what: String::new(),
            is_over: false,
        }
    }

    fn resize(&mut self, steps: usize) {
        self.weights.resize(steps.max(self.done), 1.0);
        self.weight = self.weights.iter().sum();
    }

    fn resume_after(&mut self, steps: usize) {
        (0..steps).for_each(|_| self.step());
        self.weight_before = self.done_weight;
    }

    fn step(&mut self) {
        self.done_weight += self.present_weight();
        self.done += 1;
        self.part = 0.0;
    }

    /// The weight of the present step; that of steps beyond the last one is none.
    fn present_weight(&self) -> f64 {
        self.weights.get(self.done).copied().unwrap_or(0.0)
    }

    /// The weight of what is done, at most that of all.
    fn weight_done(&self) -> f64 {
        (self.done_weight + self.part * self.present_weight()).min(self.weight)
    }

    /// The part of all work that is done.
    fn part_done(&self) -> f64 {
        if self.weight > 0.0 { self.weight_done() / self.weight } else { 0.0 }
    }

    /// The time left, as the time of what is done lets expect; `None` before anything is done.
    fn left(&self, now: Instant) -> Option<Duration> {
        let (done, gone) = (self.weight_done(), (now - self.begun).as_secs_f64());
        let done_here = done - self.weight_before;
        if done_here <= 0.0 {
            return None;
        }
        // Of next to nothing done it may be longer than any time.
        Duration::try_from_secs_f64(gone * (self.weight - done) / done_here).ok()
    }

    fn words(&self, now: Instant) -> String {
        let (done, steps) = (self.done, self.weights.len().max(self.done));
        let left = match self.left(now) {
            Some(left) => format!("about {} left", duration_words(left)),
            None => format!("{} gone", duration_words(now - self.begun)),
        };
        let now_at = if self.what.is_empty() { "" } else { "; now " };
        format!("{done}/{steps}, {:.0} %, {left}{now_at}{}", 100.0 * self.part_done(), self.what)
    }

    /// The next line, if it is time for one.
    fn line(&mut self, now: Instant) -> Option<String> {
        if self.is_over || now - self.told < EVERY {
            return None;
        }
        self.told = now;
        Some(format!("# {}", self.words(now)))
    }
}

/// A time that nobody needs to the second, in words.
pub fn duration_words(time: Duration) -> String {
    match time.as_secs_f64().round() as u64 {
        seconds @ ..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
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

/// Does something when one of the signals has come that ask a program to end, which then ends it as it would
/// have without this. The first process of a container ends at once.
pub fn before_signals_end(clean: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    if ENDED_AS_FIRST.get().is_some() {
        return Ok(());
    }
    let failed = |error: io::Error| Failure::Run(format!("cannot watch for signals: {}", explained(&error)));
    let kept_out = |signal: &i32| *signal == signal_hook::consts::SIGHUP && is_ignored(*signal);
    let mut signals = Signals::new(ENDING.into_iter().filter(|signal| !kept_out(signal))).map_err(failed)?;
    let wait = move || {
        if let Some(signal) = signals.forever().next() {
            clean();
            // It fails for signals that nobody may handle; these are none.
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    };
    thread::Builder::new().name("farcall-ending".to_owned()).spawn(wait).map(drop).map_err(failed)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_time_left_follows_the_weights_of_steps_and_the_part_of_the_present_one() {
        let begun = Instant::now();
        let mut state = State::new(vec![1.0, 1.0, 6.0], begun);
        assert_eq!((state.part_done(), state.left(begun + seconds(1))), (0.0, None));
        state.step();
        assert_eq!(state.left(begun + seconds(10)), Some(seconds(70)));
        state.step();
        state.part = 0.5;
        state.what = "basic+sim 200 nodes".to_owned();
        assert_eq!(
            state.words(begun + seconds(100)),
            "2/3, 62 %, about 1 min 0 s left; now basic+sim 200 nodes"
        );
        state.step();
        assert_eq!(state.left(begun + seconds(160)), Some(Duration::ZERO));
        let mut endless = State::new(vec![1e-9, f64::MAX], begun);
        endless.step();
        assert_eq!(endless.left(begun + seconds(1)), None, "no time is that long");
    }

    #[test]
    fn what_was_done_in_another_session_says_nothing_about_time() {
        let begun = Instant::now();
        let mut state = State::new(vec![1.0; 10], begun);
        state.resume_after(8);
        assert_eq!((state.part_done(), state.left(begun + seconds(5))), (0.8, None));
        state.step();
        assert_eq!(state.left(begun + seconds(5)), Some(seconds(5)));
    }

    #[test]
    fn more_steps_than_were_planned_are_no_more_than_all() {
        let mut state = State::new(vec![1.0], Instant::now());
        state.step();
        state.step();
        assert_eq!((state.part_done(), state.done), (1.0, 2));
        state.resize(4);
        assert!(state.part_done() < 1.0, "there is more to do");
    }

    #[test]
    fn a_line_is_written_once_in_ten_seconds_until_the_end() {
        let begun = Instant::now();
        let mut state = State::new(vec![1.0; 4], begun);
        assert_eq!(state.line(begun + seconds(9)), None);
        assert_eq!(state.line(begun + seconds(10)).as_deref(), Some("# 0/4, 0 %, 10 s gone"));
        state.step();
        assert_eq!(state.line(begun + seconds(19)), None);
        assert_eq!(state.line(begun + seconds(20)).as_deref(), Some("# 1/4, 25 %, about 1 min 0 s left"));
        state.is_over = true;
        assert_eq!(state.line(begun + seconds(40)), None);
    }

    #[test]
    fn times_are_words() {
        let words = [0, 59, 60, 3599, 3600, 7380].map(|time| duration_words(seconds(time)));
        assert_eq!(words, ["0 s", "59 s", "1 min 0 s", "59 min 59 s", "1 h 0 min", "2 h 3 min"]);
    }
}
