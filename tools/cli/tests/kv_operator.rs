//! What a store says to whoever operates it: names that lead nowhere, backups that come and go, primaries
//! that stand still, options and files that are of no use.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use common::stores::{Folder, LONG, Server, kv, put, run, start_saying};
use common::surroundings::place;
use common::{farcall, until};
use rustix::process::{Pid, Signal, kill_process};

/// A process of `farcall kv` whose words can be read.
fn start(arguments: &[&str]) -> Server {
    let mut farcall = Command::new(env!("CARGO_BIN_EXE_farcall"));
    farcall.arg("kv").args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    Server(farcall.spawn().expect("the program runs"))
}

fn errors(child: &mut Child) -> Lines<BufReader<ChildStderr>> {
    BufReader::new(child.stderr.take().expect("it is piped")).lines()
}

/// Reads lines up to one with these words.
fn read_to(lines: &mut impl Iterator<Item = std::io::Result<String>>, words: &str) -> String {
    let found = lines.map(|line| line.expect("text")).find(|line| line.contains(words));
    found.unwrap_or_else(|| panic!("it never says `{words}`"))
}

#[test]
fn a_registry_without_a_store_is_no_other_store() {
    let folder = Folder::new("typo");
    let (_store, at) = folder.start_alone(&["--memory", "16M"]);
    let typo = folder.of("typo");
    let registry = format!("file:{typo}");
    for command in [&["put", "stray", "1"][..], &["get", "stray"], &["status"], &["move"], &["export"]] {
        let (status, _, sentence) = kv(&at, &[command, &["--registry", &registry]].concat());
        assert_eq!(status, Some(5), "{command:?}: {sentence}");
        assert!(sentence.contains(&format!("the registry {registry} has no store")), "{sentence}");
    }
    assert!(!Path::new(&typo).exists(), "a look makes no folder");
    assert_eq!(kv(&at, &["get", "stray"]).0, Some(3), "it went nowhere");
}

#[test]
fn a_primary_says_that_it_waits_for_backups_that_one_is_lost_and_that_another_has_its_place() {
    let folder = Folder::new("says");
    let (registry, at) = (folder.registry(), place(40));
    let serve = ["serve", "--at", &at, "--registry", &registry, "--tables", "orders:replicated=1"];
    let mut primary = start(&[&serve[..], &["--memory", "16M", "--lease", "0.5"]].concat());
    let mut said = errors(&mut primary.0);
    read_to(&mut said, "shard 0 waits for a backup that takes its log");

    // What it has read nobody else has: it is the primary, and says what it lacks.
    let get = || kv(&at, &["get", "a", "--table", "orders", "--timeout", "1"]);
    let (mut status, mut sentence) = (None, String::new());
    until("it answers in time", || {
        (status, _, sentence) = get();
        status != Some(5)
    });
    assert_eq!(status, Some(8), "{sentence}");
    assert!(sentence.contains("too few backups hold the log"), "{sentence}");
    let (status, listing, sentence) = kv(&at, &["status"]);
    assert!(status == Some(8) && sentence.contains("the level is not reached now by shard 0"), "{sentence}");
    assert!(listing.contains("of the lease left, which is ten times as long until"), "{listing}");

    let (first, first_at) = folder.backup("first");
    read_to(&mut said, &format!("its log is at {first_at}"));
    put(&at, "a");
    assert_eq!(kv(&at, &["status"]).0, Some(0));
    drop(first);
    read_to(&mut said, &format!("shard 0 has lost the backup {first_at}"));
    let (_second, second_at) = folder.backup("second");
    let line = read_to(&mut said, &format!("its log is at {second_at}"));
    assert!(line.contains(&format!("in place of {first_at}")), "{line}");
}

#[test]
fn redis_clients_are_told_that_backups_are_missing_and_of_no_other_primary() {
    let folder = Folder::new("masterdown");
    let (registry, at) = (folder.registry(), place(41));
    let serve = ["serve", "--at", &at, "--registry", &registry, "--tables", "default:replicated=1"];
    let mut primary = start(&[&serve[..], &["--memory", "16M", "--resp", "127.0.0.1:0"]].concat());
    let mut told = BufReader::new(primary.0.stdout.take().expect("it is piped")).lines();
    let line = read_to(&mut told, "Redis clients connect to ");
    let door = line.rsplit(' ').next().expect("an address");
    for command in ["GET a", "SET a 1"] {
        let answer = ask(door, command);
        assert!(answer.starts_with("-NOREPLICAS "), "{command}: {answer}");
    }
}

/// The first line of the answer to a command of Redis.
fn ask(door: &str, command: &str) -> String {
    let mut stream = TcpStream::connect(door).expect("it listens");
    stream.set_read_timeout(Some(LONG)).expect("a socket");
    stream.write_all(format!("{command}\r\n").as_bytes()).expect("it reads");
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).expect("an answer");
    line
}

#[test]
fn clients_with_a_registry_find_the_next_primary_while_the_last_one_stands_still() {
    let folder = Folder::new("stands");
    let (_backup, _) = folder.backup("first");
    let (primary, at) = folder.primary("replicated=1", "none");
    put(&at, "a");
    let (registry, next_at) = (folder.registry(), place(42));
    let serve = ["serve", "--at", &next_at, "--registry", &registry, "--tables", "orders:replicated=1"];
    let mut next = start(&[&serve[..], &["--memory", "16M", "--lease", "0.5"]].concat());
    read_to(&mut errors(&mut next.0), "waiting for its end");
    kill_process(Pid::from_child(&primary.0), Signal::STOP).expect("it is ours");
    let by_registry = ["--table", "orders", "--registry", &registry, "--timeout", "100"];
    let put = run(&[&["kv", "put", "b", "2"], &by_registry[..]].concat());
    assert_eq!(put.0, Some(0), "{}", put.2);
    for (key, value) in [("a", "a"), ("b", "2")] {
        let get = run(&[&["kv", "get", key], &by_registry[..]].concat());
        assert_eq!(get, (Some(0), value.to_owned(), String::new()));
    }
    // Now nobody is there for a while: a client with a registry waits for the next one.
    drop((primary, next));
    let get = [&["get", "b"], &by_registry[..]].concat();
    let mut waits = start(&get);
    let (_again, _) = folder.primary("replicated=1", "again");
    let mut value = String::new();
    waits.0.stdout.take().expect("it is piped").read_to_string(&mut value).expect("text");
    assert_eq!(value, "2");
}

#[test]
fn a_status_says_that_no_store_answers() {
    let folder = Folder::new("status");
    let (_backup, _) = folder.backup("first");
    let (primary, at) = folder.primary("replicated=1", "none");
    put(&at, "a");
    drop(primary);
    let status = ["kv", "status", "--registry", &folder.registry(), "--timeout", "0.3"];
    let (status, listing, sentence) = run(&status);
    assert_eq!(status, Some(5), "{sentence}");
    assert!(listing.contains(&format!("shard 0: the last primary was {at}")), "{listing}");
    let json = ["kv", "status", "--registry", &folder.registry(), "--timeout", "0.3", "--json", "-"];
    let recorded = format!("\"primary\":{{\"at\":\"{at}\"");
    assert!(run(&json).1.contains(&recorded), "{:?}", run(&json));
    let silent = ["kv", "get", "a", "--registry", "etcd://127.0.0.1:1"];
    let (status, _, sentence) = run(&silent);
    assert!(status == Some(5) && sentence.contains("the registry at etcd://127.0.0.1:1"), "{sentence}");
}

#[test]
fn a_status_says_which_process_each_shard_is() {
    let folder = Folder::new("who");
    let (_backup, _) = folder.backup("first");
    let at = place(45);
    let first = folder.shard(&at, (0, 2), "replicated=1");
    let mut second = folder.shard(&at, (1, 2), "replicated=1");
    // A shard serves before all its replicas are whole.
    let listing = loop {
        let (status, listing, sentence) = kv(&at, &["status"]);
        match status {
            Some(0) => break listing,
            status => assert_eq!(status, Some(8), "{sentence}"),
        }
    };
    for server in [&first, &second] {
        assert!(listing.contains(&format!("  its primary is process {} on ", server.0.id())), "{listing}");
    }
    let json = kv(&at, &["status", "--json", "-"]).1;
    assert!(json.contains(&format!("\"process\":{}", second.0.id())), "{json}");
    let process = second.0.id();
    let _ = (second.0.kill(), second.0.wait());
    drop(first);
    let status = ["kv", "status", "--registry", &folder.registry(), "--timeout", "0.3"];
    let (_, listing, _) = run(&status);
    assert!(listing.contains(&format!("shard 0: the last primary was {at}")), "{listing}");
    assert!(listing.contains(&format!("shard 1: the last primary was process {process} on ")), "{listing}");
}

#[test]
fn a_shard_without_replicas_has_an_object_in_a_status_too() {
    let store = start(&["serve", "--at", &place(46), "--memory", "16M"]);
    let listing = |more: &[&str]| loop {
        let (status, listing, _) = kv(&place(46), &[&["status"], more].concat());
        if status == Some(0) {
            return listing;
        }
    };
    assert!(listing(&[]).starts_with("shard 0: not replicated; served by process "), "{}", listing(&[]));
    let json = listing(&["--json", "-"]);
    let is_there = json.contains("\"kind\":\"alone\"") && json.contains(&store.0.id().to_string());
    assert!(is_there && json.lines().count() == 1, "{json}");
}

#[test]
fn a_dash_is_standard_output_and_input() {
    let _store = start(&["serve", "--at", &place(47), "--memory", "16M"]);
    let at = place(47);
    let (status, _, sentence) = kv(&at, &["put", "a", "1", "--timeout", "60"]);
    assert_eq!(status, Some(0), "{sentence}");
    let (status, lines, sentence) = kv(&at, &["export", "-"]);
    assert!(status == Some(0) && lines.lines().count() == 1, "{lines}{sentence}");
    assert!(lines.contains("\"key\":\"a\""), "{lines}");
    let given = |arguments: &[&str], input: &str| {
        let mut farcall = Command::new(env!("CARGO_BIN_EXE_farcall"));
        farcall.args([&["kv"], arguments, &["--at", &at]].concat()).stdin(Stdio::piped());
        let mut child = farcall.stdout(Stdio::piped()).spawn().expect("the program runs");
        let mut input_of = child.stdin.take().expect("it is piped");
        input_of.write_all(input.as_bytes()).expect("it reads");
        drop(input_of);
        let output = child.wait_with_output().expect("it is a child");
        String::from_utf8(output.stdout).expect("text")
    };
    assert_eq!(given(&["put", "b", "--file", "-"], "given"), "version 2\n");
    assert_eq!(kv(&at, &["get", "b"]).1, "given");
    assert_eq!(given(&["import", "-"], "{\"key\":\"c\",\"value\":\"3\"}\n"), "1 objects\n");
    assert_eq!(kv(&at, &["get", "c"]).1, "3");
}

#[test]
fn a_file_that_is_no_log_is_left_as_it_is_and_an_empty_one_begins_again() {
    let folder = Folder::new("no-log");
    let (data, at) = (folder.of("data"), place(48));
    fs::create_dir(&data).expect("room");
    let log = format!("{data}/shard-0.log");
    let serve =
        ["kv", "serve", "--at", &at, "--memory", "16M", "--tables", "orders:flushed", "--data", &data];
    fs::write(&log, "my notes\n").expect("room");
    let (status, _, sentence) = run(&serve);
    assert!(status == Some(1) && sentence.contains("is no log of farcall"), "{sentence}");
    assert_eq!(fs::read(&log).expect("it is there"), b"my notes\n");
    fs::write(&log, "").expect("room");
    let more = ["--tables", "orders:flushed", "--data", &data, "--memory", "16M"];
    let (store, at, told) = start_saying(&[], "serve", &more, "  ");
    assert!(told.ends_with("had nothing: a new log begins in it"), "{told}");
    let (status, _, sentence) = kv(&at, &["put", "a", "1", "--table", "orders", "--timeout", "60"]);
    assert_eq!(status, Some(0), "{sentence}");
    drop(store);

    // A copy that ended early.
    for bytes in [1 << 20, 70_000] {
        let cut = folder.of(&format!("cut-{bytes}"));
        fs::create_dir(&cut).expect("room");
        fs::copy(&log, format!("{cut}/shard-0.log")).expect("room");
        let file = fs::OpenOptions::new().write(true).open(format!("{cut}/shard-0.log"));
        file.expect("it is there").set_len(bytes).expect("it is shorter");
        let (status, _, sentence) = run(&[&serve[..8], &["--data", &cut]].concat());
        assert!(status == Some(1) && sentence.contains("cut off"), "{bytes}: {sentence}");
        let exported = ["kv", "backup", "--data", &cut, "--export", &folder.of("saved")];
        let (status, _, sentence) = run(&exported);
        assert!(status == Some(1) && sentence.contains("cut off"), "{bytes}: {sentence}");
    }
}

#[test]
fn small_things_are_said_so_that_one_knows_what_to_do() {
    let folder = Folder::new("small");
    let mut store = start(&["serve", "--at", &place(49), "--memory", "16M", "--resp", "127.0.0.1:0"]);
    let mut told = BufReader::new(store.0.stdout.take().expect("it is piped")).lines();
    let door = read_to(&mut told, "Redis clients connect to ");
    let door = door.rsplit(' ').next().expect("an address");
    assert_eq!(ask(door, "RPUSH list a"), ":1\r\n");
    let at = place(49);
    assert_eq!(kv(&at, &["mput", "a", "1", "b", "2"]).0, Some(0));
    let (status, listing, sentence) = kv(&at, &["mget", "a", "list", "b"]);
    assert_eq!((status, &*listing), (Some(1), "a\t3\t1\nb\t4\t2\n"), "{sentence}");
    assert!(sentence.contains("`list`: the object is a collection"), "{sentence}");
    let (status, _, sentence) = kv(&at, &["mget", "none", "list"]);
    assert!(
        status == Some(3) && sentence.contains("no object `none` in table `default`; `list`"),
        "{sentence}"
    );
    let file = folder.of("file");
    fs::write(&file, "mine").expect("room");
    let (status, _, sentence) = kv(&at, &["export", &file]);
    assert!(
        status == Some(1) && sentence.contains("is there already, and is not written over"),
        "{sentence}"
    );
    let (status, _, sentence) = kv(&at, &["incr", "n", "abc"]);
    assert!(status == Some(2) && sentence.contains("`abc` is no whole number; give one from"), "{sentence}");
    let (status, _, sentence) = run(&["kv", "serve", "--tables", ","]);
    assert!(status == Some(2) && sentence.contains("a table without a name"), "{sentence}");
}

#[test]
fn a_backup_says_that_etcd_does_not_answer() {
    let at = place(43);
    let mut backup = start(&["backup", "--at", &at, "--registry", "etcd://127.0.0.1:1"]);
    let line =
        read_to(&mut errors(&mut backup.0), "the registry at etcd://127.0.0.1:1/farcall does not answer");
    assert!(line.ends_with("no primary finds this backup before it does"), "{line}");
}

#[test]
fn an_export_says_what_it_leaves_out() {
    let folder = Folder::new("leaves");
    let mut store = start(&["serve", "--at", &place(44), "--memory", "16M", "--resp", "127.0.0.1:0"]);
    let mut told = BufReader::new(store.0.stdout.take().expect("it is piped")).lines();
    let door = read_to(&mut told, "Redis clients connect to ");
    let door = door.rsplit(' ').next().expect("an address");
    assert_eq!(ask(door, "RPUSH list a"), ":1\r\n");
    assert_eq!(ask(door, "SET plain 1"), "+OK\r\n");
    let (at, file) = (place(44), folder.of("export"));
    let (status, told, said) = kv(&at, &["export", &file]);
    assert_eq!((status, &*told), (Some(0), "1 objects\n"));
    assert_eq!(said, "farcall: the export leaves 1 collection out, which only Redis clients read\n");
    let (_, json, _) = kv(&at, &["export", &folder.of("other"), "--json", "-"]);
    assert!(json.contains("\"left_out\":1"), "{json}");
    assert!(kv(&at, &["scan"]).1.starts_with("plain\t"), "a scan has what it had");

    // Records in the file of the export itself would empty it.
    symlink(&file, folder.of("link")).expect("room");
    for json in [file.clone(), folder.of("link")] {
        let (status, _, sentence) = kv(&at, &["export", &file, "--json", &json]);
        assert!(status == Some(2) && sentence.contains("would empty the file of the export"), "{sentence}");
    }
    assert_eq!(fs::read_to_string(&file).expect("it is there").lines().count(), 1);
}

#[test]
fn what_serve_would_ignore_is_refused() {
    let refused = |arguments: &[&str], words: &str| {
        let output =
            farcall(&[&["kv", "serve", "--memory", "16M", "--at", "127.0.0.1:1"], arguments].concat());
        let sentence = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {sentence}");
        assert!(sentence.contains(words), "{arguments:?}: {sentence}");
    };
    refused(&["--resp-clients", "5"], "--resp or --memcached is missing");
    refused(&["--lease", "1"], "--registry");
    refused(&["--set", "tcp.port=7"], "nothing of ring+shm reads `tcp.port`");
}

#[test]
fn a_log_in_memory_is_said_to_survive_no_power_cut() {
    let folder = Path::new("/dev/shm").join(format!("farcall-operator-{}", std::process::id()));
    if fs::create_dir(&folder).is_err() {
        println!("unsupported: there is no /dev/shm to write to");
        return;
    }
    let (at, data) = (place(45), folder.to_str().expect("text"));
    let mut store =
        start(&["serve", "--at", &at, "--memory", "16M", "--tables", "default:flushed", "--data", data]);
    let line = read_to(&mut errors(&mut store.0), "lies in the memory of this machine");
    assert!(line.starts_with(&format!("farcall: {data} ")), "{line}");
    drop(store);
    fs::remove_dir_all(&folder).expect("it is this test's");
}

#[test]
fn a_registry_of_names_is_no_store() {
    let at = place(46);
    let mut farcall = Command::new(env!("CARGO_BIN_EXE_farcall"));
    let registry = farcall.args(["registry", "--listen", &at]).stdout(Stdio::piped()).spawn();
    let mut registry = Server(registry.expect("the program runs"));
    let mut told = BufReader::new(registry.0.stdout.take().expect("it is piped")).lines();
    read_to(&mut told, "names are served at");
    let (status, _, sentence) = kv(&at, &["get", "a"]);
    assert_eq!(status, Some(5), "{sentence}");
    assert!(
        sentence.contains(&format!("a registry of other processes listens at {at}, no store")),
        "{sentence}"
    );
}

#[test]
fn the_file_of_a_password_is_its_owners_and_a_socket_ends_with_its_process() {
    let folder = Folder::new("doors");
    let (password, socket) = (folder.of("password"), folder.of("socket"));
    fs::write(&password, "secret\n").expect("room");
    fs::set_permissions(&password, fs::Permissions::from_mode(0o644)).expect("it is ours");
    let at = place(47);
    let serve =
        ["serve", "--at", &at, "--memory", "16M", "--resp", &socket, "--resp-password-file", &password];
    let (status, _, sentence) = run(&[&["kv"], &serve[..]].concat());
    assert!(status == Some(2) && sentence.contains("`chmod 600` it"), "{sentence}");
    fs::set_permissions(&password, fs::Permissions::from_mode(0o600)).expect("it is ours");
    let mut store = start(&serve);
    let mut told = BufReader::new(store.0.stdout.take().expect("it is piped")).lines();
    read_to(&mut told, "Redis clients connect to ");
    assert!(Path::new(&socket).exists());
    kill_process(Pid::from_child(&store.0), Signal::TERM).expect("it is ours");
    let ended = store.0.wait().expect("it is a child");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended), Some(Signal::TERM.as_raw()));
    assert!(!Path::new(&socket).exists(), "the next look finds nobody");
}

#[test]
fn a_table_that_was_there_is_told_from_a_new_one_and_a_value_that_is_too_long_has_no_length() {
    let folder = Folder::new("tables");
    let (_store, at) = folder.start_alone(&["--memory", "16M"]);
    let create = |table: &str| kv(&at, &["create", table]).1;
    assert_eq!(create("new"), "created table new\n");
    assert_eq!(create("new"), "there is a table new already\n");
    assert_eq!(create("default"), "there is a table default already\n");
    let long = folder.of("long");
    fs::write(&long, vec![7; 2_000_000]).expect("room");
    let (status, _, sentence) = kv(&at, &["put", "long", "--file", &long]);
    assert_eq!(status, Some(2));
    let expected = format!("farcall: the value in {long} is longer than the limit of 1048576 bytes; ");
    assert!(sentence.starts_with(&expected) && sentence.contains("`farcall kv import`"), "{sentence}");
}

#[test]
fn a_store_that_wants_descriptors_names_the_limit_whatever_it_was_about_to_do() {
    let taken: Vec<_> = (0..2).map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port")).collect();
    let at = place(48);
    let mut began = false;
    for limit in 16..64 {
        let script =
            format!("ulimit -n {limit}; exec \"$0\" kv serve --memory 16M --resp 127.0.0.1:0 --at {at}");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_farcall")]);
        let store = shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("sh runs");
        let mut store = Server(store);
        let told = BufReader::new(store.0.stdout.take().expect("it is piped")).lines().next();
        if told.is_some() {
            began = true;
            break;
        }
        let said = errors(&mut store.0).map(|line| line.expect("text")).collect::<Vec<_>>();
        assert!(said.iter().all(|line| line.contains("(ulimit -n")), "ulimit -n {limit}: {said:?}");
    }
    assert!(began, "some of these are enough");
    drop(taken);
    until("its address is free", || TcpListener::bind(&at).is_ok());
}
