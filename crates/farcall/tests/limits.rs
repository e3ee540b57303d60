//! Limits that follow from several settings together.

mod common;

use std::time::Instant;

use common::{LONG, Pair, settings};
use farcall::{CallError, CallRefused, Event, Service, TransportKind};

const ECHO: Service = Service(1);

#[test]
fn a_message_longer_than_what_can_be_lent_is_refused_and_does_not_hold_up_others() {
    // The longest loan is a quarter of the memory for blocks.
    let little_memory = settings(&["shm.block_bytes=64K"]);
    let pair = Pair::new(TransportKind::RING_SHM, little_memory, |server| {
        server.serve(ECHO, |request, reply| reply.send(request.payload()));
    });
    let refusal = pair.client.call(pair.server, ECHO, vec![1; 16_385]).within(LONG).wait();
    let too_long = CallRefused::TooLong { bytes: 16_385, bytes_max: 16_384 };
    assert_eq!(refusal.err(), Some(CallError::NotSent(too_long)));
    let answer = pair.client.call(pair.server, ECHO, vec![1; 16_384]).within(LONG).wait();
    assert_eq!(answer.expect("the longest message arrives").len(), 16_384);
}

/// The parts of long payloads that are announced ahead take room, too.
#[test]
fn long_messages_pass_through_the_smallest_ring() {
    let smallest = settings(&["ring.ring_bytes=4K"]);
    let pair = Pair::new(TransportKind::RING_SHM, smallest, |server| {
        server.serve(ECHO, |request, reply| reply.send(request.payload()));
    });
    let (calls, lengths) = (300, [2000, 9000, 40_000, 100_000, 1 << 20]);
    for in_flight in [1, 2, 20] {
        let (mut sent, mut done) = (0, 0);
        while done < calls {
            while sent < calls && sent - done < in_flight {
                let payload = vec![sent as u8; lengths[sent % lengths.len()]];
                pair.client.call(pair.server, ECHO, &payload).within(LONG).post(sent as u64).expect("sent");
                sent += 1;
            }
            pair.client.poll(|_, event| {
                let Event::Completed { token, outcome } = event else { panic!("the peer is gone") };
                let answer = outcome.as_ref().expect("an echo");
                assert_eq!(answer.len(), lengths[token as usize % lengths.len()]);
                assert!(answer.iter().all(|&byte| byte == token as u8), "call {token}");
                done += 1;
            });
        }
    }
}

/// The memory that is kept ready for the next long payload is nobody's loss.
#[test]
fn all_memory_can_be_lent_after_a_long_payload() {
    let pair = Pair::new(TransportKind::RING_SHM, settings(&["shm.block_bytes=64K"]), |server| {
        server.serve(ECHO, |_, reply| reply.send(b""));
    });
    for round in 0..10 {
        pair.client.call(pair.server, ECHO, vec![1; 16_384]).within(LONG).wait().expect("an answer");
        let begun = Instant::now();
        while (0..4).map(|_| pair.client.loan(16_384)).collect::<Result<Vec<_>, _>>().is_err() {
            assert!(begun.elapsed() < LONG, "round {round}: the memory does not come back");
            pair.client.poll(|_, _| {});
        }
    }
}
