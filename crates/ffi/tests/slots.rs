//! Programs of C and C++ use a daemon of their host through slots, under a policy, and see its end.

mod common;

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use common::places::free_address;
use common::{compile, succeed};
use farcall::Node;
use farcall::bootstrap::{Bootstrap, HostPort, Rendezvous};
use farcall::parameters::Settings;
use farcall_disk::MemoryDisk;
use farcall_kv::daemon::{Daemon, listen_on_host, name_on_host};
use farcall_kv::durable::{LOG_BYTES_MIN, Level};
use farcall_kv::slots::{Access, SlotLayout};
use farcall_kv::store::{MEMORY_BYTES_MIN, Store};
use farcall_kv::{Shard, TableGuard};

/// Generous: reached only when something hangs.
const LONG: Duration = Duration::from_secs(60);

const LAYOUT: SlotLayout = SlotLayout { slots: 4, request_bytes: 120, response_bytes: 120 };

/// A policy for this user, which goes with the test.
struct Rules(PathBuf);

impl Rules {
    fn new(place: &str) -> Self {
        let uid = fs::metadata("/proc/self").expect("this process").uid();
        let path = std::env::temp_dir().join(format!("farcall-ffi-slots-{}-{place}", std::process::id()));
        let text = format!(
            "table table: read, write by uid {uid}\ntable kept: read, write, administer by uid {uid}\n"
        );
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("it is ours");
        Self(path)
    }
}

impl Drop for Rules {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.0));
    }
}

/// A program that ends with the test, also with one that has failed.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// The daemon's end: it stops, and its thread returns, when this is dropped.
struct Ending<'a> {
    stop: &'a AtomicBool,
    end: mpsc::Sender<()>,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // It has ended already, or waits for this.
        let _ = self.end.send(());
    }
}

/// What a daemon is told, and tells.
struct Wires<'a> {
    stop: &'a AtomicBool,
    end: mpsc::Receiver<()>,
    /// That it listens, and that it has stopped.
    tells: mpsc::Sender<()>,
}

/// Serves until told to stop, and leaves its clients' slots alone until told to end.
fn serve(address: &HostPort, place: &str, rules: &Path, wires: &Wires<'_>) {
    let bootstrap = Bootstrap::join(address, 0, 2, LONG).expect("rank 0 joins");
    let endpoint = Node::new(bootstrap, Settings::default()).endpoint("ring+shm").expect("it is there");
    let mut shard = Shard::new(Store::new(MEMORY_BYTES_MIN).expect("enough"), 0, 1);
    shard.open_log(Box::new(MemoryDisk::new()), LOG_BYTES_MIN).expect("memory");
    for (table, level) in [("table", Level::Memory), ("secret", Level::Memory), ("kept", Level::Flushed)] {
        shard.create_table_at(table, level).expect("room");
    }
    let name = name_on_host(&HostPort::parse(place).expect("a place"));
    let slots = listen_on_host(&name, &Access::default(), LAYOUT, 1).expect("a free name");
    let mut daemon = Daemon::new(&endpoint, shard, (0, 1), slots);
    daemon.guard_by(TableGuard::open(rules).expect("rules"));
    // A test that has ended hears nothing.
    let tell = || _ = wires.tells.send(());
    tell();
    while !wires.stop.load(Ordering::Relaxed) {
        daemon.turn_idle();
    }
    tell();
    // The test has ended, or says when.
    let _ = wires.end.recv();
}

/// Runs a program beside a daemon that does what the lines ask for that it prints.
fn run(program: &Path, arguments: &[&str]) {
    let rendezvous = Rendezvous::bind("127.0.0.1:0", 2).expect("a free port");
    let (address, place) = (HostPort::from(rendezvous.address()), free_address());
    let rules = Rules::new(&place);
    let stop = AtomicBool::new(false);
    let (end, ended) = mpsc::channel();
    std::thread::scope(|threads| {
        let (place_of_daemon, stop, rules) = (&*place, &stop, &*rules.0);
        let (tells, told) = mpsc::channel();
        let address_of_daemon = &address;
        let ending = Ending { stop, end };
        let daemon = threads.spawn(move || {
            serve(address_of_daemon, place_of_daemon, rules, &Wires { stop, end: ended, tells });
        });
        told.recv().expect("it listens");
        let mut command = Command::new(program);
        command.arg(&place).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let rank = [("FARCALL_RANK", "1"), ("FARCALL_SIZE", "2")];
        command.envs(rank).env("FARCALL_RENDEZVOUS", address.to_string());
        let mut program_started = Started(command.spawn().expect("it was compiled"));
        let child = &mut program_started.0;
        let mut asks = child.stdin.take().expect("it is piped");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let mut daemon = Some(daemon);
        for line in lines {
            match line.expect("text").as_str() {
                "stop" => {
                    stop.store(true, Ordering::Relaxed);
                    told.recv().expect("it stops");
                }
                "end" => {
                    ending.end.send(()).expect("it waits");
                    daemon.take().expect("it ends once").join().expect("it does not panic");
                }
                other => panic!("the program says {other}"),
            }
            // One that has failed reads nothing, which its status says.
            let _ = writeln!(asks, "done");
        }
        let status = child.wait().expect("it was started");
        assert!(status.success(), "{}: {status}", program.display());
    });
}

#[test]
fn objects_through_slots() {
    for (name, flags) in [("slots", &[][..]), ("slots-sanitized", &["-fsanitize=address,undefined"])] {
        run(&compile("tests/c/slots.c", name, flags), &[]);
    }
}

#[test]
fn the_store_in_cpp() {
    for (name, flags) in [("stores", &[][..]), ("stores-sanitized", &["-fsanitize=address,undefined"])] {
        run(&compile("tests/c/stores.cpp", name, flags), &["ring+shm"]);
    }
}

#[test]
fn a_program_under_valgrind_loses_nothing() {
    if let Err(error) = Command::new("valgrind").arg("--version").output() {
        return println!("unsupported: valgrind: {error}");
    }
    let program = compile("tests/c/slots.c", "slots-checked", &[]);
    let script = program.with_extension("sh");
    let checks = "--quiet --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite";
    let text = format!("#!/bin/sh\nexec valgrind {checks} {} \"$@\"\n", program.display());
    fs::write(&script, text).expect("room");
    succeed(Command::new("chmod").arg("+x").arg(&script));
    run(&script, &[]);
    fs::remove_file(&script).expect("it is ours");
}
