//! The table of commands.

use hashbrown::HashTable;

use super::call::{Call, Done};
use super::{client, connection, expiry, keys, numbers, pubsub, server, strings, transaction};

/// A command.
#[derive(Debug)]
pub struct Command {
    /// Its name, in small letters.
    pub name: &'static str,
    /// How many arguments it takes, its name included; at least that many when negative.
    pub arity: i32,
    /// What it is about.
    pub group: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// What it may do.
    pub effect: Effect,
    /// Which arguments are keys: the first, the last, counted from the end when negative, and every how many.
    pub keys: (i32, i32, i32),
    /// Whether clients may use it that have not said the password.
    pub is_for_strangers: bool,
    /// Whether it runs at once, also within a transaction.
    pub is_at_once: bool,
    /// The commands that it consists of.
    pub subcommands: &'static [&'static str],
    pub run: fn(&mut Call<'_>) -> Done,
}

/// What a command may do to objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It has nothing to do with them.
    None,
    /// It reads some.
    Reads,
    /// It changes some, and takes no more memory.
    Writes,
    /// It may take more memory.
    Grows,
}

impl Command {
    /// Whether it takes this many arguments.
    #[inline]
    pub fn takes(&self, arguments: usize) -> bool {
        let arguments = arguments as i64;
        let arity = i64::from(self.arity);
        arguments == arity || arity < 0 && arguments >= -arity
    }

    /// Its flags, in Redis's words.
    pub fn flags(&self) -> impl Iterator<Item = &'static str> + Clone + use<> {
        let effect: &[_] = match self.effect {
            Effect::None => &[],
            Effect::Reads => &["readonly"],
            Effect::Writes => &["write"],
            Effect::Grows => &["write", "denyoom"],
        };
        effect.iter().copied().chain(self.is_for_strangers.then_some("no_auth"))
    }

    const fn new(
        name: &'static str,
        arity: i32,
        (group, effect): (&'static str, Effect),
        keys: (i32, i32, i32),
        run: fn(&mut Call<'_>) -> Done,
        summary: &'static str,
    ) -> Self {
        let subcommands = &[] as &[_];
        let (is_for_strangers, is_at_once) = (false, false);
        Self { name, arity, group, summary, effect, keys, is_for_strangers, is_at_once, subcommands, run }
    }

    const fn open(self) -> Self {
        Self { is_for_strangers: true, ..self }
    }

    const fn at_once(self) -> Self {
        Self { is_at_once: true, ..self }
    }

    const fn of(self, subcommands: &'static [&'static str]) -> Self {
        Self { subcommands, ..self }
    }
}

const NO_KEYS: (i32, i32, i32) = (0, 0, 0);
const ONE: (i32, i32, i32) = (1, 1, 1);
const ALL: (i32, i32, i32) = (1, -1, 1);

const PAIRS: (i32, i32, i32) = (1, -1, 2);

const STRING_READS: (&str, Effect) = ("string", Effect::Reads);
const STRING_WRITES: (&str, Effect) = ("string", Effect::Writes);
const STRING_GROWS: (&str, Effect) = ("string", Effect::Grows);
const KEYS_READS: (&str, Effect) = ("generic", Effect::Reads);
const KEYS_WRITES: (&str, Effect) = ("generic", Effect::Writes);
const KEYS_GROWS: (&str, Effect) = ("generic", Effect::Grows);
const TRANSACTIONS: (&str, Effect) = ("transactions", Effect::None);
const PUBSUB: (&str, Effect) = ("pubsub", Effect::None);
const CONNECTION: (&str, Effect) = ("connection", Effect::None);
const SERVER: (&str, Effect) = ("server", Effect::None);

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
    .open(),
    Command::new("select", 2, CONNECTION, NO_KEYS, connection::select, "Chooses a database"),
    // The server.
    Command::new("command", -1, SERVER, NO_KEYS, server::command, "Tells about commands")
        .of(server::COMMAND_SUBCOMMANDS),
    Command::new("config", -2, SERVER, NO_KEYS, server::config, "Tells how the server is configured")
        .of(server::CONFIG_SUBCOMMANDS),
    Command::new("info", -1, SERVER, NO_KEYS, server::info, "Tells what the server has and did"),
    Command::new("time", 1, SERVER, NO_KEYS, server::time, "Gives the time"),
];

/// Finds commands by name.
#[derive(Debug)]
pub struct Lookup(HashTable<&'static Command>);

impl Lookup {
    /// All commands.
    pub fn new() -> Self {
        let mut table = HashTable::with_capacity(2 * COMMANDS.len());
        for command in COMMANDS {
            let hash = hash(command.name.as_bytes());
            table.insert_unique(hash, command, |command| self::hash(command.name.as_bytes()));
        }
        Self(table)
    }

    /// The command of that name, in whatever case.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<&'static Command> {
        let same = |command: &&Command| name.eq_ignore_ascii_case(command.name.as_bytes());
        self.0.find(hash(name), same).copied()
    }
}

/// The first eight letters and the length, in whatever case.
#[inline]
fn hash(name: &[u8]) -> u64 {
    /// An odd number that spreads letters over all bits.
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut word = [0; 8];
    let length = name.len().min(8);
    word[..length].copy_from_slice(&name[..length]);
    let letters = u64::from_le_bytes(word) | 0x2020_2020_2020_2020;
    (letters ^ name.len() as u64).wrapping_mul(SPREAD)
}
