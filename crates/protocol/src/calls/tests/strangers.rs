//! What a peer may make the other end keep and send.

use core::time::Duration;

use super::Tested;
use super::world::{ECHO, World, request};
use crate::wire::{CallKey, Flags, Head, put_bare, put_whole};

fn one_packet_makes_few_slots<P: Tested>() {
    let mut config = crate::basic::BasicConfig::default();
    config.session.offer.calls_max = u16::MAX;
    let mut world = World::<P>::new(&[config; 2], 60);
    let (session, _) = world.connected(0, 1);
    let link = *world.nodes[0].calls.link(session).expect("it is up");
    let flags = Flags::FROM_CALLER.with(Flags::CHECKSUM);
    let mut head = Head::new();
    let slots = |world: &World<P>| {
        world.nodes[1].calls.channels.iter().flatten().map(|channel| channel.servers.len()).sum::<usize>()
    };
    put_whole(&mut head, flags, link.remote, CallKey::new(u16::MAX - 1, 1), ECHO);
    head.seal(&[]);
    world.inject(0, 1, head.as_bytes());
    put_bare(&mut head, crate::wire::Opcode::Busy, flags, link.remote, CallKey::new(200, 1));
    head.seal(&[]);
    world.inject(0, 1, head.as_bytes());
    world.run_for(Duration::from_micros(50));
    assert_eq!(slots(&world), 0);
    // What callers do works: the slots come in order.
    for operation in 0..1000 {
        world.call(0, session, operation, ECHO, &request(operation, 30, 30));
    }
    world.run_until(Duration::from_secs(1), |world| world.nodes[0].completed.len() == 1000);
    assert_eq!(slots(&world), 1000);
}

for_every_protocol!(one_packet_makes_few_slots);
