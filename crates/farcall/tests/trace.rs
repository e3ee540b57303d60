//! Every point of a call is traced, on every transport, under names that both ends share.

mod common;

use std::collections::BTreeSet;
use std::sync::mpsc::channel;

use common::{Pair, settings, transports};
use farcall::trace::event;
use farcall::{EndpointTrace, Instant, Service};

const ECHO: Service = Service(1);
const CALLS: usize = 20;

const AT_CALLER: [u16; 4] =
    [event::SUBMITTED, event::REQUEST_TRANSMITTED, event::RESPONSE_RECEIVED, event::COMPLETED];
const AT_SERVER: [u16; 6] = [
    event::REQUEST_RECEIVED,
    event::DISPATCHED,
    event::HANDLER_BEGUN,
    event::REPLIED,
    event::HANDLER_ENDED,
    event::RESPONSE_TRANSMITTED,
];

fn operations(trace: &EndpointTrace, of: u16) -> BTreeSet<u32> {
    trace.records.iter().filter(|record| record.event == of).map(|record| record.operation).collect()
}

#[test]
fn both_ends_mark_every_point_of_every_call() {
    for kind in transports() {
        for bytes in [100, 100_000] {
            println!("over {kind}, {bytes} bytes");
            let (sender, tracers) = channel();
            let pair = Pair::new(kind, settings(&[]), move |endpoint| {
                endpoint.serve(ECHO, |request, reply| reply.send(request.payload()));
                endpoint.tracer().switch(true);
                sender.send(endpoint.tracer()).expect("the client waits for it");
            });
            pair.client.wait_for(pair.server).expect("a session");
            pair.client.tracer().switch(true);
            let payload = vec![7; bytes];
            for _ in 0..CALLS {
                assert_eq!(
                    pair.client.call(pair.server, ECHO, &payload).wait().expect("an answer").len(),
                    bytes
                );
            }
            let own = pair.client.trace();
            for event in AT_CALLER {
                assert_eq!(operations(&own, event).len(), CALLS, "event {event:#x} over {kind}");
            }
            assert_eq!(own.peers.iter().map(|peer| peer.rank).collect::<Vec<_>>(), [0]);
            let tracer = tracers.recv().expect("the server is there");
            drop(pair);
            let theirs = EndpointTrace { records: tracer.records(), ..EndpointTrace::default() };
            let sent = operations(&own, event::REQUEST_TRANSMITTED);
            for event in AT_SERVER {
                assert_eq!(operations(&theirs, event), sent, "event {event:#x} over {kind}");
            }
            let times = |trace: &EndpointTrace, of: u16| -> Vec<Instant> {
                trace.records.iter().filter(|record| record.event == of).map(|record| record.time).collect()
            };
            let (begun, over) = (times(&own, event::SUBMITTED), times(&own, event::COMPLETED));
            let within = begun[0]..=*over.last().expect("calls");
            // What a server does after its answer has left may come after the caller's end of the call.
            for event in [event::REQUEST_RECEIVED, event::DISPATCHED, event::HANDLER_BEGUN] {
                assert!(
                    times(&theirs, event).iter().all(|time| within.contains(time)),
                    "one counter for both"
                );
            }
        }
    }
}

#[test]
fn nothing_is_recorded_before_and_after() {
    let kind = transports().next().expect("a transport");
    let pair = Pair::new(kind, settings(&[]), |endpoint| endpoint.serve(ECHO, |_, reply| reply.send(b"")));
    let call = || drop(pair.client.call(pair.server, ECHO, b"").wait().expect("an answer"));
    call();
    assert_eq!(pair.client.trace().records, []);
    pair.client.tracer().switch(true);
    call();
    pair.client.tracer().switch(false);
    let records = pair.client.trace().records.len();
    call();
    assert_eq!(pair.client.trace().records.len(), records);
}
