//! What C programs see, run as they are and under AddressSanitizer, over every transport that connects
//! processes here without a launcher's help.

mod common;

use std::process::Command;

use common::{compile, succeed};
use farcall::{Presence, TransportKind};

/// What finds mistakes in the use of memory, on the C side and where the library is given some.
const SANITIZED: [&str; 1] = ["-fsanitize=address,undefined"];

fn transports() -> impl Iterator<Item = TransportKind> {
    let is_here = |kind: &TransportKind| !matches!(kind.presence(), Some(Presence::Absent { .. }));
    let needs_nothing = |kind: &TransportKind| {
        let is_alone = *kind != TransportKind::MPI && !TransportKind::SECURED.contains(kind);
        is_alone && !kind.is_simulated()
    };
    TransportKind::every().filter(needs_nothing).filter(is_here)
}

/// Runs a program over every transport, and under the sanitizers over shared memory and over UDP.
fn run(name: &str) {
    let language = if name == "wrapper" { "cpp" } else { "c" };
    let source = format!("tests/c/{name}.{language}");
    let program = compile(&source, name, &[]);
    transports().for_each(|kind| drop(succeed(Command::new(&program).arg(kind.name()))));
    let sanitized = compile(&source, &format!("{name}-sanitized"), &SANITIZED);
    for transport in ["ring+shm", "basic+udp"] {
        succeed(Command::new(&sanitized).arg(transport));
    }
}

#[test]
fn calls() {
    run("calls");
}

#[test]
fn messages() {
    run("messages");
}

#[test]
fn names_and_deaths() {
    run("deaths");
}

#[test]
fn the_header_for_cpp() {
    run("wrapper");
}

#[test]
fn counters_and_parameters() {
    let flags = [SANITIZED.as_slice(), &[]];
    flags
        .iter()
        .for_each(|flags| drop(succeed(&mut Command::new(compile("tests/c/observe.c", "observe", flags)))));
}
