//! The program describes itself: completions, manual pages, and readiness for a service manager.

mod common;

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};

use common::{farcall, sentence};

#[test]
fn bash_completes_commands_and_options() {
    let output = farcall(&["completions", "bash"]);
    assert!(output.status.success());
    let complete = |line: &str| {
        let script = format!(
            "source /dev/stdin; COMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _farcall farcall \
             \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"; echo ${{COMPREPLY[@]}}"
        );
        let mut bash = Command::new("bash");
        let bash = bash.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut bash = bash.spawn().expect("bash runs");
        use std::io::Write;
        bash.stdin.take().expect("it is piped").write_all(&output.stdout).expect("it reads");
        String::from_utf8(bash.wait_with_output().expect("it ends").stdout).expect("words are text")
    };
    assert_eq!(complete("farcall comp").trim(), "compare completions");
    assert!(complete("farcall kv serve --resp").contains("--resp-password-file"));
}

#[test]
fn every_command_has_a_page_of_the_manual() {
    let folder = std::env::temp_dir().join(format!("farcall-manual-{}", std::process::id()));
    let path = folder.to_str().expect("it is text");
    assert!(farcall(&["manual", path]).status.success());
    let help = String::from_utf8(farcall(&["--help"]).stdout).expect("help is text");
    let commands = help.split("Commands:").nth(1).and_then(|rest| rest.split("\n\n").next());
    let commands =
        commands.expect("it lists commands").lines().filter_map(|line| line.split_whitespace().next());
    for command in commands {
        let page = fs::read_to_string(folder.join(format!("farcall-{command}.1"))).expect("it has a page");
        assert!(page.contains(".SH SYNOPSIS"), "{command}");
    }
    let serve = fs::read_to_string(folder.join("farcall-kv-serve.1")).expect("commands of commands too");
    assert!(serve.contains(r"\-\-resp\-password\-file"), "{serve}");
    fs::remove_dir_all(&folder).expect("it is ours");
    let refused = sentence(&["manual", "/proc/1/no"], 1);
    assert!(refused.starts_with("farcall: cannot write to /proc/1/no: "), "{refused}");
}

#[test]
fn a_service_manager_is_told_when_names_are_served() {
    let name = std::env::temp_dir().join(format!("farcall-ready-{}", std::process::id()));
    let manager = UnixDatagram::bind(&name).expect("a new socket");
    let mut command = Command::new(env!("CARGO_BIN_EXE_farcall"));
    command.args(["registry", "--listen", "127.0.0.1:0"]).stdout(Stdio::null());
    let mut registry = command.env("NOTIFY_SOCKET", &name).spawn().expect("the program runs");
    let mut said = [0; 64];
    let length = manager.recv(&mut said).expect("it is told");
    registry.kill().and_then(|()| registry.wait()).expect("it is ours");
    fs::remove_file(&name).expect("it is ours");
    assert_eq!(&said[..length], b"READY=1");
}
