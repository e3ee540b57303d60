//! Programs of C: compiled against the header and the library that this build made, and run.

#![allow(dead_code, reason = "each test file uses its part")]

#[path = "../../../../tools/cli/tests/common/places.rs"]
pub mod places;

use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The crate's folder.
pub fn crate_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The library that this build made.
pub fn library() -> PathBuf {
    std::env::current_exe().expect("this program has a path").with_file_name("libfarcall_ffi.so")
}

/// A folder with the library under the names that programs are linked and started with.
fn library_folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("lib-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the folder for temporary files takes it");
    for name in ["libfarcall.so", "libfarcall.so.0"] {
        match symlink(library(), folder.join(name)) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => panic!("{name}: {error}"),
            _ => {}
        }
    }
    folder
}

/// Warnings of a strict user.
pub const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-pedantic"];

/// Compiles a program of `tests/c`, or another source of this crate, and links it with the library.
pub fn compile(source: &str, name: &str, flags: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let program = folder.join(format!("{name}-{}", std::process::id()));
    let library = library_folder();
    let is_cpp = source.ends_with(".cpp");
    let mut compiler = Command::new(if is_cpp { "c++" } else { "cc" });
    compiler
        .arg(if is_cpp { "-std=c++17" } else { "-std=c99" })
        .args(STRICT)
        .args(["-g", "-O1", "-I"])
        .arg(crate_folder().join("include"))
        .args(flags)
        .arg(crate_folder().join(source))
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(&library)
        .args(["-lfarcall", "-lm", "-pthread"])
        .arg(format!("-Wl,-rpath,{}", library.display()));
    succeed(&mut compiler);
    program
}

/// Runs a command, which must succeed.
pub fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    output
}
