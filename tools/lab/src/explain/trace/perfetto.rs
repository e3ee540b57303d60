//! Calls and tagged messages in the JSON format that Perfetto and Chrome's tracing page read (the "Trace
//! Event Format").
//!
//! A rank is a process there. Calls overlap, so those of a caller are asynchronous events, with their parts
//! inside them; handlers do not overlap and are slices of their server's thread. Messages are asynchronous
//! events of their sender.

use serde_json::{Value, json};

use super::join::{Point, TracedCall};
use super::messages::{MESSAGE_PARTS, MessagePoint, TracedMessage};
use super::summary::PARTS;

/// The most calls or messages that are written, the newest: pages of more are slow to read.
pub const CALLS_MAX: usize = 5_000;

/// The calls as one JSON document.
pub fn perfetto(calls: &[TracedCall]) -> Value {
    let calls = &calls[calls.len().saturating_sub(CALLS_MAX)..];
    let begin = calls.iter().map(|call| call.at(Point::Submitted)).min().unwrap_or(0);
    let mut ranks: Vec<_> =
        calls.iter().flat_map(|call| [(call.server, "server"), (call.client, "client")]).collect();
    ranks.sort_unstable();
    ranks.dedup();
    document(ranks, calls.iter().enumerate().flat_map(|(id, call)| events(id, call, begin)))
}

/// Tagged messages as one JSON document: those of `messages` that were submitted last.
pub fn perfetto_of_messages(messages: &[TracedMessage]) -> Value {
    let mut messages: Vec<_> = messages.iter().collect();
    messages.sort_by_key(|message| message.at(MessagePoint::Submitted));
    let messages = &messages[messages.len().saturating_sub(CALLS_MAX)..];
    let begin = messages.first().map_or(0, |message| message.at(MessagePoint::Submitted));
    let mut ranks: Vec<_> = messages
        .iter()
        .flat_map(|message| [(message.sender, "sender"), (message.receiver, "receiver")])
        .collect();
    ranks.sort_unstable();
    ranks.dedup();
    document(
        ranks,
        messages.iter().enumerate().flat_map(|(id, message)| events_of_message(id, message, begin)),
    )
}

fn document(ranks: Vec<(u32, &str)>, events: impl Iterator<Item = Value>) -> Value {
    let named = ranks.into_iter().map(|(rank, role)| {
        json!({ "ph": "M", "name": "process_name", "pid": rank, "args": { "name": format!("{role}, rank {rank}") } })
    });
    json!({ "displayTimeUnit": "ns", "traceEvents": named.chain(events).collect::<Vec<_>>() })
}

/// The events of one message, with times in microseconds from `begin`.
fn events_of_message(id: usize, message: &TracedMessage, begin: u64) -> Vec<Value> {
    let edge = |phase: &str, name: &str, nanos: u64| {
        let micros = (nanos - begin) as f64 / 1e3;
        json!({ "ph": phase, "cat": "message", "id": id, "name": name, "pid": message.sender, "tid": 0, "ts": micros })
    };
    let mut events = vec![edge("b", "message", message.at(MessagePoint::Submitted))];
    for (place, part) in MESSAGE_PARTS.iter().enumerate() {
        events.push(edge("b", part, message.nanos[place]));
        events.push(edge("e", part, message.nanos[place + 1]));
    }
    events.push(edge("e", "message", message.at(MessagePoint::Completed)));
    events
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
    fn every_part_of_a_message_begins_and_ends() {
        let nanos = [1000, 1100, 1200, 1300, 1400];
        let message = TracedMessage { sender: 0, receiver: 1, number: 4, nanos };
        let document = perfetto_of_messages(&[message]);
        let events = document["traceEvents"].as_array().expect("a list");
        let count = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
        assert_eq!((count("M"), count("b"), count("e")), (2, 5, 5));
        let end = events.iter().rfind(|event| event["ph"] == "e").expect("an end");
        assert_eq!((end["name"].as_str(), end["ts"].as_f64()), (Some("message"), Some(0.4)));
    }

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
