//! A store is stopped and started again, as for an upgrade, while clients write: what was acknowledged is
//! there afterwards, and every write that was not acknowledged ended with an error.

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::places::free_address;
use rustix::process::{Pid, Signal, kill_process};

/// Starts after the first one.
const RESTARTS: usize = 2;
/// Programs that write at a time.
const CLIENTS: usize = 2;
/// Acknowledged writes between two restarts.
const WRITES_BETWEEN: u64 = 3;
/// Far longer than anything here takes.
const LONG: Duration = Duration::from_secs(120);
/// The exit status of `farcall kv` when no store answers.
const NO_ANSWER: i32 = 5;

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_farcall"))
}

/// A store with one durable table.
struct Store(Child);

impl Drop for Store {
    fn drop(&mut self) {
        // Both fail only when it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Store {
    /// Serves when this returns.
    fn start(at: &str, folder: &str) -> Self {
        let mut command = program();
        command.args(["kv", "serve", "--at", at, "--tables", "orders:flushed", "--memory", "16M"]);
        command.args(["--data", folder, "--data-size", "64M"]).stdout(Stdio::piped());
        let mut store = Self(command.spawn().expect("the program runs"));
        let mut line = String::new();
        let mut lines = BufReader::new(store.0.stdout.take().expect("it is piped"));
        lines.read_line(&mut line).expect("lines are text");
        assert!(line.contains("serves"), "{line}");
        // What else it says is read by nobody, and fits into the pipe.
        thread::spawn(move || lines.lines().count());
        store
    }

    /// As a service manager stops it.
    fn stop(&mut self) {
        kill_process(Pid::from_child(&self.0), Signal::TERM).expect("it is ours");
        self.0.wait().expect("it is a child");
    }
}

/// Writes keys of its own, one after the other; which of them were acknowledged.
fn write(client: usize, at: &str, acknowledged: &AtomicU64, is_over: &AtomicBool) -> Vec<String> {
    let mut written = Vec::new();
    for number in 0_u64.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let key = format!("{client}-{number}");
        let mut command = program();
        command.args(["kv", "put", &key, &format!("value of {key}"), "--table", "orders", "--at", at]);
        let output = command.output().expect("the program runs");
        let said = String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(0) => {
                written.push(key);
                acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            Some(NO_ANSWER) => assert!(said.starts_with("farcall: "), "one sentence: {said}"),
            other => panic!("{key}: status {other:?}: {said}"),
        }
    }
    written
}

/// Whether so many more writes are acknowledged in time.
fn goes_on(acknowledged: &AtomicU64) -> bool {
    let (from, until) = (acknowledged.load(Ordering::Relaxed), Instant::now() + LONG);
    while acknowledged.load(Ordering::Relaxed) < from + WRITES_BETWEEN {
        if Instant::now() > until {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
    true
}

#[test]
fn a_store_is_restarted_under_load_and_no_acknowledged_write_is_lost() {
    let at = free_address();
    let folder = std::env::temp_dir().join(format!("farcall-upgrade-{}", std::process::id()));
    let path = folder.to_str().expect("it is text");
    let (acknowledged, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut store = Store::start(&at, path);
    let written = thread::scope(|threads| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (at, acknowledged, is_over) = (&at, &acknowledged, &is_over);
                threads.spawn(move || write(client, at, acknowledged, is_over))
            })
            .collect();
        let mut is_good = goes_on(&acknowledged);
        for _ in 0..RESTARTS {
            store.stop();
            store = Store::start(&at, path);
            is_good &= goes_on(&acknowledged);
        }
        is_over.store(true, Ordering::Relaxed);
        let written: Vec<_> =
            clients.into_iter().flat_map(|client| client.join().expect("it ends")).collect();
        assert!(is_good, "writes go on after each restart");
        written
    });
    for key in &written {
        let output = program().args(["kv", "get", key, "--table", "orders", "--at", &at]).output();
        let output = output.expect("the program runs");
        assert!(output.status.success(), "{key} is lost: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("value of {key}"));
    }
    drop(store);
    std::fs::remove_dir_all(&folder).expect("it is ours");
}

#[test]
fn a_flushed_table_that_a_client_creates_is_there_after_a_kill() {
    let at = free_address();
    let folder = std::env::temp_dir().join(format!("farcall-created-{}", std::process::id()));
    let path = folder.to_str().expect("it is text");
    let run = |arguments: &[&str]| {
        let output = program().arg("kv").args(arguments).args(["--at", &at]).output().expect("it runs");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let store = Store::start(&at, path);
    let created = run(&["create", "stock", "--level", "flushed"]);
    assert_eq!(created, (Some(0), "created table stock, flushed\n".to_owned(), String::new()));
    // It is killed.
    drop(store);
    let _store = Store::start(&at, path);
    let (status, _, sentence) = run(&["get", "screws", "--table", "stock"]);
    assert_eq!(status, Some(3), "{sentence}");
    assert!(sentence.contains("no object `screws`"), "the table is there: {sentence}");
    assert_eq!(run(&["create", "stock", "--level", "flushed"]).0, Some(0), "it is what it was");
    std::fs::remove_dir_all(&folder).expect("it is ours");
}
