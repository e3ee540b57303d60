//! Calls in the JSON format that Perfetto and Chrome's tracing page read (the "Trace Event Format").
//!
//! A rank is a process there. Calls overlap, so those of a caller are asynchronous events, with their parts inside them;
//! handlers do not overlap and are slices of their server's thread.

use serde_json::{Value, json};

use super::join::{Point, TracedCall};
use super::summary::PARTS;

/// The most calls that are written, the newest: pages of more are slow to read.
pub const CALLS_MAX: usize = 5_000;

/// The calls as one JSON document.
pub fn perfetto(calls: &[TracedCall]) -> Value {
    let calls = &calls[calls.len().saturating_sub(CALLS_MAX)..];
    let begin = calls.iter().map(|call| call.at(Point::Submitted)).min().unwrap_or(0);
    let mut ranks: Vec<_> =
        calls.iter().flat_map(|call| [(call.server, "server"), (call.client, "client")]).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let named = ranks.into_iter().map(|(rank, role)| {
        json!({ "ph": "M", "name": "process_name", "pid": rank, "args": { "name": format!("{role}, rank {rank}") } })
    });
    let events: Vec<_> =
        named.chain(calls.iter().enumerate().flat_map(|(id, call)| events(id, call, begin))).collect();
    json!({ "displayTimeUnit": "ns", "traceEvents": events })
}

/// The events of one call, with times in microseconds from `begin`.
fn events(id: usize, call: &TracedCall, begin: u64) -> Vec<Value> {
    let micros = |nanos: u64| (nanos - begin) as f64 / 1e3;
    let edge = |phase: &str, name: &str, nanos: u64| json!({ "ph": phase, "cat": "call", "id": id, "name": name, "pid": call.client, "tid": 0, "ts": micros(nanos) });
    let mut events = vec![edge("b", "call", call.at(Point::Submitted))];
    for (place, part) in PARTS.iter().enumerate() {
        events.push(edge("b", part, call.nanos[place]));
        events.push(edge("e", part, call.nanos[place + 1]));
    }
    events.push(edge("e", "call", call.at(Point::Completed)));
    let (begun, ended) =
        (call.at(Point::HandlerBegun), call.handler_ended_nanos.unwrap_or(call.at(Point::Replied)));
    let length = ended.saturating_sub(begun) as f64 / 1e3;
    events.push(json!({
        "ph": "X", "cat": "handler", "name": "handler", "pid": call.server, "tid": 0, "ts": micros(begun), "dur": length,
        "args": { "caller": call.client, "call": call.call },
    }));
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_begins_and_ends_and_ranks_have_names() {
        let nanos = [1000, 1100, 1200, 1300, 1400, 1500, 1600, 1700, 1800];
        let call = TracedCall { client: 1, server: 0, call: 4, nanos, handler_ended_nanos: Some(1550) };
        let document = perfetto(&[call]);
        let events = document["traceEvents"].as_array().expect("a list");
        let count = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
        assert_eq!((count("M"), count("b"), count("e"), count("X")), (2, 9, 9, 1));
        let handler = events.iter().find(|event| event["ph"] == "X").expect("a handler");
        assert_eq!((handler["ts"].as_f64(), handler["dur"].as_f64()), (Some(0.4), Some(0.15)));
    }
}
