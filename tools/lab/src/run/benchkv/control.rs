//! Tells a daemon's loop when a window begins and ends, without stopping it: a thread of its own waits at the
//! barriers where the clients meet.

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use farcall::Node;

use crate::run::beside;

/// How many steps a run has: it is waited for, it is measured.
const STEPS_PER_RUN: u32 = 2;

/// Where the processes of a run meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meeting {
    /// All clients are warm and have nothing in flight.
    Warm,
    /// All daemons count from nothing.
    Go,
    /// All clients have their last answers.
    Done,
    /// All daemons have counted.
    End,
}

/// Waits until all are there.
pub(super) fn meet(node: &Node, meeting: Meeting, run: usize, within: Duration) -> Result<(), String> {
    node.barrier(&format!("{meeting:?} {run}"), within).map_err(|error| error.to_string())
}

/// The word between the daemon's loop and the thread at the barriers.
#[derive(Default)]
struct Steps {
    /// Steps that the loop is asked to have taken.
    asked: AtomicU32,
    /// Steps that it has taken.
    taken: AtomicU32,
}

/// The loop's side.
pub(super) struct Control {
    steps: Arc<Steps>,
    thread: JoinHandle<Result<(), String>>,
}

/// What the loop is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Begin a window.
    Begin,
    /// End it.
    End,
}

impl Control {
    /// Starts the thread.
    pub(super) fn start(node: Arc<Node>, runs: usize, within: Duration) -> Result<Self, String> {
        let steps = Arc::new(Steps::default());
        let shared = Arc::clone(&steps);
        let thread = beside::spawn(move || attend_meetings(&node, &shared, runs, within))?;
        Ok(Self { steps, thread })
    }

    /// The step that is asked for, if there is one. To be followed by `took`.
    #[inline]
    pub(super) fn asked(&self) -> Option<Step> {
        let taken = self.steps.taken.load(Ordering::Relaxed);
        if self.steps.asked.load(Ordering::Acquire) == taken {
            return None;
        }
        Some(if taken.is_multiple_of(STEPS_PER_RUN) { Step::Begin } else { Step::End })
    }

    /// The step was taken.
    pub(super) fn took(&self) {
        self.steps.taken.fetch_add(1, Ordering::Release);
    }

    /// Whether there will be no more steps.
    pub(super) fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// How it ended.
    pub(super) fn end(self) -> Result<(), String> {
        self.thread.join().unwrap_or_else(|_| Err("the thread at the barriers panicked".to_owned()))
    }
}

fn attend_meetings(node: &Node, steps: &Steps, runs: usize, within: Duration) -> Result<(), String> {
    for run in 0..runs {
        meet(node, Meeting::Warm, run, within)?;
        ask(steps);
        meet(node, Meeting::Go, run, within)?;
        meet(node, Meeting::Done, run, within)?;
        ask(steps);
        meet(node, Meeting::End, run, within)?;
    }
    Ok(())
}

/// Asks for a step and waits until it is taken, which takes one turn of the loop.
fn ask(steps: &Steps) {
    let asked = steps.asked.fetch_add(1, Ordering::Release) + 1;
    while steps.taken.load(Ordering::Acquire) != asked {
        thread::yield_now();
    }
}
