//! Replies, in the version of the protocol that the client chose.

use super::reading::Reading;
use crate::decimal;

/// The version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Protocol {
    /// What clients speak unless they say otherwise.
    #[default]
    Resp2,
    /// After `HELLO 3`.
    Resp3,
}

/// Replies that are put together for one client.
#[derive(Debug, Default)]
pub struct Reply {
    bytes: Vec<u8>,
    /// Long values that belong at these places of it.
    longs: Vec<(usize, Reading)>,
    /// How the client wants them.
    pub protocol: Protocol,
}

impl Reply {
    /// Replies in this memory.
    pub fn new(bytes: Vec<u8>, protocol: Protocol) -> Self {
        Self { bytes, longs: Vec::new(), protocol }
    }

    /// The memory with it. It has no long values.
    pub fn into_bytes(self) -> Vec<u8> {
        debug_assert!(self.longs.is_empty(), "only commands that run for a socket reply with long values");
        self.bytes
    }

    /// The memory with it, and the long values that belong at places of it.
    pub fn into_parts(self) -> (Vec<u8>, Vec<(usize, Reading)>) {
        (self.bytes, self.longs)
    }

    /// How long it is.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Replies that were put together elsewhere.
    pub fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Removes what was put behind a length.
    pub fn truncate(&mut self, bytes: usize) {
        self.bytes.truncate(bytes);
        self.longs.retain(|(at, _)| *at <= bytes);
    }

    /// `+OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.bytes.extend_from_slice(b"+OK\r\n");
    }

    /// A short text.
    pub fn simple(&mut self, text: &str) {
        self.bytes.push(b'+');
        self.line(text.as_bytes());
    }

    /// An error: a word in capitals and a sentence.
    pub fn error(&mut self, text: &str) {
        self.bytes.push(b'-');
        // A line end within it would be taken for its end.
        self.bytes.extend(text.bytes().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }));
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// A number.
    #[inline]
    pub fn integer(&mut self, number: i64) {
        self.bytes.push(b':');
        push_integer(&mut self.bytes, number);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// A number with a fraction.
    pub fn double(&mut self, number: f64) {
        let text = double_text(number);
        match self.protocol {
            Protocol::Resp2 => self.bulk(text.as_bytes()),
            Protocol::Resp3 => {
                self.bytes.push(b',');
                self.line(text.as_bytes());
            }
        }
    }

    /// A count.
    #[inline]
    pub fn count(&mut self, count: usize) {
        self.integer(count as i64);
    }

    /// A string of bytes.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.header(b'$', bytes.len());
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// A string of this many bytes that `fill` writes.
    pub fn bulk_filled(&mut self, bytes: usize, fill: impl FnOnce(&mut [u8])) {
        self.header(b'$', bytes);
        let start = self.bytes.len();
        self.bytes.resize(start + bytes, 0);
        fill(&mut self.bytes[start..]);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// A part of a long value, which is read when the client takes it.
    pub fn bulk_long(&mut self, reading: Reading) {
        self.header(b'$', reading.left());
        self.longs.push((self.bytes.len(), reading));
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// No string.
    #[inline]
    pub fn null(&mut self) {
        self.bytes.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"$-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// No array.
    pub fn null_array(&mut self) {
        self.bytes.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"*-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// An array; its elements follow.
    #[inline]
    pub fn array(&mut self, elements: usize) {
        self.header(b'*', elements);
    }

    /// A map; its keys and values follow, one after the other.
    pub fn map(&mut self, pairs: usize) {
        match self.protocol {
            Protocol::Resp2 => self.header(b'*', 2 * pairs),
            Protocol::Resp3 => self.header(b'%', pairs),
        }
    }

    /// A set; its elements follow.
    pub fn set(&mut self, elements: usize) {
        self.header(if self.protocol == Protocol::Resp3 { b'~' } else { b'*' }, elements);
    }

    /// What was not asked for; its elements follow.
    pub fn push(&mut self, elements: usize) {
        self.header(if self.protocol == Protocol::Resp3 { b'>' } else { b'*' }, elements);
    }

    /// A text for people.
    pub fn verbatim(&mut self, text: &str) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text.as_bytes()),
            Protocol::Resp3 => {
                self.header(b'=', text.len() + 4);
                self.bytes.extend_from_slice(b"txt:");
                self.line(text.as_bytes());
            }
        }
    }

    /// Puts a header in front of elements that were put together from a place on, when it is known how many
    /// there are.
    pub fn insert_array(&mut self, at: usize, elements: usize) {
        self.insert(at, |reply| reply.array(elements));
    }

    /// Puts a string in front of what was put together from a place on.
    pub fn insert_bulk(&mut self, at: usize, bytes: &[u8]) {
        self.insert(at, |reply| reply.bulk(bytes));
    }

    fn insert(&mut self, at: usize, put: impl FnOnce(&mut Self)) {
        let end = self.bytes.len();
        put(self);
        let inserted = self.bytes.len() - end;
        self.bytes[at..].rotate_right(inserted);
    }

    #[inline]
    fn header(&mut self, mark: u8, count: usize) {
        self.bytes.push(mark);
        push_integer(&mut self.bytes, count as i64);
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn line(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.bytes.extend_from_slice(b"\r\n");
    }
}

/// The shortest text that is this number.
pub fn double_text(number: f64) -> String {
    /// Numbers from here on, and below its inverse, are written with an exponent.
    const PLAIN_MAX: f64 = 1e21;
    let size = number.abs();
    match () {
        () if number.is_infinite() => if number > 0.0 { "inf" } else { "-inf" }.to_owned(),
        () if size != 0.0 && !(1e-6..PLAIN_MAX).contains(&size) => {
            let text = format!("{number:e}");
            if text.contains("e-") { text } else { text.replace('e', "e+") }
        }
        () => format!("{number}"),
    }
}

/// Appends a number in decimal digits.
#[inline]
fn push_integer(to: &mut Vec<u8>, number: i64) {
    if let 0..=9 = number {
        return to.push(b'0' + number as u8);
    }
    to.extend_from_slice(decimal::write(number, &mut [0; decimal::DIGITS_MAX]));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(protocol: Protocol, put: impl FnOnce(&mut Reply)) -> String {
        let mut reply = Reply { protocol, ..Reply::default() };
        put(&mut reply);
        String::from_utf8(reply.bytes).expect("text")
    }

    #[test]
    fn both_versions_write_what_they_have_for_it() {
        for (write, resp2, resp3) in [
            ((|reply| reply.null()) as fn(&mut Reply), "$-1\r\n", "_\r\n"),
            (|reply| reply.null_array(), "*-1\r\n", "_\r\n"),
            (|reply| reply.map(2), "*4\r\n", "%2\r\n"),
            (|reply| reply.set(2), "*2\r\n", "~2\r\n"),
            (|reply| reply.verbatim("ab"), "$2\r\nab\r\n", "=6\r\ntxt:ab\r\n"),
            (|reply| reply.bulk(b""), "$0\r\n\r\n", "$0\r\n\r\n"),
            (|reply| reply.error("ERR a\r\nb"), "-ERR a  b\r\n", "-ERR a  b\r\n"),
        ] {
            assert_eq!(put(Protocol::Resp2, write), resp2);
            assert_eq!(put(Protocol::Resp3, write), resp3);
        }
    }

    #[test]
    fn a_header_can_come_last() {
        let text = put(Protocol::Resp2, |reply| {
            reply.ok();
            let at = reply.len();
            (0..12).for_each(|number| reply.integer(number));
            reply.insert_array(at, 12);
        });
        assert!(text.starts_with("+OK\r\n*12\r\n:0\r\n:1\r\n") && text.ends_with(":11\r\n"));
    }
}
