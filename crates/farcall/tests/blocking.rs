//! Slow handlers on threads of their own: they hold up nobody, and answer from wherever they are.

mod common;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{LONG, Pair, settings, transports};
use farcall::{CallError, Endpoint, Reason, Service, TransportKind};

const FAST: Service = Service(1);
const SLOW: Service = Service(2);

/// A server that is not woken sleeps for 100 ms at a time. One of fifty answers comes within that, however
/// busy the machine is.
const SLEPT_THROUGH: Duration = Duration::from_millis(90);

/// A gate that a slow handler waits at, until the test opens it.
fn gate() -> (Sender<()>, Mutex<Receiver<()>>) {
    let (open, wait) = channel();
    (open, Mutex::new(wait))
}

fn sleeping() -> farcall::parameters::Settings {
    settings(&["endpoint.idle=block", "endpoint.spin_time=0us"])
}

#[test]
fn a_slow_handler_does_not_hold_up_a_fast_one() {
    for kind in transports() {
        println!("over {kind}");
        let (open, wait) = gate();
        let pair = Pair::new(kind, sleeping(), move |server| {
            server.serve(FAST, |request, reply| reply.send(request.payload()));
            let slow = move |request: farcall::TakenRequest, reply: farcall::Deferred| {
                wait.lock().expect("one thread").recv().expect("the test opens it");
                reply.send(request.take());
            };
            server.serve_blocking(SLOW, 1, slow).expect("a thread");
        });
        let slow: Vec<_> = (0..3u8)
            .map(|number| pair.client.call(pair.server, SLOW, &[number]).within(LONG).start().expect("room"))
            .collect();
        for _ in 0..10 {
            let fast = pair.client.call(pair.server, FAST, b"fast").within(LONG).wait();
            assert_eq!(&*fast.expect("an answer"), b"fast");
        }
        assert!(slow.iter().all(|call| !call.is_complete()), "the gate is shut");
        (0..3).for_each(|_| open.send(()).expect("the handler waits"));
        for (number, call) in slow.into_iter().enumerate() {
            assert_eq!(&*call.wait().expect("an answer"), &[number as u8]);
        }
    }
}

#[test]
fn several_threads_run_handlers_at_a_time() {
    let pair = Pair::new(TransportKind::RING_SHM, sleeping(), |server| {
        let barrier = Arc::new(std::sync::Barrier::new(3));
        let meet = move |_: farcall::TakenRequest, reply: farcall::Deferred| {
            barrier.wait();
            reply.send("met");
        };
        server.serve_blocking(SLOW, 3, meet).expect("threads");
    });
    let calls =
        [(); 3].map(|()| pair.client.call(pair.server, SLOW, b"").within(LONG).start().expect("room"));
    for call in calls {
        assert_eq!(&*call.wait().expect("an answer"), b"met");
    }
}

#[test]
fn an_answer_wakes_an_endpoint_that_sleeps() {
    let pair = Pair::new(TransportKind::RING_SHM, sleeping(), |server| {
        server.serve_blocking(SLOW, 1, |_, reply| reply.send(String::from("awake"))).expect("a thread");
    });
    let times = (0..50).map(|_| {
        let begun = Instant::now();
        pair.client.call(pair.server, SLOW, b"").within(LONG).wait().expect("an answer");
        begun.elapsed()
    });
    let least = times.min().expect("there are fifty");
    assert!(least < SLEPT_THROUGH, "it is not woken: {least:?} at least");
}

#[test]
fn handlers_refuse_panic_or_give_no_answer() {
    let pair = Pair::new(TransportKind::RING_SHM, sleeping(), |server| {
        let handler = |request: farcall::TakenRequest, reply: farcall::Deferred| match request.payload() {
            b"refuse" => reply.refuse(9),
            b"panic" => panic!("as the test wants"),
            b"drop" => drop(reply),
            _ => reply.send(format!("{} bytes", request.payload().len())),
        };
        server.serve_blocking(SLOW, 1, handler).expect("a thread");
    });
    let call = |payload: &'static str| {
        let answer = pair.client.call(pair.server, SLOW, payload).within(LONG).wait();
        answer.map(|answer| answer.to_vec())
    };
    assert_eq!(call("refuse"), Err(CallError::Refused { code: 9, why: Reason::default() }));
    assert_eq!(call("panic"), Err(CallError::Abandoned));
    assert_eq!(call("drop"), Err(CallError::Abandoned));
    assert_eq!(call("hello"), Ok(b"5 bytes".to_vec()));
}

#[test]
fn what_waits_for_a_thread_ends_with_its_service() {
    let (open, wait) = gate();
    let replaced = Arc::new(AtomicBool::new(false));
    let is_replaced = Arc::clone(&replaced);
    let pair = Pair::new(TransportKind::RING_SHM, sleeping(), move |server: &Endpoint| {
        let handler = move |_: farcall::TakenRequest, reply: farcall::Deferred| {
            wait.lock().expect("one thread").recv().expect("the test opens it");
            reply.send("begun");
        };
        server.serve_blocking(SLOW, 1, handler).expect("a thread");
        // Until the test has called twice: one call is in the handler, the other one waits.
        server.run_while(|| !is_replaced.load(Relaxed));
        server.serve(SLOW, |_, reply| reply.send("new"));
    });
    let first = pair.client.call(pair.server, SLOW, b"").within(LONG).start().expect("room");
    let second = pair.client.call(pair.server, SLOW, b"").within(LONG).start().expect("room");
    pair.client.wait_for(pair.server).expect("it is there");
    open.send(()).expect("the handler waits");
    assert_eq!(&*first.wait().expect("an answer"), b"begun");
    replaced.store(true, Relaxed);
    drop(open);
    // It was not begun, or its handler panicked at the gate that is gone.
    assert_eq!(second.wait().expect_err("it was not run"), CallError::Abandoned);
    let answer = pair.client.call(pair.server, SLOW, b"").within(LONG).wait();
    assert_eq!(&*answer.expect("an answer"), b"new");
}
