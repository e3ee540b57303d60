//! The server, turn by turn: what its thread would do in one order that it seldom meets.

use std::io::Write;
use std::net::TcpStream;

use rustix::event::{EventfdFlags, eventfd};

use super::super::super::messages::Place;
use super::super::super::secret::Secret;
use super::*;

/// Two descriptors each.
const RANKS: u32 = 300;

/// Room for a few turns within each other, and not for as many as there are ranks.
const STACK_BYTES: usize = 256 << 10;

fn join(rank: u32) -> Ask {
    Ask::Join(Join {
        place: Place::Rank { rank, size: RANKS, hosts_fingerprint: 0 },
        incarnation: u64::from(rank) + 1,
        secret: Secret::new([1; 16]),
        machine: 1,
        process: 1,
        host: "node".to_owned(),
    })
}

/// Each of many processes asks for the next one and dies, before any of them is looked at.
fn serve_a_chain_of_dead() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.set_nonblocking(true).expect("a socket");
    let at = listener.local_addr().expect("it is bound");
    let stop = eventfd(0, EventfdFlags::CLOEXEC).expect("a descriptor");
    let registry = Registry::new(RANKS, 0).expect("memory");
    let mut server = Server::new(listener, stop, registry, None).expect("descriptors");
    let members: Vec<TcpStream> = (0..RANKS)
        .map(|rank| {
            let mut stream = TcpStream::connect(at).expect("it listens");
            stream.write_all(&join(rank).to_frame()).expect("the kernel takes it");
            server.accept();
            server.serve(server.links_used);
            stream
        })
        .collect();
    let holders: Vec<LinkId> =
        (0..RANKS).map(|rank| server.registry.holder(rank).expect("it joined")).collect();
    for (rank, mut stream) in (0..).zip(members) {
        let ask = Ask::Resolve { request: 1, rank: (rank + 1) % RANKS, key: "ring+shm#0".to_owned() };
        stream.write_all(&ask.to_frame()).expect("the kernel takes it");
    }
    server.serve(holders[0]);
    assert_eq!(server.registry.holder(1), None, "it is dead, and was looked at");
    holders.into_iter().for_each(|link| server.serve(link));
    assert!((0..RANKS).all(|rank| server.registry.holder(rank).is_none()), "all are dead");
    assert!(server.connections.is_empty() && !server.is_ending_dead);
}

#[test]
fn a_chain_of_dead_members_that_ask_for_each_other_is_not_followed_to_its_end() {
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(serve_a_chain_of_dead);
    thread.expect("a thread").join().expect("its stack was enough");
}
