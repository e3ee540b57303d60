//! The ring transport between an honest peer and a hostile one.
//!
//! The input says what the hostile peer writes and when the attacked transport polls, calls, answers and cancels.
//! After every step: no more requests are open than were agreed, no payload is longer, what the transport wrote is
//! well formed, and nothing is reported of a session that has ended. At the end the honest peer must be served.

mod hostile;

use core::time::Duration;

use farcall_driver::CounterFile;
use farcall_protocol::ring::Hello;
use farcall_protocol::{Identity, Instant};
use farcall_transport::{
    CallId, MessageId, Outgoing, ReceiveProgress, Ring, RingConfig, Service, Status, Tag, Transport,
};

use crate::input::Input;
use crate::lanes::{Hub, MemoryLanes};
use crate::sink::{ECHO, HonestSink, TargetSink};
use hostile::Hostile;

/// Small, so that a few records wrap it.
const RING_BYTES: usize = 4096;

/// The most steps of one input; what follows is ignored.
const STEPS_MAX: usize = 128;

/// Turns of both sides within which a call is answered: a long payload is announced part by part, one part a turn at worst.
const ROUNDS_MAX: usize = 32;

/// What the attacked transport and the honest one are set up with.
const CONFIG: RingConfig = RingConfig {
    inline_bytes: 512,
    batch_bytes: 1024,
    message_bytes_max: 20_000,
    calls_max: 8,
    unexpected_bytes: 1 << 14,
    connect_timeout: Duration::from_secs(1),
};

/// Time plays no role for rings.
const NOW: Instant = Instant::from_nanos(1);

/// Runs the attack that the bytes describe.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut world = World::new(&mut input);
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        world.step(&mut input);
        world.check();
    }
    world.serve_the_honest();
}

struct World {
    target: Ring<MemoryLanes>,
    target_sink: TargetSink,
    honest: Ring<MemoryLanes>,
    honest_sink: HonestSink,
    hostile: Hostile,
    calls_made: u32,
    /// Sends and receives of the target.
    messages: u32,
}

impl World {
    fn new(input: &mut Input<'_>) -> Self {
        let hub = Hub::new(RING_BYTES);
        let ring = |rank: u32, label: &str| {
            Ring::new(hub.node(), identity(rank), CONFIG, CounterFile::process(), label)
        };
        let (mut target, mut honest) = (ring(0, "target"), ring(1, "honest"));
        let session = honest.connect(&target.address(), NOW).expect("there is room for a session");
        let mut honest_sink = HonestSink::new(session);
        let mut target_sink = TargetSink::default();
        target.poll(NOW, &mut target_sink);
        honest.poll(NOW, &mut honest_sink);
        target_sink.honest = target_sink.ups.pop();
        assert!(target_sink.honest.is_some(), "the honest peer is connected");
        let hello = hello(input);
        if let Ok(peer) = Hello::decode(&hello) {
            target_sink.message_bytes_max =
                peer.message_bytes_max.min(CONFIG.message_bytes_max as u64) as usize;
            target_sink.calls_max = (peer.calls_max as usize).min(CONFIG.calls_max);
        }
        let (inward, outward) = hub.attack(&target.address(), &hello);
        let hostile = Hostile::new(inward, outward);
        Self { target, target_sink, honest, honest_sink, hostile, calls_made: 0, messages: 0 }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.u8() % 12 {
            0..=2 => self.poll(),
            3..=5 => self.hostile.write_record(input),
            6 => self.hostile.scribble(input),
            7 => self.call(usize::from(input.u16() % 2500)),
            8 => self.target_sink.answer_deferred(self.target.outbox()),
            10 => self.send(usize::from(input.u16() % 2500)),
            11 => self.receive(input.u8()),
            _ => self.cancel(u32::from(input.u8())),
        }
    }

    fn poll(&mut self) {
        self.target.poll(NOW, &mut self.target_sink);
        self.hostile.read_all();
    }

    fn call(&mut self, length: usize) {
        let Some(session) = self.target_sink.hostile else { return };
        self.calls_made += 1;
        let (call, bytes) = (CallId(self.calls_made), vec![7; length]);
        let made = self.target.outbox().call(session, call, Service(1), Outgoing::Slice(&bytes));
        self.target_sink.calls_made += u32::from(made.is_ok());
    }

    fn send(&mut self, length: usize) {
        let Some(session) = self.target_sink.hostile else { return };
        self.messages += 1;
        let bytes = vec![9; length];
        // Whatever becomes of it: the sink does not ask.
        let _ = self.target.outbox().send(session, MessageId(self.messages), Tag(1), Outgoing::Slice(&bytes));
    }

    /// Asks for a message, or takes back that it asked.
    fn receive(&mut self, choice: u8) {
        self.messages += 1;
        let tag = (!choice.is_multiple_of(4)).then_some(Tag(u32::from(choice >> 4)));
        let outbox = self.target.outbox();
        let progress = outbox.receive(MessageId(self.messages), None, tag);
        if matches!(progress, ReceiveProgress::Posted) && choice % 8 == 7 {
            assert!(outbox.cancel_receive(MessageId(self.messages)), "it waits until it is cancelled");
        }
    }

    fn cancel(&mut self, back: u32) {
        let Some(session) = self.target_sink.hostile else { return };
        self.target.outbox().cancel(session, CallId(self.calls_made.saturating_sub(back)));
    }

    fn check(&self) {
        let open = self.target_sink.requests_of_hostile.checked_sub(self.hostile.responses_read);
        if self.target_sink.hostile.is_some() && self.hostile.is_well_informed() {
            let open = open.expect("there is one response to a request");
            let agreed = self.target_sink.calls_max;
            assert!(open <= agreed, "{open} requests are kept for a peer with whom {agreed} were agreed");
        }
    }

    /// Whatever happened, the honest peer's calls are answered within some turns of both sides.
    fn serve_the_honest(&mut self) {
        for length in [0, 100, 600, 20_000] {
            let bytes: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let (session, call) = (self.honest_sink.session, CallId(length as u32));
            let made = self.honest.outbox().call(session, call, ECHO, Outgoing::Slice(&bytes));
            made.expect("the honest session is up");
            for _ in 0..ROUNDS_MAX {
                self.honest.poll(NOW, &mut self.honest_sink);
                self.target.poll(NOW, &mut self.target_sink);
            }
            self.honest.poll(NOW, &mut self.honest_sink);
            assert_eq!(self.honest_sink.answers.pop(), Some((call, Status::Ok, bytes)));
        }
        assert!(self.honest_sink.answers.is_empty(), "one answer to a call");
    }
}

fn identity(rank: u32) -> Identity {
    Identity { incarnation: u64::from(rank) + 1, rank, endpoint: 0 }
}

/// A hello with limits from the input, or just bytes from the input.
fn hello(input: &mut Input<'_>) -> Vec<u8> {
    let kind = input.u8();
    let (message_bytes_max, calls_max) = (u64::from(input.u16()), u32::from(input.u8()));
    match kind % 8 {
        0 => input.bytes(usize::from(kind)).to_vec(),
        1 => Hello {
            identity: identity(2),
            message_bytes_max: input.u64(),
            calls_max: u32::MAX,
            unexpected_lines: u32::MAX,
        }
        .encode()
        .into(),
        _ => Hello { identity: identity(2), message_bytes_max, calls_max, unexpected_lines: 40 }
            .encode()
            .into(),
    }
}
