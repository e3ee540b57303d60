//! What an examination found, and what to do about it.

use serde_json::{Value, json};

/// The version of the JSON objects of this command.
pub const SCHEMA: &str = "farcall.doctor.v1";

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// As it should be.
    Good,
    /// Worth knowing; nothing is wrong.
    Note,
    /// It works, but slower than it could, or not everywhere.
    Warning,
    /// Something cannot work.
    Mend,
}

impl Severity {
    /// As which it is shown.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Mend => "mend",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub severity: Severity,
    /// What was looked at.
    pub subject: String,
    /// How it is.
    pub state: String,
    /// What to do.
    pub advice: Option<String>,
}

impl Finding {
    /// As it should be.
    pub fn good(subject: impl Into<String>, state: impl Into<String>) -> Self {
        Self { severity: Severity::Good, subject: subject.into(), state: state.into(), advice: None }
    }

    /// Worth knowing.
    pub fn note(subject: impl Into<String>, state: impl Into<String>) -> Self {
        Self { severity: Severity::Note, ..Self::good(subject, state) }
    }

    /// Something could be better, and how.
    pub fn warning(subject: impl Into<String>, state: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::note(subject, state) }.with(advice)
    }

    /// Something must be mended, and how.
    pub fn mend(subject: impl Into<String>, state: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { severity: Severity::Mend, ..Self::note(subject, state) }.with(advice)
    }

    /// With what to do.
    pub fn with(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }

    /// As JSON, of an area.
    pub fn object(&self, area: &str) -> Value {
        let Self { severity, subject, state, advice } = self;
        json!({
            "schema": SCHEMA,
            "kind": "finding",
            "area": area,
            "severity": severity.word(),
            "subject": subject,
            "state": state,
            "advice": advice,
        })
    }
}
