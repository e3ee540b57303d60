//! Stores with replicas, as processes of the program, for tests that kill them.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::farcall;
use super::places::free_address;

/// Far longer than anything here takes.
pub const LONG: Duration = Duration::from_secs(60);

/// A process that serves, killed when the test is over.
pub struct Server(pub Child);

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only when it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A folder for everything that these processes keep.
pub struct Folder {
    path: PathBuf,
    registry: String,
}

impl Folder {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("farcall-replicas-{}-{name}", std::process::id()));
        fs::create_dir(&path).expect("a folder");
        let registry = format!("file:{}", path.join("registry").display());
        Self { path, registry }
    }

    /// One whose processes meet in another registry.
    pub fn with_registry(name: &str, registry: &str) -> Self {
        let mut folder = Self::new(name);
        registry.clone_into(&mut folder.registry);
        folder
    }

    pub fn of(&self, name: &str) -> String {
        self.path.join(name).to_str().expect("text").to_owned()
    }

    pub fn registry(&self) -> String {
        self.registry.clone()
    }

    /// Starts a process that serves at a free port, and waits until it says the line that begins so.
    pub fn start(&self, command: &str, more: &[&str], begins: &str) -> (Server, String) {
        start(command, &[&["--registry", &self.registry()], more].concat(), begins)
    }

    /// The same, with the rest of the line.
    pub fn start_saying(&self, command: &str, more: &[&str], begins: &str) -> (Server, String, String) {
        start_saying(&[], command, &[&["--registry", &self.registry()], more].concat(), begins)
    }

    /// A store that has no registry.
    pub fn start_alone(&self, more: &[&str]) -> (Server, String) {
        start("serve", more, "shard 0 of 1 serves")
    }

    pub fn shard(&self, at: &str, (shard, shards): (u32, u32), level: &str) -> Server {
        let tables = format!("orders:{level}");
        let mut farcall = Command::new(env!("CARGO_BIN_EXE_farcall"));
        let (shard, shards) = (shard.to_string(), shards.to_string());
        let of = ["--shard", &shard, "--shards", &shards, "--registry", &self.registry()];
        farcall.args(["kv", "serve", "--at", at, "--tables", &tables, "--memory", "16M"]).args(of);
        let mut server = Server(farcall.stdout(Stdio::piped()).spawn().expect("the program runs"));
        let mut out = BufReader::new(server.0.stdout.take().expect("it is piped"));
        let serves = out.by_ref().lines().any(|line| line.expect("text").contains(" serves "));
        assert!(serves, "shard {shard} serves");
        server.0.stdout = Some(out.into_inner());
        server
    }

    pub fn backup(&self, name: &str) -> (Server, String) {
        self.start("backup", &["--data", &self.of(name)], "backup at ")
    }

    pub fn primary(&self, level: &str, name: &str) -> (Server, String) {
        let (tables, data) = (format!("orders:{level}"), self.of(name));
        let more = ["--tables", &tables, "--data", &data, "--memory", "16M"];
        self.start("serve", &more, "shard 0 of 1 serves")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn start(command: &str, more: &[&str], begins: &str) -> (Server, String) {
    start_by(&[], command, more, begins)
}

/// The same by another program, which becomes it.
pub fn start_by(by: &[&str], command: &str, more: &[&str], begins: &str) -> (Server, String) {
    let (server, at, _) = start_saying(by, command, more, begins);
    (server, at)
}

/// The same, with the rest of the line.
pub fn start_saying(by: &[&str], command: &str, more: &[&str], begins: &str) -> (Server, String, String) {
    let words = [by, &[env!("CARGO_BIN_EXE_farcall")]].concat();
    // The port may be another's by now: then the next one is tried.
    for _ in 0..100 {
        let at = free_address();
        let mut farcall = Command::new(words[0]);
        farcall.args(&words[1..]).args(["kv", command, "--at", &at]).args(more);
        let mut server = Server(farcall.stdout(Stdio::piped()).spawn().expect("the program runs"));
        let mut out = BufReader::new(server.0.stdout.take().expect("it is piped"));
        let mut lines = out.by_ref().lines().map(|line| line.expect("text"));
        if let Some(rest) = lines.find_map(|line| line.strip_prefix(begins).map(str::to_owned)) {
            // It may have more to say.
            server.0.stdout = Some(out.into_inner());
            return (server, at, rest);
        }
    }
    panic!("no free port for kv {command}");
}

/// What a command of a store prints, and its status and sentence.
pub fn kv(at: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    run(&[&["kv"], arguments, &["--at", at]].concat())
}

/// Writes an object, again until it is acknowledged.
pub fn put(at: &str, key: &str) {
    let begun = Instant::now();
    loop {
        let (status, _, sentence) = kv(at, &["put", key, key, "--table", "orders"]);
        if status == Some(0) {
            return;
        }
        // No store answers, or its level is not reached.
        assert!(matches!(status, Some(5 | 8)), "{status:?}: {sentence}");
        assert!(begun.elapsed() < LONG, "{sentence}");
    }
}

pub fn keys(at: &str) -> Vec<String> {
    // On a busy machine a lease may be late.
    let (status, listing, sentence) = kv(at, &["scan", "--keys", "--table", "orders", "--timeout", "60"]);
    assert_eq!(status, Some(0), "{sentence}");
    let mut keys: Vec<_> =
        listing.lines().filter_map(|line| line.split('\t').next()).map(str::to_owned).collect();
    keys.sort_unstable();
    keys
}

/// How many replicas are whole and count, once the level is reached.
pub fn whole_replicas(at: &str) -> usize {
    let begun = Instant::now();
    let listing = loop {
        let (status, listing, sentence) = kv(at, &["status", "--timeout", "60"]);
        if status == Some(0) {
            break listing;
        }
        // Its level is not reached now.
        assert!(status == Some(8) && begun.elapsed() < LONG, "{status:?}: {sentence}");
    };
    listing.lines().filter(|line| line.contains(" is whole and counts")).count()
}

/// What a command prints, and its status and sentence.
pub fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = farcall(arguments);
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}
