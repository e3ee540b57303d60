//! What the heading of a column says about its cells: a quantity, its statistic and its unit.
//!
//! Headings are read as words, whatever stands between them: `p99_us`, `p99 (us)`, `99% [usec]` and
//! `Latency p99 us` are one.

use core::fmt;

use super::number::TIME_UNITS;
use super::throughput::ThroughputUnit;

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
    /// Another percentile, in millionths of a percent.
    Percentile(u32),
}

impl Latency {
    /// The quantiles that tables show, without the mean, from low to high.
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
            Self::Percentile(millionths) => Some(f64::from(millionths) / 1e8),
        }
    }

    /// The percentile of that many percent; `None` outside of 0 to 100.
    pub fn percentile(percent: f64) -> Option<Self> {
        let millionths = (percent * 1e6).round();
        match millionths {
            0.0 => Some(Self::Min),
            50e6 => Some(Self::P50),
            90e6 => Some(Self::P90),
            99e6 => Some(Self::P99),
            99.9e6 => Some(Self::P999),
            100e6 => Some(Self::Max),
            between if (0.0..100e6).contains(&between) => Some(Self::Percentile(between as u32)),
            _ => None,
        }
    }

    fn named(word: &str) -> Option<Self> {
        match word {
            "min" | "minimum" | "best" => return Some(Self::Min),
            "median" | "typical" => return Some(Self::P50),
            "max" | "maximum" | "worst" => return Some(Self::Max),
            "mean" | "avg" | "average" => return Some(Self::Mean),
            _ => {}
        }
        let digits = ["%ile", "%", "th", "st"].iter().find_map(|end| word.strip_suffix(end));
        let digits =
            digits.or_else(|| ["perc", "pct", "p", "q"].iter().find_map(|start| word.strip_prefix(start)))?;
        let percent: f64 = digits.parse().ok()?;
        // `p999` is 99.9 and `p9999` 99.99.
        let nines = digits.len() > 2 && digits != "100" && digits.bytes().all(|byte| byte == b'9');
        Self::percentile(if nines { percent / 10_f64.powi(digits.len() as i32 - 2) } else { percent })
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
            Self::Percentile(millionths) => return write!(f, "p{}", f64::from(*millionths) / 1e6),
        })
    }
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
    /// A time of operations of one kind only, such as `read_p99_us`, and the nanoseconds in its unit.
    TimeOfKind(Latency, f64),
    /// The standard deviation of the times, and the nanoseconds in its unit.
    Deviation(f64),
    /// A time in a unit that is not said.
    TimeWithoutUnit,
    /// Bytes or bits per second.
    Throughput(ThroughputUnit),
    /// Operations per second, and how many its unit is.
    Operations(f64),
    /// A rate of each of several parts, such as `ops/s per thread`: bytes or operations per second in its
    /// unit, and whether it is bytes.
    RateOfEach(f64, bool),
    /// How many samples the row rests on.
    Samples,
    /// How long the row was measured, and the seconds in its unit.
    Duration(f64),
    /// Bytes of all operations of the row together.
    Moved,
    /// The times of all operations of the row together, and the nanoseconds in the unit.
    TimeSum(f64),
}

/// What a heading means. One that is not known is a label.
pub fn role_of(heading: &str) -> Role {
    let words = words_of(heading);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let Some(axis) = axis_of(&words) {
        return Role::Axis(axis);
    }
    match words.as_slice() {
        ["ops" | "samples" | "iterations" | "requests" | "count" | "calls" | "messages"] => {
            return Role::Samples;
        }
        ["time"] => return Role::TimeWithoutUnit,
        // So do programs head the only time that they print.
        [unit] if SHORT_UNITS.contains(unit) && heading.trim().to_lowercase() == *unit => {
            return time_of(&["latency", unit]).unwrap_or(Role::Label);
        }
        ["seconds"] => return Role::Duration(1.0),
        ["moved" | "transferred" | "total", "bytes"] => return Role::Moved,
        _ => {}
    }
    throughput_of(heading, &words)
        .or_else(|| operations_of(&words))
        .or_else(|| time_of(&words))
        .or_else(|| rate_of_each(heading, &words))
        .unwrap_or(Role::Label)
}

/// What a total may be divided by: the word for one, and for many.
pub const PARTS: [(&str, &str); 18] = [
    ("node", "nodes"),
    ("client", "clients"),
    ("server", "servers"),
    ("thread", "threads"),
    ("rank", "ranks"),
    ("process", "processes"),
    ("proc", "procs"),
    ("core", "cores"),
    ("gpu", "gpus"),
    ("host", "hosts"),
    ("machine", "machines"),
    ("worker", "workers"),
    ("connection", "connections"),
    ("stream", "streams"),
    ("nic", "nics"),
    ("port", "ports"),
    ("shard", "shards"),
    ("flow", "flows"),
];

/// The parts whose number a column has by its heading, such as `threads` or `number of GPUs`. `thread` and
/// `port` tell which one it is.
pub fn counted_parts(heading: &str) -> Option<(&'static str, &'static str)> {
    let words = words_of(heading);
    PARTS.into_iter().find(|(_, many)| match words.as_slice() {
        [word] => word == many,
        [.., of, word] => ["of", "n", "num", "number"].contains(&of.as_str()) && word == many,
        [] => false,
    })
}

/// A rate whose heading ends with what it is of each of, such as `GB/s per node`.
fn rate_of_each(heading: &str, words: &[&str]) -> Option<Role> {
    let [rate @ .., "per", part] = words else { return None };
    PARTS.iter().find(|(one, _)| one == part)?;
    match throughput_of(heading, rate).or_else(|| operations_of(rate))? {
        Role::Throughput(unit) => Some(Role::RateOfEach(unit.readings()[0], true)),
        Role::Operations(scale) => Some(Role::RateOfEach(scale, false)),
        _ => None,
    }
}

/// The words of a heading in lower case; a division is the word `per`.
pub fn words_of(heading: &str) -> Vec<String> {
    let heading = heading.replace('/', " per ").to_lowercase();
    let is_between = |c: char| !(c.is_alphanumeric() || c == '.' || c == '%');
    heading.split(is_between).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

fn axis_of(words: &[&str]) -> Option<Axis> {
    Some(match words {
        ["nodes"] => Axis::Nodes,
        ["clients"] => Axis::Clients,
        ["servers"] => Axis::Servers,
        ["in", "flight"]
        | ["inflight" | "iodepth" | "depth" | "connections" | "concurrency" | "window"]
        | ["queue", "depth"] => Axis::InFlight,
        ["size" | "bytes"] | ["size" | "message" | "msg" | "payload", "bytes" | "size"] | ["size", "b"] => {
            Axis::Size
        }
        [
            "message" | "msg" | "payload" | "packet" | "block" | "record" | "value",
            "size" | "length",
            "b" | "byte" | "bytes",
        ] => Axis::Size,
        _ => return None,
    })
}

/// Whether the words end in "per second", and those before.
fn without_per_second<'a>(words: &'a [&'a str]) -> Option<&'a [&'a str]> {
    match words {
        [before @ .., "per", "s" | "sec" | "second"] => Some(before),
        [before @ .., "s" | "sec"] if before.last().is_some_and(|unit| byte_unit(unit).is_some()) => {
            Some(before)
        }
        _ => None,
    }
}

fn byte_unit(word: &str) -> Option<ThroughputUnit> {
    Some(match word {
        "b" | "byte" | "bytes" => ThroughputUnit::Bytes,
        "kb" | "kbyte" | "kbytes" => ThroughputUnit::Kilobytes,
        "mb" | "mbyte" | "mbytes" => ThroughputUnit::Megabytes,
        "gb" | "gbyte" | "gbytes" => ThroughputUnit::Gigabytes,
        "kib" => ThroughputUnit::Kibibytes,
        "mib" => ThroughputUnit::Mebibytes,
        "gib" => ThroughputUnit::Gibibytes,
        "gbit" | "gbits" => ThroughputUnit::Gigabits,
        "mbit" | "mbits" => ThroughputUnit::Megabits,
        _ => return None,
    })
}

fn throughput_of(heading: &str, words: &[&str]) -> Option<Role> {
    // A small b after a prefix is a bit where people write carefully, and careful units have a slash or
    // brackets.
    let careful =
        |unit: &str| heading.contains(&format!("{unit}/")) || heading.contains(&format!("{unit}ps"));
    let unit = match *words.last()? {
        _ if careful("Gb") => ThroughputUnit::Gigabits,
        _ if careful("Mb") => ThroughputUnit::Megabits,
        "mbps" if heading.contains("MBps") => ThroughputUnit::Megabytes,
        "gbps" if heading.contains("GBps") => ThroughputUnit::Gigabytes,
        "gbps" => ThroughputUnit::Gigabits,
        "mbps" => ThroughputUnit::Megabits,
        "bps" => ThroughputUnit::Bits,
        _ => byte_unit(without_per_second(words)?.last()?)?,
    };
    Some(Role::Throughput(unit))
}

fn operations_of(words: &[&str]) -> Option<Role> {
    const COUNTED: [&str; 22] = [
        "operations",
        "ops",
        "requests",
        "reqs",
        "req",
        "calls",
        "messages",
        "msgs",
        "msg",
        "transactions",
        "hits",
        "queries",
        "packets",
        "transfers",
        "xfers",
        "iterations",
        "samples",
        "records",
        "commands",
        "images",
        "msgrate",
        "rate",
    ];
    const RATES: [&str; 6] = ["ops", "pps", "iops", "qps", "rps", "tps"];
    if let Some(before) = without_per_second(words) {
        let counted = before.last()?;
        let prefixed =
            |prefix: &str| counted.strip_prefix(prefix).is_some_and(|rest| COUNTED.contains(&rest));
        return match () {
            () if COUNTED.contains(counted) => Some(Role::Operations(1.0)),
            () if prefixed("k") => Some(Role::Operations(1e3)),
            () if prefixed("m") => Some(Role::Operations(1e6)),
            () => None,
        };
    }
    let last = words.last()?;
    // `ops` alone is a number of operations.
    if RATES[2..].contains(last) {
        return Some(Role::Operations(1.0));
    }
    let scaled = |prefix: &str| last.strip_prefix(prefix).is_some_and(|rest| RATES.contains(&rest));
    [("k", 1e3), ("m", 1e6)]
        .into_iter()
        .find(|(prefix, _)| scaled(prefix))
        .map(|(_, scale)| Role::Operations(scale))
}

/// Kinds of operations whose times have columns of their own beside each other.
const KINDS: [&str; 12] =
    ["read", "write", "get", "set", "put", "update", "insert", "scan", "delete", "lookup", "send", "receive"];

/// Units that are of a time of an operation; a heading that is only `s` or `min` is as often a duration.
const SHORT_UNITS: [&str; 8] = ["nsec", "usec", "msec", "ns", "us", "µs", "μs", "ms"];

/// Words beside a statistic that say no more than that a time was measured.
const TIME_WORDS: [&str; 10] =
    ["latency", "lat", "time", "response", "clat", "t", "rtt", "percentile", "tile", "ile"];

fn time_of(words: &[&str]) -> Option<Role> {
    let (unit, before) = words.split_last()?;
    let nanos = TIME_UNITS.iter().take_while(|(own, _)| *own != "m").find(|(own, _)| own == unit)?.1;
    let before: Vec<&str> = before.iter().copied().filter(|word| !TIME_WORDS.contains(word)).collect();
    match before.as_slice() {
        ["sum"] => Some(Role::TimeSum(nanos)),
        ["stdev" | "stddev" | "std" | "deviation"] => Some(Role::Deviation(nanos)),
        ["duration" | "runtime" | "elapsed"] | ["test", "duration"] => Some(Role::Duration(nanos / 1e9)),
        // A time without a statistic is a mean: so print OSU's and NetPIPE's programs.
        [] if words.len() > 1 && words.iter().any(|word| ["latency", "lat", "rtt"].contains(word)) => {
            Some(Role::Time(Latency::Mean, nanos))
        }
        [kind] if KINDS.contains(kind) && words.len() > 2 => Some(Role::TimeOfKind(Latency::Mean, nanos)),
        [kind, statistic] | [statistic, kind] if KINDS.contains(kind) => {
            Some(Role::TimeOfKind(Latency::named(statistic)?, nanos))
        }
        [statistic] => Some(Role::Time(Latency::named(statistic)?, nanos)),
        _ => None,
    }
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
    fn one_quantity_has_many_spellings() {
        for heading in ["p99 (us)", "Latency p99 [usec]", "99% us", "99th_us", "t_p99[usec]"] {
            assert_eq!(role_of(heading), Role::Time(Latency::P99, 1e3), "{heading}");
        }
        for heading in ["p999_ms", "p99.9 ms", "99.9%_ms"] {
            assert_eq!(role_of(heading), Role::Time(Latency::P999, 1e6), "{heading}");
        }
        assert_eq!(role_of("p95_us"), Role::Time(Latency::Percentile(95_000_000), 1e3));
        assert_eq!(role_of("Latency (us)"), Role::Time(Latency::Mean, 1e3));
        assert_eq!(role_of("stdev_us"), Role::Deviation(1e3));
        assert_eq!(role_of("duration_s"), Role::Duration(1.0));
        assert_eq!(role_of("Transferred (bytes)"), Role::Moved);
        assert_eq!(role_of("Sum(ms)"), Role::TimeSum(1e6));
        for (heading, unit) in [
            ("throughput_gb_s", ThroughputUnit::Gigabytes),
            ("GiB/s", ThroughputUnit::Gibibytes),
            ("Bandwidth (MB/s)", ThroughputUnit::Megabytes),
            ("BW average[Gb/sec]", ThroughputUnit::Gigabits),
            ("Mbps", ThroughputUnit::Megabits),
            ("KB/sec", ThroughputUnit::Kilobytes),
        ] {
            assert_eq!(role_of(heading), Role::Throughput(unit), "{heading}");
        }
        for (heading, scale) in [
            ("kops", 1e3),
            ("MsgRate[Mpps]", 1e6),
            ("ops/s", 1.0),
            ("Requests/sec", 1.0),
            ("rps", 1.0),
            ("Kreq/s", 1e3),
        ] {
            assert_eq!(role_of(heading), Role::Operations(scale), "{heading}");
        }
    }

    #[test]
    fn headings_of_common_programs_are_known() {
        assert_eq!(role_of("usec"), Role::Time(Latency::Mean, 1e3));
        assert_eq!(role_of("message size (B)"), Role::Axis(Axis::Size));
        assert_eq!(role_of("99%-tile (us)"), Role::Time(Latency::P99, 1e3));
        assert_eq!(role_of("read_lat_us"), Role::TimeOfKind(Latency::Mean, 1e3));
        assert_eq!(role_of("write_p99_us"), Role::TimeOfKind(Latency::P99, 1e3));
        assert_eq!(role_of("p99 read latency (ms)"), Role::TimeOfKind(Latency::P99, 1e6));
        for heading in ["s", "min", "read_us", "loss_lat_us"] {
            assert_eq!(role_of(heading), Role::Label, "{heading}");
        }
    }

    #[test]
    fn what_is_not_known_is_a_label() {
        for heading in ["", "series", "p101_us", "p99_years", "_us", "loss_us", "pair_us"] {
            assert_eq!(role_of(heading), Role::Label, "{heading}");
        }
    }
}
