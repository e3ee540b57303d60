//! Random operations beside a plain map while clients start again and shards are killed and started again,
//! over a network that loses, doubles, delays, reorders and damages packets.
//!
//! What has no answer may have happened, and may still happen as long as its shard lives, once. The map knows
//! of every such write; everything else must be as it says.

mod common;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use common::{FAULTS, LONG, TABLE, endpoint, fault_seed, name, settings, value};
use farcall::bootstrap::Rendezvous;
use farcall::parameters::Settings;
use farcall::{Endpoint, TransportKind};
use farcall_base::Random;
use farcall_kv::store::{Condition, MEMORY_BYTES_MIN, Store, WriteError};
use farcall_kv::wire::shard_of;
use farcall_kv::{Client, Failure, Shard};

const SHARDS: u32 = 2;
const SIZE: u32 = SHARDS + 1;
const KEYS: u8 = 12;

/// Set in the processes of shards: the rank, the rendezvous and the seed.
const ROLE: &str = "FARCALL_TEST_ROLE";

/// How many operations the test makes.
const STEPS: &str = "FARCALL_TEST_KV_STEPS";

fn faulty(seed: u64) -> Settings {
    let fault_seed = format!("fault.seed={seed}");
    let mut assignments = FAULTS.to_vec();
    assignments.extend([fault_seed.as_str(), "endpoint.peer_timeout=500ms"]);
    settings(&assignments)
}

/// The life of a shard's process, until it is killed.
fn serve(role: &str) {
    let mut words = role.split(' ');
    let mut word = || words.next().expect("the test gives three");
    let rank = word().parse().expect("a rank");
    let address: SocketAddr = word().parse().expect("an address");
    let settings = faulty(word().parse().expect("a seed"));
    let endpoint = endpoint(&address.into(), rank, SIZE, TransportKind::BASIC_UDP, &settings);
    let mut shard = Shard::new(Store::new(MEMORY_BYTES_MIN).expect("enough"), rank, SHARDS);
    shard.create_table(TABLE).expect("the first");
    loop {
        endpoint.poll_requests_idle(|request, reply| shard.handle(request, reply), |_, _| ());
    }
}

/// A shard's process; killed when dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only when it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What must be known of an object.
#[derive(Default)]
struct Known {
    /// The version and the value.
    object: Option<(u64, Vec<u8>)>,
    /// Writes without an answer: values, and `None` for deletes.
    late: Vec<Option<Vec<u8>>>,
}

impl Known {
    fn version(&self) -> u64 {
        self.object.as_ref().map_or(0, |(version, _)| *version)
    }

    /// Takes what was read; it is what was known, or a late write has happened.
    fn observe(&mut self, found: Option<(u64, Vec<u8>)>) {
        if found == self.object {
            return;
        }
        let value = found.as_ref().map(|(_, value)| value.clone());
        let late = self.late.iter().position(|late| *late == value);
        let late = late.unwrap_or_else(|| panic!("{found:?} where {:?} was known", self.object));
        self.late.swap_remove(late);
        assert!(found.as_ref().is_none_or(|(version, _)| *version > self.version()), "versions rise");
        self.object = found;
    }

    /// Whether a write that is refused because of this version rightly is.
    fn explains(&self, version: u64) -> bool {
        version == self.version() || !self.late.is_empty()
    }
}

/// The client and what it must find.
struct Cluster {
    rendezvous: Rendezvous,
    seed: u64,
    shards: Vec<Process>,
    starts: u64,
    known: BTreeMap<u8, Known>,
    random: Random,
}

impl Cluster {
    fn new(seed: u64) -> Self {
        let rendezvous = Rendezvous::bind("127.0.0.1:0", SIZE).expect("a rendezvous on loopback");
        let random = Random::new(seed);
        let mut this =
            Self { rendezvous, seed, shards: Vec::new(), starts: 0, known: BTreeMap::new(), random };
        this.shards = (0..SHARDS).map(|rank| this.start_shard(rank)).collect();
        this
    }

    fn next_seed(&mut self) -> u64 {
        self.starts += 1;
        self.seed.wrapping_add(self.starts)
    }

    fn start_shard(&mut self, rank: u32) -> Process {
        let role = format!("{rank} {} {}", self.rendezvous.address(), self.next_seed());
        let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
        command.args(["--exact", TEST]).env(ROLE, role).stdout(Stdio::null());
        Process(command.spawn().expect("it runs again"))
    }

    fn start_client(&mut self) -> Endpoint {
        let settings = faulty(self.next_seed());
        endpoint(&self.rendezvous.address().into(), SHARDS, SIZE, TransportKind::BASIC_UDP, &settings)
    }

    /// Kills a shard and starts it again, which loses all of its objects and all late writes to them.
    fn restart_shard(&mut self, client: &Client<'_>) {
        let shard = self.random.below(u64::from(SHARDS)) as u32;
        let process = &mut self.shards[shard as usize].0;
        process.kill().expect("it lives");
        process.wait().expect("it ended");
        self.shards[shard as usize] = self.start_shard(shard);
        self.known.retain(|&number, _| shard_of(name(&[number]), SHARDS) != shard);
        let deadline = Instant::now() + LONG;
        while let Err(failure) = client.statistics(shard).wait() {
            assert!(Instant::now() < deadline, "{failure}");
        }
    }

    fn step(&mut self, step: u64, client: &Client<'_>) {
        let number = self.random.below(u64::from(KEYS)) as u8;
        let key = [number];
        let known = self.known.entry(number).or_default();
        let condition = match (self.random.below(3), known.version()) {
            (0, _) => Condition::Always,
            (_, 0) => Condition::Absent,
            (_, version) => Condition::Version(version),
        };
        match self.random.below(4) {
            0 => {
                let found = client.get(name(&key)).within(LONG).wait();
                let Ok(found) = found else { return };
                known.observe(found.map(|object| (object.version(), object.value().to_vec())));
            }
            1 => match client.delete(name(&key), condition).within(LONG).wait() {
                Ok(version) => {
                    assert!(known.explains(version.unwrap_or(0)), "step {step}: {version:?} was deleted");
                    known.object = None;
                }
                Err(failure) => known.failed(step, None, &failure),
            },
            _ => {
                let contents = [&step.to_le_bytes()[..], &vec![7; self.random.below(5000) as usize]].concat();
                match client.put(name(&key), value(&contents), condition).within(LONG).wait() {
                    Ok(version) => {
                        assert!(version > known.version(), "step {step}: versions rise");
                        known.object = Some((version, contents));
                    }
                    Err(failure) => known.failed(step, Some(contents), &failure),
                }
            }
        }
    }

    /// Leaves a write in flight when the client ends.
    fn write_and_leave(&mut self, step: u64, endpoint: &Endpoint, client: &Client<'_>) {
        let number = self.random.below(u64::from(KEYS)) as u8;
        let contents = step.to_le_bytes().to_vec();
        let put = client.put(name(&[number]), value(&contents), Condition::Always);
        if put.then(|_, _| ()).is_ok() {
            self.known.entry(number).or_default().late.push(Some(contents));
        }
        for _ in 0..self.random.below(100) {
            endpoint.poll(|_, _| ());
        }
    }
}

impl Known {
    fn failed(&mut self, step: u64, written: Option<Vec<u8>>, failure: &Failure<WriteError>) {
        match failure {
            Failure::Store(WriteError::WrongVersion { version }) => {
                assert!(self.explains(*version), "step {step}: version {version}, not {}", self.version());
            }
            Failure::NoAnswer(_) => self.late.push(written),
            Failure::NotConnected(_) => {}
            failure => panic!("step {step}: {failure}"),
        }
    }
}

const TEST: &str = "what_has_an_answer_has_happened_whoever_starts_again";

#[test]
fn what_has_an_answer_has_happened_whoever_starts_again() {
    if let Ok(role) = std::env::var(ROLE) {
        return serve(&role);
    }
    let steps = std::env::var(STEPS).map_or(400, |text| text.parse().expect("a number"));
    let mut cluster = Cluster::new(fault_seed());
    let mut step = 0;
    while step < steps {
        let endpoint = cluster.start_client();
        let client = Client::new(&endpoint, 0..SHARDS);
        let life_ends = step + 20 + cluster.random.below(60);
        while step < life_ends {
            cluster.step(step, &client);
            if cluster.random.below(60) == 0 {
                cluster.restart_shard(&client);
            }
            step += 1;
        }
        cluster.write_and_leave(step, &endpoint, &client);
        step += 1;
    }
    assert!(cluster.starts > u64::from(SHARDS) + 3, "{} starts", cluster.starts);
}
