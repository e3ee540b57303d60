//! Strings of more than 1 MiB go through exports and imports part by part.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Instant;

use common::stores::{Folder, LONG, Server, kv, run, start_saying};

/// A connection that speaks RESP2.
struct Redis(BufReader<TcpStream>);

impl Redis {
    fn connect(port: u16) -> Self {
        let begun = Instant::now();
        loop {
            match TcpStream::connect(("127.0.0.1", port)) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(LONG)).expect("a socket");
                    return Self(BufReader::new(stream));
                }
                Err(error) => assert!(begun.elapsed() < LONG, "{error}"),
            }
        }
    }

    /// A reply: its line, or the bytes that it announces.
    fn ask(&mut self, words: &[&[u8]]) -> Vec<u8> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            request.extend_from_slice(word);
            request.extend_from_slice(b"\r\n");
        }
        self.0.get_mut().write_all(&request).expect("it is read");
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a reply");
        let bytes = line.strip_prefix('$').and_then(|bytes| bytes.trim_end().parse::<usize>().ok());
        let Some(bytes) = bytes else { return line.trim_end().as_bytes().to_vec() };
        let mut value = vec![0; bytes + 2];
        self.0.read_exact(&mut value).expect("all of it");
        value.truncate(bytes);
        value
    }
}

/// A store with the tables `default` and `db2` in memory and `db1` on a disk; where it is, and its port for
/// Redis clients.
fn start(folder: &Folder) -> (Server, String, u16) {
    let (tables, data) = ("default,db1:flushed,db2", folder.of("data"));
    let more = ["--resp", "127.0.0.1:0", "--memory", "64M", "--tables", tables, "--data", &data];
    let (server, at, port) = start_saying(&[], "serve", &more, "Redis clients connect to 127.0.0.1:");
    (server, at, port.parse().expect("a port"))
}

/// Bytes that are no text.
fn binary(bytes: usize) -> Vec<u8> {
    (0..bytes as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

fn done(said: &str) -> (Option<i32>, String, String) {
    (Some(0), said.to_owned(), String::new())
}

#[test]
fn long_strings_are_exported_and_imported_over_tables_in_memory_and_on_a_disk() {
    let folder = Folder::new("long-strings");
    let (mut server, at, port) = start(&folder);
    let (value, text) = (binary(3 << 20), "long text ".repeat(200_000).into_bytes());
    let mut redis = Redis::connect(port);
    assert_eq!(redis.ask(&[b"SET", b"bytes\xff", &value]), b"+OK");
    assert_eq!(redis.ask(&[b"SET", b"text", &text]), b"+OK");
    assert_eq!(redis.ask(&[b"SET", b"short", b"1"]), b"+OK");
    let file = folder.of("memory.jsonl");
    assert_eq!(kv(&at, &["export", &file]), done("3 objects\n"));
    let lines = fs::read_to_string(&file).expect("it is text");
    let longest = lines.lines().map(str::len).max().expect("there are lines");
    assert!(longest < 400_000 && lines.lines().count() > 20, "a line is a part: {longest} bytes");

    assert_eq!(kv(&at, &["import", &file, "--table", "db1"]), done("3 objects\n"));
    let there = kv(&at, &["import", &file, "--table", "db1", "--if-absent"]);
    assert_eq!(there, done("0 objects; 3 were there already\n"));
    assert_eq!(redis.ask(&[b"SELECT", b"1"]), b"+OK");
    assert!(redis.ask(&[b"GET", b"bytes\xff"]) == value && redis.ask(&[b"GET", b"text"]) == text);

    // What is on the disk outlives the process, and comes from there.
    server.0.kill().expect("it runs");
    server.0.wait().expect("it is a child");
    let (_server, at, port) = start(&folder);
    let again = folder.of("disk.jsonl");
    assert_eq!(kv(&at, &["export", &again, "--table", "db1"]), done("3 objects\n"));
    assert_eq!(kv(&at, &["import", &again]), done("3 objects\n"));
    let mut redis = Redis::connect(port);
    assert!(redis.ask(&[b"GET", b"bytes\xff"]) == value && redis.ask(&[b"GET", b"text"]) == text);
    assert_eq!(redis.ask(&[b"GET", b"short"]), b"1");
}

#[test]
fn a_value_whose_parts_are_not_all_there_stays_what_it_was() {
    let folder = Folder::new("long-parts");
    let (_server, at, port) = start(&folder);
    let value = binary(2 << 20);
    let mut redis = Redis::connect(port);
    assert_eq!(redis.ask(&[b"SET", b"k", &value]), b"+OK");
    let file = folder.of("all.jsonl");
    assert_eq!(kv(&at, &["export", &file]).0, Some(0));
    let lines = fs::read_to_string(&file).expect("it is text");
    let lines: Vec<String> = lines.lines().map(|line| format!("{line}\n")).collect();
    assert_eq!(lines.len(), 8, "parts of 256 KiB");
    let other = ["{\"key\":\"other\",\"value\":\"1\"}\n".to_owned()];
    let withdrawn = ["{\"key\":\"k\",\"withdrawn\":true}\n".to_owned()];
    let cut = folder.of("cut.jsonl");
    let import = |lines: &[&[String]], table: &str| {
        fs::write(&cut, lines.concat().concat()).expect("room");
        kv(&at, &["import", &cut, "--table", table])
    };
    let lacks = "line 6: the next part of the value of `k` is missing: 1310720 of 2097152 bytes were there";
    let cases: [(&[&[String]], &str); 5] = [
        (&[&lines[..5]], lacks),
        (&[&lines[..5], &lines[6..]], lacks),
        (&[&lines[..5], &other, &lines[5..]], lacks),
        (&[&lines[1..]], "line 1: the parts in front of it are missing"),
        (&[&withdrawn], "line 1: it takes parts back that are not there"),
    ];
    for (parts, why) in cases {
        for table in ["db1", "db2"] {
            let (status, _, said) = import(parts, table);
            assert!(status == Some(1) && said.contains(why), "{why}: {said}");
            assert!(said.contains("; 0 objects of the lines before it were written"), "{said}");
            let (status, _, said) = kv(&at, &["get", "k", "--table", table]);
            assert_eq!(status, Some(3), "there is none: {said}");
        }
    }
    // What was begun and taken back comes again, and others go on behind it.
    let (status, told, said) = import(&[&lines[..3], &withdrawn, &lines, &other], "db1");
    assert_eq!((status, &*told), (Some(0), "2 objects\n"), "{said}");
    assert_eq!(redis.ask(&[b"SELECT", b"1"]), b"+OK");
    assert!(redis.ask(&[b"GET", b"k"]) == value, "all of it");
    assert_eq!(redis.ask(&[b"GET", b"other"]), b"1");
}

/// Writes two long strings and more to `db1`, ends the store, and copies what its directory has to a file.
fn back_up(folder: &Folder, first: &[u8], second: &[u8]) -> String {
    let (mut server, _, port) = start(folder);
    let mut redis = Redis::connect(port);
    assert_eq!(redis.ask(&[b"SELECT", b"1"]), b"+OK");
    let (head, tail) = first.split_at(first.len() / 2);
    assert_eq!(redis.ask(&[b"SET", b"first", &[head, &[0; 5000]].concat()]), b"+OK");
    let end = head.len().to_string();
    assert_eq!(redis.ask(&[b"SETRANGE", b"first", end.as_bytes(), &tail[..5000]]).first(), Some(&b':'));
    for part in tail[5000..].chunks(500_000) {
        assert_eq!(redis.ask(&[b"APPEND", b"first", part]).first(), Some(&b':'));
    }
    for (key, value) in [(&b"gone"[..], first), (b"second\xff", second), (b"short", b"1")] {
        assert_eq!(redis.ask(&[b"SET", key, value]), b"+OK");
    }
    assert_eq!(redis.ask(&[b"DEL", b"gone"]), b":1");
    // The process ends while half of a string has come.
    let mut half = Redis::connect(port);
    assert_eq!(half.ask(&[b"SELECT", b"1"]), b"+OK");
    let announced = format!("*3\r\n$3\r\nSET\r\n$4\r\nhalf\r\n${}\r\n", first.len());
    half.0.get_mut().write_all(announced.as_bytes()).expect("it is read");
    half.0.get_mut().write_all(head).expect("it is read");
    server.0.kill().expect("it runs");
    server.0.wait().expect("it is a child");
    let (data, file) = (folder.of("data"), folder.of("saved"));
    let (status, told, said) = run(&["kv", "backup", "--data", &data, "--export", &file]);
    assert!(status == Some(0) && told.contains("3 objects of 1 tables"), "{told}{said}");
    file
}

#[test]
fn long_strings_are_in_a_backup_and_come_back_from_it() {
    let (folder, others) = (Folder::new("long-backup"), Folder::new("long-restored"));
    let (first, second) = (binary(3 << 20), "long text ".repeat(200_000).into_bytes());
    let file = back_up(&folder, &first, &second);
    let lines = fs::read_to_string(&file).expect("it is text");
    assert!(lines.lines().all(|line| line.len() < 400_000), "a line is a part");

    // Whatever line it is cut at, nothing of it is written.
    let (server, at, port) = start(&others);
    let lines: Vec<String> = lines.lines().map(|line| format!("{line}\n")).collect();
    let cut = folder.of("cut");
    for count in 1..lines.len() {
        fs::write(&cut, lines[..count].concat()).expect("room");
        let (status, _, said) = kv(&at, &["restore", &cut]);
        assert!(status == Some(1) && said.contains("the file was cut off"), "{count} lines: {said}");
    }
    assert_eq!(kv(&at, &["scan", "--keys", "--table", "db1"]), done(""));

    assert_eq!(kv(&at, &["restore", &file]), done("3 objects\n"));
    let there = kv(&at, &["restore", &file, "--if-absent"]);
    assert_eq!(there, done("0 objects; 3 were there already\n"));
    let mut redis = Redis::connect(port);
    assert_eq!(redis.ask(&[b"SELECT", b"1"]), b"+OK");
    assert!(redis.ask(&[b"GET", b"first"]) == first && redis.ask(&[b"GET", b"second\xff"]) == second);
    assert_eq!(redis.ask(&[b"GET", b"short"]), b"1");
    drop(server);
    // What was restored is in the next backup.
    let (data, again) = (others.of("data"), others.of("again"));
    let (status, told, said) = run(&["kv", "backup", "--data", &data, "--export", &again]);
    assert!(status == Some(0) && told.contains("3 objects of 1 tables"), "{told}{said}");
}

#[test]
fn a_restore_that_is_killed_between_two_parts_leaves_no_half_of_a_string() {
    let (folder, others) = (Folder::new("long-killed"), Folder::new("long-killed-restored"));
    let (first, second) = (binary(2 << 20), binary(20 << 20));
    let file = back_up(&folder, &first, &second);
    let (mut server, at, port) = start(&others);
    let mut redis = Redis::connect(port);
    assert_eq!(redis.ask(&[b"SELECT", b"1"]), b"+OK");
    let mut farcall = Command::new(env!("CARGO_BIN_EXE_farcall"));
    farcall.args(["kv", "restore", &file, "--at", &at]).stdout(Stdio::null());
    let mut restore = Server(farcall.spawn().expect("the program runs"));
    let begun = Instant::now();
    // The parts of the second one follow.
    while redis.ask(&[b"EXISTS", b"first"]) != b":1" {
        assert!(begun.elapsed() < LONG);
    }
    restore.0.kill().expect("it is a child");
    restore.0.wait().expect("it is a child");
    let half = redis.ask(&[b"GET", b"second\xff"]);
    assert!(half == b"$-1" || half == second, "none of it, or all");
    server.0.kill().expect("it runs");
    server.0.wait().expect("it is a child");
    let (_server, at, port) = start(&others);
    let mut redis = Redis::connect(port);
    assert_eq!(redis.ask(&[b"SELECT", b"1"]), b"+OK");
    let half = redis.ask(&[b"GET", b"second\xff"]);
    assert!(half == b"$-1" || half == second, "none of it, or all");
    assert!(redis.ask(&[b"GET", b"first"]) == first);
    assert_eq!(kv(&at, &["restore", &file]), done("3 objects\n"));
    assert!(redis.ask(&[b"GET", b"second\xff"]) == second);
}
