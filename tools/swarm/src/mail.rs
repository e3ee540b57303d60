//! The tagged messages of a scenario: sender, receiver, tag and payload of each, and the posted receives.

use core::time::Duration;

use crate::draw::Draw;
use crate::fabric::FabricPlan;
use crate::operations::{Completion, Memory};
use crate::payload::{self, Role};
use crate::tuning::Tuning;

/// A message that is shorter has a tag of its own, by which it is known; others say their number.
pub const NUMBER_BYTES: usize = 4;

/// Packets carry tag and number behind the payload, and the code of a notice where a message passes the
/// window.
const BEHIND_BYTES: usize = 9;

/// The tag of a short message is this and its number.
const SHORT_TAG: u32 = 10_000;

/// The most sends of a scenario.
const SENDS_MAX: usize = 120;

/// How long a host that collects what nobody has asked for waits for another message.
pub const COLLECT_WITHIN: Duration = Duration::from_millis(5);

/// A message.
#[derive(Clone, Debug, PartialEq)]
pub struct Send {
    pub from: u32,
    pub to: u32,
    pub tag: u32,
    pub at: Duration,
    pub bytes: usize,
    pub memory: Memory,
    pub completion: Completion,
    pub within: Duration,
    pub cancel_after: Option<Duration>,
    pub left_out: bool,
}

/// A receive; it names a host and a tag, or leaves either open.
#[derive(Clone, Debug, PartialEq)]
pub struct Receive {
    pub host: u32,
    pub from: Option<u32>,
    pub tag: Option<u32>,
    pub start: ReceiveStart,
    pub completion: Completion,
    pub within: Duration,
    pub cancel_after: Option<Duration>,
    pub left_out: bool,
}

/// When a receive is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveStart {
    At(Duration),
    /// When all faults are over, again and again until nothing is left.
    Collect,
}

/// All messages of a scenario.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mail {
    pub sends: Vec<Send>,
    pub receives: Vec<Receive>,
    /// Hosts whose handler gets what no receive waits for.
    pub handled_by: Vec<u32>,
}

impl Mail {
    /// The messages of `hosts` hosts up to `over_at`; in half of the scenarios none.
    pub fn draw(seed: u64, hosts: u32, over_at: Duration, fabric: &FabricPlan, tuning: &Tuning) -> Self {
        let mut draw = Draw::new(seed, "mail");
        if draw.percent(50) {
            return Self::default();
        }
        let mut planner = Planner { draw, hosts, over_at, fabric, tuning };
        let mut sends: Vec<_> = Vec::new();
        let wanted = planner.draw.between(1, SENDS_MAX);
        while sends.len() < wanted {
            planner.burst(&mut sends);
        }
        sends.sort_by_key(|send: &Send| send.at);
        for (number, send) in sends.iter_mut().enumerate().filter(|(_, send)| send.bytes < NUMBER_BYTES) {
            send.tag = SHORT_TAG + number as u32;
        }
        let mut receives: Vec<_> = Vec::new();
        for send in &sends {
            if planner.draw.percent(80) {
                receives.push(planner.receive(send));
            }
        }
        let handled_by =
            if planner.draw.percent(25) { planner.draw.some_hosts(hosts, 3) } else { Vec::new() };
        receives.extend((0..hosts).map(collect));
        Self { sends, receives, handled_by }
    }

    /// The longest deadline.
    pub fn longest(&self) -> Duration {
        let sends = self.sends.iter().map(|send| send.within);
        sends.chain(self.receives.iter().map(|receive| receive.within)).max().unwrap_or_default()
    }

    /// The number of a message that came with this tag.
    pub fn number_of(tag: u32, bytes: &[u8]) -> Option<usize> {
        match bytes.first_chunk::<NUMBER_BYTES>() {
            Some(number) => Some(u32::from_le_bytes(*number) as usize),
            None => tag.checked_sub(SHORT_TAG).map(|number| number as usize),
        }
    }

    /// The bytes of a message.
    pub fn bytes_of(number: usize, length: usize) -> Vec<u8> {
        let mut bytes = (number as u32).to_le_bytes().to_vec();
        bytes.truncate(length);
        bytes.extend_from_slice(payload::bytes(number, Role::Message, length.saturating_sub(NUMBER_BYTES)));
        bytes
    }
}

fn collect(host: u32) -> Receive {
    Receive {
        host,
        from: None,
        tag: None,
        start: ReceiveStart::Collect,
        completion: Completion::Callback,
        within: COLLECT_WITHIN,
        cancel_after: None,
        left_out: false,
    }
}

struct Planner<'a> {
    draw: Draw,
    hosts: u32,
    over_at: Duration,
    fabric: &'a FabricPlan,
    tuning: &'a Tuning,
}

impl Planner<'_> {
    /// Messages of one host to another at one time.
    fn burst(&mut self, sends: &mut Vec<Send>) {
        let from = self.draw.between(0, self.hosts as usize - 1) as u32;
        let to = (from + self.draw.between(1, self.hosts as usize - 1) as u32) % self.hosts;
        let at = self.draw.time(Duration::ZERO, self.over_at);
        for _ in 0..self.draw.pick(&[1, 1, 2, 5, 20]) {
            let bytes = self.bytes();
            let cancelled = self.draw.percent(8);
            sends.push(Send {
                from,
                to,
                tag: self.draw.between(0, 2) as u32,
                at,
                bytes,
                memory: self.draw.pick(&[Memory::Slice, Memory::Slice, Memory::Loan, Memory::Shared]),
                completion: self.completion(),
                within: self.within(),
                cancel_after: cancelled.then(|| self.draw.time(Duration::ZERO, Duration::from_micros(300))),
                left_out: false,
            });
        }
    }

    /// A receive that a message may be for: made before it leaves, or later.
    fn receive(&mut self, send: &Send) -> Receive {
        let (early, late) = (Duration::from_millis(1), Duration::from_millis(3));
        let at = (send.at + self.draw.time(Duration::ZERO, early + late)).saturating_sub(early);
        let cancelled = self.draw.percent(8);
        Receive {
            host: send.to,
            from: self.draw.percent(60).then_some(send.from),
            tag: self.draw.percent(60).then_some(send.tag),
            start: ReceiveStart::At(at.min(self.over_at)),
            completion: self.completion(),
            within: self.within(),
            cancel_after: cancelled.then(|| self.draw.time(Duration::ZERO, Duration::from_micros(500))),
            left_out: false,
        }
    }

    fn completion(&mut self) -> Completion {
        self.draw.pick(&[Completion::Future, Completion::Callback, Completion::Event])
    }

    fn within(&mut self) -> Duration {
        let most = self.draw.pick(&[1, 10, 40]);
        self.draw.time(Duration::from_micros(50), Duration::from_millis(most))
    }

    fn bytes(&mut self) -> usize {
        let limit = self.tuning.message_bytes_max - BEHIND_BYTES;
        match self.draw.between(0, 9) {
            0 => self.draw.between(0, NUMBER_BYTES),
            1 => self.fabric.mtu_bytes,
            2 => self.tuning.unscheduled_bytes,
            3 if self.draw.percent(20) => limit,
            3 | 4 => self.draw.between(0, 20_000),
            _ => self.draw.between(NUMBER_BYTES, 500),
        }
        .min(limit)
    }
}
