//! What counters say of calls and messages, over every transport. Alone in its file, because it counts what
//! the whole process does.

mod common;

use std::collections::BTreeMap;
use std::time::Instant;

use common::counters::sum_of;
use common::{LONG, Pair, pattern, settings, transports};
use farcall::{CallError, Event, Service, Tag};
use farcall_driver::CounterFile;

const ECHO: Service = Service(1);
const COUNTED: [&str; 6] = ["calls", "answered", "requests", "messages_sent", "received", "in_flight"];

/// One after the other, of which the longest fit no record, and then more at a time than one record takes.
fn call(pair: &Pair) -> u64 {
    let Pair { client, server, .. } = pair;
    let (mut calls, mut answered) = (0, 0);
    for bytes in [0, 8, 100, 3000, 100_000] {
        let payload = pattern(bytes as u64, bytes);
        for _ in 0..5 {
            client.call(*server, ECHO, &payload).within(LONG).wait().expect("an answer");
            calls += 1;
        }
    }
    let alone = calls;
    for token in 0..64 {
        client.call(*server, ECHO, &[7; 300]).within(LONG).post(token).expect("room");
        calls += 1;
    }
    while answered < calls - alone {
        client.poll(|_, event| {
            if let Event::Completed { outcome, .. } = event {
                outcome.as_ref().expect("an answer");
                answered += 1;
            }
        });
    }
    calls
}

/// Those that leave at once, several in a record, and those that no record takes.
fn send(pair: &Pair) -> u64 {
    let Pair { client, server, .. } = pair;
    let mut sends = Vec::new();
    for bytes in [0, 8, 100, 3000, 100_000] {
        let payload = pattern(bytes as u64, bytes);
        for tag in 0..5 {
            sends.push(client.send(*server, Tag(tag), &payload).within(LONG).start().expect("room"));
        }
    }
    let messages = sends.len() as u64;
    sends.into_iter().for_each(|send| send.wait().expect("it leaves"));
    messages
}

#[test]
fn every_call_and_every_message_is_counted_once() {
    for kind in transports() {
        let pair = Pair::new(kind, settings(&[]), |server| {
            server.serve(ECHO, |request, reply| reply.send(request.payload()));
            server.on_message(|_, _| {});
        });
        pair.client.wait_for(pair.server).expect("up");
        let count = || COUNTED.map(|name| sum_of(kind.name(), name));
        let before = count();
        let (calls, messages) = (call(&pair), send(&pair));
        let too_long = vec![0; 1 << 30];
        let refused = pair.client.call(pair.server, ECHO, &too_long).start();
        assert!(matches!(refused, Err(CallError::NotSent(_))), "{kind}: a refused call is none");
        drop((refused, too_long));

        let expected = [calls, calls, calls, messages, messages, 0];
        let (begun, mut counted) = (Instant::now(), Default::default());
        while counted != expected && begun.elapsed() < LONG {
            pair.client.poll(|_, _| {});
            let now = count();
            counted = std::array::from_fn(|place| now[place] - before[place]);
        }
        assert_eq!(counted, expected, "{kind}: {COUNTED:?}");
        let polls = ["polls", "busy_polls"].map(|name| sum_of(kind.name(), name));
        assert!(polls[0] > polls[1] && polls[1] > 0, "{kind}: {polls:?}");
        assert_eq!(ambiguous_names(), [""; 0], "{kind}");
    }
}

/// What more than the two nodes of this process count under the same label and name, by which records and
/// tables know a counter.
fn ambiguous_names() -> Vec<String> {
    let snapshot = CounterFile::open_process(std::process::id()).expect("this process counts");
    let mut nodes = BTreeMap::new();
    for group in &snapshot.groups {
        for counter in &group.counters {
            *nodes.entry(format!("{}.{}", group.label, counter.name)).or_insert(0) += 1;
        }
    }
    nodes.into_iter().filter_map(|(name, nodes)| (nodes > 2).then_some(name)).collect()
}
