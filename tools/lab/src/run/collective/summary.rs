//! What many operations amount to.

use super::{CollectivePlan, OperationTime};
use crate::statistics::histogram::samples_needed;

/// The times of the operations of one plan, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// How many there were.
    pub operations: usize,
    /// The fastest.
    pub min: u64,
    /// Their mean.
    pub mean: f64,
    /// Their median.
    pub p50: u64,
    /// 90 % were as fast as this; `None` when there were too few to tell.
    pub p90: Option<u64>,
    /// 99 % were as fast as this.
    pub p99: Option<u64>,
}

impl Summary {
    /// The summary; `None` of no operations.
    pub fn of(times: &[OperationTime]) -> Option<Self> {
        let mut sorted: Vec<u64> = times.iter().map(|time| time.nanos).collect();
        sorted.sort_unstable();
        let (&min, operations) = (sorted.first()?, sorted.len());
        // The nearest rank: the smallest time that is not exceeded by more than the rest.
        let quantile =
            |part: f64| sorted[((part * operations as f64).ceil() as usize).clamp(1, operations) - 1];
        let with_enough = |part: f64| (operations as u64 >= samples_needed(part)).then(|| quantile(part));
        Some(Self {
            operations,
            min,
            mean: sorted.iter().map(|&nanos| nanos as f64).sum::<f64>() / operations as f64,
            p50: quantile(0.5),
            p90: with_enough(0.9),
            p99: with_enough(0.99),
        })
    }
}

/// What each rank moves in a time, in 10^9 bits a second: all bytes of an operation, those for itself
/// included.
pub fn throughput_gbps(plan: &CollectivePlan, nanos: f64) -> f64 {
    plan.collective.bytes_per_rank(plan.ranks, plan.message_bytes) as f64 * 8.0 / nanos
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_given_with_enough_operations_only() {
        let times = |operations: u64| -> Vec<OperationTime> {
            (1..=operations).map(|nanos| OperationTime { nanos }).collect()
        };
        assert_eq!(Summary::of(&[]), None);
        let few = Summary::of(&times(5)).expect("some");
        assert_eq!((few.min, few.mean, few.p50, few.p90, few.p99), (1, 3.0, 3, None, None));
        let many = Summary::of(&times(1000)).expect("some");
        assert_eq!((many.p50, many.p90, many.p99), (500, Some(900), Some(990)));
    }
}
