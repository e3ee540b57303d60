//! The examples describe what they mean to, and the tunings that are kept with their journals still say what
//! was found, whatever has become of the search since.

use std::fs;
use std::path::Path;
use std::process::Command;

/// The line about the trials, and those about the confirmation: figures that no fit stands between.
fn figures(report: &str) -> Vec<&str> {
    let first = report.lines().take(1);
    first.chain(report.lines().filter(|line| line.starts_with("confirmed "))).collect()
}

#[test]
fn kept_journals_come_to_their_reports() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/tuning/results");
    let copies = std::env::temp_dir().join(format!("farcall-kept-{}", std::process::id()));
    let mut tunings = 0;
    for tuning in fs::read_dir(&kept).expect("there are some") {
        let tuning = tuning.expect("it can be read").path();
        let copy = copies.join(tuning.file_name().expect("it has a name"));
        fs::create_dir_all(&copy).expect("it can be made");
        for name in ["journal.jsonl", "experiment.toml"] {
            fs::copy(tuning.join(name), copy.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_farcall"));
        let output = command.args(["tune", "report"]).arg(&copy).output().expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let (found, report) = (
            String::from_utf8_lossy(&output.stdout).into_owned(),
            fs::read_to_string(tuning.join("report.txt")).expect("there is a report"),
        );
        assert_eq!(figures(&found), figures(&report), "{}", tuning.display());
        assert!(figures(&report).len() > 1, "there was a confirmation");
        tunings += 1;
    }
    assert!(tunings >= 2);
    fs::remove_dir_all(&copies).expect("the copies can go");
}

#[test]
fn every_example_describes_a_space() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/tuning");
    let paths =
        fs::read_dir(&examples).expect("there are some").map(|entry| entry.expect("it can be read").path());
    let described = paths.filter(|path| {
        path.extension().is_some_and(|extension| extension == "toml" || extension == "params")
    });
    let mut spaces = 0;
    for path in described {
        let mut command = Command::new(env!("CARGO_BIN_EXE_farcall"));
        let output = command.arg("tune").arg(&path).arg("--dry-run").output().expect("it starts");
        assert!(output.status.success(), "{}: {}", path.display(), String::from_utf8_lossy(&output.stderr));
        spaces += 1;
    }
    assert!(spaces >= 10, "{spaces}");
}
