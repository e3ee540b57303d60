//! Which payloads go through the ring, and which are lent. Alone in its file, and in one test, because it
//! counts what the whole process sends.

mod common;

use common::counters::sum_of;
use common::stream::Stream;
use common::{LONG, Pair, settings};
use farcall::{Outgoing, Payload, Service, Tag, TransportKind};

const TAKE: Service = Service(1);
const TAG: Tag = Tag(1);

/// How many blocks a payload of this many bytes takes, with a parameter set.
type Blocks = fn(&str, usize) -> u64;

#[test]
fn calls_are_lent_from_8_kilobytes_on_and_messages_from_the_limit_on() {
    for (assignment, longest_of_call, longest_of_message) in [
        ("ring.inline_bytes=20K", 8191, 20 << 10),
        ("ring.inline_bytes=100", 100, 100),
        ("ring.inline_bytes=0", 0, 0),
        // The longest record is a quarter of the ring, with headers of 24 bytes.
        ("ring.ring_bytes=4K", 1000, 1000),
    ] {
        let cases: [(usize, Blocks); 3] = [
            (longest_of_call, blocks_of_call),
            (longest_of_message, blocks_of_message),
            (longest_of_message, blocks_of_moved_message),
        ];
        for (longest, blocks_of) in cases {
            let blocks = [longest, longest + 1].map(|bytes| blocks_of(assignment, bytes));
            assert_eq!(blocks, [0, 1], "{assignment}, {longest} bytes and one more");
        }
    }
}

/// Blocks for a request of this many bytes.
fn blocks_of_call(assignment: &str, bytes: usize) -> u64 {
    let pair = Pair::new(TransportKind::RING_SHM, settings(&[assignment]), |server| {
        server.serve(TAKE, |_, reply| reply.send(b""));
    });
    pair.client.call(pair.server, TAKE, vec![1; bytes]).within(LONG).wait().expect("an answer");
    sum_of("ring+shm", "blocks_sent")
}

/// Blocks for a message of this many bytes.
fn blocks_of_message(assignment: &str, bytes: usize) -> u64 {
    blocks_of_payload(assignment, bytes, Outgoing::from(&vec![1; bytes]))
}

/// Blocks for one whose payload its sender has no more use for.
fn blocks_of_moved_message(assignment: &str, bytes: usize) -> u64 {
    blocks_of_payload(assignment, bytes, Payload::from(vec![1; bytes]).into())
}

fn blocks_of_payload(assignment: &str, bytes: usize, payload: Outgoing<'_>) -> u64 {
    let stream = Stream::with(&settings(&[assignment]));
    stream.sender.send(stream.to, TAG, payload).wait().expect("there is room");
    let message = stream.receiver.receive(stream.from, TAG).wait().expect("it was sent");
    assert_eq!(message.len(), bytes);
    sum_of("ring+shm", "blocks_sent")
}
