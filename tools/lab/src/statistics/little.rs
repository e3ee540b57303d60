//! Little's law as a check on a report's own figures.
//!
//! In a steady state the mean number in flight is throughput times mean latency (Little, "A proof for the
//! queuing formula L = λW", 1961). Figures that break it were not measured over the same window, or not of
//! the same calls.

/// By how much the figures may disagree: the closed loop's first and last calls, and the time between a
/// completion and the next call, are in one figure and not in the other.
const TOLERANCE: f64 = 0.1;

/// A closed loop's figures, and whether they agree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LittleCheck {
    /// How many calls the loop kept in flight.
    pub in_flight: f64,
    /// How many the measured throughput and mean latency say were in flight.
    pub implied: f64,
}

impl LittleCheck {
    /// Compares a loop that keeps `in_flight` calls in flight with its `calls_per_second` of `mean_nanos`
    /// each.
    pub fn new(in_flight: f64, calls_per_second: f64, mean_nanos: f64) -> Self {
        Self { in_flight, implied: calls_per_second * mean_nanos / 1e9 }
    }

    /// Whether the figures agree within a tenth.
    pub fn holds(&self) -> bool {
        (self.implied / self.in_flight - 1.0).abs() <= TOLERANCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agreeing_figures_hold() {
        assert!(LittleCheck::new(1.0, 1e6, 980.0).holds());
        assert!(LittleCheck::new(64.0, 32e6, 2000.0).holds());
    }

    #[test]
    fn figures_of_different_windows_do_not() {
        let check = LittleCheck::new(2.0, 1e6, 980.0);
        assert!(!check.holds());
        assert!((check.implied - 0.98).abs() < 1e-9);
        assert!(!LittleCheck::new(1.0, 1e6, 1200.0).holds());
    }
}
