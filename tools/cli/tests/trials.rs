//! `farcall explain --try`: a run is tried again as it was, with what its record says and not with what is
//! around by now.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder that goes with its owner.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("farcall-trial-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary folder");
        Self(path)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).expect("a temporary file");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What the program prints, with these variables, in this folder.
fn printed(folder: &Path, variables: &[(&str, &str)], words: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_farcall"));
    let output = command.args(words.split(' ')).envs(variables.iter().copied()).current_dir(folder).output();
    let output = output.expect("the program runs");
    assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

const ECHO: &str =
    "perf echo --transport basic+sim --fabric connectx7-ndr --sizes 1K --in-flight 8 --record run --quiet";

/// What the trial of a run says whose schedule of faults has gone since.
fn tried_with_schedule(name: &str, schedule: &str, more: &str) -> String {
    let folder = Folder::new(name);
    folder.write("faults.toml", schedule);
    printed(&folder.0, &[], &format!("{ECHO} --schedule faults.toml{more}"));
    std::fs::remove_file(folder.0.join("faults.toml")).expect("it was just written");
    printed(&folder.0, &[], "explain run --try")
}

#[test]
fn what_a_schedule_does_is_confirmed_by_leaving_it_out_of_the_schedule() {
    let lost = tried_with_schedule("loss", "packets = { drop = 0.02 }", "");
    assert!(lost.contains("confirmed: packets that are lost on their way"), "{lost}");
    assert!(lost.contains("what next: run it again without `--schedule`: "), "{lost}");
    let altered = tried_with_schedule("cut", "packets = { truncate = 0.02 }", " --set basic.checksum=true");
    assert!(altered.contains("confirmed: packets that are altered on their way"), "{altered}");
    let held = tried_with_schedule("held", "packets = { delay = 0.2, delay_us = 20 }", "");
    assert!(held.contains("confirmed: a fault that holds packets up"), "{held}");
}

#[test]
fn what_else_a_schedule_does_stays_in_the_experiment() {
    let slow = "[[event]]\nat_us = 0\naction = { slow = { hosts = [0], factor = 3 } }\n";
    let both = tried_with_schedule("both", &format!("packets = {{ drop = 0.02 }}\n{slow}"), "");
    assert!(both.contains("confirmed: packets that are lost on their way"), "{both}");
    assert!(both.contains("run it again with a `--schedule` that has no `drop`: "), "{both}");
    // Two sources of one fault: both are taken away.
    let twice = tried_with_schedule("twice", "packets = { drop = 0.02 }", " --set fault.drop_permille=20");
    let taken_away = "with `--set fault.drop_permille=0` and without `--schedule`";
    assert!(twice.contains("confirmed: packets that are lost") && twice.contains(taken_away), "{twice}");
}

#[test]
fn a_server_that_stands_still_by_schedule_is_let_go_on() {
    let stands = |at: u32| {
        format!(
            "[[event]]\nat_us = {at}\naction = {{ pause = [0] }}\n[[event]]\nat_us = {}\naction = {{ resume = [0] }}\n",
            at + 40
        )
    };
    let schedule: String = (0..40).map(|turn| stands(10 + turn * 50)).collect();
    let said = tried_with_schedule("stands", &schedule, "");
    assert!(
        said.contains("confirmed: a server whose processor stands still; without `--schedule`"),
        "{said}"
    );
}

#[test]
fn parameters_of_the_environment_and_of_a_file_are_those_of_the_run() {
    let folder = Folder::new("environment");
    folder.write("farcall.toml", "[fault]\ndrop_permille = 20\n");
    for (name, variable, value) in
        [("variable", "FARCALL_FAULT_DROP_PERMILLE", "20"), ("file", "FARCALL_CONFIG", "farcall.toml")]
    {
        printed(&folder.0, &[(variable, value)], &ECHO.replace("--record run", &format!("--record {name}")));
        let told = printed(&folder.0, &[], &format!("explain {name} --try"));
        assert!(told.contains("confirmed: packets that are lost on their way"), "{name}: {told}");
    }
    // What this process has is another's.
    printed(&folder.0, &[], &format!("{ECHO} --set fault.drop_permille=20"));
    let corrupting = [("FARCALL_FAULT_DUPLICATE_PERMILLE", "900"), ("FARCALL_BASIC_CHECKSUM", "true")];
    let told = printed(&folder.0, &corrupting, "explain run --try");
    assert!(told.contains("confirmed: packets that are lost on their way"), "{told}");
}

#[test]
fn a_run_that_goes_another_way_by_now_decides_nothing() {
    let folder = Folder::new("another");
    printed(&folder.0, &[], &format!("{ECHO} --handler 2us"));
    let place = folder.0.join("run/results.jsonl");
    let recorded = std::fs::read_to_string(&place).expect("it was recorded");
    folder.write("run/results.jsonl", &recorded.replace("\"trace_hash", "\"another_hash"));
    let said = printed(&folder.0, &[], "explain run --try");
    assert!(said.contains("not decided, because the run (with its own seed it goes another way"), "{said}");
}

#[test]
fn recorded_arrivals_that_are_too_much_are_replayed_more_slowly_for_their_owner() {
    let folder = Folder::new("slower");
    folder.write("arrivals", &arrivals(1_000));
    let words = "perf echoWorkload --transport basic+sim --fabric connectx7-ndr --nodes 4 --record run --quiet --arrivals arrivals";
    printed(&folder.0, &[], words);
    let mut tried = Command::new(env!("CARGO_BIN_EXE_farcall"));
    let tried = tried.args(["explain", "run", "--try"]).current_dir(&folder.0).output().expect("it runs");
    let said = String::from_utf8_lossy(&tried.stderr);
    let refused = said.contains("--try does not run `--arrivals`") && said.contains("--arrivals arrivals`");
    assert!(refused && tried.status.code() == Some(2), "whose they are is not said: {said}");
    let said = printed(&folder.0, &[], "explain run --try --trust");
    assert!(said.contains("what next: run it again with `--speed 0."), "{said}");
    assert!(
        said.contains(" confirmed: saturation: more is offered than is carried; with `--speed 0."),
        "{said}"
    );
    assert!(said.contains(" times what is due over "), "{said}");
}

/// Messages of 40 KB, so many nanoseconds apart: more than is carried.
fn arrivals(apart_nanos: u64) -> String {
    let line = |number: u64| format!("{{\"time\": \"{}ns\", \"size\": 40000}}\n", number * apart_nanos);
    (0..600).map(line).collect()
}

#[test]
fn a_cause_that_the_record_names_wrongly_is_refuted() {
    let folder = Folder::new("wrong");
    let words = "perf echo --transport basic+sim --fabric connectx7-ndr --sizes 1K --in-flight 16 --record run --quiet";
    printed(&folder.0, &[], &format!("{words} --set fabric.host.send_packet_ns=2000"));
    assert!(
        printed(&folder.0, &[], "explain run --try").contains(" confirmed: a processor that makes packets")
    );
    // What made packets is said to have served.
    let file = folder.0.join("run/results.jsonl");
    let record = std::fs::read_to_string(&file).expect("a record");
    let swapped = record.replace("\"make_packets\"", "\"-\"").replace("\"serving\"", "\"make_packets\"");
    std::fs::write(&file, swapped.replace("\"-\"", "\"serving\"")).expect("a record");
    let said = printed(&folder.0, &[], "explain run --try");
    assert!(said.contains(" refuted: what handlers and completions take a processor; with `--set"), "{said}");
}

#[test]
fn pairs_go_on_until_the_outcome_is_certain_or_a_bound_is_reached() {
    let folder = Folder::new("pairs");
    // Turns of the poll loop that take long find one call or many, by chance.
    let words = "perf echo --transport ring+sim --fabric connectx7-ndr --sizes 1K --in-flight 16 --record run --quiet";
    printed(&folder.0, &[], &format!("{words} --set fabric.host.poll_ns=4000"));
    let few = printed(&folder.0, &[], "explain run --try --pairs 5");
    assert!(few.contains("neither confirmed nor refuted: ") && few.contains(" over 5 pairs"), "{few}");
    let more = printed(&folder.0, &[], "explain run --try");
    assert!(more.contains(" confirmed: turns of the poll loop"), "{more}");
}

#[test]
fn a_schedule_that_ends_a_host_is_named_by_the_failure() {
    let folder = Folder::new("ends");
    let ends = "[[event]]\nat_us = 40\naction = { crash = [0] }\n[[event]]\nat_us = 60\naction = { restart = [0] }\n";
    folder.write("ends.toml", ends);
    let schedule = folder.0.join("ends.toml");
    let schedule = schedule.to_str().expect("a path in text");
    for words in [
        "perf echo --transport basic+sim --sizes 1K --in-flight 8",
        "perf echo --transport ring+sim --sizes 1K --in-flight 8 --vary endpoint.idle=spin/yield --blocks 2",
        "perf echoWorkload --transport basic+sim --nodes 3 --load 0.3 --count 200",
        "shuffle --transport ring+sim --nodes 4 --sizes 1K --count 20",
    ] {
        let mut words: Vec<_> = words.split(' ').collect();
        words.extend(["--quiet", "--schedule", schedule]);
        let said = common::sentence(&words, 1);
        let named =
            format!("the faults of --schedule {schedule} (`crash` of 0 at 40 us, `restart` of 0 at 60 us)");
        assert!(said.contains(&named), "{words:?}: {said}");
    }
}
