//! memcached clients that behave badly: the others are served, and memory stays bounded.

mod memcached;
mod redis;

use std::io::Write;
use std::time::{Duration, Instant};

use farcall_kv::resp::Options;
use farcall_kv::store::MEMORY_BYTES_MIN;
use memcached::Memcached;
use redis::memory::{alone, resident_bytes};
use redis::{LONG, Served};

#[test]
fn half_a_command_and_silence_hold_nobody_up_and_reserve_nothing() {
    let _alone = alone();
    let served = Served::start();
    let mut honest = Memcached::of(&served);
    let before = resident_bytes();
    let silent: Vec<_> = (0..100)
        .map(|number| {
            let mut client = Memcached::of(&served);
            let request: &[u8] = if number % 2 == 0 { b"set k 0 0 1048576\r\nbegin" } else { b"get k k k" };
            client.stream.write_all(request).expect("it reads");
            client
        })
        .collect();
    for _ in 0..100 {
        assert_eq!(honest.ask("get k"), "END|");
    }
    let each = resident_bytes().saturating_sub(before) / silent.len();
    assert!(each < 64 << 10, "{each} bytes for each of them");
}

#[test]
fn a_value_that_is_never_stored_takes_no_memory() {
    let _alone = alone();
    let served = Served::start();
    let (mut honest, mut wasteful) = (Memcached::of(&served), Memcached::of(&served));
    const VALUE_BYTES: usize = 100 << 20;
    wasteful.stream.write_all(format!("set k 0 0 {VALUE_BYTES}\r\n").as_bytes()).expect("it reads");
    let before = resident_bytes();
    let piece = vec![b'\n'; 1 << 20];
    for _ in 0..VALUE_BYTES / piece.len() {
        wasteful.stream.write_all(&piece).expect("it reads");
    }
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes more");
    assert_eq!(wasteful.ask("|get k"), "SERVER_ERROR object too large for cache|END|");
    assert_eq!(honest.ask("get k"), "END|");
}

#[test]
fn connections_without_a_next_request_end() {
    let _alone = alone();
    let served = Served::start();
    let long_line = vec![b'g'; 64 << 10];
    for (request, answer) in [
        (&b"set k 0 0 134217729\r\n"[..], "SERVER_ERROR object too large for cache|"),
        (&long_line[..], "CLIENT_ERROR line too long|"),
        (b"quit\r\n", ""),
    ] {
        let mut client = Memcached::of(&served);
        client.stream.write_all(request).expect("it reads");
        assert_eq!(client.rest(), answer);
    }
}

#[test]
fn a_client_that_wants_many_keys_and_does_not_read_waits_alone_and_gets_everything() {
    let _alone = alone();
    let served = Served::start();
    let (mut honest, mut greedy) = (Memcached::of(&served), Memcached::of(&served));
    let value = "v".repeat(100_000);
    assert_eq!(honest.ask(&format!("set k 0 0 {}|{value}", value.len())), "STORED|");
    let before = resident_bytes();
    const KEYS: usize = 5_000;
    let line = format!("get{}\r\n", " k".repeat(KEYS));
    greedy.stream.write_all(line.as_bytes()).expect("it reads");
    for number in 1..=1000 {
        assert_eq!(honest.ask("incr n 1"), "NOT_FOUND|", "{number}");
    }
    // Half a gigabyte is asked for.
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 32 << 20, "{grown} bytes more");
    let answer = greedy.ask_bytes(b"get none");
    let each = format!("VALUE k 0 {}\r\n{value}\r\n", value.len());
    assert_eq!(answer.len(), KEYS * each.len() + 2 * "END\r\n".len());
    assert!(answer.chunks(each.len()).take(KEYS).all(|part| part == each.as_bytes()));
}

#[test]
fn who_never_reads_is_sent_away() {
    let _alone = alone();
    let unread_for_max = Duration::from_millis(100);
    let served = Served::with(MEMORY_BYTES_MIN, Options { unread_for_max, ..Options::default() });
    let (mut honest, mut deaf) = (Memcached::of(&served), Memcached::of(&served));
    let value = "v".repeat(1 << 20);
    assert_eq!(honest.ask(&format!("set k 0 0 {}|{value}", value.len())), "STORED|");
    deaf.stream.write_all(format!("get{}\r\n", " k".repeat(64)).as_bytes()).expect("it reads");
    let begun = Instant::now();
    while !honest.ask("stats").contains("STAT curr_connections 1|") {
        assert!(begun.elapsed() < LONG, "it is still there");
    }
}

#[test]
fn clients_beyond_their_number_are_refused() {
    let _alone = alone();
    let served = Served::with(MEMORY_BYTES_MIN, Options { clients_max: 1, ..Options::default() });
    let mut first = Memcached::of(&served);
    assert_eq!(first.ask("get k"), "END|");
    assert_eq!(Memcached::of(&served).rest(), "ERROR Too many open connections|");
    assert!(first.ask("stats").contains("STAT rejected_connections 1|"));
}
