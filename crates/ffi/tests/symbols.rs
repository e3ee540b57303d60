//! The symbols of the library are those of the list, and each has a use in a program that the tests run.
//!
//! `FARCALL_TEST_WRITE_SYMBOLS=1 cargo test -p farcall-ffi --test symbols` writes the list. What is in it
//! stays: programs are linked with it.

mod common;

use std::collections::BTreeSet;
use std::process::Command;

use common::{crate_folder, library, succeed};

/// Every line that a C program of the tests and examples has.
fn programs() -> String {
    let mut text = String::new();
    for folder in ["tests/c", "include", "../../examples/c"] {
        for entry in std::fs::read_dir(crate_folder().join(folder)).expect("the folder is there") {
            let path = entry.expect("it can be read").path();
            if path.file_name().is_some_and(|name| name != "farcall.h") {
                text += &std::fs::read_to_string(path).expect("sources are text");
            }
        }
    }
    text
}

#[test]
fn exported_symbols_are_listed() {
    let output = succeed(Command::new("nm").args(["-D", "--defined-only", "-f", "posix"]).arg(library()));
    let text = String::from_utf8(output.stdout).expect("names are text");
    let exported: BTreeSet<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    let path = crate_folder().join("symbols.txt");
    if std::env::var_os("FARCALL_TEST_WRITE_SYMBOLS").is_some() {
        let lines: String = exported.iter().map(|name| format!("{name}\n")).collect();
        std::fs::write(&path, lines).expect("the list can be written");
    }
    let text = std::fs::read_to_string(&path).expect("the list is there");
    let listed: BTreeSet<&str> = text.lines().collect();
    assert_eq!(exported, listed, "what the library exports, and what is listed");
    assert!(listed.iter().all(|name| name.starts_with("farcall_")), "{listed:?}");
}

#[test]
fn every_function_is_used_by_a_program() {
    let (programs, header) = (programs(), std::fs::read_to_string(crate_folder().join("include/farcall.h")));
    let header = header.expect("the header is there");
    let text = std::fs::read_to_string(crate_folder().join("symbols.txt")).expect("the list is there");
    let uses = |text: &str, name: &str| {
        let call = format!("{name}(");
        text.match_indices(&call)
            .any(|(at, _)| !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
    };
    for name in text.lines() {
        assert!(uses(&header, name), "farcall.h declares no {name}");
        assert!(uses(&programs, name), "no program of the tests and examples calls {name}");
    }
}
