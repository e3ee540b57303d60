//! Long payloads are announced part by part. Alone in its file, because it counts what the whole process sends.

mod common;

use common::counters::sum_of;
use common::{LONG, Pair, settings};
use farcall::{Service, TransportKind};

const TAKE: Service = Service(1);

#[test]
fn a_peer_is_told_of_the_parts_of_a_payload_unless_it_has_other_work() {
    let pair = Pair::new(TransportKind::RingShm, settings(&[]), |server| {
        server.serve(TAKE, |_, reply| reply.send(b""));
    });
    let payload = vec![1; 64 << 10];
    let hints = || sum_of("", "hints_sent");
    pair.client.call(pair.server, TAKE, &payload).within(LONG).wait().expect("an answer");
    assert_eq!(hints(), 7, "eight parts, of which the last comes with the message");
    for token in 0..3 {
        pair.client.call(pair.server, TAKE, &payload).within(LONG).post(token).expect("sent");
    }
    assert_eq!(hints(), 14, "only the first of three calls finds the peer waiting");
    while pair.client.calls_under_way() > 0 {
        pair.client.poll(|_, _| {});
    }
}
