//! What an endpoint counts.

farcall_driver::declare_counters! {
    /// The calls and messages of one endpoint.
    pub struct EndpointCounters {
        calls: "calls" => "Calls that were sent, as of the last turn that found something or read the clock",
        answered: "calls" => "Calls that were answered, whatever the status",
        timed_out: "calls" => "Calls, sends and receives whose deadline passed",
        cancelled: "calls" => "Calls, sends and receives that were cancelled or whose future was dropped",
        late_answers: "answers" => "Answers to calls that had ended before",
        received: "messages" => "Tagged messages that a receive or a handler got",
        requests: "calls" => "Requests that a handler has dealt with, or that were refused",
        peers_lost: "sessions" => "Sessions that ended",
        polls: "polls" => "Turns of the poll loop, counted when the clock is read",
        busy_polls: "polls" => "Those that found something, counted when the clock is read",
        in_flight: "calls" => "Calls in flight when the clock was last read",
        sleeps: "times" => "Times that the thread blocked because there was nothing to do",
    }
}
