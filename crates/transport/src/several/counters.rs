//! What a transport of several counts.

farcall_driver::declare_counters! {
    /// The choices of one transport of several.
    pub struct SeveralCounters {
        attempts: "attempts" => "Sessions that were asked for over some way",
        refused: "attempts" => "Those that came to nothing, so that the next way was tried",
        moved: "sessions" => "Sessions that went on over another way because theirs broke",
        lost: "sessions" => "Sessions that ended because no way was left",
    }
}
