//! What the environment does to the program: limits, users, namespaces, control groups, signals, variables.
//! Each ends in a sentence, or makes no difference; nothing hangs, and nothing is left behind.
//!
//! Most of it needs root and the tools of util-linux. Where they are not there, a test says so and passes.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::surroundings::{
    FARCALL, LONG, Running, ended, fails, farcall_by, place, processes_with, runs, words,
};
use common::until;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};

#[test]
fn a_user_without_processes_to_spare_gets_a_sentence() {
    if !runs("setpriv --reuid 61234 --clear-groups") {
        return;
    }
    for command in [
        "perf echo --transport ring+shm --sizes 100 --seconds 0.1",
        "msgrate --messages 1000",
        "benchkv --ranks 2 --seconds 0.1",
        "shuffle --nodes 4 --transport ring+shm --sizes 1000 --ops 2",
        "shuffle --nodes 4 --ranks threads --transport ring+shm --sizes 1000 --ops 2",
    ] {
        // For no thread of the program's, for none of the processes that it starts, for none of theirs.
        for processes in [2, 4, 5, 7] {
            let way = format!("prlimit --nproc={processes} setpriv --reuid 61234 --clear-groups");
            let (status, said) = ended(&mut farcall_by(&way, command));
            assert!(!said.contains("panicked"), "{processes} processes, {command}: {said}");
            if !status.success() {
                assert_eq!(status.code(), Some(1), "{processes} processes, {command}: {said}");
                assert_eq!(said.lines().count(), 1, "{processes} processes, {command}: {said}");
            }
        }
    }
}

#[test]
fn a_limit_of_file_sizes_is_a_sentence_over_shared_memory_and_nothing_elsewhere() {
    if !runs("prlimit --fsize=16384000") {
        return;
    }
    let echo = |transport| format!("perf echo --transport {transport} --sizes 100 --count 100");
    fails(&mut farcall_by("prlimit --fsize=16384000", &echo("ring+shm")), 1, "(ulimit -f)");
    for transport in ["basic+udp", "basic+sim"] {
        let (status, said) = ended(&mut farcall_by("prlimit --fsize=16384000", &echo(transport)));
        assert!(status.success(), "{transport}: {said}");
    }
}

#[test]
fn without_a_loopback_interface_a_measurement_says_so_at_once_and_simulations_run() {
    if !runs("unshare -rn") {
        return;
    }
    let begun = Instant::now();
    for command in ["perf echo --transport ring+shm --sizes 100", "shuffle --transport ring+shm --nodes 2"] {
        fails(&mut farcall_by("unshare -rn", command), 1, "the loopback interface is down");
    }
    // Well within the time that processes wait for a rendezvous that is not there yet.
    assert!(begun.elapsed() < farcall::bootstrap::JOIN_WITHIN);
    let (status, said) = ended(&mut farcall_by("unshare -rn", "perf echo --transport basic+sim --sizes 100"));
    assert!(status.success(), "{said}");
}

#[test]
fn as_the_first_process_of_a_container_the_program_ends_by_signals() {
    if !runs("unshare -pf --kill-child") {
        return;
    }
    for (number, signal, status) in [(1, Signal::TERM, 143), (2, Signal::INT, 130)] {
        let mut command = farcall_by("unshare -pf --kill-child", "kv serve --memory 16M --at");
        let mut unshare = Running::start(command.arg(place(number)).stdout(Stdio::piped()));
        let mut lines = BufReader::new(unshare.0.stdout.take().expect("it is piped")).lines();
        assert!(lines.next().is_some_and(|line| line.expect("text").contains("serves")));
        let children = format!("/proc/{0}/task/{0}/children", unshare.0.id());
        let children = fs::read_to_string(children).expect("it has one");
        let first = children.trim().parse().ok().and_then(Pid::from_raw).expect("a process");
        kill_process(first, signal).expect("it is there");
        assert_eq!(unshare.end().code(), Some(status));
    }
}

#[test]
fn variables_of_orchestrators_stop_nothing_and_are_named() {
    let mut info = words(FARCALL, "info --parameters");
    info.env("FARCALL_SERVICE_PORT", "7117").env("FARCALL_PORT", "tcp://10.0.0.5:7117");
    let output = info.output().expect("the program runs");
    let said = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success());
    let expected = "FARCALL_PORT in the environment names no parameter and has no effect\n";
    assert!(said.starts_with(expected), "{said}");
    fails(words(FARCALL, "info").env("FARCALL_UDP_PRT", "1"), 2, "did you mean `FARCALL_UDP_PORT`?");
}

#[test]
fn a_store_obeys_the_variables_that_place_processes() {
    let serve = || words(FARCALL, &format!("kv serve --memory 16M --at {}", place(3)));
    fails(serve().env("FARCALL_CORE", "abc"), 1, "FARCALL_CORE=`abc` is not the number of a core");
    fails(serve().env("FARCALL_PARENT", "1"), 1, "unset FARCALL_PARENT");
}

#[test]
fn a_store_without_descriptors_names_the_limit_and_serves_again_when_there_are_some() {
    let at = place(5);
    let mut serve = words(FARCALL, &format!("kv serve --memory 16M --at {at}"));
    let mut server = Running::start(serve.stdout(Stdio::piped()));
    let mut lines = BufReader::new(server.0.stdout.take().expect("it is piped")).lines();
    assert!(lines.next().is_some_and(|line| line.expect("text").contains("serves")));
    let put = || words(FARCALL, &format!("kv put key value --slots never --at {at}"));
    let own = numbers_of(&server).len();
    assert!(ended(&mut put()).0.success());
    // What it had for the client, it closes a little later.
    until("the client's descriptors are closed", || numbers_of(&server).len() <= own);
    let process = Pid::from_child(&server.0);
    let before = prlimit(Some(process), Resource::Nofile, getrlimit(Resource::Nofile)).expect("as it was");
    // For the client's connection to the registry, for that of its session, and no more than one of three
    // that come with it.
    const FREE: usize = 3;
    let used = numbers_of(&server);
    let free_below = |limit: usize| limit - used.iter().filter(|number| **number < limit).count();
    let limit = (0..).find(|limit| free_below(*limit) == FREE).expect("numbers go on");
    prlimit(Some(process), Resource::Nofile, Rlimit { current: Some(limit as u64), ..before })
        .expect("it is lower");
    fails(&mut put(), 5, &format!("no descriptors are left for another connection (ulimit -n {limit})"));
    prlimit(Some(process), Resource::Nofile, before).expect("within what root may have");
    let (status, said) = ended(&mut put());
    assert!(status.success(), "{said}");
}

/// The descriptors that a process has.
fn numbers_of(server: &Running) -> Vec<usize> {
    let numbers = fs::read_dir(format!("/proc/{}/fd", server.0.id())).expect("it lives").flatten();
    numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// A control group with one limit, removed when the test is over.
struct Group(PathBuf);

impl Group {
    /// `None` where none can be made: not root, or no such controller.
    fn new(controller: &str, limits: &[[&str; 2]]) -> Option<Self> {
        let root = Path::new("/sys/fs/cgroup");
        let root =
            if root.join("cgroup.controllers").is_file() { root.into() } else { root.join(controller) };
        let group = Self(root.join(format!("farcall-test-{controller}-{}", std::process::id())));
        fs::create_dir(&group.0).ok()?;
        // One of the two files is that of the version which is here.
        let is_set = limits.iter().any(|[name, limit]| {
            let file = group.0.join(name);
            file.is_file() && fs::write(file, limit).is_ok()
        });
        is_set.then_some(group)
    }

    fn farcall(&self, arguments: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ >\"$0\" && exec \"$@\""]).arg(self.0.join("cgroup.procs"));
        command.arg(FARCALL).args(arguments.split_whitespace());
        command
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The last process may take a moment to leave; then the group stays, empty.
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_store_that_is_larger_than_its_control_group_says_so_when_it_starts() {
    let limits = [["memory.max", "134217728"], ["memory.limit_in_bytes", "134217728"]];
    let Some(group) = Group::new("memory", &limits) else {
        return println!("unsupported: no control group can be made here");
    };
    let at = place(4);
    fails(&mut group.farcall(&format!("kv serve --at {at}")), 2, "give at most 104M, or raise memory.max");
    let beyond = format!("kv serve --at {at} --memory 64M --resp 127.0.0.1:0 --maxmemory-clients 48M");
    let sentence = "give at most 104M together by --memory and --maxmemory-clients";
    fails(&mut group.farcall(&beyond), 2, sentence);
}

/// Two cores that this process may use, if there are two.
fn two_cores() -> Option<[usize; 2]> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let mut cores = list.trim().split(',').flat_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        first.parse().unwrap_or(0)..=last.parse().unwrap_or(0)
    });
    Some([cores.next()?, cores.next()?])
}

#[test]
fn a_cpuset_that_shrinks_ends_a_measurement_with_a_sentence_and_stops_no_store() {
    let Some([first, second]) = two_cores() else { return println!("unsupported: there is one core here") };
    let Some(group) = Group::new("cpuset", &[["cpuset.cpus", &format!("{first},{second}")]]) else {
        return println!("unsupported: no control group can be made here");
    };
    // Version 1 wants to know the memory, too.
    let memory = group.0.parent().and_then(|parent| fs::read_to_string(parent.join("cpuset.mems")).ok());
    drop(memory.map(|memory| fs::write(group.0.join("cpuset.mems"), memory.trim())));

    let at = place(9);
    let mut serve = group.farcall(&format!("kv serve --at {at} --memory 16M"));
    let mut store = Running::start(serve.stdout(Stdio::piped()));
    let mut lines = BufReader::new(store.0.stdout.take().expect("it is piped")).lines();
    assert!(lines.next().is_some_and(|line| line.expect("text").contains("serves")));
    let kv = |operation: &str| ended(&mut words(FARCALL, &format!("kv {operation} --at {at} --timeout 60s")));
    let (status, said) = kv("put 17 before");
    assert!(status.success(), "{said}");
    let mut echo = group.farcall("perf echo --transport ring+shm --sizes 100 --seconds 6 --count 1000000000");
    let mut measuring = Running::start(echo.stdout(Stdio::null()).stderr(Stdio::piped()));
    let begun = Instant::now();
    // The store, the program, its server and its client.
    while fs::read_to_string(group.0.join("cgroup.procs")).is_ok_and(|list| list.lines().count() < 4) {
        assert!(begun.elapsed() < LONG, "it does not begin to measure");
        std::thread::sleep(Duration::from_millis(5));
    }
    fs::write(group.0.join("cpuset.cpus"), first.to_string()).expect("a part of what it has");

    let (status, said) = kv("get 17");
    assert!(status.success(), "the store goes on: {said}");
    assert_eq!(measuring.end().code(), Some(1));
    let said = std::io::read_to_string(measuring.0.stderr.take().expect("it is piped")).expect("text");
    assert!(said.contains("the cpuset of its control group does not have it"), "{said}");
    fails(&mut group.farcall("perf echo --transport ring+shm --sizes 100"), 1, "measuring needs two cores");
}

#[test]
fn a_quota_of_processor_time_is_recorded_and_named_by_explain() {
    let limits = [["cpu.max", "60000 100000"], ["cpu.cfs_quota_us", "60000"]];
    let Some(group) = Group::new("cpu", &limits) else {
        return println!("unsupported: no control group can be made here");
    };
    let folder = std::env::temp_dir().join(format!("farcall-quota-{}", std::process::id()));
    let text = folder.to_str().expect("a path of text");
    let command = format!("perf echo --transport ring+shm --sizes 100 --seconds 0.5 --record {text}");
    let (status, said) = ended(&mut group.farcall(&command));
    assert!(status.success(), "{said}");
    let run = fs::read_to_string(folder.join("run.json")).expect("it was written");
    let explained = words(FARCALL, &format!("explain {text}")).output().expect("the program runs");
    fs::remove_dir_all(&folder).expect("the test's own");
    assert!(run.contains(r#""cpu_quota": "0.6 cores""#), "{run}");
    let explained = String::from_utf8(explained.stdout).expect("text");
    assert!(explained.contains("the quota of their control group, 0.6 cores"), "{explained}");
}

#[test]
fn the_ranks_of_mpi_end_with_the_program_however_that_ends() {
    let mpi = farcall::TransportKind::MPI.presence();
    let has_launcher = Command::new("mpirun").arg("--version").output().is_ok();
    if !has_launcher || matches!(mpi, Some(farcall::Presence::Absent { .. })) {
        return println!("unsupported: there is no MPI, or no mpirun that starts its processes");
    }
    for (signal, messages) in [(Signal::KILL, "4000000123"), (Signal::HUP, "4000000124")] {
        let mut command = words(FARCALL, &format!("msgrate --transport mpi --messages {messages}"));
        command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
        let mut running = Running::start(command.stdout(Stdio::null()).stderr(Stdio::null()));
        // The program, the launcher and two ranks, each of which is given the number.
        let begun = Instant::now();
        while processes_with(messages).len() < 4 {
            assert!(begun.elapsed() < LONG, "the ranks do not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        running.signal(signal);
        running.end();
        let begun = Instant::now();
        while !processes_with(messages).is_empty() {
            assert!(begun.elapsed() < LONG, "{:?} are left", processes_with(messages));
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
