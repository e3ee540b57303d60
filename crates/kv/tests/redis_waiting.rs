//! Clients that wait for elements: who gets what, and when nobody gets anything.

mod redis;

use std::net::TcpStream;
use std::time::Instant;

use redis::{Client, LONG, Served};

/// Waits until so many clients wait.
fn until_waiting(served: &Served, clients: usize) {
    let (mut client, begun) = (served.client(), Instant::now());
    let wanted = format!("blocked_clients:{clients}");
    while !client.ask("INFO clients").ends_with(&wanted) {
        assert!(begun.elapsed() < LONG, "never {wanted}");
    }
}

fn waiting(served: &Served, line: &str, clients: usize) -> Client<TcpStream> {
    let mut client = served.client();
    client.send(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    until_waiting(served, clients);
    client
}

#[test]
fn clients_are_served_in_the_order_in_which_they_came() {
    let served = Served::start();
    let mut first = waiting(&served, "BLPOP queue 0", 1);
    let mut second = waiting(&served, "BRPOP other queue 0", 2);
    let mut third = waiting(&served, "BLMPOP 0 1 queue LEFT COUNT 5", 3);
    let mut client = served.client();
    assert_eq!(client.ask("RPUSH queue a b c d"), ":4", "the length before they are served");
    assert_eq!(first.reply(), "*2|$5|queue|$1|a");
    assert_eq!(second.reply(), "*2|$5|queue|$1|d");
    assert_eq!(third.reply(), "*2|$5|queue|*2|$1|b|$1|c");
    assert_eq!(client.ask("EXISTS queue"), ":0");
    until_waiting(&served, 0);
}

#[test]
fn an_element_goes_on_through_the_lists_that_are_waited_for() {
    let served = Served::start();
    let mut last = waiting(&served, "BLPOP c 0", 1);
    let mut second = waiting(&served, "BRPOPLPUSH b c 0", 2);
    let mut first = waiting(&served, "BLMOVE a b LEFT RIGHT 0", 3);
    let mut client = served.client();
    assert_eq!(client.ask("LPUSH a x"), ":1");
    assert_eq!([first.reply(), second.reply()], ["$1|x", "$1|x"]);
    assert_eq!(last.reply(), "*2|$1|c|$1|x");
    assert_eq!(client.ask("DBSIZE"), ":0");
}

#[test]
fn whatever_makes_a_key_ends_the_wait_for_it() {
    let served = Served::start();
    let mut client = served.client();
    for (make, wait, reply) in [
        (vec!["RPUSH other x", "RENAME other key"], "BLPOP key 0", "*2|$3|key|$1|x"),
        (vec!["RPUSH other x", "COPY other key"], "BLPOP key 0", "*2|$3|key|$1|x"),
        (vec!["MULTI", "RPUSH key x", "LPUSH key y", "EXEC"], "BLPOP key 0", "*2|$3|key|$1|y"),
        (vec!["MULTI", "RPUSH key x", "DEL key", "EXEC", "RPUSH key z"], "BLPOP key 0", "*2|$3|key|$1|z"),
        (
            vec!["SET key x", "DEL key", "SADD key x", "DEL key", "LPUSH key a"],
            "BLPOP key 0",
            "*2|$3|key|$1|a",
        ),
        (vec!["ZADD other 1 m", "ZUNIONSTORE key 1 other"], "BZPOPMIN key 0", "*3|$3|key|$1|m|$1|1"),
        (vec!["ZADD key 1 m 2 n"], "BZPOPMAX key 0", "*3|$3|key|$1|n|$1|2"),
        (vec!["ZADD key 1 m 2 n"], "BZMPOP 0 1 key MIN", "*2|$3|key|*1|*2|$1|m|$1|1"),
        (vec!["SELECT 3", "RPUSH key x", "MOVE key 0", "SELECT 0"], "BLPOP key 0", "*2|$3|key|$1|x"),
        // What has become another kind keeps nobody from the other keys.
        (vec!["SET first x", "RPUSH key y"], "BLPOP first key 0", "*2|$3|key|$1|y"),
        (vec!["RPUSH first x", "ZADD key 1 m"], "BZPOPMIN first key 0", "*3|$3|key|$1|m|$1|1"),
        // The key that had something first, not the one that is named first.
        (vec!["MULTI", "RPUSH key x", "RPUSH first y", "EXEC"], "BLPOP first key 0", "*2|$3|key|$1|x"),
        (
            vec!["SET other x", "RPUSH key a"],
            "BLMOVE key other LEFT LEFT 0",
            "-WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
    ] {
        assert_eq!(client.ask("FLUSHALL"), "+OK");
        let mut waits = waiting(&served, wait, 1);
        make.iter().for_each(|line| assert!(!client.ask(line).starts_with('-'), "{line}"));
        assert_eq!(waits.reply(), reply, "{make:?}");
        until_waiting(&served, 0);
    }
}

#[test]
fn a_wait_ends_when_its_time_is_over_and_within_a_transaction_nothing_waits() {
    let served = Served::start();
    let mut client = served.client();
    for (line, reply) in [
        ("BLPOP none 0.01", "*-1"),
        ("BLMOVE none other LEFT LEFT 0.01", "*-1"),
        ("BZPOPMIN none 0.01", "*-1"),
        ("BLPOP none -1", "-ERR timeout is negative"),
        ("BLPOP none x", "-ERR timeout is not a float or out of range"),
        ("MULTI", "+OK"),
        ("BLPOP none 0", "+QUEUED"),
        ("BLMOVE none other LEFT LEFT 0", "+QUEUED"),
        ("EXEC", "*2|*-1|$-1"),
    ] {
        assert_eq!(client.ask(line), reply, "{line}");
    }
    let mut waits = waiting(&served, "BLPOP none 0", 1);
    let list = client.ask("CLIENT LIST");
    let line = list.lines().find(|line| line.contains("flags=b")).expect("it waits");
    let id =
        line.split_once("id=").and_then(|(_, rest)| rest.split_once(' ')).expect("a number").0.to_owned();
    assert_eq!(client.ask(&format!("CLIENT UNBLOCK {id} ERROR")), ":1");
    assert_eq!(waits.reply(), "-UNBLOCKED client unblocked via CLIENT UNBLOCK");
    assert_eq!(client.ask(&format!("CLIENT UNBLOCK {id}")), ":0");
}

#[test]
fn what_is_sent_behind_a_wait_runs_behind_it() {
    let served = Served::start();
    let mut waits = served.client();
    for words in
        [&[&b"BLPOP"[..], b"queue", b"0"][..], &[b"INCR", b"n"], &[b"BLPOP", b"queue", b"0"], &[b"GET", b"n"]]
    {
        waits.send(words);
    }
    until_waiting(&served, 1);
    let mut client = served.client();
    assert_eq!(client.ask("GET n"), "$-1");
    assert_eq!(client.ask("RPUSH queue a"), ":1");
    assert_eq!([waits.reply(), waits.reply()], ["*2|$5|queue|$1|a", ":1"]);
    assert_eq!(client.ask("RPUSH queue b"), ":1");
    assert_eq!([waits.reply(), waits.reply()], ["*2|$5|queue|$1|b", "$1|1"]);
}

#[test]
fn who_is_gone_takes_nothing() {
    let served = Served::start();
    drop(waiting(&served, "BLPOP queue 0", 1));
    until_waiting(&served, 0);
    let killed = waiting(&served, "BLPOP queue 0", 1);
    let address = killed.stream.local_addr().expect("a socket");
    let mut client = served.client();
    assert_eq!(client.ask(&format!("CLIENT KILL ADDR {address}")), ":1");
    assert_eq!(client.ask("RPUSH queue a"), ":1");
    assert_eq!(client.ask("LRANGE queue 0 -1"), "*1|$1|a");
}

#[test]
fn a_thousand_clients_wait_and_each_gets_one() {
    const CLIENTS: usize = 1000;
    let served = Served::start();
    let mut waiting: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let mut client = served.unix_client();
            client.send(&[b"BLPOP", b"queue", b"0"]);
            client
        })
        .collect();
    until_waiting(&served, CLIENTS);
    let mut client = served.client();
    let elements: Vec<_> = (0..CLIENTS).map(|number| number.to_string()).collect();
    let words: Vec<_> =
        [&b"RPUSH"[..], b"queue"].into_iter().chain(elements.iter().map(String::as_bytes)).collect();
    client.send(&words);
    assert_eq!(client.reply(), format!(":{CLIENTS}"));
    let mut got: Vec<_> = waiting.iter_mut().map(|client| client.reply()).collect();
    got.sort_unstable();
    got.dedup();
    assert_eq!((got.len(), client.ask("EXISTS queue")), (CLIENTS, ":0".to_owned()));
}

#[test]
fn a_client_that_waits_and_sends_on_is_bounded() {
    use std::io::Write;
    let served = Served::start();
    let mut waits = served.client();
    waits.send(&[b"BLPOP", b"queue", b"0"]);
    until_waiting(&served, 1);
    waits.stream.set_nonblocking(true).expect("a socket");
    let (request, mut sent, begun) = (redis::request(&[b"ECHO", &[b'x'; 1000]]), 0, Instant::now());
    let end = loop {
        match waits.stream.write(&request[sent % request.len()..]) {
            Ok(bytes) => sent += bytes,
            Err(error) => break error,
        }
        assert!(sent < 256 << 20 && begun.elapsed() < LONG, "it reads and reads");
    };
    assert_eq!(end.kind(), std::io::ErrorKind::WouldBlock, "its socket is full");
    let mut client = served.client();
    assert_eq!(client.ask("RPUSH queue a"), ":1");
    waits.stream.set_nonblocking(false).expect("a socket");
    assert_eq!(waits.reply(), "*2|$5|queue|$1|a");
    for _ in 0..sent / request.len() {
        assert_eq!(waits.reply_bytes().expect("a reply").len(), 1009);
    }
}
