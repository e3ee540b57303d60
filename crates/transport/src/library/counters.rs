//! What a library transport counts.

farcall_driver::declare_counters! {
    /// The traffic of one transport over a library.
    pub struct LibraryCounters {
        calls_sent: "calls" => "Requests handed to the library",
        messages_sent: "messages" => "Tagged messages that left",
        messages_received: "messages" => "Tagged messages that arrived",
        unexpected: "messages" => "Tagged messages that had to be kept because no receive waited for them",
        batches_sent: "messages" => "Messages of the library that carried short tagged messages",
        window_full: "messages" => "Tagged messages that had to wait for their session or for the peer's window",
        beyond_window: "messages" => "Tagged messages that left past a full window, because a receive waited for them",
        waited_for_session: "calls" => "Requests that had to wait for their session",
        held_up: "calls" => "Requests that had to wait because too much waited for their peer",
        lives_asked: "questions" => "Asked whether the process of a silent peer lives",
        lives_found: "answers" => "Found that the process of a silent peer lives: the peer is late",
        deaths_reported: "peers" => "Peers that the library itself reported dead",
        unknown_sessions: "messages" => "Messages of sessions that are over, or never were",
        malformed: "messages" => "Messages that no correct peer sends",
        violations: "sessions" => "Sessions ended because the peer broke the protocol",
    }
}
