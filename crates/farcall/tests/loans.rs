//! Short messages out of memory on loan: what is copied and not lent.

mod common;

use common::stream::Stream;
use common::{LONG, pattern, settings, transports};
use farcall::{Loan, Sending, Tag, TransportKind};

const TAG: Tag = Tag(1);

/// Lengths that follow each other so that memory is used again for longer and for shorter messages.
const LENGTHS: [usize; 8] = [8, 3, 100, 0, 1500, 1, 700, 2000];

fn streams() -> impl Iterator<Item = (TransportKind, Stream)> {
    transports().map(|kind| {
        println!("over {kind}");
        (kind, Stream::over(kind, &settings(&[])))
    })
}

/// Sends a message in memory on loan.
fn send<'s>(stream: &'s Stream, message: &[u8]) -> Sending<'s> {
    let mut loan = stream.sender.loan(message.len()).expect("loans come back");
    loan.copy_from_slice(message);
    start(stream, loan)
}

fn start(stream: &Stream, loan: Loan) -> Sending<'_> {
    stream.sender.send(stream.to, TAG, loan).within(LONG).start().expect("room")
}

/// Each may wait for the other, and this thread has both.
fn work_until(stream: &Stream, done: impl Fn() -> bool) {
    while !done() {
        stream.sender.poll(|_, _| {});
        stream.receiver.poll(|_, _| {});
    }
}

fn finish(stream: &Stream, sending: Sending<'_>) {
    work_until(stream, || sending.is_complete());
    sending.wait().expect("sent");
}

fn expect(stream: &Stream, message: &[u8]) {
    let receive = stream.receiver.receive(stream.from, TAG).within(LONG).start().expect("room");
    work_until(stream, || receive.is_complete());
    assert!(*receive.wait().expect("a message") == *message, "{} bytes", message.len());
}

#[test]
fn one_after_the_other_they_arrive_as_they_were_written() {
    for (_, stream) in streams() {
        for round in 0..20 {
            for length in LENGTHS {
                let message = pattern(round, length);
                let sending = send(&stream, &message);
                expect(&stream, &message);
                finish(&stream, sending);
            }
        }
    }
}

/// An allocator would give what was first.
#[test]
fn the_memory_that_was_copied_last_is_given_next() {
    for (kind, stream) in streams() {
        let [first, second] = [(); 2].map(|()| stream.sender.loan(100).expect("memory"));
        let last = second.as_ptr();
        for loan in [first, second] {
            finish(&stream, start(&stream, loan));
        }
        // Packets are made of a loan in place, and it is free when they were acknowledged.
        let copies = !["basic", "homa"].iter().any(|packets| kind.to_string().starts_with(packets));
        let next = stream.sender.loan(8).expect("memory");
        assert!(next.as_ptr() == last || !copies);
    }
}

#[test]
fn many_at_a_time_do_not_touch_each_other_and_may_wait_for_room() {
    for (_, stream) in streams() {
        for round in 0..3 {
            let message = |number: usize| pattern(round + number as u64, LENGTHS[number % LENGTHS.len()]);
            let sendings: Vec<_> = (0..500).map(|number| send(&stream, &message(number))).collect();
            (0..500).for_each(|number| expect(&stream, &message(number)));
            sendings.into_iter().for_each(|sending| finish(&stream, sending));
        }
    }
}
