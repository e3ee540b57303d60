//! Several clients at once, while processes are killed: an order explains what they were told, and every
//! addition happens once.

use std::sync::atomic::{AtomicU64, Ordering};

use farcall::Clock;
use farcall_swarm::history::{Asked, Operation, Told, check, write};

use super::*;

/// Ranks of the clients.
const CLIENTS: core::ops::Range<u32> = 5..8;

/// Operations of each client.
const OPERATIONS: &str = "FARCALL_TEST_KV_OPERATIONS";

/// The first keys are written, the last ones added to.
const WRITTEN: u64 = 3;
const ADDED: u64 = 2;

/// What all clients share.
struct Shared {
    address: HostPort,
    clock: Clock,
    /// Operations that are over.
    done: AtomicU64,
}

/// A client's part in the history.
fn take_part(shared: &Shared, rank: u32, operations: u64, seed: u64) -> Vec<Operation> {
    let endpoint = endpoint(&shared.address, rank, SIZE, KIND, &settings(&[]));
    let mut client = Client::new(&endpoint, [0]);
    client.be_patient(LONG);
    let mut random = Random::new(seed ^ u64::from(rank) << 32);
    let mut history = Vec::new();
    for number in 0..operations {
        let key = random.below(WRITTEN + ADDED);
        let asked = match random.below(2) {
            0 => Asked::Get,
            _ if key < WRITTEN => Asked::Put(format!("v{rank}.{number}")),
            _ => Asked::Add(1 + random.below(9) as i64),
        };
        let (key, began) = (format!("k{key}"), shared.clock.now().as_nanos());
        let told = ask(&endpoint, &client, &key, &asked);
        let ended = shared.clock.now().as_nanos();
        shared.done.fetch_add(1, Ordering::Relaxed);
        let told = match told {
            Ok(told) => Some((ended, told)),
            Err(Unanswered::Unknown) => None,
            Err(Unanswered::NothingHappened) => continue,
        };
        history.push(Operation { client: u64::from(rank), key, began, told, asked });
    }
    history
}

/// What is known of an operation that was not answered.
enum Unanswered {
    Unknown,
    NothingHappened,
}

fn ask(endpoint: &Endpoint, client: &Client<'_>, key: &str, asked: &Asked) -> Result<Told, Unanswered> {
    let name = name(key.as_bytes());
    match asked {
        Asked::Get => match client.get(name).within(LONG).wait() {
            Ok(Some(found)) => Ok(Told::Found(String::from_utf8(found.value().to_vec()).expect("text"))),
            Ok(None) => Ok(Told::Nothing),
            Err(_) => Err(Unanswered::NothingHappened),
        },
        Asked::Put(text) => {
            match client.put(name, value(text.as_bytes()), Condition::Always).within(LONG).wait() {
                Ok(_) => Ok(Told::Done),
                Err(
                    Failure::NotConnected(_)
                    | Failure::NotReplicated(NotReplicated::TooFewReplicas | NotReplicated::NotPrimary),
                ) => Err(Unanswered::NothingHappened),
                Err(_) => Err(Unanswered::Unknown),
            }
        }
        Asked::Add(amount) => {
            let added = endpoint.block_on(client.once(client.increment(name, *amount).within(LONG)));
            let (_, sum) = added.expect("it is retried until it is answered");
            Ok(Told::Sum(sum))
        }
        Asked::Delete => unreachable!("nothing is deleted here"),
    }
}

/// Kills a process after every few operations, until the clients are done.
fn kill_on(cluster: &mut Cluster, shared: &Shared, operations: u64) {
    let mut next = 0;
    loop {
        next += operations / 8 + cluster.random.below(operations / 8 + 1);
        while shared.done.load(Ordering::Relaxed) < next.min(operations) {
            std::thread::yield_now();
        }
        if next >= operations {
            return;
        }
        let rank = [0, 0, 2, 3, 4][cluster.random.index(5)];
        cluster.kill(rank);
        cluster.start(rank);
    }
}

#[test]
fn an_order_explains_what_clients_were_told_while_processes_were_killed() {
    if let Ok(role) = std::env::var(ROLE) {
        return role_of_process(&role);
    }
    let seed = common::fault_seed();
    let each = std::env::var(OPERATIONS).map_or(100, |text| text.parse().expect("a number"));
    let test = "histories::an_order_explains_what_clients_were_told_while_processes_were_killed";
    // On disks, so that any process may be killed at any time.
    let mut cluster = Cluster::new(test, Level::Replicated { replicas: 2, flushed: true }, seed);
    let address: HostPort = cluster.rendezvous.address().into();
    let shared = Shared { address, clock: Clock::new(), done: AtomicU64::new(0) };
    let mut history: Vec<Operation> = std::thread::scope(|scope| {
        let shared = &shared;
        let parts: Vec<_> =
            CLIENTS.map(|rank| scope.spawn(move || take_part(shared, rank, each, seed))).collect();
        kill_on(&mut cluster, shared, each * u64::from(CLIENTS.end - CLIENTS.start));
        parts.into_iter().flat_map(|part| part.join().expect("it does not panic")).collect()
    });
    let endpoint = endpoint(&shared.address, 1, SIZE, KIND, &settings(&[]));
    let mut client = Client::new(&endpoint, [0]);
    client.be_patient(LONG);
    for key in (0..WRITTEN + ADDED).map(|key| format!("k{key}")) {
        let began = shared.clock.now().as_nanos();
        let Ok(told) = ask(&endpoint, &client, &key, &Asked::Get) else { panic!("it waits for a primary") };
        let added = history.iter().filter(|operation| operation.key == key).filter_map(|operation| {
            match operation.asked {
                Asked::Add(amount) => Some(amount),
                _ => None,
            }
        });
        let sum: i64 = added.sum();
        if sum > 0 {
            assert_eq!(told, Told::Found(sum.to_string()), "every addition happened once");
        }
        let told = Some((shared.clock.now().as_nanos(), told));
        history.push(Operation { client: 1, key, began, told, asked: Asked::Get });
    }
    let verdict = check(&history);
    let unknown = verdict.unknown;
    println!("{} kills, {} operations, {unknown} of an unknown outcome", cluster.kills, history.len());
    let is_right = verdict.unexplained.is_empty() && verdict.undecided.is_empty();
    assert!(is_right, "{verdict:?}, seed {seed}:\n{}", write(&history));
    assert!(cluster.kills > 2, "nothing was killed");
}
