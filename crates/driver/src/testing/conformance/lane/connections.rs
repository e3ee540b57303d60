//! Connections come and go.

use std::collections::HashSet;

use super::records::peek;
use super::records::{read, write};
use super::{WITHIN, connect, next_down, next_event, pair};
use crate::conformance::{made, until};
use crate::{HELLO_BYTES_MAX, LaneDriver, LaneEvent, LaneFault, LaneId, LaneSender};
use farcall_base::{Address, AddressError};

/// The hello reaches who is called, the welcome who calls.
pub fn hello_and_welcome_arrive<L: LaneDriver>(make: impl Fn(usize) -> Vec<L>) {
    exchange(made(make), b"it is me", b"come in");
}

/// So do the longest ones.
pub fn the_longest_hello_and_welcome_arrive<L: LaneDriver>(make: impl Fn(usize) -> Vec<L>) {
    exchange(made(make), &[7; HELLO_BYTES_MAX], &[9; HELLO_BYTES_MAX]);
}

fn exchange<L: LaneDriver>([mut a, mut b]: [L; 2], said: &[u8], answered: &[u8]) {
    b.set_welcome(answered);
    let address = Address::new(b.address().as_bytes()).expect("it was an address");
    let called = a.connect(&address, said, WITHIN).expect("an address of this kind");
    match next_event(&mut b) {
        LaneEvent::Accepted { hello, .. } => assert_eq!(hello, said),
        other => panic!("instead of a caller: {other:?}"),
    }
    let connected = LaneEvent::Connected { lane: called, welcome: answered.to_vec() };
    assert_eq!(next_event(&mut a), connected);
    assert_eq!((a.poll_event(), b.poll_event()), (None, None), "nothing else happened");
}

/// Bytes that no driver of this kind made are refused as such.
pub fn a_wrong_address_is_refused<L: LaneDriver>(make: impl Fn(usize) -> Vec<L>) {
    let [mut driver] = made(make);
    for bytes in [&b""[..], b"?", b"udp4\x7f\0\0\x01\x1b\x58"] {
        let address = Address::new(bytes).expect("short enough");
        let refusal = driver.connect(&address, b"", WITHIN);
        assert!(matches!(refusal, Err(AddressError::WrongKind { .. })), "{address:?}: {refusal:?}");
    }
}

/// Calling a driver that is gone ends with the fault that says so.
pub fn nobody_is_there<L: LaneDriver>(make: impl Fn(usize) -> Vec<L>) {
    let [mut a, b] = made(make);
    let address = b.address();
    drop(b);
    let lane = a.connect(&address, b"", WITHIN).expect("an address of this kind");
    assert_eq!(next_down(&mut a, lane), LaneFault::NotThere);
    assert!(a.take(lane).is_none(), "a lane that never came up has no ends");
}

/// Who closes sees that it closed; the peer sees that the peer closed.
pub fn closing_is_seen_on_both_sides<L: LaneDriver>(make: impl Fn(usize) -> Vec<L>) {
    let (mut a, mut b, at_a, at_b) = pair(make);
    a.close(at_a.lane);
    assert_eq!(next_down(&mut a, at_a.lane), LaneFault::Closed);
    assert_eq!(next_down(&mut b, at_b.lane), LaneFault::PeerClosed);
    assert_eq!((a.poll_event(), b.poll_event()), (None, None), "a lane goes down once");
}

/// A lane can be closed at any moment of its setting up. Its peer sees nothing of it or also its end, and it
/// takes nobody's place.
pub fn a_lane_closed_before_it_is_up_leaves_nothing<L: LaneDriver>(make: impl Fn(usize) -> Vec<L>) {
    const LANES: usize = 500;
    let [mut a, mut b] = made(make);
    let mut open_at_b = HashSet::new();
    for number in 0..LANES {
        let lane = a.connect(&b.address(), b"", WITHIN).expect("an address of this kind");
        // Each time a little later, so that it happens at different stages.
        (0..number).for_each(|_| core::hint::spin_loop());
        a.close(lane);
        until("the lane is closed", || match a.poll_event()? {
            LaneEvent::Connected { lane: connected, .. } => {
                assert_eq!(connected, lane);
                None
            }
            LaneEvent::Down { lane: down, fault } => {
                assert_eq!((down, fault), (lane, LaneFault::Closed));
                Some(())
            }
            accepted @ LaneEvent::Accepted { .. } => panic!("nobody called: {accepted:?}"),
        });
        follow(&mut b, &mut open_at_b);
    }
    let _last = a.connect(&b.address(), b"last", WITHIN).expect("an address of this kind");
    until("only the last lane is up", || {
        follow(&mut b, &mut open_at_b);
        (open_at_b.len() == 1 && open_at_b.iter().all(|(_, hello)| hello == b"last")).then_some(())
    });
    assert!(matches!(next_event(&mut a), LaneEvent::Connected { .. }));
    assert_eq!(a.poll_event(), None, "a lane goes down once");
}

/// Takes note of the lanes that came up at who is called and went down again.
fn follow<L: LaneDriver>(driver: &mut L, open: &mut HashSet<(LaneId, Vec<u8>)>) {
    while let Some(event) = driver.poll_event() {
        match event {
            LaneEvent::Accepted { lane, hello } => assert!(open.insert((lane, hello))),
            LaneEvent::Down { lane, .. } => open.retain(|(other, _)| *other != lane),
            LaneEvent::Connected { .. } => panic!("nobody was called"),
        }
    }
}

/// A driver that goes away takes its lanes down at its peers.
pub fn a_dropped_driver_is_seen<L: LaneDriver>(make: impl Fn(usize) -> Vec<L>) {
    let (mut a, b, at_a, at_b) = pair(make);
    drop((b, at_b));
    let fault = next_down(&mut a, at_a.lane);
    assert!(matches!(fault, LaneFault::PeerClosed | LaneFault::PeerGone), "{fault:?}");
}

/// The ends of a lane that is down can still be used, to no effect.
pub fn ends_of_a_closed_lane_do_no_harm<L: LaneDriver>(make: impl Fn(usize) -> Vec<L>) {
    let (mut a, b, mut at_a, at_b) = pair(make);
    drop((b, at_b.sender));
    next_down(&mut a, at_a.lane);
    write(&mut at_a.sender, 0, b"into the void", 64);
    at_a.sender.ring_doorbell();
    drop(a);
    write(&mut at_a.sender, 64, b"into the void", 128);
    at_a.sender.ring_doorbell();
    assert!(matches!(peek(&at_a.receiver, 0), Ok(None)));
    // The peer's end of the ring is readable for as long as it is held.
    let _nothing_or_the_record = peek(&at_b.receiver, 0);
}

/// The ends of a lane belong to who takes them first.
pub fn lanes_are_taken_once<L: LaneDriver>(make: impl Fn(usize) -> Vec<L>) {
    let (mut a, mut b, at_a, at_b) = pair(make);
    assert!(a.take(at_a.lane).is_none() && b.take(at_b.lane).is_none());
}

/// A lane's number is never another lane's.
pub fn lane_numbers_are_not_used_again<L: LaneDriver>(make: impl Fn(usize) -> Vec<L>) {
    let [mut a, mut b] = made(make);
    let (mut at_a, mut at_b) = (HashSet::new(), HashSet::new());
    for _ in 0..10 {
        let (near, far) = connect(&mut a, &mut b);
        assert!(at_a.insert(near.lane) && at_b.insert(far.lane), "{:?} or {:?} again", near.lane, far.lane);
        a.close(near.lane);
        next_down(&mut a, near.lane);
        next_down(&mut b, far.lane);
    }
}

/// Lanes of one driver, also several to one peer, do not disturb each other.
pub fn a_driver_has_many_lanes<L: LaneDriver>(make: impl Fn(usize) -> Vec<L>) {
    let [mut a, mut b, mut c] = made(make);
    let mut lanes = vec![
        connect(&mut a, &mut b),
        connect(&mut a, &mut c),
        connect(&mut b, &mut a),
        connect(&mut a, &mut b),
    ];
    for (number, (near, _)) in (0_u8..).zip(&mut lanes) {
        write(&mut near.sender, 0, &[number; 9], 64);
    }
    let (closed, _) = lanes.pop().expect("four lanes");
    a.close(closed.lane);
    next_down(&mut a, closed.lane);
    for (number, (_, far)) in (0_u8..).zip(&lanes) {
        assert_eq!(read(&far.receiver, 0), [number; 9]);
    }
}
