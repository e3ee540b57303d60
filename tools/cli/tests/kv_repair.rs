//! Bits that flip on the disks of stores that run, and of stores that do not: what is damaged is found, and
//! written again from copies that are whole.

mod common;

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::places::free_address;
use common::stores::{Folder, Server, keys, kv, put, run, start_by, whole_replicas};

/// What every value here has, and nothing else.
const MARK: &str = "marked-value-";

/// Nobody dies here of whom others do not know: on a busy machine they wait longer for each other, so that no
/// replica is made again where one is to be repaired.
const PATIENT: [&str; 2] = ["--set", "endpoint.peer_timeout=10s"];
const LEASE: [&str; 2] = ["--lease", "5"];

/// A store with a primary and two backups, with their folders.
struct Copies {
    folder: Folder,
    primary: Server,
    backups: [Server; 2],
    at: String,
}

impl Copies {
    fn new(name: &str) -> Self {
        let folder = Folder::new(name);
        let backups = ["first", "second"].map(|name| {
            let data = folder.of(name);
            let more = [&["--data", &data], &PATIENT[..]].concat();
            folder.start("backup", &more, "backup at ").0
        });
        let data = folder.of("primary");
        let more = ["--tables", "orders:replicated=2,flushed", "--data", &data, "--memory", "16M"];
        let more = [&more[..], &PATIENT, &LEASE].concat();
        let (primary, at) = folder.start("serve", &more, "shard 0 of 1 serves");
        for number in 0..8 {
            put(&at, &format!("{MARK}{number}"));
        }
        assert_eq!(whole_replicas(&at), 2);
        Self { folder, primary, backups, at }
    }

    /// The file with the log that the process of this name has.
    fn file(&self, name: &str) -> PathBuf {
        file_in(Path::new(&self.folder.of(name)))
    }

    fn scrub(&self, more: &[&str]) -> (Option<i32>, String, String) {
        kv(&self.at, &[&["scrub", "--timeout", "60"], more].concat())
    }

    /// What the logs hold, however long the files are.
    fn are_same(&self) -> bool {
        let [log, first, second] = ["primary", "first", "second"].map(|name| read(&self.file(name)));
        let bytes = log.len().min(first.len()).min(second.len());
        log[..bytes] == first[..bytes] && log[..bytes] == second[..bytes]
    }
}

fn file_in(folder: &Path) -> PathBuf {
    let entries = fs::read_dir(folder).expect("a folder");
    let is_log = |path: &PathBuf| path.extension().is_some_and(|end| end == "log" || end == "replica");
    let mut logs = entries.map(|entry| entry.expect("readable").path()).filter(is_log);
    logs.next().expect("it has a log")
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).expect("it is there")
}

/// Flips a bit of this value on a disk, as the disk itself may do.
fn flip(path: &Path, value: &str, bit: u32) {
    let content = read(path);
    let wanted = format!("{MARK}{value}");
    let found = content.windows(wanted.len()).position(|bytes| bytes == wanted.as_bytes());
    let at = found.expect("the log has the value") + MARK.len();
    let file = OpenOptions::new().write(true).open(path).expect("it is this test's");
    file.write_all_at(&[content[at] ^ 1 << bit], at as u64).expect("room");
    file.sync_all().expect("a disk");
}

#[test]
fn a_bit_that_flips_at_one_copy_is_found_and_written_again_while_all_runs() {
    let copies = Copies::new("flips");
    assert_eq!(copies.scrub(&[]).0, Some(0), "all is whole");
    for damaged in ["first", "second", "primary"] {
        flip(&copies.file(damaged), "3", 0);
        let (status, listing, sentence) = copies.scrub(&[]);
        assert_eq!(status, Some(7), "{damaged}: {listing}{sentence}");
        assert!(sentence.contains("1 parts of logs are damaged, and whole elsewhere"), "{sentence}");
        assert_eq!(listing.contains("at the primary:"), damaged == "primary", "{listing}");
        assert!(!copies.are_same(), "a comparison changes nothing");
        let (status, listing, sentence) = copies.scrub(&["--repair"]);
        assert_eq!(status, Some(6), "{damaged}: {listing}{sentence}");
        assert!(listing.contains("was written again") && listing.contains("compared again"), "{listing}");
        assert!(copies.are_same(), "{damaged}");
        assert_eq!(copies.scrub(&["--repair"]).0, Some(0), "{damaged}");
    }
    put(&copies.at, "after");
    assert_eq!(whole_replicas(&copies.at), 2, "no replica was made again");
    let Copies { folder, primary, backups: _backups, .. } = copies;
    drop(primary);
    let (_next, at) = folder.primary("replicated=2,flushed", "primary");
    assert_eq!(keys(&at).len(), 9, "the repaired log has all");
}

#[test]
fn what_is_whole_at_no_copy_is_said_and_left_alone_and_the_rest_is_repaired() {
    let copies = Copies::new("nowhere");
    for (name, bit) in [("first", 0), ("second", 1), ("primary", 2)] {
        flip(&copies.file(name), "3", bit);
    }
    let before = ["first", "second", "primary"].map(|name| read(&copies.file(name)));
    let (status, listing, sentence) = copies.scrub(&["--repair"]);
    assert_eq!(status, Some(7), "{listing}{sentence}");
    assert!(listing.contains("is whole at no copy") && sentence.contains("nothing was changed"), "{listing}");
    let after = ["first", "second", "primary"].map(|name| read(&copies.file(name)));
    assert!(before == after, "it is as it was");
    assert_eq!(keys(&copies.at).len(), 8, "the store still has it in memory");
}

#[test]
fn different_groups_that_are_damaged_at_different_copies_are_put_together() {
    let copies = Copies::new("together");
    for (name, value) in [("first", "2"), ("second", "5"), ("primary", "6")] {
        flip(&copies.file(name), value, 0);
    }
    let (status, listing, sentence) = copies.scrub(&["--repair"]);
    assert_eq!(status, Some(6), "{listing}{sentence}");
    assert!(copies.are_same());
}

#[test]
fn a_primary_whose_log_was_damaged_while_it_was_off_reads_a_replica_and_says_so() {
    let Copies { folder, primary, backups: _backups, .. } = Copies::new("off");
    drop(primary);
    flip(&file_in(Path::new(&folder.of("primary"))), "3", 0);
    let mut farcall = Command::new(env!("CARGO_BIN_EXE_farcall"));
    let at = free_address();
    let (registry, data) = (folder.registry(), folder.of("primary"));
    farcall.args(["kv", "serve", "--at", &at, "--registry", &registry, "--data", &data]);
    farcall.args(["--tables", "orders:replicated=2,flushed", "--memory", "16M"]);
    let started = farcall.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs");
    let mut server = Server(started);
    let mut out = BufReader::new(server.0.stdout.take().expect("it is piped")).lines();
    assert!(out.any(|line| line.expect("text").starts_with("shard 0 of 1 serves")));
    let mut expected: Vec<String> = (0..8).map(|number| format!("{MARK}{number}")).collect();
    expected.sort_unstable();
    put(&at, "z");
    expected.push("z".to_owned());
    assert_eq!(keys(&at), expected);
    server.0.kill().expect("it is ours");
    let mut told = String::new();
    server.0.stderr.take().expect("it is piped").read_to_string(&mut told).expect("text");
    assert!(told.contains("acknowledged writes are damaged: segment"), "{told}");
    assert!(told.contains("reading a replica instead"), "{told}");
}

#[test]
fn a_log_without_replicas_that_is_damaged_is_moved_away_and_restored_as_the_sentence_says() {
    let folder = Folder::new("alone");
    let (data, saved) = (folder.of("data"), folder.of("saved"));
    let more = ["--tables", "orders:flushed", "--data", &data, "--memory", "16M"];
    let (server, at) = folder.start_alone(&more);
    (0..8).for_each(|number| put(&at, &format!("{MARK}{number}")));
    drop(server);
    let export = ["kv", "backup", "--data", &data, "--export", &saved];
    assert_eq!(run(&export).0, Some(0));
    let log = file_in(Path::new(&data));
    flip(&log, "3", 0);
    let before = read(&log);
    let (status, _, sentence) = run(&[&["kv", "serve", "--at", "127.0.0.1:1"], &more[..]].concat());
    assert_eq!(status, Some(1), "{sentence}");
    assert!(sentence.contains("acknowledged writes are damaged"), "{sentence}");
    assert!(sentence.contains("move it away and bring the last file of"), "{sentence}");
    assert!(read(&log) == before, "nothing was changed");
    fs::rename(&log, folder.of("damaged")).expect("it is this test's");
    let (_server, at) = folder.start_alone(&more);
    let (status, _, sentence) = kv(&at, &["restore", &saved]);
    assert_eq!(status, Some(0), "{sentence}");
    assert_eq!(keys(&at).len(), 8);
}

#[test]
fn a_log_without_replicas_is_read_while_it_serves_and_its_damage_is_said() {
    let folder = Folder::new("alone-read");
    let data = folder.of("data");
    let (_server, at) =
        folder.start_alone(&["--tables", "orders:flushed,cache", "--data", &data, "--memory", "16M"]);
    for number in 0..8 {
        put(&at, &format!("{MARK}{number}"));
    }
    let (status, listing, sentence) = kv(&at, &["scrub"]);
    assert_eq!(status, Some(0), "{listing}{sentence}");
    assert!(listing.contains("read, of which there are no replicas"), "{listing}");
    // A superblock is known to the store, whatever the disk has of it.
    let log = file_in(Path::new(&data));
    let file = OpenOptions::new().write(true).open(&log).expect("it is this test's");
    file.write_all_at(&[0xff; 8], 64 << 10).expect("room");
    let (status, listing, sentence) = kv(&at, &["scrub"]);
    assert_eq!(status, Some(7), "{listing}{sentence}");
    let (status, listing, sentence) = kv(&at, &["scrub", "--repair"]);
    assert_eq!(status, Some(6), "{listing}{sentence}");
    assert_eq!(kv(&at, &["scrub"]).0, Some(0));
    flip(&log, "3", 0);
    let (status, listing, sentence) = kv(&at, &["scrub", "--repair"]);
    assert_eq!(status, Some(7), "{listing}{sentence}");
    assert!(listing.contains("is whole at no copy") && sentence.contains("kv export"), "{listing}{sentence}");
    assert_eq!(keys(&at).len(), 8, "what the store has can be read");
}

#[test]
fn what_is_wrong_with_arguments_is_said_in_a_sentence_that_is_true() {
    let folder = Folder::new("sentences");
    let file = folder.of("file");
    fs::write(&file, "content").expect("room");
    let serve = ["kv", "serve", "--at", "127.0.0.1:1"];
    let (status, _, sentence) = run(&[&serve[..], &["--tables", "a:flushed", "--data", &file]].concat());
    assert!(status == Some(2) && sentence.contains("is a file, and a log needs a directory"), "{sentence}");
    let registry = folder.registry();
    let backup = ["kv", "backup", "--at", "127.0.0.1:1", "--registry", &registry, "--data", &file];
    let (status, _, sentence) = run(&backup);
    assert!(status == Some(1) && sentence.contains("is a file, and replicas need a directory"), "{sentence}");
    for tables in [&["--tables", "a,a"][..], &["--tables", "a", "--tables", "b,a:flushed"]] {
        let (status, _, sentence) = run(&[&serve[..], tables].concat());
        assert!(status == Some(2) && sentence.contains("--tables names `a` twice"), "{sentence}");
    }
    assert_eq!(read(Path::new(&file)), b"content");
}

#[test]
fn a_process_without_the_key_of_a_store_is_told_that_the_store_has_one() {
    let folder = Folder::new("key");
    let key = folder.of("key-file");
    assert_eq!(run(&["key", "generate", &key]).0, Some(0));
    let with_key = ["env", &format!("FARCALL_SECURITY_KEY_FILE={key}")];
    let more = ["--shards", "2", "--memory", "16M"];
    let (_first, at) = start_by(&with_key, "serve", &more, "shard 0 of 2 serves");
    let told = format!("farcall: the store at {at} has a cluster key, and this process has none");
    let (status, _, sentence) = kv(&at, &[&["serve", "--shard", "1"], &more[..]].concat());
    assert!(status == Some(1) && sentence.starts_with(&told), "{sentence}");
    let (status, _, sentence) = kv(&at, &["get", "a"]);
    assert!(status == Some(1) && sentence.starts_with(&told), "{sentence}");
    assert!(sentence.contains("set FARCALL_SECURITY_KEY_FILE"), "{sentence}");
}
