//! The header is what the sources say, and compiles wherever it should.
//!
//! `FARCALL_TEST_WRITE_HEADER=1 cargo test -p farcall-ffi --test header` writes it.

mod common;

use std::process::Command;

use common::{STRICT, crate_folder, succeed};

#[test]
fn the_header_is_that_of_the_sources() {
    let config = cbindgen::Config::from_file(crate_folder().join("cbindgen.toml")).expect("it is right");
    // The modules follow, in the order in which it names them.
    let builder = cbindgen::Builder::new().with_config(config).with_src(crate_folder().join("src/lib.rs"));
    let mut made = Vec::new();
    builder.generate().expect("the sources can be read").write(&mut made);
    let (made, path) = (String::from_utf8(made).expect("text"), crate_folder().join("include/farcall.h"));
    if std::env::var_os("FARCALL_TEST_WRITE_HEADER").is_some() {
        std::fs::write(&path, &made).expect("the header can be written");
    }
    let committed = std::fs::read_to_string(&path).expect("the header is there");
    assert!(made == committed, "include/farcall.h is not what the sources say; write it as said above");
}

#[test]
fn each_function_is_declared_once() {
    let header = std::fs::read_to_string(crate_folder().join("include/farcall.h")).expect("it is there");
    let is_declaration = |line: &&str| !line.starts_with(['/', ' ', '#']) && !line.starts_with("typedef");
    let before_arguments = header.lines().filter(is_declaration).filter_map(|line| line.split_once('('));
    let mut names: Vec<&str> =
        before_arguments.filter_map(|(before, _)| before.rsplit([' ', '*']).next()).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert!(names.contains(&"farcall_call") && names.contains(&"farcall_version"), "{names:?}");
    assert_eq!(names.len(), all);
}

#[test]
fn the_header_compiles_without_a_warning() {
    for (compiler, standards) in [("cc", ["c99", "c11", "c17"]), ("c++", ["c++17", "c++20", "c++11"])] {
        for standard in standards {
            succeed(
                Command::new(compiler)
                    .args(STRICT)
                    .arg(format!("-std={standard}"))
                    .args(["-fsyntax-only", "-x", if compiler == "cc" { "c" } else { "c++" }, "-include"])
                    .arg(crate_folder().join("include/farcall.h"))
                    .arg("/dev/null"),
            );
        }
    }
}
