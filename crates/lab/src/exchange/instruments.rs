//! What a measurement does beside exchanging: tracing its calls, and putting in a bottleneck on purpose.

use core::time::Duration;
use std::collections::BTreeMap;

use farcall::Clock;
use serde::{Deserialize, Serialize};

use crate::trace::HostTrace;

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
    /// What the servers' counters counted while the calls were made, added up.
    pub server_counters: BTreeMap<String, u64>,
    /// How long servers were ready to run and had no core, added up; `None` where the kernel does not tell.
    pub server_waited_nanos: Option<u64>,
    /// The same of clients.
    pub client_waited_nanos: Option<u64>,
}

/// How long this thread was ready to run and had no core, since it began.
pub(super) fn waited_for_core_nanos() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().nth(1)?.parse().ok()
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
