//! Callbacks that run at once if what they wait for is there, and else as others do: once, in order.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use common::stream::Stream;
use common::{LONG, settings, transports};
use farcall::{AnySource, AnyTag, ReceiveError, Received, Tag, TransportKind};

const SOME: Tag = Tag(1);
const OTHER: Tag = Tag(2);

/// What a callback got.
type Got = Result<Vec<u8>, ReceiveError>;

/// What callbacks got.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<Got>>>);

impl Log {
    fn note(&self, outcome: &Result<Received<'_>, ReceiveError>) {
        let owned = outcome.as_ref().map(|message| message.to_vec()).map_err(Clone::clone);
        self.0.lock().expect("no panic with it locked").push(owned);
    }

    fn take(&self) -> Vec<Got> {
        core::mem::take(&mut *self.0.lock().expect("no panic with it locked"))
    }

    fn count(&self) -> usize {
        self.0.lock().expect("no panic with it locked").len()
    }
}

fn streams() -> impl Iterator<Item = (TransportKind, Stream)> {
    transports().map(|kind| {
        println!("over {kind}");
        (kind, Stream::over(kind, &settings(&[])))
    })
}

fn work_until(stream: &Stream, done: impl Fn() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < LONG, "it does not end");
        stream.sender.poll(|_, _| {});
        stream.receiver.poll(|_, _| {});
    }
}

fn send(stream: &Stream, tag: Tag, payload: &[u8]) {
    drop(stream.sender.send(stream.to, tag, payload).within(LONG).start().expect("room"));
}

/// Short ones, which are given as copies out of what a poll left, and some that are read where they lie.
fn message(number: u32) -> Vec<u8> {
    let mut message = number.to_le_bytes().to_vec();
    let bytes = match number % 11 {
        0 => 1024,
        5 => 1025,
        _ => 4 + number as usize % 13,
    };
    message.resize(bytes, number as u8);
    message
}

#[test]
fn one_receive_after_the_other_is_given_each_message_once_and_many_at_once() {
    const MESSAGES: u32 = 100;
    for (kind, stream) in streams() {
        let (log, mut at_once, mut in_place) = (Log::default(), 0, 0);
        for first in (0..1000).step_by(MESSAGES as usize) {
            (first..first + MESSAGES).for_each(|number| send(&stream, SOME, &message(number)));
            for number in first..first + MESSAGES {
                let noted = log.clone();
                let receive = stream.receiver.receive(stream.from, SOME);
                let asked = receive.now_or_then(move |_, outcome| noted.note(outcome)).expect("room");
                assert_eq!(log.count(), usize::from(asked.is_none()), "a callback has run or will");
                at_once += log.count();
                in_place += usize::from(log.count() == 1 && message(number).len() >= 1024);
                work_until(&stream, || log.count() == 1);
                assert_eq!(log.take(), [Ok(message(number))]);
            }
        }
        let leaves = matches!(kind, TransportKind::RING_SHM | TransportKind::TCP | TransportKind::Library(_));
        assert!(!leaves || at_once > 500, "{at_once} of 1000 lay there when they were asked for");
        assert!(!leaves || in_place > 90, "{in_place} of 182 long ones lay there");
        assert_eq!((stream.receiver.receives_in_flight(), stream.receiver.reap(|_, _| {})), (0, 0));
    }
}

/// It panics, sends, or asks for the next message, which then must not be another.
#[test]
fn a_message_that_is_read_where_it_lies_comes_once_whatever_its_callback_does() {
    const MESSAGES: u32 = 300;
    let long = |number: u32| vec![number as u8; [16, 1000, 1025, 5000][number as usize % 4]];
    for (kind, stream) in streams() {
        let (log, from, mut at_once, mut answers) = (Log::default(), stream.from, 0, 0);
        (0..MESSAGES).for_each(|number| send(&stream, SOME, &long(number)));
        let mut number = 0;
        while number < MESSAGES {
            let (what, noted) = (number % 7, log.clone());
            let messages = if what == 2 { 2 } else { 1 };
            let callback = move |context: &mut farcall::Context<'_>, outcome: &Result<Received<'_>, _>| {
                noted.note(outcome);
                match what {
                    0 => panic!("as it must"),
                    1 => context.send(from, OTHER, &[7; 2000]).detach().expect("room"),
                    2 => {
                        let next = context.receive(from, SOME).then(move |_, outcome| noted.note(outcome));
                        next.expect("room");
                    }
                    _ => {}
                }
            };
            let step = catch_unwind(AssertUnwindSafe(|| {
                let asked = stream.receiver.receive(from, SOME).now_or_then(callback).expect("room");
                at_once += u32::from(asked.is_none());
                work_until(&stream, || log.count() == messages);
            }));
            assert_eq!((what, step.is_err()), (what, what == 0));
            let expected: Vec<Got> = (0..).map(|next| Ok(long(number + next))).take(messages).collect();
            assert_eq!(log.take(), expected);
            answers += u32::from(what == 1);
            number += messages as u32;
        }
        let leaves = matches!(kind, TransportKind::RING_SHM | TransportKind::TCP | TransportKind::Library(_));
        assert!(!leaves || at_once > 50, "{at_once} of {MESSAGES} lay there when they were asked for");
        for _ in 0..answers {
            let answer = stream.sender.receive(stream.to, OTHER).start().expect("room");
            work_until(&stream, || answer.is_complete());
            assert_eq!(answer.wait().expect("a message")[..], [7; 2000]);
        }
        assert_eq!(stream.receiver.receives_in_flight(), 0);
    }
}

/// Messages that nobody expected, because one that came later was waited for: exactly asked for, or by
/// anything, or with too little room.
#[test]
fn what_was_kept_is_given_at_once() {
    for (_, stream) in streams() {
        for number in 0..4 {
            send(&stream, SOME, &message(number));
        }
        send(&stream, OTHER, b"");
        let later = stream.receiver.receive(stream.from, OTHER).start().expect("room");
        stream.receive(later).expect("a message");

        let log = Log::default();
        let note = || {
            let noted = log.clone();
            move |_: &mut farcall::Context<'_>, outcome: &Result<Received<'_>, ReceiveError>| {
                noted.note(outcome)
            }
        };
        let exact = || stream.receiver.receive(stream.from, SOME);
        for receive in
            [exact(), stream.receiver.receive(AnySource, SOME), stream.receiver.receive(AnySource, AnyTag)]
        {
            assert_eq!(receive.now_or_then(note()).expect("room"), None, "it is there");
        }
        assert_eq!(exact().at_most(1).now_or_then(note()).expect("room"), None, "it is there");
        let mut outcomes = log.take();
        let truncated = outcomes.pop().expect("the last");
        let bytes = message(3).len();
        assert!(
            matches!(&truncated, Err(ReceiveError::Truncated { tag: SOME, bytes: all, bytes_max: 1, .. }) if *all == bytes),
            "{truncated:?}"
        );
        assert_eq!(outcomes, (0..3).map(|number| Ok(message(number))).collect::<Vec<_>>());

        let none = exact().now_or_then(note()).expect("room").expect("there is none");
        stream.receiver.cancel(none);
        assert_eq!(log.take(), [Err(ReceiveError::Cancelled)]);
    }
}

#[test]
fn a_send_has_ended_when_there_is_no_operation() {
    for (_, stream) in streams() {
        let ended = Arc::new(Mutex::new(0));
        let count = || *ended.lock().expect("no panic with it locked");
        let mut in_flight = 0;
        for number in 0..300_u32 {
            let (before, ends) = (count(), Arc::clone(&ended));
            let send = stream.sender.send(stream.to, SOME, &[1; 2000][..number as usize * 6]).within(LONG);
            let operation = send.now_or_then(move |_, outcome| {
                outcome.expect("sent");
                *ends.lock().expect("no panic with it locked") += 1;
            });
            let has_ended = operation.expect("room").is_none();
            assert_eq!(count() - before, u32::from(has_ended), "a callback has run or will");
            in_flight += u32::from(!has_ended);
            stream.receiver.receive(stream.from, SOME).then(|_, _| {}).expect("room");
        }
        println!("{in_flight} of 300 did not leave at once");
        work_until(&stream, || count() == 300 && stream.receiver.receives_in_flight() == 0);
        assert_eq!(stream.sender.reap(|_, _| {}), 0);
    }
}

#[test]
fn what_such_a_callback_panics_with_goes_on_at_once_and_what_it_begins_waits() {
    for (_, stream) in streams() {
        send(&stream, SOME, b"first");
        send(&stream, SOME, b"second");
        send(&stream, OTHER, b"");
        let later = stream.receiver.receive(stream.from, OTHER).start().expect("room");
        stream.receive(later).expect("a message");
        let receive = || stream.receiver.receive(stream.from, SOME);
        catch_unwind(AssertUnwindSafe(|| receive().now_or_then(|_, _| panic!("as it must"))))
            .expect_err("it panics");

        let (log, from) = (Log::default(), stream.from);
        let (noted, noted_later) = (log.clone(), log.clone());
        let asked = receive().now_or_then(move |context, outcome| {
            noted.note(outcome);
            context.receive(from, OTHER).then(move |_, outcome| noted_later.note(outcome)).expect("room");
            context.send(from, SOME, b"back").detach().expect("room");
        });
        assert_eq!((asked, log.take()), (Ok(None), vec![Ok(b"second".to_vec())]));
        send(&stream, OTHER, b"third");
        work_until(&stream, || log.count() == 1);
        assert_eq!(log.take(), [Ok(b"third".to_vec())]);
        let back = stream.sender.receive(stream.to, SOME).start().expect("room");
        work_until(&stream, || back.is_complete());
        assert_eq!(back.wait().expect("a message")[..], *b"back");
    }
}

#[test]
fn of_a_peer_that_is_gone_it_is_told_at_once() {
    for (_, Stream { sender, receiver, to, .. }) in streams() {
        drop(receiver);
        let (begun, log) = (Instant::now(), Log::default());
        // There may be a second session to it, which is found to have ended later.
        loop {
            assert!(begun.elapsed() < LONG, "nobody says that it has left");
            let noted = log.clone();
            let asked =
                sender.receive(to, SOME).now_or_then(move |_, outcome| noted.note(outcome)).expect("room");
            if asked.is_none() {
                break;
            }
            while log.count() == 0 {
                assert!(begun.elapsed() < LONG, "a receive from nobody does not end");
                sender.poll(|_, _| {});
            }
            assert!(matches!(&log.take()[..], [Err(ReceiveError::PeerDown(_))]));
        }
        assert!(matches!(&log.take()[..], [Err(ReceiveError::PeerDown(_))]));
    }
}
