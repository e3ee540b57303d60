//! One seeded workload of tagged messages over every transport: the same messages arrive everywhere, each
//! once, and those of one tag in the order of their sending.
//!
//! `FARCALL_TEST_SEED` chooses another workload.

mod common;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use common::{LONG, Pair, pattern, settings, transports};
use farcall::{AnySource, Context, Service, Tag};
use farcall_base::Random;

/// Has the server receive all messages of one tag.
const TAKE: Service = Service(1);

const MESSAGES: usize = 3000;
const TAGS: u32 = 6;

/// A message: its tag, and number and length of its payload.
type Planned = (u32, u32, usize);

/// What is sent, in order.
fn plan(seed: u64) -> Vec<Planned> {
    let mut random = Random::new(seed);
    let length = |random: &mut Random| match random.below(40) {
        0 => random.below(120_000) as usize,
        1..=4 => random.below(9000) as usize,
        _ => random.below(100) as usize,
    };
    let message = |number| (random.below(u64::from(TAGS)) as u32, number, length(&mut random));
    (0..MESSAGES as u32).map(message).collect()
}

fn payload(number: u32, length: usize) -> Vec<u8> {
    [&number.to_le_bytes()[..], &pattern(u64::from(number), length)].concat()
}

/// What the server received, in order.
type Received = Arc<Mutex<Vec<Planned>>>;

/// Receives messages with this tag, one after the other, for as long as the endpoint is there.
fn take(context: &mut Context<'_>, tag: Tag, received: &Received) {
    let next = Arc::clone(received);
    let posted = context.receive(AnySource, tag).within(LONG).then(move |context, outcome| {
        let Ok(message) = outcome else { return };
        let (number, rest) = message.split_first_chunk::<4>().expect("a number");
        let number = u32::from_le_bytes(*number);
        assert!(*rest == pattern(u64::from(number), rest.len())[..], "message {number} is as it was");
        next.lock().expect("one thread").push((message.tag().0, number, rest.len()));
        take(context, tag, &next);
    });
    posted.expect("room");
}

/// The messages of each tag, in order.
fn by_tag(messages: &[Planned]) -> BTreeMap<u32, Vec<(u32, usize)>> {
    let mut tags: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for &(tag, number, length) in messages {
        tags.entry(tag).or_default().push((number, length));
    }
    tags
}

#[test]
fn the_same_messages_arrive_over_every_transport_and_in_order_for_each_tag() {
    let seed =
        std::env::var("FARCALL_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_261_121);
    println!("FARCALL_TEST_SEED={seed}");
    let planned = plan(seed);
    // Nobody is dead because the machine is busy.
    let settings = settings(&["endpoint.unexpected_bytes=64K", "endpoint.peer_timeout=30s"]);
    for kind in transports() {
        println!("over {kind}");
        let received: Received = Arc::default();
        let log = Arc::clone(&received);
        let pair = Pair::new(kind, settings.clone(), move |endpoint| {
            endpoint.serve(TAKE, move |request, mut reply| {
                let tag = u32::from(request.payload()[0]);
                take(reply.context(), Tag(tag), &log);
                reply.send(b"");
            });
        });
        let start = |tag: u32| {
            pair.client.call(pair.server, TAKE, &[tag as u8]).within(LONG).wait().expect("an answer");
        };
        // Some tags are waited for before, some while and some only after their first messages come.
        let mut random = Random::new(seed ^ 1);
        let mut late: Vec<(u64, u32)> =
            (0..TAGS).map(|tag| (random.below(MESSAGES as u64 / 2), tag)).collect();
        late[0].0 = 0;
        for (place, &(tag, number, length)) in planned.iter().enumerate() {
            for &(_, tag) in late.iter().filter(|(at, _)| *at == place as u64) {
                start(tag);
            }
            let payload = payload(number, length);
            drop(pair.client.send(pair.server, Tag(tag), &payload).within(LONG).start().expect("room"));
            pair.client.poll(|_, _| {});
        }
        pair.client.run_while(|| received.lock().expect("one thread").len() < MESSAGES);
        let received = received.lock().expect("one thread");
        assert_eq!(by_tag(&received), by_tag(&planned), "over {kind}");
    }
}
