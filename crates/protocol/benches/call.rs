//! What a small call costs in protocol code, both sides together, without any driver.
//!
//! Two endpoints on one core hand packets to each other through a buffer. The figures bound what the protocol
//! adds to a round trip: `cargo bench -p farcall-protocol`.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "a benchmark reads the clock")]

use std::hint::black_box;
use std::time::Duration;

use farcall_base::{Entropy, Identity, Instant};
use farcall_protocol::basic::BasicPolicy;
use farcall_protocol::calls::{Calls, Delivery, Payload, Policy, Received};
use farcall_protocol::homa::{HomaPolicy, HomaRules};
use farcall_protocol::session::{PeerAddress, SessionConfig, SessionId};
use farcall_protocol::wire::Head;

const CALLS: u32 = 1_000_000;
const BLOCKS: usize = 9;
const RESEND_INTERVAL: Duration = Duration::from_millis(2);

struct Pair<P: Policy> {
    ends: [Calls<Vec<u8>, P>; 2],
    head: Head,
    packet: Vec<u8>,
    now: Instant,
    session: SessionId,
    answer: Vec<u8>,
    completed: u32,
}

impl<P: Policy> Pair<P> {
    fn connected(policy: impl Fn() -> P, checksum: bool, answer_bytes: usize) -> Self {
        let mut config = SessionConfig::default();
        config.offer.checksum = checksum;
        let end = |rank| {
            let identity = Identity { incarnation: u64::from(rank) + 1, rank, endpoint: 0 };
            Calls::with_policy(
                policy(),
                config,
                RESEND_INTERVAL,
                identity,
                Entropy::repeatable(u64::from(identity.rank)),
            )
            .expect("the default configuration is valid")
        };
        let mut ends = [end(0), end(1)];
        let now = Instant::from_nanos(1);
        let session = ends[0].connect(PeerAddress(1), now).expect("the first session fits");
        let (head, packet) = (Head::new(), Vec::with_capacity(2048));
        let answer = vec![3; answer_bytes];
        let mut pair = Self { ends, head, packet, now, session, answer, completed: 0 };
        while pair.turn(0) | pair.turn(1) {}
        pair
    }

    /// Moves all packets of one end to the other, and answers requests. False when there was none.
    fn turn(&mut self, from: usize) -> bool {
        let mut any = false;
        while let Some(packet) = self.ends[from].poll_transmit(self.now, &mut self.head) {
            any = true;
            self.packet.clear();
            self.packet.extend_from_slice(packet.head);
            self.packet.extend_from_slice(packet.payload);
            let other = &mut self.ends[1 - from];
            match other.handle(PeerAddress(from as u32), &self.packet, self.now) {
                Some(Delivery::Request { session, request, payload, .. }) => {
                    black_box(&payload);
                    let answer = Payload::Slice(&self.answer);
                    other.reply(session, request, 0, answer).expect("the answer is short");
                }
                Some(Delivery::Response { payload: Received::InPlace(range), .. }) => {
                    black_box(&self.packet[range]);
                    self.completed += 1;
                }
                Some(_) | None => while other.poll_event().is_some() {},
            }
        }
        any
    }

    fn nanos_per_call(&mut self, request: &[u8], in_flight: u32) -> f64 {
        let rounds = CALLS / in_flight;
        let started = std::time::Instant::now();
        for _ in 0..rounds {
            self.now = Instant::from_nanos(self.now.as_nanos() + 1000);
            for call in 0..in_flight {
                let made = self.ends[0].call(self.session, call, 1, Payload::Slice(request));
                made.expect("there is a slot");
            }
            self.turn(0);
            self.turn(1);
            self.ends.iter_mut().for_each(|end| end.handle_timeout(self.now));
        }
        started.elapsed().as_nanos() as f64 / f64::from(rounds * in_flight)
    }
}

fn measure<P: Policy>(name: &str, policy: impl Fn() -> P) {
    for (request, answer, checksum, in_flight) in [
        (30, 100, true, 1),
        (30, 100, false, 1),
        (30, 100, true, 64),
        (100, 1000, true, 1),
        (100, 1000, false, 1),
    ] {
        let mut pair = Pair::connected(&policy, checksum, answer);
        let request_bytes = vec![1; request];
        let mut nanos: Vec<f64> =
            (0..BLOCKS).map(|_| pair.nanos_per_call(&request_bytes, in_flight)).collect();
        nanos.sort_by(f64::total_cmp);
        assert_eq!(pair.completed, BLOCKS as u32 * (CALLS / in_flight * in_flight));
        println!(
            "{name:10} {request:7} {answer:6} {checksum:8} {in_flight:9}  {:.1}, {:.1}",
            nanos[BLOCKS / 2],
            nanos[0]
        );
    }
}

fn main() {
    println!(
        "protocol   request answer checksum in_flight  ns/call (median, least of {BLOCKS} blocks of {CALLS})"
    );
    measure("basic", || BasicPolicy);
    let homa = |priorities| {
        let rules = HomaRules { priorities, ..HomaRules::default() };
        move || HomaPolicy::new(rules.clone()).expect("the rules are valid")
    };
    measure("homa", homa(1));
    measure("homa of 8", homa(8));
}
