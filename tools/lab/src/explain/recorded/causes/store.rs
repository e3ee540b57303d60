//! What limits a measured store: causes read from what its daemons and the slots of its clients did.
//!
//! Requests are answered by the shard that has their key, so that the busiest daemon is the ceiling; what it
//! did is in its phases, and where requests spend their time is in the slots' account.

use serde_json::Value;

use crate::explain::analysis::finding::{Finding, Section};
use crate::explain::recorded::{RecordedFigure, RecordedRun};

/// A cause that gains less is not named.
const GAIN_MIN: f64 = 1.05;

/// The most causes that are named for one measurement.
const CAUSES_MAX: usize = 4;

/// What a daemon did, as shares of the window and as counts.
#[derive(Clone, Copy, Debug, Default)]
struct Daemon {
    /// The share of the time that it worked beyond turns that find nothing.
    busy: f64,
    /// The share of the time that it gave to others on its core.
    yielded: f64,
    /// Requests that it answered, its own clients' and other ranks'.
    answered: f64,
    /// Messages that had to wait for room.
    waited_for_room: f64,
}

/// A measured store.
#[derive(Debug)]
struct Store {
    daemons: Vec<Daemon>,
    requests: f64,
    /// The shares of the slots' time in which they had no request, and one that another rank answers.
    idle: f64,
    remote: f64,
    queue_depth: f64,
    distribution: String,
}

/// A cause: what it is read from, how it is called, what it gains and what to try.
struct Cause {
    rule: &'static str,
    words: String,
    gain: f64,
    next: String,
}

type Rule = fn(&Store) -> Option<Cause>;

/// All of them. A new cause is a new function and its place here.
const RULES: &[Rule] = &[yields, hot_keys, skew, daemon, ring_room, clients, remote, queue_depth];

/// What limits each measured store of the runs.
pub fn stores(runs: &[RecordedRun]) -> Vec<Finding> {
    let several = runs.len() > 1;
    let of_run = |run: &RecordedRun| {
        let name = if several { format!("{} ", run.name) } else { String::new() };
        let rates = run.figures.iter().filter(|figure| figure.command == "benchkv" && figure.unit == "1/s");
        let measured = rates.filter_map(|figure| Some((figure, Store::of(figure)?)));
        measured.flat_map(|(figure, store)| findings(&store, figure, &name)).collect::<Vec<_>>()
    };
    runs.iter().flat_map(of_run).collect()
}

impl Store {
    fn of(figure: &RecordedFigure) -> Option<Self> {
        let more = &figure.more;
        let number = |field: &str| more.get(field).and_then(Value::as_f64);
        let slots = |name: &str| more.get("slot_nanos")?.get(name)?.as_f64();
        let window = number("slot_window_nanos").filter(|nanos| *nanos > 0.0)?;
        let daemons: Vec<_> = more.get("daemons")?.as_array()?.iter().filter_map(Daemon::of).collect();
        (!daemons.is_empty()).then_some(Self {
            daemons,
            requests: figure.samples as f64,
            idle: slots("idle")? / window,
            remote: slots("remote")? / window,
            queue_depth: number("queue_depth")?,
            distribution: more.get("distribution").and_then(Value::as_str).unwrap_or_default().to_owned(),
        })
    }

    /// The greatest of some figure, and whose it is.
    fn most(&self, of: fn(&Daemon) -> f64) -> (usize, f64) {
        let all = self.daemons.iter().map(of).enumerate();
        all.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_default()
    }

    /// The requests of the busiest shard over the mean, and its rank.
    fn unevenness(&self) -> (usize, f64) {
        let (rank, most) = self.most(|daemon| daemon.answered);
        let mean = self.daemons.iter().map(|daemon| daemon.answered).sum::<f64>() / self.daemons.len() as f64;
        (rank, if mean > 0.0 { most / mean } else { 1.0 })
    }
}

impl Daemon {
    fn of(object: &Value) -> Option<Self> {
        let number = |field: &str| object.get(field).and_then(Value::as_f64);
        let counters = object.get("counters")?.as_object()?;
        let counted = |name: &str| -> f64 {
            let of_name = counters.iter().filter(|(full, _)| full.rsplit('.').next() == Some(name));
            of_name.filter_map(|(_, count)| count.as_f64()).sum()
        };
        let window = number("window_nanos").filter(|nanos| *nanos > 0.0)?;
        let phases = object.get("phase_nanos")?.as_object()?.values().filter_map(Value::as_f64);
        let empty = counted("turns") * number("empty_turn_nanos").unwrap_or(0.0);
        Some(Self {
            busy: ((phases.sum::<f64>() - empty) / window).clamp(0.0, 1.0),
            yielded: number("yielded_nanos").unwrap_or(0.0) / window,
            answered: counted("local") + counted("incoming"),
            waited_for_room: counted("waited_for_room"),
        })
    }
}

fn findings(store: &Store, figure: &RecordedFigure, run: &str) -> Vec<Finding> {
    let mut causes: Vec<_> = RULES.iter().filter_map(|rule| rule(store)).collect();
    causes.retain(|cause| cause.gain >= GAIN_MIN);
    causes.sort_by(|a, b| b.gain.total_cmp(&a.gain));
    causes.truncate(CAUSES_MAX);
    let about = format!("{run}{} {}, {} in flight", figure.transport, store.distribution, figure.in_flight);
    let Some(first) = causes.first() else { return vec![unknown(store, &about)] };
    let next = Finding::new(Section::NextExperiment, "change_the_first", &about, first.next.clone());
    let hypothesis = |(place, cause): (usize, &Cause)| {
        let sentence =
            format!("{}. {}; without it up to {:.2} times the rate", place + 1, cause.words, cause.gain);
        let figures = [("rank", (place + 1) as f64), ("gain", cause.gain)];
        Finding::new(Section::Hypothesis, cause.rule, &about, sentence).with(figures)
    };
    causes.iter().enumerate().map(hypothesis).chain([next]).collect()
}

fn unknown(store: &Store, about: &str) -> Finding {
    let (rank, busy) = store.most(|daemon| daemon.busy);
    let sentence = format!(
        "none of the causes that I know: the busiest daemon, of rank {rank}, works {:.0} % of the time, none gave its core away, \
         and shards differ by {:.0} %",
        busy * 100.0,
        (store.unevenness().1 - 1.0) * 100.0
    );
    Finding::new(Section::NotIdentifiable, "none_known", about, sentence)
}

fn yields(store: &Store) -> Option<Cause> {
    let (rank, share) = store.most(|daemon| daemon.yielded);
    (share > 0.0).then(|| Cause {
        rule: "yields",
        words: format!(
            "cores that are shared: the daemon of rank {rank} gave its core to others {:.0} % of the time",
            share * 100.0
        ),
        gain: 1.0 / (1.0 - share).max(0.001),
        next: "fewer ranks and clients than cores: run it again with half the `--clients`".to_owned(),
    })
}

/// A shard that has more than its part because some keys are asked for more than others.
fn hot_keys(store: &Store) -> Option<Cause> {
    let (rank, ratio) = store.unevenness();
    (store.distribution != "uniform").then(|| Cause {
        rule: "hot_keys",
        words: format!(
            "hot keys: the shard of rank {rank} answers {ratio:.2} times the mean, and keys are drawn {}",
            store.distribution
        ),
        gain: ratio,
        next: "the same load on all keys: run it again with `--distribution uniform`".to_owned(),
    })
}

fn skew(store: &Store) -> Option<Cause> {
    let (rank, ratio) = store.unevenness();
    (store.distribution == "uniform").then(|| Cause {
        rule: "shard_skew",
        words: format!(
            "shard skew: the shard of rank {rank} answers {ratio:.2} times the mean, though keys are uniform"
        ),
        gain: ratio,
        next: "more keys: run it again with ten times the `--keys`".to_owned(),
    })
}

fn daemon(store: &Store) -> Option<Cause> {
    let (rank, busy) = store.most(|daemon| daemon.busy);
    // Without its work the slots' account remains: what no daemon works on takes its time all the same.
    (busy > 0.5).then(|| Cause {
        rule: "daemon",
        words: format!("a daemon's poll loop: that of rank {rank} works {:.0} % of the time", busy * 100.0),
        gain: 1.0 / (1.0 - busy).max(0.1),
        next: "more daemons: run it again with twice the `--ranks`, each on a core of its own".to_owned(),
    })
}

fn ring_room(store: &Store) -> Option<Cause> {
    let waited: f64 = store.daemons.iter().map(|daemon| daemon.waited_for_room).sum();
    let share = (waited / store.requests.max(1.0)).min(0.9);
    (share >= 0.01).then(|| Cause {
        rule: "ring_room",
        words: format!(
            "room in the rings between daemons: {:.0} % of requests had to wait for it",
            share * 100.0
        ),
        gain: 1.0 / (1.0 - share),
        next: "larger rings: run it again with twice the `--set ring.ring_bytes`".to_owned(),
    })
}

fn clients(store: &Store) -> Option<Cause> {
    Some(Cause {
        rule: "clients",
        words: format!(
            "clients that do not fill their slots: these are empty {:.0} % of the time",
            store.idle * 100.0
        ),
        gain: 1.0 / (1.0 - store.idle).max(0.1),
        next: "more clients: run it again with twice the `--clients`".to_owned(),
    })
}

fn remote(store: &Store) -> Option<Cause> {
    Some(Cause {
        rule: "remote",
        words: format!(
            "the way between daemons: requests to other ranks take {:.0} % of the slots' time",
            store.remote * 100.0
        ),
        gain: 1.0 / (1.0 - store.remote).max(0.1),
        next: "one rank: run it again with `--ranks 1`, where no request goes to another".to_owned(),
    })
}

/// More in flight helps until the busiest daemon has work all the time.
fn queue_depth(store: &Store) -> Option<Cause> {
    let (rank, busy) = store.most(|daemon| daemon.busy + daemon.yielded);
    Some(Cause {
        rule: "queue_depth",
        words: format!(
            "the queue depth: with {} a client the busiest daemon, of rank {rank}, works {:.0} % of the time",
            store.queue_depth,
            busy * 100.0
        ),
        gain: (1.0 / busy.max(0.01)).min(2.0),
        next: format!("more in flight: run it again with `--queue-depth {}`", store.queue_depth * 2.0),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::explain::recorded::Run;

    /// Two daemons, with what they answered, worked and gave away.
    fn first(distribution: &str, daemons: [(u64, f64, f64); 2], idle: f64) -> &'static str {
        let daemon = |(answered, busy, yielded): (u64, f64, f64)| {
            json!({
                "counters": {"kv#0.local": answered, "kv#0.turns": 0}, "phase_nanos": {"slots": busy * 1e9},
                "yielded_nanos": yielded * 1e9, "window_nanos": 1e9, "empty_turn_nanos": 10.0,
            })
        };
        let figure = serde_json::from_value(json!({
            "schema": crate::record::SCHEMA, "command": "benchkv", "test": "benchkv", "transport": "ring+shm",
            "name": "rps", "value": 1e6, "unit": "1/s", "statistic": "over_wall_clock", "samples": 1_000_000,
            "in_flight": 16, "queue_depth": 4, "distribution": distribution, "slot_window_nanos": 1e9,
            "slot_nanos": {"local": (1.0 - idle) * 1e9, "remote": 0.0, "idle": idle * 1e9},
            "daemons": daemons.map(daemon),
        }))
        .expect("a figure");
        let run = RecordedRun {
            name: "a".to_owned(),
            run: Run::begin(Vec::new(), 1, Vec::new()),
            figures: vec![figure],
        };
        stores(&[run]).first().expect("something is said").rule
    }

    #[test]
    fn each_cause_is_named_first_where_it_takes_the_most() {
        assert_eq!(first("uniform", [(500, 0.9, 0.0), (500, 0.9, 0.0)], 0.0), "daemon");
        assert_eq!(first("uniform", [(500, 0.6, 0.0), (500, 0.1, 0.8)], 0.0), "yields");
        assert_eq!(first("zipfian", [(990, 0.55, 0.0), (10, 0.1, 0.0)], 0.45), "daemon");
        assert_eq!(first("zipfian", [(990, 0.8, 0.19), (10, 0.1, 0.0)], 0.0), "daemon");
        assert_eq!(first("zipfian", [(990, 0.49, 0.3), (10, 0.1, 0.0)], 0.0), "hot_keys");
        assert_eq!(first("uniform", [(900, 0.49, 0.4), (100, 0.1, 0.0)], 0.0), "shard_skew");
        assert_eq!(first("uniform", [(500, 0.3, 0.0), (500, 0.3, 0.0)], 0.0), "queue_depth");
        assert_eq!(first("uniform", [(500, 0.5, 0.0), (500, 0.5, 0.0)], 0.7), "clients");
    }
}
