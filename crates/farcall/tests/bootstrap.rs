//! Starting and finding real processes. Each test runs this program again as the process that it needs: the
//! role is in an environment variable, and the test's own name in the arguments.

#[path = "../../../tools/cli/tests/common/places.rs"]
mod places;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use farcall::bootstrap::{
    Bootstrap, BootstrapError, ChildPlan, Children, Directory, HostList, HostPort, JoinError,
    LAUNCH_VARIABLES, Launch, Refusal, Rendezvous, ResolveError, random_incarnation,
};
use farcall::parameters::{CONFIG_VARIABLE, Settings};
use farcall_base::Address;
use places::free_address;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use rustix::thread::sched_getaffinity;

/// Far longer than anything here takes; reached only when something is broken.
const PLENTY: Duration = Duration::from_secs(60);
const ROLE: &str = "FARCALL_TEST_ROLE";
const KEY: &str = "ring+shm#0";

/// The role of this process; `None` in the test itself.
fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// This program, to run only the test `name` in `role`.
fn again(name: &str, role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    command.args(["--exact", name, "--nocapture"]).env(ROLE, role).stdout(Stdio::null());
    for variable in LAUNCH_VARIABLES {
        command.env_remove(variable);
    }
    command
}

fn address(text: &str) -> Address {
    Address::new(text.as_bytes()).expect("short")
}

/// Publishes this process's id as its address and stays until it is killed.
fn publish_and_stay() {
    let bootstrap = Bootstrap::from_env().expect("a place in the cluster");
    bootstrap.directory.publish(KEY, address(&std::process::id().to_string())).expect("room");
    let _ = bootstrap.directory.barrier("never", PLENTY);
}

/// The process id that `publish_and_stay` published, and its incarnation.
fn published_process(directory: &Directory, rank: u32) -> (i32, u64) {
    let (address, incarnation) = directory.resolve(rank, KEY, PLENTY).expect("published");
    let text = str::from_utf8(address.as_bytes()).expect("digits");
    (text.parse().expect("a process id"), incarnation)
}

fn join(rendezvous: &Rendezvous, rank: u32, size: u32) -> Directory {
    let address: HostPort = rendezvous.address().into();
    Directory::join(&address, rank, size, random_incarnation(), PLENTY).expect("the rendezvous is there")
}

#[test]
fn a_program_runs_again_for_each_local_rank() {
    if role().is_none() {
        let status = again("a_program_runs_again_for_each_local_rank", "local").status().expect("it runs");
        assert!(status.success());
        return;
    }
    let mut bootstrap = Bootstrap::local(3).expect("three processes");
    let directory = &bootstrap.directory;
    directory.publish(KEY, address(&format!("rank {}", bootstrap.rank))).expect("room");
    for rank in 0..3 {
        let (found, incarnation) = directory.resolve(rank, KEY, PLENTY).expect("all publish");
        assert_eq!(found, address(&format!("rank {rank}")));
        assert_eq!(rank == bootstrap.rank, incarnation == bootstrap.incarnation);
    }
    directory.barrier("end", PLENTY).expect("all arrive");
    assert_eq!((bootstrap.size, bootstrap.children.is_some()), (3, bootstrap.rank == 0));
    if let Some(children) = &mut bootstrap.children {
        let statuses = children.wait(PLENTY).expect("they end by themselves");
        assert_eq!(statuses.iter().map(|(rank, _)| *rank).collect::<Vec<_>>(), [1, 2]);
        assert!(statuses.iter().all(|(_, status)| status.success()));
    } else {
        assert_eq!(
            Bootstrap::local(2).expect_err("it is three"),
            BootstrapError::SizeDiffers { asked: 2, size: 3 }
        );
    }
}

#[test]
fn a_killed_rank_can_be_taken_again_and_a_living_one_cannot() {
    if role().is_some() {
        return publish_and_stay();
    }
    let name = "a_killed_rank_can_be_taken_again_and_a_living_one_cannot";
    let rendezvous = Rendezvous::bind("127.0.0.1:0", 2).expect("a free port");
    let zero = join(&rendezvous, 0, 2);
    let start = || {
        let plan = ChildPlan::new(1, again(name, "publisher"));
        Children::start(rendezvous.address(), 2, vec![plan]).expect("it runs")
    };
    let mut first = start();
    let (process, incarnation) = published_process(&zero, 1);
    assert_eq!(first.process(1), Some(process as u32));

    let address: HostPort = rendezvous.address().into();
    let error = Directory::join(&address, 1, 2, random_incarnation(), PLENTY).expect_err("it lives");
    assert!(matches!(&error, JoinError::Refused(Refusal::RankTaken { rank: 1, process: holder, .. })
        if *holder == process as u32));
    assert!(error.to_string().starts_with(&format!("rank 1 is already taken by process {process} on ")));

    first.kill(1);
    assert_eq!(first.process(1), None);
    let gone = zero.resolve(1, KEY, Duration::from_millis(20)).expect_err("nobody has the rank");
    assert!(matches!(gone, ResolveError::TimedOut { rank: 1, .. }));
    let second = start();
    let (successor, next_incarnation) = published_process(&zero, 1);
    assert_eq!(second.process(1), Some(successor as u32));
    assert!(successor != process && next_incarnation != incarnation);
}

#[test]
fn children_end_with_a_parent_that_is_killed() {
    let name = "children_end_with_a_parent_that_is_killed";
    match role().as_deref() {
        None => (),
        Some("parent") => {
            let Ok(Launch::Rendezvous { address, .. }) = Launch::from_env() else {
                panic!("started as a child")
            };
            let rendezvous = address.look_up().expect("loopback")[0];
            let plan = ChildPlan::new(2, again(name, "publisher"));
            let _children = Children::start(rendezvous, 3, vec![plan]).expect("it runs");
            return publish_and_stay();
        }
        Some(_) => return publish_and_stay(),
    }
    let rendezvous = Rendezvous::bind("127.0.0.1:0", 3).expect("a free port");
    let zero = join(&rendezvous, 0, 3);
    let plan = ChildPlan::new(1, again(name, "parent"));
    let mut parent = Children::start(rendezvous.address(), 3, vec![plan]).expect("it runs");
    let (orphan, _) = published_process(&zero, 2);
    let orphan = pidfd_open(Pid::from_raw(orphan).expect("not 0"), PidfdFlags::empty()).expect("it lives");
    parent.kill(1);
    let limit = Timespec { tv_sec: PLENTY.as_secs() as i64, tv_nsec: 0 };
    let ended = poll(&mut [PollFd::new(&orphan, PollFlags::IN)], Some(&limit)).expect("a wait");
    assert_eq!(ended, 1, "the orphan ends");
}

#[test]
fn a_child_outlives_the_thread_that_asked_for_it() {
    if role().is_some() {
        return publish_and_stay();
    }
    let name = "a_child_outlives_the_thread_that_asked_for_it";
    let rendezvous = Rendezvous::bind("127.0.0.1:0", 2).expect("a free port");
    let zero = join(&rendezvous, 0, 2);
    let started = std::thread::scope(|scope| {
        let plans = vec![ChildPlan::new(1, again(name, "publisher"))];
        let thread = scope.spawn(|| {
            let children = Children::start(rendezvous.address(), 2, plans).expect("it runs");
            published_process(&zero, 1);
            children
        });
        thread.join().expect("no panic")
    });
    let mut children = started;
    let still = children.wait(Duration::from_millis(50)).expect_err("it stays");
    assert_eq!(still.ranks, [1]);
    let process = Pid::from_raw(children.process(1).expect("it lives") as i32).expect("not 0");
    drop(children);
    assert!(kill_process(process, Signal::KILL).is_err(), "it is gone and was waited for");
}

#[test]
fn a_child_that_does_not_listen_is_killed() {
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' TERM; echo ready; exec sleep 1000"]).stdout(Stdio::piped());
    let nowhere = "127.0.0.1:1".parse().expect("an address");
    let mut children = Children::start(nowhere, 2, vec![ChildPlan::new(1, command)]).expect("it runs");
    let mut line = String::new();
    let output = children.take_stdout(1).expect("piped");
    BufReader::new(output).read_line(&mut line).expect("it writes");
    assert_eq!(line, "ready\n");
    let process = Pid::from_raw(children.process(1).expect("it lives") as i32).expect("not 0");
    drop(children);
    assert!(kill_process(process, Signal::KILL).is_err(), "it is gone and was waited for");
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let nowhere = "127.0.0.1:1".parse().expect("an address");
    let plan = ChildPlan::new(1, Command::new("/nowhere/at-all"));
    let error = Children::start(nowhere, 2, vec![plan]).expect_err("no such program").to_string();
    assert!(error.starts_with("cannot start `/nowhere/at-all` as rank 1: "), "{error}");
}

#[test]
fn a_child_runs_on_the_core_it_is_given() {
    let core = || {
        let cores = sched_getaffinity(None).expect("this thread runs somewhere");
        (0..1024).find(|core| cores.is_set(*core)).expect("at least one core") as u32
    };
    if let Some(role) = role() {
        let bootstrap =
            if role == "names" { Bootstrap::serve_names("127.0.0.1:0") } else { Bootstrap::from_env() };
        let _bootstrap = bootstrap.expect("a place in the cluster, or a free port");
        let cores = sched_getaffinity(None).expect("this thread runs somewhere");
        assert_eq!((cores.count(), core().to_string()), (1, std::env::var("FARCALL_CORE").expect("set")));
        return;
    }
    let rendezvous = Rendezvous::bind("127.0.0.1:0", 1).expect("a free port");
    let command = again("a_child_runs_on_the_core_it_is_given", "pinned");
    let plan = ChildPlan::new(0, command).on_core(core());
    let mut children = Children::start(rendezvous.address(), 1, vec![plan]).expect("it runs");
    let statuses = children.wait(PLENTY).expect("it ends");
    assert!(statuses[0].1.success());
    let mut serves = again("a_child_runs_on_the_core_it_is_given", "names");
    assert!(serves.env("FARCALL_CORE", core().to_string()).status().expect("it runs").success());
}

#[test]
fn the_environment_is_obeyed_or_refused() {
    let name = "the_environment_is_obeyed_or_refused";
    let Some(role) = role() else {
        let refused = |variable, text, expected| {
            let status = again(name, expected).env(variable, text).status().expect("it runs");
            assert!(status.success(), "{variable}={text}");
        };
        refused("FARCALL_RANK", "x", "FARCALL_RANK=`x` is not a rank such as 0; correct or unset it");
        refused(
            "FARCALL_PARENT",
            "2147483647",
            "process 2147483647, which FARCALL_PARENT names, is not the parent of this one; unset FARCALL_PARENT",
        );
        let status = again(name, "").status().expect("it runs");
        assert!(status.success());
        return;
    };
    match Bootstrap::from_env() {
        Ok(bootstrap) => assert_eq!((role.as_str(), bootstrap.rank, bootstrap.size), ("", 0, 1)),
        Err(error) => assert_eq!(error.to_string(), role),
    }
}

#[test]
fn settings_come_from_the_file_and_the_environment_of_the_process() {
    let name = "settings_come_from_the_file_and_the_environment_of_the_process";
    if let Some(role) = role() {
        let loaded = Settings::load(["ring.batch_bytes=300".to_owned()]);
        if role == "absent" {
            let error = loaded.expect_err("no such file").to_string();
            assert!(error.starts_with("cannot read the configuration file /nowhere/at-all: "), "{error}");
            return;
        }
        let ring = loaded.expect("all are valid").ring;
        assert_eq!((ring.ring_bytes, ring.calls_max, ring.batch_bytes), (Some(8192), 9, 300));
        return;
    }
    let file = std::env::temp_dir().join(format!("farcall-settings-{}.toml", std::process::id()));
    std::fs::write(&file, "[ring]\nring_bytes = \"8K\"\ncalls_max = 7\nbatch_bytes = 100\n").expect("room");
    let run = |role: &str, file: &std::path::Path| {
        let mut command = again(name, role);
        command.env(CONFIG_VARIABLE, file).env("FARCALL_RING_CALLS_MAX", "9");
        command.status().expect("it runs").success()
    };
    let outcomes = (run("present", &file), run("absent", "/nowhere/at-all".as_ref()));
    std::fs::remove_file(&file).expect("it was written");
    assert_eq!(outcomes, (true, true));
}

#[test]
fn hosts_of_a_list_must_agree_on_it() {
    let first = free_address();
    let list = |second: &str| HostList::parse(&format!("{first},{second}")).expect("a list");
    let start = |rank, second| Bootstrap::start(Launch::Hosts { rank, hosts: list(second) }, PLENTY);
    std::thread::scope(|scope| {
        let one = scope.spawn(|| start(1, "127.0.0.1:7001").expect("the same list"));
        let zero = start(0, "127.0.0.1:7001").expect("a free port");
        let one = one.join().expect("no panic");
        assert_eq!((zero.rendezvous.is_some(), one.rendezvous.is_some()), (true, false));
        one.directory.publish(KEY, address("one")).expect("room");
        assert_eq!(zero.directory.resolve(1, KEY, PLENTY), Ok((address("one"), one.incarnation)));
        drop(one);
        let error = start(1, "127.0.0.1:7002").expect_err("another list");
        assert_eq!(error, BootstrapError::Join(JoinError::Refused(Refusal::Hosts)));
    });
}

#[test]
fn a_rendezvous_is_served_by_rank_0_unless_it_is_external() {
    let address = HostPort::parse(&free_address()).expect("an address");
    let launch = |rank, serves| Launch::Rendezvous { rank, size: 2, address: address.clone(), serves };
    let zero = Bootstrap::start(launch(0, true), PLENTY).expect("a free port");
    let one = Bootstrap::start(launch(1, false), PLENTY).expect("rank 0 serves");
    let error = Bootstrap::start(launch(0, true), PLENTY).expect_err("the port is taken");
    assert!(matches!(error, BootstrapError::Rendezvous(_)));
    let error = Bootstrap::join(&address, 1, 2, PLENTY).expect_err("the rank is taken");
    assert!(matches!(error, BootstrapError::Join(JoinError::Refused(Refusal::RankTaken { .. }))));
    drop(one);
    assert_eq!(Bootstrap::join(&address, 1, 2, PLENTY).expect("left").rank, 1);
    assert_eq!((zero.rank, Bootstrap::alone().size), (0, 1));
}
