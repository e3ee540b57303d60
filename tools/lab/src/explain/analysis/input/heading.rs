//! What the heading of a column says about its cells.

use core::fmt;

/// Something that the person who measured chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Axis {
    /// Processes that take part.
    Nodes,
    /// Processes that call.
    Clients,
    /// Processes that answer.
    Servers,
    /// Operations in flight at a time.
    InFlight,
    /// Length of a message, in bytes.
    Size,
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Nodes => "nodes",
            Self::Clients => "clients",
            Self::Servers => "servers",
            Self::InFlight => "in flight",
            Self::Size => "bytes",
        })
    }
}

/// A summary of latencies, from the shortest to the longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Latency {
    /// The shortest.
    Min,
    /// The median.
    P50,
    /// The 90th percentile.
    P90,
    /// The 99th percentile.
    P99,
    /// The 99.9th percentile.
    P999,
    /// The longest.
    Max,
    /// The mean.
    Mean,
}

impl Latency {
    /// The quantiles, without the mean, from low to high.
    pub const QUANTILES: [Self; 6] = [Self::Min, Self::P50, Self::P90, Self::P99, Self::P999, Self::Max];

    /// The share of samples that are not above it; `None` for the mean.
    pub fn share(self) -> Option<f64> {
        match self {
            Self::Min => Some(0.0),
            Self::P50 => Some(0.5),
            Self::P90 => Some(0.9),
            Self::P99 => Some(0.99),
            Self::P999 => Some(0.999),
            Self::Max => Some(1.0),
            Self::Mean => None,
        }
    }

    fn named(word: &str) -> Option<Self> {
        Some(match word {
            "min" => Self::Min,
            "p50" | "median" => Self::P50,
            "p90" => Self::P90,
            "p99" => Self::P99,
            "p999" => Self::P999,
            "max" => Self::Max,
            "mean" | "avg" => Self::Mean,
            _ => return None,
        })
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Min => "minimum",
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P99 => "p99",
            Self::P999 => "p99.9",
            Self::Max => "maximum",
            Self::Mean => "mean",
        })
    }
}

/// The unit of a throughput in bytes or bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThroughputUnit {
    /// 10^9 bits per second.
    Gigabits,
    /// 2^20 bytes per second.
    Mebibytes,
    /// 10^6 or 2^20 bytes per second: not said.
    Megabytes,
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Role {
    /// Text that tells one series from another.
    Label,
    /// What was chosen.
    Axis(Axis),
    /// A time, and the nanoseconds in its unit.
    Time(Latency, f64),
    /// A time in a unit that is not said.
    TimeWithoutUnit,
    /// Bytes or bits per second.
    Throughput(ThroughputUnit),
    /// Operations per second.
    Operations,
    /// How many samples the row rests on.
    Samples,
}

/// What a heading means. One that is not known is a label.
pub fn role_of(heading: &str) -> Role {
    match heading {
        "nodes" => Role::Axis(Axis::Nodes),
        "clients" => Role::Axis(Axis::Clients),
        "servers" => Role::Axis(Axis::Servers),
        "in_flight" => Role::Axis(Axis::InFlight),
        "size_bytes" | "message_bytes" | "size" => Role::Axis(Axis::Size),
        "ops" | "samples" => Role::Samples,
        "operations_per_s" => Role::Operations,
        "throughput_gbps" => Role::Throughput(ThroughputUnit::Gigabits),
        "throughput_mib_s" => Role::Throughput(ThroughputUnit::Mebibytes),
        "throughput_mb_s" => Role::Throughput(ThroughputUnit::Megabytes),
        "time" => Role::TimeWithoutUnit,
        other => time_of(other).unwrap_or(Role::Label),
    }
}

fn time_of(heading: &str) -> Option<Role> {
    let (word, unit) = heading.rsplit_once('_')?;
    let nanos = match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    };
    Some(Role::Time(Latency::named(word)?, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_say_statistic_and_unit() {
        assert_eq!(role_of("p99_us"), Role::Time(Latency::P99, 1e3));
        assert_eq!(role_of("avg_ns"), Role::Time(Latency::Mean, 1.0));
        assert_eq!(role_of("message_bytes"), Role::Axis(Axis::Size));
        assert_eq!(role_of("throughput_gbps"), Role::Throughput(ThroughputUnit::Gigabits));
    }

    #[test]
    fn what_is_not_known_is_a_label() {
        for heading in ["", "series", "p98_us", "p99_years", "_us"] {
            assert_eq!(role_of(heading), Role::Label, "{heading}");
        }
    }
}
