//! Figures of farcall beside those of ping and iperf3 over the same link: that both are there. What they are
//! says `scripts/agreement` to its reader.

use std::path::Path;
use std::process::Command;

/// The exit status of the script where something that it needs is missing.
const UNSUPPORTED: i32 = 3;

#[test]
fn figures_stand_beside_those_of_ping_and_iperf3() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/agreement");
    let mut command = Command::new(script);
    let output = command.args(["--seconds", "0.1", "--rounds", "1", env!("CARGO_BIN_EXE_farcall")]).output();
    let output = match output {
        Ok(output) => output,
        Err(error) => return println!("unsupported: the script cannot be run ({error})"),
    };
    let (text, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.code() == Some(UNSUPPORTED) || said.contains("Operation not permitted") {
        return println!("unsupported: {said}");
    }
    assert!(output.status.success(), "{said}");
    let found: Vec<(&str, f64)> = text.lines().map(row).collect();
    let names: Vec<&str> = found.iter().map(|row| row.0).collect();
    assert_eq!(names, ["ping", "basic+udp", "tcp", "iperf3", "basic+udp", "tcp"], "{text}");
    assert!(found.iter().all(|row| row.1 > 0.0 && row.1.is_finite()), "{text}");
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
