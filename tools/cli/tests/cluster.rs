//! Measurements over the ranks of a cluster: without a launcher, on hosts that are network namespaces, and
//! when a rank is killed in their middle.

mod common;

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use common::ranks::{Hosts, Ranks, children_of, kill, workloads, workloads_over};
use common::until;
use serde_json::Value;

/// How many hosts a cluster has.
const HOSTS: usize = 4;

/// Clusters have the machine one after the other.
static CLUSTER: Mutex<()> = Mutex::new(());

/// A folder for a record, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("farcall-cluster-{}-{name}", std::process::id()));
        drop(std::fs::remove_dir_all(&path));
        Self(path)
    }

    fn run(&self) -> Value {
        let text = std::fs::read_to_string(self.0.join("run.json")).expect("the run was recorded");
        serde_json::from_str(&text).expect("it is JSON")
    }

    /// Whether the program reads what is there.
    fn is_read(&self) -> bool {
        common::farcall(&["explain", &self.0.to_string_lossy()]).status.success()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

#[test]
fn every_workload_runs_on_a_cluster_of_hosts_and_its_record_names_them() {
    let _cluster = CLUSTER.lock().unwrap_or_else(PoisonError::into_inner);
    let hosts = match Hosts::new(HOSTS) {
        Ok(hosts) => hosts,
        Err(why) => return println!("unsupported: no network namespaces here ({why})"),
    };
    for arguments in TRANSPORTS.iter().flat_map(|transport| workloads_over(transport, HOSTS, "1")) {
        let folder = Folder::new(&arguments[0]);
        let path = folder.0.to_string_lossy().into_owned();
        let outputs = Ranks::start(HOSTS, Some(&hosts), &arguments, &["--record", &path]).wait();
        for (rank, output) in outputs.iter().enumerate() {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "rank {rank} of {arguments:?}: {said}");
        }
        assert!(!outputs[0].stdout.is_empty() && outputs[1].stdout.is_empty(), "rank 0 alone speaks");
        let run = folder.run();
        let ranks = run["ranks"].as_array().expect("there are ranks");
        let named: Vec<_> = ranks.iter().map(|rank| rank["host"].as_str().expect("a name")).collect();
        assert_eq!(named, ["node0", "node1", "node2", "node3"], "{arguments:?}");
        assert!(run["window_seconds"].is_number() && run["lost"].is_null(), "{run}");
        assert!(folder.is_read(), "{arguments:?}");
        for (rank, about) in ranks.iter().enumerate() {
            let (offset, error) = (about["clock_offset_ns"].as_i64(), about["clock_error_ns"].as_i64());
            let off = offset.expect("an offset") - 1_000_000_000_000 * rank as i64;
            assert!(off.abs() <= error.expect("an error") + 1_000_000, "{about}");
        }
    }
}

#[test]
fn shared_memory_between_hosts_is_refused() {
    let _cluster = CLUSTER.lock().unwrap_or_else(PoisonError::into_inner);
    let Ok(hosts) = Hosts::new(2) else { return println!("unsupported: no network namespaces here") };
    let arguments = ["perf", "echo", "--transport", "ring+shm"].map(str::to_owned);
    let outputs = Ranks::start(2, Some(&hosts), &arguments, &[]).wait();
    let said = String::from_utf8_lossy(&outputs[0].stderr);
    assert_eq!(outputs[0].status.code(), Some(2), "{said}");
    assert!(
        said.contains("ring+shm does not leave a machine, and the ranks are on 2: node0, node1"),
        "{said}"
    );
    assert!(outputs[1].status.success(), "the others are let go");
}

/// Kills with `kill_one` when processes are at work at all ranks that have some; gives what rank 0 said.
fn killed_in_the_middle(
    hosts: Option<&Hosts>,
    arguments: &[String],
    folder: &Folder,
    kill_one: impl FnOnce(&Ranks),
) -> String {
    let ranks = at_work(hosts, arguments, folder);
    kill_one(&ranks);
    let outputs = ranks.wait();
    let said = String::from_utf8_lossy(&outputs[0].stderr).into_owned();
    assert_eq!(outputs[0].status.code(), Some(1), "{arguments:?}: {said}");
    assert!(outputs[2].status.success(), "rank 2 is let go: {}", String::from_utf8_lossy(&outputs[2].stderr));
    assert!(folder.is_read(), "{arguments:?}");
    said
}

/// Three ranks, as soon as processes are at work at all that have some.
fn at_work(hosts: Option<&Hosts>, arguments: &[String], folder: &Folder) -> Ranks {
    let path = folder.0.to_string_lossy().into_owned();
    let mut ranks = Ranks::start(3, hosts, arguments, &["--record", &path]);
    let is_at_work = |ranks: &Ranks| {
        let at_work = ranks.children.iter().filter(|child| !children_of(child.id()).is_empty());
        at_work.count() >= if arguments[0] == "msgrate" { 2 } else { 3 }
    };
    until("processes are at work", || {
        let ended = ranks.children[0].try_wait().expect("it is a child");
        assert_eq!(ended, None, "rank 0 of {arguments:?} ended before it began");
        is_at_work(&ranks)
    });
    ranks
}

/// What a cluster is killed over: everything that carries its messages between hosts.
const TRANSPORTS: [&str; 2] = ["basic+udp", "tcp"];

/// The workloads over all of them, which would run for minutes.
fn endless() -> impl Iterator<Item = Vec<String>> {
    TRANSPORTS.into_iter().flat_map(|transport| workloads_over(transport, 3, "300"))
}

#[test]
fn when_rank_0_is_killed_the_others_say_so_and_leave_nothing_behind() {
    let _cluster = CLUSTER.lock().unwrap_or_else(PoisonError::into_inner);
    let hosts = Hosts::new(3).ok();
    for arguments in endless() {
        let folder = Folder::new(&format!("first-{}", arguments[0]));
        let ranks = at_work(hosts.as_ref(), &arguments, &folder);
        let at_work: Vec<u32> = ranks.children.iter().flat_map(|child| children_of(child.id())).collect();
        kill(ranks.children[0].id());
        for output in &ranks.wait()[1..] {
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{arguments:?}: {said}");
            assert!(said.contains("rank 0 was lost: "), "{arguments:?}: {said}");
        }
        let is_ours = |process: &u32| {
            std::fs::read_link(format!("/proc/{process}/exe"))
                .is_ok_and(|program| program == std::path::Path::new(env!("CARGO_BIN_EXE_farcall")))
        };
        // The system has ended them, at the latest when their ranks are gone; it may not have told yet.
        until("the processes of lost ranks are gone", || !at_work.iter().any(is_ours));
        assert!(folder.is_read(), "{arguments:?}");
    }
}

#[test]
fn a_rank_that_is_killed_is_named_and_the_record_can_be_read() {
    let _cluster = CLUSTER.lock().unwrap_or_else(PoisonError::into_inner);
    // Without hosts that can be made all ranks are on this one.
    let hosts = Hosts::new(3).ok();
    for arguments in endless() {
        let folder = Folder::new(&format!("lost-{}", arguments[0]));
        let said = killed_in_the_middle(hosts.as_ref(), &arguments, &folder, |ranks| {
            kill(ranks.children[1].id());
        });
        let whose = if hosts.is_some() { "rank 1 on node1 was lost: " } else { "rank 1 on " };
        assert!(said.contains(whose) && said.contains(" was lost: "), "{arguments:?}: {said}");
        let lost = folder.run()["lost"].as_str().map(str::to_owned);
        assert!(lost.is_some_and(|lost| said.contains(&lost)), "{arguments:?}: {said}");
    }
}

#[test]
fn a_process_of_a_rank_that_is_killed_is_named() {
    let _cluster = CLUSTER.lock().unwrap_or_else(PoisonError::into_inner);
    for arguments in endless() {
        let folder = Folder::new(&format!("killed-{}", arguments[0]));
        let said = killed_in_the_middle(None, &arguments, &folder, |ranks| {
            children_of(ranks.children[1].id()).into_iter().for_each(kill);
        });
        assert!(said.contains("(rank ") && said.contains(" on "), "{arguments:?}: {said}");
    }
}

#[test]
fn a_rank_that_does_not_come_is_named_and_the_others_end() {
    let _cluster = CLUSTER.lock().unwrap_or_else(PoisonError::into_inner);
    let arguments = &workloads(3, "1")[1];
    let outputs = Ranks::start_some(2, 3, None, arguments, &[]).wait();
    let said = String::from_utf8_lossy(&outputs[0].stderr);
    assert_eq!((outputs[0].status.code(), said.lines().count()), (Some(1), 1), "{said}");
    // Rank 1 may have given up a moment before rank 0 does.
    let named = ["rank 2 did not reach barrier", "ranks 1 and 2 did not reach barrier"];
    assert!(named.iter().any(|named| said.contains(named)), "{said}");
    // Rank 0 speaks for all, unless rank 1 has waited for as long before it hears of that; rank 0 may be gone
    // by then.
    let other = String::from_utf8_lossy(&outputs[1].stderr);
    let is_silent = outputs[1].status.success() && other.is_empty();
    let named = ["rank 2 did not reach barrier", "ranks 0 and 2 did not reach barrier"];
    assert!(is_silent || named.iter().any(|named| other.contains(named)), "{outputs:?}");
}

#[test]
fn roles_get_the_ranks_that_are_named_for_them() {
    let _cluster = CLUSTER.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new("roles");
    let path = folder.0.to_string_lossy().into_owned();
    let arguments = ["perf", "echo", "--transport", "basic+udp", "--sizes", "100", "--count", "100"];
    let placed = ["--place", "clients=0,1/servers=2"];
    let arguments: Vec<String> = arguments.iter().chain(&placed).map(|&word| word.to_owned()).collect();
    let outputs = Ranks::start(3, None, &arguments, &["--record", &path]).wait();
    let said = String::from_utf8_lossy(&outputs[0].stderr);
    assert!(outputs[0].status.success(), "{said}");
    let text = std::fs::read_to_string(folder.0.join("results.jsonl")).expect("figures were recorded");
    let figures = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("it is JSON"));
    let processes = figures.filter_map(|figure| figure["processes"].as_array().cloned()).next();
    let processes = processes.expect("a figure names its processes");
    let ranks: Vec<_> = processes.iter().map(|process| process["rank"].as_u64()).collect();
    assert_eq!(ranks, [Some(2), Some(0), Some(1)], "{processes:?}");
    assert_eq!(processes.len(), 3, "one server and two clients, as many as are named");
}

#[test]
fn roles_that_make_no_sense_get_a_sentence() {
    let _cluster = CLUSTER.lock().unwrap_or_else(PoisonError::into_inner);
    let cases: [(&[&str], &str); 5] = [
        (&["perf", "--place", "servers=0"], "--place: name the ranks of clients, too"),
        (
            &["perf", "--place", "servers=0/clients=1", "--clients", "2"],
            "--place: it has 1 for clients, and 2 are asked for",
        ),
        (
            &["perf", "--place", "daemons=0,1"],
            "--place: perf has no daemons; its roles are servers and clients",
        ),
        (&["shuffle", "--place", "servers=0"], "--place: shuffle has no servers; give a list such as 0,2"),
        (&["benchkv", "--place", "daemons=0,2"], "--place: rank 2 is not one of the 2"),
    ];
    for (arguments, sentence) in cases {
        let arguments: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
        let outputs = Ranks::start(2, None, &arguments, &[]).wait();
        let said = String::from_utf8_lossy(&outputs[0].stderr);
        assert!(!outputs[0].status.success() && said.lines().count() >= 1, "{said}");
        assert!(said.contains(sentence), "{said}");
    }
}

#[test]
fn sizes_beyond_the_ranks_get_a_sentence() {
    let _cluster = CLUSTER.lock().unwrap_or_else(PoisonError::into_inner);
    let cases: [(&[&str], &str); 4] = [
        (
            &["perf", "echo", "--transport", "basic+udp", "--clients", "5"],
            "1 server and 5 clients need 6 ranks, and there are 2",
        ),
        (&["shuffle", "--nodes", "3"], "3 nodes need 3 ranks, and there are 2"),
        (&["benchkv", "--ranks", "4"], "4 daemons need 4 ranks, and there are 2"),
        (&["msgrate", "--place", "0"], "a sender and a receiver need 2 ranks, and there are 1"),
    ];
    for (arguments, sentence) in cases {
        let arguments: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
        let outputs = Ranks::start(2, None, &arguments, &[]).wait();
        let said = String::from_utf8_lossy(&outputs[0].stderr);
        assert_eq!((outputs[0].status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(sentence), "{said}");
        assert!(outputs[1].status.success() && outputs[1].stderr.is_empty(), "the others say nothing");
    }
}
