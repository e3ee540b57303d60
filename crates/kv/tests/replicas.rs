//! Primaries and backups are killed at random, under load: what was acknowledged is there again.
//!
//! A ledger in the test's own process knows every write that was acknowledged, and every one whose fate is
//! unknown. After each kill another primary takes over, from what the backups have.

mod common;
#[path = "replicas/histories.rs"]
mod histories;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{LONG, TABLE, endpoint, name, settings, value};
use farcall::bootstrap::{Bootstrap, HostPort, Rendezvous};
use farcall::{Endpoint, Node, TransportKind};
use farcall_base::Random;
use farcall_kv::daemon::Daemon;
use farcall_kv::durable::Level;
use farcall_kv::replicated::{Backups, Primary, PrimaryPlan, Replicator};
use farcall_kv::slots::{SlotLayout, SlotServer};
use farcall_kv::store::{Condition, MEMORY_BYTES_MIN, Store};
use farcall_kv::wire::{NotReplicated, Replication};
use farcall_kv::{Client, Failure, Shard};
use farcall_replica::{Backup, BackupEntry, FileRegistry, FolderShelf};

/// Set in the processes that the test starts: what they are, the rendezvous, the folder, the level.
const ROLE: &str = "FARCALL_TEST_ROLE";

/// How many writes each run makes.
const STEPS: &str = "FARCALL_TEST_KV_STEPS";

/// Rank 0 is the primary, rank 1 the client; backups have those behind.
const SIZE: u32 = 8;
const KIND: TransportKind = TransportKind::RING_SHM;
const KEYS: u8 = 8;

/// Far longer than a turn takes on a busy machine: here every end is noticed without it.
const LEASE: Duration = Duration::from_secs(20);

fn role_of_process(role: &str) {
    let words: Vec<&str> = role.split(' ').collect();
    let [kind, number, address, folder, level] = words[..] else { panic!("the test gives five words") };
    let address = HostPort::parse(address).expect("an address");
    let (number, folder) = (number.parse().expect("a number"), Path::new(folder));
    let level = Level::named(level).expect("a level");
    match kind {
        "backup" => back_up(number, &address, folder, level),
        _ => serve(&address, folder, level),
    }
}

fn back_up(number: u32, address: &HostPort, folder: &Path, level: Level) {
    let node = Node::new(Bootstrap::join(address, number, SIZE, LONG).expect("it joins"), settings(&[]));
    let endpoint = node.endpoint(KIND.name()).expect("an endpoint");
    let name = format!("backup-{number}");
    let data = folder.join(&name);
    let shelf = FolderShelf::new(level.is_flushed().then_some(&*data)).expect("a folder");
    let mut backups = Backups::new(Backup::open(Box::new(shelf)).expect("what it had"));
    let _listener = endpoint.listen(&name).expect("a name");
    let registry = FileRegistry::open(&folder.join("registry")).expect("a folder");
    let at = format!("{address}/{name}");
    let entry = BackupEntry { at, domain: name, has_disk: level.is_flushed() };
    registry.announce(&entry).expect("room");
    loop {
        endpoint.stay_awake(backups.is_working());
        endpoint.poll_requests_idle(|request, reply| backups.handle(&request, reply), |_, _| ());
        backups.turn(&endpoint);
    }
}

fn serve(address: &HostPort, folder: &Path, level: Level) {
    let finder = Node::new(Bootstrap::nowhere().expect("no place is needed"), settings(&[]));
    let reaching = finder.endpoint(KIND.name()).expect("an endpoint");
    let mut shard = Shard::new(Store::new(MEMORY_BYTES_MIN).expect("enough"), 0, 1);
    let data = folder.join("primary");
    std::fs::create_dir_all(&data).expect("room");
    let plan = PrimaryPlan {
        registry: folder.join("registry").into(),
        data: level.is_flushed().then_some(data),
        at: "primary".to_owned(),
        of: (0, 1),
        lease: LEASE,
        level,
        domain: "primary".to_owned(),
        log_bytes_max: 64 << 20,
    };
    let primary = Primary::begin(&plan, &mut shard, &reaching, |_| ()).expect("it takes over");
    shard.create_table_at(TABLE, level).expect("one table");
    let Primary { mirror, keeper, life: _life, times, .. } = primary;
    let endpoint = endpoint(address, 0, SIZE, KIND, &settings(&[]));
    let layout = SlotLayout { slots: 1, request_bytes: 56, response_bytes: 56 };
    let mut daemon = Daemon::new(&endpoint, shard, (0, 1), SlotServer::none(layout));
    let registry = keeper.hand_to(&mirror).expect("a thread");
    daemon.replicate(Replicator::new(&endpoint, mirror, registry, LEASE, &times));
    loop {
        daemon.turn_idle();
    }
}

/// A process of the test; killed when dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only when it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A folder of the test's own.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What must be known of an object: what it is, and writes whose fate nobody knows.
#[derive(Default)]
struct Known {
    version: u64,
    value: Option<Vec<u8>>,
    late: Vec<Vec<u8>>,
}

impl Known {
    fn observe(&mut self, found: Option<(u64, Vec<u8>)>) {
        let value = found.as_ref().map(|(_, value)| value.clone());
        if value == self.value {
            return;
        }
        let late = self.late.iter().position(|late| Some(late) == value.as_ref());
        let late =
            late.unwrap_or_else(|| panic!("an acknowledged write is lost: {found:?} for {:?}", self.value));
        self.late.swap_remove(late);
        let version = found.map_or(0, |(version, _)| version);
        assert!(version > self.version, "versions rise");
        (self.version, self.value) = (version, value);
    }
}

struct Cluster {
    rendezvous: Rendezvous,
    folder: Folder,
    level: Level,
    test: &'static str,
    processes: BTreeMap<u32, Process>,
    known: BTreeMap<u8, Known>,
    random: Random,
    kills: u32,
    /// What the number must be.
    sum: i64,
}

impl Cluster {
    fn new(test: &'static str, level: Level, seed: u64) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("room");
        let mut this = Self {
            rendezvous: Rendezvous::bind("127.0.0.1:0", SIZE).expect("a rendezvous on loopback"),
            folder: Folder(folder),
            level,
            test,
            processes: BTreeMap::new(),
            known: BTreeMap::new(),
            random: Random::new(seed),
            kills: 0,
            sum: 0,
        };
        [2, 3, 4, 0].into_iter().for_each(|rank| this.start(rank));
        this
    }

    fn start(&mut self, rank: u32) {
        let kind = if rank == 0 { "primary" } else { "backup" };
        let (at, folder) = (self.rendezvous.address(), self.folder.0.display());
        let role = format!("{kind} {rank} {at} {folder} {}", self.level);
        let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
        command.args(["--exact", self.test, "--nocapture"]).env(ROLE, role).stdout(Stdio::null());
        self.processes.insert(rank, Process(command.spawn().expect("it runs again")));
    }

    fn kill(&mut self, rank: u32) {
        self.processes.remove(&rank);
        self.kills += 1;
    }

    /// Waits until all replicas have everything. What is in memory survives as many ends as there are
    /// replicas, and no more before others have taken their place.
    fn settle(&self, client: &Client<'_>) {
        let begun = Instant::now();
        while !self.level.is_flushed() {
            let written = client.put(name(b"settled"), value(b""), Condition::Always).within(LONG).wait();
            let found = client.replication(0).within(LONG).wait();
            let is_whole = |found: Option<Replication>| {
                let found = found.expect("it is replicated");
                found.trouble.is_empty() && found.replicas.iter().filter(|one| one.is_recorded).count() == 2
            };
            if written.is_ok() && found.is_ok_and(is_whole) {
                return;
            }
            assert!(begun.elapsed() < LONG, "the replicas are never whole");
        }
    }

    /// Adds to a number, once whatever ends meanwhile.
    fn add(&mut self, endpoint: &Endpoint, client: &Client<'_>) {
        let amount = 1 + self.random.below(9) as i64;
        let kills = self.random.below(10) == 0;
        if kills {
            self.settle(client);
        }
        let mut polls = self.random.below(200);
        let added = client.once(client.increment(name(b"sum"), amount).within(LONG));
        let mut added = core::pin::pin!(added);
        let outcome = endpoint.block_on(core::future::poll_fn(|context| {
            polls = polls.saturating_sub(1);
            if kills && polls == 0 {
                polls = u64::MAX;
                self.kill(0);
                self.start(0);
            }
            if kills {
                context.waker().wake_by_ref();
            }
            added.as_mut().poll(context)
        }));
        self.sum += amount;
        let (_, sum) = outcome.expect("it is retried until it is answered");
        assert_eq!(sum, self.sum, "each happened once");
    }

    fn step(&mut self, step: u64, endpoint: &Endpoint, client: &Client<'_>) {
        if self.random.chance(0.2) {
            return self.add(endpoint, client);
        }
        let key = [self.random.below(u64::from(KEYS)) as u8];
        if self.random.chance(0.3) {
            let found = client.get(name(&key)).within(LONG).wait().expect("it waits for a primary");
            let found = found.map(|object| (object.version(), object.value().to_vec()));
            return self.known.entry(key[0]).or_default().observe(found);
        }
        let contents = [&step.to_le_bytes()[..], &vec![7; self.random.below(3000) as usize]].concat();
        let kills = self.random.below(20) == 0;
        if kills {
            self.settle(client);
        }
        let put = client.put(name(&key), value(&contents), Condition::Always).within(LONG);
        let outcome = if kills {
            let (told, heard) = std::sync::mpsc::channel();
            let begun = put.then(move |_, outcome| told.send(outcome).expect("somebody waits"));
            for _ in 0..self.random.below(200) {
                endpoint.poll(|_, _| ());
            }
            // The primary, or one of its backups; sometimes both.
            let lost = [vec![0], vec![2], vec![3], vec![4], vec![0, 2]][self.random.index(5)].clone();
            lost.iter().for_each(|rank| self.kill(*rank));
            lost.iter().for_each(|rank| self.start(*rank));
            begun.and_then(|()| {
                loop {
                    endpoint.poll(|_, _| ());
                    if let Ok(outcome) = heard.try_recv() {
                        return outcome;
                    }
                }
            })
        } else {
            put.with_receipt().wait().map(|receipt| {
                assert_eq!(receipt.level, self.level, "no write is weakened");
                receipt.result
            })
        };
        let known = self.known.entry(key[0]).or_default();
        match outcome {
            Ok(version) => {
                assert!(version > known.version, "step {step}: versions rise");
                (known.version, known.value) = (version, Some(contents));
            }
            Err(Failure::NoAnswer(_) | Failure::NotReplicated(NotReplicated::LevelNotReached)) => {
                known.late.push(contents);
            }
            Err(Failure::NotConnected(_) | Failure::NotReplicated(_)) => {}
            Err(failure) => panic!("step {step}: {failure}"),
        }
    }
}

fn run(test: &'static str, level: Level) {
    if let Ok(role) = std::env::var(ROLE) {
        return role_of_process(&role);
    }
    let seed = common::fault_seed();
    let steps = std::env::var(STEPS).map_or(150, |text| text.parse().expect("a number"));
    let mut cluster = Cluster::new(test, level, seed);
    let endpoint = endpoint(&cluster.rendezvous.address().into(), 1, SIZE, KIND, &settings(&[]));
    let mut client = Client::new(&endpoint, [0]);
    client.be_patient(LONG);
    let begun = Instant::now();
    (0..steps).for_each(|step| cluster.step(step, &endpoint, &client));
    if cluster.kills == 0 {
        cluster.settle(&client);
        cluster.kill(0);
        cluster.start(0);
    }
    for key in 0..KEYS {
        let found = client.get(name(&[key])).within(LONG).wait().expect("it waits for a primary");
        let found = found.map(|object| (object.version(), object.value().to_vec()));
        cluster.known.entry(key).or_default().observe(found);
    }
    println!("{} kills in {:?}", cluster.kills, begun.elapsed());
}

#[test]
fn acknowledged_writes_survive_kills_in_memory() {
    let level = Level::Replicated { replicas: 2, flushed: false };
    run("acknowledged_writes_survive_kills_in_memory", level);
}

#[test]
fn acknowledged_writes_survive_kills_on_disks() {
    let level = Level::Replicated { replicas: 2, flushed: true };
    run("acknowledged_writes_survive_kills_on_disks", level);
}
