//! Long payloads arrive whole whichever way they are copied. Alone in its file, and in one test, because it
//! counts what the whole process sends.

mod common;

use common::counters::sum_of;
use common::{LONG, Pair, pattern, settings};
use farcall::{Service, TransportKind};

const ECHO: Service = Service(1);
const CALLS: u64 = 200;

#[test]
fn payloads_are_copied_past_the_caches_as_the_setting_says() {
    assert_eq!(copied_past_caches("shm.past_caches=false"), 0);
    assert_eq!(copied_past_caches("shm.past_caches=true"), 2 * CALLS, "requests and responses");
    // How many that are depends on how far the cores are apart; that they arrive whole does not.
    copied_past_caches("shm.past_caches=auto");
}

/// How many payloads of calls with 20,000 to 120,000 bytes each way are copied by non-temporal stores.
fn copied_past_caches(setting: &str) -> u64 {
    let pair = Pair::new(TransportKind::RING_SHM, settings(&[setting]), |server| {
        server.serve(ECHO, |request, reply| reply.send(request.payload()));
    });
    pair.client.wait_for(pair.server).expect("it is there");
    for call in 0..CALLS {
        let payload = pattern(call, 20_000 + (call * 7919 % 100_000) as usize);
        let echo = pair.client.call(pair.server, ECHO, &payload).within(LONG).wait().expect("an answer");
        assert!(payload == *echo, "call {call} with {setting}");
    }
    sum_of("", "past_caches")
}
