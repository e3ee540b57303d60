use std::sync::Arc;

use super::*;

fn clock() -> Clock {
    Clock::simulated(Arc::default())
}

/// What the endpoint of a rank recorded in its session `session` with the other.
fn host(rank: u32, session: u16, records: &[(u64, u32, u16)]) -> HostTrace {
    let records = records.iter().map(|&(ticks, number, event)| (ticks, number, event, session)).collect();
    HostTrace { rank, overwritten: 0, peers: vec![(session, 1 - rank)], records }
}

const SENT: [(u64, u32, u16); 2] = [(10, 5, event::MESSAGE_SUBMITTED), (20, 5, event::MESSAGE_TRANSMITTED)];
const RECEIVED: [(u64, u32, u16); 4] = [
    (30, 5, event::MESSAGE_RECEIVED),
    // It was left for the next poll.
    (35, 5, event::MESSAGE_RECEIVED),
    (40, 5, event::MESSAGE_MATCHED),
    (50, 5, event::MESSAGE_COMPLETED),
];

#[test]
fn a_message_has_its_points_from_both_ends() {
    let joined = join_messages(&host(0, 3, &SENT), &host(1, 9, &RECEIVED), &clock());
    let message = TracedMessage { sender: 0, receiver: 1, number: 5, nanos: [10, 20, 30, 40, 50] };
    assert_eq!(joined, JoinedMessages { messages: vec![message], ..JoinedMessages::default() });
}

#[test]
fn packets_have_the_number_of_the_call_that_carries_the_message() {
    let sent = [
        (10, 5, event::MESSAGE_SUBMITTED),
        (5, 77, event::MESSAGE_NAMED),
        (20, 77, event::REQUEST_TRANSMITTED),
        (22, 77, event::REQUEST_TRANSMITTED),
        (23, 78, event::REQUEST_TRANSMITTED),
    ];
    let received = [
        // The receiver's own message in the other direction has a call of the same number.
        (6, 77, event::MESSAGE_NAMED),
        (25, 77, event::REQUEST_RECEIVED),
        (30, 77, event::REQUEST_RECEIVED),
        (5, 77, event::ARRIVED_AS),
        // It was sent again.
        (35, 77, event::REQUEST_RECEIVED),
        (40, 5, event::MESSAGE_MATCHED),
        (50, 5, event::MESSAGE_COMPLETED),
    ];
    let joined = join_messages(&host(0, 3, &sent), &host(1, 9, &received), &clock());
    assert_eq!(
        joined.messages.iter().map(|message| message.nanos).collect::<Vec<_>>(),
        [[10, 20, 30, 40, 50]]
    );
}

#[test]
fn what_lacks_a_point_or_runs_backwards_is_counted() {
    let incomplete = join_messages(&host(0, 3, &SENT[1..]), &host(1, 9, &RECEIVED), &clock());
    assert_eq!((incomplete.messages.len(), incomplete.incomplete), (0, 1));
    let late = [SENT[0], (32, 5, event::MESSAGE_TRANSMITTED)];
    let disordered = join_messages(&host(0, 3, &late), &host(1, 9, &RECEIVED), &clock());
    assert_eq!((disordered.messages.len(), disordered.disordered), (0, 1));
}

#[test]
fn sessions_that_cannot_be_told_apart_are_not_joined() {
    let mut sender = host(0, 3, &SENT);
    sender.peers.push((4, 1));
    sender.records.push((60, 5, event::MESSAGE_SUBMITTED, 4));
    let joined = join_messages(&sender, &host(1, 9, &RECEIVED), &clock());
    assert_eq!((joined.messages.len(), joined.incomplete), (0, 1));
}

#[test]
fn parts_of_the_mean_the_typical_and_the_slow_message_add_up() {
    let message = |number: u32| {
        let length = u64::from(10 + number % 97);
        let nanos = core::array::from_fn(|point| u64::from(number) * 1000 + (point * point) as u64 * length);
        TracedMessage { sender: 0, receiver: 1, number, nanos }
    };
    let messages = (0..1000).map(message).collect();
    let joined = JoinedMessages { messages, ..JoinedMessages::default() };
    let summary = MessageSummary::of(&joined).expect("there are messages");
    let sum = |value: fn(&Part) -> f64| summary.parts.values().map(value).sum::<f64>();
    for (sum, total) in [
        (sum(|part| part.mean), summary.total.mean),
        (sum(|part| part.typical), summary.total.typical),
        (sum(|part| part.slow), summary.total.slow),
    ] {
        assert!((sum / total - 1.0).abs() < 1e-9, "{sum} of {total}");
    }
    assert_eq!(MessageSummary::of(&JoinedMessages::default()), None);
}
