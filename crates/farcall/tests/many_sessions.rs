//! One server and ten thousand sessions over UDP: what they take, and what the quiet ones cost.
//!
//! All of them are of one client, which speaks the protocol by itself, over one socket. Its memory counts
//! too.

mod common;

use std::net::UdpSocket;
use std::time::{Duration, Instant as WallTime};

use common::{LONG, settings};
use farcall::bootstrap::{Bootstrap, HostPort, Rendezvous};
use farcall::{Endpoint, Node, Service, TransportKind};
use farcall_base::{Entropy, Identity, Instant, NO_RANK, SocketFormat};
use farcall_protocol::basic::{Basic, BasicConfig};
use farcall_protocol::calls::{Delivery, Payload};
use farcall_protocol::session::{PeerAddress, SessionEvent, SessionId};
use farcall_protocol::wire::Head;

const SESSIONS: u16 = 10_000;
/// Of both ends together, and of all that a process needs besides.
const MEMORY_BYTES_MAX: u64 = 200 << 20;
const ECHO: Service = Service(1);
const UDP: SocketFormat = SocketFormat { driver: "udp", tag_v4: b"udp4", tag_v6: b"udp6" };
/// So that the buffer of the client's one socket does not overflow: what is lost comes again, only later.
const OPENING_MAX: usize = 100;
/// For the same reason: ten thousand clients would have as many sockets for the signs of life.
const SILENCE_MAX: Duration = Duration::from_secs(40);

struct Client {
    calls: Basic<Vec<u8>>,
    socket: UdpSocket,
    begun: WallTime,
    up: Vec<SessionId>,
    answered: usize,
}

impl Client {
    fn new(socket: UdpSocket) -> Self {
        let mut config = BasicConfig::default();
        config.session.sessions_max = SESSIONS;
        config.session.peer_timeout = SILENCE_MAX;
        let identity = Identity { incarnation: 7, rank: NO_RANK, endpoint: 0 };
        let calls = Basic::new(config, identity, Entropy::repeatable(7)).expect("valid");
        Self { calls, socket, begun: WallTime::now(), up: Vec::new(), answered: 0 }
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(1 + self.begun.elapsed().as_nanos() as u64)
    }

    /// Takes in what has come, and sends what there is to send.
    fn turn(&mut self) {
        let now = self.now();
        let mut packet = [0; 2048];
        while let Ok(bytes) = self.socket.recv(&mut packet) {
            let delivery = self.calls.handle(PeerAddress(1), &packet[..bytes], now);
            self.answered += usize::from(matches!(delivery, Some(Delivery::Response { .. })));
        }
        self.calls.handle_timeout(now);
        let mut head = Head::new();
        while let Some(packet) = self.calls.poll_transmit(now, &mut head) {
            let _lost = self.socket.send(&[packet.head, packet.payload].concat());
        }
        while self.calls.poll_address().is_some() {}
        while let Some(event) = self.calls.poll_event() {
            match event {
                SessionEvent::Up { id, .. } => self.up.push(id),
                SessionEvent::Moved { .. } => {}
                SessionEvent::Down { reason, .. } => panic!("a session ended: {reason}"),
            }
        }
    }

    fn run(&mut self, server: &Endpoint, mut done: impl FnMut(&mut Self) -> bool) {
        let until = WallTime::now() + LONG;
        while !done(self) {
            assert!(WallTime::now() < until, "{} are up, {} answered", self.up.len(), self.answered);
            self.turn();
            server.poll_once();
        }
    }
}

/// What this process has in memory, in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("there is a /proc");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a process has memory");
    let kilobytes = line.trim().strip_suffix(" kB").expect("its unit");
    kilobytes.trim().parse::<u64>().expect("a number") << 10
}

#[test]
fn ten_thousand_sessions_of_one_server_take_little_memory_and_quiet_ones_no_looks() {
    let registry = Rendezvous::bind_open("127.0.0.1:0").expect("a free port");
    let place = HostPort::from(registry.address());
    let settings =
        settings(&["peers.sessions_max=12000", "peers.sessions_per_host=12000", "endpoint.peer_timeout=40s"]);
    let node = Node::new(Bootstrap::open(&place, LONG).expect("the registry is there"), settings.clone());
    let server = node.endpoint_with(TransportKind::BASIC_UDP, &settings).expect("an endpoint");
    server.serve(ECHO, |request, reply| reply.send(request.payload()));
    let _listener = server.listen("orders").expect("a name");
    let found = server.connect("orders").expect("a name");
    server.run_while(|| found.servers().is_empty());
    let address = UDP.parse(&found.servers()[0].address).expect("an address of UDP");
    let socket = UdpSocket::bind((address.ip(), 0)).expect("a free port");
    socket.connect(address).expect("a local address");
    socket.set_nonblocking(true).expect("a socket");
    let mut client = Client::new(socket);
    let before = resident();

    let mut asked = 0;
    client.run(&server, |client| {
        while asked < usize::from(SESSIONS) && asked - client.up.len() < OPENING_MAX {
            client.calls.connect(PeerAddress(1), client.now()).expect("there is room");
            asked += 1;
        }
        client.up.len() == usize::from(SESSIONS)
    });
    for turn in 0..usize::from(SESSIONS) {
        let session = client.up[turn];
        client.calls.call(session, 1, ECHO.0, Payload::Slice(&[5; 100])).expect("a free slot");
        client.run(&server, |client| client.answered + OPENING_MAX > turn);
    }
    client.run(&server, |client| client.answered == usize::from(SESSIONS));
    let taken = resident() - before;
    println!("{SESSIONS} sessions: {taken} bytes, both ends together");
    assert!(taken < MEMORY_BYTES_MAX, "{taken} bytes");

    // A second of them all: each is asked for a sign of life now and then, and that is all.
    let before = *client.calls.counters();
    let until = WallTime::now() + Duration::from_secs(1);
    client.run(&server, |_| WallTime::now() >= until);
    let after = client.calls.counters();
    let looked_at = after.slots_ticked - before.slots_ticked;
    println!("{looked_at} slots were looked at in a quiet second");
    assert!(looked_at <= u64::from(SESSIONS), "{looked_at} slots of quiet sessions were looked at");
}
