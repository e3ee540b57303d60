//! One thing that the figures say.

use core::fmt;

use serde::Serialize;
use serde_json::{Map, Value, json};

/// The version of the objects in which findings are written.
pub const SCHEMA: &str = "farcall.finding.v1";

/// What kind of statement a finding is; also the order in which findings are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Section {
    /// What limits, how sure that is, and what to do next: a sentence each.
    Summary,
    /// Figures that cannot all be true.
    Contradiction,
    /// Figures that say less than they seem to.
    Caution,
    /// Figures that agree with each other, and what that says about their units and formulas.
    Agreement,
    /// What was taken for granted, and can be struck.
    Assumption,
    /// Ranges over which one law holds.
    Regime,
    /// What the laws of queueing allow.
    Bound,
    /// What a change did.
    Effect,
    /// What may limit, the likeliest first.
    Hypothesis,
    /// What these figures cannot tell, and why.
    NotIdentifiable,
    /// The cheapest experiment that would tell.
    NextExperiment,
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Summary => "in short",
            Self::Contradiction => "contradictions",
            Self::Caution => "cautions",
            Self::Agreement => "agreements",
            Self::Assumption => "assumptions",
            Self::Regime => "regimes",
            Self::Bound => "bounds",
            Self::Effect => "effects of changes",
            Self::Hypothesis => "hypotheses",
            Self::NotIdentifiable => "not identifiable",
            Self::NextExperiment => "next experiment",
        })
    }
}

/// One thing that the figures say.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The kind of statement.
    pub section: Section,
    /// Which rule found it, such as `mean_below_quantiles`.
    pub rule: &'static str,
    /// The table or part of the document that it is about.
    pub about: String,
    /// The statement.
    pub sentence: String,
    /// Its numbers, by name.
    pub figures: Vec<(&'static str, f64)>,
}

impl Finding {
    /// A finding without numbers.
    pub fn new(section: Section, rule: &'static str, about: impl Into<String>, sentence: String) -> Self {
        Self { section, rule, about: about.into(), sentence, figures: Vec::new() }
    }

    /// Adds numbers.
    pub fn with(mut self, figures: impl IntoIterator<Item = (&'static str, f64)>) -> Self {
        self.figures.extend(figures);
        self
    }

    /// The number of that name.
    pub fn figure(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|(own, _)| *own == name).map(|(_, value)| *value)
    }

    /// The finding as an object; docs/audit.md describes it.
    pub fn to_json(&self) -> Value {
        let figures: Map<_, _> =
            self.figures.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        json!({
            "schema": SCHEMA,
            "section": self.section,
            "rule": self.rule,
            "about": self.about,
            "sentence": self.sentence,
            "figures": figures,
        })
    }
}
