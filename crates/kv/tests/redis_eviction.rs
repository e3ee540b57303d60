//! Who makes room when the memory is full, and that what `INFO` says of it is exact.

mod redis;

use std::net::TcpStream;

use redis::{Client, Served};

/// The number of a line of `INFO`.
fn info(client: &mut Client<TcpStream>, name: &str) -> usize {
    let text = client.ask("INFO");
    let line = text.split('|').find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.expect("a line").parse().expect("a number")
}

fn db_size(client: &mut Client<TcpStream>) -> usize {
    client.ask("DBSIZE")[1..].parse().expect("a number")
}

/// Sets a key to a value of ten thousand bytes, some of which make sixteen megabytes.
fn set(client: &mut Client<TcpStream>, key: &str) -> String {
    client.send(&[b"SET", key.as_bytes(), &[b'x'; 10_000]]);
    client.reply()
}

fn start(policy: &str) -> (Served, Client<TcpStream>) {
    let served = Served::start();
    let mut client = served.client();
    assert_eq!(client.ask(&format!("CONFIG SET maxmemory-policy {policy}")), "+OK");
    let line = format!("maxmemory_policy:{policy}");
    assert!(
        client.ask("INFO memory").contains(&line)
            && client.ask("CONFIG GET maxmemory-policy").ends_with(policy)
    );
    (served, client)
}

/// Writes three times what fits, and between writes reads `hot` keys; gives how many of these are there.
fn flood(client: &mut Client<TcpStream>, hot: usize) -> usize {
    const WRITES: usize = 4000;
    for number in 0..hot {
        assert_eq!(set(client, &format!("hot:{number}")), "+OK");
    }
    for _ in 0..20 {
        (0..hot).for_each(|number| drop(client.ask(&format!("STRLEN hot:{number}"))));
    }
    for number in 0..WRITES {
        assert_eq!(set(client, &format!("cold:{number}")), "+OK", "cold:{number}");
        if hot > 0 {
            client.ask(&format!("STRLEN hot:{}", number % hot));
        }
    }
    let there = db_size(client);
    assert!(there < WRITES, "not all fit");
    assert_eq!(info(client, "evicted_keys"), WRITES + hot - there, "each is counted once");
    (0..hot).filter(|number| client.ask(&format!("EXISTS hot:{number}")) == ":1").count()
}

#[test]
fn without_a_policy_writes_are_refused_and_nothing_goes() {
    let (_served, mut client) = start("noeviction");
    let written = (0..4000).take_while(|number| set(&mut client, &number.to_string()) == "+OK").count();
    assert_eq!(set(&mut client, "more"), "-OOM command not allowed when used memory > 'maxmemory'.");
    assert_eq!((db_size(&mut client), info(&mut client, "evicted_keys")), (written, 0));
    assert!(client.ask("CONFIG SET maxmemory-policy volatile-xyz").starts_with("-ERR CONFIG SET failed"));
}

#[test]
fn what_was_used_lately_stays() {
    let (_served, mut client) = start("allkeys-lru");
    let stay = flood(&mut client, 100);
    assert!(stay >= 90, "{stay} of 100");
}

#[test]
fn what_is_used_often_stays() {
    let (_served, mut client) = start("allkeys-lfu");
    let stay = flood(&mut client, 100);
    // At random one of a thousand would.
    assert!(stay >= 50, "{stay} of 100");
    assert!(client.ask("OBJECT FREQ cold:3999").starts_with(':'));
}

#[test]
fn anything_goes_if_that_is_the_policy() {
    let (_served, mut client) = start("allkeys-random");
    flood(&mut client, 0);
}

#[test]
fn what_expires_first_goes_first_and_what_never_does_stays() {
    let (_served, mut client) = start("volatile-ttl");
    for number in 0..300 {
        assert_eq!(set(&mut client, &format!("stays:{number}")), "+OK");
        assert_eq!(set(&mut client, &format!("goes:{number}")), "+OK");
        let line = format!("EXPIRE goes:{number} {}", 10_000 + (number * 7919) % 300);
        assert_eq!(client.ask(&line), ":1");
    }
    let mut more = 0;
    while info(&mut client, "evicted_keys") < 100 {
        assert_eq!(set(&mut client, &format!("more:{more}")), "+OK");
        more += 1;
    }
    let gone =
        |client: &mut Client<TcpStream>, number: usize| client.ask(&format!("EXISTS goes:{number}")) == ":0";
    for number in 0..300 {
        let rank = (number * 7919) % 300;
        let is_first = rank < info(&mut client, "evicted_keys");
        assert_eq!(gone(&mut client, number), is_first, "the one with rank {rank}");
    }
    while set(&mut client, &format!("more:{more}")) == "+OK" {
        more += 1;
        assert!(more < 4000, "what never expires is not evicted");
    }
    assert_eq!(info(&mut client, "evicted_keys"), 300);
    assert_eq!(db_size(&mut client), 300 + more);
}

#[test]
fn collections_make_room_and_get_it() {
    let (_served, mut client) = start("allkeys-lru");
    let element = vec![b'x'; 10_000];
    for list in 0..40 {
        for _ in 0..100 {
            client.send(&[b"RPUSH", format!("list:{list}").as_bytes(), &element]);
            assert!(client.reply().starts_with(':'), "there is always room");
        }
    }
    let (there, evicted) = (db_size(&mut client), info(&mut client, "evicted_keys"));
    assert!(evicted > 20 && there + evicted == 40, "{there} and {evicted}");
    assert_eq!(client.ask("LLEN list:39"), ":100");
}

/// Sets keys one after the other until what objects take is near its limit.
fn fill(client: &mut Client<TcpStream>) -> usize {
    (0..4000).take_while(|number| set(client, &format!("key:{number}")) == "+OK").count()
}

#[test]
fn objects_take_no_more_than_they_may() {
    let (_served, mut client) = start("noeviction");
    let memory = info(&mut client, "maxmemory");
    assert_eq!(client.ask("CONFIG SET maxmemory 4mb"), "+OK");
    assert!(client.ask("CONFIG GET maxmemory").ends_with("|4194304"));
    let written = fill(&mut client);
    assert!((300..420).contains(&written), "{written} of ten thousand bytes in four megabytes");
    assert_eq!(set(&mut client, "more"), "-OOM command not allowed when used memory > 'maxmemory'.");
    assert!(info(&mut client, "used_memory") <= 4 << 20 && info(&mut client, "evicted_keys") == 0);
    // As long as it was, or shorter: there is room for it.
    assert_eq!(client.ask("SET key:0 short"), "+OK");
    assert_eq!(client.ask("DEL key:1 key:2"), ":2");
    assert_eq!(set(&mut client, "more"), "+OK");
    assert_eq!(client.ask("CONFIG SET maxmemory 0"), "+OK");
    assert_eq!(info(&mut client, "maxmemory"), memory);
    assert_eq!(set(&mut client, "and more"), "+OK");
    for wrong in ["x", "-1", "100gb"] {
        let reply = client.ask(&format!("CONFIG SET maxmemory {wrong}"));
        assert!(
            reply.starts_with("-ERR CONFIG SET failed (possibly related to argument 'maxmemory')"),
            "{reply}"
        );
    }
}

#[test]
fn objects_go_when_they_may_take_less_and_only_under_a_policy() {
    let (_served, mut client) = start("noeviction");
    assert_eq!(client.ask("CONFIG SET maxmemory 8mb"), "+OK");
    let written = fill(&mut client);
    assert_eq!(client.ask("CONFIG SET maxmemory 2mb"), "+OK");
    assert_eq!(db_size(&mut client), written, "nothing goes under noeviction");
    assert_eq!(client.ask("EXPIRE key:0 1000"), "-OOM command not allowed when used memory > 'maxmemory'.");
    assert_eq!(client.ask("CONFIG SET maxmemory-policy allkeys-lru"), "+OK");
    let begun = std::time::Instant::now();
    while info(&mut client, "used_memory") > 2 << 20 {
        assert!(begun.elapsed() < redis::LONG, "they stay");
    }
    let there = db_size(&mut client);
    assert!((100..210).contains(&there), "{there} of ten thousand bytes in two megabytes");
    assert_eq!(info(&mut client, "evicted_keys"), written - there);
    assert_eq!(set(&mut client, "new"), "+OK");
    assert_eq!(client.ask("EXPIRE new 1000"), ":1", "others make room for a deadline as well");
}
