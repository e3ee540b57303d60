//! What strangers send, against a server over UDP: an honest client is served, and what the server holds
//! for its peers stays within the bound that it was configured with.
//!
//! The sources are addresses of loopback (127.0.0.0/8 has sixteen million), each a host by itself. The
//! times of the honest calls are printed and not judged; `scripts/floods` shows them with optimisation,
//! beside those without a flood, and beside the *control*: the same packets to a socket that nobody reads.
//! What strangers take of the cores that they share with the server is in both; the difference is the
//! server's.

mod common;

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use common::counters::sum_of;
use common::{LONG, settings};
use farcall::bootstrap::{Bootstrap, HostPort, Rendezvous};
use farcall::parameters::Settings;
use farcall::{Endpoint, Node, Peer, Service, TransportKind};
use farcall_base::{Identity, Random};
use farcall_protocol::wire::{
    CallKey, Cookie, Flags, Head, Header, Offer, OfferPacket, Protocol, SessionPacket, WireSession,
    put_resend, put_whole,
};

const ECHO: Service = Service(3);
/// Answers as many bytes as the request asks for.
const ANSWER: Service = Service(4);
/// The service that carries tagged messages.
const MESSAGES: u16 = u16::MAX;

/// What the server may hold for all peers; of one it holds a MiB.
const BYTES: u64 = 32 << 20;
/// The longest result.
const ANSWER_BYTES: usize = 8 << 10;

/// A server and a client whose directory names it.
struct Site {
    server: SocketAddr,
    client: Endpoint,
    peer: Peer,
    label: String,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    _node: Node,
    _rendezvous: Rendezvous,
}

impl Site {
    fn new(kind: TransportKind, assignments: &[&str]) -> Self {
        let bounds = [
            "peers.session_bytes=1M",
            "peers.bytes=32M",
            "basic.message_bytes_max=256K",
            "homa.message_bytes_max=256K",
        ];
        let settings = settings(&[&bounds, assignments].concat());
        let rendezvous = Rendezvous::bind("127.0.0.1:0", 2).expect("a rendezvous on loopback");
        let address = HostPort::from(rendezvous.address());
        let stop = Arc::new(AtomicBool::new(false));
        let (bound, ports) = std::sync::mpsc::channel();
        let (stopped, of_server, at) = (Arc::clone(&stop), settings.clone(), address.clone());
        let thread = std::thread::spawn(move || serve(kind, &of_server, &at, &bound, &stopped));
        let server = ports.recv_timeout(LONG).expect("the server is there");
        let node = Node::new(Bootstrap::join(&address, 1, 2, LONG).expect("rank 1 joins"), settings.clone());
        let client = node.endpoint_with(kind, &settings).expect("the client's endpoint");
        let peer = client.peer(0).expect("the server is known");
        let label = kind.name().to_owned();
        Self { server, client, peer, label, stop, thread: Some(thread), _node: node, _rendezvous: rendezvous }
    }

    /// The times of honest calls, of which some come through sessions of their own, sorted.
    fn honest_calls(&mut self, calls: u32) -> Vec<Duration> {
        let mut times = Vec::new();
        for number in 0..calls {
            if number % 50 == 49 {
                let former = self.peer;
                self.client.close(former);
                while self.peer == former {
                    self.client.poll(|_, _| {});
                    self.peer = self.client.peer(0).expect("the server is known");
                }
                self.client.wait_for(self.peer).expect("an honest client can connect");
            }
            let payload = number.to_le_bytes();
            let begun = Instant::now();
            let answer = self.client.call(self.peer, ECHO, &payload[..]).wait();
            times.push(begun.elapsed());
            assert_eq!(&answer.expect("an honest client is served")[..], payload);
        }
        times.sort();
        times
    }

    /// The sessions of former floods are dead, and what was kept for them is gone.
    fn wait_for_the_end_of_strangers(&mut self) {
        let begun = Instant::now();
        // Those of the client, at both ends.
        while self.counted("established") > 2 || self.counted("half_open") > 0 {
            self.client.poll(|_, _| {});
            assert!(begun.elapsed() < LONG, "sessions of strangers do not end");
        }
    }

    fn counted(&self, name: &str) -> u64 {
        sum_of(&self.label, name)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let outcome = thread.join();
            assert!(outcome.is_ok() || std::thread::panicking(), "the server thread panicked");
        }
    }
}

fn serve(
    kind: TransportKind,
    settings: &Settings,
    rendezvous: &HostPort,
    bound: &std::sync::mpsc::Sender<SocketAddr>,
    stopped: &AtomicBool,
) {
    let node = Node::new(Bootstrap::join(rendezvous, 0, 2, LONG).expect("rank 0 joins"), settings.clone());
    let before = udp_ports();
    let endpoint = node.endpoint_with(kind, settings).expect("the server's endpoint");
    let port = udp_ports().into_iter().find(|port| !before.contains(port)).expect("it receives somewhere");
    endpoint.serve(ECHO, |request, reply| reply.send(request.payload()));
    endpoint.serve(ANSWER, |request, reply| {
        let asked = request.payload().first_chunk::<4>().copied().unwrap_or_default();
        reply.send(vec![7; u32::from_le_bytes(asked) as usize % ANSWER_BYTES]);
    });
    bound.send(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).expect("the test waits");
    endpoint.run_while(|| !stopped.load(Ordering::Relaxed));
}

/// The ports of the UDP sockets of this process.
fn udp_ports() -> Vec<u16> {
    let links = std::fs::read_dir("/proc/self/fd").expect("there is /proc");
    let name = |entry: std::io::Result<std::fs::DirEntry>| std::fs::read_link(entry.ok()?.path()).ok();
    let own: Vec<String> = links.filter_map(name).map(|link| link.to_string_lossy().into_owned()).collect();
    let sockets = std::fs::read_to_string("/proc/self/net/udp").expect("there is /proc");
    let port = |line: &str| {
        let mut fields = line.split_whitespace();
        let local = fields.nth(1)?;
        let inode = fields.nth(7)?;
        own.contains(&format!("socket:[{inode}]"))
            .then(|| u16::from_str_radix(local.split_once(':')?.1, 16).ok())?
    };
    sockets.lines().skip(1).filter_map(port).collect()
}

/// Where strangers send.
#[derive(Clone, Copy)]
struct Target {
    at: SocketAddr,
    /// Nobody answers in the control.
    answers: bool,
}

/// A stranger with an address of its own.
struct Stranger {
    socket: UdpSocket,
    answers: bool,
    protocol: Protocol,
    random: Random,
}

impl Stranger {
    /// At 127.`network`.x.y, where the last two follow from `number`.
    fn new(target: Target, protocol: Protocol, network: u8, number: u16) -> Self {
        let [high, low] = (number + 1).to_be_bytes();
        let socket = UdpSocket::bind((Ipv4Addr::new(127, network, high, low), 0)).expect("loopback is wide");
        socket.connect(target.at).expect("an address");
        socket.set_read_timeout(Some(Duration::from_millis(20))).expect("a timeout");
        let random = Random::new(u64::from(network) << 16 | u64::from(number));
        Self { socket, answers: target.answers, protocol, random }
    }

    fn send(&self, head: &Head, payload: &[u8]) -> usize {
        let packet = [head.as_bytes(), payload].concat();
        // What the socket does not take is lost, as on a network.
        self.socket.send(&packet).unwrap_or(0)
    }

    /// An OPEN of which nothing is ever heard again; gives its number.
    fn open(&mut self, cookie: Cookie, number: WireSession) {
        let offer = Offer {
            message_bytes_max: 256 << 10,
            mtu_bytes: 1400,
            unscheduled_bytes: 16 << 10,
            calls_max: 4096,
            checksum: true,
        };
        // It calls itself the honest client, which is rank 1, in a life of its own.
        let sender =
            Identity { incarnation: number.0 | 1, rank: 1, endpoint: number.0 as u32 & 0x7fff | 0x8000 };
        let (protocol, reply_session) = (self.protocol as u8, number);
        let open = OfferPacket { protocol, reply_session, sender, offer, life: None };
        let mut head = Head::new();
        SessionPacket::Open(open, cookie).put(WireSession::NONE, &mut head);
        self.send(&head, &[]);
    }

    fn draw(&mut self) -> WireSession {
        WireSession(self.random.bits() | 1)
    }

    /// The number by which the server knows a session that it has agreed to; any number in the control.
    fn connect(&mut self) -> Option<WireSession> {
        let number = self.draw();
        if !self.answers {
            self.open(Cookie::NONE, number);
            return Some(number);
        }
        let (mut cookie, mut buffer) = (Cookie::NONE, [0; 2048]);
        for _ in 0..50 {
            self.open(cookie, number);
            let Ok(length) = self.socket.recv(&mut buffer) else { continue };
            let Ok(header) = Header::parse(&buffer[..length]) else { continue };
            match SessionPacket::parse(&header, &buffer[..length]) {
                Ok(SessionPacket::Retry(given)) => cookie = given,
                Ok(SessionPacket::Accept(accept)) => {
                    self.ping(accept.reply_session);
                    return Some(accept.reply_session);
                }
                _ => {}
            }
        }
        None
    }

    /// The same where there is room, however busy the machine is.
    fn connect_surely(&mut self) -> WireSession {
        let begun = Instant::now();
        loop {
            if let Some(session) = self.connect() {
                return session;
            }
            assert!(begun.elapsed() < LONG, "there is room");
        }
    }

    fn ping(&mut self, session: WireSession) {
        let mut head = Head::new();
        SessionPacket::Ping { number: self.random.bits() | 1 }.put(session, &mut head);
        self.send(&head, &[]);
    }

    /// A request in a slot, whose result it will not acknowledge; gives the bytes that were sent.
    fn request(&self, session: WireSession, slot: u16, sequence: u64, tag: u16, payload: &[u8]) -> usize {
        let mut head = Head::new();
        let flags = Flags::FROM_CALLER.with(Flags::CHECKSUM);
        put_whole(&mut head, flags, session, CallKey::new(slot, sequence), tag);
        head.seal(payload);
        self.send(&head, payload)
    }

    /// Asks for all of a result again, by ranges that overlap; gives the bytes that were sent.
    fn ask_again(&self, session: WireSession, slot: u16, sequence: u64) -> usize {
        let mut head = Head::new();
        let ranges = (0..16).rev().map(|piece| (1368 * piece, u32::MAX));
        let flags = Flags::FROM_CALLER.with(Flags::CHECKSUM);
        put_resend(&mut head, flags, session, CallKey::new(slot, sequence), ranges);
        head.seal(&[]);
        self.send(&head, &[])
    }

    /// Takes in what has come: bytes.
    fn receive_all(&self) -> usize {
        let mut buffer = [0; 2048];
        self.socket.set_nonblocking(true).expect("a socket");
        let bytes = core::iter::from_fn(|| self.socket.recv(&mut buffer).ok()).sum();
        self.socket.set_nonblocking(false).expect("a socket");
        bytes
    }
}

/// Strangers at work on a thread of their own.
struct Flood {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

/// Packets that a flood sends at least.
const PACKETS_MIN: u64 = 6000;

/// Packets of a burst, between which the flood pauses: some 20,000 packets a second.
const BURST: u64 = 20;
const PAUSE: Duration = Duration::from_millis(1);

impl Flood {
    /// Has `step` send something, again and again.
    fn start(mut step: impl FnMut(u64) + Send + 'static) -> Self {
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, count) = (Arc::clone(&stop), Arc::clone(&sent));
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let first = count.fetch_add(BURST, Ordering::Relaxed);
                (first..first + BURST).for_each(&mut step);
                std::thread::sleep(PAUSE);
            }
        });
        Self { stop, sent, thread: Some(thread) }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            assert!(thread.join().is_ok() || std::thread::panicking(), "the flood panicked");
        }
    }
}

/// How many honest calls a figure is made of.
fn calls() -> u32 {
    std::env::var("FARCALL_TEST_FLOOD_CALLS").ok().and_then(|calls| calls.parse().ok()).unwrap_or(300)
}

fn percentile(times: &[Duration], permille: usize) -> Duration {
    times[(times.len() * permille / 1000).min(times.len() - 1)]
}

/// One flood at a time: all count in one process, and share its cores.
static TURN: Mutex<()> = Mutex::new(());

/// Calls with a flood, and as many without, before the next of both: what else the machine does changes.
const CALLS_PER_BLOCK: u32 = 500;

/// Honest calls without the flood, with it and with the control, over both protocols; then what the server
/// held at most.
fn under(what: &str, assignments: &[&str], flood: impl Fn(Target, Protocol) -> Flood, check: impl Fn(&Site)) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let sink = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let control = Target { at: sink.local_addr().expect("it is bound"), answers: false };
    for (kind, protocol) in
        [(TransportKind::BASIC_UDP, Protocol::Basic), (TransportKind::HOMA_UDP, Protocol::Homa)]
    {
        let mut site = Site::new(kind, assignments);
        site.honest_calls(50);
        let (mut quiet, mut flooded, mut controlled) = (Vec::new(), Vec::new(), Vec::new());
        let (mut sent, mut held) = (0, 0);
        let target = Target { at: site.server, answers: true };
        for _ in 0..calls().div_ceil(CALLS_PER_BLOCK) {
            site.wait_for_the_end_of_strangers();
            quiet.extend(site.honest_calls(calls().min(CALLS_PER_BLOCK)));
            calls_beside(&mut site, &flood(control, protocol), &mut controlled);
            let flood = flood(target, protocol);
            sent += calls_beside(&mut site, &flood, &mut flooded);
            held = held.max(site.counted("held_bytes"));
            check(&site);
        }
        let [flooded, controlled, quiet] = [flooded, controlled, quiet].map(|mut times| {
            times.sort();
            (percentile(&times, 500), percentile(&times, 990))
        });
        println!(
            "{kind}, {what}: p50 and p99 {flooded:?}, control {controlled:?}, without {quiet:?}; {sent} \
             packets; {held} bytes held, {} sessions",
            site.counted("established"),
        );
        assert!(held <= BYTES, "{held} bytes are held");
    }
}

/// The times of honest calls while a flood runs; how many packets it sent.
fn calls_beside(site: &mut Site, flood: &Flood, times: &mut Vec<Duration>) -> u64 {
    times.extend(site.honest_calls(calls().min(CALLS_PER_BLOCK)));
    while flood.sent.load(Ordering::Relaxed) < PACKETS_MIN {
        times.extend(site.honest_calls(100));
    }
    flood.sent.load(Ordering::Relaxed)
}

#[test]
fn opens_from_everywhere() {
    under(
        "OPEN",
        &[],
        |target, protocol| {
            let mut strangers: Vec<Stranger> =
                (0..200).map(|number| Stranger::new(target, protocol, 1, number)).collect();
            Flood::start(move |packet| {
                let stranger = &mut strangers[packet as usize % 200];
                let number = stranger.draw();
                stranger.open(Cookie::NONE, number);
            })
        },
        |site| assert!(site.counted("half_open") <= 1024),
    );
}

#[test]
fn sessions_of_one_host() {
    under(
        "sessions of one host",
        &["peers.sessions_max=64", "peers.sessions_per_host=16"],
        |target, protocol| {
            let mut stranger = Stranger::new(target, protocol, 2, 0);
            let mut sessions = Vec::new();
            Flood::start(move |packet| {
                if packet % 4 == 0 && sessions.len() < 32 && packet < 1000 {
                    sessions.extend(stranger.connect());
                } else if !sessions.is_empty() {
                    let session = sessions[packet as usize % sessions.len()];
                    stranger.ping(session);
                }
            })
        },
        // Those of the client are on another host of the two.
        |site| assert!(site.counted("established") <= 20, "{} sessions", site.counted("established")),
    );
}

#[test]
fn results_that_nobody_acknowledges() {
    under(
        "kept results",
        &[],
        |target, protocol| {
            let mut strangers: Vec<(Stranger, WireSession)> = (0..20)
                .map(|number| {
                    let mut stranger = Stranger::new(target, protocol, 3, number);
                    let session = stranger.connect_surely();
                    (stranger, session)
                })
                .collect();
            Flood::start(move |packet| {
                let (stranger, session) = &mut strangers[packet as usize % 20];
                let slot = (packet / 20 % 4000) as u16;
                stranger.request(
                    *session,
                    slot,
                    1 + packet / 80_000,
                    ANSWER.0,
                    &(ANSWER_BYTES as u32 - 1).to_le_bytes(),
                );
                if packet % 1000 < 20 {
                    stranger.ping(*session);
                }
            })
        },
        |site| assert!(site.counted("requests_refused") > 0, "the limit of a session was reached"),
    );
}

#[test]
fn questions_for_the_same_result() {
    let (asked, got) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (asking, getting) = (Arc::clone(&asked), Arc::clone(&got));
    under(
        "RESEND",
        &[],
        move |target, protocol| {
            let mut stranger = Stranger::new(target, protocol, 4, 0);
            let session = stranger.connect_surely();
            let (asked, got) = (Arc::clone(&asking), Arc::clone(&getting));
            stranger.request(session, 0, 1, ANSWER.0, &(ANSWER_BYTES as u32 - 1).to_le_bytes());
            Flood::start(move |packet| {
                stranger.ask_again(session, 0, 1);
                asked.fetch_add(ANSWER_BYTES as u64, Ordering::Relaxed);
                got.fetch_add(stranger.receive_all() as u64, Ordering::Relaxed);
                if packet % 1000 == 0 {
                    stranger.ping(session);
                }
            })
        },
        |_| {},
    );
    let (asked, got) = (asked.load(Ordering::Relaxed), got.load(Ordering::Relaxed));
    println!("{got} bytes came, {asked} were asked for");
    assert!(got <= asked * 6 / 5 + 4 * ANSWER_BYTES as u64, "{got} bytes came, {asked} were asked for");
}

#[test]
fn messages_that_nobody_receives() {
    under(
        "tags",
        &["endpoint.unexpected_bytes=64K"],
        |target, protocol| {
            let mut stranger = Stranger::new(target, protocol, 5, 0);
            let session = stranger.connect_surely();
            let mut number = 0_u32;
            Flood::start(move |packet| {
                let tag = stranger.random.bits() as u32;
                let trailer = (u64::from(number) << 32 | u64::from(tag)).to_le_bytes();
                stranger.request(
                    session,
                    (number % 4000) as u16,
                    1 + u64::from(number / 4000),
                    MESSAGES,
                    &trailer,
                );
                number += 1;
                if packet % 1000 == 0 {
                    stranger.ping(session);
                    stranger.receive_all();
                }
            })
        },
        |_| {},
    );
}

#[test]
fn messages_to_a_server_that_takes_none_end_the_session_of_their_sender() {
    under(
        "messages that are not taken",
        &["peers.messages=false"],
        |target, protocol| {
            let mut stranger = Stranger::new(target, protocol, 6, 0);
            let mut session = None;
            Flood::start(move |packet| match session.take() {
                None if packet % 100 == 0 => session = stranger.connect(),
                None => {}
                Some(open) => {
                    stranger.request(open, 0, 1, MESSAGES, &[0; 8]);
                }
            })
        },
        |site| assert!(site.counted("established") <= 8),
    );
}
