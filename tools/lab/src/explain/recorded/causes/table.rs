//! Every cause that is known, one a row: what it is read from, how it is called, and the experiment that
//! would refute it.

use super::scheduled::Part;

/// From where the time that a cause takes is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reads {
    /// Parts of the fabric, by their names in `uses`: how busy they are, and what is there at a time.
    Resources(&'static [&'static str]),
    /// Kinds of work of processors.
    Work(&'static [&'static str]),
    /// Waits for what is sent again, as far as packets were lost in these places or by these counters.
    Lost(&'static [&'static str]),
    /// Operations that are nowhere on the fabric, where these counters say that they had to wait to leave.
    Room(&'static [&'static str]),
    /// Pauses of servers, or of clients.
    Stood(Side),
    /// One host of servers, or of clients, that has work all the time while the others have not.
    Uneven(Side),
    /// Packets that a fault holds up, each for `fault.delay_time`.
    HeldUp,
    /// The number of operations in flight, where nothing else has work all the time.
    Window,
    /// What an open loop offered, where less was carried.
    Load,
}

/// Who calls and who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Those that answer.
    Servers,
    /// Those that call.
    Clients,
}

/// What the next experiment changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// The parameter, a time, becomes smaller.
    Divide(&'static str),
    /// The parameter, a rate, becomes larger.
    Multiply(&'static str),
    /// The parameter, room of some kind, becomes that many times larger.
    Enlarge(&'static str, f64),
    /// Each parameter of these that was set becomes zero.
    Zero(&'static [&'static str]),
    /// An option of the command gets that value.
    Option(&'static str, &'static str),
    /// The option that says how much is in flight gets twice its value.
    MoreInFlight,
    /// The open loop offers less than was carried.
    LessLoad,
    /// Nothing that a command line can change.
    Words(&'static str),
}

/// A cause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// Its name in findings and scores.
    pub name: &'static str,
    /// What it is read from.
    pub reads: Reads,
    /// What it is, for people.
    pub cause: &'static str,
    /// The experiment that would refute it.
    pub change: Change,
    /// What of a schedule of faults it may come from: the experiment leaves that out, and nothing else.
    pub scheduled: Option<Part>,
}

/// A counter that counts less often than this share of operations refuses too little to matter.
pub const REFUSED_MIN: f64 = 0.01;

const fn rule(name: &'static str, reads: Reads, cause: &'static str, change: Change) -> Rule {
    Rule { name, reads, cause, change, scheduled: None }
}

impl Rule {
    const fn of_schedule(self, part: Part) -> Self {
        Self { scheduled: Some(part), ..self }
    }
}

/// All of them. A new cause is a new row.
pub const RULES: &[Rule] = {
    use Change::{Divide, Enlarge, LessLoad, MoreInFlight, Multiply, Option, Words, Zero};
    use Part::{Events, Packets};
    use Reads::{HeldUp, Load, Lost, Resources, Room, Stood, Uneven, Window, Work};
    &[
        rule(
            "receive_queue",
            Lost(&["receive_queue"]),
            "the receive queue of a host: packets that find it full are lost",
            Enlarge("fabric.nic.receive_queue_packets", 64.0),
        ),
        rule(
            "nic_buffer",
            Lost(&["nic"]),
            "the receive buffer of a network card: packets that find it full are lost",
            Enlarge("fabric.nic.receive_buffer_bytes", 64.0),
        ),
        rule(
            "port_buffer",
            Lost(&["port"]),
            "the buffer of a switch's port: packets that find it full are lost",
            Enlarge("fabric.switch.port_buffer_bytes", 64.0),
        ),
        rule(
            "loss",
            Lost(&["dropped", "fault"]),
            "packets that are lost on their way, and waits for what is sent again",
            Zero(&["fault.drop_permille"]),
        )
        .of_schedule(Packets(&["drop"])),
        rule(
            "corruption",
            Lost(&["checksum_errors", "truncated"]),
            "packets that are altered on their way, and waits for what is sent again",
            Zero(&["fault.corrupt_permille", "fault.truncate_permille"]),
        )
        .of_schedule(Packets(&["corrupt", "truncate"])),
        rule(
            "partition",
            Lost(&["partition", "host_down"]),
            "a partition or a host that is down: packets to the other side are lost",
            Words("the same run without the partition"),
        )
        .of_schedule(Events(&["partition", "heal", "crash", "restart"])),
        rule(
            "ring_room",
            Room(&["waited_for_room"]),
            "room in the rings",
            Enlarge("fabric.lanes.ring_bytes", 16.0),
        ),
        rule(
            "block_memory",
            Room(&["blocks_full"]),
            "block memory for long payloads",
            Enlarge("fabric.lanes.block_bytes", 64.0),
        ),
        rule(
            "message_window",
            Room(&["window_full"]),
            "the peer's window for tagged messages",
            Enlarge("endpoint.unexpected_bytes", 16.0),
        ),
        rule(
            "send_queue",
            Room(&["send_queue_full"]),
            "the send queue of the network card",
            Enlarge("fabric.nic.send_queue_packets", 64.0),
        ),
        rule(
            "grants",
            Room(&["grants_sent"]),
            "grants: long messages wait for permission to send the rest",
            Enlarge("PROTOCOL.rtt_bytes", 16.0),
        ),
        rule("handler", Work(&["handler"]), "the handler", Option("--handler", "0ns")),
        rule(
            "serving",
            Work(&["serving"]),
            "what handlers and completions take a processor",
            Divide("fabric.host.handler_ns"),
        ),
        rule("poll", Work(&["poll"]), "turns of the poll loop", Divide("fabric.host.poll_ns")),
        rule(
            "make_packets",
            Work(&["make_packets"]),
            "a processor that makes packets",
            Divide("fabric.host.send_packet_ns"),
        ),
        rule("copy_out", Work(&["copy_out"]), "copies into packets", Divide("fabric.host.send_byte_ns")),
        rule(
            "descriptors",
            Work(&["descriptors"]),
            "descriptors that a processor writes",
            Divide("fabric.nic.descriptor_ns"),
        ),
        rule(
            "doorbells",
            Work(&["doorbells"]),
            "doorbells that a processor rings",
            Divide("fabric.nic.doorbell_ns"),
        ),
        rule(
            "take_packets",
            Work(&["take_packets"]),
            "a processor that takes packets in",
            Divide("fabric.host.receive_packet_ns"),
        ),
        rule("copy_in", Work(&["copy_in"]), "copies out of packets", Divide("fabric.host.receive_byte_ns")),
        rule(
            "nic_sending",
            Resources(&["nic_sending"]),
            "the sending engine of the network card",
            Divide("fabric.nic.transmit_packet_ns"),
        ),
        rule(
            "nic_receiving",
            Resources(&["nic_receiving"]),
            "the receiving engine of the network card",
            Divide("fabric.nic.receive_packet_ns"),
        ),
        rule(
            "pcie",
            Resources(&["nic_reads", "nic_writes"]),
            "PCIe: the network card's reads and writes of memory",
            Multiply("fabric.nic.pcie_gbps"),
        ),
        rule(
            "pcie_requests",
            Resources(&["nic_read_requests"]),
            "PCIe: the requests by which the network card reads memory",
            Divide("fabric.nic.dma_read_ns"),
        ),
        rule(
            "link",
            Resources(&["nic_link", "port"]),
            "a link between a machine and its switch",
            Multiply("fabric.link.gbps"),
        ),
        rule(
            "uplink",
            Resources(&["uplink"]),
            "the links that racks share",
            Multiply("fabric.topology.two-level.uplink_gbps"),
        ),
        rule(
            "receive_path",
            Resources(&["receive_path"]),
            "the receive path that the servers of a machine share",
            Multiply("fabric.receive_path.gbps"),
        ),
        rule(
            "flight",
            Resources(&["flight"]),
            "the time of flight on links",
            Divide("fabric.link.propagation_ns"),
        ),
        rule(
            "switching",
            Resources(&["switching"]),
            "the latency of switches",
            Divide("fabric.switch.latency_ns"),
        ),
        rule(
            "pcie_trips",
            Resources(&["pcie_trips"]),
            "round trips across PCIe",
            Divide("fabric.nic.pcie_round_trip_ns"),
        ),
        rule("held_up", HeldUp, "a fault that holds packets up", Zero(&["fault.delay_permille"]))
            .of_schedule(Packets(&["delay", "reorder"])),
        rule(
            "standstill",
            Stood(Side::Servers),
            "a server whose processor stands still",
            Words("the same run with nothing else on the server's core"),
        )
        .of_schedule(Events(&["pause", "resume"])),
        rule(
            "client_standstill",
            Stood(Side::Clients),
            "a client whose processor stands still",
            Words("the same run with nothing else on the client's core"),
        )
        .of_schedule(Events(&["pause", "resume"])),
        rule(
            "slow_server",
            Uneven(Side::Servers),
            "one server that is slower than the others, or has more to do",
            Words("the same run without that server, or with its part of the load spread over the others"),
        )
        .of_schedule(Events(&["slow"])),
        rule(
            "slow_host",
            Uneven(Side::Clients),
            "one host that is slower than the others, or has more to do",
            Words("the same run without that host, or with its part of the load spread over the others"),
        )
        .of_schedule(Events(&["slow"])),
        rule("window", Window, "the window: too little is in flight", MoreInFlight),
        rule("saturation", Load, "saturation: more is offered than is carried", LessLoad),
    ]
};
