//! Laws that bind the rates of a row: size x rate = throughput, count / duration = rate, bytes / duration =
//! throughput, and one throughput in several units.

use super::agreement::{Law, Pair, Reading, holds_mostly, judge};
use crate::explain::analysis::finding::{Finding, Section};
use crate::explain::analysis::input::{
    Assumption, Axis, Latency, Observation, PrintedFigure, Role, Table, ThroughputUnit, Tolerances,
};

/// How far rounding may put a figure off, as a part of it.
fn rounding(figure: PrintedFigure) -> f64 {
    figure.rounding / figure.value
}

/// The columns of a kind: number, heading and what the kind says.
fn columns<T>(table: &Table, kind: impl Fn(Role) -> Option<T>) -> Vec<(usize, &str, T)> {
    let of = |(index, column): (usize, &'_ crate::explain::analysis::input::Column)| {
        Some((index, kind(column.role)?))
    };
    let found = table.columns.iter().enumerate().filter_map(of);
    found.map(|(index, kind)| (index, table.columns[index].heading.as_str(), kind)).collect()
}

/// What a unit that leaves it open may mean beside the decimal reading: the ratio to that, and words.
fn unit_readings(unit: ThroughputUnit) -> Vec<Reading> {
    let decimal = unit.readings()[0];
    let other = |bytes: &f64| Reading {
        ratio: decimal / bytes,
        words: format!("1 {unit} is {}", binary(*bytes)),
        is_unit: true,
    };
    // NetPIPE's megabits are binary.
    let megabits = if unit == ThroughputUnit::Megabits { &[131_072.0][..] } else { &[] };
    unit.readings()[1..].iter().chain(megabits).map(other).collect()
}

fn binary(bytes: f64) -> String {
    match bytes {
        1024.0 => "2^10 bytes/s".to_owned(),
        1_048_576.0 => "2^20 bytes/s".to_owned(),
        1_073_741_824.0 => "2^30 bytes/s".to_owned(),
        131_072.0 => "2^20 bits/s".to_owned(),
        other => format!("{other} bytes/s"),
    }
}

/// What the total over parts and directions may make of a ratio.
fn count_readings(table: &Table) -> Vec<Reading> {
    let counted = |ratio: f64, words: &str| Reading { ratio, words: words.to_owned(), is_unit: false };
    let mut readings = vec![
        counted(2.0, "one of them counts both directions"),
        counted(0.5, "one of them counts both directions, the other one"),
        counted(8.0, "one of them is in bits"),
        counted(0.125, "one of them is in bits"),
    ];
    for axis in [Axis::Nodes, Axis::Clients, Axis::Servers] {
        if let Some(number) = constant(table, axis).filter(|number| *number > 1.0) {
            readings.push(counted(number, &format!("one of them is the total over {number} {axis}")));
            readings.push(counted(1.0 / number, &format!("one of them is of one of {number} {axis}")));
        }
    }
    readings
}

/// The place on an axis if all rows have the same.
fn constant(table: &Table, axis: Axis) -> Option<f64> {
    let first = table.rows.first()?.at(axis)?;
    table.rows.iter().all(|row| row.at(axis) == Some(first)).then_some(first)
}

/// Every reading of a unit with every reading of what is counted.
fn both(units: Vec<Reading>, counts: Vec<Reading>) -> Vec<Reading> {
    let products: Vec<_> = units
        .iter()
        .flat_map(|unit| {
            counts.iter().map(move |count| Reading {
                ratio: unit.ratio * count.ratio,
                words: format!("{} and {}", unit.words, count.words),
                is_unit: false,
            })
        })
        .collect();
    units.into_iter().chain(counts).chain(products).collect()
}

/// Columns of throughput, each with its heading and unit.
fn throughputs(table: &Table) -> Vec<(usize, &str, ThroughputUnit)> {
    columns(table, |role| if let Role::Throughput(unit) = role { Some(unit) } else { None })
}

/// The column of rates, with its heading and what one of its unit is.
fn rate_column(table: &Table) -> Option<(usize, &str, f64)> {
    columns(table, |role| if let Role::Operations(scale) = role { Some(scale) } else { None })
        .into_iter()
        .next()
}

/// Judges each column of throughput by a law. Where one is what the law says in all rows by its unit alone,
/// the others are other quantities, such as peaks.
fn judge_each(
    table: &Table,
    tolerances: &Tolerances,
    rule: &'static str,
    right_side: &str,
    pair: impl Fn(&Observation, PrintedFigure, ThroughputUnit) -> Option<Pair>,
) -> Vec<Finding> {
    let mut judged = Vec::new();
    for (column, heading, unit) in throughputs(table) {
        let words = format!("`{heading}` is {right_side}");
        let law = Law { rule, table: &table.name, words: &words, tolerance: tolerances.product };
        let of = |row: &Observation| pair(row, *row.cells.get(&column)?, unit);
        let pairs: Vec<_> = table.rows.iter().filter_map(of).collect();
        let findings = judge(law, &pairs, &both(unit_readings(unit), count_readings(table)));
        if findings.iter().any(|finding| finding.section == Section::Agreement) && findings.len() == 1 {
            return findings;
        }
        judged.extend(findings);
    }
    judged
}

/// Size x rate = throughput.
pub fn size_times_rate(table: &Table, tolerances: &Tolerances) -> Vec<Finding> {
    let Some((rate_column, rate_heading, scale)) = rate_column(table) else { return Vec::new() };
    let right_side = format!("size x `{rate_heading}`");
    judge_each(table, tolerances, "size_times_rate", &right_side, |row, throughput, unit| {
        let rate = row.cells.get(&rate_column)?;
        let size = row.at(Axis::Size).filter(|size| *size > 0.0)?;
        let ratio = throughput.value * unit.readings()[0] / (size * rate.value * scale);
        Some(Pair { line: row.line, ratio, rounding: rounding(throughput) + rounding(*rate) })
    })
}

/// Size / time = throughput, where one operation is in flight and no rate is printed. What is in flight and
/// is not said is one, if most rows are by this law.
pub fn size_over_time(table: &Table, tolerances: &Tolerances) -> Vec<Finding> {
    let are_alone = |in_flight: Option<f64>| {
        table.rows.iter().all(|row| row.at(Axis::InFlight) == in_flight && row.at(Axis::Nodes).is_none())
    };
    // What else differs between rows may be how much is in flight, under another name.
    let besides_size = |row: &Observation| {
        let axes = row.axes.iter().filter(|(axis, _)| **axis != Axis::Size);
        (row.labels.clone(), axes.map(|(axis, place)| (*axis, *place)).collect::<Vec<_>>())
    };
    let differ_by_size_alone =
        table.rows.windows(2).all(|pair| besides_size(&pair[0]) == besides_size(&pair[1]));
    let (is_one, is_unsaid) = (are_alone(Some(1.0)), are_alone(None) && differ_by_size_alone);
    if rate_column(table).is_some() || !(is_one || is_unsaid) {
        return Vec::new();
    }
    let findings = time_of_size(table, tolerances);
    let is_shown = |first: &Finding| first.section == Section::Agreement && holds_mostly(first);
    if is_one || findings.first().is_some_and(is_shown) { findings } else { Vec::new() }
}

fn time_of_size(table: &Table, tolerances: &Tolerances) -> Vec<Finding> {
    judge_each(table, tolerances, "size_over_time", "size / mean time", |row, throughput, unit| {
        let mean = row.times.get(&Latency::Mean)?;
        let size = row.at(Axis::Size).filter(|size| *size > 0.0 && row.size_suffix.is_none())?;
        let ratio = throughput.value * unit.readings()[0] * mean.value / 1e9 / size;
        Some(Pair { line: row.line, ratio, rounding: rounding(throughput) + rounding(*mean) })
    })
}

/// Count / duration = rate.
pub fn count_over_duration(table: &Table, tolerances: &Tolerances) -> Vec<Finding> {
    let seconds =
        columns(table, |role| if let Role::Duration(seconds) = role { Some(seconds) } else { None });
    let (Some((rate_column, heading, scale)), Some((seconds_column, _, unit))) =
        (rate_column(table), seconds.first())
    else {
        return Vec::new();
    };
    let pair = |row: &Observation| {
        let (rate, seconds) = (row.cells.get(&rate_column)?, row.cells.get(seconds_column)?);
        let ratio = rate.value * scale * seconds.value * unit / row.samples?;
        Some(Pair { line: row.line, ratio, rounding: rounding(*rate) + rounding(*seconds) })
    };
    let words = format!("`{heading}` is count / duration");
    let law =
        Law { rule: "count_over_duration", table: &table.name, words: &words, tolerance: tolerances.product };
    let pairs: Vec<_> = table.rows.iter().filter_map(pair).collect();
    judge(law, &pairs, &count_readings(table))
}

/// Bytes of the row / duration = throughput.
pub fn bytes_over_duration(table: &Table, tolerances: &Tolerances) -> Vec<Finding> {
    let seconds =
        columns(table, |role| if let Role::Duration(seconds) = role { Some(seconds) } else { None });
    let moved = columns(table, |role| (role == Role::Moved).then_some(()));
    let (Some((seconds_column, _, unit)), Some((moved_column, heading, ()))) =
        (seconds.first(), moved.first())
    else {
        return Vec::new();
    };
    let right_side = format!("`{heading}` / duration");
    judge_each(table, tolerances, "bytes_over_duration", &right_side, |row, throughput, own| {
        let (seconds, moved) = (row.cells.get(seconds_column)?, row.cells.get(moved_column)?);
        let ratio = throughput.value * own.readings()[0] * seconds.value * unit / moved.value;
        Some(Pair { line: row.line, ratio, rounding: rounding(throughput) + rounding(*seconds) })
    })
}

/// The sum of all times / count = mean time.
pub fn sum_over_count(table: &Table, tolerances: &Tolerances) -> Vec<Finding> {
    let sums = columns(table, |role| if let Role::TimeSum(nanos) = role { Some(nanos) } else { None });
    let Some((sum_column, heading, nanos)) = sums.first() else { return Vec::new() };
    let pair = |row: &Observation| {
        let (sum, mean) = (row.cells.get(sum_column)?, row.times.get(&Latency::Mean)?);
        let ratio = mean.value * row.samples? / (sum.value * nanos);
        Some(Pair { line: row.line, ratio, rounding: rounding(*sum) + rounding(*mean) })
    };
    let words = format!("the mean time is `{heading}` / count");
    let law =
        Law { rule: "sum_over_count", table: &table.name, words: &words, tolerance: tolerances.product };
    let pairs: Vec<_> = table.rows.iter().filter_map(pair).collect();
    judge(law, &pairs, &count_readings(table))
}

/// Columns of throughput whose headings differ in nothing but the unit are one quantity.
pub fn one_throughput(table: &Table, tolerances: &Tolerances) -> Vec<Finding> {
    let throughputs = throughputs(table);
    let Some(((first, first_heading, first_unit), others)) = throughputs.split_first() else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    for (column, heading, unit) in others {
        if quantity(heading) != quantity(first_heading) {
            continue;
        }
        let pair = |row: &Observation| {
            let (left, right) = (row.cells.get(first)?, row.cells.get(column)?);
            let ratio = left.value * first_unit.readings()[0] / (right.value * unit.readings()[0]);
            Some(Pair { line: row.line, ratio, rounding: rounding(*left) + rounding(*right) })
        };
        let words = format!("`{first_heading}` is `{heading}`");
        let law =
            Law { rule: "one_throughput", table: &table.name, words: &words, tolerance: tolerances.product };
        let inverse =
            unit_readings(*unit).into_iter().map(|reading| Reading { ratio: 1.0 / reading.ratio, ..reading });
        let units = unit_readings(*first_unit).into_iter().chain(inverse).collect();
        let pairs: Vec<_> = table.rows.iter().filter_map(pair).collect();
        findings.extend(judge(law, &pairs, &both(units, count_readings(table))));
    }
    findings
}

/// The words of a heading without those of its unit.
pub fn quantity(heading: &str) -> Vec<String> {
    const UNITS: [&str; 22] = [
        "b", "kb", "mb", "gb", "kib", "mib", "gib", "s", "sec", "second", "bps", "kbps", "mbps", "gbps",
        "bytes", "mbytes", "gbytes", "gbit", "mbit", "gbits", "mbits", "per",
    ];
    let heading = heading.to_lowercase();
    let words = heading.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.filter(|word| !UNITS.contains(word)).map(str::to_owned).collect()
}

/// Looks for what contradicts a law.
type Search = fn(&Table, &Tolerances) -> Vec<Finding>;

/// What each law assumes.
pub const LAWS: [(Assumption, Search); 6] = [
    (Assumption::SizeTimesRate, size_times_rate),
    (Assumption::SizeTimesRate, size_over_time),
    (Assumption::CountOverDuration, count_over_duration),
    (Assumption::CountOverDuration, bytes_over_duration),
    (Assumption::CountOverDuration, sum_over_count),
    (Assumption::OneThroughput, one_throughput),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::analysis::input::table::parse;

    fn found(law: fn(&Table, &Tolerances) -> Vec<Finding>, text: &str) -> Vec<(Section, String)> {
        let findings = law(&parse("t", text).expect("a table"), &Tolerances::default());
        findings.into_iter().map(|finding| (finding.section, finding.sentence)).collect()
    }

    #[test]
    fn megabytes_are_decided_by_size_and_rate() {
        let text = "size,mb_per_s,ops/s\n1000000,100.0,100.0\n2000000,100.0,50.0\n";
        let text = text.replace("mb_per_s", "throughput_mb_s");
        assert!(found(size_times_rate, &text)[0].1.contains("all 2 rows within 1.0 %"));
        let binary = found(size_times_rate, &text.replace("100.0,", "95.37,"));
        assert!(binary[0].0 == Section::Agreement && binary[0].1.contains("2^20"), "{binary:?}");
        let twice = found(size_times_rate, &text.replace("100.0,", "200.0,"));
        assert!(twice[0].0 == Section::Caution && twice[0].1.contains("both directions"), "{twice:?}");
    }

    #[test]
    fn a_unit_that_flips_is_named_by_its_rows() {
        let text = "GB/s,GiB/s\n1.0000,1.0000\n0.5000,0.5000\n2.1475,2.0000\n0.8000,0.8000\n";
        let flips = found(one_throughput, text);
        assert!(
            flips
                .iter()
                .any(|(section, words)| *section == Section::Contradiction && words.contains("line 4")),
            "{flips:?}"
        );
    }

    #[test]
    fn counts_durations_and_rates_are_bound() {
        let twice = found(count_over_duration, "iterations,seconds,ops/s\n1000,10.00,200.0\n");
        assert!(twice[0].1.contains("2 (both directions"), "{twice:?}");
        assert_eq!(
            found(count_over_duration, "iterations,seconds,ops/s\n1000,10.00,100.0\n")[0].0,
            Section::Agreement
        );
    }

    #[test]
    fn sums_counts_and_means_are_bound() {
        let of =
            |mean: &str| found(sum_over_count, &format!("count,sum_ms,avg_ms\n200,500.00,{mean}\n"))[0].0;
        assert_eq!((of("2.50"), of("0.30")), (Section::Agreement, Section::Contradiction));
    }

    #[test]
    fn bytes_durations_and_throughputs_are_bound() {
        let of = |rate: &str| {
            found(bytes_over_duration, &format!("moved_bytes,seconds,mbps\n1000000,2.00,{rate}\n"))
        };
        assert_eq!(of("4.000")[0].0, Section::Agreement);
        assert!(of("8.000")[0].1.contains("both directions"), "{:?}", of("8.000"));
        assert_eq!(of("5.000")[0].0, Section::Contradiction);
    }

    #[test]
    fn of_one_in_flight_size_over_time_is_the_throughput() {
        let binary = found(size_over_time, "size,in_flight,Mbps,latency_us\n1024,1,2548.27,3.070\n");
        assert!(binary[0].1.contains("2^20 bits"), "{binary:?}");
    }

    #[test]
    fn one_in_flight_is_inferred_where_most_rows_are_by_it() {
        let text = "size,latency_us,MB/s\n64,1.20,53.3\n1024,1.90,538.9\n4096,3.10,1321.3\n\
                    65536,22.1,2965.4\n4194304,1220.0,3638.0\n";
        let found = |text: &str| found(size_over_time, text);
        assert!(found(text)[1].1.contains("line 6"), "{:?}", found(text));
        assert_eq!(found(&text.replace("3638", "3438")).len(), 1);
        let window = "size,latency_us,MB/s\n64,1.20,3411.0\n1024,1.90,9000.0\n4096,3.10,11000.0\n";
        assert!(found(window).is_empty(), "more may be in flight");
        let threads = "threads,size,latency_us,MB/s\n1,64,1.20,53.3\n1,1024,1.90,538.9\n1,4096,3.10,1321.3\n\
                       1,65536,22.1,2965.4\n8,65536,22.1,23723.2\n";
        assert!(found(threads).is_empty(), "eight threads have eight in flight");
    }
}
