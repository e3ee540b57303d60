//! What calls promise, over every transport: all forms, all endings, all sizes.

mod common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{LONG, Pair, and_auto, assign_to_transports, pattern, settings, transports};
use farcall::{
    CallError, CallRefused, Cancellation, Deferred, DownReason, Endpoint, Event, Executor, REASON_BYTES_MAX,
    Reason, Service,
};

const ECHO: Service = Service(1);
const ADD_ONE: Service = Service(2);
const REFUSE: Service = Service(3);
const ABANDON: Service = Service(4);
const NEVER: Service = Service(5);
const RELAY: Service = Service(6);
const LOANED: Service = Service(7);
const TOO_LONG: Service = Service(8);
const REFUSE_BECAUSE: Service = Service(9);
const REFUSE_LATER: Service = Service(10);
const UNKNOWN: Service = Service(99);

/// The limit on messages in these tests: small enough to be tried.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

fn serve(endpoint: &Endpoint) {
    endpoint.serve(ECHO, |request, reply| reply.send(request.payload()));
    endpoint.serve(ADD_ONE, |request, reply| {
        let number = u64::from_le_bytes(request.payload().try_into().expect("eight bytes"));
        reply.send(&(number + 1).to_le_bytes());
    });
    endpoint.serve(REFUSE, |request, reply| reply.refuse(request.payload()[0]));
    endpoint.serve(REFUSE_BECAUSE, |request, reply| {
        reply.refuse_because(8, core::str::from_utf8(request.payload()).expect("a text"));
    });
    endpoint.serve(REFUSE_LATER, |request, reply| {
        let (why, (deferred, _)) = (String::from_utf8(request.payload().to_vec()), reply.defer());
        std::thread::spawn(move || deferred.refuse_because(9, &why.expect("a text")));
    });
    endpoint.serve(ABANDON, |_, reply| drop(reply));
    let kept: Arc<Mutex<Vec<Deferred>>> = Arc::default();
    endpoint.serve(NEVER, move |_, reply| {
        let (deferred, _) = reply.defer();
        kept.lock().expect("one thread").push(deferred);
    });
    endpoint.serve(RELAY, |request, reply| {
        let (caller, payload) = (request.peer(), request.payload().to_vec());
        let (deferred, mut context) = reply.defer();
        let relayed = context.call(caller, ECHO, &payload).then(move |context, outcome| {
            context.reply(deferred, &outcome.as_ref().expect("the caller serves echo")[..]);
        });
        relayed.expect("the caller can be called");
    });
    endpoint.serve(LOANED, |request, mut reply| {
        let length = u32::from_le_bytes(request.payload().try_into().expect("four bytes"));
        let mut page = reply.context().loan(length as usize).expect("memory to lend");
        page.copy_from_slice(&pattern(9, length as usize));
        reply.send(page);
    });
    endpoint.serve(TOO_LONG, |_, reply| reply.send(vec![0; MESSAGE_BYTES_MAX + 1]));
}

fn pairs() -> impl Iterator<Item = Pair> {
    let mut settings = settings(&[]);
    assign_to_transports(&mut settings, "message_bytes_max", MESSAGE_BYTES_MAX);
    assign_to_transports(&mut settings, "calls_max", 64);
    and_auto(transports()).map(move |kind| {
        println!("over {kind}");
        Pair::new(kind, settings.clone(), serve)
    })
}

#[test]
fn payloads_of_all_sizes_come_back_whole() {
    for pair in pairs() {
        for length in [0, 1, 7, 8, 63, 64, 100, 1000, 8183, 8184, 8185, 65_536, 100_000, MESSAGE_BYTES_MAX] {
            let sent = pattern(length as u64, length);
            let answer = pair.client.call(pair.server, ECHO, &sent).within(LONG).wait().expect("an echo");
            assert!(*answer == sent[..], "{length} bytes");
        }
    }
}

/// They share records or packets, which those of one call at a time never do.
#[test]
fn short_payloads_that_leave_together_come_back_whole() {
    for pair in pairs() {
        pair.client.wait_for(pair.server).expect("up");
        let sent: Vec<_> = (0..40).map(|length| pattern(length as u64, length)).collect();
        let begin =
            |payload| pair.client.call(pair.server, ECHO, payload).within(LONG).start().expect("sent");
        let calls: Vec<_> = sent.iter().map(begin).collect();
        for (call, sent) in calls.into_iter().zip(&sent) {
            assert!(*call.wait().expect("an echo") == sent[..], "{} bytes", sent.len());
        }
    }
}

/// An answer waits where its future finds it, polled before or after it came; one that no future fetches is
/// gone with its place, which the next call has.
#[test]
fn answers_wait_for_their_futures_and_for_nobody_else() {
    for pair in pairs() {
        pair.client.wait_for(pair.server).expect("up");
        for length in [0, 15, 16, 232, 100_000] {
            let sent = pattern(length as u64, length);
            let start = || pair.client.call(pair.server, ECHO, &sent).within(LONG).start().expect("sent");
            let unfetched = start();
            pair.client.run_while(|| !unfetched.is_complete());
            drop(unfetched);
            let polled_before = start();
            assert!(!polled_before.is_complete(), "{length} bytes: an answer to another call");
            assert!(*pair.client.block_on(polled_before).expect("an echo") == sent[..], "{length} bytes");
            let polled_after = start();
            pair.client.run_while(|| !polled_after.is_complete());
            assert!(*pair.client.block_on(polled_after).expect("an echo") == sent[..], "{length} bytes");
        }
    }
}

#[test]
fn a_message_over_the_limit_is_refused_and_says_the_limit() {
    for pair in pairs() {
        pair.client.wait_for(pair.server).expect("up");
        let long = vec![0; MESSAGE_BYTES_MAX + 1];
        let refused = pair.client.call(pair.server, ECHO, &long).wait().map(drop);
        let expected = CallRefused::TooLong { bytes: long.len(), bytes_max: MESSAGE_BYTES_MAX };
        assert_eq!(refused, Err(CallError::NotSent(expected)));
        let answer = pair.client.call(pair.server, TOO_LONG, b"").within(LONG).wait().map(drop);
        assert_eq!(answer, Err(CallError::AnswerTooLong));
    }
}

#[test]
fn every_refusal_has_its_own_error() {
    for pair in pairs() {
        let call = |service, payload: &[u8]| {
            pair.client.call(pair.server, service, payload).within(LONG).wait().map(drop)
        };
        assert_eq!(call(UNKNOWN, b""), Err(CallError::UnknownService));
        assert_eq!(call(REFUSE, &[42]), Err(CallError::Refused { code: 42, why: Reason::default() }));
        assert_eq!(call(ABANDON, b"x"), Err(CallError::Abandoned));
        assert_eq!(call(ECHO, b"still here"), Ok(()));
    }
}

#[test]
fn a_refusal_says_why() {
    for pair in pairs() {
        let call = |service, why: &str| {
            let ended = pair.client.call(pair.server, service, why.as_bytes()).within(LONG).wait();
            ended.map(drop).expect_err("it is refused")
        };
        let long = "x".repeat(2 * REASON_BYTES_MAX);
        for (service, code) in [(REFUSE_BECAUSE, 8), (REFUSE_LATER, 9)] {
            for why in ["", "closed on Mondays", &long] {
                let expected = Reason::from(&why[..why.len().min(REASON_BYTES_MAX)]);
                assert_eq!(call(service, why), CallError::Refused { code, why: expected });
            }
        }
        let sentence = call(REFUSE_BECAUSE, "closed on \u{1b}[1mMondays").to_string();
        assert_eq!(sentence, "the peer's handler refused with code 8: closed on \\u{1b}[1mMondays");
    }
}

#[test]
fn a_reason_over_the_limit_of_the_session_is_left_out() {
    let mut settings = settings(&[]);
    assign_to_transports(&mut settings, "message_bytes_max", 512);
    for kind in and_auto(transports()) {
        println!("over {kind}");
        let pair = Pair::new(kind, settings.clone(), |endpoint| {
            endpoint.serve(REFUSE, |_, reply| reply.refuse_because(7, &"x".repeat(513)));
        });
        pair.client.wait_for(pair.server).expect("up");
        let refused = pair.client.call(pair.server, REFUSE, b"").within(LONG).wait().map(drop);
        assert_eq!(refused, Err(CallError::Refused { code: 7, why: Reason::default() }));
    }
}

#[test]
fn a_deadline_ends_a_call_that_is_never_answered_and_others_go_on() {
    for pair in pairs() {
        let never =
            pair.client.call(pair.server, NEVER, b"").within(Duration::from_millis(20)).wait().map(drop);
        assert_eq!(never, Err(CallError::TimedOut));
        assert!(pair.client.call(pair.server, ECHO, b"x").within(LONG).wait().is_ok());
        assert_eq!(pair.client.calls_in_flight(), 0);
    }
}

#[test]
fn futures_complete_in_any_order_under_the_small_executor() {
    for pair in pairs() {
        let sum = std::cell::Cell::new(0);
        let executor = Executor::new(&pair.client);
        for number in 0..50u64 {
            let (pair, sum) = (&pair, &sum);
            executor.spawn(async move {
                let answer = pair.client.call(pair.server, ADD_ONE, &number.to_le_bytes()).within(LONG).await;
                let answer = answer.expect("an answer");
                sum.set(sum.get() + u64::from_le_bytes(answer[..].try_into().expect("eight bytes")));
            });
        }
        executor.run();
        assert_eq!(sum.get(), (1..=50).sum::<u64>());
        let answer = pair.client.block_on(async { pair.client.call(pair.server, ECHO, b"one more").await });
        assert_eq!(&answer.expect("an answer")[..], b"one more");
    }
}

#[test]
fn a_callback_gets_the_outcome_once_and_may_call_again() {
    for pair in pairs() {
        let seen: Arc<Mutex<Vec<u64>>> = Arc::default();
        chain(&pair, Arc::clone(&seen));
        let watched = Arc::clone(&seen);
        pair.client.run_while(|| watched.lock().expect("one thread").len() < 100);
        assert_eq!(*seen.lock().expect("one thread"), (1..=100).collect::<Vec<_>>());
        assert_eq!(pair.client.calls_in_flight(), 0);
    }
}

/// Calls ADD_ONE on its own answers until 100 have come.
fn chain(pair: &Pair, seen: Arc<Mutex<Vec<u64>>>) {
    fn next(
        context: &mut farcall::Context<'_>,
        peer: farcall::Peer,
        number: u64,
        seen: Arc<Mutex<Vec<u64>>>,
    ) {
        let again = move |context: &mut farcall::Context<'_>, outcome: &farcall::Outcome<'_>| {
            let answer = outcome.as_ref().expect("an answer");
            let number = u64::from_le_bytes(answer[..].try_into().expect("eight bytes"));
            seen.lock().expect("one thread").push(number);
            if number < 100 {
                next(context, peer, number, seen);
            }
        };
        context.call(peer, ADD_ONE, &number.to_le_bytes()).within(LONG).then(again).expect("sent");
    }
    let peer = pair.server;
    let start =
        move |context: &mut farcall::Context<'_>, _: &farcall::Outcome<'_>| next(context, peer, 0, seen);
    pair.client.call(pair.server, ECHO, b"").within(LONG).then(start).expect("sent");
}

#[test]
fn posted_calls_come_back_as_events_with_their_tokens() {
    for pair in pairs() {
        for token in 0..64u64 {
            pair.client
                .call(pair.server, ADD_ONE, &token.to_le_bytes())
                .within(LONG)
                .post(token)
                .expect("sent");
        }
        let mut tokens = Vec::new();
        while tokens.len() < 64 {
            pair.client.poll_idle(|_, event| {
                let Event::Completed { token, outcome } = event else { panic!("{event:?}") };
                let answer = outcome.as_ref().expect("an answer");
                assert_eq!(answer[..], (token + 1).to_le_bytes());
                tokens.push(token);
            });
        }
        tokens.sort_unstable();
        assert_eq!(tokens, (0..64).collect::<Vec<_>>());
    }
}

#[test]
fn the_limit_on_unanswered_calls_is_reported_and_lifts() {
    for pair in pairs() {
        pair.client.wait_for(pair.server).expect("up");
        let pending: Vec<_> = (0..64)
            .map(|_| pair.client.call(pair.server, NEVER, b"").within(LONG).start().expect("under the limit"))
            .collect();
        let refused = pair.client.call(pair.server, ECHO, b"").wait().map(drop);
        assert_eq!(refused, Err(CallError::NotSent(CallRefused::TooManyCalls { calls_max: 64 })));
        drop(pending);
        assert_eq!(pair.client.calls_in_flight(), 0, "dropping a future cancels its call");
    }
}

#[test]
fn a_cancelled_call_completes_as_cancelled_and_its_late_answer_is_dropped() {
    for pair in pairs() {
        let operation = pair.client.call(pair.server, ECHO, b"late").within(LONG).post(7).expect("sent");
        assert_eq!(pair.client.cancel(operation), Cancellation::Cancelled);
        assert_eq!(pair.client.cancel(operation), Cancellation::Over, "it completes once");
        let mut events = 0;
        pair.client.poll(|_, event| {
            assert!(
                matches!(event, Event::Completed { token: 7, outcome: Err(CallError::Cancelled) }),
                "{event:?}"
            );
            events += 1;
        });
        assert!(pair.client.call(pair.server, ECHO, b"next").within(LONG).wait().is_ok());
        pair.client.poll(|_, event| panic!("{event:?}"));
        assert_eq!(events, 1);
    }
}

#[test]
fn a_handler_may_call_its_caller_before_it_answers() {
    for pair in pairs() {
        pair.client.serve(ECHO, |request, reply| reply.send(request.payload()));
        let answer = pair.client.call(pair.server, RELAY, b"there and back").within(LONG).wait();
        assert_eq!(&answer.expect("an answer")[..], b"there and back");
    }
}

#[test]
fn loans_arrive_as_they_were_written_and_their_memory_comes_back() {
    for pair in pairs() {
        let length = 300_000;
        for round in 0..200u64 {
            let mut page = pair.client.loan(length).expect("loans come back");
            page.copy_from_slice(&pattern(round, length));
            let answer = pair.client.call(pair.server, ECHO, page).within(LONG).wait().expect("an echo");
            assert!(*answer == pattern(round, length)[..]);
            let lent =
                pair.client.call(pair.server, LOANED, &(length as u32).to_le_bytes()).within(LONG).wait();
            assert!(*lent.expect("a loan") == pattern(9, length)[..]);
        }
    }
}

#[test]
fn an_answer_can_be_kept_beyond_the_endpoint() {
    for pair in pairs() {
        let sent = pattern(3, 200_000);
        let kept = pair.client.call(pair.server, ECHO, &sent).within(LONG).wait().expect("an echo").take();
        drop(pair);
        assert!(*kept == sent[..]);
    }
}

#[test]
fn the_smaller_limit_of_both_sides_holds_even_for_calls_that_wait_for_the_session() {
    for kind in and_auto(transports()) {
        let limits = |bytes: &str| {
            let mut settings = settings(&[]);
            assign_to_transports(&mut settings, "message_bytes_max", bytes);
            settings
        };
        let pair = Pair::with_client_settings(kind, limits("1K"), limits("1M"), serve);
        let waiting =
            pair.client.call(pair.server, ECHO, &[0; 1025]).within(LONG).start().expect("not known yet");
        let ended = waiting.wait().map(drop);
        assert!(matches!(ended, Err(CallError::PeerDown(DownReason::Refused { .. }))), "{kind}: {ended:?}");
        let server = pair.client.peer(0).expect("the server is still there");
        pair.client.wait_for(server).expect("and takes another session");
        let refused = pair.client.call(server, ECHO, &[0; 1025]).wait().map(drop);
        assert_eq!(refused, Err(CallError::NotSent(CallRefused::TooLong { bytes: 1025, bytes_max: 1024 })));
        assert!(pair.client.call(server, ECHO, &[0; 1024]).within(LONG).wait().is_ok());
    }
}

#[test]
fn a_poll_lends_out_requests_that_have_no_handler() {
    const LENT: Service = Service(77);
    const SERVED: Service = Service(78);
    over_every_transport_with_itself(|endpoint, peer| {
        endpoint.serve(SERVED, |_, reply| reply.send(b"served"));
        // What is lent may borrow what this test owns.
        let mut seen = Vec::new();
        let mut ends = Vec::new();
        endpoint.call(peer, LENT, b"lent").within(LONG).post(1).expect("room");
        endpoint.call(peer, SERVED, b"").within(LONG).post(2).expect("room");
        while ends.len() < 2 {
            endpoint.poll_requests_idle(
                |request, reply| {
                    seen.push((request.service(), request.payload().to_vec()));
                    reply.send(b"answered");
                },
                |_, event| {
                    if let Event::Completed { token, outcome } = event {
                        ends.push((token, outcome.as_ref().expect("an answer").to_vec()));
                    }
                },
            );
        }
        ends.sort();
        assert_eq!(ends, [(1, b"answered".to_vec()), (2, b"served".to_vec())]);
        assert_eq!(seen, [(LENT, b"lent".to_vec())]);
        let refused = endpoint.call(peer, LENT, b"").within(LONG).wait();
        assert_eq!(refused.map(drop), Err(CallError::UnknownService), "another kind of poll lends nothing");
    });
}

/// Runs a test with an endpoint that calls itself, over every transport.
fn over_every_transport_with_itself(test: impl Fn(&farcall::Endpoint, farcall::Peer)) {
    for kind in and_auto(transports()) {
        println!("over {kind}");
        let node = farcall::Node::new(farcall::bootstrap::Bootstrap::alone(), settings(&[]));
        let endpoint = node.endpoint(kind.name()).expect("an endpoint");
        assert_eq!(endpoint.session_with(0), None, "nobody has opened one");
        let peer = endpoint.peer(0).expect("itself");
        endpoint.wait_for(peer).expect("it is there");
        test(&endpoint, peer);
        assert!(endpoint.session_with(0).is_some());
    }
}
