//! What a measurement does beside exchanging: tracing its calls, and putting in a bottleneck on purpose.

use core::time::Duration;
use std::collections::BTreeMap;
use std::time::Instant;

use farcall::Clock;
use serde::{Deserialize, Serialize};

use super::report::ProcessFound;
use crate::explain::trace::HostTrace;

/// What is done beside the exchange; nothing by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instruments {
    /// Whether calls are traced.
    pub trace: bool,
    /// How long the handlers of servers work on each request.
    pub handler: Duration,
}

/// What was found beside the latencies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asides {
    /// What each endpoint traced.
    pub traces: Vec<HostTrace>,
    /// What each process found by itself; nothing of a simulation.
    pub processes: Vec<ProcessFound>,
    /// What the servers' counters counted while the calls were made, added up.
    pub server_counters: BTreeMap<String, u64>,
    /// The share of their time in which servers were ready to run and had no core, of the one that had most;
    /// `None` where the kernel does not tell.
    pub server_waited: Option<f64>,
}

/// What the kernel counts of this thread at some time.
pub(crate) struct KernelAccount {
    at: Instant,
    /// How long it was ready to run and had no core, since it began.
    waited_nanos: u64,
}

impl KernelAccount {
    /// The account now; `None` where the kernel keeps none.
    pub(crate) fn read() -> Option<Self> {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        let waited_nanos = text.split_whitespace().nth(1)?.parse().ok()?;
        Some(Self { at: Instant::now(), waited_nanos })
    }

    /// The share of the time since then in which the thread was ready to run and had no core.
    pub(crate) fn waited_since(&self) -> Option<f64> {
        let now = Self::read()?;
        let span = (now.at - self.at).as_nanos().max(1) as f64;
        Some((now.waited_nanos.saturating_sub(self.waited_nanos) as f64 / span).min(1.0))
    }
}

/// Keeps a real core at work for that long.
pub(super) fn work_for(span: Duration) -> impl Fn() + Send + 'static {
    let clock = Clock::new();
    move || {
        if !span.is_zero() {
            let end = clock.now() + span;
            while clock.now() < end {
                core::hint::spin_loop();
            }
        }
    }
}
