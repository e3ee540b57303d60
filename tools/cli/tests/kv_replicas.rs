//! Replicated tables, used from a shell: backups and primaries are killed, and nothing acknowledged is lost.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::farcall;

/// Far longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

/// A process that serves, killed when the test is over.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only when it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A folder for everything that these processes keep.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("farcall-replicas-{}-{name}", std::process::id()));
        fs::create_dir(&path).expect("a folder");
        Self(path)
    }

    fn of(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("text").to_owned()
    }

    fn registry(&self) -> String {
        format!("file:{}", self.of("registry"))
    }

    /// Starts a process that serves at a free port, and waits until it says the line that begins so.
    fn start(&self, command: &str, more: &[&str], begins: &str) -> (Server, String) {
        // The port may be another's: then the next one is tried.
        for attempt in 0..100 {
            let at =
                format!("127.0.0.1:{}", 20_000 + (std::process::id() + port_of_next() + attempt) % 20_000);
            let mut farcall = Command::new(env!("CARGO_BIN_EXE_farcall"));
            farcall.args(["kv", command, "--at", &at, "--registry", &self.registry()]).args(more);
            let mut server = Server(farcall.stdout(Stdio::piped()).spawn().expect("the program runs"));
            let lines = BufReader::new(server.0.stdout.take().expect("it is piped")).lines();
            let found = lines.map(|line| line.expect("text")).find(|line| line.starts_with(begins));
            if found.is_some() {
                return (server, at);
            }
        }
        panic!("no free port for kv {command}");
    }

    fn shard(&self, at: &str, (shard, shards): (u32, u32), level: &str) -> Server {
        let tables = format!("orders:{level}");
        let mut farcall = Command::new(env!("CARGO_BIN_EXE_farcall"));
        let (shard, shards) = (shard.to_string(), shards.to_string());
        let of = ["--shard", &shard, "--shards", &shards, "--registry", &self.registry()];
        farcall.args(["kv", "serve", "--at", at, "--tables", &tables, "--memory", "16M"]).args(of);
        let mut server = Server(farcall.stdout(Stdio::piped()).spawn().expect("the program runs"));
        let mut lines = BufReader::new(server.0.stdout.take().expect("it is piped")).lines();
        assert!(lines.any(|line| line.expect("text").contains(" serves ")), "shard {shard} serves");
        server
    }

    fn backup(&self, name: &str) -> (Server, String) {
        self.start("backup", &["--data", &self.of(name)], "backup at ")
    }

    fn primary(&self, level: &str, name: &str) -> (Server, String) {
        let (tables, data) = (format!("orders:{level}"), self.of(name));
        let more = ["--tables", &tables, "--data", &data, "--memory", "16M", "--lease", "0.5"];
        self.start("serve", &more, "shard 0 of 1 serves")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Ports that the processes of this test do not look at first, one after the other.
fn port_of_next() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(7000);
    NEXT.fetch_add(331, Ordering::Relaxed)
}

/// What a command of a store prints, and its status and sentence.
fn kv(at: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    run(&[&["kv"], arguments, &["--at", at]].concat())
}

/// Writes an object, again until it is acknowledged.
fn put(at: &str, key: &str) {
    let begun = Instant::now();
    loop {
        let (status, _, sentence) = kv(at, &["put", key, key, "--table", "orders"]);
        if status == Some(0) {
            return;
        }
        assert_eq!(status, Some(5), "{sentence}");
        assert!(begun.elapsed() < LONG, "{sentence}");
    }
}

fn keys(at: &str) -> Vec<String> {
    let (status, listing, sentence) = kv(at, &["scan", "--keys", "--table", "orders"]);
    assert_eq!(status, Some(0), "{sentence}");
    let mut keys: Vec<_> =
        listing.lines().filter_map(|line| line.split('\t').next()).map(str::to_owned).collect();
    keys.sort_unstable();
    keys
}

fn whole_replicas(at: &str) -> usize {
    let (status, listing, sentence) = kv(at, &["status"]);
    assert_eq!(status, Some(0), "{sentence}");
    listing.lines().filter(|line| line.contains(" is whole and counts")).count()
}

#[test]
fn what_was_acknowledged_outlives_backups_and_primaries_that_are_killed() {
    for level in ["replicated=2", "replicated=2,flushed"] {
        let folder = Folder::new(level);
        let (first, _) = folder.backup("first");
        let (_second, _) = folder.backup("second");
        let (primary, at) = folder.primary(level, "primary");
        (0..5).for_each(|number| put(&at, &format!("a{number}")));
        assert_eq!(whole_replicas(&at), 2, "{level}");

        // A write that reaches one of two replicas is no acknowledged one, and says so.
        drop(first);
        let (status, _, sentence) = kv(&at, &["put", "lonely", "1", "--table", "orders"]);
        assert_eq!(status, Some(5), "{level}: {sentence}");
        assert!(sentence.contains("too few backups"), "{sentence}");

        // Another backup takes the place, with all that the first had.
        let (_third, _) = folder.backup("third");
        (0..5).for_each(|number| put(&at, &format!("b{number}")));
        assert_eq!(whole_replicas(&at), 2, "{level}");
        let (status, compared, sentence) = kv(&at, &["scrub"]);
        assert!(status == Some(0) && compared.contains("compared at 2 backups"), "{compared}{sentence}");

        // The primary goes with its disk; one that has nothing takes over.
        drop(primary);
        remove(&folder.of("primary"));
        let (_primary, at) = folder.primary(level, "next");
        let mut expected: Vec<String> = ["a", "b"]
            .iter()
            .flat_map(|letter| (0..5).map(move |number| format!("{letter}{number}")))
            .collect();
        let mut found = keys(&at);
        // It may have happened.
        found.retain(|key| key != "lonely");
        expected.sort_unstable();
        assert_eq!(found, expected, "{level}");
        put(&at, "c");
    }
}

#[test]
fn every_shard_of_a_store_has_replicas() {
    let folder = Folder::new("shards");
    let (_first, _) = folder.backup("first");
    let more = ["--tables", "orders:replicated=1", "--shards", "2", "--memory", "16M"];
    let (_shard, at) = folder.start("serve", &more, "shard 0 of 2 serves");
    let _other = folder.shard(&at, (1, 2), "replicated=1");
    (0..8).for_each(|number| put(&at, &format!("k{number}")));
    assert_eq!(keys(&at).len(), 8);
    let (_, listing, _) = kv(&at, &["status"]);
    assert_eq!(listing.lines().filter(|line| line.contains("is whole and counts")).count(), 2, "{listing}");
}

#[test]
fn a_folder_is_of_one_store_and_of_one_process() {
    let folder = Folder::new("folders");
    let (_backup, _) = folder.backup("first");
    let shared = ["backup", "--at", "127.0.0.1:1", "--registry", &folder.registry(), "--data"];
    let (status, _, sentence) = run(&[&["kv"], &shared[..], &[&folder.of("first")]].concat());
    assert!(status == Some(1) && sentence.contains("in use by another backup"), "{sentence}");

    let (primary, at) = folder.primary("replicated=1,flushed", "data");
    put(&at, "a");
    drop(primary);
    let (data, other) = (folder.of("data"), format!("file:{}", folder.of("other")));
    let serve = ["kv", "serve", "--at", "127.0.0.1:1", "--data", &data];
    let replicated = ["--tables", "orders:replicated=1,flushed", "--registry", &other];
    for _ in 0..2 {
        let (status, _, sentence) = run(&[&serve[..], &replicated].concat());
        assert!(status == Some(1) && sentence.contains("that the registry at file:"), "{sentence}");
    }
    let (status, _, sentence) = run(&[&serve[..], &["--tables", "orders:flushed"]].concat());
    assert!(status == Some(1) && sentence.contains("give --registry"), "{sentence}");
    let (_primary, at) = folder.primary("replicated=1,flushed", "data");
    assert_eq!(keys(&at), ["a"], "what others were refused is there");
}

#[test]
fn a_primary_that_stood_still_ends_and_the_next_one_serves_at_its_address() {
    let folder = Folder::new("still");
    let (_backup, _) = folder.backup("first");
    let (mut primary, at) = folder.primary("replicated=1", "none");
    put(&at, "a");
    let mut farcall = Command::new(env!("CARGO_BIN_EXE_farcall"));
    let tables = ["--tables", "orders:replicated=1", "--memory", "16M", "--lease", "0.5"];
    farcall.args(["kv", "serve", "--at", &at, "--registry", &folder.registry()]).args(tables);
    let next = farcall.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut next = Server(next.expect("the program runs"));
    let mut told = BufReader::new(next.0.stderr.take().expect("it is piped")).lines();
    let mut tells = |words: &str| told.any(|line| line.expect("text").contains(words));
    assert!(tells("waiting for its end"));
    let signal = |name: &str| {
        let sent = Command::new("kill").args([name, &primary.0.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
    };
    signal("-STOP");
    assert!(tells("another process has"), "it is the primary, and has no address yet");
    signal("-CONT");
    let ended = primary.0.wait().expect("it is a child");
    assert_eq!(ended.code(), Some(1), "it was replaced, and says so");
    let mut lines = BufReader::new(next.0.stdout.take().expect("it is piped")).lines();
    assert!(lines.any(|line| line.expect("text").starts_with("shard 0 of 1 serves")));
    put(&at, "b");
    assert_eq!(keys(&at), ["a", "b"]);
}

/// What a command prints, and its status and sentence.
fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = farcall(arguments);
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn remove(folder: &str) {
    if Path::new(folder).exists() {
        fs::remove_dir_all(folder).expect("it is this test's");
    }
}

#[test]
fn what_cannot_be_replicated_is_said_in_one_sentence() {
    let refused = |arguments: &[&str]| {
        let output = farcall(&[&["kv", "serve", "--at", "127.0.0.1:1"], arguments].concat());
        (output.status.code(), String::from_utf8(output.stderr).expect("text"))
    };
    let (status, sentence) = refused(&["--tables", "orders:replicated=2"]);
    assert!(status == Some(2) && sentence.contains("give --registry file:DIR"), "{sentence}");
    let (status, sentence) = refused(&["--registry", "file:/nowhere"]);
    assert!(
        status == Some(2) && sentence.contains("--registry is for tables that are replicated"),
        "{sentence}"
    );
    let orders = ["--tables", "orders:replicated=1,flushed", "--registry", "file:/nowhere"];
    let (status, sentence) = refused(&orders);
    assert!(status == Some(2) && sentence.contains("give --data DIR"), "{sentence}");
}
