//! Calls between two endpoints in one thread, for `scripts/bench-verbs-instructions` to count what they cost
//! from the caller to the handler and back: `both_sides TRANSPORT`, and `both_sides TRANSPORT idle` for turns
//! that find nothing.

use std::hint::black_box;
use std::thread;
use std::time::Duration;

use farcall::bootstrap::{Bootstrap, HostPort, Rendezvous};
use farcall::parameters::Settings;
use farcall::{Endpoint, Event, Node, Peer, Service, TransportKind};

const ECHO: Service = Service(1);
const LONG: Duration = Duration::from_secs(60);

/// Calls, or turns; also the divisor of what is counted.
const CALLS: usize = 16_000;
/// Calls before them, until the session is up and nothing is done for the first time.
const CALLS_BEFORE: usize = 1000;
/// As many bytes as in the echo of `farcall perf`, each way.
const REQUEST: [u8; 30] = [7; 30];
const ANSWER: [u8; 100] = [8; 100];

#[inline(never)]
fn measured_calls(client: &Endpoint, server: &Endpoint, peer: Peer) {
    calls(client, server, peer, CALLS);
}

#[inline(never)]
fn measured_turns(client: &Endpoint) {
    for _ in 0..CALLS {
        assert_eq!(client.poll(|_, _| {}), 0);
    }
}

fn calls(client: &Endpoint, server: &Endpoint, peer: Peer, count: usize) {
    for _ in 0..count {
        client.call(peer, ECHO, &REQUEST).within(LONG).post(0).expect("there is room");
        let mut done = false;
        while !done {
            client.poll(|_, event| {
                if let Event::Completed { outcome, .. } = event {
                    black_box(outcome.as_ref().expect("a handler that answers").len());
                    done = true;
                }
            });
            if !done {
                server.poll(|_, _| {});
            }
        }
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let kind: TransportKind = arguments.next().expect("a transport").parse().expect("a transport");
    let settings = Settings::default();
    let rendezvous = Rendezvous::bind("127.0.0.1:0", 2).expect("a rendezvous on loopback");
    let address = HostPort::from(rendezvous.address());
    let joined = [0, 1].map(|rank| {
        let address = address.clone();
        thread::spawn(move || Bootstrap::join(&address, rank, 2, LONG).expect("everybody joins"))
    });
    let nodes = joined.map(|bootstrap| Node::new(bootstrap.join().expect("it joined"), settings.clone()));
    let [server, client] =
        nodes.each_ref().map(|node| node.endpoint_with(kind, &settings).expect("an endpoint"));
    server.serve(ECHO, |_request, reply| reply.send(&ANSWER));
    let peer = client.peer(0).expect("it is known");
    calls(&client, &server, peer, CALLS_BEFORE);
    match arguments.next() {
        Some(_idle) => measured_turns(&client),
        None => measured_calls(&client, &server, peer),
    }
    println!("{CALLS}");
    // Good-byes to peers that have gone are not for a library that checks nothing.
    std::process::exit(0);
}
