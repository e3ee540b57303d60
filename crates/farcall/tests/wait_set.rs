//! Endpoints in event loops of others: one descriptor, and no request that is not noticed.

mod common;

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use common::{LONG, Pair, settings, transports};
use farcall::{Client, Endpoint, Event, Service, TransportKind, WaitSet};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

const ECHO: Service = Service(1);

fn echo(endpoint: &Endpoint) {
    endpoint.serve(ECHO, |request, reply| reply.send(request.payload()));
}

/// Over transports whose descriptors say everything: libraries want to be polled.
fn kinds() -> impl Iterator<Item = TransportKind> {
    transports().filter(|kind| !TransportKind::LIBRARIES.contains(kind))
}

#[test]
fn a_server_that_waits_for_its_set_answers_every_call() {
    for kind in kinds() {
        println!("over {kind}");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let pair = Pair::new(kind, settings(&[]), move |server| {
            echo(server);
            let mut set = server.wait_set().expect("a descriptor");
            while !stopped.load(Relaxed) {
                while server.poll(|_, _| {}) > 0 {}
                // Long enough that a call that is not noticed ends the test.
                set.wait(LONG).expect("the kernel watches");
            }
        });
        for number in 0..1000u32 {
            let answer = pair.client.call(pair.server, ECHO, &number.to_le_bytes()).within(LONG / 2).wait();
            assert_eq!(&*answer.expect("an answer"), &number.to_le_bytes());
        }
        stop.store(true, Relaxed);
        let _ = pair.client.call(pair.server, ECHO, b"the last one wakes it").within(LONG).wait();
    }
}

#[test]
fn a_deadline_bounds_the_wait_and_stored_events_forbid_it() {
    for kind in kinds() {
        println!("over {kind}");
        let pair = Pair::new(kind, settings(&[]), |server| {
            let mut kept = Vec::new();
            server.serve(ECHO, move |_, reply| kept.push(reply.defer().0));
        });
        let client = &pair.client;
        client.wait_for(pair.server).expect("it is there");
        let timeout = Duration::from_millis(50);
        client.call(pair.server, ECHO, b"").within(timeout).post(7).expect("room");
        let mut set = client.wait_set().expect("a descriptor");
        let ended = Cell::new(0);
        loop {
            while client.poll(|_, event| ended.set(ended.get() + usize::from(is_end(&event)))) > 0 {}
            if ended.get() > 0 {
                break;
            }
            if let Some(at_most) = set.prepare().expect("the kernel watches") {
                assert!(at_most <= timeout, "{at_most:?} is beyond the deadline");
                set.wait(LONG).expect("the kernel watches");
            }
        }
        client.call(pair.server, ECHO, b"").within(Duration::ZERO).post(8).expect("room");
        while client.poll_once() == 0 {}
        assert_eq!(set.prepare().expect("the kernel watches"), None, "an event waits to be taken");
    }
}

fn is_end(event: &Event<'_>) -> bool {
    matches!(event, Event::Completed { .. })
}

#[test]
fn a_client_wakes_a_loop_that_waits_for_its_set() {
    let pair = Pair::new(TransportKind::RING_SHM, settings(&[]), echo);
    let (client, mut port) = Client::over(&pair.client, 10);
    let server = pair.server;
    let caller = std::thread::spawn(move || {
        for _ in 0..1000 {
            let answer = client.call(server, ECHO, "asked by another thread").within(LONG / 2).wait();
            assert_eq!(&*answer.expect("an answer"), b"asked by another thread");
        }
    });
    let mut set = pair.client.wait_set().expect("a descriptor");
    while !port.is_stopping() {
        while port.poll() + pair.client.poll(|_, _| {}) > 0 {}
        set.wait(LONG).expect("the kernel watches");
    }
    caller.join().expect("it got its answers");
}

/// One turn of the documented loop, with tokio as the one that waits.
async fn wait(set: &mut AsyncFd<WaitSet<'_>>) -> io::Result<()> {
    let Some(at_most) = set.get_mut().prepare()? else { return Ok(()) };
    if let Ok(ready) = tokio::time::timeout(at_most, set.readable()).await {
        ready?.clear_ready();
    }
    set.get_mut().finish();
    Ok(())
}

#[test]
fn tokio_polls_an_endpoint_by_its_descriptor() {
    let pair = Pair::new(TransportKind::RING_SHM, settings(&["endpoint.idle=block"]), echo);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let set = pair.client.wait_set().expect("a descriptor");
        #[expect(
            deprecated,
            reason = "its successor is unsafe because descriptors can be borrowed; the set owns its"
        )]
        let mut set = AsyncFd::with_interest(set, Interest::READABLE).expect("tokio watches it");
        for number in 0..1000u32 {
            let payload = number.to_le_bytes();
            let call = pair.client.call(pair.server, ECHO, &payload).within(LONG).start().expect("room");
            loop {
                while pair.client.poll(|_, _| {}) > 0 {}
                if call.is_complete() {
                    break;
                }
                wait(&mut set).await.expect("it is watched");
            }
            assert_eq!(&*call.wait().expect("an answer"), &number.to_le_bytes());
        }
    });
}
