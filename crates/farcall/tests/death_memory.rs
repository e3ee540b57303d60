//! Memory that was lent to a process, or by it, when it was killed.

mod common;

use std::time::Instant;

use common::life::{Cluster, alone, role};
use common::litter::holdings;
use common::victim::{ECHO, KEEP, LENT, serve};
use common::{LONG, pattern, transports_without_launcher};
use farcall::{CallError, DownReason, Endpoint, Event, Peer, TransportKind};

const MEGABYTE: usize = 1 << 20;
/// Kills of one test where the death is noticed at once, and where it takes the limit of silence, a second
/// each.
const KILLS: u64 = 50;
const SILENT_KILLS: u64 = 5;
/// Memory for the loans of two kills, so that any that stayed away would soon be missed.
const BLOCK_BYTES: usize = 8 * MEGABYTE;

/// Whether it reports an attempt to reach a server that was not there yet, or not any more.
fn is_of_another_session(event: &Event<'_>, peer: Peer) -> bool {
    matches!(event, Event::PeerDown { peer: gone, .. } if *gone != peer)
}

/// Turns until the session's end is told; returns how many calls ended with it.
fn wait_for_death(endpoint: &Endpoint, peer: Peer) -> usize {
    let (mut lost, mut dead) = (0, false);
    while !dead {
        endpoint.poll_idle(|_, event| match event {
            _ if is_of_another_session(&event, peer) => {}
            Event::PeerDown { reason, .. } => {
                assert_eq!(reason, DownReason::Dead);
                dead = true;
            }
            Event::Completed { outcome: Err(CallError::PeerDown(_)), .. } => lost += 1,
            Event::Completed { outcome, .. } => drop(outcome.as_ref().expect("an answer before the death")),
            Event::Sent { .. } | Event::Received { .. } => panic!("{event:?}"),
        });
    }
    lost
}

/// Turns until all memory can be lent again, which is when none is missing.
fn wait_until_home(endpoint: &Endpoint, quarter_bytes: usize) {
    let deadline = Instant::now() + LONG;
    loop {
        let quarters: Vec<_> = (0..4).map(|_| endpoint.loan(quarter_bytes)).collect();
        match quarters.iter().find_map(|quarter| quarter.as_ref().err()) {
            None => return,
            Some(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        drop(quarters);
        endpoint.turn();
    }
}

#[test]
fn loans_in_flight_at_many_kills_come_home() {
    if role().is_some() {
        return serve();
    }
    let _alone = alone();
    let settings = [
        &*format!("shm.block_bytes={BLOCK_BYTES}"),
        &*format!("verbs.block_bytes={BLOCK_BYTES}"),
        "endpoint.peer_timeout=1s",
    ];
    for kind in transports_without_launcher() {
        let cluster = Cluster::new("loans_in_flight_at_many_kills_come_home", kind, &settings);
        let endpoint = &cluster.endpoint;
        let lends = matches!(kind, TransportKind::RING_SHM | TransportKind::RING_VERBS);
        let memory = if lends { BLOCK_BYTES } else { 256 * MEGABYTE };
        let kills = if lends { KILLS } else { SILENT_KILLS };
        for kill in 0..kills {
            let mut server = cluster.start("server");
            let peer = cluster.meet();
            let answered = endpoint.call(peer, ECHO, endpoint.loan(MEGABYTE).expect("all is home"));
            assert_eq!(answered.within(LONG).wait().expect("an echo").len(), MEGABYTE);
            for service in [KEEP, KEEP, ECHO, KEEP] {
                let mut page = endpoint.loan(MEGABYTE).expect("memory for four");
                page.fill(kill as u8);
                endpoint.call(peer, service, page).within(LONG).post(kill).expect("sent");
            }
            // Some kills find the loans on their way, some find them there.
            for _ in 0..kill * (KILLS / kills) {
                endpoint.poll(|_, event| {
                    let is_known =
                        matches!(event, Event::Completed { .. }) || is_of_another_session(&event, peer);
                    assert!(is_known, "{event:?}");
                });
            }
            server.kill();
            assert!(wait_for_death(endpoint, peer) >= 3, "what is kept is never answered");
            wait_until_home(endpoint, memory / 4);
        }
    }
}

#[test]
fn an_answer_can_be_read_after_the_death_of_the_server_that_lent_it() {
    if role().is_some() {
        return serve();
    }
    let _alone = alone();
    for kind in transports_without_launcher() {
        let name = "an_answer_can_be_read_after_the_death_of_the_server_that_lent_it";
        let cluster = Cluster::new(name, kind, &[]);
        let before = holdings();
        let mut server = cluster.start("server");
        let length = 3 * MEGABYTE;
        let request = (length as u32).to_le_bytes();
        let peer = cluster.meet();
        let answer = cluster.endpoint.call(peer, LENT, &request).within(LONG).wait();
        let answer = answer.expect("a loan").take();
        server.kill();
        assert_eq!(wait_for_death(&cluster.endpoint, peer), 0);
        assert!(*answer == pattern(5, length)[..]);
        drop(answer);
        let deadline = Instant::now() + LONG;
        while holdings() != before {
            assert!(Instant::now() < deadline, "held before: {before:#?}; still held: {:#?}", holdings());
            cluster.endpoint.turn();
        }
    }
}
