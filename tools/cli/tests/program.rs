//! The program as people and scripts meet it: output, exit status, and one sentence when something is wrong.

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use common::{farcall, records, sentence};

#[test]
fn a_wrong_command_line_gets_one_sentence_and_status_2() {
    let cases: [(&[&str], &str); 48] = [
        (&[], "farcall: name a command, such as `farcall perf`; see `farcall --help`"),
        (&["kv"], "farcall: name a command, such as `farcall kv serve`; see `farcall kv --help`"),
        (&["policy"], "farcall: name a command, such as `farcall policy check`; see `farcall policy --help`"),
        (&["pref"], "farcall: there is no command `pref`; did you mean `perf`?"),
        (
            &["perf", "ecko"],
            "farcall: `ecko` is no value of TEST; choose from echo, echoWorkload, basic, readDist, writeDist, readThroughput, writeThroughput, multiRead",
        ),
        (&["perf", "--sice", "1"], "farcall: there is no option `--sice`; did you mean `--sizes`?"),
        (
            &["kv", "export", "--file", "x"],
            "farcall: there is no option `--file`; see `farcall kv export --help`",
        ),
        (&["kv", "get", "a", "b"], "farcall: `b` is one argument too many; see `farcall kv get --help`"),
        (&["kv", "zzz"], "farcall: there is no command `zzz`; see `farcall kv --help`"),
        (
            &["perf", "--sizes", "100,1x"],
            "farcall: --sizes: `1x` is not a size; write a whole number of bytes such as 100, 10K or 1M",
        ),
        (
            &["perf", "--transport", "ring+shm", "--sizes", "16M"],
            "farcall: --sizes: 16M is longer than the 8M that ring+shm carries; add --set ring.message_bytes_max=16M",
        ),
        (
            &["perf", "--transport", "ring+shm", "--sizes", "32K,64K", "--set", "shm.block_bytes=128K"],
            "farcall: --sizes: 64K is longer than the 32K that ring+shm lends of shm.block_bytes=128K; add --set \
             shm.block_bytes=256K",
        ),
        (
            &["perf", "--count", "0"],
            "farcall: --count: `0` is not a whole number above 0, such as 10000 or 10K",
        ),
        (&["perf", "--clients", "257"], "farcall: --clients: `257` is not a whole number from 1 to 256"),
        (
            &["perf", "--seconds", "0"],
            "farcall: --seconds: `0` is no time above 0 and up to 86400 seconds; write 10 or 0.5 of them, or 200ms",
        ),
        (&["perf", "--seed"], "farcall: --seed needs a value"),
        (&["perf", "--seed", "3,14"], "farcall: --seed: `3,14` is not a whole number, such as 7"),
        (&["tune", "x", "--seed", "1.5"], "farcall: --seed: `1.5` is not a whole number, such as 7"),
        (
            &["perf", "--set", "ring.calls_max=8", "--set", "ring.calls_max=9"],
            "farcall: --set ring.calls_max=8 and --set ring.calls_max=9 are of one parameter; leave one of them out",
        ),
        (
            &["info", "--set", "ring.calls_max=8", "--set", "ring.calls_max=9"],
            "farcall: --set ring.calls_max=8 and --set ring.calls_max=9 are of one parameter; leave one of them out",
        ),
        (
            &[
                "perf",
                "--transport",
                "ring+sim",
                "--set",
                "fabric.link.gbps=8",
                "--set",
                "fabric.link.gbps=9",
            ],
            "farcall: --set fabric.link.gbps=8 and --set fabric.link.gbps=9 are of one parameter; leave one of them out",
        ),
        (
            &["perf", "--transport", "ring+shm", "--set", "ring.calls_max=8", "--vary", "ring.calls_max=8/9"],
            "farcall: --vary ring.calls_max=8/9 has both values itself, and nothing would use --set \
             ring.calls_max=8; leave it out",
        ),
        (
            &["perf", "--transport", "ring+sim", "--vary", "fabric.link.gbps=3,14"],
            "farcall: --vary: `14` is no parameter; between two values of `fabric.link.gbps` is a slash, as in \
             fabric.link.gbps=3/14",
        ),
        (
            &["perf", "--transport", "ring+sim", "--vary", ""],
            "farcall: --vary: a factor is empty; write NAME=A/B or another form of one, and commas between several",
        ),
        (
            &["perf", "--transport", "ring+sim", "--set", "ring.ring_bytes=4K"],
            "farcall: --set: nothing of ring+sim reads `ring.ring_bytes`; leave it out, or choose a --transport \
             that does",
        ),
        (
            &["perf", "--sizes", "1K,8,1024"],
            "farcall: --sizes has 1K twice; each is measured once, so name it once",
        ),
        (
            &["shuffle", "--nodes", "4,4"],
            "farcall: --nodes has 4 twice; each is measured once, so name it once",
        ),
        (
            &["msgrate", "--in-flight", "1,10,1"],
            "farcall: --in-flight has 1 twice; each is measured once, so name it once",
        ),
        (
            &["perf", "--set", "ring.ring_byte=1M"],
            "farcall: unknown parameter `ring.ring_byte`; did you mean `ring.ring_bytes`?",
        ),
        (
            &["perf", "--set", "ring.ring_bytes=1"],
            "farcall: ring.ring_bytes=1 is out of range; the nearest valid value is 4K",
        ),
        (
            &["perf", "--transport", "ring+shm", "--fabric", "ideal"],
            "farcall: --fabric is for simulated transports, such as --transport basic+sim",
        ),
        (
            &["perf", "--transport", "ring+shm", "--set", "fabric.link.gbps=1"],
            "farcall: --set fabric.… is for simulated transports, such as --transport basic+sim",
        ),
        (
            &["perf", "--transport", "homa+sim", "--fabric", "connectx2-qdr", "--clients", "80"],
            "farcall: --clients and --servers: connectx2-qdr has places for 80 hosts, not for 81; --scale-topology gives it more of its kind",
        ),
        (
            &["perf", "echoWorkload", "--transport", "basic+udp"],
            "farcall: --load is a part of the links' rate, which is not known for basic+udp; add --link-gbps",
        ),
        (
            &["perf", "echoWorkload", "--transport", "basic+sim", "--link-gbps", "10"],
            "farcall: --link-gbps is not for simulated fabrics, whose links have a rate; see --set fabric.link.gbps",
        ),
        (
            &["perf", "echoWorkload", "--load", "1.5"],
            "farcall: --load: `1.5` is not a part of a link's rate, such as 0.8",
        ),
        (
            &["perf", "echoWorkload", "--transport", "ring+shm", "--nodes", "1", "--link-gbps", "10"],
            "farcall: --nodes: a workload needs at least 2",
        ),
        (
            &["msgrate", "--raw", "waitany"],
            "farcall: --raw: there is no library below ring+shm; choose --transport ucx or mpi",
        ),
        (
            &["msgrate", "--transport", "ucx", "--raw", "test,testany"],
            "farcall: --raw: ucx has no loop of `testany`; choose from waitany, test",
        ),
        (
            &["compare", "--peers", "netpype"],
            "farcall: --peers: there is no peer `netpype`; choose from all, ucx, netpipe, oomph, aeron, libfabric, redis, memcached",
        ),
        (
            &["compare", "--rows", "echo100,call"],
            "farcall: --rows: there is no row `call`; choose from bulk1M, bulk256K, bulk64K, callRate8, echo100, \
             echo100.bursts, loaned1M, messageRate8.futures, messageRate8.handler, pingPong100K, \
             pingPong10K, pingPong1M, read100, recovery64M, write100.flushed, write100.replicated2, writeRate100.flushed64",
        ),
        (
            &["compare", "--program", "/nonexistent/farcall"],
            "farcall: --program: /nonexistent/farcall: No such file or directory (os error 2)",
        ),
        (
            &["compare", "--program", "/proc"],
            "farcall: --program: /proc is no program: it must be another build of farcall",
        ),
        (
            &["compare", "--program", "/bin/true", "--within", "0"],
            "farcall: --within: `0` is not a number of percent above 0 and up to 100, such as 2 or 0.5",
        ),
        (&["stat", "self"], "farcall: PID: `self` is not a whole number from 1 to 2147483647"),
        (
            &["kv", "serve", "--resp", "127.0.0.1:0", "--resp-value-max", "100K"],
            "farcall: --resp-value-max: `100K` is not from 1M to 512M",
        ),
        (
            &["kv", "serve", "--resp-clients", "10"],
            "farcall: --resp or --memcached is missing; the command is `farcall kv serve --resp-clients <NUMBER> \
             <--resp <HOST:PORT|PATH>|--memcached <HOST:PORT|PATH>>`",
        ),
        (
            &["top", "--once", "--interval", "200 parsecs"],
            "farcall: --interval: `200 parsecs` is no time above 0 and up to 86400 seconds; write 10 or 0.5 of them, \
             or 200ms",
        ),
    ];
    for (arguments, expected) in cases {
        assert_eq!(sentence(arguments, 2), expected);
    }
}

#[test]
fn an_unknown_transport_is_answered_with_those_that_exist() {
    let found = sentence(&["perf", "--transport", "ring+shn"], 2);
    assert!(
        found.starts_with("farcall: --transport: unknown transport `ring+shn`; the transports here are ")
    );
    assert!(found.contains("ring+shm"), "{found}");
}

#[test]
fn a_failure_gets_one_sentence_and_status_1() {
    let found = sentence(&["compare", "--program", "/bin/true", "--rows", "callRate8", "--blocks", "1"], 1);
    assert!(found.contains(" failed: its process ended without a report"), "{found}");
    assert!(found.contains("true)"), "it says which program: {found}");
    let mut sleep = Command::new("sleep").arg("600").spawn().expect("sleep runs");
    let without_counters = sleep.id().to_string();
    let found = sentence(&["stat", &without_counters], 1);
    assert_eq!(found, format!("farcall: process {without_counters} has no farcall counters"));
    sleep.kill().and_then(|()| sleep.wait()).expect("it runs");
    let found = sentence(&["perf", "--json", "/nonexistent/results"], 1);
    assert!(found.starts_with("farcall: cannot write to /nonexistent/results: "), "{found}");
}

#[test]
fn a_registry_says_how_processes_find_it() {
    struct Ended(Child);
    impl Drop for Ended {
        fn drop(&mut self) {
            // Both fail only when it has ended.
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_farcall"));
    command.args(["registry", "--listen", "0.0.0.0:0"]).stdout(Stdio::piped());
    let mut registry = Ended(command.spawn().expect("the program runs"));
    let lines = BufReader::new(registry.0.stdout.take().expect("it is piped")).lines();
    let lines: Vec<String> = lines.take(3).map(|line| line.expect("lines are text")).collect();
    let port = lines[0].rsplit_once(':').expect("a port").1;
    assert_eq!(lines[0], format!("names are served at 0.0.0.0:{port}"));
    assert_eq!(lines[1], format!("    for processes here: FARCALL_NAMES=127.0.0.1:{port}"));
    assert!(lines[2].contains(&format!("FARCALL_NAMES=HOST:{port}")), "{}", lines[2]);
    let taken = sentence(&["registry", "--listen", &format!("127.0.0.1:{port}")], 1);
    assert!(taken.starts_with("farcall: cannot serve the rendezvous at 127.0.0.1:"), "{taken}");
}

#[test]
fn the_way_to_a_peer_is_shown_with_the_reason_for_every_other() {
    let node = farcall::Node::serving_names("127.0.0.1:0").expect("a port of loopback");
    let place = node.registry_address().expect("it serves names");
    let server = node.endpoint("auto").expect("an endpoint");
    let _listener = server.listen("orders").expect("a name");
    let target = format!("farcall://{place}/orders");
    let shown = std::thread::spawn(move || {
        let way = |transport: &str| {
            records(&["info", "--peer", &target, "--transport", transport, "--json", "-"]).swap_remove(0)
        };
        [way("auto"), way("basic+udp/ring+shm"), way("basic+udp")]
    });
    server.run_while(|| !shown.is_finished());
    let [auto, list, alone] = shown.join().expect("no panic");
    assert_eq!(auto["transport"], "ring+shm");
    let last = auto["not_taken"].as_array().and_then(|others| others.last()).expect("there are others");
    assert_eq!((&last["transport"], &last["why"]), (&"basic+udp".into(), &"ring+shm is preferred".into()));
    assert_eq!(list["transport"], "basic+udp");
    assert_eq!(list["not_taken"][0]["why"], "basic+udp is preferred");
    assert_eq!(alone["not_taken"].as_array().map(Vec::len), Some(0));
}

#[test]
fn stat_and_explain_say_which_ways_the_sessions_of_a_process_take_and_why_not_others() {
    let node = farcall::Node::serving_names("127.0.0.1:0").expect("a port of loopback");
    let server = node.endpoint("auto").expect("an endpoint");
    server.serve(farcall::Service(1), |request, reply| reply.send(request.payload()));
    let _listener = server.listen("orders").expect("a name");
    let client = node.endpoint("basic+udp,ring+shm").expect("an endpoint");
    let connection = client.connect("orders").expect("a name");
    let mut answered = false;
    let call = connection.call(farcall::Service(1), b"hello").begin();
    let mut call = std::pin::pin!(call);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    while !answered {
        server.poll_once();
        client.poll_once();
        answered = std::future::Future::poll(call.as_mut(), &mut context).is_ready();
    }
    let pid = std::process::id().to_string();
    for arguments in [&["stat", &pid][..], &["explain", "--seconds", "1", "--pid", &pid]] {
        // Counters follow in later turns.
        let begun = std::time::Instant::now();
        let said = loop {
            server.poll_once();
            client.poll_once();
            let said = String::from_utf8(farcall(arguments).stdout).expect("text");
            if !said.contains(": no sessions") || begun.elapsed() > std::time::Duration::from_secs(60) {
                break said;
            }
        };
        let of = |endpoint: &str| said.lines().find(|line| line.contains(endpoint)).unwrap_or(&said);
        let (list, auto) = (of("ring+shm#1: "), of("auto#0: "));
        assert!(list.contains("1 session over basic+udp; "), "{list}");
        assert!(list.contains("not ring+shm: basic+udp is preferred (1)"), "{list}");
        assert!(auto.contains("1 session over basic+udp; "), "{auto}");
        assert!(auto.contains("not tcp: the peer, which connected, took another one (1)"), "{auto}");
    }
}

#[test]
fn info_lists_transports_and_parameters() {
    let transports = records(&["info", "--json", "-"]);
    assert!(transports.iter().any(|transport| transport["name"] == "ring+shm"));
    let rings = |assignment| records(&["info", "--set", assignment, "--json", "-"]).swap_remove(0);
    for (assignment, shown) in [
        ("ring.inline_bytes=20K", "payloads of calls up to 8191 and of messages up to 20K bytes"),
        ("ring.inline_bytes=100", "payloads of calls up to 100 and of messages up to 100 bytes"),
        ("ring.ring_bytes=4K", "payloads of calls up to 1000 and of messages up to 1000 bytes"),
        ("ring.ring_bytes=1M", "are copied through rings of 1M bytes; longer ones are lent"),
    ] {
        let found = rings(assignment)["copied_and_lent"].to_string();
        assert!(found.contains(shown), "{found}");
    }
    let parameters = records(&["info", "--parameters", "--set", "ring.ring_bytes=1M", "--json", "-"]);
    let ring_bytes =
        parameters.iter().find(|parameter| parameter["name"] == "ring.ring_bytes").expect("it is declared");
    assert_eq!((&ring_bytes["value"], &ring_bytes["default"]), (&"1M".into(), &"auto".into()));
    let text = String::from_utf8(farcall(&["info", "--parameters"]).stdout).expect("listings are text");
    assert!(text.contains("ring.ring_bytes=auto\n") && text.contains("FARCALL_RING_RING_BYTES"));
}

#[test]
fn help_goes_to_standard_output() {
    let output = farcall(&["perf", "--help"]);
    assert!(output.status.success() && output.stderr.is_empty());
    assert!(String::from_utf8_lossy(&output.stdout).contains("--in-flight"));
}
