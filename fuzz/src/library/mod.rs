//! The library transport between an honest peer and a hostile one, over mailboxes.
//!
//! The input says what the hostile peer sends within its session and when the attacked transport polls, calls, answers, sends
//! and receives. After every step: no more requests are open than were agreed, and what the transport sent is well formed and
//! within the window. At the end what waits for a receive fits the window of its session, and the honest peer is served.

mod hostile;

use core::time::Duration;

use farcall_base::{Entropy, Identity};
use farcall_driver::CounterFile;
use farcall_protocol::matching::{WINDOW_LINE_BYTES, lines, lines_max};
use farcall_transport::post::{Counter, Post};
use farcall_transport::{LibraryConfig, LibraryTransport, SessionId, Transport};

use crate::input::Input;
use crate::sink::{HonestSink, TargetSink};
use crate::users::{Honest, NOW, Target};
use hostile::Hostile;

/// The most steps of one input; what follows is ignored.
const STEPS_MAX: usize = 128;

/// Turns of both sides within which a call is answered.
const ROUNDS_MAX: usize = 8;

/// Lines of messages that wait for a receive.
const WINDOW_LINES: u32 = 40;

const CONFIG: LibraryConfig = LibraryConfig {
    message_bytes_max: 2000,
    calls_max: 8,
    peer_timeout: Duration::from_secs(1),
    unexpected_bytes: WINDOW_LINES as usize * WINDOW_LINE_BYTES,
    loan_bytes_max: 1 << 16,
    ranks: u32::MAX,
    sessions_max: 4096,
    sessions_per_host: 1024,
    numbers: farcall_base::SessionNumbers::ALL,
};

/// Runs the attack that the bytes describe.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut world = World::new();
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        world.step(&mut input);
        world.target.check_open_requests(world.hostile.responses_read);
    }
    world.poll();
    world.take_what_waits();
    world.honest.is_served(&mut world.target, [0, 100, 600, 2000], ROUNDS_MAX);
}

struct World {
    target: Target<LibraryTransport<Counter>>,
    honest: Honest<LibraryTransport<Counter>>,
    hostile: Hostile,
}

/// A transport over a new mailbox.
fn transport(post: &Post, rank: u32) -> LibraryTransport<Counter> {
    let identity = Identity { incarnation: u64::from(rank) + 1, rank, endpoint: 0 };
    let (counters, label) = (CounterFile::process(), format!("fuzzed library {rank}"));
    LibraryTransport::new(post.open(), identity, Entropy::repeatable(5), &CONFIG, counters, &label)
        .expect("a valid configuration")
}

impl World {
    fn new() -> Self {
        let post = Post::default();
        let [target, mut honest, mut lured] = [0, 1, 2].map(|rank| transport(&post, rank));
        let session = honest.connect(&target.address(), None, NOW).expect("there is room for a session");
        let mut honest = Honest { transport: honest, sink: HonestSink::new(session) };
        let mut target = Target::new(target, TargetSink::default());
        target.sink.message_bytes_max = CONFIG.message_bytes_max as usize;
        target.sink.calls_max = usize::from(CONFIG.calls_max);
        for _ in 0..ROUNDS_MAX {
            honest.poll();
            target.poll();
        }
        target.sink.honest = target.sink.ups.pop();
        assert!(target.sink.honest.is_some(), "the honest peer is connected");
        // The session of an honest transport, which the hostile peer takes over.
        let session =
            lured.connect(&target.transport.address(), None, NOW).expect("there is room for a session");
        let mut lured = Honest { transport: lured, sink: HonestSink::new(session) };
        for _ in 0..ROUNDS_MAX {
            lured.poll();
            target.poll();
        }
        assert!(target.sink.hostile.is_some(), "the hostile peer is connected");
        let hostile = Hostile::new(post, lured.transport, session);
        Self { target, honest, hostile }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.u8() % 12 {
            0..=2 => self.poll(),
            3..=5 => self.hostile.send_tagged(input),
            6 => self.hostile.send_call(input),
            7 => self.hostile.scribble(input),
            8 => self.target.call(usize::from(input.u16() % 2500)),
            9 => self.target.answer_deferred(),
            10 => self.target.send(usize::from(input.u16() % 2500)),
            _ => {
                // It may poll.
                self.target.receive(input.u8());
                self.hostile.read_all();
            }
        }
    }

    fn poll(&mut self) {
        self.target.poll();
        self.hostile.read_all();
    }

    /// Receives all that nobody expected: no session has left more than fits its window.
    fn take_what_waits(&mut self) {
        let mut waited: Vec<(SessionId, u32)> = Vec::new();
        while let Some((session, bytes)) = self.target.receive_any() {
            let counted = lines(bytes).min(lines_max(WINDOW_LINES));
            match waited.iter_mut().find(|(other, _)| *other == session) {
                Some((_, sum)) => *sum += counted,
                None => waited.push((session, counted)),
            }
            assert!(waited.iter().all(|&(_, sum)| sum <= WINDOW_LINES), "more waits than was offered");
        }
    }
}
