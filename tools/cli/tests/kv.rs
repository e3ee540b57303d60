//! The store as a service, used from a shell.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use common::places::free_address;
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
        // The port may be another's by now: then the next one is tried.
        (0..100)
            .find_map(|_| {
                let at = free_address();
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
    assert_eq!(line, format!("shard 1 of 8 of the store at {at} serves over basic+udp"));
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
    let refused = |shards: &str, transport: &str| {
        let serve = ["kv", "serve", "--at", &at, "--memory", "16M", "--shard", "1"];
        sentence(&[&serve[..], &["--shards", shards, "--transport", transport]].concat(), 2)
    };
    let of_three = format!(
        "farcall: shard 0 at {at} is one of 2, and shard 1 would be one of 3; give all shards the same --shards"
    );
    assert_eq!(refused("3", "basic+udp"), of_three);
    let of_homa =
        format!("farcall: the store at {at} serves over basic+udp, not over homa+udp; leave --transport out");
    assert_eq!(refused("2", "homa+udp"), of_homa);
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
fn clients_and_other_shards_find_out_the_transport() {
    let (_first, at, _) = Shard::serve_first(&["--shards", "2", "--transport", "basic+udp"]);
    let (_second, line) = Shard::serve(&at, &["--shards", "2", "--shard", "1"]).expect("it finds shard 0");
    assert_eq!(line, format!("shard 1 of 2 of the store at {at} serves over basic+udp"));
    let kv = |arguments: &[&str]| farcall(&[&["kv"], arguments, &["--at", &at]].concat());
    for number in 0..8 {
        let put = kv(&["put", &format!("key {number}"), "-5", "--slots", "never"]);
        assert!(put.status.success(), "{}", String::from_utf8_lossy(&put.stderr));
    }
    let listing = kv(&["scan"]);
    assert_eq!(String::from_utf8_lossy(&listing.stdout).lines().count(), 8, "of both shards");
    let other = sentence(&["kv", "scan", "--at", &at, "--transport", "homa+udp"], 2);
    let expected =
        format!("the store at {at} serves over basic+udp, not over homa+udp; leave --transport out");
    assert_eq!(other, format!("farcall: {expected}"));
    let taken = sentence(&["kv", "serve", "--at", &at, "--shards", "2", "--shard", "1"], 1);
    assert!(taken.starts_with(&format!("farcall: shard 1 of the store at {at} runs already")), "{taken}");
    let again = sentence(&["kv", "serve", "--at", &at], 1);
    assert!(again.starts_with(&format!("farcall: cannot serve a store at {at}: ")), "{again}");
}

#[test]
fn what_does_not_answer_is_waited_for_as_long_as_the_command_line_says() {
    // It takes connections and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = silent.local_addr().expect("bound").to_string();
    let found = sentence(&["kv", "get", "k", "--at", &at, "--timeout", "0.3"], 5);
    assert!(found.starts_with(&format!("farcall: no store at {at} within 300ms: ")), "{found}");
    let shard = ["kv", "serve", "--shards", "2", "--shard", "1", "--at", &at, "--timeout", "0.3"];
    let found = sentence(&shard, 5);
    assert!(found.starts_with(&format!("farcall: no shard 0 at {at} within 300ms: ")), "{found}");
    assert!(found.contains("start it first"), "{found}");
}

#[test]
fn a_store_that_comes_within_the_time_of_the_command_line_is_found() {
    let (first, at, _) = Shard::serve_first(&[]);
    drop(first);
    let none = sentence(&["kv", "put", "k", "v", "--at", &at], 5);
    assert_eq!(none, format!("farcall: no store at {at}; start one with `farcall kv serve`"));
    let mut put = Command::new(env!("CARGO_BIN_EXE_farcall"));
    put.args(["kv", "put", "k", "v", "--at", &at, "--timeout", "60"]).stdout(Stdio::piped());
    let put = put.spawn().expect("the program runs");
    let (_store, _) = Shard::serve(&at, &[]).expect("the port is free again");
    let put = put.wait_with_output().expect("it is a child");
    assert!(put.status.success() && put.stdout == b"version 1\n", "{put:?}");
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
    let ended = |status: i32, text: &str| (Some(status), String::new(), format!("farcall: {text}\n"));
    let failed = |text: &str| ended(1, text);
    let not_found = |text: &str| ended(3, text);
    assert_eq!(kv(&["put", "k", "v"]), said("version 1\n"));
    assert_eq!(kv(&["get", "k"]), said("v"), "the value as it is");
    assert_eq!(
        kv(&["put", "k", "w", "--if-absent"]),
        ended(4, "the condition does not hold: the object has version 1")
    );
    assert_eq!(kv(&["put", "k", "w", "--if-version", "1"]), said("version 2\n"));
    assert_eq!(kv(&["put", "f", "--file", "/proc/self/comm"]), said("version 3\n"));
    assert_eq!(kv(&["get", "f"]), said("farcall\n"));
    let other = kv(&["delete", "k", "--if-version", "9"]);
    assert_eq!(other, ended(4, "the condition does not hold: the object has version 2"));
    let absent = kv(&["put", "none", "v", "--if-version", "9"]);
    assert_eq!(absent, ended(4, "the condition does not hold: there is no such object"));
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
    assert_eq!(kv(&["get", "k"]), not_found("there is no object `k` in table `default`"));
    assert_eq!(kv(&["get", "k", "--table", "none"]), not_found("there is no table `none`"));
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
    let too_long = "farcall: the value in standard input is longer than the limit of 1048576 bytes; \
                    `farcall kv import` takes strings of Redis clients that are longer\n";
    assert_eq!(piped(&vec![1; 2 << 20]), (Some(2), too_long.to_owned()));
    let (status, json, _) = kv(&["stat", "--json", "-"]);
    let shard_object: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(
        (status, &shard_object["objects"], &shard_object["tables"][0]),
        (Some(0), &4.into(), &"default".into())
    );
    assert_eq!(kv(&["scrub"]), said("shard 0: it has no log\n"));
    assert_eq!(kv(&["drop", "none"]), not_found("there is no table `none`"));
    assert_eq!(kv(&["drop", "default"]), said("dropped table default\n"));
    assert_eq!(kv(&["get", "f"]), not_found("there is no table `default`"));
    drop(shard);
    for command in [&["get", "k"][..], &["put", "k", "v"], &["scan"], &["stat"]] {
        assert_eq!(kv(command), ended(5, &format!("no store at {at}; start one with `farcall kv serve`")));
    }
    let only = kv(&["get", "k", "--slots", "only"]);
    let sentence = format!("no store at {at} has a daemon on this host; start one with `farcall kv serve`");
    assert_eq!(only, ended(5, &sentence));
}

/// What a command of a store prints on standard output, and its status and sentence.
fn kv(at: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = farcall(&[&["kv"], arguments, &["--at", at]].concat());
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn said(text: &str) -> (Option<i32>, String, String) {
    (Some(0), text.to_owned(), String::new())
}

#[test]
fn several_objects_are_written_and_read_at_once() {
    let (_shard, at, _) = Shard::serve_first(&[]);
    assert_eq!(kv(&at, &["mput", "a", "1", "b", "-2", "c", ""]), said("a\t1\nb\t2\nc\t3\n"));
    assert_eq!(kv(&at, &["mget", "b", "a"]), said("b\t2\t-2\na\t1\t1\n"));
    let (status, found, sentence) = kv(&at, &["mget", "x", "c", "y"]);
    assert_eq!((status, &*found), (Some(3), "c\t3\t\n"), "what is there is printed");
    assert_eq!(sentence, "farcall: there is no object `x`, `y` in table `default`\n");
    let (status, written, sentence) = kv(&at, &["mput", "a", "9", "d", "4", "--if-absent"]);
    assert_eq!((status, &*written), (Some(4), "d\t4\n"));
    assert_eq!(sentence, "farcall: the condition does not hold: there is an object `a`\n");
    assert_eq!(
        sentence_of(&at, &["mput", "a", "1", "b"]),
        (Some(2), "key `b` has no value behind it".into())
    );
    let none = sentence_of(&at, &["mget", "a", "--table", "none"]);
    assert_eq!(none, (Some(3), "there is no table `none`".into()));
}

fn sentence_of(at: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let (status, _, error) = kv(at, arguments);
    let sentence = error.strip_prefix("farcall: ").unwrap_or(&error).trim_end();
    (status, sentence.to_owned())
}

#[test]
fn keys_of_any_bytes_are_written_as_scan_prints_them() {
    let (_shard, at, _) = Shard::serve_first(&[]);
    assert_eq!(kv(&at, &["put", r"\xff\x00", r"\n", "--escaped"]), said("version 1\n"));
    assert_eq!(
        kv(&at, &["put", r"\x41", "text"]),
        said("version 2\n"),
        "nothing is escaped unless it is said"
    );
    assert_eq!(kv(&at, &["scan", "--prefix", r"\xff", "--escaped"]), said("\\xff\\x00\t1\t\\n\n"));
    assert_eq!(kv(&at, &["scan", "--prefix", r"\xff", "--escaped", "--keys"]), said("\\xff\\x00\t1\n"));
    assert_eq!(kv(&at, &["scan", "--prefix", "\\x4", "--keys"]), said("\\\\x41\t2\n"));
    assert_eq!(kv(&at, &["get", r"\xff\x00", "--escaped"]), said("\n"));
    let (_, json, _) = kv(&at, &["get", r"\xff\x00", "--escaped", "--json", "-"]);
    let object: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((&object["key_base64"], &object["value"]), (&"/wA=".into(), &"\n".into()));
    assert_eq!(kv(&at, &["delete", r"\xff\x00", "--escaped"]), said("deleted version 1\n"));
    let (status, sentence) = sentence_of(&at, &["get", r"\q", "--escaped"]);
    assert!(status == Some(2) && sentence.contains("escapes nothing"), "{sentence}");
}

#[test]
fn a_table_goes_through_a_file_and_comes_back() {
    let (_shard, at, _) = Shard::serve_first(&[]);
    let folder = std::env::temp_dir().join(format!("farcall-test-kv-export-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("objects.jsonl");
    let path = file.to_str().expect("text");
    let long = "long".repeat(20_000);
    let objects = [("a", "1"), (r"\xff", r"\x00\xfe"), ("long", &*long)];
    for (key, value) in objects {
        let put = kv(&at, &["put", key, value, "--escaped"]);
        assert_eq!(put.0, Some(0), "{}", put.2);
    }
    assert_eq!(kv(&at, &["export", path]), said("3 objects\n"));
    let again = sentence_of(&at, &["export", path]);
    assert!(
        again.0 == Some(1) && again.1.starts_with(&format!("{path} is there already, and")),
        "{}",
        again.1
    );
    assert_eq!(
        sentence_of(&at, &["import", path, "--table", "b"]),
        (Some(3), "there is no table `b`".into())
    );
    assert_eq!(kv(&at, &["create", "b"]), said("created table b\n"));
    assert_eq!(kv(&at, &["import", path, "--table", "b"]), said("3 objects\n"));
    for (key, _) in objects {
        let of = |table| kv(&at, &["get", key, "--escaped", "--json", "-", "--table", table]).1;
        let value = |table| {
            let object: Value = serde_json::from_str(&of(table)).expect("JSON");
            (object["value"].clone(), object["value_base64"].clone())
        };
        assert_eq!(value("b"), value("default"), "{key}");
    }
    let there = kv(&at, &["import", path, "--table", "b", "--if-absent"]);
    assert_eq!(there, said("0 objects; 3 were there already\n"));
    let lines = "{\"key\":\"x\",\"value\":\"1\"}\n{\"key\":\"y\"}\n";
    std::fs::write(&file, lines).expect("it can be written");
    let half = sentence_of(&at, &["import", path]);
    let expected = format!(
        "{path}, line 2: it has neither `value` nor `value_base64`; 1 objects of the lines before it were written"
    );
    assert_eq!(half, (Some(1), expected));
    assert_eq!(kv(&at, &["get", "x"]), said("1"));
    std::fs::remove_dir_all(folder).expect("it is this test's");
}

#[test]
fn an_object_is_watched() {
    let (_shard, at, _) = Shard::serve_first(&[]);
    let mut watch = Command::new(env!("CARGO_BIN_EXE_farcall"));
    watch.args(["kv", "watch", "k", "--at", &at, "--every", "0.01", "--limit", "4"]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().expect("the program runs");
    let mut lines = BufReader::new(watch.stdout.take().expect("it is piped")).lines();
    let mut next = || lines.next().expect("a line").expect("text");
    assert_eq!(next(), "k\tis not there");
    assert_eq!(kv(&at, &["put", "k", "v"]), said("version 1\n"));
    assert_eq!(next(), "k\t1\tv");
    assert_eq!(kv(&at, &["put", "k", "w"]), said("version 2\n"));
    assert_eq!(next(), "k\t2\tw");
    assert_eq!(kv(&at, &["delete", "k"]), said("deleted version 2\n"));
    assert_eq!(next(), "k\tis not there");
    assert!(watch.wait().expect("it ends").success());
}

#[test]
fn a_store_that_others_could_reach_says_so_and_does_not_start() {
    let end = "may read, change and delete everything; give --allow any if all of them may";
    let refusals: [(&[&str], &str); 7] = [
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
            &["--transport", "tcp", "--set", "tcp.bind_address=192.0.2.2"],
            "tcp.bind_address=192.0.2.2 is not a loopback address: whoever reaches it",
        ),
        (
            &["--transport", "tcp+tls", "--set", "tcp.bind_address=192.0.2.2"],
            "tcp.bind_address=192.0.2.2 is not a loopback address: whoever reaches it",
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
    let health = sentence(&["kv", "serve", "--health", "0.0.0.0:7119"], 2);
    assert!(health.contains("--health 0.0.0.0:7119 is 0.0.0.0, which is not a loopback address"), "{health}");
    assert!(
        health.ends_with("learns whether the shard lives; give --allow any if all of them may"),
        "{health}"
    );
    let registry = format!("file:{}", std::env::temp_dir().join("no-registry").display());
    let backup = ["kv", "serve", "--backup", "0.0.0.0:7300", "--registry", &registry];
    let backup = sentence(&[&backup[..], &["--tables", "orders:replicated=1"]].concat(), 2);
    assert!(backup.contains("--backup 0.0.0.0:7300 is 0.0.0.0, which is not a loopback"), "{backup}");
    // It is meant for all: what is wrong now is that the address is not this machine's.
    let meant = sentence(&["kv", "serve", "--at", "192.0.2.77:7117", "--allow", "any"], 1);
    assert!(!meant.contains("--allow"), "{meant}");
}
