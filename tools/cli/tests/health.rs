//! Probes of a store, as whatever restarts processes asks them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// A store that ends with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // Both fail only when it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The status and body of an answer.
fn get(at: &str, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(at).expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers in text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    (head.lines().next().expect("a status").to_owned(), body.to_owned())
}

/// An address that nobody listened at a moment ago.
fn free_address() -> String {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    free.expect("a free port").to_string()
}

#[test]
fn a_store_answers_probes() {
    let at = free_address();
    let mut command = Command::new(env!("CARGO_BIN_EXE_farcall"));
    command.args(["kv", "serve", "--memory", "16M", "--at", &at, "--health", "127.0.0.1:0", "--json", "-"]);
    let mut store = Ended(command.stdout(Stdio::piped()).spawn().expect("the program runs"));
    let lines = BufReader::new(store.0.stdout.take().expect("it is piped")).lines();
    let objects = lines.map(|line| serde_json::from_str::<Value>(&line.expect("text")).expect("an object"));
    let serving = { objects }.find(|object| object["kind"] == "serving").expect("it serves");
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
    command.args(["kv", "serve", "--memory", "16M", "--at", &free_address(), "--health", &taken_at]);
    let output = command.output().expect("the program runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains(&format!("cannot listen at {taken_at}")), "{said}");
}
