//! The look ahead: plans that are printed and not run, and everything that would fail said at once.

mod common;

use std::process::Command;

use common::{farcall, records, sentence};
use serde_json::Value;

/// What a command that fails says, line by line, and its status.
fn refused(arguments: &[&str]) -> (Vec<String>, Option<i32>) {
    let output = farcall(arguments);
    let said = String::from_utf8(output.stderr).expect("messages are text");
    assert!(output.stdout.is_empty(), "nothing was measured: {}", String::from_utf8_lossy(&output.stdout));
    (said.lines().map(str::to_owned).collect(), output.status.code())
}

#[test]
fn a_dry_run_lists_its_cells_and_leaves_nothing_behind() {
    let folder = std::env::temp_dir().join(format!("farcall-dry-{}", std::process::id()));
    let path = folder.to_string_lossy().into_owned();
    let cases: [(&[&str], &[&str]); 5] = [
        (
            &["perf", "echo", "--transport", "basic+udp", "--sizes", "100,1M"],
            &["basic+udp echo100", "basic+udp echo1M"],
        ),
        (
            &["shuffle", "--nodes", "20,100", "--sizes", "4000"],
            &["basic+sim 20 nodes 4000", "basic+sim 100 nodes 4000"],
        ),
        (
            &[
                "msgrate",
                "--transport",
                "basic+udp",
                "--mode",
                "futures",
                "--sizes",
                "8",
                "--in-flight",
                "1,10",
            ],
            &["basic+udp futures 8 B, 1 in flight", "basic+udp futures 8 B, 10 in flight"],
        ),
        (&["benchkv", "--sweep", "clients=1,2"], &["ring+shm 1 client", "ring+shm 2 clients"]),
        (&["compare", "--limit", "--rows", "echo100"], &["ring+shm echo100"]),
    ];
    for (arguments, cells) in cases {
        let more = ["--dry-run", "--json", "-", "--record", &path];
        let recording = [arguments, &more].concat();
        let planned = records(&recording);
        let names: Vec<_> = planned.iter().map(|cell| cell["cell"].as_str().expect("a name")).collect();
        assert!(cells.iter().all(|cell| names.contains(cell)), "{names:?}");
        assert!(planned.iter().all(|cell| cell["command"] == arguments[0] && cell["repeats"].is_string()));
        assert!(!folder.exists(), "{arguments:?} recorded something");
    }
}

#[test]
fn a_plan_says_how_long_it_takes_and_how_much_memory() {
    let planned = records(&["shuffle", "--nodes", "20,200", "--sizes", "4000", "--dry-run", "--json", "-"]);
    let of = |field: &str| -> Vec<f64> { planned.iter().filter_map(|cell| cell[field].as_f64()).collect() };
    let (seconds, memory) = (of("seconds"), of("memory_bytes"));
    assert!(seconds[1] > 50.0 * seconds[0], "a hundred times the messages: {seconds:?}");
    assert!(memory[1] > 10.0 * memory[0], "{memory:?}");
    let text = farcall(&["perf", "echo", "--transport", "ring+shm", "--sizes", "100", "--dry-run"]).stdout;
    let text = String::from_utf8(text).expect("a plan is text");
    assert!(
        text.contains("3 blocks") && text.ends_with("# 1 cell, at most 2 s; nothing was measured\n"),
        "{text}"
    );
}

#[test]
fn launches_that_are_simulated_one_by_one_take_the_memory_of_one() {
    let words = ["shuffle", "--nodes", "20", "--sizes", "4000", "--dry-run", "--json", "-"];
    let bytes = |more: &[&str]| records(&[&words[..], more].concat())[0]["memory_bytes"].as_u64();
    let one = bytes(&["--runs", "1"]);
    assert!(one > Some(0));
    let drops = ["--set", "fault.drop_permille=1", "--runs", "1000"];
    for more in [&drops[..], &["--vary", "fabric.link.gbps=100/200"]] {
        assert_eq!(bytes(more), one, "{more:?}");
    }
}

#[test]
fn everything_that_would_fail_is_said_at_once_and_before_anything_is_measured() {
    let (said, status) = refused(&[
        "perf",
        "echo",
        "--transport",
        "basic+udp,homa+udp",
        "--sizes",
        "900M",
        "--handler",
        "2ns",
        "--record",
        "/proc/1/none",
        "--set",
        "ring.ring_bytes=1M",
    ]);
    assert_eq!(status, Some(2), "{said:?}");
    for sentence in [
        "farcall: --set: nothing of basic+udp, homa+udp reads `ring.ring_bytes`",
        "farcall: --sizes: 900M is longer than the",
        "farcall: cannot write to /proc/1/none",
    ] {
        assert!(said.iter().any(|line| line.starts_with(sentence)), "no `{sentence}` in {said:?}");
    }
    let too_long = said.iter().filter(|line| line.contains("900M is longer")).count();
    assert_eq!(too_long, 2, "once for each transport: {said:?}");
}

#[test]
fn a_dry_run_fails_as_the_run_would() {
    let (said, status) = refused(&[
        "perf",
        "--transport",
        "basic+sim",
        "--handler",
        "1us",
        "echoWorkload",
        "--json",
        "/no/such/file",
    ]);
    assert_eq!((said.len(), status), (2, Some(2)), "{said:?}");
    let output =
        farcall(&["perf", "--transport", "basic+sim", "--handler", "1us", "echoWorkload", "--dry-run"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("basic+sim W4 at 80 %"),
        "the plan is there, too"
    );
}

#[test]
fn a_dry_run_refuses_what_the_run_refuses_and_says_it_in_the_same_words() {
    let cases: [&[&str]; 6] = [
        &["perf", "writeThroughput", "--vary", "ring.ring_bytes=64K/128K", "--transport", "ring+shm"],
        &["perf", "echo", "--vary", "fabric.link.gbps=1/2", "--transport", "basic+udp"],
        &["shuffle", "--push", "deterministic,random", "--vary", "fabric.link.gbps=100/200"],
        &["shuffle", "--vary", "fabric.link.gbps=100/none", "--nodes", "2"],
        &["msgrate", "--vary", "ring.ring_bytes=64K/64K/1", "--transport", "ring+shm"],
        &["benchkv", "--vary", "ring.ring_bytes=64K/128K,ring.ring_bytes=64K/256K"],
    ];
    for arguments in cases {
        let said = |more: &[&str]| {
            let output = farcall(&[arguments, more].concat());
            let said = String::from_utf8(output.stderr).expect("messages are text");
            (said, output.status.code())
        };
        let (run, status) = said(&["--quiet"]);
        assert!(run.contains("vary") || run.contains("fabric"), "{arguments:?}: {run}");
        assert_eq!(said(&["--dry-run"]), (run, status), "{arguments:?}");
    }
}

#[test]
fn what_is_wrong_is_said_although_the_plan_cannot_be_written() {
    let words = ["perf", "--transport", "basic+sim", "--handler", "1us", "echoWorkload", "--dry-run"];
    let (said, status) = refused(&[&words[..], &["--json", "/no/such/file"]].concat());
    assert_eq!(status, Some(2), "{said:?}");
    for sentence in ["--handler is read by echo, not by echoWorkload", "cannot write to /no/such/file"] {
        assert!(said.iter().any(|line| line.contains(sentence)), "no `{sentence}` in {said:?}");
    }
}

#[test]
fn an_option_that_nothing_of_what_was_chosen_reads_is_refused() {
    let echo = ["perf", "echo", "--transport", "ring+shm"];
    let stores = "basic, readDist, writeDist, readThroughput, writeThroughput, multiRead";
    for (option, value, readers) in [
        ("--load", "0.5", "echoWorkload"),
        ("--nodes", "4", "echoWorkload"),
        ("--link-gbps", "10", "echoWorkload"),
        ("--workload", "W4", "echoWorkload"),
        ("--reply", "ack", "echoWorkload"),
        ("--objects", "500", stores),
        ("--durability", "memory", stores),
    ] {
        let said = sentence(&[&echo[..], &[option, value, "--dry-run"]].concat(), 2);
        assert_eq!(said, format!("farcall: {option} is read by {readers}, not by echo: leave it out"));
    }
    let cases: [(&str, &str); 16] = [
        ("perf readDist --transport ring+shm --handler 1us", "--handler is read by echo, not by readDist"),
        ("perf basic --transport ring+shm --buffers loaned", "--buffers is read by echo, not by basic"),
        ("perf echoWorkload --transport basic+sim --sizes 1K", "--sizes is read by echo, basic, "),
        ("perf echoWorkload --transport basic+sim --warmup 10", "--warmup is read by echo, basic, "),
        ("perf echoWorkload --transport basic+sim --in-flight 2", "--in-flight is read by echo, basic, "),
        (
            "shuffle --collective gather --push random",
            "--push is read by shuffle, point-to-point, not by gather: leave it out",
        ),
        (
            "shuffle --collective bandwidth --chunk 1K --nodes 2",
            "--chunk is read by shuffle, broadcast, gather, all-gather, point-to-point, not by bandwidth",
        ),
        ("shuffle --ranks threads", "--ranks is for real transports"),
        ("shuffle --vary basic.checksum --runs 3", "--vary and --runs cannot be given together"),
        ("benchkv --vary ring.ring_bytes=64K --runs 3", "--vary and --runs cannot be given together"),
        ("benchkv --sweep clients=1,2 --clients 2", "--sweep and --clients cannot be given together"),
        (
            "benchkv --transport basic+udp --ring-size 64K",
            "--ring-size: nothing of basic+udp reads `ring.ring_bytes`",
        ),
        (
            "compare --limit --sizes 8",
            "--sizes is read by the comparison with peers, not by the comparison with the limits: leave it out",
        ),
        (
            "compare --program /bin/true --in-flight 4",
            "--in-flight is read by the comparison with peers, not by the comparison with another build",
        ),
        (
            "compare --peers ucx --patience 1",
            "--patience is read by the comparison with the limits or another build, not by the comparison with peers",
        ),
        ("tune --resume nowhere", "--resume and --dry-run cannot be given together"),
    ];
    for (line, expected) in cases {
        let words: Vec<_> = line.split(' ').chain(["--dry-run"]).collect();
        let said = sentence(&words, 2);
        assert!(said.starts_with(&format!("farcall: {expected}")), "{line}: {said}");
    }
}

#[test]
fn an_option_that_one_of_the_tests_reads_is_taken_and_so_is_a_default() {
    let both = "perf echo echoWorkload --transport basic+sim --load 0.1 --sizes 1K --in-flight 2 --dry-run";
    let plain = "perf echo --transport basic+sim --dry-run";
    for line in [both, plain, "compare --limit --dry-run", "shuffle --collective gather --dry-run"] {
        let output = farcall(&line.split(' ').collect::<Vec<_>>());
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn mpi_as_root_is_refused_before_minutes_are_spent() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_farcall"));
    command.args(["msgrate", "--transport", "basic+udp,mpi", "--dry-run"]);
    for of in ["OMPI", "PRTE"] {
        command
            .env_remove(format!("{of}_ALLOW_RUN_AS_ROOT"))
            .env_remove(format!("{of}_ALLOW_RUN_AS_ROOT_CONFIRM"));
    }
    let is_open_mpi = Command::new("mpirun").arg("--version").output();
    let is_open_mpi =
        is_open_mpi.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("Open MPI"));
    if !rustix::process::geteuid().is_root() || !is_open_mpi {
        return println!("unsupported: this is not root, or mpirun is not Open MPI's");
    }
    let output = command.output().expect("the program runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("starts nothing as root") && said.contains("OMPI_ALLOW_RUN_AS_ROOT=1"), "{said}");
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    let said = String::from_utf8(command.output().expect("the program runs").stderr).expect("text");
    assert!(!said.contains("as root"), "{said}");
}

#[test]
fn fabrics_grow_when_they_are_told_to_and_are_refused_otherwise() {
    let words = ["shuffle", "--nodes", "1100", "--fabric", "omni-path-100", "--sizes", "8", "--dry-run"];
    assert_eq!(
        sentence(&words, 2),
        "farcall: --nodes: omni-path-100 has places for 768 hosts, not for 1100; --scale-topology gives it more of its kind"
    );
    let scaled = farcall(&[&words[..], &["--scale-topology"]].concat());
    assert!(scaled.status.success(), "{}", String::from_utf8_lossy(&scaled.stderr));
    let words = [
        "perf",
        "--transport",
        "basic+sim",
        "--fabric",
        "connectx2-qdr",
        "--clients",
        "90",
        "--sizes",
        "100",
    ];
    let output = farcall(&[&words[..], &["--scale-topology", "--count", "2", "--quiet"]].concat());
    let text = String::from_utf8(output.stdout).expect("a table is text");
    assert!(text.contains("scaled to 91 machines at one switch") && text.contains("\necho100 "), "{text}");
    assert!(
        sentence(&["shuffle", "--transport", "tcp", "--scale-topology"], 2)
            .contains("a fabric is for simulated transports")
    );
}

#[test]
fn a_shuffle_beyond_its_racks_says_what_they_are() {
    let words = [
        "shuffle",
        "--fabric",
        "omni-path-100",
        "--nodes",
        "4,12",
        "--sizes",
        "8",
        "--count",
        "1",
        "--quiet",
    ];
    let small = "topology={ two-level = { racks = 2, machines_per_rack = 2, servers_per_machine = 2, \
                 uplinks_per_rack = 1, uplink_gbps = 100, uplink_choice = \"flow\" } }";
    let set = format!("fabric.{small}");
    let output = farcall(&[&words[..], &["--scale-topology", "--set", &set]].concat());
    let text = String::from_utf8(output.stdout).expect("a table is text");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("# 3 racks of 2 machines instead of 2 racks of 2 machines (--scale-topology); a launch of 12 nodes takes about "), "{text}");
    let rows =
        text.lines().filter(|line| line.trim_start().starts_with(|first: char| first.is_ascii_digit()));
    assert_eq!(rows.count(), 2, "{text}");
}

/// A trace of `messages` messages, one in 10 us.
fn trace(messages: usize) -> String {
    let line = |number: usize| {
        let (time, size) = (number as f64 / 1e5, if number.is_multiple_of(10) { 5_000 } else { 100 });
        format!(
            "{{\"time\": {time}, \"size\": {size}, \"from\": {}, \"peer\": {}}}\n",
            number % 3,
            (number + 1) % 3
        )
    };
    (0..messages).map(line).collect()
}

#[test]
fn recorded_arrivals_are_replayed_on_a_fabric_and_between_processes() {
    let path = std::env::temp_dir().join(format!("farcall-arrivals-{}.jsonl", std::process::id()));
    std::fs::write(&path, trace(7_000)).expect("a temporary file");
    let file = path.to_string_lossy().into_owned();
    let words = [
        "perf",
        "echoWorkload",
        "--arrivals",
        &file,
        "--nodes",
        "3",
        "--quiet",
        "--json",
        "-",
        "--transport",
    ];
    let counts = |more: &[&str]| {
        let records = records(&[&words[..], more].concat());
        let all: Vec<&Value> = records.iter().filter(|record| record["decile"].is_null()).collect();
        let figure = all.first().expect("there is a line of all messages");
        (
            figure["samples"].as_u64().expect("a number"),
            figure["load"].as_f64().expect("a load"),
            figure["speed"].clone(),
        )
    };
    let simulated = counts(&["basic+sim"]);
    // The window is the middle four sevenths.
    assert!((3_900..=4_100).contains(&simulated.0), "{simulated:?}");
    let faster = counts(&["basic+sim", "--speed", "2"]);
    assert!((faster.1 / simulated.1 - 2.0).abs() < 1e-6 && faster.2 == 2.0, "{simulated:?} {faster:?}");
    let real = counts(&["basic+udp", "--link-gbps", "10", "--speed", "0.1"]);
    assert!((3_900..=4_100).contains(&real.0), "{real:?}");
    let refused = sentence(
        &["perf", "echoWorkload", "--arrivals", &file, "--nodes", "2", "--transport", "basic+sim"],
        2,
    );
    assert!(refused.contains("message 2 goes to peer 2, and there are 2 receivers"), "{refused}");
    let short = path.with_extension("short.jsonl");
    std::fs::write(&short, "{\"time\":0,\"size\":8}\n{\"time\":\"100ns\",\"size\":8}\n")
        .expect("another one");
    let words = ["perf", "echoWorkload", "--arrivals", &short.to_string_lossy(), "--speed", "1000"];
    for transport in [["--transport", "basic+sim"], ["--transport", "basic+udp"]] {
        let refused = sentence(&[&words[..], &transport, &["--link-gbps", "10"]].concat(), 2);
        assert!(refused.contains("at least 1µs is replayed; ask for less --speed"), "{refused}");
    }
    std::fs::remove_file(&short).expect("it was just written");
    let refused = sentence(&["perf", "echo", "--arrivals", &file, "--transport", "basic+sim"], 2);
    assert_eq!(refused, "farcall: --arrivals is read by echoWorkload, not by echo: leave it out");
    std::fs::remove_file(&path).expect("it was just written");
}

#[test]
fn a_dry_run_looks_at_every_file_that_the_run_would_write_or_read() {
    let commands = [
        "perf echo --transport basic+sim --sizes 100",
        "perf echoWorkload --transport basic+sim --nodes 2",
        "shuffle --transport basic+sim --nodes 4 --sizes 1K",
        "msgrate --transport ring+shm --mode handler --sizes 8 --in-flight 1 --runs 1",
        "benchkv --transport ring+shm --runs 1",
    ];
    let refused_of = |command: &str, more: &[&str]| {
        let words: Vec<_> = command.split(' ').chain(["--dry-run"]).chain(more.iter().copied()).collect();
        let output = farcall(&words);
        (String::from_utf8(output.stderr).expect("messages are text"), output.status.code())
    };
    for command in commands {
        for (trace, why) in [
            ("--trace=/no/such/folder/trace", "/no/such/folder: No such file or directory"),
            ("--trace=/proc/self/status/trace", "/proc/self/status: no folder"),
            ("--trace=/proc", "it is a folder"),
        ] {
            let (said, status) = refused_of(command, &[trace]);
            let expected = format!("farcall: cannot write to {}: {why}", &trace[8..]);
            assert!(said.contains(&expected) && status == Some(1), "{command} {trace}: {said}");
        }
        let (said, status) = refused_of(command, &["--json", "/tmp/./same", "--trace=/tmp/same"]);
        assert!(said.contains("would both write /tmp/./same") && status == Some(2), "{command}: {said}");
    }
    // What endpoints read, of transports that read it.
    let keyed = "perf echo --transport basic+udp --sizes 100 --set security.key_file=/no/key";
    let (said, status) = refused_of(keyed, &[]);
    assert!(said.contains("security.key_file: cannot read /no/key: ") && status == Some(1), "{said}");
}

#[test]
fn a_dry_run_asks_for_the_folder_of_logs_where_writes_are_flushed() {
    let words =
        ["perf", "writeThroughput", "--transport", "ring+shm", "--durability", "flushed", "--dry-run"];
    let output = Command::new(env!("CARGO_BIN_EXE_farcall")).args(words).env("TMPDIR", "/no/folder").output();
    let said = String::from_utf8(output.expect("it runs").stderr).expect("text");
    assert!(said.contains("cannot write to /no/folder/farcall"), "{said}");
}
