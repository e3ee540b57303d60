//! Open loops: what was offered and what was carried. Where these differ the times say how long the load has
//! lasted, and nothing about how long a message takes.

use serde_json::Value;

use crate::explain::analysis::finding::{Finding, Section};
use crate::explain::recorded::{RecordedFigure, RecordedRun};

/// What an open loop offered, as parts of the links' rate, and what became of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// What was to be offered.
    pub offered: f64,
    /// What the messages would fill that were due.
    pub drawn: f64,
    /// What was filled by messages completed in the window.
    pub achieved: f64,
    /// What the offer takes with all that the protocol adds, if it is known.
    pub on_wire: Option<f64>,
    /// At which part of the links' rate messages were completed from the first to the last, whenever they
    /// were due, if it is known: what can be carried, where a queue was there all the time.
    pub capacity: Option<f64>,
    /// The share of all messages that were due while their client had as many in flight as it may.
    pub waited: f64,
    /// How many times as fast recorded arrivals were replayed, where they were not drawn.
    pub speed: Option<f64>,
}

/// An open loop that completes less than this part of what was due is behind.
const CARRIED_MIN: f64 = 0.9;

/// What is carried at least, where nothing was completed in the window.
const CARRIED_LEAST: f64 = 0.001;

/// The part of what can be carried at which nothing grows.
const LESS_LOAD: f64 = 0.8;

/// The least load and speed that are proposed: less is refused.
const LOAD_LEAST: f64 = 0.001;

/// What to do where nothing says how much can be carried.
pub const LESS_UNTIL_CARRIED: &str =
    "run it with less and less load until all that is due is carried: no number can be predicted";

/// A client that is out of places for so many of its messages has a queue that grows.
const WAITED_MAX: f64 = 0.01;

impl Load {
    /// That of a figure, if it is one of an open loop as a whole.
    pub fn of(figure: &RecordedFigure) -> Option<Self> {
        let number = |field: &str| figure.more.get(field).and_then(Value::as_f64);
        let (offered, drawn, achieved) = (number("load")?, number("drawn_load")?, number("achieved_load")?);
        let is_whole = figure.statistic == "p50" && figure.unit == "ns" && number("decile").is_none();
        // Those that waited are of all messages and not of the window's; older records do not say how many.
        let waited = number("waited").unwrap_or(0.0);
        let messages = number("messages").unwrap_or((figure.samples as f64).max(waited)).max(1.0);
        let waited = (waited / messages).min(1.0);
        let (on_wire, capacity, speed) = (number("wire_load"), number("carried_load"), number("speed"));
        let load = Self { offered, drawn, achieved, on_wire, capacity, waited, speed };
        (is_whole && drawn > 0.0).then_some(load)
    }

    /// The part of what was due that was completed in time.
    pub fn carried(self) -> f64 {
        (self.achieved / self.drawn).max(CARRIED_LEAST)
    }

    /// What can be carried, as a part of the links' rate; `None` where nothing says it: a queue that is
    /// longer than the window hides it.
    pub fn can(self) -> Option<f64> {
        match self.carried() > CARRIED_LEAST {
            true => Some(self.achieved.min(self.offered)),
            false => self.capacity.filter(|part| *part > 0.0),
        }
    }

    /// The option that offers a load of which all is carried, with its value, if there is one.
    pub fn less_words(self) -> Option<Vec<String>> {
        let less = LESS_LOAD * self.can()?;
        let (option, value) = match self.speed {
            Some(speed) => ("--speed", speed * less / self.offered),
            None => ("--load", less),
        };
        (value >= LOAD_LEAST)
            .then(|| vec![option.to_owned(), format!("{value:.*}", if value < 0.1 { 4 } else { 3 })])
    }

    /// What would be won if only that were offered which is carried, in words.
    pub fn won(self) -> String {
        match self.can() {
            Some(can) => {
                format!("what was due is about {:.2} times what can be carried", (self.drawn / can).max(1.0))
            }
            None => {
                "what can be carried is not known, because nothing was completed within the window".to_owned()
            }
        }
    }

    /// Whether more was offered than is carried: then times say how long the load has lasted.
    pub fn is_too_much(self) -> bool {
        self.carried() < CARRIED_MIN
            || self.waited > WAITED_MAX
            || self.on_wire.is_some_and(|load| load > 1.0)
    }

    /// The offer and what was carried, in words.
    pub fn words(self) -> String {
        let percent = |part: f64| match part {
            little if little > 0.0 && little < 0.095 => format!("{:.1} %", little * 100.0),
            part => format!("{:.0} %", part * 100.0),
        };
        let on_wire = self.on_wire.map(|load| format!(" ({} with what the protocol adds)", percent(load)));
        let waited = format!(", {} of the messages had to wait to start", percent(self.waited));
        format!(
            "of {} of the links' rate that were due{} {} were carried in time{}, so that times grow with the run",
            percent(self.drawn),
            on_wire.unwrap_or_default(),
            percent(self.achieved),
            if self.waited > WAITED_MAX { &waited } else { "" }
        )
    }
}

/// Open loops of the runs whose resources were not observed, as far as more was offered than is carried.
pub fn open_loops(runs: &[RecordedRun]) -> Vec<Finding> {
    let several = runs.len() > 1;
    let of_run = |run: &RecordedRun| {
        let name = if several { format!("{} ", run.name) } else { String::new() };
        let unseen = run.figures.iter().filter(|figure| !figure.more.contains_key("uses"));
        let loads =
            unseen.filter_map(|figure| Some((figure, Load::of(figure).filter(|load| load.is_too_much())?)));
        let said = |(figure, load): (&RecordedFigure, Load)| {
            findings(load, format!("{name}{} {}", figure.transport, figure.name))
        };
        loads.flat_map(said).collect::<Vec<_>>()
    };
    runs.iter().flat_map(of_run).collect()
}

fn findings(load: Load, about: String) -> [Finding; 2] {
    let gain = (1.0 / load.carried()).max(1.0);
    let sentence =
        format!("1. saturation: more is offered than is carried: {}; {}", load.words(), load.won());
    let next = match load.less_words() {
        Some(less) => format!(
            "run it again with `{}`: all that is due is carried if this is it, and the times are those of messages",
            less.join(" ")
        ),
        None => LESS_UNTIL_CARRIED.to_owned(),
    };
    [
        Finding::new(Section::Hypothesis, "saturation", about.clone(), sentence)
            .with([("rank", 1.0), ("gain", gain)]),
        Finding::new(Section::NextExperiment, "change_the_first", about, next),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::explain::recorded::Run;

    /// The rules that are named of an open loop over real sockets.
    fn rules(drawn: f64, achieved: f64, waited: u64) -> Vec<&'static str> {
        let figure = json!({
            "schema": "", "command": "perf", "test": "echoWorkload", "transport": "basic+udp",
            "name": "echoWorkload.w2.80.all", "value": 9e3, "unit": "ns", "statistic": "p50", "samples": 1000,
            "in_flight": 7, "decile": null, "load": 0.8, "drawn_load": drawn, "achieved_load": achieved,
            "wire_load": null, "waited": waited, "messages": 2000,
        });
        let figures = vec![serde_json::from_value(figure).expect("a figure")];
        let run = Run::begin(Vec::new(), 1, Vec::new());
        let found = open_loops(&[RecordedRun { name: "a".to_owned(), run, figures }]);
        found.iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn a_load_that_is_not_carried_is_called_saturation() {
        assert_eq!(rules(0.8, 0.5, 0), ["saturation", "change_the_first"]);
        assert_eq!(rules(0.8, 0.8, 100), ["saturation", "change_the_first"]);
        assert_eq!(rules(0.8, 0.0, 0), ["saturation", "change_the_first"]);
    }

    #[test]
    fn a_load_to_try_comes_from_what_was_carried_and_from_nothing_else() {
        let load = Load {
            offered: 0.9,
            drawn: 0.9,
            achieved: 0.0,
            on_wire: None,
            capacity: Some(0.04),
            waited: 0.7,
            speed: None,
        };
        assert_eq!(load.less_words().expect("it is known").join(" "), "--load 0.0320");
        assert!(load.won().contains("22.50 times"), "{}", load.won());
        let unknown = Load { capacity: None, ..load };
        assert_eq!(unknown.less_words(), None);
        assert!(unknown.won().contains("not known"), "{}", unknown.won());
        assert!(load.words().contains(" 70 % of the messages had to wait"), "{}", load.words());
        assert_eq!(
            Load { achieved: 0.5, ..unknown }.less_words().expect("carried").join(" "),
            "--load 0.400"
        );
    }

    #[test]
    fn no_more_messages_wait_than_there_are() {
        let figure = |messages: serde_json::Value| {
            let figure = json!({
                "schema": "", "command": "perf", "test": "echoWorkload", "transport": "basic+sim",
                "name": "echoWorkload.W1.90.all", "value": 9e6, "unit": "ns", "statistic": "p50", "samples": 2500,
                "in_flight": 1024, "decile": null, "load": 0.9, "drawn_load": 0.87, "achieved_load": 0.0,
                "wire_load": 1.8, "waited": 142_539, "messages": messages,
            });
            serde_json::from_value::<RecordedFigure>(figure).expect("a figure")
        };
        let waited = |messages| Load::of(&figure(messages)).expect("an open loop").waited;
        assert!((waited(json!(196_300)) - 0.726).abs() < 0.001);
        assert!(waited(json!(null)) <= 1.0);
    }

    #[test]
    fn a_load_that_is_carried_is_none() {
        assert_eq!(rules(0.8, 0.77, 2), [""; 0]);
    }
}
