//! An open cluster under change: servers of one name are killed and started again, clients come and go.
//!
//! Every server writes down each call before it answers, every client what it began and how it ended. In the
//! end no call has two entries among the servers, each call that was answered has one, and no call of a
//! client that was not killed lacks an end.
//!
//! Memory and descriptors of the processes that live to the end, the first server and this one with the
//! registry, do not grow from the first half of the time to the second. They are printed once a minute.
//!
//! The long run, of ten minutes with 200 clients over each transport, is `make test-churn`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use farcall::bootstrap::{LAUNCH_VARIABLES, NAMES_VARIABLE, Rendezvous};
use farcall::{Balance, Node, Service};
use farcall_base::Random;

const ROLE: &str = "FARCALL_TEST_ROLE";
const FOLDER: &str = "FARCALL_TEST_FOLDER";
const TRANSPORT: &str = "FARCALL_TEST_OVER";
const NUMBER: &str = "FARCALL_TEST_NUMBER";
const TEST: &str = "no_call_is_lost_without_an_error_and_none_runs_twice";

const RECORD: Service = Service(1);
const SERVERS: usize = 3;
/// Far longer than a call takes while there is a server, or one is about to start.
const CALL_WITHIN: Duration = Duration::from_secs(30);

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is set for a role"))
}

fn number_from(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

/// Appends to a file of its own, which outlives the process.
struct Log(File);

impl Log {
    fn open(kind: &str) -> Self {
        let path = Path::new(&variable(FOLDER)).join(format!("{kind}-{}", std::process::id()));
        Self(OpenOptions::new().create(true).append(true).open(path).expect("the folder is there"))
    }

    fn note(&mut self, call: u64, what: u8) {
        let mut entry = [0; 9];
        entry[..8].copy_from_slice(&call.to_le_bytes());
        entry[8] = what;
        self.0.write_all(&entry).expect("there is room on the disk");
    }
}

const BEGAN: u8 = b'b';
const ANSWERED: u8 = b'a';
const FAILED: u8 = b'f';
const RAN: u8 = b'r';

fn serve() {
    let mut log = Log::open("server");
    let node = Node::open().expect("the registry is there");
    let endpoint = node.endpoint(&variable(TRANSPORT)).expect("an endpoint");
    endpoint.serve(RECORD, move |request, reply| {
        let call = u64::from_le_bytes(request.payload().try_into().expect("eight bytes"));
        log.note(call, RAN);
        reply.send(&call.to_le_bytes());
    });
    let _listener = endpoint.listen("orders").expect("a name");
    endpoint.run_while(|| true);
}

/// Makes some calls and ends.
fn call() {
    let mut log = Log::open("client");
    let number: u64 = variable(NUMBER).parse().expect("a number");
    let mut random = Random::new(number);
    let node = Node::open().expect("the registry is there");
    let endpoint = node.endpoint(&variable(TRANSPORT)).expect("an endpoint");
    let balance = if random.chance(0.5) { Balance::RoundRobin } else { Balance::TwoChoices };
    let orders = endpoint.connect("orders").expect("a name").balanced_by(balance);
    for turn in 0..10 + random.below(200) {
        let call = number << 32 | turn;
        log.note(call, BEGAN);
        match orders.call(RECORD, &call.to_le_bytes()).within(CALL_WITHIN).wait() {
            Ok(answer) => {
                assert_eq!(&answer[..], &call.to_le_bytes(), "an answer to another call");
                log.note(call, ANSWERED);
            }
            Err(error) => {
                println!("client {number}, call {turn}: {error}");
                log.note(call, FAILED);
            }
        }
    }
}

struct Process {
    child: Child,
    was_killed: bool,
}

impl Process {
    fn start(role: &str, number: u64, place: &Place) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
        for variable in LAUNCH_VARIABLES {
            command.env_remove(variable);
        }
        command
            .args(["--exact", TEST, "--nocapture"])
            .env(ROLE, role)
            .env(FOLDER, &place.folder)
            .env(TRANSPORT, &place.transport)
            .env(NUMBER, number.to_string())
            .env(NAMES_VARIABLE, place.registry.address().to_string())
            .stdout(Stdio::null());
        Self { child: command.spawn().expect("it runs"), was_killed: false }
    }

    fn kill(&mut self) {
        self.was_killed = true;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn has_ended(&mut self) -> bool {
        let ended = self.child.try_wait().expect("it is a child");
        assert!(
            ended.is_none_or(|status| status.success() || self.was_killed),
            "a process failed: {ended:?}"
        );
        ended.is_some()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Place {
    registry: Rendezvous,
    folder: PathBuf,
    transport: String,
}

impl Drop for Place {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}

#[test]
fn no_call_is_lost_without_an_error_and_none_runs_twice() {
    match std::env::var(ROLE).as_deref() {
        Ok("server") => return serve(),
        Ok("client") => return call(),
        _ => {}
    }
    let seconds = number_from("FARCALL_TEST_SECONDS", 4);
    let clients = number_from("FARCALL_TEST_CLIENTS", 20) as usize;
    let seed = number_from("FARCALL_TEST_SEED", u64::from(std::process::id()));
    let transports = std::env::var("FARCALL_TEST_TRANSPORTS").unwrap_or("ring+shm,basic+udp,auto".to_owned());
    for transport in transports.split(',') {
        println!("over {transport}, FARCALL_TEST_SEED={seed}");
        let folder =
            std::env::temp_dir().join(format!("farcall-open-cluster-{}-{transport}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for logs");
        let registry = Rendezvous::bind_open("127.0.0.1:0").expect("a free port");
        let place = Place { registry, folder, transport: transport.to_owned() };
        let killed = change(&place, Duration::from_secs(seconds), clients, seed);
        judge(&place.folder, &killed);
    }
}

/// Lets servers and clients come and go; gives the clients that were killed, by process number.
fn change(place: &Place, time: Duration, clients: usize, seed: u64) -> BTreeSet<u32> {
    let mut random = Random::new(seed);
    let mut killed = BTreeSet::new();
    let mut number = 0;
    let mut start = |role: &str| {
        number += 1;
        Process::start(role, number, place)
    };
    let mut servers: Vec<Process> = (0..SERVERS).map(|_| start("server")).collect();
    let mut running: Vec<Process> = (0..clients).map(|_| start("client")).collect();
    let own = descriptors_of(std::process::id());
    let begun = Instant::now();
    let mut kept =
        Kept::new([("the server that lives", servers[0].child.id()), ("the registry", std::process::id())]);
    while begun.elapsed() < time {
        kept.look(begun.elapsed(), time);
        running.retain_mut(|client| !client.has_ended());
        if running.len() < clients {
            running.push(start("client"));
        }
        if random.chance(0.05) {
            let place = random.index(running.len());
            killed.insert(running[place].child.id());
            running[place].kill();
        }
        if random.chance(0.1) {
            // The first server lives to the end: it is looked at then.
            let place = 1 + random.index(SERVERS - 1);
            servers[place].kill();
            servers[place] = start("server");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    while !running.is_empty() {
        running.retain_mut(|client| !client.has_ended());
        std::thread::sleep(Duration::from_millis(5));
    }
    println!("{number} processes, {} clients killed", killed.len());
    kept.say(begun.elapsed());
    if time >= FLAT_IN {
        kept.assert_flat();
    }
    flat("descriptors", || descriptors_of(servers[0].child.id()), 40, "the server that lived");
    flat("mapped rings", || rings_of(servers[0].child.id()), 0, "the server that lived");
    servers.clear();
    flat("descriptors", || descriptors_of(std::process::id()), own, "the registry");
    killed
}

fn descriptors_of(process: u32) -> usize {
    std::fs::read_dir(format!("/proc/{process}/fd")).map_or(0, Iterator::count)
}

/// What a process has in memory of its own, without what it shares, in bytes.
fn own_bytes_of(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it lives to the end");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("a process has memory");
    let kilobytes = line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number");
    kilobytes << 10
}

/// How many rings of shared memory a process has mapped.
fn rings_of(process: u32) -> usize {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).expect("it lives to the end");
    maps.matches("/memfd:farcall-ring").count()
}

/// What processes have that live to the end: the most in the first half of the time, and in the second.
struct Kept {
    processes: [(&'static str, u32); 2],
    most: [[u64; 2]; 2],
    minutes_said: u64,
}

/// In less time processes have hardly begun when the first half is over.
const FLAT_IN: Duration = Duration::from_secs(20);

/// What a process may have more in the second half than in the first: what it makes once and keeps, such as
/// for the most sessions that it ever had at a time.
const GROWTH_BYTES_MAX: u64 = 16 << 20;

impl Kept {
    fn new(processes: [(&'static str, u32); 2]) -> Self {
        Self { processes, most: [[0; 2]; 2], minutes_said: 0 }
    }

    fn look(&mut self, passed: Duration, time: Duration) {
        let half = usize::from(passed > time / 2);
        for ((_, process), most) in self.processes.iter().zip(&mut self.most) {
            most[half] = most[half].max(own_bytes_of(*process));
        }
        if passed.as_secs() / 60 > self.minutes_said {
            self.minutes_said += 1;
            self.say(passed);
        }
    }

    fn say(&self, passed: Duration) {
        let said = self.processes.iter().map(|(name, process)| {
            let (kilobytes, descriptors) = (own_bytes_of(*process) >> 10, descriptors_of(*process));
            let rings = rings_of(*process);
            format!(
                "{name} has {kilobytes} KiB of its own, {descriptors} descriptors and {rings} mapped rings"
            )
        });
        println!("after {} s: {}", passed.as_secs(), said.collect::<Vec<_>>().join("; "));
    }

    fn assert_flat(&self) {
        for ((name, _), [first, second]) in self.processes.iter().zip(self.most) {
            assert!(second <= first + GROWTH_BYTES_MAX, "{name} grew from {first} to {second} bytes");
        }
    }
}

/// Waits until a process has no more of something than `most`.
fn flat(what: &str, count: impl Fn() -> usize, most: usize, whose: &str) {
    let until = Instant::now() + CALL_WITHIN;
    while count() > most {
        assert!(Instant::now() < until, "{whose} still has {} {what}", count());
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn judge(folder: &Path, killed: &BTreeSet<u32>) {
    let mut ran: BTreeMap<u64, u32> = BTreeMap::new();
    let mut ended: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    let mut excused = BTreeSet::new();
    for entry in std::fs::read_dir(folder).expect("the folder of logs") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name of ours").to_owned();
        let was_killed =
            name.split_once('-').is_some_and(|(_, pid)| killed.contains(&pid.parse().expect("a pid")));
        for entry in std::fs::read(&path).expect("a log").chunks_exact(9) {
            let call = u64::from_le_bytes(entry[..8].try_into().expect("eight bytes"));
            match entry[8] {
                RAN => *ran.entry(call).or_default() += 1,
                what => ended.entry(call).or_default().push(what),
            }
            if was_killed {
                excused.insert(call);
            }
        }
    }
    let twice: Vec<_> = ran.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "calls that ran more than once: {twice:?}");
    let (mut answered, mut failed) = (0, 0);
    for (call, ends) in &ended {
        match ends[..] {
            [BEGAN, ANSWERED] => {
                answered += 1;
                assert_eq!(ran.get(call), Some(&1), "call {call:x} was answered and no server ran it");
            }
            [BEGAN, FAILED] => failed += 1,
            _ => assert!(excused.contains(call), "call {call:x} has no end: {ends:?}"),
        }
    }
    println!("{answered} calls answered, {failed} ended with an error, {} ran", ran.len());
    assert!(answered > 0);
}
