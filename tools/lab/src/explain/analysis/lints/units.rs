//! Which units a table must mean: by Little's law, bandwidth times latency is the bytes in flight.

use crate::explain::analysis::finding::{Finding, Section};
use crate::explain::analysis::input::{Axis, Latency, Observation, Table, ThroughputUnit};

/// Bytes of a suffix and of a MB, as people mean them.
const BASES: [(f64, &str); 2] = [(1000.0, "10^3"), (1024.0, "2^10")];

/// One choice of bases for sizes with suffixes and for MB/s.
#[derive(Clone, Copy)]
struct Choice {
    size: (f64, &'static str),
    rate: (f64, &'static str),
}

impl Choice {
    /// The mean time that the row's bandwidth implies over its median, and whether that mean is possible: not
    /// below the shortest time, nor above p99.
    fn implied(self, row: &Observation) -> Option<(f64, bool)> {
        let (figure, unit) = row.throughput?;
        let (number, power) = row.size_suffix?;
        if unit != ThroughputUnit::Megabytes {
            return None;
        }
        let bytes = number * self.size.0.powi(power);
        let nanos = row.at(Axis::InFlight)? * bytes / (figure.value * self.rate.0.powi(2)) * 1e9;
        let too_long = row.nanos(Latency::P99).is_some_and(|high| nanos > high);
        let too_short = row.nanos(Latency::Min).is_some_and(|low| nanos < low);
        Some((nanos / row.nanos(Latency::P50)?, !too_long && !too_short))
    }
}

/// Names the bases that agree best, and the rows that the others make impossible.
pub fn infer(table: &Table) -> Option<Finding> {
    let choices = BASES.iter().flat_map(|size| BASES.map(|rate| Choice { size: *size, rate }));
    let mut scored: Vec<_> = choices.filter_map(|choice| score(choice, table)).collect();
    scored.sort_by(|a, b| a.2.cmp(&b.2).then(a.1.total_cmp(&b.1)));
    let (&(best, off, best_impossible), &(next, next_off, impossible)) = (scored.first()?, scored.get(1)?);
    let sentence = format!(
        "bandwidth x latency is the bytes in flight when 1K is {} and 1 MB {} bytes: the median difference is {:.1} %, and \
         {best_impossible} mean times are impossible, below the shortest or above p99; the next best reading, {} and {}, is {:.1} % \
         off, with {impossible} impossible means",
        best.size.1,
        square(best.rate.1),
        off * 100.0,
        next.size.1,
        square(next.rate.1),
        next_off * 100.0,
    );
    let figures = [
        ("size_base", best.size.0),
        ("rate_base", best.rate.0),
        ("off_percent", off * 100.0),
        ("next_off_percent", next_off * 100.0),
        ("impossible", best_impossible as f64),
        ("next_impossible", impossible as f64),
    ];
    // A reading that makes some rows impossible is no agreement, though the others be worse.
    let section = if best_impossible == 0 { Section::Agreement } else { Section::Contradiction };
    Some(Finding::new(section, "units", &table.name, sentence).with(figures))
}

fn square(base: &str) -> &'static str {
    if base == BASES[0].1 { "10^6" } else { "2^20" }
}

/// The median distance of implied times from medians, and how many are impossible.
fn score(choice: Choice, table: &Table) -> Option<(Choice, f64, usize)> {
    let implied: Vec<_> = table.rows.iter().filter_map(|row| choice.implied(row)).collect();
    let mut off: Vec<_> = implied.iter().map(|(ratio, _)| (ratio - 1.0).abs()).collect();
    off.sort_unstable_by(f64::total_cmp);
    let impossible = implied.iter().filter(|(_, possible)| !possible).count();
    Some((choice, *off.get(off.len() / 2)?, impossible))
}
