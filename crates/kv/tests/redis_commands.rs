//! Commands of Redis clients, and what other doors to the same data see of them.

mod redis;

use std::io::Write;
use std::time::Instant;

use farcall_kv::store::Condition;
use farcall_kv::{Name, TableId, Value};
use redis::{LONG, Served};

#[test]
fn strings_are_set_and_read_in_every_way() {
    let served = Served::start();
    let mut client = served.client();
    for (line, reply) in [
        ("SET a 1 NX", "+OK"),
        ("SET a 2 NX", "$-1"),
        ("SET b 2 XX", "$-1"),
        ("SET a 3 XX GET", "$1|1"),
        ("SET c 3 GET", "$-1"),
        ("SET a 1 NX XX", "-ERR syntax error"),
        ("SET a 1 EX 10 PX 10", "-ERR syntax error"),
        ("SET a 1 EX 0", "-ERR invalid expire time in 'set' command"),
        ("SET a 1 EX 9223372036854775807", "-ERR invalid expire time in 'set' command"),
        ("SETNX a 9", ":0"),
        ("SETNX d 9", ":1"),
        ("MSET e 1 f 2", "+OK"),
        ("MSET e 1 f", "-ERR wrong number of arguments for 'mset' command"),
        ("MSETNX g 1 e 2", ":0"),
        ("MSETNX g 1 h 2", ":1"),
        ("MGET e none f", "*3|$1|1|$-1|$1|2"),
        ("GETSET e new", "$1|1"),
        ("GETDEL e", "$3|new"),
        ("EXISTS e", ":0"),
        ("APPEND s abc", ":3"),
        ("APPEND s def", ":6"),
        ("STRLEN s", ":6"),
        ("GETRANGE s 1 -2", "$4|bcde"),
        ("SETRANGE s 8 x", ":9"),
        ("GETRANGE s 5 -1", "$4|f\0\0x"),
        ("SETRANGE s 536870912 x", "-ERR string exceeds maximum allowed size (proto-max-bulk-len)"),
        ("INCRBYFLOAT n 0.1", "$3|0.1"),
        ("INCRBYFLOAT n 0.2", "$3|0.3"),
        ("DECRBY i 5", ":-5"),
        ("DECRBY i -9223372036854775808", "-ERR decrement would overflow"),
        ("INCRBY i 9223372036854775807", ":9223372036854775802"),
        ("INCRBY i 9", "-ERR increment or decrement would overflow"),
        ("INCR s", "-ERR value is not an integer or out of range"),
    ] {
        assert_eq!(client.ask(line), reply, "{line}");
    }
}

#[test]
fn numbers_that_are_none_are_refused_in_redis_words() {
    let served = Served::start();
    let mut client = served.client();
    for (line, reply) in [
        ("ZADD z 1e309 m", "-ERR value is not a valid float"),
        ("ZADD z +inf m -inf n", ":2"),
        ("HINCRBYFLOAT h f inf", "-ERR value is NaN or Infinity"),
        ("LMPOP 1 l LEFT COUNT x", "-ERR count should be greater than 0"),
        ("ZINTERCARD 1 z LIMIT x", "-ERR LIMIT can't be negative"),
        ("ZINTERCARD 0 z", "-ERR at least 1 input key is needed for 'zintercard' command"),
        ("ZINTERCARD 2 z", "-ERR syntax error"),
        ("ZINTERCARD 1 z LIMIT 1", ":1"),
    ] {
        assert_eq!(client.ask(line), reply, "{line}");
    }
}

#[test]
fn keys_expire_and_say_when() {
    let served = Served::start();
    let mut client = served.client();
    for (line, reply) in [
        ("SET a 1 EX 100", "+OK"),
        ("TTL a", ":100"),
        ("SET a 2 KEEPTTL", "+OK"),
        ("TTL a", ":100"),
        ("INCR a", ":3"),
        ("TTL a", ":100"),
        ("EXPIRE a 50 GT", ":0"),
        ("EXPIRE a 200 GT", ":1"),
        ("EXPIRE a 10 NX", ":0"),
        ("EXPIRE a 10 NX XX", "-ERR NX and XX, GT or LT options at the same time are not compatible"),
        ("EXPIRE a 10 LT XX", ":1"),
        ("PERSIST a", ":1"),
        ("PERSIST a", ":0"),
        ("TTL a", ":-1"),
        ("TTL none", ":-2"),
        ("EXPIRE a 10 GT", ":0"),
        ("EXPIRE a 10 LT", ":1"),
        ("SET a 1", "+OK"),
        ("TTL a", ":-1"),
        ("PEXPIREAT a 33177117420000", ":1"),
        ("PEXPIRETIME a", ":33177117420000"),
        ("EXPIRETIME a", ":33177117420"),
        ("GETEX a PERSIST", "$1|1"),
        ("TTL a", ":-1"),
        ("GETEX a EX 100", "$1|1"),
        ("RENAME a b", "+OK"),
        ("TTL b", ":100"),
        ("COPY b c", ":1"),
        ("TTL c", ":100"),
        ("EXPIRE b -1", ":1"),
        ("EXISTS b", ":0"),
        ("EXPIREAT c 1", ":1"),
        ("EXISTS c", ":0"),
        ("EXPIRE a 9223372036854775807", "-ERR invalid expire time in 'expire' command"),
    ] {
        assert_eq!(client.ask(line), reply, "{line}");
    }
}

/// Asks until a reply is another one.
fn ask_until(client: &mut redis::Client<std::net::TcpStream>, line: &str, wanted: &str) {
    let begun = Instant::now();
    while client.ask(line) != wanted {
        assert!(begun.elapsed() < LONG, "{line} never gives {wanted}");
    }
}

#[test]
fn what_has_expired_is_gone_for_every_door_and_its_memory_is_free() {
    let served = Served::start();
    let mut client = served.client();
    for number in 0..100 {
        assert_eq!(client.ask(&format!("SET key:{number} value PX 20")), "+OK");
    }
    assert_eq!(client.ask("SET stays value"), "+OK");
    ask_until(&mut client, "EXISTS key:99", ":0");
    let table = TableId::of("default").expect("short");
    // Nobody asks for them any more, and they are removed all the same.
    ask_until(&mut client, "DBSIZE", ":1");
    let mut shard = served.shared.lock();
    let store = shard.store_mut();
    assert_eq!((store.expiring(), store.statistics().objects), (0, 1));
    let name = Name::new(table, b"stays").expect("short");
    assert_eq!(store.get(name).expect("a table").expect("it stays").to_vec(), b"value");
    store.put(name, Value::new(b"other").expect("short"), Condition::Always).expect("room");
    drop(shard);
    assert_eq!(client.ask("GET stays"), "$5|other");
}

#[test]
fn a_scan_meets_every_key_that_stays_exactly_once() {
    let served = Served::start();
    let (mut client, mut other) = (served.client(), served.unix_client());
    for number in 0..1000 {
        assert_eq!(client.ask(&format!("SET stays:{number} x")), "+OK");
    }
    let (mut cursor, mut met, mut changes) = ("0".to_owned(), Vec::new(), 0);
    loop {
        let reply = client.ask(&format!("SCAN {cursor} MATCH stays:* COUNT 20"));
        let mut parts = reply.split('|').skip(2);
        parts.next().expect("a cursor").clone_into(&mut cursor);
        met.extend(parts.skip(2).step_by(2).map(str::to_owned));
        if cursor == "0" {
            break;
        }
        for line in ["SET comes:{n} x", "DEL comes:{n}", "SET stays:{n} longer", "RENAME comes:{n} went:{n}"]
        {
            changes += 1;
            let _either = other.ask(&line.replace("{n}", &(changes % 700).to_string()));
        }
    }
    met.sort_unstable();
    let mut expected: Vec<_> = (0..1000).map(|number| format!("stays:{number}")).collect();
    expected.sort_unstable();
    assert_eq!(met, expected);
    assert_eq!(client.ask("SCAN x"), "-ERR invalid cursor");
    assert_eq!(client.ask("SCAN 0 COUNT 0"), "-ERR syntax error");
}

#[test]
fn keys_are_found_moved_and_flushed() {
    let served = Served::start();
    let mut client = served.client();
    assert_eq!(client.ask("RANDOMKEY"), "$-1");
    assert_eq!(client.ask("KEYS *"), "*0");
    for (line, reply) in [
        ("MSET one 1 two 2", "+OK"),
        ("KEYS t*", "*1|$3|two"),
        ("TYPE one", "+string"),
        ("TYPE none", "+none"),
        ("RENAME none x", "-ERR no such key"),
        ("RENAMENX one two", ":0"),
        ("RENAMENX one three", ":1"),
        ("RENAME three three", "+OK"),
        ("COPY two three", ":0"),
        ("COPY two three REPLACE", ":1"),
        ("GET three", "$1|2"),
        ("MOVE three 1", ":1"),
        ("COPY two other DB 1", ":1"),
        ("DBSIZE", ":1"),
        ("SELECT 1", "+OK"),
        ("DBSIZE", ":2"),
        ("FLUSHDB", "+OK"),
        ("DBSIZE", ":0"),
        ("SELECT 0", "+OK"),
        ("RANDOMKEY", "$3|two"),
        ("OBJECT ENCODING two", "$3|int"),
        ("MEMORY USAGE two", ":32"),
        ("FLUSHALL ASYNC", "+OK"),
        ("DBSIZE", ":0"),
        ("KEYS *", "*0"),
    ] {
        assert_eq!(client.ask(line), reply, "{line}");
    }
}

#[test]
fn transactions_run_whole_or_not_at_all() {
    let served = Served::start();
    let (mut client, mut other) = (served.client(), served.client());
    assert_eq!(client.ask("MULTI"), "+OK");
    assert_eq!(client.ask("INCR n"), "+QUEUED");
    assert_eq!(client.ask("KEYS *"), "+QUEUED");
    assert_eq!(client.ask("INCR n x"), "-ERR wrong number of arguments for 'incr' command");
    assert_eq!(client.ask("EXEC"), "-EXECABORT Transaction discarded because of previous errors.");
    assert_eq!(client.ask("WATCH n"), "+OK");
    assert_eq!(other.ask("SET n 5"), "+OK");
    assert_eq!([client.ask("MULTI"), client.ask("INCR n"), client.ask("EXEC")], ["+OK", "+QUEUED", "*-1"]);
    assert_eq!(client.ask("WATCH n"), "+OK");
    for line in ["MULTI", "INCR n", "GET n", "KEYS *", "INCR n x", "XADD"] {
        client
            .stream
            .write_all(&redis::request(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>()))
            .expect("it reads");
    }
    assert_eq!(
        [client.reply(), client.reply(), client.reply(), client.reply()],
        ["+OK", "+QUEUED", "+QUEUED", "+QUEUED"]
    );
    assert!(
        client.reply().starts_with("-ERR wrong number") && client.reply().starts_with("-ERR unknown command")
    );
    assert_eq!(client.ask("DISCARD"), "+OK");
    for line in ["MULTI", "INCR n", "GET n", "KEYS *"] {
        client.ask(line);
    }
    assert_eq!(client.ask("EXEC"), "*3|:6|$1|6|*1|$1|n");
    assert_eq!(client.ask("EXEC"), "-ERR EXEC without MULTI");
}

#[test]
fn messages_reach_the_subscribers_of_their_channel() {
    let served = Served::start();
    let (mut subscriber, mut modern, mut publisher) =
        (served.client(), served.client(), served.unix_client());
    assert_eq!(publisher.ask("PUBLISH news none"), ":0");
    assert_eq!(subscriber.ask("SUBSCRIBE news other"), "*3|$9|subscribe|$4|news|:1");
    assert_eq!(subscriber.reply(), "*3|$9|subscribe|$5|other|:2");
    assert!(subscriber.ask("GET a").starts_with("-ERR Can't execute 'get': only (P|S)SUBSCRIBE"));
    assert_eq!(subscriber.ask("PING"), "*2|$4|pong|$0");
    assert!(modern.ask("HELLO 3").starts_with('%'));
    assert_eq!(modern.ask("PSUBSCRIBE n?ws"), ">3|$10|psubscribe|$4|n?ws|:1");
    assert_eq!(publisher.ask("PUBLISH news hello"), ":2");
    assert_eq!(subscriber.reply(), "*3|$7|message|$4|news|$5|hello");
    assert_eq!(modern.reply(), ">4|$8|pmessage|$4|n?ws|$4|news|$5|hello");
    assert_eq!(modern.ask("GET a"), "_", "with RESP3 commands go on");
    assert_eq!(publisher.ask("PUBSUB NUMSUB news none"), "*4|$4|news|:1|$4|none|:0");
    assert_eq!(publisher.ask("PUBSUB NUMPAT"), ":1");
    assert_eq!(publisher.ask("PUBSUB CHANNELS o*"), "*1|$5|other");
    // In which order is left open.
    let (first, second) = (subscriber.ask("UNSUBSCRIBE"), subscriber.reply());
    let of = |name: &str, left: u32| format!("*3|$11|unsubscribe|${}|{name}|:{left}", name.len());
    let orders = [(of("news", 1), of("other", 0)), (of("other", 1), of("news", 0))];
    assert!(orders.contains(&(first, second)));
    assert_eq!(subscriber.ask("UNSUBSCRIBE"), "*3|$11|unsubscribe|$-1|:0");
    assert_eq!(modern.ask("RESET"), "+RESET");
    assert_eq!(publisher.ask("PUBLISH news gone"), ":0");
}

#[test]
fn every_command_is_documented_and_nothing_else_is() {
    let served = Served::start();
    let mut client = served.client();
    let docs = client.ask("COMMAND DOCS");
    let names = docs.split('|').skip(1).collect::<Vec<_>>();
    // Of each command: its name, and a map of a summary and a group.
    let mut there: Vec<_> = names.chunks(11).map(|command| command[1].to_owned()).collect();
    there.sort_unstable();
    let page = include_str!("../../../docs/redis.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let mut documented: Vec<_> = rows.map(|(name, _)| name.to_lowercase()).collect();
    documented.sort_unstable();
    assert_eq!(there, documented, "rows of docs/redis.md and commands");
}

#[test]
fn an_exec_that_is_none_ends_the_transaction() {
    let served = Served::start();
    let mut client = served.client();
    let refused = "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command";
    assert_eq!(client.ask("EXEC x"), refused);
    for (line, reply) in [
        ("WATCH key", "+OK"),
        ("MULTI", "+OK"),
        ("SET key value", "+QUEUED"),
        ("EXEC x", refused),
        ("GET key", "$-1"),
        ("EXEC", "-ERR EXEC without MULTI"),
        ("MULTI", "+OK"),
        ("DISCARD x", "-ERR wrong number of arguments for 'discard' command"),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
    ] {
        assert_eq!(client.ask(line), reply, "{line}");
    }
}

#[test]
fn used_memory_goes_back_when_everything_is_deleted() {
    let served = Served::start();
    let mut client = served.client();
    let used = |client: &mut redis::Client<_>| -> usize {
        let info = client.ask("INFO memory");
        let line = info.split('|').find_map(|line| line.strip_prefix("used_memory:")).expect("a line");
        line.parse().expect("a number")
    };
    let before = used(&mut client);
    for deletes in ["FLUSHALL", "one by one"] {
        for number in 0..20_000 {
            client.send(&[b"SET", format!("key {number}").as_bytes(), b"value", b"EX", b"1000"]);
        }
        (0..20_000).for_each(|_| assert_eq!(client.reply(), "+OK"));
        assert!(used(&mut client) > before + 20_000 * 40);
        if deletes == "FLUSHALL" {
            assert_eq!(client.ask(deletes), "+OK");
        } else {
            for number in 0..20_000 {
                client.send(&[b"DEL", format!("key {number}").as_bytes()]);
            }
            (0..20_000).for_each(|_| assert_eq!(client.reply(), ":1"));
        }
        let until = std::time::Instant::now() + redis::LONG;
        while used(&mut client) != before {
            assert!(std::time::Instant::now() < until, "{} bytes after {deletes}", used(&mut client));
        }
    }
}
