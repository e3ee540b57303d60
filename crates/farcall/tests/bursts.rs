//! Calls that come together, in one record: each ends as it would by itself.

mod common;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use common::stream::Stream;
use common::{LONG, settings};
use farcall::{
    CallError, CallRefused, Context, Deferred, Event, Outcome, Pending, Reason, Reply, Request, Service,
};
use farcall_base::Random;

const ECHO: Service = Service(1);
/// Refuses what begins with an odd byte.
const CHOOSY: Service = Service(2);
/// Answers after the poll.
const DEFERRING: Service = Service(3);
/// Calls back before it answers, over the same session.
const CALLING_BACK: Service = Service(4);
/// Drops its requests.
const DROPPING: Service = Service(5);
/// Has no handler, and is served by the poll.
const OF_THE_POLL: Service = Service(6);
const SERVICES: [Service; 6] = [ECHO, CHOOSY, DEFERRING, CALLING_BACK, DROPPING, OF_THE_POLL];

/// The sender's own service, for those who call back.
const HOME: Service = Service(7);

/// Requests that were deferred, and their answers.
type Later = Mutex<Vec<(Deferred, Vec<u8>)>>;

type Ends = Rc<RefCell<Vec<(u64, Result<Vec<u8>, CallError>)>>>;

fn owned(outcome: &Outcome<'_>) -> Result<Vec<u8>, CallError> {
    outcome.as_ref().map(|answer| answer.to_vec()).map_err(Clone::clone)
}

fn expected(service: Service, payload: &[u8]) -> Result<Vec<u8>, CallError> {
    match service {
        CHOOSY if payload.first().is_some_and(|byte| byte % 2 == 1) => {
            Err(CallError::Refused { code: 9, why: Reason::default() })
        }
        DROPPING => Err(CallError::Abandoned),
        _ => Ok(payload.iter().rev().copied().collect()),
    }
}

fn answer(request: Request<'_>, reply: Reply<'_>) {
    match expected(request.service(), request.payload()) {
        Ok(payload) => reply.send(&payload),
        Err(CallError::Refused { code, .. }) => reply.refuse(code),
        Err(_) => drop(reply),
    }
}

/// The receiver's handlers; gives what its handler has deferred, with the answers.
fn serve(stream: &Stream) -> Arc<Later> {
    for service in [ECHO, CHOOSY, DROPPING] {
        stream.receiver.serve(service, answer);
    }
    let deferred = Arc::new(Mutex::new(Vec::new()));
    let later = Arc::clone(&deferred);
    stream.receiver.serve(DEFERRING, move |request, reply| {
        let payload = expected(DEFERRING, request.payload()).expect("an answer");
        later.lock().expect("not poisoned").push((reply.defer().0, payload));
    });
    stream.receiver.serve(CALLING_BACK, |request, mut reply| {
        let bytes = request.payload().to_vec();
        let expected = bytes.clone();
        let check = move |_: &mut Context<'_>, outcome: &Outcome<'_>| {
            assert_eq!(owned(outcome).expect("the caller answers"), expected);
        };
        reply.context().call(request.peer(), HOME, &bytes).then(check).expect("it may be called");
        answer(request, reply);
    });
    stream.sender.serve(HOME, |request, reply| reply.send(request.payload()));
    deferred
}

/// A turn of the receiver, and the answers that it has deferred.
fn turn_of_receiver(stream: &Stream, deferred: &Later) {
    stream.receiver.poll_requests(answer, |_, _| {});
    for (duty, payload) in deferred.lock().expect("not poisoned").drain(..) {
        stream.receiver.reply(duty, &payload);
    }
}

/// Services, lengths and ways to end in any order, so that most records hold several of each.
#[test]
fn every_call_of_a_record_ends_once_and_in_its_own_way() {
    let seed = 0x5eed_0b00;
    println!("seed {seed:#x}");
    let mut random = Random::new(seed);
    let stream = Stream::with(&settings(&[]));
    let deferred = serve(&stream);
    for round in 0..300 {
        let ends = Ends::default();
        let called_back = Arc::new(Mutex::new(Vec::new()));
        let mut futures: Vec<(u64, Pending<'_>)> = Vec::new();
        let mut wanted = Vec::new();
        for token in 0..1 + random.below(60) {
            let service = SERVICES[random.below(SERVICES.len() as u64) as usize];
            let payload: Vec<u8> = (0..random.below(40)).map(|_| random.bits() as u8).collect();
            let call = stream.sender.call(stream.to, service, &payload).within(LONG);
            match random.below(3) {
                0 => drop(call.post(token).expect("it may be called")),
                1 => {
                    let called_back = Arc::clone(&called_back);
                    let end = move |_: &mut Context<'_>, outcome: &Outcome<'_>| {
                        called_back.lock().expect("not poisoned").push((token, owned(outcome)));
                    };
                    call.then(end).expect("it may be called");
                }
                _ => futures.push((token, call.start().expect("it may be called"))),
            }
            wanted.push((token, expected(service, &payload)));
        }
        let begun = Instant::now();
        while stream.sender.calls_in_flight() > 0 || stream.receiver.calls_in_flight() > 0 {
            assert!(begun.elapsed() < LONG, "round {round}: some calls do not end");
            turn_of_receiver(&stream, &deferred);
            stream.sender.poll(|_, event| {
                let Event::Completed { token, outcome } = event else {
                    panic!("an answer, and not {event:?}")
                };
                ends.borrow_mut().push((token, owned(outcome)));
            });
        }
        let mut ended = ends.take();
        ended.append(&mut called_back.lock().expect("not poisoned"));
        ended.extend(
            futures.into_iter().map(|(token, call)| (token, call.wait().map(|answer| answer.to_vec()))),
        );
        ended.sort_by_key(|end| end.0);
        assert_eq!(ended, wanted, "round {round}");
    }
}

/// A call that has its answer makes room for exactly one more, though others of its record have not been
/// looked at.
#[test]
fn the_limit_of_calls_is_exact_while_answers_that_came_together_are_taken() {
    const CALLS_MAX: u64 = 8;
    let stream = Stream::with(&settings(&["ring.calls_max=8"]));
    let deferred = serve(&stream);
    for token in 0..CALLS_MAX {
        stream.sender.call(stream.to, ECHO, &[1; 8]).within(LONG).post(token).expect("within the limit");
    }
    let (mut ended, begun) = (0, Instant::now());
    while ended < 1000 {
        assert!(begun.elapsed() < LONG, "the answers do not come");
        turn_of_receiver(&stream, &deferred);
        stream.sender.poll(|context, event| {
            let Event::Completed { token, outcome } = event else { panic!("an answer, and not {event:?}") };
            outcome.as_ref().expect("an answer");
            // Those that call back put requests between the answers.
            let service = if token % 2 == 0 { ECHO } else { CALLING_BACK };
            context.call(stream.to, service, &[1; 8]).within(LONG).post(token).expect("room for one");
            let refused = context.call(stream.to, ECHO, &[1; 8]).post(CALLS_MAX);
            let too_many = CallRefused::TooManyCalls { calls_max: CALLS_MAX as usize };
            assert_eq!(refused.err(), Some(CallError::NotSent(too_many)), "and for no other");
            ended += 1;
        });
    }
}
