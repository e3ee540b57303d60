//! How long a limit is measured.

use core::time::Duration;

/// How long to run before and while samples are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Runs without a record, for caches, branch predictors and clock frequency.
    pub warmup: Duration,
    /// Runs on the record.
    pub measure: Duration,
}

impl Effort {
    /// Measures for `measure`, after a tenth of it as warm-up.
    pub fn lasting(measure: Duration) -> Self {
        Self { warmup: measure / 10, measure }
    }
}
