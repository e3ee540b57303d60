//! What the driver counts.

farcall_driver::declare_counters! {
    /// The counters of one driver, labelled `ofi PROVIDER`.
    pub struct OfiDatagramCounters {
        packets_sent: "packets" => "Packets that the provider took",
        bytes_sent: "bytes" => "Payload of the packets sent",
        packets_injected: "packets" => "Packets sent that the provider copied at once",
        provider_full: "times" => "Flushes that left packets because the provider had no room",
        queue_full: "times" => "Packets refused because the send queue was full",
        packets_unsendable: "packets" => "Packets lost because the provider cannot use the address or refused them",
        stale_destinations: "packets" => "Packets dropped because their destination had been replaced by another peer",
        packets_received: "packets" => "Packets handed to the caller",
        bytes_received: "bytes" => "Payload of the packets received",
        packets_malformed: "packets" => "Packets dropped because they were shorter than an address",
        receive_failures: "receives" => "Receives that the provider reported as failed",
        peers_replaced: "peers" => "Peers known only from their packets that made room for others",
    }
}
