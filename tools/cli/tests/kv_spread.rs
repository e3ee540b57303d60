//! Shards whose processes are killed and do not come back: the others take over what they had, each a part,
//! while a client goes on.

mod common;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::ops::ControlFlow;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use common::clients::{fill, named, with_client};
use common::etcd::Etcd;
use common::stores::{Folder, LONG, Server, keys, kv};
use farcall::Endpoint;
use farcall_kv::Client;
use farcall_kv::placement::{SlotMap, load_map};
use farcall_kv::replicated::OpenRegistry;
use farcall_kv::wire::hash_slot;

const SHARDS: u32 = 4;

/// Numbers to which a client adds: a few of each shard.
const NUMBERS: usize = 32;

/// Objects that are there from the start.
const OBJECTS: usize = 2000;

/// Levels of its table.
const REPLICATED: &str = "replicated=1";
const FLUSHED: &str = "replicated=1,flushed";

/// A store of four shards, each with its log on a backup.
struct Store {
    shards: Vec<Option<Server>>,
    _backups: Vec<Server>,
    at: String,
    level: &'static str,
    /// Removed when all processes have ended.
    folder: Folder,
}

impl Store {
    fn new(name: &str, level: &'static str) -> Self {
        Self::in_folder(Folder::new(name), level)
    }

    fn in_folder(folder: Folder, level: &'static str) -> Self {
        let backups = ["a", "b"].map(|name| folder.backup(name).0).into();
        let words = arguments(&folder, level, 0);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (first, at) = folder.start("serve", &words, "shard 0 of 4 serves");
        let shards = [Some(first)].into_iter().chain((1..SHARDS).map(|_| None)).collect();
        let mut store = Self { shards, _backups: backups, at, level, folder };
        (1..SHARDS).for_each(|shard| store.start(shard));
        store
    }

    /// Starts the process of a shard, and waits until it serves.
    fn start(&mut self, shard: u32) {
        let mut farcall = Command::new(env!("CARGO_BIN_EXE_farcall"));
        farcall.args(["kv", "serve", "--at", &self.at, "--registry", &self.folder.registry()]);
        farcall.args(arguments(&self.folder, self.level, shard));
        let mut server = Server(farcall.stdout(Stdio::piped()).spawn().expect("the program runs"));
        let mut lines = BufReader::new(server.0.stdout.take().expect("it is piped")).lines();
        assert!(lines.any(|line| line.expect("text").contains(" serves ")), "shard {shard} serves");
        self.shards[shard as usize] = Some(server);
    }

    fn signal(&self, shard: u32, name: &str) {
        let server = self.shards[shard as usize].as_ref().expect("it serves");
        let sent = Command::new("kill").args([name, &server.0.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
    }

    /// Kills the process of a shard.
    fn kill(&mut self, shard: u32) {
        self.shards[shard as usize] = None;
    }

    fn map(&self) -> Arc<SlotMap> {
        let place = self.folder.registry().parse().expect("a registry");
        let (mut registry, begun) = (OpenRegistry::open(&place).expect("it is there"), Instant::now());
        loop {
            match load_map(&mut registry, SHARDS) {
                Ok((map, _)) => return map,
                // On a busy machine it may be late.
                Err(error) => assert!(begun.elapsed() < LONG, "{error}"),
            }
        }
    }

    /// Waits until the map is such a one.
    fn wait_for(&self, what: &str, is_there: impl Fn(&SlotMap) -> bool) -> Arc<SlotMap> {
        let begun = Instant::now();
        loop {
            let map = self.map();
            if is_there(&map) {
                return map;
            }
            assert!(begun.elapsed() < LONG, "{what}: {map:?}");
            thread::yield_now();
        }
    }

    /// The text of an object.
    fn get(&self, key: &str) -> String {
        let registry = self.folder.registry();
        let (status, value, sentence) =
            kv(&self.at, &["get", key, "--table", "orders", "--registry", &registry]);
        assert_eq!(status, Some(0), "{key}: {sentence}");
        value
    }
}

/// What the process of a shard is started with, beside where shard 0 is and the registry.
fn arguments(folder: &Folder, level: &str, shard: u32) -> Vec<String> {
    let (of, shards, tables) = (shard.to_string(), SHARDS.to_string(), format!("orders:{level}"));
    let mut words = vec!["--shard", &of, "--shards", &shards, "--memory", "32M", "--lease", "2"];
    words.extend(["--tables", &tables, "--spread", "0.3"]);
    let data = folder.of(&format!("shard-{shard}"));
    if level == FLUSHED {
        words.extend(["--data", &data]);
    }
    words.into_iter().map(str::to_owned).collect()
}

/// What a client knows of its numbers.
#[derive(Default)]
struct Additions {
    /// Those that were acknowledged.
    done: [AtomicU64; NUMBERS],
    total: AtomicU64,
    is_over: AtomicBool,
}

impl Additions {
    /// Adds to one number after the other, once each, until it is over. Each addition is acknowledged: the
    /// client is patient.
    fn go_on(&self, at: &str) {
        with_client(at, SHARDS, |endpoint, client| {
            let mut number = 0;
            while !self.is_over.load(Ordering::Relaxed) {
                let key = format!("count{number}");
                let added = endpoint.block_on(client.once(client.increment(named(&key), 1)));
                let (_, sum) = added.unwrap_or_else(|failure| panic!("{key}: {failure}"));
                let before = self.done[number].fetch_add(1, Ordering::Relaxed);
                assert_eq!(sum as u64, before + 1, "{key}");
                self.total.fetch_add(1, Ordering::Relaxed);
                number = (number + 1) % NUMBERS;
                if number == 0 {
                    self.look_at_all(endpoint, client);
                }
            }
            ControlFlow::Break(())
        });
    }

    /// Reads all numbers at one go.
    fn look_at_all(&self, endpoint: &Endpoint, client: &Client<'_>) {
        let keys: Vec<String> = (0..NUMBERS).map(|number| format!("count{number}")).collect();
        let names: Vec<_> = keys.iter().map(|key| named(key)).collect();
        let found = endpoint.block_on(client.multi_get(&names));
        for ((key, found), done) in keys.iter().zip(found).zip(&self.done) {
            let found = found.unwrap_or_else(|failure| panic!("{key}: {failure}"));
            let sum =
                found.map_or(0, |object| String::from_utf8_lossy(object.value()).parse().expect("a number"));
            assert_eq!(done.load(Ordering::Relaxed), sum, "{key}");
        }
    }

    /// Waits until so many more were acknowledged.
    fn wait_for(&self, more: usize) {
        let (begun, from) = (Instant::now(), self.total.load(Ordering::Relaxed));
        while self.total.load(Ordering::Relaxed) < from + more as u64 {
            assert!(begun.elapsed() < LONG, "nothing is acknowledged any more");
            thread::yield_now();
        }
    }

    fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Ends the additions also when a test has failed.
struct EndsWith<'a>(&'a Additions);

impl Drop for EndsWith<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Everything that was acknowledged is there, once.
fn check(store: &Store, additions: &Additions) {
    let found = keys(&store.at);
    let distinct: BTreeSet<_> = found.iter().collect();
    assert_eq!((found.len(), distinct.len()), (OBJECTS + NUMBERS, OBJECTS + NUMBERS), "each is there once");
    for (number, done) in additions.done.iter().enumerate() {
        let found: u64 = store.get(&format!("count{number}")).parse().expect("a number");
        assert_eq!(found, done.load(Ordering::Relaxed), "count{number}");
    }
}

/// Does something to a store while a client adds to its numbers; then everything is there.
fn while_adding(mut store: Store, act: impl FnOnce(&mut Store, &Additions)) {
    fill(&store.at, SHARDS, OBJECTS);
    let (additions, at) = (Additions::default(), store.at.clone());
    thread::scope(|scope| {
        let ends = EndsWith(&additions);
        let adds = scope.spawn(|| additions.go_on(&at));
        act(&mut store, &additions);
        drop(ends);
        adds.join().expect("every addition happens once");
    });
    check(&store, &additions);
}

#[test]
fn the_others_take_over_a_shard_each_a_part_and_every_addition_happens_once() {
    while_adding(Store::new("spread", REPLICATED), |store, additions| {
        let before = store.map();
        additions.wait_for(2 * NUMBERS);
        store.kill(3);
        let map = store.wait_for("others take it over", |map| !map.has_slots(3));
        let slots = (0..16_384).filter(|slot| before.owner(*slot) == 3);
        let owners: BTreeSet<u32> = slots.map(|slot| map.owner(slot)).collect();
        assert_eq!(owners, BTreeSet::from([0, 1, 2]), "each has a part");
        additions.wait_for(4 * NUMBERS);
        let registry = store.folder.registry();
        let (status, said, sentence) = kv(&store.at, &["status", "--registry", &registry]);
        assert_eq!(status, Some(0), "{sentence}");
        assert!(said.contains("shard 3 has no hash slots"), "{said}");
        assert!(said.contains("shard 3: nobody serves it, and it has no hash slots"), "{said}");
        // A process that serves it again has nothing, knows no client, and may be given slots.
        store.start(3);
        let number_slot = |number| hash_slot(format!("count{number}").as_bytes());
        let slot = (0..NUMBERS).map(number_slot).find(|slot| before.owner(*slot) == 3);
        let slot = slot.expect("it had some of the numbers");
        let (from, slots) = (map.owner(slot).to_string(), slot.to_string());
        let moved = ["move-slots", &slots, "--from", &from, "--to", "3", "--registry", &registry];
        let (status, _, sentence) = kv(&store.at, &moved);
        assert_eq!(status, Some(0), "{sentence}");
        additions.wait_for(2 * NUMBERS);
        // So it goes a second time.
        store.kill(3);
        store.wait_for("others take it over", |map| !map.has_slots(3));
        additions.wait_for(2 * NUMBERS);
    });
}

#[test]
fn if_one_that_takes_a_part_is_killed_the_others_take_over_both() {
    while_adding(Store::new("spread-twice", FLUSHED), |store, additions| {
        additions.wait_for(NUMBERS);
        store.kill(3);
        store.wait_for("others are about to take it over", |map| {
            !map.has_slots(3) || map.spreads().iter().any(|spread| spread.has(2))
        });
        store.kill(2);
        store.wait_for("two take over both", |map| !map.has_slots(3) && !map.has_slots(2));
        additions.wait_for(2 * NUMBERS);
    });
}

#[test]
fn shards_whose_registry_cannot_say_who_has_ended_take_over_one_after_the_other() {
    let own = Folder::new("spread-etcd");
    let Some(etcd) = Etcd::start(&own) else { return };
    let folder = Folder::with_registry("spread-etcd-store", &etcd.registry());
    while_adding(Store::in_folder(folder, REPLICATED), |store, additions| {
        for shard in [3, 2] {
            additions.wait_for(NUMBERS);
            store.kill(shard);
            store.wait_for("others take it over", |map| !map.has_slots(shard));
        }
        additions.wait_for(2 * NUMBERS);
    });
}

#[test]
fn a_primary_that_has_stood_still_too_long_says_nothing_any_more() {
    while_adding(Store::new("spread-paused", REPLICATED), |store, additions| {
        additions.wait_for(NUMBERS);
        store.signal(3, "-STOP");
        store.wait_for("others take it over", |map| !map.has_slots(3));
        additions.wait_for(NUMBERS);
        store.signal(3, "-CONT");
        let paused = &mut store.shards[3].as_mut().expect("it was started").0;
        assert_eq!(paused.wait().expect("it is a child").code(), Some(1), "it was replaced, and says so");
        additions.wait_for(NUMBERS);
    });
}

#[test]
fn a_process_that_comes_back_soon_has_all_that_its_shard_had() {
    while_adding(Store::new("spread-back", FLUSHED), |store, additions| {
        for is_late in [false, true, false] {
            additions.wait_for(NUMBERS);
            store.kill(1);
            if is_late {
                // It waits until the others have everything, and begins with nothing.
                store.wait_for("others are about to take it over", |map| {
                    !map.has_slots(1) || map.spreads().iter().any(|spread| spread.from == 1)
                });
            }
            store.start(1);
        }
        additions.wait_for(2 * NUMBERS);
    });
}
