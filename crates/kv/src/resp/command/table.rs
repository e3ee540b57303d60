//! The table of commands.

use super::entry::{Command, Effect};
use super::{
    blocking, client, cluster, combining, connection, expiry, hashes, keys, lists, numbers, persistence,
    pubsub, scripts, server, sets, sorted, strings, transaction,
};

const NO_KEYS: (i32, i32, i32) = (0, 0, 0);
const ONE: (i32, i32, i32) = (1, 1, 1);
const ALL: (i32, i32, i32) = (1, -1, 1);

const TWO: (i32, i32, i32) = (1, 2, 1);
const BUT_LAST: (i32, i32, i32) = (1, -2, 1);
const PAIRS: (i32, i32, i32) = (1, -1, 2);

const STRING_READS: (&str, Effect) = ("string", Effect::Reads);
const STRING_WRITES: (&str, Effect) = ("string", Effect::Writes);
const STRING_GROWS: (&str, Effect) = ("string", Effect::Grows);
const HASH_READS: (&str, Effect) = ("hash", Effect::Reads);
const HASH_WRITES: (&str, Effect) = ("hash", Effect::Writes);
const HASH_GROWS: (&str, Effect) = ("hash", Effect::Grows);
const LIST_READS: (&str, Effect) = ("list", Effect::Reads);
const LIST_WRITES: (&str, Effect) = ("list", Effect::Writes);
const LIST_GROWS: (&str, Effect) = ("list", Effect::Grows);
const SET_READS: (&str, Effect) = ("set", Effect::Reads);
const SET_WRITES: (&str, Effect) = ("set", Effect::Writes);
const SET_GROWS: (&str, Effect) = ("set", Effect::Grows);
const SORTED_READS: (&str, Effect) = ("sorted-set", Effect::Reads);
const SORTED_WRITES: (&str, Effect) = ("sorted-set", Effect::Writes);
const SORTED_GROWS: (&str, Effect) = ("sorted-set", Effect::Grows);
const KEYS_READS: (&str, Effect) = ("generic", Effect::Reads);
const KEYS_WRITES: (&str, Effect) = ("generic", Effect::Writes);
const KEYS_GROWS: (&str, Effect) = ("generic", Effect::Grows);
const SCRIPTING: (&str, Effect) = ("scripting", Effect::Grows);
const TRANSACTIONS: (&str, Effect) = ("transactions", Effect::None);
const PUBSUB: (&str, Effect) = ("pubsub", Effect::None);
const CONNECTION: (&str, Effect) = ("connection", Effect::None);
const SERVER: (&str, Effect) = ("server", Effect::None);
const CLUSTER: (&str, Effect) = ("cluster", Effect::None);

/// All commands.
pub static COMMANDS: &[Command] = &[
    // Strings.
    Command::new("append", 3, STRING_GROWS, ONE, strings::append, "Appends to a string"),
    Command::new("decr", 2, STRING_GROWS, ONE, numbers::decr, "Subtracts one from a number"),
    Command::new("decrby", 3, STRING_GROWS, ONE, numbers::decrby, "Subtracts from a number"),
    Command::new("get", 2, STRING_READS, ONE, strings::get, "Gives a string"),
    Command::new("getdel", 2, STRING_WRITES, ONE, strings::getdel, "Gives a string and deletes it"),
    Command::new(
        "getex",
        -2,
        STRING_WRITES,
        ONE,
        strings::getex,
        "Gives a string and changes when it expires",
    ),
    Command::new("getrange", 4, STRING_READS, ONE, strings::getrange, "Gives a part of a string"),
    Command::new("getset", 3, STRING_GROWS, ONE, strings::getset, "Sets a string and gives the one before"),
    Command::new("incr", 2, STRING_GROWS, ONE, numbers::incr, "Adds one to a number"),
    Command::new("incrby", 3, STRING_GROWS, ONE, numbers::incrby, "Adds to a number"),
    Command::new(
        "incrbyfloat",
        3,
        STRING_GROWS,
        ONE,
        numbers::incrbyfloat,
        "Adds to a number with a fraction",
    ),
    Command::new("mget", -2, STRING_READS, ALL, strings::mget, "Gives strings"),
    Command::new("mset", -3, STRING_GROWS, PAIRS, strings::mset, "Sets strings"),
    Command::new(
        "msetnx",
        -3,
        STRING_GROWS,
        PAIRS,
        strings::msetnx,
        "Sets strings if none of the keys exists",
    ),
    Command::new(
        "psetex",
        4,
        STRING_GROWS,
        ONE,
        strings::psetex,
        "Sets a string that expires after milliseconds",
    ),
    Command::new("set", -3, STRING_GROWS, ONE, strings::set, "Sets a string"),
    Command::new("setex", 4, STRING_GROWS, ONE, strings::setex, "Sets a string that expires after seconds"),
    Command::new("setnx", 3, STRING_GROWS, ONE, strings::setnx, "Sets a string if the key does not exist"),
    Command::new("setrange", 4, STRING_GROWS, ONE, strings::setrange, "Replaces a part of a string"),
    Command::new("strlen", 2, STRING_READS, ONE, strings::strlen, "Gives the length of a string"),
    Command::new("substr", 4, STRING_READS, ONE, strings::getrange, "Gives a part of a string"),
    // Hashes.
    Command::new("hdel", -3, HASH_WRITES, ONE, hashes::hdel, "Deletes fields of a hash"),
    Command::new("hexists", 3, HASH_READS, ONE, hashes::hexists, "Says whether a hash has a field"),
    Command::new("hget", 3, HASH_READS, ONE, hashes::hget, "Gives the value of a field"),
    Command::new(
        "hgetall",
        2,
        HASH_READS,
        ONE,
        hashes::hgetall,
        "Gives all fields of a hash, with their values",
    ),
    Command::new("hincrby", 4, HASH_GROWS, ONE, hashes::hincrby, "Adds to the number that a field has"),
    Command::new(
        "hincrbyfloat",
        4,
        HASH_GROWS,
        ONE,
        hashes::hincrbyfloat,
        "Adds to a field's number with a fraction",
    ),
    Command::new("hkeys", 2, HASH_READS, ONE, hashes::hkeys, "Gives all fields of a hash"),
    Command::new("hlen", 2, HASH_READS, ONE, hashes::hlen, "Counts the fields of a hash"),
    Command::new("hmget", -3, HASH_READS, ONE, hashes::hmget, "Gives the values of fields"),
    Command::new("hmset", -4, HASH_GROWS, ONE, hashes::hmset, "Sets fields of a hash"),
    Command::new("hrandfield", -2, HASH_READS, ONE, hashes::hrandfield, "Gives fields drawn at random"),
    Command::new("hscan", -3, HASH_READS, ONE, hashes::hscan, "Gives some of the fields, and where to go on"),
    Command::new("hset", -4, HASH_GROWS, ONE, hashes::hset, "Sets fields of a hash"),
    Command::new("hsetnx", 4, HASH_GROWS, ONE, hashes::hsetnx, "Sets a field if the hash does not have it"),
    Command::new("hstrlen", 3, HASH_READS, ONE, hashes::hstrlen, "Gives the length of a field's value"),
    Command::new("hvals", 2, HASH_READS, ONE, hashes::hvals, "Gives all values of a hash"),
    // Lists.
    Command::new(
        "blmove",
        6,
        LIST_GROWS,
        TWO,
        blocking::blmove,
        "Moves an element between lists, and waits for one",
    ),
    Command::new(
        "blmpop",
        -5,
        LIST_WRITES,
        NO_KEYS,
        blocking::blmpop,
        "Takes elements from the first list that has some, and waits for them",
    )
    .counts_keys_at(2),
    Command::new(
        "blpop",
        -3,
        LIST_WRITES,
        BUT_LAST,
        blocking::blpop,
        "Takes the first element of a list, and waits for it",
    ),
    Command::new(
        "brpop",
        -3,
        LIST_WRITES,
        BUT_LAST,
        blocking::brpop,
        "Takes the last element of a list, and waits for it",
    ),
    Command::new(
        "brpoplpush",
        4,
        LIST_GROWS,
        TWO,
        blocking::brpoplpush,
        "Moves the last element of a list to another one, and waits for it",
    ),
    Command::new("lindex", 3, LIST_READS, ONE, lists::lindex, "Gives the element at a place"),
    Command::new("linsert", 5, LIST_GROWS, ONE, lists::linsert, "Inserts an element next to another one"),
    Command::new("llen", 2, LIST_READS, ONE, lists::llen, "Counts the elements of a list"),
    Command::new("lmove", 5, LIST_GROWS, TWO, lists::lmove, "Moves an element between lists"),
    Command::new(
        "lmpop",
        -4,
        LIST_WRITES,
        NO_KEYS,
        blocking::lmpop,
        "Takes elements from the first list that has some",
    )
    .counts_keys_at(1),
    Command::new("lpop", -2, LIST_WRITES, ONE, lists::lpop, "Takes the first elements of a list"),
    Command::new("lpos", -3, LIST_READS, ONE, lists::lpos, "Finds an element"),
    Command::new("lpush", -3, LIST_GROWS, ONE, lists::lpush, "Puts elements in front of a list"),
    Command::new(
        "lpushx",
        -3,
        LIST_GROWS,
        ONE,
        lists::lpushx,
        "Puts elements in front of a list if it is there",
    ),
    Command::new("lrange", 4, LIST_READS, ONE, lists::lrange, "Gives elements of a list"),
    Command::new("lrem", 4, LIST_WRITES, ONE, lists::lrem, "Removes elements that are equal to a value"),
    Command::new("lset", 4, LIST_GROWS, ONE, lists::lset, "Replaces the element at a place"),
    Command::new("ltrim", 4, LIST_WRITES, ONE, lists::ltrim, "Keeps a part of a list"),
    Command::new("rpop", -2, LIST_WRITES, ONE, lists::rpop, "Takes the last elements of a list"),
    Command::new(
        "rpoplpush",
        3,
        LIST_GROWS,
        TWO,
        lists::rpoplpush,
        "Moves the last element of a list to another one",
    ),
    Command::new("rpush", -3, LIST_GROWS, ONE, lists::rpush, "Puts elements behind a list"),
    Command::new("rpushx", -3, LIST_GROWS, ONE, lists::rpushx, "Puts elements behind a list if it is there"),
    // Sets.
    Command::new("sadd", -3, SET_GROWS, ONE, sets::sadd, "Adds members to a set"),
    Command::new("scard", 2, SET_READS, ONE, sets::scard, "Counts the members of a set"),
    Command::new(
        "sdiff",
        -2,
        SET_READS,
        ALL,
        sets::sdiff,
        "Gives the members of a set that others do not have",
    ),
    Command::new(
        "sdiffstore",
        -3,
        SET_GROWS,
        ALL,
        sets::sdiffstore,
        "Stores the members of a set that others do not have",
    ),
    Command::new("sinter", -2, SET_READS, ALL, sets::sinter, "Gives the members that all sets have"),
    Command::new(
        "sintercard",
        -3,
        SET_READS,
        NO_KEYS,
        sets::sintercard,
        "Counts the members that all sets have",
    )
    .counts_keys_at(1),
    Command::new(
        "sinterstore",
        -3,
        SET_GROWS,
        ALL,
        sets::sinterstore,
        "Stores the members that all sets have",
    ),
    Command::new("sismember", 3, SET_READS, ONE, sets::sismember, "Says whether a set has a member"),
    Command::new("smembers", 2, SET_READS, ONE, sets::smembers, "Gives all members of a set"),
    Command::new("smismember", -3, SET_READS, ONE, sets::smismember, "Says which members a set has"),
    Command::new("smove", 4, SET_GROWS, TWO, sets::smove, "Moves a member to another set"),
    Command::new("spop", -2, SET_WRITES, ONE, sets::spop, "Takes members drawn at random"),
    Command::new("srandmember", -2, SET_READS, ONE, sets::srandmember, "Gives members drawn at random"),
    Command::new("srem", -3, SET_WRITES, ONE, sets::srem, "Removes members from a set"),
    Command::new("sscan", -3, SET_READS, ONE, sets::sscan, "Gives some of the members, and where to go on"),
    Command::new("sunion", -2, SET_READS, ALL, sets::sunion, "Gives the members that any set has"),
    Command::new("sunionstore", -3, SET_GROWS, ALL, sets::sunionstore, "Stores the members that any set has"),
    // Sorted sets.
    Command::new(
        "bzmpop",
        -5,
        SORTED_WRITES,
        NO_KEYS,
        blocking::bzmpop,
        "Takes members from the first sorted set that has some, and waits for them",
    )
    .counts_keys_at(2),
    Command::new(
        "bzpopmax",
        -3,
        SORTED_WRITES,
        BUT_LAST,
        blocking::bzpopmax,
        "Takes the member with the highest score, and waits for it",
    ),
    Command::new(
        "bzpopmin",
        -3,
        SORTED_WRITES,
        BUT_LAST,
        blocking::bzpopmin,
        "Takes the member with the lowest score, and waits for it",
    ),
    Command::new("zadd", -4, SORTED_GROWS, ONE, sorted::zadd, "Gives members scores"),
    Command::new("zcard", 2, SORTED_READS, ONE, sorted::zcard, "Counts the members of a sorted set"),
    Command::new("zcount", 4, SORTED_READS, ONE, sorted::zcount, "Counts the members with scores in a range"),
    Command::new(
        "zdiff",
        -3,
        SORTED_READS,
        NO_KEYS,
        combining::zdiff,
        "Gives the members of a sorted set that others do not have",
    )
    .counts_keys_at(1),
    Command::new(
        "zdiffstore",
        -4,
        SORTED_GROWS,
        ONE,
        combining::zdiffstore,
        "Stores the members of a sorted set that others do not have",
    )
    .counts_keys_at(2),
    Command::new("zincrby", 4, SORTED_GROWS, ONE, sorted::zincrby, "Adds to the score of a member"),
    Command::new(
        "zinter",
        -3,
        SORTED_READS,
        NO_KEYS,
        combining::zinter,
        "Gives the members that all sorted sets have",
    )
    .counts_keys_at(1),
    Command::new(
        "zintercard",
        -3,
        SORTED_READS,
        NO_KEYS,
        combining::zintercard,
        "Counts the members that all sorted sets have",
    )
    .counts_keys_at(1),
    Command::new(
        "zinterstore",
        -4,
        SORTED_GROWS,
        ONE,
        combining::zinterstore,
        "Stores the members that all sorted sets have",
    )
    .counts_keys_at(2),
    Command::new(
        "zlexcount",
        4,
        SORTED_READS,
        ONE,
        sorted::zlexcount,
        "Counts the members in a range of bytes",
    ),
    Command::new(
        "zmpop",
        -4,
        SORTED_WRITES,
        NO_KEYS,
        blocking::zmpop,
        "Takes members from the first sorted set that has some",
    )
    .counts_keys_at(1),
    Command::new("zmscore", -3, SORTED_READS, ONE, sorted::zmscore, "Gives the scores of members"),
    Command::new(
        "zpopmax",
        -2,
        SORTED_WRITES,
        ONE,
        sorted::zpopmax,
        "Takes the members with the highest scores",
    ),
    Command::new(
        "zpopmin",
        -2,
        SORTED_WRITES,
        ONE,
        sorted::zpopmin,
        "Takes the members with the lowest scores",
    ),
    Command::new("zrandmember", -2, SORTED_READS, ONE, sorted::zrandmember, "Gives members drawn at random"),
    Command::new("zrange", -4, SORTED_READS, ONE, sorted::zrange, "Gives members in a range"),
    Command::new(
        "zrangebylex",
        -4,
        SORTED_READS,
        ONE,
        sorted::zrangebylex,
        "Gives members in a range of bytes",
    ),
    Command::new(
        "zrangebyscore",
        -4,
        SORTED_READS,
        ONE,
        sorted::zrangebyscore,
        "Gives members with scores in a range",
    ),
    Command::new("zrangestore", -5, SORTED_GROWS, TWO, sorted::zrangestore, "Stores members in a range"),
    Command::new("zrank", -3, SORTED_READS, ONE, sorted::zrank, "Gives the rank of a member"),
    Command::new("zrem", -3, SORTED_WRITES, ONE, sorted::zrem, "Removes members from a sorted set"),
    Command::new(
        "zremrangebylex",
        4,
        SORTED_WRITES,
        ONE,
        sorted::zremrangebylex,
        "Removes the members in a range of bytes",
    ),
    Command::new(
        "zremrangebyrank",
        4,
        SORTED_WRITES,
        ONE,
        sorted::zremrangebyrank,
        "Removes the members in a range of ranks",
    ),
    Command::new(
        "zremrangebyscore",
        4,
        SORTED_WRITES,
        ONE,
        sorted::zremrangebyscore,
        "Removes the members with scores in a range",
    ),
    Command::new(
        "zrevrange",
        -4,
        SORTED_READS,
        ONE,
        sorted::zrevrange,
        "Gives members in a range, the highest first",
    ),
    Command::new(
        "zrevrangebylex",
        -4,
        SORTED_READS,
        ONE,
        sorted::zrevrangebylex,
        "Gives members in a range of bytes, the last first",
    ),
    Command::new(
        "zrevrangebyscore",
        -4,
        SORTED_READS,
        ONE,
        sorted::zrevrangebyscore,
        "Gives members with scores in a range, the highest first",
    ),
    Command::new(
        "zrevrank",
        -3,
        SORTED_READS,
        ONE,
        sorted::zrevrank,
        "Gives the rank of a member from the highest on",
    ),
    Command::new(
        "zscan",
        -3,
        SORTED_READS,
        ONE,
        sorted::zscan,
        "Gives some of the members, and where to go on",
    ),
    Command::new("zscore", 3, SORTED_READS, ONE, sorted::zscore, "Gives the score of a member"),
    Command::new(
        "zunion",
        -3,
        SORTED_READS,
        NO_KEYS,
        combining::zunion,
        "Gives the members that any sorted set has",
    )
    .counts_keys_at(1),
    Command::new(
        "zunionstore",
        -4,
        SORTED_GROWS,
        ONE,
        combining::zunionstore,
        "Stores the members that any sorted set has",
    )
    .counts_keys_at(2),
    // Keys.
    Command::new("copy", -3, KEYS_GROWS, (1, 2, 1), keys::copy, "Copies an object to another key"),
    Command::new("dbsize", 1, KEYS_READS, NO_KEYS, keys::dbsize, "Counts the keys of the database"),
    Command::new("del", -2, KEYS_WRITES, ALL, keys::del, "Deletes keys"),
    Command::new("exists", -2, KEYS_READS, ALL, keys::exists, "Counts those of the keys that exist"),
    Command::new("expire", -3, KEYS_WRITES, ONE, expiry::expire, "Lets a key expire after seconds"),
    Command::new(
        "expireat",
        -3,
        KEYS_WRITES,
        ONE,
        expiry::expireat,
        "Lets a key expire at a second since 1970",
    ),
    Command::new("pexpire", -3, KEYS_WRITES, ONE, expiry::pexpire, "Lets a key expire after milliseconds"),
    Command::new(
        "pexpireat",
        -3,
        KEYS_WRITES,
        ONE,
        expiry::pexpireat,
        "Lets a key expire at a millisecond since 1970",
    ),
    Command::new(
        "expiretime",
        2,
        KEYS_READS,
        ONE,
        expiry::expiretime,
        "Gives the second since 1970 at which a key expires",
    ),
    Command::new(
        "pexpiretime",
        2,
        KEYS_READS,
        ONE,
        expiry::pexpiretime,
        "Gives the millisecond since 1970 at which a key expires",
    ),
    Command::new("ttl", 2, KEYS_READS, ONE, expiry::ttl, "Gives the seconds until a key expires"),
    Command::new("pttl", 2, KEYS_READS, ONE, expiry::pttl, "Gives the milliseconds until a key expires"),
    Command::new("persist", 2, KEYS_WRITES, ONE, expiry::persist, "Lets a key expire no longer"),
    Command::new("flushall", -1, KEYS_WRITES, NO_KEYS, keys::flushall, "Deletes the keys of all databases"),
    Command::new("flushdb", -1, KEYS_WRITES, NO_KEYS, keys::flushdb, "Deletes the keys of the database"),
    Command::new("keys", 2, KEYS_READS, NO_KEYS, keys::keys, "Gives the keys that match a pattern"),
    Command::new("memory", -2, KEYS_READS, (2, 2, 1), keys::memory, "Tells how much memory an object takes")
        .of(keys::MEMORY_SUBCOMMANDS),
    Command::new("move", 3, KEYS_WRITES, ONE, keys::move_to, "Moves an object to another database"),
    Command::new("object", -2, KEYS_READS, (2, 2, 1), keys::object, "Tells how an object is stored")
        .of(keys::OBJECT_SUBCOMMANDS),
    Command::new("randomkey", 1, KEYS_READS, NO_KEYS, keys::randomkey, "Gives a key drawn at random"),
    Command::new("rename", 3, KEYS_GROWS, (1, 2, 1), keys::rename, "Gives an object another key"),
    Command::new(
        "renamenx",
        3,
        KEYS_GROWS,
        (1, 2, 1),
        keys::renamenx,
        "Gives an object another key if that does not exist",
    ),
    Command::new("scan", -2, KEYS_READS, NO_KEYS, keys::scan, "Gives some of the keys, and where to go on"),
    Command::new("touch", -2, KEYS_READS, ALL, keys::exists, "Counts those of the keys that exist"),
    Command::new("type", 2, KEYS_READS, ONE, keys::kind, "Gives the type of an object"),
    Command::new("unlink", -2, KEYS_WRITES, ALL, keys::del, "Deletes keys"),
    // Scripts.
    Command::new("eval", -3, SCRIPTING, NO_KEYS, scripts::eval, "Runs a script that is known")
        .counts_keys_at(2),
    Command::new("evalsha", -3, SCRIPTING, NO_KEYS, scripts::evalsha, "Runs a script by its digest")
        .counts_keys_at(2),
    Command::new("script", -2, SCRIPTING, NO_KEYS, scripts::script, "Tells which scripts are known")
        .of(scripts::SCRIPT_SUBCOMMANDS),
    // Transactions.
    Command::new("discard", 1, TRANSACTIONS, NO_KEYS, transaction::discard, "Forgets the queued commands")
        .at_once(),
    Command::new("exec", 1, TRANSACTIONS, NO_KEYS, transaction::exec, "Runs the queued commands").at_once(),
    Command::new("multi", 1, TRANSACTIONS, NO_KEYS, transaction::multi, "Queues the commands that follow")
        .at_once(),
    Command::new("unwatch", 1, TRANSACTIONS, NO_KEYS, transaction::unwatch, "Watches no keys any more"),
    Command::new(
        "watch",
        -2,
        TRANSACTIONS,
        ALL,
        transaction::watch,
        "Lets EXEC do nothing if one of the keys changes",
    )
    .at_once(),
    // Subscriptions.
    Command::new(
        "psubscribe",
        -2,
        PUBSUB,
        NO_KEYS,
        pubsub::psubscribe,
        "Subscribes to the channels of patterns",
    ),
    Command::new("publish", 3, PUBSUB, NO_KEYS, pubsub::publish, "Sends a message to a channel"),
    Command::new("pubsub", -2, PUBSUB, NO_KEYS, pubsub::pubsub, "Tells about subscriptions")
        .of(pubsub::SUBCOMMANDS),
    Command::new(
        "punsubscribe",
        -1,
        PUBSUB,
        NO_KEYS,
        pubsub::punsubscribe,
        "Leaves the channels of patterns",
    ),
    Command::new("subscribe", -2, PUBSUB, NO_KEYS, pubsub::subscribe, "Subscribes to channels"),
    Command::new("unsubscribe", -1, PUBSUB, NO_KEYS, pubsub::unsubscribe, "Leaves channels"),
    // Connections.
    Command::new("auth", -2, CONNECTION, NO_KEYS, connection::auth, "Says the password").open(),
    Command::new("client", -2, CONNECTION, NO_KEYS, client::client, "Names, lists and closes connections")
        .of(client::SUBCOMMANDS),
    Command::new("echo", 2, CONNECTION, NO_KEYS, connection::echo, "Gives the argument back"),
    Command::new("hello", -1, CONNECTION, NO_KEYS, connection::hello, "Chooses the version of the protocol")
        .open(),
    Command::new("host:", -1, CONNECTION, NO_KEYS, connection::http, "Closes the connection of a browser")
        .open(),
    Command::new("ping", -1, CONNECTION, NO_KEYS, connection::ping, "Answers"),
    Command::new("post", -1, CONNECTION, NO_KEYS, connection::http, "Closes the connection of a browser")
        .open(),
    Command::new("quit", -1, CONNECTION, NO_KEYS, connection::quit, "Closes the connection").open().at_once(),
    Command::new(
        "reset",
        1,
        CONNECTION,
        NO_KEYS,
        connection::reset,
        "Makes the connection as it was at first",
    )
    .open()
    .at_once(),
    Command::new("select", 2, CONNECTION, NO_KEYS, connection::select, "Chooses a database"),
    // What writes survive.
    Command::new("bgrewriteaof", 1, SERVER, NO_KEYS, persistence::bgrewriteaof, "Cleans the log of writes"),
    Command::new("bgsave", -1, SERVER, NO_KEYS, persistence::bgsave, "Lets what was written be flushed"),
    Command::new("lastsave", 1, SERVER, NO_KEYS, persistence::lastsave, "Gives the second of the last flush"),
    Command::new(
        "save",
        1,
        SERVER,
        NO_KEYS,
        persistence::save,
        "Waits until all that was written is flushed",
    ),
    Command::new(
        "wait",
        3,
        SERVER,
        NO_KEYS,
        persistence::wait,
        "Waits until replicas have what the client wrote",
    ),
    Command::new(
        "waitaof",
        4,
        SERVER,
        NO_KEYS,
        persistence::waitaof,
        "Waits until disks have what the client wrote",
    ),
    // The server.
    Command::new("asking", 1, CLUSTER, NO_KEYS, cluster::accept, "Does nothing: no hash slot is on its way"),
    Command::new(
        "cluster",
        -2,
        CLUSTER,
        NO_KEYS,
        cluster::cluster,
        "Tells which server has which hash slots",
    )
    .of(cluster::SUBCOMMANDS),
    Command::new("readonly", 1, CLUSTER, NO_KEYS, cluster::accept, "Does nothing: there are no replicas"),
    Command::new("readwrite", 1, CLUSTER, NO_KEYS, cluster::accept, "Does nothing: there are no replicas"),
    Command::new("command", -1, SERVER, NO_KEYS, server::command, "Tells about commands")
        .of(server::COMMAND_SUBCOMMANDS),
    Command::new("config", -2, SERVER, NO_KEYS, server::config, "Tells how the server is configured")
        .of(server::CONFIG_SUBCOMMANDS),
    Command::new("info", -1, SERVER, NO_KEYS, server::info, "Tells what the server has and did"),
    Command::new("time", 1, SERVER, NO_KEYS, server::time, "Gives the time"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_about_values_says_which_arguments_are_keys() {
        let is_about_values =
            |command: &&Command| matches!(command.group, "string" | "hash" | "list" | "set" | "sorted-set");
        for command in COMMANDS.iter().filter(is_about_values) {
            assert!(command.keys.0 > 0 || command.counted.is_some(), "{}", command.name);
        }
    }
}
