//! Redis clients that behave badly: the others are served, and memory stays bounded.

mod redis;

use std::io::Write;
use std::time::{Duration, Instant};

use farcall_kv::resp::Options;
use farcall_kv::store::MEMORY_BYTES_MIN;
use redis::memory::{alone, resident_bytes};
use redis::{Client, LONG, Served, request};

#[test]
fn half_a_command_and_silence_hold_nobody_up_and_reserve_nothing() {
    let _alone = alone();
    let served = Served::start();
    let mut honest = served.client();
    let before = resident_bytes();
    let silent: Vec<_> = (0..100)
        .map(|_| {
            let mut client = served.client();
            client.stream.write_all(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$134217728\r\nbegin").expect("it reads");
            client
        })
        .collect();
    for _ in 0..100 {
        assert_eq!(honest.ask("PING"), "+PONG");
    }
    let each = resident_bytes().saturating_sub(before) / silent.len();
    assert!(each < 64 << 10, "{each} bytes for each of them");
}

#[test]
fn idle_clients_take_little_memory() {
    let _alone = alone();
    let served = Served::start();
    let mut first = served.client();
    assert_eq!(first.ask("SET key value"), "+OK");
    let before = resident_bytes();
    let idle: Vec<_> = (0..400)
        .map(|_| {
            let mut client = served.unix_client();
            assert_eq!(client.ask("GET key"), "$5|value");
            client
        })
        .collect();
    assert_eq!(first.ask("PING"), "+PONG");
    // The client's side has what it received last.
    let each = resident_bytes().saturating_sub(before) / idle.len();
    assert!(each <= 4096, "{each} bytes for each of them");
}

#[test]
fn a_request_may_have_a_hundred_thousand_arguments() {
    let _alone = alone();
    let served = Served::start();
    let mut client = served.client();
    let keys: Vec<_> = (0..100_000).map(|number| number.to_string()).collect();
    let words: Vec<_> = [&b"DEL"[..]].into_iter().chain(keys.iter().map(String::as_bytes)).collect();
    client.send(&words);
    assert_eq!(client.reply(), ":0");
    let words: Vec<_> = [&b"MSET"[..]].into_iter().chain(keys.iter().map(String::as_bytes)).collect();
    client.send(&words);
    assert_eq!(client.reply(), "+OK");
    assert_eq!(client.ask("DBSIZE"), ":50000");
}

#[test]
fn who_pipelines_without_reading_waits_alone_and_gets_everything() {
    let _alone = alone();
    let served = Served::start();
    let (mut honest, mut greedy) = (served.client(), served.client());
    let value = vec![b'v'; 100_000];
    honest.send(&[b"SET", b"long", &value]);
    assert_eq!(honest.reply(), "+OK");
    let before = resident_bytes();
    const REQUESTS: usize = 5_000;
    let mut writer = greedy.stream.try_clone().expect("a socket");
    let writing = std::thread::spawn(move || {
        for _ in 0..REQUESTS {
            writer.write_all(&request(&[b"GET", b"long"])).expect("it reads, slowly");
        }
    });
    for number in 1..=1000 {
        assert_eq!(honest.ask("INCR n"), format!(":{number}"));
    }
    // Half a gigabyte is asked for.
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 32 << 20, "{grown} bytes more");
    for _ in 0..REQUESTS {
        assert_eq!(greedy.reply_bytes().expect("a reply").len(), value.len() + 11);
    }
    writing.join().expect("all was read");
}

#[test]
fn who_never_reads_is_sent_away() {
    let _alone = alone();
    let unread_for_max = Duration::from_millis(100);
    let served = Served::with(MEMORY_BYTES_MIN, Options { unread_for_max, ..Options::default() });
    let (mut honest, mut deaf) = (served.client(), served.client());
    honest.send(&[b"SET", b"long", &vec![b'v'; 1 << 20]]);
    assert_eq!(honest.reply(), "+OK");
    for _ in 0..64 {
        deaf.stream.write_all(&request(&[b"GET", b"long"])).expect("it reads");
    }
    let begun = Instant::now();
    while honest.ask("CLIENT LIST").contains("id=2 ") {
        assert!(begun.elapsed() < LONG, "it is still there");
    }
}

#[test]
fn many_clients_that_never_read_take_no_more_together_than_they_may() {
    let _alone = alone();
    const LIMIT: usize = 8 << 20;
    let options = Options { clients_bytes_max: LIMIT, ..Options::default() };
    let served = Served::with(MEMORY_BYTES_MIN, options);
    let mut honest = served.client();
    honest.send(&[b"SET", b"long", &vec![b'v'; 1 << 20]]);
    assert_eq!(honest.reply(), "+OK");
    assert_eq!(honest.ask("CONFIG GET maxmemory-clients"), format!("*2|$17|maxmemory-clients|$7|{LIMIT}"));
    // Their memory is that of many times the limit.
    let mut deaf: Vec<_> = (0..60).map(|_| served.unix_client()).collect();
    for client in &mut deaf {
        assert_eq!(client.ask("PING"), "+PONG");
    }
    // What they ask for comes while the front waits for the shard: nearly all of it is in one turn.
    let shard = served.shared.lock();
    for client in &deaf {
        // One that was sent away does not take it.
        let _ = (&client.stream).write_all(&request(&[b"GET", b"long"]).repeat(3));
    }
    honest.send(&[b"INFO"]);
    drop(shard);
    let number = |info: &str, name: &str| -> usize {
        let line = info.split('|').find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|number| number.parse().ok()).expect("it is told")
    };
    let begun = Instant::now();
    loop {
        let info = honest.reply();
        let taken = number(&info, "mem_clients_normal");
        assert!(taken < LIMIT + (1 << 20), "{taken} bytes of all clients");
        let left = number(&info, "connected_clients");
        assert_eq!(left + number(&info, "evicted_clients"), 1 + deaf.len(), "who is gone was counted");
        // So many of those that do not read fit.
        if left < 12 {
            break;
        }
        assert!(begun.elapsed() < LONG, "{left} are still there");
        honest.send(&[b"INFO"]);
    }
    assert_eq!(honest.ask("PING"), "+PONG");
}

/// What a client subscribes to, waits for and has begun to send counts as what it queued does.
#[test]
fn what_is_remembered_of_clients_counts_for_what_they_may_take() {
    let _alone = alone();
    const LIMIT: usize = 8 << 20;
    let options = Options { clients_bytes_max: LIMIT, ..Options::default() };
    let served = Served::with(MEMORY_BYTES_MIN, options);
    let mut admin = served.client();
    let long = "n".repeat(1025);
    for refused in ["CLIENT SETNAME", "CLIENT SETINFO lib-name", "CLIENT SETINFO lib-ver", "HELLO 2 SETNAME"]
    {
        let reply = admin.ask(&format!("{refused} {long}"));
        assert_eq!(reply, "-ERR a name is longer than 1024 bytes", "{refused}");
    }
    assert_eq!(admin.ask(&format!("SUBSCRIBE {long}")), "-ERR a channel is longer than 1024 bytes");
    let taken = |admin: &mut Client<_>| -> usize {
        let info = admin.ask("INFO memory");
        let line = info.split('|').find_map(|line| line.strip_prefix("mem_clients_normal:"));
        line.and_then(|number| number.parse().ok()).expect("it is told")
    };
    let before = taken(&mut admin);
    let names: Vec<String> = (0..1000).map(|number| format!("{number:0>1000}")).collect();
    for (begins, ends) in [("SUBSCRIBE", "UNSUBSCRIBE"), ("PSUBSCRIBE", "PUNSUBSCRIBE")] {
        let mut client = served.client();
        let all = |command: &'static str| -> Vec<&[u8]> {
            [command].into_iter().chain(names.iter().map(String::as_str)).map(str::as_bytes).collect()
        };
        client.send(&all(begins));
        (0..names.len()).for_each(|_| _ = client.reply());
        let subscribed = taken(&mut admin);
        assert!(subscribed > before + 2_000_000, "{subscribed} bytes");
        client.send(&all(ends));
        (0..names.len()).for_each(|_| _ = client.reply());
        assert_eq!(client.ask("PING"), "+PONG");
        assert!(taken(&mut admin) < before + 1_000_000);
    }
    let mut waiting = served.client();
    let keys: Vec<&[u8]> = names[..900].iter().map(|name| name.as_bytes()).collect();
    waiting.send(&[&[&b"BLPOP"[..]], &keys[..], &[b"0"]].concat());
    let begun = Instant::now();
    while taken(&mut admin) < before + 1_800_000 {
        assert!(begun.elapsed() < LONG, "it waits");
    }
    // A request with many arguments that is not whole takes more than its bytes.
    let mut sending = served.client();
    let part = b"$1\r\na\r\n".repeat(500_000);
    // It may be sent away before it has sent all of it.
    let _ = sending.stream.write_all(&[&b"*1000000\r\n"[..], &part].concat());
    assert_eq!(sending.reply_bytes(), None, "it takes most");
    assert!(admin.ask("INFO").contains("|evicted_clients:1|"));
}

#[test]
fn the_client_that_takes_most_makes_room_unless_it_is_spared() {
    let _alone = alone();
    let options = Options { clients_bytes_max: 8 << 20, ..Options::default() };
    let served = Served::with(MEMORY_BYTES_MIN, options);
    let queue = |client: &mut Client<_>, times: usize, bytes: usize| {
        assert_eq!(client.ask("MULTI"), "+OK");
        for _ in 0..times {
            client.send(&[b"SET", b"k", &vec![b'v'; bytes]]);
            assert_eq!(client.reply(), "+QUEUED");
        }
    };
    let [mut most, mut small, mut spared, mut last] = core::array::from_fn(|_| served.client());
    queue(&mut most, 3, 1_000_000);
    queue(&mut small, 1, 500_000);
    assert_eq!(spared.ask("CLIENT NO-EVICT on"), "+OK");
    queue(&mut spared, 4, 1_000_000);
    queue(&mut last, 1, 1_000_000);
    assert_eq!(most.reply_bytes(), None, "it took most of those that are not spared");
    for client in [&mut small, &mut spared, &mut last] {
        assert!(client.ask("EXEC").ends_with("+OK"));
    }
    queue(&mut small, 3, 1_000_000);
    queue(&mut last, 1, 1_000_000);
    let mut admin = served.client();
    assert!(admin.ask("CONFIG SET maxmemory-clients much").starts_with("-ERR CONFIG SET failed"));
    assert_eq!(admin.ask("CONFIG SET maxmemory-clients 2mb"), "+OK");
    assert_eq!(small.reply_bytes(), None, "what is set holds at once");
    assert_eq!(last.ask("EXEC"), "*1|+OK");
}

#[test]
fn clients_that_are_spared_do_not_have_the_others_sent_away() {
    let _alone = alone();
    let options = Options { clients_bytes_max: 8 << 20, ..Options::default() };
    let served = Served::with(MEMORY_BYTES_MIN, options);
    let mut honest = served.client();
    assert_eq!(honest.ask("SET key value"), "+OK");
    let mut spared: Vec<_> = (0..9)
        .map(|_| {
            let mut client = served.client();
            assert_eq!(client.ask("CLIENT NO-EVICT on"), "+OK");
            client.send(&[b"MULTI"]);
            client.send(&[b"SET", b"k", &vec![b'v'; 1_000_000]]);
            assert_eq!((client.reply(), client.reply()), ("+OK".to_owned(), "+QUEUED".to_owned()));
            client
        })
        .collect();
    assert_eq!(honest.ask("GET key"), "$5|value");
    spared.retain_mut(|client| {
        let _ = client.stream.write_all(b"PING\r\n");
        client.reply_bytes().is_some()
    });
    assert_eq!(spared.len(), 6, "they leave a quarter of the limit");
}

#[test]
fn a_reply_that_is_too_long_is_refused() {
    let _alone = alone();
    let served = Served::start();
    let mut client = served.client();
    client.send(&[b"SET", b"long", &vec![b'v'; 1 << 20]]);
    assert_eq!(client.reply(), "+OK");
    let words: Vec<_> = [&b"MGET"[..]].into_iter().chain((0..300).map(|_| &b"long"[..])).collect();
    client.send(&words);
    assert_eq!(client.reply(), "-ERR the reply is longer than 268435456 bytes");
    assert_eq!(client.ask("PING"), "+PONG");
}

#[test]
fn patterns_that_would_take_long_are_refused() {
    let _alone = alone();
    let served = Served::start();
    let mut client = served.client();
    let pattern = [b"*".as_slice(), &[b'a'; 1022], b"b"].concat();
    let longer = [pattern.as_slice(), b"*"].concat();
    for command in ["KEYS", "SCAN 0 MATCH", "HSCAN h 0 MATCH", "PUBSUB CHANNELS", "CONFIG GET", "PSUBSCRIBE"]
    {
        let words = command.split(' ').map(str::as_bytes);
        client.send(&words.clone().chain([longer.as_slice()]).collect::<Vec<_>>());
        assert_eq!(client.reply(), "-ERR a pattern is longer than 1024 bytes", "{command}");
    }
    let key = [[b'a'; 60_000].as_slice(), b"b"].concat();
    client.send(&[b"SET", &key, b"1"]);
    assert_eq!(client.reply(), "+OK");
    client.send(&[b"KEYS", &pattern]);
    assert!(client.reply().starts_with("*1|$60001|aaaa"));
}
