//! The library transport between an honest peer and a hostile one, over mailboxes.
//!
//! The input says what the hostile peer sends within its session and when the attacked transport polls, calls, answers, sends
//! and receives. After every step: no more requests are open than were agreed, and what the transport sent is well formed and
//! within the window. At the end what waits for a receive fits the window of its session, and the honest peer is served.

mod hostile;

use core::time::Duration;

use farcall_driver::CounterFile;
use farcall_protocol::matching::{WINDOW_LINE_BYTES, lines, lines_max};
use farcall_protocol::{Identity, Instant};
use farcall_transport::post::{Counter, Post};
use farcall_transport::{
    CallId, LibraryConfig, LibraryTransport, MessageId, Outgoing, ReceiveProgress, Service, SessionId,
    Status, Tag, Transport,
};

use crate::input::Input;
use crate::sink::{ECHO, HonestSink, TargetSink};
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
};

/// Time stands still, so that nobody is silent for too long.
const NOW: Instant = Instant::from_nanos(1);

/// Runs the attack that the bytes describe.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut world = World::new();
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        world.step(&mut input);
        world.check();
    }
    world.poll();
    world.take_what_waits();
    world.serve_the_honest();
}

struct World {
    target: LibraryTransport<Counter>,
    target_sink: TargetSink,
    honest: LibraryTransport<Counter>,
    honest_sink: HonestSink,
    hostile: Hostile,
    calls_made: u32,
    /// Sends and receives of the target.
    messages: u32,
}

/// A transport over a new mailbox.
fn transport(post: &Post, rank: u32) -> LibraryTransport<Counter> {
    let identity = Identity { incarnation: u64::from(rank) + 1, rank, endpoint: 0 };
    let (counters, label) = (CounterFile::process(), format!("fuzzed library {rank}"));
    LibraryTransport::new(post.open(), identity, 5, &CONFIG, counters, &label).expect("a valid configuration")
}

impl World {
    fn new() -> Self {
        let post = Post::default();
        let [mut target, mut honest, mut lured] = [0, 1, 2].map(|rank| transport(&post, rank));
        let session = honest.connect(&target.address(), NOW).expect("there is room for a session");
        let (mut target_sink, mut honest_sink) = (TargetSink::default(), HonestSink::new(session));
        target_sink.message_bytes_max = CONFIG.message_bytes_max as usize;
        target_sink.calls_max = usize::from(CONFIG.calls_max);
        for _ in 0..ROUNDS_MAX {
            honest.poll(NOW, &mut honest_sink);
            target.poll(NOW, &mut target_sink);
        }
        target_sink.honest = target_sink.ups.pop();
        assert!(target_sink.honest.is_some(), "the honest peer is connected");
        // The session of an honest transport, which the hostile peer takes over.
        let session = lured.connect(&target.address(), NOW).expect("there is room for a session");
        let mut lured_sink = HonestSink::new(session);
        for _ in 0..ROUNDS_MAX {
            lured.poll(NOW, &mut lured_sink);
            target.poll(NOW, &mut target_sink);
        }
        assert!(target_sink.hostile.is_some(), "the hostile peer is connected");
        let hostile = Hostile::new(post, lured, session);
        Self { target, target_sink, honest, honest_sink, hostile, calls_made: 0, messages: 0 }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.u8() % 12 {
            0..=2 => self.poll(),
            3..=5 => self.hostile.send_tagged(input),
            6 => self.hostile.send_call(input),
            7 => self.hostile.scribble(input),
            8 => self.call(usize::from(input.u16() % 2500)),
            9 => self.target_sink.answer_deferred(self.target.outbox()),
            10 => self.send(usize::from(input.u16() % 2500)),
            _ => self.receive(input.u8()),
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

    fn check(&self) {
        if self.target_sink.hostile.is_some() {
            let answered = self.hostile.responses_read;
            let open = self.target_sink.requests_of_hostile.checked_sub(answered);
            let open = open.expect("there is one response to a request");
            let agreed = self.target_sink.calls_max;
            assert!(open <= agreed, "{open} requests are kept for a peer with whom {agreed} were agreed");
        }
    }

    /// Receives all that nobody expected: no session has left more than fits its window.
    fn take_what_waits(&mut self) {
        let mut waited: Vec<(SessionId, u32)> = Vec::new();
        loop {
            self.messages += 1;
            let ReceiveProgress::Arrived(envelope, payload) =
                self.target.outbox().receive(MessageId(self.messages), None, None)
            else {
                return;
            };
            assert_eq!(payload.len(), envelope.bytes);
            let counted = lines(envelope.bytes).min(lines_max(WINDOW_LINES));
            match waited.iter_mut().find(|(session, _)| *session == envelope.session) {
                Some((_, sum)) => *sum += counted,
                None => waited.push((envelope.session, counted)),
            }
            assert!(waited.iter().all(|&(_, sum)| sum <= WINDOW_LINES), "more waits than was offered");
        }
    }

    /// Whatever happened, the honest peer's calls are answered within some turns of both sides.
    fn serve_the_honest(&mut self) {
        for length in [0, 100, 600, 2000] {
            let bytes: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let (session, call) = (self.honest_sink.session, CallId(length as u32));
            let made = self.honest.outbox().call(session, call, ECHO, Outgoing::Slice(&bytes));
            made.expect("the honest session is up");
            for _ in 0..ROUNDS_MAX {
                self.honest.poll(NOW, &mut self.honest_sink);
                self.target.poll(NOW, &mut self.target_sink);
            }
            assert_eq!(self.honest_sink.answers.pop(), Some((call, Status::Ok, bytes)));
        }
        assert!(self.honest_sink.answers.is_empty(), "one answer to a call");
    }
}
