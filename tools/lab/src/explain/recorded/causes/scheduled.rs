//! What of a schedule of faults a cause may come from, and the schedule without it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// For how long a schedule lets nothing move, in nanoseconds of a run that ended at `end_nanos`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stalls {
    /// The longest that one host stood still.
    pub one_host: f64,
    /// For how long any server stood still, any client, and any of both: stalls of different hosts that do
    /// not overlap add up.
    pub servers: f64,
    /// See `servers`.
    pub clients: f64,
    /// See `servers`.
    pub any: f64,
    /// For how long a partition was there.
    pub parted: f64,
}

impl Stalls {
    /// Those of a schedule; hosts below `servers` answer.
    pub fn of(schedule: &Value, servers: u64, end_nanos: f64) -> Self {
        let mut paused: BTreeMap<u64, f64> = BTreeMap::new();
        let (mut parted_at, mut stretches, mut parted) = (None, Vec::new(), Vec::new());
        let events = schedule.get("event").and_then(Value::as_array);
        let mut events: Vec<_> = events.into_iter().flatten().filter_map(timed).collect();
        events.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (at, event) in events.into_iter().filter(|(at, _)| *at < end_nanos) {
            let hosts = || {
                let hosts = event.pointer(&format!("/action/{}", kind(event))).and_then(Value::as_array);
                hosts.into_iter().flatten().filter_map(Value::as_u64).collect::<Vec<_>>()
            };
            match kind(event) {
                "pause" => hosts().into_iter().for_each(|host| _ = paused.entry(host).or_insert(at)),
                "resume" => {
                    let ended = hosts().into_iter().filter_map(|host| Some((host, paused.remove(&host)?)));
                    stretches.extend(ended.map(|(host, from)| (host, (from, at))));
                }
                "partition" => parted_at = parted_at.or(Some(at)),
                "heal" => parted.extend(parted_at.take().map(|from| (from, at))),
                _ => {}
            }
        }
        stretches.extend(paused.into_iter().map(|(host, from)| (host, (from, end_nanos))));
        parted.extend(parted_at.map(|from| (from, end_nanos)));
        let of = |chosen: &dyn Fn(u64) -> bool| {
            covered(stretches.iter().filter(|(host, _)| chosen(*host)).map(|(_, stretch)| *stretch).collect())
        };
        let one_host = stretches.iter().map(|(host, _)| of(&|other| other == *host)).fold(0.0, f64::max);
        Self {
            one_host,
            servers: of(&|host| host < servers),
            clients: of(&|host| host >= servers),
            any: of(&|_| true),
            parted: covered(parted),
        }
    }
}

/// An event, and when it is, in nanoseconds.
fn timed(event: &Value) -> Option<(f64, &Value)> {
    Some((event.get("at_us")?.as_f64()? * 1e3, event))
}

/// How long any of some stretches of time lasts.
fn covered(mut stretches: Vec<(f64, f64)>) -> f64 {
    stretches.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut sum, mut upto) = (0.0, 0.0_f64);
    for (from, to) in stretches {
        sum += (to - from.max(upto)).max(0.0);
        upto = upto.max(to);
    }
    sum
}

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
    fn stalls_of_different_hosts_add_up_where_they_do_not_overlap() {
        let event = |at: u64, action: Value| json!({ "at_us": at, "action": action });
        let schedule = json!({ "event": [
            event(100, json!({ "pause": [0] })), event(300, json!({ "resume": [0] })),
            event(200, json!({ "pause": [1, 2] })), event(400, json!({ "resume": [1] })),
            event(500, json!({ "partition": { "from": [0], "to": [1] } })), event(550, json!("heal")),
        ] });
        let stalls = Stalls::of(&schedule, 2, 1e6);
        let micros =
            [stalls.one_host, stalls.servers, stalls.clients, stalls.any, stalls.parted].map(|n| n / 1e3);
        assert_eq!(micros, [800.0, 300.0, 800.0, 900.0, 50.0]);
        // What comes after the end of the run was never there.
        let early = Stalls::of(&schedule, 2, 150e3);
        assert_eq!((early.any, early.parted), (50e3, 0.0));
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
