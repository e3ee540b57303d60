//! What a hostile memcached client sends, in pieces of any length.

use farcall_base::SipKey;

use super::call::Call;
use super::conversation::step_whole;
use super::parse::{Malformed, Parsed, Parser, Request};
use crate::Shard;
use crate::resp::{Engine, Options};
use crate::store::{MEMORY_BYTES_MIN, Store};

/// Requests of a client; the first byte says in which pieces they come. They must be understood as if they
/// came in one piece, and whatever they are, the next client is served.
pub fn fuzz_memcached(bytes: &[u8]) {
    let Some((&piece, bytes)) = bytes.split_first() else { return };
    let whole = understand(bytes, bytes.len().max(1));
    assert_eq!(whole, understand(bytes, usize::from(piece).max(1)), "pieces of {piece} bytes");
    let store = Store::with_key(MEMORY_BYTES_MIN, SipKey([1, 2])).expect("memory");
    let mut shard = Shard::new(store, 0, 1);
    let mut engine = Engine::new(&Options::default(), None, &[], &mut shard);
    engine.begin_turn(1_000_000);
    engine.prepare(&mut shard);
    let mut out = Vec::new();
    for request in whole.iter().filter_map(|seen| seen.as_ref().ok()) {
        out.clear();
        step_whole(&mut Call { engine: &mut engine, shard: &mut shard, out: &mut out }, request);
        engine.keep_up(&mut shard);
    }
    for (line, answer) in [
        ("flush_all\r\n", "OK\r\n"),
        ("set key 7 0 5\r\nvalue\r\n", "STORED\r\n"),
        ("get key\r\n", "VALUE key 7 5\r\nvalue\r\nEND\r\n"),
    ] {
        let seen = understand(line.as_bytes(), line.len());
        let Some(Ok(request)) = seen.first() else { panic!("{line} is a request") };
        out.clear();
        step_whole(&mut Call { engine: &mut engine, shard: &mut shard, out: &mut out }, request);
        assert_eq!(out, answer.as_bytes());
    }
}

/// Takes requests out of bytes that come in pieces; gives what they are.
fn understand(bytes: &[u8], piece: usize) -> Vec<Result<Request<'_>, Malformed>> {
    let (mut parser, mut done, mut seen) = (Parser::default(), 0, Vec::new());
    for end in (piece..bytes.len()).step_by(piece).chain([bytes.len()]) {
        while done < end {
            match parser.parse(&bytes[done..end]) {
                Parsed::Incomplete => break,
                Parsed::Skipped(skipped) => done += skipped,
                Parsed::Request(request, length) => {
                    seen.push(Ok(request));
                    done += length;
                }
                Parsed::Refused { refused, bytes } => {
                    seen.push(Err(refused.why));
                    if refused.why.ends_connection() {
                        return seen;
                    }
                    done += bytes;
                }
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_every_length_are_understood_alike() {
        let requests =
            b"set a 1 0 3\r\nx\r\n\r\nget a b\r\nset a 0 0 2\r\nabc\r\nincr a 1\r\nms b 2 Ma N5\r\nhi\r\n\
            mg b v t k O1\r\nmg c N30 v\r\nma n N0 J5 v\r\ngat 0 a\r\nset l 0 0 1048577\r\n\r\n\xff\0get x";
        for piece in 0..=u8::MAX {
            fuzz_memcached(&[&[piece][..], requests].concat());
        }
    }
}
