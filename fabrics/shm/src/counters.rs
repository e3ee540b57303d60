//! What the shared-memory driver counts: its conductor and its quota, nothing on the path of a message.

farcall_driver::declare_counters! {
    /// The counters of one driver, labelled `shm` and a part of its socket's name.
    pub struct ShmCounters {
        callers: "connections" => "Connections that processes of this machine have made here",
        callers_refused: "connections" => "Connections of users that are not allowed, or over the limit",
        offers_refused: "connections" => "Connections whose memory or doorbell was refused, over the quota too",
        lanes_up: "lanes" => "Lanes that came up, by either side",
        lanes_down: "lanes" => "Lanes that ended after they were up",
        mapped_bytes: "bytes" => "Memory of peers that is mapped now",
        intake_waits: "times" => "Callers had to wait because threads for descriptors of peers were all taken",
    }
}
