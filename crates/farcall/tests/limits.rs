//! Limits that follow from several settings together.

mod common;

use common::{LONG, Pair, settings};
use farcall::{CallError, CallRefused, Service, TransportKind};

const ECHO: Service = Service(1);

#[test]
fn a_message_longer_than_what_can_be_lent_is_refused_and_does_not_hold_up_others() {
    // The longest loan is a quarter of the memory for blocks.
    let little_memory = settings(&["shm.block_bytes=64K"]);
    let pair = Pair::new(TransportKind::RingShm, little_memory, |server| {
        server.serve(ECHO, |request, reply| reply.send(request.payload()));
    });
    let refusal = pair.client.call(pair.server, ECHO, &vec![1; 16_385]).within(LONG).wait();
    let too_long = CallRefused::TooLong { bytes: 16_385, bytes_max: 16_384 };
    assert_eq!(refusal.err(), Some(CallError::NotSent(too_long)));
    let answer = pair.client.call(pair.server, ECHO, &vec![1; 16_384]).within(LONG).wait();
    assert_eq!(answer.expect("the longest message arrives").len(), 16_384);
}
