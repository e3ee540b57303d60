//! `farcall explain` on causes that are put in: processes that wait for each other, and causes in simulation.

mod common;

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::farcall;
use farcall::bootstrap::{Bootstrap, HostPort, Rendezvous};
use farcall::parameters::Settings;
use farcall::{Node, Service};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::Value;

const ROLE: &str = "FARCALL_TEST_ROLE";

const ASK: Service = Service(7);

/// Processes that wait for each other; one more begins.
const CIRCLE: u32 = 3;

const LONG: Duration = Duration::from_secs(600);

/// Its handler asks the next one, and waits for the answer in it.
fn waiter() -> ! {
    let node = Node::from_env().expect("a place in the cluster");
    let serving = node.endpoint("ring+shm").expect("an endpoint that serves");
    let asking = node.endpoint("ring+shm").expect("an endpoint that asks");
    let next = (node.rank() + 1) % CIRCLE;
    serving.serve(ASK, move |_, reply| {
        let peer = asking.peer(next).expect("it is there");
        let answer = asking.call(peer, ASK, b"").within(LONG).wait();
        reply.send(if answer.is_ok() { b"yes".as_slice() } else { b"no" });
    });
    serving.run_while(|| true);
    unreachable!("it serves until it is killed")
}

/// Processes that end with the test.
struct Waiters(Vec<Child>);

impl Drop for Waiters {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn three_processes_that_wait_for_each_other_in_their_handlers_are_named() {
    if std::env::var(ROLE).is_ok() {
        waiter();
    }
    let rendezvous = Rendezvous::bind("127.0.0.1:0", CIRCLE + 1).expect("a rendezvous on loopback");
    let address = HostPort::from(rendezvous.address());
    let start = |rank: u32| {
        Command::new(std::env::current_exe().expect("this program has a path"))
            .args(["--exact", "three_processes_that_wait_for_each_other_in_their_handlers_are_named"])
            .env(ROLE, "waiter")
            .env("FARCALL_RANK", rank.to_string())
            .env("FARCALL_SIZE", (CIRCLE + 1).to_string())
            .env("FARCALL_RENDEZVOUS", address.to_string())
            .env("FARCALL_RENDEZVOUS_EXTERNAL", "1")
            .stdout(Stdio::null())
            .spawn()
            .expect("this program runs")
    };
    let waiters = Waiters((0..CIRCLE).map(start).collect());
    let bootstrap = Bootstrap::join(&address, CIRCLE, CIRCLE + 1, LONG).expect("the rendezvous is there");
    let node = Node::new(bootstrap, Settings::load(Vec::new()).expect("defaults"));
    let endpoint = node.endpoint("ring+shm").expect("an endpoint");
    let first = endpoint.peer_within(0, LONG).expect("it publishes its endpoint");
    endpoint.call(first, ASK, b"").within(LONG).post(0).expect("it is sent");

    let pids: Vec<_> = waiters.0.iter().map(|child| child.id().to_string()).collect();
    let mut arguments = vec!["explain", "--seconds", "1", "--pid"];
    arguments.extend(pids.iter().map(String::as_str));
    // The circle is closed when the request has come around; nothing says when that is from outside.
    let said = (0..60).find_map(|_| {
        (0..1000).for_each(|_| _ = endpoint.poll_once());
        let text = String::from_utf8(farcall(&arguments).stdout).expect("text");
        text.contains("a deadlock of 3 processes").then_some(text)
    });
    let said = said.expect("the deadlock is named");
    for pid in &pids {
        assert!(
            said.contains(&format!("{pid}, in its handler of service 7 waits for the answer of")),
            "{said}"
        );
    }
}

#[test]
fn causes_that_are_put_into_a_simulated_fabric_are_named_first() {
    let output = farcall(&["sim", "causes", "--seeds", "2", "--quiet", "--json", "-"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("JSON is text");
    let scores: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let count = |field: &str| scores.iter().map(|score| score[field].as_u64().expect("a count")).sum::<u64>();
    let (first, all) = (count("first"), count("seeds"));
    assert!(scores.len() >= 25, "{scores:#?}");
    assert!(first * 10 >= all * 9, "{first} of {all} are named first: {scores:#?}");
}

/// What is said of a run of these arguments.
fn explained(name: &str, arguments: &[&str]) -> String {
    let folder = std::env::temp_dir().join(format!("farcall-explain-{name}-{}", std::process::id()));
    let run = folder.to_str().expect("a path in text").to_owned();
    let output = farcall(&[arguments, &["--quiet", "--record", &run]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(farcall(&["explain", &run]).stdout).expect("text");
    std::fs::remove_dir_all(&folder).expect("the run was recorded");
    said
}

/// Waits for the core that it was put on to be taken away, and goes on.
fn placed() -> ! {
    let node = Node::open().expect("the registry is there");
    let endpoint = node.endpoint("auto").expect("an endpoint");
    endpoint.serve(ASK, |request, reply| reply.send(request.payload()));
    let _listener = endpoint.listen("placed").expect("a name");
    endpoint.run_while(|| true);
    unreachable!("it serves until it is killed")
}

#[test]
fn a_process_goes_on_whose_core_is_taken_away_and_explain_and_doctor_say_so() {
    if std::env::var(ROLE).is_ok() {
        placed();
    }
    let allowed = sched_getaffinity(None).expect("this thread runs somewhere");
    let cores: Vec<_> = (0..1024).filter(|core| allowed.is_set(*core)).collect();
    let [first, second, ..] = cores[..] else {
        return println!("unsupported: one core only, and none that could be left");
    };
    let node = Node::serving_names("127.0.0.1:0").expect("a port of loopback");
    let child = Command::new(std::env::current_exe().expect("this program has a path"))
        .args(["--exact", "a_process_goes_on_whose_core_is_taken_away_and_explain_and_doctor_say_so"])
        .env(ROLE, "placed")
        .env("FARCALL_NAMES", node.registry_address().expect("it serves names").to_string())
        .env("FARCALL_CORE", first.to_string())
        .stdout(Stdio::null())
        .spawn()
        .expect("this program runs");
    let placed = Waiters(vec![child]);
    let pid = placed.0[0].id().to_string();
    let endpoint = node.endpoint("auto").expect("an endpoint");
    let connection = endpoint.connect("placed").expect("a name");
    let call = || connection.call(ASK, b"still there?").within(LONG).wait().expect("an answer");
    assert_eq!(&*call(), b"still there?");
    let said = |arguments: &[&str]| String::from_utf8(farcall(arguments).stdout).expect("text");
    let explain = ["explain", "--seconds", "1", "--pid", &*pid];
    assert!(!said(&explain).contains("was taken away"), "it is where it was put");

    let mut rest = CpuSet::new();
    rest.set(second);
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).expect("it lives").flatten() {
        let thread = task.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        sched_setaffinity(thread, &rest).expect("it is ours");
    }
    assert_eq!(&*call(), b"still there?");
    let taken = format!("core {first}, which it was put on, was taken away: ");
    for arguments in [&explain[..], &["doctor"]] {
        let said = said(arguments);
        let line = said.lines().find(|line| line.contains(&taken)).unwrap_or(&said);
        assert!(line.contains(&taken) && line.contains(&format!("go on at {second}")), "{said}");
        assert!(line.contains(&pid), "{line}");
    }
}

/// Runs in which a cause has to come first once. Where others use the cores, what they take may come before
/// it.
const TRIES: usize = 8;

#[test]
fn the_ways_of_a_recorded_run_are_said_with_the_reasons_against_others() {
    let said =
        explained("ways", &["perf", "echo", "--transport", "auto", "--sizes", "100", "--count", "500"]);
    let ways = said.lines().find(|line| line.contains("clients: auto#")).unwrap_or(&said);
    assert!(ways.contains(" over ring+shm; "), "{ways}");
    assert!(ways.contains("not tcp: ring+shm is preferred"), "{ways}");
}

#[test]
fn a_receiver_works_on_each_message_and_what_limits_the_stream_is_said() {
    let messages = ["msgrate", "--transport", "ring+shm", "--mode", "callbacks-avail", "--sizes", "8"];
    let slow = ["--in-flight", "16", "--count", "2000", "--handler", "100us", "--trace"];
    let mut scores = Vec::new();
    let said = (0..TRIES).find_map(|_| {
        let said = explained("handler", &[&messages[..], &slow].concat());
        let causes = said.lines().skip_while(|line| *line != "hypotheses").skip(1);
        let is_it = |cause: &str| cause.contains(". what the receiver does with each message");
        let place = causes.take_while(|line| !line.is_empty()).position(is_it);
        scores.push(place.unwrap_or_else(|| panic!("it is no cause at all: {said}")));
        (scores.last() == Some(&0)).then_some(said)
    });
    let said = said
        .unwrap_or_else(|| panic!("it is first in none of {TRIES} runs, but in these places: {scores:?}"));
    let next = said.lines().find(|line| line.contains("what next: ")).expect("an experiment");
    assert!(next.contains("times the rate if it is the first cause"), "{said}");
}

#[test]
fn of_durable_writes_the_log_is_named_or_ruled_out() {
    let writes = ["perf", "writeThroughput", "--transport", "ring+shm", "--durability", "flushed"];
    let said = explained("log", &[&writes[..], &["--objects", "500", "--count", "300"]].concat());
    let line = said.lines().find(|line| line.contains("it flushes ")).unwrap_or_else(|| panic!("{said}"));
    let share = line.split("it flushes ").nth(1).and_then(|rest| rest.split(' ').next());
    let percent: f64 = share.and_then(|share| share.parse().ok()).expect("a share of the time");
    // Whether the disk is slow is the machine's affair, and what follows from it is not. What was rounded to
    // a half may be either.
    let cause = match percent {
        50.0 => "flushes",
        _ if percent > 50.0 => "what limits: the log's flushes: it flushes",
        _ => "the log is not what limits: it flushes",
    };
    assert!(line.contains(cause), "{said}");
}

#[test]
fn a_load_that_is_not_carried_is_saturation_and_less_of_it_is_carried() {
    let load =
        ["perf", "echoWorkload", "--transport", "basic+sim", "--fabric", "connectx7-ndr", "--nodes", "4"];
    let of = |name: &str, part: &str| {
        explained(name, &[&load[..], &["--workload", "W3", "--count", "500", "--load", part]].concat())
    };
    let too_much = of("too-much", "0.2");
    assert!(too_much.contains("what limits: saturation: more is offered than is carried"), "{too_much}");
    assert!(!of("enough", "0.01").contains("saturation"));
}

#[test]
fn loss_towards_one_node_by_schedule_is_named_and_recorded() {
    let path = std::env::temp_dir().join(format!("farcall-schedule-{}.toml", std::process::id()));
    let file = path.to_str().expect("a path in text").to_owned();
    let write = |text: &str| std::fs::write(&path, text).expect("a temporary file");
    let echo = ["perf", "echo", "--transport", "basic+sim", "--fabric", "connectx7-ndr", "--sizes", "1K"];
    let words = [&echo[..], &["--in-flight", "8", "--schedule", &file]].concat();
    let towards = |host: u32, drop: f64| {
        format!(
            "[[event]]\nat_us = 0\naction = {{ towards = {{ hosts = [{host}], packets = {{ drop = {drop} }} }} }}\n"
        )
    };
    write(&towards(0, 0.02));
    let said = explained("towards", &words);
    assert!(said.contains("what limits: packets that are lost on their way"), "{said}");
    let shuffle =
        ["shuffle", "--nodes", "4", "--sizes", "8000", "--count", "20", "--runs", "1", "--json", "-"];
    let records = |more: &[&str]| common::records(&[&shuffle[..], &["--schedule", &file], more].concat());
    write(&towards(3, 0.2));
    let lossy = records(&["--transport", "basic+sim"]);
    assert_eq!(lossy[0]["schedule"]["event"][0]["action"]["towards"]["hosts"][0], 3);
    assert!(lossy.iter().any(|record| record["packets_dropped"].as_u64() > Some(0)), "{lossy:#?}");
    for (host, more, expected) in [
        (4, ["--transport", "basic+sim"], "--schedule: the fault schedule names host 4"),
        (3, ["--transport", "basic+udp"], "nothing can go wrong on purpose over basic+udp"),
    ] {
        write(&towards(host, 0.2));
        for dry in [&[][..], &["--dry-run"]] {
            let said = common::sentence(&[&shuffle[..7], &["--schedule", &file], &more, dry].concat(), 2);
            assert!(said.contains(expected), "{said}");
        }
    }
    write("[[event]]\nat_us = 0\naction = 'explode'\n");
    let output = farcall(&words);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && said.contains("`event[0].action`: unknown variant"), "{said}");
    std::fs::remove_file(&path).expect("it was just written");
}

#[test]
fn the_experiment_that_it_proposes_confirms_a_cause_that_was_put_in() {
    let folder = std::env::temp_dir().join(format!("farcall-explain-test-{}", std::process::id()));
    let run = folder.to_str().expect("a path in text").to_owned();
    let arguments = [
        "perf",
        "echo",
        "--transport",
        "basic+sim",
        "--fabric",
        "connectx7-ndr",
        "--sizes",
        "1K",
        "--in-flight",
        "16",
        "--handler",
        "2us",
        "--quiet",
        "--record",
        &run,
    ];
    assert!(farcall(&arguments).status.success());
    let said = String::from_utf8(farcall(&["explain", &run, "--try"]).stdout).expect("text");
    std::fs::remove_dir_all(&folder).expect("the run was recorded");
    assert!(said.contains("confirmed: the handler"), "{said}");
}
