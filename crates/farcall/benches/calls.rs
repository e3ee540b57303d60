//! What a call costs both sides together: two endpoints in one thread, so that nothing waits for anything.
//!
//! A line for each number of calls in flight: the median over batches and the least, in nanoseconds a call,
//! and what tracing adds to both. Batches with and without tracing take turns. Run two builds in turn to
//! compare them.

use std::time::Instant;

use farcall::{Endpoint, Event, Node, Peer, Service};

const ECHO: Service = Service(1);

const BATCHES: usize = 4000;

fn main() {
    println!("{:>9} {:>8} {:>8} {:>14} {:>8}", "in flight", "median", "least", "tracing adds", "least");
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
        let batches = |is_traced: bool| {
            [&caller, &server].iter().for_each(|endpoint| endpoint.tracer().switch(is_traced));
            batch(&caller, &server, to, in_flight)
        };
        let nanos: Vec<_> = (0..BATCHES).map(|_| [batches(false), batches(true)]).collect();
        let [untraced, traced] = [0, 1].map(|which| median_and_least(nanos.iter().map(|both| both[which])));
        println!(
            "{in_flight:>9} {:>8.2} {:>8.2} {:>14.2} {:>8.2}",
            untraced[0],
            untraced[1],
            traced[0] - untraced[0],
            traced[1] - untraced[1]
        );
    }
}

fn median_and_least(nanos: impl Iterator<Item = f64>) -> [f64; 2] {
    // The first ones touch memory for the first time.
    let mut nanos: Vec<_> = nanos.skip(BATCHES / 10).collect();
    nanos.sort_unstable_by(f64::total_cmp);
    [nanos[nanos.len() / 2], nanos[0]]
}

/// Nanoseconds a call, of a batch of rounds with this many calls.
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
