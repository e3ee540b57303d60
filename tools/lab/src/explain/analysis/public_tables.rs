//! The audit held against tables that others published, and against tables made after the kinds of quirks
//! that their trackers have: the quirks have to be found, and tables without one have to pass. Each file
//! names its source.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::analyse;
use super::finding::{Finding, Section};
use super::input::Document;

/// The parts that have to be found, and that may be accused without reason.
const FOUND_MIN: f64 = 0.9;
const FALSE_MAX: f64 = 0.05;

/// The folders, and how many tables with and without a quirk each has at least: fewer prove nothing.
const FOLDERS: [(&str, usize, usize); 2] = [("public", 30, 10), ("made", 20, 8)];

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/audit").join(name)
}

/// What is expected of each table: nothing, or a rule and words of its sentence.
fn expected(name: &str) -> BTreeMap<String, Option<(String, String)>> {
    let text = fs::read_to_string(folder(name).join("expected.txt")).expect("the expectations");
    let line = |line: &str| {
        let mut words = line.splitn(3, ' ').map(str::to_owned);
        let (name, rule) = (words.next().expect("a table"), words.next().expect("a rule"));
        (name, words.next().map(|words| (rule, words)))
    };
    text.lines().filter(|line| !line.starts_with('#')).map(line).collect()
}

fn findings(folder_name: &str, name: &str) -> Vec<Finding> {
    let path = folder(folder_name).join(format!("{name}.toml"));
    analyse(&Document::read(&path).unwrap_or_else(|error| panic!("{name}: {error}")))
}

#[test]
fn quirks_are_found() {
    for (folder, quirks_min, _) in FOLDERS {
        let quirks: Vec<_> =
            expected(folder).into_iter().filter_map(|(name, expected)| Some((name, expected?))).collect();
        let found = |(name, (rule, words)): &&(String, (String, String))| {
            let mut findings = findings(folder, name).into_iter();
            findings.any(|finding| finding.rule == rule && finding.sentence.contains(words.as_str()))
        };
        let missed: Vec<_> = quirks.iter().filter(|quirk| !found(quirk)).collect();
        assert!(quirks.len() >= quirks_min, "{folder}: {}", quirks.len());
        let allowed = (1.0 - FOUND_MIN) * quirks.len() as f64;
        assert!((missed.len() as f64) <= allowed, "missed in {folder}: {missed:#?}");
    }
}

#[test]
fn tables_without_quirks_pass() {
    for (folder, _, plain_min) in FOLDERS {
        let plain: Vec<_> = expected(folder).into_iter().filter(|(_, expected)| expected.is_none()).collect();
        let accused: Vec<_> = plain
            .iter()
            .flat_map(|(name, _)| findings(folder, name).into_iter().map(move |finding| (name, finding)))
            .filter(|(_, finding)| matches!(finding.section, Section::Contradiction | Section::Caution))
            .collect();
        let mut names: Vec<_> = accused.iter().map(|(name, _)| name).collect();
        names.dedup();
        assert!(plain.len() >= plain_min, "{folder}: {}", plain.len());
        assert!((names.len() as f64) <= FALSE_MAX * plain.len() as f64, "accused in {folder}: {accused:#?}");
    }
}

#[test]
fn every_table_is_expected_to_say_something_or_nothing() {
    for (name, ..) in FOLDERS {
        let expected = expected(name);
        let files =
            fs::read_dir(folder(name)).expect("the tables").map(|entry| entry.expect("a file").path());
        let tables = files.filter(|path| path.extension().is_some_and(|extension| extension == "toml"));
        let names: Vec<_> =
            tables.map(|path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned()).collect();
        assert!(
            names.iter().all(|table| expected.contains_key(table)) && names.len() == expected.len(),
            "{name}"
        );
    }
}
