//! Nodes at one switch, all of which call the first.

use core::time::Duration;

use crate::basic::{BasicConfig, BasicPolicy};
use crate::calls::Policy;
use crate::calls::tests::world::{ECHO, Links, World, request};
use crate::homa::{HomaPolicy, HomaRules};
use crate::session::SessionId;

/// What a 10 Gb/s link carries in the round trip of the world: 10 us there and back.
pub const RTT_BYTES: u32 = 16 << 10;

pub const LINK_GIGABITS: u64 = 10;

pub const LIMIT: Duration = Duration::from_secs(2);

pub fn rules() -> HomaRules {
    HomaRules {
        rtt_bytes: RTT_BYTES,
        grant_bytes: RTT_BYTES / 4,
        link_bits_per_second: Some(LINK_GIGABITS * 1_000_000_000),
        ..HomaRules::default()
    }
}

pub struct Rack<P: Policy> {
    pub world: World<P>,
    /// The session of every node with the first; of no use for the first itself.
    pub sessions: Vec<SessionId>,
    operations: u32,
}

impl Rack<HomaPolicy> {
    pub fn homa(nodes: usize, rules: &HomaRules) -> Self {
        let policies = (0..nodes).map(|_| HomaPolicy::new(rules.clone()).expect("the rules are valid"));
        Self::new(policies.collect())
    }
}

impl Rack<BasicPolicy> {
    pub fn basic(nodes: usize) -> Self {
        Self::new(vec![BasicPolicy; nodes])
    }
}

impl<P: Policy + Default> Rack<P> {
    fn new(policies: Vec<P>) -> Self {
        let mut config = BasicConfig::default();
        config.session.offer.unscheduled_bytes = RTT_BYTES;
        let nodes = policies.len();
        let mut world = World::with_policies(&vec![config; nodes], policies, 70);
        world.links = Some(Links::new(nodes, LINK_GIGABITS));
        let connected = |node| world.connected(node, 0).0;
        let sessions = [SessionId(u32::MAX)].into_iter().chain((1..nodes).map(connected)).collect();
        Self { world, sessions, operations: 0 }
    }

    /// Sends a request of `bytes` to the first node, which answers shortly; the operation's number.
    pub fn send(&mut self, node: usize, bytes: usize) -> u32 {
        let operation = self.operations;
        self.operations += 1;
        self.world.call(node, self.sessions[node], operation, ECHO, &request(operation, bytes, 8));
        operation
    }

    /// How long an operation took that begins now.
    pub fn time(&mut self, node: usize, bytes: usize) -> Duration {
        let (began, operation) = (self.world.now, self.send(node, bytes));
        self.world.run_until(LIMIT, |world| world.nodes[node].completed.contains_key(&operation));
        self.world.now.since(began)
    }

    /// Keeps a message of `bytes` on its way from each of `senders`, until `done`.
    pub fn keep_sending(
        &mut self,
        senders: core::ops::Range<usize>,
        bytes: usize,
        mut done: impl FnMut(&World<P>) -> bool,
    ) {
        let mut in_flight: Vec<(usize, u32)> = senders.map(|node| (node, self.send(node, bytes))).collect();
        while !done(&self.world) {
            let over =
                |world: &World<P>, &(node, it): &(usize, u32)| world.nodes[node].completed.contains_key(&it);
            self.world.run_until(LIMIT, |world| in_flight.iter().any(|it| over(world, it)) || done(world));
            let ended: Vec<usize> =
                (0..in_flight.len()).filter(|at| over(&self.world, &in_flight[*at])).collect();
            for at in ended {
                let node = in_flight[at].0;
                in_flight[at].1 = self.send(node, bytes);
            }
        }
    }
}
