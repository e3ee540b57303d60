//! Who takes a shard over, with what, and what is refused: used from a shell.

mod common;

use std::io::{BufRead, BufReader, Lines};
use std::process::{ChildStderr, ChildStdout, Command, Stdio};

use common::places::free_address;
use common::stores::{Folder, Server, keys, kv, put, run, whole_replicas};

/// A process that waits until it is the primary, and what it says.
struct Standby {
    server: Server,
    out: Lines<BufReader<ChildStdout>>,
    told: Lines<BufReader<ChildStderr>>,
}

impl Standby {
    fn start(folder: &Folder, at: &str, more: &[&str]) -> Self {
        let mut farcall = Command::new(env!("CARGO_BIN_EXE_farcall"));
        farcall.args(["kv", "serve", "--at", at, "--registry", &folder.registry(), "--memory", "16M"]);
        let started = farcall.args(more).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut server = Server(started.expect("the program runs"));
        let out = BufReader::new(server.0.stdout.take().expect("it is piped")).lines();
        let mut told = BufReader::new(server.0.stderr.take().expect("it is piped")).lines();
        assert!(told.any(|line| line.expect("text").contains("waiting for its end")), "somebody serves");
        Self { server, out, told }
    }

    /// Waits until it serves.
    fn serves(&mut self) {
        let serves = self.out.any(|line| line.expect("text").starts_with("shard 0 of 1 serves"));
        assert!(serves, "it takes over");
    }
}

fn signal(server: &Server, name: &str) {
    let sent = Command::new("kill").args([name, &server.0.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

#[test]
fn a_process_that_stands_still_keeps_its_directory_and_another_one_reads_a_replica() {
    let folder = Folder::new("same-data");
    let (_backup, _) = folder.backup("first");
    let (mut primary, at) = folder.primary("replicated=1,flushed", "data");
    put(&at, "a");
    let (to, data) = (free_address(), folder.of("data"));
    let tables = ["--tables", "orders:replicated=1,flushed", "--data", &data, "--lease", "0.5"];
    let mut next = Standby::start(&folder, &to, &tables);
    signal(&primary, "-STOP");
    next.serves();
    assert!(next.told.any(|line| line.expect("text").contains("in use by another process")), "it says why");
    put(&to, "b");
    assert_eq!(keys(&to), ["a", "b"]);
    signal(&primary, "-CONT");
    assert_eq!(primary.0.wait().expect("it is a child").code(), Some(1), "it was replaced, and says so");
    put(&to, "c");
    drop(next.server);
    let mut farcall = Command::new(env!("CARGO_BIN_EXE_farcall"));
    farcall.args(["kv", "serve", "--at", &to, "--registry", &folder.registry(), "--memory", "16M"]);
    let again = farcall.args(tables).stdout(Stdio::piped()).spawn().expect("the program runs");
    let mut again = Server(again);
    let mut lines = BufReader::new(again.0.stdout.take().expect("it is piped")).lines();
    assert!(lines.any(|line| line.expect("text").starts_with("shard 0 of 1 serves")));
    assert_eq!(keys(&to), ["a", "b", "c"], "what the other one has left there is of no harm");
}

#[test]
fn tables_that_are_named_with_a_weaker_level_keep_theirs() {
    let folder = Folder::new("weaker");
    let (_backup, _) = folder.backup("first");
    let (primary, at) = folder.primary("replicated=1,flushed", "data");
    put(&at, "a");
    let serve = ["kv", "serve", "--at", "127.0.0.1:1", "--registry", &folder.registry()];
    // It says so at once, and waits for nobody.
    let (status, _, sentence) = run(&[&serve[..], &["--tables", "orders:replicated=1"]].concat());
    assert!(status == Some(1) && sentence.contains("recorded with a level that has `flushed`"), "{sentence}");
    put(&at, "b");
    drop(primary);
    let (_primary, at) = folder.primary("replicated=1", "data");
    assert_eq!(keys(&at), ["a", "b"]);
    let (_, listing, _) = kv(&at, &["status"]);
    assert!(listing.contains("replicated=1,flushed"), "{listing}");
}

#[test]
fn shards_are_backups_of_each_other_also_of_one_that_is_started_again() {
    let folder = Folder::new("each-other");
    let (at, backups) = (free_address(), [free_address(), free_address()]);
    let start = |shard: &str, backup: &str| {
        let mut farcall = Command::new(env!("CARGO_BIN_EXE_farcall"));
        farcall.args(["kv", "serve", "--at", &at, "--registry", &folder.registry(), "--memory", "16M"]);
        farcall.args([
            "--tables",
            "orders:replicated=1",
            "--shards",
            "2",
            "--shard",
            shard,
            "--backup",
            backup,
        ]);
        let mut server = Server(farcall.stdout(Stdio::piped()).spawn().expect("the program runs"));
        let mut lines = BufReader::new(server.0.stdout.take().expect("it is piped")).lines();
        assert!(lines.any(|line| line.expect("text").contains(" serves ")), "shard {shard} serves");
        server
    };
    let first = start("0", &backups[0]);
    let _second = start("1", &backups[1]);
    (0..8).for_each(|number| put(&at, &format!("k{number}")));
    assert_eq!(whole_replicas(&at), 2);
    // All that is left of shard 0 is at the other one, which looks for shard 0 itself.
    drop(first);
    let _first = start("0", &backups[0]);
    (8..16).for_each(|number| put(&at, &format!("k{number}")));
    assert_eq!(keys(&at).len(), 16);
}

#[test]
fn what_has_one_of_two_shards_is_no_store() {
    let folder = Folder::new("one-of-two");
    let (backup, _) = folder.backup("first");
    let (own, other) = (folder.of("data"), folder.of("other"));
    let tables = ["--tables", "orders:replicated=1,flushed", "--data", &own];
    let of = [&tables[..], &["--shards", "2", "--memory", "16M"]].concat();
    let (primary, at) = folder.start("serve", &of, "shard 0 of 2 serves");
    let registry = folder.registry();
    let elsewhere = [&tables[..2], &["--data", &other, "--shards", "2"]].concat();
    let standby = Standby::start(&folder, &free_address(), &elsewhere);
    let (status, _, sentence) = run(&["kv", "move", "--registry", &registry]);
    assert!(status == Some(2) && sentence.contains("at its address only"), "{sentence}");
    drop(standby.server);
    common::until("its backup has the log", || {
        let listing = run(&["kv", "status", "--registry", &registry, "--at", &at]).1;
        listing.contains("is whole and counts")
    });
    drop((primary, backup));
    let (data, file) = (folder.of("first"), folder.of("file"));
    let export = ["kv", "backup", "--data", &data, "--export", &file];
    let (status, _, sentence) = run(&export);
    assert!(
        status == Some(1) && sentence.contains("has 1 of 2 shards of its store, and lacks 1;"),
        "{sentence}"
    );
    let (status, told, sentence) = run(&[&export[..], &["--partial"]].concat());
    assert!(status == Some(0) && told.contains("0 objects of 1 tables"), "{told}{sentence}");
}

#[test]
fn what_was_not_asked_or_compared_has_a_status_of_its_own() {
    let folder = Folder::new("not-asked");
    let (backup, _) = folder.backup("first");
    let (primary, at) = folder.primary("replicated=1", "none");
    put(&at, "a");
    let registry = folder.registry();
    let status = ["kv", "status", "--registry", &registry];
    let (code, listing, sentence) = run(&[&status[..], &["--transport", "basic+udp"]].concat());
    assert!(
        code == Some(2) && listing.is_empty() && sentence.contains("leave --transport out"),
        "{sentence}"
    );
    drop(backup);
    let (code, _, sentence) = kv(&at, &["scrub"]);
    assert!(code == Some(5) && sentence.contains("so nothing was compared"), "{sentence}");
    drop(primary);
    let (code, listing, sentence) = run(&status);
    assert!(listing.contains("shard 0: the last primary was"), "{listing}");
    assert!(code == Some(5) && sentence.contains("no store at"), "{sentence}");
}

#[test]
fn a_backup_whose_memory_is_full_is_passed_over() {
    let folder = Folder::new("full");
    // A log is longer from its begin on.
    let (_full, full) = folder.start("backup", &["--memory", "1M"], "backup at ");
    let (_primary, at) = folder.primary("replicated=1", "none");
    common::until("it says so", || kv(&at, &["status"]).1.contains(&format!("{full}/")));
    let (_roomy, roomy) = folder.start("backup", &[], "backup at ");
    put(&at, "a");
    let (_, listing, _) = kv(&at, &["status"]);
    assert!(listing.contains(&format!("{roomy}/")) && !listing.contains(&full), "{listing}");
    let size = ["kv", "serve", "--at", "127.0.0.1:1", "--data-size", "64M"];
    let (status, _, sentence) = run(&size);
    assert!(status == Some(2) && sentence.contains("--data-size is for a log"), "{sentence}");
}
