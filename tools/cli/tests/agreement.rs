//! Figures of farcall beside those of ping and iperf3 over the same link, and measured shuffles beside
//! simulated ones: that both are there. What they are say `scripts/agreement` and `scripts/predict` to their
//! readers.

use std::path::Path;
use std::process::Command;

/// The exit status of the script where something that it needs is missing.
const UNSUPPORTED: i32 = 3;

/// What a script prints; none where something that it needs is missing.
fn printed(script: &str, arguments: &[&str]) -> Option<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts").join(script);
    let output = match Command::new(script).args(arguments).arg(env!("CARGO_BIN_EXE_farcall")).output() {
        Ok(output) => output,
        Err(error) => {
            println!("unsupported: the script cannot be run ({error})");
            return None;
        }
    };
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(UNSUPPORTED) || said.contains("Operation not permitted") {
        println!("unsupported: {said}");
        return None;
    }
    assert!(output.status.success(), "{said}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn figures_stand_beside_those_of_ping_and_iperf3() {
    let Some(text) = printed("agreement", &["--seconds", "0.1", "--rounds", "1"]) else { return };
    let found: Vec<(&str, f64)> = text.lines().map(row).collect();
    let names: Vec<&str> = found.iter().map(|row| row.0).collect();
    assert_eq!(names, ["ping", "basic+udp", "tcp", "iperf3", "basic+udp", "tcp"], "{text}");
    assert!(found.iter().all(|row| row.1 > 0.0 && row.1.is_finite()), "{text}");
}

#[test]
fn measured_shuffles_stand_beside_those_simulated_on_a_profile_of_their_link() {
    let Some(text) = printed("predict", &["--hosts", "3", "--count", "4", "--sizes", "1000,16000"]) else {
        return;
    };
    let heading = text.lines().position(|line| line.contains("simulated")).expect("a table");
    let rows: Vec<Vec<&str>> =
        text.lines().skip(heading + 1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows.iter().map(|row| row[0]).collect::<Vec<_>>(), ["1000", "16000"], "{text}");
    for row in rows {
        let [measured, simulated] = [row[1], row[2]].map(|micros| micros.parse::<f64>().expect("a number"));
        let off: f64 = row[3].trim_end_matches('%').parse().expect("a part in percent");
        assert!(measured > 0.0 && simulated > 0.0, "{text}");
        assert!((off - (simulated / measured - 1.0) * 100.0).abs() <= 1.0 + 0.2 * off.abs(), "{text}");
    }
}

/// What a line is of, and its value.
fn row(line: &str) -> (&str, f64) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (name, value) = match words[..] {
        ["round", "trip", name, value, ..] | ["stream", name, value, ..] => (name, value),
        _ => panic!("`{line}` is no row"),
    };
    (name, value.parse().expect("a number"))
}
