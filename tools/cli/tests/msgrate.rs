//! Tagged messages: traced, kept and varied.

use std::process::{Command, Output};

use farcall::{Presence, TransportKind};
use serde_json::Value;

const MESSAGES: u64 = 1500;

fn msgrate(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_farcall"));
    command.arg("msgrate").args(arguments).output().expect("the program runs")
}

/// A path that is not there, in a folder of this test process.
fn path(name: &str) -> String {
    let path = std::env::temp_dir().join(format!("farcall-msgrate-{}-{name}", std::process::id()));
    path.to_str().expect("a path of text").to_owned()
}

fn taken(path: &str) -> String {
    let text = std::fs::read_to_string(path).expect("the file was written");
    std::fs::remove_file(path).expect("it can be removed");
    text
}

/// Rings, packets, and those libraries that are here and need no launcher.
fn transports() -> Vec<TransportKind> {
    let libraries = [TransportKind::UCX, TransportKind::OFI].into_iter();
    let libraries = libraries.filter(|kind| !matches!(kind.presence(), Some(Presence::Absent { .. })));
    [TransportKind::RING_SHM, TransportKind::BASIC_UDP].into_iter().chain(libraries).collect()
}

/// The parts of a record add up to its total.
fn check_parts(trace: &Value, about: &str) {
    for figure in ["mean", "typical", "slow"] {
        let parts = trace["parts"].as_object().expect("parts").values();
        let sum: f64 = parts.map(|part| part[figure].as_f64().expect("a time")).sum();
        let total = trace["total"][figure].as_f64().expect("a time");
        assert!((sum / total - 1.0).abs() < 0.02, "{about}: {figure} parts of {sum} ns, {total} ns together");
    }
}

#[test]
fn every_message_is_joined_and_its_parts_add_up_on_every_kind_of_transport() {
    for transport in transports() {
        for (mode, size, in_flight) in [
            ("futures", "8", "1"),
            ("callbacks", "20K", "100"),
            ("callbacks-reaped", "8", "10"),
            ("handler", "1K", "1000"),
        ] {
            let about = format!("{transport} {mode}");
            let (file, records) = (path("trace.json"), path("records.jsonl"));
            let (trace, messages) = (format!("--trace={file}"), MESSAGES.to_string());
            let what =
                ["--transport", transport.name(), "--mode", mode, "--size", size, "--inflight", in_flight];
            let run = ["--messages", &messages, "--quiet", "--json", &records, &trace];
            let output = msgrate(&[&what[..], &run].concat());
            assert!(output.status.success(), "{about}: {}", String::from_utf8_lossy(&output.stderr));
            let shown = String::from_utf8(output.stdout).expect("text");
            for word in ["submit", "on_its_way", "match", "complete", "parts of 1500 traced messages"] {
                assert!(shown.contains(word), "{about}: {shown}");
            }
            let record = taken(&records);
            let record = record.lines().find(|line| line.contains("message_trace")).expect("a traced record");
            let record: Value = serde_json::from_str(record).expect("JSON");
            let trace = &record["message_trace"];
            let count = |name: &str| trace[name].as_u64().expect("a number");
            let counts = (count("messages"), count("incomplete"), count("disordered"));
            assert_eq!(counts, (MESSAGES, 0, 0), "{about}");
            check_parts(trace, &about);
            let document: Value = serde_json::from_str(&taken(&file)).expect("JSON");
            let events = document["traceEvents"].as_array().expect("a list");
            let of = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count() as u64;
            assert_eq!((of("b"), of("e")), (5 * MESSAGES, 5 * MESSAGES), "{about}");
        }
    }
}

#[test]
fn what_is_compared_has_its_regime_and_its_ratio_to_the_first_mode() {
    let what = ["--mode", "futures,handler", "--size", "8", "--inflight", "10", "--messages", "4000"];
    let output = msgrate(&[&what[..], &["--runs", "2", "--quiet", "--json", "-"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    let records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of = |mode: &str| records.iter().filter(|record| record["mode"] == *mode).collect::<Vec<_>>();
    let (futures, handler) = (of("futures"), of("handler"));
    assert!(!futures.is_empty() && futures.len() == handler.len(), "{text}");
    for (first, other) in futures.iter().zip(handler) {
        assert_eq!(first["regime"], other["regime"], "they are measured in turns");
        assert!(first["time_ratio"].is_null() && first["ratio_low"].is_null(), "{first}");
        let stood_still = other["regime"].is_string();
        assert_eq!(other["time_ratio"].as_f64().is_some_and(|ratio| ratio > 0.0), stood_still, "{other}");
        assert!(other["blocks_discarded"].is_u64());
    }
}

#[test]
fn a_traced_run_that_was_kept_is_explained() {
    let folder = path("kept");
    let what =
        ["--mode", "handler", "--size", "8", "--inflight", "4", "--messages", "1500", "--trace", "--quiet"];
    let output = msgrate(&[&what[..], &["--record", &folder]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut explain = Command::new(env!("CARGO_BIN_EXE_farcall"));
    let output = explain.args(["explain", &folder]).output().expect("the program runs");
    std::fs::remove_dir_all(&folder).expect("the folder can be removed");
    let said = String::from_utf8(output.stdout).expect("text");
    for words in
        ["ring+shm handler.8x4.rate: a typical message takes", ": 1. ", "not tested", "next experiment"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(!said.contains("did not end"), "{said}");
}

#[test]
fn endpoints_of_several_threads_are_joined_with_those_that_they_talk_to() {
    let records = path("threads.jsonl");
    let what =
        ["--mode", "callbacks-resubmit", "--size", "1K", "--inflight", "10", "--threads", "3", "--trace"];
    let output = msgrate(&[&what[..], &["--messages", "1500", "--quiet", "--json", &records]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(taken(&records).contains("\"messages\":1500"), "{}", String::from_utf8_lossy(&output.stdout));
}

/// MPI without its locks is for one thread, and says so to a second one.
#[test]
fn mpi_for_one_thread_carries_messages_of_one_and_refuses_two() {
    let launcher = Command::new("mpirun").arg("--version").output();
    if matches!(TransportKind::MPI.presence(), Some(Presence::Absent { .. })) || launcher.is_err() {
        return println!("unsupported: there is no MPI, or no mpirun that starts its processes");
    }
    let with_threads = |threads: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_farcall"));
        // Tests in containers run as root, which Open MPI would refuse.
        command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
        command.args(["msgrate", "--transport", "mpi", "--set", "mpi.threads=single", "--threads", threads]);
        let what = "--mode futures --size 1K --inflight 10 --messages 3000 --quiet";
        command.args(what.split(' '));
        let output = command.output().expect("the program runs");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (went_well, said) = with_threads("1");
    assert!(went_well, "{said}");
    let (went_well, said) = with_threads("2");
    assert!(!went_well && said.contains("one endpoint at a time (mpi.threads=single)"), "{said}");
}

#[test]
fn what_cannot_be_traced_gets_one_sentence() {
    let sentence = |arguments: &[&str]| {
        let output = msgrate(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        String::from_utf8(output.stderr).expect("text").trim_end().to_owned()
    };
    assert_eq!(
        sentence(&["--transport", "ucx", "--raw", "test", "--trace"]),
        "farcall: --trace is for messages of farcall, and the loops of --raw are without it; leave one of them out"
    );
    assert_eq!(
        sentence(&["--mode", "futures", "--size", "8", "--trace=x.json"]),
        "farcall: --trace=FILE takes the messages of one measurement; give one each of --transport, --mode, --sizes and --in-flight, and --runs 1"
    );
}

#[test]
fn rates_are_varied_by_mode_and_transport() {
    let what = ["--transport", "ring+shm,basic+udp", "--mode", "futures,handler", "--size", "8"];
    let how = ["--inflight", "10", "--messages", "4000", "--blocks", "4", "--vary", "ring.ring_bytes=64K"];
    let guard = ["--guard", "handler.8x10:rate=50%", "--json", "-", "--quiet"];
    let output = msgrate(&[&what[..], &how[..], &guard[..]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    let records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for transport in ["ring+shm", "basic+udp"] {
        for mode in ["futures", "handler"] {
            let named = |name: &str| {
                let name = format!("{mode}.8x10.rate.{name}");
                let is_it = |record: &&Value| record["name"] == *name && record["transport"] == transport;
                records.iter().find(is_it).unwrap_or_else(|| panic!("{name} over {transport}: {text}"))
            };
            assert_eq!(named("run1")["levels"]["ring.ring_bytes"], "64K");
            assert_eq!(
                (&named("run0")["unit"], &named("run0")["command"]),
                (&"1/s".into(), &"msgrate".into())
            );
            assert!(named("effect.ring.ring_bytes")["value"].as_f64().expect("a number") > 0.0);
        }
    }
}

#[test]
fn what_cannot_be_varied_gets_one_sentence() {
    let (of_rings, of_ucx) = ("ring.ring_bytes=64K", "ucx.error_handling=false");
    for (vary, more, words) in [
        (of_ucx, &["--transport", "ucx", "--raw", "test"][..], "the loops of --raw are without it"),
        (of_rings, &["--transport", "ucx"], "nothing of ucx reads `ring.ring_bytes`"),
        (of_rings, &["--runs", "3"], "--vary measures in --blocks of its own"),
        (of_rings, &["--trace"], "--vary measures several"),
        (of_rings, &["--guard", "futures.9x9:rate=1%"], "`futures.9x9` is not measured"),
    ] {
        let output = msgrate(&[&["--vary", vary], more].concat());
        let sentence = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(2), "{more:?}: {sentence}");
        assert!(sentence.contains(words) && sentence.lines().count() == 1, "{more:?}: {sentence}");
    }
}
