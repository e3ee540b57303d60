//! A relay between client and server that delays, reorders, doubles and loses packets, and whose port changes
//! as that of a router with address translation does. It needs no root, and its lots are drawn from a seed.

mod common;

use std::collections::BinaryHeap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use common::counters::sum_of;
use common::{LONG, settings};
use farcall::bootstrap::{Bootstrap, HostPort, Rendezvous};
use farcall::{Node, Service, TransportKind};
use farcall_base::{Random, SocketFormat};

const ECHO: Service = Service(1);
const UDP: SocketFormat = SocketFormat { driver: "udp", tag_v4: b"udp4", tag_v6: b"udp6" };

/// What happens to packets, in both directions.
#[derive(Clone, Copy)]
struct Weather {
    lost: f64,
    doubled: f64,
    /// Each is held up for up to so long, and so overtaken by others.
    delay_max: Duration,
}

/// A packet that is held up, the earliest on top.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    due: std::cmp::Reverse<Instant>,
    to_server: bool,
    bytes: Vec<u8>,
}

struct Relay {
    address: SocketAddr,
    /// How often the port changed that the server sees.
    moves: Arc<AtomicU32>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    fn start(server: SocketAddr, weather: Weather, seed: u64) -> Self {
        let front = socket(server);
        let address = front.local_addr().expect("it is bound");
        let (moves, stop) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
        let (moved, stopped) = (Arc::clone(&moves), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let mut random = Random::new(seed);
            let (mut back, mut client, mut moves) = (socket(server), None, 0);
            let (mut held, mut packet) = (BinaryHeap::new(), vec![0; 1 << 16]);
            while !stopped.load(Ordering::Relaxed) {
                if moved.load(Ordering::Relaxed) != moves {
                    moves = moved.load(Ordering::Relaxed);
                    back = socket(server);
                }
                let now = Instant::now();
                let mut take = |bytes: &[u8], to_server| {
                    let copies = if random.chance(weather.lost) { 0 } else { 1 };
                    for _ in 0..copies + usize::from(random.chance(weather.doubled)) {
                        let due = std::cmp::Reverse(now + weather.delay_max.mul_f64(random.unit()));
                        held.push(Held { due, to_server, bytes: bytes.to_vec() });
                    }
                };
                while let Ok((bytes, from)) = front.recv_from(&mut packet) {
                    client = Some(from);
                    take(&packet[..bytes], true);
                }
                while let Ok(bytes) = back.recv(&mut packet) {
                    take(&packet[..bytes], false);
                }
                while let Some(next) = held.peek()
                    && next.due.0 <= now
                {
                    let next = held.pop().expect("it was just looked at");
                    // What a buffer has no room for is lost as well.
                    let _lost = match client {
                        _ if next.to_server => back.send_to(&next.bytes, server),
                        Some(client) => front.send_to(&next.bytes, client),
                        None => continue,
                    };
                }
                std::thread::yield_now();
            }
        });
        Self { address, moves, stop, thread: Some(thread) }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let outcome = thread.join();
            assert!(outcome.is_ok() || std::thread::panicking(), "the relay panicked");
        }
    }
}

/// A socket on the server's machine. It is not connected: a closed port of a peer is none of its business.
fn socket(server: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind((server.ip(), 0)).expect("a free port");
    socket.set_nonblocking(true).expect("a socket");
    socket
}

#[test]
fn calls_through_a_relay_that_delays_reorders_doubles_and_loses_packets_are_answered_once() {
    let seed = std::env::var("FARCALL_TEST_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    println!("FARCALL_TEST_SEED={seed}");
    for kind in [TransportKind::BASIC_UDP, TransportKind::HOMA_UDP] {
        let registry = Rendezvous::bind_open("127.0.0.1:0").expect("a free port");
        let place = HostPort::from(registry.address());
        // As over Ethernet: the relay forwards what fits.
        let settings = settings(&["udp.mtu_bytes=1472"]);
        let (stop, ran) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let (stopped, counted, of_server) = (Arc::clone(&stop), Arc::clone(&ran), settings.clone());
        let (place_of_server, ready) = (place.clone(), std::sync::mpsc::channel());
        let server = std::thread::spawn(move || {
            let bootstrap = Bootstrap::open(&place_of_server, LONG).expect("the registry is there");
            let node = Node::new(bootstrap, of_server.clone());
            let endpoint = node.endpoint_with(kind, &of_server).expect("an endpoint");
            endpoint.serve(ECHO, move |request, reply| {
                counted.fetch_add(1, Ordering::Relaxed);
                reply.send(request.payload());
            });
            let _listener = endpoint.listen("orders").expect("a name");
            let found = endpoint.connect("orders").expect("a name");
            endpoint.run_while(|| found.servers().is_empty());
            ready.0.send(UDP.parse(&found.servers()[0].address).expect("an address")).expect("it waits");
            endpoint.run_while(|| !stopped.load(Ordering::Relaxed));
        });
        let address = ready.1.recv().expect("the server says where it is");
        let weather = Weather { lost: 0.05, doubled: 0.05, delay_max: Duration::from_millis(2) };
        let relay = Relay::start(address, weather, seed);
        let node = Node::new(Bootstrap::open(&place, LONG).expect("it is there"), settings.clone());
        let client = node.endpoint_with(kind, &settings).expect("an endpoint");
        let target = format!("{kind}://{}", relay.address);
        let orders = client.connect(&target).expect("an address");
        let moved_before = sum_of("", "moved");
        let mut calls = 0;
        for round in 0..3 {
            for bytes in [0, 30, 1400, 20_000, 200_000] {
                let payload: Vec<u8> = (0..bytes).map(|byte| (byte * 7 + round) as u8).collect();
                let answer = orders.call(ECHO, &payload).within(LONG).wait();
                let answer = answer.unwrap_or_else(|error| panic!("over {kind}, {bytes} bytes: {error}"));
                assert!(answer[..] == payload, "over {kind}: {bytes} bytes were altered");
                calls += 1;
            }
            relay.moves.fetch_add(1, Ordering::Relaxed);
        }
        assert_eq!(ran.load(Ordering::Relaxed), calls, "over {kind}: each runs once");
        assert!(sum_of("", "moved") > moved_before, "over {kind}: the session goes on from another port");
        stop.store(true, Ordering::Relaxed);
        server.join().expect("the server does not panic");
    }
}
