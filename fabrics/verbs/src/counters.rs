//! What verbs drivers count.

farcall_driver::declare_counters! {
    /// The counters of one datagram driver, labelled `verbs DEVICE`.
    pub struct VerbsDatagramCounters {
        packets_sent: "packets" => "Packets that the card took",
        bytes_sent: "bytes" => "Payload of the packets sent",
        packets_inlined: "packets" => "Packets sent that travelled inside their request",
        doorbells: "doorbells" => "Times that requests were handed to the card",
        send_completions: "completions" => "Reports of the card that packets have left",
        queue_full: "times" => "Packets refused because the send queue was full",
        packets_unsendable: "packets" => "Packets lost because there is no way to the peer or the card refused them",
        stale_destinations: "packets" => "Packets dropped because their destination had been replaced by another peer",
        packets_received: "packets" => "Packets handed to the caller",
        bytes_received: "bytes" => "Payload of the packets received",
        receives_posted: "receives" => "Buffers handed to the card for packets to come",
        packets_malformed: "packets" => "Packets dropped because they were shorter than their own header or had no sender",
        completion_errors: "completions" => "Requests that the card could not carry out",
        restarts: "times" => "The queue pair was set up again after a failure; packets with the card were lost",
        buffers_exhausted: "times" => "Receives that found the card without buffers because the caller holds them all",
        port_losses: "times" => "The port lost its link",
        port_recoveries: "times" => "The port got its link again",
        peers_replaced: "peers" => "Peers known only from their packets that made room for others",
        pinned_bytes: "bytes" => "Memory that the whole process has registered with RDMA devices now",
    }
}

farcall_driver::declare_counters! {
    /// The counters of one lane driver, labelled `verbs DEVICE`.
    pub struct VerbsLaneCounters {
        blocks_read: "blocks" => "Large payloads read from the memory of peers",
        bytes_read: "bytes" => "Their lengths",
        landings_delayed: "times" => "Large payloads that had to wait for memory to be read into",
        lanes_failed: "lanes" => "Lanes that ended because the card reported a failure",
        port_losses: "times" => "The port lost its link",
        port_recoveries: "times" => "The port got its link again",
        pinned_bytes: "bytes" => "Memory that the whole process has registered with RDMA devices now",
    }
}
