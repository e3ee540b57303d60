//! Who takes messages: futures of an executor, callbacks that post again, handlers.

mod common;

use std::sync::{Arc, Mutex};

use common::post::{BACK, THERE, ask_to_count, pairs, start_echo};
use common::stream::Stream;
use common::{LONG, settings};
use farcall::{AnySource, Context, Executor, Peer, Received, SendError, Tag};

#[test]
fn futures_of_messages_run_under_the_small_executor() {
    for pair in pairs() {
        start_echo(&pair);
        let sum = std::cell::Cell::new(0);
        let executor = Executor::new(&pair.client);
        for number in 1..=50_u8 {
            let (pair, sum) = (&pair, &sum);
            executor.spawn(async move {
                pair.client.send(pair.server, THERE, &[number]).within(LONG).await.expect("sent");
                let message = pair.client.receive(AnySource, BACK).within(LONG).await.expect("a message");
                sum.set(sum.get() + u32::from(message[0]));
            });
        }
        executor.run();
        assert_eq!(sum.get(), (1..=50).sum::<u32>());
    }
}

/// Recursion would need far more stack than the thread has.
#[test]
fn callbacks_post_again_to_any_depth() {
    for pair in pairs() {
        let depth: Arc<Mutex<u32>> = Arc::default();
        fn again(context: &mut Context<'_>, to: Peer, depth: Arc<Mutex<u32>>) {
            let sent = context.send(to, Tag(1), b"x").within(LONG).then(move |context, outcome| {
                outcome.expect("sent");
                *depth.lock().expect("one thread") += 1;
                if *depth.lock().expect("one thread") < 100_000 {
                    again(context, to, depth);
                }
            });
            sent.expect("room");
        }
        let counted = ask_to_count(&pair, Tag(1), 100_000);
        let (to, watched) = (pair.server, Arc::clone(&depth));
        let first = move |context: &mut Context<'_>, _: Result<(), SendError>| again(context, to, depth);
        pair.client.send(pair.server, Tag(2), b"").then(first).expect("room");
        assert_eq!(counted.wait().expect("all came").len(), 100_000);
        pair.client.run_while(|| *watched.lock().expect("one thread") < 100_000);
    }
}

#[test]
fn a_handler_gets_what_no_receive_waits_for_in_order() {
    for pair in pairs() {
        start_echo(&pair);
        let waiting = pair.client.receive(pair.server, BACK).within(LONG).start().expect("posted");
        let seen: Arc<Mutex<Vec<u8>>> = Arc::default();
        for number in 0..100_u8 {
            pair.client.send(pair.server, THERE, &[number]).within(LONG).wait().expect("sent");
            if number == 50 {
                let seen = Arc::clone(&seen);
                pair.client.on_message(move |_, message: Received<'_>| {
                    assert_eq!(message.tag(), BACK);
                    seen.lock().expect("one thread").push(message[0]);
                });
            }
        }
        pair.client.run_while(|| seen.lock().expect("one thread").len() < 99);
        assert_eq!(waiting.wait().expect("a message")[..], [0]);
        assert_eq!(*seen.lock().expect("one thread"), (1..100).collect::<Vec<u8>>());
    }
}

/// All ten are one record.
#[test]
fn a_handler_that_asks_for_a_message_gets_the_next_of_those_that_came_together() {
    let Stream { sender, receiver, to, .. } = Stream::with(&settings(&[]));
    let (handled, asked) = (Arc::<Mutex<Vec<u8>>>::default(), Arc::<Mutex<Vec<u8>>>::default());
    let (in_handler, in_callback) = (Arc::clone(&handled), Arc::clone(&asked));
    receiver.on_message(move |context, message: Received<'_>| {
        in_handler.lock().expect("one thread").push(message[0]);
        if message[0] == 3 {
            let asked = Arc::clone(&in_callback);
            let receive = context.receive(message.peer(), THERE).within(LONG);
            let posted = receive.then(move |_, outcome| {
                asked.lock().expect("one thread").push(outcome.as_ref().expect("a message")[0]);
            });
            posted.expect("posted");
        }
    });
    for number in 0..10_u8 {
        drop(sender.send(to, THERE, &[number]).start().expect("sent"));
    }
    sender.turn();
    receiver.run_while(|| handled.lock().expect("one thread").len() < 9);
    assert_eq!(*asked.lock().expect("one thread"), [4]);
    assert_eq!(*handled.lock().expect("one thread"), [0, 1, 2, 3, 5, 6, 7, 8, 9]);
}
