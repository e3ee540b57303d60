//! Small calls in the steady state allocate nothing.

use farcall_base::{Entropy, Identity, Instant};
use farcall_protocol::basic::{Basic, BasicConfig};
use farcall_protocol::calls::{Calls, Delivery, Payload, Policy};
use farcall_protocol::homa::{Homa, HomaConfig};
use farcall_protocol::session::{PeerAddress, SessionId};
use farcall_protocol::wire::Head;

struct Pair<P: Policy> {
    ends: [Calls<Vec<u8>, P>; 2],
    packet: Vec<u8>,
    completed: u32,
}

impl<P: Policy> Pair<P> {
    fn move_packets(&mut self, from: usize, now: Instant) -> bool {
        let (mut head, mut any) = (Head::new(), false);
        while let Some(packet) = self.ends[from].poll_transmit(now, &mut head) {
            any = true;
            self.packet.clear();
            self.packet.extend_from_slice(packet.head);
            self.packet.extend_from_slice(packet.payload);
            let other = &mut self.ends[1 - from];
            match other.handle(PeerAddress(from as u32), &self.packet, now) {
                Some(Delivery::Request { session, request, .. }) => {
                    let answer = Payload::Slice(&[2; 100]);
                    other.reply(session, request, 0, answer).expect("the answer is short");
                }
                Some(Delivery::Response { .. }) => self.completed += 1,
                None => while other.poll_event().is_some() {},
            }
        }
        any
    }

    fn round(&mut self, session: SessionId, now: Instant) {
        for call in 0..16 {
            let request = &[1; 480][..30 * (call as usize + 1)];
            self.ends[0].call(session, call, 1, Payload::Slice(request)).expect("there is a slot");
        }
        while self.move_packets(0, now) | self.move_packets(1, now) {}
        self.ends.iter_mut().for_each(|end| end.handle_timeout(now));
    }
}

fn assert_that_calls_allocate_nothing<P: Policy>(ends: [Calls<Vec<u8>, P>; 2]) {
    let mut pair = Pair { ends, packet: Vec::with_capacity(2000), completed: 0 };
    let session =
        pair.ends[0].connect(PeerAddress(1), Instant::from_nanos(1)).expect("the first session fits");
    let time = |round: u64| Instant::from_nanos(round * 100_000);
    (1..100).for_each(|round| pair.round(session, time(round)));
    let counted =
        allocation_counter::measure(|| (100..1000).for_each(|round| pair.round(session, time(round))));
    assert_eq!(counted.count_total, 0);
    assert_eq!(pair.completed, 999 * 16);
}

fn identity(rank: u32) -> Identity {
    Identity { incarnation: u64::from(rank) + 1, rank, endpoint: 0 }
}

#[test]
fn small_calls_by_basic_in_the_steady_state_allocate_nothing() {
    let end = |rank| {
        Basic::new(BasicConfig::default(), identity(rank), Entropy::repeatable(u64::from(rank)))
            .expect("the defaults are valid")
    };
    assert_that_calls_allocate_nothing([end(0), end(1)]);
}

#[test]
fn small_calls_by_homa_in_the_steady_state_allocate_nothing() {
    let end = |rank| {
        Homa::new(HomaConfig::default(), identity(rank), Entropy::repeatable(u64::from(rank)))
            .expect("the defaults are valid")
    };
    assert_that_calls_allocate_nothing([end(0), end(1)]);
}
