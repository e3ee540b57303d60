//! Histories of concurrent operations on one object, checked for an order that explains them: one in which
//! every operation happens at once, at some moment between its request and its answer.

mod common;

use common::{LONG, Shards, name, value};
use farcall::{Clock, TransportKind};
use farcall_base::Random;
use farcall_kv::store::{Condition, WriteError};
use farcall_kv::{Client, Failure};
use stateright::semantics::{ConsistencyTester, LinearizabilityTester, SequentialSpec};

const THREADS: u32 = 3;

/// Operations of each thread on one object: few, because the checker tries orders one after the other.
const OPERATIONS: usize = 6;

/// Objects over each transport, and so histories.
const HISTORIES: &str = "FARCALL_TEST_KV_HISTORIES";

/// What a thread asks for. Values are numbers that are written once only.
#[derive(Clone, Debug)]
enum Asked {
    Get,
    Put(u64, Condition),
    Delete(Condition),
}

/// What it is told.
#[derive(Clone, Debug, PartialEq)]
enum Told {
    /// The version and the number.
    Found(Option<(u64, u64)>),
    /// The version that a write gave.
    Written(u64),
    /// The version that a delete took.
    Deleted(Option<u64>),
    /// The version that was the wrong one.
    WrongVersion(u64),
}

/// The object in a history without concurrency: its version and its number.
#[derive(Clone, Debug, Default)]
struct Alone {
    object: Option<(u64, u64)>,
    last_version: u64,
}

impl Alone {
    fn version(&self) -> u64 {
        self.object.map_or(0, |(version, _)| version)
    }

    fn fulfils(&self, condition: Condition) -> bool {
        match condition {
            Condition::Always => true,
            Condition::Absent => self.object.is_none(),
            Condition::Version(version) => version != 0 && version == self.version(),
        }
    }

    fn write(&mut self, version: u64, object: Option<u64>) {
        self.last_version = version;
        self.object = object.map(|number| (version, number));
    }
}

impl SequentialSpec for Alone {
    type Op = Asked;
    type Ret = Told;

    fn invoke(&mut self, asked: &Asked) -> Told {
        match asked {
            Asked::Get => Told::Found(self.object),
            Asked::Put(_, condition) | Asked::Delete(condition) if !self.fulfils(*condition) => {
                Told::WrongVersion(self.version())
            }
            Asked::Put(number, _) => {
                self.write(self.last_version + 1, Some(*number));
                Told::Written(self.last_version)
            }
            Asked::Delete(_) => {
                let before = self.object.take();
                Told::Deleted(before.map(|(version, _)| version))
            }
        }
    }

    /// Other objects of the shard take versions too, so that those of this one only rise.
    fn is_valid_step(&mut self, asked: &Asked, told: &Told) -> bool {
        if let (Asked::Put(number, condition), Told::Written(version)) = (asked, told) {
            let is_valid = self.fulfils(*condition) && *version > self.last_version;
            self.write(*version, Some(*number));
            return is_valid;
        }
        self.invoke(asked) == *told
    }
}

/// A request or an answer of a thread, and when.
struct Happened {
    nanos: u64,
    thread: u32,
    what: Result<Told, Asked>,
}

fn told<T>(outcome: Result<T, Failure<WriteError>>, success: impl FnOnce(T) -> Told) -> Told {
    match outcome {
        Ok(result) => success(result),
        Err(Failure::Store(WriteError::WrongVersion { version })) => Told::WrongVersion(version),
        Err(failure) => panic!("{failure}"),
    }
}

fn ask(client: &Client<'_>, key: &[u8], asked: &Asked) -> Told {
    match asked {
        Asked::Get => {
            let found = client.get(name(key)).within(LONG).wait().expect("an answer");
            Told::Found(found.map(|object| {
                let number = object.value().try_into().expect("what was written has eight bytes");
                (object.version(), u64::from_le_bytes(number))
            }))
        }
        Asked::Put(number, condition) => {
            let put = client.put(name(key), value(&number.to_le_bytes()), *condition);
            told(put.within(LONG).wait(), Told::Written)
        }
        Asked::Delete(condition) => {
            told(client.delete(name(key), *condition).within(LONG).wait(), Told::Deleted)
        }
    }
}

/// What a thread does next, when `known` is the last version that it heard of.
fn next(random: &mut Random, known: u64) -> Asked {
    let condition = match random.below(3) {
        0 => Condition::Always,
        1 => Condition::Absent,
        _ => Condition::Version(known),
    };
    match random.below(5) {
        0 | 1 => Asked::Get,
        2 => Asked::Delete(condition),
        _ => Asked::Put(random.below(u64::MAX), condition),
    }
}

/// A thread's part in the histories of this many objects.
fn take_part(shards: &Shards, clock: &Clock, thread: u32, objects: u64, seed: u64) -> Vec<Vec<Happened>> {
    let endpoint = shards.client(thread);
    let client = Client::new(&endpoint, 0..shards.shards);
    let mut random = Random::new(seed ^ u64::from(thread) << 32);
    let on_object = |object: u64| {
        let (mut known, mut part) = (0, Vec::new());
        for _ in 0..OPERATIONS {
            let asked = next(&mut random, known);
            let begun = clock.now().as_nanos();
            let told = ask(&client, &object.to_le_bytes(), &asked);
            let ended = clock.now().as_nanos();
            if let Told::Found(Some((version, _))) | Told::Written(version) | Told::WrongVersion(version) =
                told
            {
                known = version;
            }
            part.push(Happened { nanos: begun, thread, what: Err(asked) });
            part.push(Happened { nanos: ended, thread, what: Ok(told) });
        }
        part
    };
    (0..objects).map(on_object).collect()
}

/// Whether what happened to one object has an order that explains it.
fn is_linearizable(mut history: Vec<Happened>) -> bool {
    // Of what bears the same time, requests come first: the order of the others is not known.
    history.sort_by_key(|happened| (happened.nanos, happened.what.is_ok()));
    let mut tester = LinearizabilityTester::new(Alone::default());
    for Happened { thread, what, .. } in history {
        let noted = match what {
            Err(asked) => tester.on_invoke(thread, asked),
            Ok(told) => tester.on_return(thread, told),
        };
        noted.expect("a thread does one thing after the other");
    }
    tester.is_consistent()
}

fn histories(shards: &Shards, seed: u64) {
    let objects = std::env::var(HISTORIES).map_or(100, |text| text.parse().expect("a number"));
    let clock = &Clock::new();
    let mut parts: Vec<_> = std::thread::scope(|scope| {
        let parts =
            (0..THREADS).map(|thread| scope.spawn(move || take_part(shards, clock, thread, objects, seed)));
        let parts: Vec<_> = parts.collect();
        parts.into_iter().map(|part| part.join().expect("it does not panic").into_iter()).collect()
    });
    for object in 0..objects {
        let history = parts.iter_mut().flat_map(|part| part.next().expect("one for each object")).collect();
        assert!(is_linearizable(history), "nothing explains what happened to object {object}");
    }
}

#[test]
fn concurrent_operations_are_linearizable_over_every_transport() {
    for &kind in TransportKind::ALL {
        histories(&Shards::start(kind, 2, THREADS, &[]), u64::from(std::process::id()));
    }
}

#[test]
fn concurrent_operations_are_linearizable_over_faults() {
    let seed = common::fault_seed();
    histories(&common::faulty_shards(THREADS, seed), seed);
}

#[test]
fn the_check_finds_a_read_of_the_past() {
    let history = |read| {
        let steps = [
            (1, 0, Err(Asked::Put(7, Condition::Always))),
            (2, 0, Ok(Told::Written(1))),
            (3, 1, Err(Asked::Put(8, Condition::Version(1)))),
            (4, 0, Err(Asked::Get)),
            (5, 0, Ok(Told::Found(Some((2, 8))))),
            (6, 2, Err(Asked::Get)),
            (7, 2, Ok(Told::Found(Some(read)))),
            (8, 1, Ok(Told::Written(2))),
        ];
        steps.into_iter().map(|(nanos, thread, what)| Happened { nanos, thread, what }).collect()
    };
    assert!(is_linearizable(history((2, 8))));
    assert!(!is_linearizable(history((1, 7))));
}
