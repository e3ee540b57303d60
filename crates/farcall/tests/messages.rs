//! What tagged messages promise, over every transport: all forms, all endings, all sizes.

mod common;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::litter::resident_bytes;
use common::stream::Stream;
use common::{LONG, Pair, pattern, settings, transports};
use farcall::{
    AnySource, AnyTag, Cancellation, Context, Endpoint, Event, Executor, Peer, ReceiveError, Received,
    SendError, SendRefused, Sending, Service, Tag,
};

/// Sends the message back with the tag that follows.
const ECHO: Service = Service(1);
/// Receives as many messages as asked for with the tag asked for, and answers when it has them all.
const COUNT: Service = Service(2);

/// The limit on calls in these tests; packets have room for eight bytes less of a message.
const LIMIT: usize = 1 << 20;
const MESSAGE_BYTES_MAX: usize = LIMIT - 8;

/// Messages of one byte, of which a receiver keeps a fraction; fewer where they are slow.
const UNEXPECTED_MESSAGES: u32 = if cfg!(debug_assertions) { 50_000 } else { 1_000_000 };

/// Messages with this tag come back with the next one.
const THERE: Tag = Tag(7);
const BACK: Tag = Tag(8);

/// Sends what comes with [`THERE`] back.
fn echo(context: &mut Context<'_>) {
    let posted = context.receive(AnySource, THERE).within(LONG).then(|context, outcome| {
        if let Ok(message) = outcome {
            let sent = context.send(message.peer(), BACK, message.take()).within(LONG).then(|_, _| {});
            sent.expect("room");
            echo(context);
        }
    });
    posted.expect("room");
}

fn serve(endpoint: &Endpoint) {
    endpoint.serve(ECHO, |_, mut reply| {
        echo(reply.context());
        reply.send(b"");
    });
    endpoint.serve(COUNT, |request, reply| {
        let words: Vec<u32> = request
            .payload()
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes(word.try_into().expect("four")))
            .collect();
        let (peer, tag, count) = (request.peer(), Tag(words[0]), words[1]);
        let (deferred, mut context) = reply.defer();
        let numbers: Arc<Mutex<(Vec<u8>, Option<_>)>> = Arc::new(Mutex::new((Vec::new(), Some(deferred))));
        take(&mut context, peer, tag, count, &numbers);
    });
}

/// Receives `left` messages and answers with the first bytes of all.
fn take(
    context: &mut Context<'_>,
    peer: Peer,
    tag: Tag,
    left: u32,
    state: &Arc<Mutex<(Vec<u8>, Option<farcall::Deferred>)>>,
) {
    if left == 0 {
        let mut state = state.lock().expect("one thread");
        let deferred = state.1.take().expect("answered once");
        return context.reply(deferred, &state.0);
    }
    let next = Arc::clone(state);
    let posted = context.receive(peer, tag).within(LONG).then(move |context, outcome| {
        next.lock().expect("one thread").0.push(outcome.as_ref().expect("a message")[0]);
        take(context, peer, tag, left - 1, &next);
    });
    posted.expect("room");
}

fn pairs() -> impl Iterator<Item = Pair> {
    let limit = LIMIT;
    let settings = settings(&[
        &format!("ring.message_bytes_max={limit}"),
        &format!("basic.message_bytes_max={limit}"),
        &format!("homa.message_bytes_max={limit}"),
        &format!("ucx.message_bytes_max={limit}"),
        &format!("mpi.message_bytes_max={limit}"),
        &format!("ofi.message_bytes_max={limit}"),
        "endpoint.unexpected_bytes=64K",
        // Many threads spin at once, and none of them is dead.
        "endpoint.peer_timeout=30s",
    ]);
    transports().map(move |kind| {
        println!("over {kind}");
        Pair::new(kind, settings.clone(), serve)
    })
}

fn start_echo(pair: &Pair) {
    pair.client.call(pair.server, ECHO, b"").within(LONG).wait().expect("an answer");
}

/// Asks the server to receive, and gives its answer once all has come.
fn ask_to_count(pair: &Pair, tag: Tag, count: u32) -> farcall::Pending<'_> {
    let request = [tag.0.to_le_bytes(), count.to_le_bytes()].concat();
    pair.client.call(pair.server, COUNT, &request).within(LONG).start().expect("sent")
}

/// What a million messages may take that wait for a receive: the window of 64 KiB and the operations of an endpoint, beside what
/// other tests of this process do meanwhile, and what a sanitizer adds. If all were kept, at either end, it would be more.
const UNEXPECTED_GROWTH_BYTES_MAX: u64 = 64 << 20;

#[test]
fn messages_of_all_sizes_arrive_whole() {
    for pair in pairs() {
        start_echo(&pair);
        for length in [0, 1, 8, 15, 16, 63, 64, 100, 8183, 8184, 8185, 65_536, 100_000, MESSAGE_BYTES_MAX] {
            let sent = pattern(length as u64, length);
            pair.client.send(pair.server, THERE, &sent).within(LONG).wait().expect("sent");
            let message = pair.client.receive(pair.server, BACK).within(LONG).wait().expect("a message");
            assert!(*message == sent[..], "{length} bytes");
            assert_eq!((message.peer(), message.tag()), (pair.server, BACK));
        }
    }
}

/// They share records or packets, which those that wait for each other never do.
#[test]
fn short_messages_that_leave_together_arrive_whole() {
    for pair in pairs() {
        start_echo(&pair);
        for length in 0..40 {
            let sent = pattern(length as u64, length);
            drop(pair.client.send(pair.server, THERE, &sent).within(LONG).start().expect("sent"));
        }
        for length in 0..40 {
            let message = pair.client.receive(pair.server, BACK).within(LONG).wait().expect("a message");
            assert!(*message == pattern(length as u64, length)[..], "{length} bytes");
        }
    }
}

#[test]
fn the_three_ways_to_own_what_is_sent_come_to_the_same() {
    for pair in pairs() {
        start_echo(&pair);
        for length in [8, 3000, 200_000] {
            let sent = pattern(5, length);
            let mut loan = pair.client.loan(length).expect("memory");
            loan.copy_from_slice(&sent);
            pair.client.send(pair.server, THERE, loan).within(LONG).wait().expect("sent");
            let moved = farcall::Payload::from(sent.clone());
            pair.client.send(pair.server, THERE, moved.clone()).within(LONG).wait().expect("sent");
            let mut borrowed = vec![0; length];
            for _ in 0..2 {
                let got = pair.client.receive(AnySource, BACK).within(LONG).wait_into(&mut borrowed);
                assert_eq!(got, Ok(length));
                assert!(borrowed == sent);
            }
            let back = moved.into_vec().expect("a send that is complete has let go");
            assert!(back == sent);
        }
    }
}

#[test]
fn messages_with_one_tag_arrive_in_order_whatever_their_sizes() {
    for pair in pairs() {
        let counted = ask_to_count(&pair, Tag(3), 200);
        for number in 0..200_u8 {
            let length = [1, 9000, 40, 30_000][usize::from(number % 4)];
            pair.client.send(pair.server, Tag(3), &vec![number; length]).within(LONG).wait().expect("sent");
        }
        let numbers = counted.wait().expect("all came");
        assert_eq!(*numbers, (0..200).collect::<Vec<u8>>()[..]);
    }
}

#[test]
fn unexpected_messages_wait_and_wildcards_take_the_oldest() {
    for pair in pairs() {
        start_echo(&pair);
        for number in 0..10_u8 {
            pair.client.send(pair.server, THERE, &[number]).within(LONG).wait().expect("sent");
        }
        // The echo is in order, so when the last is here the others are too.
        pair.client.send(pair.server, THERE, b"").within(LONG).wait().expect("sent");
        let first = pair.client.receive(AnySource, AnyTag).within(LONG).wait().expect("a message");
        assert_eq!((&first[..], first.tag()), (&[0][..], BACK));
        let second = pair.client.receive(pair.server, AnyTag).within(LONG).wait().expect("a message");
        let third = pair.client.receive(AnySource, BACK).within(LONG).wait().expect("a message");
        assert_eq!((&second[..], &third[..]), (&[1][..], &[2][..]));
        for number in 3..10 {
            let next = pair.client.receive(pair.server, BACK).within(LONG).wait().expect("a message");
            assert_eq!(next[..], [number]);
        }
    }
}

#[test]
fn far_more_unexpected_messages_than_fit_wait_at_their_sender_and_none_is_lost() {
    for pair in pairs() {
        pair.client.wait_for(pair.server).expect("up");
        let (mut refused, mut last, resident_before) = (0, None, resident_bytes());
        for number in 0..UNEXPECTED_MESSAGES {
            // Nobody receives yet: what finds no room is given up, and what was given up is not sent.
            let sending = pair.client.send(pair.server, Tag(1), &[number as u8]).within(LONG).start();
            match sending {
                Ok(sending) => last = Some(sending),
                Err(SendError::TooMany { .. }) => refused += 1,
                Err(error) => panic!("{error}"),
            }
            pair.client.poll(|_, _| {});
        }
        let growth = resident_bytes().saturating_sub(resident_before);
        println!("{refused} of {UNEXPECTED_MESSAGES} were refused, and {growth} bytes more are used");
        assert!(growth < UNEXPECTED_GROWTH_BYTES_MAX, "{growth} bytes");
        // Where the sends that wait are all that an endpoint may have under way, the last of them makes room for a call.
        let is_taken_back = last.map(Sending::cancel) == Some(Err(SendError::Cancelled));
        let sent = UNEXPECTED_MESSAGES - refused - u32::from(is_taken_back);
        let counted = ask_to_count(&pair, Tag(1), sent);
        assert_eq!(counted.wait().expect("all came").len(), sent as usize);
        // Where packets are lost, the sender may learn of it later than the receiver answers.
        let deadline = Instant::now() + LONG;
        while pair.client.sends_under_way() > 0 {
            assert!(Instant::now() < deadline, "{} sends never end", pair.client.sends_under_way());
            pair.client.turn();
        }
    }
}

#[test]
fn a_message_longer_than_its_receive_ends_it_and_others_go_on() {
    for pair in pairs() {
        start_echo(&pair);
        let short = pair.client.receive(pair.server, BACK).at_most(99).within(LONG).start().expect("posted");
        pair.client.send(pair.server, THERE, &[1; 100]).within(LONG).wait().expect("sent");
        let error = short.wait().map(drop);
        let expected = ReceiveError::Truncated { peer: pair.server, tag: BACK, bytes: 100, bytes_max: 99 };
        assert_eq!(error, Err(expected));
        pair.client.send(pair.server, THERE, &[2; 99]).within(LONG).wait().expect("sent");
        let fitting =
            pair.client.receive(pair.server, BACK).at_most(99).within(LONG).wait().expect("a message");
        assert_eq!(fitting[..], [2; 99]);
    }
}

#[test]
fn a_message_over_the_limit_is_refused_and_says_the_limit() {
    for pair in pairs() {
        pair.client.wait_for(pair.server).expect("up");
        let long = vec![0; LIMIT + 1];
        let refused = pair.client.send(pair.server, THERE, &long).wait();
        let Err(SendError::NotSent(SendRefused::TooLong { bytes, bytes_max })) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(bytes, long.len());
        assert!((MESSAGE_BYTES_MAX..=LIMIT).contains(&bytes_max), "{bytes_max}");
    }
}

#[test]
fn receives_are_cancelled_once_and_lose_nothing() {
    for pair in pairs() {
        start_echo(&pair);
        let receive = pair.client.receive(pair.server, BACK).within(LONG).post(1).expect("posted");
        assert_eq!(pair.client.cancel(receive), Cancellation::Cancelled);
        assert_eq!(pair.client.cancel(receive), Cancellation::Over);
        let mut ends = 0;
        pair.client.poll(|_, event| {
            let Event::Received { token: 1, outcome: Err(ReceiveError::Cancelled) } = event else {
                panic!("{event:?}")
            };
            ends += 1;
        });
        assert_eq!(ends, 1);
        let future = pair.client.receive(pair.server, BACK).within(LONG).start().expect("posted");
        assert_eq!(future.cancel().map(drop), Err(ReceiveError::Cancelled));
        drop(pair.client.receive(pair.server, BACK).within(LONG).start().expect("posted"));
        assert_eq!(pair.client.receives_under_way(), 0);
        pair.client.send(pair.server, THERE, b"x").within(LONG).wait().expect("sent");
        let message = pair.client.receive(pair.server, BACK).within(LONG).wait().expect("a message");
        assert_eq!(&message[..], b"x");
    }
}

#[test]
fn sends_that_wait_can_be_cancelled_and_those_that_left_cannot() {
    for pair in pairs() {
        pair.client.wait_for(pair.server).expect("up");
        // Nobody receives: at some time messages wait here.
        let mut posted = Vec::new();
        let mut waiting = None;
        for number in 0..60_000_u32 {
            let payload = [number as u8; 100];
            let send = pair.client.send(pair.server, Tag(1), &payload).within(LONG);
            match send.post(u64::from(number)).expect("room for operations") {
                Some(send) if pair.client.sends_under_way() > 40_000 => {
                    waiting = Some((send, number));
                    break;
                }
                _ => posted.push(number),
            }
            pair.client.poll(|_, _| {});
        }
        let (waiting, number) = waiting.expect("the peer's memory is bounded");
        assert_eq!(pair.client.cancel(waiting), Cancellation::Cancelled);
        assert_eq!(pair.client.cancel(waiting), Cancellation::Over);
        let mut cancelled = Vec::new();
        pair.client.poll(|_, event| {
            if let Event::Sent { token, outcome: Err(SendError::Cancelled) } = event {
                cancelled.push(token);
            }
        });
        assert_eq!(cancelled, [u64::from(number)]);
        let counted = ask_to_count(&pair, Tag(1), posted.len() as u32);
        assert_eq!(counted.wait().expect("all others came").len(), posted.len());
    }
}

#[test]
fn a_deadline_ends_a_receive_and_the_message_that_comes_later_goes_to_the_next() {
    for pair in pairs() {
        start_echo(&pair);
        let late = pair.client.receive(pair.server, BACK).within(Duration::from_millis(20)).wait().map(drop);
        assert_eq!(late, Err(ReceiveError::TimedOut));
        pair.client.send(pair.server, THERE, b"late").within(LONG).wait().expect("sent");
        let message = pair.client.receive(pair.server, BACK).within(LONG).wait().expect("a message");
        assert_eq!(&message[..], b"late");
    }
}

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
        assert_eq!(sum.get(), (1..=50).sum());
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
fn a_message_to_several_peers_ends_once() {
    for pair in pairs() {
        start_echo(&pair);
        let peers = [pair.server, pair.server, pair.server];
        pair.client.send_multi(&peers, THERE, b"all").within(LONG).wait().expect("sent to all");
        for _ in peers {
            let message = pair.client.receive(AnySource, BACK).within(LONG).wait().expect("a message");
            assert_eq!(&message[..], b"all");
        }
        pair.client.wait_all();
        assert_eq!((pair.client.sends_under_way(), pair.client.receives_under_way()), (0, 0));
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
