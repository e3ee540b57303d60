//! Messages that go through a ring although they are longer than a call may be that does.

mod common;

use common::stream::Stream;
use common::{LONG, pattern, settings};
use farcall::{Message, Payload, Service, Tag, TransportKind};

const TAG: Tag = Tag(7);

impl Stream {
    /// The next message, for which both sides work.
    fn next(&self) -> Message<'_> {
        let receiving = self.receiver.receive(self.from, TAG).within(LONG).start().expect("it is posted");
        while !receiving.is_complete() {
            self.sender.poll(|_, _| {});
            self.receiver.poll(|_, _| {});
        }
        receiving.wait().expect("a message")
    }
}

/// Some are longer than what all bits of the length lie together for.
#[test]
fn they_arrive_whole_and_in_order_with_others() {
    let stream = Stream::with(&settings(&["ring.inline_bytes=64K"]));
    let lengths = [8, 8191, 8192, 8193, 16_383, 0, 16_384, 20_000, 1, 32_767, 32_768, 49_000, 70_000, 100];
    let sent = lengths.map(|length| pattern(length as u64, length));
    let sending = sent
        .each_ref()
        .map(|sent| stream.sender.send(stream.to, TAG, sent).within(LONG).start().expect("accepted"));
    for sent in &sent {
        assert!(*stream.next() == sent[..], "{} bytes", sent.len());
    }
    sending.into_iter().for_each(|sending| sending.wait().expect("sent"));
}

/// Sender and receiver would lose count of it otherwise.
#[test]
fn they_wait_for_the_window_as_what_they_are() {
    const MESSAGES: u64 = 50;
    let stream = Stream::with(&settings(&["ring.inline_bytes=32K", "endpoint.unexpected_bytes=64K"]));
    let start = |number| {
        let payload = Payload::from(pattern(number, 20_000));
        stream.sender.send(stream.to, TAG, payload).within(LONG).start().expect("accepted")
    };
    let sending: Vec<_> = (0..MESSAGES).map(start).collect();
    for number in 0..MESSAGES {
        assert!(*stream.next() == pattern(number, 20_000)[..], "message {number}");
    }
    sending.into_iter().for_each(|sending| sending.wait().expect("sent"));
}

/// It may have to wait for what its receiver does not say before more is consumed.
#[test]
fn one_that_may_not_fit_the_window_is_lent() {
    let stream = Stream::with(&settings(&["ring.inline_bytes=64K", "endpoint.unexpected_bytes=64K"]));
    // Together less than a quarter of the window, which is not worth a credit.
    for bytes in [5000, 5000, 5000, 60_000] {
        let sent = pattern(bytes as u64, bytes);
        let sending = stream.sender.send(stream.to, TAG, &sent).within(LONG).start().expect("accepted");
        assert!(*stream.next() == sent[..], "{bytes} bytes");
        sending.wait().expect("sent");
    }
}

/// A peer that reads as it should is not taken for one that does not.
#[test]
fn calls_over_tcp_wait_while_more_is_queued_than_may_wait_for_a_peer() {
    const CALLS: u64 = 20;
    let stream = Stream::over(
        TransportKind::TCP,
        &settings(&["tcp.queue_bytes=1M", "tcp.message_bytes_max=1M", "endpoint.unexpected_bytes=64K"]),
    );
    stream.receiver.serve(Service(1), |request, reply| reply.send(&request.payload()[..8]));
    let start = |number| {
        let payload = Payload::from(pattern(number, 1 << 20));
        stream.sender.call(stream.to, Service(1), payload).within(LONG).start().expect("accepted")
    };
    let calls: Vec<_> = (0..CALLS).map(start).collect();
    stream.receiver.run_while(|| {
        stream.sender.poll(|_, _| {});
        !calls.iter().all(|call| call.is_complete())
    });
    for (number, call) in calls.into_iter().enumerate() {
        assert_eq!(call.wait().expect("answered")[..], pattern(number as u64, 1 << 20)[..8]);
    }
}
