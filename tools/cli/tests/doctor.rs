//! The program about this machine and the processes on it: `doctor`, `ps`, and `top` of all.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{farcall, records, sentence, until};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};
use serde_json::Value;

/// A process that is ended when the test is over.
struct Running {
    child: Child,
    /// What it said first.
    line: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only when it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(arguments: &[&str]) -> Running {
    let mut command = Command::new(env!("CARGO_BIN_EXE_farcall"));
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("the program runs");
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let line = lines.next().map_or_else(String::new, |line| line.expect("lines are text"));
    Running { child, line }
}

/// A store with a client that is attached by calls, at a port that is free.
fn store() -> (Running, String) {
    let ports = (0..100).map(|attempt| 20_000 + (std::process::id() + attempt * 331) % 20_000);
    let places = ports.map(|port| format!("127.0.0.1:{port}"));
    let started = places.map(|at| {
        let serve = ["kv", "serve", "--at", &at, "--memory", "16M", "--transport", "basic+udp"];
        (start(&serve), at)
    });
    started.into_iter().find(|(running, _)| !running.line.is_empty()).expect("a free port")
}

fn objects(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(|line| serde_json::from_str(line).expect("every line is JSON")).collect()
}

/// What the doctor says of a subject.
fn of<'a>(findings: &'a [Value], subject: &str) -> &'a Value {
    let found =
        findings.iter().find(|finding| finding["subject"].as_str().is_some_and(|s| s.starts_with(subject)));
    found.unwrap_or_else(|| panic!("nothing about {subject}: {findings:?}"))
}

#[test]
fn ps_lists_what_counts_and_top_shows_it_without_being_told() {
    let (store, at) = store();
    let pid = store.child.id();
    let put = farcall(&["kv", "put", "k", "v", "--slots", "never", "--at", &at]);
    assert!(put.status.success(), "{}", String::from_utf8_lossy(&put.stderr));
    let listed = records(&["ps", "--interval", "0.05", "--json", "-"]);
    let own = listed.iter().find(|process| process["process"] == pid).expect("it is listed");
    assert_eq!(own["transports"], serde_json::json!(["basic+udp"]), "{own}");
    assert!(own["command"].as_str().expect("text").starts_with("farcall kv serve --at"), "{own}");
    assert_eq!((&own["endpoints"], &own["process_in_namespace"]), (&1.into(), &pid.into()), "{own}");
    let shown = farcall(&["ps", "--interval", "0.05"]);
    let text = String::from_utf8_lossy(&shown.stdout);
    let line = text.lines().find(|line| line.trim_start().starts_with(&pid.to_string()));
    assert!(line.is_some_and(|line| line.contains("basic+udp") && line.contains("kv serve")), "{text}");
    let top = farcall(&["top", "--once", "--interval", "0.05"]);
    let text = String::from_utf8_lossy(&top.stdout);
    assert!(text.contains(&format!("process {pid} (farcall kv serve --at")), "{text}");
    assert!(text.contains("store 0/s"), "{text}");
}

#[test]
fn a_process_that_is_stopped_does_not_look_idle() {
    let (store, _at) = store();
    let pid = store.child.id().to_string();
    kill_process(Pid::from_child(&store.child), Signal::STOP).expect("it is ours");
    let status = format!("/proc/{pid}/status");
    until("it is stopped", || fs::read_to_string(&status).expect("it is there").contains("State:\tT"));
    for command in [&["top", &pid, "--interval", "0.05"][..], &["ps", "--interval", "0.05"]] {
        let output = farcall(command);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("stopped"), "{command:?}: {text}");
    }
}

#[test]
fn a_process_whose_children_count_is_answered_with_their_numbers() {
    let (store, _at) = store();
    let (own, child) = (std::process::id().to_string(), store.child.id());
    let found = sentence(&["stat", &own], 1);
    let children = found.split_once("has no farcall counters; its child").map(|(_, rest)| rest);
    assert!(children.is_some_and(|rest| rest.contains(&child.to_string())), "{found}");
}

#[test]
fn the_doctor_examines_this_machine_and_says_what_to_do() {
    let findings = records(&["doctor", "--json", "-"]);
    let areas: std::collections::BTreeSet<_> =
        findings.iter().map(|finding| finding["area"].as_str().expect("text")).collect();
    let expected =
        ["control groups", "cores", "devices", "limits", "memory", "namespaces", "network", "transports"];
    assert_eq!(Vec::from_iter(areas), expected);
    for subject in ["ring+shm", "basic+udp", "memory files", "loopback"] {
        assert_eq!(of(&findings, subject)["severity"], "good", "{subject}");
    }
    for finding in &findings {
        let is_good = matches!(finding["severity"].as_str(), Some("good" | "note"));
        assert!(is_good || finding["advice"].is_string(), "{finding}");
    }
}

#[test]
fn what_must_be_mended_is_the_exit_status() {
    // Too few open files, and files too short for shared memory: both stop an endpoint, and neither the
    // doctor.
    let limits: [(&str, &str); 2] = [("ulimit -n 20", "open files"), ("ulimit -f 1", "ring+shm")];
    for (limit, subject) in limits {
        let program = env!("CARGO_BIN_EXE_farcall");
        let mut shell = Command::new("sh");
        let output = shell.args(["-c", &format!("{limit} && exec {program} doctor --json -")]).output();
        let output = output.expect("a shell");
        let findings = objects(&output);
        assert_eq!(output.status.code(), Some(1), "{limit}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(of(&findings, subject)["severity"], "mend", "{limit}");
    }
    let mut wrong = Command::new(env!("CARGO_BIN_EXE_farcall"));
    wrong.args(["doctor", "--json", "-"]).env("FARCALL_UDP_BIND_ADDRESS", "nowhere").arg0("farcall");
    let output = wrong.output().expect("it runs");
    assert_eq!(of(&objects(&output), "parameters of the environment")["severity"], "mend");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "farcall: one thing must be mended\n");
}

#[test]
fn the_path_to_a_peer_is_measured_and_a_missing_listener_named() {
    let listener = start(&["doctor", "--listen", "127.0.0.1:0"]);
    let place = listener.line.strip_prefix("probes are answered at ").expect("a place");
    let place = place.split_once(',').expect("a place").0.to_owned();
    let findings = records(&["doctor", &place, "--json", "-"]);
    let path: Vec<_> = findings.iter().filter(|finding| finding["area"] == "path").collect();
    assert_eq!(path.len(), 3, "{path:?}");
    assert!(path.iter().all(|finding| finding["severity"] == "good"), "{path:?}");
    let longest = path[2]["state"].as_str().expect("text");
    assert!(longest.contains("65535 bytes pass unfragmented, both ways"), "{longest}");
    drop(listener);
    let output = farcall(&["doctor", &place, "--json", "-"]);
    assert_eq!(output.status.code(), Some(1));
    let findings = objects(&output);
    for subject in ["TCP to", "UDP to"] {
        let finding = of(&findings, subject);
        assert_eq!(finding["severity"], "mend");
        let advice = finding["advice"].as_str().expect("what to do");
        assert!(advice.starts_with("run `farcall doctor --listen"), "{advice}");
    }
}

/// Ticks of a processor that a process has used, of which a second has 100.
fn processor_ticks(process: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).expect("it lives");
    let (_, fields) = stat.rsplit_once(')').expect("a name in parentheses");
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    [11, 12].iter().map(|place| fields[*place].parse::<u64>().expect("a number")).sum()
}

#[test]
fn a_listener_without_descriptors_rests_and_takes_connections_when_there_are_some() {
    let listener = start(&["doctor", "--listen", "127.0.0.1:0"]);
    let place = listener.line.strip_prefix("probes are answered at ").expect("a place");
    let place = place.split_once(',').expect("a place").0.to_owned();
    let process = Pid::from_child(&listener.child);
    let before = prlimit(Some(process), Resource::Nofile, getrlimit(Resource::Nofile)).expect("as it was");
    // Whatever it opens and closes while it starts: no number is left for more than it has from its start.
    let limit = Some(3);
    prlimit(Some(process), Resource::Nofile, Rlimit { current: limit, ..before }).expect("it is lower");
    let wait = || {
        let connection = TcpStream::connect(&place).expect("the kernel takes it in");
        connection.set_read_timeout(Some(Duration::from_secs(1))).expect("a time limit");
        connection
    };
    let mut waiting = wait();
    // An `accept` that had begun before had its number already, and may end that connection late.
    let (refused, start, ticks) = loop {
        let (start, ticks) = (Instant::now(), processor_ticks(listener.child.id()));
        match waiting.read(&mut [0]) {
            Ok(0) => waiting = wait(),
            Ok(_) => panic!("nobody has taken it"),
            Err(refused) => break (refused, start, ticks),
        }
    };
    assert!(
        matches!(refused.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut),
        "{refused}"
    );
    let used_ticks = u128::from(processor_ticks(listener.child.id()) - ticks);
    assert!(used_ticks < start.elapsed().as_millis() / 20, "{used_ticks} ticks: it tries without a rest");
    prlimit(Some(process), Resource::Nofile, before).expect("within what root may have");
    waiting.set_read_timeout(Some(Duration::from_secs(60))).expect("a time limit");
    assert_eq!(waiting.read(&mut [0]).expect("it is taken, and ended"), 0);
}
