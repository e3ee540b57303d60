//! What strangers and hostile peers do to an endpoint, while an honest peer is served.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use farcall_base::Address;
use farcall_driver::Destination;
use farcall_tcp::{ListenError, Tcp, TcpConfig};
use farcall_transport::{Arrival, Library, Outgoing, Payload};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How long a case waits for what must happen before it fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// What each side of a connection sends first.
const PREAMBLE: &[u8] = b"farcall\x01";

/// An endpoint that answers what it gets with the same, and its place.
struct Server {
    tcp: Tcp,
    place: SocketAddr,
    /// Those who introduced themselves, in their order.
    guests: VecDeque<Destination>,
    lost: Vec<Destination>,
}

impl Server {
    fn new(config: TcpConfig) -> Self {
        let tcp = Tcp::listen(config).expect("a free port");
        let place = place_of(&tcp.address());
        Self { tcp, place, guests: VecDeque::new(), lost: Vec::new() }
    }

    fn turn(&mut self) {
        self.tcp.progress();
        while let Some(arrival) = self.tcp.next_arrival() {
            let to = self.tcp.answer_to(&arrival, &self.tcp.address(), false).expect("it is there");
            if !self.guests.contains(&to) {
                self.guests.push_back(to);
            }
            let (head, payload) = (arrival.head().to_vec(), arrival.payload().as_slice().to_vec());
            self.tcp.send(to, &head, Outgoing::Slice(&payload));
            self.tcp.release(arrival);
        }
        while let Some(lost) = self.tcp.next_loss() {
            self.lost.push(lost);
            self.tcp.forget(lost);
        }
    }

    /// Works until that holds.
    fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds(self) {
            assert!(Instant::now() < deadline, "{what} within {PATIENCE:?}");
            self.turn();
            std::thread::yield_now();
        }
    }

    /// A peer of a moment ago is served.
    fn serves(&mut self, honest: &mut Honest) {
        honest.tcp.send(honest.way, b"head", Outgoing::Slice(b"are you there?"));
        self.until("an honest peer is served", |_| {
            honest.tcp.progress();
            let Some(arrival) = honest.tcp.next_arrival() else { return false };
            assert_eq!(arrival.payload().as_slice(), b"are you there?");
            honest.tcp.release(arrival);
            true
        });
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.place).expect("somebody listens");
        stream.set_nonblocking(true).expect("it can be polled");
        stream
    }

    /// Works until the endpoint has closed a connection.
    fn closes(&mut self, stream: &mut TcpStream) {
        self.until("the connection is closed", |_| {
            let mut bytes = [0; 1 << 16];
            match stream.read(&mut bytes) {
                Ok(0) => true,
                Ok(_) => false,
                Err(error) => error.kind() != ErrorKind::WouldBlock,
            }
        });
    }
}

/// A peer that keeps to the rules.
struct Honest {
    tcp: Tcp,
    way: Destination,
}

impl Honest {
    fn of(server: &Server) -> Self {
        let mut tcp = Tcp::listen(config()).expect("a free port");
        let way = tcp.resolve(&server.tcp.address()).expect("its address");
        Self { tcp, way }
    }
}

fn config() -> TcpConfig {
    TcpConfig { payload_bytes_max: 1 << 20, ..TcpConfig::default() }
}

fn place_of(address: &Address) -> SocketAddr {
    let bytes = address.as_bytes().strip_prefix(b"tcp4").expect("it is of IPv4");
    let (ip, port) = bytes.split_first_chunk::<4>().expect("an IP address");
    SocketAddr::from((*ip, u16::from_be_bytes(port.try_into().expect("a port"))))
}

fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32 | u32::from(kind) << 24).to_le_bytes()[..], body].concat()
}

fn whole(head: &[u8], payload: &[u8]) -> Vec<u8> {
    frame(1, &[&[head.len() as u8], head, payload].concat())
}

fn long(stream: u8, bytes: u32) -> Vec<u8> {
    frame(2, &[&[stream][..], &bytes.to_le_bytes(), b"head"].concat())
}

fn piece(stream: u8, bytes: &[u8]) -> Vec<u8> {
    frame(3, &[&[stream], bytes].concat())
}

#[test]
fn a_stranger_that_sends_much_behind_its_first_message_and_resets_is_gone() {
    let mut server = Server::new(config());
    let mut honest = Honest::of(&server);
    server.serves(&mut honest);
    let connected = server.tcp.connections();
    for junk in [0, 1, 16_454, 60_000, 65_000] {
        let mut stream = server.connect();
        let sent = [PREAMBLE, &whole(b"head", b"hello")[..], &vec![7; junk][..]].concat();
        stream.write_all(&sent).expect("the kernel has room");
        // Taken, and of no known session: nobody answers it.
        let deadline = Instant::now() + PATIENCE;
        let arrival = loop {
            assert!(Instant::now() < deadline, "the message arrives within {PATIENCE:?}");
            server.tcp.progress();
            if let Some(arrival) = server.tcp.next_arrival() {
                break arrival;
            }
        };
        server.tcp.release(arrival);
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).expect("it is open");
        drop(stream);
        server.until("the connection is forgotten", |server| server.tcp.connections() == connected);
        server.serves(&mut honest);
    }
}

#[test]
fn whoever_breaks_the_rules_loses_its_connection_and_nobody_else_does() {
    let mut server = Server::new(config());
    let mut honest = Honest::of(&server);
    server.serves(&mut honest);
    let hello = || whole(b"head", b"hello");
    let attacks: Vec<(&str, Vec<Vec<u8>>)> = vec![
        ("a frame of no kind", vec![hello(), frame(9, b"x")]),
        ("a frame without bytes", vec![hello(), frame(1, b"")]),
        ("a frame that is too long", vec![hello(), frame(1, &[0; 20_000])]),
        ("a message that ends within its head", vec![hello(), frame(1, &[10, 1, 2])]),
        ("a head that is too long", vec![hello(), whole(&[1; 65], b"")]),
        ("a message over the limit", vec![hello(), long(0, (1 << 20) + 1)]),
        ("a long message of no bytes", vec![hello(), long(0, 0)]),
        ("a stream that is taken", vec![hello(), long(0, 100), long(0, 100)]),
        ("too many streams", vec![hello(), (0..17).flat_map(|stream| long(stream, 100)).collect()]),
        ("a piece of nothing", vec![hello(), piece(3, b"x")]),
        ("a piece beyond the end", vec![hello(), long(0, 10), piece(0, &[1; 11])]),
        ("a long introduction", vec![long(0, 100_000)]),
    ];
    for (number, (what, frames)) in attacks.iter().enumerate() {
        let mut hostile = server.connect();
        hostile.write_all(&[PREAMBLE.to_vec(), frames.concat()].concat()).expect("it fits the buffer");
        server.closes(&mut hostile);
        assert_eq!(server.tcp.counters().malformed.get(), number as u64 + 1, "{what}");
        server.serves(&mut honest);
    }
    for other in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\x16\x03\x01\x02\0\x01", b"farcall\0"] {
        let mut stranger = server.connect();
        stranger.write_all(other).expect("it fits the buffer");
        server.closes(&mut stranger);
    }
    server.serves(&mut honest);
}

#[test]
fn bits_that_flip_end_a_connection_or_change_a_message_and_nothing_else() {
    let mut server = Server::new(config());
    let mut honest = Honest::of(&server);
    let good = [whole(b"head", b"hello"), long(0, 600), piece(0, &[7; 300]), piece(0, &[8; 300])].concat();
    for bit in (0..good.len() * 8).step_by(7) {
        let mut bytes = good.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let mut hostile = server.connect();
        hostile.write_all(&[PREAMBLE, &bytes].concat()).expect("it fits the buffer");
        (0..3).for_each(|_| server.turn());
        drop(hostile);
    }
    server.serves(&mut honest);
    server.until("all connections but one are over", |server| {
        let counters = server.tcp.counters();
        let strangers = counters.strangers_displaced.get() + counters.strangers_expired.get();
        counters.connections_accepted.get() > 1
            && server.tcp.connections() == 1
            && strangers < counters.connections_accepted.get()
    });
}

#[test]
fn connections_cut_at_any_byte_leave_nothing() {
    let mut server = Server::new(config());
    let mut honest = Honest::of(&server);
    let good = [PREAMBLE.to_vec(), whole(b"head", b"hello"), long(0, 60), piece(0, &[7; 60])].concat();
    for cut in 0..good.len() {
        let mut hostile = server.connect();
        hostile.write_all(&good[..cut]).expect("it fits the buffer");
    }
    server.serves(&mut honest);
    server.until("only the honest one is left", |server| server.tcp.connections() == 1);
    server.serves(&mut honest);
}

#[test]
fn a_client_that_never_reads_loses_its_connection_at_the_bound() {
    let bound = 8 << 20;
    let mut server = Server::new(TcpConfig { queue_bytes_max: bound, ..config() });
    let mut honest = Honest::of(&server);
    server.serves(&mut honest);
    let mut deaf = server.connect();
    deaf.write_all(&[PREAMBLE, &whole(b"head", b"hello")].concat()).expect("it fits the buffer");
    server.until("it is a guest", |server| server.guests.len() == 2);
    let to = server.guests[1];
    let payload = Payload::from(vec![1; 1 << 20]);
    let mut sent = 0;
    while server.lost.is_empty() {
        server.tcp.send(to, b"head", Outgoing::Shared(payload.clone()));
        sent += payload.len();
        server.turn();
        // The kernel keeps some too; no system gives a connection as much by itself.
        assert!(sent < bound + (256 << 20), "{sent} bytes were taken for a peer that does not read");
    }
    assert_eq!((server.lost[0], server.tcp.counters().slow_readers.get()), (to, 1));
    server.serves(&mut honest);
}

#[test]
fn who_introduces_itself_byte_by_byte_is_cut_off_in_time() {
    let patience = Duration::from_millis(300);
    let mut server = Server::new(TcpConfig { introduction_timeout: patience, ..config() });
    let mut honest = Honest::of(&server);
    server.serves(&mut honest);
    let mut slow: Vec<TcpStream> = (0..20).map(|_| server.connect()).collect();
    let mut bytes = [PREAMBLE, &whole(b"head", &[1; 4000])].concat().into_iter();
    server.until("all of them are cut off", |server| {
        let byte = [bytes.next().expect("there are more bytes than it may send")];
        for stream in &mut slow {
            // Some are closed by now.
            let _ = stream.write_all(&byte);
        }
        std::thread::sleep(Duration::from_millis(1));
        server.tcp.counters().strangers_expired.get() == 20
    });
    assert_eq!(server.tcp.connections(), 1);
    server.serves(&mut honest);
}

#[test]
fn five_thousand_half_open_connections_keep_nobody_out() {
    const FLOOD: usize = 5000;
    let limit = getrlimit(Resource::Nofile);
    let wanted = Rlimit { current: limit.maximum.or(Some(1 << 20)), ..limit };
    let _ = setrlimit(Resource::Nofile, wanted);
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) as usize;
    let flood = FLOOD.min(descriptors.saturating_sub(1000));
    assert!(flood > 0, "a process has more than a thousand descriptors");
    let mut server = Server::new(config());
    let mut held = Vec::new();
    for number in 0..flood {
        let mut stream = server.connect();
        if number % 2 == 0 {
            stream.write_all(&PREAMBLE[..5]).expect("it fits the buffer");
        }
        held.push(stream);
        server.turn();
        if number % 500 == 499 {
            server.serves(&mut Honest::of(&server));
        }
    }
    let accepted = (flood + flood / 500) as u64;
    server.until("all are accepted", |server| server.tcp.counters().connections_accepted.get() == accepted);
    assert!(server.tcp.connections() <= TcpConfig::default().strangers_per_host + flood / 500);
    assert!(server.tcp.counters().strangers_displaced.get() as usize >= flood - 256);
    server.serves(&mut Honest::of(&server));
}

#[test]
fn short_messages_overtake_long_ones() {
    let mut server = Server::new(config());
    let [mut from, mut to] = [(); 2].map(|()| Tcp::listen(config()).expect("a free port"));
    let way = from.resolve(&to.address()).expect("its address");
    from.send(way, b"hello", Outgoing::Slice(&[]));
    let payload = Payload::from(vec![1; 1 << 20]);
    for _ in 0..64 {
        from.send(way, b"long", Outgoing::Shared(payload.clone()));
    }
    // The kernel takes what it has room for.
    from.progress();
    from.send(way, b"short", Outgoing::Slice(b"quick"));
    let (mut longs, mut behind) = (0, None);
    server.until("all have come", |_| {
        from.progress();
        to.progress();
        while let Some(arrival) = to.next_arrival() {
            match arrival.head() {
                b"hello" => _ = to.answer_to(&arrival, &from.address(), false),
                b"long" => longs += 1,
                _ => behind = Some(longs),
            }
            to.release(arrival);
        }
        longs == 64 && behind.is_some()
    });
    assert!(behind < Some(64), "the short message came last");
}

#[test]
fn the_last_word_overtakes_nothing() {
    let mut server = Server::new(config());
    let [mut from, mut to] = [(); 2].map(|()| Tcp::listen(config()).expect("a free port"));
    let way = from.resolve(&to.address()).expect("its address");
    from.send(way, b"hello", Outgoing::Slice(&[]));
    for _ in 0..64 {
        from.send(way, b"long", Outgoing::Shared(Payload::from(vec![1; 1 << 20])));
    }
    from.send_behind(way, b"last", Outgoing::Slice(b"good-bye"));
    let mut heads = Vec::new();
    server.until("all have come", |_| {
        from.progress();
        to.progress();
        while let Some(arrival) = to.next_arrival() {
            if arrival.head() == b"hello" {
                to.answer_to(&arrival, &from.address(), false).expect("its sender is there");
            }
            heads.push(arrival.head().to_vec());
            to.release(arrival);
        }
        heads.len() == 66
    });
    assert_eq!(heads.pop(), Some(b"last".to_vec()));
}

#[test]
fn where_nobody_listens_the_kernel_says_so_at_once() {
    let place = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let address = farcall_tcp::address_of(place.expect("a free port"));
    let mut tcp = Tcp::listen(config()).expect("a free port");
    let to = tcp.resolve(&address).expect("it is an address");
    tcp.send(to, b"head", Outgoing::Slice(b"anybody?"));
    let deadline = Instant::now() + PATIENCE;
    loop {
        tcp.progress();
        if let Some(lost) = tcp.next_loss() {
            break assert_eq!(lost, to);
        }
        assert!(Instant::now() < deadline, "nobody said that nobody is there");
    }
}

#[test]
fn places_where_nobody_can_listen_are_refused_with_the_reason() {
    let any = TcpConfig { bind: ([0, 0, 0, 0], 0).into(), ..config() };
    assert!(matches!(Tcp::listen(any), Err(ListenError::Unspecified { .. })));
    let first = Tcp::listen(config()).expect("a free port");
    let place = place_of(&first.address());
    let Err(why) = Tcp::listen(TcpConfig { bind: place, ..config() }) else {
        panic!("two endpoints listen at {place}");
    };
    assert!(
        why.to_string().starts_with(&format!("cannot listen at {place}: Address already in use")),
        "{why}"
    );
}
