//! Requests, taken apart as they arrive: lines of words, some with a value behind them.
//!
//! Bytes may come in pieces of any length. A value that is longer than any may be is skipped without being
//! stored, so that what it consists of is never taken for a request.

use std::borrow::Cow;

use super::meta::{Meta, MetaVerb};
use crate::VALUE_BYTES_MAX;

/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 250;

/// The longest line, in bytes: that of a `get` with many keys.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// The longest value that is skipped, in bytes. The connection of a longer one is closed.
pub const SKIPPED_BYTES_MAX: usize = 128 << 20;

/// What ends a line, and a value.
const END: &[u8] = b"\r\n";

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    pub verb: Verb<'a>,
    /// The client wants no answer.
    pub is_quiet: bool,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb<'a> {
    /// Values of keys, with their versions if `has_unique`, after giving them another time to expire.
    Get {
        keys: Keys<'a>,
        has_unique: bool,
        exptime: Option<i64>,
    },
    /// Writes a value.
    Store(Store<'a>),
    Delete(&'a [u8]),
    Add {
        key: &'a [u8],
        amount: u64,
        direction: Direction,
    },
    Touch {
        key: &'a [u8],
        exptime: i64,
    },
    /// Deletes everything, after this many seconds.
    Flush {
        delay: i64,
    },
    Version,
    Verbosity,
    Statistics(Option<&'a [u8]>),
    Quit,
    Meta(Meta<'a>),
    /// Tells that all requests before are answered.
    NoOp,
    /// What is known of an object.
    Debug(&'a [u8]),
}

/// A value to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store<'a> {
    pub mode: Mode,
    pub key: &'a [u8],
    pub flags: u32,
    pub exptime: i64,
    pub value: &'a [u8],
}

/// When a value is written, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In any case.
    Set,
    /// If there is none.
    Add,
    /// If there is one.
    Replace,
    /// Behind the one that is there.
    Append,
    /// In front of it.
    Prepend,
    /// If the one that is there has this version.
    Compare(u64),
}

/// Whether a number becomes more or less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Past 2⁶⁴ it begins again at 0.
    Up,
    /// It ends at 0.
    Down,
}

/// Why bytes are no request, or none that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("ERROR")]
    Unknown,
    #[error("CLIENT_ERROR bad command line format")]
    Line,
    #[error("CLIENT_ERROR bad data chunk")]
    Value,
    #[error("SERVER_ERROR object too large for cache")]
    LongValue,
    #[error("CLIENT_ERROR invalid exptime argument")]
    Exptime,
    #[error("CLIENT_ERROR invalid numeric delta argument")]
    Amount,
    #[error("CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]")]
    Delete,
    #[error("CLIENT_ERROR invalid flag")]
    Flag,
    #[error("CLIENT_ERROR duplicate flag")]
    SameFlag,
    #[error("CLIENT_ERROR bad token in command line format")]
    Token,
    #[error("CLIENT_ERROR opaque token too long")]
    Opaque,
    #[error("CLIENT_ERROR invalid mode for meta command")]
    MetaMode,
    #[error("CLIENT_ERROR error decoding key")]
    Encoding,
    /// The connection has no further use.
    #[error("CLIENT_ERROR line too long")]
    LongLine,
    /// The same.
    #[error("SERVER_ERROR object too large for cache")]
    EndlessValue,
}

impl Malformed {
    /// Where the next request begins is unknown.
    pub fn ends_connection(self) -> bool {
        matches!(self, Self::LongLine | Self::EndlessValue)
    }
}

/// What the first bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// The beginning of a request.
    Incomplete,
    /// This many bytes of a value that is skipped.
    Skipped(usize),
    /// A request, and how many bytes it has.
    Request(Request<'a>, usize),
    /// Something else of this many bytes.
    Refused { refused: Refused<'a>, bytes: usize },
}

/// Why something is not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused<'a> {
    pub why: Malformed,
    /// The client wants no answer to that either.
    pub is_quiet: bool,
    /// The key whose value is to go: the one that was to take its place is too long, and nobody is to take
    /// the old one for it.
    pub stale: Option<Cow<'a, [u8]>>,
    /// How many bytes behind it are not to be understood.
    skips: usize,
}

/// What was understood of bytes whose end has not come.
#[derive(Debug, Default)]
pub struct Parser {
    /// Bytes to be skipped.
    skips: usize,
    /// Bytes that must be there before more can be understood.
    wanted: usize,
}

impl Parser {
    /// Looks at the first request of `bytes`, which must be the same ones at the next call unless this one
    /// said how many of them are done.
    pub fn parse<'a>(&mut self, bytes: &'a [u8]) -> Parsed<'a> {
        if self.skips > 0 {
            let skipped = self.skips.min(bytes.len());
            self.skips -= skipped;
            return Parsed::Skipped(skipped);
        }
        if bytes.len() < self.wanted {
            return Parsed::Incomplete;
        }
        let looked_at = &bytes[..bytes.len().min(LINE_BYTES_MAX)];
        let Some(end) = looked_at.iter().position(|&byte| byte == b'\n') else {
            if bytes.len() < LINE_BYTES_MAX {
                return Parsed::Incomplete;
            }
            return Parsed::Refused { refused: Malformed::LongLine.into(), bytes: bytes.len() };
        };
        self.wanted = 0;
        let line = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
        let line_bytes = end + 1;
        match parse_line(line) {
            Ok(Line::Whole(request)) => Parsed::Request(request, line_bytes),
            Ok(Line::WithValue { head, value_bytes }) => {
                self.take_value(bytes, line_bytes, head, value_bytes)
            }
            Err(refused) => {
                self.skips = refused.skips;
                Parsed::Refused { refused, bytes: line_bytes }
            }
        }
    }

    /// How many bytes must be there before more can be understood, as far as is known.
    pub fn wanted(&self) -> usize {
        self.wanted
    }

    fn take_value<'a>(
        &mut self,
        bytes: &'a [u8],
        line_bytes: usize,
        head: Request<'a>,
        value_bytes: usize,
    ) -> Parsed<'a> {
        let whole = line_bytes + value_bytes + END.len();
        if bytes.len() < whole {
            self.wanted = whole;
            return Parsed::Incomplete;
        }
        let (value, end) = bytes[line_bytes..whole].split_at(value_bytes);
        let is_quiet = head.is_quiet;
        if end != END {
            return Parsed::Refused {
                refused: Refused { is_quiet, ..Malformed::Value.into() },
                bytes: whole,
            };
        }
        let verb = match head.verb {
            Verb::Store(store) => Verb::Store(Store { value, ..store }),
            Verb::Meta(meta) => Verb::Meta(Meta { value, ..meta }),
            other => other,
        };
        Parsed::Request(Request { verb, is_quiet }, whole)
    }
}

/// What a line says.
enum Line<'a> {
    Whole(Request<'a>),
    /// A value of this many bytes follows.
    WithValue {
        head: Request<'a>,
        value_bytes: usize,
    },
}

impl From<Malformed> for Refused<'_> {
    fn from(why: Malformed) -> Self {
        Self { why, is_quiet: false, stale: None, skips: 0 }
    }
}

fn parse_line(line: &[u8]) -> Result<Line<'_>, Refused<'_>> {
    let mut words = Words(line);
    let name = words.next().unwrap_or(b"");
    let stored = |mode| parse_store(words, mode);
    let verb = match name {
        b"get" | b"gets" => {
            Verb::Get { keys: Keys::checked(words.0)?, has_unique: name == b"gets", exptime: None }
        }
        b"gat" | b"gats" => parse_gat(words, name == b"gats")?,
        b"set" => return stored(Mode::Set),
        b"add" => return stored(Mode::Add),
        b"replace" => return stored(Mode::Replace),
        b"append" => return stored(Mode::Append),
        b"prepend" => return stored(Mode::Prepend),
        b"cas" => return stored(Mode::Compare(0)),
        b"mg" => return parse_meta(words, MetaVerb::Get),
        b"ms" => return parse_meta(words, MetaVerb::Set),
        b"md" => return parse_meta(words, MetaVerb::Delete),
        b"ma" => return parse_meta(words, MetaVerb::Add),
        b"mn" => Verb::NoOp,
        b"me" => Verb::Debug(checked_key(words.next().ok_or(Malformed::Line)?)?),
        _ => return Ok(Line::Whole(parse_short(name, words)?)),
    };
    Ok(Line::Whole(Request { verb, is_quiet: false }))
}

/// A command of few words, of which the last may say that no answer is wanted.
fn parse_short<'a>(name: &[u8], words: Words<'a>) -> Result<Request<'a>, Refused<'a>> {
    const WORDS_MAX: usize = 4;
    let mut all: Vec<&[u8]> = words.take(WORDS_MAX).collect();
    let is_quiet = name != b"stats" && all.last() == Some(&&b"noreply"[..]) && all.pop().is_some();
    match parse_few(name, &all) {
        Ok(verb) => Ok(Request { verb, is_quiet }),
        Err(why) => Err(Refused { is_quiet: is_quiet && why != Malformed::Unknown, ..why.into() }),
    }
}

fn parse_few<'a>(name: &[u8], words: &[&'a [u8]]) -> Result<Verb<'a>, Malformed> {
    Ok(match (name, words) {
        (b"delete", [key]) | (b"delete", [key, b"0"]) => Verb::Delete(checked_key(key)?),
        (b"delete", [_, _, ..]) => return Err(Malformed::Delete),
        (b"incr" | b"decr", [key, amount]) => {
            let direction = if name == b"incr" { Direction::Up } else { Direction::Down };
            Verb::Add { key: checked_key(key)?, amount: number(amount).ok_or(Malformed::Amount)?, direction }
        }
        (b"touch", [key, exptime]) => {
            Verb::Touch { key: checked_key(key)?, exptime: signed(exptime).ok_or(Malformed::Exptime)? }
        }
        (b"flush_all", []) => Verb::Flush { delay: 0 },
        (b"flush_all", [delay]) => Verb::Flush { delay: signed(delay).ok_or(Malformed::Exptime)? },
        (b"version", []) => Verb::Version,
        (b"verbosity", [_, ..]) => Verb::Verbosity,
        (b"stats", rest) => Verb::Statistics(rest.first().copied()),
        (b"quit", _) => Verb::Quit,
        _ => return Err(Malformed::Unknown),
    })
}

fn parse_gat(mut words: Words<'_>, has_unique: bool) -> Result<Verb<'_>, Malformed> {
    let exptime = words.next().ok_or(Malformed::Unknown)?;
    let keys = Keys::checked(words.0)?;
    let exptime = signed(exptime).ok_or(Malformed::Exptime)?;
    Ok(Verb::Get { keys, has_unique, exptime: Some(exptime) })
}

fn parse_store(words: Words<'_>, mode: Mode) -> Result<Line<'_>, Refused<'_>> {
    const WORDS_MAX: usize = 7;
    let mut all: Vec<&[u8]> = words.take(WORDS_MAX).collect();
    let wanted = if matches!(mode, Mode::Compare(_)) { 5 } else { 4 };
    let is_quiet = all.len() == wanted + 1 && all.last() == Some(&&b"noreply"[..]) && all.pop().is_some();
    let [key, flags, exptime, bytes, ..] = all[..] else { return Err(Malformed::Unknown.into()) };
    if all.len() != wanted {
        return Err(Malformed::Unknown.into());
    }
    let value_bytes = value_length(bytes, is_quiet)?;
    let refused = |why: Malformed| Refused { skips: value_bytes + END.len(), is_quiet, ..why.into() };
    let store = || -> Result<Store<'_>, Malformed> {
        let mode = match mode {
            Mode::Compare(_) => Mode::Compare(number(all[4]).ok_or(Malformed::Line)?),
            mode => mode,
        };
        let flags = number(flags).and_then(|flags| u32::try_from(flags).ok()).ok_or(Malformed::Line)?;
        let exptime = signed(exptime).ok_or(Malformed::Line)?;
        Ok(Store { mode, key: checked_key(key)?, flags, exptime, value: b"" })
    };
    let verb = Verb::Store(store().map_err(refused)?);
    if value_bytes > VALUE_BYTES_MAX {
        let stale = (mode == Mode::Set).then_some(Cow::Borrowed(key));
        return Err(Refused { stale, ..refused(Malformed::LongValue) });
    }
    Ok(Line::WithValue { head: Request { verb, is_quiet }, value_bytes })
}

fn parse_meta(mut words: Words<'_>, verb: MetaVerb) -> Result<Line<'_>, Refused<'_>> {
    let key = words.next().ok_or(Malformed::Line)?;
    let value_bytes = match verb {
        MetaVerb::Set => Some(value_length(words.next().ok_or(Malformed::Line)?, false)?),
        _ => None,
    };
    let skips = value_bytes.map_or(0, |bytes| bytes + END.len());
    let refused = |why: Malformed| Refused { skips, ..why.into() };
    let meta = Meta::parse(verb, key, words).map_err(refused)?;
    if value_bytes.is_some_and(|bytes| bytes > VALUE_BYTES_MAX) {
        let stale = (meta.options.mode == Mode::Set).then_some(meta.key);
        return Err(Refused { stale, ..refused(Malformed::LongValue) });
    }
    let head = Request { verb: Verb::Meta(meta), is_quiet: false };
    Ok(match value_bytes {
        None => Line::Whole(head),
        Some(value_bytes) => Line::WithValue { head, value_bytes },
    })
}

/// The length of a value that is stored or skipped.
fn value_length(word: &[u8], is_quiet: bool) -> Result<usize, Refused<'static>> {
    let bytes = signed(word).ok_or(Malformed::Line)?;
    let bytes = usize::try_from(bytes).map_err(|_| Malformed::Value)?;
    if bytes > SKIPPED_BYTES_MAX {
        return Err(Refused { is_quiet, ..Malformed::EndlessValue.into() });
    }
    Ok(bytes)
}

/// A key that a client may use.
pub fn checked_key(key: &[u8]) -> Result<&[u8], Malformed> {
    if (1..=KEY_BYTES_MAX).contains(&key.len()) { Ok(key) } else { Err(Malformed::Line) }
}

/// The words of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words<'a>(pub &'a [u8]);

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let start = self.0.iter().position(|&byte| byte != b' ')?;
        let rest = &self.0[start..];
        let end = rest.iter().position(|&byte| byte == b' ').unwrap_or(rest.len());
        self.0 = &rest[end..];
        Some(&rest[..end])
    }
}

/// Keys of a line, each good and at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys<'a>(&'a [u8]);

impl<'a> Keys<'a> {
    fn checked(line: &'a [u8]) -> Result<Self, Malformed> {
        let mut words = Words(line);
        checked_key(words.next().ok_or(Malformed::Unknown)?)?;
        words.try_for_each(|key| checked_key(key).map(drop))?;
        Ok(Self(line))
    }

    /// The key at a place of the line or behind it, and the place behind that; places count from 0.
    pub fn after(&self, place: usize) -> Option<(&'a [u8], usize)> {
        let mut words = Words(&self.0[place.min(self.0.len())..]);
        let key = words.next()?;
        Some((key, self.0.len() - words.0.len()))
    }
}

/// A number without a sign.
pub fn number(word: &[u8]) -> Option<u64> {
    let digits = !word.is_empty() && word.iter().all(u8::is_ascii_digit);
    core::str::from_utf8(word).ok().filter(|_| digits)?.parse().ok()
}

/// A number that may have a sign.
pub fn signed(word: &[u8]) -> Option<i64> {
    core::str::from_utf8(word).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(bytes: &[u8]) -> Parsed<'_> {
        Parser::default().parse(bytes)
    }

    fn refused(bytes: &[u8]) -> Option<Malformed> {
        match one(bytes) {
            Parsed::Refused { refused, .. } => Some(refused.why),
            _ => None,
        }
    }

    #[test]
    fn a_request_is_understood_in_pieces_of_any_length() {
        let request = b"cas key 4294967295 -1 5 18446744073709551615 noreply\r\na\r\nbc\r\n";
        let mut parser = Parser::default();
        for length in 0..request.len() {
            assert_eq!(parser.parse(&request[..length]), Parsed::Incomplete, "{length} bytes");
        }
        assert_eq!(parser.wanted(), request.len(), "all but the end is there");
        let (mode, flags) = (Mode::Compare(u64::MAX), u32::MAX);
        let store = Store { mode, key: b"key", flags, exptime: -1, value: b"a\r\nbc" };
        let request_of = Request { verb: Verb::Store(store), is_quiet: true };
        assert_eq!(parser.parse(request), Parsed::Request(request_of, request.len()));
    }

    #[test]
    fn known_requests_are_understood() {
        let whole = |verb, is_quiet| Request { verb, is_quiet };
        let keys = |line| Keys(line);
        for (line, request) in [
            (
                &b"get a  b\n"[..],
                whole(Verb::Get { keys: keys(b" a  b"), has_unique: false, exptime: None }, false),
            ),
            (
                b"gats 30 a\r\n",
                whole(Verb::Get { keys: keys(b" a"), has_unique: true, exptime: Some(30) }, false),
            ),
            (b"delete a noreply\r\n", whole(Verb::Delete(b"a"), true)),
            (b"delete a 0\r\n", whole(Verb::Delete(b"a"), false)),
            (
                b"decr a 18446744073709551615\r\n",
                whole(Verb::Add { key: b"a", amount: u64::MAX, direction: Direction::Down }, false),
            ),
            (b"touch a -5 noreply\r\n", whole(Verb::Touch { key: b"a", exptime: -5 }, true)),
            (b"flush_all\r\n", whole(Verb::Flush { delay: 0 }, false)),
            (b"flush_all 10 noreply\r\n", whole(Verb::Flush { delay: 10 }, true)),
            (b"version\r\n", whole(Verb::Version, false)),
            (b"verbosity 1\r\n", whole(Verb::Verbosity, false)),
            (b"stats items\r\n", whole(Verb::Statistics(Some(b"items")), false)),
            (b"quit\r\n", whole(Verb::Quit, false)),
            (b"mn\r\n", whole(Verb::NoOp, false)),
        ] {
            assert_eq!(one(line), Parsed::Request(request, line.len()), "{}", line.escape_ascii());
        }
    }

    #[test]
    fn what_is_no_request_is_told_apart() {
        let long_key = [b'k'; KEY_BYTES_MAX + 1];
        let with_long_key = |before: &[u8], behind: &[u8]| [before, &long_key[..], behind].concat();
        for (bytes, why) in [
            (b"\r\n".to_vec(), Malformed::Unknown),
            (b"GET a\r\n".to_vec(), Malformed::Unknown),
            (b"get\r\n".to_vec(), Malformed::Unknown),
            (b"set a 0 0\r\n".to_vec(), Malformed::Unknown),
            (b"set a 0 0 x\r\n".to_vec(), Malformed::Line),
            (b"set a 0 0 -1\r\n".to_vec(), Malformed::Value),
            (b"set a 4294967296 0 1\r\n".to_vec(), Malformed::Line),
            (b"set a 0 0 1\r\nab\r\n".to_vec(), Malformed::Value),
            (b"set a 0 0 1048577\r\n".to_vec(), Malformed::LongValue),
            (b"set a 0 0 134217729\r\n".to_vec(), Malformed::EndlessValue),
            (b"incr a -1\r\n".to_vec(), Malformed::Amount),
            (b"touch a x\r\n".to_vec(), Malformed::Exptime),
            (b"delete a 5\r\n".to_vec(), Malformed::Delete),
            (with_long_key(b"get a ", b"\r\n"), Malformed::Line),
            (with_long_key(b"set ", b" 0 0 1\r\n"), Malformed::Line),
            (vec![b'g'; LINE_BYTES_MAX], Malformed::LongLine),
        ] {
            assert_eq!(refused(&bytes), Some(why), "{}", bytes[..bytes.len().min(80)].escape_ascii());
        }
    }

    #[test]
    fn a_value_that_is_refused_is_skipped_and_never_taken_for_requests() {
        let mut parser = Parser::default();
        let bytes = [&b"set a 0 0 1048577\r\n"[..], &[b'\n'; 1_048_577], b"\r\nversion\r\n"].concat();
        let (mut at, mut seen) = (0, Vec::new());
        while at < bytes.len() {
            let end = bytes.len().min(at + 50_000);
            match parser.parse(&bytes[at..end]) {
                Parsed::Skipped(skipped) => at += skipped,
                Parsed::Refused { refused, bytes } => {
                    assert_eq!(refused.stale.as_deref(), Some(&b"a"[..]));
                    seen.push(Err(refused.why));
                    at += bytes;
                }
                Parsed::Request(request, bytes) => {
                    seen.push(Ok(request.verb));
                    at += bytes;
                }
                Parsed::Incomplete => panic!("all of it is there"),
            }
        }
        assert_eq!(seen, [Err(Malformed::LongValue), Ok(Verb::Version)]);
    }
}
