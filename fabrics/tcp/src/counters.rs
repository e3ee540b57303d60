//! What a TCP endpoint counts.

farcall_driver::declare_counters! {
    /// The counters of one TCP endpoint, labelled `tcp ADDRESS`.
    pub struct TcpCounters {
        connections_opened: "connections" => "Connections that were opened from here",
        connections_accepted: "connections" => "Connections that others opened",
        connections_lost: "connections" => "Connections that ended without having been given up here",
        strangers_displaced: "connections" => "Connections closed before they had introduced themselves, because others came",
        strangers_expired: "connections" => "Connections closed because they did not introduce themselves in time",
        accepts_failed: "times" => "Connections that could not be accepted, for want of descriptors or memory",
        malformed: "connections" => "Connections closed because of bytes that no correct peer sends",
        tls_refused: "connections" => "Connections closed because TLS failed: a wrong key or certificate, or no TLS",
        tls_not_renewed: "times" => "Changed keys or certificates that could not be read; the former stay in use",
        slow_readers: "connections" => "Connections closed because too much waited for a peer that does not read",
        send_calls: "calls" => "System calls that sent something",
        bytes_sent: "bytes" => "Bytes that the kernel took, frames included",
        send_blocked: "times" => "The kernel took less than there was, because its buffer was full",
        receive_calls: "calls" => "System calls that received something",
        bytes_received: "bytes" => "Bytes that came, frames included",
        messages_in_pieces: "messages" => "Long messages that were sent in pieces, between which short ones may leave",
    }
}
