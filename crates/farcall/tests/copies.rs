//! Long payloads arrive whole whichever way they are copied.

mod common;

use common::{LONG, Pair, pattern, settings};
use farcall::{Service, TransportKind};

const ECHO: Service = Service(1);
const CALLS: u64 = 200;

#[test]
fn payloads_arrive_whole_however_they_are_copied() {
    for setting in ["shm.nontemporal=false", "shm.nontemporal=true", "shm.nontemporal=auto"] {
        let pair = Pair::new(TransportKind::RING_SHM, settings(&[setting]), |server| {
            server.serve(ECHO, |request, reply| reply.send(request.payload()));
        });
        pair.client.wait_for(pair.server).expect("it is there");
        for call in 0..CALLS {
            let payload = pattern(call, 20_000 + (call * 7919 % 100_000) as usize);
            let echo = pair.client.call(pair.server, ECHO, &payload).within(LONG).wait().expect("an answer");
            assert!(payload == *echo, "call {call} with {setting}");
        }
    }
}
