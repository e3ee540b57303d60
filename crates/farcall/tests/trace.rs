//! Every point of a call and of a tagged message is traced, on every transport, under names that both ends
//! share.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::channel;

use common::{LONG, Pair, settings, transports};
use farcall::trace::event;
use farcall::{AnySource, Endpoint, EndpointTrace, Instant, Service, Tag, TraceRecord};

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

/// Tags of messages, and how many of the first come before recording begins and of the first two after it.
const EXPECTED: Tag = Tag(1);
const UNEXPECTED: Tag = Tag(2);
const GO: Tag = Tag(3);
const DONE: Tag = Tag(4);
const BEFORE: u32 = 7;
const EACH: u32 = 20;

const AT_SENDER: [u16; 2] = [event::MESSAGE_SUBMITTED, event::MESSAGE_TRANSMITTED];
const AT_RECEIVER: [u16; 3] = [event::MESSAGE_RECEIVED, event::MESSAGE_MATCHED, event::MESSAGE_COMPLETED];

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

/// When each message reached a point first, by its number; also where the call that carries it is marked.
fn times_of_messages(trace: &EndpointTrace, of: u16) -> BTreeMap<u32, Instant> {
    let (of_call, name) = match of {
        event::MESSAGE_TRANSMITTED => (event::REQUEST_TRANSMITTED, event::MESSAGE_NAMED),
        event::MESSAGE_RECEIVED => (event::REQUEST_RECEIVED, event::ARRIVED_AS),
        other => (other, 0),
    };
    let is_name = |record: &&TraceRecord| record.event == name;
    let names = trace.records.iter().filter(is_name);
    let names: BTreeMap<u32, u32> =
        names.map(|record| (record.operation, record.time.as_nanos() as u32)).collect();
    let mut times = BTreeMap::new();
    for record in &trace.records {
        let number = match record.event {
            event if event == of => Some(record.operation),
            event if event == of_call => names.get(&record.operation).copied(),
            _ => None,
        };
        if let Some(number) = number {
            times.entry(number).or_insert(record.time);
        }
    }
    times
}

/// A server that expects messages with the first tag, and asks for those with the second when the third has
/// come.
fn receive_all(endpoint: &Endpoint) {
    for _ in 0..BEFORE + EACH {
        endpoint.receive(AnySource, EXPECTED).then(|_, _| {}).expect("room for it");
    }
    let go = endpoint.receive(AnySource, GO).then(|context, outcome| {
        let peer = outcome.as_ref().expect("a message").peer();
        for number in 1..=EACH {
            let receive = context.receive(AnySource, UNEXPECTED);
            let posted = receive.then(move |context, _| {
                if number == EACH {
                    context.send(peer, DONE, b"").detach().expect("room");
                }
            });
            posted.expect("room for it");
        }
    });
    go.expect("room for it");
}

#[test]
fn both_ends_mark_every_point_of_every_message_under_one_number() {
    for kind in transports() {
        println!("over {kind}");
        let (sender, tracers) = channel();
        let pair = Pair::new(kind, settings(&[]), move |endpoint| {
            endpoint.tracer().switch(true);
            sender.send(endpoint.tracer()).expect("the client waits for it");
            receive_all(endpoint);
        });
        pair.client.wait_for(pair.server).expect("a session");
        let send =
            |tag, bytes: usize| pair.client.send(pair.server, tag, vec![7; bytes]).start().expect("sent");
        // They are numbered although nobody traces them here.
        (0..BEFORE).for_each(|_| send(EXPECTED, 8).wait().expect("sent"));
        pair.client.tracer().switch(true);
        let sent: Vec<_> = [EXPECTED, UNEXPECTED]
            .into_iter()
            .flat_map(|tag| (0..EACH).map(move |number| (tag, if number % 8 == 3 { 20_000 } else { 8 })))
            .chain([(GO, 0)])
            .map(|(tag, bytes)| send(tag, bytes))
            .collect();
        sent.into_iter().for_each(|sending| sending.wait().expect("sent"));
        pair.client.receive(pair.server, DONE).within(LONG).wait().expect("all were received");
        let own = pair.client.trace();
        let tracer = tracers.recv().expect("the server is there");
        drop(pair);
        let theirs = EndpointTrace { records: tracer.records(), ..EndpointTrace::default() };
        let points = AT_SENDER.map(|event| times_of_messages(&own, event)).into_iter();
        let points: Vec<_> =
            points.chain(AT_RECEIVER.map(|event| times_of_messages(&theirs, event))).collect();
        for number in BEFORE..BEFORE + 2 * EACH + 1 {
            let times: Vec<_> = points.iter().map(|times| times.get(&number)).collect();
            assert!(times.iter().all(Option::is_some), "message {number} over {kind}: {times:?}");
            assert!(times.is_sorted(), "message {number} over {kind}: {times:?}");
        }
        assert_eq!(points[0].len() as u32, 2 * EACH + 1, "over {kind}");
        assert_eq!(points[4].len() as u32, BEFORE + 2 * EACH + 1, "over {kind}");
    }
}
