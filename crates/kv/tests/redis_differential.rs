//! Random commands, to us and to the redis-server of this machine: the replies are the same.
//! Where there is no redis-server nothing is tested, and it says so; `scripts/prepare test` installs it.

mod redis;

use farcall_base::Random;
use redis::reference::{Reference, one_of};
use redis::{Client, Served, are_same_times};

/// A redis-server at a socket of its own; `None` when there is none.
fn redis_beside(name: &str) -> Option<Reference> {
    let arguments = ["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket", "socket"];
    Reference::start("redis-server", &arguments, name)
}

/// What a command looks like: `k` is a key, `m` a member, `v` a value, `n` a small number of either sign, `c`
/// a count, `s` a score, `l` and `b` limits by score and by member; `a|b` one of these words, and `?x` a word
/// that may be left out.
const HASHES: &[&str] = &[
    "HSET k m v",
    "HSET k m v m v",
    "HSETNX k m v",
    "HGET k m",
    "HMGET k m m",
    "HDEL k m m",
    "HLEN k",
    "HEXISTS k m",
    "HSTRLEN k m",
    "HINCRBY k m n",
    "HINCRBYFLOAT k m s",
    "HMSET k m v",
    "HSET k m",
];
const LISTS: &[&str] = &[
    "LPUSH k v v",
    "RPUSH k v v v",
    "LPUSHX k v",
    "RPUSHX k v",
    "LPOP k",
    "RPOP k",
    "LPOP k c",
    "RPOP k c",
    "LLEN k",
    "LRANGE k n n",
    "LINDEX k n",
    "LSET k n v",
    "LINSERT k BEFORE|AFTER v v",
    "LREM k n v",
    "LTRIM k n n",
    "LPOS k v",
    "LPOS k v RANK n",
    "LPOS k v COUNT c",
    "LPOS k v RANK n COUNT c MAXLEN c",
    "LMOVE k k LEFT|RIGHT LEFT|RIGHT",
    "RPOPLPUSH k k",
    "LMPOP 2 k k LEFT|RIGHT ?COUNT c",
    "BLPOP k k 0.01",
    "BLMOVE k k LEFT|RIGHT LEFT|RIGHT 0.01",
    "BLMPOP 0.01 1 k LEFT COUNT c",
    "RPUSH k v v v",
];
const SETS: &[&str] = &[
    "SADD k m m",
    "SADD k m m m",
    "SREM k m m",
    "SCARD k",
    "SISMEMBER k m",
    "SMISMEMBER k m m",
    "SMOVE k k m",
    "SINTERSTORE k k k",
    "SUNIONSTORE k k k",
    "SDIFFSTORE k k k",
    "SINTERCARD 2 k k",
    "SINTERCARD 2 k k LIMIT c",
    "SRANDMEMBER k 0",
    "SPOP k 0",
];
const SORTED: &[&str] = &[
    "ZADD k s m s m",
    "ZADD k NX|XX|GT|LT|CH s m s m",
    "ZADD k INCR s m",
    "ZADD k XX INCR s m",
    "ZADD k 1e309 m",
    "ZINCRBY k s m",
    "ZREM k m m",
    "ZCARD k",
    "ZSCORE k m",
    "ZMSCORE k m m",
    "ZRANK k m",
    "ZREVRANK k m",
    "ZCOUNT k l l",
    "ZRANGE k n n ?WITHSCORES",
    "ZREVRANGE k n n ?WITHSCORES",
    "ZRANGEBYSCORE k l l ?WITHSCORES",
    "ZREVRANGEBYSCORE k l l ?WITHSCORES",
    "ZRANGEBYSCORE k l l LIMIT n n",
    "ZRANGE k l l BYSCORE ?REV ?WITHSCORES",
    "ZRANGE k n n REV ?WITHSCORES",
    "ZRANGESTORE k k n n ?REV",
    "ZREMRANGEBYRANK k n n",
    "ZREMRANGEBYSCORE k l l",
    "ZPOPMIN k ?c",
    "ZPOPMAX k ?c",
    "BZPOPMIN k 0.01",
    "BZPOPMAX k k 0.01",
    "ZMPOP 2 k k MIN|MAX COUNT c",
    "BZMPOP 0.01 1 k MIN",
    "ZUNIONSTORE k 2 k k",
    "ZUNIONSTORE k 2 k k WEIGHTS s s AGGREGATE SUM|MIN|MAX",
    "ZINTERSTORE k 2 k k AGGREGATE SUM|MIN|MAX",
    "ZDIFFSTORE k 2 k k",
    "ZUNION 2 k k WITHSCORES",
    "ZINTER 2 k k ?WITHSCORES",
    "ZDIFF 2 k k",
    "ZINTERCARD 2 k k",
    "ZINTERCARD 2 k k LIMIT c",
    "ZINTER 3 k k",
    "ZUNION 0 k",
];
const SAME_SCORES: &[&str] = &[
    "ZADD k 0 m 0 m",
    "ZRANGEBYLEX k b b",
    "ZREVRANGEBYLEX k b b",
    "ZRANGEBYLEX k b b LIMIT n n",
    "ZREMRANGEBYLEX k b b",
    "ZLEXCOUNT k b b",
    "ZRANGE k b b BYLEX ?REV",
    "ZRANGE k b b BYLEX ?REV LIMIT n n",
    "ZREM k m",
    "ZRANGE k 0 -1 WITHSCORES",
];
const STRINGS: &[&str] = &[
    "SET k v NX|XX",
    "SET k v KEEPTTL ?GET",
    "SETRANGE k c v",
    "GETRANGE k n n",
    "SUBSTR k n n",
    "INCRBY k n",
    "DECRBY k n",
    "MSET k v k v",
    "MSETNX k v k v",
    "GETEX k PERSIST",
    "EXPIREAT k 5000000000|6000000000 NX|XX|GT|LT",
    "RENAMENX k k",
    "UNLINK k k",
];
/// Nothing that was watched goes again: Redis tells a key that came and went from one that never was there.
const TRANSACTIONS: &[&str] = &[
    "MULTI",
    "EXEC",
    "EXEC",
    "DISCARD",
    "RESET",
    "WATCH k",
    "UNWATCH",
    "INCR k",
    "APPEND k v",
    "GET k",
    "RPUSH k v v",
    "LRANGE k 0 -1",
    "ZADD k s m",
    "ZRANGE k 0 -1 WITHSCORES",
    "BLMOVE none k LEFT LEFT 0.01",
    "NOPE k",
    "GET k k",
];
const KEYS: &[&str] = &[
    "DEL k",
    "TYPE k",
    "EXISTS k",
    "RENAME k k",
    "COPY k k ?REPLACE",
    "GET k",
    "APPEND k v",
    "INCR k",
    "SET k v",
    "SET k v GET",
    "SETNX k v",
    "STRLEN k",
    "MGET k k",
    "EXPIRE k 1000",
    "TTL k",
    "PERSIST k",
    "GETSET k v",
    "GETDEL k",
    "DBSIZE",
    "SMEMBERS k",
    "HGETALL k",
    "HKEYS k",
    "HVALS k",
    "SUNION k k",
    "SINTER k k",
    "SDIFF k k",
    "LRANGE k 0 -1",
    "ZRANGE k 0 -1 WITHSCORES",
];

fn command(draws: &mut Random, pattern: &str) -> Vec<String> {
    let mut words = Vec::new();
    for word in pattern.split(' ') {
        let word = match word.strip_prefix('?') {
            Some(_) if draws.below(2) == 0 => continue,
            Some(word) => word,
            None => word,
        };
        let number = draws.below(10) as i64;
        words.push(match word {
            "k" => format!("key:{}", draws.below(4)),
            "m" => one_of(draws, &["a", "b", "c", "d", "e", "f", "ab", "", "10"]).to_owned(),
            "v" => one_of(draws, &["x", "y", "z", "7", "-3", "", "2.5"]).to_owned(),
            "n" => (number - 4).to_string(),
            "c" => number.to_string(),
            "s" => one_of(draws, &["0", "1", "-1", "2.5", "1e3", "inf", "-inf", "3", "-0.5", "x"]).to_owned(),
            "l" => one_of(draws, &["-inf", "+inf", "0", "(0", "1", "(1", "(2.5", "3", "1000"]).to_owned(),
            "b" => one_of(draws, &["-", "+", "[a", "(a", "[c", "(d", "[", "(b", "[zz"]).to_owned(),
            word => one_of(draws, &word.split('|').collect::<Vec<_>>()).to_owned(),
        });
    }
    words
}

/// What has no order is put into one.
fn ordered(words: &[String], reply: String) -> String {
    let parts = match words[0].as_str() {
        "SMEMBERS" | "SUNION" | "SINTER" | "SDIFF" | "HKEYS" | "HVALS" => 2,
        "HGETALL" => 4,
        _ => return reply,
    };
    let mut elements = reply.split('|');
    let header = elements.next().unwrap_or_default().to_owned();
    let mut elements: Vec<_> = elements.collect();
    // Line ends of the last one, if it is empty, were taken for those of the reply.
    elements.resize(elements.len().next_multiple_of(2), "");
    let mut elements: Vec<_> = elements.chunks(parts).collect();
    elements.sort_unstable();
    header + "|" + &elements.concat().join("|")
}

fn differ(name: &str, patterns: &[&str], hello: bool) {
    differ_with(name, (patterns, KEYS), hello);
}

/// Draws one in four commands from `others`.
fn differ_with(name: &str, (patterns, others): (&[&str], &[&str]), hello: bool) {
    let Some(reference) = redis_beside(&format!("{name}-{hello}")) else { return };
    let served = Served::start();
    let (mut ours, mut theirs) = (served.unix_client(), Client::of(reference.connect()));
    if hello {
        assert!(ours.ask("HELLO 3").starts_with('%') && theirs.ask("HELLO 3").starts_with('%'));
    }
    let seed = std::env::var("FARCALL_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()) << 1 | u64::from(hello));
    println!("FARCALL_TEST_SEED={seed}");
    let mut draws = Random::new(seed);
    let mut history = Vec::new();
    for _ in 0..STEPS {
        let pattern = match draws.below(8) {
            0 | 1 => one_of(&mut draws, others),
            _ => one_of(&mut draws, patterns),
        };
        let words = command(&mut draws, pattern);
        let bytes: Vec<_> = words.iter().map(String::as_bytes).collect();
        ours.send(&bytes);
        theirs.send(&bytes);
        let replies = [ours.reply(), theirs.reply()].map(|reply| ordered(&words, reply));
        history.push(words.join(" "));
        if replies.iter().all(|reply| reply.starts_with('-')) {
            // Of two things that are wrong either may be said first.
            continue;
        }
        let last = history.len().saturating_sub(40);
        if words[0] == "TTL" && are_same_times(replies[0].as_bytes(), replies[1].as_bytes()) {
            continue;
        }
        assert_eq!(replies[0], replies[1], "ours and theirs; seed {seed}:\n{}", history[last..].join("\n"));
    }
}

/// Commands of one run.
const STEPS: usize = 3000;

#[test]
fn strings_do_what_those_of_redis_do() {
    differ("strings", STRINGS, false);
    differ("strings", STRINGS, true);
}

#[test]
fn transactions_do_what_those_of_redis_do() {
    differ_with("transactions", (TRANSACTIONS, TRANSACTIONS), false);
    differ_with("transactions", (TRANSACTIONS, TRANSACTIONS), true);
}

#[test]
fn hashes_do_what_those_of_redis_do() {
    differ("hashes", HASHES, false);
    differ("hashes", HASHES, true);
}

#[test]
fn lists_do_what_those_of_redis_do() {
    differ("lists", LISTS, false);
    differ("lists", LISTS, true);
}

#[test]
fn sets_do_what_those_of_redis_do() {
    differ("sets", SETS, false);
    differ("sets", SETS, true);
}

#[test]
fn sorted_sets_do_what_those_of_redis_do() {
    differ("sorted", SORTED, false);
    differ("sorted", SORTED, true);
}

#[test]
fn members_of_one_score_do_what_those_of_redis_do() {
    differ("lex", SAME_SCORES, false);
    differ("lex", SAME_SCORES, true);
}
