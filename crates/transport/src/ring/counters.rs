//! What a ring transport counts.

farcall_driver::declare_counters! {
    /// The traffic of one ring transport and what held it up.
    pub struct RingCounters {
        messages_sent: "messages" => "Tagged messages that left",
        messages_received: "messages" => "Tagged messages that arrived",
        unexpected: "messages" => "Tagged messages that had to be kept because no receive waited for them",
        beyond_window: "messages" => "Tagged messages that left past a full window, because a receive waited for them",
        request_batches: "batches" => "Batches of several requests that were passed on together",
        response_batches: "batches" => "Batches of several responses that were passed on together",
        matched_batches: "batches" => "Batches of several messages that were passed to their receives together",
        message_batches: "batches" => "Batches of several messages that were passed to a handler together",
        received_in_place: "messages" => "Deferred messages that were received in place, without a poll",
        records_sent: "records" => "Records published: batches, wraps and credit returns",
        records_received: "records" => "Records read",
        credit_records_sent: "records" => "Records that only returned credits",
        wrap_records_sent: "records" => "Records that only skipped to the start of a ring",
        blocks_sent: "blocks" => "Payloads sent as blocks",
        blocks_received: "blocks" => "Payloads received as blocks",
        waited_for_room: "times" => "Messages that had to wait for room in a ring, for block memory or for the peer's window",
        blocks_full: "times" => "Payloads that found no block memory free, at each try",
        window_full: "times" => "Tagged messages that found the peer's window full, at each try",
        backlog: "messages" => "Messages that wait for room now",
        violations: "sessions" => "Sessions ended because the peer broke the protocol",
    }
}
