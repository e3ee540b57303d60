//! What a hostile Redis client sends, in pieces of any length.

use farcall::policy::Principal;
use farcall_base::SipKey;

use super::Options;
use super::command::Engine;
use super::parse::{LIMITS, Limits, Parser, ProtocolError};
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
    let mut taken = Vec::new();
    let taken_end = understand_taking(bytes, usize::from(piece).max(1), |args| taken.push(args));
    assert_eq!((&whole, end.is_ok()), (&taken, taken_end.is_ok()), "long arguments are taken out");
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

/// The same where arguments of a few bytes are long ones, whose bytes are taken out of their requests as they
/// come.
fn understand_taking(
    bytes: &[u8],
    piece: usize,
    mut take: impl FnMut(Vec<Vec<u8>>),
) -> Result<(), ProtocolError> {
    let limits = Limits { short_bytes: 3, ..LIMITS };
    let (mut parser, mut input, mut longs) = (Parser::default(), Vec::new(), Vec::<(usize, Vec<u8>)>::new());
    for piece in bytes.chunks(piece) {
        input.extend_from_slice(piece);
        loop {
            if let Some(length) = parser.parse(&input, limits)? {
                let mut words: Vec<_> = parser.args(&input).from(0).map(<[u8]>::to_vec).collect();
                longs.drain(..).for_each(|(number, long)| words[number] = long);
                if !words.is_empty() {
                    take(words);
                }
                parser.reset();
                input.drain(..length);
                continue;
            }
            let Some(long) = parser.long() else { break };
            let there = long.left.min(input.len() - long.at);
            if there == 0 {
                break;
            }
            if longs.last().is_none_or(|(number, _)| *number != long.number) {
                longs.push((long.number, Vec::new()));
            }
            let taken = input.drain(long.at..long.at + there);
            longs.last_mut().expect("it was pushed").1.extend(taken);
            parser.take_long(there);
        }
    }
    Ok(())
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
