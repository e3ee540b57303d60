//! What blocks cost in records: nothing while they are held or waited for, and nothing to send them home with
//! an answer.

mod common;

use common::counters::sum_of;
use common::life::alone;
use common::{LONG, Pair, settings};
use farcall::{Event, Service, TransportKind};

const ECHO: Service = Service(1);
/// A quarter of the block memory, and the longest payload.
const BLOCK_BYTES: usize = 16 << 10;

fn pair() -> Pair {
    let settings = settings(&["shm.block_bytes=64K"]);
    let pair = Pair::new(TransportKind::RING_SHM, settings, |server| {
        server.serve(ECHO, |request, reply| reply.send(request.payload()));
    });
    pair.client.wait_for(pair.server).expect("the server is there");
    pair
}

/// Records that both sides have published.
fn records() -> u64 {
    sum_of("ring+shm", "records_sent")
}

/// Records that both sides publish while the client polls a thousand times.
fn records_of_a_thousand_polls(pair: &Pair) -> u64 {
    let before = records();
    for _ in 0..1000 {
        pair.client.poll(|_, _| {});
    }
    records() - before
}

#[test]
fn a_block_that_is_held_costs_no_records() {
    let _alone = alone();
    let pair = pair();
    let answer = pair.client.call(pair.server, ECHO, vec![1; BLOCK_BYTES]).within(LONG).wait();
    let held = answer.expect("an answer");
    // A few are on their way. A ring has room for thousands, so that none has to wait until the server has
    // read some.
    let records = records_of_a_thousand_polls(&pair);
    assert!(records < 100, "{records} of a thousand polls");
    drop(held);
    // All of the server's memory is returned, or it could not give four answers that are held together.
    let long = vec![1; BLOCK_BYTES];
    let calls: Vec<_> = (0..4)
        .map(|_| pair.client.call(pair.server, ECHO, &long).within(LONG).start().expect("room"))
        .collect();
    let answers = calls.into_iter().map(|call| call.wait().expect("an answer"));
    assert_eq!(answers.collect::<Vec<_>>().len(), 4);
}

#[test]
fn a_call_that_waits_for_block_memory_costs_no_records() {
    let _alone = alone();
    let pair = pair();
    let all: Vec<_> = (0..4).map(|_| pair.client.loan(BLOCK_BYTES).expect("memory for four")).collect();
    pair.client.call(pair.server, ECHO, vec![1; BLOCK_BYTES]).within(LONG).post(1).expect("it may wait");
    assert_eq!(records_of_a_thousand_polls(&pair), 0);
    drop(all);
    let mut answered = false;
    while !answered {
        pair.client.poll(|_, event| answered |= matches!(event, Event::Completed { outcome: Ok(_), .. }));
    }
}

#[test]
fn an_answer_takes_the_block_of_its_request_home() {
    const CALLS: u64 = 10;
    let _alone = alone();
    let settings = settings(&["ring.ring_bytes=4M"]);
    let pair = Pair::new(TransportKind::RING_SHM, settings, |server| {
        server.serve(ECHO, |_, reply| reply.send(b""));
    });
    pair.client.wait_for(pair.server).expect("the server is there");
    let before = records();
    for _ in 0..CALLS {
        let answer = pair.client.call(pair.server, ECHO, vec![1; BLOCK_BYTES]).within(LONG).wait();
        assert!(answer.expect("an answer").is_empty());
    }
    assert_eq!(records() - before, 2 * CALLS, "a record for each request and for each answer");
}
