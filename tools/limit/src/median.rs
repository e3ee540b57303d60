//! The median of times that were read from a clock of coarse steps.
//!
//! Where a cycle counter moves in steps of ten nanoseconds, a round trip of 163 ns is seen as 160 or as 170,
//! and the sample in the middle says 160 until it says 170: a ratio of two such medians is off by up to a
//! tenth. How many samples lie on the steps around the middle tells where between them it is. That is the
//! median of grouped data of any textbook; for a clock of fine steps it is the sample in the middle.

/// The median of times and how often each was seen, shortest first, from a clock that moves in steps of
/// `step_nanos`; nothing of no samples.
pub fn median_between_steps(counts: &[(u64, u64)], step_nanos: f64) -> Option<f64> {
    let samples_of = |counts: &[(u64, u64)]| counts.iter().map(|(_, count)| count).sum::<u64>() as f64;
    let half = samples_of(counts) / 2.0;
    let mut seen = 0;
    let &(middle, _) = counts.iter().find(|(_, count)| {
        seen += count;
        seen > 0 && seen as f64 >= half
    })?;
    // A step of the clock may be two neighbouring numbers of whole nanoseconds.
    let step = step_nanos.max(1.0);
    let (from, to) = (middle as f64 - step / 2.0, middle as f64 + step / 2.0);
    let (below, rest) = counts.split_at(counts.partition_point(|(nanos, _)| (*nanos as f64) < from));
    let within = &rest[..rest.partition_point(|(nanos, _)| *nanos as f64 <= to)];
    Some(from + (half - samples_of(below)) / samples_of(within) * step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_on_the_neighbouring_steps_move_the_median() {
        let median = |counts: &[(u64, u64)]| median_between_steps(counts, 10.0);
        assert_eq!(median(&[(160, 5)]), Some(160.0));
        assert_eq!(median(&[(150, 2), (160, 10), (170, 2)]), Some(160.0));
        assert_eq!(median(&[(160, 8), (170, 8)]), Some(165.0));
        assert_eq!(median(&[(160, 6), (170, 10)]), Some(167.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn a_step_is_one_though_it_was_rounded_to_two_numbers() {
        let median = median_between_steps(&[(160, 4), (161, 4), (170, 8)], 10.02).expect("there are samples");
        assert!((median - 165.0).abs() < 1.5, "{median}");
    }

    #[test]
    fn a_clock_of_fine_steps_has_the_sample_in_the_middle() {
        let counts: Vec<(u64, u64)> = (1..=1001).map(|nanos| (nanos, 1)).collect();
        assert_eq!(median_between_steps(&counts, 0.3), Some(501.0));
    }

    /// Times that do not begin at a step of the clock are seen a step shorter or longer, and yet the median
    /// is theirs.
    #[test]
    fn the_median_of_what_a_coarse_clock_shows_is_that_of_the_times() {
        for nanos in [121.0, 124.0, 127.0, 130.0, 163.0, 168.0] {
            let mut counts = std::collections::BTreeMap::new();
            for begin in 0..10_000 {
                // Uniform between 20 ns less and more, begun anywhere.
                let (begin, spread) =
                    (f64::from(begin) * 0.37, f64::from(begin * 7919 % 10_000) / 250.0 - 20.0);
                let shown = |time: f64| (time / 10.0).floor() * 10.0;
                let seen = shown(begin + nanos + spread) - shown(begin);
                *counts.entry(seen as u64).or_insert(0) += 1;
            }
            let counts: Vec<(u64, u64)> = counts.into_iter().collect();
            let median = median_between_steps(&counts, 10.0).expect("there are samples");
            assert!((median - nanos).abs() < 1.0, "{median} of {nanos}");
        }
    }
}
