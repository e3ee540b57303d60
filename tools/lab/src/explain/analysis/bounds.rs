//! What the laws of closed queueing networks allow, and where a sweep of operations in flight stands.
//!
//! `X(N) <= min(N / R0, 1 / Dmax)`, with the knee at `N* = R0 / Dmax` (Denning and Buzen, 1978). Between the
//! bounds lies what one server and a delay give by mean value analysis (Reiser and Lavenberg, 1980).

use super::finding::{Finding, Section};
use super::input::{Axis, Observation, Table};
use super::regimes::along;
use crate::units::{rate_in_words, time_in_words};

/// A sweep has that many points.
const POINTS_MIN: usize = 3;

/// Operations per second follow in-flight as the laws of a closed system say: at its ceiling, or below.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClosedSystem {
    /// The time of one operation alone, in seconds.
    pub alone_seconds: f64,
    /// The time for which one operation needs the busiest resource, in seconds.
    pub demand_seconds: f64,
}

impl ClosedSystem {
    /// The least time alone and the highest rate of a sweep of (in flight, per second).
    pub fn of(sweep: &[(f64, f64)]) -> Option<Self> {
        let alone_seconds = sweep.iter().map(|(n, rate)| n / rate).min_by(f64::total_cmp)?;
        let ceiling = sweep.iter().map(|(_, rate)| *rate).max_by(f64::total_cmp)?;
        Some(Self { alone_seconds, demand_seconds: 1.0 / ceiling })
    }

    /// The most that the laws allow with `n` in flight, per second.
    pub fn bound(&self, n: f64) -> f64 {
        (n / self.alone_seconds).min(1.0 / self.demand_seconds)
    }

    /// In flight where the bounds meet.
    pub fn knee(&self) -> f64 {
        self.alone_seconds / self.demand_seconds
    }

    /// What one server of this demand and a delay for the rest give with `n` in flight, by mean value
    /// analysis.
    pub fn mean_value(&self, n: usize) -> f64 {
        let delay = (self.alone_seconds - self.demand_seconds).max(0.0);
        let (mut queue, mut rate) = (0.0, 0.0);
        for customers in 1..=n {
            let response = self.demand_seconds * (1.0 + queue);
            rate = customers as f64 / (delay + response);
            queue = rate * response;
        }
        rate
    }
}

/// The longest queue that mean value analysis is run for.
const IN_FLIGHT_MAX: f64 = 100_000.0;

/// Finds the knee of each sweep of in-flight operations or clients.
pub fn find(table: &Table) -> Vec<Finding> {
    let axis = [Axis::InFlight, Axis::Clients]
        .into_iter()
        .find(|axis| table.rows.iter().any(|row| row.at(*axis).is_some()));
    let Some(axis) = axis else { return Vec::new() };
    along(table, axis).iter().flat_map(|(name, rows)| sweep(table, name, axis, rows)).collect()
}

fn sweep(table: &Table, name: &str, axis: Axis, rows: &[&Observation]) -> Vec<Finding> {
    let point = |row: &&Observation| Some((row.at(axis)?, row.operations_per_second?));
    let points: Vec<_> = rows.iter().filter_map(point).collect();
    let (Some(system), Some(&(most, rate)), true) =
        (ClosedSystem::of(&points), points.last(), points.len() >= POINTS_MIN)
    else {
        return Vec::new();
    };
    let knee = system.knee();
    // Without a name of its own the sweep is what the finding is about.
    let name = if name.is_empty() { String::new() } else { format!("{name}: ") };
    let utilisation = rate * system.demand_seconds;
    let band = system.mean_value(most.min(IN_FLIGHT_MAX) as usize);
    let saturated = most > knee;
    let place = if saturated {
        format!(
            "above the knee, with time in proportion to {axis} beyond it: consistent with one saturated resource"
        )
    } else {
        "below the knee, rate in proportion: consistent with latency alone, so the resource behind it does not show".to_owned()
    };
    let sentence = format!(
        "{name}alone an operation takes {}, the ceiling is {}, so the knee is at {knee:.1} {axis}; {most} is {place} \
         ({:.0} % of the ceiling; one server and a delay would give {})",
        time_in_words(system.alone_seconds * 1e9),
        rate_in_words(1.0 / system.demand_seconds),
        utilisation * 100.0,
        rate_in_words(band),
    );
    let figures = [
        ("alone_us", system.alone_seconds * 1e6),
        ("ceiling_per_s", 1.0 / system.demand_seconds),
        ("demand_ns", system.demand_seconds * 1e9),
        ("knee", knee),
        ("utilisation", utilisation),
        ("mean_value_per_s", band),
        ("saturated", f64::from(u8::from(saturated))),
    ];
    let bound = Finding::new(Section::Bound, "knee", &table.name, sentence).with(figures);
    [Some(bound), (!saturated).then(|| further(table, most))].into_iter().flatten().collect()
}

/// A delay and a resource that is nearly full look the same until more is in flight.
fn further(table: &Table, most: f64) -> Finding {
    let sentence = format!(
        "delay: rate doubles at {} in flight; saturation: it stays and the time doubles; run `{} {}`",
        2.0 * most,
        if table.name.starts_with("msgrate") {
            "farcall msgrate --in-flight"
        } else {
            "farcall perf echo --in-flight"
        },
        2.0 * most
    );
    Finding::new(Section::NextExperiment, "sweep_further", &table.name, sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::analysis::input::table::parse;

    const SYSTEM: ClosedSystem = ClosedSystem { alone_seconds: 10e-6, demand_seconds: 1e-6 };

    #[test]
    fn the_bounds_meet_at_the_knee() {
        assert!((SYSTEM.knee() - 10.0).abs() < 1e-9);
        assert!((SYSTEM.bound(5.0) - 5e5).abs() < 1e-3 && (SYSTEM.bound(50.0) - 1e6).abs() < 1e-3);
    }

    #[test]
    fn a_slow_system_has_a_ceiling_that_is_not_zero() {
        let text = "connections,requests/s,mean_ms\n1,83.1,12.04\n4,270,14.81\n16,617.1,25.93\n";
        let found = find(&parse("t", text).expect("a table"));
        let said = &found[0].sentence;
        assert!(
            said.contains("takes 12.03 ms, the ceiling is 617.10/s") && !said.contains(" 0.00"),
            "{said}"
        );
    }

    #[test]
    fn mean_value_analysis_lies_within_the_bounds_and_reaches_them() {
        for n in 1..100 {
            assert!(SYSTEM.mean_value(n) <= SYSTEM.bound(n as f64) * (1.0 + 1e-9), "{n}");
        }
        assert!((SYSTEM.mean_value(1) / 1e5 - 1.0).abs() < 1e-9);
        assert!(SYSTEM.mean_value(100) > 0.99e6);
    }
}
