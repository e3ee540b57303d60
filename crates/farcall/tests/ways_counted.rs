//! Counters say how many sessions take each way. In a file of its own, because they are the process's.

mod common;

use common::counters::sum_of;
use common::{Pair, settings};
use farcall::{Endpoint, Service, TransportKind};

const ECHO: Service = Service(1);

fn serve(endpoint: &Endpoint) {
    endpoint.serve(ECHO, |request, reply| reply.send(request.payload()));
}

/// The sessions that have come up over a way, at both ends.
fn taken(way: &str) -> u64 {
    sum_of(&format!("auto#0 {way}"), "taken")
}

#[test]
fn a_session_counts_at_both_ends_under_the_way_that_it_takes() {
    let pair = Pair::new(TransportKind::AUTO, settings(&[]), serve);
    pair.client.call(pair.server, ECHO, b"hello").wait().expect("an answer");
    assert_eq!((taken("ring+shm"), taken("tcp"), taken("basic+udp")), (2, 0, 0));
    let here = Pair::new("tcp,basic+udp".parse().expect("a list"), settings(&[]), serve);
    here.client.call(here.server, ECHO, b"hello").wait().expect("an answer");
    assert_eq!((taken("ring+shm"), taken("tcp")), (2, 2), "a list is known as auto, too");
}
