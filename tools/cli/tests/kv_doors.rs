//! Stores for clients of Redis and memcached, as processes.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use common::{farcall, sentence};
use serde_json::Value;

/// Generous: reached only when something hangs.
const LONG: Duration = Duration::from_secs(120);

/// A process that serves, ended when the test is over.
struct Server {
    process: Child,
    /// What it says when it serves.
    serving: Value,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only when it has ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    /// Starts a process; `None` if it cannot serve.
    fn start(at: &str, more: &[&str]) -> Option<Self> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_farcall"));
        command.args(["kv", "serve", "--at", at, "--memory", "16M", "--json", "-"]).args(more);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().expect("the program runs");
        let line = BufReader::new(process.stdout.take().expect("it is piped")).lines().next();
        let mut server = Self { process, serving: Value::Null };
        server.serving = serde_json::from_str(&line?.expect("lines are text")).expect("JSON");
        Some(server)
    }

    /// Starts the first process of a store, at a place that is free.
    fn first(more: &[&str]) -> (Self, String) {
        static ATTEMPTS: AtomicU32 = AtomicU32::new(0);
        let start = |_| {
            let attempt = ATTEMPTS.fetch_add(1, Ordering::Relaxed);
            let at = format!("127.0.0.1:{}", 20_000 + (std::process::id() + attempt * 331) % 20_000);
            Self::start(&at, more).map(|server| (server, at))
        };
        (0..100).find_map(start).expect("a free port")
    }

    /// Where clients of a door connect.
    fn door(&self, name: &str) -> String {
        self.serving[name][0].as_str().expect("an address").to_owned()
    }
}

/// Sends lines and gives the first bytes of the answer, at least as many as `bytes`.
fn ask(address: &str, request: &str, bytes: usize) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(LONG)).expect("a socket");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = Vec::new();
    while answer.len() < bytes {
        let mut part = [0; 4096];
        let read = stream.read(&mut part).expect("an answer");
        assert!(read > 0, "{}", answer.escape_ascii());
        answer.extend_from_slice(&part[..read]);
    }
    String::from_utf8(answer).expect("text")
}

#[test]
fn memcached_clients_and_the_shell_have_the_same_objects() {
    let (server, at) = Server::first(&["--memcached", "127.0.0.1:0", "--resp", "127.0.0.1:0"]);
    let address = server.door("memcached");
    assert_eq!(ask(&address, "set greeting 7 0 5\r\nhello\r\n", 8), "STORED\r\n");
    let get = farcall(&["kv", "get", "greeting", "--at", &at]);
    assert_eq!(String::from_utf8_lossy(&get.stdout), "hello");
    assert!(farcall(&["kv", "put", "greeting", "again", "--at", &at]).status.success());
    assert_eq!(ask(&address, "get greeting\r\n", 33), "VALUE greeting 0 5\r\nagain\r\nEND\r\n");
    assert_eq!(ask(&server.door("resp"), "GET greeting\r\n", 11), "$5\r\nagain\r\n");
}

#[test]
fn objects_take_what_the_command_line_says() {
    let limited = ["--resp", "127.0.0.1:0", "--maxmemory", "4M", "--maxmemory-policy", "allkeys-lru"];
    let (server, _at) = Server::first(&limited);
    let info = ask(&server.door("resp"), "INFO memory\r\n", 100);
    assert!(
        info.contains("maxmemory:4194304\r\n") && info.contains("maxmemory_policy:allkeys-lru\r\n"),
        "{info}"
    );
}

#[test]
fn what_the_doors_cannot_do_is_said() {
    let serve = |more: &[&str]| sentence(&[&["kv", "serve", "--memory", "16M"], more].concat(), 2);
    let with = |more: &[&str]| serve(&[&["--memcached", "127.0.0.1:0"], more].concat());
    assert!(with(&["--data", "nowhere"]).contains("--memcached"));
    assert!(with(&["--shards", "2"]).contains("give --shards 1"));
    assert!(serve(&["--memcached", "0.0.0.0:0"]).contains("is not a loopback address"));
    assert!(serve(&["--maxmemory", "17M"]).contains("--memory 16M, of which it is a part"));
    assert!(serve(&["--maxmemory-policy", "all"]).contains("noeviction, allkeys-lru"));
}
