//! The audit held against tables that others published: quirks that somebody noticed have to be found, and
//! tables without one have to pass. Each file names its source.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::analyse;
use super::finding::{Finding, Section};
use super::input::Document;

/// The parts that have to be found, and that may be accused without reason.
const FOUND_MIN: f64 = 0.9;
const FALSE_MAX: f64 = 0.05;

/// Fewer tables than this prove nothing.
const QUIRKS_MIN: usize = 30;
const PLAIN_MIN: usize = 10;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/audit/public")
}

/// What is expected of each table: nothing, or a rule and words of its sentence.
fn expected() -> BTreeMap<String, Option<(String, String)>> {
    let text = fs::read_to_string(folder().join("expected.txt")).expect("the expectations");
    let line = |line: &str| {
        let mut words = line.splitn(3, ' ').map(str::to_owned);
        let (name, rule) = (words.next().expect("a table"), words.next().expect("a rule"));
        (name, words.next().map(|words| (rule, words)))
    };
    text.lines().filter(|line| !line.starts_with('#')).map(line).collect()
}

fn findings(name: &str) -> Vec<Finding> {
    let path = folder().join(format!("{name}.toml"));
    analyse(&Document::read(&path).unwrap_or_else(|error| panic!("{name}: {error}")))
}

#[test]
fn quirks_of_published_tables_are_found() {
    let quirks: Vec<_> =
        expected().into_iter().filter_map(|(name, expected)| Some((name, expected?))).collect();
    let found = |(name, (rule, words)): &&(String, (String, String))| {
        findings(name).iter().any(|finding| finding.rule == rule && finding.sentence.contains(words.as_str()))
    };
    let missed: Vec<_> = quirks.iter().filter(|quirk| !found(quirk)).collect();
    assert!(quirks.len() >= QUIRKS_MIN, "{}", quirks.len());
    assert!((missed.len() as f64) <= (1.0 - FOUND_MIN) * quirks.len() as f64, "missed: {missed:#?}");
}

#[test]
fn published_tables_without_quirks_pass() {
    let plain: Vec<_> = expected().into_iter().filter(|(_, expected)| expected.is_none()).collect();
    let accused: Vec<_> = plain
        .iter()
        .flat_map(|(name, _)| findings(name).into_iter().map(move |finding| (name, finding)))
        .filter(|(_, finding)| matches!(finding.section, Section::Contradiction | Section::Caution))
        .collect();
    let mut names: Vec<_> = accused.iter().map(|(name, _)| name).collect();
    names.dedup();
    assert!(plain.len() >= PLAIN_MIN, "{}", plain.len());
    assert!((names.len() as f64) <= FALSE_MAX * plain.len() as f64, "accused: {accused:#?}");
}

#[test]
fn every_table_is_expected_to_say_something_or_nothing() {
    let expected = expected();
    let files = fs::read_dir(folder()).expect("the tables").map(|entry| entry.expect("a file").path());
    let tables = files.filter(|path| path.extension().is_some_and(|extension| extension == "toml"));
    let names: Vec<_> =
        tables.map(|path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned()).collect();
    assert!(names.iter().all(|name| expected.contains_key(name)) && names.len() == expected.len());
}
