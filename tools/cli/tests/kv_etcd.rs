//! A replicated store whose registry is in etcd, which is paused, killed, and started again meanwhile.

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use common::etcd::Etcd;
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
