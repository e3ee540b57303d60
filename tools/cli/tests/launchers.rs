//! The workloads at ranks that real launchers start. A launcher that is not installed is named.

mod common;

use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use common::ranks::workloads;

/// Launchers have the machine one after the other.
static LAUNCHER: Mutex<()> = Mutex::new(());

/// Runs the program at `ranks` ranks; `None` where there is no such launcher.
fn launch(launcher: &[&str], ranks: usize, arguments: &[String]) -> Option<Output> {
    let _launcher = LAUNCHER.lock().unwrap_or_else(PoisonError::into_inner);
    let mut command = Command::new(launcher[0]);
    command.args(&launcher[1..]).args(["-n", &ranks.to_string()]);
    command.arg(env!("CARGO_BIN_EXE_farcall")).args(arguments).arg("--quiet");
    for of in ["OMPI", "PRTE"] {
        command.env(format!("{of}_ALLOW_RUN_AS_ROOT"), "1");
        command.env(format!("{of}_ALLOW_RUN_AS_ROOT_CONFIRM"), "1");
    }
    match command.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("unsupported: there is no {}", launcher[0]);
            None
        }
        output => Some(output.expect("the launcher runs")),
    }
}

/// Runs every workload; rank 0 alone prints a table.
fn runs_everything(launcher: &[&str]) {
    for arguments in workloads(3, "1") {
        let Some(output) = launch(launcher, 3, &arguments) else { return };
        let (text, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{launcher:?} {arguments:?}: {said}");
        let headings =
            text.lines().filter(|line| line.starts_with("# ") && line.contains("basic+udp")).count();
        let rows = text.lines().filter(|line| line.starts_with("basic+udp")).count();
        assert_eq!(headings + rows, 1, "{arguments:?}: {text}");
    }
}

#[test]
fn every_workload_runs_under_mpirun_of_open_mpi() {
    runs_everything(&["mpirun", "--oversubscribe"]);
}

#[test]
fn every_workload_runs_under_mpirun_of_mpich() {
    runs_everything(&["mpirun.mpich"]);
}

#[test]
fn every_workload_runs_under_prterun() {
    // Where no distribution has it, `scripts/prepare` puts it here.
    let own = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("prrte/bin/prterun");
    let program = if own.exists() { own.to_str().expect("a path of text") } else { "prterun" };
    runs_everything(&[program, "--map-by", ":OVERSUBSCRIBE"]);
}

#[test]
fn a_usage_error_is_said_once() {
    let arguments = ["perf", "echo", "--bogus"].map(str::to_owned);
    let Some(output) = launch(&["mpirun", "--oversubscribe"], 3, &arguments) else { return };
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert_eq!(said.matches("there is no option `--bogus`").count(), 1, "{said}");
}

#[test]
fn hosts_are_given_to_the_launcher_that_is_installed() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_farcall"));
    command.args([
        "perf",
        "echo",
        "--hosts",
        "localhost,localhost",
        "--transport",
        "basic+udp",
        "--sizes",
        "100",
    ]);
    let output = command.args(["--count", "100", "--quiet"]).output().expect("the program runs");
    let (text, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if said.contains("is installed") {
        return println!("unsupported: {said}");
    }
    assert!(output.status.success(), "{said}");
    assert_eq!(text.lines().filter(|line| line.starts_with("echoBw100 ")).count(), 1, "{text}");
}
