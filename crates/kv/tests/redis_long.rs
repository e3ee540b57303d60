//! Long values: written while they come, read while the client takes them, and never a mixture.

mod redis;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};

use farcall_base::Random;
use farcall_disk::testing::{Faults, SimulatedDisk};
use farcall_kv::Shard;
use farcall_kv::durable::{LOG_BYTES_MIN, Level};
use farcall_kv::resp::Options;
use farcall_kv::store::Store;
use redis::reference::{Reference, one_of};
use redis::{Client, Served, are_same_times, request};

const MIB: usize = 1 << 20;

/// Bytes of replies that a client has not read, from which on more wait in the store.
const UNREAD: usize = 256 << 10;

/// A front with this much memory.
fn served(memory_mib: usize) -> Served {
    Served::with(memory_mib * MIB, Options::default())
}

/// Bytes that tell which value, and which part of it, they are of.
fn pattern_of(seed: u8, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at / 4096) as u8 ^ at as u8 ^ seed).collect()
}

/// The next reply, which is a string.
fn bulk(client: &mut Client<TcpStream>) -> Vec<u8> {
    let reply = client.reply_bytes().expect("a reply");
    let line = reply.iter().position(|byte| *byte == b'\n').expect("a line") + 1;
    assert_eq!(reply[0], b'$', "{}", reply[..line].escape_ascii());
    reply[line..reply.len() - 2].to_vec()
}

fn get(client: &mut Client<TcpStream>, words: &[&[u8]]) -> Vec<u8> {
    client.send(words);
    bulk(client)
}

/// Bytes that entries of the store take.
fn taken(served: &Served) -> usize {
    served.shared.lock().store().statistics().live_bytes
}

/// Waits until the front's turns have removed what is nobody's.
fn wait_until_taken(served: &Served, bytes: usize) {
    let until = std::time::Instant::now() + redis::LONG;
    while taken(served) > bytes {
        assert!(std::time::Instant::now() < until, "{} bytes are taken, not {bytes}", taken(served));
        std::thread::yield_now();
    }
}

#[test]
fn a_long_value_is_written_read_and_deleted() {
    let served = served(64);
    let mut client = served.client();
    assert_eq!(client.ask("SET other value"), "+OK");
    let before = taken(&served);
    for bytes in [MIB + 1, 2 * MIB, 20 * MIB + 12_345] {
        let value = pattern_of(1, bytes);
        client.send(&[b"SET", b"long", &value]);
        assert_eq!(client.reply(), "+OK");
        assert_eq!(client.ask("STRLEN long"), format!(":{bytes}"));
        assert!(get(&mut client, &[b"GET", b"long"]) == value, "{bytes} bytes");
        assert_eq!(client.ask("TYPE long"), "+string");
        assert_eq!(client.ask("OBJECT ENCODING long"), "$3|raw");
        assert_eq!(client.ask("EXISTS long"), ":1");
        assert_eq!(client.ask("PEXPIRE long 1000000"), ":1");
        let (from, end) = (bytes / 3, bytes - bytes / 4);
        let part = [from.to_string(), (end - 1).to_string()];
        let part = get(&mut client, &[b"GETRANGE", b"long", part[0].as_bytes(), part[1].as_bytes()]);
        assert!(part == value[from..end], "a part of {bytes} bytes");
        assert!(get(&mut client, &[b"GETRANGE", b"long", b"0", b"3"]) == value[..4]);
        assert_eq!(client.ask("DEL long"), ":1");
        assert_eq!(client.ask("GET long"), "$-1");
        wait_until_taken(&served, before);
    }
}

#[test]
fn commands_that_know_strings_know_long_ones() {
    let served = served(96);
    let mut client = served.client();
    let (one, two) = (pattern_of(1, 3 * MIB), pattern_of(2, 5 * MIB + 7));
    client.send(&[b"MSET", b"one", &one, b"short", b"s", b"two", &two]);
    assert_eq!(client.reply(), "+OK");
    client.send(&[b"MGET", b"one", b"short", b"none", b"two"]);
    let reply = client.reply_bytes().expect("a reply");
    let expected = [
        format!("*4\r\n${}\r\n", one.len()).as_bytes(),
        &one,
        format!("\r\n$1\r\ns\r\n$-1\r\n${}\r\n", two.len()).as_bytes(),
        &two,
        b"\r\n",
    ]
    .concat();
    assert!(reply == expected, "all of them, in their order");
    client.send(&[b"SET", b"one", &two, b"EX", b"100", b"XX", b"GET"]);
    assert!(bulk(&mut client) == one, "the value before");
    assert!(are_same_times(client.ask("TTL one").as_bytes(), b":100"));
    client.send(&[b"SET", b"one", &one, b"NX"]);
    assert_eq!(client.reply(), "$-1");
    client.send(&[b"SETNX", b"one", &one]);
    assert_eq!(client.reply(), ":0");
    client.send(&[b"SETEX", b"three", b"100", &one]);
    assert_eq!(client.reply(), "+OK");
    client.send(&[b"GETSET", b"three", &two]);
    assert!(bulk(&mut client) == one);
    assert_eq!(client.ask("TTL three"), ":-1");
    assert_eq!(client.ask("RENAME three four"), "+OK");
    assert!(get(&mut client, &[b"GETEX", b"four", b"EX", b"50"]) == two);
    assert_eq!(client.ask("TTL four"), ":50");
    assert!(get(&mut client, &[b"GETDEL", b"four"]) == two);
    assert_eq!(client.ask("EXISTS four three"), ":0");
    let usage = client.ask("MEMORY USAGE one");
    assert!(usage[1..].parse::<usize>().expect("a number") > two.len(), "{usage}");
    assert_eq!(client.ask("INCR one"), "-ERR value is not an integer or out of range");
    assert_eq!(client.ask("INCRBYFLOAT one 1"), "-ERR value is not a valid float");
    assert!(client.ask("LPUSH one a").starts_with("-WRONGTYPE"));
    client.send(&[b"MSETNX", b"five", &one, b"six", &two]);
    assert_eq!(client.reply(), ":1");
    assert!(get(&mut client, &[b"GET", b"six"]) == two);
}

#[test]
fn copies_of_long_values_are_values_of_their_own() {
    let served = served(96);
    let (mut client, mut other) = (served.client(), served.client());
    let value = pattern_of(1, 12 * MIB + 3);
    client.send(&[b"SET", b"from", &value, b"EX", b"1000"]);
    assert_eq!(client.reply(), "+OK");
    assert_eq!(client.ask("COPY from to"), ":1");
    assert!(are_same_times(client.ask("TTL to").as_bytes(), b":1000"));
    assert_eq!(client.ask("SETRANGE from 5000000 changed"), format!(":{}", value.len()));
    assert!(get(&mut client, &[b"GET", b"to"]) == value, "what was copied stays");
    assert_eq!(client.ask("COPY from to"), ":0");
    assert_eq!(client.ask("COPY from to REPLACE"), ":1");
    assert_eq!(client.ask("DEL from"), ":1");
    let mut changed = value.clone();
    changed[5_000_000..5_000_007].copy_from_slice(b"changed");
    assert!(get(&mut client, &[b"GET", b"to"]) == changed);
    assert_eq!(client.ask("COPY to to DB 3"), ":1");
    assert_eq!(client.ask("COPY to to DB 16"), "-ERR DB index is out of range");
    assert_eq!(client.ask("MOVE to 4"), ":1");
    assert_eq!(client.ask("SELECT 4"), "+OK");
    assert!(get(&mut client, &[b"GET", b"to"]) == changed);
    // What is behind a copy waits for it; what others ask for does not end it.
    client
        .stream
        .write_all(&[request(&[b"COPY", b"to", b"two"]), request(&[b"STRLEN", b"two"])].concat())
        .expect("it reads");
    assert_eq!(other.ask("PING"), "+PONG");
    assert_eq!((client.reply(), client.reply()), (":1".to_owned(), format!(":{}", value.len())));
    assert_eq!(client.ask("MULTI"), "+OK");
    assert_eq!(client.ask("COPY two three"), "+QUEUED");
    let refused = "-ERR a string of more than 1048576 bytes is not copied in a transaction";
    assert_eq!(client.ask("EXEC"), format!("*1|{refused}"));
    // Who goes away while one is written leaves nothing.
    assert_eq!(client.ask("FLUSHALL"), "+OK");
    client.send(&[b"SET", b"from", &value]);
    assert_eq!(client.reply(), "+OK");
    let mut lost = served.client();
    lost.stream.write_all(&request(&[b"COPY", b"from", b"to"])).expect("it reads");
    drop(lost);
    wait_until_taken(&served, 2 * value.len() + MIB);
    assert_eq!(client.ask("DEL from to")[..1], *":");
    wait_until_taken(&served, 0);
}

/// While the log takes nothing, what a client sends stays in its socket, and others are served.
#[test]
fn a_long_value_waits_for_a_busy_log_where_it_comes_from() {
    let mut shard = Shard::new(Store::new(64 * MIB).expect("enough"), 0, 1);
    let disk = SimulatedDisk::new(1, Faults::default());
    shard.open_log(Box::new(disk), LOG_BYTES_MIN).expect("an empty disk");
    shard.create_table_at("default", Level::Flushed).expect("the first table");
    let served = Served::of(shard, Options::default());
    let value = pattern_of(1, 16 * MIB);
    let (mut client, mut other) = (served.client(), served.client());
    assert_eq!(other.ask("SELECT 1"), "+OK");
    let mut stream = client.stream.try_clone().expect("a socket");
    let upload = request(&[b"SET", b"a", &value]);
    let sending = std::thread::spawn(move || stream.write_all(&upload).expect("it reads at last"));
    let until = std::time::Instant::now() + redis::LONG;
    while taken(&served) < MIB {
        assert!(std::time::Instant::now() < until, "a group has room for that");
        std::thread::yield_now();
    }
    for number in 1..=200 {
        assert_eq!(other.ask("INCR n"), format!(":{number}"), "a table in memory needs no log");
    }
    assert!(taken(&served) < 4 * MIB, "{} bytes are taken", taken(&served));
    let info = other.ask("INFO memory");
    let clients = info.split('|').find_map(|line| line.strip_prefix("mem_clients_normal:"));
    let clients: usize = clients.and_then(|bytes| bytes.parse().ok()).expect("it is told");
    assert!(clients < 4 * MIB, "{clients} bytes of two clients");
    // The disk works again.
    let is_over = AtomicBool::new(false);
    let (reply, found) = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                served.shared.lock().turn_log();
                std::thread::yield_now();
            }
        });
        let reply = client.reply_bytes();
        client.send(&[b"GET", b"a"]);
        let found = client.reply_bytes();
        is_over.store(true, Ordering::Relaxed);
        (reply, found)
    });
    assert_eq!(reply.as_deref(), Some(&b"+OK\r\n"[..]));
    assert!(found.is_some_and(|found| found.ends_with(&[&value[..], b"\r\n"].concat())));
    sending.join().expect("all was taken");
}

#[test]
fn a_string_grows_to_a_long_one() {
    let served = served(64);
    let mut client = served.client();
    let mut expected = Vec::new();
    for (number, bytes) in [10, 20_000, MIB, 100, MIB - 5, 16 << 10, 1, MIB].into_iter().enumerate() {
        let part = pattern_of(number as u8, bytes);
        client.send(&[b"APPEND", b"a", &part]);
        expected.extend_from_slice(&part);
        assert_eq!(client.reply(), format!(":{}", expected.len()));
        assert!(get(&mut client, &[b"GET", b"a"]) == expected, "part {number}");
    }
    for offset in [5, MIB - 3, expected.len() - 2, expected.len() + 100_000] {
        let part = pattern_of(9, 50_000);
        client.send(&[b"SETRANGE", b"a", offset.to_string().as_bytes(), &part]);
        expected.resize(expected.len().max(offset + part.len()), 0);
        expected[offset..offset + part.len()].copy_from_slice(&part);
        assert_eq!(client.reply(), format!(":{}", expected.len()));
        assert!(get(&mut client, &[b"GET", b"a"]) == expected, "at {offset}");
    }
    let refused = "-ERR APPEND and SETRANGE write at most 1048576 bytes at a time";
    client.send(&[b"APPEND", b"a", &pattern_of(0, MIB + 1)]);
    assert_eq!(client.reply(), refused);
    assert_eq!(client.ask("SETRANGE a 20000000 x"), refused);
    assert!(get(&mut client, &[b"GET", b"a"]) == expected, "it is as it was");
}

#[test]
fn who_reads_gets_the_whole_old_value() {
    let served = served(64);
    let (mut slow, mut client) = (served.client(), served.client());
    let (old, new) = (pattern_of(1, 24 * MIB), pattern_of(2, 9 * MIB));
    client.send(&[b"SET", b"a", &old]);
    assert_eq!(client.reply(), "+OK");
    slow.stream.write_all(&[request(&[b"GET", b"a"]), request(&[b"GET", b"a"])].concat()).expect("it reads");
    let mut first = [0; 1];
    slow.stream.read_exact(&mut first).expect("it has begun");
    client.send(&[b"SET", b"a", &new]);
    assert_eq!(client.reply(), "+OK");
    assert!(get(&mut client, &[b"GET", b"a"]) == new);
    let header = format!("{}\r\n", old.len());
    let mut reply = vec![0; header.len() + old.len() + 2];
    slow.stream.read_exact(&mut reply).expect("all of it");
    assert!(reply[header.len()..reply.len() - 2] == old, "the value that was there when GET ran");
    assert!(bulk(&mut slow) == new, "the next one begins later");
    assert_eq!(client.ask("DEL a"), ":1");
    wait_until_taken(&served, 0);
}

#[test]
fn an_upload_that_ends_early_leaves_nothing() {
    let served = served(64);
    let mut client = served.client();
    assert_eq!(client.ask("SET a before"), "+OK");
    let before = taken(&served);
    let mut lost = served.client();
    let upload = request(&[b"SET", b"a", &pattern_of(1, 20 * MIB)]);
    lost.stream.write_all(&upload[..12 * MIB]).expect("it reads");
    let until = std::time::Instant::now() + redis::LONG;
    while taken(&served) < before + 11 * MIB {
        assert!(std::time::Instant::now() < until, "it lies in the store");
        std::thread::yield_now();
    }
    assert_eq!(client.ask("GET a"), "$6|before", "what is not whole is not there");
    drop(lost);
    wait_until_taken(&served, before);
    assert_eq!(client.ask("GET a"), "$6|before");
}

#[test]
fn what_does_not_fit_is_refused_and_the_connection_goes_on() {
    let served = Served::with(32 * MIB, Options { value_bytes_max: 8 * MIB, ..Options::default() });
    let mut client = served.client();
    assert_eq!(client.ask("CONFIG GET proto-max-bulk-len"), "*2|$18|proto-max-bulk-len|$7|8388608");
    let long = pattern_of(1, 9 * MIB);
    client.send(&[b"SET", b"a", &long]);
    assert_eq!(client.reply(), "-ERR string exceeds maximum allowed size (proto-max-bulk-len)");
    for number in 0..10 {
        client.send(&[b"SET", &[b'a' + number], &long[..7 * MIB]]);
        let reply = client.reply();
        if number < 2 {
            assert_eq!(reply, "+OK");
        } else if number > 4 {
            assert_eq!(reply, "-OOM command not allowed when used memory > 'maxmemory'.");
        }
    }
    assert!(get(&mut client, &[b"GET", b"a"]) == long[..7 * MIB]);
    assert_eq!(client.ask("MULTI"), "+OK");
    client.send(&[b"SET", b"b", &long[..7 * MIB]]);
    let reply = client.reply();
    assert!(reply.starts_with("-OOM") || reply == "+QUEUED", "{reply}");
    assert!(client.ask("EXEC").starts_with("-EXECABORT"));
    client.send(&[b"GET", &long[..2 * MIB]]);
    assert_eq!(client.reply(), "-ERR a key of 2097152 bytes is not one of 1 to 65536");
    assert_eq!(client.ask("FLUSHALL"), "+OK");
    client.send(&[b"HSET", b"h", b"f", &long[..2 * MIB]]);
    assert_eq!(client.reply(), ":1", "elements are kept until their request is whole");
    assert_eq!(client.ask("PING"), "+PONG");
}

#[test]
fn long_values_are_queued_and_read_in_a_transaction() {
    let served = Served::with(64 * MIB, Options { value_bytes_max: 10 * MIB, ..Options::default() });
    let mut client = served.client();
    let value = pattern_of(1, 4 * MIB);
    assert_eq!(client.ask("MULTI"), "+OK");
    for key in [b"a", b"b"] {
        client.send(&[b"SET", key, &value]);
        assert_eq!(client.reply(), "+QUEUED");
    }
    assert_eq!(client.ask("GET a"), "+QUEUED");
    assert_eq!(client.ask("DEL a"), "+QUEUED");
    client.send(&[b"EXEC"]);
    let reply = client.reply_bytes().expect("a reply");
    let header = format!("*4\r\n+OK\r\n+OK\r\n${}\r\n", value.len());
    assert!(reply.starts_with(header.as_bytes()) && reply.ends_with(b"\r\n:1\r\n"));
    assert!(reply[header.len()..header.len() + value.len()] == value, "as it was before it was deleted");
    assert_eq!(client.ask("MULTI"), "+OK");
    for reply in
        ["+QUEUED", "+QUEUED", "-ERR the long values of a transaction are longer than 10485760 bytes"]
    {
        client.send(&[b"SET", b"c", &value]);
        assert_eq!(client.reply(), reply);
    }
    assert_eq!(client.ask("EXEC"), "-EXECABORT Transaction discarded because of previous errors.");
    assert_eq!(client.ask("EXISTS c"), ":0");
    assert_eq!(client.ask("DEL b"), ":1");
    wait_until_taken(&served, 0);
}

#[test]
fn who_sends_no_more_of_a_long_value_is_sent_away() {
    let unread_for_max = std::time::Duration::from_secs(1);
    let served = Served::with(64 * MIB, Options { unread_for_max, ..Options::default() });
    let mut lost = served.client();
    let upload = request(&[b"SET", b"a", &pattern_of(1, 8 * MIB)]);
    lost.stream.write_all(&upload[..4 * MIB]).expect("it reads");
    assert_eq!(lost.reply_bytes(), None, "its memory is for others");
    let queued = request(&[b"SET", b"a", &pattern_of(1, 2 * MIB)]);
    let mut queuing = loop {
        let mut client = served.client();
        assert_eq!(client.ask("MULTI"), "+OK");
        // Where this process is held up in between, it is sent away before: then another one tries.
        if client.stream.write_all(&queued).is_ok()
            && client.reply_bytes().is_some_and(|it| it == b"+QUEUED\r\n")
        {
            break client;
        }
    };
    assert_eq!(queuing.reply_bytes(), None, "nor may a transaction wait for ever");
    wait_until_taken(&served, 0);
    let mut idle = served.client();
    assert_eq!(idle.ask("MULTI"), "+OK");
    assert_eq!(idle.ask("SET a b"), "+QUEUED");
    assert_eq!(idle.ask("EXEC"), "*1|+OK", "others may");
}

#[test]
fn a_slow_reader_holds_a_long_value_once_and_nobody_up() {
    let served = served(128);
    let (mut slow, mut client) = (served.client(), served.client());
    client.send(&[b"SET", b"a", &pattern_of(1, 64 * MIB)]);
    assert_eq!(client.reply(), "+OK");
    let before = taken(&served);
    for _ in 0..3 {
        slow.send(&[b"GET", b"a"]);
    }
    for number in 0..200 {
        client.send(&[b"SET", b"b", &pattern_of(2, 10_000)]);
        assert_eq!(client.reply(), "+OK", "write {number}");
        assert_eq!(client.ask("STRLEN a"), format!(":{}", 64 * MIB));
    }
    assert!(taken(&served) < before + 64 * 1024, "it is there once");
    let info = client.ask("INFO memory");
    let clients = info.split('|').find_map(|line| line.strip_prefix("mem_clients_normal:"));
    let clients: usize = clients.and_then(|bytes| bytes.parse().ok()).expect("it is told");
    assert!((UNREAD..4 * MIB).contains(&clients), "{clients} bytes of two clients");
    let listed = client.ask("CLIENT LIST");
    let output = |line: &str| line.split(" omem=").nth(1)?.split(' ').next()?.parse::<usize>().ok();
    let longest = listed.split('|').filter_map(output).max().expect("clients have output");
    assert!(
        (UNREAD..MIB).contains(&longest),
        "of a reply of 64 MiB {longest} bytes are taken out of the store"
    );
    for _ in 0..3 {
        assert!(bulk(&mut slow) == pattern_of(1, 64 * MIB));
    }
}

/// Random commands: `k` is a key, `v` a value, of which some are long, `a` a part, `n` a place from either
/// end, `o` an offset.
const COMMANDS: &[&str] = &[
    "SET k v",
    "SET k v EX 100",
    "SET k v NX",
    "SET k v XX GET",
    "SET k v KEEPTTL",
    "SETNX k v",
    "SETEX k 100 v",
    "PSETEX k 0 v",
    "GETSET k v",
    "MSET k v k v",
    "MSETNX k v k v",
    "MSET k v k",
    "GET k",
    "GETDEL k",
    "GETEX k PERSIST",
    "MGET k k k",
    "STRLEN k",
    "GETRANGE k n n",
    "APPEND k a",
    "SETRANGE k o a",
    "DEL k k",
    "EXISTS k k",
    "TYPE k",
    "EXPIRE k 100",
    "PERSIST k",
    "TTL k",
    "RENAME k k",
    "COPY k k",
    "COPY k k REPLACE",
    "RENAMENX k k",
    "INCR k",
    "LPUSH k a",
    "SET k",
    "SETT k v",
    "MULTI",
    "EXEC",
    "EXEC",
    "DISCARD",
];

fn words_of(draws: &mut Random, pattern: &str) -> Vec<Vec<u8>> {
    let word = |word: &str| match word {
        "k" => vec![b'a' + draws.below(3) as u8],
        "v" => {
            let bytes = [3, 16 << 10, MIB, MIB + 1, 2 * MIB, 3 * MIB + 5][draws.below(6) as usize];
            pattern_of(draws.below(256) as u8, bytes)
        }
        "a" => pattern_of(draws.below(256) as u8, [1, 100, 20_000, MIB / 2][draws.below(4) as usize]),
        "n" => (draws.below(3 << 20) as i64 - (MIB as i64)).to_string().into_bytes(),
        "o" => draws.below(MIB as u64 / 2).to_string().into_bytes(),
        word => word.as_bytes().to_vec(),
    };
    pattern.split(' ').map(word).collect()
}

/// Whether all lines of two replies are the same, or times between which a second has begun.
fn are_same_but_for_times(one: &[u8], other: &[u8]) -> bool {
    let [one, other] = [one, other].map(|reply| reply.split(|byte| *byte == b'\n').collect::<Vec<_>>());
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| are_same_times(one, other))
}

#[test]
fn long_strings_do_what_those_of_redis_do() {
    let arguments = ["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket", "socket"];
    let Some(reference) = Reference::start("redis-server", &arguments, "long") else { return };
    let served = served(256);
    let (mut ours, mut theirs) = (served.unix_client(), Client::of(reference.connect()));
    let seed = std::env::var("FARCALL_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    println!("FARCALL_TEST_SEED={seed}");
    let mut draws = Random::new(seed);
    let (mut history, mut is_queuing) = (Vec::new(), false);
    for _ in 0..400 {
        let pattern = one_of(&mut draws, COMMANDS);
        match pattern.split(' ').next() {
            Some("MULTI") => is_queuing = true,
            Some("EXEC" | "DISCARD") => is_queuing = false,
            // Of long strings they are no part of a transaction.
            Some("COPY" | "SETRANGE") if is_queuing => continue,
            _ => {}
        }
        let words = words_of(&mut draws, pattern);
        let words: Vec<_> = words.iter().map(Vec::as_slice).collect();
        ours.send(&words);
        theirs.send(&words);
        let [one, other] = [ours.reply_bytes(), theirs.reply_bytes()].map(|reply| reply.expect("a reply"));
        let line = |word: &&[u8]| word[..word.len().min(8)].escape_ascii().to_string();
        history.push(words.iter().map(line).collect::<Vec<_>>().join(" "));
        let start = |reply: &[u8]| reply[..reply.len().min(80)].escape_ascii().to_string();
        let has_times = matches!(words[0], b"TTL" | b"EXEC");
        let is_same = one == other || has_times && are_same_but_for_times(&one, &other);
        assert!(
            is_same || one[0] == b'-' && other[0] == b'-',
            "{} is not {}; seed {seed}:\n{}",
            start(&one),
            start(&other),
            history[history.len().saturating_sub(30)..].join("\n")
        );
    }
}

#[test]
fn memcached_clients_do_not_find_long_values_and_may_replace_them() {
    let served = served(64);
    let mut client = served.client();
    client.send(&[b"SET", b"a", &pattern_of(1, 3 * MIB)]);
    assert_eq!(client.reply(), "+OK");
    let mut memcached = TcpStream::connect(&served.memcached).expect("it listens");
    for (request, answer) in [
        ("get a\r\n", "END\r\n"),
        ("append a 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("incr a 1\r\n", "NOT_FOUND\r\n"),
        ("add a 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("mg a v\r\n", "EN\r\n"),
        ("set a 0 0 1\r\nx\r\n", "STORED\r\n"),
    ] {
        memcached.write_all(request.as_bytes()).expect("it reads");
        let mut bytes = vec![0; answer.len()];
        memcached.read_exact(&mut bytes).expect("it answers");
        assert_eq!(String::from_utf8_lossy(&bytes), answer, "{request}");
    }
    assert_eq!(client.ask("GET a"), "$1|x");
}
