//! Processes that a launcher starts: they find each other by PMIx, and call each other over every transport.
//!
//! The ranks are this test program again, started by `mpirun` to run one test in a role.

mod common;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use common::{LONG, life, pattern, transports};
use farcall::{Node, Service, TransportKind};

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
    let Some(mut launcher) = ["mpirun.openmpi", "mpirun"].into_iter().find_map(open_mpi) else {
        return println!("unsupported: there is no mpirun of Open MPI (Debian: openmpi-bin)");
    };
    launcher
        .args(["--oversubscribe", "-n", &RANKS.to_string()])
        .arg(std::env::current_exe().expect("a path"));
    launcher.args(["--exact", name, "--nocapture"]);
    let output = launcher.output().expect("it could be started before");
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{text}\n{errors}");
    assert!(output.status.success(), "{}", output.status);
    for kind in transports() {
        for rank in 0..RANKS {
            let line = format!("rank {rank} of {RANKS} is done over {kind}\n");
            assert!(text.contains(&line), "no `{line}`");
        }
    }
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
