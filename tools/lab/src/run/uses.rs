//! What each resource of a simulated fabric had to do during a measurement, as records keep it.
//!
//! Of every resource there may be many, one a host or a machine: how busy is said of the busiest, because it
//! alone can limit; how many packets were there is said of all together, because by Little's law that is
//! where operations spend their time.

use std::collections::BTreeMap;

use farcall::simulated::{
    Fabric, HostUsage, NicUsage, Picos, PortUsage, Profile, Spent, StageUsage, Totals, Work,
};
use serde::{Deserialize, Serialize};

/// What one kind of resource had to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Use {
    /// The number of the busiest one: of its host, machine or uplink.
    pub at: u32,
    /// The share of the time for which the busiest one was at work.
    pub busy: f64,
    /// How many packets were there at a time, waiting or in work, those of all together.
    pub there: f64,
    /// How many of them were in work, and did not wait.
    pub working: f64,
}

/// What the processors of hosts of one role did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostUse {
    /// The busiest of them.
    pub at: u32,
    /// The share of the time for which it was at work.
    pub busy: f64,
    /// The share of the time for which the one that stood still the longest did.
    pub stood: f64,
    /// How many packets and records waited for a processor at a time, those of all hosts together.
    pub unread: f64,
    /// How many processors were at work at a time, all together.
    pub working: f64,
    /// The share of its time that the busiest one spent on each kind of work, by its name.
    pub work: BTreeMap<String, f64>,
}

/// What all resources had to do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Uses {
    /// The time that it is about, in nanoseconds.
    pub window_nanos: f64,
    /// Packets that reached their host.
    pub packets: u64,
    /// Packets that found a queue full or were lost, by place.
    pub drops: BTreeMap<String, u64>,
    /// The share of the time for which the send queue was full of the host whose was so the longest.
    pub send_queue_full: f64,
    /// Hosts that answer.
    pub servers: HostUse,
    /// Hosts that call; where all do both, they are here and not among the servers.
    pub clients: HostUse,
    /// Parts of cards, ports and paths, by name.
    pub resources: BTreeMap<String, Use>,
    /// The values of the profile's fields, by the names that `--set` takes.
    pub fields: BTreeMap<String, f64>,
}

/// The names of kinds of work.
const WORK: [(Work, &str); 9] = [
    (Work::Poll, "poll"),
    (Work::MakePackets, "make_packets"),
    (Work::CopyOut, "copy_out"),
    (Work::Descriptors, "descriptors"),
    (Work::Doorbells, "doorbells"),
    (Work::TakePackets, "take_packets"),
    (Work::CopyIn, "copy_in"),
    (Work::Serving, "serving"),
    (Work::Handler, "handler"),
];

/// What a fabric had done at one time.
#[derive(Clone, Debug)]
pub struct Ledger {
    totals: Totals,
    hosts: Vec<HostUsage>,
    nics: Vec<NicUsage>,
    ports: Vec<PortUsage>,
    uplinks: Vec<PortUsage>,
}

impl Ledger {
    /// What it has done until now.
    pub fn of(fabric: &Fabric) -> Self {
        let hosts: Vec<_> = (0..fabric.host_count()).map(|host| fabric.host(host)).collect();
        Self {
            totals: fabric.totals(),
            hosts: hosts.iter().map(|host| host.usage()).collect(),
            nics: fabric.nic_usage(),
            ports: fabric.port_usage(),
            uplinks: fabric.uplink_usage(),
        }
    }

    /// What was done since `before`; hosts below `servers` only answer.
    pub fn since(&self, before: &Self, servers: usize, profile: &Profile) -> Uses {
        let window = (self.totals.now - before.totals.now).0.max(1) as f64;
        let span = Span { before, after: self, window };
        let drops = |of: fn(&Totals) -> u64| of(&self.totals) - of(&before.totals);
        let drops = [
            ("port", drops(|totals| totals.drops_port)),
            ("nic", drops(|totals| totals.drops_nic)),
            ("receive_queue", drops(|totals| totals.drops_receive_queue)),
            ("host_down", drops(|totals| totals.drops_host_down)),
            ("fault", drops(|totals| totals.drops_fault)),
            ("partition", drops(|totals| totals.drops_partition)),
        ];
        Uses {
            window_nanos: window / 1e3,
            packets: self.totals.packets_delivered - before.totals.packets_delivered,
            drops: drops.into_iter().map(|(place, count)| (place.to_owned(), count)).collect(),
            send_queue_full: span.send_queue_full(),
            servers: span.hosts(0..servers),
            clients: span.hosts(servers..self.hosts.len()),
            resources: span.resources(profile).into_iter().map(|(name, on)| (name.to_owned(), on)).collect(),
            fields: fields(profile),
        }
    }
}

/// A stretch of time.
struct Span<'a> {
    before: &'a Ledger,
    after: &'a Ledger,
    /// In picoseconds.
    window: f64,
}

impl Span<'_> {
    fn share(&self, after: Picos, before: Picos) -> f64 {
        (after - before).0 as f64 / self.window
    }

    fn hosts(&self, range: core::ops::Range<usize>) -> HostUse {
        let busy = |host: usize| self.share(self.after.hosts[host].busy, self.before.hosts[host].busy);
        let Some(at) = range.clone().max_by(|a, b| busy(*a).total_cmp(&busy(*b))) else {
            return HostUse::default();
        };
        let sum = |of: fn(&HostUsage) -> Picos| -> f64 {
            let share = |host: usize| self.share(of(&self.after.hosts[host]), of(&self.before.hosts[host]));
            range.clone().map(share).sum()
        };
        let stood = |host: usize| self.share(self.after.hosts[host].stood, self.before.hosts[host].stood);
        let spent = |spent: &Spent, before: &Spent, work: Work| self.share(spent.on(work), before.on(work));
        let (after, before) = (&self.after.hosts[at].spent, &self.before.hosts[at].spent);
        let work = WORK.iter().map(|(work, name)| ((*name).to_owned(), spent(after, before, *work)));
        HostUse {
            at: at as u32,
            busy: busy(at),
            stood: range.clone().map(stood).fold(0.0, f64::max),
            unread: sum(|host| host.unread),
            working: sum(|host| host.busy),
            work: work.collect(),
        }
    }

    fn send_queue_full(&self) -> f64 {
        let pairs = self.after.hosts.iter().zip(&self.before.hosts);
        let full = pairs.map(|(after, before)| self.share(after.queue_full, before.queue_full));
        full.fold(0.0, f64::max)
    }

    fn resources(&self, profile: &Profile) -> Vec<(&'static str, Use)> {
        let stage = |of: fn(&NicUsage) -> StageUsage| {
            let usage = |ledger: &Ledger| ledger.nics.iter().map(of).collect::<Vec<_>>();
            self.busiest(&usage(self.after), &usage(self.before))
        };
        let port = |ports: fn(&Ledger) -> &[PortUsage]| {
            let of =
                |port: &PortUsage| StageUsage { busy: port.busy, waited: port.waited, packets: port.packets };
            let usage = |ledger: &Ledger| ports(ledger).iter().map(of).collect::<Vec<_>>();
            self.busiest(&usage(self.after), &usage(self.before))
        };
        let mut reads = stage(|nic| nic.memory_reads);
        let requests = self.part_of_reads(reads);
        reads.there -= requests.there;
        reads.working -= requests.working;
        let mut all = vec![
            ("nic_reads", reads),
            ("nic_read_requests", requests),
            ("nic_sending", stage(|nic| nic.sending)),
            ("nic_link", stage(|nic| nic.link)),
            ("nic_receiving", stage(|nic| nic.receiving)),
            ("receive_path", stage(|nic| nic.receive_path)),
            ("nic_writes", stage(|nic| nic.memory_writes)),
            ("port", port(|ledger| &ledger.ports)),
            ("uplink", port(|ledger| &ledger.uplinks)),
        ];
        all.extend(self.delays(profile));
        let held = self.share(self.after.totals.held_up, self.before.totals.held_up);
        all.push(("held_up", Use { there: held, working: held, ..Use::default() }));
        all
    }

    /// The part of the cards' reads that is their requests: it has its share of what waits.
    fn part_of_reads(&self, reads: Use) -> Use {
        let sum = |ledger: &Ledger, of: fn(&NicUsage) -> Picos| -> u64 {
            ledger.nics.iter().map(|nic| of(nic).0).sum()
        };
        let grown = |of: fn(&NicUsage) -> Picos| (sum(self.after, of) - sum(self.before, of)) as f64;
        let part = grown(|nic| nic.read_requests) / grown(|nic| nic.memory_reads.busy).max(1.0);
        let Use { at, busy, there, working } = reads;
        Use { at, busy: busy * part, there: there * part, working: working * part }
    }

    fn busiest(&self, after: &[StageUsage], before: &[StageUsage]) -> Use {
        let zero = StageUsage::default();
        let pairs = || after.iter().zip(before.iter().chain(core::iter::repeat(&zero))).zip(0..);
        let busy = |((after, before), at): ((&StageUsage, &StageUsage), u32)| {
            (self.share(after.busy, before.busy), at)
        };
        let (busy, at) = pairs().map(busy).max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_default();
        let there = |((after, before), _): ((&StageUsage, &StageUsage), u32)| {
            self.share(after.busy + after.waited, before.busy + before.waited)
        };
        let working =
            |((after, before), _): ((&StageUsage, &StageUsage), u32)| self.share(after.busy, before.busy);
        Use { at, busy, there: pairs().map(there).sum(), working: pairs().map(working).sum() }
    }

    /// What nothing waits for and takes its time all the same.
    fn delays(&self, profile: &Profile) -> [(&'static str, Use); 3] {
        let stages = |of: fn(&NicUsage) -> StageUsage| -> f64 {
            let sum = |ledger: &Ledger| ledger.nics.iter().map(|nic| of(nic).packets).sum::<u64>();
            (sum(self.after) - sum(self.before)) as f64
        };
        let ports = |of: fn(&Ledger) -> &[PortUsage]| -> f64 {
            let sum = |ledger: &Ledger| of(ledger).iter().map(|port| port.packets).sum::<u64>();
            (sum(self.after) - sum(self.before)) as f64
        };
        let (links, down, up) =
            (stages(|nic| nic.link), ports(|ledger| &ledger.ports), ports(|ledger| &ledger.uplinks));
        // What goes up comes down again: a second hop each, and a third into the machine's rack.
        let flights = links + down + 2.0 * up;
        let switched = links + 2.0 * up;
        // The doorbell and the write into memory are half a round trip each, a read is a whole one.
        let trips = stages(|nic| nic.memory_reads)
            + 0.5 * stages(|nic| nic.sending)
            + 0.5 * stages(|nic| nic.receiving);
        let there = |passed: f64, delay: Picos| {
            let there = passed * delay.0 as f64 / self.window;
            Use { there, working: there, ..Use::default() }
        };
        [
            ("flight", there(flights, profile.link.propagation)),
            ("switching", there(switched, profile.switch.latency)),
            ("pcie_trips", there(trips, profile.nic.pcie_round_trip)),
        ]
    }
}

/// The fields that rules propose to change.
fn fields(profile: &Profile) -> BTreeMap<String, f64> {
    let nanos = |span: Picos| span.0 as f64 / 1e3;
    let gbps = |rate: farcall::simulated::PerByte| rate.bits_per_second() as f64 / 1e9;
    let per_byte = |rate: farcall::simulated::PerByte| rate.time(1 << 20).0 as f64 / 1e3 / (1 << 20) as f64;
    let (host, nic, link) = (&profile.host, &profile.nic, &profile.link);
    let fields = [
        ("host.poll_ns", nanos(host.poll)),
        ("host.send_packet_ns", nanos(host.send_packet)),
        ("host.send_byte_ns", per_byte(host.send_byte)),
        ("host.receive_packet_ns", nanos(host.receive_packet)),
        ("host.receive_byte_ns", per_byte(host.receive_byte)),
        ("host.handler_ns", nanos(host.handler)),
        ("nic.descriptor_ns", nanos(nic.descriptor)),
        ("nic.doorbell_ns", nanos(nic.doorbell)),
        ("nic.pcie_round_trip_ns", nanos(nic.pcie_round_trip)),
        ("nic.pcie_gbps", gbps(nic.pcie)),
        ("nic.dma_read_ns", nanos(nic.dma_read)),
        ("nic.transmit_packet_ns", nanos(nic.transmit_packet)),
        ("nic.receive_packet_ns", nanos(nic.receive_packet)),
        ("nic.send_queue_packets", nic.send_queue_packets as f64),
        ("nic.receive_queue_packets", nic.receive_queue_packets as f64),
        ("nic.receive_buffer_bytes", nic.receive_buffer_bytes as f64),
        ("link.gbps", gbps(link.rate)),
        ("link.propagation_ns", nanos(link.propagation)),
        ("switch.latency_ns", nanos(profile.switch.latency)),
        ("switch.port_buffer_bytes", profile.switch.port_buffer_bytes as f64),
        ("lanes.ring_bytes", profile.lanes.ring_bytes as f64),
        ("lanes.block_bytes", profile.lanes.block_bytes as f64),
    ];
    let path = profile.receive_path.map(|path| ("receive_path.gbps", gbps(path.rate)));
    let uplink = match &profile.topology {
        farcall::simulated::profile::Topology::TwoLevel(levels) => {
            Some(("topology.two-level.uplink_gbps", gbps(levels.uplink)))
        }
        farcall::simulated::profile::Topology::SingleSwitch(_) => None,
    };
    let all = fields.into_iter().chain(path).chain(uplink);
    all.map(|(name, value)| (format!("fabric.{name}"), value)).collect()
}
