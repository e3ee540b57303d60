//! What a rank gave before it left is not lost.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{LONG, pattern};
use farcall::bootstrap::{Bootstrap, LocalRanks};
use farcall::parameters::Settings;
use farcall::{Endpoint, Event, Node, Service, TransportKind};

const ECHO: Service = Service(1);

fn endpoint(ranks: &LocalRanks, rank: u32, kind: TransportKind) -> Endpoint {
    let node = Node::new(Bootstrap::among(ranks, rank, u64::from(rank) + 1), Settings::default());
    node.endpoint(kind.name()).expect("an endpoint")
}

#[test]
fn answers_given_before_a_rank_leaves_arrive() {
    for &kind in TransportKind::ALL {
        for length in [0, 100, 5000] {
            println!("{kind}, {length} bytes");
            let ranks = LocalRanks::new(2);
            let server = endpoint(&ranks, 0, kind);
            let client = endpoint(&ranks, 1, kind);
            let served = Arc::new(AtomicBool::new(false));
            let serving = Arc::clone(&served);
            server.serve(ECHO, move |request, reply| {
                serving.store(true, Ordering::Relaxed);
                reply.send(request.payload());
            });
            let sent = pattern(1, length);
            let peer = client.peer(0).expect("the server is known");
            client.call(peer, ECHO, &sent).within(LONG).post(7).expect("it can be called");
            while !served.load(Ordering::Relaxed) {
                client.turn();
                server.turn();
            }
            drop(server);
            let mut answered = false;
            while !answered {
                client.poll(|_, event| {
                    if let Event::Completed { token: 7, outcome } = event {
                        let answer = outcome.as_ref().expect("it was answered before the server left");
                        assert_eq!(&answer[..], &sent[..]);
                        answered = true;
                    }
                });
            }
        }
    }
}
