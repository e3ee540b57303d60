//! What a UDP driver counts.

farcall_driver::declare_counters! {
    /// The counters of one UDP driver, labelled `udp ADDRESS`.
    pub struct UdpCounters {
        packets_sent: "packets" => "Packets that the kernel took",
        bytes_sent: "bytes" => "Payload of the packets sent",
        send_calls: "calls" => "System calls that sent something",
        packets_segmented: "packets" => "Packets sent as parts of one segmented buffer (UDP_SEGMENT)",
        send_blocked: "times" => "The kernel took nothing because its send buffer was full; the packets stayed queued",
        queue_full: "times" => "Packets refused because the send queue or the kernel's buffer was full",
        packets_unsendable: "packets" => "Packets lost because the kernel refused them for good (no route, too long)",
        stale_destinations: "packets" => "Packets dropped because their destination had been replaced by another peer",
        packets_received: "packets" => "Packets handed to the caller",
        bytes_received: "bytes" => "Payload of the packets received",
        receive_calls: "calls" => "System calls that received something",
        packets_coalesced: "packets" => "Packets received as parts of one buffer (UDP_GRO)",
        packets_truncated: "packets" => "Packets dropped because they were longer than this driver's MTU",
        undelivered: "packets" => "Packets that the network reported as not delivered (ICMP)",
        receive_errors: "errors" => "Errors of the socket on receive, such as a peer's port that is closed",
        buffers_exhausted: "times" => "Receives that had no buffer free because the caller holds all packets",
        connections: "times" => "Times that the second socket was connected to a peer because all packets came from it",
        peers_replaced: "peers" => "Peers known only from their packets that made room for others",
    }
}
