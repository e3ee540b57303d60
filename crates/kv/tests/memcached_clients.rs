//! A memcached client that others wrote: pymemcache. Where it is not installed it is reported and not tested;
//! `scripts/prepare redis-clients` installs it.

mod redis;

use std::path::PathBuf;
use std::process::Command;

use redis::Served;

#[test]
fn pymemcache_works() {
    let served = Served::start();
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target")), PathBuf::from);
    let python = target.join("redis-clients/python/bin/python");
    let is_there = |python: &PathBuf| Command::new(python).args(["-c", "import pymemcache"]).output();
    if !is_there(&python).is_ok_and(|output| output.status.success()) {
        println!("unsupported: pymemcache is not installed for {}", python.display());
        return;
    }
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/memcached/client.py");
    let output = Command::new(&python).args([program, &served.memcached, &served.address]).output();
    let output = output.expect("it was run before");
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{error}");
    assert_eq!(out, "done\n");
}
