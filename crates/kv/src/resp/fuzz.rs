//! What a hostile Redis client sends, in pieces of any length.

use farcall::policy::Principal;
use farcall_base::SipKey;

use super::Options;
use super::command::Engine;
use super::parse::{LIMITS, Parser, ProtocolError};
use super::reply::{Protocol, Reply};
use super::session::Session;
use crate::Shard;
use crate::store::{MEMORY_BYTES_MIN, Store};

/// Requests of a client; the first byte says in which pieces they come. They must be understood as if they
/// came in one piece, and whatever they are, the next client is served.
pub fn fuzz_resp(bytes: &[u8]) {
    let Some((&piece, bytes)) = bytes.split_first() else { return };
    let mut whole = Vec::new();
    let end = understand(bytes, bytes.len().max(1), |args| whole.push(args));
    let mut pieces = Vec::new();
    let piece_end = understand(bytes, usize::from(piece).max(1), |args| pieces.push(args));
    assert_eq!((&whole, end), (&pieces, piece_end), "pieces of {piece} bytes");
    let store = Store::with_key(MEMORY_BYTES_MIN, SipKey([1, 2])).expect("memory");
    let mut shard = Shard::new(store, 0, 1);
    let mut engine = Engine::new(&Options::default(), None, &[], &mut shard);
    engine.begin_turn(1_000_000);
    engine.prepare(&mut shard);
    let mut hostile = Session::new(1, String::new(), Principal::Unproven, true, 0);
    for words in &whole {
        execute(&mut engine, &mut shard, &mut hostile, words);
        engine.keep_up(&mut shard);
    }
    let mut honest = Session::new(2, String::new(), Principal::Unproven, true, 0);
    for (line, reply) in
        [("FLUSHALL", "+OK\r\n"), ("SET key value", "+OK\r\n"), ("GET key", "$5\r\nvalue\r\n")]
    {
        let words: Vec<_> = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        assert_eq!(execute(&mut engine, &mut shard, &mut honest, &words), reply.as_bytes());
    }
}

fn execute(engine: &mut Engine, shard: &mut Shard, session: &mut Session, words: &[Vec<u8>]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        request.extend_from_slice(word);
        request.extend_from_slice(b"\r\n");
    }
    let mut parser = Parser::default();
    assert_eq!(parser.parse(&request, LIMITS), Ok(Some(request.len())), "what was understood can be written");
    let mut reply = Reply::new(Vec::new(), Protocol::default());
    engine.execute(parser.args(&request), session, &mut reply, shard);
    while engine.step_long(session, &mut reply, shard) {}
    reply.into_bytes()
}

/// Takes requests out of bytes that come in pieces; gives how it ended.
fn understand(
    bytes: &[u8],
    piece: usize,
    mut take: impl FnMut(Vec<Vec<u8>>),
) -> Result<usize, ProtocolError> {
    let (mut parser, mut done) = (Parser::default(), 0);
    for end in (piece..bytes.len()).step_by(piece).chain([bytes.len()]) {
        while let Some(length) = parser.parse(&bytes[done..end], LIMITS)? {
            let words: Vec<_> =
                parser.args(&bytes[done..done + length]).from(0).map(<[u8]>::to_vec).collect();
            if !words.is_empty() {
                take(words);
            }
            parser.reset();
            done += length;
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_every_length_are_understood_alike() {
        let requests = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\nPING 'x y'\r\n*0\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$0\r\n\r\n*1\r\n$x";
        for piece in 0..=u8::MAX {
            fuzz_resp(&[&[piece][..], requests].concat());
        }
    }
}
