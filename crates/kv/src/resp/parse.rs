//! Requests, taken apart as they arrive.
//!
//! A request is an array of bulk strings, or a line (an *inline command*). Bytes may come in pieces of any
//! length: what was understood of a request is kept, so that none is read twice. Nothing is reserved because
//! a client says that something long will come.

use core::ops::Range;

use super::words::split_words;
use crate::store::LONG_BYTES_MAX;
use crate::{VALUE_BYTES_MAX, decimal};

/// The most arguments of a request, its name included.
pub const ARGUMENTS_MAX: usize = 1 << 20;

/// The longest argument, in bytes.
pub const BULK_BYTES_MAX: usize = LONG_BYTES_MAX;

/// The longest argument that is kept until its request is whole, where its bytes cannot go anywhere before.
pub const KEPT_BYTES_MAX: usize = 128 << 20;

/// The longest request, in bytes. So much memory a client can take by sending.
pub const REQUEST_BYTES_MAX: usize = 256 << 20;

/// The longest line: an inline command, or a length.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// The same for a client that has not said the password yet.
pub const STRANGER: Limits = Limits { arguments: 10, bulk_bytes: 16 << 10, short_bytes: 16 << 10 };

/// What a client may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Arguments of a request.
    pub arguments: usize,
    /// Bytes of an argument.
    pub bulk_bytes: usize,
    /// The same of one that is awaited without asking what is to become of it.
    pub short_bytes: usize,
}

/// What every client may send.
pub const LIMITS: Limits =
    Limits { arguments: ARGUMENTS_MAX, bulk_bytes: BULK_BYTES_MAX, short_bytes: VALUE_BYTES_MAX };

/// A long argument, whose bytes are about to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongArgument {
    /// Which argument it is.
    pub number: usize,
    /// Its length, and how much of it is awaited.
    pub bytes: usize,
    pub left: usize,
    /// Where in the request the next of them lie.
    pub at: usize,
}

/// Why bytes are no request. The connection has no further use: where the next one begins is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// A line without an end.
    #[error("too big inline request")]
    LongLine,
    /// The count of arguments has no end.
    #[error("too big mbulk count string")]
    LongCount,
    /// The length of an argument has no end.
    #[error("too big bulk count string")]
    LongLength,
    /// The count of arguments is none, or too many.
    #[error("invalid multibulk length")]
    Count,
    /// The length of an argument is none, or too long.
    #[error("invalid bulk length")]
    Length,
    /// The arguments are too long together.
    #[error("too big request")]
    LongRequest,
    /// The client must say the password first.
    #[error("unauthenticated multibulk length")]
    StrangerCount,
    /// The client must say the password first.
    #[error("unauthenticated bulk length")]
    StrangerLength,
    /// An argument does not begin as one.
    #[error("expected '$', got '{}'", printable(*.0))]
    NoBulk(u8),
    /// A quoted word has no end, or something follows it at once.
    #[error("unbalanced quotes in request")]
    Quotes,
}

fn printable(byte: u8) -> char {
    if byte.is_ascii_graphic() || byte == b' ' { char::from(byte) } else { '?' }
}

/// The arguments of a request; the first is the command's name.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    bytes: &'a [u8],
    ranges: &'a [Range<usize>],
}

impl<'a> Args<'a> {
    /// Arguments at places of some bytes.
    pub fn new(bytes: &'a [u8], ranges: &'a [Range<usize>]) -> Self {
        Self { bytes, ranges }
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// One of them.
    ///
    /// # Panics
    /// When there are fewer.
    #[inline]
    pub fn at(&self, number: usize) -> &'a [u8] {
        &self.bytes[self.ranges[number].clone()]
    }

    /// One of them, if there are that many.
    #[inline]
    pub fn get(&self, number: usize) -> Option<&'a [u8]> {
        self.ranges.get(number).map(|range| &self.bytes[range.clone()])
    }

    /// Those from one on, as the arguments of another request.
    pub fn without(self, number: usize) -> Self {
        Self { ranges: &self.ranges[number.min(self.ranges.len())..], ..self }
    }

    /// All of them from one on.
    pub fn from(&self, number: usize) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        let bytes = self.bytes;
        self.ranges[number.min(self.ranges.len())..].iter().map(move |range| &bytes[range.clone()])
    }
}

/// What is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
enum Stage {
    /// The first line of a request.
    #[default]
    Start,
    /// The length of the next argument, of this many.
    Length(usize),
    /// An argument of this length, of this many.
    Bulk { left: usize, bytes: usize },
    /// More of a long argument of this length, of this many.
    Long { left: usize, bytes: usize, awaited: usize },
    /// Nothing: all of it is there.
    Whole,
}

/// What was understood of a request whose end has not come.
#[derive(Debug, Default)]
pub struct Parser {
    stage: Stage,
    /// Bytes of the request that were understood.
    at: usize,
    ranges: Vec<Range<usize>>,
    /// The words of an inline command, without their quotes.
    words: Vec<u8>,
    is_inline: bool,
}

impl Parser {
    /// Goes on with a request that starts at the first of `bytes`; its bytes up to where the last call ended
    /// must be the same. Gives how long it is, once all of it is there, until it is forgotten.
    #[inline]
    pub fn parse(&mut self, bytes: &[u8], limits: Limits) -> Result<Option<usize>, ProtocolError> {
        loop {
            let done = match self.stage {
                Stage::Start if bytes.is_empty() => return Ok(None),
                Stage::Start if bytes[0] != b'*' => return self.parse_inline(bytes),
                Stage::Start => self.parse_count(bytes, limits)?,
                Stage::Length(left) => self.parse_length(bytes, left, limits)?,
                Stage::Bulk { left, bytes: length } => self.parse_bulk(bytes, left, length),
                Stage::Long { .. } => Step::Incomplete,
                Stage::Whole => Step::Complete,
            };
            match done {
                Step::Next => {}
                Step::Incomplete => return Ok(None),
                Step::Complete => {
                    self.stage = Stage::Whole;
                    return Ok(Some(self.at));
                }
            }
        }
    }

    /// The arguments of the request that is complete, whose bytes are these.
    #[inline]
    pub fn args<'a>(&'a self, bytes: &'a [u8]) -> Args<'a> {
        Args { bytes: if self.is_inline { &self.words } else { bytes }, ranges: &self.ranges }
    }

    /// Forgets the request, for the next one.
    #[inline]
    pub fn reset(&mut self) {
        self.stage = Stage::Start;
        self.at = 0;
        self.ranges.clear();
        self.words.clear();
        self.is_inline = false;
        // One request with many arguments is no reason to hold their memory.
        if self.ranges.capacity() > RANGES_KEPT_MAX {
            self.ranges = Vec::new();
        }
    }

    /// Memory that it takes beside the request.
    pub fn memory_bytes(&self) -> usize {
        self.ranges.capacity() * size_of::<Range<usize>>() + self.words.capacity()
    }

    /// The long argument whose bytes are awaited. Nothing behind them is understood before they are taken.
    pub fn long(&self) -> Option<LongArgument> {
        let Stage::Long { bytes, awaited, .. } = self.stage else { return None };
        Some(LongArgument { number: self.ranges.len(), bytes, left: awaited, at: self.at })
    }

    /// The arguments in front of the long one, in a request of which these bytes have come.
    pub fn args_before<'a>(&'a self, bytes: &'a [u8]) -> Args<'a> {
        Args { bytes, ranges: &self.ranges }
    }

    /// The long argument, of which nothing was taken, is awaited as others are.
    pub fn keep_long(&mut self) -> Result<(), ProtocolError> {
        if let Stage::Long { left, bytes, .. } = self.stage {
            if self.at + bytes > REQUEST_BYTES_MAX {
                return Err(ProtocolError::LongRequest);
            }
            self.stage = Stage::Bulk { left, bytes };
        }
        Ok(())
    }

    /// This many bytes of the long argument were taken out of the request, which has none of them any more.
    pub fn take_long(&mut self, taken: usize) {
        if let Stage::Long { left, bytes, awaited } = self.stage {
            self.stage = match awaited - taken {
                0 => Stage::Bulk { left, bytes: 0 },
                awaited => Stage::Long { left, bytes, awaited },
            };
        }
    }

    /// Whether a request has begun.
    pub fn has_begun(&self) -> bool {
        self.at > 0
    }

    /// How many bytes of the request must be there before more of it can be understood, as far as is known.
    pub fn wanted(&self) -> usize {
        match self.stage {
            Stage::Bulk { bytes, .. } | Stage::Long { awaited: bytes, .. } => self.at + bytes + 2,
            _ => self.at + 1,
        }
    }

    fn parse_count(&mut self, bytes: &[u8], limits: Limits) -> Result<Step, ProtocolError> {
        let Some((line, end)) = line_of(bytes, self.at) else {
            let is_long = bytes.len() - self.at > LINE_BYTES_MAX;
            return if is_long { Err(ProtocolError::LongCount) } else { Ok(Step::Incomplete) };
        };
        let count = decimal::parse(&line[1..]).ok_or(ProtocolError::Count)?;
        self.at = end;
        if count <= 0 {
            return Ok(Step::Complete);
        }
        let count = usize::try_from(count).map_err(|_| ProtocolError::Count)?;
        if count > ARGUMENTS_MAX {
            return Err(ProtocolError::Count);
        }
        if count > limits.arguments {
            return Err(ProtocolError::StrangerCount);
        }
        self.stage = Stage::Length(count);
        Ok(Step::Next)
    }

    #[inline]
    fn parse_length(&mut self, bytes: &[u8], left: usize, limits: Limits) -> Result<Step, ProtocolError> {
        let Some((line, end)) = line_of(bytes, self.at) else {
            let is_long = bytes.len() - self.at > LINE_BYTES_MAX;
            return if is_long { Err(ProtocolError::LongLength) } else { Ok(Step::Incomplete) };
        };
        let Some((&mark, digits)) = line.split_first() else { return Err(ProtocolError::NoBulk(b'\r')) };
        if mark != b'$' {
            return Err(ProtocolError::NoBulk(mark));
        }
        let length = decimal::parse(digits).and_then(|length| usize::try_from(length).ok());
        let length = length.filter(|&length| length <= BULK_BYTES_MAX).ok_or(ProtocolError::Length)?;
        if length > limits.bulk_bytes {
            return Err(ProtocolError::StrangerLength);
        }
        self.at = end;
        if length > limits.short_bytes {
            self.stage = Stage::Long { left, bytes: length, awaited: length };
            return Ok(Step::Next);
        }
        if end + length > REQUEST_BYTES_MAX {
            return Err(ProtocolError::LongRequest);
        }
        self.stage = Stage::Bulk { left, bytes: length };
        Ok(Step::Next)
    }

    #[inline]
    fn parse_bulk(&mut self, bytes: &[u8], left: usize, length: usize) -> Step {
        if bytes.len() < self.at + length + 2 {
            return Step::Incomplete;
        }
        self.ranges.push(self.at..self.at + length);
        self.at += length + 2;
        if left == 1 {
            return Step::Complete;
        }
        self.stage = Stage::Length(left - 1);
        Step::Next
    }

    fn parse_inline(&mut self, bytes: &[u8]) -> Result<Option<usize>, ProtocolError> {
        let looked_at = &bytes[..bytes.len().min(LINE_BYTES_MAX)];
        let Some(end) = looked_at.iter().position(|&byte| byte == b'\n') else {
            if bytes.len() > LINE_BYTES_MAX {
                return Err(ProtocolError::LongLine);
            }
            return Ok(None);
        };
        let line = &bytes[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        self.is_inline = true;
        split_words(line, &mut self.words, &mut self.ranges)?;
        self.at = end + 1;
        Ok(Some(self.at))
    }
}

/// Ranges that a parser keeps for its next request.
const RANGES_KEPT_MAX: usize = 256;

enum Step {
    Next,
    Incomplete,
    Complete,
}

/// The line from a place on, without its end, and the place behind it.
#[inline]
fn line_of(bytes: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let rest = &bytes[at..];
    let looked_at = &rest[..rest.len().min(LINE_BYTES_MAX)];
    let end = looked_at.iter().position(|&byte| byte == b'\r')?;
    // The byte behind the carriage return must be there; it is a line feed, whatever it is.
    (rest.len() > end + 1).then(|| (&rest[..end], at + end + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Whole = (usize, Vec<Vec<u8>>);

    fn all(bytes: &[u8]) -> Result<Option<Whole>, ProtocolError> {
        let mut parser = Parser::default();
        let length = parser.parse(bytes, LIMITS)?;
        Ok(length.map(|length| (length, parser.args(bytes).from(0).map(<[u8]>::to_vec).collect())))
    }

    fn words(line: &[u8]) -> Result<Vec<Vec<u8>>, ProtocolError> {
        all(line).map(|done| done.expect("a whole line").1)
    }

    #[test]
    fn a_request_is_understood_in_pieces_of_any_length() {
        let request = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nv\r\n12\r\n";
        let args = vec![b"SET".to_vec(), b"k".to_vec(), b"v\r\n12".to_vec()];
        assert_eq!(all(request), Ok(Some((request.len(), args.clone()))));
        let mut parser = Parser::default();
        for length in 0..request.len() {
            assert_eq!(parser.parse(&request[..length], LIMITS), Ok(None), "{length} bytes");
        }
        assert_eq!(parser.wanted(), request.len(), "all but the end is there");
        assert_eq!(parser.parse(request, LIMITS), Ok(Some(request.len())));
        assert!(parser.args(request).from(0).eq(args.iter().map(Vec::as_slice)));
    }

    #[test]
    fn what_is_no_request_is_told_apart() {
        for (bytes, error) in [
            (&b"*x\r\n"[..], ProtocolError::Count),
            (b"*1048577\r\n", ProtocolError::Count),
            (b"*9223372036854775808\r\n", ProtocolError::Count),
            (b"*1\r\n$-1\r\n", ProtocolError::Length),
            (b"*1\r\n$9223372036854775807\r\n", ProtocolError::Length),
            (b"*1\r\n$9223372036854775808\r\n", ProtocolError::Length),
            (b"*1\r\n$536870913\r\n", ProtocolError::Length),
            (b"*1\r\nfoo\r\n", ProtocolError::NoBulk(b'f')),
            (b"*1\r\n\r\n", ProtocolError::NoBulk(b'\r')),
        ] {
            assert_eq!(all(bytes), Err(error), "{}", bytes.escape_ascii());
        }
        let mut long = b"*300\r\n".to_vec();
        for _ in 0..REQUEST_BYTES_MAX / VALUE_BYTES_MAX {
            long.extend_from_slice(format!("${VALUE_BYTES_MAX}\r\n").as_bytes());
            long.resize(long.len() + VALUE_BYTES_MAX, b' ');
            long.extend_from_slice(b"\r\n");
        }
        assert_eq!(all(&long), Err(ProtocolError::LongRequest));
        let long = [b'1'; LINE_BYTES_MAX + 1];
        assert_eq!(all(&long), Err(ProtocolError::LongLine));
        assert_eq!(all(&[&b"*"[..], &long].concat()), Err(ProtocolError::LongCount));
        assert_eq!(all(&[&b"*1\r\n$"[..], &long].concat()), Err(ProtocolError::LongLength));
    }

    #[test]
    fn requests_without_arguments_are_passed_over() {
        for bytes in [&b"*0\r\n"[..], b"*-1\r\n", b"\r\n", b"\n", b"  \r\n"] {
            assert_eq!(all(bytes), Ok(Some((bytes.len(), vec![]))));
        }
    }

    #[test]
    fn lines_are_split_into_words() {
        let two = vec![b"set".to_vec(), b"a b".to_vec()];
        assert_eq!(words(b"set 'a b'\r\n"), Ok(two.clone()));
        assert_eq!(words(b"  set   \"a b\"  \n"), Ok(two));
        assert_eq!(words(b"\"\\x41\\n\\\"\" 'it\\'s' \"\"\n"), {
            Ok(vec![b"A\n\"".to_vec(), b"it's".to_vec(), b"".to_vec()])
        });
        for line in [&b"\"a\n"[..], b"'a\n", b"\"a\"b\n"] {
            assert_eq!(words(line), Err(ProtocolError::Quotes));
        }
    }

    #[test]
    fn strangers_may_send_little() {
        let mut parser = Parser::default();
        assert_eq!(parser.parse(b"*11\r\n", STRANGER), Err(ProtocolError::StrangerCount));
        parser.reset();
        assert_eq!(parser.parse(b"*1\r\n$16385\r\n", STRANGER), Err(ProtocolError::StrangerLength));
    }

    #[test]
    fn a_long_argument_is_taken_out_of_its_request() {
        let limits = Limits { short_bytes: 4, ..LIMITS };
        let mut bytes = b"*3\r\n$3\r\nSET\r\n$10\r\n0123456789\r\n$1\r\nx\r\n".to_vec();
        let mut parser = Parser::default();
        assert_eq!(parser.parse(&bytes, limits), Ok(None));
        let long = parser.long().expect("it is awaited");
        assert_eq!((long.number, long.bytes, long.left), (1, 10, 10));
        assert_eq!(parser.args_before(&bytes).at(0), b"SET");
        for (taken, left) in [(7, Some(3)), (3, None)] {
            assert!(
                bytes[long.at..].starts_with(&b"0123456789"[10 - parser.long().map_or(0, |it| it.left)..])
            );
            bytes.drain(long.at..long.at + taken);
            parser.take_long(taken);
            assert_eq!(parser.long().map(|long| long.left), left);
        }
        assert_eq!(parser.parse(&bytes, limits), Ok(Some(bytes.len())));
        assert!(parser.args(&bytes).from(0).eq([&b"SET"[..], b"", b"x"]), "nothing of it is left");
    }

    #[test]
    fn a_long_argument_may_be_awaited_like_others() {
        let limits = Limits { short_bytes: 4, ..LIMITS };
        let bytes = b"*2\r\n$4\r\nECHO\r\n$5\r\n01234\r\n";
        let mut parser = Parser::default();
        assert_eq!(parser.parse(bytes, limits), Ok(None));
        parser.keep_long().expect("it is short enough");
        assert_eq!(parser.parse(bytes, limits), Ok(Some(bytes.len())));
        assert!(parser.args(bytes).from(0).eq([&b"ECHO"[..], b"01234"]));
        let mut parser = Parser::default();
        let length = format!("*1\r\n${BULK_BYTES_MAX}\r\n");
        assert_eq!(parser.parse(length.as_bytes(), limits), Ok(None));
        assert_eq!(parser.keep_long(), Err(ProtocolError::LongRequest));
    }
}
