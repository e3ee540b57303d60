//! Daemons that lose each other, over packets and over lanes: both live on, so they meet again.

mod common;

use core::ops::Range;
use std::thread::JoinHandle;
use std::time::Instant;

use common::{LONG, TABLE, endpoint, name, settings, value};
use farcall::bootstrap::{HostPort, Rendezvous};
use farcall::{Endpoint, TransportKind};
use farcall_kv::daemon::{Daemon, DaemonClient, NobodyObserves};
use farcall_kv::slots::{SlotLayout, SlotServer};
use farcall_kv::store::{Condition, MEMORY_BYTES_MIN, Store};
use farcall_kv::{Shard, wire::shard_of};

const LAYOUT: SlotLayout = SlotLayout { slots: 1, request_bytes: 120, response_bytes: 120 };

/// Two daemons of one thread.
struct Two<'e> {
    endpoints: &'e [Endpoint; 2],
    daemons: [Daemon<'e>; 2],
}

impl<'e> Two<'e> {
    fn new(endpoints: &'e [Endpoint; 2], slots: &[String; 2]) -> Self {
        let daemon = |rank: usize| {
            let store = Store::new(MEMORY_BYTES_MIN).expect("enough");
            let mut shard = Shard::new(store, rank as u32, 2);
            shard.create_table(TABLE).expect("the first");
            let slots = SlotServer::bind(&slots[rank], LAYOUT, 1).expect("a free name");
            Daemon::new(&endpoints[rank], shard, (rank as u32, 2), slots)
        };
        Self { endpoints, daemons: [daemon(0), daemon(1)] }
    }

    /// Turns some of the daemons until something is so.
    fn turn_until(&mut self, ranks: Range<usize>, what: &str, is_so: impl Fn(&[Endpoint; 2]) -> bool) {
        let deadline = Instant::now() + LONG;
        while !is_so(self.endpoints) {
            for daemon in &mut self.daemons[ranks.clone()] {
                for _ in 0..64 {
                    daemon.turn(&mut NobodyObserves);
                }
            }
            assert!(Instant::now() < deadline, "{what}");
            std::thread::yield_now();
        }
    }
}

fn have_met([first, second]: &[Endpoint; 2]) -> bool {
    first.session_with(1).is_some() && second.session_with(0).is_some()
}

/// Writes an object of shard 1 through the slots of shard 0.
fn start_put(slots: &str) -> JoinHandle<u64> {
    let slots = slots.to_owned();
    std::thread::spawn(move || {
        let mut client = DaemonClient::attach(&slots, LONG).expect("a place");
        let key = (0_u8..).map(|number| [number]).find(|key| shard_of(name(key), 2) == 1);
        client.put(name(&key.expect("some do")), value(b"v"), Condition::Always).expect("it is passed on")
    })
}

/// Two daemons that have met, lose each other as `part` makes them, and meet again.
fn daemons_meet_again(kind: TransportKind, peer_timeout: &str, part: impl Fn(&mut Two<'_>)) {
    println!("over {kind}");
    let rendezvous = Rendezvous::bind("127.0.0.1:0", 2).expect("a rendezvous on loopback");
    let address = HostPort::from(rendezvous.address());
    // The other daemon is of this process, which lives.
    let limits = ["peer_timeout", "poll_timeout"].map(|limit| format!("endpoint.{limit}={peer_timeout}"));
    let settings = settings(&[&limits[0], &limits[1]]);
    let endpoints = [0, 1].map(|rank| endpoint(&address, rank, 2, kind, &settings));
    let slots = [0, 1].map(|rank| format!("farcall-test-kv-{}-{kind}-{rank}", std::process::id()));
    let mut two = Two::new(&endpoints, &slots);
    two.daemons[1].meet_all().expect("the other is known");
    two.turn_until(0..2, "daemons meet", have_met);
    for version in 1..=2 {
        let put = start_put(&slots[0]);
        two.turn_until(0..2, "a request is answered", |_| put.is_finished());
        assert_eq!(put.join().expect("it is passed on"), version);
        part(&mut two);
        two.turn_until(0..2, "daemons meet again", have_met);
    }
}

#[test]
fn daemons_meet_again_when_one_was_silent_for_too_long() {
    daemons_meet_again(TransportKind::HOMA_UDP, "1s", |two| {
        two.turn_until(0..1, "silence is noticed", |endpoints| endpoints[0].session_with(1).is_none());
    });
}

#[test]
fn daemons_meet_again_when_their_session_was_closed() {
    for kind in [TransportKind::BASIC_UDP, TransportKind::RING_SHM] {
        daemons_meet_again(kind, "60s", |two| {
            // There are two sessions when both have opened one at the same time.
            two.turn_until(0..1, "sessions end", |[here, _]| {
                here.session_with(1).map(|peer| here.close(peer)).is_none()
            });
        });
    }
}
