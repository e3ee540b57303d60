//! What a shard counts.

farcall_driver::declare_counters! {
    /// The requests to one shard.
    pub struct ShardCounters {
        gets: "requests" => "Objects asked for, one by one or many at a time",
        puts: "requests" => "Objects to be written, one by one or many at a time",
        deletes: "requests" => "Objects to be deleted",
        increments: "requests" => "Numbers to be added to",
        scans: "requests" => "Pages of tables asked for",
        gathered: "answers" => "Values put together from chunks, because they do not lie in one piece",
        refused: "requests" => "Requests that could not be carried out",
        malformed: "requests" => "Requests that no correct client sends",
        objects: "objects" => "Objects in the store when counters were last brought up to date",
        used_bytes: "bytes" => "Memory of the store when counters were last brought up to date",
    }
}
