//! What quiet sessions take of shared memory: their pages are counted, as the kernel has them.
//!
//! All ends are in this process, so that each ring is mapped twice, by its writer and by its reader. Its
//! pages are those of the mapping that has touched more of them.

mod common;

use std::collections::BTreeMap;
use std::fs::read_to_string;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::{LONG, pattern, settings};
use farcall::{Endpoint, Event, Node, Peer, Service, Tag};

const SESSIONS: usize = 40;
const ECHO: Service = Service(1);
const TAG: Tag = Tag(7);
const MESSAGES: usize = 300;

/// From one look at quiet sessions to the next, in the endpoints of this test.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Polls of an endpoint that finds nothing, in which its clock is read several times, and all of its sessions
/// are looked at if that is due.
const POLLS_OF_A_LOOK: usize = 3000;

/// The most bytes of a quiet session, both directions together.
const QUIET_BYTES_MAX: usize = 64 << 10;

/// Bytes of each ring that are in memory, by the number of its file.
fn rings() -> BTreeMap<u64, usize> {
    let smaps = read_to_string("/proc/self/smaps").expect("there is a /proc");
    let (mut rings, mut ring) = (BTreeMap::new(), None);
    for line in smaps.lines() {
        let mut words = line.split_ascii_whitespace();
        match words.next() {
            Some("Rss:") => {
                let kilobytes: usize = words.next().and_then(|word| word.parse().ok()).expect("a number");
                if let Some(ring) = ring {
                    let bytes = rings.entry(ring).or_insert(0);
                    *bytes = (kilobytes << 10).max(*bytes);
                }
            }
            Some(range) if range.contains('-') => {
                let inode = words.nth(3).and_then(|word| word.parse().ok()).expect("a number");
                ring = line.contains("/memfd:farcall-ring").then_some(inode);
            }
            _ => {}
        }
    }
    rings
}

/// A server, and endpoints with a session to it each.
struct Cluster {
    server: Endpoint,
    clients: Vec<(Endpoint, Peer)>,
    _node: Node,
}

impl Cluster {
    fn new() -> Self {
        let node = Node::serving_names("127.0.0.1:0").expect("a port of loopback");
        let settings = settings(&["shm.block_bytes=1M", "ring.rest_interval=1s"]);
        let endpoint = || node.endpoint_with("ring+shm".parse().expect("a transport"), &settings);
        let server = endpoint().expect("an endpoint");
        server.serve(ECHO, |request, reply| reply.send(request.payload()));
        let _name = Box::leak(Box::new(server.listen("orders").expect("a name")));
        let mut clients = Vec::new();
        for _ in 0..SESSIONS {
            let client = endpoint().expect("an endpoint");
            let connection = client.connect("orders").expect("a name");
            let begun = Instant::now();
            let peer = loop {
                if let Ok(peer) = connection.peer() {
                    break peer;
                }
                assert!(begun.elapsed() < LONG, "no server");
                client.poll_once();
                server.poll_once();
            };
            clients.push((client, peer));
        }
        Self { server, clients, _node: node }
    }

    /// This many calls of this many bytes over each session, at most `window` at a time.
    fn call(&self, calls: usize, bytes: usize, window: usize) {
        // Each in flight has its own bytes.
        let payloads: Vec<_> = (0..=window as u64).map(|number| pattern(number, bytes)).collect();
        let payload = |number: u64| &payloads[number as usize % payloads.len()][..];
        for (client, peer) in &self.clients {
            let (mut begun, mut ended) = (0, 0);
            while ended < calls {
                while begun < calls && begun - ended < window {
                    let number = begun as u64;
                    client.call(*peer, ECHO, payload(number)).post(number).expect("room for it");
                    begun += 1;
                }
                self.server.poll_once();
                client.poll(|_, event| {
                    if let Event::Completed { token, outcome } = event {
                        let answer = outcome.as_ref().expect("an answer");
                        assert!(answer[..] == *payload(token), "its own bytes come back");
                        ended += 1;
                    }
                });
            }
        }
    }

    /// Rests until every session was looked at since this began: a look is due after its interval at the
    /// latest, and is done by one of the polls that follow, however long they take.
    fn rest_for_a_look(&self) {
        let begun = Instant::now();
        while begun.elapsed() < LOOK_EVERY {
            self.poll_all();
        }
        (0..POLLS_OF_A_LOOK).for_each(|_| self.poll_all());
    }

    fn poll_all(&self) {
        self.server.poll_once();
        self.clients.iter().for_each(|(client, _)| _ = client.poll_once());
    }

    /// Polls all, with nothing to do, until `done`.
    fn rest_until(&self, what: &str, done: impl Fn() -> bool) {
        let begun = Instant::now();
        while !done() {
            assert!(begun.elapsed() < LONG, "{what}: {}", summary());
            (0..300).for_each(|_| self.poll_all());
        }
    }
}

fn summary() -> String {
    let rings = rings();
    let (all, most) = (rings.values().sum::<usize>(), rings.values().max().copied().unwrap_or(0));
    format!("{} rings, {} bytes each, {most} at most", rings.len(), all / rings.len().max(1))
}

/// Whether every ring takes no more than its half of what a quiet session may.
fn are_quiet() -> bool {
    let rings = rings();
    rings.len() == 2 * SESSIONS && rings.values().all(|&bytes| bytes <= QUIET_BYTES_MAX / 2)
}

#[test]
fn quiet_sessions_take_64_kib_and_loaded_ones_more_until_they_are_quiet_again() {
    let cluster = Cluster::new();
    cluster.call(1, 100, 1);
    println!("after the hello: {}", summary());
    assert!(are_quiet(), "after the hello: {}", summary());

    // Few calls now and then, more than a lap of each ring in all.
    for _ in 0..4 {
        cluster.call(50, 100, 1);
        cluster.rest_for_a_look();
    }
    println!("after calls now and then: {}", summary());
    assert!(are_quiet(), "calls now and then: {}", summary());

    cluster.call(3000, 1000, 30);
    let loaded = summary();
    println!("loaded by calls: {loaded}");
    assert!(!are_quiet(), "they grow under load: {loaded}");
    cluster.rest_until("calls are over", are_quiet);
    println!("quiet again: {}", summary());

    // A stream in one direction, of which nothing is said to the sender but what it must know.
    let received = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&received);
    cluster.server.on_message(move |_, _| _ = counted.fetch_add(1, Ordering::Relaxed));
    for (number, (client, peer)) in cluster.clients.iter().enumerate() {
        for _ in 0..MESSAGES {
            client.send(*peer, TAG, &[7; 1000][..]).post(0).expect("room for it");
        }
        while received.load(Ordering::Relaxed) < (number + 1) * MESSAGES {
            client.poll_once();
            cluster.server.poll_once();
        }
    }
    println!("loaded by messages: {}", summary());
    assert!(!are_quiet(), "they grow under load: {}", summary());
    cluster.rest_until("messages are over", are_quiet);
    println!("quiet again: {}", summary());
    cluster.call(500, 3000, 10);
    cluster.call(10, 16 << 10, 10);
    cluster.rest_until("and again", are_quiet);
}
