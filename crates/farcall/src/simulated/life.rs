//! Life ports of simulated hosts.
//!
//! A host that is paused does not poll, and its processor's kernel answers for it all the same. The question
//! and its answer travel over something like TCP, which sends again what is lost: only a partition, in either
//! direction, keeps them from arriving. The answer is there when peers are judged the next time.

use std::collections::VecDeque;

use farcall_protocol::session::LifeQuestion;
use farcall_protocol::wire::{LIFE_PORT_BYTES, LifePort};
use farcall_sim::Host;
use farcall_transport::{LifeAnswer, LifeWatch};

/// Answers for an endpoint of one life of a host, and asks for it.
pub struct SimulatedWatch {
    host: Host,
    answers: VecDeque<LifeAnswer>,
}

impl SimulatedWatch {
    /// Of an endpoint on `host`.
    pub fn new(host: Host) -> Self {
        Self { host, answers: VecDeque::new() }
    }
}

impl LifeWatch for SimulatedWatch {
    fn port(&self) -> Option<LifePort> {
        let mut bytes = [0; LIFE_PORT_BYTES];
        bytes[..4].copy_from_slice(&(self.host.number() as u32).to_le_bytes());
        bytes[4..8].copy_from_slice(&self.host.incarnation().to_le_bytes());
        bytes[8] = 1; // all 0 is none, and the first life of host 0 has one
        Some(LifePort(bytes))
    }

    fn ask(&mut self, LifeQuestion { session, port: LifePort(bytes) }: LifeQuestion) {
        let (number, rest) = bytes.split_first_chunk().expect("a life port is longer");
        let (incarnation, _) = rest.split_first_chunk().expect("a life port is longer");
        let (number, incarnation) = (u32::from_le_bytes(*number), u32::from_le_bytes(*incarnation));
        if self.host.finds_alive(number, incarnation) {
            self.answers.push_back(LifeAnswer { session, is_alive: true });
        }
    }

    fn next_answer(&mut self) -> Option<LifeAnswer> {
        self.answers.pop_front()
    }
}
