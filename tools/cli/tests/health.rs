//! Probes of a store, as whatever restarts processes asks them.

mod common;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;

use common::stores::start_saying;
use serde_json::Value;

/// The status and body of an answer.
fn get(at: &str, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(at).expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers in text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    (head.lines().next().expect("a status").to_owned(), body.to_owned())
}

#[test]
fn a_store_answers_probes() {
    let more = ["--memory", "16M", "--health", "127.0.0.1:0", "--json", "-"];
    let (_store, _, said) = start_saying(&[], "serve", &more, "{");
    let serving: Value = serde_json::from_str(&format!("{{{said}")).expect("an object");
    assert_eq!(serving["kind"], "serving");
    let health = serving["health"].as_str().expect("where probes are answered");
    for path in ["/healthz", "/readyz"] {
        assert_eq!(get(health, path), ("HTTP/1.1 200 OK".to_owned(), "ok\n".to_owned()), "{path}");
    }
    assert!(get(health, "/").0.contains("404"));
}

#[test]
fn a_port_that_is_taken_is_said_before_the_store_begins() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let taken_at = taken.local_addr().expect("it is bound").to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_farcall"));
    command.args(["kv", "serve", "--memory", "16M", "--at", "127.0.0.1:1", "--health", &taken_at]);
    let output = command.output().expect("the program runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains(&format!("cannot listen at {taken_at}")), "{said}");
}
