//! What callbacks promise: each runs once, when it is due, in order, and what it has captured is dropped.

mod common;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use common::stream::Stream;
use common::{LONG, Pair, settings, transports};
use farcall::{Cancellation, Context, Endpoint, Event, Peer, Received, Receiving, Tag};
use farcall_base::Random;

const TAGS: u32 = 4;
const SOME: Tag = Tag(1);

/// What happened, in its order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn note(&self, what: impl Into<String>) {
        self.0.lock().expect("one thread").push(what.into());
    }

    /// What has happened since the last time.
    fn take(&self) -> Vec<String> {
        core::mem::take(&mut *self.0.lock().expect("one thread"))
    }
}

fn text(message: &Received<'_>) -> String {
    String::from_utf8(message.to_vec()).expect("text")
}

#[test]
fn what_has_ended_is_reaped_over_every_transport() {
    for kind in transports() {
        println!("over {kind}");
        let pair = Pair::new(kind, settings(&[]), |_| {});
        let log = Log::default();
        let mut in_flight = 0;
        for number in 0..100 {
            let noted = log.clone();
            let sent = pair.client.send(pair.server, SOME, b"a message").within(LONG);
            let pending = sent.then(move |_, outcome| noted.note(format!("{number} {outcome:?}")));
            if pending.expect("room").is_none() {
                assert_eq!(log.take(), [""; 0], "no callback runs in `then`");
                assert_eq!(pair.client.reap(|_, _| {}), 1);
                assert_eq!(log.take(), [format!("{number} Ok(())")]);
            } else {
                in_flight += 1;
            }
            assert_eq!(pair.client.reap(|_, _| {}), 0, "what is in flight is not to be reaped");
        }
        pair.client.wait_all();
        assert_eq!(log.take().len(), in_flight);
    }
}

/// A library that has lost a message would not give its receive back either.
fn wait_for_all(endpoint: &Endpoint) {
    let begun = Instant::now();
    while endpoint.receives_in_flight() > 0 {
        assert!(begun.elapsed() < LONG, "a receive does not end");
        endpoint.poll(|_, _| {});
    }
    endpoint.reap(|_, _| {});
}

/// One after the other, a few, and more than are matched together, of as many messages that were sent
/// together.
#[test]
fn short_messages_reach_their_callbacks_over_every_transport() {
    const MESSAGES: u32 = 60;
    for kind in transports() {
        println!("over {kind}");
        let pair = Pair::new(kind, settings(&["endpoint.message_timeout=20s"]), |server| {
            server.on_message(|context, message| {
                for number in 0..MESSAGES {
                    let payload = number.to_string();
                    context.send(message.peer(), Tag(number), payload.as_bytes()).detach().expect("room");
                }
            });
        });
        let log = Log::default();
        for together in [1, 3, 20, MESSAGES] {
            pair.client.send(pair.server, SOME, b"all of them").wait().expect("sent");
            for number in 0..MESSAGES {
                let noted = log.clone();
                let received = pair.client.receive(pair.server, Tag(number)).then(move |_, outcome| {
                    noted.note(text(outcome.as_ref().expect("a message")));
                });
                received.expect("room");
                if (number + 1) % together == 0 {
                    wait_for_all(&pair.client);
                }
            }
            assert_eq!(log.take(), (0..MESSAGES).map(|number| number.to_string()).collect::<Vec<_>>());
        }
    }
}

#[test]
fn reaping_neither_transmits_nor_receives() {
    let Stream { sender, receiver, to, from } = Stream::with(&settings(&[]));
    let log = Log::default();
    let noted = log.clone();
    sender.send(to, SOME, b"first").then(move |_, _| noted.note("sent")).expect("room");
    sender.send(to, SOME, b"second").post(7).expect("room");
    let reaped = sender.reap(|_, event| match event {
        Event::Sent { token, outcome } => log.note(format!("{token} {outcome:?}")),
        other => panic!("nothing else has ended: {other:?}"),
    });
    assert_eq!((reaped, log.take()), (2, vec!["7 Ok(())".into(), "sent".into()]));

    let receive = receiver.receive(from, SOME).start().expect("room");
    receiver.poll(|_, _| {});
    assert!(!receive.is_complete(), "nothing was transmitted");
    sender.poll(|_, _| {});
    assert_eq!(receiver.reap(|_, _| {}), 0);
    assert!(!receive.is_complete(), "nothing was received");
    assert_eq!(receive.wait().expect("a message")[..], *b"first");
}

/// Each of them ends at once.
fn send_again(context: &mut Context<'_>, to: Peer, left: u32) {
    if left > 0 {
        let sent = context.send(to, SOME, b"").then(move |context, outcome| {
            outcome.expect("sent");
            send_again(context, to, left - 1);
        });
        sent.expect("room");
    }
}

#[test]
fn what_a_callback_begins_waits_for_the_next_time() {
    let Stream { sender, to, .. } = Stream::with(&settings(&[]));
    let sent = sender.send(to, SOME, b"").then(move |context, _| send_again(context, to, 1000));
    sent.expect("room");
    for _ in 0..=1000 {
        assert_eq!(sender.reap(|_, _| {}), 1);
    }
    assert_eq!(sender.reap(|_, _| {}), 0);
}

#[test]
fn receives_whose_messages_were_there_are_reaped_in_their_order() {
    let Stream { sender, receiver, to, from } = Stream::with(&settings(&[]));
    let long = "x".repeat(100_000);
    let messages = ["short", "another", &"y".repeat(500), "one more", &long, "the last"];
    for message in messages {
        drop(sender.send(to, SOME, message.as_bytes()).start().expect("room"));
    }
    // All are kept, because nobody expects them.
    for _ in 0..10 {
        sender.poll(|_, _| {});
        receiver.poll(|_, _| {});
    }
    let log = Log::default();
    let receives = messages.map(|_| {
        let noted = log.clone();
        let receive = receiver.receive(from, SOME);
        receive.then(move |_, outcome| noted.note(text(outcome.as_ref().expect("a message")))).expect("room")
    });
    assert_eq!(receiver.receives_in_flight(), 0);
    assert_eq!(receives.map(|receive| receiver.cancel(receive)), [Cancellation::Over; 6]);
    assert_eq!(log.take(), [""; 0], "no callback runs in `then` or `cancel`");
    assert_eq!((receiver.reap(|_, _| {}), log.take()), (6, messages.map(String::from).to_vec()));
    assert_eq!(receiver.reap(|_, _| {}), 0);
}

/// A receiver of one message after the other gets most of them without a poll, with callbacks as with
/// futures.
#[test]
fn one_receive_at_a_time_gets_most_messages_without_a_poll() {
    let Stream { sender, receiver, to, from } = Stream::with(&settings(&[]));
    let log = Log::default();
    let mut reaped = 0;
    for number in 0..1000 {
        if number % 100 == 0 {
            let send =
                |number: u32| sender.send(to, Tag(number % TAGS), number.to_string().as_bytes()).start();
            (number..number + 100).for_each(|number| drop(send(number).expect("room")));
            sender.poll(|_, _| {});
        }
        let noted = log.clone();
        let receive = receiver.receive(from, Tag(number % TAGS));
        receive.then(move |_, outcome| noted.note(text(outcome.as_ref().expect("a message")))).expect("room");
        reaped += receiver.reap(|_, _| {});
        receiver.run_while(|| receiver.receives_in_flight() > 0);
        assert_eq!(log.take(), [number.to_string()]);
    }
    assert!(reaped > 500, "{reaped} of 1000 lay there when they were asked for");
}

#[test]
fn the_number_of_a_receive_that_was_given_its_message_stands_for_no_other() {
    let Stream { sender, receiver, to, from } = Stream::with(&settings(&[]));
    (0..40).for_each(|number| drop(sender.send(to, SOME, &[number]).start().expect("room")));
    sender.poll(|_, _| {});
    let log = Log::default();
    let ask = |tag: Tag| {
        let noted = log.clone();
        receiver
            .receive(from, tag)
            .then(move |_, outcome| noted.note(format!("{}", outcome.is_ok())))
            .expect("room")
    };
    let given = (0..40).find_map(|_| {
        let receive = ask(SOME);
        let lay_there = receiver.receives_in_flight() == 0;
        receiver.run_while(|| receiver.receives_in_flight() > 0);
        lay_there.then_some(receive)
    });
    let given = given.expect("the fifth at the latest");
    receiver.reap(|_, _| {});
    log.take();
    let other = ask(Tag(99));
    assert_eq!(receiver.cancel(given), Cancellation::Over);
    assert_eq!((receiver.receives_in_flight(), log.take().len()), (1, 0));
    assert_eq!((receiver.cancel(other), log.take()), (Cancellation::Cancelled, vec!["false".into()]));
}

/// How a receive learns of its message.
enum Waiting<'e> {
    Future(Receiving<'e>),
    /// As text in the log, with the number of the receive.
    Logged,
}

/// Of receives that ask for one tag the first gets the first message, however each learns of it, and
/// callbacks and events of one tag come in the order of their messages, one of them asking for the next.
#[test]
fn receives_of_all_kinds_in_one_burst_get_what_is_theirs() {
    let seed = std::env::var("FARCALL_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    println!("FARCALL_TEST_SEED={seed}");
    let mut random = Random::new(seed);
    let Stream { sender, receiver, to, from } = Stream::with(&settings(&[]));
    let log = Log::default();
    for round in 0..300 {
        let kinds: Vec<u64> = (0..1 + random.below(60)).map(|_| random.below(4)).collect();
        let tags: Vec<Tag> = kinds.iter().map(|_| Tag(random.below(u64::from(TAGS)) as u32)).collect();
        let length = |number: usize| if number % 7 == 3 { 40 } else { 4 };
        let mut waiting = VecDeque::new();
        for (number, (kind, &tag)) in kinds.iter().zip(&tags).enumerate() {
            let (receive, noted) = (receiver.receive(from, tag), log.clone());
            waiting.push_back(match kind {
                0 => Waiting::Future(receive.start().expect("room")),
                1 => {
                    receive.post(number as u64).expect("room");
                    Waiting::Logged
                }
                _ => {
                    let run = receive.then(move |_, outcome| {
                        noted.note(format!("{number}: {}", text(outcome.as_ref().expect("a message"))));
                    });
                    run.expect("room");
                    Waiting::Logged
                }
            });
        }
        // The messages come in another order of tags than the receives.
        let mut sent: Vec<(Tag, String)> = Vec::new();
        let mut order: Vec<usize> = (0..tags.len()).collect();
        (1..order.len()).rev().for_each(|last| order.swap(last, random.below(last as u64 + 1) as usize));
        for number in order {
            let message = format!("{:width$}", sent.len(), width = length(number));
            drop(sender.send(to, tags[number], message.as_bytes()).within(LONG).start().expect("room"));
            sent.push((tags[number], message));
        }
        sender.poll(|_, _| {});
        while receiver.receives_in_flight() > 0 {
            receiver.poll(|_, event| {
                let Event::Received { token, outcome } = event else { return };
                log.note(format!("{token}: {}", text(outcome.as_ref().expect("a message"))));
            });
        }
        let mut expected = Vec::new();
        for (number, (how, &tag)) in waiting.into_iter().zip(&tags).enumerate() {
            let first = sent.iter().position(|&(sent, _)| sent == tag).expect("as many were sent");
            let (_, message) = sent.remove(first);
            match how {
                Waiting::Future(receive) => {
                    assert_eq!(receive.wait().expect("a message")[..], *message.as_bytes(), "round {round}");
                }
                Waiting::Logged => expected.push((tag, number, format!("{number}: {message}"))),
            }
        }
        let noted = log.take();
        assert_eq!(noted.len(), expected.len(), "round {round}");
        for tag in (0..TAGS).map(Tag) {
            let of_tag: Vec<&String> =
                expected.iter().filter(|&&(of, ..)| of == tag).map(|(.., text)| text).collect();
            let in_order: Vec<&String> = noted.iter().filter(|text| of_tag.contains(text)).collect();
            assert_eq!(in_order, of_tag, "round {round}, {tag:?}");
        }
    }
}

/// A message that nobody waits for when it comes, and that the callback of the one before it asks for, is not
/// kept for others.
#[test]
fn a_callback_gets_what_came_behind_its_message() {
    let Stream { sender, receiver, to, from } = Stream::with(&settings(&[]));
    let log = Log::default();
    for number in 0..40 {
        drop(sender.send(to, Tag(number), number.to_string().as_bytes()).start().expect("room"));
    }
    sender.poll(|_, _| {});
    fn ask(context: &mut Context<'_>, from: Peer, number: u32, log: Log) {
        let receive = context.receive(from, Tag(number));
        let asked = receive.then(move |context, outcome| {
            log.note(text(outcome.as_ref().expect("a message")));
            if number < 39 {
                ask(context, from, number + 1, log);
            }
        });
        asked.expect("room");
    }
    let noted = log.clone();
    let first = receiver.receive(from, Tag(0));
    let asked = first.then(move |context, outcome| {
        noted.note(text(outcome.as_ref().expect("a message")));
        ask(context, from, 1, noted);
    });
    asked.expect("room");
    receiver.wait_all();
    assert_eq!(log.take(), (0..40).map(|number| number.to_string()).collect::<Vec<_>>());
}

/// With and without memory of its own.
#[test]
fn what_a_callback_has_captured_is_dropped_once_whatever_becomes_of_it() {
    for is_long in [false, true] {
        let captured = Arc::new(());
        let Stream { sender, receiver, to, from } = Stream::with(&settings(&[]));
        let capture =
            || (Arc::clone(&captured), if is_long { Some([0_u64; 20]) } else { None }.map(Box::new));
        let count = || Arc::strong_count(&captured) - 1;
        for _ in 0..3 {
            let (one, long) = (capture(), [u64::from(is_long); 8]);
            let sent = match is_long {
                true => sender.send(to, SOME, b"1").then(move |_, _| drop((one, long))),
                false => sender.send(to, SOME, b"1").then(move |_, _| drop(one)),
            };
            assert!(sent.expect("room").is_none());
            let (one, long) = (capture(), [u64::from(is_long); 8]);
            let received = match is_long {
                true => receiver.receive(from, SOME).then(move |_, _| drop((one, long))),
                false => receiver.receive(from, SOME).then(move |_, _| drop(one)),
            };
            received.expect("room");
        }
        assert_eq!(count(), 6);
        sender.poll(|_, _| {});
        assert_eq!(count(), 3, "those of sends have run");
        receiver.wait_all();
        assert_eq!(count(), 0, "those of receives have run");

        let (cancelled, unused) = (capture(), capture());
        let receive = receiver.receive(from, SOME).then(move |_, _| drop(cancelled)).expect("room");
        assert_eq!(receiver.cancel(receive), Cancellation::Cancelled);
        assert_eq!(count(), 1, "that of a cancelled receive has run");
        let kept = unused.clone();
        receiver.receive(from, SOME).then(move |_, _| drop(unused)).expect("room");
        assert!(sender.send(to, SOME, b"").then(move |_, _| drop(kept)).expect("room").is_none());
        assert_eq!(count(), 2);
        drop((sender, receiver));
        assert_eq!(count(), 0, "those that never ran are dropped with their endpoint");
    }
}

#[test]
fn behind_a_callback_that_panics_the_others_run_before_its_panic_goes_on() {
    let Stream { sender, receiver, to, from } = Stream::with(&settings(&[]));
    let log = Log::default();
    for number in 0..4 {
        let noted = log.clone();
        let sent = sender.send(to, SOME, number.to_string().as_bytes()).then(move |_, _| {
            assert_ne!(number, 1, "as it must");
            noted.note(number.to_string());
        });
        assert!(sent.expect("room").is_none());
    }
    catch_unwind(AssertUnwindSafe(|| sender.reap(|_, _| {}))).expect_err("the second panics");
    assert_eq!((log.take(), sender.reap(|_, _| {})), (["0", "2", "3"].map(String::from).to_vec(), 0));

    for _ in 0..10 {
        sender.poll(|_, _| {});
        receiver.poll(|_, _| {});
    }
    for number in 0..4 {
        let noted = log.clone();
        let received = receiver.receive(from, SOME).then(move |_, outcome| {
            assert_ne!(number, 1, "as it must");
            noted.note(text(outcome.as_ref().expect("a message")));
        });
        received.expect("room");
    }
    catch_unwind(AssertUnwindSafe(|| receiver.reap(|_, _| {}))).expect_err("the second panics");
    assert_eq!((log.take(), receiver.reap(|_, _| {})), (["0", "2", "3"].map(String::from).to_vec(), 0));
}

/// They are matched together, so that nobody else could end those behind it.
#[test]
fn behind_a_callback_that_panics_the_others_of_its_burst_run() {
    let Stream { sender, receiver, to, from } = Stream::with(&settings(&[]));
    // From the second message on: the first of a session takes a way by itself.
    sender.send(to, SOME, b"").wait().expect("sent");
    receiver.receive(from, SOME).wait().expect("a message");
    let log = Log::default();
    for number in 0..10 {
        let noted = log.clone();
        let received = receiver.receive(from, Tag(number)).then(move |_, outcome| {
            assert!(![3, 5].contains(&number), "as it must");
            noted.note(text(outcome.as_ref().expect("a message")));
        });
        received.expect("room");
        drop(sender.send(to, Tag(number), number.to_string().as_bytes()).start().expect("room"));
    }
    sender.poll(|_, _| {});
    catch_unwind(AssertUnwindSafe(|| receiver.poll(|_, _| {}))).expect_err("two panic");
    assert_eq!(log.take(), ["0", "1", "2", "4", "6", "7", "8", "9"]);
    assert_eq!(receiver.receives_in_flight(), 0);
}

/// Of sends that end when they begin, of receives of one burst, of the first of a session, which takes a way
/// by itself, and of those whose message is too long. The endpoint goes on. That no memory is lost, the leak
/// sanitizer says.
#[test]
fn what_a_callback_that_panics_has_captured_is_dropped_once() {
    let Stream { sender, receiver, to, from } = Stream::with(&settings(&[]));
    let captured = Arc::new(());
    let count = || Arc::strong_count(&captured) - 1;
    for round in 0..3 {
        for number in 0..6 {
            // The memory in which it lies next has held what was shorter or longer, and has panicked or not.
            let (one, long) = (Arc::clone(&captured), [u64::from(number); 9]);
            let panics = (number + round) % 3 == 0;
            let received = receiver.receive(from, Tag(number)).at_most(if number < 4 { 100 } else { 3 });
            let received = match number % 2 {
                0 => received.then(move |_, _| assert!(!panics, "as it must {one:?}")),
                _ => received.then(move |_, _| assert!(!panics, "as it must {one:?} {long:?}")),
            };
            received.expect("room");
            let one = Arc::clone(&captured);
            let sent = sender.send(to, Tag(number), b"a message");
            let sent = match number % 2 {
                0 => sent.then(move |_, _| assert!(!panics, "as it must {one:?}")),
                _ => sent.then(move |_, _| assert!(!panics, "as it must {one:?} {long:?}")),
            };
            assert!(sent.expect("room").is_none());
        }
        assert_eq!(count(), 12);
        catch_unwind(AssertUnwindSafe(|| sender.poll(|_, _| {}))).expect_err("two panic");
        assert_eq!(count(), 6, "those of sends have run");
        // The poll that panicked has transmitted nothing.
        sender.poll(|_, _| {});
        catch_unwind(AssertUnwindSafe(|| receiver.poll(|_, _| {}))).expect_err("two panic");
        assert_eq!((count(), receiver.receives_in_flight()), (0, 0), "those of receives have run");
    }
}
