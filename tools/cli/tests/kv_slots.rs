//! Hash slots that move between shards, which are processes, while clients read and write.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::ops::ControlFlow;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use common::clients::{fill, named, with_client};
use common::stores::{Folder, LONG, Server, keys, kv, put};
use farcall::Endpoint;
use farcall_kv::store::Condition;
use farcall_kv::wire::{PutRequest, hash_slot};
use farcall_kv::{Client, Failure, Value};

/// The slots that move: those of shard 0 of two.
const SLOTS: &str = "0-8191";

/// A store of two shards, each with its log on a backup.
struct Store {
    folder: Folder,
    _backups: Vec<Server>,
    shards: [Option<Server>; 2],
    at: String,
    /// Where Redis clients of each shard connect.
    doors: [String; 2],
}

impl Store {
    fn new(name: &str) -> Self {
        let folder = Folder::new(name);
        let backups = ["a", "b"].map(|name| folder.backup(name).0).into();
        let words = arguments(0);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (first, at, door) = folder.start_saying("serve", &words, DOOR);
        let (shards, doors) = ([Some(first), None], [door, String::new()]);
        let mut store = Self { folder, _backups: backups, shards, at, doors };
        store.start(1);
        store
    }

    /// Starts the process of a shard, and waits until it serves.
    fn start(&mut self, shard: usize) {
        let mut farcall = Command::new(env!("CARGO_BIN_EXE_farcall"));
        farcall.args(["kv", "serve", "--at", &self.at, "--registry", &self.folder.registry()]);
        farcall.args(arguments(shard));
        let mut server = Server(farcall.stdout(Stdio::piped()).spawn().expect("the program runs"));
        self.doors[shard] = door(&mut server);
        self.shards[shard] = Some(server);
    }

    /// Kills the process of a shard, and starts the next one.
    fn kill(&mut self, shard: usize) {
        self.shards[shard] = None;
        self.start(shard);
    }

    fn move_slots(&self, from: u32, to: u32) -> (Option<i32>, String, String) {
        move_slots(&self.at, &self.folder.registry(), from, to)
    }

    fn get(&self, key: &str) -> String {
        let (status, value, sentence) = kv(&self.at, &["get", key, "--table", "orders"]);
        assert_eq!(status, Some(0), "{key}: {sentence}");
        value
    }
}

/// What `kv move-slots` says.
fn move_slots(at: &str, registry: &str, from: u32, to: u32) -> (Option<i32>, String, String) {
    let (from, to) = (from.to_string(), to.to_string());
    kv(at, &["move-slots", SLOTS, "--from", &from, "--to", &to, "--registry", registry])
}

fn arguments(shard: usize) -> Vec<String> {
    let words = [
        "--shard",
        &shard.to_string(),
        "--shards",
        "2",
        "--memory",
        "32M",
        "--tables",
        "orders:replicated=1,default:replicated=1",
        "--lease",
        "2",
        "--resp",
        "127.0.0.1:0",
    ];
    words.map(str::to_owned).into()
}

/// What a process says when it serves, and then where Redis clients connect.
const DOOR: &str = "Redis clients connect to ";

/// Waits until a process says where its Redis clients connect.
fn door(server: &mut Server) -> String {
    let mut out = BufReader::new(server.0.stdout.take().expect("it is piped"));
    let said = out.by_ref().lines().map(|line| line.expect("text")).find(|line| line.starts_with(DOOR));
    server.0.stdout = Some(out.into_inner());
    said.expect("it serves")[DOOR.len()..].to_owned()
}

/// A client of Redis that sends lines.
struct Redis(BufReader<TcpStream>);

impl Redis {
    fn connect(door: &str) -> Self {
        let stream = TcpStream::connect(door).expect("it listens");
        stream.set_read_timeout(Some(LONG)).expect("a socket");
        Self(BufReader::new(stream))
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("an answer");
        line.trim_end().to_owned()
    }

    fn send(&mut self, command: &str) {
        self.0.get_mut().write_all(format!("{command}\r\n").as_bytes()).expect("it reads");
    }

    /// The first line of the answer, or all of it if it is a string or a list of strings.
    fn ask(&mut self, command: &str) -> String {
        let first = loop {
            self.send(command);
            let first = self.line();
            // On a busy machine a lease may be late.
            if !["-READONLY", "-MASTERDOWN", "-NOREPLICAS"].iter().any(|wait| first.starts_with(wait)) {
                break first;
            }
        };
        match first.split_at_checked(1) {
            Some(("$", bytes)) if bytes != "-1" => self.line(),
            Some(("*", count)) => {
                let count: usize = count.parse().expect("a number");
                let strings = (0..count).map(|_| {
                    self.line();
                    self.line()
                });
                strings.collect::<Vec<_>>().join(" ")
            }
            _ => first,
        }
    }
}

fn is_moved(key: &str) -> bool {
    hash_slot(key.as_bytes()) < 8192
}

#[test]
fn slots_move_there_and_back_and_every_object_stays() {
    let store = Store::new("move-slots");
    let all: Vec<String> = (0..30).map(|number| format!("key{number:02}")).collect();
    all.iter().for_each(|key| put(&store.at, key));
    assert!(all.iter().any(|key| is_moved(key)) && !all.iter().all(|key| is_moved(key)));
    for (from, to) in [(0, 1), (1, 0)] {
        let (status, said, sentence) = store.move_slots(from, to);
        assert_eq!(status, Some(0), "{sentence}");
        assert_eq!(said, format!("slots {SLOTS} are shard {to}'s, and no more shard {from}'s\n"));
        assert_eq!(keys(&store.at), all, "each is there once");
        all.iter().for_each(|key| assert_eq!(&store.get(key), key));
        let (status, said, sentence) = store.move_slots(from, to);
        assert_eq!(status, Some(1), "{said}");
        assert!(sentence.contains(&format!("hash slot 0 is shard {to}'s")), "{sentence}");
    }
}

/// The reader of an export waits while slots move, so that the export has read some of a shard before.
#[test]
fn an_export_over_a_move_is_refused() {
    let store = Store::new("export-slots");
    // Far more than the export, a pipe and a page have room for.
    let value = vec![b'v'; 256 << 10];
    with_client(&store.at, 2, |endpoint, client| {
        for number in 0..24 {
            let key = format!("long{number}");
            let value = Value::new(&value).expect("short");
            let put = PutRequest { name: named(&key), value, condition: Condition::Always };
            let written = endpoint.block_on(client.multi_put(&[put]));
            assert!(written.iter().all(Result::is_ok), "{written:?}");
        }
        ControlFlow::Break(())
    });
    let export = || {
        let mut farcall = Command::new(env!("CARGO_BIN_EXE_farcall"));
        farcall.args(["kv", "export", "--at", &store.at, "--table", "orders"]);
        farcall.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs")
    };
    let mut exporting = export();
    let mut out = exporting.stdout.take().expect("it is piped");
    out.read_exact(&mut [0; 1]).expect("it has begun");
    let (status, _, sentence) = store.move_slots(0, 1);
    assert_eq!(status, Some(0), "{sentence}");
    std::io::copy(&mut out, &mut std::io::sink()).expect("it goes on");
    let ended = exporting.wait_with_output().expect("it ends");
    let sentence = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{sentence}");
    assert!(sentence.contains("hash slots moved while the table was read"), "{sentence}");
    let ended = export().wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(0), "nothing moves any more");
    assert_eq!(ended.stdout.iter().filter(|byte| **byte == b'\n').count(), 24);
}

#[test]
fn redis_clients_are_sent_on_and_find_everything() {
    let store = Store::new("move-slots-redis");
    // The slot of `bar` is 5061, and that of `foo` 12182.
    let (mut low, mut high) = (Redis::connect(&store.doors[0]), Redis::connect(&store.doors[1]));
    for (command, answer) in [
        ("SET bar 1", "+OK"),
        ("RPUSH {bar}list a b c", ":3"),
        ("HSET {bar}hash f v", ":1"),
        ("SADD {bar}set m", ":1"),
        ("ZADD {bar}sorted 1.5 m", ":1"),
        ("SET {bar}late 1 PX 3600000", "+OK"),
        ("SET gone{bar} 1", "+OK"),
        ("DEL gone{bar}", ":1"),
        ("LPOP {bar}list", "a"),
        ("WATCH bar", "+OK"),
        ("MULTI", "+OK"),
        ("SET bar 2", "+QUEUED"),
    ] {
        assert_eq!(low.ask(command), answer, "{command}");
    }
    let mut waiting = Redis::connect(&store.doors[0]);
    waiting.send("BLPOP {bar}later 0");
    let (status, _, sentence) = store.move_slots(0, 1);
    assert_eq!(status, Some(0), "{sentence}");
    let moved = format!("-MOVED 5061 {}", store.doors[1]);
    assert_eq!(waiting.line(), moved, "who waits is told");
    assert!(low.ask("EXEC").starts_with("-EXECABORT"), "its keys are elsewhere");
    assert_eq!(low.ask("GET bar"), moved);
    assert_eq!(low.ask("KEYS *"), "", "what is left of them is shown to nobody");
    for (command, answer) in [
        ("GET bar", "1"),
        ("LRANGE {bar}list 0 -1", "b c"),
        ("HGET {bar}hash f", "v"),
        ("SISMEMBER {bar}set m", ":1"),
        ("ZSCORE {bar}sorted m", "1.5"),
        ("EXISTS gone{bar}", ":0"),
        ("RPUSH {bar}list d", ":3"),
    ] {
        assert_eq!(high.ask(command), answer, "{command}");
    }
    let left: u64 = high.ask("PTTL {bar}late").trim_start_matches(':').parse().expect("a number");
    assert!((1..=3_600_000).contains(&left), "{left}");
    low.send("CLUSTER SLOTS");
    let lines: Vec<_> = (0..4).map(|_| low.line()).collect();
    assert_eq!(lines, ["*1", "*3", ":0", ":16383"]);
}

#[test]
fn a_table_in_memory_alone_keeps_its_slots() {
    let store = Store::new("move-slots-memory");
    let (status, _, sentence) = kv(&store.at, &["create", "cache"]);
    assert_eq!(status, Some(0), "{sentence}");
    let key = (0..).map(|number| format!("key{number}")).find(|key| is_moved(key)).expect("one of them");
    assert_eq!(kv(&store.at, &["put", &key, "1", "--table", "cache"]).0, Some(0));
    put(&store.at, &key);
    let (status, said, sentence) = store.move_slots(0, 1);
    assert_eq!(status, Some(1), "{said}");
    assert!(sentence.contains("the table `cache` has objects of these slots"), "{sentence}");
    assert_eq!(store.get(&key), key);
    assert_eq!(keys(&store.at), [key.as_str()], "what was copied is not there");
}

#[test]
fn a_move_to_a_shard_that_is_away_is_given_up_by_hand() {
    let mut store = Store::new("move-slots-away");
    let key = (0..).map(|number| format!("key{number}")).find(|key| is_moved(key)).expect("one of them");
    put(&store.at, &key);
    store.shards[1] = None;
    let registry = store.folder.registry();
    let slots = ["move-slots", SLOTS, "--from", "0", "--to", "1", "--registry", &registry];
    let (status, _, sentence) = kv(&store.at, &[&slots[..], &["--timeout", "1"]].concat());
    assert_eq!(status, Some(1), "{sentence}");
    assert!(sentence.contains("are still on their way to shard 1"), "{sentence}");
    let (_, said, _) = kv(&store.at, &["status", "--registry", &registry]);
    assert!(said.contains("slots 0-8191 are on their way from shard 0 to shard 1"), "{said}");
    assert_eq!(store.get(&key), key, "it is served meanwhile");
    let (status, said, sentence) = kv(&store.at, &[&slots[..], &["--give-up"]].concat());
    assert_eq!((status, &*said), (Some(0), "slots 0-8191 stay with shard 0\n"), "{sentence}");
    let (status, _, sentence) = kv(&store.at, &[&slots[..], &["--give-up"]].concat());
    assert_eq!(status, Some(1), "{sentence}");
    assert_eq!(store.get(&key), key);
}

/// Numbers to which a client adds.
const NUMBERS: usize = 8;

/// Objects that take a few dozen pages to copy.
const OBJECTS: usize = 6000;

/// What a client knows of its numbers.
#[derive(Default)]
struct Additions {
    /// Those that were acknowledged.
    done: [AtomicU64; NUMBERS],
    /// Those of which nobody knows.
    unknown: [AtomicU64; NUMBERS],
    total: AtomicU64,
    is_over: AtomicBool,
}

impl Additions {
    /// Adds to one number after the other, once each, until it is over.
    fn go_on(&self, at: &str) {
        let mut number = 0;
        with_client(at, 2, |endpoint, client| {
            while !self.is_over.load(Ordering::Relaxed) {
                let key = format!("count{number}");
                let known = self.known(number);
                match endpoint.block_on(client.once(client.increment(named(&key), 1))) {
                    Ok((_, sum)) => {
                        let sums = known.0 + 1..=known.1 + 1;
                        assert!(sums.contains(&(sum as u64)), "{key} is {sum}, and not in {sums:?}");
                        self.done[number].fetch_add(1, Ordering::Relaxed);
                        self.total.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(_) => {
                        self.unknown[number].fetch_add(1, Ordering::Relaxed);
                        return ControlFlow::Continue(());
                    }
                }
                number = (number + 1) % NUMBERS;
                if number == 0 {
                    self.look_at_all(endpoint, client);
                }
            }
            ControlFlow::Break(())
        });
    }

    /// Reads all numbers at one go, and writes as many objects. Both may fail where a process has ended, and
    /// not because they do not find the shard.
    fn look_at_all(&self, endpoint: &Endpoint, client: &Client<'_>) {
        let all = |what: &str| (0..NUMBERS).map(|number| format!("{what}{number}")).collect::<Vec<_>>();
        let (counts, batch) = (all("count"), all("object"));
        let names: Vec<_> = counts.iter().map(|key| named(key)).collect();
        for (number, found) in endpoint.block_on(client.multi_get(&names)).into_iter().enumerate() {
            assert!(!matches!(found, Err(Failure::WrongShard)), "count{number}");
            if let Ok(Some(object)) = found {
                let (least, most) = self.known(number);
                let sum = String::from_utf8_lossy(object.value()).parse().expect("a number");
                assert!((least..=most).contains(&sum), "count{number} is {sum}, and not in {least}..={most}");
            }
        }
        let value = Value::new(b"written again").expect("short");
        let put = |key| PutRequest { name: named(key), value, condition: Condition::Always };
        let puts: Vec<_> = batch.iter().map(|key| put(key)).collect();
        let written = endpoint.block_on(client.multi_put(&puts));
        assert!(!written.contains(&Err(Failure::WrongShard)), "{written:?}");
    }

    /// The least and the most that a number is.
    fn known(&self, number: usize) -> (u64, u64) {
        let done = self.done[number].load(Ordering::Relaxed);
        (done, done + self.unknown[number].load(Ordering::Relaxed))
    }

    /// Waits until so many more were acknowledged.
    fn wait_for(&self, more: u64) {
        let (begun, from) = (Instant::now(), self.total.load(Ordering::Relaxed));
        while self.total.load(Ordering::Relaxed) < from + more {
            assert!(begun.elapsed() < LONG, "nothing is acknowledged any more");
            thread::yield_now();
        }
    }
}

#[test]
fn whoever_is_killed_a_range_has_one_owner_and_every_addition_happens_once() {
    let mut store = Store::new("move-slots-killed");
    fill(&store.at, 2, OBJECTS);
    let (additions, at) = (Additions::default(), store.at.clone());
    thread::scope(|scope| {
        let adds = scope.spawn(|| additions.go_on(&at));
        // Whose the range is, who is killed, and after how many additions since the move was asked for.
        let mut owner = 0;
        let (mut done, mut given_up) = (0, 0);
        for (round, more) in [0, 20, 60, 120, 240, 500].into_iter().cycle().take(18).enumerate() {
            let other = 1 - owner;
            let (at, registry) = (store.at.clone(), store.folder.registry());
            let mover = scope.spawn(move || move_slots(&at, &registry, owner, other));
            additions.wait_for(more);
            store.kill([owner, other][round % 2] as usize);
            let (status, said, sentence) = mover.join().expect("no panic");
            match status {
                Some(0) => (owner, done) = (other, done + 1),
                _ => {
                    // Or the other shard finds out first that it is gone.
                    let whys = ["has a new primary", "does not answer in time", "has taken nothing for"];
                    assert!(whys.iter().any(|why| sentence.contains(why)), "{said}{sentence}");
                    given_up += 1;
                }
            }
            additions.wait_for(2 * NUMBERS as u64);
        }
        println!("{done} moves were done, {given_up} given up");
        additions.is_over.store(true, Ordering::Relaxed);
        adds.join().expect("every addition happens once");
    });
    let all = keys(&store.at);
    assert_eq!(all.len(), OBJECTS + NUMBERS, "each object is there once");
    for number in 0..NUMBERS {
        let (least, most) = additions.known(number);
        let found: u64 = store.get(&format!("count{number}")).parse().expect("a number");
        assert!((least..=most).contains(&found), "count{number} is {found}, and not in {least}..={most}");
    }
}
