//! The workloads at the ranks of a job of Slurm, on four hosts.

mod common;

use std::path::PathBuf;
use std::process::Output;
use std::sync::{Mutex, PoisonError};

use common::ranks::{children_of, kill, workloads};
use common::slurm::{Slurm, ended};
use serde_json::Value;

const NODES: usize = 4;

/// The ways in which Slurm tells its processes where the others are.
const WAYS: [&str; 2] = ["pmix", "pmi2"];

/// One cluster at a time: they have the same machine, and the same addresses.
static CLUSTER: Mutex<()> = Mutex::new(());

/// Lets `test` have a cluster, where there can be one.
fn with_cluster(test: impl FnOnce(&Slurm)) {
    let _cluster = CLUSTER.lock().unwrap_or_else(PoisonError::into_inner);
    match Slurm::start(NODES) {
        Ok(slurm) => test(&slurm),
        Err(why) => println!("unsupported: no cluster of Slurm here ({why})"),
    }
}

/// The file of a record.
fn run_of(folder: &PathBuf) -> Value {
    let text = std::fs::read_to_string(folder.join("run.json")).expect("the run was recorded");
    let _ = std::fs::remove_dir_all(folder);
    serde_json::from_str(&text).expect("it is JSON")
}

fn recording(arguments: &[String], name: &str) -> (Vec<String>, PathBuf) {
    let folder = std::env::temp_dir().join(format!("farcall-slurm-run-{}-{name}", std::process::id()));
    let path = folder.to_string_lossy().into_owned();
    (arguments.iter().cloned().chain(["--record".to_owned(), path]).collect(), folder)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn every_workload_runs_by_srun_and_its_record_names_four_hosts() {
    with_cluster(|slurm| {
        for way in WAYS {
            for workload in workloads(NODES, "1") {
                let (arguments, folder) = recording(&workload, &format!("{way}-{}", workload[0]));
                let output = ended(slurm.srun(way, NODES, &arguments));
                assert!(output.status.success(), "{way} {workload:?}: {}\n{}", said(&output), slurm.log());
                assert!(!output.stdout.is_empty(), "rank 0 speaks");
                let run = run_of(&folder);
                let ranks = run["ranks"].as_array().expect("there are ranks");
                let named: Vec<_> = ranks.iter().map(|rank| rank["host"].as_str().expect("a name")).collect();
                assert_eq!(named, ["node0", "node1", "node2", "node3"], "{way} {workload:?}");
            }
        }
    });
}

#[test]
fn ranks_that_share_nodes_are_packed_or_spread() {
    with_cluster(|slurm| {
        for (place, expected) in [("pack", ["node0", "node0"]), ("spread", ["node0", "node1"])] {
            let line =
                "perf echo --transport basic+udp --sizes 100 --count 200 --servers 1 --clients 1 --place";
            let words: Vec<String> = line.split(' ').chain([place]).map(str::to_owned).collect();
            let (arguments, folder) = recording(&words, place);
            let output = ended(slurm.srun("pmix", 2 * NODES, &arguments));
            assert!(output.status.success(), "{place}: {}\n{}", said(&output), slurm.log());
            let figures = std::fs::read_to_string(folder.join("results.jsonl")).expect("it was recorded");
            let run = run_of(&folder);
            assert_eq!(run["ranks"].as_array().map(Vec::len), Some(2 * NODES), "{run}");
            let figures = figures.lines().map(|line| serde_json::from_str(line).expect("it is JSON"));
            let mut processes = figures.filter_map(|figure: Value| figure["processes"].as_array().cloned());
            let processes = processes.next_back().expect("a figure of processes");
            let hosts: Vec<&str> = processes.iter().filter_map(|one| one["host"].as_str()).collect();
            assert_eq!(hosts, expected, "{place}");
        }
    });
}

/// Slurm itself ends the others when one is killed: rank 0 may not get to say anything.
const ATTEMPTS: usize = 10;

#[test]
fn a_rank_of_srun_that_is_killed_is_named() {
    with_cluster(|slurm| {
        for way in WAYS {
            let is_named = (0..ATTEMPTS).any(|attempt| {
                let (output, folder) = with_rank_1_killed(slurm, way, attempt);
                let said = said(&output);
                if said.contains("task 0: Killed") {
                    let _ = std::fs::remove_dir_all(&folder);
                    return false;
                }
                assert!(
                    !output.status.success() && said.contains("rank 1 on node1 was lost: "),
                    "{way}: {said}"
                );
                let lost = run_of(&folder)["lost"].as_str().map(str::to_owned);
                assert!(lost.is_some_and(|lost| said.contains(&lost)), "{way}: {said}");
                true
            });
            assert!(is_named, "{way}: rank 0 was killed {ATTEMPTS} times before it could say anything");
        }
    });
}

/// What a run prints of which a rank is killed, and the folder of its record.
fn with_rank_1_killed(slurm: &Slurm, way: &str, attempt: usize) -> (Output, PathBuf) {
    let (arguments, folder) = recording(&workloads(NODES, "300")[0], &format!("{way}-killed-{attempt}"));
    let mut srun = slurm.srun(way, NODES, &arguments);
    let victim = loop {
        let process = slurm.process_of(1).filter(|&pid| !children_of(pid).is_empty());
        if let Some(process) = process {
            break process;
        }
        let ended = srun.try_wait().expect("it is a child");
        assert_eq!(ended, None, "srun ended before its processes began: {}", slurm.log());
        std::thread::yield_now();
    };
    kill(victim);
    (ended(srun), folder)
}

#[test]
fn srun_that_tells_its_processes_nothing_is_named_with_what_does() {
    with_cluster(|slurm| {
        let output = ended(slurm.srun("none", NODES, &["perf", "echo"].map(str::to_owned)));
        let said = said(&output);
        assert!(!output.status.success() && said.contains("start it by `srun --mpi=pmix`"), "{said}");
    });
}
