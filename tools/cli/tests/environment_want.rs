//! What the program does for want of something: descriptors, memory, files, room on the disk, a place to
//! write to. Each ends in a sentence that names what is missing, or makes no difference.
//!
//! Some of it needs root and the tools of util-linux. Where they are not there, a test says so and passes.

mod common;

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use common::surroundings::{FARCALL, Running, ended, fails, farcall_by, place, processes_with, runs, words};
use rustix::process::{Pid, Signal, kill_process};

const ECHO: &str = "perf echo --sizes 100 --count 50 --transport";

/// The program, after commands of a shell.
fn shell(before: &str, arguments: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{before}; exec \"$0\" {arguments}"), FARCALL]);
    command
}

#[test]
fn without_descriptors_a_command_names_the_limit() {
    for transport in ["ring+shm", "basic+udp", "tcp", "auto"] {
        fails(&mut shell("ulimit -n 8", &format!("{ECHO} {transport}")), 1, "(ulimit -n)");
    }
    let threads = "shuffle --nodes 8 --ranks threads --transport ring+shm --sizes 1000 --ops 2";
    fails(&mut shell("ulimit -n 20", threads), 1, "(ulimit -n)");
}

#[test]
fn without_address_space_a_command_names_the_limit() {
    let serve = |memory: &str, number| format!("kv serve --memory {memory} --at {}", place(number));
    fails(
        &mut shell("ulimit -v 300000", &serve("256M", 11)),
        2,
        "the system does not have the 268435456 bytes",
    );
    fails(&mut shell("ulimit -v 100000", &serve("16M", 12)), 1, "ulimit -v");
    // As much as the program itself takes, and a little for what it says: less than the stack of a thread,
    // with whatever the steps leave.
    let starts = |kib: &u32| {
        let mut version = shell(&format!("ulimit -v {kib}"), "--version");
        version.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    let least = (20_000..).step_by(1_000).find(starts).expect("it starts without a limit");
    for transport in ["basic+udp", "tcp"] {
        fails(
            &mut shell(&format!("ulimit -v {}", least + 1_000), &format!("{ECHO} {transport}")),
            1,
            "ulimit -v",
        );
    }
}

#[test]
fn without_locked_memory_everything_runs_that_needs_none() {
    if !runs("prlimit --memlock=0") {
        return;
    }
    for transport in ["ring+shm", "basic+udp", "tcp"] {
        let (status, said) = ended(&mut farcall_by("prlimit --memlock=0", &format!("{ECHO} {transport}")));
        assert!(status.success(), "{transport}: {said}");
    }
}

#[test]
fn where_memory_files_must_not_be_executable_shared_memory_works() {
    let way = "unshare -pf --mount-proc sh -c";
    if !runs("unshare -pf --mount-proc") {
        return;
    }
    let script = format!("echo 2 > /proc/sys/vm/memfd_noexec && exec {FARCALL} {ECHO} ring+shm");
    let mut words = way.split(' ');
    let mut command = Command::new(words.next().expect("a program"));
    let (status, said) = ended(command.args(words).arg(&script));
    if said.contains("/proc/sys/vm/memfd_noexec") {
        return println!("unsupported: {said}");
    }
    assert!(status.success(), "{said}");
}

/// The program in mount and user namespaces of its own, after commands of a shell.
fn mounted(mounts: &str, arguments: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", &format!("{mounts} && exec \"$0\" {arguments}"), FARCALL]);
    command
}

#[test]
fn without_proc_processes_are_started_and_nothing_is_missed_but_counters_of_others() {
    if !runs("unshare -rm") {
        return;
    }
    const NO_PROC: &str = "mount -t tmpfs none /proc";
    for command in [
        &format!("{ECHO} ring+shm"),
        &format!("{ECHO} tcp"),
        "shuffle --transport ring+shm --nodes 2 --sizes 1000 --ops 2",
        "ps",
    ] {
        let (status, said) = ended(&mut mounted(NO_PROC, command));
        assert!(status.success(), "{command}: {said}");
    }
    fails(&mut mounted(NO_PROC, "top"), 1, "no process that can be seen from here");
}

#[test]
fn a_read_only_folder_for_temporary_files_makes_no_difference() {
    if !runs("unshare -rm") {
        return;
    }
    // The program itself may lie below it.
    let read_only = "mount --bind -o ro /tmp /tmp && mount -o remount,bind,ro /tmp";
    for transport in ["ring+shm", "basic+udp", "auto"] {
        let (status, said) = ended(&mut mounted(read_only, &format!("{ECHO} {transport}")));
        assert!(status.success(), "{transport}: {said}");
    }
}

#[test]
fn a_full_disk_is_named_and_the_exit_status_says_it() {
    for command in ["info", "doctor", &format!("{ECHO} ring+shm --json /dev/full")] {
        let full = File::options().write(true).open("/dev/full").expect("a device of every Linux");
        let mut command = words(FARCALL, command);
        let output = command.stdin(Stdio::null()).stdout(full).output().expect("the program runs");
        let said = String::from_utf8(output.stderr).expect("messages are text");
        assert_eq!(output.status.code(), Some(1), "{command:?}: {said}");
        assert!(said.contains("cannot write the result: No space left on device"), "{command:?}: {said}");
    }
    if runs("unshare -rm") {
        let small = "mount -t tmpfs -o size=8k none /mnt";
        let record = format!("{ECHO} ring+shm --record /mnt/run");
        let (status, said) = ended(&mut mounted(small, &record));
        assert!(status.code() == Some(1) && said.contains("No space left"), "{said}");
    }
}

#[test]
fn without_standard_streams_a_command_does_what_it_is_told() {
    for transport in ["ring+shm", "basic+udp", "tcp"] {
        let command = format!("{ECHO} {transport} <&- >&- 2>&-");
        let (status, _) = ended(&mut shell("true", &command));
        assert!(status.success(), "over {transport}");
    }
    let (status, _) = ended(&mut shell("true", "no-such-command >&- 2>&-"));
    assert_eq!(status.code(), Some(2));
}

#[test]
fn a_reader_that_goes_away_ends_a_command_without_a_word() {
    let mut command = words(FARCALL, "info --parameters");
    let mut running = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    drop(running.0.stdout.take());
    let status = running.end();
    let mut said = String::new();
    running.0.stderr.take().expect("it is piped").read_to_string(&mut said).expect("text");
    assert!(status.code().is_some() && !said.contains("panicked"), "{status}: {said}");
}

#[test]
fn a_registry_without_a_loopback_interface_does_not_pretend_to_serve() {
    if runs("unshare -rn") {
        let mut registry = farcall_by("unshare -rn", "registry --listen 127.0.0.1:7117");
        fails(&mut registry, 1, "the loopback interface is down");
    }
}

/// Commands that go on until they are ended, with a number that no other process is given.
fn endless() -> [(&'static str, String); 6] {
    [
        ("1900000001", "perf echo --transport ring+shm --sizes 100 --count 1900000001".to_owned()),
        ("1900000002", "perf echo --transport tcp --sizes 100 --count 1900000002".to_owned()),
        ("1900000003", "msgrate --messages 1900000003".to_owned()),
        ("registry", "registry --listen 127.0.0.1:0".to_owned()),
        ("serve", format!("kv serve --memory 16M --at {}", place(13))),
        ("export", "export --listen 127.0.0.1:0".to_owned()),
    ]
}

/// Whether this process ignores a signal, as `nohup` and shells want it of what they start in the background.
/// What it starts ignores it too.
fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").expect("there is /proc");
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("it is in every status");
    let mask = u64::from_str_radix(mask.trim(), 16).expect("it is a mask");
    mask >> (signal.as_raw() - 1) & 1 == 1
}

#[test]
fn every_signal_that_asks_for_the_end_ends_every_command_and_all_of_its_processes() {
    for (signal, status) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        if is_ignored(signal) {
            eprintln!("not tested: {signal:?} is ignored here");
            continue;
        }
        for (number, command) in endless() {
            let has_ranks = number.starts_with('1');
            let mut running = Running::start(words(FARCALL, &command).stdout(Stdio::piped()));
            let mut lines = BufReader::new(running.0.stdout.take().expect("it is piped")).lines();
            assert!(lines.next().is_some(), "{command} says something");
            // Whatever it has started by now.
            kill_process(Pid::from_child(&running.0), signal).expect("it is there");
            let ended = running.end();
            let by_signal = std::os::unix::process::ExitStatusExt::signal(&ended);
            let code = ended.code().or(by_signal.map(|number| 128 + number));
            assert_eq!(code, Some(status), "{command}, {signal:?}");
            let begun = std::time::Instant::now();
            while has_ranks && !processes_with(number).is_empty() {
                assert!(begun.elapsed() < common::surroundings::LONG, "{command} leaves processes");
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
    }
}
