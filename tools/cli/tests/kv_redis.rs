//! Redis clients of durable tables: what their servers acknowledged outlives kills, paused replicas and full
//! disks.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use common::places::free_port;
use common::stores::{Folder, LONG, Server, kv, run};
use rustix::process::{Pid, Signal, kill_process};

/// A store that serves Redis clients, and where.
struct Served {
    server: Server,
    at: String,
    port: u16,
}

impl Served {
    fn start(folder: &Folder, more: &[&str]) -> Self {
        let port = free_port();
        let resp = format!("127.0.0.1:{port}");
        let arguments = [&["--resp", &resp, "--memory", "32M"], more].concat();
        let (server, at) = match more.contains(&"--lease") {
            true => folder.start("serve", &arguments, "shard 0 of 1 serves"),
            false => folder.start_alone(&arguments),
        };
        Self { server, at, port }
    }

    fn flushed(folder: &Folder) -> Self {
        Self::start(folder, &["--tables", "default:flushed", "--data", &folder.of("data")])
    }

    fn client(&self) -> Client {
        let begun = Instant::now();
        let stream = loop {
            match TcpStream::connect(("127.0.0.1", self.port)) {
                Ok(stream) => break stream,
                Err(error) => assert!(begun.elapsed() < LONG, "{error}"),
            }
        };
        stream.set_read_timeout(Some(LONG)).expect("a socket");
        stream.set_nodelay(true).expect("a socket");
        Client { replies: BufReader::new(stream.try_clone().expect("a socket")), stream }
    }

    /// As a power cut ends a process, but for what the kernel has.
    fn kill(mut self) {
        self.server.0.kill().expect("it runs");
        self.server.0.wait().expect("it is a child");
    }
}

/// A client that speaks RESP2.
struct Client {
    stream: TcpStream,
    replies: BufReader<TcpStream>,
}

impl Client {
    fn send(&mut self, line: &str) -> bool {
        self.stream.write_all(request(line).as_bytes()).is_ok()
    }

    /// The next reply, with its parts in brackets; `None` when the connection has ended.
    fn reply(&mut self) -> Option<String> {
        let mut line = String::new();
        if self.replies.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        let number = || line[1..].parse::<i64>().expect("a number");
        match line.as_bytes()[0] {
            b'$' if number() >= 0 => {
                let mut bytes = vec![0; number() as usize + 2];
                self.replies.read_exact(&mut bytes).ok()?;
                Some(String::from_utf8_lossy(&bytes[..bytes.len() - 2]).into_owned())
            }
            b'*' if number() >= 0 => {
                let parts: Option<Vec<String>> = (0..number()).map(|_| self.reply()).collect();
                Some(format!("[{}]", parts?.join(" ")))
            }
            _ => Some(line.to_owned()),
        }
    }

    fn ask(&mut self, line: &str) -> String {
        assert!(self.send(line), "{}", shown(line));
        self.reply().unwrap_or_else(|| panic!("no reply to {}", shown(line)))
    }

    /// The same once the server is sure that it is the primary: on a busy machine its lease may be late.
    fn ask_primary(&mut self, line: &str) -> String {
        let begun = Instant::now();
        loop {
            let reply = self.ask(line);
            let is_late = ["-READONLY", "-MASTERDOWN", "-NOREPLICAS"].iter().any(|it| reply.starts_with(it));
            if !is_late {
                return reply;
            }
            assert!(begun.elapsed() < LONG, "{}: {reply}", shown(line));
        }
    }

    /// The same until the reply begins so.
    fn ask_until(&mut self, line: &str, begins: &str) {
        let begun = Instant::now();
        loop {
            let reply = self.ask(line);
            if reply.starts_with(begins) {
                return;
            }
            assert!(begun.elapsed() < LONG, "{}: {reply}", shown(line));
        }
    }
}

/// The beginning of a line.
fn shown(line: &str) -> &str {
    &line[..line.len().min(100)]
}

fn request(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let shown: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    format!("*{}\r\n{shown}", words.len())
}

/// Pipelines of this many rounds are in flight.
const AHEAD: u64 = 40;

/// Writes rounds until the connection ends; gives how many were acknowledged.
fn write_rounds(client: &mut Client, mut acknowledged: impl FnMut(u64)) {
    let commands = |number: u64| {
        [
            format!("SET s:{number} {number}"),
            format!("HSET h f{number} {number}"),
            format!("RPUSH l {number}"),
            format!("SADD m {number}"),
            format!("ZADD z {number} {number}"),
            "MULTI".to_owned(),
            "INCR count".to_owned(),
            format!("LPUSH counted {number}"),
            "EXEC".to_owned(),
        ]
    };
    let (mut sent, mut done) = (0, 0);
    loop {
        while sent < done + AHEAD {
            let bytes: String = commands(sent).iter().map(|line| request(line)).collect();
            if client.stream.write_all(bytes.as_bytes()).is_err() {
                return;
            }
            sent += 1;
        }
        for _ in commands(done) {
            match client.reply() {
                Some(reply) => assert!(!reply.starts_with('-'), "{reply}"),
                None => return,
            }
        }
        done += 1;
        acknowledged(done);
    }
}

fn check_rounds(client: &mut Client, acknowledged: u64) {
    let asks = |number: u64| ["GET s:", "HGET h f", "ZSCORE z "].map(|command| format!("{command}{number}"));
    let all: String = (0..acknowledged).flat_map(asks).map(|line| request(&line)).collect();
    client.stream.write_all(all.as_bytes()).expect("it reads");
    for number in 0..acknowledged {
        for line in asks(number) {
            assert_eq!(client.reply(), Some(number.to_string()), "{line} of {acknowledged}");
        }
    }
    let members: u64 = client.ask("SCARD m")[1..].parse().expect("a number");
    assert!(members >= acknowledged);
    let there: u64 = client.ask("LLEN l")[1..].parse().expect("a number");
    assert!(there >= acknowledged, "{acknowledged} were acknowledged, and {there} are there");
    let expected: Vec<String> = (0..there).map(|number| number.to_string()).collect();
    assert_eq!(client.ask("LRANGE l 0 -1"), format!("[{}]", expected.join(" ")));
    let count = client.ask("GET count");
    assert_eq!(client.ask("LLEN counted"), format!(":{count}"), "a transaction is there as a whole");
    assert!(count.parse::<u64>().expect("a number") >= acknowledged);
}

#[test]
fn what_a_killed_server_has_acknowledged_is_there() {
    let folder = Folder::new("redis-kill");
    let mut served = Served::flushed(&folder);
    for life in 1..=3 {
        let mut client = served.client();
        client.ask("FLUSHALL");
        let mut acknowledged = 0;
        let mut running = Some(served);
        write_rounds(&mut client, |done| {
            acknowledged = done;
            // In the middle of what is in flight.
            if done == life * 50
                && let Some(served) = running.take()
            {
                served.kill();
            }
        });
        assert!(acknowledged >= life * 50);
        served = Served::flushed(&folder);
        check_rounds(&mut served.client(), acknowledged);
    }
    // Through another door as well.
    assert_eq!(kv(&served.at, &["get", "s:7"]), (Some(0), "7".to_owned(), String::new()));
    let (status, _, sentence) = kv(&served.at, &["get", "h"]);
    assert!(status != Some(0) && sentence.contains("collection"), "{sentence}");
    assert_eq!(kv(&served.at, &["put", "s:7", "eight"]).0, Some(0));
    assert_eq!(served.client().ask("GET s:7"), "eight");
}

/// A long value that tells where each part of it belongs.
fn long_value(seed: u64, bytes: usize) -> String {
    let mut value = String::with_capacity(bytes + 16);
    while value.len() < bytes {
        value.push_str(&format!("{seed}:{};", value.len()));
    }
    value.truncate(bytes);
    value
}

#[test]
fn a_server_that_is_killed_while_a_long_value_comes_has_the_old_one() {
    let folder = Folder::new("redis-long-kill");
    let mut served = Served::flushed(&folder);
    let old = long_value(0, 3_000_000);
    assert_eq!(served.client().ask(&format!("SET long {old}")), "+OK");
    for life in 1..=3 {
        let new = request(&format!("SET long {}", long_value(life, 8_000_000)));
        let mut client = served.client();
        let sent = new.len() - 10 - 1_000_000 * life as usize;
        client.stream.write_all(&new.as_bytes()[..sent]).expect("it reads");
        // What the log has grown by is pieces of it.
        let mut other = served.client();
        other.ask_until("SET short 1", "+OK");
        served.kill();
        served = Served::flushed(&folder);
        let mut client = served.client();
        assert!(client.ask("GET long") == old, "life {life}");
        assert_eq!(client.ask("DBSIZE"), ":2");
    }
    // Whole ones are answered, and there after the next kill.
    let last = long_value(9, 8_000_000);
    let mut client = served.client();
    assert_eq!(client.ask(&format!("SET long {last}")), "+OK");
    assert_eq!(client.ask("SETRANGE long 4000000 changed"), ":8000000");
    served.kill();
    let served = Served::flushed(&folder);
    let expected = [&last[..4_000_000], "changed", &last[4_000_007..]].concat();
    assert!(served.client().ask("GET long") == expected);
}

#[test]
fn long_values_are_taken_over_with_their_replica() {
    let folder = Folder::new("redis-long-replica");
    let (_backup, _) = folder.backup("first");
    let start = |name: &str| {
        let data = folder.of(name);
        Served::start(&folder, &["--tables", "default:replicated=1,flushed", "--data", &data, "--lease", "2"])
    };
    let served = start("primary");
    let mut client = served.client();
    client.ask_until("SET short 1", "+OK");
    let old = long_value(1, 5_000_000);
    client.ask_until(&format!("SET long {old}"), "+OK");
    let new = request(&format!("SET long {}", long_value(2, 8_000_000)));
    let mut uploading = served.client();
    uploading.stream.write_all(&new.as_bytes()[..6_000_000]).expect("it reads");
    client.ask_until("SET short 2", "+OK");
    served.kill();
    // The disk of the first primary is not used any more.
    let served = start("other");
    let mut client = served.client();
    client.ask_until("GET short", "2");
    assert!(client.ask_primary("GET long") == old, "the whole old value");
    client.ask_until(&format!("SET long {}", long_value(3, 2_000_000)), "+OK");
    assert!(client.ask_primary("GET long") == long_value(3, 2_000_000));
    let (status, said, sentence) = kv(&served.at, &["scrub", "--timeout", "60"]);
    assert_eq!(status, Some(0), "{said} {sentence}");
}

#[test]
fn pipelines_of_redis_py_outlive_their_server() {
    let has_client = Command::new("python3").args(["-c", "import redis"]).output();
    if !has_client.is_ok_and(|output| output.status.success()) {
        println!("unsupported: redis-py is not installed");
        return;
    }
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/redis/pipelines.py");
    let folder = Folder::new("redis-py");
    let served = Served::flushed(&folder);
    let port = served.port.to_string();
    let writes = Command::new("python3").args([program, &port, "write"]).stdout(Stdio::piped()).spawn();
    let mut writes = writes.expect("python runs");
    let mut lines = BufReader::new(writes.stdout.take().expect("it is piped")).lines();
    let mut rounds = 0;
    let mut next = |lines: &mut std::io::Lines<BufReader<std::process::ChildStdout>>| {
        let line = lines.next().map(|line| line.expect("text"));
        line.map(|line| rounds = line.parse().expect("a number")).is_some().then_some(rounds)
    };
    while next(&mut lines).expect("it goes on") < 25_u64 {}
    served.kill();
    let mut last = 25;
    while let Some(rounds) = next(&mut lines) {
        last = rounds;
    }
    assert!(ended(&mut writes), "it ends when the server does");
    let served = Served::flushed(&folder);
    let (port, last) = (served.port.to_string(), last.to_string());
    let checked = Command::new("python3").args([program, &port, "check", &last]).output().expect("it runs");
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert_eq!(said, "done\n", "{}", String::from_utf8_lossy(&checked.stderr));
}

fn ended(child: &mut Child) -> bool {
    child.wait().expect("it is a child").success()
}

#[test]
fn deadlines_and_what_is_said_of_the_log_outlive_a_restart() {
    let folder = Folder::new("redis-restart");
    let tables = ["--tables", "default:flushed,db1", "--data", &folder.of("data")];
    let served = Served::start(&folder, &tables);
    let mut client = served.client();
    assert_eq!(client.ask("SET soon 1 PX 1"), "+OK");
    assert_eq!(client.ask("SET later 1 PX 3600000"), "+OK");
    assert_eq!(client.ask("RPUSH list a b c"), ":3");
    assert_eq!(client.ask("EXPIRE list 3600"), ":1");
    assert_eq!(client.ask("RENAME list named"), "+OK");
    assert_eq!(client.ask("COPY named copied"), ":1");
    assert_eq!(client.ask("LINSERT copied BEFORE b x"), ":4");
    assert_eq!(client.ask("WAITAOF 1 0 0"), "[:1 :0]");
    assert_eq!(client.ask("WAIT 1 1"), ":0", "there are no replicas");
    assert_eq!(client.ask("SAVE"), "+OK");
    assert_ne!(client.ask("LASTSAVE"), ":0");
    assert!(client.ask("BGREWRITEAOF").starts_with("-ERR"));
    let info = client.ask("INFO persistence");
    assert!(info.contains("farcall_level:flushed") && info.contains("aof_enabled:1"), "{info}");
    // Another database is in memory.
    assert_eq!(client.ask("SELECT 1"), "+OK");
    assert_eq!(client.ask("SET gone 1"), "+OK");
    assert_eq!(client.ask("LPUSH moved z"), ":1");
    assert_eq!(client.ask("MOVE moved 0"), ":1");
    assert!(client.ask("INFO persistence").contains("farcall_level:memory"));
    assert_eq!(client.ask("WAITAOF 1 0 1"), "[:0 :0]", "what it wrote there is in memory");
    served.kill();

    let served = Served::start(&folder, &tables);
    let mut client = served.client();
    assert_eq!(client.ask("EXISTS soon list gone"), ":0");
    for (key, most) in [("later", 3_600_000), ("named", 3_600_000), ("copied", 3_600_000)] {
        let left: i64 = client.ask(&format!("PTTL {key}"))[1..].parse().expect("a number");
        assert!((1..=most).contains(&left), "{key}: {left}");
    }
    assert_eq!(client.ask("LRANGE named 0 -1"), "[a b c]");
    assert_eq!(client.ask("LRANGE copied 0 -1"), "[a x b c]");
    assert_eq!(client.ask("LRANGE moved 0 -1"), "[z]");
    assert_eq!(client.ask("DBSIZE"), ":4");
    assert_eq!(client.ask("FLUSHDB"), "+OK");
    served.kill();
    assert_eq!(Served::start(&folder, &tables).client().ask("DBSIZE"), ":0");
}

#[test]
fn clients_that_wait_are_served_and_what_they_took_stays_taken() {
    let folder = Folder::new("redis-waits");
    let served = Served::flushed(&folder);
    let (mut waits, mut moves, mut writes) = (served.client(), served.client(), served.client());
    assert!(waits.send("BLPOP queue 0") && moves.send("BLMOVE other taken LEFT RIGHT 0"));
    writes.ask_until("INFO clients", "");
    while !writes.ask("INFO clients").contains("blocked_clients:2") {}
    assert_eq!(writes.ask("RPUSH queue a b"), ":2");
    assert_eq!(writes.ask("RPUSH other c"), ":1");
    assert_eq!(waits.reply().as_deref(), Some("[queue a]"));
    assert_eq!(moves.reply().as_deref(), Some("c"));
    served.kill();
    let served = Served::flushed(&folder);
    let mut client = served.client();
    assert_eq!(client.ask("LRANGE queue 0 -1"), "[b]");
    assert_eq!(client.ask("LRANGE taken 0 -1"), "[c]");
    assert_eq!(client.ask("EXISTS other"), ":0");
}

#[test]
fn writes_are_refused_while_replicas_stand_still() {
    let folder = Folder::new("redis-replicas");
    let (first, _) = folder.backup("first");
    let data = folder.of("primary");
    let more = ["--tables", "default:replicated=1,flushed", "--data", &data, "--lease", "2"];
    let served = Served::start(&folder, &more);
    let mut client = served.client();
    client.ask_until("RPUSH list a", ":");
    let info = client.ask("INFO replication");
    assert!(info.contains("connected_slaves:1") && info.contains("state=online"), "{info}");
    assert_eq!(client.ask_primary("WAIT 1 0"), ":1");
    assert_eq!(client.ask_primary("WAITAOF 1 1 0"), "[:1 :1]");
    assert_eq!(client.ask_primary("WAIT 2 1"), ":1");
    let length: i64 = client.ask_primary("LLEN list")[1..].parse().expect("a number");

    let backup = Pid::from_child(&first.0);
    kill_process(backup, Signal::STOP).expect("it is ours");
    let refused = client.ask("RPUSH list b");
    assert!(refused.starts_with("-NOREPLICAS") || refused.starts_with("-MASTERDOWN"), "{refused}");
    client.ask_until("MULTI", "+OK");
    assert_eq!(client.ask("RPUSH list c"), "+QUEUED");
    let aborted = client.ask("EXEC");
    assert!(aborted.starts_with("-EXECABORT") || aborted.starts_with("-NOREPLICAS"), "{aborted}");
    kill_process(backup, Signal::CONT).expect("it is ours");
    client.ask_until("RPUSH list d", ":");
    let after: i64 = client.ask_primary("LLEN list")[1..].parse().expect("a number");
    assert!(after > length, "what was refused while it was in flight may have happened");

    // Its disk is lost with it: the replica has everything.
    served.kill();
    let other = folder.of("other");
    let more = ["--tables", "default:replicated=1,flushed", "--data", &other, "--lease", "2"];
    let served = Served::start(&folder, &more);
    served.client().ask_until("LLEN list", &format!(":{after}"));
}

#[test]
fn a_full_log_refuses_writes_and_goes_on_with_reads_and_deletes() {
    let folder = Folder::new("redis-full");
    let tables = ["--tables", "default:flushed", "--data", &folder.of("data"), "--data-size", "64M"];
    let more = [&tables[..], &["--memory", "128M"]].concat();
    let port = free_port();
    let resp = format!("127.0.0.1:{port}");
    let (server, at) = folder.start_alone(&[&["--resp", &resp], &more[..]].concat());
    let served = Served { server, at, port };
    let mut client = served.client();
    let long = "v".repeat(500_000);
    let mut fields = 0;
    let refused = loop {
        let reply = client.ask(&format!("HSET hash f{fields} {long}"));
        if reply.starts_with('-') {
            break reply;
        }
        fields += 1;
        assert!(fields < 200, "64 MB hold no 100 MB");
    };
    assert!(refused.starts_with("-MISCONF"), "{refused}");
    assert_eq!(client.ask("HLEN hash"), format!(":{fields}"));
    assert_eq!(client.ask("HDEL hash f0 f1 f2 f3"), ":4");
    client.ask_until(&format!("HSET hash again {long}"), ":1");
    assert_eq!(client.ask("DEL hash"), ":1");
    client.ask_until(&format!("SET string {long}"), "+OK");
}

#[test]
fn memcached_clients_are_not_served_from_durable_tables() {
    let folder = Folder::new("redis-memcached");
    let (data, registry) = (folder.of("data"), folder.registry());
    let memcached = ["kv", "serve", "--at", "127.0.0.1:1", "--memcached", "127.0.0.1:0"];
    let flushed = ["--tables", "default:flushed", "--data", &data];
    let replicated = ["--tables", "default:replicated=1", "--registry", &registry];
    for durable in [flushed, replicated] {
        let (status, _, sentence) = run(&[&memcached[..], &durable].concat());
        assert!(status == Some(2) && sentence.contains("--memcached and --"), "{sentence}");
    }
}
