//! The store as a service, used from a shell.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use common::{farcall, sentence};
use farcall_kv::wire::shard_of;
use farcall_kv::{Name, TableId};
use serde_json::Value;

/// A store's shard, ended when the test is over.
struct Shard(Child);

impl Drop for Shard {
    fn drop(&mut self) {
        // Both fail only when it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Shard {
    /// Starts a shard, and gives what it says when it serves; nothing if it cannot.
    fn serve(at: &str, more: &[&str]) -> Option<(Self, String)> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_farcall"));
        command.args(["kv", "serve", "--at", at, "--memory", "16M"]).args(more);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut shard = Self(command.spawn().expect("the program runs"));
        let mut lines = BufReader::new(shard.0.stdout.take().expect("it is piped")).lines();
        lines.next().map(|line| (shard, line.expect("lines are text")))
    }

    /// Starts shard 0 of a store, at a place that is free.
    fn serve_first(more: &[&str]) -> (Self, String, String) {
        // The port may be another's: then the next one is tried.
        static ATTEMPTS: AtomicU32 = AtomicU32::new(0);
        (0..100)
            .find_map(|_| {
                let attempt = ATTEMPTS.fetch_add(1, Ordering::Relaxed);
                let at = format!("127.0.0.1:{}", 20_000 + (std::process::id() + attempt * 331) % 20_000);
                Self::serve(&at, more).map(|(shard, line)| (shard, at, line))
            })
            .expect("a free port")
    }
}

#[test]
fn shards_that_start_one_after_the_other_pass_requests_on_while_others_are_absent() {
    let of_eight = |shard| ["--shards", "8", "--shard", shard, "--transport", "basic+udp"];
    let (_first, at, _) = Shard::serve_first(&of_eight("0"));
    let (_second, line) = Shard::serve(&at, &of_eight("1")).expect("it finds shard 0");
    assert_eq!(line, format!("shard 1 of 8 serves at {at} over basic+udp"));
    let table = TableId::of("default").expect("short");
    let of_second = |key: &String| {
        let name = Name::new(table, key.as_bytes()).expect("a good key");
        shard_of(name, 8) == 1
    };
    let key = (0..).map(|number| format!("key {number}")).find(of_second).expect("some are");
    // The slots of this host that are looked at first are those of shard 0.
    let put = farcall(&["kv", "put", &key, "v", "--slots", "only", "--at", &at]);
    assert!(put.status.success(), "{}", String::from_utf8_lossy(&put.stderr));
}

#[test]
fn a_shard_that_would_be_of_another_store_is_refused() {
    let (_first, at, _) = Shard::serve_first(&["--shards", "2", "--transport", "basic+udp"]);
    for (shards, transport) in [("3", "basic+udp"), ("2", "homa+udp")] {
        let serve = ["kv", "serve", "--at", &at, "--memory", "16M", "--shard", "1"];
        let refused = sentence(&[&serve[..], &["--shards", shards, "--transport", transport]].concat(), 2);
        let expected = format!(
            "farcall: shard 0 at {at} is one of 2 over basic+udp, and shard 1 would be one of {shards} over \
             {transport}; give all shards the same --shards and --transport"
        );
        assert_eq!(refused, expected);
    }
    assert!(Shard::serve(&at, &["--shards", "2", "--shard", "1", "--transport", "basic+udp"]).is_some());
}

#[test]
fn a_name_of_the_loopback_address_leads_to_the_same_slots_and_values_may_be_negative() {
    let (_shard, at, _) = Shard::serve_first(&[]);
    let port = at.rsplit_once(':').expect("a host and a port").1;
    let named = format!("localhost:{port}");
    let put = farcall(&["kv", "put", "n", "-5", "--slots", "only", "--at", &named]);
    assert!(put.status.success(), "{}", String::from_utf8_lossy(&put.stderr));
    let got = farcall(&["kv", "get", "n", "--slots", "only", "--at", &at]);
    assert_eq!(got.stdout, b"-5");
}

#[test]
fn a_store_is_used_from_a_shell() {
    let (shard, at, line) = Shard::serve_first(&[]);
    assert_eq!(line, format!("shard 0 of 1 serves at {at} over ring+shm"));
    let kv = |arguments: &[&str]| {
        let output = farcall(&[&["kv"], arguments, &["--at", &at]].concat());
        (
            output.status.code(),
            String::from_utf8(output.stdout).expect("text"),
            String::from_utf8(output.stderr).expect("text"),
        )
    };
    let said = |text: &str| (Some(0), text.to_owned(), String::new());
    let failed = |text: &str| (Some(1), String::new(), format!("farcall: {text}\n"));
    assert_eq!(kv(&["put", "k", "v"]), said("version 1\n"));
    assert_eq!(kv(&["get", "k"]), said("v"), "the value as it is");
    assert_eq!(
        kv(&["put", "k", "w", "--if-absent"]),
        failed("the object has version 1, not the one that was asked for")
    );
    assert_eq!(kv(&["put", "k", "w", "--if-version", "1"]), said("version 2\n"));
    assert_eq!(kv(&["put", "f", "--file", "/proc/self/comm"]), said("version 3\n"));
    assert_eq!(kv(&["get", "f"]), said("farcall\n"));
    assert_eq!(kv(&["incr", "n", "5"]), said("5\n"));
    assert_eq!(kv(&["incr", "n", "-7"]), said("-2\n"));
    assert_eq!(kv(&["incr", "k"]), failed("the object is not a decimal number from -2^63 to 2^63 - 1"));
    let (status, listing, _) = kv(&["scan"]);
    let mut lines: Vec<_> = listing.lines().collect();
    lines.sort_unstable();
    assert_eq!((status, lines), (Some(0), vec!["f\t3\tfarcall\\n", "k\t2\tw", "n\t5\t-2"]));
    let (status, json, _) = kv(&["get", "k", "--json", "-"]);
    let object: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((status, &object["value"], &object["version"]), (Some(0), &"w".into(), &2.into()));
    assert_eq!(kv(&["delete", "k"]), said("deleted version 2\n"));
    assert_eq!(kv(&["get", "k"]), failed("there is no object `k` in table `default`"));
    assert_eq!(kv(&["get", "k", "--table", "none"]), failed("there is no table `none`"));
    let long = "long".repeat(2000);
    let put = |way| kv(&["put", "long", &long, "--slots", way]);
    assert_eq!(put("only"), failed("a request of 8024 bytes is over the 4088 of a slot"));
    assert_eq!(put("auto"), said("version 6\n"), "what a slot cannot carry takes the network");
    let get = |key, way| kv(&["get", key, "--slots", way]);
    assert_eq!(get("long", "only"), failed("the answer is longer than a slot"));
    assert_eq!((get("long", "auto"), get("long", "never")), (said(&long), said(&long)));
    assert_eq!((get("f", "only"), get("f", "never")), (said("farcall\n"), said("farcall\n")));
    let (status, _, error) = kv(&["get", "f", "--slots", "sometimes"]);
    assert!(status == Some(2) && error.contains("choose from auto, only, never"), "{error}");
    let piped = |bytes: &[u8]| {
        let mut put = Command::new(env!("CARGO_BIN_EXE_farcall"));
        put.args(["kv", "put", "piped", "--at", &at]).stdin(Stdio::piped());
        put.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut put = put.spawn().expect("the program runs");
        // Of a value that is too long the program does not read the rest.
        let _ = Write::write_all(&mut put.stdin.take().expect("it is piped"), bytes);
        let output = put.wait_with_output().expect("it ends");
        (output.status.code(), String::from_utf8(output.stderr).expect("text"))
    };
    assert_eq!(piped(b"from\0a pipe\n"), (Some(0), String::new()));
    assert_eq!(get("piped", "auto"), said("from\0a pipe\n"));
    assert_eq!(piped(b""), (Some(0), String::new()));
    assert_eq!(get("piped", "auto"), said(""));
    let too_long = "farcall: a value of 1048577 bytes is over the limit of 1048576\n";
    assert_eq!(piped(&vec![1; 2 << 20]), (Some(2), too_long.to_owned()));
    let (status, json, _) = kv(&["stat", "--json", "-"]);
    let shard_object: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(
        (status, &shard_object["objects"], &shard_object["tables"][0]),
        (Some(0), &4.into(), &"default".into())
    );
    assert_eq!(kv(&["drop", "none"]), failed("there is no table `none`"));
    assert_eq!(kv(&["drop", "default"]), said("dropped table default\n"));
    assert_eq!(kv(&["get", "f"]), failed("there is no table `default`"));
    drop(shard);
    let (status, _, error) = kv(&["get", "k"]);
    assert_eq!(status, Some(1));
    assert!(error.contains("cannot be reached within 5s"), "{error}");
}

#[test]
fn a_store_that_others_could_reach_says_so_and_does_not_start() {
    let end = "may read, change and delete everything; give --allow any if all of them may";
    let refusals: [(&[&str], &str); 5] = [
        (
            &["--at", "192.0.2.2:7117"],
            "--at 192.0.2.2:7117 is 192.0.2.2, which is not a loopback address: whoever reaches it",
        ),
        (
            &["--at", "0.0.0.0:7117"],
            "--at 0.0.0.0:7117 is 0.0.0.0, which is not a loopback address: whoever reaches it",
        ),
        (&["--at", "[::]:7117"], "--at [::]:7117 is ::, which is not a loopback address: whoever reaches it"),
        (
            &["--transport", "basic+udp", "--set", "udp.bind_address=0.0.0.0"],
            "udp.bind_address=0.0.0.0 is not a loopback address: whoever reaches it",
        ),
        (
            &["--transport", "ucx"],
            "ucx also listens at other addresses of this machine: whoever reaches them",
        ),
    ];
    for (arguments, begin) in refusals {
        let arguments = [&["kv", "serve"], arguments].concat();
        assert_eq!(sentence(&arguments, 2), format!("farcall: {begin} {end}"), "{arguments:?}");
    }
    // It is meant for all: what is wrong now is that the address is not this machine's.
    let meant = sentence(&["kv", "serve", "--at", "192.0.2.77:7117", "--allow", "any"], 1);
    assert!(!meant.contains("--allow"), "{meant}");
}
