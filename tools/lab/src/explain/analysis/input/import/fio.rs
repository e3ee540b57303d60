//! fio, in its output for people.

use super::super::text::{NamedFigure, PrintedSum};
use super::{Imported, Row, between, table};

/// What the lines before a direction's figures say of its job.
#[derive(Debug, Default, Clone)]
struct Job {
    size: Option<String>,
    depth: Option<u64>,
    jobs: Option<u64>,
}

/// One row for each job and direction: lines such as `write: IOPS=300, BW=1200KiB/s (…)`.
pub fn read(text: &str) -> Option<Imported> {
    let mut rows: Vec<Row> = Vec::new();
    let mut job = Job::default();
    let mut unit = String::new();
    let mut parts = Latencies::default();
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        if let Some(depth) = number_after(trimmed, "iodepth=") {
            let size = between(trimmed, "bs=", ", ioengine").or(between(trimmed, "bs=", ","));
            job = Job { size: size.and_then(block_size), depth: Some(depth), jobs: None };
        }
        job.jobs = number_after(trimmed, ", jobs=").or(job.jobs);
        let direction = trimmed.split_once(": IOPS=").map(|(direction, _)| direction.trim());
        if let Some(direction) = direction.filter(|direction| !direction.contains(' ')) {
            rows.push(begin(index + 1, direction, trimmed, &job));
        }
        if let Some(row) = rows.last_mut() {
            take(row, trimmed, &mut unit);
            parts.take(index + 1, trimmed, row);
        }
    }
    let readings = ["each job has as much in flight as its I/O depth", "times are completion latencies"];
    (!rows.is_empty()).then(|| table(rows, &readings))
}

/// By what part fio's mean latency may differ from submission plus completion: each is timed by itself.
const LATENCY_TOLERANCE: f64 = 0.05;

/// The means of submission and completion latency of a direction, which come before that of both.
#[derive(Default)]
struct Latencies(Vec<NamedFigure>);

impl Latencies {
    /// Adds the whole to the row where the line has it and both parts were there.
    fn take(&mut self, line: usize, text: &str, row: &mut Row) {
        let name = ["slat", "clat", "lat"].into_iter().find(|name| {
            text.strip_prefix(name).is_some_and(|rest| rest.starts_with(" (") && rest.contains("avg="))
        });
        let Some(name) = name else { return };
        let mean = between(text, "avg=", ",").zip(between(text, "(", ")"));
        let mean = mean.and_then(|(mean, unit)| {
            let nanos = [("nsec", 1.0), ("usec", 1e3), ("msec", 1e6), ("sec", 1e9)];
            let (_, nanos) = nanos.into_iter().find(|(own, _)| *own == unit)?;
            NamedFigure::of(name, &with_suffix(mean.trim()), nanos)
        });
        if name == "slat" {
            self.0.clear();
        }
        match mean {
            Some(whole) if name == "lat" => {
                let parts = core::mem::take(&mut self.0);
                if parts.len() == 2 {
                    row.sums.push(PrintedSum { line, whole, parts, tolerance: LATENCY_TOLERANCE });
                }
            }
            part => self.0.extend(part),
        }
    }
}

fn begin(line: usize, direction: &str, text: &str, job: &Job) -> Row {
    let mut row = Row::at(line);
    row.set("direction", Some(direction));
    row.set("size", job.size.as_deref());
    let in_flight = job.depth.map(|depth| (depth * job.jobs.unwrap_or(1)).to_string());
    row.set("in_flight", in_flight.as_deref());
    row.set("iops", between(text, "IOPS=", ","));
    row.set("MiB/s", between(text, "BW=", "MiB/s"));
    row.set("KiB/s", between(text, "BW=", "KiB/s").filter(|rate| !rate.contains("MiB/s")));
    row
}

fn take(row: &mut Row, line: &str, unit: &mut String) {
    if let Some(of) = line.strip_prefix("clat percentiles (").or(line.strip_prefix("lat percentiles (")) {
        of.split(')').next().unwrap_or_default().clone_into(unit);
    } else if let Some(of) = line.strip_prefix("clat (") {
        let unit = of.split(')').next().unwrap_or_default();
        for (name, heading) in [("min=", "min"), ("max=", "max"), ("avg=", "mean"), ("stdev=", "stdev")] {
            let value = line.split(name).nth(1).map(|rest| rest.split(',').next().unwrap_or(rest).trim());
            let value = value.map(with_suffix);
            row.set(&format!("{heading}_{unit}"), value.as_deref());
        }
    } else if let Some(shares) = line.strip_prefix('|') {
        for share in shares.split("],") {
            let Some((percent, value)) = share.split_once("th=[") else { continue };
            let value = value.trim_end_matches(']').trim();
            row.set(&format!("{}%_{unit}", percent.trim()), Some(value));
        }
    }
}

/// `94396k` and `7991.9M` as numbers.
fn with_suffix(text: &str) -> String {
    let (digits, zeros) = match text.chars().last() {
        Some('k' | 'K') => (&text[..text.len() - 1], 1e3),
        Some('M') => (&text[..text.len() - 1], 1e6),
        _ => return text.to_owned(),
    };
    digits.parse::<f64>().map_or(text.to_owned(), |value| (value * zeros).to_string())
}

fn number_after(text: &str, mark: &str) -> Option<u64> {
    let rest = &text[text.find(mark)? + mark.len()..];
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().ok()
}

/// `(R) 4096B-4096B, …` and `4K-4K/4K-4K`: the size, if all directions have one.
fn block_size(text: &str) -> Option<String> {
    let text = text.trim_start_matches("(R)").trim();
    let first = text.split(['-', ',', '/']).next()?.trim();
    let same = text
        .split(['-', ',', '/'])
        .map(|part| part.rsplit(' ').next().unwrap_or(part).trim())
        .all(|part| part == first);
    same.then(|| first.replace(".0KiB", "KiB").replace(".0MiB", "MiB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "mytest: (g=0): rw=randwrite, bs=(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B, ioengine=libaio, \
        iodepth=4\nfio-3.21\nmytest: (groupid=0, jobs=2): err= 0: pid=1: Sun May  1 19:29:21 2022\n  \
                    write: IOPS=300, BW=1200KiB/s \
        (1229kB/s)(211MiB/180001msec); 0 zone resets\n    slat (usec): min=8, max=5205, avg=36.09, \
                    stdev=22.69\n    clat (nsec): \
        min=4387, max=72564, avg=26220.23, stdev=6613.11\n     lat (usec): min=26, max=5218, avg=63.55, \
                    stdev=23.44\n    clat \
        percentiles (nsec):\n     |  1.00th=[19072],  5.00th=[20000], 99.00th=[50432],\n     | 99.99th=[72000]\n";

    #[test]
    fn a_direction_of_a_job_is_a_row() {
        let table = read(OUTPUT).expect("fio").expect("few cells");
        let cell = |heading: &str| {
            let at = table
                .headings
                .iter()
                .position(|own| own == heading)
                .unwrap_or_else(|| panic!("{heading} in {table:?}"));
            table.rows[0].1[at].clone()
        };
        assert_eq!(
            (cell("direction").as_str(), cell("size").as_str(), cell("in_flight").as_str()),
            ("write", "4096B", "8")
        );
        assert_eq!((cell("iops").as_str(), cell("KiB/s").as_str()), ("300", "1200"));
        assert_eq!(
            (cell("min_nsec").as_str(), cell("mean_nsec").as_str(), cell("99.99%_nsec").as_str()),
            ("4387", "26220.23", "72000")
        );
        assert_eq!(with_suffix("94396k"), "94396000");
        let [sum] = &*table.sums else { panic!("{:?}", table.sums) };
        let nanos = |figure: &NamedFigure| figure.figure.value;
        let parts: f64 = sum.parts.iter().map(nanos).sum();
        assert!(nanos(&sum.whole) == 63_550.0 && (parts - 62_310.23).abs() < 1e-6, "{sum:?}");
        assert_eq!(read("write: 5 of 6\n"), None);
    }
}
