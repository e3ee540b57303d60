//! When the messages of a conversation leave. Alone in its file, because it counts what the whole process
//! sends.

mod common;

use std::sync::mpsc;

use common::counters::sum_of;
use common::stream::Stream;
use farcall::parameters::Settings;
use farcall::{Event, Service};

const SERVICE: Service = Service(1);

fn records() -> u64 {
    sum_of("", "records_sent")
}

/// A call and its answer, after which either side may send one message at once.
fn converse(stream: &Stream, request: &[u8]) {
    let call = stream.sender.call(stream.to, SERVICE, request).start().expect("it may be called");
    while !call.is_complete() {
        stream.receiver.poll(|_, _| {});
        stream.sender.poll(|_, _| {});
    }
    assert_eq!(&call.wait().expect("an answer")[..], request);
}

/// A caller that waits for a response waits for nothing else; what more a turn leads to costs no record for
/// each.
#[test]
fn one_message_of_a_turn_leaves_at_once_and_the_others_together() {
    let stream = Stream::with(&Settings::default());
    let (tell, told) = mpsc::channel();
    stream.receiver.serve(SERVICE, move |request, reply| {
        let before = records();
        reply.send(request.payload());
        tell.send(records() - before).expect("somebody hears it");
    });
    let left_at_once = |bytes: usize| {
        converse(&stream, &[1; 8]);
        converse(&stream, &vec![2; bytes]);
        told.try_iter().last().expect("there was a request")
    };
    for bytes in [0, 1, 7, 8, 39, 40, 41, 100, 424] {
        assert_eq!(left_at_once(bytes), 1, "an answer of {bytes} bytes");
    }
    for bytes in [425, 4000] {
        assert_eq!(left_at_once(bytes), 0, "an answer of {bytes} bytes, which is not short");
    }

    let mut left = Vec::new();
    stream.sender.call(stream.to, SERVICE, b"first").post(0).expect("it may be called");
    stream.sender.flush();
    stream.receiver.poll(|_, _| {});
    stream.sender.poll(|context, event| {
        let Event::Completed { token: 0, .. } = event else { panic!("an answer, and not {event:?}") };
        for token in 1..=2 {
            let before = records();
            context.call(stream.to, SERVICE, &[token as u8; 30]).post(token).expect("it may be called");
            left.push(records() - before);
        }
    });
    assert_eq!(left, [1, 0], "records at once for each of two calls");
    let mut ended = Vec::new();
    while ended.len() < 2 {
        stream.receiver.poll(|_, _| {});
        stream.sender.poll(|_, event| {
            if let Event::Completed { token, outcome: Ok(answer) } = event {
                assert_eq!(answer[..], [token as u8; 30]);
                ended.push(token);
            }
        });
    }
    assert_eq!(ended, [1, 2]);

    // After a record of many, nothing leaves alone: many small records would cause more of them.
    let left_of_thirty = || {
        told.try_iter().for_each(drop);
        let calls: Vec<_> = (0..30)
            .map(|_| stream.sender.call(stream.to, SERVICE, &[3; 8]).start().expect("it may be called"))
            .collect();
        while calls.iter().any(|call| !call.is_complete()) {
            stream.receiver.poll(|_, _| {});
            stream.sender.poll(|_, _| {});
        }
        told.try_iter().collect::<Vec<_>>()
    };
    // How many calls are in flight is remembered, so that the records of the next ones have room for several.
    left_of_thirty();
    converse(&stream, &[1; 8]);
    let left = left_of_thirty();
    assert_eq!((left.len(), left[0], left.iter().sum()), (30, 1, 1), "the first came alone: {left:?}");
}
