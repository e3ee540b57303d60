//! What a library transport counts.

farcall_driver::declare_counters! {
    /// The traffic of one transport over a library.
    pub struct LibraryCounters {
        calls_sent: "calls" => "Requests handed to the library",
        requests_received: "calls" => "Requests that arrived",
        responses_received: "calls" => "Responses that arrived",
        waited_for_session: "calls" => "Requests that had to wait for their session",
        peers_lost: "peers" => "Peers that the library itself reported dead",
        unknown_sessions: "messages" => "Messages of sessions that are over, or never were",
        malformed: "messages" => "Messages that no correct peer sends",
        violations: "sessions" => "Sessions ended because the peer broke the protocol",
    }
}
