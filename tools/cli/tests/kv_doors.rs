//! Stores for clients of Redis and memcached, as processes.

mod common;
#[path = "../../../fabrics/tcp/tests/proofs/mod.rs"]
mod proofs;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use common::{farcall, sentence, until};
use proofs::{Folder, has_openssl};
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
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
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
    assert_eq!(ask(&address, "get greeting\r\n", 32), "VALUE greeting 0 5\r\nagain\r\nEND\r\n");
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

/// A folder with the files of a certificate, its key and its authority.
fn certificates() -> (Folder, [String; 3]) {
    let folder = Folder::new();
    folder.authority("ca");
    folder.certificate("server", "ca", "IP:127.0.0.1", 10);
    let paths = ["server.pem", "server.key", "ca.pem"];
    let paths = paths.map(|name| folder.path(name).to_str().expect("text").to_owned());
    (folder, paths)
}

#[test]
fn both_doors_speak_tls_where_it_is_said() {
    if !has_openssl() {
        return println!("unsupported: there is no openssl to make certificates with");
    }
    let (_folder, [certificate, key, authority]) = certificates();
    let tls = ["--tls-cert", &certificate, "--tls-key", &key];
    let doors = ["--memcached", "tls://127.0.0.1:0", "--resp", "tls://127.0.0.1:0,127.0.0.1:0"];
    let (server, at) = Server::first(&[&tls[..], &doors[..]].concat());
    assert!(farcall(&["kv", "put", "greeting", "hello", "--at", &at]).status.success());
    for (door, request, answer) in [
        ("memcached", "get greeting\r\nquit\r\n", "VALUE greeting 0 5\r\nhello\r\nEND\r\n"),
        ("resp", "GET greeting\r\nQUIT\r\n", "$5\r\nhello\r\n+OK\r\n"),
    ] {
        let address = server.door(door);
        let address = address.strip_prefix("tls://").expect("clients are told how to connect");
        let arguments =
            ["s_client", "-quiet", "-verify_return_error", "-CAfile", &authority, "-connect", address];
        let mut client = Command::new("openssl")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it was there a moment ago");
        client.stdin.take().expect("it is piped").write_all(request.as_bytes()).expect("it reads");
        let said = client.wait_with_output().expect("it ends when the server closes").stdout;
        assert_eq!(String::from_utf8_lossy(&said), answer, "{door}");
    }
    let serve = |more: &[&str]| sentence(&[&["kv", "serve", "--memory", "16M"], more].concat(), 2);
    assert!(serve(&["--resp", "tls://127.0.0.1:0"]).contains("give --tls-cert and --tls-key"));
    assert!(serve(&[&tls[..], &["--resp", "127.0.0.1:0"]].concat()).contains("such a place"));
    assert!(serve(&[&tls[..2], &doors[..]].concat()).contains("--tls-key"));
    assert!(serve(&["--resp", "tls://0.0.0.0:0"]).contains("is not a loopback address"));
}

/// The files are looked at once a second.
#[test]
fn a_certificate_that_cannot_be_renewed_is_said_once_for_each_reason() {
    if !has_openssl() {
        return println!("unsupported: there is no openssl to make certificates with");
    }
    let (_folder, [certificate, key, _]) = certificates();
    let tls = ["--tls-cert", &certificate, "--tls-key", &key, "--resp", "tls://127.0.0.1:0"];
    let (mut server, _) = Server::first(&tls);
    let said = server.process.stderr.take().expect("it is piped");
    let mut lines = BufReader::new(said).lines().map(|line| line.expect("text"));
    let mut next = || lines.find(|line| line.contains("that was read before")).expect("it is said");
    std::fs::write(&certificate, "no certificate").expect("a folder of our own");
    let first = next();
    let pid = server.process.id().to_string();
    until("more looks find the same", || {
        let output = farcall(&["stat", &pid]);
        let text = String::from_utf8_lossy(&output.stdout);
        let line = text.lines().find(|line| line.contains("tls_not_renewed")).expect("it is counted");
        line.split_whitespace().filter_map(|word| word.parse::<u64>().ok()).any(|times| times >= 3)
    });
    std::fs::remove_file(&certificate).expect("it is there");
    let second = next();
    assert!(first != second && second.contains("No such file"), "{first}\n{second}");
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

/// The processes of a store of three shards, which know each other, and where shard 0 is.
fn start_three() -> ([Server; 3], String) {
    let of_three = |shard| ["--shards", "3", "--resp", "127.0.0.1:0", "--shard", shard];
    let (first, at) = Server::first(&of_three("0"));
    let more = ["1", "2"].map(|shard| Server::start(&at, &of_three(shard)).expect("it finds shard 0"));
    let [second, third] = more;
    let servers = [first, second, third];
    for server in &servers {
        wait_until(|| ask(&server.door("resp"), "CLUSTER INFO\r\n", 40).contains("cluster_state:ok"));
    }
    (servers, at)
}

fn wait_until(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LONG, "it never is");
    }
}

/// A file of the clients that `scripts/prepare redis-clients` installs; `None` when it could not.
fn installed(file: &str) -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target")), PathBuf::from);
    let path = target.join("redis-clients").join(file);
    if !path.exists() {
        println!("unsupported: {} is not there", path.display());
        return None;
    }
    Some(path)
}

fn run(program: PathBuf, arguments: &[&str]) {
    let output = Command::new(&program).args(arguments).output().expect("it is installed");
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!((output.status.success(), &*out), (true, "done\n"), "{error}");
}

#[test]
fn the_cluster_client_of_redis_py_works() {
    let (servers, at) = start_three();
    let Some(python) = installed("python/bin/python") else { return };
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/kv/tests/redis/cluster.py");
    let address = servers[1].door("resp");
    run(python, &[program, address.rsplit_once(':').expect("a port").1]);
    let get = farcall(&["kv", "get", "written by redis-py", "--at", &at]);
    assert_eq!(String::from_utf8_lossy(&get.stdout), "hello", "all doors agree about who has a key");
}

#[test]
fn the_cluster_client_of_go_redis_works() {
    let (servers, _at) = start_three();
    let Some(client) = installed("go/client") else { return };
    let ports = servers.each_ref().map(|server| server.door("resp"));
    run(client, &[&["cluster"], &ports.each_ref().map(String::as_str)[..]].concat());
}

#[test]
fn a_server_that_begins_again_is_found_at_its_new_place() {
    let ([first, _second, third], at) = start_three();
    // The slot of `foo` is 12182, which the third has.
    let moved = |place: &str| format!("-MOVED 12182 {place}\r\n");
    let (asked, before) = (first.door("resp"), third.door("resp"));
    assert_eq!(ask(&asked, "GET foo\r\n", 13), moved(&before));
    drop(third);
    wait_until(|| ask(&asked, "GET foo\r\n", 13) == "-CLUSTERDOWN Hash slot not served\r\n");
    let again = ["--shards", "3", "--resp", "127.0.0.1:0", "--shard", "2"];
    let third = Server::start(&at, &again).expect("its place is free again");
    wait_until(|| ask(&asked, "GET foo\r\n", 13) == moved(&third.door("resp")));
    assert_eq!(ask(&third.door("resp"), "SET foo 1\r\n", 5), "+OK\r\n");
}

#[test]
fn servers_to_which_nobody_can_be_sent_are_refused() {
    let serve = |more: &[&str]| {
        sentence(&[&["kv", "serve", "--memory", "16M", "--shards", "2", "--allow", "any"], more].concat(), 2)
    };
    assert!(serve(&["--resp", "/tmp/farcall-of-a-test"]).contains("cannot be sent to a path"));
    assert!(serve(&["--resp", "0.0.0.0:0"]).contains("give --resp-announce HOST:PORT"));
    assert!(serve(&["--resp", "0.0.0.0:0", "--resp-announce", "host"]).contains("is not HOST:PORT"));
}
