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
    /// The share of messages that were due while their client had as many in flight as it may.
    pub waited: f64,
    /// How many times as fast recorded arrivals were replayed, where they were not drawn.
    pub speed: Option<f64>,
}

/// An open loop that completes less than this part of what was due is behind.
const CARRIED_MIN: f64 = 0.9;

/// What is carried at least, where nothing was completed in the window.
const CARRIED_LEAST: f64 = 0.001;

/// The part of what is carried at which nothing grows.
const LESS_LOAD: f64 = 0.8;

/// The least load and speed that are proposed: less is refused.
const LOAD_LEAST: f64 = 0.001;

/// A client that is out of places for so many of its messages has a queue that grows.
const WAITED_MAX: f64 = 0.01;

impl Load {
    /// That of a figure, if it is one of an open loop as a whole.
    pub fn of(figure: &RecordedFigure) -> Option<Self> {
        let number = |field: &str| figure.more.get(field).and_then(Value::as_f64);
        let (offered, drawn, achieved) = (number("load")?, number("drawn_load")?, number("achieved_load")?);
        let is_whole = figure.statistic == "p50" && figure.unit == "ns" && number("decile").is_none();
        let waited = number("waited").unwrap_or(0.0) / figure.samples.max(1) as f64;
        let (on_wire, speed) = (number("wire_load"), number("speed"));
        let load = Self { offered, drawn, achieved, on_wire, waited, speed };
        (is_whole && drawn > 0.0).then_some(load)
    }

    /// The part of what was due that was completed in time.
    pub fn carried(self) -> f64 {
        (self.achieved / self.drawn).max(CARRIED_LEAST)
    }

    /// A load of which all is carried.
    pub fn less(self) -> f64 {
        match self.carried() > CARRIED_LEAST {
            true => LESS_LOAD * self.achieved.min(self.offered),
            // The queue was longer than the window: what could be carried is not known.
            false => self.offered / 100.0,
        }
    }

    /// The option that offers that load, with its value.
    pub fn less_words(self) -> Vec<String> {
        let (option, value) = match self.speed {
            Some(speed) => ("--speed", speed * self.less() / self.offered),
            None => ("--load", self.less()),
        };
        vec![option.to_owned(), format!("{:.3}", value.max(LOAD_LEAST))]
    }

    /// Whether more was offered than is carried: then times say how long the load has lasted.
    pub fn is_too_much(self) -> bool {
        self.carried() < CARRIED_MIN
            || self.waited > WAITED_MAX
            || self.on_wire.is_some_and(|load| load > 1.0)
    }

    /// The offer and what was carried, in words.
    pub fn words(self) -> String {
        let percent = |part: f64| format!("{:.0} %", part * 100.0);
        let on_wire = self.on_wire.map(|load| format!(" ({} with what the protocol adds)", percent(load)));
        let waited = format!(", {} of the messages had to wait to start", percent(self.waited));
        format!(
            "of {} of the links' rate that were due{} {} were carried{}, so that times grow with the run",
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
    let sentence = format!(
        "1. saturation: more is offered than is carried: {}; without it up to {gain:.2} times the part that is carried",
        load.words()
    );
    let less = load.less_words().join(" ");
    let next = format!(
        "run it again with `{less}`: all that is due is carried if this is it, and the times are those of messages"
    );
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
            "wire_load": null, "waited": waited,
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
    fn a_load_that_is_carried_is_none() {
        assert_eq!(rules(0.8, 0.77, 2), [""; 0]);
    }
}
