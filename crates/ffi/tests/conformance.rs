//! What C programs see, run as they are and under AddressSanitizer, over every transport that connects
//! processes here without a launcher's help.

mod common;

use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::places::free_address;
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

/// What finds mistakes in the use of memory without the compiler's help, and so on the library's side too.
const VALGRIND: [&str; 2] = ["--quiet", "--error-exitcode=99"];

/// Memory that nothing refers to any more is a mistake too. Not where a process is forked: what its other
/// threads referred to is lost in the copy.
const LEAKS: [&str; 3] =
    ["--leak-check=full", "--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"];

/// What valgrind ends a program with in which it has found a mistake.
const MISTAKE: i32 = 99;

/// Runs the ranks of a program under valgrind, where that is installed, over shared memory. It does not start
/// them by itself there: what is behind `/proc/self/exe` is valgrind.
fn run_under_valgrind(program: &Path, ranks: u32) {
    if let Err(error) = Command::new("valgrind").arg("--version").output() {
        return println!("unsupported: valgrind: {error}");
    }
    // Rank 0 serves the rendezvous there.
    let address = free_address();
    let start = |rank: u32| {
        let mut command = Command::new("valgrind");
        command
            .args(VALGRIND)
            .args(if ranks > 1 { &LEAKS[..] } else { &[] })
            .arg(program)
            .arg("ring+shm")
            .env("FARCALL_RENDEZVOUS", &address);
        command.env("FARCALL_RANK", rank.to_string()).env("FARCALL_SIZE", ranks.to_string());
        // It is slow, and is not to be taken for dead.
        command.env("FARCALL_ENDPOINT_PEER_TIMEOUT", "60s");
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it is installed")
    };
    let started: Vec<Child> = (0..ranks).map(start).collect();
    for (rank, child) in started.into_iter().enumerate() {
        let output = child.wait_with_output().expect("it was started");
        let said = String::from_utf8_lossy(&output.stderr);
        // Others than the first may have to die.
        let is_right =
            if rank == 0 { output.status.success() } else { output.status.code() != Some(MISTAKE) };
        assert!(is_right, "{}, rank {rank}: {}\n{said}", program.display(), output.status);
    }
}

/// Runs a program of so many ranks over every transport, under valgrind over shared memory, and under the
/// sanitizers over shared memory and over UDP.
fn run(name: &str, ranks: u32) {
    let language = if name == "wrapper" { "cpp" } else { "c" };
    let source = format!("tests/c/{name}.{language}");
    let program = compile(&source, name, &[]);
    transports().for_each(|kind| drop(succeed(Command::new(&program).arg(kind.name()))));
    run_under_valgrind(&program, ranks);
    let sanitized = compile(&source, &format!("{name}-sanitized"), &SANITIZED);
    for transport in ["ring+shm", "basic+udp"] {
        succeed(Command::new(&sanitized).arg(transport));
    }
}

#[test]
fn calls() {
    run("calls", 2);
}

#[test]
fn messages() {
    run("messages", 2);
}

#[test]
fn groups() {
    run("groups", 3);
}

#[test]
fn policies_and_callers() {
    run("policy", 2);
}

#[test]
fn names_and_deaths() {
    run("deaths", 1);
}

#[test]
fn the_header_for_cpp() {
    run("wrapper", 2);
}

#[test]
fn counters_and_parameters() {
    let flags = [SANITIZED.as_slice(), &[]];
    flags
        .iter()
        .for_each(|flags| drop(succeed(&mut Command::new(compile("tests/c/observe.c", "observe", flags)))));
}
