//! What of a schedule of faults a cause may come from, and the schedule without it.

use serde_json::{Map, Value};

/// What of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Probabilities of packets, by their names.
    Packets(&'static [&'static str]),
    /// Events, by what they do; those that undo it are among them.
    Events(&'static [&'static str]),
}

/// Probabilities of packets; what else is said of them are times.
const PROBABILITIES: [&str; 6] = ["drop", "duplicate", "reorder", "delay", "corrupt", "truncate"];

impl Part {
    /// The schedule without this part: `None` where it does not have it, and null where nothing else is in
    /// it.
    pub fn left_out_of(self, schedule: &Value) -> Option<Value> {
        let mut rest = schedule.clone();
        match self {
            Self::Packets(names) => probabilities(&mut rest, |packets| {
                names.iter().for_each(|name| _ = packets.remove(*name));
            }),
            Self::Events(kinds) => {
                let events = rest.get_mut("event").and_then(Value::as_array_mut);
                events.into_iter().for_each(|events| events.retain(|event| !kinds.contains(&kind(event))));
            }
        }
        (rest != *schedule).then(|| if strikes(&mut rest.clone()) { rest } else { Value::Null })
    }

    /// Its names, as a schedule has them.
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Self::Packets(names) | Self::Events(names) => names,
        }
    }
}

/// Whether anything goes wrong by a schedule.
fn strikes(schedule: &mut Value) -> bool {
    let mut any = false;
    probabilities(schedule, |packets| {
        any |= PROBABILITIES.iter().any(|name| packets.get(*name).and_then(Value::as_f64) > Some(0.0));
    });
    let events = schedule.get("event").and_then(Value::as_array);
    any || events.is_some_and(|events| events.iter().map(kind).any(|kind| !is_of_packets(kind)))
}

fn is_of_packets(kind: &str) -> bool {
    ["packets", "towards"].contains(&kind)
}

/// What an event does: a word, or a table with one entry.
fn kind(event: &Value) -> &str {
    match event.get("action") {
        Some(Value::String(word)) => word,
        Some(Value::Object(action)) => action.keys().next().map_or("", String::as_str),
        _ => "",
    }
}

/// Does something with each table of probabilities.
fn probabilities(schedule: &mut Value, mut with: impl FnMut(&mut Map<String, Value>)) {
    let Value::Object(schedule) = schedule else { return };
    if let Some(Value::Object(packets)) = schedule.get_mut("packets") {
        with(packets);
    }
    let events = schedule.get_mut("event").and_then(Value::as_array_mut);
    for event in events.into_iter().flatten() {
        for place in ["/action/packets", "/action/towards/packets"] {
            if let Some(Value::Object(packets)) = event.pointer_mut(place) {
                with(packets);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LOSS: Part = Part::Packets(&["drop"]);
    const PAUSES: Part = Part::Events(&["pause", "resume"]);

    #[test]
    fn a_part_is_left_out_wherever_it_is_and_the_rest_stays() {
        let pause = json!({ "at_us": 1, "action": { "pause": [0] } });
        let towards = |packets: Value| json!({ "at_us": 2, "action": { "towards": { "hosts": [1], "packets": packets } } });
        let schedule = json!({
            "packets": { "drop": 0.1, "drop_us": 1 },
            "event": [pause, towards(json!({ "drop": 0.2, "delay": 0.1 }))],
        });
        let kept = json!({ "packets": { "drop_us": 1 }, "event": [pause, towards(json!({ "delay": 0.1 }))] });
        assert_eq!(LOSS.left_out_of(&schedule), Some(kept.clone()));
        assert_eq!(LOSS.left_out_of(&kept), None);
        let without_pauses = PAUSES.left_out_of(&kept).expect("it has one");
        assert_eq!(without_pauses["event"], json!([towards(json!({ "delay": 0.1 }))]));
    }

    #[test]
    fn nothing_is_left_where_nothing_goes_wrong_any_more() {
        let lossy = json!({ "packets": { "drop": 0.1, "delay_us": 5 } });
        assert_eq!(LOSS.left_out_of(&lossy), Some(Value::Null));
        let exempt = json!({ "at_us": 0, "action": { "towards": { "hosts": [1], "packets": {} } } });
        assert_eq!(
            LOSS.left_out_of(&json!({ "packets": { "drop": 0.1 }, "event": [exempt] })),
            Some(Value::Null)
        );
        let paused = json!({ "event": [{ "at_us": 1, "action": { "pause": [0] } },
            { "at_us": 2, "action": { "resume": [0] } }] });
        assert_eq!(PAUSES.left_out_of(&paused), Some(Value::Null));
        assert_eq!(PAUSES.left_out_of(&json!({ "event": [{ "at_us": 1, "action": "heal" }] })), None);
    }
}
