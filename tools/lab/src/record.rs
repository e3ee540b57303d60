//! One JSON object for each line of a result, as docs/results.md describes them.

use std::io::{self, Write};

use farcall_base::is_printable;
use serde::Serialize;
use serde_json::ser::Formatter;
use serde_json::{Map, Value};

/// The version of the records. It goes up when a field changes its name, its unit or its meaning.
pub const SCHEMA: &str = "farcall.result.v1";

/// One figure, as [`Figure::record`] makes it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Record {
    /// [`SCHEMA`].
    schema: &'static str,
    /// The command that measured it, such as `perf`.
    pub command: &'static str,
    /// The test, such as `echo`.
    pub test: String,
    /// The transport, or the name of the limit or peer that stands in its place.
    pub transport: String,
    /// The name of the row that shows it, such as `echo100.99`.
    pub name: String,
    /// The figure.
    pub value: f64,
    /// Its unit.
    pub unit: Unit,
    /// What the figure says of its samples.
    pub statistic: Statistic,
    /// How many samples it rests on.
    pub samples: u64,
    /// How many operations were in flight at a time, all clients together.
    pub in_flight: u64,
    /// What the command adds.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// What the figures of a measurement have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin<'a> {
    /// The command that measured them.
    pub command: &'static str,
    /// The test.
    pub test: &'a str,
    /// The transport, or the name of what stands in its place.
    pub transport: &'a str,
    /// How many samples they rest on.
    pub samples: u64,
    /// How many operations were in flight at a time, all clients together.
    pub in_flight: u64,
}

/// A value with its name, its unit and what it says of its samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The name of the row that shows it.
    pub name: String,
    /// The value, in the unit.
    pub value: f64,
    /// Its unit.
    pub unit: Unit,
    /// What it says of its samples.
    pub statistic: Statistic,
}

impl Figure {
    /// A figure.
    pub fn new(name: impl Into<String>, value: f64, unit: Unit, statistic: Statistic) -> Self {
        Self { name: name.into(), value, unit, statistic }
    }

    /// Its record, with the fields that its command adds.
    pub fn record<N: Into<String>>(
        self,
        origin: Origin<'_>,
        more: impl IntoIterator<Item = (N, Value)>,
    ) -> Record {
        let Self { name, value, unit, statistic } = self;
        let Origin { command, test, transport, samples, in_flight } = origin;
        Record {
            schema: SCHEMA,
            command,
            test: test.to_owned(),
            transport: transport.to_owned(),
            name,
            value,
            unit,
            statistic,
            samples,
            in_flight,
            more: more.into_iter().map(|(name, value)| (name.into(), value)).collect(),
        }
    }
}

impl Record {
    /// The same with more fields.
    pub fn with<N: Into<String>>(mut self, more: impl IntoIterator<Item = (N, Value)>) -> Self {
        self.more.extend(more.into_iter().map(|(name, value)| (name.into(), value)));
        self
    }
}

/// The units of figures. Records use base units only; tables convert for the eye.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Unit {
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Bytes of payload per second.
    #[serde(rename = "B/s")]
    BytesPerSecond,
    /// Calls or messages per second.
    #[serde(rename = "1/s")]
    PerSecond,
    /// One figure over another.
    #[serde(rename = "1")]
    Ratio,
    /// Events that a counter counted; the counter's own unit.
    #[serde(untagged)]
    Counted(String),
}

/// What a figure says of its samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Statistic {
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
    /// The mean without the shortest and longest tenth.
    TrimmedMean,
    /// Everything moved over the wall-clock time of the test.
    OverWallClock,
    /// The median of the blocks' figures, or the ratio of two such medians.
    MedianOfBlocks,
    /// The geometric mean of the figures of all blocks, or of their ratios.
    GeometricMean,
    /// What the share of samples that the record names did not exceed.
    Quantile,
    /// How many there have been.
    Count,
}

/// JSON on one line, in which text of others cannot control a terminal: what is not printable is escaped,
/// which means the same.
struct Printable;

impl Formatter for Printable {
    fn write_string_fragment<W: Write + ?Sized>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        let mut units = [0; 2];
        let mut rest = fragment;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| !is_printable(*c)) {
            out.write_all(&rest.as_bytes()[..at])?;
            c.encode_utf16(&mut units).iter().try_for_each(|unit| write!(out, "\\u{unit:04x}"))?;
            rest = &rest[at + c.len_utf8()..];
        }
        out.write_all(rest.as_bytes())
    }
}

/// Writes records, one a line.
pub struct RecordWriter<W> {
    out: W,
}

impl<W: Write> RecordWriter<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> Self {
        Self { out }
    }

    /// Writes one record and its line end, and passes them on at once: a reader sees whole lines while a long
    /// command is still running.
    pub fn write(&mut self, record: &impl Serialize) -> io::Result<()> {
        let mut serializer = serde_json::Serializer::with_formatter(&mut self.out, Printable);
        record.serialize(&mut serializer)?;
        self.out.write_all(b"\n")?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let origin =
            Origin { command: "perf", test: "echo", transport: "ring+shm", samples: 10_000, in_flight: 1 };
        let figure = Figure::new("echo100.99", 131.5, Unit::Nanoseconds, Statistic::P99);
        figure.record(origin, [("size_bytes", 100.into())])
    }

    #[test]
    fn a_record_is_one_line_with_the_documented_fields_in_order() {
        let mut out = Vec::new();
        let mut writer = RecordWriter::new(&mut out);
        writer.write(&record()).expect("memory takes everything");
        writer.write(&record()).expect("memory takes everything");
        let text = String::from_utf8(out).expect("JSON is UTF-8");
        let line = r#"{"schema":"farcall.result.v1","command":"perf","test":"echo","transport":"ring+shm","name":"echo100.99","value":131.5,"unit":"ns","statistic":"p99","samples":10000,"in_flight":1,"size_bytes":100}"#;
        assert_eq!(text, format!("{line}\n{line}\n"));
    }

    #[test]
    fn what_is_not_printable_is_escaped_and_read_back_as_it_was() {
        let hostile = "\u{9b}2J \u{202e}exe\u{200b} \u{e0041} \x1b]0;t\x07 \"ü\"";
        let mut out = Vec::new();
        RecordWriter::new(&mut out).write(&serde_json::json!({ hostile: hostile })).expect("memory");
        let text = String::from_utf8(out).expect("JSON is UTF-8");
        assert!(text.trim_end_matches('\n').chars().all(is_printable), "{text:?}");
        let read: Value = serde_json::from_str(&text).expect("it is JSON");
        assert_eq!(read[hostile], hostile);
    }

    #[test]
    fn the_documentation_names_every_field_unit_and_statistic() {
        let documentation = include_str!("../../../docs/results.md");
        let value = serde_json::to_value(record()).expect("a record is JSON");
        let fields = value.as_object().expect("a record is an object").keys().cloned();
        let units = [Unit::Nanoseconds, Unit::BytesPerSecond, Unit::PerSecond, Unit::Ratio]
            .map(|unit| serde_json::json!(unit));
        use Statistic::*;
        let statistics = [
            Min,
            P50,
            P90,
            P99,
            P999,
            Max,
            Mean,
            TrimmedMean,
            OverWallClock,
            MedianOfBlocks,
            GeometricMean,
            Quantile,
        ]
        .map(|s| serde_json::json!(s));
        let words = units.into_iter().chain(statistics).map(|word| word.as_str().expect("a word").to_owned());
        for word in fields.chain(words).chain([SCHEMA.to_owned()]) {
            assert!(
                documentation.contains(&format!("`{word}`")),
                "docs/results.md does not say what `{word}` is"
            );
        }
    }
}
