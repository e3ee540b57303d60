//! What runs of `--vary` say: the only ones that change something themselves, and so may confirm and refute.
//!
//! A factor whose effect is beyond doubt confirms that the figure depends on what the factor sets; one that
//! stays within the indifference refutes it, as far as its two levels go. The cause that a factor acts on is
//! known for some.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{RecordedFigure, RecordedRun};
use crate::explain::analysis::finding::{Finding, Section};
use crate::explain::vary::{BLOCKS_MAX, INDIFFERENCE};

/// An effect as its record has it.
#[derive(Clone, Debug, PartialEq)]
pub struct VariedEffect {
    /// Transport, row and figure.
    pub about: String,
    /// `effect`, `interaction`, `added_in` or `left_out`.
    pub kind: String,
    /// The factors, with their two levels where the record has them.
    pub factors: Vec<String>,
    /// What the figure is multiplied by.
    pub ratio: f64,
    /// The 95 % interval of that.
    pub interval: Option<(f64, f64)>,
    /// `better`, `worse`, `inert` or `undecided`.
    pub verdict: String,
    /// Whether it is told apart from others.
    pub separable: bool,
    /// How many blocks it rests on.
    pub blocks: u64,
    /// Whether it is on the figure that its command shows.
    is_shown: bool,
    /// What was allowed to it, and whether it kept to that.
    guard: Option<(f64, String)>,
}

/// What setting a parameter acts on, by a part of its name.
const ACTS_ON: [(&str, &str); 9] = [
    ("ring_bytes", "room in the rings"),
    ("ring.batch_bytes", "how many messages leave as one record"),
    ("ring.inline_bytes", "whether payloads are copied through the ring or lent"),
    ("fault.delay", "the way between the two"),
    ("fabric.link.propagation_ns", "the way between the two"),
    ("fabric.link.gbps", "the rate of the links"),
    ("rtt_bytes", "the wait for grants"),
    ("checksum", "work on every byte of a packet"),
    ("fabric.host.", "the hosts' own work"),
];

impl VariedEffect {
    /// An effect on the figure that its command shows, or on one that it guards; `None` of every other
    /// record.
    fn of(figure: &RecordedFigure) -> Option<Self> {
        let more = &figure.more;
        let text = |field: &str| more.get(field)?.as_str();
        let kind = text("kind").filter(|kind| *kind != "run")?;
        let is_shown = more.get("shown") == Some(&Value::Bool(true));
        let bound = |field: &str| more.get(field)?.as_f64().filter(|bound| *bound > 0.0);
        let levels = more.get("levels").and_then(Value::as_object);
        let names: Vec<&str> = more.get("factors")?.as_array()?.iter().filter_map(Value::as_str).collect();
        let guard = more.get("guard").and_then(|guard| {
            Some((guard.get("worse_at_most")?.as_f64()?, guard.get("verdict")?.as_str()?.to_owned()))
        });
        if figure.value <= 0.0 || !is_shown && guard.is_none() {
            return None;
        }
        Some(Self {
            about: format!("{} {}, {}", figure.transport, text("varied")?, text("figure")?),
            kind: kind.to_owned(),
            factors: names.into_iter().map(|name| with_levels(name, levels)).collect(),
            ratio: figure.value,
            interval: bound("ratio_low").zip(bound("ratio_high")),
            verdict: text("verdict")?.to_owned(),
            separable: more.get("separable") != Some(&Value::Bool(false)),
            blocks: figure.samples,
            is_shown,
            guard,
        })
    }

    /// Whether it is of one factor over all levels of the others.
    fn is_of_factor(&self) -> bool {
        self.kind == "effect" && self.factors.len() == 1
    }

    fn is_real(&self) -> bool {
        !self.is_without_width() && matches!(self.verdict.as_str(), "better" | "worse")
    }

    /// What it is of, in a few words.
    pub fn name(&self) -> String {
        match self.kind.as_str() {
            "interaction" => self.factors.join(" x "),
            "added_in" => format!("{} added in", self.factors.join(", ")),
            "left_out" => format!("{} left out", self.factors.join(", ")),
            _ if self.is_of_factor() => self.factors[0].clone(),
            _ => "all of them together".to_owned(),
        }
    }

    /// Whether all blocks found exactly the same change: they were copies, and tell as much as one.
    fn is_without_width(&self) -> bool {
        self.ratio != 1.0 && self.interval.is_some_and(|(low, high)| high <= low)
    }

    /// By how much the figure changes, and how sure that is.
    pub fn change(&self) -> String {
        let percent = |ratio: f64| (ratio - 1.0) * 100.0;
        let interval = self.interval.map_or_else(String::new, |(low, high)| {
            format!(" [{:+.1}, {:+.1}]", percent(low), percent(high))
        });
        format!("{:+.1} %{interval}", percent(self.ratio))
    }

    /// How many blocks would make the interval so narrow that an effect like this were decided: that it
    /// leaves out a ratio of 1, or lies within the indifference, whichever comes first.
    fn blocks_needed(&self) -> Option<u64> {
        let (low, high) = self.interval?;
        let half = (high / low).ln() / 2.0;
        let effect = self.ratio.ln().abs();
        let margin = effect.max(INDIFFERENCE.ln_1p() - effect);
        Some((self.blocks as f64 * (half / margin).powi(2)).ceil() as u64).filter(|more| *more > self.blocks)
    }
}

fn with_levels(name: &str, levels: Option<&Map<String, Value>>) -> String {
    let both = levels.and_then(|levels| levels.get(name)?.as_array());
    match both.map(|both| both.iter().filter_map(Value::as_str).collect::<Vec<_>>()).as_deref() {
        Some([first, second]) => format!("{name} {first} → {second}"),
        _ => name.to_owned(),
    }
}

/// The effects of a run on the figures that its command shows, by what they are on.
pub fn varied_effects(run: &RecordedRun) -> BTreeMap<String, Vec<VariedEffect>> {
    by_figure(run, |effect| effect.is_shown)
}

fn by_figure(
    run: &RecordedRun,
    is_wanted: impl Fn(&VariedEffect) -> bool,
) -> BTreeMap<String, Vec<VariedEffect>> {
    let mut effects: BTreeMap<String, Vec<VariedEffect>> = BTreeMap::new();
    for effect in run.figures.iter().filter_map(VariedEffect::of).filter(is_wanted) {
        effects.entry(effect.about.clone()).or_default().push(effect);
    }
    effects
}

/// What the interventions of some runs confirm and refute, the strongest first for each figure.
pub fn interventions(runs: &[RecordedRun]) -> Vec<Finding> {
    let several = runs.len() > 1;
    let of_run = |run: &RecordedRun| {
        let of_figure = |(about, effects): (String, Vec<VariedEffect>)| {
            let about = if several { format!("{}: {about}", run.name) } else { about };
            of_figure(&about, effects)
        };
        by_figure(run, |_| true).into_iter().flat_map(of_figure).collect::<Vec<_>>()
    };
    runs.iter().flat_map(of_run).collect()
}

fn of_figure(about: &str, mut effects: Vec<VariedEffect>) -> Vec<Finding> {
    effects.sort_by(|a, b| {
        let strength = |effect: &VariedEffect| (effect.is_real(), effect.verdict != "inert");
        let size = |effect: &VariedEffect| effect.ratio.ln().abs();
        strength(b).cmp(&strength(a)).then(size(b).total_cmp(&size(a)))
    });
    // Of a figure that is there for its guard only, nothing else was asked.
    let guards: Vec<_> = effects.iter().filter_map(|effect| guarded(about, effect)).collect();
    effects.retain(|effect| effect.is_shown);
    let factors = effects.iter().filter(|effect| effect.is_of_factor());
    let mut findings: Vec<_> =
        factors.enumerate().map(|(place, effect)| hypothesis(about, place + 1, effect)).collect();
    let pairs = effects.iter().filter(|effect| effect.kind == "interaction" && effect.is_real());
    findings.extend(pairs.map(|effect| together(about, effect)));
    findings.extend(guards);
    let undecided = effects.iter().filter(|effect| effect.is_of_factor() && effect.verdict == "undecided");
    let needed = undecided.filter_map(VariedEffect::blocks_needed).max();
    findings.extend(needed.map(|needed| more_blocks(about, needed)));
    findings
}

/// That it is worth running again, with as many blocks as are needed or as the command line takes.
fn more_blocks(about: &str, needed: u64) -> Finding {
    let blocks = needed.min(BLOCKS_MAX);
    let beside =
        if needed > BLOCKS_MAX { " and more in each run, as blocks alone may not be enough" } else { "" };
    let sentence = format!(
        "what is neither confirmed nor refuted would be with narrower intervals: run it again with `--blocks {blocks}`{beside}"
    );
    Finding::new(Section::NextExperiment, "more_blocks", about, sentence).with([("blocks", blocks as f64)])
}

/// That the figure depends on what the factor sets.
fn hypothesis(about: &str, rank: usize, effect: &VariedEffect) -> Finding {
    let (name, change) = (effect.name(), effect.change());
    let acts_on = ACTS_ON.iter().find(|(part, _)| name.contains(part));
    let cause = acts_on.map_or_else(String::new, |(_, cause)| format!(", which acts on {cause}"));
    let (rule, sentence) = match effect.verdict.as_str() {
        _ if effect.is_without_width() => (
            "without_width",
            format!(
                "neither confirmed nor refuted: `{name}`{cause}: {change}, an interval of width zero: all {} blocks found the \
                 same, so that nothing was drawn again and chance was not looked at",
                effect.blocks
            ),
        ),
        "better" | "worse" => (
            "confirmed",
            format!("confirmed: the figure depends on `{name}`{cause}: {change}, {}", effect.verdict),
        ),
        "inert" => (
            "refuted",
            format!(
                "refuted: the figure does not depend on `{name}`{cause}: {change}, within 1 % either way"
            ),
        ),
        _ => (
            "undecided",
            format!("neither confirmed nor refuted: `{name}`{cause}: {change} over {} blocks", effect.blocks),
        ),
    };
    Finding::new(Section::Hypothesis, rule, about, sentence)
        .with([("rank", rank as f64), ("ratio", effect.ratio)])
        .with(effect.interval.into_iter().flat_map(|(low, high)| [("ratio_low", low), ("ratio_high", high)]))
}

fn together(about: &str, effect: &VariedEffect) -> Finding {
    let (name, change) = (effect.name(), effect.change());
    let (section, rule, sentence) = if effect.separable {
        let sentence = format!("they act together, beyond what each does alone: {name}, {change}");
        (Section::Effect, "factors_together", sentence)
    } else {
        let sentence =
            format!("some of these pairs act together, and the runs cannot tell which: {name}, {change}");
        (Section::NotIdentifiable, "aliased", sentence)
    };
    Finding::new(section, rule, about, sentence).with([("ratio", effect.ratio)])
}

fn guarded(about: &str, effect: &VariedEffect) -> Option<Finding> {
    let (allowed, verdict) = effect.guard.as_ref().filter(|_| effect.is_of_factor())?;
    let sentence = format!(
        "`{}` {} the guard, which allows {:.1} % worse: {}",
        effect.name(),
        match verdict.as_str() {
            "kept" => "keeps",
            "broken" => "breaks",
            _ => "neither keeps nor breaks",
        },
        allowed * 100.0,
        effect.change()
    );
    Some(Finding::new(Section::Effect, "guard", about, sentence).with([("ratio", effect.ratio)]))
}

#[cfg(test)]
mod tests;
