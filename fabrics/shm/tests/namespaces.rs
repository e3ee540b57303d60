//! Processes in other namespaces and of other users: connected or refused as `docs/shared-memory.md` says,
//! and killed at any moment, leaving nothing.
//!
//! The client is this program itself, copied to where all users can read it, under `unshare` and `setpriv`.
//! `FARCALL_TEST_ROUNDS=2000` kills more of them than the few of an ordinary run.

use core::time::Duration;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use farcall_base::{Address, Random};
use farcall_driver::conformance::until;
use farcall_driver::{LaneDriver, LaneEvent, LaneId, LaneReceiver, LaneSender, RecordKind};
use farcall_shm::access::{Access, Allow};
use farcall_shm::folder::Directory;
use farcall_shm::{ShmConfig, ShmLanes};

const TARGET: &str = "FARCALL_TEST_TARGET";
const FOLDER: &str = "FARCALL_TEST_FOLDER";
const ALLOW: &str = "FARCALL_TEST_ALLOW";
const ROUNDS: &str = "FARCALL_TEST_ROUNDS";
const SEED: &str = "FARCALL_TEST_SEED";

const ROUNDS_OF_A_RUN: u64 = 40;
/// How long after its start a client is killed, at most: it takes some of that to connect.
const KILLED_WITHIN: Duration = Duration::from_millis(60);
const OTHER_USER: &str = "61234";
const LONG: Duration = Duration::from_secs(20);
const RECORD_BYTES: usize = 64;
/// The most honest clients of each user that start to take away what was left: each does so for 16.
const HONEST_MAX: usize = 500;

/// A folder that all users may use, with this program in it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("fc-ns-{}-{test}", std::process::id()));
        std::fs::create_dir(&path).expect("a folder");
        std::fs::create_dir(path.join("sockets")).expect("a folder");
        let mode = |path: &PathBuf, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("our own");
        };
        mode(&path, 0o755);
        mode(&path.join("sockets"), 0o1777);
        // Another process copies it: a child that this one starts meanwhile would keep the file open for
        // writing, and then it cannot be executed.
        let program = std::env::current_exe().expect("this program");
        let copied = Command::new("cp").arg(program).arg(path.join("client")).status();
        assert!(copied.expect("cp runs").success());
        mode(&path.join("client"), 0o755);
        Self(path)
    }

    fn sockets(&self) -> PathBuf {
        self.0.join("sockets")
    }

    fn count(&self) -> usize {
        std::fs::read_dir(self.sockets()).expect("a folder").count()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).expect("our own folder");
    }
}

/// Where a client runs.
#[derive(Clone, Copy, Debug)]
struct Cell {
    is_same_user: bool,
    /// Options of `unshare`.
    namespaces: &'static [&'static str],
    /// Whether both have the folder.
    has_folder: bool,
    allow: &'static str,
}

const NAMESPACES: [&[&str]; 8] = [
    &[],
    &["--user", "--map-root-user"],
    &["--net"],
    &["--ipc"],
    &["--pid", "--fork", "--kill-child"],
    &["--mount"],
    &["--net", "--ipc", "--pid", "--fork", "--kill-child", "--mount"],
    &["--user", "--map-root-user", "--net", "--ipc", "--pid", "--fork", "--kill-child", "--mount"],
];

impl Cell {
    fn all() -> Vec<Self> {
        let mut cells = Vec::new();
        for namespaces in NAMESPACES {
            for is_same_user in [true, false] {
                for (has_folder, allow) in
                    [(true, "same-user"), (true, "any"), (false, "same-user"), (false, "any")]
                {
                    // An ordinary user may only make namespaces within one of its own.
                    if is_same_user || namespaces.is_empty() || namespaces.contains(&"--user") {
                        cells.push(Self { is_same_user, namespaces, has_folder, allow });
                    }
                }
            }
        }
        cells
    }

    /// What the documentation says.
    fn connects(&self) -> bool {
        let reaches = self.has_folder || !self.namespaces.contains(&"--net");
        reaches && (self.is_same_user || self.allow == "any")
    }

    fn start(&self, scratch: &Scratch, target: &Address) -> Child {
        let mut words: Vec<String> = Vec::new();
        if !self.is_same_user {
            let other = [
                "setpriv",
                &format!("--reuid={OTHER_USER}"),
                &format!("--regid={OTHER_USER}"),
                "--clear-groups",
            ];
            words.extend(other.map(str::to_owned));
        }
        if !self.namespaces.is_empty() {
            words.push("unshare".to_owned());
            words.extend(self.namespaces.iter().map(|word| (*word).to_owned()));
        }
        words.push(scratch.0.join("client").display().to_string());
        words.extend(["--exact", "the_client", "--ignored", "--nocapture"].map(str::to_owned));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env(TARGET, String::from_utf8_lossy(target.as_bytes()).into_owned());
        command.env(ALLOW, self.allow).env_remove("XDG_RUNTIME_DIR").env("FARCALL_TEST_CHILD", "1");
        if self.has_folder {
            command.env(FOLDER, scratch.sockets());
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.spawn().expect("util-linux is there")
    }
}

fn lanes(has_folder: bool, folder: PathBuf, allow: &str) -> ShmLanes {
    let directory = if has_folder { Directory::At(folder) } else { Directory::OfUser };
    let access = Access { directory, allow: Allow::parse(allow).expect("a rule") };
    let config = ShmConfig { ring_bytes: 4096, block_bytes: 1 << 16, access, ..ShmConfig::default() };
    ShmLanes::new(config).expect("shared memory")
}

/// Publishes a record at the beginning of the peer's ring: whether it comes from a trusted peer or not.
fn say(sender: &mut impl LaneSender, byte: u8) {
    sender.record(0, RECORD_BYTES)[0] = byte;
    sender.publish(RecordKind::Conversation, 0, RECORD_BYTES, RECORD_BYTES);
    sender.ring_doorbell();
}

fn heard(receiver: &impl LaneReceiver) -> Option<u8> {
    let record = receiver.peek(0, 0..RECORD_BYTES).expect("a correct peer")?;
    Some(record.slice(0, 1).expect("a byte")[0])
}

fn hear(receiver: &impl LaneReceiver) -> u8 {
    until("a record", || heard(receiver))
}

/// Connects, exchanges a record, says how it went, and waits for its end.
#[test]
#[ignore = "the other process of this program's tests"]
fn the_client() {
    let target = std::env::var(TARGET).expect("started by another test");
    let folder = std::env::var(FOLDER);
    let allow = std::env::var(ALLOW).expect("started by another test");
    let mut lanes = lanes(folder.is_ok(), folder.unwrap_or_default().into(), &allow);
    let target = Address::new(target.as_bytes()).expect("an address");
    lanes.connect(&target, b"client", LONG).expect("an address of this kind");
    let outcome = until("an outcome", || lanes.poll_event());
    match outcome {
        LaneEvent::Connected { lane, .. } => {
            let (mut sender, receiver) = lanes.take(lane).expect("it is up");
            say(&mut sender, 7);
            println!("\noutcome up {}", hear(&receiver));
        }
        LaneEvent::Down { fault, .. } => println!("\noutcome {fault}"),
        other => println!("\noutcome {other:?}"),
    }
    std::io::stdout().flush().expect("the parent listens");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// Ends with the test, however that ends.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

fn outcome(child: &mut Child) -> String {
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let found = lines.find_map(|line| Some(line.ok()?.strip_prefix("outcome ")?.to_owned()));
    found.unwrap_or_else(|| "it ended without an outcome".to_owned())
}

fn is_possible() -> bool {
    let can = rustix::process::geteuid().is_root()
        && Command::new("unshare")
            .args(["--user", "--net", "--pid", "--fork", "true"])
            .status()
            .is_ok_and(|s| s.success())
        && Command::new("setpriv").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !can {
        println!("skipped: only root can be two users and make namespaces");
    }
    can
}

/// Answers the next client that connects.
fn serve_one(driver: &mut ShmLanes) -> LaneId {
    let event = until("a client", || driver.poll_event());
    let LaneEvent::Accepted { lane, .. } = event else { panic!("instead of a client: {event:?}") };
    let (mut sender, receiver) = driver.take(lane).expect("it is up");
    assert_eq!(hear(&receiver), 7);
    say(&mut sender, 8);
    lane
}

#[test]
fn processes_of_other_namespaces_and_users_are_connected_or_refused_as_documented() {
    if !is_possible() {
        return;
    }
    let scratch = Scratch::new("matrix");
    for cell in Cell::all() {
        let mut driver = lanes(cell.has_folder, scratch.sockets(), cell.allow);
        let mut child = Ended(cell.start(&scratch, &driver.address()));
        if cell.connects() {
            let lane = serve_one(&mut driver);
            assert_eq!(outcome(&mut child.0), "up 8", "{cell:?}");
            drop(child);
            let down = until("its death", || driver.poll_event());
            assert!(matches!(down, LaneEvent::Down { lane: of, .. } if of == lane), "{cell:?}: {down:?}");
        } else {
            let outcome = outcome(&mut child.0);
            let is_refused = ["runs as user", "not mapped", "no process listens", "not open to"]
                .iter()
                .any(|words| outcome.contains(words));
            assert!(is_refused, "{cell:?}: {outcome}");
            assert_eq!(driver.poll_event(), None, "{cell:?}");
        }
    }
}

/// Answers all clients, until this one has said how it went.
fn serve_until_it_speaks(driver: &mut ShmLanes, child: &mut Child) -> String {
    std::thread::scope(|scope| {
        let said = scope.spawn(|| outcome(child));
        // Clients that were killed a moment ago may still come first.
        let mut lanes = Vec::new();
        while !said.is_finished() {
            if let Some(LaneEvent::Accepted { lane, .. }) = driver.poll_event() {
                lanes.extend(driver.take(lane));
            }
            lanes.retain_mut(|(sender, receiver)| {
                let has_spoken = heard(receiver) == Some(7);
                has_spoken.then(|| say(sender, 8)).is_none()
            });
            std::thread::yield_now();
        }
        said.join().expect("it does not panic")
    })
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("Linux lists descriptors").count()
}

#[test]
fn clients_that_are_killed_at_any_moment_leave_nothing() {
    if !is_possible() {
        return;
    }
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (rounds, seed) = (number(ROUNDS).unwrap_or(ROUNDS_OF_A_RUN), number(SEED).unwrap_or(1));
    println!("{SEED}={seed} {ROUNDS}={rounds}");
    let mut random = Random::new(seed);
    let scratch = Scratch::new("killed");
    let cells: Vec<_> = Cell::all().into_iter().filter(|cell| cell.has_folder && cell.connects()).collect();
    let mut driver = lanes(true, scratch.sockets(), "any");
    let before = descriptors();
    for _ in 0..rounds {
        let cell = cells[random.below(cells.len() as u64) as usize];
        let cell = Cell { allow: "any", ..cell };
        let child = Ended(cell.start(&scratch, &driver.address()));
        let nanos = random.below(KILLED_WITHIN.as_nanos() as u64);
        std::thread::sleep(Duration::from_nanos(nanos));
        drop(child);
        while driver.poll_event().is_some() {}
    }
    // Honest ones of each user: served, and their starts take away what the killed ones have left. Those that
    // `unshare` has started end a little later than it does.
    for _ in 0..HONEST_MAX {
        for is_same_user in [true, false] {
            let cell = Cell { is_same_user, namespaces: &[], has_folder: true, allow: "any" };
            let mut child = Ended(cell.start(&scratch, &driver.address()));
            assert_eq!(serve_until_it_speaks(&mut driver, &mut child.0), "up 8");
            // It ends in order, and takes its socket away.
            drop(child.0.stdin.take());
            child.0.wait().expect("our own child");
        }
        if scratch.count() == 1 {
            break;
        }
    }
    // An entry of a folder keeps the folder open; a name does not.
    let entries = std::fs::read_dir(scratch.sockets()).expect("a folder");
    let left: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
    assert_eq!(left.len(), 1, "only the driver's own socket is left: {left:?}");
    until("all is given back", || {
        while driver.poll_event().is_some() {}
        (descriptors() <= before).then_some(())
    });
    let maps = std::fs::read_to_string("/proc/self/maps").expect("a list of mappings");
    let rings = maps.lines().filter(|line| line.contains("memfd:farcall-ring")).count();
    assert_eq!(rings, 0, "memory of dead peers is mapped");
}
