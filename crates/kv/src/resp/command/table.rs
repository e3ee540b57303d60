//! The table of commands.

use hashbrown::HashTable;

use super::call::{Call, Done};
use super::{client, connection, server, strings};

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
        let (is_for_strangers, subcommands) = (false, &[] as &[_]);
        Self { name, arity, group, summary, effect, keys, is_for_strangers, subcommands, run }
    }

    const fn open(self) -> Self {
        Self { is_for_strangers: true, ..self }
    }

    const fn of(self, subcommands: &'static [&'static str]) -> Self {
        Self { subcommands, ..self }
    }
}

const NO_KEYS: (i32, i32, i32) = (0, 0, 0);
const ONE: (i32, i32, i32) = (1, 1, 1);
const ALL: (i32, i32, i32) = (1, -1, 1);

const CONNECTION: (&str, Effect) = ("connection", Effect::None);
const SERVER: (&str, Effect) = ("server", Effect::None);

/// All commands.
pub static COMMANDS: &[Command] = &[
    // Strings.
    Command::new("get", 2, ("string", Effect::Reads), ONE, strings::get, "Gives the value of a key"),
    Command::new("set", -3, ("string", Effect::Grows), ONE, strings::set, "Sets the value of a key"),
    Command::new("incr", 2, ("string", Effect::Grows), ONE, strings::incr, "Adds one to a number"),
    Command::new("decr", 2, ("string", Effect::Grows), ONE, strings::decr, "Subtracts one from a number"),
    Command::new("incrby", 3, ("string", Effect::Grows), ONE, strings::incrby, "Adds to a number"),
    Command::new("decrby", 3, ("string", Effect::Grows), ONE, strings::decrby, "Subtracts from a number"),
    // Keys.
    Command::new("del", -2, ("generic", Effect::Writes), ALL, strings::del, "Deletes keys"),
    Command::new(
        "exists",
        -2,
        ("generic", Effect::Reads),
        ALL,
        strings::exists,
        "Counts the keys that exist",
    ),
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
    Command::new("quit", -1, CONNECTION, NO_KEYS, connection::quit, "Closes the connection").open(),
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
