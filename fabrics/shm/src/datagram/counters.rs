//! What packets through shared memory are counted as.

farcall_driver::declare_counters! {
    /// The counters of one shared-memory packet driver, labelled `shm ADDRESS`.
    pub struct ShmDatagramCounters {
        packets_sent: "packets" => "Packets written into a peer's memory",
        bytes_sent: "bytes" => "Payload of the packets sent",
        packets_kept: "packets" => "Packets that waited because the peer's slots were full or it was not connected yet",
        queue_full: "times" => "Packets refused because the queue of waiting packets was full",
        dropped_gone: "packets" => "Packets dropped because the peer is gone or could not be connected",
        dropped_stalled: "packets" => "Packets dropped because the peer has not read anything for too long",
        dropped_too_long: "packets" => "Packets dropped because they were over the peer's MTU",
        dropped_stale: "packets" => "Packets dropped because their destination has been forgotten",
        packets_received: "packets" => "Packets handed to the caller",
        bytes_received: "bytes" => "Payload of the packets received",
        slots_exhausted: "times" => "Receives that found all slots of a peer held by the caller",
        connections_up: "connections" => "Connections that came up, called and accepted",
        connections_down: "connections" => "Connections that ended or never came up",
        connections_corrupt: "connections" => "Connections ended here because the peer broke the rules",
    }
}
