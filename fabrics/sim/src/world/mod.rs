//! The state of a simulated fabric, and what each event does to it.
//!
//! Everything is here, in one place and under one lock, because everything may touch everything: a send
//! changes the sender's queue, the events and the fingerprint. The lock is free whenever somebody wants it,
//! as a simulation runs in one thread.

mod buffers;
mod crowd;
mod faults;
mod host;
mod lane_messages;
mod lanes;
mod layout;
mod network;
mod nic;
mod overflows;
mod packets;
mod port;
mod sending;
mod sources;
mod totals;
mod turns;
mod work;

pub use host::HostUsage;
pub use nic::{NicUsage, StageUsage};
pub use port::{PRIORITIES, PortUsage};
pub use sending::Received;
pub use totals::Totals;
pub use work::{Spent, Work};

use std::collections::VecDeque;

use farcall_base::Random;
use farcall_driver::{CounterFile, LaneFault};
use host::HostState;
use lanes::Lanes;
use layout::Layout;
use nic::Nic;
use overflows::Overflows;
use packets::Packets;
use port::Port;
use totals::TraceHash;

use crate::counters::SimCounters;
use crate::faults::{Cuts, PacketFaults, Scheduled};
use crate::profile::{Profile, ProfileError};
use crate::queue::{Event, EventQueue};
use crate::time::Picos;
use crate::wakes::Wakes;

/// A fabric and all that is on it.
pub struct World {
    pub profile: Profile,
    now: Picos,
    queue: EventQueue,
    wakes: Wakes,
    hosts: Vec<HostState>,
    nics: Vec<Nic>,
    ports: Vec<Port>,
    layout: Layout,
    packets: Packets,
    lanes: Lanes,
    /// What strikes packets.
    faults: PacketFaults,
    cuts: Cuts,
    /// What is still to come, the next one last.
    schedule: Vec<Scheduled>,
    /// What has happened and somebody else has to act on.
    pending: VecDeque<Step>,
    random: Random,
    hash: TraceHash,
    totals: Totals,
    /// The packets that found queues full, if somebody wants to know.
    overflows: Option<Overflows>,
    counters: SimCounters,
}

/// The counters are brought up to date every this many events.
const COUNTED_EVENTS: u64 = 1 << 16;

/// What the fabric cannot do alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// This host's turn has begun.
    Turn(u32),
    /// This host has crashed: its program is over.
    Crashed(u32),
    /// This host is up again: its program starts again.
    Restarted(u32),
    /// The time is reached.
    Reached,
    /// Nothing can happen any more.
    Quiet,
}

impl World {
    /// A fabric of `hosts` hosts.
    pub fn new(profile: Profile, seed: u64, hosts: usize) -> Result<Self, ProfileError> {
        let machines = profile.placement.machines(hosts, &profile)?;
        let mut random = Random::new(seed);
        let layout = Layout::new(&profile.topology, random.bits());
        Ok(Self {
            now: Picos::ZERO,
            queue: EventQueue::default(),
            wakes: Wakes::new(hosts),
            hosts: machines.into_iter().map(HostState::new).collect(),
            nics: (0..profile.topology.machines()).map(|_| Nic::new(&profile, hosts)).collect(),
            ports: layout.ports(&profile),
            layout,
            packets: Packets::default(),
            lanes: Lanes::new(hosts),
            faults: PacketFaults::default(),
            cuts: Cuts::none(hosts),
            schedule: Vec::new(),
            pending: VecDeque::new(),
            random,
            hash: TraceHash::default(),
            totals: Totals::default(),
            overflows: None,
            counters: SimCounters::new(CounterFile::process(), &format!("sim {}", profile.name)),
            profile,
        })
    }

    /// Lets things happen until a host has its turn, or until `until`. Of what is due at the same time,
    /// scheduled faults come first, then events, then turns.
    pub fn advance(&mut self, until: Picos) -> Step {
        loop {
            if let Some(step) = self.pending.pop_front() {
                return step;
            }
            let (event_at, action_at) = (self.queue.next_at(), self.next_action_at());
            let (turn_at, host) = self.wakes.next();
            let at = event_at.min(turn_at).min(action_at);
            if at == Picos::NEVER || at > until {
                return self.pass(at, until);
            }
            self.now = self.now.max(at);
            self.totals.events += 1;
            if self.totals.events.is_multiple_of(COUNTED_EVENTS) {
                self.counters.show(&self.totals());
            }
            if action_at == at {
                self.next_action();
            } else if event_at == at {
                self.next_event();
            } else {
                self.begin_turn(host);
                return Step::Turn(host);
            }
        }
    }

    /// Nothing happens before `until`; the next thing does at `at`, if at all.
    fn pass(&mut self, at: Picos, until: Picos) -> Step {
        if until < Picos::NEVER {
            self.now = self.now.max(until);
        }
        self.counters.show(&self.totals());
        if at == Picos::NEVER { Step::Quiet } else { Step::Reached }
    }

    /// When the next thing happens; [`Picos::NEVER`] if nothing does any more.
    pub fn next_at(&self) -> Picos {
        self.queue.next_at().min(self.next_action_at()).min(self.wakes.next().0)
    }

    fn next_event(&mut self) {
        if let Some((_, event)) = self.queue.pop() {
            self.handle(event);
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Doorbell { host, incarnation, count } => self.doorbell(host, incarnation, count),
            Event::Posted { packet, incarnation } => self.posted(packet, incarnation),
            Event::Ingress { packet } => self.ingress(packet),
            Event::LateIngress { packet } => self.late_ingress(packet),
            Event::Hop { packet, port } => self.offer(packet, port),
            Event::PortFree { port } => self.port_free(port),
            Event::NicArrival { packet } => self.nic_arrival(packet),
            Event::Deliver { packet } => self.deliver(packet),
            Event::ConnectTimeout { connection } => self.connect_timeout(connection),
            Event::PeerLost { connection, side } => {
                self.lose_lane(connection, usize::from(side), LaneFault::PeerGone);
            }
        }
    }

    /// The fabric's time.
    pub fn now(&self) -> Picos {
        self.now
    }

    pub fn host_count(&self) -> usize {
        self.hosts.len()
    }

    pub fn host(&self, host: u32) -> &HostState {
        &self.hosts[host as usize]
    }

    /// The fingerprint of all that has happened.
    pub fn trace_hash(&self) -> u64 {
        self.hash.value()
    }

    /// What has happened so far.
    pub fn totals(&self) -> Totals {
        Totals {
            now: self.now,
            peak_events: self.queue.peak(),
            peak_packets: self.packets.peak(),
            memory_bytes: self.queue.memory_bytes() + self.packets.memory_bytes() + self.lanes.ring_bytes,
            ..self.totals
        }
    }

    /// Remembers from now on which packets found queues full.
    pub fn record_overflows(&mut self) {
        self.overflows.get_or_insert_default();
    }

    /// How many packets between two hosts found queues full, as far as that is recorded.
    pub fn overflows_between(&self, hosts: (u32, u32), from: Picos, until: Picos) -> usize {
        self.overflows.as_ref().map_or(0, |overflows| overflows.between(hosts, from, until))
    }

    /// What a host has done.
    pub fn host_usage(&self, host: u32) -> HostUsage {
        self.host(host).usage_at(self.now)
    }

    /// What the NIC of a host's machine has done.
    pub fn nic_usage(&self, host: u32) -> NicUsage {
        self.nics[self.host(host).machine as usize].usage()
    }

    /// What the network cards have done, machine by machine.
    pub fn nic_usages(&self) -> Vec<NicUsage> {
        self.nics.iter().map(Nic::usage).collect()
    }

    /// What the ports down to the machines have done, machine by machine.
    pub fn port_usages(&self) -> Vec<PortUsage> {
        self.ports.iter().take(self.nics.len()).map(|port| port.usage(self.now)).collect()
    }

    /// What the racks' uplinks have done, rack by rack.
    pub fn uplink_usage(&self) -> Vec<PortUsage> {
        let uplinks = self.ports.iter().zip(0..).filter(|(_, port)| self.layout.is_uplink(*port));
        uplinks.map(|(port, _)| port.usage(self.now)).collect()
    }

    /// What the switch's port to a host's machine has done.
    pub fn port_usage(&self, host: u32) -> PortUsage {
        self.ports[self.host(host).machine as usize].usage(self.now)
    }
}
