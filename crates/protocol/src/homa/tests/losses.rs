//! Questions one at a time, and memory that stays until it is not needed.

use core::time::Duration;
use std::sync::Arc;

use super::rack::{LIMIT, Rack, rules};
use crate::calls::tests::world::{ECHO, HELD, request};
use crate::calls::{Calls, Delivery, Payload, Policy};
use crate::homa::{Homa, HomaConfig, HomaPolicy, HomaRules};
use crate::session::PeerAddress;
use crate::wire::{Head, Header, Opcode};
use farcall_base::{Entropy, Identity, Instant};

/// How many RESENDs the server sends to one peer of which nothing more comes, in twenty ticks, for thirty
/// requests.
fn questions_to_a_silent_peer<P: Policy + Default>(mut rack: Rack<P>) -> u64 {
    let mut pieces = 30;
    rack.world.filter = Box::new(move |from, packet| {
        let piece = Header::parse(packet).is_ok_and(|header| header.opcode == Opcode::Fragment);
        let passes = from != 1 || (piece && pieces > 0 && packet[28..32] == [0; 4]);
        pieces -= i32::from(passes && from == 1);
        passes
    });
    (0..30).for_each(|_| {
        rack.send(1, 50_000);
    });
    rack.world.run_for(Duration::from_millis(40));
    assert_eq!(rack.world.nodes[1].finished.len(), 0);
    let asked = rack.world.nodes[0].calls.counters().resends_sent;
    rack.world.filter = Box::new(|_, _| true);
    rack.world.run_until(LIMIT, |world| world.nodes[1].finished.len() == 30);
    asked
}

#[test]
fn a_silent_peer_has_one_unanswered_question_at_a_time() {
    let homa = questions_to_a_silent_peer(Rack::homa(2, &rules()));
    let basic = questions_to_a_silent_peer(Rack::basic(2));
    // One in two ticks; all thirty messages would ask at once otherwise.
    assert!((1..=10).contains(&homa), "{homa} questions");
    assert!(basic > 60, "{basic} questions without the rule");
}

/// A hundred short requests to a service have left the second node, and none has arrived.
fn after_requests_were_lost(service: u16) -> Rack<HomaPolicy> {
    let mut rack = Rack::homa(2, &rules());
    rack.world.run_for(Duration::from_millis(1));
    rack.world.cut.insert((1, 0));
    for operation in 0..100 {
        rack.world.call(1, rack.sessions[1], operation, service, &request(operation, 100, 8));
    }
    rack.world.run_for(Duration::from_micros(500));
    rack.world.cut.clear();
    rack
}

#[test]
fn answered_questions_follow_each_other_without_waiting() {
    let mut rack = after_requests_were_lost(ECHO);
    // One a tick would take 200 ms.
    rack.world.run_until(Duration::from_millis(20), |world| world.nodes[1].finished.len() == 100);
}

#[test]
fn a_lost_question_does_not_hold_up_the_others_to_a_peer_that_answers() {
    let mut rack = after_requests_were_lost(ECHO);
    let mut asked = 0;
    rack.world.filter = Box::new(move |from, _| {
        asked += u32::from(from == 1);
        from != 1 || asked % 3 != 0
    });
    // One in three is lost. With a single turn, in which each of them stays for two ticks, it takes 570 ms.
    rack.world.run_until(Duration::from_millis(250), |world| world.nodes[1].finished.len() == 100);
}

#[test]
fn requests_that_questions_bring_do_not_wait_for_each_others_answers() {
    let mut rack = after_requests_were_lost(HELD);
    // One in two ticks would take 400 ms.
    rack.world.run_until(Duration::from_millis(20), |world| world.nodes[0].ran.len() == 100);
}

#[test]
fn answers_to_questions_have_the_highest_priority() {
    let mut rack = Rack::homa(2, &rules());
    let mut losses = 3;
    rack.world.filter = Box::new(move |from, packet| {
        let lost = from == 1 && packet[4] == Opcode::Fragment as u8 && packet[28..32] != [0; 4] && losses > 0;
        losses -= i32::from(lost);
        !lost
    });
    rack.world.recording = Some(Vec::new());
    rack.time(1, 300_000);
    let packets = rack.world.recording.take().expect("it was recording");
    let headers = packets.iter().filter(|it| it.0 == 0).filter_map(|it| Header::parse(&it.2).ok());
    let asked: Vec<u8> =
        headers.filter(|it| it.opcode == Opcode::Resend).map(|it| it.flags.argument()).collect();
    assert!(!asked.is_empty() && asked.iter().all(|priority| *priority == 7), "{asked:?}");
}

#[test]
fn who_waits_for_grants_is_told_that_they_are_withheld() {
    let mut rack = Rack::homa(4, &HomaRules { overcommit: 1, fifo_permille: 0, ..rules() });
    // A stream of shorter messages keeps the long one waiting for longer than its patience.
    rack.send(1, 1 << 20);
    let end = rack.world.now + Duration::from_millis(30);
    rack.keep_sending(2..4, 60_000, |world| world.now >= end);
    let counters = *rack.world.nodes[0].calls.counters();
    assert!(counters.busy_sent > 0 && counters.resends_sent == 0, "{counters:?}");
    assert_eq!(rack.world.nodes[1].calls.counters().retransmissions, 0);
}

/// Bytes whose holders are counted.
struct Counted(Arc<Vec<u8>>);

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Moves packets both ways until none is left; requests are answered with `answer`.
fn exchange(ends: &mut [Homa<Counted>; 2], now: Instant, answer: &Arc<Vec<u8>>) -> u32 {
    let (mut head, mut responses, mut any) = (Head::new(), 0, true);
    while any {
        any = false;
        for from in 0..2 {
            while let Some(packet) = ends[from].poll_transmit(now, &mut head) {
                any = true;
                let bytes = [packet.head, packet.payload].concat();
                let other: &mut Calls<_, _> = &mut ends[1 - from];
                match other.handle(PeerAddress(from as u32), &bytes, now) {
                    Some(Delivery::Request { session, request, .. }) => {
                        let payload = Payload::Owned(Counted(Arc::clone(answer)));
                        other.reply(session, request, 0, payload).expect("it is short enough");
                    }
                    Some(Delivery::Response { .. }) => responses += 1,
                    None => while other.poll_event().is_some() {},
                }
            }
        }
    }
    responses
}

#[test]
fn memory_of_messages_is_kept_until_the_peer_has_them() {
    let end = |rank| {
        let identity = Identity { incarnation: u64::from(rank) + 1, rank, endpoint: 0 };
        Homa::new(HomaConfig::default(), identity, Entropy::repeatable(5))
            .expect("the default configuration is valid")
    };
    let mut ends = [end(0), end(1)];
    let (request, answer) = (Arc::new(vec![1; 300_000]), Arc::new(vec![2; 300_000]));
    let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
    let session = ends[0].connect(PeerAddress(1), at(1)).expect("there is room");
    exchange(&mut ends, at(1), &answer);
    let payload = Payload::Owned(Counted(Arc::clone(&request)));
    ends[0].call(session, 1, 1, payload).expect("the session is up");
    let mut head = Head::new();
    // All that may go out has gone out and was lost: the request must still be there.
    while ends[0].poll_transmit(at(1), &mut head).is_some() {}
    assert_eq!(Arc::strong_count(&request), 2);
    let mut responses = 0;
    for millis in 2..20 {
        ends.iter_mut().for_each(|end| end.handle_timeout(at(millis)));
        responses += exchange(&mut ends, at(millis), &answer);
        if responses == 1 && Arc::strong_count(&answer) == 2 {
            assert_eq!(Arc::strong_count(&request), 1, "the response acknowledges the request");
        }
    }
    assert_eq!(responses, 1);
    (20..60).for_each(|millis| {
        ends.iter_mut().for_each(|end| end.handle_timeout(at(millis)));
        exchange(&mut ends, at(millis), &answer);
    });
    assert_eq!(Arc::strong_count(&answer), 1, "and is let go when it was acknowledged");
}
