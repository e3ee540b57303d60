//! Priorities that follow the traffic.

use super::rack::{LIMIT, Rack, rules};
use crate::homa::{HomaPolicy, HomaRules, RulesError};
use crate::session::PeerAddress;
use crate::wire::{Head, Header, Opcode};

/// Sends messages of each of `lengths` in turn, `count` in all, a few at a time.
fn send_mix(rack: &mut Rack<HomaPolicy>, lengths: &[usize], count: usize) {
    for at in 0..count {
        rack.send(1 + at % 2, lengths[at % lengths.len()]);
        if at % 8 == 7 {
            let all = |world: &crate::calls::tests::world::World<HomaPolicy>| {
                world.nodes[1..].iter().map(|node| node.finished.len()).sum::<usize>()
            };
            let before = all(&rack.world);
            rack.world.run_until(LIMIT, |world| all(world) >= before + 8);
        }
    }
}

#[test]
fn cutoffs_part_the_traffic_and_follow_when_it_changes() {
    let mut rack = Rack::homa(3, &rules());
    let wanted = |rack: &Rack<HomaPolicy>| *rack.world.nodes[0].calls.policy().wanted_cutoffs();
    assert_eq!((wanted(&rack).version(), wanted(&rack).lengths()), (0, &[][..]));
    send_mix(&mut rack, &[50, 200, 400, 700, 1000, 1300], 1200);
    let small = wanted(&rack);
    assert!(small.version() > 0 && small.lengths().len() >= 3, "{small:?}");
    assert!(small.priority(50) > small.priority(700) && small.priority(700) > small.priority(1300));
    send_mix(&mut rack, &[10_000, 50_000, 200_000], 2400);
    let long = wanted(&rack);
    assert_ne!(long.version(), small.version());
    assert!(long.lengths().len() < small.lengths().len(), "{long:?} after {small:?}");
    assert!(long.priority(700) > long.priority(50_000) || long.lengths().is_empty());
}

#[test]
fn senders_use_the_cutoffs_that_they_were_told() {
    let mut rack = Rack::homa(2, &HomaRules { cutoffs: Some(vec![100, 1000]), ..rules() });
    rack.time(1, 1400);
    rack.world.sent_bytes.clear();
    rack.world.recording = Some(Vec::new());
    for (bytes, priority) in [(100, 7), (1000, 6), (1400, 5), (8000, 5)] {
        let before = rack.world.sent_bytes.get(&(1, priority)).copied().unwrap_or(0);
        rack.time(1, bytes);
        let sent = rack.world.sent_bytes.get(&(1, priority)).copied().unwrap_or(0) - before;
        assert!(sent >= bytes as u64, "{bytes} bytes at priority {priority}: {:?}", rack.world.sent_bytes);
    }
    let packets = rack.world.recording.take().expect("it was recording");
    let headers = packets.iter().filter(|it| it.0 == 1).filter_map(|it| Header::parse(&it.2).ok());
    let whole: Vec<u8> =
        headers.filter(|it| it.opcode == Opcode::Whole).map(|it| it.flags.argument()).collect();
    assert_eq!(whole, [1, 1, 1], "packets name the edition");
    assert_eq!(rack.world.nodes[0].calls.counters().cutoffs_sent, 1, "once told, nobody is told again");
}

#[test]
fn lost_cutoffs_are_sent_again() {
    let mut rack = Rack::homa(2, &HomaRules { cutoffs: Some(vec![100]), ..rules() });
    let mut losses = 2;
    rack.world.filter = Box::new(move |from, packet| {
        let lost = from == 0 && packet[4] == Opcode::Cutoffs as u8 && losses > 0;
        losses -= i32::from(lost);
        !lost
    });
    (0..2000).for_each(|_| {
        rack.time(1, 50);
    });
    rack.world.sent_bytes.clear();
    rack.time(1, 1000);
    assert!(rack.world.sent_bytes.contains_key(&(1, 6)), "{:?}", rack.world.sent_bytes);
    assert_eq!(rack.world.nodes[0].calls.counters().cutoffs_sent, 3);
}

#[test]
fn cutoffs_for_a_session_that_ended_are_not_sent_in_the_one_that_takes_its_place() {
    let mut rack = Rack::homa(2, &HomaRules { cutoffs: Some(vec![100]), ..rules() });
    rack.send(1, 50);
    let (now, mut head) = (rack.world.now, Head::new());
    let request = rack.world.nodes[1].calls.poll_transmit(now, &mut head).expect("a request is due");
    let request = [request.head, request.payload].concat();
    let server = &mut rack.world.nodes[0].calls;
    assert!(server.handle(PeerAddress(1), &request, now).is_some(), "under the wrong version");
    server.close_all();
    server.connect(PeerAddress(1), now).expect("there is room");
    let mut sent = Vec::new();
    while let Some(packet) = server.poll_transmit(now, &mut head) {
        sent.push(Header::parse(packet.head).expect("our own").opcode);
    }
    assert!(!sent.is_empty() && !sent.contains(&Opcode::Cutoffs), "{sent:?}");
}

#[test]
fn scheduled_bytes_have_the_lowest_priorities_when_few_are_active() {
    let mut rack =
        Rack::homa(3, &HomaRules { cutoffs: Some(vec![100, 1000, 10_000]), overcommit: 4, ..rules() });
    rack.time(1, 50);
    rack.time(2, 50);
    rack.world.sent_bytes.clear();
    rack.send(1, 300_000);
    rack.send(2, 1 << 20);
    rack.world.run_until(LIMIT, |world| world.nodes[1].finished.len() == 2);
    let bytes = |node, priority| rack.world.sent_bytes.get(&(node, priority)).copied().unwrap_or(0);
    // Two are active: the shorter has level 1, the longer 0. Both begin at level 4, and the shorter ends
    // there.
    assert!(bytes(1, 1) > 200_000 && bytes(1, 4) > 16_000, "{:?}", rack.world.sent_bytes);
    let longer = [bytes(2, 1), bytes(2, 2), bytes(2, 3)];
    assert!(bytes(2, 0) > 16_000 && longer == [0; 3], "{:?}", rack.world.sent_bytes);
}

#[test]
fn rules_that_cannot_be_followed_are_refused() {
    let refused = |rules: HomaRules| HomaPolicy::new(rules).err();
    let good = rules();
    let cutoffs = |lengths: &[u32]| Some(lengths.to_vec());
    let cases = [
        (HomaRules { priorities: 9, ..good.clone() }, RulesError::Priorities { priorities: 9 }),
        (HomaRules { priorities: 0, ..good.clone() }, RulesError::Priorities { priorities: 0 }),
        (HomaRules { overcommit: 0, ..good.clone() }, RulesError::Overcommit { overcommit: 0 }),
        (HomaRules { cutoffs: cutoffs(&[2, 1]), ..good.clone() }, RulesError::CutoffsOrder),
        (
            HomaRules { cutoffs: cutoffs(&[1, 2]), priorities: 2, ..good.clone() },
            RulesError::Cutoffs { cutoffs: 2, priorities: 2 },
        ),
        (
            HomaRules { cutoffs: cutoffs(&[1]), unscheduled_priorities: Some(3), ..good.clone() },
            RulesError::CutoffsCount { cutoffs: 1 },
        ),
        (
            HomaRules { unscheduled_priorities: Some(8), ..good.clone() },
            RulesError::UnscheduledPriorities { unscheduled: 8, priorities: 8 },
        ),
        (HomaRules { fifo_permille: 1001, ..good.clone() }, RulesError::OutOfRange),
        (HomaRules { rtt_bytes: 0, ..good }, RulesError::OutOfRange),
    ];
    for (rules, error) in cases {
        assert_eq!(refused(rules), Some(error));
    }
}
