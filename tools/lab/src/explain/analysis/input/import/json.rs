//! What programs write as JSON: fio with `--output-format=json`, iperf3 with `--json`.

use serde_json::Value;

use super::{Imported, Row, table};

/// The directions of a job of fio.
const DIRECTIONS: [&str; 3] = ["read", "write", "trim"];

/// The object in a text; fio writes warnings in front of it.
fn object(text: &str) -> Option<Value> {
    let begins = |line: &str| line.trim_start().starts_with('{');
    let before: usize = text.split_inclusive('\n').take_while(|line| !begins(line)).map(str::len).sum();
    let mut values = serde_json::Deserializer::from_str(&text[before..]).into_iter::<Value>();
    values.next()?.ok().filter(Value::is_object)
}

/// A number as it was written.
fn number(value: Option<&Value>) -> Option<String> {
    value.filter(|value| value.is_number()).map(Value::to_string)
}

/// fio: one row for each job and direction in which it did something.
pub fn fio(text: &str) -> Option<Imported> {
    let all = object(text)?;
    all.get("fio version")?;
    let jobs = all.get("jobs")?.as_array()?;
    let rows = jobs.iter().zip(1..).flat_map(|(job, place)| fio_rows(&all, job, place)).collect::<Vec<_>>();
    let readings = ["each job has as much in flight as its I/O depth", "times are completion latencies"];
    (!rows.is_empty()).then(|| table(rows, &readings))
}

fn fio_rows(all: &Value, job: &Value, place: usize) -> Vec<Row> {
    let option = |name: &str| {
        let of = |options: &str, from: &Value| from.get(options)?.get(name)?.as_str().map(str::to_owned);
        of("job options", job).or_else(|| of("global options", all))
    };
    let depth = option("iodepth").map_or(Some(1), |depth| depth.parse::<u64>().ok());
    let jobs = match option("group_reporting") {
        Some(_) => option("numjobs").map_or(Some(1), |jobs| jobs.parse::<u64>().ok()),
        None => Some(1),
    };
    let in_flight = depth.zip(jobs).and_then(|(depth, jobs)| depth.checked_mul(jobs));
    let size = option("bs").filter(|size| !size.contains(['-', ',', '/', ':']));
    let did_something = |direction: &&&str| {
        job.get(**direction).and_then(|of| of.get("total_ios")?.as_u64()).is_some_and(|count| count > 0)
    };
    let directions: Vec<_> = DIRECTIONS.iter().filter(did_something).collect();
    let row = |direction: &&&str| {
        let of = &job[**direction];
        let mut row = Row::at(place);
        row.set("job", job.get("jobname").and_then(Value::as_str));
        row.set("direction", Some(**direction));
        row.set("size", size.as_deref());
        // What is in flight belongs to all directions together.
        if directions.len() == 1 {
            row.set("in_flight", in_flight.map(|number| number.to_string()).as_deref());
        }
        let figures = [
            ("samples", "total_ios"),
            ("runtime_ms", "runtime"),
            ("moved_bytes", "io_bytes"),
            ("iops", "iops"),
            ("B/s", "bw_bytes"),
        ];
        figures.iter().for_each(|(heading, field)| row.set(heading, number(of.get(field)).as_deref()));
        if let Some(times) = of.get("clat_ns") {
            let times_of =
                [("min_ns", "min"), ("mean_ns", "mean"), ("stdev_ns", "stddev"), ("max_ns", "max")];
            times_of
                .iter()
                .for_each(|(heading, field)| row.set(heading, number(times.get(field)).as_deref()));
            let percentiles = times.get("percentile").and_then(Value::as_object);
            for (share, value) in percentiles.into_iter().flatten() {
                row.set(&format!("{share}%_ns"), number(Some(value)).as_deref());
            }
        }
        row
    };
    directions.iter().map(row).collect()
}

/// What is taken of a stream of iperf3: the heading, and the name of the field.
const IPERF_FIELDS: [(&str, &str); 3] =
    [("seconds", "seconds"), ("moved_bytes", "bytes"), ("bps", "bits_per_second")];

/// iperf3: one row for each stream, and one for all, at the sender and at the receiver.
pub fn iperf(text: &str) -> Option<Imported> {
    let all = object(text)?;
    let end = all.get("end")?;
    all.get("start")?.get("test_start")?;
    let streams = end.get("streams")?.as_array()?;
    let mut rows = Vec::new();
    for (side, sum) in [("sender", "sum_sent"), ("receiver", "sum_received")] {
        for (stream, number) in streams.iter().zip(1_usize..) {
            let of = stream.get(side).or_else(|| stream.get("udp").filter(|_| side == "sender"));
            rows.extend(of.map(|of| iperf_row(rows.len() + 1, side, &format!("stream {number}"), of)));
        }
        let whole = end.get(sum).or_else(|| end.get("sum").filter(|_| side == "sender"));
        // The sum of one stream is that stream again.
        let alone = streams.first().filter(|_| streams.len() == 1).and_then(|stream| stream.get(side));
        let whole = whole.filter(|of| {
            IPERF_FIELDS.iter().any(|(_, field)| alone.map(|one| &one[field]) != Some(&of[field]))
        });
        rows.extend(whole.map(|of| iperf_row(rows.len() + 1, side, "total", of)));
    }
    (!rows.is_empty()).then(|| table(rows, &[]))
}

fn iperf_row(line: usize, side: &str, series: &str, of: &Value) -> Row {
    let mut row = Row::at(line);
    row.set("side", Some(side));
    row.set("series", Some(series));
    for (heading, field) in IPERF_FIELDS {
        row.set(heading, number(of.get(field)).as_deref());
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::analysis::input::text::TextTable;

    fn cell<'a>(table: &'a TextTable, row: usize, heading: &str) -> &'a str {
        let at = table.headings.iter().position(|own| own == heading);
        &table.rows[row].1[at.unwrap_or_else(|| panic!("{heading} in {table:?}"))]
    }

    const FIO: &str = r#"fio: a warning
{"fio version": "fio-3.33", "global options": {"bs": "4k", "iodepth": "8"}, "jobs": [{"jobname": "a",
"job options": {"rw": "randread"}, "read": {"io_bytes": 409600, "bw_bytes": 40960, "iops": 10.0, "runtime": 10000,
"total_ios": 100, "clat_ns": {"min": 5, "max": 900, "mean": 70.5, "stddev": 3.25,
"percentile": {"50.000000": 70, "99.000000": 300}}}, "write": {"total_ios": 0}}]}"#;

    #[test]
    fn a_direction_of_a_job_of_fio_is_a_row() {
        let table = fio(FIO).expect("fio").expect("few cells");
        assert_eq!(table.rows.len(), 1);
        let read = |heading: &str| cell(&table, 0, heading).to_owned();
        assert_eq!(
            (read("direction"), read("size"), read("in_flight")),
            ("read".into(), "4k".into(), "8".into())
        );
        assert_eq!(
            (read("iops"), read("B/s"), read("samples")),
            ("10.0".into(), "40960".into(), "100".into())
        );
        assert_eq!((read("mean_ns"), read("99.000000%_ns")), ("70.5".into(), "300".into()));
        assert_eq!(fio("{\"jobs\": []}"), None);
    }

    #[test]
    fn streams_and_sums_of_iperf3_are_rows_of_each_side() {
        let text = r#"{"start": {"test_start": {"num_streams": 1}}, "intervals": [], "end": {"streams": [{
            "sender": {"seconds": 2.0, "bytes": 500, "bits_per_second": 2000.0},
            "receiver": {"seconds": 2.0, "bytes": 400, "bits_per_second": 1600.0}}],
            "sum_sent": {"seconds": 2.0, "bytes": 500, "bits_per_second": 2000.0},
            "sum_received": {"seconds": 2.0, "bytes": 400, "bits_per_second": 1600.0}}}"#;
        let table = iperf(text).expect("iperf3").expect("few cells");
        assert_eq!(table.headings, ["side", "series", "seconds", "moved_bytes", "bps"]);
        let series = |table: &TextTable| {
            (0..table.rows.len()).map(|row| cell(table, row, "series").to_owned()).collect::<Vec<_>>()
        };
        // The sum of one stream is left out where it says the same.
        assert_eq!(series(&table), ["stream 1", "stream 1"]);
        let other = text.replace(
            "\"sum_sent\": {\"seconds\": 2.0, \"bytes\": 500",
            "\"sum_sent\": {\"seconds\": 2.0, \"bytes\": 600",
        );
        let table = iperf(&other).expect("iperf3").expect("few cells");
        assert_eq!(series(&table), ["stream 1", "total", "stream 1"]);
        assert_eq!(iperf("{\"end\": 5}"), None);
    }

    #[test]
    fn what_is_no_object_is_left_alone() {
        for text in ["", "{", "[1]", "{\"fio version\": 1", "x\n{}"] {
            assert_eq!((fio(text), iperf(text)), (None, None), "{text}");
        }
    }
}
