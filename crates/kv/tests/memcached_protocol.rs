//! What memcached clients are answered, line by line, and that it is the data of Redis clients.

mod memcached;
mod redis;

use std::time::Instant;

use memcached::Memcached;
use redis::{LONG, Served};

fn dialogue(pairs: &[(&str, &str)]) {
    let served = Served::start();
    let mut client = Memcached::of(&served);
    for (request, answer) in pairs {
        assert_eq!(client.ask(request), *answer, "{request}");
    }
}

#[test]
fn text_commands_do_what_memcached_does() {
    dialogue(&[
        ("get a", "END|"),
        ("set a 4294967295 0 3|xyz", "STORED|"),
        ("get a", "VALUE a 4294967295 3|xyz|END|"),
        ("get b a c a", "VALUE a 4294967295 3|xyz|VALUE a 4294967295 3|xyz|END|"),
        ("add a 0 0 1|x", "NOT_STORED|"),
        ("add b 5 0 0|", "STORED|"),
        ("get b", "VALUE b 5 0||END|"),
        ("replace c 0 0 1|x", "NOT_STORED|"),
        ("replace b 6 0 2|bb", "STORED|"),
        ("append b 9 9 1|>", "STORED|"),
        ("prepend b 9 9 1|<", "STORED|"),
        ("get b", "VALUE b 6 4|<bb>|END|"),
        ("append c 0 0 1|x", "NOT_STORED|"),
        ("cas c 0 0 1 1|x", "NOT_FOUND|"),
        ("cas b 0 0 1 1|x", "EXISTS|"),
        ("incr b 1", "CLIENT_ERROR cannot increment or decrement non-numeric value|"),
        ("incr n 1", "NOT_FOUND|"),
        ("set n 7 0 20|18446744073709551615", "STORED|"),
        ("incr n 2", "1|"),
        ("decr n 5", "0|"),
        ("incr n 10", "10|"),
        ("decr n 1", "9|"),
        ("get n", "VALUE n 7 1|9|END|"),
        ("incr n x", "CLIENT_ERROR invalid numeric delta argument|"),
        ("touch n 100", "TOUCHED|"),
        ("touch none 100", "NOT_FOUND|"),
        ("gat 0 n none", "VALUE n 7 1|9|END|"),
        ("delete n", "DELETED|"),
        ("delete n", "NOT_FOUND|"),
        ("set past 0 -1 1|x", "STORED|"),
        ("get past", "END|"),
        ("set past 0 2592001 1|x", "STORED|"),
        ("get past", "END|"),
        ("set a 0 0 1 noreply|z|get a", "VALUE a 0 1|z|END|"),
        ("add a 0 0 1 noreply|y|incr a 1 noreply|touch none 1 noreply|delete none noreply", ""),
        ("verbosity 1", "OK|"),
        ("stats reset", "ERROR|"),
        ("stats items", "END|"),
        ("GET a", "ERROR|"),
        ("flush_all", "OK|"),
        ("get a b", "END|"),
        ("flush_all noreply|version", concat!("VERSION 1.6.18-farcall-", env!("CARGO_PKG_VERSION"), "|")),
    ]);
}

#[test]
fn what_is_refused_is_skipped_and_the_next_request_is_served() {
    let long_key = "k".repeat(251);
    dialogue(&[
        ("set a 0 0 1|toolong|get a", "CLIENT_ERROR bad data chunk|ERROR|END|"),
        ("set a 0 x 7|get a b", "CLIENT_ERROR bad command line format|"),
        (&format!("set {long_key} 0 0 9|flush_all"), "CLIENT_ERROR bad command line format|"),
        (&format!("get {}", &long_key[1..]), "END|"),
        (&format!("get a {long_key}"), "CLIENT_ERROR bad command line format|"),
        ("ms a 9 X|flush_all", "CLIENT_ERROR invalid flag|"),
    ]);
}

#[test]
fn a_value_that_is_too_long_is_skipped_and_takes_the_old_one_with_it() {
    let served = Served::start();
    let mut client = Memcached::of(&served);
    let value = vec![b'\n'; 1 << 20];
    let set =
        |key: &str, value: &[u8]| [format!("set {key} 3 0 {}\r\n", value.len()).as_bytes(), value].concat();
    assert_eq!(client.ask_bytes(&set("a", &value)), b"STORED\r\n");
    let found = client.ask_bytes(b"get a");
    assert_eq!(found, [b"VALUE a 3 1048576\r\n", &value[..], b"\r\nEND\r\n"].concat());
    let longer = vec![b'x'; (1 << 20) + 1];
    assert_eq!(client.ask_bytes(&set("a", &longer)), b"SERVER_ERROR object too large for cache\r\n");
    assert_eq!(client.ask("get a"), "END|");
    assert_eq!(client.ask("append a 0 0 1|x"), "NOT_STORED|");
    assert_eq!(client.ask_bytes(&set("a", &value)), b"STORED\r\n");
    assert_eq!(client.ask("append a 0 0 1|x"), "SERVER_ERROR object too large for cache|");
}

#[test]
fn meta_commands_do_what_memcached_does() {
    dialogue(&[
        ("mg a v", "EN|"),
        ("mg a q|mg a v q", ""),
        ("mg a k Ox", "EN ka Ox|"),
        ("ms a 2 F7 T100 k Oabc|hi", "HD ka Oabc|"),
        ("mg a", "HD|"),
        ("mg a v s f t k Ox q", "VA 2 s2 f7 t100 ka Ox|hi|"),
        ("ms a 2 q|ho", ""),
        ("mg a v f t", "VA 2 f0 t-1|ho|"),
        ("ms a 1 ME|x", "NS|"),
        ("ms a 1 MA|!", "HD|"),
        ("ms a 1 MP|>", "HD|"),
        ("mg a v", "VA 4|>ho!|"),
        ("ms none 1 MR|x", "NS|"),
        ("ms none 1 MA|x", "NS|"),
        ("ms none 1 MA N60|x", "HD|"),
        ("mg none v t", "VA 1 t60|x|"),
        ("ms a 1 C1|x", "EX|"),
        ("ms other 1 C1|x", "NF|"),
        ("md a C1", "EX|"),
        ("md a k Oq", "HD ka Oq|"),
        ("md a", "NF|"),
        ("md nothing q", "NF|"),
        ("ma n v", "NF|"),
        ("ma n N0 J5 v", "VA 1|5|"),
        ("ma n D10 v t", "VA 2 t-1|15|"),
        ("ma n MD D20 v", "VA 1|0|"),
        ("ma n q", ""),
        ("ma n v", "VA 1|2|"),
        ("ms text 1|x", "HD|"),
        ("ma text", "CLIENT_ERROR cannot increment or decrement non-numeric value|"),
        ("ms Zm9v 3 b k|bar", "HD kZm9v b|"),
        ("mg Zm9v v b", "VA 3|bar|"),
        ("mg foo t T50", "HD t-1|"),
        ("mg foo T60 t", "HD t60|"),
        ("get foo", "VALUE foo 0 3|bar|END|"),
        ("mg a x", "CLIENT_ERROR invalid flag|"),
        ("mg a v v", "CLIENT_ERROR duplicate flag|"),
        ("me none2", "EN|"),
    ]);
}

#[test]
fn one_client_is_asked_to_renew_what_is_stale_and_others_are_told_so() {
    dialogue(&[
        // What is not there is created, once.
        ("mg a N30 v", "VA 0 W||"),
        ("mg a N30 v", "VA 0 Z||"),
        ("ms a 1 T100|1", "HD|"),
        ("mg a N30 v", "VA 1|1|"),
        // What ends soon is renewed by the first that asks.
        ("mg a R30 v", "VA 1|1|"),
        ("mg a R200 v", "VA 1 W|1|"),
        ("mg a R200 v", "VA 1 Z|1|"),
        ("ms a 1 T100|2", "HD|"),
        // What is marked as stale is served until it is renewed.
        ("md a I T30", "HD|"),
        ("mg a v t", "VA 1 t30 X W|2|"),
        ("mg a v", "VA 1 Z X|2|"),
        ("ms a 1|3", "HD|"),
        ("mg a v t", "VA 1 t-1|3|"),
    ]);
}

#[test]
fn a_value_that_is_older_than_the_stored_one_may_be_taken_as_stale() {
    let served = Served::start();
    let mut client = Memcached::of(&served);
    assert_eq!(client.ask("ms a 1|1"), "HD|");
    let answer = client.ask("mg a c");
    let version: u64 = answer.trim_matches(|c: char| !c.is_ascii_digit()).parse().expect("a version");
    assert_eq!(client.ask("md a I"), "HD|");
    assert_eq!(client.ask(&format!("ms a 1 C{version}|2")), "EX|");
    assert_eq!(client.ask(&format!("ms a 1 I C{version}|2")), "HD|");
    assert_eq!(client.ask("mg a v"), "VA 1 X W|2|");
}

#[test]
fn versions_change_with_values_and_not_with_times() {
    let served = Served::start();
    let (mut client, mut redis) = (Memcached::of(&served), served.client());
    let unique = |client: &mut Memcached<_>| -> u64 {
        let answer = client.ask("gets a");
        let line = answer.split('|').next().expect("a line");
        line.rsplit(' ').next().and_then(|word| word.parse().ok()).expect("a number")
    };
    assert_eq!(client.ask("set a 5 0 1|1"), "STORED|");
    let first = unique(&mut client);
    assert_eq!(client.ask("touch a 100"), "TOUCHED|");
    assert_eq!(client.ask("gat 200 a"), "VALUE a 5 1|1|END|");
    assert_eq!(client.ask(&format!("cas a 6 0 1 {first}|2")), "STORED|");
    let second = unique(&mut client);
    assert!(second > first);
    assert_eq!(client.ask(&format!("cas a 0 0 1 {first}|3")), "EXISTS|");
    assert_eq!(redis.ask("SET a 4"), "+OK");
    assert_eq!(client.ask(&format!("cas a 0 0 1 {second}|3")), "EXISTS|");
    assert_eq!(redis.ask("WATCH a"), "+OK");
    assert_eq!(client.ask("set a 0 0 1|5"), "STORED|");
    assert_eq!([redis.ask("MULTI"), redis.ask("GET a"), redis.ask("EXEC")], ["+OK", "+QUEUED", "*-1"]);
}

#[test]
fn redis_clients_see_the_same_strings_and_flags_stay_while_a_value_is_changed() {
    let served = Served::start();
    let (mut client, mut redis) = (Memcached::of(&served), served.client());
    assert_eq!(client.ask("set n 9 0 2|41"), "STORED|");
    assert_eq!(redis.ask("GET n"), "$2|41");
    assert_eq!(redis.ask("INCR n"), ":42");
    assert_eq!(redis.ask("APPEND n 0"), ":3");
    assert_eq!(redis.ask("EXPIRE n 1000"), ":1");
    assert_eq!(redis.ask("RENAME n m"), "+OK");
    assert_eq!(client.ask("mg m f v t"), "VA 3 f9 t1000|420|");
    assert_eq!(redis.ask("SET m 1"), "+OK");
    assert_eq!(client.ask("get m"), "VALUE m 0 1|1|END|");
    assert_eq!(redis.ask("SET long:lived x EX 60"), "+OK");
    assert_eq!(client.ask("mg long:lived t"), "HD t60|");
    assert_eq!(redis.ask("SELECT 1"), "+OK");
    assert_eq!(redis.ask("GET m"), "$-1", "it is another database");
}

#[test]
fn collections_of_redis_clients_have_no_value_and_are_replaced() {
    let served = Served::start();
    let (mut client, mut redis) = (Memcached::of(&served), served.client());
    assert_eq!(redis.ask("RPUSH list a b"), ":2");
    for (request, answer) in [
        ("get list", "END|"),
        ("gat 10 list", "END|"),
        ("mg list v", "EN|"),
        ("add list 0 0 1|x", "NOT_STORED|"),
        ("append list 0 0 1|x", "NOT_STORED|"),
        ("incr list 1", "NOT_FOUND|"),
        ("touch list 10", "NOT_FOUND|"),
        ("md list I", "HD|"),
        ("md list", "NF|"),
    ] {
        assert_eq!(client.ask(request), answer, "{request}");
    }
    assert_eq!(redis.ask("RPUSH list a b"), ":2");
    assert_eq!(client.ask("set list 1 0 1|x"), "STORED|");
    assert_eq!(redis.ask("TYPE list"), "+string");
}

#[test]
fn everything_is_deleted_when_it_was_asked_for() {
    let served = Served::start();
    let mut client = Memcached::of(&served);
    assert_eq!(client.ask("set a 0 0 1|x"), "STORED|");
    assert_eq!(client.ask("flush_all 10000"), "OK|");
    assert_eq!(client.ask("get a"), "VALUE a 0 1|x|END|");
    // It takes the place of the one that was to come.
    assert_eq!(client.ask("flush_all 1"), "OK|");
    let begun = Instant::now();
    while client.ask("get a") != "END|" {
        assert!(begun.elapsed() < LONG, "it is never deleted");
    }
    assert_eq!(client.ask("set a 0 0 1|x|get a"), "STORED|VALUE a 0 1|x|END|");
}

#[test]
fn what_expires_is_gone_at_that_second() {
    let served = Served::start();
    let mut client = Memcached::of(&served);
    assert_eq!(client.ask("set a 0 1 1|x"), "STORED|");
    let begun = Instant::now();
    while client.ask("get a") != "END|" {
        assert!(begun.elapsed() < LONG, "it never expires");
    }
    assert_eq!(client.ask("add a 0 0 1|y"), "STORED|");
}

#[test]
fn statistics_count_what_clients_did() {
    let served = Served::start();
    let mut client = Memcached::of(&served);
    client.ask("set a 0 0 1|x|get a b a|touch a 5|flush_all 100000");
    let statistics = client.ask("stats");
    for line in
        ["cmd_get 3", "get_hits 2", "get_misses 1", "cmd_set 1", "cmd_touch 1", "cmd_flush 1", "curr_items 1"]
    {
        assert!(statistics.contains(&format!("STAT {line}|")), "{line}: {statistics}");
    }
    assert!(statistics.ends_with("|END|"));
    assert!(client.ask("stats settings").contains("STAT item_size_max 1048576|"));
}
