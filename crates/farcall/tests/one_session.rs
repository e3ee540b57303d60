//! Messages to a rank go over one session until that ends, whoever has opened others meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use farcall::parameters::Settings;
use farcall::simulated::{Cluster, Profile, Program};
use farcall::{Endpoint, Event, Instant, Peer, Tag};

const TAG: Tag = Tag(1);

/// When both have had time for all handshakes.
const END: Instant = Instant::from_nanos(200_000);

/// Connects at a time, and from then on asks in each turn for the same peer.
struct Asker {
    endpoint: Endpoint,
    rank: u32,
    begins_at: Instant,
    first: Option<Peer>,
}

impl Program for Asker {
    fn turn(&mut self) -> usize {
        let now = self.endpoint.clock().now();
        let mut done = 0;
        if now >= self.begins_at {
            let peer = self.endpoint.peer(1 - self.rank).expect("it has published its endpoint");
            if self.first.is_none() {
                self.endpoint.send(peer, TAG, b"first").post(0).expect("there is room");
                done = 1;
            }
            assert_eq!(
                *self.first.get_or_insert(peer),
                peer,
                "at {now:?} rank {} goes another way",
                self.rank
            );
        }
        done + self.endpoint.poll(|_, event| match event {
            Event::Sent { outcome, .. } => assert!(outcome.is_ok()),
            other => panic!("{other:?}"),
        })
    }

    fn next_deadline(&self) -> Option<Instant> {
        let begins_at = self.first.is_none().then_some(self.begins_at);
        begins_at.into_iter().chain(self.endpoint.next_deadline()).min()
    }
}

/// Lets both ranks connect to each other, the second this much later.
fn connect_at_once(transport: &'static str, later_by_ns: u64) {
    let profile = Profile::load("connectx7-ndr").expect("an embedded profile");
    let mut cluster = Cluster::new(profile, 2, 1, Settings::default()).expect("it has places");
    let received = Arc::new(AtomicU32::new(0));
    for rank in 0..2 {
        let received = Arc::clone(&received);
        let begins_at = Instant::from_nanos(1000 + u64::from(rank) * later_by_ns);
        cluster.start(rank, move |node| {
            let endpoint = node.endpoint(transport).expect("a simulated host");
            let received = Arc::clone(&received);
            endpoint.on_message(move |_, _| _ = received.fetch_add(1, Ordering::Relaxed));
            Box::new(Asker { endpoint, rank, begins_at, first: None })
        });
    }
    cluster.run_until(END);
    assert_eq!(received.load(Ordering::Relaxed), 2, "over {transport}, {later_by_ns} ns later");
}

#[test]
fn messages_to_a_rank_go_over_the_session_of_the_first_of_them() {
    for transport in ["ring+sim", "basic+sim", "homa+sim"] {
        // From before the first packet of the other has come to after its session is up.
        for later_by_ns in (0..20_000).step_by(250) {
            connect_at_once(transport, later_by_ns);
        }
    }
}
