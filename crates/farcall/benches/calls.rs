//! What a call costs both sides together: two endpoints in one thread, so that nothing waits for anything.
//!
//! A line for each number of calls under way: the median over batches and the least, in nanoseconds a call. Run two builds in
//! turn to compare them, for instance one without trace points.

use std::time::Instant;

use farcall::{Endpoint, Event, Node, Peer, Service};

const ECHO: Service = Service(1);

const BATCHES: usize = 4000;

fn main() {
    for in_flight in [1, 64] {
        let node = Node::alone().expect("this process");
        let (caller, server) = (
            node.endpoint("ring+shm").expect("an endpoint"),
            node.endpoint("ring+shm").expect("an endpoint"),
        );
        let to = caller.peer_endpoint(0, 1).expect("it is there");
        server.serve(ECHO, |request, reply| reply.send(request.payload()));
        let from = server.peer_endpoint(0, 0).expect("it is there");
        caller.wait_for(to).expect("up");
        server.wait_for(from).expect("up");
        let mut nanos: Vec<f64> = (0..BATCHES).map(|_| batch(&caller, &server, to, in_flight)).collect();
        // The first ones touch memory for the first time.
        nanos.drain(..BATCHES / 10);
        nanos.sort_unstable_by(f64::total_cmp);
        println!("{in_flight} {:.2} {:.2}", nanos[nanos.len() / 2], nanos[0]);
    }
}

/// Nanoseconds a call, of a batch of rounds with so many calls.
fn batch(caller: &Endpoint, server: &Endpoint, to: Peer, in_flight: usize) -> f64 {
    let rounds = 256_usize.div_ceil(in_flight);
    let begun = Instant::now();
    for _ in 0..rounds {
        for slot in 0..in_flight {
            caller.call(to, ECHO, &[1; 8]).post(slot as u64).expect("there is room");
        }
        let mut answered = 0;
        while answered < in_flight {
            caller.poll(|_, event| {
                if let Event::Completed { outcome, .. } = event {
                    answered += usize::from(outcome.is_ok());
                }
            });
            server.poll(|_, _| {});
        }
    }
    begun.elapsed().as_nanos() as f64 / (rounds * in_flight) as f64
}
