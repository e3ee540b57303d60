//! Replicated tables, used from a shell: backups and primaries are killed, and nothing acknowledged is lost.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::places::free_address;
use common::stores::{Folder, Server, keys, kv, put, run, whole_replicas};
use common::{farcall, until};

#[test]
fn what_was_acknowledged_outlives_backups_and_primaries_that_are_killed() {
    for level in ["replicated=2", "replicated=2,flushed"] {
        let folder = Folder::new(level);
        let (first, _) = folder.backup("first");
        let (_second, _) = folder.backup("second");
        let (primary, at) = folder.primary(level, "primary");
        (0..5).for_each(|number| put(&at, &format!("a{number}")));
        assert_eq!(whole_replicas(&at), 2, "{level}");

        let wait_for = |name: &str, is_it: &dyn Fn(u64) -> bool| counter_of(&primary, name, is_it);
        for name in ["replicas_wanted", "replicas_whole"] {
            wait_for(name, &|replicas| replicas == 2);
        }
        let groups = wait_for("groups", &|groups| groups >= 5);
        wait_for("groups_under_256", &|small| small >= groups);
        // Each of two replicas was written to.
        wait_for("round_trips", &|trips| trips >= 10);

        // A write that reaches one of two replicas is no acknowledged one, and says so.
        drop(first);
        let (status, _, sentence) = kv(&at, &["put", "lonely", "1", "--table", "orders"]);
        assert_eq!(status, Some(8), "{level}: {sentence}");
        assert!(sentence.contains("too few backups"), "{sentence}");

        // Another backup takes the place, with all that the first had.
        let (_third, _) = folder.backup("third");
        (0..5).for_each(|number| put(&at, &format!("b{number}")));
        assert_eq!(whole_replicas(&at), 2, "{level}");
        let (status, compared, sentence) = kv(&at, &["scrub", "--timeout", "60"]);
        assert!(status == Some(0) && compared.contains("compared at 2 backups"), "{compared}{sentence}");

        // The primary goes with its disk; one that has nothing takes over.
        drop(primary);
        remove(&folder.of("primary"));
        let (next, at) = folder.primary(level, "next");
        // It waited for the lease of the last one, and read a replica, because it had nothing itself.
        let took = ["takeover_wait", "takeover_fetch"].map(|name| counter(&next, name));
        assert!(took.iter().all(|nanos| *nanos > 0), "{level}: {took:?}");
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
        // It is at another address, which the registry knows.
        let registry = folder.registry();
        let get = ["kv", "get", "c", "--table", "orders", "--registry", &registry, "--at", "127.0.0.1:1"];
        assert_eq!(run(&get), (Some(0), "c".to_owned(), String::new()), "{level}");
    }
}

#[test]
fn a_table_that_a_client_creates_has_its_level_also_at_the_next_primary() {
    let folder = Folder::new("created");
    let (backup, _) = folder.backup("first");
    let (primary, at) = folder.primary("replicated=1", "data");
    let create = |at: &str, table: &str, level: &str| kv(at, &["create", table, "--level", level]);
    // It waits until the backup has the log.
    put(&at, "a");
    let created = create(&at, "stock", "replicated=1");
    assert_eq!(created, (Some(0), "created table stock, replicated=1\n".to_owned(), String::new()));
    assert_eq!(kv(&at, &["put", "screws", "7", "--table", "stock", "--timeout", "60"]).0, Some(0));
    for level in ["replicated=2", "flushed", "replicated=1,flushed"] {
        let (status, _, sentence) = create(&at, "more", level);
        assert!(
            status == Some(1) && sentence.contains("survives less than the level"),
            "{level}: {sentence}"
        );
    }
    let (status, _, sentence) = create(&at, "more", "safe");
    assert!(status == Some(2) && sentence.contains("is no level of a table"), "{sentence}");
    drop(primary);
    let (_next, at) = folder.primary("replicated=1", "next");
    let get = kv(&at, &["get", "screws", "--table", "stock", "--timeout", "60"]);
    assert_eq!(get, (Some(0), "7".to_owned(), String::new()));
    // Without its backup it takes no more tables of that level.
    drop(backup);
    let (status, _, sentence) = create(&at, "more", "replicated=1");
    assert!(status == Some(8) && sentence.contains("too few backups"), "{sentence}");
}

#[test]
fn every_shard_of_a_store_has_replicas() {
    let folder = Folder::new("shards");
    let (_first, _) = folder.backup("first");
    let more = ["--tables", "orders:replicated=1", "--shards", "2", "--memory", "16M"];
    let (_shard, at) = folder.start("serve", &more, "shard 0 of 2 serves");
    // Nobody is there; the registry knows where shard 0 is.
    let _other = folder.shard("127.0.0.1:1", (1, 2), "replicated=1");
    (0..8).for_each(|number| put(&at, &format!("k{number}")));
    assert_eq!(keys(&at).len(), 8);
    let (_, listing, _) = kv(&at, &["status"]);
    assert_eq!(listing.lines().filter(|line| line.contains("is whole and counts")).count(), 2, "{listing}");
}

#[test]
fn what_a_directory_has_is_kept_in_a_file_and_restored_into_another_store() {
    let folder = Folder::new("restore");
    let (backup, _) = folder.backup("first");
    let (primary, at) = folder.primary("replicated=1,flushed", "data");
    ["a", "b", "c"].iter().for_each(|key| put(&at, key));
    assert_eq!(kv(&at, &["delete", "b", "--table", "orders", "--timeout", "60"]).0, Some(0));
    let (data, file) = (folder.of("first"), folder.of("file"));
    let export = ["kv", "backup", "--data", &data, "--export", &file];
    let (status, _, sentence) = run(&export);
    assert!(status == Some(1) && sentence.contains("in use by another process"), "{sentence}");
    drop((primary, backup));
    let (status, told, sentence) = run(&export);
    assert!(status == Some(0) && told.contains("2 objects of 1 tables"), "{told}{sentence}");
    let (status, _, sentence) = run(&export);
    assert!(
        status == Some(1) && sentence.contains("is there already"),
        "it may be the only copy: {sentence}"
    );

    let more = ["--tables", "orders:flushed", "--data", &folder.of("other"), "--memory", "16M"];
    let (_store, at) = folder.start_alone(&more);
    let (status, told, sentence) = kv(&at, &["restore", &file]);
    assert!(status == Some(0) && told.starts_with("2 objects"), "{told}{sentence}");
    assert_eq!(keys(&at), ["a", "c"]);
    fs::write(folder.of("none"), "{}\n").expect("room");
    let (status, _, sentence) = kv(&at, &["restore", &folder.of("none")]);
    assert!(status == Some(1) && sentence.contains("no file of `farcall kv backup --export`"), "{sentence}");
    let (_store, at) = folder.start_alone(&["--memory", "16M"]);
    let (status, _, sentence) = kv(&at, &["restore", &file]);
    assert!(status == Some(3) && sentence.contains("--tables orders:replicated=1,flushed"), "{sentence}");
}

#[test]
fn a_folder_is_of_one_store_and_of_one_process() {
    let folder = Folder::new("folders");
    let (_backup, _) = folder.backup("first");
    let shared = ["backup", "--at", "127.0.0.1:1", "--registry", &folder.registry(), "--data"];
    let (status, _, sentence) = run(&[&["kv"], &shared[..], &[&folder.of("first")]].concat());
    assert!(status == Some(1) && sentence.contains("in use by another backup"), "{sentence}");
    let alone = ["kv", "serve", "--at", "127.0.0.1:1", "--tables", "orders:flushed", "--data"];
    let (status, _, sentence) = run(&[&alone[..], &[&folder.of("first")]].concat());
    assert!(status == Some(1) && sentence.contains("in use by another backup, or by a store"), "{sentence}");
    {
        let (_alone, _) = folder.start_alone(&["--tables", "orders:flushed", "--data", &folder.of("alone")]);
        let (status, _, sentence) = run(&[&["kv"], &shared[..], &[&folder.of("alone")]].concat());
        assert!(status == Some(1) && sentence.contains("or by a store"), "{sentence}");
    }

    let (primary, at) = folder.primary("replicated=1,flushed", "data");
    put(&at, "a");
    let (status, _, sentence) = run(&[&["kv"], &shared[..], &[&folder.of("data")]].concat());
    assert!(status == Some(1) && sentence.contains("or by a store"), "{sentence}");
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
fn a_shard_moves_to_a_process_that_waits_for_it() {
    let folder = Folder::new("moves");
    let (_backup, _) = folder.backup("first");
    let (mut primary, at) = folder.primary("replicated=1", "none");
    put(&at, "a");
    let registry = folder.registry();
    let moves = ["kv", "move", "--registry", &registry];
    let (status, _, sentence) = run(&moves);
    assert!(status == Some(1) && sentence.contains("no process waits for shard 0"), "{sentence}");

    let to = free_address();
    let mut farcall = Command::new(env!("CARGO_BIN_EXE_farcall"));
    farcall.args(["kv", "serve", "--at", &to, "--registry", &registry, "--tables", "orders:replicated=1"]);
    let next = farcall.args(["--memory", "16M"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut next = Server(next.expect("the program runs"));
    let mut told = BufReader::new(next.0.stderr.take().expect("it is piped")).lines();
    assert!(told.any(|line| line.expect("text").contains("waiting for its end")));
    let (status, listing, sentence) = run(&moves);
    assert_eq!((status, &*sentence), (Some(0), ""), "{listing}");
    assert!(listing.starts_with(&format!("shard 0 is at {to}, and no more at {at}")), "{listing}");
    assert_eq!(primary.0.wait().expect("it is a child").code(), Some(0), "it ends well");
    let get = ["kv", "get", "a", "--table", "orders", "--registry", &registry, "--timeout", "60"];
    assert_eq!(run(&get), (Some(0), "a".to_owned(), String::new()));
    put(&to, "b");
    assert_eq!(keys(&to), ["a", "b"]);
}

#[test]
fn a_primary_that_stood_still_ends_and_the_next_one_serves_at_its_address() {
    let folder = Folder::new("still");
    let (_backup, _) = folder.backup("first");
    let (mut primary, at) = folder.primary("replicated=1", "none");
    put(&at, "a");
    let mut farcall = Command::new(env!("CARGO_BIN_EXE_farcall"));
    let tables = ["--tables", "orders:replicated=1", "--memory", "16M"];
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

#[test]
fn a_primary_with_nothing_to_do_sleeps() {
    /// More than what else it waits for in a minute.
    const SLEEPS: u64 = 1_000;
    let folder = Folder::new("idle");
    let (_first, _) = folder.backup("first");
    let (primary, at) = folder.primary("replicated=1", "primary");
    put(&at, "a");
    assert_eq!(whole_replicas(&at), 1);
    let (before, begun) = (waits(primary.0.id()), Instant::now());
    while waits(primary.0.id()) < before + SLEEPS {
        assert!(begun.elapsed() < Duration::from_secs(60), "it spins");
        std::thread::yield_now();
    }
    put(&at, "b");
}

/// How many times the first thread of a process has given up its core to wait for something. One that only
/// yields does not.
fn waits(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/task/{process}/status")).expect("it runs");
    let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count.and_then(|count| count.trim().parse().ok()).expect("Linux counts them")
}

/// A counter of a process, once it is not 0.
fn counter(server: &Server, name: &str) -> u64 {
    counter_of(server, name, &|value| value > 0)
}

/// A counter of a process, once it is as it should be: they are brought up to date now and then.
fn counter_of(server: &Server, name: &str, is_it: &dyn Fn(u64) -> bool) -> u64 {
    let mut value = 0;
    until(name, || {
        let (_, listing, _) = run(&["stat", &server.0.id().to_string()]);
        let line = listing.lines().find(|line| line.trim_start().starts_with(&format!("{name} ")));
        let text = line.unwrap_or_else(|| panic!("{name} is counted")).split_whitespace().nth(1);
        value = text.and_then(|value| value.parse().ok()).expect("a number");
        is_it(value)
    });
    value
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
