//! A handler, a callback or an event closure that panics costs others nothing: the caller of the poll gets
//! the panic when the turn is done, what is behind it is handed on once, and the endpoint goes on.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{self, Wake, Waker};
use std::time::{Duration, Instant};

use common::stream::Stream;
use common::{LONG, settings, transports};
use farcall::{CallError, Context, Event, Receiving, Reply, Request, Service, Tag};

const SERVICE: Service = Service(1);
const NOBODY: Service = Service(2);
const OPERATIONS: u64 = 24;

/// Several in a row, the first of all and the last.
fn panics(number: u64) -> bool {
    [0, 5, 6, 7, 13, OPERATIONS - 1].contains(&number)
}

fn panic_if_it_must(number: u64) {
    assert!(!panics(number), "as it must: {number}");
}

/// Numbers, in the order in which they were seen.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<u64>>>);

impl Seen {
    fn note(&self, number: u64) {
        self.0.lock().expect("no panic with it locked").push(number);
    }

    fn all(&self) -> Vec<u64> {
        self.0.lock().expect("no panic with it locked").clone()
    }

    fn count(&self) -> usize {
        self.all().len()
    }
}

fn streams() -> impl Iterator<Item = Stream> {
    transports().map(|kind| {
        println!("over {kind}");
        Stream::over(kind, &settings(&[]))
    })
}

fn number_of(payload: &[u8]) -> u64 {
    u64::from_le_bytes(payload.try_into().expect("a number"))
}

/// Works until `done`; says how many of the turns panicked.
fn work(mut turn: impl FnMut(), done: impl Fn() -> bool) -> usize {
    let (begun, mut panicked) = (Instant::now(), 0);
    while !done() {
        assert!(begun.elapsed() < LONG, "some do not end");
        panicked += usize::from(catch_unwind(AssertUnwindSafe(&mut turn)).is_err());
    }
    panicked
}

/// Of a turn only the first panic goes on.
fn check_panics(panicked: usize) {
    let most = (0..OPERATIONS).filter(|&number| panics(number)).count();
    assert!((1..=most).contains(&panicked), "{panicked} turns panicked");
}

fn everything() -> Vec<u64> {
    (0..OPERATIONS).collect()
}

/// Calls whose requests a handler serves, or the poll.
fn check_requests(stream: &Stream, service: Service, seen: &Seen, mut turn_of_server: impl FnMut()) {
    let call = |number: u64| {
        let payload = number.to_le_bytes();
        stream.sender.call(stream.to, service, &payload).within(LONG).start().expect("room")
    };
    let calls: Vec<_> = (0..OPERATIONS).map(call).collect();
    let turn = || {
        stream.sender.poll(|_, _| {});
        turn_of_server();
    };
    check_panics(work(turn, || calls.iter().all(farcall::Pending::is_complete)));
    for (number, call) in calls.into_iter().enumerate() {
        match call.wait() {
            Ok(answer) => assert_eq!((number_of(&answer), panics(number as u64)), (number as u64, false)),
            Err(error) => assert_eq!((error, panics(number as u64)), (CallError::Abandoned, true)),
        }
    }
    assert_eq!(seen.all(), everything(), "each is served once");
}

fn serve(seen: &Seen, request: Request<'_>, reply: Reply<'_>) {
    let number = number_of(request.payload());
    seen.note(number);
    panic_if_it_must(number);
    reply.send(request.payload());
}

#[test]
fn of_a_handler_of_requests() {
    for stream in streams() {
        let seen = Seen::default();
        let noted = seen.clone();
        stream.receiver.serve(SERVICE, move |request, reply| serve(&noted, request, reply));
        check_requests(&stream, SERVICE, &seen, || _ = stream.receiver.poll(|_, _| {}));
    }
}

#[test]
fn of_a_closure_that_serves_requests_in_a_poll() {
    for stream in streams() {
        let seen = Seen::default();
        let turn =
            || _ = stream.receiver.poll_requests(|request, reply| serve(&seen, request, reply), |_, _| {});
        check_requests(&stream, NOBODY, &seen, turn);
    }
}

#[test]
fn of_a_handler_of_messages() {
    for stream in streams() {
        let seen = Seen::default();
        let noted = seen.clone();
        stream.receiver.on_message(move |_, message| {
            noted.note(number_of(&message));
            panic_if_it_must(number_of(&message));
        });
        for number in 0..OPERATIONS {
            let payload = number.to_le_bytes();
            drop(stream.sender.send(stream.to, Tag(1), &payload).within(LONG).start().expect("room"));
        }
        let turn = || {
            stream.sender.poll(|_, _| {});
            stream.receiver.poll(|_, _| {});
        };
        check_panics(work(turn, || seen.count() == OPERATIONS as usize));
        assert_eq!(seen.all(), everything());
    }
}

/// What a taker of events has not seen when it panics is kept for the next.
#[test]
fn of_a_closure_that_takes_events_of_calls() {
    for stream in streams() {
        stream.receiver.serve(SERVICE, |request, reply| reply.send(request.payload()));
        let seen = Seen::default();
        for token in 0..OPERATIONS {
            let payload = token.to_le_bytes();
            stream.sender.call(stream.to, SERVICE, &payload).within(LONG).post(token).expect("room");
        }
        let turn = || {
            stream.receiver.poll(|_, _| {});
            stream.sender.poll(|_, event| {
                let Event::Completed { token, outcome } = event else { return };
                seen.note(token);
                assert_eq!(number_of(outcome.as_ref().expect("an answer")), token);
                panic_if_it_must(token);
            });
        };
        let panicked = work(turn, || seen.count() == OPERATIONS as usize);
        assert_eq!(panicked, (0..OPERATIONS).filter(|&token| panics(token)).count(), "nobody is asked again");
        assert_eq!(seen.all(), everything());
    }
}

#[test]
fn of_a_closure_that_takes_events_of_messages() {
    for stream in streams() {
        let (sent, received) = (Seen::default(), Seen::default());
        for token in 0..OPERATIONS {
            let (tag, payload) = (Tag(token as u32), token.to_le_bytes());
            stream.receiver.receive(stream.from, tag).post(token).expect("room");
            stream.sender.send(stream.to, tag, &payload).within(LONG).post(token).expect("room");
        }
        let turn = || {
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                stream.sender.poll(|_, event| {
                    let Event::Sent { token, .. } = event else { return };
                    sent.note(token);
                    panic_if_it_must(token);
                });
            }));
            stream.receiver.poll(|_, event| {
                let Event::Received { token, outcome } = event else { return };
                received.note(token);
                assert_eq!(number_of(outcome.as_ref().expect("a message")), token);
                panic_if_it_must(token);
            });
            panicked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        };
        let is_done = || [&sent, &received].iter().all(|seen| seen.count() == OPERATIONS as usize);
        assert!(work(turn, is_done) > 0);
        assert_eq!((sent.all(), received.all()), (everything(), everything()));
    }
}

#[test]
fn of_a_callback_of_calls() {
    for stream in streams() {
        stream.receiver.serve(SERVICE, |request, reply| reply.send(request.payload()));
        let seen = Seen::default();
        for number in 0..OPERATIONS {
            let (noted, payload) = (seen.clone(), number.to_le_bytes());
            let call = stream.sender.call(stream.to, SERVICE, &payload).within(LONG);
            let then = call.then(move |_, outcome| {
                noted.note(number);
                assert_eq!(number_of(outcome.as_ref().expect("an answer")), number);
                panic_if_it_must(number);
            });
            then.expect("room");
        }
        let turn = || {
            stream.receiver.poll(|_, _| {});
            stream.sender.poll(|_, _| {});
        };
        check_panics(work(turn, || seen.count() == OPERATIONS as usize));
        assert_eq!(seen.all(), everything());
    }
}

struct PanicsWhenWoken;

impl Wake for PanicsWhenWoken {
    fn wake(self: Arc<Self>) {
        panic!("as it must");
    }
}

#[test]
fn of_a_waker() {
    for stream in streams() {
        let waker = Waker::from(Arc::new(PanicsWhenWoken));
        let receive = |tag: u32| stream.receiver.receive(stream.from, Tag(tag)).start().expect("room");
        let mut receives: Vec<_> = (0..OPERATIONS as u32).map(receive).collect();
        for (number, receive) in receives.iter_mut().enumerate() {
            assert!(pin!(receive).poll(&mut task::Context::from_waker(&waker)).is_pending());
            drop(stream.sender.send(stream.to, Tag(number as u32), b"a message").start().expect("room"));
        }
        let turn = || {
            stream.sender.poll(|_, _| {});
            stream.receiver.poll(|_, _| {});
        };
        assert!(work(turn, || receives.iter().all(Receiving::is_complete)) > 0);
        assert!(
            receives
                .into_iter()
                .all(|receive| receive.wait().is_ok_and(|message| message[..] == *b"a message"))
        );
    }
}

/// Deadlines, a peer that leaves, and operations that are cancelled.
#[test]
fn of_callbacks_of_what_does_not_end_well() {
    for stream in streams() {
        let seen = Seen::default();
        let note = |number: u64| {
            let noted = seen.clone();
            move |_: &mut Context<'_>| {
                noted.note(number);
                panic_if_it_must(number);
            }
        };
        for number in 0..OPERATIONS {
            let (call, receive) = (note(number), note(number));
            let late = stream.sender.call(stream.to, SERVICE, b"").within(Duration::from_millis(1));
            late.then(move |context, _| call(context)).expect("room");
            let late = stream.sender.receive(stream.to, Tag(1)).within(Duration::from_millis(1));
            late.then(move |context, _| receive(context)).expect("room");
        }
        let turn = || _ = stream.sender.poll(|_, _| {});
        assert!(work(turn, || seen.count() == 2 * OPERATIONS as usize) > 0);

        let cancelled =
            stream.sender.receive(stream.to, Tag(1)).then(|_, _| panic!("as it must")).expect("room");
        catch_unwind(AssertUnwindSafe(|| stream.sender.cancel(cancelled))).expect_err("it panics");
        assert_eq!((stream.sender.receives_in_flight(), stream.sender.calls_in_flight()), (0, 0));

        for number in 0..OPERATIONS {
            let receive = note(number);
            let receive = stream.sender.receive(stream.to, Tag(1)).then(move |context, _| receive(context));
            receive.expect("room");
        }
        let Stream { sender, receiver, .. } = stream;
        drop(receiver);
        let (count, is_told) = (seen.count(), Seen::default());
        let turn = || {
            sender.poll(|_, event| {
                if matches!(event, Event::PeerDown { .. }) {
                    is_told.note(0);
                }
            });
        };
        check_panics(work(turn, || seen.count() == count + OPERATIONS as usize && is_told.count() > 0));
        assert_eq!(sender.receives_in_flight(), 0);
    }
}
