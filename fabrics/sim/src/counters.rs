//! What a simulated fabric counts, for readers outside of the process.

use crate::world::Totals;

farcall_driver::declare_counters! {
    /// The counters of one simulated fabric, labelled `sim PROFILE`. Brought up to date now and then.
    pub struct SimCounters {
        simulated_time: "ns" => "Simulated time since the beginning",
        events: "events" => "Events of all kinds, turns of hosts included",
        packet_events: "events" => "Stages of their ways that packets passed",
        turns: "turns" => "Turns that hosts have run",
        packets_sent: "packets" => "Packets that hosts have sent",
        packets_delivered: "packets" => "Packets that reached the memory of their host",
        bytes_delivered: "bytes" => "Payload of the packets delivered",
        drops_port: "packets" => "Packets that found the buffer of a switch's port full",
        drops_nic: "packets" => "Packets that found the buffer of the receiving network card full",
        drops_receive_queue: "packets" => "Packets that found their host's receive queue full",
        drops_host_down: "packets" => "Packets to hosts that were down, or that crashed with their sender",
        drops_fault: "packets" => "Packets lost to a fault",
        drops_partition: "packets" => "Packets lost to a partition",
        peak_events: "events" => "The most events that have waited at a time",
        peak_packets: "packets" => "The most packets that have been on the fabric at a time",
        memory: "bytes" => "Memory that the fabric holds for events, packets and rings",
    }
}

impl SimCounters {
    /// Shows these totals.
    pub(crate) fn show(&self, totals: &Totals) {
        self.simulated_time.set(totals.now.as_nanos());
        self.events.set(totals.events);
        self.packet_events.set(totals.packet_events);
        self.turns.set(totals.turns);
        self.packets_sent.set(totals.packets_sent);
        self.packets_delivered.set(totals.packets_delivered);
        self.bytes_delivered.set(totals.bytes_delivered);
        self.drops_port.set(totals.drops_port);
        self.drops_nic.set(totals.drops_nic);
        self.drops_receive_queue.set(totals.drops_receive_queue);
        self.drops_host_down.set(totals.drops_host_down);
        self.drops_fault.set(totals.drops_fault);
        self.drops_partition.set(totals.drops_partition);
        self.peak_events.set(totals.peak_events as u64);
        self.peak_packets.set(totals.peak_packets as u64);
        self.memory.set(totals.memory_bytes as u64);
    }
}
