//! `--vary` as people and scripts meet it, and `compare --peers` where there are none.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use serde_json::Value;

fn farcall(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_farcall"));
    command.args(arguments).output().expect("the program runs")
}

fn text_of(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("output is text")
}

const ECHO: [&str; 12] = [
    "perf",
    "echo",
    "--transport",
    "basic+sim",
    "--fabric",
    "connectx2-qdr",
    "--sizes",
    "100,10K",
    "--count",
    "60",
    "--blocks",
    "4",
];

fn varied(more: &[&str]) -> Output {
    farcall(&[&ECHO[..], more].concat())
}

#[test]
fn a_factor_that_matters_and_one_that_does_not_are_told_apart() {
    let factors = ["--vary", "fabric.link.gbps=16/64,basic.calls_max=2/8", "--guard", "echo100:p50=1%"];
    let text = text_of(&varied(&factors));
    let line = |begin: &str| {
        let of_size = text.split("# echo10K").nth(1).expect("a table for the size");
        of_size
            .lines()
            .find(|line| line.trim_start().starts_with(begin))
            .expect("a line for the factor")
            .to_owned()
    };
    assert!(line("fabric.link.gbps 16 -> 64").contains("better"), "{text}");
    assert!(line("basic.calls_max 2 -> 8").contains("inert"), "{text}");
    assert!(text.contains("# guard echo100:p50=1%: kept by basic.calls_max 2 -> 8"), "{text}");
}

#[test]
fn records_of_effects_are_repeatable_and_documented() {
    let documentation = include_str!("../../../docs/results.md");
    let factors = ["--vary", "fabric.link.gbps=16/64,basic.calls_max=2/8", "--json", "-"];
    let text = text_of(&varied(&factors));
    assert_eq!(text, text_of(&varied(&factors)), "the same seed gives the same records");
    let records: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("every line is JSON")).collect();
    for field in records.iter().flat_map(|record| record.as_object().expect("an object").keys()) {
        assert!(
            documentation.contains(&format!("`{field}`")),
            "docs/results.md does not say what `{field}` is"
        );
    }
    let named =
        |name: &str| records.iter().find(|record| record["name"] == name).expect("a record of that name");
    let effect = named("echo10K.p50.effect.fabric.link.gbps");
    assert!(effect["value"].as_f64().expect("a number") < 0.95 && effect["verdict"] == "better", "{effect}");
    assert_eq!(named("echo10K.p50.run0")["levels"]["basic.calls_max"], "2");
    assert_eq!(named("echo10K.p50.run0")["of_blocks"].as_array().map(Vec::len), Some(4));
}

#[test]
fn pairs_of_many_factors_that_cannot_be_told_apart_stand_together() {
    let factors = "basic.calls_max=2,basic.resend_interval=3ms,endpoint.call_timeout=9s,peers.sessions_max=64,\
                   basic.checksum,endpoint.message_timeout=60s,endpoint.unexpected_bytes=2M,basic.rtt_bytes=2K";
    let text = text_of(&varied(&["--vary", factors, "--json", "-"]));
    let together = text.lines().filter(|line| line.contains("\"kind\":\"interaction\"")).any(|line| {
        let record: Value = serde_json::from_str(line).expect("every line is JSON");
        record["separable"] == false && record["name"].as_str().is_some_and(|name| name.contains(" = "))
    });
    assert!(together, "{text}");
}

#[test]
fn shuffles_are_varied_too() {
    let text = text_of(&farcall(&[
        "shuffle",
        "--nodes",
        "4",
        "--sizes",
        "4000",
        "--ops",
        "12",
        "--blocks",
        "4",
        "--vary",
        "fabric.link.gbps=25/100",
    ]));
    assert!(
        text.lines().any(|line| line.contains("fabric.link.gbps 25 -> 100") && line.contains("better")),
        "{text}"
    );
}

#[test]
fn what_cannot_be_varied_is_refused_in_one_sentence() {
    let cases: [(&[&str], &str); 9] = [
        (
            &["--vary", "homa.overcomit=1/2"],
            "--vary: unknown parameter `homa.overcomit`; did you mean `homa.overcommit`?",
        ),
        (&["--vary", "basic.calls_max=2/2"], "--vary: `basic.calls_max` is 2 at both levels"),
        (&["--vary", "basic.calls_max=1/2,basic.calls_max=3/4"], "--vary: `basic.calls_max` is there twice"),
        (&["--vary", "fabric.link.gbs=1/2"], "unknown field `gbs`"),
        (
            &["--vary", "basic.calls_max=1/2", "--figure", "p51"],
            "--figure: there is no figure `p51`; choose from p50, ",
        ),
        (
            &["--vary", "basic.calls_max=1/2", "--guard", "echo9:p50=1%"],
            "--guard: `echo9` is not measured; the rows are echo100, echo10K",
        ),
        (&["--vary", "basic.calls_max=1/2", "--guard", "echo100:p50=1"], "is not ROW:FIGURE=PERCENT%"),
        (
            &["--vary", "basic.calls_max=1/2", "--trace"],
            "--trace is for one configuration, and --vary measures several",
        ),
        (&["--guard", "echo100:p50=1%"], "--vary"),
    ];
    for (arguments, sentence) in cases {
        let output = match arguments.contains(&"--vary") {
            true => varied(arguments),
            // Without --blocks, which would be refused first.
            false => farcall(&[&ECHO[..10], arguments].concat()),
        };
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), text.lines().count()), (Some(2), 1), "{arguments:?}: {text}");
        assert!(text.contains(sentence), "{arguments:?}: {text}");
    }
}

#[test]
fn what_is_set_is_one_of_two_levels_where_the_other_is_given() {
    let set = ["--set", "basic.calls_max=3", "--vary", "basic.calls_max=8"];
    let text = text_of(&varied(&set));
    assert!(text.contains("basic.calls_max 3 -> 8"), "{text}");
}

#[test]
fn the_handler_takes_its_time_while_something_is_varied() {
    let arguments = ["perf", "echo", "--transport", "ring+shm", "--sizes", "100", "--count", "60"];
    let varied = ["--blocks", "2", "--vary", "ring.inline_bytes=200", "--handler", "200us", "--json", "-"];
    let text = text_of(&farcall(&[&arguments[..], &varied].concat()));
    let records = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("every line is JSON"));
    let is_mean =
        |record: &Value| record["name"].as_str().is_some_and(|name| name.starts_with("echo100.mean.run"));
    let means: Vec<f64> = records.filter(is_mean).filter_map(|record| record["value"].as_f64()).collect();
    assert!(!means.is_empty() && means.iter().all(|mean| *mean >= 200_000.0), "{means:?} ns");
}

#[test]
fn peers_that_are_not_here_are_named_with_what_installs_them() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_farcall"));
    let output = command.args(["compare", "--peers", "netpipe,oomph,memcached"]).env("PATH", "").output();
    let text = text_of(&output.expect("the program runs"));
    assert!(
        text.contains("# memcached-tcp: absent, there is no memcached; --install fetches memcached"),
        "{text}"
    );
    assert!(text.contains("# netpipe-mpich: absent, there is no NPmpich2"), "{text}");
    let oomph = "# oomph-stream-ucx: absent, there is no bench_p2p_bi_ft_avail_mt_ucx; github.com/ghex-org/oomph, built";
    assert!(text.contains(oomph), "{text}");
}

#[test]
fn a_transport_over_a_library_that_fails_is_a_note_beside_figures_that_do_not() {
    let folder = std::env::temp_dir().join(format!("farcall-peer-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder");
    let program = folder.join("fi_pingpong");
    std::fs::write(&program, "#!/bin/sh\necho nothing to be had >&2\nexit 1\n").expect("a program");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("it can be run");
    let mut command = Command::new(env!("CARGO_BIN_EXE_farcall"));
    command.args(["compare", "--peers", "libfabric-shm", "--sizes", "8", "--blocks", "1", "--json"]).arg("-");
    // Whether libfabric is here or not, it cannot carry anything.
    let output = command.env("PATH", &folder).env("FI_PROVIDER", "none").output().expect("the program runs");
    std::fs::remove_dir_all(&folder).expect("the folder can be removed");
    let text = text_of(&output);
    let compared =
        |line: &str| line.contains("\"transport\":\"ring+shm\"") && line.contains("\"test\":\"peers\"");
    assert!(text.lines().any(compared), "the bare loop is compared with: {text}");
}
