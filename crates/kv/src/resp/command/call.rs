//! One command as it runs, and why it may not.

use core::ops::Range;
use std::borrow::Cow;

use super::{Command, Engine};
use crate::decimal;
use crate::resp::glob::PATTERN_BYTES_MAX;
use crate::resp::parse::Args;
use crate::resp::reply::Reply;
use crate::resp::session::Session;
use crate::store::{CollectionError, Held, IncrementError, Object, ReadError, Store, WriteError};
use crate::{Name, Shard, TableId, Value};

/// The longest reply to a command.
pub const REPLY_BYTES_MAX: usize = 256 << 20;

/// Words as a command's arguments are kept: their bytes, and where each is.
pub fn joined<'w>(words: impl ExactSizeIterator<Item = &'w [u8]>) -> (Vec<u8>, Vec<Range<usize>>) {
    let (mut bytes, mut ranges) = (Vec::new(), Vec::with_capacity(words.len()));
    for word in words {
        ranges.push(bytes.len()..bytes.len() + word.len());
        bytes.extend_from_slice(word);
    }
    (bytes, ranges)
}

/// A command, its client, and what it works on.
pub struct Call<'c> {
    pub args: Args<'c>,
    pub shard: &'c mut Shard,
    pub session: &'c mut Session,
    pub reply: &'c mut Reply,
    pub engine: &'c mut Engine,
}

impl<'c> Call<'c> {
    /// The pattern that an argument is.
    pub fn pattern(&self, number: usize) -> Result<&'c [u8], Refusal> {
        let pattern = self.args.at(number);
        if pattern.len() > PATTERN_BYTES_MAX { Err(Refusal::LONG_PATTERN) } else { Ok(pattern) }
    }

    /// The objects.
    #[inline]
    pub fn store(&mut self) -> &mut Store {
        self.shard.store_mut()
    }

    /// The table of the client's database.
    #[inline]
    pub fn table(&self) -> TableId {
        self.engine.tables[self.session.database]
    }

    /// The object that an argument names.
    #[inline]
    pub fn name(&self, number: usize) -> Result<Name<'c>, Refusal> {
        self.named(self.args.at(number))
    }

    /// The object of a key.
    #[inline]
    pub fn named<'k>(&self, key: &'k [u8]) -> Result<Name<'k>, Refusal> {
        Ok(Name::new(self.table(), key)?)
    }

    /// Refuses a reply, begun at a place, that is longer than any may be.
    #[inline]
    pub fn check_reply(&self, start: usize) -> Result<(), Refusal> {
        check_length(self.reply, start)
    }

    /// The value that an argument is. A long one is given once.
    #[inline]
    pub fn given(&mut self, number: usize) -> Result<Given<'c>, Refusal> {
        if let Some(place) = self.session.longs.iter().position(|long| long.number == number) {
            return self.session.longs.swap_remove(place).value.map(Given::Long);
        }
        value(self.args.at(number)).map(Given::Short)
    }

    /// The integer that an argument is.
    pub fn integer(&self, number: usize) -> Result<i64, Refusal> {
        decimal::parse(self.args.at(number)).ok_or(Refusal::NOT_AN_INTEGER)
    }

    /// Whether an argument is this word, in whatever case.
    pub fn is(&self, number: usize, word: &str) -> bool {
        self.args.at(number).eq_ignore_ascii_case(word.as_bytes())
    }
}

/// The same while something else of the command is borrowed.
#[inline]
pub fn check_length(reply: &Reply, start: usize) -> Done {
    if reply.len() - start <= REPLY_BYTES_MAX {
        return Ok(());
    }
    Err(Refusal::new(format!("ERR the reply is longer than {REPLY_BYTES_MAX} bytes")))
}

/// The subcommand that the first argument names, one of these, and how many arguments there are.
pub fn subcommand(call: &Call<'_>, names: &[&'static str]) -> Result<(&'static str, usize), Refusal> {
    let Some(given) = call.args.get(1) else { return Err(Refusal::SYNTAX) };
    let found = names.iter().find(|name| given.eq_ignore_ascii_case(name.as_bytes()));
    found.map(|name| (*name, call.args.len())).ok_or_else(|| {
        let command = String::from_utf8_lossy(call.args.at(0)).to_ascii_uppercase();
        let given = String::from_utf8_lossy(&given[..given.len().min(128)]).into_owned();
        Refusal::new(format!("ERR unknown subcommand '{given}'. Try {command} HELP."))
    })
}

/// Tells which commands one consists of, as Redis does: line by line.
pub fn help(call: &mut Call<'_>, command: &Command) -> Done {
    let name = command.name.to_ascii_uppercase();
    let begin = format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
    let lines = command.subcommands.iter().map(|subcommand| subcommand.to_ascii_uppercase());
    call.reply.array(command.subcommands.len() + 2);
    for line in core::iter::once(begin).chain(lines).chain(["HELP".to_owned()]) {
        call.reply.simple(&line);
    }
    Ok(())
}

/// The string of a name; a collection is refused.
#[inline]
pub fn string<'s>(store: &'s Store, name: Name<'_>) -> Result<Option<Object<'s>>, Refusal> {
    match store.get(name)? {
        Some(object) if object.is_collection() => Err(Refusal::WRONG_TYPE),
        found => Ok(found),
    }
}

/// A value as the store takes it.
pub fn value(bytes: &[u8]) -> Result<Value<'_>, Refusal> {
    Value::new(bytes).map_err(|_| Refusal::TOO_LONG)
}

/// A value that an argument is.
pub enum Given<'a> {
    Short(Value<'a>),
    /// It lies in the store already.
    Long(Held),
}

/// What a command did, or why not.
pub type Done = Result<(), Refusal>;

/// An error reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(Cow<'static, str>);

impl Refusal {
    pub const LONG_PATTERN: Self = Self::of("ERR a pattern is longer than 1024 bytes");
    pub const SYNTAX: Self = Self::of("ERR syntax error");
    pub const NOT_AN_INTEGER: Self = Self::of("ERR value is not an integer or out of range");
    pub const NOT_A_FLOAT: Self = Self::of("ERR value is not a valid float");
    pub const NO_SUCH_KEY: Self = Self::of("ERR no such key");
    pub const OVERFLOW: Self = Self::of("ERR increment or decrement would overflow");
    pub const NO_AUTH: Self = Self::of("NOAUTH Authentication required.");
    pub const TOO_LONG: Self = Self::of("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
    pub const OUT_OF_MEMORY: Self = Self::of("OOM command not allowed when used memory > 'maxmemory'.");
    pub const WRONG_TYPE: Self =
        Self::of("WRONGTYPE Operation against a key holding the wrong kind of value");
    pub const WRONG_PASSWORD: Self =
        Self::of("WRONGPASS invalid username-password pair or user is disabled.");

    /// An error that is known beforehand.
    pub const fn of(text: &'static str) -> Self {
        Self(Cow::Borrowed(text))
    }

    /// An error that says what it is about.
    pub fn new(text: String) -> Self {
        Self(Cow::Owned(text))
    }

    /// A command with too few arguments, or too many.
    pub fn arguments(name: &str) -> Self {
        Self::new(format!("ERR wrong number of arguments for '{name}' command"))
    }

    /// The reply.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl From<crate::LimitError> for Refusal {
    fn from(error: crate::LimitError) -> Self {
        Self::new(format!("ERR {error}"))
    }
}

impl From<ReadError> for Refusal {
    fn from(error: ReadError) -> Self {
        Self::new(format!("ERR {error}"))
    }
}

impl From<WriteError> for Refusal {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::OutOfMemory => Self::OUT_OF_MEMORY,
            error => Self::new(format!("ERR {error}")),
        }
    }
}

impl From<CollectionError> for Refusal {
    fn from(error: CollectionError) -> Self {
        match error {
            CollectionError::Read(error) => error.into(),
            CollectionError::Write(error) => error.into(),
            CollectionError::WrongKind => Self::WRONG_TYPE,
            CollectionError::TooMany => Self::new(format!("ERR {error}")),
        }
    }
}

impl From<IncrementError> for Refusal {
    fn from(error: IncrementError) -> Self {
        match error {
            IncrementError::Write(error) => error.into(),
            IncrementError::NotANumber => Self::NOT_AN_INTEGER,
            IncrementError::Overflow => Self::OVERFLOW,
        }
    }
}
