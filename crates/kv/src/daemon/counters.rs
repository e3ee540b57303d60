//! What a daemon counts.

farcall_driver::declare_counters! {
    /// The turns of one daemon's poll loop, and what it found.
    pub struct DaemonCounters {
        turns: "turns" => "Turns of the poll loop",
        slot_requests: "requests" => "Requests that clients put into slots",
        local: "requests" => "Requests of slots that were answered in place",
        remote: "requests" => "Requests of slots that were passed on to another shard",
        responses: "answers" => "Answers of other shards",
        unanswered: "requests" => "Requests that were passed on, or were to be, and got no answer",
        incoming: "requests" => "Requests of other shards and of network clients",
        malformed: "requests" => "Requests of slots that are none",
        too_long: "answers" => "Answers that did not fit into their slot",
        attached: "clients" => "Clients that came",
        detached: "clients" => "Clients that went or were sent away",
        refused: "clients" => "Clients that were refused",
        not_allowed: "requests" => "Requests that the policy refused",
    }
}
