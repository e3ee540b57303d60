//! A replicated store whose registry is in etcd, which is paused, killed, and started again meanwhile.

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use common::etcd::Etcd;
use common::places::free_address;
use common::stores::{Folder, Server, keys, kv, put, run};

#[test]
fn a_store_outlives_everything_that_happens_to_its_etcd() {
    let own = Folder::new("etcd");
    let Some(mut etcd) = Etcd::start(&own) else { return };
    let folder = Folder::with_registry("etcd-store", &etcd.registry());
    let (_first, _) = folder.backup("first");
    let (_second, _) = folder.backup("second");
    let (primary, at) = folder.primary("replicated=2,flushed", "data");
    put(&at, "a");

    // Nothing on the way of a write asks the registry; a read waits for the lease.
    etcd.signal("-STOP");
    put(&at, "b");
    etcd.signal("-CONT");
    put(&at, "c");
    etcd.kill();
    put(&at, "d");
    // A command that looks for the store there asks it again.
    let mut get = Command::new(env!("CARGO_BIN_EXE_farcall"));
    get.args(["kv", "get", "d", "--table", "orders", "--registry", &folder.registry(), "--timeout", "60"]);
    let get = get.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs");
    etcd.start_again();
    let got = get.wait_with_output().expect("it is a child");
    assert!(got.status.success() && got.stdout == b"d", "{got:?}");
    read_again(&at, &["a", "b", "c", "d"]);

    // Who would be the primary waits for etcd, and for the lease of the one before.
    etcd.kill();
    drop(primary);
    let mut next = start_next(&folder, &at);
    let mut told = BufReader::new(next.0.stderr.take().expect("it is piped")).lines();
    let waits = told.next().expect("a line").expect("text");
    assert!(waits.contains("the registry at etcd://") && waits.ends_with("waiting for it"), "{waits}");
    etcd.start_again();
    let mut lines = BufReader::new(next.0.stdout.take().expect("it is piped")).lines();
    assert!(lines.any(|line| line.expect("text").starts_with("shard 0 of 1 serves")));
    put(&at, "e");
    read_again(&at, &["a", "b", "c", "d", "e"]);

    // An etcd that has lost everything: the primary ends, and nobody begins a new store over the old one.
    etcd.kill();
    std::fs::remove_dir_all(own.of("etcd")).expect("it is this test's");
    etcd.start_again();
    let ended = next.0.wait().expect("it is a child");
    assert_eq!(ended.code(), Some(1));
    let said = told.find_map(|line| line.ok().filter(|line| line.contains("lost its record")));
    assert!(said.is_some(), "it says why");
    let again = serve(&folder, &at);
    let again: Vec<&str> = again.iter().map(String::as_str).collect();
    let (status, _, sentence) = run(&again);
    assert!(status == Some(1) && sentence.contains("does not know; give the registry"), "{sentence}");
}

#[test]
fn a_primary_whose_etcd_is_silent_says_so_and_refuses_when_its_lease_is_over() {
    let own = Folder::new("silent");
    let Some(mut etcd) = Etcd::start(&own) else { return };
    let folder = Folder::with_registry("silent-store", &etcd.registry());
    let (_first, _) = folder.backup("first");
    let at = free_address();
    let mut farcall = Command::new(env!("CARGO_BIN_EXE_farcall"));
    farcall.args(["kv", "serve", "--at", &at, "--registry", &folder.registry(), "--memory", "16M"]);
    farcall.args(["--tables", "orders:replicated=1", "--lease", "0.5"]);
    let primary = farcall.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut primary = Server(primary.expect("the program runs"));
    let mut told = BufReader::new(primary.0.stderr.take().expect("it is piped")).lines();
    let mut said = |words: &str| {
        let line = told.find(|line| line.as_ref().is_ok_and(|line| line.contains(words)));
        assert!(line.is_some(), "it says {words}");
    };
    let (status, _, sentence) = kv(&at, &["put", "a", "1", "--table", "orders", "--timeout", "60"]);
    assert_eq!(status, Some(0), "{sentence}");
    etcd.kill();
    said("does not answer");
    let refused = ["put", "b", "1", "--table", "orders", "--timeout", "1"];
    let sentence = loop {
        let (status, _, sentence) = kv(&at, &refused);
        if status != Some(0) {
            break sentence;
        }
    };
    assert!(sentence.contains("since the registry has not answered for a lease"), "{sentence}");
    let (status, listing, _) = kv(&at, &["status"]);
    assert_eq!(status, Some(8), "{listing}");
    let is_said = listing.contains("does not answer") && listing.contains("the lease is over, and reads");
    assert!(is_said, "{listing}");
    etcd.start_again();
    said("the registry answers again");
    let (status, _, sentence) = kv(&at, &["put", "b", "1", "--table", "orders", "--timeout", "60"]);
    assert_eq!(status, Some(0), "{sentence}");
    assert_eq!(kv(&at, &["status"]).0, Some(0));
}

/// The arguments of the primary.
fn serve(folder: &Folder, at: &str) -> Vec<String> {
    let (registry, data) = (folder.registry(), folder.of("data"));
    let place = ["kv", "serve", "--at", at, "--registry", &registry, "--data", &data];
    let store = ["--tables", "orders:replicated=2,flushed", "--memory", "16M", "--lease", "0.5"];
    place.iter().chain(&store).map(|&word| word.to_owned()).collect()
}

fn start_next(folder: &Folder, at: &str) -> Server {
    let mut farcall = Command::new(env!("CARGO_BIN_EXE_farcall"));
    farcall.args(serve(folder, at));
    Server(farcall.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs"))
}

/// Reads until the store answers again, which takes until the lease is renewed.
fn read_again(at: &str, expected: &[&str]) {
    let (status, _, sentence) = kv(at, &["get", "a", "--table", "orders", "--timeout", "60"]);
    assert_eq!(status, Some(0), "{sentence}");
    assert_eq!(keys(at), expected);
}
