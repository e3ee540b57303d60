//! The calls of a scenario: who calls whom, when, with what, and what the server does with it.

use core::time::Duration;

use crate::draw::Draw;
use crate::fabric::FabricPlan;
use crate::tuning::Tuning;

/// One call. Its place in the list is its number, and its service: a server knows from the service what to
/// expect.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    pub caller: u32,
    pub callee: u32,
    pub start: Start,
    pub request_bytes: usize,
    pub answer_bytes: usize,
    pub serving: Serving,
    pub completion: Completion,
    /// How the request, and then the answer, is handed over.
    pub memory: [Memory; 2],
    /// The call's deadline.
    pub within: Duration,
    /// After which time the caller gives up, if the call is not over by then.
    pub cancel_after: Option<Duration>,
}

/// When a call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// By the program of the caller, at this time.
    At(Duration),
    /// By the handler of another call.
    InHandler,
    /// When all faults are over: it must succeed.
    Probe,
    /// It is left out.
    Never,
}

/// What the server does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serving {
    Reply,
    ReplyLater(Duration),
    Refuse(u8),
    RefuseLater(Duration, u8),
    Abandon,
    AbandonLater(Duration),
    /// An answer over the limit.
    ReplyTooLong,
    /// Makes the call of that number, and answers when it is over.
    CallOn(usize),
    /// There is no handler.
    Unserved,
}

/// How the caller learns of the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    Future,
    Callback,
    Event,
}

/// A host ends its session to another, in the middle of whatever they do; one that has none begins one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Farewell {
    pub from: u32,
    pub to: u32,
    pub at: Duration,
}

/// The farewells of `hosts` hosts up to `over_at`; mostly none.
pub fn draw_farewells(seed: u64, hosts: u32, over_at: Duration) -> Vec<Farewell> {
    let mut draw = Draw::new(seed, "farewells");
    let count = draw.pick(&[0, 0, 0, 1, 4]);
    let host = |draw: &mut Draw, least: usize, most: usize| draw.between(least, most) as u32;
    let farewell = |draw: &mut Draw| {
        let from = host(draw, 0, hosts as usize - 1);
        let to = (from + host(draw, 1, hosts as usize - 1)) % hosts;
        Farewell { from, to, at: draw.time(Duration::ZERO, over_at) }
    };
    (0..count).map(|_| farewell(&mut draw)).collect()
}

/// What a payload is handed over as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    Slice,
    Loan,
    Shared,
}

/// The most packets that the messages of a scenario take, so that it is soon over.
const PACKETS_MAX: usize = 3000;

/// The most calls of a scenario beside probes.
const OPERATIONS_MAX: usize = 300;

/// Draws the calls of `hosts` hosts up to `over_at`, and at last a probe for each pair that has called.
pub fn draw(
    seed: u64,
    hosts: u32,
    over_at: Duration,
    fabric: &FabricPlan,
    tuning: &Tuning,
) -> Vec<Operation> {
    let mut planner = Planner {
        draw: Draw::new(seed, "operations"),
        hosts,
        over_at,
        fabric,
        tuning,
        packets: PACKETS_MAX,
        operations: Vec::new(),
    };
    let incast = planner.draw.percent(20).then(|| planner.draw.between(0, hosts as usize - 1) as u32);
    let wanted = planner.draw.between(5, OPERATIONS_MAX);
    while planner.operations.len() < wanted && planner.packets > 0 {
        planner.burst(incast);
    }
    planner.probes();
    planner.operations
}

struct Planner<'a> {
    draw: Draw,
    hosts: u32,
    over_at: Duration,
    fabric: &'a FabricPlan,
    tuning: &'a Tuning,
    /// What is left of [`PACKETS_MAX`].
    packets: usize,
    operations: Vec<Operation>,
}

impl Planner<'_> {
    /// Calls of one host, at one time, to one or several others.
    fn burst(&mut self, incast: Option<u32>) {
        let caller = self.host();
        let at = self.draw.time(Duration::ZERO, self.over_at);
        let count = self.draw.pick(&[1, 1, 1, 3, 8, 30]);
        let fixed = self.draw.percent(60).then(|| self.peer_of(caller));
        for _ in 0..count {
            let callee = incast.filter(|to| *to != caller).or(fixed).unwrap_or_else(|| self.peer_of(caller));
            let operation = self.operation(caller, callee, Start::At(at), 2);
            self.operations.push(operation);
        }
    }

    fn operation(&mut self, caller: u32, callee: u32, start: Start, depth: usize) -> Operation {
        let request_bytes = self.message_bytes(true);
        let answer_bytes = self.message_bytes(false);
        let serving = self.serving(callee, depth);
        let ms = Duration::from_millis;
        let within = match self.draw.between(0, 9) {
            0 => self.draw.time(Duration::from_micros(1), Duration::from_micros(200)),
            1..=4 => self.draw.time(ms(1), ms(10)),
            _ => self.draw.time(ms(10), ms(40)),
        };
        let cancelled = start != Start::InHandler && self.draw.percent(8);
        let cancel_after = cancelled.then(|| self.draw.time(Duration::ZERO, Duration::from_micros(300)));
        let completion = match start {
            Start::InHandler => Completion::Callback,
            _ => self.draw.pick(&[Completion::Future, Completion::Callback, Completion::Event]),
        };
        let kinds = [Memory::Slice, Memory::Slice, Memory::Loan, Memory::Shared];
        let memory = [self.draw.pick(&kinds), self.draw.pick(&kinds)];
        Operation {
            caller,
            callee,
            start,
            request_bytes,
            answer_bytes,
            serving,
            completion,
            memory,
            within,
            cancel_after,
        }
    }

    fn serving(&mut self, at: u32, depth: usize) -> Serving {
        let later = self.draw.time(Duration::ZERO, Duration::from_millis(3));
        match self.draw.between(0, 99) {
            0..60 => Serving::Reply,
            60..75 => Serving::ReplyLater(later),
            75..78 => Serving::Refuse(self.draw.between(0, 254) as u8),
            78..80 => Serving::RefuseLater(later, 7),
            80..82 => Serving::Abandon,
            82..84 => Serving::AbandonLater(later),
            84..86 => Serving::ReplyTooLong,
            86..88 => Serving::Unserved,
            _ if depth == 0 => Serving::Reply,
            _ => {
                let callee = self.peer_of(at);
                let next = self.operation(at, callee, Start::InHandler, depth - 1);
                self.operations.push(next);
                Serving::CallOn(self.operations.len() - 1)
            }
        }
    }

    /// A length at which something changes, or any other.
    fn message_bytes(&mut self, request: bool) -> usize {
        let (mtu, limit) = (self.fabric.mtu_bytes, self.tuning.message_bytes_max);
        let near = |draw: &mut Draw, length: usize| (length + draw.between(0, 2)).saturating_sub(1);
        let bytes = match self.draw.between(0, 19) {
            0 => 0,
            1 => 1,
            // Headers take some bytes of a packet.
            2..=3 => mtu - self.draw.between(0, 64).min(mtu),
            4 => near(&mut self.draw, mtu),
            5..=6 => near(&mut self.draw, self.tuning.unscheduled_bytes),
            7 => limit,
            8 if request => limit + 1,
            9..=10 => self.draw.between(0, limit),
            _ => self.draw.between(0, 2000),
        };
        let bytes = bytes.min(if bytes == limit + 1 && request { bytes } else { limit });
        let packets = bytes / mtu + 1;
        if packets > self.packets && bytes <= limit {
            self.packets = 0;
            return 8;
        }
        if bytes <= limit {
            self.packets -= packets.min(self.packets);
        }
        bytes
    }

    fn probes(&mut self) {
        let mut pairs: Vec<_> =
            self.operations.iter().map(|operation| (operation.caller, operation.callee)).collect();
        pairs.sort_unstable();
        pairs.dedup();
        for (caller, callee) in pairs {
            self.operations.push(Operation {
                caller,
                callee,
                start: Start::Probe,
                request_bytes: 40,
                answer_bytes: 60,
                serving: Serving::Reply,
                completion: Completion::Future,
                memory: [Memory::Slice; 2],
                within: Duration::from_millis(50),
                cancel_after: None,
            });
        }
    }

    fn host(&mut self) -> u32 {
        self.draw.between(0, self.hosts as usize - 1) as u32
    }

    /// Another host.
    fn peer_of(&mut self, host: u32) -> u32 {
        let distance = self.draw.between(1, self.hosts as usize - 1) as u32;
        (host + distance) % self.hosts
    }
}
