//! What keys cost: calls over UDP whose packets are sealed, beside the same without.
//!
//! One thread drives both ends, in alternating blocks, so that the figures are the processor time of both
//! sides together and do not depend on how the threads of a machine are scheduled; and the handshake by
//! itself: `cargo bench -p farcall-transport --bench sealed_echo`.

use farcall_base::{ClusterKey, Entropy, Identity, Principal};
use farcall_driver::CounterFile;
use farcall_driver::clock::Clock;
use farcall_protocol::basic::BasicPolicy;
use farcall_protocol::keys::Keyring;
use farcall_transport::{
    CallId, DownReason, KeySource, MatchedBatch, MessageBatch, MessageId, Outbox, PacketConfig,
    PacketTransport, RequestBatch, ResponseBatch, SendOutcome, Service, SessionId, Sink, Status, Submitted,
    Transport,
};
use farcall_udp::{UdpConfig, UdpDriver};

const BLOCKS: usize = 31;

/// Request and response in bytes, calls in flight, calls of a block.
const ROWS: [(usize, usize, usize, usize); 4] =
    [(30, 100, 1, 2000), (30, 100, 64, 6400), (1000, 1000, 1, 2000), (1 << 20, 1 << 20, 1, 4)];

struct OneKey;

impl KeySource for OneKey {
    fn keys(&mut self) -> Keyring {
        Keyring::new(vec![ClusterKey::new([7; 32])]).expect("it is one key")
    }

    fn changed(&mut self) -> Option<Keyring> {
        None
    }
}

type Udp = PacketTransport<UdpDriver, BasicPolicy>;

fn transport(rank: u32, sealed: bool) -> Udp {
    let driver = UdpDriver::bind(&UdpConfig::default()).expect("a socket on the loopback interface");
    let identity = Identity { incarnation: 1 + u64::from(rank), rank, endpoint: 0 };
    let (config, entropy) = (PacketConfig::default(), Entropy::repeatable(u64::from(rank)));
    let counters = CounterFile::process();
    let made = PacketTransport::new(driver, BasicPolicy, identity, entropy, &config, counters, "sealed");
    let made = made.expect("the default configuration is valid");
    if sealed { made.sealed_by(Box::new(OneKey), Entropy::repeatable(9)) } else { made }
}

/// Answers requests and counts what comes.
#[derive(Default)]
struct Echo {
    answer: Vec<u8>,
    responses: usize,
    sessions: usize,
}

impl Sink for Echo {
    fn requests(&mut self, outbox: &mut dyn Outbox, requests: &mut RequestBatch<'_>) {
        requests.for_each(|request, _| outbox.reply(request, Status::Ok, &self.answer));
    }

    fn responses(&mut self, _: &mut dyn Outbox, responses: &mut ResponseBatch<'_, '_>) {
        while responses.take().is_some() {
            self.responses += 1;
        }
    }

    fn received(&mut self, _: &mut MatchedBatch<'_, '_>) {}

    fn messages(&mut self, _: &mut dyn Outbox, _: &mut MessageBatch<'_>) {}

    fn sent(&mut self, _: &mut dyn Outbox, _: MessageId, _: SendOutcome) {}

    fn session_up(&mut self, _: &mut dyn Outbox, _: SessionId, _: Identity, _: &Principal) {
        self.sessions += 1;
    }

    fn session_down(&mut self, _: &mut dyn Outbox, session: SessionId, reason: &DownReason) {
        panic!("{session:?} ended: {reason}");
    }

    fn session_moved(&mut self, _: &mut dyn Outbox, session: SessionId) {
        panic!("{session:?} has one way only");
    }
}

struct Pair {
    ends: [Udp; 2],
    echoes: [Echo; 2],
    session: SessionId,
    clock: Clock,
}

impl Pair {
    fn new(sealed: bool) -> Self {
        let clock = Clock::new();
        let mut ends = [transport(0, sealed), transport(1, sealed)];
        let address = ends[1].address();
        let session = ends[0].connect(&address, None, clock.now()).expect("the address is one of UDP");
        let mut pair = Self { ends, echoes: Default::default(), session, clock };
        while pair.echoes.iter().any(|echo| echo.sessions == 0) {
            pair.turn();
        }
        pair
    }

    fn turn(&mut self) {
        for (end, echo) in self.ends.iter_mut().zip(&mut self.echoes) {
            end.poll(self.clock.now(), echo);
        }
    }

    /// Nanoseconds of a call.
    fn block(&mut self, (request, answer, in_flight, calls): (usize, usize, usize, usize)) -> f64 {
        let request = vec![1; request];
        self.echoes[1].answer.resize(answer, 2);
        let (started, before) = (self.clock.now(), self.echoes[0].responses);
        for round in 1..=calls / in_flight {
            for call in 0..in_flight {
                let made = self.ends[0].call(self.session, CallId(call as u32), Service(1), &request);
                assert_eq!(made, Submitted::Sent);
            }
            while self.echoes[0].responses < before + round * in_flight {
                self.turn();
            }
        }
        self.clock.now().since(started).as_nanos() as f64 / calls as f64
    }
}

fn median(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn compare(name: &str, mut plain: impl FnMut() -> f64, mut sealed: impl FnMut() -> f64) {
    let mut samples = [Vec::new(), Vec::new()];
    for _ in 0..BLOCKS {
        samples[0].push(plain());
        samples[1].push(sealed());
    }
    let [without, with] = samples.each_mut().map(|samples| median(samples));
    let ratio = with / without;
    let least = samples[1][0] / samples[0][0];
    println!("{name:32} {without:12.0} {with:12.0} {ratio:8.3} {least:8.3}");
}

fn main() {
    println!("{:32} {:>12} {:>12} {:>8} {:>8}", "ns, both sides", "without", "with", "medians", "least");
    let (mut plain, mut sealed) = (Pair::new(false), Pair::new(true));
    for row in ROWS {
        let (request, answer, in_flight, _) = row;
        let name = format!("{request} B, {answer} B, {in_flight} in flight");
        compare(&name, || plain.block(row), || sealed.block(row));
    }
    let open = |sealed| {
        let clock = Clock::new();
        let started = clock.now();
        drop(Pair::new(sealed));
        clock.now().since(started).as_nanos() as f64
    };
    compare("two endpoints and a session", || open(false), || open(true));
}
