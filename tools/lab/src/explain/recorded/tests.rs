//! What was written is read; what is not a run is refused in one sentence; and differences are found.

use std::fs;
use std::path::PathBuf;

use super::*;
use crate::explain::analysis::analyse;
use crate::record::{Figure, Origin, Record, Statistic, Unit};

/// A folder of this test process that is removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("farcall-run-{}-{name}", std::process::id()));
        assert!(!path.exists(), "{} is left over", path.display());
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

fn record(name: &str, value: f64, statistic: Statistic, size: u64) -> Record {
    let origin = Origin { command: "perf", test: "echo", transport: "ring+sim", samples: 1000, in_flight: 1 };
    Figure::new(name, value, Unit::Nanoseconds, statistic).record(origin, [("size_bytes", size.into())])
}

fn run() -> Run {
    Run::begin(vec!["perf".to_owned()], 7, vec!["endpoint.idle=spin".to_owned()])
}

fn recorded(value: f64) -> RecordedRun {
    let line = serde_json::to_string(&record("echo100", value, Statistic::P50, 100)).expect("JSON");
    parse("r", &serde_json::to_string(&run()).expect("JSON"), &line).expect("a run")
}

#[test]
fn a_recorded_run_is_read_as_it_was_written() {
    let folder = Folder::new("whole");
    let mut writing = RunFolder::create(&folder.0, run()).expect("a new folder");
    writing.record(&record("echo100", 1500.0, Statistic::P50, 100)).expect("a writable file");
    assert_eq!(RecordedRun::read(&folder.0).expect("a run").run.window_seconds, None);
    writing.end().expect("a writable file");
    let read = RecordedRun::read(&folder.0).expect("a run");
    assert!(read.run.window_seconds.is_some_and(|seconds| seconds >= 0.0));
    assert_eq!((read.figures.len(), read.figures[0].value), (1, 1500.0));
    assert_eq!((read.run.seed, read.run.parameters), (7, vec!["endpoint.idle=spin".to_owned()]));
}

#[test]
fn a_run_is_never_written_over_another() {
    let folder = Folder::new("twice");
    RunFolder::create(&folder.0, run()).expect("a new folder");
    assert!(matches!(RunFolder::create(&folder.0, run()), Err(WriteError::NotEmpty(_))));
}

#[test]
fn what_is_no_run_gets_one_sentence() {
    let refusal = |run: &str, results: &str| parse("r", run, results).expect_err("no run").to_string();
    assert_eq!(
        refusal(r#"{"schema":"farcall.run.v9"}"#, ""),
        "run r: run.json is of version `farcall.run.v9`, and this program reads `farcall.run.v1`"
    );
    assert!(refusal("{", "").starts_with("run r: run.json is not one of this program: "));
    assert!(refusal("[]", "").contains("version `none`"));
    let good = serde_json::to_string(&run()).expect("JSON");
    let ended = serde_json::to_string(&Run { window_seconds: Some(1.0), ..run() }).expect("JSON");
    assert!(refusal(&ended, "{\"sch").starts_with("run r: line 1 of results.jsonl is not a record: "));
    assert!(refusal(&good, "{\"schema\":\"x\"}\n").contains("results.jsonl is of version `x`"));
    assert!(parse("r", &good, "{\"sch").is_ok_and(|run| run.figures.is_empty()), "a run that was killed");
}

#[test]
fn recorded_figures_go_through_the_same_laws() {
    let mut read = recorded(1500.0);
    let figure = |name: &str, value, statistic: &str| RecordedFigure {
        name: name.to_owned(),
        value,
        statistic: statistic.to_owned(),
        ..read.figures[0].clone()
    };
    let more = [figure("echo100.99", 1200.0, "p99"), figure("echo100.min", 1000.0, "min")];
    read.figures.extend(more);
    let findings = analyse(&document(&[read]));
    assert!(findings.iter().any(|finding| finding.rule == "quantiles_fall"), "{findings:#?}");
}

#[test]
fn differences_are_decided_by_pairs_of_runs() {
    let many = |value: f64| (0..8).map(|i| recorded(value + f64::from(i % 3))).collect::<Vec<_>>();
    let verdict = |before: &[RecordedRun], after: &[RecordedRun]| diff(before, after, 1).cells[0].verdict();
    assert_eq!(verdict(&many(1000.0), &many(1100.0)), "worse");
    assert_eq!(verdict(&many(1100.0), &many(1000.0)), "better");
    assert_eq!(verdict(&many(1000.0), &many(1001.0)), "same");
    assert_eq!(verdict(&many(1000.0)[..1], &many(1100.0)[..1]), "undecided");
    let mut other = recorded(1.0);
    other.run.parameters.push("ring.ring_bytes=4K".to_owned());
    let environment = diff(&[recorded(1.0)], &[other], 1).environment;
    assert_eq!(environment.iter().map(|(name, ..)| name.as_str()).collect::<Vec<_>>(), ["parameters"]);
}

/// A run with these parameters, and a figure of each of these commands and transports.
fn with(name: &str, parameters: &[&str], figures: &[(&'static str, &str)]) -> RecordedRun {
    let run = Run { parameters: parameters.iter().map(|&text| text.to_owned()).collect(), ..run() };
    let line = |(command, transport): &(&'static str, &str)| {
        let mut record = record("echo100", 1500.0, Statistic::P50, 100);
        (record.command, record.transport) = (command, (*transport).to_owned());
        serde_json::to_string(&record).expect("JSON") + "\n"
    };
    let lines: String = figures.iter().map(line).collect();
    parse(name, &serde_json::to_string(&run).expect("JSON"), &lines).expect("a run")
}

#[test]
fn a_change_is_told_from_rows_of_one_transport() {
    let before = with("a", &[], &[("perf", "ring+sim"), ("perf", "homa+sim")]);
    let after = with("b", &["x=1"], &[("perf", "basic+sim"), ("perf", "ring+sim")]);
    let document = document(&[before, after]);
    let [comparison] = &*document.comparisons else { panic!("not one: {:#?}", document.comparisons) };
    assert_eq!(comparison.change, "x=1");
    for (side, configuration) in [(&comparison.before, "a"), (&comparison.after, "b")] {
        assert_eq!(side["transport"], "ring+sim");
        assert_eq!(side["configuration"], configuration);
    }
}

#[test]
fn runs_of_different_commands_are_no_configurations_of_each_other() {
    let runs = [with("a", &[], &[("perf", "ring+sim")]), with("b", &["x=1"], &[("msgrate", "ring+sim")])];
    let document = document(&runs);
    assert!(document.comparisons.is_empty());
    assert!(
        document
            .tables
            .iter()
            .flat_map(|table| &table.rows)
            .all(|row| !row.labels.contains_key("configuration"))
    );
}

/// A run of `command` with a time for each of these regimes, all of one name.
fn in_regimes(command: &'static str, times: &[(&str, f64)]) -> RecordedRun {
    let line = |&(regime, value): &(&str, f64)| {
        let mut record = record("futures.8x10.time", value, Statistic::P50, 100);
        record.command = command;
        record.more.insert("regime".to_owned(), regime.into());
        serde_json::to_string(&record).expect("JSON") + "\n"
    };
    let lines: String = times.iter().map(line).collect();
    parse("run", &serde_json::to_string(&run()).expect("JSON"), &lines).expect("a run")
}

#[test]
fn figures_of_different_regimes_are_never_compared() {
    let before = in_regimes("msgrate", &[("near", 30.0), ("far", 100.0)]);
    let after = in_regimes("msgrate", &[("far", 200.0), ("near", 30.0)]);
    let mut ratios: Vec<f64> =
        diff(&[before], &[after], 1).cells.iter().map(|cell| cell.ratio.ratio).collect();
    ratios.sort_by(f64::total_cmp);
    assert_eq!(ratios, [1.0, 2.0], "near with near, far with far");
    let only = |regime| in_regimes("compare", &[(regime, 30.0)]);
    let difference = diff(&[only("near")], &[only("far")], 1);
    assert_eq!((difference.cells.len(), difference.unmatched), (0, 2));
    let document = document(&[in_regimes("msgrate", &[("near", 30.0), ("far", 100.0)])]);
    let cores: Vec<_> = document.tables[0].rows.iter().map(|row| row.labels["cores"].clone()).collect();
    assert_eq!(cores, ["far", "near"], "two rows, and not one with two figures");
}
