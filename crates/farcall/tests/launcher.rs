//! Processes that a launcher starts: they find each other by PMIx or at a rendezvous, call each other over
//! every transport, and are killed.
//!
//! The ranks are this test program again, started by `mpirun` to run one test in a role.

mod common;

use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use common::{LONG, life, pattern, transports};
use farcall::bootstrap::Rendezvous;
use farcall::{DownReason, Node, Presence, ReceiveError, SendError, Service, Tag, TransportKind};
use rustix::process::{Signal, getpid, kill_process};
use rustix::thread::sched_getaffinity;

const ECHO: Service = Service(1);
const DONE: Service = Service(2);

/// Calls from each rank to each other one.
const CALLS: u64 = 200;
const RANKS: u32 = 3;

/// What one rank does over one transport: calls all others, and serves until all are done.
fn call_all(node: &Node, kind: TransportKind) {
    let endpoint = node.endpoint(kind.name()).expect("an endpoint");
    let done = Arc::new(AtomicU32::new(0));
    let others_done = Arc::clone(&done);
    endpoint.serve(ECHO, |request, reply| reply.send(request.payload()));
    endpoint.serve(DONE, move |_, reply| {
        others_done.fetch_add(1, Ordering::Relaxed);
        reply.send(b"");
    });
    let others = || (0..node.size()).filter(|&rank| rank != node.rank());
    let peers: Vec<_> = others().map(|rank| endpoint.peer(rank).expect("it is there")).collect();
    for number in 0..CALLS {
        let sent = pattern(number, if number % 20 == 19 { 300_000 } else { 100 });
        for &peer in &peers {
            let answer = endpoint.call(peer, ECHO, &sent).within(LONG).wait().expect("an echo");
            assert!(*answer == sent[..], "{kind}: call {number}");
        }
    }
    for &peer in &peers {
        endpoint.call(peer, DONE, b"").within(LONG).wait().expect("an answer");
    }
    endpoint.run_while(|| done.load(Ordering::Relaxed) < node.size() - 1);
    // An endpoint that goes takes with it what its peers have not read yet.
    std::thread::scope(|scope| {
        let barrier = scope.spawn(|| node.barrier(kind.name(), LONG).expect("all are done"));
        endpoint.run_while(|| !barrier.is_finished());
    });
}

#[test]
fn ranks_of_a_launcher_find_and_call_each_other_over_every_transport() {
    if life::role().is_some() {
        let node = Node::from_env().expect("a place in the launcher's job");
        assert_eq!(node.size(), RANKS);
        for kind in transports() {
            call_all(&node, kind);
            println!("rank {} of {} is done over {kind}", node.rank(), node.size());
        }
        return;
    }
    let name = "ranks_of_a_launcher_find_and_call_each_other_over_every_transport";
    let Some(output) = launch(name, &["--oversubscribe", "-n", &RANKS.to_string()]) else { return };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", output.status);
    for kind in transports() {
        for rank in 0..RANKS {
            let line = format!("rank {rank} of {RANKS} is done over {kind}\n");
            assert!(text.contains(&line), "no `{line}`");
        }
    }
}

/// A message that rank 1 answers before it is killed.
const BEFORE: Tag = Tag(1);
/// One that it never sends.
const NEVER: Tag = Tag(2);

/// Rank 1 kills itself; rank 0 waits for a message of it and sends until it is told.
fn die_or_survive() {
    let node = Node::from_env().expect("a place in the launcher's job");
    let endpoint = node.endpoint(TransportKind::MPI.name()).expect("an endpoint");
    let other = endpoint.peer(1 - node.rank()).expect("it is there");
    if node.rank() == 1 {
        endpoint.receive(other, BEFORE).within(LONG).wait().expect("a message");
        kill_process(getpid(), Signal::KILL).expect("permitted");
    }
    println!("process {}", std::process::id());
    let never = endpoint.receive(other, NEVER).within(LONG).start().expect("room");
    endpoint.send(other, BEFORE, b"").within(LONG).wait().expect("it lives");
    let end = loop {
        match endpoint.send(other, NEVER, &[0; 3000]).within(LONG).wait() {
            Ok(()) => endpoint.turn(),
            Err(end) => break end,
        }
    };
    assert_eq!(end, SendError::PeerDown(DownReason::Dead));
    assert_eq!(never.wait().map(drop), Err(ReceiveError::PeerDown(DownReason::Dead)));
    println!("survived");
}

/// This test's ranks under a launcher with such options; `None` when there is no launcher.
fn launch(name: &str, options: &[&str]) -> Option<Output> {
    let Some(mut launcher) = ["mpirun.openmpi", "mpirun"].into_iter().find_map(open_mpi) else {
        println!("unsupported: there is no mpirun of Open MPI (Debian: openmpi-bin)");
        return None;
    };
    launcher.args(options).arg(std::env::current_exe().expect("a path"));
    launcher.args(["--exact", name, "--nocapture"]);
    let output = launcher.output().expect("it could be started before");
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{text}\n{errors}");
    Some(output)
}

#[test]
fn a_rank_that_is_killed_is_reported_over_mpi_where_the_launcher_lets_the_others_live() {
    if life::role().is_some() {
        return die_or_survive();
    }
    let name = "a_rank_that_is_killed_is_reported_over_mpi_where_the_launcher_lets_the_others_live";
    if let Some(Presence::Absent { why }) = TransportKind::MPI.presence() {
        return println!("unsupported: {why}");
    }
    let options = ["--enable-recovery", "--oversubscribe", "-n", "2"];
    let Some(output) = launch(name, &options) else { return };
    assert!(String::from_utf8_lossy(&output.stdout).contains("survived"));

    // Without the option it ends the others itself, and nothing is left.
    let Some(output) = launch(name, &options[1..]) else { return };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success());
    if let Some(process) = text.lines().find_map(|line| line.strip_prefix("process ")) {
        let begun = std::time::Instant::now();
        while std::path::Path::new("/proc").join(process).exists() {
            assert!(begun.elapsed() < LONG, "{process} is left");
            std::thread::yield_now();
        }
    }
}

/// MPICH's launcher does not speak PMIx: its ranks find each other by a rendezvous, and it tells them their
/// ranks.
#[test]
fn ranks_that_mpich_starts_call_each_other_over_its_messages() {
    if life::role().is_some() {
        let Some(Presence::Here { found }) = TransportKind::MPI.presence() else { panic!("MPICH is gone") };
        assert!(found.contains("MPICH"), "its library is opened, not {found}");
        let node = Node::from_env().expect("a place at the rendezvous");
        assert_eq!(node.size(), RANKS);
        call_all(&node, TransportKind::MPI);
        send_all(&node);
        println!("rank {} of {} is done", node.rank(), node.size());
        return;
    }
    let rendezvous = Rendezvous::bind("127.0.0.1:0", RANKS).expect("a rendezvous on loopback");
    let mut launcher = Command::new("mpirun.mpich");
    launcher.envs([("FARCALL_TEST_ROLE", "rank"), ("FARCALL_RENDEZVOUS_EXTERNAL", "1")]);
    launcher.env("FARCALL_RENDEZVOUS", rendezvous.address().to_string());
    launcher.env("FARCALL_SIZE", RANKS.to_string());
    launcher.args(["-n", &RANKS.to_string(), "sh", "-c", "FARCALL_RANK=$PMI_RANK exec \"$0\" \"$@\""]);
    launcher.arg(std::env::current_exe().expect("a path"));
    let name = "ranks_that_mpich_starts_call_each_other_over_its_messages";
    launcher.args(["--exact", name, "--nocapture"]);
    let Ok(output) = launcher.output() else {
        return println!("unsupported: there is no mpirun of MPICH (Debian: mpich)");
    };
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}", output.status);
    for rank in 0..RANKS {
        assert!(text.contains(&format!("rank {rank} of {RANKS} is done\n")), "rank {rank} is missing");
    }
}

/// What FARCALL_CORE says holds whatever started the process.
#[test]
fn ranks_of_a_launcher_run_on_the_core_that_they_are_given() {
    let core = || {
        let cores = sched_getaffinity(None).expect("this thread runs somewhere");
        (cores.count(), (0..1024).find(|core| cores.is_set(*core)).expect("at least one core"))
    };
    if life::role().is_some() {
        let node = Node::from_env().expect("a place, of which the launcher tells");
        assert_eq!(core(), (1, std::env::var("FARCALL_CORE").expect("set").parse().expect("a number")));
        // Rank 0 has the registry: it stays until all have joined.
        node.barrier("done", LONG).expect("all come");
        println!("rank {} of {} is done", node.rank(), node.size());
        return;
    }
    let mut launcher = Command::new("mpirun.mpich");
    launcher.envs([("FARCALL_TEST_ROLE", "rank"), ("FARCALL_CORE", &core().1.to_string())]);
    launcher.args(["-n", &RANKS.to_string()]).arg(std::env::current_exe().expect("a path"));
    launcher.args(["--exact", "ranks_of_a_launcher_run_on_the_core_that_they_are_given", "--nocapture"]);
    let Ok(output) = launcher.output() else {
        return println!("unsupported: there is no mpirun of MPICH (Debian: mpich)");
    };
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}", output.status);
    for rank in 0..RANKS {
        assert!(text.contains(&format!("rank {rank} of {RANKS} is done\n")), "rank {rank} is missing");
    }
}

/// Each rank sends tagged messages to the next one, short ones and long ones, and receives those of the one
/// before.
fn send_all(node: &Node) {
    let endpoint = node.endpoint(TransportKind::MPI.name()).expect("an endpoint");
    let second = |rank: u32| endpoint.peer_endpoint(rank % RANKS, 1).expect("everyone's second endpoint");
    let (next, before) = (second(node.rank() + 1), second(node.rank() + RANKS - 1));
    for number in 0..CALLS {
        let sent = pattern(number, if number % 20 == 19 { 300_000 } else { 8 });
        let receiving = endpoint.receive(before, BEFORE).within(LONG).start().expect("room");
        endpoint.send(next, BEFORE, &sent).within(LONG).wait().expect("it lives");
        assert!(receiving.wait().expect("a message")[..] == sent[..], "message {number}");
    }
    std::thread::scope(|scope| {
        let barrier = scope.spawn(|| node.barrier("messages", LONG).expect("all are done"));
        endpoint.run_while(|| !barrier.is_finished());
    });
}

/// The launcher of that name, if it is Open MPI's.
fn open_mpi(name: &str) -> Option<Command> {
    let mut launcher = Command::new(name);
    // Tests in containers run as root, which it would refuse.
    launcher.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
    launcher.env("FARCALL_TEST_ROLE", "rank");
    let version = Command::new(name).arg("--version").output().ok()?;
    String::from_utf8_lossy(&version.stdout).contains("Open MPI").then_some(launcher)
}
