//! An installed library is found by pkg-config and CMake, shared and static.
//!
//! Apart from the other tests: installing builds the library again, in the place where they use it.

mod common;

use std::path::Path;
use std::process::Command;

use common::{crate_folder, succeed};

fn said(command: &mut Command) -> String {
    String::from_utf8(succeed(command).stdout).expect("text")
}

#[test]
fn an_installed_library_is_found() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("install-{}", std::process::id()));
    let root = crate_folder().join("../..");
    succeed(Command::new(root.join("scripts/install-c")).arg(&folder).env("FARCALL_C_PROFILE", "dev"));
    let flags = said(
        Command::new("pkg-config")
            .args(["--cflags", "--libs", "farcall"])
            .env("PKG_CONFIG_PATH", folder.join("lib/pkgconfig")),
    );
    let program = folder.join("echo");
    let shared = format!("-Wl,-rpath,{}", folder.join("lib").display());
    let source = root.join("examples/c/echo.c");
    succeed(
        Command::new("cc").arg(&source).args(flags.split_whitespace()).arg(&shared).arg("-o").arg(&program),
    );
    assert_eq!(said(&mut Command::new(&program)), "hello\n");
    let library = folder.join("lib/libfarcall.a");
    let system = ["-lpthread", "-ldl", "-lm"];
    let include = format!("-I{}", folder.join("include").display());
    succeed(Command::new("cc").arg(include).args([&source, &library]).args(system).arg("-o").arg(&program));
    assert_eq!(said(&mut Command::new(&program)), "hello\n");
    let project = folder.join("project");
    std::fs::create_dir_all(&project).expect("the folder is ours");
    let lists = format!(
        "cmake_minimum_required(VERSION 3.13)\nproject(echo C)\nfind_package(farcall REQUIRED)\n\
         add_executable(echo {0})\ntarget_link_libraries(echo farcall::farcall)\n\
         add_executable(echo-static {0})\ntarget_link_libraries(echo-static farcall::static)\n",
        source.display()
    );
    std::fs::write(project.join("CMakeLists.txt"), lists).expect("the folder is ours");
    let prefix = format!("-DCMAKE_PREFIX_PATH={}", folder.display());
    succeed(Command::new("cmake").arg("-S").arg(&project).arg("-B").arg(&project).arg(prefix));
    succeed(Command::new("cmake").arg("--build").arg(&project));
    for program in ["echo", "echo-static"] {
        assert_eq!(said(&mut Command::new(project.join(program))), "hello\n");
    }
    std::fs::remove_dir_all(&folder).expect("it is ours");
}
