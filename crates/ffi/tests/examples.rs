//! The example programs do what their page says.

mod common;

use std::process::{Child, Command};

use common::{compile, succeed};
use farcall::Node;

/// A process that is killed when it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn said(command: &mut Command) -> String {
    String::from_utf8(succeed(command).stdout).expect("text")
}

#[test]
fn echo() {
    let program = compile("../../examples/c/echo.c", "echo", &[]);
    for transport in ["ring+shm", "basic+udp"] {
        assert_eq!(said(Command::new(&program).arg(transport)), "hello\n");
    }
    let wrong = Command::new(&program).arg("pigeon").output().expect("it runs");
    let text = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(!wrong.status.success() && text.starts_with("echo: endpoint: "), "{text}");
}

#[test]
fn orders() {
    let program = compile("../../examples/c/orders.c", "orders", &[]);
    let registry = Node::serving_names("127.0.0.1:0").expect("a free port");
    let address = registry.registry_address().expect("it serves names").to_string();
    let start = |what: &str| {
        let mut command = Command::new(&program);
        command.arg(what).env("FARCALL_NAMES", &address);
        command
    };
    let _servers = [(); 2].map(|()| Running(start("serve").spawn().expect("it starts")));
    assert_eq!(said(&mut start("call")), "order 1\norder 2\norder 3\n");
}

#[test]
fn halo() {
    let program = compile("../../examples/c/halo.c", "halo", &[]);
    for processes in ["1", "2", "3"] {
        let text = said(Command::new(&program).args([processes, "50"]));
        assert_eq!(text, format!("{processes} processes, 50 steps: 1000.000 of 1000 units of heat\n"));
    }
}
