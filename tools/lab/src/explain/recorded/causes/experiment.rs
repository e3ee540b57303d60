//! The experiment that could refute a cause: what it changes, and what it must then find.

use farcall::parameters::Value;

use super::evidence::Evidence;
use super::law::{Law, Taken, assigned};
use super::scheduled::Part;
use super::table::{Change, Rule};
use crate::statistics::bootstrap::Ratio;

/// A law gives the most that can be won. Queues that form elsewhere take up to this part of it, as a power.
const LEAST_POWER: f64 = 0.45;

/// What rounding and chance may add.
const MARGIN: f64 = 0.06;

/// How many times smaller a time or larger a rate may become, the least that shows first: the further it is
/// from what was recorded, the more other things have become of it than the laws know.
const TIMES: [f64; 3] = [2.0, 4.0, 16.0];

/// Where the ends of what is predicted are further apart than this the upper one says nothing: only that
/// less than the lower one refutes.
pub const SPAN_MAX: f64 = 4.0;

/// How far the part that is carried may be off all of it: of few long messages chance and the ends of the
/// window decide.
const CARRIED_MARGIN: f64 = 0.35;

/// What of the two runs is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measure {
    /// Operations in a time: the changed run against the run as it was.
    Rate,
    /// Of an open loop: what the changed run completes in time, against all that was due. The run as it was
    /// carries this part.
    Carried(f64),
}

impl Measure {
    /// What is compared of the changed run and of the run as it was; `None` where one does not have it.
    pub fn of(self, after: &Evidence, before: &Evidence) -> Option<(f64, f64)> {
        let rate = |evidence: &Evidence| evidence.in_flight.unwrap_or(1.0) / evidence.operation_nanos;
        match self {
            Self::Rate => Some((rate(after), rate(before))),
            Self::Carried(_) => Some((after.load?.carried(), 1.0)),
        }
    }

    /// What an interval of its ratio is of.
    pub fn words(self) -> &'static str {
        match self {
            Self::Rate => "the rate",
            Self::Carried(_) => "what is due",
        }
    }

    /// What is found if the cause is another one, in words.
    pub fn unchanged(self) -> String {
        match self {
            Self::Rate => "the same".to_owned(),
            Self::Carried(part) => format!("{part:.2} times"),
        }
    }
}

/// What an experiment came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The whole interval lies within what was predicted.
    Confirmed,
    /// The whole interval lies below what was predicted.
    Refuted,
    /// The whole interval lies above: more was won than the cause can take.
    Beyond,
    /// The interval lies across an end of what was predicted, or there is none: more pairs may tell.
    Open,
}

/// A part of a schedule of faults that an experiment leaves out.
#[derive(Clone, Debug, PartialEq)]
pub struct LeftOut {
    /// The part.
    pub part: Part,
    /// The schedule without it; null where nothing else is in it.
    pub rest: serde_json::Value,
}

impl LeftOut {
    fn words(&self) -> String {
        match self.rest.is_null() {
            true => "without `--schedule`".to_owned(),
            false => format!("with a `--schedule` that has no `{}`", self.part.names().join("`, `")),
        }
    }
}

/// A change of the command line and what it should do.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// Words to add to the command line, or to replace in it.
    pub words: Vec<String>,
    /// What is left out of the schedule of faults.
    pub left_out: Option<LeftOut>,
    /// Where no command line can do it: what to do.
    pub otherwise: Option<&'static str>,
    /// What changes.
    pub measure: Measure,
    /// The interval of its ratio if the cause is right.
    pub predicted: (f64, f64),
}

impl Experiment {
    /// The experiment of a rule, where the values that it changes are known.
    pub fn of(rule: &Rule, taken: &Taken, law: &Law<'_>, evidence: &Evidence) -> Option<Self> {
        let predicted =
            |part: f64| (law.gain(taken, part).powf(LEAST_POWER), law.most(taken, part) * (1.0 + MARGIN));
        let shows = |times: &f64| predicted(1.0 - 1.0 / times).0 > 1.0 + MARGIN;
        let times = TIMES.into_iter().find(shows).unwrap_or(TIMES[TIMES.len() - 1]);
        let left_out = rule
            .scheduled
            .zip(evidence.schedule.as_ref())
            .and_then(|(part, schedule)| Some(LeftOut { part, rest: part.left_out_of(schedule)? }));
        let (words, part) = match rule.change {
            Change::Divide(name) => (scaled(name, 1.0 / times, evidence)?, 1.0 - 1.0 / times),
            Change::Multiply(name) => (scaled(name, times, evidence)?, 1.0 - 1.0 / times),
            Change::Enlarge(name, by) => (scaled(name, by, evidence)?, 1.0 - 1.0 / by),
            Change::Zero(names) => (zeros(names, evidence, left_out.is_some()), 1.0),
            Change::Option(name, value) => (vec![name.to_owned(), value.to_owned()], 1.0),
            Change::Words(_) => (Vec::new(), 1.0),
            Change::LessLoad => return less_load(evidence),
            Change::MoreInFlight => (more_in_flight(evidence)?, 0.5),
        };
        let otherwise = match rule.change {
            Change::Words(words) if left_out.is_none() => Some(words),
            _ => None,
        };
        Some(Self { words, left_out, otherwise, measure: Measure::Rate, predicted: predicted(part) })
    }

    /// Whether both ends of what is predicted say something.
    pub fn has_number(&self) -> bool {
        span(self.predicted) <= SPAN_MAX
    }

    /// What is predicted, in words.
    pub fn predicted_words(&self) -> String {
        let (low, high) = self.predicted;
        match self.has_number() {
            true => format!("{low:.2} to {high:.2} times"),
            false => format!("by how much cannot be said, at least {low:.2} times"),
        }
    }

    /// What pairs of runs say whose ratio is this one.
    pub fn judge(&self, measured: &Ratio) -> Verdict {
        let (low, high) = self.predicted;
        match measured.interval {
            Some((least, _)) if !self.has_number() && least >= low => Verdict::Confirmed,
            Some((least, most)) if least >= low && most <= high => Verdict::Confirmed,
            Some((_, most)) if most < low => Verdict::Refuted,
            Some((least, _)) if least > high => Verdict::Beyond,
            _ => Verdict::Open,
        }
    }

    /// What to do, in words.
    pub fn words(&self) -> String {
        match self.otherwise {
            Some(words) => words.to_owned(),
            None => format!("run it again {}", self.change()),
        }
    }

    /// What is changed, in words.
    pub fn change(&self) -> String {
        let set = (!self.words.is_empty()).then(|| format!("with `{}`", self.words.join(" ")));
        let left_out = self.left_out.as_ref().map(LeftOut::words);
        set.into_iter().chain(left_out).collect::<Vec<_>>().join(" and ")
    }
}

/// How many times the least of an interval its most is.
fn span((low, high): (f64, f64)) -> f64 {
    high / low
}

/// An assignment of a multiple of its value to a parameter, if that is known.
fn scaled(name: &str, times: f64, evidence: &Evidence) -> Option<Vec<String>> {
    let name = name.replace("PROTOCOL", &evidence.protocol);
    let value = evidence.uses.fields.get(&name).copied().or_else(|| own_value(&name, evidence))?;
    Some(vec!["--set".to_owned(), format!("{name}={}", shown(value * times))])
}

/// Assignments of zero to those of the parameters that were set; to the first where none was, and the cause
/// comes from nothing else.
fn zeros(names: &[&str], evidence: &Evidence, comes_from_schedule: bool) -> Vec<String> {
    let is_set = |name: &&&str| evidence.parameters.get(**name).is_some_and(|value| value != "0");
    let set: Vec<_> = names.iter().filter(is_set).collect();
    let zeroed = if set.is_empty() && !comes_from_schedule { names.iter().take(1).collect() } else { set };
    zeroed.into_iter().flat_map(|name| ["--set".to_owned(), format!("{name}=0")]).collect()
}

/// A parameter of farcall that is a number of bytes: as set, or as it is by default.
fn own_value(name: &str, evidence: &Evidence) -> Option<f64> {
    let set = evidence.parameters.iter().map(|(name, value)| format!("{name}={value}"));
    let own = set.filter(|text| !text.starts_with("fabric."));
    let settings = assigned(own)?;
    let (_, value) = settings.iter().find(|(parameter, _)| parameter.name == name)?;
    match value {
        Value::Size(number) | Value::Integer(number) => Some(number as f64),
        _ => None,
    }
}

/// Less than was carried: of that all is. What is found then lies nearer to all than to what was carried.
fn less_load(evidence: &Evidence) -> Option<Experiment> {
    let load = evidence.load?;
    let (words, carried) = (load.less_words()?, load.carried());
    let low = (1.0 - CARRIED_MARGIN).max((1.0 + carried.min(1.0)) / 2.0);
    let predicted = (low, 1.0 + CARRIED_MARGIN);
    Some(Experiment { words, left_out: None, otherwise: None, measure: Measure::Carried(carried), predicted })
}

/// The option of the command that says how much is in flight, with twice its value.
fn more_in_flight(evidence: &Evidence) -> Option<Vec<String>> {
    let option = match evidence.command.as_str() {
        "perf" => "--in-flight",
        _ => return None,
    };
    Some(vec![option.to_owned(), format!("{}", 2.0 * evidence.in_flight? / evidence.clients)])
}

/// A number as `--set` takes it.
fn shown(value: f64) -> String {
    if value.fract() == 0.0 || value >= 1e4 { format!("{:.0}", value) } else { format!("{value:.4}") }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::load::Load;
    use super::super::{Ranked, findings, rank};
    use super::*;
    use crate::run::uses::{HostUse, Use, Uses};

    /// 16 calls of 10 us in flight: processors make packets for this share of the time and do nothing else,
    /// `unread` calls wait for each of them and `queued` ones for a network card. The rest are on their way.
    fn made(share: f64, unread: f64, queued: f64) -> Evidence {
        let host = HostUse {
            busy: share,
            working: share,
            unread,
            work: BTreeMap::from([("make_packets".to_owned(), share)]),
            ..HostUse::default()
        };
        let on_way = 16.0 - 2.0 * (share + unread) - queued;
        let flight = Use { there: on_way, working: on_way, ..Use::default() };
        let card = Use { there: queued, working: 0.1, busy: 0.1, ..Use::default() };
        let uses = Uses {
            window_nanos: 1e6,
            packets: 3200,
            servers: host.clone(),
            clients: host,
            resources: BTreeMap::from([("flight".to_owned(), flight), ("nic_sending".to_owned(), card)]),
            fields: BTreeMap::from([("fabric.host.send_packet_ns".to_owned(), 2000.0)]),
            ..Uses::default()
        };
        Evidence {
            about: String::new(),
            command: "perf".to_owned(),
            protocol: "basic".to_owned(),
            operations: 1600.0,
            operation_nanos: 1e4,
            in_flight: Some(16.0),
            load: None,
            clients: 1.0,
            hosts: (1.0, 1.0),
            counters: BTreeMap::new(),
            uses,
            schedule: None,
            parameters: BTreeMap::new(),
        }
    }

    fn experiment(evidence: &Evidence) -> Experiment {
        let making = |cause: &Ranked| cause.rule.name == "make_packets";
        let cause = rank(evidence).into_iter().find(making).expect("it is named");
        cause.experiment.expect("its parameter is known")
    }

    fn measured(least: f64, most: f64) -> Ratio {
        Ratio { ratio: (least + most) / 2.0, interval: Some((least, most)), blocks: 5 }
    }

    #[test]
    fn an_interval_within_confirms_below_refutes_and_across_an_end_is_open() {
        let experiment = Experiment { predicted: (1.2, 2.1), ..experiment(&made(0.7, 3.0, 6.0)) };
        assert_eq!(experiment.judge(&measured(1.2, 2.1)), Verdict::Confirmed);
        assert_eq!(experiment.judge(&measured(0.9, 1.19)), Verdict::Refuted);
        assert_eq!(experiment.judge(&measured(2.11, 2.2)), Verdict::Beyond);
        assert_eq!(experiment.judge(&measured(1.1, 1.3)), Verdict::Open);
        assert_eq!(experiment.judge(&measured(2.0, 2.2)), Verdict::Open);
        let few = Ratio { ratio: 1.5, interval: None, blocks: 4 };
        assert_eq!(experiment.judge(&few), Verdict::Open);
    }

    #[test]
    fn a_change_is_no_larger_than_what_shows() {
        let half = experiment(&made(0.7, 6.0, 1.0));
        assert_eq!(half.words, ["--set", "fabric.host.send_packet_ns=1000"]);
        assert!(half.predicted.0 > 1.0 + MARGIN, "{:?}", half.predicted);
        // Of what takes little half of it would hide in what chance may add.
        let quarter = experiment(&made(0.1, 1.5, 1.0));
        assert_eq!(quarter.words, ["--set", "fabric.host.send_packet_ns=500"]);
        assert!(quarter.predicted.0 > 1.0 + MARGIN, "{:?}", quarter.predicted);
    }

    /// Calls of which nearly all are nowhere, by a schedule.
    fn stalled(schedule: serde_json::Value) -> Evidence {
        let mut stalled = made(0.05, 0.0, 0.0);
        let flight = Use { there: 0.8, working: 0.8, ..Use::default() };
        stalled.uses.resources.insert("flight".to_owned(), flight);
        stalled.uses.resources.remove("nic_sending");
        Evidence { schedule: Some(schedule), ..stalled }
    }

    fn event(at_us: u64, action: serde_json::Value) -> serde_json::Value {
        serde_json::json!({ "at_us": at_us, "action": action })
    }

    #[test]
    fn a_partition_that_loses_nothing_is_named_and_not_the_window() {
        let parted = serde_json::json!({ "partition": { "from": [0], "to": [1] } });
        let events = [event(50, parted), event(950, serde_json::json!("heal"))];
        let evidence = stalled(serde_json::json!({ "event": events }));
        let ranked = rank(&evidence);
        assert_eq!(ranked[0].rule.name, "partition");
        assert!((0.8..1.0).contains(&ranked[0].taken.share), "{:?}", ranked[0].taken);
        assert!(ranked.iter().all(|cause| cause.rule.name != "window"), "{ranked:#?}");
    }

    #[test]
    fn stalls_of_both_sides_add_up_and_are_taken_from_what_the_window_is_blamed_for() {
        let pause = |from: u64, host: u32| {
            let hosts = serde_json::json!([host]);
            [
                event(from, serde_json::json!({ "pause": hosts })),
                event(from + 320, serde_json::json!({ "resume": hosts })),
            ]
        };
        let events = [pause(100, 1), pause(500, 0)].concat();
        let mut evidence = stalled(serde_json::json!({ "event": events }));
        (evidence.uses.servers.stood, evidence.uses.clients.stood) = (0.32, 0.32);
        let ranked = rank(&evidence);
        assert_eq!(ranked[0].rule.name, "standstill", "{ranked:#?}");
        assert!((ranked[0].gain - 1.0 / (1.0 - 0.64)).abs() < 0.01, "{:?}", ranked[0]);
        let window = ranked.iter().find(|cause| cause.rule.name == "window");
        assert!(window.is_none_or(|window| window.gain < 1.6), "{window:?}");
    }

    #[test]
    fn what_is_said_of_a_cause_is_what_ranks_it() {
        // Most of the time is a wait for what was lost.
        let mut lossy = made(0.02, 0.0, 0.0);
        lossy.uses.drops.insert("fault".to_owned(), 8);
        lossy.uses.resources.insert("flight".to_owned(), Use { there: 0.9, working: 0.9, ..Use::default() });
        lossy.counters =
            [("silences", 8.0), ("silence_time", 14e6)].map(|(name, count)| (name.to_owned(), count)).into();
        let said = findings(&lossy, "");
        for finding in said.iter().filter(|finding| finding.figure("rank").is_some()) {
            let (gain, share) = (finding.figure("gain"), finding.figure("share_percent"));
            let (gain, share) = (gain.expect("a gain"), share.expect("a share") / 100.0);
            assert!(finding.sentence.contains(&format!("about {gain:.2} times")), "{finding:?}");
            assert!(gain <= 1.0 / (1.0 - share) + 1e-9, "{finding:?}");
        }
        assert!(said.iter().any(|finding| finding.rule == "loss"), "{said:#?}");
    }

    #[test]
    fn what_can_hardly_be_wrong_is_no_prediction() {
        let of = |predicted| Experiment { predicted, ..experiment(&made(0.7, 3.0, 6.0)) };
        let narrow = of((1.2, 2.1)).predicted_words();
        assert_eq!(narrow, "1.20 to 2.10 times");
        let wide = of((2.28, 1239.82));
        assert!(wide.predicted_words().ends_with("at least 2.28 times"), "{}", wide.predicted_words());
        assert!(!wide.predicted_words().contains("1239"), "{}", wide.predicted_words());
        let judged =
            [(2.3, 1300.0), (2.0, 3.0), (0.9, 1.1)].map(|(least, most)| wide.judge(&measured(least, most)));
        assert_eq!(judged, [Verdict::Confirmed, Verdict::Open, Verdict::Refuted]);
    }

    #[test]
    fn what_waits_behind_work_may_be_due_to_it_and_nothing_gains_more_than_the_work() {
        // Processors that work in turns: both idle, and what one hands on at once waits for a card.
        let (_, most) = experiment(&made(0.7, 3.0, 7.0)).predicted;
        assert!((most - 2.0 / 0.7 * (1.0 + MARGIN)).abs() < 1e-9, "{most}");
        // What is in work elsewhere all the time stays.
        let mut full = made(0.7, 3.0, 7.0);
        let card = Use { busy: 0.9, working: 0.9, there: 0.9, ..Use::default() };
        full.uses.resources.insert("nic_link".to_owned(), card);
        let (_, most) = experiment(&full).predicted;
        assert!((most - (1.0 + MARGIN) / 0.9).abs() < 1e-9, "{most}");
    }

    #[test]
    fn of_less_load_nearly_all_is_carried_or_as_little_as_before() {
        let load = |achieved: f64| Load {
            offered: 0.8,
            drawn: 0.8,
            achieved,
            on_wire: None,
            waited: 0.0,
            capacity: Some(0.04),
            speed: None,
        };
        for achieved in [0.0, 0.04, 0.4, 0.7, 0.79] {
            let evidence = Evidence { load: Some(load(achieved)), in_flight: None, ..made(0.7, 3.0, 6.0) };
            let experiment = less_load(&evidence).expect("it has a load");
            let Measure::Carried(before) = experiment.measure else { panic!("it is of a load") };
            assert!(before < experiment.predicted.0 && experiment.predicted.1 > 1.0, "{experiment:?}");
        }
    }
}
