//! Long payloads are announced part by part, where that pays. Alone in its file, and in one test, because it counts what the
//! whole process sends.

mod common;

use common::counters::sum_of;
use common::stream::Stream;
use common::{LONG, Pair, settings};
use farcall::{Service, Tag, TransportKind};

const TAKE: Service = Service(1);
const AHEAD: &str = "ring.fetch_ahead=true";
const NOT_AHEAD: &str = "ring.fetch_ahead=false";
const TAG: Tag = Tag(1);
const PAYLOAD_BYTES: usize = 64 << 10;
/// Of eight parts the last comes with the message.
const HINTS_OF_A_PAYLOAD: u64 = 7;

#[test]
fn a_peer_is_told_of_the_parts_of_a_payload_unless_it_has_other_work() {
    assert_eq!(hints_of_calls(AHEAD, 1), HINTS_OF_A_PAYLOAD);
    assert_eq!(hints_of_calls(AHEAD, 3), HINTS_OF_A_PAYLOAD, "only the first finds the peer waiting");
    assert_eq!(hints_of_messages(AHEAD, 5), 2 * HINTS_OF_A_PAYLOAD, "one block may be on its way back");
    assert_eq!(hints_of_calls(NOT_AHEAD, 1), 0);
    assert_eq!(hints_of_messages(NOT_AHEAD, 5), 0);
}

/// Hints for so many calls at once.
fn hints_of_calls(fetch_ahead: &str, calls: u64) -> u64 {
    let pair = Pair::new(TransportKind::RING_SHM, settings(&[fetch_ahead]), |server| {
        server.serve(TAKE, |_, reply| reply.send(b""));
    });
    pair.client.wait_for(pair.server).expect("it is there");
    for token in 0..calls {
        pair.client.call(pair.server, TAKE, &[1; PAYLOAD_BYTES]).within(LONG).post(token).expect("sent");
    }
    while pair.client.calls_under_way() > 0 {
        pair.client.poll(|_, _| {});
    }
    sum_of("", "hints_sent")
}

/// Hints for so many messages to a peer that looks for them when all have been sent.
fn hints_of_messages(fetch_ahead: &str, messages: usize) -> u64 {
    let stream = Stream::with(&settings(&[fetch_ahead]));
    for _ in 0..messages {
        stream.sender.send(stream.to, TAG, &[1; PAYLOAD_BYTES]).wait().expect("there is room");
    }
    for _ in 0..messages {
        stream.receiver.receive(stream.from, TAG).wait().expect("it was sent");
    }
    sum_of("", "hints_sent")
}
