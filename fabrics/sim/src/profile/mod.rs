//! What a fabric is made of: the costs and rates of its hosts, NICs, links and switches.
//!
//! A profile is a TOML file, read once into these types; `docs/simulation.md` describes each field for people
//! who write one. Every field must be given: a default would be a property of a fabric that nobody stated.

mod load;

use core::fmt;

use serde::Deserialize;

pub use load::{EMBEDDED, ProfileError};

use crate::placement::Placement;
use crate::time::{PerByte, Picos};
use crate::values;

/// A kind of fabric.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The embedded name or the file that it was read from.
    #[serde(skip)]
    pub name: String,
    /// One line for people.
    pub description: String,
    /// What hosts compute with.
    pub host: HostCosts,
    /// The network cards, one a machine.
    pub nic: NicModel,
    /// The links between machines and their switches.
    pub link: LinkModel,
    /// Every switch.
    pub switch: SwitchModel,
    /// How machines and switches are connected.
    pub topology: Topology,
    /// A limit that all servers of a machine share when they receive; none unless given.
    pub receive_path: Option<ReceivePath>,
    /// Reliable connections.
    pub lanes: LaneModel,
    /// Which host runs on which machine.
    #[serde(default)]
    pub placement: Placement,
}

/// What a host's processor spends. A host is one server process with one polling thread.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostCosts {
    /// One turn of the poll loop, whether it finds something or not.
    #[serde(rename = "poll_ns", deserialize_with = "values::positive_nanos")]
    pub poll: Picos,
    /// Making a packet.
    #[serde(rename = "send_packet_ns", deserialize_with = "values::nanos")]
    pub send_packet: Picos,
    /// Copying a byte into a packet.
    #[serde(rename = "send_byte_ns", deserialize_with = "values::nanos_per_byte")]
    pub send_byte: PerByte,
    /// Taking a packet in.
    #[serde(rename = "receive_packet_ns", deserialize_with = "values::nanos")]
    pub receive_packet: Picos,
    /// Copying a byte out of a packet.
    #[serde(rename = "receive_byte_ns", deserialize_with = "values::nanos_per_byte")]
    pub receive_byte: PerByte,
    /// Running a handler; charged by its caller, see `Host::spend_handler`.
    #[serde(rename = "handler_ns", deserialize_with = "values::nanos")]
    pub handler: Picos,
    /// The most packets that one receive hands out.
    #[serde(deserialize_with = "values::positive_count")]
    pub burst_packets: usize,
}

/// A network card and its way to the machine's memory.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NicModel {
    /// The longest packet, without the fabric's own headers.
    #[serde(deserialize_with = "values::positive_count")]
    pub mtu_bytes: usize,
    /// Processor time to write one packet's descriptor.
    #[serde(rename = "descriptor_ns", deserialize_with = "values::nanos")]
    pub descriptor: Picos,
    /// Processor time to ring the doorbell, once a flush.
    #[serde(rename = "doorbell_ns", deserialize_with = "values::nanos")]
    pub doorbell: Picos,
    /// A read across PCIe and its answer. One way is half of it.
    #[serde(rename = "pcie_round_trip_ns", deserialize_with = "values::nanos")]
    pub pcie_round_trip: Picos,
    /// The rate of PCIe, each way.
    #[serde(rename = "pcie_gbps", deserialize_with = "values::gbps")]
    pub pcie: PerByte,
    /// How much one read request fetches.
    #[serde(deserialize_with = "values::positive_count")]
    pub dma_read_bytes: usize,
    /// How long each read request occupies PCIe beside its data.
    #[serde(rename = "dma_read_ns", deserialize_with = "values::nanos")]
    pub dma_read: Picos,
    /// Packets up to this length travel inside their descriptor: no read of memory.
    #[serde(deserialize_with = "values::count")]
    pub inline_bytes: usize,
    /// How long a packet occupies the sending engine: one over the message rate.
    #[serde(rename = "transmit_packet_ns", deserialize_with = "values::nanos")]
    pub transmit_packet: Picos,
    /// How long a packet occupies the receiving engine.
    #[serde(rename = "receive_packet_ns", deserialize_with = "values::nanos")]
    pub receive_packet: Picos,
    /// Packets that a host has handed over, or gathered, and whose places it has not got back.
    #[serde(deserialize_with = "values::positive_count")]
    pub send_queue_packets: usize,
    /// One in this many packets reports its completion, and the places of all come back with it.
    #[serde(deserialize_with = "values::positive_count")]
    pub signal_period: usize,
    /// Packets that wait for a host to receive them; one more is dropped.
    #[serde(deserialize_with = "values::positive_count")]
    pub receive_queue_packets: usize,
    /// Bytes that wait in the NIC on their way to memory; more are dropped.
    #[serde(deserialize_with = "values::positive_count")]
    pub receive_buffer_bytes: usize,
}

/// A link between a machine and its switch; both directions at once.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkModel {
    /// The rate of data, after line coding.
    #[serde(rename = "gbps", deserialize_with = "values::gbps")]
    pub rate: PerByte,
    /// The time of flight.
    #[serde(rename = "propagation_ns", deserialize_with = "values::nanos")]
    pub propagation: Picos,
    /// What the fabric adds to each packet: headers, checksums, gaps.
    #[serde(deserialize_with = "values::count")]
    pub header_bytes: usize,
}

/// A switch.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchModel {
    /// Whether a packet to an idle port leaves while it comes in, instead of being stored first.
    pub cut_through: bool,
    /// From the input to the output queue.
    #[serde(rename = "latency_ns", deserialize_with = "values::nanos")]
    pub latency: Picos,
    /// Bytes that wait at one output port, all priorities together; a packet that finds no room is dropped.
    #[serde(deserialize_with = "values::positive_count")]
    pub port_buffer_bytes: usize,
}

/// How machines are connected.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Topology {
    /// All machines at one switch.
    SingleSwitch(SingleSwitch),
    /// A switch in each rack, and a second level that connects the racks.
    TwoLevel(TwoLevel),
}

/// All machines at one switch.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SingleSwitch {
    /// Ports of the switch.
    #[serde(deserialize_with = "values::positive_count")]
    pub machines: usize,
    /// Hosts that share a machine's NIC.
    #[serde(deserialize_with = "values::positive_count")]
    pub servers_per_machine: usize,
}

/// Racks, and switches above them: each uplink of a rack leads to another one.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TwoLevel {
    /// How many racks.
    #[serde(deserialize_with = "values::positive_count")]
    pub racks: usize,
    /// Machines in each.
    #[serde(deserialize_with = "values::positive_count")]
    pub machines_per_rack: usize,
    /// Hosts that share a machine's NIC.
    #[serde(deserialize_with = "values::positive_count")]
    pub servers_per_machine: usize,
    /// Links from each rack up, one to each switch of the second level.
    #[serde(deserialize_with = "values::positive_count")]
    pub uplinks_per_rack: usize,
    /// The rate of each of them.
    #[serde(rename = "uplink_gbps", deserialize_with = "values::gbps")]
    pub uplink: PerByte,
    /// Which of them a packet takes.
    pub uplink_choice: UplinkChoice,
}

/// Which uplink a packet takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UplinkChoice {
    /// All packets of a pair of hosts the same one, drawn by the seed.
    Flow,
    /// Each packet the next one in turn; packets may overtake each other. Lanes are ordered and keep to one.
    Packet,
}

/// A limit of receiving that all servers of a machine share, such as a driver's thread.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceivePath {
    /// What passes when one host sends.
    #[serde(rename = "gbps", deserialize_with = "values::gbps")]
    pub rate: PerByte,
    /// How much longer a byte takes for every host that sends to this machine at the time, as a part of the
    /// time that it takes alone. 0 removes the dependence on scale.
    #[serde(deserialize_with = "values::fraction")]
    pub slowdown_per_source: f64,
    /// How long a host counts as sending after a packet of its.
    #[serde(rename = "source_window_us", deserialize_with = "values::micros")]
    pub source_window: Picos,
}

/// Reliable connections: byte rings in the peer's memory.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaneModel {
    /// The ring of each direction.
    #[serde(deserialize_with = "values::power_of_two")]
    pub ring_bytes: usize,
    /// Memory of each host for loans.
    #[serde(deserialize_with = "values::positive_count")]
    pub block_bytes: usize,
    /// How long after a host's crash its peers are told.
    #[serde(rename = "detection_us", deserialize_with = "values::micros")]
    pub detection: Picos,
}

impl Profile {
    /// The same kind of fabric with places for this many hosts: more racks with their uplinks, or more
    /// machines at the single switch, where it has too few.
    pub fn scaled_to(&self, hosts: usize) -> Self {
        Self { topology: self.topology.scaled_to(hosts), ..self.clone() }
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SingleSwitch(single) => write!(f, "{} machines at one switch", single.machines),
            Self::TwoLevel(levels) => {
                write!(f, "{} racks of {} machines", levels.racks, levels.machines_per_rack)
            }
        }
    }
}

impl Topology {
    fn scaled_to(self, hosts: usize) -> Self {
        match self {
            Self::SingleSwitch(single) => {
                let machines = single.machines.max(hosts.div_ceil(single.servers_per_machine));
                Self::SingleSwitch(SingleSwitch { machines, ..single })
            }
            Self::TwoLevel(levels) => {
                let of_rack = levels.machines_per_rack * levels.servers_per_machine;
                Self::TwoLevel(TwoLevel { racks: levels.racks.max(hosts.div_ceil(of_rack)), ..levels })
            }
        }
    }

    /// How many machines have a place.
    pub fn machines(&self) -> usize {
        match self {
            Self::SingleSwitch(single) => single.machines,
            Self::TwoLevel(levels) => levels.racks * levels.machines_per_rack,
        }
    }

    /// Hosts that share a machine's NIC.
    pub fn servers_per_machine(&self) -> usize {
        match self {
            Self::SingleSwitch(single) => single.servers_per_machine,
            Self::TwoLevel(levels) => levels.servers_per_machine,
        }
    }

    /// The most hosts.
    pub fn places(&self) -> usize {
        self.machines() * self.servers_per_machine()
    }
}
