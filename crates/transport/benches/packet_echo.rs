//! A remote call over UDP beside a bare exchange of packets of the same payload over the same driver.
//!
//! Both run between two threads of this process, in alternating blocks, so that a disturbance hits both. The ratio of
//! the medians is what protocol and transport add: `cargo bench -p farcall-transport`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use farcall_base::Address;
use farcall_base::{Entropy, Identity, Principal};
use farcall_driver::clock::Clock;
use farcall_driver::{CounterFile, Datagram};
use farcall_protocol::basic::BasicPolicy;
use farcall_transport::{
    CallId, DownReason, MatchedBatch, MessageBatch, MessageId, Outbox, PacketConfig, PacketTransport,
    RequestBatch, ResponseBatch, SendOutcome, Service, SessionId, Sink, Status, Submitted, Transport,
};
use farcall_udp::{UdpConfig, UdpDriver};

const REQUEST: [u8; 30] = [1; 30];
const ANSWER: [u8; 100] = [2; 100];
const BLOCKS: usize = 20;
const CALLS: usize = 5_000;

fn udp() -> UdpDriver {
    UdpDriver::bind(&UdpConfig::default()).expect("a socket on the loopback interface")
}

fn transport(rank: u32, checksum: bool) -> PacketTransport<UdpDriver, BasicPolicy> {
    let identity = Identity { incarnation: 1 + u64::from(rank), rank, endpoint: 0 };
    let config = PacketConfig { checksum: Some(checksum), ..PacketConfig::default() };
    let made = PacketTransport::new(
        udp(),
        BasicPolicy,
        identity,
        Entropy::repeatable(1),
        &config,
        CounterFile::process(),
        "echo",
    );
    made.expect("the default configuration is valid")
}

/// Answers requests and counts responses.
#[derive(Default)]
struct Echo {
    responses: usize,
}

impl Sink for Echo {
    fn requests(&mut self, outbox: &mut dyn Outbox, requests: &mut RequestBatch<'_>) {
        requests.for_each(|request, _| outbox.reply(request, Status::Ok, &ANSWER));
    }

    fn responses(&mut self, _: &mut dyn Outbox, responses: &mut ResponseBatch<'_, '_>) {
        while responses.take().is_some() {
            self.responses += 1;
        }
    }

    fn received(&mut self, _: &mut MatchedBatch<'_, '_>) {}

    fn messages(&mut self, _: &mut dyn Outbox, _: &mut MessageBatch<'_>) {}

    fn sent(&mut self, _: &mut dyn Outbox, _: MessageId, _: SendOutcome) {}

    fn session_up(&mut self, _: &mut dyn Outbox, _: SessionId, _: Identity, _: &Principal) {}

    fn session_down(&mut self, _: &mut dyn Outbox, _: SessionId, _: &DownReason) {}

    fn session_moved(&mut self, _: &mut dyn Outbox, session: SessionId) {
        panic!("{session:?} has one way only");
    }
}

/// Bare packets: sends one, waits for its answer.
struct Bare {
    driver: UdpDriver,
    packets: Vec<farcall_driver::Packet>,
}

impl Bare {
    fn new() -> Self {
        Self { driver: udp(), packets: Vec::new() }
    }

    /// Receives a burst and answers each packet when there is an answer to give; how many came.
    fn poll(&mut self, answer: Option<&[u8]>) -> usize {
        let received = self.driver.receive(&mut self.packets);
        for packet in self.packets.drain(..) {
            if let Some(answer) = answer {
                self.driver.send(packet.source(), 0, &[answer]).expect("the queue has room");
            }
            self.driver.release(packet);
        }
        if received > 0 && answer.is_some() {
            self.driver.flush();
        }
        received
    }
}

fn median_nanos(mut samples: Vec<u64>) -> u64 {
    samples.sort_unstable();
    samples[samples.len() / 2]
}

fn bare_block(bare: &mut Bare, server: &Address, clock: &Clock) -> u64 {
    let to = bare.driver.resolve(server).expect("the address is one of UDP");
    let exchange = |_| {
        let started = clock.now();
        bare.driver.send(to, 0, &[&REQUEST]).expect("the queue has room");
        bare.driver.flush();
        while bare.poll(None) == 0 {}
        clock.now().since(started).as_nanos() as u64
    };
    median_nanos((0..CALLS).map(exchange).collect())
}

fn call_block(
    transport: &mut PacketTransport<UdpDriver, BasicPolicy>,
    session: SessionId,
    clock: &Clock,
) -> u64 {
    let mut echo = Echo::default();
    let call = |done: usize| {
        let started = clock.now();
        assert_eq!(transport.call(session, CallId(1), Service(1), &REQUEST), Submitted::Sent);
        while echo.responses == done {
            transport.poll(clock.now(), &mut echo);
        }
        clock.now().since(started).as_nanos() as u64
    };
    median_nanos((0..CALLS).map(call).collect())
}

fn main() {
    let clock = Clock::new();
    let stop = Arc::new(AtomicBool::new(false));
    let (mut bare_server, mut servers) = (Bare::new(), [transport(1, true), transport(1, false)]);
    let bare_address = bare_server.driver.address();
    let addresses = [servers[0].address(), servers[1].address()];
    // One server at a time is polled: the one whose number stands here.
    let turn = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let server = thread::spawn({
        let (stop, turn, clock) = (stop.clone(), turn.clone(), clock.clone());
        move || {
            let mut echo = Echo::default();
            while !stop.load(Ordering::Relaxed) {
                match turn.load(Ordering::Relaxed) {
                    0 => drop(bare_server.poll(Some(&ANSWER))),
                    which => drop(servers[which - 1].poll(clock.now(), &mut echo)),
                }
            }
        }
    });
    let mut clients = [transport(0, true), transport(0, false)];
    let sessions = [0, 1].map(|which| {
        clients[which].connect(&addresses[which], None, clock.now()).expect("the address is one of UDP")
    });
    let mut bare = Bare::new();
    let mut medians = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..BLOCKS {
        turn.store(0, Ordering::Relaxed);
        medians[0].push(bare_block(&mut bare, &bare_address, &clock));
        for which in 0..2 {
            turn.store(which + 1, Ordering::Relaxed);
            medians[which + 1].push(call_block(&mut clients[which], sessions[which], &clock));
        }
    }
    stop.store(true, Ordering::Relaxed);
    server.join().expect("the server ends in order");
    let [bare, sealed, plain] = medians.map(median_nanos);
    let ratio = |nanos: u64| nanos as f64 / bare as f64;
    println!("bare packets over udp   {bare} ns");
    println!("call, with checksum     {sealed} ns, {:.3} times the bare exchange", ratio(sealed));
    println!("call, without checksum  {plain} ns, {:.3} times the bare exchange", ratio(plain));
}
