//! What C programs see, run as they are.

mod common;

use std::process::Command;

use common::{compile, succeed};

/// Transports that there always are.
const TRANSPORTS: [&str; 3] = ["ring+shm", "basic+udp", "homa+udp"];

#[test]
fn calls() {
    let program = compile("tests/c/calls.c", "calls", &[]);
    TRANSPORTS.iter().for_each(|transport| drop(succeed(Command::new(&program).arg(transport))));
}
