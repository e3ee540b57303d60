//! Disks that fail under stores and backups that run: errors of writes, flushes and reads, no room, limits,
//! and slowness. Nothing acknowledged is lost, what is refused is refused in a sentence, and nothing hangs.
//!
//! The errors are put into the system calls of the process's disk from outside, by `strace`; file systems
//! that fill up are small ones in mount namespaces. Where a machine has neither, those tests have nothing to
//! say.

mod common;

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use common::stores::{Folder, LONG, Server, keys, kv, put, run, start_by, whole_replicas};

/// A process whose system calls fail until this is dropped.
struct Faults(Child);

impl Faults {
    /// Has calls of a process fail, of those that its disk is used by; `None` where that cannot be.
    fn of(server: &Server, faults: &[&str]) -> Option<Self> {
        let process = server.0.id();
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "-o", "/dev/null", "-p", &process.to_string()]);
        strace.args(["-e", "trace=pwritev,pwritev2,preadv,fdatasync"]);
        strace.args(faults.iter().flat_map(|fault| ["-e", fault]));
        let strace = strace.stdin(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut faults = Self(strace.ok()?);
        while !is_traced(process) {
            if faults.0.try_wait().expect("it is a child").is_some() {
                eprintln!("strace cannot be used here: this is not tested");
                return None;
            }
            std::thread::yield_now();
        }
        Some(faults)
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        // It lets the process go when it is asked to end.
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

/// Whether all threads of a process are traced.
fn is_traced(process: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{process}/task")).expect("it runs");
    threads.flatten().all(|thread| {
        let status = fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        status.lines().any(|line| line.starts_with("TracerPid:") && !line.ends_with("\t0"))
    })
}

const WRITES_FAIL: &str = "inject=pwritev,pwritev2:error=EIO";
/// The kernel does not know the flag, so the flush is a call of its own, and that fails.
const FLUSHES_FAIL: [&str; 2] = ["inject=pwritev2:error=EOPNOTSUPP", "inject=fdatasync:error=EIO"];
const IS_READ_ONLY: &str = "inject=pwritev,pwritev2:error=EROFS";

fn value(folder: &Folder) -> String {
    let file = folder.of("value");
    fs::write(&file, "x".repeat(400_000)).expect("room");
    file
}

/// Writes long values until one is refused; gives how many were acknowledged, and the refusal.
fn fill(folder: &Folder, at: &str) -> (usize, String) {
    let file = value(folder);
    for number in 0..1000 {
        let (status, _, sentence) =
            kv(at, &["put", &format!("long{number}"), "--file", &file, "--table", "orders"]);
        match status {
            Some(0) => {}
            Some(1) => return (number, sentence),
            _ => panic!("{sentence}"),
        }
    }
    panic!("its disk holds no 400 MB");
}

/// A long write, again until it is acknowledged.
fn put_long(folder: &Folder, at: &str, key: &str) {
    let (file, begun) = (value(folder), Instant::now());
    loop {
        let (status, _, sentence) = kv(at, &["put", key, "--file", &file, "--table", "orders"]);
        if status == Some(0) {
            return;
        }
        assert!(status == Some(1) && begun.elapsed() < LONG, "{sentence}");
    }
}

/// Whether what was acknowledged can be read, also when no more can be written.
fn is_read(at: &str, key: &str) -> bool {
    kv(at, &["get", key, "--table", "orders", "--timeout", "60"]) == (Some(0), key.to_owned(), String::new())
}

#[test]
fn a_disk_that_reports_errors_refuses_writes_and_loses_nothing() {
    for (name, faults) in
        [("writes", &[WRITES_FAIL][..]), ("flushes", &FLUSHES_FAIL), ("read-only", &[IS_READ_ONLY])]
    {
        let folder = Folder::new(&format!("disks-{name}"));
        let data = folder.of("data");
        let more = ["--tables", "orders:flushed", "--data", &data, "--memory", "16M"];
        let (server, at) = folder.start_alone(&more);
        put(&at, "before");
        let Some(faults) = Faults::of(&server, faults) else { return };
        for key in ["unknown", "refused"] {
            let (status, _, sentence) = kv(&at, &["put", key, "1", "--table", "orders"]);
            assert_eq!(status, Some(1), "{name}: {sentence}");
            assert!(sentence.contains("the disk of durable tables has failed"), "{name}: {sentence}");
            assert_eq!(sentence.lines().count(), 1, "{name}: {sentence}");
        }
        assert!(is_read(&at, "before"), "{name}");
        drop((faults, server));
        let (_server, at) = folder.start_alone(&more);
        let mut found = keys(&at);
        // It may have happened, as the refusal says.
        found.retain(|key| key != "unknown");
        assert_eq!(found, ["before"], "{name}");
        put(&at, "after");
    }
}

#[test]
fn a_backup_whose_disk_fails_is_replaced_and_all_goes_on() {
    let cases = [
        ("backup-writes", vec![WRITES_FAIL]),
        ("backup-flushes", FLUSHES_FAIL.to_vec()),
        ("backup-full", vec!["inject=pwritev,pwritev2:error=ENOSPC"]),
        // Longer than the lease.
        ("backup-slow", vec!["inject=pwritev,pwritev2:delay_enter=3000000"]),
    ];
    for (name, faults) in cases {
        let folder = Folder::new(&format!("disks-{name}"));
        let (first, _) = folder.backup("first");
        let (primary, at) = folder.primary("replicated=1,flushed", "primary");
        put(&at, "before");
        let (_second, _) = folder.backup("second");
        let Some(faults) = Faults::of(&first, &faults) else { return };
        put(&at, "during");
        assert_eq!(whole_replicas(&at), 1, "{name}");
        drop((primary, faults, first));
        fs::remove_dir_all(folder.of("primary")).expect("it is this test's");
        // The second one has everything.
        let (_next, at) = folder.primary("replicated=1,flushed", "next");
        assert_eq!(keys(&at), ["before", "during"], "{name}");
    }
}

#[test]
fn without_another_backup_writes_are_refused_until_the_disk_works_again() {
    let folder = Folder::new("disks-alone");
    let (first, _) = folder.backup("first");
    let (_primary, at) = folder.primary("replicated=1,flushed", "primary");
    put(&at, "before");
    let Some(faults) = Faults::of(&first, &[WRITES_FAIL]) else { return };
    let (status, _, sentence) = kv(&at, &["put", "unknown", "1", "--table", "orders"]);
    assert_eq!(status, Some(8), "{sentence}");
    assert!(sentence.contains("`farcall kv status` says what it lacks"), "{sentence}");
    let (_, listing, _) = kv(&at, &["status"]);
    assert!(listing.contains("the level is not reached now") && listing.contains("disk"), "{listing}");
    assert!(is_read(&at, "before"));
    drop(faults);
    put(&at, "after");
    assert_eq!(whole_replicas(&at), 1);
}

#[test]
fn a_process_whose_files_may_not_become_longer_refuses_writes_and_stays() {
    let folder = Folder::new("disks-limit");
    let data = folder.of("data");
    let more = ["--tables", "orders:flushed", "--data", &data, "--memory", "64M", "--data-size", "64M"];
    // Shared memory is files, too.
    let more = [&more[..], &["--transport", "basic+udp"]].concat();
    // Less than a log becomes, and more than it begins with.
    let (_server, at) = start_by(&["prlimit", "--fsize=25000000"], "serve", &more, "shard 0 of 1 serves");
    let (written, sentence) = fill(&folder, &at);
    assert!(written > 10 && sentence.contains("the log of durable tables is full"), "{written}: {sentence}");
    assert_eq!(keys(&at).len(), written, "they can be read");
    assert_eq!(kv(&at, &["delete", "long0", "--table", "orders"]).0, Some(0));
}

/// A mount namespace with a file system of so many megabytes at `at`, as long as this lives.
struct Mounted(Server);

impl Mounted {
    fn new(at: &str, options: &str) -> Option<Self> {
        fs::create_dir(at).expect("a folder");
        let script = format!("mount -t tmpfs -o {options} none {at} && echo mounted && exec sleep 1000000");
        let mut unshare = Command::new("unshare");
        unshare.args(["-m", "sh", "-c", &script]).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut holder = Server(unshare.spawn().ok()?);
        let mut told = std::io::BufReader::new(holder.0.stdout.take().expect("it is piped"));
        let mut line = String::new();
        std::io::BufRead::read_line(&mut told, &mut line).expect("text");
        if line != "mounted\n" {
            eprintln!("file systems cannot be mounted here: this is not tested");
            return None;
        }
        Some(Self(holder))
    }

    fn process(&self) -> String {
        self.0.0.id().to_string()
    }

    fn remount(&self, at: &str, options: &str) {
        let mut mount = Command::new("nsenter");
        mount.args(["-t", &self.process(), "-m", "mount", "-o", &format!("remount,{options}"), at]);
        assert!(mount.status().expect("nsenter runs").success());
    }
}

#[test]
fn a_file_system_that_is_full_refuses_writes_and_takes_them_when_there_is_room_again() {
    let folder = Folder::new("disks-full");
    let data = folder.of("data");
    let Some(mounted) = Mounted::new(&data, "size=24M") else { return };
    let within = ["nsenter", "-t", &mounted.process(), "-m"];
    let more = ["--tables", "orders:flushed", "--data", &data, "--memory", "64M", "--data-size", "64M"];
    let (server, at) = start_by(&within, "serve", &more, "shard 0 of 1 serves");
    let (written, sentence) = fill(&folder, &at);
    assert!(written > 10 && sentence.contains("the log of durable tables is full"), "{written}: {sentence}");
    assert_eq!(keys(&at).len(), written, "they can be read");
    mounted.remount(&data, "size=100M");
    put_long(&folder, &at, "again");
    put_long(&folder, &at, "and again");
    drop(server);
    let (server, at) = start_by(&within, "serve", &more, "shard 0 of 1 serves");
    assert_eq!(keys(&at).len(), written + 2, "what was acknowledged is there");
    drop(server);
    // One that may not be written at all says so.
    mounted.remount(&data, "ro");
    let serve = ["nsenter", "-t", &mounted.process(), "-m", env!("CARGO_BIN_EXE_farcall"), "kv", "serve"];
    let refused = Command::new(serve[0]).args(&serve[1..]).args(["--at", "127.0.0.1:1"]).args(more).output();
    let refused = refused.expect("it runs");
    let sentence = String::from_utf8(refused.stderr).expect("text");
    assert!(refused.status.code() == Some(1) && sentence.contains("Read-only file system"), "{sentence}");
}

#[test]
fn an_export_that_finds_no_room_leaves_no_file_behind() {
    let folder = Folder::new("disks-export");
    let (data, full) = (folder.of("data"), folder.of("full"));
    let more = ["--tables", "orders:flushed", "--data", &data, "--memory", "16M"];
    let (store, at) = folder.start_alone(&more);
    put_long(&folder, &at, "long");
    drop(store);
    let Some(mounted) = Mounted::new(&full, "size=64K") else { return };
    let file = format!("{full}/export");
    let farcall = env!("CARGO_BIN_EXE_farcall");
    let process = mounted.process();
    let within = ["-t", &process, "-m", farcall, "kv", "backup", "--data", &data, "--export", &file];
    let export = || {
        let output = Command::new("nsenter").args(within).output().expect("nsenter runs");
        (output.status.code(), String::from_utf8(output.stderr).expect("text"))
    };
    let (status, sentence) = export();
    assert!(status == Some(1) && sentence.contains("No space left"), "{sentence}");
    mounted.remount(&full, "size=64M");
    assert_eq!(export(), (Some(0), String::new()), "nothing is in the way of the next one");
}

#[test]
fn what_the_disk_of_a_primary_cannot_read_is_told_by_a_comparison_and_it_ends() {
    let folder = Folder::new("disks-unreadable");
    let (_first, _) = folder.backup("first");
    let (primary, at) = folder.primary("replicated=1,flushed", "primary");
    put(&at, "before");
    let Some(faults) = Faults::of(&primary, &["inject=preadv:error=EIO"]) else { return };
    let (status, listing, sentence) = kv(&at, &["scrub"]);
    assert_eq!(status, Some(7), "{listing}{sentence}");
    assert!(listing.contains("at the primary: what was there can be written again"), "{listing}");
    drop(faults);
    assert_eq!(kv(&at, &["scrub"]).0, Some(0), "it can be read again");
    put(&at, "after");
    let (status, _, sentence) = run(&["kv", "status", "--at", &at]);
    assert_eq!(status, Some(0), "{sentence}");
}
