//! The ring transport between an honest peer and a hostile one.
//!
//! The input says what the hostile peer writes and when the attacked transport polls, calls, answers and cancels.
//! After every step: no more requests are open than were agreed, no payload is longer, what the transport wrote is
//! well formed, and nothing is reported of a session that has ended. At the end the honest peer must be served.

mod hostile;

use core::time::Duration;

use farcall_base::{Entropy, Identity};
use farcall_driver::CounterFile;
use farcall_protocol::ring::Hello;
use farcall_transport::{Ring, RingConfig, Transport};

use crate::input::Input;
use crate::lanes::{Hub, MemoryLanes};
use crate::sink::{HonestSink, TargetSink};
use crate::users::{Honest, NOW, Target};
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
    rest_interval: Duration::ZERO,
    ranks: u32::MAX,
    numbers: farcall_base::SessionNumbers::ALL,
};

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
    world.honest.is_served(&mut world.target, [0, 100, 600, 20_000], ROUNDS_MAX);
}

struct World {
    target: Target<Ring<MemoryLanes>>,
    honest: Honest<Ring<MemoryLanes>>,
    hostile: Hostile,
}

impl World {
    fn new(input: &mut Input<'_>) -> Self {
        let hub = Hub::new(RING_BYTES);
        let ring = |rank: u32, label: &str| {
            let entropy = Entropy::repeatable(u64::from(rank));
            Ring::new(hub.node(), identity(rank), entropy, CONFIG, CounterFile::process(), label)
        };
        let (target, mut honest) = (ring(0, "target"), ring(1, "honest"));
        let session = honest.connect(&target.address(), None, NOW).expect("there is room for a session");
        let mut honest = Honest { transport: honest, sink: HonestSink::new(session) };
        let mut target = Target::new(target, TargetSink::default());
        target.poll();
        honest.poll();
        target.sink.honest = target.sink.ups.pop();
        assert!(target.sink.honest.is_some(), "the honest peer is connected");
        let hello = hello(input);
        if let Ok(peer) = Hello::decode(&hello) {
            target.sink.message_bytes_max =
                peer.message_bytes_max.min(CONFIG.message_bytes_max as u64) as usize;
            target.sink.calls_max = (peer.calls_max as usize).min(CONFIG.calls_max);
        }
        let (inward, outward) = hub.attack(&target.transport.address(), &hello);
        Self { target, honest, hostile: Hostile::new(inward, outward) }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.u8() % 12 {
            0..=2 => self.poll(),
            3..=5 => self.hostile.write_record(input),
            6 => self.hostile.scribble(input),
            7 => self.target.call(usize::from(input.u16() % 2500)),
            8 => self.target.answer_deferred(),
            10 => self.target.send(usize::from(input.u16() % 2500)),
            11 => {
                // It may poll.
                self.target.receive(input.u8());
                self.hostile.read_all();
            }
            _ => self.target.cancel(u32::from(input.u8())),
        }
    }

    fn poll(&mut self) {
        self.target.poll();
        self.hostile.read_all();
    }

    fn check(&self) {
        if self.hostile.is_well_informed() {
            self.target.check_open_requests(self.hostile.responses_read);
        }
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
            reads_notices: true,
        }
        .encode()
        .into(),
        _ => {
            let reads_notices = kind % 8 > 4;
            let identity = identity(2);
            Hello { identity, message_bytes_max, calls_max, unexpected_lines: 40, reads_notices }
                .encode()
                .into()
        }
    }
}
